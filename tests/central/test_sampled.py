"""Releases of the curator from a secret sample."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdp
from skdp import (
    BudgetExceeded,
    DPHistogram,
    DPKBinsDiscretizer,
    DPMarginalSynthesizer,
    DPMean,
    DPSimpleImputer,
    DPStandardScaler,
    Interval,
    PrivacyLedger,
)
from skdp.central import _base as base
from skdp.central import sample_and_aggregate
from skdp.evaluation import audit_epsilon
from skdp.privacy import Mu, PureLoss, Rho, Sampled, SampledGaussianLoss, privacy_statement, subsampled_guarantee
from tests.conftest import each

rng = np.random.default_rng(0)
X = pd.DataFrame({"a": rng.beta(2, 5, 4000) * 80 + 10})
CODES = pd.DataFrame({"job": rng.choice(["x", "y", "z"], 4000, p=[0.6, 0.3, 0.1])})
DOMAIN = {"job": ["x", "y", "z"]}
EVERY = [
    DPMean(bounds=(0, 100)),
    DPMean(bounds=(0, 100), mechanism="noisy_sum_count"),
    DPStandardScaler(bounds=(0, 100)),
    DPSimpleImputer(bounds=(0, 100), strategy="median"),
    DPKBinsDiscretizer(bounds=(0, 100)),
    DPHistogram(domain=Interval(0, 100, bins=8)),
    DPHistogram(domain=Interval(0, 100, bins=64), method="hierarchical"),
    DPMarginalSynthesizer(domain=Interval(0, 100, bins=8)),
    DPMarginalSynthesizer(domain=Interval(0, 100, bins=8), delta=1e-6),
]
every_estimator = pytest.mark.parametrize("estimator", EVERY, ids=lambda one: type(one).__name__)


@every_estimator
def test_the_ledger_is_charged_what_is_asked_for(estimator):
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-6)
    fitted = estimator.set_params(epsilon=Sampled(0.5, 0.1), ledger=ledger).fit(X)
    assert fitted.guarantee_.epsilon == 0.5
    assert fitted.guarantee_.relation == "add_remove"
    assert "on a secret sample at rate" in fitted.guarantee_.mechanism
    assert ledger.remaining().epsilon == 0
    with pytest.raises(BudgetExceeded):
        estimator.fit(X)


@every_estimator
def test_the_sample_is_drawn_after_the_charge_once_a_fit_and_at_the_rate(estimator, monkeypatch):
    ledger, seen = PrivacyLedger(epsilon=10.0, delta=1e-3), []
    original = base.draw_sample

    def draw(columns, rate, source):
        seen.append((len(columns[0]), rate, ledger.spent.epsilon))
        return original(columns, rate, source)

    monkeypatch.setattr(base, "draw_sample", draw)
    monkeypatch.setattr("skdp.synthesis._synthesizer.draw_sample", draw)
    estimator.set_params(epsilon=Sampled(0.5, Fraction(1, 10)), ledger=ledger)
    for fits in (1, 2):
        estimator.fit(X)
        assert seen.pop() == (4000, Fraction(1, 10), 0.5 * fits)
        assert not seen


def test_the_noise_is_that_of_the_sample(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "skdp.central.statistics._noise.discrete_laplace",
        lambda source, scale, size: asked.append(scale) or np.zeros(size, int),
    )
    monkeypatch.setattr(base, "draw_sample", lambda columns, rate, source: [column[::10] for column in columns])
    histogram = DPHistogram(Sampled(0.5, Fraction(1, 10)), domain=DOMAIN).fit(CODES)
    assert float(1 / asked[0]) == pytest.approx(math.log1p(math.expm1(0.5) * 10))
    # Exactly what is in the sample, times 10.
    assert histogram.counts_.tolist() == [10 * (CODES["job"][::10] == job).sum() for job in DOMAIN["job"]]


def test_the_losses_are_those_of_a_sample():
    rate = Fraction(1, 10)
    (loss,) = DPHistogram(Sampled(0.5, rate), domain=DOMAIN).fit(CODES).guarantee_.losses
    assert isinstance(loss, PureLoss)
    assert loss.epsilon == pytest.approx(0.5)
    assert loss.share < 1
    parameters = {"domain": DOMAIN, "marginals": "independent"}
    synthesizer = DPMarginalSynthesizer(Sampled(0.5, rate), delta=1e-7, **parameters).fit(CODES)
    (loss,) = synthesizer.guarantee_.losses
    assert isinstance(loss, SampledGaussianLoss)
    assert synthesizer.guarantee_.delta == 1e-7
    given = DPMarginalSynthesizer(Sampled(0.5, rate).given_sample, delta=1e-6, **parameters).fit(CODES)
    assert loss.mu == pytest.approx(given.guarantee_.losses[0].mu)
    assert subsampled_guarantee(given.guarantee_, rate).delta == pytest.approx(1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, pytest.param({"mechanism": "noisy_sum_count"}, marks=pytest.mark.long)])
def test_intervals_of_means_cover(parameters):
    X = rng.choice([0.0, 100.0], (3000, 1), p=[0.3, 0.7])
    true, epsilon = X.mean(), Sampled(1.0, 0.1)
    runs = [DPMean(epsilon, bounds=(0, 100), random_state=seed, **parameters).fit(X) for seed in range(100)]
    errors = np.array([run.mean_[0] for run in runs]) - true
    stated = np.mean([run.std_error_[0] for run in runs])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(stated, rel=0.3)
    covered = np.mean([run.interval_[0, 0] <= true <= run.interval_[0, 1] for run in runs])
    assert 0.88 < covered <= 1


@pytest.mark.long
def test_intervals_of_rare_values_cover():
    """A sample of a tenth has none or a few of them, and its size does not tell how many there are."""
    true = np.array([5, 20, 50, 100, 825])
    codes = pd.DataFrame({"n": np.repeat(np.arange(5), true)})
    runs = [DPHistogram(Sampled(3.0, 0.1), domain={"n": range(5)}, random_state=seed).fit(codes) for seed in range(100)]
    tables = [run.to_frame() for run in runs]
    covered = np.mean([(table["lower"] <= true) & (true <= table["upper"]) for table in tables], axis=0)
    assert (covered > 0.87).all()
    assert (covered < 1).any()
    few = [run.range_estimate(1, 3) for run in runs]
    assert np.mean([one.lower <= 70 <= one.upper for one in few]) > 0.87


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [{"method": "flat"}, pytest.param({"method": "hierarchical", "branching": 3}, marks=pytest.mark.long)],
)
def test_intervals_of_counts_cover(parameters):
    codes = pd.DataFrame({"n": rng.integers(0, 9, 3000)})
    true = np.bincount(codes["n"], minlength=9)
    runs = [
        DPHistogram(Sampled(0.5, 0.2), domain={"n": range(9)}, random_state=seed, **parameters).fit(codes)
        for seed in range(80)
    ]
    errors = np.array([run.counts_ for run in runs]) - true
    stated = np.sqrt(np.mean([run.std_error_**2 for run in runs], axis=0))
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(np.sqrt(np.mean(stated**2)), rel=0.2)
    ranges = [run.range_estimate(2, 7) for run in runs]
    inside = [one.lower <= true[2:7].sum() <= one.upper for one in ranges]
    assert 0.85 < np.mean(inside) <= 1


@pytest.mark.slow
def test_synthetic_tables_have_the_size_of_the_table():
    runs = [DPMarginalSynthesizer(Sampled(1.0, 0.2), domain=DOMAIN, random_state=seed).fit(CODES) for seed in range(20)]
    errors = [run.n_rows_ - 4000 for run in runs]
    assert abs(np.mean(errors)) < 5 * runs[0].n_rows_std_error_ / math.sqrt(20)
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) / runs[0].n_rows_std_error_ < 1.6
    assert runs[0].marginals_[0].counts.sum() == pytest.approx(4000, rel=0.2)
    marginals = [run.marginal("job") for run in runs]
    true = [(CODES["job"] == job).sum() for job in DOMAIN["job"]]
    errors = np.array([marginal["count"] for marginal in marginals]) - true
    assert 0.5 < np.sqrt(np.mean(errors**2) / np.mean([marginal["std_error"] ** 2 for marginal in marginals])) < 1.6


def test_a_saved_synthesizer_keeps_the_errors_of_its_sample(tmp_path):
    fitted = DPMarginalSynthesizer(Sampled(1.0, 0.2), domain=DOMAIN, random_state=0).fit(CODES)
    fitted.save(tmp_path / "model.zip")
    loaded = DPMarginalSynthesizer.load(tmp_path / "model.zip")
    assert loaded.sampling_rate_ == fitted.sampling_rate_ == 0.2
    pd.testing.assert_frame_equal(loaded.marginal("job"), fitted.marginal("job"))


def test_every_kind_of_frame(make_frame):
    frame = make_frame({"a": [float(one) for one in range(50)]})
    mean = DPMean(Sampled(50.0, 0.9), bounds=(0, 50), random_state=0).fit(frame)
    assert mean.mean_[0] == pytest.approx(24.5, abs=5)
    again = DPMean(Sampled(50.0, 0.9), bounds=(0, 50), random_state=0).fit(np.arange(50.0)[:, None])
    assert again.mean_[0] == mean.mean_[0]


@pytest.mark.parametrize("rows", [[], [[1.0]]])
def test_tables_of_no_rows_and_of_one(rows):
    fitted = DPMean(Sampled(1.0, 0.1), bounds=(0, 1)).fit(np.array(rows).reshape(-1, 1))
    assert 0 <= fitted.mean_[0] <= 1


@every_estimator
@pytest.mark.filterwarnings("ignore:the noise drowns")
@pytest.mark.parametrize("epsilon", [1e-25, 400.0])
def test_tiny_and_huge_epsilons(estimator, epsilon):
    estimator.set_params(epsilon=Sampled(epsilon, 0.1), ledger=None).fit(X)
    assert estimator.guarantee_.epsilon == epsilon


@pytest.mark.chosen("parameters0")
@pytest.mark.parametrize("parameters", [{}, {"mechanism": "noisy_sum_count"}])
def test_epsilons_that_are_hardly_floats(parameters):
    for _ in range(5):
        mean = DPMean(Sampled(5e-324, 0.1), bounds=(0, 100), **parameters).fit(X)
        assert 0 <= mean.mean_[0] <= 100
        assert mean.interval_.tolist() == [[0, 100]] or mean.interval_[0, 0] <= mean.mean_[0]


@each(
    "estimator, message",
    [
        (DPMean(Sampled(1.0, 0.1), bounds=(0, 1), mechanism="smooth_sensitivity"), "takes no sample"),
        (DPMean(Sampled(1.0, 0.1), bounds=(0, 1), mechanism="sample_and_aggregate"), "takes no sample"),
        (DPMarginalSynthesizer(Sampled(1.0, 0.1), domain=DOMAIN, max_rows_per_person=2), "max_rows_per_person=1"),
        (DPMarginalSynthesizer(Sampled(1.0, 0.1), domain=DOMAIN, delta=0.2), "below the rate"),
        (DPMarginalSynthesizer(Sampled(1.0, 0.1), delta=1e-6, discover=0.1), "discover needs"),
    ],
)
def test_what_takes_no_sample(estimator, message):
    ledger = PrivacyLedger(epsilon=10.0, delta=0.5)
    with pytest.raises(ValueError, match=message):
        estimator.set_params(ledger=ledger).fit(X if isinstance(estimator, DPMean) else CODES)
    assert ledger.spent == (0, 0)


def test_large_tables_are_not_sampled():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="draws rows"):
        DPMean(Sampled(1.0, 0.1), bounds=(0, 1)).fit(polars.DataFrame({"a": [0.5] * 10}).lazy())


def test_an_error_depends_on_all_rows():
    """Otherwise it would show that a record is in the sample."""
    odd = pd.concat([CODES, pd.DataFrame({"job": ["secret"]})])
    for _ in range(5):
        with pytest.raises(ValueError, match="outside the declared") as caught:
            DPHistogram(Sampled(1.0, 0.001), domain=DOMAIN).fit(odd)
        assert "secret" not in str(caught.value)


def test_files(tmp_path):
    for number, estimator in enumerate([DPHistogram(Sampled(0.5, Fraction(1, 3)), domain=DOMAIN)]):
        fitted = estimator.fit(CODES)
        skdp.save(fitted, tmp_path / f"{number}.zip")
        again = skdp.load(tmp_path / f"{number}.zip")
        assert again.epsilon == fitted.epsilon
        assert again.range_count() == fitted.range_count()
    synthesizer = DPMarginalSynthesizer(Sampled(0.5, Fraction(1, 3)), domain=DOMAIN).fit(CODES)
    synthesizer.save(tmp_path / "rows.zip")
    assert DPMarginalSynthesizer.load(tmp_path / "rows.zip").epsilon == synthesizer.epsilon


@pytest.mark.long
@pytest.mark.parametrize(
    ("share", "breaks"),
    [(Sampled(1.0, 0.5), False), (Rho(0.5, 1e-6), False), (Mu(1.0, 1e-6), False), (Sampled(1.0, 0.5), True)],
)
def test_audits_of_a_release(share, breaks, monkeypatch):
    """What can be proved from draws is never above what is stated, unless the sample is one that is always there."""
    if breaks:
        monkeypatch.setattr(base, "draw_sample", lambda columns, rate, source: list(columns))
    neighbours = [pd.DataFrame({"job": ["x"] * n}) for n in (1, 2)]

    def release(rows):
        return int(DPHistogram(share, domain=DOMAIN).fit(rows).counts_[0])

    guarantee = DPHistogram(share, domain=DOMAIN).fit(neighbours[0]).guarantee_
    result = audit_epsilon(
        release, neighbours, epsilon=guarantee.epsilon, delta=guarantee.delta, n_draws=6_000, confidence=0.9999
    )
    assert (result.epsilon_lower > guarantee.epsilon) == breaks


def test_statements_say_that_a_sample_must_stay_secret():
    told = "Who is in a secret sample, from those who see it or its size: to them there is no sample."
    for epsilon, said in ((Sampled(0.5, 0.25), True), (Sampled(0.5, 1), False), (0.5, False)):
        fitted = DPHistogram(epsilon, domain=DOMAIN).fit(CODES)
        assert (told in privacy_statement(fitted).to_dict()["not_covered"]) == said
        assert ("on a secret sample at rate 1/4" in fitted.guarantee_.mechanism) == said


def test_what_draws_no_sample_takes_none():
    ledger = PrivacyLedger(epsilon=10.0)
    with pytest.raises(TypeError, match="epsilon must be a finite number > 0, got Sampled"):
        sample_and_aggregate(np.mean, X, bounds=(0, 100), epsilon=Sampled(1.0, 1e-6), n_chunks=10, ledger=ledger)
    assert ledger.spent.epsilon == 0


class LoudSampled(Sampled):
    given_sample = 100.0


class LoudRho(Rho):
    """A share whose rho is not its own."""

    rho = 0.1

    def __init__(self):
        pass


@pytest.mark.parametrize("share", [LoudSampled(0.1, 0.5), LoudRho()])
@pytest.mark.parametrize("estimator", [DPMean(bounds=(0, 100)), DPMarginalSynthesizer(domain=Interval(0, 100, bins=8))])
def test_a_derived_class_of_shares_is_not_believed(estimator, share):
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3)
    with pytest.raises(TypeError, match="epsilon must be a finite number > 0, got Loud"):
        clone(estimator).set_params(epsilon=share, ledger=ledger).fit(X)
    assert ledger.spent.epsilon == 0


class Restless(float):
    """A number that is 10 when it is first read, and 0.1 later."""

    reads = 0

    def __float__(self):
        self.reads += 1
        return 10.0 if self.reads == 1 else 0.1


@pytest.mark.parametrize("make", [DPMean, DPHistogram, DPMarginalSynthesizer])
def test_what_is_charged_is_what_the_noise_was_made_for(make):
    declared = {"bounds": (0, 100)} if make is DPMean else {"domain": Interval(0, 100, bins=8)}
    assert make(Restless(), **declared).fit(X).guarantee_.epsilon == 10
