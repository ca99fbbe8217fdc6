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
from skdp.synthesis.tables._relations import DrawnRows
from skdp.synthesis.tables._shapes import Shapes
from skdp.tables import Table, dates_like, kind_of

Rows = Sequence[NDArray[np.integer]]


def public_template(table: Table, domain: Domain) -> Table:
    """Keep of a table the library, the names and the families of dtypes, but no row."""
    columns = []
    for name, column in zip(domain.columns, table.columns, strict=True):
        columns.append(as_declared(_empty(column), domain[name]))
    return Table(table.names, tuple(columns), _empty_native(table.native))


def decode(
    template: Table,
    domain: Domain,
    codes: Rows,
    rng: np.random.Generator,
    order: Order = (),
    shapes: Shapes | None = None,
    given: Mapping[Any, NDArray[Any]] | None = None,
) -> tuple[Any, ...]:
    """Turn codes into columns; numbers are drawn within bins, by shapes, in order."""
    drawn = draw_rows(template, domain, codes, rng, order, shapes, given)
    return write_rows(template, drawn)


def draw_rows(
    template: Table,
    domain: Domain,
    codes: Rows,
    rng: np.random.Generator,
    order: Order = (),
    shapes: Shapes | None = None,
    given: Mapping[Any, NDArray[Any]] | None = None,
) -> DrawnRows:
    """Draw numbers and dates within the bins of rows, by shapes, in order."""
    # First numbers within their bins, whatever the order; then moved into order, as far
    # as rules ask for it.
    likes = dict(zip(domain.columns, template.columns, strict=True))
    coded = dict(zip(domain.columns, codes, strict=True))
    shaped = {} if shapes is None else shapes.draw(domain, codes, rng)
    drawn = {}
    for name, column_codes in coded.items():
        values = domain[name]
        if name in shaped and shapes is not None:
            cells, positions = shaped[name]
            grid = shapes.columns[name].grid
            drawn[name] = draw(grid, cells, likes[name], rng, positions)
        elif isinstance(values, Interval):
            drawn[name] = draw(values, column_codes, likes[name], rng)

    # What is given does not move. Rules with a column that is not there say nothing.
    spreads = {}
    for name, numbers in (given or {}).items():
        spreads[name] = fixed(numbers)
    pairs = []
    for below, above in order:
        if {below, above} <= coded.keys() | spreads.keys():
            pairs.append((below, above))
    for name in dict.fromkeys(itertools.chain(*pairs)):
        if name in coded:
            spreads[name] = spread(
                domain[name],
                coded[name],
                likes[name],
                drawn.get(name),
                shaped=name in shaped,
            )
    keep_order(spreads, pairs, rng)
    return DrawnRows(domain, list(codes), drawn)


def write_rows(template: Table, rows: DrawnRows) -> tuple[Any, ...]:
    """Write rows as columns of the library of a template."""
    columns = []
    for name, codes, like in zip(
        rows.domain.columns, rows.codes, template.columns, strict=True
    ):
        values = rows.domain[name]
        if isinstance(values, Interval):
            columns.append(_write(rows.numbers[name], values, codes, like))
        else:
            (decoder,) = rows.domain.select([name]).decoders([like])
            columns.append(decoder(codes))
    return tuple(columns)


def check_decodable(template: Table, domain: Domain) -> None:
    """Make sure that all declared values can be written in the library of a table."""
    names = []
    columns = []
    for name, column in zip(domain.columns, template.columns, strict=True):
        if not isinstance(domain[name], Interval):
            names.append(name)
            columns.append(column)
    if names:
        domain.select(names).decoders(columns)


def assemble(template: Table, columns: Sequence[Any], names: Sequence[Any]) -> Any:
    """Make a table of new rows."""
    # A frame of pandas has a new index, and the labels of its columns, also in levels.
    native = template.native
    if not isinstance(native, pd.DataFrame):
        return template.rebuild(columns, names)
    rows = pd.DataFrame(index=pd.RangeIndex(len(columns[0])))
    frame = Table(template.names, template.columns, rows).rebuild(columns, names)
    if len(frame.columns) == len(native.columns):
        frame.columns = native.columns
    return frame


def _empty(column: Any) -> Any:
    """Make a column of the same dtype from nothing."""
    # A slice of no rows may still hold the memory of all.
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "US":  # its width is that of the longest value
            return np.empty(0, f"{column.dtype.kind}1")
        return np.empty(0, column.dtype)
    if isinstance(column, pd.Series):
        dtype = column.dtype
        if not isinstance(dtype, pd.CategoricalDtype):
            return pd.Series([], dtype=dtype)
        # What is not declared among the categories may be somebody's value.
        categories = pd.Index([], dtype=dtype.categories.dtype)
        return pd.Series(pd.Categorical([], categories, ordered=dtype.ordered))
    if nw.from_native(column, series_only=True).implementation.is_pyarrow():
        import pyarrow

        return pyarrow.chunked_array([], column.type)
    import polars

    # The categories of a Categorical, which it has from the rows, live as long as
    # anything of its dtype.
    if column.dtype.base_type() in (polars.Enum, polars.Categorical):
        return polars.Series([], dtype=polars.Enum([]))
    return polars.Series([], dtype=column.dtype)


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
    # The code behind those of all bins is that of missing.
    is_missing = codes == len(interval.edges) - 1
    if interval.dtype.kind != "f":
        drawn[is_missing] = np.datetime64("NaT", "us")
        return dates_like(drawn, like)
    numbers = round_as_declared(drawn, interval)
    if interval.missing:
        return _column_with_missing(numbers, is_missing, like)
    return _column_like(numbers, like)


