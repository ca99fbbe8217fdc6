"""What the curator's side of this library releases, with small tables that reach the sensitivity."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp import (
    DPPCA,
    Domain,
    DPCategoricalNB,
    DPGaussianNB,
    DPGroupBy,
    DPHistogram,
    DPKBinsDiscretizer,
    DPLinearRegression,
    DPLogisticRegression,
    DPMarginalSynthesizer,
    DPMean,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPQuantileBinarizer,
    DPQuantileTransformer,
    DPRidge,
    DPRobustScaler,
    DPSelectKBest,
    DPSimpleImputer,
    DPStandardScaler,
    DPTargetEncoder,
    DPVarianceThreshold,
    Interval,
    SyntheticResampler,
)
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
EIGHTHS = Interval(0, 100, bins=8)


def synthesizer(epsilon=1.0, **parameters):
    return DPMarginalSynthesizer(epsilon, **{"domain": CODES, "max_iter": 5} | parameters)


def of_persons(rows, *, epsilon=1.0, **parameters):
    """Synthesise rows of persons: a neighbour lacks all rows of the last one."""
    made = synthesizer(epsilon, max_rows_per_person=2, random_state=0, **parameters)
    return made.fit(rows.drop(columns="person"), groups=rows["person"])


def statistic_of_persons(estimator, rows):
    """Fit an estimator to rows of persons: a neighbour lacks all rows of the last one."""
    made = clone(estimator).set_params(max_rows_per_person=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows
        return made.fit(rows.drop(columns="person"), groups=rows["person"])


def resampled(rows):
    resampler = SyntheticResampler(clone(synthesizer(random_state=0)))
    resampler.rows_ = resampler.fit_resample(rows[["a", "b"]], rows["c"])
    return resampler


def regression(rows, **parameters):
    """Fit a model to a table whose last column is the target."""
    classes = [0, 1] if parameters else [0, 1, 2]
    model = DPLogisticRegression(3.0, bounds=(-1, 1), classes=classes, max_iter=5, random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows
        return model.fit(rows[["a", "b"]], rows["y"])


def encoded(rows, **parameters):
    """Encode words by a target, the last column of a table."""
    encoder = DPTargetEncoder(**{"categories": WORDS, "bounds": (0, 1), "random_state": 0} | parameters)
    return encoder.fit(rows[["job", "sex"]], rows["y"])


COMMON = {"job": ["clerk", "nurse"] * 100, "sex": ["f", "m"] * 100}


def categories_found(rows, rows_per_person=1):
    """Find categories that many others have too: without noise on new ones, all draws have neighbours."""
    encoder = DPOneHotEncoder(
        5.0, delta=1e-3, categories="private", max_rows_per_person=rows_per_person, random_state=0
    )
    table = pd.concat([pd.DataFrame(COMMON), rows[["job", "sex"]]], ignore_index=True)
    persons = [*range(1000, 1200), *rows["person"]] if "person" in rows else None
    return encoder.fit(table, groups=persons)


def keys_found(rows):
    """Count by keys that many others have too."""
    groups = DPGroupBy(["job", "sex"], 5.0, delta=1e-3, keys="private", random_state=0)
    return groups.fit(pd.concat([pd.DataFrame(COMMON), rows], ignore_index=True))


def selected(rows, **parameters):
    """Select a column by a target, the last column of a table."""
    selector = DPSelectKBest(1, bounds=(-1, 1), random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows
        return selector.fit(rows[["a", "b"]], rows["y"])


def of_numbers(model, rows):
    """Fit a regressor to a table whose last column is the target."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows
        return model.set_params(bounds=(-1, 1), target_bounds=(0, 1), random_state=0).fit(rows[["a", "b"]], rows["y"])


def supervised(model, rows, target="y"):
    """Fit a model to a table that has a target, and perhaps persons."""
    who = {"groups": rows["person"]} if "person" in rows else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows
        return (
            clone(model)
            .set_params(random_state=0)
            .fit(rows.drop(columns=[target, *["person"] * len(who)]), rows[target], **who)
        )


CORNERS = pd.DataFrame({"a": [1.0, 1, -1, 0, 1], "b": [1.0, -1, -1, 0, 1], "y": [0, 1, 1, 0, 1]})
CORNER_PERSONS = CORNERS.iloc[[0, 0, 1, 2, 2, 4, 4]].assign(person=[1, 1, 2, 3, 3, 4, 4])
PERSONS = CODED.assign(person=[1, 1, 2, 3, 3, 4, 4])


def mean_in_chunks(rows):
    return sample_and_aggregate(
        lambda chunk: float(chunk["age"].mean()), rows, bounds=BOUNDS, n_chunks=4, epsilon=1.0, random_state=0
    )


