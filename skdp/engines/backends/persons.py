"""Which rows of a stream are kept, so that no person has more than a few: in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._extras import import_extra

pyarrow = import_extra("pyarrow", "duckdb")
compute, types = (
    import_extra(f"pyarrow.{name}", "duckdb") for name in ("compute", "types")
)

Words = NDArray[np.uint64]
"""Two numbers that identify a person: a row a person."""

_MOST_ROWS = 1 << 22
"""Rows whose persons are in memory at a time: some 100 megabytes."""

_MOST_PARTS = 1 << 8
_BLOCK_BITS = 4
_ODD = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def mark_rows(
    read: Callable[[], Iterable[Any]], most: int, seed: int
) -> NDArray[np.bool_]:
    """Mark at most `most` rows of each person, given the column of persons: it is read once for each 4 million rows."""
    # **Privacy.** Which of a person's rows are kept depends on who it is, on how many there are, and on the seed, but
    # on no other person: one changes at most `most` of the rows that are kept.
    marks, parts, part = np.zeros(0, bool), 1, 0
    while part < parts:
        held: list[tuple[Words, NDArray[np.int64]]] = []
        n_rows = 0
        for column in read():
            held.append(
                _of_part(
                    _identify(column, seed),
                    np.arange(n_rows, n_rows + len(column)),
                    parts,
                    part,
                )
            )
            n_rows += len(column)
            while (
                part == 0
                and parts < _MOST_PARTS
                and sum(len(places) for _, places in held) > _MOST_ROWS
            ):
                parts *= 2
                held = [_of_part(*one, parts, part) for one in held]
        if part == 0:
            marks = np.zeros(n_rows, bool)
        for block in range(
            1 << _BLOCK_BITS
        ):  # sorting takes several times the memory of what is sorted
            found = [
                (words[mine], places[mine])
                for words, places in held
                if (mine := _block(words) == block).any()
            ]
            if found:
                words, places = (
                    np.concatenate(one) for one in zip(*found, strict=True)
                )
                marks[places[_chosen(words, most, seed)]] = True
        part += 1
    return marks


def keep_marked(tables: Iterable[Any], marks: NDArray[np.bool_]) -> Iterator[Any]:
    """Keep the rows of a stream of tables that are marked."""
    start = 0
    for table in tables:
        marked = marks[start : start + len(table)]
        start += len(table)
        if start > marks.size:
            break
        yield table.filter(pyarrow.array(marked))
    if start != marks.size:
        raise RuntimeError(
            "the table has changed since the rows of persons were counted"
        )


def _of_part(
    words: Words, places: NDArray[np.int64], parts: int, part: int
) -> tuple[Words, NDArray[np.int64]]:
    mine = words[:, 0] % np.uint64(parts) == part
    return words[mine], places[mine]


def _block(words: Words) -> Words:
    return np.asarray(words[:, 0] >> np.uint64(64 - _BLOCK_BITS))


def _chosen(words: Words, most: int, seed: int) -> NDArray[np.int64]:
    """Choose at most `most` rows of each person at random."""
    order = np.lexsort(words.T)
    words = words[order]
    starts = np.flatnonzero(np.append(True, (words[1:] != words[:-1]).any(axis=1)))
    sizes = np.diff(np.append(starts, len(words)))
    rank = np.arange(len(words)) - np.repeat(starts, sizes)
    chance = _mix(
        words[:, 0]
        + _mix(np.array([seed], np.uint64))
        + _ODD[0] * rank.astype(np.uint64)
    )
    shuffled = np.lexsort((chance, np.repeat(np.arange(starts.size), sizes)))
    return np.asarray(order[shuffled[rank < most]])


def _identify(column: Any, seed: int) -> Words:
    """Return numbers that are the same for the same person only."""
    # Whole numbers are mapped one to one. Others become 128 bits of SipHash: two of 10 million persons are taken for
    # one with a probability below 2**-80, and nobody can choose them, as the seed is the key.
    kind = column.type
    if isinstance(kind, pyarrow.BaseExtensionType):  # such as UUIDs
        column, kind = column.cast(kind.storage_type), kind.storage_type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_integer(kind) and kind != pyarrow.uint64():
        mixed = _mix(column.cast(pyarrow.int64()).to_numpy().view(np.uint64))
        return np.column_stack([mixed, np.zeros_like(mixed)])
    if types.is_floating(kind):
        column = compute.add(column.cast(pyarrow.float64()), 0.0)  # -0.0 is 0.0
    if types.is_fixed_size_binary(kind):
        column, kind = column.cast(pyarrow.large_binary()), pyarrow.large_binary()
    if not (types.is_binary(kind) or types.is_large_binary(kind)):
        column = _as_text(column)
    values = (
        column.to_numpy(zero_copy_only=False)
        if isinstance(column, pyarrow.Array)
        else column.to_numpy()
    )
    keys = (f"{seed:015x}{half}" for half in range(2))
    return np.column_stack(
        [pd.util.hash_array(values, hash_key=key, categorize=False) for key in keys]
    )


def _as_text(column: Any) -> Any:
    """Write the values of a column as text; what Arrow cannot write, such as lists, is no person."""
    try:
        return column.cast(pyarrow.large_string())
    except pyarrow.ArrowNotImplementedError:  # by the type alone
        raise TypeError(
            "groups must be a column of text, bytes, numbers, dates or times, one value for each person, got "
            f"{column.type}; make a column of one such value, such as a field of the struct"
        ) from None


def _mix(numbers: Words) -> Words:
    """Map numbers of 64 bits to others, one to one and as if at random, as SplitMix64 does."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _ODD[1]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _ODD[2]
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
