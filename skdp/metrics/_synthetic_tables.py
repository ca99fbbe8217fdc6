"""Errors of synthetic tables: of their marginals, and of answers to range queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import ColumnName, TableLike, read_array
from skdp.domain import Categories, Domain, DomainLike, Interval
from skdp.oracles import check_size
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    is_frame,
    kind_of,
    read_table,
    to_dates,
    to_numbers,
)

Query = Mapping[Any, Any]
Values = Categories | Interval

OUTSIDE = "outside the domain"
TIME_KINDS = ("date", "datetime")

# Cells of a marginal that is returned as a table: 100 MB.
MAX_CELLS = 1 << 22


def marginal_error(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    domain: DomainLike | None = None,
) -> float:
    """Compute the mean total-variation distance of all marginals of an order.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        Real and synthetic rows: pandas, polars or pyarrow tables, or arrays, with the
        same columns, in any order if they have names.
    order : int, default=2
        Number of columns of a marginal.
    domain : Domain or mapping of column name to values or Interval, default=None
        Values of columns. A numeric column with many values needs an `Interval`.
        Undeclared and missing values count as one more value. The values of a column
        that is not declared are those that occur in either table.

    Returns
    -------
    float
        The mean of ``marginal_errors(...)["error"]``: 0 if all proportions are equal, 1
        if no cell of a marginal has rows of both tables.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows or different columns, a column has values of
        different types in the two tables, or a parameter does not fit the columns.

    See Also
    --------
    marginal_errors : Error of each marginal.
    range_query_error : Error of the answers to queries.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected.

    The total-variation distance is half the sum of the absolute differences of the
    proportions. Some papers report the L1 distance, which is twice as large.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import marginal_error
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "yes", "yes"]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "yes", "no", "yes"]})
    >>> marginal_error(real, synthetic, order=1), marginal_error(real, synthetic, order=2)
    (0.0, 0.5)
    """
    errors = marginal_errors(real, synthetic, order=order, domain=domain)
    return float(errors["error"].mean())


def marginal_errors(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Compute the total-variation distance of each marginal of an order.

    Parameters
    ----------
    real, synthetic, order, domain : see there
        As for `marginal_error`.

    Returns
    -------
    pandas.DataFrame
        One row per marginal: ``columns`` (a tuple of names) and ``error``, from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        As for `marginal_error`.

    See Also
    --------
    marginal_error : Mean over all marginals.
    skdp.evaluation.MarginalDisplay : Plot of marginals.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import Interval
    >>> from skdp.metrics import marginal_errors
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "no", "yes"], "age": [20, 30, 40, 50]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "M"], "smokes": ["no", "yes"], "age": [31, 49]})
    >>> marginal_errors(real, synthetic, domain={"age": Interval(edges=[0, 35, 120])})
               columns  error
    0    (sex, smokes)   0.25
    1       (sex, age)   0.00
    2    (smokes, age)   0.25
    """
    tables = _read_table("real", real), _read_table("synthetic", synthetic)
    names, other_names = (list(table.names) for table in tables)
    if set(names) != set(other_names):
        raise ValueError(
            "real and synthetic must have the same columns; in one of them only: "
            f"{sorted(set(names) ^ set(other_names), key=str)}"
        )
    check_size(order, least=1, most=len(names), name="order")
    codes = _code_columns(tables, names, domain)
    marginals = list(combinations(names, order))
    errors = [_total_variation([codes[name] for name in m]) for m in marginals]
    return pd.DataFrame({"columns": marginals, "error": errors})


def _total_variation(columns: list[CodedColumn]) -> float:
    # The number of all cells may exceed 2**64, so only occurring cells are counted.
    codes = pd.DataFrame(dict(enumerate(column.codes for column in columns)))
    cells = codes.groupby(list(codes), sort=False).ngroup().to_numpy()
    n_real = columns[0].n_real
    real = np.bincount(cells[:n_real], minlength=cells.max() + 1)
    synthetic = np.bincount(cells[n_real:], minlength=len(real))
    # The difference of integers is exact.
    n_synthetic = len(cells) - n_real
    difference = np.abs(real * n_synthetic - synthetic * n_real)
    return int(difference.sum()) / (2 * n_real * n_synthetic)


