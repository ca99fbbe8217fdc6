"""Sums of reports: how they are counted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skdp.oracles._base import column_sums, count_numbers
from tests.conftest import each


@given(st.integers(1, 5_000), st.integers(0, 3_000), st.floats(0, 1))
def test_columns_are_summed(k, n, share):
    bits = np.random.default_rng(n).random((min(n, 200_000 // k), k)) < share
    assert column_sums(bits).tolist() == bits.sum(axis=0).tolist()


def test_columns_are_summed_beyond_a_byte():
    for shape in ((600, 5_000), (400_000, 3)):
        assert (column_sums(np.ones(shape, bool)) == shape[0]).all()


@each("n", [0, 1, 7, 1 << 17, (1 << 17) + 1])
@each("n_values", [2, 6, 17, 256, 1000])
def test_numbers_are_counted(n, n_values):
    numbers = np.random.default_rng(n).integers(0, n_values, n)
    counts = np.bincount(numbers, minlength=n_values).tolist()
    for dtype in (np.min_scalar_type(n_values - 1), np.uint64):
        assert count_numbers(numbers.astype(dtype), n_values).tolist() == counts
