"""Counting fewer, larger marginals."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import count_cells, count_pairs, cover
from skdp.synthesis.tables import CodedRecords
from tests.conftest import each


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


@each("n", [0, 1, 5000])
def test_pairs_that_are_counted_together_are_those_counted_one_by_one(n):
    rng, sizes = np.random.default_rng(0), (2, 3, 4, 1, 5)
    codes = [rng.integers(0, size, n).astype(np.uint8) for size in sizes]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    for pair, counts in count_pairs(codes, sizes, pairs).items():
        expected = count_cells([codes[column] for column in pair], [sizes[column] for column in pair])
        np.testing.assert_array_equal(counts, expected)


@each("size, together", [(2, True), (40, False)])
def test_many_pairs_of_few_values_are_counted_together(size, together):
    codes = list(np.random.default_rng(0).integers(0, size, (12, 100)))
    pairs = list(itertools.combinations(range(12), 2))
    records = CodedRecords(codes, [size] * 12)
    found = records.count([(0,), *pairs, (0, 1, 2)])
    assert (set(records._kept) == set(pairs)) == together
    for clique, counts in zip([(0,), *pairs, (0, 1, 2)], found, strict=True):
        np.testing.assert_array_equal(counts, count_cells([codes[column] for column in clique], [size] * len(clique)))
