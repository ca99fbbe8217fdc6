from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.stats import binomtest, chi2_contingency, chisquare

from skdp.oracles import SubsetSelection
from skdp.randomness import SecureSource, SeededSource, subsets

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("n_cells", [1, 2, 17, 99, 4097])
@pytest.mark.parametrize("n", [0, 1, 60])
def test_sets_have_their_sizes_and_required_cells(n_cells, n):
    required = np.arange(n) % (n_cells + 1) - 1
    for size in {0, 1, n_cells // 4, n_cells - 1, n_cells}:
        bits = subsets(SeededSource(n_cells, size), n_cells, size, n)
        assert bits.shape == (n, n_cells)
        assert (bits.sum(axis=1) == size).all()
        if size:
            bits = subsets(SeededSource(n_cells, size), n_cells, size, n, required)
            assert (bits.sum(axis=1) == size).all()
            held = np.flatnonzero(required >= 0)
            assert bits[held, required[held]].all()


@pytest.mark.parametrize(("n_cells", "size", "required"), [(10, 11, None), (10, -1, None), (10, 0, np.array([-1]))])
def test_impossible_sizes_raise_an_error(n_cells, size, required):
    with pytest.raises(ValueError, match="`size` must be between"):
        subsets(SecureSource(), n_cells, size, 1, required)


def as_bytes(*words):
    return np.array(words, ">u4").view(np.uint8)


@pytest.mark.parametrize(("n_cells", "size"), [(3, 1), (4, 2), (5, 3)])
def test_all_orders_of_the_words_give_each_set_equally_often(scripted_source, n_cells, size):
    """Distinct words are in each order with equal probability, so all orders are enumerated."""
    orders = np.array(list(permutations([5, 7, 1 << 31, (1 << 32) - 2, (1 << 32) - 1][:n_cells])))
    for required in (None, n_cells - 1):
        held = None if required is None else np.full(len(orders), required)
        source = scripted_source(as_bytes(*orders.ravel()))
        bits = subsets(source, n_cells, size, len(orders), held)
        assert source.used == source.script.size
        sets, counts = np.unique(bits, axis=0, return_counts=True)
        possible = [s for s in combinations(range(n_cells), size) if required is None or required in s]
        assert sorted(tuple(np.flatnonzero(row)) for row in sets) == possible
        assert set(counts.tolist()) == {len(orders) // len(possible)}


def test_tie_at_the_end_of_a_set_is_resampled(scripted_source):
    """Ties within the set, or of the required cell with a word of 0, leave the set unique."""
    first = as_bytes(1, 1, 2, 3, 3, 2, 2, 1, 4, 5, 0, 9, 5, 7, 8, 0, 9, 0, 7, 8)
    again = as_bytes(6, 7, 8, 9, 5, 6, 9, 7, 8, 5)
    source = scripted_source(first, again)
    bits = subsets(source, 5, 2, 4, np.array([-1, -1, 1, 1]))
    assert [np.flatnonzero(row).tolist() for row in bits] == [[0, 1], [0, 4], [0, 1], [1, 4]]
    assert source.used == source.script.size


@pytest.mark.parametrize("required", [None, 0])
@pytest.mark.parametrize(("n_cells", "size"), [(9, 8), (18, 2), (35, 1), (12, 5)])
def test_all_sets_of_a_size_are_equally_likely(n_cells, size, required):
    n = 80_000  # more than a block
    held = None if required is None else np.full(n, required)
    bits = subsets(SeededSource("sets", n_cells, size), n_cells, size, n, held)
    possible = [s for s in combinations(range(n_cells), size) if required is None or required in s]
    order = {sum(1 << cell for cell in cells): index for index, cells in enumerate(possible)}
    indices = np.array([order[key] for key in (bits @ (1 << np.arange(n_cells))).tolist()])
    seen = np.bincount(indices, minlength=len(order))
    assert len(order) == 1 or chisquare(seen).pvalue > FALSE_ALARM
    # Consecutive sets are independent.
    if len(order) > 7:
        pairs = np.zeros((7, 7), int)
        np.add.at(pairs, (indices[:-1] % 7, indices[1:] % 7), 1)
        assert chi2_contingency(pairs).pvalue > FALSE_ALARM


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_large_sets_contain_the_true_value_with_the_stated_probability(epsilon):
    n = 20_000
    oracle = SubsetSelection(600, epsilon)
    codes = (np.arange(n) % 600).astype(np.uint16)
    reports = oracle.report(codes, SeededSource("true value", repr(epsilon)))
    hits = int(reports[np.arange(n), codes].sum())
    others = int(reports[np.arange(n), (codes + 7) % 600].sum())
    assert binomtest(hits, n, float(oracle.p)).pvalue > FALSE_ALARM
    assert binomtest(others, n, float(oracle.q)).pvalue > FALSE_ALARM
