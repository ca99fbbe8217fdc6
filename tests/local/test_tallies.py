"""Sums of reports: they add, are stored, give the estimates of the rows, and are refused where they do not fit."""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.base import clone

from skdp import (
    LocalHashingEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    ReportTally,
    SetValuedEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local import LocalTableEncoder, PosteriorFeatures, ReportTransformer, SecretKey, UnverifiedReportsWarning
from skdp.local.protocol import whole_weights
from tests.conftest import each
from tests.local.test_every_transformer import BOUNDS, TRANSFORMERS, every_transformer

SEX, ROW = {"sex": ["f", "m"]}, pd.DataFrame({"sex": ["f", "m"]})


def tallied(name, **parameters):
    transformer, table = TRANSFORMERS[name]
    fitted = clone(transformer).set_params(random_state=0, **parameters).fit(table)
    return fitted, fitted.tally(fitted.transform(table))


def estimates(fitted, reports, most=4):
    if hasattr(fitted, "decode"):
        return [fitted.decode(reports, ["a.example", "b.example"])]
    names = ("estimate_counts", "estimate_frequencies", "estimate_mean", "estimate_distribution")
    methods = [getattr(fitted, name) for name in names if hasattr(fitted, name)]
    return [method(reports) for method in methods[:most]]


@every_transformer
def test_batches_add_up_to_the_tally_of_all(name):
    transformer, table = TRANSFORMERS[name]
    fitted = clone(transformer).set_params(random_state=0).fit(table)
    reports = fitted.transform(table)
    parts = [fitted.tally(part) for part in (reports[:1], reports[1:25], reports[25:])]
    whole = fitted.tally(reports)
    assert parts[0] + parts[1] + parts[2] == whole
    assert parts[0] != parts[1]
    assert whole != 1
    assert (whole.n_reports, (whole + whole).n_reports) == (60, 120)
    assert whole + fitted.protocol_.empty_tally() == whole == whole.with_sums(whole.sums())
    for by_tally, by_rows in zip(estimates(fitted, whole), estimates(fitted, reports), strict=True):
        pd.testing.assert_frame_equal(by_tally, by_rows)


@each("name", TRANSFORMERS)
def test_counts_of_a_tally_are_those_of_its_reports(name):
    """So reports are recognised alike, as rows and as a tally."""
    fitted = clone(TRANSFORMERS[name][0]).set_params(random_state=0).fit(TRANSFORMERS[name][1])
    reports = fitted.transform(TRANSFORMERS[name][1])
    protocol = fitted.protocol_
    arrays = protocol.read(reports)
    expected = protocol.report_counts(arrays)
    counts = protocol.tallied_counts(protocol.tally(arrays))
    assert expected[0] == len(reports)
    assert counts is None or counts.tolist() == expected.tolist()
    assert protocol.empty_counts().tolist() == [0] * len(expected)


@every_transformer
def test_they_are_stored_and_read(name):
    fitted, tally = tallied(name)
    for again in (
        ReportTally.from_json(tally.to_json()),
        type(tally).from_json(tally.to_json()),
    ):
        assert again == tally
        assert type(again) is type(tally)
        assert again + tally == tally + tally
        pd.testing.assert_frame_equal(estimates(fitted, again, 1)[0], estimates(fitted, tally, 1)[0])


@every_transformer
def test_two_protocols_never_add(name):
    _, tally = tallied(name)
    names = [other for other in TRANSFORMERS if other != name and {other, name} != {"bits", "unbiased bits"}]
    others = [tallied(name, epsilon=3.0), *map(tallied, names)]
    for other, theirs in others:
        with pytest.raises(ValueError, match="cannot be added"):
            _ = tally + ReportTally.from_json(theirs.to_json())
        with pytest.raises(ValueError, match="different parameters"):
            estimates(other, tally, 1)
    with pytest.raises(TypeError):
        _ = tally + 1


@each(
    "name, changes",
    [
        ("numbers", {"mechanism": "laplace"}),
        ("numbers", {"grid_size": 21}),
        ("numbers", {"bounds": BOUNDS | {"age": (0, 101)}}),
        ("response", {"categories": {"sex": ["Male", "Female"], "job": ["clerk", None, "sales"]}}),
        *[("words", {parameter: value})
          for parameter, value in {"p": 0.25, "q": 0.8, "n_bits": 9, "n_hashes": 1, "n_cohorts": 4}.items()],
    ],
)  # fmt: skip
def test_client_and_server_cannot_disagree(name, changes):
    fitted, tally = tallied(name)
    _, other = tallied(name, **changes)
    with pytest.raises(ValueError, match="cannot be added"):
        _ = tally + other
    with pytest.raises(ValueError, match="different parameters"):
        estimates(fitted, other, 1)


def test_no_reports_have_no_estimate():
    fitted, _ = tallied("numbers")
    with pytest.raises(ValueError, match="0 sample"):
        fitted.estimate_mean(fitted.protocol_.empty_tally())
    sets = SetValuedEncoder(1.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": [["a"]]}))
    found = sets.protocol_.estimate(sets.protocol_.empty_tally())
    assert found["count"].isna().all()
    assert (found["upper"] - found["lower"] == np.inf).all()


@each("kind", ["response", "numbers", "words"])
def test_names_that_json_does_not_have_are_refused(kind):
    declared = {"response": {"categories": [["x", "y"]]}, "numbers": {"bounds": (0, 1)}, "words": {}}[kind]
    for name, is_stored in {("a", 1): True, 1: True, frozenset("a"): False}.items():
        table = pd.DataFrame({0: [0.5] if kind == "numbers" else ["x"]})
        table.columns = pd.Index([name], tupleize_cols=False)
        encoder = type(TRANSFORMERS[kind][0])(**declared).fit(table)
        tally = encoder.tally(encoder.transform(table))
        assert (tally + tally).n_reports == 2
        if is_stored:
            assert ReportTally.from_json(tally.to_json()) == tally
        else:
            with pytest.raises(TypeError, match="a frozenset cannot be saved"):
                tally.to_json()


def change(*path, to):
    def edit(content):
        *parents, last = path
        for key in parents:
            content = content[key]
        content[last] = to(content[last]) if callable(to) else to

    return edit


COMMON = [
    change("format", to="skdp tally, version 9"),
    lambda content: content.pop("format"),
    lambda content: content.pop("protocol"),
]
EDITS = {
    "response": [
        change("n_reports", to=-3),
        change("sizes", to=[60, 61]),
        change("sizes", to=[60]),
        change("counts", to=lambda counts: [[5], *counts]),
        change("counts", 0, 0, to=0.5),
        change("protocol", "fields", 0, "domain", 0, to=["Female", "Male", "Other"]),
        change("protocol", "fields", 0, "domain", 0, to=[[]]),
        change("protocol", "fields", 0, "possible", to="all"),
        change("protocol", "fields", 0, "possible", to=["one"]),
        change("protocol", "n_sampled", to=1),
        *[change("counts", 0, 0, to=least) for least in (-(2**63), -(2**63) + 1, -6)],
    ],
    "sampled response": [change("sizes", to=lambda sizes: [sizes[0] + 1, sizes[1]])],
    "lists": [change("counts", 0, 0, to=-1), change("counts", to=[[0]])],
    "numbers": [
        change("counts", 0, 0, to=-1),
        change("counts", 0, 0, to=10**9),
        change("counts", 0, to=[60]),
        change("protocol", "fields", 0, "columns", to=1),
        change("protocol", "fields", 0, to={}),
        change("protocol", "fields", 0, to="age"),
        *[change("protocol", "fields", 0, "shape", to=shape) for shape in ([3], [3.0], [-1], "3", None)],
    ],
    "sampled numbers": [
        *[change("protocol", "n_sampled", to=size) for size in (0, 4, "2")],
        *[change("counts", 0, 0, to=lambda count, more=more: count + more) for more in (1, 2_000)],
    ],
    "words": [
        change("counts", 0, to=[]),
        *[change("counts", 0, place, to=count) for place in (0, 1) for count in (-1, 99, 1.0, 2**63 - 1)],
        change("sizes", to=[59]),
        change("protocol", "fields", to=[]),
        change("protocol", "fields", 0, "shape", 0, to=7),
        change("protocol", "fields", 0, "shape", to=lambda shape: [shape[0] * shape[1]]),
    ],
    "table": [
        change("n_reports", to=59),
        change("n_reports", to=-1),
        change("protocol", "fields", 0, to={"possible": "one"}),
        change("protocol", "fields", to=lambda fields: fields[1:]),
        change("counts", to=[]),
        *[change("protocol", "n_sampled", to=size) for size in ("x", [[]], True, 0, 1.0)],
        change("protocol", "fields", 0, "domain", 0, to=[[]]),
    ],
}


@pytest.mark.parametrize("name", EDITS)
def test_what_does_not_fit_itself_is_no_tally(name):
    _, tally = tallied(name)
    content = json.loads(tally.to_json())
    for edit in COMMON + EDITS[name]:
        changed = copy.deepcopy(content)
        edit(changed)
        with pytest.raises(ValueError, match=r"tally|sums"):
            ReportTally.from_json(json.dumps(changed))


def tally_with(kind, support, n=1000):
    encoder = kind(1.0, categories=SEX).fit(ROW)
    content = json.loads(encoder.protocol_.empty_tally().to_json())
    return json.dumps(content | {"counts": [support], "sizes": [n], "n_reports": n})


@each(
    "kind supports",
    [
        (RandomizedResponseEncoder, [[-1000, 1000], [-1, 1001], [1000, 1000], [499, 500]]),
        (UnaryEncodingTransformer, [[-1, 5], [1001, 5]]),
        (SubsetSelectionEncoder, [[-1, 5], [1001, 5]]),
        (LocalHashingEncoder, [[-1, 5], [1001, 5]]),
    ],
)
def test_sums_that_no_reports_have_are_refused(kind, supports):
    for support in supports:
        with pytest.raises(ValueError, match="do not fit each other"):
            ReportTally.from_json(tally_with(kind, support))


def test_tallies_are_not_added_beyond_what_fits():
    most = 1 << 56
    one = ReportTally.from_json(tally_with(RandomizedResponseEncoder, [most, 0], most))
    with pytest.raises(ValueError, match=r"at most 2\*\*56 reports"):
        one + one


def test_text_of_others_is_read_within_limits():
    for text in ("[]", "1", "[" * 100_000):
        with pytest.raises(ValueError, match="no tally of this kind"):
            ReportTally.from_json(text)
    with pytest.raises(ValueError, match="a tally has at most"):
        ReportTally.from_json("[" + "0," * (1 << 21) + "0]")


VALUES = [f"v{number}" for number in range(8)]
SKEWED = pd.DataFrame({"x": np.repeat(VALUES, [3_400, 1_800, 900, 700, 500, 400, 200, 100])})
ONE_VALUE = pd.DataFrame({"x": ["v0"] * 8_000})
ENCODERS = {
    "response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "hashing": LocalHashingEncoder,
}


def encoder_of(kind, epsilon, **options):
    return ENCODERS[kind](epsilon, categories={"x": VALUES}, **options).fit(SKEWED)


@pytest.mark.parametrize("kind", ENCODERS)
def test_reports_of_another_epsilon_are_refused(kind):
    encoder, other = (encoder_of(kind, epsilon, random_state=4) for epsilon in (1.0, 4.0))
    if kind == "response":
        foreign = other.transform(ONE_VALUE).to_numpy()
    else:  # the same reports with less noise
        foreign = encoder.encode(ONE_VALUE) if kind in ("unary", "subset") else without_noise(encoder)
    foreign = pd.DataFrame(foreign, columns=encoder.get_feature_names_out())
    mixed, encoder = pd.concat([encoder.transform(ONE_VALUE), foreign, foreign]), server(encoder)
    with pytest.raises(ValueError, match="the reports of 'x' have sums that reports of this transformer cannot have"):
        encoder.estimate_counts(mixed)
    with pytest.raises(ValueError, match="epsilon may be among them, values may have been overwritten"):
        encoder.estimate_counts(encoder.tally(mixed))


def server(encoder):
    """The same transformer, which has made no reports itself."""
    return type(encoder).from_json(encoder.to_json())


def bare(reports):
    """The reports without notes."""
    reports.attrs = {}
    return reports


def without_noise(encoder):
    """The reports of the first value that support it."""
    reports = encoder.transform(ONE_VALUE).to_numpy()
    protocol = encoder.protocol_
    supports = protocol.oracles[0].supports(protocol.read(pd.DataFrame(reports, columns=protocol.report_columns))[0])
    return reports[supports[:, 0]]


def test_no_column_that_nobody_asks_for_is_refused():
    people = pd.DataFrame({"sex": ["f", "m"] * 4_000, "city": ["a", "b", "c", "d"] * 2_000})
    encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["f", "m"], "city": list("abcd")}).fit(people)
    women = encoder.transform(people).query("sex == 'f'")
    assert encoder.estimate_counts(women, columns=["city"])["count"].min() > 300
    with pytest.raises(ValueError, match="the reports of 'sex' have sums"):
        encoder.estimate_counts(women)
    with pytest.raises(ValueError, match="rows may have been chosen by their reports"):
        encoder.estimate_joint_counts(women)


