"""A file is drafted a batch at a time, with the draft of the whole table."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from skdp.base import draft_domain_toml, read_frame
from skdp.engines.files import TableFile, draft_file
from tests.conftest import often
from tests.engines.tables import write

N = 4000
rows = np.arange(N)
rng = np.random.default_rng(0)
LATE = rows == N - 3  # shown by one row, in the last batch
COLUMNS = {
    "few": rng.choice(["a", "b", "NA "], N),
    "names": [f"name {row}" for row in rows],
    "whole": rng.integers(-50, 400, N),
    "rarely real": np.where(LATE, 0.5, rows % 90),
    "far": np.where(LATE, 1e6, rows % 90),
    "mostly numbers": np.where(LATE, "x", (rows % 90).astype(str)),
    "mostly whole text": np.where(LATE, "1e3", (rows % 90).astype(str)),
    "truth": rng.choice([True, False], N),
    "one missing": pd.array(rows % 7, "Int64"),
    "days": [date(2020, 1, 1) + timedelta(int(row) % 500) for row in rows],
    "times": [datetime(2020, 1, 1) + timedelta(days=int(row) % 500, hours=int(row) // (N - 1)) for row in rows],
    "zones": pd.to_datetime((rows % 3) * 86_400, unit="s", utc=True).astype("datetime64[us, UTC]"),
    "many zones": pd.to_datetime(rows * 3600, unit="s", utc=True).astype("datetime64[us, UTC]"),
    "infinite": np.where(rows == 5, np.inf, rows / 7),
    "empty": [None] * N,
    "never": np.full(N, "NaT", "M8[us]"),
}
FRAME = pd.DataFrame({name: pd.Series(values) for name, values in COLUMNS.items()})
FRAME.loc[N - 2, "one missing"] = pd.NA
OPTIONS = [{"bins": 32, "max_values": 100}, {"bins": 1, "max_values": 1}]


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("options", often(OPTIONS, OPTIONS[:1]), ids=str)
def test_the_draft_is_that_of_the_whole_table(tmp_path, small_reads, suffix, options):
    path = write(FRAME, tmp_path / f"in{suffix}")
    assert draft_file(TableFile(path), **options) == draft_domain_toml(read_frame(path, find_dates=True), **options)
