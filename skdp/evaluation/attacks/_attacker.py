"""The classifier of an attack, and its result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from skdp.base import check_confidence_level
from skdp.evaluation.attacks._features import cells_of, code_column
from skdp.evaluation.audits import clopper_pearson
from skdp.markup import html_facts

_FEW_ROWS = 10_000
"""With fewer, several threads are slower than one."""


class Attacker:
    """A classifier that learns the true values from some columns, and guesses those of other rows."""

    def __init__(self, frame: pd.DataFrame, truth: NDArray[np.intp], estimator: Any, cv: int, seed: int | None) -> None:
        self.truth = truth
        self.coded = pd.DataFrame({place: code_column(frame.iloc[:, place]) for place in range(frame.shape[1])})
        self.frame, self.estimator = frame, estimator
        if estimator is None:
            self.frame = self.coded.set_axis(list(map(str, self.coded.columns)), axis=1)
            # Early stopping would set rows aside, which fails for rare values.
            self.estimator = HistGradientBoostingClassifier(
                categorical_features="from_dtype", early_stopping=False, random_state=seed
            )
        if cv > len(truth):
            raise ValueError(f"cv must be at most the number of rows, {len(truth)}, got {cv}")
        # Folds cannot be stratified if a value has fewer rows.
        splitter = StratifiedKFold if np.bincount(truth).min() >= cv else KFold
        self.folds = list(splitter(cv, shuffle=True, random_state=seed).split(truth, truth))
        self.rng = np.random.default_rng(seed)

    def run(self, places: list[int], *, shuffle: bool = False) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which rows are guessed right from some columns, and the loss of accuracy if each is shuffled."""
        frame = self.frame.iloc[:, places]
        guesses, lost = np.empty_like(self.truth), np.zeros(len(places))
        for train, test in self.folds:
            with threadpool_limits(1 if len(guesses) < _FEW_ROWS else None, user_api="openmp"):
                model = self._fit(frame.iloc[train], self.truth[train])
                guesses[test] = model(frame.iloc[test])
                if shuffle:
                    right = (guesses[test] == self.truth[test]).sum()
                    shuffled = self._shuffled(frame.iloc[test])
                    lost += [right - (model(rows) == self.truth[test]).sum() for rows in shuffled]
        return guesses == self.truth, lost / len(guesses)

    def _shuffled(self, frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield the rows with each column shuffled in turn."""
        for place in range(frame.shape[1]):
            shuffled = frame.copy()
            order = self.rng.permutation(len(frame))
            shuffled.isetitem(place, frame.iloc[order, place].array)
            yield shuffled

    def _fit(self, frame: pd.DataFrame, truth: NDArray[np.intp]) -> Any:
        """Return a function that guesses rows: the most frequent value if there is nothing to learn."""
        if frame.shape[1] == 0 or len(np.unique(truth)) == 1:
            most = np.bincount(truth).argmax()
            return lambda rows: np.full(len(rows), most)
        return clone(self.estimator).fit(frame, truth).predict

    def alone(self, place: int) -> float:
        """Return the accuracy of guesses from one column: the most frequent true value in each cell."""
        cells = cells_of(self.coded.iloc[:, place])
        shape = cells.max() + 1, self.truth.max() + 1
        pairs = cells * shape[1] + self.truth
        right = 0
        for train, test in self.folds:
            table = np.bincount(pairs[train], minlength=shape[0] * shape[1]).reshape(shape)
            # Cells without rows guess the most frequent value.
            table[table.sum(axis=1) == 0] = table.sum(axis=0)
            right += (table.argmax(axis=1)[cells[test]] == self.truth[test]).sum()
        return float(right / len(self.truth))


@dataclass(frozen=True, eq=False)
class AttackResult:  # numpydoc ignore=PR02
    """The accuracy of an attack on a protected column, and values to compare it with.

    Parameters
    ----------
    accuracy : float
        The share of rows whose value is guessed from all that is released, each by a model that has not seen the row.
    baseline : float
        The share of the most frequent value: the accuracy of the best constant guess.
    bayes_bound : float
        The largest expected accuracy of a guess from the visible reports alone, of the protected column and all others;
        nan if no epsilon was given.
    std_error : float
        The standard error of `accuracy`, over rows, the models given.
    n_rows : int
        The number of rows.
    bound : str
        The kind of `bayes_bound`: the exact value of the protocol, if only the report of the protected column is
        visible; or the largest value among all protocols of an epsilon, of all reports of a record together if others
        are visible too.
    accuracy_without_report : float or None
        The accuracy of the same attack on the other columns alone; None if the reports are not known.
    std_error_without_report : float or None
        Its standard error.
    carriers : pandas.DataFrame
        A row for each column, the most informative first: ``is_report``; ``alone``, the accuracy of a guess from this
        column alone; ``drop``, the loss of accuracy when the column is shuffled.

    See Also
    --------
    attribute_inference : Makes one.
    LeakageDisplay : Draws them.

    Examples
    --------
    >>> result = AttackResult(0.8, 0.6, 0.73, 0.01, n_rows=1600)
    >>> result.exceeds_bound
    True
    >>> low, high = result.interval()
    >>> round(low, 3), round(high, 3)
    (0.78, 0.819)
    """

    accuracy: float
    baseline: float
    bayes_bound: float
    std_error: float
    n_rows: int
    bound: str = ""
    accuracy_without_report: float | None = None
    std_error_without_report: float | None = None
    carriers: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)

    @property
    def exceeds_bound(self) -> bool:  # numpydoc ignore=RT01
        """Whether the lower end of `interval` is above the bound."""
        return self.interval()[0] > self.bayes_bound

    def interval(self, confidence_level: float = 0.95, *, without_report: bool = False) -> tuple[float, float]:
        """Return an interval for an accuracy, over the draw of the rows, the models given.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Coverage, between 0 and 1.
        without_report : bool, default=False
            Whether of `accuracy_without_report`.

        Returns
        -------
        tuple of float
            The ends, by Clopper and Pearson; nan if there is no such accuracy.

        Raises
        ------
        ValueError
            If the confidence level is out of range.
        """
        level = check_confidence_level(confidence_level)
        share = self.accuracy_without_report if without_report else self.accuracy
        if share is None:
            return math.nan, math.nan
        return clopper_pearson(round(share * self.n_rows), self.n_rows, (1 - level) / 2)

    def _repr_html_(self) -> str:
        low, high = self.interval()
        without = self.accuracy_without_report
        facts = [
            ("guessed right", f"{self.accuracy:.4f} (95 % interval {low:.4f} to {high:.4f}, {self.n_rows:,} rows)"),
            ("the most frequent value", f"{self.baseline:.4f}"),
            ("the best guess from the reports", None if math.isnan(self.bayes_bound) else f"{self.bayes_bound:.4f}"),
            ("bound", self.bound),
            ("without the reports", None if without is None else f"{without:.4f}"),
            ("exceeds the bound", "yes" if self.exceeds_bound else "no"),
        ]
        note = "Computed from true values: not private."
        return html_facts("Attack", facts, note)
