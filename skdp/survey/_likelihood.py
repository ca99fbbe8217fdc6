"""The likelihood of reports where what they report is hidden: sums over the true values, and their maximum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Numbers = NDArray[np.float64]
Rows = slice | NDArray[np.intp]

# Rows whose arrays of all cells are held at once. Larger arrays leave the cache, and ask
# the system for memory each time: with 65,536 rows, fits take 1.1 to 1.6 times as long
# (2 to 8 cells).
_CHUNK = 1 << 13


# Of a start, which needs logarithms.
_MIN_SHARE = 1e-3

# Of errors of a target with standard deviation 1.
MIN_LOG_DEVIATION = math.log(1e-9)

# The square of a step in standard errors, from which on the information is kept: its
# relative change is of the size of the step in units of the parameters, below 1e-4.
_CLOSE = 1e-8


def derivatives(function: Callable[[Numbers], Numbers], parameters: Numbers) -> Numbers:
    """Return the derivatives of a function by each parameter: (n_parameters, ...)."""
    # Central differences, whose relative error is the square of the step, and that of
    # rounding 1e-16 / 1e-5.
    slopes = []
    for place, parameter in enumerate(parameters):
        step = np.zeros(len(parameters))
        step[place] = 1e-5 * max(1.0, abs(parameter))
        change = function(parameters + step) - function(parameters - step)
        slopes.append(change / (2 * step[place]))
    return np.stack(slopes)


def _log_sum(logs: Numbers) -> Numbers:
    """Return the log of the sum of exponentials over the last axis."""
    # The axis is short, and NumPy's reductions of short axes take ten times as long.
    largest = logs[..., 0]
    for place in range(1, logs.shape[-1]):
        largest = np.maximum(largest, logs[..., place])
    total = np.zeros_like(largest)
    for place in range(logs.shape[-1]):
        total += np.exp(logs[..., place] - largest)
    return np.asarray(largest + np.log(total))


def _shares(logits: Numbers) -> Numbers:
    """Return the probabilities of logits: the last axis adds up to 1."""
    return np.asarray(np.exp(logits - _log_sum(logits)[..., np.newaxis]))


@dataclass(frozen=True, eq=False)
class Features:
    """The features of rows in each cell: known ones, those of the cell, and products of the two."""

    known: Numbers
    hidden: Numbers
    products: Sequence[tuple[int, int]]

    def times(self, coefficients: Numbers) -> Numbers:
        """Return the linear predictors: (n_rows, n_cells, n_classes), for coefficients (n_features, n_classes)."""
        # The features of all rows in all cells would be an array of three axes.
        n_known = self.known.shape[1]
        n_main = n_known + self.hidden.shape[1]
        of_known = self.known @ coefficients[:n_known]
        of_hidden = self.hidden @ coefficients[n_known:n_main]
        sums = of_known[:, np.newaxis, :] + of_hidden
        for place, (known, hidden) in enumerate(self.products):
            product = np.outer(self.known[:, known], self.hidden[:, hidden])
            sums += product[:, :, np.newaxis] * coefficients[n_main + place]
        return sums

    def weighted_sums(self, weights: Numbers) -> Numbers:
        """Return weighted sums over cells: (n_rows, n_features, n_classes); weights have cells second."""
        of_rows = np.zeros((len(weights), weights.shape[2]))
        for cell in range(weights.shape[1]):
            of_rows += weights[:, cell]
        blocks = [self.known[:, :, np.newaxis] * of_rows[:, np.newaxis, :]]
        blocks.append(np.einsum("ihc,hf->ifc", weights, self.hidden))
        for known, hidden in self.products:
            total = np.einsum("ihc,h->ic", weights, self.hidden[:, hidden])
            block = self.known[:, known, np.newaxis] * total
            blocks.append(block[:, np.newaxis, :])
        return np.concatenate(blocks, axis=1)


@dataclass(frozen=True, eq=False)
class Unknown:
    """A number that a channel depends on, in a line: a likelihood is ``constant + number * slope``."""

    name: str
    start: float
    # Of the likelihood of each cell: (n_rows, n_cells).
    cell_slope: Numbers | None = None
    # Of that of each class of a reported target: (n_rows, n_classes).
    class_slope: Numbers | None = None


@dataclass(frozen=True, eq=False)
class HiddenModel:
    """A regression whose predictors, and perhaps the target, are known from reports."""

    # A row has known features, a hidden cell (a combination of true values of the
    # reported predictors) and an outcome. The cell has a multinomial logit given
    # `cell_features`; the outcome a regression on known features, features of the cell
    # and their products.

    # Of the reports of each row under each cell: (n_rows, n_cells).
    likelihoods: Numbers
    # What the distribution of the cell depends on: (n_rows, n_cell_features).
    cell_features: Numbers
    # (n_rows, n_known), a column of ones included.
    known: Numbers
    # The features of each cell: (n_cells, n_hidden).
    hidden: Numbers
    # Columns of `known` and of `hidden` whose product is a feature.
    products: Sequence[tuple[int, int]]
    outcome: Gaussian | Classes
    weights: Numbers
    unknowns: Sequence[Unknown] = ()

    @property
    def n_cells(self) -> int:
        return len(self.hidden)

    @property
    def n_features(self) -> int:
        return self.known.shape[1] + self.hidden.shape[1] + len(self.products)

    @property
    def n_outcome_parameters(self) -> int:
        return self.outcome.n_parameters(self.n_features)

    def split(self, parameters: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Split parameters into those of the outcome, those of the cells, and the unknown numbers."""
        # Of the cells: (n_features, n_cells - 1).
        n = self.n_outcome_parameters
        end = len(parameters) - len(self.unknowns)
        n_features = self.cell_features.shape[1]
        cells = parameters[n:end].reshape(n_features, self.n_cells - 1)
        return parameters[:n], cells, parameters[end:]

    def reports_given_cells(self, numbers: Numbers, rows: slice) -> Numbers:
        """Return the likelihood of the reports of predictors under each cell: (n_rows, n_cells)."""
        likelihoods = self.likelihoods[rows]
        for number, unknown in zip(numbers, self.unknowns, strict=True):
            if unknown.cell_slope is not None:
                likelihoods = likelihoods + number * unknown.cell_slope[rows]
        return np.maximum(likelihoods, 0)

    def seen_given_classes(self, numbers: Numbers, rows: slice) -> Numbers | None:
        """Return the likelihood of what is seen of the target under each class: (n_rows, n_classes)."""
        if not isinstance(self.outcome, Classes):
            return None
        likelihoods = self.outcome.likelihoods[rows]
        for number, unknown in zip(numbers, self.unknowns, strict=True):
            if unknown.class_slope is not None:
                likelihoods = likelihoods + number * unknown.class_slope[rows]
        return likelihoods

    def of_rows(self, rows: Rows) -> HiddenModel:
        """Return the model of a part of the rows."""
        unknowns = []
        for unknown in self.unknowns:
            cell = unknown.cell_slope
            kind = unknown.class_slope
            unknowns.append(
                replace(
                    unknown,
                    cell_slope=None if cell is None else cell[rows],
                    class_slope=None if kind is None else kind[rows],
                )
            )
        return replace(
            self,
            likelihoods=self.likelihoods[rows],
            cell_features=self.cell_features[rows],
            known=self.known[rows],
            outcome=self.outcome.of_rows(rows),
            weights=self.weights[rows],
            unknowns=unknowns,
        )

    def chunks(self) -> list[slice]:
        """Cut the rows into parts that fit into memory."""
        n_rows = len(self.weights)
        return [slice(start, start + _CHUNK) for start in range(0, n_rows, _CHUNK)]

    def features(self, rows: slice) -> Features:
        """Return the features of some rows in each cell."""
        return Features(self.known[rows], self.hidden, self.products)

    def log_priors(self, cells: Numbers, rows: slice) -> Numbers:
        """Return the log probability of each cell given known features: (n_rows, n_cells)."""
        logits = self.cell_features[rows] @ cells
        # The last cell is the reference.
        logits = np.column_stack([logits, np.zeros(len(logits))])
        return logits - _log_sum(logits)[:, np.newaxis]

    def log_likelihoods(self, parameters: Numbers) -> Numbers:
        """Return the log likelihood of each row."""
        parts = []
        for rows in self.chunks():
            parts.append(_log_sum(self._joint(parameters, rows)))
        return np.concatenate(parts)

    def _joint(self, parameters: Numbers, rows: slice) -> Numbers:
        """Return the log probability of cell, reports and outcome: (n_rows, n_cells)."""
        of_outcome, of_cells, numbers = self.split(parameters)
        with np.errstate(divide="ignore"):
            reports = np.log(self.reports_given_cells(numbers, rows))
        seen = self.seen_given_classes(numbers, rows)
        features = self.features(rows)
        outcomes = self.outcome.log_densities(of_outcome, features, rows, seen)
        return self.log_priors(of_cells, rows) + reports + outcomes

    def scores(self, parameters: Numbers) -> Numbers:
        """Return the gradient of each row's log likelihood: (n_rows, n_parameters)."""
        # By Fisher's identity, the mean of the score of the complete data, given what
        # is seen.
        return self.values_and_scores(parameters)[1]

    def values_and_scores(self, parameters: Numbers) -> tuple[Numbers, Numbers]:
        """Return the log likelihood of each row, and its gradient."""
        of_outcome, of_cells, numbers = self.split(parameters)
        parts = []
        values = []
        for rows in self.chunks():
            joint = self._joint(parameters, rows)
            values.append(_log_sum(joint))
            posterior = np.exp(joint - values[-1][:, np.newaxis])
            priors = np.exp(self.log_priors(of_cells, rows))
            seen = self.seen_given_classes(numbers, rows)
            features = self.features(rows)
            outcome = self.outcome.scores(of_outcome, features, rows, seen, posterior)
            excess = (posterior - priors)[:, :-1]
            cells = self.cell_features[rows][:, :, np.newaxis] * excess[:, np.newaxis]
            blocks = [outcome, cells.reshape(len(excess), -1)]
            for unknown in self.unknowns:
                blocks.append(self._number_scores(unknown, parameters, rows, posterior))
            parts.append(np.column_stack(blocks))
        return np.concatenate(values), np.concatenate(parts)

    def posteriors(self, parameters: Numbers) -> Numbers:
        """Return the probability of each cell, given all that is seen of a row: (n_rows, n_cells)."""
        parts = []
        for rows in self.chunks():
            parts.append(_shares(self._joint(parameters, rows)))
        return np.concatenate(parts)

    def _number_scores(
        self, unknown: Unknown, parameters: Numbers, rows: slice, posterior: Numbers
    ) -> Numbers:
        """Return the derivative of each row's log likelihood by an unknown number: (n_rows,)."""
        of_outcome, _, numbers = self.split(parameters)
        score = np.zeros(len(posterior))
        if unknown.cell_slope is not None:
            likelihoods = self.reports_given_cells(numbers, rows)
            ratio = _ratio(unknown.cell_slope[rows], likelihoods)
            score += (posterior * ratio).sum(axis=1)
        if unknown.class_slope is not None and isinstance(self.outcome, Classes):
            seen = self.seen_given_classes(numbers, rows)
            features = self.features(rows)
            shares = self.outcome.shares(of_outcome, features)
            density = self.outcome.densities(shares, seen)
            change = np.einsum("ihc,ic->ih", shares, unknown.class_slope[rows])
            score += (posterior * change / density).sum(axis=1)
        return score

    def total_score(self, parameters: Numbers) -> Numbers:
        """Return the gradient of the weighted log likelihood."""
        return self.weights @ self.scores(parameters)

    def information(self, parameters: Numbers) -> Numbers:
        """Return the observed information: the negative derivative of the score."""
        information = -derivatives(self.total_score, parameters)
        return (information + information.T) / 2

    def start(self) -> Numbers:
        """Return parameters to begin with: shares of the cells from the reports alone."""
        numbers = np.array([unknown.start for unknown in self.unknowns])
        likelihoods = self.reports_given_cells(numbers, slice(None))
        shares = mixture_shares(likelihoods, self.weights)
        n = self.cell_features.shape[1]
        # The first of these features is 1.
        cells = np.zeros((n, self.n_cells - 1))
        cells[0] = np.log(shares[:-1] / shares[-1])
        posterior = likelihoods * shares
        posterior /= posterior.sum(axis=1, keepdims=True)
        seen = self.seen_given_classes(numbers, slice(None))
        outcome = self.outcome.start(self, posterior, seen)
        return np.concatenate([outcome, cells.ravel(), numbers])


