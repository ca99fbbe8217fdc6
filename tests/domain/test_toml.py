import datetime as dt
import decimal

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skdp import Domain, Interval
from skdp.domain import Categories

FINITE = st.floats(allow_nan=False, allow_infinity=False)
KINDS = [st.text(), st.integers() | FINITE, st.booleans(), st.dates(), st.datetimes(timezones=st.none())]


@st.composite
def categories(draw):
    values = draw(st.lists(draw(st.sampled_from(KINDS)), unique=True, max_size=6))
    if not values or draw(st.booleans()):
        values.append(None)
    return Categories(values, ordered=draw(st.booleans()))


@st.composite
def intervals(draw):
    if draw(st.booleans()):
        return Interval(
            edges=sorted(draw(st.lists(FINITE, unique=True, min_size=2, max_size=6))), missing=draw(st.booleans())
        )
    if draw(st.booleans()):
        moments = draw(st.sampled_from([st.dates(), st.datetimes()]))
        edges = sorted(draw(st.lists(moments, unique=True, min_size=2, max_size=6)))
        return Interval(edges=edges, missing=draw(st.booleans()))
    low = draw(st.floats(-1e6, 1e6))
    return Interval(low, low + draw(st.floats(1e-3, 1e6)), bins=draw(st.integers(1, 40)))


domains = st.dictionaries(st.text(), categories() | intervals(), min_size=1, max_size=4).map(Domain)


def list_types(domain):
    return [[type(value) for value in domain[name].values] for name in domain.columns]


@given(domains)
@example(
    Domain({"": [""], "a.b": ["\r\n\t\\\"'\x00\x7f\x85\u2028"], '"': ['"""'], "é": [None], "a\nb": [0.1, -7, 1e300]})
)
@example(Domain({"x": Interval(edges=[-1.7e308, 1.7e308]), "y": Interval(edges=[-5e-324, 0, 5e-324])}))
@example(Domain({"x": Interval(edges=[-1.7e308, 1, 1.7e308])}))
@example(Domain({"x": Interval(dt.date(2001, 1, 1), dt.date(2021, 1, 1), bins=20, missing=True)}))
@example(Domain({"x": Interval(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), bins=37)}))
def test_round_trip_is_exact(domain):
    text = domain.to_toml()
    text.encode()
    again = Domain.from_toml(text)
    assert again == domain
    assert again.columns == domain.columns
    assert list_types(again) == list_types(domain)
    assert again.to_toml() == text


def test_file_is_written_for_people():
    domain = Domain(
        {
            "age": Interval(16, 96, bins=32),
            "capital-gain": Interval(edges=[0, 1, 1000, 5000.5]),
            "marital status": ["never", "once"],
            "rate": [0.5, 1, None],
            "day": [dt.date(2020, 2, 29), None],
            "word": [f"word number {index}" for index in range(8)],
            "born": Interval(dt.date(1920, 1, 1), dt.date(2020, 1, 1), bins=20),
            "seen": Interval(edges=[dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 6, 30), dt.datetime(2020, 1, 2)]),
        }
    )
    assert domain.to_toml() == (
        "[columns.age]\nlow = 16\nhigh = 96\nbins = 32\n\n"
        "[columns.capital-gain]\nedges = [0, 1, 1000, 5000.5]\n\n"
        '[columns."marital status"]\nvalues = ["never", "once"]\n\n'
        "[columns.rate]\nvalues = [0.5, 1]\nmissing = true\n\n"
        "[columns.day]\nvalues = [2020-02-29]\nmissing = true\n\n"
        "[columns.word]\nvalues = [\n" + "".join(f'    "word number {index}",\n' for index in range(8)) + "]\n\n"
        "[columns.born]\nlow = 1920-01-01\nhigh = 2020-01-01\nbins = 20\n\n"
        "[columns.seen]\nedges = [2020-01-01T00:00:00, 2020-01-01T06:30:00, 2020-01-02T00:00:00]\n"
    )


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({"x": ["a"], 3: ["a"]}, TypeError, "Column 3: .* names that are strings, got int"),
        ({"x": [decimal.Decimal(1)]}, TypeError, "Column 'x': .* got Decimal"),
        ({"x": [b"a"]}, TypeError, "Column 'x': .* got bytes"),
        ({"x": [("a", 1)]}, TypeError, "Column 'x': .* got tuple"),
        ({"x": [pd.Timestamp(1, unit="ns")]}, ValueError, "Column 'x': .* microsecond"),
        ({"x": [None, 1]}, ValueError, "Column 'x': None must be the last value"),
        ({"x": ["\ud800"]}, ValueError, "Column 'x': text must be valid Unicode"),
        ({"\ud800": ["a"]}, ValueError, "text must be valid Unicode"),
    ],
)
def test_values_outside_toml_raise_an_error(columns, error, match):
    with pytest.raises(error, match=match):
        Domain(columns).to_toml()


WRONG = {
    "[columns.x": (ValueError, "Not a TOML file: .*at the end of a table"),
    "people.toml": (ValueError, "`text` must be the text of a domain file, got a path. Read the file first"),
    "": (ValueError, r"No column; .* \[columns.NAME\]"),
    "[column.x]\nvalues = [1]": (ValueError, r"Unknown key 'column'; .* \[columns.NAME\]"),
    "[columns]\nx = [1]": (TypeError, "Column 'x': a column has `values`, .* got list"),
    "[columns.marital.status]\nvalues = [1]": (ValueError, "Column 'marital': unexpected key 'status': .* in quotes"),
    "[columns.x]\nedges = [1, 2]\nordered = true": (ValueError, "Column 'x': unexpected key 'ordered': a column has"),
    "[columns.x]\nlow = 0\nconstraints = ['x > 1']": (ValueError, "write `constraints` above the first .columns.NAME"),
    "[columns.x]\nvalues = 'ab'": (TypeError, "Column 'x': `values` must be a list, got str"),
    "[columns.x]\nvalues = [1]\nmissing = 'yes'": (TypeError, "Column 'x': `missing` must be true or false, got 'yes'"),
    "[columns.x]\nlow = 0\nhigh = 1\nbins = 1_000_000_000_000": (ValueError, "'x': `bins` must be at most 131,072"),
    "[columns.x]\nvalues = [1]\nmissing = 2": (TypeError, "Column 'x': `missing` must be true or false, got 2"),
}


@pytest.mark.parametrize("text", WRONG)
def test_error_of_an_invalid_file_names_the_cause(text):
    error, match = WRONG[text]
    with pytest.raises(error, match=match):
        Domain.from_toml(text)
