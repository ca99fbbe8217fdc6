"""From codes back to columns of any library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables._columns import (
    ColumnError,
    Times,
    ValueCoder,
    as_objects,
    is_in_range,
    present,
    take,
)

Decode = Callable[[NDArray[np.integer]], Any]

# Types of which no two values are equal and look different.
_KEYS = {str, int, bool, type(None)}


def decoder(values: Sequence[Any], library: str, dtype: Any) -> Decode:
    """Return a function from codes to a column of a library and, if possible, of a dtype."""
    # The dtype is replaced if it cannot represent all declared values, such as an
    # integer dtype where missing is declared. A categorical dtype gets the declared
    # values as its categories. A Categorical of polars becomes an Enum, as its
    # categories are shared by the whole process.
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
            # pandas warns of numbers beyond a narrow float.
            with np.errstate(over="ignore", under="ignore"):
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
    types = set(map(type, values))
    return type(None) in types and types - {type(None)} in (
        {int},
        {float},
        {int, float},
    )


def _number_levels(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
    natural = np.array([np.nan if value is None else value for value in values])
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        cast = natural.astype(dtype)
    # A float dtype may round the values if they stay distinct.
    may_round = dtype.kind == "f" and np.unique(cast).size == cast.size
    may_round = may_round and bool(is_in_range(cast, natural).all())
    is_fitting = may_round or bool((cast == natural).all())
    return cast if is_fitting else natural.astype(np.result_type(natural.dtype, dtype))


def _make_pandas(values: Sequence[Any], dtype: Any) -> Decode:
    if isinstance(dtype, np.dtype):
        return _make_array(values, dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        levels = present(values)
        dtype = pd.CategoricalDtype(levels, dtype.ordered)
        # Codes of declared values are those of categories, if none is missing.
        if len(levels) == len(values):
            return partial(pd.Categorical.from_codes, dtype=dtype)
    # pandas would read numbers as periods, and warn.
    is_period = isinstance(dtype, pd.PeriodDtype)
    if is_period or (pd.api.types.is_integer_dtype(dtype) and _has_fraction(values)):
        dtype = None
    return pd.array(list(values), dtype=dtype).take


def _make_polars(values: Sequence[Any], dtype: Any) -> Decode:
    import polars

    base = None if dtype is None else dtype.base_type()
    if base in (polars.Enum, polars.Categorical):
        # A Categorical has its categories in order of first appearance, possibly in the
        # true rows.
        dtype = polars.Enum(present(values))
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
        return partial(_take_arrow, _arrow_dictionary(values, dtype), None)
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


def _arrow_dictionary(values: Sequence[Any], dtype: Any) -> Any:
    """Return declared values as an array of codes of those that are not missing."""
    import pyarrow

    coded = pyarrow.array(values, dtype.value_type).dictionary_encode()
    indices = coded.indices
    if np.iinfo(dtype.index_type.to_pandas_dtype()).max >= len(coded.dictionary):
        indices = indices.cast(dtype.index_type)
    return pyarrow.DictionaryArray.from_arrays(
        indices, coded.dictionary, ordered=dtype.ordered
    )


_MAKERS: dict[str, Callable[[Sequence[Any], Any], Decode]] = {
    "numpy": _make_array,
    "pandas": _make_pandas,
    "polars": _make_polars,
    "pyarrow": _make_arrow,
}


def column_of(values: NDArray[Any], library: str) -> Any:
    """Convert an array of numbers, dates or truth values to a column of a library; NaN becomes missing."""
    if library == "polars":
        import polars

        return polars.Series(values, nan_to_null=True)
    if library == "pyarrow":
        import pyarrow

        return pyarrow.chunked_array([pyarrow.array(values, from_pandas=True)])
    if library == "pandas" and values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    return values


def dates_like(times: Times, library: str, dtype: Any) -> Any:
    """Build a column of days or microseconds in a library, of its dtype for declared dates."""
    if library == "polars":
        import polars

        return polars.Series(times)
    if library == "pyarrow" or isinstance(dtype, pd.ArrowDtype):
        import pyarrow

        column = pyarrow.chunked_array([pyarrow.array(times)])
        if library == "pyarrow":
            return column
        return pd.array(column.to_pandas(types_mapper=pd.ArrowDtype))
    is_time = isinstance(dtype, np.dtype) and dtype.kind == "M"
    column = times.astype(dtype if is_time else object)
    return column if library == "numpy" else pd.array(column, column.dtype)
