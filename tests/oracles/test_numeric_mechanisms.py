"""Mechanisms for numbers: exact privacy, bias and draws; accuracy; distributions."""

import json
import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from skdp import NumericPerturber
from skdp.exact import exp_bounds
from skdp.oracles import Optimal, SquareWave
from skdp.randomness import ONE, SecureSource
from tests.conftest import ScriptedSource, often
from tests.oracles.conftest import floats, largest_ratio

MAX_STEPS = 1 << 16
MECHANISMS = [Optimal, SquareWave]
EPSILONS = [1e-9, 1e-3, 0.1, 0.61, math.log(3), 1, 4, 20, 40, 700, 1e300]

mechanisms = pytest.mark.parametrize("make", MECHANISMS)


def every_case(test):
    steps = pytest.mark.parametrize("steps", often([1, 2, 5, 16, 40], [1, 5]))
    return mechanisms(steps(pytest.mark.parametrize("epsilon", EPSILONS)(test)))


@every_case
def test_every_report_is_within_epsilon_and_estimates_are_unbiased(make, steps, epsilon):
    mechanism = make(steps, epsilon)
    channel, estimates = mechanism.channel(), mechanism.estimates
    assert len(channel) == steps + 1
    assert all(len(row) == mechanism.n_reports and sum(row) == 1 for row in channel)
    assert all(0 < share < 1 for row in channel for share in row)
    assert make is Optimal or len(set(estimates)) == mechanism.n_reports
    worst = largest_ratio(channel)
    assert worst == mechanism.worst_ratio
    assert epsilon > 1000 or worst <= exp_bounds(epsilon)[0]  # e to a larger power cannot be computed
    assert worst <= exp_bounds(mechanism.epsilon)[0]
    assert mechanism.epsilon <= epsilon
    # The rounding loses little: a probability is at least about 2**-64, which a larger epsilon does not reach.
    largest = 8 if make is Optimal else 64 * math.log(2)
    assert mechanism.epsilon >= min(epsilon, largest) * (1 - (1e-6 if epsilon < largest / 2 else 1e-2))
    variances = mechanism.variances(np.arange(steps + 1))
    for position, row in enumerate(channel):
        mean = sum(share * estimate for share, estimate in zip(row, estimates, strict=True))
        assert mean == position if make is not Optimal else abs(mean - position) <= 2.0**-23
        variance = sum(share * (value - position) ** 2 for share, value in zip(row, estimates, strict=True))
        assert variances[position] == pytest.approx(float(variance), rel=1e-7)
    if make is SquareWave:
        weights = np.vstack([np.random.default_rng(0).dirichlet(np.ones(steps + 1), 3), np.eye(steps + 1)])
        assert mechanism.report_distribution(weights) == pytest.approx(weights @ floats(channel), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("k", [1, 4, 9])
@mechanisms
def test_total_variation_is_bounded(make, k):
    mechanism = make(k, 1.3)
    pairs = combinations(floats(mechanism.channel()), 2)
    assert max(np.abs(one - other).sum() / 2 for one, other in pairs) <= float(mechanism.variation) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [4.0, 1.4, 1e-3])
def test_every_draw_follows_the_channel(exact_pmf, epsilon):
    mechanism = SquareWave(5, epsilon)
    for position, row in enumerate(mechanism.channel()):
        pmf = exact_pmf(mechanism, position)
        assert [pmf[report,] for report in range(mechanism.n_reports)] == row


# The mechanism of smallest variance: compared with all mixtures of outcomes, and limits on its outcomes.


