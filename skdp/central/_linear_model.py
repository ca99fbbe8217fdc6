"""Linear and ridge regression from noisy sums of products of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import block_diag
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats, Integers
from skdp.base import (
    Bounds,
    TableLike,
    check_confidence_level,
    parse_bounds,
    to_float_columns,
)
from skdp.central._base import Plan
from skdp.central._rows import (
    UNIT,
    Rows,
    add_product_noise,
    bound_products,
    find_limits,
    find_widths,
    to_row_units,
    warn_of_few_rows,
)
from skdp.central._supervised import (
    SupervisedStatistic,
    parse_all_bounds,
    round_with_target,
)
from skdp.central.statistics import (
    Batches,
    Noise,
    warn_user,
)
from skdp.domain import Domain
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho
from skdp.randomness import ByteSource

# Smallest eigenvalue of the sums of products, in norms of the noise. Half of it increases
# errors with few rows more than it reduces errors with many rows.
MIN_RIDGE = 3.0

# Smallest eigenvalue of the sums of products, in norms of the noise, for intervals: their
# inverse is about linear in the noise.
MIN_SUPPORT = 5.0


class GridRows(NamedTuple):
    """Private rows as integers, and the values that these represent."""

    rows: Rows
    # For each column, the value of 0 and the distance of `UNIT`; shape (n_columns,).
    starts: Floats
    units: Floats


class Inference(NamedTuple):
    """Coefficients, corrected for the bias of the penalty, and their covariances; the constant is last."""

    coefficients: Floats
    # Covariances due to the noise, and due to the rows as a sample.
    noise: Floats
    sampling: Floats

    @classmethod
    def from_gradient(
        cls,
        coefficients: Floats,
        gradient: Floats,
        information: Floats,
        *,
        error: float,
        scores: Floats,
    ) -> Inference:
        """Find the coefficients at which the gradient of a loss is 0, by a Newton step from `coefficients`.

        `information` is the sum of second derivatives, `error` the standard deviation of the noise of `gradient`, and
        `scores` the sum of products of the gradients of each row (P. J. Huber, 1967).
        """
        inverse = np.linalg.inv(information)
        return cls(
            coefficients - inverse @ gradient,
            error**2 * inverse @ inverse,
            inverse @ scores @ inverse,
        )


class Units(NamedTuple):
    """Conversion of coefficients of scaled columns and a constant, which is last, to original units."""

    # Factor of each slope, and the origin of each scaled column; shape (n_columns,).
    slopes: Floats
    origin: Floats
    # Matrix by which scaled and centered columns were multiplied.
    axes: Floats
    # The value of the constant.
    constant: float = 1.0
    target: float = 1.0
    target_start: float = 0.0


class LinearModel(SupervisedStatistic):
    """Base class of models with coefficients, for rows of numbers without missing values."""

    _takes_missing = False
    _requires_rows = True

    coef_: Floats
    intercept_: Any
    coef_std_error_: Floats
    intercept_std_error_: Any

    def _set_coefficients(
        self, units: Units, coefficients: Floats, inference: Inference | None
    ) -> None:
        """Set the coefficients and their standard errors, which are nan if `inference` is None.

        `coefficients` has the shape (n_columns + 1,) or (n_columns + 1, n_outputs), the constant last.
        """
        size = len(coefficients)
        to_terms = block_diag(units.axes, units.constant)
        to_terms[-1, :-1] = -units.origin @ units.axes
        scales = np.append(units.slopes, units.target)
        starts = np.append(np.zeros(size - 1), units.target_start)
        # Rows: estimates, and standard errors of the noise and of the sample.
        self._estimates = np.full((3, size), np.nan)
        with np.errstate(over="ignore"):
            terms = (to_terms @ coefficients).T * scales + starts
            if inference is not None:
                estimates, *covariances = inference
                self._estimates[0] = to_terms @ estimates * scales + starts
                for errors, covariance in zip(
                    self._estimates[1:], covariances, strict=True
                ):
                    variances = np.diag(to_terms @ covariance @ to_terms.T)
                    errors[:] = np.sqrt(np.maximum(variances, 0.0)) * scales
        self.coef_, self.intercept_ = terms[..., :-1], terms[..., -1]
        errors = np.broadcast_to(np.hypot(*self._estimates[1:]), terms.shape)
        self.coef_std_error_ = errors[..., :-1].copy()
        self.intercept_std_error_ = errors[..., -1].copy()

    def summary(self, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Return each coefficient with its standard errors and interval.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Coverage probability of each interval, for the coefficient in the population.

        Returns
        -------
        pandas.DataFrame
            Columns 'estimate', 'noise_std_error', 'sampling_std_error', 'std_error', 'lower' and 'upper', indexed by
            the constant and the columns of X. The estimate is a coefficient without the bias of penalties that
            limit the noise. The variances of the noise and of the sample add up to the square of 'std_error'. All
            numbers are nan if the noise is too large for an interval.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the level is out of range, or for more than two classes.

        Warns
        -----
        UserWarning
            If the noise is too large for an interval.
        """
        check_is_fitted(self)
        level = check_confidence_level(confidence_level)
        if np.ndim(self.coef_) == 2 and len(self.coef_) > 1:
            raise ValueError(
                f"summary requires two classes, got {len(self.coef_)}. Fit a model of "
                "one class against the others."
            )
        if np.isnan(self._estimates).any():
            warn_user(
                "The noise is too large for intervals of the coefficients. Use narrower "
                "bounds, more rows, fewer columns, or a larger epsilon",
                "guide/models#coefficients-with-standard-errors",
            )
        unnamed = [f"x{column}" for column in range(self.n_features_in_)]
        terms = ["intercept", *getattr(self, "feature_names_in_", unnamed)]
        # The constant is the first term.
        table = pd.DataFrame(
            np.roll(self._estimates, 1, axis=1).T,
            index=pd.Index(terms, name="term"),
            columns=["estimate", "noise_std_error", "sampling_std_error"],
        )
        table["std_error"] = np.hypot(table.iloc[:, 1], table.iloc[:, 2])
        margins = NormalDist().inv_cdf((1 + level) / 2) * table["std_error"]
        table["lower"] = table["estimate"] - margins
        table["upper"] = table["estimate"] + margins
        return table

    def _respond(self, X: Any) -> Floats:
        """Return the product of rows and coefficients, plus intercept; shape (n_samples,) or (n_samples, n_outputs)."""
        table = self._read_rows(X)
        numbers = np.stack(to_float_columns(table), axis=1)
        return numbers @ self.coef_.T + self.intercept_


