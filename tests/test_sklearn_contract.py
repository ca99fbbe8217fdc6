"""Checks of scikit-learn on every estimator."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

import skdp
from tests.conftest import quick_first
from tests.estimators import OUTPUT_CHECKS
from tests.local.transformers import ENCODERS

# The only exceptions, with reasons.
ORDER = "each row has its own random bits, so its output depends on its position in the call"
ORDER_CHECKS = dict.fromkeys(["check_methods_sample_order_invariance", "check_methods_subset_invariance"], ORDER)
ON_FIT = "`fit_transform` of OnFitOnly privatizes and `transform` does not"
ON_FIT_CHECKS = dict.fromkeys(["check_transformer_general", "check_transformer_data_not_an_array"], ON_FIT)
# One estimator of each class.
ESTIMATORS = [
    skdp.RandomizedResponseEncoder(),
    skdp.RapporEncoder(n_bits=8),
    skdp.NumericPerturber(bounds=(-100, 100)),
    skdp.LocalTableEncoder(),
]
WRAPPERS = [wrap(skdp.RandomizedResponseEncoder(random_state=0)) for wrap in (skdp.OnFitOnly, skdp.PosteriorFeatures)]
# Encoders with the same `fit` and `transform`, and parameters of their own.
ALIKE = [kind() for kind in ENCODERS if kind is not skdp.RandomizedResponseEncoder]

PARAMETER_CHECKS = [
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_parameters_default_constructible",
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_dict_unchanged",
    "check_transformer_general",
    "check_estimators_pickle",
]

pytestmark = [
    # The checks cannot declare categories.
    pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning"),
    # Some checks fit a frame and transform an array; scikit-learn warns.
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS + WRAPPERS, ids=repr)
def test_scikit_learn_checks_pass(estimator):
    expected = ON_FIT_CHECKS if isinstance(estimator, skdp.OnFitOnly) else ORDER_CHECKS
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    assert {one["check_name"] for one in results if one["status"] == "xfail"} == expected.keys()


@pytest.mark.parametrize("estimator", ESTIMATORS + quick_first(1, ALIKE), ids=repr)
def test_checks_of_parameters_and_outputs_pass(estimator):
    for check in OUTPUT_CHECKS + PARAMETER_CHECKS * (estimator in ALIKE):
        getattr(estimator_checks, check)(type(estimator).__name__, estimator)
