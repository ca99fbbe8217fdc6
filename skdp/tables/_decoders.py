"""From codes back to columns of any library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables._columns import ColumnError, ValueCoder, as_objects, take

Decode = Callable[[NDArray[np.integer]], Any]

# Types of which no two values are equal and look different.
_KEYS = {str, int, bool, type(None)}


def decoder(values: Sequence[Any], library: str, dtype: Any) -> Decode:
    """Return a function from codes to a column of a library and, if possible, of a dtype."""
    # The library infers the dtype if this one cannot represent all declared values.
    types = tuple(map(type, values))
    if not _KEYS.issuperset(types):
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


def _make_array(values: Sequence[Any], dtype: np.dtype[Any] | None) -> Decode:
    if dtype is not None and dtype.kind == "f":
        values = [np.nan if value is None else value for value in values]
    if dtype is None or dtype.kind == "O":
        return partial(take, as_objects(values))
    return partial(take, np.array(values, dtype))


def _make_pandas(values: Sequence[Any], dtype: Any) -> Decode:
    if isinstance(dtype, np.dtype):
        return _make_array(values, dtype)
    return pd.Series(list(values), dtype=dtype).array.take


def _make_polars(values: Sequence[Any], dtype: Any) -> Decode:
    import polars

    try:
        return polars.Series(values, dtype=dtype).gather
    except polars.exceptions.PolarsError as error:  # derives from no standard error
        raise TypeError(type(error).__name__) from None


def _make_arrow(values: Sequence[Any], dtype: Any) -> Decode:
    import pyarrow

    levels = pyarrow.array(values, dtype)
    return lambda codes: levels.take(pyarrow.array(codes))


_MAKERS: dict[str, Callable[[Sequence[Any], Any], Decode]] = {
    "numpy": _make_array,
    "pandas": _make_pandas,
    "polars": _make_polars,
    "pyarrow": _make_arrow,
}


def column_of(
    values: NDArray[Any], library: str, missing: NDArray[np.bool_] | None = None
) -> Any:
    """Convert numbers, dates or truth values to a column of a library; NaN, NaT and masked rows become missing."""
    if library in ("numpy", "pandas"):
        if missing is not None:
            values = np.where(missing, np.nan, values)
        is_time = library == "pandas" and values.dtype.kind == "M"
        return values.astype("datetime64[us]") if is_time else values
    if library == "pyarrow":
        import pyarrow

        array = pyarrow.array(values, mask=missing, from_pandas=True)
        return pyarrow.chunked_array([array])
    import polars

    series = polars.Series(values, nan_to_null=True)
    return series if missing is None else series.set(polars.Series(missing), None)
