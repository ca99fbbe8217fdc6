"""Noisy sums of products of columns, coefficients that are shrunk by their noise, and inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skdp._arrays import Floats
from skdp.base import NORMAL
from skdp.central.statistics import warn_user

# Smallest eigenvalue of the sums of products, in norms of the noise, in Newton steps and for
# intervals. The spectral norm of the noise is about 2 norms, so a true eigenvalue exceeds
# this one at most ``1 + 2 / MIN_SUPPORT`` times: less than twice, so that steps converge.
MIN_SUPPORT = 2.5

# Variance of expected second derivatives, relative to the true ones. At 0.01, 0.91 of the
# intervals of 24 real tables cover the coefficients, at 0.05 and 0.15, 0.93 and 0.94.
EXPECTED_VARIANCE = 0.1

# The same for the products of two columns, which are 0 if the columns are independent.
EXPECTED_PAIR_VARIANCE = 0.01

# Smallest expected eigenvalue, in norms of the noise, below which a column is not constant but unknown.
MIN_EXPECTED = 8

# Quantile of the lowest level of intervals that are given: 0.95.
MAX_QUANTILE = NORMAL.quantile(0.95)

# Smallest certainty of a second derivative, in standard deviations: a column that is 0 up to
# noise has an interval, which is a ratio of noise and hence wrong, in 1 of 200 fits.
MIN_CERTAINTY = NORMAL.quantile(0.99)


def append_constant(matrix: Floats, number: float) -> Floats:
    """Append a row and a column of zeros to a matrix of pairs of columns, and a number for the constant."""
    size = len(matrix)
    appended = np.zeros((size + 1, size + 1))
    appended[:size, :size], appended[size, size] = matrix, number
    return appended


def find_complement(constraints: Floats | tuple[()], size: int) -> Floats:
    """Return an orthonormal basis of the coefficients with ``constraints @ coefficients == 0``, as columns."""
    rows = np.reshape(constraints, (-1, size))
    basis = np.linalg.qr(rows.T, mode="complete")[0]
    return np.asarray(basis[:, len(rows) :], float)


def invert(matrix: Floats, constraints: Floats | tuple[()]) -> Floats:
    """Invert the second derivatives of a loss, for Newton steps that do not change ``constraints @ coefficients``."""
    basis = find_complement(constraints, len(matrix))
    inverse: Floats = basis @ np.linalg.inv(basis.T @ matrix @ basis) @ basis.T
    return inverse


@dataclass(frozen=True, eq=False)
class NoisyProducts:
    """Noisy sums over rows of the products of columns and a constant, which is last, in units of the columns."""

    # Shape (n_columns + 1, n_columns + 1).
    sums: Floats
    # Standard deviations of the noise of a sum of products of two columns, and of squares.
    error: float
    square_error: float
    # Penalties of pairs of coefficients, of the shape of `sums`.
    penalties: Floats | float = 0.0
    # Combinations of the coefficients that remain 0, (n_constraints, n_columns + 1): the intercept, in a model without
    # it, and coefficients of columns that do not vary.
    constraints: Floats | tuple[()] = ()
    # Orthogonal directions, as columns, and the variances of the errors of shrunk sums in
    # pairs of them; both have the shape of `sums`.
    directions: Floats | None = None
    variances: Floats | float = 0.0

    @property
    def noise_norm(self) -> float:
        """About half of the spectral norm of the noise."""
        # The spectral norm of a symmetric matrix with independent entries is about twice the
        # root of the sum of the variances of a row.
        return float(np.linalg.norm(self.errors[0]))

    @property
    def means(self) -> Floats:
        """The means of the columns, as multiples of the constant; (n_columns,)."""
        total = self.sums[-1]
        means: Floats = total[:-1] / max(float(total[-1]), 2 * self.noise_norm)
        return means

    @property
    def centered(self) -> Floats:
        """Sums of products of the centered columns."""
        centered: Floats = self.sums[:-1, :-1] - np.outer(
            self.means, self.sums[-1, :-1]
        )
        return centered

    @property
    def errors(self) -> Floats:
        """The standard deviations of the noise of all sums, of the shape of `sums`."""
        errors = np.full(self.sums.shape, self.error)
        np.fill_diagonal(errors, self.square_error)
        return errors

    @cached_property
    def eigen(self) -> tuple[Floats, Floats]:
        """Eigenvalues of the sums with penalties, ascending, and eigenvectors, as columns, within the constraints."""
        basis = find_complement(self.constraints, len(self.sums))
        values, vectors = np.linalg.eigh(basis.T @ (self.sums + self.penalties) @ basis)
        return values, basis @ vectors

    @property
    def is_supported(self) -> bool:
        """True if all eigenvalues clearly exceed the noise, so that Newton steps converge."""
        return bool(self.eigen[0][0] > MIN_SUPPORT * self.noise_norm)

    @cached_property
    def _supported_values(self) -> Floats:
        """The eigenvalues, at least as large as their noise."""
        values, _ = self.eigen
        smallest = max(MIN_SUPPORT * self.noise_norm, 2.0**-40 * values[-1])
        return np.maximum(values, smallest)

    @cached_property
    def matrix(self) -> Floats:
        """The sums with penalties, within the constraints, and with eigenvalues that exceed their noise."""
        return self.eigen[1] * self._supported_values @ self.eigen[1].T

    @cached_property
    def inverse(self) -> Floats:
        """The inverse of `matrix` within the constraints, see `invert`."""
        return self.eigen[1] / self._supported_values @ self.eigen[1].T

    def find_certainty(self, contrasts: Floats) -> Floats:
        """Return the certainty that columns vary in the directions of contrasts, (n_columns + 1, n_contrasts)."""
        sizes = np.einsum("ic,ij,jc->c", contrasts, self.sums, contrasts)
        squares, variances = contrasts**2, self.errors**2
        # Both entries of a pair have the same error.
        noise = 2 * np.einsum("ic,ij,jc->c", squares, variances, squares)
        noise -= np.diag(variances) @ squares**2
        certainty: Floats = sizes / np.sqrt(noise)
        return certainty

    def project(self, coefficients: Floats) -> Floats:
        """Return the coefficients within the constraints whose predictions are nearest."""
        if not len(self.constraints):
            return coefficients
        matrix = replace(self, constraints=()).matrix
        projected: Floats = invert(matrix, self.constraints) @ matrix @ coefficients
        return projected

    def shrink_toward(
        self,
        expected: Floats,
        uncertainty: Floats | None = None,
        *,
        smallest: float = 1 / 20,
    ) -> NoisyProducts:
        """Shrink the sums toward a multiple of the matrix of expected sums, in proportion to their noise.

        `uncertainty` is the relative size of errors of the expected sums, a matrix of the same shape. The eigenvalues
        of the result, in expected ones, are at least `smallest`.
        """
        values, vectors = np.linalg.eigh(expected)
        # In these units, the expected sums are the identity.
        units, identity = vectors / np.sqrt(values), np.eye(len(values))
        squares = np.outer(values, values)
        sums = units.T @ self.sums @ units
        variances = np.maximum(self.errors / np.sqrt(squares), 2.0**-30) ** 2
        weights = np.append(1 / np.diag(variances), 1 / EXPECTED_VARIANCE)
        mean = float(np.average(np.append(np.diag(sums), 1), weights=weights))
        factor = max(mean, 0.2)
        excess, variances = sums / factor - identity, variances / factor**2
        prior: Floats | float = estimate_prior(excess, variances, EXPECTED_VARIANCE)
        if uncertainty is not None:
            # The products of two columns vary less than the squares of a column.
            is_pair = identity == 0
            of_own, of_pairs = (
                estimate_prior(excess[part], variances[part], least, n_errors=1)
                for part, least in (
                    (~is_pair, EXPECTED_VARIANCE),
                    (is_pair, EXPECTED_PAIR_VARIANCE),
                )
            )
            relative = np.diag(vectors.T @ uncertainty @ vectors)
            known = np.outer(relative, relative)
            prior = np.where(is_pair, of_pairs + known / len(values), of_own + known)
        part = prior / (prior + variances)
        shrunk, rotation = np.linalg.eigh(identity + excess * part)
        rotation = vectors * np.sqrt(factor * values) @ rotation
        return replace(
            self,
            sums=rotation * np.maximum(shrunk, smallest) @ rotation.T,
            directions=vectors,
            variances=part * variances * factor**2 * squares,
        )

    def find_covariance(self, step: Floats, other: Floats) -> Floats:
        """Return the covariances of the products of shrunk sums with a step, (n_columns + 1,), due to their errors.

        The result, of the shape of `sums`, is linear in both steps, and symmetric.
        """
        assert self.directions is not None
        first, second = self.directions.T @ step, self.directions.T @ other
        # Both entries of a pair have the same error.
        pairs = np.outer(first, second)
        pairs = self.variances * (pairs + pairs.T) / 2
        np.fill_diagonal(pairs, self.variances @ (first * second))
        covariance: Floats = self.directions @ pairs @ self.directions.T
        return covariance


def estimate_prior(
    excess: Floats, variances: Floats, smallest: float, *, n_errors: float = 0.0
) -> float:
    """Estimate the variance of excesses without their noise, by moments (empirical Bayes); at least `smallest`.

    The estimate is reduced by `n_errors` of its standard errors without a variance.
    """
    weights = 1 / (variances + 0.05) ** 2
    weights /= weights.sum()
    prior = float((weights * (excess**2 - variances)).sum())
    prior -= n_errors * math.sqrt(2 * float(((weights * variances) ** 2).sum()))
    return min(max(prior, smallest), 4.0)


def shrink_jointly(
    products: Sequence[NoisyProducts],
    estimates: Floats,
    variance: float,
    *,
    is_final: bool = True,
) -> Floats:
    """Shrink the coefficients of each logit by the variance of all of them, which their squares determine.

    `estimates` have the shape (n_columns + 1, n_outputs), and `variance` is the variance of the noise of a gradient.
    Coefficients that do not clearly exceed their noise become 0 unless they are final.
    """
    # Components in the directions of the eigenvectors; shape (n_outputs, n_columns + 1).
    vectors = np.stack([one.eigen[1] for one in products])
    components = np.einsum("oji,jo->oi", vectors, estimates)
    inverses = np.stack([one.inverse for one in products])
    noise = variance * (np.swapaxes(vectors, 1, 2) @ inverses) ** 2
    noise = noise.sum(axis=2)
    squares = np.maximum(components**2, 2.0**-100)
    # Squares in variances of their noise: chi-squared without a signal. Final coefficients
    # keep their direction, which determines the order of predictions.
    size = noise.size
    excess = float((squares / noise).sum()) - size
    excess = max(excess, 0.05 * size) if is_final else excess - 2 * math.sqrt(size)
    prior = max(excess, 0.0) / (1 / noise).sum()
    # The largest square of noise is about ``2 log(size)`` variances (D. L. Donoho, I. M.
    # Johnstone, 1994), so larger components are hardly shrunk.
    own = (3 + 2 * math.log(size)) * noise / squares
    factors = np.maximum(prior / (prior + noise), 1 - own)
    # Where the products are not larger than their noise, as for collinear columns, the
    # eigenvalue is uncertain, too (W. James, C. Stein, 1961).
    smallest = np.array([[MIN_SUPPORT * one.noise_norm] for one in products])
    values = np.stack([one.eigen[0] for one in products])
    factors = np.where(values < smallest, squares / (squares + 6 * noise), factors)
    return np.einsum("oji,oi->jo", vectors, components * factors)


def find_change(start: Floats, end: Floats) -> Floats:
    """Return the matrix by which `move_sums` multiplies from both sides."""
    change = np.linalg.cholesky(end) @ np.linalg.inv(np.linalg.cholesky(start))
    return np.asarray(change, float)


def move_sums(sums: Floats, start: Floats, end: Floats) -> Floats:
    """Multiply sums of products from both sides so that `start` would become `end`; all have the same shape."""
    change = find_change(start, end)
    moved: Floats = change @ sums @ change.T
    return moved


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives of the loss by the coefficients of each logit, estimated at known coefficients."""

    # Shape (n_columns + 1, n_outputs).
    coefficients: Floats
    # Shape (n_outputs, n_columns + 1, n_columns + 1).
    sums: Floats
    # `sums` of normal columns.
    expected: Floats
    # Predicts `expected` from `coefficients`.
    predict: Callable[[Floats], Floats]

    def move(self, coefficients: Floats) -> Curvature:
        """Multiply the second derivatives by their predicted change, see `move_sums`."""
        expected = self.predict(coefficients)
        moved = np.stack(list(map(move_sums, self.sums, self.expected, expected)))
        return Curvature(coefficients, moved, expected, self.predict)

    def learn(self, step: Floats, change: Floats, error: float) -> Curvature:
        """Update second derivatives by the noisy change of the gradient along a step (C. G. Broyden, 1970)."""
        sums = []
        for own, along, grown in zip(self.sums, step.T, change.T, strict=True):
            increase, moved = along @ grown, own @ along
            if increase > 3 * error * np.linalg.norm(along):
                removed = np.outer(moved, moved) / (along @ moved)
                own = own + np.outer(grown, grown) / increase - removed
            sums.append(own)
        return replace(self, sums=np.stack(sums))

    def change_gradient(self, step: Floats) -> Floats:
        """Predict the change of the gradient by a step; both have the shape (n_columns + 1, n_outputs)."""
        return np.einsum("oij,jo->io", self.sums, step)


