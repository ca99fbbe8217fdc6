"""Input validation of regressions: true predictors, reports, weights and clusters."""

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

from skdp._arrays import ColumnLike, Floats, Indices, Mask, TableLike
from skdp.base import to_array
from skdp.local import (
    CategoryField,
    ReportTransformer,
    check_sample_weight,
    read_and_tally,
)
from skdp.survey._design import (
    ReportDesign,
    report_columns,
    require_columns,
    select_rows,
    to_pandas,
    unbiased_rows,
)
from skdp.tables import is_frame, wrap_table

INTERCEPT = "(intercept)"

ENCODE = "Encode categories, such as by pandas.get_dummies(X, drop_first=True)."
"""Advice for a true predictor that is not numeric."""


@dataclass(frozen=True, eq=False)
class Question:
    """A reported variable with the report of each row: one column, or columns reported together."""

    # Name and values of each of these columns.
    parts: Sequence[tuple[str, list[Any]]]
    # True values of the variable, which are combinations for several columns.
    values: list[Any]
    # Columns of X with reports and groups, which are not true predictors.
    columns: list[Any]
    # Probability of the report of each row given each value, up to a factor:
    # (n_rows, n_values).
    likelihood: Floats
    # Unbiased values of each report, (n_rows, n_values); None if they do not exist.
    unbiased: Floats | None
    # Mask of the rows that report the variable.
    is_reported: Mask

    @property
    def name(self) -> str:
        """Name of the variable in messages."""
        return "_".join(name for name, _ in self.parts)

    @property
    def is_informative(self) -> Mask:
        """Mask of the rows whose report depends on the true value."""
        # A row that does not report the variable has equal likelihoods of all values.
        return np.ptp(self.likelihood, axis=1) > 0


def list_questions(designs: object, X: TableLike, parameter: str) -> list[Question]:
    """List the reported variables of designs and encoders, with their reports in X.

    `parameter` is the name of X in errors.
    """
    if designs is None:
        return []
    designs = list(designs) if isinstance(designs, list | tuple) else [designs]
    questions: list[Question] = []
    columns: list[Any] = []
    for design in designs:
        if isinstance(design, ReportDesign):
            columns.append(design.column)
            questions.append(_convert_design(design, X, parameter))
        elif isinstance(design, ReportTransformer):
            questions += _convert_encoder(design, X, parameter)
            columns += design.protocol_.report_columns
        else:
            raise TypeError(
                "Designs must be instances of ReportDesign or fitted encoders of "
                f"categories, got {getattr(design, '__name__', type(design).__name__)}."
            )
    # The likelihood would treat the noise of a column as two independent errors.
    if len(set(columns)) < len(columns):
        raise ValueError(
            f"Designs must have different columns, got {columns}. Remove one of the "
            "designs."
        )
    return questions


def _convert_design(design: ReportDesign, X: TableLike, parameter: str) -> Question:
    """Convert a design and its reports in X to a reported variable; `parameter` is the name of X in errors."""
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


def _convert_encoder(encoder: Any, X: TableLike, parameter: str) -> list[Question]:
    """Convert each field of a fitted encoder and its reports in X to a reported variable.

    A field is a column, or several columns that are reported as one combination.
    `parameter` is the name of X in errors.
    """
    check_is_fitted(encoder)
    protocol = encoder.protocol_
    if not all(isinstance(field, CategoryField) for field in protocol.fields):
        raise TypeError(
            "Designs must be encoders of categories, got "
            f"{type(encoder).__name__}. Declare numbers as an Interval, and report its "
            "bins."
        )
    columns = list(protocol.report_columns)
    require_columns(columns, wrap_table(X).names, parameter)
    # narwhals keeps the metadata of X, in which `read_and_tally` checks the protocol.
    selected = nw.from_native(X, eager_only=True).select(columns).to_native()
    reports, _ = read_and_tally(selected, encoder)
    is_reported = protocol.report_mask(reports)
    questions = []
    for index, field in enumerate(protocol.fields):
        # A report is `worst_ratio` times as probable under the values that it supports. A
        # row that does not report the field has equal likelihoods of all values.
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


def convert_target_reports(y: ColumnLike, design: object) -> Any:
    """Convert the reports of a target to a dataframe with the columns that the design reads.

    An array or series is accepted if the design reads one column.
    """
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
    return pd.DataFrame({columns[0]: validate_column(y)})


def check_reported_pairs(questions: Sequence[Question], weights: Floats) -> None:
    """Raise an error for a pair of variables that no row with a positive weight reports together."""
    for first, second in itertools.combinations(questions, 2):
        if not (first.is_informative & second.is_informative & (weights > 0)).any():
            raise ValueError(
                f"At least one row must have reports of both {first.name!r} and "
                f"{second.name!r} to identify their association. Use strategy='split' "
                "or 'joint', or a regression for each of the columns."
            )


