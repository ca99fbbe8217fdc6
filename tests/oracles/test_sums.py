"""Sums of reports: how they are counted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skdp.oracles._base import column_sums, count_bytes
from tests.conftest import each


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