def _ratio(slope: Numbers, likelihoods: Numbers | None) -> Numbers:
    """Return the relative change of likelihoods; 0 where nothing is possible."""
    assert likelihoods is not None
    return np.divide(
        slope, likelihoods, out=np.zeros_like(likelihoods), where=likelihoods > 0
    )


@dataclass(frozen=True, eq=False)
class Fit:
    """Parameters of maximum likelihood, and what they say of themselves."""

    parameters: Numbers
    information: Numbers
    log_likelihood: float
    # Whether the information is positive definite, and the score vanishes.
    is_maximum: bool


def maximise(model: HiddenModel) -> Fit:
    """Find the parameters of maximum likelihood: a quasi-Newton search, then Newton's steps."""
    # Rows without a weight add nothing, and a part of the rows might have no others.
    if not model.weights.all():
        model = model.of_rows(np.flatnonzero(model.weights))
    start = model.start()
    # Without reports, least squares are the maximum already.
    is_plain = model.n_cells == 1 and isinstance(model.outcome, Gaussian)
    parameters = start if is_plain else _search(model, start)
    value, score = _value_and_score(model, parameters)
    information = model.information(parameters)
    # Of Newton's method, which needs three to six after the quasi-Newton start.
    most_steps = 50
    # The square of the last step in standard errors.
    converged = 1e-18
    for _ in range(most_steps):
        if not _is_definite(information):
            return Fit(parameters, information, value, False)
        direction = np.linalg.solve(information, score)
        # Of the step, in standard errors.
        square = float(score @ direction)
        if square < converged:
            return Fit(parameters, information, value, _is_known(model, information))
        size = 1.0
        while size > 1e-4:
            trial = parameters + size * direction
            trial_value, trial_score = _value_and_score(model, trial)
            if trial_value >= value - 1e-9 * abs(value):
                break
            size /= 2
        parameters, value, score = trial, trial_value, trial_score
        # Close to the maximum, the information of the last step is that of the maximum
        # up to a part as small as the step.
        if square > _CLOSE:
            information = model.information(parameters)
    # Rounding may keep the step above the limit.
    is_maximum = square < _CLOSE and _is_known(model, information)
    return Fit(parameters, information, value, is_maximum)


