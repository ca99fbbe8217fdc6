from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import DPMarginalSynthesizer, Interval
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


def coded_table(n=6000, size=60, seed=0):
    """Draw codes without an order: of one column, and of another that mostly comes with one of its values."""
    rng = np.random.default_rng(seed)
    shares = rng.permutation(1 / np.arange(1, size + 1))
    first = rng.choice(size, n, p=shares / shares.sum())
    partner = rng.integers(0, 8, size)
    second = np.where(rng.random(n) < 0.7, partner[first], rng.integers(0, 8, n))
    return pd.DataFrame({"first": first, "second": second, "third": rng.integers(0, 3, n)})


def fit_codes(table, domain):
    synthesizer = DPMarginalSynthesizer(1, delta=1e-9, domain=domain, random_state=0).fit(table)
    pair = next(one for one in synthesizer.marginals_ if one.clique == (0, 1))
    assert pair.groups is not None
    return synthesizer, pair.groups[0]


def test_integer_codes_are_no_more_ordered_than_the_same_values_as_text():
    table = coded_table()
    domain = {name: list(range(table[name].max() + 1)) for name in table}
    names = {name: [f"value {code}" for code in codes] for name, codes in domain.items()}
    texts = pd.DataFrame({name: np.array(names[name])[table[name]] for name in table})
    by_number, by_text = fit_codes(table, domain)[0], fit_codes(texts, names)[0]
    assert by_number.selected_cliques_ == by_text.selected_cliques_
    for one, other in zip(by_number.marginals_, by_text.marginals_, strict=True):
        np.testing.assert_array_equal(one.counts, other.counts)


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_ordered_dtype_and_bins_declare_an_order(shuffled):
    table = coded_table()
    values = list(range(60))
    domain = {"second": range(8), "third": range(3)}
    table["first"] = pd.Categorical(table["first"], values, ordered=True)
    listed = values[::-1] if shuffled else values
    _, groups = fit_codes(table, domain | {"first": listed})
    assert (np.diff(groups) >= 0).all() != shuffled
    _, groups = fit_codes(table, domain)  # of the dtype alone
    assert (np.diff(groups) >= 0).all()
    _, groups = fit_codes(table.astype({"first": int}), domain | {"first": Interval(edges=[*values, 60])})
    assert (np.diff(groups) >= 0).all()
