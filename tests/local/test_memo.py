"""Memoised reports: the same for ever, as random as the channel says, and no more telling for being repeated."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, ECB
from scipy.stats import chi2_contingency, chisquare
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import (
    BudgetExceeded,
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    Interval,
    LocalHashingEncoder,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.coding import ColumnError
from skdp.exact import exp_bounds
from skdp.local import OnFitOnly, SecretKey
from skdp.local.memo import Memo, _memo, are_distinct, canonical, framed, keyed_digests
from skdp.oracles import RandomizedResponse
from skdp.randomness import DigestSource
from tests.conftest import each

FALSE_ALARM = 1e-6
KEY = SecretKey(b"a key that everybody knows, for tests")
DOMAIN = {"x": ["a", "b", "c", "d", "e"], "y": [0, 1, 2]}
ENCODERS = [
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
    LocalHashingEncoder,
    SubsetSelectionEncoder,
    HadamardResponseEncoder,
    FrequencyOracleEncoder,
]
TWO_ROUNDS = [*ENCODERS[:3], FrequencyOracleEncoder]


def make(kind=RandomizedResponseEncoder, epsilon=2.0, **parameters):
    return kind(epsilon, **{"categories": DOMAIN, "memoize": True, "secret_key": KEY} | parameters)


def table(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.choice(np.array(values, object), n) for name, values in DOMAIN.items()}).astype(
        {"y": int}
    )


def same(left, right):
    return np.array_equal(np.asarray(left).astype(str), np.asarray(right).astype(str))


@pytest.fixture(params=ENCODERS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture(params=["split", "joint", "sample"])
def strategy(request):
    return request.param


class TestPermanence:
    def test_over_calls_orders_batches_pickles_and_clones(self, kind, strategy):
        rows, ids = table(), np.arange(60)
        encoder = make(kind, strategy=strategy, handle_unknown="uniform").fit(rows)
        rows.loc[::7, "x"] = "undeclared"
        reports = encoder.transform(rows, record_id=ids)
        assert same(encoder.transform(rows, record_id=ids), reports)
        assert same(encoder.transform(rows[::-1], record_id=ids[::-1]), reports[::-1])
        parts = [
            encoder.transform(rows[start : start + 13], record_id=ids[start : start + 13]) for start in (0, 13, 26)
        ]
        assert same(pd.concat(parts), reports[:39])
        with pytest.raises(ValueError, match="record_id has repeated entries; a record reports once in a call"):
            encoder.transform(pd.concat([rows, rows]), record_id=[*ids, *ids])
        for other in (pickle.loads(pickle.dumps(encoder)), clone(encoder).fit(rows), encoder.fit(rows[:1])):
            assert same(other.transform(rows, record_id=ids), reports)
        assert not same(
            make(kind, strategy=strategy, secret_key=b"x" * 16).fit_transform(table(), record_id=ids), reports
        )

    def test_over_kinds_of_frames(self, make_frame, values_of):
        rows = table(8)
        frame = make_frame(rows.to_dict("list"), DOMAIN)
        reports = make().fit_transform(frame, record_id=range_of(8))
        expected = make().fit_transform(rows, record_id=range_of(8))
        for name in DOMAIN:
            assert values_of(reports, name) == expected[name].tolist()

    @pytest.mark.parametrize(
        "ids",
        [
            np.arange(6),
            np.arange(6, dtype=np.uint8),
            np.arange(6.0),
            pd.Series(range(6), index=list("uvwxyz")),
            pd.Series(range(6), dtype="Int16"),
            pd.Index(range(6)),
            pl.Series(range(6)),
            pa.array(range(6)),
            pa.chunked_array([range(2), range(2, 6)]),
            tuple(range(6)),
            np.array(range(6), object),
        ],
        ids=lambda ids: f"{type(ids).__module__}.{type(ids).__name__}",
    )
    def test_over_kinds_of_ids(self, ids):
        rows = table(6)
        assert same(make().fit_transform(rows, record_id=ids), make().fit_transform(rows, record_id=list(range(6))))

    @each(
        "kind, expected",
        list(
            zip(
                ENCODERS,
                ["bb1f810ae76b", "ad508fe311dc", "600aa9a578db", "bc5ae943cdc3", "008ea961dc9f", "95d6e9678879"],
                strict=True,
            )
        ),
    )
    def test_over_versions(self, kind, expected):
        """If an oracle uses its random bits otherwise, raise the format in `local.memo._memo`; write these again."""
        rows = pd.DataFrame({name: [values[row % len(values)] for row in range(60)] for name, values in DOMAIN.items()})
        reports = make(kind).fit_transform(rows, record_id=range_of(60))
        written = repr(np.asarray(reports).tolist()).encode()
        assert hashlib.sha256(written).hexdigest()[:12] == expected

    def test_nothing_is_stored(self, kind):
        encoder = make(kind).fit(table())
        before = pickle.dumps(encoder)
        encoder.transform(table(), record_id=range_of(60))
        assert pickle.dumps(encoder) == before


def range_of(n):
    return list(range(n))


class TestKey:
    """What the permanent report is a function of: a change of any of these gives fresh coins."""

    @pytest.fixture
    def reports(self):
        def report(kind=RandomizedResponseEncoder, prefix="p", value="a", column="x", epsilon=0.1, **parameters):
            rows = pd.DataFrame({column: [value] * 400})
            categories = {column: DOMAIN["x"]} | parameters.pop("categories", {})
            encoder = make(kind, epsilon, categories=categories, **parameters)
            return encoder.fit_transform(rows, record_id=[f"{prefix}{row}" for row in range(400)])[column].tolist()

        return report

    @pytest.mark.parametrize(
        "change",
        [
            {"secret_key": KEY + b"x"},
            {"prefix": "q"},
            {"value": "b"},
            {"column": "z"},
            {"epsilon": 0.1001},
            {"categories": {"x": ["a", "b", "c", "d", "f"]}},
            {"categories": {"x": ["a", "b", "c", "e", "d"]}},
        ],
        ids=str,
    )
    def test_another(self, reports, change):
        """Two independent reports at a small epsilon agree with probability 1/5."""
        agreements = sum(left == right for left, right in zip(reports(), reports(**change), strict=True))
        assert 40 < agreements < 120

    def test_the_second_round_the_seed_and_the_other_columns_do_not_enter(self):
        rows = table()
        one = make(random_state=1).fit_transform(rows, record_id=range_of(60))
        assert same(make(random_state=2).fit_transform(rows, record_id=range_of(60)), one)
        moved = rows.assign(y=0)
        assert same(make().fit_transform(moved, record_id=range_of(60))["x"], one["x"])

    def test_rows_columns_and_values_are_independent(self):
        """Pairs of reports at a small epsilon: all 25 combinations are equally frequent."""
        ids = range_of(5_000)
        rows = pd.DataFrame({"u": ["a"] * 5_000, "v": ["a"] * 5_000})
        encoder = make(epsilon=1e-6, categories=[DOMAIN["x"]] * 2).fit(rows)
        reports = encoder.transform(rows, record_id=ids)
        other = encoder.transform(rows.assign(u="b"), record_id=ids)
        for left, right in [
            (reports["u"], reports["v"]),
            (reports["u"], other["u"]),
            (reports["u"][:-1], reports["u"][1:]),
        ]:
            seen = Counter(zip(left, right, strict=True))
            assert chisquare([seen[pair] for pair in product(DOMAIN["x"], repeat=2)]).pvalue > FALSE_ALARM

    def test_ids_are_told_apart_with_their_types(self):
        values = ["1", 1, True, b"1", 1.5, "1.5", (1,), ("1",), (1, 1), ((1,), 1), (1, (1,)), ("a", "bc"), ("ab", "c")]
        values += [(), "", b"", UUID(int=1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)]
        values += ["2020-01-01", "2020-01-01T00:00:00", "True", "n 1", "s ", 10**30, -1, 2**63]
        values += [("as b",), ("a", "b"), ("a", ("b",)), ("a", "t s b")]
        written = list(map(canonical, values))
        assert len(set(written)) == len(values)
        equal = [(1, 1.0, np.int8(1), np.float32(1), Fraction(1)), ("a", np.str_("a")), (True, np.True_), (0.0, -0.0)]
        equal += [(datetime(2020, 1, 1), date(2020, 1, 1), pd.Timestamp(2020, 1, 1), np.datetime64("2020-01-01", "ns"))]
        equal += [(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))]
        for group in equal:
            assert len({canonical(value) for value in group}) == 1

    @each("value", [None, math.nan, pd.NA, pd.NaT, math.inf, [1], {1}, 1j, (1, None)])
    def test_what_is_no_id(self, value):
        with pytest.raises(ColumnError):
            canonical(value)

    def test_a_source_is_one_stream_however_it_is_cut(self):
        whole = hashlib.shake_256(b"seed").digest(3_000)
        source = DigestSource(b"seed")
        parts = [source.bytes(size).tobytes() for size in (0, 1, 7, 128, 0, 1, 135, 136, 137, 2_000)]
        assert b"".join(parts) == whole[: sum(map(len, parts))]


class TestChannel:
    """The permanent reports of many records follow the exact channel."""

    N = 2_000

    def reports(self, kind, value, **parameters):
        encoder = make(kind, 1.5, categories={"x": DOMAIN["x"]}, **parameters)
        rows = pd.DataFrame({"x": [value] * self.N})
        return encoder.fit(rows), np.asarray(encoder.transform(rows, record_id=range_of(self.N)))

    @pytest.mark.parametrize("kind", [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder])
    @pytest.mark.parametrize("value", ["a", "d"])
    def test_of_categories_and_bits(self, kind, value):
        encoder, reports = self.reports(kind, value)
        row = encoder.channel()[0][DOMAIN["x"].index(value)]
        seen = Counter(map(tuple, reports.tolist()))
        if kind is RandomizedResponseEncoder:
            order = [(label,) for label in DOMAIN["x"]]
        else:
            order = list(product((0, 1), repeat=5))
        if kind is SubsetSelectionEncoder:
            order = [
                tuple(int(v in members) for v in range(5)) for members in combinations(range(5), sum(order_of(seen)))
            ]
        assert sum(seen[key] for key in order) == self.N
        assert chisquare([seen[key] for key in order], np.array(row, float) * self.N).pvalue > FALSE_ALARM

    def test_of_indices(self):
        encoder, reports = self.reports(HadamardResponseEncoder, "c")
        row = np.array(encoder.channel()[0][2], float)
        seen = np.bincount(reports[:, 0].astype(int), minlength=row.size)
        assert chisquare(seen, row * self.N).pvalue > FALSE_ALARM

    def test_of_seeds_and_buckets(self):
        encoder, reports = self.reports(LocalHashingEncoder, "c")
        oracle = encoder.oracles_[0]
        seeds = reports[:, 0].astype(np.uint64)
        assert len(set(seeds.tolist())) > 0.99 * self.N
        shift = (reports[:, 1].astype(int) - oracle.hash_family(seeds, np.full(self.N, 2))) % oracle.n_buckets
        expected = np.array(oracle._inner.channel()[0], float) * self.N
        assert chisquare(np.bincount(shift, minlength=oracle.n_buckets), expected).pvalue > FALSE_ALARM
        supports = oracle.supports(reports.astype(np.uint64)).mean(axis=0)
        assert supports == pytest.approx([float(oracle.p if v == 2 else oracle.q) for v in range(5)], abs=0.035)

    def test_of_buckets(self):
        """Two values of a record share its seed, and no coin of their reports if their buckets differ."""
        encoder, reports = self.reports(LocalHashingEncoder, "a")
        rows = pd.DataFrame({"x": ["b"] * self.N})
        others = np.asarray(encoder.transform(rows, record_id=range_of(self.N)))
        assert (others[:, 0] == reports[:, 0]).all()
        g, seeds = encoder.oracles_[0].n_buckets, reports[:, 0].astype(np.uint64)
        places = [encoder.oracles_[0].hash_family(seeds, np.full(self.N, value)) for value in (0, 1)]
        moved = [(found[:, 1].astype(int) - place) % g for found, place in zip((reports, others), places, strict=True)]
        both = [moves[places[0] != places[1]] for moves in moved]
        assert chi2_contingency(np.histogram2d(*both, bins=g)[0]).pvalue > FALSE_ALARM

    @pytest.mark.long
    def test_of_an_undeclared_value(self):
        """It is one more value, whose row of the channel is the mean of the others."""
        encoder, reports = self.reports(RandomizedResponseEncoder, "undeclared", handle_unknown="uniform")
        seen = Counter(reports[:, 0].tolist())
        assert chisquare([seen[value] for value in DOMAIN["x"]]).pvalue > FALSE_ALARM
        for value in DOMAIN["x"]:  # and it shares its coins with none of them
            own = encoder.transform(pd.DataFrame({"x": [value] * self.N}), record_id=range_of(self.N))
            agreement = (own["x"].to_numpy() == reports[:, 0]).mean()
            assert agreement == pytest.approx(1 / 5, abs=0.05)

    @pytest.mark.parametrize("kind", [RandomizedResponseEncoder, LocalHashingEncoder])
    def test_no_two_draws_of_a_release_are_for_one_purpose(self, kind, strategy, monkeypatch):
        """The place of an undeclared value, the sampled column, seeds, and the reports of each column."""
        purposes, drawn = [], _memo.digest_blocks
        monkeypatch.setattr(_memo, "digest_blocks", lambda key, *of: purposes.append(of[0]) or drawn(key, *of))
        make(kind, strategy=strategy, handle_unknown="uniform").fit_transform(table(), record_id=range_of(60))
        assert len(set(purposes)) == len(purposes) >= 2

    def test_a_declared_stand_in_is_that_value(self):
        encoder, reports = self.reports(RandomizedResponseEncoder, "undeclared", handle_unknown="b")
        rows = pd.DataFrame({"x": ["b"] * self.N})
        assert same(encoder.transform(rows, record_id=range_of(self.N)), reports)

    def test_the_sampled_column_is_permanent_and_blind(self):
        rows = table(self.N)
        encoder = make(strategy="sample").fit(rows)
        chosen = encoder.transform(rows, record_id=range_of(self.N))["sampled"]
        assert chisquare(np.bincount(chosen)).pvalue > FALSE_ALARM
        changed = encoder.transform(rows[::-1], record_id=range_of(self.N))["sampled"]
        assert chosen.tolist() == changed.tolist()


def order_of(seen):
    return next(iter(seen))


def attack(encoder, n=400, calls=100):
    """How often the most frequent report of many is the true value."""
    rows = pd.DataFrame({"x": np.resize(DOMAIN["x"], n)})
    encoder.fit(rows)
    reports = [encoder.transform(rows, record_id=range_of(n))["x"].to_numpy() for _ in range(calls)]
    guesses = [Counter(column).most_common(1)[0][0] for column in np.transpose(reports)]
    return np.mean(guesses == rows["x"].to_numpy())


class TestAveraging:
    def test_many_reports_show_no_more_than_the_permanent_one(self):
        encoder = make(epsilon=1.0, instantaneous_epsilon=0.7, categories={"x": DOMAIN["x"]}, random_state=0)
        bound = float(RandomizedResponseEncoder(1.0, categories=[DOMAIN["x"]]).fit([["a"]]).oracles_[0].p)
        assert attack(encoder) == pytest.approx(bound, abs=5 * math.sqrt(bound / 400))

    @pytest.mark.long
    def test_a_mutant_without_memory_is_seen_through(self, monkeypatch):
        """What the test above would find if the first round were drawn anew."""
        calls = iter(range(10**6))
        report = Memo.report

        def forgetful(self, codes, records):
            salt = str(next(calls)).encode()
            return report(self, codes, [record + salt for record in records])

        monkeypatch.setattr(Memo, "report", forgetful)
        encoder = make(epsilon=1.0, instantaneous_epsilon=0.7, categories={"x": DOMAIN["x"]}, random_state=0)
        assert attack(encoder) > 0.9

    def test_the_sampled_column_does_not_give_the_others_away(self):
        encoder = make(strategy="sample", instantaneous_epsilon=1.0).fit(table())
        sampled = [encoder.transform(table(), record_id=range_of(60))["sampled"].tolist() for _ in range(20)]
        assert all(column == sampled[0] for column in sampled)


class TestSecondRound:
    @each("kind", TWO_ROUNDS)
    def test_the_whole_record_is_within_both_epsilons(self, kind, strategy):
        encoder = make(kind, 2.0, instantaneous_epsilon=0.6, strategy=strategy).fit(table())
        for oracles, guarantee, bound in [
            (encoder.oracles_, encoder.instantaneous_guarantee_, 0.6),
            (encoder.permanent_oracles_, encoder.guarantee_, 2.0),
        ]:
            ratios = [oracle.worst_ratio for oracle in oracles]
            ratio = max(ratios) if strategy == "sample" else math.prod(ratios)
            assert ratio <= exp_bounds(guarantee.epsilon)[0]
            assert ratio <= exp_bounds(bound)[0]
            assert guarantee.epsilon == pytest.approx(bound)

    @pytest.mark.parametrize("kind", TWO_ROUNDS)
    def test_estimates_are_unbiased_with_the_stated_errors(self, kind, strategy):
        n, n_runs, z = 600, 24, []
        rows = table(n)
        for run in range(n_runs):
            key = bytes([run]) * 16
            encoder = make(kind, 3.0, instantaneous_epsilon=2.0, strategy=strategy, secret_key=key, random_state=run)
            reports = encoder.fit_transform(rows, record_id=range_of(n))
            estimate = encoder.estimate_counts(encoder.tally(reports))
            if strategy == "joint":
                true = rows.value_counts().reindex(estimate.index).fillna(0)
            else:
                true = pd.Series([(rows[name] == value).sum() for name in DOMAIN for value in DOMAIN[name]])
            z.append((estimate["count"].to_numpy() - true.to_numpy()) / estimate["std_error"].to_numpy())
        # The deviations of both, over runs, are 1 / sqrt(24) and some .14.
        assert np.abs(np.mean(z, axis=0)).max() < 5 / math.sqrt(n_runs)
        assert np.mean(np.square(z)) == pytest.approx(1, abs=0.7)
        single = RandomizedResponseEncoder(2.0, strategy=strategy, categories=DOMAIN).fit(rows)
        if kind is RandomizedResponseEncoder:  # the errors of one report are those of its own epsilon
            other = single.estimate_counts(single.transform(rows))
            assert estimate["std_error"].mean() == pytest.approx(other["std_error"].mean(), rel=0.04)

    @pytest.mark.parametrize("kind", TWO_ROUNDS)
    def test_each_call_has_fresh_noise(self, kind):
        encoder = make(kind, instantaneous_epsilon=0.5).fit(table())
        calls = [encoder.transform(table(), record_id=range_of(60)) for _ in range(3)]
        permanent = make(kind).fit_transform(table(), record_id=range_of(60))
        for one, other in combinations([*calls, permanent], 2):
            assert not same(one, other)
        seeded = make(kind, instantaneous_epsilon=0.5, random_state=3)
        assert same(*(seeded.fit_transform(table(), record_id=range_of(60)) for _ in range(2)))

    def test_single_reports_follow_the_composed_channel(self):
        n = 6_000
        rows = pd.DataFrame({"x": ["b"] * n})
        encoder = make(categories={"x": DOMAIN["x"]}, instantaneous_epsilon=1.0, random_state=0).fit(rows)
        seen = Counter(encoder.transform(rows, record_id=range_of(n))["x"])
        expected = np.array(encoder.channel()[0][1], float) * n
        assert chisquare([seen[value] for value in DOMAIN["x"]], expected).pvalue > FALSE_ALARM

    def test_p_and_q_instead_of_epsilon(self):
        encoder = make(UnaryEncodingTransformer, None, p=0.75, q=0.25, instantaneous_epsilon=1.0).fit(table())
        assert encoder.guarantee_.epsilon == pytest.approx(2 * math.log(9))
        assert encoder.instantaneous_guarantee_.epsilon == pytest.approx(1.0)
        with pytest.raises(ValueError, match=r"instantaneous_epsilon must be smaller than epsilon, got 5 and 4\.39"):
            make(UnaryEncodingTransformer, None, p=0.75, q=0.25, instantaneous_epsilon=5).fit(table())

    def test_tallies_of_one_and_of_two_rounds_refuse_to_add(self):
        rows, ids = table(), range_of(60)
        single, double = make(epsilon=1.0).fit(rows), make(instantaneous_epsilon=1.0).fit(rows)
        tallies = [encoder.tally(encoder.transform(rows, record_id=ids)) for encoder in (single, double)]
        with pytest.raises(ValueError, match="different parameters"):
            _ = tallies[0] + tallies[1]


class TestHashing:
    """LOLOHA: a record has one seed, and one permanent report a bucket."""

    @pytest.mark.parametrize("buckets", [2, 3, None])
    def test_no_record_has_more_permanent_reports_than_buckets(self, buckets):
        k, n = 40, 50
        encoder = LocalHashingEncoder(
            1.0, categories={"x": range(k)}, n_buckets=buckets, memoize=True, secret_key=KEY
        ).fit(pd.DataFrame({"x": [0]}))
        oracle = encoder.permanent_oracles_[0]
        rows = pd.DataFrame({"x": np.tile(np.arange(k), n)})
        ids = np.repeat(np.arange(n), k)
        # A call for each value that the records ever have.
        calls = [
            encoder.transform(rows[value::k].reset_index(drop=True), record_id=ids[value::k]).to_numpy()
            for value in range(k)
        ]
        reports = np.stack(calls, axis=1).reshape(n * k, 2).astype(np.uint64)
        own = oracle.hash_family(reports[:, 0], rows["x"].to_numpy())
        for record in range(n):
            mine = ids == record
            assert len(set(reports[mine, 0].tolist())) == 1
            pairs = set(zip(own[mine].tolist(), reports[mine, 1].tolist(), strict=True))
            assert len(pairs) == len({bucket for bucket, _ in pairs}) <= oracle.n_buckets
        assert encoder.guarantee_for_changes(k).epsilon == pytest.approx(oracle.n_buckets * 1.0)

    @pytest.mark.parametrize(("epsilon", "again"), [(4.0, 1.0), (2.0, 0.5), (3.0, 2.5), (8.0, 3.0), (1.0, 0.999)])
    @pytest.mark.parametrize("k", [2, 5, 40, 1_000])
    def test_no_other_number_of_buckets_has_a_smaller_error(self, k, epsilon, again):
        """The error of both rounds, exactly, for every number of buckets; the rounding of coins is left to them."""
        rows = pd.DataFrame({"x": [0]})
        parameters = {"categories": {"x": range(k)}, "instantaneous_epsilon": again}
        best = make(LocalHashingEncoder, epsilon, **parameters).fit(rows)
        error = best.oracles_[0].mean_squared_error
        for buckets in range(2, min(k, 50) + 1):
            other = make(LocalHashingEncoder, epsilon, n_buckets=buckets, **parameters).fit(rows).oracles_[0]
            assert error <= other.mean_squared_error * (1 + 1e-12)
            assert (other.n_buckets == best.oracles_[0].n_buckets) == (other.mean_squared_error == error)
        one_round = make(LocalHashingEncoder, epsilon, categories={"x": range(k)}).fit(rows)
        assert best.permanent_oracles_[0].n_buckets <= one_round.permanent_oracles_[0].n_buckets
        assert best.guarantee_for_changes(k).epsilon <= one_round.guarantee_for_changes(k).epsilon


class TestPromises:
    def test_what_is_said(self):
        rows = table()
        assert make().fit(rows).guarantee_.mechanism == (
            "k-ary randomised response, memoised: epsilon per distinct value of a column, at most 5 of them"
        )
        joint = make(strategy="joint").fit(rows).guarantee_
        assert joint.mechanism.endswith("epsilon per distinct value of the columns together, at most 15 of them")
        hashing = make(LocalHashingEncoder, n_buckets=3).fit(rows).guarantee_
        assert hashing.mechanism.endswith("epsilon per distinct bucket of a column, at most 3 of them")
        unknown = make(handle_unknown="uniform").fit(rows).guarantee_
        assert unknown.mechanism.endswith("at most 6 of them")

    @each(
        "parameters, costs",
        [
            ({"strategy": "split"}, {1: 2, 2: 4, 3: 6, 4: 7, 5: 8, 100: 8}),
            ({"strategy": "joint"}, {1: 2, 2: 4, 15: 30, 16: 30}),
            ({"strategy": "sample"}, {1: 2, 3: 6, 5: 10, 6: 10}),
            ({"strategy": "split", "handle_unknown": "uniform"}, {4: 8, 5: 9, 6: 10, 7: 10}),
            ({"kind": LocalHashingEncoder, "n_buckets": 2}, {1: 2, 2: 4, 3: 4}),
        ],
    )
    def test_the_cost_of_changes(self, parameters, costs):
        encoder = make(**parameters).fit(table())
        for n_values, epsilon in costs.items():
            promised = encoder.guarantee_for_changes(n_values)
            assert promised.epsilon == pytest.approx(epsilon)
            assert promised.scope == ("x", "y")
        assert encoder.guarantee_for_changes(1).epsilon == encoder.guarantee_.epsilon

    def test_histories_that_change_alike_are_within_the_cost(self):
        """Three calls with the values u, v, u against u', v', u', enumerated; permanent reports, and noisy ones."""
        encoder = make(epsilon=1.0, instantaneous_epsilon=0.5, categories=[["a", "b", "c"]]).fit([["a"]])
        first = encoder.permanent_oracles_[0].channel()
        second = encoder.oracles_[0].instantaneous.channel()
        bound = exp_bounds(encoder.guarantee_for_changes(2).epsilon)[0]
        histories = [(u, v) for u, v in product(range(3), repeat=2) if u != v]
        for noise in (second, [[Fraction(i == j) for j in range(3)] for i in range(3)]):
            for reports in product(range(3), repeat=3):
                shares = []
                for u, v in histories:
                    twice = sum(first[u][r] * noise[r][reports[0]] * noise[r][reports[2]] for r in range(3))
                    once = sum(first[v][r] * noise[r][reports[1]] for r in range(3))
                    shares.append(twice * once)
                assert max(shares) <= bound * min(shares)

    def test_values_and_buckets_are_told_apart(self):
        rows = pd.DataFrame({"x": ["a"], "y": [0]})
        categories = {"x": DOMAIN["x"], "y": range(9_000)}
        encoder = make(FrequencyOracleEncoder, 2.0, categories=categories).fit(rows)
        assert encoder.oracle_ == ["randomized_response", "local_hashing"]
        buckets = encoder.permanent_oracles_[1].n_buckets
        assert encoder.guarantee_.mechanism == (
            "frequency oracle, memoised: epsilon per distinct value or bucket of a column, at most 5 of them"
        )
        assert buckets < 5
        assert encoder.guarantee_for_changes(100).epsilon == pytest.approx(5 + buckets)

    def test_security(self):
        rows = table()
        assert make(random_state=0).fit(rows).guarantee_.secure
        seeded = make(random_state=0, instantaneous_epsilon=1.0).fit(rows)
        assert seeded.guarantee_.secure
        assert not seeded.instantaneous_guarantee_.secure
        assert make(instantaneous_epsilon=1.0).fit(rows).instantaneous_guarantee_.secure

    def test_the_ledger_is_charged_at_each_call(self):
        ledger = PrivacyLedger(epsilon=10.0)
        encoder = make(ledger=ledger, instantaneous_epsilon=1.0).fit(table())
        for _ in range(3):
            encoder.transform(table(), record_id=range_of(60))
        assert ledger.spent[0] == pytest.approx(6.0)

    def test_nothing_is_computed_before_the_charge(self, kind, monkeypatch):
        encoder = make(kind, ledger=PrivacyLedger(epsilon=1.0)).fit(table())
        monkeypatch.setattr("skdp.local.memo._memo.keyed_digests", lambda *key: pytest.fail("a coin was computed"))
        with pytest.raises(BudgetExceeded):
            encoder.transform(table(), record_id=range_of(60))

    def test_a_new_fit_forgets_the_old_promises(self):
        encoder = make(instantaneous_epsilon=1.0).fit(table())
        encoder.set_params(memoize=False, secret_key=None, instantaneous_epsilon=None)
        assert same(*(encoder.transform(table()[:1], record_id=[1]).shape for _ in range(2)))
        encoder.fit(table())
        assert not hasattr(encoder, "instantaneous_guarantee_")
        assert not hasattr(encoder, "permanent_oracles_")
        assert "memoised" not in encoder.guarantee_.mechanism
        encoder.transform(table())


