"""Quantiles of columns: a private choice among public candidates."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import ByteSource, permute_and_flip

FINEST = 1_000_000
"""The largest denominator of a probability: scores are then integers of 64 bits for up to 9 * 10**12 values."""


Ranks = tuple[NDArray[np.int64], NDArray[np.int64], int]
"""How many values are less than each candidate, how many are not greater, and how many there are."""


def quantiles(
    columns: Sequence[NDArray[np.float64]],
    probabilities: Sequence[Fraction],
    candidates: Sequence[NDArray[np.float64]],
    epsilon: Fraction,
    source: ByteSource,
) -> NDArray[np.float64]:
    """Release quantiles of columns by permute-and-flip, each with an equal share of epsilon."""
    # Of n values, a candidate c is a q-quantile if at most q n are below it, and at least q n are not above it. Its
    # score is minus the number of values by which it fails to be one::
    #     score(c) = -max(0, #{x < c} - q n, q n - #{x <= c})
    # Adding or removing one value moves a score by at most max(q, 1 - q): each difference moves by q or by 1 - q. A
    # score may rise while another one falls, by as much. So the rate of `permute_and_flip` is epsilon / (2 max(q, 1 -
    # q)), and no larger one is private whatever the candidates are: the privacy loss tends to epsilon as they become
    # many.
    ranks = [count_below(column, values) for column, values in zip(columns, candidates, strict=True)]
    return ranked_quantiles(ranks, probabilities, candidates, epsilon, source)


def ranked_quantiles(
    ranks: Sequence[Ranks],
    probabilities: Sequence[Fraction],
    candidates: Sequence[NDArray[np.float64]],
    epsilon: Fraction,
    source: ByteSource,
) -> NDArray[np.float64]:
    """Release quantiles of columns of which the numbers of values below each candidate are known."""
    share = epsilon / (len(ranks) * len(probabilities))
    released = np.empty((len(ranks), len(probabilities)))
    for row, counts, values in zip(released, ranks, candidates, strict=True):
        for index, q in enumerate(probabilities):
            # In parts of a record, 1 / q.denominator each: whole numbers.
            sensitivity = max(q.numerator, q.denominator - q.numerator)
            row[index] = values[permute_and_flip(source, scores(*counts, q), share / (2 * sensitivity))]
    released.sort(axis=1)
    return released


def count_below(
    column: NDArray[np.float64], candidates: NDArray[np.float64], counts: NDArray[np.int64] | None = None
) -> Ranks:
    """Count the values below each candidate."""
    known = ~np.isnan(column)
    values = np.clip(column[known], candidates[0], candidates[-1])
    totals = None
    if counts is not None:
        order = np.argsort(values)
        totals = np.append(0, np.cumsum(counts[known][order]))
    values.sort()
    below, up_to = np.searchsorted(values, candidates, "left"), np.searchsorted(values, candidates, "right")
    return (below, up_to, values.size) if totals is None else (totals[below], totals[up_to], int(totals[-1]))


def scores(below: NDArray[np.int64], up_to: NDArray[np.int64], n: int, q: Fraction) -> NDArray[np.int64]:
    """Score candidates for a quantile."""
    rank = q.numerator * n
    return -np.maximum(0, np.maximum(q.denominator * below - rank, rank - q.denominator * up_to))


def read_probability(value: Any, name: str) -> Fraction:
    """Check the probability of a quantile, and take it as the nearest fraction of a denominator up to `FINEST`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number between 0 and 1, got {type(value).__name__}")
    number = float(value)
    exact = Fraction(number).limit_denominator(FINEST) if 0 < number < 1 else Fraction(0)
    if not 0 < exact < 1:
        raise ValueError(f"{name} must be between 0 and 1, at least a millionth away from both, got {value}")
    return exact
