"""Fairness metrics of more than two classes and of numbers: other libraries, errors by hand, and coverage."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import mean_absolute_error

from skdp import RandomizedResponseEncoder
from skdp.evaluation import FairnessDisplay
from skdp.metrics import debiased_fairness, fairness_report
from tests.metrics.tables import METRICS

MEANS = ["mean_prediction", "mean_error", "mean_absolute_error"]
N = 900
RNG = np.random.default_rng(0)
GROUP = RNG.choice(["a", "b", "c"], N, p=[0.2, 0.3, 0.5])
CLASS = np.array(["high", "low", "middle"])[(3 * RNG.random(N) ** (1 + (GROUP == "a"))).astype(int)]
PREDICTED = np.where(RNG.random(N) < 0.6, CLASS, RNG.permutation(CLASS))
WAGE = RNG.gamma(2, 10, N) + 8 * (GROUP == "c")
PREDICTED_WAGE = 0.7 * WAGE + 5 + RNG.normal(0, 4 + 2 * (GROUP == "a"), N)
WEIGHT = np.exp(0.5 * (GROUP == "c") + WAGE / 40 + 0.3 * RNG.normal(size=N))
ENCODER = RandomizedResponseEncoder(1.0, categories={"group": ["a", "b", "c"]}, random_state=0)
REPORTS = ENCODER.fit_transform(pd.DataFrame({"group": GROUP}))


def select_comparisons(table):
    return table[table["group"].isna()].set_index("metric")["value"]


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_classes_equal_fairlearn(weight):
    metrics = pytest.importorskip("fairlearn.metrics")
    table = fairness_report(CLASS, PREDICTED, GROUP, sample_weight=weight)
    assert table["class_vs_rest"].unique().tolist() == ["high", "low", "middle"]
    for label, part in table.groupby("class_vs_rest"):
        inputs = {"y_true": label == CLASS, "y_pred": label == PREDICTED, "sensitive_features": GROUP}
        inputs["sample_weight"] = weight
        expected = [
            metrics.demographic_parity_difference(**inputs),
            metrics.demographic_parity_ratio(**inputs),
            metrics.equal_opportunity_difference(**inputs),
            metrics.equalized_odds_difference(**inputs, agg="mean"),
        ]
        np.testing.assert_allclose(select_comparisons(part).loc[METRICS], expected, rtol=0, atol=1e-12)


def test_weighted_classes_equal_aif360():
    datasets, metrics = pytest.importorskip("aif360.datasets"), pytest.importorskip("aif360.metrics")
    table = fairness_report(CLASS, PREDICTED, GROUP, privileged="c", sample_weight=WEIGHT)
    for label, part in table.groupby("class_vs_rest"):
        both = []
        for labels in (CLASS, PREDICTED):
            columns = {"group": (GROUP == "c") * 1.0, "y": (labels == label) * 1.0, "weight": WEIGHT}
            names = {"label_names": ["y"], "protected_attribute_names": ["group"]}
            frame = pd.DataFrame(columns)
            both.append(datasets.BinaryLabelDataset(df=frame, instance_weights_name="weight", **names))
        groups = {"unprivileged_groups": [{"group": 0}], "privileged_groups": [{"group": 1}]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = metrics.ClassificationMetric(*both, **groups)
            expected = [getattr(metric, name)() for name in METRICS]
        np.testing.assert_allclose(select_comparisons(part).loc[METRICS], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("report", ["known", "private"])
def test_each_class_has_the_table_of_the_class_against_the_rest(report):
    def compare(true, predicted, **options):
        if report == "known":
            return fairness_report(true, predicted, GROUP, privileged="c", **options)
        return debiased_fairness(true, predicted, REPORTS, ENCODER, privileged="c", **options)

    table = compare(CLASS, PREDICTED)
    for label, part in table.groupby("class_vs_rest"):
        expected = compare(CLASS, PREDICTED, positive_label=label)
        assert "class_vs_rest" not in expected
        part = part.drop(columns="class_vs_rest").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected)


def test_class_that_is_never_true_is_undefined_once():
    predicted = np.where(np.arange(N) < 90, "none", PREDICTED)
    with pytest.warns(UndefinedMetricWarning) as caught:
        table = fairness_report(CLASS, predicted, GROUP)
    assert len(caught) == 1
    # Labels are values of the data.
    assert "none" not in str(caught[0].message)
    undefined = table[table["value"].isna()]
    assert set(undefined["class_vs_rest"]) == {"none"}
    assert "true_positive_rate" in set(undefined["metric"])


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_means_of_numbers_equal_fairlearn(weight):
    metrics = pytest.importorskip("fairlearn.metrics")

    def mean_error(y_true, y_pred, sample_weight=None):
        return np.average(y_pred - y_true, weights=sample_weight)

    functions = dict(zip(MEANS, [metrics.mean_prediction, mean_error, mean_absolute_error], strict=True))
    parameters = None if weight is None else {name: {"sample_weight": weight} for name in MEANS}
    frame = metrics.MetricFrame(
        metrics=functions, y_true=WAGE, y_pred=PREDICTED_WAGE, sensitive_features=GROUP, sample_params=parameters
    )
    table = fairness_report(WAGE, PREDICTED_WAGE, GROUP, sample_weight=weight)
    rates = table[table["group"].notna()].pivot_table(index="group", columns="metric", values="value")
    np.testing.assert_allclose(rates[MEANS], frame.by_group[MEANS].astype(float), rtol=0, atol=1e-12)
    differences = select_comparisons(table).loc[[f"{name}_difference" for name in MEANS]]
    np.testing.assert_allclose(differences, frame.difference()[MEANS].astype(float), rtol=0, atol=1e-12)


def test_weighted_difference_of_means_equals_aif360():
    aif360 = pytest.importorskip("aif360.sklearn.metrics")
    index = pd.Index((GROUP == "c").astype(int), name="group")
    true, predicted = pd.Series(WAGE, index=index), pd.Series(PREDICTED_WAGE, index=index)
    options = {"prot_attr": "group", "sample_weight": WEIGHT}
    expected = aif360.difference(mean_absolute_error, true, predicted, **options)
    table = fairness_report(WAGE, PREDICTED_WAGE, GROUP, privileged="c", sample_weight=WEIGHT)
    assert select_comparisons(table)["mean_absolute_error_difference"] == pytest.approx(expected, rel=0, abs=1e-12)


def test_standard_errors_of_weighted_means_are_linearized():
    table = fairness_report(WAGE, PREDICTED_WAGE, GROUP, privileged="c", sample_weight=WEIGHT)
    error = PREDICTED_WAGE - WAGE
    found, intervals = iter(table["std_error"]), []
    for values in (PREDICTED_WAGE, error, np.abs(error)):
        errors = []
        for mask in (GROUP != "c", GROUP == "c"):
            weight, mean = WEIGHT[mask], np.average(values[mask], weights=WEIGHT[mask])
            errors.append(np.sqrt(np.sum((weight * (values[mask] - mean)) ** 2)) / weight.sum())
        np.testing.assert_allclose([next(found), next(found)], errors)
        intervals.append(np.hypot(*errors))
    np.testing.assert_allclose(list(found), intervals)


def test_interval_of_a_mean_of_few_rows_is_close_to_students():
    rng = np.random.default_rng(1)
    values, groups = rng.normal(50, 9, 40), np.repeat(["a", "b"], 20)
    row = fairness_report(values, values, groups).iloc[0]
    mean, error = values[:20].mean(), values[:20].std(ddof=1) / np.sqrt(20)
    assert row["value"] == pytest.approx(mean)
    # 2.093 is Student's quantile with 19 degrees of freedom.
    np.testing.assert_allclose([row["lower"], row["upper"]], mean + 2.093 * error * np.array([-1, 1]), rtol=1e-2)


def test_means_do_not_depend_on_the_unit():
    """Years are far from 0 compared with their differences; a sum of squares of years loses digits."""
    inputs = REPORTS, ENCODER
    table = debiased_fairness(WAGE, PREDICTED_WAGE, *inputs, privileged="c")
    moved = debiased_fairness(WAGE * 1e-3 + 2e6, PREDICTED_WAGE * 1e-3 + 2e6, *inputs, privileged="c")
    columns = ["value", "lower", "upper"]
    shift = np.where(table["metric"] == "mean_prediction", 2e6, 0)[:, np.newaxis]
    np.testing.assert_allclose((moved[columns] - shift) * 1e3, table[columns], rtol=1e-3, atol=1e-3)


def test_noise_of_reported_means_has_the_variance_of_independent_misreports():
    """The rows are fixed, so that 300 draws of the reports differ by their noise only."""
    estimates, errors = [], []
    people = pd.DataFrame({"group": GROUP})
    for seed in range(300):
        encoder = RandomizedResponseEncoder(2.0, categories={"group": ["a", "b", "c"]}, random_state=seed)
        reports = encoder.fit_transform(people)
        options = {"privileged": "c", "sample_weight": WEIGHT, "rows": "table"}
        table = debiased_fairness(WAGE, PREDICTED_WAGE, reports, encoder, **options)
        estimates.append(table["value"])
        errors.append(table["std_error"])
    truth = fairness_report(WAGE, PREDICTED_WAGE, GROUP, privileged="c", sample_weight=WEIGHT)["value"]
    scale = np.std(estimates, axis=0)
    # The standard deviation of 300 draws has a relative error of 4 %.
    np.testing.assert_allclose(np.mean(errors, axis=0) / scale, 1, atol=0.2)
    assert (np.abs(np.mean(estimates, axis=0) - truth) < 5 * scale / np.sqrt(300)).all()


@pytest.mark.parametrize("epsilon", [None, 2.0])
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_intervals_cover_the_population(kind, epsilon):
    """Rows are drawn from 40,000 people with probabilities that are inverse to their weights."""
    rng, n_draws = np.random.default_rng(0), 60
    group = rng.choice(["a", "b", "c"], 40_000, p=[0.2, 0.3, 0.5])
    true = rng.gamma(2, 10, len(group)) + 8 * (group == "c")
    predicted = 0.7 * true + 5 + rng.normal(0, 4 + 2 * (group == "a"))
    weight = np.exp(0.5 * (group == "c") + true / 60)
    if kind == "classes":
        true, predicted = np.digitize(true, [15, 30]), np.digitize(predicted, [15, 30])
    truth = fairness_report(true, predicted, group, privileged="c")["value"]
    chances = np.cumsum(1 / weight)
    n_rows = 400 if epsilon is None else 1_000
    covered = []
    for seed in range(n_draws):
        rows = np.searchsorted(chances, rng.random(n_rows) * chances[-1])
        options = {"privileged": "c", "sample_weight": weight[rows]}
        if epsilon is None:
            table = fairness_report(true[rows], predicted[rows], group[rows], **options)
        else:
            encoder = RandomizedResponseEncoder(epsilon, categories={"group": ["a", "b", "c"]}, random_state=seed)
            reports = encoder.fit_transform(pd.DataFrame({"group": group[rows]}))
            table = debiased_fairness(true[rows], predicted[rows], reports, encoder, **options)
        covered.append((table["lower"] <= truth) & (truth <= table["upper"]))
    # The seeds are fixed. Intervals of one draw are dependent; with other seeds, the mean may be 0.02 lower.
    assert 0.93 < np.mean(covered) < 0.97


def test_probabilities_of_two_classes_raise():
    """Numbers with fractions beside the classes 0 and 1 are scores without a threshold."""
    classes, scores = (WAGE > 20).astype(int), np.clip(WAGE / 100, 0, 1)
    for true, predicted in ((classes, scores), (scores, classes), (CLASS, scores)):
        with pytest.raises(ValueError, match="threshold"):
            fairness_report(true, predicted, GROUP)
    with pytest.raises(ValueError, match="threshold"):
        fairness_report(WAGE, PREDICTED_WAGE, GROUP, positive_label=1)


def test_infinite_numbers_raise():
    infinite = np.where(np.arange(N) == 3, np.inf, PREDICTED_WAGE)
    with pytest.raises(ValueError, match="`y_pred` must be finite numbers, got infinite numbers"):
        fairness_report(WAGE, infinite, GROUP)


def test_display_has_panels_of_each_class_and_axes_that_show_large_means():
    pytest.importorskip("matplotlib")
    classes = FairnessDisplay.from_reports({"model": fairness_report(CLASS, PREDICTED, GROUP)})
    titles = [axes.get_title(loc="left") for axes in classes.ax_]
    assert titles[0] == "selection rate, high vs rest"
    assert len(titles) == 3 * 3 + 2
    report = fairness_report(WAGE * 1000, PREDICTED_WAGE * 1000, GROUP, privileged="c")
    numbers = FairnessDisplay.from_reports({"model": report})
    assert numbers.ax_[0].get_title(loc="left") == "mean prediction"
    means = report[report["metric"] == "mean_prediction"]
    low, high = numbers.ax_[0].get_xlim()
    assert low <= means["lower"].min()
    assert means["upper"].max() <= high


def test_whole_numbers_with_many_values_raise_and_are_means_in_another_unit():
    dollars, predicted = (100 * WAGE).astype(int), (100 * PREDICTED_WAGE).astype(int)
    with pytest.raises(ValueError, match=r"at most 100 labels, got \d+\. Divide whole numbers of a regression"):
        fairness_report(dollars, predicted, GROUP)
    assert "mean_error" in set(fairness_report(dollars / 100, predicted / 100, GROUP)["metric"])


@pytest.mark.parametrize("dtype", [int, float, object, "category"])
def test_more_than_20_whole_numbers_warn_that_they_are_classes(dtype):
    age = pd.Series(np.arange(N) % 21 + 18)
    with pytest.warns(UserWarning, match=r"more than 20 whole numbers.* y / 1000, and pass classes as text") as caught:
        fairness_report(age.astype(dtype), age.astype(dtype), GROUP)
    assert [warning.filename for warning in caught] == [__file__]
    # Neither text, nor 20 numbers, nor a positive label, nor a regression is a mistake; warnings are errors here.
    fairness_report(age.astype(str), age.astype(str), GROUP)
    fairness_report(age.replace(18, 19), age.replace(18, 19), GROUP)
    fairness_report(age, age, GROUP, positive_label=18)
    assert "mean_error" in set(fairness_report(age, age + 0.5, GROUP)["metric"])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "category", object])
def test_classes_of_any_dtype_give_the_same_table(dtype):
    true, predicted = (pd.Series(np.unique(column, return_inverse=True)[1]) for column in (CLASS, PREDICTED))
    found = fairness_report(true.astype(dtype), predicted.astype(dtype), GROUP)
    pd.testing.assert_frame_equal(found, fairness_report(true, predicted, GROUP), check_dtype=False)
