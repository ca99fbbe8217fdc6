"""The units of a fit: predictors of mean 0 and standard deviation 1, and the way back from their coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from skdp.survey._likelihood import Classes, Fit, Gaussian, HiddenModel, Numbers

_LEAST_DEVIATION = 1e-12
"""Of a column relative to its largest entry: less is the rounding of a constant."""


@dataclass(frozen=True, eq=False)
class Scales:
    """What is subtracted from the entries of each column, and what they are divided by then."""

    centres: Numbers
    deviations: Numbers

    @classmethod
    def of(cls, columns: Numbers, weights: Numbers) -> Scales:
        """Return the means and standard deviations of columns; those of a constant column are its value and 1."""
        largest = np.abs(columns).max(axis=0, initial=0.0)
        centres = np.average(columns, axis=0, weights=weights)
        squares = np.average((columns - centres) ** 2, axis=0, weights=weights)
        deviations = np.sqrt(squares)
        is_constant = deviations <= _LEAST_DEVIATION * largest
        deviations[is_constant] = 1.0
        return cls(centres, deviations)

    def without(self, is_kept: Sequence[bool]) -> Scales:
        """Return scales that leave some columns as they are."""
        keep = np.asarray(is_kept, bool)
        centres = np.where(keep, 0.0, self.centres)
        return Scales(centres, np.where(keep, 1.0, self.deviations))

    def apply(self, columns: Numbers) -> Numbers:
        scaled: Numbers = (columns - self.centres) / self.deviations
        return scaled


def feature_matrix(
    known: Scales, hidden: Scales, products: Sequence[tuple[int, int]]
) -> Numbers:
    """Return what features are of scaled features, a column each; the first scaled one is 1."""
    # A column is its centre times 1, plus its deviation times the scaled column; the
    # product of two columns is that of two such sums, of four terms.
    n_known, n_hidden = len(known.centres), len(hidden.centres)
    n_main = n_known + n_hidden
    centres = np.concatenate([known.centres, hidden.centres])
    deviations = np.concatenate([known.deviations, hidden.deviations])
    matrix = np.zeros((n_main + len(products), n_main + len(products)))
    matrix[0, :n_main] = centres
    matrix[range(n_main), range(n_main)] += deviations
    for place, (of_known, of_hidden) in enumerate(products, start=n_main):
        other = n_known + of_hidden
        matrix[0, place] += centres[of_known] * centres[other]
        matrix[other, place] += centres[of_known] * deviations[other]
        matrix[of_known, place] += deviations[of_known] * centres[other]
        matrix[place, place] += deviations[of_known] * deviations[other]
    return matrix


@dataclass(frozen=True, eq=False)
class Units:
    """The scales of a model, its target included."""

    known: Scales
    hidden: Scales
    target: Scales | None
    """Of a numeric target."""

    @classmethod
    def of(cls, model: HiddenModel, is_number: Sequence[bool]) -> Units:
        """Choose the units of a model; `is_number` says of which hidden features."""
        n_cells = len(model.hidden)
        hidden = Scales.of(model.hidden, np.ones(n_cells))
        known = Scales.of(model.known, model.weights)
        is_one = [True, *[False] * (model.known.shape[1] - 1)]
        target = None
        if isinstance(model.outcome, Gaussian):
            values = model.outcome.values[:, np.newaxis]
            target = Scales.of(values, model.weights)
        is_indicator = [not each for each in is_number]
        return cls(known.without(is_one), hidden.without(is_indicator), target)

    def apply(self, model: HiddenModel) -> HiddenModel:
        """Return the model in these units."""
        outcome = model.outcome
        if self.target is not None and isinstance(outcome, Gaussian):
            outcome = Gaussian(self.target.apply(outcome.values))
        known = self.known.apply(model.known)
        n_cell_features = model.cell_features.shape[1]
        return replace(
            model,
            known=known,
            cell_features=known[:, :n_cell_features],
            hidden=self.hidden.apply(model.hidden),
            outcome=outcome,
        )

    def restored(
        self, model: HiddenModel, fit: Fit, covariance: Numbers
    ) -> tuple[Numbers, Numbers, float]:
        """Return parameters, their covariance and the log likelihood of a scaled model in the units of its data."""
        features = _inverse(feature_matrix(self.known, self.hidden, model.products))
        n = len(fit.parameters)
        shift = np.zeros(n)
        log_likelihood = fit.log_likelihood
        if isinstance(model.outcome, Classes):
            of_outcome = np.kron(features, np.eye(model.outcome.n_classes - 1))
        else:
            assert self.target is not None
            deviation = float(self.target.deviations[0])
            of_outcome = block_diag(deviation * features, 1.0)
            shift[0] = self.target.centres[0]
            shift[len(features)] = np.log(deviation)
            log_likelihood -= float(model.weights.sum() * np.log(deviation))
        blocks = [of_outcome, self._of_cells(model), np.eye(len(model.unknowns))]
        matrix = block_diag(*blocks)
        parameters = matrix @ fit.parameters + shift
        return parameters, matrix @ covariance @ matrix.T, log_likelihood

    def _of_cells(self, model: HiddenModel) -> Numbers:
        """Return what the parameters of the cells are of those of the scaled model."""
        n = model.cell_features.shape[1]
        no_columns = Scales(np.zeros(0), np.zeros(0))
        known = Scales(self.known.centres[:n], self.known.deviations[:n])
        matrix = _inverse(feature_matrix(known, no_columns, []))
        if model.cell_prior is None:
            return np.asarray(np.kron(matrix, np.eye(model.n_cells - 1)), float)
        is_free = model.cell_prior.is_free(n)
        of_all = np.asarray(np.kron(matrix, np.eye(is_free.shape[1])), float)
        return of_all[np.ix_(is_free.ravel(), is_free.ravel())]


def _inverse(matrix: Numbers) -> Numbers:
    return np.asarray(solve_triangular(matrix, np.eye(len(matrix))))