def marginal_table(
    real: TableLike,
    synthetic: TableLike,
    columns: Sequence[ColumnName],
    *,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Return the real and the synthetic proportions of all cells of a marginal."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(
            f"a marginal must be a tuple of column names, got {type(columns).__name__}"
        )
    names = list(columns)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"a marginal must have distinct columns, got {names}")
    tables = _read_table("real", real), _read_table("synthetic", synthetic)
    coded = _code_columns(tables, names, domain)
    labels = [coded[name].labels for name in names]
    sizes = list(map(len, labels))
    n_cells = math.prod(sizes)
    if n_cells > MAX_CELLS:
        raise ValueError(
            f"the marginal of {names} must have at most 2**22 cells, got {n_cells}. "
            "Declare fewer values in domain."
        )
    index = pd.MultiIndex.from_product(labels, names=names)
    cells = np.ravel_multi_index([coded[name].codes for name in names], sizes)
    n_real = coded[names[0]].n_real
    parts = {"real": cells[:n_real], "synthetic": cells[n_real:]}
    shares = {}
    for name, part in parts.items():
        shares[name] = np.bincount(part, minlength=n_cells) / len(part)
    return pd.DataFrame(
        shares, index=index.get_level_values(0) if len(names) == 1 else index
    )


@dataclass(frozen=True)
class CodedColumn:
    """Codes of a column in two tables, the rows of the real one first."""

    labels: list[Any]
    codes: NDArray[np.unsignedinteger]
    n_real: int


def _code_columns(
    tables: tuple[Table, Table], names: list[Any], domain: Any
) -> dict[Any, CodedColumn]:
    """Code columns of two tables by their declared values."""
    declared = _read_domain(domain)
    coded = {}
    for name in names:
        columns = [_column(table, name) for table in tables]
        values = declared.get(name)
        if values is None:
            values = _observed_values(name, columns)
        parts = [_encode(name, values, column) for column in columns]
        codes = np.concatenate(parts)
        labels = list(values.labels)
        # Missing and undeclared values have the last code.
        if (codes == len(labels)).any():
            labels.append(OUTSIDE)
        coded[name] = CodedColumn(labels, codes, len(parts[0]))
    return coded


def _encode(name: Any, values: Values, column: Any) -> NDArray[np.unsignedinteger]:
    (codes,) = Domain({name: values}).encode([column])
    return codes


def _observed_values(name: Any, columns: list[Any]) -> Categories:
    """Return the values that occur in either table."""
    real, real_missing = _distinct_values(name, columns[0], "real")
    synthetic, synthetic_missing = _distinct_values(name, columns[1], "synthetic")
    if real and synthetic and kind_of(real[0]) != kind_of(synthetic[0]):
        raise ValueError(
            f"column {name!r} must have values of one type, got {kind_of(real[0])} in "
            f"real and {kind_of(synthetic[0])} in synthetic"
        )
    values = sorted({*real, *synthetic})
    if real_missing or synthetic_missing:
        values.append(None)
    try:
        return Categories(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _distinct_values(name: Any, column: Any, label: str) -> tuple[list[Any], bool]:
    try:
        return distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r} of {label} {error}") from None


def _read_table(label: str, data: Any) -> Table:
    if not is_frame(data):
        data = read_array(data, label)
        if data.ndim != 2:
            raise ValueError(
                f"{label} must be a dataframe or a 2-D array, got {data.ndim} dimensions"
            )
    table = read_table(data)
    if not table.names:
        raise ValueError(f"{label} has no columns")
    if len(table.columns[0]) == 0:
        raise ValueError(f"{label} has no rows")
    return table


def _column(table: Table, name: Any) -> Any:
    if name not in table.names:
        raise ValueError(f"there is no column {name!r}; there are {list(table.names)}")
    return table.columns[table.names.index(name)]


