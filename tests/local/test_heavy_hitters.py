from __future__ import annotations

import pickle
import string
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, chisquare
from sklearn.base import clone

from skdp import PrivacyLedger
from skdp.exact import exp_bounds
from skdp.local import HeavyHitters
from skdp.local._heavy_hitters import (
    PrefixProtocol,
    WordCoder,
    count_tail_matches,
    draw_seeds,
    find_buckets,
)
from skdp.oracles import RandomizedResponse
from skdp.randomness import SeededSource
from skdp.testing import texts_of
from tests.conftest import each

FALSE_ALARM = 1e-6


def protocol_of(epsilon, max_length=8, alphabet=None):
    return PrefixProtocol(epsilon, WordCoder(max_length, alphabet))


class TestProtocol:
    @each("epsilon", [1e-9, 0.1, 1.0, 4.0, 20.0, 700.0])
    def test_the_bucket_is_within_epsilon_whatever_the_seed(self, epsilon):
        """Group and seed are drawn blindly; given them, a report is a bucket of randomized response."""
        protocol = protocol_of(epsilon)
        assert protocol.oracle.worst_ratio <= exp_bounds(epsilon)[0]
        assert protocol.oracle.epsilon <= epsilon
        channel = protocol.oracle.channel()
        assert max(max(column) / min(column) for column in zip(*channel, strict=True)) <= exp_bounds(epsilon)[0]

    @pytest.mark.parametrize(("n_bits", "epsilon"), [(3, 0.4), (3, 1.0), (2, 2.0)])
    def test_the_estimate_of_every_table_has_the_stated_mean_and_variance(self, n_bits, epsilon):
        """For each prefix and each true one, enumerate all hash functions and all buckets."""
        protocol = protocol_of(epsilon)
        channel, r = protocol.oracle.channel(), protocol.n_words
        seeds = np.array([*product(range(1 << n_bits), repeat=r)])
        buckets = [find_buckets(seeds, value).tolist() for value in range(1 << n_bits)]
        supported = [
            [sum(channel[b][a] for a, b in zip(x, own, strict=True)) / len(seeds) for own in buckets] for x in buckets
        ]
        assert supported == [
            [protocol.p if x == own else protocol.q for own in range(1 << n_bits)] for x in range(1 << n_bits)
        ]
        # Records are independent, so the support of a prefix is a sum of independent coins.
        table, gain = [0, 0, 1, 2, 2, 2, 3], protocol.p - protocol.q
        for x in range(1 << n_bits):
            coins_of_x = [supported[x][own] for own in table]
            assert (sum(coins_of_x) - len(table) * protocol.q) / gain == table.count(x)
            variance = sum(share * (1 - share) for share in coins_of_x) / gain**2
            p, q, n_same = protocol.p, protocol.q, table.count(x)
            assert variance == (n_same * p * (1 - p) + (len(table) - n_same) * q * (1 - q)) / gain**2

    def test_group_and_hash_function_do_not_depend_on_the_word(self):
        finder = HeavyHitters(random_state=3, max_length=5)
        one, two = (clone(finder).report(np.array([word] * 3_000)) for word in ("a", "quite another"))
        public = [0, *range(2, one.shape[1])]
        assert np.array_equal(one[:, public], two[:, public])
        assert not np.array_equal(one[:, 1], two[:, 1])
        # Groups of the first two bytes, of four, and of all five.
        assert chisquare(np.bincount(one[:, 0]), [600, 1_200, 1_200]).pvalue > FALSE_ALARM
        # A report depends on the prefix of its group only.
        same, other = (clone(finder).report([word] * 3_000) for word in ("abcde", "abcdz"))
        shorter = same[:, 0] < 2
        assert np.array_equal(same[shorter], other[shorter])
        assert not np.array_equal(same[~shorter], other[~shorter])

    def test_buckets_follow_the_channel(self):
        finder = HeavyHitters(1.0, random_state=8, max_length=4)
        protocol = protocol_of(1.0, max_length=4)
        reports = finder.report(["abcd"] * 60_000)
        whole = reports[reports[:, 0] == 1]
        (number,) = protocol.coder.number_prefixes(protocol.coder.encode(["abcd"]), 2, 4)
        own = find_buckets(whole[:, 2:], number)
        p = float(protocol.p)
        assert binom.cdf((own == whole[:, 1]).sum(), len(whole), p) > FALSE_ALARM
        assert binom.sf((own == whole[:, 1]).sum() - 1, len(whole), p) > FALSE_ALARM
        shift = (whole[:, 1] - own) % protocol.oracle.k
        assert chisquare(np.bincount(shift, minlength=protocol.oracle.k)[1:]).pvalue > FALSE_ALARM


