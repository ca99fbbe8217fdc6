"""Rows that will train a model: `target` names what it predicts."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, PrivacyLedger
from skdp.synthesis.selection import Plan
from skdp.synthesis.selection._auto import measure_auto
from tests.conftest import counted_draws, each
from tests.synthesis.budgets import assert_sound, dependent_rows, make_budget, private_table

SIZES = (2, 3, 4, 3)
N = 3000
TABLE = pd.DataFrame(dependent_rows(SIZES, N), columns=list("abcd"))
DOMAIN = {name: list(range(size)) for name, size in zip(TABLE, SIZES, strict=True)}


def fitted(X=TABLE, y=None, **parameters):
    return DPMarginalSynthesizer(**{"domain": DOMAIN, "random_state": 0, "max_iter": 30} | parameters).fit(X, y)


def measured(target, *, amount=1, kind="gaussian", sizes=SIZES, rows=None, **others):
    rows = dependent_rows(sizes, N) if rows is None else rows
    table = private_table(rows, sizes, make_budget(kind, amount))
    plan = Plan(sizes, (False,) * len(sizes), others.pop("max_cells", 1000), target=target, max_iter=30, **others)
    assert_sound(measure_auto(table, plan))
    return table


@pytest.mark.parametrize(("kind", "power"), [("gaussian", 1 / 3), ("laplace", 1 / 2)])
@pytest.mark.parametrize("target", range(4))
def test_an_error_of_a_pair_with_the_target_weighs_ten_times_as_much(kind, power, target):
    """The least weighted sum of errors: the standard deviation is in proportion to (weight * cells) ** -power."""
    table = measured(target, kind=kind)
    assert table.budget.left == 0
    scaled = {
        marginal.clique: marginal.std_error * marginal.counts.size**power
        for marginal in table.marginals
        if len(marginal.clique) == 2
    }
    held = {pair: scale for pair, scale in scaled.items() if target in pair}
    others = {pair: scale for pair, scale in scaled.items() if target not in pair}
    assert len(held) == 3
    assert others
    for one, another in itertools.product(held.values(), others.values()):
        assert another / one == pytest.approx(10**power, rel=0.02)


def test_what_predicts_is_found_among_columns_too_many_to_score_all_pairs():
    """There are 29 pairs with the target, but 435 of all."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (N, 30))
    rows[:, 29] = rows[:, 7] ^ (rng.random(N) < 0.1)
    found = {}
    for target in (None, 29):
        table = measured(target, amount=Fraction(1, 200), sizes=(2,) * 30, rows=rows)
        found[target] = {marginal.clique for marginal in table.marginals if len(marginal.clique) > 1}
        assert table.budget.left == 0
    assert not found[None]
    assert (7, 29) in found[29]
    assert all(29 in pair for pair in found[29])


def test_scores_of_pairs_with_the_target_are_less_noisy():
    """The five of them have the same share as the ten others."""
    errors = {pair: error for pair, (_, error) in measured(5, amount=100, sizes=(2,) * 6).scores.items()}
    held, others = ({error for pair, error in errors.items() if (5 in pair) is side} for side in (True, False))
    assert len(errors) == 15
    assert others.pop() / held.pop() == pytest.approx(2**0.5, rel=0.01)
    assert not held
    assert not others


def test_without_a_target_nothing_changes():
    """The numbers are those of the version before there was one."""
    before = [1474, 801, 417, 890, 1519, 829, 400, 782, 419, 595, 753, 749, 362, 352]
    synthesizer = fitted(epsilon=1.0, delta=1e-9)
    assert [marginal.counts.ravel()[0] for marginal in synthesizer.marginals_] == before


def test_y_is_named_target():
    X, y = TABLE[["a", "b", "c"]].to_numpy(), TABLE["d"].to_numpy()
    domain = {"x0": [0, 1], "x1": range(3), "x2": range(4), "target": range(3)}
    by_array = fitted(X, y, domain=domain, target="target")
    by_name = fitted(target="d")
    assert by_array.domain_.columns[-1] == "target"
    assert [marginal.clique for marginal in by_array.marginals_] == [marginal.clique for marginal in by_name.marginals_]


@each(
    "parameters, message",
    [
        ({"target": "e"}, r"target must be one of the columns \['a', 'b', 'c', 'd'\], got 'e'"),
        ({"target": ["d"]}, "target must be one of the columns"),
        ({"target": "d", "marginals": "tree"}, "target needs marginals='auto'.*'tree'"),
        ({"target": "d", "marginals": [("a", "d")]}, "target needs marginals='auto'"),
        ({"target": "d", "workload": [("a", "b"), ("d",)]}, "workload must name target 'd' together with another"),
    ],
)
def test_a_wrong_target_is_refused_before_the_charge(parameters, message):
    ledger = PrivacyLedger(epsilon=10)
    with counted_draws() as draws, pytest.raises(ValueError, match=message):
        fitted(ledger=ledger, **parameters)
    assert ledger.spent.epsilon == 0
    assert draws == [0]


def test_a_workload_adds_triples_with_the_target():
    triples = [("a", "b", "d"), ("a", "c", "d")]
    synthesizer = fitted(epsilon=50.0, target="d", workload=[*itertools.combinations("abcd", 2), *triples])
    assert set(triples) <= set(synthesizer.selected_cliques_)
