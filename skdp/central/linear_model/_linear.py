"""Linear and ridge regression whose coefficients are private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from skdp.base import Bounds, TableLike, check_flag, read_bounds
from skdp.central._base import Plan
from skdp.central._supervised import read_rows, split_all_bounds, target_places
from skdp.central.linear_model._base import Floats, LinearModel
from skdp.central.linear_model._moments import ExactMoments, products_noise
from skdp.central.statistics import (
    UNIT,
    Noise,
    Rows,
    find_limits,
    losses_of,
    sum_columns,
    warn_of_few,
    widths,
)
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table

_CUT = 0.2
"""The share of the rows that count less."""


class _LinearRegression(RegressorMixin, LinearModel):
    """A linear model by least squares, from noisy sums of products."""

    delta: float | None
    bounds: Bounds | None
    target_bounds: tuple[float, float] | str | None
    fit_intercept: bool
    coef_std_error_: NDArray[np.float64]
    intercept_: float
    intercept_std_error_: float
    ridge_: float

    def _penalty(self) -> float:
        """Check and return the penalty of squared coefficients."""
        return 0.0

    def _split_bounds(self, names: Sequence[Any]) -> tuple[list[int], Any]:
        return split_all_bounds(self.bounds, self.target_bounds, names)

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        check_flag("fit_intercept", self.fit_intercept)
        penalty, ends = self._penalty(), read_bounds(bounds, table.names)
        # A constant makes up for a shift; without it, numbers are measured from 0.
        starts = (
            ends[:, 0] + (ends[:, 1] - ends[:, 0]) / 2
            if self.fit_intercept
            else np.zeros(len(ends))
        )
        if large is not None:
            sum_columns(
                table, large, ends, missing=False
            )  # a missing value is an error before anything is charged
        goal = partial(
            target_places, name=table.names[-1], ends=ends[-1:], start=starts[-1:]
        )
        rows = read_rows(table, large, ends[:-1], starts[:-1], goal)
        noise: Noise = Noise("mu", share.mu_squared)
        if share.kind == "epsilon":
            noise = products_noise(share, len(table.names), UNIT)
        return Plan(
            f"noisy sums of products, {noise.name}",
            partial(self._release, rows, widths(ends, starts), starts, penalty, share),
            losses=losses_of([noise]),
        )

    def _release(
        self,
        rows: Rows,
        scales: Floats,
        starts: Floats,
        penalty: float,
        share: Share,
        source: ByteSource,
    ) -> None:
        n_columns, pure, centred = (
            rows.n_columns,
            share.kind == "epsilon",
            bool(self.fit_intercept),
        )
        square, middle, largest, constant = rows.square, np.zeros(n_columns), UNIT, UNIT
        if not pure:
            found = find_limits(rows, share.of_a_row, _CUT, source, centred=centred)
            rows, square, middle, largest = (
                found.rows,
                found.square,
                found.middle / UNIT,
                2 * UNIT,
            )
            share, constant = found.rest, max(math.isqrt(square) // 2, 1)
        moments = ExactMoments.of(rows, square, constant, largest).release(
            share, source
        )
        unit = (constant / UNIT) ** 2
        n_rows = moments.products[-1, -1] / unit
        if pure and n_rows < 3 * moments.product_error / unit:
            warn_of_few()
        with np.errstate(over="ignore"):  # the narrowest bounds
            penalties = np.minimum(penalty / scales[:-1] / scales[:-1], 2.0**200)
        solved = moments.solve(penalties, n_rows, constant=centred)

        errors = np.sqrt(np.diag(solved.covariance)[:n_columns])
        to_intercept = np.zeros(len(solved.coefficients))
        if centred:
            to_intercept = np.append(
                -middle - starts[:-1] / scales[:-1], constant / UNIT
            )
        intercept = to_intercept @ solved.coefficients
        error = math.sqrt(
            max(float(to_intercept @ solved.covariance @ to_intercept), 0.0)
        )
        with np.errstate(over="ignore"):  # a slope may be beyond all floats
            units = scales[-1] / scales[:-1]
            self.coef_, self.coef_std_error_ = (
                solved.coefficients[:n_columns] * units,
                errors * units,
            )
        self.intercept_ = float(intercept * scales[-1] + starts[-1])
        self.intercept_std_error_ = float(error * scales[-1])
        self.ridge_ = solved.ridge

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        # A column that is clipped to nothing also changes what the others say.
        self.coef_std_error_[:] = np.inf
        if self.fit_intercept:
            self.intercept_std_error_ = math.inf

    def predict(self, X: TableLike) -> NDArray[np.float64]:
        """Return the expected target of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, in the columns of `fit`, without missing values.

        Returns
        -------
        ndarray of shape (n_samples,)
            Numbers, which may lie outside of `target_bounds`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns, is not numeric, or holds a missing value.
        """
        return self._respond(X)


class DPLinearRegression(_LinearRegression):
    """Linear regression by least squares on noisy sums: coefficients that are private for the whole record.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all that `fit` releases, finite and > 0; with `skdp.privacy.Rho` or `skdp.privacy.Mu`, a share
        of a budget in rho or mu, which has a delta of its own.
    delta : float, optional
        The delta of an `epsilon` that is a number, far below one over the number of rows. None or 0 for pure privacy,
        whose noise grows with the square of the number of columns: of more than about five, a delta is better.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside. ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in
        `DPMean`.
    target_bounds : pair of float, or "private"
        The lowest and the highest value of the target, from what is publicly known. `fit` clips values outside.
    bounds_share : float, default=0.2
        The share of the budget that finds bounds, if some are private.
    fit_intercept : bool, default=True
        Whether the model has a constant. Without it, numbers are measured from 0.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The noisy coefficients.
    coef_std_error_ : ndarray of shape (n_features,)
        Their standard errors: of the sample, if errors have one variance, of the noise, and of what the ridge takes
        from the coefficients, as far as the noise lets it be seen. Infinite if private bounds are not found.
    intercept_ : float
        The noisy constant; 0 without `fit_intercept`.
    intercept_std_error_ : float
        Its standard error; 0 without `fit_intercept`.
    ridge_ : float
        What is added to the sums of squares of the columns, in units of half the width of their bounds, as the noise
        needs it. It draws coefficients towards 0: that of a column of deviation s, not correlated with others, by the
        share ``ridge_ / (ridge_ + n_rows * (2 * s / width)**2)`` of its size.
    bounds_ : ndarray of shape (n_features + 1, 2)
        The bounds of the columns and, last, of the target.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPRidge : With a penalty of large coefficients.
    DPLogisticRegression : Classes.
    sklearn.linear_model.LinearRegression : Without privacy.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta;
    the latter is Gaussian differential privacy ([1]_). Predictions are post-processing, and cost nothing: but those for
    a row of the table are about this row. The number of rows is protected too, and a table without rows is answered.
    Not covered: an error shows that a value is missing.

    Values are integers on a grid between the bounds. Without delta, all sums of products of two columns, a constant and
    the target change by at most 1 in units of the bounds, and get noise of density ``e**(-epsilon max|z|)`` together.
    With one, an eighth of mu**2 is spent on noisy numbers of rows by their norm and on the mean of the rows, from which
    they are then measured. Rows that exceed a norm R, about a fifth, are multiplied with a factor that shortens them to
    R, together with their target and constant, which is weighted least squares. Then a row changes the products of the
    columns by at most the square of its norm, and those with the target by its norm, in Euclidean norm. Sums of
    products with noise were proposed in [2]_; as there, the noise decides on a ridge, here by an unbiased estimate of
    the error of prediction ([3]_).

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1), corollary 3.3.
    .. [2] Y.-X. Wang (2018). Revisiting differentially private linear regression: optimal and adaptive prediction and
       estimation in unbounded domain. UAI.
    .. [3] C. M. Stein (1981). Estimation of the mean of a multivariate normal distribution. Annals of Statistics 9(6).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5_000, 2))
    >>> y = 20 + X @ [2.0, -1.0] + rng.normal(size=5_000)
    >>> model = DPLinearRegression(1.0, delta=1e-6, bounds=(0, 10), target_bounds=(0, 50), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.score(X, y), 1)
    (array([ 2., -1.]), 1.0)
    >>> model.coef_std_error_.round(3)
    array([0.028, 0.029])
    >>> print(model.guarantee_)
    epsilon = 1, delta = 0.000001, rho = 0.0280145, central model, adding or removing one record's values of: x0,
    x1, target, NOT SECURE: ...
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float | None = None,
        bounds: Bounds | None = None,
        target_bounds: tuple[float, float] | str | None = None,
        bounds_share: float = 0.2,
        fit_intercept: bool = True,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.bounds_share = bounds_share
        self.fit_intercept = fit_intercept
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state


