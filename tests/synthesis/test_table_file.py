from __future__ import annotations

from datetime import date, datetime

import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.base import draft_domain_toml
from skdp.domain import Categories
from skdp.synthesis._table_file import read_frame, synthesize_file

DOMAIN = Domain(
    {
        "age": Interval(0, 100, bins=10),
        "height": Interval(edges=[0, 1.5, 2.5]),
        "grade": [1, 2, None],
        "score": [1, 2.5],
        "left": [True, False, None],
        "word": ["None", "007", "x"],
    }
)
ROW = {"age": "40", "height": "1", "grade": "1", "score": "1", "left": "True", "word": "007"}
ODD = {"age": "40.5", "height": "1.75", "grade": "", "score": "2.5", "left": "", "word": "None"}


def write(path, rows):
    path.write_text("\n".join([",".join(ROW), *(",".join(row.values()) for row in rows)]) + "\n", encoding="utf-8")
    return path


def run(source, target, **options):
    synthesizer = DPMarginalSynthesizer(50.0, domain=DOMAIN, handle_unknown="ignore", random_state=0)
    synthesize_file(source, target, synthesizer, **options)
    return synthesizer


def test_no_dtype_depends_on_the_data(tmp_path):
    """One odd row changes what pandas takes each column for."""
    dtypes = []
    for name, rows in {"plain": [ROW] * 40, "odd": [*[ROW] * 39, ODD], "all odd": [ODD] * 40, "none": []}.items():
        source = write(tmp_path / f"{name}.csv", rows)
        run(source, tmp_path / f"{name}.parquet", n_samples=5)
        dtypes.append(pd.read_parquet(tmp_path / f"{name}.parquet").dtypes.astype(str).to_dict())
    expected = {"age": "Int64", "height": "float64", "grade": "Int64", "score": "float64", "left": "boolean"}
    assert dtypes == [expected | {"word": "str"}] * 4


def test_real_columns_keep_their_fractions(tmp_path):
    source = write(tmp_path / "in.csv", [ROW] * 40)
    run(source, tmp_path / "out.csv", n_samples=50, real_columns=["age"])
    assert (pd.read_csv(tmp_path / "out.csv")["age"] % 1 > 0).any()


