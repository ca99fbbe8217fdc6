"""Names of the types of arrays, tables and columns in annotations, one for each type."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:  # arrays are used without dataframes, and matplotlib is optional
    from matplotlib.axes import Axes
    from narwhals.typing import IntoDataFrame, IntoSeries

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
# Integer codes of declared values, in the smallest type that holds them.
Codes = NDArray[np.integer]

# Table: a pandas, Polars or Arrow frame, or an array of shape (n_samples, n_features).
TableLike: TypeAlias = "IntoDataFrame | ArrayLike"

# Column: a series of any library, or an array of shape (n_samples,).
ColumnLike: TypeAlias = "IntoSeries | ArrayLike"

# Column of a `skdp.tables.Table`: a series of any library, or an array.
Column: TypeAlias = "IntoSeries | NDArray[Any]"

# Name of a column.
ColumnName: TypeAlias = Hashable

# Path of a file or folder.
PathType: TypeAlias = str | PathLike[str]

# Label of a target: text, a number or a bool.
Label: TypeAlias = Hashable

# Privileged values: a value, a list of values, or a mapping of columns to values. The
# value of several columns together is a tuple.
Privileged: TypeAlias = (
    Hashable | Sequence[Hashable] | Mapping[Any, Hashable | Sequence[Hashable]]
)

# Matplotlib axes to draw on: one, or one for each panel.
AxesLike: TypeAlias = "Axes | Sequence[Axes] | NDArray[np.object_]"
