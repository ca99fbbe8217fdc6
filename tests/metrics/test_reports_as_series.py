"""Reports of one column as a series or array, and labels of which 1 is the positive one, in all fairness functions."""

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
from tests.conftest import each

pytest.importorskip("fairlearn")
pytest.importorskip("aif360")

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"group": RNG.choice(["a", "b"], 600), "score": RNG.normal(size=600).round(1)})
TRUE = (PEOPLE["score"] + (PEOPLE["group"] == "b") + RNG.normal(size=600) > 0.5).to_numpy().astype(int)
PREDICTED = (PEOPLE["score"] > 0).to_numpy().astype(int)
ENCODER = RandomizedResponseEncoder(4.0, categories={"group": ["a", "b"]}, random_state=0).fit(PEOPLE[["group"]])
REPORTS = ENCODER.transform(PEOPLE[["group"]])

KINDS = {
    "series": REPORTS["group"],
    "series without a name": REPORTS["group"].rename(None),
    "list": REPORTS["group"].tolist(),
    "polars": pl.Series("group", REPORTS["group"].tolist()),
}


def parity_gaps(reports):
    """The differences that fairlearn's reductions see, of the predictions."""
    moment = private_parity(ENCODER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fairlearn's own, about pandas
        moment.load_data(PEOPLE[["score"]], TRUE, sensitive_features=reports)
    return moment.gamma(lambda X: PREDICTED)


FUNCTIONS = {
    "debiased_fairness": lambda reports: debiased_fairness(TRUE, PREDICTED, reports, ENCODER, privileged="b"),
    "joint_distribution": lambda reports: joint_distribution(TRUE, PREDICTED, reports, ENCODER),
    "private_reweighing": lambda reports: private_reweighing(TRUE, reports, ENCODER, privileged="b"),
    "private_parity": parity_gaps,
    "private_threshold_optimizer": lambda reports: private_threshold_optimizer(
        TRUE, PREDICTED, reports, ENCODER
    )._pmf_predict(PREDICTED[:, np.newaxis], sensitive_features=PEOPLE["group"]),
}


@pytest.mark.long
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_single_column_of_any_kind_is_the_table(function):
    expected = np.asarray(FUNCTIONS[function](REPORTS), object)
    for reports in KINDS.values():
        np.testing.assert_array_equal(np.asarray(FUNCTIONS[function](reports), object), expected)


def test_a_series_of_other_reports_is_refused():
    with pytest.raises(ValueError, match=r"reports must have the columns \['group'\], got \['sex'\]"):
        joint_distribution(None, None, REPORTS["group"].rename("sex"), ENCODER)
    other = RandomizedResponseEncoder(1.0, categories={"group": ["a", "b"]}, random_state=0)
    series = other.fit_transform(PEOPLE[["group"]])["group"]
    with pytest.raises(ValueError, match="epsilon"):  # the protocol that the column carries
        joint_distribution(None, None, series, ENCODER)
    unary = UnaryEncodingTransformer(1.0, categories={"group": ["a", "b"]}, random_state=0).fit(PEOPLE[["group"]])
    with pytest.raises(ValueError, match=r"have the columns .*, got a single column"):
        joint_distribution(None, None, REPORTS["group"], unary)
    with pytest.raises(ValueError, match=r"columns \['group'\], got an array of 2 columns"):
        joint_distribution(None, None, np.full((600, 2), "a"), ENCODER)
    with pytest.raises(ValueError, match="reports"):
        joint_distribution(None, None, np.zeros((2, 2, 2)), ENCODER)


# --- positive_label ---------------------------------------------------------------------------------------------------

GROUPS = PEOPLE["group"]
LABELLED = {
    "fairness_report": lambda true, predicted, **label: fairness_report(
        true, predicted, GROUPS, privileged="b", **label
    ),
    "debiased_fairness": lambda true, predicted, **label: debiased_fairness(
        true, predicted, REPORTS, ENCODER, privileged="b", **label
    ),
    "private_reweighing": lambda true, predicted, **label: private_reweighing(
        true, REPORTS, ENCODER, privileged="b", **label
    ),
    "private_threshold_optimizer": lambda true, predicted, **label: private_threshold_optimizer(
        true, PREDICTED, REPORTS, ENCODER, **label
    )._pmf_predict(PREDICTED[:, np.newaxis], sensitive_features=GROUPS),
    "to_aif360": lambda true, predicted, **label: to_aif360(PEOPLE, true, "group", privileged="b", **label).labels,
}


@each(
    "convert",
    [np.asarray, lambda labels: labels == 1, lambda labels: labels.astype(float), lambda labels: labels.tolist()],
)
@pytest.mark.parametrize("function", LABELLED)
def test_1_is_the_positive_label(function, convert):
    given = LABELLED[function](TRUE, PREDICTED, positive_label=1)
    default = LABELLED[function](convert(TRUE), convert(PREDICTED))
    np.testing.assert_array_equal(np.asarray(default, object), np.asarray(given, object))


@each("names", [{0: "no", 1: "yes"}, {0: 1, 1: 2}, {0: -1, 1: 1}, {0: "0", 1: "1"}])
@pytest.mark.parametrize("function", LABELLED)
def test_other_labels_need_one(function, names):
    true, predicted = (pd.Series(labels).map(names) for labels in (TRUE, PREDICTED))
    with pytest.raises(
        ValueError, match=r"positive_label must be given: .* all labels are 0 and 1, or False and True, and"
    ):
        LABELLED[function](true, predicted)
    LABELLED[function](true, predicted, positive_label=names[1])
