"""Permanent reports: equal in all calls, distributed as the channel, and without further loss if they are repeated."""

import hashlib
import pickle
from collections import Counter
from datetime import date
from decimal import Decimal
from itertools import cycle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

import skdp
from skdp.oracles import Optimal
from tests.conftest import counted_draws, often, quick_first
from tests.errors import refusal
from tests.local.transformers import ENCODERS
from tests.oracles.conftest import all_reports

FALSE_ALARM = 1e-6
KEY = skdp.SecretKey(b"a key that everybody knows, for tests")
DOMAIN = {"x": ["a", "b", "c", "d", "e"], "y": [0, 1, 2]}
BOUNDS = {"age": (0, 100), "hours": (0, 80)}
IDS = list(range(60))
DAY = date(2026, 3, 29)
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({name: RNG.choice(np.array(values, object), 60) for name, values in DOMAIN.items()})
ROWS = ROWS.astype({"y": int})
NUMBERS = pd.DataFrame({name: RNG.uniform(*ends, 60) for name, ends in BOUNDS.items()})


def make(kind=skdp.RandomizedResponseEncoder, epsilon=2.0, **parameters):
    return kind(epsilon, **{"categories": DOMAIN, "memoize": True, "secret_key": KEY} | parameters)


def numbers(mechanism="square_wave", epsilon=1.0, **parameters):
    given = {"bounds": BOUNDS, "grid_size": 16, "memoize": True, "secret_key": KEY} | parameters
    if mechanism == "outcomes":
        mechanism = Optimal(given["grid_size"], epsilon / len(given["bounds"])).outcomes
    return skdp.NumericPerturber(epsilon, mechanism=mechanism, **given)


def same(left, right):
    return np.array_equal(np.asarray(left).astype(str), np.asarray(right).astype(str))


PERMANENT = {
    **{f"{kind.__name__}, {strategy}": (make(kind, strategy=strategy), ROWS)
       for kind in ENCODERS for strategy in ("split", "joint", "sample")},
    **{f"numbers, {mechanism}": (numbers(mechanism), NUMBERS) for mechanism in ("outcomes", "square_wave")},
    "words": (skdp.RapporEncoder(4.0, secret_key=KEY), ROWS.astype(str)),
}  # fmt: skip


# Each encoder with one strategy.
SOME = [f"{kind.__name__}, {strategy}" for kind, strategy in zip(ENCODERS, cycle(["split", "joint", "sample"]))]


@pytest.mark.parametrize("name", often(PERMANENT, [*SOME, "numbers, outcomes", "words"]))
def test_reports_are_equal_over_calls_orders_batches_pickles_and_clones(name):
    transformer, rows = PERMANENT[name]
    fitted = clone(transformer).fit(rows)
    reports = fitted.transform(rows, person=IDS)
    for copied in (fitted, pickle.loads(pickle.dumps(fitted)), clone(transformer).fit(rows[:1])):
        assert same(copied.transform(rows[::-1], person=IDS[::-1]), reports[::-1])
        assert same(copied.transform(rows[3:9], person=IDS[3:9]), reports[3:9])
    seeded = clone(transformer).set_params(random_state=5).fit(rows[:1])
    assert same(seeded.transform(rows, person=IDS), fitted.transform(rows, person=IDS))
    assert fitted.guarantee_.secure


# Without the optimal mechanism, because its outcomes depend on the solver's version.
@pytest.mark.parametrize(
    ("transformer", "rows", "expected"),
    [
        (make(skdp.RandomizedResponseEncoder), ROWS, "bac2b1c0092a"),
        (make(skdp.UnaryEncodingTransformer), ROWS, "3f063a13d865"),
        (make(skdp.LocalHashingEncoder), ROWS, "329954977846"),
        (make(skdp.SubsetSelectionEncoder), ROWS, "278f4fbd39bc"),
        (numbers("square_wave"), NUMBERS, "d8fe7a0a547e"),
    ],
)
def test_reports_are_equal_in_all_versions(transformer, rows, expected):
    """If an oracle uses its random bits differently, raise the format in `local.memo` and update these reports."""
    if rows is ROWS:
        rows = pd.DataFrame({name: [values[row % len(values)] for row in IDS] for name, values in DOMAIN.items()})
    else:
        rows = pd.DataFrame({"age": np.arange(60.0), "hours": np.arange(60.0)[::-1]})
    reports = clone(transformer).fit_transform(rows, person=IDS)
    written = repr((reports.round(6) if "age" in rows else reports).to_numpy().tolist()).encode()
    assert hashlib.sha256(written).hexdigest()[:12] == expected


