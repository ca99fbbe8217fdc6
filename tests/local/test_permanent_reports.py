"""Permanent reports: the same for ever, as random as the channel says, and no more telling for being repeated."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import Counter
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy.stats import chi2_contingency, chisquare
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdp import (
    BudgetExceeded,
    FrequencyOracleEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.exact import exp_bounds
from skdp.local import OnFitOnly, SecretKey
from skdp.local._memo import Memo
from skdp.oracles import Optimal
from tests.conftest import counted_draws, each, often

FALSE_ALARM = 1e-6
KEY = SecretKey(b"a key that everybody knows, for tests")
DOMAIN = {"x": ["a", "b", "c", "d", "e"], "y": [0, 1, 2]}
ENCODERS = [
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
    LocalHashingEncoder,
    FrequencyOracleEncoder,
    SubsetSelectionEncoder,
]
BOUNDS = {"age": (0, 100), "hours": (0, 80)}
IDS = list(range(60))
DAY = date(2026, 3, 29)
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({name: RNG.choice(np.array(values, object), 60) for name, values in DOMAIN.items()})
ROWS = ROWS.astype({"y": int})
NUMBERS = pd.DataFrame({name: RNG.uniform(*ends, 60) for name, ends in BOUNDS.items()})


def make(kind=RandomizedResponseEncoder, epsilon=2.0, **parameters):
    return kind(epsilon, **{"categories": DOMAIN, "memoize": True, "secret_key": KEY} | parameters)


def numbers(mechanism="laplace", epsilon=1.0, **parameters):
    given = {"bounds": BOUNDS, "grid_size": 16, "memoize": True, "secret_key": KEY} | parameters
    if mechanism == "outcomes":
        mechanism = Optimal(given["grid_size"], epsilon / len(given["bounds"])).outcomes
    return NumericPerturber(epsilon, mechanism=mechanism, **given)


def same(left, right):
    return np.array_equal(np.asarray(left).astype(str), np.asarray(right).astype(str))


PERMANENT = {
    **{f"{kind.__name__}, {strategy}": (make(kind, strategy=strategy), ROWS)
       for kind in ENCODERS for strategy in ("split", "joint", "sample")},
    **{f"numbers, {mechanism}": (numbers(mechanism), NUMBERS) for mechanism in ("outcomes", "square_wave", "laplace")},
    "words": (RapporEncoder(4.0, secret_key=KEY), ROWS.astype(str)),
}  # fmt: skip


@pytest.mark.parametrize("name", PERMANENT)
def test_they_are_the_same_over_calls_orders_batches_pickles_and_clones(name):
    transformer, rows = PERMANENT[name]
    fitted = clone(transformer).fit(rows)
    reports = fitted.transform(rows, record_id=IDS)
    for copied in (fitted, pickle.loads(pickle.dumps(fitted)), clone(transformer).fit(rows[:1])):
        assert same(copied.transform(rows[::-1], record_id=IDS[::-1]), reports[::-1])
        assert same(copied.transform(rows[3:9], record_id=IDS[3:9]), reports[3:9])
    seeded = clone(transformer).set_params(random_state=5).fit(rows[:1])
    assert same(seeded.transform(rows, record_id=IDS), fitted.transform(rows, record_id=IDS))
    assert fitted.guarantee_.secure


# Not the outcomes of the optimal mechanism, which are another solver's business.
@each(
    "transformer, rows, expected",
    [
        (make(RandomizedResponseEncoder), ROWS, "bac2b1c0092a"),
        (make(UnaryEncodingTransformer), ROWS, "3f063a13d865"),
        (make(LocalHashingEncoder), ROWS, "329954977846"),
        (make(SubsetSelectionEncoder), ROWS, "278f4fbd39bc"),
        (numbers("square_wave"), NUMBERS, "d8fe7a0a547e"),
        (numbers("laplace"), NUMBERS, "49b35cbff4cd"),
    ],
)
def test_they_are_the_same_over_versions(transformer, rows, expected):
    """If an oracle uses its random bits otherwise, raise the format in `local.memo`; write these again."""
    if rows is ROWS:
        rows = pd.DataFrame({name: [values[row % len(values)] for row in IDS] for name, values in DOMAIN.items()})
    else:
        rows = pd.DataFrame({"age": np.arange(60.0), "hours": np.arange(60.0)[::-1]})
    reports = clone(transformer).fit_transform(rows, record_id=IDS)
    written = repr((reports.round(6) if "age" in rows else reports).to_numpy().tolist()).encode()
    assert hashlib.sha256(written).hexdigest()[:12] == expected


def agreement(**change):
    """How many of 400 records report the same, at an epsilon that hardly bends their reports, if something changes."""

    def reports(kind=RandomizedResponseEncoder, prefix="p", value="a", column="x", epsilon=0.1, **parameters):
        given = {"categories": {column: DOMAIN["x"]}} | parameters
        ids = [f"{prefix}{row}" for row in range(400)]
        rows = pd.DataFrame({column: [value] * 400})
        return make(kind, epsilon, **given).fit_transform(rows, record_id=ids)[column].to_numpy()

    return (reports() == reports(**change)).sum()


@each(
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
)
def test_whatever_they_are_a_function_of_gives_other_reports(change):
    """Two independent reports agree with probability 1/5."""
    assert 40 < agreement(**change) < 120


def test_other_columns_do_not_enter():
    one = make().fit_transform(ROWS, record_id=IDS)
    assert same(make().fit_transform(ROWS.assign(y=0), record_id=IDS)["x"], one["x"])


def test_rows_columns_and_values_are_independent():
    """Pairs of reports at a small epsilon: all combinations are equally frequent."""
    ids = list(range(5_000))
    rows = pd.DataFrame({"u": ["a"] * 5_000, "v": ["a"] * 5_000})
    encoder = make(epsilon=1e-6, categories=[DOMAIN["x"]] * 2).fit(rows)
    reports, other = encoder.transform(rows, record_id=ids), encoder.transform(rows.assign(u="b"), record_id=ids)
    pairs = [(reports["u"], reports["v"]), (reports["u"], other["u"]), (reports["u"][:-1], reports["u"][1:])]
    rows = pd.DataFrame({"age": [100.0] * 5_000, "hours": [80.0] * 5_000})
    fitted = numbers(epsilon=1e-3, grid_size=1).fit(rows)
    first = fitted.transform(rows, record_id=ids) > 50
    second = fitted.transform(rows.assign(age=0.0), record_id=ids) > 50
    pairs += [(first["age"], first["hours"]), (first["age"], second["age"]), (first["age"][:-1], first["age"][1:])]
    assert (first["hours"] == second["hours"]).all()
    halves = numbers(epsilon=40.0, grid_size=1, bounds=[(0, 1)] * 2).fit([[0, 0]])
    rounded = halves.transform(np.full((1_000, 2), 0.5), record_id=ids[:1_000]) > 0.5
    pairs.append((rounded[:, 0], rounded[:, 1]))
    for left, right in pairs:
        assert (
            chisquare(np.unique([*zip(left, right, strict=True)], axis=0, return_counts=True)[1]).pvalue > FALSE_ALARM
        )


class TestChannel:
    """The permanent reports of many records follow the exact channel."""

    N = 2_000

    def reports(self, kind, value, **parameters):
        encoder = make(kind, 1.5, categories={"x": DOMAIN["x"]}, **parameters)
        rows = pd.DataFrame({"x": [value] * self.N})
        return encoder.fit(rows), np.asarray(encoder.transform(rows, record_id=list(range(self.N))))

    @pytest.mark.parametrize("kind", [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder])
    @pytest.mark.parametrize("value", ["a", "d"])
    def test_of_categories_and_bits(self, kind, value):
        encoder, reports = self.reports(kind, value)
        seen = Counter(map(tuple, reports.tolist()))
        order = [(label,) for label in DOMAIN["x"]]
        if kind is UnaryEncodingTransformer:
            order = list(product((0, 1), repeat=5))
        if kind is SubsetSelectionEncoder:
            sets = combinations(range(5), encoder.oracles_[0].subset_size)
            order = [tuple(int(v in members) for v in range(5)) for members in sets]
        assert sum(seen[key] for key in order) == self.N
        row = np.array(encoder.channel()[0][DOMAIN["x"].index(value)], float)
        assert chisquare([seen[key] for key in order], row * self.N).pvalue > FALSE_ALARM

    def test_of_buckets(self):
        """Two values of a record share its seed, and no coin of their reports if their buckets differ."""
        encoder, reports = self.reports(LocalHashingEncoder, "a")
        oracle = encoder.oracles_[0]
        assert len(set(reports[:, 0].tolist())) > 0.99 * self.N
        supports = oracle.supports(reports.astype(np.uint64)).mean(axis=0)
        assert supports == pytest.approx([float(oracle.p if v == 0 else oracle.q) for v in range(5)], abs=0.035)
        rows = pd.DataFrame({"x": ["b"] * self.N})
        others = np.asarray(encoder.transform(rows, record_id=list(range(self.N))))
        assert (others[:, 0] == reports[:, 0]).all()
        g, seeds = oracle.n_buckets, reports[:, 0].astype(np.uint64)
        places = [oracle.hash_family(seeds, np.full(self.N, value)) for value in (0, 1)]
        moved = [(found[:, 1].astype(int) - place) % g for found, place in zip((reports, others), places, strict=True)]
        both = [moves[places[0] != places[1]] for moves in moved]
        assert chi2_contingency(np.histogram2d(*both, bins=g)[0]).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("mechanism", ["outcomes", "square_wave", "laplace"])
    @pytest.mark.parametrize("value", [10.0, 10.35])
    def test_of_numbers_between_the_positions_too(self, mechanism, value):
        fitted = numbers(mechanism, 2.0, bounds=[(10, 11)], grid_size=4).fit([[10]])
        reports = fitted.transform(np.full((self.N, 1), value), record_id=list(range(self.N)))[:, 0]
        possible = fitted.report_values_[0]
        counts = np.bincount(np.searchsorted(possible, reports), minlength=len(possible))
        below, part = divmod(4 * (value - 10), 1)
        channel = np.array(fitted.channel()[0], float)
        expected = self.N * ((1 - part) * channel[int(below)] + part * channel[int(below) + 1])
        rare = expected < 5
        if rare.any():
            counts = np.append(counts[~rare], counts[rare].sum())
            expected = np.append(expected[~rare], expected[rare].sum())
        assert chisquare(counts, expected).pvalue > FALSE_ALARM

    def test_the_sampled_column_is_permanent_and_blind(self):
        rows = pd.concat([ROWS] * 30, ignore_index=True)
        ids = list(range(len(rows)))
        encoder = make(UnaryEncodingTransformer, strategy="sample", instantaneous_epsilon=1.0).fit(rows)
        chosen = encoder.transform(rows, record_id=ids)["sampled"]
        assert chisquare(np.bincount(chosen)).pvalue > FALSE_ALARM
        assert chosen.tolist() == encoder.transform(rows[::-1], record_id=ids)["sampled"].tolist()


def attack(fitted, rows, calls):
    """How often the value that is reported most often, or the side of the mean report, is the true one."""
    fitted.fit(rows)
    column = rows.columns[0]
    reports = [fitted.transform(rows, record_id=list(range(len(rows))))[column].to_numpy() for _ in range(calls)]
    if column == "age":
        return ((np.mean(reports, axis=0) > 50) == (rows["age"] > 50)).mean()
    guesses = [Counter(own).most_common(1)[0][0] for own in np.transpose(reports)]
    return np.mean(guesses == rows[column].to_numpy())


class TestAveraging:
    BITS = make(UnaryEncodingTransformer, 1.0, instantaneous_epsilon=0.7, categories={"x": DOMAIN["x"]}, random_state=0)
    ENDS = numbers(grid_size=1, bounds={"age": (0, 100)})
    ROWS = pd.DataFrame({"x": np.resize(DOMAIN["x"], 400)})
    AGES = pd.DataFrame({"age": np.resize([0.0, 100.0], 400)})

    def test_many_reports_show_no_more_than_the_permanent_one(self):
        ids = list(range(len(self.ROWS)))
        calls = [self.BITS.fit(self.ROWS).transform(self.ROWS, record_id=ids).to_numpy()]
        calls += [self.BITS.transform(self.ROWS, record_id=ids).to_numpy() for _ in range(400)]
        permanent = clone(self.BITS).set_params(instantaneous_epsilon=None).fit(self.ROWS)
        kept = permanent.transform(self.ROWS, record_id=ids).to_numpy()
        # The second round flips a bit with a probability below 1/2, so means show the permanent bits.
        assert ((np.mean(calls, axis=0) > 0.5) == kept).mean() > 0.99
        own = (self.ROWS.to_numpy() == np.array(DOMAIN["x"])).astype(int)
        assert (kept != own).mean() > 0.2
        bound = math.e / (math.e + 1)
        assert attack(self.ENDS, self.AGES, 60) == pytest.approx(bound, abs=5 * math.sqrt(bound * (1 - bound) / 400))

    def test_a_number_between_two_positions_has_one_report(self):
        """With fresh rounding it would have those of both, at twice the cost, and the shares would show where it is."""
        ids = list(range(40))
        fitted = numbers("square_wave", 1e-3, bounds=[(0, 1)], grid_size=5).fit([[0]])
        calls = [fitted.transform(np.full((40, 1), value), record_id=ids)[:, 0] for value in np.linspace(0, 1, 30)]
        for own in np.transpose(calls):  # the range falls into parts: each report is that of neighbouring values
            assert 1 + np.count_nonzero(np.diff(own)) <= 5 + 1


class TestSecondRound:
    @pytest.mark.parametrize("strategy", often(["split", "joint", "sample"], ["joint"]))
    def test_estimates_are_unbiased_with_the_stated_errors(self, strategy):
        n, n_runs, z = 600, 24, []
        rows = pd.concat([ROWS] * 10, ignore_index=True)
        for run in range(n_runs):
            key = bytes([run]) * 16
            encoder = make(
                UnaryEncodingTransformer,
                3.0,
                instantaneous_epsilon=2.0,
                strategy=strategy,
                secret_key=key,
                random_state=run,
            )
            reports = encoder.fit_transform(rows, record_id=list(range(n)))
            estimate = encoder.estimate_counts(encoder.tally(reports))
            if strategy == "joint":
                true = rows.value_counts().reindex(estimate.index).fillna(0)
            else:
                true = pd.Series([(rows[name] == value).sum() for name in DOMAIN for value in DOMAIN[name]])
            z.append((estimate["count"].to_numpy() - true.to_numpy()) / estimate["std_error"].to_numpy())
        # The deviations of both, over runs, are 1 / sqrt(24) and some .14.
        assert np.abs(np.mean(z, axis=0)).max() < 5 / math.sqrt(n_runs)
        assert np.mean(np.square(z)) == pytest.approx(1, abs=0.7)

    def test_each_call_has_fresh_noise(self):
        kind = UnaryEncodingTransformer
        encoder = make(kind, instantaneous_epsilon=0.5).fit(ROWS)
        calls = [encoder.transform(ROWS, record_id=IDS) for _ in range(3)]
        permanent = make(kind).fit_transform(ROWS, record_id=IDS)
        for one, other in combinations([*calls, permanent], 2):
            assert not same(one, other)
        seeded = make(kind, instantaneous_epsilon=0.5, random_state=3)
        assert same(*(seeded.fit_transform(ROWS, record_id=IDS) for _ in range(2)))


@pytest.mark.parametrize("buckets", [2, 3, None])
def test_no_record_has_more_permanent_reports_than_buckets(buckets):
    """LOLOHA: a record has one seed, and one permanent report a bucket, whatever values it ever has."""
    k, n = 40, 50
    encoder = make(LocalHashingEncoder, 1.0, categories={"x": range(k)}, n_buckets=buckets)
    encoder.fit(pd.DataFrame({"x": [0]}))
    oracle, ids = encoder.oracles_[0], list(range(n))
    calls = [encoder.transform(pd.DataFrame({"x": [value] * n}), record_id=ids).to_numpy() for value in range(k)]
    for reports in np.stack(calls, axis=1).astype(np.uint64):  # of a record, by value
        assert len({*reports[:, 0].tolist()}) == 1
        buckets_of_values = oracle.hash_family(reports[:, 0], np.arange(k)).tolist()
        pairs = {*zip(buckets_of_values, reports[:, 1].tolist(), strict=True)}
        assert len(pairs) == len({bucket for bucket, _ in pairs}) <= oracle.n_buckets


class TestPromises:
    def test_histories_that_change_alike_are_within_the_cost(self):
        """Three calls with the values u, v, u against u', v', u', enumerated; permanent reports, and noisy ones."""
        encoder = make(UnaryEncodingTransformer, 1.0, instantaneous_epsilon=0.5, categories=[["a", "b"]]).fit([["a"]])
        first, flip = encoder.oracles_[0].permanent.channel(), encoder.oracles_[0].flip
        bits = list(product((0, 1), repeat=2))
        second = [
            [math.prod(flip if a != b else 1 - flip for a, b in zip(x, y, strict=True)) for y in bits] for x in bits
        ]
        bound = exp_bounds(2 * Fraction(encoder.guarantee_.epsilon))[0]
        histories = [(0, 1), (1, 0)]
        for noise in (second, [[Fraction(i == j) for j in range(4)] for i in range(4)]):
            for reports in product(range(4), repeat=3):
                shares = []
                for u, v in histories:
                    twice = sum(first[u][r] * noise[r][reports[0]] * noise[r][reports[2]] for r in range(4))
                    once = sum(first[v][r] * noise[r][reports[1]] for r in range(4))
                    shares.append(twice * once)
                assert max(shares) <= bound * min(shares)

    @pytest.mark.parametrize("name", ["values", "numbers"])
    def test_each_call_is_charged_before_anything_is_computed(self, name, monkeypatch):
        ledger, rows = PrivacyLedger(epsilon=5.0), ROWS if name == "values" else NUMBERS
        fitted = make(UnaryEncodingTransformer, instantaneous_epsilon=1.0) if name == "values" else numbers(epsilon=2.0)
        fitted.set_params(ledger=ledger).fit(rows)
        for _ in range(2):
            fitted.transform(rows, record_id=IDS)
        assert ledger.spent[0] == pytest.approx(4.0)
        monkeypatch.setattr(Memo, "draws", lambda *of: pytest.fail("a report was computed"))
        with counted_draws() as drawn, pytest.raises(BudgetExceeded):
            fitted.transform(rows, record_id=IDS)
        assert drawn == [0]


