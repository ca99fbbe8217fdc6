"""Checks of engines, with faults put into an engine."""

import warnings

import duckdb
import polars as pl
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import privatize
from skdp.large import StreamTable, open_engine
from skdp.testing import check_engine


def make_lazy(rows):
    return pl.from_arrow(rows).lazy()


@pytest.mark.parametrize("make_frame", [make_lazy, duckdb.from_arrow], ids=["polars", "duckdb"])
def test_engines_pass_without_a_warning(make_frame):
    with warnings.catch_warnings(action="error"):
        check_engine(make_frame)


def round_floats(self):
    return self.original_load().with_columns(pl.col("weight").cast(pl.Float32).cast(pl.Float64))


def read_all_but_one(self, columns):
    first, *rest = self.original_read(columns)
    yield first.slice(1)
    yield from rest


def check_nothing(self, release):
    """Accept all rows."""


@pytest.mark.parametrize(
    ("method", "fault", "message"),
    [
        ("column_names", lambda self: ["size"], "column_names"),
        ("load", round_floats, "values of all rows"),
        ("read", read_all_but_one, "statistics"),
        ("check_rows", check_nothing, "before a charge"),
    ],
)
def test_faults_are_found(method, fault, message, monkeypatch):
    engine = type(open_engine(pl.LazyFrame({"x": [1]})))
    monkeypatch.setattr(engine, "original_read", engine.read, raising=False)
    monkeypatch.setattr(engine, "original_load", engine.load, raising=False)
    monkeypatch.setattr(engine, method, fault)
    with pytest.raises(AssertionError, match=message):
        check_engine(make_lazy)


def test_errors_of_an_engine_are_shown_in_its_check_only(monkeypatch):
    def fail(self, columns):
        raise ZeroDivisionError("row 7 has the value red")
        yield

    monkeypatch.setattr(StreamTable, "read", fail)
    with pytest.raises(ZeroDivisionError, match="row 7"):
        check_engine(make_lazy)
    encoder = RandomizedResponseEncoder(1.0, categories={"x": [1, 2]}, random_state=0)
    with pytest.raises(ValueError, match="text of this error is omitted") as caught:
        privatize(pl.LazyFrame({"x": [1]}), encoder)
    assert "red" not in f"{caught.value} {caught.value.__context__}"
