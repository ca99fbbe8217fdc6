"""Counts of bits and numbers, fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import BLOCK

_SUM_WIDTH = 1 << 12
_FEW = 6
"""Numbers that are counted one by one."""

_MANY = 1 << 17
"""Numbers from which on it is worth the while to count pairs."""


def column_sums(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the ones of each column."""
    n, k = bits.shape
    sums = np.zeros(k, np.int64)
    # Join rows to long ones, and sum 255 of these in bytes: both let the processor add many at once.
    together = max(1, _SUM_WIDTH // k)
    long = bits[: n - n % together].view(np.uint8).reshape(-1, together * k)
    for start in range(0, len(long), 255):
        block = long[start : start + 255].sum(axis=0, dtype=np.uint8)
        sums += block.reshape(together, k).sum(axis=0, dtype=np.int64)
    return sums + bits[n - n % together :].sum(axis=0, dtype=np.int64)


def count_bytes(numbers: NDArray[Any], n_values: int = 256) -> NDArray[np.int64]:
    """Count how often each number below a limit occurs, modulo 256."""
    if numbers.dtype == np.uint8 and n_values <= _FEW:
        # Few numbers, each of them often: `bincount` would wait for the last count of the same number.
        return np.array(
            [np.count_nonzero(numbers == value) for value in range(n_values)], np.int64
        )
    return _count_bytes(numbers)[:n_values]


def _count_bytes(numbers: NDArray[Any]) -> NDArray[np.int64]:
    if (
        numbers.dtype == np.uint8
        and numbers.size >= _MANY
        and numbers.flags.c_contiguous
    ):
        # Two at a time, in half the time.
        even = numbers[: numbers.size & ~1]
        pairs = np.bincount(even.view(np.uint16), minlength=1 << 16).reshape(256, 256)
        counts = pairs.sum(axis=0) + pairs.sum(axis=1)
        counts[numbers[even.size :]] += 1
        return counts
    counts, step = np.zeros(256, np.int64), BLOCK
    for start in range(0, numbers.size, step):
        low = numbers[start : start + step].astype(np.uint8)  # the last eight bits
        counts += np.bincount(low, minlength=256)
    return counts


def check_bits(reports: NDArray[Any], k: int) -> NDArray[np.bool_]:
    """Check an array of bits and view it as booleans."""
    bits = np.asarray(reports)
    if bits.ndim != 2 or bits.shape[1] != k:
        raise ValueError(f"reports must have the shape (n, {k}), got {bits.shape}")
    if bits.dtype == np.uint8:
        fitting = bits.max(initial=0) <= 1
    else:
        fitting = bits.dtype.kind in "biuf" and bool(((bits == 0) | (bits == 1)).all())
    if not fitting:
        raise ValueError("reports must be zeros and ones")
    return np.ascontiguousarray(bits, np.uint8).view(np.bool_)
