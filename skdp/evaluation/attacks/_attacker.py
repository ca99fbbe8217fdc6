"""What an attacker sees, in a form for classifiers, and the classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from skdp.domain import Codes, Domain
from skdp.evaluation._common import counted
from skdp.tables import is_frame, read_table

_FEW_ROWS = 10_000
"""With fewer, several threads are slower than one."""

_MOST_CATEGORIES = 255
"""The limit of scikit-learn's histogram trees; the codes of more are read as numbers."""

_BINS = 64

_SHUFFLED, _MOST_SHUFFLED = 2_000, 1 << 21
"""The rows of a fold of which a column is shuffled, and the cells that a model reads at once."""


def name_of_kind(given: Any) -> str:
    """Name the type of an object, or the class itself, in an error."""
    return (
        f"the class {given.__name__}, not an instance"
        if isinstance(given, type)
        else type(given).__name__
    )


def read_columns(data: Any, name: str) -> pd.DataFrame:
    """Read a table or a column of any library as a pandas frame with a fresh index."""
    names = (
        data.columns
        if isinstance(data, pd.DataFrame)
        else getattr(data, "column_names", ())
    )
    if len(set(names)) < len(names):
        raise ValueError(f"{name} has two columns of the same name")
    if is_frame(data):
        table = read_table(data)
        names, columns = table.names, table.columns
    else:
        series = nw.from_native(data, pass_through=True, allow_series=True)
        if isinstance(series, nw.Series):
            label = getattr(data, "name", None)
            names, columns = (name if label in (None, "") else label,), (data,)
        else:
            names, columns = _read_array(data, name)
    if not columns:
        raise ValueError(f"{name} has no columns")
    frame = pd.DataFrame(dict(enumerate(map(_as_series, columns))))
    if len(frame) == 0:
        raise ValueError(f"{name} has no rows")
    frame.columns = pd.Index(names, tupleize_cols=False)
    return frame


def _read_array(data: Any, name: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    # A list of objects stays one: NumPy would turn [1, "a"] into two strings.
    array = data if isinstance(data, np.ndarray) else np.array(data, dtype=object)
    if array.ndim == 1:
        return (name,), (array,)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a table or a column, got {array.ndim} dimensions"
        )
    table = read_table(array)
    return table.names, table.columns


def _as_series(column: Any) -> pd.Series:
    if isinstance(column, pd.Series):
        return column.reset_index(drop=True).infer_objects()
    if not isinstance(column, np.ndarray):
        column = nw.from_native(column, series_only=True).to_numpy()
    return pd.Series(column).infer_objects()


def check_declared(domain: Domain, codes: list[Codes], source: str = "") -> None:
    """Refuse true values outside the declared categories."""
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(
                f"column {name!r}{source} holds a value outside the declared categories"
            )


def code_column(column: pd.Series) -> pd.Series:
    """Convert a column to numbers or categories, with nan for missing."""
    if column.isna().all():
        return pd.Series(np.zeros(len(column)))
    if getattr(column.dtype, "kind", "O") in "biuf" and not isinstance(
        column.dtype, pd.CategoricalDtype
    ):
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    codes, distinct = factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    return numbers.astype("category") if len(distinct) <= _MOST_CATEGORIES else numbers


def factorize(
    column: pd.Series, *, missing: bool = False
) -> tuple[NDArray[np.intp], Any]:
    """Assign a number to each distinct value of a column."""
    try:
        codes, distinct = pd.factorize(column, use_na_sentinel=not missing)
        return codes.astype(np.intp), distinct
    except Exception:
        pass  # its message may contain a value, so it must not be the context of the error below
    raise TypeError(f"column {column.name!r} holds something else than single values")


