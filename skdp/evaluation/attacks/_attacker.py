"""What an attacker sees, in a form for classifiers, and the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from skdp.evaluation._common import counted
from skdp.tables import is_frame, read_table

_N_BINS = 64  # of the numbers of a column that guesses by itself


def name_of_kind(value: Any) -> str:
    """Name the type of an object, or the class itself, in an error."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not an instance"
    return type(value).__name__


def read_columns(data: Any, name: str) -> pd.DataFrame:
    """Read a table or a column of any library as a pandas frame with a fresh index."""
    column_names = getattr(data, "column_names", ())
    if isinstance(data, pd.DataFrame):
        column_names = data.columns
    if len(set(column_names)) < len(column_names):
        raise ValueError(f"{name} has two columns of the same name")
    series = nw.from_native(data, pass_through=True, allow_series=True)
    if is_frame(data):
        table = read_table(data)
        names, columns = table.names, table.columns
    elif isinstance(series, nw.Series):
        label = getattr(data, "name", None)
        names = (name if label in (None, "") else label,)
        columns = (data,)
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
    """Read an array or a list as columns, with their names."""
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
    """Read a column of any library as one of pandas."""
    if isinstance(column, pd.Series):
        return column.reset_index(drop=True).infer_objects()
    if not isinstance(column, np.ndarray):
        column = nw.from_native(column, series_only=True).to_numpy()
    return pd.Series(column).infer_objects()


def code_column(column: pd.Series) -> pd.Series:
    """Convert a column to numbers or categories, with nan for missing."""
    if column.isna().all():
        return pd.Series(np.zeros(len(column)))
    is_categorical = isinstance(column.dtype, pd.CategoricalDtype)
    if not is_categorical and getattr(column.dtype, "kind", "O") in "biuf":
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    codes, distinct = factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    # The limit of scikit-learn's histogram trees; codes of more are read as numbers.
    return numbers.astype("category") if len(distinct) <= 255 else numbers


def factorize(
    column: pd.Series, *, missing: bool = False
) -> tuple[NDArray[np.intp], Any]:
    """Assign a number to each distinct value of a column."""
    try:
        codes, distinct = pd.factorize(column, use_na_sentinel=not missing)
        return codes.astype(np.intp), distinct
    except Exception:
        # Its message may contain a value, so it must not be the context of the error
        # below.
        pass
    raise TypeError(f"column {column.name!r} holds something else than single values")


