from __future__ import annotations

import gc
import math
import pickle
import string
import weakref
from contextlib import suppress
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom, chisquare, norm
from sklearn.base import clone

from skdp import BudgetExceeded, PrivacyLedger
from skdp.base import coins
from skdp.exact import exp_bounds
from skdp.local import HeavyHitters
from skdp.local.heavy_hitters._words import Start, WordCoder
from skdp.oracles import PrefixHashing, vectors_of
from skdp.oracles._hashing import ToeplitzHash
from skdp.randomness import SeededSource
from tests.conftest import each, often

FALSE_ALARM = 1e-6


def all_seeds(family):
    """List the seeds of a family that has so few of them; they are the highest bits of a word."""
    used = family.n_bits + 2 * family.r - 1
    return (np.arange(1 << used, dtype=np.uint64) << np.uint64(32 - used)).astype(np.uint32)[:, None]


def buckets_of(family, seeds):
    """Hash all strings by all seeds."""
    strings = vectors_of([*range(1 << family.n_bits)], family.n_bits, family.width)
    return np.array([family(seeds, np.tile(string, (len(seeds), 1))) for string in strings])


class TestToeplitzHash:
    @each("n_bits, r", [(1, 1), (5, 1), (4, 2), (2, 3), (3, 3)])
    def test_two_strings_are_hashed_independently_and_uniformly(self, n_bits, r):
        family = ToeplitzHash(n_bits, r)
        seeds = all_seeds(family)
        buckets = buckets_of(family, seeds)
        for one, other in combinations(buckets, 2):
            pairs = np.bincount(one * family.g + other, minlength=family.g**2)
            assert (pairs == len(seeds) // family.g**2).all()
            assert Fraction(int((one == other).sum()), len(seeds)) == family.collision

    def test_a_mutant_with_one_row_is_noticed(self):
        class Mutant(ToeplitzHash):
            def _rows(self, seeds):
                return [next(super(Mutant, self)._rows(seeds))] * self.r

        buckets = buckets_of(Mutant(3, 2), all_seeds(Mutant(3, 2)))
        assert (buckets[1] == buckets[2]).mean() > Mutant(3, 2).collision

    def test_seeds_are_uniform_words(self):
        family = ToeplitzHash(60, 3)
        seeds = family.draw(SeededSource(0), 50_000)
        assert seeds.shape == (50_000, 3)
        for byte in seeds.view(np.uint8).reshape(50_000, -1).T:
            assert chisquare(np.bincount(byte, minlength=256)).pvalue > FALSE_ALARM

    @each(
        "n_bits, r, before, length",
        [
            (60, 2, 16, 32),  # characters
            (129, 4, 60, 70),
            (40, 1, 0, 12),
            (70, 6, 31, 45),
            (60, 10, 20, 31),  # solutions, of fewer equations than unknowns, of more, and of none
            (70, 16, 40, 44),
            (70, 3, 70, 70),
        ],
    )
    def test_matches_are_counted_as_hashing_says(self, n_bits, r, before, length):
        rng = np.random.default_rng(r)
        family, tail = ToeplitzHash(n_bits, r), length - before
        seeds = family.draw(SeededSource(r), 200)
        seeds[:3] = np.array([[0], [(1 << 32) - 1], [1]])
        heads = [0, (1 << before) - 1, int.from_bytes(rng.bytes(20)) >> 160 - before]
        tails = [*{0, 1, (1 << tail) - 1, (1 << tail) // 3, (1 << tail) // 5} & {*range(1 << tail)}]
        own = np.tile(vectors_of([heads[2] << tail | tails[-1]], length, family.width), (200, 1))
        buckets = np.where(np.arange(200) < 100, family(seeds, own), rng.integers(0, family.g, 200)).astype(np.uint32)
        counts = family.count_matches(seeds, buckets, vectors_of(heads, before, family.width), before, length)
        assert counts.shape == (3, 1 << tail)
        for head, row in zip(heads, counts, strict=True):
            for end in tails:
                string = np.tile(vectors_of([head << tail | end], length, family.width), (200, 1))
                assert row[end] == (family(seeds, string) == buckets).sum()
        assert counts[2, tails[-1]] >= 100

    def test_reports_are_counted_in_parts(self, monkeypatch):
        rng = np.random.default_rng(0)
        for r in (2, 6):
            family = ToeplitzHash(20, r)
            seeds, buckets = family.draw(SeededSource(0), 100), rng.integers(0, family.g, 100).astype(np.uint32)
            at_once = family.count_matches(seeds, buckets, np.zeros((1, 1), np.uint32), 10, 20)
            with monkeypatch.context() as patch:
                patch.setattr("skdp.oracles._hashing._TERMS", 1 << 9)
                assert np.array_equal(
                    family.count_matches(seeds, buckets, np.zeros((1, 1), np.uint32), 10, 20), at_once
                )

    def test_strings_are_cut_without_loss(self):
        strings = [0, 1, 1 << 63, (1 << 64) - 1, 0x0123456789ABCDEF]
        vectors = vectors_of(strings, 64, 3)
        assert [
            sum(int(word) << 32 * (2 - place) for place, word in enumerate(row)) >> 32 for row in vectors
        ] == strings


class TestProtocol:
    @each("epsilon", [1e-9, 0.1, 1.0, 4.0, 20.0, 700.0])
    def test_the_bucket_is_within_epsilon_whatever_the_seed(self, epsilon):
        """Group and seed are drawn blindly; given them, a report is a bucket of randomised response."""
        protocol = PrefixHashing(epsilon, 64, first_bits=12, step_bits=8)
        assert protocol.inner.worst_ratio <= exp_bounds(epsilon)[0]
        assert protocol.epsilon <= epsilon
        assert protocol.inner.k == protocol.hash_family.g
        if protocol.inner.k < 100:
            channel = protocol.inner.channel()
            assert max(max(column) / min(column) for column in zip(*channel, strict=True)) <= exp_bounds(epsilon)[0]

    @pytest.mark.parametrize(("n_bits", "epsilon"), [(3, 0.4), (4, 1.0), (3, 2.0)])
    def test_the_estimate_of_every_table_has_the_stated_mean_and_variance(self, n_bits, epsilon):
        """For each string and each true one, enumerate all hash functions and all buckets."""
        protocol = PrefixHashing(epsilon, n_bits, first_bits=n_bits, step_bits=8)
        family, channel = protocol.hash_family, protocol.inner.channel()
        seeds = all_seeds(family)
        buckets = buckets_of(family, seeds).tolist()
        supported = [
            [sum(channel[b][a] for a, b in zip(x, own, strict=True)) / len(seeds) for own in buckets] for x in buckets
        ]
        assert supported == [
            [protocol.p if x == own else protocol.q for own in range(1 << n_bits)] for x in range(1 << n_bits)
        ]
        # Records are independent, so the support of a string is a sum of independent coins.
        table, gain = [0, 0, 1, 2, 2, 2, 5], protocol.p - protocol.q
        for x in range(1 << n_bits):
            coins_of_x = [supported[x][own] for own in table]
            mean = float(sum(coins_of_x))
            assert protocol.estimate(mean, len(table)) == pytest.approx(table.count(x), abs=1e-12)
            variance = sum(share * (1 - share) for share in coins_of_x) / gain**2
            assert protocol.variance(table.count(x), len(table)) == pytest.approx(float(variance), rel=1e-12)

    def test_the_whole_report_is_within_epsilon(self):
        """Enumerate the hash functions: a report is one of them, drawn blindly, and a bucket."""
        protocol = PrefixHashing(1.0, 4, first_bits=4, step_bits=8)
        channel = protocol.inner.channel()
        for buckets in buckets_of(protocol.hash_family, all_seeds(protocol.hash_family)).T:
            rows = [channel[bucket] for bucket in buckets]
            assert max(max(column) / min(column) for column in zip(*rows, strict=True)) <= exp_bounds(1.0)[0]

    @each("epsilon", [0.1, 1.0, 3.0, 5.0, 8.0, 10.0])
    def test_the_number_of_buckets_costs_little(self, epsilon):
        protocol = PrefixHashing(epsilon, 64, first_bits=16, step_bits=16)
        variance = float(protocol.q * (1 - protocol.q) / (protocol.p - protocol.q) ** 2)
        best = 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2
        between = 1 << 6 < math.exp(epsilon) < 1 << 10
        assert variance <= best * (1.6 if between else 1.09)

    def test_group_and_hash_function_do_not_depend_on_the_word(self):
        finder = HeavyHitters(random_state=3, max_length=5)
        one, two = (clone(finder).report(np.array([word] * 3_000)) for word in ("a", "quite another"))
        public = [0, *range(2, one.shape[1])]
        assert np.array_equal(one[:, public], two[:, public])
        assert not np.array_equal(one[:, 1], two[:, 1])
        assert PrefixHashing(1.0, 40, first_bits=16, step_bits=16).lengths == [16, 32, 40]
        assert chisquare(np.bincount(one[:, 0]), [600, 1_200, 1_200]).pvalue > FALSE_ALARM

    def test_a_report_depends_on_the_prefix_of_its_group_only(self):
        lengths = PrefixHashing(1.0, 48, first_bits=12, step_bits=8).lengths
        assert lengths == [12, 20, 28, 36, 44, 48]
        finder = HeavyHitters(random_state=3, max_length=6, first_bits=12, step_bits=8)
        one, two = (clone(finder).report([word] * 3_000) for word in ("abcdef", "abcdez"))
        shorter = np.isin(one[:, 0], [group for group, length in enumerate(lengths) if length <= 40])
        assert np.array_equal(one[shorter], two[shorter])
        assert not np.array_equal(one[~shorter], two[~shorter])

    def test_buckets_follow_the_channel(self):
        finder = HeavyHitters(1.0, random_state=8, max_length=2, first_bits=12, step_bits=8)
        protocol = PrefixHashing(1.0, 16, first_bits=12, step_bits=8)
        reports = finder.report(["ab"] * 60_000)
        whole = reports[reports[:, 0] == 1]
        own = protocol.hash_family(whole[:, 2:], np.tile(vectors_of([0x6162], 16, 1), (len(whole), 1)))
        p = float(protocol.p)
        assert binom.cdf((own == whole[:, 1]).sum(), len(whole), p) > FALSE_ALARM
        assert binom.sf((own == whole[:, 1]).sum() - 1, len(whole), p) > FALSE_ALARM
        shift = (whole[:, 1].astype(int) - own) % protocol.inner.k
        assert chisquare(np.bincount(shift, minlength=protocol.inner.k)[1:]).pvalue > FALSE_ALARM

    def test_the_guarantee(self):
        finder = HeavyHitters(0.7)
        assert 0.7 - 1e-9 < finder.guarantee_.epsilon <= 0.7
        assert finder.guarantee_.trust == "local"
        assert finder.guarantee_.secure
        assert not HeavyHitters(random_state=0).guarantee_.secure


def zipf(n, seed, *, size=5_000, longest=8, exponent=1.3):
    rng = np.random.default_rng(seed)
    letters = list(string.ascii_lowercase)
    words = list(dict.fromkeys("".join(rng.choice(letters, rng.integers(2, longest + 1))) for _ in range(size)))
    weights = np.arange(1, len(words) + 1) ** -exponent
    return pd.Series(words, dtype=object).iloc[rng.choice(len(words), n, p=weights / weights.sum())]


class TestFinding:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("seed", "alphabet"), [pytest.param(0, None, marks=pytest.mark.long), (1, string.ascii_lowercase)]
    )
    def test_the_frequent_words_of_a_zipf_vocabulary(self, seed, alphabet):
        words = zipf(100_000, seed)
        truth = words.value_counts()
        finder = HeavyHitters(2.0, n_top=5, max_length=8, alphabet=alphabet, random_state=seed)
        top = finder.fit(finder.report(words)).top_
        assert set(top["value"].iloc[:4]) <= set(truth.index[:6])
        assert len(top) == 5
        true = truth.reindex(top["value"]).fillna(0).to_numpy()
        assert (true >= top["lower"]).all()
        assert (true <= top["upper"]).all()
        assert top["count"].is_monotonic_decreasing
        assert finder.n_reports_ == 100_000

    @pytest.mark.long
    @pytest.mark.slow
    def test_estimates_are_unbiased_and_intervals_hold(self):
        runs = 60
        truth = pd.Series({"": 500, "a": 1_500, "ab": 1_000, "cab": 600, "caba": 400})
        words = truth.index.repeat(truth).to_numpy(object)
        finder = HeavyHitters(6.0, n_top=5, max_length=4, alphabet="abc", first_bits=4, step_bits=4, random_state=1)
        tables = [finder.fit(finder.report(words)).top_.set_index("value").reindex(truth.index) for _ in range(runs)]
        counts, errors = (np.array([table[name] for table in tables]) for name in ("count", "std_error"))
        assert not np.isnan(counts).any()
        score = (counts.mean(axis=0) - truth.to_numpy()) / (counts.std(axis=0, ddof=1) / math.sqrt(runs))
        assert abs(score).max() < norm.isf(FALSE_ALARM / 10)
        assert (counts.std(axis=0, ddof=1) / errors.mean(axis=0) == pytest.approx(np.ones(5), abs=0.35)) is True
        lower, upper = (np.array([table[name] for table in tables]) for name in ("lower", "upper"))
        missed = int(((lower > truth.to_numpy()) | (upper < truth.to_numpy())).any(axis=1).sum())
        assert binom.sf(missed - 1, runs, 0.05) > FALSE_ALARM
        # The shorter a word, the more groups tell it.
        assert errors.mean(axis=0)[0] < errors.mean(axis=0)[3]

    @pytest.mark.slow
    def test_noise_is_not_found(self):
        runs, rng = 6, np.random.default_rng(0)
        finder = HeavyHitters(1.0, max_length=6, alphabet="abcdefgh", first_bits=8, random_state=2)
        found = 0
        for _ in range(runs):
            words = ["".join(letters) for letters in rng.choice(list("abcdefgh"), (2_000, 6))]
            found += len(finder.fit(finder.report(words)).top_) > 0
        assert binom.sf(found - 1, runs, 0.05) > FALSE_ALARM

    @pytest.mark.chosen("0")
    @pytest.mark.parametrize("seed", range(2))
    def test_any_language(self, seed):
        words = ["naïve"] * 4_000 + ["日本"] * 3_000 + ["日本語です"] * 2_000 + [""] * 1_000
        finder = HeavyHitters(8.0, n_top=4, max_length=8, random_state=seed)
        top = finder.fit(finder.report(words)).top_
        # What is too long is cut between characters.
        assert top["value"].tolist() == ["日本", "naïve", ""]

    def test_many_symbols_of_one_alphabet(self):
        finder = HeavyHitters(8.0, n_top=2, max_length=3, alphabet="xy", first_bits=2, step_bits=2, random_state=0)
        top = finder.fit(finder.report(["xyx"] * 3_000 + ["x-!"] * 2_000)).top_
        assert top["value"].tolist() == ["xyx", "x\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"]

    @pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 700.0])
    def test_odd_epsilons(self, epsilon):
        finder = HeavyHitters(epsilon, n_top=2, max_length=2, random_state=0)
        top = finder.fit(finder.report(["ab"] * 600 + ["c"] * 300)).top_
        assert top["value"].tolist() == (["ab", "c"] if epsilon > 1 else [])

    def test_batches_of_reports_go_together(self):
        finder = HeavyHitters(8.0, n_top=1, max_length=2, random_state=0)
        batches = [finder.report(pd.Series(["ab"] * 500)) for _ in range(3)]
        assert not batches[0].equals(batches[1])
        assert finder.fit(pd.concat(batches)).n_reports_ == 1_500
        first = finder.top_
        assert finder.fit(pd.concat(batches[::-1])).top_.equals(first)


