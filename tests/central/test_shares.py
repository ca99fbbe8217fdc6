"""Fractions of a budget in rho or mu: their noise, the change by one record, and the charge."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import BudgetExceeded, DPKBinsDiscretizer, DPMean, PrivacyLedger
from skdp.privacy import (
    GaussianLoss,
    Mu,
    PureLoss,
    Rho,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    laplace_loss,
    parse_budget,
)

DELTA = 1e-6
AMOUNTS = [1e-6, 0.01, 0.3, 1.0, 5.0, 12.0]
NUMBERS = pd.DataFrame({"a": np.linspace(3, 97, 200), "b": np.linspace(0, 100, 200) ** 0.5})


def renyi(p, q, order):
    return math.log(sum(a * (a / b) ** (order - 1) for a, b in zip(p, q, strict=True))) / (order - 1)


def hockey_stick(p, q, epsilon):
    return sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


def pair(up, down):
    """Return two distributions on two outcomes with these log ratios, one above and one below 0."""
    q = -math.expm1(-down) / (math.exp(up) - math.exp(-down))
    return (q * math.exp(up), 1 - q * math.exp(up)), (q, 1 - q)


ORDERS = [1.0001, 1.1, 1.5, 2, 3, 8, 30]


class TestWhatAShareBuys:
    @pytest.mark.parametrize("amount", AMOUNTS)
    def test_choice_has_the_rho_for_all_losses(self, amount):
        epsilon = float(parse_budget(Rho(amount, DELTA)).choice)
        for fraction in np.linspace(0.02, 0.98, 25):
            pmfs = pair(fraction * epsilon, (1 - fraction) * epsilon)
            if min(*pmfs[0], *pmfs[1]) > 0:
                assert max(renyi(*pmfs, order) / order for order in ORDERS) <= amount * (1 + 1e-6)

    @pytest.mark.parametrize("mu", [1e-3, 0.1, 0.5, 1.0, 3.0])
    def test_choice_has_the_mu_for_all_losses(self, mu):
        share = parse_budget(Mu(mu, DELTA))
        epsilon = float(share.choice)
        worst = 0.0
        for fraction in [*np.linspace(0.02, 0.98, 13), 0.5]:
            p, q = pair(fraction * epsilon, (1 - fraction) * epsilon)
            for at in np.linspace(0, 1, 20) * fraction * epsilon:
                allowed = gaussian_delta(mu, at)
                assert hockey_stick(p, q, at) <= allowed * (1 + 1e-9)
                worst = max(worst, hockey_stick(p, q, at) / allowed)
        assert worst > 0.98
        assert 2 * share.pure == share.choice

    @pytest.mark.parametrize("kind", [Rho, Mu])
    @pytest.mark.parametrize("n", [1, 2, 3, 7, 10, pytest.param(1000, marks=pytest.mark.long)])
    def test_split_budget_fits_into_a_ledger_exactly(self, kind, n):
        whole = kind.of(1.0, DELTA)
        part = whole.split(n)
        ledger = PrivacyLedger(**{kind.name: getattr(whole, kind.name)})
        guarantee = DPMean(part, bounds=(0, 100)).fit(NUMBERS).guarantee_
        for _ in range(n):
            ledger.charge(guarantee, "mean")
        with pytest.raises(BudgetExceeded):
            ledger.charge(guarantee, "mean")
        left = ledger.balance().loc["remaining", kind.name]
        assert left <= 1e-7 * getattr(whole, kind.name)


class TestGuarantee:
    def test_means_and_gaussian_noise_compose_as_their_distributions(self):
        """The figure of docs/guide: 30 Laplace and 20 Gaussian means, with exact distributions 7.96."""
        mean = DPMean(0.3, bounds=(0, 100)).fit(NUMBERS[["a"]]).guarantee_
        assert mean.losses == (laplace_loss(Fraction(0.3), 1 << 29),)
        rounded = replace(mean, epsilon=gaussian_epsilon(0.1, DELTA), delta=DELTA, losses=(GaussianLoss(0.1),))
        assert compose([mean] * 30 + [rounded] * 20, delta=DELTA).epsilon == pytest.approx(8.055, abs=0.005)

    @pytest.mark.filterwarnings("ignore:.* fewer bins than:UserWarning")
    @pytest.mark.parametrize(("n_bins", "n_levels"), [(2, 1), (5, 3), (20, 5)])
    def test_bisections_of_two_columns_compose(self, n_bins, n_levels):
        (loss,) = DPKBinsDiscretizer(0.6, bounds=(0, 100), n_bins=n_bins, random_state=0).fit(NUMBERS).guarantee_.losses
        assert (type(loss), loss.count) == (PureLoss, 2 * n_levels)
        assert 0.5 < loss.share < 0.6
