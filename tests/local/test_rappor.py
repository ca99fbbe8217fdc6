from __future__ import annotations

import hashlib
import json
import math
import pickle
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binomtest, chisquare, norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skdp import BudgetExceeded, PrivacyLedger, RandomizedResponseEncoder
from skdp.exact import exp_bounds
from skdp.local import RapporEncoder, RapporTally, ReportTally, SecretKey
from skdp.local.memo import framed, keyed_coins, keyed_digests, to_bytes
from skdp.oracles import BloomRandomizer
from skdp.randomness import ONE
from tests.conftest import each

FALSE_ALARM = 1e-6
KEY = bytes(range(32))


def filters(n_bits, n_hashes):
    """List all filters that a value can have."""
    for size in range(1, n_hashes + 1):
        for places in combinations(range(n_bits), size):
            yield tuple(int(bit in places) for bit in range(n_bits))


def worst_ratio(channel):
    return max(max(column) / min(column) for column in zip(*channel, strict=True))


ROUNDS = [{"f": 0.5}, {"f": 0.3, "p": 0.1, "q": 0.4}, {"f": 0.9, "p": 0.75, "q": 0.95}, {"f": 0.25, "p": 0.0, "q": 1.0}]


class TestPromise:
    @pytest.mark.parametrize("rounds", ROUNDS)
    @pytest.mark.parametrize(
        ("n_bits", "n_hashes"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3), (5, 2)]
    )
    def test_both_channels_are_exactly_as_stated(self, n_bits, n_hashes, rounds):
        """Enumerate every pair of filters, every vector of bits: the stated ratio is reached and never exceeded."""
        rappor = BloomRandomizer(n_bits, n_hashes, 1, **rounds)
        possible = list(filters(n_bits, n_hashes))
        permanent, report = rappor.channel(possible, permanent=True), rappor.channel(possible)
        assert all(sum(row) == 1 for row in (*permanent, *report))
        assert worst_ratio(permanent) == rappor.permanent_ratio
        assert worst_ratio(report) == rappor.report_ratio <= rappor.permanent_ratio

    @pytest.mark.parametrize("n_reports", [1, 2, 3])
    @pytest.mark.parametrize("rounds", ROUNDS)
    def test_many_memoised_reports_stay_below_the_permanent_round(self, rounds, n_reports):
        rappor = BloomRandomizer(3, 1, 1, **rounds)
        possible, vectors = list(filters(3, 1)), list(product((0, 1), repeat=3))
        heads = [Fraction(share, ONE) for share in rappor.heads]
        second = [
            [math.prod(heads[bit] if seen else 1 - heads[bit] for bit, seen in zip(b, s, strict=True)) for s in vectors]
            for b in vectors
        ]
        sequences = [
            [
                sum(share * math.prod(second[bits][seen] for seen in sequence) for bits, share in enumerate(row))
                for sequence in product(range(8), repeat=n_reports)
            ]
            for row in rappor.channel(possible, permanent=True)
        ]
        ratios = [a / b for x in sequences for y in sequences for a, b in zip(x, y, strict=True) if a or b]
        assert max(ratios) <= rappor.permanent_ratio
        if n_reports == 1:
            assert max(ratios) == rappor.report_ratio

    @each("epsilon", [1e-9, 1e-3, 0.1, math.log(3), 1.0, 4.0, 20.0, 36.0, 40.0, 150.0, 700.0])
    @each("n_bits, n_hashes", [(128, 1), (128, 2), (128, 4), (8, 8)])
    def test_epsilon_is_kept_and_used(self, epsilon, n_bits, n_hashes):
        rappor = BloomRandomizer(n_bits, n_hashes, 8, epsilon=epsilon)
        assert rappor.permanent_ratio <= exp_bounds(epsilon)[0]
        if 1 < rappor.flip < ONE // 2:
            assert Fraction(ONE - rappor.flip + 1, rappor.flip - 1) ** rappor.differing_bits > exp_bounds(epsilon)[0]

    def test_mutants_of_the_conversion_break_the_promise(self):
        def peer(epsilon):  # ignores the number of hashes, and rounds to two digits
            return round(2 / (math.exp(epsilon / 2) + 1), 2)

        for n_hashes, epsilon in ((2, 1.0), (4, 1.0), (1, 10.0)):
            assert BloomRandomizer(128, n_hashes, 8, f=peer(epsilon)).permanent_ratio > exp_bounds(epsilon)[1]
            assert BloomRandomizer(128, n_hashes, 8, epsilon=epsilon).permanent_ratio <= exp_bounds(epsilon)[0]
        # h bits instead of 2 h: the enumeration above has a larger ratio.
        rappor = BloomRandomizer(4, 2, 1, f=0.5)
        assert worst_ratio(rappor.channel(list(filters(4, 2)), permanent=True)) == 3**4 > 3**2

    def test_the_guarantees_add_up_over_columns(self):
        frame = pd.DataFrame({"a": ["x"], "b": ["y"]})
        encoder = RapporEncoder(1.0).fit(frame)
        assert 1.0 - 1e-9 < encoder.permanent_guarantee_.epsilon <= 1.0
        assert encoder.guarantee_ == encoder.instantaneous_guarantee_
        assert RapporEncoder(1.0, secret_key=KEY).fit(frame).guarantee_ == encoder.permanent_guarantee_
        assert encoder.guarantee_.scope == ("a", "b")
        assert encoder.instantaneous_guarantee_.epsilon < encoder.permanent_guarantee_.epsilon
        one = RapporEncoder(None, f=0.5).fit(frame[["a"]])
        assert one.permanent_guarantee_.epsilon == pytest.approx(4 * math.log(3))
        assert one.instantaneous_guarantee_.epsilon == pytest.approx(2 * math.log((11 * 7) / (9 * 5)))
        assert one.guarantee_.secure
        assert not clone(one).set_params(random_state=1).fit(frame).guarantee_.secure


