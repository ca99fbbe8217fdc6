from __future__ import annotations

import numpy as np
import pytest

from skdp.synthesis.model import Marginal, estimate_total, group, merge
from skdp.synthesis.selection import _strategy as module
from skdp.synthesis.selection import fit_table
from skdp.synthesis.selection._strategy import one_way_counts
from tests.synthesis.budgets import assert_sound, counts_of, dependent_rows

SIZES = (3, 4, 2)
ROWS = dependent_rows(SIZES, 400)


def exact(clique, std_error=0.3, groups=None):
    return Marginal(clique, group(counts_of(ROWS, SIZES, clique), groups), std_error, groups)


def test_exact_marginals_are_reproduced_and_so_is_the_total():
    measured = [exact((0, 1)), exact((1, 2))]
    fitted = fit_table(SIZES, measured, max_iter=2000)
    assert fitted.total == pytest.approx(400)
    for marginal in measured:
        np.testing.assert_allclose(fitted.total * fitted.model.marginal(marginal.clique), marginal.counts, atol=0.5)


def test_very_uneven_shares_do_not_stop_the_descent():
    """A step that is divided by the root of the shares may lead up: it was halved until the steps were used up."""
    table = np.array([[900.0, 0, 0], [0, 90, 0], [0, 0, 9]])
    fitted = fit_table((3, 3), [Marginal((0, 1), table, 0.01)], max_iter=500)
    np.testing.assert_allclose(fitted.total * fitted.model.marginal((0, 1)), table, atol=1)


def test_the_total_is_the_best_mean_of_all():
    measured = [Marginal((0,), np.array([5.0, 3, 1]), 2.0), Marginal((2,), np.array([6.0, 7]), 1.0)]
    fitted = fit_table(SIZES, measured)
    assert (fitted.total, fitted.std_error) == estimate_total(merge(measured))
    assert fitted.total == pytest.approx((9 / 12 + 13 / 2) / (1 / 12 + 1 / 2))
    assert fit_table(SIZES, [Marginal((0,), np.full(3, -9.0), 1.0)]).total == 1


def test_grouped_marginals_reproduce_the_sums_of_groups():
    groups = (np.array([0, 1, 1]), np.array([0, 0, 1, 0]))
    measured = [exact((0,)), exact((0, 1), groups=groups), exact((1, 2), groups=(groups[1], None))]
    fitted = fit_table(SIZES, measured, max_iter=20_000)
    for marginal in measured:
        found = group(fitted.model.marginal(marginal.clique), marginal.groups)
        np.testing.assert_allclose(fitted.total * found, marginal.counts, atol=0.5)


def test_what_cannot_occur_has_probability_0():
    pair, triple = np.zeros((3, 2), bool), np.zeros(SIZES, bool)
    pair[1, 0] = triple[0, 3, 1] = triple[2, :, 0] = True
    noisy = [exact((0, 1), 5.0), exact((1, 2), 5.0), exact((0,), 1.0)]
    for zeros in [[((0, 2), pair)], [((0, 1, 2), triple)], [((0, 2), pair), ((0, 1, 2), triple)]]:
        fitted = fit_table(SIZES, noisy, zeros=zeros)
        assert_sound(fitted)
        again = fit_table(SIZES, noisy, zeros=zeros, start_from=fitted)
        assert_sound(again)
        for clique, impossible in zeros:
            for one in [fitted, again]:
                assert (one.model.marginal(clique)[impossible] == 0).all()
                if len(zeros) == 1:
                    assert (one.model.marginal(clique)[~impossible] > 0).all()


def test_where_nothing_was_measured_columns_are_even():
    fitted = fit_table(SIZES, [exact((0,))])
    np.testing.assert_allclose(fitted.model.marginal((1, 2)), np.full((4, 2), 1 / 8))


def test_the_same_input_gives_the_same_model():
    first, second = (fit_table(SIZES, [exact((0, 1), 3.0), exact((1, 2), 3.0)]) for _ in range(2))
    for one, other in zip(first.model.beliefs, second.model.beliefs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("more", [(0, 2), (0, 1, 2), (2,), (0, 1)])
def test_a_fit_goes_on_where_another_ended(more):
    """On a tree of other cliques: the model it starts from is the same distribution."""
    measured = [exact((0, 1), 3.0), exact((1, 2), 3.0)]
    before = fit_table(SIZES, measured)
    after = fit_table(SIZES, [*measured, exact(more, 3.0)], start_from=before, max_iter=0)
    np.testing.assert_allclose(after.model.marginal((0, 1, 2)), before.model.marginal((0, 1, 2)), atol=1e-12)


def test_what_was_rounded_to_0_may_become_likely_again():
    sure = Marginal((0,), np.array([400.0, 0, 0]), 1e-6)
    before = fit_table(SIZES, [sure], max_iter=5000)
    belief = np.array([1.0, 0, 0])
    before.model.beliefs = tuple(
        belief if clique == (0,) else table
        for clique, table in zip(before.model.tree.cliques, before.model.beliefs, strict=True)
    )
    after = fit_table(SIZES, [Marginal((0,), np.array([200.0, 100, 100]), 3.0)], start_from=before, max_iter=2000)
    assert (after.model.marginal((0,)) > 0).all()


def test_a_model_that_cannot_be_carried_over_is_fitted_from_independence(monkeypatch):
    measured = [exact((0, 1), 3.0), exact((1, 2), 3.0)]
    before = fit_table(SIZES, measured)
    measured.append(exact((0, 2), 3.0))
    afresh = fit_table(SIZES, measured)

    def too_large(model, columns):
        raise ValueError("the marginal needs a table of too many cells")

    monkeypatch.setattr(module.GraphicalModel, "marginal", too_large)
    found = fit_table(SIZES, measured, start_from=before)
    for one, other in zip(found.model.beliefs, afresh.model.beliefs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_counts_of_a_column_come_from_where_they_are_most_precise():
    rough = Marginal((0, 1), np.arange(12.0).reshape(3, 4), 1.0)  # 2 for a sum of four
    fine = Marginal((0,), np.array([9.0, 8, -5]), 1.9)
    rare = Marginal((0,), np.array([7.0, 7]), 0.1, (np.array([0, 1, 1]),))
    assert one_way_counts(0, 3, [rough, rare], 66.0).tolist() == [6, 22, 38]
    np.testing.assert_allclose(one_way_counts(0, 3, [rough, fine, rare], 17.0), [9, 8, 0])
    np.testing.assert_allclose(one_way_counts(2, 2, [rough, fine], 17.0), [8.5, 8.5])
