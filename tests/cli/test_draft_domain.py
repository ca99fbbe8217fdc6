"""``skdp draft-domain``: columns that a release can use, and comments on all other columns."""

import datetime as dt
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import Domain, Interval
from skdp.engines import draft_domain_toml
from tests.cli.commands import call, draft_frame, refuse
from tests.conftest import quick_first

RNG = np.random.default_rng(0)
ROWS = 600


def draft(**columns):
    """Draft a table with a column `sex` and further columns; return the text and the domain."""
    frame = pd.DataFrame({"sex": ["f", "m"] * (ROWS // 2)} | columns)
    text = draft_frame(frame)
    return text, Domain.from_toml(text)


def draft_csv(name, *lines, options=()):
    """Draft a CSV file with the command; return the text."""
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert call("draft-domain", name, "domain.toml", *options) == 0
    return Path("domain.toml").read_text(encoding="utf-8")


PEOPLE = [f"Person {row}" for row in range(60)]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("customer", [f"Person {row}" for row in range(ROWS)]),
        ("customer", range(10_000, 10_000 + ROWS)),
        ("customer", RNG.permutation(ROWS) * 1.0),
        ("customer", [f"{row}@mail.org" for row in range(ROWS)]),
        # Identifiers that occur in several rows.
        ("customer", [f"{row % 60}@mail.org" for row in range(ROWS)]),
        ("name", PEOPLE * 10),
        ("person_id", [*range(100)] * 6),
        ("personID", [*range(100)] * 6),
        ("patient.id", PEOPLE * 10),
        # A word beside the names or addresses, which occurs in many rows.
        ("customer", [PEOPLE[row] if row < 60 else "unknown" for row in range(ROWS)]),
        ("customer", PEOPLE + PEOPLE[:4] * 135),
        ("customer", [f"{row % 60}@mail.org" if row % 5 else "-" for row in range(ROWS)]),
        ("customer", pd.Categorical([PEOPLE[row] if row < 60 else "unknown" for row in range(ROWS)])),
    ],
)
def test_identifiers_are_excluded_with_a_comment(name, values):
    text, domain = draft(**{name: values})
    assert domain.columns == ("sex",)
    assert f"# Column {name!r} is excluded: it " in text
    assert "Person 7" not in text
    assert "@" not in text


def test_draft_of_few_people_lists_no_identifiers():
    frame = pd.DataFrame({"who": PEOPLE, "sex": ["f", "m"] * 30, "weight": RNG.normal(70, 9, 60), "pay": range(60)})
    frame["born"] = np.arange(60).astype("datetime64[M]").astype("datetime64[s]")
    frame["code"] = [int(f"{day:%Y%m%d}") for day in frame["born"]]
    domain = Domain.from_toml(draft_frame(frame))
    assert domain.columns == ("sex", "weight", "born")
    assert all(isinstance(domain[name], Interval) for name in ("weight", "born"))
    # The same for a table with fewer rows than bins.
    assert Domain.from_toml(draft_frame(frame[:12])).columns == ("sex", "weight", "born")
    assert isinstance(Domain.from_toml(draft_frame(frame[:12]))["weight"], Interval)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("grade", [1, 2, 3] * 200),
        ("age", [*range(18, 78)] * 10),
        ("hospital_id", [*range(20)] * 30),
        ("name", ["left", "right", "none"] * 200),
        # Texts of which 15 % occur in several rows.
        ("city", [f"city {row % 3 if row > 20 else row}" for row in range(ROWS)]),
        ("pay", RNG.normal(3e4, 1e4, ROWS).round(2)),
        ("day", np.arange(ROWS).astype("datetime64[D]").astype("datetime64[s]")),
    ],
)
def test_columns_of_groups_and_amounts_are_drafted(name, values):
    assert draft(**{name: values})[1].columns == ("sex", name)


