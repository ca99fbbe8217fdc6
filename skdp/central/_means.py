"""Means of numeric columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    Bounds,
    check_confidence_level,
)
from skdp.central._base import Plan, WeightedStatistic
from skdp.central._sums import (
    GRID,
    NoisySums,
    sum_columns,
)
from skdp.central.statistics import (
    Batches,
    Noise,
    make_frame,
)
from skdp.domain import Domain
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho
from skdp.randomness import ByteSource
from skdp.tables import choose_library


class DPMean(WeightedStatistic):
    """Estimate the means of numeric columns with differential privacy.

    For each column, noisy sums of the distances of its values to both bounds are
    released, jointly for all columns [1]_; their ratio determines the mean.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, the noise is Gaussian.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        Bounds (low, high) of all columns or of each column, from public knowledge. Values outside
        are clipped.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it.
    confidence_level : float, default=0.95
        The coverage of `interval_`, between 0 and 1.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds.
    std_error_ : ndarray of shape (n_features,)
        The standard deviation of the noise. It does not include the sampling error of a population.
    interval_ : ndarray of shape (n_features, 2)
        Confidence interval of the mean of the clipped values of each column, within the bounds.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    discover_domain : Find bounds with differential privacy.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of the fitted attributes by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. The
    number of values in each column is protected, too: missing values are excluded, and an empty table is allowed.
    Values are placed on a grid of 2**30 steps between the bounds and summed as integers, and noise is drawn
    exactly: discrete K-norm noise for the convex hull of the contributions of one record to all sums. For a single
    column this is Laplace noise on two sums.

    With `sample_weight`, each sum has weights between 0 and `max_weight`, the noise of the sums is proportional to
    `max_weight`, and `mean_` is a weighted mean.

    `interval_` is for the mean of the values clipped to the bounds. If the bounds are from `discover_domain`, the bias
    of clipping is unknown.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> from skdp import DPMean
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> mean = DPMean(epsilon=0.1, bounds=(0, 100), random_state=0).fit(ages)
    >>> mean.mean_.round(2), ages.to_numpy().mean().round(2)
    (array([38.6]), np.float64(38.58))
    >>> mean.to_frame().round(2)
            mean  std_error  lower  upper
    column
    age     38.6       0.03  38.54  38.67
    >>> print(mean.guarantee_)
    epsilon = 0.1, central model, adding or removing one record's values of: age,
    NOT SECURE: the randomness comes from a seed
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        max_weight: float | None = None,
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.max_weight = max_weight
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, rows: Batches, budget: PrivacyBudget, bounds: Any) -> Plan:
        """Compute exact sums and numbers of values of all columns, and one noise for all these numbers."""
        check_confidence_level(self.confidence_level)
        max_weight = self._check_max_weight(rows)
        sums = sum_columns(rows, bounds, max_weight=max_weight)
        exact = sums, choose_library(rows.table.native)
        return Plan(exact, (Noise.joint(budget, GRID, 2 * len(sums.bounds)),))

    def _release(self, plan: Plan, source: ByteSource) -> None:
        """Add noise to the sums, and set the means with standard errors and confidence intervals."""
        (noise,) = plan.noises
        sums, self._library = plan.exact
        level = check_confidence_level(self.confidence_level)
        noisy = NoisySums.draw(sums.numbers(), sums.bounds, noise, source)
        estimate = noisy.estimate_means(level)
        self.mean_, self.std_error_ = estimate.value[0], estimate.std_error[0]
        self.interval_ = np.column_stack([estimate.lower[0], estimate.upper[0]])

    def to_frame(self) -> Any:
        """Return the means as a table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Table in the library of X (pandas for an array) with a row for each column of X, and the columns ``mean``,
            ``std_error``, ``lower`` and ``upper``. The names of the columns of X are the index in pandas, and the
            column ``column`` elsewhere.
        """
        check_is_fitted(self)
        lower, upper = self.interval_.T
        columns = {"mean": self.mean_, "std_error": self.std_error_}
        columns |= {"lower": lower, "upper": upper}
        names = self.guarantee_.scope[: self.n_features_in_]
        if self._library == "pandas":  # whose names may be tuples
            index = pd.Index(names, name="column", tupleize_cols=False)
            return pd.DataFrame(columns, index=index)
        return make_frame(Domain({"column": names}), columns, self._library)
