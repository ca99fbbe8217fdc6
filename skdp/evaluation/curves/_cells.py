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

from skdp.evaluation.curves._scoring import ALL, Answers, Measure, Row
from skdp.local import OnFitOnly, PosteriorFeatures
from skdp.metrics import name_groups, read_columns
from skdp.tables import is_frame, read_table, take_rows

# An epsilon: any noise is less than the rounding, any report is the true one.
_NO_NOISE = 1e9


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
        """Return the model of a cell, unfitted."""
        # An infinite epsilon is that of the baseline: a given estimator, or the same one
        # with next to no noise.
        if cell.epsilon < inf:
            model = clone(self.estimator).set_params(**cell.seeds)
            return self.step.at(model, cell.epsilon, fit_only=self.fit_only)
        if not self.is_without_noise(cell):
            return _with_one_release(clone(self.baseline).set_params(**cell.seeds))
        model = clone(self.estimator).set_params(**cell.seeds)
        return self.step.without_noise(model, fit_only=self.fit_only)

    def is_without_noise(self, cell: Cell) -> bool:
        """Whether a cell is of the automatic baseline."""
        return cell.epsilon == inf and isinstance(self.baseline, str)

    def run(self, cell: Cell) -> list[Row]:
        """Fit the model of a cell, and score it."""
        # Sample weights and the like go with the rows that they belong to.
        params = {}
        for name, value in self.params.items():
            params[name] = self._entries(value, cell.train)
        model = self.model(cell)
        model.fit(
            take_rows(self.X, cell.train), take_rows(self.y, cell.train), **params
        )
        rows = take_rows(self.X, cell.test)
        weights = groups = None
        if self.weights is not None:
            weights = self.weights[cell.test]
        if self.groups is not None:
            groups = take_rows(self.groups, cell.test)
        # All scorers get one release and one set of predictions.
        targets = np.asarray(take_rows(self.y, cell.test))
        answers = Answers(model, rows)
        scores = []
        for measure in self.scoring:
            scores += measure(answers, rows, targets, groups, weights)
        return scores

    def _entries(self, value: Any, places: NDArray[np.int64]) -> Any:
        """Return the entries of some rows of what has an entry a row; anything else as it is."""
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
            return value
        if len(value) != len(self.y):
            return value
        rows = value if hasattr(value, "shape") else np.asarray(value)
        return take_rows(rows, places)


def cells_of(
    study: Study,
    epsilons: Sequence[float],
    repeats: Sequence[Sequence[tuple[Any, Any]]],
    random_state: int | None,
) -> Iterator[Cell]:
    """List all cells, those of the baseline first."""
    # Each step that draws private bits has a seed of its own in each cell. The baseline
    # comes first: its mistakes show before anything is charged.
    private = _seeded_steps(study.estimator, study.step.path)
    settings = [(float(epsilon), private) for epsilon in epsilons]
    if isinstance(study.baseline, str):
        settings.insert(0, (inf, private))
    elif study.baseline is not None:
        settings.insert(0, (inf, _seeded_steps(study.baseline)))
    for epsilon, names in settings:
        for repeat, folds in enumerate(repeats):
            for fold, (train, test) in enumerate(folds):
                seeds = {}
                for name in names:
                    key = epsilon, repeat, fold, name
                    seeds[name] = seed_of(random_state, key)
                yield Cell(epsilon, repeat, fold, train, test, seeds)


def seed_of(random_state: int | None, key: tuple[Any, ...]) -> int | None:
    """Return a seed that depends on the cell only, so that epsilons can be added later."""
    if random_state is None:
        return None
    # Of 32 bits, as NumPy's generators take: of a thousand cells, two have the same one
    # with a probability of 1e-4.
    drawn = hashlib.sha256(repr((int(random_state), *key)).encode()).digest()
    return int.from_bytes(drawn[4:8])


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
        """Find the step that has a parameter, by its nested name."""
        if not isinstance(param_name, str):
            raise TypeError(
                f"param_name must be a str, got {type(param_name).__name__}"
            )
        # The step is found by its nested name, as in a search of scikit-learn.
        params = estimator.get_params(deep=True)
        if param_name not in params:
            names = sorted(name for name in params if name.endswith("epsilon"))
            raise ValueError(
                f"param_name {param_name!r} is not a parameter of "
                f"{type(estimator).__name__}; it has {', '.join(names) or 'no epsilon'}"
            )
        path, _, name = param_name.rpartition("__")
        if not name.startswith("epsilon") and not name.endswith("epsilon"):
            raise ValueError(
                f"param_name must be the nested name of an epsilon, got {param_name!r}"
            )
        # From the whole estimator down to what holds the step.
        prefixes = [prefix for prefix in _prefixes(path) if prefix in params]
        holders = [estimator, *(params[prefix] for prefix in prefixes)]
        fit_only = any(isinstance(holder, OnFitOnly) for holder in holders)
        # A step inside of a resampler privatises the rows of `fit` only.
        protections = [getattr(holder, "protects_rows", None) for holder in holders]
        step = params[path] if path else estimator
        outer = _outermost(params, path)
        is_transformer = bool(path) and hasattr(step, "transform")
        protects_rows = bool(getattr(step, "protects_rows", True))
        # PosteriorFeatures reads the reports of its encoder: no step may be inserted
        # between the two.
        is_read = isinstance(params.get(outer), PosteriorFeatures)
        return cls(
            path,
            outer,
            param_name,
            encodes=bool(path) and hasattr(step, "encode") and not is_read,
            releases=is_transformer
            and protects_rows
            and not fit_only
            and "fit" not in protections,
            fit_only=fit_only,
            kind=type(params[outer] if outer else estimator).__name__,
        )

    def at(self, estimator: Any, epsilon: float, *, fit_only: bool) -> Any:
        """Set epsilon, and make the step release the rows to predict once, or not at all."""
        estimator.set_params(**{self.epsilon: epsilon})
        # Rows to predict are seen as they are by a private model or scaler.
        if not self.releases:
            return estimator
        if fit_only:
            return _wrapped(estimator, self.path, OnFitOnly)
        return _wrapped(estimator, self.outer, OneRelease)

    def without_noise(self, estimator: Any, *, fit_only: bool) -> Any:
        """Set an epsilon of next to no noise, and leave out a round that has its own; nothing is charged."""
        params = estimator.get_params(deep=True)
        step = params[self.path] if self.path else estimator
        # RAPPOR's second round has an epsilon of its own, and would add noise.
        changes = {"ledger": None, **getattr(step, "without_instantaneous", {})}
        for name, value in changes.items():
            nested = f"{self.path}__{name}" if self.path else name
            if nested in params:
                estimator.set_params(**{nested: value})
        return self.at(estimator, _NO_NOISE, fit_only=fit_only)


