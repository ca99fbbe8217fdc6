"""Distributions of rows with known coefficients of linear regression, and the published results of BinAgg."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Rows = tuple[Numbers, Numbers]


class Coefficients(NamedTuple):
    """A distribution of rows, their declared bounds, and the slopes of the population."""

    draw: Callable[[np.random.Generator, int], Rows]
    n_rows: int
    bounds: tuple[float, float]
    target_bounds: tuple[float, float]
    # None for the slopes of least squares in a large sample of clipped rows.
    slopes: tuple[float, ...] | None = None

    @cache  # noqa: B019 (settings live as long as the process)
    def find_slopes(self) -> tuple[Numbers, Numbers]:
        """Return the slopes of the population, and the standard deviations of the columns."""
        columns, target = self.draw(np.random.default_rng(10**6), 500_000)
        columns = columns.clip(*self.bounds)
        slopes = self.slopes
        if slopes is None:
            slopes = fit_least_squares(columns, target.clip(*self.target_bounds))
        return np.array(slopes), columns.std(axis=0)


def fit_least_squares(columns: Numbers, target: Numbers) -> Numbers:
    """Return the slopes of least squares."""
    inputs = np.column_stack([columns, np.ones(len(target))])
    slopes: Numbers = np.linalg.lstsq(inputs, target, rcond=None)[0][:-1]
    return slopes


def draw_wide(rng: np.random.Generator, n: int) -> Rows:
    """Draw normal columns within wide bounds."""
    columns = rng.normal(50, 10, (n, 4)).clip(0, 100)
    return columns, columns @ [0.1, -0.05, 0.02, 0] + rng.normal(size=n)


def draw_outliers(rng: np.random.Generator, n: int) -> Rows:
    """Draw residuals of Student's t distribution with 2 degrees of freedom."""
    columns = rng.uniform(0, 1, (n, 3))
    errors = rng.standard_t(2, n).clip(-40, 40)
    return columns, columns @ [1.0, -1, 0.5] + errors


def draw_unequal(rng: np.random.Generator, n: int) -> Rows:
    """Draw residuals whose standard deviation depends on a column."""
    columns = rng.uniform(0, 1, (n, 2))
    errors = rng.normal(size=n) * (0.2 + 2 * columns[:, 0] ** 2)
    return columns, columns @ [1.0, -1] + errors


def draw_collinear(rng: np.random.Generator, n: int) -> Rows:
    """Draw two columns that are almost equal, and a third column."""
    first, second, third = rng.uniform(-1, 1, (3, n))
    columns = np.column_stack([first, 0.95 * first + 0.05 * second, third])
    return columns, columns @ [1.0, 0.5, -0.5] + 1 + 0.5 * rng.normal(size=n)


def draw_indicators(rng: np.random.Generator, n: int) -> Rows:
    """Draw indicators of five of six categories, and a number."""
    codes = rng.choice(6, n, p=[0.4, 0.3, 0.15, 0.08, 0.05, 0.02])
    columns = np.column_stack([np.eye(6)[codes][:, 1:], rng.uniform(0, 1, n)])
    return columns, columns @ [0.5, -0.5, 1, -1, 2, 1.0] + rng.normal(size=n)


def draw_zeros(rng: np.random.Generator, n: int) -> Rows:
    """Draw a target of which nine tenths are 0."""
    columns = rng.uniform(0, 1, (n, 2))
    sizes = rng.uniform(2, 20, n) * (0.5 + columns[:, 1])
    return columns, np.where(rng.random(n) < 0.03 + 0.1 * columns[:, 0], sizes, 0.0)


def draw_curve(rng: np.random.Generator, n: int) -> Rows:
    """Draw a curved relation with lognormal columns, which the bounds clip."""
    columns = rng.lognormal(size=(n, 2))
    return columns, np.sqrt(columns) @ [1.0, -0.5] + rng.normal(size=n)


def draw_lognormal(rng: np.random.Generator, n: int) -> Rows:
    """Draw a lognormal target whose bounds are far from most values."""
    columns = rng.uniform(0, 1, (n, 3))
    logs = 6 + columns @ [1.0, -0.5, 0.2] + rng.normal(size=n)
    return columns, np.exp(logs).clip(0, 1e5)


def draw_line(rng: np.random.Generator, n: int) -> Rows:
    """Draw one column, for estimators of lines."""
    columns = rng.uniform(0, 10, (n, 1))
    return columns, 2 * columns[:, 0] + 2 * rng.normal(size=n)


def draw_uniform(rng: np.random.Generator, n: int) -> Rows:
    """Draw the columns of BinAgg's simulation."""
    columns = rng.uniform(0, 10, (n, 3))
    return columns, columns @ [1.0, -0.5, 0.5] + rng.normal(size=n)


def draw_normal(rng: np.random.Generator, n: int, n_columns: int) -> Rows:
    """Draw normal columns that explain half of the variance of the target."""
    columns = rng.normal(size=(n, n_columns)).clip(-4, 4)
    return columns, columns.sum(axis=1) / n_columns**0.5 + rng.normal(size=n)


SETTINGS = {
    "wide columns, 1,000 x 4": Coefficients(
        draw_wide, 1_000, (0, 100), (-10, 20), (0.1, -0.05, 0.02, 0)
    ),
    "outliers, 3,000 x 3": Coefficients(
        draw_outliers, 3_000, (0, 1), (-45, 45), (1, -1, 0.5)
    ),
    "unequal variances, 3,000 x 2": Coefficients(
        draw_unequal, 3_000, (0, 1), (-12, 12), (1, -1)
    ),
    "collinear, 1,000 x 3": Coefficients(
        draw_collinear, 1_000, (-1, 1), (-6, 6), (1, 0.5, -0.5)
    ),
    "indicators, 5,000 x 6": Coefficients(
        draw_indicators, 5_000, (0, 1), (-6, 8), (0.5, -0.5, 1, -1, 2, 1)
    ),
    "nine tenths zeros, 6,000 x 2": Coefficients(draw_zeros, 6_000, (0, 1), (0, 30)),
    "curve, 5,000 x 2": Coefficients(draw_curve, 5_000, (0, 10), (-6, 10)),
    "lognormal target, 10,000 x 3": Coefficients(
        draw_lognormal, 10_000, (0, 1), (0, 1e5)
    ),
    "one column, 5,000 x 1": Coefficients(draw_line, 5_000, (0, 10), (-10, 30), (2,)),
}

# S. Lin, A. Slavkovic, D. R. Bhoomireddy (2025), arXiv 2510.16974: coverage and width of
# intervals by mu.
BINAGG = Coefficients(draw_uniform, 2_000, (0, 10), (-30, 30), (1, -0.5, 0.5))
BINAGG_PUBLISHED = {
    0.5: (0.917, 0.518),
    1.0: (0.931, 0.291),
    2.0: (0.934, 0.181),
    5.0: (0.918, 0.103),
}
