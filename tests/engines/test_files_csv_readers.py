"""The two readers of CSV files return the same rows or raise the same error; the writer equals Python's csv module."""

import csv
import datetime as dt
import io
import math
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skdp import Domain, Interval, RandomizedResponseEncoder
from skdp.engines import TableFile, privatize_file
from tests.conftest import often
from tests.engines.tables import read_declared, write

# Parts of files: special characters, whole lines, and bytes that are not UTF-8.
PARTS = [*'ab1,,,""\n\n\n \r\0;é\ufeff', "\r\n", '""', "a,b\n", "x,y\n", '"q",b\n', "a\n", '"a,b",c\n', "\n\n", b"\xff"]
HEADERS = ["", "a,b\n", "a\n", '"a",b\r\n', "a,b,c\n", "a\r\n", "a,b\r", '"a\nb",c\n']
HEADERS += ["\ufeffa,b\n", "\na,b\n", "\n\r\na\n"]
VALUES = ["", "a", "b", "é", "\ufeff", "x y", "NA", "\0"]
SPECIAL_VALUES = [*VALUES, "a,b", 'q"', "n\nm", "r\r\nr"]


def draw_content(rng):
    """Draw a small file: random parts, or the rows of a table with at most one random part inserted."""
    if rng.random() < 0.3:
        parts = [rng.choice(HEADERS), *(rng.choice(PARTS) for _ in range(rng.randrange(30)))]
        return b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    text = io.StringIO(newline="")
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(text, lineterminator=rng.choice(["\n", "\n", "\r\n"]), quoting=quoting)
    n_columns = rng.choice([1, 2, 3])
    writer.writerow("abc"[:n_columns])
    values = rng.choice([VALUES, VALUES, SPECIAL_VALUES])
    writer.writerows([rng.choice(values) for _ in range(n_columns)] for _ in range(rng.randrange(12)))
    content = text.getvalue().encode()
    if rng.random() < 0.3:
        part, position = rng.choice(PARTS), rng.randrange(len(content) + 1)
        part = part if isinstance(part, bytes) else part.encode()
        content = content[:position] + part + content[position:]
    return content.rstrip(b"\n") if rng.random() < 0.2 else content


def read(path, delimiter):
    """Return the header and the columns of a file, or the text of the error."""
    try:
        file = TableFile(path, delimiter)
        columns = pa.concat_tables(file.read(file.names)).to_pydict() if file.names else {}
    except ValueError as error:
        return str(error)
    return file.header, columns


@pytest.mark.parametrize("seed", often(range(20), [0]))
def test_both_readers_agree_on_random_files(tmp_path, monkeypatch, seed):
    rng, path = Random(seed), tmp_path / "in.csv"
    n_rows = n_errors = 0
    for _ in range(400):
        path.write_bytes(draw_content(rng))
        delimiter = rng.choice([",", ",", ";", "\t", "§"])
        monkeypatch.setattr("skdp.engines._csv.BLOCK_CHARACTERS", rng.choice([1, 2, 3, 8, 64, 1 << 22]))
        monkeypatch.setattr("skdp.engines._csv.SHORT_LINE_CHARACTERS", rng.choice([1, 4, 1 << 19]))
        found = read(path, delimiter)
        with monkeypatch.context() as patched:
            patched.setattr("skdp.engines._csv.CsvFile.block_size", 0)
            assert read(path, delimiter) == found, path.read_bytes()
        if not isinstance(found, str) and TableFile(path, delimiter).parts[0].block_size:
            n_rows += 1
        elif isinstance(found, str):
            n_errors += 1
    # Both readers were used.
    assert n_rows > 75
    assert n_errors > 50


@pytest.mark.parametrize("rows", ['"', ' \n"', '"x\n', '"x,y', '"x""'])
def test_both_readers_refuse_an_open_quote_at_the_end(tmp_path, rows):
    path = tmp_path / "in.csv"
    path.write_text(f"a\nx\n{rows}")
    assert "a quoted value is not closed" in read(path, ",")


