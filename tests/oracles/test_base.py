"""What holds for every oracle."""

from __future__ import annotations

import itertools
import math
import re
import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import skdp.oracles._support as support_module
from skdp.exact import exp_bounds
from skdp.oracles import (
    CountMeanSketch,
    FrequencyOracle,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
    choose_oracle,
    two_rounds,
)
from skdp.oracles._support import MOST_EPSILON, capped_epsilon, column_sums, lie_threshold
from skdp.randomness import ONE, SecureSource, SeededSource
from tests.conftest import each, often

ENUMERATED = ["GRR", "OUE", "SUE", "THE", "SS", "HR", "HR4"]


def zipf_codes(k, n, source):
    """Draw codes from frequencies that fall as 1 / rank."""
    weights = 1 / np.arange(1, k + 1)
    bounds = np.cumsum(weights / weights.sum()) * 65_536
    words = source.bytes(2 * n).view("<u2")
    return np.minimum(np.searchsorted(bounds, words), k - 1).astype(np.min_scalar_type(k - 1))


# Unbiasedness and variance, from the exact channel.


@each("name", ENUMERATED)
@each("k, epsilon", [(2, 0.1), (3, 1.0), (5, 2.0), (6, 4.0)])
def test_the_mean_report_is_the_truth(all_oracles, all_reports, name, k, epsilon):
    oracle = all_oracles[name](k, epsilon)
    shares, values = np.array(oracle.channel(), float), oracle.unbiased(all_reports(oracle))
    assert shares @ values == pytest.approx(np.eye(k), abs=1e-9)
    squares = (shares @ values**2).T
    assert squares == pytest.approx(oracle.second_moments(), rel=1e-9)


@each("name", ENUMERATED)
@each("k, epsilon", [(2, 0.1), (3, 1.0), (5, 2.0), (6, 4.0)])
def test_the_variance_is_that_of_the_channel(all_oracles, all_reports, name, k, epsilon):
    """The support of a value is a sum of independent terms: one a record."""
    oracle = all_oracles[name](k, epsilon)
    counts = np.arange(k) ** 2
    shares, values = np.array(oracle.channel(), float), oracle.unbiased(all_reports(oracle))
    exact = counts @ (shares @ values**2 - np.eye(k))
    assert oracle.variance(counts, counts.sum()) == pytest.approx(exact, rel=1e-9)


@each("name", ENUMERATED)
def test_the_expected_tally_is_inverted(all_oracles, all_reports, name):
    oracle = all_oracles[name](5, 1.0)
    counts = np.array([70, 0, 20, 9, 1])
    reports = all_reports(oracle)
    tallies = np.array([oracle.tally(reports[i : i + 1]) for i in range(len(reports))])
    expected = counts @ np.array(oracle.channel(), float) @ tallies
    assert oracle.estimate(expected, 100) == pytest.approx(counts, abs=1e-9)


@given(st.data())
def test_the_summed_variance_does_not_depend_on_the_data(all_oracles, data):
    k, epsilon = data.draw(st.integers(2, 40)), data.draw(st.floats(0.01, 10))
    counts = np.array(data.draw(st.lists(st.integers(0, 10**6), min_size=k, max_size=k)))
    n = int(counts.sum())
    for name in ("GRR", "OUE", "SUE", "THE", "SS", "OLH", "BLH"):
        oracle = all_oracles[name](k, epsilon)
        assert oracle.variance(counts, n).sum() == pytest.approx(n * k * oracle.mean_squared_error, rel=1e-9)


def test_the_tally_adds_over_chunks(make_oracle, monkeypatch):
    oracle = make_oracle(9, 1.0)
    reports = oracle.report((np.arange(1_000) % 9).astype(np.uint8), SeededSource("chunks"))
    whole = oracle.tally(reports)
    assert whole.dtype == np.int64
    assert sum(oracle.tally(part) for part in np.array_split(reports, 7)).tolist() == whole.tolist()
    assert oracle.tally(reports[:0]).tolist() == [0] * 9
    monkeypatch.setattr(support_module, "_CHUNK", 50)
    assert oracle.tally(reports).tolist() == whole.tolist()
    assert oracle.estimate(whole, 1_000) == pytest.approx(oracle.unbiased(reports).sum(axis=0), abs=1e-6)


