"""Conditions on columns, as weights of their cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import OnSite, check_names, read_input
from skdp.central.statistics import find_range
from skdp.coding import is_missing, to_dates
from skdp.domain import Categories, Domain, Interval
from skdp.frames import Table
from skdp.synthesis.model import MOST_CELLS, GraphicalModel, Marginal, merge, noise_of_marginal
from skdp.synthesis.tables import read_codes, with_target
from skdp.typing import ColumnLike, ColumnName, TableLike

_AGES = tuple(np.array(["-0001-01-01", "10001-01-01"], "datetime64[us]"))
"""Before and after all dates of Python."""


def read_conditions(domain: Domain, conditions: Any) -> dict[int, NDArray[np.float64]]:
    """Turn conditions into what share of each cell fulfils them."""
    if not isinstance(conditions, Mapping):
        raise TypeError(
            f"conditions must be a mapping of column to values or (low, high), got {type(conditions).__name__}"
        )
    found = {}
    for name, condition in conditions.items():
        place = find_column(domain, name)
        if isinstance(condition, tuple):
            if len(condition) != 2:
                raise ValueError(f"the range of column {name!r} must be a pair (low, high); a list is for values")
            found[place] = range_weights(name, domain[name], *condition)
        else:
            found[place] = _value_weights(name, domain[name], condition)
    return found


def find_column(domain: Domain, name: Any) -> int:
    if name not in domain.columns:
        raise ValueError(f"there is no column {name!r}; the columns are {list(domain.columns)}")
    return domain.columns.index(name)


def range_weights(name: Any, values: Categories | Interval, low: Any, high: Any) -> NDArray[np.float64]:
    """Return which share of each cell is in a half-open range."""
    if not isinstance(values, Interval):
        return find_range(name, values, low, high).astype(float)
    start, stop = (_read_numbers if values.dtype.kind == "f" else _read_dates)(name, low, high)
    if start > stop:
        raise ValueError("low must not be above high")
    edges = np.array(values.edges, float if values.dtype.kind == "f" else "datetime64[us]")
    inside = np.minimum(edges[1:], stop) - np.maximum(edges[:-1], start)
    weights = np.clip(inside / np.diff(edges), 0, 1)
    return np.append(weights, 0.0) if values.missing else weights  # missing is in no range


def _read_numbers(name: Any, low: Any, high: Any) -> tuple[Any, Any]:
    ends = (-np.inf if low is None else low, np.inf if high is None else high)
    for end in ends:
        if isinstance(end, bool | np.bool_) or not isinstance(end, int | float | np.number) or np.isnan(end):
            raise TypeError(f"the ends of a range of column {name!r} must be numbers or None, got {type(end).__name__}")
    return ends


def _read_dates(name: Any, low: Any, high: Any) -> tuple[Any, Any]:
    found = list(to_dates(np.array([low, high, None], object)[:-1], "datetime64[us]"))
    for place, (end, open_end) in enumerate(zip((low, high), _AGES, strict=True)):
        if end is None:
            found[place] = open_end
        elif np.isnat(found[place]):
            raise TypeError(
                f"the ends of a range of column {name!r} must be dates, datetimes without a time zone, or None, got "
                f"{type(end).__name__}"
            )
    return found[0], found[1]


def _value_weights(name: Any, values: Categories | Interval, wanted: Any) -> NDArray[np.float64]:
    """Return 1 for the wanted values, 0 for others."""
    if isinstance(values, Interval):
        raise ValueError(f"column {name!r} has bins: ask for a range, a tuple (low, high)")
    several = isinstance(wanted, Iterable) and not isinstance(wanted, str | bytes)
    asked = [None if is_missing(one) else one for one in (wanted if several else [wanted])]
    codes = values.encode(np.array([*asked, None], object)[:-1])
    if (codes == len(values)).any():
        raise ValueError(f"a value that is asked of column {name!r} is not among its declared ones")
    weights = np.zeros(len(values))
    weights[codes] = 1
    return weights


class ModelAnswers(OnSite, BaseEstimator):
    """The part of a synthesizer that only asks the fitted model."""

    handle_unknown: Any
    domain_: Domain
    model_: GraphicalModel
    marginals_: list[Marginal]
    n_rows_: float
    sampling_rate_: float
    n_features_in_: int
    _others: dict[Any, Any]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def selected_cliques_(self) -> list[tuple[Any, ...]]:  # numpydoc ignore=RT01
        """The columns of each marginal that was measured."""
        check_is_fitted(self)
        return list(self.noise_scale_)

    @property
    def noise_scale_(self) -> dict[tuple[Any, ...], float]:  # numpydoc ignore=RT01
        """The standard deviation of the noise of each count; of the mean, where a marginal was measured twice."""
        check_is_fitted(self)
        scales: dict[tuple[Any, ...], float] = {}
        for marginal in merge(self.marginals_):
            names = tuple(self.domain_.columns[column] for column in marginal.clique)
            # With rare values in different groups there is no mean of all counts: the better one stands.
            scales[names] = min(marginal.std_error, scales.get(names, math.inf))
        return scales

    def marginal(self, columns: str | Sequence[ColumnName]) -> pd.DataFrame:
        """Estimate the counts of all combinations of the values of some columns.

        Parameters
        ----------
        columns : list of column names
            Any.

        Returns
        -------
        pandas.DataFrame
            The columns (bins as text), the ``count`` by the model, and ``std_error``: the standard deviation of the
            measured count's noise, and about that of the sample if there is one; nan where the columns were not
            measured together, and for rare values that were counted together. The model's counts have less noise; what
            it cannot represent is in no standard error.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a column is not there, is called as an estimate is, or there are more than 2**26 combinations.
        """
        check_is_fitted(self)
        names = [columns] if isinstance(columns, str) else list(columns)
        places = [find_column(self.domain_, name) for name in names]
        if not places or len(set(places)) < len(places):
            raise ValueError(f"columns must name at least one column, each once, got {names}")
        if {"count", "std_error"} & set(names):
            raise ValueError("a column called 'count' or 'std_error' would be lost beside the estimates; use `count`")
        domain = self.domain_.select(names)
        if domain.size > MOST_CELLS:
            raise ValueError(f"the marginal has {domain.size:,} cells; at most {MOST_CELLS:,} are computed")
        counts = self.n_rows_ * self.model_.marginal(places)
        table = domain.cells().to_frame(index=False)
        return table.assign(count=counts.ravel(), std_error=self._std_errors(places, counts).ravel())

    def _std_errors(self, places: Sequence[int], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard deviation of what was measured of each cell."""
        noise = noise_of_marginal(self.marginals_, places, self.domain_.sizes)
        return np.sqrt(noise**2 + counts * (1 / self.sampling_rate_ - 1))

    def range_count(self, column: ColumnName, low: Any = None, high: Any = None) -> float:
        """Estimate the number of records whose value is in a range.

        Parameters
        ----------
        column : column name
            Which.
        low, high : value or None
            The ends, the upper one left out; None leaves one open. Any numbers for an `Interval`, within whose bins
            numbers are taken as evenly spread; for text, declared values in their declared order.

        Returns
        -------
        float
            By the model: not whole, not negative.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the column or an end is not declared.
        """
        check_is_fitted(self)
        place = find_column(self.domain_, column)
        weights = range_weights(column, self.domain_[column], low, high)
        return float(self.n_rows_ * (weights @ self.model_.marginal([place])))

    def count(self, conditions: Mapping[ColumnName, Any]) -> float:
        """Estimate the number of records that fulfil conditions on several columns.

        Parameters
        ----------
        conditions : mapping of column name to (low, high), value or list of values
            A tuple is a half-open range as in `range_count`; a list is any of its values. All must hold.

        Returns
        -------
        float
            By the model: not whole, not negative.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If a column or a value is not declared.
        """
        check_is_fitted(self)
        return float(self.n_rows_ * self.model_.expectation(read_conditions(self.domain_, conditions)))

    def score_samples(self, X: TableLike, y: ColumnLike | None = None) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each row by the model.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The columns of `fit`. The result is as private as these rows.
        y : 1-D array-like of shape (n_samples,), optional
            The target, if `fit` had one; without it, the probability is that of X alone.

        Returns
        -------
        ndarray of shape (n_samples,)
            Of the cell that the row is in; minus infinity for what cannot occur.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or undeclared values.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False, least=0)
        check_names(self, table, self.domain_.columns[: self.n_features_in_])
        targets = self.domain_.columns[self.n_features_in_ :]
        if targets and y is not None:
            table = Table((*table.names, *targets), with_target(table, y).columns, table.native)
        domain = self.domain_.select(table.names)
        policy = of_columns("error" if self.handle_unknown == "ignore" else self.handle_unknown, table.names)
        others = of_columns(self._others, table.names)
        rows = np.array(read_codes(table, domain, policy, others), np.int64)
        if len(table.names) == len(self.domain_.columns):
            return self.model_.log_probability(rows)
        values = np.arange(self.domain_.sizes[-1])[:, np.newaxis, np.newaxis]
        whole = (np.vstack([rows, np.full((1, rows.shape[1]), value)]) for value in values)
        return np.logaddexp.reduce([self.model_.log_probability(one) for one in whole])

    def score(self, X: TableLike, y: ColumnLike | None = None) -> float:
        """Return the mean logarithm of the probability of rows by the model.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As for `score_samples`.
        y : 1-D array-like of shape (n_samples,), optional
            As for `score_samples`.

        Returns
        -------
        float
            The higher, the better the model describes these rows.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            As for `score_samples`.
        """
        scores = self.score_samples(X, y)
        return math.fsum(scores) / len(scores) if len(scores) else math.nan


def of_columns(policy: Any, names: Sequence[Any]) -> Any:
    """Restrict what is done with undeclared values to some columns."""
    return policy if isinstance(policy, str) else {name: policy[name] for name in names if name in policy}
