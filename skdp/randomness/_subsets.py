"""Exactly uniform random sets of a given size."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._draws import BLOCK, ByteSource, WordTable, multiply_words

# From this number of sets on, building tables pays off.
_MANY = 1 << 12

# Limit of the size of the tables of one kind of set.
_TABLE_BYTES = 1 << 22

# Sets made of coins at a time: enough to hide NumPy's cost per step, few enough for the
# cache.
_TOGETHER = 1 << 15


def subsets(
    source: ByteSource, n_cells: int, least: int, more: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    """Draw independent sets of cells, each uniform among all sets of its size.

    >>> from skdp.randomness import SeededSource
    >>> packed = subsets(SeededSource(0), 10, 3, np.array([False, True]))
    >>> np.unpackbits(packed, axis=1, count=10).sum(axis=1)
    array([3, 4], dtype=uint64)

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    n_cells : int
        The number of cells, at least 1.
    least : int
        The size of a set, from 0 to `n_cells` - 1.
    more : ndarray of shape (n,), dtype bool
        Whether a set has one member more.

    Returns
    -------
    ndarray of shape (n, n_bytes), dtype uint8
        The sets as bits, packed as by `np.packbits`; after the last cell there is at
        least one zero.

    Raises
    ------
    ValueError
        If there can be no sets of these sizes.
    """
    if not 0 <= least < n_cells:
        raise ValueError(f"least must be between 0 and {n_cells - 1}, got {least}")
    if 2 * least >= n_cells:
        complement = subsets(source, n_cells, n_cells - least - 1, ~more)
        return complement ^ _all(n_cells, complement.shape[1])
    tabled = more.size >= _MANY and n_cells // 16 * (least + 2) << 12 <= _TABLE_BYTES
    draw, step = (_by_patterns, BLOCK) if tabled else (_from_coins, _TOGETHER)
    words = np.empty((more.size, n_cells // 64 + 1), np.uint64)
    for start in range(0, more.size, step):
        draw(
            source,
            n_cells,
            least,
            more[start : start + step],
            words[start : start + step],
        )
    return words.view(np.uint8)


def _all(n_cells: int, n_bytes: int) -> NDArray[np.uint8]:
    return np.packbits(np.arange(8 * n_bytes) < n_cells)


def _by_patterns(
    source: ByteSource,
    n_cells: int,
    least: int,
    more: NDArray[np.bool_],
    words: NDArray[np.uint64],
) -> None:
    """Draw sets 16 cells at a time: the number of their members, then a uniform pattern with this number."""
    patterns = words.view("<u2")
    patterns[:, n_cells // 16 :] = 0
    missing = np.full(more.size, least, np.uint8)
    missing += more
    for place, table in enumerate(_counts(n_cells, least)):
        members = table.draw(source, missing.size, missing)
        patterns[:, place] = _draw_patterns(source, 16, members)
        missing -= members
    if n_cells % 16:
        patterns[:, n_cells // 16] = _draw_patterns(source, n_cells % 16, missing)


@lru_cache(maxsize=16)
def _counts(n_cells: int, least: int) -> list[WordTable]:
    """Return the distributions of the number of members among the next 16 cells, by how many are still missing."""
    tables = []
    for n_remaining in range(n_cells, 15, -16):
        weights = []
        for missing in range(min(least + 1, n_remaining) + 1):
            row = [0] * 17
            for count in range(min(missing, 16) + 1):
                n_others = math.comb(n_remaining - 16, missing - count)
                row[count] = math.comb(16, count) * n_others
            weights.append(row)
        tables.append(WordTable(weights, np.arange(17, dtype=np.uint8)))
    return tables


def _draw_patterns(
    source: ByteSource, n_cells: int, members: NDArray[np.uint8]
) -> NDArray[np.uint16]:
    """Draw sets of up to 16 cells, uniform among those of the same number of members."""
    table = _patterns(n_cells)
    patterns = np.empty(members.size, np.uint16)
    for start in range(0, members.size, BLOCK):
        block = patterns[start : start + BLOCK]
        rows = members[start : start + BLOCK]
        # No index is out of range; "wrap" is the fastest mode.
        table.take(_index(source, rows), out=block, mode="wrap")
        redrawn = np.flatnonzero(np.bitwise_count(block) != rows)
        while redrawn.size:
            drawn = table[_index(source, rows[redrawn])]
            block[redrawn] = drawn
            redrawn = redrawn[np.bitwise_count(drawn) != rows[redrawn]]
    return patterns


def _index(source: ByteSource, row: NDArray[np.uint8]) -> NDArray[np.uint32]:
    index = row.astype(np.uint32)
    index <<= 16
    index |= source.bytes(2 * row.size).view("<u2")
    return index


@lru_cache(maxsize=8)
def _patterns(n_cells: int) -> NDArray[np.uint16]:
    """Return, for each number of members, the patterns of the 2**16 words: every pattern equally often."""
    # The words left over get a pattern of another number of members, which marks them
    # to be drawn again. The first cell is the highest bit of the first byte.
    cells = np.arange(1 << n_cells, dtype=np.uint16) << 16 - n_cells
    patterns = cells.astype(">u2").view("<u2")
    table = np.full((n_cells + 1, 1 << 16), (1 << 16) - 1, np.uint16)
    for n_members, row in enumerate(table):
        fitting = patterns[np.bitwise_count(patterns) == n_members]
        n_words = row.size - row.size % fitting.size
        row[:n_words].reshape(-1, fitting.size)[:] = fitting
    return table.ravel()


def _from_coins(
    source: ByteSource,
    n_cells: int,
    least: int,
    more: NDArray[np.bool_],
    words: NDArray[np.uint64],
) -> None:
    """Draw sets from coins."""
    # Independent coins make all sets of the same size equally likely, also when too
    # large sets are tossed again. Adding uniform cells that are not in the set, until
    # the size is right, keeps them so. The smallest integers are the fastest.
    sizes = np.full(more.size, least, np.min_scalar_type(-n_cells - 1))
    sizes += more
    _toss(source, n_cells, least, words)
    missing = sizes - _count(words, sizes.dtype)
    too_large = np.flatnonzero(missing < 0)
    while too_large.size:
        tossed = np.empty((too_large.size, words.shape[1]), np.uint64)
        words[too_large] = _toss(source, n_cells, least, tossed)
        missing[too_large] = sizes[too_large] - _count(tossed, sizes.dtype)
        too_large = np.flatnonzero(missing < 0)
    _add(source, n_cells, words, missing)


def _add(
    source: ByteSource,
    n_cells: int,
    words: NDArray[np.uint64],
    missing: NDArray[np.signedinteger],
) -> None:
    """Add the missing cells to each set, each uniform among those that are not in it."""
    cells = words.view(np.uint8).reshape(-1)
    first_bytes = np.arange(0, cells.size, 8 * words.shape[1])
    width = 16 if n_cells <= 1 << 12 else 32
    surplus = (1 << width) % n_cells
    while missing.any():
        # More turns at a time take fewer steps, but waste more draws on sets that are
        # already complete.
        n_turns = max(1, min(int(missing.max()), 8, 4 * _TOGETHER // missing.size))
        drawn = np.empty((n_turns, missing.size), np.min_scalar_type(n_cells - 1))
        low_halves = multiply_words(source, n_cells, width, drawn.reshape(-1))
        is_fair = (low_halves >= surplus).view(np.uint8).reshape(drawn.shape)
        # A cell that is rejected, or is in the set already, adds nothing: the set waits
        # for its next turn.
        bits = is_fair << (~drawn & 7).astype(np.uint8)
        drawn >>= 3
        for byte, bit in zip(drawn, bits, strict=True):
            places = first_bytes + byte
            before = cells.take(places, mode="wrap")
            bit *= missing > 0
            bit |= before
            cells[places] = bit
            missing -= bit != before
        # Drop complete sets, many at a time.
        incomplete = np.flatnonzero(missing)
        if incomplete.size < 0.85 * missing.size:
            first_bytes = first_bytes[incomplete]
            missing = missing[incomplete]


def _toss(
    source: ByteSource, n_cells: int, least: int, words: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Toss a coin for each cell, and write the heads as ones."""
    numerator, n_digits = _share(n_cells, least)
    last_cells = _all(n_cells % 64, 8).view(np.uint64)
    step = max(1, BLOCK // (8 * words.shape[1]))
    for start in range(0, len(words), step):
        block = words[start : start + step]
        block[:] = 0
        for digit in range(n_digits):
            tossed = source.bytes(8 * block.size).view(np.uint64).reshape(block.shape)
            # From the last digit of the share on: a 1 turns a probability q into (1 +
            # q) / 2, a 0 into q / 2.
            if numerator >> digit & 1:
                block |= tossed
            else:
                block &= tossed
        block[:, -1] &= last_cells
    return words


@lru_cache(maxsize=32)
def _share(n_cells: int, least: int) -> tuple[int, int]:
    """Return the probability of a coin, as a numerator and a number of binary digits."""
    # Low enough that there are seldom too many heads, and otherwise such that tossing
    # and adding take the least time: a digit for 150 cells takes about as long as
    # adding one.
    mean = least - math.sqrt(least * (n_cells - least) / n_cells)
    costs = []
    for n_digits in range(9):
        numerator = math.floor(mean / n_cells * 2**n_digits)
        n_added = least - n_cells * numerator / 2**n_digits
        costs.append((n_added + n_digits * n_cells / 150, numerator, n_digits))
    _, numerator, n_digits = min(costs)
    return numerator, n_digits


def _count(words: NDArray[np.uint64], dtype: np.dtype) -> NDArray[np.signedinteger]:
    # On short rows much faster than a sum.
    return np.einsum("ij->i", np.bitwise_count(words).astype(dtype))
