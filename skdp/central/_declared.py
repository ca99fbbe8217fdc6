"""Domains of central releases: always declared, never read from the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import read_domain
from skdp.central._filling import find_missing
from skdp.domain import Domain, Interval
from skdp.frames import Table


def declared_domain(table: Table, declared: Any, name: str) -> Domain:
    """Build the domain of a table from what is declared."""
    if isinstance(declared, Interval):
        declared = dict.fromkeys(table.names, declared)
    if declared is None:
        declared = {}
    if isinstance(declared, str):
        raise ValueError(f"{name} must be declared; the values of the data would reveal somebody's")
    return read_domain(table, declared, name=name)


def check_policy(handle_unknown: Any) -> None:
    """Check what is to be done with values that are not declared."""
    if not isinstance(handle_unknown, str) or handle_unknown not in ("error", "ignore"):
        raise ValueError(f"handle_unknown must be 'error' or 'ignore', got {handle_unknown!r}")


def read_codes(
    table: Table, domain: Domain, handle_unknown: Any, name: str, *, missing: bool = False
) -> list[NDArray[np.unsignedinteger]]:
    """Code the columns of a table."""
    check_policy(handle_unknown)
    codes, undeclared = find_codes(table, domain, handle_unknown, missing=missing)
    if undeclared:
        raise undeclared_error(undeclared[0], name, missing=missing)
    return codes


def find_codes(
    table: Table, domain: Domain, handle_unknown: str, *, missing: bool = False
) -> tuple[list[NDArray[np.unsignedinteger]], list[Any]]:
    """Code the columns of a table, and say which hold values that are not declared, but have to be."""
    codes = domain.encode(table.columns)
    if handle_unknown == "ignore":
        return codes, []
    undeclared = []
    for column, size, found, values in zip(domain.columns, domain.sizes, codes, table.columns, strict=True):
        outside = found == size
        if missing:
            outside &= ~find_missing(values)
        if outside.any():
            undeclared.append(column)
    return codes, undeclared


def undeclared_error(column: Any, name: str, *, missing: bool = False) -> ValueError:
    """Make the error of a value that is not declared; it shows no value."""
    what = "a value" if missing else "a value, or a NaN or inf,"
    return ValueError(
        f"column {column!r} holds {what} outside the declared {name}. Declare it, or set handle_unknown='ignore'."
    )
