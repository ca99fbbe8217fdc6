"""Track which columns of a table are visible after a step of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

EVERYTHING = "(all columns)"
"""Placeholder for columns of unknown names."""

OTHERS = "(other columns)"
"""Placeholder for columns that a column transformer that is not fitted does not name."""

TARGET = "(target)"
"""Placeholder for a protected target."""


AS_IS, NOT_RELEASED = "released as is", "not released"

READ = f"categories read from the data: {AS_IS}"

AS_CHARGED = "as charged"
"""The protection of a row of a ledger, which knows what was charged, and not what was released."""

NOT_FITTED, NOT_SEEN = "not fitted: no guarantee yet", "not seen by fit"

PLANNED = "; not fitted yet"
"""The end of the protection of a column by a step that is not fitted."""

AT_FIT = f"rows at fit; rows given to transform or predict: {AS_IS}"

LEARNT_TARGET = "The target, which is no column of X, is learnt from as it is by: "
"""The start of the remark about a target that is in no row of a statement."""


@dataclass(frozen=True)
class Column:
    """A column somewhere in a pipeline."""

    origins: frozenset[Any]
    raw: frozenset[Any]
    late: frozenset[Any]

    @classmethod
    def merged(cls, columns: Iterable[Column]) -> Self:
        """Merge several columns into one."""
        parts = [(column.origins, column.raw, column.late) for column in columns]
        return (
            cls(*map(frozenset[Any]().union, *parts))
            if parts
            else cls(frozenset(), frozenset(), frozenset())
        )


@dataclass(frozen=True)
class Flow:
    """The table that one step passes to the next."""

    columns: tuple[Column, ...]
    names: tuple[Any, ...] | None
    exact: bool
    curated: bool = False
    new_target: bool = False
    has_target: bool = True
    """Whether what a step takes for its target is the target; a column of X may stand in for it."""

    @classmethod
    def start(cls, names: Sequence[Any] | None) -> Self:
        """Return the flow of the input table."""
        columns = tuple(
            Column(*[frozenset([name])] * 3) for name in names or [EVERYTHING]
        )
        return cls(
            columns, None if names is None else tuple(names), exact=names is not None
        )

    def chosen(
        self, names: Sequence[Any], is_chosen: Callable[[Any], bool]
    ) -> Column | None:
        """Merge the columns with chosen names; None if their names are not known."""
        if not self.exact or len(names) != len(self.columns):
            return None
        return Column.merged(
            column
            for column, name in zip(self.columns, names, strict=True)
            if is_chosen(name)
        )

    @property
    def merged(self) -> Column:
        """All columns merged into one."""
        return Column.merged(self.columns)

    @property
    def shuffled(self) -> Flow:
        """The same columns in an unknown order, some perhaps missing or repeated."""
        return replace(self, columns=(self.merged,), names=None, exact=False)

    def spread(self, column: Column, estimator: Any, *, curated: bool = False) -> Flow:
        """Return the output of a step that uses all columns together."""
        curated = self.curated or curated
        names = names_out(estimator)
        if names is None:
            return replace(
                self, columns=(column,), names=None, exact=False, curated=curated
            )
        return replace(
            self,
            columns=(column,) * len(names),
            names=names,
            exact=True,
            curated=curated,
        )

    def repeated(self, rows: Flow) -> Flow:
        """Return the output of a fitted step for the rows of `fit`."""
        shown = rows.merged.raw
        columns = tuple(
            replace(column, raw=column.raw | (column.late & shown))
            for column in self.columns
        )
        return replace(self, columns=columns)

    def predicted(self) -> Flow:
        """Return the flow of predictions, which contain no column."""
        said = replace(self.merged, raw=frozenset())
        return replace(self, columns=(said,), names=None, exact=False)

    def select(self, chosen: Any) -> Flow:
        """Select the columns of a `ColumnTransformer`; all of them merged if they are not known."""
        places = self._places(chosen) if self.exact else None
        if places is None:
            nothing = isinstance(chosen, list | tuple) and not chosen
            return replace(
                self,
                columns=() if nothing else (self.merged,),
                names=None,
                exact=nothing,
            )
        names = (
            None if self.names is None else tuple(self.names[place] for place in places)
        )
        return replace(
            self, columns=tuple(self.columns[place] for place in places), names=names
        )

    def unselected(self, choices: Sequence[Any]) -> Flow:
        """Select the columns that none of the choices of a `ColumnTransformer` has, as far as these are known."""
        selected: set[int] = set()
        for chosen in choices if self.exact else ():
            selected.update(self._places(chosen) or ())
        return self.select(
            [place for place in range(len(self.columns)) if place not in selected]
        )

    def _places(self, chosen: Any) -> list[int] | None:
        width = range(len(self.columns))
        try:
            if isinstance(chosen, slice):
                start, stop = self._place(chosen.start), self._place(chosen.stop)
                # A slice of names includes its end.
                return list(
                    width[
                        start : stop + 1
                        if isinstance(chosen.stop, str)
                        else stop : chosen.step
                    ]
                )
            if isinstance(chosen, str) or not hasattr(chosen, "__iter__"):
                return [width[self._place(chosen)]]
            items = list(chosen.tolist() if hasattr(chosen, "tolist") else chosen)
            if items and all(isinstance(item, bool) for item in items):
                return [
                    place for place, taken in zip(width, items, strict=True) if taken
                ]
            return [width[self._place(item)] for item in items]
        except (IndexError, TypeError, ValueError):
            return None

    def _place(self, item: Any) -> Any:
        """Return the position of a name; positions and None are returned unchanged."""
        return (self.names or ()).index(item) if isinstance(item, str) else item

    @classmethod
    def side_by_side(cls, parts: Sequence[Flow], names: tuple[Any, ...] | None) -> Self:
        """Concatenate the columns of several tables."""
        columns = tuple(column for part in parts for column in part.columns)
        made = cls(
            columns,
            names if names is not None and len(names) == len(columns) else None,
            exact=True,
            curated=any(part.curated for part in parts),
            new_target=bool(parts) and all(part.new_target for part in parts),
        )
        if all(part.exact for part in parts):
            return made
        return replace(made, columns=(Column.merged(columns),), names=None, exact=False)


def names_in(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that an estimator was fitted on."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return tuple(names)
    number = getattr(estimator, "n_features_in_", None)
    scope = getattr(getattr(estimator, "guarantee_", None), "scope", ())
    # scikit-learn stores names only if they are strings; others are in the scope of a guarantee for all columns.
    features = tuple(scope[:number])
    if (
        features
        and number in (len(scope), len(scope) - 1)
        and not any(isinstance(name, str) for name in features)
    ):
        return features
    return None if number is None else tuple(f"x{index}" for index in range(number))


def names_out(estimator: Any) -> tuple[Any, ...] | None:
    """Return the output columns of an estimator, None if they are not known."""
    try:
        return tuple(estimator.get_feature_names_out())
    except Exception:  # third-party estimators may raise any error
        return None


def read_names(X: Any) -> tuple[Any, ...] | None:
    """Return the column names of a table without reading a value; ``x0, x1, …`` for an array."""
    if X is None:
        return None
    kind = type(X)  # not X itself, as pandas has columns as attributes
    if hasattr(kind, "collect_schema"):  # polars, where `columns` of a lazy frame warns
        return tuple(X.collect_schema().names())
    if hasattr(kind, "column_names"):  # pyarrow, where `columns` has the values
        return tuple(X.column_names)
    if hasattr(kind, "columns"):
        return tuple(X.columns)
    if len(getattr(X, "shape", ())) == 2:
        return tuple(f"x{index}" for index in range(X.shape[1]))
    raise TypeError(f"X must be a dataframe or a 2-D array, got {type(X).__name__}")
