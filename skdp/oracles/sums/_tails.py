"""Bounds of how likely sums of reports are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln


def lower_tail(count: float, n: float, probability: float) -> float:
    """Return ln P(B <= count), B the number of successes in n trials of at least this probability: the largest."""
    # A sum of independent trials is stochastically larger than a binomial one with the least of their probabilities.
    if count >= n:
        return 0.0
    return (
        _log(betainc(n - count, count + 1, 1 - probability))
        if count >= 0
        else -math.inf
    )


def upper_tail(count: float, n: float, probability: float) -> float:
    """Return ln P(B >= count), B the number of successes in n trials of at most this probability: the largest."""
    if count <= 0:
        return 0.0
    return _log(betainc(count, n - count + 1, probability)) if count <= n else -math.inf


def signed_tail(total: float, n: float, plus: float, minus: float) -> float:
    """Bound ln P(S >= total), S the sum of n terms that are 1, -1 or 0 with these probabilities (Chernoff)."""
    # ln P(S >= s) <= n ln E[u**X] - s ln u for every u >= 1. With r = 1 - plus - minus and t = s / n, the best u solves
    # ``plus (1 - t) u**2 - r t u - minus (1 + t) = 0``.
    share, zero = total / n, max(0.0, 1 - plus - minus)
    if share <= plus - minus:
        return 0.0
    if share > 1:
        return -math.inf
    share = min(share, 1 - 1e-12)  # for u to be finite: any u gives a bound
    root = math.sqrt((zero * share) ** 2 + 4 * plus * minus * (1 - share**2))
    base = (zero * share + root) / (2 * plus * (1 - share))
    return n * math.log(plus * base + minus / base + zero) - total * math.log(base)


def mixed_tail(total: float, trials: Sequence[tuple[float, float]]) -> float:
    """Bound ln P(S >= total), S the number of successes of independent trials: pairs of (number, probability)."""
    # Chernoff's bound, whose exponent is convex in ln u; any u >= 1 gives a bound.
    number = sum(count for count, _ in trials)
    if total <= sum(count * share for count, share in trials):
        return 0.0
    if total > number:
        return -math.inf
    steps = np.geomspace(1e-9, 50.0, 400)
    exponent = -total * steps
    for count, share in trials:
        exponent += count * np.log1p(share * np.expm1(steps))
    return min(0.0, float(exponent.min()))


def group_tails(
    support: NDArray[np.int64], n: int, q: Fraction, *, exclusive: bool
) -> list[tuple[float, float]]:
    """Bound how probable the sums of the smallest counts are: those of m values, for several m."""
    # Of m values a report supports at least one with a probability of at least m q, where it supports no two
    # (`exclusive`); where each is decided by itself, the sum is one of n m trials. The m smallest sums are those of one
    # of C(k, m) sets of values.
    smallest, found = np.cumsum(np.sort(support)), []
    for size in _group_sizes(len(support)):
        trials, share = (n, size * q) if exclusive else (n * size, q)
        found.append(
            (
                lower_tail(float(smallest[size - 1]), trials, float(share)),
                _log_subsets(len(support), size),
            )
        )
    return found


def _log_subsets(k: int, size: int) -> float:
    """Return the logarithm of the number of sets of some of k values."""
    return float(gammaln(k + 1) - gammaln(size + 1) - gammaln(k - size + 1))


def _group_sizes(k: int) -> list[int]:
    """Return the sizes of the sets of values whose sums are examined: powers of two, and k less these."""
    powers = [1 << power for power in range((k - 1).bit_length())]
    return sorted({*powers, *(k - power for power in powers)})


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf
