"""From codes back to a table like the one that `fit` saw."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Categories, Domain, Interval
from skdp.synthesis.tables._draws import (
    Order,
    draw,
    fixed,
    keep_order,
    round_as_declared,
    spread,
)
from skdp.synthesis.tables._shapes import Shapes
from skdp.tables import Table, dates_like, kind_of

Rows = Sequence[NDArray[np.integer]]


def public_template(table: Table, domain: Domain) -> Table:
    """Keep of a table what is public: the library, the names and the families of dtypes, but no row and no metadata."""
    empty = empty_table(table)
    attributes = [domain[name] for name in domain.columns]
    columns = tuple(
        as_declared(column, one)
        for column, one in zip(empty.columns, attributes, strict=True)
    )
    return Table(table.names, columns, empty.native)


def empty_table(table: Table) -> Table:
    """Keep of a table the library, the names and the dtypes, but no row and no metadata."""
    return Table(
        table.names, tuple(map(_empty, table.columns)), _empty_native(table.native)
    )


def decode(
    template: Table,
    domain: Domain,
    codes: Rows,
    rng: np.random.Generator,
    order: Order = (),
    shapes: Shapes | None = None,
    given: Mapping[Any, NDArray[Any]] | None = None,
) -> tuple[Any, ...]:
    """Turn codes into columns; numbers and dates are drawn within bins, by shapes and in order if they have them."""
    likes = dict(zip(domain.columns, template.columns, strict=True))
    coded = dict(zip(domain.columns, codes, strict=True))
    bins = {
        name: values
        for name in domain.columns
        if isinstance(values := domain[name], Interval)
    }
    shaped = {} if shapes is None else shapes.draw(domain, codes, rng)
    drawn = {
        name: draw(
            shapes.columns[name].grid,
            shaped[name][0],
            likes[name],
            rng,
            shaped[name][1],
        )
        if shapes is not None and name in shaped
        else draw(values, coded[name], likes[name], rng)
        for name, values in bins.items()
    }
    held = {name: fixed(values) for name, values in (given or {}).items()}
    pairs = [pair for pair in order if coded.keys() | held.keys() >= {*pair}]
    for name in dict.fromkeys(itertools.chain(*pairs)):
        if name in coded:
            held[name] = spread(
                domain[name],
                coded[name],
                likes[name],
                drawn.get(name),
                shaped=name in shaped,
            )
    keep_order(held, pairs, rng)
    columns = []
    for name, code in coded.items():
        if name in bins:
            columns.append(_write(drawn[name], bins[name], code, likes[name]))
        else:
            columns.append(domain.select([name]).decoders([likes[name]])[0](code))
    return tuple(columns)


def check_decodable(template: Table, domain: Domain) -> None:
    """Make sure that all declared values can be written in the library of the table, before anything is spent."""
    names = [name for name in domain.columns if not isinstance(domain[name], Interval)]
    if names:
        places = [domain.columns.index(name) for name in names]
        domain.select(names).decoders([template.columns[place] for place in places])


def assemble(template: Table, columns: Sequence[Any], names: Sequence[Any]) -> Any:
    """Make a table of new rows."""
    native = template.native
    if not isinstance(native, pd.DataFrame):
        return template.rebuild(columns, names)
    rows = pd.DataFrame(index=pd.RangeIndex(len(columns[0])))
    frame = Table(template.names, template.columns, rows).rebuild(columns, names)
    if len(frame.columns) == len(native.columns):
        frame.columns = native.columns
    return frame


def _empty(column: Any) -> Any:
    """Make a column of the same dtype from nothing: a slice of no rows may still hold the memory of all."""
    if isinstance(column, np.ndarray):
        # The width of fixed text is that of the longest value.
        return np.empty(
            0, f"{column.dtype.kind}1" if column.dtype.kind in "US" else column.dtype
        )
    if isinstance(column, pd.Series):
        if not isinstance(column.dtype, pd.CategoricalDtype):
            return pd.Series([], dtype=column.dtype)
        # What is not declared among the categories may be somebody's value.
        kind = pd.Index([], dtype=column.dtype.categories.dtype)
        return pd.Series(pd.Categorical([], kind, ordered=column.dtype.ordered))
    if nw.from_native(column, series_only=True).implementation.is_pyarrow():
        import pyarrow

        return pyarrow.chunked_array([], column.type)
    import polars

    # The categories of a Categorical, which it has from the rows, live as long as anything of its dtype.
    categorical = column.dtype.base_type() in (polars.Enum, polars.Categorical)
    return polars.Series([], dtype=polars.Enum([]) if categorical else column.dtype)


def _empty_native(native: Any) -> Any:
    if isinstance(native, np.ndarray):
        return np.empty((0, native.shape[1]), object)
    if isinstance(native, pd.DataFrame):
        return pd.DataFrame(columns=native.columns, index=pd.RangeIndex(0))
    return nw.from_dict({}, backend=nw.from_native(native).implementation).to_native()


def _write(
    drawn: NDArray[Any], interval: Interval, codes: NDArray[np.integer], like: Any
) -> Any:
    """Make a column of numbers or dates, missing where the codes are."""
    missing = codes == len(interval.edges) - 1
    if interval.dtype.kind != "f":
        drawn[missing] = np.datetime64("NaT", "us")
        return dates_like(drawn, like)
    drawn = round_as_declared(drawn, interval)
    return (
        _column_with_missing(drawn, missing, like)
        if interval.missing
        else _column_like(drawn, like)
    )


def _column_like(numbers: NDArray[Any], like: Any) -> Any:
    """Make a column of the same library and dtype; of the dtype of the numbers, where the column's is of values."""
    if isinstance(like, np.ndarray):
        return numbers
    if isinstance(like, pd.Series):
        coded = hasattr(
            getattr(like.dtype, "pyarrow_dtype", None), "value_type"
        )  # a dictionary of Arrow
        kept: Any = (
            numbers.dtype
            if coded or isinstance(like.dtype, pd.CategoricalDtype)
            else like.dtype
        )
        return pd.array(numbers, kept)
    dtype = nw.from_native(like, series_only=True).dtype
    column = nw.new_series("", numbers, backend=nw.get_native_namespace(like))
    return (column.cast(dtype) if dtype.is_numeric() else column).to_native()


