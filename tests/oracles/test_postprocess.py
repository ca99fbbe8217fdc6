from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize

from skdp.oracles import POSTPROCESSORS, RandomizedResponse, project_to_simplex
from tests.conftest import each

COUNTS = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8)


@given(COUNTS, st.floats(0, 1e4))
def test_projected_counts_are_consistent(counts, total):
    projected = project_to_simplex(counts, total)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(total, abs=1e-6)


@each("counts", [[8, 4, -2], [1, 1, 1], [100, -50, 30, 30], [-5, -6, -7]])
def test_the_projection_is_the_nearest_point(counts):
    projected = project_to_simplex(counts, 10)
    nearest = minimize(
        lambda point: ((point - counts) ** 2).sum(),
        np.full(len(counts), 10 / len(counts)),
        bounds=[(0, 10)] * len(counts),
        constraints={"type": "eq", "fun": lambda point: point.sum() - 10},
    )
    assert projected == pytest.approx(nearest.x, abs=1e-3)


@each("name", POSTPROCESSORS)
def test_every_postprocess_agrees_where_nothing_needs_repair(name):
    oracle = RandomizedResponse(3, 2.0)
    counts = np.array([500.0, 300.0, 200.0])
    support = counts * float(oracle.p) + (1000 - counts) * float(oracle.q)
    tolerance = 0.01 if name == "power" else 1e-9  # a prior moves all estimates a little
    assert POSTPROCESSORS[name](oracle, support, 1000) == pytest.approx(counts, rel=tolerance)


@each("name", [name for name in POSTPROCESSORS if name != "none"])
def test_repaired_counts_are_in_range(name):
    oracle = RandomizedResponse(4, 0.1)
    for support in ([100, 0, 0, 0], [60, 30, 10, 0], [0, 0, 50, 50]):
        counts = POSTPROCESSORS[name](oracle, np.array(support), 100)
        assert counts.min() >= 0
        assert counts.max() <= 100 * (1 + 1e-12)
        if name == "simplex":
            assert counts.sum() == pytest.approx(100)


@pytest.mark.parametrize("name", POSTPROCESSORS)
def test_no_reports_are_no_error(name):
    oracle = RandomizedResponse(3, 1.0)
    nothing = POSTPROCESSORS[name](oracle, np.zeros(3, np.int64), 0)
    assert nothing.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", POSTPROCESSORS)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=9), st.floats(0.05, 30))
def test_equal_tallies_stay_equal_and_larger_ones_are_not_smaller(name, support, epsilon):
    n = sum(support)
    if n:
        counts = POSTPROCESSORS[name](RandomizedResponse(len(support), epsilon), np.array(support), n)
        order = np.argsort(support, kind="stable")
        assert (np.diff(counts[order]) >= -1e-6 * n).all()
        same = np.diff(np.array(support)[order]) == 0
        assert np.diff(counts[order])[same] == pytest.approx(0, abs=1e-6 * n)


class _Fixed:
    """An oracle whose estimates are given."""

    def __init__(self, counts, variance=1.0):
        self.k, self.counts, self.error = len(counts), np.array(counts, float), variance

    def estimate(self, support, n):
        return self.counts

    def variance(self, counts, n):
        return np.full(self.k, self.error)


def posterior_mean(estimate, error, total, exponent):
    """The same integral by a general routine, cut where the integrand is narrow."""

    def density(count):
        return (count + 1) ** -exponent * np.exp(-(((count - estimate) / error) ** 2) / 2)

    points = np.unique(np.clip([0, 1, 10, *(estimate + error * np.arange(-8, 9))], 0, total))
    mass = first = 0.0
    for low, high in pairwise(points):
        mass += quad(density, low, high)[0]
        first += quad(lambda count: count * density(count), low, high)[0]
    return first / mass


def fitted_exponent(mean, total):
    """The exponent a for which the density u**-a on [1, total + 1] has a mean of 1 + mean."""

    def excess(exponent):
        moments = [quad(np.power, 1, total + 1, args=(m - exponent,), limit=500)[0] for m in (0, 1)]
        return moments[1] / moments[0] - 1 - mean

    return brentq(excess, 0.01, 30)


@pytest.mark.parametrize("error", [0.5, 20.0, 300.0])
def test_power_is_the_posterior_mean(error):
    total = 10_000
    counts = np.array([7_000.0, 1_500.0, 400.0, 60.0, 0.0, -100.0, 140.0])
    exponent = fitted_exponent(counts.mean(), total)
    shrunk = POSTPROCESSORS["power"](_Fixed(counts, error**2), None, total)
    for estimate, count in zip(counts, shrunk, strict=True):
        if estimate > -8 * error:
            assert count == pytest.approx(posterior_mean(estimate, error, total, exponent), rel=0.01, abs=0.01)
        assert 0 <= count <= total


def test_the_power_law_at_its_ends():
    shrunk = [POSTPROCESSORS["power"](_Fixed(*given), None, 7) for given in (([5, 2], 0), ([9, -2], 1e-6))]
    assert shrunk[0] == pytest.approx([5, 2])
    assert shrunk[1] == pytest.approx([7, 0], abs=0.01)
