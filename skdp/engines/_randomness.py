"""The coins of one release of a large table: each batch has its own, and draws the same ones if it is drawn again."""

from __future__ import annotations

import functools
import hashlib
import hmac
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.base import CallRandomness
from skdp.coding import plain
from skdp.local import Codes, ReportProtocol, Reports, SecretKey
from skdp.local.memo import framed
from skdp.randomness import ByteSource

BLOCK_ROWS = 1 << 12
"""Seeded coins come in blocks of so many rows, counted from the start of the table."""


@dataclass(frozen=True)
class Place:
    """Where a batch stands in its table."""

    partition: int | None = None
    first: int = 0


class KeyedSource:
    """Bytes that nobody can tell from random ones without the key, and that the key repeats: SHAKE-128 of it."""

    # Each request is answered by a stream of its own: that of the key and the number of the request.

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._requests = 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes."""
        stream = hashlib.shake_128(self._key + self._requests.to_bytes(8, "big"))
        self._requests += 1
        return np.frombuffer(stream.digest(size), np.uint8)


class BatchRandomness(Protocol):
    """What draws the reports of a batch."""

    def draw(self, protocol: ReportProtocol, codes: Codes, place: Place, records: list[bytes]) -> Reports:
        """Draw the reports of a batch of codes."""
        ...


class KeyedRandomness:
    """Secure coins: a keyed function of where a batch stands and of what it holds, under a fresh secret key."""

    # A batch that is computed again, since a worker died or a task was tried twice, draws the same reports, so it is
    # not released again. If the same place holds other rows then, all its coins are others, and independent: what the
    # rows differ in does not show in coins that they have in common. But that they differ does show, to whoever sees
    # both reports, since those of the same rows are equal. The guarantee is for tables that stay as they are.
    # The key is drawn once, where the release is asked for. It travels to the workers together with what they are to
    # privatise, does not show when it is printed, and is not kept with the release.

    def __init__(self, key: SecretKey | None = None) -> None:
        self._key = SecretKey.generate() if key is None else key

    def draw(self, protocol: ReportProtocol, codes: Codes, place: Place, records: list[bytes]) -> Reports:
        """Draw the reports of a batch of codes."""
        where = repr((place.partition, place.first)).encode()
        held = [*map(digest, codes)]  # now: `randomise` consumes the codes

        @functools.cache  # permanent reports may need no such key
        def key() -> bytes:
            return _derive(self._key, b"batch", where, *held, _digest_bytes(records))

        def source(purpose: str, *columns: Any) -> ByteSource:
            return KeyedSource(_derive(key(), b"coins", *(repr(plain(part)).encode() for part in (purpose, *columns))))

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
    """Reproducible coins, for experiments: the same for a row of the same number, however the table is cut."""

    def __init__(self, randomness: CallRandomness) -> None:
        self._randomness = randomness.part("rows")

    def draw(self, protocol: ReportProtocol, codes: Codes, place: Place, records: list[bytes]) -> Reports:
        """Draw the reports of a batch of codes."""
        rows, skipped = len(codes[0]), place.first % BLOCK_ROWS
        permanent = protocol.permanent_key is not None
        partition = "all" if place.partition is None else place.partition
        whose, drawn = np.array(records, object), []
        for start in range(-skipped, max(rows, 1), BLOCK_ROWS):
            block, ids = [_cut(column, start) for column in codes], _cut(whose, start).tolist() if permanent else []
            reports = protocol.randomise(block, ids, self._randomness.part(partition, place.first + start))
            drawn.append([report[max(0, -start) : rows - start] for report in reports])
        return [np.concatenate(parts) for parts in zip(*drawn, strict=True)]


def _cut(codes: NDArray[Any], start: int) -> NDArray[Any]:
    """Take a whole block of codes; what the batch does not hold of it is filled up, for coins go by position."""
    block = np.full(BLOCK_ROWS, b"" if codes.dtype == object else 0, codes.dtype)
    part = codes[max(0, start) : start + BLOCK_ROWS]
    block[max(0, -start) : max(0, -start) + len(part)] = part
    return block


def batch_randomness(randomness: CallRandomness) -> BatchRandomness:
    """Start the randomness of one release."""
    return KeyedRandomness() if randomness.seed is None else SeededRandomness(randomness)
