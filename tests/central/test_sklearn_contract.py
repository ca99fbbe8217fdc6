"""scikit-learn's own checks on every estimator of the curator's side."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

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
from tests.central.estimators import EVERY
from tests.conftest import often

# The only exceptions, and why.
ROWS = "how many rows there are is private, so a table without rows is answered like any other"
SYNTHETIC = "a synthetic row is drawn, and depends on its place in the call"
NEW_INDEX = "a synthetic row is nobody's, so it has no label of X"
OBJECTS = "an object that is no number counts as missing: an error would show that there is such a record"
EXPECTED_FAILURES = {"check_estimators_empty_data_messages": ROWS}
EXPECTED_OF_MODELS = {
    "check_supervised_y_2d": "a target of one column is a column, also for the synthesizers: nobody is warned of it"
}
EXPECTED_OF_SYNTHESIS = EXPECTED_FAILURES | {
    "check_methods_sample_order_invariance": SYNTHETIC,
    "check_methods_subset_invariance": SYNTHETIC,
    "check_set_output_transform_pandas": NEW_INDEX,
    "check_global_output_transform_pandas": NEW_INDEX,
}

BOUNDS = (-100, 100)
# One of each class, of two ways of learning if they share little.
ESTIMATORS = [
    DPKBinsDiscretizer(candidates=500, bounds=BOUNDS),
    DPMinMaxScaler(bounds=BOUNDS, quantile_range=(0.01, 0.99), clip=True),
    DPQuantileBinarizer(bounds=BOUNDS),
    DPQuantileTransformer(n_quantiles=20, candidates=500, bounds=BOUNDS),
    DPStandardScaler(bounds=BOUNDS),
    DPPCA(bounds=BOUNDS),
    DPVarianceThreshold(bounds=BOUNDS),
    DPSelectKBest(1, bounds=BOUNDS, target_bounds=(-10, 10)),
    DPLogisticRegression(50.0, bounds=(-10, 10)),
    DPCategoricalNB(50.0, categories=Interval(-12, 12, bins=24), handle_unknown="ignore"),
    DPTargetEncoder(categories=Interval(-100, 100, bins=4), bounds=(-10, 10), handle_unknown="ignore"),
    DPRidge(50.0, delta=1e-6, bounds=(-10, 10), target_bounds=(-10, 10)),
    DPSimpleImputer(bounds=BOUNDS),
    DPSimpleImputer(strategy="most_frequent", categories=Interval(-100, 100, bins=8), handle_unknown="ignore"),
    DPHistogram(domain=Interval(-100, 100, bins=2), handle_unknown="ignore"),
    DPMarginalSynthesizer(domain=Interval(-100, 100, bins=4), handle_unknown="ignore", random_state=0),
]
OTHERS = [
    DPMean(bounds=BOUNDS),
    DPOneHotEncoder(categories=Interval(-100, 100, bins=4), handle_unknown="ignore"),
    DPGroupBy("x0", keys=Interval(-100, 100, bins=2), bounds=BOUNDS, handle_unknown="ignore"),
    DPOneHotEncoder(5.0, delta=0.1, categories="private"),
    DPGaussianNB(50.0, bounds=(-10, 10)),
    DPLinearRegression(2_000.0, bounds=(-10, 10), target_bounds=(-10, 10)),
    DPKBinsDiscretizer(bounds=BOUNDS, strategy="uniform", encode="onehot-dense"),
    DPMinMaxScaler(bounds=BOUNDS),
    DPStandardScaler(bounds=BOUNDS, missing="ignore"),
    DPRobustScaler(bounds=BOUNDS),
    DPSimpleImputer(bounds=BOUNDS, strategy="median"),
]

# Of a class that is not among them, the one that other tests take: its parameters must not name columns.
NAMES = {type(estimator).__name__ for estimator in [*ESTIMATORS, *OTHERS]}
ESTIMATORS += [EVERY[name][0] for name in EVERY if name not in NAMES]
TRANSFORMERS = [one for one in ESTIMATORS if hasattr(one, "transform")]
OF_ROWS = [one for one in TRANSFORMERS if not isinstance(one, DPMarginalSynthesizer)]

# check_estimator leaves these out; they are public functions of the same module.
DATAFRAME_CHECKS = [
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_dataframe_column_names_consistency",
]

pytestmark = [
    # Some fit on a frame and transform an array on purpose; scikit-learn warns.
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
    # The checks' tables are small.
    pytest.mark.filterwarnings("ignore:the noise drowns the variance:UserWarning"),
    pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning"),
    pytest.mark.filterwarnings("ignore:the noise hides the components:UserWarning"),
    pytest.mark.filterwarnings("ignore:the categories of 'target':skdp.privacy.PrivacyLeakWarning"),
]


def expected_failures(estimator):
    if isinstance(estimator, DPLogisticRegression | DPGaussianNB | DPCategoricalNB):
        return EXPECTED_OF_MODELS
    if isinstance(estimator, DPLinearRegression | DPRidge):
        return EXPECTED_FAILURES | EXPECTED_OF_MODELS
    if isinstance(estimator, DPMarginalSynthesizer):
        return EXPECTED_OF_SYNTHESIS
    tags = estimator.__sklearn_tags__().input_tags
    return EXPECTED_FAILURES | ({"check_dtype_object": OBJECTS} if tags.allow_nan and not tags.string else {})


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learn_checks(estimator):
    expected = expected_failures(estimator)
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    status = {one["check_name"]: one["status"] for one in results}
    assert {name for name in status if status[name] == "xfail"} == expected.keys() & status.keys()


@pytest.mark.long
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks_of_other_parameters(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", often(TRANSFORMERS, OF_ROWS), ids=repr)
@pytest.mark.parametrize("check", often(DATAFRAME_CHECKS, [DATAFRAME_CHECKS[place] for place in (1, 3, 4, 7)]))
def test_dataframe_checks(estimator, check):
    expected = expected_failures(estimator).get(check)
    with pytest.raises(AssertionError, match=r"(?i)index") if expected else nullcontext():
        getattr(estimator_checks, check)(type(estimator).__name__, estimator)
