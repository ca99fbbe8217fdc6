"""Tables in memory: one batch."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from skdp.engines._atomic import check_path, written_beside
from skdp.engines._batch_release import Plan
from skdp.engines._errors import quietly
from skdp.engines.backends.batches import write_tables
from skdp.frames import is_frame
from skdp.local import ReportProtocol


def accepts(frame: Any) -> bool:
    """Return whether it is a pandas table."""
    return isinstance(frame, pd.DataFrame)


def privatize(frame: Any, plan: Plan, *, persist: bool, path: Any, check: bool) -> Any:
    """Privatise a pandas, polars or pyarrow table."""
    if not persist:
        raise ValueError("a table in memory gives a table in memory: persist=False is for lazy frames")
    place = check_path(path)
    release, *_ = plan(frame[:0], look=(lambda check, _: check(frame)) if check else None)
    released = quietly(lambda: release(frame))
    if place is not None:
        # The row index passes through in memory only: a file of reports has no other columns.
        table = nw.maybe_reset_index(nw.from_native(released, eager_only=True)).to_arrow()
        with written_beside(place) as beside:
            write_tables([table], table.schema, beside)
    return released


def column_names(frame: Any) -> list[Any]:
    """Name the columns, without reading a row."""
    return list(frame.columns)


def open_table(frame: Any) -> None:
    """Return None: `fit` reads a table in memory as it is."""


def countable_ids(frame: Any, record_id: str) -> Any:
    """Return the frame: its library compares text byte by byte."""
    return frame


def tally(frame: Any, protocol: ReportProtocol) -> Any:
    """Sum up the reports of a table."""
    is_frame(frame)  # refuses two columns of one name
    return protocol.tally(
        protocol.read(nw.from_native(frame, eager_only=True).select(*protocol.report_columns).to_native())
    )
