"""Reading the public domain of a table: declared, carried by its dtypes, or read from the data with a warning."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.coding import ColumnError, distinct_values
from skdp.domain import Categories, Domain
from skdp.frames import Table
from skdp.privacy import PrivacyLeakWarning


def read_domain(table: Table, categories: Any, *, name: str = "categories", why_declared: str = "") -> Domain:
    """Build the domain of a table from declarations, or from the data with a warning."""
    # Categories of pandas that may be just the values that occur (see `domains_of_dtypes`) are used with the same
    # warning, so the warning does not change the domain. `privacy_statement` counts all unordered categories of pandas
    # as such.
    by_dtype, observed = domains_of_dtypes(table, look=not why_declared)
    declared = _declared(table, categories, name, by_dtype | observed)
    read = [column for column in table.names if column not in declared or declared[column] is observed.get(column)]
    if read and why_declared:
        raise ValueError(f"the categories of {', '.join(map(repr, read))} must be declared: {why_declared}")
    if read:
        warn_of_observed(read, name)
    for column, values in zip(table.names, table.columns, strict=True):
        if column not in declared:
            declared[column] = _observed(column, values)
    domain = Domain({column: declared[column] for column in table.names})
    for column, values in zip(table.names, table.columns, strict=True):
        # For `privacy_statement`, by the dtype alone: which categories occur is private, and only decides on a warning.
        by_its_dtype = declared[column] is by_dtype.get(column) and _is_unordered(values)
        if column in read or by_its_dtype:
            domain[column].observed = True
    return domain


def warn_of_observed(names: Sequence[Any], parameter: str) -> None:
    """Warn that the categories of some columns come from the data."""
    warnings.warn(
        f"the categories of {', '.join(map(repr, names))} are read from the data, so which values occur is not "
        f"protected; declare them with {parameter}=, as lists of values or a Domain. A categorical dtype declares its "
        "categories only if they are ordered, or are not just the values that occur (an Enum always does)",
        PrivacyLeakWarning,
        stacklevel=level_of_the_caller(),
    )


def _declared(table: Table, categories: Any, parameter: str, by_dtype: dict[Any, list[Any]]) -> dict[Any, Any]:
    if isinstance(categories, str):
        if categories != "auto":
            raise ValueError(f"{parameter} must be 'auto', a list, a mapping or a Domain, got {categories!r}")
        return dict(by_dtype)
    if isinstance(categories, Domain):
        categories = {name: categories[name] for name in categories.columns}
    if isinstance(categories, Mapping):
        unknown = [name for name in categories if name not in table.names]
        if unknown:
            raise ValueError(f"{parameter} declares columns that X does not have: {unknown}; X has {list(table.names)}")
        declared = by_dtype | dict(categories)
        absent = [name for name in table.names if name not in declared]
        if absent:
            raise ValueError(
                f"{parameter} declares nothing for the columns {absent}; the values that each may take are needed, "
                "from what is publicly known"
            )
        return declared
    if isinstance(categories, Sequence | np.ndarray):
        if len(categories) != len(table.names):
            raise ValueError(f"{parameter} has {len(categories)} lists of values; X has {len(table.names)} columns")
        return dict(zip(table.names, categories, strict=True))
    raise TypeError(f"{parameter} must be 'auto', a list, a mapping or a Domain, got {type(categories).__name__}")


DECLARED = b"skdp.values." + token_hex(8).encode()
"""Key of the metadata that declares the values of an Arrow field, as JSON (an Arrow dictionary has those that occur).
It differs between processes, so that a file cannot declare anything."""


def domains_of_dtypes(table: Table, *, look: bool = True) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    """Return the domains that dtypes declare, and those that dtypes may have taken from the data."""
    # An Enum of Polars and an ENUM of DuckDB declare their values. Categories of pandas do if they are ordered or
    # unsorted, or if some do not occur. They may come from the data if they are just the values that occur, sorted
    # or in order of appearance (as in an Arrow dictionary), or if they are the bins of ``pandas.cut``.
    declared: dict[Any, list[Any]] = {}
    observed: dict[Any, list[Any]] = {}
    for name, column in zip(table.names, table.columns, strict=True):
        if isinstance(column, np.ndarray):
            continue
        if isinstance(column, pd.Series):
            if isinstance(column.dtype, pd.CategoricalDtype):
                found = observed if _may_be_observed(column if look else column.iloc[:0]) else declared
                found[name] = column.dtype.categories.tolist()
        elif nw.from_native(column, series_only=True).dtype == nw.Enum:
            declared[name] = nw.from_native(column, series_only=True).cat.get_categories().to_list()
        elif DECLARED in (metadata := _field_metadata(table.native, name)):
            declared[name] = json.loads(metadata[DECLARED])
    return declared, observed


def _may_be_observed(column: pd.Series) -> bool:
    """Whether the categories of a column may have been read from its values."""
    categories = column.cat.categories
    if isinstance(categories, pd.IntervalIndex):
        return True  # bins whose ends may come from the data
    if column.cat.ordered:
        return False
    if len(column) == 0:
        return _is_sorted(categories)
    found = np.asarray(column.cat.codes.unique())  # in order of appearance
    found = found[found >= 0]
    return len(found) == len(categories) and (_is_sorted(categories) or bool(np.all(np.diff(found) > 0)))


def _is_unordered(column: Any) -> bool:
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, pd.CategoricalDtype) and not dtype.ordered


def _is_sorted(categories: pd.Index) -> bool:
    return bool(categories.is_monotonic_increasing)  # False for values without an order, which pandas does not sort


def _field_metadata(native: Any, name: Any) -> Mapping[bytes, bytes]:
    if not type(native).__module__.startswith("pyarrow") or name not in native.schema.names:
        return {}
    return native.schema.field(name).metadata or {}


def _observed(name: Any, column: Any) -> Categories:
    try:
        values, missing = distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r} {error}; declare its categories") from None
    if missing:
        raise ValueError(
            f"column {name!r} holds missing values (NaN); declare its categories, with None among them for missing"
        )
    try:
        return Categories(values)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def level_of_the_caller() -> int:
    """Return the stacklevel of the first frame outside skdp and scikit-learn."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("skdp", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level


def declares_missing(domain: Domain) -> bool:
    """Whether missing is a declared value of some column."""
    return any(None in domain[name].values for name in domain.columns)
