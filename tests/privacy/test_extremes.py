"""Numbers at the ends of the floats, and very many different losses: bounds, times and errors."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri_exp

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
from skdp.privacy import GaussianLoss, LaplaceLoss, PureLoss, StatedLoss, compose, gaussian_delta, zcdp_epsilon
from skdp.privacy.accounting import joint_failure, least_rho, pure_mu, smallest_epsilon
from tests.conftest import each

D = 1e-6


def charged(*guarantees, **budget):
    ledger = PrivacyLedger(**budget)
    for guarantee in guarantees:
        ledger.charge(guarantee, "release")
    return ledger


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e300])
def test_a_filter_of_any_size_answers(size):
    """The rho of a small epsilon is below the floats."""
    ledger = charged(epsilon=size, delta=1e-300, filter_delta=1e-300)
    assert ledger.remaining().epsilon >= size
    ledger.charge(PrivacyGuarantee(size), "all of it")
    with pytest.raises(BudgetExceeded):
        ledger.charge(PrivacyGuarantee(size), "more")


@each("share", [1 - 2.0**-53, 1 - 2.9e-13, 1 - 1e-9, 0.5, 1e-3])
@each("epsilon", [27.871783952016408, 30.3, 33.22121659457197, 36.7, 40.0])
def test_the_mu_of_nearly_all_reports_is_not_too_small(epsilon, share):
    """At order 1 the divergence is the total variation; 1 minus it does not fit into a float beside 1."""
    mu = pure_mu(Fraction(epsilon), share)
    if share > 0.9:
        # The corner of the trade-off function: its errors are about e**-epsilon and 1 - share.
        rare = Fraction(share) / (1 + Fraction(math.exp(epsilon)))
        rest = 1 - Fraction(share) + rare
        needed = -ndtri_exp(math.log(rare)) - ndtri_exp(math.log(rest))
        assert float(mu) >= needed * (1 - 1e-12)
    assert float(mu) <= float(pure_mu(Fraction(epsilon)))
    assert gaussian_delta(mu, 0) >= share * math.tanh(epsilon / 2) * (1 - 1e-15)


@each("share", [1e-200, 1e-320, 5e-324])
@each("epsilon", [1e-4, 1.0, 387.0, 499.0])
def test_the_rarest_reports_are_counted(epsilon, share):
    report = PrivacyGuarantee(epsilon, losses=(PureLoss(epsilon, share),))
    for budget in ({"mu": 1e3}, {"rho": 1e6}):
        spent = charged(report, **budget).balance().loc["spent"]
        assert 0 < spent["mu"] <= float(pure_mu(Fraction(epsilon))) * (1 + 1e-9)
        assert 0 < spent["rho"] <= epsilon**2 / 2 * (1 + 1e-9)
    # The total variation of three is less than delta.
    assert compose([report] * 3, delta=D).epsilon <= 3 * epsilon * (1 + 1e-9)


@pytest.mark.parametrize("loss", [PureLoss(1e308, count=1 << 38), StatedLoss(1e308, count=2), LaplaceLoss(1e308, 5)])
def test_sums_beyond_the_floats_are_named(loss):
    huge = PrivacyGuarantee(1e308, losses=(loss,))
    for add in (lambda: huge + huge, lambda: compose([huge] * 2, delta=D), lambda: huge + PrivacyGuarantee(1e308)):
        with pytest.raises(ValueError, match="epsilon must be a finite number"):
            add()


@pytest.mark.parametrize("delta", [Fraction(1, 10**400), Fraction(1, 10**4000), 5e-324])
def test_a_delta_below_the_floats(delta):
    noise = PrivacyGuarantee(1.0, 1e-6, rho=0.1)
    assert compose([noise], delta=delta).epsilon == pytest.approx(zcdp_epsilon(0.1, delta))
    assert 10 < zcdp_epsilon(0.1, delta) < 100
    assert compose([PrivacyGuarantee(0.1)] * 10, delta=delta).epsilon == pytest.approx(1)
    gaussian = PrivacyGuarantee(1.0, 1e-6, losses=(GaussianLoss(0.1),))
    if delta < 5e-324:
        with pytest.raises(ValueError, match="delta must be larger"):
            compose([gaussian], delta=delta)
    else:
        assert compose([gaussian], delta=delta).epsilon > 3


@dataclass(frozen=True)
class Mine(PureLoss):
    kind = "mine"


def test_a_loss_that_no_file_could_read_again_is_none(tmp_path):
    with pytest.raises(TypeError, match=r"losses must be losses of .*, got Mine"):
        PrivacyGuarantee(0.1, losses=(Mine(0.1),))


def different(number):
    return [PrivacyGuarantee(0.001 + i * 0.005 / number, scope=("age",)) for i in range(number)]


@pytest.fixture
def at_most_64_losses(monkeypatch):
    monkeypatch.setattr("skdp.privacy.accounting._lists.MOST_LOSSES", 64)
    monkeypatch.setattr("skdp.privacy._guarantee.MOST_LOSSES", 64)


def test_many_different_losses_are_rounded_up_together(at_most_64_losses):
    together = compose(different(100), delta=0.0)
    assert together.epsilon == pytest.approx(math.fsum(one.epsilon for one in different(100)))
    assert PrivacyGuarantee.from_json(together.to_json()) == together
    kinds = [
        *(PureLoss(0.1 + i * 1e-4, 0.5 + (i * 7 % 200) * 1e-3) for i in range(200)),
        *(LaplaceLoss(0.1 + i * 1e-4, 1 + i % 3) for i in range(200)),
        *(GaussianLoss(0.1 + i * 1e-4) for i in range(200)),
        *(StatedLoss(0.1 + i * 1e-4, 1e-9 * (i % 2), 0.1 if i % 3 else None) for i in range(200)),
    ]
    mixed = PrivacyGuarantee(1.0, losses=tuple(kinds)).losses
    assert len(mixed) <= 64
    for kind in {type(one) for one in kinds}:
        before, after = ([one for one in each if isinstance(one, kind)] for each in (kinds, mixed))
        assert sum(one.count for one in after) == 200
        for name in {"epsilon", "mu", "share", "delta"} & vars(before[0]).keys():
            least, most = (sum(one.count * getattr(one, name) for one in each) for each in (before, after))
            assert least * (1 - 1e-12) <= most <= least * (2 if name == "delta" else 1.1)
    assert joint_failure(mixed) >= joint_failure(kinds) - Fraction(1, 1 << 1000)
    assert smallest_epsilon(mixed, Fraction(D)) >= smallest_epsilon(kinds, Fraction(D))


def test_many_failures_are_added_soon():
    losses = [StatedLoss(0.1, 1e-9 * (1 + math.sin(i) / 2)) for i in range(4_000)]
    begun = time.process_time()
    failure = joint_failure(losses)
    assert time.process_time() - begun < 2
    assert failure >= 1 - math.exp(-math.fsum(loss.delta for loss in losses)) - 1e-15
    assert float(failure) == pytest.approx(math.fsum(loss.delta for loss in losses), rel=1e-5)


@pytest.mark.long
def test_many_kinds_are_composed_soon():
    losses = [PureLoss(0.01 * (1 + i / 500), 0.5) for i in range(500)]
    begun = time.process_time()
    found = smallest_epsilon(losses, Fraction(D))
    assert time.process_time() - begun < 4
    same = smallest_epsilon([PureLoss(0.01 * math.sqrt(7 / 3), 0.5, count=500)], Fraction(D))
    assert found == pytest.approx(same, rel=0.02)


def test_the_rho_of_fine_noise_is_found_soon():
    begun = time.process_time()
    for i in range(10):
        assert least_rho(LaplaceLoss(0.1 + 1e-6 * i, 1 << 40)) < 0.8 * 0.1**2 * 1.001
    assert time.process_time() - begun < 0.5


@each("epsilon", [1e-4, 0.5, 8.0, 40.0])
def test_fewer_radii_state_hardly_more_rho(epsilon):
    """Against all of them, of a sensitivity that has as many."""
    fine = LaplaceLoss(epsilon, 2_000)
    radii, weights = fine._radii()
    assert radii.size > 900

    def divergence(order):
        terms = np.cosh((order - 0.5) * radii) / np.cosh(radii / 2) - 1
        return math.log1p(float(weights @ terms)) / (order - 1) / order

    truth = max(divergence(1 + excess) for excess in np.geomspace(1e-3, 15 + 100 / epsilon if epsilon < 10 else 8, 300))
    assert truth * (1 - 1e-4) <= least_rho(fine) <= truth * (1.01 if epsilon < 10 else 1.1)


@each("count", ["1", 1.0, None, True, [1], 10**30, 0, -1])
def test_a_count_of_a_record_that_is_none_is_named(count):
    content = PrivacyGuarantee(0.1, losses=(LaplaceLoss(0.1, 3),)).to_dict()
    for name in ("count", "sensitivity"):
        losses = [content["losses"][0] | {name: count}]
        with pytest.raises(ValueError, match=rf"losses\[0\].{name} must be a whole number"):
            PrivacyGuarantee.from_json(json.dumps(content | {"losses": losses}))


@pytest.mark.parametrize("share", [3.6e-11, 1e-7, 1e-300])
def test_what_differs_less_often_than_delta_has_no_epsilon(share):
    assert smallest_epsilon([PureLoss(0.35, share, count=3)], Fraction(D)) < 1e-11  # of rounding
    reached = 3 * share * math.tanh(0.35 / 2)
    assert smallest_epsilon([PureLoss(0.35, share, count=3)], Fraction(reached * 0.9)) > 0.01
