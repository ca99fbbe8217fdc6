"""Local hashing of the prefixes of long bit strings: public groups, vector hashes, exact collision probabilities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import log_upper
from skdp.oracles._hashing import collision_probability
from skdp.oracles._local_hashing import MOST_BUCKETS
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._support import capped_epsilon, check_bytes, hashed_support, pure_error, support_variance
from skdp.randomness import ByteSource, uniform_integers

LIMB_BITS = 30
"""Bit strings are cut into numbers of this length, which are residues modulo the prime."""

_PRIME = (1 << 31) - 1
_CELLS = 1 << 18


class VectorHash:
    """Affine maps of vectors modulo a prime P, folded into g buckets: ``h(x) = ((a · x + b) mod P) mod g``."""

    # For a uniform vector a and a uniform b, let the vectors x ≠ y of residues differ in place j. For any other
    # coefficients, the equations ``a_j x_j + b = u``, ``a_j y_j + b = w`` have exactly one solution (a_j, b) for each
    # of the P² pairs (u, w), as for `AffineHash`: the residues of x and y are independent and uniform, and the vectors
    # collide with the same probability for every pair and every length.

    def __init__(self, width: int, g: int, *, prime: int = _PRIME) -> None:
        self.width, self.g, self.prime = width, g, prime
        self.seed_bits = (width + 1) * prime.bit_length()
        self.collision = collision_probability(prime, g)

    def draw(self, source: ByteSource, n: int) -> NDArray[np.uint32]:
        residues = uniform_integers(source, self.prime, n * (self.width + 1))
        return residues.astype(np.uint32).reshape(n, self.width + 1)

    def __call__(self, seeds: NDArray[np.uint32], vectors: NDArray[Any]) -> NDArray[np.unsignedinteger]:
        residues = seeds[:, -1].astype(np.uint64)
        for place in range(self.width):
            residues += seeds[:, place].astype(np.uint64) * vectors[:, place].astype(np.uint64)  # below 2**63
            residues %= np.uint64(self.prime)
        return (residues % np.uint64(self.g)).astype(np.min_scalar_type(self.g - 1))

    def count_matches(
        self, seeds: NDArray[np.uint32], buckets: NDArray[Any], heads: NDArray[Any], tails: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Count, for each sum of a head and a tail, the reports whose bucket is that of the sum."""
        counts = np.zeros((len(heads), len(tails)), np.int64)
        prime, g = np.uint32(self.prime), np.uint32(self.g)
        step = max(16, _CELLS // len(tails))
        for start in range(0, len(seeds), step):
            part = seeds[start : start + step]
            base = self._products(part, heads)
            base += part[:, -1]
            base -= prime * (base >= prime)
            added = self._products(part, tails)
            wanted = buckets[start : start + step].astype(np.uint32)
            residue, other = np.empty_like(added), np.empty_like(added)
            for row, count in zip(base, counts, strict=True):
                np.add(added, row, out=residue)  # below 2 P < 2**32
                np.subtract(residue, prime, out=other)  # wraps to beyond P where the sum is below P
                np.minimum(residue, other, out=residue)
                np.floor_divide(residue, g, out=other)
                other *= g
                residue -= other
                count += np.count_nonzero(residue == wanted, axis=1)
        return counts

    def _products(self, seeds: NDArray[np.uint32], vectors: NDArray[Any]) -> NDArray[np.uint32]:
        """Return a · x modulo P, of shape (len(vectors), len(seeds))."""
        total = np.zeros((len(vectors), len(seeds)), np.uint64)
        for place in np.flatnonzero(vectors.any(axis=0)):
            total += vectors[:, place, None].astype(np.uint64) * seeds[:, place].astype(np.uint64)
            total %= np.uint64(self.prime)
        return total.astype(np.uint32)


class PrefixHashing:
    """The client's side of the prefix extending method, on bit strings of one length."""

    # Each record draws a public group, which determines the length of the prefix that it reports. The prefix is hashed
    # into g buckets by a fresh function, and the bucket is randomised with the whole of epsilon ([1]_). **Privacy.**
    # Local model, replacement of the value. Group and seed are drawn independently of the value, so they may be public;
    # given these, the bucket is a report of randomised response.
    # .. [1] T. Wang, N. Li, S. Jha (2021). Locally differentially private heavy hitter identification. IEEE TDSC 18(2),
    #    arXiv:1708.06674.

    def __init__(self, epsilon: float | Fraction, n_bits: int, *, first_bits: int, step_bits: int) -> None:
        self.lengths = [*range(min(first_bits, n_bits), n_bits, step_bits), n_bits]
        self.width = -(-n_bits // LIMB_BITS)
        wanted = capped_epsilon(epsilon)
        centre = int(np.exp(min(float(wanted), 20))) + 1
        sizes = sorted({min(max(2, centre + step), MOST_BUCKETS) for step in (-1, 0, 1)})
        pairs = [(RandomizedResponse(g, wanted), VectorHash(self.width, g)) for g in sizes]
        # Nearly all of the many strings do not occur: their error is what counts.
        self.inner, self.hash_family = min(pairs, key=lambda pair: pure_error(1 << 20, *hashed_support(*pair)))
        self.p, self.q = hashed_support(self.inner, self.hash_family)
        self._masks = np.array([vectors_of([(1 << length) - 1], length, self.width)[0] for length in self.lengths])

    @property
    def epsilon(self) -> float:
        """The achieved privacy loss, rounded up."""
        return log_upper(self.inner.worst_ratio)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of a report."""
        return ["group", "bucket", *(f"seed_{place}" for place in range(self.width + 1))]

    def check_size(self, n: int) -> None:
        """Refuse a call whose reports would exceed `MAX_REPORT_BYTES`."""
        check_bytes(n, len(self.columns), 4)

    def report(self, vectors: NDArray[Any], source: ByteSource) -> NDArray[np.uint32]:
        """Randomise strings."""
        n = len(vectors)
        reports = np.empty((n, len(self.columns)), np.uint32)
        reports[:, 0] = uniform_integers(source, len(self.lengths), n)
        reports[:, 2:] = self.hash_family.draw(source, n)
        prefixes = vectors & self._masks[reports[:, 0]]
        reports[:, 1] = self.inner.report(self.hash_family(reports[:, 2:], prefixes), source)
        return reports

    def valid(self, reports: NDArray[Any]) -> bool:
        """Return whether `report` can return all of the reports."""
        most = [len(self.lengths) - 1, self.inner.k - 1, *[self.hash_family.prime - 1] * (self.width + 1)]
        return bool(((reports >= 0) & (reports <= np.array(most))).all())

    def estimate(self, support: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
        """Compute unbiased estimates of the number of reports of each prefix."""
        gain = float(self.p - self.q)
        support, n = np.asarray(support, float), np.asarray(n, float)
        return (support - n * float(self.q)) / gain if gain else np.full(support.shape, np.nan)

    def variance(self, counts: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
        """Return the variance of `estimate` for given true counts."""
        return support_variance(self.p, self.q, counts, n)


def vectors_of(strings: list[int], length: int, width: int) -> NDArray[np.uint32]:
    """Cut bit strings into vectors of residues, from the first bit on."""
    mask = (1 << LIMB_BITS) - 1
    left = width * LIMB_BITS - length
    shifts = [LIMB_BITS * place for place in reversed(range(width))]
    rows = [[((string << left) >> shift) & mask for shift in shifts] for string in strings]
    return np.array(rows, np.uint32).reshape(len(strings), width)
