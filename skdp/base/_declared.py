"""Domains of input tables, from declared values or from the data."""

from __future__ import annotations

from collections.abc import (
    Iterator,
    Mapping,
    Sequence,
)
from copy import copy
from typing import Any

import numpy as np

from skdp._arrays import ColumnName, Integers
from skdp.base._messages import warn_at_caller
from skdp.base._parameters import check_declared
from skdp.domain import (
    MAX_WHOLE_NUMBER,
    Categories,
    Domain,
    Interval,
    check_closed,
    domains_of_dtypes,
    format_edge,
    round_numbers,
)
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    drop_missing,
    has_integer_dtype,
    type_of_column,
    type_of_value,
)


def make_domain(
    table: Table,
    categories: object,
    *,
    name: str = "categories",
    why_declared: str = "",
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
    check_closed(declared)
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


def name_declared(names: Sequence[Any], declared: object) -> Mapping[Any, Any]:
    """Return the values that a parameter `domain` declares for these columns, by name; {} if it has another type."""
    if isinstance(declared, Interval):
        return dict.fromkeys(names, declared)
    if isinstance(declared, Mapping):
        # A Domain may have more columns than the table.
        is_domain = isinstance(declared, Domain)
        return {n: declared[n] for n in declared if n in names or not is_domain}
    if isinstance(declared, Sequence) and not isinstance(declared, str):
        return dict(zip(names, declared, strict=False))
    return {}


def find_open_intervals(table: Table, declared: object) -> dict[Any, Interval]:
    """Find the intervals with an open end that a parameter `domain` declares for columns of a table.

    A dtype of integers declares whole numbers if an interval does not state the type of its numbers.
    """
    named = name_declared(table.names, declared)
    found = {}
    for name, column in zip(table.names, table.columns, strict=True):
        values = named.get(name)
        if isinstance(values, Interval) and values.is_open:
            is_whole = type_of_column(column) == "number" and has_integer_dtype(column)
            found[name] = _declare_number_type(values, is_whole=is_whole)
    return found


def _declare_number_type(interval: Interval, *, is_whole: bool) -> Interval:
    """Return an interval whose numbers are declared as whole or as fractions, unless it declares their type."""
    if interval.real or interval.decimals is not None:
        return interval
    typed = copy(interval)
    typed.real, typed.decimals = not is_whole, 0 if is_whole else None
    typed.takes_fractions = not is_whole
    return typed


def warn_of_observed(names: Sequence[Any], parameter: str) -> None:
    """Warn that the categories of columns come from the data."""
    warn_at_caller(
        f"The categories of {', '.join(map(repr, names))} are read from the data, "
        "which reveals the observed values, so their columns are unprotected; declare "
        f"them with {parameter}=, as lists of values, an Interval of numbers, or a Domain. "
        "A categorical dtype of pandas declares its categories only if they are ordered",
        PrivacyLeakWarning,
        about="guide/encoders#categories-the-domain",
    )


def _resolve_declared(
    table: Table, categories: object, parameter: str
) -> dict[Any, Any]:
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


def _find_categories(name: ColumnName, column: object) -> Categories:
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
    # The values of an Interval with an open end are not known.
    declared = domain.values()
    return any(
        x.missing if isinstance(x, Interval) else None in x.values for x in declared
    )


# Second remedy in the errors of statistics.
_IGNORE = "Or set `handle_unknown='ignore'`, which excludes such values from all counts"


def count_undeclared(
    column: object, values: Categories | Interval, *, is_exact: bool = False
) -> Integers:
    """Count the undeclared values of a column: missing values, numbers with too many decimals, and others; shape (3,).

    With `is_exact`, edges do not accept more decimals than declared.
    """
    is_undeclared = values.encode(column) == len(values)
    is_missing = is_undeclared & (Categories([None]).encode(column) == 0)
    is_fraction = np.zeros(is_missing.size, bool)
    if isinstance(values, Interval) and values.decimals is not None:
        rounded, moved, has_decimals = round_numbers(
            values.read(column), values.decimals
        )
        is_fraction[moved] = has_decimals & (is_exact or not values.takes_fractions)
        is_fraction &= values.encode(rounded) < len(values)
    is_other = is_undeclared & ~is_missing & ~is_fraction
    return np.array([is_missing.sum(), is_fraction.sum(), is_other.sum()])


def undeclared_error(
    name: ColumnName,
    column: object,
    values: Categories | Interval,
    *,
    counts: Integers | None = None,
    where: str = "declared categories",
    advice: str = _IGNORE,
) -> ValueError:
    """Return the error for undeclared values of the column `name`, of which `values` are declared.

    `counts` are those of `count_undeclared`, for a table in an engine, whose `column` has no rows. `where` names the
    declared values in the message, and `advice` is its last sentence. **Privacy.** The message contains declared values
    only, and may state that values are missing or have fractions.
    """
    if counts is None:
        counts = count_undeclared(column, values)
    n_missing, n_fractions, n_others = counts
    is_missing = n_missing and not n_others
    if isinstance(values, Interval):
        missing = "`missing=True` in its `Interval`"
        pairs = zip(values.ends, values.found, strict=True)
        ends = ["a limit" if is_found else format_edge(end) for end, is_found in pairs]
        problem = f"a value outside the {where}, {' to '.join(ends)}"
        remedy = "Widen the bounds, or clip the values to them, and declare"
    else:
        missing = "`None` beside its values"
        problem = f"a value outside the {where}, {values!r}"
        remedy = "Declare all values that can occur, in the same spelling and case, and"
    # scikit-learn's check of estimators requires the word NaN.
    remedy += f" missing values (NaN) by {missing}"
    if n_fractions:
        decimals = getattr(values, "decimals", 0)
        declared = f"`decimals={decimals}`" if decimals else "whole numbers"
        problem = (
            f"a number with more decimals than its `Interval` declares ({declared})"
        )
        remedy = "In its `Interval`, set `real=True`, or decimals, such as `decimals=2`"
    elif is_missing:
        problem = "missing values (NaN), which are not declared"
        remedy = f"Declare them by {missing}"
    elif not isinstance(values, Interval):
        remedy += _hint_at_type(column, values)
    return ValueError(f"Column {name!r} contains {problem}. {remedy}. {advice}.")


def _hint_at_type(column: object, values: Categories) -> str:
    """Return a sentence, after a period, about two numbers that may be meant as bounds, or about dates; or no text."""
    listed = drop_missing(values.values)
    types = list(map(type_of_value, listed))
    # Larger bounds of whole numbers are an error.
    if (
        types == ["number"] * 2
        and not values.observed
        and max(map(abs, listed)) <= MAX_WHOLE_NUMBER
    ):
        low, high = min(listed), max(listed)
        return (
            f". For a range, declare an `Interval` with `low={low}` and `high={high}`"
        )
    if types.count("number") > 2:
        return ". For bins of numbers, declare an `Interval` with these edges"
    if {type_of_column(column), *types} == {"date", "datetime"}:
        return ". A date is its midnight: remove the times of day"
    return ""
