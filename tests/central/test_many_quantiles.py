from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from skdp import DPKBinsDiscretizer
from skdp.central.statistics import Noise, equal_steps, plan_quantiles
from skdp.central.statistics._quantiles import (
    _even_groups,
    count_below,
    counted_quantiles,
    estimate_cells,
    ranked_quantiles,
    scores,
)
from skdp.frames import read_table
from skdp.oracles import project_to_simplex
from skdp.privacy import Mu, Rho, Share, read_share
from skdp.randomness import SeededSource
from skdp.testing import check_sensitivity
from tests.central.released import Released
from tests.conftest import each

NAN = math.nan
GRID = np.arange(5.0)
TENTHS = [Fraction(index, 10) for index in range(1, 10)]
VALUES = (0.0, 0.5, 2.0, 4.0, 7.0, NAN)


class Known(Noise):
    """Noise that is known, and what it was asked for."""

    name = "known"

    def __init__(self, values=0):
        self.values, self.sizes = values, []

    def draw(self, source, size):
        self.sizes.append(size)
        return np.zeros(size, np.int64) + self.values

    error = reach = loss = None


class TestSensitivity:
    @pytest.mark.parametrize("sizes", [(9, 2), (9, 5, 3)], ids=str)
    def test_a_record_changes_one_count_of_each_level_by_one(self, sizes):
        """All tables of up to 2 rows, on candidates, between them and beyond, for what was released of each level."""

        def levels_of(rows):
            found = []
            for seed in range(2):
                rng = np.random.default_rng(seed)
                noise = Released(partial(rng.integers, -3, 9))
                index = counted_quantiles(count_below(np.array(rows, float), GRID), TENTHS, sizes, noise, None)
                found.append((noise.seen, index.tolist()))
            return found

        for rows in itertools.chain(*(itertools.combinations_with_replacement(VALUES, n) for n in range(3))):
            before = levels_of(rows)
            for value in VALUES:
                for (seen, index), (other, same) in zip(levels_of((*rows, value)), before, strict=True):
                    assert index == same
                    changes = [after - here for after, here in zip(seen, other, strict=True)]
                    assert [(change.sum(), np.abs(change).sum()) for change in changes] == [
                        (0, 0) if math.isnan(value) else (1, 1)
                    ] * len(sizes)

    @pytest.mark.parametrize("epsilon", [1.0, pytest.param(Mu(0.4, 1e-6), marks=pytest.mark.long)], ids=str)
    def test_the_replayed_noise_covers_a_record(self, epsilon):
        rows = np.array([[0.0], [0.0], [99.5]])
        check_sensitivity(DPKBinsDiscretizer(epsilon, n_bins=10, bounds=(0, 100), candidates=400), rows)

    @pytest.mark.parametrize("rows", [1, 3])
    @pytest.mark.parametrize("given", [0.7, Rho(0.1, 1e-6), Mu(0.4, 1e-6)], ids=str)
    def test_all_levels_of_all_columns_share_the_budget(self, monkeypatch, given, rows):
        drawn = []

        def note(source, scale, size):
            drawn.append(scale)
            return np.zeros(size, np.int64)

        monkeypatch.setattr("skdp.central.statistics._noise.discrete_laplace", note)
        monkeypatch.setattr("skdp.central.statistics._noise.rounded_gaussian", note)
        share = replace(read_share(given), rows=rows)
        candidates = [equal_steps(0, 1, 50), equal_steps(0, 1, 3000)]
        table = read_table(np.array([[0.5, 0.25], [NAN, 1.0]]))
        plan = plan_quantiles(table, None, candidates, TENTHS, share)
        assert plan.draw(None).shape == (2, 9)
        if share.kind == "epsilon":
            # A record adds rows / scale on each level; together this is epsilon.
            assert sum(rows / scale for scale in drawn) == share.amount
            assert len(drawn) == 2 + 3
            assert sum(loss.count for loss in plan.losses) == 2 + 3
            assert sum(loss.count * loss.epsilon for loss in plan.losses) == pytest.approx(float(share.amount))
        else:
            assert sum(rows**2 / variance for variance in drawn) == share.mu_squared
            assert [loss.mu for loss in plan.losses] == [pytest.approx(math.sqrt(share.mu_squared))]


