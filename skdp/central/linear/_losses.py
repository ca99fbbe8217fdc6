"""Logistic losses on integers, and their second derivatives for normal columns."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit, softmax

from skdp._arrays import Floats, Indices

# Integer that represents a residual of 1: the wrong class predicted with probability 1.
RESIDUAL_UNIT = 1 << 15

# Integer that represents a logit of 1.
LOGIT_UNIT = 1 << 10

# Logits are clipped to this size: a change of probability by ``e**-16`` is less than a
# step of residuals.
MAX_LOGIT = 16

# Largest fraction of the rows whose second derivatives are clipped.
MAX_CLIPPED_FRACTION = 0.05

# Nodes for means over the standard normal distribution, and their weights.
NODES = np.linspace(-6, 6, 97)

NODE_WEIGHTS = stats.norm.pdf(NODES) / stats.norm.pdf(NODES).sum()

# Logits in steps of 1 / `LOGIT_UNIT`.
Logits = NDArray[np.int16]


# Rows are weighted such that the residuals of a row are not longer than at equal logits.
# The weight does not depend on the class of the row, so the expected gradient at the true
# coefficients remains 0. This would not hold if long residuals were clipped.


class BinaryLoss:
    """Weighted logistic loss of two classes, a function of one logit."""

    n_outputs = 1
    rate = 1.0
    # The square of the largest residual, in units of `RESIDUAL_UNIT`.
    square = (RESIDUAL_UNIT // 2) ** 2

    def residuals(self, logits: NDArray[Any], codes: Indices) -> NDArray[np.int16]:
        """Return the derivative of the loss of each row by its logit, in steps; shape (n_rows, 1).

        `logits` are in steps of 1 / `LOGIT_UNIT`, residuals in steps of 1 / `RESIDUAL_UNIT`, and `codes` are 0 or 1.
        """
        table = tabulate_residuals()
        steps = np.multiply(codes, len(table) // 2, dtype=np.intp)
        steps += logits[:, 0]
        steps += len(table) // 4
        return table.take(steps)[:, np.newaxis]

    def find_log_odds(self, coefficients: Floats, constant: float) -> Floats:
        """Return the coefficients of the log odds of the second class; shape (n_columns + 1, 1)."""
        return coefficients


@cache
def tabulate_residuals() -> NDArray[np.int16]:
    """Return the residuals of the first and then of the second of two classes for all logits, in steps."""
    largest = MAX_LOGIT * LOGIT_UNIT
    probabilities = expit((np.arange(-largest, largest + 1) + 0.5) / LOGIT_UNIT)
    # Weights limit the largest possible residual at each logit to the residual at 0.
    weights = 0.5 / np.maximum(probabilities, 1 - probabilities)
    residuals = np.append(probabilities, probabilities - 1)
    return np.rint(RESIDUAL_UNIT * np.tile(weights, 2) * residuals).astype(np.int16)


@cache
def tabulate_smaller() -> Floats:
    """Return the probability of the less probable of two classes for all sizes of a logit, in steps."""
    return expit(-np.arange(MAX_LOGIT * LOGIT_UNIT + 1) / LOGIT_UNIT)


class SoftmaxLoss:
    """Weighted logistic loss of several classes, a function of as many logits."""

    # For two classes, `BinaryLoss` gives the same models in a tenth of the time.

    def __init__(self, n_classes: int) -> None:
        """Tabulate the exponentials of differences of logits, in steps."""
        self.n_outputs = n_classes
        # A step for one logit changes the others, too. At equal probabilities, the second
        # derivatives of all logits have the eigenvalue 1 / n_classes, and those of one
        # logit are (1 - 1 / n_classes) / n_classes.
        self.rate = 1 - 1 / n_classes
        # The square of the norm of the residuals at equal logits.
        self.square = RESIDUAL_UNIT**2 * (n_classes - 1) // n_classes
        differences = np.arange(2 * MAX_LOGIT * LOGIT_UNIT + 1)
        self._powers = np.rint(2.0**30 * np.exp(-differences / LOGIT_UNIT)).astype(
            np.int64
        )

    def residuals(self, logits: NDArray[Any], codes: Indices) -> Floats:
        """Return the derivatives of the loss of each row by its logits, in steps; shape (n_rows, n_classes).

        `logits` are in steps of 1 / `LOGIT_UNIT`, and residuals in steps of 1 / `RESIDUAL_UNIT`.
        """
        largest = logits.max(axis=1, keepdims=True).astype(np.intp)
        powers = self._powers[largest - logits]
        # The residuals are the probabilities, rounded down, minus 1 for the class of the
        # row. Their norm is largest if this class is the least probable class.
        residuals = powers * RESIDUAL_UNIT // powers.sum(axis=1, keepdims=True)
        smallest = residuals.min(axis=1, keepdims=True)
        squares = (residuals**2).sum(axis=1, keepdims=True)
        largest_squares = squares + RESIDUAL_UNIT * (RESIDUAL_UNIT - 2 * smallest)
        residuals[np.arange(len(codes)), codes] -= RESIDUAL_UNIT
        # The weight of the row reduces this largest norm to the norm at equal logits.
        return np.trunc(residuals * np.sqrt(self.square / largest_squares))

    def find_log_odds(self, coefficients: Floats, constant: float) -> Floats:
        """Approximate the coefficients of the log odds of each class against the others, near the mean of the rows.

        Both have the shape (n_columns + 1, n_classes), with the constant last, whose value is `constant`.
        """
        mean = softmax(constant * coefficients[-1]).clip(2.0**-30, 1 - 2.0**-30)
        log_odds = (coefficients - (coefficients @ mean)[:, np.newaxis]) / (1 - mean)
        log_odds[-1] = logit(mean) / constant
        return log_odds


def to_logits(products: Floats) -> Logits:
    """Round products of rows and coefficients to logits in steps of 1 / `LOGIT_UNIT`, and clip them."""
    largest = MAX_LOGIT * LOGIT_UNIT
    return np.clip(np.floor(products * LOGIT_UNIT), -largest, largest).astype(np.int16)


def predict_information(coefficients: Floats, n_rows: float, squares: Floats) -> Floats:
    """Predict sums of second derivatives from the coefficients of a logit, for normal columns.

    `squares` are the expected products of two columns, of mean 0, and of the constant, which is last. They have the
    shape of the result, (n_columns + 1, n_columns + 1).
    """
    logits, slopes = find_nodes(coefficients, squares)
    # A smaller probability would be uncertain.
    derivatives = NODE_WEIGHTS * np.maximum(expit(-np.abs(logits)), 2.0**-12) / 2
    # Only one combination of the columns depends on the logit: their covariances with it.
    total, mean, square = (derivatives @ NODES**power for power in range(3))
    last = np.append(np.zeros(len(slopes) - 1), math.sqrt(squares[-1, -1]))
    sums = total * squares + (square - total) * np.outer(slopes, slopes)
    cross = mean * np.outer(slopes, last)
    return n_rows * (sums + cross + cross.T)


def find_nodes(coefficients: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Return the logits of normal columns at `NODES`, and the covariances of the columns with a standardized logit."""
    slopes = squares[:, :-1] @ coefficients[:-1]
    norm = max(math.sqrt(float(slopes @ coefficients)), 2.0**-100)
    constant = math.sqrt(squares[-1, -1]) * coefficients[-1]
    return constant + norm * NODES, slopes / norm


def bound_smaller(coefficients: Floats, squares: Floats) -> float:
    """Bound the smaller probability in all but a few rows of normal columns, see `predict_information`."""
    logits, _ = find_nodes(coefficients, squares)
    smaller = expit(-np.abs(logits))
    order = np.argsort(-smaller)
    covered = np.cumsum(NODE_WEIGHTS[order]) > MAX_CLIPPED_FRACTION
    return float(smaller[order[np.argmax(covered)]])
