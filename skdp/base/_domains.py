"""The domain of a table: as it is declared, as its dtypes declare it, or as it is read from the data with a warning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.base._inputs import check_declared
from skdp.base._warnings import warn_once
from skdp.domain import FEW, Categories, Domain, Interval, edge_text
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import ColumnError, Table, distinct_values


def read_domain(
    table: Table, categories: Any, *, name: str = "categories", why_declared: str = ""
) -> Domain:
    """Build the domain of a table from declarations, or from the data with a warning."""
    # Unordered categories of pandas (see `domains_of_dtypes`) are used with the same
    # warning, whatever the rows are.
    by_dtype, observed = domains_of_dtypes(table)
    declared = _declared(table, categories, name, by_dtype | observed)
    undeclared = [
        column
        for column in table.names
        if column not in declared or declared[column] is observed.get(column)
    ]
    if undeclared and why_declared:
        raise ValueError(
            f"the categories of {', '.join(map(repr, undeclared))} must be declared: "
            f"{why_declared}"
        )
    if undeclared:
        warn_of_observed(undeclared, name)
    attributes = {}
    for column, values in zip(table.names, table.columns, strict=True):
        is_declared = column in declared
        attributes[column] = (
            declared[column] if is_declared else _observed(column, values)
        )
    domain = Domain(attributes)
    for column in undeclared:
        domain[column].observed = True  # for `privacy_statement`
    return domain


def warn_of_observed(names: Sequence[Any], parameter: str) -> None:
    """Warn that the categories of some columns come from the data."""
    warn_once(
        f"the categories of {', '.join(map(repr, names))} are read from the data, so "
        f"which values occur is not protected; declare them with {parameter}=, as "
        "lists of values or a Domain. A categorical dtype of pandas declares its "
        "categories only if they are ordered: others may be just the values that occur",
        PrivacyLeakWarning,
    )


def _declared(
    table: Table, categories: Any, parameter: str, by_dtype: dict[Any, list[Any]]
) -> dict[Any, Any]:
    expected = f"{parameter} must be 'auto', a list, a mapping or a Domain"
    if isinstance(categories, str):
        if categories != "auto":
            raise ValueError(f"{expected}, got {categories!r}")
        return by_dtype
    if isinstance(categories, Domain):
        categories = {name: categories[name] for name in categories.columns}
    if isinstance(categories, Mapping):
        declared = {**by_dtype, **categories}
        hint = "; the values that each may take are needed, from what is publicly known"
        check_declared(declared, table.names, parameter, hint)
        return declared
    if not isinstance(categories, Sequence | np.ndarray):
        raise TypeError(f"{expected}, got {type(categories).__name__}")
    if len(categories) != len(table.names):
        raise ValueError(
            f"{parameter} has {len(categories)} lists of values; it needs one for each "
            f"of the columns {list(table.names)}"
        )
    return dict(zip(table.names, categories, strict=True))


DECLARED = b"skdp.values." + token_hex(8).encode()
"""Key of the metadata that declares the values of an Arrow field, as JSON (an Arrow dictionary has those that occur).
It differs between processes, so that a file cannot declare anything."""


def domains_of_dtypes(
    table: Table,
) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    """Return the domains that dtypes declare, and those that dtypes may have taken from the data."""
    # An Enum of Polars and an ENUM of DuckDB declare their values, and so do ordered
    # categories of pandas. Unordered ones may be just the values that occur, and the
    # bins of ``pandas.cut`` may have ends from the data. Only the dtype decides: one
    # rare record may decide whether all categories occur, and so it would on a warning.
    declared: dict[Any, list[Any]] = {}
    observed: dict[Any, list[Any]] = {}
    for name, column in zip(table.names, table.columns, strict=True):
        dtype = getattr(column, "dtype", None)
        if isinstance(dtype, pd.CategoricalDtype):
            are_bins = isinstance(dtype.categories, pd.IntervalIndex)
            domains = declared if dtype.ordered and not are_bins else observed
            domains[name] = dtype.categories.tolist()
        elif not isinstance(column, np.ndarray | pd.Series):
            series = nw.from_native(column, series_only=True)
            metadata = _field_metadata(table.native, name)
            if series.dtype == nw.Enum:
                declared[name] = series.cat.get_categories().to_list()
            elif DECLARED in metadata:
                declared[name] = json.loads(metadata[DECLARED])
    return declared, observed


def _field_metadata(native: Any, name: Any) -> Mapping[bytes, bytes]:
    is_arrow = type(native).__module__.startswith("pyarrow")
    if not is_arrow or name not in native.schema.names:
        return {}
    return native.schema.field(name).metadata or {}


def _observed(name: Any, column: Any) -> Categories:
    try:
        values, has_missing = distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r} {error}; declare its categories") from None
    if has_missing:
        raise ValueError(
            f"column {name!r} holds missing values (NaN); declare its categories, with "
            "None among them for missing"
        )
    try:
        return Categories(values)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def declares_missing(domain: Domain) -> bool:
    """Whether missing is a declared value of some column."""
    return any(None in domain[name].values for name in domain.columns)


UNIFORM = (
    "The last resort is handle_unknown='uniform': such rows become uniform random "
    "values, which draw all estimates towards equal counts"
)
"""What a local transformer does with a value that is not declared, if asked."""

_IGNORE = "Or set handle_unknown='ignore', which leaves such values out of all counts"
"""What a statistic does with it, if asked."""


def undeclared_error(
    column: Any,
    values: Categories | Interval,
    *,
    what: str = "a value, or a NaN or inf,",
    where: str = "declared categories",
    advice: str = _IGNORE,
    missing_is_undeclared: bool = True,
) -> ValueError:
    """Make the error of a value that is not declared: it shows what is declared, which is public, and not the value."""
    declare = "Declare all values that can occur"
    if missing_is_undeclared and None not in values.labels:
        missing = "missing=True" if isinstance(values, Interval) else "None"
        declare += f", and add {missing} to declare missing"
    return ValueError(
        f"column {column!r} holds {what} outside the {where}, {_described(values)}. "
        f"{declare}. {advice}."
    )


def _described(values: Categories | Interval) -> str:
    """Describe declared values: all of them, if they are few."""
    if isinstance(values, Interval) and not values.observed:
        # Not the number of bins, which may be that of finer cells, and says nothing of
        # what is outside.
        low, high = edge_text(values.edges[0]), edge_text(values.edges[-1])
        missing = ", or missing" if values.missing else ""
        return f"values from {low} to {high}{missing}"
    is_cut = len(values) > FEW and not values.observed
    return f"{values!r} ({len(values):,} values)" if is_cut else repr(values)
