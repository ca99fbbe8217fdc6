"""What central estimators state of their losses, for all of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from skdp import DPMean, PrivacyGuarantee
from skdp.central import DPKBinsDiscretizer
from skdp.privacy import GaussianLoss, PureLoss, compose, gaussian_epsilon, laplace_loss
from tests.central.estimators import fitted
from tests.central.test_contract import NUMBERS, SUBJECTS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows

BOUNDS = (0, 100)

PURE = [(one, table) for one, table in SUBJECTS if isinstance(one.epsilon, float) and not getattr(one, "delta", 0)]


def name_of(subject):
    return f"{type(subject[0]).__name__}-{getattr(subject[0], 'mechanism', '') or getattr(subject[0], 'strategy', '')}"


def without_losses(guarantee):
    return replace(guarantee, losses=())


def is_as_bad_as_stated(estimator):
    """Whether the worst release of this epsilon is no worse: a count, and what is not known before."""
    by_design = {
        "DPMarginalSynthesizer",
        "DPColumnSynthesizer",
        "DPSelectKBest",
        "DPPCA",
    }  # their parts follow from earlier results, or have a delta
    counts = type(estimator).__name__ == "DPHistogram" and estimator.method != "hierarchical"
    return counts or type(estimator).__name__ in by_design


@pytest.mark.parametrize("subject", PURE, ids=name_of)
def test_every_pure_release_states_losses_that_are_not_more_than_epsilon(subject):
    estimator, table = subject
    guarantee = fitted(estimator, table).guarantee_
    if guarantee.delta or not guarantee.epsilon:
        return  # Gaussian noise by default, or nothing private is read
    bare = without_losses(guarantee)
    for n, delta in ((1, 1e-9), (1, 0.1), (10, 1e-6)):
        known, unknown = (compose([one] * n, delta=delta).epsilon for one in (guarantee, bare))
        assert known <= unknown * (1 + 1e-5)
    assert compose([guarantee] * 3).epsilon == pytest.approx(3 * guarantee.epsilon, rel=1e-12)
    ten, bare_ten = (compose([one] * 10, delta=1e-3).epsilon for one in (guarantee, bare))
    assert ten <= bare_ten
    if guarantee.epsilon <= 1:
        assert (ten < 0.999 * bare_ten) == (not is_as_bad_as_stated(estimator))


def test_means_and_gaussian_noise_compose_as_their_laws():
    """The figure of docs/guide: 30 Laplace and 20 Gaussian means, by the exact laws 7.96."""
    mean = DPMean(0.3, bounds=BOUNDS).fit(NUMBERS[["age"]]).guarantee_
    assert mean.losses == (laplace_loss(Fraction(0.3), 1 << 29),)
    rounded = PrivacyGuarantee(
        gaussian_epsilon(0.1, 1e-6), delta=1e-6, relation="add_remove", trust="central", losses=(GaussianLoss(0.1),)
    )
    releases = [mean] * 30 + [rounded] * 20
    assert compose(releases, delta=1e-6).epsilon == pytest.approx(8.055, abs=0.005)


@pytest.mark.parametrize(("n_bins", "n_levels"), [(2, 1), (5, 3), (20, 5)])
def test_halvings_of_two_columns(n_bins, n_levels):
    guarantee = fitted(DPKBinsDiscretizer(0.6, bounds=BOUNDS, n_bins=n_bins), NUMBERS).guarantee_
    assert [(type(loss), loss.count) for loss in guarantee.losses] == [(PureLoss, 2 * n_levels)]
    assert 0.5 < guarantee.losses[0].share < 0.6
