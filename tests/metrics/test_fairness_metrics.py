"""Other metrics by group, noisy counts of a curator, and selected columns in tables of group fairness."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import accuracy_score, precision_score

from skdp import DPGroupBy, RandomizedResponseEncoder
from skdp.metrics import debiased_fairness, fairness_from_counts, fairness_report, scores_from_counts
from tests.metrics.tables import select_comparisons

KEYS = {"sex": ["f", "m"], "true": [0, 1], "predicted": [0, 1]}


def draw_people(n, seed):
    rng = np.random.default_rng(seed)
    man = rng.random(n) < 0.6
    true = (rng.random(n) < 0.35 + 0.2 * man).astype(int)
    score = (0.2 * true + 0.8 * rng.random(n)).round(1)
    people = {"sex": np.where(man, "m", "f"), "true": true, "predicted": (score > 0.5 + 0.1 * ~man).astype(int)}
    return pd.DataFrame(people | {"score": score})


PEOPLE = draw_people(700, 0)
LABELS = PEOPLE["true"], PEOPLE["predicted"]


def encode(epsilon):
    encoder = RandomizedResponseEncoder(epsilon, categories={"sex": ["f", "m"]}, random_state=0)
    return encoder.fit_transform(PEOPLE[["sex"]]), encoder


@pytest.mark.parametrize("groups", ["known", "reported", "counted"])
def test_accuracy_is_a_selection_rate_and_precision_a_rate_of_exchanged_labels(groups):

    def report(true, predicted):
        if groups == "known":
            return fairness_report(true, predicted, PEOPLE["sex"], privileged="m")
        if groups == "reported":  # without noise
            return debiased_fairness(true, predicted, *encode(80.0), privileged="m")
        people = pd.DataFrame({"sex": PEOPLE["sex"], "true": true, "predicted": predicted}).astype({"true": int})
        return fairness_from_counts(count(people.astype({"predicted": int}), 60.0), "true", "predicted", "sex")

    correct = LABELS[0] == LABELS[1]
    accuracy, table, exchanged = report(correct, correct), report(*LABELS), report(LABELS[1], LABELS[0])
    numbers = ["value", "std_error", "lower", "upper"]
    accuracy, precision, discovery, rates = (
        table[table["metric"] == metric][numbers].reset_index(drop=True)
        for table, metric in (
            (accuracy, "selection_rate"),
            (table, "precision"),
            (table, "false_discovery_rate"),
            (exchanged, "true_positive_rate"),
        )
    )
    pd.testing.assert_frame_equal(precision, rates)
    complement = 1 - precision[["value", "upper", "lower"]]
    np.testing.assert_allclose(discovery[["value", "lower", "upper"]], complement, rtol=1e-9, atol=1e-12)
    for side, group in enumerate(("f", "m")):
        rows = PEOPLE[PEOPLE["sex"] == group]
        labels = rows["true"], rows["predicted"]
        assert accuracy["value"][side] == pytest.approx(accuracy_score(*labels), rel=0, abs=1e-12)
        assert precision["value"][side] == pytest.approx(precision_score(*labels), rel=0, abs=1e-12)


# --- counts of a curator ----------------------------------------------------------------------------------------------


def count(people, epsilon, keys=KEYS, seed=0):
    release = DPGroupBy(epsilon, by=list(keys), keys=keys, statistics="count", random_state=seed)
    return release.fit(people[list(keys)]).to_frame()


def test_counts_without_noise_give_the_metrics_of_the_rows():
    table = fairness_from_counts(count(PEOPLE, 60.0), "true", "predicted", "sex", privileged="m")
    expected = fairness_report(*LABELS, PEOPLE["sex"], privileged="m")
    np.testing.assert_allclose(table["value"], expected["value"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(table["std_error"], expected["std_error"], rtol=1e-6)
    # Intervals of comparisons are score intervals for both.
    found, known = (select_comparisons(frame, "lower") for frame in (table, expected))
    np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-9)


def test_tables_of_all_libraries_and_further_keys_give_equal_metrics():
    people = PEOPLE.assign(job=np.where(np.arange(700) % 3, "a", "b"))
    counts = count(people, 1.0, KEYS | {"job": ["a", "b"]})
    expected = fairness_from_counts(counts, "true", "predicted", ["sex"])
    sums = counts.groupby(list(KEYS))["count"].sum().to_frame()
    sums["count_std_error"] = np.sqrt(2) * counts["count_std_error"].iloc[0]
    for table in (counts.reset_index(), pl.from_pandas(counts.reset_index()), sums):
        pd.testing.assert_frame_equal(fairness_from_counts(table, "true", "predicted", "sex"), expected)
    groups = fairness_from_counts(counts, "true", "predicted", ["sex", "job"])["group"].dropna()
    assert {*groups} == {("f", "a"), ("f", "b"), ("m", "a"), ("m", "b")}


@pytest.mark.parametrize("estimate", [fairness_from_counts, scores_from_counts])
def test_rows_of_totals_are_no_group_and_no_label(estimate):
    """The rows of totals were counted as further labels and an unprivileged group: a parity of -0.04 for -0.17."""
    release = DPGroupBy(1.0, by=list(KEYS), keys=KEYS, statistics="count", random_state=0, totals=True)
    counts = release.fit(PEOPLE[list(KEYS)]).to_frame().reset_index()
    for table in (counts, pl.from_pandas(counts), counts.assign(true=1, predicted=1)):
        with pytest.raises(ValueError, match="`counts` must have no rows of totals, got 'total'"):
            estimate(table, "true", "predicted", "sex")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"counts": [1, 2]}, ValueError, r"`counts` must have the columns .* got \[None\]"),
        ({"counts": PEOPLE}, ValueError, "`counts` must have the columns"),
        ({"y_pred": "hired"}, ValueError, r"`counts` must have the columns \['true', 'hired', 'sex'"),
        ({"counts": count(PEOPLE, 1.0) * 1.5}, ValueError, "such as sums of weights"),
        ({"privileged": "man"}, ValueError, "must have a row with a privileged value"),
    ],
)
def test_invalid_counts_raise_an_error(change, error, message):
    arguments = {"counts": count(PEOPLE, 1.0), "y_true": "true", "y_pred": "predicted", "sensitive_features": "sex"}
    with pytest.raises(error, match=message):
        fairness_from_counts(**arguments | change)
