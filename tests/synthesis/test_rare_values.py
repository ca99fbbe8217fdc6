from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.selection import Plan
from skdp.synthesis.selection._auto import group_rare_values, measure_auto
from tests.synthesis.budgets import make_budget, private_table

COUNTS = st.lists(st.floats(0, 20), min_size=1, max_size=12).map(np.array)
LEAST = st.floats(0, 15)


@given(COUNTS, LEAST, st.booleans())
def test_groups_are_numbered_from_0_and_none_means_nothing_is_rare(counts, least, ordered):
    groups = group_rare_values(counts, least, ordered=ordered)
    if groups is None:
        assert (counts >= least).all() or counts.size == 1
        return
    assert (counts < least).any()
    assert groups.shape == counts.shape
    assert set(groups.tolist()) == set(range(groups.max() + 1))


@given(COUNTS, LEAST)
def test_unordered_rare_values_share_one_group_and_others_none(counts, least):
    groups = group_rare_values(counts, least, ordered=False)
    if groups is None:
        return
    rare = counts < least
    assert len(set(groups[rare].tolist())) == 1
    common = groups[~rare].tolist()
    assert len(set(common)) == len(common)
    assert not set(common) & set(groups[rare].tolist())


@given(COUNTS, LEAST)
def test_ordered_values_are_grouped_with_neighbours_until_they_are_many(counts, least):
    groups = group_rare_values(counts, least, ordered=True)
    if groups is None:
        return
    assert groups[0] == 0
    assert set(np.diff(groups).tolist()) <= {0, 1}
    held = np.bincount(groups, counts)
    if held.size > 1:
        assert held.min() >= least / 2 - 1e-9
    # Two rare neighbours part only where what is left of the second is many already.
    for value in range(1, counts.size):
        if groups[value] != groups[value - 1] and counts[value] < least:
            assert held[groups[value - 1]] >= least - 1e-9


def test_examples():
    assert group_rare_values(np.array([5.0, 6.0]), 5, ordered=True) is None
    assert group_rare_values(np.array([0.0]), 5, ordered=True) is None
    assert group_rare_values(np.zeros(4), 5, ordered=False).tolist() == [0, 0, 0, 0]
    assert group_rare_values(np.zeros(4), 5, ordered=True).tolist() == [0, 0, 0, 0]
    assert group_rare_values(np.array([9.0, 1, 1, 1, 9.0]), 5, ordered=True).tolist() == [0, 1, 1, 1, 2]
    assert group_rare_values(np.array([9.0, 1, 0, 0, 9.0, 1]), 5, ordered=True).tolist() == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("epsilon", "grouped"), [(0.5, True), (1e6, False)])
def test_a_fine_column_with_an_order_is_cut_for_pairs(epsilon, grouped):
    """Two columns of 100 values, nearly the same: their pair is not worth the noise of 10,000 cells."""
    rng = np.random.default_rng(0)
    one = rng.integers(0, 100, 5000)
    rows = np.stack([one, np.clip(one + rng.integers(-5, 6, 5000), 0, 99)], axis=1)
    table = private_table(rows, (100, 100), make_budget("gaussian", Fraction(epsilon)))
    fitted = measure_auto(table, Plan((100, 100), (True, True), 10_000))
    (pair,) = (marginal for marginal in table.marginals if len(marginal.clique) == 2)
    assert (pair.groups is not None) == grouped
    law = fitted.model.marginal((0, 1))
    near = np.abs(np.subtract.outer(np.arange(100), np.arange(100))) <= 15
    assert law[near].sum() > 0.8


@pytest.mark.parametrize(("share", "grouped"), [(0.75, False), (0.35, True)])
def test_rare_values_of_a_dominant_pair_are_counted_by_themselves(share, grouped):
    """Twenty rare values of a column, each of which comes with one value of another in some share of the rows."""
    rng = np.random.default_rng(0)
    one = np.where(rng.random(6000) < 0.2, rng.integers(4, 24, 6000), rng.integers(0, 4, 6000))
    rows = np.stack([one, np.where(rng.random(6000) < share, one % 4, rng.integers(0, 4, 6000))], axis=1)
    rows = np.column_stack([rows, rng.integers(0, 2, (6000, 2))])
    sizes = (24, 4, 2, 2)
    table = private_table(rows, sizes, make_budget("gaussian", Fraction(1, 20)))
    measure_auto(table, Plan(sizes, (False,) * 4, 10_000))
    pair = next(marginal for marginal in table.marginals if marginal.clique == (0, 1))
    assert (pair.groups is not None) == grouped
