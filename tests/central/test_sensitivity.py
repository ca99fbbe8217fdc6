"""What a record or a person changes in exact counts and sums, by brute force over small tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPCategoricalNB
from skdp.central._encoders import DPTargetEncoder
from skdp.central._local_sensitivity import draw_chunks, totals_noise
from skdp.central._naive_bayes import _sums_by_class
from skdp.central._supervised import Classes
from skdp.central.statistics import (
    GRID,
    Batches,
    GroupSums,
    Noise,
    _noise,
    join_codes,
    sums_of_groups,
    to_positions,
    to_values,
)
from skdp.central.statistics._noise import bound_quantile, cube_std
from skdp.central.statistics._quantiles import count_cells
from skdp.domain import Domain
from skdp.privacy import Share
from skdp.tables import Table
from tests.conftest import each

FALSE_ALARM = 1e-6


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

    @each("share", [Share("mu", Fraction(1, 3)), Share("mu", Fraction(1, 3), rows=2)])
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

    def test_intervals_of_cube_noise_cover(self):
        """Combinations of two of D numbers, whose cubes have a gamma distribution; one false alarm in a million."""
        rng = np.random.default_rng(0)
        assert cube_std(2) == pytest.approx(2.0)
        for dimension, slope in [(1, 0.0), (2, 0.0), (2, 1.0), (5, 0.3), (40, 0.0), (40, 0.999)]:
            drawn = rng.gamma(dimension + 1, size=200_000) * (
                rng.uniform(-1, 1, 200_000) - slope * rng.uniform(-1, 1, 200_000)
            )
            for level in (0.5, 0.8, 0.95, 0.999):
                reach = bound_quantile(level) * cube_std(dimension) * math.hypot(1, slope)
                error = math.sqrt(level * (1 - level) / 200_000)
                assert np.mean(np.abs(drawn) <= reach) > level - 5 * error


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

    def test_a_record_or_a_person_moves_the_sums_by_two_numbers_a_column(self):
        """All tables of two other rows, and persons of one and of two rows; code 2 is no declared value."""
        records = list(itertools.product(range(3), range(3), (0.0, 0.3, 1.0, 7.0)))
        domain = Domain({"a": [0.0, 1.0], "b": [0.0, 1.0]})

        def sums(rows):
            values = [np.array([row[place] for row in rows], float) for place in range(3)]
            table = Table(("a", "b", "y"), tuple(values), None)
            encoder = DPTargetEncoder(handle_unknown="ignore")
            square, distances = encoder._sums(Batches(table), domain, np.array([[0.0, 1.0]]))
            return distances, square

        worst = {1: 0, 2: 0}
        for others in itertools.combinations(records[::7], 2):
            before, square = sums(others)
            for k in worst:
                for person in itertools.combinations_with_replacement(records[:: 1 if k == 1 else 7], k):
                    after, then = sums((*others, *person))
                    moved = np.abs(after - before)
                    assert moved.sum() <= 2 * 2 * GRID * k
                    assert (moved.astype(float) ** 2).sum() <= 2 * (2 * GRID * k) ** 2
                    assert 0 <= then - square <= GRID * k
                    worst[k] = max(worst[k], moved.sum())
        assert worst == {1: 4 * GRID, 2: 8 * GRID}

    def test_persons_change_the_numbers_of_their_classes_by_their_rows(self):
        """All tables of two other rows, and all persons of one and of two rows: in units, a class moves by its rows."""
        records = list(itertools.product((-9.0, 0.3, 1.0), (0.0, 0.6, 1.0), (0, 1)))
        classes = Classes(Domain({"y": [0, 1]}))

        def released(rows):
            columns = tuple(np.array([row[place] for row in rows], float) for place in range(3))
            table = Table(("a", "b", "y"), (*columns[:2], columns[2].astype(int)), None)
            ends = np.array([[0.0, 1.0]] * 2)
            sums = GroupSums.read(_sums_by_class(table, classes=classes, bounds=ends), ends)
            return sums.numbers(squares=True, shared_count=True)

        alone = {row: released([row]) for row in records}
        assert all(np.abs(alone[row][row[2]]).max() == GRID for row in records)
        assert all((alone[row][1 - row[2]] == 0).all() for row in records)
        for others in itertools.combinations(records[::5], 2):
            before = released(others)
            for k in (1, 2):
                for person in itertools.combinations_with_replacement(records[:: 2 * k - 1], k):
                    moved = np.abs(released((*others, *person)) - before)
                    of_class = [sum(row[2] == place for row in person) for place in range(2)]
                    assert all(moved[place].max() <= GRID * of_class[place] for place in range(2))
                    # In the norm of the cube noise of all classes, and in Euclidean norm.
                    assert moved.max(axis=1).sum() <= GRID * k
                    assert sum(int(one) ** 2 for one in moved.ravel()) <= 5 * (GRID * k) ** 2

    def test_persons_change_a_count_of_each_pair_for_each_row(self, monkeypatch):
        given = []
        monkeypatch.setattr(
            _noise.Noise, "add_floats", lambda self, source, numbers: given.append(numbers) or 1.0 * numbers
        )
        words = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
        records = list(itertools.product(*words.values(), ["no", "yes"]))

        def released(rows):
            frame = pd.DataFrame(rows, columns=["job", "sex", "ill"]).astype(object)
            DPCategoricalNB(1e3, categories=words, classes=["yes", "no"]).fit(frame[["job", "sex"]], frame["ill"])
            return np.array(given.pop())

        worst = {1: 0, 2: 0}
        others = records[3], records[8]
        before = released(others)
        for k in worst:
            for person in itertools.combinations_with_replacement(records[:: 3 * k - 2], k):
                moved = released((*others, *person)) - before
                assert (moved >= 0).all()
                worst[k] = max(worst[k], moved.sum())
                assert (moved**2).sum() <= 2 * k**2
        assert worst == {1: 2, 2: 4}

    def test_a_person_changes_each_number_by_at_most_the_number_of_rows(self):
        """All tables of up to two other rows, and all persons of up to three."""
        values = (0.0, 40.0, 100.0, math.nan)
        candidates = np.array([0.0, 50.0, 100.0])

        def numbers(rows):
            column = np.array(rows, float)
            sums = summed([column], [(0.0, 100.0)]).numbers(squares=True, shared_count=False)[0]
            return sums, count_cells(column, candidates)

        worst = np.zeros(2)
        for n in range(3):
            for others in itertools.combinations_with_replacement(values, n):
                before = numbers(others)
                for person in itertools.combinations_with_replacement(values, 3):
                    sums, ranks = (after - one for after, one in zip(numbers((*others, *person)), before, strict=True))
                    found = max(map(abs, sums)) / GRID, np.abs(ranks).sum()
                    worst = np.maximum(worst, np.array(found, float))
        assert worst.tolist() == [3, 3]


class TestChunks:
    """Of sample and aggregate."""

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_one_row_changes_one_chunk_for_every_chunking(self, monkeypatch, outputs):
        # Whatever a chunk gives before and after: the loss of the noise on the sums and on their number.
        epsilon, scales = Fraction(7, 10), []
        monkeypatch.setattr(
            _noise, "discrete_laplace", lambda source, scale, size: scales.append(scale) or np.zeros(size, int)
        )
        for noise in totals_noise(Share("epsilon", epsilon), outputs):
            noise.add(None, [0])
        values = [None, *itertools.product((-GRID, 0, GRID), repeat=outputs)]
        losses = []
        for old, new in itertools.product(values, repeat=2):
            sums = [abs(a - b) for a, b in zip(old or [0] * outputs, new or [0] * outputs, strict=True)]
            losses.append(sum(sums) / scales[0] + abs((old is None) - (new is None)) / scales[1])
        assert max(losses) == epsilon

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_one_row_has_the_mu_of_the_share(self, outputs):
        of_sums, of_number = totals_noise(Share("mu", Fraction(1, 3)), outputs)
        values = [None, *itertools.product((-GRID, 0, GRID), repeat=outputs)]
        squares = []
        for old, new in itertools.product(values, repeat=2):
            sums = [(a - b) ** 2 for a, b in zip(old or [0] * outputs, new or [0] * outputs, strict=True)]
            squares.append(sum(sums) / of_sums.scale + ((old is None) - (new is None)) ** 2 / of_number.scale)
        assert max(squares) == Fraction(1, 3)

    def test_a_row_is_in_one_chunk(self, scripted_source):
        for labels in itertools.product(range(2), repeat=3):
            chunks = draw_chunks(scripted_source(labels), 2, 3)
            assert [chunk.tolist() for chunk in chunks] == [
                [place for place in range(3) if labels[place] == label] for label in sorted(set(labels))
            ]
