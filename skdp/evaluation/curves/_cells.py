"""One cell of a privacy curve: a fit at one epsilon, in one repeat and fold, and its scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Integral
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from skdp.evaluation.curves._scoring import ALL, Answers, Measure, Row, as_text
from skdp.local import OnFitOnly, PosteriorFeatures
from skdp.tables import is_frame, read_table, take_rows

_SEEDS = 1 << 32  # the number of seeds of NumPy's generators
_NO_NOISE = (
    1e9  # an epsilon: any noise is less than the rounding, any report is the true one
)


@dataclass(frozen=True)
class Cell:
    """A cell to compute."""

    epsilon: float
    repeat: int
    fold: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    seeds: Mapping[str, int | None]


@dataclass(frozen=True)
class Study:
    """What all cells have in common."""

    estimator: Any
    step: Step
    baseline: Any
    fit_only: bool
    X: Any
    y: Any
    groups: Any
    scoring: tuple[Measure, ...]
    weights: NDArray[np.float64] | None
    params: Mapping[str, Any]

    def model(self, cell: Cell) -> Any:
        own_baseline = cell.epsilon == inf and not self.is_without_noise(cell)
        model = clone(self.baseline if own_baseline else self.estimator).set_params(
            **cell.seeds
        )
        if cell.epsilon < inf:
            return self.step.at(model, cell.epsilon, fit_only=self.fit_only)
        return (
            model
            if own_baseline
            else self.step.without_noise(model, fit_only=self.fit_only)
        )

    def is_without_noise(self, cell: Cell) -> bool:
        """Whether a cell is of the automatic baseline."""
        return cell.epsilon == inf and isinstance(self.baseline, str)

    def run(self, cell: Cell) -> list[Row]:
        params = {
            name: self._of_rows(value, cell.train)
            for name, value in self.params.items()
        }
        model = self.model(cell).fit(
            take_rows(self.X, cell.train), take_rows(self.y, cell.train), **params
        )
        rows = take_rows(self.X, cell.test)
        weights = None if self.weights is None else self.weights[cell.test]
        groups = None if self.groups is None else take_rows(self.groups, cell.test)
        seen = (
            Answers(model, rows),
            rows,
            as_text(np.asarray(take_rows(self.y, cell.test))),
            groups,
        )
        return [row for measure in self.scoring for row in measure(*seen, weights)]

    def _of_rows(self, value: Any, places: NDArray[np.int64]) -> Any:
        """Return the entries of some rows of what has an entry a row; anything else as it is."""
        each = (
            not isinstance(value, str | bytes | Mapping)
            and hasattr(value, "__len__")
            and len(value) == len(self.y)
        )
        return (
            take_rows(value if hasattr(value, "shape") else np.asarray(value), places)
            if each
            else value
        )


def cells_of(
    study: Study,
    epsilons: Sequence[float],
    repeats: Sequence[Sequence[tuple[Any, Any]]],
    random_state: int | None,
) -> Iterator[Cell]:
    """List all cells, those of the baseline first."""
    path = study.step.path
    private = _seeded_steps(study.estimator, path)
    plain = (
        private
        if isinstance(study.baseline, str)
        else _seeded_steps(study.baseline)
        if study.baseline
        else []
    )
    settings = [inf] * (study.baseline is not None) + [
        float(epsilon) for epsilon in epsilons
    ]
    taken: set[int] = set()
    for epsilon in settings:
        for repeat, folds in enumerate(repeats):
            for fold, (train, test) in enumerate(folds):
                names = plain if epsilon == inf else private
                seeds = {
                    name: _seed(random_state, taken, epsilon, repeat, fold, name)
                    for name in names
                }
                yield Cell(epsilon, repeat, fold, train, test, seeds)


def _seed(random_state: int | None, taken: set[int], *key: Any) -> int | None:
    """Return an unused seed that depends on the cell only, so that epsilons can be added later."""
    if random_state is None:
        return None
    drawn = hashlib.sha256(repr((int(random_state), *key)).encode()).digest()
    seed = int.from_bytes(drawn[:8]) % _SEEDS
    while seed in taken:
        seed = (seed + 1) % _SEEDS
    taken.add(seed)
    return seed


@dataclass(frozen=True)
class Step:
    """The step of an estimator whose epsilon varies."""

    path: str
    outer: str
    epsilon: str
    encodes: bool
    releases: bool
    fit_only: bool
    kind: str

    @classmethod
    def find(cls, estimator: Any, param_name: Any) -> Self:
        if not isinstance(param_name, str):
            raise TypeError(
                f"param_name must be a str, got {type(param_name).__name__}"
            )
        params = estimator.get_params(deep=True)
        if param_name not in params:
            raise ValueError(
                f"param_name {param_name!r} is not a parameter of {type(estimator).__name__}"
            )
        path, _, last = param_name.rpartition("__")
        if not last.startswith("epsilon") and not last.endswith("epsilon"):
            raise ValueError(
                f"param_name must be the nested name of an epsilon, got {param_name!r}"
            )
        around = [
            estimator,
            *(params[part] for part in _prefixes(path) if part in params),
        ]
        owner = params[path] if path else estimator
        fit_only = any(isinstance(part, OnFitOnly) for part in around)
        # A step inside of a resampler privatises the rows of `fit` only.
        spares = fit_only or any(
            getattr(part, "protects_rows", None) == "fit" for part in around
        )
        outer = _outermost(params, path)
        return cls(
            path,
            outer,
            param_name,
            # PosteriorFeatures reads the reports of its encoder: no step may be inserted between the two.
            encodes=bool(path)
            and hasattr(owner, "encode")
            and not isinstance(params.get(outer), PosteriorFeatures),
            releases=bool(
                path
                and hasattr(owner, "transform")
                and getattr(owner, "protects_rows", True)
                and not spares
            ),
            fit_only=fit_only,
            kind=type(params[outer] if outer else estimator).__name__,
        )

    def at(self, estimator: Any, epsilon: float, *, fit_only: bool) -> Any:
        """Set epsilon, and make the step release the rows to predict once, or not at all."""
        estimator.set_params(**{self.epsilon: epsilon})
        if not self.releases:
            return estimator
        return (
            _wrapped(estimator, self.path, OnFitOnly)
            if fit_only
            else _wrapped(estimator, self.outer, OneRelease)
        )

    def without_noise(self, estimator: Any, *, fit_only: bool) -> Any:
        """Set an epsilon of next to no noise, and leave out a round that has its own; nothing is charged."""
        params = estimator.get_params(deep=True)
        owner = params[self.path] if self.path else estimator
        changes = {"ledger": None, **getattr(owner, "without_instantaneous", {})}
        names = {
            f"{self.path}__{name}" if self.path else name: value
            for name, value in changes.items()
        }
        estimator.set_params(
            **{name: value for name, value in names.items() if name in params}
        )
        return self.at(estimator, _NO_NOISE, fit_only=fit_only)


def _wrapped(estimator: Any, path: str, wrapper: type) -> Any:
    return estimator.set_params(
        **{path: wrapper(estimator.get_params(deep=True)[path])}
    )


def _outermost(params: Mapping[str, Any], path: str) -> str:
    """Return the outermost transformer that has a step as a parameter; steps of a Pipeline do not count."""
    while "__" in path:
        around, _, own = path.rpartition("__")
        holder: Any = params.get(around)
        if (
            isinstance(holder, OnFitOnly)
            or not hasattr(holder, "transform")
            or hasattr(holder, "predict")
        ):
            break
        if own not in holder.get_params(deep=False):
            break
        path = around
    return path


def _prefixes(path: str) -> list[str]:
    parts = path.split("__")
    return ["__".join(parts[:size]) for size in range(1, len(parts))]


def _seeded_steps(estimator: Any, path: str | None = None) -> list[str]:
    """Return the steps that draw private random bits."""
    params = estimator.get_params(deep=True)
    found = []
    for name in sorted(params):
        owner, _, own = name.rpartition("__")
        near = (f"{owner}__" if owner else "") + "{}"
        if own == "random_state" and (
            owner == path
            or any(near.format(x) in params for x in ("epsilon", "ledger"))
        ):
            found.append(name)
    return found


class OneRelease(MetaEstimatorMixin, BaseEstimator):
    """Privatise rows once: for the same rows as in the last call, return the same release."""

    # A model that is asked for labels and then for probabilities would privatise its rows twice: two releases, and
    # scores of different rows.

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        self._start().fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        return self._start().fit_transform(X, y, **params)

    def _start(self) -> Any:
        self.transformer_ = clone(self.transformer)
        self._last: tuple[Any, Any] | None = None
        return self.transformer_

    def transform(self, X: Any) -> Any:
        """Privatise rows unless they are those of the last call."""
        if self._last is None or joblib.hash(self._last[0]) != joblib.hash(X):
            self._last = X, self.transformer_.transform(X)
        return self._last[1]

    def set_output(self, *, transform: Any = None) -> Self:
        for transformer in (
            self.transformer,
            getattr(self, "transformer_", self.transformer),
        ):
            transformer.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Any:
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.transformer)


def read_groups(features: Any, X: Any, rows: int) -> Any:
    if isinstance(features, str | Integral):
        features = _columns_of(X, [features])
    elif (
        isinstance(features, list | tuple)
        and len(features) != rows
        and _all_names(features, X)
    ):
        features = _columns_of(X, features)
    elif is_frame(features) or np.ndim(features) == 2:
        table = read_table(
            features if is_frame(features) else np.array(features, dtype=object)
        )
        features = dict(zip(table.names, table.columns, strict=True))
    else:
        # Keep objects: NumPy would convert [1, "a"] to two strings.
        features = {
            None: np.array(features, dtype=object)
            if isinstance(features, list | tuple)
            else features
        }
    columns = {
        name: _name_missing(np.asarray(column)) for name, column in features.items()
    }
    for values in columns.values():
        if values.ndim != 1 or len(values) != rows:
            raise ValueError(
                f"sensitive_features must name columns of X, or have {rows} rows, got {values.shape}"
            )
    if len(columns) > 1:
        return pd.DataFrame(columns)
    if not columns:
        raise ValueError("sensitive_features has no columns")
    (values,) = columns.values()
    if ALL in set(values.tolist()):
        raise ValueError(
            f"sensitive_features has a group {ALL!r}, which stands for all rows in the result; rename it"
        )
    return values


def _all_names(features: Sequence[Any], X: Any) -> bool:
    return (
        is_frame(X)
        and len(features) > 0
        and set(map(str, features)) <= set(map(str, read_table(X).names))
    )


def _columns_of(X: Any, names: Sequence[Any]) -> dict[Any, Any]:
    if not is_frame(X):
        raise ValueError(
            "sensitive_features names a column, but X is an array: give the values"
        )
    table = read_table(X)
    for name in names:
        if name not in table.names:
            raise ValueError(f"sensitive_features {name!r} is not a column of X")
    return {name: table.columns[table.names.index(name)] for name in names}


def _name_missing(values: NDArray[Any]) -> NDArray[Any]:
    """Name missing values, which fairlearn would drop, "missing", or "(missing)" if "missing" is a value."""
    gone = pd.isna(values)
    if values.ndim != 1 or not gone.any():
        return values
    name, known = "missing", set(values[~gone].tolist())
    while name in known:
        name = f"({name})"
    return np.where(gone, name, values.astype(object))
