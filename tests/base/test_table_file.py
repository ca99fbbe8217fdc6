from __future__ import annotations

from datetime import date, datetime

import pandas as pd
import pytest

from skdp import Domain, Interval
from skdp.engines import read_frame
from tests.base import dated_rows
from tests.base.dated_rows import write_dates

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


def test_declared_texts_are_no_missing_values_and_no_numbers(tmp_path):
    frame = read_frame(write(tmp_path / "in.csv", [ROW, ODD]), DOMAIN)
    assert frame["word"].tolist() == ["007", "None"]
    assert frame["grade"].isna().tolist() == [False, True]
    assert read_frame(tmp_path / "in.csv")["word"].tolist() == ["007", "None"]


class TestDates:
    def test_iso_text_is_read(self, tmp_path):
        frame = read_frame(write_dates(tmp_path / "in.csv"), dated_rows.DOMAIN)
        codes = dated_rows.DOMAIN.encode([frame[name] for name in frame])
        assert [code.tolist() for code in codes] == list(dated_rows.CODES)

    @pytest.mark.parametrize("text", ["secret", "31.12.2000", "2000-02-30", "2000"])
    def test_other_text_is_refused_and_not_shown(self, tmp_path, text):
        source = write_dates(tmp_path / "in.csv", [first := dated_rows.ROWS[0], f"{text}," + first.split(",", 1)[1]])
        with pytest.raises(ValueError, match="column 'day' holds text that is no ISO 8601 date or datetime") as caught:
            read_frame(source, dated_rows.DOMAIN)
        assert text not in str(caught.value)

    def test_times_with_a_zone_are_refused(self, tmp_path):
        source = write_dates(tmp_path / "in.csv", [dated_rows.ROWS[0].replace(".999999", "Z")])
        with pytest.raises(
            ValueError, match="column 'at' holds text that is no ISO 8601 date or datetime without a time zone"
        ):
            read_frame(source, dated_rows.DOMAIN)

    def test_dates_are_found_where_a_column_has_nothing_else(self, tmp_path):
        path = tmp_path / "in.csv"
        columns = {
            "day": ["2000-01-01", None],
            "midnight": ["2000-01-01T00:00:00", "2000-01-02"],
            "time": ["2000-01-01", "2000-01-01 08:00"],
            "mixed": ["2000-01-01", "x"],
            "zone": ["2000-01-01T00:00Z", "2000-01-01T00:00Z"],
            "some zones": ["2000-01-01T00:00Z", "2000-01-01T00:00"],
            "number": [20000101, 20000102],
            "empty": [None, None],
        }
        pd.DataFrame(columns).to_csv(path, index=False)
        frame = read_frame(path, find_dates=True)
        assert frame["day"].tolist() == [date(2000, 1, 1), None]
        assert frame["midnight"].tolist() == [date(2000, 1, 1), date(2000, 1, 2)]
        assert frame["time"].tolist() == [datetime(2000, 1, 1), datetime(2000, 1, 1, 8)]
        unread = read_frame(path)
        assert frame["zone"].tolist() == [pd.Timestamp("2000-01-01", tz="UTC")] * 2
        for name in ("mixed", "some zones", "number", "empty"):
            pd.testing.assert_series_equal(frame[name], unread[name])
        assert unread["day"][0] == "2000-01-01"