def cells_of(column: pd.Series) -> NDArray[np.intp]:
    """Assign the rows of a coded column to cells: its categories, or bins of about equal size."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.intp) + 1
    numbers = column.to_numpy()
    is_missing = np.isnan(numbers)
    edges = np.unique(numbers[~is_missing])
    if edges.size > _N_BINS:
        shares = np.linspace(0, 1, _N_BINS + 1)[1:-1]
        edges = np.unique(np.quantile(numbers[~is_missing], shares))
    bins = 1 + np.searchsorted(edges, numbers)
    return np.where(is_missing, 0, bins).astype(np.intp)


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
        self, estimator: Any, cv: int, seed: int | None, *, progress: bool = False
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.seed = seed
        self.progress = progress

    def run(
        self,
        release: pd.DataFrame,
        truth: NDArray[np.intp],
        column_sets: Sequence[Sequence[int]],
    ) -> list[Outcome]:
        """Guess each row from each set of columns; those of the first are also shuffled, each in turn."""
        if self.estimator is None:
            # The classifier of an own choice gets the columns as they are.
            release = _coded(release).rename(columns=str)
        n_rows, n_values = len(truth), int(truth.max()) + 1
        # Each row is guessed by the model of the fold that it is not in.
        guesses = np.empty((len(column_sets), n_rows), truth.dtype)
        # (n_attacks, n_rows, n_values): a value that a fold lacks has the score 0.
        scores = np.zeros((len(column_sets), n_rows, n_values))
        has_scores = True
        n_lost = np.zeros(len(column_sets[0]))
        n_shuffled = 0
        rng = np.random.default_rng(self.seed)
        folds = self.folds(truth)
        steps = [
            (attack, *fold) for attack in range(len(column_sets)) for fold in folds
        ]
        # With few rows, several threads are slower than one.
        n_threads = 1 if n_rows < 10_000 else None
        for attack, train, test in counted(steps, len(steps), self.progress):
            rows = release.iloc[:, list(column_sets[attack])]
            with threadpool_limits(n_threads, user_api="openmp"):
                model = self._fit(rows.iloc[train], truth[train])
                guesses[attack, test], probabilities = self._guess(
                    model, rows.iloc[test]
                )
                if probabilities is None:
                    has_scores = False
                else:
                    scores[attack][np.ix_(test, model.classes_)] = probabilities
                if attack > 0:
                    continue
                # Two thousand rows of a fold tell a loss within a percentage point.
                some = rng.choice(test, min(len(test), 2_000), replace=False)
                n_right = (guesses[0, some] == truth[some]).sum()
                shuffled = self._hits_of_shuffled(
                    model, rows.iloc[some], truth[some], rng
                )
                n_lost += n_right - np.array(shuffled, int)
                n_shuffled += len(some)
        outcomes = []
        for attack in range(len(column_sets)):
            drops = n_lost / n_shuffled if attack == 0 else np.zeros(0)
            stated = scores[attack] if has_scores else None
            outcomes.append(Outcome(guesses[attack], stated, drops))
        return outcomes

    def folds(self, truth: NDArray[np.intp]) -> list[tuple[Any, Any]]:
        """Split the rows into those that models learn from, and those that they guess."""
        if self.cv > len(truth):
            raise ValueError(
                f"cv must be at most the number of rows, {len(truth)}, got {self.cv}"
            )
        # Folds cannot be stratified if a value has fewer rows.
        is_frequent = np.bincount(truth).min() >= self.cv
        splitter = StratifiedKFold if is_frequent else KFold
        folds = splitter(self.cv, shuffle=True, random_state=self.seed)
        return list(folds.split(truth, truth))

    def _fit(self, rows: pd.DataFrame, truth: NDArray[np.intp]) -> Any:
        """Fit the classifier; one without columns, or of one value, says the shares."""
        if rows.shape[1] == 0 or len(np.unique(truth)) == 1:
            return DummyClassifier().fit(np.zeros((len(rows), 1)), truth)
        if self.estimator is not None:
            return clone(self.estimator).fit(rows, truth)
        # Early stopping would set rows aside, which fails for rare values. More or
        # larger trees take longer, and are worse at rare values.
        trees = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=15,
            categorical_features="from_dtype",
            early_stopping=False,
            random_state=self.seed,
        )
        return trees.fit(rows, truth)

    def _guess(self, model: Any, rows: pd.DataFrame) -> tuple[Any, Any]:
        """Guess rows, and say how likely each value is if the model does."""
        if not hasattr(model, "predict_proba"):
            return model.predict(rows), None
        scores = model.predict_proba(rows)
        if self.estimator is None:
            return model.classes_[scores.argmax(axis=1)], scores
        return model.predict(rows), scores

    def _hits_of_shuffled(
        self, model: Any, rows: pd.DataFrame, truth: NDArray[np.intp], rng: Any
    ) -> list[int]:
        """Count the right guesses of rows with each column shuffled in turn."""
        n_right: list[int] = []
        # A model has a cost for each call: it guesses the rows for 16 columns at once.
        for start in range(0, rows.shape[1], 16):
            copies = []
            for place in range(start, min(start + 16, rows.shape[1])):
                copy = rows.copy()
                order = rng.permutation(len(rows))
                copy.isetitem(place, rows.iloc[order, place].array)
                copies.append(copy)
            guesses, _ = self._guess(model, pd.concat(copies, ignore_index=True))
            is_right = guesses.reshape(len(copies), -1) == truth
            n_right += is_right.sum(axis=1).tolist()
        return n_right

    def accuracies_of_columns(
        self, release: pd.DataFrame, truth: NDArray[np.intp]
    ) -> list[float]:
        """Return the accuracy of guesses from each column by itself: the most frequent true value in each cell."""
        folds = self.folds(truth)
        n_values = truth.max() + 1
        coded = _coded(release)
        accuracies = []
        for place in coded:
            cells = cells_of(coded[place])
            shape = cells.max() + 1, n_values
            # The number of each pair of a cell and a true value.
            pairs = np.ravel_multi_index((cells, truth), shape)
            n_right = 0
            for train, test in folds:
                counts = np.bincount(pairs[train], minlength=shape[0] * shape[1])
                table = counts.reshape(shape)
                # Cells without rows guess the most frequent value.
                table[table.sum(axis=1) == 0] = table.sum(axis=0)
                guesses = table.argmax(axis=1)[cells[test]]
                n_right += (guesses == truth[test]).sum()
            accuracies.append(float(n_right / len(truth)))
        return accuracies


def _coded(release: pd.DataFrame) -> pd.DataFrame:
    """Convert all columns to numbers or categories, named by their places."""
    places = range(release.shape[1])
    columns = {place: code_column(release.iloc[:, place]) for place in places}
    return pd.DataFrame(columns, index=release.index)
