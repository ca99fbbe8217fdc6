"""Types of public parameters, for annotations within the library."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

import numpy as np
from narwhals.typing import IntoDataFrame, IntoSeries
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

TableLike: TypeAlias = IntoDataFrame | ArrayLike
"""A table: a pandas, Polars or Arrow frame, or an array of shape (n_samples, n_features)."""

ColumnLike: TypeAlias = IntoSeries | ArrayLike
"""A column: a series of any library, or an array of shape (n_samples,)."""

ColumnName: TypeAlias = Hashable
"""The name of a column; in an array, its number."""

Bounds: TypeAlias = ArrayLike | Mapping[Any, tuple[float, float] | str]
"""A pair (low, high) for all columns, an array of shape (n_features, 2), or a pair by column name. For estimators of
the curator also "private", in place of all or of a pair."""

PathType: TypeAlias = str | PathLike[str]
"""The path of a file or folder."""

ReportStrategy: TypeAlias = Literal["split", "joint", "sample"]
"""How a local transformer divides epsilon over the columns."""

HandleUnknown: TypeAlias = Hashable | Literal["error", "uniform"]
"""What stands for an undeclared value: an error, a uniform draw, or a declared value."""

Label: TypeAlias = Hashable
"""A label of a target: text, a number or a bool."""

Privileged: TypeAlias = (
    Hashable | Sequence[Hashable] | Mapping[Any, Hashable | Sequence[Hashable]]
)
"""The values that make a row privileged: one, several, or those of each column by name. Of several columns, a value is
a tuple."""

AxesLike: TypeAlias = Union["Axes", Sequence["Axes"], NDArray[np.object_]]
"""Matplotlib axes to draw on: one, or one for each panel."""
