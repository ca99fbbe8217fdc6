import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdp import DPHistogram
from skdp.base import K_NORM, LAPLACE, NORMAL, ErrorDistribution, Estimate, find_binomial_interval, find_score_interval
from skdp.privacy import Mu

LEVELS = [0.5, 0.95, 0.99, 0.9999, 1 - 1e-15]


@pytest.mark.parametrize("level", LEVELS)
def test_quantiles_equal_scipy(level):
    tail = (1 - level) / 2
    assert NORMAL.quantile(level) == pytest.approx(stats.norm.isf(tail), rel=1e-12)
    degrees = np.array([1, 7, np.inf])
    assert ErrorDistribution(degrees).quantile(level) == pytest.approx(stats.t.isf(tail, degrees), rel=1e-12)
    assert np.isnan(ErrorDistribution(np.array([0.0, 3.0])).quantile(level)[0])


@pytest.mark.parametrize("level", LEVELS[1:])
def test_laplace_quantile_equals_scipy(level):
    assert LAPLACE.quantile(level) == pytest.approx(stats.laplace.isf((1 - level) / 2) / np.sqrt(2), rel=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.8, 0.95, 0.99, 0.999])
def test_k_norm_quantile_bounds_every_number_of_k_norm_noise(level, dimension):
    """The noise is uniform on [-r, r], and r has a gamma distribution with the shape D + 1."""
    shape = stats.gamma(dimension + 1)
    t = K_NORM.quantile(level) * np.sqrt((dimension + 1) * (dimension + 2) / 3)
    exceedance = shape.sf(t) - t * stats.gamma(dimension).sf(t) / dimension
    assert exceedance <= (1 - level) * (1 + 1e-9)


@pytest.mark.parametrize("distribution", [NORMAL, LAPLACE, K_NORM, ErrorDistribution(4)])
def test_p_value_of_an_endpoint_is_the_error_rate(distribution):
    assert distribution.p_value(-distribution.quantile(0.99)) == pytest.approx(0.01)


@pytest.mark.parametrize("fraction", [0.02, 0.3, 0.7, 0.98])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99, 0.999])
def test_interval_of_a_laplace_and_a_normal_error_covers(fraction, level):
    """The tail of the sum, by integration over the Laplace error with `fraction` of the variance."""
    laplace, normal = stats.laplace(scale=np.sqrt(fraction / 2)), stats.norm(scale=np.sqrt(1 - fraction))
    noise = Estimate(0.0, fraction**0.5, *LAPLACE.confidence_interval(0.0, fraction**0.5, level))
    margin = NORMAL.quantile(level) * (1 - fraction) ** 0.5
    _, std_error, lower, upper = noise.add_error((1 - fraction) ** 0.5, margin)
    assert std_error == pytest.approx(1)
    assert lower == pytest.approx(-upper)
    middles = laplace.ppf((np.arange(200_000) + 0.5) / 200_000)
    error_rate = 2 * normal.sf(upper - middles).mean()
    assert 0.4 * (1 - level) < error_rate < 1.001 * (1 - level)


def test_score_interval_without_noise_is_the_wilson_interval():
    wilson = stats.binomtest(3, 40).proportion_ci(0.9, method="wilson")
    z = NORMAL.quantile(0.9)
    assert find_score_interval(3, 40, 0.0, z**2 / 40) == pytest.approx(np.multiply(40, wilson))


def test_binomial_interval_equals_scipy():
    exact = [stats.binomtest(k, 40).proportion_ci(0.99) for k in (0, 3, 40)]
    found = find_binomial_interval(np.array([0, 3, 40]), np.array([40, 37, 0]), 0.99)
    assert np.transpose(found) == pytest.approx(np.array(exact))


@pytest.mark.parametrize("level", [0.95, 0.99, 0.9999])
def test_margin_of_gaussian_counts_is_the_normal_one(level):
    counts = DPHistogram(Mu(0.001, delta=1e-6), domain={"a": [0, 1]}, confidence_level=level, random_state=0)
    table = counts.fit(pd.DataFrame({"a": [0, 1]})).to_frame()
    expected = np.ceil(stats.norm.isf((1 - level) / 2) * table["std_error"])
    assert (table["upper"] - table["count"]).tolist() == expected.tolist()


@pytest.mark.parametrize("level", [0.1, 0.5])
def test_k_norm_quantile_of_a_low_level_is_the_one_of_a_uniform_number(level):
    assert K_NORM.quantile(level) == pytest.approx(np.sqrt(3) * level)