@pytest.mark.parametrize("epsilon", often([0.01, 1.0, 2.5], [1.0]))
@pytest.mark.parametrize("n_nodes", often([2, 3, 4, 6, 9], [2, 6]))
def test_no_mixture_of_outcomes_has_a_smaller_variance(n_nodes, epsilon):
    """Private channels are mixtures of outcomes that are likelier at a subset of the nodes: enumerate all subsets."""
    nodes = np.linspace(-1, 1, n_nodes)
    likely = 1 + (math.exp(epsilon) - 1) * np.array(list(product([0, 1], repeat=n_nodes)))
    largest_report = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    values = np.linspace(-1.7, 1.7, 35 if n_nodes < 9 else 17) * largest_report
    columns = [(value, row) for value in values for row in likely]
    equal = np.array([[*row, *(value * row)] for value, row in columns]).T
    middles = (nodes[:-1] + nodes[1:]) / 2
    squares = np.array([value**2 * np.append(row, (row[:-1] + row[1:]) / 2) for value, row in columns]).T
    scale = largest_report**2
    solution = linprog(
        np.append(np.zeros(len(columns)), 1.0),
        A_eq=np.hstack([equal, np.zeros((2 * n_nodes, 1))]),
        b_eq=[*np.ones(n_nodes), *nodes],
        A_ub=np.hstack([squares / scale, -np.ones((len(squares), 1))]),
        b_ub=np.append(nodes, middles) ** 2 / scale,
    )
    assert solution.status == 0
    steps = n_nodes - 1
    mechanism = Optimal(steps, epsilon)
    positions = np.append(np.arange(n_nodes), np.arange(steps) + 0.5)
    variance = mechanism.variances(positions).max() * (2 / steps) ** 2
    assert variance <= solution.fun * scale * 1.005


