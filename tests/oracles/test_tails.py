"""Bounds of the probability of sums, whatever the true values, against all tables of a few records."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from skdp.oracles import (
    CountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SetSelection,
    SetUnaryEncoding,
    SubsetSelection,
    UnaryEncoding,
)
from skdp.oracles.sums import count_bytes, lower_tail, mixed_tail, signed_tail, upper_tail
from skdp.randomness import SeededSource


def chance(tails):
    """The bound of the probability of the most extreme sum, corrected for all that were examined."""
    return math.exp(min(0.0, min(tail + choices for tail, choices in tails) + math.log(len(tails))))


def test_binomial_tails_are_exact():
    shares = [math.comb(9, ones) * 0.3**ones * 0.7 ** (9 - ones) for ones in range(10)]
    for count in range(10):
        assert lower_tail(count, 9, 0.3) == pytest.approx(math.log(sum(shares[: count + 1])), abs=1e-12)
        assert upper_tail(count, 9, 0.3) == pytest.approx(math.log(sum(shares[count:])), abs=1e-12)
    assert lower_tail(-1, 9, 0.3) == upper_tail(10, 9, 0.3) == -math.inf


@pytest.mark.parametrize(("plus", "minus"), [(0.5, 0.5), (0.3, 0.3), (0.6, 0.1), (0.05, 0.01)])
def test_signed_tails_bound_the_probability(plus, minus):
    n, law = 12, np.array([1.0])
    for _ in range(n):
        law = np.convolve(law, [minus, 1 - plus - minus, plus])
    for total in range(-n, n + 1):
        exact = math.log(law[total + n :].sum())
        assert exact <= signed_tail(total, n, plus, minus) + 1e-9
        assert exact > -5 or signed_tail(total, n, plus, minus) < 0.6 * exact  # not by far


def test_mixed_tails_bound_the_probability():
    law = np.array([1.0])
    for share in [0.5] * 6 + [0.2] * 8:
        law = np.convolve(law, [1 - share, share])
    for total in range(15):
        exact = math.log(law[total:].sum())
        assert exact <= mixed_tail(total, [(6, 0.5), (8, 0.2)]) + 1e-9
        assert exact > -5 or mixed_tail(total, [(6, 0.5), (8, 0.2)]) < 0.6 * exact


@pytest.mark.parametrize("make", [RandomizedResponse, SubsetSelection, UnaryEncoding, HadamardResponse])
def test_the_chance_of_any_table_is_at_most_what_is_stated(make, all_reports):
    # All reports of all tables of three records.
    for k, epsilon in product((2, 3), (0.3, 2.0)):
        oracle = make(k, epsilon)
        channel = np.array([[float(share) for share in row] for row in oracle.channel()])
        reports = all_reports(oracle)
        found = {}
        for drawn in product(range(len(reports)), repeat=3):
            support = oracle.tally(reports[list(drawn)])
            found[drawn] = chance(oracle.tails(support, 3))
        for codes in product(range(k), repeat=3):
            shares = {drawn: math.prod(channel[list(codes), list(drawn)]) for drawn in found}
            for level in {round(value, 9) for value in found.values() if value < 1}:
                total = sum(share for drawn, share in shares.items() if found[drawn] <= level + 1e-9)
                assert total <= level + 1e-8


def honest_chances(seeds):
    """Return the chances that are stated of honest reports, of all oracles and sizes."""
    makers = [
        RandomizedResponse,
        UnaryEncoding,
        lambda k, epsilon: UnaryEncoding(k, epsilon, variant="symmetric"),
        SubsetSelection,
        LocalHashing,
        HadamardResponse,
        lambda k, epsilon: HadamardResponse(k, epsilon, n_blocks=4),
        lambda k, epsilon: CountMeanSketch(k, epsilon, n_functions=4, n_buckets=8),
    ]
    for seed in seeds:
        rng = np.random.default_rng(seed)
        k, n, epsilon = rng.choice([2, 3, 14, 100, 1_500]), rng.choice([1, 3, 30, 1_000]), rng.choice([0.1, 1, 4, 10])
        oracle = makers[seed % len(makers)](int(k), float(epsilon))
        codes = [rng.integers(0, k, n), np.full(n, k - 1), np.zeros(n, int)][rng.integers(3)]
        reports = oracle.report(codes.astype(np.min_scalar_type(k)), SeededSource(seed))
        yield chance(oracle.tails(oracle.tally(reports), int(n)))
        members = np.sort(rng.permuted(np.tile(np.arange(14, dtype=np.uint8), (n, 1)), axis=1)[:, :3])
        for sets in (SetSelection(14, 3, float(epsilon)), SetUnaryEncoding(14, 3, float(epsilon))):
            reports = sets.report(members, SeededSource(seed, "sets"))
            yield chance(sets.tails(sets.tally(reports), int(n)))


@pytest.mark.parametrize("seeds", [range(64), pytest.param(range(64, 4_000), marks=pytest.mark.long)])
def test_honest_reports_are_as_likely_as_is_stated(seeds):
    chances = np.sort(list(honest_chances(seeds)))
    # The number below a level is at most binomial: tail of 1e-6 at each of three levels.
    for level in (0.1, 0.01, 1e-5):
        below = np.count_nonzero(chances <= level)
        assert upper_tail(below, len(chances), level) > math.log(1e-6)


@pytest.mark.parametrize("n", [0, 1, 7, 1 << 17, (1 << 17) + 1])
@pytest.mark.parametrize("n_values", [2, 6, 7, 256])
def test_numbers_are_counted_modulo_256(n, n_values):
    numbers = np.random.default_rng(n).integers(0, n_values, n)
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        written = numbers.astype(dtype)
        assert count_bytes(written, n_values).tolist() == np.bincount(numbers, minlength=n_values).tolist()
        assert count_bytes(np.repeat(written, 2)[::2], n_values).tolist() == count_bytes(written, n_values).tolist()
    large = (numbers + 256 * (numbers + 1)).astype(np.uint64)
    assert count_bytes(large, n_values).tolist() == np.bincount(numbers, minlength=n_values).tolist()
