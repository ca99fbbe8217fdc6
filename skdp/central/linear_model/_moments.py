"""Coefficients of a linear model from noisy sums of products of columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import (
    UNIT,
    Noise,
    Rows,
    in_units,
    largest_moments,
)
from skdp.privacy import Share
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

_PARTS = 23, 23, 4
"""Shares of the budget: for products of two columns, for those with the target, and for the square of the target."""

_LEAST = 3.0
"""The least sum of squares in a direction, in norms of the noise."""

_SINGULAR = 2.0**-40
"""The least sum of squares in a direction, in those of the largest one, so that floats can divide by it."""


class Fit(NamedTuple):
    """Coefficients, in units of the bounds; that of the constant is the last."""

    coefficients: Floats
    covariance: Floats
    """Of the noise and of the sample, and the square of the bias by the ridge, together."""
    ridge: float
    """What was added to the sums of squares."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy sums of products of columns, of which the last is constant, and with a target; in units of the bounds."""

    products: Floats
    with_target: Floats
    square_of_target: float
    product_error: float
    target_error: float
    square_error: float
    """Standard deviations of the noise of each."""

    @property
    def size(self) -> float:
        """The norm of the noise of the products, but for a factor of about 2."""
        return math.sqrt(len(self.products)) * self.product_error

    def solve(self, penalties: Floats, n_rows: float, *, constant: bool) -> Fit:
        """Find coefficients, with penalties of their squares and a ridge as the noise needs it."""
        n_columns = len(penalties)
        whole = (
            self.products if constant else self.products[:n_columns, :n_columns]
        ).copy()
        with_target = self.with_target[: len(whole)]
        columns = np.arange(n_columns)
        whole[columns, columns] += penalties
        values, vectors, target = self._slopes(whole, with_target, n_columns)
        ridge = self._ridge(values, vectors.T @ target)
        whole[columns, columns] += ridge
        inverse = np.linalg.inv(whole)
        found = inverse @ with_target
        noise = self._noise(found)
        error = self.square_of_target - 2 * found @ with_target + found @ whole @ found
        # The coefficients follow the noise, too, which makes the errors look smaller than they are.
        unexplained = max(float(error + np.trace(inverse @ noise)), self.square_error)
        # What the ridge shrinks the slopes by is seen with the noise of slopes without it, as far as these are known.
        known = vectors / np.maximum(values, self.size) @ vectors.T
        bias = known @ target - found[:n_columns]
        if constant:
            to_all = np.vstack([np.eye(n_columns), -whole[-1:, :-1] / whole[-1, -1]])
            known, bias = to_all @ known @ to_all.T, to_all @ bias
            known[-1, -1] += 1 / whole[-1, -1]
        sample = unexplained / max(n_rows - len(found), 1.0) * known
        covariance = sample + known @ noise @ known + np.outer(bias, bias)
        return Fit(found, np.asarray(covariance, np.float64), ridge)

    def _slopes(
        self, whole: Floats, with_target: Floats, n_columns: int
    ) -> tuple[Floats, Floats, Floats]:
        """Solve for the constant, if there is one; return eigenvalues and eigenvectors of the rest, and its target."""
        if len(whole) == n_columns:
            return *np.linalg.eigh(whole), with_target
        whole[-1, -1] = max(float(whole[-1, -1]), _LEAST * self.size)
        shares = whole[-1, :-1] / whole[-1, -1]
        rest = whole[:-1, :-1] - np.outer(shares, whole[-1, :-1])
        return *np.linalg.eigh(rest), with_target[:-1] - shares * with_target[-1]

    def _ridge(self, values: Floats, with_target: Floats) -> float:
        """Choose the ridge of the least estimated error of prediction, by eigenvalues."""
        # The error on noisy moments, plus what the noise makes it look smaller by (Stein's identity, to first order):
        # the coefficients move by the inverse times the noise.
        # Where the noise is a tenth of the number of rows or more, little else can be learnt.
        hidden = self.product_error / max(
            float(self.products[-1, -1]), self.product_error
        )
        wanted = max(
            _LEAST * self.size * max(1.0, 10 * hidden), _SINGULAR * float(values[-1])
        )
        least = max(0.0, wanted - float(values[0]))
        tries = least + self.size * np.append(0.0, 2.0 ** np.arange(-3, 12))
        risks = []
        for ridge in tries:
            inverses = 1 / (values + ridge)
            found = inverses * with_target
            squares = found**2
            follows = inverses.sum() * (
                self.target_error**2 + self.product_error**2 * squares.sum()
            )
            follows += self.product_error**2 * (squares * inverses).sum()
            risks.append(
                (squares * values).sum() - 2 * found @ with_target + 2 * follows
            )
        return float(tries[int(np.argmin(risks))])

    def _noise(self, coefficients: Floats) -> Floats:
        """Return the covariance of the noise of the products times the coefficients, and with the target."""
        squares = coefficients**2
        spread = (
            squares.sum() * np.eye(len(squares))
            + np.outer(coefficients, coefficients)
            - np.diag(squares)
        )
        return (
            self.target_error**2 * np.eye(len(squares)) + self.product_error**2 * spread
        )


def products_noise(share: Share, n_columns: int, largest: int) -> Noise:
    """Return the noise of the products of all pairs of columns, one of them constant, with each other and a target."""
    return Noise.joint(share, largest**2, (n_columns + 1) * (n_columns + 2) // 2)


@dataclass(frozen=True)
class ExactMoments:
    """Exact integer sums of products of rows of a bounded norm; they live inside `fit` only."""

    sums: NDArray[np.int64]
    """Of all pairs of: the columns, the constant, the target."""
    square: int
    """The square of the largest norm of a row without its target."""
    largest: int
    """The largest value of a row."""

    @classmethod
    def of(cls, rows: Rows, square: int, constant: int, largest: int) -> Self:
        """Add up rows that are made smaller if they are too long, with their constants and targets."""
        # A row, its constant and its target are multiplied with one factor, as in weighted least squares: which linear
        # model is true stays so.
        sums = rows.sum(
            partial(Rows.shortened, square=square, constant=constant, codes=True)
        )
        return cls(sums, square + constant**2, max(largest, constant))

    def release(self, share: Share, source: ByteSource) -> Moments:
        """Add noise to all sums."""
        size = len(self.sums) - 1
        pairs = np.triu_indices(size)
        parts = (
            self.sums[pairs].tolist(),
            self.sums[:-1, -1].tolist(),
            [int(self.sums[-1, -1])],
        )
        if share.kind == "epsilon":
            joint = products_noise(share, size, self.largest)
            noisy = joint.add(source, [number for part in parts for number in part])
            errors = [joint.error] * 3
            drawn = [noisy[: len(parts[0])], noisy[len(parts[0]) : -1], noisy[-1:]]
        else:
            squares = (
                largest_moments(self.square, self.largest),
                self.square * UNIT**2,
                UNIT**4,
            )
            noises = [
                Noise("mu", share.mu_squared * part / sum(_PARTS), square)
                for part, square in zip(_PARTS, squares, strict=True)
            ]
            drawn = [
                noise.add(source, part)
                for noise, part in zip(noises, parts, strict=True)
            ]
            errors = [noise.error for noise in noises]
        found, with_target, (square,) = (
            np.array([*map(in_units, part)]) for part in drawn
        )
        products = np.zeros((size, size))
        products[pairs] = products.T[pairs] = found
        # A value is placed on a grid, which is an error of up to a step.
        return Moments(
            products,
            with_target,
            float(square),
            *(in_units(max(error, Fraction(1))) for error in errors),
        )
