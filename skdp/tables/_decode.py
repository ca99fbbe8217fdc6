"""Decode integer codes, or dates, to a column with the library and dtype of another column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables._columns import Times, as_objects, library_of, take, value_dtype
from skdp.tables._encode import ValueCoder
from skdp.tables._values import ColumnError

Decode = Callable[[NDArray[np.integer]], Any]

_KEYS = {str, int, bool, type(None)}
"""Types of which no two values are equal and look different."""


def decoder(values: Sequence[Any], like: Any) -> Decode:
    """Return a function from codes to a column with the library and, if possible, the dtype of another column."""
    # The dtype depends on that of the other column and on the declared values, never on
    # the data. It is replaced if it cannot represent all declared values, such as an
    # integer dtype where missing is declared. A categorical dtype gets the declared
    # values as its categories. A Categorical of polars becomes an Enum, as its
    # categories are shared by the whole process.
    library = library_of(like)
    dtype = like.type if library == "pyarrow" else like.dtype
    types = tuple(map(type, values))
    # Categories are those of a table, which may be private: they are not kept.
    if hasattr(dtype, "categories") or not _KEYS.issuperset(types):
        return _decoder(tuple(values), library, dtype)
    return _kept_decoder(tuple(values), types, library, dtype)


# Each batch of each table needs it, and to make one takes up to a third of the time of
# a small batch. 1 and True are equal, so the key has the types.
@lru_cache(maxsize=256)
def _kept_decoder(
    values: tuple[Any, ...], types: tuple[type, ...], library: str, dtype: Any
) -> Decode:
    return _decoder(values, library, dtype)


def _decoder(values: tuple[Any, ...], library: str, dtype: Any) -> Decode:
    # Whether a dtype can hold the values shows when they are decoded and coded again:
    # libraries cut texts, round numbers and wrap integers without a word.
    make = _MAKERS[library]
    coder = ValueCoder(values)
    codes = np.arange(len(values))
    for candidate in (dtype, None):
        try:
            decode = make(values, candidate)
            read_codes = coder.encode(_series(decode(codes), library))
        except _FOREIGN_ERRORS:
            continue  # the dtype cannot hold the declared values
        if np.array_equal(read_codes, codes):
            return decode
    raise ColumnError(
        f"no dtype of its library can hold the declared values ({coder.kind})"
    )


# Raised by the libraries when a dtype cannot hold a value; the errors of Arrow derive
# from these.
_FOREIGN_ERRORS = (TypeError, ValueError, OverflowError, NotImplementedError)


def _series(column: Any, library: str) -> Any:
    """Convert the output of a decoder, which may be an array of the library, to a series."""
    if library == "pandas":
        return pd.Series(column)
    if library == "pyarrow":
        import pyarrow

        return pyarrow.chunked_array([column])
    return column


def _has_fraction(values: Sequence[Any]) -> bool:
    return any(isinstance(value, float) and not value.is_integer() for value in values)


def _without_missing(
    values: Sequence[Any],
) -> tuple[list[Any], NDArray[np.integer] | None]:
    """Return the values that are not missing, and the place of each code among them, -1 for missing."""
    levels = [value for value in values if value is not None]
    if len(levels) == len(values):
        return levels, None
    places = np.full(len(values), -1, np.min_scalar_type(-len(values)))
    is_known = [value is not None for value in values]
    places[is_known] = np.arange(len(levels))
    return levels, places


def _make_array(values: Sequence[Any], dtype: np.dtype[Any] | None) -> Decode:
    return partial(take, _array_levels(values, dtype))


def _array_levels(values: Sequence[Any], dtype: np.dtype[Any] | None) -> NDArray[Any]:
    kind = "" if dtype is None else dtype.kind
    if kind == "O" and _has_numbers_and_missing(values):
        # pandas and NumPy infer it from the values: floats of numbers of which some are
        # missing, objects of none.
        return _number_levels(values, np.dtype(float))
    if kind == "M":
        return np.array(values, dtype)
    if kind in ("i", "u", "f"):
        return _number_levels(values, dtype)
    if kind == "b" and None not in values:
        return np.array(values, bool)
    if kind in ("U", "S") and None not in values:
        # As wide as the longest declared value, not as the data.
        return np.array(values)
    if dtype is None and all(isinstance(value, int | float) for value in values):
        return np.array(values)
    return as_objects(values)


def _has_numbers_and_missing(values: Sequence[Any]) -> bool:
    types = {type(value) for value in values}
    return type(None) in types and types - {type(None)} in (
        {int},
        {float},
        {int, float},
    )


def _number_levels(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
    natural = np.array([np.nan if value is None else value for value in values])
    with np.errstate(invalid="ignore", over="ignore"):
        cast = natural.astype(dtype)
    # A float dtype may round the values if they stay distinct.
    may_round = dtype.kind == "f" and np.unique(cast).size == cast.size
    is_fitting = may_round or bool((cast == natural).all())
    return cast if is_fitting else natural.astype(np.result_type(natural.dtype, dtype))


def _make_pandas(values: Sequence[Any], dtype: Any) -> Decode:
    if isinstance(dtype, np.dtype):
        return _make_array(values, dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        levels, places = _without_missing(values)
        return partial(_categorical, pd.CategoricalDtype(levels, dtype.ordered), places)
    # pandas would read numbers as periods, and warn.
    is_period = isinstance(dtype, pd.PeriodDtype)
    if is_period or (pd.api.types.is_integer_dtype(dtype) and _has_fraction(values)):
        dtype = None
    return pd.array(list(values), dtype=dtype).take


def _categorical(
    dtype: pd.CategoricalDtype,
    places: NDArray[np.integer] | None,
    codes: NDArray[np.integer],
) -> pd.Categorical:
    if places is not None:
        codes = take(places, codes)
    return pd.Categorical.from_codes(codes, dtype=dtype)


def _make_polars(values: Sequence[Any], dtype: Any) -> Decode:
    import polars

    base = None if dtype is None else dtype.base_type()
    if base in (polars.Enum, polars.Categorical):
        # A Categorical has its categories in order of first appearance, possibly in the
        # true rows.
        dtype = polars.Enum([value for value in values if value is not None])
    elif dtype is None and _has_fraction(values):
        dtype = polars.Float64
    try:
        levels = polars.Series(values, dtype=dtype)
    except polars.exceptions.PolarsError as error:  # derives from no standard error
        raise TypeError(type(error).__name__) from None
    if levels.dtype == polars.Enum and None not in values and hasattr(levels.cat, "to"):
        return partial(_enum, levels)
    return levels.gather


def _enum(levels: Any, codes: NDArray[np.integer]) -> Any:
    import polars

    # Polars 2: the codes are the physical column; `gather` would first widen each to an
    # index.
    physical = levels.to_physical().dtype
    return polars.Series(codes).cast(physical).cat.to(levels.dtype)


def _make_arrow(values: Sequence[Any], dtype: Any) -> Decode:
    import pyarrow
    from pyarrow import types

    if dtype is None:
        return partial(_take_arrow, pyarrow.array(values), None)
    if types.is_dictionary(dtype):
        levels, places = _without_missing(values)
        array = pyarrow.array(levels, dtype.value_type)
        return partial(_arrow_dictionary, dtype, array, places)
    if types.is_integer(dtype) and _has_fraction(values):
        dtype = pyarrow.float64()  # Arrow would silently truncate fractions
    if types.is_string_view(dtype):
        # Arrow has no `take` for views.
        return partial(_take_arrow, pyarrow.array(values, pyarrow.string()), dtype)
    return partial(_take_arrow, pyarrow.array(values, dtype), None)


def _take_arrow(levels: Any, dtype: Any, codes: NDArray[np.integer]) -> Any:
    import pyarrow

    column = levels.take(pyarrow.array(codes))
    return column if dtype is None else column.cast(dtype)


def _arrow_dictionary(
    dtype: Any,
    levels: Any,
    places: NDArray[np.integer] | None,
    codes: NDArray[np.integer],
) -> Any:
    import pyarrow

    if places is None:
        indices = pyarrow.array(codes)
    else:
        codes = take(places, codes)
        indices = pyarrow.array(codes, mask=codes < 0)
    if np.iinfo(dtype.index_type.to_pandas_dtype()).max >= len(levels):
        indices = indices.cast(dtype.index_type)
    return pyarrow.DictionaryArray.from_arrays(indices, levels, ordered=dtype.ordered)


_MAKERS: dict[str, Callable[[Sequence[Any], Any], Decode]] = {
    "numpy": _make_array,
    "pandas": _make_pandas,
    "polars": _make_polars,
    "pyarrow": _make_arrow,
}

_NANOSECOND_YEARS = np.array(["1677-09-22", "2262-04-11"], "datetime64[D]")
"""The range of 64-bit nanoseconds."""


def time_type(like: Any) -> np.dtype[Any] | None:
    """Return the NumPy dtype with the unit of a column of dates or datetimes."""
    dtype = value_dtype(like)
    if isinstance(dtype, np.dtype):
        return dtype if dtype.kind == "M" else None
    if str(dtype) in ("Date", "date32[day]", "date64[ms]"):
        return np.dtype("datetime64[D]")
    unit = getattr(dtype, "time_unit", None) or getattr(dtype, "unit", None)
    return None if unit is None else np.dtype(f"datetime64[{unit}]")


def held_dates(times: Times, dtype: np.dtype[Any] | None) -> Times:
    """Clip times to the range that a dtype can hold."""
    if dtype is None or np.datetime_data(dtype)[0] != "ns":
        return times
    return np.clip(times, *_NANOSECOND_YEARS.astype(times.dtype))


def dates_like(times: Times, like: Any) -> Any:
    """Build a column of dates or datetimes with the library and dtype of another column."""
    library = library_of(like)
    dtype = time_type(like)
    if dtype is not None:
        times = held_dates(times, dtype).astype(dtype)
    if library == "polars":
        import polars

        return polars.Series(times)
    if library == "pyarrow":
        return _arrow_times(times, value_dtype(like))
    if isinstance(like.dtype, pd.ArrowDtype):
        column = _arrow_times(times, value_dtype(like))
        return pd.array(column.to_pandas(types_mapper=pd.ArrowDtype))
    column = times.astype(object) if dtype is None else times
    if library == "numpy":
        return column
    return pd.array(column, dtype or np.dtype(object))


def _arrow_times(times: Times, dtype: Any) -> Any:
    import pyarrow

    column = pyarrow.chunked_array([pyarrow.array(times)])
    return column if pyarrow.types.is_null(dtype) else column.cast(dtype)
