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
"""Stands for values of text that are not found; elsewhere, missing does. It is never found itself: a record that has it
as a value counts as one of them."""

_MUCH = 0.1
"""The share of records without a found value from which a warning names the column."""

Counts = dict[Any, tuple[list[Any], NDArray[np.int64]]]


def check_share(discover: Any, delta: Fraction) -> Fraction:
    """Check the share of the budget that is for finding values."""
    if discover is None:
        return Fraction(0)
    if isinstance(discover, bool | np.bool_) or not isinstance(
        discover, int | float | np.number | Fraction
    ):
        raise TypeError(
            f"discover must be None or a share between 0 and 1, got {type(discover).__name__}"
        )
    if not 0 < discover < 1:
        raise ValueError(
            f"discover must be None or a share between 0 and 1, got {discover}"
        )
    if delta == 0:
        raise ValueError(
            "discover needs delta > 0: a value that one person has may then be published by accident only"
        )
    return Fraction(float(discover))


def undeclared(table: Table, declared: Any) -> list[Any]:
    """List the columns that are not declared."""
    if isinstance(declared, Domain):
        known: Iterable[Any] = declared.columns
    elif isinstance(declared, Mapping):
        known = declared
    else:
        known = () if declared is None else table.names
    by_dtype, _ = domains_of_dtypes(table)
    return [name for name in table.names if name not in {*known, *by_dtype}]


def count_open_columns(
    table: Table, names: Iterable[Any], keep: NDArray[np.bool_]
) -> Counts:
    """Count the values that occur in the columns that are not declared."""
    found: Counts = {}
    for name in names:
        try:
            values, numbers = shielded(
                count_distinct, _rows(table.columns[table.names.index(name)], keep)
            )
        except ColumnError as error:
            raise ValueError(f"column {name!r} {error}; declare its domain") from None
        kept = [place for place, value in enumerate(values) if value != UNDISCOVERED]
        found[name] = [values[place] for place in kept], numbers[kept]
    return found


def check_not_named(
    names: Iterable[Any],
    handle_unknown: Any,
    zeros: Any,
    *,
    why: str = "whose values discover= is to find; declare them",
) -> None:
    """Refuse parameters that name values of columns whose values, or bins, are not known yet."""
    combinations = (
        zeros if isinstance(zeros, Iterable) and not isinstance(zeros, Mapping) else ()
    )
    given = [
        ("handle_unknown", handle_unknown),
        *(("structural_zeros", combination) for combination in combinations),
    ]
    for name in names:
        for parameter, named in given:
            if isinstance(named, Mapping | tuple) and name in named:
                raise ValueError(f"{parameter} names column {name!r}, {why}")


def find_values(
    source: ByteSource,
    counts: Counts,
    epsilon: Fraction,
    delta: Fraction,
    max_rows_per_person: int,
    most: int,
) -> tuple[dict[Any, list[Any]], set[Any]]:
    """Publish the values that enough persons have, and one that stands for all others."""
    n = len(counts)
    found: dict[Any, list[Any]] = {}
    mixed: set[Any] = set()
    for name, (values, numbers) in counts.items():
        published = discover_values(
            source,
            values,
            numbers,
            epsilon=epsilon / n,
            delta=delta / n,
            max_rows_per_person=max_rows_per_person,
            most=most - 1,
        )
        text = any(isinstance(value, str) for value in published)
        if not text and None in published:
            published.remove(None)
            mixed.add(name)
        found[name] = [*published, UNDISCOVERED if text else None]
    return found, mixed


def count_others(
    model: GraphicalModel, domain: Domain, total: float, others: Mapping[Any, Any]
) -> dict[Any, float]:
    """Estimate how many records have a value that was not found."""
    return {
        name: total
        * float(
            model.marginal((domain.columns.index(name),))[
                domain[name].values.index(other)
            ]
        )
        for name, other in others.items()
    }


def warn_undiscovered(
    domain: Domain, counts: Mapping[Any, float], total: float, mixed: Collection[Any]
) -> None:
    """Warn of columns of which no value was found, or which lost many."""
    lines = []
    for name, count in counts.items():
        if len(domain[name]) == 1 and name not in mixed:
            lines.append(
                f"column {name!r}: no value is frequent enough, so all are missing in what is drawn"
            )
        elif count > _MUCH * total and name not in mixed:
            lines.append(
                f"column {name!r}: about {round(100 * count / total)} % of the records have no value found"
            )
    if lines:
        advice = (
            "; declare what is publicly known, or spend more (epsilon, delta, discover)"
        )
        warnings.warn(
            "discover= has left values out. " + "; ".join(lines) + advice,
            stacklevel=level_of_the_caller(),
        )


def _rows(column: Any, keep: NDArray[np.bool_]) -> Any:
    """Select rows of a column of any library."""
    if keep.all():
        return column
    if isinstance(column, np.ndarray):
        return column[keep]
    return nw.from_native(column, series_only=True).filter(keep.tolist()).to_native()
