"""Sums of reports: addition, storage, estimates equal to estimates of rows, and errors for sums that do not fit."""

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
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    ReportTally,
    SetValuedEncoder,
)
from tests.local.transformers import BOUNDS, TRANSFORMERS, every_transformer


def tally_reports(name, **parameters):
    transformer, table = TRANSFORMERS[name]
    fitted = clone(transformer).set_params(random_state=0, **parameters).fit(table)
    return fitted, fitted.tally(fitted.transform(table))


def estimates(fitted, reports):
    if hasattr(fitted, "decode"):
        return [fitted.decode(reports, ["a.example", "b.example"])]
    names = ("estimate_counts", "estimate_frequencies", "estimate_mean")
    return [getattr(fitted, name)(reports) for name in names if hasattr(fitted, name)]


@every_transformer
def test_tallies_add_up_and_give_the_estimates_of_the_rows(name):
    transformer, table = TRANSFORMERS[name]
    fitted = clone(transformer).set_params(random_state=0).fit(table)
    reports = fitted.transform(table)
    parts = [fitted.tally(part) for part in (reports[:1], reports[1:25], reports[25:])]
    whole = fitted.tally(reports)
    assert parts[0] + parts[1] + parts[2] == whole
    assert parts[0] != parts[1]
    assert (whole.n_reports, (whole + whole).n_reports) == (60, 120)
    assert whole + fitted.protocol_.empty_tally() == whole == whole.with_sums(whole.sums())
    for by_tally, by_rows in zip(estimates(fitted, whole), estimates(fitted, reports), strict=True):
        pd.testing.assert_frame_equal(by_tally, by_rows)
    for again in (ReportTally.from_json(whole.to_json()), type(whole).from_json(whole.to_json())):
        assert again == whole
        assert type(again) is type(whole)
        pd.testing.assert_frame_equal(estimates(fitted, again)[0], estimates(fitted, whole)[0])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("numbers", {"mechanism": "square_wave"}),
        ("numbers", {"grid_size": 21}),
        ("numbers", {"bounds": BOUNDS | {"age": (0, 101)}}),
        ("response", {"categories": {"sex": ["Male", "Female"], "job": ["clerk", None, "sales"]}}),
        *[("words", {parameter: value})
          for parameter, value in {"epsilon": 1.5, "n_bits": 9, "n_hashes": 1, "n_cohorts": 4}.items()],
    ],
)  # fmt: skip
def test_mismatch_of_client_and_server_raises_an_error(name, changes):
    fitted, tally = tally_reports(name)
    _, other = tally_reports(name, **changes)
    with pytest.raises(ValueError, match="must have the protocol of this encoder"):
        _ = tally + other
    with pytest.raises(ValueError, match="must have the protocol of this encoder"):
        estimates(fitted, other)


def test_estimates_of_no_reports_raise_an_error():
    fitted, _ = tally_reports("numbers")
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


EDITS = {
    "response": [
        change("format", to="skdp tally, version 9"),
        lambda content: content.pop("protocol"),
        change("sizes", to=[60, 61]),
        change("counts", to=lambda counts: [[5], *counts]),
        change("protocol", "fields", 0, "domain", 0, to=["Female", "Male", "Other"]),
        *[change("counts", 0, 0, to=count) for count in (0.5, -(2**63), -6)],
    ],
    "sampled response": [change("sizes", to=lambda sizes: [sizes[0] + 1, sizes[1]])],
    "lists": [change("counts", 0, 0, to=-1), change("counts", to=[[0]])],
    "numbers": [change("counts", 0, 0, to=10**9), change("protocol", "fields", 0, "shape", to=[3.0])],
    "words": [change("counts", 0, to=[]), change("counts", 0, 0, to=2**63 - 1)],
    "table": [change("n_reports", to=59), change("protocol", "weights", to=None)],
}


@pytest.mark.parametrize("name", EDITS)
def test_inconsistent_sums_raise_an_error(name):
    _, tally = tally_reports(name)
    content = json.loads(tally.to_json())
    for edit in EDITS[name]:
        changed = copy.deepcopy(content)
        edit(changed)
        with pytest.raises(ValueError, match=r"tally|sums"):
            ReportTally.from_json(json.dumps(changed))


