from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from skdp import DPKBinsDiscretizer
from skdp.central.statistics import _cuts, equal_steps, plan_quantiles
from skdp.central.statistics._quantiles import cells_of, count_below, halved_quantiles, ranked_quantiles, scores
from skdp.frames import read_table
from skdp.privacy import Rho, Share, read_share
from skdp.randomness import SeededSource
from skdp.testing import check_sensitivity

NAN = math.nan
GRID = np.arange(3.0)
VALUES = (0.0, 0.5, 2.0, 7.0, NAN)
QUARTILES = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
UNEVEN = [Fraction(1, 10), Fraction(1, 3), Fraction(9, 10)]


@pytest.fixture
def choices(monkeypatch):
    """The laws of all choices of a release, given the first one."""
    monkeypatch.setattr(_cuts, "PARTS", 2)

    def laws_of(rows, probabilities, share):
        found = []
        for first in range(11):
            laws = []

            def choose(source, size, within, gap, rate, scores, laws=laws, first=first):
                gaps = np.array([gap(index) for index in range(size)])
                for far in (0, 7):
                    assert np.flatnonzero(gaps <= far).tolist() == list(range(*within(far)))
                weights = np.exp(-float(rate) * gaps)
                laws.append(np.log(weights / weights.sum()))
                return first if len(laws) == 1 else 0

            monkeypatch.setattr(_cuts, "unimodal_choice", choose)
            _cuts.cut_positions(cells_of(count_below(np.array(rows, float), GRID)), probabilities, share, None)
            assert laws[0].size == 11
            found.append((laws[0][first], laws[1:]))
        return found

    return laws_of


def loss(one, other):
    """The greatest log ratio of the probabilities of a release: the later choices do not depend on each other."""
    return max(
        a - b + sum((left - right).max() for left, right in zip(later, others, strict=True))
        for (a, later), (b, others) in zip(one, other, strict=True)
    )


class TestGuarantee:
    @pytest.mark.parametrize("probabilities", [QUARTILES, UNEVEN, QUARTILES[::2]], ids=["quartiles", "uneven", "two"])
    def test_adding_a_record_costs_at_most_epsilon(self, choices, probabilities):
        """All tables of up to 2 rows, on candidates, between and beyond them, and all neighbours."""
        share, known, worst = Share("epsilon", Fraction(1)), {}, 0
        for rows in itertools.chain(*(itertools.combinations_with_replacement(range(5), n) for n in range(4))):
            known[rows] = choices([VALUES[row] for row in rows], probabilities, share)
        for rows, here in known.items():
            if len(rows) < 3:
                for row in range(5):
                    there = known[tuple(sorted((*rows, row)))]
                    assert row < 4 or loss(here, there) == 0
                    worst = max(worst, loss(here, there), loss(there, here))
        assert 0.45 < worst <= 1 + 1e-9

    @pytest.mark.parametrize("rows", [1, 3])
    @pytest.mark.parametrize("given", [0.7, Rho(0.1, 1e-6)], ids=str)
    def test_columns_and_levels_share_the_budget(self, monkeypatch, given, rows):
        rates = []
        monkeypatch.setattr(_cuts, "unimodal_choice", lambda *given: rates.append(given[4]) or 0)
        share = replace(read_share(given), rows=rows)
        ranks = [count_below(np.array([1.0]), GRID)] * 2
        halved_quantiles(ranks, QUARTILES, [GRID] * 2, share, None)
        # Each of the sets has the portion 1/2, and so scores of the sensitivity 1 / PARTS.
        assert rates == [(share / 4).choice / (2 * _cuts.PARTS * rows)] * 6

    @pytest.mark.parametrize("epsilon", [1.0, pytest.param(Rho(0.1, 1e-6), marks=pytest.mark.long)], ids=str)
    def test_the_replayed_noise_covers_a_record(self, monkeypatch, epsilon):
        monkeypatch.setattr(_cuts, "_AUDITED", 50)
        rows = np.array([[0.0], [0.0], [99.5]])
        check_sensitivity(DPKBinsDiscretizer(epsilon, n_bins=4, bounds=(0, 100), candidates=2000), rows)


class TestCuts:
    @pytest.mark.parametrize("counts", [[2, 0, 3], [0, 0, 1], [0, 0], [5]])
    def test_the_first_of_a_mass(self, monkeypatch, counts):
        monkeypatch.setattr(_cuts, "PARTS", 4)
        cuts = _cuts.Cuts(np.append(0, np.cumsum(counts)))
        masses = [cuts.mass(cut) for cut in range(cuts.last + 1)]
        assert masses == [sum((np.repeat(counts, 4))[:cut]) for cut in range(cuts.last + 1)]
        for mass in range(-1, 4 * sum(counts) + 3):
            assert cuts.first(mass) == np.searchsorted(masses, mass)


class TestQuantiles:
    @pytest.mark.parametrize("probabilities", [QUARTILES, UNEVEN, [Fraction(i, 8) for i in range(1, 8)]], ids=len)
    @pytest.mark.parametrize(
        "column",
        [[0.0] * 60 + [3.5] * 11 + [9.0] * 29, np.linspace(0, 4, 801), [3.0] * 40],
        ids=["tied", "even", "one"],
    )
    def test_with_a_huge_epsilon_no_candidate_is_better(self, column, probabilities):
        ranks, grid = count_below(np.array(column), np.arange(5.0)), np.arange(5)
        found = halved_quantiles([ranks], probabilities, [grid], Share("epsilon", Fraction(10**9)), SeededSource(1))
        for q, index in zip(probabilities, found[0], strict=True):
            assert scores(*ranks, q)[index] == scores(*ranks, q).max()

    @pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(1)])
    @pytest.mark.parametrize("rows", [[], [2.0, 3.0]], ids=len)
    def test_little_is_known(self, rows, epsilon):
        grid, source = equal_steps(0, 1, 5000), SeededSource("tiny")
        found = halved_quantiles(
            [count_below(np.array(rows), grid)], QUARTILES, [grid], Share("epsilon", epsilon), source
        )
        assert (np.diff(found) >= 0).all()
        assert np.isin(found, grid).all()

    def test_fine_candidates_and_three_to_seven_are_halved(self):
        table, share = read_table(np.zeros((4, 1))), Share("epsilon", Fraction(1))

        def name(k, steps):
            probabilities = [Fraction(index, k + 1) for index in range(1, k + 1)]
            return plan_quantiles(table, None, [equal_steps(0, 1, steps)], probabilities, share).mechanism

        assert [name(k, 10_000)[:4] for k in (1, 2, 3, 7, 8)] == ["perm", "perm", "expo", "expo", "disc"]
        assert [name(k, 1000)[:4] for k in (1, 2, 3, 4)] == ["perm"] * 3 + ["disc"]

    def test_three_have_less_error_than_choices(self):
        """Skewed values, half of them 0; not one of the columns that the rule was chosen on."""
        rng = np.random.default_rng(8)
        column = np.where(rng.random(5000) < 0.2, 0.0, rng.gamma(3, 2, 5000))
        grid, share, source = equal_steps(0, 100, 10_000), Share("epsilon", Fraction(1, 10)), SeededSource("three")
        ranks = count_below(column, grid)

        def error(release):
            found = release([ranks], QUARTILES, [np.arange(grid.size)], share, source)[0].astype(int)
            return np.mean([-scores(*ranks, q)[index] for q, index in zip(QUARTILES, found, strict=True)])

        halved, chosen = (np.mean([error(one) for _ in range(15)]) for one in (halved_quantiles, ranked_quantiles))
        assert halved < 0.75 * chosen