class Linearization(NamedTuple):
    """Errors of the second derivatives with which coefficients follow from a gradient by a Newton step."""

    # Shrunk toward expected ones, and as they were measured.
    products: NoisyProducts
    measured: NoisyProducts
    inverse: Floats
    step: Floats
    # The change of second derivatives along the step, see `find_change`.
    change: Floats
    # The largest norm of a row.
    longest: float
    # The products of columns, by which these were scaled, and their part that was added because
    # of noise, see `WeightedRows`.
    squares: Floats
    uncertainty: Floats

    def find_certainty(self, contrast: Floats) -> float:
        """Return the certainty that columns vary in the direction of a contrast, in standard deviations."""
        weights = self.inverse @ contrast
        noise = self.measured.square_error * float(weights @ weights)
        measured = float(weights @ self.measured.sums @ weights) / noise
        # The noise of the covariances is independent of the noise of the second derivatives.
        added = max(float(weights @ self.uncertainty @ weights), 2.0**-1000)
        excess = float(weights @ self.squares @ weights) / added - 1
        return measured / math.sqrt(2) + excess * math.sqrt(len(weights) - 1) / 2

    def find_changes(
        self, contrast: Floats, direction: Floats
    ) -> tuple[float, float, float]:
        """Find the variance of ``contrast @ coefficients`` due to changes along the step, and its slope and curvature.

        The coefficients move by `direction` if the contrast increases by 1.
        """
        vectors = np.column_stack([self.inverse @ contrast, self.step, direction])
        weights, step, moved = (self.change.T @ vectors).T
        slope, curvature = (
            float(weights @ self.products.find_covariance(each, moved) @ weights)
            for each in (step, moved)
        )
        # If no logit changes by more than r, a second derivative changes by at most the factor
        # e**r (F. Bach, 2010), and the mean of those along the step by a factor between about
        # 1 - r / 2 and 1 + r / 2. The uniform distribution has the variance r**2 / 12, and an
        # eighth of it suffices, because most rows are shorter: for an indicator of 1 % with
        # uneven classes, 0.92 of the intervals cover, and 0.86 without it.
        size = float(contrast @ self.step)
        change = (size * float(np.linalg.norm(direction)) * self.longest) ** 2 / 96
        return change * size**2, slope + change * size, curvature + change


