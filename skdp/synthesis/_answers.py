"""Counts and probabilities of rows by a fitted model, with their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    ColumnName,
    OnSite,
    TableLike,
    check_confidence_level,
    check_names,
    read_input,
)
from skdp.domain import Domain
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis._count_errors import CountErrors, Quantile, Query, errors_of_counts
from skdp.synthesis._queries import (
    find_column,
    find_columns,
    range_weights,
    read_conditions,
)
from skdp.synthesis.model import MAX_CELLS, GraphicalModel, Marginal, merge
from skdp.synthesis.tables import (
    Shapes,
    encode_records,
    select_columns,
    undeclared_in,
    with_target,
)
from skdp.tables import Table


@dataclass(frozen=True)
class ModelCount:
    """A count by a model, and its error.

    Parameters
    ----------
    count : float
        The count: not whole, not negative.
    std_error : float
        Its standard deviation; if it is not supported, such that the interval is within as many of them as that of a
        normal number would be.
    lower, upper : int
        The ends of its interval.
    supported : bool
        Whether one marginal that was measured holds all columns, and whole bins are asked for. Otherwise the interval
        is all that the noisy counts do not exclude.

    Notes
    -----
    **Privacy.** Post-processing of noisy counts: free.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPMarginalSynthesizer
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no", "no"] * 250})
    >>> synthesizer = DPMarginalSynthesizer(domain={"smokes": ["yes", "no"]}, random_state=0).fit(people)
    >>> found = synthesizer.count_estimate({"smokes": "yes"})
    >>> found.lower <= 250 <= found.upper
    True
    """

    count: float
    std_error: float
    lower: int
    upper: int
    supported: bool


_ESTIMATES = ("count", "std_error", "lower", "upper", "supported")
"""The columns of what `marginal` returns, beside those that are asked for."""


class ModelAnswers(OnSite, BaseEstimator):
    """The part of a synthesizer that only asks the fitted model."""

    handle_unknown: Any
    domain_: Domain
    guarantee_: PrivacyGuarantee
    model_: GraphicalModel
    marginals_: list[Marginal]
    n_rows_: float
    n_features_in_: int
    _features: tuple[Any, ...]
    _shapes: Shapes | None = None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def selected_cliques_(self) -> list[tuple[Any, ...]]:
        """The columns of each marginal that was measured."""
        check_is_fitted(self)
        return list(self.noise_scale_)

    @property
    def noise_scale_(self) -> dict[tuple[Any, ...], float]:
        """The standard deviation of the noise of each count; of the mean, where a marginal was measured twice."""
        check_is_fitted(self)
        scales: dict[tuple[Any, ...], float] = {}
        for marginal in merge(self.marginals_):
            names = tuple(map(self.domain_.columns.__getitem__, marginal.clique))
            # With rare values in different groups there is no mean of all counts: the better one stands.
            scales[names] = min(marginal.std_error, scales.get(names, math.inf))
        return scales

    def marginal(
        self, columns: str | Sequence[ColumnName], *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the counts of all combinations of the values of some columns.

        Parameters
        ----------
        columns : list of column names
            Any.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            The columns (bins as text), the ``count`` by the model, and of each the ``std_error``, the ends ``lower``
            and ``upper`` of its interval, and whether it is ``supported``: see `count_estimate`.

        Raises
        ------
        ValueError
            If a column is not there, is called as an estimate is, or there are more than 2**26 combinations; if the
            confidence level is out of range.
        """
        check_is_fitted(self)
        names = [columns] if isinstance(columns, str) else list(columns)
        places = find_columns(self.domain_, names)
        if lost := set(_ESTIMATES) & set(names):
            raise ValueError(
                f"a column called {min(lost)!r} would be lost beside the estimates; use `count`"
            )
        domain = self.domain_.select(names)
        if domain.size > MAX_CELLS:
            raise ValueError(
                f"the marginal has {domain.size:,} cells; at most {MAX_CELLS:,} are computed"
            )
        level = check_confidence_level(confidence_level)
        counts = self.n_rows_ * self.model_.marginal(places)
        errors = self._errors(dict.fromkeys(places), counts, level)
        estimates = (
            counts,
            errors.std_error,
            errors.lower,
            errors.upper,
            errors.supported,
        )
        columns_of = {
            name: estimate.ravel()
            for name, estimate in zip(_ESTIMATES, estimates, strict=True)
        }
        return domain.cells().to_frame(index=False).assign(**columns_of)

    def _errors(
        self, query: Query, counts: NDArray[np.float64], level: float
    ) -> CountErrors:
        """Return the errors of counts by the model."""
        quantile = Quantile(level, gaussian=self.guarantee_.rho is not None)
        return errors_of_counts(
            self.marginals_, query, self.domain_.sizes, counts, quantile
        )

    def range_count(
        self, column: ColumnName, low: Any = None, high: Any = None
    ) -> float:
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
        TypeError, ValueError
            If the column or an end is not declared.

        See Also
        --------
        range_estimate : The same with its error.
        """
        check_is_fitted(self)
        return self._count(self._in_range(column, low, high))

    def range_estimate(
        self,
        column: ColumnName,
        low: Any = None,
        high: Any = None,
        *,
        confidence_level: float = 0.95,
    ) -> ModelCount:
        """Return `range_count` with its error.

        Parameters
        ----------
        column : column name
            Which.
        low, high : value or None
            As for `range_count`.
        confidence_level : float, default=0.95
            Coverage of the interval, between 0 and 1.

        Returns
        -------
        ModelCount
            As `count_estimate` returns it.

        Raises
        ------
        TypeError, ValueError
            As for `range_count`; if the confidence level is out of range.
        """
        check_is_fitted(self)
        return self._estimate(
            self._in_range(column, low, high), check_confidence_level(confidence_level)
        )

    def count(self, conditions: Mapping[Any, Any]) -> float:
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
        TypeError, ValueError
            If a column or a value is not declared.

        See Also
        --------
        count_estimate : The same with its error.
        """
        check_is_fitted(self)
        return self._count(self._read(conditions))

    def count_estimate(
        self, conditions: Mapping[Any, Any], *, confidence_level: float = 0.95
    ) -> ModelCount:
        """Return `count` with its error.

        Parameters
        ----------
        conditions : mapping of column name to (low, high), value or list of values
            As for `count`.
        confidence_level : float, default=0.95
            Coverage of the interval, between 0 and 1.

        Returns
        -------
        ModelCount
            The ``count``, its ``std_error``, the ends ``lower`` and ``upper`` of its interval, and whether it is
            ``supported``.

        Raises
        ------
        TypeError, ValueError
            As for `count`; if the confidence level is out of range.

        Notes
        -----
        If a marginal that was measured holds all columns, the interval is that of its noisy counts, which are unbiased,
        and of the sample if there is one: it covers the true count whatever the model has missed. The count by the
        model is mostly closer, as it is not negative, and agrees with all marginals. Its ``std_error`` is that of the
        noisy counts, or larger where the model is further from these than their noise explains, as it was not fitted to
        the end.

        Otherwise the dependence of the columns was not measured, and the error of the model is not known. Nor is the
        count of a part of a bin, or of a rare value that was counted together with others. The interval is then wide:
        from the fewest to the most records that the noisy counts of fewer columns, or of groups of values, allow.

        **Privacy.** Post-processing of noisy counts: free.
        """
        check_is_fitted(self)
        return self._estimate(
            self._read(conditions), check_confidence_level(confidence_level)
        )

    def _in_range(
        self, column: ColumnName, low: Any, high: Any
    ) -> dict[int, NDArray[np.float64]]:
        place = find_column(self.domain_, column)
        shapes = self._shapes.columns if self._shapes else {}
        return {
            place: range_weights(
                column, self.domain_[column], low, high, shapes.get(column)
            )
        }

    def _read(self, conditions: Any) -> dict[int, NDArray[np.float64]]:
        return read_conditions(
            self.domain_, conditions, self._shapes.columns if self._shapes else None
        )

    def _count(self, weights: Mapping[int, NDArray[np.float64]]) -> float:
        return float(
            self.n_rows_ * (self.model_.expectation(weights) if weights else 1)
        )

    def _estimate(
        self, weights: Mapping[int, NDArray[np.float64]], level: float
    ) -> ModelCount:
        count = self._count(weights)
        errors = self._errors(weights, np.array(count), level)
        ends = int(errors.lower), int(errors.upper)
        return ModelCount(count, float(errors.std_error), *ends, bool(errors.supported))

    def score_samples(
        self, X: TableLike, y: ColumnLike | None = None
    ) -> NDArray[np.float64]:
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
        TypeError, ValueError
            If X has other columns, or undeclared values.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False, least=0)
        check_names(self, table, self._features)
        modelled = [name for name in self._features if name in self.domain_.columns]
        table = select_columns(table, modelled)
        targets = self.domain_.columns[len(modelled) :]
        if targets and y is not None:
            table = Table(
                (*table.names, *targets), with_target(table, y).columns, table.native
            )
        rows = self._codes_of(table)
        if len(table.names) == len(self.domain_.columns):
            return self.model_.log_probability(rows)
        # The probability of the features is the sum of those with each of the targets.
        logs = []
        for value in range(self.domain_.sizes[-1]):
            targets_of_rows = np.full((1, rows.shape[1]), value)
            rows_of_value = np.vstack([rows, targets_of_rows])
            logs.append(self.model_.log_probability(rows_of_value))
        return np.logaddexp.reduce(logs)

    def _codes_of(self, table: Table) -> NDArray[np.int64]:
        """Code some columns of rows, all of them."""
        policy = self.handle_unknown
        if policy == "ignore":
            policy = "error"
        codes, undeclared = encode_records(
            table,
            self.domain_.select(table.names),
            policy,
        )
        if undeclared:
            advice = (
                "Every row is answered, and none left out; before `fit`, handle_unknown can put another value in its "
                "place: 'clip' for bins, or {column: declared value}"
            )
            raise undeclared_in(undeclared[0], self.domain_, advice)
        return np.array(codes, np.int64)

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
        TypeError, ValueError
            As for `score_samples`.
        """
        scores = self.score_samples(X, y)
        return math.fsum(scores) / len(scores) if len(scores) else math.nan
