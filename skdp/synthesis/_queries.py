"""Conditions on columns, as weights of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import find_range
from skdp.domain import Categories, Domain, Interval
from skdp.synthesis.tables import Shape
from skdp.tables import is_missing, to_dates

_AGES = tuple(np.array(["-0001-01-01", "10001-01-01"], "datetime64[us]"))
"""Before and after all dates of Python."""

_LITTLE = 1e-6
"""The least share of a bin, and of what is left of it, that is not taken for rounding."""


def read_conditions(
    domain: Domain, conditions: Any, shapes: Mapping[Any, Shape] | None = None
) -> dict[int, NDArray[np.float64]]:
    """Turn conditions into what share of each cell fulfils them."""
    if not isinstance(conditions, Mapping):
        raise TypeError(
            f"conditions must be a mapping of column to values or (low, high), got {type(conditions).__name__}"
        )
    found = {}
    for name, condition in conditions.items():
        place = find_column(domain, name)
        if isinstance(condition, tuple):
            if len(condition) != 2:
                raise ValueError(
                    f"the range of column {name!r} must be a pair (low, high); a list is for values"
                )
            found[place] = range_weights(
                name, domain[name], *condition, (shapes or {}).get(name)
            )
        else:
            found[place] = _value_weights(name, domain[name], condition)
    return found


def find_column(domain: Domain, name: Any, parameter: str = "") -> int:
    if name not in domain.columns:
        where = f"{parameter}: " if parameter else ""
        raise ValueError(
            f"{where}there is no column {name!r}; the columns are {list(domain.columns)}"
        )
    return domain.columns.index(name)


def find_columns(domain: Domain, names: Iterable[Any]) -> list[int]:
    """Return the places of distinct columns, at least one."""
    asked = list(names)
    places = [find_column(domain, name) for name in asked]
    if not places or len(set(places)) < len(places):
        raise ValueError(
            f"columns must name at least one column, each once, got {asked}"
        )
    return places


def range_weights(
    name: Any,
    values: Categories | Interval,
    low: Any,
    high: Any,
    shape: Shape | None = None,
) -> NDArray[np.float64]:
    """Return which share of each cell is in a half-open range: of its width, or of its records by a shape."""
    if not isinstance(values, Interval):
        return find_range(name, values, low, high).astype(float)
    start, stop = (_read_numbers if values.dtype.kind == "f" else _read_dates)(
        name, low, high
    )
    if start > stop:
        raise ValueError("low must not be above high")
    edges = np.array(
        values.edges, float if values.dtype.kind == "f" else "datetime64[us]"
    )
    first, last = (
        np.clip(start, edges[:-1], edges[1:]),
        np.clip(stop, edges[:-1], edges[1:]),
    )
    weights = (last - first) / np.diff(edges)
    if shape is not None:
        held = shape.share_below(edges[1:]) - shape.share_below(edges[:-1])
        inside = shape.share_below(last) - shape.share_below(first)
        # What the shape says is an estimate: a part of a bin is never for certain all or none of it.
        parts = np.clip(
            np.divide(inside, held, out=weights.copy(), where=held > 0),
            _LITTLE,
            1 - _LITTLE,
        )
        weights = np.where((weights > 0) & (weights < 1), parts, weights)
    return (
        np.append(weights, 0.0) if values.missing else weights
    )  # missing is in no range


def _read_numbers(name: Any, low: Any, high: Any) -> tuple[Any, Any]:
    ends = (-np.inf if low is None else low, np.inf if high is None else high)
    for end in ends:
        if (
            isinstance(end, bool | np.bool_)
            or not isinstance(end, int | float | np.number)
            or np.isnan(end)
        ):
            raise TypeError(
                f"the ends of a range of column {name!r} must be numbers or None, got {type(end).__name__}"
            )
    return ends


def _read_dates(name: Any, low: Any, high: Any) -> tuple[Any, Any]:
    found = list(to_dates(np.array([low, high, None], object)[:-1], "datetime64[us]"))
    for place, (end, open_end) in enumerate(zip((low, high), _AGES, strict=True)):
        if end is None:
            found[place] = open_end
        elif np.isnat(found[place]):
            raise TypeError(
                f"the ends of a range of column {name!r} must be dates, datetimes without a time zone, or None, got "
                f"{type(end).__name__}"
            )
    return found[0], found[1]


def _value_weights(
    name: Any, values: Categories | Interval, wanted: Any
) -> NDArray[np.float64]:
    """Return 1 for the wanted values, 0 for others."""
    if isinstance(values, Interval):
        if values.missing and is_missing(wanted):
            return np.eye(1, len(values), len(values) - 1)[0]
        raise ValueError(
            f"column {name!r} has bins: ask for a range, a tuple (low, high)"
        )
    several = isinstance(wanted, Iterable) and not isinstance(wanted, str | bytes)
    asked = [
        None if is_missing(one) else one for one in (wanted if several else [wanted])
    ]
    codes = values.encode(np.array([*asked, None], object)[:-1])
    if (codes == len(values)).any():
        raise ValueError(
            f"a value that is asked of column {name!r} is not among its declared ones"
        )
    weights = np.zeros(len(values))
    weights[codes] = 1
    return weights


def of_columns(policy: Any, names: Sequence[Any]) -> Any:
    """Restrict what is done with undeclared values to some columns."""
    return (
        policy
        if isinstance(policy, str)
        else {name: policy[name] for name in names if name in policy}
    )
