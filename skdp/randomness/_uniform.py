"""Uniform numbers of any length: real ones, and integers below any bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._sources import ByteSource

Bounds = Callable[[int], tuple[int, int]]
"""Given a number of bits, two integers that enclose ``2**bits`` times a real number."""


class Uniform:
    """A uniform real number in [0, 1), of which as many binary digits are drawn as a decision asks for."""

    # It lies between ``value / 2**bits`` and ``(value + 1) / 2**bits``.

    def __init__(self, source: ByteSource, value: int = 0, bits: int = 0) -> None:
        self._source, self.value, self.bits = source, value, bits

    def extend(self) -> None:
        """Draw 64 more bits."""
        self.value = (self.value << 64) + int.from_bytes(self._source.bytes(8).tobytes(), "big")
        self.bits += 64

    def is_below(self, bounds: Bounds) -> bool:
        """Compare it with a real number: True with exactly this probability."""
        while True:
            lower, upper = bounds(self.bits)
            if self.value < lower:
                return True
            if self.value >= upper:
                return False
            self.extend()


def uniform_below(source: ByteSource, bounds: NDArray) -> NDArray:
    """Draw independent integers, each of ``0 .. bound - 1`` with equal probability, for bounds of their own."""
    # As many random bits as the bound has are drawn until they are below it: less than twice on average.
    if bounds.dtype == object:
        return np.array([_below(source, int(bound)) for bound in bounds], object)
    mask = bounds - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    out = source.bytes(8 * bounds.size).view("<i8") & mask
    again = np.flatnonzero(out >= bounds)
    while again.size:
        out[again] = source.bytes(8 * again.size).view("<i8") & mask[again]
        again = again[out[again] >= bounds[again]]
    return out


def _below(source: ByteSource, bound: int) -> int:
    bits = (bound - 1).bit_length()
    n_bytes = -(-bits // 8)
    while True:
        drawn = int.from_bytes(source.bytes(n_bytes).tobytes(), "big") >> (8 * n_bytes - bits)
        if drawn < bound:
            return drawn
