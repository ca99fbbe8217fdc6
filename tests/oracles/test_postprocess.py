import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdp.oracles import POSTPROCESSORS, project_to_simplex

COUNTS = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8)


@given(COUNTS, st.floats(0, 1e4))
def test_projected_counts_are_consistent(counts, total):
    projected = project_to_simplex(counts, total)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(total, abs=1e-6)


@pytest.mark.parametrize("counts", [[8, 4, -2], [1, 1, 1], [100, -50, 30, 30], [-5, -6, -7]])
def test_projection_is_the_nearest_point(counts):
    projected = project_to_simplex(counts, 10)
    nearest = minimize(
        lambda point: ((point - counts) ** 2).sum(),
        np.full(len(counts), 10 / len(counts)),
        bounds=[(0, 10)] * len(counts),
        constraints={"type": "eq", "fun": lambda point: point.sum() - 10},
    )
    assert projected == pytest.approx(nearest.x, abs=1e-3)


@pytest.mark.parametrize("name", POSTPROCESSORS)
def test_consistent_counts_are_unchanged(name):
    counts = np.array([500.0, 300.0, 200.0])
    assert POSTPROCESSORS[name](counts, 1000) == pytest.approx(counts, rel=1e-9)
    assert POSTPROCESSORS[name](np.zeros(3), 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", [name for name in POSTPROCESSORS if name != "none"])
@given(COUNTS, st.floats(0, 1e4))
def test_repaired_counts_are_in_range_and_in_order(name, counts, total):
    repaired = POSTPROCESSORS[name](np.array(counts), total)
    assert repaired.min() >= 0
    assert repaired.max() <= total + 1e-6
    assert (np.diff(repaired[np.argsort(counts, kind="stable")]) >= -1e-6).all()
