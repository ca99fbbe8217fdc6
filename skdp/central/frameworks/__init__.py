"""Three frameworks based on local sensitivity, for any statistic."""

from skdp.central.frameworks._propose_test_release import Release as Release
from skdp.central.frameworks._propose_test_release import propose_test_release as propose_test_release
from skdp.central.frameworks._sample_and_aggregate import sample_and_aggregate as sample_and_aggregate
from skdp.central.frameworks._smooth_sensitivity import laplace_divergence as laplace_divergence
from skdp.central.frameworks._smooth_sensitivity import smooth_sensitivity_release as smooth_sensitivity_release
