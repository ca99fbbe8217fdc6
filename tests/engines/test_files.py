"""Files in, files out; and runs that are stopped on the way."""

import datetime
import shutil
import stat
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from skdp import (
    Domain,
    Interval,
    PrivacyLedger,
    RandomizedResponseEncoder,
)
from skdp.engines import estimate_file, privatize, privatize_file
from skdp.engines.files import TableFile
from skdp.local import OnFitOnly

DOMAIN = Domain({"color": ["red", "green", "blue", "unused", None], "size": [0, 1, 2, 3]})
FORMATS = ["csv", "parquet", "arrow"]
PART = 4096


def encoder(**params):
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": DOMAIN, "random_state": 0} | params)


def write(table, path):
    if path.suffix == ".csv":
        table.to_pandas().to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=3_000)
    else:
        feather.write_feather(table, path, chunksize=1_700, compression="lz4")
    return path


def read(path):
    if path.suffix == ".csv":
        return pa.Table.from_pandas(pd.read_csv(path, dtype={"size": "Int64"}), preserve_index=False)
    return pq.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)


@pytest.fixture(autouse=True)
def _small_parts(batch_rows):
    batch_rows(PART)


@pytest.fixture
def source(people, tmp_path):
    return write(people, tmp_path / "in.parquet")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out.parquet"


class StoppedBar:
    """Stops the run after so many parts."""

    def __init__(self, parts):
        self.parts = parts

    def __call__(self, total):
        return self

    def update(self, rows):
        self.parts -= 1
        if self.parts == 0:
            raise KeyboardInterrupt

    def close(self):
        pass


def stop(source, target, transformer, *, parts=2, **options):
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, transformer, progress=StoppedBar(parts), **options)
    return target.with_name(f"{target.name}.unfinished")


# Formats


@pytest.mark.parametrize("before", FORMATS)
@pytest.mark.parametrize("after", FORMATS)
def test_the_reports_are_those_of_memory_in_every_format(people, tmp_path, before, after):
    source = write(people, tmp_path / f"in.{before}")
    found = privatize_file(source, tmp_path / f"out.{after}", encoder(), keep=["number"])
    expected = privatize(people, encoder(), keep=["number"]).to_pydict()
    if before == "csv" and after != "csv":  # what is kept is text
        expected["number"] = [str(number) for number in expected["number"]]
    table = read(found)
    assert table.to_pydict() == expected
    assert table.schema.field("size").type == pa.int64()
    beside = [f"{found.name}.skdp.json"] if after == "csv" else []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, found.name, *beside])


def test_other_files_are_refused(source, target, tmp_path):
    for bad in ("in.txt", "in"):
        (tmp_path / bad).write_text("color,size\n")
        with pytest.raises(ValueError, match=r"must end in one of \.csv"):
            privatize_file(tmp_path / bad, target, encoder())
        with pytest.raises(ValueError, match=r"must end in one of \.csv"):
            privatize_file(source, tmp_path / f"out{bad}", encoder())
    for form, kind in {"parquet": "Parquet", "arrow": "Arrow"}.items():
        (tmp_path / f"bad.{form}").write_bytes(b"SECRET")
        with pytest.raises(ValueError, match=f"is no {kind} file"):
            privatize_file(tmp_path / f"bad.{form}", target, encoder())
    with pytest.raises(FileNotFoundError, match="there is no file"):
        privatize_file(tmp_path / "none.csv", target, encoder())
    target.touch()
    with pytest.raises(FileExistsError, match="never overwritten"):
        privatize_file(source, target, encoder())


def test_wrong_parameters_are_refused_before_anything_is_made(source, target, tmp_path):
    wrong = {
        "resume must be True": {"resume": 1},
        "lacks the columns": {"keep": ["none"]},
        "keep must be a list": {"keep": "number"},
        "keep must name distinct": {"keep": ["number", "number"]},
        "keep must not name": {"keep": ["size"]},
    }
    for text, options in wrong.items():
        with pytest.raises((TypeError, ValueError), match=text):
            privatize_file(source, target, encoder(), **options)
    with pytest.raises(TypeError, match="OnFitOnly"):
        privatize_file(source, target, OnFitOnly(encoder()))
    with pytest.raises(TypeError, match="target must be"):
        privatize_file(source, None, encoder())
    with pytest.raises(ValueError, match="lacks the columns"):
        privatize_file(source, target, encoder(categories={"taste": ["x", "y"]}))
    with pytest.raises(ValueError, match="declared by name"):
        privatize_file(write(pa.table({"a": ["x"]}), tmp_path / "in.csv"), target, RandomizedResponseEncoder())
    write(pa.table({"color": ["red"], "size": [0], "list": [[1]]}), tmp_path / "nested.parquet")
    with pytest.raises(ValueError, match=r"'list' is of type list.*CSV file cannot hold"):
        privatize_file(tmp_path / "nested.parquet", tmp_path / "out.csv", encoder(), keep=["list"])
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows_give_no_reports(people, tmp_path, form):
    source = write(people.slice(0, 0), tmp_path / f"in.{form}")
    found = privatize_file(source, tmp_path / "out.parquet", encoder(), keep=["number"])
    assert read(found).column_names == ["color", "size", "number"]
    assert read(found).num_rows == 0
    with pytest.raises(ValueError, match="0 sample"):
        estimate_file(found, encoder())


