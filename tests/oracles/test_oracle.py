"""Properties of every oracle, also of one without tighter defaults than the base class."""

import math
from fractions import Fraction
from itertools import combinations, islice

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skdp
from skdp.exact import exp_bounds, log_upper
from skdp.oracles import (
    FrequencyOracle,
    Optimal,
    RandomizedResponse,
    SquareWave,
    SubsetSelection,
    TwoRoundUnaryEncoding,
    UnaryEncoding,
    lie_threshold,
)
from skdp.randomness import ONE, SeededSource, draw_by_row
from tests.conftest import ScriptedSource
from tests.oracles.conftest import ORACLES, all_reports, check_channel, floats
from tests.oracles.outside_oracle import FlippedBits

SOME = [(2, 0.1), (3, 1.0), (5, 2.0), (6, 4.0)]
TWO_ROUNDS = {"two rounds": lambda k, epsilon: TwoRoundUnaryEncoding(UnaryEncoding(k, 2 * epsilon), epsilon)}


# Channel: privacy, draws, bias and variance, all exact.


def test_every_report_is_within_epsilon(make_oracle, epsilon):
    for k in (2, 3, 5):
        oracle = make_oracle(k, epsilon)
        for channel in islice(oracle.channels(), 4):
            assert all(len(row) == oracle.n_reports for row in channel)
            ratio = check_channel(oracle, channel, epsilon)
            assert oracle.shows_hash or ratio == oracle.worst_ratio
        assert oracle.epsilon == log_upper(oracle.worst_ratio)


SUBSETS = [SubsetSelection(k, 1.0, subset_size=size) for k, size in [(3, 2), (4, 1), (5, 1), (5, 2), (5, 4)]]
# By names of the registry, so that ``-k name`` selects the tests of an oracle.
DRAWN = {f"{name}-{k}": make(k, 1.3) for name, make in ORACLES.items() for k in (2, 3, 4)}
DRAWN |= {f"subset_selection-{oracle.k}-{oracle.subset_size}": oracle for oracle in SUBSETS}
DRAWN |= {"two_rounds": TwoRoundUnaryEncoding(UnaryEncoding(2, 2.0), 1.0)}


@pytest.mark.parametrize("oracle", DRAWN.values(), ids=DRAWN)
def test_report_follows_the_channel(oracle, exact_pmf):
    if type(oracle) is RandomizedResponse or oracle.shows_hash:
        return  # their own tests enumerate random words and hash functions
    reports = [tuple(np.ravel(report).tolist()) for report in all_reports(oracle)]
    for code, row in enumerate(oracle.channel()):
        pmf = exact_pmf(oracle, np.uint8(code))
        assert [pmf[report] for report in reports] == row


@pytest.mark.parametrize(("k", "epsilon"), SOME)
def test_estimates_are_unbiased_with_the_stated_variance(make_enumerated, k, epsilon):
    """The support of a value is a sum of independent terms, one per record."""
    oracle, counts = make_enumerated(k, epsilon), np.arange(k) ** 2
    channel, values = floats(oracle.channel()), oracle.unbiased(all_reports(oracle))
    assert channel @ values == pytest.approx(np.eye(k), abs=1e-9)
    squares = channel @ values**2
    assert oracle.variance(counts, counts.sum()) == pytest.approx(counts @ (squares - np.eye(k)), rel=1e-9)


