"""Any object in a column gives a code, a nan, or an error of skdp without its content."""

import enum
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import RandomizedResponseEncoder, SecretKey
from skdp.local import HeavyHitters
from skdp.metrics import fairness_report
from skdp.tables import ValueCoder, distinct_values, to_dates, to_numbers
from skdp.testing import list_error_texts

SECRET = "s3cr3t"


def make_raising_class(base, *methods, properties=()):
    """Make a class whose methods and properties raise an error that contains the value."""

    def fail(self, *arguments):
        raise ArithmeticError(SECRET)

    return type("Odd", (base,), dict.fromkeys(methods, fail) | dict.fromkeys(properties, property(fail)))


ODD = {
    "bytes": b"\xff" + SECRET.encode(),
    "surrogate": SECRET + "\ud800",
    "signalling nan": Decimal("sNaN"),
    "NaT": pd.NaT,
    "time zone": datetime(2072, 6, 19, tzinfo=UTC),
    "far away": np.datetime64("726190000-06-19"),
    "eq and hash": make_raising_class(object, "__eq__", "__hash__")(),
    "hash of text": make_raising_class(str, "__hash__", "__eq__")(SECRET),
    "text of text": make_raising_class(str, "__str__")(SECRET),
    "float": make_raising_class(float, "__float__", "__eq__")(7.0),
    "array": make_raising_class(object, "__array__", "__len__", "__bool__")(),
    "date of no zone": make_raising_class(date, properties=["tzinfo"])(2020, 1, 2),
    "date as array": make_raising_class(date, "__array__")(2020, 1, 2),
}


def column_with(odd, others):
    column = np.empty(len(others) + 1, object)
    column[:-1] = others
    column[-1] = odd
    return column


def check_hidden(call, *arguments, name="", **options):
    """Call, and check that the error, if any, does not contain the value."""
    caught = error_of(call, *arguments, **options)
    if caught is not None:
        assert isinstance(caught, TypeError | ValueError)
        assert name in str(caught)
        assert not any(SECRET in text for text in list_error_texts(caught))
        assert getattr(caught, "object", None) is None


def error_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return error


@pytest.mark.parametrize("odd", ODD.values())
@pytest.mark.parametrize("values", [["a", "b"], [1, 2], [0.5, 7.5], [True, False]])
def test_odd_object_is_outside_the_domain_and_changes_no_other_code(values, odd):
    column = column_with(odd, values)
    missing = odd is pd.NaT or odd is pd.NA
    for series in (column, pd.Series(column, dtype=object), pl.Series(list(column), dtype=pl.Object)):
        assert ValueCoder(values).encode(series).tolist() == [0, 1, 2]
        assert ValueCoder([*values, None]).encode(series).tolist() == [0, 1, 2 if missing else 3]


@pytest.mark.parametrize("odd", ODD.values())
def test_odd_object_is_not_a_number_or_a_date(odd):
    numbers = to_numbers(column_with(odd, [1, 2.5]))
    assert numbers[:2].tolist() == [1, 2.5]
    assert not np.isfinite(numbers[2]) or type(odd) is not Decimal
    times = to_dates(column_with(odd, [date(2020, 1, 2)]), "datetime64[D]")
    assert times[0] == np.datetime64("2020-01-02")
    assert np.isnat(times[1]) or isinstance(odd, np.datetime64) or odd is ODD["date as array"]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_error_does_not_contain_an_odd_object(odd):
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
    check_hidden(memoised.fit(rows).transform, rows, person=list(column_with(odd, [1, 2, 3])), name="person")


class Name(str):
    """Text with a hash that differs from the hash of its characters."""

    def __hash__(self):
        return 7


class Raising:
    def __hash__(self):
        raise RuntimeError("s3cr3t")


class Side(enum.StrEnum):
    LEFT = "a"


def test_objects_beside_text_have_the_codes_of_their_values():
    plain, odd = (
        ["a", "b", None, "z"],
        [np.str_("b"), np.nan, pd.NA, pd.NaT, Name("a"), Side.LEFT, b"a", 1, True, ["a"]],
    )
    expected = [0, 1, 2, 3, 1, 2, 2, 2, 0, 0, 3, 3, 3, 3]
    coder = ValueCoder(["a", "b", None])
    for other in (1, Raising(), {"a"}):
        assert coder.encode(pd.Series([*plain, *odd, other], dtype=object)).tolist() == [*expected, 3]
    assert ValueCoder(["a", "b"]).encode(pd.Series(["b", None, "z"], dtype=object)).tolist() == [1, 2, 2]
