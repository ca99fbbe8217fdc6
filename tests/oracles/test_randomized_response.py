from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import chisquare

from skdp.exact import exp_bounds
from skdp.oracles import RandomizedResponse
from skdp.randomness import ONE, SecureSource, SeededSource
from tests.conftest import each

FALSE_ALARM = 1e-6
KS = [2, 3, 4, 16, 257]
EPSILONS = [1e-9, 1e-3, 0.1, math.log(3), 1, 4, 20, 36, 40, 700]


def worst_ratio(channel):
    """The largest ratio of two entries of one column: one report under two values."""
    return max(max(column) / min(column) for column in zip(*channel, strict=True))


@each("k, epsilon", [*product(KS[:-1], EPSILONS), (KS[-1], 1)])
def test_no_report_is_more_than_e_to_the_epsilon_times_likelier(k, epsilon):
    oracle = RandomizedResponse(k, epsilon)
    channel = oracle.channel()
    assert len(channel) == k
    assert all(len(row) == k and sum(row) == 1 for row in channel)
    assert all(0 < share < 1 for row in channel for share in row)
    assert worst_ratio(channel) == oracle.worst_ratio
    assert worst_ratio(channel) <= exp_bounds(epsilon)[0]


@each("k", KS)
@each("epsilon", EPSILONS)
def test_the_stated_epsilon_is_achieved_and_not_above_the_wanted_one(k, epsilon):
    oracle = RandomizedResponse(k, epsilon)
    assert oracle.worst_ratio <= exp_bounds(oracle.epsilon)[0]
    assert oracle.epsilon <= epsilon
    # A lie is always left: what a larger request adds is noise that cannot be taken away any more.
    assert oracle.epsilon == pytest.approx(min(epsilon, (80 if k <= 256 else 96) * math.log(2)), rel=1e-6)