class Inference(NamedTuple):
    """Coefficients, corrected for the bias of the penalty, and their covariances; the constant is last."""

    coefficients: Floats
    # Covariances due to the noise, and due to the rows as a sample (P. J. Huber, 1967).
    noise: Floats
    sampling: Floats
    # None if the variances do not depend on the true coefficients.
    linearization: Linearization | None = None

    def find_variances(self, contrast: Floats) -> tuple[float, float, float, float]:
        """Return variances of ``contrast @ coefficients`` by noise and by sampling, and changes of the first one.

        The changes are the slope and the curvature of the variance, see `find_ratio_interval`.
        """
        direction = (self.noise + self.sampling) @ contrast
        noise, sampling = (
            max(float(contrast @ each @ contrast), 0.0)
            for each in (self.noise, self.sampling)
        )
        if self.linearization is None or not noise + sampling:
            return noise, sampling, 0.0, 0.0
        if self.linearization.find_certainty(contrast) < MIN_CERTAINTY:
            return noise, sampling, 0.0, math.inf
        direction = direction / (noise + sampling)
        added, *changes = self.linearization.find_changes(contrast, direction)
        return noise + added, sampling, changes[0], changes[1]


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

    @property
    def to_terms(self) -> Floats:
        """The square matrix from coefficients to slopes, and the intercept last, in units of scaled columns."""
        matrix = append_constant(self.axes, self.constant)
        matrix[-1, :-1] = -self.origin @ self.axes
        return matrix

    def find_constraints(
        self, aliased: Sequence[int] = (), *, fit_intercept: bool
    ) -> Floats:
        """Return combinations of coefficients that remain 0: of `aliased` columns, and the intercept without it."""
        kept = [*aliased, *[-1] * (not fit_intercept)]
        return self.to_terms[kept]


