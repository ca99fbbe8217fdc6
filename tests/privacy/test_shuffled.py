"""Guarantees of the shuffled model, compared with all outcomes of all tables, and with attained losses."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from skdp import HeavyHitters, RandomizedResponseEncoder
from skdp.exact import exp_bounds
from skdp.oracles import RandomizedResponse
from skdp.privacy import PrivacyGuarantee, ReportPair, compose, gaussian_delta, local_epsilon, shuffled_guarantee
from tests.conftest import often
from tests.privacy.shuffle_exact import AllTables, attained_delta

PARTS = 0.01, 0.3, 0.6, 0.9
"""Fractions of the local epsilon, at which delta is from about its largest value to nearly 0."""


SIZES = [(2, 1), (2, 2), (2, 3), (2, 5), (2, 8), (3, 2), (3, 3), (3, 4), (4, 2), (4, 3)]
LARGE = [(3, 5), (3, 6), (3, 7), (3, 8), (4, 4), (4, 5), (4, 6)]


@pytest.mark.parametrize("size", often(SIZES + LARGE, SIZES[::2]), ids=str)
@pytest.mark.parametrize("epsilon", often([0.3, 1.0, 3.0], [1.0]))
def test_no_table_of_other_records_exceeds_the_guarantee(size, epsilon):
    k, n = size
    oracle = RandomizedResponse(k, epsilon)
    tables = AllTables(oracle.channel(), n)
    for part in PARTS:
        assert tables.is_bounded(oracle.shuffle_pair(), part * epsilon)
    for delta in (0.3, 0.02, 1e-3):
        guarantee = shuffled_guarantee(oracle, n=n, delta=delta)
        assert tables.delta(exp_bounds(guarantee.epsilon)[0]) <= Fraction(guarantee.delta) + Fraction(1, 10**60)


@pytest.mark.parametrize("swapped", [False, True])
def test_values_of_a_pair_may_differ_in_their_loss(swapped):
    channel = [[Fraction(6, 10), Fraction(3, 10), Fraction(1, 10)], [Fraction(2, 10), Fraction(3, 10), Fraction(5, 10)]]
    rows = channel[::-1] if swapped else channel
    pair = ReportPair(tuple((first, second, min(first, second)) for first, second in zip(*rows, strict=True)))
    for n in (2, 3):
        tables = AllTables(channel, n)
        for epsilon in (0.1, 0.5, 1.0, 1.4):
            assert tables.is_bounded(pair, epsilon)


@pytest.mark.parametrize("seed", range(6))
def test_any_local_randomizer_is_bounded_by_its_epsilon(seed):
    numbers = np.random.default_rng(seed).integers(1, 12, (3, 3))
    channel = [[Fraction(int(entry), int(row.sum())) for entry in row] for row in numbers]
    ratio = max(a / b for one in channel for other in channel for a, b in zip(one, other, strict=True))
    tables, pair = AllTables(channel, 4), ReportPair.from_ratio(ratio)
    for part in PARTS:
        assert tables.is_bounded(pair, part * math.log(ratio))


@pytest.mark.parametrize("n", [1, 2, 60])
@pytest.mark.parametrize("part", [0, *PARTS, 1])
def test_bound_of_any_randomizer_is_the_report_among_its_clones(n, part):
    """[1]_: of the other records, Bin(n - 1, 1 / ratio) report a fair coin, and the record a coin with odds `ratio`.

    .. [1] V. Feldman, A. McMillan, K. Talwar (2023). Stronger privacy amplification by shuffling. SODA.
       arXiv:2208.04591
    """
    ratio = 3
    clones, heads = np.arange(n)[:, np.newaxis], np.arange(n + 1)
    coins = binom.pmf(clones, n - 1, 1 / ratio) * binom.pmf(heads, clones, 0.5)
    more_heads = np.roll(coins, 1, axis=1)
    first, second = ((ratio * one + other) / (ratio + 1) for one, other in ((more_heads, coins), (coins, more_heads)))
    exact = np.maximum(first - ratio**part * second, 0).sum()
    bound = ReportPair.from_ratio(Fraction(ratio)).delta(n, part * math.log(ratio))
    assert exact * (1 - 1e-9) - 1e-12 <= bound <= 1.02 * exact + 1e-9


@pytest.mark.parametrize("together", [False, True, "by ratio"])
def test_parts_are_bounded_for_all_pairs_of_records(together):
    """Reports of both parts, one of them possibly given by its ratio only, or of a random one of them."""
    one, other = RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.7)
    half, rows = Fraction(1, 2), itertools.product(one.channel(), other.channel())
    if together:
        channel = [[a * b for a in row for b in column] for row, column in rows]
        second = ReportPair.from_ratio(other.worst_ratio) if together == "by ratio" else other.shuffle_pair()
        pair = ReportPair.product([one.shuffle_pair(), second])
    else:
        channel = [[half * a for a in (*row, *column)] for row, column in rows]
        pair = ReportPair.mixture([(half, one.shuffle_pair()), (half, other.shuffle_pair())])
    tables = AllTables(channel, 3)
    for part in PARTS:
        assert tables.is_bounded(pair, part * math.log(pair.largest_ratio))


def test_grid_of_joint_reports_keeps_the_mean_of_each_ratio():
    pairs = [RandomizedResponse(k, epsilon).shuffle_pair() for k, epsilon in ((2, 1.0), (3, 0.7), (5, 0.31))]
    ratios = ReportPair.product(pairs).ratios
    for values in (ratios.first, ratios.second):
        assert ratios.masses @ values == pytest.approx(1, abs=1e-12)


class Columns:
    """Two columns with released sums only: each is shuffled separately."""

    oracles = RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.7)
    guarantee = PrivacyGuarantee(1.7)

    def shuffle_pairs(self, released):
        return tuple(oracle.shuffle_pair() for oracle in self.oracles)


@pytest.mark.parametrize("delta", [0.3, 0.1])
def test_separately_summed_columns_are_bounded_together(delta):
    guarantee = shuffled_guarantee(Columns(), n=3, delta=delta, released="tally")
    assert guarantee.epsilon < 1.5
    tables = [AllTables(oracle.channel(), 3) for oracle in Columns.oracles]
    ratio, total = float(exp_bounds(guarantee.epsilon)[0]), tables[0].total * tables[1].total
    for pmfs in itertools.product(*(each_table.pmfs for each_table in tables)):
        # For each value of either column, the distribution of the sums of both.
        joint = [
            {(a, b): p * q for (a, p), (b, q) in itertools.product(one.items(), other.items())}
            for one, other in itertools.product(*pmfs)
        ]
        for first, second in itertools.permutations(joint, 2):
            reached = sum(max(mass - ratio * second.get(key, 0), 0) for key, mass in first.items()) / total
            assert reached <= delta


ATTAINED = list(itertools.product([3, 30], [0.2, 1.0, 4.0], [1_000, 45_222, 10**7], [1e-6, 1e-9]))
QUICK = [(30, 0.2, 1_000, 1e-6), (3, 0.2, 45_222, 1e-6), (3, 4.0, 45_222, 1e-6)]


@pytest.mark.parametrize("case", often(ATTAINED, QUICK), ids=str)
def test_bound_of_randomized_response_is_nearly_attained(case):
    """An attack attains the proven epsilon up to a ratio, which is larger with few expected misreports."""
    k, epsilon, n, delta = case
    oracle = RandomizedResponse(k, epsilon)
    bound = shuffled_guarantee(oracle, n=n, delta=delta).epsilon
    n_misreports = n * (k - 1) / (math.exp(epsilon) + k - 1)
    ratio = 1.011 if n_misreports < 40 else 1.004
    attained = partial(attained_delta, float(oracle.p), float(oracle.q), k, n)
    assert attained(math.exp(bound)) <= delta * (1 + 1e-9)
    assert attained(math.exp(bound / ratio)) > delta


@pytest.mark.parametrize(("oracle", "n"), [(RandomizedResponse(3, 0.5), 4), (RandomizedResponse(2, 2.0), 6)])
def test_losses_dominate_all_tables(oracle, n):
    tables = AllTables(oracle.channel(), n)
    noise, failed = shuffled_guarantee(oracle, n=n, delta=0.3).losses
    for epsilon in np.linspace(0, oracle.epsilon, 60).tolist():
        stated = failed.delta + (1 - failed.delta) * gaussian_delta(noise.mu, epsilon)
        assert float(tables.delta(exp_bounds(epsilon)[0])) <= stated * (1 + 1e-9)


@pytest.mark.parametrize(("n_releases", "min_gain"), [(10, 3), (100, 6)])
@pytest.mark.parametrize("k", often([2, 4], [4]))
def test_several_releases_compose_by_their_losses(k, n_releases, min_gain):
    guarantee = shuffled_guarantee(RandomizedResponse(k, 3.0), n=45_222, delta=1e-6)
    stated, known = (
        compose([one] * n_releases, delta=1e-6 * n_releases).epsilon
        for one in (replace(guarantee, losses=()), guarantee)
    )
    assert known < stated / min_gain
    assert known > guarantee.epsilon
    assert PrivacyGuarantee.from_json(guarantee.to_json()) == guarantee
    assert (guarantee.trust, guarantee.relation, guarantee.delta) == ("shuffle", "replace", 1e-6)


def test_loss_is_at_most_the_local_guarantee():
    oracle = RandomizedResponse(4, 6.0)
    few = shuffled_guarantee(oracle, n=10, delta=1e-9)
    assert (few.epsilon, few.delta, few.trust) == (oracle.epsilon, 0.0, "shuffle")
    assert shuffled_guarantee(oracle, n=10**6, delta=0) == shuffled_guarantee(oracle, n=10**6, delta=0.0)
    assert shuffled_guarantee(oracle, n=10**6, delta=0).epsilon == oracle.epsilon
    assert shuffled_guarantee(RandomizedResponse(4, 1.0), n=10, delta=0.9).epsilon == 0


def test_largest_local_epsilon_is_within_the_requested_one():
    make = partial(RandomizedResponse, 4)
    found = local_epsilon(1.0, delta=1e-6, n=45_222, reporter=make)
    assert found == pytest.approx(6.97, abs=0.01)
    assert 0.995 < shuffled_guarantee(make(found), n=45_222, delta=1e-6).epsilon <= 1
    assert shuffled_guarantee(make(found * 1.001), n=45_222, delta=1e-6).epsilon > 1
    assert local_epsilon(1.0, delta=1e-6, n=1, reporter=make) == 1.0  # no other record


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"n": 0}, ValueError, "`n` must be at least 1, got 0"),
        ({"n": 10.0}, TypeError, "`n` must be an integer, got float"),
        ({"delta": 1.0}, ValueError, r"`delta` must be a number in \[0, 1\), got 1.0"),
        ({"released": "all"}, ValueError, "`released` must be one of"),
        ({"reporter": object()}, TypeError, "`reporter` must be a fitted local transformer, its protocol, or an"),
    ],
)
def test_parameters_out_of_range_raise_an_error(changes, error, match):
    with pytest.raises(TypeError, match="`reporter` must be a function of epsilon"):
        local_epsilon(1.0, delta=1e-6, n=100, reporter="randomized_response")
    with pytest.raises(TypeError, match="got RandomizedResponseEncoder that is not fitted"):
        local_epsilon(1.0, delta=1e-6, n=100, reporter=RandomizedResponseEncoder)
    for wrong in ({"epsilon": 0}, {"delta": 0}, {"released": "rows"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            local_epsilon(**({"epsilon": 1.0, "delta": 1e-6, "n": 100, "reporter": HeavyHitters} | wrong))
    given = {"reporter": RandomizedResponse(4, 1.0), "n": 100, "delta": 1e-6} | changes
    with pytest.raises(error, match=match):
        shuffled_guarantee(**given)


class Told(RandomizedResponse):
    """A subclass that draws with another ratio, and inherits the pair."""

    worst_ratio = Fraction(2981)


def test_pair_below_the_local_epsilon_is_not_used():
    told, plain = Told(4, 1.0), RandomizedResponse(4, 1.0)
    assert shuffled_guarantee(told, n=1000, delta=0.0).epsilon == told.epsilon
    assert (
        shuffled_guarantee(told, n=10**6, delta=1e-6).epsilon
        > 2 * shuffled_guarantee(plain, n=10**6, delta=1e-6).epsilon
    )
