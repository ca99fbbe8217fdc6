"""Amplification by secret samples: exact, over all tables and samples that are enumerated."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from skdp.privacy import (
    GaussianLoss,
    LaplaceLoss,
    PrivacyGuarantee,
    PrivacyLedger,
    PureLoss,
    Sampled,
    SampledGaussianLoss,
    compose,
    gaussian_epsilon,
    read_share,
    subsampled_guarantee,
)
from tests.conftest import each

RATES = [Fraction(1, 100), Fraction(1, 3), Fraction(9, 10)]


def divergence(p, q, order):
    """The hockey-stick divergence of two laws, exactly."""
    return sum((max(p.get(y, 0) - order * q.get(y, 0), Fraction(0)) for y in {*p, *q}), Fraction(0))


def mixed(parts):
    law = {}
    for chance, one in parts:
        for y, p in one.items():
            law[y] = law.get(y, Fraction(0)) + chance * p
    return law


def noisy_count(table, base):
    """The number of ones with truncated geometric noise of ratio 1 / base: pure, and exact with fractions."""
    true = sum(table)
    most = 4
    law = {}
    for z in range(most + 1):
        weight = Fraction(1, base ** abs(z - true))
        if z in (0, most):
            weight *= Fraction(base, base - 1)
        law[z] = weight * Fraction(base - 1, base + 1)
    return law


def leaky(table, base):
    """A choice by scores: not symmetric, and of another law for tables of another size."""
    weights = {value: Fraction(base) ** table.count(value) for value in (0, 1, 2)}
    return {value: weight / sum(weights.values()) for value, weight in weights.items()}


MECHANISMS = {"count": noisy_count, "choice": leaky}


def poisson(table, rate, mechanism):
    n = len(table)
    samples = [chosen for size in range(n + 1) for chosen in itertools.combinations(table, size)]
    return mixed([(rate ** len(one) * (1 - rate) ** (n - len(one)), mechanism(one)) for one in samples])


def fixed_size(table, size, mechanism):
    samples = list(itertools.combinations(table, size))
    return mixed([(Fraction(1, len(samples)), mechanism(one)) for one in samples])


def worst_ratio(laws):
    return max(p[y] / q[y] for p, q in laws for y in p)


def tables(n, values=(0, 1, 2)):
    return itertools.combinations_with_replacement(values, n)


class TestEnumeration:
    @pytest.mark.chosen("2-rate0-count", "2-rate2-choice", "5-rate1-count", "2-rate1")
    @pytest.mark.parametrize("name", MECHANISMS)
    @pytest.mark.parametrize("rate", RATES)
    @pytest.mark.parametrize("base", [2, 5])
    def test_adding_a_record_to_an_independent_sample(self, name, rate, base):
        @cache
        def mechanism(table):
            return MECHANISMS[name](table, base)

        pairs = [(table, (*table, row)) for n in range(4) for table in tables(n) for row in (0, 1, 2)]
        given = max(worst_ratio([(mechanism(a), mechanism(b)), (mechanism(b), mechanism(a))]) for a, b in pairs)
        amplified = 1 + rate * (given - 1)
        inner = PrivacyGuarantee(math.log(given) * (1 + 1e-12), relation="add_remove", trust="central")
        stated = subsampled_guarantee(inner, rate).epsilon
        assert stated == pytest.approx(math.log(amplified), rel=1e-9)
        laws = [(poisson(a, rate, mechanism), poisson(b, rate, mechanism)) for a, b in pairs]
        worst = max(worst_ratio([(p, q), (q, p)]) for p, q in laws)
        assert worst <= amplified
        if name == "count":
            assert worst == amplified

    @each("rate", RATES)
    @each("order", [Fraction(1), Fraction(11, 10), Fraction(3, 2)])
    def test_all_divergences_of_an_independent_sample(self, rate, order):
        @cache
        def mechanism(table):
            return noisy_count(table, 4)

        for n in range(4):
            for table in tables(n, (0, 1)):
                p, q = (poisson(one, rate, mechanism) for one in (table, (*table, 1)))
                given = max(
                    max(divergence(a, b, 1 + (order - 1) / rate), divergence(b, a, 1 + (order - 1) / rate))
                    for m in range(n + 1)
                    for rest in tables(m, (0, 1))
                    for a, b in [(mechanism(rest), mechanism((*rest, 1)))]
                )
                assert max(divergence(p, q, order), divergence(q, p, order)) <= rate * given

    @pytest.mark.chosen("2-1-", "3-1-", "3-2-", "4-2-5-count")
    @pytest.mark.parametrize("name", MECHANISMS)
    @pytest.mark.parametrize("base", [2, 5])
    @pytest.mark.parametrize(("n", "size"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)])
    def test_replacing_a_record_of_a_sample_of_fixed_size(self, name, base, n, size):
        @cache
        def mechanism(table):
            return MECHANISMS[name](table, base)

        rate = Fraction(size, n)

        def neighbours(n):
            return [((*rest, a), (*rest, b)) for rest in tables(n - 1) for a in range(3) for b in range(3)]

        given = max(worst_ratio([(mechanism(a), mechanism(b))]) for a, b in neighbours(size))
        laws = [(fixed_size(a, size, mechanism), fixed_size(b, size, mechanism)) for a, b in neighbours(n)]
        assert worst_ratio(laws) <= 1 + rate * (given - 1)

    def test_replacing_a_report_of_an_independent_sample_gains_nothing(self):
        """A trap: whether a report is there shows, and it has the local epsilon then."""

        def reports(sample):
            return {r: Fraction(3 if r == value else 1, 4) for value in sample for r in (0, 1)} or {None: Fraction(1)}

        p, q = poisson((0,), Fraction(1, 10), reports), poisson((1,), Fraction(1, 10), reports)
        assert worst_ratio([(p, q)]) == 3

    def test_two_releases_of_one_sample_are_not_two_samples(self):
        """A trap: the sum is subsampled, and not the sum of what is."""
        rate, base = Fraction(1, 10), 3

        def twice(table):
            one = noisy_count(table, base)
            return {(a, b): one[a] * one[b] for a in one for b in one}

        p, q = poisson((), rate, twice), poisson((1,), rate, twice)
        each = 1 + rate * (base - 1)
        assert worst_ratio([(q, p)]) == 1 + rate * (base**2 - 1) > each**2

    def test_a_sample_that_is_seen_gains_nothing(self):
        """A trap: with the size of the sample in the result, the record shows."""
        rate = Fraction(1, 10)

        def with_size(table):
            return {(len(table), y): p for y, p in noisy_count(table, 3).items()}

        p, q = poisson((0,), rate, with_size), poisson((0, 1), rate, with_size)
        assert divergence(q, p, Fraction(10**9)) > 0


def gaussian_delta(mu, order):
    epsilon = math.log(order)
    return norm.sf(epsilon / mu - mu / 2) - order * norm.sf(epsilon / mu + mu / 2)


class TestLosses:
    @each("mu", [0.01, 0.5, 3.0, 8.0])
    @each("rate", [0.001, 0.2, 1.0])
    def test_gaussian_noise_is_bounded_closely_in_both_directions(self, mu, rate):
        radii, weights = SampledGaussianLoss(mu, rate)._radii()
        assert weights.sum() == pytest.approx(1)
        for epsilon in np.linspace(0, math.log1p(rate * math.expm1(mu * mu / 2 + 5 * mu)), 15)[:-1]:
            order = math.exp(epsilon)
            found = (weights * np.maximum(0, 1 - (1 + order) / (1 + np.exp(radii)))).sum()
            with_record = rate * gaussian_delta(mu, 1 + (order - 1) / rate)
            assert with_record * (1 - 1e-9) <= found <= with_record * 1.001 + 1e-15
            # The other direction, P against (1 - q) P + q Q.
            left = 1 - order * (1 - rate)
            without = left * gaussian_delta(mu, order * rate / left) if left > 0 else 0.0
            assert without <= found * (1 + 1e-9) + 1e-15

    @each("epsilon", [0.01, 1.0, 8.0])
    @each("share", [1.0, 0.3])
    @each("rate", RATES)
    def test_channels_stay_channels(self, epsilon, share, rate):
        one = PrivacyGuarantee(epsilon, losses=(PureLoss(epsilon, share),))
        (loss,) = subsampled_guarantee(one, rate)._all_losses()
        found = math.log1p(rate * math.expm1(epsilon))
        assert loss.epsilon == pytest.approx(found)
        if isinstance(loss, PureLoss):
            # The total variation is that of the sample times the rate.
            assert loss.share * math.tanh(found / 2) == pytest.approx(share * rate * math.tanh(epsilon / 2))

    def test_parts_of_one_sample_are_subsampled_together(self):
        levels = PrivacyGuarantee(1.0, losses=(PureLoss(0.5, count=2),))
        assert subsampled_guarantee(levels, 0.1).epsilon == pytest.approx(math.log1p(0.1 * math.expm1(1)))
        parts = PrivacyGuarantee(9.0, 1e-6, losses=(GaussianLoss(0.3), GaussianLoss(0.4)))
        (loss,) = subsampled_guarantee(parts, 0.1).losses
        assert (loss.mu, loss.rate) == (pytest.approx(0.5), 0.1)
        mixed_parts = PrivacyGuarantee(9.0, 1e-6, losses=(GaussianLoss(0.3), LaplaceLoss(0.4, 10)))
        assert subsampled_guarantee(mixed_parts, 0.1).losses == ()

    def test_composition_of_samples(self):
        # Abadi et al. (2016) and later accountants: rate 0.01, mu 1, 1,000 steps, about 2.5 at delta 1e-6.
        loss = SampledGaussianLoss(1.0, 0.01)
        one = PrivacyGuarantee(gaussian_epsilon(1.0, 1e-6), 1e-6, relation="add_remove", losses=(loss,))
        assert compose([one] * 1000, delta=1e-6).epsilon == pytest.approx(2.51, abs=0.02)

    def test_composition_is_above_the_law_of_two_steps(self):
        """Both directions of two samples of randomised response, by brute force."""
        rate, epsilon = 0.2, 1.5
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        base, other = np.array([p, 1 - p]), np.array([1 - p, p])
        mixture = (1 - rate) * base + rate * other
        one = subsampled_guarantee(PrivacyGuarantee(epsilon, relation="add_remove"), rate)
        for delta in (1e-3, 0.02):
            total = compose([one] * 3, delta=delta).epsilon
            for left, right in ((base, mixture), (mixture, base)):
                powers = [np.einsum("i,j,k->ijk", law, law, law) for law in (left, right)]
                assert np.maximum(powers[0] - math.exp(total) * powers[1], 0).sum() <= delta

    def test_records(self):
        one = PrivacyGuarantee(5.0, 1e-6, losses=(SampledGaussianLoss(0.5, 0.1),))
        assert PrivacyGuarantee.from_json(one.to_json()) == one
        assert SampledGaussianLoss(0.5, 0.1) == one.losses[0]

    def test_replacing_doubles_mu(self):
        whole = PrivacyGuarantee(1.0, 1e-6, relation="add_remove", losses=(GaussianLoss(0.3),))
        converted = subsampled_guarantee(whole, 0.1).to("replace")
        assert [(loss.mu, loss.rate) for loss in converted.losses] == [(pytest.approx(0.6), 0.1)]

    @each("rate", [0, -1, 1.5, math.nan])
    def test_rates_out_of_range(self, rate):
        with pytest.raises(ValueError, match=r"rate must be a number in \(0, 1\]"):
            subsampled_guarantee(PrivacyGuarantee(1.0), rate)
        with pytest.raises(ValueError, match=r"rate must be a number in \(0, 1\]"):
            Sampled(1.0, rate)

    def test_ledgers(self):
        whole = PrivacyGuarantee(gaussian_epsilon(0.3, 1e-6), 1e-6, rho=0.045, losses=(GaussianLoss(0.3),))
        part = subsampled_guarantee(whole, 0.1)
        for budget, spent in ({"rho": 1.0}, 0.045), ({"mu": 1.0}, 0.3):
            ledger = PrivacyLedger(**budget)
            ledger.charge(part, "sample")
            (name,) = budget
            assert ledger.balance().loc["spent", name] == pytest.approx(spent)
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
        ledger.charge(part, "sample")
        assert ledger.spent == (part.epsilon, pytest.approx(1e-7))
        assert part.epsilon < 0.2 * whole.epsilon


class TestTarget:
    @each("epsilon", [1e-300, 1e-40, 1e-13, 1e-9, 0.1, 1.0, 20.0])
    @each("rate", [*RATES, 0.1, 1, 1e-12])
    def test_the_noise_reaches_it_and_is_no_larger_than_need_be(self, epsilon, rate):
        given = read_share(Sampled(epsilon, rate), sampled=True).amount
        reached = math.log1p(float(rate) * math.expm1(float(given)))
        assert reached == pytest.approx(epsilon, rel=1e-9)
        if epsilon > 1e-20:
            assert subsampled_guarantee(PrivacyGuarantee(float(given)), rate).epsilon <= epsilon * (1 + 1e-15)

    def test_too_large(self):
        with pytest.raises(ValueError, match="epsilon must be at most 500"):
            Sampled(600.0, 0.5)


@each("rate", [1e-61, 1e-320, Fraction(1, 10**400)])
@each("epsilon", [1e-320, 1e-300, 1.0, 500.0])
def test_a_rate_of_which_the_errors_would_overflow_is_refused(epsilon, rate):
    with pytest.raises(ValueError, match="rate must be at least 1e-60"):
        Sampled(epsilon, rate)


def test_a_rate_that_leaves_no_noise_is_refused():
    with pytest.raises(ValueError, match="epsilon must be at most 500 given the sample"):
        Sampled(400.0, 1e-60)


@each("epsilon, rate", [(1e-320, 0.001), (1e-300, Fraction(1, 3)), (5e-324, 0.7), (5e-324, 1 - 2**-53)])
def test_the_epsilon_given_a_sample_is_rounded_down_at_the_end_of_the_floats(epsilon, rate):
    noise = Sampled(epsilon, rate).given_sample
    # A sample needs no less; e**x - 1 is between x and x (1 + x).
    assert noise >= epsilon
    assert Fraction(rate) * Fraction(noise) * (1 + Fraction(noise)) <= Fraction(epsilon)


@pytest.mark.parametrize("mu", [1e-300, 1e-16, 1e-13, 1e-8, 1e-4, 1e-3])
def test_samples_of_hardly_anything_have_a_finite_loss(mu):
    one = PrivacyGuarantee(1.0, 1e-9, relation="add_remove", losses=(SampledGaussianLoss(mu, 0.5, count=100),))
    radii, weights = one.losses[0]._radii()
    # At order 1, both divergences are the total variation: the rate times erf(mu / sqrt(8)).
    assert (weights * np.tanh(radii / 2)).sum() >= 0.5 * math.erf(mu / math.sqrt(8)) * (1 - 1e-9)
    assert np.isfinite(weights).all()
    found = compose([one], delta=1e-12).epsilon
    whole = replace(one, losses=(GaussianLoss(mu, count=100),))
    assert 0 <= found <= 1.01 * compose([whole], delta=1e-12).epsilon + 1e-9


def test_a_sample_of_records_promises_nothing_more_to_persons_with_several():
    """Whether a person has a row in the data, of whom one of two rows is in the sample more often than one of one."""

    def present(table):
        return noisy_count(table[:1], 3)

    persons = PrivacyGuarantee(math.log(3), relation="add_remove", trust="central", max_rows_per_person=2)
    stated = subsampled_guarantee(persons, 0.5)
    laws = [poisson((1,) * rows, Fraction(1, 2), present) for rows in range(3)]
    one, two = (worst_ratio([(law, laws[0])]) for law in laws[1:])
    assert one == pytest.approx(math.exp(stated.epsilon))
    assert one < two
    assert stated.max_rows_per_person == 1
    assert subsampled_guarantee(persons, 1) == persons
