"""How a statistic of a table changes with the share of each of its cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression

Matrix = NDArray[np.float64]

_ROWS = 20_000
"""Of the table that a statistic is differentiated at: one row more is a small change."""

MOST_CALLS = 20_000
_MOST_STEPS = 100
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Linear:
    """Statistics near a table: their values there, and what a share of a cell adds to each."""

    terms: list[str]
    values: Matrix
    influence: Matrix
    """A row a statistic, a column a cell; the mean at the table is 0."""

    shares: Matrix
    """The table."""

    known: NDArray[np.bool_]
    """Which statistics the table determines."""

    slope: Matrix
    """By how much the influence of each cell falls where a statistic is 1 larger; the mean at the table is 1."""


def linear_statistic(
    statistic: Callable[[Any], Any], cells: pd.DataFrame, shares: Matrix
) -> Linear:
    """Differentiate a function of rows: one row of each cell is added in turn."""
    if len(cells) > MOST_CALLS:
        raise ValueError(
            f"columns have {len(cells):,} combinations of values, for each of which statistic is called; at most "
            f"{MOST_CALLS:,} are allowed. Name fewer columns"
        )
    counts = _whole(shares, _ROWS)
    rows = cells.iloc[np.repeat(np.arange(len(cells)), counts)]
    terms, values = _read(statistic(rows.reset_index(drop=True)))
    influence = np.empty((len(terms), len(cells)))
    for place in range(len(cells)):
        one = pd.concat([rows, cells.iloc[[place]]], ignore_index=True)
        names, moved = _read(statistic(one))
        if names != terms:
            raise ValueError(
                f"statistic must return the same terms for all tables, got {names} after {terms}"
            )
        influence[:, place] = (moved - values) * (_ROWS + 1)
    at = counts / _ROWS
    known = (
        np.ptp(influence, axis=1) > 0
    )  # no row changes a median, and every row the number of rows
    return Linear(
        terms,
        values,
        influence - (influence @ at)[:, np.newaxis],
        at,
        known,
        np.ones_like(influence),
    )


def _whole(shares: Matrix, total: int) -> NDArray[np.int64]:
    """Round shares to counts that add up; what is rounded are the sums from the start, so that no part is lost."""
    return np.diff(
        np.rint(np.cumsum(shares) / shares.sum() * total), prepend=0.0
    ).astype(np.int64)


def _read(found: Any) -> tuple[list[str], Matrix]:
    """Read what a statistic returned."""
    if isinstance(found, pd.Series):
        found = {
            ", ".join(map(str, name)) if isinstance(name, tuple) else str(name): value
            for name, value in found.items()
        }
    if not isinstance(found, Mapping):
        numbers = np.atleast_1d(np.asarray(found))
        found = (
            {str(place): value for place, value in enumerate(numbers)}
            if numbers.size > 1
            else {"statistic": numbers[0]}
        )
    try:
        values = np.array([float(value) for value in found.values()])
    except (TypeError, ValueError) as error:
        raise TypeError(
            "statistic must return a number, or several in an array, a Series or a mapping"
        ) from error
    if not np.isfinite(values).all():
        raise ValueError("statistic must return finite numbers")
    return [str(name) for name in found], values


def linear_model(
    estimator: Any, cells: pd.DataFrame, target: Any, shares: Matrix, n_rows: float
) -> Linear:
    """Differentiate the coefficients of a linear or logistic regression."""
    terms, design = _design(cells.drop(columns=target))
    wanted, logistic = _target(estimator, cells[target])
    penalty = np.full(len(terms), _penalty(estimator) / n_rows)
    if estimator.fit_intercept:
        terms, design = (
            ["intercept", *terms],
            np.column_stack([np.ones(len(cells)), design]),
        )
        penalty = np.append(0.0, penalty)
    coefficients = np.zeros(len(terms))
    for _ in range(_MOST_STEPS if logistic else 2):
        mean, slope = _mean(design @ coefficients, logistic)
        curvature = (design.T * (shares * slope)) @ design + np.diag(penalty)
        step = np.linalg.pinv(curvature, hermitian=True) @ (
            design.T @ (shares * (wanted - mean)) - penalty * coefficients
        )
        coefficients = coefficients + step * min(
            1.0, 5 / max(1e-300, float(np.abs(step).max())) if logistic else 1.0
        )
        if np.abs(step).max() < 1e-10 * (1 + np.abs(coefficients).max()):
            break
    mean, slope = _mean(design @ coefficients, logistic)
    curvature = (design.T * (shares * slope)) @ design + np.diag(penalty)
    inverse = np.linalg.pinv(curvature, hermitian=True)
    scores = design * (wanted - mean)[:, np.newaxis] - penalty * coefficients
    known = np.isclose(np.diag(inverse @ curvature), 1, atol=1e-4)
    # Where one coefficient is moved, the others follow.
    falls = (inverse @ design.T) ** 2 * slope + (inverse**2 @ penalty)[:, np.newaxis]
    scale = np.maximum(np.diag(inverse), _LEAST)[:, np.newaxis]
    return Linear(terms, coefficients, inverse @ scores.T, shares, known, falls / scale)


def is_linear_model(estimator: Any) -> bool:
    return type(estimator) in (LinearRegression, LogisticRegression)


def _mean(score: Matrix, logistic: bool) -> tuple[Matrix, Matrix]:
    """Return the expected target, and its derivative."""
    if not logistic:
        return score, np.ones_like(score)
    mean = 1 / (1 + np.exp(-np.clip(score, -500, 500)))
    return mean, mean * (1 - mean)


def _penalty(estimator: Any) -> float:
    if isinstance(estimator, LinearRegression):
        if estimator.positive:
            raise ValueError(
                "estimator with positive=True has coefficients at a bound, of which no error is known"
            )
        return 0.0
    kind = estimator.get_params().get("penalty", "deprecated")
    if kind not in ("l2", None, "deprecated") or estimator.get_params().get(
        "l1_ratio"
    ) not in (None, 0, 0.0):
        raise ValueError(
            "estimator must be a LogisticRegression with an l2 penalty or none"
        )
    if estimator.class_weight is not None:
        raise ValueError("estimator must have class_weight=None")
    return 0.0 if kind is None or np.isinf(estimator.C) else 1 / float(estimator.C)


def _target(estimator: Any, column: pd.Series) -> tuple[Matrix, bool]:
    """Return the target as numbers, and whether they are 0 and 1 for a logistic model."""
    if column.isna().any():
        raise ValueError(
            f"target {column.name!r} may be missing: such rows have no target"
        )
    if isinstance(estimator, LinearRegression):
        if not pd.api.types.is_numeric_dtype(column):
            raise ValueError(
                f"target {column.name!r} must be a column of numbers for a linear regression"
            )
        return column.to_numpy(float), False
    values = np.unique(column.to_numpy())
    if len(values) != 2:
        raise ValueError(
            f"target {column.name!r} must have two values for a logistic regression, it has {len(values)}"
        )
    return (column.to_numpy() == values[1]).astype(float), True


def _design(features: pd.DataFrame) -> tuple[list[str], Matrix]:
    """Return numbers as they are, and for other columns an indicator of each value but the first declared one."""
    terms: list[str] = []
    columns: list[Matrix] = []
    for name in features:
        column = features[name]
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(
            column
        ):
            if column.isna().any():
                raise ValueError(
                    f"column {name!r} has numbers that may be missing: such rows cannot be regressed on"
                )
            terms.append(str(name))
            columns.append(column.to_numpy(float))
            continue
        codes, values = pd.factorize(column, use_na_sentinel=False)
        for code, value in list(enumerate(values))[1:]:
            terms.append(f"{name}={'missing' if pd.isna(value) else value}")
            columns.append((codes == code).astype(float))
    return terms, np.column_stack(columns) if columns else np.empty((len(features), 0))
