"""Metrics of a user: values equal to fairlearn, and the same propagation of errors for rows, counts and reports."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, f1_score

from skdp import DPGroupBy, RandomizedResponseEncoder
from skdp.metrics import debiased_fairness, fairness_from_counts, fairness_report

KEYS = {"g": ["a", "b"], "y": [0, 1], "p": [0, 1]}


def f1(tp, fp, fn, tn):
    return 2 * tp / (2 * tp + fp + fn)


def draw(n, seed, share=0.3):
    """Draw labels and predictions of two groups, whose F1 scores are 2/3 and 3/5."""
    rng = np.random.default_rng(seed)
    y, is_b = rng.random(n) < 0.4, rng.random(n) < share
    p = rng.random(n) < np.where(y, np.where(is_b, 0.6, 0.7), 4 / 15)
    return pd.DataFrame({"g": np.where(is_b, "b", "a"), "y": y * 1, "p": p * 1})


def report(source, rows, epsilon=1.0, seed=0, **options):
    options = {"privileged": "a", "positive_label": 1, **options}
    if source == "rows":
        return fairness_report(rows["y"], rows["p"], rows["g"], **options)
    if source == "counts":
        release = DPGroupBy(epsilon, by=[*KEYS], keys=KEYS, statistics="count", random_state=seed).fit(rows)
        return fairness_from_counts(release.to_frame(), "y", "p", "g", **options)
    encoder = RandomizedResponseEncoder(epsilon, categories={"g": ["a", "b"]}, random_state=seed)
    return debiased_fairness(rows["y"], rows["p"], encoder.fit_transform(rows[["g"]]), encoder, **options)


def value_of(table, metric, group=None):
    is_group = table["group"].isna() if group is None else table["group"] == group
    return table.loc[(table["metric"] == metric) & is_group, "value"].item()


def test_values_and_comparisons_equal_fairlearn():
    metrics = pytest.importorskip("fairlearn.metrics")
    rows = draw(600, 0)
    rows["g"] = rows["g"].where(np.arange(600) % 3 > 0, "c")
    own = {"f1_difference": f1, "f1_ratio": f1, "accuracy_difference": lambda tp, fp, fn, tn: tp + tn}
    table = report("rows", rows, privileged=None, metrics=own)
    for name, function in {"f1": f1_score, "accuracy": accuracy_score}.items():
        frame = metrics.MetricFrame(metrics=function, y_true=rows["y"], y_pred=rows["p"], sensitive_features=rows["g"])
        found = table[table["metric"] == name].set_index("group")["value"]
        assert found.to_dict() == pytest.approx(frame.by_group.to_dict())
        assert value_of(table, f"{name}_difference") == pytest.approx(frame.difference())
    assert value_of(table, "f1_ratio") == pytest.approx(
        metrics.MetricFrame(metrics=f1_score, y_true=rows["y"], y_pred=rows["p"], sensitive_features=rows["g"]).ratio()
    )
    builtin = report("rows", rows, privileged=None)
    pd.testing.assert_frame_equal(table[table["metric"].isin(builtin["metric"])].reset_index(drop=True), builtin)


@pytest.mark.parametrize("source", ["rows", "weighted rows", "counts", "reports"])
def test_errors_of_a_function_equal_the_errors_of_the_rate(source):
    own = {
        "selected_difference": lambda tp, fp, fn, tn: tp + fp,
        "selected_ratio": None,
        "true_positive_difference": lambda tp, fp, fn, tn: tp / (tp + fn),
        "ppv_difference": lambda tp, fp, fn, tn: tp / (tp + fp),
    }
    own["selected_ratio"] = own["selected_difference"]
    weights = {"sample_weight": np.random.default_rng(0).exponential(size=4_000)} if "weighted" in source else {}
    table = report(source.split()[-1], draw(4_000, 1), metrics=own, **weights)
    for name, builtin in {
        "selected": "selection_rate",
        "selected_difference": "statistical_parity_difference",
        "selected_ratio": "disparate_impact",
        "true_positive": "true_positive_rate",
        "true_positive_difference": "equal_opportunity_difference",
        "ppv_difference": "predictive_parity_difference",
    }.items():
        found, expected = (table.loc[table["metric"] == metric].iloc[:, 3:] for metric in (name, builtin))
        np.testing.assert_allclose(found["value"], expected["value"], rtol=1e-9)
        np.testing.assert_allclose(found["std_error"], expected["std_error"], rtol=0.02)
        np.testing.assert_allclose(found[["lower", "upper"]], expected[["lower", "upper"]], rtol=0, atol=0.006)


def test_function_without_rows_to_divide_by_is_undefined():
    rows = pd.DataFrame({"g": list("aabb"), "y": [1, 0, 0, 0], "p": [1, 0, 0, 0]})
    own = {"f1_difference": f1, "accuracy_difference": lambda tp, fp, fn, tn: tp + tn}
    with pytest.warns(UserWarning, match="Undefined metrics: .*, f1, .*f1_difference"):
        table = report("rows", rows, metrics=own)
    assert np.isnan(value_of(table, "f1", "unprivileged"))
    assert np.isnan(value_of(table, "f1_difference"))
    assert value_of(table, "accuracy", "unprivileged") == 1
    assert (table["lower"] <= table["upper"]).all()
    # No standard error of an estimate in [0, 1] is larger.
    rates = table[table["metric"].isin(["true_positive_rate", "equal_opportunity_difference"])]
    assert rates.loc[rates["value"].isna(), "std_error"].tolist() == [0.5, 0.5]


def test_infinite_value_has_no_standard_error():
    rows = pd.DataFrame({"g": list("aaabbb"), "y": [1, 0, 0, 1, 1, 0], "p": [1, 1, 0, 1, 1, 0]})
    with pytest.warns(UserWarning, match="Undefined metrics: odds, odds_difference"):
        table = report("rows", rows, metrics={"odds_difference": lambda tp, fp, fn, tn: tp / fp})
    assert value_of(table, "odds", "unprivileged") == np.inf
    errors = table.set_index(["metric", "group"]).loc["odds", "std_error"]
    assert errors["privileged"] > 0
    assert np.isnan(errors["unprivileged"])


@pytest.mark.parametrize(
    ("metrics", "error", "message"),
    [
        (f1, TypeError, "`metrics` must be a mapping of names to functions, got function"),
        ({"f1": f1}, ValueError, "names that end in '_difference' or '_ratio'.*got 'f1'"),
        ({"precision_difference": f1}, ValueError, "are not built in, got 'precision_difference'"),
        ({"statistical_parity_difference": f1}, ValueError, "are not built in"),
        ({"_ratio": f1}, ValueError, "got '_ratio'"),
        ({"f1_difference": f1, "f1_ratio": lambda *cells: 1.0}, ValueError, "the same function .* of 'f1'"),
        ({"f1_difference": lambda group, other: 0.0}, TypeError, "must be a function of four numbers tp, fp, fn, tn"),
        ({"f1_difference": lambda *cells: "high"}, TypeError, "that returns one number"),
        ({"f1_difference": 1.0}, TypeError, "got float"),
    ],
)
def test_invalid_metrics_raise_an_error(metrics, error, message):
    with pytest.raises(error, match=message):
        report("rows", draw(100, 0), metrics=metrics)


def test_upper_endpoint_of_the_smallest_ratio_is_below_parity():
    """The larger endpoint of all pairs is 1 for any rates."""
    group, selected = (
        np.repeat(["a", "b", "c"], 1_000),
        np.tile(np.arange(1_000), 3) < np.repeat([200, 500, 800], 1_000),
    )
    table = fairness_report(selected, selected, group).set_index("metric")
    lower, value, upper = table.loc["disparate_impact", ["lower", "value", "upper"]]
    assert 0.2 < lower < value < upper < 0.35
