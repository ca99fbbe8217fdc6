"""The transformer under test, with public rows generated for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import Any, Self
from unittest import SkipTest
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skdp.base import CallCounter
from skdp.domain import Categories, Domain, Interval
from skdp.tables import is_frame, is_missing
from skdp.testing._tools import Rows, columns_of, make_frame

SEED = 20
DEFAULT_CATEGORIES: dict[Any, list[Any]] = {
    "colour": ["red", "green", "blue", None],
    "size": [1, 2, 3],
}
DEFAULT_BOUNDS = {"age": (0.0, 100.0), "height": (-1.0, 1.0)}


@dataclass(frozen=True)
class Subject:
    """A transformer and the columns to test it on."""

    estimator: Any
    values: dict[Any, list[Any]]
    declared: dict[Any, Any]
    parameter: str | None

    @classmethod
    def of(cls, estimator: Any, X: Any = None) -> Subject:
        """Find columns for a transformer."""
        if isinstance(estimator, type) or not all(
            hasattr(estimator, name) for name in ("get_params", "fit", "transform")
        ):
            raise TypeError(
                "estimator must be an instance with fit and transform, got"
                f" {estimator!r}"
            )
        parameters = estimator.get_params(deep=False)
        observed = None if X is None else _distinct_values(X)
        values: dict[Any, list[Any]] = {}
        if "categories" in parameters:
            declared = _by_column(parameters["categories"], observed)
            if declared is None:
                declared = observed or DEFAULT_CATEGORIES
            for name, categories in declared.items():
                values[name] = _values(categories)
            for name, cells in (observed or {}).items():
                # Lists of declared values.
                if any(isinstance(cell, tuple) for cell in cells):
                    values[name] = cells
            return cls(estimator, values, declared, "categories")
        n_numeric_values = 5
        if "bounds" in parameters:
            declared = _declared_bounds(parameters["bounds"], observed)
            # Any number within the bounds is legal: these are the ends, and some between.
            for name, ends in declared.items():
                values[name] = np.linspace(*ends, n_numeric_values).tolist()
            return cls(estimator, values, declared, "bounds")
        if observed is None:
            raise TypeError(
                f"{type(estimator).__name__} has no parameter 'categories' or 'bounds' "
                "to make rows for; give X"
            )
        return cls(estimator, observed, observed, None)

    @property
    def numeric(self) -> bool:
        """Whether any number within bounds is a legal value."""
        return self.parameter == "bounds"

    @property
    def memoised(self) -> bool:
        """Whether a record repeats its report, because the parameters include a secret key."""
        return self.parameters.get("secret_key") is not None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the estimator."""
        return self.estimator.get_params(deep=False)

    def accepts(self, name: str) -> bool:
        """Whether the estimator has a parameter."""
        return name in self.parameters

    def needs(self, name: str) -> None:
        """Skip the check unless the estimator has a parameter."""
        if not self.accepts(name):
            raise SkipTest(f"{type(self.estimator).__name__} has no parameter {name!r}")

    def unfitted(
        self, *, kind: str = "pandas", ids: bool = True, **parameters: Any
    ) -> Any:
        """Clone the estimator, with its columns declared."""
        if self.parameter is not None:
            declared: Any = dict(self.declared)
            if kind == "array":  # it has no column names
                declared = list(self.declared.values())
            parameters = {self.parameter: declared} | parameters
        # A transformer with memory treats every record without an id as a new one.
        if self.memoised and ids:
            estimator = give_fresh_records(self.estimator)
        else:
            estimator = clone(self.estimator)
        for name, value in parameters.items():
            if self.accepts(name):
                estimator.set_params(**{name: value})
        return estimator

    def fit(
        self,
        rows: Rows | None = None,
        *,
        kind: str = "pandas",
        ids: bool = True,
        **parameters: Any,
    ) -> Any:
        """Fit a clone."""
        rows = self.rows(8) if rows is None else rows
        return self.unfitted(kind=kind, ids=ids, **parameters).fit(
            self.frame(rows, kind)
        )

    def fit_noisy(self, **parameters: Any) -> Any:
        """Fit a clone with so little epsilon that two releases are never equal by chance."""
        return self.fit(**self.epsilon_at_most(0.01), **parameters)

    def epsilon_at_most(self, most: float) -> dict[str, Any]:
        """Return the parameters for a small epsilon, if it is a number."""
        return self.epsilon_between(0.0, most)

    def epsilon_between(self, least: float, most: float) -> dict[str, Any]:
        """Return the parameters that bring epsilon between two numbers, if it is a number outside."""
        epsilon = self.parameters.get("epsilon")
        if not isinstance(epsilon, Real) or least <= float(epsilon) <= most:
            return {}
        changed = min(max(float(epsilon), least), most)
        # What is checked shows best where there is neither too much nor too little noise.
        parameters = {"epsilon": changed}
        # The epsilon of a single report must remain below it.
        of_report = self.parameters.get("instantaneous_epsilon")
        if isinstance(of_report, Real):
            scale = changed / float(epsilon)
            parameters["instantaneous_epsilon"] = float(of_report) * scale
        return parameters

    @property
    def sizes(self) -> list[int]:
        """The number of values of each column."""
        return list(map(len, self.values.values()))

    def rows_of(self, codes: NDArray[np.intp]) -> Rows:
        """Make rows of places in the lists of legal values."""
        # (n_rows, n_columns)
        rows = {}
        for (name, values), column_codes in zip(
            self.values.items(), codes.T, strict=True
        ):
            rows[name] = [values[code] for code in column_codes]
        return rows

    def rows(self, size: int, seed: int = SEED) -> Rows:
        """Generate legal rows."""
        rng = np.random.default_rng(seed)
        return self.rows_of(rng.integers(self.sizes, size=(size, len(self.sizes))))

    def equal_rows(self, size: int, code: int = 0) -> Rows:
        """Generate equal rows."""
        codes = code % np.array(self.sizes)
        return self.rows_of(np.tile(codes, (size, 1)))

    def frame(self, rows: Rows, kind: str = "pandas") -> Any:
        """Make a table of rows, whose dtypes depend on the legal values only."""
        return make_frame(rows, self.values, kind)

    def twin(self) -> Subject:
        """Return the same transformer on columns that all have the values of the first."""
        if self.parameter is None:
            raise SkipTest("the columns cannot be declared again")
        # At least two columns, to compare them.
        names = list(self.values) if len(self.values) > 1 else [*self.values, "twin"]
        first = next(iter(self.values))
        return replace(
            self,
            values=dict.fromkeys(names, self.values[first]),
            declared=dict.fromkeys(names, self.declared[first]),
        )


