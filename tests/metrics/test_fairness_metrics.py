"""Metrics of the user, noisy counts of a curator, and selected columns in tables of group fairness."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, precision_score, roc_auc_score

from skdp import DPGroupBy, RandomizedResponseEncoder
from skdp.metrics import debiased_fairness, fairness_from_counts, fairness_report

pytestmark = pytest.mark.usefixtures("repeatable_draws")

METRICS = {"precision": precision_score, "accuracy": accuracy_score, "f1": f1_score}
KEYS = {"sex": ["f", "m"], "true": [0, 1], "predicted": [0, 1]}


def draw_people(n, seed):
    rng = np.random.default_rng(seed)
    man = rng.random(n) < 0.6
    true = (rng.random(n) < 0.35 + 0.2 * man).astype(int)
    score = (0.2 * true + 0.8 * rng.random(n)).round(1)
    people = {"sex": np.where(man, "m", "f"), "true": true, "predicted": (score > 0.5 + 0.1 * ~man).astype(int)}
    return pd.DataFrame(people | {"score": score, "weight": rng.random(n) + 0.5})


PEOPLE = draw_people(700, 0)
LABELS = PEOPLE["true"], PEOPLE["predicted"]


def value_of(table, metric, group=None):
    rows = table[(table["metric"] == metric) & (table["group"].isna() if group is None else table["group"] == group)]
    return rows["value"].item()


def encode(epsilon):
    encoder = RandomizedResponseEncoder(epsilon, categories={"sex": ["f", "m"]}, random_state=0)
    return encoder.fit_transform(PEOPLE[["sex"]]), encoder


@pytest.mark.parametrize("groups", ["known", "reported"])
def test_metrics_of_the_user_equal_fairlearn(groups):
    frames = pytest.importorskip("fairlearn.metrics")
    metrics = METRICS | {"rate": frames.true_positive_rate}
    options = {"metrics": metrics, "sample_weight": PEOPLE["weight"]}
    if groups == "known":
        table = fairness_report(*LABELS, PEOPLE["sex"], **options)
    else:  # without noise
        table = debiased_fairness(*LABELS, *encode(80.0), **options)
    params = {name: {"sample_weight": PEOPLE["weight"]} for name in metrics}
    expected = frames.MetricFrame(
        metrics=metrics, y_true=LABELS[0], y_pred=LABELS[1], sensitive_features=PEOPLE["sex"], sample_params=params
    )
    for name in metrics:
        for group in ("f", "m"):
            assert value_of(table, name, group) == pytest.approx(expected.by_group.loc[group, name], rel=0, abs=1e-12)
        difference = value_of(table, f"{name}_difference")
        assert difference == pytest.approx(expected.difference()[name], rel=0, abs=1e-12)


@pytest.mark.parametrize("groups", ["known", "reported"])
def test_rate_as_a_metric_of_the_user_has_the_standard_error_of_the_rate(groups):
    """The selection rate is the accuracy of the prediction 1, whose standard error is known."""

    def selection(y_true, y_pred, *, sample_weight):
        return np.average(y_pred, weights=sample_weight)

    people = draw_people(20_000, 1)
    labels = people["true"], people["predicted"]
    if groups == "known":
        table = fairness_report(*labels, people["sex"], privileged="m", metrics=selection)
    else:
        encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["f", "m"]}, random_state=0)
        reports = encoder.fit_transform(people[["sex"]])
        table = debiased_fairness(*labels, reports, encoder, privileged="m", metrics=selection)
    own = table[table["metric"].str.startswith("selection") & ~table["metric"].str.contains("rate")]
    rates = table[table["metric"].isin(["selection_rate", "statistical_parity_difference"])]
    for column in ("value", "std_error", "lower", "upper"):
        np.testing.assert_allclose(own[column], rates[column], rtol=0.01, atol=2e-3)


def test_scores_have_the_metrics_of_the_user_only():
    table = fairness_report(LABELS[0], PEOPLE["score"], PEOPLE["sex"], privileged="m", metrics=roc_auc_score)
    assert table["metric"].tolist() == ["roc_auc_score"] * 2 + ["roc_auc_score_difference"]
    expected = [roc_auc_score(rows["true"], rows["score"]) for _, rows in PEOPLE.groupby("sex")]
    np.testing.assert_allclose(table["value"], [*expected, expected[0] - expected[1]], rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="at most 100 distinct scores with `metrics`, got 700"):
        fairness_report(LABELS[0], np.linspace(0.01, 0.99, 700), PEOPLE["sex"], metrics=roc_auc_score)


@pytest.mark.parametrize("metrics", [3, {"precision": "macro"}])
def test_invalid_metrics_raise_an_error(metrics):
    with pytest.raises(TypeError, match="`metrics` must be a function or a mapping"):
        fairness_report(*LABELS, PEOPLE["sex"], metrics=metrics)


def test_columns_select_the_groups():
    features = PEOPLE[["sex", "true"]]
    for columns in ("sex", ["sex"]):
        found = fairness_report(*LABELS, features, columns=columns, privileged={"sex": "m"})
        pd.testing.assert_frame_equal(found, fairness_report(*LABELS, PEOPLE["sex"], privileged="m"))
    with pytest.raises(ValueError, match=r"`columns` must be distinct names from \['sex', 'true'\], got \['job'\]"):
        fairness_report(*LABELS, features, columns="job")


# --- counts of a curator ----------------------------------------------------------------------------------------------


def count(people, epsilon, keys=KEYS, seed=0):
    release = DPGroupBy(epsilon, by=list(keys), keys=keys, statistics="count", random_state=seed)
    return release.fit(people[list(keys)]).to_frame()


@pytest.mark.parametrize("rows", ["population", "table"])
def test_counts_without_noise_give_the_metrics_of_the_rows(rows):
    counts = count(PEOPLE, 60.0)
    options = {"privileged": "m", "metrics": METRICS}
    table = fairness_from_counts(counts, "true", "predicted", "sex", rows=rows, **options)
    expected = fairness_report(*LABELS, PEOPLE["sex"], **options)
    np.testing.assert_allclose(table["value"], expected["value"], rtol=0, atol=1e-12)
    if rows == "population":
        np.testing.assert_allclose(table["std_error"], expected["std_error"], rtol=1e-6)
        # Intervals of comparisons are score intervals for both.
        np.testing.assert_allclose(table["lower"][6:], expected["lower"][6:], rtol=1e-6, atol=1e-9)
    else:
        assert (table["std_error"] < 1e-6).all()


def test_tables_of_all_libraries_and_further_keys_give_equal_metrics():
    people = PEOPLE.assign(job=np.where(np.arange(700) % 3, "a", "b"))
    counts = count(people, 1.0, KEYS | {"job": ["a", "b"]})
    expected = fairness_from_counts(counts, "true", "predicted", ["sex"])
    sums = counts.groupby(list(KEYS))["count"].sum().to_frame()
    sums["count_std_error"] = np.sqrt(2) * counts["count_std_error"].iloc[0]
    for table in (counts.reset_index(), pl.from_pandas(counts.reset_index()), sums):
        pd.testing.assert_frame_equal(fairness_from_counts(table, "true", "predicted", "sex"), expected)
    assert len(fairness_from_counts(counts, "true", "predicted", ["sex", "job"])) == 3 * 4 + 4


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"counts": [1, 2]}, TypeError, "`counts` must be a dataframe, got list"),
        ({"counts": PEOPLE}, ValueError, "`counts` must have the columns"),
        ({"y_pred": "hired"}, ValueError, r"`counts` must have the columns \['true', 'hired', 'sex'"),
        ({"counts": count(PEOPLE, 1.0) * 1.5}, ValueError, "such as sums of weights. Set rows='table'"),
        ({"rows": "sample"}, ValueError, "`rows` must be one of"),
        ({"privileged": "man"}, ValueError, "must have a row with a privileged value"),
    ],
)
def test_invalid_counts_raise_an_error(change, error, message):
    arguments = {"counts": count(PEOPLE, 1.0), "y_true": "true", "y_pred": "predicted", "sensitive_features": "sex"}
    with pytest.raises(error, match=message):
        fairness_from_counts(**arguments | change)


def test_noise_of_counts_has_the_stated_standard_error():
    estimates, errors = [], []
    for seed in range(120):
        table = fairness_from_counts(
            count(PEOPLE, 0.5, seed=seed), "true", "predicted", "sex", privileged="m", metrics=METRICS, rows="table"
        )
        estimates.append(table["value"])
        errors.append(table["std_error"])
    # The standard deviation of 120 draws has a relative error of 6 %, and of 8 % for Laplace noise.
    np.testing.assert_allclose(np.mean(errors, axis=0) / np.std(estimates, axis=0), 1, atol=0.35)


@pytest.mark.long
@pytest.mark.parametrize("source", ["rows", "counts", "scores"])
def test_intervals_of_metrics_cover_the_population(source):
    people, n_draws = draw_people(500_000, 9), 300

    def report(rows, groups, seed=0, epsilon=None):
        score = "score" if source == "scores" else "predicted"
        options = {"privileged": "m", "metrics": roc_auc_score if source == "scores" else METRICS}
        if epsilon is None:
            return fairness_report(rows["true"], rows[score], groups, **options)
        return fairness_from_counts(count(rows, epsilon, seed=seed), "true", score, "sex", **options)

    truth = report(people, people["sex"])["value"]
    covered = []
    for seed in range(n_draws):
        rows = draw_people(400, 1_000 + seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = report(rows, rows["sex"], seed, 1.0 if source == "counts" else None)
        covered.append((table["lower"] <= truth) & (truth <= table["upper"]))
    # The seeds are fixed. With other seeds, 20 intervals of coverage 0.93 fail with probability 1e-5.
    assert (np.sum(covered, axis=0) >= stats.binom.ppf(5e-7, n_draws, 0.93)).all()
