"""Contract of all local transformers: charge, draw, write; no data value is revealed, also not in the row index."""

import contextlib
import inspect
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

import skdp
from skdp.testing import privatizer_checks
from tests.conftest import often, quick_first
from tests.errors import refusal
from tests.local.transformers import TRANSFORMERS, every_transformer


def make_transformer(name, **parameters):
    transformer, table = TRANSFORMERS[name]
    return clone(transformer).set_params(**parameters), table


# The checks make tables of values or of numbers.
CHECKED = [name for name in TRANSFORMERS if name != "table"]
# Encoders of categories have the same base class; `best` selects another oracle of the registry.
OF_EACH_BASE = ["response", "buckets", "numbers", "lists", "words"]
# This check takes at least 0.1 s for a transformer.
LONG = {"check_reports"}


@pytest.mark.parametrize("takes_long", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", often(CHECKED, OF_EACH_BASE))
def test_transformer_passes_checks_of_privatizers(name, takes_long):
    transformer, table = TRANSFORMERS[name]
    for check, run in privatizer_checks(transformer, table[:6]):
        if (check in LONG) == takes_long:
            with contextlib.suppress(SkipTest):  # checks of a feature that this transformer does not have
                run()


@every_transformer
def test_members_of_transformers_are_listed(name):
    """No property raises before or after `fit`, other than AttributeError."""
    transformer, table = make_transformer(name)
    assert "transform" in dict(inspect.getmembers(transformer))
    assert "protocol_" in dict(inspect.getmembers(transformer.fit(table)))


@every_transformer
def test_ledger_set_after_fit_is_refused_and_a_removed_ledger_is_charged(name):
    """Neither an uncharged transform nor an uncharged encoder can be mistaken for a charged one."""
    first, second = skdp.PrivacyLedger(epsilon=100), skdp.PrivacyLedger(epsilon=100)
    transformer, table = make_transformer(name, ledger=first)
    transformer.fit(table).set_params(ledger=second)
    with pytest.raises(ValueError, match="`ledger` was set after fit"):
        transformer.transform(table)
    assert first.spent == second.spent == (0, 0)
    transformer.set_params(ledger=None).transform(table)
    assert first.spent.epsilon == pytest.approx(transformer.guarantee_.epsilon)
    transformer.set_params(ledger=second).fit(table).transform(table)
    assert second.spent == first.spent


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (pd.DataFrame({"x": []}), ValueError, "0 sample"),
        (pd.DataFrame(index=[0]), ValueError, "0 feature"),
        ("people.csv", TypeError, r"X must be a table, got str\. Read the file first"),
        (np.array(["secret"], object), ValueError, "Reshape your data"),
        (pd.Series(["secret"]), ValueError, "Reshape your data"),
        (np.array([[72619.25 + 1j]]), ValueError, "Complex data not supported"),
        (sparse.csr_array([[1.0]]), TypeError, "[Ss]parse"),
        (pl.LazyFrame({"x": ["secret"]}), TypeError, r"skdp\.engines"),
        (np.ma.masked_array([[1.0]], [[True]]), TypeError, "Masked arrays are not supported"),
    ],
)
@pytest.mark.parametrize("kind", quick_first(1, ["response", "numbers", "words"]))
def test_input_other_than_a_table_raises_an_error(kind, X, error, message):
    declared = {"response": {"categories": [["a", "b"]]}, "numbers": {"bounds": (0, 1)}, "words": {}}[kind]
    transformer = type(TRANSFORMERS[kind][0])(**declared)
    fitted = clone(transformer).fit(np.array([[0.5]]) if kind == "numbers" else np.array([["a"]], object))
    for method in (transformer.fit, fitted.transform):
        with refusal(error, message, "secret", "72619"):
            method(X)


@every_transformer
def test_reports_of_another_transformer_raise_an_error(name):
    transformer, table = make_transformer(name)
    transformer.fit(table)
    reports = transformer.transform(table)
    columns = "`reports` must have the columns|feature names"
    with pytest.raises(ValueError, match=columns):
        transformer.tally(reports.rename(columns={reports.columns[0]: "other"}))
    with pytest.raises(ValueError, match=columns):
        transformer.tally(reports.assign(other=1))
    if len(reports.columns) > 1:
        with pytest.raises(ValueError, match=columns):
            transformer.tally(reports[reports.columns[::-1]])
    spoiled = reports.astype(object)
    spoiled.iloc[0, -1] = 10**6 + 0.5
    with pytest.raises(ValueError, match=r"report|number|hold"):
        transformer.tally(spoiled)


SEX = {"sex": ["f", "m"]}
SEXES = pd.DataFrame({"sex": ["f", "m", "m", "f"]})
REFUSED = r"The row index of X must not .*, got level 'sex', .*reset_index.*reports.set_index\('sex', drop=False\)"
ENCODERS = {
    "labels": lambda ledger: skdp.RandomizedResponseEncoder(1.0, categories=SEX, ledger=ledger),
    "words": lambda ledger: skdp.RapporEncoder(1.0, n_bits=8, ledger=ledger),
    "table": lambda ledger: skdp.LocalTableEncoder(1.0, categories=SEX, ledger=ledger),
    "features": lambda ledger: skdp.PosteriorFeatures(ENCODERS["labels"](ledger)),
    "at fit": lambda ledger: skdp.OnFitOnly(ENCODERS["labels"](ledger)),
    "beside others": lambda ledger: ColumnTransformer(
        [("sex", ENCODERS["labels"](ledger), ["sex"])], remainder="passthrough"
    ).set_output(transform="pandas"),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_index_level_named_like_a_protected_column_raises_before_charge(name):
    labels = pd.Index(SEXES["sex"])
    for index in (labels, pd.MultiIndex.from_arrays([range(4), labels], names=[None, "sex"])):
        with refusal(ValueError, REFUSED) as ledger:
            ENCODERS[name](ledger).fit_transform(SEXES.set_axis(index))


@pytest.mark.parametrize(
    "transformer",
    [
        skdp.RandomizedResponseEncoder(categories={"sex": ["f", "m"]}),
        skdp.SetValuedEncoder(categories={"sex": ["f", "m"]}),
        skdp.NumericPerturber(bounds={"sex": (0, 1)}),
        skdp.LocalTableEncoder(categories={"sex": ["f", "m"]}),
    ],
)
def test_error_of_undeclared_columns_names_the_call_that_excludes_them(transformer):
    people = pd.DataFrame({"sex": [["f"]] * 3, "age": range(3)})
    with pytest.raises(ValueError, match=r"no values for the columns \['age'\].* exclude these columns from X"):
        transformer.fit(people)
