"""Guarantees of the shuffled model, against all outcomes of all tables, and against what an attacker attains."""

import math
import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

from skdp import RandomizedResponseEncoder
from skdp.exact import exp_bounds
from skdp.oracles import ORACLES, RandomizedResponse
from skdp.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    Shuffled,
    compose,
    gaussian_delta,
    local_epsilon,
    privacy_statement,
    shuffled_guarantee,
)
from skdp.privacy.shuffle import ReportPair, any_pair
from tests.conftest import each, often
from tests.privacy.shuffle_exact import AllTables, attained_delta

PARTS = 0.01, 0.3, 0.6, 0.9
"""Of the local epsilon: delta is from about the largest one to next to 0."""


class Given:
    """An oracle that is known by a pair only."""

    def __init__(self, pair):
        self.pair = pair
        self.epsilon = math.log(max(pair.worst_ratio, pair.swapped().worst_ratio)) + 1e-9

    def shuffle_pair(self):
        return self.pair


def is_kept(promise, tables):
    """Return whether the exact delta at the promised epsilon is as promised."""
    return tables.delta(exp_bounds(promise.epsilon)[0]) <= Fraction(promise.delta) + Fraction(1, 10**60)


@pytest.mark.parametrize(
    ("k", "n"),
    [(2, 1), (2, 2), (2, 3), (2, 5), (2, 8), (3, 2), (3, 3), (3, 4), (4, 2), (4, 3)]
    + [pytest.param(k, n, marks=pytest.mark.long) for k, n in [(3, 5), (3, 6), (3, 7), (3, 8), (4, 4), (4, 5), (4, 6)]],
)
@pytest.mark.parametrize("epsilon", often([0.3, 1.0, 3.0], [1.0]))
def test_no_table_of_others_reveals_more_than_is_promised(k, n, epsilon):
    oracle = RandomizedResponse(k, epsilon)
    tables = AllTables(oracle.channel(), n)
    for part in PARTS:
        assert tables.is_bounded(oracle.shuffle_pair(), part * epsilon)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("delta", [0.3, 0.02, 1e-3])
def test_the_epsilon_of_a_delta_is_kept(k, delta):
    oracle = RandomizedResponse(k, 1.0)
    assert is_kept(shuffled_guarantee(oracle, 4, delta), AllTables(oracle.channel(), 4))


def test_a_smaller_epsilon_would_be_broken():
    """The bound is what the others of two reports reveal: no formula that promises 1 % less passes the test above."""
    oracle = RandomizedResponse(3, 1.0)
    promise = shuffled_guarantee(oracle, 2, 0.1)
    assert not is_kept(replace(promise, epsilon=0.99 * promise.epsilon), AllTables(oracle.channel(), 2))


def test_a_larger_blanket_than_there_is_would_be_broken():
    oracle = RandomizedResponse(3, 1.0)
    wrong = ReportPair(tuple((a, b, m * Fraction(5, 4)) for a, b, m in oracle.shuffle_pair().classes))
    promise = shuffled_guarantee(Given(wrong), 4, 0.05)
    assert not is_kept(promise, AllTables(oracle.channel(), 4))


def test_the_published_pair_is_no_upper_bound_but_this_one_is():
    # n = 4, k = 3: the others hold the value itself and twice the third one.
    oracle = RandomizedResponse(3, 1.0)
    ratio = exp_bounds(0.5)[0]
    worst = AllTables(oracle.channel(), 4).delta(ratio)
    published = attained_delta(float(oracle.p), float(oracle.q), 3, 4, float(ratio))
    assert (round(published, 5), round(float(worst), 5)) == (0.06994, 0.07079)
    assert shuffled_guarantee(oracle, 4, published).epsilon > 0.5


@pytest.mark.parametrize("swapped", [False, True])
def test_the_two_values_of_a_pair_may_differ_in_what_they_reveal(swapped):
    channel = [[Fraction(6, 10), Fraction(3, 10), Fraction(1, 10)], [Fraction(2, 10), Fraction(3, 10), Fraction(5, 10)]]
    pair = ReportPair(tuple((first, second, min(first, second)) for first, second in zip(*channel, strict=True)))
    for n in (2, 3):
        tables = AllTables(channel, n)
        for epsilon in (0.1, 0.5, 1.0, 1.4):
            assert tables.is_bounded(pair.swapped() if swapped else pair, epsilon)


