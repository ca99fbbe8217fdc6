"""Record ids: no record may report twice in one release."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._errors import RefusedBatch, quietly
from skdp.local.memo import read_record_ids

REPEATED = "record_id has repeated entries; a record reports once in a call"

_KINDS = (
    nw.String, nw.Categorical, nw.Enum, nw.Binary, nw.Boolean, nw.Date, nw.Datetime, nw.Object, nw.Float32, nw.Float64,
    nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64,
)  # fmt: skip
"""What an engine hands over as the ids that `transform` would see."""

_EARLY = 1 << 21
"""Rows up to which ids are compared once, after the first batch."""

Pair = tuple[NDArray[np.uint64], NDArray[np.uint64]]


def check_record_id(record_id: Any, names: list[Any]) -> None:
    """Check that a table has the column of record ids."""
    if record_id is None:
        return
    if not isinstance(record_id, str):
        raise TypeError(
            f"record_id must be None or the name of a column, got {type(record_id).__name__}"
        )
    if record_id not in names:
        raise ValueError(
            f"record_id must name the column of the record ids, got {record_id!r}"
        )


def check_distinct(missing: int, distinct: int, rows: int) -> None:
    """Check that no record id of a table is missing or repeated."""
    if missing:
        raise ValueError("record_id holds missing values (NaN), or infinite ones")
    if distinct < rows:
        raise ValueError(REPEATED)


def check_countable(dtype: Any) -> None:
    """Check that an engine tells apart what `transform` takes for two ids."""
    if not isinstance(dtype, _KINDS):
        raise ValueError(
            "record_id must be a column of text, bytes, numbers of at most 64 bits, dates or times, got "
            f"{dtype}; cast it to text"
        )


def count_ids(frame: Any, record_id: str) -> tuple[int, int, int]:
    """Count the ids that are missing, the distinct ones, and the rows; of a lazy frame, in its engine."""
    frame = nw.from_native(frame)
    if isinstance(frame, nw.DataFrame):
        read = read_record_ids(frame.get_column(record_id).to_native(), len(frame))
        return 0, len({*read}), len(read)
    dtype, ids = frame.collect_schema()[record_id], nw.col(record_id)
    check_countable(dtype)
    missing = ids.is_null() | ~ids.is_finite() if dtype.is_float() else ids.is_null()
    sums = (
        missing.cast(nw.Int64).sum().alias("missing"),
        ids.n_unique().alias("distinct"),
        nw.len().alias("rows"),
    )
    found = quietly(frame.select(*sums).collect).to_dict(as_series=False)
    return found["missing"][0] or 0, found["distinct"][0], found["rows"][0]


def digest_records(records: Sequence[bytes], key: bytes) -> NDArray[np.uint64]:
    """Digest record ids, 128 bits each, by SipHash under two secret keys: who knows neither finds no two alike."""
    values, written = np.array(records, object), key.hex()
    keys = written[:16], written[16:32]
    halves = [
        pd.util.hash_array(values, hash_key=half, categorize=False) for half in keys
    ]
    return np.stack(halves, axis=1)


def quick_digests(ids: Any, key: bytes) -> NDArray[np.uint64] | None:
    """Return whole numbers as polars and Arrow have them, and polars' own hashes of text; None for other ids."""
    if ids is None or isinstance(ids, pd.Series):
        return None
    column = nw.from_native(ids, series_only=True)
    if column.null_count():
        return None
    if column.dtype.is_integer():
        numbers = column.to_numpy().astype(np.uint64)
        return np.stack([numbers, np.zeros_like(numbers)], axis=1)
    if column.dtype == nw.String and column.implementation.is_polars():
        # The seeds are as secret as the keys of SipHash; ids that are equal never differ.
        halves = [
            column.to_native().hash(seed)
            for seed in np.frombuffer(key, np.uint64, 2).tolist()
        ]
        return np.stack([half.to_numpy() for half in halves], axis=1)
    return None


class DistinctIds:
    """Refuse a record id that comes twice in one evaluation of a table; it keeps sorted runs of 16 bytes an id."""

    def __init__(self) -> None:
        self._runs: list[Pair] = []
        self._lock = threading.Lock()

    def add(self, digests: NDArray[np.uint64]) -> None:
        """Add the digests of a batch."""
        if not len(digests):
            return
        new = _sorted([*digests.T])
        with self._lock:
            self._add(new)

    def _add(self, new: Pair) -> None:
        first, second = new
        if ((first[1:] == first[:-1]) & (second[1:] == second[:-1])).any() or any(
            _meet(run, new) for run in self._runs
        ):
            raise RefusedBatch(REPEATED)
        while self._runs and len(self._runs[-1][0]) <= len(
            new[0]
        ):  # a run is at least twice as long as the next
            new = _sorted(
                [*map(np.concatenate, zip(self._runs.pop(), new, strict=True))],
                "stable",
            )  # which merges
        self._runs.append(new)


class DistinctInAll:
    """Refuse a record id that comes twice in one evaluation of a table, in the end at the latest: ten times as fast."""

    def __init__(self) -> None:
        self._batches: list[NDArray[np.uint64]] = []
        self._rows = self._due = 0
        self._lock = threading.Lock()

    def add(self, digests: NDArray[np.uint64]) -> None:
        """Add the digests of a batch."""
        if not len(digests):
            return
        with self._lock:
            self._batches.append(digests)
            self._rows += len(digests)
            if self._rows > self._due:
                self._due = max(_EARLY, 2 * self._rows)
                self.close()

    def close(self) -> None:
        """Check all that were added."""
        first = np.concatenate(
            [np.zeros(0, np.uint64), *(batch[:, 0] for batch in self._batches)]
        )
        first.sort()
        repeated = first[1:][first[1:] == first[:-1]]
        if repeated.size:  # the first halves: two ids share one with probability 2**-64
            alike = np.concatenate(
                [
                    batch[np.isin(batch[:, 0], repeated, kind="sort")]
                    for batch in self._batches
                ]
            )
            if len(np.unique(alike, axis=0)) < len(alike):
                raise RefusedBatch(REPEATED)


def _sorted(
    halves: Sequence[NDArray[np.uint64]], kind: Literal["stable"] | None = None
) -> Pair:
    """Sort by the first half, which two ids share with probability 2**-64."""
    order = np.argsort(halves[0], kind=kind)
    return halves[0][order], halves[1][order]


def _meet(run: Pair, new: Pair) -> bool:
    places = np.searchsorted(run[0], new[0]).clip(max=len(run[0]) - 1)
    return bool(((run[0][places] == new[0]) & (run[1][places] == new[1])).any())