def agreement(**change):
    """Return how many of 400 records keep their report after a change, at an epsilon with nearly uniform reports."""

    def reports(kind=skdp.RandomizedResponseEncoder, prefix="p", value="a", column="x", epsilon=0.1, **parameters):
        given = {"categories": {column: DOMAIN["x"]}} | parameters
        ids = [f"{prefix}{row}" for row in range(400)]
        rows = pd.DataFrame({column: [value] * 400})
        return make(kind, epsilon, **given).fit_transform(rows, person=ids)[column].to_numpy()

    return (reports() == reports(**change)).sum()


def agreement_of_numbers(**change):
    """Return how many of 400 equal numbers keep both reports after a change; each report is nearly a fair coin."""

    def reports(prefix="p", mechanism="square_wave", epsilon=1e-3, grid_size=1, bounds=(0, 1), **parameters):
        fitted = numbers(mechanism, epsilon, grid_size=grid_size, bounds=[bounds], **parameters).fit([[0.5]])
        given = fitted.transform(np.ones((400, 1)), person=[f"{prefix}{row}" for row in range(400)])
        return given[:, 0] > bounds[1] / 2

    return (reports() == reports(**change)).sum()


@pytest.mark.parametrize(
    "change", [{"secret_key": KEY + b"x"}, {"prefix": "q"}, {"bounds": (0, 1.5)}, {"grid_size": 3}, {"epsilon": 0.002}]
)
def test_reports_of_numbers_depend_on_all_parameters(change):
    """Two independent reports agree with probability 1/2."""
    assert 140 < agreement_of_numbers(**change) < 260


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
)
def test_reports_depend_on_each_part_of_the_context(change):
    """Two independent reports agree with probability 1/5."""
    assert 40 < agreement(**change) < 120


def test_all_bytes_of_a_long_key_are_used():
    """BLAKE2b takes keys of 64 bytes."""
    first, other = (make(secret_key=bytes(99) + end).fit_transform(ROWS, person=IDS) for end in (b"0", b"1"))
    assert not same(first, other)


def test_reports_of_bins_depend_on_the_edges():
    """The midpoints are equal. Two independent reports agree with probability 1/2."""
    rows, reports = pd.DataFrame({"x": [1.0] * 400}), []
    for edges in ([0, 2, 4], [-0.5, 2.5, 3.5]):
        encoder = make(epsilon=0.1, categories={"x": skdp.Interval(edges)})
        reports.append(encoder.fit_transform(rows, person=range(400))["x"])
    assert 140 < (reports[0] == reports[1]).sum() < 260


def test_rows_columns_and_values_are_independent():
    """Pairs of reports at a small epsilon: all combinations are equally frequent."""
    ids = list(range(5_000))
    rows = pd.DataFrame({"u": ["a"] * 5_000, "v": ["a"] * 5_000})
    encoder = make(epsilon=1e-6, categories=[DOMAIN["x"]] * 2).fit(rows)
    reports, other = encoder.transform(rows, person=ids), encoder.transform(rows.assign(u="b"), person=ids)
    pairs = [(reports["u"], reports["v"]), (reports["u"], other["u"]), (reports["u"][:-1], reports["u"][1:])]
    rows = pd.DataFrame({"age": [100.0] * 5_000, "hours": [80.0] * 5_000})
    fitted = numbers(epsilon=1e-3, grid_size=1).fit(rows)
    first = fitted.transform(rows, person=ids) > 50
    second = fitted.transform(rows.assign(age=0.0), person=ids) > 50
    pairs += [(first["age"], first["hours"]), (first["age"], second["age"]), (first["age"][:-1], first["age"][1:])]
    assert (first["hours"] == second["hours"]).all()
    halves = numbers(epsilon=40.0, grid_size=1, bounds=[(0, 1)] * 2).fit([[0, 0]])
    rounded = halves.transform(np.full((1_000, 2), 0.5), person=ids[:1_000]) > 0.5
    pairs.append((rounded[:, 0], rounded[:, 1]))
    for left, right in pairs:
        assert (
            chisquare(np.unique([*zip(left, right, strict=True)], axis=0, return_counts=True)[1]).pvalue > FALSE_ALARM
        )


