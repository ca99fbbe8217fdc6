from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

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
    assert POSTPROCESSORS[name](oracle, support, 1000) == pytest.approx(counts, rel=1e-9)


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
