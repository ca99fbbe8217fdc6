"""Tables in memory: pandas, polars and pyarrow; one batch each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import write_atomically
from skdp.engines._engine import ROWS, Engine, add_up_batches
from skdp.engines._errors import quietly
from skdp.engines._release import Preparation, refuse_repeated
from skdp.engines._streams import write_tables
from skdp.tables import Summary, is_frame, read_table, with_protocol


def row_blocks(frame: Any) -> Iterator[Any]:
    """Cut a table in memory into blocks of rows; no data is copied."""
    rows = nw.from_native(frame, eager_only=True)
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS].to_native()


class MemoryTable(Engine):
    """A pandas, polars or pyarrow table."""

    def _make_empty_table(self) -> Any:
        return self._frame[:0]

    def column_names(self) -> list[Any]:
        return list(read_table(self.sample).names)

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        if check:
            quietly(lambda: refuse_repeated([preparation.check(self._frame)]))
        release = preparation.charge()
        reports = quietly(lambda: release.draw(self._frame))
        if place is not None:
            # The row index passes through in memory only: a file of reports has no
            # other columns.
            frame = nw.from_native(reports, eager_only=True)
            table = nw.maybe_reset_index(frame).to_arrow()
            noted = with_protocol(table, release.protocol_text)
            with write_atomically(place) as beside:
                write_tables([table], noted.schema, beside)
        return with_protocol(reports, release.text_in_memory)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        # Refuses two columns of one name.
        is_frame(self._frame)
        return add_up_batches(row_blocks(self._frame), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        raise NotImplementedError("`fit` takes a table in memory as it is")