def _is_known(model: HiddenModel, information: Numbers) -> bool:
    """Whether standard errors of log odds are small enough to say anything."""
    if not isinstance(model.outcome, Classes):
        return True
    scales = np.ones(model.n_features)
    n_known = model.known.shape[1]
    scales[1:n_known] = model.known[:, 1:].std(axis=0)
    n = model.n_outcome_parameters
    errors = np.sqrt(np.diag(np.linalg.inv(information))[:n])
    of_terms = errors.reshape(model.n_features, -1) * scales[:, np.newaxis]
    # Of a log odds for a predictor of variance 1: odds of e^100 and e^-100 are alike
    # then, as where predictors tell the target exactly.
    largest_error = 100.0
    return bool((of_terms < largest_error).all())


def _search(model: HiddenModel, start: Numbers) -> Numbers:
    """Climb the likelihood until its gradient is small for a row (BFGS)."""
    total = model.weights.sum()

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        value, score = _value_and_score(model, parameters)
        return -value / total, -score / total

    options = {"maxiter": 500, "gtol": 1e-6}
    result = minimize(loss, start, jac=True, method="BFGS", options=options)
    return np.asarray(result.x)


def _value_and_score(model: HiddenModel, parameters: Numbers) -> tuple[float, Numbers]:
    values, scores = model.values_and_scores(parameters)
    return float(model.weights @ values), model.weights @ scores


