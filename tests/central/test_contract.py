"""The contract of skdp and the checks of scikit-learn on every estimator of the central model."""

from contextlib import nullcontext
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import skdp
from skdp import Interval
from skdp.privacy import Mu, Rho
from skdp.testing import curator_checks
from tests.carry_checks import check_fits
from tests.central.estimators import EVERY, whole
from tests.conftest import often
from tests.estimators import OUTPUT_CHECKS

pytestmark = [
    # Some checks fit a frame and transform an array; scikit-learn warns.
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
    # The tables of the checks are small.
    pytest.mark.filterwarnings("ignore:The noise exceeds the (variance|effects|numbers of residuals):UserWarning"),
    pytest.mark.filterwarnings("ignore:Without a delta:UserWarning"),
    pytest.mark.filterwarnings("ignore:The noise is about as large as:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* fewer bins than:UserWarning"),
    pytest.mark.filterwarnings("ignore:Fewer than two classes:UserWarning"),
]

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

# One estimator of each class and choice; other classes use the default of the tests.
QUICK = [
    (skdp.DPMean(bounds=BOUNDS), NUMBERS),
    (skdp.DPStandardScaler(Mu(0.5, delta=1e-6), bounds=BOUNDS), NUMBERS),
    (skdp.DPMinMaxScaler(bounds=BOUNDS, quantile_range=(10, 90)), GAPS),
    (skdp.DPSimpleImputer(bounds=BOUNDS), GAPS),
    (skdp.DPSimpleImputer(0.05, strategy="most_frequent", categories=DECLARED), GAPPY_WORDS),
    (skdp.DPKBinsDiscretizer(n_bins=3, bounds=BOUNDS), NUMBERS),
    (skdp.DPQuantileTransformer(bounds=BOUNDS, n_quantiles=4), GAPS),
    (skdp.DPRobustScaler(bounds=BOUNDS), GAPS),
    (skdp.DPHistogram(domain=Interval(0, 100, bins=64), method="hierarchical"), NUMBERS[["age"]]),
    (skdp.DPGroupBy(by="job", keys={"job": GAPPY_DECLARED["job"]}, bounds=BOUNDS), GAPS.assign(job=GAPPY_WORDS["job"])),
    (skdp.DPPCA(n_components=1, epsilon=20.0, bounds=BOUNDS), NUMBERS),
    (skdp.DPRidge(bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
    (skdp.DPLinearRegression(5.0, delta=1e-6, bounds=BOUNDS, target_bounds=(0, 2)), WITH_TARGET),
    (skdp.DPLogisticRegression(bounds=BOUNDS, classes=[0, 1, 2]), WITH_TARGET),
    (skdp.DPAdditiveClassifier(bounds=BOUNDS, classes=[0, 1, 2]), WITH_TARGET),
    (skdp.DPAdditiveRegressor(bounds=BOUNDS, target_bounds=(0, 2)), GAPS.assign(job=WITH_TARGET["job"])),
    (skdp.DPGaussianNB(5.0, bounds=(-10, 10), classes=[0, 1]), CODES),
    (skdp.DPCategoricalNB(5.0, categories=FOURTHS, classes=[0, 1]), CODES),
    (skdp.DPTargetEncoder(categories=FOURTHS, bounds=(0, 1)), CODES),
    (skdp.DPMarginalSynthesizer(domain=DECLARED), WORDS),
]
NAMES = {type(estimator).__name__ for estimator, _ in QUICK}
QUICK += [(EVERY[name][0], whole(name)) for name in EVERY if name not in NAMES]
# With other mechanisms and parameters.
LONG = [
    (skdp.DPSimpleImputer(bounds=BOUNDS, strategy="median"), GAPS),
    (skdp.DPHistogram(domain=DECLARED), WORDS),
    (skdp.DPMarginalSynthesizer(domain=DECLARED, marginals="independent"), WORDS),
    (skdp.DPColumnSynthesizer(["job"], domain=DECLARED), WORDS),
    (skdp.DPMinMaxScaler(Mu(0.5, delta=1e-6), bounds=BOUNDS, quantile_range=(10, 90)), GAPS),
    (skdp.DPSimpleImputer(Rho(0.001, delta=1e-6), strategy="most_frequent", categories=DECLARED), GAPPY_WORDS),
    (skdp.DPHistogram(Rho(0.1, delta=1e-6), domain=Interval(0, 100, bins=64), method="hierarchical"), NUMBERS[["age"]]),
    (skdp.DPMarginalSynthesizer(epsilon=Mu(0.5, delta=1e-6), domain=GAPPY_DECLARED), GAPPY_WORDS),
    (skdp.DPPCA(epsilon=Mu(0.5, delta=1e-6), bounds=BOUNDS), NUMBERS),
]
SUBJECTS = QUICK + LONG


# Each takes at least 0.1 s, and most of their code is that of all estimators: quick tests have few classes.
SLOW = {"check_errors", "check_random_bits", "check_seeds"}
OF_EACH_WAY = {
    *("DPMean", "DPSimpleImputer", "DPKBinsDiscretizer", "DPHistogram", "DPGroupBy"),
    *("DPPCA", "DPRidge", "DPLogisticRegression", "DPAdditiveClassifier", "DPTargetEncoder", "DPMarginalSynthesizer"),
}

OF_FEW = "DPMean", "DPHistogram", "DPRidge", "DPMarginalSynthesizer"


def cases():
    for index, (estimator, X) in enumerate(SUBJECTS):
        for name, check in curator_checks(estimator, X):
            kind = type(estimator).__name__
            is_quick = index < len(QUICK) and (name not in SLOW or kind in OF_FEW)
            yield pytest.param(check, id=f"{kind}-{index}-{name}", marks=[] if is_quick else pytest.mark.long)


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("check", list(cases()))
def test_estimator_passes_the_contract(check):
    try:
        check()
    except SkipTest as skipped:
        pytest.skip(str(skipped))


def fits():
    for index, (estimator, X) in enumerate(SUBJECTS):
        kind = type(estimator).__name__
        is_quick = index < len(QUICK) and kind in OF_EACH_WAY
        yield pytest.param(estimator, X, id=f"{kind}-{index}", marks=[] if is_quick else pytest.mark.long)


@pytest.mark.parametrize(("estimator", "X"), list(fits()))
def test_estimator_stores_values_only(estimator, X):
    check_fits(estimator, X)


# The only exceptions, with reasons.
ROWS = "how many rows there are is private, so a table without rows is answered like any other"
SYNTHETIC = "a synthetic row is drawn, and depends on its place in the call"
NEW_INDEX = "a synthetic row is nobody's, so it has no label of X"
OBJECTS = "an object that is no number counts as missing: an error would show that there is such a record"
EXPECTED_FAILURES = {"check_estimators_empty_data_messages": ROWS}
WEIGHT_CHECKS = [
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
]
EXPECTED_OF_WEIGHTED = dict.fromkeys(
    [*WEIGHT_CHECKS, "check_all_zero_sample_weights_error", "check_sample_weight_equivalence_on_dense_data"],
    "weights require max_weight, and max_weight requires weights",
)
EXPECTED_OF_MODELS = {
    "check_supervised_y_2d": "a target of one column is a column, also for the synthesizers: nobody is warned of it"
}
EXPECTED_OF_SYNTHESIS = EXPECTED_FAILURES | {
    "check_methods_sample_order_invariance": SYNTHETIC,
    "check_methods_subset_invariance": SYNTHETIC,
    "check_set_output_transform_pandas": NEW_INDEX,
    "check_global_output_transform_pandas": NEW_INDEX,
}

AROUND_0 = (-100, 100)
# One estimator of each class; of two classes if they differ in little.
ESTIMATORS = [
    skdp.DPKBinsDiscretizer(bounds=AROUND_0),
    skdp.DPMinMaxScaler(bounds=AROUND_0, quantile_range=(1, 99), clip=True),
    skdp.DPQuantileTransformer(n_quantiles=5, bounds=AROUND_0),
    skdp.DPStandardScaler(bounds=AROUND_0),
    skdp.DPPCA(bounds=AROUND_0),
    skdp.DPLogisticRegression(50.0, bounds=(-10, 10)),
    skdp.DPCategoricalNB(50.0, delta=1e-6, categories=Interval(-12, 12, bins=24), handle_unknown="ignore"),
    skdp.DPTargetEncoder(categories=Interval(-100, 100, bins=4), bounds=(-10, 10), handle_unknown="ignore"),
    skdp.DPRidge(500.0, bounds=(-10, 10), target_bounds=(-10, 10)),
    skdp.DPSimpleImputer(bounds=AROUND_0),
    skdp.DPSimpleImputer(strategy="most_frequent", categories=Interval(-100, 100, bins=8), handle_unknown="ignore"),
    skdp.DPHistogram(domain=Interval(-100, 100, bins=2), handle_unknown="ignore"),
    # Few whole numbers, because a fit of real numbers takes 0.1 s.
    skdp.DPMarginalSynthesizer(50.0, domain=Interval(-8, 8, bins=4), handle_unknown="ignore", random_state=0),
]
OTHERS = [
    skdp.DPAdditiveClassifier(50.0, bounds=(-10, 10)),
    skdp.DPAdditiveRegressor(50.0, bounds=(-10, 10), target_bounds=(-10, 10)),
    skdp.DPRidge(50.0, delta=1e-6, bounds=(-10, 10), target_bounds=(-10, 10)),
    skdp.DPMean(bounds=AROUND_0),
    skdp.DPOneHotEncoder(categories=Interval(-100, 100, bins=4), handle_unknown="ignore"),
    skdp.DPGroupBy(by="x0", keys=Interval(-100, 100, bins=2), bounds=AROUND_0, handle_unknown="ignore"),
    skdp.DPGaussianNB(50.0, delta=1e-6, bounds=(-10, 10)),
    skdp.DPLinearRegression(2_000.0, bounds=(-10, 10), target_bounds=(-10, 10)),
    skdp.DPRobustScaler(bounds=AROUND_0),
    skdp.DPSimpleImputer(bounds=(-100.0, 100.0), strategy="median"),
]

# Other classes use the default of the tests: its parameters must not name columns.
LISTED = {type(estimator).__name__ for estimator in [*ESTIMATORS, *OTHERS]}
ESTIMATORS += [EVERY[name][0] for name in EVERY if name not in LISTED]
TRANSFORMERS = [one for one in ESTIMATORS if hasattr(one, "transform")]
OF_ROWS = [one for one in TRANSFORMERS if not isinstance(one, skdp.DPMarginalSynthesizer)]

# `check_estimator` excludes these public functions of the same module.
QUICK_DATAFRAME_CHECKS = [
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_dataframe_column_names_consistency",
]


def expected_failures(estimator):
    weighted = EXPECTED_OF_WEIGHTED if "max_weight" in estimator.get_params() else {}
    if is_classifier(estimator) and weighted:
        weighted = weighted | {"check_classifiers_one_label_sample_weights": weighted[WEIGHT_CHECKS[0]]}
    if is_classifier(estimator) or is_regressor(estimator):
        return EXPECTED_FAILURES | EXPECTED_OF_MODELS | weighted
    if isinstance(estimator, skdp.DPMarginalSynthesizer):
        return EXPECTED_OF_SYNTHESIS
    tags = estimator.__sklearn_tags__().input_tags
    expected = EXPECTED_FAILURES | ({"check_dtype_object": OBJECTS} if tags.allow_nan and not tags.string else {})
    return expected | weighted


# Each takes at least 0.2 s, and reads its table as the other classifiers, regressors and transformers do.
SLOW_ESTIMATORS = skdp.DPLogisticRegression, skdp.DPMarginalSynthesizer, skdp.DPPCA, skdp.DPSimpleImputer


@pytest.mark.parametrize(
    "estimator", often(ESTIMATORS, [one for one in ESTIMATORS if not isinstance(one, SLOW_ESTIMATORS)]), ids=repr
)
def test_scikit_learn_checks_pass(estimator):
    expected = expected_failures(estimator)
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    status = {one["check_name"]: one["status"] for one in results}
    assert {name for name in status if status[name] == "xfail"} == expected.keys() & status.keys()


@pytest.mark.parametrize("check", WEIGHT_CHECKS)
@pytest.mark.parametrize(
    "estimator",
    [
        skdp.DPMean(bounds=AROUND_0, max_weight=10),
        skdp.DPHistogram(domain=Interval(-100, 100, bins=2), max_weight=10, handle_unknown="ignore"),
        skdp.DPGroupBy(by=None, bounds=AROUND_0, max_weight=10),
        skdp.DPRidge(50.0, delta=1e-6, bounds=(-10, 10), target_bounds=(-10, 10), max_weight=10),
        skdp.DPLogisticRegression(50.0, bounds=(-10, 10), max_weight=10),
    ],
    ids=repr,
)
def test_scikit_learn_checks_of_weights_pass(estimator, check):
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)


@pytest.mark.long
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks_pass_with_further_parameters(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", often(TRANSFORMERS, OF_ROWS), ids=repr)
@pytest.mark.parametrize("check", often(OUTPUT_CHECKS, QUICK_DATAFRAME_CHECKS))
def test_scikit_learn_checks_of_dataframes_pass(estimator, check):
    expected = expected_failures(estimator).get(check)
    with pytest.raises(AssertionError, match=r"(?i)index") if expected else nullcontext():
        getattr(estimator_checks, check)(type(estimator).__name__, estimator)