class TestErrors:
    @each(
        "parameters error match",
        [
            ({"secret_key": None}, ValueError, "memoize=True needs a secret_key"),
            ({"secret_key": "hush, this is a secret"}, TypeError, "secret_key must be None or bytes, got str"),
            ({"secret_key": b"hush"}, ValueError, "secret_key must have at least 16 bytes, got 4"),
            ({"memoize": 1}, TypeError, "memoize must be True or False, got int"),
            ({"memoize": False}, ValueError, "secret_key requires memoize=True"),
            ({"memoize": False, "secret_key": None, "instantaneous_epsilon": 1.0}, ValueError, "set memoize=True"),
            (
                {"instantaneous_epsilon": 2.0},
                ValueError,
                "instantaneous_epsilon must be smaller than epsilon, got 2.0 and",
            ),
            ({"instantaneous_epsilon": 0}, ValueError, "instantaneous_epsilon must be a finite number > 0"),
            ({"instantaneous_epsilon": "1"}, TypeError, "instantaneous_epsilon must be a finite number > 0"),
        ],
    )
    def test_parameters(self, parameters, error, match):
        with pytest.raises(error, match=match) as caught:
            make(**parameters).fit(table())
        assert "hush" not in str(caught.value)

    @each(
        "ids, error, match",
        [
            (None, ValueError, r"permanent reports require record_id, .*set_transform_request\(record_id=True\)"),
            ([1, 2], ValueError, "record_id must have an id for each of the 3 rows, got 2"),
            (np.ones((3, 1)), ValueError, "record_id must be 1-D, got 2-D"),
            (pd.DataFrame({"a": [1, 2, 3]}), ValueError, "record_id must be 1-D, got 2-D"),
            ("abc", TypeError, "record_id must be a 1-D array, a series or a list, got str"),
            ({1, 2, 3}, TypeError, "record_id must be a 1-D array, a series or a list, got set"),
            ([1, None, 3], ValueError, "record_id holds missing values"),
            (pd.Series([1, None, 3]), ValueError, "record_id holds missing values"),
            (np.array(["2020", "NaT", "2021"], "M8[s]"), ValueError, "record_id holds missing values"),
            ([1, math.inf, 3], ValueError, r"record_id holds .*inf"),
            ([[1], [2], [3]], ValueError, "record_id holds values that are neither text nor numbers nor booleans"),
        ],
    )
    def test_record_ids_before_any_charge(self, ids, error, match):
        ledger = PrivacyLedger(epsilon=10.0)
        encoder = make(ledger=ledger).fit(table())
        with pytest.raises(error, match=match):
            encoder.transform(table(3), record_id=ids)
        assert ledger.spent == (0.0, 0.0)

    def test_an_id_that_is_not_wanted(self):
        ledger = PrivacyLedger(epsilon=10.0)
        encoder = RandomizedResponseEncoder(categories=DOMAIN, ledger=ledger)
        with pytest.raises(ValueError, match="record_id requires permanent reports"):
            encoder.fit_transform(table(3), record_id=[1, 2, 3])
        assert ledger.spent == (0.0, 0.0)

    @pytest.mark.parametrize(("n_values", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError)])
    def test_changes(self, n_values, error):
        with pytest.raises(error, match="n_values must be"):
            make().fit(table()).guarantee_for_changes(n_values)
        with pytest.raises(ValueError, match="without memoize=True every call costs guarantee_"):
            RandomizedResponseEncoder(categories=DOMAIN).fit(table()).guarantee_for_changes(2)

    def test_values_that_cannot_be_written(self):
        periods = pd.period_range("2020", periods=2, freq="M")
        with pytest.raises(ValueError, match="column 'x' has others"):
            make(categories={"x": list(periods)}).fit(pd.DataFrame({"x": periods}))

    def test_the_key_is_not_shown(self):
        encoder = make().fit(table())
        for shown in (repr(encoder), str(encoder.secret_key), f"{encoder.secret_key}", repr(vars(encoder))):
            assert "everybody" not in shown
        assert "everybody" not in encoder._repr_html_()
        assert clone(encoder).secret_key == KEY
        assert bytes(KEY) in pickle.dumps(encoder)  # as is documented

    def test_intervals_and_missing_values_are_values(self):
        rows = pd.DataFrame({"age": [10.0, 50.0, 70.0], "job": ["a", None, "b"]})
        encoder = make(categories={"age": Interval(0, 100, bins=4), "job": ["a", "b", None]}, strategy="joint")
        reports = encoder.fit_transform(rows, record_id=["u", "v", "w"])
        assert reports.equals(encoder.transform(rows, record_id=["u", "v", "w"]))
        nudged = rows.assign(age=[11.0, 51.0, 71.0])  # within the same bins
        assert reports.equals(encoder.transform(nudged, record_id=["u", "v", "w"]))


