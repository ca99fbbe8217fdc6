"""Counts of protected columns beside public ones: what another value changes, and how much noise is left."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.privacy import Share
from skdp.randomness import SeededSource
from skdp.synthesis.selection import NoiseBudget, ProtectedTable
from skdp.synthesis.selection._column_shares import estimate_shares
from skdp.synthesis.selection._protected import expected_gains
from skdp.synthesis.selection._scores import Score
from skdp.synthesis.selection._strategy import Plan
from skdp.synthesis.tables import CodedRecords
from tests.conftest import each

PUBLIC, PROTECTED = 0, 1
PAIR = (PUBLIC, PROTECTED)
MU, EPSILON = Share("mu", Fraction(1)), Share("epsilon", Fraction(1))


class RecordingBudget(NoiseBudget):
    """Adds no noise, and remembers which integers noise was to be added to, and what a record changes in them."""

    def __init__(self, share=MU):
        super().__init__(share, replaces=True)
        self.given = []

    def counts(self, source, share, counts, change=None):
        self._spend(share)
        self.given.append((counts.copy(), change))
        return counts.astype(float)


def table_of(codes, sizes, budget=None, seed=0):
    """Make a table of which all columns but the first are protected."""
    columns = np.asarray(codes, np.int64).reshape(-1, len(sizes)).T
    plan = Plan(sizes=sizes, ordered=(False,) * len(sizes), max_cells=10_000)
    protected = range(1, len(sizes))
    return ProtectedTable(
        CodedRecords(list(columns), sizes), plan, budget or RecordingBudget(), SeededSource(seed), protected
    )


def measured(codes, sizes, clique, share=MU, groups=None):
    """Measure columns by themselves, then a marginal; return it, and what noise was to be added to."""
    budget = RecordingBudget(share)
    table = table_of(codes, sizes, budget)
    for column in range(1, len(sizes)):
        table.measure((column,), Fraction(1, 10))
    marginal = table.measure(clique, Fraction(1, 2), groups)
    return marginal, budget.given[-1]


@each("share", [MU, EPSILON])
@each("n_cells", [1, 2, 3, 5])
def test_another_value_changes_what_is_stated(share, n_cells):
    """All moves of a record from one value to another, beside each public value; the largest are as stated."""
    for n_values in (2, 3, 4):
        sizes = (n_cells, n_values)
        rng = np.random.default_rng(n_values)
        rows = [[cell, int(rng.integers(n_values))] for cell in [*range(n_cells), *rng.integers(0, n_cells, 5)]]
        largest = largest_square = 0
        for row, value in itertools.product(range(len(rows)), range(n_values)):
            neighbour = [list(codes) for codes in rows]
            neighbour[row][PROTECTED] = value
            _, (counts, change) = measured(rows, sizes, PAIR, share)
            _, (moved, same_change) = measured(neighbour, sizes, PAIR, share)
            assert change == same_change
            differences = np.abs(moved - counts)
            largest = max(largest, int(differences.sum()))
            largest_square = max(largest_square, int((differences**2).sum()))
        assert (largest, largest_square) == (change.l1, change.l2_squared)


def test_two_protected_columns_leave_one_cell_for_another():
    rows = [[0, 0, 0], [1, 1, 2], [1, 0, 1]]
    _, (counts, change) = measured(rows, (2, 2, 3), (0, 1, 2))
    _, (moved, _) = measured([[0, 1, 2], *rows[1:]], (2, 2, 3), (0, 1, 2))
    assert np.abs(moved - counts).sum() == change.l1 == change.l2_squared == 2


@each("share", [MU, EPSILON])
@each("sizes", [(1, 3), (2, 2), (2, 5), (4, 2), (6, 5)])
def test_counts_without_noise_are_exact(share, sizes):
    """Also where public cells have no records, which get no noise, and where values are counted together."""
    rng = np.random.default_rng(0)
    # The last public value never occurs.
    rows = np.stack([rng.integers(0, max(1, sizes[0] - 1), 50), rng.integers(0, sizes[1], 50)], axis=1)
    exact = np.zeros(sizes)
    np.add.at(exact, tuple(rows.T), 1)
    marginal, (counts, _) = measured(rows, sizes, PAIR, share)
    np.testing.assert_allclose(marginal.counts, exact, atol=1e-9)
    assert len(counts) <= max(1, sizes[0] - 1)
    members = np.minimum(np.arange(sizes[1]), 1)
    grouped, _ = measured(rows, sizes, PAIR, share, (None, members))
    np.testing.assert_allclose(grouped.counts, np.stack([exact[:, 0], exact[:, 1:].sum(axis=1)], axis=1), atol=1e-9)
    members = np.maximum(np.arange(sizes[0]) - 1, 0)  # the first two public values
    grouped, (counts, _) = measured(rows, sizes, PAIR, share, (members, None))
    by_group = np.zeros((members.max() + 1, sizes[1]))
    np.add.at(by_group, members, exact)
    np.testing.assert_allclose(grouped.counts, by_group, atol=1e-9)
    assert len(counts) <= max(1, sizes[0] - 2)


@each("share", [MU, EPSILON])
def test_another_value_changes_what_is_stated_beside_groups_of_public_values(share):
    members = np.array([0, 0, 1, 2, 2])
    for n_values in (2, 3):
        sizes = (5, n_values)
        rows = [[cell, (3 * cell) % n_values] for cell in (0, 1, 1, 2, 3, 4, 4)]
        largest = largest_square = 0
        for row, value in itertools.product(range(len(rows)), range(n_values)):
            neighbour = [list(codes) for codes in rows]
            neighbour[row][PROTECTED] = value
            _, (counts, change) = measured(rows, sizes, PAIR, share, (members, None))
            _, (moved, same_change) = measured(neighbour, sizes, PAIR, share, (members, None))
            assert change == same_change
            differences = np.abs(moved - counts)
            largest = max(largest, int(differences.sum()))
            largest_square = max(largest_square, int((differences**2).sum()))
        assert (largest, largest_square) == (change.l1, change.l2_squared)


@each("share", [MU * Fraction(1, 100), EPSILON * Fraction(1, 10)])
@each("sizes", [(2, 2), (3, 2), (5, 4)])
def test_noise_is_as_large_as_stated(share, sizes):
    """Of each count, beside that of the column by itself; sums over protected values are exact."""
    rows = np.array(list(np.ndindex(*sizes)) * 10)
    errors = []
    for seed in range(150):
        table = table_of(rows, sizes, NoiseBudget(share, replaces=True), seed)
        alone = table.measure((PROTECTED,), Fraction(9, 10))
        pair = table.measure(PAIR, Fraction(1, 10))
        np.testing.assert_allclose(pair.counts.sum(axis=1), 10 * sizes[1], atol=1e-6)
        errors.append(pair.counts - 10)
    error_of_column = alone.std_error / sizes[0] if pair.std_error < noise_of_counts(share, sizes) else 0.0
    stated = math.hypot(pair.std_error, error_of_column)
    assert np.std(errors) == pytest.approx(stated, rel=0.15)


def noise_of_counts(share, sizes):
    """Return the standard error of a tenth of a budget's noise on counts by themselves, with public sums known."""
    budget = NoiseBudget(share, replaces=True)
    rows = list(np.ndindex(*sizes)) * 10
    # Two protected columns are not counted as what is in excess of a mean.
    table = table_of([(x, s, 0) for x, s in rows], (*sizes, 1), budget)
    return table.error((0, 1, 2), Fraction(1, 10)) * (1 - 1e-9)


