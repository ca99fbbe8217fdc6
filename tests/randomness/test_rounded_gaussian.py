from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from skdp.exact import exp_bounds, exp_minus_bounds
from skdp.randomness import SecureSource, SeededSource, rounded_gaussian
from skdp.randomness import _real as _exp_coins
from skdp.randomness import _rounded_noise as module
from skdp.randomness._real import Uniform
from tests.conftest import each, often

FALSE_ALARM = 1e-6
VARIANCES = [Fraction(1, 25), Fraction(1, 3), 1, Fraction(49, 9), 100, Fraction(10**6 + 1, 3)]


def law(edges, deviation):
    """The probabilities of the intervals between edges."""
    ends = np.asarray(edges, float) / deviation
    right = ends[:-1] > 0
    return np.where(right, -np.diff(norm.sf(ends)), np.diff(norm.cdf(ends)))


@pytest.mark.parametrize("variance", VARIANCES)
def test_rounded_gaussian_has_the_law_of_a_rounded_real_number(fits, variance):
    n = 400_000
    drawn = rounded_gaussian(SeededSource("rounded", str(variance)), variance, n)
    assert drawn.dtype == np.int64
    reach = math.ceil(12 * math.sqrt(variance)) + 2
    width = max(1, reach // 60)  # several numbers a cell, where there are many
    edges = np.arange(-reach, reach + width + 1, width)
    observed = np.histogram(drawn, edges)[0]
    assert observed.sum() == n
    assert fits(observed, law(edges - 0.5, math.sqrt(variance)), n) > FALSE_ALARM


@each("variance", [Fraction(256), Fraction(1000, 3), Fraction(1023), Fraction(10**9)])
def test_what_is_accepted_has_the_normal_density_exactly(variance):
    """The proposal e^(-k / t) times the coin e^-f is a constant times e^(-(k + U)^2 / 2s), and f is at least 0."""
    scale = math.isqrt(math.floor(variance))
    rest = set()
    for cell in [0, 1, 2, scale - 1, scale, scale + 1, 7 * scale, 10**30]:
        for place in [Fraction(0), Fraction(1, 3), Fraction(1, 2), 1 - Fraction(1, 2**200)]:
            f = module._exponent(cell, place, variance, scale)
            assert f >= 0
            rest.add(f + Fraction(cell, scale) - (cell + place) ** 2 / (2 * variance))
    assert len(rest) == 1


@pytest.mark.parametrize("variance", often([Fraction(256), Fraction(1000, 3), Fraction(100, 3)], [Fraction(100, 3)]))
def test_the_coins_of_all_places_make_up_the_normal_probability_of_a_cell(variance):
    """All places of 6 bits: the coins that their first bits settle, and those that they leave open, enclose the law."""
    bits, digits, scale = 6, 40, math.isqrt(math.floor(variance))
    deviation = math.sqrt(variance)
    constant = math.exp(-variance / (2 * scale**2)) * math.sqrt(2 * math.pi * variance)
    for cell in range(8 * scale):
        accepted = undecided = 0
        for value in range(1 << bits):
            place = Uniform(None, value << digits, bits + digits)  # its first bits, and any others
            least = module._acceptance_bounds(cell, place, variance, scale, digits)[1]
            place = Uniform(None, (value + 1 << digits) - 1, bits + digits)
            most = module._acceptance_bounds(cell, place, variance, scale, digits)[0]
            assert most <= least
            accepted, undecided = accepted + most, undecided + least - most
        accepted, undecided = accepted / 2.0 ** (bits + digits), undecided / 2.0 ** (bits + digits)
        exact = constant * math.exp(cell / scale) * law([cell, cell + 1], deviation)[0]
        margin = 1e-9 * exact
        assert accepted - margin <= exact <= accepted + undecided + margin
        assert undecided <= 0.02 * exact + 1e-10


@each("variance", [Fraction(256), Fraction(2000, 7)])
@each("bits", [1, 3, 5, 64])
def test_a_coin_is_certain_only_if_it_is_so_for_the_whole_interval_of_places(scripted_source, variance, bits):
    scale = math.isqrt(math.floor(variance))
    for cell in [0, 1, scale, 3 * scale]:
        for value in range(1 << min(bits, 5)):
            place = Uniform(scripted_source(), value, bits)  # which has no more bits to give
            lower, upper = module._acceptance_bounds(cell, place, variance, scale, bits)
            for end in (0, 1):
                x = module._exponent(cell, Fraction(value + end, 1 << bits), variance, scale)
                witness = exp_bounds(x)
                assert lower * witness[1] <= 1 << bits
                assert upper * witness[0] >= 1 << bits
            assert 0 <= upper - lower <= 4


@pytest.mark.parametrize("variance", [1, Fraction(1, 10**400), Fraction(10**12, 7), 10**31, 10**700])
def test_exponents_are_rounded_as_little_as_claimed(monkeypatch, variance):
    known = {}
    original = module._accepted

    def capture(source, cells, places, variance, scale):
        known.update(variance=variance, scale=scale, dtype=cells.dtype)
        return original(source, cells, places, variance, scale)

    monkeypatch.setattr(module, "_accepted", capture)
    rounded_gaussian(SeededSource(0), variance, 1)
    variance, scale = known["variance"], known["scale"]
    assert variance >= 256
    assert scale**2 <= variance < (scale + 1) ** 2
    near = [0, 1, 2, 9, scale // 2, scale - 1, scale, scale + 1, 3 * scale, 7 * scale, 40 * scale, 300 * scale]
    ends = [0, 1, 2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1]
    cells = np.array(near, known["dtype"]).repeat(len(ends))
    places = np.array(ends * len(near), np.int64)

    def check(rounded):
        for x, cell, place in zip(rounded.tolist(), cells, places, strict=True):
            for end in (0, 1):
                f = module._exponent(int(cell), Fraction(int(place) + end, 2**63), variance, scale)
                assert abs(Fraction(x) - f) < max(1, f) / 2**42
        return np.ones(rounded.size)

    monkeypatch.setattr(_exp_coins, "_exp_minus", check)
    assert original(SeededSource(0), cells, places, variance, scale).sum() > cells.size - 2


@pytest.mark.parametrize("variance", [Fraction(1, 25), 1, 10**6])
def test_proven_digits_decide_every_coin_as_floats_do(monkeypatch, variance):
    n = 1_000
    drawn = rounded_gaussian(SeededSource("settle"), variance, n)
    settled, bounds = [], module._acceptance_bounds
    monkeypatch.setattr(module, "_acceptance_bounds", lambda *args: settled.append(1) or bounds(*args))
    monkeypatch.setattr(_exp_coins, "_UNDECIDED", math.inf)
    assert rounded_gaussian(SeededSource("settle"), variance, n).tolist() == drawn.tolist()
    assert len(settled) > n


@pytest.mark.parametrize("variance", [Fraction(1, 4), 2])
def test_proven_digits_alone_have_the_law(fits, monkeypatch, variance):
    monkeypatch.setattr(_exp_coins, "_UNDECIDED", math.inf)
    n = 2_500
    drawn = rounded_gaussian(SeededSource("proven", str(variance)), variance, n)
    edges = np.arange(-20, 21)
    assert fits(np.histogram(drawn, edges)[0], law(edges - 0.5, math.sqrt(variance)), n) > FALSE_ALARM


@each("cell", [0, 5, 16, 40])
@each("place", [2**57, 2**61 + 12345, 2**63 - 1])
def test_coins_at_the_bound_are_settled_by_more_bits_of_both_numbers(scripted_source, cell, place):
    variance, scale = Fraction(2000, 7), 16
    middle = module._exponent(cell, Fraction(2 * place + 1, 2**64), variance, scale)
    bound = exp_minus_bounds(middle, 96)[0]
    first, rest = divmod(bound, 1 << 64)
    for word in range(max(0, first - 3), min(first + 4, 1 << 32)):
        # In the middle of the interval of places: whether the coin is heads depends on the next bit of the place.
        for next_place, below in ((0, True), (255, False)):
            script = [np.array([word], "<u4").view(np.uint8), list(rest.to_bytes(8, "big")), [next_place] * 8]
            source = scripted_source(*script)
            heads = module._accepted(source, np.array([cell]), np.array([place]), variance, scale)[0]
            assert heads == (below if word == first else word < first)
            assert source.used == (20 if word == first else 4)


@pytest.mark.parametrize("variance", [Fraction(1, 10**400), Fraction(1, 100), 1, 50, 10**5])
def test_a_cell_rounds_to_the_nearest_integer(monkeypatch, scripted_source, variance):
    cells, m = [], []

    class Geometric:
        dtype = np.int64

        def draw(self, source, size):
            cells.append(np.arange(size) * 3)
            return cells[-1]

    def accept(source, drawn, places, finer, scale):
        m.append(math.isqrt(int(finer / variance)))
        assert m[-1] ** 2 * variance == finer
        return np.ones(drawn.size, bool)

    monkeypatch.setattr(module, "geometric_digits", lambda scale: Geometric())
    monkeypatch.setattr(module, "_accepted", accept)
    for filler, sign in ((0, 1), (255, -1)):
        drawn = rounded_gaussian(scripted_source(filler=filler), variance, 200)
        for z, cell in zip(drawn.tolist(), cells[-1][:200].tolist(), strict=True):
            for place in (0, Fraction(1, 2), 1 - Fraction(1, 2**100)):
                assert sign * z == math.floor(Fraction(cell + place) / m[-1] + Fraction(1, 2))


def test_a_tiny_variance_gives_0():
    for variance in (Fraction(1, 400), Fraction(1, 10**30), Fraction(1, 10**400)):
        assert not rounded_gaussian(SecureSource(), variance, 500).any()


@pytest.mark.parametrize("variance", [10**12, 2**90, 2**110, 10**600])
def test_enormous_variances(fits, variance):
    n = 2_000
    drawn = rounded_gaussian(SeededSource("enormous", variance), variance, n)
    assert drawn.dtype == (np.int64 if variance < 2**102 else object)
    cells = np.linspace(-5, 5, 21)
    observed, _ = np.histogram([float(Fraction(int(value), math.isqrt(variance))) for value in drawn], cells)
    assert fits(observed, law(cells, 1), n) > FALSE_ALARM
    assert 0.4 < np.mean([int(value) & 1 for value in drawn]) < 0.6  # seeded; the last digit is random too


@each("size", [0, 1, 2, module._BLOCK, 3 * module._BLOCK + 1])
def test_as_many_as_asked_for(size):
    drawn = rounded_gaussian(SeededSource(size), 10**6, size)
    assert drawn.shape == (size,)
    assert size < 1000 or len(set(drawn[-100:].tolist())) > 50


@each("variance, error", [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_a_variance_that_is_none_is_refused_before_any_draw(scripted_source, variance, error):
    with pytest.raises(error, match="variance must be"):
        rounded_gaussian(scripted_source(), variance, 1)
