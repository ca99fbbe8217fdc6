"""From codes back to a table like the one that `fit` saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.frames import Table

Rows = Sequence[NDArray[np.integer]]


def empty_table(table: Table) -> Table:
    """Keep of a table what is public: the library, the names and the dtypes, but no row and no metadata.

    Parameters
    ----------
    table : Table
        The private table.

    Returns
    -------
    Table
        Without rows.
    """
    return Table(table.names, tuple(map(_empty, table.columns)), _empty_native(table.native))


def decode(template: Table, domain: Domain, codes: Rows, rng: np.random.Generator) -> tuple[Any, ...]:
    """Turn codes into columns; a number is drawn within its bin.

    Parameters
    ----------
    template : Table
        What `empty_table` gave, or a table of the same columns.
    domain : Domain
        The values, in the order of the columns.
    codes : sequence of ndarray of int
        The rows.
    rng : numpy.random.Generator
        The coins of the numbers.

    Returns
    -------
    tuple
        A series or array a column.
    """
    columns = []
    for name, code, column in zip(domain.columns, codes, template.columns, strict=True):
        values = domain[name]
        if isinstance(values, Interval):
            columns.append(_decode_numbers(values, code, column, rng))
        else:
            columns.append(domain.select([name]).decoders([column])[0](code))
    return tuple(columns)


def check_decodable(template: Table, domain: Domain) -> None:
    """Make sure that all declared values can be written in the library of the table, before anything is spent.

    Parameters
    ----------
    template : Table
        The columns.
    domain : Domain
        The values.

    Raises
    ------
    ValueError
        If no dtype can hold the values of a column.
    """
    names = [name for name in domain.columns if not isinstance(domain[name], Interval)]
    if names:
        places = [domain.columns.index(name) for name in names]
        domain.select(names).decoders([template.columns[place] for place in places])


def assemble(template: Table, columns: Sequence[Any], names: Sequence[Any]) -> Any:
    """Make a table of new rows.

    Parameters
    ----------
    template : Table
        Without rows.
    columns : sequence
        Series or arrays.
    names : sequence
        What to call them.

    Returns
    -------
    same kind as the template
        The table; a pandas one has a new index.
    """
    native = template.native
    if isinstance(native, pd.DataFrame):
        native = pd.DataFrame(index=pd.RangeIndex(len(columns[0])), columns=native.columns[:0])
    return Table(template.names, template.columns, native).rebuild(columns, names)


def _empty(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        # The width of fixed text is that of the longest value.
        return np.empty(0, "U1" if column.dtype.kind == "U" else "S1" if column.dtype.kind == "S" else column.dtype)
    if isinstance(column, pd.Series):
        return column.iloc[:0].copy()
    series = nw.from_native(column, series_only=True)
    return nw.to_native(series.head(0))


def _empty_native(native: Any) -> Any:
    if isinstance(native, np.ndarray):
        return np.empty((0, native.shape[1]), "U1" if native.dtype.kind == "U" else native.dtype)
    if isinstance(native, pd.DataFrame):
        return pd.DataFrame(columns=native.columns, index=pd.RangeIndex(0))
    if type(native).__module__.startswith("pyarrow"):
        return native.schema.remove_metadata().empty_table()
    return native.clear()


def _decode_numbers(interval: Interval, codes: NDArray[np.integer], like: Any, rng: np.random.Generator) -> Any:
    """Draw a number in each bin: a whole one, if the column has whole numbers and the bin holds one."""
    edges = np.array(interval.edges)
    whole = _is_integer(like)
    left, right = edges[:-1], edges[1:]
    if not whole:
        numbers = left[codes] + rng.random(codes.size) * (right - left)[codes]
        return _series(np.clip(numbers, left[codes], np.nextafter(right, left)[codes]), like)
    first, last = np.ceil(left), np.ceil(right) - 1
    last[-1] = np.floor(right[-1])  # the last bin is closed
    none = last < first
    first[none] = last[none] = np.floor((left + right) / 2)[none]
    numbers = first[codes] + np.floor(rng.random(codes.size) * (last - first + 1)[codes])
    return _series(np.minimum(numbers, last[codes]).astype(np.int64), like)


def _is_integer(like: Any) -> bool:
    if isinstance(like, np.ndarray):
        return like.dtype.kind in "iub"
    return nw.from_native(like, series_only=True).dtype.is_integer()


def _series(numbers: NDArray[Any], like: Any) -> Any:
    """Make a column of the same library and dtype, or of the dtype of the numbers where they do not fit."""
    if isinstance(like, np.ndarray):
        return numbers.astype(like.dtype) if like.dtype.kind in "fiu" and _fits(numbers, like.dtype) else numbers
    if isinstance(like, pd.Series):
        series = pd.Series(numbers)
        return (_cast(lambda: series.astype(like.dtype), series)).array if like.dtype != object else series.array
    dtype = nw.from_native(like, series_only=True).dtype
    column = nw.new_series("", numbers, backend=nw.get_native_namespace(like))
    return (_cast(lambda: column.cast(dtype), column) if dtype.is_numeric() else column).to_native()


def _fits(numbers: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    with np.errstate(all="ignore"):
        return dtype.kind == "f" or bool((numbers.astype(dtype) == numbers).all())


def _cast(cast: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return cast()
    except (TypeError, ValueError, OverflowError, nw.exceptions.NarwhalsError):
        return otherwise
