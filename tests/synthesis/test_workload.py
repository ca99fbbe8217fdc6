"""A workload is honoured by every method, or a warning names what is left out and why."""

from __future__ import annotations

import itertools
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, PrivacyLedger
from skdp.synthesis.model import sample
from skdp.synthesis.selection import Plan, _auto
from skdp.synthesis.selection._auto import measure_auto
from skdp.synthesis.selection._strategy import fit_measured
from tests.conftest import each
from tests.synthesis.budgets import make_budget, private_table

N = 4000
BITS = np.random.default_rng(0).integers(0, 2, (3, N))
PARITY = pd.DataFrame({"a": BITS[0], "b": BITS[1], "c": BITS[2], "label": np.bitwise_xor.reduce(BITS)})
DOMAIN = {name: [0, 1] for name in PARITY}
ALL = ("a", "b", "c", "label")


def fitted(**parameters):
    given = {"epsilon": 1.0, "domain": DOMAIN, "workload": [ALL], "random_state": 0}
    return DPMarginalSynthesizer(**given | parameters).fit(PARITY)


def odd_share(synthesizer):
    """The probability, in the model, of rows whose label is the parity of the other columns: 1 in the data."""
    cells = synthesizer.model_.marginal((0, 1, 2, 3))
    return sum(cells[bits] for bits in itertools.product((0, 1), repeat=4) if not sum(bits) % 2)


@pytest.mark.parametrize("delta", [0, 1e-9])
@pytest.mark.parametrize("method", ["auto", "adaptive", "full", [ALL]])
def test_the_parity_of_three_bits_is_learnt(method, delta):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synthesizer = fitted(marginals=method, delta=delta)
    assert ALL in synthesizer.selected_cliques_
    assert odd_share(synthesizer) > 0.95


@pytest.mark.parametrize("fits", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_rows_keep_the_parity_that_the_model_has(fits):
    """No pair and no triple shows it: a sampler that forgets a column loses it. The share is a binomial one."""
    n, sizes = 400, (2, 2, 2, 2)
    deviations = []
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        bits = rng.integers(0, 2, (3, n))
        label = np.bitwise_xor.reduce(bits) ^ (rng.random(n) < rng.choice([0.0, 0.1, 0.4]))
        table = private_table(
            np.vstack([bits, label]).T[:, rng.permutation(4)], sizes, make_budget("gaussian", 1), seed
        )
        table.measure((0, 1, 2, 3), Fraction(1))
        model = fit_measured(table, Plan(sizes, (False,) * 4, 100, max_iter=30)).model
        even = sum(
            model.marginal((0, 1, 2, 3))[cell] for cell in itertools.product((0, 1), repeat=4) if not sum(cell) % 2
        )
        found = 1 - np.bitwise_xor.reduce(sample(model, n, rng)).mean()
        deviations.append((found - even) / np.sqrt(even * (1 - even) / n + 1e-4 / n))
    assert np.abs(deviations).max() < 5
    assert abs(np.mean(deviations)) < 4 / np.sqrt(fits)


@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_parity_is_found_without_a_workload(delta):
    """The second round scores four columns of few values together."""
    synthesizer = fitted(workload=None, epsilon=8.0, delta=delta)
    assert ALL in synthesizer.selected_cliques_
    assert odd_share(synthesizer) > 0.95


def test_it_is_learnt_among_other_columns_where_the_second_round_is_too_late(monkeypatch):
    """Sixteen columns, little budget: there is no second round."""
    noise = np.random.default_rng(1).integers(0, 2, (N, 12))
    rows = np.column_stack([PARITY.to_numpy(), noise])
    sizes, budget = (2,) * 16, make_budget("gaussian", Fraction(1, 50))
    table = private_table(rows, sizes, budget)
    monkeypatch.setattr(_auto, "_refine", None)
    measure_auto(table, Plan(sizes, (False,) * 16, 10_000, workload=((0, 1, 2, 3), (4, 5, 6), (7, 8))))
    assert (0, 1, 2, 3) in {marginal.clique for marginal in table.marginals}


@each(
    "parameters, message",
    [
        ({"marginals": "independent"}, r"single columns only.*\('a', 'b', 'c', 'label'\)"),
        ({"marginals": "tree"}, r"pairs only.*\('a', 'b', 'c', 'label'\)"),
        ({"marginals": [("a", "b"), ("c", "label")]}, r"within none of the given ones.*\('a', 'b', 'c', 'label'\)"),
        ({"marginals": "auto", "max_cells": 8}, r"more than max_cells = 8 cells.*\('a', 'b', 'c', 'label'\)"),
        ({"marginals": "adaptive", "max_cells": 8}, r"more than max_cells = 8 cells.*\('a', 'b', 'c', 'label'\)"),
        (
            {"marginals": "tree", "max_cells": 3, "workload": [("a", "b")]},
            r"more than max_cells = 3 cells.*\('a', 'b'\)",
        ),
    ],
)
def test_what_a_method_cannot_measure_is_named_before_the_charge(parameters, message):
    ledger = PrivacyLedger(epsilon=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=f"(?si)workload.*{message}"):
            fitted(ledger=ledger, **parameters)
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("method", ["auto", "adaptive", "tree"])
def test_what_was_not_worth_its_noise_is_named_at_the_end(method):
    workload = [("a",), *itertools.combinations(ALL, 2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        synthesizer = fitted(marginals=method, workload=workload, epsilon=0.01)
    lacking = [pair for pair in workload if pair not in synthesizer.selected_cliques_ and len(pair) > 1]
    assert lacking
    (warning,) = caught
    assert warning.filename == __file__
    assert f"{len(lacking)} of 7" in str(warning.message)
    assert re.search("(?i)not worth their noise|the tree", str(warning.message))
    assert all(repr(pair) in str(warning.message) for pair in lacking[:3])


def test_a_warning_that_is_an_error_leaves_a_fitted_synthesizer():
    """The charge is made by then: what was paid for must not be lost."""
    synthesizer = DPMarginalSynthesizer(0.05, domain=DOMAIN, workload=[ALL], random_state=0)
    with pytest.raises(UserWarning, match="noise"):
        synthesizer.fit(PARITY)
    assert len(synthesizer.sample(5)) == 5


@pytest.mark.long
def test_without_a_workload_nothing_is_said():
    for method in ("auto", "independent", "tree", "adaptive", "full", [("a", "b")]):
        fitted(marginals=method, workload=None, epsilon=0.05)
