"""Noise of any scale has its distribution and the requested scale."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import gamma, laplace, norm

from skdp.randomness import SecureSource, SeededSource, cube_noise, discrete_laplace, rounded_gaussian
from tests.conftest import often

FALSE_ALARM = 1e-6
SCALES = [Fraction(1, 700), Fraction(1, 5), Fraction(1, 2), 1, Fraction(7, 3), 18, 19, 100, 1000, 2**20]
VARIANCES = [Fraction(1, 25), Fraction(1, 2), 1, Fraction(49, 9), 100, Fraction(10**6 + 1, 3)]
# Each type of noise, by scale, as a vector of some length.
KINDS = {
    "discrete_laplace": discrete_laplace,
    "rounded_gaussian": lambda source, scale, size: rounded_gaussian(source, scale**2, size),
    "cube_noise": lambda source, scale, size: cube_noise(source, scale, 1, size)[:, 0],
}


def edges(scale):
    """Return cells of single numbers, then wider cells, far into the tail."""
    ends = [*range(40), *(40 + math.ceil(scale * step / 4) for step in range(1, 120)), 2**62]
    return sorted(set(ends))


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_follows_its_distribution_on_both_sides(fits, scale):
    n = 200_000
    drawn = discrete_laplace(SeededSource("laplace", str(scale)), scale, n)
    a = math.exp(-1 / scale)
    side = [(math.exp(-left / scale) - math.exp(-right / scale)) / (1 + a) for left, right in pairwise(edges(scale))]
    above, _ = np.histogram(drawn, edges(scale))
    below, _ = np.histogram(-1 - drawn, edges(scale))
    assert above.sum() + below.sum() == n
    # -1 - z >= 0 stands for z < 0, whose distribution begins at a**1.
    assert fits([*above, *below], [*side, *(share * a for share in side)], n) > FALSE_ALARM


@pytest.mark.parametrize("variance", VARIANCES)
def test_gaussian_noise_follows_its_distribution(fits, variance):
    """Real numbers that are rounded."""
    n, deviation = 200_000, math.sqrt(variance)
    drawn = rounded_gaussian(SeededSource("gaussian", str(variance)), variance, n)
    assert drawn.dtype == np.int64
    radius = math.ceil(12 * deviation) + 2
    values = np.arange(-radius, radius + 1)
    below = norm.cdf(-(np.abs(values) - 0.5) / deviation)  # tail probability, on the side where it is small
    pmf = np.where(
        values == 0, 1 - 2 * norm.cdf(-0.5 / deviation), below - norm.cdf(-(np.abs(values) + 0.5) / deviation)
    )
    width = max(1, radius // 60)  # several numbers in a cell if there are many
    starts = range(0, values.size, width)
    counts = np.bincount(drawn + radius, minlength=values.size)
    shares = [pmf[start : start + width].sum() for start in starts]
    assert fits([counts[start : start + width].sum() for start in starts], shares, n) > FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 5), 1, Fraction(7, 3)])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_cube_noise_follows_its_distribution_at_every_point(fits, scale, dimension):
    n, radius, a = 100_000, 6, math.exp(-1 / scale)
    drawn = cube_noise(SeededSource("cube", str(scale), dimension), scale, dimension, n)
    assert drawn.shape == (n, dimension)
    assert drawn.dtype == np.int64
    shells = [(2 * m + 1) ** dimension - (2 * m - 1) ** dimension if m else 1 for m in range(400)]
    total = sum(points * a**m for m, points in enumerate(shells))
    points = np.array(list(product(range(-radius, radius + 1), repeat=dimension)))
    pmf = a ** np.abs(points).max(axis=1) / total
    inside = np.abs(drawn).max(axis=1) <= radius
    index = np.ravel_multi_index((drawn[inside] + radius).T, [2 * radius + 1] * dimension)
    assert fits(np.bincount(index, minlength=len(points)), pmf, n) > FALSE_ALARM


@pytest.mark.parametrize(
    ("scale", "dimension"), [(2**40, 11), (2**40, 2), (2**30, 100), (2**30, 3_000), (10**30, 3), (10**300, 2)]
)
def test_large_noise_follows_the_continuous_distribution(fits, scale, dimension):
    """The maximum norm of density e^(-max |z|) is gamma of shape D; given the norm, the coordinates are uniform."""
    n = 1_000
    drawn = cube_noise(SeededSource("large", scale, dimension), scale, dimension, n)
    assert drawn.dtype == (np.int64 if scale <= 2**40 else object)
    norm = np.array([float(Fraction(int(value), scale)) for value in np.abs(drawn).max(axis=1)])
    cells = gamma.ppf(np.linspace(0.01, 0.99, 12), dimension)
    assert fits(np.histogram(norm, cells)[0], np.diff(gamma.cdf(cells, dimension)), n) > FALSE_ALARM
    # A coordinate attains the norm with probability 1 / D, and is uniform otherwise.
    first = np.array([float(Fraction(int(value), scale)) for value in drawn[:, 0]]) / norm
    pmf = [(1 - 1 / dimension) / 10] * 10
    assert fits(np.histogram(first[np.abs(first) < 1], np.linspace(-1, 1, 11))[0], pmf, n) > FALSE_ALARM


@pytest.mark.parametrize("name", often(KINDS, ["discrete_laplace", "rounded_gaussian"]))
@pytest.mark.parametrize("scale", often([2**52 + 1, 2**60, 10**30, Fraction(10**300, 7)], [10**30]))
def test_huge_noise_is_exact_python_integers(fits, name, scale):
    n = 1_500
    drawn = KINDS[name](SeededSource("enormous", name, str(scale)), scale, n)
    assert drawn.dtype == object or scale < 2**62
    continuous = norm if "gaussian" in name else laplace
    cells = np.linspace(-6, 6, 25)
    pmf = np.diff(continuous.cdf(cells))
    counts, _ = np.histogram([float(Fraction(int(value)) / scale) for value in drawn], cells)
    assert fits(counts, pmf, n) > FALSE_ALARM
    assert 0.3 < np.mean([int(value) & 1 for value in drawn]) < 0.7  # down to the last bit


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(1, 10**30), Fraction(1, 10**300)])
def test_tiny_noise_is_0(name, scale):
    assert not KINDS[name](SecureSource(), scale, 200).any()
    # The radius of a cube is accepted relative to its mode 0, otherwise once in 2^D D!.
    assert not cube_noise(SecureSource(), scale, 30, 50).any()


def test_tail_of_geometric_noise_is_not_cut(scripted_source):
    """Bytes of 0 exceed the binary digits several times, so that the number is larger than their sum can be."""
    assert discrete_laplace(scripted_source(np.zeros(40), filler=255), 1, 1) > 64


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", [0, 1, 2, (1 << 14) + 1, (1 << 16) + 3])
def test_number_of_draws_is_the_requested_size(name, size):
    drawn = KINDS[name](SeededSource(size), 1000, size)
    assert drawn.shape == (size,)
    assert size < 1000 or len(set(drawn[-100:].tolist())) > 50


def test_draws_of_many_threads_are_reproducible():
    scales = [Fraction(i, 7) for i in range(1, 60)]  # more scales than the cache contains

    def draw(scale):
        return discrete_laplace(SeededSource("threads"), scale, 5_000).tolist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(draw, scales * 2)) == [draw(scale) for scale in scales] * 2


@pytest.mark.parametrize(
    "draw", [discrete_laplace, rounded_gaussian, lambda source, scale, size: cube_noise(source, scale, size)]
)
@pytest.mark.parametrize("scale", [0, Fraction(-1, 3), 1.0, math.nan, True, np.float64(2), "1", None])
def test_invalid_scale_raises_before_drawing(scripted_source, draw, scale):
    error = ValueError if isinstance(scale, int | Fraction) and scale is not True else TypeError
    with pytest.raises(error, match=r"`(scale|variance)` must be"):
        draw(scripted_source(), scale, 1)


@pytest.mark.parametrize(("dimension", "error"), [(0, ValueError), (2.0, TypeError)])
def test_invalid_dimension_raises_before_drawing(scripted_source, dimension, error):
    with pytest.raises(error, match="dimension"):
        cube_noise(scripted_source(), 1, dimension)
