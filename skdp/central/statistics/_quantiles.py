"""Quantiles of columns, by private choices among public candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.base import read_bounds
from skdp.central.statistics._batches import Batches
from skdp.central.statistics._halving import halve, n_halvings, nearest_candidate
from skdp.central.statistics._sums import read_values, warn_of_objects
from skdp.domain import cut_evenly
from skdp.oracles import check_size
from skdp.privacy import Loss, Share, exponential_loss
from skdp.randomness import ByteSource
from skdp.tables import Table

# The largest denominator of a probability.
FINEST = 1_000_000

_OneColumn: TypeAlias = Literal["integers"] | ArrayLike
Candidates: TypeAlias = _OneColumn | Mapping[Any, _OneColumn]


def count_cells(
    column: NDArray[np.float64],
    candidates: NDArray[np.float64],
    counts: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Count the values that equal a candidate, or are between two: each value is in one of these cells."""
    is_number = ~np.isnan(column)
    values = np.clip(column[is_number], candidates[0], candidates[-1])
    if counts is not None:
        order = np.argsort(values)
        totals = np.append(0, np.cumsum(counts[is_number][order]))
    values.sort()
    below = np.searchsorted(values, candidates, "left")
    up_to = np.searchsorted(values, candidates, "right")
    if counts is not None:
        below, up_to = totals[below], totals[up_to]
    cells = np.empty(2 * below.size - 1, np.int64)
    cells[::2], cells[1::2] = up_to - below, below[1:] - up_to[:-1]
    return cells


def count_columns(
    table: Table,
    counts: NDArray[np.int64] | None,
    *,
    candidates: Sequence[NDArray[np.float64]],
) -> list[NDArray[np.int64]]:
    """Count the values of each column by its candidates."""
    cells = []
    for column, values in zip(read_values(table), candidates, strict=True):
        cells.append(count_cells(column, values, counts))
    return cells


@dataclass(frozen=True, eq=False)
class QuantilePlan:
    """A release of quantiles that is not drawn yet."""

    # The number of values by cell, see `count_cells`: of each column.
    cells: Sequence[NDArray[np.int64]]
    candidates: Sequence[NDArray[np.float64]]
    probabilities: Sequence[Fraction]
    share: Share

    # The name of the mechanism.
    mechanism: ClassVar[str] = "exponential mechanism"

    def draw(self, source: ByteSource) -> NDArray[np.float64]:
        """Return the quantiles of each column, in a row, by halving with an equal share for each column."""
        share = self.share / len(self.cells)
        released = np.empty((len(self.cells), len(self.probabilities)))
        for row, cells, values in zip(
            released, self.cells, self.candidates, strict=True
        ):
            cuts = halve(cells, self.probabilities, share, source)
            row[:] = values[list(map(nearest_candidate, cuts))]
        return released

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses of all choices; none for a share of rho or mu, of which a choice loses less than its epsilon."""
        if self.share.kind != "epsilon":
            return ()
        n_levels = n_halvings(self.probabilities) * len(self.cells)
        loss = exponential_loss((self.share / n_levels).amount)
        return (replace(loss, count=n_levels),)


def plan_quantiles(
    rows: Batches,
    candidates: Sequence[NDArray[np.float64]],
    probabilities: Sequence[Fraction],
    share: Share,
) -> QuantilePlan:
    """Read the columns of a table, and plan the release of their quantiles, of ascending probabilities."""
    warn_of_objects(rows.table)
    ends = [(float(values[0]), float(values[-1])) for values in candidates]
    cells = rows.add_up(partial(count_columns, candidates=candidates), ends)
    return QuantilePlan(cells, candidates, probabilities, share)


def read_probability(value: Any, name: str) -> Fraction:
    """Check the probability of a quantile, and take it as the nearest fraction of a denominator up to `FINEST`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(
            f"{name} must be a number between 0 and 1, got {type(value).__name__}"
        )
    number = float(value)
    exact = (
        Fraction(number).limit_denominator(FINEST) if 0 < number < 1 else Fraction(0)
    )
    if not 0 < exact < 1:
        raise ValueError(
            f"{name} must be between 0 and 1, at least a millionth away from both, got "
            f"{value}"
        )
    return exact


# The most steps between the bounds by default, unless more are needed to have all whole
# numbers.
STEPS = 10_000

MAX_INTEGERS = 100_000
MAX_CANDIDATES = 1_000_000


def read_candidates(
    candidates: Any, names: Sequence[Any], bounds: Any
) -> list[NDArray[np.float64]]:
    """Take the declared candidates of each column, or make them from the bounds."""
    # They do not depend on the table, whose dtypes show what is in it: pandas makes
    # floats of integers where one is missing.
    ends = read_bounds(bounds, names)
    if isinstance(candidates, Mapping):
        unknown = [name for name in candidates if name not in names]
        if unknown:
            raise ValueError(
                f"candidates declares columns that X does not have: {unknown}; X has "
                f"{list(names)}"
            )
        declared = [candidates.get(name) for name in names]
    else:
        declared = [candidates] * len(names)
    return [
        _read(name, values, low, high)
        for name, values, (low, high) in zip(
            names, declared, ends.tolist(), strict=True
        )
    ]


def _read(name: Any, declared: Any, low: float, high: float) -> NDArray[np.float64]:
    if declared is None:
        return cut_evenly(low, high, _default_steps(low, high))
    if isinstance(declared, str):
        return _integers(name, declared, low, high)
    if hasattr(declared, "__len__") and not isinstance(declared, bytes):
        return _read_values(name, declared, low, high)
    return cut_evenly(
        low,
        high,
        check_size(declared, least=1, most=MAX_CANDIDATES, name="candidates"),
    )


def _read_values(
    name: Any, declared: Any, low: float, high: float
) -> NDArray[np.float64]:
    try:
        values = np.asarray(declared)
    except ValueError:  # rows of different lengths
        values = np.empty((0, 0))
    if values.ndim != 1 or not 0 < values.size <= MAX_CANDIDATES:
        raise ValueError(
            f"candidates of column {name!r} must be a list of 1 to {MAX_CANDIDATES:,} "
            "numbers"
        )
    if values.dtype.kind not in "iuf":
        raise TypeError(
            f"candidates of column {name!r} must be numbers, got {values.dtype}"
        )
    if not ((low <= values) & (values <= high)).all():  # not so for nan
        raise ValueError(
            f"candidates of column {name!r} must be between its bounds, {low:g} and "
            f"{high:g}"
        )
    return np.unique(values.astype(float))


def _default_steps(low: float, high: float) -> int:
    width = high - low
    if not (low.is_integer() and high.is_integer() and width <= MAX_INTEGERS):
        return STEPS
    return max(STEPS - STEPS % int(width), int(width))


def _integers(name: Any, declared: str, low: float, high: float) -> NDArray[np.float64]:
    if declared != "integers":
        raise ValueError(
            f"candidates of column {name!r} must be 'integers', a number of steps or a "
            f"list, got {declared!r}"
        )
    least, most = math.ceil(low), math.floor(high)
    if not 0 <= most - least < MAX_CANDIDATES:
        raise ValueError(
            f"candidates='integers' of column {name!r}: there must be 1 to "
            f"{MAX_CANDIDATES:,} whole numbers between "
            f"the bounds {low:g} and {high:g}"
        )
    return np.arange(least, most + 1, dtype=float)
