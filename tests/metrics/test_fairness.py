"""Group fairness: the values of aif360 and fairlearn, and intervals that cover."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import UndefinedMetricWarning

from skdp.metrics import fairness_report
from skdp.metrics.fairness import Estimate, RateSums
from skdp.metrics.fairness._intervals import combine, ratio
from skdp.metrics.fairness._intervals import theil as theil_of_sums
from skdp.metrics.fairness._ranges import Rates, compare_extremes
from skdp.metrics.fairness._table import _outer_ends
from tests.conftest import each

pytest.importorskip("aif360")
fairlearn_metrics = pytest.importorskip("fairlearn.metrics")

METRICS = [
    "statistical_parity_difference",
    "disparate_impact",
    "equal_opportunity_difference",
    "average_odds_difference",
    "theil_index",
]

# (true, predicted) -> how many rows
UNPRIVILEGED = {(1, 1): 30, (1, 0): 20, (0, 1): 10, (0, 0): 40}
PRIVILEGED = {(1, 1): 60, (1, 0): 15, (0, 1): 5, (0, 0): 20}


def rows(**groups):
    table = [(sex, *cell) for sex, cells in groups.items() for cell, count in cells.items() for _ in range(count)]
    return pd.DataFrame(table, columns=["sex", "true", "predicted"]).sample(frac=1, random_state=0)


def report(frame, privileged="Male", positive_label=1, **parameters):
    columns = (frame[name] for name in ("true", "predicted", "sex"))
    return fairness_report(*columns, privileged=privileged, positive_label=positive_label, **parameters)


def values(frame, **parameters):
    return report(frame, **parameters)["value"][6:].tolist()


def proportion(successes, trials, level):
    """Estimate a rate of rows of one group."""
    x, n = (np.asarray(one, float)[..., np.newaxis, np.newaxis] for one in (successes, trials))
    n = np.broadcast_to(n, np.broadcast_shapes(x.shape, n.shape))
    none = np.zeros((*n.shape, 3))
    some = np.ones(n.shape, bool)
    moments, scales = np.stack([-n, -n / 2, 0 * n], axis=-1), np.ones((*n.shape, 2))
    sums = RateSums(np.broadcast_to(x, n.shape), n, moments, none, none, some, some, scales)
    return sums.estimate("sampled", level)[0][..., 0, 0]


def theil(unlucky, even, lucky, level):
    counts = np.array([unlucky, even, lucky], float)
    return theil_of_sums(counts, counts, level)


def aif360_values(frame, privileged="Male", positive_label=1):
    """The same from aif360 alone, on datasets that skdp did not make."""
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import ClassificationMetric

    def dataset(labels):
        numeric = pd.DataFrame({"group": (frame["sex"] == privileged) * 1.0, "y": (labels == positive_label) * 1.0})
        return BinaryLabelDataset(df=numeric, label_names=["y"], protected_attribute_names=["group"])

    metric = ClassificationMetric(
        dataset(frame["true"]),
        dataset(frame["predicted"]),
        unprivileged_groups=[{"group": 0}],
        privileged_groups=[{"group": 1}],
    )
    return [
        metric.statistical_parity_difference(),
        metric.disparate_impact(),
        metric.equal_opportunity_difference(),
        metric.average_odds_difference(),
        metric.theil_index(),
    ]


def by_hand(unprivileged, privileged):
    def rate(cells, true):
        positive = sum(count for (y, p), count in cells.items() if p == 1 and y in true)
        return Fraction(positive, sum(count for (y, _), count in cells.items() if y in true))

    selection = [rate(cells, {0, 1}) for cells in (unprivileged, privileged)]
    tpr = [rate(cells, {1}) for cells in (unprivileged, privileged)]
    fpr = [rate(cells, {0}) for cells in (unprivileged, privileged)]
    n = sum(unprivileged.values()) + sum(privileged.values())
    benefits = {}
    for cells in (unprivileged, privileged):
        for (y, p), count in cells.items():
            benefits[1 + p - y] = benefits.get(1 + p - y, 0) + count
    mean = sum(benefit * count for benefit, count in benefits.items()) / n
    shares = [(benefit / mean, count) for benefit, count in benefits.items() if benefit]
    return [
        float(selection[0] - selection[1]),
        float(selection[0] / selection[1]),
        float(tpr[0] - tpr[1]),
        float((tpr[0] - tpr[1] + fpr[0] - fpr[1]) / 2),
        sum(share * math.log(share) * count for share, count in shares) / n,
    ]


def test_the_values_are_aif360s_and_those_of_the_confusion_counts():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    # 40 of 100 against 65 of 100; 30 of 50 against 60 of 75; 10 of 50 against 5 of 25.
    assert values(frame)[:4] == pytest.approx([-0.25, 40 / 65, -0.2, -0.1])
    assert values(frame) == pytest.approx(by_hand(UNPRIVILEGED, PRIVILEGED), rel=1e-12)
    assert values(frame) == pytest.approx(aif360_values(frame), rel=1e-12)


some_cells = st.fixed_dictionaries({(y, p): st.integers(0, 9) for y in (0, 1) for p in (0, 1)})
groups = st.lists(some_cells.filter(lambda cells: any(cells.values())), min_size=2, max_size=4)


@given(groups)
def test_the_values_are_aif360s_and_fairlearns_on_any_table(parts):
    frame = rows(**dict(zip("abcd", parts, strict=False)))
    assume(frame[["true", "predicted"]].to_numpy().any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        two, each = values(frame, privileged="a"), by_group(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = aif360_values(frame, privileged="a")
    np.testing.assert_allclose(two, theirs, rtol=1e-9, atol=1e-12)
    if all(cells[0, 0] + cells[0, 1] and cells[1, 0] + cells[1, 1] for cells in parts):
        together = {cell: sum(cells[cell] for cells in parts[1:]) for cell in parts[0]}
        if two[1] == two[1] and not math.isinf(two[1]) and two[4] == two[4]:
            assert two == pytest.approx(by_hand(together, parts[0]), rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(each, fairlearn_values(frame), rtol=1e-9, atol=1e-12)
    elif all(cells[1, 0] + cells[1, 1] for cells in parts):
        np.testing.assert_allclose(each[2:4], fairlearn_values(frame)[2:4], rtol=1e-9, atol=1e-12)
        assert np.isnan(each[4:]).all()  # fairlearn says 0 of 0 is 0


RATES = ["selection_rate", "true_positive_rate", "false_positive_rate"]
BETWEEN = [f"{name}_{what}" for name in RATES for what in ("difference", "ratio")]
ODDS = ["equalized_odds_difference", "equalized_odds_ratio"]


def by_group(frame):
    table = fairness_report(frame["true"], frame["predicted"], frame["sex"], positive_label=1)
    between = table[table["group"].isna()].set_index("metric")["value"]
    return between[[*BETWEEN, *ODDS]].to_numpy()


def fairlearn_values(frame):
    rates = {
        name: getattr(fairlearn_metrics, method)
        for name, method in zip(RATES, ["selection_rate", "true_positive_rate", "false_positive_rate"], strict=True)
    }
    table = fairlearn_metrics.MetricFrame(
        metrics=rates, y_true=frame["true"], y_pred=frame["predicted"], sensitive_features=frame["sex"]
    )
    pairs = pd.concat([table.difference(), table.ratio()], axis=1).loc[RATES].to_numpy()
    worst = [pairs[1:, 0].max(), pairs[1:, 1].min()]
    return np.array([*pairs.ravel(), *worst])


def test_fairlearns_functions_are_rows_of_the_report():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED, Other={(1, 1): 3, (1, 0): 7, (0, 1): 5, (0, 0): 15})
    table = fairness_report(frame["true"], frame["predicted"], frame["sex"], positive_label=1).set_index("metric")
    for metric, function in (
        ("selection_rate_difference", "demographic_parity_difference"),
        ("selection_rate_ratio", "demographic_parity_ratio"),
        ("true_positive_rate_difference", "equal_opportunity_difference"),
        ("true_positive_rate_ratio", "equal_opportunity_ratio"),
        ("equalized_odds_difference", "equalized_odds_difference"),
        ("equalized_odds_ratio", "equalized_odds_ratio"),
    ):
        theirs = getattr(fairlearn_metrics, function)(
            frame["true"], frame["predicted"], sensitive_features=frame["sex"]
        )
        assert table.loc[metric, "value"] == pytest.approx(theirs, rel=1e-12)


def test_the_worse_of_a_ratio_and_0_of_0_is_unknown():
    """As the notes say: fairlearn's is the other one, if the false positive rates are all 0."""
    frame = rows(Female={(1, 1): 3, (1, 0): 1, (0, 0): 2}, Male={(1, 1): 4, (0, 0): 2})
    theirs = fairlearn_metrics.equalized_odds_ratio(frame["true"], frame["predicted"], sensitive_features=frame["sex"])
    assert theirs == 0.75
    with pytest.warns(UndefinedMetricWarning, match="undefined: false_positive_rate_ratio; equalized_odds_ratio"):
        assert np.isnan(by_group(frame)[-1])