@each("n_bits, r", [(1, 1), (4, 1), (3, 2), (2, 3)])
def test_two_words_collide_with_the_stated_probability(n_bits, r):
    """Enumerated: all seeds; and each bucket of two values that are not 0 is as frequent as any other."""
    seeds = np.array([*product(range(1 << n_bits), repeat=r)])
    buckets = [find_buckets(seeds, value) for value in range(1 << n_bits)]
    for one, other in combinations(range(1 << n_bits), 2):
        assert Fraction(int((buckets[one] == buckets[other]).sum()), len(seeds)) == Fraction(1, 1 << r)
        if one > 0:
            pairs = np.bincount(buckets[one] << r | buckets[other], minlength=1 << 2 * r)
            assert (pairs == len(seeds) >> 2 * r).all()


@each("n_bits, r, n_tail, n", [(47, 2, 16, 200), (20, 1, 12, 200), (30, 6, 9, 3_000), (12, 4, 12, 200), (9, 3, 1, 9)])
def test_matches_are_counted_as_hashing_says(n_bits, r, n_tail, n):
    rng = np.random.default_rng(r)
    seeds = draw_seeds(SeededSource(r), n, r, n_bits)
    seeds[:2] = [[0] * r, [(1 << n_bits) - 1] * r]
    for head in (0, (1 << n_bits) - (1 << n_tail), int(rng.integers(1 << n_bits - n_tail)) << n_tail):
        own = head + int(rng.integers(1 << n_tail))
        buckets = np.where(np.arange(n) < n // 2, find_buckets(seeds, own), rng.integers(0, 1 << r, n))
        counts = count_tail_matches(seeds, buckets, head, n_tail)
        assert counts.shape == (1 << n_tail,)
        for tail in {0, 1, (1 << n_tail) - 1, (1 << n_tail) // 3, own - head} & {*range(1 << n_tail)}:
            assert counts[tail] == (find_buckets(seeds, head + tail) == buckets).sum()


def zipf(n, seed, *, size=5_000, longest=8, exponent=1.3):
    rng = np.random.default_rng(seed)
    letters = list(string.ascii_lowercase)
    words = list(dict.fromkeys("".join(rng.choice(letters, rng.integers(2, longest + 1))) for _ in range(size)))
    weights = np.arange(1, len(words) + 1) ** -exponent
    return pd.Series(words, dtype=object).iloc[rng.choice(len(words), n, p=weights / weights.sum())]


class TestFinding:
    @pytest.mark.parametrize(
        ("seed", "alphabet"), [pytest.param(0, None, marks=pytest.mark.long), (1, string.ascii_lowercase)]
    )
    def test_the_frequent_words_of_a_zipf_vocabulary(self, seed, alphabet):
        words = zipf(100_000, seed)
        truth = words.value_counts()
        finder = HeavyHitters(2.0, n_top=5, max_length=8, alphabet=alphabet, random_state=seed)
        top = finder.fit(finder.report(words)).top_
        assert set(top["value"].iloc[:4]) <= set(truth.index[:6])
        assert len(top) >= (4 if alphabet is None else 5)
        true = truth.reindex(top["value"]).fillna(0).to_numpy()
        assert (true >= top["lower"]).all()
        assert (true <= top["upper"]).all()
        assert top["count"].is_monotonic_decreasing
        assert finder.n_reports_ == 100_000

    @pytest.mark.long
    def test_noise_is_not_found(self):
        runs, rng = 6, np.random.default_rng(0)
        finder = HeavyHitters(1.0, max_length=6, alphabet="abcdefgh", random_state=2)
        found = 0
        for _ in range(runs):
            words = ["".join(letters) for letters in rng.choice(list("abcdefgh"), (2_000, 6))]
            found += len(finder.fit(finder.report(words)).top_) > 0
        assert binom.sf(found - 1, runs, 0.05) > FALSE_ALARM


class TestFrames:
    @each(
        "words error message",
        [
            (["a", None], TypeError, "words must be strings"),
            (["a", b"secret"], TypeError, "words must be strings"),
            ([], ValueError, "Found 0 words"),
            (pd.DataFrame({"a": ["x"], "b": ["y"]}), ValueError, "words must be one column, got 2"),
            (pl.LazyFrame({"a": ["x"]}), TypeError, "lazy frame"),
        ],
    )
    def test_odd_words_are_refused_unseen_and_before_a_charge(self, words, error, message):
        ledger = PrivacyLedger(epsilon=1.0)
        with pytest.raises(error, match=message) as caught:
            HeavyHitters(0.5, ledger=ledger).report(words)
        assert "secret" not in str(caught.value)
        assert ledger.spent == (0.0, 0.0)

    @each(
        "change message",
        [
            (lambda reports: reports.iloc[:, :-1], "the columns"),
            *[
                (lambda reports, wrong=wrong: reports.assign(**wrong), "reports must be integers of the hash functions")
                for wrong in ({"group": 3}, {"bucket": -1}, *({"hash_0": odd} for odd in (2**47, 0.5, np.nan, "x")))
            ],
            (lambda reports: reports[reports["group"] > 0], "must have a row for each of the 3 groups"),
        ],
    )
    def test_reports_of_something_else_are_refused(self, change, message):
        finder = HeavyHitters(max_length=6)
        with pytest.raises(ValueError, match=message):
            finder.fit(change(finder.report(pd.Series(["a"] * 200))))


class TestSecrets:
    def test_nothing_of_the_words_stays_on_the_finder(self):
        finders = [HeavyHitters(max_length=6) for _ in range(2)]
        for finder, words in zip(finders, (["secret"] * 1_237, ["a"] * 3), strict=True):
            finder.report(pd.Series(words))
        assert pickle.dumps(finders[0]) == pickle.dumps(finders[1])
        assert set(vars(finders[0])) == {*finders[0].get_params(), "_calls"}

    @each("value", ["s3cr3t", 72_619.25, [72_619], b"s3cr3t"])
    def test_reports_that_are_true_words_by_mistake_are_not_shown(self, value):
        finder = HeavyHitters(max_length=6)
        reports = finder.report(pd.Series(["a"] * 200))
        column = pd.Series([value] * 200, dtype=object)
        tables = [pd.DataFrame({"word": column}), pd.DataFrame(dict.fromkeys(reports, column))]
        tables += [reports.assign(**{name: column}) for name in reports]
        for table in [*tables, *(table.to_numpy() for table in tables)]:
            with pytest.raises((TypeError, ValueError)) as caught:
                finder.fit(table)
            assert not any(sign in text for text in texts_of(caught.value) for sign in ("s3cr3t", "72619"))


def test_the_standard_error_is_of_the_misreports():
    """With words of one symbol, each record reports its whole word, and nothing is sampled."""
    words = np.repeat(["a", "b"], [3_000, 1_000])
    finder = HeavyHitters(2.0, max_length=1, alphabet="ab", random_state=0)
    reports = finder.report(words)
    estimates = finder.fit(reports).top_
    n, k = len(words), 2 ** (reports.shape[1] - 2)  # columns after the group and the bucket are hash functions
    p, q = float(RandomizedResponse(k, 2.0).p), 1 / k
    share = estimates["count"].to_numpy() / n
    variance = n * (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
    assert estimates["std_error"].to_numpy() == pytest.approx(np.sqrt(variance), rel=1e-9)