def limit_expected(expected: float, products: NoisyProducts) -> float:
    """Limit an expected eigenvalue of centered products, because with few rows the eigenvalues are smaller."""
    others = np.linalg.eigvalsh(products.centered)[1:]
    return min(expected, float(others.mean())) if len(others) else expected


def find_contrasts(
    products: NoisyProducts, units: Units, *, fit_intercept: bool
) -> Floats:
    """Return each column less its mean, or its value in original units in a model without an intercept.

    They are combinations of the scaled columns and the constant, (n_columns + 1, n_columns).
    """
    to_columns = np.linalg.inv(units.axes)
    starts = units.origin / units.constant
    if fit_intercept:
        starts = -products.means @ to_columns
    return np.vstack([to_columns, starts])


def exclude_constant_columns(
    products: NoisyProducts,
    units: Units,
    certainty: Floats,
    expected: float,
    *,
    fit_intercept: bool,
) -> list[tuple[NoisyProducts, list[int]]]:
    """Return the products with the constraints of a model, without and with excluded columns, and these columns.

    Columns that are constant, up to noise, are excluded one by one: those with the smallest `certainty` to vary, see
    `find_contrasts`. There are none if the noise is too large for the columns that vary, with the smallest `expected`
    eigenvalue.
    """
    n_constant = int((certainty < MIN_CERTAINTY).sum())
    # A column is constant only if another one is not.
    if n_constant == len(certainty) > fit_intercept:
        n_constant -= 1
    if limit_expected(expected, products) < MIN_EXPECTED * products.noise_norm:
        n_constant = 0
    columns = np.argsort(certainty).tolist()
    choices = [columns[:size] for size in range(n_constant + 1)]
    constraints = [
        units.find_constraints(excluded, fit_intercept=fit_intercept)
        for excluded in choices
    ]
    reduced = [replace(products, constraints=one) for one in constraints]
    return list(zip(reduced, choices, strict=True))


