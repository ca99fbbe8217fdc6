from __future__ import annotations

from datetime import date, datetime

import pandas as pd

from skdp.engines import read_frame


def test_dates_are_inferred_for_columns_of_dates_only(tmp_path):
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
    for name in ("mixed", "zone", "some zones", "number", "empty"):
        pd.testing.assert_series_equal(frame[name], unread[name])
    assert unread["day"][0] == "2000-01-01"
