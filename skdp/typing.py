"""Types of public parameters, for annotations and for completion in an editor."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from os import PathLike
from typing import Literal, TypeAlias

from narwhals.typing import IntoDataFrame, IntoSeries
from numpy.typing import ArrayLike

__all__ = [
    "Bounds",
    "ColumnLike",
    "ColumnName",
    "HandleUnknown",
    "PathType",
    "ReportStrategy",
    "TableLike",
]

TableLike: TypeAlias = IntoDataFrame | ArrayLike
"""A table: a pandas, Polars or Arrow frame, or an array of shape (n_samples, n_features)."""

ColumnLike: TypeAlias = IntoSeries | ArrayLike
"""A column: a series of any library, or an array of shape (n_samples,)."""

ColumnName: TypeAlias = Hashable
"""The name of a column; in an array, its number."""

Bounds: TypeAlias = ArrayLike | Mapping[ColumnName, tuple[float, float] | str]
"""A pair (low, high) for all columns, an array of shape (n_features, 2), or a pair by column name. For estimators of
the curator also "private", in place of all or of a pair."""

PathType: TypeAlias = str | PathLike[str]
"""The path of a file or folder."""

ReportStrategy: TypeAlias = Literal["split", "joint", "sample"]
"""How a local transformer divides epsilon over the columns."""

HandleUnknown: TypeAlias = Hashable | Literal["error", "uniform"]
"""What stands for an undeclared value: an error, a uniform draw, or a declared value."""
