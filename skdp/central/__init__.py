"""Statistics and preprocessing by a curator who holds the table: the central model."""

from skdp.central._calibration import laplace_divergence
from skdp.central._count_estimate import CountEstimate
from skdp.central._histogram import DPHistogram
from skdp.central._k_bins_discretizer import DPKBinsDiscretizer
from skdp.central._mean import DPMean
from skdp.central._min_max_scaler import DPMinMaxScaler
from skdp.central._propose_test_release import propose_test_release
from skdp.central._quantile_binarizer import DPQuantileBinarizer
from skdp.central._release import Release
from skdp.central._sample_and_aggregate import sample_and_aggregate
from skdp.central._simple_imputer import DPSimpleImputer
from skdp.central._smooth_sensitivity import smooth_sensitivity_release
from skdp.central._standard_scaler import DPStandardScaler

__all__ = [
    "CountEstimate",
    "DPHistogram",
    "DPKBinsDiscretizer",
    "DPMean",
    "DPMinMaxScaler",
    "DPQuantileBinarizer",
    "DPSimpleImputer",
    "DPStandardScaler",
    "Release",
    "laplace_divergence",
    "propose_test_release",
    "sample_and_aggregate",
    "smooth_sensitivity_release",
]
