"""The accountant between a lower bound computed in another way and what others publish."""

from __future__ import annotations

import random
import time
from fractions import Fraction

import pytest

from skdp.privacy import GaussianLoss, LaplaceLoss, PrivacyGuarantee, PureLoss, compose
from skdp.privacy.accounting import smallest_epsilon
from tests.conftest import often
from tests.privacy.accounting.optimistic import lower_epsilon

FINE = 1 << 14
"""Steps of the grid of a sum: nearly as Laplace noise on real numbers."""

# The last numbers are those of dp-accounting 0.6.0 for real Laplace noise, see benchmarks/accounting.py.
ROWS = {
    "100 Laplace .1": ([LaplaceLoss(0.1, FINE, count=100)], 4.693),
    "30 Laplace .1, 20 Gaussian .1": ([LaplaceLoss(0.1, FINE, count=30), GaussianLoss(0.1, count=20)], 3.200),
    "30 Laplace .3, 20 Gaussian .1": ([LaplaceLoss(0.3, FINE, count=30), GaussianLoss(0.1, count=20)], 7.960),
    "20 Gaussian .2": ([GaussianLoss(0.2, count=20)], 4.306),
    "100 randomised response .1, one mean": (
        [PureLoss(0.1, count=100), LaplaceLoss(0.5, FINE, count=2)],
        5.54,
    ),
    "1,000 Laplace .02": ([LaplaceLoss(0.02, FINE, count=1000)], 2.906),
}


# Two of them differ from others in a number only.
@pytest.mark.parametrize("row", often(ROWS, [*ROWS][:1] + [*ROWS][2:5]))
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


def check_mix(seed):
    losses, delta = mix(seed), random.Random(seed).choice([1e-3, 1e-5, 1e-7])
    found, lower = smallest_epsilon(losses, Fraction(delta)), lower_epsilon(losses, delta)
    assert lower <= found
    assert found <= 1.02 * lower


@pytest.mark.parametrize("seed", often(range(4), [0, 1]))
def test_random_mixes(seed):
    check_mix(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4, 54))
def test_fifty_random_mixes(seed):
    check_mix(seed)


def test_ten_thousand_charges_of_twenty_kinds_take_less_than_a_second():
    kinds = [
        *(PrivacyGuarantee(0.002 * (i + 1)) for i in range(10)),
        *(PrivacyGuarantee(0.003 * (i + 1), losses=(LaplaceLoss(0.003 * (i + 1), 10 * i + 1),)) for i in range(5)),
        *(PrivacyGuarantee(0.2, 1e-6, losses=(GaussianLoss(0.002 * (i + 1)),)) for i in range(5)),
    ]
    compose(kinds, delta=1e-6)  # what is loaded and cached at the first use
    times = []
    for _ in range(3):
        start = time.process_time()
        total = compose(kinds * 500, delta=1e-6)
        times.append(time.process_time() - start)
    assert min(times) < 1
    assert sum(loss.count for loss in total.losses) == 10_000
    assert total.epsilon < 0.1 * sum(one.epsilon for one in kinds) * 500
