"""The likelihood of a regression on latent values, its maximum, and robust standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, minimize

from skdp.survey._design import Numbers

# Log of the smallest standard deviation of the errors, relative to the target: the
# likelihood of a target that the predictors determine has no maximum.
MIN_LOG_SIGMA = math.log(1e-9)


@dataclass(frozen=True, eq=False)
class Predictors:
    """True predictors, and the cells: the combinations of values of the reported ones."""

    # True predictors after a column of ones: (n_rows, n_known).
    known: Numbers
    # The first columns of `known`, on which the probabilities of the cells depend.
    cell_known: Numbers
    # Indicators of the values in each cell: (n_cells, n_features).
    cell_features: Numbers
    # Log probability of the reports of each row in each cell: (n_cells, n_rows).
    log_reports: Numbers

    @property
    def n_terms(self) -> int:
        return self.known.shape[1] + self.cell_features.shape[1]

    @property
    def cells_shape(self) -> tuple[int, int]:
        """Shape of the parameters of the cells, of which the first one is the reference."""
        return self.cell_known.shape[1], len(self.cell_features) - 1

    def linear(self, coefficients: Numbers) -> Numbers:
        """Return the linear predictors (n_columns, n_cells, n_rows) for (n_terms, n_columns)."""
        n_known = self.known.shape[1]
        of_known = (self.known @ coefficients[:n_known]).T
        of_cells = (self.cell_features @ coefficients[n_known:]).T
        return np.asarray(of_known[:, np.newaxis] + of_cells[:, :, np.newaxis])

    def log_cells(self, cell_parameters: Numbers) -> Numbers:
        """Return the log probability of each cell, given true predictors: (n_cells, n_rows)."""
        return log_softmax((self.cell_known @ cell_parameters).T)


def log_softmax(logits: Numbers) -> Numbers:
    """Return log probabilities along the first axis, after a reference with logit 0."""
    # Rows are on the last axis in all arrays, because NumPy's reductions of a short last
    # axis take ten times as long.
    reference = np.zeros((1, *logits.shape[1:]))
    logits = np.concatenate([reference, logits])
    return np.asarray(logits - log_sum(logits))


def log_sum(logs: Numbers) -> Numbers:
    """Return the log of the sum of exponentials along the first axis."""
    # Four times as fast as scipy.special.logsumexp, which also handles signs.
    largest = logs.max(axis=0)
    return np.asarray(largest + np.log(np.exp(logs - largest).sum(axis=0)))


@dataclass(frozen=True, eq=False)
class ClassTarget:
    """Classes with multinomial logits, of which the first class is the reference."""

    # Log probability of the target, or of its report, given each class: (n_classes, n_rows).
    log_reports: Numbers

    n_scale_parameters = 0

    @property
    def n_columns(self) -> int:
        """Number of linear predictors."""
        return len(self.log_reports) - 1

    def log_densities(self, linear: Numbers, scale: Numbers) -> Numbers:
        """Return the log probability of class and report: (n_classes, n_cells, n_rows)."""
        return np.asarray(log_softmax(linear) + self.log_reports[:, np.newaxis])

    def scores(
        self, linear: Numbers, scale: Numbers, posterior: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return the derivatives by the linear predictors, and none by a scale."""
        cells = posterior.sum(axis=0)
        excess = posterior - np.exp(log_softmax(linear)) * cells
        return excess[1:], np.zeros((0, cells.shape[1]))

    def parts(self) -> list[NDArray[np.bool_]]:
        """Return the rows of each class, or all rows of a reported target."""
        is_certain = self.log_reports == 0
        is_true = (is_certain | np.isneginf(self.log_reports)).all()
        return list(is_certain) if is_true else [np.ones(is_certain.shape[1], bool)]