def test_each_group_has_its_rates_and_is_compared_with_the_privileged():
    cells = {"Female": UNPRIVILEGED, "Male": PRIVILEGED, "Other": {(1, 1): 3, (1, 0): 7, (0, 1): 5, (0, 0): 15}}
    frame = rows(**cells)
    table = fairness_report(
        frame["true"], frame["predicted"], frame["sex"], privileged="Male", positive_label=1, by_group=True
    )
    assert table.columns.tolist() == ["metric", "definition", "group", "value"]
    assert table["metric"].tolist() == [
        *[name for name in RATES for _ in range(3)],
        *[name for name in METRICS[:4] for _ in range(2)],
        *BETWEEN,
        *ODDS,
        METRICS[4],
    ]
    assert table["group"].tolist() == ["Female", "Male", "Other"] * 3 + ["Female", "Other"] * 4 + [None] * 9
    lookup = table.set_index(["metric", "group"])["value"]
    for group, (selection, tpr, fpr) in {
        "Female": (0.4, 0.6, 0.2),
        "Male": (0.65, 0.8, 0.2),
        "Other": (8 / 30, 0.3, 0.25),
    }.items():
        assert [lookup[name, group] for name in RATES] == pytest.approx([selection, tpr, fpr])
    for group in ("Female", "Other"):
        pair = rows(**{group: cells[group], "Male": PRIVILEGED})
        assert [lookup[name, group] for name in METRICS[:4]] == pytest.approx(values(pair)[:4])


