"""Constraints and derived columns of a domain."""

import pickle
import re
from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import Domain, Interval
from tests.errors import refusal

REMOVES_MISSING = pytest.mark.filterwarnings("ignore:Constraint .* is false where")

COLUMNS = {
    "a": Interval(0, 10, missing=True),
    "b": Interval(0, 10),
    "rate": Interval(0.0, 1.0),
    "hours per week": Interval(0, 100),
    "sex": ["male", "female", None],
    "partner": ["male", "female"],
    "job": ["nurse"],
    "flag": [True, False],
    "start": Interval(date(2020, 1, 1), date(2021, 1, 1)),
    "end": Interval(date(2020, 1, 1), date(2021, 1, 1), missing=True),
    "seen": Interval(datetime(2020, 1, 1), datetime(2021, 1, 1)),
    "size": ["S", "M"],
    "class": [1, 2],
}
ROWS = {
    "a": [1.0, 5.0, None],
    "b": [2.0, 5.0, 0.0],
    "rate": [0.5, 0.25, 1.0],
    "hours per week": [40.0, 50.0, 60.0],
    "sex": ["male", "female", None],
    "partner": ["female", "female", "male"],
    "flag": [True, False, True],
    "start": [date(2020, 1, 1), date(2020, 3, 1), date(2020, 3, 1)],
    "end": [date(2020, 1, 5), date(2020, 2, 28), None],
    "seen": [datetime(2020, 1, 1, 12), datetime(2020, 3, 2), datetime(2020, 12, 1)],
    "class": [1, 2, 1],
}


CONSTRAINTS = {
    "a < b": [True, False, False],  # missing satisfies no comparison
    "not a < b": [False, True, True],
    "a != b": [True, False, False],
    "a <= b and b >= 5": [False, True, False],
    "0 < a <= 5 < 2 * b + 1": [False, True, False],
    "-a + b * 2 / 4 - 1 >= -4": [True, True, False],
    "b / b == 1": [True, True, False],  # 0 / 0
    "1 / b > 1e9": [False, False, True],  # 1 / 0
    "not (sex == 'male' and partner == 'female')": [False, True, True],
    "sex == partner": [False, True, False],
    "`hours per week` / 10 > 4": [False, True, True],
    "`class` == 1": [True, False, True],
    "flag == True": [True, False, True],
    "flag and not b == 0": [True, False, False],
    "(a < b) != flag": [False, False, True],
    "end >= start": [True, False, False],
    "end - start == 4": [True, False, False],
    "start + 1 <= seen": [False, True, True],
    "1.5 + start == seen - 1": [False, False, False],
    "seen - start == 0.5": [True, False, False],
}


@REMOVES_MISSING
def test_constraints_select_the_expected_rows(make_frame):
    for constraint, expected in CONSTRAINTS.items():
        domain = Domain(COLUMNS, constraints=[constraint])
        assert domain.check_constraints(make_frame(ROWS)).tolist() == expected, constraint
        assert domain.constraints == (constraint,)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("__import__('os').system('x') == 0", "is not allowed. Use columns"),
        ("len(a) > 1", "'len.a.' is not allowed"),
        ("a ** 2 > 1", "is not allowed"),
        ("a == None", "is not allowed"),
        ("f'{a}' == sex", "is not allowed"),
        ("a >", "not an expression"),
        ("", "not an expression"),
        ("a\x00 > 1", "not an expression"),
        ("`a > 1", "not an expression"),
        ("(" * 300 + "a" + ")" * 300 + "> 1", "not an expression"),
        ("c > a", r"'c' is not a column of the domain, which has \['a', 'b'"),
        ("last(sex == male)", "'male' is not a column of the domain, .* Write text in quotes"),
        ("a", "expected a comparison, such as 'end >= start'"),
        ("a and b > 1", "requires comparisons or truth values, got numbers"),
        ("1 < 2", "at least one column, got constants"),
        ("(a > 1) > b", "two operands of one type, got truth values and numbers"),
        ("sex > 'male'", "requires == or !=, as text have no order"),
        ("sex == 'mal'", "must be with a declared value"),
        ("sex == size", "or of two columns with a common value, got neither"),
        ("sex == 1", "got text and numbers"),
        ("start > '2020-01-01'", "got dates and text"),
        ("start + end > start", "arithmetic requires two numbers"),
        ("2 * start > start", "arithmetic requires two numbers"),
        ("-start > start", "requires a number"),
        ("a > 1" + "0" * 400, "too large"),
        ("3 <= count(a > 1) <= 2", "smallest number of events must be at most the largest one, got 3 and 2"),
        ("count(a > 1) != 1", "is not allowed. .* or 1 <= count.EXPRESSION. <= 2"),
        ("count(c > 1) == 1", "'c' is not a column of the domain"),
        ("count(a) == 1", "expected a comparison"),
        ("missing(a + b)", "is not allowed. Use columns .*missing.COLUMN"),
        ("missing(c)", "'c' is not a column of the domain"),
        ("count(a > 1) <= count(b > 1)", "is not allowed"),
        ("count(a > 1) == 1 and a > 1", "is not allowed"),
        ("count(a > 1, 2) <= 1.5", "is not allowed"),
        ("count(a > 1) >= b", "is not allowed"),
        ("not last(a > 1)", r"'last.a > 1.' is not allowed. .* first.EXPRESSION. or last.EXPRESSION."),
        ("first(a > 1, 2)", "is not allowed"),
        ("last(a)", "expected a comparison"),
    ],
)
def test_unsupported_expressions_raise_when_the_domain_is_made(constraint, message):
    with pytest.raises(ValueError, match=f"Constraint .*: .*{message}"):
        Domain(COLUMNS, constraints=[constraint])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"constraints": "a > b"}, TypeError, "`constraints` must be a list of expressions, got str"),
        ({"constraints": [1]}, TypeError, "Constraint 1: expected text, got int"),
        ({"derived": ["a + b"]}, TypeError, "`derived` must be a mapping"),
        ({"derived": {"t": 3}}, TypeError, "Derived column 't', 3: expected text, got int"),
        ({"derived": {"a": "b + 1"}}, ValueError, r"must not be declared columns, got \['a'\]"),
        ({"derived": {"t": "u + 1", "u": "b + 1"}}, ValueError, "Derived column 't', 'u . 1': 'u' is not a column"),
        ({"derived": {"t": "sex"}}, ValueError, "Derived column 't', 'sex': expected numbers, dates or a comparison"),
        ({"derived": {"t": "count(a > 1) == 1"}}, ValueError, "Derived column 't', .*is not allowed"),
        ({"derived": {"t": "w + 1"}}, ValueError, "Derived column 't', 'w . 1': 'w' is not a column"),
    ],
)
def test_invalid_options_raise_an_error(options, error, message):
    with pytest.raises(error, match=message):
        Domain(COLUMNS, **options)


