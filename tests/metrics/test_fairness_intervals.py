"""Intervals of fairness metrics: published examples, exact coverage over all outcomes, and coverage with reports."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdp import DPGroupBy, RandomizedResponseEncoder
from skdp.local import UnaryEncodingTransformer
from skdp.metrics import debiased_fairness, fairness_from_counts, fairness_report
from tests.conftest import quick_first
from tests.metrics.tables import METRICS


def report(true, predicted, groups, **options):
    """Return the table of known groups, without warnings of undefined metrics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fairness_report(true, predicted, groups, positive_label=1, **options)


def report_counts(counts, privileged=None):
    """Return the metrics of groups with these (selected, other) rows, all of them positive."""
    groups = np.repeat(np.arange(len(counts)), np.sum(counts, axis=1))
    predicted = np.repeat(np.tile([1, 0], len(counts)), np.ravel(counts))
    return report(np.ones(len(groups)), predicted, groups, privileged=privileged).set_index("metric")


def contains(row, truth):
    return (row["lower"] <= truth + 1e-9) & (truth - 1e-9 <= row["upper"])


# Known groups.


def test_interval_of_a_difference_equals_newcombes_example():
    """Newcombe (1998), table II, case (a), method 10: 56 of 70 against 48 of 80."""
    parity = report_counts([(56, 14), (48, 32)], privileged=1).loc["statistical_parity_difference"]
    assert [round(parity[name], 4) for name in ("value", "lower", "upper")] == [0.2, 0.0524, 0.3339]


@pytest.mark.parametrize(("between", "n_pairs"), [([(45, 55)], 3), ([(45, 55), (40, 60)], 6)])
def test_lower_bound_of_the_largest_difference_holds_for_all_pairs(between, n_pairs):
    """Newcombe's method 10 at the Bonferroni level for all pairs: a lower bound fails on one side only."""
    high, low = (stats.binomtest(n, 100).proportion_ci(1 - 0.05 / n_pairs, "wilson") for n in (60, 30))
    lower = report_counts([(60, 40), *between, (30, 70)]).loc["statistical_parity_difference", "lower"]
    assert lower == pytest.approx(0.3 - np.hypot(0.6 - high.low, low.high - 0.3))


def newcombe(first, second, level):
    """Return the interval of the difference of two proportions (count, n_rows) by Newcombe's method 10."""
    p, q = (count / n_rows for count, n_rows in (first, second))
    a, b = (stats.binomtest(*counts).proportion_ci(level, "wilson") for counts in (first, second))
    return p - q - np.hypot(p - a.low, b.high - q), p - q + np.hypot(a.high - p, q - b.low)


@pytest.mark.parametrize("privileged", [1, None])
def test_interval_of_odds_combines_the_intervals_of_both_differences(privileged):
    """Next to 0, an endpoint holds for both rates by Bonferroni; the average excluded 0 in 11 % of equal groups."""
    cells = {(0, 1): (30, 70), (0, 0): (40, 60), (1, 1): (55, 45), (1, 0): (20, 80)}  # (group, label): selected or not
    groups, true = np.repeat(list(cells), 100, axis=0).T
    predicted = np.repeat([1, 0] * len(cells), np.ravel(list(cells.values())))
    table = report(true, predicted, groups, privileged=privileged).set_index("metric")
    tpr, fpr = ((55, 100), (30, 100)), ((40, 100), (20, 100))
    lower, upper = ([newcombe(*pair, level)[end] for pair in (tpr, fpr)] for end, level in enumerate((0.975, 0.95)))
    odds = table.loc["equalized_odds_difference"]
    assert odds["value"] == pytest.approx(0.25)
    assert odds["lower"] == pytest.approx(max(lower))
    assert odds["upper"] == pytest.approx(max(upper))
    assert odds["std_error"] == pytest.approx(np.sqrt(0.55 * 0.45 / 100 + 0.3 * 0.7 / 100))
    if privileged is None:
        average = table.loc["average_odds_difference", ["lower", "upper"]]
        assert tuple(average) == pytest.approx((np.mean(lower), np.mean(upper)))


