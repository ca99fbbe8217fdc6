"""Structural zeros hold in every row, and do not keep pairs from being measured."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer
from skdp.synthesis.model import JunctionTree
from skdp.synthesis.selection import _zeros

N = 8_000
CITY_OF = np.sort(np.random.default_rng(1).integers(0, 12, 60))
STATE_OF = np.sort(np.random.default_rng(2).integers(0, 4, 12))
RNG = np.random.default_rng(0)
POSTCODE = RNG.integers(0, 60, N)
AGE = RNG.integers(0, 10, N)
TABLE = pd.DataFrame({"postcode": POSTCODE, "city": CITY_OF[POSTCODE], "state": STATE_OF[CITY_OF[POSTCODE]]}).assign(
    age=AGE, income=np.where(RNG.random(N) < 0.95, AGE, RNG.integers(0, 10, N))
)
SIZES = {"postcode": 60, "city": 12, "state": 4, "age": 10, "income": 10}
DOMAIN = {name: list(range(size)) for name, size in SIZES.items()}


def contradictions(first, second, belongs):
    """List that a value of one column has no other value of the other than the one that it belongs to."""
    values = range(SIZES[second])
    return [{first: place, second: [value for value in values if value != home]} for place, home in enumerate(belongs)]


CITIES = contradictions("postcode", "city", CITY_OF)
STATES = contradictions("city", "state", STATE_OF)
BOTH = contradictions("postcode", "state", STATE_OF[CITY_OF])


def fitted(zeros, **parameters):
    given = {"epsilon": 5.0, "delta": 1e-9, "domain": DOMAIN, "random_state": 0, "max_cells": 800}
    return DPMarginalSynthesizer(**given | parameters, structural_zeros=zeros).fit(TABLE)


@pytest.mark.parametrize("marginals", ["auto", "tree"])
@pytest.mark.parametrize("zeros", [CITIES + STATES + BOTH, BOTH + CITIES + STATES], ids=["last", "first"])
def test_zeros_of_three_columns_leave_room_for_pairs(marginals, zeros):
    """All three together are 2,880 cells, 3.6 times the largest clique."""
    synthesizer = fitted(zeros, marginals=marginals)
    assert ("age", "income") in synthesizer.selected_cliques_
    rows = synthesizer.sample(N)
    assert np.corrcoef(rows["age"], rows["income"])[0, 1] > 0.85
    assert (CITY_OF[rows["postcode"]] == rows["city"]).all()
    assert (STATE_OF[rows["city"]] == rows["state"]).all()


def test_what_does_not_follow_from_others_is_refused():
    """With two cities a postcode, the state is no longer known by the city alone."""
    some = [{"postcode": place, "city": place % 12} for place in range(60)]
    with pytest.raises(ValueError, match=r"structural_zeros take a clique of 2,880 cells"):
        fitted(some + STATES + BOTH)


def test_zeros_that_fit_are_all_kept():
    assert cliques_of(_zeros.needed_zeros((3, 3, 3), all_pairs(), 27)) == [(0, 1), (0, 2), (1, 2)]


def all_pairs():
    different = ~np.eye(3, dtype=bool)
    return tuple((clique, different) for clique in [(0, 1), (0, 2), (1, 2)])


def cliques_of(zeros):
    return [clique for clique, _ in zeros]


def test_of_three_that_follow_from_each_other_one_is_left_out():
    zeros = _zeros.needed_zeros((3, 3, 3), all_pairs(), 26)
    assert len(zeros) == 2
    tree = JunctionTree((3, 3, 3), cliques_of(zeros))
    assert max(map(tree.n_cells, tree.cliques)) == 9


def test_nothing_is_left_out_that_the_rest_does_not_exclude():
    zeros = list(all_pairs())
    zeros[0] = ((0, 1), np.eye(3, dtype=bool))  # nothing could occur: left to the check for it
    assert cliques_of(_zeros.needed_zeros((3, 3, 3), tuple(zeros), 26)) == [(0, 1), (0, 2), (1, 2)]
