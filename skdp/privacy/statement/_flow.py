"""The columns of a table that one step of a pipeline passes to the next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

# Placeholder for columns of unknown names.
EVERYTHING = "(all columns)"

Names = frozenset[Any]


@dataclass(frozen=True)
class Flow:
    """The table that one step passes to the next, by the columns of X in it."""

    # The columns of X that it is made of.
    origins: Names
    # Those of them that nothing has protected.
    raw: Names
    # In order, while each is a column of X as it is; None behind other steps.
    columns: tuple[Any, ...] | None = None
    # Whether a step before has learnt from true values.
    is_curated: bool = False
    # Whether the target was replaced by a protected one.
    has_new_target: bool = False

    @classmethod
    def start(cls, names: Sequence[Any] | None) -> Self:
        """Return the flow of columns as they are."""
        columns = (EVERYTHING,) if names is None else tuple(names)
        return cls(frozenset(columns), frozenset(columns), columns)

    @property
    def is_unknown(self) -> bool:
        """Whether it is X itself, of columns that are not known."""
        return self.columns == (EVERYTHING,)

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of its columns, empty if they are not known."""
        return () if self.is_unknown else self.columns or ()

    def behind(self, raw: Names, *, is_curated: bool = False) -> Flow:
        """Return the output of a step that uses all columns together."""
        is_curated = self.is_curated or is_curated
        return replace(self, raw=raw, columns=None, is_curated=is_curated)

    def only(self, columns: Sequence[Any]) -> Flow:
        """Return the flow of some columns as they are."""
        names = frozenset(columns)
        return replace(self, origins=names, raw=names, columns=tuple(columns))

    def split(
        self, names: Sequence[Any], chosen: Collection[Any]
    ) -> tuple[Names, Names]:
        """Return the columns of X in those of chosen names, and in the others."""
        # Whatever their order is, all of them are chosen.
        if names and all(name in chosen for name in names):
            return self.origins, frozenset()
        if self.columns is None or len(names) != len(self.columns):
            # It is not known which of them are chosen.
            return self.origins, self.origins
        covered: list[Any] = []
        uncovered: list[Any] = []
        for name, column in zip(names, self.columns, strict=True):
            columns = covered if name in chosen else uncovered
            columns.append(column)
        return frozenset(covered), frozenset(uncovered)

    def selected(
        self, chosen: Any, names: Sequence[Any] | None
    ) -> tuple[Any, ...] | None:
        """Return the columns that a `ColumnTransformer` selects, None if not known."""
        # By the names that it was fitted on, if it has some.
        if isinstance(chosen, list | tuple) and not chosen:
            return ()
        if self.is_unknown:
            return _listed_names(chosen)
        # Of a function that reads values, the columns are not known.
        if self.columns is None or callable(chosen):
            return None
        if names is None or len(names) != len(self.columns):
            names = self.columns
        listed_names = _listed_names(chosen)
        try:
            if listed_names is not None:
                chosen = [list(names).index(name) for name in listed_names]
            elif isinstance(chosen, slice) and isinstance(chosen.stop, str):
                # A slice of names includes its end.
                chosen = pd.Index(names).slice_indexer(chosen.start, chosen.stop)
            positions = np.arange(len(self.columns))[chosen]
        except (IndexError, KeyError, TypeError, ValueError):
            return None
        return tuple(self.columns[position] for position in np.ravel(positions))


def _listed_names(chosen: Any) -> tuple[str, ...] | None:
    names = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(names, list | tuple):
        return None
    return tuple(names) if all(isinstance(name, str) for name in names) else None


def side_by_side(flows: Sequence[Flow]) -> Flow:
    """Concatenate the columns of several tables."""
    # One of them may repeat or leave out columns of X, so their order is not followed.
    no_names: Names = frozenset()
    return Flow(
        no_names.union(*[flow.origins for flow in flows]),
        no_names.union(*[flow.raw for flow in flows]),
        is_curated=any(flow.is_curated for flow in flows),
        has_new_target=bool(flows) and all(flow.has_new_target for flow in flows),
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
