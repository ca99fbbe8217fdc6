"""RAPPOR: the ratio of all filters is enumerated, permanent bits are one report, and decoding is unbiased."""

import hashlib
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binomtest, chisquare, norm

from skdp import RapporEncoder
from skdp.exact import exp_bounds
from tests.conftest import often
from tests.errors import refusal
from tests.oracles.conftest import largest_ratio

FALSE_ALARM = 1e-6
KEY = bytes(range(32))


def fit_encoder(epsilon=4.0, column="x", **parameters):
    return RapporEncoder(epsilon, **parameters).fit(pd.DataFrame({column: ["a"]}))


def field_of(encoder):
    return encoder.protocol_.fields[0]


def filters(n_bits, n_hashes):
    """List all possible filters of a word."""
    for size in range(1, n_hashes + 1):
        for indices in combinations(range(n_bits), size):
            yield [int(bit in indices) for bit in range(n_bits)]


class TestGuarantee:
    @pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 4.0, 20.0, 700.0])
    @pytest.mark.parametrize(("n_bits", "n_hashes"), [(2, 1), (2, 2), (3, 2), (4, 1), (4, 2), (5, 2)])
    def test_every_pair_of_filters_is_within_epsilon(self, n_bits, n_hashes, epsilon):
        encoder = fit_encoder(epsilon, n_bits=n_bits, n_hashes=n_hashes)
        field = field_of(encoder)
        channel = field.oracle.channel_of_bits(filters(n_bits, n_hashes))
        ratio = largest_ratio(channel)
        assert ratio <= field.oracle.worst_ratio**n_hashes <= exp_bounds(min(epsilon, 1000))[0]
        assert ratio <= exp_bounds(encoder.guarantee_.epsilon)[0]
        assert field.epsilon == encoder.guarantee_.epsilon
        if n_bits >= 2 * n_hashes:
            assert ratio == field.oracle.worst_ratio**n_hashes

    def test_columns_together_use_the_whole_epsilon(self):
        rows = pd.DataFrame({"a": ["x"], "b": ["y"]})
        encoder = RapporEncoder(1.0, secret_key=KEY, instantaneous_epsilon=0.4, random_state=1).fit(rows)
        assert 1.0 - 1e-9 < encoder.guarantee_.epsilon <= 1.0
        assert 0.4 - 1e-9 < encoder.instantaneous_guarantee_.epsilon <= 0.4
        assert encoder.guarantee_.scope == encoder.instantaneous_guarantee_.scope == ("a", "b")
        # Permanent bits depend on the key, and the noise of one report on the seed.
        assert encoder.guarantee_.secure
        assert not encoder.instantaneous_guarantee_.secure
        assert not RapporEncoder(1.0, random_state=1).fit(rows).guarantee_.secure
        assert RapporEncoder(1.0).fit(rows).guarantee_.secure

        for odd in ({"instantaneous_epsilon": 0.5}, {"instantaneous_epsilon": 1.0, "secret_key": KEY}):
            with pytest.raises(ValueError, match="`instantaneous_epsilon` requires a secret_key, and must be smaller"):
                fit_encoder(1.0, **odd)


def hash_word(field, cohort, word):
    """Return the indices of the bits of a word in a cohort."""
    return field.hash_word(cohort, word)


class TestChannel:
    N = 4_000

    @pytest.mark.parametrize("parameters", [{}, {"secret_key": KEY}, {"secret_key": KEY, "instantaneous_epsilon": 1.0}])
    def test_reports_follow_the_channel(self, parameters):
        encoder = RapporEncoder(3.0, n_bits=4, n_hashes=2, n_cohorts=2, random_state=3, **parameters)
        rows = pd.DataFrame({"x": ["word"] * self.N})
        reports = encoder.fit_transform(rows, person=np.arange(self.N) if parameters else None)
        field = field_of(encoder)
        assert binomtest(int((reports["x_cohort"] == 0).sum()), self.N).pvalue > FALSE_ALARM
        for cohort in range(2):
            own = np.zeros(4, int)
            own[hash_word(field, cohort, b"string word")] = 1
            bits = reports.loc[reports["x_cohort"] == cohort].to_numpy()[:, 1:]
            seen = np.bincount(bits @ [8, 4, 2, 1], minlength=16)
            channel = field.oracle.channel_of_bits([own])
            assert chisquare(seen, np.array(channel[0], float) * len(bits)).pvalue > FALSE_ALARM

    def test_hash_functions_never_change(self):
        field = field_of(fit_encoder(n_hashes=5))
        digest = hashlib.sha256(b"skdp bloom filter 3 0 string word").digest()
        expected = [int.from_bytes(digest[start : start + 8], "big") % 128 for start in range(0, 32, 8)]
        assert hash_word(field, 3, b"string word")[:4].tolist() == expected
        indices = np.concatenate([hash_word(field, 0, b"%d" % word) for word in range(20_000)])
        assert chisquare(np.bincount(indices.astype(int), minlength=128)).pvalue > FALSE_ALARM


