"""Exact sums of weights over reports, for tallies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.local._tally import LARGEST_WEIGHT, SMALLEST_WEIGHT, WEIGHT_UNIT, WeightedSums
from skdp.local.protocol._field import Field, Reports

_HALF = 22
"""Bits of each of the two numbers that a weight consists of."""

_ROWS = 1 << 18
"""That are added up at once: products of two such numbers have 45 bits, so that their
sums fit into 64."""


def _field_sums(
    field: Field, reports: NDArray[Any], units: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sums of a field by weight, and by its square."""
    sums = np.zeros(field.shape, dtype=object)
    squares = np.zeros(field.shape, dtype=object)
    try:
        for start in range(0, len(units), _ROWS):
            rows = slice(start, start + _ROWS)
            high, low = units[rows] >> _HALF, units[rows] & ((1 << _HALF) - 1)
            for factor, power in ((low, 0), (high, _HALF)):
                added = field.distinct_sums(reports[rows], factor)
                sums += added.astype(object) << power
            # The square of 2**22 high + low.
            products = ((low**2, 0), (2 * high * low, _HALF), (high**2, 2 * _HALF))
            for factor, power in products:
                added = field.distinct_sums(reports[rows], factor)
                squares += added.astype(object) << power
    except NotImplementedError:
        raise ValueError(
            f"there are no weighted sums of the reports of {list(field.columns)}: "
            "estimate from the reports themselves"
        ) from None
    return sums, squares


def _weight_sums(units: NDArray[np.int64]) -> list[int]:
    """Return the sum of weights and that of their squares."""
    numbers: list[int] = units.tolist()
    return [sum(numbers), sum(number * number for number in numbers)]


def weighted_sums(
    fields: Sequence[Field],
    reports: Reports,
    is_reported: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> WeightedSums:
    """Sum up the weights of reports; `is_reported` has the shape (n_records, n_fields)."""
    is_too_small = (weights > 0) & (weights < SMALLEST_WEIGHT)
    if is_too_small.any() or (weights >= LARGEST_WEIGHT).any():
        raise ValueError(
            "weights in a tally must be 0, or from 2**-10 to 2**24, as they are whole "
            "multiples of a unit: multiply all of them by a constant"
        )
    units = np.rint(weights / WEIGHT_UNIT).astype(np.int64)
    all_sums = []
    all_squares = []
    weights_of_fields = []
    for place, field in enumerate(fields):
        rows = is_reported[:, place]
        sums, squares = _field_sums(field, reports[place][rows], units[rows])
        all_sums.append(sums)
        all_squares.append(squares)
        weights_of_fields.append(_weight_sums(units[rows]))
    return WeightedSums(
        tuple(all_sums),
        tuple(all_squares),
        np.array(weights_of_fields, dtype=object),
        np.array(_weight_sums(units), dtype=object),
    )
