"""Weights, control features, scores and features in the table of fairness metrics."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from skdp import RandomizedResponseEncoder
from skdp.metrics import debiased_fairness, fairness_report
from skdp.metrics.fairness import Labels, Precision, RateSums, consistency_rows, sums_of_known
from tests.conftest import each

fairlearn_metrics = pytest.importorskip("fairlearn.metrics")

RATES = ["selection_rate", "true_positive_rate", "false_positive_rate"]


def people(n=400):
    rng = np.random.default_rng(0)
    sex, site = rng.choice(["F", "M", "X"], n, p=[0.4, 0.4, 0.2]), rng.choice(["a", "b"], n)
    true = rng.random(n) < 0.4
    predicted = rng.random(n) < 0.2 + 0.2 * (sex == "M") + 0.3 * true
    return pd.DataFrame({"sex": sex, "site": site, "true": true * 1, "predicted": predicted * 1})


def report(frame, **given):
    return fairness_report(frame["true"], frame["predicted"], frame["sex"], **{"positive_label": 1} | given)


def test_a_row_of_weight_2_is_two_rows_for_values_but_not_for_intervals():
    frame, weights = people(), np.random.default_rng(1).integers(0, 4, 400)
    given = {"privileged": "M", "confidence_level": 0.95}
    weighted, repeated = (
        report(frame, sample_weight=weights, **given),
        report(frame.loc[frame.index.repeat(weights)], **given),
    )
    np.testing.assert_allclose(weighted["value"], repeated["value"])
    assert (weighted["std_error"] > 1.05 * repeated["std_error"]).all()
    scaled = report(frame, sample_weight=weights * 0.1, **given)
    pd.testing.assert_frame_equal(scaled, weighted)
    pd.testing.assert_frame_equal(report(frame, sample_weight=np.full(400, 3), **given), report(frame, **given))


def test_weighted_values_are_fairlearns_and_aif360s():
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import ClassificationMetric

    frame, weights = people(), np.random.default_rng(1).integers(1, 4, 400)
    found = report(frame, sample_weight=weights)
    frame_of_rates = fairlearn_metrics.MetricFrame(
        metrics={name: getattr(fairlearn_metrics, name) for name in RATES},
        y_true=frame["true"],
        y_pred=frame["predicted"],
        sensitive_features=frame["sex"],
        sample_params={name: {"sample_weight": weights} for name in RATES},
    )
    for name in RATES:
        np.testing.assert_allclose(found.loc[found["metric"] == name, "value"], frame_of_rates.by_group[name])
    datasets = [
        BinaryLabelDataset(
            df=pd.DataFrame({"group": (frame["sex"] == "M") * 1.0, "y": frame[name] * 1.0, "weight": weights}),
            label_names=["y"],
            protected_attribute_names=["group"],
            instance_weights_name="weight",
        )
        for name in ("true", "predicted")
    ]
    theirs = ClassificationMetric(*datasets, unprivileged_groups=[{"group": 0}], privileged_groups=[{"group": 1}])
    own = report(frame, privileged="M", sample_weight=weights).set_index("metric")["value"]
    for name in ("statistical_parity_difference", "disparate_impact", "equal_opportunity_difference"):
        assert own[name] == pytest.approx(getattr(theirs, name)())


@pytest.mark.parametrize("weights", ["of the rows", "of the labels"])
def test_intervals_of_weighted_rows_cover(weights):
    rng, drawn, truth = np.random.default_rng(0), [], 0.5 if weights == "of the rows" else 0.75
    for _ in range(300):
        predicted = rng.random(40) < 0.5
        own = rng.integers(1, 4, 40) if weights == "of the rows" else np.where(predicted, 3, 1)
        labels = Labels(predicted, predicted, own.astype(float))
        drawn.append(vars(sums_of_known(np.zeros(40, int), np.ones((1, 1), bool), labels)))
    sums = RateSums(**{name: np.stack([one[name] for one in drawn]) for name in drawn[0]})
    found = sums.estimate("sampled", 0.9)[0][:, 0, 0]
    assert 0.86 < ((found.lower <= truth) & (truth <= found.upper)).mean() < 0.94


def test_rates_of_few_weighted_rows_are_covered():
    """With weights that follow from the labels: without a row that is counted, its weight is that of other groups."""
    rng, weights, covered = np.random.default_rng(0), np.array([[1.0, 2.0], [0.5, 3.0]]), []
    for _ in range(100):
        true, predicted = rng.random(1000) < 0.4, rng.random(1000) < 0.04
        labels = Labels(true, predicted, weights[true.astype(int), predicted.astype(int)])
        found = sums_of_known(np.arange(1000) % 10, np.eye(10, dtype=bool), labels).estimate("sampled", 0.95)[0][1]
        truth = 0.04 * 3 / (0.04 * 3 + 0.96 * 0.5)
        covered.append((found.lower <= truth) & (truth <= found.upper))
    assert np.mean(covered) > 0.94


def test_only_the_proportions_of_weights_matter():
    frame = people()
    expected = report(frame, confidence_level=0.9, sample_weight=np.ones(len(frame)))
    for weight in (1e-300, 1e-12, 1e200):
        found = report(frame, confidence_level=0.9, sample_weight=np.full(len(frame), weight))
        pd.testing.assert_frame_equal(found, expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_of_rows_without_weight_nothing_is_known():
    site, weights = np.repeat(["x", "y"], 4), np.repeat([1.0, 0.0], 4)
    found = fairness_report(
        [0, 1] * 4, [1, 1, 0, 0] * 2, list("aabb") * 2, positive_label=1, confidence_level=0.9,
        sample_weight=weights, control_features=pd.Series(site, name="site"), y_score=[0.5] * 8,
    ).set_index("site")  # fmt: skip
    assert found.loc["y", "value"].isna().all()
    bounded = found[~found["metric"].isin(["theil_index"])].loc["y"]
    assert (bounded["upper"] - bounded["lower"] >= 1).all()


def test_control_features_split_the_rows():
    frame = people()
    found = report(frame, control_features=frame["site"], privileged="M", confidence_level=0.9)
    assert found.columns[:2].tolist() == ["site", "metric"]
    for site in "ab":
        own = found[found["site"] == site].drop(columns="site").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, report(frame[frame["site"] == site], privileged="M", confidence_level=0.9))
    halves = pd.Series(np.arange(400) % 2).where(np.arange(400) % 2 == 1)
    two = report(frame, control_features=frame[["site"]].assign(half=halves))
    assert set(zip(two["site"], two["half"], strict=True)) == {(a, b) for a in "ab" for b in (1.0, "missing")}
    theirs = fairlearn_metrics.MetricFrame(
        metrics=fairlearn_metrics.selection_rate,
        y_true=frame["true"],
        y_pred=frame["predicted"],
        sensitive_features=frame["sex"],
        control_features=frame["site"],
    )
    by_site = report(frame, control_features=frame["site"].to_numpy())
    assert (
        by_site.columns[0]
        == "control_feature_0"
        == fairlearn_metrics.MetricFrame(
            metrics=fairlearn_metrics.selection_rate,
            y_true=[1],
            y_pred=[1],
            sensitive_features=["a"],
            control_features=["b"],
        ).control_levels[0]
    )
    rates = by_site[by_site["metric"] == "selection_rate"]
    np.testing.assert_allclose(rates["value"], theirs.by_group.to_numpy(float))
    ranges = by_site[by_site["metric"] == "selection_rate_difference"]
    np.testing.assert_allclose(ranges["value"], theirs.difference().to_numpy(float))


def test_a_group_without_rows_in_a_cell_is_undefined_and_left_out_of_the_range():
    frame = people()
    frame = frame[(frame["sex"] != "X") | (frame["site"] == "a")]
    with pytest.warns(UndefinedMetricWarning, match="selection_rate"):
        found = report(frame, control_features=frame["site"], confidence_level=0.95)
    cell = found[found["site"] == "b"].set_index(["metric", "group"])
    assert cell.loc[("selection_rate", "X"), ["value", "lower", "upper"]].isna().tolist() == [True, False, False]
    two = report(frame[frame["site"] == "b"], confidence_level=0.95)
    own, expected = (one[one["metric"].str.contains("selection_rate_")] for one in (found[found["site"] == "b"], two))
    np.testing.assert_allclose(own[["value", "lower", "upper"]], expected[["value", "lower", "upper"]])


def test_the_calibration_gap_of_a_group_is_the_mean_of_labels_less_scores():
    frame, scores = people(), np.random.default_rng(2).beta(2, 3, 400)
    found = report(frame, y_score=scores, confidence_level=0.95)
    own = found[found["metric"] == "calibration_gap"].set_index("group")
    gaps = (frame["true"] - scores).groupby(frame["sex"]).agg(["mean", "std", "size"])
    np.testing.assert_allclose(own["value"], gaps["mean"])
    np.testing.assert_allclose(own["std_error"], gaps["std"] / gaps["size"] ** 0.5, rtol=0.02)
    reach = (own["upper"] - own["lower"]) / 2 / own["std_error"]
    assert reach.between(1.96, 2.06).all()  # as Student's
    assert "calibration_gap" not in set(report(frame)["metric"])


def test_consistency_is_aif360s():
    from aif360.sklearn.metrics import consistency_score

    frame = people(60)
    X = pd.DataFrame({"age": np.arange(60) % 7, "site": frame["site"]})
    found = report(frame, X=X, confidence_level=0.95).set_index("metric").loc["consistency"]
    numeric = pd.get_dummies(X).to_numpy(float)
    assert found["value"] == pytest.approx(consistency_score(numeric, frame["predicted"]))
    assert 0 < found["lower"] < found["value"] < found["upper"] < 1
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M", "X"]}, random_state=0)
    reports = encoder.fit_transform(frame[["sex"]])
    given = {"positive_label": 1, "X": X}
    sampled, fixed = (
        debiased_fairness(frame["true"], frame["predicted"], reports, encoder, rows=rows, **given).iloc[-1]
        for rows in ("sampled", "fixed")
    )
    assert sampled["value":].tolist() == found["value":].tolist()
    assert fixed["value":].tolist() == [found["value"], 0, found["value"], found["value"]]


def measure_consistency(features, predicted, precision):
    (row,) = consistency_rows(features, predicted, np.arange(len(predicted)), precision)
    return row[-1]


def test_the_error_of_a_consistency_is_the_jackknifes():
    rng, precision = np.random.default_rng(3), Precision("sampled", 0.95)
    for n in (6, 7, 25):
        features, predicted = rng.normal(size=(n, 2)), rng.random(n) < 0.5
        found = measure_consistency(features, predicted, precision)
        kept = [np.arange(n) != row for row in range(n)]
        left = np.array([measure_consistency(features[k], predicted[k], precision).value for k in kept])
        assert found.std_error**2 == pytest.approx((n - 1) * left.var())


def test_the_interval_of_a_consistency_covers_and_is_never_a_point():
    rng, precision = np.random.default_rng(0), Precision("sampled", 0.9)
    found = []
    for _ in range(50):
        features = rng.normal(size=(50, 2))
        found.append(measure_consistency(features, rng.random(50) < 0.2 + 0.6 * (features[:, 0] > 0), precision))
    truth = np.mean([one.value for one in found])
    assert 0.85 < np.mean([one.lower <= truth <= one.upper for one in found]) <= 1
    alike = measure_consistency(rng.normal(size=(50, 2)), np.zeros(50, bool), precision)
    assert (alike.value, alike.std_error, alike.upper) == (1, 0, pytest.approx(1))
    assert 0.85 < alike.lower < 0.97
    few = measure_consistency(np.zeros((4, 1)), np.zeros(4, bool), precision)
    assert np.isnan(few.value)
    assert (few.lower, few.upper) == (0, 1)


def test_each_declared_group_is_estimated_from_reports():
    frame = people(6_000)
    encoder = RandomizedResponseEncoder(3.0, categories={"sex": ["F", "M", "X"]}, random_state=0)
    reports = encoder.fit_transform(frame[["sex"]])
    given = {"privileged": "M", "positive_label": 1, "by_group": True}
    found = debiased_fairness(frame["true"], frame["predicted"], reports, encoder, rows="fixed", **given)
    known = report(frame, by_group=True, privileged="M")
    pd.testing.assert_frame_equal(found[["metric", "definition", "group"]], known[["metric", "definition", "group"]])
    off = (found["value"] - known["value"]).abs() / found["std_error"].where(found["std_error"] > 0)
    assert off.max() < 4
    assert found[["lower", "upper"]].notna().all(axis=None)
    # The covariance of two groups over the noise: differences are not those of independent rates.
    two = debiased_fairness(
        frame["true"], frame["predicted"], reports, encoder, privileged="M", positive_label=1, rows="fixed"
    ).set_index("metric")
    errors = two.loc["selection_rate", "std_error"]
    assert two.loc["statistical_parity_difference", "std_error"] > 1.1 * np.hypot(*errors)


FRAME = people(8)


@each(
    "given message",
    [
        ({"sample_weight": np.zeros(8)}, "sample_weight must be at least 0, and not 0 for all rows"),
        ({"sample_weight": -np.ones(8)}, "sample_weight must be at least 0"),
        ({"sample_weight": [np.inf] * 8}, "sample_weight must hold finite numbers"),
        ({"sample_weight": ["a"] * 8}, "sample_weight must hold numbers"),
        ({"sample_weight": [1] * 3}, "same length, got 8, 8, 8 and 3"),
        ({"y_score": [1.5] * 8}, "y_score must hold probabilities of the positive label"),
        ({"control_features": [1] * 3}, "control_features must have the same length as y_true, got 3 and 8"),
        ({"control_features": pd.DataFrame({"group": [1] * 8})}, "control_features has a column 'group'"),
        ({"X": np.ones((3, 2))}, "X must have the same length as y_true, got 3 and 8"),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        report(FRAME, **given)
