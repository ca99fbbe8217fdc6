"""Errors name the parameter that was given: bounds of targets, and lists in place of names."""

import numpy as np
import pandas as pd
import pytest

from skdp import (
    Domain,
    DPAdditiveRegressor,
    DPColumnSynthesizer,
    DPHistogram,
    DPLinearRegression,
    DPLinkedSynthesizer,
    Interval,
    NumericPerturber,
    RandomizedResponseEncoder,
)
from skdp.metrics import fairness_report, joint_distribution

X = pd.DataFrame({"age": np.linspace(0, 1, 50)})
INCOME = pd.Series(np.linspace(0, 1, 50), name="income")


def test_bounds_are_found_by_name():
    table = pd.DataFrame({"age": [40.0], "hours": [30.0]})
    perturber = NumericPerturber(1.0, bounds={"hours": (0, 80), "age": (0, 100)}).fit(table)
    assert perturber.bounds_.tolist() == [[0, 100], [0, 80]]


@pytest.mark.parametrize("model", [DPLinearRegression, DPAdditiveRegressor])
@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (Domain({"salary": Interval(0.0, 1.0)}), r"must declare the target, 'income', got a Domain with \['salary'\]"),
        (Domain({"income": ["low", "high"]}), "of column 'income' must be a range of numbers"),
        ([0, 1, 2], "of column 'income' must be a pair"),
    ],
)
def test_invalid_bounds_of_a_target_name_the_parameter(model, declared, message):
    with pytest.raises(ValueError, match=f"^`target_bounds` {message}"):
        model(1.0, bounds=(0, 1), target_bounds=declared).fit(X, INCOME)
    with pytest.raises(ValueError, match=r"^`bounds` declares no values for the columns"):
        model(1.0, bounds=Domain({"salary": Interval(0.0, 1.0)}), target_bounds=(0, 1)).fit(X, INCOME)


CITIES = {"city": ["a", "b"]}
PEOPLE = pd.DataFrame({"id": range(50), "city": ["a", "b"] * 25})
ENCODER = RandomizedResponseEncoder(categories=CITIES, random_state=0).fit(PEOPLE[["city"]])
OUTCOME = [0, 1] * 25


def fit_linked(**parameters):
    DPLinkedSynthesizer(1.0, domain=CITIES, max_rows_per_person=1, **{"person": "id"} | parameters).fit(PEOPLE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_linked(person=["id"], person_columns=["city"]), "`person` must be the name of a column, got list"),
        (lambda: fit_linked(person_columns=[["city"]]), "`person` and `person_columns` must name columns"),
        (
            lambda: DPLinkedSynthesizer(1.0, domain=CITIES, max_rows_per_person=1, person=["id"]).fit(
                PEOPLE, PEOPLE[["id"]]
            ),
            "`person` must be the name of a column, got list",
        ),
        (lambda: DPColumnSynthesizer([["city"]], domain=CITIES).fit(PEOPLE), "`columns` must name columns of X"),
        (
            lambda: DPHistogram(domain=CITIES, levels={"region": {"a": ["r"], "b": ["r"]}}).fit(PEOPLE[["city"]]),
            "`levels` must map each value below level 'region' to one group",
        ),
        (
            lambda: joint_distribution(OUTCOME, OUTCOME, PEOPLE[["city"]], ENCODER, columns=[["city"]]),
            "`columns` must be the name of a column, got list",
        ),
        (lambda: Domain(CITIES).select([["city"]]), "`columns` must be columns of the domain"),
        (
            lambda: fairness_report(OUTCOME, OUTCOME, PEOPLE["city"], positive_label=[1]),
            "`positive_label` must be a label",
        ),
    ],
)
def test_a_list_in_place_of_a_name_raises_an_error_of_the_parameter(call, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        call()
