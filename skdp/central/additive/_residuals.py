"""Residuals of additive models: integers, whose sums by bin are exact in any order of the rows."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from skdp.base import read_numbers
from skdp.central._logistic_regression import (
    CERTAIN,
    FINE,
    MAX_LOGIT,
    BinaryLoss,
    SoftmaxLoss,
)
from skdp.central.statistics import (
    GRID,
    Floats,
    encode_declared,
    read_values,
    to_places,
)
from skdp.domain import Domain, Interval
from skdp.tables import Table

Integers = NDArray[np.int64]

# Steps from the middle between the bounds of a numeric target to either of them. Floats
# hold the sums of 2**32 residuals exactly.
STEPS = 1 << 20

# Smallest curvature of the logistic loss: a class that is certain in floats has more
# than 0. It is reached beyond logits of 28.
MIN_CURVATURE = 2.0**-40


class Residuals(Protocol):
    """The part of the targets that a model leaves: an integer for each row and output."""

    # The square of the largest norm of the residuals of a row.
    square: int
    # The integer that is a residual of 1, and a response of 1.
    unit: int
    response_unit: int
    # The variance of the response that one row gives.
    row_variance: float

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the residuals of rows, given their responses: (n_outputs, n_rows) both."""

    def scales(self, means: Floats) -> tuple[Floats, Floats]:
        """Return slopes of residuals by the response, and their variances, at mean responses: (n_groups, n_outputs)."""


class ClassResiduals:
    """The gradient of the weighted logistic loss of `DPLogisticRegression`."""

    unit = CERTAIN
    response_unit = FINE
    # The variance of a logit of two equally likely classes. With a rare class it is
    # larger, but effects are not.
    row_variance = 4.0

    def __init__(self, n_classes: int) -> None:
        is_binary = n_classes == 2
        self._loss = BinaryLoss() if is_binary else SoftmaxLoss(n_classes)
        self.square = self._loss.square

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the residuals of rows."""
        logits = np.clip(responses, -MAX_LOGIT * FINE, MAX_LOGIT * FINE).T
        return -self._loss.residuals(logits, targets).T

    def scales(self, means: Floats) -> tuple[Floats, Floats]:
        """Return slopes and variances at mean logits."""
        if self._loss.n_outputs == 1:
            probabilities = expit(means)
            longest = np.maximum(probabilities, 1 - probabilities)
        else:
            probabilities = softmax(means, axis=1)
            norms = (probabilities**2).sum(axis=1, keepdims=True)
            least = probabilities.min(axis=1, keepdims=True)
            longest = np.sqrt(norms + 1 - 2 * least)
        weights = math.sqrt(self.square) / CERTAIN / longest
        variances = np.maximum(probabilities * (1 - probabilities), MIN_CURVATURE)
        return weights * variances, weights**2 * variances


class NumberResiduals:
    """The difference of a number and its prediction, cut at a bound."""

    unit = STEPS
    response_unit = STEPS

    def __init__(self, bound: int, variance: float = 1.0) -> None:
        self.bound = bound
        self.square = bound**2
        # The mean square of residuals, in squares of `unit`.
        self.row_variance = variance

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the differences, cut at the bound."""
        differences = np.clip(targets - responses, -self.bound, self.bound)
        return differences.astype(float)

    def scales(self, means: Floats) -> tuple[Floats, Floats]:
        """Return slopes and variances, which are the same in all groups."""
        return np.ones(means.shape), np.full(means.shape, self.row_variance)


def encode_bins(table: Table, domain: Domain, handle_unknown: str) -> list[Any]:
    """Return the bin of each row in each column; numbers beyond all bins are in the outer ones."""
    columns = []
    for name, column in zip(domain.columns, table.columns, strict=False):
        attribute = domain[name]
        if isinstance(attribute, Interval) and isinstance(attribute.edges[0], float):
            (numbers,) = read_values(Table((name,), (column,), table.native))
            column = np.clip(numbers, attribute.edges[0], attribute.edges[-1])
        columns.append(column)
    features = Table(domain.columns, tuple(columns), table.native)
    return list(encode_declared(features, domain, handle_unknown))


def place_target(target: Table, ends: Floats) -> Integers:
    """Put a numeric target, in `STEPS` from the middle between its bounds."""
    (numbers,) = read_numbers(target)
    places = to_places(numbers, *ends) * (STEPS / GRID)
    return np.rint(places).astype(np.int64)


def bin_sums(codes: NDArray[Any], residuals: Floats, n_bins: int) -> Integers:
    """Add up residuals by bin: (n_bins, n_outputs)."""
    # A row adds its residuals to one bin, so that it changes the sums by their norm. The
    # last count is of rows in no bin.
    sums = []
    for row_residuals in residuals:
        sums.append(np.bincount(codes, row_residuals, n_bins + 1)[:n_bins])
    return np.stack(sums, axis=1).astype(np.int64)


def size_counts(residuals: Floats, limits: Integers) -> Integers:
    """Count residuals by the first of ascending limits that their size does not exceed."""
    places = np.searchsorted(limits, np.abs(residuals[0]))
    return np.bincount(places, minlength=len(limits))
