"""Reading a private table as integer codes of its public domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import read_array
from skdp.central.statistics import declared_domain
from skdp.central.statistics import find_codes as find_outside
from skdp.domain import Domain, Interval
from skdp.frames import Table, is_frame, read_table

Policy = Literal["error", "clip", "ignore"]
POLICIES = get_args(Policy)
TARGET = "target"


def with_target(table: Table, y: Any) -> Table:
    """Add the target as the last column."""
    column, name = target_column(y)
    if not table.columns or len(column) != len(table.columns[0]):
        raise ValueError(f"y has {len(column)} rows; X has {len(table.columns[0]) if table.columns else 0}")
    if name in table.names:
        raise ValueError(f"y is called {name!r} as a column of X is; give it another name")
    return Table((*table.names, name), (*table.columns, _like_table(column, table.native)), table.native)


def _like_table(column: Any, native: Any) -> Any:
    """Convert a series to the library of a table; arrays fit into all of them."""
    if isinstance(column, np.ndarray):
        return column
    series = nw.from_native(column, series_only=True)
    if isinstance(native, np.ndarray):
        return series.to_numpy()
    library = nw.from_native(native).implementation
    if series.implementation is library:
        return column
    if library.is_pyarrow():
        import pyarrow

        return pyarrow.chunked_array([series.to_arrow()])
    return series.to_pandas() if library.is_pandas() else series.to_polars()


def target_column(y: Any) -> tuple[Any, Any]:
    """Return the target as a column, and its name."""
    if is_frame(y):
        table = read_table(y)
        if len(table.names) != 1:
            raise ValueError(f"y must be one column, got {len(table.names)}")
        return table.columns[0], table.names[0]
    if isinstance(nw.from_native(y, series_only=True, pass_through=True), nw.Series):
        name = getattr(y, "name", None)
        return y, TARGET if name is None or name == "" else name
    if isinstance(y, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported, as their masked values would be released; fill them first")
    column = read_array(y, "y")
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"y must be one column, got an array of {column.ndim} dimensions")
    return column, TARGET


def check_policy(handle_unknown: Any) -> None:
    """Check what is to be done with values that are not declared."""
    if isinstance(handle_unknown, Mapping):
        return
    if not isinstance(handle_unknown, str):
        raise TypeError(
            f"handle_unknown must be one of {POLICIES}, or a mapping of column name to a declared value, got "
            f"{type(handle_unknown).__name__}"
        )
    if handle_unknown not in POLICIES:
        raise ValueError(f"handle_unknown must be one of {POLICIES}, or a mapping, got {handle_unknown!r}")


def read_codes(
    table: Table, domain: Domain, handle_unknown: Any, others: Mapping[Any, Any] | None = None
) -> list[NDArray[np.unsignedinteger]]:
    """Code the columns of a table."""
    check_policy(handle_unknown)
    codes, undeclared = find_codes(table, domain, handle_unknown, others)
    if undeclared:
        raise undeclared_error(undeclared[0])
    return codes


def find_codes(
    table: Table, domain: Domain, handle_unknown: Any, others: Mapping[Any, Any] | None = None
) -> tuple[list[NDArray[np.unsignedinteger]], list[Any]]:
    """Code the columns of a table, and say which hold values that are not declared, but have to be."""
    codes, outside = find_outside(table, domain, "error")
    instead = _replacements(domain, others) | _replacements(domain, handle_unknown)
    undeclared = []
    for name in outside:
        place = domain.columns.index(name)
        code, size = codes[place], domain.sizes[place]
        if name in instead:
            code[code == size] = instead[name]
            continue
        if handle_unknown == "clip" and isinstance(domain[name], Interval):
            _clip(code, domain[name], table.columns[place])
        if handle_unknown != "ignore" and (code == size).any():
            undeclared.append(name)
    return codes, undeclared


def undeclared_error(name: Any) -> ValueError:
    """Make the error of a value that is not declared; it shows no value."""
    return ValueError(
        f"column {name!r} holds a value, or a NaN or inf, outside the declared domain. Declare it (None among the "
        "values is missing), or set handle_unknown: 'clip' for bins, {column: declared value} for the unforeseen, or "
        "'ignore' to leave such rows out."
    )


def _replacements(domain: Domain, handle_unknown: Any) -> dict[Any, int]:
    """Return the code of the value that stands for what is not declared."""
    if not isinstance(handle_unknown, Mapping):
        return {}
    found = {}
    for name, value in handle_unknown.items():
        if name not in domain.columns:
            raise ValueError(f"handle_unknown names {name!r}, which is no column of the domain")
        values = domain[name]
        numeric = isinstance(values, Interval) and values.dtype.kind == "f"
        (code,) = values.encode(np.array([value], float if numeric else object))
        if code == len(values):
            raise ValueError(f"handle_unknown of column {name!r} must be one of its declared values")
        found[name] = int(code)
    return found


def _clip(codes: NDArray[np.unsignedinteger], interval: Any, column: Any) -> None:
    """Put values beyond the ends, infinite numbers too, into the first or the last bin."""
    values = interval.read(column)
    edges = np.array(interval.edges, values.dtype)
    codes[values < edges[0]] = 0
    codes[values > edges[-1]] = len(interval.edges) - 2


def read_declared(table: Table, declared: Any, found: Mapping[Any, Any] | None = None) -> Domain:
    """Build the domain of a table from what is declared; nothing is read from the data."""
    if found:
        known = declared if isinstance(declared, Mapping) else {}
        if isinstance(declared, Domain):
            known = {name: declared[name] for name in declared.columns}
        declared = {**known, **found}
    return declared_domain(table, declared, "domain")
