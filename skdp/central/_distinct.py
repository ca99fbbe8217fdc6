"""How many different values a column has by its dtype and its declaration: where few, an engine counts them itself."""

from __future__ import annotations

import math
from typing import Any

import narwhals.stable.v2 as nw

from skdp.domain import Categories, Interval


def most_values(dtype: Any, low: Any, high: Any) -> float:
    """Return how many values a column has between two ends, missing among them."""
    if isinstance(low, float):
        return high - low + 2 if dtype.is_integer() else math.inf
    return float((high - low).days + 2) if dtype == nw.Date else math.inf


def most_declared(dtype: Any, attribute: Categories | Interval) -> float:
    """Return how many values of a column are declared."""
    if isinstance(attribute, Interval):
        return most_values(dtype, attribute.edges[0], attribute.edges[-1])
    return len(attribute)


def dtypes_of(sample: Any) -> list[Any]:
    """Return the dtypes of the columns of a table."""
    return list(nw.from_native(sample, eager_only=True).schema.values())
