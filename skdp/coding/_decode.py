"""Decode integer codes to a column with the library and dtype of another column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding._encode import ColumnError, ValueCoder, library_of, take

Decode = Callable[[NDArray[np.integer]], Any]


def decoder(values: Sequence[Any], like: Any) -> Decode:
    """Return a function from codes to a column with the library and, if possible, the dtype of another column."""
    # The dtype depends on that of the other column and on the declared values, never on the data. It is replaced if it
    # cannot represent all declared values, such as an integer dtype where missing is declared. A categorical dtype gets
    # the declared values as its categories. A Categorical of polars becomes an Enum, as its categories are shared by
    # the whole process.
    library = "numpy" if isinstance(like, np.ndarray) else library_of(like)
    dtype = _MAKERS[library][1](like)
    known, kinds = tuple(values), tuple(map(type, values))
    if (
        len(known) > _FEW
        or not _KEPT.issuperset(kinds)
        or not _has_no_categories(dtype)
    ):
        return _decoder(known, library, dtype)
    return _kept_decoder(known, kinds, library, dtype)


_FEW = 1_000
_KEPT = frozenset(
    (str, int, bool, type(None))
)  # of which no two are equal and look different


def _has_no_categories(dtype: Any) -> bool:
    """Whether a dtype may be kept: categories are those of a table, which may be private."""
    return isinstance(dtype, np.dtype | pd.StringDtype | pd.BooleanDtype) or (
        type(dtype).__module__.split(".")[0] in ("pyarrow", "polars")
        and not hasattr(dtype, "categories")
    )


@lru_cache(maxsize=256)
def _kept_decoder(
    values: tuple[Any, ...], kinds: tuple[type, ...], library: str, dtype: Any
) -> Decode:
    # Each batch of each table needs it. 1, 1.0 and True are equal, so the key has their types.
    return _decoder(values, library, dtype)


def _decoder(values: tuple[Any, ...], library: str, dtype: Any) -> Decode:
    make, coder, every = _MAKERS[library][0], ValueCoder(values), np.arange(len(values))
    for wanted in (dtype, None):
        try:
            decode = make(values, wanted)
            read = coder.encode(_series(decode(every), library))
        except _FOREIGN_ERRORS:
            continue  # the dtype cannot hold the declared values
        if np.array_equal(read, every):
            return decode
    raise ColumnError(
        f"no dtype of its library can hold the declared values ({coder.kind})"
    )


# Raised by the libraries when a dtype cannot hold a value; the errors of Arrow derive from these.
_FOREIGN_ERRORS: tuple[type[Exception], ...] = (
    TypeError,
    ValueError,
    OverflowError,
    NotImplementedError,
)


def _series(column: Any, library: str) -> Any:
    """Convert the output of a decoder, which may be an array of the library, to a series."""
    if library == "pandas":
        return pd.Series(column)
    if type(column).__module__.startswith("pyarrow"):
        import pyarrow

        return pyarrow.chunked_array([column])
    return column


def _without_missing(
    values: Sequence[Any],
) -> tuple[list[Any], NDArray[np.integer] | None]:
    """Return the values that are not missing, and the position of each code among them, -1 for missing."""
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        return known, None
    places = np.full(len(values), -1, np.min_scalar_type(-len(values)))
    places[[place for place, value in enumerate(values) if value is not None]] = range(
        len(known)
    )
    return known, places


def _make_array(values: Sequence[Any], dtype: np.dtype[Any] | None) -> Decode:
    levels = _array_levels(values, dtype)
    return lambda codes: take(levels, codes)


def _array_levels(values: Sequence[Any], dtype: np.dtype[Any] | None) -> NDArray[Any]:
    filled = [np.nan if value is None else value for value in values]
    if dtype is not None and dtype.kind == "O" and _has_numbers_and_missing(values):
        # pandas and NumPy infer it from the values: floats of numbers of which some are missing, objects of none.
        dtype = np.dtype(float)
    if dtype is not None and dtype.kind in "US" and None not in values:
        return np.array(
            filled
        )  # as wide as the longest declared value, not as the data
    if dtype is not None and dtype.kind in "iuf":
        natural = np.array(filled)
        with np.errstate(invalid="ignore", over="ignore"):
            cast = natural.astype(dtype)
        # A float dtype may round the values if they stay distinct.
        fits = (
            np.unique(cast).size == cast.size
            if dtype.kind == "f"
            else bool((cast == natural).all())
        )
        return cast if fits else natural.astype(np.result_type(natural.dtype, dtype))
    if dtype is not None and dtype.kind == "b" and None not in values:
        return np.array(values, bool)
    if dtype is not None and dtype.kind == "M":
        missing = np.array("NaT", dtype)[
            ()
        ]  # of the same unit: NumPy deprecates a NaT without one
        return np.array(
            [missing if value is None else value for value in values], dtype
        )
    if dtype is None and all(isinstance(value, int | float) for value in values):
        return np.array(values)
    levels = np.empty(len(values), object)
    levels[:] = values
    return levels


def _has_numbers_and_missing(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in known
    )
    return bool(known) and len(known) < len(values) and numbers


def _make_pandas(values: Sequence[Any], dtype: Any) -> Decode:
    if isinstance(dtype, pd.CategoricalDtype):
        known, places = _without_missing(values)
        dtype = pd.CategoricalDtype(known, dtype.ordered)
        return lambda codes: pd.Categorical.from_codes(
            codes if places is None else take(places, codes), dtype=dtype
        )
    if isinstance(dtype, np.dtype):
        return _make_array(values, dtype)
    if isinstance(dtype, pd.PeriodDtype) or (
        pd.api.types.is_integer_dtype(dtype) and _has_fraction(values)
    ):
        dtype = None  # pandas would read numbers as periods, and warn
    return pd.array(list(values), dtype=dtype).take


def _has_fraction(values: Sequence[Any]) -> bool:
    return any(isinstance(value, float) and not value.is_integer() for value in values)


def _make_polars(values: Sequence[Any], dtype: Any) -> Decode:
    import polars

    try:
        if dtype is not None and dtype.base_type() in (polars.Enum, polars.Categorical):
            # A Categorical has its categories in order of first appearance, possibly in the true rows.
            dtype = polars.Enum([value for value in values if value is not None])
        elif dtype is None and _has_fraction(values):
            dtype = polars.Float64
        levels = polars.Series(values, dtype=dtype)
    except polars.exceptions.PolarsError as error:  # derives from no standard error
        raise TypeError(type(error).__name__) from None
    if levels.dtype == polars.Enum and None not in values and hasattr(levels.cat, "to"):
        # Polars 2: the codes are the physical column; `gather` would first widen each to an index.
        physical = levels.to_physical().dtype
        return lambda codes: polars.Series(codes).cast(physical).cat.to(levels.dtype)
    return levels.gather


def _make_arrow(values: Sequence[Any], dtype: Any) -> Decode:
    import pyarrow
    from pyarrow import types

    if dtype is not None and types.is_dictionary(dtype):
        return _make_arrow_dictionary(values, dtype)
    if dtype is not None and types.is_integer(dtype) and _has_fraction(values):
        dtype = pyarrow.float64()  # Arrow would silently truncate fractions
    if dtype is not None and types.is_string_view(dtype):
        texts = pyarrow.array(values, pyarrow.string())  # Arrow has no `take` for views
        return lambda codes: texts.take(pyarrow.array(codes)).cast(dtype)
    levels = pyarrow.array(values, dtype)
    return lambda codes: levels.take(pyarrow.array(codes))


def _make_arrow_dictionary(values: Sequence[Any], dtype: Any) -> Decode:
    import pyarrow

    known, places = _without_missing(values)
    levels = pyarrow.array(known, dtype.value_type)
    wide = np.iinfo(dtype.index_type.to_pandas_dtype()).max >= len(known)

    def decode(codes: NDArray[np.integer]) -> Any:
        positions = codes if places is None else take(places, codes)
        indices = pyarrow.array(
            positions, mask=None if places is None else positions < 0
        )
        if wide:
            indices = indices.cast(dtype.index_type)
        return pyarrow.DictionaryArray.from_arrays(
            indices, levels, ordered=dtype.ordered
        )

    return decode


_MAKERS: dict[
    str, tuple[Callable[[Sequence[Any], Any], Decode], Callable[[Any], Any]]
] = {
    "numpy": (_make_array, lambda like: like.dtype),
    "pandas": (_make_pandas, lambda like: like.dtype),
    "polars": (_make_polars, lambda like: like.dtype),
    "pyarrow": (_make_arrow, lambda like: like.type),
}
