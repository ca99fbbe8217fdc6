"""A classifier that learns to guess a protected value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from skdp.evaluation._attack_columns import cells_of, code_column

_FEW_ROWS = 10_000
"""With fewer, threads wait for each other longer than they work."""


class Attacker:
    """A classifier that learns the truth from some columns, and guesses that of rows it has not seen."""

    def __init__(self, frame: pd.DataFrame, truth: NDArray[np.intp], estimator: Any, cv: int, seed: int | None) -> None:
        self.truth = truth
        self.coded = pd.DataFrame({place: code_column(frame.iloc[:, place]) for place in range(frame.shape[1])})
        self.own = estimator is None
        self.estimator = estimator
        self.frame = self.coded.set_axis(list(map(str, self.coded.columns)), axis=1) if self.own else frame
        self.places = {name: place for place, name in enumerate(frame.columns)}
        if self.own:
            # Early stopping would set rows aside, which fails for rare values.
            self.estimator = HistGradientBoostingClassifier(
                categorical_features="from_dtype", early_stopping=False, random_state=seed
            )
        if cv > len(truth):
            raise ValueError(f"cv must be at most the number of rows, {len(truth)}, got {cv}")
        # With fewer rows of a value than folds, there is nothing to stratify.
        splitter = StratifiedKFold if np.bincount(truth).min() >= cv else KFold
        self.folds = list(splitter(cv, shuffle=True, random_state=seed).split(truth, truth))
        self.rng = np.random.default_rng(seed)
        self.drops_: list[float] | None = None

    def run(self, names: list[Any]) -> NDArray[np.bool_]:
        """Attack by some columns."""
        frame = self.frame.iloc[:, [self.places[name] for name in names]]
        guesses, lost = np.empty_like(self.truth), np.zeros(len(names))
        for train, test in self.folds:
            with threadpool_limits(1 if len(guesses) < _FEW_ROWS else None, user_api="openmp"):
                model = self._fit(frame.iloc[train], self.truth[train])
                guesses[test] = model(frame.iloc[test])
                if self.drops_ is None:
                    lost += self._loss_by_shuffling(model, frame.iloc[test], self.truth[test], guesses[test])
        if self.drops_ is None:
            self.drops_ = (lost / len(guesses)).tolist()
        return guesses == self.truth

    def _loss_by_shuffling(
        self, model: Any, frame: pd.DataFrame, truth: NDArray[np.intp], guesses: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Count, for each column, how many fewer rows are guessed right when it is shuffled."""
        right = (guesses == truth).sum()
        lost = np.zeros(frame.shape[1])
        for place in range(frame.shape[1]):
            shuffled = frame.copy()
            order = self.rng.permutation(len(frame))
            shuffled.isetitem(place, frame.iloc[order, place].array)
            lost[place] = right - (model(shuffled) == truth).sum()
        return lost

    def _fit(self, frame: pd.DataFrame, truth: NDArray[np.intp]) -> Any:
        """Return what guesses rows; where there is nothing to learn, the most frequent value."""
        if frame.shape[1] == 0 or len(np.unique(truth)) == 1:
            most = np.bincount(truth).argmax()
            return lambda rows: np.full(len(rows), most)
        return clone(self.estimator).fit(frame, truth).predict

    def alone(self, name: Any) -> float:
        """Guess from one column: by the most frequent truth of each value."""
        cells = cells_of(self.coded.iloc[:, self.places[name]])
        shape = cells.max() + 1, self.truth.max() + 1
        right = 0
        for train, test in self.folds:
            table = np.bincount(cells[train] * shape[1] + self.truth[train], minlength=shape[0] * shape[1]).reshape(
                shape
            )
            # Cells without rows guess what is most frequent of all.
            table[table.sum(axis=1) == 0] = table.sum(axis=0)
            right += (table.argmax(axis=1)[cells[test]] == self.truth[test]).sum()
        return float(right / len(self.truth))
