"""Tables in memory: one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import check_path, written_beside
from skdp.engines._batch_release import Plan
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import quietly
from skdp.engines.backends.batches import write_tables
from skdp.tables import Summary, is_frame, with_protocol


class MemoryTable(Engine):
    """A pandas, polars or pyarrow table."""

    kinds = (pd.DataFrame,)

    def _no_rows(self) -> Any:
        return self._frame[:0]

    def privatize(self, plan: Plan, *, persist: bool, path: Any, check: bool) -> Any:
        if not persist:
            raise ValueError(
                "a table in memory gives a table in memory: persist=False is for lazy frames"
            )
        place = check_path(path)
        release, *_ = plan(
            self.sample, look=(lambda check, _: check(self._frame)) if check else None
        )
        released = quietly(lambda: release(self._frame))
        releases = release.close()
        if place is not None:
            # The row index passes through in memory only: a file of reports has no other columns.
            table = nw.maybe_reset_index(
                nw.from_native(released, eager_only=True)
            ).to_arrow()
            with written_beside(place) as beside:
                write_tables(
                    [table], with_protocol(table, release.said, releases).schema, beside
                )
        return with_protocol(released, release.said_in_memory, releases)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        is_frame(self._frame)  # refuses two columns of one name
        return add_up_batches([self._frame], summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        raise NotImplementedError("`fit` takes a table in memory as it is")
