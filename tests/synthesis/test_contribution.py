from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.central.statistics import rows_within
from tests.conftest import each

GROUPS = ["ann", "bob", "ann", "cid", "ann", "bob"]


def kept_rows(*arguments):
    return np.flatnonzero(rows_within(*arguments))


class Ordered:
    """Gives the permutation that a test wants."""

    def __init__(self, order):
        self.order = order

    def permutation(self, n):
        assert n == len(self.order)
        return np.array(self.order)


def law(groups, most):
    """Enumerate which rows are kept, over all equally likely permutations."""
    orders = itertools.permutations(range(len(groups)))
    return Counter(tuple(kept_rows(groups, most, len(groups), Ordered(order))) for order in orders)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_kept_rows_of_each_person_are_a_uniform_choice_independent_of_all_others(most):
    # So a person's rows come and go without changing the law of the others': enumerated, not sampled.
    choices = [
        list(itertools.combinations(rows, min(most, len(rows))))
        for rows in ([place for place, one in enumerate(GROUPS) if one == person] for person in ("ann", "bob", "cid"))
    ]
    wanted = {tuple(sorted(itertools.chain(*parts))) for parts in itertools.product(*choices)}
    found = law(GROUPS, most)
    assert set(found) == wanted
    assert len(set(found.values())) == 1


def test_leaving_a_person_out_leaves_the_law_of_the_others():
    others = [place for place, person in enumerate(GROUPS) if person != "ann"]
    with_her = Counter()
    for kept, times in law(GROUPS, 1).items():
        with_her[tuple(place for place in kept if place in others)] += times
    without = law([GROUPS[place] for place in others], 1)
    renamed = {tuple(others[place] for place in kept): times for kept, times in without.items()}
    assert {kept: times / with_her.total() for kept, times in with_her.items()} == pytest.approx(
        {kept: times / without.total() for kept, times in renamed.items()}
    )


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_large_table(most):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 300, 2000)
    kept = kept_rows(groups, most, 2000, rng)
    assert (np.diff(kept) > 0).all()
    np.testing.assert_array_equal(np.bincount(groups[kept]), np.minimum(np.bincount(groups), most))


@each(
    "make",
    [list, tuple, np.array, pd.Series, pd.Index, pl.Series, lambda values: pa.chunked_array([values]),
     lambda values: pd.Series(values, index=range(50, 56)), lambda values: pd.Series(values, dtype="category")],
)  # fmt: skip
def test_persons_of_any_kind(make):
    kept = kept_rows(make(GROUPS), 1, 6, np.random.default_rng(0))
    assert len(kept) == 3
    assert sorted(GROUPS[place] for place in kept) == ["ann", "bob", "cid"]


def test_no_rows():
    assert kept_rows([], 1, 0, np.random.default_rng(0)).tolist() == []


@each(
    "groups, message",
    [
        (GROUPS[:5], "groups has 5 entries; X has 6"),
        ([*GROUPS[:5], None], "missing"),
        ([1.0] * 5 + [np.nan], "missing"),
        (np.zeros((6, 2)), "1-dimensional"),
    ],
)
def test_persons_that_do_not_fit(groups, message):
    with pytest.raises(ValueError, match=message) as caught:
        kept_rows(groups, 1, 6, np.random.default_rng(0))
    assert "ann" not in str(caught.value)


def test_persons_that_are_no_values_show_nothing():
    with pytest.raises((TypeError, ValueError)) as caught:
        kept_rows([["hunter2"]] * 6, 1, 6, np.random.default_rng(0))
    assert "hunter2" not in str(caught.value)


def test_groups_may_be_a_table_of_one_column():
    frame = pd.DataFrame({"person": ["a", "b", "a"]})
    assert len(kept_rows(frame, 1, 3, np.random.default_rng(0))) == 2
    with pytest.raises(ValueError, match="groups must be one column, got 2"):
        kept_rows(frame.assign(more=1), 1, 3, np.random.default_rng(0))
