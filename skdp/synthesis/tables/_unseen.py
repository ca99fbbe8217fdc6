"""Values of public columns that no row of `fit` had: nothing private depends on them, so others stand for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.domain import Categories, Domain, Interval
from skdp.pages import warn
from skdp.tables import (
    ORDERED_KINDS,
    ColumnError,
    Table,
    as_objects,
    kind_of,
    present,
    to_dates,
    to_numbers,
)


def without_values(table: Table, names: Collection[Any]) -> Table:
    """Make all values of some columns missing."""
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        if name in names:
            column = np.full(len(column), None, object)
        columns.append(column)
    return replace(table, columns=tuple(columns))


def warn_passed_through(reasons: Mapping[Any, str]) -> None:
    """Warn of public columns that the model leaves out, with the reasons."""
    if not reasons:
        return
    parts = [f"column {name!r} {reason}" for name, reason in reasons.items()]
    warn(
        "public columns are returned as they are, but left out of the model of the "
        f"protected ones: {'; '.join(parts)}",
        UserWarning,
        about="guide/protected_columns",
        stacklevel=level_of_the_caller(),
    )


def has_order(values: Categories | Interval) -> bool:
    """Whether values that were read, and so are sorted, are numbers or dates."""
    listed = present(values.values)
    return bool(listed) and kind_of(listed[0]) in ORDERED_KINDS


def choose_substitutes(
    domain: Domain, codes: Sequence[NDArray[np.integer]], names: Iterable[Any]
) -> dict[Any, Any]:
    """Choose, for each public column, the value that stands for values that no row of `fit` has."""
    # The columns are public, and these counts exact.
    substitutes = {}
    for name in names:
        values = domain[name]
        column_codes = codes[domain.columns.index(name)]
        counts = np.bincount(column_codes, minlength=len(values)).astype(float)
        # Of numbers and dates, `take_nearest` replaces all but missing ones, which the
        # median stands for. Other values that were not seen are rare, and rare values
        # are counted together: the rarest stands for them.
        code = _median_code(counts) if has_order(values) else _rarest_code(counts)
        substitutes[name] = values.values[code]
    return substitutes


def _median_code(counts: NDArray[np.float64]) -> int:
    return int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))


def _rarest_code(counts: NDArray[np.float64]) -> int:
    return int(np.where(counts == 0, np.inf, counts).argmin())


def take_nearest(
    codes: NDArray[np.unsignedinteger], values: Categories | Interval, column: Any
) -> None:
    """Give numbers and dates without a code that of the nearest value or bin."""
    if not has_order(values):
        return
    listed = as_objects(present(values.values))
    kind = kind_of(listed[0])
    # Of a categorical dtype, or with a time zone, values are no numbers.
    with suppress(ColumnError):
        points = _as_numbers(listed, kind)
        numbers = _as_numbers(column, kind)
        is_unseen = (codes == len(values)) & ~np.isnan(numbers)
        middles = points[:-1] / 2 + points[1:] / 2
        codes[is_unseen] = np.searchsorted(middles, numbers[is_unseen])


def _as_numbers(column: Any, kind: str) -> NDArray[np.float64]:
    """Return numbers, or dates in microseconds, as floats; nan for what is none."""
    if kind == "number":
        return to_numbers(column).astype(float)
    dates = to_dates(column, np.dtype("datetime64[us]"))
    return np.where(np.isnat(dates), np.nan, dates.astype(np.int64))