DERIVED = {
    "total": "b + `hours per week` * 0",
    "late": "total > 6",
    "maybe": "a + b",
    "ratio": "b / rate",
    "stay": "end - start",
    "next": "start + 1",
    "noon": "start + 0.5",
    "half": "start + b / 4",
    "many": "total * 2",
}


def test_derived_columns_are_computed_in_the_library_of_the_table(make_frame, values_of):
    domain = Domain(COLUMNS, derived=DERIVED, constraints=["late == True or total < 1"])
    table = domain.add_derived(make_frame({**ROWS, "total": [7, 7, 7]}))

    def values(name):
        return [None if value is None or value != value else value for value in values_of(table, name)]

    def times(name):
        return [str(value)[:16].replace("T", " ").removesuffix(" 00:00") for value in values(name)]

    assert values("total") == [2, 5, 0]
    assert values("many") == [4, 10, 0]
    assert values("late") == [False, False, False]
    assert values("maybe") == [3, 10, None]
    assert values("ratio") == [4, 20, 0]
    assert values("stay") == [4, -2, None]
    assert times("next") == ["2020-01-02", "2020-03-02", "2020-03-02"]
    assert times("noon") == ["2020-01-01 12:00", "2020-03-01 12:00", "2020-03-01 12:00"]
    assert times("half") == ["2020-01-01 12:00", "2020-03-02 06:00", "2020-03-01"]
    assert domain.check_constraints(table).tolist() == [False, False, True]


def test_fractions_of_days_are_rounded_to_microseconds():
    """In floats, 7 / 5 days are slightly less than 120,960,000,000 microseconds."""
    domain = Domain({"start": Interval(date(2020, 1, 1), date(2021, 1, 1))}, derived={"end": "start + 7 / 5"})
    table = domain.add_derived(pd.DataFrame({"start": pd.to_datetime(["2020-01-01"])}))
    assert table["end"].tolist() == [pd.Timestamp("2020-01-02 09:36")]


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_missing_derived_numbers_of_polars_and_arrow_are_null(make):
    domain = Domain({"a": Interval(0, 9, missing=True)}, derived={"d": "a / 2", "e": "1 / a"})
    table = pl.DataFrame(domain.add_derived(make({"a": [1, None, 0]})))
    assert table["d"].to_list() == [0.5, None, 0]
    assert table["e"].to_list() == [1, None, None]


