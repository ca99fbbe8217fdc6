"""One cell of a privacy curve: a fit at one epsilon, in one repeat and fold, and its scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from math import inf
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.evaluation.curves._cache import CellStore, Row, digest
from skdp.evaluation.curves._epsilon_step import Step, seeded_steps, with_seeds
from skdp.evaluation.curves._scoring import ALL, Answers, Scoring, as_text
from skdp.frames import is_frame, read_table

_SEEDS = 1 << 32  # the number of seeds of NumPy's generators


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
    scoring: Scoring
    store: CellStore | None = None
    _keys: dict[bool, str] = field(default_factory=dict)

    def model(self, cell: Cell) -> Any:
        """Return the estimator of a cell."""
        if cell.epsilon < inf:
            estimator = with_seeds(self.estimator, cell.seeds)
            return self.step.at(estimator, cell.epsilon, fit_only=self.fit_only)
        if isinstance(self.baseline, str):
            return self.step.without_noise(with_seeds(self.estimator, cell.seeds))
        return with_seeds(self.baseline, cell.seeds)

    def finished(self, cell: Cell) -> list[Row] | None:
        """Return the scores of a cell from the store."""
        return None if self.store is None else self.store.read(self._key(cell))

    def run(self, cell: Cell) -> list[Row]:
        """Fit and score, and store the scores."""
        model = self.model(cell).fit(take(self.X, cell.train), take(self.y, cell.train))
        rows = take(self.X, cell.test)
        groups = None if self.groups is None else take(self.groups, cell.test)
        scores = self.scoring(Answers(model, rows), rows, as_text(np.asarray(take(self.y, cell.test))), groups)
        if self.store is not None:
            self.store.write(self._key(cell), scores)
        return scores

    def _key(self, cell: Cell) -> str:
        """Return a name of a cell, from everything that its scores depend on."""
        return digest(self._key_of_all(cell.epsilon == inf), *vars(cell).values())

    def _key_of_all(self, baseline: bool) -> str:
        if baseline not in self._keys:
            model = (self.baseline if baseline else None), self.estimator, self.step, self.fit_only
            versions = [version(package) for package in ("skdp", "scikit-learn", "numpy")]
            self._keys[baseline] = digest(versions, model, self.X, self.y, self.groups, self.scoring)
        return self._keys[baseline]


def take(rows: Any, places: NDArray[np.int64]) -> Any:
    """Return some rows of a table, array or series, as the same kind."""
    known = nw.from_native(rows, pass_through=True, allow_series=True)
    if isinstance(known, nw.DataFrame | nw.Series):
        return known[places].to_native()
    return rows[places]


def cells_of(
    study: Study, epsilons: Sequence[float], repeats: Sequence[Sequence[tuple[Any, Any]]], random_state: int | None
) -> Iterator[Cell]:
    """List all cells, those of the baseline first."""
    path = study.step.path
    private = seeded_steps(study.estimator, path)
    plain = private if isinstance(study.baseline, str) else seeded_steps(study.baseline) if study.baseline else []
    settings = [inf] * (study.baseline is not None) + [float(epsilon) for epsilon in epsilons]
    taken: set[int] = set()
    for epsilon in settings:
        for repeat, folds in enumerate(repeats):
            for fold, (train, test) in enumerate(folds):
                names = plain if epsilon == inf else private
                seeds = {name: _seed(random_state, taken, epsilon, repeat, fold, name) for name in names}
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


def read_groups(features: Any, X: Any, rows: int) -> Any:
    """Read one or several sensitive features."""
    if isinstance(features, str | Integral):
        features = _columns_of(X, [features])
    elif isinstance(features, list | tuple) and len(features) != rows and _all_names(features, X):
        features = _columns_of(X, features)
    elif is_frame(features) or np.ndim(features) == 2:
        table = read_table(features if is_frame(features) else np.array(features, dtype=object))
        features = dict(zip(table.names, table.columns, strict=True))
    else:
        # Keep objects: NumPy would convert [1, "a"] to two strings.
        features = {None: np.array(features, dtype=object) if isinstance(features, list | tuple) else features}
    columns = {name: _name_missing(np.asarray(column)) for name, column in features.items()}
    for values in columns.values():
        if values.ndim != 1 or len(values) != rows:
            raise ValueError(f"sensitive_features must name columns of X, or have {rows} rows, got {values.shape}")
    if len(columns) > 1:
        return pd.DataFrame(columns)
    if not columns:
        raise ValueError("sensitive_features has no columns")
    (values,) = columns.values()
    if ALL in set(values.tolist()):
        raise ValueError(f"sensitive_features has a group {ALL!r}, which stands for all rows in the result; rename it")
    return values


def _all_names(features: Sequence[Any], X: Any) -> bool:
    return is_frame(X) and len(features) > 0 and set(map(str, features)) <= set(map(str, read_table(X).names))


def _columns_of(X: Any, names: Sequence[Any]) -> dict[Any, Any]:
    if not is_frame(X):
        raise ValueError("sensitive_features names a column, but X is an array: give the values")
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