class TestRouting:
    @pytest.fixture(autouse=True)
    def routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    def test_through_a_pipeline(self):
        rows, ids = table(), range_of(60)
        y = (rows["x"] == "a").to_numpy()
        encoder = make().set_transform_request(record_id=True)
        model = make_pipeline(encoder, OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        model.fit(rows, y, record_id=ids)
        assert np.array_equal(model.predict(rows, record_id=ids), model.predict(rows, record_id=ids))
        reports = make().fit_transform(rows, record_id=ids)
        assert same(model[0].transform(rows, record_id=ids), reports)
        assert same(make_pipeline(encoder).fit_transform(rows, record_id=ids), reports)

    def test_without_a_request(self):
        model = make_pipeline(make(), OneHotEncoder())
        with pytest.raises(ValueError, match=r"\[record_id\] are passed but are not explicitly set as requested"):
            model.fit(table(), record_id=range_of(60))
        with pytest.raises(ValueError, match="permanent reports require record_id"):
            model.fit(table())

    def test_through_a_column_transformer(self):
        rows, ids = table(), range_of(60)
        one = make(categories={"x": DOMAIN["x"]}).set_transform_request(record_id=True)
        both = ColumnTransformer([("x", one, ["x"])], remainder="drop")
        assert same(both.fit_transform(rows, record_id=ids), both.transform(rows, record_id=ids))

    def test_through_on_fit_only(self):
        rows, ids = table(), range_of(60)
        only = OnFitOnly(make().set_transform_request(record_id=True))
        assert same(only.fit_transform(rows, record_id=ids), make().fit_transform(rows, record_id=ids))
        assert same(only.transform(rows), rows)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(kind, container):
    encoder = make(kind).set_output(transform=container)
    rows, ids = table(), range_of(60)
    first, second = encoder.fit_transform(rows, record_id=ids), encoder.transform(rows, ids)
    assert type(first).__module__.startswith(container)
    assert same(first, second)
    assert list(first.columns) == list(encoder.get_feature_names_out())


def test_categories_that_are_read_from_the_data_are_refused():
    # Each new value would draw the reports of everybody anew, at their full cost.
    rows = pd.DataFrame({"a": ["x", "y"] * 20})
    for encoder in (RandomizedResponseEncoder, FrequencyOracleEncoder):
        # Whether all categories occur must not decide on an error.
        for table in (rows, rows.astype("category"), rows.astype(pd.CategoricalDtype(["y", "x", "z"]))):
            with pytest.raises(ValueError, match="the categories of 'a' must be declared: memoize=True"):
                encoder(memoize=True, secret_key=SecretKey.generate()).fit(table)
        declared = pd.CategoricalDtype(["x", "y"], ordered=True)
        encoder(memoize=True, secret_key=SecretKey.generate()).fit(rows.astype(declared))


class Unwritable:
    def __str__(self):
        raise ArithmeticError("secret")


@each("record", [np.timedelta64(3, "s"), Decimal("sNaN"), Decimal("1.5"), 10**5000, {"secret"}, Unwritable()])
def test_ids_that_cannot_be_written_are_named_and_not_shown(record):
    rows = pd.DataFrame({"a": ["x", "y"] * 5})
    encoder = RandomizedResponseEncoder(
        memoize=True, secret_key=SecretKey.generate(), categories={"a": ["x", "y"]}
    ).fit(rows)
    with pytest.raises(ValueError, match="record_id") as caught:
        encoder.transform(rows, record_id=[*range(9), record])
    assert "secret" not in str(caught.value)


class TestManyResponsesAtATime:
    @pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (256, 0.1), (255, 9.0), (1000, 2.0)])
    def test_they_are_those_of_each_record_alone(self, k, epsilon):
        """With 16 bits, up to k / 2**16 of the words are undecided: some ten of these."""
        oracle, digests = (
            RandomizedResponse(k, epsilon),
            keyed_digests(KEY, ("test",), [b"%d" % i for i in range(2_000)]),
        )
        codes = (np.arange(2_000) % k).astype(np.uint16)
        sources = (DigestSource(digest, head=oracle.word.itemsize) for digest in digests)
        expected = np.concatenate([oracle.report(codes[[i]], source) for i, source in enumerate(sources)])
        assert np.array_equal(oracle._draw_keyed(codes, digests), expected)
        assert len(np.unique(expected)) > k / 2

    def test_a_head_is_followed_by_the_stream(self):
        digest = bytes(range(32))
        whole = DigestSource(digest, head=4).bytes(300).tobytes()
        assert whole == digest[:4] + DigestSource(digest).bytes(296).tobytes()
        cut = DigestSource(digest, head=4)
        assert b"".join(cut.bytes(size).tobytes() for size in (3, 1, 5, 0, 291)) == whole

    @pytest.mark.parametrize("kind", [RandomizedResponseEncoder, LocalHashingEncoder])
    def test_few_records_are_drawn_one_by_one(self, kind, monkeypatch):
        """One by one takes some 20 times as long."""
        calls = []
        report = RandomizedResponse.report

        def counted(self, codes, source):
            calls.append(codes.size)
            return report(self, codes, source)

        monkeypatch.setattr(RandomizedResponse, "report", counted)
        rows = pd.DataFrame({"x": ["a"] * 1_000})
        encoder = make(kind, categories={"x": DOMAIN["x"]}).fit(rows)
        encoder.transform(rows, record_id=range_of(1_000))
        assert len(calls) < 50


