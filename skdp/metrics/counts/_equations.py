"""Roots of estimating equations that are linear in noisy counts, and their intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.special import ndtr

from skdp._arrays import Floats
from skdp.base import NORMAL
from skdp.metrics._count_noise import find_noise, find_quantile, find_slack_factor
from skdp.metrics.counts._cells import COLUMNS, NUMBERS, Cells, format_level

# Smallest ratio of the information of an estimate to its noise: the relative error of the
# information, which intervals take from the noisy counts, is then at most a third.
MIN_SUPPORT = 3.0

# Smallest distance of a coefficient at which the score test excludes separation, in log
# odds for a change of the column over its range.
FAR = 6.0

# Largest number of values of columns that are excluded.
MAX_EXCLUDED = 4

NO_ROOT = "the noise is too large: the equations have no root"
NO_INFORMATION = "the noise is too large: less than three times the information"
EXCLUDED = "the noise is too large: the rows of this value are excluded"
SEPARATED = "the counts do not exclude an infinite coefficient"


@dataclass(frozen=True)
class Score:
    """Estimating functions at some coefficients, and how they depend on the counts."""

    # Estimating functions, and their derivatives by the counts; shapes (k,) and (n_cells, k).
    values: Floats
    slopes: Floats
    # Minus the derivatives by the coefficients, (k, k).
    find_information: Callable[[], Floats]
    # The derivative of the information in a direction by each count, and the variance of
    # the score in a direction by sampling if the model is true.
    find_curvature: Callable[[Floats], Floats]
    find_sampling: Callable[[Floats], float]


class Equations(Protocol):
    """Estimating equations of coefficients, whose functions are linear in the counts or in ratios of counts."""

    # The counts and the variances of their noise; shape (n_cells,).
    counts: Floats
    variances: Floats
    design_effect: float
    # Linear predictors by the coefficients; shape (n_rows, k).
    design: Floats
    # Basis in which the information is nearly diagonal; shape (k, k).
    basis: Floats
    # True for a model whose variance follows from its means, and whose coefficients may be
    # infinite.
    has_link: bool

    def start(self) -> Floats:
        """Return coefficients to begin with."""

    def evaluate(self, coefficients: Floats) -> Score:
        """Return the estimating functions at some coefficients."""

    def find_slack(self, coefficients: Floats, inverse: Floats) -> Floats:
        """Return the largest errors, downward and upward, by facts that the counts do not determine; shape (2, k)."""


@dataclass(frozen=True)
class Root:
    """Coefficients that solve estimating equations, and a table of their intervals."""

    coefficients: Floats
    # Derivatives of the coefficients by the counts; shape (n_cells, k).
    influence: Floats
    table: pd.DataFrame


def find_basis(design: Floats, sizes: Floats) -> Floats:
    """Return columns in which a design is orthonormal with weights of about `sizes`, (n_rows,)."""
    weights = np.sqrt(np.maximum(sizes, 1))[:, np.newaxis]
    basis: Floats = np.linalg.inv(np.linalg.qr(design * weights, mode="r"))
    return basis


def find_root(equations: Equations) -> Floats | None:
    """Solve estimating equations by Newton steps of limited length; None if they have no root."""
    b, basis = equations.start(), equations.basis
    for n_steps in range(100):
        score = equations.evaluate(b)
        information = basis.T @ score.find_information() @ basis
        scale = np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-12))
        scaled = (information + information.T) / 2 / scale / scale[:, np.newaxis]
        values, vectors = np.linalg.eigh(scaled)
        if n_steps > 4 and values[0] <= 1e-4:
            return None
        inverse = (vectors / np.maximum(values, 0.02)) @ vectors.T
        step = basis @ (inverse @ (basis.T @ score.values / scale) / scale)
        change = np.abs(equations.design @ step.reshape(equations.design.shape[1], -1))
        # A step changes log odds by at most 2.
        limit = 2 / max(change.max(), 2) if equations.has_link else 1.0
        b = b + limit * step
        if n_steps > 4 and change.max() < 1e-9:
            return b
    return None


def infer_root(equations: Equations, terms: list[str], level: float) -> Root | None:
    """Solve estimating equations, and return the root with intervals (Fieller 1954); None if there is no root."""
    b = find_root(equations)
    if b is None:
        return None
    score = equations.evaluate(b)
    information = score.find_information()
    inverse = np.asarray(np.linalg.inv((information + information.T) / 2), np.float64)
    slacks = equations.find_slack(b, inverse)
    rows = [
        _infer_coefficient(equations, score, inverse, b, j, level, slacks[:, j])
        for j in range(len(b))
    ]
    return Root(b, score.slopes @ inverse, make_table(terms, rows))


def _infer_coefficient(
    equations: Equations,
    score: Score,
    inverse: Floats,
    b: Floats,
    j: int,
    level: float,
    slack: Floats,
) -> list[Any]:
    """Return the row of coefficient `j` in the table of results; `slack` has its two errors of `find_slack`."""
    information = 1 / inverse[j, j]
    # The efficient score of the coefficient is its score in this direction.
    direction = inverse[:, j] * information
    slopes, curvature = score.slopes @ direction, score.find_curvature(direction)
    variances = equations.variances
    noise, cumulant = find_noise(slopes, variances)
    curve = find_noise(curvature, variances)[0]
    if information <= 0 or information < MIN_SUPPORT * np.sqrt(curve):
        return make_refusal(NO_INFORMATION)
    sampling = equations.counts @ slopes**2
    if equations.has_link:
        sampling = max(sampling, score.find_sampling(direction))
    variance = noise + equations.design_effect * max(sampling, 0.0)
    z = find_quantile(variance, cumulant, level)
    # At b + t, the score has the variance v + 2 slope t + curve t**2, in units of information**2:
    # the interval has all t with a square of at most z**2 times this variance.
    v, curve = variance / information**2, curve / information**2
    slope = -variances @ (slopes * curvature) / information**2
    rest, middle = 1 - z**2 * curve, z**2 * slope
    if rest <= 0:
        return make_refusal(NO_INFORMATION)
    margin = np.sqrt(middle**2 + rest * z**2 * v)
    if equations.has_link:
        column = np.repeat(equations.design, len(b) // equations.design.shape[1], 1)
        column = column[:, j]
        far = max(6 * margin, FAR / (np.ptp(column) or np.abs(column).max()))
        # The coefficient of a category changes alone, as its rows may be few.
        is_category = {*np.unique(column)} == {0, 1}
        change = np.eye(len(b))[j] if is_category else direction
        ends = b + far * np.multiply.outer([-1, 1], change)
        if not all(_excludes(equations, end, direction, level) for end in ends):
            return make_refusal(SEPARATED)
    at_zero = v - 2 * slope * b[j] + curve * b[j] ** 2
    error = np.sqrt(v)
    factor = find_slack_factor(slack.sum(), error, level)
    lower, upper = (middle - margin) / rest * factor, (middle + margin) / rest * factor
    distance = max(abs(b[j]) - (slack[0] if b[j] > 0 else slack[1]), 0.0)
    z_score = distance / np.sqrt(max(at_zero, 1e-300)) * NORMAL.quantile(level) / z
    ends = [b[j] + lower - slack[0], b[j] + upper + slack[1]]
    return [b[j], error, *ends, float(2 * ndtr(-z_score)), True, ""]


def _excludes(
    equations: Equations, coefficients: Floats, direction: Floats, level: float
) -> bool:
    """Return True if the score test in a direction excludes coefficients, with the sampling variance of their model."""
    score = equations.evaluate(coefficients)
    slopes = score.slopes @ direction
    noise, cumulant = find_noise(slopes, equations.variances)
    sampling = max(score.find_sampling(direction), 0.0)
    variance = noise + equations.design_effect * sampling
    margin = find_quantile(variance, cumulant, level) * np.sqrt(variance)
    # Far from the estimate, the noise is that of one whole count: a continuity correction.
    margin += np.abs(slopes).max() / 2 if noise > 0 else 0.0
    return bool(abs(direction @ score.values) > margin)


def make_refusal(reason: str) -> list[Any]:
    """Return the row of an estimate that the noise does not support."""
    return [np.nan] * len(NUMBERS) + [False, reason]


def make_table(terms: list[str], rows: list[list[Any]]) -> pd.DataFrame:
    """Make the table of results from the rows of terms."""
    lines = [[term, *row] for term, row in zip(terms, rows, strict=True)]
    return pd.DataFrame(lines, columns=COLUMNS)


def infer_supported(
    make: Callable[[Cells], tuple[Equations | None, list[str]]],
    cells: Cells,
    categories: list[Any],
    responses: list[Any],
    level: float,
) -> tuple[Root | None, pd.DataFrame]:
    """Infer the coefficients of the equations that `make` returns for cells, excluding values that leave no root.

    A value of one of the `categories` is excluded only if there is no root, because a choice by small counts would
    select the noise. A value needs rows with each combination of the values of the columns `responses`.
    """
    excluded: list[str] = []
    while True:
        equations, terms = make(cells)
        root = None if equations is None else infer_root(equations, terms, level)
        found = _find_weakest(cells, categories, responses)
        if root is not None or found is None or len(excluded) == MAX_EXCLUDED:
            break
        name, index = found
        excluded.append(f"{name}={format_level(cells.levels[name][index])}")
        indices = np.arange(len(cells.levels[name]))
        cells = cells.select(name, indices[indices != index])
    refused = make_table(terms, [make_refusal(NO_ROOT) for _ in terms])
    table = refused if root is None else root.table
    others = make_table(excluded, [make_refusal(EXCLUDED) for _ in excluded])
    return root, pd.concat([table, others], ignore_index=True) if excluded else table


def _find_weakest(
    cells: Cells, categories: list[Any], responses: list[Any]
) -> tuple[Any, int] | None:
    """Return the column and the index of the value with the fewest rows, in standard deviations of the noise."""
    weakest, found = np.inf, None
    for name in categories:
        part = cells.arrange(name, *responses)
        if len(part.counts) > 2:
            errors = np.sqrt(np.maximum(part.variances, 1))
            sizes = (part.counts / errors).reshape(len(errors), -1).min(axis=1)
            if sizes.min() < weakest:
                weakest, found = sizes.min(), (name, int(sizes.argmin()))
    return found