def start(coder, string, length):
    """Return what one string can be the start of, whatever the length of a whole word."""
    return min(coder.starts(string, length, length)[0], Start.ONE_WORD)


class TestWords:
    @pytest.mark.parametrize(
        ("alphabet", "words"), [(None, ["", "a", "é", "ab", "abc", "日"]), ("ab", ["", "b", "aba"])]
    )
    def test_every_start_of_a_word_is_known_as_one(self, alphabet, words):
        coder = WordCoder(3, alphabet)
        for word, vector in zip(words, coder.vectors(words), strict=True):
            full = sum(int(limb) << 32 * place for place, limb in enumerate(reversed(vector)))
            full >>= 32 * len(vector) - coder.n_bits
            assert coder.word(full) == word
            starts = [start(coder, full >> coder.n_bits - length, length) for length in range(1, coder.n_bits + 1)]
            assert Start.NOTHING not in starts
            assert starts == sorted(starts)
            assert starts[-1] >= Start.ONE_WORD

    def test_what_is_no_start(self):
        coder = WordCoder(3, None)
        for code in (b"a\0b", b"\0a\0", b"\xffaa", b"\x80aa", b"a\xe6\x97", b"\xc3a\0"):
            assert start(coder, int.from_bytes(code, "big"), 24) == Start.NOTHING
        assert start(coder, 0b00000000_1, 9) == Start.NOTHING
        assert start(coder, 0b00000000_0, 9) == Start.ONE_WORD
        assert start(coder, 0xE697, 16) == Start.WORDS
        assert start(coder, 0x61E6, 16) == Start.NOTHING  # three bytes do not fit
        assert start(WordCoder(3, "abcd"), 0b110, 3) == Start.NOTHING  # symbols are 0 to 5

    @pytest.mark.parametrize("prefix", often([b"", b"a\xe0", b"\xf0", b"\xf1\x80"], [b"", b"a\xe0"]))
    def test_every_two_bytes_follow_as_utf8_says(self, prefix):
        """A start of words can be completed; whole words have an end, and then zeros."""
        coder = WordCoder(8, None)
        starts = coder.starts(int.from_bytes(prefix, "big"), 8 * len(prefix), 8 * len(prefix) + 16)
        # UTF-8 treats the bytes from one of these to the next one alike.
        alike = np.array([0x00, 0x01, 0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5])
        least = alike[np.searchsorted(alike, np.arange(256), side="right") - 1]
        starts = starts.reshape(256, 256)
        assert np.array_equal(starts, starts[least[:, np.newaxis], least])
        for number in (256 * alike[:, np.newaxis] + alike).ravel().tolist():
            word, end, padding = (prefix + number.to_bytes(2, "big")).partition(b"\0")
            expected = Start.NOTHING
            for last in [b""] if end else [b"", b"\x80", b"\xa0\x80", b"\x80\x80", b"\x90\x80\x80", b"\x80\x80\x80"]:
                with suppress(UnicodeDecodeError):
                    (word + last).decode()
                    expected = Start.NOTHING if any(padding) else Start.ONE_WORD + len(word) if end else Start.WORDS
                    break
            assert starts.ravel()[number] == expected

    def test_extensions_continue_a_symbol(self):
        coder = WordCoder(4, "abcde")  # 3 bits: 0 to 6
        starts = coder.starts(0b001_01, 5, 9)
        for tail, seen in enumerate(starts.tolist()):
            assert min(seen, Start.ONE_WORD) == start(coder, 0b001_01 << 4 | tail, 9)

    def test_a_lone_surrogate_is_a_question_mark(self):
        coder = WordCoder(3, None)
        assert np.array_equal(coder.vectors(["\ud800"]), coder.vectors(["?"]))

    def test_long_lists_are_written_in_parts(self):
        coder = WordCoder(2, "ab")
        vectors = coder.vectors(["a", "b"] * 40_000)
        assert np.array_equal(vectors[:2], vectors[-2:])
        assert len(np.unique(vectors)) == 2


