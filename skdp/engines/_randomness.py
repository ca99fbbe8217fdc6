"""The random bits of one release of a large table: each batch has its own, and the same ones when it is drawn again."""

from __future__ import annotations

import functools
import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import CallRandomness
from skdp.local import Codes, ReportProtocol, Reports, SecretKey
from skdp.local.memo import framed
from skdp.randomness import ByteSource
from skdp.tables import plain

BLOCK_ROWS = 1 << 12
"""Seeded random bits come in blocks of this many rows, counted from the start of the table."""


@dataclass(frozen=True)
class Place:
    """Where a batch stands in its table."""

    partition: int | None = None
    first: int = 0


class KeyedSource:
    """Bytes that look random without the key: SHAKE-128 of the key and of the number of each request."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._requests = 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes."""
        stream = hashlib.shake_128(self._key + self._requests.to_bytes(8, "big"))
        self._requests += 1
        return np.frombuffer(stream.digest(size), np.uint8)


class KeyedRandomness:
    """Secure randomness: a keyed function of the place and the content of a batch, under a fresh secret key."""

    # A batch that is computed again, since a worker died or a task was tried twice,
    # draws the same reports, so it is not released again. If its place holds other rows
    # by then, all its random bits are others, and independent. But that the rows differ
    # does show to those who see both reports, since reports of the same rows are equal:
    # the guarantee is for tables that stay the same. The key is drawn where the release
    # is asked for. It travels to the workers together with the rows, does not show when
    # it is printed, and is not kept with the release.

    def __init__(self, key: SecretKey | None = None) -> None:
        self._key = SecretKey.generate() if key is None else key

    @property
    def name(self) -> str:
        """What distinguishes the release from all others; it does not show the key."""
        return _derive(self._key, b"name of the release").hex()

    def draw(
        self, protocol: ReportProtocol, codes: Codes, place: Place, records: list[bytes]
    ) -> Reports:
        """Draw the reports of a batch of codes."""
        where = repr((place.partition, place.first)).encode()
        # Now: `randomise` consumes the codes.
        content = [digest(column) for column in codes]

        # Permanent reports may need no such key.
        @functools.cache
        def key() -> bytes:
            return _derive(self._key, b"batch", where, *content, _digest_bytes(records))

        def source(purpose: str, *columns: Any) -> ByteSource:
            # Each purpose and column has random bits of its own.
            names = [repr(plain(part)).encode() for part in (purpose, *columns)]
            return KeyedSource(_derive(key(), b"coins", *names))

        return protocol.randomise(codes, records, source)


def _derive(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, framed(*parts), "sha256")


def digest(codes: NDArray[Any]) -> bytes:
    """Digest a column of codes."""
    if codes.dtype == object:
        return _digest_bytes(codes.tolist())
    return hashlib.sha256(np.ascontiguousarray(codes).data).digest()


def _digest_bytes(values: list[bytes]) -> bytes:
    return hashlib.sha256(framed(*values)).digest()


class SeededRandomness:
    """Reproducible randomness, for experiments: the same for a row of the same number, in any batch."""

    def __init__(self, randomness: CallRandomness) -> None:
        self._randomness = randomness.part("rows")

    @property
    def name(self) -> str | None:
        """What distinguishes the call from others of the transformer."""
        return self._randomness.name

    def draw(
        self, protocol: ReportProtocol, codes: Codes, place: Place, records: list[bytes]
    ) -> Reports:
        """Draw the reports of a batch of codes."""
        n_rows = len(codes[0])
        # The rows of the first block that stand before the batch: a row has the same
        # random bits, wherever a batch begins.
        n_before = place.first % BLOCK_ROWS
        partition = "all" if place.partition is None else place.partition
        id_column = np.array(records, object)
        blocks = []
        for start in range(-n_before, max(n_rows, 1), BLOCK_ROWS):
            columns = [_cut(column, start) for column in codes]
            ids = []
            if protocol.permanent_key is not None:
                ids = _cut(id_column, start).tolist()
            randomness = self._randomness.part(partition, place.first + start)
            reports = protocol.randomise(columns, ids, randomness)
            # The rows of the block that are those of the batch.
            in_batch = slice(max(0, -start), n_rows - start)
            blocks.append([report[in_batch] for report in reports])
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _cut(codes: NDArray[Any], start: int) -> NDArray[Any]:
    """Pad the codes to a whole block: random bits are addressed by position."""
    block = np.full(BLOCK_ROWS, b"" if codes.dtype == object else 0, codes.dtype)
    part = codes[max(0, start) : start + BLOCK_ROWS]
    block[max(0, -start) : max(0, -start) + len(part)] = part
    return block


BatchRandomness = KeyedRandomness | SeededRandomness
