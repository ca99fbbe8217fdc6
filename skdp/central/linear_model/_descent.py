"""Noisy gradient descent on rows of integers: each step releases a sum of which the sensitivity is exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import UNIT, Rows

_CERTAIN = 1 << 15
"""Of residuals: that of a certain prediction of the wrong class."""

_FINE = 1 << 10
"""Of logits: places to 1."""

_MOST_LOGIT = 16
"""Beyond, probabilities hardly change."""


@dataclass(frozen=True)
class Pace:
    """How steps add up."""

    momentum: float
    rate: float
    """Over the inverse of the largest curvature; below ``2 (1 + momentum)`` no quadratic loss diverges."""


PLAIN = Pace(0.85, 3.0)
SCALED = Pace(0.7, 1.5)
"""Of steps that moments have scaled: they are equally long in all directions, and fewer."""

_RIDGE = 10.0
"""Added to noisy moments, over the noise's standard deviation and the root of their dimension: its norm is about 2."""


class Loss(Protocol):
    """What is minimised, a function of the logits of a row and its class."""

    n_outputs: int
    """The number of logits of a row."""
    square: int
    """The square of the largest norm of the residuals of a row."""
    curvature: float
    """The largest second derivative; of weighted rows, that expected."""

    def residuals(
        self, logits: NDArray[np.int64], codes: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return the derivative of the loss by each logit, in units of `_CERTAIN`."""


# Weighted, no residuals of a row are longer than at equal logits. Its weight is that of all its classes: the gradient
# that is expected of the true coefficients remains 0. It would not if residuals that are too long were cut.


class BinaryLoss:
    """Logistic loss of two classes."""

    n_outputs, curvature = 1, 0.25

    def __init__(self, *, weighted: bool = False) -> None:
        logits = (
            np.arange(-_MOST_LOGIT * _FINE, _MOST_LOGIT * _FINE + 1) + 0.5
        ) / _FINE
        probabilities = 1 / (1 + np.exp(-logits))
        weights = (
            0.5 / np.maximum(probabilities, 1 - probabilities) if weighted else 1.0
        )
        self._residuals = np.rint(
            _CERTAIN * weights * np.stack([probabilities, probabilities - 1])
        )
        self.square = int(np.abs(self._residuals).max()) ** 2

    def residuals(
        self, logits: NDArray[np.int64], codes: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        return self._residuals[codes[:, np.newaxis], logits + _MOST_LOGIT * _FINE]


class SoftmaxLoss:
    """Logistic loss of several classes, as of `softmax`."""

    curvature = 0.5

    def __init__(self, n_classes: int, *, weighted: bool = False) -> None:
        self.n_outputs = n_classes
        self._powers = np.rint(
            2.0**30 * np.exp(-np.arange(2 * _MOST_LOGIT * _FINE + 1) / _FINE)
        ).astype(np.int64)
        # The residuals of the other classes are probabilities, rounded down, which add up to at most that of the class.
        self._weighted = weighted
        self.square = (
            _CERTAIN**2 * (n_classes - 1) // n_classes if weighted else 2 * _CERTAIN**2
        )

    def residuals(
        self, logits: NDArray[np.int64], codes: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        powers = self._powers[logits.max(axis=1, keepdims=True) - logits]
        residuals = powers * _CERTAIN // powers.sum(axis=1, keepdims=True)
        weights: float | NDArray[np.float64] = 1.0
        if self._weighted:  # by the residuals of the least probable class
            least = residuals.min(axis=1, keepdims=True)
            squares = _CERTAIN * (_CERTAIN - 2 * least) + (residuals**2).sum(
                axis=1, keepdims=True
            )
            weights = np.sqrt(self.square / squares)
        residuals[np.arange(len(codes)), codes] -= _CERTAIN
        return np.trunc(residuals * weights)


def gradient(
    rows: Rows, coefficients: NDArray[np.float64], loss: Loss
) -> NDArray[np.int64]:
    """Return the exact sum of the gradients of all rows, which one row changes by at most `largest_change`."""
    # Logits, too, are sums of integers: otherwise, the place of a row in a block would show in its logit.
    largest = float(np.linalg.norm(coefficients)) * (math.isqrt(rows.square) + 1) + 1
    weights = np.rint(coefficients * 2.0 ** (scale := 50 - int(np.frexp(largest)[1])))
    n_columns = rows.n_columns
    total = np.zeros(coefficients.shape, np.int64)
    for block, part in rows.blocks():
        logits = part @ weights[:n_columns]
        if rows.constant:
            logits += rows.constant * weights[-1]
        logits *= _FINE / UNIT * 2.0**-scale
        np.floor(logits, out=logits)
        np.maximum(
            logits, -_MOST_LOGIT * _FINE, out=logits
        )  # np.clip takes several times as long on a block
        np.minimum(logits, _MOST_LOGIT * _FINE, out=logits)
        residuals = loss.residuals(logits.astype(np.int64), rows.codes[block])
        total[:n_columns] += (part.T @ residuals).astype(np.int64)
        if rows.constant:
            total[-1] += rows.constant * residuals.sum(axis=0).astype(np.int64)
    return total


def largest_change(rows: Rows, loss: Loss) -> int:
    """Return the square of the largest norm of what one row adds to `gradient`."""
    return rows.square * loss.square


def plain_step(rows: Rows, loss: Loss, n_rows: float) -> float:
    """Return the step for the largest curvature that rows are expected to have."""
    return PLAIN.rate / (loss.curvature * rows.reach**2 * n_rows)


def scaled_step(
    rows: Rows, loss: Loss, moments: NDArray[np.float64], error: float, n_rows: float
) -> NDArray[Any]:
    """Return the matrix of a step that noisy moments scale: the inverse of a bound of the second derivatives."""
    values, vectors = np.linalg.eigh(moments / UNIT**2)
    ridge = _RIDGE * math.sqrt(len(values)) * error / UNIT**2
    step = np.zeros((rows.n_weights, rows.n_weights))
    step[: len(values), : len(values)] = (
        vectors / (np.maximum(values, 0) + ridge) @ vectors.T
    )
    if rows.constant:
        step[-1, -1] = 1 / ((rows.constant / UNIT) ** 2 * n_rows + ridge)
    return SCALED.rate / loss.curvature * step


def descend(
    rows: Rows,
    loss: Loss,
    noise: NDArray[np.object_],
    step: float | NDArray[np.float64],
    momentum: float,
) -> NDArray[np.float64]:
    """Minimise the loss by its gradients plus noise, one per step; return the mean of the second half of the steps."""
    coefficients = velocity = mean = np.zeros(noise.shape[1:])
    late = range(len(noise) // 2, len(noise))
    for place, drawn in enumerate(noise):
        exact = rows.sum(partial(gradient, coefficients=coefficients, loss=loss))
        total = (exact.astype(object) + drawn).astype(float)
        velocity = momentum * velocity + np.dot(step, total / (UNIT * _CERTAIN))
        coefficients = coefficients - velocity
        if place in late:
            mean = mean + coefficients / len(late)
    return mean