def test_times_of_which_one_is_midnight_are_no_dates(tmp_path):
    times = [f"2024-01-{1 + row % 9:02}T{row % 3:02}:00:00" for row in range(99)]
    text = draft_csv(tmp_path / "times.csv", "time,sex", *(f"{time},{'mf'[i % 2]}" for i, time in enumerate(times)))
    domain = Domain.from_toml(text)
    assert domain["time"].values == tuple(sorted({dt.datetime.fromisoformat(time) for time in times}))


def test_times_with_a_zone_are_excluded():
    times = [dt.datetime(2024, 1, 1 + row % 28, tzinfo=dt.UTC) for row in range(100)]
    pq.write_table(pa.table({"sex": ["f", "m"] * 50, "seen": times}), "people.parquet")
    assert call("draft-domain", "people.parquet", "domain.toml") == 0
    text = Path("domain.toml").read_text()
    assert "# Column 'seen' is excluded: it has times with a time zone" in text
    assert Domain.from_toml(text).columns == ("sex",)
    with pytest.raises(ValueError, match="Column 'seen' has times with a time zone"):
        Domain.from_frame(pd.DataFrame({"seen": times}))


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("end", ["", "x"])
def test_error_of_another_delimiter_names_the_option(capsys, delimiter, end):
    Path("in.csv").write_text(f"sex{delimiter}age\n" + f"f{delimiter}30{end}\nm{delimiter}40\n" * 20)
    assert "Use --delimiter to set the character" in refuse(capsys, "draft-domain", "in.csv", "out.toml")
    # A file of one column may have such a name.
    assert call("draft-domain", "in.csv", f"{ord(delimiter)}{end}.toml", "--delimiter", ",") == 0


@pytest.mark.parametrize("text", ["90+", ".", '"1,234"', "<5", "unknown"])
def test_numbers_with_other_text_are_described(text):
    rows = [f"{text},f" if row % 5 == 0 else f"{row % 300},m" for row in range(ROWS)]
    drafted = draft_csv(f"{len(text)}.csv", "income,sex", *rows)
    Path("domain.toml").unlink()
    (line,) = [line for line in drafted.splitlines() if "'income'" in line]
    assert "numbers with other text" in line
    assert "numbers with other text" not in draft_frame(
        pd.DataFrame({"sex": ["f", "m"] * 300, "code": [f"K{row % 300}" for row in range(ROWS)]})
    )


@pytest.mark.parametrize(
    ("texts", "n_kept"),
    [
        (["3.4e-6", "3e-6", "2e+7"], 1 << 16),
        (["3.4E-6", "3.0E-6", "2.0E7"], 1 << 16),
        (["3.4e-6", "3e-6", "2e7"], 1 << 16),
        (["3.4E-6", "3e-6", "2e7"], 500),  # more values than a draft keeps
    ],
)
def test_numbers_of_polars_spark_and_readr_are_drafted(tmp_path, texts, n_kept, monkeypatch):
    monkeypatch.setattr("skdp.engines._draft.MAX_DISTINCT", n_kept)
    rates = [*(f"{row / ROWS:.5f}" for row in range(1, ROWS)), *texts]
    text = draft_csv(tmp_path / "in.csv", "rate,sex", *(f"{rate},{'fm'[i % 2]}" for i, rate in enumerate(rates)))
    assert tomllib.loads(text)["columns"]["rate"] == {"low": 0.0, "high": 2e7, "real": True}


def test_numbers_with_two_spellings_are_not_described_as_other_text():
    drafted = draft_csv("in.csv", "rate,sex", *(f"-{row}.5{'0' * (row % 2)},f\n-{row}.50,m" for row in range(ROWS)))
    (line,) = [line for line in drafted.splitlines() if "'rate'" in line]
    assert "numbers with other text" not in line


def codes(first, last, text_format):
    return [
        int(f"{day:{text_format}}") for day in pd.date_range(first, last, freq="MS" if "d" not in text_format else "D")
    ]


