from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.selection import STRATEGIES, Plan
from skdp.synthesis.selection import given as given_cliques
from tests.synthesis.budgets import assert_sound, counts_of, dependent_rows, make_budget, private_table

SIZES = (2, 3, 4)
FULL, INDEPENDENT = STRATEGIES["full"], STRATEGIES["independent"]


def plan(sizes=SIZES, **others):
    return Plan(tuple(sizes), (False,) * len(sizes), 100, **others)


def test_each_marginal_gets_the_same_share_of_what_is_left():
    table = private_table(dependent_rows(SIZES, 50), SIZES, make_budget("gaussian", 4))
    table.budget._spend(Fraction(1, 10))
    given_cliques([(0,), (1, 2), (0, 2)]).measure(table, plan())
    errors = {marginal.std_error for marginal in table.marginals}
    assert errors == {table.budget.std_error(Fraction(3, 10))}
    assert [marginal.clique for marginal in table.marginals] == [(0,), (1, 2), (0, 2)]
    assert table.budget.left == 0


def test_the_full_table_is_reproduced():
    rows = dependent_rows(SIZES, 300)
    fitted = FULL.measure(private_table(rows, SIZES), plan(max_iter=5000))
    assert fitted.total == pytest.approx(300)
    found = fitted.total * fitted.model.marginal((0, 1, 2))
    np.testing.assert_allclose(found, counts_of(rows, SIZES, (0, 1, 2)), atol=0.5)


def test_independent_columns_are_independent():
    rows = dependent_rows(SIZES, 300)
    fitted = INDEPENDENT.measure(private_table(rows, SIZES), plan(max_iter=5000))
    shares = [fitted.model.marginal((column,)) for column in range(3)]
    for column, share in enumerate(shares):
        np.testing.assert_allclose(300 * share, counts_of(rows, SIZES, (column,)), atol=0.5)
    joint = np.einsum("i,j,k->ijk", *shares)
    np.testing.assert_allclose(fitted.model.marginal((0, 1, 2)), joint, atol=1e-12)


@given(
    st.sampled_from([FULL.measure, INDEPENDENT.measure]),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from([Fraction(1, 10**6), Fraction(1), Fraction(10**8)]),
    st.sampled_from([0, 1, 40]),
)
def test_everything_is_spent_and_the_model_is_sound(method, sizes, kind, amount, n):
    table = private_table(dependent_rows(sizes, n), sizes, make_budget(kind, amount))
    assert_sound(method(table, plan(sizes)))
    assert table.budget.left == 0