@each("seed", range(6))
def test_any_local_randomiser_is_bounded_by_its_epsilon_alone(seed):
    numbers = np.random.default_rng(seed).integers(1, 12, (3, 3))
    channel = [[Fraction(int(entry), int(row.sum())) for entry in row] for row in numbers]
    ratio = max(a / b for one in channel for other in channel for a, b in zip(one, other, strict=True))
    tables, pair = AllTables(channel, 4), ReportPair.of_any(ratio)
    for part in PARTS:
        assert tables.is_bounded(pair, part * math.log(ratio))


def test_parts_that_stay_together_are_bounded_for_all_pairs_of_records():
    one, other = RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.7)
    channel = [[a * b for a in row for b in column] for row in one.channel() for column in other.channel()]
    pair = ReportPair.product([one.shuffle_pair(), other.shuffle_pair()])
    tables = AllTables(channel, 3)
    for part in PARTS:
        assert tables.is_bounded(pair, part * math.log(pair.worst_ratio))


def test_a_report_of_one_part_is_bounded_for_all_pairs_of_records():
    one, other = RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.7)
    half = Fraction(1, 2)
    channel = [[half * a for a in (*row, *column)] for row in one.channel() for column in other.channel()]
    pair = ReportPair.mixed([(half, one.shuffle_pair()), (half, other.shuffle_pair())])
    tables = AllTables(channel, 3)
    for part in PARTS:
        assert tables.is_bounded(pair, part * math.log(pair.worst_ratio))


@pytest.mark.parametrize("k", [3, 30])
@pytest.mark.parametrize("epsilon", [0.2, pytest.param(1.0, marks=pytest.mark.long), 4.0])
@pytest.mark.parametrize("n", [1_000, 45_222, pytest.param(10**7, marks=pytest.mark.long)])
@pytest.mark.parametrize("delta", [1e-6, pytest.param(1e-9, marks=pytest.mark.long)])
def test_randomised_response_is_nearly_attained(k, epsilon, n, delta):
    few_lies = n * (k - 1) / (math.exp(epsilon) + k - 1) < 40  # between this test and the next
    assert_attained(k, epsilon, n, delta, 1.011 if few_lies else 1.004)