def test_codes_of_months_are_listed():
    months = codes("2019-01-01", "2024-12-01", "%Y%m")
    frame = pd.DataFrame({"month": np.resize(months, ROWS)})
    assert Domain.from_toml(draft_frame(frame))["month"].values == tuple(months)
    assert Domain.from_frame(frame)["month"].values == tuple(months)
    # A column with each month once is not an identifier.
    assert Domain.from_toml(draft_frame(pd.DataFrame({"month": months})))["month"].values == tuple(months)


def test_codes_of_weeks_and_quarters_are_listed():
    weeks = [year * 100 + week for year in (2019, 2020) for week in (*range(1, 49), 53)]
    quarters = [year * 10 + quarter for year in range(2000, 2020) for quarter in range(1, 5)]
    frame = pd.DataFrame({"week": np.resize(weeks, ROWS), "quarter": np.resize(quarters, ROWS)})
    for domain in (Domain.from_toml(draft_frame(frame)), Domain.from_frame(frame)):
        assert domain["week"].values == tuple(weeks)
        assert domain["quarter"].values == tuple(quarters)
    # A number that is no week is an amount.
    assert isinstance(draft(pay=np.resize([*weeks, 201954], ROWS))[1]["pay"], Interval)


@pytest.mark.parametrize(
    "values",
    [
        codes("1990-01-01", "2009-12-01", "%Y%m"),
        codes("1950-01-01", "1989-12-31", "%Y%m%d"),
        codes("2024-01-01", "2024-12-31", "%Y%m%d"),
        # Weeks, quarters and days of a year.
        [year * 100 + week for year in range(2019, 2025) for week in range(1, 53)],
        [year * 10 + quarter for year in range(1990, 2024) for quarter in range(1, 5)],
        [year * 1000 + day for year in (2020, 2024) for day in range(1, 367)],
        # The first days of months, as days.
        sorted(code * 100 + 1 for code in codes("1990-01-01", "2009-12-01", "%Y%m")),
    ],
)
def test_many_codes_of_dates_are_excluded_with_a_remedy(values):
    remedy = "has numbers that are dates or weeks, such as 20240131; write them as 2024-01-31"
    text, domain = draft(day=np.resize(values, ROWS))
    assert f"# Column 'day' is excluded: it {remedy}." in text
    assert domain.columns == ("sex",)
    frame = pd.DataFrame({"day": np.resize(values, 20_000)})
    with pytest.raises(ValueError, match=f"^Column 'day' {remedy}"):
        Domain.from_frame(frame, bins=32)
    assert "are dates or" not in draft(pay=np.resize(values, ROWS) + 95)[0]


@pytest.mark.parametrize(
    ("values", "drafted"), [(["0.0", "-0.0", "1.5"], (0, 1.5)), (["0", "-0", "1"], (0, 1)), (["-0.0", "1.5"], (0, 1.5))]
)
def test_negative_zero_is_read_as_a_number(values, drafted):
    text = draft_csv(f"{len(values)}{values[0]}.csv", "x,sex", *[f"{value},f" for value in values * 100])
    Path("domain.toml").unlink()
    assert Domain.from_toml(text)["x"].values == drafted


