"""The accountant against enumerated losses: it is never below the truth, on any grid."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import skdp.privacy._total_loss as total_loss
from skdp.exact import exp_bounds
from skdp.oracles import RandomizedResponse, SubsetSelection, UnaryEncoding
from skdp.privacy import GaussianLoss, LaplaceLoss, PureLoss, StatedLoss
from skdp.privacy._losses import pure_rho
from skdp.privacy._total_loss import smallest_epsilon
from tests.conftest import each, often


def exp(exponent):
    """E to a fraction, within 2**-300."""
    exponent = Fraction(exponent)
    return exp_bounds(exponent)[0] if exponent >= 0 else 1 / exp_bounds(-exponent)[1]


def pair_of(loss):
    """Return the losses of one release as {loss: probability}, exactly but for 2**-300."""
    if isinstance(loss, LaplaceLoss):
        steps, rate = loss.sensitivity, Fraction(loss.epsilon) / loss.sensitivity
        q = exp(-rate)
        inner = [(1 - q) / (1 + q) * q**j for j in range(1, steps)]
        masses = [1 / (1 + q), *inner, q**steps / (1 + q)]
        return {rate * (steps - 2 * j): mass for j, mass in enumerate(masses)}
    epsilon = Fraction(loss.epsilon)
    share = Fraction(getattr(loss, "share", 1))
    likelier = exp(epsilon) / (1 + exp(epsilon))
    pair = {}
    for value, mass in ((epsilon, share * likelier), (-epsilon, share * (1 - likelier)), (Fraction(0), 1 - share)):
        pair[value] = pair.get(value, Fraction(0)) + mass  # an epsilon of 0 has one value
    return pair


def true_delta(losses, epsilon):
    epsilon, delta, spared = Fraction(epsilon), Fraction(0), Fraction(1)
    pairs = [
        [(value, mass) for value, mass in pair_of(loss).items() if mass] for loss in losses for _ in range(loss.count)
    ]
    for outcome in itertools.product(*pairs):
        total = sum((value for value, _ in outcome), Fraction(0))
        if total > epsilon:
            delta += math.prod((mass for _, mass in outcome), start=Fraction(1)) * (1 - exp(epsilon - total))
    for loss in losses:
        spared *= (1 - Fraction(getattr(loss, "delta", 0))) ** loss.count
    return 1 - spared + spared * delta


def small_mix(seed):
    drawn = random.Random(seed)
    kinds = [
        lambda size: PureLoss(size),
        lambda size: PureLoss(size, drawn.random(), count=drawn.randint(1, 2)),
        lambda size: LaplaceLoss(size, drawn.randint(1, 5)),
        lambda size: StatedLoss(size, drawn.choice([0.0, 1e-3])),
    ]
    return [drawn.choice(kinds)(drawn.choice([0.1, 0.5, drawn.uniform(0, 3)])) for _ in range(drawn.randint(1, 4))]


@pytest.mark.parametrize("points", often([1 << 5, 1 << 8, total_loss._POINTS], [1 << 5, total_loss._POINTS]))
def test_never_below_the_truth_and_close_on_a_fine_grid(points, monkeypatch):
    """On a coarse grid a bound that rounds down, or to the nearest, would be far below."""
    monkeypatch.setattr(total_loss, "_POINTS", points)
    monkeypatch.setattr(total_loss, "_MOST_POINTS", points)
    for seed in range(25 if points < 1 << 10 else 10):
        losses = small_mix(seed)
        for delta in (1e-9, 1e-2, 0.1):
            found = smallest_epsilon(losses, Fraction(delta))
            if found is None:
                assert true_delta(losses, 1000) > Fraction(delta)
                continue
            assert true_delta(losses, found) <= Fraction(delta)
            if points > 1 << 10 and found > 1e-3:
                assert true_delta(losses, found * (1 - 1e-3) - 1e-3) > Fraction(delta)


def largest_divergence(channel, order):
    return max(
        sum(max(Fraction(0), first - order * second) for first, second in zip(*rows, strict=True))
        for rows in itertools.permutations(channel, 2)
    )


@each("make", [RandomizedResponse, SubsetSelection, UnaryEncoding])
def test_the_worst_pair_of_a_channel_is_that_of_its_total_variation(make):
    oracle = make(4, 0.7)
    channel = oracle.channel()
    ratio = oracle.worst_ratio
    variation = largest_divergence(channel, Fraction(1))
    share = variation * (ratio + 1) / (ratio - 1)
    assert share < 1
    for step in range(11):
        order = 1 + (ratio - 1) * Fraction(step, 10)
        # With probability share, randomised response of two values.
        assert largest_divergence(channel, order) == share * max(Fraction(0), (ratio - order) / (1 + ratio))


@each("seed", range(20))
def test_no_channel_is_worse_than_that_of_its_total_variation(seed):
    drawn = random.Random(seed)
    channel = []
    for _ in range(3):
        row = [Fraction(drawn.randint(1, 6)) for _ in range(4)]
        channel.append([part / sum(row) for part in row])
    ratio = max(a / b for one, other in itertools.permutations(channel, 2) for a, b in zip(one, other, strict=True))
    share = largest_divergence(channel, Fraction(1)) * (ratio + 1) / (ratio - 1)
    for step in range(11):
        order = 1 + (ratio - 1) * Fraction(step, 10)
        assert largest_divergence(channel, order) <= share * max(Fraction(0), (ratio - order) / (1 + ratio))


@each("mu", [0.05, 0.3, 2.0])
def test_gaussian_noise_and_answers(mu):
    answers, delta = [PureLoss(0.3), PureLoss(0.5), LaplaceLoss(1.0, 2)], 1e-3
    found = smallest_epsilon([*answers, GaussianLoss(mu)], Fraction(delta))

    def truth(epsilon):
        total = 0.0
        for outcome in itertools.product(*(pair_of(loss).items() for loss in answers)):
            gap = epsilon - float(sum(value for value, _ in outcome))
            chance = math.prod(float(mass) for _, mass in outcome)
            total += chance * (norm.cdf(mu / 2 - gap / mu) - math.exp(gap) * norm.cdf(-mu / 2 - gap / mu))
        return total

    assert truth(found) <= delta * (1 + 1e-9)
    assert truth(found - 1e-3) > delta


def test_replacing_a_record_is_removing_one_and_adding_one():
    losses = [PureLoss(0.5, 0.25), LaplaceLoss(0.5, 3), GaussianLoss(0.2), StatedLoss(0.5, 1e-6, 0.1)]
    double = [loss._doubled() for loss in losses]
    assert double[1:3] == [LaplaceLoss(1.0, 6), GaussianLoss(0.4)]
    assert (double[3].epsilon, double[3].rho) == (1.0, 0.4)
    assert double[3].delta == pytest.approx(1e-6 * (1 + math.exp(0.5)))
    assert double[0].epsilon == 1
    assert double[0].share == pytest.approx(2 * 0.25 * math.tanh(0.25) / math.tanh(0.5))
    # Two steps of a channel with these numbers attain it: 0 to 1 to 2, of which the reports of 0 and 2 differ more.
    assert PureLoss(1.0, 0.9)._doubled().share == 1


LOSSES = [PureLoss(epsilon, share) for epsilon in (0.01, 0.5, 3.0, 20.0) for share in (1.0, 0.3, 1e-3, 1e-9)]


@pytest.mark.parametrize("loss", often(LOSSES, [LOSSES[0], LOSSES[4], LOSSES[10], LOSSES[15]]), ids=str)
def test_the_least_rho_is_the_largest_divergence_over_its_order(loss):
    pair = [(float(value), float(mass)) for value, mass in pair_of(loss).items() if mass]

    def divergence(order):
        terms = [math.log(mass) + (order - 1) * value for value, mass in pair]
        return max(0.0, float(np.logaddexp.reduce(terms))) / (order - 1)

    excesses = np.geomspace(1e-6, 1e7, 6000).tolist()
    truth = max(divergence(1 + excess) / (1 + excess) for excess in excesses)
    found = pure_rho(loss.epsilon, loss.share)
    assert truth <= found * (1 + 1e-9) + 1e-13
    assert found <= truth * 1.006 + 1e-12
    assert found <= loss.epsilon**2 / 2 * (1 + 1e-9)


@pytest.mark.parametrize("part", often([0.3, 0.9, 0.999], [0.9]))
@pytest.mark.parametrize("share", often([1e-3, 1e-6, 1e-9, 3.6e-11, 1e-14], [1e-3, 1e-6, 3.6e-11, 1e-14]))
def test_rare_losses_below_the_window_of_a_large_tilt_count(share, part):
    """With a delta a little below the total variation, epsilon is small, and the tilt may be that of a larger one."""
    for losses in ([PureLoss(0.35, share, count=3)], [PureLoss(0.35, share), PureLoss(2.0, share / 10, count=2)]):
        variation = sum(loss.count * loss.share * math.tanh(loss.epsilon / 2) for loss in losses)
        found = smallest_epsilon(losses, Fraction(part * variation))
        assert true_delta(losses, found) <= Fraction(part * variation)