def _is_definite(matrix: Numbers) -> bool:
    """Whether a symmetric matrix is positive definite, far from the rounding of its entries."""
    scale = np.sqrt(np.abs(np.diag(matrix)))
    if not np.isfinite(matrix).all() or (scale == 0).any():
        return False
    return bool(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0] > 1e-8)


def disagreement(
    likelihoods: Numbers,
    posteriors: Numbers,
    weights: Numbers,
    cluster_codes: NDArray[np.intp] | None,
) -> float:
    """Return how far the shares of a fit are from those of the reports alone, in standard errors.

    Where the model holds, the shares of the fit are the more precise ones, so that the
    difference has at most the variance of the others (Hausman 1978).
    """
    shares = mixture_shares(likelihoods, weights)
    fitted = weights @ posteriors / weights.sum()
    # The information of shares that add up to 1; the last one is the rest.
    mixture = likelihoods @ shares
    slopes = (likelihoods[:, :-1] - likelihoods[:, -1:]) / mixture[:, np.newaxis]
    information = (slopes * weights[:, np.newaxis]).T @ slopes
    if not _is_definite(information):
        return 0.0
    difference = (fitted - shares)[:-1]
    # A share at its bound has its estimate cut off there.
    is_inside = shares[:-1] > 2 * _MIN_SHARE
    if cluster_codes is None:
        covariance = np.linalg.inv(information)
    else:
        scores = slopes * weights[:, np.newaxis]
        covariance = sandwich(information, scores, cluster_codes)
    errors = np.sqrt(np.diag(covariance))
    return float(np.max(np.abs(difference / errors) * is_inside, initial=0.0))


