"""Proofs of the exact distribution of noise: digits, coins and rejection, with the numbers of the code."""

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.exact import exp_bounds, exp_minus_bounds
from skdp.randomness import SeededSource, cube_noise, rounded_gaussian
from skdp.randomness import _noise as module
from skdp.randomness._noise import GeometricDigits, Uniform

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


@pytest.mark.parametrize("scale", [Fraction(1, 700), 1, Fraction(7, 3), 1000, 2**20 + 1, Fraction(2**70, 3)])
def test_first_digits_by_squares_equal_digits_by_separate_bounds(scale):
    coins = GeometricDigits(Fraction(scale))._digits
    assert [coin._digit(0) for coin in coins] == [coin._floor(1) for coin in coins]


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


@pytest.mark.parametrize(
    ("draw", "parameters", "bounds", "n"),
    [
        *((rounded_gaussian, [variance], "_acceptance_bounds", 1_000) for variance in (Fraction(1, 25), 1, 10**6)),
        *((cube_noise, pair, "_radius_bounds", 200) for pair in ((Fraction(1, 20), 30), (1, 3), (50, 12), (10**20, 2))),
    ],
)
def test_proven_digits_decide_coins_as_floats(monkeypatch, draw, parameters, bounds, n):
    drawn = draw(SeededSource("settle"), *parameters, n)
    settled, original = [], getattr(module, bounds)
    monkeypatch.setattr(module, bounds, lambda *args: settled.append(1) or original(*args))
    monkeypatch.setattr(module, "_MAX_ERROR", math.inf)
    assert draw(SeededSource("settle"), *parameters, n).tolist() == drawn.tolist()
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

# Scales of proposals: the largest weight at 0, at 1, and far away, also with all weights of a dimension in a few radii.
PROPOSAL_SCALES = [Fraction(1, 10**400), Fraction(1, 50), Fraction(91, 100), Fraction(7, 5), Fraction(400, 3), 10**30]


def to_decimal(number):
    return decimal.Decimal(number.numerator) / decimal.Decimal(number.denominator)


@pytest.mark.parametrize("scale", [*PROPOSAL_SCALES, *(Fraction(i, 8) for i in range(1, 60)), 2**40, 10**200])
def test_mode_has_the_largest_weight(scale):
    """(2 k + 1) b^k increases strictly up to the mode and decreases after it, so it is nowhere larger."""
    mode = module._find_mode(Fraction(scale))
    with decimal.localcontext(prec=900, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
        b = (-1 / to_decimal(Fraction(scale))).exp()
        assert mode == 0 or (2 * mode - 1) < (2 * mode + 1) * b
        assert (2 * mode + 1) > (2 * mode + 3) * b


@pytest.mark.parametrize("dimension", [1, 2, 5, 60, 200])
@pytest.mark.parametrize("scale", PROPOSAL_SCALES[1:5])
@pytest.mark.parametrize("bits", [32, 96])
def test_accepted_radii_have_their_weights(dimension, scale, bits):
    """The proposal b^M times the enclosed acceptance is a constant times (2 M + 1)^D a^M."""
    mode = module._find_mode(scale)
    with decimal.localcontext(prec=300, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
        b = (-1 / to_decimal(scale)).exp()
        a = (-(dimension + 1) / to_decimal(scale)).exp()
        # The acceptance of the mode is 1.
        constant = (2 * mode + 1) ** dimension * a**mode / b**mode
        for radius in [*range(10), mode, mode + 1, 2 * mode + 5, 20 * mode + 30]:
            exact = (2 * radius + 1) ** dimension * a**radius / b**radius / constant * 2**bits
            lower, upper = module._radius_bounds(radius, mode, scale, dimension, bits)
            assert lower <= exact <= upper <= lower + 2
            assert exact < (1 << bits) * (1 + decimal.Decimal(10) ** -200)


@pytest.mark.parametrize("dimension", [1, 60, 2**20])
@pytest.mark.parametrize("scale", [*PROPOSAL_SCALES, 2**52, 10**300])
def test_exponents_of_radii_have_the_stated_rounding_error(monkeypatch, dimension, scale):
    scale = Fraction(scale)
    mode = module._find_mode(scale)
    near = {0, 1, 2, 9, mode // 2, mode - 1, mode, mode + 1, mode + 2, 3 * mode, 40 * mode}
    radii = np.array(sorted(radius for radius in near if radius >= 0), module.geometric_digits(scale).dtype)

    def check(source, rounded, bounds, max_errors):
        assert (rounded >= 0).all()
        with decimal.localcontext(prec=400, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            for x, radius, max_error in zip(rounded.tolist(), radii.tolist(), max_errors.tolist(), strict=True):
                ratio = decimal.Decimal(2 * radius + 1) / decimal.Decimal(2 * mode + 1)
                exact = dimension * ((radius - mode) / to_decimal(scale) - ratio.ln())
                if min(x, exact) < 500:
                    assert abs(decimal.Decimal(x) - exact) < max_error
        return np.ones(rounded.size, bool)

    monkeypatch.setattr(module, "bernoulli_of_exponents", check)
    assert module._accept_radii(SeededSource(0), radii, mode, scale, dimension).all()


@pytest.mark.parametrize("excess", [0.0, 2.0**-20])
def test_coins_within_the_errors_of_their_exponents_are_decided_by_bounds(scripted_source, excess):
    """A word that is 2**-24 above e^-x is decided in floats, or by the bounds if the exponent may err by more."""
    word = int(math.exp(-1) * 2**32) + (1 << 8)
    source = scripted_source(np.array([word], "<u4").view(np.uint8))
    asked = []

    def bounds(bits):
        asked.append(bits)
        return 1 << bits, 1 << bits

    heads = module.bernoulli_of_exponents(source, np.ones(1), lambda index: bounds, np.array([excess]))
    assert heads.tolist() == [excess > 0]
    assert asked == ([32] if excess else [])


@pytest.mark.parametrize("dimension", [1, 2, 7, 40, 300])
@pytest.mark.parametrize("step", range(-30, 13, 3))
def test_number_of_proposals_of_a_radius_is_limited(dimension, step):
    """Scales are 2**(step / 3): all weights in one radius, in a few radii, and in many radii."""
    scale = Fraction(2.0 ** (step / 3)) * (dimension + 1)
    mode, radii = module._find_mode(scale), np.arange(math.ceil(40 * scale) + 5)
    exponents = dimension * ((radii - mode) / float(scale) - np.log((2 * radii + 1) / (2 * mode + 1)))
    accepted = np.exp(-radii / float(scale) - exponents).sum() * -math.expm1(-1 / scale)
    assert 1 / accepted < 1.1 * math.sqrt(dimension + 1) + 0.1


@pytest.mark.parametrize(
    ("scale", "dimension"),
    [(Fraction(1, 3), 4), (Fraction(1, 400), 801), (Fraction(1, 20), 201), (Fraction(2, 3), 60), (3, 10), (90, 2)],
)
def test_radius_of_a_cube_follows_its_distribution(fits, scale, dimension):
    """Every radius has its probability, also if the noise of many dimensions is on a few cubes."""
    n = 50_000
    drawn = module._draw_radii(SeededSource("radius", str(scale)), Fraction(scale), dimension, n)
    radii = np.arange(math.ceil(40 * (dimension + 1) * scale) + 10)
    weights = dimension * np.log(2 * radii + 1) - radii / float(scale)
    weights = np.exp(weights - weights.max())
    assert fits(np.bincount(drawn, minlength=radii.size), weights / weights.sum(), n) > 1e-6