@given(st.integers(1, 5_000), st.integers(0, 3_000), st.floats(0, 1))
@settings(max_examples=30)
def test_column_sums(k, n, share):
    n = min(n, 200_000 // k)
    bits = np.random.default_rng(n).random((n, k)) < share
    assert column_sums(bits).tolist() == bits.sum(axis=0).tolist()


def test_column_sums_beyond_a_byte():
    for shape in ((600, 5_000), (400_000, 3)):
        assert (column_sums(np.ones(shape, bool)) == shape[0]).all()


@each("name", ENUMERATED)
@each("k", [2, 3, 5, 6])
def test_what_an_oracle_knows_of_its_reports_is_that_of_the_channel(all_oracles, all_reports, name, k):
    oracle = all_oracles[name](k, 1.0)
    shares, supports = np.array(oracle.channel(), float), oracle.supports(all_reports(oracle))
    assert list(oracle.channels()) == [oracle.channel()]
    assert oracle.n_reports == shares.shape[1]
    if not oracle.is_signed:
        assert oracle.pair_supports[0] == pytest.approx(shares[0] @ (supports[:, 0] & supports[:, 1]))
        if k > 2:
            assert oracle.pair_supports[1] == pytest.approx(shares[0] @ (supports[:, 1] & supports[:, 2]))


@each("name", ENUMERATED)
def test_the_best_guess_is_that_of_the_channel(all_oracles, name):
    prior, groups = np.array([0.1, 0.35, 0.05, 0.2, 0.3]), np.array([1, 0, 0, 2, 1])
    for epsilon in (0.1, 1.0, 4.0):
        oracle = all_oracles[name](5, epsilon)
        joint = np.array(oracle.channel(), float) * prior[:, np.newaxis]
        assert oracle.guess_accuracy(prior) == pytest.approx(joint.max(axis=0).sum(), rel=1e-12)
        together = np.array([joint[groups == group].sum(axis=0) for group in range(3)])
        assert oracle.guess_accuracy(prior, groups) == pytest.approx(together.max(axis=0).sum(), rel=1e-12)


@pytest.mark.parametrize("name", ["OLH", "BLH", "sketch"])
def test_public_hash_functions_have_channels_of_their_own_and_no_best_guess(all_oracles, name):
    oracle = all_oracles[name](3, 1.0)
    channels = list(oracle.channels())
    assert len(channels) == (8 if name == "sketch" else 16)
    assert any(channel != channels[0] for channel in channels)
    assert all(len(row) == oracle.n_reports for channel in channels for row in channel)
    assert oracle.shows_hash
    assert oracle.guess_accuracy(np.full(3, 1 / 3)) is None


# Figures.

FIGURES = [
    # k, epsilon, GRR, SUE, OUE, SS, size: Wang et al. (2017) and Ye, Barg (2018), in closed form
    (4, 0.5, 9.44, 15.9, 15.9, 9.19, 2),
    (4, 1, 1.89, 3.92, 3.93, 1.89, 1),
    (14, 0.5, 33.8, 15.9, 15.7, 13.5, 5),
    (14, 1, 5.48, 3.92, 3.75, 3.11, 4),
    (14, 2, 0.609, 0.921, 0.795, 0.565, 2),
    (14, 4, 0.039, 0.181, 0.147, 0.039, 1),
    (100, 1, 34.7, 3.92, 3.69, 3.60, 27),
    (100, 4, 0.071, 0.181, 0.086, 0.065, 2),
    (1000, 1, 340, 3.92, 3.68, 3.67, 269),
]


@each("k, epsilon, grr, sue, oue, ss, size", FIGURES)
def test_known_errors(all_oracles, k, epsilon, grr, sue, oue, ss, size):
    for name, figure in (("GRR", grr), ("SUE", sue), ("OUE", oue), ("SS", ss)):
        digits = 3 if figure not in (0.039, 0.071, 0.086, 0.065) else 2
        assert float(f"{all_oracles[name](k, epsilon).mean_squared_error:.{digits}g}") == float(f"{figure:.{digits}g}")
    assert all_oracles["SS"](k, epsilon).subset_size == size


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_textbook_variances(all_oracles, epsilon):
    """Of a value that nobody has, n times the variance of its frequency."""
    power, half = math.exp(epsilon), math.exp(epsilon / 2)
    known = {
        "GRR": (18 + power) / (power - 1) ** 2,
        "SUE": half / (half - 1) ** 2,
        "OUE": 4 * power / (power - 1) ** 2,
        "BLH": ((power + 1) / (power - 1)) ** 2,
    }
    for name, variance in known.items():
        oracle = all_oracles[name](20, epsilon)
        assert oracle.variance(np.zeros(20), 1)[0] == pytest.approx(variance, rel=1e-6)


def check_empirical_error(oracle, label):
    """Many small studies from one call; the standard error of their mean squared error is below 2 %."""
    k, size = oracle.k, 200
    runs = max(150, 7_500 // (k - 1))
    codes = np.tile(zipf_codes(k, size, SeededSource("codes")), runs)
    counts = np.bincount(codes[:size], minlength=k)
    reports = oracle.report(codes, SeededSource("error", label))
    errors = np.array(
        [
            ((oracle.estimate(oracle.tally(reports[start : start + size]), size) - counts) ** 2).sum()
            for start in range(0, codes.size, size)
        ]
    )
    expected = oracle.variance(counts, size).sum()
    assert errors.std() / math.sqrt(runs) < 0.02 * expected
    assert errors.mean() == pytest.approx(expected, rel=0.08)


FAITHFUL = ["GRR", "OUE", "SUE", "THE", "SS", "OLH", "BLH", "HR", "HR4"]


@pytest.mark.parametrize("name", FAITHFUL)
@pytest.mark.parametrize(("k", "epsilon"), [(4, 0.5), (14, 1), (100, 2)])
def test_the_empirical_error_is_the_closed_form(all_oracles, name, k, epsilon):
    check_empirical_error(all_oracles[name](k, epsilon), f"{name} {k}")


@pytest.mark.long
@pytest.mark.parametrize("name", FAITHFUL)
@pytest.mark.parametrize("k", [4, 14, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
def test_the_empirical_error_is_the_closed_form_everywhere(all_oracles, name, k, epsilon):
    check_empirical_error(all_oracles[name](k, epsilon), f"{name} {k} {epsilon} long")


def check_coverage(oracle, label):
    """Intervals from the estimates alone hold the truth in about 95 of 100 cases."""
    k, size, runs = oracle.k, 4_000, max(50, 6_000 // oracle.k)
    codes = zipf_codes(k, size, SeededSource("codes"))
    counts = np.bincount(codes, minlength=k)
    covered = 0
    for run in range(runs):
        estimate = oracle.estimate(oracle.tally(oracle.report(codes, SeededSource("cover", label, run))), size)
        reach = 1.959964 * np.sqrt(oracle.variance(estimate, size))
        covered += int((abs(estimate - counts) <= reach).sum())
    assert 0.93 <= covered / (runs * k) <= 0.97


@pytest.mark.parametrize("name", FAITHFUL)
def test_intervals_cover_the_truth(all_oracles, name):
    check_coverage(all_oracles[name](100, 1.5), name)


@pytest.mark.long
@pytest.mark.parametrize("name", FAITHFUL)
@pytest.mark.parametrize("k", [4, 14, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
def test_intervals_cover_the_truth_everywhere(all_oracles, name, k, epsilon):
    check_coverage(all_oracles[name](k, epsilon), f"{name} {k} {epsilon}")


# Parameters.


@each("epsilon", [1e7, 1e300, 10**400, Fraction(10**400), np.float32(1e9), np.int64(10**9), 1000])
def test_huge_requests_are_cut_at_once(make_oracle, epsilon):
    start = time.perf_counter()
    oracle = make_oracle(6, epsilon)
    assert time.perf_counter() - start < 1
    assert oracle.parameters() == make_oracle(6, 1000).parameters()
    assert 0 < oracle.epsilon < 100


@each("epsilon", [Fraction(1, 3), 1, np.float64(0.3), np.float32(0.3), np.float16(0.3), np.int8(2), np.uint64(3)])
def test_epsilon_may_be_any_number(make_oracle, epsilon):
    exact = Fraction(epsilon.item() if isinstance(epsilon, np.generic) else epsilon)
    oracle = make_oracle(6, epsilon)
    assert oracle.worst_ratio <= exp_bounds(exact)[0]
    assert oracle.parameters() == make_oracle(6, exact).parameters()


@each("epsilon", [1e-300, 5e-324, Fraction(1, 10**400)])
def test_tiny_requests_give_no_information_and_no_crash(make_oracle, all_reports, epsilon):
    oracle = make_oracle(6, epsilon)
    assert oracle.worst_ratio == 1
    assert oracle.epsilon == 0
    assert oracle.mean_squared_error == math.inf
    codes = np.arange(6, dtype=np.uint8)
    reports = oracle.report(codes, SecureSource())
    tally = oracle.tally(reports)
    assert np.isnan(oracle.estimate(tally, 6)).all()
    assert np.isnan(oracle.unbiased(reports)).all()
    assert np.isinf(oracle.variance(codes, 6)).all()
    assert np.isinf(oracle.second_moments()).all()
    assert np.isnan(oracle.maximum_likelihood(tally, 6, reports)).all()


@each(
    "k, epsilon, error",
    [
        (1, 1, ValueError),
        (0, 1, ValueError),
        (2**32, 1, ValueError),
        (4.0, 1, TypeError),
        (True, 1, TypeError),
        (np.True_, 1, TypeError),
        ("4", 1, TypeError),
        (4, 0, ValueError),
        (4, -1, ValueError),
        (4, -(10**400), ValueError),
        (4, float("nan"), ValueError),
        (4, math.inf, ValueError),
        (4, "1", TypeError),
        (4, True, TypeError),
        (4, [1], TypeError),
    ],
)
def test_parameters_out_of_range_are_refused(make_oracle, k, epsilon, error):
    with pytest.raises(error):
        make_oracle(k, epsilon)


def test_sizes_may_be_integers_of_numpy(make_oracle):
    assert make_oracle(np.int16(6), 1.0).parameters() == make_oracle(6, 1.0).parameters()


@given(st.fractions(Fraction(1, 10**30), 50), st.fractions(1, 100))
def test_the_lie_is_the_least_that_keeps_the_promise(epsilon, weight):
    lie = lie_threshold(epsilon, weight)
    low, high = exp_bounds(epsilon)
    assert 1 <= lie <= ONE
    assert 1 + weight * Fraction(ONE - lie, lie) <= low
    assert lie == 1 or 1 + weight * Fraction(ONE - lie + 1, lie - 1) > high


def test_the_cap_is_beyond_what_can_be_achieved():
    assert capped_epsilon(700.5) == Fraction(1401, 2)
    assert exp_bounds(MOST_EPSILON)[0] > ONE**8


def test_parameters_are_plain(make_oracle):
    """They go into JSON, and distinguish every choice that matters."""
    parameters = make_oracle(6, 1.0).parameters()
    assert all(type(value) in (str, int) for value in parameters.values())
    assert parameters["k"] == 6
    assert make_oracle(7, 1.0).parameters() != parameters != make_oracle(6, 1.1).parameters()


# How reports look.

ALL = {
    name: (make, fields, state)
    for name, make, fields, state in (
        ("GRR", RandomizedResponse, [""], "value"),
        ("OUE", UnaryEncoding, [*"abcdef"], "value"),
        ("SS", SubsetSelection, [*"abcdef"], "value"),
        ("OLH", LocalHashing, ["seed", "bucket"], "bucket"),
        ("HR", HadamardResponse, [""], "value"),
        ("sketch", CountMeanSketch, ["function", "index"], "value"),
        ("L-GRR", lambda k, epsilon: two_rounds(RandomizedResponse(k, 2 * epsilon), epsilon), [""], "value"),
        ("L-OSUE", lambda k, epsilon: two_rounds(UnaryEncoding(k, 2 * epsilon), epsilon), [*"abcdef"], "value"),
        ("LOLOHA", lambda k, epsilon: two_rounds(LocalHashing(k, 2 * epsilon), epsilon), ["seed", "bucket"], "bucket"),
    )
}


@each("name", ALL)
def test_each_oracle_tells_how_its_reports_look(name):
    make, fields, state = ALL[name]
    oracle = make(6, 1.0)
    assert oracle.fields("abcdef") == fields
    assert oracle.width == len(fields)
    assert oracle.has_bits == (len(fields) == 6)
    assert oracle.state == state
    assert oracle.n_states(7) == (oracle.n_buckets if state == "bucket" else 7)


@each("dtype", [np.int64, np.uint64, np.int32])
@each("name", ALL)
def test_columns_of_whole_numbers_are_read_as_reports(name, dtype):
    oracle = ALL[name][0](6, 1.0)
    reports = oracle.report((np.arange(600) % 6).astype(np.uint8), SeededSource(name))
    if dtype == np.int32 and reports.max() > np.iinfo(np.int32).max:
        return
    read = oracle.read(reports.reshape(600, -1).astype(dtype))
    assert np.array_equal(read, reports)
    assert oracle.tally(read).tolist() == oracle.tally(reports).tolist()
    assert len(oracle.read(np.empty((0, oracle.width), dtype))) == 0


@each("name", ALL)
def test_booleans_and_lists_are_read_as_zeros_and_ones(name):
    oracle = ALL[name][0](2, 1.0)
    block = np.array([[False, True], [True, True]])[:, : oracle.width]
    assert np.array_equal(oracle.read(block), oracle.read(block.astype(int)))
    assert np.array_equal(oracle.read(block), oracle.read(block.astype(int).tolist()))


@each("number", [-1, 1 << 63, 5_000])
@each("name", ALL)
def test_numbers_that_no_report_has_are_refused(name, number):
    oracle = ALL[name][0](6, 1.0)
    block = np.zeros((3, oracle.width), np.int64 if number < 0 else np.uint64)
    block[1, -1] = number
    with pytest.raises(ValueError, match=r"not (ones|those) of this|zeros and ones|between 0 and"):
        oracle.read(block)


@each("name", ALL)
def test_blocks_of_another_shape_or_type_are_refused(name):
    oracle = ALL[name][0](6, 1.0)
    for block in (np.zeros((3, oracle.width + 1), int), np.zeros(3, int), np.zeros((3, oracle.width))):
        with pytest.raises(ValueError, match="reports must be whole numbers of shape"):
            oracle.read(block)


@each("name", ALL)
def test_the_report_without_noise_supports_the_value_alone(name):
    oracle, codes = ALL[name][0](6, 1.0), np.arange(6, dtype=np.uint8)
    assert oracle.is_encodable == (name in ("GRR", "OUE", "SS", "L-GRR", "L-OSUE"))
    if oracle.is_encodable:
        assert oracle.supports(oracle.encode(codes)).tolist() == np.eye(6, dtype=bool).tolist()
        with pytest.raises(ValueError, match="codes must be"):
            oracle.encode(codes + 1)
    else:
        with pytest.raises(ValueError, match=f"{type(oracle).__name__} has no encoding without noise"):
            oracle.encode(codes)


# Reports.

DTYPES = [np.uint8, np.uint16, np.uint32, np.uint64, np.int16, np.int64]


@given(st.data())
@settings(max_examples=60)
def test_every_report_is_accepted_and_alike_whatever_the_dtype(all_oracles, data):
    name = data.draw(st.sampled_from(sorted(all_oracles)))
    k, epsilon = data.draw(st.integers(2, 200)), data.draw(st.floats(1e-3, 50))
    codes = np.array(data.draw(st.lists(st.integers(0, k - 1), max_size=40)), np.uint8)
    oracle = all_oracles[name](k, epsilon)
    key = data.draw(st.integers(0, 9))
    reports = oracle.report(codes, SeededSource(key))
    assert len(reports) == codes.size
    assert reports.shape[1:] == (() if oracle.width == 1 else (oracle.width,))
    tally = oracle.tally(reports)
    assert tally.shape == (k,)
    assert oracle.supports(reports).shape == (codes.size, k)
    other = codes.astype(data.draw(st.sampled_from(DTYPES)))[::1]
    assert (oracle.report(other, SeededSource(key)) == reports).all()
    spaced = np.repeat(codes, 2)[::2]
    assert (oracle.report(spaced, SeededSource(key)) == reports).all()


def test_the_codes_are_left_alone(make_oracle):
    codes = np.arange(6, dtype=np.uint8)
    codes.setflags(write=False)
    make_oracle(6, 0.1).report(codes, SecureSource())


class NoSource:
    def bytes(self, size):
        raise AssertionError("bytes were drawn")


@each(
    "codes",
    [
        np.array([0, 6], np.uint8),
        np.array([0, 255], np.uint8),
        np.array([-1, 2]),
        np.array([2**32]),
        np.array([0.0, 1.0]),
        np.array([np.nan]),
        np.array([[0], [1]]),
        np.array(3),
        np.array([True, False]),
        np.array(["0"]),
        np.array([None]),
    ],
)
def test_codes_that_cannot_be_hidden_are_refused_before_a_draw(make_oracle, codes):
    with pytest.raises(ValueError, match="codes must be"):
        make_oracle(6, 1.0).report(codes, NoSource())


@pytest.mark.parametrize(("make", "itemsize"), [(LocalHashing, 8), (CountMeanSketch, 4)])
def test_the_size_of_hashed_reports_counts_bytes(make, itemsize, monkeypatch):
    monkeypatch.setattr("skdp.oracles._support.MAX_REPORT_BYTES", 2 * itemsize * 10)
    oracle = make(6, 1.0)
    assert oracle.report(np.zeros(10, np.uint8), SecureSource()).nbytes == 2 * itemsize * 10
    with pytest.raises(ValueError, match=rf"11 reports of 2 cells would need {2 * itemsize * 11} bytes"):
        oracle.report(np.zeros(11, np.uint8), NoSource())


@pytest.mark.parametrize("name", ["OUE", "SUE", "THE", "SS"])
def test_bits_beyond_the_memory_are_refused_with_their_size(all_oracles, monkeypatch, name):
    with pytest.raises(ValueError, match="20,000 reports of 1,000,000 cells would need 20,000,000,000 bytes"):
        all_oracles[name](1_000_000, 1.0).report(np.zeros(20_000, np.uint32), NoSource())
    monkeypatch.setattr("skdp.oracles._support.MAX_REPORT_BYTES", 60)
    oracle = all_oracles[name](6, 1.0)
    assert oracle.report(np.zeros(10, np.uint8), SecureSource()).shape == (10, 6)
    with pytest.raises(ValueError, match="11 reports of 6 cells would need 66 bytes"):
        oracle.report(np.zeros(11, np.uint8), NoSource())


@pytest.mark.parametrize(
    ("make", "estimates"),
    [
        (LocalHashing, False),  # an estimate costs n k hashes
        (HadamardResponse, True),
        pytest.param(CountMeanSketch, True, marks=pytest.mark.long),
        pytest.param(RandomizedResponse, True, marks=pytest.mark.long),
    ],
)
def test_a_million_values_fit(make, estimates):
    k, n = 1_000_000, 20_000
    codes = np.zeros(n, np.uint32)
    codes[5_000:] = np.arange(n - 5_000) * 66
    tracemalloc.start()
    oracle = make(k, 4.0)
    reports = oracle.report(codes, SeededSource("million"))
    if estimates:
        counts = oracle.estimate(oracle.tally(reports), n)
        assert abs(counts[0] - 5_001) < 6 * math.sqrt(oracle.variance(np.r_[5_001, np.ones(k - 1) / 67], n)[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 << 20


def test_local_hashing_counts_any_values_of_a_large_domain():
    oracle = LocalHashing(1_000_000, 4.0)
    codes = np.full(2_000, 123_456, np.uint32)
    reports = oracle.report(codes, SeededSource("large"))
    buckets = oracle.hash_family(reports[:, :1], np.array([123_456, 999_999]))
    own, other = (buckets == reports[:, 1:]).mean(axis=0)
    assert own == pytest.approx(float(oracle.p), abs=0.06)
    assert other == pytest.approx(float(oracle.q), abs=0.03)


# Maximum likelihood.


def log_likelihood(oracle, reports, frequencies):
    marks = oracle.supports(reports)
    return float(np.log(1 + float(oracle.support_ratio - 1) * (marks @ frequencies)).sum())


@pytest.mark.parametrize("epsilon", often([0.3, 1.0, 3.0], [1.0]))
def test_the_likeliest_counts(make_oracle, epsilon):
    oracle = make_oracle(3, epsilon)
    codes = np.repeat(np.arange(3, dtype=np.uint8), [160, 40, 0])
    reports = oracle.report(codes, SeededSource("likely"))
    found = FrequencyOracle.maximum_likelihood(oracle, oracle.tally(reports), 200, reports)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(200)
    grid = np.linspace(0, 1, 21)
    points = [(a, b, max(0.0, 1 - a - b)) for a in grid for b in grid if a + b <= 1 + 1e-9]
    start = max(points, key=lambda point: log_likelihood(oracle, reports[::10], np.array(point)))
    best = minimize(
        lambda point: -log_likelihood(oracle, reports, np.array(point)),
        start,
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda point: point.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert log_likelihood(oracle, reports, found / 200) >= -best.fun - 2e-3


@each("k, epsilon", [(2, 1.0), (5, 0.5), (14, 1.0), (30, 3.0)])
def test_updates_find_the_closed_form(k, epsilon):
    oracle = RandomizedResponse(k, epsilon)
    n = 5_000
    reports = oracle.report(zipf_codes(k, n, SeededSource(2)), SeededSource("closed"))
    tally = oracle.tally(reports)
    closed = oracle.maximum_likelihood(tally, n)
    updated = FrequencyOracle.maximum_likelihood(oracle, tally, n, reports)
    gap = log_likelihood(oracle, reports, closed / n) - log_likelihood(oracle, reports, updated / n)
    assert -1e-6 <= gap <= 1e-3
    assert updated == pytest.approx(closed, abs=0.1 * math.sqrt(n))


def test_the_likelihood_refuses_what_it_cannot_hold(monkeypatch):
    oracle = UnaryEncoding(20, 1.0)
    reports = oracle.report(np.zeros(100, np.uint8), SeededSource(0))
    with pytest.raises(ValueError, match="needs the reports"):
        oracle.maximum_likelihood(oracle.tally(reports), 100)
    monkeypatch.setattr("skdp.oracles._base.MAX_REPORT_BYTES", 8_000)
    with pytest.raises(ValueError, match=r"needs \d+,\d+ bytes"):
        oracle.maximum_likelihood(oracle.tally(reports), 100, reports)


def test_repeated_patterns_of_support_are_counted():
    """Of a few values there are few patterns, however many the reports are."""
    oracle = SubsetSelection(4, 1.0, subset_size=2)
    reports = oracle.report((np.arange(5_000) % 4).astype(np.uint8), SeededSource(0))
    patterns, repeats = oracle._distinct(reports)
    assert patterns.shape == (6, 4)
    assert repeats.sum() == 5_000
    assert (repeats @ patterns).tolist() == oracle.tally(reports).tolist()


@pytest.mark.parametrize("max_report_bytes", [3, 9])
def test_the_chosen_oracle_has_the_stated_error_for_many_reports(max_report_bytes):
    """A sketch was chosen: it stated .0028 and had .022, as its collisions do not average out."""
    k, n = 100_000, 500_000
    _, oracle = choose_oracle(k, 8.0, max_report_bytes=max_report_bytes)
    counts = np.where(np.arange(k) % 1_000 == 0, 5_000, 0)
    codes = np.repeat(np.arange(k, dtype=np.uint32), counts)
    found = oracle.estimate(oracle.tally(oracle.report(codes, SeededSource(0))), n)
    measured = ((found - counts) ** 2).mean() / n  # of 100,000 squares: known to some 0.5 %
    assert measured == pytest.approx(oracle.mean_squared_error, rel=0.05)
    assert oracle.variance(counts, n).mean() / n == pytest.approx(measured, rel=0.05)


def test_an_error_that_does_not_fall_is_taken_only_where_nothing_else_fits():
    assert choose_oracle(20_000_000, 8.0, max_report_bytes=3)[0] == "count_mean_sketch"
    for k in (10, 1_000, 100_000, 10_000_000):
        for epsilon in (0.5, 2.0, 8.0):
            assert choose_oracle(k, epsilon, max_report_bytes=4)[1].error_floor == 0


@pytest.mark.parametrize(
    ("k", "epsilon", "again", "message"),
    [
        ([4], 1.0, None, "k must be an integer, got list"),
        (4, [1.0], None, "epsilon must be a finite number > 0, got list"),
        (4, 1.0, [0.5], "epsilon must be a finite number > 0, got list"),
    ],
)
def test_what_is_no_number_is_named_before_a_choice(k, epsilon, again, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        choose_oracle(k, epsilon, again=again)


@each("k", [2, 3, 5])
def test_the_total_variation_is_that_of_the_channel(make_oracle, k):
    oracle = make_oracle(k, 0.8)
    found = [
        sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
        for channel in itertools.islice(oracle.channels(), 4)
        for one, other in itertools.combinations(channel, 2)
    ]
    assert max(found) <= oracle.variation
    if not oracle.shows_hash:
        assert max(found) == oracle.variation
    assert oracle.variation <= (oracle.worst_ratio - 1) / (oracle.worst_ratio + 1)