def test_constant_column_is_excluded():
    text, domain = draft(region=["south"] * ROWS, filled=["south", None] * (ROWS // 2), flag=[True] * ROWS)
    assert "# Column 'region' is excluded: it has a single value" in text
    assert domain.columns == ("sex", "filled", "flag")


@pytest.mark.parametrize(
    ("rows", "found"),
    [(["39,Anna", "40,Ben"], ""), (["Anna,f,31", "Ben,m,32"], ""), (["f,Anna", "m,Ben", "f,Cora"], ""),
     (["x,x", "1,2"], ""), (["f,n", "m,s", "f,n"], "that is a value of its column in column 1, 2"),
     (["x,y,x", "1,2,3"], "in column 1, 3"), (["1,2024-01-01", "2,2024-01-02"], "numbers or dates only")],
)  # fmt: skip
def test_first_row_in_place_of_a_header_raises_an_error(capsys, rows, found):
    Path("headless.csv").write_text("\n".join(rows * 3) + "\n")
    message = refuse(capsys, "draft-domain", "headless.csv", "out.toml")
    assert "must start with a line of distinct column names, got " in message
    assert found in message
    assert not Path("out.toml").exists()
    assert [text for text in ("39", "Anna", "Ben", "31") if text in message] == []


@pytest.mark.parametrize("header", ["ward,2023,2024", "ward,2024-01-01,2024-02-01", "ward,visits,1", "a,ward,year"])
def test_name_of_a_column_may_be_a_number_a_date_or_one_of_its_values(header):
    """A column "2023" or "smoker" with the values smoker and non-smoker was taken for a row."""
    text = draft_csv("wide.csv", header, *["a,3,4", "b,5,9"] * 200)
    assert Domain.from_toml(text).sizes == (2, 2, 2)


@pytest.mark.parametrize("text", ["string_view", "dictionary of views", "large_string"])
def test_views_and_half_floats_of_arrow_are_drafted(text):
    sexes, halves = ["f", "m"] * 300, pa.array((np.arange(600) % 3 / 2).astype("float16"))
    column = pa.array(sexes, pa.large_string() if text == "large_string" else pa.string_view())
    if text == "dictionary of views":
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 300), pa.array(["f", "m"], pa.string_view()))
    with (
        pa.OSFile("views.arrow", "wb") as file,
        pa.ipc.new_file(file, pa.schema([("sex", column.type), ("x", halves.type)])) as out,
    ):
        out.write_table(pa.table({"sex": column, "x": halves}))
    assert call("draft-domain", "views.arrow", "views.toml") == 0
    assert Domain.from_toml(Path("views.toml").read_text()) == Domain({"sex": ["f", "m"], "x": [0, 0.5, 1]})


def test_integers_of_one_part_and_floats_of_another_are_numbers():
    """The numbers 1 and 1.0 in two part files were drafted as six texts."""
    text = draft_csv("parts.csv", "x,sex", *["1,f", "1.0,f", "2,m", "2.0,m", "3.5,m"] * 50)
    assert Domain.from_toml(text)["x"].values == (1, 2, 3.5)


@pytest.mark.parametrize("number", ["inf", "-Infinity", "Inf"])
def test_infinite_numbers_of_a_text_file_are_excluded_with_a_remark(number):
    text = draft_csv("infinite.csv", "x,sex", *["1,f", "2,m", f"{number},m"] * 50)
    assert "# Column 'x' is excluded: it has infinite numbers." in text


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_draft_of_times_in_bins_of_days_has_a_remark(suffix):
    times = pd.date_range("2024-01-01 08:30", periods=400, freq="h")
    rows = pd.DataFrame({"at": times, "day": times.normalize(), "sex": ["f", "m"] * 200})
    rows.to_csv("times.csv", index=False) if suffix == "csv" else rows.to_parquet("times.parquet")
    assert call("draft-domain", f"times.{suffix}", "times.toml", "--max-values", 10) == 0
    text = Path("times.toml").read_text()
    assert text.count("without the times of day") == 1
    assert text.index("without the times of day") < text.index("[columns.at]")


def test_draft_of_another_suffix_raises_an_error(capsys):
    Path("people.csv").write_text("sex\nf\nm\n")
    assert "DOMAIN must end in .toml, got 'x.json'" in refuse(capsys, "draft-domain", "people.csv", "x.json")
    assert not Path("x.json").exists()


