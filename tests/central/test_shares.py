"""Shares of a budget in rho or mu: what they buy, what one record can change, and what is charged."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import (
    BudgetExceeded,
    DPHistogram,
    DPKBinsDiscretizer,
    DPMarginalSynthesizer,
    DPMean,
    DPQuantileBinarizer,
    DPSimpleImputer,
    DPStandardScaler,
    Interval,
    PrivacyLedger,
)
from skdp.central import sample_and_aggregate
from skdp.central.statistics import _noise as noise_of_shares
from skdp.evaluation import audit_epsilon
from skdp.privacy import GaussianLoss, Mu, Rho, compose, gaussian_delta, gaussian_epsilon, read_share, zcdp_epsilon
from tests.conftest import each

DELTA = 1e-6
AMOUNTS = [1e-6, 0.01, 0.3, 1.0, 5.0, 12.0]
NUMBERS = pd.DataFrame({"a": np.linspace(3, 97, 200), "b": np.linspace(0, 100, 200) ** 0.5})
CODES = pd.DataFrame({"job": ["x", "y", "y", "z"] * 50})
DOMAIN = {"job": ["x", "y", "z"]}


def renyi(p, q, order):
    return math.log(sum(a * (a / b) ** (order - 1) for a, b in zip(p, q, strict=True))) / (order - 1)


def hockey_stick(p, q, epsilon):
    return sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


def pair(up, down):
    """The two laws on two outcomes with these logarithms of ratios, one above and one below 0."""
    q = -math.expm1(-down) / (math.exp(up) - math.exp(-down))
    return (q * math.exp(up), 1 - q * math.exp(up)), (q, 1 - q)


ORDERS = [1.0001, 1.1, 1.5, 2, 3, 8, 30]


class TestWhatAShareBuys:
    @each("amount", AMOUNTS)
    def test_a_pure_mechanism_has_the_rho_and_no_larger_one_would(self, amount):
        share = read_share(Rho(amount, DELTA))
        epsilon = float(share.pure)
        assert max(renyi(*pair(epsilon, epsilon), order) / order for order in ORDERS) <= amount * (1 + 1e-6)
        if epsilon < 50:
            more = epsilon * 1.01
            assert renyi(*pair(more, more), 1.0001) > amount
        assert share.pure >= share.amount

    @each("amount", AMOUNTS)
    def test_a_choice_has_the_rho_wherever_its_losses_are(self, amount):
        epsilon = float(read_share(Rho(amount, DELTA)).choice)
        for place in np.linspace(0.02, 0.98, 25):
            laws = pair(place * epsilon, (1 - place) * epsilon)
            if min(*laws[0], *laws[1]) > 0:
                assert max(renyi(*laws, order) / order for order in ORDERS) <= amount * (1 + 1e-6)

    @pytest.mark.parametrize("mu", [1e-3, 0.1, 0.5, 1.0, 3.0])
    def test_a_choice_has_the_mu_wherever_its_losses_are(self, mu):
        share = read_share(Mu(mu, DELTA))
        epsilon = float(share.choice)
        worst = 0.0
        for place in [*np.linspace(0.02, 0.98, 13), 0.5]:
            p, q = pair(place * epsilon, (1 - place) * epsilon)
            for at in np.linspace(0, 1, 20) * place * epsilon:
                allowed = gaussian_delta(mu, at)
                assert hockey_stick(p, q, at) <= allowed * (1 + 1e-9)
                worst = max(worst, hockey_stick(p, q, at) / allowed)
        assert worst > 0.98
        assert 2 * share.pure == share.choice

    def test_parts_add_up(self):
        for whole in (read_share(Rho(0.3, DELTA)), read_share(Mu(0.3, DELTA)), read_share(0.3)):
            assert sum(((whole * Fraction(part, 10)).amount for part in (1, 2, 7)), Fraction(0)) == whole.amount
            assert (whole / 4).amount * 4 == whole.amount

    @pytest.mark.parametrize("kind", [Rho, Mu])
    @pytest.mark.parametrize("n", [1, 2, 3, 7, 10, pytest.param(1000, marks=pytest.mark.long)])
    def test_a_split_share_fits_into_a_ledger_and_no_more(self, kind, n):
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

    def test_the_largest_shares(self):
        assert zcdp_epsilon(Rho.of(1, DELTA).rho, DELTA) == pytest.approx(1, rel=1e-9)
        assert gaussian_epsilon(Mu.of(1, DELTA).mu, DELTA) == pytest.approx(1, rel=1e-9)

    @pytest.mark.parametrize("kind", [Rho, Mu])
    def test_the_share_of_a_large_epsilon_is_the_largest_that_there_is(self, kind):
        largest = kind.of(1e9, DELTA)
        assert largest == kind.of(1e300, DELTA)
        with pytest.raises(ValueError, match=f"{kind.name} must be from"):
            kind(1.001 * getattr(largest, kind.name), DELTA)

    @pytest.mark.parametrize("kind", [Rho, Mu])
    def test_the_epsilon_of_a_share_is_no_more_than_was_asked_for(self, kind):
        """All conversions round to the safe side, and a ledger of just this epsilon has to cover them."""
        for epsilon in (0.3, 0.5, 1.1, 3.0, 4.0):
            ledger = PrivacyLedger(epsilon=epsilon, delta=DELTA)
            DPMean(kind.of(epsilon, DELTA), bounds=(0, 100), ledger=ledger).fit(NUMBERS)
            assert ledger.spent.epsilon > 0.9 * epsilon

    @pytest.mark.parametrize("kind", [Rho, Mu])
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((0, DELTA), ValueError, "must be a finite number > 0, got 0"),
            (("a", DELTA), TypeError, "must be a finite number > 0, got str"),
            ((math.inf, DELTA), ValueError, "finite"),
            ((1e-80, DELTA), ValueError, "must be from"),
            ((1e10, DELTA), ValueError, "must be from"),
            ((1.0, 0), ValueError, "delta must be"),
            ((1.0, 1.0), ValueError, "delta must be"),
        ],
    )
    def test_values_out_of_range(self, kind, arguments, error, message):
        with pytest.raises(error, match=message):
            kind(*arguments)

    @pytest.mark.parametrize(("n", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError)])
    def test_odd_splits(self, n, error):
        with pytest.raises(error, match="n must be"):
            Rho(1, DELTA).split(n)


@pytest.fixture
def drawn(monkeypatch):
    """Replace the noise by zeros; list the numbers that it was for, and its variance."""
    found = []
    monkeypatch.setattr(
        noise_of_shares,
        "rounded_gaussian",
        lambda source, variance, size: found.append(variance) or np.zeros(size, int),
    )
    original = noise_of_shares.Noise.add

    def add(noise, source, numbers):
        noisy = original(noise, source, numbers)
        found[-1] = list(noisy), found[-1]
        return noisy

    monkeypatch.setattr(noise_of_shares.Noise, "add", add)
    return found


SUMS = {
    "two sums": (lambda share: DPMean(share, bounds=(0, 1)), True),
    "two sums, far from 0": (lambda share: DPMean(share, bounds=(7, 8)), True),
    "moments": (lambda share: DPStandardScaler(share, bounds=(0, 1)), False),
    "moments, gaps": (lambda share: DPStandardScaler(share, bounds=(0, 1), missing="ignore"), True),
    "means of a scaler": (lambda share: DPStandardScaler(share, bounds=(0, 1), with_std=False), False),
    "means of an imputer": (lambda share: DPSimpleImputer(share, bounds=(0, 1)), True),
}


@pytest.mark.filterwarnings("ignore:the noise drowns")
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("columns", [1, 2])
def test_no_record_of_a_tiny_table_moves_the_sums_by_more_than_mu(drawn, name, columns):
    make, gaps = SUMS[name]
    values = [0.0, 0.3, 1.0, *([math.nan] if gaps else [])]
    share = Mu(0.7, DELTA)

    def numbers(rows):
        drawn.clear()
        make(share).fit(np.array(rows, float).reshape(-1, columns))
        return list(drawn)

    rows = list(itertools.product(values, repeat=columns))
    largest = Fraction(0)
    bases = [[], *([row] for row in rows)] if columns == 1 else [[], [(0.3, 1.0), (1.0, 8.0)]]
    for table in bases:
        before = numbers(table)
        for row in rows:
            after = numbers([*table, row])
            moved = Fraction(0)
            for (old, variance), (new, _) in zip(before, after, strict=True):
                moved += sum((a - b) ** 2 for a, b in zip(old, new, strict=True)) / variance
            largest = max(largest, moved)
    allowed = Fraction(0.7) ** 2
    assert allowed * (1 - Fraction(1, 10**6)) <= largest <= allowed


@pytest.mark.parametrize("parameters", [{"method": "flat"}, {"method": "hierarchical", "branching": 3}])
@pytest.mark.parametrize("share", [Rho(0.1, DELTA), Mu(0.4, DELTA)])
def test_the_levels_of_a_histogram_share_rho(drawn, parameters, share):
    # One record changes one count of each level, by 1.
    histogram = DPHistogram(share, domain={"a": range(9)}, **parameters).fit(pd.DataFrame({"a": [1, 1, 8]}))
    assert sum(1 / variance for variance in drawn) == read_share(share).mu_squared
    assert "rounded Gaussian" in histogram.guarantee_.mechanism
    error = math.sqrt(drawn[0] + Fraction(1, 12))
    if parameters["method"] == "flat":
        assert histogram.std_error_ == pytest.approx(error)
        assert histogram.range_estimate(2, 5).std_error == pytest.approx(error * math.sqrt(3))


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda share: DPQuantileBinarizer(share, quantile=0.25, bounds=(0, 100)), 2),
        (lambda share: DPKBinsDiscretizer(share, n_bins=3, bounds=(0, 100)), 4),
        (lambda share: DPSimpleImputer(share, strategy="median", bounds=(0, 100)), 2),
        (lambda share: DPSimpleImputer(share, strategy="most_frequent", categories={"a": [3], "b": [0, 1]}), 2),
    ],
)
@pytest.mark.parametrize("share", [Rho(0.1, DELTA), Mu(0.4, DELTA)])
def test_choices_share_what_there_is(monkeypatch, make, number, share):
    asked = []
    monkeypatch.setattr(
        noise_of_shares, "exponential_mechanism", lambda source, scores, rate: asked.append((scores, rate)) or 0
    )
    estimator = make(share)
    estimator.set_params(**({"handle_unknown": "ignore"} if "handle_unknown" in estimator.get_params() else {}))
    estimator.fit(NUMBERS)
    part = (read_share(share) / number).choice
    sensitivity = {"most_frequent": 1}.get(getattr(estimator, "strategy", None))
    if sensitivity is None:  # in parts of a record
        sensitivity = {DPQuantileBinarizer: 2 * 3, DPSimpleImputer: 2 * 1}.get(type(estimator))
    assert len(asked) == number
    if sensitivity is not None:
        assert [rate for _, rate in asked] == [part / sensitivity] * number
    assert estimator.guarantee_.mechanism == "exponential mechanism"
    assert estimator.guarantee_.rho == float(read_share(share).mu_squared / 2)


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_laws_of_a_choice_of_neighbours(sensitivity):
    """The losses of all changes lie in an interval of length epsilon: of counts, and of scores of both directions."""
    epsilon = 0.8
    rate = epsilon / sensitivity
    steps = (0, 1) if sensitivity == 1 else (-1, 0, 1)
    for scores in itertools.product([0, 1, 4], repeat=3):
        for change in itertools.product(steps, repeat=3):
            before = np.exp(rate * np.array(scores, float))
            after = np.exp(rate * (np.array(scores, float) + change))
            losses = np.log(before / before.sum()) - np.log(after / after.sum())
            assert losses.max() - losses.min() <= epsilon + 1e-12


class TestGuarantee:
    def test_of_rho(self):
        guarantee = DPMean(Rho(0.02, DELTA), bounds=(0, 100)).fit(NUMBERS).guarantee_
        assert guarantee.rho == 0.02
        (loss,) = guarantee.losses
        assert isinstance(loss, GaussianLoss)
        assert loss.mu == pytest.approx(0.2)
        assert guarantee.epsilon == pytest.approx(gaussian_epsilon(0.2, DELTA))
        assert guarantee.epsilon < zcdp_epsilon(0.02, DELTA)
        assert guarantee.delta == DELTA
        assert (guarantee.relation, guarantee.trust) == ("add_remove", "central")

    def test_of_mu(self):
        for estimator in (
            DPMean(Mu(0.2, DELTA), bounds=(0, 100)),
            DPQuantileBinarizer(Mu(0.2, DELTA), bounds=(0, 100)),
        ):
            guarantee = estimator.fit(NUMBERS).guarantee_
            assert guarantee.losses == (GaussianLoss(0.2),)
            assert guarantee.epsilon == pytest.approx(gaussian_epsilon(0.2, DELTA))
            assert guarantee.rho == pytest.approx(0.02)

    def test_of_choices(self):
        guarantee = DPQuantileBinarizer(Rho(0.02, DELTA), bounds=(0, 100)).fit(NUMBERS).guarantee_
        assert (guarantee.rho, guarantee.losses) == (0.02, ())
        assert guarantee.epsilon == zcdp_epsilon(0.02, DELTA)

    def test_another_delta_on_request(self):
        guarantee = DPMean(Mu(0.2, DELTA), bounds=(0, 100)).fit(NUMBERS).guarantee_
        assert compose([guarantee], delta=1e-9).epsilon == pytest.approx(gaussian_epsilon(0.2, 1e-9))

    def test_laplace_noise_where_it_is_less(self):
        # Rounded Gaussian noise of variance 1 / 20 is 0 unless it is beyond 2.2 standard deviations.
        histogram = DPHistogram(Rho(10.0, DELTA), domain=DOMAIN).fit(CODES)
        assert histogram.guarantee_.mechanism == "discrete Laplace"
        (loss,) = histogram.guarantee_.losses
        assert loss.epsilon * math.tanh(loss.epsilon / 2) <= 10
        assert histogram.guarantee_.rho == 10
        assert histogram.guarantee_.epsilon <= zcdp_epsilon(10.0, DELTA)
        assert DPHistogram(Rho(0.1, DELTA), domain=DOMAIN).fit(CODES).guarantee_.mechanism == "rounded Gaussian"

    @pytest.mark.parametrize(
        "estimator",
        [
            DPMean(bounds=(0, 100)),
            DPQuantileBinarizer(bounds=(0, 100)),
            DPHistogram(domain=Interval(0, 100, bins=4)),
            DPMarginalSynthesizer(domain=Interval(0, 100, bins=4)),
            DPMarginalSynthesizer(domain=Interval(0, 100, bins=4), marginals="adaptive"),
        ],
    )
    def test_ledgers_are_charged_the_share(self, estimator):
        by_rho, by_mu = PrivacyLedger(rho=0.05), PrivacyLedger(mu=0.3)
        estimator.set_params(epsilon=Rho(0.05, DELTA), ledger=by_rho).fit(NUMBERS)
        assert by_rho.balance().loc["remaining", "rho"] == 0
        estimator.set_params(epsilon=Mu(0.3, DELTA), ledger=by_mu).fit(NUMBERS)
        assert by_mu.balance().loc["remaining", "mu"] == 0
        with pytest.raises(BudgetExceeded):
            estimator.fit(NUMBERS)

    def test_the_shares_of_a_total_compose_to_it(self):
        for kind in (Rho, Mu):
            part = kind.of(1.0, DELTA).split(10)
            fitted = DPMean(part, bounds=(0, 100)).fit(NUMBERS)
            assert compose([fitted.guarantee_] * 10, delta=DELTA).epsilon <= 1

    def test_a_function_takes_them_too(self):
        ledger = PrivacyLedger(rho=0.1)
        release = sample_and_aggregate(
            np.median, NUMBERS[["a"]].to_numpy(), bounds=(0, 100), n_chunks=10, epsilon=Rho(0.1, DELTA), ledger=ledger
        )
        assert release.guarantee.rho == 0.1


class TestErrors:
    @each(
        "estimator, message",
        [
            (DPMarginalSynthesizer(Mu(0.1, DELTA), delta=1e-9, domain=Interval(0, 1, bins=2)), "delta must be 0"),
            (DPMarginalSynthesizer(Rho(0.1, DELTA), discover=0.1), "discover needs an epsilon and a delta"),
        ],
    )
    def test_what_has_no_rho(self, estimator, message):
        ledger = PrivacyLedger(epsilon=100.0, delta=0.1)
        with pytest.raises(ValueError, match=message):
            estimator.set_params(ledger=ledger).fit(NUMBERS)
        assert ledger.spent == (0, 0)

    @pytest.mark.parametrize("make", [DPMean, DPMarginalSynthesizer])
    def test_a_derived_class_of_shares_is_not_believed(self, make):
        ledger = PrivacyLedger(epsilon=10.0, delta=1e-3)
        with pytest.raises(TypeError, match="epsilon must be a finite number > 0, got LoudRho"):
            make(LoudRho(), ledger=ledger, **DECLARED[make]).fit(NUMBERS[["a"]])
        assert ledger.spent.epsilon == 0


class LoudRho(Rho):
    """A share whose rho is not its own."""

    rho = 0.1

    def __init__(self):
        pass


class Restless(float):
    """A number that is 10 when it is first read, and 0.1 later."""

    reads = 0

    def __float__(self):
        self.reads += 1
        return 10.0 if self.reads == 1 else 0.1


DECLARED = {
    DPMean: {"bounds": (0, 100)},
    DPHistogram: {"domain": Interval(0, 100, bins=8)},
    DPMarginalSynthesizer: {"domain": Interval(0, 100, bins=8)},
}


@pytest.mark.parametrize("make", DECLARED)
def test_what_is_charged_is_what_the_noise_was_made_for(make):
    assert make(Restless(), **DECLARED[make]).fit(NUMBERS[["a"]]).guarantee_.epsilon == 10


@pytest.mark.long
@pytest.mark.parametrize("share", [Rho(0.5, DELTA), Mu(1.0, DELTA)])
def test_audits_of_a_release(share):
    """What can be proved from draws is never above what is stated."""
    neighbours = [pd.DataFrame({"job": ["x"] * n}) for n in (1, 2)]
    stated = DPHistogram(share, domain=DOMAIN).fit(neighbours[0]).guarantee_

    def release(rows):
        return int(DPHistogram(share, domain=DOMAIN).fit(rows).counts_[0])

    result = audit_epsilon(
        release, neighbours, epsilon=stated.epsilon, delta=stated.delta, n_draws=6_000, confidence=0.9999
    )
    assert 0 < result.epsilon_lower <= stated.epsilon


@pytest.mark.parametrize("share", [pytest.param(Rho(0.02, DELTA), marks=pytest.mark.long), Mu(0.2, DELTA)])
class TestAccuracy:
    @pytest.mark.long
    def test_means_and_their_intervals(self, share):
        X = np.full((4000, 2), 31.25)
        runs = [DPMean(share, bounds=(0, 100), random_state=seed).fit(X) for seed in range(150)]
        errors = np.array([run.mean_[0] for run in runs]) - 31.25
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(runs[0].std_error_[0], rel=0.3)
        covered = np.mean([run.interval_[0, 0] <= 31.25 <= run.interval_[0, 1] for run in runs])
        assert 0.88 < covered <= 0.995

    def test_counts(self, share):
        errors = [
            DPHistogram(share, domain=DOMAIN, random_state=seed).fit(CODES).counts_ - [50, 100, 50]
            for seed in range(150)
        ]
        stated = DPHistogram(share, domain=DOMAIN).fit(CODES).std_error_[0]
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(stated, rel=0.2)

    def test_files(self, share, tmp_path):
        for number, estimator in enumerate([DPMean(share, bounds=(0, 100)), DPHistogram(share, domain=DOMAIN)]):
            fitted = estimator.fit(NUMBERS if number == 0 else CODES)
            skdp.save(fitted, tmp_path / f"{number}.zip")
            again = skdp.load(tmp_path / f"{number}.zip")
            assert again.epsilon == share
            assert again.guarantee_ == fitted.guarantee_
        fitted = DPMarginalSynthesizer(share, domain=DOMAIN).fit(CODES)
        fitted.save(tmp_path / "rows.zip")
        again = DPMarginalSynthesizer.load(tmp_path / "rows.zip")
        assert (again.epsilon, again.guarantee_) == (share, fitted.guarantee_)
