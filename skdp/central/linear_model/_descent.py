"""Noisy gradient descent on rows of integers: each step releases a sum of which the sensitivity is exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

UNIT = 1 << 14
"""Of the values of a row: the place of the end of its bounds that is farther from where they start."""

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

    places: NDArray[np.int16]
    codes: NDArray[np.intp]
    """The class of each row."""
    square: int
    """The square of the largest norm of a row, its constant included."""
    constant: int = 0
    """A last value, of all rows; 0 for none."""

    @classmethod
    def of(
        cls,
        columns: list[NDArray[np.float64]],
        ends: NDArray[np.float64],
        starts: NDArray[np.float64],
        codes: NDArray[Any],
    ) -> Rows:
        """Place values between bounds on a grid whose 0 is at a start."""
        places = np.empty((len(codes), len(columns)), np.int16)
        lows, highs = ends.T
        scale = widths(ends, starts)
        for rows in _slices(places):
            part = np.stack([column[rows] for column in columns], axis=1)
            np.clip(part, lows, highs, out=part)
            part -= starts
            part /= scale
            part *= UNIT
            places[rows] = part  # cut towards 0
        return cls(places, codes.astype(np.intp), len(columns) * UNIT**2)

    @property
    def reach(self) -> float:
        """The largest norm, in units of the bounds."""
        return math.sqrt(self.square) / UNIT

    @property
    def n_weights(self) -> int:
        """The number of values of a row, its constant included."""
        return self.places.shape[1] + (self.constant > 0)

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Return some rows after others, without their constant; the next overwrite them."""
        buffer = np.empty((0, 0))
        for rows in _slices(self.places):
            part = self.places[rows]
            if not buffer.size:
                buffer = np.empty(part.shape)
            np.copyto(buffer[: len(part)], part)
            yield rows, buffer[: len(part)]

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The squared norm of each row, without its constant."""
        squares = np.empty(len(self.places))
        for rows, part in self.blocks():
            np.einsum("ij,ij->i", part, part, out=squares[rows])
        return squares

    def clipped(self, square: int) -> Rows:
        """Shrink the rows whose squared norm is larger, towards 0."""
        places = self.places.copy()
        (long,) = np.nonzero(self.squares > square)
        # The three roundings make the factor too large by less than 2**-50, and values are cut towards 0.
        factors = np.sqrt(square / self.squares[long]) * (1 - 2.0**-40)
        places[long] = places[long] * factors[:, np.newaxis]
        return Rows(places, self.codes, square)

    def total(self) -> list[int]:
        """Return the sum of the rows, which one row changes by at most the largest norm."""
        sums = [part.sum(axis=0) for _, part in self.blocks()]
        return [sum(map(int, column)) for column in zip(*sums, strict=True)] or [0] * self.places.shape[1]

    def moments(self) -> NDArray[np.int64]:
        """Return the sums of the products of two values, of all pairs, without the constant."""
        total = np.zeros((self.places.shape[1],) * 2, np.int64)
        for _, part in self.blocks():
            total += (part.T @ part).astype(np.int64)
        return total

    @property
    def largest_moments(self) -> int:
        """The square of the largest norm of what one row adds to the moments, each pair counted once."""
        # Half the sum of the fourth power of its norm and the fourth powers of its values, each below 2 UNIT.
        square = self.square - self.constant**2
        return (square * (square + min(square, 4 * UNIT**2)) + 1) // 2

    def centred(self, middle: NDArray[np.int16]) -> Rows:
        """Subtract a public row of integers, of less than `UNIT` in size."""
        return Rows(self.places - middle, self.codes, sum((UNIT + abs(int(place))) ** 2 for place in middle))

    def with_constant(self, constant: int) -> Rows:
        """Add a last column of one integer."""
        return replace(self, square=self.square + constant**2, constant=constant)


def _slices(table: NDArray[Any]) -> Iterator[slice]:
    step = max(1, _BLOCK // max(table.shape[1], 1))
    return (slice(start, start + step) for start in range(0, len(table), step))


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
    n_columns = rows.places.shape[1]
    total = np.zeros(coefficients.shape, np.int64)
    for block, part in rows.blocks():
        logits = part @ weights[:n_columns]
        if rows.constant:
            logits += rows.constant * weights[-1]
        logits *= _FINE / UNIT * 2.0**-scale
        np.clip(np.floor(logits, out=logits), -_MOST_LOGIT * _FINE, _MOST_LOGIT * _FINE, out=logits)
        residuals = loss.residuals(logits.astype(np.int64), rows.codes[block])
        total[:n_columns] += (part.T @ residuals).astype(np.int64)
        if rows.constant:
            total[-1] += rows.constant * residuals.sum(axis=0).astype(np.int64)
    return total


def largest_change(rows: Rows, loss: Loss) -> int:
    """Return the square of the largest norm of what one row adds to `gradient`."""
    return rows.square * loss.square * _CERTAIN**2


def plain_step(rows: Rows, loss: Loss, n_rows: float) -> float:
    """Return the step that no table can make diverge."""
    return PLAIN.rate / (loss.curvature * rows.reach**2 * n_rows)


def scaled_step(rows: Rows, loss: Loss, moments: NDArray[np.float64], error: float, n_rows: float) -> NDArray[Any]:
    """Return the matrix of a step that noisy moments scale: the inverse of a bound of the second derivatives."""
    values, vectors = np.linalg.eigh(moments / UNIT**2)
    ridge = _RIDGE * math.sqrt(len(values)) * error / UNIT**2
    step = np.zeros((rows.n_weights, rows.n_weights))
    step[: len(values), : len(values)] = vectors / (np.maximum(values, 0) + ridge) @ vectors.T
    if rows.constant:
        step[-1, -1] = 1 / ((rows.constant / UNIT) ** 2 * n_rows + ridge)
    return SCALED.rate / loss.curvature * step


def descend(
    rows: Rows, loss: Loss, noise: NDArray[np.object_], step: float | NDArray[np.float64], momentum: float
) -> NDArray[np.float64]:
    """Minimise the loss by its gradients plus noise, one per step; return the mean of the second half of the steps."""
    coefficients = velocity = mean = np.zeros(noise.shape[1:])
    late = range(len(noise) // 2, len(noise))
    for place, drawn in enumerate(noise):
        total = (gradient(rows, coefficients, loss).astype(object) + drawn).astype(float)
        velocity = momentum * velocity + np.dot(step, total / (UNIT * _CERTAIN))
        coefficients = coefficients - velocity
        if place in late:
            mean = mean + coefficients / len(late)
    return mean