def explain_constant_columns(names: Sequence[Any]) -> str:
    """State why columns have no coefficients; the text is empty without columns."""
    if not names:
        return ""
    subject, them = f"Columns {list(names)} are constant within their bounds", "them"
    if len(names) == 1:
        subject, them = f"Column {names[0]!r} is constant within its bounds", "it"
    return (
        f"{subject}, up to noise, so the coefficients are those of a model without "
        f"{them}. Drop {them}, or declare narrower bounds"
    )


def find_gain(
    products: NoisyProducts,
    gradient: Floats,
    estimate: Floats,
    shrunk: Floats,
    covariance: Floats,
    *,
    fit_intercept: bool,
) -> float:
    """Return twice the decrease of the loss by the columns beyond a constant, less its bias and its standard error.

    `products` are the second derivatives of the loss, `gradient` is the decrease at coefficients of 0, `estimate` and
    `shrunk` are coefficients, all of the shape (n_columns + 1,), and `covariance` is due to the noise of the estimate.
    """
    # The sums without a minimum of their eigenvalues: it is reached where columns hardly vary.
    sums = products.sums
    gain = float((2 * gradient - sums @ shrunk) @ shrunk)
    given = products.matrix
    if fit_intercept:
        # The decrease by the constant alone, and the products given the constant.
        gain -= float(gradient[-1]) ** 2 / max(float(sums[-1, -1]), products.noise_norm)
        given = given - np.outer(given[-1], given[-1]) / given[-1, -1]
    # `shrink_jointly` multiplied each component in the direction of an eigenvector of the sums by
    # a factor. The eigenvectors of `given` are arbitrary if several eigenvalues are equal.
    vectors = products.eigen[1]
    estimates, components = vectors.T @ estimate, vectors.T @ shrunk
    factors = np.divide(
        components, estimates, out=np.zeros_like(estimates), where=estimates != 0
    )
    shrinkage = vectors * factors.clip(0, 1) @ vectors.T
    # C. Mallows (1973): the noise of the estimate is not an effect, nor is the noise of the
    # products.
    slopes = 2 * (given @ shrunk + shrinkage @ given @ (estimate - shrunk))
    gain -= 2 * float(np.trace(given @ shrinkage @ covariance))
    gain -= 2 * products.square_error * float(shrunk[:-1] @ shrunk[:-1])
    return gain - math.sqrt(float(slopes @ covariance @ slopes))


