"""scikit-learn's own checks on every estimator."""

from __future__ import annotations

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)

# The only exceptions, and why.
ROW_ORDER = "every row draws its own coins, so the output of a row depends on its place in the call"
ORDER_CHECKS = {
    "check_methods_sample_order_invariance": ROW_ORDER,
    "check_methods_subset_invariance": ROW_ORDER,
}
# One of each class.
ESTIMATORS = [
    RandomizedResponseEncoder(),
    UnaryEncodingTransformer(output="unbiased"),
    SubsetSelectionEncoder(),
    LocalHashingEncoder(),
    HadamardResponseEncoder(),
    FrequencyOracleEncoder(),
    RapporEncoder(n_bits=8),
    NumericPerturber(bounds=(-100, 100)),
    LocalTableEncoder(),
]
OTHERS = [
    RandomizedResponseEncoder(strategy="joint"),
    RandomizedResponseEncoder(strategy="sample"),
    UnaryEncodingTransformer(),
    NumericPerturber(mechanism="laplace", bounds=(-100, 100)),
    NumericPerturber(strategy="sample", bounds=(-100, 100)),
    LocalTableEncoder(purpose="model"),
]

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
    # The checks know no categories to declare.
    pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning"),
    # Some fit on a frame and transform an array on purpose; scikit-learn warns.
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: ORDER_CHECKS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(OTHERS, expected_failed_checks=lambda estimator: ORDER_CHECKS)
def test_scikit_learn_checks_of_other_parameters(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("check", DATAFRAME_CHECKS)
def test_dataframe_checks(estimator, check):
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)