@given(st.data())
def test_summed_variance_does_not_depend_on_the_data(data):
    k, epsilon = data.draw(st.integers(2, 40)), data.draw(st.floats(0.01, 10))
    counts = np.array(data.draw(st.lists(st.integers(0, 10**6), min_size=k, max_size=k)))
    n = int(counts.sum())
    for make in ORACLES.values():
        oracle = make(k, epsilon)
        assert oracle.variance(counts, n).sum() == pytest.approx(n * k * oracle.mean_squared_error, rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_pairs_of_values_are_supported_as_in_the_channel(make_enumerated, k):
    oracle = make_enumerated(k, 1.0)
    channel, supports = floats(oracle.channel()), oracle.supports(all_reports(oracle))
    own, other = oracle.pair_supports
    assert math.isnan(own) or own == pytest.approx(channel[0] @ (supports[:, 0] & supports[:, 1]))
    if k > 2:
        assert math.isnan(other) or other == pytest.approx(channel[0] @ (supports[:, 1] & supports[:, 2]))


GUESSED = {f"{name}-{epsilon}": make(5, epsilon) for name, make in ORACLES.items() for epsilon in (0.1, 1.0, 4.0)}
GUESSED |= {f"subset_selection-{size}": SubsetSelection(5, 1.0, subset_size=size) for size in range(1, 5)}
GUESSED |= {"two_rounds": TwoRoundUnaryEncoding(UnaryEncoding(5, 2.0), 0.7)}


@pytest.mark.parametrize("oracle", GUESSED.values(), ids=GUESSED)
def test_guess_accuracy_equals_the_channel(oracle):
    prior = np.array([0.1, 0.35, 0.05, 0.2, 0.3])
    if oracle.shows_hash:
        assert oracle.guess_accuracy(prior) is None
        return
    joint = floats(oracle.channel()) * prior[:, np.newaxis]
    assert oracle.guess_accuracy(prior) == pytest.approx(joint.max(axis=0).sum(), rel=1e-12)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_total_variation_is_bounded(make_oracle, k):
    oracle = make_oracle(k, 0.8)
    distances = [
        sum(abs(a - b) for a, b in zip(*rows, strict=True)) / 2
        for channel in islice(oracle.channels(), 4)
        for rows in combinations(channel, 2)
    ]
    default = (oracle.worst_ratio - 1) / (oracle.worst_ratio + 1)
    assert max(distances) <= oracle.variation <= default
    if not oracle.shows_hash and type(oracle).variation is not FrequencyOracle.variation:
        assert max(distances) == oracle.variation


@pytest.mark.parametrize("k", [2, 3, 9])
def test_shuffle_pair_has_the_largest_ratio(make_oracle, k):
    oracle = make_oracle(k, 1.3)
    pair, worst = oracle.shuffle_pair(), oracle.worst_ratio
    # Rounded up to 128 bits if only the ratio is known.
    assert worst <= pair.largest_ratio <= worst + Fraction(1, 1 << 120)
    if type(oracle).shuffle_pair is not FrequencyOracle.shuffle_pair:
        assert pair.largest_ratio == worst


# Parameters.


@pytest.mark.parametrize("epsilon", [1e7, 1e300, 10**400, Fraction(10**400), np.float32(1e9), np.int64(10**9), 1000])
def test_huge_epsilon_has_the_probabilities_of_a_large_epsilon(make_oracle, epsilon):
    oracle = make_oracle(6, epsilon)
    assert oracle.parameters() == make_oracle(6, 1000).parameters()
    assert 0 < oracle.epsilon < 100


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 3), 1, np.float64(0.3), np.float32(0.3), np.float16(0.3), np.int8(2), np.uint64(3)]
)
def test_epsilon_may_be_any_positive_number(make_oracle, epsilon):
    exact = Fraction(epsilon.item() if isinstance(epsilon, np.generic) else epsilon)
    oracle = make_oracle(np.int16(6), epsilon)
    assert oracle.worst_ratio <= exp_bounds(exact)[0]
    assert oracle.parameters() == make_oracle(6, exact).parameters()


# No integer over 2**64 is between the probability of a misreport and 1, so estimates would have no finite error.
TINY = [1e-300, 5e-324, Fraction(1, 10**400)]


def test_parameters_out_of_range_raise_an_error(make_oracle):
    for size in (1, 2**32, 4.0, np.True_, "4"):
        with pytest.raises(ValueError if type(size) is int else TypeError):
            make_oracle(size, 1)
    for loss in (0, -(10**400), math.nan, math.inf, "1", True, *TINY):
        with pytest.raises((TypeError, ValueError), match=r"`epsilon` must be (a finite number > 0|larger)"):
            make_oracle(4, loss)


@pytest.mark.parametrize("oracle", [UnaryEncoding(17, 1), SubsetSelection(40, 1)])
def test_channel_of_too_many_reports_raises_an_error(oracle):
    with pytest.raises(ValueError, match="`channel` supports at most"):
        oracle.channel()


def test_parameters_are_plain_json_values(make_oracle):
    """Parameters are written as JSON, and distinguish all oracles that differ."""
    parameters = make_oracle(6, 1.0).parameters()
    assert all(type(value) in (str, int) for value in parameters.values())
    assert parameters["k"] == 6
    assert make_oracle(7, 1.0).parameters() != parameters != make_oracle(6, 1.1).parameters()


# Reports.


CODES = [*map(np.array, ([[0], [1]], 3, [-1, 2], [2**32], [0.0, np.nan], [True, False], ["0"], [None]))]


