"""Statistics and preprocessing by a trusted curator who holds the table: the central model."""

from skdp.central._base import CentralEstimator as CentralEstimator
from skdp.central._discretizers import DPKBinsDiscretizer, DPQuantileBinarizer
from skdp.central._group_by import DPGroupBy
from skdp.central._histogram import DPHistogram
from skdp.central._histogram import planned_half_width as planned_half_width
from skdp.central._mean import DPMean
from skdp.central._one_hot_encoder import DPOneHotEncoder
from skdp.central._pca import DPPCA
from skdp.central._quantile_transformer import DPQuantileTransformer, DPRobustScaler
from skdp.central._sample_and_aggregate import Release as Release
from skdp.central._sample_and_aggregate import sample_and_aggregate
from skdp.central._scalers import DPMinMaxScaler, DPStandardScaler
from skdp.central._select_k_best import DPSelectKBest
from skdp.central._selectors import DPVarianceThreshold
from skdp.central._simple_imputer import DPSimpleImputer
from skdp.central._target_encoder import DPTargetEncoder
from skdp.central.linear_model import DPLinearRegression, DPLogisticRegression, DPRidge
from skdp.central.naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.central.statistics import Estimate as Estimate

__all__ = [
    "DPPCA",
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
    "DPQuantileBinarizer",
    "DPQuantileTransformer",
    "DPRidge",
    "DPRobustScaler",
    "DPSelectKBest",
    "DPSimpleImputer",
    "DPStandardScaler",
    "DPTargetEncoder",
    "DPVarianceThreshold",
    "sample_and_aggregate",
]
