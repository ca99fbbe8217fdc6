"""Sums of reports: how they are counted, and bounds of their probability."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.oracles._base import chernoff_tail, column_sums, count_bytes, lower_tail, upper_tail
from tests.conftest import each


def test_binomial_tails_are_exact():
    shares = [math.comb(9, ones) * 0.3**ones * 0.7 ** (9 - ones) for ones in range(10)]
    for count in range(10):
        assert lower_tail(count, 9, 0.3) == pytest.approx(math.log(sum(shares[: count + 1])), abs=1e-12)
        assert upper_tail(count, 9, 0.3) == pytest.approx(math.log(sum(shares[count:])), abs=1e-12)
    assert lower_tail(-1, 9, 0.3) == upper_tail(10, 9, 0.3) == -math.inf


@each("plus, minus", [(0.5, 0.5), (0.3, 0.3), (0.6, 0.1), (0.05, 0.01)])
def test_signed_tails_bound_the_probability(plus, minus):
    n, law = 12, np.array([1.0])
    for _ in range(n):
        law = np.convolve(law, [minus, 1 - plus - minus, plus])
    for total in range(-n, n + 1):
        exact, bound = math.log(law[total + n :].sum()), chernoff_tail(total, [(n, {1: plus, -1: minus})])
        assert exact <= bound + 1e-9
        assert exact > -5 or bound < 0.6 * exact  # not by far


def test_mixed_tails_bound_the_probability():
    law = np.array([1.0])
    for share in [0.5] * 6 + [0.2] * 8:
        law = np.convolve(law, [1 - share, share])
    for total in range(15):
        exact, bound = math.log(law[total:].sum()), chernoff_tail(total, [(6, {1: 0.5}), (8, {1: 0.2})])
        assert exact <= bound + 1e-9
        assert exact > -5 or bound < 0.6 * exact


@given(st.integers(1, 5_000), st.integers(0, 3_000), st.floats(0, 1))
def test_columns_are_summed(k, n, share):
    bits = np.random.default_rng(n).random((min(n, 200_000 // k), k)) < share
    assert column_sums(bits).tolist() == bits.sum(axis=0).tolist()


def test_columns_are_summed_beyond_a_byte():
    for shape in ((600, 5_000), (400_000, 3)):
        assert (column_sums(np.ones(shape, bool)) == shape[0]).all()


@each("n", [0, 1, 7, 1 << 17, (1 << 17) + 1])
@each("n_values", [2, 6, 7, 256])
def test_numbers_are_counted_modulo_256(n, n_values):
    numbers = np.random.default_rng(n).integers(0, n_values, n)
    counts = np.bincount(numbers, minlength=n_values).tolist()
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        written = numbers.astype(dtype)
        assert count_bytes(written, n_values).tolist() == counts
        assert count_bytes(np.repeat(written, 2)[::2], n_values).tolist() == counts
    large = (numbers + 256 * (numbers + 1)).astype(np.uint64)
    assert count_bytes(large, n_values).tolist() == counts
