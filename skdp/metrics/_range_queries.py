"""Errors of the answers of a synthetic table to range-count queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from skdp.base import ColumnName, TableLike
from skdp.domain import Categories, DomainLike, Interval
from skdp.metrics._table_pairs import (
    check_columns,
    check_order,
    column_domains,
    encode_column,
    n_rows,
    observed_values,
    read_pair,
)
from skdp.oracles import check_size
from skdp.tables import ColumnError, Table, kind_of, plain, to_dates, to_numbers

Query = Mapping[Any, Any]

# Kinds of values that ranges may have.
_RANGE_KINDS = {"number": "number", "date": "time", "datetime": "time"}

# Open ends: infinite numbers, and times before and after all dates of Python.
_OPEN_NUMBERS = (-math.inf, math.inf)
_OPEN_TIMES = (
    np.datetime64("-0001-01-01", "us"),
    np.datetime64("10001-01-01", "us"),
)


def range_query_error(
    real: TableLike,
    synthetic: TableLike,
    queries: Iterable[Query] | None = None,
    *,
    n_queries: int = 100,
    order: int = 2,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> float:
    """Compute the mean error of the answers to range-count queries, as shares of the records.

    A query counts the rows that satisfy a condition on each of its columns: a range for a column of numbers or dates,
    a set of values for other columns.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        The real and the synthetic rows: pandas, polars or pyarrow tables, or arrays, with the same columns (with
        `columns` or `queries`, at least those).
    queries : iterable of mappings, optional
        Mappings from column name to condition: a tuple ``(low, high)`` for ``low <= value < high`` (None for no bound),
        or a list of values, with None for missing. By default random ones, to which the next five parameters apply:
        each has `order` distinct columns, all sets of columns being equally likely. The range of a column of numbers is
        between two edges of the bins (of an `Interval`) or two values, all pairs being equally likely, and without a
        bound from the lowest or to the highest one; the set of values of another column has a uniform size.
    n_queries : int, default=100
        Number of queries.
    order : int, default=2
        Number of columns in each query.
    columns : list of column names, optional
        The columns to choose from; by default all. The columns of an array are named ``x0, x1, …``.
    domain : Domain or mapping of column name to values or Interval, optional
        The values of columns, from which the conditions are drawn.
    random_state : int, RandomState instance or None, default=0
        Seed of their choice.

    Returns
    -------
    float
        The mean of ``|share of the real rows - share of the synthetic rows|``, from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows or lack a column, or the queries or parameters do not fit the columns.

    See Also
    --------
    marginal_error : The error of all cells of marginals.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected: for data that is not sensitive.

    Examples
    --------
    >>> import pandas as pd
    >>> real = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["F", "F", "M", "M"]})
    >>> synthetic = pd.DataFrame({"age": [25, 45], "sex": ["F", "F"]})
    >>> range_query_error(real, synthetic, [{"age": (18, 38)}, {"age": (38, None), "sex": ["M"]}])
    0.25
    """
    tables = read_pair(real, synthetic)
    if queries is None:
        queries = random_range_queries(
            real,
            n_queries=n_queries,
            order=order,
            columns=check_columns(tables, columns),
            domain=domain,
            random_state=random_state,
        )
    conditions = list(map(_check_query, queries))
    if not conditions:
        raise ValueError("queries must have at least one query")
    names = dict.fromkeys(chain.from_iterable(conditions))
    check_columns(tables, names)
    real_shares = _shares(tables[0], conditions)
    synthetic_shares = _shares(tables[1], conditions)
    return float(np.abs(real_shares - synthetic_shares).mean())


def random_range_queries(
    real: TableLike,
    *,
    n_queries: int = 100,
    order: int = 2,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> list[dict[Any, Any]]:
    """Draw the queries of `range_query_error`, whose conditions are values of the real table or of the domain."""
    table, _ = read_pair(real, real)
    names = check_columns((table, table), columns)
    check_size(n_queries, least=1, name="n_queries")
    check_order(order, names)
    declared = column_domains(domain, table)
    choices = {name: _choices(name, declared.get(name), table) for name in names}
    generator = check_random_state(random_state)
    queries = []
    for _ in range(n_queries):
        query = {}
        for place in sorted(generator.choice(len(names), order, replace=False)):
            name = names[place]
            is_range, values = choices[name]
            draw = _draw_range if is_range else _draw_set
            query[name] = draw(values, generator)
        queries.append(query)
    return queries


def _choices(
    name: Any, declared: Categories | Interval | None, table: Table
) -> tuple[bool, list[Any]]:
    """Return whether conditions on a column are ranges, and their edges or values."""
    if isinstance(declared, Interval):
        return True, [None, *declared.edges[1:-1], None]
    if declared is None:
        column = table.columns[table.names.index(name)]
        values, has_missing = observed_values(name, column, "real")
    else:
        values = [value for value in declared.values if value is not None]
        has_missing = None in declared.values
    if values and kind_of(values[0]) in _RANGE_KINDS:
        return True, [None, *sorted(values)[1:], None]
    return False, [*values, None] if has_missing else values


def _draw_range(edges: list[Any], generator: np.random.RandomState) -> tuple[Any, Any]:
    # The first and the last edge are open ends, so that no value is out of reach.
    low, high = sorted(generator.choice(len(edges), 2, replace=False))
    return edges[low], edges[high]


def _draw_set(values: list[Any], generator: np.random.RandomState) -> list[Any]:
    # A uniform size: of all sets equally likely, nearly all would have half the values.
    size = generator.randint(1, len(values) + 1)
    places = sorted(generator.choice(len(values), size, replace=False))
    return [values[place] for place in places]


def _check_query(query: Any) -> dict[Any, Any]:
    """Read a query: a pair of floats for a range, a list of Python values for a set."""
    if not isinstance(query, Mapping):
        raise TypeError(
            "a query must be a mapping of column name to condition, got"
            f" {type(query).__name__}"
        )
    if not query:
        raise ValueError("a query must have a condition on at least one column")
    return {
        name: _check_condition(name, condition) for name, condition in query.items()
    }


def _check_condition(name: Any, condition: Any) -> tuple[Any, Any] | list[Any]:
    if isinstance(condition, tuple):
        return _check_range(name, condition)
    if isinstance(condition, str | bytes | Mapping) or not isinstance(
        condition, Iterable
    ):
        raise TypeError(
            f"the condition on column {name!r} must be a tuple (low, high) or a list of"
            f" values, got {type(condition).__name__}"
        )
    values = list(map(plain, condition))
    if not values:
        raise ValueError(f"the condition on column {name!r} lists no value")
    return values


def _check_range(name: Any, bounds: tuple[Any, ...]) -> tuple[Any, Any]:
    """Read the ends of a range as two floats or two times; an open end is infinite."""
    kinds = {_RANGE_KINDS.get(kind_of(bound)) for bound in bounds if bound is not None}
    if len(bounds) != 2 or len(kinds) > 1 or None in kinds:
        raise ValueError(
            f"the range of column {name!r} must be (low, high), numbers, dates or None;"
            " values go in a list"
        )
    ends: list[Any] = list(_OPEN_TIMES if "time" in kinds else _OPEN_NUMBERS)
    for place, bound in enumerate(bounds):
        if bound is None:
            continue
        is_time = "time" in kinds
        ends[place] = np.datetime64(bound, "us") if is_time else float(bound)
    low, high = ends
    if not low < high:
        raise ValueError(f"the range of column {name!r} must have low < high")
    return low, high


def _shares(table: Table, queries: Sequence[dict[Any, Any]]) -> NDArray[np.float64]:
    """Answer queries by the share of the rows that satisfy all conditions."""
    columns = dict(zip(table.names, table.columns, strict=True))
    ranges: dict[Any, list[Any]] = {}
    names_of_sets = set()
    for query in queries:
        for name, condition in query.items():
            if isinstance(condition, tuple):
                ranges.setdefault(name, []).extend(condition)
            else:
                names_of_sets.add(name)
    # A column is read once for all its conditions: for ranges as numbers or times, for
    # sets as codes of the values that occur.
    ordered = {}
    for name, ends in ranges.items():
        has_times = np.datetime64 in map(type, ends)
        ordered[name] = _read_ordered(name, columns[name], has_times)
    coded = {}
    for name in names_of_sets:
        values, _ = observed_values(name, columns[name], "a table")
        codes = encode_column(name, Categories([*values]), columns[name])
        coded[name] = values, codes
    shares = []
    for query in queries:
        meets = np.ones(n_rows(table), dtype=bool)
        for name, condition in query.items():
            if isinstance(condition, tuple):
                meets &= _is_between(ordered[name], *condition)
            else:
                meets &= _is_among(name, *coded[name], condition)
        shares.append(np.count_nonzero(meets) / meets.size)
    return np.array(shares)


def _read_ordered(name: Any, column: Any, has_times: bool) -> NDArray[Any]:
    """Read a column as numbers, or as times."""
    try:
        if has_times:
            return to_dates(column, "datetime64[us]")
        return to_numbers(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _is_between(ordered: NDArray[Any], low: Any, high: Any) -> NDArray[np.bool_]:
    """Return which rows have ``low <= value < high``; missing values have not."""
    if ordered.dtype.kind == "M" and not isinstance(low, np.datetime64):
        return ~np.isnat(ordered)  # from minus infinity to infinity
    # A bound may exceed the range of a narrow float.
    with np.errstate(over="ignore"):
        is_above = ordered >= low
        if high == math.inf:
            return is_above
        return is_above & (ordered < high)


def _is_among(
    name: Any, labels: list[Any], codes: NDArray[np.unsignedinteger], values: list[Any]
) -> NDArray[np.bool_]:
    """Return which rows have one of some values."""
    kinds = {kind_of(value) for value in values if value is not None}
    if labels and kinds and kinds != {kind_of(labels[0])}:
        raise ValueError(
            f"column {name!r} holds {kind_of(labels[0])} values, a query asks for "
            f"{' and '.join(sorted(kinds))} values"
        )
    # The last code is that of missing values.
    is_member = map(set(values).__contains__, [*labels, None])
    return np.array(list(is_member))[codes]
