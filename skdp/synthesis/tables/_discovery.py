"""Columns whose values are found privately, where nobody can declare them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import domains_of_dtypes, level_of_the_caller
from skdp.central.statistics import count_distinct, discover_values
from skdp.domain import Domain
from skdp.randomness import ByteSource
from skdp.synthesis.model import GraphicalModel
from skdp.tables import ColumnError, Table, shielded

UNDISCOVERED = "<not discovered>"
"""Stands for values of text that are not found; elsewhere, missing does.

It is never found itself: a record that has it as a value counts as one of them."""

_MUCH = 0.1
"""The share of records without a found value from which a warning names the column."""

Counts = dict[Any, tuple[list[Any], NDArray[np.int64]]]
"""For each column, its values and their numbers of records."""


def check_share(discover: Any, delta: Fraction) -> Fraction:
    """Check the share of the budget that is for finding values."""
    if discover is None:
        return Fraction(0)
    expected = "discover must be None or a share between 0 and 1"
    is_number = isinstance(discover, int | float | np.number | Fraction)
    if not is_number or isinstance(discover, bool):
        raise TypeError(f"{expected}, got {type(discover).__name__}")
    if not 0 < discover < 1:
        raise ValueError(f"{expected}, got {discover}")
    if delta == 0:
        raise ValueError(
            "discover needs delta > 0: a value that one person has may then be "
            "published by accident only"
        )
    return Fraction(float(discover))


def undeclared(table: Table, declared: Any) -> list[Any]:
    """List the columns that are not declared."""
    names: Iterable[Any] = ()
    if isinstance(declared, Domain):
        names = declared.columns
    elif isinstance(declared, Mapping):
        names = declared
    elif declared is not None:
        names = table.names
    by_dtype, _ = domains_of_dtypes(table)
    return [name for name in table.names if name not in {*names, *by_dtype}]


def count_open_columns(
    table: Table, names: Iterable[Any], keep: NDArray[np.bool_]
) -> Counts:
    """Count the values that occur in the columns that are not declared."""
    counts: Counts = {}
    for name in names:
        column = table.columns[table.names.index(name)]
        try:
            values, numbers = shielded(count_distinct, _rows(column, keep))
        except ColumnError as error:
            raise ValueError(f"column {name!r} {error}; declare its domain") from None
        places = [place for place, value in enumerate(values) if value != UNDISCOVERED]
        counts[name] = ([values[place] for place in places], numbers[places])
    return counts


def check_not_named(
    names: Iterable[Any],
    handle_unknown: Any,
    zeros: Any,
    *,
    why: str = "whose values discover= is to find; declare them",
) -> None:
    """Refuse parameters that name values of columns that are not known yet."""
    named = [("handle_unknown", handle_unknown)]
    if isinstance(zeros, Iterable) and not isinstance(zeros, Mapping):
        for combination in zeros:
            named.append(("structural_zeros", combination))
    for name in names:
        for parameter, value in named:
            if isinstance(value, Mapping | tuple) and name in value:
                raise ValueError(f"{parameter} names column {name!r}, {why}")


def find_values(
    source: ByteSource,
    counts: Counts,
    epsilon: Fraction,
    delta: Fraction,
    max_rows_per_person: int,
    most: int,
) -> tuple[dict[Any, list[Any]], set[Any]]:
    """Publish the values that enough persons have, and one that stands for others."""
    n_columns = len(counts)
    values_of_columns: dict[Any, list[Any]] = {}
    mixed: set[Any] = set()
    for name, (values, numbers) in counts.items():
        published = discover_values(
            source,
            values,
            numbers,
            epsilon=epsilon / n_columns,
            delta=delta / n_columns,
            max_rows_per_person=max_rows_per_person,
            most=most - 1,
        )
        is_text = any(isinstance(value, str) for value in published)
        if not is_text and None in published:
            published.remove(None)
            mixed.add(name)
        published.append(UNDISCOVERED if is_text else None)
        values_of_columns[name] = published
    return values_of_columns, mixed


def count_others(
    model: GraphicalModel, domain: Domain, total: float, others: Mapping[Any, Any]
) -> dict[Any, float]:
    """Estimate how many records have a value that was not found."""
    counts = {}
    for name, value in others.items():
        shares = model.marginal((domain.columns.index(name),))
        counts[name] = total * float(shares[domain[name].values.index(value)])
    return counts


def warn_undiscovered(
    domain: Domain, counts: Mapping[Any, float], total: float, mixed: Collection[Any]
) -> None:
    """Warn of columns of which no value was found, or which lost many."""
    lines = []
    for name, count in counts.items():
        if name in mixed:
            continue
        if len(domain[name]) == 1:
            lines.append(
                f"column {name!r}: no value is frequent enough, so all are missing in "
                "what is drawn"
            )
        elif count > _MUCH * total:
            percent = round(100 * count / total)
            lines.append(
                f"column {name!r}: about {percent} % of the records have no value found"
            )
    if lines:
        warnings.warn(
            f"discover= has left values out. {'; '.join(lines)}; declare what is "
            "publicly known, or spend more (epsilon, delta, discover)",
            stacklevel=level_of_the_caller(),
        )


def _rows(column: Any, keep: NDArray[np.bool_]) -> Any:
    """Select rows of a column of any library."""
    if keep.all():
        return column
    if isinstance(column, np.ndarray):
        return column[keep]
    return nw.from_native(column, series_only=True).filter(keep.tolist()).to_native()
