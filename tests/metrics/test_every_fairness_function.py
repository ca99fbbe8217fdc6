"""All fairness functions read rows by position, tables or series of reports, classes, and privileged values alike."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.metrics import (
    debiased_fairness,
    fairness_report,
    joint_distribution,
    private_parity,
    private_reweighing,
    private_threshold_optimizer,
    to_aif360,
)

pytest.importorskip("fairlearn")
pytest.importorskip("aif360")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

RNG = np.random.default_rng(0)
N = 600
GROUP = pd.Series(RNG.choice(["a", "b"], N), name="group")
X = pd.DataFrame({"group": GROUP, "score": RNG.normal(size=N).round(1)})
TRUE = (X["score"] + (GROUP == "b") + RNG.normal(size=N) > 0.5).astype(int)
PREDICTED = (X["score"] > 0).astype(int)
ENCODER = RandomizedResponseEncoder(4.0, categories={"group": ["a", "b"]}, random_state=0).fit(X[["group"]])
REPORTS = ENCODER.transform(X[["group"]])


def parity_gaps(X, y, sensitive_features):
    """Return the differences of predictions in fairlearn's reductions."""
    moment = private_parity(ENCODER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of fairlearn about pandas
        moment.load_data(X, y, sensitive_features=sensitive_features)
    return moment.gamma(lambda X: PREDICTED)


def decisions(y_true, y_pred, reports, **options):
    optimizer = private_threshold_optimizer(y_true, y_pred, reports, ENCODER, **options)
    return optimizer._pmf_predict(PREDICTED.to_numpy()[:, np.newaxis], sensitive_features=GROUP)


def numbers_of_aif360(X, y, **options):
    dataset = to_aif360(X, y, "group", **options)
    return np.column_stack([dataset.features, dataset.labels])


LABELS = {"y_true": TRUE, "y_pred": PREDICTED}
# The function, its arguments matched by position, and if it has privileged values and a positive label.
FUNCTIONS = {
    "fairness_report": (fairness_report, LABELS | {"sensitive_features": GROUP}, True),
    "debiased_fairness": (
        lambda **inputs: debiased_fairness(**inputs, encoder=ENCODER),
        LABELS | {"sensitive_features": REPORTS},
        True,
    ),
    "private_reweighing": (
        lambda **inputs: private_reweighing(**inputs, encoder=ENCODER),
        {"y_true": TRUE, "reports": REPORTS},
        True,
    ),
    "to_aif360": (numbers_of_aif360, {"X": X, "y": TRUE}, True),
    "joint_distribution": (
        lambda **inputs: joint_distribution(**inputs, encoder=ENCODER),
        LABELS | {"reports": REPORTS},
        False,
    ),
    "private_threshold_optimizer": (decisions, LABELS | {"reports": REPORTS}, False),
    "private_parity": (parity_gaps, {"X": X[["score"]], "y": TRUE, "sensitive_features": REPORTS}, False),
}
WITH_PRIVILEGED = [name for name, (_, _, has_privileged) in FUNCTIONS.items() if has_privileged]


def run(name, **changes):
    call, inputs, has_privileged = FUNCTIONS[name]
    options = {"privileged": "b"} if has_privileged else {}
    return np.asarray(call(**inputs | options | changes), object)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_labels_in_another_order_raise_an_error(name):
    for key, rows in FUNCTIONS[name][1].items():
        with pytest.raises(ValueError, match=r"must have its row labels in the order of \w+.*\.reindex\(\w+\.index\)"):
            run(name, **{key: rows.sample(frac=1, random_state=1)})


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_reports_of_one_column_equal_the_table(name):
    (key,) = {key for key, rows in FUNCTIONS[name][1].items() if rows is REPORTS} or {None}
    series = REPORTS["group"]
    for reports in (series, series.rename(None), series.tolist(), pl.Series("group", series.tolist())):
        if key is not None:
            np.testing.assert_array_equal(run(name, **{key: reports}), run(name))


def test_series_of_other_reports_raises_an_error():
    with pytest.raises(ValueError, match=r"`reports` must have the columns \['group'\], got \['sex'\]"):
        joint_distribution(None, None, REPORTS["group"].rename("sex"), ENCODER)
    unary = UnaryEncodingTransformer(1.0, categories={"group": ["a", "b"]}, random_state=0).fit(X[["group"]])
    with pytest.raises(ValueError, match=r"have the columns .* of the encoder, got one column"):
        joint_distribution(None, None, REPORTS["group"], unary)


@pytest.mark.parametrize("name", [*WITH_PRIVILEGED, "private_threshold_optimizer"])
def test_positive_label_is_1_or_must_be_given(name):
    labels = [key for key in FUNCTIONS[name][1] if key.startswith("y")]
    if name == "private_threshold_optimizer":
        labels = ["y_true"]  # y_pred may contain scores
    inputs = FUNCTIONS[name][1]
    given = run(name, positive_label=1)
    for convert in (lambda column: np.asarray(column) == 1, lambda column: column.astype(float)):
        np.testing.assert_array_equal(run(name, **{key: convert(inputs[key]) for key in labels}), given)
    named = {key: inputs[key].map({0: "no", 1: "yes"}) for key in labels}
    with pytest.raises(ValueError, match=r"`positive_label` must be the favorable label, .* labels than 0 and 1"):
        run(name, **named)
    run(name, **named, positive_label="yes")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scores_instead_of_classes_raise_an_error(name):
    scores = pd.Series(np.tile([0.0, 0.4, 0.8, 1.0], N // 4))
    key = "y" if "y" in FUNCTIONS[name][1] else "y_true"
    for column in (scores, pl.Series(scores), scores.astype("category")):
        with pytest.raises((TypeError, ValueError), match="threshold"):
            run(name, **{key: column})


@pytest.mark.parametrize("name", WITH_PRIVILEGED)
def test_mapping_of_privileged_values_equals_a_named_column(name):
    np.testing.assert_array_equal(run(name, privileged={"group": "b"}), run(name))
    for groups in (GROUP.to_numpy(), GROUP.rename(None), pl.Series(GROUP).rename("")):
        with pytest.raises(ValueError, match="Name the column"):
            run("fairness_report", sensitive_features=groups, privileged={"group": "b"})


@pytest.mark.parametrize("name", WITH_PRIVILEGED)
@pytest.mark.parametrize(
    "privileged", [lambda groups: groups == "b", [str.isupper], {"group": lambda groups: groups == "b"}]
)
def test_error_of_a_function_as_privileged_value_names_it(name, privileged):
    with pytest.raises(TypeError, match="`privileged` must be a value, a list of values or a mapping, got a function"):
        run(name, privileged=privileged)


@pytest.mark.parametrize("name", WITH_PRIVILEGED)
@pytest.mark.parametrize(
    "privileged", [GROUP.to_frame(), pl.Series(GROUP), GROUP.astype("category").array, {"group": GROUP.to_frame()}]
)
def test_error_of_a_table_as_privileged_values_names_its_type(name, privileged):
    with pytest.raises(TypeError, match=r"`privileged` must be a value, a list of values or a mapping, got a [A-Z]"):
        run(name, privileged=privileged)
