"""Subset selection: its probabilities, and draws of sets."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.oracles import SubsetSelection
from skdp.randomness import ONE, SeededSource
from tests.oracles.conftest import all_reports, check_channel

SIZES = [(k, size) for k in range(2, 7) for size in range(1, k)]


def test_every_set_is_within_epsilon(epsilon):
    for k, size in SIZES:
        oracle = SubsetSelection(k, epsilon, subset_size=size)
        assert check_channel(oracle, oracle.channel(), epsilon) == oracle.worst_ratio
        assert oracle.epsilon == pytest.approx(min(epsilon, math.log(1 + Fraction(k, size) * (ONE - 1))), rel=1e-3)
        shares = np.array(oracle.channel()[0]) @ all_reports(oracle).astype(object)
        assert (oracle.p, oracle.q) == (shares[0], shares[1])


@pytest.mark.parametrize("k", [2, 3, 4, 7, 14, 40, 100])
def test_subset_size_is_optimal(k):
    for epsilon in (0.01, 0.5, 1.0, 2.0, 4.0, 8.0):
        errors = [SubsetSelection(k, epsilon, subset_size=size).mean_squared_error for size in range(1, k)]
        assert SubsetSelection(k, epsilon).mean_squared_error == min(errors)


@pytest.mark.parametrize("epsilon", [1e-9, 2.0, 700.0])
@pytest.mark.parametrize(
    ("k", "size"), [(2, 1), (14, 7), (100, 1), (100, 50), (300, 2), (300, 80), (256, 255), (257, 256)]
)
def test_large_sets_have_their_size_and_required_value(epsilon, k, size):
    n = 600
    oracle = SubsetSelection(k, epsilon, subset_size=size)
    p, q = float(oracle.p), float(oracle.q)
    codes = (np.arange(n) % k).astype(np.int64)
    bits = oracle.report(codes, SeededSource("large", k, size))
    assert bits.max() == 1
    assert (bits.sum(axis=1) == size).all()
    held = bits[np.arange(n), codes].sum()
    assert abs(held - n * p) <= 6 * math.sqrt(n * p * (1 - p)) + 1
    bits[np.arange(n), codes] = 0
    m = n - n / k
    assert abs(bits.sum(axis=0) - m * q).max() <= 6 * math.sqrt(m * q * (1 - q)) + 1


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (4, ValueError), (1.0, TypeError), (True, TypeError)])
def test_sizes_out_of_range_raise_an_error(size, error):
    with pytest.raises(error):
        SubsetSelection(4, 1.0, subset_size=size)
