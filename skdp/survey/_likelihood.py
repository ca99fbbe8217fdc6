"""Maximum likelihood of a regression on latent values, with robust standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import approx_fprime, minimize

from skdp._arrays import Floats, Indices, Mask

# Log of the smallest standard deviation of the errors of a target with variance 1. Without
# a bound, the likelihood has no maximum if the predictors determine the target.
MIN_LOG_SIGMA = math.log(1e-9)


def log_softmax(logits: Floats) -> Floats:
    """Convert logits to log probabilities along the first axis, with a reference before them.

    The reference class has the logit 0, so the first axis of the result is longer by 1.
    """
    # In all arrays, rows are on the last axis, because reductions along a short last axis
    # take ten times as long in NumPy.
    reference = np.zeros((1, *logits.shape[1:]))
    logits = np.concatenate([reference, logits])
    return logits - log_sum(logits)


def log_sum(logs: Floats) -> Floats:
    """Compute the log of the sum of exponentials along the first axis."""
    # Four times as fast as scipy.special.logsumexp, which also supports signs.
    largest = logs.max(axis=0)
    return largest + np.log(np.exp(logs - largest).sum(axis=0))


class ClassTarget:
    """Target with classes, a multinomial logit whose reference is the first class."""

    n_scale_parameters = 0

    def __init__(self, log_likelihoods: Floats) -> None:
        # Log probability of the target, or of its report, given each class, up to a
        # constant for each row; shape (n_classes, n_rows).
        self.log_likelihoods = log_likelihoods

    @property
    def n_outputs(self) -> int:
        """Number of linear predictors: one for each class except the reference."""
        return len(self.log_likelihoods) - 1

    def log_densities(self, linear: Floats, scale: Floats) -> Floats:
        """Compute the log probability of class and report; shape (n_classes, n_cells, n_rows).

        `linear` has the shape (n_outputs, n_cells, n_rows), without the reference class.
        """
        return log_softmax(linear) + self.log_likelihoods[:, np.newaxis]

    def scores(
        self, linear: Floats, scale: Floats, posterior: Floats
    ) -> tuple[Floats, Floats]:
        """Compute the gradient of the log likelihood with respect to `linear` and `scale`.

        `posterior` has the shape (n_classes, n_cells, n_rows). `linear` and the first result
        have the shape (n_outputs, n_cells, n_rows), without the reference class. There is no
        scale, so the second result is empty.
        """
        # The gradient of a log softmax: indicator of the class, minus its probability.
        cell_posterior = posterior.sum(axis=0)
        excess = posterior - np.exp(log_softmax(linear)) * cell_posterior
        return excess[1:], np.zeros((0, cell_posterior.shape[1]))

    def split_rows(self) -> list[Mask]:
        """Return masks of the rows of each class, or of all rows if the target is reported."""
        is_certain = self.log_likelihoods == 0
        is_true = (is_certain | np.isneginf(self.log_likelihoods)).all()
        return list(is_certain) if is_true else [np.ones(is_certain.shape[1], bool)]


class NumberTarget:
    """Numeric target with normal errors. The scale is the log of their standard deviation."""

    n_scale_parameters = 1
    n_outputs = 1

    def __init__(self, values: Floats) -> None:
        # (n_rows,), with mean 0 and variance 1.
        self.values = values

    def log_densities(self, linear: Floats, scale: Floats) -> Floats:
        """Compute the log density of the target; shape (1, n_cells, n_rows)."""
        log_sigma = max(float(scale[0]), MIN_LOG_SIGMA)
        residuals = (self.values - linear) * math.exp(-log_sigma)
        return -(residuals**2) / 2 - log_sigma - math.log(2 * math.pi) / 2

    def scores(
        self, linear: Floats, scale: Floats, posterior: Floats
    ) -> tuple[Floats, Floats]:
        """Compute the gradient of the log likelihood with respect to `linear` and `scale`.

        `linear`, `posterior` and the first result have the shape (1, n_cells, n_rows), and
        the second result has the shape (1, n_rows).
        """
        # Derivatives of -(y - m)^2 / (2 sigma^2) - log sigma with respect to m and log sigma.
        precision = math.exp(-2 * max(float(scale[0]), MIN_LOG_SIGMA))
        residuals = self.values - linear
        by_scale = posterior * (residuals**2 * precision - 1)
        return posterior * residuals * precision, by_scale.sum(axis=1)

    def split_rows(self) -> list[Mask]:
        """Return masks of the rows up to the median, and of the rows above it."""
        is_large = self.values > np.median(self.values)
        return [~is_large, is_large]


@dataclass(frozen=True, eq=False)
class HiddenModel:
    """Regression of the target on true predictors and latent cells.

    The probabilities of the cells are a multinomial logit of the true predictors. The
    likelihood of a row is a sum over the cells, because only reports of its cell are
    observed.
    """

    # True predictors after a column of ones; shape (n_rows, n_known).
    known: Floats
    # Indicators of the values in each cell, a combination of values of the reported
    # predictors; shape (n_cells, n_features).
    cell_features: Floats
    # Log probability of the reports of each row given each cell, up to a constant for each
    # row; shape (n_cells, n_rows).
    log_likelihoods: Floats
    target: ClassTarget | NumberTarget
    weights: Floats

    @property
    def n_terms(self) -> int:
        """Number of coefficients of one linear predictor, with the intercept."""
        return self.known.shape[1] + self.cell_features.shape[1]

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients of all linear predictors."""
        return self.n_terms * self.target.n_outputs

    @property
    def cells_shape(self) -> tuple[int, int]:
        """Shape of the coefficients of the distribution of the cells, without the first cell."""
        return self.known.shape[1], len(self.cell_features) - 1

    def compute_linear(self, coefficients: Floats) -> Floats:
        """Compute the linear predictors of each row if it is in each cell.

        The coefficients have the shape (n_terms, n_outputs), and the result the shape
        (n_outputs, n_cells, n_rows).
        """
        n_known = self.known.shape[1]
        row_effects = (self.known @ coefficients[:n_known]).T
        cell_effects = (self.cell_features @ coefficients[n_known:]).T
        return row_effects[:, np.newaxis] + cell_effects[:, :, np.newaxis]

    def compute_log_cells(self, cell_parameters: Floats) -> Floats:
        """Compute the log probability of each cell given true predictors; shape (n_cells, n_rows)."""
        return log_softmax((self.known @ cell_parameters).T)

    def make_initial(self) -> Floats:
        """Make the initial parameters of the search: 0, or least squares on true predictors for a numeric target.

        The vector has the coefficients, the scale and the parameters of the cells, the
        combinations of latent values.
        """
        n_cell_parameters = math.prod(self.cells_shape)
        n_regression = self.n_coefficients + self.target.n_scale_parameters
        parameters = np.zeros(n_regression + n_cell_parameters)
        if isinstance(self.target, NumberTarget):
            # The coefficients of the reported predictors remain 0.
            roots = np.sqrt(self.weights)
            known = self.known * roots[:, np.newaxis]
            solution = np.linalg.lstsq(known, self.target.values * roots)[0]
            parameters[: len(solution)] = solution
        return parameters

    def split(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Split a vector of parameters: coefficients, scale, and the parameters of the distribution of the cells.

        The coefficients have the shape (n_terms, n_outputs), and the last parameters have the shape `cells_shape`.
        """
        bounds = np.cumsum([self.n_coefficients, self.target.n_scale_parameters])
        coefficients, scale, cell_parameters = np.split(parameters, bounds)
        coefficients = coefficients.reshape(self.n_terms, -1)
        shape = self.cells_shape
        return coefficients, scale, cell_parameters.reshape(shape)

    def compute_posterior(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Compute the log likelihood of each row, the posterior of its latent values, and the linear predictors.

        A cell is a combination of latent true values of the reported predictors. The
        posterior has the shape (n_classes, n_cells, n_rows), with one class for a
        numeric target.
        """
        coefficients, scale, cell_parameters = self.split(parameters)
        linear = self.compute_linear(coefficients)
        log_cells = self.compute_log_cells(cell_parameters)
        log_cells = log_cells + self.log_likelihoods
        joint = self.target.log_densities(linear, scale) + log_cells
        # Sum over the latent true values, and divide by the sum (Bayes' rule).
        log_likelihood = log_sum(joint.reshape(-1, joint.shape[2]))
        return log_likelihood, np.exp(joint - log_likelihood), linear

    def evaluate(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Compute the log likelihood of each row, and its gradient (n_rows, n_parameters).

        The likelihood of a row is a sum over the cells, the combinations of latent true
        values of the reported predictors.
        """
        # Fisher's identity: the gradient of the likelihood is the posterior mean of the
        # gradient of the likelihood with known true values.
        log_likelihood, posterior, linear = self.compute_posterior(parameters)
        _, scale, cell_parameters = self.split(parameters)
        residuals, by_scale = self.target.scores(linear, scale, posterior)
        prior = np.exp(self.compute_log_cells(cell_parameters))
        excess = posterior.sum(axis=0) - prior
        # The chain rule, in the order of `split`: i are rows, k terms, j linear predictors,
        # and c cells.
        blocks = [
            np.einsum("ik,ji->ikj", self.known, residuals.sum(axis=1)),
            np.einsum("ck,jci->ikj", self.cell_features, residuals),
            by_scale.T,
            np.einsum("ik,ci->ikc", self.known, excess[1:]),
        ]
        n_rows = len(log_likelihood)
        flat = [block.reshape(n_rows, math.prod(block.shape[1:])) for block in blocks]
        return log_likelihood, np.hstack(flat)


def maximize(
    model: HiddenModel, clusters: Indices | None
) -> tuple[Floats, Floats, float]:
    """Maximize the likelihood, and estimate a covariance that is robust to clusters of rows.

    `clusters` has the index of the cluster of each row; None if rows are independent.
    Return the parameters, their covariance, which is NaN if the likelihood has no clear
    maximum, and the log likelihood.
    """
    total = model.weights.sum()

    def compute_loss(parameters: Floats) -> tuple[float, Floats]:
        # Mean negative log likelihood, and its gradient.
        log_likelihood, scores = model.evaluate(parameters)
        weights = model.weights / total
        return -float(weights @ log_likelihood), -(weights @ scores)

    # The loss is a mean over rows, so the tolerance does not depend on their number.
    search = minimize(
        compute_loss,
        model.make_initial(),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-6, "maxiter": 1000},
    )
    parameters, inverse = _refine(search.x, lambda at: total * compute_loss(at)[1])
    log_likelihood, scores = model.evaluate(parameters)
    covariance = np.full((len(parameters), len(parameters)), np.nan)
    if inverse is not None:
        # The sandwich estimator is valid for a misspecified model, too (Huber 1967).
        weighted = scores * model.weights[:, np.newaxis]
        sums = sum_by_cluster(weighted, clusters)
        # The correction n / (n - 1) for n clusters, as in survey packages.
        correction = len(sums) / max(len(sums) - 1, 1)
        covariance = correction * inverse @ (sums.T @ sums) @ inverse
    return parameters, covariance, float(model.weights @ log_likelihood)


def _refine(
    parameters: Floats, gradient: Callable[[Floats], Floats]
) -> tuple[Floats, Floats | None]:
    """Minimize a loss by Newton steps, from near its minimum, given its gradient.

    Return the parameters and the inverse of the information matrix (the second
    derivatives), which is None if the likelihood has no clear maximum.
    """
    # Three to six steps are usual.
    for _ in range(50):
        information = np.atleast_2d(approx_fprime(parameters, gradient))
        inverse = _invert((information + information.T) / 2)
        if inverse is None:
            return parameters, None
        slope = gradient(parameters)
        step = -inverse @ slope
        parameters = parameters + step
        # The Newton decrement: the squared length of the step in standard errors.
        if -slope @ step < 1e-14:
            return parameters, inverse
    return parameters, None


def _invert(information: Floats) -> Floats | None:
    """Invert a symmetric matrix; return None if it is not clearly positive definite."""
    diagonal = np.diag(information)
    if not np.isfinite(information).all() or (diagonal <= 0).any():
        return None
    # Scaled to a unit diagonal, the eigenvalues do not depend on the units of the
    # parameters. Eigenvalues below 1e-8 may be rounding errors.
    scales = np.sqrt(np.outer(diagonal, diagonal))
    if np.linalg.eigvalsh(information / scales)[0] < 1e-8:
        return None
    return np.asarray(np.linalg.inv(information))


def sum_by_cluster(rows: Floats, clusters: Indices | None) -> Floats:
    """Sum the rows of each cluster; shape (n_clusters, n_columns). Without clusters, each row is a cluster."""
    if clusters is None:
        return rows
    sums = np.zeros((int(clusters.max()) + 1, rows.shape[1]))
    np.add.at(sums, clusters, rows)
    return sums
