"""Selectors of columns, by private variances among them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin

from skdp.base import Bounds, level_of_the_caller
from skdp.central._base import CentralTransformer, Plan
from skdp.central.statistics import (
    GRID,
    NOWHERE,
    UNIFORM_VARIANCE,
    Noise,
    losses_of,
    n_numbers,
    noisy_moments,
    sum_columns,
)
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table


class Selector(CentralTransformer, SelectorMixin):
    """A transformer that keeps some columns as they are."""

    get_feature_names_out = SelectorMixin.get_feature_names_out

    def _transform_table(self, table: Table) -> Sequence[Any]:
        return [
            column
            for column, kept in zip(table.columns, self.get_support(), strict=True)
            if kept
        ]

    def _output_names(self) -> Sequence[Any]:
        return [
            name
            for name, kept in zip(self._columns, self.get_support(), strict=True)
            if kept
        ]


class DPVarianceThreshold(Selector):
    """Keep the columns whose noisy variance is above a threshold.

    Parameters
    ----------
    threshold : float, default=0.0
        Columns of a noisy variance of at most this are left out; so are those of a variance of less than twice the
        standard error of its noise, as a constant column has. If none is left, the one of the largest variance is. In
        squared units of the column, finite and >= 0.
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside; `transform` does not.
        ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    variances_ : ndarray of shape (n_features,)
        The noisy variance of each column. If the noise hides it, that of a uniform distribution between the bounds.
    variances_std_error_ : ndarray of shape (n_features,)
        The standard errors of their noise; infinite where private bounds are not found.
    drowned_ : ndarray of bool, shape (n_features,)
        Where the noise hides the variance, or the bounds: nothing speaks against these columns, and `fit` warns.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds: those declared, or found.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPSelectKBest : The columns that say most of a target.
    sklearn.feature_selection.VarianceThreshold : Without privacy.

    Notes
    -----
    **Privacy.** That of `DPStandardScaler`, whose sums and noise these are: adding or removing a record changes the
    distribution of the variances, and so of which columns are kept, by at most epsilon, ``delta = 0``. Missing values
    add nothing, the number of rows is protected too, and a table without rows is answered. **The output of**
    `transform` **is columns of the rows themselves**, as private as X.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPVarianceThreshold
    >>> X = np.column_stack([np.random.default_rng(0).uniform(0, 10, (1_000, 2)), np.full(1_000, 3.0)])
    >>> selector = DPVarianceThreshold(epsilon=1.0, bounds=(0, 10), random_state=0).fit(X)
    >>> selector.get_support(), selector.variances_.round(1)
    (array([ True,  True, False]), array([8.5, 8.4, 0.2]))
    """

    variances_: NDArray[np.float64]
    variances_std_error_: NDArray[np.float64]
    drowned_: NDArray[np.bool_]

    def __init__(
        self,
        threshold: float = 0.0,
        *,
        epsilon: float | Rho | Mu = 1.0,
        bounds: Bounds | None = None,
        bounds_share: float = 0.2,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.threshold = threshold
        self.epsilon = epsilon
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        if isinstance(self.threshold, bool | np.bool_) or not isinstance(
            self.threshold, Real
        ):
            raise TypeError(
                f"threshold must be a number, got {type(self.threshold).__name__}"
            )
        if not (math.isfinite(self.threshold) and self.threshold >= 0):
            raise ValueError(
                f"threshold must be a finite number >= 0, got {self.threshold}"
            )
        columns = sum_columns(table, large, bounds)
        noise = Noise.joint(
            share, GRID, n_numbers(len(columns), squares=True, shared_count=False)
        )
        half_widths = np.array([(column.high - column.low) / 2 for column in columns])

        def release(source: ByteSource) -> None:
            moments = noisy_moments(
                columns, noise, source, squares=True, shared_count=False
            )
            variances, errors = np.array(
                [(one.variance, one.variance_error) for one in moments]
            ).T
            self.drowned_ = np.array([one.drowned for one in moments])
            with np.errstate(
                over="ignore"
            ):  # the squared width of the widest bounds is infinite
                self.variances_ = (half_widths * np.sqrt(variances)) ** 2
                self.variances_std_error_ = (half_widths * np.sqrt(errors)) ** 2
            if self.drowned_.any():
                names = [
                    name
                    for name, one in zip(table.names, self.drowned_, strict=True)
                    if one
                ]
                warnings.warn(
                    f"the noise drowns the variance of {names}: it is taken to be that of a uniform distribution "
                    "between the bounds. There are too few rows for this epsilon",
                    UserWarning,
                    stacklevel=level_of_the_caller(),
                )

        return Plan(
            f"{noise.name} on sums and sums of squares",
            release,
            losses=losses_of([noise]),
        )

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        low, high = NOWHERE
        self.drowned_ |= hidden
        self.variances_[hidden] = UNIFORM_VARIANCE * ((high - low) / 2) ** 2
        self.variances_std_error_[hidden] = np.inf

    def _get_support_mask(self) -> NDArray[np.bool_]:
        seen = self.drowned_ | (self.variances_ > 2 * self.variances_std_error_)
        kept = np.asarray(seen & (self.variances_ > self.threshold))
        return kept if kept.any() else np.arange(kept.size) == self.variances_.argmax()
