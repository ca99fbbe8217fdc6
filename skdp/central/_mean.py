"""The means of numeric columns, from noisy sums of the distances to both bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp.base import Bounds, check_confidence_level
from skdp.central._base import CentralStatistic, Plan
from skdp.central.statistics import (
    GRID,
    Batches,
    Noise,
    NoisySums,
    mean_estimates,
    n_numbers,
    sum_columns,
)
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource


class DPMean(CentralStatistic):
    """Estimate the means of numeric columns with differential privacy.

    Of each column, noisy sums of the distances of its values to both bounds are released, jointly for all columns
    [1]_; their ratio gives the mean.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge. Values outside are
        clipped to them, on both sides.
    confidence_level : float, default=0.95
        The coverage of `interval_`, between 0 and 1.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. With ``groups``,
        `fit` drops further rows at random; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds.
    std_error_ : ndarray of shape (n_features,)
        The standard deviation of the noise, relative to the mean of the clipped values of this table, not of a
        population.
    interval_ : ndarray of shape (n_features, 2)
        An interval of the given coverage for each mean, cut to the bounds; with the same reservations.
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
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of all that is released by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. `fit` reads
    the values of all columns, and their number is protected too: a missing value adds nothing, and a table without rows
    is answered. Values are placed on a grid of 2**30 steps between the bounds and summed as integers, and noise is
    drawn exactly: discrete K-norm noise for the convex hull of the contributions of one record to all sums. For a
    single column this is Laplace noise on two sums.

    `interval_` is for the mean of the values clipped to the bounds. If the bounds are from `discover_domain`, the bias
    of clipping is unknown.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> mean = DPMean(epsilon=0.1, bounds=(0, 100), random_state=0).fit(ages)
    >>> mean.mean_.round(2), ages.to_numpy().mean().round(2)
    (array([38.63]), np.float64(38.58))
    >>> print(mean.guarantee_)
    epsilon = 0.1, central model, adding or removing one record's values of: age,
    NOT SECURE: the randomness comes from a seed
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_confidence_level(self.confidence_level)
        sums = sum_columns(rows, bounds)
        size = n_numbers(len(rows.names), squares=False, shared_count=False)
        return Plan(sums, (Noise.joint(share, GRID, size),))

    def _release(self, plan: Plan, source: ByteSource) -> None:
        (noise,) = plan.noises
        level = check_confidence_level(self.confidence_level)
        noisy = NoisySums.draw(plan.exact, noise, source)
        estimate = mean_estimates(noisy, plan.exact.bounds, noise, level)
        self.mean_, self.std_error_ = estimate.value[0], estimate.std_error[0]
        self.interval_ = np.column_stack([estimate.lower[0], estimate.upper[0]])