@each("size", [16, 32, 64, 65, 200])
def test_digests_are_a_mac_with_aes_of_what_the_documentation_says(size):
    """For all lengths of the key and of the messages, each by itself; longer keys are hashed first."""
    key, messages = bytes(range(size % 251)) * 2, [b"", b"a", b"b" * 16, b"c\0" * 20, b"d" * 16, b"e" * 7_000]
    used = key if len(key) <= 64 else hashlib.blake2b(key).digest()
    derived = hashlib.blake2b(b"skdp permanent coins 2" + framed(b"purpose", b"\0"), key=used).digest()
    expected = []
    for message in messages:
        blocks = len(message).to_bytes(8, "big") + bytes(8) + message + bytes(16 - len(message) % 16)
        mac = Cipher(AES(derived[:32]), CBC(bytes(16))).encryptor().update(blocks)[-16:]
        pair = mac + mac[:-1] + bytes([mac[-1] ^ 1])
        expected.append(Cipher(AES(derived[32:]), ECB()).encryptor().update(pair))
    assert [row.tobytes() for row in keyed_digests(key, ("purpose", b"\0"), messages)] == expected
    assert keyed_digests(key, ("purpose",), []).shape == (0, 32)


class Counting:
    """Encrypts as many bytes as a buffer is long, as cryptography before 43."""

    def __init__(self, algorithm, mode):
        self._context = Cipher(algorithm, mode).encryptor()

    def encryptor(self):
        return self

    def update_into(self, data, buffer):
        return self._context.update_into(memoryview(data).cast("B")[: len(data)], buffer)