def test_between_five_and_seven_standard_errors_it_is_a_warning():
    encoder = RandomizedResponseEncoder(1.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": ["a", "b"]}))
    n, q = 10_000, float(encoder.oracles_[0].q)
    spread = np.sqrt(n * q * (1 - q))

    def estimate(errors):
        ones = round(n * q - errors * spread)
        return encoder.estimate_counts(pd.DataFrame({"x": ["a"] * ones + ["b"] * (n - ones)}))

    for errors in (0, 2, 4.7):
        estimate(errors)
    for errors in (5.1, 6.7):
        with pytest.warns(UnverifiedReportsWarning, match="fewer than one of 1,000,000 tables") as caught:
            estimate(errors)
        assert caught[0].filename == __file__
    for errors in (7.5, 20):
        with pytest.raises(ValueError, match="cannot have, whatever the true values"):
            estimate(errors)


def test_a_bootstrap_is_never_refused():
    # A value that nobody has, drawn again with replacement: the variance of its count is that of two tables.
    encoder = RandomizedResponseEncoder(1.0, categories={"x": VALUES}, random_state=0).fit(SKEWED)
    reports = encoder.transform(pd.DataFrame({"x": VALUES[:4] * 500}))
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnverifiedReportsWarning)
        for _ in range(200):
            encoder.estimate_counts(encoder.tally(reports.iloc[rng.integers(len(reports), size=len(reports))]))


