from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from skdp import DPKBinsDiscretizer, DPMinMaxScaler, DPQuantileBinarizer
from skdp.central.statistics import _noise, equal_steps, read_candidates, read_probability
from skdp.central.statistics._quantiles import count_below, ranked_quantiles, scores
from skdp.datasets import load_adult
from skdp.privacy import Share
from skdp.randomness import SecureSource, SeededSource
from tests.conftest import each

FALSE_ALARM = 1e-6
NAN = math.nan
GRID = np.arange(5.0)
PROBABILITIES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 4), Fraction(1, 3), Fraction(999, 1000)]


def quantiles(columns, probabilities, candidates, epsilon, source):
    ranks = [count_below(column, values) for column, values in zip(columns, candidates, strict=True)]
    return ranked_quantiles(ranks, probabilities, candidates, Share("epsilon", epsilon), source)


@lru_cache
def law(gaps, rate):
    """The exact law of permute-and-flip, up to the 53 bits of e^-x: heads are p_i, and the first head is uniform.

    The chance that c is chosen is p_c times the mean of 1 / (1 + the other heads), and that is the integral of
    prod (1 - p_i + p_i t) over t from 0 to 1.
    """
    heads = [Fraction(math.exp(-rate * gap)) for gap in gaps]
    chances = []
    for chosen, p in enumerate(heads):
        polynomial = [Fraction(1)]
        for other in heads[:chosen] + heads[chosen + 1 :]:
            shifted = [Fraction(0), *(other * term for term in polynomial)]
            kept = [*((1 - other) * term for term in polynomial), Fraction(0)]
            polynomial = [a + b for a, b in zip(kept, shifted, strict=True)]
        chances.append(p * sum(term / (power + 1) for power, term in enumerate(polynomial)))
    assert sum(chances) == 1
    return np.array([float(chance) for chance in chances])


@pytest.fixture
def choices(monkeypatch):
    """Record what permute-and-flip is asked for, in place of drawing: the law of a release is the product of theirs."""
    asked = []

    def record(source, scores, rate):
        best = max(scores)
        asked.append((tuple(int(best - score) for score in scores), rate))
        return 0

    monkeypatch.setattr(_noise, "permute_and_flip", record)

    def release(function):
        asked.clear()
        function()
        return tuple(asked)

    return release


def loss(one, other):
    """The greatest log ratio of two products of laws."""
    return sum(np.abs(np.log(law(*a) / law(*b))).max() for a, b in zip(one, other, strict=True))


def tables(values, most):
    return [rows for n in range(most + 1) for rows in itertools.combinations_with_replacement(values, n)]


def neighbours(rows, values):
    """All tables with one more row; those with one less are the same pairs."""
    return [tuple(sorted((*rows, value), key=str)) for value in values]


