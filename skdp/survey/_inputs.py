"""Inputs of a regression: true predictors, reports, weights and clusters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_same_order
from skdp.local import ReportTransformer, read_and_tally
from skdp.local.protocol import CategoryField, check_sample_weight, reject_column_name
from skdp.survey._design import (
    Numbers,
    ReportDesign,
    check_columns,
    report_columns,
    select_rows,
    to_pandas,
    unbiased_rows,
)
from skdp.tables import is_frame, wrap_table

INTERCEPT = "(intercept)"

# Combinations of values of the reported predictors: time and memory are proportional.
MAX_CELLS = 1024


@dataclass(frozen=True, eq=False)
class Question:
    """A reported variable, with the report of each row."""

    # The columns that are reported together, mostly one, with their values.
    parts: Sequence[tuple[str, list[Any]]]
    # True values, or combinations of the values of the parts.
    values: list[Any]
    # Columns of reports and groups, which are not true predictors.
    columns: list[Any]
    # Probability of the report given each value, up to a factor: (n_rows, n_values).
    likelihood: Numbers
    # Unbiased values of each report; None if the design has none.
    unbiased: Numbers | None
    # Rows that report the variable.
    is_reported: NDArray[np.bool_]

    @property
    def name(self) -> str:
        return "_".join(name for name, _ in self.parts)

    @property
    def is_informative(self) -> NDArray[np.bool_]:
        """True for rows whose report depends on the true value."""
        # A missing report, or a group that was not asked, has the same probability for
        # all values.
        return np.asarray(np.ptp(self.likelihood, axis=1) > 0)


def list_questions(designs: Any, X: Any, parameter: str) -> list[Question]:
    """Return the reported variables of designs and encoders, with their reports in X."""
    if designs is None:
        return []
    designs = list(designs) if isinstance(designs, list | tuple) else [designs]
    _check_distinct(designs)
    questions = []
    for design in designs:
        if isinstance(design, ReportDesign):
            questions.append(_convert_design(design, X, parameter))
        elif isinstance(design, ReportTransformer):
            questions += _convert_encoder(design, X, parameter)
        else:
            raise TypeError(
                "Designs must be fitted encoders of categories or ReportDesign "
                f"instances, got {getattr(design, '__name__', type(design).__name__)}."
            )
    return questions


def _check_distinct(designs: Sequence[Any]) -> None:
    """Refuse a column in two designs, because its noise would be treated as independent."""
    columns: list[Any] = []
    for design in designs:
        if isinstance(design, ReportDesign):
            columns.append(design.column)
        elif hasattr(design, "protocol_"):
            columns += design.protocol_.report_columns
    repeated = [column for column in columns if columns.count(column) > 1]
    if repeated:
        raise ValueError(
            f"Designs must have different columns, got {repeated[0]!r} twice. Remove one "
            "of the designs."
        )


def _convert_design(design: ReportDesign, X: Any, parameter: str) -> Question:
    columns = report_columns(design)
    table = to_pandas(X, columns, parameter)
    return Question(
        parts=[(str(design.column), design.values)],
        values=design.values,
        columns=columns,
        likelihood=select_rows(design, design.channels, table),
        unbiased=unbiased_rows(design, table),
        is_reported=np.ones(len(table), bool),
    )


def _convert_encoder(encoder: Any, X: Any, parameter: str) -> list[Question]:
    """Return a question for each field of an encoder."""
    check_is_fitted(encoder)
    protocol = encoder.protocol_
    if not all(isinstance(field, CategoryField) for field in protocol.fields):
        raise TypeError(
            f"Designs must report categories, got {type(encoder).__name__}. Declare "
            "numbers as an Interval, and report its bins."
        )
    columns = list(protocol.report_columns)
    check_columns(columns, wrap_table(X).names, parameter)
    # Selecting in the library of X keeps the attached protocol, which is compared.
    selected = nw.from_native(X, eager_only=True).select(columns).to_native()
    reports, _ = read_and_tally(selected, encoder)
    is_reported = protocol.report_mask(reports)
    questions = []
    for index, field in enumerate(protocol.fields):
        # Given a value that it supports, a report is more probable by the factor
        # `worst_ratio`. A row that does not report the field has the same likelihood
        # for all values.
        excess = float(field.oracle.worst_ratio - 1)
        supports = field.oracle.supports(reports[index])
        supports = supports & is_reported[:, index, np.newaxis]
        values = list(field.domain.cells())
        cells = np.arange(len(values))
        parts = []
        for name in field.columns:
            parts.append((str(name), list(field.domain[name].labels)))
        question = Question(
            parts=parts,
            values=values,
            columns=columns,
            likelihood=1 + excess * supports,
            unbiased=field.debias(reports[index], field.columns, cells),
            is_reported=is_reported[:, index],
        )
        questions.append(question)
    return questions


def convert_target_reports(y: Any, design: Any) -> Any:
    """Return the reports of a target as a dataframe."""
    if is_frame(y):
        return y
    columns: list[Any] = []
    if isinstance(design, ReportDesign):
        columns = report_columns(design)
    elif hasattr(design, "protocol_"):
        columns = list(design.protocol_.report_columns)
    if len(columns) != 1:
        raise TypeError(
            f"y must be a dataframe with the columns {columns}, got {type(y).__name__}."
        )
    return pd.DataFrame({columns[0]: validate_column("y", y)})


def check_reported_together(questions: Sequence[Question], weights: Numbers) -> None:
    """Refuse two variables without a row that reports both."""
    for first, second in itertools.combinations(questions, 2):
        if not (first.is_informative & second.is_informative & (weights > 0)).any():
            raise ValueError(
                f"No row has reports of both {first.name!r} and {second.name!r}, so "
                "their association is not identified. Use strategy='split' or 'joint', "
                "or one of the columns in each regression."
            )


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a regression, without the target."""

    # A column of ones, and the true predictors.
    known: pd.DataFrame
    questions: list[Question]
    # Indicators of the values in each combination of true values of the questions.
    cells: pd.DataFrame
    weights: Numbers
    # Index of the cluster of each row; None if each row is independent.
    clusters: NDArray[np.intp] | None

    @property
    def terms(self) -> list[str]:
        return [*self.known.columns, *self.cells.columns]

    @property
    def log_reports(self) -> Numbers:
        """Log probability of the reports in each combination: (n_cells, n_rows)."""
        # Reports are independent given the true values, so their probabilities multiply.
        # The combinations are in the order of `cells`: the last question varies fastest.
        n_rows = len(self.known)
        total = np.zeros((1, n_rows))
        with np.errstate(divide="ignore"):
            for question in self.questions:
                of_values = np.log(question.likelihood.T)
                total = (total[:, np.newaxis] + of_values).reshape(-1, n_rows)
        return total

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the standard errors: the number of clusters less 1."""
        if self.clusters is None:
            return math.inf
        return len(np.unique(self.clusters[self.weights > 0])) - 1


def build_rows(
    table: pd.DataFrame,
    X: Any,
    designs: Any,
    *,
    weights: Numbers,
    clusters: NDArray[np.intp] | None = None,
) -> Rows:
    """Select true predictors from a table, and the reports from X in its own library."""
    questions = list_questions(designs, X, "X")
    reported = {column for question in questions for column in question.columns}
    if INTERCEPT in table.columns:
        raise ValueError(
            f"X must not contain the column {INTERCEPT!r}, which fit adds."
        )
    # All columns that are not reports or groups are true predictors.
    known = pd.DataFrame({INTERCEPT: np.ones(len(table))})
    for name in table.columns:
        if name not in reported:
            known[name] = _validate_predictor(table[name])
    return Rows(known, questions, _list_cells(questions), weights, clusters)


def _validate_predictor(column: pd.Series) -> Numbers:
    """Return a true predictor as finite floats."""
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise TypeError(
            f"Column {column.name!r} must be numeric, got {column.dtype}. Encode "
            "categories, such as by pandas.get_dummies(X, drop_first=True)."
        )
    values = column.to_numpy(float, na_value=np.nan)
    n_missing = int((~np.isfinite(values)).sum())
    if n_missing:
        raise ValueError(
            f"Column {column.name!r} must be finite, got missing or infinite entries "
            f"(rows: {n_missing:,}). Drop or impute these rows."
        )
    return values


def _list_cells(questions: Sequence[Question]) -> pd.DataFrame:
    """Return the indicators of all combinations of values: (n_cells, n_features)."""
    # Columns that are reported together have a main effect each.
    parts = [part for question in questions for part in question.parts]
    sizes = [len(values) for _, values in parts]
    n_cells = math.prod(sizes)
    if n_cells > MAX_CELLS:
        raise ValueError(
            f"The reported predictors must have at most {MAX_CELLS:,} combinations of "
            f"values, got {n_cells:,}. Declare fewer values."
        )
    codes = np.indices(sizes).reshape(len(sizes), n_cells)
    cells = pd.DataFrame(index=range(n_cells))
    for (name, values), of_part in zip(parts, codes, strict=True):
        # The first value is the reference.
        for code, value in enumerate(values[1:], start=1):
            cells[f"{name}={value}"] = (of_part == code).astype(float)
    return cells


def validate_column(name: str, values: Any) -> NDArray[Any]:
    """Return values as a one-dimensional array of real entries."""
    check_real(name, values)
    return np.asarray(column_or_1d(values, warn=True))


def check_real(name: str, values: Any) -> None:
    """Refuse complex numbers; the error of scikit-learn would contain them."""
    if np.asarray(values).dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must have real numbers.")


def validate_weights(sample_weight: Any, X: Any, n_rows: int) -> Numbers:
    """Return the weight of each row, with a mean of 1, because only ratios matter."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = check_sample_weight(sample_weight, X, n_rows)
    # Division by the largest weight first, because sums could overflow.
    ratios = weights / weights.max()
    return np.asarray(ratios * (np.count_nonzero(ratios) / ratios.sum()))


def encode_clusters(clusters: Any, X: Any, n_rows: int) -> NDArray[np.intp] | None:
    """Return the index of the cluster of each row; None if there are none."""
    if clusters is None:
        return None
    reject_column_name("clusters", clusters)
    check_same_order(X, clusters, "clusters")
    # Missing entries have the code -1.
    codes, _ = pd.factorize(np.asarray(clusters))
    if len(codes) != n_rows or (codes < 0).any():
        raise ValueError(
            f"`clusters` must have {n_rows} entries that are not missing, got "
            f"{int((codes >= 0).sum())}."
        )
    return np.asarray(codes)