def _read_domain(domain: Any) -> dict[Any, Values]:
    """Return the declared values of columns."""
    if domain is None:
        return {}
    if not isinstance(domain, Domain | Mapping):
        raise TypeError(
            "domain must be a Domain or a mapping of column name to values, got "
            f"{type(domain).__name__}"
        )
    declared = domain if isinstance(domain, Domain) else Domain(domain)
    return {name: declared[name] for name in declared.columns}


def range_query_error(
    real: TableLike, synthetic: TableLike, queries: Iterable[Query]
) -> float:
    """Compute the mean error of the answers to range queries, as a proportion of the records.

    A query counts the rows that satisfy a condition on each of its columns: a range of
    numbers or dates, or a set of values.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        Real and synthetic rows: pandas, polars or pyarrow tables, or arrays, with the
        columns of the queries.
    queries : iterable of mappings
        Mappings of column name to condition: a tuple ``(low, high)`` for ``low <= value
        < high`` (None for no bound), or a list of values, with None for missing.

    Returns
    -------
    float
        The mean absolute difference of the proportions of real and synthetic rows that
        satisfy a query, from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows, or the queries do not fit the columns.

    See Also
    --------
    marginal_error : Error of all cells of marginals.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import range_query_error
    >>> real = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["F", "F", "M", "M"]})
    >>> synthetic = pd.DataFrame({"age": [25, 45], "sex": ["F", "F"]})
    >>> range_query_error(real, synthetic, [{"age": (18, 38)}, {"age": (38, None), "sex": ["M"]}])
    0.25
    """
    tables = _read_table("real", real), _read_table("synthetic", synthetic)
    errors = []
    for query in queries:
        if not isinstance(query, Mapping) or not query:
            raise TypeError(
                "a query must be a mapping of column name to condition, got "
                f"{type(query).__name__}"
            )
        real_share, synthetic_share = (_answer(table, query) for table in tables)
        errors.append(abs(real_share - synthetic_share))
    if not errors:
        raise ValueError("queries must have at least one query")
    return float(np.mean(errors))


def _answer(table: Table, query: Query) -> float:
    """Return the proportion of the rows that satisfy all conditions."""
    is_selected: Any = True
    for name, condition in query.items():
        column = _column(table, name)
        if isinstance(condition, tuple):
            is_selected &= _is_in_range(name, column, condition)
        elif isinstance(condition, str | bytes | Mapping) or not isinstance(
            condition, Iterable
        ):
            raise TypeError(
                f"the condition on column {name!r} must be a tuple (low, high) or a "
                f"list of values, got {type(condition).__name__}"
            )
        else:
            is_selected &= _is_among(name, column, list(condition))
    return float(np.mean(is_selected))


def _is_in_range(name: Any, column: Any, bounds: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Find the rows with ``low <= value < high``; missing values are outside."""
    kinds = {kind_of(bound) for bound in bounds if bound is not None}
    is_time = kinds <= {*TIME_KINDS}
    if len(bounds) != 2 or not (is_time or kinds == {"number"}):
        raise ValueError(
            f"the range of column {name!r} must be (low, high), numbers, dates or None;"
            " values go in a list"
        )
    if not kinds:
        return _encode(name, Categories([None]), column) == 1
    low, high = bounds
    try:
        if is_time:
            values: Any = to_dates(column, "datetime64[us]")
            low, high = (b if b is None else np.datetime64(b, "us") for b in bounds)
        else:
            values = to_numbers(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r}: {error}") from None
    if low is not None and high is not None and not low < high:
        raise ValueError(f"the range of column {name!r} must have low < high")
    is_inside = ~np.isnan(values) if not is_time else ~np.isnat(values)
    # A bound may exceed the range of a narrow float.
    with np.errstate(over="ignore"):
        if low is not None:
            is_inside &= values >= low
        if high is not None:
            is_inside &= values < high
    return is_inside


def _is_among(name: Any, column: Any, values: list[Any]) -> NDArray[np.bool_]:
    """Find the rows with one of some values."""
    try:
        codes = _encode(name, Categories(values), column)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a condition on column {name!r}: {error}") from None
    return codes < len(values)
