"""Columns whose values nobody can declare: found with a share of the budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import domains_of_dtypes
from skdp.coding import ColumnError, is_missing, kind_of
from skdp.domain import Domain
from skdp.frames import Table
from skdp.randomness import ByteSource
from skdp.synthesis._discovery import count_values, discover_values

OTHER = "other"
"""Stands for values of text that are not found, in columns of text; elsewhere, missing does."""

Counts = dict[Any, tuple[list[Any], NDArray[np.int64]]]


def check_share(discover: Any, delta: Fraction) -> Fraction:
    """Check the share of the budget that is for finding values.

    Parameters
    ----------
    discover : float or None
        What the user asked for.
    delta : Fraction
        The failure probability of all.

    Returns
    -------
    Fraction
        The share, 0 for None.

    Raises
    ------
    TypeError, ValueError
        If it is no number between 0 and 1, or delta is 0: without a failure probability no value can be published.
    """
    if discover is None:
        return Fraction(0)
    if isinstance(discover, bool | np.bool_) or not isinstance(discover, int | float | np.number | Fraction):
        raise TypeError(f"discover must be None or a share between 0 and 1, got {type(discover).__name__}")
    if not 0 < discover < 1:
        raise ValueError(f"discover must be None or a share between 0 and 1, got {discover}")
    if delta == 0:
        raise ValueError("discover needs delta > 0: a value that one person has may then be published by accident only")
    return Fraction(float(discover))


def undeclared(table: Table, declared: Any) -> list[Any]:
    """List the columns that are not declared.

    Parameters
    ----------
    table : Table
        Names and dtypes.
    declared : Domain, mapping, list, Interval or None
        What the user declares.

    Returns
    -------
    list
        Names.
    """
    if isinstance(declared, Domain):
        known: Iterable[Any] = declared.columns
    elif isinstance(declared, Mapping):
        known = declared
    else:
        known = () if declared is None else table.names
    by_dtype, observed = domains_of_dtypes(table, look=False)
    declared_somehow = {*known, *by_dtype, *observed}  # whichever of the two: it must not follow from the rows
    return [name for name in table.names if name not in declared_somehow]


def count_open_columns(table: Table, names: Iterable[Any], keep: NDArray[np.bool_]) -> Counts:
    """Count the values that occur in the columns that are not declared.

    Parameters
    ----------
    table : Table
        The private table.
    names : iterable
        The columns.
    keep : ndarray of bool
        The rows that count.

    Returns
    -------
    dict of name to (list, ndarray)
        Private: the values and their counts.

    Raises
    ------
    ValueError
        If a column holds what cannot be found: numbers of many values are better declared as an `Interval`.
    """
    found: Counts = {}
    for name in names:
        try:
            found[name] = count_values(_rows(table.columns[table.names.index(name)], keep))
        except ColumnError as error:
            raise ValueError(f"column {name!r} {error}; declare its domain") from None
    return found


def find_values(
    source: ByteSource, counts: Counts, epsilon: Fraction, delta: Fraction, max_rows_per_person: int
) -> dict[Any, list[Any]]:
    """Publish the values that enough persons have, and one that stands for all others.

    Parameters
    ----------
    source : ByteSource
        The coins.
    counts : dict of name to (list, ndarray)
        What `count_open_columns` gave.
    epsilon, delta : Fraction
        What all columns together may cost; each gets the same share.
    max_rows_per_person : int
        How many rows may come or go with a person.

    Returns
    -------
    dict of name to list
        The values of each column: those that are found, and last the one for others, ``"other"`` in columns of text
        and missing elsewhere.
    """
    n = len(counts)
    found = {}
    for name, (values, numbers) in counts.items():
        published = discover_values(
            source, values, numbers, epsilon=epsilon / n, delta=delta / n, max_rows_per_person=max_rows_per_person
        )
        known = [value for value in published if not is_missing(value)]
        text = bool(known) and kind_of(known[0]) == "string"
        other = OTHER if text else None
        found[name] = [*(value for value in known if value != other), other]
    return found


def _rows(column: Any, keep: NDArray[np.bool_]) -> Any:
    """Select rows of a column of any library."""
    if keep.all():
        return column
    if isinstance(column, np.ndarray):
        return column[keep]
    return nw.from_native(column, series_only=True).filter(keep.tolist()).to_native()
