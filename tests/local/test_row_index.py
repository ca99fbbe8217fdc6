"""The row index passes through, so it must not hold what is privatised; aif360.sklearn keeps groups there."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import (
    DPMarginalSynthesizer,
    HeavyHitters,
    LocalTableEncoder,
    NumericPerturber,
    OnFitOnly,
    PosteriorFeatures,
    PrivacyLeakWarning,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    UnaryEncodingTransformer,
)
from skdp.engines import privatize

SEX, AGE = {"sex": ["f", "m"]}, {"age": (0, 100)}
ROWS = pd.DataFrame({"sex": ["f", "m", "m", "f"], "age": [20.0, 30.0, 40.0, 50.0]})
GROUPED = ROWS.set_index("sex", drop=False)
REFUSED = r"the row index of X has a level 'sex', .*reset_index.*reports.set_index\('sex', drop=False\)"


def ledger():
    return PrivacyLedger(epsilon=10.0)


ENCODERS = {
    "labels": lambda book: RandomizedResponseEncoder(1.0, categories=SEX, ledger=book),
    "bits": lambda book: UnaryEncodingTransformer(1.0, categories=SEX, ledger=book),
    "words": lambda book: RapporEncoder(1.0, n_bits=8, ledger=book),
    "table": lambda book: LocalTableEncoder(1.0, categories=SEX, ledger=book),
    "features": lambda book: PosteriorFeatures(RandomizedResponseEncoder(1.0, categories=SEX, ledger=book)),
    "at fit": lambda book: OnFitOnly(RandomizedResponseEncoder(1.0, categories=SEX, ledger=book)),
    "in a search": lambda book: make_pipeline(RandomizedResponseEncoder(1.0, categories=SEX, ledger=book)),
    "beside others": lambda book: ColumnTransformer(
        [("sex", RandomizedResponseEncoder(1.0, categories=SEX, ledger=book), ["sex"])], remainder="passthrough"
    ).set_output(transform="pandas"),
    "as Polars": lambda book: RandomizedResponseEncoder(1.0, categories=SEX, ledger=book).set_output(
        transform="polars"
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_level_with_the_name_of_a_protected_column_is_refused_before_the_charge(name):
    book = ledger()
    for index in (GROUPED.index, pd.MultiIndex.from_arrays([range(4), GROUPED.index], names=[None, "sex"])):
        with pytest.raises(ValueError, match=REFUSED):
            ENCODERS[name](book).fit_transform(ROWS[["sex"]].set_axis(index))
    assert book.spent == (0, 0)


def test_the_index_is_looked_at_by_transform_too():
    book = ledger()
    encoder = RandomizedResponseEncoder(1.0, categories=SEX, ledger=book).fit(ROWS[["sex"]])
    with pytest.raises(ValueError, match=REFUSED):
        encoder.transform(GROUPED[["sex"]])
    assert book.spent == (0, 0)


def test_numbers_have_an_index_too():
    rows = ROWS[["age"]].set_axis(pd.Index(ROWS["age"]))
    with pytest.raises(ValueError, match="the row index of X has a level 'age'"):
        NumericPerturber(1.0, bounds=AGE).fit_transform(rows)


def test_a_name_of_two_levels_is_a_name():
    rows = pd.DataFrame({("person", "sex"): ["f", "m"]})
    encoder = RandomizedResponseEncoder(1.0, categories={("person", "sex"): ["f", "m"]})
    encoder.fit_transform(rows)
    with pytest.raises(ValueError, match=r"has a level \('person', 'sex'\)"):
        encoder.fit_transform(rows.set_index([("person", "sex")], drop=False))


def test_a_target_takes_no_group_along():
    book = ledger()
    target = pd.Series([0, 1, 1, 0], index=GROUPED.index)
    encoder = RandomizedResponseEncoder(1.0, categories=SEX, ledger=book).set_output(transform="pandas")
    for y in (target, target.to_frame("y")):
        for first in (encoder, OnFitOnly(encoder), PosteriorFeatures(encoder)):
            with pytest.raises(ValueError, match="the row index of y has a level 'sex'"):
                make_pipeline(first, LogisticRegression()).fit(ROWS[["sex"]], y)
    assert book.spent == (0, 0)


def test_words_have_an_index_too():
    words = pd.Series(["a", "b"], name="word", index=pd.Index(["a", "b"], name="word"))
    book = ledger()
    with pytest.raises(ValueError, match="the row index of words has a level 'word'"):
        HeavyHitters(1.0, max_length=2, alphabet="ab", ledger=book).report(words)
    assert book.spent == (0, 0)


def test_the_mend_puts_reports_into_the_index():
    encoder = RandomizedResponseEncoder(1.0, categories=SEX)
    reports = encoder.fit_transform(GROUPED[["sex"]].reset_index("sex", drop=True)).set_index("sex", drop=False)
    assert reports.index.tolist() == reports["sex"].tolist()
    assert encoder.tally(reports).n_reports == 4
    rows = ROWS[["age"]].set_axis(pd.Index(ROWS["sex"]))  # the level is no column yet
    with pytest.raises(ValueError, match="the row index of X has a level 'sex'"):
        LocalTableEncoder(1.0, categories=SEX, bounds=AGE).fit(ROWS).transform(rows.assign(sex="f")[["sex", "age"]])


def test_aif360_reads_groups_of_reports():
    """It keeps groups in the index: the true ones would stay beside their reports."""
    preprocessing = pytest.importorskip("aif360.sklearn.preprocessing")
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": rng.choice(["f", "m"], 500), "x": rng.normal(size=500)})
    target = pd.Series(rng.integers(2, size=500), name="y")
    model = preprocessing.ReweighingMeta(LogisticRegression(), preprocessing.Reweighing("sex"))
    encoder = RandomizedResponseEncoder(1.0, categories=SEX, random_state=0)
    columns = ColumnTransformer([("sex", encoder, ["sex"])], remainder="passthrough").set_output(transform="pandas")
    grouped = people.set_index("sex", drop=False)
    with pytest.raises(ValueError, match=REFUSED):
        make_pipeline(columns, model).fit(grouped, target.set_axis(grouped.index))

    reports = encoder.fit_transform(grouped[["sex"]].reset_index("sex", drop=True)).set_index("sex", drop=False)
    assert (reports["sex"].to_numpy() != people["sex"]).sum() > 100
    model.fit(people[["x"]].set_axis(reports.index), target.set_axis(reports.index))
    share = pd.crosstab(reports["sex"].to_numpy(), target, normalize=True)
    wanted = np.outer(share.sum(axis=1), share.sum(axis=0)) / share
    np.testing.assert_allclose(model.reweigher_.reweigh_factors_, wanted)


def caught(work):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [warning for warning in found if "row index" in str(warning.message)]


def test_other_levels_with_names_are_told_of_once():
    rows = ROWS[["sex"]].set_axis(pd.MultiIndex.from_arrays([["a", "b", "c", "d"], range(4)], names=["person", None]))
    encoder = RandomizedResponseEncoder(1.0, categories=SEX)
    found = caught(lambda: encoder.fit(rows))
    assert [warning.category for warning in found] == [PrivacyLeakWarning]
    assert found[0].filename == __file__
    assert "with 'person'" in str(found[0].message)
    assert not caught(lambda: [encoder.transform(rows), encoder.transform(rows)])
    assert len(caught(lambda: encoder.fit_transform(rows))) == 1
    encoder.fit(ROWS[["sex"]])
    assert len(caught(lambda: encoder.transform(rows))) == 1
    assert encoder.transform(ROWS[["sex"]]).index.equals(ROWS.index)


def test_an_index_without_names_passes_through():
    rows = ROWS[["sex"]].set_axis(pd.Index(["a", "b", "c", "d"]))
    encoder = RandomizedResponseEncoder(1.0, categories=SEX)
    assert encoder.fit_transform(rows).index.equals(rows.index)


@pytest.mark.parametrize("library", ["pandas", "dask"])
def test_engines_refuse_it_before_the_charge(library):
    book = ledger()
    encoder = RandomizedResponseEncoder(1.0, categories=SEX, ledger=book)
    table = GROUPED.rename_axis("sex")
    other = GROUPED.rename_axis("person")
    if library == "dask":
        dataframe = pytest.importorskip("dask.dataframe")
        table, other = (dataframe.from_pandas(frame.sort_index(), npartitions=2) for frame in (table, other))
    fitted = encoder.fit(ROWS[["sex"]])
    with pytest.raises(ValueError, match="the row index of the table has a level 'sex'"):
        privatize(table, fitted, keep=["age"])
    assert book.spent == (0, 0)
    assert len(caught(lambda: privatize(other, fitted, keep=["age"]))) == 1


def test_columns_that_are_drawn_again_are_not_in_the_index():
    synthesizer = DPMarginalSynthesizer(
        1.0, domain={"sex": ["f", "m"], "age": [20.0, 30.0, 40.0, 50.0]}, redraw=["sex"], random_state=0
    ).fit(ROWS)
    assert len(synthesizer.transform(ROWS)) == 4
    with pytest.raises(ValueError, match=REFUSED):
        synthesizer.transform(GROUPED.rename_axis("sex"))
    assert synthesizer.set_params(redraw=None).transform(GROUPED).index.names == [None]


def test_nothing_else_carries_the_column():
    """Not record arrays, metadata of Arrow, attrs, nor the names of the levels of the columns."""
    encoder = RandomizedResponseEncoder(1.0, categories=SEX)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        encoder.fit(ROWS.to_records())
    table = pa.Table.from_pandas(GROUPED[["age"]].rename(columns={"age": "other"}))
    assert "sex" in table.column_names  # pyarrow makes a column of the index
    table = table.select(["sex"]).replace_schema_metadata(
        {b"pandas": table.schema.metadata[b"pandas"], b"sex": b"fmmf"}
    )
    metadata = encoder.fit_transform(table).schema.metadata
    assert metadata.keys() == {b"skdp.protocol", b"skdp.releases", b"pandas"}
    assert b'"index_columns": []' in metadata[b"pandas"]
    rows = ROWS[["sex"]].copy()
    rows.attrs["sex"] = ROWS["sex"].tolist()
    assert set(encoder.fit_transform(rows).attrs) == {"skdp.protocol", "skdp.releases"}
    array = np.array([["f"], ["m"]], object)
    assert encoder.set_params(categories=[["f", "m"]]).fit_transform(array).dtype == object