class TestCounts:
    @each("sizes", [(9, 2), (40, 5, 3), (100, 20)])
    def test_without_noise_the_counts_are_what_they_were(self, sizes):
        counts = np.random.default_rng(sizes[0]).poisson(1.0, sizes[0])
        assert estimate_cells(counts, sizes, Known(), None) == pytest.approx(counts, abs=1e-9)

    @each("values", [np.arange(40.0), np.full(12, -3.0), np.array([-1, 0, 90, 0, 5, 0, 5.0]), np.eye(9)[4]])
    def test_groups_have_about_equal_sums(self, values):
        first = _even_groups(values, 5)
        assert first[0] == 0
        assert 1 < first.size <= 5
        assert (np.diff(first) > 0).all()
        mass = np.maximum(values, 0) if (values > 0).any() else np.ones(values.size)
        many = np.add.reduceat(np.where(mass > mass.sum() / 5, 0, mass), first)  # one number may be more
        assert many.max() <= mass.sum() / 5 + mass.max()

    def test_groups_are_projected_from_the_top(self):
        noise = Released(partial(np.random.default_rng(0).integers, -3, 9))
        found = estimate_cells(np.zeros(7, np.int64), (7, 3), noise, None)
        rng = np.random.default_rng(0)
        cells = rng.integers(-3, 9, 7)
        first = _even_groups(cells, 3)
        groups = rng.integers(-3, 9, first.size)
        parts = np.split(cells, first[1:])
        best = [(count * len(part) + part.sum()) / (len(part) + 1) for part, count in zip(parts, groups, strict=True)]
        best = project_to_simplex(np.array(best), max(sum(best), 0))
        assert found == pytest.approx(
            np.concatenate([project_to_simplex(*one) for one in zip(parts, best, strict=True)])
        )


class TestQuantiles:
    @each("column", [[1.0] * 90 + [3.5] * 10, list(np.linspace(0, 4, 101)), [0.0], [9.0, -9.0]])
    def test_without_noise_no_candidate_is_better(self, column):
        ranks = count_below(np.array(column), GRID)
        found = counted_quantiles(ranks, TENTHS, (9, 3), Known(), None)
        for q, index in zip(TENTHS, found, strict=True):
            assert scores(*ranks, q)[index] == scores(*ranks, q).max()

    def test_without_values_they_are_spread_evenly(self):
        ranks = count_below(np.array([NAN]), GRID)
        found = counted_quantiles(ranks, TENTHS, (9, 3), Known(-3), None)
        assert found.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 4]

    @pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(10**9)])
    def test_tiny_and_huge_epsilons(self, epsilon):
        table, share = read_table(np.array([[2.0], [3.0]])), Share("epsilon", epsilon)
        found = plan_quantiles(table, None, [GRID], TENTHS, share).draw(SeededSource("tiny"))
        assert (np.diff(found) >= 0).all()
        assert np.isin(found, GRID).all()
        assert epsilon < 1 or found.tolist() == [[2.0] * 5 + [3.0] * 4]

    def test_fifty_have_a_tenth_of_the_error_of_as_many_choices(self):
        """Skewed values with many ties, of which half are 0; not one of the columns that constants were chosen on."""
        rng = np.random.default_rng(7)
        column = np.where(rng.random(20_000) < 0.5, 0.0, np.round(rng.gamma(3, 2, 20_000), 1))
        grid, share = equal_steps(0, 100, 10_000), Share("epsilon", Fraction(1, 10))
        probabilities = [Fraction(index, 51) for index in range(1, 51)]
        ranks, source = count_below(column, grid), SeededSource("fifty")

        def error(found):
            failures = [
                -scores(*ranks, q)[index] / q.denominator for q, index in zip(probabilities, found, strict=True)
            ]
            return np.mean(failures)

        plan = plan_quantiles(read_table(column.reshape(-1, 1)), None, [grid], probabilities, share)
        together = error(np.searchsorted(grid, plan.draw(source)[0]))
        by_choices = ranked_quantiles([ranks], probabilities, [np.arange(grid.size)], share, source)[0]
        assert together < 80
        assert together < error(by_choices.astype(int)) / 10
