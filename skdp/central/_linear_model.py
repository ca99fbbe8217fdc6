"""Linear and ridge regression by noisy Newton steps, whose noise follows the residuals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, ColumnName, Floats, TableLike
from skdp.base import (
    NORMAL,
    Bounds,
    OrderedScore,
    check_confidence_level,
    check_flag,
    find_ratio_interval,
    parse_bounds,
    restore_on_error,
    to_float_columns,
)
from skdp.central._base import FitInput, Plan
from skdp.central._rows import (
    UNIT,
    WHITE_PARTS,
    Rows,
    WeightedRows,
    choose_residual_limit,
    count_by_size,
    find_widths,
    plan_product_noise,
    warn_of_few_rows,
    whiten,
)
from skdp.central._sums import read_weights
from skdp.central._supervised import (
    SupervisedStatistic,
    declare_indicators,
    parse_all_ends,
)
from skdp.central._widths import ScaleSearch, plan_scale_search
from skdp.central.linear._products import (
    MAX_QUANTILE,
    MIN_SUPPORT,
    Inference,
    NoisyProducts,
    Units,
    append_constant,
    exclude_constant_columns,
    explain_constant_columns,
    explain_dependence,
    explain_noise,
    find_contrasts,
    find_gain,
    shrink_jointly,
    warn_of_weak_effects,
)
from skdp.central.statistics import Batches, Noise, to_float, warn_user
from skdp.domain import Domain
from skdp.privacy import (
    Mu,
    PrivacyBudget,
    PrivacyLedger,
    Rho,
    Split,
    check_epsilon,
    gaussian_loss,
)
from skdp.randomness import ByteSource

# Largest fraction of the rows whose residuals are clipped.
MAX_CLIPPED_RESIDUALS = 0.2

# Residuals are counted up to twice this multiple of the limits of a target.
MAX_RESIDUAL_FACTOR = 8

# Largest target in units of its limits. Sums of a target and a prediction keep their precision.
MAX_TARGET = 2.0**20

# Fractions of the budget of the model for the sums of products of columns, for the numbers of rows
# by residual, for the sums of products of gradients, and for the gradients. Without a delta, the
# noise of products grows with the square of the number of columns: with a fifth, the noise of a
# target with wide bounds is twice as large.
PARTS = Split(
    rest="gradients",
    products=Fraction(3, 10),
    counts=Fraction(11, 60),
    scores=Fraction(1, 20),
)

# Parts of the budgets for counts before each of the first steps, in elevenths, and for the gradient
# of each step, in twentieths. The estimate is the mean of the steps that have the last limit of the
# residuals. Without a delta, two gradients with half of a budget have twice the variance of one
# gradient with all of it.
COUNT_STEPS, GRADIENT_STEPS = (1, 1, 9), (1, 2, 5, 12)


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Checked rows of a linear model, which are rounded between limits after the charge."""

    # The features, which may be copies, and the target: a number, or the class of each row.
    columns: list[Floats]
    target: NDArray[Any]
    # From 0 to 1; (n_rows,).
    weights: Floats
    # The bounds to which values are clipped, and the limits of most values, by which they are
    # scaled; (n_columns, 2), with a numeric target last.
    bounds: Floats
    limits: Floats

    def round(self, starts: Floats) -> Rows:
        """Round the features to integers, where `starts`, (n_features,), become 0, and forget the features."""
        units = find_widths(self.limits[: len(starts)], starts)
        bounds = self.bounds[: len(starts)]
        rows = Rows.of(self.columns, bounds, starts, self.target, units)
        self.columns.clear()
        return rows


@dataclass(frozen=True, eq=False)
class RegressionRows(ModelRows):
    """Rows with a numeric target."""

    # The declared ends of the target, and the penalty of squared coefficients.
    ends: Floats
    penalty: float

    def scale_target(self, start: float) -> tuple[Floats, float]:
        """Return the target in units of its limits from `start`, and the unit."""
        # Residuals up to two units are counted.
        width, largest = np.abs([self.limits[-1] - start, self.ends - start]).max(
            axis=1
        )
        unit = min(MAX_RESIDUAL_FACTOR * width, largest)
        # A found limit of the target is not a bound: the tail of the target may follow from the
        # tails of the columns, and the residuals are clipped.
        with np.errstate(over="ignore"):
            target = (np.clip(self.target, *self.ends) - start) / unit
        return np.clip(target, -MAX_TARGET, MAX_TARGET), float(unit)


