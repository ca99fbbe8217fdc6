"""What a fitted model answers: counts, ranges, and the probability of rows. All of it is post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_names, read_input
from skdp.central._base import CentralEstimator
from skdp.domain import Domain
from skdp.frames import Table
from skdp.synthesis._errors import noise_of_marginal
from skdp.synthesis._graphical_model import MOST_CELLS, GraphicalModel
from skdp.synthesis._marginal import Marginal, merge
from skdp.synthesis._queries import find_column, range_weights, read_conditions
from skdp.synthesis._reading import read_codes, with_target


class ModelAnswers(CentralEstimator):
    """The part of a synthesizer that only asks the fitted model."""

    handle_unknown: Any
    domain_: Domain
    model_: GraphicalModel
    marginals_: list[Marginal]
    n_rows_: float
    n_features_in_: int
    _others: dict[Any, Any]

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

    def marginal(self, columns: Any) -> pd.DataFrame:
        """Estimate the counts of all combinations of the values of some columns.

        Parameters
        ----------
        columns : list of column names
            Any.

        Returns
        -------
        pandas.DataFrame
            The columns (bins as text), the ``count`` by the model, and ``std_error``: the standard deviation of the
            noise of this count, where the columns were measured together, as those or with others; nan otherwise, and
            for values that are so rare that they were counted together with others. The model's counts have less
            noise, but what it cannot represent is in no standard error.

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
        counts = self.n_rows_ * self.model_.marginal(places).ravel()
        table = domain.cells().to_frame(index=False)
        return table.assign(
            count=counts, std_error=noise_of_marginal(self.marginals_, places, self.domain_.sizes).ravel()
        )

    def range_count(self, column: Any, low: Any = None, high: Any = None) -> float:
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

    def count(self, conditions: Any) -> float:
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

    def score_samples(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each row by the model.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The columns of `fit`. The result says something of these rows: it is as private as they are.
        y : 1-D array-like of shape (n_samples,), optional
            The target, if `fit` had one. Without it, what is returned is of X alone.

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

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean logarithm of the probability of rows by the model.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As for `score_samples`.
        y : 1-D array-like of shape (n_samples,), optional
            The target, if `fit` had one. Without it, what is returned is of X alone.

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