class TestErrors:
    @each(
        "parameters error match",
        [
            ({"secret_key": None}, ValueError, "memoize=True requires a secret_key"),
            ({"secret_key": "hush, this is a secret"}, TypeError, "secret_key must be None or bytes, got str"),
            ({"secret_key": b"hush"}, ValueError, "secret_key must have at least 16 bytes, got 4"),
            ({"memoize": 1}, TypeError, "memoize must be True or False, got int"),
            (
                {"memoize": False, "secret_key": None, "instantaneous_epsilon": 1.0},
                ValueError,
                "instantaneous_epsilon requires memoize=True",
            ),
            ({"instantaneous_epsilon": 2.0}, ValueError, "must be smaller than epsilon, got 2.0 and"),
            ({"instantaneous_epsilon": "1"}, TypeError, "instantaneous_epsilon must be a finite number > 0"),
        ],
    )
    @each("kind", [make, numbers])
    def test_parameters(self, kind, parameters, error, match):
        if kind is numbers and "instantaneous_epsilon" in parameters:
            return
        rows = NUMBERS if kind is numbers else ROWS
        if kind is make:
            parameters = {"kind": UnaryEncodingTransformer} | parameters
        with pytest.raises(error, match=match) as caught:
            kind(**parameters).fit(rows)
        assert "hush" not in str(caught.value)

    @each(
        "ids, error, match",
        [
            (None, ValueError, r"permanent reports require record_id, .*set_transform_request\(record_id=True\)"),
            ([1, 2, 1], ValueError, "record_id has repeated entries; a record reports once in a call"),
            (np.ones((3, 1)), ValueError, "record_id cannot be read"),
            ("abc", ValueError, "record_id expected a column"),
            ([1, None, 3], ValueError, "record_id contains missing values"),
            (pd.Series([1, None, 3]), ValueError, "record_id must be integers or text, got float"),
            *[([1, 2, odd], ValueError, f"record_id must be integers or text, got {kind}")
              for odd, kind in ((7.0, "float"), (True, "bool"), (b"7", "bytes"), (DAY, "date"), (("7",), "tuple"))],
            *[(make_ids(["1", "2", "7.0"]), ValueError, "record_id must be integers without a decimal point")
              for make_ids in (list, pd.Series, pl.Series, pa.array)],
            *[([1, 2, odd], ValueError, "record_id (must be|cannot be|contains)")
              for odd in ({"secret"}, Decimal("sNaN"), 10**5000, np.timedelta64(3, "s"))],
        ],
    )  # fmt: skip
    @each("name", ["RandomizedResponseEncoder, split", "numbers, laplace", "words"])
    def test_record_ids_before_any_charge(self, name, ids, error, match):
        transformer, rows = PERMANENT[name]
        ledger = PrivacyLedger(epsilon=100.0)
        fitted = clone(transformer).set_params(ledger=ledger).fit(rows)
        with pytest.raises(error, match=match) as caught:
            fitted.transform(rows[:3], record_id=ids)
        assert "secret" not in str(caught.value)
        assert ledger.spent == (0.0, 0.0)

    def test_categories_that_are_read_from_the_data_are_refused(self):
        """Each new value would draw the reports of everybody anew; whether all categories occur must not decide."""
        rows = pd.DataFrame({"a": ["x", "y"] * 20})
        for table in (rows, rows.astype("category"), rows.astype(pd.CategoricalDtype(["y", "x", "z"]))):
            with pytest.raises(ValueError, match="the categories of 'a' must be declared: memoize=True"):
                make(categories="auto").fit(table)
        make(categories="auto").fit(rows.astype(pd.CategoricalDtype(["x", "y"], ordered=True)))

    def test_the_key_is_not_shown(self):
        encoder = make().fit(ROWS)
        for shown in (repr(encoder), str(encoder.secret_key), f"{encoder.secret_key}", repr(vars(encoder))):
            assert "everybody" not in shown
        assert "everybody" not in encoder._repr_html_()
        assert clone(encoder).secret_key == KEY
        assert bytes(KEY) in pickle.dumps(encoder)  # as is documented


