import pickle
import string
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chisquare, norm
from sklearn.base import clone

from skdp.local import HeavyHitters
from skdp.oracles import RandomizedResponse
from tests.errors import refusal

FALSE_ALARM = 1e-6


def number_of(word):
    """Return the integer that is hashed for a word of at most two bytes."""
    return int.from_bytes(word.encode().ljust(2, b"\0"))


def buckets_of(hashes, number):
    """Return the bucket of a number for each hash function: bit i is the parity of the number and word i."""
    parities = np.bitwise_count(hashes & number) & 1
    return parities.astype(int) @ (1 << np.arange(hashes.shape[1]))


class TestProtocol:
    @pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 4.0, 20.0, 700.0])
    def test_bucket_is_randomized_response_with_the_whole_epsilon(self, epsilon):
        """Group and hash function are drawn independently of the word. A truthful bucket is the hash."""
        finder = HeavyHitters(epsilon, max_length=2, random_state=0)
        reports = finder.report(np.array(["ab"] * 20_000))
        group, bucket, hashes = reports[:, 0], reports[:, 1], reports[:, 2:]
        assert not group.any()
        oracle = RandomizedResponse(1 << hashes.shape[1], epsilon)
        assert finder.guarantee_.epsilon == oracle.epsilon
        shift = (bucket - buckets_of(hashes, number_of("ab"))) % oracle.k
        counts = np.bincount(shift, minlength=oracle.k)
        shares = np.array(oracle.channel()[0], float)
        if epsilon > 100:
            assert not shift.any()
        else:
            assert chisquare(counts, shares * 20_000).pvalue > FALSE_ALARM

    def test_group_and_hash_function_are_independent_of_the_word(self):
        finder = HeavyHitters(random_state=3, max_length=5)
        one, two = (clone(finder).report(np.array([word] * 3_000)) for word in ("a", "quite another"))
        public = [0, *range(2, one.shape[1])]
        assert np.array_equal(one[:, public], two[:, public])
        assert not np.array_equal(one[:, 1], two[:, 1])
        assert not np.array_equal(finder.report(["a"] * 3_000), finder.report(["a"] * 3_000))  # new noise in each call
        # Groups of the first two bytes, of four, and of all five.
        assert chisquare(np.bincount(one[:, 0]), [600, 1_200, 1_200]).pvalue > FALSE_ALARM
        # A report depends on the prefix of its group only.
        same, other = (clone(finder).report([word] * 3_000) for word in ("abcde", "abcdz"))
        shorter = same[:, 0] < 2
        assert np.array_equal(same[shorter], other[shorter])
        assert not np.array_equal(same[~shorter], other[~shorter])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 5.0])
def test_words_with_most_matches_have_unbiased_counts(epsilon):
    """All words of two symbols are counted; two words collide with probability 1 / k."""
    letters = "abcde"
    words = np.resize(["a", "bc", "bc", "de", "de", "de", "e", "e"], 4_000)
    finder = HeavyHitters(epsilon, max_length=2, alphabet=letters, n_top=4, random_state=0)
    reports = finder.report(words)
    hashes = reports[:, 2:]
    oracle = RandomizedResponse(1 << hashes.shape[1], epsilon)
    p, q = float(oracle.p), 1 / oracle.k
    counts = {}
    for word in [*letters, *map("".join, product(letters, repeat=2))]:
        first, second = (letters.find(symbol) + 1 for symbol in word.ljust(2, "."))
        n_matches = (buckets_of(hashes, first << 3 | second) == reports[:, 1]).sum()
        counts[word] = (n_matches - len(words) * q) / (p - q)
    found = finder.fit(reports).top_
    expected = sorted(counts, key=counts.get, reverse=True)
    assert found["value"].tolist() == expected[: len(found)]
    assert found["count"].tolist() == pytest.approx([counts[word] for word in found["value"]])
    assert len(found) == 4 or epsilon < 2


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
    def test_frequent_words_of_a_zipf_distribution_are_found(self, seed, alphabet):
        words = zipf(60_000, seed)
        truth = words.value_counts()
        finder = HeavyHitters(2.0, n_top=5, max_length=8, alphabet=alphabet, random_state=seed)
        top = finder.fit(finder.report(words)).top_
        assert set(top["value"].iloc[:4]) <= set(truth.index[:6])
        assert len(top) >= (4 if alphabet is None else 5)
        true = truth.reindex(top["value"]).fillna(0).to_numpy()
        assert (true >= top["lower"]).all()
        assert (true <= top["upper"]).all()
        assert top["count"].is_monotonic_decreasing
        assert finder.n_reports_ == 60_000

    @pytest.mark.long
    def test_block_size_does_not_change_the_words(self, monkeypatch):
        finder = HeavyHitters(3.0, n_top=20, max_length=8, alphabet=string.ascii_lowercase, random_state=0)
        reports = finder.report(zipf(5_000, 0))
        expected = finder.fit(reports).top_
        monkeypatch.setattr("skdp.local._heavy_hitters.MAX_ESTIMATION_NUMBERS", 1 << 10)
        assert len(expected) > 1
        pd.testing.assert_frame_equal(finder.fit(reports).top_, expected)


