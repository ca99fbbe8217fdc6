import math
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chisquare, norm

from skdp import (
    Domain,
    DPGroupBy,
    DPHistogram,
    DPMean,
    DPSimpleImputer,
    Interval,
    RandomizedResponseEncoder,
)
from skdp.base import Estimate
from skdp.privacy import Mu
from skdp.randomness import watch_draws
from tests.conftest import often
from tests.errors import refusal

FALSE_ALARM = 1e-6


def levels_of(size, branching):
    """Return the matrices from the counts of the cells to the counts of each level."""
    levels = [np.eye(size)]
    while len(levels[-1]) > branching:
        levels.append(np.add.reduceat(levels[-1], np.arange(0, len(levels[-1]), branching)))
    return levels


def all_ranges(size):
    """Return the rows of a matrix: 1 in a range of cells, 0 elsewhere."""
    return np.array(
        [[low <= i < high for i in range(size)] for low in range(size) for high in range(low + 1, size + 1)]
    )


class TestHierarchy:
    """Each group of each level has a noisy count; estimates and errors equal least squares."""

    @pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 9, 13, 16, 27, 31, 64])
    def test_estimates_and_errors_of_all_ranges_are_the_least_squares_solution(self, size):
        noises = []

        def make_noise(sampler, drawn, values):
            noises.append(np.random.default_rng(len(noises)).integers(-(10**9), 10**9, len(drawn)))
            return noises[-1]

        with watch_draws(make_noise):
            histogram = DPHistogram(domain={"a": range(size)}, method="hierarchical").fit(empty("a"))
        rows = np.vstack(levels_of(size, histogram.branching_))
        assert len(noises) > (size > 2)
        covariance = np.linalg.inv(rows.T @ rows)
        estimates = covariance @ rows.T @ np.concatenate(noises)
        assert np.cumsum(histogram.counts_) == pytest.approx(np.cumsum(estimates), abs=0.51)
        level_errors = histogram.std_error_ / np.sqrt(np.diag(covariance))
        assert level_errors == pytest.approx(level_errors[0])
        for one in all_ranges(size):
            low, high = np.flatnonzero(one)[[0, -1]]
            expected = level_errors[0] * math.sqrt(one @ covariance @ one)
            assert histogram.range_estimate(low, high + 1).std_error == pytest.approx(expected)

    @pytest.mark.parametrize(("size", "epsilon"), [(2, 1), (3, 1), (32, 1), (64, 1), (256, 1), (256, 25), (64, 5)])
    def test_plan_has_the_smallest_expected_error(self, size, epsilon):
        def error(branching):
            """Return the mean variance of all ranges, by the covariance of cumulative counts."""
            levels = levels_of(size, branching)
            rows = np.vstack(levels)
            below = np.vstack([np.zeros(size), np.tri(size)])
            sums = below @ np.linalg.inv(rows.T @ rows) @ below.T
            variances = np.diag(sums)[:, np.newaxis] + np.diag(sums) - 2 * sums
            a = math.exp(-epsilon / len(levels))
            return 2 * a / (1 - a) ** 2 * variances[np.triu_indices(size + 1, 1)].mean()

        plan = DPHistogram(epsilon, domain={"a": range(size)}).fit(empty("a")).branching_
        best = min(error(branching) for branching in sorted({2, 3, 4, 8, 11, 16, 32, size} - {1}))
        assert error(plan) <= 1.05 * best  # random ranges, and one branching for each number of levels


@pytest.mark.long
def test_empty_cells_have_the_same_noise():
    """The distribution of every count of an empty table; false alarm 1e-6."""
    noise = np.concatenate(
        [
            DPHistogram(1.0, domain={"a": range(400)}, method="flat", random_state=seed).fit(empty("a")).counts_
            for seed in range(100)
        ]
    )
    ends = np.arange(-6, 7)
    a = math.exp(-1)
    weights = a ** np.abs(ends) * (1 - a) / (1 + a)
    weights[[0, -1]] = a**6 / (1 + a)
    found = np.bincount(np.clip(noise, -6, 6) + 6, minlength=13)
    assert chisquare(found, noise.size * weights).pvalue > FALSE_ALARM


def empty(*names):
    return pd.DataFrame({name: np.empty(0) for name in names})