TWO = Optimal(2, 1.0).outcomes


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        *[(odd, "triples of int") for odd in ([], "abc", [[1.0, 2, 3]], [[1, 2]], [[True, 2, 3]])],
        ([[-1, 2, 3]], "positive probabilities"),
        ([[1, 2, 8]], "nodes of grid_size"),
        ([[1 << 61, 1, 0]], "nodes of grid_size"),
        ([[(weight * 11) // 10, value, nodes] for weight, value, nodes in TWO], "positive probabilities"),
        ([[weight, value + (1 << 20), nodes] for weight, value, nodes in TWO], "unbiased estimates"),
        ([[1 << 61, 1, 7]], "unbiased estimates"),
        ([[int(2**64 / (1 + math.e)) - 10**9, 1 << 20, 4]], "privacy loss|positive"),
    ],
)
def test_invalid_outcomes_raise_an_error(outcomes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Optimal(2, 1.0, outcomes=outcomes)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_accepted_outcomes_are_private_and_unbiased(place):
    """The outcomes may come from an untrusted file, which cannot change epsilon."""
    accepted = 0
    for change in (-(1 << 60), -3, 0, 1, 5, 1 << 40, 1 << 58):
        outcomes = [list(outcome) for outcome in TWO]
        outcomes[-1][place] += change
        try:
            mechanism = Optimal(2, 1.0, outcomes=outcomes)
        except ValueError:
            continue
        accepted += 1
        channel = mechanism.channel()
        assert largest_ratio(channel) <= exp_bounds(1.0)[0]
        for position, row in enumerate(channel):
            assert sum(row) == 1
            mean = sum(share * own for share, own in zip(row, mechanism.estimates, strict=True))
            assert abs(mean - position) <= 2.0**-23
    assert accepted


def people(n=4000):
    return pd.DataFrame({"age": np.random.default_rng(0).normal(40, 12, n).clip(0, 100)})


def test_reports_of_one_solution_are_read_by_another(monkeypatch):
    """Another version of the solver may find other outcomes, so the protocol contains the outcomes."""
    fitted = NumericPerturber(2.0, mechanism="optimal", bounds={"age": (0, 100)}).fit(people())
    reports = fitted.transform(people())
    monkeypatch.setattr(f"{Optimal.__module__}.solve_program", lambda *_: pytest.fail("solved again"))
    reader = NumericPerturber.from_json(fitted.to_json())
    assert reader.guarantee_ == fitted.guarantee_
    pd.testing.assert_frame_equal(reader.estimate_mean(reports), fitted.estimate_mean(reports))
    mean = reader.estimate_mean(reports).loc["age"]
    assert abs(mean["mean"] - people()["age"].mean()) < 6 * mean["std_error"]
    other = json.loads(fitted.to_json())
    packed = json.dumps(other["parameters"]["mechanism"])
    other["parameters"]["mechanism"] = json.loads(packed.replace(str(fitted.mechanism_.outcomes[0][0]), "17"))
    with pytest.raises(ValueError, match="does not follow from its parameters"):
        NumericPerturber.from_json(json.dumps(other))


def test_permanent_reports_need_the_outcomes():
    given = {"bounds": {"age": (0, 100)}, "memoize": True, "secret_key": bytes(range(32))}
    with pytest.raises(ValueError, match=r"mechanism_\.outcomes"):
        NumericPerturber(1.0, mechanism="optimal", **given).fit(people(5))
    outcomes = Optimal(1024, 1.0).outcomes
    # Reports of two mechanisms from the same random words would exceed the sum of both epsilons.
    other = [[weight - 1, value, nodes] for weight, value, nodes in outcomes]
    fitted = [NumericPerturber(1.0, mechanism=own, **given).fit(people(200)) for own in (outcomes, outcomes, other)]
    first, again, changed = (one.transform(people(200), person=np.arange(200))["age"] for one in fitted)
    pd.testing.assert_series_equal(first, again)
    assert np.isclose(first, changed, atol=1e-3).mean() < 0.5


# Rounding to the grid.


SUBSTEPS = 1 << 16


@pytest.mark.parametrize("part", [0, 1, 255, 256, 40_000, SUBSTEPS - 1])
def test_rounding_is_unbiased_for_every_pair_of_bytes(scripted_source, part):
    words = np.arange(SUBSTEPS, dtype="<u2").view(np.uint8)
    rounded = SquareWave.round_at_random(np.full(SUBSTEPS, 3 * SUBSTEPS + part), scripted_source(words))
    assert np.bincount(rounded, minlength=5).tolist() == [0, 0, 0, SUBSTEPS - part, part]


@pytest.mark.parametrize("n_bins", [1, 7, 10])
def test_smooth_estimate_is_a_fixed_point(n_bins):
    """Most numbers are in one bin; the bins of the grid of ten steps are sums of fine bins."""
    ages = np.append(np.full(7_000, 15.0), np.random.default_rng(0).uniform(0, 100, 3_000))[:, np.newaxis]
    fitted = NumericPerturber(1.0, mechanism="square_wave", bounds=(0, 100), grid_size=10, random_state=0)
    reports = fitted.fit_transform(ages)
    frequencies = fitted.estimate_distribution(reports, n_bins=n_bins)["frequency"].to_numpy()
    counts = np.bincount(np.searchsorted(fitted.report_values_[0], reports[:, 0]))
    points = (np.arange(2_000 * n_bins) + 0.5) / (200 * n_bins)
    rounded = np.clip(1 - abs(points[:, np.newaxis] - np.arange(11)), 0, 1)
    channel = rounded.reshape(n_bins, -1, 11).mean(axis=1) @ floats(fitted.channel()[0])
    again = np.pad(frequencies * (channel @ (counts / (frequencies @ channel))), 1, mode="edge")
    again = again[:-2] + 2 * again[1:-1] + again[2:]
    assert np.abs(again / again.sum() - frequencies).sum() < 5e-6
    assert frequencies.sum() == pytest.approx(1)


# Wrong input.


@mechanisms
def test_parameters_and_positions_out_of_range_raise_an_error(make):
    for steps, wrong in ((0, ValueError), (MAX_STEPS + 1, ValueError), (True, TypeError), (2.0, TypeError)):
        with pytest.raises(wrong, match="`grid_size` must be"):
            make(steps, 1.0)
    for epsilon in (0, -1, math.nan, math.inf, 1e-300):
        with pytest.raises(ValueError, match=r"`epsilon` must be (a finite number > 0|larger)"):
            make(4, epsilon)
    for positions in ([-1], [5], [[1]], [0.5]):
        with pytest.raises(ValueError, match="`positions` must be"):
            make(4, 1.0).report(np.array(positions), SecureSource())
    assert make(4, 1.0).report(np.empty(0, np.int64), SecureSource()).size == 0


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_word_of_64_bits_selects_the_report_of_its_interval(epsilon):
    """Each report has an interval of words, with its first and its last word."""
    mechanism = Optimal(4, epsilon)

    for position, row in enumerate(mechanism.channel()):
        first = Fraction(0)
        for report, share in enumerate(row):
            for word in (first, first + share * ONE - 1):
                # The first byte rounds no position, because each position is a node.
                source = ScriptedSource([0, *int(word).to_bytes(8, "little")])
                assert mechanism.report(np.array([position]), source).tolist() == [report]
            first += share * ONE
        assert first == ONE
