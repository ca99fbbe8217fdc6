"""Tables in memory: one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from skdp.engines._batches import write_tables
from skdp.engines._files import check_path, written_beside
from skdp.engines._release import Release
from skdp.local import ReportTally


def accepts(frame: Any) -> bool:
    """Say whether it is a pandas table.

    Parameters
    ----------
    frame : object
        Of pandas.

    Returns
    -------
    bool
        True for a DataFrame.
    """
    return isinstance(frame, pd.DataFrame)


def privatize(frame: Any, transformer: Any, *, persist: bool, keep: Sequence[str], path: Any) -> Any:
    """Privatise a pandas, polars or pyarrow table.

    Parameters
    ----------
    frame : table
        True rows.
    transformer : local transformer
        What privatises.
    persist : bool
        Must be True.
    keep : sequence of str
        Columns that are released as they are.
    path : path-like or None
        Where to write the reports too.

    Returns
    -------
    same kind as the frame
        The reports.

    Raises
    ------
    ValueError
        If it shall not be persisted.
    """
    if not persist:
        raise ValueError("a table in memory gives a table in memory: persist=False is for lazy frames")
    place = check_path(path)
    release, _ = Release.plan(frame[:0], transformer, keep)
    released = release(frame)
    if place is not None:
        table = nw.from_native(released, eager_only=True).to_arrow()
        with written_beside(place) as beside:
            write_tables([table], table.schema, beside)
    return released


def column_names(frame: Any) -> list[Any]:
    """Name the columns, without reading a row.

    Parameters
    ----------
    frame : pandas or polars table
        The table.

    Returns
    -------
    list of str
        The names.
    """
    return list(frame.columns)


def tally(frame: Any, transformer: Any) -> ReportTally:
    """Sum up the reports of a table.

    Parameters
    ----------
    frame : table
        Reports.
    transformer : local transformer
        Fitted.

    Returns
    -------
    ReportTally
        The sums.
    """
    return transformer.tally(nw.from_native(frame, eager_only=True).select(*transformer._own_names()).to_native())
