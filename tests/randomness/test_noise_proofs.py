"""Proofs of the exact distribution of noise: digits, coins and rejection, with the numbers of the code."""

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.exact import exp_bounds, exp_minus_bounds
from skdp.randomness import SeededSource, rounded_gaussian
from skdp.randomness import _noise as module
from skdp.randomness._noise import GeometricDigits, Uniform, _eulerian_numbers, _radius_bounds

# Geometric numbers, digit by digit.


@pytest.mark.parametrize("scale", [Fraction(1, 700), Fraction(1, 5), 1, Fraction(7, 3), 100])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 7, 40])
def test_digits_multiply_to_the_geometric_distribution(scale, number):
    """P(g) from the bounds of the coins, digit by digit, is (1 - a) a^g; the coins have their own tests."""
    digits = GeometricDigits(Fraction(scale))
    high, low = divmod(number, 1 << len(digits._digits))
    bits = 1_300
    lower = upper = Fraction(1)
    coins = [*((coin, low >> position & 1) for position, coin in enumerate(digits._digits))]
    coins += [(digits._exceeds, True)] * high + [(digits._exceeds, False)]
    for coin, heads in coins:
        bounds = [Fraction(bound, 1 << bits) for bound in coin._bounds(bits)]
        ends = bounds if heads else [1 - bounds[1], 1 - bounds[0]]
        lower, upper = lower * ends[0], upper * ends[1]
    exact = math.exp(-number / scale) * -math.expm1(-1 / scale)
    assert float(lower) <= float(upper) <= float(lower) * (1 + 1e-15)
    assert float(lower) == pytest.approx(exact, rel=1e-12, abs=0)


@pytest.mark.parametrize("scale", [Fraction(1, 700), Fraction(1, 5), 1, Fraction(7, 3), 18, 1000, 2**20])
def test_sign_has_the_odds_of_one_step(scale):
    """a / (1 + a): the numbers -1 - g < 0 begin one step further from 0 than the numbers g."""
    lower, upper = (Fraction(bound, 2**1_200) for bound in GeometricDigits(Fraction(scale))._sign._bounds(1_200))
    odds = math.exp(-1 / scale)
    assert float(lower) == float(upper) == pytest.approx(odds / (1 + odds), rel=1e-12, abs=0)


def head(coin):
    """Return the bytes, zeros first, after which a coin shows heads."""
    zeros = next(position for position in range(1_000) if coin._digit(position))
    return [0] * (zeros + 1)


@pytest.mark.parametrize("scale", [Fraction(1, 5), 1, Fraction(7, 3), 100, 2**30])
def test_each_digit_and_the_sign_have_their_position(scripted_source, scale):
    digits = GeometricDigits(Fraction(scale))
    n_digits = len(digits._digits)
    for position in range(n_digits):
        script = [
            byte for i in reversed(range(n_digits)) for byte in (head(digits._digits[i]) if i == position else [255])
        ]
        assert digits.draw(scripted_source(script, [255]), 1).tolist() == [1 << position]
        assert digits.draw(scripted_source(script, [255], [255]), 1, signed=True).tolist() == [1 << position]
        turned = digits.draw(scripted_source(script, [255], head(digits._sign)), 1, signed=True)
        assert turned.tolist() == [-1 - (1 << position)]


@pytest.mark.parametrize("scale", [Fraction(1, 700), Fraction(1, 5), 1, Fraction(7, 3), 100])
@pytest.mark.parametrize("times", [1, 30])
def test_tail_is_unbounded(scripted_source, scale, times):
    digits = GeometricDigits(Fraction(scale))
    low = [255] * len(digits._digits)
    far = digits.draw(scripted_source(low, head(digits._exceeds) * times, [255], head(digits._sign)), 1, signed=True)
    assert far.tolist() == [-1 - times * 2 ** len(digits._digits)]
    assert far.dtype == np.int64


# The rounded Gaussian.