def test_no_number_changes_its_bin(tmp_path):
    """Fractions are cut off, but 99.5 stays in its bin, 100.5 and -0.5 outside, and infinite ones too."""
    ages = {"99.5": 1, "100": 1, "100.5": 0, "-0.5": 0, "inf": 0, "-inf": 0, "1e300": 0, "39.999": 1, "": 0}
    for age, inside in ages.items():
        source = write(tmp_path / "in.csv", [ROW | {"age": age}] * 100)
        target = tmp_path / f"out {age}.csv"
        synthesizer = run(source, target)
        assert (synthesizer.n_rows_ > 50) == inside
        if inside:
            assert synthesizer.count({"age": (float(age) // 10 * 10 if age != "100" else 90, None)}) > 50


def test_declared_texts_are_no_missing_values_and_no_numbers(tmp_path):
    frame = read_frame(write(tmp_path / "in.csv", [ROW, ODD]), DOMAIN)
    assert frame["word"].tolist() == ["007", "None"]
    assert frame["grade"].isna().tolist() == [False, True]
    assert read_frame(tmp_path / "in.csv")["word"].isna().tolist() == [False, True]


def test_columns_come_in_the_order_of_the_table(tmp_path):
    source = tmp_path / "in.csv"
    pd.DataFrame([ROW | {"more": "1"}] * 40)[["word", "more", *[name for name in ROW if name != "word"]]].to_csv(
        source, index=False
    )
    synthesizer = DPMarginalSynthesizer(50.0, domain=DOMAIN, random_state=0)
    assert synthesize_file(source, tmp_path / "out.csv", synthesizer, n_samples=3) == ["more"]
    assert pd.read_csv(tmp_path / "out.csv").columns[0] == "word"
    with pytest.raises(ValueError, match="n_samples must be between 0"):
        synthesize_file(source, tmp_path / "two.csv", synthesizer, n_samples=-1)


class TestDates:
    DOMAIN = Domain.from_toml(
        """
        [columns.day]
        low = 2000-01-01
        high = 2004-01-01
        bins = 4
        missing = true

        [columns.at]
        edges = [2000-01-01T00:00:00, 2000-01-01T12:00:00, 2000-01-02T00:00:00]

        [columns.term]
        values = [2000-04-01, 2000-10-01]

        [columns.start]
        values = [2000-04-01T08:30:00]
        missing = true
        """
    )
    ROWS = (
        "2001-12-31,2000-01-01 11:59:59.999999,2000-04-01,2000-04-01T08:30",
        "2002-01-01T23:59,2000-01-01T12:00:00,2000-10-01,",
        "NA,2000-01-02,2000-10-01,",
        "20040101,20000101T000000,2000-10-01,2000-04-01 08:30:00",
    )
    CODES = ([1, 2, 4, 3], [0, 1, 1, 0], [0, 1, 1, 1], [0, 1, 1, 0])

    def write(self, path, rows=ROWS):
        path.write_text("\n".join(["day,at,term,start", *rows]) + "\n", encoding="utf-8")
        return path

    def run(self, source, target, **options):
        synthesizer = DPMarginalSynthesizer(50.0, domain=self.DOMAIN, random_state=0)
        synthesize_file(source, target, synthesizer, **options)
        return target

    def test_iso_text_is_read(self, tmp_path):
        frame = read_frame(self.write(tmp_path / "in.csv"), self.DOMAIN)
        assert [code.tolist() for code in self.DOMAIN.encode([frame[name] for name in frame])] == list(self.CODES)

    def test_iso_text_is_written_again_and_again(self, tmp_path):
        """From CSV to CSV, to Parquet, and back to CSV: the same coins give the same text."""
        source = self.write(tmp_path / "in.csv", self.ROWS * 25)
        first = self.run(source, tmp_path / "one.csv", n_samples=100)
        rows = [line.split(",") for line in first.read_text().splitlines()[1:]]
        for day, at, term, start in rows:
            assert not day or date(2000, 1, 1) <= date.fromisoformat(day) <= date(2004, 1, 1)
            assert datetime(2000, 1, 1) <= datetime.strptime(at, "%Y-%m-%dT%H:%M:%S") <= datetime(2000, 1, 2)
            assert term in ("2000-04-01", "2000-10-01")
            assert start in ("", "2000-04-01T08:30:00")
        assert {not day for day, *_ in rows} == {True, False}
        parquet = self.run(source, tmp_path / "one.parquet", n_samples=100)
        frame = pd.read_parquet(parquet)
        assert frame.dtypes.astype(str).to_dict() == {
            "day": "date32[day][pyarrow]", "at": "datetime64[us]", "term": "date32[day][pyarrow]",
            "start": "datetime64[us]",
        }  # fmt: skip
        assert [str(day) if day is not pd.NA else "" for day in frame["day"]] == [day for day, *_ in rows]
        assert frame["at"].map(datetime.isoformat).tolist() == [row[1] for row in rows]
        again = self.run(parquet, tmp_path / "two.csv", n_samples=100)
        read_frame(again, self.DOMAIN)

    def test_no_dtype_depends_on_the_data(self, tmp_path):
        dtypes = []
        for name, rows in {"none": (), "one": self.ROWS[:1], "missing": self.ROWS[2:3], "all": self.ROWS}.items():
            for n_samples in (0, 3):
                source, target = self.write(tmp_path / f"{name}.csv", rows), tmp_path / f"{name}{n_samples}.parquet"
                dtypes.append(
                    pd.read_parquet(self.run(source, target, n_samples=n_samples)).dtypes.astype(str).to_dict()
                )
        assert all(found == dtypes[0] for found in dtypes)

    @pytest.mark.parametrize("text", ["secret", "31.12.2000", "2000-02-30", "2000"])
    def test_other_text_is_refused_and_not_shown(self, tmp_path, text):
        source = self.write(tmp_path / "in.csv", [self.ROWS[0], f"{text}," + self.ROWS[0].split(",", 1)[1]])
        with pytest.raises(ValueError, match="column 'day' holds text that is no ISO 8601 date or datetime") as caught:
            self.run(source, tmp_path / "out.csv")
        assert text not in str(caught.value)
        assert not (tmp_path / "out.csv").exists()

    def test_times_with_a_zone_are_refused(self, tmp_path):
        source = self.write(tmp_path / "in.csv", [self.ROWS[0].replace(".999999", "Z")])
        with pytest.raises(ValueError, match="column 'at' holds times with a time zone, but is declared without"):
            self.run(source, tmp_path / "out.csv")

    def test_dates_are_found_where_a_column_has_nothing_else(self, tmp_path):
        path = tmp_path / "in.csv"
        columns = {
            "day": ["2000-01-01", None],
            "midnight": ["2000-01-01T00:00:00", "2000-01-02"],
            "time": ["2000-01-01", "2000-01-01 08:00"],
            "mixed": ["2000-01-01", "x"],
            "zone": ["2000-01-01T00:00Z", "2000-01-01T00:00Z"],
            "number": [20000101, 20000102],
            "empty": [None, None],
        }
        pd.DataFrame(columns).to_csv(path, index=False)
        frame = read_frame(path, find_dates=True)
        assert frame["day"].tolist() == [date(2000, 1, 1), None]
        assert frame["midnight"].tolist() == [date(2000, 1, 1), date(2000, 1, 2)]
        assert frame["time"].tolist() == [datetime(2000, 1, 1), datetime(2000, 1, 1, 8)]
        unread = read_frame(path)
        for name in ("mixed", "zone", "number", "empty"):
            pd.testing.assert_series_equal(frame[name], unread[name])
        assert unread["day"][0] == "2000-01-01"

    def test_a_draft_of_a_csv_file_fits_the_file(self, tmp_path):
        path = tmp_path / "in.csv"
        days = pd.date_range("2000-02-29", periods=120).strftime("%Y-%m-%d")
        times = pd.date_range("2000-02-29", periods=120, freq="h").strftime("%Y-%m-%dT%H:%M:%S")
        pd.DataFrame({"many": days, "times": times, "few": ["2000-01-01", None] * 60}).to_csv(path, index=False)
        domain = Domain.from_toml(draft_domain_toml(read_frame(path, find_dates=True)))
        assert [type(domain[name]) for name in domain.columns] == [Interval, Interval, Categories]
        frame = read_frame(path, domain)
        assert all((code < len(domain[name])).all() for name, code in zip(
            domain.columns, domain.encode([frame[name] for name in domain.columns]), strict=True
        ))  # fmt: skip
