"""Whatever objects a column holds: a code, a nan, or an error of ours that holds nothing of them."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import (
    Domain,
    DPMarginalSynthesizer,
    FrequencyOracleEncoder,
    Interval,
    RandomizedResponseEncoder,
    ReportLogisticRegression,
    SecretKey,
    UnaryEncodingTransformer,
)
from skdp.local import HeavyHitters
from skdp.metrics import fairness_report, marginal_error
from skdp.tables import ColumnError, ValueCoder, distinct_values, to_dates, to_numbers
from skdp.testing import texts_of
from tests.conftest import each

SECRET = "s3cr3t"


def raising(base, *methods):
    def fail(self, *arguments):
        raise ArithmeticError(SECRET)

    return type("Odd", (base,), dict.fromkeys(methods, fail))


def hiding(base, *names):
    def fail(self):
        raise ArithmeticError(SECRET)

    return type("Odd", (base,), dict.fromkeys(names, property(fail)))


ODD = {
    "bytes": b"\xff" + SECRET.encode(),
    "memoryview": memoryview(SECRET.encode()),
    "surrogate": SECRET + "\ud800",
    "signalling nan": Decimal("sNaN"),
    "fraction": Fraction(10**400, 3),
    "long": 10**400,
    "NaT": pd.NaT,
    "NA": pd.NA,
    "time zone": datetime(2072, 6, 19, tzinfo=UTC),
    "far away": np.datetime64("726190000-06-19"),
    "list": [SECRET, [SECRET]],
    "eq and hash": raising(object, "__eq__", "__hash__")(),
    "hash of text": raising(str, "__hash__", "__eq__")(SECRET),
    "text of text": raising(str, "__str__")(SECRET),
    "float": raising(float, "__float__", "__eq__")(7.0),
    "index": raising(int, "__int__", "__index__")(7),
    "array": raising(object, "__array__", "__len__", "__bool__")(),
    "date of no zone": hiding(date, "tzinfo")(2020, 1, 2),
    "date of no year": hiding(date, "year")(2020, 1, 2),
    "date as array": raising(date, "__array__")(2020, 1, 2),
}


def column_with(odd, others):
    column = np.empty(len(others) + 1, object)
    column[:-1] = others
    column[-1] = odd
    return column


def check_hidden(call, *arguments, name="", **options):
    """Call, and look at the error if there is one."""
    caught = error_of(call, *arguments, **options)
    if caught is not None:
        assert isinstance(caught, TypeError | ValueError)
        assert name in str(caught)
        assert not any(SECRET in text for text in texts_of(caught))
        assert getattr(caught, "object", None) is None


def error_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return error


@each("odd", ODD.values())
@each("values", [["a", "b"], [1, 2], [0.5, 7.5], [True, False]])
def test_an_odd_object_is_not_declared_and_changes_no_other_code(values, odd):
    column = column_with(odd, values)
    missing = odd is pd.NaT or odd is pd.NA
    for series in (column, pd.Series(column, dtype=object), pl.Series(list(column), dtype=pl.Object)):
        assert ValueCoder(values).encode(series).tolist() == [0, 1, 2]
        assert ValueCoder([*values, None]).encode(series).tolist() == [0, 1, 2 if missing else 3]


@each("odd", ODD.values())
def test_an_odd_object_is_no_number_and_no_date(odd):
    numbers = to_numbers(column_with(odd, [1, 2.5]))
    assert numbers[:2].tolist() == [1, 2.5]
    assert not np.isfinite(numbers[2]) or type(odd) is not Decimal
    times = to_dates(column_with(odd, [date(2020, 1, 2)]), "datetime64[D]")
    assert times[0] == np.datetime64("2020-01-02")
    assert np.isnat(times[1]) or isinstance(odd, np.datetime64) or odd is ODD["date as array"]


def test_an_object_that_hides_its_class_is_no_value_at_all():
    """It is made here, as pytest asks parameters for their classes."""
    odd = hiding(object, "__class__")()
    days = column_with(odd, [date(2020, 1, 2)])
    assert np.isnat(to_dates(days, "datetime64[D]")).tolist() == [False, True]
    declared = [[date(2020, 1, 2)], Interval(edges=[date(2020, 1, 1), date(2021, 1, 1)])]
    for values in declared:
        assert Domain({"x": values}).encode([pd.Series(days, dtype=object)])[0].tolist() == [0, 1]
    assert np.isnan(to_numbers(column_with(odd, [1.0]))).tolist() == [False, True]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_error_holds_an_odd_object(odd):
    text, labels = column_with(odd, ["a", "b", "a"]), ["a", "b", "a", "b"]
    check_hidden(distinct_values, text)
    encoder = RandomizedResponseEncoder(categories={"job": ["a", "b"]}).fit(pd.DataFrame({"job": labels}))
    check_hidden(encoder.transform, pd.DataFrame({"job": pd.Series(text, dtype=object)}), name="job")
    listed = [[value] for value in text]
    check_hidden(RandomizedResponseEncoder(categories=[["a", "b"]]).fit([["a"]]).transform, listed)
    check_hidden(RandomizedResponseEncoder().fit, listed)
    check_hidden(HeavyHitters().report, list(text), name="words")
    check_hidden(fairness_report, list(text), labels, labels, positive_label="a", privileged="a", name="y_true")
    check_hidden(fairness_report, labels, labels, list(text), positive_label="a", privileged="a", name="sensitive")
    key = SecretKey.generate()
    memoised = RandomizedResponseEncoder(categories={"job": ["a", "b"]}, memoize=True, secret_key=key)
    rows = pd.DataFrame({"job": labels})
    check_hidden(memoised.fit(rows).transform, rows, record_id=list(column_with(odd, [1, 2, 3])), name="record_id")


def in_order(**methods):
    """Make two objects that can be hashed and sorted."""
    odd = type("Odd", (), {"__lt__": lambda self, other: id(self) < id(other), **methods})
    return odd(), odd()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_objects_that_can_be_sorted_are_no_categories_if_they_cannot_be_compared_or_written():
    def fail(self, *others):
        raise ArithmeticError(SECRET)

    of_text = raising(float, "__str__", "__repr__")
    of_day = raising(date, "__str__", "__repr__", "__format__")
    pairs = [
        in_order(__str__=fail),
        in_order(__str__=lambda self: 5),
        in_order(__eq__=fail, __hash__=lambda self: id(self)),
        in_order(__eq__=lambda self, other: np.array([True, False]), __hash__=lambda self: id(self)),
        (of_text(5), of_text(6)),
        (of_day(2020, 1, 1), of_day(2021, 1, 1)),
    ]
    columns = []
    for pair in pairs:
        columns.append(pd.Series(column_with(pair[0], pair[1:]), dtype=object))
    columns.append(columns[0].astype("category"))
    for column in columns:
        for encoder in (UnaryEncodingTransformer(), RandomizedResponseEncoder()):
            caught = error_of(encoder.fit, pd.DataFrame({"job": column}))
            assert isinstance(caught, TypeError | ValueError)
            assert str(caught) == "column 'job': expected text, numbers, dates or other scalars, got Odd"
            assert not any(SECRET in text for text in texts_of(caught))


def hashed_at_first(n_calls):
    """Make two objects of which the hash fails after some calls."""
    left = [None] * n_calls

    def count_down(self):
        try:
            left.pop()
        except IndexError:
            raise LookupError(SECRET) from None
        return 1

    return in_order(__hash__=count_down, __eq__=lambda self, other: self is other)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_objects_that_fail_late_are_in_no_error():
    def equals_itself(self, other):
        if other is self:
            return True
        raise LookupError(SECRET)

    alike = in_order(__eq__=equals_itself, __hash__=lambda self: 1)
    no_float = raising(Fraction, "__float__")
    pairs = [alike, (no_float(1, 3), no_float(2, 3)), *map(hashed_at_first, range(20))]
    for pair in pairs:
        table = pd.DataFrame({"job": pd.Series(column_with(pair[0], pair[1:]), dtype=object)})
        check_hidden(RandomizedResponseEncoder().fit, table, name="job")
    check_hidden(Domain, {"job": alike}, name="job")
    for n_calls in range(6):
        check_hidden(Domain, {"job": hashed_at_first(n_calls)}, name="job")


def test_objects_of_two_tables_are_in_no_error():
    def equals_itself(self, other):
        if other is self:
            return True
        raise ArithmeticError(SECRET)

    def fail(self, *others):
        raise ArithmeticError(SECRET)

    for methods in ({"__lt__": fail}, {"__eq__": equals_itself, "__hash__": lambda self: 1}, {"__str__": fail}):
        # Each table has one of them, which nothing compares before.
        pair = in_order(**methods)
        tables = [pd.DataFrame({"job": pd.Series([odd], dtype=object), "sex": 0}) for odd in pair]
        caught = error_of(marginal_error, *tables)
        assert isinstance(caught, ValueError)
        assert str(caught).startswith("column 'job': ")
        assert not any(SECRET in text for text in texts_of(caught))
    rows = [[raising(object, "__array__")()]]
    check_hidden(marginal_error, rows, rows, name="real cannot be read")


@each("kind", [FrequencyOracleEncoder, RandomizedResponseEncoder, UnaryEncodingTransformer])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_array_is_made_of_an_object(kind):
    def fail(self, *others):
        raise ArithmeticError(SECRET)

    pair = in_order(**dict.fromkeys(["__array__", "__len__", "__getitem__", "__bool__"], fail))
    table = pd.DataFrame({"job": pd.Series(pair, dtype=object)})
    for options in ({}, {"categories": {"job": pair}}, {"categories": {"job": pair}, "handle_unknown": pair[0]}):
        categories = kind(1.0, random_state=0, **options).fit(table).categories_[0]
        assert set(categories) == set(pair)
    declared = DPMarginalSynthesizer(1.0, domain={"job": pair}, random_state=0).fit(table)
    assert declared.count({"job": list(pair)}) == pytest.approx(declared.count({}))


@each("pairs", [[("a", 1), ("b",)], [("a", 1), ("b", 2)]])
def test_tuples_are_categories(pairs):
    table = pd.DataFrame({"job": pd.Series([*pairs, *pairs], dtype=object)})
    encoder = RandomizedResponseEncoder(60, categories={"job": pairs}, random_state=0)
    reports = encoder.fit_transform(table)
    assert encoder.categories_[0].tolist() == pairs
    assert encoder.categories_[0].shape == (2,)
    learnt = ReportLogisticRegression(target_encoder=encoder).fit([[0.0], [0.0], [1.0], [1.0]], reports)
    assert learnt.classes_.tolist() == pairs
    counts = encoder.estimate_counts(reports)
    assert counts.index.to_list() == pairs
    assert counts.index.name == "job"
    assert counts["count"].round(3).to_list() == [2, 2]


def test_all_errors_of_a_domain_are_its_own():
    domain = Domain({"age": Interval(0, 10, bins=2)})
    odd = pd.Series(column_with(raising(float, "__float__")(7.0), [1]), dtype=object)
    assert domain.encode([odd])[0].tolist() == [0, 2]
    with pytest.raises(ColumnError, match="column 'age': expected numbers, got a column of dtype") as caught:
        domain.encode([pd.Series(["x"], dtype="string")])
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("values", "odd"), [(["a", "b"], 7), ([1, 2], "x"), ([0.5, 1.5], True)], ids=str)
def test_the_time_does_not_show_that_a_value_is_of_another_kind(values, odd):
    coder, usual = ValueCoder(values), np.array(values * 10_000, object)
    one, many = usual.copy(), usual.copy()
    one[7], many[::2] = odd, odd

    def seconds(column):
        start = time.process_time()
        coder.encode(column)
        return time.process_time() - start

    # Interleaved, so that a slow moment of the machine meets all; it was a factor of 40.
    rounds = [(seconds(usual), seconds(one), seconds(many)) for _ in range(9)]
    none, single, half = (min(times) for times in zip(*rounds, strict=True))
    assert single < 3 * none
    assert half < 3 * none