@pytest.mark.parametrize("lies", often([5, 10, 15, 20, 30], [5, 30]))
@pytest.mark.parametrize("k", [3, 5, 8, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("n", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("delta", [1e-6, pytest.param(1e-9, marks=pytest.mark.long)])
def test_randomised_response_of_hardly_hidden_records_is_within_3_percent_of_what_is_attained(k, lies, n, delta):
    assert_attained(k, math.log(n * (k - 1) / lies - k + 1), n, delta, 1.03)


def assert_attained(k, epsilon, n, delta, ratio):
    """Check that an attacker attains what is proven, and not less by more than a ratio."""
    oracle = RandomizedResponse(k, epsilon)
    bound = shuffled_guarantee(oracle, n, delta).epsilon
    attained = partial(attained_delta, float(oracle.p), float(oracle.q), k, n)
    assert attained(math.exp(bound)) <= delta * (1 + 1e-9)
    assert attained(math.exp(bound / ratio)) > delta


@each("k, n", [(3, 5), (4, 4), (5, 3)])
@each("epsilon", [0.5, 4.0])
def test_the_attacker_of_others_with_one_value_is_exact(k, n, epsilon):
    oracle = RandomizedResponse(k, epsilon)
    tables = AllTables(oracle.channel(), n, alike=True)
    for share in (0.1, 0.5, 0.9):
        ratio = exp_bounds(share * epsilon)[0]
        exact = float(tables.delta(ratio))
        assert attained_delta(float(oracle.p), float(oracle.q), k, n, float(ratio)) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.2, pytest.param(1.0, marks=pytest.mark.long), 4.0])
@pytest.mark.parametrize("n", often([1_000, 45_222, 10**7], [45_222]))
def test_two_values_are_within_5_percent_of_what_is_attained(epsilon, n):
    pair = RandomizedResponse(2, epsilon).shuffle_pair()
    # All others hold the first value too: their reports are a blanket of the same law.
    same = Given(ReportPair(tuple((a, b, a) for a, b, _ in pair.classes)))
    bound, attained = (shuffled_guarantee(one, n, 1e-6).epsilon for one in (Given(pair), same))
    assert attained / 1.001 <= bound <= 1.05 * attained
    assert bound < 0.98 * shuffled_guarantee(Given(replace(pair, two_valued=False)), n, 1e-6).epsilon


@pytest.mark.parametrize("n", [2, 5, 10, pytest.param(70, marks=pytest.mark.long)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_two_values_have_the_guarantee_of_the_worst_table(n, epsilon):
    oracle = RandomizedResponse(2, epsilon)
    order, p = math.exp(epsilon / 2), float(oracle.p)

    def divergence(first):  # if `first` of the others hold the first value
        zeros, ones = (
            stats.binom.pmf(range(first + 1), first, 1 - p),
            stats.binom.pmf(range(n - first), n - 1 - first, p),
        )
        law = np.convolve(zeros, ones)
        own, other = p - order * (1 - p), order * p - (1 - p)
        return np.maximum(own * np.append(law, 0) - other * np.append(0, law), 0).sum()

    worst = max(map(divergence, range(n)))
    assert worst * (1 - 1e-9) <= oracle.shuffle_pair().delta(n, epsilon / 2) <= worst * 1.001


@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize("epsilon", [0.001, 6.0, 10.0, 18.0, 30.0, 38.0, 200.0])
def test_two_values_whose_lies_are_rare_are_bounded_in_exact_fractions(n, epsilon):
    oracle = RandomizedResponse(2, epsilon)
    p, q, pair = oracle.p, 1 - oracle.p, oracle.shuffle_pair()

    def divergence(first, order):  # if `first` of the others hold the first value
        law = [Fraction(1)]
        for share in [q] * first + [p] * (n - 1 - first):
            law = [a * (1 - share) + b * share for a, b in zip([*law, 0], [0, *law], strict=True)]
        own, other = p - order * q, order * p - q
        return sum(max(own * a - other * b, 0) for a, b in zip([*law, 0], [0, *law], strict=True))

    for part in (0.1, 0.5, 0.9, 0.97, 1 - 1e-6, 1 - 1e-9):
        wanted = part * math.log(pair.worst_ratio)
        exact = max(divergence(first, exp_bounds(wanted)[1]) for first in range(n))
        assert exact <= Fraction(pair.delta(n, wanted)) <= exact * Fraction(101, 100) + Fraction(1, 10**9)


def test_many_parts_of_large_epsilons_have_a_finite_bound():
    pair = ReportPair.product(
        [RandomizedResponse(2 + place % 5, 10 + place / 1000).shuffle_pair() for place in range(20)]
    )
    assert 0 <= pair.delta(1000, 190.0) <= 1


@pytest.mark.parametrize(
    ("oracle", "n"), [(RandomizedResponse(2, 1.0), 8), (RandomizedResponse(3, 0.5), 4), (RandomizedResponse(2, 2.0), 6)]
)
def test_the_losses_dominate_all_tables(oracle, n):
    tables = AllTables(oracle.channel(), n)
    noise, failed = shuffled_guarantee(oracle, n, 0.3).losses
    for epsilon in np.linspace(0, oracle.epsilon, 60).tolist():
        stated = failed.delta + (1 - failed.delta) * gaussian_delta(noise.mu, epsilon)
        assert float(tables.delta(exp_bounds(epsilon)[0])) <= stated * (1 + 1e-9)


@pytest.mark.parametrize(("n_releases", "least"), [(10, 3), (100, 6)])
@pytest.mark.parametrize("k", [2, 4])
def test_several_releases_compose_by_their_losses(k, n_releases, least):
    promise = shuffled_guarantee(RandomizedResponse(k, 3.0), 45_222, 1e-6)
    stated, known = (
        compose([one] * n_releases, delta=1e-6 * n_releases).epsilon for one in (replace(promise, losses=()), promise)
    )
    assert known < stated / least
    assert known > promise.epsilon
    assert PrivacyGuarantee.from_json(promise.to_json()) == promise


def closed_form(epsilon, n, delta):
    """Return the bound of Feldman, McMillan and Talwar (2021), theorem 3.1."""
    assert epsilon <= math.log(n / (16 * math.log(2 / delta)))
    spread = 4 * math.sqrt(2 * math.log(4 / delta)) / math.sqrt((math.exp(epsilon) + 1) * n) + 4 / n
    return math.log(1 + math.expm1(epsilon) * spread)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(("epsilon", "n"), [(0.5, 2_000), (2.0, 5_000), (4.0, 45_222)])
def test_the_published_closed_form_never_beats_it(name, epsilon, n):
    oracle = ORACLES[name](5, epsilon)
    assert shuffled_guarantee(oracle, n, 1e-6).epsilon < closed_form(oracle.epsilon, n, 1e-6)


@pytest.mark.long
def test_it_falls_with_n_and_delta_and_grows_with_the_local_epsilon():
    def bound(epsilon=2.0, n=1_000, delta=1e-6):
        return shuffled_guarantee(RandomizedResponse(4, epsilon), n, delta).epsilon

    by_n = [bound(n=n) for n in (1, 100, 101, 10**6, 2**30)]
    by_delta = [bound(delta=delta) for delta in (0, 1e-9, 1.1e-9, 0.1)]
    by_epsilon = [bound(epsilon) for epsilon in (0.01, 2.0, 2.1, 40.0)]
    # To about one part in 10,000, by which the search changes an epsilon.
    for bounds in (by_n, by_delta, by_epsilon[::-1]):
        assert all(later <= earlier * 1.0002 for earlier, later in pairwise(bounds))
    assert bound(n=2**40) == bound(n=2**30)


def test_it_is_never_above_the_local_guarantee():
    oracle = RandomizedResponse(4, 6.0)
    few = shuffled_guarantee(oracle, 10, 1e-9)
    assert (few.epsilon, few.delta, few.trust) == (oracle.epsilon, 0.0, "shuffle")
    assert shuffled_guarantee(oracle, 10**6, 0) == shuffled_guarantee(oracle, 10**6, 0.0)
    assert shuffled_guarantee(oracle, 10**6, 0).epsilon == oracle.epsilon
    assert shuffled_guarantee(RandomizedResponse(4, 1.0), 10, 0.9).epsilon == 0


def test_the_largest_local_epsilon_reaches_what_is_asked_for():
    make = partial(RandomizedResponse, 4)
    found = local_epsilon(1.0, 1e-6, 45_222, make)
    assert found == pytest.approx(6.97, abs=0.01)
    assert 0.995 < shuffled_guarantee(make(found), 45_222, 1e-6).epsilon <= 1
    assert shuffled_guarantee(make(found * 1.001), 45_222, 1e-6).epsilon > 1
    assert local_epsilon(1.0, 1e-6, 1, make) == 1.0  # nobody else is there


@pytest.mark.parametrize("name", ORACLES)
def test_the_largest_local_epsilon_is_checked_for_every_oracle(name):
    make = partial(ORACLES[name], 6)
    found = local_epsilon(0.5, 1e-6, 10_000, make)
    assert found > 1
    assert shuffled_guarantee(make(found), 10_000, 1e-6).epsilon <= 0.5


@each("n", [1, 7, 60])
@each("epsilon", [0.2, 1.0, 2.5])
def test_the_bound_is_hardly_above_the_sum_over_all_blankets(n, epsilon):
    pair = RandomizedResponse(4, 3.0).shuffle_pair()
    mass, order = float(pair.classes[0][2]), math.exp(epsilon)
    gain, loss, rest = (float(a / m) - order * float(b / m) for a, b, m in pair.classes)
    own, other, third = np.array(np.meshgrid(*[np.arange(n + 1)] * 3)).reshape(3, -1)
    counts = np.stack([own, other, third, n - own - other - third])[:, own + other + third <= n]
    shares = np.array([mass, mass, 2 * mass, 1 - 4 * mass])
    exact = stats.multinomial.pmf(counts.T, n, shares) @ np.maximum(np.array([gain, loss, rest, 0]) @ counts, 0) / n
    assert exact * (1 - 1e-9) <= pair.delta(n, epsilon) <= exact * 1.01


@pytest.mark.long
@pytest.mark.parametrize(
    "columns",
    [
        [(4, 0.2 + 0.03 * place) for place in range(20)],
        pytest.param([(4, 0.5)] * 20, marks=pytest.mark.long),
        pytest.param([(2 + place, 0.5) for place in range(20)], marks=pytest.mark.long),
    ],
)
def test_many_columns_that_stay_together_are_bounded_in_a_moment(columns):
    pairs = [RandomizedResponse(k, epsilon).shuffle_pair() for k, epsilon in columns]
    start = time.process_time()
    found = shuffled_guarantee(Given(ReportPair.product(pairs)), 100_000, 1e-6).epsilon
    assert time.process_time() - start < 4  # under a second on an idle machine
    # With the worst randomiser of epsilon 10, it would be 2.6.
    assert found < 0.3
    assert shuffled_guarantee(Given(any_pair(10.0)), 100_000, 1e-6).epsilon > 2


def test_inverting_takes_less_than_a_second():
    start = time.process_time()
    local_epsilon(0.25, 1e-7, 10**8, partial(RandomizedResponse, 5))
    assert time.process_time() - start < 2  # under a second on an idle machine


def test_a_shuffled_guarantee_says_who_is_trusted():
    promise = shuffled_guarantee(RandomizedResponse(4, 4.0), 45_222, 1e-6)
    assert (promise.trust, promise.relation, promise.delta) == ("shuffle", "replace", 1e-6)
    assert promise.mechanism == "RandomizedResponse, shuffled from 45,222 reports"
    assert str(promise) == "epsilon = 0.17756, delta = 0.000001, shuffle model, replacing one record"
    assert "those who shuffle or sum the reports are trusted" in promise._repr_html_()
    assert PrivacyGuarantee.from_json(promise.to_json()) == promise
    assert "1.20 times as likely" in promise.in_odds()


def test_trust_of_several_releases_is_the_most_that_is_needed():
    local, central = PrivacyGuarantee(1.0), PrivacyGuarantee(1.0, trust="central")
    shuffled = PrivacyGuarantee(0.1, 1e-6, trust="shuffle")
    assert (local + shuffled).trust == (shuffled + local).trust == "shuffle"
    assert (central | shuffled).trust == compose([shuffled, central]).trust == "central"


@each(
    "changes error match",
    [
        ({"n": 0}, ValueError, "n must be at least 1, got 0"),
        ({"n": 10.0}, TypeError, "n must be an integer, got float"),
        ({"n": True}, TypeError, "n must be an integer, got bool"),
        ({"delta": 1.0}, ValueError, r"delta must be a number in \[0, 1\), got 1.0"),
        ({"delta": "1"}, TypeError, "delta must be"),
        ({"released": "all"}, ValueError, "released must be one of"),
        ({"reporter": object()}, TypeError, "reporter must be a fitted local transformer, its protocol, or an oracle"),
        ({"reporter": PrivacyGuarantee}, TypeError, "reporter must be"),
    ],
)
def test_what_is_out_of_range_is_refused(changes, error, match):
    given = {"reporter": RandomizedResponse(4, 1.0), "n": 100, "delta": 1e-6} | changes
    with pytest.raises(error, match=match):
        shuffled_guarantee(**given)


def test_a_wanted_guarantee_is_checked_when_it_is_stated():
    for wrong in ({"epsilon": 0}, {"delta": 0}, {"delta": 1}, {"n": 0}, {"released": "rows"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Shuffled(**({"epsilon": 1.0, "delta": 1e-6, "n": 100} | wrong))
    with pytest.raises(TypeError, match="reporter must be a fitted local transformer, or a function"):
        local_epsilon(1.0, 1e-6, 100, "randomized_response")


def test_pairs_must_be_probabilities():
    half = Fraction(1, 2)
    for classes in (((half, half, half),), ((half, half, Fraction(0)), (half, half, half)), ()):
        with pytest.raises(ValueError, match="classes"):
            ReportPair(classes)
    three = RandomizedResponse(3, 1.0).shuffle_pair()
    with pytest.raises(ValueError, match="two_valued needs one class and its mirror image"):
        ReportPair(three.classes, (three,), two_valued=True)
    with pytest.raises(ValueError, match="worst_ratio must be at least 1"):
        ReportPair.of_any(half)


class Summed(BaseEstimator):
    """An estimator whose guarantee is that of shuffled reports."""

    def fit(self, X, y=None):
        self.guarantee_ = replace(shuffled_guarantee(RandomizedResponse(4, 4.0), 45_222, 1e-6), scope=("sex",))
        self.feature_names_in_, self.n_features_in_ = np.array(["sex"], dtype=object), 1
        return self

    def transform(self, X):
        return X


def test_statements_and_ledgers_say_that_the_reports_are_shuffled(tmp_path):
    table = pd.DataFrame({"sex": ["f", "m"]})
    statement = privacy_statement(Summed().fit(table), table, trusted=[Summed])
    assert statement.total.trust == "shuffle"
    text = statement.to_json()
    assert "those who shuffle or sum the reports" in text
    assert "but not against those who see the reports before they are shuffled or summed" in text
    assert "only the local guarantee holds" in text
    assert type(statement).from_json(text).total == statement.total
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=1.0, delta=1e-5)
    ledger.charge(statement.total, "sums")
    assert PrivacyLedger(tmp_path / "ledger.sqlite").report()["trust"].tolist() == ["shuffle"]


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 40))])
def test_any_request_is_answered_by_what_was_checked(seed):
    # Few and many records, and deltas near both ends: the searches end, and what they find is as it is stated.
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(3, 40)), int(10 ** rng.uniform(0, 5))
    epsilon, delta = float(10 ** rng.uniform(-2, 1.2)), float(10 ** rng.uniform(-12, -0.3))
    oracle = RandomizedResponse(k, epsilon)
    promise = shuffled_guarantee(oracle, n, delta)
    assert 0 <= promise.epsilon <= oracle.epsilon
    if promise.delta:
        assert attained_delta(float(oracle.p), float(oracle.q), k, n, math.exp(promise.epsilon)) <= delta * (1 + 1e-9)
    local = local_epsilon(epsilon / 2, delta, n, partial(RandomizedResponse, k))
    assert local >= epsilon / 2
    assert shuffled_guarantee(RandomizedResponse(k, local), n, delta).epsilon <= epsilon / 2


