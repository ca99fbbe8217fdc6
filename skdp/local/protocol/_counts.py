"""Counts by which the reports of a release are recognised, in any order; those of several releases add."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

_MOST_CELLS = 256


_MOST_RELEASES = 32
"""Of a transformer, whose counts are kept one by one: 2**16 sums of a half of them are compared in milliseconds."""


@dataclass
class _Known:
    """The counts of the last releases, the sum of those before, and how many releases are not ended."""

    releases: list[NDArray[np.int64]] = field(default_factory=list)
    sum_of_earlier: NDArray[np.int64] | None = None
    n_unknown: int = 0

    def add(self, counts: NDArray[np.int64]) -> None:
        """Add a release; of many, the first one goes to the sum."""
        self.releases.append(counts)
        if len(self.releases) > _MOST_RELEASES:
            first = self.releases.pop(0)
            self.sum_of_earlier = (
                first if self.sum_of_earlier is None else self.sum_of_earlier + first
            )


_known: WeakKeyDictionary[ReleasedCounts, _Known] = WeakKeyDictionary()
_lock = threading.Lock()


class ReleasedCounts:
    """What this process knows of the releases of a transformer since `fit`; nothing in a copy or a pickle."""

    # **Privacy.** The counts are of reports, but not on the transformer: it is stored,
    # shown and sent without them.

    def begin(self) -> None:
        """Begin a release; as long as it is not ended, what is released is not known."""
        with _lock:
            _known.setdefault(self, _Known()).n_unknown += 1

    def end(self, counts: NDArray[np.int64] | None) -> None:
        """End a release that has these counts; without counts, it stays unknown."""
        if counts is None:
            return
        with _lock:
            releases = _known[self]
            releases.n_unknown -= 1
            releases.add(counts)

    @property
    def are_known(self) -> bool:
        """Whether there was a release, and all are known."""
        with _lock:
            record = _known.get(self, _Known())
            return bool(record.releases) and not record.n_unknown

    def explain(self, counts: NDArray[np.int64]) -> bool:
        """Return whether reports with these counts may be a part of one release, or some whole releases together."""
        with _lock:
            record = _known.get(self, _Known())
            releases, earlier = np.array(record.releases), record.sum_of_earlier
        if not len(releases):
            return False
        if (counts <= releases).all(axis=1).any():
            return True
        if (
            earlier is not None
        ):  # a part of one of these, or some of them, cannot be told from others
            return bool((counts <= earlier + releases.sum(axis=0)).all())
        return _is_sum_of_some(counts, releases)

    def __reduce__(self) -> tuple[type[ReleasedCounts], tuple[()]]:
        return ReleasedCounts, ()


def _is_sum_of_some(counts: NDArray[np.int64], releases: NDArray[np.int64]) -> bool:
    """Return whether counts are the sum of some of the rows of a table."""
    # Each row is digested to a number, a random linear sum modulo 2**64, so that
    # digests add as rows do. A sum of some of n rows is one of the first half and one
    # of the others: two lists of 2**(n / 2) sums are compared (Horowitz and Sahni
    # 1974). Other sums have the same digest by chance, once in 2**(64 - n).
    keys = np.random.default_rng(0).integers(0, 1 << 64, counts.size, np.uint64)
    digests = releases.astype(np.uint64) @ keys
    half = len(digests) // 2
    missing_sums = counts.astype(np.uint64) @ keys - _sums_of_some(digests[:half])
    return bool(np.isin(missing_sums, _sums_of_some(digests[half:])).any())


def _sums_of_some(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sums of all subsets of numbers, modulo 2**64."""
    sums = np.zeros(1, np.uint64)
    for number in numbers:
        sums = np.concatenate([sums, sums + number])
    return sums


def joined_counts(
    n_reports: int, parts: Sequence[NDArray[np.integer[Any]]]
) -> NDArray[np.int64]:
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