class TestFrames:
    @pytest.mark.parametrize(
        ("words", "error", "message"),
        [
            (["a", None], TypeError, "`words` must be strings"),
            (["a", b"secret"], TypeError, "`words` must be strings"),
            ([], ValueError, "Found 0 words"),
            (pd.DataFrame({"a": ["x"], "b": ["y"]}), ValueError, "`words` must be one column, got 2"),
            (pl.LazyFrame({"a": ["x"]}), TypeError, "lazy frame"),
        ],
    )
    def test_invalid_words_raise_before_charge(self, words, error, message):
        with refusal(error, message, "secret") as ledger:
            HeavyHitters(0.5, ledger=ledger).report(words)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda reports: reports.iloc[:, :-1], "the columns"),
            *[
                (lambda reports, wrong=wrong: reports.assign(**wrong), r"reports`? must be integers")
                for wrong in ({"group": 3}, {"bucket": -1}, *({"hash_0": odd} for odd in (2**47, 0.5, np.nan, "x")))
            ],
            (lambda reports: reports[reports["group"] > 0], "must have a row for each of the 3 groups"),
        ],
    )
    def test_invalid_reports_raise_an_error(self, change, message):
        finder = HeavyHitters(max_length=6)
        with pytest.raises(ValueError, match=message):
            finder.fit(change(finder.report(pd.Series(["a"] * 200))))


class TestSecrets:
    def test_finder_stores_no_word(self):
        finders = [HeavyHitters(max_length=6) for _ in range(2)]
        for finder, words in zip(finders, (["secret"] * 1_237, ["a"] * 3), strict=True):
            finder.report(pd.Series(words))
        assert pickle.dumps(finders[0]) == pickle.dumps(finders[1])
        assert set(vars(finders[0])) == {*finders[0].get_params(), "_calls"}

    @pytest.mark.parametrize("value", ["s3cr3t", 72_619.25, [72_619], b"s3cr3t"])
    def test_true_words_among_reports_are_not_in_the_error(self, value):
        finder = HeavyHitters(max_length=6)
        reports = finder.report(pd.Series(["a"] * 200))
        column = pd.Series([value] * 200, dtype=object)
        tables = [pd.DataFrame({"word": column}), pd.DataFrame(dict.fromkeys(reports, column))]
        tables += [reports.assign(**{name: column}) for name in reports]
        for table in [*tables, *(table.to_numpy() for table in tables)]:
            with refusal((TypeError, ValueError), ".", "s3cr3t", "72619"):
                finder.fit(table)


def test_standard_error_is_the_error_of_misreports():
    """With words of one symbol, each record reports its whole word, so nothing is sampled."""
    words = np.repeat(["a", "b"], [3_000, 1_000])
    finder = HeavyHitters(2.0, max_length=1, alphabet="ab", random_state=0)
    reports = finder.report(words)
    estimates = finder.fit(reports).top_
    n, k = len(words), 2 ** (reports.shape[1] - 2)  # columns after the group and the bucket are hash functions
    p, q = float(RandomizedResponse(k, 2.0).p), 1 / k
    share = estimates["count"].to_numpy() / n
    variance = n * (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
    assert estimates["std_error"].to_numpy() == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_errors_of_words_in_one_group_are_scaled_to_all_records():
    """Words of nine symbols are in the reports of the last group only."""
    words = np.repeat(["a" * 9, "b" * 9], [3_000, 1_000])
    finder = HeavyHitters(2.0, max_length=9, alphabet="ab", random_state=0)
    reports = finder.report(words)
    estimates = finder.fit(reports).top_
    n, size, k = len(words), np.count_nonzero(reports[:, 0]), 2 ** (reports.shape[1] - 2)
    p, q = float(RandomizedResponse(k, 2.0).p), 1 / k
    share = estimates["count"].to_numpy() / n
    noise = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
    errors = np.sqrt((noise + share * (1 - share) * (n - size) / (n - 1)) / size) * n
    assert estimates["std_error"].to_numpy() == pytest.approx(errors, rel=1e-9)
    # Each of two steps considers 2**16 tails of 20 candidates.
    margins = norm.isf(0.05 / 2 / (20 * 2 << 16)) * errors
    assert (estimates["upper"] - estimates["count"]).to_numpy() == pytest.approx(margins, rel=1e-6)