class Told(RandomizedResponse):
    """A derived class that draws with another ratio, and inherits the pair."""

    worst_ratio = Fraction(2981)


def test_a_pair_that_shows_less_than_the_local_epsilon_is_not_believed():
    told, plain = Told(4, 1.0), RandomizedResponse(4, 1.0)
    assert shuffled_guarantee(told, 1000, 0.0).epsilon == told.epsilon
    assert shuffled_guarantee(told, 10**6, 1e-6).epsilon > 2 * shuffled_guarantee(plain, 10**6, 1e-6).epsilon


def test_what_is_no_reporter_or_number_of_reports_is_refused():
    loose = RandomizedResponse(2, 4.0)
    with pytest.raises(ValueError, match=r"n must be below 2\*\*63"):
        shuffled_guarantee(loose, 1 << 64, 1e-6)
    with pytest.raises(TypeError, match="fitted local transformer"):
        shuffled_guarantee(RandomizedResponse, 10, 1e-6)


def test_an_epsilon_that_hides_nothing_stays():
    far = replace(
        RandomizedResponseEncoder(4.0, categories=[["a", "b"]]).fit([["a"]]).guarantee_, epsilon=700.0, losses=()
    )
    assert shuffled_guarantee(BareReporter(far), 1000, 1e-6).epsilon == 700


class BareReporter:
    def __init__(self, guarantee):
        self.guarantee_ = guarantee


def test_permanent_reports_are_not_shuffled():
    """Two sums of the same reports differ by one."""
    given = {"categories": [["a", "b"]], "memoize": True, "secret_key": bytes(range(32))}
    fitted = RandomizedResponseEncoder(4.0, **given).fit([["a"]])
    with pytest.raises(ValueError, match="permanent reports"):
        shuffled_guarantee(fitted, 1000, 1e-6)
    with pytest.raises(ValueError, match="permanent reports"):
        RandomizedResponseEncoder(Shuffled(1.0, 1e-6, 1000), **given).fit([["a"]])