@dataclass(frozen=True, eq=False)
class PredictorRows:
    """Inputs of a regression without the target."""

    # True predictors after a column of ones; shape (n_rows, n_known).
    known: pd.DataFrame
    # Reported predictors.
    questions: list[Question]
    # Indicators of the values of the reported predictors, a row for each combination of
    # their true values; shape (n_cells, n_features).
    cells: pd.DataFrame
    weights: Floats
    # Index of the cluster of each row; None if rows are independent.
    clusters: Indices | None

    @property
    def terms(self) -> list[str]:
        """Names of the coefficients."""
        return [*self.known.columns, *self.cells.columns]

    @property
    def log_likelihoods(self) -> Floats:
        """Log likelihood of each combination for the reports of each row; shape (n_cells, n_rows).

        It is a log probability of the reports, up to a constant for each row.
        """
        # Reports are independent given the true values, so their log likelihoods are
        # added. The combinations have the order of `cells`: the last variable changes
        # first.
        n_rows = len(self.known)
        total = np.zeros((1, n_rows))
        with np.errstate(divide="ignore"):
            for question in self.questions:
                # (n_values, n_rows)
                log_likelihood = np.log(question.likelihood.T)
                total = (total[:, np.newaxis] + log_likelihood).reshape(-1, n_rows)
        return total

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the standard errors: infinite, or the number of clusters minus 1."""
        if self.clusters is None:
            return math.inf
        return len(np.unique(self.clusters[self.weights > 0])) - 1


def build_rows(
    table: pd.DataFrame,
    X: TableLike,
    designs: object,
    *,
    weights: Floats,
    clusters: Indices | None = None,
) -> PredictorRows:
    """Collect the inputs of a regression: true predictors from `table`, and reports from X.

    `table` is X as a pandas DataFrame. X itself may have the protocol as metadata. `weights` and `clusters` (None if
    rows are independent) have an entry for each row.
    """
    questions = list_questions(designs, X, "X")
    reported = {column for question in questions for column in question.columns}
    if INTERCEPT in table.columns:
        raise ValueError(
            f"X must not have a column {INTERCEPT!r}, because `fit` adds it. Rename "
            "the column."
        )
    # All columns other than reports and groups are true predictors.
    known = pd.DataFrame({INTERCEPT: np.ones(len(table))})
    for name in table.columns:
        if name not in reported:
            known[name] = validate_numbers(table[name])
    return PredictorRows(known, questions, _list_cells(questions), weights, clusters)


def validate_numbers(
    column: pd.Series,
    *,
    advice: str = ENCODE,
    remedy: str = "Drop or impute these rows.",
    is_used: Mask | bool = True,
) -> Floats:
    """Check that the used rows of a column have finite numbers, and return floats, which are 0 in other rows.

    `advice` is for columns of other types, and `remedy` for missing values.
    """
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise TypeError(
            f"Column {column.name!r} must be numeric, got {column.dtype}. {advice}"
        )
    values = np.where(is_used, column.to_numpy(float, na_value=np.nan), 0.0)
    n_missing = int((~np.isfinite(values)).sum())
    if n_missing:
        raise ValueError(
            f"Column {column.name!r} must be finite, got missing or infinite values "
            f"(rows: {n_missing:,}). {remedy}"
        )
    return values


def _list_cells(questions: Sequence[Question]) -> pd.DataFrame:
    """Return the indicators of the values in each combination of reported variables; shape (n_cells, n_features).

    A cell is a combination of a value of each variable. A feature is 1 in the cells
    with a value of a variable, other than the first one.
    """
    # Columns that are reported together have separate main effects.
    parts = [part for question in questions for part in question.parts]
    sizes = [len(values) for _, values in parts]
    n_cells = math.prod(sizes)
    # Time and memory of a fit are proportional to it.
    max_cells = 1024
    if n_cells > max_cells:
        raise ValueError(
            f"The reported predictors must have at most {max_cells:,} combinations of "
            f"values, got {n_cells:,}. Declare fewer values."
        )
    codes = np.indices(sizes).reshape(len(sizes), n_cells)
    cells = pd.DataFrame(index=range(n_cells))
    for (name, values), column_codes in zip(parts, codes, strict=True):
        # The first value is the reference.
        for code, value in enumerate(values[1:], start=1):
            cells[f"{name}={value}"] = (column_codes == code).astype(float)
    return cells


def validate_column(y: ColumnLike) -> NDArray[Any]:
    """Check that a target is a column of real numbers or labels, and return a 1-D array."""
    check_real("y", y)
    # NumPy would convert a nan in a list of text to the text "nan".
    column = column_or_1d(to_array(y, "y"), warn=True)
    return pd.Series(column).infer_objects().to_numpy()


def check_real(name: str, values: object) -> None:
    """Raise an error for complex numbers, because scikit-learn's error message contains them."""
    if np.asarray(values).dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must have real numbers.")


def validate_weights(sample_weight: ColumnLike, X: TableLike, n_rows: int) -> Floats:
    """Return the weight of each row, scaled to a mean of 1 over the positive weights."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = check_sample_weight(sample_weight, X, n_rows)
    # Division by the largest weight first, because sums could overflow.
    ratios = weights / weights.max()
    return ratios * (np.count_nonzero(ratios) / ratios.sum())
