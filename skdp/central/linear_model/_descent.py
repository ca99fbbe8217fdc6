"""Noisy gradient descent on rows of integers: each step releases a sum of which the sensitivity is exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

UNIT = 1 << 15
"""Of the values of a row: the place of the end of its bounds that is farther from where they start."""

_CERTAIN = 1 << 15
"""Of residuals: that of a certain prediction of the wrong class."""

_FINE = 1 << 10
"""Of logits: places to 1."""

_MOST_LOGIT = 16
"""Beyond, probabilities hardly change."""

_MOMENTUM = 0.85
_STEP = 3.0
"""The rate over the inverse of the largest curvature; below ``2 (1 + momentum)`` no quadratic loss diverges."""

_BLOCK = 1 << 17
"""Values at a time, which stay in the cache. Floats add up their products exactly: below 2**(15 + 15 + 17)."""


def widths(ends: NDArray[np.float64], starts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of the end of each pair of bounds that is farther from a start."""
    distances: NDArray[np.float64] = np.abs(ends.T - starts).max(axis=0)
    return distances


@dataclass(frozen=True, eq=False)
class Rows:
    """Private rows whose values are integers, of a bounded norm; they live inside `fit` only."""

    # A float sum of real values depends on the order of its terms, so that a row could change it by more than itself.
    # All products and sums here are of integers below 2**53, which floats hold exactly, in any order.

    places: NDArray[np.float64]
    codes: NDArray[np.intp]
    """The class of each row."""
    square: int
    """The square of the largest norm of a row."""

    @classmethod
    def of(
        cls,
        columns: list[NDArray[np.float64]],
        ends: NDArray[np.float64],
        starts: NDArray[np.float64],
        codes: NDArray[Any],
    ) -> Rows:
        """Place values between bounds on a grid whose 0 is at a start."""
        places = np.empty((len(codes), len(columns)))
        for place, (column, (low, high), start, width) in enumerate(
            zip(columns, ends, starts, widths(ends, starts), strict=True)
        ):
            np.trunc((np.clip(column, low, high) - start) / width * UNIT, out=places[:, place])
        return cls(places, codes.astype(np.intp), len(columns) * UNIT**2)

    @property
    def reach(self) -> float:
        """The largest norm, in units of the bounds."""
        return math.sqrt(self.square) / UNIT

    def squares(self) -> NDArray[np.float64]:
        """Return the squared norm of each row."""
        return np.einsum("ij,ij->i", self.places, self.places)

    def clipped(self, square: int) -> Rows:
        """Shrink the rows whose squared norm is larger, towards 0."""
        squares = np.maximum(self.squares(), 1.0)
        # The three roundings make the factor too large by less than 2**-50, and values are cut towards 0.
        factor = np.where(squares > square, np.sqrt(square / squares) * (1 - 2.0**-40), 1.0)
        return Rows(np.trunc(self.places * factor[:, np.newaxis]), self.codes, square)

    def total(self) -> list[int]:
        """Return the sum of the rows, which one row changes by at most the largest norm."""
        starts = range(0, len(self.places), _BLOCK)
        blocks = [self.places[start : start + _BLOCK].sum(axis=0) for start in starts]
        return [sum(map(int, column)) for column in zip(*blocks, strict=True)] or [0] * self.places.shape[1]

    def centred(self, middle: NDArray[np.float64]) -> Rows:
        """Subtract a public row of integers."""
        return Rows(self.places - middle, self.codes, sum((UNIT + abs(int(place))) ** 2 for place in middle))

    def with_constant(self, constant: int) -> Rows:
        """Add a last column of one integer."""
        places = np.hstack([self.places, np.full((len(self.places), 1), float(constant))])
        return Rows(places, self.codes, self.square + constant**2)


class Loss(Protocol):
    """What is minimised, a function of the logits of a row and its class."""

    n_outputs: int
    """The number of logits of a row."""
    square: int
    """The square of the largest norm of the residuals of a row, over that of `_CERTAIN`."""
    curvature: float
    """The largest second derivative."""

    def residuals(self, logits: NDArray[np.int64], codes: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the derivative of the loss by each logit, in units of `_CERTAIN`."""


class BinaryLoss:
    """Logistic loss of two classes."""

    n_outputs, square, curvature = 1, 1, 0.25

    def __init__(self) -> None:
        logits = (np.arange(-_MOST_LOGIT * _FINE, _MOST_LOGIT * _FINE + 1) + 0.5) / _FINE
        self._probabilities = np.rint(_CERTAIN / (1 + np.exp(-logits)))

    def residuals(self, logits: NDArray[np.int64], codes: NDArray[np.intp]) -> NDArray[np.float64]:
        return self._probabilities[logits + _MOST_LOGIT * _FINE] - (_CERTAIN * codes)[:, np.newaxis]


class SoftmaxLoss:
    """Logistic loss of several classes, as of `softmax`."""

    # The residuals of the other classes are probabilities, rounded down, which add up to at most that of the class.
    square, curvature = 2, 0.5

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes
        self._powers = np.rint(2.0**30 * np.exp(-np.arange(2 * _MOST_LOGIT * _FINE + 1) / _FINE)).astype(np.int64)

    def residuals(self, logits: NDArray[np.int64], codes: NDArray[np.intp]) -> NDArray[np.float64]:
        powers = self._powers[logits.max(axis=1, keepdims=True) - logits]
        residuals = powers * _CERTAIN // powers.sum(axis=1, keepdims=True)
        residuals[np.arange(len(codes)), codes] -= _CERTAIN
        return residuals.astype(float)


def gradient(rows: Rows, coefficients: NDArray[np.float64], loss: Loss) -> NDArray[np.int64]:
    """Return the exact sum of the gradients of all rows, which one row changes by at most `largest_change`."""
    # Logits, too, are sums of integers: otherwise, the place of a row in a block would show in its logit.
    largest = float(np.linalg.norm(coefficients)) * (math.isqrt(rows.square) + 1) + 1
    weights = np.rint(coefficients * 2.0 ** (scale := 50 - int(np.frexp(largest)[1])))
    total = np.zeros(coefficients.shape, np.int64)
    step = max(1, _BLOCK // coefficients.shape[0])
    for start in range(0, len(rows.codes), step):
        part = rows.places[start : start + step]
        logits = np.floor(part @ weights * (_FINE / UNIT * 2.0**-scale))
        logits = np.clip(logits, -_MOST_LOGIT * _FINE, _MOST_LOGIT * _FINE).astype(np.int64)
        total += (part.T @ loss.residuals(logits, rows.codes[start : start + step])).astype(np.int64)
    return total


def largest_change(rows: Rows, loss: Loss) -> int:
    """Return the square of the largest norm of what one row adds to `gradient`."""
    return rows.square * loss.square * _CERTAIN**2


def descend(rows: Rows, loss: Loss, noise: NDArray[np.object_], n_rows: float) -> NDArray[np.float64]:
    """Minimise the loss by its gradients plus noise, one per step; return the mean of the second half of the steps."""
    rate = _STEP / (loss.curvature * rows.reach**2)
    coefficients = velocity = mean = np.zeros(noise.shape[1:])
    late = range(len(noise) // 2, len(noise))
    for step, drawn in enumerate(noise):
        total = (gradient(rows, coefficients, loss).astype(object) + drawn).astype(float)
        velocity = _MOMENTUM * velocity + total / (UNIT * _CERTAIN * n_rows)
        coefficients = coefficients - rate * velocity
        if step in late:
            mean = mean + coefficients / len(late)
    return mean