def test_permanent_reports_may_come_from_several_releases():
    encoder = RandomizedResponseEncoder(
        1.0, categories={"x": VALUES}, memoize=True, secret_key=SecretKey(b"a key of sixteen bytes")
    ).fit(SKEWED)
    people = pd.DataFrame({"x": VALUES[:2] * 200})
    year = bare(pd.concat([encoder.transform(people, record_id=np.arange(400))] * 30))
    assert len(server(encoder).estimate_counts(year)) == len(VALUES)


FRUIT = ["apple", "fig", "kiwi", "pear"]
READERS = {
    "sex": (
        LocalTableEncoder(1.0, categories=SEX, bounds={"age": (0, 100)}),
        pd.DataFrame({"sex": ["f"] * 3_000, "age": [30.0] * 3_000}),
    ),
    "fruit": (
        SetValuedEncoder(1.0, categories={"fruit": FRUIT}, max_size=2),
        pd.DataFrame({"fruit": [["apple"], ["apple", "fig"], ["kiwi"]] * 1_000}),
    ),
    "home": (RapporEncoder(n_bits=16, n_cohorts=4), pd.DataFrame({"home": ["a.example", "b.example"] * 1_500})),
}


@pytest.mark.parametrize("column", READERS)
def test_all_who_read_reports_refuse_them(column):
    encoder, table = READERS[column]
    reports, encoder = bare(encoder.fit(table).transform(table)), server(encoder)
    estimates(encoder, reports, 1)
    name = next(name for name in reports if name.startswith(column) and name != f"{column}_cohort")
    with pytest.raises(ValueError, match=f"the reports of '{column}' have sums"):
        estimates(encoder, reports.assign(**{name: "f" if column == "sex" else 1}), 1)


