"""Counts by which the reports of a release are recognised, in any order; those of several releases add."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

_MOST_CELLS = 256


@dataclass
class _Known:
    """The counts of releases, and how many releases are not ended."""

    counts: NDArray[np.int64] | None = None
    n_unknown: int = 0


_known: WeakKeyDictionary[ReleasedCounts, _Known] = WeakKeyDictionary()
_lock = threading.Lock()


class ReleasedCounts:
    """What this process knows of the releases of a transformer since `fit`; nothing in a copy or a pickle."""

    # **Privacy.** The counts are of reports, but not on the transformer: it is stored, shown and sent without them.

    def begin(self) -> None:
        """Begin a release; as long as it is not ended, what is released is not known."""
        with _lock:
            _known.setdefault(self, _Known()).n_unknown += 1

    def end(self, counts: NDArray[np.int64] | None) -> None:
        """End a release that has these counts; without counts, it stays unknown."""
        if counts is None:
            return
        with _lock:
            known = _known[self]
            known.n_unknown -= 1
            known.counts = counts if known.counts is None else known.counts + counts

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """The counts of all releases; None if there was none, or one is not known."""
        with _lock:
            known = _known.get(self, _Known())
            return None if known.n_unknown else known.counts

    def __reduce__(self) -> tuple[type[ReleasedCounts], tuple[()]]:
        return ReleasedCounts, ()


def joined_counts(n_reports: int, parts: Sequence[NDArray[np.integer[Any]]]) -> NDArray[np.int64]:
    """Return the number of reports, and then the counts of their parts, in at most 256 cells."""
    counts = np.concatenate([np.zeros(0, np.int64), *parts])
    if counts.size > _MOST_CELLS:
        cells = np.arange(counts.size) % _MOST_CELLS
        folded = np.zeros(_MOST_CELLS, np.int64)
        np.add.at(folded, cells, counts)
        counts = folded
    return np.concatenate([[n_reports], counts])


def fold(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts of numbers modulo 256, given those of the numbers from 0 on."""
    padded = np.zeros(-(-max(counts.size, 1) // _MOST_CELLS) * _MOST_CELLS, np.int64)
    padded[: counts.size] = counts
    return padded.reshape(-1, _MOST_CELLS).sum(axis=0)[: counts.size]
