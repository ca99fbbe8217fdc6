from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import Marginal, group, merge, spread


@st.composite
def grouped_tables(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    groups = []
    for size in shape:
        found = draw(st.none() | st.lists(st.integers(0, size - 1), min_size=size, max_size=size))
        groups.append(None if found is None else np.unique(found, return_inverse=True)[1])
    return shape, tuple(groups), draw(st.integers(0, 1000))


@given(grouped_tables())
def test_spreading_is_the_adjoint_of_grouping(case):
    shape, groups, seed = case
    rng = np.random.default_rng(seed)
    table = rng.normal(size=shape)
    small = group(table, groups)
    weights = rng.normal(size=small.shape)
    spread_out = spread(weights, groups)
    assert spread_out.shape == tuple(shape)
    assert (small * weights).sum() == pytest.approx((table * spread_out).sum(), abs=1e-9)


@given(grouped_tables())
def test_groups_hold_the_sums_of_their_values(case):
    shape, groups, seed = case
    table = np.random.default_rng(seed).integers(0, 9, shape)
    small = group(table, groups)
    assert small.dtype == table.dtype
    expected = np.zeros_like(small)
    for cell in np.ndindex(table.shape):
        to = tuple(value if one is None else one[value] for value, one in zip(cell, groups, strict=True))
        expected[to] += table[cell]
        assert spread(small, groups)[cell] == small[to]
    np.testing.assert_array_equal(small, expected)


def test_without_groups_nothing_changes():
    table = np.arange(6).reshape(2, 3)
    assert group(table, None) is table
    assert spread(table, None) is table


def test_marginals_of_grouped_values_stay_apart():
    plain = [Marginal((0,), np.array([1.0, 2]), 1.0), Marginal((0,), np.array([3.0, 4]), 1.0)]
    grouped = Marginal((0,), np.array([3.0]), 1.0, (np.array([0, 0]),))
    merged = merge([plain[0], grouped, plain[1]])
    assert [one.groups is None for one in merged] == [True, False]
    np.testing.assert_allclose(merged[0].counts, [2, 3])
    assert merged[0].std_error == pytest.approx(0.5**0.5)
    assert merged[1] is grouped


def test_a_total_has_the_variance_of_all_its_cells():
    marginal = Marginal((0, 1), np.ones((2, 3)), 2.0)
    assert marginal.shape == (2, 3)
    assert marginal.total == (6, 24)
