"""Tables in memory: one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import check_path, written_beside
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import quietly
from skdp.engines._release import WHOLE, BatchCheck, DistinctRecords, Preparation
from skdp.engines._streams import write_tables
from skdp.tables import Summary, is_frame, with_protocol


class MemoryTable(Engine):
    """A pandas, polars or pyarrow table."""

    kinds = (pd.DataFrame,)

    def _no_rows(self) -> Any:
        return self._frame[:0]

    def check_output(self, *, persist: bool, path: Any, check: bool) -> None:
        if not persist:
            raise ValueError(
                "a table in memory gives a table in memory: persist=False is for lazy "
                "frames"
            )
        super().check_output(persist=persist, path=path, check=check)

    def privatize(
        self, preparation: Preparation, *, persist: bool, path: Any, check: bool
    ) -> Any:
        quietly(lambda: self._check(preparation.check, rows=check))
        release = preparation.charge()
        reports = quietly(lambda: release.count(WHOLE, release.draw(self._frame)))
        releases = release.close()
        place = check_path(path)
        if place is not None:
            # The row index passes through in memory only: a file of reports has no
            # other columns.
            frame = nw.from_native(reports, eager_only=True)
            table = nw.maybe_reset_index(frame).to_arrow()
            noted = with_protocol(table, release.protocol_text, releases)
            with written_beside(place) as beside:
                write_tables([table], noted.schema, beside)
        return with_protocol(reports, release.text_in_memory, releases)

    def _check(self, check: BatchCheck, *, rows: bool) -> None:
        if not rows and check.record_id is None:
            return
        batch = check(self._frame) if rows else check.check_ids(self._frame)
        distinct = DistinctRecords()
        distinct.add(batch.id_digests)
        distinct.close()

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        is_frame(self._frame)  # refuses two columns of one name
        return add_up_batches([self._frame], summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        raise NotImplementedError("`fit` takes a table in memory as it is")