@pytest.mark.parametrize("variance", [Fraction(256), Fraction(1000, 3), Fraction(1023), Fraction(10**9)])
def test_accepted_numbers_have_exactly_the_normal_density(variance):
    """The proposal e^(-k / t) times the coin e^-f is a constant times e^(-(k + U)^2 / 2s), and f is at least 0."""
    scale = math.isqrt(math.floor(variance))
    rest = set()
    for cell in [0, 1, 2, scale - 1, scale, scale + 1, 7 * scale, 10**30]:
        for position in [Fraction(0), Fraction(1, 3), Fraction(1, 2), 1 - Fraction(1, 2**200)]:
            f = module._exponent(cell, position, variance, scale)
            assert f >= 0
            rest.add(f + Fraction(cell, scale) - (cell + position) ** 2 / (2 * variance))
    assert len(rest) == 1


@pytest.mark.parametrize("variance", [Fraction(256), Fraction(2000, 7)])
@pytest.mark.parametrize("bits", [1, 3, 5, 64])
def test_coin_is_decided_only_for_the_whole_interval_of_uniform_numbers(scripted_source, variance, bits):
    scale = math.isqrt(math.floor(variance))
    for cell in [0, 1, scale, 3 * scale]:
        for value in range(1 << min(bits, 5)):
            position = Uniform(scripted_source(), value, bits)  # without further bits
            lower, upper = module._acceptance_bounds(cell, position, variance, scale, bits)
            for end in (0, 1):
                x = module._exponent(cell, Fraction(value + end, 1 << bits), variance, scale)
                witness = exp_bounds(x)
                assert lower * witness[1] <= 1 << bits
                assert upper * witness[0] >= 1 << bits
            assert 0 <= upper - lower <= 4


