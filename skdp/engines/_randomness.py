"""The random bits of one release of a large table: each batch has its own, and the same ones when it is drawn again."""

from __future__ import annotations

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
        content = [_digest(column) for column in codes]
        key = _derive(self._key, b"batch", where, *content, _digest_bytes(records))

        def source(purpose: str, *columns: Any) -> ByteSource:
            # Each purpose and column has random bits of its own.
            names = [repr(plain(part)).encode() for part in (purpose, *columns)]
            return KeyedSource(_derive(key, b"coins", *names))

        return protocol.randomise(codes, records, source)


def _derive(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, framed(*parts), "sha256")


def _digest(codes: NDArray[Any]) -> bytes:
    """Digest a column of codes."""
    if codes.dtype == object:
        return _digest_bytes(codes.tolist())
    return hashlib.sha256(np.ascontiguousarray(codes).data).digest()


def _digest_bytes(values: list[bytes]) -> bytes:
    return hashlib.sha256(framed(*values)).digest()


class SeededRandomness:
    """Reproducible randomness, for experiments: the same for a row of the same number in a partition."""

    # Batches start at multiples of `BLOCK_ROWS`, so that they consist of whole blocks.

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
        id_column = np.array(records, object)
        partition = "all" if place.partition is None else place.partition
        blocks = []
        # One block also of no rows, which has the columns of the reports.
        for start in range(0, max(n_rows, 1), BLOCK_ROWS):
            columns = [_whole_block(column[start:]) for column in codes]
            ids = []
            if protocol.permanent_key is not None:
                ids = _whole_block(id_column[start:]).tolist()
            randomness = self._randomness.part(partition, place.first + start)
            reports = protocol.randomise(columns, ids, randomness)
            blocks.append([report[: n_rows - start] for report in reports])
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _whole_block(codes: NDArray[Any]) -> NDArray[Any]:
    """Cut or pad codes to the size of a block: random bits are addressed by position."""
    block = np.full(BLOCK_ROWS, b"" if codes.dtype == object else 0, codes.dtype)
    part = codes[:BLOCK_ROWS]
    block[: len(part)] = part
    return block


BatchRandomness = KeyedRandomness | SeededRandomness
