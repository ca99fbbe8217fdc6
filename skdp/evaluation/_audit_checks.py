"""Checks of what an audit is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import is_missing
from skdp.evaluation._audit_hashes import combine, hash_cells
from skdp.evaluation._audit_outputs import read_rows
from skdp.evaluation._audit_records import count_rows
from skdp.frames import is_frame


def check_release(release: Any) -> None:
    """Refuse a class where an instance is meant."""
    if isinstance(release, type) and any(hasattr(release, name) for name in ("transform", "report", "fit")):
        name = release.__name__
        raise TypeError(f"release must be a transformer or a callable, got the class {name}: give {name}(...)")


def check_count(value: Any, name: str, *, least: int) -> None:
    """Check a whole number that may be None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_confidence(confidence: Any) -> None:
    """Check the probability that the bound is right."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real):
        raise TypeError(f"confidence must be a number between 0 and 1, got {type(confidence).__name__}")
    if not 0 < float(confidence) < 1:
        raise ValueError(f"confidence must be a number between 0 and 1, got {confidence!r}")


def check_statistic(statistic: Callable[[Any], Any] | None) -> None:
    """Check that a statistic can be called."""
    if statistic is not None and not callable(statistic):
        raise TypeError(f"statistic must be a callable, or None, got {type(statistic).__name__}")


def check_pair(neighbours: Any) -> None:
    """Check that there are two tables."""
    if neighbours is None:
        return
    if is_frame(neighbours) or isinstance(neighbours, str) or not isinstance(neighbours, Sequence | np.ndarray):
        raise TypeError(f"neighbours must be a pair of tables, got {type(neighbours).__name__}")
    if len(neighbours) != 2:
        raise ValueError(f"neighbours must be two tables that differ in one record, got {len(neighbours)}")


def check_replaced(tables: Sequence[Any]) -> None:
    """Check that two tables differ in exactly one row, as neighbours do where one record is replaced."""
    sizes = [count_rows(table) for table in tables]
    if sizes[0] != sizes[1]:
        raise ValueError(f"neighbours must have equally many rows, got {sizes[0]} and {sizes[1]}")
    one, other = map(_row_hashes, tables)
    differing = int((one != other).sum())
    if differing != 1:
        raise ValueError(f"neighbours must differ in exactly one row, got tables that differ in {differing}")


def check_distinct(tables: Sequence[Any]) -> None:
    """Check that two tables are not the same, as far as they can be read."""
    if tables[0] is tables[1] or _alike(*tables):
        raise ValueError("neighbours must differ in one record, got the same table twice")


def _alike(one: Any, other: Any) -> bool:
    try:
        return count_rows(one) == count_rows(other) and bool((_row_hashes(one) == _row_hashes(other)).all())
    except Exception:
        return False  # no tables that we know: whoever releases them does


def _row_hashes(table: Any) -> NDArray[np.uint64]:
    rows = count_rows(table)
    if not is_frame(table) and not isinstance(table, np.ndarray):
        table = np.array(table, dtype=object)
    columns = [_hash_column(column) for column in read_rows(table, rows).values()]
    hashes = columns[0]
    for column in columns[1:]:
        hashes = combine(hashes, column)
    return hashes


def _hash_column(column: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash cells; None and nan, which are one to an attacker of outputs, may be what a pair of inputs differs in."""
    cells = column.astype(object)
    for place, cell in enumerate(cells):
        if is_missing(cell):
            cells[place] = ("missing", type(cell).__name__)
    return hash_cells(cells)