# CSV


CSV = Domain(
    {
        "age": Interval(0, 100, bins=10),
        "grade": [1, 2, None],
        "score": [1, 2.5],
        "left": [True, False, None],
        "word": ["None", "007", "x", ""],
        "day": Interval(datetime.date(2000, 1, 1), datetime.date(2004, 1, 1), bins=4, missing=True),
        "at": [datetime.datetime(2000, 4, 1, 8, 30), None],
    }
)
ROWS = [
    "40,1,1,True,007,2001-12-31,2000-04-01T08:30",
    "40.5,,2.5,,None,NA,",
    "100,2.0,1.0,false,x,20040101,2000-04-01 08:30:00",
    "0,NA,1,FALSE,,2000-01-01T12:00,",
]
CODES = [[4, 4, 9, 0], [0, 2, 1, 2], [0, 1, 0, 0], [0, 2, 1, 1], [1, 0, 2, 3], [1, 4, 3, 0], [0, 1, 0, 1]]


def write_csv(path, rows=ROWS):
    path.write_text("\n".join([",".join(CSV.columns), *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore:.*randomised a second time")  # the reports are read as a table of its types
def test_the_text_of_csv_is_read_by_the_domain(tmp_path):
    """With so large an epsilon, the reports are the truth."""
    for form in FORMATS:
        fitted = RandomizedResponseEncoder(400.0, categories=CSV, random_state=0)
        found = privatize_file(write_csv(tmp_path / "in.csv"), tmp_path / f"out.{form}", fitted)
        again = privatize_file(
            found, tmp_path / f"again.{form}", RandomizedResponseEncoder(400.0, categories=CSV, random_state=0)
        )
        assert read(again).equals(read(found))
        counts = estimate_file(again, fitted)["count"].round().astype(int).tolist()
        assert counts == [
            codes.count(code) for codes, size in zip(CODES, CSV.sizes, strict=True) for code in range(size)
        ]
    assert (tmp_path / "out.csv").read_text().splitlines()[:2] == [
        "age,grade,score,left,word,day,at",
        '45,1,1,true,"007",2001-07-02,"2000-04-01T08:30:00"',
    ]


def test_no_row_changes_how_another_one_is_read(tmp_path):
    """A word among numbers is one undeclared value, and the others stay what they are."""
    numbers = ["1", "2"] * 50
    domain = Domain({"n": [1, 2], "other": ["x", "y"]})
    rows = [f"{number},x" for number in [*numbers, "SECRET", "1_0", "nan ", "1e999"]]
    (tmp_path / "in.csv").write_text("\n".join(["n,other", *rows]), encoding="utf-8")
    fitted = RandomizedResponseEncoder(400.0, categories=domain, random_state=0, handle_unknown="uniform")
    found = read(privatize_file(tmp_path / "in.csv", tmp_path / "out.parquet", fitted))
    assert found["n"].to_pylist()[:100] == [1, 2] * 50
    assert set(found["n"].to_pylist()[100:]) <= {1, 2}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("SECRET,1,1,True,x,,", "column 'age' holds a value"),
        ("nan,1,1,True,x,,", "column 'age' holds a value"),
        ("1,SECRET,1,True,x,,", "column 'grade' holds a value"),  # which declares missing
        ("1,1,1,SECRET,x,,", "neither true nor false"),
        ("1,1,1,True,SECRET,,", "column 'word' holds a value"),
        ("1,1,1,True,x,SECRET,", "column 'day' holds text that is no ISO 8601"),
        ("1,1,1,True,x,,2000-04-01T08:30Z", "time zone"),
        ("1,SECRET", "is no CSV file"),
        ("1,1,1,True,x,,,SECRET", "is no CSV file"),
        ('"SECRET,1,1,True,x,,', "is no CSV file"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_a_csv_row_that_is_refused_is_not_shown(tmp_path, row, text, check):
    source = write_csv(tmp_path / "in.csv", [*ROWS * 2_000, row])
    with pytest.raises(ValueError, match=text) as caught:
        privatize_file(source, tmp_path / "out.csv", RandomizedResponseEncoder(categories=CSV), check=check)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    # What is no CSV file may be the fault of the disk; while it is checked, nothing is charged that could be lost.
    left = ["out.csv.unfinished"] if "no CSV" in text and not check else []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", *left]


def test_a_csv_file_that_is_no_text_or_has_no_header_is_refused(tmp_path):
    for content in (b"", b"\xff\xfe\x00", b"word,word\nx,x\n", b'"word\nSECRET'):
        (tmp_path / "in.csv").write_bytes(content)
        with pytest.raises(ValueError, match=r"header|same name|no UTF-8 text \(line 1\)") as caught:
            privatize_file(tmp_path / "in.csv", tmp_path / "out.csv", encoder())
        assert "SECRET" not in str(caught.value)
    (tmp_path / "in.csv").write_bytes(b"SECRET,0\nred,1\n")
    for run in (lambda *paths: privatize_file(*paths, encoder()), lambda path, _: estimate_file(path, encoder())):
        with pytest.raises(ValueError, match=r"columns \['color', 'size'\]") as caught:
            run(tmp_path / "in.csv", tmp_path / "out.csv")
        assert "SECRET" not in str(caught.value)
    (tmp_path / "in.csv").write_bytes(b"color,size\nred,\xff0\n")
    with pytest.raises(ValueError, match="UTF-8"):
        privatize_file(tmp_path / "in.csv", tmp_path / "out.csv", encoder())


def test_strange_names_and_values_come_back_from_csv(tmp_path):
    domain = Domain({'a,"b': ['x,"y', "line\nbreak", "ü", None], "c": ["", None]})
    for columns in (domain.columns, domain.columns[:1]):
        chosen = domain.select(columns)
        rows = pa.table({name: [chosen[name].values[row % len(chosen[name])] for row in range(8)] for name in columns})
        pq.write_table(rows, tmp_path / "in.parquet")
        make = {"categories": chosen, "random_state": 0}
        found = privatize_file(
            tmp_path / "in.parquet", tmp_path / f"{len(columns)}.csv", RandomizedResponseEncoder(400.0, **make)
        )
        counts = estimate_file(found, RandomizedResponseEncoder(400.0, **make))["count"]
        assert counts.round().tolist() == [8 / len(chosen[name]) for name in columns for _ in chosen[name].values]


# Refusals


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text("color,size\nred,1\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    runs = (lambda path: privatize_file(path, tmp_path / "out.csv", encoder()), lambda p: estimate_file(p, encoder()))
    for run in runs:
        with pytest.raises(ImportError, match=r"skdp\[duckdb\]"):
            run(tmp_path / "in.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("form", FORMATS)
def test_an_unseen_value_leaves_nothing_but_the_charge_of_a_run_without_check(tmp_path, form):
    strange = pa.table({"color": ["red"] * 9_999 + ["SECRET"], "size": [0] * 10_000})
    source = write(strange, tmp_path / f"in.{form}")
    ledger = PrivacyLedger(epsilon=1.5)
    for check in (True, False):
        with pytest.raises(ValueError, match="column 'color' holds a value") as caught:
            privatize_file(source, tmp_path / f"out.{form}", encoder(ledger=ledger), check=check)
        assert "SECRET" not in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == [source.name]
        assert len(ledger.report()) == 1 - check


# Runs that are stopped


def test_a_stopped_run_keeps_its_secrets_to_its_owner(source, target):
    folder = stop(source, target, encoder(random_state=None))
    assert not target.exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    key = folder / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_bytes()) == 32
    privatize_file(source, target, encoder(random_state=None), resume=True)
    assert sorted(path.name for path in target.parent.iterdir()) == ["in.parquet", "out.parquet"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_resumed_run_reports_each_row_once_and_as_its_key_says(people, tmp_path, form):
    source, target = write(people, tmp_path / "in.parquet"), tmp_path / f"out.{form}"
    fitted = encoder(random_state=None)
    folder = stop(source, target, fitted, keep=["number"])
    shutil.copytree(folder, tmp_path / "copy")
    made = []
    for _ in range(2):
        privatize_file(source, target, encoder(random_state=None), keep=["number"], resume=True)
        made.append(read(target).to_pydict())
        for path in tmp_path.glob("out*"):
            path.unlink()
        shutil.move(shutil.copytree(tmp_path / "copy", tmp_path / "again"), folder)
    assert made[0] == made[1]
    assert made[0]["number"] == list(range(people.num_rows))
    assert made[0]["color"] != people["color"].to_pylist()
    (folder / "key").write_bytes(bytes(32))  # another key, other reports
    privatize_file(source, target, encoder(random_state=None), keep=["number"], resume=True)
    assert read(target).to_pydict() != made[0]


def test_a_stopped_run_is_not_taken_for_a_new_one_nor_a_new_one_for_a_stopped_one(source, target):
    with pytest.raises(FileNotFoundError, match="nothing to resume"):
        privatize_file(source, target, encoder(), resume=True)
    stop(source, target, encoder())
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(FileExistsError, match=r"--resume.*or remove it"):
        privatize_file(source, target, encoder(ledger=ledger))
    assert ledger.spent.epsilon == 0


def test_all_else_must_be_as_it_was(people, source, target, tmp_path):
    folder = stop(source, target, encoder())
    other = {"color": ["red", "blue", "green", "unused", None], "size": [0, 1, 2, 3]}
    others = {
        "another transformer": {"transformer": encoder(epsilon=1.5)},
        "another transformer, another seed": {"transformer": encoder(handle_unknown="uniform", random_state=None)},
        "another seed": {"transformer": encoder(random_state=1)},
        "another domain": {"transformer": encoder(categories=other)},
        "another ledger": {"transformer": encoder(ledger=PrivacyLedger(tmp_path / "ledger", epsilon=1))},
        "another list of kept columns": {"keep": ["number"]},
    }
    before = sorted(path.name for path in folder.iterdir())
    for text, options in others.items():
        with pytest.raises(ValueError, match=text):
            privatize_file(source, target, **{"transformer": encoder()} | options, resume=True)
    assert PrivacyLedger(tmp_path / "ledger").spent.epsilon == 0
    changes = [
        lambda: write(people.slice(1), source),
        lambda: write(people.rename_columns(["color", "size", "count"]), source),
    ]
    for change in changes:
        change()
        with pytest.raises(ValueError, match="another input file"):
            privatize_file(source, target, encoder(), resume=True)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_an_input_that_is_unreadable_for_a_while_deletes_nothing(source, target, tmp_path, monkeypatch, batch_rows):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=9)
    tables = TableFile.tables

    def damaged(self, *args):
        yield next(tables(self, *args)).slice(0, PART)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(TableFile, "tables", damaged)
    with pytest.raises(OSError, match="Input/output") as caught:
        privatize_file(source, target, encoder(random_state=None, ledger=ledger), check=False)
    assert "resume=True goes on" in caught.value.__notes__[0]
    monkeypatch.undo()
    batch_rows(PART)
    privatize_file(source, target, encoder(random_state=None, ledger=ledger), resume=True)
    assert len(ledger.report()) == 1
    assert pq.read_metadata(target).num_rows == 10_000


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_a_check_that_is_stopped_leaves_nothing_and_claims_no_charge(source, target, tmp_path, monkeypatch, error):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=9)

    def stopped(*args):
        raise error
        yield

    monkeypatch.setattr(TableFile, "tables", stopped)
    with pytest.raises(type(error)) as caught:
        privatize_file(source, target, encoder(random_state=None, ledger=ledger))
    assert not hasattr(caught.value, "__notes__")
    assert not list(tmp_path.glob("*.unfinished"))
    assert not len(ledger.report())


def test_a_damaged_folder_is_no_release(source, target):
    folder = stop(source, target, encoder(random_state=None))
    (folder / "key").write_bytes(b"")
    with pytest.raises(ValueError, match="lost its key"):
        privatize_file(source, target, encoder(random_state=None), resume=True)
    (folder / "settings.json").write_bytes(b"{")
    with pytest.raises(ValueError, match="had another"):
        privatize_file(source, target, encoder(random_state=None), resume=True)
    assert not target.exists()


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_what_a_file_cannot_hold_costs_nothing(people, tmp_path, form):
    table = people.append_column("span", pa.nulls(people.num_rows, pa.month_day_nano_interval()))
    feather.write_feather(table, tmp_path / "in.arrow")
    ledger = PrivacyLedger(epsilon=9)
    if form == "arrow":
        privatize_file(tmp_path / "in.arrow", tmp_path / "out.arrow", encoder(ledger=ledger), keep=["span"])
        return
    with pytest.raises(ValueError, match=r"column 'span' is of type month_day_nano_interval, which (a CSV|the) file"):
        privatize_file(tmp_path / "in.arrow", tmp_path / f"out.{form}", encoder(ledger=ledger), keep=["span"])
    assert len(ledger.report()) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["in.arrow"]


def test_two_runs_are_never_at_one_release(source, target):
    """The first is in the middle when the second one takes it up."""
    refused = []

    class Bar:
        def __init__(self, total):
            pass

        def update(self, rows):
            for resume, message in ((True, "is being written by another run"), (False, "or that still goes on")):
                with pytest.raises(FileExistsError, match=message):
                    privatize_file(source, target, encoder(random_state=None), resume=resume)
                refused.append(resume)

        def close(self):
            pass

    privatize_file(source, target, encoder(random_state=None), progress=Bar)
    assert True in refused
    assert pq.read_metadata(target).num_rows == 10_000