def test_several_privileged_values_are_one_group_that_the_others_are_compared_with():
    cells = {"a": UNPRIVILEGED, "b": PRIVILEGED, "c": {(1, 1): 3, (1, 0): 7, (0, 1): 5, (0, 0): 15}}
    frame = rows(**cells)
    table = fairness_report(
        frame["true"], frame["predicted"], frame["sex"], privileged=["b", "c"], positive_label=1, by_group=True
    ).set_index(["metric", "group"])
    assert table.loc[(METRICS[0], "a"), "value"] == pytest.approx(values(frame, privileged=["b", "c"])[0])
    assert (METRICS[0], "c") not in table.index


PEOPLE = {"sex": ["F", "F", "M", "M", "M", "F"], "race": ["B", "W", "W", "B", "W", "W"]}
OUTCOME = [0, 1, 1, 0, 1, 0]


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        pa.table,
        lambda data: np.array(list(zip(*data.values(), strict=True))),
        lambda data: pd.DataFrame(data, index=range(6, 0, -1)).astype("category"),
        lambda data: pa.table({name: pa.array(values).dictionary_encode() for name, values in data.items()}),
    ],
)
def test_several_columns_of_any_library_make_the_groups(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        table = fairness_report(OUTCOME, OUTCOME, make(PEOPLE), positive_label=1)
        alone = fairness_report(OUTCOME, OUTCOME, make({"sex": PEOPLE["sex"]}), positive_label=1)
    rates = table[table["metric"] == "selection_rate"].set_index("group")["value"]
    assert rates.to_dict() == {("F", "B"): 0, ("F", "W"): 1 / 2, ("M", "B"): 0, ("M", "W"): 1}
    assert alone.loc[:1, "group"].tolist() == ["F", "M"]


@pytest.mark.parametrize(
    "privileged",
    [("M", "W"), [("M", "W")], {"sex": "M", "race": "W"}, {"race": ["W"], "sex": {"M"}}],
)
def test_a_privileged_cell_of_several_columns(privileged):
    cell = ["yes" if person == ("M", "W") else "no" for person in zip(*PEOPLE.values(), strict=True)]
    predicted = [1, 1, 0, 0, 1, 0]
    options = {"positive_label": 1, "by_group": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        table = fairness_report(OUTCOME, predicted, pd.DataFrame(PEOPLE), privileged=privileged, **options)
        expected = fairness_report(OUTCOME, predicted, cell, privileged="yes", **options)
    pd.testing.assert_frame_equal(table, expected)


def test_groups_are_in_the_order_of_declared_categories_and_only_those_that_occur():
    sex = pd.Series(["b", "a", "b", "a"], dtype=pd.CategoricalDtype(["c", "b", "a"]))
    table = fairness_report([1, 0, 0, 1], [1, 1, 1, 1], sex, positive_label=1)
    assert table.loc[:1, "group"].tolist() == ["b", "a"]


def test_of_many_labels_the_positive_one_is_compared_with_the_rest():
    true, predicted = list("abcabcabca"), list("aacabbabcb")
    sex = list("FFFFFMMMMM")
    expected = fairness_report(
        [x == "a" for x in true], [x == "a" for x in predicted], sex, privileged="M", positive_label=True
    )
    table = fairness_report(true, predicted, sex, privileged="M", positive_label="a")
    pd.testing.assert_frame_equal(table, expected)
    one_only = fairness_report(true, ["a"] * 10, sex, privileged="M", positive_label="a")
    assert one_only["value"].tolist()[6:10] == [0, 1, 0, 0]


# Intervals


def binomials(trials, rates):
    """Every outcome of independent binomials, and its probability."""
    masses = [
        [math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)] for n, p in zip(trials, rates, strict=True)
    ]
    grids = np.meshgrid(*[np.arange(n + 1) for n in trials], indexing="ij")
    weight = np.ones(())
    for mass in masses:
        weight = np.multiply.outer(weight, mass)
    return [grid.ravel() for grid in grids], weight.ravel()


def covered(estimate, truth, weight):
    return weight[(estimate.lower <= truth + 1e-12) & (truth - 1e-12 <= estimate.upper)].sum()


RATE_PAIRS = list(itertools.product([0.1, 0.3, 0.5, 0.8], repeat=2))


def test_intervals_of_rates_and_differences_cover_exactly_summed_over_all_outcomes():
    shares, (lefts, rights) = [], (proportion(np.arange(n + 1), n, 0.95) for n in (40, 60))
    for p, q in RATE_PAIRS:
        (x, y), weight = binomials((40, 60), (p, q))
        left, right = lefts[x], rights[y]
        shares.append([covered(left, p, weight), covered(combine((1, left), (-1, right)), p - q, weight)])
        assert np.sqrt(weight @ (x / 40 - y / 60 - p + q) ** 2) == pytest.approx(
            combine((1, proportion(p * 40, 40, 0.95)), (-1, proportion(q * 60, 60, 0.95))).std_error
        )
    assert (np.array(shares) > 0.92).all()
    assert np.mean(shares, axis=0) == pytest.approx([0.95, 0.95], abs=0.01)


def test_at_an_end_of_the_interval_more_and_half_of_the_same_are_as_likely_as_one_tail():
    counts = np.arange(1, 20)
    found = proportion(counts, 20, 0.95)
    half = stats.binom.pmf(counts, 20, [found.lower, found.upper]) / 2
    assert stats.binom.sf(counts, 20, found.lower) + half[0] == pytest.approx(0.025, abs=1e-9)
    assert stats.binom.cdf(counts, 20, found.upper) - half[1] == pytest.approx(0.025, abs=1e-9)


def test_intervals_of_ratios_cover_exactly_summed_over_all_outcomes():
    (x, y), _ = binomials((40, 60), (0.5, 0.5))
    estimate = ratio(proportion(x, 40, 0.95), proportion(y, 60, 0.95))
    shares = [covered(estimate, p / q, binomials((40, 60), (p, q))[1]) for p, q in RATE_PAIRS]
    assert min(shares) > 0.92
    assert np.mean(shares) == pytest.approx(0.95, abs=0.01)


def test_the_interval_of_a_ratio_ends_where_that_of_a_difference_meets_0():
    top, bottom = proportion([3, 10, 0, 20], 20, 0.9), proportion([7, 4, 5, 25], 25, 0.9)
    estimate = ratio(top, bottom)
    for place in range(4):
        for end in ("lower", "upper"):
            reach = getattr(combine((1, top), (-float(getattr(estimate, end)[place]), bottom)), end)
            assert reach[place] == pytest.approx(0, abs=1e-12)


def test_average_odds_are_covered():
    trials, rates = (12, 14, 16, 10), (0.3, 0.5, 0.7, 0.4)
    counts, weight = binomials(trials, rates)
    parts = [proportion(np.arange(n + 1), n, 0.9)[x] for x, n in zip(counts, trials, strict=True)]
    factors = (0.5, -0.5, 0.5, -0.5)
    odds = combine(*zip(factors, parts, strict=True))
    truth = sum(factor * rate for factor, rate in zip(factors, rates, strict=True))
    assert 0.87 < covered(odds, truth, weight) < 0.93


@pytest.mark.parametrize("rates", [(0.3, 0.3, 0.3), (0.1, 0.4, 0.4), (0.2, 0.5, 0.7)])
def test_intervals_between_the_extreme_groups_cover_with_ties_and_without(rates):
    """Over 300 draws; the study over more of them is benchmarks/fairness_intervals.py."""
    trials = np.broadcast_to(np.array([20.0, 25.0, 15.0]), (300, 3))
    x = np.random.default_rng(0).binomial(trials.astype(int), rates)
    parts = [Rates(x / trials, np.stack([-trials, -trials / 2, 0 * trials], axis=-1), trials, known=True)]
    truths = max(rates) - min(rates), min(rates) / max(rates)
    for quotient, truth in enumerate(truths):
        found = compare_extremes(parts, 0.95, quotient=bool(quotient))
        assert (found.lower >= 0).all()
        assert (found.lower <= found.value + 1e-12).all()
        assert (found.value <= found.upper + 1e-12).all()
        assert (found.upper <= 1).all()
        share = ((found.lower <= truth + 1e-9) & (truth - 1e-9 <= found.upper)).mean()
        assert 0.91 < share < (0.98 if quotient == 0 else 1)
        assert quotient or np.median(found.upper - found.lower) < 0.56  # Bonferroni's is .66, and covers always


@pytest.mark.parametrize(("rates", "sizes"), [((0.9, 0.1), (5, 5)), ((0.95, 0.05, 0.5), (6, 6, 60))])
def test_a_range_of_1_is_covered(rates, sizes):
    trials = np.broadcast_to(np.array(sizes, float), (200, len(sizes)))
    x = np.random.default_rng(0).binomial(trials.astype(int), rates)
    parts = [Rates(x / trials, np.stack([-trials, -trials / 2, 0 * trials], axis=-1), trials, known=True)]
    found = compare_extremes(parts, 0.95, quotient=False)
    assert (found.value == 1).mean() > 0.2
    assert ((found.lower <= max(rates) - min(rates)) & (max(rates) - min(rates) <= found.upper)).mean() > 0.95


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (20, 20, 20, 20), (10, 10, 10, 10), (10, 10, 10, 11)])
def test_estimates_that_are_alike_have_an_interval(counts):
    groups, predicted = np.repeat(list("abcd"), 20), np.concatenate([np.arange(20) < count for count in counts]) * 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        table = fairness_report(np.ones(80), predicted, groups, positive_label=1, confidence_level=0.95)
    table = table.set_index("metric")
    pair = combine((1, proportion(max(counts), 20, 0.95)), (-1, proportion(min(counts), 20, 0.95)))
    assert table.loc["selection_rate_difference", "upper"] == pytest.approx(float(pair.upper))
    assert table.loc["selection_rate_ratio", "lower"] < 0.9