@dataclass(frozen=True, eq=False)
class NumberTarget:
    """Numbers with normal errors. The scale is the log of their standard deviation."""

    values: Numbers

    n_scale_parameters = 1
    n_columns = 1

    def log_densities(self, linear: Numbers, scale: Numbers) -> Numbers:
        """Return the log density of the target: (1, n_cells, n_rows)."""
        log_sigma = max(float(scale[0]), MIN_LOG_SIGMA)
        residuals = (self.values - linear) * math.exp(-log_sigma)
        return -(residuals**2) / 2 - log_sigma - math.log(2 * math.pi) / 2

    def scores(
        self, linear: Numbers, scale: Numbers, posterior: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return the derivatives by the linear predictors, and by the scale."""
        precision = math.exp(-2 * max(float(scale[0]), MIN_LOG_SIGMA))
        residuals = self.values - linear
        by_scale = posterior * (residuals**2 * precision - 1)
        return posterior * residuals * precision, by_scale.sum(axis=1)

    def parts(self) -> list[NDArray[np.bool_]]:
        """Return the rows of the smaller, and of the larger numbers."""
        is_large = self.values > np.median(self.values)
        return [~is_large, is_large]


@dataclass(frozen=True, eq=False)
class HiddenModel:
    """A regression of the target, and a multinomial logit of the cells on true predictors."""

    predictors: Predictors
    target: ClassTarget | NumberTarget
    weights: Numbers

    @property
    def n_coefficients(self) -> int:
        return self.predictors.n_terms * self.target.n_columns

    def start(self) -> Numbers:
        """Return parameters to start the search: equal odds, or least squares of numbers."""
        n_cell_parameters = math.prod(self.predictors.cells_shape)
        n_regression = self.n_coefficients + self.target.n_scale_parameters
        parameters = np.zeros(n_regression + n_cell_parameters)
        if isinstance(self.target, NumberTarget):
            # Coefficients of the reported predictors remain 0.
            roots = np.sqrt(self.weights)
            known = self.predictors.known * roots[:, np.newaxis]
            solution = np.linalg.lstsq(known, self.target.values * roots)[0]
            parameters[: len(solution)] = solution
        return parameters

    def split(self, parameters: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return the coefficients (n_terms, n_columns), the scale, and the cell parameters."""
        bounds = np.cumsum([self.n_coefficients, self.target.n_scale_parameters])
        coefficients, scale, cells = np.split(parameters, bounds)
        coefficients = coefficients.reshape(self.predictors.n_terms, -1)
        return coefficients, scale, cells.reshape(self.predictors.cells_shape)

    def posterior(self, parameters: Numbers) -> tuple[Numbers, Numbers]:
        """Return the log likelihood of each row, and the posterior (n_outcomes, n_cells, n_rows)."""
        coefficients, scale, cells = self.split(parameters)
        linear = self.predictors.linear(coefficients)
        log_cells = self.predictors.log_cells(cells) + self.predictors.log_reports
        joint = self.target.log_densities(linear, scale) + log_cells
        # Sum over the latent true values.
        values = log_sum(joint.reshape(-1, joint.shape[2]))
        return values, np.exp(joint - values)

    def evaluate(self, parameters: Numbers) -> tuple[Numbers, Numbers]:
        """Return the log likelihood of each row, and its gradient (n_rows, n_parameters)."""
        # Fisher's identity: the gradient is the posterior mean of the gradient of the
        # likelihood in which the true values are known.
        values, posterior = self.posterior(parameters)
        coefficients, scale, cells = self.split(parameters)
        predictors = self.predictors
        linear = predictors.linear(coefficients)
        residuals, by_scale = self.target.scores(linear, scale, posterior)
        excess = posterior.sum(axis=0) - np.exp(predictors.log_cells(cells))
        blocks = [
            np.einsum("ik,ji->ikj", predictors.known, residuals.sum(axis=1)),
            np.einsum("ck,jci->ikj", predictors.cell_features, residuals),
            by_scale.T,
            np.einsum("ik,ci->ikc", predictors.cell_known, excess[1:]),
        ]
        n_rows = len(values)
        flat = [block.reshape(n_rows, math.prod(block.shape[1:])) for block in blocks]
        return values, np.hstack(flat)


@dataclass(frozen=True, eq=False)
class Fit:
    """Parameters at the maximum of the likelihood."""

    parameters: Numbers
    # nan if the likelihood has no clear maximum.
    covariance: Numbers
    log_likelihood: float

    @property
    def is_maximum(self) -> bool:
        return not np.isnan(self.covariance).any()


def maximize(model: HiddenModel, clusters: NDArray[np.intp] | None) -> Fit:
    """Maximize the likelihood, and estimate a robust covariance with the scores summed by cluster."""
    total = model.weights.sum()

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        values, scores = model.evaluate(parameters)
        weights = model.weights / total
        return -float(weights @ values), -(weights @ scores)

    # The loss is a mean over rows, so the tolerance does not depend on their number.
    options = {"gtol": 1e-6, "maxiter": 1000}
    search = minimize(loss, model.start(), jac=True, method="BFGS", options=options)
    parameters, inverse = _polish(search.x, lambda at: total * loss(at)[1])
    values, scores = model.evaluate(parameters)
    covariance = np.full((len(parameters), len(parameters)), np.nan)
    if inverse is not None:
        # The sandwich is also valid for a wrong model (Huber 1967).
        weighted = scores * model.weights[:, np.newaxis]
        sums = sum_by_cluster(weighted, clusters)
        # The sums of all clusters add up to 0, as in survey packages.
        correction = len(sums) / max(len(sums) - 1, 1)
        covariance = correction * inverse @ (sums.T @ sums) @ inverse
    return Fit(parameters, covariance, float(model.weights @ values))


def _polish(
    parameters: Numbers, gradient: Callable[[Numbers], Numbers]
) -> tuple[Numbers, Numbers | None]:
    """Return the parameters after Newton steps, and the inverse information there.

    The inverse is None if the likelihood has no clear maximum.
    """
    # Three to six steps are usual after the search.
    for _ in range(50):
        information = np.atleast_2d(approx_fprime(parameters, gradient))
        inverse = _invert((information + information.T) / 2)
        if inverse is None:
            return parameters, None
        # The gradient and the information are of the loss, which is minimized.
        slope = gradient(parameters)
        step = -inverse @ slope
        parameters = parameters + step
        # The squared length of the step, in standard errors.
        if -slope @ step < 1e-14:
            return parameters, inverse
    return parameters, None


def _invert(information: Numbers) -> Numbers | None:
    """Return the inverse of a matrix, or None if it is not positive definite beyond rounding."""
    diagonal = np.diag(information)
    if not np.isfinite(information).all() or (diagonal <= 0).any():
        return None
    # With a unit diagonal, the eigenvalues do not depend on the units of the parameters.
    # Below 1e-8, they may be rounding errors.
    scales = np.sqrt(np.outer(diagonal, diagonal))
    if np.linalg.eigvalsh(information / scales)[0] < 1e-8:
        return None
    return np.asarray(np.linalg.inv(information))


def sum_by_cluster(rows: Numbers, clusters: NDArray[np.intp] | None) -> Numbers:
    """Return the sum of the rows of each cluster, or the rows if there are no clusters."""
    if clusters is None:
        return rows
    sums = np.zeros((int(clusters.max()) + 1, rows.shape[1]))
    np.add.at(sums, clusters, rows)
    return sums
