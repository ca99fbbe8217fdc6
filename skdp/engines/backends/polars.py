"""Polars: lazy frames, read in batches by the streaming engine; reports are counted by Polars itself."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from secrets import token_hex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import DECLARED
from skdp.engines._engine import ROWS
from skdp.engines._errors import quietly, read_quietly
from skdp.engines._libraries import import_extra
from skdp.engines._streams import StreamTable, Tables

polars = import_extra("polars", "polars")
pyarrow = import_extra("pyarrow", "polars")

# The column of counts, which no column of the user is named as.
_COUNT = f"skdp_{token_hex(8)}"


class PolarsTable(StreamTable):
    """A lazy frame."""

    counts_values = True

    def _make_empty_table(self) -> Any:
        schema = self._frame.collect_schema()
        fields = []
        for field in polars.DataFrame(schema=schema).to_arrow().schema:
            # An empty dictionary array has no values: the values of an Enum go into the metadata.
            if isinstance(schema[field.name], polars.Enum):
                values = schema[field.name].categories.to_list()
                field = field.with_metadata({DECLARED: json.dumps(values)})
            fields.append(field)
        return pyarrow.schema(fields).empty_table()

    def column_names(self) -> list[Any]:
        return self._frame.collect_schema().names()

    def read(self, columns: Sequence[Any]) -> Tables:
        selected = self._frame.select(columns)
        batches = quietly(lambda: selected.collect_batches(chunk_size=ROWS))
        for frame in read_quietly(batches):
            yield frame.to_arrow()

    def reports(self, stored: Any) -> Any:
        if isinstance(stored, pyarrow.Table):
            return polars.from_arrow(stored).lazy()
        return polars.scan_parquet(stored)

    def count_rows(
        self, columns: Sequence[Any]
    ) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
        grouped = self._frame.group_by(columns).agg(polars.len().alias(_COUNT))
        counted = quietly(lambda: grouped.collect(engine="streaming"))
        yield (
            counted.select(columns).to_arrow(),
            counted[_COUNT].to_numpy().astype("i8"),
        )

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        rank = polars.struct(polars.all()).hash(seed).rank("ordinal").over(person)
        return type(self)(self._frame.filter(rank <= most))