def test_tallies_beyond_int64_are_not_added():
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(pd.DataFrame({"sex": ["f"]}))
    largest = np.array([1 << 56])
    one = encoder.protocol_.empty_tally().with_sums([np.array([1 << 56, 0]), largest, largest])
    with pytest.raises(ValueError, match=r"at most 2\*\*56 reports"):
        one + one


@pytest.mark.parametrize("text", ["[]", "1", "[" * 100_000, "[" + "0," * (1 << 23) + "0]"])
def test_text_without_a_tally_raises_an_error(text):
    with pytest.raises(ValueError, match=r"[Aa] tally"):
        ReportTally.from_json(text)


@pytest.mark.parametrize(("errors", "warns"), [(0, False), (5.8, False), (6.2, True)])
def test_estimates_warn_beyond_six_standard_errors(errors, warns):
    encoder = RandomizedResponseEncoder(1.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": ["a", "b"]}))
    n, q = 10_000, float(encoder.oracles_[0].q)
    ones = round(n * q - errors * np.sqrt(n * q * (1 - q)))
    reports = pd.DataFrame({"x": ["a"] * ones + ["b"] * (n - ones)})
    for given in (reports, encoder.tally(reports)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encoder.estimate_counts(given)
        expected = [(__file__, "Some estimated counts of ['x'] are more than 6 standard errors outside")] * warns
        assert [(one.filename, str(one.message)[:70]) for one in caught] == expected


def test_lazy_reports_raise_an_error_that_names_tally():
    people = pd.DataFrame({"sex": ["f", "m"]})
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people)
    table = pa.table({"sex": ["f", "m"]})
    for reports in (pyarrow.dataset.dataset(table), pl.from_arrow(table).lazy()):
        for read in (encoder.tally, encoder.estimate_counts):
            with pytest.raises(TypeError, match=r"skdp\.engines\.tally"):
                read(reports)


def test_columns_named_by_tuples_are_estimated():
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


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_named_by_integers_are_estimated(library):
    """`set_output` converts their names to text."""
    people = pd.DataFrame([["f", "x"], ["m", "y"]] * 50)
    encoder = RandomizedResponseEncoder(1.0, categories={0: ["f", "m"], 1: ["x", "y"]}, random_state=0)
    reports = encoder.set_output(transform=library).fit_transform(people)
    assert encoder.estimate_counts(reports)["count"].loc[0].sum() == pytest.approx(100)
    with pytest.raises(ValueError, match=r"X must have the columns of fit, \[0, 1\], got \[1, 0\]"):
        encoder.transform(people[[1, 0]])


def test_tally_raises_if_parameters_changed_after_fit():
    people = pd.DataFrame({"a": ["x", "y"], "b": ["x", "y"]})
    weights = {"a": 1.0, "b": 3.0}
    categories = {"a": ["x", "y"], "b": ["x", "y"]}
    encoder = LocalTableEncoder(1.0, weights=weights, categories=categories).fit(people)
    weights["a"] = 2.0
    text = encoder.to_json()
    assert json.loads(text)["guarantee"] == json.loads(LocalTableEncoder.from_json(text).to_json())["guarantee"]


@pytest.mark.parametrize(
    ("encoder", "values"),
    [
        (RandomizedResponseEncoder(1.0, categories={"x": [1, 2]}, random_state=0), [1, 2]),
        (NumericPerturber(bounds=(0, 10), grid_size=10, random_state=0), [1.0, 9.0]),
        (RapporEncoder(n_bits=16, random_state=0), ["a", "b"]),
    ],
)
def test_repr_of_a_tally_contains_no_sum(encoder, values):
    tables = [pd.DataFrame({"x": [value] * 50}) for value in values]
    encoder.fit(tables[0])
    one, two = (repr(encoder.tally(encoder.transform(table))) for table in tables)
    assert one == two
    assert "50" in one