@pytest.mark.parametrize("variance", [1, Fraction(1, 10**400), Fraction(10**12, 7), 10**31, 10**700])
def test_exponents_have_the_stated_rounding_error(monkeypatch, variance):
    known = {}
    original = module._accept_cells

    def capture(source, cells, positions, variance, scale):
        known.update(variance=variance, scale=scale, dtype=cells.dtype)
        return original(source, cells, positions, variance, scale)

    monkeypatch.setattr(module, "_accept_cells", capture)
    rounded_gaussian(SeededSource(0), variance, 1)
    variance, scale = known["variance"], known["scale"]
    assert variance >= 256
    assert scale**2 <= variance < (scale + 1) ** 2
    near = [0, 1, 2, 9, scale // 2, scale - 1, scale, scale + 1, 3 * scale, 7 * scale, 40 * scale, 300 * scale]
    ends = [0, 1, 2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1]
    cells = np.array(near, known["dtype"]).repeat(len(ends))
    positions = np.array(ends * len(near), np.int64)

    def check(source, rounded, bounds):
        for x, cell, position in zip(rounded.tolist(), cells, positions, strict=True):
            for end in (0, 1):
                f = module._exponent(int(cell), Fraction(int(position) + end, 2**63), variance, scale)
                assert abs(Fraction(x) - f) < max(1, f) / 2**42
        return np.ones(rounded.size, bool)

    monkeypatch.setattr(module, "bernoulli_of_exponents", check)
    assert original(SeededSource(0), cells, positions, variance, scale).all()


@pytest.mark.parametrize("variance", [Fraction(1, 25), 1, 10**6])
def test_proven_digits_decide_coins_as_floats(monkeypatch, variance):
    n = 1_000
    drawn = rounded_gaussian(SeededSource("settle"), variance, n)
    settled, bounds = [], module._acceptance_bounds
    monkeypatch.setattr(module, "_acceptance_bounds", lambda *args: settled.append(1) or bounds(*args))
    monkeypatch.setattr(module, "_MAX_ERROR", math.inf)
    assert rounded_gaussian(SeededSource("settle"), variance, n).tolist() == drawn.tolist()
    assert len(settled) > n


@pytest.mark.parametrize("cell", [0, 5, 16, 40])
@pytest.mark.parametrize("position", [2**57, 2**61 + 12345, 2**63 - 1])
def test_coins_at_the_bound_are_decided_by_more_bits_of_both_numbers(scripted_source, cell, position):
    variance, scale = Fraction(2000, 7), 16
    middle = module._exponent(cell, Fraction(2 * position + 1, 2**64), variance, scale)
    bound = exp_minus_bounds(middle, 96)[0]
    first, rest = divmod(bound, 1 << 64)
    for word in range(max(0, first - 3), min(first + 4, 1 << 32)):
        # In the middle of the interval: the next bit of the uniform number decides the coin.
        for next_bits, below in ((0, True), (255, False)):
            script = [np.array([word], "<u4").view(np.uint8), list(rest.to_bytes(8, "big")), [next_bits] * 8]
            source = scripted_source(*script)
            heads = module._accept_cells(source, np.array([cell]), np.array([position]), variance, scale)[0]
            assert heads == (below if word == first else word < first)
            assert source.used == (20 if word == first else 4)


@pytest.mark.parametrize("variance", [Fraction(1, 10**400), Fraction(1, 100), 1, 50, 10**5])
def test_cell_rounds_to_the_nearest_integer(monkeypatch, scripted_source, variance):
    cells, m = [], []

    class Geometric:
        dtype = np.int64

        def draw(self, source, size):
            cells.append(np.arange(size) * 3)
            return cells[-1]

    def accept(source, drawn, positions, finer, scale):
        m.append(math.isqrt(int(finer / variance)))
        assert m[-1] ** 2 * variance == finer
        return np.ones(drawn.size, bool)

    monkeypatch.setattr(module, "geometric_digits", lambda scale: Geometric())
    monkeypatch.setattr(module, "_accept_cells", accept)
    for filler, sign in ((0, 1), (255, -1)):
        drawn = rounded_gaussian(scripted_source(filler=filler), variance, 200)
        for z, cell in zip(drawn.tolist(), cells[-1][:200].tolist(), strict=True):
            for position in (0, Fraction(1, 2), 1 - Fraction(1, 2**100)):
                assert sign * z == math.floor(Fraction(cell + position) / m[-1] + Fraction(1, 2))


# Cubes.


@pytest.mark.parametrize("dimension", range(1, 8))
def test_radius_is_a_type_b_number_plus_geometric_numbers(dimension):
    """(2 M + 1)^D a^M = sum_k B(D, k) a^k C(M - k + D, D) a^(M - k): the second power is D + 1 geometrics."""
    numbers = _eulerian_numbers(dimension)
    assert sum(numbers) == 2**dimension * math.factorial(dimension)
    for radius in range(20):
        ways = (
            number * math.comb(radius - k + dimension, dimension) for k, number in enumerate(numbers) if k <= radius
        )
        assert (2 * radius + 1) ** dimension == sum(ways)


@pytest.mark.parametrize("dimension", [1, 2, 5, 30])
@pytest.mark.parametrize("exponent", [Fraction(1, 2**40), Fraction(1, 3), Fraction(5), Fraction(1000)])
@pytest.mark.parametrize("bits", [62, 126])
def test_enclosures_of_probabilities_are_tight(dimension, exponent, bits):
    with decimal.localcontext(prec=600):
        a = (-decimal.Decimal(exponent.numerator) / decimal.Decimal(exponent.denominator)).exp()
        weights = [number * a**k for k, number in enumerate(_eulerian_numbers(dimension))]
        shares = [sum(weights[: k + 1]) / sum(weights) * 2**bits for k in range(dimension + 1)]
        bounds = _radius_bounds(exponent, dimension, bits)
        assert bounds[-1] == (1 << bits, 1 << bits)
        for (lower, upper), share in zip(bounds[:-1], shares[:-1], strict=True):
            assert lower <= share <= upper <= lower + 2