class TestGuarantee:
    VALUES = (*GRID[1:4], NAN)

    def released(self, choices, probabilities, epsilon=Fraction(1), candidates=GRID):
        return {
            tuple(sorted(rows, key=str)): choices(
                lambda rows=rows: quantiles([np.array(rows, float)], probabilities, [candidates], epsilon, None)
            )
            for rows in tables(self.VALUES, 5)
        }

    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
    @pytest.mark.parametrize(
        "probabilities", [*([q] for q in PROBABILITIES), [Fraction(1, 4), Fraction(3, 4)], PROBABILITIES], ids=str
    )
    def test_adding_a_record_costs_at_most_epsilon_and_replacing_one_twice_that(self, choices, probabilities, epsilon):
        """All tables of up to 4 rows on 3 of 5 candidates, with missing values."""
        laws = self.released(choices, probabilities, epsilon)
        worst = replaced = 0
        for rows in tables(self.VALUES, 4):
            larger = [laws[key] for key in neighbours(rows, self.VALUES)]
            here = laws[tuple(sorted(rows, key=str))]
            worst = max(worst, *(loss(here, there) for there in larger))
            replaced = max(replaced, *(loss(*pair) for pair in itertools.combinations(larger, 2)))
        assert 0.4 * epsilon < worst <= epsilon * (1 + 1e-9)
        assert worst < replaced <= 2 * epsilon * (1 + 1e-9)

    def test_a_missing_value_changes_nothing(self, choices):
        laws = self.released(choices, PROBABILITIES)
        for rows, here in laws.items():
            assert here == laws[tuple(row for row in rows if row == row)]

    def test_records_of_two_columns(self, choices):
        """Both columns are released: the losses of a record add."""
        records = list(itertools.product((0.0, 2.0, NAN), repeat=2))
        halves = [Fraction(1, 3), Fraction(2, 3)]

        def release(rows):
            columns = np.array(rows, float).reshape(-1, 2).T
            return choices(lambda: quantiles(list(columns), halves, [GRID, GRID[:3]], Fraction(1), None))

        worst = max(loss(release(rows), release((*rows, record))) for rows in tables(records, 2) for record in records)
        assert 0.4 < worst <= 1 + 1e-9

    def test_no_larger_rate_is_private_for_all_candidates(self, choices):
        """One score falls by 1/2 while another one rises by 1/2: with 2,000 candidates, the loss is epsilon."""
        many = np.arange(2000.0)

        def chance(column, candidate):
            """Of two heads' probabilities only: 1 of the best, p of all others of the same gap."""
            ((gaps, rate),) = choices(lambda: quantiles([column], [Fraction(1, 2)], [many], Fraction(1), None))
            t, weights = np.polynomial.legendre.leggauss(100)
            heads = np.exp(-float(rate) * np.array(gaps))
            others = np.log1p(-np.delete(heads, candidate)[:, None] * (1 - (t + 1) / 2)).sum(axis=0)
            return heads[candidate] * (weights / 2 * np.exp(others)).sum()

        before, after = chance(np.array([1990.0]), 1992), chance(np.array([1990.0, 1995.0]), 1992)
        assert 0.99 < math.log(after / before) < 1

    @each("q", PROBABILITIES)
    def test_sensitivity_of_the_scores_is_what_is_declared(self, q):
        declared = max(q.numerator, q.denominator - q.numerator)
        changes = set()
        for rows in tables(self.VALUES, 4):
            here = scores(*count_below(np.array(rows, float), GRID), q)
            for value in self.VALUES:
                changes |= set(np.abs(here - scores(*count_below(np.array([*rows, value], float), GRID), q)))
        assert max(changes) == declared

    @pytest.mark.parametrize(
        "estimator",
        [
            DPQuantileBinarizer(0.7, quantile=0.9, bounds=(0, 4), candidates=4),
            DPKBinsDiscretizer(0.7, n_bins=4, bounds=(0, 4), candidates=4),
            DPMinMaxScaler(0.7, quantile_range=(0.1, 0.8), bounds=(0, 4), candidates=4),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_estimators_spend_their_epsilon_on_all_columns(self, choices, estimator):
        records = [(0.0, 3.0), (2.0, NAN), (1.0, 1.0)]

        def release(rows):
            return choices(lambda: estimator.fit(np.array(rows, float).reshape(-1, 2)))

        worst = max(loss(release(rows), release((*rows, one))) for rows in tables(records, 2) for one in records)
        assert 0.3 < worst <= 0.7 + 1e-9


class TestScores:
    @given(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 1.5, 3.0, 9.0, NAN, math.inf, -math.inf]), max_size=12))
    def test_are_by_how_many_values_a_candidate_fails(self, rows):
        """By the definition, one value at a time; those outside of the candidates count as the ends."""
        column = [min(max(x, 0.0), 4.0) for x in rows if x == x]
        counts = count_below(np.array(rows, float), GRID)
        for q in PROBABILITIES:
            for candidate, score in zip(GRID, scores(*counts, q), strict=True):
                below, up_to = sum(x < candidate for x in column), sum(x <= candidate for x in column)
                failure = max(0, below - q * len(column), q * len(column) - up_to)
                assert int(score) == -failure * q.denominator

    @each("q", PROBABILITIES)
    def test_exact_quantiles_score_0(self, q):
        column = np.random.default_rng(0).integers(0, 5, 1000).astype(float)
        found = GRID[scores(*count_below(column, GRID), q) == 0]
        assert found.tolist() == [np.quantile(column, float(q), method="inverted_cdf")]

    def test_ties_are_no_trouble(self):
        column = np.array([0.0] * 90 + [50.0] * 10)
        grid = equal_steps(0, 100, 10_000)
        for q, expected in ((Fraction(1, 2), 0), (Fraction(89, 100), 0), (Fraction(95, 100), 50)):
            assert grid[scores(*count_below(column, grid), q) == 0].tolist() == [expected]

    def test_many_values_do_not_overflow(self):
        half = np.array([4 * 10**12])
        assert scores(half, half, 8 * 10**12, Fraction(999_999, 1_000_000)).item() == -(3_999_992 * 10**12)


