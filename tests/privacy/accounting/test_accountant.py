"""The accountant compared with enumerated losses: never below the truth, on any grid, and close to it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from skdp import PrivacyLedger
from skdp.privacy import GaussianLoss, PrivacyGuarantee, PureLoss, StatedLoss, compose, smallest_epsilon
from tests.conftest import often
from tests.privacy.accounting.enumerated import outcomes_of, pair_of, small_mix, true_delta


@pytest.mark.parametrize(
    ("points", "steps", "mixes"),
    [
        (1 << 4, 1 << 1, 50),
        pytest.param(1 << 6, 1 << 3, 50, marks=pytest.mark.long),
        (1 << 13, 1 << 9, 50),
        pytest.param(1 << 13, 1 << 9, 500, marks=pytest.mark.long),
    ],
)
def test_epsilon_is_at_least_the_truth_and_close_on_a_fine_grid(points, steps, mixes, monkeypatch):
    """On a coarse grid, a bound rounded down or to the nearest point would be far below."""
    monkeypatch.setattr("skdp.privacy.guarantees._accountant.MAX_POINTS", points)
    monkeypatch.setattr("skdp.privacy.guarantees._accountant.N_SUBSTEPS", steps)
    is_fine = points > 1 << 10
    for seed in range(mixes):
        losses = small_mix(seed)
        outcomes = outcomes_of(losses)
        for delta in (1e-12, 1e-5, 1e-2, 0.1):
            found = smallest_epsilon(losses, Fraction(delta))
            if found is None:
                assert true_delta(losses, 1000, outcomes) > Fraction(delta)
                continue
            assert true_delta(losses, found, outcomes) <= Fraction(delta)
            below = found - 2e-3 * (found + max(loss.epsilon for loss in losses))
            if is_fine and below > 0:
                assert true_delta(losses, below, outcomes) > Fraction(delta)


@pytest.mark.parametrize(("k", "largest"), [(4, 3.4), (16, 1.7), (148, 0.61)])
def test_composition_of_a_hundred_reports_is_tight(k, largest):
    loss = PureLoss(0.1, share=(math.exp(0.1) + 1) / (math.exp(0.1) + k - 1), count=100)
    found = compose([PrivacyGuarantee(0.1, losses=(PureLoss(0.1, share=loss.share),))] * 100, delta=1e-6).epsilon
    assert found <= largest
    outcomes = outcomes_of([loss])
    assert true_delta([loss], found, outcomes) <= Fraction(1e-6)
    assert true_delta([loss], found - 2e-3, outcomes) > Fraction(1e-6)


@pytest.mark.parametrize(
    ("losses", "published"),
    [
        ([GaussianLoss(0.2, count=20)], 4.306),
        ([PureLoss(0.1, count=100), PureLoss(0.5, count=2)], 5.581),
        ([PureLoss(0.3, count=30), GaussianLoss(0.1, count=20)], 8.310),
    ],
)
def test_epsilons_equal_published_numbers(losses, published):
    """They were computed on a tilted grid by Fourier transforms; dp-accounting also gives the first number."""
    assert smallest_epsilon(losses, Fraction(1e-6)) == pytest.approx(published, rel=2e-4)


@pytest.mark.parametrize("mu", [0.05, 0.3, 2.0])
def test_gaussian_noise_and_answers_compose(mu):
    answers, delta = [PureLoss(0.3), PureLoss(0.5), PureLoss(1.0, share=0.4)], 1e-3
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


def test_replacing_a_record_is_removing_and_adding_a_record():
    losses = [PureLoss(0.5, share=0.25), GaussianLoss(0.2), StatedLoss(0.5, 1e-6, 0.1)]
    double = [loss._to_replacement() for loss in losses]
    assert double[1] == GaussianLoss(0.4)
    assert (double[2].epsilon, double[2].rho) == (1.0, 0.4)
    assert double[2].delta == pytest.approx(1e-6 * (1 + math.exp(0.5)))
    assert double[0].epsilon == 1
    assert double[0].share == pytest.approx(2 * 0.25 * math.tanh(0.25) / math.tanh(0.5))
    # Two steps of a channel with these numbers attain it: 0 to 1 to 2; the reports of 0 and 2 differ more.
    assert PureLoss(1.0, share=0.9)._to_replacement().share == 1


LOSSES = [PureLoss(epsilon, share=share) for epsilon in (0.01, 0.5, 3.0, 20.0) for share in (1.0, 0.3, 1e-3, 1e-9)]


@pytest.mark.parametrize("loss", often(LOSSES, [LOSSES[0], LOSSES[4], LOSSES[10], LOSSES[15]]), ids=str)
def test_smallest_rho_is_the_largest_divergence_over_its_order(loss):
    pair = [(float(value), float(mass)) for value, mass in pair_of(loss).items() if mass]

    def divergence(order):
        terms = [math.log(mass) + (order - 1) * value for value, mass in pair]
        return max(0.0, float(np.logaddexp.reduce(terms))) / (order - 1)

    excesses = np.geomspace(1e-6, 1e7, 6000).tolist()
    truth = max(divergence(1 + excess) / (1 + excess) for excess in excesses)
    ledger = PrivacyLedger(rho=1e6)
    ledger.charge(PrivacyGuarantee(loss.epsilon, losses=(loss,)), "report")
    found = ledger.balance().loc["spent", "rho"]
    assert truth <= found * (1 + 1e-9) + 1e-13
    assert found <= truth * 1.006 + 1e-12
    assert found <= loss.epsilon**2 / 2 * (1 + 1e-9)


@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-9, 3.6e-11, 1e-14, 1e-200])
def test_rarest_losses_are_counted(share, part):
    """With a delta slightly below the total variation, epsilon is small."""
    for losses in (
        [PureLoss(0.35, share=share, count=3)],
        [PureLoss(0.35, share=share), PureLoss(2.0, share=share / 10, count=2)],
    ):
        variation = sum(loss.count * loss.share * math.tanh(loss.epsilon / 2) for loss in losses)
        found = smallest_epsilon(losses, Fraction(part * variation))
        assert true_delta(losses, found) <= Fraction(part * variation)
