"""Permanent reports of numbers: a keyed function of key, record, column and position on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.local.memo._keys import SecretKey, keyed_digests, written_name
from skdp.local.memo._memo import context_of
from skdp.oracles import NumericMechanism
from skdp.oracles.numeric import round_at_random
from skdp.randomness import MOST_ROWS, RowStreams


class NumericMemo:
    """What the permanent reports of a fitted `NumericPerturber` are a function of."""

    # **Privacy.** The random bits are those of keyed BLAKE2b and SHAKE-256: as good as uniform without the
    # key. A record rounds all values of a column by the same random bits, which are drawn without looking at a value:
    # fresh ones would report both neighbours of an unchanged number in the end, and cost twice as much. So the range
    # falls into `steps` + 1 parts, and the values of each part share a report ([1]_).
    # .. [1] B. Ding, J. Kulkarni, S. Yekhanin (2017). Collecting telemetry data privately. NeurIPS, section 4.

    def __init__(
        self,
        key: bytes,
        owner: str,
        names: tuple[Any, ...],
        bounds: NDArray[np.float64],
        mechanism: NumericMechanism,
        epsilon: Fraction,
    ) -> None:
        self.key, self._mechanism = SecretKey(key), mechanism
        parts = [type(mechanism).__name__, str(mechanism.steps), str(epsilon)]
        self._contexts = [
            context_of(owner, *map(str.encode, parts), written, (ends + 0.0).astype(">f8").tobytes())
            for written, ends in zip([written_name(name, "memoize=True") for name in names], bounds, strict=True)
        ]

    def report(self, scaled: list[NDArray[np.int64]], records: Sequence[bytes]) -> list[NDArray[np.int64]]:
        """Compute the permanent reports."""
        reports = []
        for context, places in zip(self._contexts, scaled, strict=True):
            drawn = b"".join(digest[:2] for digest in keyed_digests(self.key, (context, "rounding"), records))
            positions = round_at_random(places, _Given(drawn))
            written = [b"%d" % position for position in positions.tolist()]
            digests = keyed_digests(self.key, (context, "report"), records, written)
            reports.append(keyed_numbers(self._mechanism, positions, digests))
        return reports


def keyed_numbers(
    mechanism: NumericMechanism, positions: NDArray[np.int64], digests: Sequence[bytes]
) -> NDArray[np.int64]:
    """Randomise each position by a digest of its own, many records at a time: the same reports as one at a time."""
    reports = np.empty_like(positions)
    for start in range(0, positions.size, MOST_ROWS):
        rows = slice(start, start + MOST_ROWS)
        reports[rows] = mechanism.report(positions[rows], RowStreams(digests[rows]))
    return reports


class _Given:
    """The bytes that are given."""

    def __init__(self, given: bytes) -> None:
        self._given = given

    def bytes(self, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(self._given, np.uint8, size)