def cells_of(column: pd.Series) -> NDArray[np.intp]:
    """Assign the rows of a coded column to cells: its categories, or bins of about equal size."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.intp) + 1
    numbers = column.to_numpy()
    finite = numbers[~np.isnan(numbers)]
    distinct = np.unique(finite)
    edges = (
        distinct
        if distinct.size <= _BINS
        else np.unique(np.quantile(finite, np.linspace(0, 1, _BINS + 1)[1:-1]))
    )
    return np.where(np.isnan(numbers), 0, 1 + np.searchsorted(edges, numbers)).astype(
        np.intp
    )


@dataclass(frozen=True)
class Outcome:
    """What an attack says of each row, by models that have not seen the row."""

    guesses: NDArray[np.intp]
    scores: NDArray[np.float64] | None
    """The probability of each value; None if the model states none."""
    drops: NDArray[np.float64]
    """The loss of accuracy if each column is shuffled."""


class Attacker:
    """A classifier that learns the true values from some columns, and guesses those of other rows."""

    def __init__(
        self,
        frame: pd.DataFrame,
        truth: NDArray[np.intp],
        estimator: Any,
        cv: int,
        seed: int | None,
    ) -> None:
        self.truth = truth
        self.coded = pd.DataFrame(
            {
                place: code_column(frame.iloc[:, place])
                for place in range(frame.shape[1])
            }
        )
        self.frame, self.estimator, self.is_own = frame, estimator, estimator is None
        if estimator is None:
            self.frame = self.coded.set_axis(list(map(str, self.coded.columns)), axis=1)
            # Early stopping would set rows aside, which fails for rare values. More or larger trees take longer, and
            # are worse at rare values.
            self.estimator = HistGradientBoostingClassifier(
                max_iter=60,
                max_leaf_nodes=15,
                categorical_features="from_dtype",
                early_stopping=False,
                random_state=seed,
            )
        if cv > len(truth):
            raise ValueError(
                f"cv must be at most the number of rows, {len(truth)}, got {cv}"
            )
        # Folds cannot be stratified if a value has fewer rows.
        splitter = StratifiedKFold if np.bincount(truth).min() >= cv else KFold
        self.folds = list(
            splitter(cv, shuffle=True, random_state=seed).split(truth, truth)
        )
        self.rng = np.random.default_rng(seed)

    def run(self, attacks: Sequence[list[int]], *, progress: bool) -> list[Outcome]:
        """Guess each row from the columns of each attack; the columns of the first are also shuffled, each in turn."""
        n_rows, n_values = len(self.truth), int(self.truth.max()) + 1
        guesses = np.empty((len(attacks), n_rows), self.truth.dtype)
        scores, has_scores = np.zeros((len(attacks), n_rows, n_values)), True
        lost, n_shuffled = np.zeros(len(attacks[0])), 0
        steps = [
            (attack, *fold) for attack in range(len(attacks)) for fold in self.folds
        ]
        for attack, train, test in counted(steps, len(steps), progress):
            frame = self.frame.iloc[:, attacks[attack]]
            with threadpool_limits(
                1 if n_rows < _FEW_ROWS else None, user_api="openmp"
            ):
                model = self._fit(frame.iloc[train], self.truth[train])
                guesses[attack, test], found = model(frame.iloc[test])
                has_scores = has_scores and found is not None
                if found is not None:
                    scores[attack, test] = found
                if attack == 0:
                    some = self.rng.choice(
                        test, min(len(test), _SHUFFLED), replace=False
                    )
                    right = (guesses[0, some] == self.truth[some]).sum()
                    lost += right - self._right_if_shuffled(
                        model, frame.iloc[some], some
                    )
                    n_shuffled += len(some)
        nothing = np.zeros(0)
        return [
            Outcome(
                guesses[attack],
                scores[attack] if has_scores else None,
                nothing if attack else lost / n_shuffled,
            )
            for attack in range(len(attacks))
        ]

    def _right_if_shuffled(
        self, model: Callable[..., Any], frame: pd.DataFrame, rows: NDArray[np.intp]
    ) -> Any:
        """Count the right guesses of rows with each column shuffled in turn."""
        right: list[int] = []
        together = max(
            1, _MOST_SHUFFLED // max(frame.size, 1)
        )  # a model has a cost for each call
        for start in range(0, frame.shape[1], together):
            copies = []
            for place in range(start, min(start + together, frame.shape[1])):
                shuffled = frame.copy()
                shuffled.isetitem(
                    place, frame.iloc[self.rng.permutation(len(frame)), place].array
                )
                copies.append(shuffled)
            guesses, _ = model(pd.concat(copies, ignore_index=True))
            right += (
                (guesses.reshape(len(copies), -1) == self.truth[rows])
                .sum(axis=1)
                .tolist()
            )
        return np.array(right, int)

    def _fit(
        self, frame: pd.DataFrame, truth: NDArray[np.intp]
    ) -> Callable[[pd.DataFrame], tuple[Any, Any]]:
        """Return a function that guesses rows, and says how likely each value is if the model does."""
        n_values = int(self.truth.max()) + 1
        if frame.shape[1] == 0 or len(np.unique(truth)) == 1:
            shares = np.bincount(truth, minlength=n_values) / len(truth)
            return lambda rows: (
                np.full(len(rows), shares.argmax()),
                np.tile(shares, (len(rows), 1)),
            )
        model = clone(self.estimator).fit(frame, truth)

        def read(rows: pd.DataFrame) -> tuple[Any, Any]:
            if not hasattr(model, "predict_proba"):
                return model.predict(rows), None
            scores = np.zeros((len(rows), n_values))
            scores[:, np.unique(truth)] = model.predict_proba(rows)
            return scores.argmax(axis=1) if self.is_own else model.predict(rows), scores

        return read

    def alone(self, place: int) -> float:
        """Return the accuracy of guesses from one column: the most frequent true value in each cell."""
        cells = cells_of(self.coded.iloc[:, place])
        shape = cells.max() + 1, self.truth.max() + 1
        pairs = cells * shape[1] + self.truth
        right = 0
        for train, test in self.folds:
            table = np.bincount(pairs[train], minlength=shape[0] * shape[1]).reshape(
                shape
            )
            # Cells without rows guess the most frequent value.
            table[table.sum(axis=1) == 0] = table.sum(axis=0)
            right += (table.argmax(axis=1)[cells[test]] == self.truth[test]).sum()
        return float(right / len(self.truth))
