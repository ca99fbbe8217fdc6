"""CSV files are read strictly: an open quote is an error in every reader, and codes with leading zeros are text."""

import gzip
import tracemalloc

import pyarrow.parquet as pq
import pytest

from skdp import Domain, DPMarginalSynthesizer, NumericPerturber, RandomizedResponseEncoder
from skdp.engines import TableFile, estimate_file, privatize_file, synthesize_file, tally_files
from tests.cli.commands import draft_csv, refuse
from tests.engines.tables import read_declared
from tests.errors import refusal

DOMAIN = Domain({"sex": ["f", "m"]})


def encoder(**options):
    return RandomizedResponseEncoder(1.0, categories=DOMAIN, **options)


def synthesize(path, ledger, **options):
    synthesizer = DPMarginalSynthesizer(1.0, domain=DOMAIN, ledger=ledger)
    return synthesize_file(path, path.with_name("out.csv"), synthesizer, **options)


READERS = {
    "privatize": lambda path, ledger: privatize_file(path, path.with_name("out.csv"), encoder(ledger=ledger)),
    "synthesize": synthesize,
    "synthesize persons": lambda path, ledger: synthesize(path, ledger, person="note"),
    "estimate": lambda path, ledger: estimate_file(path, encoder()),
    "tally": lambda path, ledger: tally_files([path], encoder()),
    "table": lambda path, ledger: read_declared(path, DOMAIN),
}
ROWS = ["f,ok", "m,ok"] * 200
BROKEN = {
    "never closed": [*ROWS[:10], 'm,"SECRET', *ROWS],
    "never closed, first column": [*ROWS[:10], '"SECRET,ok', *ROWS],
    "closed by the next one": [*ROWS[:10], 'm,"SECRET', *ROWS[:10], 'm,"SECRET', *ROWS],
    "text after it": [*ROWS[:10], 'm,"SECRET" cm', *ROWS],
    "after a quote that is text": ['m,5" SECRET', *ROWS[:9], 'm,"SECRET', *ROWS],
    "in a long file": [*ROWS[:10], 'm,"SECRET', *ROWS * 2_000],
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", BROKEN)
def test_open_quote_raises_an_error_that_names_the_line(tmp_path, reader, case):
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["sex,note", *BROKEN[case]]) + "\n")
    with refusal(ValueError, r"in\.csv, line 12: a quoted value is not closed", "SECRET", folder=tmp_path) as ledger:
        READERS[reader](path, ledger)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("note", ['"ok"', '""', '"5"" wide"', '5" wide', '"two\nlines"', '"a,b"', '""""', '"\r\n"'])
def test_quotes_within_text_are_read(tmp_path, note, end):
    path = tmp_path / "in.csv"
    path.write_bytes(end.join(["sex,note", *[f"f,{note}", f'"m",{note}'] * 200, ""]).encode())
    assert tally_files([path], encoder()).n_reports == 400
    assert len(read_declared(path, DOMAIN)) == 400


def test_line_break_in_a_value_is_kept(tmp_path):
    (tmp_path / "in.csv").write_bytes(b'sex,note\r\nf,"a\r\nB"\r\nm,""\r\n')
    found = privatize_file(tmp_path / "in.csv", tmp_path / "out.parquet", encoder(), keep=["note"])
    assert pq.read_table(found)["note"].to_pylist() == ["a\r\nB", None]


def test_codes_are_drafted_as_text(tmp_path):
    columns = {
        "icd": ["008.45", "8.45", "038.11"],
        "zip": ["01234", "987", "12"],
        "version": ["1.1", "1.10", "2"],
        "code": ["1E5", "100000", "1"],
        "plus": ["+1", "1", "2"],
        "long": [str(2**64 + 1), "12", "13"],
        "none": ["None", "Basic", "NA"],
        "": ["a", "b", "c"],
        "amount": ["12.50", "3", "-0.25"],
        "float": ["1e-05", "1e+06", ".5"],
        "short": ["3e-4", "1.25E7", "1e5"],
        "Excel": ["1E-05", "2.5E+10", "-3E-6"],
        "whole": ["3", " 4", "-5"],
        "gaps": ["3", "NA", ""],
        "truth": ["True", "False", ""],
        "day": ["2020-01-01", "", "2020-02-01"],
    }
    lines = [",".join(f'"{name}"' for name in columns), *map(",".join, zip(*columns.values(), strict=True))]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    drafted = draft_csv(tmp_path / "in.csv", bins=5, max_values=5)
    frame = read_declared(tmp_path / "in.csv", drafted)
    texts = list(columns)[:8]
    assert {name: set(drafted[name].values) for name in texts} == {name: {*columns[name]} for name in texts}
    numbers = {"amount": {12.5, 3, -0.25}, "float": {1e-5, 1e6, 0.5}, "whole": {3, 4, -5}, "gaps": {3, None}}
    numbers |= {"short": {3e-4, 1.25e7, 1e5}, "Excel": {1e-5, 2.5e10, -3e-6}}
    assert {name: set(drafted[name].values) for name in numbers} == numbers
    assert set(drafted["truth"].values) == {True, False, None}
    assert len(drafted["day"].values) == 3
    # Both readers find each row in the domain.
    for name in columns:
        (codes,) = drafted.select([name]).encode([frame[name]])
        assert len(set(codes.tolist())) == len(drafted[name]), name
    names = [name for name in columns if name not in ("long", "none")]
    domain = drafted.select(names)
    released = privatize_file(
        tmp_path / "in.csv", tmp_path / "out.parquet", RandomizedResponseEncoder(9, categories=domain)
    )
    assert released.exists()