@each("k", KS)
@each("epsilon", EPSILONS)
def test_no_smaller_probability_of_a_lie_keeps_the_promise(k, epsilon):
    """The rounding is the least possible: one step less of lying breaks the bound."""
    oracle = RandomizedResponse(k, epsilon)
    words = 2**16 if k <= 256 else 2**32
    tied = min(k, words - words * oracle.lie // k * k)
    lie = oracle.lie - Fraction(tied, words * ONE)
    truth, other = 1 - lie * (k - 1) / k, lie / k
    assert other == 0 or truth / other > exp_bounds(epsilon)[1]


def test_two_coins_of_warner():
    channel = RandomizedResponse(2, math.log(3)).channel()
    assert all(abs(channel[value][value] - Fraction(3, 4)) < Fraction(1, 2**53) for value in (0, 1))


def test_a_tiny_epsilon_gives_no_information_and_no_crash():
    oracle = RandomizedResponse(3, 1e-300)
    assert oracle.lie == 1
    assert oracle.epsilon == 0
    assert np.isnan(oracle.estimate([1, 2, 3], 6)).all()
    assert np.isinf(oracle.variance([1, 2, 3], 6)).all()
    assert np.isnan(oracle.maximum_likelihood([1, 2, 3], 6)).all()


@pytest.mark.parametrize("k", [2, 3, 4, 16, 100, 255, 256])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_sampler_follows_the_channel_for_every_pair_of_bytes(scripted_source, monkeypatch, k, epsilon):
    """All 2**16 words, once with all ties lying and once with all telling the truth.

    A tie lies with probability threshold / 2**64 (shown by the tests of `bernoulli`), and a lie of a tie is uniform, so
    the two enumerations, mixed with this weight, must give the channel exactly.
    """
    oracle = RandomizedResponse(k, epsilon)
    words = np.arange(1 << 16, dtype="<u2").view(np.uint8)
    monkeypatch.setattr(
        "skdp.oracles._randomized_response.uniform_integers", lambda source, high, size: np.arange(size) % high
    )
    for value in {0, 1, k - 1}:
        counts = {}
        for lying in (True, False):
            asked = []
            monkeypatch.setattr(
                "skdp.oracles._randomized_response.bernoulli",
                lambda source, threshold, size, lying=lying, asked=asked: (
                    asked.append((threshold, size)),
                    np.full(size, lying),
                )[1],
            )
            codes = np.full(1 << 16, value, np.uint8)
            counts[lying] = np.bincount(oracle.report(codes, scripted_source(words)), minlength=k)
        ((threshold, ties),) = asked
        weight = Fraction(threshold, ONE)
        assert ties in (k, (1 << 16) % k)
        for report in range(k):
            mixed = weight * int(counts[True][report]) + (1 - weight) * int(counts[False][report])
            if ties == k:
                assert mixed / (1 << 16) == (oracle.p if report == value else oracle.q)
        if ties < k:  # fewer ties than values: the uniform draw of a tie is what makes them even
            lies = weight * ties + (1 << 16) // k * k
            assert lies / (1 << 16) == oracle.lie


def test_the_bytes_read_do_not_depend_on_the_codes(scripted_source):
    oracle = RandomizedResponse(5, 1)
    script = np.arange(5_000) % 251
    used = set()
    for value in range(5):
        source = scripted_source(script)
        oracle.report(np.full(1_000, value, np.uint8), source)
        used.add(source.used)
    assert len(used) == 1


@each("k, epsilon", [(2, 0.5), (3, 1), (4, 2), (100, 1), (257, 4), (70_000, 12)])
def test_reports_follow_the_channel(k, epsilon):
    n = 400_000
    oracle = RandomizedResponse(k, epsilon)
    value = k - 1
    codes = np.full(n, value, np.min_scalar_type(k))
    counts = oracle.tally(oracle.report(codes, SeededSource("follow", k)))
    edges = np.linspace(0, k, min(k, 50) + 1).astype(int)
    grouped = np.add.reduceat(counts, edges[:-1])
    expected = np.diff(edges) * float(oracle.q)
    expected[-1] += float(oracle.p - oracle.q)
    assert chisquare(grouped, expected * n).pvalue > FALSE_ALARM


def test_lies_of_neighbouring_rows_are_independent():
    reports = RandomizedResponse(3, 0.5).report(np.zeros(300_000, np.uint8), SeededSource("pairs"))
    pairs = np.bincount(reports[:-1:2] * 3 + reports[1::2], minlength=9)
    oracle = RandomizedResponse(3, 0.5)
    shares = [float(a * b) for a in oracle.channel()[0] for b in oracle.channel()[0]]
    assert chisquare(pairs, np.array(shares) * 150_000).pvalue > FALSE_ALARM


@given(st.integers(2, 40), st.floats(0.01, 8), st.data())
def test_the_expected_tally_is_inverted_exactly(k, epsilon, data):
    counts = np.array(data.draw(st.lists(st.integers(0, 10_000), min_size=k, max_size=k)))
    n = int(counts.sum())
    oracle = RandomizedResponse(k, epsilon)
    expected = counts * float(oracle.p) + (n - counts) * float(oracle.q)
    assert oracle.estimate(expected, n) == pytest.approx(counts, abs=1e-6 * (n + 1) / float(oracle.p - oracle.q))


def test_the_variance_is_that_of_the_enumerated_channel():
    """One record of each value: the support of v is a sum of independent coins."""
    oracle = RandomizedResponse(4, 1)
    counts = [3, 0, 5, 2]
    gain = oracle.p - oracle.q
    for value in range(4):
        exact = (
            sum(count * (row[value] - row[value] ** 2) for count, row in zip(counts, oracle.channel(), strict=True))
            / gain**2
        )
        assert oracle.variance(counts, 10)[value] == pytest.approx(float(exact), rel=1e-12)


@each("epsilon", [0.2, 1.0, 3.0])
@each("support", [[50, 30, 20], [98, 1, 1], [40, 35, 25, 0], [10, 10, 10], [0, 0, 7], [60, 40, 3, 2, 1]])
def test_the_closed_form_is_the_maximum_of_the_likelihood(epsilon, support):
    oracle = RandomizedResponse(len(support), epsilon)
    n = sum(support)
    found = oracle.maximum_likelihood(support, n)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(n)
    p, q = float(oracle.p), float(oracle.q)

    def loss(frequencies):
        return -float(np.dot(support, np.log(q + (p - q) * np.clip(frequencies, 0, 1))))

    best = minimize(
        loss,
        np.full(len(support), 1 / len(support)),
        bounds=[(0, 1)] * len(support),
        constraints={"type": "eq", "fun": lambda frequencies: frequencies.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert loss(found / n) <= best.fun + 1e-6
    # Ties stay ties, and more reports never mean a smaller count.
    order = np.argsort(support, kind="stable")
    assert (np.diff(found[order]) >= -1e-9).all()


def test_maximum_likelihood_of_nothing_is_nothing():
    assert np.isnan(RandomizedResponse(3, 1).maximum_likelihood([0, 0, 0], 0)).all()


@each(
    "codes, match",
    [
        (np.array([0, 4], np.uint8), "between 0 and 3"),
        (np.array([0, -1]), "between 0 and 3"),
        (np.array([0.0]), "integers"),
        (np.array([[0]]), "1-D"),
    ],
)
def test_a_code_that_cannot_be_hidden_is_refused_before_any_draw(scripted_source, codes, match):
    with pytest.raises(ValueError, match=match):
        RandomizedResponse(4, 1).report(codes, scripted_source())
    with pytest.raises(ValueError, match=match):
        RandomizedResponse(4, 1).tally(codes)


def test_codes_of_a_dtype_that_cannot_hold_every_report_are_refused(scripted_source):
    with pytest.raises(ValueError, match="holds 299"):
        RandomizedResponse(300, 1).report(np.zeros(3, np.uint8), scripted_source())


@each(
    "k epsilon error",
    [
        (1, 1, ValueError),
        (0, 1, ValueError),
        (2**32, 1, ValueError),
        (2.0, 1, TypeError),
        (True, 1, TypeError),
        (4, 0, ValueError),
        (4, float("nan"), ValueError),
        (4, "1", TypeError),
    ],
)
def test_parameters_out_of_range_are_refused(k, epsilon, error):
    with pytest.raises(error):
        RandomizedResponse(k, epsilon)


def test_the_input_is_left_alone_and_no_codes_give_no_reports():
    codes = np.arange(4, dtype=np.uint8)
    RandomizedResponse(4, 0.1).report(codes, SecureSource())
    assert codes.tolist() == [0, 1, 2, 3]
    assert RandomizedResponse(4, 1).report(codes[:0], SecureSource()).size == 0
    assert RandomizedResponse(4, 1).tally(codes[:0]).tolist() == [0, 0, 0, 0]
