"""The columns of a table that one step of a pipeline passes to the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pandas as pd

EVERYTHING = "(all columns)"
"""Placeholder for columns of unknown names."""


@dataclass(frozen=True)
class Column:
    """A column somewhere in a pipeline, by the columns of X that it is made of."""

    origins: frozenset[Any] = frozenset()
    raw: frozenset[Any] = frozenset()
    """Those of them that nothing has protected."""


def merged(columns: Iterable[Column]) -> Column:
    """Return a column that is made of several."""
    origins: frozenset[Any] = frozenset()
    raw: frozenset[Any] = frozenset()
    for column in columns:
        origins |= column.origins
        raw |= column.raw
    return Column(origins, raw)


@dataclass(frozen=True)
class Flow:
    """The table that one step passes to the next."""

    columns: tuple[Column, ...]
    names: tuple[Any, ...] | None = None
    is_exact: bool = False
    """Otherwise one column stands for all, whose number and order are not known."""
    is_curated: bool = False
    """Whether a step before has learnt from true values."""
    has_new_target: bool = False
    """Whether the target was replaced by a protected one."""

    @classmethod
    def start(cls, names: Sequence[Any] | None) -> Self:
        """Return the flow of the input table."""
        if names is None:
            everything = frozenset([EVERYTHING])
            return cls((Column(everything, everything),))
        columns = tuple(Column(frozenset([name]), frozenset([name])) for name in names)
        return cls(columns, tuple(names), is_exact=True)

    @property
    def merged(self) -> Column:
        """All columns merged into one."""
        return merged(self.columns)

    def split(
        self, names: Sequence[Any], chosen: Collection[Any]
    ) -> tuple[Column, Column]:
        """Merge the columns whose names are chosen, and the others."""
        if not chosen:
            return Column(), self.merged
        if all(name in chosen for name in names) and names:
            return self.merged, Column()
        if not self.is_exact or len(names) != len(self.columns):
            # It is not known which of them are chosen.
            return self.merged, self.merged
        inside = Column()
        outside = Column()
        for name, column in zip(names, self.columns, strict=True):
            if name in chosen:
                inside = merged([inside, column])
            else:
                outside = merged([outside, column])
        return inside, outside

    def through(self, estimator: Any, column: Column) -> Flow:
        """Return the output of a step that uses all columns together."""
        names = _names_out(estimator)
        if names is None:
            return replace(self, columns=(column,), names=None, is_exact=False)
        columns = (column,) * len(names)
        return replace(self, columns=columns, names=names, is_exact=True)

    def of_width(self, width: int) -> Flow:
        """Return the flow with a known number of columns."""
        if self.is_exact and len(self.columns) == width:
            return self
        columns = (self.merged,) * width
        return replace(self, columns=columns, names=None, is_exact=True)

    def select(self, chosen: Any) -> Flow:
        """Select columns as a `ColumnTransformer` does; all if they are not known."""
        if isinstance(chosen, list | tuple) and not chosen:
            return replace(self, columns=(), names=None, is_exact=True)
        positions = self.positions(chosen)
        if positions is None:
            return replace(self, columns=(self.merged,), names=None, is_exact=False)
        columns = tuple(self.columns[position] for position in positions)
        names = None
        if self.names is not None:
            names = tuple(self.names[position] for position in positions)
        return replace(self, columns=columns, names=names)

    def positions(self, chosen: Any) -> list[int] | None:
        """Return the positions of selected columns, None if they are not known."""
        # pandas would call a function, which may read values.
        if not self.is_exact or callable(chosen):
            return None
        positions = pd.Series(range(len(self.columns)), self.names)
        try:
            items = [chosen.start, chosen.stop] if isinstance(chosen, slice) else chosen
            if any(isinstance(item, str) for item in pd.Series(items)):
                # A slice of names includes its end.
                return pd.Series(positions.loc[chosen]).tolist()
            return pd.Series(positions.iloc[chosen]).tolist()
        except (IndexError, KeyError, TypeError, ValueError):
            return None

    @classmethod
    def side_by_side(cls, parts: Sequence[Flow], estimator: Any) -> Self:
        """Concatenate the columns of several tables, by the names of an estimator."""
        columns = tuple(column for part in parts for column in part.columns)
        names = _names_out(estimator)
        if names is None or len(names) != len(columns):
            names = None
        is_exact = all(part.is_exact for part in parts)
        return cls(
            columns if is_exact else (merged(columns),),
            names if is_exact else None,
            is_exact,
            is_curated=any(part.is_curated for part in parts),
            has_new_target=bool(parts) and all(part.has_new_target for part in parts),
        )


def names_in(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that an estimator was fitted on."""
    if hasattr(estimator, "feature_names_in_"):
        return tuple(estimator.feature_names_in_)
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return None
    # scikit-learn stores names only if they are strings; others are in the scope of a
    # guarantee for all columns, which may end with the target.
    scope = getattr(getattr(estimator, "guarantee_", None), "scope", ())
    names = tuple(scope[:n_features])
    has_strings = any(isinstance(name, str) for name in names)
    if names and not has_strings and n_features in (len(scope), len(scope) - 1):
        return names
    return tuple(f"x{index}" for index in range(n_features))


def _names_out(estimator: Any) -> tuple[Any, ...] | None:
    try:
        return tuple(estimator.get_feature_names_out())
    # Estimators of others may raise any error.
    except Exception:
        return None


def read_names(X: Any) -> tuple[Any, ...] | None:
    """Return the column names of a table, of which no value is read."""
    if X is None:
        return None
    # Not those of X itself, as pandas has columns as attributes.
    kind = type(X)
    # Polars, where `columns` of a lazy frame warns.
    if hasattr(kind, "collect_schema"):
        return tuple(X.collect_schema().names())
    # pyarrow, where `columns` has the values.
    if hasattr(kind, "column_names"):
        return tuple(X.column_names)
    if hasattr(kind, "columns"):
        return tuple(X.columns)
    if len(getattr(X, "shape", ())) == 2:
        return tuple(f"x{index}" for index in range(X.shape[1]))
    raise TypeError(f"X must be a dataframe or a 2-D array, got {type(X).__name__}")