def test_equal_texts_of_different_types_have_equal_bytes():
    """True and 1 are different words; 1, 1.0 and "1" are one word."""
    column = pd.Series([True, 1, 1.0, "1", "a", "a", np.int64(1)], dtype=object)
    one_type = [pd.Series([True]), pd.Series([1]), pd.Series([1.0]), pd.Series(["1"]), pd.Series(["a"])]
    encoder = fit_encoder(n_cohorts=1)
    (words,) = field_of(encoder).prepare([column])
    alone = [field_of(encoder).prepare([part])[0][0] for part in one_type]
    assert words.tolist() == [alone[0], alone[1], alone[1], alone[1], alone[4], alone[4], alone[1]]
    assert alone[:4] == [b"boolean True", b"number 1", b"number 1", b"number 1"]


def permanent_reports(words, ids, *, column="x", **parameters):
    encoder = fit_encoder(column=column, **{"n_bits": 64, "secret_key": KEY} | parameters)
    return encoder.transform(pd.DataFrame({column: words}), person=ids).to_numpy()


class TestPermanentBits:
    def test_flips_depend_on_all_parts_of_the_key(self):
        def flips(word="a", record="r", **parameters):
            """Return the flipped bits of the filter of a word."""
            bits = permanent_reports([word], [record], n_cohorts=1, **parameters)[0, 1:].copy()
            field = field_of(fit_encoder(n_cohorts=1, n_bits=bits.size))
            bits[hash_word(field, 0, b"string " + word.encode())] ^= 1
            return tuple(bits[:64].tolist())

        changes = [{"record": "s"}, {"record": 1}, {"word": "b"}, {"secret_key": KEY[::-1]}, {"column": "y"}]
        # Equal flips with another filter size or epsilon would reveal the filter.
        changes += [{"epsilon": 4.01}, {"n_bits": 65}, {"record": "x", "word": "s y"}, {"record": "xs ", "word": "y"}]
        assert len({flips(), *(flips(**change) for change in changes)}) == 1 + len(changes)

    def test_cohort_depends_on_the_record_only(self):
        ids = np.arange(300)
        one, two = (permanent_reports([word] * 300, ids) for word in ("a", "b"))
        assert np.array_equal(one[:, 0], two[:, 0])
        assert set(one[:, 0]) == set(range(8))