def test_standard_error_of_extremes_is_the_error_of_their_groups():
    """It was nan. Its mean square is at least the variance, so it is too large for equal rates."""
    between = report_counts([(45, 55), (60, 40), (50, 50)])
    pair = report_counts([(45, 55), (60, 40)], privileged=1)
    for metric in ("statistical_parity_difference", "disparate_impact", "equal_opportunity_difference"):
        assert between.loc[metric, "std_error"] == pytest.approx(pair.loc[metric, "std_error"])
    rng = np.random.default_rng(0)
    equal = [report_counts([(n, 60 - n) for n in rng.binomial(60, 0.5, 3)]) for _ in range(25)]
    values, errors = np.transpose([table.loc[METRICS[0], ["value", "std_error"]] for table in equal])
    assert 1 < np.sqrt(np.mean(np.square(errors))) / np.std(values) < 2


@pytest.mark.parametrize("n_rows", quick_first(1, [5, 50]))
def test_rates_of_known_groups_have_clopper_pearson_intervals(n_rows):
    for count in range(n_rows + 1):
        expected = stats.binomtest(count, n_rows).proportion_ci(0.95, "exact")
        rates = report_counts([(count, n_rows - count), (2, 3)]).loc["selection_rate"]
        assert tuple(rates.iloc[0][["lower", "upper"]]) == pytest.approx(tuple(expected))


def wilson(count, n_rows):
    low, high = stats.binomtest(count, n_rows).proportion_ci(0.95, "wilson")
    return count / n_rows, low, high


def test_bound_of_a_ratio_is_where_the_difference_is_0():
    """Donner and Zou (2012), by the definition: the distances of ``top - R bottom`` from 0 add up as squares."""
    (top, top_low, top_high), (bottom, bottom_low, bottom_high) = wilson(7, 20), wilson(10, 25)
    low, high = report_counts([(7, 13), (10, 15)], privileged=1).loc["disparate_impact", ["lower", "upper"]]
    assert top - low * bottom == pytest.approx(np.hypot(top - top_low, low * (bottom_high - bottom)))
    assert high * bottom - top == pytest.approx(np.hypot(top_high - top, high * (bottom - bottom_low)))


def test_distances_of_average_odds_add_up_as_squares():
    """The differences of true and of false positive rates are independent; their mean has half of the distance."""
    cells = [(0, 0, 0, 30), (0, 0, 1, 20), (0, 1, 0, 10), (0, 1, 1, 25)]
    cells += [(1, 0, 0, 40), (1, 0, 1, 15), (1, 1, 0, 20), (1, 1, 1, 35)]
    groups, true, predicted, counts = np.transpose(cells)
    table = report(*(np.repeat(column, counts) for column in (true, predicted, groups)), privileged=1)
    odds = table.set_index("metric").loc["average_odds_difference"]
    pairs = [(wilson(25, 35), wilson(35, 55)), (wilson(20, 50), wilson(15, 55))]
    value = sum(one[0] - other[0] for one, other in pairs) / 2
    below = [np.hypot(one[0] - one[1], other[2] - other[0]) for one, other in pairs]
    above = [np.hypot(one[2] - one[0], other[0] - other[1]) for one, other in pairs]
    assert odds["value"] == pytest.approx(value)
    assert value - odds["lower"] == pytest.approx(np.hypot(*below) / 2)
    assert odds["upper"] - value == pytest.approx(np.hypot(*above) / 2)


# Reported groups.


def people(k, n_rows, rng):
    """Return groups, the last one the largest, and labels that depend on them."""
    shares = np.linspace(1, 2, k)
    groups = rng.choice(k, n_rows, p=shares / shares.sum())
    true = rng.random(n_rows) < 0.3 + 0.4 * groups / k
    predicted = rng.random(n_rows) < 0.2 + 0.3 * groups / k + 0.3 * true
    return groups, 1 * true, 1 * predicted


def encode(encoder, groups):
    """Fit an encoder to the groups; return it with the reports."""
    encoder.set_params(categories={"group": range(groups.max() + 1)})
    return encoder, encoder.fit_transform(pd.DataFrame({"group": groups}))


def debias_metrics(true, predicted, encoder, reports, rows, n_groups=2):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return debiased_fairness(
            true, predicted, reports, encoder, privileged=n_groups - 1, positive_label=1, rows=rows
        )