class TestChannel:
    N = 40_000

    @pytest.mark.parametrize("memoised", [False, True])
    @pytest.mark.parametrize("rounds", ROUNDS)
    def test_reports_follow_it(self, rounds, memoised):
        encoder = RapporEncoder(
            None, n_bits=4, n_hashes=2, n_cohorts=2, random_state=3, secret_key=KEY if memoised else None, **rounds
        )
        rows = pd.DataFrame({"x": ["word"] * self.N})
        reports = encoder.fit_transform(rows, record_id=np.arange(self.N) if memoised else None)
        rappor = encoder.randomizer_
        sizes = reports["cohort"].value_counts()
        assert binomtest(int(sizes[0]), self.N).pvalue > FALSE_ALARM
        for cohort in range(2):
            own = np.zeros(4, int)
            own[rappor.places(cohort, b"s word")] = 1
            bits = reports.loc[reports["cohort"] == cohort].to_numpy()[:, 1:]
            seen = np.bincount(bits @ [8, 4, 2, 1], minlength=16)
            expected = np.array(rappor.channel([own])[0], float) * len(bits)
            assert chisquare(seen, expected).pvalue > FALSE_ALARM

    def test_coins_are_decided_by_all_64_bits(self):
        (digest,) = keyed_digests(KEY, ("test",), [b"record"])
        planes = np.frombuffer(hashlib.shake_128(digest).digest(8 * 5), ">u2")
        high, low = planes[:5], planes[5:].reshape(5, 3)
        words = [int(h) << 48 | int(a) << 32 | int(b) << 16 | int(c) for h, (a, b, c) in zip(high, low, strict=True)]
        for place, word in enumerate(words):
            for threshold, expected in ((word, False), (word + 1, True)):
                coins = keyed_coins([digest], threshold, 5)[0]
                assert coins[place] == expected
                assert coins.tolist() == [other < threshold for other in words]
        assert not keyed_coins([digest], 0, 5).any()
        with pytest.raises(ValueError, match="threshold"):
            keyed_coins([digest], ONE, 5)

    def test_the_hash_functions_never_change(self):
        rappor = BloomRandomizer(128, 5, 8, f=0.5)
        first = hashlib.sha256(b"skdp bloom filter 3 0 s word").digest()
        assert rappor.places(3, b"s word")[:4].tolist() == [
            int.from_bytes(first[at : at + 8], "big") % 128 for at in range(0, 32, 8)
        ]
        assert rappor.places(3, b"s word").tolist() == [100, 70, 59, 108, 2]
        counts = np.bincount(np.concatenate([rappor.places(0, b"%d" % word) for word in range(20_000)]), minlength=128)
        assert chisquare(counts).pvalue > FALSE_ALARM


def permanent(rows, ids, *, key=KEY, column="x", **parameters):
    """Return the cohorts and the permanent bits: reports without a second round."""
    encoder = RapporEncoder(**({"epsilon": None, "f": 0.5, "p": 0.0, "q": 1.0, "n_bits": 64} | parameters))
    return encoder.set_params(secret_key=key).fit_transform(pd.DataFrame({column: rows}), record_id=ids).to_numpy()


