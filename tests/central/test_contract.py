"""Our contract on every estimator of the curator's side."""

from __future__ import annotations

from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest

from skdp import (
    DPPCA,
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
)
from skdp.privacy import Mu, Rho
from skdp.testing import curator_checks
from tests.central.estimators import EVERY, whole

rng = np.random.default_rng(0)
NUMBERS = pd.DataFrame({"age": rng.integers(17, 90, 16).astype(float), "hours": rng.integers(1, 99, 16).astype(float)})
GAPS = NUMBERS.mask(rng.random(NUMBERS.shape) < 0.2)
WORDS = pd.DataFrame({"job": rng.choice(["clerk", "nurse", "smith"], 16), "sex": rng.choice(["f", "m"], 16)})
GAPPY_WORDS = WORDS.mask(rng.random(WORDS.shape) < 0.2)
BOUNDS = (0, 100)
DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
WITH_TARGET = NUMBERS.astype({"hours": int}).assign(job=rng.integers(0, 3, 16))
CODES = pd.DataFrame({"age": rng.integers(0, 4, 16), "job": rng.integers(0, 3, 16), "ill": rng.integers(0, 2, 16)})
FOURTHS = Interval(-10, 10, bins=4)
GAPPY_DECLARED = {name: [*values, None] for name, values in DECLARED.items()}

# One of each class, and of a choice; of a class that is not among them, the one that other tests take.
QUICK = [
    (DPMean(bounds=BOUNDS), NUMBERS),
    (DPStandardScaler(Mu(0.5, delta=1e-6), bounds=BOUNDS), NUMBERS),
    (DPMinMaxScaler(bounds=BOUNDS, quantile_range=(0.1, 0.9), candidates=20), GAPS),
    (DPSimpleImputer(bounds=BOUNDS), GAPS),
    (DPSimpleImputer(0.05, strategy="most_frequent", categories=DECLARED), GAPPY_WORDS),
    (DPQuantileBinarizer(bounds=BOUNDS, candidates=20), NUMBERS),
    (DPKBinsDiscretizer(bounds=BOUNDS, candidates=10), NUMBERS),
    (DPQuantileTransformer(bounds=BOUNDS, n_quantiles=10, candidates=10), GAPS),
    (DPRobustScaler(bounds=BOUNDS, candidates=20), GAPS),
    (DPHistogram(domain=Interval(0, 100, bins=64), method="hierarchical"), NUMBERS[["age"]]),
    (DPOneHotEncoder(30.0, delta=1e-6, categories="private", handle_unknown="ignore"), GAPPY_WORDS),
    (DPGroupBy("job", keys={"job": GAPPY_DECLARED["job"]}, bounds=BOUNDS), GAPS.assign(job=GAPPY_WORDS["job"])),
    (DPPCA(1, epsilon=20.0, bounds=BOUNDS), NUMBERS),
    (DPVarianceThreshold(900.0, epsilon=5.0, bounds=BOUNDS), GAPS),
    (DPRidge(bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
    (DPLinearRegression(5.0, delta=1e-6, bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
    (DPLogisticRegression(bounds=BOUNDS, classes=[0, 1, 2], max_iter=5), WITH_TARGET),
    (DPSelectKBest(1, bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
    (DPGaussianNB(5.0, bounds=(-10, 10), classes=[0, 1]), CODES),
    (DPCategoricalNB(5.0, categories=FOURTHS, classes=[0, 1]), CODES),
    (DPTargetEncoder(categories=FOURTHS, bounds=(0, 1)), CODES),
    (DPMarginalSynthesizer(max_iter=5, domain=DECLARED), WORDS),
]
NAMES = {type(estimator).__name__ for estimator, _ in QUICK}
QUICK += [(EVERY[name][0], whole(name)) for name in EVERY if name not in NAMES]
# With other mechanisms and parameters.
LONG = [
    (DPStandardScaler(bounds=BOUNDS, missing="error"), NUMBERS),
    (DPMinMaxScaler(bounds=BOUNDS), NUMBERS),
    (DPSimpleImputer(bounds=BOUNDS, strategy="median"), GAPS),
    (DPKBinsDiscretizer(bounds=BOUNDS, strategy="quantile", n_bins=4), NUMBERS),
    (DPHistogram(domain=DECLARED), WORDS),
    (DPMarginalSynthesizer(max_iter=5, domain=DECLARED, marginals="independent", redraw=["job"]), WORDS),
    (DPMarginalSynthesizer(max_iter=5, domain=Interval(0, 100, bins=8), marginals="full"), NUMBERS),
    (DPMean(Rho(0.1, delta=1e-6), bounds=BOUNDS), GAPS),
    (DPMinMaxScaler(Mu(0.5, delta=1e-6), bounds=BOUNDS, quantile_range=(0.1, 0.9)), GAPS),
    (DPSimpleImputer(Rho(0.001, delta=1e-6), strategy="most_frequent", categories=DECLARED), GAPPY_WORDS),
    (DPHistogram(Rho(0.1, delta=1e-6), domain=Interval(0, 100, bins=64), method="hierarchical"), NUMBERS[["age"]]),
    (DPMarginalSynthesizer(max_iter=5, epsilon=Mu(0.5, delta=1e-6), domain=GAPPY_DECLARED), GAPPY_WORDS),
    (DPMean(20.0, bounds="private"), NUMBERS),
    (DPMinMaxScaler(20.0, bounds={"age": "private", "hours": (0, 100)}, clip=True), GAPS),
    (DPPCA(epsilon=Mu(0.5, delta=1e-6), bounds=BOUNDS), NUMBERS),
]
SUBJECTS = QUICK + LONG


def cases():
    for place, (estimator, X) in enumerate(SUBJECTS):
        for name, check in curator_checks(estimator, X):
            # Values that one row alone has are drawn for, and hardly ever published: that is what their delta is for.
            by_threshold = isinstance(estimator, DPOneHotEncoder)
            if not (by_threshold and name == "check_noise_covers_what_a_row_changes"):
                marks = [] if place < len(QUICK) else pytest.mark.long
                yield pytest.param(check, id=f"{type(estimator).__name__}-{place}-{name}", marks=marks)


@pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
@pytest.mark.parametrize("check", list(cases()))
def test_the_contract(check):
    try:
        check()
    except SkipTest as skipped:
        pytest.skip(str(skipped))
