"""Rows with dependent columns, their private counts and budgets."""

from fractions import Fraction

import numpy as np

from skdp.privacy import PrivacyBudget
from skdp.randomness import SeededSource
from skdp.synthesis.measure import NoiseSource, PrivateCounts
from skdp.synthesis.private._records import CodedRecords


def private_counts(codes, sizes, budget, seed=0, weights=None):
    """Make private records of rows of codes, or of combinations of codes with their numbers of records."""
    columns = np.asarray(codes, np.int64).reshape(-1, len(sizes)).T
    return PrivateCounts(CodedRecords(list(columns), sizes, weights), NoiseSource(budget, SeededSource(seed)))


def make_budget(kind, amount, rows=1):
    """Make a budget of an epsilon, or of the square of a mu."""
    return PrivacyBudget("epsilon" if kind == "laplace" else "mu", Fraction(amount), rows_per_person=rows)


def make_noise(kind, amount, rows=1, source=None):
    """Make a source of noise with a budget, by default with random bits of the seed 0."""
    return NoiseSource(make_budget(kind, amount, rows), source or SeededSource(0))


def dependent_rows(sizes, n, seed=0):
    """Draw rows with columns that all depend on one latent number."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    columns = [np.minimum((0.7 * hidden + 0.3 * rng.random(n)) * size, size - 1).astype(int) for size in sizes]
    return np.array(columns).reshape(len(sizes), n).T


def counts_of(rows, sizes, clique):
    """Count the records of each cell in a loop."""
    counts = np.zeros([sizes[column] for column in clique])
    for row in np.asarray(rows).reshape(-1, len(sizes)):
        counts[tuple(row[column] for column in clique)] += 1
    return counts


def assert_sound(model):
    """Check that a model is a distribution."""
    for belief in model.beliefs:
        assert np.isfinite(belief).all()
        assert (belief >= 0).all()
        np.testing.assert_allclose(belief.sum(), 1)
