"""DuckDB: relations, read as a stream of Arrow batches; reports are counted by DuckDB itself."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import DECLARED
from skdp.engines._atomic import temporary_place, written_beside
from skdp.engines._engine import Engine, ReportSums, add_up_batches, counted_groups
from skdp.engines._errors import quietly
from skdp.engines._libraries import import_extra
from skdp.engines._release import Preparation
from skdp.engines._streams import ROWS, RowStream, arrow_tables, write_tables
from skdp.local import ReportProtocol
from skdp.tables import Summary, with_protocol

pyarrow = import_extra("pyarrow", "duckdb")
duckdb = import_extra("duckdb", "duckdb", least="1.5")

# Of rows that the database counts itself; where more are declared, it hands over all
# rows.
_MOST_DISTINCT = 1 << 16


class DuckDBTable(Engine):
    """A relation."""

    # **Privacy.** Who counts, the database or Python, follows from dtypes and
    # declarations alone. How long it takes depends on the rows in both cases: on how
    # many there are, and how many of them differ. What the database counts it holds in
    # its memory, each distinct row once (some 80 bytes); where there are more than
    # declared, which is refused, or whole numbers beyond the bounds of a mean or
    # quantile, that is a row for each. It counts 8 times as fast as Python does.

    def _no_rows(self) -> Any:
        # The values of an ENUM are declared beside its column, whose type does not have
        # them.
        schema = self._frame.limit(0).to_arrow_table().schema
        for place, kind in enumerate(self._frame.types):
            if kind.id == "enum":
                ((_, values),) = kind.children
                schema = schema.set(
                    place,
                    schema.field(place).with_metadata({DECLARED: json.dumps(values)}),
                )
        return pyarrow.Table.from_batches([], schema)

    def check_place(self, path: Any, *, check: bool) -> Any:
        # Always a file: DuckDB would look a table in memory up by its name, among those
        # of the user.
        return super().check_place(path, check=check) or temporary_place()

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        no_reports = preparation.no_reports
        read = partial(_read_tables, self._frame)
        stream = RowStream(preparation.check, no_reports, read)
        # An open reader would block the connection.
        with closing(stream):
            if check:
                quietly(stream.check)
            release = preparation.charge()
            schema = with_protocol(no_reports, release.protocol_text).schema
            with written_beside(place) as beside:
                reports = stream.release(release)
                quietly(lambda: write_tables(reports, schema, beside))
        # DuckDB opens the table once more for that.
        select = f"SELECT * FROM read_parquet({_text(place)})"
        return quietly(lambda: self._frame.query(f"skdp_{token_hex(8)}", select))

    def tally(
        self, reports: ReportSums, protocol: ReportProtocol
    ) -> list[NDArray[np.int64]]:
        # Of equal reports the database hands over one, with its count.
        groups = counted_groups(protocol, numbers=True)
        if not groups:
            return super().tally(reports, protocol)
        sums = reports.zeros()
        for columns in groups:
            with closing(count_rows(self._frame, columns)) as counted:
                for values, counts in counted:
                    reports.add(sums, values, counts)
        return sums

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        sample = self.sample.select(list(names))
        if summary.n_distinct(sample) > _MOST_DISTINCT:
            with closing(_read_tables(self._frame, names)) as tables:
                return add_up_batches(tables, summary)
        sums = summary.zeros()
        with closing(count_rows(self._frame, names)) as counted:
            for rows, counts in counted:
                summary.add(sums, rows, counts)
        return sums

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        values = ", ".join(map(_name, self._frame.columns))
        view = f"skdp_{token_hex(8)}"
        ranks = (
            f"row_number() OVER (PARTITION BY {bytewise(self._frame, person)} ORDER BY"
            f" hash({values}, {seed}))"
        )
        return type(self)(
            self._frame.query(view, f"SELECT * FROM {view} QUALIFY {ranks} <= {most}")
        )


def _read_tables(
    frame: Any, columns: Sequence[str], n_rows: int = ROWS
) -> Generator[Any, None, None]:
    selected = frame.project(", ".join(map(_name, columns)))
    with quietly(lambda: selected.to_arrow_reader(n_rows)) as reader:
        yield from arrow_tables(reader)


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def bytewise(frame: Any, column: str) -> str:
    """Write a column so that its text is compared byte by byte, whatever its collation or that of the connection."""
    kind = dict(zip(frame.columns, frame.types, strict=True))[column]
    return f'{_name(column)} COLLATE "C"' if kind.id == "varchar" else _name(column)


def count_rows(
    frame: Any, columns: Sequence[str]
) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
    """Count the distinct rows of some columns, in the database."""
    keys = ", ".join(bytewise(frame, name) for name in columns)
    query = frame.aggregate(f"{keys}, count(*)", keys)
    # An open reader would block the connection, also where its rows are refused.
    with quietly(lambda: query.to_arrow_reader(ROWS)) as grouped:
        for table in arrow_tables(grouped):
            counts = table.column(len(columns)).to_numpy().astype(np.int64)
            values = table.select(range(len(columns)))
            yield values.rename_columns(list(columns)), counts


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