class TestMemory:
    def test_the_same_record_repeats_itself_in_any_batch_and_order(self):
        rows, ids = np.array(["a", "b", "c", "a"], object), np.array(["r1", "r2", "r3", "r4"], object)
        first = permanent(rows, ids)
        assert np.array_equal(permanent(rows[::-1], ids[::-1]), first[::-1])
        assert np.array_equal(permanent(rows[2:], ids[2:]), first[2:])
        assert np.array_equal(permanent(rows, pl.Series(ids.tolist())), first)

    def test_everything_in_the_key_matters(self):
        base = permanent(["a"], ["r"], n_cohorts=1)[0, 1:]
        own = np.zeros(64, int)
        own[BloomRandomizer(64, 2, 1, f=0.5).places(0, b"s a")] = 1
        other_value = np.zeros(64, int)
        other_value[BloomRandomizer(64, 2, 1, f=0.5).places(0, b"s b")] = 1
        flips = base ^ own
        others = {
            "record": permanent(["a"], ["s"], n_cohorts=1)[0, 1:] ^ own,
            "kind of record": permanent(["a"], [1], n_cohorts=1)[0, 1:] ^ own,
            "value": permanent(["b"], ["r"], n_cohorts=1)[0, 1:] ^ other_value,
            "key": permanent(["a"], ["r"], n_cohorts=1, key=KEY[::-1])[0, 1:] ^ own,
            "column": permanent(["a"], ["r"], n_cohorts=1, column="y")[0, 1:] ^ own,
            "f": permanent(["a"], ["r"], n_cohorts=1, f=0.5000001)[0, 1:] ^ own,
        }
        # The same flips of a filter of another size would show the filters themselves.
        longer = np.zeros(65, int)
        longer[BloomRandomizer(65, 2, 1, f=0.5).places(0, b"s a")] = 1
        others["size"] = (permanent(["a"], ["r"], n_cohorts=1, n_bits=65)[0, 1:] ^ longer)[:64]
        for what, flipped in others.items():
            assert not np.array_equal(flipped, flips), what

    def test_a_record_does_not_end_in_what_begins_a_value(self):
        """Written one after the other, these pairs of an id and a value would be the same bytes."""
        flips = []
        for record, value in (("x", "s y"), ("xs ", "y")):
            bits = permanent([value], [record], n_cohorts=1)[0, 1:].copy()
            bits[BloomRandomizer(64, 2, 1, f=0.5).places(0, b"s " + value.encode())] ^= 1
            flips.append(bits.tolist())
        assert flips[0] != flips[1]

    def test_no_two_inputs_of_the_keyed_function_are_written_alike(self):
        inputs = [
            (("a", "b"), [framed(b"xy", b"z")]),
            (("a", "b"), [framed(b"x", b"yz")]),
            (("ab",), [framed(b"xy", b"z")]),
            (("a", "b", "xy"), [framed(b"z")]),
        ]
        assert len({keyed_digests(KEY, *parts)[0].tobytes() for parts in inputs}) == len(inputs)

    def test_the_cohort_belongs_to_the_record_not_to_the_value(self):
        ids = np.arange(300)
        one, two = permanent(["a"] * 300, ids), permanent(["b"] * 300, ids)
        assert np.array_equal(one[:, 0], two[:, 0])
        assert set(one[:, 0]) == set(range(8))

    def test_the_average_of_many_reports_shows_the_permanent_bits_and_no_more(self):
        rows, ids = pd.DataFrame({"x": ["a"] * 20}), np.arange(20)
        kept = permanent(["a"] * 20, ids, n_cohorts=1)[:, 1:]
        encoder = RapporEncoder(None, f=0.5, p=0.25, n_bits=64, n_cohorts=1, secret_key=KEY, random_state=0).fit(rows)
        mean = np.mean([encoder.transform(rows, record_id=ids).to_numpy()[:, 1:] for _ in range(60)], axis=0)
        assert np.array_equal(mean > 0.5, kept)
        # The mutant, fresh permanent coins each time, shows the filter.
        mutant = RapporEncoder(None, f=0.5, p=0.25, n_bits=64, n_cohorts=1, random_state=0).fit(rows)
        own = np.zeros(64, int)
        own[encoder.randomizer_.places(0, b"s a")] = 1
        mean = np.mean([mutant.transform(rows).to_numpy()[:, 1:] for _ in range(40)], axis=0).mean(axis=0)
        assert np.array_equal(mean > 0.5, own)
        assert not np.array_equal(kept[0], own)

    def test_without_a_key_every_call_is_new(self):
        rows = pd.DataFrame({"x": ["a"] * 5})
        encoder = RapporEncoder().fit(rows)
        assert not encoder.transform(rows).equals(encoder.transform(rows))
        seeded = RapporEncoder(random_state=1).fit(rows)
        first, second = seeded.transform(rows), seeded.transform(rows)
        assert not first.equals(second)
        assert first.equals(seeded.fit(rows).transform(rows))

    def test_key_and_ids_belong_together(self):
        rows = pd.DataFrame({"x": ["a", "b"]})
        with pytest.raises(ValueError, match="record_id requires permanent reports"):
            RapporEncoder().fit(rows).transform(rows, record_id=[1, 2])
        encoder = RapporEncoder(secret_key=KEY).fit(rows)
        with pytest.raises(ValueError, match="permanent reports require record_id"):
            encoder.transform(rows)
        for ids, message in (
            ([1], "an id for each of the 2 rows"),
            (np.array([[1, 2]]), "1-D"),
            (["r", "r"], "repeated entries"),
            ([1, None], "record_id holds missing values"),
            ([1, {2}], "record_id holds values that are neither"),
        ):
            with pytest.raises(ValueError, match=message):
                encoder.transform(rows, record_id=ids)
        with pytest.raises(TypeError, match="secret_key must be None or bytes, got str"):
            RapporEncoder(secret_key="k" * 32).fit(rows)
        with pytest.raises(ValueError, match="at least 16 bytes, got 4"):
            RapporEncoder(secret_key=b"tiny").fit(rows)

    def test_a_secret_key_is_not_shown(self):
        encoder = RapporEncoder(secret_key=SecretKey(KEY))
        for shown in (repr(encoder), repr(make_pipeline(encoder)), encoder._repr_html_(), str(encoder.get_params())):
            assert "\\x01\\x02" not in shown
        assert clone(encoder).secret_key == KEY
        assert len({SecretKey.generate() for _ in range(10)}) == 10

    def test_record_ids_are_routed_through_a_pipeline(self):
        rows = pd.DataFrame({"x": ["a", "b"], "y": ["c", "d"]})
        with config_context(enable_metadata_routing=True):
            encoder = RapporEncoder(None, f=0.5, p=0.0, q=1.0, secret_key=KEY).set_transform_request(record_id="who")
            step = ColumnTransformer([("private", encoder, ["x"])])
            pipeline = make_pipeline(step)
            first = pipeline.fit_transform(rows, who=[7, 8])
            assert np.array_equal(pipeline.transform(rows, who=[7, 8]), first)
            assert np.array_equal(pipeline.transform(rows[::-1], who=[8, 7]), first[::-1])
            assert first.shape == (2, 129)


