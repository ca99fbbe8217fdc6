"""From codes back to a table like the one that `fit` saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import dates_like, held_dates, kind_of, time_type
from skdp.domain import Categories, Domain, Interval
from skdp.frames import Table
from skdp.synthesis.tables._shapes import Shape, Shapes

Rows = Sequence[NDArray[np.integer]]

_LITTLE = 1e-12  # the share of an empty cell, for the mean of a bin without records


def public_template(table: Table, domain: Domain) -> Table:
    """Keep of a table what is public: the library, the names and the families of dtypes, but no row and no metadata."""
    empty = empty_table(table)
    attributes = [domain[name] for name in domain.columns]
    columns = tuple(as_declared(column, one) for column, one in zip(empty.columns, attributes, strict=True))
    return Table(table.names, columns, empty.native)


def empty_table(table: Table) -> Table:
    """Keep of a table the library, the names and the dtypes, but no row and no metadata."""
    return Table(table.names, tuple(map(_empty, table.columns)), _empty_native(table.native))


def decode(
    template: Table, domain: Domain, codes: Rows, rng: np.random.Generator, shapes: Shapes | None = None
) -> tuple[Any, ...]:
    """Turn codes into columns; a number or a date is drawn within its bin, by its shape if it has one."""
    columns = []
    drawn = {} if shapes is None else shapes.draw(domain, codes, rng)
    for name, code, column in zip(domain.columns, codes, template.columns, strict=True):
        values = domain[name]
        if isinstance(values, Interval):
            inside = None
            if shapes is not None and name in drawn:
                values, (code, inside) = shapes.columns[name].grid, drawn[name]
            draw = _decode_numbers if values.dtype.kind == "f" else _decode_dates
            columns.append(draw(values, code, column, rng, inside))
        else:
            columns.append(domain.select([name]).decoders([column])[0](code))
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
        return np.empty(0, f"{column.dtype.kind}1" if column.dtype.kind in "US" else column.dtype)
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


def _decode_numbers(
    interval: Interval,
    codes: NDArray[np.integer],
    like: Any,
    rng: np.random.Generator,
    inside: NDArray[np.float64] | None = None,
) -> Any:
    """Draw a number in each bin, or take that at a given place: a whole one, if the column has whole numbers."""
    dtype = _number_type(like)
    draw = _draw_whole if dtype.kind in "iu" else _draw_real
    edges = np.array(interval.edges)
    inside = rng.random(codes.size) if inside is None else inside
    numbers = draw(edges, np.minimum(codes, edges.size - 2), dtype, inside)
    if interval.missing:
        return _column_with_missing(numbers, codes == edges.size - 1, like)
    return _column_like(numbers, like)


def middles(interval: Interval, like: Any, shape: Shape | None = None) -> NDArray[Any]:
    """Return the mean of what is drawn in each bin."""
    edges = np.array(interval.edges, interval.dtype)
    if shape is not None:
        grid, shares = np.array(shape.grid.edges, interval.dtype), np.diff(shape.below) + _LITTLE
        fine, starts = middles(shape.grid, like), np.searchsorted(grid, edges[:-1])
        beyond = (fine - edges[0]).astype(float)
        means = np.add.reduceat(beyond * shares, starts) / np.add.reduceat(shares, starts)
        return edges[0] + means.astype((fine - edges[0]).dtype)
    if interval.dtype.kind != "f":
        return edges[:-1] + (edges[1:] - edges[:-1]) // 2
    dtype = _number_type(like)
    first, last = _whole_numbers(edges, dtype) if dtype.kind in "iu" else (edges[:-1], edges[1:])
    return (first + last) / 2


def _draw_whole(
    edges: NDArray[np.float64], codes: NDArray[np.integer], dtype: np.dtype[Any], inside: NDArray[np.float64]
) -> NDArray[np.integer]:
    first, last = _whole_numbers(edges, dtype)
    numbers = first[codes] + np.floor(inside * (last - first + 1)[codes])
    return np.minimum(numbers, last[codes]).astype(dtype)


def _whole_numbers(edges: NDArray[np.float64], dtype: np.dtype[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and last whole number of a bin; the nearest one that the domain and the dtype hold, if none."""
    limits = np.iinfo(dtype)
    least, most = max(np.ceil(edges[0]), float(limits.min)), min(np.floor(edges[-1]), float(limits.max))
    if most > limits.max:  # rounded up
        most = float(np.nextafter(most, 0.0))
    first, last = np.clip(np.ceil(edges[:-1]), least, most), np.clip(np.ceil(edges[1:]) - 1, least, most)
    last[-1] = most  # the last bin is closed
    first[last < first] = last[last < first]
    return first, last


def _draw_real(
    edges: NDArray[np.float64], codes: NDArray[np.integer], dtype: np.dtype[Any], inside: NDArray[np.float64]
) -> NDArray[np.floating]:
    edges = edges.astype(dtype)
    left, right = edges[:-1][codes], edges[1:][codes]
    numbers = (left + inside * (right - left)).astype(dtype)
    return np.clip(numbers, left, np.nextafter(right, left))


