"""Permanent reports of subset selection: the same law as that of fresh ones, from a digest a record."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Codes
from skdp.oracles import SubsetSelection
from skdp.randomness import BLOCK, ONE

_COIN, _WORD = 8, 4
"""The bytes of a record's coin, and of each value's first word."""


def keyed_sets(oracle: SubsetSelection, codes: Codes, digests: Sequence[bytes]) -> NDArray[np.uint8]:
    """Draw a set for each code, many records at a time."""
    # A coin decides whether the set is uniform among all, or among those that hold the true value. Each value has a
    # random real number, known to 32 bits, and the set are the values with the smallest numbers: all orders of the
    # numbers are equally likely. Where the set has to hold the true value, this comes before all others. Where the 32
    # bits do not tell which number is smaller, further ones do.
    k, size = oracle.k, oracle.subset_size
    last_lie = np.uint64(int(oracle.lie * ONE) - 1)  # a lie is never impossible
    sets = np.empty((len(digests), k), np.uint8)
    step = max(1, BLOCK // k)
    for start in range(0, len(digests), step):
        part, true = digests[start : start + step], codes[start : start + step]
        stream = b"".join([hashlib.shake_256(digest).digest(_COIN + _WORD * k) for digest in part])
        drawn = np.frombuffer(stream, np.uint8).reshape(len(part), -1)
        lies = np.ascontiguousarray(drawn[:, :_COIN]).view(">u8")[:, 0] <= last_lie
        words = np.ascontiguousarray(drawn[:, _COIN:]).view(">u4").astype(np.uint32)
        honest = np.flatnonzero(~lies)
        words[honest, true[honest]] = 0
        bits = words <= np.partition(words, size - 1, axis=1)[:, size - 1 : size]
        for row in np.flatnonzero(np.count_nonzero(bits, axis=1) > size).tolist():
            bits[row] = _untied(part[row], k, size, None if lies[row] else int(true[row]))
        sets[start : start + step] = bits
    return sets


def _untied(digest: bytes, k: int, size: int, first: int | None) -> NDArray[np.bool_]:
    """Draw one set from as many words a value as it takes to tell which numbers are the smallest."""
    n_words = 1
    while True:
        n_words *= 2
        stream = hashlib.shake_256(digest).digest(_COIN + n_words * _WORD * k)[_COIN:]
        # The first words of all values come first, then the second ones.
        words = np.frombuffer(stream, ">u4").reshape(n_words, k).T.tolist()
        keys = [(value != first, *words[value]) for value in range(k)]
        bound = sorted(keys)[size - 1]
        bits = np.array([key <= bound for key in keys])
        if np.count_nonzero(bits) == size:
            return bits
