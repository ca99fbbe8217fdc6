"""What the curator's side of this library releases, with small tables that reach the sensitivity."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from sklearn.base import clone

import skdp
from skdp.central import sample_and_aggregate
from skdp.privacy import Mu, Rho

BOUNDS = (0.0, 100.0)
WORDS = {"job": ["clerk", "nurse", None], "sex": ["f", "m"]}
NUMBERS = pd.DataFrame(
    {"age": [0.0, 100.0, 100.0, 37.5, 50.0, 0.0, 100.0], "hours": [100.0, 0.0, 100.0, np.nan, 50.0, 0.0, 73.0]}
)
WHOLE = NUMBERS.fillna(12.5)
JOBS = pd.DataFrame({"job": ["clerk", "nurse", "nurse", None, "clerk", "nurse"], "sex": ["f", "m", "m", "f", "f", "m"]})
CODED = pd.DataFrame({"a": [0, 1, 2, 2, 0, 1, 2], "b": [1, 0, 1, 1, 0, 1, 0], "c": [1, 1, 0, 1, 0, 0, 1]})
CODES = {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1]}
RHO, MU = Rho(0.5, delta=1e-6), Mu(1.0, delta=1e-6)
EIGHTHS = skdp.Interval(0, 100, bins=8)


def synthesizer(epsilon=1.0, **parameters):
    return skdp.DPMarginalSynthesizer(epsilon, **{"domain": CODES} | parameters)


def fitted(model, rows):
    """Fit a model to rows, of which the columns `y` and `person` are what `fit` takes beside X."""
    X = rows.drop(columns=["y", "person"], errors="ignore")
    target = [rows["y"]] if "y" in rows else []
    more = {"groups": rows["person"]} if "person" in rows else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows
        return clone(model).set_params(random_state=0).fit(X, *target, **more)


def resampled(rows):
    resampler = skdp.SyntheticResampler(clone(synthesizer(random_state=0)))
    resampler.rows_ = resampler.fit_resample(rows[["a", "b"]], rows["c"])
    return resampler


COMMON = {"job": ["clerk", "nurse"] * 100, "sex": ["f", "m"] * 100}


def domain_found(rows):
    """Find texts that many others have too: without noise on new ones, all draws have neighbours."""
    table = pd.concat([pd.DataFrame(COMMON), rows[["job", "sex"]]], ignore_index=True)
    if "person" not in rows:
        return skdp.discover_domain(table, 5.0, 1e-3, random_state=0)
    persons = [*range(1000, 1200), *rows["person"]]
    return skdp.discover_domain(table, 5.0, 1e-3, groups=persons, max_rows_per_person=3, random_state=0)


CORNERS = pd.DataFrame({"a": [1.0, 1, -1, 0, 1], "b": [1.0, -1, -1, 0, 1], "y": [0, 1, 1, 0, 1]})
CORNER_PERSONS = CORNERS.iloc[[0, 0, 1, 2, 2, 4, 4]].assign(person=[1, 1, 2, 3, 3, 4, 4])
PERSONS = CODED.assign(person=[1, 1, 2, 3, 3, 4, 4])


def mean_in_chunks(rows):
    return sample_and_aggregate(
        lambda chunk: float(chunk["age"].mean()), rows, bounds=BOUNDS, n_chunks=4, epsilon=1.0, random_state=0
    )


UNIT = (-1, 1)
RELEASES = {
    "standard scaler, missing values": (skdp.DPStandardScaler(bounds=BOUNDS), NUMBERS),
    "logistic regression, three classes": (
        skdp.DPLogisticRegression(3.0, bounds=UNIT, classes=[0, 1, 2]),
        CORNERS.assign(y=[0, 1, 2, 0, 2]),
    ),
    "additive classifier of persons, three classes": (
        skdp.DPAdditiveClassifier(3.0, bounds=UNIT, classes=[0, 1, 2], max_rows_per_person=2),
        CORNER_PERSONS.assign(y=[0, 1, 2, 2, 0, 1, 0]),
    ),
    "additive regressor of persons": (
        skdp.DPAdditiveRegressor(Mu(900.0, delta=1e-6), bounds=UNIT, target_bounds=(0, 1), max_rows_per_person=2),
        CORNER_PERSONS,
    ),
    "additive regressor of categories": (
        skdp.DPAdditiveRegressor(RHO, categories=WORDS, target_bounds=(-1, 1)),
        JOBS.assign(y=[1.0, 0.0, 0.5, -1.0, 0.0, 7.0]),
    ),
    "groups of persons": (
        skdp.DPGroupBy(by="a", keys={"a": CODES["a"]}, bounds=(0, 1), max_rows_per_person=2),
        PERSONS,
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
    "synthesizer of persons": (synthesizer(max_rows_per_person=2), PERSONS),
    "mean of persons": (skdp.DPMean(bounds=(0, 2), max_rows_per_person=2), PERSONS),
    "histogram of persons": (skdp.DPHistogram(domain=CODES, max_rows_per_person=2), PERSONS),
    "sample and aggregate": (mean_in_chunks, WHOLE),
    "quantile transformer, rho": (skdp.DPQuantileTransformer(RHO, bounds=BOUNDS, n_quantiles=9), NUMBERS),
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
    "synthesizer, auto": (synthesizer(), CODED),
    "synthesizer, auto, mu": (synthesizer(MU), CODED),
    "synthesizer, given marginals": (synthesizer(marginals=[("a", "b"), ("b", "c")]), CODED),
    "resampler": (resampled, CODED),
    "components of persons, delta": (skdp.DPPCA(delta=1e-6, bounds=(0, 2), max_rows_per_person=2), PERSONS),
    "synthesizer, private bins": (
        synthesizer(domain=skdp.Domain({"age": EIGHTHS, "hours": EIGHTHS}), marginals="independent"),
        WHOLE,
    ),
}
"""Releases of persons, of functions, and of several rounds; `test_contract` replays a record of each class."""


def neighbours_of(table):
    """Return pairs of neighbours, of which the second lacks the last row, or the last person."""
    if "person" not in table:
        return [(table.iloc[: size + 1], table.iloc[:size]) for size in range(len(table))]
    persons = list(dict.fromkeys(table["person"]))
    parts = [table[table["person"].isin(persons[:count])] for count in range(len(persons) + 1)]
    return [(parts[count + 1], parts[count]) for count in range(len(persons))]