def _decode_dates(
    interval: Interval,
    codes: NDArray[np.integer],
    like: Any,
    rng: np.random.Generator,
    inside: NDArray[np.float64] | None = None,
) -> Any:
    """Draw a date in each bin, or take that at a given place."""
    # A whole day for dates, otherwise a whole second, if the edges are, or a microsecond.
    edges, kept = np.array(interval.edges, interval.dtype), time_type(like)
    seconds = edges.astype("datetime64[s]")
    step = _coarser(edges.dtype, seconds.dtype) if (seconds == edges).all() else edges.dtype
    step = step if kept is None else _coarser(step, kept)
    first, last = _whole_steps(held_dates(edges, kept), step)
    bins = np.minimum(codes, edges.size - 2)
    if inside is None:
        steps = rng.integers(first[bins], last[bins], endpoint=True)
    else:
        steps = first[bins] + np.floor(inside * (last - first + 1)[bins]).astype(np.int64)
    times = steps.astype(step).astype(edges.dtype)
    if interval.missing:
        times[codes == edges.size - 1] = np.datetime64("NaT", "us")
    return dates_like(times, like)


def _coarser(one: np.dtype[Any], other: np.dtype[Any]) -> np.dtype[Any]:
    return other if np.promote_types(one, other) == one else one


def _whole_steps(edges: NDArray[np.datetime64], step: np.dtype[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last whole step in each bin; the nearest one of the domain, if it has none."""
    below = edges.astype(step)
    above = below.astype(np.int64) + (below.astype(edges.dtype) < edges)
    least, most = above[0], below[-1].astype(np.int64)
    first, last = np.clip(above[:-1], least, most), np.clip(above[1:] - 1, least, most)
    last[-1] = most  # the last bin is closed
    return np.minimum(first, last), last


def _number_type(like: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of the numbers of a column; that of floats, where the column's own says nothing."""
    dtype = like.dtype if isinstance(like, np.ndarray | pd.Series) else nw.from_native(like, series_only=True).dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, nw.dtypes.DType):
        return np.dtype(getattr(np, str(dtype).lower(), float) if dtype.is_numeric() else float)  # Int64 is np.int64
    found = getattr(dtype, "numpy_dtype", dtype)
    return found if isinstance(found, np.dtype) and found.kind in "iuf" else np.dtype(float)


def _column_like(numbers: NDArray[Any], like: Any) -> Any:
    """Make a column of the same library and dtype; of the dtype of the numbers, where the column's is of values."""
    if isinstance(like, np.ndarray):
        return numbers
    if isinstance(like, pd.Series):
        coded = hasattr(getattr(like.dtype, "pyarrow_dtype", None), "value_type")  # a dictionary of Arrow
        kept: Any = numbers.dtype if coded or isinstance(like.dtype, pd.CategoricalDtype) else like.dtype
        return pd.array(numbers, kept)
    dtype = nw.from_native(like, series_only=True).dtype
    column = nw.new_series("", numbers, backend=nw.get_native_namespace(like))
    return (column.cast(dtype) if dtype.is_numeric() else column).to_native()


def _column_with_missing(numbers: NDArray[Any], missing: NDArray[np.bool_], like: Any) -> Any:
    """Make a column in which some numbers are missing; NumPy's whole numbers always become floats for that."""
    column = _column_like(numbers, like)
    if isinstance(like, np.ndarray | pd.Series):
        if isinstance(column, np.ndarray | pd.arrays.NumpyExtensionArray):
            return np.where(missing, np.nan, numbers)
        column[missing] = pd.NA
        return column
    series = nw.from_native(column, series_only=True)
    frame = nw.new_series("missing", missing, backend=nw.get_native_namespace(like)).to_frame()
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
    known = attribute.edges if isinstance(attribute, Interval) else [one for one in attribute.values if one is not None]
    kinds = {kind_of(value) for value in known}
    if kinds == {"number"}:
        real = getattr(attribute, "real", False) or not all(float(value).is_integer() for value in known)
        if real:
            return "real"
        return "unsigned" if max(known) > np.iinfo(np.int64).max and min(known) >= 0 else "whole"
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
        return column if _is_narrow(column.dtype, kind) else np.empty(0, _DTYPES[kind].numpy)
    if isinstance(column, pd.Series):
        return pd.Series([], dtype=_pandas_dtype(column.dtype, kind))
    series = nw.from_native(column, series_only=True)
    if series.dtype.is_numeric() or series.dtype == nw.Unknown:  # Unknown: nothing but missing values
        narrow = series.dtype == nw.Float32 and kind == "real"
        return column if narrow else _empty_series(series, kind)
    return column


def _empty_series(like: nw.Series[Any], kind: str) -> Any:
    return nw.new_series("", [], _DTYPES[kind].narwhals, backend=like.implementation).to_native()


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
    number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    return (number and _DTYPES[kind].pandas) or dtype
