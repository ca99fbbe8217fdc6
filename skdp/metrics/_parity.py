"""Constraint of fairlearn's reductions: equal rates in privatized groups."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.reductions import ClassificationMoment, ErrorRate

from skdp._arrays import ColumnLike, ColumnName, Floats, TableLike
from skdp.base import check_row_order, warn_at_caller
from skdp.local import ReportTransformer
from skdp.metrics._labels import EmptyGroupError, parse_classes, parse_weights
from skdp.metrics._reported_groups import debias_groups, sum_indicators

# Labels of the rows whose prediction rate must be the same in each group; "all" selects
# all rows.
EVENTS = {
    "equalized_odds": (0, 1),
    "true_positive_rate_parity": (1,),
    "demographic_parity": ("all",),
}


class WeightedErrorRate(ErrorRate):
    """Misclassification rate of weighted rows, the objective of the reductions."""

    def load_data(
        self,
        X: Sized,
        y: object,
        *,
        sensitive_features: object,
        sample_weight: ColumnLike | None = None,
    ) -> None:
        """Store the labels, and the weights with a mean of 1."""
        # The objective does not depend on the groups.
        super().load_data(X, y, sensitive_features=np.zeros(len(X)))
        weights = parse_weights(sample_weight, X, len(X))
        self._weights = weights / weights.mean()

    def gamma(self, predictor: Callable[[Any], Any]) -> pd.Series:
        """Return the error of a classifier."""
        predictions = np.asarray(predictor(self.X), float).reshape(-1)
        errors = np.abs(self._y_as_series.to_numpy() - predictions)
        return pd.Series(np.mean(self._weights * errors), index=self.index)

    def signed_weights(self, lambda_vec: pd.Series | None = None) -> pd.Series:
        """Return the gain of each row from the prediction 1 instead of 0."""
        gains: pd.Series = self._weights * super().signed_weights(lambda_vec)
        return gains


class PrivateParity(ClassificationMoment):
    """Bound on the difference between the rate of each group and the rate of all rows."""

    # For a classifier h and unbiased indicators u of a group, the rate of the group among
    # the rows of an event is ``sum(u * h) / sum(u)``. It is linear in h, as the reductions
    # of Agarwal et al. (2018) require. They accept negative costs, so u may be negative.

    def __init__(
        self,
        encoder: ReportTransformer,
        constraints: str,
        columns: ColumnName | list[ColumnName] | None,
        difference_bound: float,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.constraints = constraints
        self.columns = columns
        self.difference_bound = difference_bound

    def load_data(
        self,
        X: Sized,
        y: ColumnLike,
        *,
        sensitive_features: ColumnLike | TableLike,
        sample_weight: ColumnLike | None = None,
    ) -> None:
        """Compute the matrix that maps predictions to differences of rates.

        `sensitive_features` are the reports of the encoder.
        """
        check_row_order(X=X, y=y, sensitive_features=sensitive_features)
        # fairlearn compares predictions with 0 and 1.
        labels = parse_classes(y, "y")
        if not set(labels) <= {0, 1}:
            raise ValueError("y must have the labels 0 and 1, got another label.")
        super().load_data(X, labels.astype(int))
        domain, indicators = debias_groups(
            sensitive_features, self.encoder, self.columns
        )
        if len(indicators) != len(labels):
            raise ValueError(
                "y and `sensitive_features` must have the same length, got "
                f"{len(labels)} and {len(indicators)}."
            )
        weights = parse_weights(sample_weight, X, len(labels))
        blocks, keys, std_error = [], [], 0.0
        for event in EVENTS[self.constraints]:
            is_event = np.ones(len(labels), bool)
            if event != "all":
                is_event = labels.to_numpy() == event
            (_, sums), (_, variances) = sum_indicators(indicators, is_event, 2, weights)
            if sums.min() <= 0:
                group = domain.cells()[sums.argmin()]
                raise EmptyGroupError(
                    "The estimated number of rows of each group and label must be "
                    f"positive, got 0 or less for group {group!r} and label {event}. Use "
                    "more rows or a larger epsilon."
                )
            # A rate of 1/2 has the largest standard error.
            std_error = max(std_error, *np.sqrt(variances) / (2 * sums))
            # The product with the predictions is the rate of a group minus the rate of
            # all rows of the event.
            block = indicators / sums - 1 / weights[is_event].sum()
            blocks.append((weights * is_event)[:, np.newaxis] * block)
            keys += [(event, str(cell)) for cell in domain.cells()]
        if std_error > self.difference_bound:
            warn_at_caller(
                "The noise of the reports gives the rate of a group a standard error of "
                f"up to {std_error:.2g}, which exceeds `difference_bound`: the true "
                "groups may differ by more. Use more rows, a larger epsilon or fewer "
                "groups, or set difference_bound to at least the standard error",
                UserWarning,
                about="guide/fairness#train-and-correct-models",
            )
        self._differences: Floats = np.concatenate(blocks, axis=1)
        # fairlearn's own constraints have the same order and names.
        signed = [(sign, *key) for sign in "+-" for key in keys]
        names = ["sign", "event", "group_id"]
        self._index = pd.MultiIndex.from_tuples(signed, names=names)

    @property
    def index(self) -> pd.MultiIndex:
        """Sign, event and group of each constraint."""
        return self._index

    def default_objective(self) -> Any:
        """Return the misclassification rate, which fairlearn minimizes."""
        return WeightedErrorRate()

    def bound(self) -> pd.Series:
        """Return the upper bound of each constraint."""
        return pd.Series(self.difference_bound, index=self.index)

    def gamma(self, predictor: Callable[[Any], Any]) -> pd.Series:
        """Return the difference of each constraint, and its negative, for a classifier."""
        predictions = np.asarray(predictor(self.X), float).reshape(-1)
        differences = self._differences.T @ predictions
        return pd.Series(np.concatenate([differences, -differences]), index=self.index)

    def project_lambda(self, lambda_vec: pd.Series) -> pd.Series:
        """Return the smallest Lagrange multipliers with the same effect."""
        # The multipliers of a constraint and of its negative cancel.
        net = self._subtract_negatives(lambda_vec)
        projected = np.concatenate([net.clip(min=0), (-net).clip(min=0)])
        return pd.Series(projected, index=self.index)

    def signed_weights(self, lambda_vec: pd.Series) -> pd.Series:
        """Return the gain of each row from the prediction 1 instead of 0."""
        # The derivative of the Lagrangian by a prediction, times the number of rows, by
        # which fairlearn divides (Agarwal et al. 2018, section 3.1).
        net = self._subtract_negatives(lambda_vec)
        weights = -self.total_samples * (self._differences @ net)
        return pd.Series(weights, index=self.tags.index)

    def _subtract_negatives(self, lambda_vec: pd.Series) -> Floats:
        """Subtract the multipliers of the negative constraints, the second half."""
        positive, negative = np.split(lambda_vec.to_numpy(), 2)
        return positive - negative