def test_posterior_features_refuse_them():
    with pytest.raises(ValueError, match="have sums that reports"):
        PosteriorFeatures(encoder_of("response", 1.0), privatize=False).fit(ONE_VALUE)


def test_reports_that_are_not_in_memory_name_the_function_that_sums_them_up():
    people = pd.DataFrame({"sex": ["f", "m"]})
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people)
    table = pa.table({"sex": ["f", "m"]})
    for reports in (pyarrow.dataset.dataset(table), pl.from_arrow(table).lazy()):
        for read in (encoder.tally, encoder.estimate_counts):
            with pytest.raises(TypeError, match=r"skdp\.engines\.tally"):
                read(reports)


def test_columns_whose_names_are_tuples_are_estimated_by_name():
    names = [("a", 1), ("b", 2)]
    people = pd.DataFrame([["f", "x"], ["m", "y"]] * 50)
    people.columns = pd.Index(names, tupleize_cols=False)
    categories = {names[0]: ["f", "m"], names[1]: ["x", "y"]}
    encoder = RandomizedResponseEncoder(1.0, categories=categories, random_state=0)
    reports = encoder.fit_transform(people)
    counts = encoder.estimate_counts(reports)
    assert list(counts.index) == [(names[0], "f"), (names[0], "m"), (names[1], "x"), (names[1], "y")]
    assert counts.index.names == ["column", "category"]
    assert counts["count"].iloc[:2].sum() == pytest.approx(100)
    from_protocol = encoder.protocol_.estimate(encoder.tally(reports))
    pd.testing.assert_frame_equal(from_protocol, counts)