LARGE = 4_000
DAYS = np.datetime64("1990-01-01") + RNG.integers(0, 3_000, LARGE)
COLUMNS_OF_MANY_VALUES = {
    "id": RNG.permutation(LARGE) + 10_000,
    "cents": RNG.integers(0, 9_000, LARGE),
    "negative": RNG.integers(-4_000, 900, LARGE),
    "pay": RNG.lognormal(10, 1, LARGE).round(2),
    "rate": RNG.random(LARGE),
    "late_fraction": [*range(500), *[0.5] * (LARGE - 500)],
    "day": DAYS.astype("datetime64[s]"),
    "time": DAYS.astype("datetime64[s]") + RNG.integers(0, 86_400, LARGE),
    "name": [f"name {row}" for row in range(LARGE)],
    "word": [f"word {row % 900}" for row in RNG.permutation(LARGE)],
    "late_text": [str(row % 900) if row < LARGE - 9 else "unknown" for row in range(LARGE)],
    "infinite": [*range(LARGE - 1), np.inf],
    "age": RNG.integers(18, 90, LARGE),
    "grade": RNG.choice(["a", "b", "NA", ""], LARGE),
    "month": np.resize(codes("1950-01-01", "2009-12-01", "%Y%m"), LARGE),
    "gaps": [None if row % 9 == 0 else row % 700 for row in range(LARGE)],
    "late_gap": ["NA" if row == LARGE - 9 else str(row % 900) for row in range(LARGE)],
}


@pytest.mark.parametrize(
    ("form", "name"),
    [
        *(("csv", name) for name in COLUMNS_OF_MANY_VALUES),
        # Text of Parquet files is not parsed, so late text does not change its type.
        *quick_first(8, [("parquet", x) for x in COLUMNS_OF_MANY_VALUES if x not in ("late_text", "late_gap")]),
    ],
)
def test_draft_in_batches_equals_the_draft_of_the_whole_column(monkeypatch, form, name):
    frame = pd.DataFrame({"sex": ["f", "m"] * (LARGE // 2), name: COLUMNS_OF_MANY_VALUES[name]})
    frame.to_csv("many.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), "many.parquet", row_group_size=300)
    assert call("draft-domain", f"many.{form}", "whole.toml", "--max-values", 50, "--bins", 20) == 0
    monkeypatch.setattr("skdp.engines._draft.MAX_DISTINCT", 60)
    monkeypatch.setattr("skdp.engines._csv.BATCH_ROWS", 300)
    monkeypatch.setattr("skdp.readers._local.BATCH_ROWS", 300)
    monkeypatch.setattr("skdp.engines._csv.CsvFile.block_size", 0)
    assert call("draft-domain", f"many.{form}", "parts.toml", "--max-values", 50, "--bins", 20) == 0
    assert Path("parts.toml").read_text() == Path("whole.toml").read_text()
    Path("whole.toml").unlink()
    Path("parts.toml").unlink()


@pytest.mark.parametrize("n_repeats", [1, 3])
def test_uniqueness_of_many_whole_numbers_is_estimated_from_a_subset(monkeypatch, n_repeats):
    """Identifiers are excluded, and amounts, of which each occurs three times, are cut."""
    monkeypatch.setattr("skdp.engines._draft.MAX_DISTINCT", 500)
    numbers = np.tile(np.random.default_rng(1).permutation(60_000), n_repeats)
    tables = [pa.table({"sex": ["f", "m"] * 500, "x": part}) for part in numbers.reshape(-1, 1_000)]
    text = draft_domain_toml(tables)
    assert ("nearly all occur once" in text) == (n_repeats == 1)
    assert n_repeats == 1 or Domain.from_toml(text)["x"].edges[-1] == 60_000


def test_draft_keeps_no_batch(monkeypatch):
    """Tables that exceed the memory are read in batches."""
    monkeypatch.setattr("skdp.engines._draft.MAX_DISTINCT", 1_000)
    before = pa.total_allocated_bytes()

    def read():
        for number in range(20):
            ids = [f"{number} {row}" for row in range(5_000)]
            yield pa.table({"id": ids, "pay": RNG.random(5_000), "sex": ["f", "m"] * 2_500})
            assert pa.total_allocated_bytes() - before < 10**6

    assert Domain.from_toml(draft_domain_toml(read())).columns == ("pay", "sex")


def test_missing_values_of_the_first_batch_are_drafted():
    batches = [pa.table({"sex": ["f", None] * 300}), pa.table({"sex": ["f", "m"] * 300})]
    assert Domain.from_toml(draft_domain_toml(batches))["sex"].values == ("f", "m", None)