def _distinct_values(X: Any) -> dict[Any, list[Any]]:
    columns = columns_of(X if is_frame(X) else np.asarray(X, dtype=object))
    return {name: list(dict.fromkeys(column)) for name, column in columns.items()}


def _by_column(
    declaration: Any, observed: dict[Any, list[Any]] | None
) -> dict[Any, Any] | None:
    """Return what a parameter declares of each column, or None if it does not say."""
    if isinstance(declaration, Domain):
        return {name: declaration[name] for name in declaration.columns}
    if isinstance(declaration, Mapping):
        return {name: declaration[name] for name in observed or declaration}
    # A list declares the columns by their places.
    if isinstance(declaration, Sequence | np.ndarray) and not isinstance(
        declaration, str
    ):
        names = observed or [f"x{place}" for place in range(len(declaration))]
        return dict(zip(names, declaration, strict=True))
    return None


def _values(categories: Any) -> list[Any]:
    if isinstance(categories, Interval | Categories):
        categories = categories.values
    return [None if is_missing(value) else value for value in categories]


def _declared_bounds(
    bounds: Any, observed: dict[Any, list[Any]] | None
) -> dict[Any, tuple[float, float]]:
    """Return what a parameter ``bounds`` declares, by column."""
    if bounds is None:
        if not observed:
            return dict(DEFAULT_BOUNDS)
        return {name: (min(values), max(values)) for name, values in observed.items()}
    if not isinstance(bounds, Mapping) and np.ndim(bounds) == 1:
        # One pair for all columns.
        bounds = dict.fromkeys(observed or DEFAULT_BOUNDS, bounds)
    declared = {}
    for name, ends in (_by_column(bounds, observed) or {}).items():
        low, high = ends
        declared[name] = (float(low), float(high))
    return declared


class FreshRecords:
    """Mixin for transformers with memory that generates new record ids if none are given."""

    # It then satisfies the contract of a transformer without memory. With a seed, the ids are reproducible.

    def fit(self, X: Any, y: Any = None) -> Self:
        super().fit(X, y)  # type: ignore[misc]
        self._ids_of = getattr(self, "random_state", None)
        self._numbers = CallCounter()
        return self

    def transform(self, X: Any, record_id: Any = None) -> Any:
        # As it is a subclass, `clone`, pickles and the display work as those of the
        # transformer itself.
        if record_id is None:
            record_id = self._new_ids(X)
        return super().transform(X, record_id=record_id)  # type: ignore[misc]

    def _new_ids(self, X: Any) -> list[str]:
        if not hasattr(self, "_numbers"):
            return []  # not fitted: it raises the error
        if self._ids_of is None:
            call = uuid4().hex
        else:
            call = f"seed {self._ids_of} call {self._numbers.advance()}"
        n_rows = 0
        if hasattr(X, "shape"):
            n_rows = X.shape[0]
        elif isinstance(X, list):
            n_rows = len(X)
        return [f"{call} row {row}" for row in range(n_rows)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self).__mro__[2],), self.__getstate__()


@lru_cache
def _with_fresh_records(kind: type) -> type:
    return type(
        kind.__name__,
        (FreshRecords, kind),
        {"__module__": kind.__module__, "__doc__": kind.__doc__},
    )


def _revive(kind: type) -> Any:
    return object.__new__(_with_fresh_records(kind))


def give_fresh_records(estimator: Any) -> Any:
    """Return an unfitted copy of a transformer that generates record ids if none are given."""
    kind: Any = type(estimator)
    return _with_fresh_records(kind)(**estimator.get_params(deep=False))