def _with_one_release(estimator: Any) -> Any:
    """Make the private steps of a given model release the rows to predict once."""
    for name, epsilon in estimator.get_params(deep=True).items():
        is_epsilon = name.rpartition("__")[2] == "epsilon"
        # A step inside of one that is wrapped already has another name now.
        if is_epsilon and name in estimator.get_params(deep=True):
            step = Step.find(estimator, name)
            estimator = step.at(estimator, epsilon, fit_only=False)
    return estimator


def _wrapped(estimator: Any, path: str, wrapper: type) -> Any:
    """Put a wrapper around a step."""
    step = estimator.get_params(deep=True)[path]
    return estimator.set_params(**{path: wrapper(step)})


def _outermost(params: Mapping[str, Any], path: str) -> str:
    """Return the outermost transformer that has a step as a parameter; steps of a Pipeline do not count."""
    # What has the step as a parameter of its own, as PosteriorFeatures has its encoder,
    # reads the step's reports itself, and is wrapped as a whole.
    while "__" in path:
        holder_path, _, name = path.rpartition("__")
        holder: Any = params.get(holder_path)
        if isinstance(holder, OnFitOnly) or hasattr(holder, "predict"):
            break
        if not hasattr(holder, "transform"):
            break
        if name not in holder.get_params(deep=False):
            break
        path = holder_path
    return path


def _prefixes(path: str) -> list[str]:
    """List the paths of what is around a step."""
    parts = path.split("__")
    return ["__".join(parts[:size]) for size in range(1, len(parts))]


def _seeded_steps(estimator: Any, path: str | None = None) -> list[str]:
    """Return the names of the seeds of the steps that draw private random bits."""
    # Sorted, so that a cell has the same seeds whatever the order of the parameters.
    params = estimator.get_params(deep=True)
    seeds = []
    for name in sorted(params):
        owner, _, parameter = name.rpartition("__")
        if parameter != "random_state":
            continue
        prefix = f"{owner}__" if owner else ""
        # What has neither draws public random bits, such as a forest.
        is_private = f"{prefix}epsilon" in params or f"{prefix}ledger" in params
        if is_private or owner == path:
            seeds.append(name)
    return seeds


class OneRelease(MetaEstimatorMixin, BaseEstimator):
    """Privatise rows once: for the same rows as in the last call, return the same release."""

    # A model that is asked for labels and then for probabilities would privatise its
    # rows twice: two releases, and scores of different rows.

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
        # By content, as a meta-estimator may hand on a copy of the rows.
        if self._last is None or joblib.hash(self._last[0]) != joblib.hash(X):
            self._last = X, self.transformer_.transform(X)
        return self._last[1]

    def set_output(self, *, transform: Any = None) -> Self:
        self.transformer.set_output(transform=transform)
        if hasattr(self, "transformer_"):
            self.transformer_.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Any:
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.transformer)


def read_groups(features: Any, X: Any, rows: int) -> Any:
    """Read the groups of rows: an array, or of several columns a table."""
    # A list as long as the table is values, a shorter one names.
    is_list = isinstance(features, list | tuple)
    if isinstance(features, str | Integral):
        columns = _columns_of(X, [features])
    elif is_list and len(features) != rows and _are_names(features, X):
        columns = _columns_of(X, features)
    else:
        columns = read_columns(features, "sensitive_features")
    groups = {}
    for name, column in columns.items():
        values = _name_missing(np.asarray(column))
        if len(values) != rows:
            raise ValueError(
                f"sensitive_features must name columns of X, or have {rows} rows, got "
                f"{len(values)}"
            )
        groups[name] = values
    if len(groups) > 1:
        return pd.DataFrame(groups)
    if ALL in set(values.tolist()):
        raise ValueError(
            f"sensitive_features has a group {ALL!r}, which stands for all rows in the "
            "result; rename it"
        )
    return values


def _are_names(features: Sequence[Any], X: Any) -> bool:
    """Whether all entries are names of columns."""
    if not is_frame(X) or not features:
        return False
    return set(map(str, features)) <= set(map(str, read_table(X).names))


def _columns_of(X: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """Read columns of the table by their names."""
    if not is_frame(X):
        raise ValueError(
            "sensitive_features names a column, but X is an array: give the values"
        )
    table = read_table(X)
    columns = dict(zip(table.names, table.columns, strict=True))
    for name in names:
        if name not in columns:
            raise ValueError(f"sensitive_features {name!r} is not a column of X")
    return {name: columns[name] for name in names}


def _name_missing(values: NDArray[Any]) -> NDArray[Any]:
    """Name missing values, which fairlearn would drop, as `fairness_report` does."""
    if not pd.isna(values).any():
        return values
    return np.array(name_groups([(value,) for value in values]), dtype=object)