@pytest.mark.parametrize(
    "transformer", [RandomizedResponseEncoder(categories={"pay": [1.5, 2.5]}), NumericPerturber(bounds={"pay": (0, 9)})]
)
def test_error_names_a_decimal_comma(tmp_path, transformer):
    (tmp_path / "in.csv").write_text("pay;x\n" + "1,5;1\n2,5;2\n" * 5)
    with pytest.raises(ValueError, match=r"Column 'pay' must contain numbers, with decimal points as in 1\.5, got"):
        privatize_file(tmp_path / "in.csv", tmp_path / "out.csv", transformer, delimiter=";")


@pytest.mark.parametrize("command", ["draft-domain", "privatize"])
def test_error_of_a_quoted_header_advises_the_delimiter(tmp_path, capsys, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text('"sex";"x"\n' + '"f";"1"\n' * 5)
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml())
    words = {
        "draft-domain": "in.csv out.toml",
        "privatize": "in.csv out.csv --domain domain.toml --epsilon 1",
    }[command]
    assert "use --delimiter" in refuse(capsys, command, *words.split())


def test_duplicate_columns_raise_an_error_if_they_are_used(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("sex,note,note\n" + "f,1,2\nm,3,4\n" * 5)
    message = "several columns named 'note'. Rename them in its header"
    privatize_file(path, tmp_path / "reports.csv", encoder())
    for read in (
        lambda: privatize_file(path, tmp_path / "more.csv", encoder(), keep=["note"]),
        lambda: synthesize(path, None, person="note"),
    ):
        with pytest.raises(ValueError, match=message):
            read()


LINE, COLUMNS = 1 << 24, 1 << 17
LONG_LINES = {
    "header": ("x" * 2 * LINE, "line 1: expected at most 16,777,216 characters, got a longer line"),
    "header of commas": ("," * (LINE + 10), "line 1: expected at most 16,777,216 characters"),
    "header of columns": ("," * COLUMNS, "line 1: expected at most 131,072 columns, got more"),
    "row": ("sex,age\nf,30\nf," + "9" * 2 * LINE, "line 3: expected at most 16,777,216 characters"),
}


@pytest.mark.parametrize("name", LONG_LINES)
def test_long_lines_of_a_small_file_raise_an_error(tmp_path, name):
    text, message = LONG_LINES[name]
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(text.encode(), 1))
    declared = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"^in.csv.gz, {message}"):
        privatize_file(path, tmp_path / "out.csv", declared)
    # A line is not read to its end.
    assert tracemalloc.get_traced_memory()[1] < 12 * LINE
    tracemalloc.stop()
    assert list(tmp_path.iterdir()) == [path]


def test_wide_table_is_read_without_a_search_for_each_column(tmp_path):
    class Header(list):
        """Names of columns, which are not searched one by one."""

        def count(self, name):
            raise AssertionError

        index = count

    names = [f"c{index}" for index in range(2_000)]
    for form, line in (("regular", "\n"), ("quoted", '\n"1\n2"' + ",1" * 1_999 + "\n")):
        path = tmp_path / f"{form}.csv"
        path.write_text(",".join(names) + line + ",".join("1" for _ in names) + "\n")
        table = TableFile(path)
        table.header = Header(table.header)
        table.check_columns(names)
        assert table.names == names
        assert sum(len(part) for part in table.read(names)) == 1 + (form == "quoted")


def test_repeated_names_are_no_names(tmp_path):
    (tmp_path / "in.csv").write_text("a,b,a,c\n1,2,3,4\n")
    assert TableFile(tmp_path / "in.csv").names == ["b", "c"]