class DPRidge(_LinearRegression):
    """Ridge regression on noisy sums: coefficients that are private for the whole record.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all that `fit` releases, as of `DPLinearRegression`.
    alpha : float, default=1.0
        The penalty of squared coefficients in the units of the columns, as of scikit-learn's `Ridge`, finite and >= 0.
        The ridge that the noise needs is added to it.
    delta : float, optional
        The delta of an `epsilon` that is a number; None or 0 for pure privacy, as of `DPLinearRegression`.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside. ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in
        `DPMean`.
    target_bounds : pair of float, or "private"
        The lowest and the highest value of the target, from what is publicly known. `fit` clips values outside.
    bounds_share : float, default=0.2
        The share of the budget that finds bounds, if some are private.
    fit_intercept : bool, default=True
        Whether the model has a constant, which is not penalised. Without it, numbers are measured from 0.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The noisy coefficients.
    coef_std_error_ : ndarray of shape (n_features,)
        Their standard errors, as in `DPLinearRegression`, about what they are on average with the penalty `alpha`.
    intercept_ : float
        The noisy constant; 0 without `fit_intercept`.
    intercept_std_error_ : float
        Its standard error; 0 without `fit_intercept`.
    ridge_ : float
        What the noise adds to the penalty, as in `DPLinearRegression`.
    bounds_ : ndarray of shape (n_features + 1, 2)
        The bounds of the columns and, last, of the target.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPLinearRegression : Without a penalty of its own.
    sklearn.linear_model.Ridge : Without privacy.

    Notes
    -----
    **Privacy.** That of `DPLinearRegression`: central model, adding or removing a record with its target, the number of
    rows included. The penalty is post-processing. Not covered: an error shows that a value is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5_000, 2))
    >>> y = X @ [2.0, -1.0] + rng.normal(size=5_000)
    >>> for alpha in (0, 1_000):
    ...     model = DPRidge(
    ...         1.0, alpha=alpha, delta=1e-6, bounds=(-1, 1), target_bounds=(-6, 6), random_state=0
    ...     ).fit(X, y)
    ...     print(model.coef_.round(1))
    [ 1.9 -1. ]
    [ 1.2 -0.6]
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        alpha: float = 1.0,
        delta: float | None = None,
        bounds: Bounds | None = None,
        target_bounds: tuple[float, float] | str | None = None,
        bounds_share: float = 0.2,
        fit_intercept: bool = True,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.bounds_share = bounds_share
        self.fit_intercept = fit_intercept
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _penalty(self) -> float:
        if isinstance(self.alpha, bool | np.bool_) or not isinstance(self.alpha, Real):
            raise TypeError(f"alpha must be a number, got {type(self.alpha).__name__}")
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(f"alpha must be a finite number >= 0, got {self.alpha}")
        return float(self.alpha)
