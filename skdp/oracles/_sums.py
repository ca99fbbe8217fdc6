"""Sums of reports: how they are counted, and bounds of how likely they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln

from skdp.randomness import BLOCK

_SUM_WIDTH = 1 << 12
"""The length of rows that are summed in bytes."""

_FEW = 6
"""Numbers that are counted one by one."""

_MANY = 1 << 17
"""Numbers from which on it is worth the while to count pairs."""


def column_sums(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the ones of each column."""
    n, k = bits.shape
    # Join rows to long ones, and sum 255 of these in bytes: both let the processor add
    # many at once.
    n_joined = max(1, _SUM_WIDTH // k)
    n_whole = n - n % n_joined
    sums = bits[n_whole:].sum(axis=0, dtype=np.int64)
    joined = bits[:n_whole].view(np.uint8).reshape(-1, n_joined * k)
    for start in range(0, len(joined), 255):
        block = joined[start : start + 255].sum(axis=0, dtype=np.uint8)
        sums += block.reshape(n_joined, k).sum(axis=0, dtype=np.int64)
    return sums


def count_bytes(numbers: NDArray[Any], n_values: int = 256) -> NDArray[np.int64]:
    """Count how often each number below a limit occurs, modulo 256."""
    if numbers.dtype == np.uint8 and n_values <= _FEW:
        # `bincount` would wait for the last count of the same number.
        few = [np.count_nonzero(numbers == value) for value in range(n_values)]
        return np.array(few, np.int64)
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
        return counts[:n_values]
    counts = np.zeros(256, np.int64)
    for start in range(0, numbers.size, BLOCK):
        # The last eight bits.
        block = numbers[start : start + BLOCK].astype(np.uint8)
        counts += np.bincount(block, minlength=256)
    return counts[:n_values]


def count_numbers(numbers: NDArray[Any], n_values: int) -> NDArray[np.int64]:
    """Count how often each number below a limit occurs."""
    counts = np.zeros(n_values, np.int64)
    step = max(BLOCK, n_values)
    for start in range(0, numbers.size, step):
        block = numbers[start : start + step].astype(np.intp, copy=False)
        counts += np.bincount(block, minlength=n_values)
    return counts


def check_bits(reports: NDArray[Any], k: int) -> NDArray[np.bool_]:
    """Check an array of bits and view it as booleans."""
    bits = np.asarray(reports)
    if bits.ndim != 2 or bits.shape[1] != k:
        raise ValueError(f"reports must have the shape (n, {k}), got {bits.shape}")
    if bits.dtype == np.uint8:
        is_valid = bits.max(initial=0) <= 1
    else:
        is_valid = bits.dtype.kind in "biuf" and ((bits == 0) | (bits == 1)).all()
    if not is_valid:
        raise ValueError("reports must be zeros and ones")
    return np.ascontiguousarray(bits, np.uint8).view(np.bool_)


def lower_tail(count: float, n: float, probability: float) -> float:
    """Return ln P(B <= count), B the number of successes in n trials of at least this probability: the largest."""
    # A sum of independent trials is stochastically larger than a binomial one with the
    # least of their probabilities.
    if count >= n:
        return 0.0
    if count < 0:
        return -math.inf
    return _log(betainc(n - count, count + 1, 1 - probability))


def upper_tail(count: float, n: float, probability: float) -> float:
    """Return ln P(B >= count), B the number of successes in n trials of at most this probability: the largest."""
    if count <= 0:
        return 0.0
    if count > n:
        return -math.inf
    return _log(betainc(count, n - count + 1, probability))


def chernoff_tail(
    total: float, terms: Sequence[tuple[int, Mapping[int, float]]]
) -> float:
    """Bound ln P(S >= total), S the sum of independent terms: how many are alike, and the probability of each value."""
    # Chernoff: ln P(S >= s) <= sum ln E[e^(t X)] - t s for each t >= 0. The exponent is
    # convex in t, and any t gives a bound: the least of a grid, which is 0 at t = 0.
    t = np.append(0.0, np.geomspace(1e-6, 50.0, 400))
    exponent = -total * t
    for n_terms, shares in terms:
        mean = np.full_like(t, max(0.0, 1 - sum(shares.values())))
        for value, share in shares.items():
            mean += share * np.exp(value * t)
        exponent += n_terms * np.log(mean)
    return float(exponent.min())


def group_tails(
    support: NDArray[np.int64], n: int, q: Fraction, *, exclusive: bool
) -> list[tuple[float, float]]:
    """Bound how probable the sums of the smallest counts are: those of m values, for several m."""
    # Of m values a report supports at least one with a probability of at least m q,
    # where it supports no two (`exclusive`); where each is decided by itself, the sum
    # is one of n m trials. The m smallest sums are those of one of C(k, m) sets of
    # values. The sizes m are powers of two, and k less these.
    k = len(support)
    smallest = np.cumsum(np.sort(support))
    powers = [1 << power for power in range((k - 1).bit_length())]
    tails = []
    for size in sorted({*powers, *(k - power for power in powers)}):
        n_trials = n if exclusive else n * size
        share = size * q if exclusive else q
        tail = lower_tail(float(smallest[size - 1]), n_trials, float(share))
        log_sets = gammaln(k + 1) - gammaln(size + 1) - gammaln(k - size + 1)
        tails.append((tail, float(log_sets)))
    return tails


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf
