"""Public rows whose target is private: noisy sums of columns times the target, and models of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from skdp.base import read_numbers
from skdp.central.statistics import Batches, Noise, as_float
from skdp.privacy import Share
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

# The longest row, in steps of the grid: rounding changes a row by less than 2**-15 of it.
LENGTH = 1 << 16

# Fraction of the rows that have the weight 1. On Adult, .1 to .5 give the same area; with 1,
# areas and R2 of nine tables at an epsilon of .1 fall by up to .25
# (benchmarks/central_models.py).
WHOLE = 0.25


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Standardized public columns; nothing here follows from the target."""

    # (n_rows, n_columns), and the mean and the standard deviation of each column.
    columns: Floats
    middle: Floats
    scales: Floats
    has_constant: bool
    # At most 1, and less for long rows: (n_rows,).
    weights: Floats

    @classmethod
    def read(cls, batches: Batches, *, constant: bool) -> PublicRows:
        """Read the rows of a table in memory."""
        columns = np.stack(read_numbers(batches.table), axis=1)
        n_rows, n_columns = columns.shape
        middle = np.zeros(n_columns)
        with np.errstate(over="ignore", invalid="ignore"):
            if constant and n_rows:
                middle = columns.min(axis=0)
            width = np.abs(columns - middle).max(axis=0, initial=0.0)
        if not np.isfinite(width).all():
            raise ValueError("X holds numbers whose differences are beyond all floats")
        is_narrow = (width > 0) & (width < np.finfo(float).tiny)
        if is_narrow.any():
            raise ValueError(
                f"values of column {batches.names[int(np.argmax(is_narrow))]!r} differ by "
                f"less than {np.finfo(float).tiny:.1g}. Multiply it by a power of ten."
            )
        # In units of the widths first, as squares of large numbers are infinite.
        width[width == 0] = 1.0
        columns = (columns - middle) / width
        if constant and n_rows:
            shift = columns.mean(axis=0)
            columns, middle = columns - shift, middle + shift * width
        deviations = np.sqrt((columns**2).sum(axis=0) / max(n_rows, 1))
        deviations[deviations == 0] = np.inf  # so that constant columns get slopes of 0
        columns = columns / deviations
        # The noise is proportional to the longest row, so longer rows than a quantile of
        # all lengths get a weight that makes them as long as it.
        lengths = np.sqrt((columns**2).sum(axis=1) + constant)
        limit = np.quantile(lengths, WHOLE) if n_rows else 1.0
        weights = np.minimum(1.0, max(limit, 2.0**-60) / np.maximum(lengths, 2.0**-60))
        return cls(columns, middle, width * deviations, constant, weights)

    @property
    def n_rows(self) -> float:
        """The sum of the weights, at least 1."""
        return max(float(self.weights.sum()), 1.0)

    @property
    def square_part(self) -> float:
        """The weighted part of the squares of all columns."""
        squares = (self.columns**2).sum(axis=1)
        return float(self.weights @ squares) / max(float(squares.sum()), 2.0**-60)

    @property
    def inputs(self) -> Floats:
        """The columns, and the constant, if there is one, as the last."""
        if not self.has_constant:
            return self.columns
        return np.hstack([self.columns, np.ones((len(self.columns), 1))])

    @property
    def products(self) -> Floats:
        """The weighted sums of products of inputs."""
        return (self.inputs * self.weights[:, np.newaxis]).T @ self.inputs

    def place(self) -> tuple[NDArray[np.int64], float]:
        """Return the weighted inputs as integers, and their unit."""
        weighted = self.inputs * self.weights[:, np.newaxis]
        longest = float(np.linalg.norm(weighted, axis=1).max(initial=0.0))
        unit = max(longest, 2.0**-60) / LENGTH
        return np.rint(weighted / unit).astype(np.int64), unit

    def noise(self, share: Share, change: int, n_changed: int = 1) -> Noise:
        """Return the noise of sums of integer inputs times integers of the target.

        Another target of a row changes `n_changed` of these integers by `change` at most.
        """
        # Sums of integers are exact in any order, so that a target changes them by its
        # own row alone. The longest row is public.
        places, _ = self.place()
        sizes = np.abs(places)
        l1 = int(sizes.sum(axis=1).max(initial=1)) * change * n_changed
        square = int((sizes**2).sum(axis=1).max(initial=1)) * change**2 * n_changed
        noises = [Noise.of(share, l1, square)]
        if n_changed == 1:
            largest = int(sizes.max(initial=1)) * change
            noises.append(Noise.joint(share, largest, places.shape[1]))
        return min(noises, key=lambda noise: noise.error)

    def noisy_sums(
        self, targets: NDArray[np.int64], noise: Noise, source: ByteSource
    ) -> tuple[Floats, float]:
        """Return the sums of inputs times integers of the target, and the error of each by noise."""
        # Integers of 64 bits hold the sums of 2**32 rows: (n_inputs, n_integers).
        places, unit = self.place()
        sums = places.T @ targets
        return unit * noise.add_floats(source, sums), unit * as_float(noise.error)


class LogisticFit(NamedTuple):
    """A logistic model of the columns: (n_outputs, n_columns) and (n_outputs,)."""

    coefficients: Floats
    intercepts: Floats
    n_steps: int


def fit_logistic(rows: PublicRows, sums: Floats, error: float) -> LogisticFit:
    """Fit a logistic model to noisy sums of inputs over the rows of each class.

    Of two classes, `sums` has one column, of the second class; of more, one for each.
    """
    n_outputs = sums.shape[1]
    n_columns = rows.columns.shape[1]
    inputs = rows.inputs
    totals = (rows.weights @ inputs)[:, np.newaxis]
    if n_outputs > 1:
        # All classes together have all rows, which are public.
        sums = sums + (totals - sums.sum(axis=1, keepdims=True)) / n_outputs
    if rows.has_constant:
        # No class is ruled out by its noise.
        counts = np.clip(sums[-1], 0.5, rows.n_rows - 0.5)
        if n_outputs > 1:
            counts *= rows.n_rows / counts.sum()
        sums = np.vstack([sums[:-1], counts])

    # The norm of the noise, as long as it is not lost in rounding.
    penalties = np.zeros((len(sums), 1))
    penalties[:n_columns] = np.sqrt(n_columns) * error + 2.0**-20 * rows.n_rows

    def loss(flat: Floats) -> tuple[float, Floats]:
        """Return the penalized loss of a row and its gradient."""
        coefficients = flat.reshape(sums.shape)
        logits = inputs @ coefficients
        if n_outputs == 1:
            logits = np.hstack([logits, np.zeros_like(logits)])
        partition = logsumexp(logits, axis=1)
        probabilities = np.exp(logits - partition[:, np.newaxis])[:, :n_outputs]
        weighted = rows.weights[:, np.newaxis] * probabilities
        change = penalties * coefficients
        value = rows.weights @ partition + (coefficients * (change / 2 - sums)).sum()
        gradient = inputs.T @ weighted - sums + change
        return float(value) / rows.n_rows, gradient.ravel() / rows.n_rows

    found = minimize(loss, np.zeros(sums.size), jac=True, method="L-BFGS-B")
    coefficients = found.x.reshape(sums.shape)
    slopes = (coefficients[:n_columns] / rows.scales[:, np.newaxis]).T
    constants = coefficients[-1] if rows.has_constant else np.zeros(n_outputs)
    return LogisticFit(slopes, constants - slopes @ rows.middle, int(found.nit))
