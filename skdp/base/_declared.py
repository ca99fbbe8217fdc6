"""Domains of input tables, from declared values or from the data."""

from __future__ import annotations

from collections.abc import (
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

import numpy as np

from skdp.base._messages import warn_at_caller
from skdp.base._parameters import check_declared
from skdp.domain import (
    Categories,
    Domain,
    Interval,
    describe_bounds,
    domains_of_dtypes,
    round_numbers,
)
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    drop_missing,
    type_of_column,
    type_of_value,
)


def make_domain(
    table: Table, categories: Any, *, name: str = "categories", why_declared: str = ""
) -> Domain:
    """Return the domain of all columns of a table: their declared values, or the values that occur.

    `categories` is the parameter of this `name` with the declared values. Values that
    occur are used with a `PrivacyLeakWarning`; with `why_declared`, the reason,
    undeclared columns raise an error.
    """
    declared = _resolve_declared(table, categories, name)
    undeclared = [column for column in table.names if column not in declared]
    if undeclared and why_declared:
        raise ValueError(
            f"The categories of {', '.join(map(repr, undeclared))} must be declared: "
            f"{why_declared}."
        )
    if undeclared:
        warn_of_observed(undeclared, name)
    # The values of declared columns are not read.
    attributes = {}
    for column, values in zip(table.names, table.columns, strict=True):
        if column not in declared:
            attributes[column] = _find_categories(column, values)
            continue
        attributes[column] = declared[column]
        if isinstance(declared[column], Iterator):
            raise TypeError(
                f"`{name}` of column {column!r} must be a list of values, got "
                f"{type(declared[column]).__name__}, which can be read only once. Use "
                "list(...)."
            )
    domain = Domain(attributes)
    for column in undeclared:
        domain[column].observed = True  # `privacy_statement` lists these columns
    return domain


def warn_of_observed(names: Sequence[Any], parameter: str) -> None:
    """Warn that the categories of columns come from the data."""
    warn_at_caller(
        f"The categories of {', '.join(map(repr, names))} are read from the data, "
        f"which reveals the observed values; declare them with {parameter}=, as "
        "lists of values or a Domain. A categorical dtype of pandas declares its "
        "categories only if they are ordered",
        PrivacyLeakWarning,
        about="guide/encoders#categories-the-domain",
    )


def _resolve_declared(table: Table, categories: Any, parameter: str) -> dict[Any, Any]:
    """Return the declared values by column, from the parameter and from the dtypes.

    `parameter` is the name of the parameter `categories` in errors.
    """
    by_dtype = domains_of_dtypes(table)
    expected = f"`{parameter}` must be 'auto', a list, a mapping or a Domain"
    if isinstance(categories, str):
        if categories != "auto":
            raise ValueError(f"{expected}, got {categories!r}.")
        return by_dtype
    hint = ""
    if isinstance(categories, Domain):
        hint = f". The Domain declares {list(categories.columns)}"
        # A Domain may have more columns than the table.
        common = [name for name in categories.columns if name in table.names]
        categories = {name: categories[name] for name in common}
    if isinstance(categories, Mapping):
        declared = {**by_dtype, **categories}
        check_declared(declared, table.names, parameter, hint)
        return declared
    # Lists of values in the order of the columns.
    if not isinstance(categories, Sequence | np.ndarray):
        raise TypeError(f"{expected}, got {type(categories).__name__}.")
    if len(categories) != len(table.names):
        raise ValueError(
            f"`{parameter}` must have a list of values for each of the columns "
            f"{list(table.names)}, got {len(categories)} lists."
        )
    return dict(zip(table.names, categories, strict=True))


def _find_categories(name: Any, column: Any) -> Categories:
    """Return the values that occur in a column as its categories, which reveals them."""
    try:
        values, has_missing = distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"Column {name!r} {error}. Declare its categories.") from None
    if has_missing:
        raise ValueError(
            f"Column {name!r} contains missing values (NaN). Declare its categories, "
            "with None for missing values."
        )
    try:
        return Categories(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {name!r}: {error}") from None


def declares_missing(domain: Domain) -> bool:
    """Check if missing is a declared value of at least one column."""
    return any(None in domain[name].values for name in domain.columns)


# Second remedy in the errors of statistics.
_IGNORE = "Or set handle_unknown='ignore', which excludes such values from all counts"


def undeclared_error(
    name: Any,
    columns: Sequence[Any],
    domain: Domain,
    *,
    where: str = "declared categories",
    advice: str = _IGNORE,
) -> ValueError:
    """Return the error for undeclared values of the column `name`, one of the `columns` of a domain.

    `where` names the declared values in the message, and `advice` is its last sentence. Columns of a table in an
    engine have no rows. **Privacy.** The message contains declared values only, and may state that values are missing.
    """
    values = domain[name]
    cells = columns[domain.columns.index(name)]
    is_undeclared = values.encode(cells) == len(values)
    is_missing = Categories([None]).encode(cells) == 0
    if is_undeclared.any() and is_missing[is_undeclared].all():
        return ValueError(
            f"Column {name!r} contains missing values (NaN), which are not declared. "
            "Declare them, with None in a list of values or missing=True in an "
            f"Interval. {advice}."
        )
    if isinstance(values, Interval) and not values.takes_fractions:
        bounds = f"{values.edges[0]!r}, {values.edges[-1]!r}"
        if "bins" in (describe_bounds(values) or {}):
            bounds += f", bins={len(values.edges) - 1}"
        advice = f"For numbers with fractions, declare Interval({bounds}). {advice}"
        rounded, moved, _ = round_numbers(values.read(cells), 0)
        if (is_undeclared[moved] & (values.encode(rounded) < len(values))[moved]).any():
            return ValueError(
                f"Column {name!r} contains a number with a fraction, and {values!r} "
                f"declares whole numbers. {advice}."
            )
    declared = repr(values)
    # scikit-learn's check of estimators requires the word NaN.
    remedy = (
        "Declare all values that can occur, in the same spelling, and None for missing "
        "values (NaN)"
    )
    is_pair = list(map(type_of_value, values.values)) == ["number", "number"]
    if is_pair and not values.observed:
        remedy += f". For a range of numbers, declare Interval{values.values}"
    if {type_of_column(cells), *map(type_of_value, drop_missing(values.values))} == {
        "date",
        "datetime",
    }:
        remedy += ". A date is its midnight: round times with .dt.normalize()"
    if isinstance(values, Interval):
        declared = f"{values.edges[0]} to {values.edges[-1]}"
        remedy = (
            "Widen the bounds, or clip the numbers to them, and declare missing=True "
            "for missing values (NaN)"
        )
    return ValueError(
        f"Column {name!r} contains a value outside the {where}, {declared}. "
        f"{remedy}. {advice}."
    )
