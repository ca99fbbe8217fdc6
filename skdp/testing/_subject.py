"""The transformer under test, with public rows generated for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Real
from typing import Any, Self
from unittest import SkipTest
from uuid import uuid4

import numpy as np
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
_NUMERIC_VALUES = 5


@dataclass(frozen=True)
class Subject:
    """A transformer and the columns to test it on."""

    estimator: Any
    values: dict[Any, list[Any]]
    declared: dict[Any, Any]
    parameter: str | None
    _computed: dict[Callable[..., Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, estimator: Any, X: Any = None) -> Subject:
        """Find columns for a transformer."""
        if isinstance(estimator, type) or not all(
            hasattr(estimator, name) for name in ("get_params", "fit", "transform")
        ):
            raise TypeError(
                f"estimator must be an instance with fit and transform, got {estimator!r}"
            )
        parameters = estimator.get_params(deep=False)
        seen = None if X is None else _distinct_values(X)
        if "categories" in parameters:
            declared = _declared(parameters["categories"], seen)
            values = {name: _values(attribute) for name, attribute in declared.items()}
            if seen is not None:  # lists of declared values
                values |= {
                    name: cells
                    for name, cells in seen.items()
                    if any(isinstance(cell, tuple) for cell in cells)
                }
            return cls(estimator, values, declared, "categories")
        if "bounds" in parameters:
            declared = _declared_bounds(parameters["bounds"], seen)
            values = {
                name: np.linspace(*ends, _NUMERIC_VALUES).tolist()
                for name, ends in declared.items()
            }
            return cls(estimator, values, declared, "bounds")
        if seen is None:
            raise TypeError(
                f"{type(estimator).__name__} has no parameter 'categories' or 'bounds' to make rows for; give X"
            )
        return cls(estimator, seen, seen, None)

    def once(self, function: Callable[[Subject], Any]) -> Any:
        """Compute a value once for several checks."""
        if function not in self._computed:
            self._computed[function] = function(self)
        return self._computed[function]

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
        # A transformer with memory treats every record without an id as a new one.
        if self.parameter is not None:
            given: Any = (
                list(self.declared.values()) if kind == "array" else dict(self.declared)
            )
            parameters = {self.parameter: given} | parameters
        known = {
            name: value for name, value in parameters.items() if self.accepts(name)
        }
        made = (
            give_fresh_records(self.estimator)
            if self.memoised and ids
            else clone(self.estimator)
        )
        return made.set_params(**known)

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
        epsilon, single = (
            self.parameters.get(name) for name in ("epsilon", "instantaneous_epsilon")
        )
        if not isinstance(epsilon, Real) or least <= float(epsilon) <= most:
            return {}
        usual = min(max(float(epsilon), least), most)
        # The epsilon of a single report must remain below it.
        rest = (
            {"instantaneous_epsilon": usual * float(single) / float(epsilon)}
            if isinstance(single, Real)
            else {}
        )
        return {"epsilon": usual} | rest

    def rows(self, size: int, seed: int = SEED) -> Rows:
        """Generate legal rows."""
        rng = np.random.default_rng(seed)
        return {
            name: [values[code] for code in rng.integers(len(values), size=size)]
            for name, values in self.values.items()
        }

    def equal_rows(self, size: int, code: int = 0) -> Rows:
        """Generate equal rows."""
        return {
            name: [values[code % len(values)]] * size
            for name, values in self.values.items()
        }

    def frame(self, rows: Rows, kind: str = "pandas") -> Any:
        """Make a table of rows, whose dtypes depend on the legal values only."""
        return make_frame(rows, self.values, kind)

    def twin(self) -> Subject:
        """Return the same transformer on columns that all have the values of the first."""
        if self.parameter is None:
            raise SkipTest("the columns cannot be declared again")
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


def _declared(categories: Any, seen: dict[Any, list[Any]] | None) -> dict[Any, Any]:
    if isinstance(categories, Domain):
        return {name: categories[name] for name in categories.columns}
    if isinstance(categories, Mapping):
        return {name: categories[name] for name in (seen or categories)}
    if not isinstance(categories, str) and isinstance(
        categories, Sequence | np.ndarray
    ):
        names = seen or [f"x{index}" for index in range(len(categories))]
        return dict(zip(names, categories, strict=True))
    return dict(seen or DEFAULT_CATEGORIES)


def _values(attribute: Any) -> list[Any]:
    values = (
        attribute.values if isinstance(attribute, Interval | Categories) else attribute
    )
    return [None if is_missing(value) else value for value in values]


def _declared_bounds(
    bounds: Any, seen: dict[Any, list[Any]] | None
) -> dict[Any, tuple[float, float]]:
    if bounds is None:
        return (
            {name: (min(values), max(values)) for name, values in seen.items()}
            if seen
            else dict(DEFAULT_BOUNDS)
        )
    if isinstance(bounds, Mapping):
        return {name: tuple(bounds[name]) for name in (seen or bounds)}
    pairs = np.asarray(bounds, float)
    names = list(
        seen
        or (
            DEFAULT_BOUNDS
            if pairs.ndim == 1
            else [f"x{index}" for index in range(len(pairs))]
        )
    )
    low, high = np.broadcast_to(pairs, (len(names), 2)).T.tolist()
    return dict(zip(names, zip(low, high, strict=True), strict=True))


class FreshRecords:
    """Mixin for transformers with memory that generates new record ids if none are given."""

    # It then satisfies the contract of a transformer without memory. With a seed, the ids are reproducible.

    def fit(self, X: Any, y: Any = None) -> Self:
        super().fit(X, y)  # type: ignore[misc]
        self._ids_of, self._numbers = getattr(self, "random_state", None), CallCounter()
        return self

    def transform(self, X: Any, record_id: Any = None) -> Any:
        return super().transform(  # type: ignore[misc]
            X, record_id=self._new_ids(X) if record_id is None else record_id
        )

    def _new_ids(self, X: Any) -> list[str]:
        if not hasattr(self, "_numbers"):
            return []  # not fitted: it raises the error
        call = (
            uuid4().hex
            if self._ids_of is None
            else f"seed {self._ids_of} call {self._numbers.advance()}"
        )
        rows = (
            X.shape[0] if hasattr(X, "shape") else len(X) if isinstance(X, list) else 0
        )
        return [f"{call} row {row}" for row in range(rows)]

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
