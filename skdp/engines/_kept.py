"""The columns that are released as they are, and nothing besides: no rows that were left out, no metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from skdp.frames import without_unused_levels


def kept_columns(batch: Any, names: Sequence[str]) -> Any:
    """Copy the kept columns of a batch, with their own rows only."""
    # A slice of a table may hold the memory of the whole one; an Arrow dictionary, values that no row has; and a
    # Categorical of polars belongs to a table of the whole process: it becomes text. Other dtypes stay, with the
    # categories that they have.
    frame = nw.from_native(batch, eager_only=True).select(*names)
    native = frame.to_native()
    if frame.implementation.is_polars():
        return _from_polars(native)
    if frame.implementation.is_pyarrow():
        import pyarrow

        columns = [_from_arrow(native.column(name)) for name in names]
        return pyarrow.Table.from_arrays(columns, names=list(names))
    own = native.copy()
    own.index = without_unused_levels(native.index)
    return own


def _from_polars(frame: Any) -> Any:
    import polars

    text = [name for name, dtype in frame.schema.items() if dtype.base_type() in (polars.String, polars.Categorical)]
    # To join nothing to a text makes a new one; a selection of texts keeps the memory of all.
    own = frame.with_columns(polars.concat_str(polars.col(name).cast(polars.String), polars.lit("")) for name in text)
    return own[np.arange(frame.height)]


def _from_arrow(column: Any) -> Any:
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode().cast(kind)
    rows = pyarrow.array(np.arange(len(column)))
    if types.is_string_view(kind) or types.is_binary_view(kind):  # views cannot be taken from
        plain = pyarrow.large_string() if types.is_string_view(kind) else pyarrow.large_binary()
        return column.cast(plain).take(rows).cast(kind)
    return column.take(rows)
