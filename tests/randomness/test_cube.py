from __future__ import annotations

import decimal
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import gamma

from skdp.randomness import SecureSource, SeededSource, cube_noise, discrete_laplace
from skdp.randomness._cube import _eulerian_numbers, _shares
from tests.conftest import each

FALSE_ALARM = 1e-6


@each("dimension", range(1, 8))
def test_the_radius_is_a_number_of_type_b_plus_geometric_numbers(dimension):
    """(2 M + 1)^D a^M = sum_k B(D, k) a^k C(M - k + D, D) a^(M - k): the second power is D + 1 geometric numbers'."""
    numbers = _eulerian_numbers(dimension)
    assert sum(numbers) == 2**dimension * math.factorial(dimension)
    for radius in range(20):
        ways = (
            number * math.comb(radius - k + dimension, dimension) for k, number in enumerate(numbers) if k <= radius
        )
        assert (2 * radius + 1) ** dimension == sum(ways)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_cubes_of_these_radii_make_the_law(dimension):
    """In exact numbers, for a = 1/2: the weight of z over all cubes that hold it is a^(max |z|) / (1 - a)."""
    a = Fraction(1, 2)
    for z in product(range(-2, 3), repeat=dimension):
        norm = max(map(abs, z))
        cubes = sum((2 * m + 1) ** dimension * a**m / (2 * m + 1) ** dimension for m in range(norm, 60))
        assert cubes == (a**norm - a**60) / (1 - a)


@each("dimension", [1, 2, 5, 30])
@each("exponent", [Fraction(1, 2**40), Fraction(1, 3), Fraction(5), Fraction(1000)])
@each("bits", [62, 126])
def test_the_shares_are_enclosed_tightly(dimension, exponent, bits):
    with decimal.localcontext(prec=600):
        a = (-decimal.Decimal(exponent.numerator) / decimal.Decimal(exponent.denominator)).exp()
        weights = [number * a**k for k, number in enumerate(_eulerian_numbers(dimension))]
        shares = [sum(weights[: k + 1]) / sum(weights) * 2**bits for k in range(dimension + 1)]
        bounds = _shares(exponent, dimension, bits)
        assert bounds[-1] == (1 << bits, 1 << bits)
        for (lower, upper), share in zip(bounds[:-1], shares[:-1], strict=True):
            assert lower <= share <= upper <= lower + 2


@pytest.mark.parametrize("scale", [Fraction(1, 5), 1, Fraction(7, 3)])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_cube_noise_has_its_law_at_every_point(fits, scale, dimension):
    n, reach, a = 100_000, 6, math.exp(-1 / scale)
    drawn = cube_noise(SeededSource("cube", str(scale), dimension), scale, dimension, n)
    assert drawn.shape == (n, dimension)
    assert drawn.dtype == np.int64
    shells = [(2 * m + 1) ** dimension - (2 * m - 1) ** dimension if m else 1 for m in range(400)]
    total = sum(points * a**m for m, points in enumerate(shells))
    points = np.array(list(product(range(-reach, reach + 1), repeat=dimension)))
    law = a ** np.abs(points).max(axis=1) / total
    inside = np.abs(drawn).max(axis=1) <= reach
    index = np.ravel_multi_index((drawn[inside] + reach).T, [2 * reach + 1] * dimension)
    assert fits(np.bincount(index, minlength=len(points)), law, n) > FALSE_ALARM


def test_one_dimension_is_discrete_laplace():
    n = 100_000
    cube = cube_noise(SeededSource("cube"), Fraction(5, 2), 1, n)[:, 0]
    plain = discrete_laplace(SeededSource("plain"), Fraction(5, 2), n)
    for value in range(-6, 7):
        difference = (cube == value).mean() - (plain == value).mean()
        assert abs(difference) < 5.5 * math.sqrt(2 * 0.2 / n)


@pytest.mark.parametrize(("scale", "dimension"), [(2**40, 11), (2**40, 2), (2**30, 100), (10**30, 3), (10**300, 2)])
def test_large_noise_has_the_continuous_law(fits, scale, dimension):
    """The maximum norm of density e^(-max |z|) has the gamma law of shape D, the parts are uniform, given the norm."""
    n = 1_000
    drawn = cube_noise(SeededSource("large", scale, dimension), scale, dimension, n)
    assert drawn.dtype == (np.int64 if scale <= 2**40 else object)
    norm = np.array([float(Fraction(int(value), scale)) for value in np.abs(drawn).max(axis=1)])
    cells = gamma.ppf(np.linspace(0.01, 0.99, 12), dimension)
    assert fits(np.histogram(norm, cells)[0], np.diff(gamma.cdf(cells, dimension)), n) > FALSE_ALARM
    # A part reaches the norm with probability 1 / D, and is uniform otherwise.
    first = np.array([float(Fraction(int(value), scale)) for value in drawn[:, 0]]) / norm
    law = [(1 - 1 / dimension) / 10] * 10
    assert fits(np.histogram(first[np.abs(first) < 1], np.linspace(-1, 1, 11))[0], law, n) > FALSE_ALARM


def test_small_noise_of_many_dimensions_is_0():
    """The radius is drawn without rejection, which would accept 0 once in 2^D D!."""
    assert not cube_noise(SecureSource(), Fraction(1, 100), 30, 50).any()
    assert cube_noise(SecureSource(), 5, 3).shape == (1, 3)
    assert cube_noise(SecureSource(), 5, 3, 0).shape == (0, 3)


def test_sums_that_could_outgrow_int64_are_pythons():
    assert cube_noise(SecureSource(), 2**51, 1).dtype == np.int64
    wide = cube_noise(SecureSource(), 2**51, 2)
    assert wide.dtype == object
    assert {type(value) for value in wide[0]} == {int}


@each(
    "scale, dimension, error, name",
    [
        (0, 1, ValueError, "scale"),
        (1.0, 1, TypeError, "scale"),
        (True, 1, TypeError, "scale"),
        (1, 0, ValueError, "dimension"),
        (1, 2.0, TypeError, "dimension"),
        (1, True, TypeError, "dimension"),
    ],
)
def test_bad_parameters_are_refused_before_any_draw(scripted_source, scale, dimension, error, name):
    with pytest.raises(error, match=name):
        cube_noise(scripted_source(), scale, dimension)