class TestFrames:
    def test_frames_and_series_of_any_library(self, make_frame, values_of):
        frame = make_frame({"word": ["ab", "c", "ab"]})
        reports = HeavyHitters(random_state=0, max_length=2).report(frame)
        assert type(reports) is type(frame)
        expected = HeavyHitters(random_state=0, max_length=2).report(["ab", "c", "ab"])
        for place, name in enumerate(["group", "bucket", "hash_0"]):
            assert values_of(reports, name) == expected[:, place].tolist()

    @each(
        "words, kind",
        [
            (pd.Series(["ab"] * 30), pd.DataFrame),
            (pl.Series(["ab"] * 30), pl.DataFrame),
            (pa.chunked_array([["ab"] * 30]), pa.Table),
            (np.array(["ab"] * 30), np.ndarray),
            (np.array([["ab"]] * 30, object), np.ndarray),
            (("ab",) * 30, np.ndarray),
        ],
    )
    def test_containers(self, words, kind):
        finder = HeavyHitters(8.0, max_length=1, n_top=1, random_state=0)
        reports = finder.report(words)
        assert isinstance(reports, kind)
        assert finder.fit(reports).top_["value"].tolist() == ["a"]

    def test_the_index_passes_through(self):
        words = pd.Series(["a", "b"], index=[7, 9], name="w")
        assert HeavyHitters().report(words).index.tolist() == [7, 9]

    @each(
        "words error message",
        [
            (["a", None], ValueError, "hold missing values"),
            ([np.nan, "a"], ValueError, "hold missing values"),
            (["a", 3], TypeError, "words must be strings"),
            (["a", b"secret"], TypeError, "words must be strings"),
            (np.array([1, 2]), TypeError, "words must be strings"),
            ([], ValueError, "Found 0 words"),
            (np.array([["a", "b"]]), ValueError, "words must be 1-D"),
            (pd.DataFrame({"a": ["x"], "b": ["y"]}), ValueError, "words must be one column, got 2"),
            (pl.LazyFrame({"a": ["x"]}), TypeError, "lazy frames"),
        ],
    )
    def test_odd_words_are_refused_unseen_and_before_a_charge(self, words, error, message):
        ledger = PrivacyLedger(epsilon=1.0)
        with pytest.raises(error, match=message) as caught:
            HeavyHitters(0.5, ledger=ledger).report(words)
        assert "secret" not in str(caught.value)
        assert ledger.spent == (0.0, 0.0)

    @each("params", [{"n_top": 0}, {"n_candidates": 3}, {"confidence_level": 2}, {"max_length": 0}])
    def test_every_parameter_is_checked_before_a_charge(self, params):
        ledger = PrivacyLedger(epsilon=1.0)
        with pytest.raises(ValueError, match=next(iter(params))):
            HeavyHitters(0.5, ledger=ledger, **params).report(["word"])
        assert ledger.spent == (0.0, 0.0)

    def test_the_ledger_is_charged_a_call(self):
        ledger = PrivacyLedger(epsilon=1.0)
        finder = HeavyHitters(0.5, max_length=1, ledger=ledger)
        reports = [finder.report(["a", "b"] * 40) for _ in range(2)]
        with pytest.raises(BudgetExceeded):
            finder.report(["a"])
        finder.fit(np.concatenate(reports))
        assert ledger.remaining().epsilon < 1e-9

    @each(
        "change message",
        [
            (lambda reports: reports.iloc[:, :-1], "the columns"),
            (lambda reports: reports[reports.columns[::-1]], "the columns"),
            (lambda reports: reports.assign(group=3), "not ones of these parameters"),
            (lambda reports: reports.assign(bucket=-1), "not ones of these parameters"),
            (lambda reports: reports.assign(hash_0=2**32), "not ones of these parameters"),
            # What clients reported before the hash was linear.
            (lambda reports: reports.rename(columns=lambda name: name.replace("hash", "seed")), "the columns"),
            (lambda reports: reports.assign(hash_0=0.5), "not ones of these parameters"),
            (lambda reports: reports.assign(hash_0=np.nan), "not ones of these parameters"),
            (lambda reports: reports.assign(hash_0="x"), "not ones of these parameters"),
            (lambda reports: reports[reports["group"] > 0], "each of the 3 groups needs a report"),
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
        words = pd.Series(["secret"] * 200)
        watched = weakref.ref(words)
        finders[0].report(words)
        del words
        gc.collect()
        assert watched() is None

    def test_the_ledger_is_charged_before_a_coin_is_drawn(self, monkeypatch):
        charged = []

        class Noted(PrivacyLedger):
            def charge(self, guarantee, what):
                charged.append(guarantee)
                super().charge(guarantee, what)

        def counted(*key):
            assert charged, "a coin is drawn before the charge"
            return coins(*key)

        monkeypatch.setattr("skdp.local.heavy_hitters._heavy_hitters.coins", counted)
        finder = HeavyHitters(0.7, max_length=2, ledger=Noted(epsilon=1.0))
        finder.report(["a", "b"])
        assert charged == [finder.guarantee_]
        monkeypatch.setattr(
            "skdp.local.heavy_hitters._heavy_hitters.coins", lambda *key: pytest.fail("a coin was drawn")
        )
        with pytest.raises(BudgetExceeded):
            finder.report(["a"])
        for words in (["a", None], [], ["a", 3]):
            with pytest.raises((TypeError, ValueError)):
                finder.report(words)
        assert len(charged) == 2

    @pytest.mark.parametrize("value", ["s3cr3t", 72_619.25, 72_619, [72_619], b"s3cr3t", None, math.nan, math.inf])
    def test_reports_that_are_true_words_by_mistake_are_not_shown(self, value):
        finder = HeavyHitters(max_length=6)
        reports = finder.report(pd.Series(["a"] * 200))
        column = pd.Series([value] * 200, dtype=object)
        tables = [pd.DataFrame({"word": column}), pd.DataFrame(dict.fromkeys(reports, column))]
        tables += [reports.assign(**{name: column}) for name in reports]
        for table in [*tables, *(table.to_numpy() for table in tables)]:
            with pytest.raises((TypeError, ValueError)) as caught:
                finder.fit(table)
            error = caught.value
            while error is not None:
                assert not any(sign in f"{error!r} {error.args}" for sign in ("s3cr3t", "72619", "72_619"))
                error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


class TestParameters:
    @each(
        "parameters error",
        [
            ({"epsilon": 0}, ValueError),
            ({"epsilon": math.inf}, ValueError),
            ({"epsilon": True}, TypeError),
            ({"max_length": 0}, ValueError),
            ({"max_length": 129}, ValueError),
            ({"max_length": 2.0}, TypeError),
            ({"alphabet": ""}, ValueError),
            ({"alphabet": "aa"}, ValueError),
            ({"alphabet": ["a"]}, TypeError),
            ({"alphabet": "".join(map(chr, range(32, 300)))}, ValueError),
            ({"first_bits": 0}, ValueError),
            ({"first_bits": 17}, ValueError),
            ({"step_bits": 17}, ValueError),
            ({"ledger": 1}, TypeError),
            ({"random_state": -1}, ValueError),
            ({"random_state": np.random.default_rng(0)}, TypeError),
        ],
    )
    def test_odd_ones_of_both_sides(self, parameters, error):
        finder = HeavyHitters(**parameters)
        with pytest.raises(error):
            finder.report(["a"])
        with pytest.raises(error):
            finder.fit(HeavyHitters().report(["a"] * 200))

    @each(
        "parameters, error",
        [
            ({"n_top": 0}, ValueError),
            ({"n_top": 1.0}, TypeError),
            ({"n_candidates": 9}, ValueError),
            ({"confidence_level": 1.0}, ValueError),
            ({"confidence_level": "x"}, ValueError),
        ],
    )
    def test_odd_ones_of_the_server(self, parameters, error):
        with pytest.raises(error):
            HeavyHitters(**parameters).fit(HeavyHitters().report(["a"] * 200))

    def test_clones_and_pickles(self):
        finder = HeavyHitters(2.5, n_top=3, alphabet="ab", random_state=4)
        assert clone(finder).get_params() == finder.get_params()
        first = finder.report(["a", "b"])
        assert not np.array_equal(finder.report(["a", "b"]), first)
        for copy in (clone(finder), pickle.loads(pickle.dumps(finder))):
            assert np.array_equal(copy.report(["a", "b"]), first)
        assert repr(finder) == "HeavyHitters(alphabet='ab', epsilon=2.5, n_top=3, random_state=4)"
        fitted = HeavyHitters(8.0, max_length=1, random_state=0)
        fitted.fit(fitted.report(["a"] * 50))
        assert pickle.loads(pickle.dumps(fitted)).top_.equals(fitted.top_)

    def test_secure_coins_are_never_repeated(self):
        finder = HeavyHitters()
        assert not np.array_equal(finder.report(["a"] * 9), finder.report(["a"] * 9))
        assert not np.array_equal(clone(finder).report(["a"] * 9), clone(finder).report(["a"] * 9))