def test_all_blocks_are_encrypted_by_every_version_of_cryptography(monkeypatch):
    """Of a buffer of rows older ones encrypted a byte a row, and the digests were what the memory happened to hold."""
    messages = [b"a", b"b" * 16, b"c" * 40] * 5
    expected = keyed_digests(KEY, ("p",), messages)
    monkeypatch.setattr("skdp.local.memo._keys.Cipher", Counting)
    np.testing.assert_array_equal(keyed_digests(KEY, ("p",), messages), expected)
    monkeypatch.setattr(Counting, "update_into", lambda *_: 0)
    with pytest.raises(RuntimeError, match="fewer blocks"):
        keyed_digests(KEY, ("p",), messages)


def test_no_two_messages_have_one_digest():
    """Zeros at the end, a part that is cut elsewhere, and other purposes."""
    found = [keyed_digests(KEY, ("p",), [b"abc" + bytes(zeros)])[0] for zeros in range(40)]
    found += [keyed_digests(KEY, purpose, [b"abc"])[0] for purpose in [("q",), ("p", ""), ("pp",), ("pp", "")]]
    assert len({row.tobytes() for row in found}) == len(found)
    assert framed(b"", b"b" * 256) == bytes(8) + (256).to_bytes(8, "big") + b"b" * 256


def test_distinct_records_are_told_from_repeated_ones(monkeypatch):
    """Also if their hashes are alike: then they are compared themselves."""
    pairs = [([], True), ([b"a", b"b"], True), ([b"a", b"b", b"a"], False)]
    assert [are_distinct(records) for records, _ in pairs] == [distinct for _, distinct in pairs]
    monkeypatch.setattr("skdp.local.memo._keys.hash", lambda record: 7, raising=False)
    assert [are_distinct(records) for records, _ in pairs] == [distinct for _, distinct in pairs]
