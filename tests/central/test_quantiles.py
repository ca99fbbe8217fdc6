"""Quantiles by halving: exact laws, and what is close to the quantiles."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp import DPKBinsDiscretizer
from skdp.central import _quantiles
from skdp.central._quantiles import QuantilePlan, count_cells, read_probability
from skdp.privacy import Mu, PrivacyBudget
from tests.conftest import each
from tests.sensitivity import check_sensitivity

NAN = math.nan


class TestProbability:
    @each("value", [0.1, np.float64(0.1), Fraction(1, 10), np.float32(0.1)])
    def test_is_taken_as_written(self, value):
        assert read_probability(value, "quantile") == Fraction(1, 10)


THREE = np.arange(3.0)
CUT_VALUES = (0.0, 0.5, 2.0, 7.0, NAN)
QUARTILES = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
UNEVEN = [Fraction(1, 10), Fraction(1, 3), Fraction(9, 10)]


@pytest.fixture
def laws_of_cuts(monkeypatch):
    """For each first cut of a table, its log-probability and the laws of the later cuts."""
    monkeypatch.setattr(_quantiles, "PARTS", 2)

    def laws_of(rows, probabilities, share):
        by_first_cut = []
        for first in range(11):
            laws = []

            def choose(source, size, within, gap, rate, scores, laws=laws, first=first):
                gaps = np.array([gap(index) for index in range(size)])
                # An audit is shown the scores of some cuts, those of both ends last.
                shown = scores()
                assert set(shown) <= set((shown[-2] + gaps[0] - gaps).tolist())
                for far in (0, 7):
                    assert np.flatnonzero(gaps <= far).tolist() == list(range(*within(far)))
                weights = np.exp(-float(rate) * gaps)
                laws.append(np.log(weights / weights.sum()))
                return first if len(laws) == 1 else 0

            monkeypatch.setattr(_quantiles, "unimodal_choice", choose)
            _quantiles.choose_cuts(count_cells(np.array(rows, float), THREE), probabilities, share, None)
            assert laws[0].size == 11
            by_first_cut.append((laws[0][first], laws[1:]))
        return by_first_cut

    return laws_of


def loss_of_cuts(one, other):
    """The greatest log ratio of the probabilities of a release: the later cuts do not depend on each other."""
    ratios = []
    for (first, later), (other_first, other_later) in zip(one, other, strict=True):
        of_later = [(left - right).max() for left, right in zip(later, other_later, strict=True)]
        ratios.append(first - other_first + sum(of_later))
    return max(ratios)


class TestHalving:
    @pytest.mark.parametrize("probabilities", [QUARTILES, UNEVEN, QUARTILES[::2]], ids=["quartiles", "uneven", "two"])
    def test_adding_a_record_costs_at_most_epsilon(self, laws_of_cuts, probabilities):
        """All tables of up to 2 rows, on candidates, between and beyond them, and all neighbours."""
        share, known, worst = PrivacyBudget("epsilon", Fraction(1)), {}, 0
        for rows in itertools.chain(*(itertools.combinations_with_replacement(range(5), n) for n in range(4))):
            known[rows] = laws_of_cuts([CUT_VALUES[row] for row in rows], probabilities, share)
        for rows, here in known.items():
            if len(rows) < 3:
                for row in range(5):
                    there = known[tuple(sorted((*rows, row)))]
                    assert row < 4 or loss_of_cuts(here, there) == 0
                    worst = max(worst, loss_of_cuts(here, there), loss_of_cuts(there, here))
        assert 0.45 < worst <= 1 + 1e-9

    def test_the_rates_of_two_columns_of_persons_and_of_rho(self, monkeypatch):
        rates = []
        monkeypatch.setattr(_quantiles, "unimodal_choice", lambda *args: rates.append(args[4]) or 0)
        cells = count_cells(np.arange(3.0), THREE)
        rho = PrivacyBudget("rho", Fraction(1))
        for share in (PrivacyBudget("epsilon", Fraction(1)), PrivacyBudget("epsilon", Fraction(1), rows=3), rho):
            QuantilePlan([cells, cells], [THREE, THREE], QUARTILES, share).draw(None)
        # Two columns, two levels. A value has `PARTS` parts, and moves the score of a median by half of twice as many.
        of_median = rates[::6]
        assert of_median[0] == Fraction(1, 4) / (2 * _quantiles.PARTS)
        assert of_median[1] == of_median[0] / 3
        assert of_median[2] == (rho / 2 / 2).choice / (2 * _quantiles.PARTS)

    @pytest.mark.parametrize("counts", [[2, 0, 3], [0, 0, 1], [0, 0], [5]])
    def test_the_first_cut_of_a_mass(self, monkeypatch, counts):
        monkeypatch.setattr(_quantiles, "PARTS", 4)
        cells = _quantiles.Masses(np.append(0, np.cumsum(counts)))
        masses = [cells.of(cut) for cut in range(cells.last_cut + 1)]
        assert masses == [sum((np.repeat(counts, 4))[:cut]) for cut in range(cells.last_cut + 1)]
        for mass in range(-1, 4 * sum(counts) + 3):
            assert cells.first_cut(mass) == np.searchsorted(masses, mass)


@pytest.mark.parametrize("epsilon", [1.0, pytest.param(Mu(0.4, 1e-6), marks=pytest.mark.long)], ids=str)
def test_the_replayed_noise_covers_a_record(epsilon):
    rows = np.array([[0.0], [0.0], [99.5]])
    check_sensitivity(DPKBinsDiscretizer(epsilon, n_bins=10, bounds=(0, 100)), rows)
