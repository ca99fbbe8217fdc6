"""What a fit is given: the target, weights and clusters of rows, cells, and predictors in common units."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag, solve_triangular
from sklearn.utils import column_or_1d

from skdp.local.protocol import refuse_name
from skdp.survey._agreement import warn_of_few_clusters
from skdp.survey._design import Question, ReportDesign
from skdp.survey._likelihood import (
    Classes,
    Fit,
    Gaussian,
    HiddenModel,
    Numbers,
    Unknown,
)
from skdp.tables import is_frame


def read_target_reports(y: Any, encoder: Any) -> Any:
    """Return the reports of a target as a dataframe; reports without a name are of the only column."""
    if is_frame(y):
        return y
    is_series = nw.dependencies.is_into_series(y) and hasattr(y, "to_frame")
    # The name of an unnamed series is None in pandas, and empty in polars.
    if is_series and getattr(y, "name", None) not in (None, ""):
        return y.to_frame()
    names: list[Any] = []
    if isinstance(encoder, ReportDesign):
        names = [encoder.column] if encoder.group is None else []
    elif hasattr(encoder, "protocol_"):
        names = list(encoder.protocol_.report_columns)
    if len(names) != 1:
        raise TypeError(
            "y must be a dataframe with the columns of the reports, got "
            f"{type(y).__name__}"
        )
    return pd.DataFrame({names[0]: one_column("y", y)})


def check_given(y: Any) -> None:
    """Refuse a fit without a target, in the words of scikit-learn."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")


def refuse_complex(name: str, values: Any) -> None:
    # scikit-learn's error of complex numbers holds the numbers.
    if np.asarray(values).dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold real numbers")


def one_column(name: str, values: Any) -> NDArray[Any]:
    """Return values as an array of one axis; an error must not quote one of them."""
    refuse_complex(name, values)
    return np.asarray(column_or_1d(values, warn=True))


def read_numbers(name: str, values: Any) -> Numbers:
    """Return values as floats; an error must not quote one of them."""
    array = np.asarray(values)
    numbers = None
    if array.dtype.kind in "biuf":
        numbers = array.astype(float)
    elif array.dtype.kind == "O":
        try:
            numbers = array.astype(float)
        except (TypeError, ValueError):
            numbers = None
    if numbers is None:
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    return numbers


def read_clusters(clusters: Any, n_rows: int) -> NDArray[np.intp] | None:
    """Return the number of the cluster of each row; None if there are none."""
    if clusters is None:
        return None
    refuse_name("clusters", clusters)
    codes, _ = pd.factorize(np.asarray(clusters))
    if len(codes) != n_rows:
        raise ValueError(
            f"clusters must have {n_rows} entries, one a row, got {len(codes)}"
        )
    # pandas gives missing values this code.
    if (codes < 0).any():
        raise ValueError("clusters must have no missing values")
    return np.asarray(codes)


def count_clusters(
    cluster_codes: NDArray[np.intp] | None, model: HiddenModel
) -> int | None:
    """Return the number of clusters, as many as errors need; None if there are none."""
    if cluster_codes is None:
        return None
    n_clusters = len(np.unique(cluster_codes[model.weights > 0]))
    # The scores of fewer clusters than terms do not vary in all directions.
    if n_clusters <= model.n_features:
        raise ValueError(
            f"clusters must be more than the {model.n_features} terms of the model, "
            f"for errors to be known; got {n_clusters}"
        )
    # Below 20 to 50 of them, the sandwich's errors are too small (Cameron and Miller
    # 2015, section VI).
    few_clusters = 20
    if n_clusters < few_clusters:
        warn_of_few_clusters(n_clusters, few_clusters)
    return n_clusters