class LinearFit(NamedTuple):
    """Coefficients in units of the columns; the coefficient of the constant is the last."""

    coefficients: Floats
    # The number that was added to the sums of squares of columns.
    ridge: float
    # None if the noise is too large.
    inference: Inference | None


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Noisy sums over rows of the products of columns, a constant and a target, in units of the columns."""

    # For all pairs; the constant and the target are last; shape (n_columns + 2, n_columns + 2).
    sums: Floats
    # Standard deviations of the noise: of products of columns and the constant, of
    # these with the target, and of the square of the target.
    product_error: float
    target_error: float
    square_error: float

    @property
    def products(self) -> Floats:
        """Sums of products of columns and the constant, which is last; shape (n_columns + 1, n_columns + 1)."""
        return self.sums[:-1, :-1]

    @property
    def noise_norm(self) -> float:
        """About half of the spectral norm of the noise of `products`."""
        # The spectral norm of a symmetric matrix with independent entries of standard
        # deviation s is about 2 sqrt(n) s.
        return math.sqrt(len(self.products)) * self.product_error

    def solve(self, penalties: Floats, axes: Floats, n_rows: float) -> LinearFit:
        """Find the coefficients of ridge regression with their covariances, the constant last.

        `penalties` of shape (n_columns,) are added to the sums of squares of the columns before these were multiplied
        by `axes`, and a ridge that limits the effect of the noise. `n_rows` is the noisy number of rows.
        """
        n_columns = len(penalties)
        products = self.products.copy()
        # Sums of products with the target; shape (n_columns + 1,), the constant last.
        target_products = self.sums[:-1, -1]
        largest = max(float(np.diag(products).max()), self.noise_norm)
        # A larger penalty would exceed the precision of floats.
        penalties = np.minimum(penalties, 2.0**30 * largest)
        products[:-1, :-1] += axes.T * penalties @ axes
        products[-1, -1] = max(float(products[-1, -1]), MIN_RIDGE * self.noise_norm)

        # The best coefficient of the constant is a linear function of the slopes:
        # -(products of the constant and columns) / (number of rows). Substituted, the
        # squared error is a quadratic function of the slopes alone.
        to_coefficients = np.vstack(
            [np.eye(n_columns), -products[-1, :-1] / products[-1, -1]]
        )
        eigenvalues, eigenvectors = np.linalg.eigh(
            to_coefficients.T @ products @ to_coefficients
        )
        target = eigenvectors.T @ to_coefficients.T @ target_products
        ridge = self._choose_ridge(eigenvalues, target)
        regularized = products + ridge * np.diag(np.append(np.ones(n_columns), 0.0))
        coefficients: Floats = np.linalg.inv(regularized) @ target_products
        inference = None
        if min(eigenvalues[0], products[-1, -1]) > MIN_SUPPORT * self.noise_norm:
            inference = self._infer(products, n_rows)
        return LinearFit(coefficients, ridge, inference)

    def _infer(self, products: Floats, n_rows: float) -> Inference:
        """Estimate the coefficients without ridge, and their covariances; `products` includes declared penalties."""
        # With the exact sums S and t, the noise N and n, and S b = t for the coefficients b
        # of these rows, the estimate is b - inverse (N b - n), where the inverse is of
        # S + N. To first order, N does not change the inverse.
        target_products = self.sums[:-1, -1]
        inverse = np.linalg.inv(products)
        coefficients = inverse @ target_products
        noise_covariance = self._estimate_noise_covariance(coefficients)
        # The squared error on noisy sums is too small, because the coefficients also fit
        # the noise: to first order, by the trace of the inverse times the covariance of
        # the noise.
        explained = coefficients @ self.products @ coefficients
        error = self.sums[-1, -1] - 2 * coefficients @ target_products + explained
        unexplained = error + np.trace(inverse @ noise_covariance)
        unexplained = max(float(unexplained), self.square_error)
        row_variance = unexplained / max(n_rows - len(products), 1.0)
        return Inference(
            coefficients,
            inverse @ noise_covariance @ inverse,
            row_variance * inverse @ self.products @ inverse,
        )

    def _choose_ridge(self, eigenvalues: Floats, target_products: Floats) -> float:
        """Choose the ridge, a number that is added to all eigenvalues, with the smallest estimated prediction error.

        `eigenvalues` are the eigenvalues of the noisy sums of products of columns, after the constant is eliminated,
        ascending, of shape (n_columns,). `target_products`, of the same shape, are the sums of products with the target
        in the directions of their eigenvectors. `product_error` and `target_error` are the standard deviations of the
        noise of one sum of products of columns, and of a column and the target; the norm of the noise of the whole
        matrix is about twice `noise_norm`.
        """
        # The smallest eigenvalue with the ridge must exceed the noise, by more if
        # the noise is at least a tenth of the number of rows, and the precision of floats.
        n_rows = max(float(self.products[-1, -1]), self.product_error)
        smallest_sum = MIN_RIDGE * self.noise_norm
        smallest_sum *= max(1.0, 10 * self.product_error / n_rows)
        smallest_sum = max(smallest_sum, 2.0**-40 * float(eigenvalues[-1]))
        smallest = max(0.0, smallest_sum - float(eigenvalues[0]))
        # Stein's unbiased risk estimate, to first order: the squared error on noisy sums,
        # plus twice the covariance of the noise and the coefficients, which change by the
        # inverse times the noise.
        ridges = smallest + self.noise_norm * np.append(0.0, 2.0 ** np.arange(-3, 12))
        inverses = 1 / (eigenvalues + ridges[:, np.newaxis])  # (n_ridges, n_columns)
        coefficients = inverses * target_products
        squares = coefficients**2
        product_variance = self.product_error**2
        variances = self.target_error**2 + product_variance * squares.sum(axis=1)
        degrees_of_freedom = inverses.sum(axis=1) * variances
        degrees_of_freedom += product_variance * (squares * inverses).sum(axis=1)
        errors = squares @ eigenvalues - 2 * coefficients @ target_products
        return float(ridges[np.argmin(errors + 2 * degrees_of_freedom)])

    def _estimate_noise_covariance(self, coefficients: Floats) -> Floats:
        """Return the covariance of the noise of the normal equations, N b - n, at coefficients b.

        N is the noise of the products of columns, and n of their products with the target.
        """
        # N is symmetric, with independent entries of variance v for i <= j. So
        # Cov((N b)_i, (N b)_j) = v b_i b_j for i != j, and v sum(b**2) for i = j.
        squares = coefficients**2
        identity = np.eye(len(squares))
        outer = np.outer(coefficients, coefficients)
        trace_part = squares.sum() * identity + outer - np.diag(squares)
        return self.target_error**2 * identity + self.product_error**2 * trace_part


def make_product_noises(
    budget: PrivacyBudget, size: int, *, square: int, constant: int, largest: int
) -> tuple[Noise, Noise, Noise]:
    """Return the noise of three groups of sums of products: without the target, with the target, and its square.

    There are `size` columns, including the constant, whose value is `constant`. The squared norm of the columns of a
    row without the constant is at most `square`, and their absolute values are at most `largest`. All values are in
    steps of 1 / `UNIT`.
    """
    largest = max(largest, constant)
    square += constant**2
    if budget.kind == "epsilon":
        joint = Noise.joint(budget, largest**2, (size + 1) * (size + 2) // 2)
        return joint, joint, joint
    # The square of the target is used for standard errors only. Half or twice its fraction
    # of the budget changes predictions by less than their noise.
    mu_squared = budget.mu_squared * Fraction(9, 20)
    return (
        Noise.gaussian(mu_squared, bound_products(square, largest)),
        Noise.gaussian(mu_squared, square * UNIT**2),
        Noise.gaussian(budget.mu_squared / 10, UNIT**4),
    )


def add_noise(
    sums: Integers, noises: Sequence[Noise], source: ByteSource
) -> ProductSums:
    """Add the noise of `make_product_noises` to sums of products; without a delta, in one joint draw.

    `sums` are exact integers for all pairs, with constant and target last; shape (n_columns + 2, n_columns + 2).
    """
    products_noise, target_noise, square_noise = noises
    noisy = np.zeros(sums.shape)
    if not products_noise.is_gaussian:
        noisy = add_product_noise(sums, products_noise, source)
    else:
        noisy[:-1, :-1] = add_product_noise(sums[:-1, :-1], products_noise, source)
        noisy[:-1, -1] = target_noise.add_floats(source, sums[:-1, -1]) / UNIT**2
        noisy[-1:, -1:] = add_product_noise(sums[-1:, -1:], square_noise, source)
    # Rounding of values to integers causes errors of up to one step.
    errors = [to_row_units(max(noise.std, Fraction(1))) for noise in noises]
    return ProductSums(noisy, *errors)


def measure_products(
    rows: Rows, budget: PrivacyBudget, source: ByteSource
) -> tuple[ProductSums, Units]:
    """Measure sums of products of centered columns; also return the origin, constant and axes of these columns.

    The constant is the value of the additional column that stands for the intercept.
    """
    # Without a delta, noise is proportional to the largest product of two values, and the
    # norm of rows does not matter.
    square, largest, constant = rows.square, UNIT, UNIT
    origin, axes = np.zeros(rows.n_columns), np.eye(rows.n_columns)
    if budget.kind != "epsilon":
        centered = find_limits(rows, budget.of_a_row, 0.2, source)
        # The rows that exceed the limit change a sum by about as much as the noise. If twice
        # as many do, they bias the coefficients of curved relations by more than the noise
        # does; if half as many do, the noise is larger.
        noise_norm = math.sqrt((len(axes) + 1) / centered.remaining.mu_squared)
        limits, axes = centered.whiten(0.2, source, max_longer=20 * noise_norm)
        rows, square, budget = limits.rows, limits.square, limits.remaining
        largest = math.isqrt(square) + 1
        constant = max(largest // 2, 1)
        origin = limits.middle / UNIT
    # A longer row is multiplied by one factor together with its constant and its target,
    # as in weighted least squares. So a linear model of the rows is also a linear model of
    # the shortened rows.
    sums = rows.moments(rows.factors(square), constant, with_target=True)
    noises = make_product_noises(
        budget, len(sums) - 1, square=square, constant=constant, largest=largest
    )
    units = Units(np.ones(len(origin)), origin, axes, constant / UNIT)
    return add_noise(sums, noises, source), units


class _LinearRegression(RegressorMixin, LinearModel):
    """Base class of linear models that are fitted to noisy sums of products."""

    delta: float
    bounds: Bounds | None
    target_bounds: tuple[float, float] | Domain | None
    ridge_: float

    def _penalty(self) -> float:
        """Check and return the penalty of squared coefficients."""
        return 0.0

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        return parse_all_bounds(self.bounds, self.target_bounds, names)

    def _plan(self, rows: Batches, budget: PrivacyBudget, bounds: Any) -> Plan:
        """Round the rows to integers between their bounds, and compute the noise.

        With a budget in epsilon, one noise is for all sums; otherwise `_release` divides the squares of mu.
        """
        penalty = self._penalty()
        bounds = parse_bounds(bounds, rows.names)
        # With a budget in mu, all noise is Gaussian, and the squares of mu add up to its
        # square.
        noise = Noise.gaussian(budget.mu_squared)
        if budget.kind == "epsilon":
            noise, *_ = make_product_noises(
                budget, len(rows.names), square=0, constant=UNIT, largest=UNIT
            )
        # The origin is the middle of the bounds. The constant compensates for the shift.
        starts = bounds[:, 0] + (bounds[:, 1] - bounds[:, 0]) / 2
        rows_on_grid = round_with_target(rows.table, bounds, starts)
        exact = (
            GridRows(rows_on_grid, starts, find_widths(bounds, starts)),
            penalty,
            budget,
        )
        return Plan(exact, (noise,), f"noisy sums of products, {noise.name}")

    def _release(self, plan: Plan, source: ByteSource) -> None:
        """Fit ridge regression to noisy sums of products, and convert its coefficients to the units of the columns.

        `starts` and `scales` are the origin and the unit of each column and, last, of the target.
        """
        (rows, starts, scales), penalty, budget = plan.exact
        moments, units = measure_products(rows, budget, source)
        # The last column is the constant, so the sum of its squares counts the rows.
        n_rows = float(moments.products[-1, -1]) / units.constant**2
        if budget.kind == "epsilon":
            warn_of_few_rows(n_rows, moments.product_error / units.constant**2)
        column_scales, target_scale = scales[:-1], float(scales[-1])
        # With extremely narrow bounds, penalties and slopes exceed the largest float.
        with np.errstate(over="ignore"):
            penalties = penalty / column_scales / column_scales
            slopes = target_scale / column_scales
        solution = moments.solve(penalties, units.axes, n_rows)
        units = units._replace(
            slopes=slopes,
            origin=units.origin + starts[:-1] / column_scales,
            target=target_scale,
            target_start=float(starts[-1]),
        )
        self._set_coefficients(units, solution.coefficients, solution.inference)
        self.ridge_ = solution.ridge

    def predict(self, X: TableLike) -> Floats:
        """Return the expected target of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`, without missing values.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted targets, which may be outside `target_bounds`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns, is not numeric, or contains a missing value.
        """
        return self._respond(X)


class DPLinearRegression(_LinearRegression):
    """Fit a linear regression by least squares on noisy sums, with differential privacy for whole records.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`, far below one over the number of rows. 0 for pure privacy,
        whose noise grows with the square of the number of columns; prefer a delta with more than about five columns.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        Bounds (low, high) of all columns or of each column, from public knowledge. `fit` clips values
        outside.
    target_bounds : pair of float, or Domain
        The smallest and largest value of the target, from public knowledge. `fit` clips values outside.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The noisy coefficients.
    coef_std_error_ : ndarray of shape (n_features,)
        Standard errors of the coefficients without `ridge_`, which `summary` contains, for the coefficients of the
        population. nan if the noise is too large for intervals.
    intercept_ : float
        The noisy constant.
    intercept_std_error_ : float
        Standard error of the constant without `ridge_`.
    ridge_ : float
        Penalty added to the sums of squares of the columns, to limit the effect of the noise. Without a delta, it is
        in units of half the width of the bounds: it shrinks the coefficient of an uncorrelated column with standard
        deviation s by the fraction ``ridge_ / (ridge_ + n_rows * (2 * s / width)**2)`` of its size. With a delta, it
        shrinks all coefficients by about the fraction ``ridge_ / (ridge_ + n_rows / 64)``.
    bounds_ : ndarray of shape (n_features + 1, 2)
        The bounds of the columns and, last, of the target.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPRidge : With a penalty of large coefficients.
    DPLogisticRegression : Classes.
    sklearn.linear_model.LinearRegression : Without privacy.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta;
    the latter is Gaussian differential privacy ([1]_). Predictions are post-processing and use no budget, but a
    prediction for a row of the table is computed from this row. The number of rows is protected too, and an empty
    table is allowed. Not covered: an error reveals that a value is missing.

    Values are integers on a grid between the bounds. Without delta, all sums of products of two columns, a constant and
    the target change by at most 1 in units of the bounds, and get noise of density ``e**(-epsilon max|z|)`` together.
    With a delta, an eighth of mu**2 is spent on noisy counts of rows by norm and on the mean of the rows, at
    which they are then centered. A further 3/32 is spent on noisy sums of products, by which the columns are rotated
    and scaled to about equal variances, and on counts of the new rows by norm. Rows that exceed a norm R are multiplied
    by a factor that shortens them to R, together with their target and constant. So they have smaller weights than in
    least squares, but only as many rows as change the sums by about as much as the noise: about 20 times the root of
    the number of columns, divided by mu. Then a row changes the products
    of the columns by at most the square of its norm, and the products with the target by its norm, in Euclidean norm.
    Sums of products with noise were proposed in [2]_; as there, the noise determines a ridge, here by an unbiased
    estimate of the error of prediction ([3]_).

    `summary` computes intervals from the same noisy sums. The error due to the noise follows from the distribution of
    the noise of the sums, and the sampling error from the noisy squared residuals, for residuals with equal variances.
    An interval requires that the smallest eigenvalue of the sums of products exceeds their noise five times.

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
    array([0.036, 0.036])
    >>> print(model.guarantee_)
    epsilon = 1, delta = 0.000001, rho = 0.0280145, central model, adding or removing one record's values of: x0,
    x1, target, NOT SECURE: ...
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        bounds: Bounds | None = None,
        target_bounds: tuple[float, float] | Domain | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state