def warn_of_weak_effects(*, has_delta: bool = True) -> None:
    """Warn that predictions may be no better than a constant."""
    delta = "" if has_delta else "set a delta such as 1e-6, "
    warn_user(
        "The noise is about as large as the effects of the columns, so predictions may "
        f"be no better than a constant. Leave unknown ends of bounds open, {delta}or use "
        "more rows, fewer columns, narrower bounds or a larger epsilon",
        "guide/models#which-model",
    )


# Largest factor that `explain_noise` states: about the spectral norm of the noise divided by
# the largest eigenvalue that can be noise alone.
MAX_NOISE_FACTOR = 2.5


def explain_noise(
    support: float, required: float, *, few: str = "", terms: Sequence[Any] = ()
) -> str:
    """State the rows that are required for intervals, if the smallest eigenvalue in norms of the noise is `support`.

    `few` names the rows whose number may be noise alone, so that no factor is known. `terms` are the coefficients
    without intervals; () for all of them.
    """
    problem = "The noise is too large for intervals of the coefficients"
    if terms:
        problem += f" of {list(terms)}"
    remedy = "Narrower bounds or fewer columns reduce the noise"
    if few:
        return (
            f"{problem}: it is about as large as the number of {few}. Use more rows or "
            f"a larger epsilon. {remedy}"
        )
    # An eigenvalue that is noise alone has no lower bound, so the factor may be larger.
    factor = min(max(required / max(support, 1e-9), 1.2), MAX_NOISE_FACTOR)
    times = math.ceil(10 * factor) / 10
    return (
        f"{problem}: at least {times} times as many rows, or an epsilon that is at "
        f"least {times} times as large, are required. {remedy}"
    )


def explain_dependence(
    products: NoisyProducts,
    axes: Floats,
    names: Sequence[Any],
    expected: float,
    excluded: Sequence[int] = (),
) -> str:
    """Name the columns that are constant or depend on each other; return an empty text if noise may be the reason.

    The columns were multiplied by `axes`. `expected` is the smallest eigenvalue of the products for columns of which
    none is a combination of others. Columns that are `excluded` are not considered.
    """
    if len(excluded) == len(names):
        return ""
    required = 2 * products.noise_norm
    centered, expected = products.centered, limit_expected(expected, products)
    basis = find_complement(axes[list(excluded)], len(axes))
    values, vectors = np.linalg.eigh(basis.T @ centered @ basis)
    # The smallest eigenvalue of a constant combination of columns is noise.
    is_certain = expected > MIN_EXPECTED * products.noise_norm
    is_certain = is_certain and values[0] < products.noise_norm
    # A combination of columns is constant only if another combination is not.
    if not is_certain or (len(names) > 1 and values[-1] <= 2 * required):
        return ""
    # The combination of the columns with the smallest variance, in standard deviations of
    # the columns, which are at least the smallest one that the noise permits.
    to_columns = np.linalg.inv(axes)
    variances = np.diag(to_columns.T @ centered @ to_columns)
    variances = np.maximum(variances, required * (to_columns**2).sum(axis=0))
    weights = np.abs(axes @ basis @ vectors[:, 0]) * np.sqrt(variances)
    indices = np.flatnonzero(weights > 0.3 * weights.max())
    involved = [names[index] for index in indices.tolist()]
    if len(involved) == 1:
        return (
            f"Column {involved[0]!r} is constant within its bounds, up to noise, so the "
            "coefficients have no intervals. Drop the column, or declare narrower bounds"
        )
    return (
        f"Columns {involved} depend on each other, up to noise, so the coefficients have "
        "no intervals. Drop one of these columns; for the indicators of a column, use "
        "DPOneHotEncoder(drop='first')"
    )