class LinearModel(SupervisedStatistic):
    """Base class of models with coefficients, for rows of numbers without missing values."""

    _takes_missing = False
    _requires_rows = True
    _finds_limits = True
    _finds_limits_within = True

    fit_intercept: bool
    max_weight: float | None
    coef_: Floats
    intercept_: Floats | float

    @restore_on_error
    def fit(
        self,
        X: TableLike,
        y: ColumnLike | ColumnName | None = None,
        *,
        sample_weight: ColumnLike | ColumnName | None = None,
        person: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Fit the model to a private table and its target.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Private features, without missing values. The rows of a large table are read into memory.
        y : array-like of shape (n_samples,) or column name
            Private target, without missing values, which `guarantee_` lists under its name, or as ``"target"``.
        sample_weight : array-like of shape (n_samples,) or column name, optional
            Private weight of each row, such as the inverse of its sampling probability: a row counts as so many rows.
            Larger weights than `max_weight` are clipped, a missing weight is 0, and an error reveals a negative weight.
        person : array-like of shape (n_samples,) or column name, optional
            Person of each row, who is protected with all rows. At most `max_rows_per_person` rows of each person are
            used, chosen at random. A column that `y`, `sample_weight` or `person` names is not a feature.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If a parameter, X, y, `sample_weight` or `person` is invalid.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If the noise is about as large as the number of rows or as the effects of the columns, if fewer than two
            classes are found, or if a linear model without a delta has too many columns for its noise. The warning
            follows from noisy numbers.
        """
        return self._fit(X, FitInput(y, sample_weight, person))

    def _split_weights(self, rows: Batches) -> tuple[Batches, Floats, float]:
        """Return rows without weights, the weights divided by the largest, (n_rows,), and the largest weight."""
        if not rows.is_weighted:
            return rows, np.broadcast_to(1.0, len(rows.table.columns[0])), 1.0
        max_weight = float(check_epsilon(self.max_weight, name="max_weight"))
        return rows.features, read_weights(rows.table, max_weight), max_weight

    def _plan_search(
        self, names: Sequence[Any], bounds: Floats | None, budget: PrivacyBudget
    ) -> Any:
        """Plan the search of open ends, and of ends that are too wide; indicators need none."""
        return plan_scale_search(
            names, bounds, budget, self.n_features_in_, within=self._finds_limits_within
        )

    def _replan(
        self,
        plan: Plan[ModelRows],
        rows: Batches,
        search: ScaleSearch,
        bounds: Floats,
    ) -> Plan[ModelRows]:
        exact = replace(plan.exact, bounds=bounds, limits=search.limits)
        return replace(plan, exact=exact, budget=search.rest)

    def _set_coefficients(
        self,
        units: Units,
        coefficients: Floats,
        inference: Inference | None,
        excluded: Sequence[int] = (),
        reason: str = "",
    ) -> None:
        """Set the coefficients and the rows of `summary`, which are nan if `inference` is None; `reason` states why.

        Columns that are `excluded` have no estimates.

        `coefficients` has the shape (n_columns + 1,) or (n_columns + 1, n_outputs), the constant last.
        """
        self._reason = reason
        size = len(coefficients)
        to_terms = units.to_terms
        scales = np.append(units.slopes, units.target)
        starts = np.append(np.zeros(size - 1), units.target_start)
        # Rows: estimates, standard errors of the noise and of the sample, and slopes and
        # curvatures of the variances, see `find_ratio_interval`.
        self._estimates = np.outer([np.nan] * 3 + [0.0] * 2, np.ones(size))
        with np.errstate(over="ignore"):
            terms = (to_terms @ coefficients).T * scales + starts
            if inference is not None:
                found = np.array([*map(inference.find_variances, to_terms)]).T
                noise, sampling, slopes, curvatures = found
                estimates = to_terms @ inference.coefficients * scales + starts
                errors = np.sqrt([noise, sampling]) * scales
                self._estimates[:] = estimates, *errors, slopes * scales, curvatures
                is_known = MAX_QUANTILE**2 * curvatures < 1
                self._estimates[:3, ~is_known] = np.nan
                self._estimates[:, excluded] = np.c_[[np.nan] * 3 + [0.0] * 2]
                terms[..., excluded] = 0.0  # rounding errors remain
        if not self.fit_intercept:
            # Rounding errors remain.
            terms[..., -1] = self._estimates[:3, -1] = 0.0
        self.coef_, self.intercept_ = terms[..., :-1], terms[..., -1]

    def summary(self, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Return each coefficient with its standard errors and interval.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Coverage probability of each interval, for the coefficient in the population, of numbers limited to
            `bounds_`.

        Returns
        -------
        pandas.DataFrame
            Columns 'estimate', 'noise_std_error', 'sampling_std_error', 'std_error', 'lower' and 'upper', indexed by
            the constant, unless `fit_intercept` is False, and the columns of X. The estimate is a coefficient without
            the shrinkage that limits the noise. The variances of the noise and of the sample add up to the square of
            'std_error'. The intervals of a logistic regression are not symmetric. Numbers are nan without an interval;
            a warning states the reason. The name of the index of a logistic regression contains the classes.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the level is out of range, or for more than two classes.

        Warns
        -----
        UserWarning
            If coefficients have no intervals: because of the noise, of columns that are constant or depend on each
            other, or of classes that the columns separate.
        """
        check_is_fitted(self)
        level = check_confidence_level(confidence_level)
        if np.ndim(self.coef_) == 2 and len(self.coef_) > 1:
            raise ValueError(
                f"summary requires two classes, got {len(self.coef_)}. Fit a model of "
                "one class against the others."
            )
        names, constant = self._name_columns(), "intercept"
        while constant in names:
            constant += "_"
        # The constant is the first term.
        start = int(not self.fit_intercept)
        estimates = self._estimates
        if len(estimates) == 3:  # a file of 0.4.0, without changes of variances
            estimates = np.pad(estimates, ((0, 2), (0, 0)))
        found = np.roll(estimates, 1, axis=1)[:, start:]
        slopes, curvatures = found[3:]
        table = pd.DataFrame(
            found[:3].T,
            index=pd.Index([constant, *names][start:], name=self._name_terms()),
            columns=["estimate", "noise_std_error", "sampling_std_error"],
        )
        errors = table["std_error"] = np.hypot(*found[1:3])
        table["lower"], table["upper"] = find_ratio_interval(
            found[0], errors, slopes, curvatures, level
        )
        reasons = [self._reason] * bool(self._reason)
        # Only the variances of other coefficients change.
        is_noise = (curvatures > 0) | (not reasons)
        missing = table.index[table["lower"].isna() & is_noise].tolist()
        if missing:
            noise = explain_noise(
                1 / math.sqrt(max(float(curvatures.max()), 2.0**-1000)),
                NORMAL.quantile(level),
                terms=missing if len(missing) < len(table) else (),
            )
            reasons.append(noise)
        for reason in reasons:
            warn_user(reason, "guide/models#coefficients-with-standard-errors")
        return table

    def _name_columns(self) -> list[str]:
        """Name the columns of X."""
        unnamed = [f"x{column}" for column in range(self.n_features_in_)]
        return list(getattr(self, "feature_names_in_", unnamed))

    def _name_terms(self) -> str:
        """Name the index of the summary."""
        return "term"

    def _respond(self, X: TableLike) -> Floats:
        """Return the product of rows and coefficients, plus intercept; shape (n_samples,) or (n_samples, n_outputs)."""
        table = self._read_rows(X)
        numbers = np.stack(to_float_columns(table), axis=1)
        if hasattr(self, "bounds_"):
            # As in `fit`: beyond limits that are found, an effect is unknown.
            numbers = np.clip(numbers, *self.bounds_[: self.n_features_in_].T)
        return numbers @ self.coef_.T + self.intercept_


class RidgeFit(NamedTuple):
    """Results of noisy Newton steps for a numeric target."""

    # Shape (n_columns + 1,), with the constant last.
    coefficients: Floats
    # None if the noise is too large.
    inference: Inference | None
    # The noisy sums of products of columns, and the columns that are constant, up to noise.
    products: NoisyProducts
    excluded: list[int]
    # The noisy sum of the weights of the rows.
    n_rows: float


@dataclass(frozen=True, eq=False)
class TargetRows:
    """Private rows with a numeric target, and the budget for noisy sums over them."""

    rows: WeightedRows
    # The target of each row, in units of the distance from its origin to the farther bound or
    # limit. Only targets beyond found limits exceed 1.
    target: Floats
    budget: PrivacyBudget

    @property
    def n_inputs(self) -> int:
        """The number of columns, including the constant."""
        return self.rows.rows.n_columns + 1

    def product_noise(self, fraction: Fraction) -> Noise:
        """Return the noise of sums of products of all pairs of columns and the constant, for a part of the budget."""
        budget = self.budget * fraction
        if budget.kind != "epsilon":
            return plan_product_noise(budget, self.rows.square)
        return Noise.joint(budget, UNIT**2, self.n_inputs * (self.n_inputs + 1) // 2)

    def gradient_noise(self, part: int) -> Noise:
        """Return the noise of sums of products of rows and clipped residuals, for a part of `GRADIENT_STEPS`."""
        budget = self.budget * (PARTS.gradients * part / sum(GRADIENT_STEPS))
        if budget.kind != "epsilon":
            return Noise.gaussian(budget, self.rows.square * UNIT**2)
        return Noise.joint(budget, UNIT**2, self.n_inputs)

    def expect_support(self, n_rows: float) -> float:
        """Return the sum of squares of a new column, or of a column that varies within its bounds."""
        return n_rows / (16 if self.budget.kind == "epsilon" else 64)

    def fit(
        self,
        penalties: Floats,
        units: Units,
        source: ByteSource,
        *,
        fit_intercept: bool = True,
    ) -> RidgeFit:
        """Find the coefficients of ridge regression, (n_columns + 1,) with the constant last, by noisy Newton steps.

        `penalties` of shape (n_columns,) are added to the sums of squares of the columns before these were multiplied
        by ``units.axes``.
        """
        products, n_rows = self._measure_products(penalties, units.axes, source)
        is_pure = self.budget.kind == "epsilon"
        has_rows = not (is_pure and warn_of_few_rows(n_rows, products.error))
        contrasts = find_contrasts(products, units, fit_intercept=fit_intercept)
        reductions = exclude_constant_columns(
            products,
            units,
            products.find_certainty(contrasts),
            self.expect_support(n_rows),
            fit_intercept=fit_intercept,
        )
        supported = (pair for pair in reductions if pair[0].is_supported)
        products, excluded = next(supported, reductions[0])
        estimate = coefficients = np.zeros(self.n_inputs)
        distance = 0.0
        for step, part in enumerate(GRADIENT_STEPS):
            noise = self.gradient_noise(part)
            residuals = self._find_residuals(coefficients)
            if step < len(COUNT_STEPS):
                limit, row_variance = self._choose_limit(
                    residuals, COUNT_STEPS[step], noise, n_rows, source
                )
                precision = 0.0  # earlier steps clip more residuals
            gradient = self._measure_gradient(residuals, limit, noise, source)
            total = gradient + products.sums @ coefficients
            change = products.inverse @ (gradient - products.penalties @ coefficients)
            error = to_float(max(noise.std, Fraction(1))) / UNIT**2
            # The noise of the products is multiplied by the distance from the solution.
            distance = max(distance, float(change @ change))
            variance = (
                limit * error
            ) ** 2 + products.noise_norm**2 / self.n_inputs * distance
            # The mean of the results, weighted by their precision.
            precision += 1 / variance
            weight = 1 / (variance * precision)
            estimate = estimate + weight * (coefficients + change - estimate)
            distance = float((products.inverse**2).sum()) / precision
            (coefficients,) = shrink_jointly(
                [products], estimate[:, np.newaxis], 1 / precision
            ).T

        inverse = products.inverse
        covariance = inverse @ inverse / precision
        gain = find_gain(
            products,
            total,
            estimate,
            coefficients,
            covariance,
            fit_intercept=fit_intercept,
        )
        if has_rows and gain < 0:
            warn_of_weak_effects(has_delta=not is_pure)
        scores = self._measure_scores(coefficients, limit, source)
        inference = None
        if products.is_supported:
            of_rows = replace(products, penalties=0.0, constraints=())
            expected = row_variance * of_rows.matrix
            squares = scores.shrink_toward(expected).sums * limit**2
            squares *= n_rows / max(n_rows - self.n_inputs, 1.0)
            sampling = self.rows.widening * inverse @ squares @ inverse
            inference = Inference(estimate, covariance, sampling)
        return RidgeFit(coefficients, inference, products, excluded, n_rows)

    def _measure_products(
        self, penalties: Floats, axes: Floats, source: ByteSource
    ) -> tuple[NoisyProducts, float]:
        """Measure the sums of products of columns; also return the noisy sum of the weights of the rows.

        `penalties`, (n_columns,), are for the columns before these were multiplied by `axes`.
        """
        noise = self.product_noise(PARTS.products)
        products = self.rows.measure_products(self.rows.factors, noise, source)
        sums = products.sums
        # A larger penalty would exceed the precision of floats.
        largest = max(float(np.diag(sums).max()), products.error)
        penalties = np.minimum(penalties, 2.0**30 * largest)
        penalties = append_constant(axes.T * penalties @ axes, 0.0)
        n_rows = max(float(sums[-1, -1]) * (UNIT / self.rows.constant) ** 2, 1.0)
        return replace(products, penalties=penalties), n_rows

    def _find_residuals(self, coefficients: Floats) -> Floats:
        """Return the residuals of all shortened rows, (n_rows,), each of which depends on one row only."""
        residuals = np.empty(len(self.target))
        for block, _, products in self.rows.predict(coefficients[:, np.newaxis]):
            np.subtract(self.target[block], products[:, 0], out=residuals[block])
        residuals *= self.rows.factors
        return residuals

    def _measure_gradient(
        self, residuals: Floats, limit: float, noise: Noise, source: ByteSource
    ) -> Floats:
        """Measure the sum of the products of rows and residuals clipped at a limit, in units of the columns.

        `residuals` are the result of `_find_residuals`. The result has the shape (n_columns + 1,), with the constant
        last.
        """
        weighted = clip_residuals(residuals, limit)
        weighted *= self.rows.factors
        blocks = (
            (values, weighted[block, np.newaxis])
            for block, values in self.rows.rows.blocks()
        )
        exact = self.rows.sum_gradients(blocks, 1)
        noisy = noise.add_floats(source, exact[:, 0])
        return noisy * (limit / UNIT**2)

    def _choose_limit(
        self,
        residuals: Floats,
        part: int,
        gradient_noise: Noise,
        n_rows: float,
        source: ByteSource,
    ) -> tuple[float, float]:
        """Choose a limit of residuals by noisy numbers of rows by size, see `choose_residual_limit`.

        Return the limit, and the mean square of clipped residuals in squared limits. The numbers cost a part of
        `COUNT_STEPS`.
        """
        # Number of rows with gradients of the largest norm that add up to the norm of the noise.
        largest = math.sqrt(self.rows.square) * UNIT
        n_clipped = math.sqrt(self.n_inputs) * to_float(gradient_noise.std) / largest
        n_clipped = min(n_clipped, MAX_CLIPPED_RESIDUALS * n_rows)
        budget = self.budget * (PARTS.counts * part / sum(COUNT_STEPS))
        noise = Noise.from_budget(budget)
        counts = noise.add_floats(source, count_by_size(np.abs(residuals)))
        return choose_residual_limit(
            counts,
            to_float(noise.std),
            n_rows,
            n_clipped,
            is_gaussian=noise.is_gaussian,
        )

    def _measure_scores(
        self, coefficients: Floats, limit: float, source: ByteSource
    ) -> NoisyProducts:
        """Measure the sums over rows of products of gradients with clipped residuals, in units of the squared limit."""
        clipped = clip_residuals(self._find_residuals(coefficients), limit)
        factors = self.rows.factors * np.abs(clipped) / UNIT
        noise = self.product_noise(PARTS.scores)
        return self.rows.measure_products(factors, noise, source)


def clip_residuals(residuals: Floats, limit: float) -> Floats:
    """Clip residuals at a limit, and convert them to integers up to `UNIT`."""
    scaled: Floats = residuals * (UNIT / limit)
    np.clip(scaled, -UNIT, UNIT, out=scaled)
    return np.rint(scaled, out=scaled)


def warn_of_missing_delta() -> None:
    """Warn that the noise of pure privacy is large for the number of columns."""
    warn_user(
        "Without a delta, the noise is large for this number of columns, and "
        "predictions may be worse than a constant. Set a delta such as 1e-6, or use "
        "fewer columns",
        "guide/models#linear-regression",
    )


def weigh_rows(
    rows: Rows, weights: Floats, budget: PrivacyBudget, source: ByteSource
) -> tuple[WeightedRows, Units, PrivacyBudget]:
    """Weigh rows and, for a budget in mu, center, rotate and shorten them.

    The weights, (n_rows,), are from 0 to 1. Also return the units of the columns, and the remaining budget.
    """
    # Without a delta, noise is proportional to the largest value, and the norm of rows does
    # not matter.
    middle, axes = np.zeros(rows.n_columns), np.eye(rows.n_columns)
    square, constant, covariance = rows.usual_square, UNIT, axes / 16
    uncertainty, shortened = 0 * axes, 0.0
    if budget.kind == "epsilon":
        factors = rows.largest_factors
    else:
        white = whiten(rows, budget, source)
        rows, square, mean, axes, covariance, uncertainty, shortened = white
        middle, constant = mean / UNIT, max(math.isqrt(square) // 2, 1)
        budget = budget * WHITE_PARTS.model
        factors = rows.factors(square)
    # A longer row is multiplied by one factor together with its constant and its target, as
    # in weighted least squares. So a linear model of the rows is also a linear model of the
    # shortened rows.
    factors = factors * np.sqrt(weights)
    square += constant**2
    weighted = WeightedRows(
        rows, factors, constant, square, covariance, uncertainty, shortened
    )
    # With extremely narrow bounds, slopes exceed the largest float.
    with np.errstate(over="ignore"):
        origin = middle + rows.starts / rows.units
        units = Units(1 / rows.units, origin, axes, constant / UNIT)
    return weighted, units, budget


class _LinearRegression(OrderedScore, RegressorMixin, LinearModel):
    """Base class of linear models that are fitted by noisy Newton steps."""

    delta: float
    bounds: Bounds | None
    target_bounds: tuple[float, float] | Domain | None

    def _penalty(self) -> float:
        """Check and return the penalty of squared coefficients."""
        return 0.0

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        bounds = declare_indicators(
            self.bounds, names[:-1], fit_intercept=bool(self.fit_intercept)
        )
        return parse_all_ends(bounds, self.target_bounds, names)

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[RegressionRows]:
        """Check the parameters and the columns; `_release` divides the budget: epsilon, or the square of mu."""
        check_flag("fit_intercept", self.fit_intercept)
        penalty = self._penalty()
        rows, weights, max_weight = self._split_weights(rows)
        bounds = parse_bounds(bounds, rows.names)
        ends = self._declared_bounds(rows.names)[-1]
        *columns, target = to_float_columns(rows.table)
        exact = RegressionRows(
            columns, target, weights, bounds, bounds, ends, penalty / max_weight
        )
        name = Noise.joint(budget, UNIT, len(bounds)).name
        mechanism, is_pure = f"noisy Newton steps, {name}", budget.kind == "epsilon"
        losses = () if is_pure else (gaussian_loss(budget.mu_squared),)
        return Plan(exact, budget, mechanism=mechanism, losses=losses)

    def _release(self, plan: Plan[RegressionRows], source: ByteSource) -> None:
        """Fit ridge regression by noisy Newton steps, and convert its coefficients to the units of the columns."""
        exact = plan.exact
        # The origin is the middle of the limits. The constant compensates for the shift.
        low, high = exact.limits.T
        *starts, start = low + (high - low) / 2
        if not self.fit_intercept:
            start = 0.0
        on_grid = exact.round(np.array(starts))
        target, unit = exact.scale_target(start)
        rows, units, budget = weigh_rows(on_grid, exact.weights, plan.budget, source)
        with np.errstate(over="ignore"):
            penalties = exact.penalty / on_grid.units / on_grid.units
            slopes = unit / on_grid.units
        units = units._replace(slopes=slopes, target=unit, target_start=float(start))
        target_rows = TargetRows(rows, target, budget)
        coefficients, inference, products, excluded, n_rows = target_rows.fit(
            penalties, units, source, fit_intercept=self.fit_intercept
        )
        names = self.guarantee_.scope[: self.n_features_in_]
        reason = explain_constant_columns([names[column] for column in excluded])
        if inference is None:
            expected = target_rows.expect_support(n_rows)
            support = min(products.eigen[0][0], expected) / products.noise_norm
            reason = explain_dependence(products, units.axes, names, expected)
            if not reason:
                is_noise = products.sums[-1, -1] < 5 * products.square_error
                few = "rows" if is_noise else ""
                reason = explain_noise(support, MIN_SUPPORT, few=few)
                if budget.kind == "epsilon" and n_rows > 3 * products.error:
                    warn_of_missing_delta()
        self._set_coefficients(units, coefficients, inference, excluded, reason)

    def predict(self, X: TableLike) -> Floats:
        """Return the expected target of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`, without missing values.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted targets, which may be outside `target_bounds`. Values of X outside `bounds_` are clipped.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns, is not numeric, or contains a missing value.
        """
        return self._respond(X)


class DPLinearRegression(_LinearRegression):
    """Fit a linear regression by noisy Newton steps of least squares, with differential privacy for whole records.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`, far below one over the number of rows. 0 for pure privacy, whose
        noise grows with the square of the number of columns. A delta such as 1e-6 allows to center, rotate and scale
        the columns first, so that wide bounds and correlated columns hardly increase the noise. Prefer a delta with
        about three or more columns.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge. Values outside are clipped, in `fit`
        and in predictions. An end that is None, such as in (0, None), is found with up to a third of the budget; None
        alone finds all ends. If most values are in an eighth of the bounds, narrower ones are found, with up to a
        quarter of the budget.
    target_bounds : pair of float, or Domain, optional
        The smallest and largest value of the target, from public knowledge. `fit` clips values outside. An end that is
        None is found, and a scale between bounds that are far too wide.
    fit_intercept : bool, default=True
        If False, the intercept is 0.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it.
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
        The noisy coefficients, shrunk for predictions. `summary` contains the estimates without this bias, with
        standard errors and intervals.
    intercept_ : float
        The noisy constant.
    bounds_ : ndarray of shape (n_features + 1, 2)
        The bounds of the columns, to which `fit` and predictions clip values, and, last, of the target. Bounds that are
        found are four times as wide as the limits of most values.
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
    table is allowed. Not covered: an error reveals that a value is missing or infinite.

    A 40th of the budget is for noisy counts that show which bounds are far too wide. Limits in place of these and of
    open ends are found by a choice among public windows and by noisy counts (:doc:`/guarantees/statistics`). They are
    a center and a scale: rows beyond them get a smaller weight, which depends on the columns only, so coefficients of a
    linear relation remain unbiased. A target is not clipped to limits, but its residuals are.

    Values are integers on a grid between the bounds. Without delta, noise is proportional to the largest possible value
    of each sum. With a delta, 3/32 of mu**2 are spent on noisy counts of rows by norm and on the mean of the rows, at
    which they are then centered. A 32nd is spent on noisy counts of the values of each column by size, by which a
    column is scaled if its bounds are far from most of its values, and 3/32 on noisy sums of products, by which the
    columns are rotated and scaled to about equal variances, and on counts of the new rows by norm. Rows that exceed a
    norm R are multiplied by a factor that shortens them to R, together with their residual and constant. So they have
    smaller weights than in least squares, but only as many rows as change the sums by about as much as the noise: at
    most a fifth of the rows, and at most about 20 times the root of the number of columns, divided by mu. All rows of a
    rare level of a category are shortened only if there are fewer of them.

    The rest of the budget has three uses. 3/10 of it are for noisy sums of products of two columns, the second
    derivatives of the loss. 11/60 are for three noisy histograms of shortened residuals by size,
    which determine a limit of the residuals. The other parts are for four noisy sums of the products of rows and
    clipped residuals, and for sums of their squares. Each sum gives a Newton step, and the noise of these sums is
    proportional to the limit, not to `target_bounds`. The result is the mean of the last two steps, weighted by their
    precision. Noisy sums of products were proposed in [2]_. The components of the coefficients in the directions of the
    eigenvectors of the products are shrunk by their noise ([3]_), which matters for collinear columns and for few rows.

    Clipped residuals change the coefficients if they are not symmetric. The limit is an extrapolation of the histogram:
    the clipped parts of residuals of a heavy tail add up to about a quarter of the noise of a sum. A group of rows far
    from all others that the noise of the histogram hides, of up to about ``50 / epsilon`` rows, is clipped.

    With `sample_weight`, all sums are weighted by `sample_weight` / `max_weight`. Without an intercept, the
    coefficients of each step are those with an intercept of 0.

    `summary` computes intervals from the same noisy sums. The error due to the noise follows from the distribution of
    the noise of the sums, and the sampling error from the noisy products of squared residuals, so it is valid for
    unequal variances ([4]_). An interval requires that the smallest eigenvalue of the sums of products exceeds 2.5
    times the norm of their noise, so that the steps converge. `fit` warns if the noise exceeds the effects of the
    columns.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1), corollary 3.3.
    .. [2] Y.-X. Wang (2018). Revisiting differentially private linear regression: optimal and adaptive prediction and
       estimation in unbounded domain. UAI.
    .. [3] W. James, C. Stein (1961). Estimation with quadratic loss. Fourth Berkeley Symposium on Mathematical
       Statistics and Probability 1.
    .. [4] P. J. Huber (1967). The behavior of maximum likelihood estimates under nonstandard conditions. Fifth Berkeley
       Symposium on Mathematical Statistics and Probability 1.

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
    >>> model.summary()["std_error"].round(3).tolist()[1:]
    [0.007, 0.006]
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
        fit_intercept: bool = True,
        max_weight: float | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.fit_intercept = fit_intercept
        self.max_weight = max_weight
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state


class DPRidge(_LinearRegression):
    """Fit a ridge regression by noisy Newton steps, with differential privacy for whole records.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, as in `DPLinearRegression`.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`; 0 for pure privacy, as in `DPLinearRegression`.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds of the columns, from public knowledge, as in `DPLinearRegression`.
    target_bounds : pair of float, or Domain, optional
        The smallest and largest value of the target, from public knowledge, as in `DPLinearRegression`.
    alpha : float, default=1.0
        The penalty of squared coefficients in the units of the columns, as in
        scikit-learn's `Ridge`, finite and >= 0.
    fit_intercept : bool, default=True
        If False, the intercept is 0.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, as in `DPLinearRegression`.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The noisy coefficients, shrunk for predictions, as in `DPLinearRegression`. `summary` is for the coefficients of
        the population with the penalty `alpha`.
    intercept_ : float
        The noisy constant.
    bounds_ : ndarray of shape (n_features + 1, 2)
        The bounds of the columns, to which `fit` and predictions clip values, and, last, of the target.
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
    rows is protected, too. The penalty is post-processing. Not covered: an error reveals that a value is missing or
    infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5_000, 2))
    >>> y = X @ [2.0, -1.0] + rng.normal(size=5_000)
    >>> for alpha in (0, 1_000):
    ...     model = DPRidge(
    ...         1.0, alpha=alpha, delta=1e-6, bounds=(-1, 1), target_bounds=(-6, 6), random_state=2
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
        fit_intercept: bool = True,
        max_weight: float | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_weight = max_weight
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