class DPRidge(_LinearRegression):
    """Fit a ridge regression on noisy sums, with differential privacy for whole records.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, as in `DPLinearRegression`.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`; 0 for pure privacy, as in `DPLinearRegression`.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        Bounds (low, high) of all columns or of each column, from public knowledge. `fit` clips values
        outside.
    target_bounds : pair of float, or Domain
        The smallest and largest value of the target, from public knowledge. `fit` clips values outside.
    alpha : float, default=1.0
        The penalty of squared coefficients in the units of the columns, as in
        scikit-learn's `Ridge`, finite and >= 0. The ridge that limits the effect of the
        noise is added to it.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The noisy coefficients.
    coef_std_error_ : ndarray of shape (n_features,)
        Standard errors of the coefficients without `ridge_`, as in `DPLinearRegression`, relative to their expectation
        with the penalty `alpha`.
    intercept_ : float
        The noisy constant.
    intercept_std_error_ : float
        Standard error of the constant without `ridge_`.
    ridge_ : float
        Penalty added because of the noise, as in `DPLinearRegression`.
    bounds_ : ndarray of shape (n_features + 1, 2)
        The bounds of the columns and, last, of the target.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPLinearRegression : Without a penalty of large coefficients.
    sklearn.linear_model.Ridge : Without privacy.

    Notes
    -----
    **Privacy.** As in `DPLinearRegression`: central model, adding or removing a record with its target. The number of
    rows is protected, too. The penalty is post-processing. Not covered: an error reveals that a value is missing.

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
    [ 2. -1.]
    [ 1.3 -0.6]
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        bounds: Bounds | None = None,
        target_bounds: tuple[float, float] | Domain | None = None,
        alpha: float = 1.0,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _penalty(self) -> float:
        """Check `alpha`, and return it as the penalty of the squared coefficients."""
        alpha = self.alpha
        if isinstance(alpha, bool | np.bool_) or not isinstance(alpha, Real):
            raise TypeError(f"`alpha` must be a number, got {type(alpha).__name__}.")
        number = float(alpha)
        if not (math.isfinite(number) and number >= 0):
            raise ValueError(f"`alpha` must be a finite number >= 0, got {alpha}.")
        return number
