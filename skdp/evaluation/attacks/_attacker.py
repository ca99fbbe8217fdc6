"""What an attacker sees, in a form for classifiers, and the classifier."""

from __future__ import annotations

from collections.abc import Iterator
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
from skdp.frames import is_frame, read_table

_FEW_ROWS = 10_000
"""With fewer, several threads are slower than one."""

_MOST_CATEGORIES = 255
"""The limit of scikit-learn's histogram trees; the codes of more are read as numbers."""

_BINS = 64


def name_of_kind(given: Any) -> str:
    """Name the type of an object, or the class itself, in an error."""
    return f"the class {given.__name__}, not an instance" if isinstance(given, type) else type(given).__name__


def read_columns(data: Any, name: str) -> pd.DataFrame:
    """Read a table or a column of any library as a pandas frame with a fresh index."""
    names = data.columns if isinstance(data, pd.DataFrame) else getattr(data, "column_names", ())
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
        raise ValueError(f"{name} must be a table or a column, got {array.ndim} dimensions")
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
            raise ValueError(f"column {name!r}{source} holds a value outside the declared categories")


def code_column(column: pd.Series) -> pd.Series:
    """Convert a column to numbers or categories, with nan for missing."""
    if column.isna().all():
        return pd.Series(np.zeros(len(column)))
    if getattr(column.dtype, "kind", "O") in "biuf" and not isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    codes, distinct = factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    return numbers.astype("category") if len(distinct) <= _MOST_CATEGORIES else numbers


def factorize(column: pd.Series, *, missing: bool = False) -> tuple[NDArray[np.intp], Any]:
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
    edges = distinct if distinct.size <= _BINS else np.unique(np.quantile(finite, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.where(np.isnan(numbers), 0, 1 + np.searchsorted(edges, numbers)).astype(np.intp)


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