def test_public_cells_without_records_have_no_noise():
    """And cost none, where marginals are chosen."""
    rows = [(cell, value) for cell in (1, 4, 5) for value in range(3)] * 10
    table = table_of(rows, (20, 3), NoiseBudget(MU, replaces=True))
    table.measure((PROTECTED,), Fraction(1, 2))
    pair = table.measure(PAIR, Fraction(1, 2))
    assert (pair.counts != 0).sum() == table.n_noisy_cells(PAIR) == 9


def test_centred_counts_have_less_noise():
    """By 1 - 1 / K of the standard deviation for K public cells; pure noise for two of them only."""
    for n_cells in (2, 3, 10):
        rows = list(np.ndindex(n_cells, 3))
        for share in (MU, EPSILON):
            table = table_of(rows, (n_cells, 3), NoiseBudget(share * Fraction(1, 10_000), replaces=True))
            ratio = table.error(PAIR, Fraction(1, 2)) / (table.error((PROTECTED,), Fraction(1, 2)))
            has_less = n_cells == 2 or share is MU
            assert ratio == pytest.approx(1 - 1 / n_cells if has_less else 1.0, rel=1e-3)


def test_expected_gains_are_drawn_to_their_mean():
    precise = {(0, 1): Score(10.0, 1e-6), (0, 2): Score(30.0, 1e-6)}
    assert expected_gains(precise) == pytest.approx({(0, 1): 10.0, (0, 2): 30.0})
    noisy = {(0, 1): Score(10.0, 50.0), (0, 2): Score(30.0, 50.0)}
    assert expected_gains(noisy) == pytest.approx({(0, 1): 20.0, (0, 2): 20.0})
    assert expected_gains({(0, 1): Score(10.0, 50.0)}) == {(0, 1): 10.0}
    assert expected_gains({}) == {}


class TestShares:
    @each("ordered", [True, False])
    @each("n_values", [1, 2, 3, 40])
    def test_are_positive_and_sum_to_one(self, ordered, n_values):
        for counts in (np.zeros(n_values), np.arange(n_values) - 1.0, np.full(n_values, 5.0)):
            shares = estimate_shares(counts, 2.0, ordered=ordered)
            assert shares.sum() == pytest.approx(1)
            assert (shares > 0).all()

    @each("ordered", [True, False])
    def test_of_precise_counts_are_these(self, ordered):
        counts = np.array([500.0, 20.0, 300.0, 80.0, 100.0])
        np.testing.assert_allclose(estimate_shares(counts, 1e-3, ordered=ordered), counts / 1_000, atol=1e-4)

    @each("ordered", [True, False])
    def test_noise_is_not_believed(self, ordered):
        """A smooth column with an order, and one whose few values have most records: a smaller error."""
        values = np.arange(60)
        exact = 40 + 30 * np.sin(values / 12) if ordered else 2_000 / (1 + values)
        errors = []
        for seed in range(20):
            noisy = exact + np.random.default_rng(seed).normal(scale=30, size=60)
            plain = np.maximum(noisy, 30 / 4)
            estimates = (estimate_shares(noisy, 30.0, ordered=ordered), plain / plain.sum())
            errors.append([np.abs(estimate - exact / exact.sum()).sum() for estimate in estimates])
        error, plain_error = np.mean(errors, axis=0)
        assert error < (0.67 if ordered else 0.9) * plain_error
