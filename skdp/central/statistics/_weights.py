"""Weights of rows, which are private: declared up to a maximum, as whole numbers of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skdp.base import check_same_order, one_column
from skdp.central.statistics._batches import Batches
from skdp.central.statistics._sums import Floats
from skdp.tables import Table, is_frame


def check_weight(sample_weight: Any, max_weight: Any, names: Sequence[Any]) -> None:
    """Check that the column of the weights is one of X, and that its maximum is declared."""
    if sample_weight is None and max_weight is None:
        return
    if sample_weight is None or max_weight is None:
        raise ValueError(
            "sample_weight names the column of the weights, and max_weight declares "
            "the largest weight from what is publicly known: give both or none"
        )
    if isinstance(sample_weight, np.ndarray | list) or sample_weight not in names:
        raise ValueError(
            f"sample_weight must be the name of a column of X, which has {list(names)}"
        )
    check_max_weight(max_weight)


# A step is 2**-29 of the largest weight, and noise is of up to 2**200 steps (`as_float`).
# Both are floats of full precision then, which are from 2**-1022 to 2**1024.
_LEAST_MAX_WEIGHT = 2.0**-900
_MOST_MAX_WEIGHT = 2.0**800

# The sums of values have steps and noise of such sizes, too. The least width is that of
# bounds.
_LEAST_WIDTH = 1e-300
_LARGEST_VALUE = _MOST_MAX_WEIGHT


def check_max_weight(max_weight: Any) -> None:
    """Check the largest weight."""
    is_number = isinstance(max_weight, int | float | np.integer | np.floating)
    if isinstance(max_weight, bool) or not is_number:
        raise TypeError(
            "max_weight must be an int or a float, got " + type(max_weight).__name__
        )
    # An int may be beyond all floats, and the limits are beyond those of 32 bits.
    number = max_weight if isinstance(max_weight, int) else float(max_weight)
    if not _LEAST_MAX_WEIGHT <= number <= _MOST_MAX_WEIGHT:
        is_long = isinstance(number, int) and abs(number) > _MOST_MAX_WEIGHT
        got = "a longer int" if is_long else f"{number:g}"
        raise ValueError(
            f"max_weight must be a number > 0, from {_LEAST_MAX_WEIGHT:.2g} to "
            f"{_MOST_MAX_WEIGHT:.2g}, got {got}"
        )


def check_weighted_bounds(bounds: Floats, max_weight: float | None) -> None:
    """Check that sums of weighted values between declared bounds are floats."""
    factor = 1.0 if max_weight is None else float(max_weight)
    what = "bounds" if max_weight is None else "bounds times max_weight"
    largest = factor * float(np.abs(bounds).max())
    if largest > _LARGEST_VALUE:
        raise ValueError(
            f"for sums, {what} must be at most {_LARGEST_VALUE:.2g}, got {largest:g}"
        )
    width = factor * float((bounds[:, 1] - bounds[:, 0]).min())
    if width < _LEAST_WIDTH:
        raise ValueError(
            f"for sums, {what} must be at least {_LEAST_WIDTH:g} apart, got {width:g}"
        )


def read_weights(sample_weight: Any, table: Table) -> tuple[Any, Any]:
    """Return the weights of the rows of a table as a column, and a name that no column of the table has."""
    if isinstance(sample_weight, str):
        raise TypeError(
            "sample_weight must hold the weight of each row; only of a large table is "
            "it a column's name, got str"
        )
    weights = one_column(sample_weight, "sample_weight")
    column = weights.columns[0]
    n_rows = len(table.columns[0])
    if len(column) != n_rows:
        raise ValueError(
            f"sample_weight has {len(column)} entries; X has {n_rows} rows"
        )
    if getattr(getattr(column, "dtype", None), "kind", None) == "O":
        raise TypeError(
            "sample_weight must have a dtype of numbers, got object: convert it by "
            "astype(float)"
        )
    check_same_order(table.native, sample_weight, "sample_weight")
    name = "sample_weight"
    if is_frame(sample_weight):
        name = weights.names[0]
    elif getattr(sample_weight, "name", None):
        name = sample_weight.name
    while name in table.names:
        name = f"{name}_"
    return column, name


def without_weight(rows: Batches, sample_weight: Any) -> Batches:
    """Return all columns but that of the weights."""
    return rows.select([name for name in rows.names if name != sample_weight])
