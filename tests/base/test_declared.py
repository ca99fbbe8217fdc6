"""Errors of values that are not declared, and of dtypes that cannot represent any declared value."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skdp
from tests.errors import refusal

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


SYNTHESIZER = central(skdp.DPMarginalSynthesizer)
MAKERS = [
    local(skdp.RandomizedResponseEncoder),
    local(skdp.UnaryEncodingTransformer),
    local(skdp.FrequencyOracleEncoder),
    central(skdp.DPHistogram),
    central(partial(skdp.DPGroupBy, by="age", statistics="count"), "keys"),
    central(skdp.DPSimpleImputer, "categories", strategy="most_frequent"),
    SYNTHESIZER,
]


def release_table(estimator, table):
    return estimator.fit_transform(table) if hasattr(estimator, "tally") else estimator.fit(table)


@pytest.mark.parametrize("make", MAKERS)
def test_dtype_without_any_declared_value_raises_an_error(make):
    """With 'uniform', 5,000 numbers in a column of text categories became uniform noise without a warning."""
    for table in (AGES, pl.from_pandas(AGES), pa.Table.from_pandas(AGES)):
        for values in (GROUPS, [*GROUPS, None]):
            with refusal(ValueError, r"Column 'age': dtype .* cannot contain the declared values .*'old'") as ledger:
                release_table(make(values, ledger), table)


SPELLING = (
    "Declare all values that can occur, in the same spelling and case, and missing values (NaN) by `None` beside "
    "its values."
)


@pytest.mark.parametrize(
    ("declared", "cells", "remedy"),
    [
        (GROUPS, ["young", "hush"], f"{SPELLING} Or set"),
        ([7, None], [8, None], f"{SPELLING} Or set"),
        ([18, 70], [18, 44], f"{SPELLING} For a range, declare an `Interval` with `low=18` and `high=70`. Or set"),
        # Bounds beyond 2**52 are an error.
        ([2**60, 70], [18, 44], f"{SPELLING} Or set"),
        (
            skdp.Interval(0, 5),
            [None, 44],
            "categories, 0 to 5. Widen the bounds, or clip the values to them",
        ),
    ],
)
def test_remedy_depends_on_the_declared_values(declared, cells, remedy):
    people = pd.DataFrame({"age": cells})
    with pytest.raises(ValueError, match="Column 'age' contains a value outside the declared categories") as caught:
        skdp.RandomizedResponseEncoder(categories={"age": declared}).fit_transform(people)
    assert remedy in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "44" not in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "value"), [(GROUPS, "old"), ([1, 2], 1.0), (skdp.Interval(0, 5), 2.0), ([True, False], True)]
)
def test_error_names_undeclared_missing_values(declared, value):
    remedy = "`None` beside its values" if isinstance(declared, list) else "`missing=True` in its `Interval`"
    people = pd.DataFrame({"age": [value, None]})
    for table in (people, people.astype(object), pl.from_pandas(people), pa.Table.from_pandas(people)):
        for make in [*MAKERS[:4], SYNTHESIZER]:
            with pytest.raises(ValueError, match=rf"'age' contains missing values \(NaN\), .*{remedy}"):
                release_table(make(declared, None, unknown="error"), table)
    # An imputer accepts missing values, so its error is about another value.
    with pytest.raises(ValueError, match="contains a value outside"):
        release_table(MAKERS[5](GROUPS, None, unknown="error"), pd.DataFrame({"age": [None, "hush"]}))


FRACTION = (
    r"a number with more decimals than its `Interval` declares \(whole numbers\)\. In its `Interval`, set `real=True`"
)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("declared", [skdp.Interval(1, 7), skdp.Interval(0, 90), skdp.Interval(0, 10, bins=8)])
def test_fraction_between_whole_bounds_raises_before_the_charge(make, declared):
    """Encoders and histograms counted 1.5 in a bin of `Interval(1, 7)`."""
    frame = pd.DataFrame({"age": [1.0, 7.0, 1.5, 2.0] * 50})
    lazy = [] if make in MAKERS[:3] else [pl.from_pandas(frame).lazy()]
    for table in (frame, pl.from_pandas(frame), *lazy):
        with refusal(ValueError, f"Column 'age' contains {FRACTION}", "1.5") as ledger:
            release_table(make(declared, ledger, unknown="error"), table)
    for whole in (frame.round(), frame.round().astype(int)):
        release_table(make(declared, ledger, unknown="error"), whole)
    release_table(make(skdp.Interval(0.0, 90.0), ledger, unknown="error"), frame)


@pytest.mark.parametrize("make", MAKERS)
def test_errors_of_lazy_tables_distinguish_fractions_bounds_and_missing_values(make):
    """Commands called a fraction a value outside the bounds."""
    problems = {
        "a number with more decimals": [1.0, 2.5, 3.0],
        "a value outside the declared .*, 0 to 5": [1.0, 7.0, 3.0],
    }
    if make is not MAKERS[5]:  # an imputer accepts missing values
        problems["missing values"] = [1.0, None, 3.0]
    for problem, ages in problems.items():
        frame = pl.DataFrame({"age": ages})
        for table in (frame, frame) if make in MAKERS[:3] else (frame, frame.lazy()):
            with pytest.raises(ValueError, match=f"Column 'age' contains {problem}"):
                release_table(make(skdp.Interval(0, 5), None, unknown="error"), table)


@pytest.mark.parametrize("make", MAKERS)
def test_boolean_column_of_an_interval_names_booleans(make):
    """The error advised to convert text and durations."""
    frame = pd.DataFrame({"age": [True, False] * 9})
    for table in (frame, pl.from_pandas(frame)):
        with pytest.raises(ValueError, match=r"Column 'age': .* Declare the values False and True, or convert it"):
            release_table(make(skdp.Interval(0, 1), None, unknown="error"), table)


def test_error_does_not_list_values_read_from_the_data():
    with pytest.warns(UserWarning, match="read from the data"):
        encoder = skdp.RandomizedResponseEncoder().fit(pd.DataFrame({"x": ["hunter2", "b"]}))
    assert "hunter2" not in encoder._repr_html_() + repr(encoder.domain_)
    for rows, message in (
        (["c"], "2 values, read from the data"),
        ([5], "cannot contain the declared values .2 values, read from"),
    ):
        with refusal(ValueError, message, "hunter2"):
            encoder.transform(pd.DataFrame({"x": rows}))


@pytest.mark.parametrize("other", [2, 2.5, None, "z"])
def test_record_of_a_list_is_read_independently_of_other_records(other):
    """NumPy would choose one dtype for all values, in which True is 1, and 2**53 + 1 a float."""
    rows = [[True], [1]] * 500 + [[other]]
    parameters = {"domain": {"x0": [0, 1, 2]}, "handle_unknown": "ignore", "random_state": 0}
    counts = skdp.DPHistogram(1e6, **parameters).fit(rows).counts_
    assert counts.tolist() == [0, 500, int(other == 2)]

    encoder = skdp.RandomizedResponseEncoder(
        400.0, categories={"x0": [0, 2**53 + 1]}, handle_unknown="uniform", random_state=0
    )
    reports = encoder.fit([[0]]).transform([[2**53 + 1]] * 50 + [[other]])
    assert set(reports[:-1, 0]) == {2**53 + 1}


def test_dtype_of_a_public_column_does_not_depend_on_private_values():
    synthesizer = skdp.DPColumnSynthesizer(["x1"], 1.0, domain={"x0": [0, 1, 2], "x1": [0, 1, None]}, random_state=0)
    dtypes = {synthesizer.fit_transform([[k % 3, k % 2] for k in range(29)] + [[1, v]]).dtype for v in (0, None)}
    assert dtypes == {np.dtype(object)}