def test_codes_out_of_range_raise_before_drawing(make_oracle):
    for codes in (np.array([0, 6], np.uint8), np.array([0, 255], np.uint8), *CODES):
        with pytest.raises(ValueError, match="`codes` must be"):
            make_oracle(6, 1.0).report(codes, ScriptedSource())


@pytest.mark.parametrize("make", [*ORACLES.values(), Optimal, SquareWave], ids=[*ORACLES, "optimal", "square_wave"])
def test_number_of_bytes_does_not_depend_on_the_codes(make):
    """For each code, the same bytes give a report, and the following bytes are equal; so the time is, too."""
    oracle, positions = make(5, 1.0), set()
    for code in range(5):
        source = SeededSource("bytes")
        oracle.report(np.full(1_000, code, np.uint8), source)
        positions.add(source.bytes(8).tobytes())
    assert len(positions) == 1


DTYPES = [np.uint8, np.uint16, np.uint32, np.uint64, np.int16, np.int64]


@given(st.data())
@settings(max_examples=max(20, settings().max_examples))
def test_report_is_read_alike_in_every_dtype(data):
    make = ORACLES[data.draw(st.sampled_from(sorted(ORACLES)))]
    k, epsilon = data.draw(st.integers(2, 200)), data.draw(st.floats(1e-3, 50))
    codes = np.array(data.draw(st.lists(st.integers(0, k - 1), max_size=40)), np.uint8)
    codes.setflags(write=False)
    oracle, key = make(k, epsilon), data.draw(st.integers(0, 9))
    reports = oracle.report(codes, SeededSource(key))
    assert reports.shape == ((codes.size,) if oracle.width == 1 else (codes.size, oracle.width))
    assert oracle.tally(reports).shape == (k,)
    assert oracle.supports(reports).shape == (codes.size, k)
    others = codes.astype(data.draw(st.sampled_from(DTYPES))), np.repeat(codes, 2)[::2]
    assert all((oracle.report(other, SeededSource(key)) == reports).all() for other in others)


ALONE = [RandomizedResponse(2, 1.0), RandomizedResponse(255, 9.0), RandomizedResponse(1000, 2.0)]
ALONE += [SubsetSelection(k, 1.0) for k in (5, 40)]
ALONE += [make(steps, 0.5) for make in (Optimal, SquareWave) for steps in (3, 250)]


@pytest.mark.parametrize("oracle", ALONE, ids=lambda oracle: f"{type(oracle).__name__} {oracle.n_reports}")
def test_permanent_reports_of_a_batch_equal_reports_of_single_records(oracle):
    """Bit by bit, with further bytes for some records, and more records than one block."""
    n_rows = 4096 + 100
    digests = SeededSource("rows").bytes(32 * n_rows).reshape(n_rows, 32)
    codes = (np.arange(n_rows) % getattr(oracle, "steps", getattr(oracle, "k", None))).astype(np.uint16)
    reports = draw_by_row(oracle.report, digests, codes)
    for row in [*range(60), *range(4096 - 2, 4096 + 40)]:
        alone = draw_by_row(oracle.report, digests[[row]], codes[[row]])
        assert np.array_equal(alone[0], reports[row])
    assert len(np.unique(reports, axis=0)) > 1


@pytest.mark.parametrize("k", [2, 300])
@pytest.mark.parametrize("name", ["optimized_unary_encoding", "two rounds"])
def test_permanent_bits_equal_reports_of_single_records(name, k):
    oracle = (ORACLES | TWO_ROUNDS)[name](k, 1.0)
    digests = SeededSource("rows").bytes(32 * 150).reshape(150, 32)
    codes = (np.arange(150) % k).astype(np.uint16)
    reports = oracle.report_keyed(codes, codes.view(np.uint8), lambda purpose, values: digests)
    alone = [draw_by_row(oracle.report, digests[[row]], codes[[row]], head=0) for row in range(150)]
    assert reports.dtype == np.uint8
    np.testing.assert_array_equal(reports, np.concatenate(alone))


def test_tally_is_additive_over_reports(make_oracle):
    oracle = make_oracle(9, 1.0)
    reports = oracle.report((np.arange(1_000) % 9).astype(np.uint8), SeededSource("chunks"))
    tally = oracle.tally(reports)
    assert tally.dtype == np.int64
    assert sum(oracle.tally(part) for part in np.array_split(reports, 7)).tolist() == tally.tolist()
    assert oracle.tally(reports[:0]).tolist() == [0] * 9
    assert oracle.estimate(tally, 1_000) == pytest.approx(oracle.unbiased(reports).sum(axis=0), abs=1e-6)
    assert oracle.variance([-50, 1_100], 1_000).tolist() == oracle.variance([0, 1_000], 1_000).tolist()