@pytest.mark.parametrize("rows", ["table", "population"])
def test_bound_of_a_rate_is_z_standard_errors_away(rows):
    """Fieller (1954), by the definition, from the variance of randomized response in closed form."""
    n, coin = 3_000, math.exp(1) / (math.exp(1) - 1) ** 2  # the variance of one row's indicator
    groups, true, predicted = people(2, n, np.random.default_rng(0))
    encoder, reports = encode(RandomizedResponseEncoder(1.0, random_state=0), groups)
    table = debias_metrics(true, predicted, encoder, reports, rows)
    largest = ((math.exp(1) + 1) / (math.exp(1) - 1) / 2) ** 2  # two further rows of each type, with random reports
    p = math.exp(1) / (math.exp(1) + 1)
    bounds = table.set_index(["metric", "group"])[["lower", "upper"]]
    masks = {"selection_rate": np.ones(n, bool), "true_positive_rate": true == 1, "false_positive_rate": true == 0}
    for rate, mask in masks.items():
        selected = predicted[mask]
        for group, name in enumerate(["unprivileged", "privileged"]):
            indicators = ((reports["group"] == group)[mask] - (1 - p)) / (2 * p - 1)
            top, bottom = indicators @ selected, indicators.sum()
            for t in bounds.loc[(rate, name)]:
                variance = coin * np.sum((selected - t) ** 2) + 2 * largest * ((1 - t) ** 2 + t**2)
                variance += bottom * t * (1 - t) * (rows == "population")
                assert abs(top - t * bottom) == pytest.approx(1.959964 * math.sqrt(variance))


SMOOTH = ["selection_rate", "true_positive_rate", "false_positive_rate", *METRICS[:4]]


def metrics_of_counts(counts):
    """Return the metrics of `SMOOTH` from numbers of rows, by group, true and predicted label."""
    parts = counts.sum(axis=1), counts[:, 1], counts[:, 0]
    rates = np.array([part[:, 1] / part.sum(axis=1) for part in parts])
    (parity, odds, false), impact = rates[:, 0] - rates[:, 1], rates[0, 0] / rates[0, 1]
    return np.array([*rates.ravel(), parity, impact, odds, (odds + false) / 2])


@pytest.mark.parametrize("rows", ["table", "population"])
def test_errors_equal_the_influence_of_rows(rows):
    """The delta method, by the slopes of the metrics in the number of rows of each group and labels."""
    groups, true, predicted = people(2, 3_000, np.random.default_rng(0))
    encoder, reports = encode(RandomizedResponseEncoder(2.0, random_state=0), groups)
    own = encoder.debias(reports).to_numpy()
    counts = np.zeros((2, 2, 2))
    for group in (0, 1):
        np.add.at(counts[group], (true, predicted), own[:, group])
    slopes = np.empty((2, 2, 2, 10))
    for cell in np.ndindex(2, 2, 2):
        step = np.zeros((2, 2, 2))
        step[cell] = 1e-4
        slopes[cell] = (metrics_of_counts(counts + step) - metrics_of_counts(counts - step)) / 2e-4
    slopes = slopes[:, true, predicted]
    variance = (np.einsum("ig,gim->im", own, slopes) ** 2).sum(axis=0)
    if rows == "table":
        variance = (own[:, 1] ** 2 - own[:, 1]) @ (slopes[1] - slopes[0]) ** 2
    found = debias_metrics(true, predicted, encoder, reports, rows).set_index("metric").loc[SMOOTH]
    np.testing.assert_allclose(found["value"], metrics_of_counts(counts))
    np.testing.assert_allclose(found["std_error"] ** 2, variance, rtol=0.1)


@pytest.mark.parametrize("rows", ["table", "population"])
@pytest.mark.parametrize("make", [RandomizedResponseEncoder, UnaryEncodingTransformer])
def test_possibly_empty_group_has_the_whole_range(make, rows):
    """Five positive rows in 600 cannot be distinguished from none in a group."""
    rng = np.random.default_rng(0)
    true, predicted = 1 * (np.arange(600) < 5), 1 * (rng.random(600) < 0.4)
    table = debias_metrics(true, predicted, *encode(make(1.0, random_state=0), rng.choice(2, 600)), rows)
    assert table[["lower", "upper"]].notna().all(axis=None)
    widths = (table["upper"] - table["lower"]).groupby(table["metric"]).max()
    assert widths["true_positive_rate"] == 1
    assert widths["equal_opportunity_difference"] > 1
    assert widths["false_positive_rate"] < 0.5


