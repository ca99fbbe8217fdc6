"""Counting fewer, larger marginals."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import count_cells, cover


@given(st.data())
def test_each_marginal_is_within_one_that_is_counted(data):
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    subsets = [c for order in (1, 2, 3) for c in itertools.combinations(range(len(sizes)), order)]
    cliques = data.draw(st.lists(st.sampled_from(subsets), max_size=12))
    most = data.draw(st.integers(1, 300))
    counted = cover(cliques, sizes, most)
    for clique in cliques:
        assert any(set(clique) <= set(larger) for larger in counted)
    for larger in counted:
        assert list(larger) == sorted(set(larger))
        assert larger in cliques or math.prod(sizes[column] for column in larger) <= most
    assert len(counted) <= len(set(cliques))


def test_all_pairs_of_fourteen_columns_need_few_tables():
    pairs = list(itertools.combinations(range(14), 2))
    assert len(cover(pairs, [8] * 14, 8**4)) < 30


def test_sums_of_a_larger_marginal_are_the_smaller_one():
    sizes = (2, 3, 4)
    codes = [np.random.default_rng(0).integers(0, size, 100) for size in sizes]
    whole = count_cells(codes, sizes)
    np.testing.assert_array_equal(whole.sum(axis=1), count_cells([codes[0], codes[2]], [2, 4]))
