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

rng = np.random.default_rng(0)
NUMBERS = pd.DataFrame({"age": rng.integers(17, 90, 60).astype(float), "hours": rng.integers(1, 99, 60).astype(float)})
GAPS = NUMBERS.mask(rng.random(NUMBERS.shape) < 0.2)
WORDS = pd.DataFrame({"job": rng.choice(["clerk", "nurse", "smith"], 60), "sex": rng.choice(["f", "m"], 60)})
GAPPY_WORDS = WORDS.mask(rng.random(WORDS.shape) < 0.2)
BOUNDS = (0, 100)
DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
WITH_TARGET = NUMBERS.astype({"hours": int}).assign(job=rng.integers(0, 3, 60))
CODES = pd.DataFrame({"age": rng.integers(0, 4, 60), "job": rng.integers(0, 3, 60), "ill": rng.integers(0, 2, 60)})
FOURTHS = Interval(-10, 10, bins=4)
GAPPY_DECLARED = {name: [*values, None] for name, values in DECLARED.items()}

SUBJECTS = [
    (DPMean(bounds=BOUNDS), NUMBERS),
    (DPStandardScaler(bounds=BOUNDS, missing="error"), NUMBERS),
    (DPStandardScaler(bounds=BOUNDS), GAPS),
    (DPMinMaxScaler(bounds=BOUNDS), NUMBERS),
    (DPMinMaxScaler(bounds=BOUNDS, quantile_range=(0.1, 0.9)), GAPS),
    (DPSimpleImputer(bounds=BOUNDS), GAPS),
    (DPSimpleImputer(bounds=BOUNDS, strategy="median"), GAPS),
    (DPSimpleImputer(0.05, strategy="most_frequent", categories=DECLARED), GAPPY_WORDS),
    (DPQuantileBinarizer(bounds=BOUNDS), NUMBERS),
    (DPKBinsDiscretizer(bounds=BOUNDS, candidates=10), NUMBERS),
    (DPKBinsDiscretizer(bounds=BOUNDS, strategy="quantile", n_bins=4), NUMBERS),
    (DPHistogram(domain=DECLARED), WORDS),
    (DPHistogram(domain=Interval(0, 100, bins=64), method="hierarchical"), NUMBERS[["age"]]),
    (DPMarginalSynthesizer(max_iter=5, domain=DECLARED), WORDS),
    (DPMarginalSynthesizer(max_iter=5, domain=GAPPY_DECLARED, delta=1e-6), GAPPY_WORDS),
    (DPMarginalSynthesizer(max_iter=5, domain=DECLARED, marginals="independent", redraw=["job"]), WORDS),
    (DPMarginalSynthesizer(max_iter=5, domain=Interval(0, 100, bins=8), delta=1e-6), NUMBERS),
    (DPMarginalSynthesizer(max_iter=5, domain=Interval(0, 100, bins=8), marginals="full"), NUMBERS),
    (DPMean(Rho(0.1, delta=1e-6), bounds=BOUNDS), GAPS),
    (DPStandardScaler(Mu(0.5, delta=1e-6), bounds=BOUNDS), NUMBERS),
    (DPMinMaxScaler(Mu(0.5, delta=1e-6), bounds=BOUNDS, quantile_range=(0.1, 0.9)), GAPS),
    (DPSimpleImputer(Rho(0.001, delta=1e-6), strategy="most_frequent", categories=DECLARED), GAPPY_WORDS),
    (DPHistogram(Rho(0.1, delta=1e-6), domain=Interval(0, 100, bins=64), method="hierarchical"), NUMBERS[["age"]]),
    (DPMarginalSynthesizer(max_iter=5, epsilon=Mu(0.5, delta=1e-6), domain=GAPPY_DECLARED), GAPPY_WORDS),
    (DPMarginalSynthesizer(max_iter=5, epsilon=Rho(0.1, delta=1e-6), domain=DECLARED, marginals="independent"), WORDS),
    (DPMean(20.0, bounds="private"), NUMBERS),
    (DPMinMaxScaler(20.0, bounds={"age": "private", "hours": (0, 100)}, clip=True), GAPS),
    (DPOneHotEncoder(30.0, delta=1e-6, categories="private", handle_unknown="ignore"), GAPPY_WORDS),
    (DPGroupBy("job", keys={"job": GAPPY_DECLARED["job"]}, bounds=BOUNDS), GAPS.assign(job=GAPPY_WORDS["job"])),
    (DPQuantileTransformer(bounds=BOUNDS, n_quantiles=10, candidates=10), GAPS),
    (DPRobustScaler(bounds=BOUNDS), GAPS),
    (DPPCA(1, epsilon=20.0, bounds=BOUNDS), NUMBERS),
    (DPPCA(epsilon=Mu(0.5, delta=1e-6), bounds=BOUNDS), NUMBERS),
    (DPVarianceThreshold(900.0, epsilon=5.0, bounds=BOUNDS), GAPS),
    (DPRidge(bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
    (DPLogisticRegression(bounds=BOUNDS, classes=[0, 1, 2], max_iter=5), WITH_TARGET),
    (DPSelectKBest(1, bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
    (DPGaussianNB(5.0, bounds=(-10, 10), classes=[0, 1]), CODES),
    (DPCategoricalNB(5.0, categories=FOURTHS, classes=[0, 1]), CODES),
    (DPTargetEncoder(categories=FOURTHS, bounds=(0, 1)), CODES),
    (DPLinearRegression(5.0, delta=1e-6, bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
]
KINDS = {type(estimator) for estimator, _ in SUBJECTS}
# Other mechanisms and parameters of a class that is there, and those that are fitted in several rounds.
LONG = [1, 2, 3, 5, 8, 10, 11, 16, *range(20, 24), *range(25, 35), 36, 37, 38, 40, 43, 45, 53]
# They read frames as another mechanism of their class does.
READ_ALIKE = [4, 6, 18, 24, 35, 39, 41, 42, 46, 49, 50, 51, 52]
# What they release of each dtype is compared in test_representations.py, of lazy tables in test_every_estimator.py.
READ_THERE = [0, 9, 12, 14, 15, 17]
# tests/testing/test_sensitivity.py replays the same noise for more neighbours; 39 has many counts.
REPLAYED_THERE = [0, 4, 6, 7, 13, 17, 18, 35, 39, 41, 44, 46, 47, 48, 50, 51, 52]
# Other mechanisms of a class that is in the list do in the same way what its base class does for all of them.
SAME_CLASS = [4, 6, 13, 18, 24, 35, 39]
ABOUT_MECHANISMS = [
    "check_a_failed_refit_changes_nothing",
    "check_every_fit_draws_coins_of_its_own",
    "check_guarantee_is_stated",
    "check_noise_covers_what_a_row_changes",
    "check_nothing_exact_is_shown",
    "check_tables_of_no_rows_and_of_one_are_answered",
]
# Values that one row alone has are drawn for, and hardly ever published: that is what their delta is for.
BY_THRESHOLD = [40]
ABOUT_FRAMES = [
    "check_dtypes_do_not_matter",
    "check_frames_of_all_kinds_give_the_same",
    "check_labels_and_metadata_do_not_matter",
    "check_lazy_frames_are_refused_or_counted",
    "check_nothing_else_is_carried_over",
]


def _is_long(place, name):
    return (
        place in LONG
        or (place in READ_ALIKE and name in ABOUT_FRAMES)
        or (place in READ_THERE and name in ABOUT_FRAMES and name != "check_nothing_else_is_carried_over")
        or (place in REPLAYED_THERE and name == "check_noise_covers_what_a_row_changes")
        or (place in SAME_CLASS and name not in (*ABOUT_MECHANISMS, *ABOUT_FRAMES))
    )


CASES = [
    pytest.param(
        check,
        id=f"{type(estimator).__name__}-{place}-{name}",
        marks=pytest.mark.long if _is_long(place, name) else [],
    )
    for place, (estimator, X) in enumerate(SUBJECTS)
    for name, check in curator_checks(estimator, X)
    if not (place in BY_THRESHOLD and name == "check_noise_covers_what_a_row_changes")
]


@pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
@pytest.mark.parametrize("check", CASES)
def test_the_contract(check):
    try:
        check()
    except SkipTest as skipped:
        pytest.skip(str(skipped))
