from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.exact import exp_bounds
from skdp.oracles.numeric import (
    SUBSTEPS,
    ClampedLaplace,
    Optimal,
    Windows,
    bin_positions,
    estimate_frequencies,
    round_at_random,
)
from skdp.randomness import SecureSource, SeededSource, bernoulli_ratio
from tests.conftest import each, often

FALSE_ALARM = 1e-6
MAX_STEPS = 1 << 16


def square_wave(steps, epsilon):
    return Windows(steps, epsilon, repeating=False)


MECHANISMS = [Optimal, square_wave, ClampedLaplace]
EPSILONS = [1e-9, 1e-3, 0.1, 0.61, math.log(3), 1, 4, 20, 40, 700, 1e300]
STEPS = [1, 2, 5, 16]

mechanisms = pytest.mark.parametrize("make", MECHANISMS)


def every_case(test):
    return mechanisms(pytest.mark.parametrize("steps", often(STEPS, [1, 5]))(each("epsilon", EPSILONS)(test)))


@every_case
def test_no_report_is_more_than_e_to_the_epsilon_times_likelier(make, steps, epsilon):
    mechanism = make(steps, epsilon)
    channel = mechanism.channel()
    assert len(channel) == steps + 1
    assert all(len(row) == mechanism.n_reports and sum(row) == 1 for row in channel)
    assert all(0 < share < 1 for row in channel for share in row)
    worst = max(max(column) / min(column) for column in zip(*channel, strict=True))
    assert worst == mechanism.worst_ratio
    assert worst <= exp_bounds(min(epsilon, 1000))[0]
    assert worst <= exp_bounds(mechanism.epsilon)[0]
    assert mechanism.epsilon <= epsilon


@every_case
def test_little_of_the_wanted_epsilon_is_lost(make, steps, epsilon):
    mechanism = make(steps, epsilon)
    # A probability is at least 2**-64 or so; noise that falls with each step reaches as much in every one.
    most = 36 if make is Optimal else 64 * math.log(2) * (steps if make is ClampedLaplace else 1)
    assert mechanism.epsilon >= min(epsilon, most) * (1 - (1e-6 if epsilon < most / 2 else 1e-2))


@every_case
def test_every_report_stands_for_an_unbiased_estimate(make, steps, epsilon):
    mechanism = make(steps, epsilon)
    estimates = mechanism.estimates
    variances = mechanism.variances(np.arange(steps + 1))
    for position, row in enumerate(mechanism.channel()):
        mean = sum(share * estimate for share, estimate in zip(row, estimates, strict=True))
        assert mean == position
        variance = sum(share * (value - mean) ** 2 for share, value in zip(row, estimates, strict=True))
        assert variances[position] == pytest.approx(float(variance), rel=1e-9)
    assert variances == pytest.approx(variances[::-1])


@every_case
def test_reports_spread_as_the_channel_has_it(make, steps, epsilon):
    mechanism = make(steps, epsilon)
    channel = np.array(mechanism.channel(), float)
    weights = np.random.default_rng(0).dirichlet(np.ones(steps + 1), 3)
    for given in (weights, np.eye(steps + 1)):
        assert mechanism.spread(given) == pytest.approx(given @ channel, rel=1e-9, abs=1e-15)


