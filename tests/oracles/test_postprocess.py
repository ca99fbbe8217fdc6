from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdp.oracles import POSTPROCESSORS, RandomizedResponse, project_to_simplex

COUNTS = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8)


@given(COUNTS, st.floats(0, 1e4))
def test_projected_counts_are_consistent(counts, total):
    projected = project_to_simplex(counts, total)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(total, abs=1e-6)


@pytest.mark.parametrize("counts", [[8, 4, -2], [1, 1, 1], [100, -50, 30, 30], [-5, -6, -7]])
def test_the_projection_is_the_nearest_point(counts):
    projected = project_to_simplex(counts, 10)
    nearest = minimize(
        lambda point: ((point - counts) ** 2).sum(),
        np.full(len(counts), 10 / len(counts)),
        bounds=[(0, 10)] * len(counts),
        constraints={"type": "eq", "fun": lambda point: point.sum() - 10},
    )
    assert projected == pytest.approx(nearest.x, abs=1e-3)


def test_what_is_unknown_stays_unknown():
    assert np.isnan(project_to_simplex([np.nan, 1.0], 2)).any()


@pytest.mark.parametrize("name", POSTPROCESSORS)
def test_every_postprocess_agrees_where_nothing_needs_repair(name):
    oracle = RandomizedResponse(3, 2.0)
    counts = np.array([500.0, 300.0, 200.0])
    support = counts * float(oracle.p) + (1000 - counts) * float(oracle.q)
    assert POSTPROCESSORS[name](oracle, support, 1000) == pytest.approx(counts)


@pytest.mark.parametrize("name", ["clip", "simplex", "mle"])
def test_repaired_counts_are_in_range(name):
    oracle = RandomizedResponse(4, 0.1)
    for support in ([100, 0, 0, 0], [60, 30, 10, 0], [0, 0, 50, 50]):
        counts = POSTPROCESSORS[name](oracle, np.array(support), 100)
        assert counts.min() >= 0
        assert counts.max() <= 100 * (1 + 1e-12)
        assert name == "clip" or counts.sum() == pytest.approx(100)
