"""CSV files of dates: what is declared, rows, and their codes."""

from __future__ import annotations

from skdp import Domain

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


def write_dates(path, rows=ROWS):
    path.write_text("\n".join(["day,at,term,start", *rows]) + "\n", encoding="utf-8")
    return path