class TestRelease:
    def test_follows_the_law(self):
        """2,000 medians of three values, by a seeded stream."""
        source, column = SeededSource(4), np.array([1.0, 1.0, 3.0])
        drawn = [quantiles([column], [Fraction(1, 2)], [GRID], Fraction(1), source).item() for _ in range(2_000)]
        gaps = -scores(*count_below(column, GRID), Fraction(1, 2))
        expected = law(tuple((gaps - gaps.min()).tolist()), Fraction(1, 2))
        assert chisquare(np.bincount(np.array(drawn, int), minlength=5), 2_000 * expected).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("rows", [[], [NAN, NAN]])
    def test_without_values_all_candidates_are_alike(self, choices, rows):
        ((gaps, _),) = choices(lambda: quantiles([np.array(rows)], [Fraction(1, 2)], [GRID], Fraction(1), None))
        assert gaps == (0,) * 5

    def test_one_value(self):
        found = quantiles([np.array([3.0])], [Fraction(1, 2)], [GRID], Fraction(10**4), SecureSource())
        assert found.tolist() == [[3.0]]

    def test_quantiles_of_a_column_are_sorted(self):
        probabilities = [Fraction(index, 10) for index in range(1, 10)]
        found = quantiles([GRID] * 3, probabilities, [np.arange(101.0)] * 3, Fraction(1, 100), SecureSource())
        assert found.shape == (3, 9)
        assert (np.diff(found, axis=1) >= 0).all()
        assert len(np.unique(found)) > 5

    def test_values_outside_of_the_candidates_count_as_the_ends(self):
        column = np.array([-math.inf, -5.0, -7.0, 99.0, math.inf])
        source, grid = SecureSource(), np.array([0.0, 1.0, 2.0])
        assert quantiles([column], [Fraction(1, 2)], [grid], Fraction(10**4), source).item() == 0

    @pytest.mark.long  # the law itself is tested above
    def test_the_median_age_is_37_in_each_of_300_runs(self):
        ages = load_adult().frame[["age"]]
        binarizer = DPQuantileBinarizer(epsilon=0.1, bounds=(0, 100))
        assert {binarizer.fit(ages).thresholds_.item() for _ in range(300)} == {37.0}


class TestProbability:
    @each("value", [0.1, np.float64(0.1), Fraction(1, 10), np.float32(0.1)])
    def test_is_taken_as_written(self, value):
        assert read_probability(value, "quantile") == Fraction(1, 10)

    @each(
        "value error",
        [
            (0, ValueError),
            (1, ValueError),
            (1e-9, ValueError),
            (1 - 1e-9, ValueError),
            (math.nan, ValueError),
            (math.inf, ValueError),
            ("0.5", TypeError),
            (True, TypeError),
            (None, TypeError),
            ([0.5], TypeError),
        ],
    )
    def test_odd_values(self, value, error):
        with pytest.raises(error, match="quantile must be"):
            read_probability(value, "quantile")