class TestChannel:
    """Permanent reports of many records follow the exact channel."""

    N = 2_000

    def reports(self, kind, value, **parameters):
        encoder = make(kind, 1.5, categories={"x": DOMAIN["x"]}, **parameters)
        rows = pd.DataFrame({"x": [value] * self.N})
        return encoder.fit(rows), np.asarray(encoder.transform(rows, person=list(range(self.N))))

    @pytest.mark.parametrize(
        "kind", [skdp.RandomizedResponseEncoder, skdp.UnaryEncodingTransformer, skdp.SubsetSelectionEncoder]
    )
    @pytest.mark.parametrize("value", ["a", "d"])
    def test_reports_of_categories_and_bits_follow_the_channel(self, kind, value):
        encoder, reports = self.reports(kind, value)
        seen = Counter(map(tuple, reports.tolist()))
        order = [(label,) for label in DOMAIN["x"]]
        if kind is not skdp.RandomizedResponseEncoder:
            order = list(map(tuple, all_reports(encoder.oracles_[0]).tolist()))
        assert sum(seen[key] for key in order) == self.N
        row = np.array(encoder.channel()[0][DOMAIN["x"].index(value)], float)
        assert chisquare([seen[key] for key in order], row * self.N).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("mechanism", ["outcomes", "square_wave"])
    @pytest.mark.parametrize("value", [10.0, 10.35])
    def test_reports_of_numbers_between_grid_positions_follow_the_channel(self, mechanism, value):
        fitted = numbers(mechanism, 2.0, bounds=[(10, 11)], grid_size=4).fit([[10]])
        reports = fitted.transform(np.full((self.N, 1), value), person=list(range(self.N)))[:, 0]
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

    def test_sampled_column_is_permanent_and_independent_of_values(self):
        rows = pd.concat([ROWS] * 30, ignore_index=True)
        ids = list(range(len(rows)))
        encoder = make(skdp.UnaryEncodingTransformer, strategy="sample", instantaneous_epsilon=1.0).fit(rows)
        chosen = encoder.transform(rows, person=ids)["sampled"]
        assert chisquare(np.bincount(chosen)).pvalue > FALSE_ALARM
        assert chosen.tolist() == encoder.transform(rows[::-1], person=ids)["sampled"].tolist()


def test_number_between_two_positions_has_one_report():
    """With fresh rounding, it would have the reports of both positions, at twice the loss, and reveal where it is."""
    ids = list(range(40))
    fitted = numbers("square_wave", 1e-3, bounds=[(0, 1)], grid_size=5).fit([[0]])
    calls = [fitted.transform(np.full((40, 1), value), person=ids)[:, 0] for value in np.linspace(0, 1, 30)]
    for own in np.transpose(calls):  # the range is divided into parts: a report belongs to an interval of values
        assert 1 + np.count_nonzero(np.diff(own)) <= 5 + 1


def test_instantaneous_reports_are_fresh_and_average_to_permanent_bits():
    encoder = make(skdp.UnaryEncodingTransformer, 3.0, instantaneous_epsilon=2.0, strategy="joint", random_state=0)
    rows, ids = pd.concat([ROWS] * 3, ignore_index=True), list(range(180))
    calls = [encoder.fit(rows).transform(rows, person=ids)]
    calls += [encoder.transform(rows, person=ids) for _ in range(79)]
    permanent = clone(encoder).set_params(instantaneous_epsilon=None).fit_transform(rows, person=ids)
    # A bit flips with probability below 1/2.
    assert ((np.mean(calls, axis=0) > 0.5) == permanent.to_numpy()).mean() > 0.99
    # Estimates of a single call include the errors of both rounds.
    found = encoder.estimate_counts(calls[0])
    scores = (found["count"] - rows.value_counts().reindex(found.index).fillna(0)) / found["std_error"]
    assert 0.3 < (scores**2).mean() < 2


