"""Likely counts of the values of a column, of which noise may hide most."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.oracles import project_to_simplex
from skdp.synthesis.model import Marginal
from skdp.synthesis.selection import fit_table
from skdp.synthesis.selection._likely_counts import likely_counts

TOTAL = 20_000.0


def counts_of_zipf(size):
    shares = 1 / np.arange(1.0, size + 1)
    return TOTAL * shares / shares.sum()


def equal_counts(size):
    return np.full(size, TOTAL / size)


@pytest.mark.parametrize("law", [counts_of_zipf, equal_counts])
@pytest.mark.parametrize(("size", "ratio"), [(200, 0.85), (1000, 0.7)])
def test_of_many_values_they_are_nearer_than_the_nearest_possible_ones(law, size, ratio):
    counts = law(size)
    noisy = counts + np.random.default_rng(0).normal(0, 100, size)
    likely = likely_counts(noisy, 100.0, TOTAL)
    assert likely.min() >= 0
    assert likely.sum() == pytest.approx(TOTAL)
    nearest = project_to_simplex(noisy, TOTAL)
    assert np.abs(likely - counts).sum() < ratio * np.abs(nearest - counts).sum()


def test_of_few_values_or_of_little_noise_there_are_none():
    rng = np.random.default_rng(0)
    for size, error in [(1, 100.0), (2, 100.0), (5, 300.0), (200, 0.5)]:
        noisy = counts_of_zipf(size) + rng.normal(0, error, size)
        assert likely_counts(noisy, error, TOTAL) is None


@pytest.mark.parametrize(
    ("noisy", "error", "total"),
    [([4e15, 0.0, 3.0], 1e-3, 4e15), ([-5e15] * 40, 1e30, 1.0), ([0.0] * 40, 1e-3, 1.0)],
    ids=str,
)
def test_counts_that_floats_just_hold_give_numbers(noisy, error, total):
    likely = likely_counts(np.array(noisy), error, total)
    assert likely is None or np.isfinite(likely).all()


def test_a_model_has_the_likely_counts_of_its_columns():
    counts = counts_of_zipf(300)
    noisy = counts + np.random.default_rng(1).normal(0, 100, 300)
    fitted = fit_table((300, 2), [Marginal((0,), noisy, 100.0), Marginal((1,), np.array([5e3, 15e3]), 10.0)])
    nearest = project_to_simplex(noisy, TOTAL)
    error = np.abs(TOTAL * fitted.model.marginal((0,)) - counts).sum()
    assert error < 0.8 * np.abs(nearest - counts).sum()
