"""The most frequent error, and a dtype that cannot hold any of the declared values."""

from __future__ import annotations

import datetime as dt
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import (
    Domain,
    DPCategoricalNB,
    DPGroupBy,
    DPHistogram,
    DPMarginalSynthesizer,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPTargetEncoder,
    FrequencyOracleEncoder,
    Interval,
    LocalTableEncoder,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SetValuedEncoder,
    UnaryEncodingTransformer,
)
from tests.conftest import each

GROUPS = ["young", "old"]
AGES = pd.DataFrame({"age": np.arange(100) % 90})


def local(kind):
    return lambda values, ledger, unknown="uniform": kind(
        categories={"age": values}, handle_unknown=unknown, ledger=ledger
    )


def central(kind, declared="domain", **parameters):
    return lambda values, ledger, unknown="ignore": kind(
        **{declared: {"age": values}}, handle_unknown=unknown, ledger=ledger, **parameters
    )


SYNTHESIZER = central(DPMarginalSynthesizer)
MAKERS = [
    local(RandomizedResponseEncoder),
    local(UnaryEncodingTransformer),
    local(FrequencyOracleEncoder),
    central(DPHistogram),
    central(partial(DPGroupBy, "age", statistics="count"), "keys"),
    central(DPSimpleImputer, "categories", strategy="most_frequent"),
    SYNTHESIZER,
]


def released(estimator, table):
    return estimator.fit_transform(table) if hasattr(estimator, "tally") else estimator.fit(table)


@each("make", MAKERS)
def test_a_dtype_that_can_hold_none_of_the_declared_values_is_refused(make):
    """With 'uniform', 5,000 numbers against categories of text became coin flips without a word."""
    ledger = PrivacyLedger(epsilon=9)
    for table in (AGES, pl.from_pandas(AGES), pa.Table.from_pandas(AGES)):
        for values in (GROUPS, [*GROUPS, None]):
            with pytest.raises(ValueError, match=r"column 'age': its dtype .* holds numbers, which .*'old'.* are not"):
                released(make(values, ledger), table)
    assert ledger.spent.epsilon == 0


@each(
    "column, values",
    [
        (pd.Series([None, 5, "young"], dtype=object), GROUPS),  # one of them may be text
        (pd.Series([np.nan]), [*GROUPS, None]),  # what pandas makes of missing values
        (pd.Series([None]), [*GROUPS, None]),
        (np.array([]), GROUPS),  # nor has a list without values another dtype
        (pl.Series([None]), [*GROUPS, None]),
        (pa.array([None]), [*GROUPS, None]),
        (pd.Series([1.0, np.nan]), [1, 2]),
        (pd.Series([1], dtype="Int8"), [1.0, 2.0]),
        (pd.Series(pd.Categorical([], [])), [1.0, 2.0]),
        (pl.Series([dt.date(2020, 1, 1)]), [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]),
        (pd.Series([pd.Timestamp(0)]), [pd.Timestamp(0), pd.Timestamp(1, unit="D")]),
    ],
)
def test_a_dtype_that_can_hold_one_is_not(column, values):
    chunked = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    codes = Domain({"x": values}).encode([chunked])
    assert [len(code) for code in codes] == [len(column)]


@each(
    "make, advice",
    [(local(RandomizedResponseEncoder), "The last resort is .*'uniform'.* equal counts"), (SYNTHESIZER, "'clip'")],
)
def test_the_error_shows_what_is_declared_and_what_to_do(make, advice):
    ledger = PrivacyLedger(epsilon=9)
    people = pd.DataFrame({"age": ["young", "secret"]})
    text = rf"column 'age' holds a value, .* \['young', 'old'\]\. Declare .*, and add None .*{advice}"
    with pytest.raises(ValueError, match=text) as caught:
        released(make(GROUPS, ledger, "error"), people)
    assert "secret" not in str(caught.value)
    assert ledger.spent.epsilon == 0


def test_many_values_and_bins_are_abbreviated():
    many = [f"v{place}" for place in range(30)]
    year = Interval(dt.date(2020, 1, 1), dt.date(2021, 1, 1), bins=12)
    for values, cell, shown in (
        (many, "w", r"\['v0', .*'v7', …\] \(30 values\)"),
        (Interval(0, 60.5, bins=20), -1.0, r"values from 0 to 60\.5\. .*add missing=True to"),
        (year, dt.date(1999, 1, 1), "values from 2020-01-01 to 2021-01-01"),
    ):
        with pytest.raises(ValueError, match=shown):
            RandomizedResponseEncoder(categories=[values]).fit_transform(pd.DataFrame({"x": [cell]}))


def test_values_that_were_read_from_the_data_are_not_shown():
    with pytest.warns(UserWarning, match="read from the data"):
        encoder = RandomizedResponseEncoder().fit(pd.DataFrame({"x": ["hunter2", "b"]}))
    for rows, message in (
        (["c"], "2 values, read from the data"),
        ([5], "which the declared values .2 values, read from"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            encoder.transform(pd.DataFrame({"x": rows}))
        assert "hunter2" not in str(caught.value)


def test_all_estimators_say_it():
    people, y = pd.DataFrame({"x": ["a", "c"]}), np.array([0, 1])
    shown = r"outside the declared (or found )?categories, \['a', 'b'\]\. Declare all values that can occur"
    for fit in (
        lambda: DPCategoricalNB(categories=[["a", "b"]], classes=[0, 1]).fit(people, y),
        lambda: DPTargetEncoder(categories=[["a", "b"]], bounds=(0, 1)).fit(people, y),
        lambda: DPOneHotEncoder(categories=[["a", "b"]]).fit(people).transform(people),
        lambda: DPSimpleImputer(strategy="most_frequent", categories=[["a", "b"]]).fit(people),
        lambda: LocalTableEncoder(categories={"x": ["a", "b"]}).fit_transform(people),
        lambda: SetValuedEncoder(categories=[["a", "b"]]).fit_transform(pd.DataFrame({"x": [["a"], ["c"]]})),
    ):
        with pytest.raises(ValueError, match=shown) as caught:
            fit()
        assert "'c'" not in str(caught.value)
