"""Logistic regression from noisy sums of public rows, whose target alone is private."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skdp._arrays import Floats
from skdp.base import to_float_columns
from skdp.central._supervised import Classes
from skdp.central.linear._products import Inference, find_complement, invert
from skdp.central.statistics import Batches, Noise, to_float
from skdp.privacy import PrivacyBudget
from skdp.randomness import ByteSource

# Smallest eigenvalue of second derivatives, in norms of the noise of a gradient, for intervals
# with a private target, where they are computed from the noisy coefficients: at 5, 0.93 of the
# intervals of few rows covered, and 0.82 at worst.
MIN_TARGET_INFORMATION = 12.0


class PublicRows:
    """Standardized public columns, computed without the target, and the private classes of rows."""

    def __init__(
        self, rows: Batches, weights: Floats, classes: Classes, *, fit_intercept: bool
    ) -> None:
        """Standardize the public columns of a table in memory, and choose weights that shorten the longest rows."""
        columns = np.stack(to_float_columns(rows.features.table), axis=1)
        self.fit_intercept = fit_intercept
        self.classes = classes
        # For two classes, the sums over all rows are public, so the sums of the second class
        # determine the sums of the first class. The shape is (n_rows, n_indicators).
        coded = np.arange(classes.n_fitted)
        self.indicators = classes.codes[:, np.newaxis] == coded[len(coded) == 2 :]
        self.scaler = StandardScaler(with_mean=fit_intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            columns = self.scaler.fit_transform(columns)
        if not np.isfinite(self.scaler.var_).all():
            raise ValueError(
                "X must have numbers whose squares are finite floats. Scale the "
                "columns."
            )
        # Standardized columns, and a last column of ones; shape (n_rows, n_columns + 1).
        self.inputs = np.hstack([columns, np.ones((len(columns), 1))])
        # The noise is proportional to the longest weighted row, so rows that are longer
        # than the first quartile get a weight that shortens them to it. On Adult,
        # quantiles from 0.1 to 0.5 give the same AUC; without weights, AUC on nine tables
        # at epsilon 0.1 decreases by up to 0.25 (benchmarks/central_models.py).
        lengths = np.linalg.norm(self.inputs, axis=1)
        self.weights = weights * np.minimum(1.0, np.quantile(lengths, 0.25) / lengths)
        self.weighted = self.inputs * self.weights[:, np.newaxis]
        # As integers, so that sensitivities are exact. Rounding changes a row by less than
        # 2**-15 of the norm of the longest row.
        self.unit = float(np.linalg.norm(self.weighted, axis=1).max()) / (1 << 16)
        self.integers = np.rint(self.weighted / self.unit).astype(np.int64)

    @property
    def constant_columns(self) -> list[int]:
        """The columns of 0 after they were standardized; in a model with an intercept, all constant columns."""
        squares = (self.inputs[:, :-1] ** 2).mean(axis=0)
        return np.flatnonzero(squares < 2.0**-20).tolist()

    def noise(self, budget: PrivacyBudget) -> Noise:
        """Return the noise of sums of inputs by class."""
        # Sums of integers are exact in any order, so the class of a row changes them by
        # this row only. The norm of the longest row is public. A row with another class
        # changes the sums of the old and the new class.
        n_changed = min(self.indicators.shape[1], 2)
        square = int((self.integers**2).sum(axis=1).max()) * n_changed
        return Noise.gaussian(budget, square)

    def fit(
        self, noise: Noise, source: ByteSource
    ) -> tuple[Floats, int, Inference | None]:
        """Fit a logistic model to noisy sums of inputs over the rows of each class.

        Return the coefficients of standardized columns and a constant, of shape (n_columns + 1, n_outputs), the number
        of steps and the inference.
        """
        # The sums of up to 2**32 rows are integers of 64 bits; (n_inputs, n_indicators).
        exact = self.integers.T @ self.indicators
        sums = self.unit * noise.add_floats(source, exact)
        std = to_float(noise.std)
        totals = (self.weights @ self.inputs)[:, np.newaxis]
        if sums.shape[1] == 1:
            sums = np.hstack([totals - sums, sums])
        n_classes = sums.shape[1]
        # The sums over all rows are public, and noise must not exclude a class.
        sums += (totals - sums.sum(axis=1, keepdims=True)) / n_classes
        n_rows = totals[-1, 0]
        smallest = min(0.5, n_rows / 4)
        counts = np.clip(sums[-1], smallest, n_rows - smallest)
        sums[-1] = counts * n_rows / counts.sum()

        # The loss depends on the classes of rows through these sums only. So each row gets
        # fractions of all classes, which may be negative, with the same sums: they define
        # the same model, which scikit-learn fits.
        products = self.weighted.T @ self.inputs
        excess = np.linalg.lstsq(products, sums - totals / n_classes)[0]
        fractions = 1 / n_classes + self.inputs @ excess  # (n_rows, n_classes)
        class_weights = fractions * self.weights[:, np.newaxis]
        # The penalty is the norm of the noise of a sum. The second summand keeps it within
        # the precision of floats.
        penalty = np.sqrt(len(sums) - 1) * self.unit * std
        model = LogisticRegression(
            C=1 / (penalty + 2.0**-20 * n_rows),
            fit_intercept=self.fit_intercept,
            max_iter=1_000,
        )
        model.fit(
            np.tile(self.inputs[:, :-1], (n_classes, 1)),
            np.repeat(np.arange(n_classes), len(self.inputs)),
            sample_weight=class_weights.T.ravel(),
        )
        constants = np.broadcast_to(model.intercept_, len(model.coef_))
        coefficients = np.vstack([model.coef_.T, constants])
        inference = None
        if n_classes == 2:
            inference = self._infer(coefficients[:, 0], sums[:, 1], self.unit * std)
        return coefficients, int(model.n_iter_[0]), inference

    def _infer(
        self, coefficients: Floats, sums: Floats, error: float
    ) -> Inference | None:
        """Infer the coefficients without penalty by one Newton step; None if the noise is too large.

        `sums` of the inputs over the rows of the second class, (n_inputs,), have the standard error `error` of noise.
        """
        probabilities = expit(self.inputs @ coefficients)
        variances = self.weights * probabilities * (1 - probabilities)
        information = self.inputs.T * variances @ self.inputs
        min_eigenvalue = MIN_TARGET_INFORMATION * math.sqrt(len(sums)) * error
        # The last coefficient is the intercept.
        fixed = [*self.constant_columns, *[-1] * (not self.fit_intercept)]
        constraints = np.eye(len(sums))[fixed]
        basis = find_complement(constraints, len(sums))
        if np.linalg.eigvalsh(basis.T @ information @ basis)[0] <= min_eigenvalue:
            return None
        inverse = invert(information, constraints)
        gradient = self.inputs.T @ (self.weights * probabilities) - sums
        # The covariances of the gradient due to the noise and to the sample (sandwich).
        sampling = self.inputs.T * (self.weights * variances) @ self.inputs
        return Inference(
            coefficients - inverse @ gradient,
            error**2 * inverse @ inverse,
            inverse @ sampling @ inverse,
        )