@mechanisms
@pytest.mark.parametrize("epsilon", often([1e-3, 0.5, 1, 3, 8], [0.5, 3]))
@pytest.mark.parametrize("steps", often([1, 5, 12], [1, 12]))
def test_reports_follow_the_channel(make, steps, epsilon):
    mechanism = make(steps, epsilon)
    n = 100_000
    for position in {0, steps // 2, steps}:
        source = SeededSource(make.__name__, str(epsilon), steps, position)
        reports = mechanism.report(np.full(n, position), source)
        expected = np.array(mechanism.channel()[position], float) * n
        rare = expected < 5
        counts = np.bincount(reports, minlength=mechanism.n_reports)
        observed = [*counts[~rare], counts[rare].sum()]
        wanted = [*expected[~rare], expected[rare].sum()]
        if wanted[-1] < 5:
            observed[-2:], wanted[-2:] = [sum(observed[-2:])], [sum(wanted[-2:])]
        if len(wanted) > 1:
            assert chisquare(observed, wanted).pvalue > FALSE_ALARM


@mechanisms
def test_reports_of_a_fine_grid_have_the_right_mean_and_variance(make):
    mechanism = make(1024, 1.3)
    estimates = np.array(mechanism.estimates, float)
    n = 200_000
    for position in (0, 300, 1024):
        drawn = estimates[mechanism.report(np.full(n, position), SeededSource(make.__name__, position))]
        variance = mechanism.variances([position])[0]
        assert abs(drawn.mean() - position) < 5 * math.sqrt(variance / n)
        assert drawn.var() == pytest.approx(variance, rel=0.03)


@pytest.mark.parametrize(("width", "epsilon"), [(1, 4.0), (2, 1.4), (5, 1e-3)])
def test_the_square_wave_is_a_lie_or_a_place_in_the_window(monkeypatch, width, epsilon):
    """Enumerated: the two uniform draws over all their values, and the coin both ways."""
    mechanism = square_wave(5, epsilon)
    assert mechanism.width == width
    n, lie = width * mechanism.n_reports, mechanism._line.lie
    module = "skdp.oracles.numeric._windows"
    monkeypatch.setattr(f"{module}.uniform_integers", lambda source, high, size: np.arange(size) % high)
    for position in range(6):
        counts = {}
        for lying in (True, False):
            monkeypatch.setattr(
                f"{module}.bernoulli",
                lambda source, threshold, size, lying=lying: (
                    np.full(size, lying) if threshold == lie * 2**64 else pytest.fail("another coin")
                ),
            )
            reports = mechanism.report(np.full(n, position), SecureSource())
            counts[lying] = np.bincount(reports, minlength=mechanism.n_reports)
        mixed = [
            (lie * int(anywhere) + (1 - lie) * int(inside)) / n
            for anywhere, inside in zip(counts[True], counts[False], strict=True)
        ]
        assert mixed == mechanism.channel()[position]


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8])
def test_the_digits_of_the_laplace_noise_give_the_channel(monkeypatch, steps):
    """Enumerated: all outcomes of all coins, with the exact probabilities that are asked for."""
    mechanism = ClampedLaplace(steps, 1.0)
    digits = (steps - 1).bit_length()
    seen = [[Fraction(0)] * (steps + 1) for _ in range(steps + 1)]
    for outcome in product([False, True], repeat=digits + 2):
        asked = []

        def coin(source, numerator, denominator, size, outcome=outcome, asked=asked):
            asked.append(Fraction(numerator, denominator))
            return np.full(size, outcome[len(asked) - 1])

        monkeypatch.setattr("skdp.oracles.numeric._laplace.bernoulli_ratio", coin)
        reports = mechanism.report(np.arange(steps + 1), SecureSource())
        weight = math.prod(share if heads else 1 - share for share, heads in zip(asked, outcome, strict=True))
        for position, report in enumerate(reports):
            seen[position][report] += weight
    assert seen == mechanism.channel()


@mechanisms
def test_the_bytes_read_do_not_depend_on_the_positions(scripted_source, make):
    mechanism = make(16, 1.0)
    script = np.arange(50_000) % 251
    used = set()
    for position in (0, 5, 16):
        source = scripted_source(script)
        mechanism.report(np.full(1_000, position), source)
        used.add(source.used)
    assert len(used) == 1


class TestAccuracy:
    """Worst-case variances for the range -1 to 1, next to those of the continuous mechanisms."""

    @each("epsilon", [0.1, 0.5, 1, 2, 4])
    def test_clamping_makes_laplace_noise_more_accurate(self, epsilon):
        mechanism = ClampedLaplace(1024, epsilon)
        untouched = 8 / epsilon**2
        worst = max(mechanism.variances(range(1025))) / 512**2
        assert worst < untouched * (0.71 if epsilon <= 1 else 0.95)

    @pytest.mark.parametrize("epsilon", [0.3, 1, 3])
    def test_the_optimal_one_is_best(self, epsilon):
        worst = {make: make(1024, epsilon).variances(range(1025)).max() for make in MECHANISMS}
        assert min(worst, key=worst.get) is Optimal

    @each("epsilon", [1e-9, 1e-4, 1e-3, 1.001e-3, 0.1, 1, 5])
    def test_the_width_of_the_square_wave(self, epsilon):
        bounds = exp_bounds(epsilon)
        power, exact = bounds[0], Fraction(epsilon)
        b = (exact * power - power + 1) / (2 * power * (power - 1 - exact))
        assert abs(square_wave(MAX_STEPS, epsilon).width - 2 * b * MAX_STEPS) <= 0.6


class TestBernoulliRatio:
    @each("numerator, denominator", [(1, 3), (2, 6), (10**40, 3 * 10**40), (255, 256), (1, 2)])
    def test_the_first_byte_decides_or_ties(self, scripted_source, numerator, denominator):
        share = Fraction(numerator, denominator)
        digit = math.floor(256 * share)
        source = scripted_source(np.arange(256), [0] if (256 * share) % 1 else [])
        coins = bernoulli_ratio(source, numerator, denominator, 256)
        assert coins.tolist() == [byte < digit or (byte == digit and bool((256 * share) % 1)) for byte in range(256)]

    @each("last, heads", [(0x54, True), (0x56, False)])
    @each("ties", [1, 8, 100])
    def test_ties_go_on_beyond_any_word(self, scripted_source, ties, last, heads):
        source = scripted_source([0x55] * ties, last)
        assert bernoulli_ratio(source, 1, 3, 1).tolist() == [heads]
        assert source.used == ties + 1

    def test_a_probability_that_ends_ends_the_tie(self, scripted_source):
        source = scripted_source([0x80, 0x01])
        assert bernoulli_ratio(source, (0x8001 << 5), 1 << 21, 1).tolist() == [False]
        assert source.used == 2

    def test_never_and_always(self, scripted_source):
        assert not bernoulli_ratio(scripted_source(filler=0), 0, 5, 100).any()
        assert bernoulli_ratio(scripted_source(), 5, 5, 100).all()

    def test_many_coins(self):
        n = 300_000
        heads = int(bernoulli_ratio(SeededSource(7), 10**30, 7 * 10**30, n).sum())
        assert chisquare([heads, n - heads], [n / 7, n * 6 / 7]).pvalue > FALSE_ALARM

    @each("numerator, denominator", [(-1, 2), (3, 2), (0, 0), (1, -2)])
    def test_what_is_no_probability(self, numerator, denominator):
        with pytest.raises(ValueError, match="a probability needs"):
            bernoulli_ratio(SecureSource(), numerator, denominator, 1)


