"""A budget that adds nothing and remembers what it was given: what would be protected by noise."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from skdp.privacy import PrivacyBudget
from skdp.randomness import SeededSource, watch_draws
from skdp.synthesis._records import CodedRecords
from skdp.synthesis.selection import NoiseBudget, PrivateCounts


class OpenBudget(NoiseBudget):
    """States that its counts are precise, and adds nothing to them."""

    def __init__(self, max_rows_per_person=1):
        super().__init__(PrivacyBudget("mu", Fraction(1)), Fraction(0), max_rows_per_person)
        self.given = []

    def std_error(self, fraction):
        return 0.3

    def score_std_error(self, fraction, n_scores):
        return 1e-3

    def add_to_counts(self, source, counts, fraction):
        self._spend(fraction)
        self.given.append(("counts", counts.copy()))
        return counts.astype(float)

    def add_to_scores(self, source, scores, fraction):
        self._spend(fraction)
        self.given.append(("scores", scores.copy()))
        return scores.astype(float)


def private_counts(codes, sizes, budget=None, seed=0):
    """Make private records of rows of codes."""
    columns = np.asarray(codes, np.int64).reshape(-1, len(sizes)).T
    return PrivateCounts(CodedRecords(list(columns), sizes), budget or OpenBudget(), SeededSource(seed))


def make_budget(kind, amount, rows=1):
    """Make a budget of an epsilon, or of the square of a mu."""
    share = PrivacyBudget("epsilon" if kind == "laplace" else "mu", Fraction(amount))
    return NoiseBudget(share, Fraction(0), rows)


@dataclass(frozen=True)
class Draw:
    """What a sampler was asked for: noise of so many counts of one marginal, or of so many scores."""

    purpose: str
    size: int
    sampler: str
    parameter: Fraction

    def loss(self, rows):
        """What it costs a person of so many rows, from the noise alone: epsilon, or mu squared."""
        if self.sampler == "rounded_gaussian":  # counts change by `rows` together, scores by `rows` each
            return Fraction(rows**2 * (self.size if self.purpose == "scores" else 1)) / self.parameter
        if self.purpose == "scores":  # one score is a cube of one dimension
            assert self.sampler == ("cube_noise" if self.size > 1 else "discrete_laplace")
        else:
            assert self.sampler == "discrete_laplace"
        return Fraction(rows) / self.parameter


@contextlib.contextmanager
def recorded_draws():
    """Record all draws of noise, and what for."""
    draws, purposes = [], ["values"]

    def watch(sampler, drawn, parameters):
        (parameter,) = parameters.values()
        draws.append(Draw(purposes[-1], np.size(drawn), sampler, Fraction(parameter)))
        return drawn

    with pytest.MonkeyPatch.context() as patch, watch_draws(watch):
        for purpose in ("counts", "scores"):
            method = f"add_to_{purpose}"
            original = getattr(NoiseBudget, method)

            def release(*given, purpose=purpose, original=original, **options):
                purposes.append(purpose)
                return original(*given, **options)

            patch.setattr(NoiseBudget, method, release)
        yield draws


def dependent_rows(sizes, n, seed=0):
    """Draw rows whose columns all follow one hidden number."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    columns = [np.minimum((0.7 * hidden + 0.3 * rng.random(n)) * size, size - 1).astype(int) for size in sizes]
    return np.array(columns).reshape(len(sizes), n).T


def counts_of(rows, sizes, clique):
    """Count the records of each cell, one by one."""
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
