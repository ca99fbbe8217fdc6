"""From integer codes back to a column of the library and dtype of a given one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding._encode import take


def decode(codes: NDArray[np.integer], values: Sequence[Any], like: Any) -> Any:
    """Turn codes into a column that looks like another one.

    The dtype depends on the other column's dtype and on the declared values, never on the data: a dtype that cannot
    hold every declared value (an integer dtype where missing is declared) gives way to one that can, and a
    categorical dtype takes the declared values as its categories.

    Parameters
    ----------
    codes : ndarray of integers
        Positions in the values.
    values : sequence
        Plain values, None for missing.
    like : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
        The column whose library and dtype to use.

    Returns
    -------
    same kind as like
        The values of the codes.

    Raises
    ------
    TypeError
        If the column is of another library.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> decode(np.array([1, 0]), ["a", "b"], pd.Series(["b"], dtype="category")).tolist()
    ['b', 'a']
    """
    if isinstance(like, np.ndarray):
        return take(_array_levels(values, like.dtype), codes)
    implementation = nw.from_native(like, series_only=True).implementation
    if implementation.is_pandas():
        return _decode_pandas(codes, values, like.dtype)
    if implementation.is_polars():
        return _decode_polars(codes, values, like.dtype)
    if implementation.is_pyarrow():
        return _decode_arrow(codes, values, like.type)
    raise TypeError(f"columns of {implementation.name.lower()} are not supported; use pandas, polars or pyarrow")


def _array_levels(values: Sequence[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    filled = [np.nan if value is None else value for value in values]
    if dtype.kind in "US" and None not in values:
        return np.array(filled)  # as wide as the longest declared value, whatever the data held
    if dtype.kind in "iuf" or (dtype.kind == "b" and None not in values):
        natural = np.array(filled)
        with np.errstate(invalid="ignore", over="ignore"):
            cast = natural.astype(dtype)
        # A float dtype may round the values as long as it tells them apart.
        fits = np.unique(cast).size == cast.size if dtype.kind == "f" else bool((cast == natural).all())
        return cast if fits else natural.astype(np.result_type(natural.dtype, dtype))
    if dtype.kind in "mM":
        return np.array([np.datetime64("NaT") if value is None else value for value in values], dtype)
    levels = np.empty(len(values), object)
    levels[:] = filled
    return levels


def _decode_pandas(codes: NDArray[np.integer], values: Sequence[Any], dtype: Any) -> Any:
    if isinstance(dtype, pd.CategoricalDtype):
        categories, places = _without_missing(codes, values)
        return pd.Categorical.from_codes(places, dtype=pd.CategoricalDtype(categories, dtype.ordered))
    if isinstance(dtype, np.dtype):
        return take(_array_levels(values, dtype), codes)
    if pd.api.types.is_integer_dtype(dtype) and _has_fraction(values):
        dtype = None
    try:
        levels = pd.array(list(values), dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        levels = pd.array(list(values))
    return levels.take(codes)


def _without_missing(codes: NDArray[np.integer], values: Sequence[Any]) -> tuple[list[Any], NDArray[np.integer]]:
    """Return the values that are not missing, and codes among them, -1 for missing."""
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        return known, codes
    places = np.full(len(values), -1, np.min_scalar_type(-len(values)))
    places[[place for place, value in enumerate(values) if value is not None]] = range(len(known))
    return known, take(places, codes)


def _has_fraction(values: Sequence[Any]) -> bool:
    return any(isinstance(value, float) and not value.is_integer() for value in values)


def _decode_polars(codes: NDArray[np.integer], values: Sequence[Any], dtype: Any) -> Any:
    import polars

    if dtype == polars.Enum:
        dtype = polars.Enum([value for value in values if value is not None])
    try:
        levels = polars.Series(values, dtype=dtype)
    except (TypeError, OverflowError, polars.exceptions.PolarsError):
        levels = polars.Series(values, dtype=polars.Float64 if _has_fraction(values) else None)
    physical = polars.Series(codes)
    if levels.dtype == polars.Enum and None not in values and hasattr(physical.cat, "to"):
        # Polars 2: the codes are the column; `gather` would widen each to an index first.
        return physical.cast(levels.to_physical().dtype).cat.to(levels.dtype)
    return levels.gather(codes)


def _decode_arrow(codes: NDArray[np.integer], values: Sequence[Any], kind: Any) -> Any:
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(kind):
        known, places = _without_missing(codes, values)
        indices = pyarrow.array(places, mask=places < 0)
        if np.iinfo(kind.index_type.to_pandas_dtype()).max >= len(known):
            indices = indices.cast(kind.index_type)
        return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(known, kind.value_type), ordered=kind.ordered)
    try:
        # Arrow would cut a fraction off without a word.
        levels = pyarrow.array(values, pyarrow.float64() if types.is_integer(kind) and _has_fraction(values) else kind)
    except pyarrow.ArrowException:
        levels = pyarrow.array(values)
    return levels.take(pyarrow.array(codes))
