"""Sums over the rows of a DuckDB relation: counted there where few differ, else read as a stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._batches import arrow_tables
from skdp.engines._duckdb import _name, _read, bytewise, count_rows, sample_of
from skdp.engines._large import add_up_batches
from skdp.frames import LargeTable, Summary

_ROWS = 1 << 17
_MOST_DISTINCT = 1 << 16
"""Of rows that the database counts itself; where more are declared, it hands over all rows."""


class DuckDBTable(LargeTable):
    """A relation."""

    # **Privacy.** Who counts, the database or Python, follows from dtypes and declarations alone. How long it takes
    # depends on the rows in both cases: on how many there are, and how many of them differ. What the database counts it
    # holds in its memory, each distinct row once (some 80 bytes); where there are more than declared, which is refused,
    # or whole numbers beyond the bounds of a mean or quantile, that is a row for each.

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.sample = sample_of(frame)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        if summary.n_distinct(self.sample.select(list(names))) <= _MOST_DISTINCT:
            sums = summary.zeros()
            for rows, counts in count_rows(self._frame, names, _ROWS):
                summary.add(sums, rows, counts)
            return sums
        return add_up_batches(arrow_tables(_read(self._frame, names, _ROWS)), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        values = ", ".join(map(_name, self._frame.columns))
        view = f"skdp_{token_hex(8)}"
        ranks = f"row_number() OVER (PARTITION BY {bytewise(self._frame, person)} ORDER BY hash({values}, {seed}))"
        return type(self)(self._frame.query(view, f"SELECT * FROM {view} QUALIFY {ranks} <= {most}"))


def open_table(frame: Any) -> DuckDBTable:
    """Open a relation."""
    return DuckDBTable(frame)
