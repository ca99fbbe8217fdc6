"""The accountant between a lower bound computed in another way and what others publish."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from skdp.privacy import GaussianLoss, LaplaceLoss, PureLoss
from skdp.privacy._total_loss import smallest_epsilon
from tests.conftest import often
from tests.privacy.accounting.optimistic import lower_epsilon

FINE = 1 << 14
"""Steps of the grid of a sum: nearly as Laplace noise on real numbers."""

# The last numbers are those of dp-accounting 0.6.0 for real Laplace noise, see benchmarks/accounting.py.
ROWS = {
    "100 Laplace .1": ([LaplaceLoss(0.1, FINE, count=100)], 4.693),
    "30 Laplace .3, 20 Gaussian .1": ([LaplaceLoss(0.3, FINE, count=30), GaussianLoss(0.1, count=20)], 7.960),
    "20 Gaussian .2": ([GaussianLoss(0.2, count=20)], 4.306),
    "100 randomised response .1, one mean": ([PureLoss(0.1, count=100), LaplaceLoss(0.5, FINE, count=2)], 5.54),
}


@pytest.mark.parametrize(
    "row", often(ROWS, ["100 Laplace .1", "20 Gaussian .2", "100 randomised response .1, one mean"])
)
def test_within_two_percent_of_a_lower_bound(row):
    losses, published = ROWS[row]
    found, lower = smallest_epsilon(losses, Fraction(1e-6)), lower_epsilon(losses, 1e-6)
    assert lower <= found <= 1.02 * lower
    assert found == pytest.approx(published, rel=2e-3)


def mix(seed, *, most=2000):
    drawn = random.Random(seed)
    losses = []
    for _ in range(drawn.randint(1, 20)):
        count = drawn.choice([1, 1, 2, 5, drawn.randint(1, most // 20)])
        size = drawn.choice([0.01, 0.05, 0.1, 0.3, 1.0]) * drawn.uniform(0.5, 2)
        losses.append(
            drawn.choice(
                [
                    PureLoss(size, count=count),
                    PureLoss(size, drawn.random(), count=count),
                    LaplaceLoss(size, drawn.choice([1, 2, 3, 50, 1000]), count=count),
                    GaussianLoss(size, count=count),
                ]
            )
        )
    return losses


@pytest.mark.parametrize("seed", often(range(50), [1]))
def test_random_mixes(seed):
    losses, delta = mix(seed), random.Random(seed).choice([1e-3, 1e-5, 1e-7])
    found, lower = smallest_epsilon(losses, Fraction(delta)), lower_epsilon(losses, delta)
    assert lower <= found <= 1.02 * lower
