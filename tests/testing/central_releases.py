"""Releases of the central model of this library, with small tables that attain the sensitivity."""

import warnings

import pandas as pd
from sklearn.base import clone

import skdp
from skdp.privacy import Mu, Rho

WORDS = {"job": ["clerk", "nurse", None], "sex": ["f", "m"]}
JOBS = pd.DataFrame({"job": ["clerk", "nurse", "nurse", None, "clerk", "nurse"], "sex": ["f", "m", "m", "f", "f", "m"]})
CODED = pd.DataFrame({"a": [0, 1, 2, 2, 0, 1, 2], "b": [1, 0, 1, 1, 0, 1, 0], "c": [1, 1, 0, 1, 0, 0, 1]})
CODES = {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1]}
RHO, MU = Rho(0.5, delta=1e-6), Mu(1.0, delta=1e-6)


def fit_model(model, rows):
    """Fit a model to rows; the columns `y` and `person` are arguments of `fit`."""
    X = rows.drop(columns=["y", "person"], errors="ignore")
    target = [rows["y"]] if "y" in rows else []
    more = {"person": rows["person"]} if "person" in rows else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        return clone(model).set_params(random_state=0).fit(X, *target, **more)


def resample_rows(rows):
    resampler = skdp.SyntheticResampler(skdp.DPMarginalSynthesizer(domain=CODES, random_state=0))
    resampler.rows_ = resampler.fit_resample(rows[["a", "b"]], rows["c"])
    return resampler


COMMON = {"job": ["clerk", "nurse"] * 100, "sex": ["f", "m"] * 100}


def domain_found(rows):
    """Find texts that occur often, so that new texts need no noise and all draws have neighbors."""
    table = pd.concat([pd.DataFrame(COMMON), rows[["job", "sex"]]], ignore_index=True)
    if "person" not in rows:
        return skdp.discover_domain(table, 5.0, 1e-3, random_state=0)
    persons = [*range(1000, 1200), *rows["person"]]
    return skdp.discover_domain(table, 5.0, 1e-3, person=persons, max_rows_per_person=3, random_state=0)


CORNERS = pd.DataFrame({"a": [1.0, 1, -1, 0, 1], "b": [1.0, -1, -1, 0, 1], "y": [0, 1, 1, 0, 1]})
CORNER_PERSONS = CORNERS.iloc[[0, 0, 1, 2, 2, 4, 4]].assign(person=[1, 1, 2, 3, 3, 4, 4])
PERSONS = CODED.assign(person=[1, 1, 2, 3, 3, 4, 4])


UNIT = (-1, 1)
RELEASES = {
    "additive classifier of persons, three classes": (
        skdp.DPAdditiveClassifier(3.0, bounds=UNIT, classes=[0, 1, 2], max_rows_per_person=2),
        CORNER_PERSONS.assign(y=[0, 1, 2, 2, 0, 1, 0]),
    ),
    "additive regressor of persons": (
        skdp.DPAdditiveRegressor(
            Mu(900.0, delta=1e-6), bounds=UNIT, target_bounds=(0, 1), monotonic_cst={"a": 1}, max_rows_per_person=2
        ),
        CORNER_PERSONS,
    ),
    "additive regressor of categories": (
        skdp.DPAdditiveRegressor(RHO, categories=WORDS, target_bounds=(-1, 1)),
        JOBS.assign(y=[1.0, 0.0, 0.5, -1.0, 0.0, 7.0]),
    ),
    "domain of persons": (domain_found, JOBS.dropna().assign(person=[1, 1, 1, 2, 2])),
    "ridge regression of persons": (
        skdp.DPRidge(3.0, delta=1e-6, bounds=UNIT, target_bounds=(0, 1), max_rows_per_person=2),
        CORNER_PERSONS,
    ),
    "logistic regression of persons": (
        skdp.DPLogisticRegression(MU, bounds=UNIT, classes=[0, 1], max_rows_per_person=2),
        CORNER_PERSONS,
    ),
    "histogram of persons": (skdp.DPHistogram(domain=CODES, max_rows_per_person=2), PERSONS),
    "domain": (domain_found, JOBS[:2]),
    "categorical naive Bayes of persons, rho": (
        skdp.DPCategoricalNB(RHO, categories={"a": [0, 1, 2], "b": [0, 1]}, classes=[0, 1], max_rows_per_person=2),
        PERSONS.rename(columns={"c": "y"}),
    ),
    "Gaussian naive Bayes of persons": (
        skdp.DPGaussianNB(5.0, bounds=UNIT, classes=[0, 1], max_rows_per_person=2),
        CORNER_PERSONS,
    ),
    "target encoder of persons": (
        skdp.DPTargetEncoder(categories={"a": [0, 1, 2], "b": [0, 1]}, bounds=(0, 1), max_rows_per_person=2),
        PERSONS.rename(columns={"c": "y"}),
    ),
    "resampler": (resample_rows, CODED),
    "components of persons, delta": (skdp.DPPCA(delta=1e-6, bounds=(0, 2), max_rows_per_person=2), PERSONS),
}
"""Releases of persons, of functions, and of several rounds; `test_contract` replays a record of each class."""


def neighbors_of(table):
    """Return pairs of neighbors; the second table lacks the last row, or the last person."""
    if "person" not in table:
        return [(table.iloc[: size + 1], table.iloc[:size]) for size in range(len(table))]
    persons = list(dict.fromkeys(table["person"]))
    parts = [table[table["person"].isin(persons[:count])] for count in range(len(persons) + 1)]
    return [(parts[count + 1], parts[count]) for count in range(len(persons))]
