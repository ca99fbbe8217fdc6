"""Statistics and preprocessing by a trusted curator who holds the table: the central model."""

from skdp.central._base import CentralEstimator as CentralEstimator
from skdp.central._counts_and_means import DPHistogram, DPMean
from skdp.central._counts_and_means import plan_margin_of_error as plan_margin_of_error
from skdp.central._custom_statistics import (
    propose_test_release,
    sample_and_aggregate,
    smooth_sensitivity_release,
)
from skdp.central._discover_domain import discover_domain
from skdp.central._limits import LimitSearch as LimitSearch
from skdp.central._limits import plan_limit_search as plan_limit_search
from skdp.central._linear_model import DPLinearRegression, DPRidge
from skdp.central._logistic_regression import DPLogisticRegression
from skdp.central._naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.central._pca import DPPCA
from skdp.central._ranges import count_std as count_std
from skdp.central._ranges import find_range as find_range
from skdp.central.additive import DPAdditiveClassifier, DPAdditiveRegressor
from skdp.central.groups._comparisons import compare_groups
from skdp.central.groups._found_keys import TOTAL as TOTAL
from skdp.central.groups._group_by import DPGroupBy
from skdp.central.groups._months import filter_months
from skdp.central.groups._sampling import check_sampling as check_sampling
from skdp.central.preprocessing._encoders import DPOneHotEncoder, DPTargetEncoder
from skdp.central.preprocessing._scalers import (
    DPKBinsDiscretizer,
    DPMinMaxScaler,
    DPQuantileTransformer,
    DPRobustScaler,
    DPStandardScaler,
)
from skdp.central.preprocessing._simple_imputer import DPSimpleImputer

__all__ = [
    "DPPCA",
    "DPAdditiveClassifier",
    "DPAdditiveRegressor",
    "DPCategoricalNB",
    "DPGaussianNB",
    "DPGroupBy",
    "DPHistogram",
    "DPKBinsDiscretizer",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPMean",
    "DPMinMaxScaler",
    "DPOneHotEncoder",
    "DPQuantileTransformer",
    "DPRidge",
    "DPRobustScaler",
    "DPSimpleImputer",
    "DPStandardScaler",
    "DPTargetEncoder",
    "compare_groups",
    "discover_domain",
    "filter_months",
    "propose_test_release",
    "sample_and_aggregate",
    "smooth_sensitivity_release",
]
