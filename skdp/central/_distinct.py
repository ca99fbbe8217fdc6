"""How many different values a column has by its dtype and its declaration: where few, an engine counts them itself."""

from __future__ import annotations

import math
from typing import Any

import narwhals.stable.v2 as nw

from skdp.domain import Categories, Interval


def most_values(dtype: Any, low: Any, high: Any) -> float:
    """Return how many values a column has between two ends, missing among them.

    Parameters
    ----------
    dtype : narwhals dtype
        Of the column.
    low, high : float, date or datetime
        The ends.

    Returns
    -------
    float
        Infinite unless the values are whole numbers or days.

    Examples
    --------
    >>> most_values(nw.Int32(), 0.0, 100.0), most_values(nw.Float64(), 0.0, 100.0)
    (102.0, inf)
    """
    if isinstance(low, float):
        return high - low + 2 if dtype.is_integer() else math.inf
    return float((high - low).days + 2) if dtype == nw.Date else math.inf


def most_declared(dtype: Any, attribute: Categories | Interval) -> float:
    """Return how many values of a column are declared.

    Parameters
    ----------
    dtype : narwhals dtype
        Of the column.
    attribute : Categories or Interval
        What is declared.

    Returns
    -------
    float
        Infinite for bins of what is neither whole numbers nor days.
    """
    if isinstance(attribute, Interval):
        return most_values(dtype, attribute.edges[0], attribute.edges[-1])
    return len(attribute)


def dtypes_of(sample: Any) -> list[Any]:
    """Return the dtypes of the columns of a table.

    Parameters
    ----------
    sample : pandas, polars or pyarrow table
        The table.

    Returns
    -------
    list of narwhals dtype
        In the order of the columns.
    """
    return list(nw.from_native(sample, eager_only=True).schema.values())
