from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import laplace

from skdp.randomness import BLOCK, SecureSource, SeededSource, discrete_laplace, geometric
from skdp.randomness._discrete_noise import GeometricDigits
from tests.conftest import each

FALSE_ALARM = 1e-6
SCALES = [Fraction(1, 700), Fraction(1, 5), Fraction(1, 2), 1, Fraction(7, 3), 18, 19, 100, 1000, 2**20]


def edges(scale):
    """Single numbers first, then cells that grow, far into the tail."""
    ends = [*range(40), *(40 + math.ceil(scale * step / 4) for step in range(1, 120)), 2**62]
    return sorted(set(ends))


@each("scale", SCALES)
def test_geometric_numbers_have_their_law(fits, scale):
    n = 200_000
    drawn = geometric(SeededSource("geometric", str(scale)), scale, n)
    assert drawn.dtype == np.int64
    law = [math.exp(-left / scale) - math.exp(-right / scale) for left, right in pairwise(edges(scale))]
    observed, _ = np.histogram(drawn, edges(scale))
    assert observed.sum() == n
    assert fits(observed, law, n) > FALSE_ALARM


@each("scale", SCALES)
def test_discrete_laplace_has_its_law_on_both_sides(fits, scale):
    n = 200_000
    drawn = discrete_laplace(SeededSource("laplace", str(scale)), scale, n)
    a = math.exp(-1 / scale)
    side = [(math.exp(-left / scale) - math.exp(-right / scale)) / (1 + a) for left, right in pairwise(edges(scale))]
    above, _ = np.histogram(drawn, edges(scale))
    below, _ = np.histogram(-1 - drawn, edges(scale))
    assert above.sum() + below.sum() == n
    # -1 - z >= 0 stands for z < 0, whose law begins at a**1.
    assert fits([*above, *below], [*side, *(share * a for share in side)], n) > FALSE_ALARM


@each("scale", [Fraction(1, 700), Fraction(1, 5), 1, Fraction(7, 3), 100])
@each("number", [0, 1, 2, 3, 7, 40])
def test_the_digits_multiply_to_the_law(scale, number):
    """P(g) by the bounds of the coins, digit by digit, is (1 - a) a^g; the coins themselves are tested elsewhere."""
    digits = GeometricDigits(Fraction(scale))
    high, low = divmod(number, 1 << len(digits._coins))
    bits = 1_300
    lower = upper = Fraction(1)
    coins = [*((coin, low >> place & 1) for place, coin in enumerate(digits._coins))]
    coins += [(digits._more, True)] * high + [(digits._more, False)]
    for coin, heads in coins:
        bounds = [Fraction(bound, 1 << bits) for bound in coin._bounds(bits)]
        ends = bounds if heads else [1 - bounds[1], 1 - bounds[0]]
        lower, upper = lower * ends[0], upper * ends[1]
    exact = math.exp(-number / scale) * -math.expm1(-1 / scale)
    assert float(lower) <= float(upper) <= float(lower) * (1 + 1e-15)
    assert float(lower) == pytest.approx(exact, rel=1e-12, abs=0)


@each("scale", SCALES)
def test_the_sign_has_the_odds_of_a_step(scale):
    """a / (1 + a): the numbers -1 - g < 0 begin one step further from 0 than the numbers g."""
    lower, upper = (Fraction(bound, 2**1_200) for bound in GeometricDigits(Fraction(scale))._sign._bounds(1_200))
    odds = math.exp(-1 / scale)
    assert float(lower) == float(upper) == pytest.approx(odds / (1 + odds), rel=1e-12, abs=0)


def head(coin):
    """The bytes, first zeros, after which a coin shows heads."""
    zeros = next(place for place in range(1_000) if coin._digit(place))
    return [0] * (zeros + 1)