def example(n=20_000):
    words = ["alpha"] * (n // 2) + ["beta"] * (n // 4) + ["gamma"] * (n // 8) + ["delta"] * (n // 8)
    return pd.DataFrame({"x": words})


class TestDecoding:
    @pytest.mark.parametrize(
        ("shape", "rounds"),
        [
            ((32, 2, 4), {"f": 0.5}),
            pytest.param((8, 1, 16), {"f": 0.1, "p": 0.0, "q": 1.0}, marks=pytest.mark.long),
            pytest.param((16, 3, 1), {"f": 0.2}, marks=pytest.mark.long),
        ],
    )
    def test_least_squares_is_unbiased_and_its_errors_are_right(self, shape, rounds):
        runs, words = 25, [f"w{place}" for place in range(10)]
        truth = np.array([600, 400, 300, 200, 150, 100, 100, 50, 50, 0])
        rows = pd.DataFrame({"x": np.repeat(words, truth)})
        n_bits, n_hashes, n_cohorts = shape
        encoder = RapporEncoder(
            None, n_bits=n_bits, n_hashes=n_hashes, n_cohorts=n_cohorts, random_state=5, **rounds
        ).fit(rows)
        tables = [encoder.decode(encoder.transform(rows), words, method="least_squares") for _ in range(runs)]
        counts, errors = (np.array([table[name] for table in tables]) for name in ("count", "std_error"))
        score = (counts.mean(axis=0) - truth) / (counts.std(axis=0, ddof=1) / math.sqrt(runs))
        assert abs(score).max() < norm.isf(FALSE_ALARM / 20)
        assert (counts.std(axis=0, ddof=1) / errors.mean(axis=0) == pytest.approx(np.ones(10), abs=0.4)) is True
        inside = abs(counts - truth) <= 1.96 * errors
        assert 0.91 < inside.mean() < 0.985

    def test_a_wrong_inversion_is_noticed(self):
        """The mutant forgets the first round: its counts shrink by 1 - f."""
        rows = example()
        encoder = RapporEncoder(None, f=0.5, n_bits=32, random_state=0).fit(rows)
        tally = encoder.tally(encoder.transform(rows))
        right = encoder.decode(tally, ["alpha"])["count"].iloc[0]
        encoder.randomizer_.on, encoder.randomizer_.off = Fraction(3, 4), Fraction(1, 2)
        assert right > 1.5 * encoder.decode(tally, ["alpha"])["count"].iloc[0]

    @pytest.mark.parametrize("method", ["nnls", "lasso", "least_squares"])
    def test_all_methods_find_the_counts(self, method):
        rows = example()
        encoder = RapporEncoder(None, f=0.5, n_bits=64, random_state=0)
        reports = encoder.fit_transform(rows)
        table = encoder.decode(reports, ["alpha", "beta", "gamma", "nothing"], method=method)  # "delta" is not listed
        assert table.index.tolist() == ["alpha", "beta", "gamma", "nothing"]
        assert table.index.name == "candidate"
        true = np.array([10_000, 5_000, 2_500, 0])
        counted = table["std_error"].notna()
        assert counted.iloc[:3].all()
        assert (abs(table["count"] - true)[counted] < 5 * table["std_error"][counted]).all()
        assert (table["std_error"][counted] < 800).all()
        if method != "least_squares":
            assert (table["count"] >= 0).all()

    def test_a_lasso_takes_more_candidates_than_there_are_bits(self):
        rows = example(100_000)
        encoder = RapporEncoder(None, f=0.25, p=0.1, q=0.9, n_bits=32, n_cohorts=4, random_state=2)
        tally = encoder.fit(rows).tally(encoder.transform(rows))
        words = ["alpha", "beta", "gamma", "delta", *(f"absent{place}" for place in range(400))]
        table = encoder.decode(tally, words, method="lasso")
        true = np.array([50_000, 25_000, 12_500, 12_500])
        assert (abs(table["count"].iloc[:4] - true) < 5 * table["std_error"].iloc[:4]).all()
        assert (table["count"].iloc[4:] > 2_000).sum() == 0
        with pytest.raises(ValueError, match="do not distinguish these candidates"):
            encoder.decode(tally, words, method="least_squares")
        assert encoder.decode(tally, words, method="nnls")["std_error"].isna().all()

    def test_several_columns(self):
        rows = pd.DataFrame({"x": ["a"] * 3_000 + ["b"] * 1_000, "y": [1.0] * 2_000 + [2.0] * 2_000})
        encoder = RapporEncoder(12.0, p=0.1, q=0.9, n_bits=16, random_state=0)
        table = encoder.fit(rows).decode(encoder.transform(rows), {"y": [1, 2], "x": ["a", "b"]})
        assert table.index.tolist() == [("y", 1), ("y", 2), ("x", "a"), ("x", "b")]
        assert (abs(table["count"] - [2_000, 2_000, 3_000, 1_000]) < 5 * table["std_error"]).all()
        with pytest.raises(ValueError, match="mapping of columns"):
            encoder.decode(encoder.transform(rows), ["a"])
        with pytest.raises(ValueError, match="mapping of columns"):
            encoder.decode(encoder.transform(rows), {"z": ["a"]})

    def test_tallies_add_and_other_protocols_are_refused(self):
        rows = example(400)
        encoder = RapporEncoder(n_bits=16, random_state=0).fit(rows)
        first, second = encoder.transform(rows), encoder.transform(rows)
        whole = encoder.tally(pd.concat([first, second]))
        parts = encoder.tally(first) + encoder.tally(second)
        assert np.array_equal(whole.ones, parts.ones)
        assert np.array_equal(whole.cohort_sizes, parts.cohort_sizes)
        pd.testing.assert_frame_equal(encoder.decode(whole, ["alpha"]), encoder.decode(parts, ["alpha"]))
        other = RapporEncoder(2.0, n_bits=16).fit(rows)
        with pytest.raises(ValueError, match="cannot be added"):
            parts + other.tally(other.transform(rows))
        with pytest.raises(ValueError, match="different parameters or columns"):
            other.decode(parts, ["alpha"])
        with pytest.raises(TypeError):
            parts + 1

    @pytest.mark.parametrize(
        ("candidates", "method", "error", "message"),
        [
            (["a"], "ols", ValueError, "method must be one of"),
            (["a"], None, ValueError, "method must be one of"),
            ("a", "nnls", TypeError, "must be a list, got str"),
            (3, "nnls", TypeError, "must be a list, got int"),
            ([], "nnls", ValueError, "at least one"),
            (["a", "a"], "nnls", ValueError, "different values"),
            ([1, 1.0], "nnls", ValueError, "different values"),
            ([None], "nnls", ValueError, "candidates of column 'x' holds missing values"),
            ([("a",)], "nnls", ValueError, "neither text nor numbers"),
        ],
    )
    def test_odd_candidates(self, candidates, method, error, message):
        rows = example(80)
        encoder = RapporEncoder(random_state=0).fit(rows)
        with pytest.raises(error, match=message):
            encoder.decode(encoder.transform(rows), candidates, method=method)

    def test_too_many_candidates(self):
        rows = example(80)
        encoder = RapporEncoder(n_bits=1024, random_state=0).fit(rows)
        with pytest.raises(ValueError, match="decode in parts"):
            encoder.decode(encoder.transform(rows), [str(place) for place in range(300_000)], method="nnls")

    def test_reports_of_something_else_are_refused(self):
        rows = example(80)
        encoder = RapporEncoder(n_bits=4, n_cohorts=2).fit(rows)
        reports = encoder.transform(rows)
        with pytest.raises(ValueError, match="the columns"):
            encoder.tally(reports.iloc[:, :-1])
        with pytest.raises(ValueError, match="the columns"):
            encoder.tally(reports[reports.columns[::-1]])
        with pytest.raises(ValueError, match="cohorts of the reports"):
            encoder.tally(reports.assign(cohort=2))
        with pytest.raises(ValueError, match="cohorts of the reports"):
            encoder.tally(reports.assign(cohort=0.5))
        with pytest.raises(ValueError, match="zeros and ones"):
            encoder.tally(reports.assign(x_bit_1=2))

    def test_nothing_can_be_said_at_an_epsilon_of_almost_nothing(self):
        rows = example(80)
        encoder = RapporEncoder(1e-300).fit(rows)
        assert encoder.guarantee_.epsilon == 0
        table = encoder.decode(encoder.transform(rows), ["alpha"])
        assert table["count"].isna().all()
        assert np.isinf(table["std_error"]).all()


class TestTally:
    @pytest.fixture
    def encoder(self):
        return RapporEncoder(n_bits=8, n_cohorts=3, random_state=0).fit(self.rows())

    def rows(self):
        return pd.DataFrame({"x": ["a", "b", "a", "c"] * 10, "y": ["u", "v", "v", "v"] * 10})

    def test_it_goes_to_text_and_file_and_back(self, encoder, tmp_path):
        tally = encoder.tally(encoder.transform(self.rows()))
        again = RapporTally.from_json(tally.to_json())
        tally.to_parquet(tmp_path / "tally.parquet")
        assert again == tally == RapporTally.from_parquet(tmp_path / "tally.parquet")
        assert again.ones.dtype == again.cohort_sizes.dtype == np.int64
        candidates = {"x": ["a", "b"], "y": ["u"]}
        pd.testing.assert_frame_equal(encoder.decode(again, candidates), encoder.decode(tally, candidates))
        assert (again + tally).n_reports == 80

    @pytest.mark.parametrize(
        "change",
        [
            {"epsilon": 1.5},
            {"p": 0.25},
            {"q": 0.8},
            {"n_bits": 9},
            {"n_hashes": 1},
            {"n_cohorts": 4},
        ],
        ids=str,
    )
    def test_client_and_server_cannot_disagree(self, encoder, change):
        other = clone(encoder).set_params(**change).fit(self.rows())
        tallies = [each.tally(each.transform(self.rows())) for each in (encoder, other)]
        read = RapporTally.from_json(tallies[1].to_json())
        with pytest.raises(ValueError, match="cannot be added"):
            _ = tallies[0] + read
        with pytest.raises(ValueError, match="the tally comes from an encoder with different parameters or columns"):
            encoder.decode(read, {"x": ["a"]})

    def test_other_columns_and_other_kinds_do_not_add(self, encoder):
        tally = encoder.tally(encoder.transform(self.rows()))
        renamed = self.rows().rename(columns={"y": "z"})
        other = clone(encoder).fit(renamed)
        with pytest.raises(ValueError, match="cannot be added"):
            _ = tally + other.tally(other.transform(renamed))
        labels = RandomizedResponseEncoder(categories=[["a", "b", "c"], ["u", "v"]]).fit(self.rows())
        counts = labels.tally(labels.transform(self.rows()))
        for one, another in ((tally, counts), (counts, tally)):
            with pytest.raises(TypeError):
                _ = one + another
        with pytest.raises(ValueError, match="no tally of this kind"):
            RapporTally.from_json(counts.to_json())
        with pytest.raises(ValueError, match="no tally of this kind"):
            ReportTally.from_json(tally.to_json())

    def test_what_is_no_tally(self, encoder, tmp_path):
        content = json.loads(encoder.tally(encoder.transform(self.rows())).to_json())
        whole = content["ones"]

        def read(**changes):
            return RapporTally.from_json(json.dumps(content | changes))

        read()
        for changes, match in (
            ({"format": "skdp RAPPOR tally, version 9"}, "expected the format"),
            ({"ones": 5}, "no tally of this kind"),
            ({"ones": whole[:1]}, "do not fit its parameters"),
            ({"ones": [whole[0][:-1], whole[1]]}, "do not fit its parameters"),
            ({"ones": [[0.5] * 24, whole[1]]}, "do not fit each other"),
            ({"ones": [[-1] * 24, whole[1]]}, "do not fit each other"),
            ({"ones": [[99] * 24, whole[1]]}, "do not fit each other"),
            ({"ones": [["x"] * 24, whole[1]]}, "do not fit each other"),
            ({"cohort_sizes": [40, 0]}, "do not fit each other"),
            ({"cohort_sizes": [20.0, 20, 0]}, "do not fit each other"),
            ({"cohort_sizes": [50, -10, 0]}, "do not fit each other"),
            ({"cohort_sizes": [2**63 - 1, 0, 0]}, "do not fit each other"),
            ({"cohort_sizes": [2**70, 0, 0]}, "do not fit each other"),
            ({"ones": [[1, [2]], whole[1]]}, "do not fit"),
            ({"protocol": content["protocol"] | {"columns": "xy"}}, "must be a list"),
            ({"cohort_sizes": None}, "incomplete"),
            ({"protocol": {}}, "incomplete"),
            ({"protocol": content["protocol"] | {"n_bits": 7}}, "do not fit its parameters"),
            ({"protocol": content["protocol"] | {"n_bits": "8"}}, "do not fit its parameters"),
            ({"protocol": content["protocol"] | {"columns": ["x"]}}, "do not fit its parameters"),
        ):
            with pytest.raises(ValueError, match=match):
                read(**changes)
        with pytest.raises(ValueError, match="no tally of this kind"):
            RapporTally.from_json("[]")
        pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
        with pytest.raises(ValueError, match="no tally of this kind"):
            RapporTally.from_parquet(tmp_path / "other.parquet")
        labels = RandomizedResponseEncoder(categories=[["a", "b"]]).fit([["a"]])
        labels.tally(labels.transform([["a"]])).to_parquet(tmp_path / "labels.parquet")
        with pytest.raises(ValueError, match="no tally of this kind"):
            RapporTally.from_parquet(tmp_path / "labels.parquet")

    def test_columns_that_cannot_be_written(self):
        rows = pd.DataFrame({("a", "b"): ["x"]})
        encoder = RapporEncoder(n_bits=4).fit(rows)
        tally = encoder.tally(encoder.transform(rows))
        assert (tally + tally).n_reports == 2
        with pytest.raises(TypeError, match="columns named by text or numbers, got tuple"):
            tally.to_json()


class TestFrames:
    def test_any_frame_in_the_same_kind_out(self, make_frame, values_of):
        frame = make_frame({"x": ["a", "b", "a"], "y": ["u", "v", "v"]})
        encoder = RapporEncoder(400.0, p=0.0, q=1.0, n_bits=8, n_cohorts=1, n_hashes=1)
        reports = encoder.fit_transform(frame)
        assert type(reports) is type(frame)
        for name, values in {"x": "aba", "y": "uvv"}.items():
            bits = np.array([values_of(reports, f"{name}_bit_{bit}") for bit in range(8)]).T
            expected = [encoder.randomizer_.places(0, b"s " + value.encode())[0] for value in values]
            assert bits.argmax(axis=1).tolist() == expected  # without noise, all but surely
            assert (bits.sum(axis=1) == 1).all()
        assert values_of(reports, "cohort") == [0, 0, 0]
        if isinstance(frame, pd.DataFrame):
            assert reports.index.equals(frame.index)
            assert encoder.get_feature_names_out().tolist() == reports.columns.tolist()

    def test_kinds_of_values_stay_apart_and_equal_ones_together(self):
        column = np.array([1, 1.0, True, "1", np.int8(1), np.float32(1), np.str_("1"), 0.5, 10**30], object)
        written = to_bytes(column)
        assert written[0] == written[1] == written[4] == written[5]
        assert written[3] == written[6]
        assert len({*written}) == 5

    def test_missing_is_an_error_or_a_value(self, make_frame):
        frame = make_frame({"x": ["a", None]}, {"x": ["a", None]})
        with pytest.raises(ValueError, match=r"column 'x' holds missing values .* handle_missing='value'"):
            RapporEncoder().fit_transform(frame)
        encoder = RapporEncoder(400.0, p=0.0, q=1.0, n_bits=64, n_cohorts=1, handle_missing="value")
        table = encoder.fit(frame).decode(encoder.transform(frame), ["a", None])
        assert table["count"].round().tolist() == [1, 1]

    def test_odd_values_are_refused_unseen_and_before_a_charge(self):
        ledger = PrivacyLedger(epsilon=5.0)
        encoder = RapporEncoder(ledger=ledger).fit(pd.DataFrame({"x": ["a"]}))
        for value in (np.nan, np.inf, ("secret",), None, b"secret", pd.Timestamp("2020-01-01")):
            with pytest.raises(ValueError, match="column 'x' holds") as caught:
                encoder.transform(pd.DataFrame({"x": pd.Series(["a", value], dtype=object)}))
            assert "secret" not in str(caught.value)
            assert "2020" not in str(caught.value)
        assert ledger.spent == (0.0, 0.0)
        with pytest.raises(ValueError, match=r"X has the columns|feature names"):
            encoder.transform(pd.DataFrame({"y": ["a"]}))

    def test_arrays_and_set_output(self):
        array = np.array([["a", "b"], ["c", "d"]], object)
        encoder = RapporEncoder(n_bits=4).fit(array)
        assert encoder.transform(array).shape == (2, 9)
        assert encoder.transform(array).dtype == np.uint8
        assert encoder.get_feature_names_out()[[0, 1, 5]].tolist() == ["cohort", "x0_bit_0", "x1_bit_0"]
        out = encoder.set_output(transform="polars").transform(array)
        assert isinstance(out, pl.DataFrame)
        assert out.columns == encoder.get_feature_names_out().tolist()

    def test_too_large_for_the_memory(self):
        ledger = PrivacyLedger(epsilon=5.0)
        rows = pd.DataFrame({"x": ["a"] * 40_000})
        encoder = RapporEncoder(n_bits=65_536, ledger=ledger).fit(rows)
        with pytest.raises(ValueError, match="report in batches"):
            encoder.transform(rows)
        assert ledger.spent == (0.0, 0.0)


class TestParameters:
    @each(
        "parameters error",
        [
            ({"epsilon": 0}, ValueError),
            ({"epsilon": math.nan}, ValueError),
            ({"epsilon": "1"}, TypeError),
            ({"epsilon": None}, ValueError),
            ({"f": 0.5}, ValueError),
            ({"epsilon": None, "f": 0}, ValueError),
            ({"epsilon": None, "f": 1.0}, ValueError),
            ({"epsilon": None, "f": math.nan}, ValueError),
            ({"epsilon": None, "f": True}, TypeError),
            ({"p": 0.8}, ValueError),
            ({"p": 0.75}, ValueError),
            ({"q": 1.5}, ValueError),
            ({"p": "0"}, TypeError),
            ({"n_bits": 1}, ValueError),
            ({"n_bits": 8.0}, TypeError),
            ({"n_hashes": 0}, ValueError),
            ({"n_hashes": 129}, ValueError),
            ({"n_cohorts": 0}, ValueError),
            ({"handle_missing": "drop"}, ValueError),
            ({"constant_values": "yes"}, TypeError),
            ({"ledger": 1.0}, TypeError),
            ({"random_state": np.random.RandomState(0)}, TypeError),
        ],
    )
    def test_odd_ones(self, parameters, error):
        with pytest.raises(error):
            RapporEncoder(**parameters).fit(example(8))

    def test_the_ledger(self):
        rows, ids = example(8), np.arange(8)
        ledger = PrivacyLedger(epsilon=100.0)
        encoder = RapporEncoder(None, f=0.5, ledger=ledger).fit(rows)
        for _ in range(2):
            encoder.transform(rows)
        assert ledger.spent[0] == pytest.approx(2 * encoder.instantaneous_guarantee_.epsilon)
        for constant, times in ((False, 3), (True, 1)):
            ledger = PrivacyLedger(epsilon=100.0)
            encoder.set_params(ledger=ledger, secret_key=KEY, constant_values=constant).fit(rows)
            for _ in range(3):
                encoder.transform(rows, record_id=ids)
            assert ledger.spent[0] == pytest.approx(times * 4 * math.log(3))
        encoder.set_params(ledger=PrivacyLedger(epsilon=1.0)).fit(rows)
        for _ in range(2):  # a refused charge is asked for again
            with pytest.raises(BudgetExceeded):
                encoder.transform(rows, record_id=ids)

    def test_parameters_that_are_set_later_wait_for_fit(self):
        rows = example(8)
        encoder = RapporEncoder(None, f=0.5, n_bits=16, random_state=0).fit(rows)
        expected = encoder.guarantee_
        encoder.set_params(f=0.01, n_bits=4, secret_key=KEY, handle_missing="x", ledger=3)
        assert encoder.transform(rows).shape == (8, 17)
        assert encoder.guarantee_ == expected

    def test_before_fit(self):
        for call in ("transform", "tally"):
            with pytest.raises(NotFittedError):
                getattr(RapporEncoder(), call)(example(8))
        with pytest.raises(NotFittedError):
            RapporEncoder().decode(example(8), ["a"])

    def test_pickles_replay_a_seed_and_not_the_secure_coins(self):
        rows = example(40)
        for random_state, same in ((0, True), (None, False)):
            encoder = RapporEncoder(random_state=random_state).fit(rows)
            first, second = (pickle.loads(pickle.dumps(encoder)).transform(rows) for _ in range(2))
            assert first.equals(second) is same
        assert not any("alpha" in str(value) for value in vars(encoder).values())