def _column_like(numbers: NDArray[Any], like: Any) -> Any:
    """Make a column of the same library, and dtype unless that is of values."""
    if isinstance(like, np.ndarray):
        return numbers
    if isinstance(like, pd.Series):
        arrow_type = getattr(like.dtype, "pyarrow_dtype", None)
        is_dictionary = hasattr(arrow_type, "value_type")
        is_categorical = isinstance(like.dtype, pd.CategoricalDtype)
        dtype: Any = numbers.dtype if is_dictionary or is_categorical else like.dtype
        return pd.array(numbers, dtype)
    number_type = nw.from_native(like, series_only=True).dtype
    column = nw.new_series("", numbers, backend=nw.get_native_namespace(like))
    if number_type.is_numeric():
        column = column.cast(number_type)
    return column.to_native()


def _column_with_missing(
    numbers: NDArray[Any], is_missing: NDArray[np.bool_], like: Any
) -> Any:
    """Make a column in which some numbers are missing."""
    # NumPy's whole numbers always become floats for that.
    column = _column_like(numbers, like)
    if isinstance(column, np.ndarray | pd.arrays.NumpyExtensionArray):
        return np.where(is_missing, np.nan, numbers)
    if isinstance(like, np.ndarray | pd.Series):
        column[is_missing] = pd.NA
        return column
    series = nw.from_native(column, series_only=True)
    library = nw.get_native_namespace(like)
    frame = nw.new_series("missing", is_missing, backend=library).to_frame()
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


def declared_kind(values: Categories | Interval) -> str | None:
    """Describe the declared values of a column."""
    if isinstance(values, Interval):
        listed = list(values.edges)
        is_real = values.real
    else:
        listed = [value for value in values.values if value is not None]
        is_real = False
    kinds = set(map(kind_of, listed))
    if kinds != {"number"}:
        return kinds.pop() if kinds in ({"boolean"}, {"string"}) else None
    if not isinstance(values, Interval):
        is_real = not all(map(float.is_integer, map(float, listed)))
    if is_real:
        return "real"
    # What does not fit into 64 bits with a sign needs one more.
    is_unsigned = max(listed) > np.iinfo(np.int64).max and min(listed) >= 0
    return "unsigned" if is_unsigned else "whole"


def as_declared(column: Any, values: Categories | Interval) -> Any:
    """Give a column without rows the dtype that its declared values have."""
    # One value may change a dtype: a missing one makes floats of integers and objects
    # of truth values. So only the library and the family of these remain: NumPy's,
    # pandas' nullable ones, Arrow's. Categorical dtypes, dates and narrow floats of
    # real numbers stay.
    kind = declared_kind(values)
    if kind is None:
        return _as_missing(column) if set(values.labels) == {None} else column
    if isinstance(column, np.ndarray):
        is_narrow = _is_narrow(column.dtype, kind)
        return column if is_narrow else np.empty(0, _DTYPES[kind].numpy)
    if isinstance(column, pd.Series):
        return pd.Series([], dtype=_pandas_dtype(column.dtype, kind))
    series = nw.from_native(column, series_only=True)
    is_number = series.dtype.is_numeric()
    if not is_number and series.dtype != nw.Unknown:  # nothing but missing values
        return column
    if kind == "real" and str(series.dtype) in ("Float16", "Float32"):
        return column
    dtype = _DTYPES[kind].narwhals
    return nw.new_series("", [], dtype, backend=series.implementation).to_native()


def _as_missing(column: Any) -> Any:
    """Make floats of a column without rows of which all is missing, as no value was found."""
    # Of NumPy's dtypes: a record decides whether numbers are objects.
    is_of_numpy = isinstance(getattr(column, "dtype", None), np.dtype)
    if not is_of_numpy or column.dtype.kind not in "iufbO":
        return column
    floats = np.empty(0)
    return floats if isinstance(column, np.ndarray) else pd.Series(floats)


def _is_narrow(dtype: Any, kind: str) -> bool:
    """Whether real numbers have less than 64 bits, in NumPy or an extension of pandas."""
    return kind == "real" and dtype.kind == "f" and dtype.itemsize < 8


def _pandas_dtype(dtype: Any, kind: str) -> Any:
    if _is_narrow(dtype, kind):
        return dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind not in "iufbO":
            return dtype
        return pd.Series(["text"]).dtype if kind == "string" else _DTYPES[kind].numpy
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow
        from pyarrow import types

        held = dtype.pyarrow_dtype
        if types.is_integer(held) or types.is_floating(held) or types.is_null(held):
            return pd.ArrowDtype(getattr(pyarrow, _DTYPES[kind].arrow)())
        return dtype
    is_boolean = pd.api.types.is_bool_dtype(dtype)
    if pd.api.types.is_numeric_dtype(dtype) and not is_boolean:
        return _DTYPES[kind].pandas or dtype
    return dtype
