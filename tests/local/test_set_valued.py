"""Columns of sets: one epsilon for the whole list, estimates without bias, any frame, files and engines."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from skdp import BudgetExceeded, Interval, PrivacyLedger, SetValuedEncoder, privacy_statement
from skdp.engines import privatize, privatize_file, tally
from skdp.evaluation import audit_epsilon
from skdp.exact import exp_bounds
from skdp.local import ReportTally, ReportTransformer
from skdp.privacy import Shuffled, compose
from skdp.testing import privatizer_checks
from tests.conftest import each, often

VALUES = {"tags": ["a", "b", "c", "d", "e"]}
RNG = np.random.default_rng(2)
LISTS = [list(RNG.choice(VALUES["tags"], RNG.integers(0, 4), replace=False)) for _ in range(600)]
PEOPLE = pd.DataFrame({"tags": LISTS})
TRUTH = pd.Series([value for cell in LISTS for value in cell]).value_counts().reindex(VALUES["tags"])
ORACLES = ["set_selection", "set_unary_encoding", "local_hashing", "randomized_response", "subset_selection"]


def encoder(epsilon=2.0, **parameters):
    return SetValuedEncoder(epsilon, **{"categories": VALUES, "max_size": 3, "random_state": 0} | parameters)


CHECKED = {
    "lists": (
        SetValuedEncoder(2.0, categories={"tags": ["a", "b", "c"]}, max_size=2, random_state=0),
        pd.DataFrame({"tags": [("a", "b"), (), ("c",), ("c", "a")]}),
    ),
    "sampled": (
        SetValuedEncoder(2.0, categories={"n": [1, 2, 3], "m": [4, 5, 6]}, max_size=2, oracle="local_hashing"),
        pd.DataFrame({"n": [(1,), (1, 2), (3,), ()], "m": [(4, 6), (), (5,), (6,)]}),
    ),
}
CASES = [(name, check) for name, (one, X) in CHECKED.items() for check, _ in privatizer_checks(one, X)]
SLOW = ("workers", "forks", "calls_are_alike")


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(*case, marks=[pytest.mark.long] * (case[0] != "lists" or any(word in case[1] for word in SLOW)))
        for case in CASES
    ],
)
def test_it_is_a_privatizer(name, check, checks_of):
    try:
        checks_of[name][check]()
    except SkipTest as skipped:
        assert "original" in str(skipped) or "declared values" in str(skipped)  # noqa: PT017


@pytest.fixture(scope="module")
def checks_of():
    return {name: dict(privatizer_checks(one, X)) for name, (one, X) in CHECKED.items()}


@each("oracle", ORACLES)
def test_whole_records_keep_the_promise(oracle):
    """Two columns: every pair of lists of each, all reports; the ratios multiply."""
    fitted = SetValuedEncoder(1.0, categories={"a": [0, 1, 2], "b": [0, 1]}, max_size={"a": 2, "b": 1}, oracle=oracle)
    fitted.fit(pd.DataFrame({"a": [[]], "b": [[]]}))
    worst = Fraction(1)
    for attribute in fitted.protocol_.channels(1 << 16):
        table = next(attribute)
        worst *= max(max(column) / min(column) for column in zip(*table, strict=True) if any(column))
    assert worst <= exp_bounds(1.0)[0]
    assert float(math.log(worst)) <= fitted.guarantee_.epsilon * (1 + 1e-12)
    assert fitted.guarantee_.epsilon <= 1
    assert sum(loss.count for loss in fitted.guarantee_.losses) == 2


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("oracle", often([*ORACLES, "auto"], ["auto"]))
def test_an_audit_finds_no_more_than_the_promise(oracle):
    found = audit_epsilon(encoder(1.0, oracle=oracle, random_state=None), n_draws=2_000, random_state=1)
    assert found.epsilon_lower <= 1 == pytest.approx(found.epsilon_exact)


@pytest.mark.parametrize("oracle", often(ORACLES, ["set_selection"]))
def test_intervals_cover(oracle):
    """Of 150 collections of the same records, so that nothing but the noise varies."""
    fitted, frame = encoder(oracle=oracle).fit(PEOPLE), pd.concat([PEOPLE] * 150, ignore_index=True)
    reports = fitted.transform(frame)
    parts = [fitted.estimate_counts(reports[start : start + 600]) for start in range(0, len(frame), 600)]
    inside = np.array([(part["lower"] <= TRUTH) & (part["upper"] >= TRUTH) for part in parts])
    errors = np.array([(part["count"] - TRUTH) / part["std_error"] for part in parts])
    assert inside.mean() == pytest.approx(0.95, abs=0.025)
    assert np.abs(errors.mean(axis=0)).max() < 4 / math.sqrt(150)
    assert (errors**2).mean() == pytest.approx(1, abs=0.15)


def test_long_lists_count_as_a_share():
    """The bias is the one that is stated, and what it is about is estimated without another one."""
    lists = [["a", "b", "c", "d", "e"], ["a", "b", "c", "d"], ["a", "b"], []] * 4_000
    fitted = encoder(4.0, max_size=2).fit(pd.DataFrame({"tags": lists}))
    found = fitted.estimate_counts(fitted.transform(pd.DataFrame({"tags": lists})))
    shares = [2 / 5 + 2 / 4 + 1, 2 / 5 + 2 / 4 + 1, 2 / 5 + 2 / 4, 2 / 5 + 2 / 4, 2 / 5]
    sampling = math.sqrt(8_000) / 2
    assert (np.abs(found["count"] - 4_000 * np.array(shares)) < 4 * np.hypot(found["std_error"], sampling)).all()


def test_frames_of_every_kind_give_the_same_reports():
    expected = encoder().fit_transform(PEOPLE).to_numpy()
    text = pl.Enum(VALUES["tags"])
    frames = {
        "tuples": pd.DataFrame({"tags": list(map(tuple, LISTS))}),
        "sets": pd.DataFrame({"tags": list(map(set, LISTS))}),
        "arrays": pd.DataFrame({"tags": [np.array(cell, object) for cell in LISTS]}),
        "reversed": pd.DataFrame({"tags": [cell[::-1] for cell in LISTS]}),
        "repeated": pd.DataFrame({"tags": [cell * 2 for cell in LISTS]}),
        "pandas, Arrow": PEOPLE.astype(pd.ArrowDtype(pa.list_(pa.string()))),
        "polars": pl.DataFrame({"tags": LISTS}),
        "polars, Enum": pl.DataFrame({"tags": LISTS}, schema={"tags": pl.List(text)}),
        "pyarrow": pa.table({"tags": LISTS}),
        "pyarrow, large": pa.table({"tags": pa.array(LISTS, pa.large_list(pa.string()))}),
        "pyarrow, chunks": pa.concat_tables([pa.table({"tags": LISTS[:100]}), pa.table({"tags": LISTS[100:]})]),
        "pyarrow, dictionary": pa.table({"tags": pa.array(LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string())))}),
        "pyarrow, slice": pa.table({"tags": [["a"], *LISTS, ["b"]]}).slice(1, 600),
    }
    for kind, frame in frames.items():
        reports = encoder().fit_transform(frame)
        reports = reports.to_pandas() if isinstance(reports, pa.Table) else reports
        assert np.array_equal(np.asarray(reports), expected), kind
    pairs = [["a", "b"], ["c", "d"]]
    own = encoder().fit_transform(pd.DataFrame({"tags": pairs})).to_numpy()
    fixed = pl.DataFrame({"tags": pairs}, schema={"tags": pl.Array(pl.String, 2)})
    assert np.array_equal(np.asarray(encoder().fit_transform(fixed)), own)


def test_numbers_go_into_bins():
    fitted = SetValuedEncoder(4.0, categories={"hours": Interval(0, 24, bins=4)}, max_size=3)
    visits = pd.DataFrame({"hours": [[1.5, 2.5, 23.0], [], [13]] * 3_000})
    found = fitted.estimate_counts(fitted.fit_transform(visits))
    assert found.index.to_list() == ["[0, 6)", "[6, 12)", "[12, 18)", "[18, 24]"]
    assert (np.abs(found["count"] - [3_000, 0, 3_000, 3_000]) < 4 * found["std_error"]).all()


def test_undeclared_values_may_be_left_out():
    known, strange = pd.DataFrame({"tags": [["a"], []]}), pd.DataFrame({"tags": [["x", "a", "x"], ["y"]]})
    ignoring = encoder(handle_unknown="ignore").fit(known)
    assert ignoring.fit(known).transform(strange).equals(ignoring.fit(known).transform(known))
    with pytest.raises(ValueError, match="'tags' holds lists with a value outside the declared categories"):
        encoder().fit(known).transform(strange)


@each(
    "cells", [["a", "b"], [["a"], None], [["a"], "b"], [["a"], np.zeros((1, 1))], [{"a": 1}, ["b"]], [["a"], [["b"]]]]
)
def test_what_is_no_list_is_refused(cells):
    column = np.empty(2, object)
    column[:] = cells
    ledger = PrivacyLedger(epsilon=5)
    fitted = encoder(ledger=ledger).fit(PEOPLE)
    with pytest.raises(ValueError, match="'tags'") as caught:
        fitted.transform(pd.DataFrame({"tags": column}))
    assert caught.value.__context__ is None
    assert ledger.report().empty


@each(
    "parameters, message",
    [
        ({"categories": None}, "categories must be declared"),
        ({"categories": "auto"}, "categories must be declared"),
        ({"categories": {"tags": ["a"]}}, "column 'tags' declares one value"),
        ({"categories": {"other": ["a", "b"]}}, "declares columns that X does not have"),
        ({"max_size": 0}, "max_size must be between 1 and"),
        ({"max_size": {"other": 1}}, "max_size must name the columns"),
        ({"oracle": "hadamard_response"}, "oracle must be one of"),
        ({"max_report_bytes": 0}, "max_report_bytes must be between 1"),
        ({"handle_unknown": "uniform"}, "handle_unknown must be 'error' or 'ignore'"),
        ({"epsilon": 0}, "epsilon must be"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        encoder(**parameters).fit(PEOPLE)


def test_the_oracle_with_the_least_error_is_taken():
    names = [f"v{place}" for place in range(2_000)]
    row = pd.DataFrame({"tags": [[]]})
    small = encoder(categories={"tags": names}, max_report_bytes=16).fit(row)
    assert type(small.oracles_[0]).__name__ == "SampledSet"
    assert type(encoder(categories={"tags": names}).fit(row).oracles_[0]).__name__ == "SetSelection"
    assert type(encoder(20.0, max_size=5).fit(row).oracles_[0]).__name__ == "SetUnaryEncoding"


@pytest.mark.parametrize("oracle", ORACLES)
def test_it_is_carried_as_json(oracle):
    fitted = encoder(oracle=oracle).fit(PEOPLE)
    reports = fitted.transform(PEOPLE)
    for kind in (SetValuedEncoder, ReportTransformer):
        read = kind.from_json(fitted.to_json())
        assert read.tally(reports) == fitted.tally(reports)
        assert read.guarantee_ == fitted.guarantee_
    counted = fitted.tally(reports)
    assert ReportTally.from_json(counted.to_json()) == counted
    assert (counted + counted).n_reports == 1_200
    assert fitted.estimate_counts(counted).equals(fitted.estimate_counts(reports))
    again = pickle.loads(pickle.dumps(fitted))
    assert again.estimate_counts(reports).equals(fitted.estimate_counts(reports))
    with pytest.raises(ValueError, match="different parameters"):
        encoder(3.0, oracle=oracle).fit(PEOPLE).estimate_counts(counted)


@each(
    "parameters",
    [
        {"categories": {"mapping": [["tags", list(range(1 << 17))]]}, "max_size": 1024},
        {"max_size": 10**30},
        {"oracle": ["auto"]},
        {"max_size": {"mapping": [["tags", "x"]]}},
        {"max_size": {"mapping": [["tags", 2], ["other", 2]]}},
    ],
)
def test_hostile_texts_are_refused(parameters):
    content = json.loads(encoder().fit(PEOPLE).to_json())
    content["parameters"] |= parameters
    with pytest.raises(ValueError, match=r"cannot be read|misread|guarantee"):
        ReportTransformer.from_json(json.dumps(content))


def test_damaged_tallies_are_refused():
    content = json.loads(encoder().fit(PEOPLE).tally(encoder().fit_transform(PEOPLE)).to_json())
    for change in ({"n_reports": 5}, {"sizes": [1]}, {"support": [[-1, 0, 0, 0, 0]]}, {"support": [[0]]}):
        with pytest.raises(ValueError, match=r"tally|sums"):
            ReportTally.from_json(json.dumps(content | change))


@pytest.mark.parametrize("what", ["count", "frequency"])
def test_no_report_tells_nothing(what):
    fitted = SetValuedEncoder(1.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": [["a"]]}))
    found = fitted.protocol_.estimate(fitted.protocol_.empty_tally(), what=what)
    assert found[what].isna().all()
    assert (found["lower"] == -np.inf).all()
    assert (found["upper"] == np.inf).all()


def test_engines(tmp_path):
    fitted = encoder(4.0).fit(PEOPLE)
    many = pa.table({"tags": LISTS * 20})
    for frame in (ds.dataset(many), pl.from_arrow(many).lazy()):
        reports = privatize(frame, encoder(4.0, random_state=None))
        found = fitted.estimate_counts(tally(reports, fitted))
        assert (np.abs(found["count"] - 20 * TRUTH) < 5 * found["std_error"]).all()
    import pyarrow.parquet as pq

    pq.write_table(many, tmp_path / "people.parquet")
    privatize_file(tmp_path / "people.parquet", tmp_path / "reports.parquet", encoder(4.0, random_state=None))
    found = fitted.estimate_counts(fitted.tally(pq.read_table(tmp_path / "reports.parquet")))
    assert (np.abs(found["count"] - 20 * TRUTH) < 5 * found["std_error"]).all()
    (tmp_path / "people.csv").write_text("tags\na\n")
    with pytest.raises(ValueError, match="expected lists of values"):
        privatize_file(tmp_path / "people.csv", tmp_path / "more.csv", encoder(4.0, random_state=None))


def test_ledger_statement_and_shuffling():
    ledger = PrivacyLedger(epsilon=3)
    fitted = encoder(2.0, ledger=ledger, random_state=None).fit(PEOPLE)
    fitted.transform(PEOPLE)
    with pytest.raises(BudgetExceeded):
        fitted.transform(PEOPLE)
    assert "set selection" in repr(privacy_statement(fitted))
    shuffled = encoder(Shuffled(1.0, 1e-6, n=100_000), random_state=None).fit(PEOPLE)
    assert shuffled.local_epsilon_ > 1
    # What is known of the channel beside its epsilon makes the sum of many calls smaller.
    own = encoder(0.5, random_state=None).fit(PEOPLE).guarantee_
    assert compose([own] * 50, delta=1e-6).epsilon < 0.95 * compose([type(own)(own.epsilon)] * 50, delta=1e-6).epsilon


def test_it_is_a_step_of_a_pipeline():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = pd.DataFrame({"tags": [["a"] if label else ["b", "c"] for label in y], "number": rng.random(600)})
    model = make_pipeline(
        make_column_transformer((encoder(6.0), ["tags"]), remainder="passthrough"), DecisionTreeClassifier(max_depth=3)
    ).fit(X, y)
    assert model.score(X, y) > 0.8
    names = model[0].get_feature_names_out()
    assert names[0] == "setvaluedencoder__tags_a"
