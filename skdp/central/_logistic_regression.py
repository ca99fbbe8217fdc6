"""Logistic regression whose coefficients are private, by noisy gradient descent on rows of integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skdp.base import Bounds, check_choice, parse_bounds, to_float_columns
from skdp.central._base import RECORD, TARGET, Plan, check_column_names
from skdp.central._linear_model import LinearModel, Placement
from skdp.central._rows import (
    UNIT,
    Rows,
    find_limits,
    in_units,
    largest_moments,
    noisy_products,
    widths,
)
from skdp.central._supervised import Classes, LogitClassifier
from skdp.central.statistics import Batches, Floats, Noise, to_float
from skdp.domain import Domain
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho
from skdp.randomness import ByteSource

# Residual of a prediction of the wrong class with probability 1.
CERTAIN = 1 << 15

# Steps of a logit of 1.
FINE = 1 << 10

# Larger logits are cut: ``e**-16`` is less than a step of residuals, which hardly
# change any more.
MAX_LOGIT = 16

# Momentum and rate of the gradient steps, whose second derivative is at most 1 after scaling:
# no quadratic loss diverges below a rate of ``2 (1 + MOMENTUM)`` (B. T. Polyak, 1964).
# Larger ones overshoot, and after so many steps the model hardly changes
# (benchmarks/central_models.py).
MOMENTUM, RATE = 0.7, 1.5


# Rows are weighted such that no residuals are longer than at equal logits. The weight
# of a row is the same for all its classes, so the expected gradient at the true
# coefficients remains 0. It would not if long residuals were cut.


class BinaryLoss:
    """Weighted logistic loss of two classes, a function of one logit."""

    n_outputs = 1
    # The largest second derivative.
    curvature = 0.25
    # The square of the largest residual.
    square = (CERTAIN // 2) ** 2

    def __init__(self) -> None:
        steps = np.arange(-MAX_LOGIT * FINE, MAX_LOGIT * FINE + 1)
        probabilities = expit((steps + 0.5) / FINE)
        weights = 0.5 / np.maximum(probabilities, 1 - probabilities)
        by_class = np.stack([probabilities, probabilities - 1])
        self._residuals = np.rint(CERTAIN * weights * by_class)  # (2, n_steps)

    def residuals(self, logits: NDArray[np.int64], codes: NDArray[np.intp]) -> Floats:
        """Return the derivative of the loss of each row by its logit, in units of `CERTAIN`."""
        indices = logits + MAX_LOGIT * FINE
        indices += codes[:, np.newaxis] * self._residuals.shape[1]
        # A flat table takes half the time.
        return self._residuals.take(indices)


class SoftmaxLoss:
    """Weighted logistic loss of several classes, a function of as many logits."""

    # For two classes, `BinaryLoss` makes the same models in a tenth of the time.

    # The largest second derivative.
    curvature = 0.5

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes
        # The square of the norm of the residuals at equal logits.
        self.square = CERTAIN**2 * (n_classes - 1) // n_classes
        differences = np.arange(2 * MAX_LOGIT * FINE + 1)
        self._powers = np.rint(2.0**30 * np.exp(-differences / FINE)).astype(np.int64)

    def residuals(self, logits: NDArray[np.int64], codes: NDArray[np.intp]) -> Floats:
        """Return the derivatives of the loss of each row by its logits, in units of `CERTAIN`."""
        powers = self._powers[logits.max(axis=1, keepdims=True) - logits]
        # Probabilities, rounded down, of which the class of the row loses 1. The
        # residuals are longest if this class is the least probable.
        residuals = powers * CERTAIN // powers.sum(axis=1, keepdims=True)
        least = residuals.min(axis=1, keepdims=True)
        squares = (residuals**2).sum(axis=1, keepdims=True)
        largest_squares = squares + CERTAIN * (CERTAIN - 2 * least)
        residuals[np.arange(len(codes)), codes] -= CERTAIN
        return np.trunc(residuals * np.sqrt(self.square / largest_squares))


def gradient(
    rows: Rows, coefficients: Floats, loss: BinaryLoss | SoftmaxLoss
) -> NDArray[np.int64]:
    """Return the exact sum of the gradients of all rows, which one row changes by at most `largest_change`."""
    # Logits, too, are sums of integers: otherwise, the position of a row in a block would
    # show in its logit.
    largest = float(np.linalg.norm(coefficients)) * (math.isqrt(rows.square) + 1) + 1
    scale = 2.0 ** (50 - int(np.frexp(largest)[1]))
    weights = np.rint(coefficients * scale)
    total = np.zeros(coefficients.shape, np.int64)
    for block, part in rows.blocks():
        logits = part @ weights[:-1] + rows.constant * weights[-1]
        logits *= FINE / UNIT / scale
        np.floor(logits, out=logits)
        # np.clip takes several times as long on a block.
        np.maximum(logits, -MAX_LOGIT * FINE, out=logits)
        np.minimum(logits, MAX_LOGIT * FINE, out=logits)
        residuals = loss.residuals(logits.astype(np.int64), rows.codes[block])
        total[:-1] += (part.T @ residuals).astype(np.int64)
        total[-1] += rows.constant * residuals.sum(axis=0).astype(np.int64)
    return total


def largest_change(rows: Rows, loss: BinaryLoss | SoftmaxLoss) -> int:
    """Return the square of the largest norm of the gradient of one row."""
    return rows.square * loss.square


def inverse_moments(
    rows: Rows, n_rows: float, noise: Noise, source: ByteSource
) -> Floats:
    """Return the inverse of noisy sums of the products of all pairs of columns, and of the constant."""
    exact = rows.clipped_moments(rows.square, 0, with_target=False)[:-1, :-1]
    moments = noisy_products(exact, noise, source)
    values, vectors = np.linalg.eigh(moments)
    # Five times the norm of the noise, which is about twice the norm of one row. Half
    # or twice as much changes the log loss by less than 1 %.
    ridge = 10 * math.sqrt(len(values)) * in_units(noise.error)
    inverse = vectors / (np.maximum(values, 0) + ridge) @ vectors.T
    # Rows are measured from their mean, so that products with the constant add up to
    # nearly 0.
    of_constant = (rows.constant / UNIT) ** 2 * n_rows
    return np.asarray(block_diag(inverse, 1 / (of_constant + ridge)), np.float64)


def descend(
    rows: Rows,
    loss: BinaryLoss | SoftmaxLoss,
    noise: NDArray[np.object_],
    step: Floats,
) -> Floats:
    """Minimise the loss by noisy gradient descent; return the mean of the second half of the steps."""
    coefficients = velocity = mean = np.zeros(noise.shape[1:])
    averaged = range(len(noise) // 2, len(noise))
    for step_number, drawn in enumerate(noise):
        exact = gradient(rows, coefficients, loss)
        total = (exact.astype(object) + drawn).astype(float)
        velocity = MOMENTUM * velocity + step @ total / (UNIT * CERTAIN)
        coefficients = coefficients - velocity
        if step_number in averaged:
            mean = mean + coefficients / len(averaged)
    return mean


class LogisticFit(NamedTuple):
    """A logistic model of the columns: (n_outputs, n_columns) and (n_outputs,)."""

    coefficients: Floats
    intercepts: Floats
    n_steps: int


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Standardized public columns, computed without the target."""

    scaler: StandardScaler
    # Standardized columns, and a last column of ones: (n_rows, n_columns + 1).
    inputs: Floats
    # At most 1, and less for long rows: (n_rows,).
    weights: Floats

    @classmethod
    def read(cls, batches: Batches) -> PublicRows:
        """Read the rows of a table in memory."""
        columns = np.stack(to_float_columns(batches.table), axis=1)
        scaler = StandardScaler()
        with np.errstate(over="ignore", invalid="ignore"):
            columns = scaler.fit_transform(columns)
        if not np.isfinite(scaler.var_).all():
            raise ValueError(
                "X must have numbers whose squares are finite floats. Scale the columns"
            )
        inputs = np.hstack([columns, np.ones((len(columns), 1))])
        # The noise is proportional to the longest row, so longer rows than a quantile of
        # all lengths get a weight that makes them as long as it. On Adult, 0.1 to 0.5
        # give the same area; with 1, areas of nine tables at an epsilon of 0.1 fall by
        # up to 0.25 (benchmarks/central_models.py).
        lengths = np.linalg.norm(inputs, axis=1)
        weights = np.minimum(1.0, np.quantile(lengths, 0.25) / lengths)
        return cls(scaler, inputs, weights)

    def to_integers(self) -> tuple[NDArray[np.int64], float]:
        """Return the weighted inputs as integers, and their unit."""
        weighted = self.inputs * self.weights[:, np.newaxis]
        # Rounding changes a row by less than 2**-15 of the norm of the longest row.
        unit = float(np.linalg.norm(weighted, axis=1).max()) / (1 << 16)
        return np.rint(weighted / unit).astype(np.int64), unit

    def noise(self, share: PrivacyBudget, n_sums: int) -> Noise:
        """Return the noise of sums of inputs by class, of which a change of the class of a row changes `n_sums`."""
        # Sums of integers are exact in any order, so that a class changes them by its
        # own row alone. The longest row is public.
        inputs, _ = self.to_integers()
        square = int((inputs**2).sum(axis=1).max()) * n_sums
        return Noise("mu", share.mu_squared, share.rows**2 * square)

    def fit(
        self, indicators: NDArray[np.int64], noise: Noise, source: ByteSource
    ) -> LogisticFit:
        """Fit a logistic model to noisy sums of inputs over the rows of each class.

        Of two classes, there is one indicator, of the second class; of more, one for each.
        """
        # Integers of 64 bits hold the sums of 2**32 rows: (n_inputs, n_indicators).
        inputs, unit = self.to_integers()
        sums = unit * noise.add_floats(source, inputs.T @ indicators)
        totals = (self.weights @ self.inputs)[:, np.newaxis]
        if sums.shape[1] == 1:
            sums = np.hstack([totals - sums, sums])
        n_classes = sums.shape[1]
        # The classes together contain all rows, whose number is public, and noise must not exclude a class.
        sums += (totals - sums.sum(axis=1, keepdims=True)) / n_classes
        n_rows = totals[-1, 0]
        counts = np.clip(sums[-1], 0.5, n_rows - 0.5)
        sums[-1] = counts * n_rows / counts.sum()

        # The loss depends on the classes through these sums alone. So fractional classes
        # of rows, which may be negative, with the same sums have the same model.
        weighted = self.inputs * self.weights[:, np.newaxis]
        excess = np.linalg.lstsq(weighted.T @ self.inputs, sums - totals / n_classes)[0]
        fractions = 1 / n_classes + self.inputs @ excess  # (n_rows, n_classes)
        class_weights = fractions * self.weights[:, np.newaxis]
        # The penalty is the norm of the noise, as long as it is not lost in rounding.
        n_columns = len(sums) - 1
        penalty = np.sqrt(n_columns) * unit * to_float(noise.error)
        model = LogisticRegression(C=1 / (penalty + 2.0**-20 * n_rows), max_iter=1_000)
        model.fit(
            np.tile(self.inputs[:, :-1], (n_classes, 1)),
            np.repeat(np.arange(n_classes), len(self.inputs)),
            sample_weight=class_weights.T.ravel(),
        )
        slopes = model.coef_ / self.scaler.scale_
        intercepts = model.intercept_ - slopes @ self.scaler.mean_
        return LogisticFit(slopes, intercepts, int(model.n_iter_[0]))


