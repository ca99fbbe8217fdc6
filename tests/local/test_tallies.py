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
    RandomizedResponseEncoder,
    ReportTally,
    SetValuedEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local import SecretKey
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
    names = ("estimate_counts", "estimate_frequencies", "estimate_mean")
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


@each(
    "name, changes",
    [
        ("numbers", {"mechanism": "laplace"}),
        ("numbers", {"grid_size": 21}),
        ("numbers", {"bounds": BOUNDS | {"age": (0, 101)}}),
        ("response", {"categories": {"sex": ["Male", "Female"], "job": ["clerk", None, "sales"]}}),
        *[("words", {parameter: value})
          for parameter, value in {"epsilon": 1.5, "n_bits": 9, "n_hashes": 1, "n_cohorts": 4}.items()],
    ],
)  # fmt: skip
def test_client_and_server_cannot_disagree(name, changes):
    fitted, tally = tallied(name)
    _, other = tallied(name, **changes)
    with pytest.raises(ValueError, match="must be of one protocol"):
        _ = tally + other
    with pytest.raises(ValueError, match="must be of one protocol"):
        estimates(fitted, other, 1)


def test_no_reports_have_no_estimate():
    fitted, _ = tallied("numbers")
    with pytest.raises(ValueError, match="0 sample"):
        fitted.estimate_mean(fitted.protocol_.empty_tally())
    sets = SetValuedEncoder(1.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": [["a"]]}))
    found = sets.protocol_.estimate(sets.protocol_.empty_tally())
    assert found["count"].isna().all()
    assert (found["upper"] - found["lower"] == np.inf).all()


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
        change("sizes", to=[60, 61]),
        change("counts", to=lambda counts: [[5], *counts]),
        change("counts", 0, 0, to=0.5),
        change("protocol", "fields", 0, "domain", 0, to=["Female", "Male", "Other"]),
        change("protocol", "weights", to=[1, 1]),
        *[change("counts", 0, 0, to=least) for least in (-(2**63), -(2**63) + 1, -6)],
    ],
    "sampled response": [change("sizes", to=lambda sizes: [sizes[0] + 1, sizes[1]])],
    "lists": [change("counts", 0, 0, to=-1), change("counts", to=[[0]])],
    "numbers": [
        change("counts", 0, 0, to=-1),
        change("counts", 0, 0, to=10**9),
        *[change("protocol", "fields", 0, "shape", to=shape) for shape in ([3], [3.0], [-1], "3", None)],
    ],
    "words": [
        change("counts", 0, to=[]),
        *[change("counts", 0, place, to=count) for place in (0, 1) for count in (-1, 1.0, 2**63 - 1)],
        change("protocol", "fields", 0, "shape", 0, to=7),
    ],
    "table": [
        change("n_reports", to=59),
        change("protocol", "fields", to=lambda fields: fields[1:]),
        change("protocol", "weights", to=None),
        change("counts", 0, 0, to=lambda count: count + 2_000),
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


def test_tallies_are_not_added_beyond_what_fits():
    most = 1 << 56
    one = ReportTally.from_json(tally_with(RandomizedResponseEncoder, [most, 0], most))
    with pytest.raises(ValueError, match=r"at most 2\*\*56 reports"):
        one + one


def test_text_of_others_is_read_within_limits():
    for text in ("[]", "1", "[" * 100_000):
        with pytest.raises(ValueError, match="a tally"):
            ReportTally.from_json(text)
    with pytest.raises(ValueError, match="a tally"):
        ReportTally.from_json("[" + "0," * (1 << 23) + "0]")


ONE_VALUE = pd.DataFrame({"x": ["v0"] * 4_000})
DECLARED = {"x": [f"v{number}" for number in range(8)]}


@each("kind", [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder, LocalHashingEncoder])
def test_estimates_far_outside_the_possible_counts_warn(kind):
    """True values, and half of them: what reports of a larger epsilon are nearly."""
    encoder = kind(1.0, categories=DECLARED, random_state=4).fit(ONE_VALUE)
    reports = encoder.transform(ONE_VALUE)
    encoder.estimate_counts(reports)
    supports = encoder.protocol_.oracles[0].supports(encoder.protocol_.read(reports)[0])
    foreign = reports[supports[:, 0]]
    mixed = pd.concat([reports, foreign, foreign, foreign])
    for given in (mixed, encoder.tally(mixed)):
        with pytest.warns(UserWarning, match=r"counts of \['x'\] are more than 6 standard errors outside") as caught:
            encoder.estimate_counts(given)
        assert caught[0].filename == __file__


@each("errors, warns", [(0, False), (5.8, False), (6.2, True)])
def test_estimates_warn_from_six_standard_errors_on(errors, warns):
    encoder = RandomizedResponseEncoder(1.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": ["a", "b"]}))
    n, q = 10_000, float(encoder.oracles_[0].q)
    ones = round(n * q - errors * np.sqrt(n * q * (1 - q)))
    reports = pd.DataFrame({"x": ["a"] * ones + ["b"] * (n - ones)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder.estimate_counts(reports)
    assert bool(caught) is warns


def test_permanent_reports_of_several_releases_do_not_warn():
    encoder = RandomizedResponseEncoder(0.5, categories=DECLARED, memoize=True, secret_key=SecretKey(bytes(32)))
    people = ONE_VALUE[:200]
    reports = encoder.fit(people).transform(people, record_id=np.arange(200))
    encoder.estimate_counts(pd.concat([reports] * 300))


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


def test_parameters_that_change_after_fit_are_not_written():
    people = pd.DataFrame({"a": ["x", "y"], "b": ["x", "y"]})
    shares = {"a": 1.0, "b": 3.0}
    categories = {"a": ["x", "y"], "b": ["x", "y"]}
    encoder = RandomizedResponseEncoder(1.0, shares=shares, categories=categories).fit(people)
    shares["a"] = 2.0
    text = encoder.to_json()
    assert json.loads(text)["guarantee"] == json.loads(RandomizedResponseEncoder.from_json(text).to_json())["guarantee"]