@each("name", ["RandomizedResponseEncoder, split", "numbers, laplace", "words"])
def test_ids_are_routed(name):
    transformer, rows = PERMANENT[name]
    with sklearn.config_context(enable_metadata_routing=True):
        step = clone(transformer).set_transform_request(record_id=True)
        reports = clone(transformer).fit_transform(rows, record_id=IDS)
        pipeline = make_pipeline(ColumnTransformer([("private", step, list(rows))])).fit(rows, record_id=IDS)
        assert same(pipeline.transform(rows, record_id=IDS), reports)
        if hasattr(step, "_encode"):
            assert same(OnFitOnly(step).fit_transform(rows, record_id=IDS), reports)
        with pytest.raises(ValueError, match=r"\[record_id\] are passed but are not explicitly set as requested"):
            make_pipeline(clone(transformer)).fit_transform(rows, record_id=IDS)


ID_KEY = b"a key that nobody else has......"
MEMO = {"memoize": True, "secret_key": ID_KEY}


def rappor(names=("c",), ids=tuple(range(40)), dtype=object):
    frame = pd.DataFrame({name: ["x", "y"] * 20 for name in names}, dtype=object)
    frame.columns = pd.Index(list(names), dtype=dtype, tupleize_cols=False)
    encoder = RapporEncoder(1.0, n_bits=16, secret_key=ID_KEY)
    return encoder.fit(frame).transform(frame, record_id=ids).to_numpy().tolist()