def test_record_has_at_most_one_permanent_report_per_bucket():
    """LOLOHA: a record has one seed and one permanent report per bucket, whatever values it has over time."""
    k, n = 40, 50
    encoder = make(skdp.LocalHashingEncoder, 1.0, categories={"x": range(k)})
    encoder.fit(pd.DataFrame({"x": [0]}))
    oracle, ids = encoder.oracles_[0], list(range(n))
    calls = [encoder.transform(pd.DataFrame({"x": [value] * n}), person=ids).to_numpy() for value in range(k)]
    for reports in np.stack(calls, axis=1).astype(np.uint64):  # reports of a record, by value
        assert len({*reports[:, 0].tolist()}) == 1
        buckets_of_values = oracle.hash_family(reports[:, 0], np.arange(k)).tolist()
        pairs = {*zip(buckets_of_values, reports[:, 1].tolist(), strict=True)}
        assert len(pairs) == len({bucket for bucket, _ in pairs}) <= oracle.n_buckets


@pytest.mark.parametrize("name", ["values", "numbers"])
def test_each_call_charges_before_drawing(name, monkeypatch):
    ledger, rows = skdp.PrivacyLedger(epsilon=5.0), ROWS if name == "values" else NUMBERS
    fitted = (
        make(skdp.UnaryEncodingTransformer, instantaneous_epsilon=1.0) if name == "values" else numbers(epsilon=2.0)
    )
    fitted.set_params(ledger=ledger).fit(rows)
    for _ in range(2):
        fitted.transform(rows, person=IDS)
    assert ledger.spent[0] == pytest.approx(4.0)
    field = type(fitted.protocol_.fields[0])
    monkeypatch.setattr(field, "report_permanent", lambda *of: pytest.fail("a report was computed"))
    with counted_draws() as drawn, pytest.raises(skdp.BudgetExceeded):
        fitted.transform(rows, person=IDS)
    assert drawn == [0]


class TestErrors:
    @pytest.mark.parametrize(
        ("parameters", "error", "match"),
        [
            ({"secret_key": None}, ValueError, "memoize=True requires a `secret_key`"),
            ({"secret_key": "hush, this is a secret"}, TypeError, "`secret_key` must be None or bytes, got str"),
            ({"secret_key": b"hush"}, ValueError, "`secret_key` must have at least 16 bytes, got 4"),
            ({"secret_key": b"0f" * 32 + b"\n"}, ValueError, r"got a line of hexadecimal digits.*SecretKey\.fromhex"),
            ({"memoize": 1}, TypeError, "`memoize` must be True or False, got int"),
            ({"memoize": False, "secret_key": None}, ValueError, "`instantaneous_epsilon` requires memoize=True"),
            ({"instantaneous_epsilon": 2.0}, ValueError, "must be smaller than epsilon, got 2.0 and"),
            ({"instantaneous_epsilon": "1"}, TypeError, "`instantaneous_epsilon` must be a finite number > 0"),
        ],
    )
    def test_invalid_parameters_raise_an_error(self, parameters, error, match):
        with refusal(error, match, "hush"):
            make(skdp.UnaryEncodingTransformer, **{"instantaneous_epsilon": 1.0} | parameters).fit(ROWS)

    @pytest.mark.parametrize(
        ("ids", "error", "match"),
        [
            (None, ValueError, r"Permanent reports require `person`, .*set_transform_request\(person=True\)"),
            ([1, 2, 1], ValueError, "`person` has repeated entries. Pass one row"),
            (np.ones((3, 1)), ValueError, "`person` cannot be read"),
            ("abc", ValueError, "`person` expected a column"),
            ([1, None, 3], ValueError, "`person` contains missing values"),
            (pd.Series([1, None, 3]), ValueError, "`person` must be integers or text, got float"),
            *[([1, 2, odd], ValueError, f"`person` must be integers or text, got {kind}")
              for odd, kind in ((7.0, "float"), (True, "bool"), (b"7", "bytes"), (DAY, "date"), (("7",), "tuple"))],
            *[(make_ids(["1", "2", "7.0"]), ValueError, "`person` must be integers without a decimal point")
              for make_ids in (list, pd.Series, pl.Series, pa.array)],
            *[([1, 2, odd], ValueError, "`person` (must be|cannot be|contains)")
              for odd in ({"secret"}, Decimal("sNaN"), 10**5000, np.timedelta64(3, "s"))],
        ],
    )  # fmt: skip
    @pytest.mark.parametrize(
        "name", quick_first(1, ["words", "RandomizedResponseEncoder, split", "numbers, square_wave"])
    )
    def test_invalid_record_ids_raise_before_charge(self, name, ids, error, match):
        transformer, rows = PERMANENT[name]
        with refusal(error, match, "secret") as ledger:
            clone(transformer).set_params(ledger=ledger).fit(rows).transform(rows[:3], person=ids)

    def test_categories_from_the_data_raise_an_error(self):
        """A new value would draw all reports again, and whether all categories occur must not matter."""
        rows = pd.DataFrame({"a": ["x", "y"] * 20})
        for table in (rows, rows.astype("category"), rows.astype(pd.CategoricalDtype(["y", "x", "z"]))):
            with pytest.raises(ValueError, match="The categories of 'a' must be declared: memoize=True"):
                make(categories="auto").fit(table)
        make(categories="auto").fit(rows.astype(pd.CategoricalDtype(["x", "y"], ordered=True)))

    def test_repr_does_not_contain_the_key(self):
        encoder = make().fit(ROWS)
        for shown in (repr(encoder), str(encoder.secret_key), f"{encoder.secret_key}", repr(vars(encoder))):
            assert "everybody" not in shown
        assert "everybody" not in encoder._repr_html_()
        assert clone(encoder).secret_key == KEY
        assert bytes(KEY) in pickle.dumps(encoder)  # as documented


