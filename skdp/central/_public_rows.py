"""Public rows whose classes are private: noisy sums of the rows of each class, and a model of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skdp.base import read_numbers
from skdp.central.statistics import Batches, Floats, Noise, as_float
from skdp.privacy import Share
from skdp.randomness import ByteSource

# The longest row, in steps of the grid: rounding changes a row by less than 2**-15 of it.
LENGTH = 1 << 16

# Fraction of the rows that have the weight 1. On Adult, .1 to .5 give the same area; with 1,
# areas of nine tables at an epsilon of .1 fall by up to .25
# (benchmarks/central_models.py).
WHOLE = 0.25


class LogisticFit(NamedTuple):
    """A logistic model of the columns: (n_outputs, n_columns) and (n_outputs,)."""

    coefficients: Floats
    intercepts: Floats
    n_steps: int


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Standardized public columns; nothing here follows from the target."""

    scaler: StandardScaler
    # Standardized, and a constant as the last: (n_rows, n_columns + 1).
    inputs: Floats
    # At most 1, and less for long rows: (n_rows,).
    weights: Floats

    @classmethod
    def read(cls, batches: Batches) -> PublicRows:
        """Read the rows of a table in memory."""
        columns = np.stack(read_numbers(batches.table), axis=1)
        scaler = StandardScaler()
        with np.errstate(over="ignore", invalid="ignore"):
            columns = scaler.fit_transform(columns)
        if not np.isfinite(scaler.var_).all():
            raise ValueError("X holds numbers whose squares are beyond all floats")
        inputs = np.hstack([columns, np.ones((len(columns), 1))])
        # The noise is proportional to the longest row, so longer rows than a quantile of
        # all lengths get a weight that makes them as long as it.
        lengths = np.linalg.norm(inputs, axis=1)
        weights = np.minimum(1.0, np.quantile(lengths, WHOLE) / lengths)
        return cls(scaler, inputs, weights)

    def place(self) -> tuple[NDArray[np.int64], float]:
        """Return the weighted inputs as integers, and their unit."""
        weighted = self.inputs * self.weights[:, np.newaxis]
        unit = float(np.linalg.norm(weighted, axis=1).max()) / LENGTH
        return np.rint(weighted / unit).astype(np.int64), unit

    def noise(self, share: Share, n_sums: int) -> Noise:
        """Return the noise of the sums of inputs, of which another class of a row changes some by its inputs."""
        # Sums of integers are exact in any order, so that a class changes them by its
        # own row alone. The longest row is public.
        places, _ = self.place()
        square = int((places**2).sum(axis=1).max()) * n_sums
        return Noise("mu", share.mu_squared, share.rows**2 * square)

    def fit(
        self, indicators: NDArray[np.int64], noise: Noise, source: ByteSource
    ) -> LogisticFit:
        """Fit a logistic model to noisy sums of inputs over the rows of each class.

        Of two classes, there is one indicator, of the second class; of more, one for each.
        """
        # Integers of 64 bits hold the sums of 2**32 rows: (n_inputs, n_indicators).
        places, unit = self.place()
        sums = unit * noise.add_floats(source, places.T @ indicators)
        totals = (self.weights @ self.inputs)[:, np.newaxis]
        if sums.shape[1] == 1:
            sums = np.hstack([totals - sums, sums])
        n_classes = sums.shape[1]
        # All classes together have all rows, which are public; and no class is ruled out
        # by its noise.
        sums += (totals - sums.sum(axis=1, keepdims=True)) / n_classes
        n_rows = totals[-1, 0]
        counts = np.clip(sums[-1], 0.5, n_rows - 0.5)
        sums[-1] = counts * n_rows / counts.sum()

        # The loss depends on the classes through these sums alone. So fractional classes
        # of rows, which may be negative, with the same sums have the same model.
        weighted = self.inputs * self.weights[:, np.newaxis]
        excess = np.linalg.lstsq(weighted.T @ self.inputs, sums - totals / n_classes)[0]
        fractions = 1 / n_classes + self.inputs @ excess  # (n_rows, n_classes)
        class_weights = fractions * self.weights[:, np.newaxis]
        # The penalty is the norm of the noise, as long as it is not lost in rounding.
        n_columns = len(sums) - 1
        penalty = np.sqrt(n_columns) * unit * as_float(noise.error)
        model = LogisticRegression(C=1 / (penalty + 2.0**-20 * n_rows), max_iter=1_000)
        model.fit(
            np.tile(self.inputs[:, :-1], (n_classes, 1)),
            np.repeat(np.arange(n_classes), len(self.inputs)),
            sample_weight=class_weights.T.ravel(),
        )
        slopes = model.coef_ / self.scaler.scale_
        intercepts = model.intercept_ - slopes @ self.scaler.mean_
        return LogisticFit(slopes, intercepts, int(model.n_iter_[0]))
