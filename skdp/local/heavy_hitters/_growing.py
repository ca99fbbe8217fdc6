"""The server's search: frequent prefixes are extended from group to group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.local.heavy_hitters._words import Start, WordCoder
from skdp.oracles import PrefixHashing, vectors_of

_CELLS = 1 << 20


@dataclass
class Candidate:
    """A prefix, or a whole word; then `string` has all its bits, and reports of several groups speak for it."""

    string: int
    whole: bool
    support: int
    n: int
    rivals: int
    """How many whole words of its length were first considered together with this one."""


def grow(
    coder: WordCoder, protocol: PrefixHashing, groups: list[NDArray[np.uint32]], n_candidates: int
) -> list[Candidate]:
    """Extend the frequent prefixes by all bits of the next step, group by group."""
    kept, before = [Candidate(0, False, 0, 0, 0)], 0
    for reports, length in zip(groups, protocol.lengths, strict=True):
        words = [candidate for candidate in kept if candidate.whole]
        for candidate, support in zip(words, _support_of(protocol, reports, words, coder.n_bits), strict=True):
            candidate.support += support
            candidate.n += len(reports)
        prefixes = [candidate.string for candidate in kept if not candidate.whole]
        kept, before = words + _extended(coder, protocol, reports, prefixes, before, length, n_candidates), length
        # The share that each candidate is estimated to have; a stable order for equal ones.
        shares = protocol.estimate([c.support for c in kept], [c.n for c in kept]) / [c.n for c in kept]
        kept = [kept[place] for place in np.argsort(-shares, kind="stable")[:n_candidates]]
    return kept


def _support_of(protocol: PrefixHashing, reports: NDArray[np.uint32], words: list[Candidate], n_bits: int) -> list[int]:
    """Count the reports of a group that support whole words: behind their end, all bits are 0."""
    vectors = vectors_of([word.string for word in words], n_bits, protocol.width)
    return protocol.hash_family.count_matches(reports[:, 2:], reports[:, 1], vectors, n_bits, n_bits)[:, 0].tolist()


def _extended(
    coder: WordCoder,
    protocol: PrefixHashing,
    reports: NDArray[np.uint32],
    prefixes: list[int],
    before: int,
    length: int,
    n_candidates: int,
) -> list[Candidate]:
    """Return the extensions of prefixes with the most support in a group, of those that are the start of a word."""
    found: list[tuple[int, int, int]] = []
    rivals, tail = np.zeros(256, int), length - before
    step = max(1, _CELLS >> tail)
    for first in range(0, len(prefixes), step):
        part = prefixes[first : first + step]
        heads = vectors_of(part, before, protocol.width)
        support = protocol.hash_family.count_matches(reports[:, 2:], reports[:, 1], heads, before, length).ravel()
        starts = np.concatenate([coder.starts(prefix, before, length) for prefix in part])
        rivals += np.bincount(starts, minlength=256)
        support[starts == Start.NOTHING] = -1
        for place in _largest(support, n_candidates):
            string = part[place >> tail] << tail | place & (1 << tail) - 1
            found.append((int(support[place]), string, int(starts[place])))
    order = np.argsort([-support for support, _, _ in found], kind="stable")[:n_candidates]
    grown = []
    for support, string, start in (found[place] for place in order):
        whole = start >= Start.ONE_WORD
        string <<= (coder.n_bits - length) * whole
        grown.append(Candidate(string, whole, support, len(reports), int(rivals[start])))
    return grown


def _largest(support: NDArray[np.int64], number: int) -> list[int]:
    """Return the places of the largest numbers that are not negative, the first of equal ones first."""
    at_least = np.bincount(support + 1)[:0:-1].cumsum()  # how many are not below the largest, the next, …, and 0
    least = max(at_least.size - 1 - int(np.searchsorted(at_least, number)), 0)
    places = np.flatnonzero(support >= least)
    return places[np.argsort(-support[places], kind="stable")[:number]].tolist()
