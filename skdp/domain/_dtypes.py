"""The values that the dtype of a column declares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.tables import Table

# Key of the metadata that declares the values of an Arrow field, as JSON (an Arrow
# dictionary has the values that occur). It differs between processes, so that a file cannot
# declare anything.
DECLARED = b"skdp.values." + token_hex(8).encode()


def domains_of_dtypes(
    table: Table,
) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    """Return the domains declared by dtypes, and the domains that dtypes may have from the data."""
    # An Enum of Polars and an ENUM of DuckDB declare their values, and so do ordered
    # categories of pandas. Unordered ones may be just the values that occur, and the
    # bins of ``pandas.cut`` may have ends from the data. Only the dtype decides: one
    # rare record may decide whether all categories occur, and so it would on a warning.
    declared: dict[Any, list[Any]] = {}
    observed: dict[Any, list[Any]] = {}
    for name, column in zip(table.names, table.columns, strict=True):
        dtype = getattr(column, "dtype", None)
        if isinstance(dtype, pd.CategoricalDtype):
            are_bins = isinstance(dtype.categories, pd.IntervalIndex)
            domains = declared if dtype.ordered and not are_bins else observed
            domains[name] = dtype.categories.tolist()
        elif not isinstance(column, np.ndarray | pd.Series):
            series = nw.from_native(column, series_only=True)
            metadata = _field_metadata(table.native, name)
            if series.dtype == nw.Enum:
                declared[name] = series.cat.get_categories().to_list()
            elif DECLARED in metadata:
                declared[name] = json.loads(metadata[DECLARED])
    return declared, observed


def _field_metadata(native: Any, name: Any) -> Mapping[bytes, bytes]:
    is_arrow = type(native).__module__.startswith("pyarrow")
    if not is_arrow or name not in native.schema.names:
        return {}
    return native.schema.field(name).metadata or {}