def test_where_a_group_may_be_empty_the_range_goes_as_far_as_the_farthest_pair():
    """And not as simultaneous intervals do, which only show that rates differ at all."""
    own = Estimate(*np.array([[[0.2, 0.5, 0.9]], [[0.1] * 3], [[0.1, 0.3, 0.8]], [[0.3, 0.7, 0.95]]]))
    wide = Estimate(own.value, own.std_error, own.lower - 0.05, own.upper + 0.05)
    lower, upper = _outer_ends(wide, own, False)
    assert (float(lower), float(upper)) == (pytest.approx(0.75 - 0.35), pytest.approx(0.95 - 0.1))
    lower, upper = _outer_ends(wide, own, True)
    assert (float(lower), float(upper)) == (pytest.approx(0.1 / 0.95), pytest.approx(0.35 / 0.75))


def test_of_two_groups_the_range_has_about_the_interval_of_the_difference():
    x, n = np.array([30.0, 70.0]), np.array([100.0, 110.0])
    parts = [Rates(x / n, np.stack([-n, -n / 2, 0 * n], axis=-1), n, known=True)]
    found = compare_extremes(parts, 0.95, quotient=False)
    pair = combine((1, proportion(70, 110, 0.95)), (-1, proportion(30, 100, 0.95)))
    assert float(found.lower) == pytest.approx(float(pair.lower), abs=0.01)
    assert float(found.upper) == pytest.approx(float(pair.upper), abs=0.01)