def test_distributions_of_columns_whose_names_are_tuples_are_labelled_by_name():
    names = [("a", 1), ("b", 2)]
    numbers = pd.DataFrame([[1.0, 2.0], [3.0, 1.0]] * 50)
    numbers.columns = pd.Index(names, tupleize_cols=False)
    bounds = {names[0]: (0, 4), names[1]: (0, 4)}
    perturber = NumericPerturber(1.0, bounds=bounds, mechanism="distribution", grid_size=16, random_state=0)
    table = perturber.fit(numbers).estimate_distribution(perturber.transform(numbers), n_bins=2)
    assert list(table.index.get_level_values("column")) == [names[0], names[0], names[1], names[1]]
    assert table.index.names == ["column", "bin"]
    first = numbers.iloc[:, :1]
    perturber = NumericPerturber(1.0, bounds={names[0]: (0, 4)}, mechanism="laplace", random_state=0)
    table = perturber.fit(first).estimate_distribution(perturber.transform(first), n_bins=2)
    assert table.index.name == names[0]


@pytest.mark.parametrize(("strategy", "message"), [("split", "require strategy='sample'"), ("sample", "got Series$")])
def test_weights_as_a_series_are_refused_by_name(strategy, message):
    weights = pd.Series({"a": 1.0, "b": 2.0})
    bounds = {"a": (0, 1), "b": (0, 1)}
    perturber = NumericPerturber(1.0, bounds=bounds, strategy=strategy, weights=weights)
    with pytest.raises(ValueError, match=rf"weights.*{message}"):
        perturber.fit(pd.DataFrame({"a": [0.5], "b": [0.5]}))


def test_an_outside_transformer_without_rows_says_what_to_implement():
    with pytest.raises(ValueError, match="implement declared_row"):
        ReportTransformer.declared_row(RandomizedResponseEncoder(), None, [])


@pytest.mark.parametrize("weights", [pd.Series({"a": 1.0, "b": 2.0}), [1, 2], None, "none"])
def test_weights_that_are_no_mapping_are_named_by_type(weights):
    came = "'none'" if isinstance(weights, str) else type(weights).__name__
    with pytest.raises(ValueError, match=f"mapping of column to number, got {came}$"):
        whole_weights(weights, ["a", "b"])


def test_parameters_that_change_after_fit_are_not_written():
    people = pd.DataFrame({"a": ["x", "y"], "b": ["x", "y"]})
    shares = {"a": 1.0, "b": 3.0}
    categories = {"a": ["x", "y"], "b": ["x", "y"]}
    encoder = RandomizedResponseEncoder(1.0, shares=shares, categories=categories).fit(people)
    shares["a"] = 2.0
    text = encoder.to_json()
    assert json.loads(text)["guarantee"] == json.loads(RandomizedResponseEncoder.from_json(text).to_json())["guarantee"]


def test_the_counts_of_a_note_are_few_and_add_up():
    values = pd.DataFrame({"a": range(300)})
    encoder = UnaryEncodingTransformer(1.0, categories={"a": range(300)}).fit(values)
    protocol = encoder.protocol_
    reports = protocol.read(encoder.transform(values))
    counts = protocol.report_counts(reports)
    assert counts.shape == (1 + 256,)
    # Each bit is counted, as a one or as a zero.
    assert counts[0] == 300
    assert counts[1:].sum() == 300 * 300