def read_weights(sample_weight: Any, n_rows: int) -> Numbers:
    if sample_weight is None:
        return np.ones(n_rows)
    refuse_name("sample_weight", sample_weight)
    weights = read_numbers("sample_weight", sample_weight)
    if weights.shape != (n_rows,) or not np.isfinite(weights).all():
        raise ValueError(f"sample_weight must hold {n_rows} finite numbers, one a row")
    if (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be at least 0, and not all weights zero")
    # Weights that are all alike say what none say.
    if (weights == weights[0]).all():
        return np.ones(n_rows)
    # Of a design only ratios matter: a mean of 1 keeps limits and comparisons of the fit
    # at the scale of rows.
    ratios = weights / weights.max()
    scaled: Numbers = ratios * (np.count_nonzero(ratios) / ratios.sum())
    return scaled


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
        # Of a column relative to its largest entry: less is the rounding of a constant.
        least_deviation = 1e-12
        is_constant = deviations <= least_deviation * largest
        deviations[is_constant] = 1.0
        return cls(centres, deviations)

    def apply(self, columns: Numbers) -> Numbers:
        scaled: Numbers = (columns - self.centres) / self.deviations
        return scaled


def feature_matrix(
    known: Scales, n_hidden: int, products: Sequence[tuple[int, int]]
) -> Numbers:
    """Return the features in terms of those of scaled known columns, a column each; the first known column is 1."""
    # A known column is its centre times 1, plus its deviation times the scaled column.
    n_known = len(known.centres)
    n_main = n_known + n_hidden
    matrix = np.eye(n_main + len(products))
    matrix[range(n_known), range(n_known)] = known.deviations
    matrix[0, :n_known] += known.centres
    for place, (of_known, of_hidden) in enumerate(products, start=n_main):
        matrix[n_known + of_hidden, place] = known.centres[of_known]
        matrix[place, place] = known.deviations[of_known]
    return matrix


@dataclass(frozen=True, eq=False)
class Units:
    """The scales of a model, its target included."""

    known: Scales
    # Of a numeric target.
    target: Scales | None

    @classmethod
    def of(cls, model: HiddenModel) -> Units:
        """Choose the units of a model."""
        known = Scales.of(model.known, model.weights)
        # The first column is of ones.
        known.centres[0], known.deviations[0] = 0.0, 1.0
        target = None
        if isinstance(model.outcome, Gaussian):
            values = model.outcome.values[:, np.newaxis]
            target = Scales.of(values, model.weights)
        return cls(known, target)

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
            outcome=outcome,
        )

    def restored(
        self, model: HiddenModel, fit: Fit, covariance: Numbers
    ) -> tuple[Numbers, Numbers, float]:
        """Return parameters, their covariance and the log likelihood of a scaled model in the units of its data."""
        features = _inverse(
            feature_matrix(self.known, model.hidden.shape[1], model.products)
        )
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
        known = Scales(self.known.centres[:n], self.known.deviations[:n])
        matrix = _inverse(feature_matrix(known, 0, []))
        return np.asarray(np.kron(matrix, np.eye(model.n_cells - 1)), float)


def _inverse(matrix: Numbers) -> Numbers:
    return np.asarray(solve_triangular(matrix, np.eye(len(matrix))))


def cell_likelihoods(likelihoods: Sequence[Numbers], n_rows: int) -> Numbers:
    """Return the products for each combination of values: (n_rows, n_cells)."""
    cells: Numbers = np.ones((n_rows, 1))
    for likelihood in likelihoods:
        pairs = cells[:, :, np.newaxis] * likelihood[:, np.newaxis]
        cells = pairs.reshape(n_rows, -1)
    return cells


def cell_unknowns(questions: Sequence[Question], n_rows: int) -> list[Unknown]:
    """Return the unknown numbers of the channels of predictors."""
    unknowns: list[Unknown] = []
    for question in questions:
        if question.unknown is None or question.slope is None:
            continue
        if unknowns:
            raise ValueError("one predictor at most may have an unknown number")
        factors = []
        for each in questions:
            factors.append(question.slope if each is question else each.likelihood)
        slope = cell_likelihoods(factors, n_rows)
        unknowns.append(Unknown(question.unknown, question.start, cell_slope=slope))
    return unknowns


def check_reported_together(questions: Sequence[Question], weights: Numbers) -> None:
    """Refuse two reported columns if no row has reports of both."""
    has_reports = []
    for question in questions:
        # A row has no report of a column if all true values are equally likely.
        has_report = (question.likelihood != question.likelihood[:, :1]).any(axis=1)
        if question.slope is not None:
            has_report |= (question.slope != 0).any(axis=1)
        has_reports.append(has_report & (weights > 0))
    for first, second in itertools.combinations(range(len(questions)), 2):
        if not (has_reports[first] & has_reports[second]).any():
            raise ValueError(
                f"no row has reports of both {questions[first].name!r} and "
                f"{questions[second].name!r}: such reports (strategy='sample') do not "
                "identify the association of the columns. Report them with "
                "strategy='split' or 'joint', or use one reported column in each model"
            )