def test_intervals_of_all_groups_at_once_are_those_of_a_higher_level():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED, Other={(1, 1): 3, (1, 0): 7, (0, 1): 5, (0, 0): 15})
    given = {"by_group": True, "confidence_level": 0.9}
    together = report(frame, simultaneous=True, **given).set_index(["metric", "group"])
    third = report(frame, by_group=True, confidence_level=0.9 ** (1 / 3)).set_index(["metric", "group"])
    half = report(frame, by_group=True, confidence_level=0.9 ** (1 / 2)).set_index(["metric", "group"])
    pd.testing.assert_frame_equal(together.loc[RATES], third.loc[RATES])
    pd.testing.assert_frame_equal(together.loc[METRICS[:4]], half.loc[METRICS[:4]])


def test_the_theil_index_has_the_error_of_the_delta_method_and_covers():
    n, shares = 120, np.array([0.1, 0.75, 0.15])
    truth = float(theil(*(shares * n), 0.95).value)
    total, share = 0.0, 0.0
    for unlucky in range(n + 1):
        for lucky in range(n + 1 - unlucky):
            counts = (unlucky, n - unlucky - lucky, lucky)
            log_mass = math.lgamma(n + 1) - sum(math.lgamma(c + 1) for c in counts)
            mass = math.exp(log_mass + float(np.log(shares) @ counts))
            if mass < 1e-9:
                continue
            estimate = theil(*counts, 0.95)
            total += mass * (float(estimate.value) - truth) ** 2
            share += mass * bool(estimate.lower <= truth <= estimate.upper)
    assert math.sqrt(total) == pytest.approx(float(theil(*(shares * n), 0.95).std_error), rel=0.03)
    assert 0.92 < share < 0.97


