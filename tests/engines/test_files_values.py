"""Declared values of every type are read from files as they were written, as true rows and as reports."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from skdp import Interval, RandomizedResponseEncoder
from skdp.engines import privatize_file, tally_files
from tests.errors import refusal

FORMATS = ["csv", "csv.gz", "tsv", "parquet", "arrow"]
VALUES = {
    "text": ["", "NA", "a,b\n"],
    "text and missing": ["NA", "x", None],
    "numbers": [0.1, 1e-7, 1e300],
    "whole numbers": [0, 2**53 - 1, None],
    "large whole numbers": [2**60, 2**60 + 1, -(2**62)],
    "truth values": [True, False, None],
    "dates": [dt.date(2020, 1, 1), dt.date(1, 1, 1), None],
    "datetimes": [dt.datetime(2020, 1, 1, 3, 4, 5, 6), dt.datetime(1999, 1, 1)],
}
# Decimal text does not represent these values exactly.
NOT_OF_CSV = ["large whole numbers"]
OF_CSV = {name: values for name, values in VALUES.items() if name not in NOT_OF_CSV}
COUNTS = 500, 300, 200
ROWS = sum(COUNTS)


def encoder(values, **params):
    domain = values if isinstance(values, dict) else {"answer": values}
    return RandomizedResponseEncoder(**{"epsilon": 40.0 * len(domain), "categories": domain} | params)


@pytest.fixture(scope="module")
def people():
    """A column of each type, filled up with its first value."""
    columns = {name: np.repeat(np.arange(3), COUNTS) % len(values) for name, values in VALUES.items()}
    return pa.table({name: pa.array([VALUES[name][code] for code in codes]) for name, codes in columns.items()})


def check(found, declared):
    for support, values in zip(found.counts, declared.values(), strict=True):
        rest = ROWS - sum(COUNTS[: len(values)])
        assert support.tolist() == [COUNTS[0] + rest, *COUNTS[1 : len(values)]]


@pytest.mark.parametrize("form", FORMATS)
def test_reports_are_read_as_written(people, tmp_path, form):
    pq.write_table(people, tmp_path / "in.parquet")
    declared = VALUES if form in ("parquet", "arrow") else OF_CSV
    made = encoder(declared)
    check(tally_files(privatize_file(tmp_path / "in.parquet", tmp_path / f"out.{form}", made), made), declared)


def test_true_rows_of_csv_are_read_as_declared(people, tmp_path):
    pa_csv.write_csv(people.select(list(OF_CSV)), tmp_path / "in.csv")
    made = encoder(OF_CSV, handle_unknown="uniform")
    check(tally_files(privatize_file(tmp_path / "in.csv", tmp_path / "out.parquet", made)), OF_CSV)


@pytest.mark.parametrize(
    "values",
    [["", "x", None], VALUES["large whole numbers"], [0, 2**53], Interval(edges=[0, 2.0**60, 2.0**61], real=True)],
)
def test_format_that_cannot_be_read_raises_before_charge(tmp_path, values):
    plain = [2.0**59] if isinstance(values, Interval) else values
    pq.write_table(pa.table({"answer": plain}), tmp_path / "in.parquet")
    for form in ("csv", "csv.gz"):
        with refusal(ValueError, r"Column 'answer': .* Parquet or Arrow file") as ledger:
            privatize_file(tmp_path / "in.parquet", tmp_path / f"out.{form}", encoder(values, ledger=ledger))
