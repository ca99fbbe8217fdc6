"""Three frameworks based on local sensitivity, for any statistic."""

from skdp.central.frameworks._means import adaptive_mean, chunk_means, proposed_mean, smooth_beta, smooth_mean
from skdp.central.frameworks._propose_test_release import (
    TEST_SHARE,
    Release,
    propose_test_release,
    read_number,
    read_positive_delta,
)
from skdp.central.frameworks._sample_and_aggregate import MOST_CHUNKS, sample_and_aggregate
from skdp.central.frameworks._smooth_sensitivity import SmoothNoise, laplace_divergence, smooth_sensitivity_release

__all__ = [
    "MOST_CHUNKS",
    "TEST_SHARE",
    "Release",
    "SmoothNoise",
    "adaptive_mean",
    "chunk_means",
    "laplace_divergence",
    "propose_test_release",
    "proposed_mean",
    "read_number",
    "read_positive_delta",
    "sample_and_aggregate",
    "smooth_beta",
    "smooth_mean",
    "smooth_sensitivity_release",
]
