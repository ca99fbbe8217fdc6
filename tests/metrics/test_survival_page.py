"""The functions of the page of survival curves: errors without noise, and coverage of the band."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

PAGE = Path(__file__).parents[2] / "docs" / "jobs" / "survival.md"
MONTHS = np.arange(3, 61, 3)


@pytest.fixture(scope="module")
def page():
    (code,) = re.findall(r"^# 3\. .*?(?=^# 4\. )", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = {"np": np}
    exec(compile(code, str(PAGE), "exec"), found)
    return found


def draw_counts(rng, n, shape, scale):
    """Count censored times and deaths in 20 intervals of 3 months and later."""
    death, seen = scale * rng.weibull(shape, n), rng.uniform(0, 90, n)
    bins = np.digitize(np.minimum(death, seen), MONTHS)
    return np.bincount(2 * bins + (death <= seen), minlength=42).reshape(-1, 2)


def test_curve_without_censoring_is_the_proportion_alive_with_greenwoods_error(page):
    died = np.array([5, 0, 12, 9, 30])
    counts = np.column_stack([[0, 0, 0, 0, 44], died]).astype(float)
    alive, _, _ = page["find_band"](counts, 0.0)
    at_risk = 100 - np.cumsum(died) + died
    np.testing.assert_allclose(alive, np.cumprod(1 - died / at_risk)[:4])
    greenwood = np.cumsum(died / (at_risk * (at_risk - died)))[:4]
    error = page["find_error"](page["cumulative_hazard"], counts, 0.0)
    np.testing.assert_allclose(error, np.sqrt(greenwood), rtol=2e-3)


def test_noise_adds_the_squared_derivatives(page):
    counts = np.array([[3.0, 7.0], [5.0, 4.0], [8.0, 6.0], [60.0, 7.0]])
    hazard = page["cumulative_hazard"]
    slopes = np.array([(hazard(counts + step) - hazard(counts - step)) / 2 for step in np.eye(8).reshape(8, 4, 2)])
    added = page["find_error"](hazard, counts, 2.0) ** 2 - page["find_error"](hazard, counts, 0.0) ** 2
    np.testing.assert_allclose(added, 4 * (slopes**2).sum(axis=0))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(("n", "shape", "scale"), [(500, 2.0, 36.0), (2_000, 0.8, 60.0)])
def test_band_and_mean_cover(page, n, shape, scale, epsilon):
    """Intervals of coverage 0.93 cover less often at one of 21 numbers with probability 2e-5; the seed is fixed."""
    rng, n_draws, noise = np.random.default_rng(0), 300, 1 - np.exp(-epsilon)
    std_error = np.sqrt(2 * (1 - noise)) / noise
    alive = np.exp(-((MONTHS / scale) ** shape))
    months = np.linspace(0, 60, 6_001)
    mean = np.trapezoid(np.exp(-((months / scale) ** shape)), months)
    covered = np.zeros(21)
    for _ in range(n_draws):
        counts = draw_counts(rng, n, shape, scale)
        counts = counts + rng.geometric(noise, counts.shape) - rng.geometric(noise, counts.shape)
        _, lower, upper = page["find_band"](counts, std_error)
        error = page["find_error"](page["restricted_mean"], counts, std_error)
        is_near = abs(page["restricted_mean"](counts) - mean) <= 1.96 * error
        covered += [*((lower <= alive) & (alive <= upper)), is_near]
    assert (covered >= binom.ppf(1e-6, n_draws, 0.93)).all()
