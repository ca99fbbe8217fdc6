"""Whose the rows of a large table are: no record may report twice in one release."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw

from skdp.engines._engine import import_extra


def check_record_id(record_id: Any, names: list[Any]) -> None:
    """Check that a table has the column of record ids.

    Parameters
    ----------
    record_id : None or str
        What the user gave.
    names : list
        The columns of the table.

    Raises
    ------
    TypeError, ValueError
        If it does not name a column.
    """
    if record_id is None:
        return
    if not isinstance(record_id, str):
        raise TypeError(f"record_id must be None or the name of a column, got {type(record_id).__name__}")
    if record_id not in names:
        raise ValueError(f"record_id must name the column of the record ids, got {record_id!r}")


def check_distinct(frame: Any, record_id: str) -> None:
    """Let an engine count the distinct record ids of a table: rows of one record cost more than the one charge.

    Parameters
    ----------
    frame : table
        What `privatize` takes.
    record_id : str
        The column of the record ids.

    Raises
    ------
    ValueError
        If an id is missing or repeated; the error does not show it. If the frame can be read once only.
    """
    ids = nw.col(record_id)
    sums = ids.n_unique().alias("distinct"), ids.null_count().alias("missing"), nw.len().alias("rows")
    found = nw.from_native(_queryable(frame)).lazy().select(*sums).collect().to_dict(as_series=False)
    if found["missing"][0]:
        raise ValueError("record_id holds missing values (NaN)")
    if found["distinct"][0] < found["rows"][0]:
        raise ValueError("record_id has repeated entries; a record reports once in a call")


def _queryable(frame: Any) -> Any:
    if not type(frame).__module__.startswith("pyarrow"):
        return frame
    pyarrow, dataset = import_extra("pyarrow", "duckdb"), import_extra("pyarrow.dataset", "duckdb")
    if isinstance(frame, dataset.Dataset):
        return import_extra("duckdb", "duckdb").connect().from_arrow(frame)
    if isinstance(frame, pyarrow.RecordBatchReader):
        raise ValueError(
            "a RecordBatchReader is read once, and record ids are checked before a row is privatised: give a Dataset "
            "or a Table"
        )
    return frame