@pytest.mark.parametrize("name", ["RandomizedResponseEncoder, split", "numbers, square_wave", "words"])
def test_record_ids_are_routed(name):
    transformer, rows = PERMANENT[name]
    with sklearn.config_context(enable_metadata_routing=True):
        step = clone(transformer).set_transform_request(person=True)
        reports = clone(transformer).fit_transform(rows, person=IDS)
        pipeline = make_pipeline(ColumnTransformer([("private", step, list(rows))])).fit(rows, person=IDS)
        assert same(pipeline.transform(rows, person=IDS), reports)
        if hasattr(step, "_encode"):
            assert same(skdp.OnFitOnly(step).fit_transform(rows, person=IDS), reports)
        with pytest.raises(ValueError, match=r"\[person\] are passed but are not explicitly set as requested"):
            make_pipeline(clone(transformer)).fit_transform(rows, person=IDS)


WHOLE = [*range(-20, 20)]
EQUAL_IDS = [
    list(map(str, WHOLE)),  # as in a CSV file
    pa.array(map(str, WHOLE)),
    pd.Series(WHOLE, dtype="Int64"),
    pd.Series(list(map(str, WHOLE)), dtype="string"),
    pa.array(WHOLE).dictionary_encode(),
]
OTHER_IDS = [[f"0{number}" for number in WHOLE], [f"+{number}" for number in WHOLE], ["yes", *map(str, WHOLE[1:])]]


@pytest.mark.parametrize("name", ["RandomizedResponseEncoder, split", "words"])
def test_integer_ids_equal_their_decimal_text(name):
    transformer, rows = PERMANENT[name]
    fitted = clone(transformer).fit(rows)
    expected = fitted.transform(rows[:40], person=WHOLE)
    for ids in EQUAL_IDS:
        assert same(fitted.transform(rows[:40], person=ids), expected)
    for ids in OTHER_IDS:
        assert not same(fitted.transform(rows[:40], person=ids), expected)


def test_words_and_column_names_of_integers_equal_their_text():
    def reports(words, name="c"):
        frame = pd.DataFrame({"c": words}, dtype=object)
        frame.columns = pd.Index([name], dtype=object, tupleize_cols=False)
        encoder = skdp.RapporEncoder(1.0, n_bits=16, secret_key=KEY)
        return encoder.fit(frame).transform(frame, person=IDS[:40]).to_numpy().tolist()

    expected = reports(WHOLE)
    assert reports(list(map(str, WHOLE))) == expected
    assert reports([f"0{number}" for number in WHOLE]) != expected
    names = [("c", 1), ("c", "1"), ("c", True), "c", ("c",), (("c", 1),), "('c', 1)", "(c, 1)"]
    assert len({repr(reports(WHOLE, name)) for name in names}) == len(names)
