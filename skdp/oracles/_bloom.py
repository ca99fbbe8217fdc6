"""RAPPOR on arrays: Bloom filters in public cohorts, a permanent and an instantaneous round of noise."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import log_upper, round_up
from skdp.oracles._base import (
    capped_epsilon,
    channel_of_bits,
    check_bytes,
    check_share,
    flip_threshold,
)
from skdp.privacy import PureLoss
from skdp.randomness import BLOCK, ONE, ByteSource, bernoulli, check_size


class BloomRandomizer:
    """RAPPOR on values given as bytes: Bloom filters whose bits are randomised twice."""

    # A value sets the bits given by h public hash functions, which depend on the public
    # cohort of the record. In the permanent round every bit is flipped with probability
    # f/2. In the instantaneous round a bit that is now 1 is reported as 1 with
    # probability q, and a bit that is 0 with probability p ([1]_). **Privacy.** Local
    # model, replacement of the value; the cohort does not depend on it. The bits are
    # independent given the value, so only those in which two filters differ count. Let
    # a of them be set for the first value only, and b for the second only. No filter
    # has more than h ones, so ``a <= h``, ``b <= h`` and ``a + b <= m``: up to 2 h bits
    # differ, not h. After the permanent round each of them changes the likelihood by at
    # most the factor ``(1 - f/2) / (f/2)``, in both directions: epsilon = min(2 h, m)
    # ln((1 - f/2) / (f/2)). In one report each of the a bits counts on / off, if it is
    # 1, and each of the b bits (1 - off) / (1 - on), if it is 0. Where 2 h > m, the
    # larger factor applies to as many bits as possible.
    # .. [1] Ú. Erlingsson, V. Pihur, A. Korolova (2014). RAPPOR: randomized
    #    aggregatable privacy-preserving ordinal response. CCS, sections 3 and 4.

    def __init__(
        self,
        n_bits: int,
        n_hashes: int,
        n_cohorts: int,
        *,
        epsilon: float | Fraction | None = None,
        f: float | Fraction | None = None,
        p: float | Fraction = 0.5,
        q: float | Fraction = 0.75,
    ) -> None:
        self.n_bits = check_size(n_bits, most=1 << 16, name="n_bits")
        self.n_hashes = check_size(n_hashes, least=1, most=self.n_bits, name="n_hashes")
        self.n_cohorts = check_size(n_cohorts, least=1, most=1 << 16, name="n_cohorts")
        if (epsilon is None) == (f is None):
            raise ValueError("give either epsilon or f, and None for the other")
        if epsilon is not None:
            self.flip = flip_threshold(capped_epsilon(epsilon) / self.differing_bits)
        else:
            share = check_share(f, "f")
            if not 0 < share < 1:
                raise ValueError(f"f must be a number between 0 and 1, got {f}")
            self.flip = math.ceil(ONE * share / 2)
        low = math.ceil(ONE * check_share(p, "p"))
        high = math.floor(ONE * check_share(q, "q"))
        if not low < high:
            raise ValueError(
                "p and q must satisfy 0 <= p < q <= 1 (by at least 2**-64), "
                f"got p={p}, q={q}"
            )
        self.heads = (low, high)
        # The probabilities of a reported 1 for a bit of the filter that is 1, and 0.
        flip = Fraction(self.flip, ONE)
        self.on = ((1 - flip) * high + flip * low) / ONE
        self.off = (flip * high + (1 - flip) * low) / ONE

    @property
    def differing_bits(self) -> int:
        """The largest number of bits in which the filters of two values differ."""
        return min(2 * self.n_hashes, self.n_bits)

    @property
    def permanent_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of the permanent bits under two values, exact."""
        return Fraction(ONE - self.flip, self.flip) ** self.differing_bits

    @property
    def report_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one report under two values, exact."""
        ones = self.on / self.off
        zeros = (1 - self.off) / (1 - self.on)
        # Every value sets a bit, so no filter has all m bits alone.
        n_larger = min(self.n_hashes, self.n_bits - 1)
        n_smaller = min(self.n_hashes, self.n_bits - n_larger)
        return max(ones, zeros) ** n_larger * min(ones, zeros) ** n_smaller

    def losses(self, *, permanent: bool) -> tuple[PureLoss, ...]:
        """Return the losses of the permanent bits, or of one report, which dominate those of all pairs of values."""
        # A bit that is set for the first value only and one that is set for the second
        # only are, together, a report whose two informative outcomes have the ratio of
        # both, and as total variation the difference of their probabilities. A bit
        # without a counterpart is a part of such a report.
        flip = Fraction(self.flip, ONE)
        on = 1 - flip if permanent else self.on
        off = flip if permanent else self.off
        if on == off or 2 * self.n_hashes > self.n_bits or on == 1 or off == 0:
            return ()
        ratio = on * (1 - off) / ((1 - on) * off)
        share = min(Fraction(1), (on - off) * (ratio + 1) / (ratio - 1))
        return (PureLoss(log_upper(ratio), round_up(share), count=self.n_hashes),)

    def places(self, cohort: int, value: bytes) -> NDArray[np.intp]:
        """Return the bits that a value sets: by SHA-256, so the same everywhere and in every version."""
        digests = []
        for block in range(-(-self.n_hashes // 4)):
            prefix = f"skdp bloom filter {cohort} {block} ".encode()
            digests.append(hashlib.sha256(prefix + value).digest())
        words = np.frombuffer(b"".join(digests), ">u8")[: self.n_hashes]
        return (words % np.uint64(self.n_bits)).astype(np.intp)

    def filters(
        self, cohorts: NDArray[Any], values: Sequence[bytes]
    ) -> NDArray[np.bool_]:
        """Return the Bloom filters of values."""
        self.check_size(len(values))
        # Each pair of a cohort and a value is hashed once.
        numbers: dict[tuple[int, bytes], int] = {}
        pair_of_row = np.empty(len(values), np.intp)
        for row, pair in enumerate(zip(cohorts.tolist(), values, strict=True)):
            pair_of_row[row] = numbers.setdefault(pair, len(numbers))
        places = np.empty((len(numbers), self.n_hashes), np.intp)
        for (cohort, value), number in numbers.items():
            places[number] = self.places(cohort, value)
        bits = np.zeros((len(values), self.n_bits), bool)
        np.put_along_axis(bits, places[pair_of_row], True, axis=1)
        return bits

    def check_size(self, n: int) -> None:
        """Refuse a call whose bits would exceed `MAX_REPORT_BYTES`."""
        check_bytes(n, self.n_bits)

    def instantaneous(
        self, bits: NDArray[np.bool_], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Randomise permanent bits in the second round."""
        flat = bits.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            block = flat[start : start + BLOCK]
            reported = bernoulli(source, self.heads[0], block.size)
            high = bernoulli(source, self.heads[1], block.size)
            np.copyto(reported, high, where=block)
            block[:] = reported
        return bits.view(np.uint8)

    def channel(
        self, filters: Sequence[Sequence[int]], *, permanent: bool = False
    ) -> list[list[Fraction]]:
        """Return the exact probability of each vector of bits given filters."""
        flip = Fraction(self.flip, ONE)
        heads = (flip, 1 - flip) if permanent else (self.off, self.on)
        return channel_of_bits(filters, self.n_bits, heads)
