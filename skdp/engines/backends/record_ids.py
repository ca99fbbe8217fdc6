"""Count the record ids of a table, where its library can: no record may report twice in one release."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw

from skdp.engines._errors import quietly
from skdp.engines._record_ids import REPEATED
from skdp.engines._registry import engine_of
from skdp.local.memo import read_record_ids

_KINDS = (
    nw.String, nw.Categorical, nw.Enum, nw.Binary, nw.Boolean, nw.Date, nw.Datetime, nw.Object, nw.Float32, nw.Float64,
    nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64,
)  # fmt: skip
"""What an engine hands over as the ids that `transform` would see."""


def check_distinct(frame: Any, record_id: str) -> None:
    """Check that no record id of a table is missing or repeated; in an engine, by counting there."""
    opened = nw.from_native(engine_of(frame).countable_ids(record_id))
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