RELEASES = {
    "mean, two sums": (DPMean(bounds=BOUNDS), NUMBERS),
    "mean, rho": (DPMean(RHO, bounds=BOUNDS), NUMBERS),
    "mean, mu": (DPMean(MU, bounds=BOUNDS), NUMBERS),
    "mean, bounds found": (DPMean(800.0, bounds="private"), NUMBERS),
    "mean, one count": (DPMean(bounds=BOUNDS, missing="error"), WHOLE),
    "standard scaler": (DPStandardScaler(bounds=BOUNDS, missing="error"), WHOLE),
    "standard scaler, missing values": (DPStandardScaler(bounds=BOUNDS), NUMBERS),
    "standard scaler, mu": (DPStandardScaler(MU, bounds=BOUNDS, missing="error"), WHOLE),
    "components": (DPPCA(bounds=BOUNDS), WHOLE),
    "components, mu": (DPPCA(epsilon=MU, bounds=BOUNDS), WHOLE),
    "min-max scaler": (DPMinMaxScaler(bounds=BOUNDS, quantile_range=(0.1, 0.9)), NUMBERS),
    "min-max scaler, bounds found, rho": (DPMinMaxScaler(RHO, bounds={"age": "private", "hours": BOUNDS}), NUMBERS),
    "min-max scaler, mu": (DPMinMaxScaler(MU, bounds=BOUNDS, quantile_range=(0.1, 0.9)), NUMBERS),
    "robust scaler": (DPRobustScaler(bounds=BOUNDS, candidates=20), NUMBERS),
    "quantile transformer, rho": (DPQuantileTransformer(RHO, bounds=BOUNDS, n_quantiles=9, candidates=30), NUMBERS),
    "imputer, mean": (DPSimpleImputer(bounds=BOUNDS), NUMBERS),
    "imputer, median": (DPSimpleImputer(bounds=BOUNDS, strategy="median"), NUMBERS),
    "imputer, most frequent": (DPSimpleImputer(strategy="most_frequent", categories=WORDS), JOBS),
    "imputer, most frequent, rho": (DPSimpleImputer(RHO, strategy="most_frequent", categories=WORDS), JOBS),
    "quantile binarizer": (DPQuantileBinarizer(bounds=BOUNDS), NUMBERS),
    "discretizer, quantiles": (DPKBinsDiscretizer(bounds=BOUNDS, strategy="quantile", n_bins=3), NUMBERS),
    "discretizer, many quantiles": (DPKBinsDiscretizer(bounds=BOUNDS, candidates=50), NUMBERS),
    "discretizer, many quantiles, mu": (DPKBinsDiscretizer(MU, bounds=BOUNDS, candidates=50), NUMBERS),
    "logistic regression": (lambda rows: regression(rows, fit_intercept=True), CORNERS),
    "logistic regression, without intercept": (lambda rows: regression(rows, fit_intercept=False), CORNERS),
    "logistic regression, three classes": (regression, CORNERS.assign(y=[0, 1, 2, 0, 2])),
    "target encoder": (encoded, JOBS.assign(y=[1.0, 0.0, 0.5, 1.0, 0.0, 1.0])),
    "target encoder, rho": (partial(encoded, epsilon=RHO), JOBS.assign(y=[1.0, 0.0, 0.5, 1.0, 0.0, 1.0])),
    "groups": (DPGroupBy("job", keys={"job": WORDS["job"]}, bounds=BOUNDS), NUMBERS.iloc[:6].assign(job=JOBS["job"])),
    "groups, one count, rho": (
        DPGroupBy(["job", "sex"], RHO, keys=WORDS, bounds=BOUNDS, missing="error", statistics=["mean", "sum"]),
        JOBS.assign(age=WHOLE["age"]),
    ),
    "groups of persons": (
        partial(statistic_of_persons, DPGroupBy("a", keys={"a": CODES["a"]}, bounds=(0, 1))),
        PERSONS,
    ),
    "groups, keys found": (keys_found, JOBS[:2]),
    "one-hot encoder, categories found": (categories_found, JOBS[:2]),
    "one-hot encoder of persons": (
        partial(categories_found, rows_per_person=3),
        JOBS.dropna().assign(person=[1, 1, 1, 2, 2]),
    ),
    "linear regression": (lambda rows: of_numbers(DPLinearRegression(3.0, delta=1e-6), rows), CORNERS),
    "ridge regression, pure": (lambda rows: of_numbers(DPRidge(3.0), rows), CORNERS),
    "linear regression, mu, without intercept": (
        lambda rows: of_numbers(DPLinearRegression(MU, fit_intercept=False), rows),
        CORNERS,
    ),
    "Gaussian naive Bayes": (partial(supervised, DPGaussianNB(bounds=(-1, 1), classes=[0, 1])), CORNERS),
    "Gaussian naive Bayes, mu": (partial(supervised, DPGaussianNB(MU, bounds=(-1, 1), classes=[0, 1])), CORNERS),
    "categorical naive Bayes": (
        partial(supervised, DPCategoricalNB(categories=WORDS, classes=[0, 1])),
        JOBS.assign(y=[0, 1, 1, 0, 0, 1]),
    ),
    "categorical naive Bayes of persons, rho": (
        partial(
            supervised,
            DPCategoricalNB(RHO, categories={"a": [0, 1, 2], "b": [0, 1]}, classes=[0, 1], max_rows_per_person=2),
            target="c",
        ),
        PERSONS,
    ),
    "Gaussian naive Bayes of persons, bounds found": (
        partial(supervised, DPGaussianNB(bounds="private", classes=[0, 1], max_rows_per_person=2)),
        CORNER_PERSONS,
    ),
    "ridge regression of persons": (
        partial(supervised, DPRidge(3.0, delta=1e-6, bounds=(-1, 1), target_bounds=(0, 1), max_rows_per_person=2)),
        CORNER_PERSONS,
    ),
    "ridge regression of persons, bounds found": (
        partial(supervised, DPRidge(3.0, bounds="private", target_bounds="private", max_rows_per_person=2)),
        CORNER_PERSONS,
    ),
    "logistic regression of persons": (
        partial(
            supervised, DPLogisticRegression(MU, bounds=(-1, 1), classes=[0, 1], max_iter=5, max_rows_per_person=2)
        ),
        CORNER_PERSONS,
    ),
    "selection by classes": (partial(selected, epsilon=3.0, classes=[0, 1]), CORNERS),
    "selection by a number, mu": (partial(selected, epsilon=MU, target_bounds=(0, 1)), CORNERS),
    "variances": (DPVarianceThreshold(bounds=BOUNDS), NUMBERS),
    "histogram": (DPHistogram(domain=WORDS), JOBS),
    "histogram of intervals, hierarchical": (DPHistogram(domain=EIGHTHS, method="hierarchical"), WHOLE[["age"]]),
    "histogram, hierarchical, rho": (DPHistogram(RHO, domain=EIGHTHS, method="hierarchical"), WHOLE[["age"]]),
    "synthesizer, auto": (synthesizer(), CODED),
    "synthesizer, auto, delta": (synthesizer(delta=1e-6), CODED),
    "synthesizer, independent": (synthesizer(marginals="independent"), CODED),
    "synthesizer, auto, mu": (synthesizer(MU), CODED),
    "synthesizer, full": (synthesizer(marginals="full"), CODED),
    "synthesizer, full, rho": (synthesizer(RHO, marginals="full"), CODED),
    "synthesizer, given marginals": (synthesizer(marginals=[("a", "b"), ("b", "c")]), CODED),
    "resampler": (resampled, CODED),
    "synthesizer of persons": (of_persons, PERSONS),
    "mean of persons": (partial(statistic_of_persons, DPMean(bounds=(0, 2))), PERSONS),
    "scaler of persons, bounds found, mu": (
        partial(statistic_of_persons, DPStandardScaler(MU, bounds="private")),
        PERSONS,
    ),
    "components of persons, delta": (
        partial(statistic_of_persons, DPPCA(delta=1e-6, bounds=(0, 2))),
        PERSONS,
    ),
    "binarizer of persons": (
        partial(statistic_of_persons, DPQuantileBinarizer(bounds=(0, 2))),
        CODED.iloc[[0, 1, 2, 3, 3, 0, 0]].assign(person=[1, 1, 2, 3, 3, 4, 4]),
    ),
    "discretizer of persons": (
        partial(statistic_of_persons, DPKBinsDiscretizer(bounds=(0, 2), candidates=5)),
        PERSONS,
    ),
    "histogram of persons": (partial(statistic_of_persons, DPHistogram(domain=CODES)), PERSONS),
    "sample and aggregate": (mean_in_chunks, WHOLE),
    "synthesizer, private bins": (
        synthesizer(domain=Domain({"age": EIGHTHS, "hours": EIGHTHS}), marginals="independent"),
        WHOLE,
    ),
}
"""Releases by name, each with a table."""


def neighbours_of(name, table):
    """Return pairs of neighbours, of which the second lacks the last row, or the last person."""
    if "of persons" not in name:
        return [(table.iloc[: size + 1], table.iloc[:size]) for size in range(len(table))]
    persons = list(dict.fromkeys(table["person"]))
    parts = [table[table["person"].isin(persons[:count])] for count in range(len(persons) + 1)]
    return [(parts[count + 1], parts[count]) for count in range(len(persons))]
