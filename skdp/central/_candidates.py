"""The public values that a quantile is chosen from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import read_bounds
from skdp.frames import Table
from skdp.oracles import check_size

STEPS = 10_000
"""Steps between the bounds, unless the column is one of integers: whole numbers and hundredths of 0 to 100."""

MOST_INTEGERS = 100_000
MOST_CANDIDATES = 1_000_000

_SCALE = 2.0**-20


def read_candidates(candidates: Any, table: Table, bounds: Any) -> list[NDArray[np.float64]]:
    """Take the declared candidates of each column, or make them from the bounds.

    Parameters
    ----------
    candidates : None, int, array-like of float, or mapping of column name to one of these
        An int is a number of equal steps between the bounds. None stands for all integers between them where the
        bounds are whole numbers at most `MOST_INTEGERS` apart and the dtype of the column is one of integers, and for
        `STEPS` steps elsewhere.
    table : Table
        The private table; names and dtypes are read.
    bounds : object
        As for `skdp.base.read_bounds`.

    Returns
    -------
    list of ndarray of float64
        For each column, ascending.

    Raises
    ------
    TypeError, ValueError
        If the bounds or the candidates do not fit.

    Examples
    --------
    >>> from skdp.frames import read_table
    >>> ages, shares = read_candidates({"x1": 4}, read_table(np.array([[31, 1]])), [(0, 100), (0, 1)])
    >>> ages.size, shares.tolist()
    (101, [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    ends = read_bounds(bounds, table.names)
    if isinstance(candidates, Mapping):
        unknown = [name for name in candidates if name not in table.names]
        if unknown:
            raise ValueError(f"candidates declares columns that X does not have: {unknown}; X has {list(table.names)}")
        declared = [candidates.get(name) for name in table.names]
    else:
        declared = [candidates] * len(table.names)
    columns = zip(table.names, table.columns, declared, ends.tolist(), strict=True)
    return [_read(name, column, one, low, high) for name, column, one, (low, high) in columns]


def _read(name: Any, column: Any, declared: Any, low: float, high: float) -> NDArray[np.float64]:
    if declared is None:
        whole = low.is_integer() and high.is_integer() and high - low <= MOST_INTEGERS and _is_integer(column)
        return equal_steps(low, high, int(high - low) if whole else STEPS)
    if hasattr(declared, "__len__") and not isinstance(declared, str | bytes):
        return _read_values(name, declared, low, high)
    return equal_steps(low, high, check_size(declared, least=1, most=MOST_CANDIDATES, name="candidates"))


def _read_values(name: Any, declared: Any, low: float, high: float) -> NDArray[np.float64]:
    try:
        values = np.asarray(declared)
    except ValueError:  # rows of different lengths
        values = np.empty((0, 0))
    if values.ndim != 1 or not 0 < values.size <= MOST_CANDIDATES:
        raise ValueError(f"candidates of column {name!r} must be a list of 1 to {MOST_CANDIDATES:,} numbers")
    if values.dtype.kind not in "iuf":
        raise TypeError(f"candidates of column {name!r} must be numbers, got {values.dtype}")
    if not ((low <= values) & (values <= high)).all():  # not so for nan
        raise ValueError(f"candidates of column {name!r} must be between its bounds, {low:g} and {high:g}")
    return np.unique(values.astype(float))


def _is_integer(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "iu"
    return nw.from_native(column, series_only=True).dtype.is_integer()


def equal_steps(low: float, high: float, steps: int) -> NDArray[np.float64]:
    """Cut the range between two bounds into equal steps.

    Parameters
    ----------
    low, high : float
        The bounds.
    steps : int
        How many, at most `MOST_CANDIDATES`.

    Returns
    -------
    ndarray of shape (steps + 1,)
        Their ends, ascending from low to high.

    Examples
    --------
    >>> equal_steps(0, 100, 10_000)[[7, 5820]].tolist()
    [0.07, 58.2]
    """
    index = np.arange(steps + 1)
    # Where the sum is exact, as of small whole bounds, this is the float that the decimal fraction is written as. The
    # power of 2 changes no digit, and keeps the product of large bounds finite.
    inside = (_SCALE * low * (steps - index) + _SCALE * high * index) / steps / _SCALE
    inside[0], inside[-1] = low, high
    return np.clip(inside, low, high)