@each("scale", [Fraction(1, 5), 1, Fraction(7, 3), 100, 2**30])
def test_each_digit_and_the_sign_have_their_place(scripted_source, scale):
    digits = GeometricDigits(Fraction(scale))
    n_digits = len(digits._coins)
    for place in range(n_digits):
        script = [byte for i in reversed(range(n_digits)) for byte in (head(digits._coins[i]) if i == place else [255])]
        assert digits.draw(scripted_source(script, [255]), 1).tolist() == [1 << place]
        assert digits.draw(scripted_source(script, [255], [255]), 1, signed=True).tolist() == [1 << place]
        turned = digits.draw(scripted_source(script, [255], head(digits._sign)), 1, signed=True)
        assert turned.tolist() == [-1 - (1 << place)]


@pytest.mark.parametrize("scale", [Fraction(1, 700), Fraction(1, 5), 1, Fraction(7, 3), 100])
@pytest.mark.parametrize("times", [1, 30])
def test_the_tail_goes_on_for_ever(scripted_source, scale, times):
    digits = GeometricDigits(Fraction(scale))
    low = [255] * len(digits._coins)
    far = digits.draw(scripted_source(low, head(digits._more) * times, [255], head(digits._sign)), 1, signed=True)
    assert far.tolist() == [-1 - times * 2 ** len(digits._coins)]
    assert far.dtype == np.int64


def test_numbers_that_outgrow_int64_become_pythons(scripted_source):
    digits = GeometricDigits(Fraction(2**52))
    assert digits.dtype == np.int64
    assert len(digits._coins) == 56
    low = [255] * 56
    for times in (63, 64, 200):
        drawn = digits.draw(scripted_source(low, head(digits._more) * times, [255]), 1)
        assert drawn.tolist() == [times << 56]
        assert drawn.dtype == (object if times > 63 else np.int64)


@pytest.mark.parametrize("scale", [2**52 + 1, 10**30, Fraction(10**300, 7)])
def test_enormous_scales_give_python_integers(fits, scale):
    n = 1_500
    drawn = discrete_laplace(SeededSource("enormous", str(scale)), scale, n)
    assert drawn.dtype == object
    assert {type(value) for value in drawn} == {int}
    cells = np.linspace(-6, 6, 25)
    observed, _ = np.histogram([float(Fraction(value) / scale) for value in drawn], cells)
    assert fits(observed, np.diff(laplace.cdf(cells)), n) > FALSE_ALARM
    assert 0.4 < np.mean([value & 1 for value in drawn]) < 0.6  # down to the last bit


@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(1, 10**30), Fraction(1, 10**300)])
def test_tiny_scales_give_0(scale):
    assert not discrete_laplace(SecureSource(), scale, 1_000).any()


@each("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_as_many_as_asked_for(size):
    drawn = discrete_laplace(SeededSource(size), 1000, size)
    assert drawn.shape == (size,)
    assert size < BLOCK or len(set(drawn[-100:].tolist())) > 50


def test_numbers_of_integers_and_of_equal_fractions_are_the_same():
    for scale in (np.int64(3), np.uint8(3), Fraction(6, 2)):
        assert (
            discrete_laplace(SeededSource(0), scale, 50).tolist() == discrete_laplace(SeededSource(0), 3, 50).tolist()
        )


def test_draws_of_many_threads_are_reproducible():
    scales = [Fraction(i, 7) for i in range(1, 60)]  # more than are kept

    def draw(scale):
        return discrete_laplace(SeededSource("threads"), scale, 5_000).tolist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(draw, scales * 2)) == [draw(scale) for scale in scales] * 2


@each("draw", [geometric, discrete_laplace])
@each(
    "scale, error",
    [(0, ValueError), (-1, ValueError), (Fraction(-1, 3), ValueError)]
    + [(scale, TypeError) for scale in (1.0, math.nan, math.inf, True, np.True_, np.float64(2), "1", None)],
)
def test_a_scale_that_is_none_is_refused_before_any_draw(scripted_source, draw, scale, error):
    with pytest.raises(error, match="scale must be"):
        draw(scripted_source(), scale, 1)
