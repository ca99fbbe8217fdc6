"""Record ids in batches: no record may report twice in one release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.engines._errors import RefusedBatch

REPEATED = "record_id has repeated entries; a record reports once in a call"


def check_record_id(record_id: Any, names: list[Any]) -> None:
    """Check that a table has the column of record ids."""
    if record_id is None:
        return
    if not isinstance(record_id, str):
        raise TypeError(f"record_id must be None or the name of a column, got {type(record_id).__name__}")
    if record_id not in names:
        raise ValueError(f"record_id must name the column of the record ids, got {record_id!r}")


class DistinctIds:
    """Refuse a record id that comes twice in one evaluation of a table; it keeps sorted runs of 16 bytes an id."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.bytes_]] = []

    def add(self, digests: Sequence[bytes] | NDArray[np.bytes_]) -> None:
        """Add the digests of a batch."""
        if not len(digests):
            return
        new = np.sort(np.array(digests, "S16"))
        if (new[1:] == new[:-1]).any() or any(_meet(run, new) for run in self._runs):
            raise RefusedBatch(REPEATED)
        while self._runs and len(self._runs[-1]) <= len(new):  # a run is at least twice as long as the next
            new = np.sort(np.concatenate([self._runs.pop(), new]))
        self._runs.append(new)


def _meet(run: NDArray[np.bytes_], new: NDArray[np.bytes_]) -> bool:
    return bool((run[np.searchsorted(run, new).clip(max=len(run) - 1)] == new).any())