@given(groups, st.sampled_from([0.5, 0.95, 0.999]))
def test_every_interval_holds_its_value_and_possible_values_only(parts, level):
    frame = rows(**dict(zip("abcd", parts, strict=False)))
    assume(frame[["true", "predicted"]].to_numpy().any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        table = fairness_report(
            *(frame[name] for name in ("true", "predicted", "sex")),
            privileged="a",
            positive_label=1,
            by_group=True,
            confidence_level=level,
        )
    assert table.columns.tolist() == ["metric", "definition", "group", "value", "std_error", "lower", "upper"]
    known = table[table["value"].notna()]
    assert (known["lower"] <= known["value"] + 1e-12).all()
    assert (known["value"] <= known["upper"] + 1e-12).all()
    assert known[["lower", "upper"]].notna().all(axis=None)
    unknown = table[table["value"].isna()]
    assert (unknown["upper"] - unknown["lower"] >= 1).all()  # all that is possible
    bounded = table[~table["metric"].isin(["disparate_impact", "theil_index"])]
    assert bounded[["lower", "upper"]].abs().max(axis=None) <= 1 + 1e-12
    between = table["metric"].isin([*BETWEEN, *ODDS])
    assert table.loc[between, "std_error"].isna().all()


def test_a_rate_of_0_or_1_is_no_certainty():
    table = fairness_report([1, 1, 0, 0], [1, 1, 1, 1], list("abab"), positive_label=1, confidence_level=0.95)
    rate = table.set_index(["metric", "group"]).loc[("true_positive_rate", "a")]
    assert (rate["value"], rate["std_error"], rate["upper"]) == (1, 0, 1)
    assert rate["lower"] == pytest.approx(0.05)  # of one row


@pytest.mark.parametrize("n_groups", [1, 20])
def test_rates_near_0_are_covered(n_groups):
    """Also by simultaneous intervals: Wilson's cover .45 with 20 groups, and .85 with one."""
    counts, rates = np.arange(21), np.linspace(0.002, 0.5, 60)[:, np.newaxis]
    found = proportion(counts, 20, 0.95 ** (1 / n_groups))
    inside = (found.lower <= rates) & (rates <= found.upper)
    coverage = (inside * stats.binom.pmf(counts, 20, rates)).sum(axis=1) ** n_groups
    assert coverage.min() > 0.92
    assert coverage.mean() < 0.97


def test_values_are_the_same_with_and_without_intervals():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    with_intervals = report(frame, confidence_level=0.9)
    assert with_intervals["value"][6:].tolist() == values(frame)
    pd.testing.assert_frame_equal(with_intervals.iloc[:, :4], report(frame))


def test_the_table_says_what_it_shows():
    table = report(rows(Female=UNPRIVILEGED, Male=PRIVILEGED))
    assert table.columns.tolist() == ["metric", "definition", "group", "value"]
    assert table["metric"].tolist() == [*np.repeat(RATES, 2), *METRICS]
    assert table["group"].tolist() == ["unprivileged", "privileged"] * 3 + [None] * 5
    assert table.attrs["labels"]["statistical_parity_difference"] == "statistical parity difference"
    assert set(table.attrs["labels"]) == set(table["metric"])
    assert table["value"].dtype == float
    assert "difference = unprivileged − privileged" in table.attrs["convention"]
    for metric, definition in zip(table["metric"], table["definition"], strict=True):
        assert ("difference" in metric) == ("unprivileged − privileged" in definition)


def test_printing_the_table_shows_the_convention():
    table = report(rows(Female=UNPRIVILEGED, Male=PRIVILEGED))
    with pd.option_context("display.width", 100, "display.max_columns", None):
        printed = repr(table)
    assert all(definition in printed for definition in table["definition"])
    assert len(printed.splitlines()) == 12


def test_exchanging_the_groups_turns_the_sign():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    there, back = values(frame), values(frame, privileged="Female")
    for index in (0, 2, 3):
        assert back[index] == pytest.approx(-there[index])
    assert back[1] == pytest.approx(1 / there[1])
    assert back[4] == there[4]


def test_parity_is_0_and_a_ratio_of_1():
    assert values(rows(Female=PRIVILEGED, Male=PRIVILEGED))[:4] == pytest.approx([0, 1, 0, 0], abs=1e-15)


def test_fairlearn_agrees():
    metrics = pytest.importorskip("fairlearn.metrics")
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    for index, rate in ((0, metrics.selection_rate), (2, metrics.true_positive_rate)):
        table = metrics.MetricFrame(
            metrics=rate, y_true=frame["true"], y_pred=frame["predicted"], sensitive_features=frame["sex"]
        ).by_group
        assert values(frame)[index] == pytest.approx(table["Female"] - table["Male"], rel=1e-12)


@pytest.mark.parametrize(
    "column",
    [
        list,
        np.array,
        pd.Series,
        pl.Series,
        lambda column: pd.Series(column, index=range(len(column), 0, -1)),
        lambda column: pd.Series(column, dtype="category"),
        lambda column: pd.DataFrame({"a": column}),
        lambda column: pl.DataFrame({"a": column}),
        lambda column: pa.chunked_array([column[:3], column[3:]]),
        lambda column: pa.table({"a": column}),
    ],
)
def test_columns_of_any_library_are_matched_by_position(column):
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    columns = [column(frame[name].tolist()) for name in ("true", "predicted", "sex")]
    table = fairness_report(*columns, privileged="Male", positive_label=1)
    assert table["value"][6:].tolist() == values(frame)


def test_groups_of_several_values_and_labels_of_other_kinds():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    expected = values(frame)
    frame.loc[frame.index % 2 == 0, "sex"] = frame["sex"].str.lower()
    assert values(frame, privileged=["Male", "male"]) == expected
    frame["true"] = np.where(frame["true"] == 1, ">50K", "<=50K")
    frame["predicted"] = np.where(frame["predicted"] == 1, ">50K", "<=50K")
    assert values(frame, privileged={"Male", "male"}, positive_label=">50K") == expected


def test_predictions_as_booleans_are_the_labels_0_and_1():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    assert values(frame.assign(predicted=frame["predicted"] == 1)) == values(frame)


@pytest.mark.parametrize(
    ("unprivileged", "privileged", "undefined"),
    [
        # nobody is predicted positive
        (dict.fromkeys([(1, 0), (0, 0)], 2), dict.fromkeys([(1, 0), (0, 0)], 2), [1]),
        # no true positive, no true negative in one group
        ({(0, 0): 2, (0, 1): 2}, PRIVILEGED, [2, 3]),
        ({(1, 0): 2, (1, 1): 2}, PRIVILEGED, [3]),
        # nobody benefits at all
        ({(1, 0): 2}, {(1, 0): 2}, [1, 3, 4]),
    ],
)
def test_what_is_undefined_is_said_so_and_the_rest_is_there(unprivileged, privileged, undefined):
    frame = rows(Female=unprivileged, Male=privileged)
    with pytest.warns(UndefinedMetricWarning) as caught:
        table = report(frame)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    table = table[6:].reset_index(drop=True)
    assert table.index[~np.isfinite(table["value"])].tolist() == undefined
    for index in range(5):
        assert (METRICS[index] in str(caught[0].message)) == (index in undefined)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(table["value"], aif360_values(frame), rtol=1e-12, atol=1e-15)


TRUE, PREDICTED, GROUPS = [0, 1, 0, 1], [0, 1, 1, 1], ["a", "a", "b", "b"]


@each(
    "columns message",
    [
        ((TRUE, PREDICTED[1:], GROUPS), "same length, got 4, 3 and 4"),
        ((TRUE, PREDICTED, GROUPS[1:]), "same length, got 4, 4 and 3"),
        (([0, 1, None, 1], PREDICTED, GROUPS), "y_true has missing values"),
        ((TRUE, [0, 1, float("nan"), 1], GROUPS), "y_pred has missing values"),
        ((TRUE, PREDICTED, ["b", "b", "b", "b"]), "no row with a privileged value"),
        ((TRUE, PREDICTED, ["a", "a", "a", "a"]), "no row with a value that is not privileged"),
        ((TRUE, ["0", "1", "1", "1"], GROUPS), "no label in common"),
        (([0, 0, 2, 2], [0, 0, 2, 2], GROUPS), "positive_label"),
        ((TRUE, PREDICTED, pd.DataFrame({"a": GROUPS, "b": GROUPS})), r"keys \['a', 'b'\], or a tuple of 2 values"),
        ((TRUE, PREDICTED, pd.DataFrame(index=range(4))), "at least one column"),
        ((TRUE, np.zeros((4, 2)), GROUPS), "y_pred must be one column"),
        (([], [], []), "positive_label"),
    ],
)
def test_what_cannot_be_compared_is_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        fairness_report(*columns, privileged="a", positive_label=1)


@pytest.mark.parametrize(
    "make",
    [
        list,
        pd.Series,
        pl.Series,
        lambda values: pd.Series(values, dtype="category"),
        lambda values: pd.Series([np.nan if value is None else value for value in values]),
        lambda values: pd.DataFrame({"sex": pd.array(values, dtype="string")}),
    ],
)
def test_missing_values_are_a_group_of_their_own(make):
    true, predicted = [1, 0, 1, 0] * 3, [1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1]
    groups = ["a"] * 4 + [None] * 4 + ["b"] * 4
    given = {"privileged": "a", "positive_label": 1, "by_group": True}
    found = fairness_report(true, predicted, make(groups), **given)
    expected = fairness_report(true, predicted, ["a"] * 4 + ["missing"] * 4 + ["b"] * 4, **given)
    columns = ["metric", "group", "value"]
    by_metric = [
        sorted(map(tuple, report[columns].round(9).astype(str).to_numpy().tolist())) for report in (found, expected)
    ]
    assert by_metric[0] == by_metric[1]
    two = fairness_report(true, predicted, make(groups), privileged="a", positive_label=1)
    pd.testing.assert_frame_equal(
        two, fairness_report(true, predicted, [*"aaaabbbbbbbb"], **given | {"by_group": False})
    )
    swapped = fairness_report(true, predicted, make(groups), privileged=[None], positive_label=1)
    pd.testing.assert_frame_equal(
        swapped, fairness_report(true, predicted, [*"bbbbaaaabbbb"], privileged="a", positive_label=1)
    )


@pytest.mark.filterwarnings("ignore:undefined")
def test_the_group_of_missing_values_has_a_name_that_no_value_has():
    report = fairness_report(TRUE * 2, PREDICTED * 2, [*GROUPS, "missing", "missing", None, None], positive_label=1)
    assert {"a", "b", "missing", "(missing)"} == set(report["group"].dropna())
    people = pd.DataFrame({"a": GROUPS, "b": [1.0, 2.0, None, 2.0]})
    report = fairness_report(TRUE, PREDICTED, people, positive_label=1)
    assert ("b", "missing") in set(report["group"].dropna())


@each(
    "parameters, message",
    [
        ({"by_group": False}, "privileged must be given"),
        ({"by_group": "yes"}, "by_group must be True, False or None"),
        ({"simultaneous": "yes"}, "simultaneous must be True or False"),
        ({"simultaneous": True}, "simultaneous=True is about intervals: it needs a confidence_level"),
        ({"confidence_level": 1}, "confidence_level"),
        ({"privileged": {"gender": "a"}}, r"keys \['gender'\]; sensitive_features has the columns"),
        ({"privileged": "c"}, "no row with a privileged value"),
        ({"privileged": ["a", "b"], "by_group": True}, "no row with a value that is not privileged"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        fairness_report(TRUE, PREDICTED, GROUPS, positive_label=1, **parameters)


def test_lazy_frames_are_refused_by_name_of_what_takes_them():
    with pytest.raises(TypeError, match=r"skdp\.engines"):
        fairness_report(TRUE, PREDICTED, pl.LazyFrame({"a": GROUPS}), positive_label=1)


def test_errors_show_no_value():
    with pytest.raises(ValueError, match="label") as caught:
        fairness_report(["secret", "x", "y", "z"], PREDICTED, GROUPS, privileged="a", positive_label="x")
    assert "secret" not in str(caught.value)
