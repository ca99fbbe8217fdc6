"""Protocols for sets: every channel is enumerated, and draws follow it."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from skdp.exact import exp_bounds
from skdp.oracles import SetSelection
from skdp.randomness import SeededSource
from tests.conftest import often
from tests.oracles.conftest import largest_ratio

SIZES = [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2)]
EPSILONS = [1e-9, 0.3, 1.0, 4.0, 30.0, 1000.0]


def pad_members(oracle, members):
    return [*members, *range(oracle.k + len(members), oracle.k + oracle.max_size)]


def total_variation(table):
    pairs = combinations(table, 2)
    return max(sum(abs(one - other) for one, other in zip(*rows, strict=True)) / 2 for rows in pairs)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_whole_sets_are_within_epsilon(size, epsilon):
    """Every pair of sets with at most m values, of any sizes, and every report."""
    oracle = SetSelection(*size, epsilon)
    table, vectors = oracle.channel(), list(product((0, 1), repeat=oracle.k))
    assert {sum(row) for row in table} == {1}
    assert len(table) == len(oracle.sets())
    ratio = largest_ratio(table)
    assert ratio <= oracle.worst_ratio <= exp_bounds(epsilon)[0]
    if size in ((3, 1), (4, 2)) and 0.1 < epsilon < 10:  # attained up to rounding
        assert float(ratio / oracle.worst_ratio) == pytest.approx(1, abs=1e-12)
    assert total_variation(table) <= oracle.variation
    # The probabilities of a bit are the probabilities of the channel.
    for members, row in zip(oracle.sets(), table, strict=True):
        for value in range(oracle.k):
            found = sum(share for share, bits in zip(row, vectors, strict=True) if bits[value])
            expected = oracle.p if value in members else oracle.q
            assert abs(found - expected) <= Fraction(oracle.max_size, 1 << 60)


DRAWN = [(*size, None) for size in SIZES]
LARGE = [(3, 2, 2), (3, 1, 3), (4, 2, 3)]
"""Sets that meet a padded set more than once, which count by their first member."""


@pytest.mark.parametrize("size", often(DRAWN + LARGE, DRAWN[:3] + LARGE))
def test_every_draw_follows_the_channel(exact_pmf, size):
    k, max_size, subset_size = size
    oracle = SetSelection(k, max_size, 1.7, subset_size=subset_size)
    table = oracle.channel()
    assert {sum(row) for row in table} == {1}
    assert largest_ratio(table) <= oracle.worst_ratio <= exp_bounds(1.7)[0]
    assert total_variation(table) <= oracle.variation <= Fraction(121, 100) * total_variation(table)
    for members, row in zip(oracle.sets(), table, strict=True):
        pmf = exact_pmf(oracle, np.array(pad_members(oracle, members), np.uint8))
        assert [pmf[bits] for bits in product((0, 1), repeat=k)] == row


@pytest.mark.parametrize("size", [(8, 1), (12, 2), (40, 5), (100, 3)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 5.0])
def test_size_of_reported_sets_is_optimal(size, epsilon):
    errors = [SetSelection(*size, epsilon, subset_size=count).mean_squared_error for count in range(1, size[0] + 1)]
    assert SetSelection(*size, epsilon).mean_squared_error == pytest.approx(min(errors), rel=1e-9)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_padding_is_uniform(m):
    sizes = np.array([0, 1, 4, 6, 3])
    values = np.concatenate([np.arange(size) for size in sizes]).astype(np.uint8)
    n = 3_000
    padded = SetSelection(7, m, 1.0).pad(np.tile(values, n), np.tile(sizes, n), SeededSource(3))
    sets = padded.reshape(n, len(sizes), m)
    for index, size in enumerate(sizes.tolist()):
        rows = sets[:, index]
        assert all(len({*row}) == m for row in rows.tolist())
        assert (rows[:, min(size, m) :] == np.arange(7 + size, 7 + m)).all() or size >= m
        counts = np.bincount(rows[rows < 7], minlength=7)[:size]
        if size:
            expected = np.full(size, n * min(1, m / size))
            assert np.abs(counts - expected).max() < 5 * np.sqrt(n) * (size > m) + 1e-9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SetSelection(1, 1, 1.0), "`k` must be between 2"),
        (lambda: SetSelection(4, 0, 1.0), "`max_size` must be between 1 and 4, got 0"),
        (lambda: SetSelection(4, 5, 1.0), "`max_size` must be between 1 and 4, got 5"),
        (lambda: SetSelection(4_000, 1_025, 1.0), "`max_size` must be between 1 and 1024, got 1025"),
        (lambda: SetSelection(4, 2, -1), "`epsilon` must be"),
        (lambda: SetSelection(4, 2, 1.0, subset_size=5), "`subset_size` must be between 1 and 4"),
        (lambda: SetSelection(4, 2, 1.0).report(np.zeros((3, 3), int), None), "shape"),
        (lambda: SetSelection(4, 2, 1.0).report(np.full((3, 2), 6), None), "`sets` must have codes from 0 to 5"),
        (lambda: SetSelection(17, 2, 1.0).channel(), "at most 16 values"),
    ],
)
def test_invalid_parameters_raise_an_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