class DescentPlan(NamedTuple):
    """Checked inputs before the charge."""

    placement: Placement
    classes: Classes
    share: PrivacyBudget


class DPLogisticRegression(LogitClassifier, LinearModel):
    """Fit a logistic regression by gradient descent with noise, private for the whole record.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, optional
        Failure probability for a numeric `epsilon`, in (0, 1); None for 1e-6. It should
        be far below one over the number of rows.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge. `fit` clips values
        outside. A column is measured from the position between its bounds that is nearest to 0, and scaled by the end
        that is farther from there: bounds of (0, 1) leave indicators as they are.
    classes : list, optional
        The classes that the target may have, from public knowledge. None reads them from the target, with a
        `PrivacyLeakWarning`.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. With ``groups``,
        `fit` drops further rows at random; otherwise the number is not checked.
    protect : {"record", "target"}, default="record"
        ``"record"`` protects whole records. ``"target"`` protects the values of the
        target: all columns of X and the number of rows are public, `bounds` are not
        used, and nothing is clipped.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The noisy coefficients of the columns in their original units; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The noisy constants.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    domain_ : Domain
        The target and its classes.
    n_iter_ : int
        The number of gradient steps; with a private target alone, the number of Newton steps, which read only released
        sums.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds of the columns. Not set with ``protect="target"``.
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
    table is allowed. Not covered: an error reveals that a value is missing, or that a class is not declared.

    An eighth of mu**2 is spent beforehand: on noisy numbers of rows by their norm, which choose a limit that about a
    twentieth of the rows exceed, and are shrunk to; on the mean of the rows, which is subtracted; and on the numbers of
    centered rows by their norm. They also choose the number of steps T and the divisor of the gradients. Each step then
    releases the sum of the gradients of all rows, one of which is the row x times its residual, with rounded Gaussian
    noise. Values of rows, logits and residuals are integers: a row changes the sum by exactly its own, and each step
    uses 1 / T of the rest of mu**2 ([2]_). Momentum compensates for the small rate; the second half of the steps is
    averaged ([3]_).

    Residuals of certain and wrong predictions are the longest, and noise is in proportion to them. So rows are weighted
    by their predictions: for two classes, a row whose more probable class has the probability q has the weight 1 / (2
    q), and its residual is at most 1/2, as at equal probabilities; of K classes, the residuals have a norm of at most
    sqrt(1 - 1 / K). All classes of a row have the same weight, so the model remains logistic, and the probabilities
    need no correction: they are estimated with half of the noise, and from certain rows with half of the information
    ([5]_). Where the model does not hold, it is closer at uncertain rows than maximum likelihood.

    A further eighth of mu**2 is spent on the sums of the products of two columns. Their inverse scales all steps
    ([4]_), so that 30 to 80 of them are enough.

    With ``protect="target"`` the guarantee is for replacing the values of the target in one record ("replace_values";
    label differential privacy): X, the number of rows and, with ``groups``, the persons are public, and a ledger must
    be for these values. The information of the columns about the target is not limited. The loss of a row is a public
    function of the coefficients minus the logit of its class, so only the sums of the rows of each class are private:
    they are released once, and the rest is post-processing. Columns are standardized, and rows have public weights in
    the loss: 1 for the quarter that is shortest, and less for longer ones, which are thereby as long as the longest of
    these. A target changes the sum of one class by its row, or the sums of two classes if there are more than two. A
    penalty of squared coefficients is as large as the norm of the noise.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1), corollary 3.3.
    .. [2] R. Bassily, A. Smith, A. Thakurta (2014). Private empirical risk minimization: efficient algorithms and tight
       error bounds. FOCS.
    .. [3] B. T. Polyak, A. B. Juditsky (1992). Acceleration of stochastic approximation by averaging. SIAM Journal on
       Control and Optimization 30(4).
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
    epsilon = 2, delta = 0.000001, rho = 0.100503, central model, replacing the values of target in one record, all
    other columns are public, NOT SECURE: ...
    """

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any]
    domain_: Domain
    _usual_delta = 1e-6

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float | None = None,
        bounds: Bounds | None = None,
        classes: list[Any] | None = None,
        max_rows_per_person: int = 1,
        protect: Literal["record", "target"] = "record",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.max_rows_per_person = max_rows_per_person
        self.protect = protect
        self.ledger = ledger
        self.random_state = random_state

    def _protects_target(self) -> bool:
        """Check `protect`, and return True if it is the target alone."""
        check_choice("protect", self.protect, (RECORD, TARGET))
        return self.protect == TARGET

    def _bounded(self, rows: Batches) -> Batches:
        if not self._protects_target():
            return rows.features
        check_column_names(self.bounds, rows.names[:-1])
        return rows.select(())

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        # Public columns need no bounds.
        return None if self._protects_target() else self.bounds

    def _plan(self, rows: Batches, share: PrivacyBudget, bounds: Any) -> Plan:
        if self._protects_target():
            return self._plan_target(rows, share)
        bounds = parse_bounds(bounds, rows.names[:-1])
        classes = Classes.read(rows, self.classes)
        # Columns are measured from the point of their bounds that is nearest to 0.
        # Measured from 0, large numbers would lose the differences between rows to
        # rounding.
        starts = np.clip(0.0, *bounds.T)
        codes = classes.codes(rows.table.columns[-1])
        placed = Rows.of(to_float_columns(rows.features.table), bounds, starts, codes)
        placement = Placement(placed, starts, widths(bounds, starts))
        gaussian = replace(share, kind="mu", amount=share.mu_squared)
        exact = DescentPlan(placement, classes, gaussian)
        return Plan.of_gaussian(exact, share, "noisy gradient descent")

    def _plan_target(self, rows: Batches, share: PrivacyBudget) -> Plan:
        """Plan the release of a target whose rows are public."""
        public = PublicRows.read(rows.features)
        classes = Classes.read(rows, self.classes)
        codes = classes.codes(rows.target.table.columns[0])
        n_classes = len(classes.values)
        indicators = (codes[:, np.newaxis] == np.arange(n_classes)).astype(np.int64)
        if n_classes == 2:
            # Every row is in one of the two classes.
            noise = public.noise(share, 1)
            indicators = indicators[:, 1:]
        else:
            noise = public.noise(share, 2)
        return Plan(
            (public, indicators, classes),
            (noise,),
            f"noisy sums with the target, {noise.name}",
            protected=rows.names[-1:],
        )

    def _release_target(self, plan: Plan, source: ByteSource) -> None:
        public, indicators, classes = plan.exact
        fit = public.fit(indicators, plan.noises[0], source)
        self.coef_, self.intercept_ = fit.coefficients, fit.intercepts
        self.classes_, self.domain_ = classes.values, classes.domain
        self.n_iter_ = fit.n_steps

    def _release(self, plan: Plan, source: ByteSource) -> None:
        if plan.protected:
            return self._release_target(plan, source)
        exact: DescentPlan = plan.exact
        classes = exact.classes
        placed, starts, scales = exact.placement
        share = exact.share.of_a_row
        # Half and twice as many shrunk rows change results by less than their noise.
        limits = find_limits(placed, share, 0.05, source)
        constant = math.isqrt(limits.square) // 2
        rows = limits.rows.clip(limits.square).with_constant(constant)
        n_classes = len(classes.values)
        loss = BinaryLoss() if n_classes == 2 else SoftmaxLoss(n_classes)

        # If the number of rows is too small, the steps are too long.
        n_rows = max(1.0, limits.n_rows + 2 * limits.error)
        square = largest_moments(limits.square, 2 * UNIT)
        of_moments = Noise("mu", share.mu_squared / 8, square)
        inverse = inverse_moments(rows, n_rows, of_moments, source)
        mu_squared = limits.rest.mu_squared - of_moments.amount
        # After that, noise adds more to the logits than a step improves them.
        wanted = math.sqrt(limits.rest.mu_squared) * limits.n_rows / 25
        n_steps = int(np.clip(wanted, 30, 80))

        gradients = Noise("mu", mu_squared / n_steps, largest_change(rows, loss))
        shape = n_steps, rows.n_columns + 1, loss.n_outputs
        drawn = gradients.draw(source, math.prod(shape)).reshape(shape)
        step = RATE / loss.curvature * inverse
        *slopes, of_constant = descend(rows, loss, drawn, step)
        self.coef_ = np.transpose(slopes) / scales
        of_middle = (constant * of_constant - limits.middle @ slopes) / UNIT
        self.intercept_ = of_middle - self.coef_ @ starts
        self.classes_, self.domain_ = classes.values, classes.domain
        self.n_iter_ = n_steps