def _column_with_missing(
    numbers: NDArray[Any], missing: NDArray[np.bool_], like: Any
) -> Any:
    """Make a column in which some numbers are missing; NumPy's whole numbers always become floats for that."""
    column = _column_like(numbers, like)
    if isinstance(like, np.ndarray | pd.Series):
        if isinstance(column, np.ndarray | pd.arrays.NumpyExtensionArray):
            return np.where(missing, np.nan, numbers)
        column[missing] = pd.NA
        return column
    series = nw.from_native(column, series_only=True)
    frame = nw.new_series(
        "missing", missing, backend=nw.get_native_namespace(like)
    ).to_frame()
    return frame.select(nw.when(~nw.col("missing")).then(series))[:, 0].to_native()


class _Dtypes(NamedTuple):
    """The dtypes of a kind of values in NumPy, narwhals and pyarrow, and the nullable one of pandas for numbers."""

    numpy: np.dtype[Any]
    narwhals: Any
    arrow: str
    pandas: Any = None


_DTYPES = {
    "unsigned": _Dtypes(np.dtype(np.uint64), nw.UInt64(), "uint64", pd.UInt64Dtype()),
    "whole": _Dtypes(np.dtype(np.int64), nw.Int64(), "int64", pd.Int64Dtype()),
    "real": _Dtypes(np.dtype(float), nw.Float64(), "float64", pd.Float64Dtype()),
    "boolean": _Dtypes(np.dtype(bool), nw.Boolean(), "bool_"),
    "string": _Dtypes(np.dtype("U1"), nw.String(), "string"),
}


def declared_kind(attribute: Categories | Interval) -> str | None:
    """Describe the declared values of a column."""
    known = (
        attribute.edges
        if isinstance(attribute, Interval)
        else [one for one in attribute.values if one is not None]
    )
    kinds = {kind_of(value) for value in known}
    if kinds == {"number"}:
        fractional = not all(float(value).is_integer() for value in known)
        if attribute.real if isinstance(attribute, Interval) else fractional:
            return "real"
        return (
            "unsigned"
            if max(known) > np.iinfo(np.int64).max and min(known) >= 0
            else "whole"
        )
    return kinds.pop() if kinds in ({"boolean"}, {"string"}) else None


def as_declared(column: Any, attribute: Categories | Interval) -> Any:
    """Give a column without rows the dtype that its declared values have."""
    # One value may change a dtype: a missing one makes floats of integers and objects of truth values. So only the
    # library and the family of these remain: NumPy's, pandas' nullable ones, Arrow's. Categorical dtypes, dates and
    # narrow floats of real numbers stay.
    kind = declared_kind(attribute)
    if kind is None:
        return column
    if isinstance(column, np.ndarray):
        return (
            column
            if _is_narrow(column.dtype, kind)
            else np.empty(0, _DTYPES[kind].numpy)
        )
    if isinstance(column, pd.Series):
        return pd.Series([], dtype=_pandas_dtype(column.dtype, kind))
    series = nw.from_native(column, series_only=True)
    if (
        series.dtype.is_numeric() or series.dtype == nw.Unknown
    ):  # Unknown: nothing but missing values
        narrow = series.dtype == nw.Float32 and kind == "real"
        return column if narrow else _empty_series(series, kind)
    return column


def _empty_series(like: nw.Series[Any], kind: str) -> Any:
    return nw.new_series(
        "", [], _DTYPES[kind].narwhals, backend=like.implementation
    ).to_native()


def _is_narrow(dtype: np.dtype[Any], kind: str) -> bool:
    return kind == "real" and dtype.kind == "f" and dtype.itemsize < 8


def _pandas_dtype(dtype: Any, kind: str) -> Any:
    if isinstance(dtype, np.dtype):
        if _is_narrow(dtype, kind) or dtype.kind not in "iufbO":
            return dtype
        return pd.Series(["text"]).dtype if kind == "string" else _DTYPES[kind].numpy
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow
        from pyarrow import types

        held = dtype.pyarrow_dtype
        if types.is_integer(held) or types.is_floating(held) or types.is_null(held):
            return pd.ArrowDtype(getattr(pyarrow, _DTYPES[kind].arrow)())
        return dtype
    number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(
        dtype
    )
    return (number and _DTYPES[kind].pandas) or dtype
