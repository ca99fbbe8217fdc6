"""Count the record ids of a table, where its library can: no record may report twice in one release."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw

from skdp.engines._errors import quietly
from skdp.engines._record_ids import REPEATED
from skdp.engines._registry import import_extra
from skdp.local.memo import read_record_ids

_KINDS = (
    nw.String, nw.Categorical, nw.Enum, nw.Binary, nw.Boolean, nw.Date, nw.Datetime, nw.Object, nw.Float32, nw.Float64,
    nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64,
)  # fmt: skip
"""What an engine hands over as the ids that `transform` would see."""


def check_distinct(frame: Any, record_id: str) -> None:
    """Check that no record id of a table is missing or repeated; in an engine, by counting there."""
    opened = nw.from_native(_queryable(frame, record_id))
    if isinstance(opened, nw.DataFrame):
        ids = read_record_ids(opened.get_column(record_id).to_native(), len(opened))
        missing, distinct, rows = 0, len({*ids}), len(ids)
    else:
        missing, distinct, rows = _count(opened, record_id)
    if missing:
        raise ValueError("record_id holds missing values (NaN), or infinite ones")
    if distinct < rows:
        raise ValueError(REPEATED)


def _count(frame: Any, record_id: str) -> tuple[int, int, int]:
    """Count the ids that are missing, the distinct ones, and the rows."""
    dtype, ids = frame.collect_schema()[record_id], nw.col(record_id)
    if not isinstance(dtype, _KINDS):
        raise ValueError(
            "record_id must be a column of text, bytes, numbers of at most 64 bits, dates or times, got "
            f"{dtype}; cast it to text"
        )
    missing = ids.is_null() | ~ids.is_finite() if dtype.is_float() else ids.is_null()
    sums = missing.cast(nw.Int64).sum().alias("missing"), ids.n_unique().alias("distinct"), nw.len().alias("rows")
    found = quietly(frame.select(*sums).collect).to_dict(as_series=False)
    return found["missing"][0] or 0, found["distinct"][0], found["rows"][0]


def _queryable(frame: Any, record_id: str) -> Any:
    """Return what counts ids by their bytes: the databases have collations; a Dataset is counted by DuckDB."""
    # Nothing but the ids goes to DuckDB, which takes a and A for one column.
    library = type(frame).__module__.partition(".")[0]
    if library in ("duckdb", "_duckdb"):
        from skdp.engines.backends.duckdb import _name, bytewise

        return frame.project(f"{bytewise(frame, record_id)} AS {_name(record_id)}")
    if library == "pyspark":
        from skdp.engines.backends.spark import bytewise as bytes_of

        return frame.select(bytes_of(frame, record_id).alias(record_id))
    if not type(frame).__module__.startswith("pyarrow"):
        return frame
    pyarrow, dataset = import_extra("pyarrow", "duckdb"), import_extra("pyarrow.dataset", "duckdb")
    if isinstance(frame, dataset.Dataset):
        from skdp.engines.backends.arrow import read_batches
        from skdp.engines.backends.duckdb import connect

        schema = pyarrow.schema([frame.schema.field(record_id)])
        checked = read_batches(frame, [record_id])  # DuckDB would follow the offsets of a damaged file
        return connect().from_arrow(pyarrow.RecordBatchReader.from_batches(schema, checked))
    if isinstance(frame, pyarrow.RecordBatchReader):
        raise ValueError(
            "a RecordBatchReader is read once, and record ids are checked before a row is privatised: give a Dataset "
            "or a Table"
        )
    return frame
