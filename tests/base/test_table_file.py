from datetime import date, datetime

import pandas as pd

from tests.cli.commands import draft_csv


def test_dates_are_inferred_for_columns_of_dates_only(tmp_path):
    path = tmp_path / "in.csv"
    columns = {
        "day": ["2000-01-01", None],
        "midnight": ["2000-01-01T00:00:00", "2000-01-02"],
        "time": ["2000-01-01", "2000-01-01 08:00"],
        "mixed": ["2000-01-01", "x"],
        "zone": ["2000-01-01T00:00Z", "2000-01-02T00:00Z"],
        "some zones": ["2000-01-01T00:00Z", "2000-01-01T00:00"],
        "number": [20000101, 20000102],
    }
    pd.DataFrame(columns | {"empty": None}).to_csv(path, index=False)
    drafted = draft_csv(path)
    assert drafted["day"].values == (date(2000, 1, 1), None)
    assert drafted["midnight"].values == (date(2000, 1, 1), date(2000, 1, 2))
    assert drafted["time"].values == (datetime(2000, 1, 1), datetime(2000, 1, 1, 8))
    for name in ("mixed", "zone", "some zones", "number"):
        assert set(drafted[name].values) == {*columns[name]}
    assert "empty" not in drafted
