"""The mixture of windows: its channel, exactly; the program of its weights."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.exact import exp_bounds
from skdp.oracles import Windows
from skdp.oracles.numeric import _windows, bin_positions
from skdp.oracles.numeric import _windows_program as program
from skdp.randomness import SeededSource
from tests.conftest import often

EPSILONS = [1e-9, 0.01, 0.5, 1.0, 2.0, 4.0, 20.0, 1e300]


def every_case(test):
    steps = pytest.mark.parametrize("steps", often([1, 5, 16, 40], [5, 40]))
    return steps(pytest.mark.parametrize("epsilon", often(EPSILONS, [1e-9, 1.0]))(test))


@every_case
def test_no_report_is_more_than_e_to_the_epsilon_times_likelier(steps, epsilon):
    mechanism = Windows(steps, epsilon)
    channel = mechanism.channel()
    assert all(len(row) == mechanism.n_reports and sum(row) == 1 and min(row) > 0 for row in channel)
    worst = max(max(column) / min(column) for column in zip(*channel, strict=True))
    assert worst == mechanism.worst_ratio
    assert worst <= exp_bounds(min(epsilon, 1000))[0]
    assert epsilon * 0.999 <= mechanism.epsilon <= epsilon or epsilon > 10


@every_case
def test_reports_are_different_numbers_and_unbiased(steps, epsilon):
    mechanism = Windows(steps, epsilon)
    estimates, variances = mechanism.estimates, mechanism.variances(range(steps + 1))
    assert len(set(estimates)) == mechanism.n_reports
    for position, row in enumerate(mechanism.channel()):
        assert sum(share * value for share, value in zip(row, estimates, strict=True)) == position
        variance = sum(share * (value - position) ** 2 for share, value in zip(row, estimates, strict=True))
        assert variances[position] == pytest.approx(float(variance), rel=1e-9)


@every_case
def test_reports_spread_as_the_channel_has_it(steps, epsilon):
    mechanism = Windows(steps, epsilon)
    weights = np.random.default_rng(0).dirichlet(np.ones(steps + 1), 3)
    expected = weights @ np.array(mechanism.channel(), float)
    assert mechanism.spread(weights) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("position", [0, 7, 16])
def test_reports_follow_the_channel(position):
    mechanism, n = Windows(16, 1.0), 200_000
    assert mechanism.periodic
    reports = mechanism.report(np.full(n, position), SeededSource("windows", position))
    expected = np.array(mechanism.channel()[position], float) * n
    assert chisquare(np.bincount(reports, minlength=mechanism.n_reports), expected).pvalue > 1e-6


def test_all_draws_of_a_small_one_are_counted(monkeypatch):
    """Enumerated: every uniform draw over all its values, and both outcomes of each lie."""
    mechanism = Windows(16, 0.5)
    assert len(mechanism.periodic) >= 2
    asked, answers = [], []

    def uniform(_source, bound, size):
        asked.append(bound)
        return np.full(size, answers.pop(0) if answers else 0)

    def lies(_source, threshold, size):
        asked.append(Fraction(threshold, 1 << 64))
        return np.full(size, bool(answers.pop(0)) if answers else False)

    monkeypatch.setattr(_windows, "uniform_integers", uniform)
    monkeypatch.setattr(_windows, "bernoulli", lies)
    mechanism.report(np.array([2]), SeededSource("none"))
    # The choice of the window, three draws for the first, four for each that repeats. Those of a window that is not
    # used change nothing.
    groups = [asked[1:4], *(asked[start : start + 4] for start in range(4, len(asked), 4))]
    repeating = [own[2] for own in mechanism.periodic]
    weights, counted = [64 - sum(repeating), *repeating], [Fraction(0)] * mechanism.n_reports
    for place, (group, weight) in enumerate(zip(groups, weights, strict=True)):
        ranges = [range(one) if isinstance(one, int) else range(2) for one in group]
        for values in itertools.product(*ranges):
            drawn = [values if number == place else [0] * len(own) for number, own in enumerate(groups)]
            answers[:] = [sum(weights[:place]), *itertools.chain(*drawn)]
            (report,) = mechanism.report(np.array([2]), SeededSource("none"))
            counted[report] += Fraction(weight, 64) * math.prod(
                Fraction(1, one) if isinstance(one, int) else one if value else 1 - one
                for value, one in zip(values, group, strict=True)
            )
    assert counted == mechanism.channel()[2]


def test_it_reads_as_many_bytes_for_each_position():
    mechanism, read = Windows(64, 1.0), []
    for position in (0, 31, 64):
        source = SeededSource("bytes")
        mechanism.report(np.full(100, position), source)
        read.append(source.bytes(8).tobytes())
    assert len(set(read)) == 1


def error(mechanism):
    channel = mechanism.spread(bin_positions(mechanism.steps, program.BINS))
    return program.distribution_error(program.information(channel))


MOST = {0.1: 0.93, 0.5: 0.82, 1.0: 0.82, 2.0: 0.85, 4.0: 0.98}


@pytest.mark.parametrize("epsilon", often(MOST, [1.0]))
def test_the_error_is_less_than_that_of_the_square_wave(epsilon):
    most = MOST[epsilon]
    assert error(Windows(1024, epsilon)) <= most * error(Windows(1024, epsilon, repeating=False))


@pytest.mark.parametrize("epsilon", [5.0, 8.0, 30.0])
def test_the_square_wave_is_the_only_window_where_it_is_narrow(epsilon):
    one, other = (Windows(256, epsilon, repeating=repeating) for repeating in (True, False))
    assert one.periodic == ()
    assert one.estimates == other.estimates
    assert one._row(9) == other._row(9)


def test_no_window_of_the_program_is_missing_from_the_mixture():
    """The certificate of a convex program: no slope exceeds their mean under the weights."""
    informations = np.array([program.information(program._once(bins / 32, 1.0)) for bins in range(1, 32)])
    weights = program._mixed(informations)
    spread, below = program._shapes()
    roots, goal = spread.T @ informations @ spread, (below @ spread).T @ (below @ spread)
    inverse = np.linalg.inv(np.eye(32) + program.REPORTS * np.tensordot(weights, roots, 1))
    slopes = np.tensordot(roots, inverse @ goal @ inverse, 2)
    assert slopes.max() <= 1.02 * (weights @ slopes)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", often([0.3, 3.0], [3.0]))
def test_the_channels_of_the_program_are_private(epsilon):
    found = program.best_windows(epsilon, 0.01)
    whole = program._once(0.25, epsilon)
    assert whole.sum(axis=1) == pytest.approx(np.ones(32), rel=1e-3)
    assert whole.max() / whole.min() <= math.exp(epsilon) * (1 + 1e-9)
    for period, width, _ in found.periodic:
        channel = program._again(period, width, epsilon)
        assert channel.sum(axis=1) == pytest.approx(np.ones(32))
        assert channel.max() / channel.min() == pytest.approx(math.exp(epsilon))