@pytest.mark.parametrize("rows", ["table", "population"])
def test_values_are_within_their_bounds_and_bounds_are_possible(rows):
    rng = np.random.default_rng(0)
    for seed in range(4):
        groups, true, predicted = people(3, 60, rng)
        encoder, reports = encode(RandomizedResponseEncoder(0.3, random_state=seed), groups)
        table = debias_metrics(true, predicted, encoder, reports, rows, 3)
        smallest = np.where(table["metric"].str.endswith("difference"), -1, 0)
        largest = np.where(table["metric"] == "disparate_impact", np.inf, 1)
        assert ((smallest <= table["lower"]) & (table["lower"] <= table["upper"]) & (table["upper"] <= largest)).all()
        # A group that is estimated as empty has only an interval.
        known = table.dropna(subset="value")
        assert known["std_error"].notna().all()
        assert ((known["lower"] <= known["value"]) & (known["value"] <= known["upper"])).all()


def test_impossible_rate_has_no_degenerate_interval():
    """In one of 60 draws, with the seed 27, the interval of a rate of 1 % is below 0; both of its bounds were 0."""
    rng = np.random.default_rng(0)
    groups = 1 * (rng.random(5_000) < 0.7)
    selected = 1 * (rng.random(5_000) < np.where(groups == 1, 0.7, 0.01))
    widths = []
    for seed in (27, 13, 15):
        encoder, reports = encode(RandomizedResponseEncoder(0.5, random_state=seed), groups)
        row = debias_metrics(selected, selected, encoder, reports, "population").iloc[0]
        widths.append((row["upper"] - row["lower"]) / row["std_error"])
    assert np.min(widths) > 1


# True groups, counts and reports.


@pytest.mark.long
@pytest.mark.parametrize("privileged", [True, False], ids=["privileged", "extremes"])
@pytest.mark.parametrize(
    ("sizes", "tpr", "fpr", "epsilon"),
    [
        ((300, 300), (0.5, 0.5), (0.2, 0.2), 1.0),  # both differences are 0
        ((300, 300), (0.5, 0.7), (0.2, 0.4), 3.0),  # they are equal
        ((400, 400), (0.7, 0.5), (0.2, 0.4), 1.0),
        ((300, 300), (0.4, 0.7), (0.3, 0.3), 3.0),  # one of them is 0
        ((50, 500), (0.5, 0.7), (0.2, 0.3), 1.0),
        ((50, 500), (0.6, 0.6), (0.3, 0.3), 3.0),
        ((200, 300), (0.95, 0.98), (0.02, 0.06), 3.0),
        ((200, 200, 200), (0.5, 0.5, 0.5), (0.3, 0.3, 0.3), 3.0),
        ((100, 300, 600), (0.4, 0.5, 0.8), (0.1, 0.3, 0.3), 1.0),
    ],
    ids=str,
)
def test_comparisons_of_true_counted_and_reported_groups_are_covered(sizes, tpr, fpr, epsilon, privileged):
    """Half of the rows are positive; the metrics of the population are those of its weighted cells."""
    n_groups, n_draws = len(sizes), 100
    options = {"privileged": n_groups - 1 if privileged else None}
    cells = np.array(list(np.ndindex(n_groups, 2, 2)))
    chances = np.where(cells[:, 1], np.take(tpr, cells[:, 0]), np.take(fpr, cells[:, 0]))
    chances = np.take(sizes, cells[:, 0]) / sum(sizes) / 2 * np.where(cells[:, 2], chances, 1 - chances)
    truth = report(cells[:, 1], cells[:, 2], cells[:, 0], sample_weight=chances, **options)
    keys = {"group": list(range(n_groups)), "true": [0, 1], "predicted": [0, 1]}
    covered = np.zeros((3, len(truth)))
    for seed in range(n_draws):
        drawn = np.random.default_rng(seed).choice(len(cells), sum(sizes), p=chances)
        people = pd.DataFrame(cells[drawn], columns=list(keys))
        groups, true, predicted = cells[drawn].T
        release = DPGroupBy(epsilon, by=list(keys), keys=keys, statistics="count", random_state=seed).fit(people)
        encoder, reports = encode(RandomizedResponseEncoder(epsilon, random_state=seed), groups)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = (
                report(true, predicted, groups, **options),
                fairness_from_counts(release.to_frame(), "true", "predicted", "group", **options),
                debiased_fairness(true, predicted, reports, encoder, **options),
            )
        covered += [contains(table, truth["value"]) for table in tables]
    # The seeds are fixed. With other seeds, intervals of coverage 0.93 fail with a probability of 1e-6 each.
    assert (covered >= stats.binom.ppf(1e-6, n_draws, 0.93)).all()
