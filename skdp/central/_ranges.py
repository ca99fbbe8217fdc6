"""Ranges of the cells of one column."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import is_missing, kind_of, plain
from skdp.domain import Categories, Interval

_ORDERED = ("number", "datetime")


def is_ordered(attribute: Categories | Interval) -> bool:
    """Say whether neighbouring cells of a column are neighbours by value."""
    if isinstance(attribute, Interval):
        return True
    known = [value for value in attribute.values if value is not None]
    return all(kind_of(value) in _ORDERED for value in known) and all(a < b for a, b in pairwise(known))


def find_range(name: Any, attribute: Categories | Interval, low: Any, high: Any) -> NDArray[np.bool_]:
    """Say which cells of a column lie in a half-open range."""
    known = [value for value in attribute.values if value is not None]
    ends = [_read_end(name, known, label, end) for label, end in (("low", low), ("high", high))]
    if isinstance(attribute, Interval):
        places = [_find_edge(name, attribute.edges, end) for end in ends]
    elif known and kind_of(known[0]) not in _ORDERED:
        places = [_find_value(name, attribute.values, end) for end in ends]
    else:
        start, stop = ends
        _check_order(start, stop)
        return np.array(
            [
                value is not None and (start is None or start <= value) and (stop is None or value < stop)
                for value in attribute.values
            ]
        )
    _check_order(*places)
    start, stop, _ = slice(*places).indices(len(attribute))
    return np.array([start <= place < stop and value is not None for place, value in enumerate(attribute.values)])


def _read_end(name: Any, known: Sequence[Any], label: str, end: Any) -> Any:
    if end is None:
        return None
    if is_missing(end) or (known and kind_of(end) != kind_of(known[0])):
        kinds = "a missing value" if is_missing(end) else f"a {kind_of(end)}"
        raise TypeError(f"{label} must be None or a {kind_of(known[0])}, as column {name!r} has them, got {kinds}")
    return plain(end)


def _find_edge(name: Any, edges: Sequence[Any], end: Any) -> int | None:
    """Return how many bins are below an end, which may also be outside of all."""
    if end is None:
        return None
    place = bisect_left(edges, end)
    if 0 < place < len(edges) and edges[place] != end:
        raise ValueError(
            f"the ends of a range must be edges of the bins of column {name!r}, got {end!r}; the next ones are "
            f"{_short(edges[place - 1])} and {_short(edges[place])}"
        )
    return min(place, len(edges) - 1)


def _short(edge: Any) -> str:
    return f"{edge:g}" if isinstance(edge, float) else edge.isoformat()


def _find_value(name: Any, values: Sequence[Any], end: Any) -> int | None:
    if end is not None and end not in values:
        raise ValueError(f"the ends of a range must be declared values of column {name!r}, got {end!r}")
    return None if end is None else values.index(end)


def _check_order(low: Any, high: Any) -> None:
    if low is not None and high is not None and low > high:
        raise ValueError("low must not be above high")
