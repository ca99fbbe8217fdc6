"""Parity of rates of groups that are only known from reports, as fairlearn's reductions take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.reductions import ClassificationMoment, ErrorRate

from skdp.base import check_row_order
from skdp.metrics._inputs import read_classes
from skdp.metrics._intervals import Numbers
from skdp.metrics._private_groups import read_groups

_EVENTS = {
    "equalized_odds": (0, 1),
    "true_positive_rate_parity": (1,),
    "demographic_parity": ("all",),
}


class PrivateParity(ClassificationMoment):
    """The difference between a rate of each group and that of all rows, from unbiased indicators of the groups."""

    # With u the indicators, e an event (a label, or all rows) and h a classifier, the
    # rate of group g is ``sum(u_g h) / sum(u_g)`` over the rows of the event: linear in
    # h, as the reductions of Agarwal et al. (2018) require. Their costs may have either
    # sign, so the indicators may too.

    def __init__(
        self, encoder: Any, constraints: str, columns: Any, difference_bound: float
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.constraints = constraints
        self.columns = columns
        self.difference_bound = difference_bound

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.encoder!r}, "
            f"constraints={self.constraints!r}, columns={self.columns!r}, "
            f"difference_bound={self.difference_bound!r})"
        )

    def load_data(self, X: Any, y: Any, *, sensitive_features: Any) -> None:
        check_row_order(X=X, y=y, sensitive_features=sensitive_features)
        labels = read_classes(y, "y")
        if not set(labels.unique()) <= {0, 1}:
            raise ValueError("y must hold the labels 0 and 1 only")
        super().load_data(X, labels.astype(int))
        groups = read_groups(sensitive_features, self.encoder, self.columns)
        if len(groups) != len(labels):
            raise ValueError(
                f"y has {len(labels)} labels, sensitive_features has {len(groups)}"
                " reports"
            )
        _, blocks = zip(*groups.indicators(), strict=True)
        indicators = np.concatenate(blocks)  # (n_rows, n_groups)
        differences, keys = [], []
        for event in _EVENTS[self.constraints]:
            happens = np.ones(len(labels), bool)
            if event != "all":
                happens = labels.to_numpy() == event
            sums = indicators[happens].sum(axis=0)
            if not (sums > 0).all():
                raise ValueError(
                    "a group is estimated to have no row of a label: too few rows for "
                    "this much noise"
                )
            # Times the predictions, this sums up to the difference between the rate of
            # a group and that of all rows.
            of_rows = indicators / sums - 1 / happens.sum()
            of_rows[~happens] = 0.0
            differences.append(of_rows)
            keys += [(event, str(cell)) for cell in groups.domain.cells()]
        self._differences: Numbers = np.concatenate(differences, axis=1)
        # The order of fairlearn's own moments, by which its results are read.
        names = ["sign", "event", "group_id"]
        above = pd.MultiIndex.from_tuples([("+", *key) for key in keys], names=names)
        self._index = above.append(above.set_levels(["-"], level="sign"))
        self._set_basis(n_groups=indicators.shape[1])

    def _set_basis(self, n_groups: int) -> None:
        """Set the multipliers that fairlearn's grid search varies, one in each column of the bases."""
        # The rates of all groups, weighted by their shares, add up to that of all rows:
        # the last group of each event follows from the others.
        n_constraints = len(self._index) // 2
        free = np.flatnonzero(np.arange(n_constraints) % n_groups < n_groups - 1)
        basis = np.eye(n_constraints)[:, free]  # (n_constraints, n_free)
        nothing = np.zeros_like(basis)
        above = np.concatenate([basis, nothing])
        below = np.concatenate([nothing, basis])
        self.pos_basis = pd.DataFrame(above, index=self._index)
        self.neg_basis = pd.DataFrame(below, index=self._index)
        # A difference may be bounded from above and from below.
        self.neg_basis_present = pd.Series(True, index=self.pos_basis.columns)
        self.default_objective_lambda_vec = None

    @property
    def index(self) -> pd.MultiIndex:
        """The constraints: above and below, for each event and group."""
        return self._index

    def default_objective(self) -> Any:
        return ErrorRate()

    def bound(self) -> pd.Series:
        return pd.Series(self.difference_bound, index=self.index)

    def gamma(self, predictor: Callable[[Any], Any]) -> pd.Series:
        """Return the differences between the rates of a classifier."""
        predictions = np.asarray(predictor(self.X), float).reshape(-1)
        differences = self._differences.T @ predictions
        return pd.Series(np.concatenate([differences, -differences]), index=self.index)

    def project_lambda(self, lambda_vec: pd.Series) -> pd.Series:
        """Shrink multipliers without changing their net effect."""
        # A constraint and its negative cancel: only the net multiplier counts, and the
        # shortest ones of this net have one of the two at 0.
        above, below = np.split(lambda_vec.to_numpy(), 2)
        net = above - below
        positive, negative = net.clip(min=0), (-net).clip(min=0)
        return pd.Series(np.concatenate([positive, negative]), index=self.index)

    def signed_weights(self, lambda_vec: pd.Series) -> pd.Series:
        """Return the gain from predicting 1 rather than 0."""
        # The derivative of the Lagrangian by the prediction of a row, times the number
        # of rows, as fairlearn divides by it (Agarwal et al. 2018, section 3.1).
        above, below = np.split(lambda_vec.to_numpy(), 2)
        weights = -self.total_samples * (self._differences @ (above - below))
        return pd.Series(weights, index=self.tags.index)
