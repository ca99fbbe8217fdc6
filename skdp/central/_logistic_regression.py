"""Logistic regression by noisy Newton steps, or from noisy sums if only the target is private."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Floats
from skdp.base import (
    Bounds,
    check_choice,
    check_flag,
    parse_bounds,
    parse_ends,
    to_float_columns,
)
from skdp.central._base import RECORD, TARGET, Plan, check_declared_columns
from skdp.central._linear_model import (
    LinearModel,
    ModelRows,
    weigh_rows,
)
from skdp.central._rows import (
    PAIR_FACTOR,
    UNIT,
    WHITE_PARTS,
    WeightedRows,
    choose_limit,
    plan_product_noise,
    to_row_units,
)
from skdp.central._supervised import Classes, LogitClassifier, declare_indicators
from skdp.central._widths import ScaleSearch
from skdp.central.linear._losses import (
    MAX_CLIPPED_FRACTION,
    RESIDUAL_UNIT,
    BinaryLoss,
    Logits,
    SoftmaxLoss,
    bound_smaller,
    predict_information,
    tabulate_smaller,
    to_logits,
)
from skdp.central.linear._products import (
    MAX_QUANTILE,
    MIN_SUPPORT,
    Curvature,
    Inference,
    Linearization,
    NoisyProducts,
    Units,
    append_constant,
    exclude_constant_columns,
    explain_constant_columns,
    explain_dependence,
    explain_noise,
    find_change,
    find_contrasts,
    invert,
    move_sums,
    shrink_jointly,
    warn_of_weak_effects,
)
from skdp.central.linear._public_rows import PublicRows
from skdp.central.statistics import Batches, CategorySearch, Noise, to_float
from skdp.domain import Categories, Domain
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, Split
from skdp.randomness import ByteSource

# Fractions of the budget for sums of weights by class, and for measuring second derivatives
# before each of the first five steps. For two classes, the latter is a part of the information:
# if a step needs no measurement, or noise prevents it, the measurement for intervals spends it.
CLASSES_PART, EARLY = Fraction(1, 64), Fraction(1, 128)

# Smallest and largest fraction of the budget for second derivatives of two classes. With few rows,
# it is ``(MIN_INFORMATION_ROWS / mu / n)**2``. An indicator of a 20th of the rows, shortened to the norm R, has a
# second derivative of about ``n / 20 * R**2 / 5``, which is then 5 standard deviations of its noise.
INFORMATION, MAX_INFORMATION = Fraction(1, 8), Fraction(1, 2)
MIN_INFORMATION_ROWS = 160

# Norm of the noise of early second derivatives, divided by the median of their expected
# eigenvalues. At a quarter, coefficients at epsilon 1 have up to 3 times the error.
MAX_EARLY_NOISE = 0.1

# Parts of the budget of the gradients for each step, in twentieths.
GRADIENTS = (1, 1, 1, 2, 4, 11)

# Smallest part of the last gradient, which is reduced for further steps while the gradient of a third or later
# step exceeds the noise of one part: the distance from the minimum is then a larger error than the noise.
MIN_LAST_GRADIENT = 7

# Fractions of a step at which second derivatives are predicted.
FRACTIONS = (np.arange(16) + 0.5) / 16

# Largest effect of a standard deviation of a column with intervals. The effect of an
# indicator is twice as large, and steps toward an infinite one end at 6 or more.
MAX_EFFECT = 3.0

# Largest relative variance of second derivatives, in the direction of each coefficient, with
# which a further Newton step leads to the coefficients. With less precise second derivatives,
# the last noisy step has smaller errors.
MAX_CURVATURE = 0.01

# Number of rows whose second derivatives are clipped, at most, divided by the root of the number
# of sums and multiplied by mu: half of the rows that are shortened, so that those with an
# indicator keep their second derivatives.
MAX_CLIPPED_ROWS = 10


def divide_budget(n_classes: int, n_rows: float, budget: PrivacyBudget) -> Split:
    """Divide the budget into fractions for the gradients, and for intervals of two classes.

    These are for counts of rows by the size of their second derivatives, for sums of second derivatives, in steps of a
    64th, and for sums of squared gradients.
    """
    spent = {"white": 1 - WHITE_PARTS.model, "counts": CLASSES_PART}
    if n_classes > 2:
        return Split(rest="gradients", **spent, early=EARLY)
    wanted = (MIN_INFORMATION_ROWS / Fraction(max(n_rows, 1.0))) ** 2
    wanted *= Noise.gaussian(budget).scale
    wanted = min(max(wanted, INFORMATION), MAX_INFORMATION)
    return Split(
        rest="gradients",
        **spent,
        sizes=Fraction(1, 64),
        information=Fraction(round(64 * wanted), 64),
        scores=Fraction(1, 32),
    )


class Steps(NamedTuple):
    """Results of noisy Newton steps; arrays have the shape (n_columns + 1, n_outputs)."""

    # The mean of the coefficients before the last steps, the noisy gradient there, and its
    # standard error.
    mean: Floats
    gradient: Floats
    error: float
    # The second derivatives at the coefficients after the last step.
    curvature: Curvature
    # The fraction of the budget of `fit` that early second derivatives cost.
    spent: Fraction
    # A lower bound of twice the decrease of the loss from the start to the mean.
    gain: float
    # The number of noisy gradients.
    n_drawn: int


class Position(NamedTuple):
    """Coefficients during noisy Newton steps; arrays have the shape (n_columns + 1, n_outputs)."""

    # The coefficients, the noisy gradient, its standard error, and the second derivatives.
    mean: Floats
    gradient: Floats
    error: float
    curvature: Curvature
    # The next step.
    change: Floats

    @property
    def end(self) -> Floats:
        """The coefficients at the end of the step."""
        return self.mean + self.change

    def find_excess(self, drawn: Floats, error: float) -> float:
        """Return the slope of the loss at the end of a step that was too long, in slopes at its start; otherwise 0.

        `drawn`, with the standard error `error`, is the gradient at the end.
        """
        fall = -float((self.change * self.gradient).sum())
        increase = float((self.change * drawn).sum())
        increase -= 3 * error * float(np.linalg.norm(self.change))
        return increase / fall if increase > 0 and fall > 0 else 0.0


class Conclusion(NamedTuple):
    """Coefficients of two classes, and the reason why none has an interval; the text is empty if some have one."""

    inference: Inference
    # The second derivatives, and the columns that are constant, up to noise.
    information: NoisyProducts
    excluded: list[int]
    reason: str


class Descent:
    """Noisy Newton steps from start coefficients, of the shape (n_columns + 1, n_outputs), with the constant last."""

    loss: BinaryLoss | SoftmaxLoss

    def __init__(
        self,
        rows: WeightedRows,
        class_counts: Floats,
        units: Units,
        *,
        fit_intercept: bool,
    ) -> None:
        """Start at the noisy sums of weights of classes, (n_classes,), without effects of columns."""
        self.rows, self.units, self.fit_intercept = rows, units, fit_intercept
        self.constraints = units.find_constraints(fit_intercept=fit_intercept)
        self.constant = rows.constant / UNIT
        # The largest norm of a row.
        self.longest = math.sqrt(rows.square) / UNIT
        n_classes = len(class_counts)
        self.n_rows = float(class_counts.sum())
        self.loss = BinaryLoss() if n_classes == 2 else SoftmaxLoss(n_classes)
        self.start = np.zeros((rows.rows.n_columns + 1, self.loss.n_outputs))
        # Largest square of noise, in variances of one number.
        self.max_square = self.start.size + 4 * math.sqrt(self.start.size)
        if fit_intercept:
            # The logits of classes without columns; for two classes, of the second one.
            logits = np.log(class_counts)
            logits = (
                logits[1:] - logits[0] if n_classes == 2 else logits - logits.mean()
            )
            self.start[-1] = logits / self.constant

    def run(self, budget: PrivacyBudget, parts: Split, source: ByteSource) -> Steps:
        """Take noisy steps with the part of the budget of `fit` for gradients, and `EARLY` for second derivatives."""
        sums, zeros = self._predict_all(self.start), np.zeros_like(self.start)
        curvature = Curvature(self.start, sums, sums, self._predict_all)
        position = Position(self.start, zeros, math.inf, curvature, zeros)
        # The growth of logarithms of second derivatives by a step of length 1, beyond the prediction: the mean increase
        # of logits of the longest rows, in all directions.
        rate = self.longest / math.sqrt(2 * math.pi * len(self.start))
        left, spent, draws = list(GRADIENTS), Fraction(0), []
        while left:
            part = left.pop(0)
            of_gradient = budget * parts.gradients * Fraction(part, sum(GRADIENTS))
            drawn, noise, logits = self._measure_gradient(
                position.end, of_gradient, source
            )
            draws.append((drawn, noise))
            # Near the minimum, gradients are noise, and second derivatives suffice.
            is_far = bool(left) and (drawn**2).sum() > noise**2 * self.max_square
            if is_far and left[0] > part == 1 and left[-1] > MIN_LAST_GRADIENT:
                left.insert(0, part)
                left[-1] -= part
            excess = position.find_excess(drawn, noise)
            if left and excess > 0:
                rate = self._find_rate(position, rate, excess)
            else:
                curvature = self._update_curvature(position, drawn, noise)
                if is_far and (len(draws) == 1 or self.loss.n_outputs == 1):
                    measured = self._measure_early(
                        curvature, logits, budget * EARLY, source
                    )
                    spent += EARLY * (measured is not curvature)
                    curvature = measured
                position = self._accept_end(
                    position, curvature, drawn, noise, is_final=not left
                )
            position = self._shorten(position, rate)
        return self._conclude(position, draws, spent)

    def _update_curvature(
        self, position: Position, drawn: Floats, noise: float
    ) -> Curvature:
        """Move second derivatives to the end of a step; with several classes, learn them from its noisy gradient."""
        curvature = position.curvature
        if math.isfinite(position.error) and self.loss.n_outputs > 1:
            # Only the second derivatives at the start are measured.
            errors = math.hypot(noise, position.error)
            curvature = curvature.learn(
                position.change, drawn - position.gradient, errors
            )
        return curvature.move(position.end)

    def _accept_end(
        self,
        position: Position,
        curvature: Curvature,
        drawn: Floats,
        noise: float,
        *,
        is_final: bool,
    ) -> Position:
        """Go to the end of a step, where `curvature` is, and find the next step.

        The last two gradients are averaged if they differ by noise only.
        """
        mean, gradient, error = position.mean, position.gradient, position.error
        expected = gradient + position.curvature.change_gradient(position.change)
        square = float(((drawn - expected) ** 2).sum()) / (noise**2 + error**2)
        weight = 1.0
        if is_final and square < self.max_square:
            weight = 1 / (1 + (noise / error) ** 2)
        mean = mean + weight * position.change
        gradient = gradient + weight * (drawn - gradient)
        error = math.sqrt(weight) * noise
        curvature = curvature.move(mean)
        change = self._find_step(curvature, mean, gradient, error, is_final=is_final)
        return Position(mean, gradient, error, curvature, change)

    def _conclude(
        self, position: Position, draws: Sequence[tuple[Floats, float]], spent: Fraction
    ) -> Steps:
        """Return the results of steps; `draws` are the noisy gradients with their standard errors."""
        mean, gradient, error, curvature, _ = position
        first, first_error = draws[0]
        # By the trapezoidal rule, and minus the standard deviation of its noise.
        shift = self.start - mean
        gain = float((shift * (first + gradient)).sum())
        gain -= math.hypot(first_error, error) * float(np.linalg.norm(shift))
        curvature = curvature.move(position.end)
        return Steps(mean, gradient, error, curvature, spent, gain, len(draws))

    def _find_growth(self, position: Position, rates: Floats) -> Floats:
        """Predict second derivatives along a step, divided by those at its start; (n_rates, n_fractions)."""
        curvature, change = position.curvature, position.change
        along = []
        for fraction in FRACTIONS:
            sums = self._predict_all(curvature.coefficients + fraction * change)
            along.append(np.einsum("io,oij,jo->", change, sums, change))
        start = np.einsum("io,oij,jo->", change, curvature.expected, change)
        length = float(np.linalg.norm(change))
        growth: Floats = np.exp(np.outer(rates, length * FRACTIONS))
        return growth * np.array(along) / max(float(start), 2.0**-1000)

    def _shorten(self, position: Position, rate: float) -> Position:
        """Shorten a Newton step such that the predicted loss is smallest at its end."""
        (growth,) = self._find_growth(position, np.array([rate]))
        falls = np.append(0.0, np.cumsum(growth)) / len(growth)
        ends = np.linspace(0, 1, len(falls))
        change = position.change * float(np.interp(1.0, falls, ends))
        return position._replace(change=change)

    def _find_rate(self, position: Position, rate: float, excess: float) -> float:
        """Return the rate of growth, at least `rate`, with which a step has an `excess`, see `Position`."""
        # No logit changes by more than the length of a row times the length of the step, so a
        # second derivative does not grow faster than at this rate (F. Bach, 2010).
        rates = np.linspace(rate, max(self.longest, rate), 64)
        totals = self._find_growth(position, rates).mean(axis=1)
        return float(np.interp(1 + excess, totals, rates))

    def _measure_gradient(
        self, coefficients: Floats, budget: PrivacyBudget, source: ByteSource
    ) -> tuple[Floats, float, Logits]:
        """Return the noisy gradient, (n_columns + 1, n_outputs), at coefficients, its standard error, and logits."""
        rows, loss = self.rows, self.loss
        logits = np.empty((loss.n_outputs, len(rows.factors)), np.int16).T

        def weigh_residuals() -> Iterator[tuple[Floats, Floats]]:
            for block, values, products in rows.predict(coefficients):
                logits[block] = to_logits(products)
                residuals = loss.residuals(logits[block], rows.rows.codes[block])
                yield values, residuals * rows.factors[block, np.newaxis] ** 2

        noise = Noise.gaussian(budget, rows.square * loss.square)
        exact = rows.sum_gradients(weigh_residuals(), loss.n_outputs)
        unit = UNIT * RESIDUAL_UNIT
        # Rounding of values to integers causes errors of up to one step.
        error = to_float(max(noise.std, Fraction(1))) / unit
        return noise.add_floats(source, exact) / unit, error, logits

    def _find_step(
        self,
        curvature: Curvature,
        mean: Floats,
        gradient: Floats,
        error: float,
        *,
        is_final: bool,
    ) -> Floats:
        """Return a Newton step toward the minimum of the loss, shrunk toward the start in proportion to its noise.

        The arrays have the shape (n_columns + 1, n_outputs). `gradient` is the gradient at `mean`, with the standard
        error `error`.
        """
        products = [
            NoisyProducts(sums, 0.0, 0.0, constraints=self.constraints)
            for sums in curvature.sums
        ]
        changes = [one.inverse @ g for one, g in zip(products, gradient.T, strict=True)]
        shifts = mean - self.loss.rate * np.stack(changes, axis=1) - self.start
        shifts = shrink_jointly(products, shifts, error**2, is_final=is_final)
        return self.start + shifts - mean

    def _predict(self, coefficients: Floats) -> Floats:
        """Predict the second derivatives of normal columns, see `predict_information`."""
        return predict_information(coefficients, self.n_rows, self.rows.squares)

    def _predict_all(self, coefficients: Floats) -> Floats:
        """Predict the second derivatives of each logit from all coefficients, (n_columns + 1, n_outputs)."""
        log_odds = self.loss.find_log_odds(coefficients, self.constant)
        return np.stack([self._predict(logit) for logit in log_odds.T])

    def _measure_early(
        self,
        curvature: Curvature,
        logits: Logits,
        budget: PrivacyBudget,
        source: ByteSource,
    ) -> Curvature:
        """Measure second derivatives, shrunk toward expected ones; return `curvature` if the noise is too large.

        At the start, the second derivatives of all rows are equal up to weights. Elsewhere, there are two classes.
        """
        coefficients = curvature.coefficients
        # Second derivatives of each logit, divided by a quarter of the products of columns.
        units = 4 * curvature.sums[:, -1, -1] / (self.n_rows * self.constant**2)
        if self.loss.n_outputs == 1:
            units[0] = 2 * bound_smaller(coefficients[:, 0], self.rows.squares)
        noise = plan_product_noise(budget, self.rows.square)
        norm = math.sqrt(len(coefficients)) * to_row_units(noise.std) / 4 / PAIR_FACTOR
        scaled = curvature.expected / units[:, np.newaxis, np.newaxis]
        median = float(np.median(np.linalg.eigvalsh(scaled[0])))
        if norm > MAX_EARLY_NOISE * median:
            return curvature
        # In the direction of columns that depend on each other, a step would be the error of a
        # gradient, divided by the noise of a second derivative that is 0.
        smallest = max(1 / 20, MIN_SUPPORT * norm / median)
        factors = self.rows.factors
        if self.loss.n_outputs == 1:
            roots = np.sqrt(np.minimum(tabulate_smaller() / (units[0] / 2), 1.0))
            factors = factors * roots.take(np.abs(logits[:, 0]))
        measured = self.rows.measure_products(factors, noise, source, 1 / 4)
        sums = [
            measured.shrink_toward(one, smallest=smallest).sums * unit
            for one, unit in zip(scaled, units, strict=True)
        ]
        return replace(curvature, sums=np.stack(sums))

    def infer(
        self,
        steps: Steps,
        measured: tuple[NoisyProducts, NoisyProducts],
        names: Sequence[Any],
        min_class: float,
    ) -> Conclusion:
        """Infer the coefficients of two classes by noisy steps, and `measured` sums at their mean coefficients.

        `min_class` is the smallest number of rows of the smaller class.
        """
        information, scores = measured
        smallest = float(np.linalg.eigvalsh(self._predict(steps.mean[:, 0]))[0])
        choices = exclude_constant_columns(
            information,
            self.units,
            self._find_certainty(information),
            # Of a column with the variance of new columns.
            float(information.sums[-1, -1]) / self.constant**2 / 64,
            fit_intercept=self.fit_intercept,
        )
        # Without constant columns, or else with all columns.
        for reduced, excluded in (choices[-1], choices[0]):
            inference = self._infer(steps, reduced, scores)
            # Two thirds of the prediction, which does not include that rows are shortened.
            reason = explain_dependence(
                reduced, self.units.axes, names, smallest / 1.5, excluded
            )
            reason = reason or self._explain(inference, reduced, min_class, names)
            if not reason:
                break
        return Conclusion(inference, reduced, excluded, reason)

    def _find_certainty(self, information: NoisyProducts) -> Floats:
        """Return the certainty that columns vary, by their second derivatives and covariances, see `Linearization`."""
        contrasts = find_contrasts(
            information, self.units, fit_intercept=self.fit_intercept
        )
        added = append_constant(self.rows.uncertainty, 0.0)
        squares, noise = (
            np.einsum("ic,ij,jc->c", contrasts, each, contrasts)
            for each in (self.rows.squares, added)
        )
        excess = squares / np.maximum(noise, 2.0**-1000) - 1
        certainty = excess * math.sqrt(len(added) - 1) / 2
        certainty += information.find_certainty(contrasts) / math.sqrt(2)
        return np.asarray(certainty, float)

    def _infer(
        self, steps: Steps, information: NoisyProducts, scores: NoisyProducts
    ) -> Inference:
        """Infer coefficients within the constraints of second derivatives, with sums of products of gradients."""
        (mean,), (gradient,), error = steps.mean.T, steps.gradient.T, steps.error
        mean, constraints = information.project(mean), information.constraints
        expected = steps.curvature.move(steps.mean).sums[0]
        squares, added = self.rows.squares, append_constant(self.rows.uncertainty, 0)
        uncertainty = np.asarray(np.linalg.solve(squares, added).T, float)
        # A minimum of the eigenvalues would be certain. It is for expected second derivatives
        # only, which change with the coefficients: from the mean to the middle of the Newton
        # step, and to its end.
        shrunk = information.shrink_toward(expected, uncertainty, smallest=-math.inf)
        positive = information.shrink_toward(expected, uncertainty)
        scores = scores.shrink_toward(positive.sums)
        start = self._predict(mean)
        middle = self._predict(mean - positive.inverse @ gradient / 2)
        inverse = invert(move_sums(positive.sums, start, middle), constraints)
        end = self._predict(mean - inverse @ gradient)
        inverse = invert(move_sums(shrunk.sums, start, middle), constraints)
        step = -inverse @ gradient
        sampling = self.rows.widening * move_sums(scores.sums, start, end)
        inverse = invert(move_sums(shrunk.sums, start, end), constraints)
        # The error of the second derivatives changes with them, and is multiplied by the step.
        change = find_change(start, middle)
        moved = change.T @ step
        noise = change @ shrunk.find_covariance(moved, moved) @ change.T
        noise += error**2 * np.eye(len(mean))
        errors = (
            shrunk,
            information,
            inverse,
            step,
            change,
            self.longest,
            squares,
            added,
        )
        covariances = inverse @ noise @ inverse, inverse @ sampling @ inverse
        return Inference(mean + step, *covariances, Linearization(*errors))

    def measure(
        self, steps: Steps, budget: PrivacyBudget, parts: Split, source: ByteSource
    ) -> tuple[NoisyProducts, NoisyProducts]:
        """Measure sums of second derivatives, and of products of gradients, at the mean coefficients of steps."""
        rows = self.rows
        factors = np.empty(len(rows.factors))
        residuals = np.empty(len(factors), np.int16)
        # A second derivative is half of the smaller probability, and few are large.
        roots = np.sqrt(2 * tabulate_smaller())
        for block, _, products in rows.predict(steps.mean):
            logits = to_logits(products)
            factors[block] = roots.take(np.abs(logits[:, 0])) * rows.factors[block]
            residuals[block] = self.loss.residuals(logits, rows.rows.codes[block])[:, 0]
        squares, constant = rows.rows.squares, rows.constant**2
        count_noise = Noise.gaussian(budget * parts.sizes)
        norms = factors**2 * (squares + constant)
        # Less two standard deviations of the noisy count, so that with few rows, noise does
        # not allow more clipped rows.
        n_clipped = MAX_CLIPPED_FRACTION * self.n_rows - 2 * to_float(count_noise.std)
        variance = len(steps.mean) * Noise.gaussian(budget).scale
        max_longer = min(MAX_CLIPPED_ROWS * math.sqrt(variance), n_clipped)
        square, *_ = choose_limit(
            norms, rows.square, count_noise, source, max_longer=max_longer
        )
        largest = np.sqrt(square / (squares + constant)) * (1 - 2.0**-40)
        factors = np.minimum(factors, largest)
        noise = plan_product_noise(budget * (parts.information - steps.spent), square)
        information = rows.measure_products(factors, noise, source, 1 / 4)
        factors = rows.factors**2 * np.abs(residuals) / (RESIDUAL_UNIT // 2)
        noise = plan_product_noise(budget * parts.scores, rows.square)
        return information, rows.measure_products(factors, noise, source, 1 / 4)

    def _explain(
        self,
        inference: Inference,
        information: NoisyProducts,
        min_class: float,
        names: Sequence[Any],
    ) -> str:
        """Explain why no coefficient has an interval; return an empty text if their variances decide which have one."""
        axes = self.units.axes
        if min_class <= 0:
            return explain_noise(0.0, 1.0, few="rows of the rarer class")
        # The sum of the smaller probabilities of the rows, at most, up to noise.
        n_uncertain = float(information.sums[-1, -1]) + 2 * information.square_error
        n_uncertain *= 2 / self.constant**2
        is_separated = n_uncertain < min_class / 5
        # Effects of the columns on logits, in standard deviations.
        to_columns = np.linalg.inv(axes)
        variances = np.diag(to_columns.T @ self.rows.covariance @ to_columns)
        deviations = np.sqrt(variances)
        effects = np.abs(axes @ inference.coefficients[:-1]) * deviations
        largest = int(np.argmax(effects))
        contrast = np.append(axes[largest], 0.0)
        noise, _, _, curvature = inference.find_variances(contrast)
        # If its noise may be infinite, the interval of the largest effect is not bounded.
        is_known = MAX_QUANTILE**2 * curvature < 1
        has_large_effect = is_known and effects[largest] > MAX_EFFECT
        if has_large_effect:
            is_separated = effects[largest] > 2 * deviations[largest] * math.sqrt(noise)
        if is_separated and (has_large_effect or not is_known):
            column = names[largest]
            return (
                f"Column {column!r} and the other columns separate the classes of rows, "
                "up to noise: their predicted probabilities are 0 or 1, so the "
                "coefficients have no intervals. Drop a column that determines the class, "
                "or merge its values"
            )
        # Second derivatives at a coefficient that is noise are noise, too.
        return explain_noise(0.0, 1.0) if has_large_effect else ""


@dataclass(frozen=True, eq=False)
class ClassRows(ModelRows):
    """Rows with classes."""

    classes: Classes


class DPLogisticRegression(LogitClassifier, LinearModel):
    """Fit a logistic regression by noisy Newton steps, with differential privacy for whole records.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=1e-6
        Failure probability for a numeric `epsilon`, in (0, 1), far below one over the number of rows. An
        `epsilon` that includes a delta replaces it.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge. Values outside are clipped, in `fit`
        and in predictions. An end that is None, such as in (0, None), is found with up to a third of the budget; None
        alone finds all ends (:doc:`/guarantees/statistics`). If most values of many rows are in an eighth of the
        bounds, a scale is found, with up to a quarter of the budget. A Domain may declare the columns before
        `DPOneHotEncoder`. Bounds of (0, 1) leave indicators unchanged.
    classes : list or Categories, optional
        The classes that the target may have, from public knowledge; False and True for a boolean dtype. None finds
        them with a `delta` and a fifth of the budget, which categories share: texts, whole numbers and booleans of many
        rows. Rows of other classes are then excluded, or count as the first class with ``protect="target"``.
    protect : {"record", "target"}, default="record"
        ``"record"`` protects whole records. ``"target"`` protects the values of the
        target: all columns of X and the number of rows are public, `bounds` are not
        used, and nothing is clipped.
    fit_intercept : bool, default=True
        If False, the intercept is 0.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it. With
        ``protect="target"``, weights are public, too.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The noisy coefficients of the columns in their original units, shrunk for predictions; one row for two classes.
        `summary` contains the estimates without this bias, with standard errors and intervals.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The noisy constants.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; "(other)" if none was found. With one class, all rows get this prediction.
    domain_ : Domain
        The target and its classes.
    n_iter_ : int
        The number of noisy gradients; with a private target alone, of iterations that read only released sums.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds of the columns, to which `fit` and predictions clip values. Bounds that are found are four times as
        wide as the limits of most values. Not set with ``protect="target"``.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, for the columns of X and the target, or for the target alone.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : Without privacy.
    DPStandardScaler : Columns of unknown scale.
    DPMarginalSynthesizer : Synthetic rows, for any model.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most (epsilon, delta); the guarantee is mu-Gaussian
    differential privacy ([1]_), also stated as rho = mu**2 / 2. Predictions are post-processing and use no budget, but
    a prediction for a row of the table is computed from this row. The number of rows is protected too, and an empty
    table is allowed. A class that only one person has is found with a probability of at most delta
    (:doc:`/guarantees/statistics`). Not covered: an error reveals that a value is missing or infinite, or that a class
    is not declared.

    A 40th of the budget is used for noisy counts of the values of each column between its bounds, except (0, 1). Where
    they show that the bounds are far too wide, or where ends are open, a scale is found with a further part. Of the
    rest, 3/32 of mu**2 are used for noisy counts of rows by norm, and for a noisy mean of the rows, at which they are
    centered. A 32nd is used for noisy counts of the values of each column by size, by which a column is scaled if its
    bounds are far from most of its values, and 3/32 for noisy sums of the products of two columns, by which the columns
    are rotated and scaled to about equal variances ([4]_), and for counts of the new rows by norm. Rows that exceed a
    norm are multiplied by a factor that shortens them to it, as in `DPLinearRegression`, and have the square of this
    factor as their weight. These are only as many rows as change the sums by about as much as the noise: at most a
    fifth, and at most about 20 times the root of the number of columns, divided by mu.

    A 64th of mu**2 is for the weights of rows by class, from which the start follows, so that a rare class is predicted
    from the first step. Each of six to ten steps releases the sum of the gradients of all rows with rounded Gaussian
    noise ([2]_); the gradient of a row is the row times its residual and its weight. Values of rows, logits and
    residuals are integers, so a row changes the sum by exactly its own gradient. The second derivatives of these steps
    are predicted from the coefficients, for normal columns. If the noise is small enough, noisy second derivatives
    correct the prediction: before each step but the last, or before the first one for more than two classes, for a
    128th of mu**2 each. A step ends where the loss is smallest if second derivatives grow as predicted along it, and by
    the change of the logits of long rows; for more than two classes, differences of noisy gradients determine second
    derivatives, too. If the loss increases at its end, by the noisy gradient there, the step is
    repeated from its start with a larger growth. While a gradient exceeds its noise by far, up to four further steps
    use a part of the budget of the last one. The last two gradients, which have up to three quarters of the budget of
    the gradients, are averaged if they differ by noise only.

    Confident wrong predictions have the largest residuals, and the noise is proportional to the largest possible
    residual. Rows are therefore weighted by their predictions. For two classes, if the more probable class of a row
    has probability q, the row has the weight 1 / (2 q) and its residual is at most 1/2, as at equal probabilities. For
    K classes, the residuals have a norm of at most sqrt(1 - 1 / K). All classes of a row have the same weight, so the
    model remains logistic, and the probabilities need no correction. Compared with equal weights, the noise is half as
    large, and rows with confident predictions contribute half of the information ([5]_). If the model is misspecified,
    it fits rows with uncertain predictions better than maximum likelihood does.

    For two classes, 11/64 of mu**2, or up to 35/64 with few rows, are used for noisy sums of second derivatives,
    including those before steps, and of squared gradients. `summary` computes intervals from these sums and the noisy
    gradients ([3]_): those values of a coefficient that the noisy gradient and the noisy second derivatives do not
    exclude. A coefficient has no interval if the second derivative in its direction may be noise. `coef_` is shrunk in
    proportion to the noise. `fit` warns if the noise exceeds the effects of the columns.

    With ``protect="target"``, the guarantee is for replacing the values of the target in one record ("replace_values";
    label differential privacy): X, the number of rows and, with ``person``, the people are public, and a ledger must
    be for these values. The guarantee does not limit inference about the target from the columns. The loss of a row is
    a public function of the coefficients minus the logit of its class, so only the sums of the rows of each class are
    private: they are released once, and the rest is post-processing. Columns are standardized, and rows have public
    weights in the loss. The quarter of the rows with the smallest norms has the weight 1. Longer rows have smaller
    weights, which reduce their norms to the largest norm in this quarter. Replacing a target changes the sum of one
    class by its row, or the sums of two classes if there are more than two. The penalty of the squared coefficients is
    the norm of the noise. `summary` removes its bias by a Newton step.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1), corollary 3.3.
    .. [2] R. Bassily, A. Smith, A. Thakurta (2014). Private empirical risk minimization: efficient algorithms and tight
       error bounds. FOCS.
    .. [3] P. J. Huber (1967). The behavior of maximum likelihood estimates under nonstandard conditions. Fifth Berkeley
       Symposium on Mathematical Statistics and Probability 1.
    .. [4] A. Ganesh, M. Haghifam, T. Steinke, A. Thakurta (2023). Faster differentially private convex optimization via
       second-order methods. NeurIPS.
    .. [5] H. R. Künsch, L. A. Stefanski, R. J. Carroll (1989). Conditionally unbiased bounded-influence estimation in
       general regression models. Journal of the American Statistical Association 84(406).

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture", "mean concavity"]]
    >>> bounds = {"mean radius": (0, 30), "mean texture": (0, 40), "mean concavity": (0, 0.5)}
    >>> model = DPLogisticRegression(epsilon=2.0, bounds=bounds, classes=[0, 1], random_state=0).fit(X, y)
    >>> round(model.score(X, y), 1)
    0.9
    >>> print(model.guarantee_)
    epsilon = 2, delta = 0.000001, rho = 0.100503, central model, adding or removing one record's values of: mean
    radius, mean texture, mean concavity, target, NOT SECURE: ...

    Where the columns are public:

    >>> model = DPLogisticRegression(epsilon=2.0, protect="target", classes=[0, 1], random_state=0).fit(X, y)
    >>> round(model.score(X, y), 1)
    0.9
    >>> print(model.guarantee_)
    epsilon = 2, delta = 0.000001, rho = 0.100503, central model, replacing the values of target in one record, no
    other column is protected, NOT SECURE: ...
    """

    coef_: Floats
    intercept_: Floats
    classes_: NDArray[Any]
    domain_: Domain
    _default_delta = 1e-6

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 1e-6,
        bounds: Bounds | None = None,
        classes: list[Any] | Categories | None = None,
        protect: Literal["record", "target"] = "record",
        fit_intercept: bool = True,
        max_weight: float | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.protect = protect
        self.fit_intercept = fit_intercept
        self.max_weight = max_weight
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _name_terms(self) -> str:
        first, *others = self.classes_.tolist()
        against = f"against {first!r}"
        return " ".join(["log odds", *(f"of {one!r}" for one in others), against])

    def _protects_target(self) -> bool:
        """Check `protect`, and return True if it is the target alone."""
        check_choice("protect", self.protect, (RECORD, TARGET))
        return self.protect == TARGET

    def _select_bounded(self, rows: Batches) -> Batches:
        """Select the columns with declared bounds: all features, or none if only the target is private."""
        rows = super()._select_bounded(rows).features
        if not self._protects_target():
            return rows
        check_declared_columns(self.bounds, rows.names)
        return rows.select(())

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        # Public columns need no bounds.
        if self._protects_target():
            return None
        bounds = declare_indicators(
            self.bounds, names, fit_intercept=bool(self.fit_intercept)
        )
        return parse_ends(bounds, names)

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[ClassRows | PublicRows]:
        """Check the parameters, the columns and the classes.

        The noises of the steps depend on noisy limits, so `_release` chooses them.
        """
        check_flag("fit_intercept", self.fit_intercept)
        rows, weights, _ = self._split_weights(rows)
        if self._protects_target():
            return self._plan_target(rows, weights, budget)
        bounds = parse_bounds(bounds, rows.names[:-1])
        classes = Classes(rows, self.classes)
        columns = to_float_columns(rows.features.table)
        exact = ClassRows(columns, classes.codes, weights, bounds, bounds, classes)
        return Plan.from_gaussian(exact, budget, "noisy Newton steps")

    def _plan_target(
        self, rows: Batches, weights: Floats, budget: PrivacyBudget
    ) -> Plan[PublicRows]:
        """Plan the release of a private target of public rows, by noisy sums of the columns over each class."""
        if not len(weights):
            raise ValueError(
                "X must have at least one row with protect='target', got 0."
            )
        if not weights.any():
            raise ValueError(
                "`sample_weight` must have a weight > 0 with protect='target', got none."
            )
        # Tiny weights would have variances of 0.
        weights = weights / weights.max()
        classes = Classes(rows, self.classes)
        public = PublicRows(rows, weights, classes, fit_intercept=self.fit_intercept)
        noise = public.noise(budget)
        name, target = f"noisy sums with the target, {noise.name}", rows.names[-1:]
        return Plan(public, budget, (noise,), name, protected_columns=target)

    def _replan(
        self,
        plan: Plan[Any],
        rows: Batches,
        search: ScaleSearch | CategorySearch,
        bounds: Floats,
    ) -> Plan[Any]:
        if rows.found:  # classes
            plan = self._plan(rows, search.rest, bounds)
        if isinstance(search, CategorySearch):
            return plan
        return super()._replan(plan, rows, search, bounds)

    def _release_target(
        self, public: PublicRows, noise: Noise, source: ByteSource
    ) -> None:
        """Add noise to the sums of the columns over each class, and fit a model to them."""
        coefficients, self.n_iter_, inference = public.fit(noise, source)
        scales = public.scaler.scale_
        means = public.fit_intercept * public.scaler.mean_ / scales
        units = Units(1 / scales, means, np.eye(len(scales)))
        excluded, names = public.constant_columns, self._name_columns()
        reason = explain_constant_columns([names[column] for column in excluded])
        self._set_coefficients(units, coefficients, inference, excluded, reason)

    def _release(self, plan: Plan[ClassRows | PublicRows], source: ByteSource) -> None:
        """Limit the norm of rows, fit coefficients by noisy Newton steps, and convert them to original units."""
        exact = plan.exact
        self.classes_, self.domain_ = exact.classes.values, exact.classes.domain
        if isinstance(exact, PublicRows):
            return self._release_target(exact, plan.noises[0], source)
        # The origin of a column is the point between its limits that is nearest to 0. With
        # the origin 0, differences between large numbers would be lost by rounding.
        on_grid = exact.round(np.clip(0.0, *exact.limits.T))
        # All parts are fractions of this budget, including the part that `weigh_rows` spends.
        budget = plan.budget
        rows, units, _ = weigh_rows(on_grid, exact.weights, budget, source)
        n_classes = exact.classes.n_fitted
        noise = Noise.gaussian(budget * CLASSES_PART, UNIT**2)
        counts = noise.add_floats(source, rows.count_classes(n_classes)) / UNIT
        min_count = 2 * to_float(noise.std) / UNIT
        counts = np.maximum(counts, min_count)
        descent = Descent(rows, counts, units, fit_intercept=self.fit_intercept)
        parts = divide_budget(n_classes, descent.n_rows, budget)
        steps = descent.run(budget, parts, source)
        coefficients = steps.curvature.coefficients
        inference: Inference | None = None
        excluded: list[int] = []
        reason = ""
        if n_classes == 2:
            names = self.guarantee_.scope[: self.n_features_in_]
            measured = descent.measure(steps, budget, parts, source)
            min_class = float(counts.min()) - min_count
            inference, information, excluded, reason = descent.infer(
                steps, measured, names, min_class
            )
            terms = np.delete(units.to_terms, excluded, axis=0)
            curvatures = [inference.find_variances(row)[-1] for row in terms]
            if not reason and max(curvatures) < MAX_CURVATURE:
                shift = inference.coefficients[:, np.newaxis] - descent.start
                coefficients = descent.start + shrink_jointly(
                    [information], shift, steps.error**2
                )
            coefficients = information.project(coefficients)
            if reason:
                inference = None
            reason = reason or explain_constant_columns(
                [names[column] for column in excluded]
            )
            if steps.gain <= 0:
                warn_of_weak_effects()
        self._set_coefficients(units, coefficients, inference, excluded, reason)
        self.n_iter_ = steps.n_drawn