def test_tally_counts_all_blocks_of_wide_reports():
    oracle = UnaryEncoding(1 << 16, 1.0)
    assert set(oracle.tally(np.ones((70, oracle.k), np.uint8))) == {70}


@pytest.mark.parametrize("name", [*ORACLES, *TWO_ROUNDS])
def test_whole_numbers_are_read_as_reports(name):
    oracle = (ORACLES | TWO_ROUNDS)[name](6, 1.0)
    fields = oracle.fields("abcdef")
    assert fields == ([*"abcdef"] if oracle.has_bits else list(oracle.field_names))
    assert oracle.width == len(fields)
    reports = oracle.report((np.arange(600) % 6).astype(np.uint8), SeededSource(name))
    for dtype in (np.int64, np.uint64):
        read = oracle.read(reports.reshape(600, -1).astype(dtype))
        assert np.array_equal(read, reports)
        assert oracle.tally(read).tolist() == oracle.tally(reports).tolist()
        assert len(oracle.read(np.empty((0, oracle.width), dtype))) == 0
    block = reports[:2].astype(bool) if oracle.has_bits else np.ones((2, oracle.width), bool)
    assert np.array_equal(oracle.read(block), oracle.read(block.astype(int).tolist()))
    for other in (np.zeros((3, oracle.width + 1), int), np.zeros(3, int), np.zeros((3, oracle.width))):
        with pytest.raises(ValueError, match="`reports` must be integers of shape"):
            oracle.read(other)
    largest = 1 if oracle.has_bits else oracle.n_reports - 1
    for number in (-1, largest + 1, 1 << 63):
        block = np.zeros((3, oracle.width), np.int64 if number < 0 else np.uint64)
        block[1, -1] = number
        with pytest.raises(ValueError, match=r"must be integers|seeds of this hash|only 0 and 1|`codes` must be"):
            oracle.read(block)


def test_report_without_noise_supports_its_value_only(make_oracle):
    oracle, codes = make_oracle(6, 1.0), np.arange(6, dtype=np.uint8)
    if oracle.is_encodable:
        assert oracle.supports(oracle.encode(codes)).tolist() == np.eye(6, dtype=bool).tolist()
        with pytest.raises(ValueError, match="`codes` must be"):
            oracle.encode(codes + 1)
    else:
        with pytest.raises(ValueError, match=f"{type(oracle).__name__} has no encoding without noise"):
            oracle.encode(codes)


@pytest.mark.parametrize("weight", [1, 2, Fraction(7, 3), 1000])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**15), 1e-9, 0.5, Fraction(3, 2), 20.0, 10**400])
def test_misreport_probability_is_the_smallest_within_epsilon(epsilon, weight):
    """A report that supports the value is ``1 + w (1 - l) / l`` times likelier: at most e^epsilon."""
    threshold = lie_threshold(epsilon, weight)
    assert type(threshold) is int
    assert 1 <= threshold <= ONE

    def ratio(lies):
        return 1 + weight * Fraction(ONE - lies, lies)

    # No coin can use more than e^1000.
    lower, _ = exp_bounds(min(epsilon, 1000))
    assert ratio(threshold) <= lower
    assert threshold == 1 or ratio(threshold - 1) >= lower


@pytest.mark.parametrize("memoize", [False, True])
def test_registered_oracle_is_an_encoder(monkeypatch, memoize):
    """An oracle of another package gets permanent reports by its registration alone."""
    monkeypatch.setitem(skdp.oracles.ORACLES, "outside", FlippedBits)
    k, n = 5, 1_600
    codes = np.repeat(np.arange(k), [n // 2, n // 4, n // 8, n // 16, n // 16])
    frame = pd.DataFrame({"x": codes})
    given = {"memoize": True, "secret_key": skdp.SecretKey(bytes(16))} if memoize else {"random_state": 0}
    encoder = skdp.FrequencyOracleEncoder(1.0, oracle="outside", categories={"x": range(k)}, **given).fit(frame)
    reports = encoder.transform(frame, person=list(range(n)) if memoize else None)
    assert list(reports) == [f"x_{value}" for value in range(k)]
    estimate = encoder.estimate_counts(reports)
    assert (abs(estimate["count"] - np.bincount(codes)) < 5 * estimate["std_error"]).all()
