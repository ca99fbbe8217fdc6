"""What an attacker sees, in a form for classifiers, and the classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from skdp.evaluation._common import counted
from skdp.tables import is_frame, read_table

# The values of a column, or the bins of its numbers, that guesses by itself tells apart.
_MOST_CELLS = 64

# Two thousand rows of a fold tell a loss of accuracy within a percentage point.
_MOST_SHUFFLED = 2_000

Truth = NDArray[np.intp]
Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


def name_of_kind(value: Any) -> str:
    """Name the type of an object, or the class itself, in an error."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not an instance"
    return type(value).__name__


def read_columns(data: Any, name: str) -> pd.DataFrame:
    """Read a table or a column of any library as a pandas frame with a fresh index."""
    if is_frame(data):
        table = read_table(data)
        names, columns = table.names, table.columns
    elif isinstance(
        nw.from_native(data, pass_through=True, allow_series=True), nw.Series
    ):
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


@dataclass(frozen=True)
class Outcome:
    """What an attack says of each row, by models that have not seen the row."""

    guesses: Truth
    # The probability of each value, (n_rows, n_values); None if the model states none.
    scores: NDArray[np.float64] | None
    # The models, each with the rows that it guessed.
    models: list[tuple[Any, NDArray[np.intp]]]


class Attacker:
    """A classifier that learns the true values from a release, and guesses those of other rows."""

    def __init__(
        self, estimator: Any, cv: int, seed: int | None, *, progress: bool = False
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.seed = seed
        self.progress = progress

    def run(self, release: pd.DataFrame, truth: Truth) -> Outcome:
        """Guess the true value of each row from all columns."""
        release = self._read(release)
        n_rows = len(truth)
        guesses = np.empty(n_rows, truth.dtype)
        # A value that a fold lacks has the score 0.
        scores = np.zeros((n_rows, truth.max() + 1))
        has_scores = True
        models = []
        folds = self.folds(truth)
        # With few rows, several threads are slower than one.
        n_threads = 1 if n_rows < 10_000 else None
        for train, test in counted(folds, len(folds), self.progress):
            rows = release.iloc[test]
            with threadpool_limits(n_threads, user_api="openmp"):
                model = self._fit(release.iloc[train], truth[train])
                guesses[test] = model.predict(rows)
                if hasattr(model, "predict_proba"):
                    probabilities = model.predict_proba(rows)
                    scores[np.ix_(test, model.classes_)] = probabilities
                else:
                    has_scores = False
            models.append((model, test))
        return Outcome(guesses, scores if has_scores else None, models)

    def folds(self, truth: Truth) -> Folds:
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

    def _read(self, release: pd.DataFrame) -> pd.DataFrame:
        """Return the columns as the classifier takes them; one of an own choice gets them unchanged."""
        if self.estimator is not None:
            return release
        return _coded(release).rename(columns=str)

    def _fit(self, rows: pd.DataFrame, truth: Truth) -> Any:
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

    def losses_of_columns(
        self, release: pd.DataFrame, truth: Truth, outcome: Outcome
    ) -> NDArray[np.float64]:
        """Return the loss of accuracy of an attack if each column is shuffled."""
        release = self._read(release)
        losses = np.zeros(release.shape[1])
        if not losses.size:
            return losses
        rng = np.random.default_rng(self.seed)
        n_shuffled = 0
        for model, test in outcome.models:
            n_rows = min(len(test), _MOST_SHUFFLED)
            chosen = rng.choice(test, n_rows, replace=False)
            with threadpool_limits(1, user_api="openmp"):
                importance = permutation_importance(
                    model,
                    release.iloc[chosen],
                    truth[chosen],
                    scoring="accuracy",
                    n_repeats=1,
                    random_state=self.seed,
                )
            losses += n_rows * importance.importances_mean
            n_shuffled += n_rows
        return losses / n_shuffled

    def accuracies_of_columns(self, release: pd.DataFrame, truth: Truth) -> list[float]:
        """Return the accuracy of guesses from each column by itself, by a tree."""
        folds = self.folds(truth)
        tree = DecisionTreeClassifier(max_leaf_nodes=_MOST_CELLS, random_state=0)
        accuracies = []
        coded = _coded(release)
        for place in coded:
            # By rank, as trees take neither infinite numbers nor those beyond float32.
            numbers = coded[place].to_numpy(float, na_value=np.nan)
            _, ranks = np.unique(numbers, return_inverse=True)
            guesses = cross_val_predict(tree, ranks[:, np.newaxis], truth, cv=folds)
            accuracies.append(float((guesses == truth).mean()))
        return accuracies


def _coded(release: pd.DataFrame) -> pd.DataFrame:
    """Convert all columns to numbers or categories, named by their places."""
    places = range(release.shape[1])
    columns = {place: code_column(release.iloc[:, place]) for place in places}
    return pd.DataFrame(columns, index=release.index)
