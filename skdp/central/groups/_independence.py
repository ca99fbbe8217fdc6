"""Test of independence of two keys, from noisy counts."""

from __future__ import annotations

import numpy as np
from scipy.stats import random_table

from skdp._arrays import Floats, Integers
from skdp.base import make_source
from skdp.central.statistics import Noise


def find_p_value(counts: Floats, noise_std: float, noise: Noise, unit: float) -> float:
    """Return the p-value of a table of noisy counts, (n_rows, n_columns), whose noise is a multiple of `unit`."""
    # Simulated tables are functions of the release, and equal in each call.
    rng = np.random.default_rng(0)
    n_tables = 1_999  # so that a p-value is a multiple of 1 / 2,000
    tables = _simulate_tables(rng, counts, n_tables)
    source = make_source(0, "test_independence")
    drawn = noise.draw_each(source, tables.size, noise.dimension)[:, 0]
    noisy = tables + np.rint(drawn.astype(float) * unit).reshape(tables.shape)
    statistics = _compute_chi_squares(
        np.concatenate([counts[np.newaxis], noisy]), noise_std
    )
    # Equal statistics of different tables have rounding errors.
    return float(np.mean(statistics >= (1 - 1e-9) * statistics[0]))


def _compute_chi_squares(counts: Floats, noise_std: float) -> Floats:
    """Return the chi-square statistics of tables (n_tables, n_rows, n_columns) of noisy counts."""
    # Expected counts are products of the noisy margins. With the noise variance in the
    # denominators, cells of few rows do not dominate the statistic.
    rows = np.maximum(counts.sum(2, keepdims=True), 0.0)
    columns = np.maximum(counts.sum(1, keepdims=True), 0.0)
    expected = rows * columns / np.maximum(counts.sum((1, 2), keepdims=True), 1.0)
    # A cell without noise in an empty row has 0 / 0.
    variances = expected + max(noise_std**2, 1e-30)
    squares = (counts - expected) ** 2 / variances
    return squares.sum((1, 2))


def _simulate_tables(
    rng: np.random.Generator, counts: Floats, n_tables: int
) -> Integers:
    """Draw tables of independent keys with the margins of noisy counts; shape (n_tables, n_rows, n_columns)."""
    n_rows = round(max(counts.sum(), 1.0))
    margins = [np.maximum(counts.sum(axis), 1e-9) for axis in (1, 0)]
    shares = [margin / margin.sum() for margin in margins]
    if n_rows > 1_000_000:  # `random_table` is slow, and fails for 10**11 rows
        tables = rng.multinomial(n_rows, np.outer(*shares).ravel(), n_tables)
        return tables.reshape(n_tables, *counts.shape)
    # Fixed margins make the test exact without noise, also for rare values: a margin of
    # few rows would vary, and often be 0.
    ends = [np.rint(np.cumsum(share) * n_rows) for share in shares]
    sizes = [np.diff(end, prepend=0).astype(np.int64) for end in ends]
    tables = random_table(*sizes).rvs(n_tables, random_state=rng)
    return np.reshape(tables, (n_tables, *counts.shape))