class TestCandidates:
    @each("high, steps", [(1, 10_000), (7, 9_996), (7_001, 7_001), (90_000, 90_000)])
    def test_between_whole_bounds_all_integers_are_among_them(self, high, steps):
        (found,) = read_candidates(None, ["age"], (0, high))
        assert found.size == steps + 1
        assert set(range(high + 1)) <= set(found.tolist())

    @pytest.mark.parametrize(
        ("bounds", "first", "last"),
        [((0, 100), 0, 100), ((-0.5, 2.5), 0, 2), ((0.5, 1.5), 1, 1), ((0, 999_999), 0, 999_999)],
    )
    def test_the_integers(self, bounds, first, last):
        (found,) = read_candidates("integers", ["age"], bounds)
        assert np.array_equal(found, np.arange(first, last + 1))

    @pytest.mark.parametrize("bounds", [(0, 100.5), (0.5, 100), (0, 100_001), (-8e307, 8e307)])
    def test_elsewhere_they_are_equal_steps(self, bounds):
        (found,) = read_candidates(None, ["age"], bounds)
        assert found.size == 10_001
        assert (found[0], found[-1]) == bounds
        assert np.diff(found) == pytest.approx((bounds[1] - bounds[0]) / 10_000, rel=1e-9)

    @pytest.mark.parametrize("bounds", [(0, 100), (0, 1), (-1, 1), (-50, 150), (0, 100_000)])
    def test_decimals_are_candidates_as_they_are_written(self, bounds):
        low, high = bounds
        expected = [float(Fraction(low) + Fraction((high - low) * index, 10_000)) for index in range(10_001)]
        assert equal_steps(*map(float, bounds), 10_000).tolist() == expected

    @pytest.mark.parametrize("bounds", [(0.1, 0.7), (-1 / 3, 1e-12), (1e17, 1.1e17)])
    def test_the_ends_are_the_bounds(self, bounds):
        found = equal_steps(*bounds, 3)
        assert (found[0], found[-1]) == bounds
        assert (np.diff(found) > 0).all()

    def test_may_be_declared(self):
        a, b, c = read_candidates({"a": 2, "b": [3, 1, 1]}, "abc", (0, 4))
        assert a.tolist() == [0, 2, 4]
        assert b.tolist() == [1, 3]
        assert c.size == 10_001
        for one in ("integers", range(5), [0, 1, 2, 3, 4], pd.Series(range(5)), 4, np.int64(4)):
            assert [found.tolist() for found in read_candidates(one, "abc", (0, 4))] == [[0, 1, 2, 3, 4]] * 3

    @each(
        "candidates error match",
        [
            (0, ValueError, "candidates must be between 1 and 1000000"),
            (1_000_001, ValueError, "candidates must be between 1 and 1000000"),
            (2.0, TypeError, "candidates must be an integer"),
            (True, TypeError, "candidates must be an integer"),
            ("auto", ValueError, "candidates of column 'age' must be 'integers'"),
            ([], ValueError, "candidates of column 'age' must be a list of 1 to"),
            ([[1, 2]], ValueError, "candidates of column 'age' must be a list of 1 to"),
            ([[1], [2, 3]], ValueError, "candidates of column 'age' must be a list of 1 to"),
            (np.array(3), ValueError, "candidates of column 'age' must be a list of 1 to"),
            (["a"], TypeError, "candidates of column 'age' must be numbers"),
            ([True], TypeError, "candidates of column 'age' must be numbers"),
            ([1, 101], ValueError, "candidates of column 'age' must be between its bounds, 0 and 100"),
            ([1, math.nan], ValueError, "candidates of column 'age' must be between its bounds, 0 and 100"),
            ({"sex": 3}, ValueError, "candidates declares columns that X does not have"),
            ({"age": {3: 4}}, ValueError, "candidates of column 'age' must be a list of 1 to"),
        ],
    )
    def test_odd_declarations(self, candidates, error, match):
        with pytest.raises(error, match=match):
            read_candidates(candidates, ["age"], (0, 100))

    @pytest.mark.parametrize("bounds", [(0.2, 0.7), (0, 1e6), (-1e300, 1e300)])
    def test_too_few_or_too_many_integers(self, bounds):
        with pytest.raises(ValueError, match="there must be 1 to 1,000,000 whole numbers"):
            read_candidates("integers", ["age"], bounds)