def mixture_shares(likelihoods: Numbers, weights: Numbers) -> Numbers:
    """Return shares of hidden cells to begin with: those of maximum likelihood, none of them 0."""
    shares = likeliest_shares(likelihoods, weights, n_steps=2000, smallest_step=1e-9)
    # A start needs logarithms.
    shares = np.maximum(shares, _MIN_SHARE)
    return np.asarray(shares / shares.sum())


def likeliest_shares(
    likelihoods: Numbers, weights: Numbers, *, n_steps: int, smallest_step: float
) -> Numbers:
    """Return the shares of hidden cells of maximum likelihood, by EM from equal shares."""
    n_cells = likelihoods.shape[1]
    shares = np.full(n_cells, 1 / n_cells)
    # Rows with the same reports count together.
    rows, places = np.unique(likelihoods, axis=0, return_inverse=True)
    counts = np.bincount(places.ravel(), weights) / weights.sum()
    for _ in range(n_steps):
        mixture = rows @ shares
        update = shares * (rows.T @ (counts / mixture))
        change = np.abs(update - shares).max()
        shares = update
        if change < smallest_step:
            break
    return shares


@dataclass(frozen=True, eq=False)
class Classes:
    """An outcome of several classes: a multinomial logit, whose last class is the reference."""

    # Of what is seen of the target under each class, (n_rows, n_classes): 0 and 1 where
    # the target is known.
    likelihoods: Numbers

    @property
    def n_classes(self) -> int:
        return self.likelihoods.shape[1]

    def n_parameters(self, n_features: int) -> int:
        return n_features * (self.n_classes - 1)

    def parts(self) -> list[Any]:
        """Return the rows of each class; all rows if the target is reported."""
        is_known = bool(((self.likelihoods == 0) | (self.likelihoods == 1)).all())
        if not is_known:
            return [slice(None)]
        columns = range(self.n_classes)
        return [np.flatnonzero(self.likelihoods[:, column]) for column in columns]

    def of_rows(self, rows: Rows) -> Classes:
        return Classes(self.likelihoods[rows])

    def shares(self, parameters: Numbers, features: Features) -> Numbers:
        """Return the probability of each class: (n_rows, n_cells, n_classes)."""
        n_features = len(parameters) // (self.n_classes - 1)
        logits = features.times(parameters.reshape(n_features, self.n_classes - 1))
        zeros = np.zeros((*logits.shape[:2], 1))
        return _shares(np.concatenate([logits, zeros], axis=2))

    def densities(self, shares: Numbers, seen: Any) -> Numbers:
        """Return the probability of what is seen: (n_rows, n_cells)."""
        # With an unknown number beyond its range, a class may have a negative one; the
        # derivatives hold as long as the sum is positive.
        density = np.zeros(shares.shape[:2])
        for place in range(self.n_classes):
            density += shares[:, :, place] * seen[:, place, np.newaxis]
        return np.maximum(density, np.finfo(float).tiny)

    def log_densities(
        self, parameters: Numbers, features: Features, rows: slice, seen: Any
    ) -> Numbers:
        return np.log(self.densities(self.shares(parameters, features), seen))

    def scores(
        self,
        parameters: Numbers,
        features: Features,
        rows: slice,
        seen: Any,
        posterior: Numbers,
    ) -> Numbers:
        shares = self.shares(parameters, features)
        density = self.densities(shares, seen)
        # The mean of the indicators of classes, given what is seen, less their shares.
        ratio = posterior / density
        excess = shares * (seen[:, np.newaxis] * ratio[:, :, np.newaxis])
        excess -= shares * posterior[:, :, np.newaxis]
        scores = features.weighted_sums(excess[:, :, :-1])
        return scores.reshape(len(scores), -1)

    def start(self, model: HiddenModel, posterior: Numbers, seen: Any) -> Numbers:
        shares = mixture_shares(seen, model.weights)
        coefficients = np.zeros((model.n_features, self.n_classes - 1))
        coefficients[0] = np.log(shares[:-1] / shares[-1])
        return coefficients.ravel()


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A numeric outcome with normal errors; its last parameter is the log of their standard deviation."""

    values: Numbers

    def n_parameters(self, n_features: int) -> int:
        return n_features + 1

    def parts(self) -> list[Any]:
        """Return the rows of the smaller and of the larger values."""
        is_large = self.values > np.median(self.values)
        return [np.flatnonzero(~is_large), np.flatnonzero(is_large)]

    def of_rows(self, rows: Rows) -> Gaussian:
        return Gaussian(self.values[rows])

    def _residuals(
        self, parameters: Numbers, features: Features, rows: slice
    ) -> tuple[Numbers, float]:
        means = features.times(parameters[:-1, np.newaxis])[:, :, 0]
        # Where predictors determine the target, the likelihood grows without bound as
        # the errors go to 0: below this it is constant, and has no clear maximum.
        log_deviation = max(float(parameters[-1]), MIN_LOG_DEVIATION)
        return self.values[rows][:, np.newaxis] - means, log_deviation

    def log_densities(
        self, parameters: Numbers, features: Features, rows: slice, seen: Any
    ) -> Numbers:
        residuals, log_deviation = self._residuals(parameters, features, rows)
        scaled = residuals * math.exp(-log_deviation)
        return -(scaled**2) / 2 - log_deviation - math.log(2 * math.pi) / 2

    def scores(
        self,
        parameters: Numbers,
        features: Features,
        rows: slice,
        seen: Any,
        posterior: Numbers,
    ) -> Numbers:
        residuals, log_deviation = self._residuals(parameters, features, rows)
        precision = math.exp(-2 * log_deviation)
        weighted = posterior * residuals * precision
        coefficients = features.weighted_sums(weighted[:, :, np.newaxis])[:, :, 0]
        deviation = (posterior * (residuals**2 * precision - 1)).sum(axis=1)
        return np.column_stack([coefficients, deviation])

    def start(self, model: HiddenModel, posterior: Numbers, seen: Any) -> Numbers:
        parts = [model.known, posterior @ model.hidden]
        for of_known, of_hidden in model.products:
            hidden = posterior @ model.hidden[:, of_hidden]
            parts.append((model.known[:, of_known] * hidden)[:, np.newaxis])
        means = np.concatenate(parts, axis=1)
        root = np.sqrt(model.weights)
        coefficients = np.linalg.lstsq(
            means * root[:, np.newaxis], self.values * root, rcond=None
        )[0]
        residuals = self.values - means @ coefficients
        variance = np.average(residuals**2, weights=model.weights)
        return np.append(coefficients, math.log(max(variance, 1e-12)) / 2)


def sandwich(
    information: Numbers, scores: Numbers, cluster_codes: NDArray[np.intp]
) -> Numbers:
    """Return the covariance that holds if the model is wrong (Huber 1967), for rows in clusters."""
    n_clusters = int(cluster_codes.max()) + 1
    totals = np.zeros((n_clusters, scores.shape[1]))
    np.add.at(totals, cluster_codes, scores)
    inverse = np.linalg.inv(information)
    # As survey packages do: few clusters vary less about their own mean.
    correction = n_clusters / max(n_clusters - 1, 1)
    return np.asarray(correction * inverse @ (totals.T @ totals) @ inverse)
