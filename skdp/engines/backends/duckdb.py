"""DuckDB: relations, read as a stream of Arrow batches; reports are counted by DuckDB itself."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import DECLARED
from skdp.engines._atomic import temporary_place
from skdp.engines._engine import ROWS
from skdp.engines._errors import quietly
from skdp.engines._libraries import import_extra
from skdp.engines._streams import StreamTable, Tables, arrow_tables
from skdp.tables import Summary

pyarrow = import_extra("pyarrow", "duckdb")
duckdb = import_extra("duckdb", "duckdb")

# Largest number of distinct rows that the database counts; of more, it hands over all.
_MAX_DISTINCT = 1 << 16


class DuckDBTable(StreamTable):
    """A relation."""

    # **Privacy.** Who counts, the database or Python, follows from dtypes and
    # declarations alone. The database holds each distinct row once (some 80 bytes); where
    # there are more than declared, which is refused, or whole numbers beyond the bounds
    # of a mean or quantile, that is a row for each. It counts 8 times as fast as Python.
    counts_values = counts_numbers = True

    def _make_empty_table(self) -> Any:
        schema = self._frame.limit(0).to_arrow_table().schema
        for place, kind in enumerate(self._frame.types):
            if kind.id == "enum":
                # The Arrow type lacks the values of the enum: they go into the metadata.
                ((_, values),) = kind.children
                field = schema.field(place)
                declared = field.with_metadata({DECLARED: json.dumps(values)})
                schema = schema.set(place, declared)
        return schema.empty_table()

    def check_place(self, path: Any) -> Any:
        # Always a file: DuckDB would look a table in memory up by its name, among those
        # of the user.
        return super().check_place(path) or temporary_place()

    def read(self, columns: Sequence[Any]) -> Tables:
        selected = self._frame.project(", ".join(map(_name, columns)))
        # An open reader would block the connection.
        with quietly(lambda: selected.to_arrow_reader(ROWS)) as reader:
            yield from arrow_tables(reader)

    def reports(self, stored: Path) -> Any:
        # DuckDB opens the table once more for that.
        path = str(stored).replace("'", "''")
        select = f"SELECT * FROM read_parquet('{path}')"
        return quietly(lambda: self._frame.query(f"skdp_{token_hex(8)}", select))

    def count_rows(
        self, columns: Sequence[Any]
    ) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
        keys = ", ".join(map(self._bytewise, columns))
        query = self._frame.aggregate(f"{keys}, count(*)", keys)
        with quietly(lambda: query.to_arrow_reader(ROWS)) as grouped:
            for table in arrow_tables(grouped):
                counts = table.column(len(columns)).to_numpy().astype(np.int64)
                values = table.select(range(len(columns)))
                yield values.rename_columns(list(columns)), counts

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        sample = self.sample.select(list(names))
        if summary.n_distinct(sample) > _MAX_DISTINCT:
            return super().add_up(names, summary)
        sums = summary.zeros()
        self._add_counts(sums, names, summary)
        return sums

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        values = ", ".join(map(_name, self._frame.columns))
        view = f"skdp_{token_hex(8)}"
        ranks = (
            f"row_number() OVER (PARTITION BY {self._bytewise(person)} ORDER BY"
            f" hash({values}, {seed}))"
        )
        query = f"SELECT * FROM {view} QUALIFY {ranks} <= {most}"
        return type(self)(self._frame.query(view, query))

    def _bytewise(self, column: str) -> str:
        """Write a column so that its text is compared byte by byte, whatever its collation."""
        kinds = dict(zip(self._frame.columns, self._frame.types, strict=True))
        is_text = kinds[column].id == "varchar"
        return f'{_name(column)} COLLATE "C"' if is_text else _name(column)


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def limit_rows(
    tables: Tables, schema: Any, person: str, most: int, seed: int
) -> Tables:
    """Keep some rows of each person in a stream of Arrow tables, of which DuckDB holds what it needs."""
    # Names that differ in case only are one name of DuckDB.
    names = [f"c{index}" for index in range(len(schema))]
    numbered = pyarrow.schema(list(zip(names, schema.types, strict=True)))
    batches = (
        batch
        for table in tables
        for batch in table.rename_columns(names).cast(numbered).to_batches()
    )
    with duckdb.connect() as connection:
        reader = pyarrow.RecordBatchReader.from_batches(numbered, batches)
        rows = DuckDBTable(connection.from_arrow(reader))
        kept = rows.limit_persons(names[schema.names.index(person)], most, seed)
        with closing(kept.read(names)) as kept_tables:
            for table in kept_tables:
                yield table.rename_columns(schema.names)