def test_error_names_the_line_after_many_rows(tmp_path):
    path, rows = tmp_path / "in.csv", "f,1\n" * 100_000
    path.write_text(f"sex,n\n{rows}m,1,SECRET\n{rows}")
    assert read(path, ",") == "in.csv, line 100002: expected 2 values as in the header, got 3."


COLUMNS = {
    "text": ["a", "", "NA", "a,b", 'q"', '""', "n\nm", "c\rd", "a\tb", ";", " x", None],
    "coded": pa.array(["a", 'q"', None, "", "a,b"]).dictionary_encode(),
    "whole": [1, -3, 2**62, None],
    "large": pa.array([2**64 - 1, None], pa.uint64()),
    "number": [0.1, 1e300, 5e-324, 1e16, 1 / 3, -0.0, float("nan"), float("inf"), 5.0, None],
    "truth": [True, False, None],
    "day": [dt.date(2020, 1, 1), None],
    "time": [dt.datetime(2020, 1, 1, 3, 4, 5, 6), None],
    "money": [Decimal("1.50"), None],
    "bytes": [b"x", None],
    "empty": pa.array([None]),
}


@pytest.mark.parametrize("names", [["text"], ["number"], ["text", "whole"], list(COLUMNS), ["whole", "text", "day"]])
@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t")])
def test_kept_values_are_written_as_by_python(tmp_path, names, suffix, delimiter):
    """Distinct values are formatted once, with the quotes of Python's writer."""
    n_rows = 40
    columns = {name: pa.array(COLUMNS[name]) for name in names}
    table = pa.table(
        {name: column.take([row % len(column) for row in range(n_rows)]) for name, column in columns.items()}
    )
    source = write(table.append_column("sex", [["f"] * n_rows]), tmp_path / "in.parquet", rows=5)
    encoder = RandomizedResponseEncoder(40, categories={"sex": ["f", "m"]}, random_state=0)
    found = privatize_file(source, tmp_path / f"out{suffix}", encoder, keep=names)
    expected = io.StringIO(newline="")
    # Python quotes a carriage return that is the end of its own lines only.
    writer = csv.writer(expected, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(["sex", *names])
    writer.writerows(zip(["f"] * n_rows, *(table[name].to_pylist() for name in names), strict=True))
    assert found.read_bytes() == expected.getvalue().replace("\r\n", "\n").encode()


def test_missing_value_of_a_single_column_is_quoted(tmp_path):
    source = write(pa.table({"smokes": ["yes", None]}), tmp_path / "in.parquet")
    encoder = RandomizedResponseEncoder(9.0, categories={"smokes": ["yes", None]}, random_state=0)
    assert privatize_file(source, tmp_path / "out.csv", encoder).read_bytes() == b'smokes\nyes\n""\n'


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.floats().map(repr) | st.text("0123456789.eE+-_ infaINFxN", max_size=6), min_size=1, max_size=4)
)
def test_numbers_are_parsed_as_by_python(tmp_path, texts):
    """Arrow parses columns in which it accepts all texts."""
    path = tmp_path / "in.csv"
    path.write_text("x,y\n" + "".join(f"{text},1\n" for text in texts))
    expected = []
    for text in texts:
        try:
            number = None if text in MISSING else float(text.replace("_", "?"))
        except ValueError:
            number = math.nan
        expected.append(number)
    if any(number is not None and math.isnan(number) for number in expected):
        with pytest.raises(ValueError, match="Column 'x' must contain numbers"):
            read_declared(path, REAL)
    else:
        found = read_declared(path, REAL)["x"]
        assert [None if math.isnan(x) else x for x in found] == expected


REAL = Domain({"x": Interval(0.0, 1.0)})
MISSING = {"", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}


def test_line_that_is_longer_than_a_small_block_is_read(tmp_path):
    path, text = tmp_path / "in.csv", "é" * (1 << 21)
    path.write_text("a,b\n" + "1,x\n" * 1_000 + f"2,{text}\n3,y\n", encoding="utf-8")
    assert TableFile(path, ",").parts[0].block_size
    assert read(path, ",") == (["a", "b"], {"a": ["1"] * 1_000 + ["2", "3"], "b": ["x"] * 1_000 + [text, "y"]})