class TestAccuracy:
    @pytest.mark.long
    @pytest.mark.parametrize("parameters", [{"method": "flat"}, {"method": "hierarchical"}])
    @pytest.mark.parametrize("epsilon", [0.1, 1.0])
    def test_intervals_cover_the_counts(self, parameters, epsilon):
        """200 intervals of 95 % for each of five ranges, from one cell to all cells."""
        values = np.random.default_rng(0).integers(0, 50, 2000)
        frame = pd.DataFrame({"a": values})
        ends = [(0, 1), (3, 8), (10, 37), (1, 50), (None, None)]
        inside, errors, stated = dict.fromkeys(ends, 0), {pair: [] for pair in ends}, {}
        for seed in range(200):
            histogram = DPHistogram(epsilon, domain={"a": range(50)}, random_state=seed, **parameters).fit(frame)
            for low, high in ends:
                one = histogram.range_estimate(low, high)
                true = ((values >= (low or 0)) & (values < (high or 50))).sum()
                inside[low, high] += one.lower <= true <= one.upper
                errors[low, high].append(one.value - true)
                stated[low, high] = one.std_error
        for pair in ends:
            # The standard error of such a proportion is 1.5 %. Rounding outwards matters for small noise.
            assert 0.90 <= inside[pair] / 200 <= (0.99 if epsilon == 0.1 else 1)
            assert np.std(errors[pair]) == pytest.approx(math.hypot(stated[pair], 0.3), rel=0.17)

    @pytest.mark.parametrize("level", often([0.5, 0.8, 0.905, 0.95, 0.99, 0.999], [0.5, 0.95]))
    def test_intervals_of_sums_of_flat_cells_cover(self, level):
        """The exact distribution of the noise of a sum of m counts, from its characteristic function."""
        for epsilon in np.geomspace(0.05, 20, 20).tolist():
            histogram = DPHistogram(epsilon, domain={"a": range(300)}, method="flat", confidence_level=level)
            histogram.fit(empty("a"))
            a = math.exp(-epsilon)
            for m in (1, 2, 3, 5, 16, 300):
                n = 1 << max(6, math.ceil(math.log2(60 * math.sqrt(m * 2 * a) / (1 - a) + 40)))
                turns = 2 * np.pi * np.arange(n // 2 + 1) / n
                pmf = np.fft.irfft(((1 - a) ** 2 / (1 - 2 * a * np.cos(turns) + a**2)) ** m, n)
                estimate = histogram.range_estimate(0, m)
                margin = int(estimate.upper - estimate.value)
                assert estimate.value - estimate.lower == margin
                assert pmf[: margin + 1].sum() + pmf[n - margin :].sum() >= level - 1e-9


class TestCells:
    def test_cells_have_the_order_of_the_columns(self):
        domain = Domain({"b": [0, 1], "a": ["x", "y", "z"]})
        frame = pd.DataFrame({"a": ["x", "z", "z"], "b": [1, 0, 0]})
        histogram = DPHistogram(100.0, domain=domain).fit(frame)
        assert histogram.domain_ == Domain({"a": ["x", "y", "z"], "b": [0, 1]})
        assert histogram.counts_.tolist() == [0, 1, 0, 0, 2, 0]

    def test_total_below_1_gives_no_proportions(self):
        for seed in range(50):
            histogram = DPHistogram(domain={"a": ["x", "y", "z"]}, random_state=seed).fit(empty("a").astype(str))
            if histogram.counts_.sum() <= 0:
                assert histogram.frequencies_ == pytest.approx([1 / 3] * 3)
                return
        raise AssertionError("no seed gave a negative total")

    @pytest.mark.parametrize("value", ["z", None, 5])
    def test_values_outside_the_domain_may_be_excluded(self, value):
        frame = pd.DataFrame({"a": pd.Series(["x", value, "y", "x"], dtype=object), "b": [1, 1, 2, 2]})
        histogram = DPHistogram(100.0, domain={"a": ["x", "y"], "b": [1, 2]}, handle_unknown="ignore").fit(frame)
        assert histogram.counts_.tolist() == [1, 1, 0, 1]

    def test_auto_is_flat_for_unordered_cells(self):
        names = [f"v{i}" for i in range(200)]
        assert DPHistogram(domain={"a": names}).fit(pd.DataFrame({"a": ["v1"]})).method_ == "flat"
        assert DPHistogram(domain={"a": range(200)}).fit(pd.DataFrame({"a": [1]})).method_ == "hierarchical"
        mixed = [3, *range(4, 200), 1]
        assert DPHistogram(domain={"a": mixed}).fit(pd.DataFrame({"a": [1]})).method_ == "flat"
        both = DPHistogram(domain=Interval(0.0, 1.0, bins=20)).fit([[0, 1]])
        assert (both.method_, both.branching_) == ("flat", 400)
        with pytest.raises(ValueError, match="`range_estimate` requires a histogram of one column"):
            both.range_estimate(0, 1)


class TestRanges:
    AGES = pd.DataFrame({"age": [5] * 10 + [30] * 20 + [50] * 40 + [100] * 80})
    EDGES = Interval(edges=[0, 18, 40, 65, 100])

    @pytest.mark.parametrize(
        ("low", "high", "count"),
        [
            (None, None, 150),
            (0, 18, 10),
            (18.0, np.int64(65), 60),
            (65, None, 80),
            (-5, 1000, 150),
            (200, None, 0),
            (40, 40, 0),
            (None, -1, 0),
        ],
    )
    @pytest.mark.parametrize("method", ["flat", "hierarchical"])
    def test_range_of_an_interval_has_the_exact_count_at_a_large_epsilon(self, method, low, high, count):
        histogram = DPHistogram(100.0, domain=self.EDGES, method=method).fit(self.AGES)
        estimate = histogram.range_estimate(low, high)
        assert estimate == Estimate(count, estimate.std_error, estimate.lower, estimate.upper)
        assert (estimate.std_error == 0) == (count == 0)
        assert estimate.upper - estimate.lower == (2 if count else 0)

    def test_range_of_whole_numbers_with_a_bin_each_includes_the_largest(self):
        answers = pd.DataFrame({"x": [1] * 5 + [3] * 10 + [4] * 20})
        histogram = DPHistogram(100.0, domain=Interval(1, 4)).fit(answers)
        assert histogram.to_frame().index.tolist() == ["1", "2", "3", "4"]
        ranges = [(None, None, 35), (1, 4, 35), (1, 3, 5), (4, None, 20), (2, 4, 30)]
        assert all(histogram.range_estimate(low, high).value == count for low, high, count in ranges)

    def test_error_increases_with_the_level(self):
        histogram = DPHistogram(0.5, domain=self.EDGES, confidence_level=0.5, random_state=0).fit(self.AGES)
        narrow, frame = histogram.range_estimate(18, 65), histogram.to_frame()
        histogram.set_params(confidence_level=0.99)
        wide = histogram.range_estimate(18, 65)
        assert wide.lower < narrow.lower < narrow.value < narrow.upper < wide.upper
        assert narrow.std_error == pytest.approx(histogram.std_error_[0] * math.sqrt(2))
        assert (histogram.to_frame()["lower"] < frame["lower"]).all()
        assert frame["std_error"].tolist() == histogram.std_error_.tolist()

    @pytest.mark.parametrize(
        ("domain", "ends", "error", "message"),
        [
            (EDGES, (20, 65), ValueError, "must be edges of the bins of column 'age', .* got 20"),
            (EDGES, (100, None), ValueError, "column 'age', and `low` must not be the last edge, got 100"),
            (EDGES, (65, 18), ValueError, "`low` must be at most `high`"),
            (EDGES, ("18", 65), TypeError, "like the values of column 'age', got a string"),
            (EDGES, (0, math.nan), TypeError, "`high` must be None or a number.*got a missing value"),
            (EDGES, (True, None), TypeError, "`low` must be None or a number.*got a boolean"),
            ({"age": [5, 30, 50, 100]}, (50, 30), ValueError, "`low` must be at most `high`"),
            (EDGES, (300, 200), ValueError, "`low` must be at most `high`"),
            ({"age": [5, 30, 50, 100]}, ("5", None), TypeError, "`low` must be None or a number"),
        ],
    )
    def test_invalid_ranges_raise_an_error(self, domain, ends, error, message):
        histogram = DPHistogram(domain=domain).fit(self.AGES)
        with pytest.raises(error, match=message):
            histogram.range_estimate(*ends)


def test_too_many_cells_raise_an_error_before_memory_is_used():
    frame = pd.DataFrame(np.zeros((2, 40)), columns=[f"c{index}" for index in range(40)])
    with pytest.raises(ValueError, match=r"`domain` must have at most .* Use fewer columns or wider bins"):
        DPHistogram(domain=Interval(0, 2, bins=2)).fit(frame)


LARGE = [1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("make_table", [pl.DataFrame, pa.table])
@pytest.mark.parametrize("estimator", [DPHistogram, DPGroupBy])
def test_whole_numbers_from_2_to_the_63_are_labels(make_table, estimator):
    """The counts of an Arrow table could not be written after the charge."""
    table = make_table({"x": np.array(LARGE * 20, np.uint64)})
    options = {"by": "x", "keys": [LARGE], "statistics": "count"} if estimator is DPGroupBy else {"domain": [LARGE]}
    frame = estimator(50.0, random_state=0, **options).fit(table).to_frame()
    assert frame["x"].to_numpy().tolist() == LARGE
    assert frame["count"].to_numpy().tolist() == [20] * 3


@pytest.mark.parametrize(
    ("estimator", "column", "make_table"),
    [
        (DPHistogram(domain=[[1, 2**70]]), "x", pa.table),
        (DPHistogram(domain=[[1, 2**70]]), "x", pl.DataFrame),
        (DPGroupBy(by="x", keys=[[1, 2**70]], statistics="count"), "x", pa.table),
        (DPHistogram(domain=[[1, 2]], levels={"g": {1: "a", 2: 3}}), "g", pd.DataFrame),
        (DPHistogram(domain=[[1, 2]], levels={"g": {1: ("a",), 2: "b"}}), "g", pd.DataFrame),
        (DPSimpleImputer(strategy="most_frequent", categories={"x": [2**63, 2**64]}), "x", pa.table),
    ],
)
def test_values_that_no_table_contains_raise_before_the_charge(estimator, column, make_table):
    with refusal((TypeError, ValueError), rf"[Cc]olumn '{column}'") as ledger:
        estimator.set_params(ledger=ledger).fit(make_table({"x": [1] * 20}))


def test_last_day_is_counted_alone():
    """The last declared day shared a bin with the day before."""
    days = [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3)]
    table = pd.DataFrame({"day": days * 5 + days[1:] * 2 + days[2:]})
    declared = {"day": Interval(days[0], days[2])}
    histogram = DPHistogram(50.0, domain=declared, random_state=0).fit(table)
    assert histogram.range_estimate(days[2], None).value == 8
    groups = DPGroupBy(50.0, by="day", keys=declared, statistics="count", random_state=0).fit(table)
    encoder = RandomizedResponseEncoder(50.0, categories=declared, random_state=0).fit(table)
    reports = encoder.transform(table)
    for counts in (histogram.to_frame(), groups.to_frame(), encoder.estimate_counts(reports)):
        assert counts.index.tolist() == ["2020-01-01", "2020-01-02", "2020-01-03"]
        assert counts["count"].round().tolist() == [5, 7, 8]
    assert reports["day"].dt.date.tolist() == table["day"].tolist()


def test_means_of_columns_named_by_tuples_are_a_table():
    frame = pd.DataFrame(np.zeros((20, 2)), columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]))
    means = DPMean(bounds=(0, 1)).fit(frame).to_frame()
    assert means.index.tolist() == [("a", "b"), ("a", "c")]


@pytest.mark.parametrize("mu", [0.3, 1.0, 1.01, 1.5, 2.5, 4.0, 8.0, 60.0])
def test_standard_error_is_exact_for_rounded_noise_of_less_than_one_row(mu):
    """Rounding adds a twelfth to the variance of wide noise, and removes most of the variance of narrow noise."""
    histogram = DPHistogram(Mu(mu, delta=1e-6), domain={"k": ["a", "b"]}).fit(pd.DataFrame({"k": ["a"]}))
    z = np.arange(-60, 61)
    probabilities = norm.cdf((z + 0.5) * mu) - norm.cdf((z - 0.5) * mu)
    assert histogram.std_error_[0] == pytest.approx(np.sqrt(probabilities @ z**2), rel=1e-6, abs=1e-15)
    margin = histogram.to_frame().eval("upper - count").iloc[0]
    assert probabilities[np.abs(z) <= margin].sum() >= 0.95
