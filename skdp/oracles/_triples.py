"""How often an affine hash puts three values into one bucket."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# A map ``a x + b`` modulo a prime P is pairwise independent, but the residues of three
# values x < y < z follow from two of them. With d = a (y - x) mod P and e = a (z - x)
# mod P, the residue u of x is uniform, and so is d; e = t d mod P, where t is the ratio
# of the differences. Of g buckets, y shares that of x if u + d, less P if it is at
# least P, is u modulo g: for d = 0 (mod g) these are the u below P - d, for d = P
# (mod g) the others. So are they for z and e, and the probability is the mean overlap
# of two intervals, over all d. It depends on the ratio alone.

MOST_EXACT_VALUES = 1_024
"""Whose table is exact: the sums over pairs of two groups take about four seconds."""

_MOST_STEPS = 500_000_000
"""Of the table: about four seconds, once."""

_BLOCK = 1 << 18
"""Numbers that are held at once: 1 MB, within a cache."""


def _collisions(prime: int, g: int, ratios: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability that 0, 1 and each ratio share a bucket, for P < 2**16."""
    # The negative of a positive d = 0 (mod g) is P (mod g) and has the same overlap:
    # these are all but d = 0, where all u count.
    steps = np.arange(g, prime, g, dtype=np.uint32)
    left = np.uint32(prime) - steps
    probabilities = np.empty(len(ratios))
    n_rows = max(1, _BLOCK // max(1, steps.size))
    for start in range(0, len(ratios), n_rows):
        block = ratios[start : start + n_rows, np.newaxis].astype(np.uint32)
        # Products of two residues of 16 bits fit into 32.
        third = steps * block % np.uint32(prime)  # (n_rows, n_steps)
        remainder = third % np.uint32(g)
        below = np.minimum(left, np.uint32(prime) - third)
        above = np.maximum(third, steps) - steps
        overlap = below * (remainder == 0) + above * (remainder == prime % g)
        total = 2 * overlap.sum(axis=1, dtype=np.int64) + prime
        probabilities[start : start + n_rows] = total / prime**2
    return probabilities


def is_exact(prime: int, g: int, k: int) -> bool:
    """Return whether `collision_table` is quick enough."""
    # About 3 / pi² of all pairs of gaps have no common factor, and half of these are in
    # order.
    n_steps = 0.152 * k**2 * (prime / g + 1)
    return prime < 1 << 16 and k <= MOST_EXACT_VALUES and n_steps <= _MOST_STEPS


@lru_cache(maxsize=4)
def collision_table(prime: int, g: int, k: int) -> NDArray[np.float64]:
    """Return the probability that three of k values share a bucket, by their two gaps."""
    first, second = np.indices((k, k))
    is_gap = (first > 0) & (second > 0) & (first + second < k)
    first, second = first[is_gap], second[is_gap]
    # Neither a common factor nor the order of the gaps changes anything.
    factor = np.gcd(first, second)
    smaller = np.minimum(first, second) // factor
    span = (first + second) // factor
    keys, places = np.unique(span * k + smaller, return_inverse=True)
    inverses = np.array([0] + [pow(gap, -1, prime) for gap in range(1, k)])
    ratios = keys // k * inverses[keys % k] % prime
    table = np.zeros((k, k))
    table[is_gap] = _collisions(prime, g, ratios)[places]
    table.flags.writeable = False
    return table


@lru_cache(maxsize=16)
def triples_of_groups(
    prime: int, g: int, group_numbers: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return how many ordered pairs of a group share the bucket of a value, on average.

    The pairs are of different values, and without the value itself: (k, n_groups).
    """
    group = np.array(group_numbers)
    k = len(group)
    table = collision_table(prime, g, k)
    # By the differences of two values to the first one.
    shifts = np.indices((2 * k - 1, 2 * k - 1)) - (k - 1)
    low = np.minimum(shifts.min(axis=0), 0)
    high = np.maximum(shifts.max(axis=0), 0)
    middle = shifts.sum(axis=0) - low - high
    is_inside = high - low < k
    by_shift = np.zeros(is_inside.shape)
    gaps = (middle - low)[is_inside], (high - middle)[is_inside]
    by_shift[is_inside] = table[gaps]
    n_groups = int(group.max()) + 1
    members = np.argsort(group, kind="stable").reshape(n_groups, -1)
    pairs = members[:, :, np.newaxis], members[:, np.newaxis, :]
    sums = np.empty((k, n_groups))
    for value in range(k):
        start = k - 1 - value
        of_value = by_shift[start : start + k, start : start + k]
        sums[value] = of_value[pairs].sum(axis=(1, 2))
    sums.flags.writeable = False
    return sums


@lru_cache(maxsize=256)
def mean_collision(prime: int, g: int, k: int, independent: float) -> float:
    """Return the probability that three different ones of k values share a bucket.

    It is the mean over all of them, and of many values an extrapolation.
    """
    # The mean exceeds `independent` by about a constant over k: for 4 buckets times
    # 0.141 / k for 64 values and 0.1405 / k for 256, for 56 buckets 0.0787 / k for 128
    # and 0.0812 / k for 256. So many values take about a tenth of a second.
    n = min(k, math.isqrt(1024 * g), MOST_EXACT_VALUES)
    if n < 3:
        return independent
    table = collision_table(prime, g, n)
    span = np.indices((n, n)).sum(axis=0)
    places = np.maximum(n - span, 0)
    mean = float((places * table).sum()) / math.comb(n, 3)
    return independent + (mean - independent) * n / k
