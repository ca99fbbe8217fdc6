"""What a record or a person changes in exact counts and sums, by brute force over small tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.central._sums import GRID, GroupSums, sums_of_groups, to_positions, to_values
from skdp.central.statistics import Noise, join_codes
from skdp.domain import Domain
from skdp.privacy import PrivacyBudget
from tests.conftest import each


def summed(columns, bounds, *groups):
    """Return the exact sums of columns between bounds."""
    return GroupSums.read(sums_of_groups(columns, np.array(bounds), *groups), np.array(bounds))


def columns_of(rows):
    columns = np.array(rows, float).reshape(-1, 2).T
    return summed(list(columns), [(0.0, 100.0), (-30.0, 10.0)])


class TestSums:
    """Of numbers between bounds."""

    @pytest.mark.parametrize(
        ("values", "n_columns", "most_rows"), [((-3.0, 0.0, 50.0, math.nan), 1, 4), ((0.0, 1.0, math.nan), 2, 3)]
    )
    @pytest.mark.parametrize("squares", [False, True])
    def test_counts_and_sums(self, values, n_columns, most_rows, squares):
        records = list(itertools.product(values, repeat=n_columns))

        def numbers(rows, shared_count):
            X = np.array(rows, float).reshape(len(rows), n_columns)
            sums = summed(list(X.T), [(0.0, 2.0)] * n_columns)
            return sums.numbers(squares=squares, shared_count=shared_count)[0].tolist()

        worst = []
        for shared_count in (False, True):
            usable = [record for record in records if not (shared_count and any(map(math.isnan, record)))]
            for n in range(most_rows):
                for rows in itertools.combinations_with_replacement(usable, n):
                    before = numbers(rows, shared_count)
                    after = {record: numbers((*rows, record), shared_count) for record in usable}
                    for record, then in after.items():
                        moved = [abs(b - a) for a, b in zip(before, then, strict=True)]
                        worst.append(max(moved))
                        if all(map(math.isnan, record)):
                            assert moved == [0] * len(moved)
                    for one, other in itertools.combinations(after.values(), 2):  # one record replaced
                        assert max(abs(b - a) for a, b in zip(one, other, strict=True)) <= 2 * GRID
        assert max(worst) == GRID

    @each("share", [PrivacyBudget("mu", Fraction(1, 3)), PrivacyBudget("mu", Fraction(1, 3), rows=2)])
    def test_gaussian_noise_covers_a_record_at_the_bounds(self, share):
        """It changes all numbers by half a width: the mu of one, or of the rows of a person, is that of the share."""
        for squares, shared_count in itertools.product([False, True], repeat=2):
            before, after = (
                columns_of(rows).numbers(squares=squares, shared_count=shared_count)[0]
                for rows in ([], [(100.0, -30.0)] * share.rows)
            )
            noise = Noise.joint(share, GRID, len(after))
            assert sum((after - before) ** 2) / noise.scale == Fraction(1, 3)

    def test_sums_do_not_depend_on_the_order_of_rows_or_on_blocks(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=200_001) * 1e5
        values[::7] = np.nan

        def sums(values):
            parts = summed([values], [(-1e5, 3e5)])
            return [parts.counts[0, 0], parts.position_sums[0, 0], parts.squares[0, 0]]

        assert sums(rng.permutation(values)) == sums(values)
        assert np.sum([sums(part) for part in np.split(values, [777])], axis=0).tolist() == sums(values)

    @each("low, high", [(0.1, 0.7), (1e9, 1e9 + 2), (-1e-300, 1e-300), (-8e307, 8e307)])
    def test_the_bounds_are_the_ends_of_the_grid(self, low, high):
        places = to_positions(np.array([low, high, -np.inf, np.inf, np.nan]), low, high)
        np.testing.assert_array_equal(places, [-GRID, GRID, -GRID, GRID, np.nan])
        bounds = np.array([[low, high]])
        assert to_values(-1, bounds) == low
        assert to_values(1, bounds) == pytest.approx(high, rel=1e-15)
        assert to_values(1e300, bounds) <= high


class TestGroups:
    """Of groups, classes and categories."""

    @pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.long)])
    def test_a_record_or_a_person_moves_one_number_of_each_group_by_a_unit(self, shared):
        """All tables of one other row, and persons of up to two rows; 2 is no declared key, nan is missing."""
        records = list(
            itertools.product((0, 2), range(2), (0.0, 7.0, 10.0, math.inf) + (() if shared else (math.nan,)))
        )
        domain = Domain({"a": [0, 1], "b": [0, 1]})

        def numbers(rows):
            codes = np.array([row[:2] for row in rows], np.uint8).reshape(-1, 2)
            column = np.array([row[2] for row in rows], float)
            groups = join_codes(domain, list(codes.T))
            sums = summed([column, 10 - column], [(0.0, 10.0)] * 2, groups, domain.size)
            numbers = sums.numbers(squares=False, shared_count=shared)
            return numbers if shared else np.hstack([sums.rows[:, np.newaxis] * GRID, numbers])

        worst = {1: 0, 2: 0}
        for other in records[::9]:
            before = numbers([other])
            for k in worst:
                for person in itertools.combinations_with_replacement(records, k):
                    moved = np.abs(numbers([other, *person]) - before)
                    assert moved.max(axis=1).sum() <= k * GRID  # what the cubes are for
                    assert (moved**2).sum() <= k**2 * moved.shape[1] * GRID**2  # and Gaussian noise
                    worst[k] = max(worst[k], moved.max(axis=1).sum())
        assert worst == {1: GRID, 2: 2 * GRID}