def test_dtype_of_a_derived_column_follows_from_declared_dtypes():
    whole = Domain({"x": Interval(0, 20), "y": Interval(0.0, 1.0)}, derived={"d": "x + 1", "e": "x + y", "f": "x / 2"})
    for x in ([1, 2], [1.0, 2.0]):
        frame = whole.add_derived(pd.DataFrame({"x": x, "y": [0.0, 1.0]}))
        assert frame.dtypes[["d", "e", "f"]].tolist() == [np.int64, np.float64, np.float64]
    for x in ([1.0, np.nan], [1.5, 2.0], [1e17, 2.0]):
        frame = whole.add_derived(pd.DataFrame({"x": x, "y": [0, 1]}))
        assert frame.d.tolist() == pytest.approx([value + 1 for value in x], nan_ok=True)
    by_zero = Domain({"x": Interval(0, 9)}, derived={"d": "1 / x"}).add_derived(pd.DataFrame({"x": [0, 2]}))
    assert by_zero.d.isna().tolist() == [True, False]


@REMOVES_MISSING
def test_table_without_the_columns_of_an_expression_raises_an_error():
    domain = Domain(COLUMNS, constraints=["a > 1"], derived={"t": "b + 1"})
    with pytest.raises(ValueError, match="X lacks column 'a'"):
        domain.check_constraints(pd.DataFrame({"b": [1]}))
    with pytest.raises(ValueError, match="X lacks column 'b'"):
        domain.add_derived(pd.DataFrame({"a": [1]}))
    with refusal(ValueError, "Column 'a': expected numbers", "secret"):
        domain.check_constraints(pd.DataFrame({"a": ["secret"]}, dtype="string"))


@REMOVES_MISSING
def test_domain_contains_constraints_and_derived_columns():
    columns = {name: COLUMNS[name] for name in ("a", "b", "hours per week", "start", "end", "sex", "partner")}
    derived = {"t o t": "a + b", "late": "`t o t` > 6", "stay": "end - start"}
    constraints = ["end >= start", "late == True or a < 2", 'not (sex == "male" and partner == "male")']
    domain = Domain(columns, constraints=constraints, derived=derived)
    assert Domain.from_toml(domain.to_toml()) == pickle.loads(pickle.dumps(domain)) == domain
    assert domain.to_toml().startswith("constraints = [")
    assert domain != Domain(columns, constraints=constraints[:1]) != Domain(columns)
    assert eval(repr(Domain({"x": [1]}, constraints=["x > 0"], derived={"y": "x + 1"}))).derived == {"y": "x + 1"}
    selected = domain.select(["b", "a", "sex"])
    assert selected.derived == {"t o t": "a + b", "late": "`t o t` > 6"}
    assert selected.constraints == ("late == True or a < 2",)
    with pytest.raises(ValueError, match=r"Constraint 'f\(a\) > 1': .* is not allowed"):
        Domain.from_toml("constraints = ['f(a) > 1']\n[columns.a]\nlow = 0\nhigh = 1")


@pytest.mark.parametrize(
    ("constraint", "kept"),
    [
        ("a <= b", "a <= b or missing(a)"),
        ("b >= a", "b >= a or missing(a)"),
        ("0 < b <= a + 0", "0 < b <= a + 0 or missing(a)"),
        ("a > 1 and b > 1", "a > 1 and b > 1 or missing(a)"),
        ("total <= 10", "total <= 10 or missing(a)"),
        ("is_more", "is_more or missing(a)"),
        ("end >= start", "end >= start or missing(end)"),
        ("sex == partner", "sex == partner or missing(sex)"),
        ("sex == 'male' or a > 1 and end > start", None),
        ("not a > b", None),
        ("(a < b) != flag", None),
        ("not missing(a) and a <= b", None),
        ("sex == 'male' or b > 1", None),
        ("count(a > 1) <= 1", None),
    ],
)
def test_constraint_that_removes_missing_values_warns_with_one_that_keeps_them(constraint, kept):
    options = {"derived": {"total": "a + b", "is_more": "total > b"}}
    if kept is not None:
        with pytest.warns(UserWarning, match=re.escape(f"Write {kept!r} to keep them")):
            Domain(COLUMNS, constraints=[constraint], **options)
        constraint = kept
    domain = Domain(COLUMNS, constraints=[constraint], **options)
    assert Domain(domain).constraints == (domain | {"c": [1]}).constraints == (constraint,)


def test_missing_values_are_marked_in_columns_of_all_types(make_frame):
    domain = Domain(COLUMNS | {"weight in kg": Interval(0, 9, missing=True)}, derived={"total": "a / b"})
    rows = make_frame(ROWS | {"weight in kg": [None, 2.0, None]})
    for column, expected in {
        "a": [False, False, True],
        "sex": [False, False, True],
        "end": [False, False, True],
        "`weight in kg`": [True, False, True],
        "total": [False, False, True],
        "b": [False] * 3,
    }.items():
        constrained = Domain(domain, constraints=[f"missing({column})"])
        assert constrained.check_constraints(rows).tolist() == expected, column
        assert Domain.from_toml(constrained.to_toml()) == constrained