def response(ids):
    frame = pd.DataFrame({"c": ["x", "y"] * 20}, dtype=object)
    encoder = RandomizedResponseEncoder(0.1, categories={"c": ["x", "y"]}, **MEMO)
    return encoder.fit(frame).transform(frame, record_id=ids)["c"].tolist()


def test_other_names_have_other_bits():
    every = [("c", 1), ("c", "1"), ("c", True), "c", ("c",), (("c", 1),), "('c', 1)", "(c, 1)"]
    assert len({repr(rappor([name])) for name in every}) == len(every)


WHOLE = list(range(7, 47))
TEXT = ["yes", *map(str, WHOLE[1:])]
WAYS = {
    "whole numbers": [
        WHOLE,
        list(map(str, WHOLE)),  # as in a CSV file
        pa.array(map(str, WHOLE)),
        pd.Series(WHOLE, dtype="Int64"),
        pa.array(WHOLE).dictionary_encode(),
    ],
    "texts": [
        TEXT,
        pd.Series(TEXT, dtype="string"),
        pa.array(TEXT).dictionary_encode(),
    ],
}


@pytest.mark.parametrize("kind", WAYS)
def test_ids_of_records(kind):
    first, *others = WAYS[kind]
    expected = rappor(ids=first), response(first)
    for ids in others:
        assert (rappor(ids=ids), response(ids)) == expected


def test_other_texts_are_other_records():
    texts = [WHOLE, [f"0{number}" for number in WHOLE], [f"+{number}" for number in WHOLE], TEXT]
    assert len({repr(rappor(ids=ids)) for ids in texts}) == len(texts)


def test_a_word_has_one_permanent_report_as_text_and_as_an_integer():
    encoder = RapporEncoder(1.0, n_bits=16, secret_key=ID_KEY)
    numbers, texts, others = (pd.DataFrame({"c": words}, dtype=object) for words in (
        WHOLE, list(map(str, WHOLE)), [f"0{number}" for number in WHOLE]))  # fmt: skip
    reports = [clone(encoder).fit(rows).transform(rows, record_id=IDS[:40]) for rows in (numbers, texts, others)]
    assert same(reports[0], reports[1])
    assert not same(reports[0], reports[2])


def test_an_integer_id_may_be_text_with_a_sign():
    words = pd.DataFrame({"x": ["a", "b"] * 50})
    encoder = RapporEncoder(1.0, n_bits=16, secret_key=bytes(32))
    ids = range(-50, 50)
    reports = encoder.fit_transform(words, record_id=ids)
    assert reports.equals(encoder.transform(words, record_id=list(map(str, ids))))
