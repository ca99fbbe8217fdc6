"""Take columns of lists apart."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding._encode import ColumnError, library_of, shielded

_LISTS = (list, tuple, set, frozenset, np.ndarray)


def flatten_lists(column: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return the values of all lists of a column, as a column of its own, and the number of values of each list."""
    if isinstance(column, np.ndarray):
        return shielded(_from_objects, column.tolist())
    library = library_of(column)
    if library == "pandas":
        if isinstance(column.dtype, pd.ArrowDtype):
            import pyarrow

            return shielded(_from_arrow, pyarrow.array(column.array))
        return shielded(_from_objects, column.to_numpy(dtype=object).tolist())
    if library == "polars":
        import polars

        if not isinstance(column.dtype, polars.List | polars.Array):
            return shielded(_from_objects, column.to_list())
        return shielded(_from_arrow, column.to_arrow())
    return shielded(_from_arrow, column)


def _from_objects(cells: list[Any]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    for cell in cells:
        if not isinstance(cell, _LISTS) or (
            isinstance(cell, np.ndarray) and cell.ndim != 1
        ):
            raise ColumnError(
                "expected lists of values; a missing list is written as an empty one"
            )
    sizes = np.fromiter(map(len, cells), np.int64, len(cells))
    flat = np.empty(int(sizes.sum()), object)
    for place, value in enumerate(chain.from_iterable(cells)):
        flat[place] = value
    return flat, sizes


def _from_arrow(column: Any) -> tuple[Any, NDArray[np.int64]]:
    import pyarrow
    from pyarrow import compute, types

    kind = column.type
    if not (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    ):
        raise ColumnError(
            f"expected lists of values, got a column of {'text' if types.is_string(kind) else 'values'}"
        )
    if column.null_count:
        raise ColumnError(
            "expected lists of values; a missing list is written as an empty one"
        )
    chunked = (
        pyarrow.chunked_array([column]) if isinstance(column, pyarrow.Array) else column
    )
    return compute.list_flatten(chunked), compute.list_value_length(
        chunked
    ).to_numpy().astype(np.int64)
