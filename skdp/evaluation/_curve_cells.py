"""One cell of a privacy curve: a fit at one epsilon, in one repeat and fold, and its scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from math import inf
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.evaluation._curve_answers import Answers, as_text
from skdp.evaluation._curve_cache import CellStore, Row, digest
from skdp.evaluation._curve_scoring import Scoring
from skdp.evaluation._curve_steps import Step, seeded_steps, with_seeds

_SEEDS = 1 << 32  # as many as NumPy's generators take


@dataclass(frozen=True)
class Cell:
    """A fit to make."""

    epsilon: float
    repeat: int
    fold: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    seeds: Mapping[str, int | None]


@dataclass(frozen=True)
class Study:
    """What all cells share."""

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
        """Make the estimator of a cell."""
        if cell.epsilon < inf:
            estimator = with_seeds(self.estimator, cell.seeds)
            return self.step.at(estimator, cell.epsilon, fit_only=self.fit_only)
        if isinstance(self.baseline, str):
            return self.step.without_noise(with_seeds(self.estimator, cell.seeds))
        return with_seeds(self.baseline, cell.seeds)

    def finished(self, cell: Cell) -> list[Row] | None:
        """Return the scores of a cell that is in the store."""
        return None if self.store is None else self.store.read(self._key(cell))

    def run(self, cell: Cell) -> list[Row]:
        """Fit and score, and keep the scores."""
        model = self.model(cell).fit(take(self.X, cell.train), take(self.y, cell.train))
        rows = take(self.X, cell.test)
        groups = None if self.groups is None else take(self.groups, cell.test)
        scores = self.scoring(Answers(model, rows), rows, as_text(np.asarray(take(self.y, cell.test))), groups)
        if self.store is not None:
            self.store.write(self._key(cell), scores)
        return scores

    def _key(self, cell: Cell) -> str:
        """Name a cell by all that its scores depend on."""
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
    """Return a seed that depends on the cell alone, so that other epsilons can be added later, and is not taken yet."""
    if random_state is None:
        return None
    drawn = hashlib.sha256(repr((int(random_state), *key)).encode()).digest()
    seed = int.from_bytes(drawn[:8]) % _SEEDS
    while seed in taken:
        seed = (seed + 1) % _SEEDS
    taken.add(seed)
    return seed
