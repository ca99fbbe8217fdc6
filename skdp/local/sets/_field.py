"""Columns of sets: coded lists, and their reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from skdp.base import check_choice, undeclared_error
from skdp.domain import Domain
from skdp.local.protocol import Channel, Codes, OracleField, Randomness
from skdp.oracles import SetOracle, pad_sets
from skdp.tables import ColumnError, flatten_lists

_CELLS = 1 << 22

SetPostprocess = Literal["none", "clip"]


@dataclass(frozen=True, eq=False, repr=False)
class SetField(OracleField):
    """A column of sets, by an oracle for sets."""

    # Codes are an array of bytes: of a row the codes of its values, distinct and
    # ascending.

    domain: Domain
    oracle: SetOracle
    unknown: str = "error"

    def prepare(self, columns: Sequence[Any]) -> Codes:
        self.oracle.check_size(len(columns[0]))
        return [read_sets(self.domain, self.columns[0], columns[0], self.unknown)]

    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        oracle = self.oracle
        choice_source = randomness("kept", *self.columns)
        source = randomness("report", *self.columns)
        parts = []
        for block in blocks_of(codes[0], oracle):
            values, sizes = joined(block, oracle.k)
            padded = pad_sets(values, sizes, oracle.k, oracle.max_size, choice_source)
            parts.append(oracle.report(padded, source))
        return np.concatenate(parts)

    def summed_parts(
        self, sums: NDArray[np.int64], size: int
    ) -> NDArray[np.int64] | None:
        return None  # a report may have bits of padding, which no sum counts

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        if _entries(self.oracle, most_entries) > most_entries:
            return None
        return [self.oracle.channels()]


def check_postprocess(postprocess: Any) -> None:
    """Check how counts are changed."""
    check_choice("postprocess", postprocess, get_args(SetPostprocess))


def blocks_of(
    codes: NDArray[np.object_], oracle: SetOracle
) -> list[NDArray[np.object_]]:
    """Split coded rows into blocks, at least one, whose padded sets fit into the memory."""
    step = max(1, _CELLS // oracle.max_size)
    return [codes[start : start + step] for start in range(0, max(len(codes), 1), step)]


def _entries(oracle: SetOracle, most: int) -> float:
    """Return the size of a channel, or infinity if listing its rows would take long."""
    if oracle.k > 12 or oracle.n_reports > most:
        return float("inf")
    return len(oracle.sets()) * oracle.n_reports


def read_sets(
    domain: Domain, name: Any, column: Any, unknown: str
) -> NDArray[np.object_]:
    """Read a column of lists as bytes: of each row the codes of its values, distinct and ascending."""
    message = None
    try:
        flat, sizes = flatten_lists(column)
    except ColumnError as error:
        message = f"column {name!r}: {error}"
    if message is not None:
        raise ValueError(message)
    (codes,) = domain.select([name]).encode([flat])
    k = len(domain[name])
    if unknown == "error" and codes.max(initial=0) == k:
        raise undeclared_error(name, domain[name], what="lists with a value")
    rows = np.repeat(np.arange(sizes.size), sizes)
    pairs = np.sort(rows[codes < k] * k + codes[codes < k].astype(np.int64))
    pairs = pairs[
        np.diff(pairs, prepend=-1) > 0
    ]  # `np.unique` takes five times as long
    ends = np.append(0, np.cumsum(np.bincount(pairs // k, minlength=sizes.size)))
    held = (pairs % k).astype(_dtype(k))
    packed, width = held.tobytes(), held.itemsize
    sets = np.empty(sizes.size, object)
    for row, (start, end) in enumerate(
        zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ):
        sets[row] = packed[start * width : end * width]
    return sets


def joined(
    sets: NDArray[np.object_], k: int
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
    """Return the codes of all sets, one set after the other, and the number of codes of each."""
    dtype = _dtype(k)
    sizes = np.fromiter(map(len, sets), np.int64, len(sets)) // dtype.itemsize
    return np.frombuffer(b"".join(sets.tolist()), dtype), sizes


def _dtype(k: int) -> np.dtype[Any]:
    return np.min_scalar_type(k).newbyteorder("<")
