"""Three frameworks based on local sensitivity, for any statistic."""

from skdp.central.frameworks._means import adaptive_mean as adaptive_mean
from skdp.central.frameworks._means import chunk_means as chunk_means
from skdp.central.frameworks._means import proposed_mean as proposed_mean
from skdp.central.frameworks._means import smooth_beta as smooth_beta
from skdp.central.frameworks._means import smooth_mean as smooth_mean
from skdp.central.frameworks._propose_test_release import TEST_SHARE as TEST_SHARE
from skdp.central.frameworks._propose_test_release import Release as Release
from skdp.central.frameworks._propose_test_release import propose_test_release as propose_test_release
from skdp.central.frameworks._propose_test_release import read_number as read_number
from skdp.central.frameworks._propose_test_release import read_positive_delta as read_positive_delta
from skdp.central.frameworks._sample_and_aggregate import MOST_CHUNKS as MOST_CHUNKS
from skdp.central.frameworks._sample_and_aggregate import sample_and_aggregate as sample_and_aggregate
from skdp.central.frameworks._sample_and_aggregate import totals_losses as totals_losses
from skdp.central.frameworks._smooth_sensitivity import SmoothNoise as SmoothNoise
from skdp.central.frameworks._smooth_sensitivity import laplace_divergence as laplace_divergence
from skdp.central.frameworks._smooth_sensitivity import smooth_sensitivity_release as smooth_sensitivity_release