class TestRounding:
    @each("part", [0, 1, 255, 256, 40_000, SUBSTEPS - 1])
    def test_every_pair_of_bytes(self, scripted_source, part):
        words = np.arange(SUBSTEPS, dtype="<u2").view(np.uint8)
        rounded = round_at_random(np.full(SUBSTEPS, 3 * SUBSTEPS + part), scripted_source(words))
        assert np.bincount(rounded, minlength=5).tolist() == [0, 0, 0, SUBSTEPS - part, part]

    def test_the_ends_stay(self):
        assert round_at_random(np.array([0, MAX_STEPS * SUBSTEPS]), SecureSource()).tolist() == [0, MAX_STEPS]

    @each("steps, n_bins", [(1, 1), (4, 2), (5, 5), (10, 3), (1024, 32)])
    def test_bins_fall_on_positions(self, steps, n_bins):
        shares = bin_positions(steps, n_bins)
        assert shares.min() >= 0
        assert shares.sum(axis=1) == pytest.approx(1)
        middles = (np.arange(n_bins) + 0.5) * steps / n_bins
        assert shares @ np.arange(steps + 1) == pytest.approx(middles)
        uniform = np.random.default_rng(0).uniform(0, steps / n_bins, 400_000)
        scaled = np.rint(uniform * SUBSTEPS).astype(np.int64)
        counts = np.bincount(round_at_random(scaled, SeededSource(1)), minlength=steps + 1)
        held = shares[0] > 0
        assert not counts[~held].any()
        if held.sum() > 1:
            assert chisquare(counts[held], shares[0][held] * counts.sum()).pvalue > FALSE_ALARM


class TestExpectationMaximisation:
    def test_without_smoothing_it_finds_the_likeliest_distribution(self):
        mechanism = square_wave(4, 1.0)
        channel = np.array(mechanism.channel(), float)
        truth = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
        found = estimate_frequencies(channel, np.round(truth @ channel * 10**9).astype(int), smooth=False)
        assert found == pytest.approx(truth, abs=0.01)

    @pytest.mark.parametrize("smooth", [True, False])
    def test_frequencies_are_a_distribution_whatever_is_reported(self, smooth):
        for epsilon in (0.01, 1, 700):
            channel = ClampedLaplace(16, epsilon).spread(bin_positions(16, 8))
            for report in (0, 7, 16):
                counts = np.zeros(17, int)
                counts[report] = 5
                found = estimate_frequencies(channel, counts, smooth=smooth)
                assert found.min() >= 0
                assert found.sum() == pytest.approx(1)

    def test_smoothing_smooths(self):
        channel = square_wave(64, 1.0).spread(bin_positions(64, 64))
        counts = np.random.default_rng(0).multinomial(3_000, channel.mean(axis=0))
        rough, smooth = (estimate_frequencies(channel, counts, smooth=on) for on in (False, True))
        assert np.abs(np.diff(smooth)).sum() < np.abs(np.diff(rough)).sum() / 2


class TestBadInput:
    @mechanisms
    def test_positions_outside_the_grid(self, make):
        for positions in ([-1], [5], [[1]], [0.5]):
            with pytest.raises(ValueError, match="positions must be"):
                make(4, 1.0).report(np.array(positions), SecureSource())

    @mechanisms
    def test_no_records(self, make):
        assert make(4, 1.0).report(np.empty(0, np.int64), SecureSource()).size == 0

    @mechanisms
    @pytest.mark.parametrize(
        ("steps", "error"), [(0, ValueError), (MAX_STEPS + 1, ValueError), (True, TypeError), (2.0, TypeError)]
    )
    def test_steps(self, make, steps, error):
        with pytest.raises(error, match="grid_size must be"):
            make(steps, 1.0)

    @mechanisms
    @pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
    def test_epsilon(self, make, epsilon):
        with pytest.raises(ValueError, match="epsilon must be a finite number > 0"):
            make(4, epsilon)

    @mechanisms
    def test_an_epsilon_that_leaves_nothing(self, make):
        with pytest.raises(ValueError, match=r"epsilon = 1e-300 for a number is too small"):
            make(4, 1e-300)