class TestDecoding:
    @pytest.mark.parametrize("case", often([(32, 2, 4, 4.0), (32, 1, 16, 8.0), (64, 3, 1, 6.0)], [(32, 2, 4, 4.0)]))
    def test_counts_are_unbiased_with_correct_standard_errors(self, case):
        """Counts far above the noise, so that the lasso selects all of them."""
        n_runs, words = 12, [f"w{number}" for number in range(5)]
        truth = np.array([6_000, 4_000, 3_000, 2_000, 2_000])
        rows = pd.DataFrame({"x": np.repeat(words, truth)})
        n_bits, n_hashes, n_cohorts, epsilon = case
        encoder = RapporEncoder(epsilon, n_bits=n_bits, n_hashes=n_hashes, n_cohorts=n_cohorts, random_state=5)
        encoder.fit(rows)
        tables = [encoder.decode(encoder.transform(rows), words) for _ in range(n_runs)]
        counts, errors = (np.array([table[name] for table in tables]) for name in ("count", "std_error"))
        assert not np.isnan(errors).any()
        scores = (counts.mean(axis=0) - truth) / np.sqrt((errors**2).mean(axis=0) / n_runs)
        assert abs(scores).max() < norm.isf(FALSE_ALARM / 10)
        assert np.sqrt(((counts - truth) ** 2 / errors**2).mean()) == pytest.approx(1, abs=0.35)

    def test_more_candidates_than_bits_are_decoded(self):
        words = ["alpha"] * 50_000 + ["beta"] * 25_000 + ["gamma"] * 12_500 + ["delta"] * 12_500
        encoder = RapporEncoder(4.0, n_bits=32, n_cohorts=4, random_state=2)
        tally = encoder.fit(pd.DataFrame({"x": words})).tally(encoder.transform(pd.DataFrame({"x": words})))
        listed = ["alpha", "beta", "gamma", "delta", *(f"absent{number}" for number in range(400))]
        table = encoder.decode(tally, listed)
        assert table.index.tolist() == listed
        assert table.index.name == "candidate"
        truth = np.array([50_000, 25_000, 12_500, 12_500])
        assert (abs(table["count"].iloc[:4] - truth) < 5 * table["std_error"].iloc[:4]).all()
        assert (table["count"].iloc[4:] > 2_000).sum() == 0
        assert (table["count"] >= 0).all()
        assert table["std_error"].isna().sum() > 300

    def test_several_columns_are_decoded(self):
        rows = pd.DataFrame({"a": ["x"] * 3_000 + ["y"] * 1_000, "b": ["u", "v"] * 2_000})
        encoder = RapporEncoder(16.0, random_state=0).fit(rows)
        counts = encoder.decode(encoder.transform(rows), {"a": ["x", "y"], "b": ["u", "v"]})["count"]
        assert counts.index.nlevels == 2
        assert counts.to_numpy() == pytest.approx([3_000, 1_000, 2_000, 2_000], abs=200)
        with pytest.raises(ValueError, match="`candidates` must be a dict with a list of values"):
            encoder.decode(encoder.transform(rows), ["x", "y"])

    @pytest.mark.parametrize("candidates", [[], ["a", "a"], "a", [["secret"]], [None]])
    def test_invalid_candidates_raise_an_error(self, candidates):
        encoder = fit_encoder()
        with refusal(ValueError, "`candidates` of 'x'", "secret"):
            encoder.decode(encoder.transform(pd.DataFrame({"x": ["a"]})), candidates)

    @pytest.mark.parametrize("cohort", [-1, 2, 0.5])
    def test_invalid_cohorts_raise_an_error(self, cohort):
        encoder, rows = fit_encoder(n_bits=4, n_cohorts=2), pd.DataFrame({"x": ["a"] * 80})
        with pytest.raises(ValueError, match=r"must (be|have) integers from 0 to"):
            encoder.tally(encoder.transform(rows).assign(x_cohort=cohort))


SINGLE = [pd.DataFrame({"x": pd.Series([0.1, 0.2], dtype=dtype)}) for dtype in ("f4", "f2", "Float32")]
SINGLE += [pa.table({"x": pa.array([0.1, 0.2], pa.float32())}), pl.DataFrame({"x": [0.1, 0.2]}, {"x": pl.Float32})]
SINGLE += [SINGLE[0].astype(pd.ArrowDtype(pa.float32()))]


@pytest.mark.parametrize("table", SINGLE)
def test_words_of_single_precision_raise_before_charge(table):
    """As doubles, they were other words than 0.1 and 0.2, with other bits, and were estimated as rare."""
    with refusal(TypeError, "Column 'x' must be text, integers or double-precision floats, got ") as ledger:
        fit_encoder(ledger=ledger).transform(table)


def test_candidates_with_equal_bits_have_no_standard_errors():
    """With three words and two bits, two words set the same bit of the only cohort."""
    words = pd.DataFrame({"x": ["a", "b", "c"] * 500})
    encoder = RapporEncoder(8.0, n_bits=2, n_hashes=1, n_cohorts=1, random_state=0)
    estimates = encoder.decode(encoder.fit_transform(words), ["a", "b", "c"])
    assert estimates.loc[estimates["count"] > 0, "std_error"].isna().all()


def test_standard_errors_contain_the_errors_of_cohorts():
    """At this epsilon, nearly all of the error is the random choice of the cohorts."""
    words = pd.DataFrame({"x": ["a"] * 300 + ["b"] * 100})
    counts, errors = [], []
    for seed in range(20):
        encoder = RapporEncoder(9.0, n_bits=4, n_hashes=1, n_cohorts=2, random_state=seed)
        table = encoder.decode(encoder.fit_transform(words), ["a", "b"])
        counts.append(table["count"])
        errors.append(table["std_error"])
    assert (np.std(counts, axis=0) < 1.5 * np.mean(errors, axis=0)).all()
