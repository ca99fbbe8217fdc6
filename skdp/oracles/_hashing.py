"""Hash families with a proven collision probability, independent of any hash library."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import BLOCK, ByteSource, uniform_integers

_SMALL_PRIME = 65_521  # the largest below 2**16
_LARGE_PRIME = (1 << 31) - 1
_VECTOR_CELLS = 1 << 18


def collision_probability(prime: int, g: int) -> Fraction:
    """Return the probability that two independent uniform residues fall into the same of g buckets."""
    smaller, larger = divmod(prime, g)
    return Fraction(larger * (smaller + 1) ** 2 + (g - larger) * smaller**2, prime**2)


class AffineHash:
    """Affine maps modulo a prime P, folded into g buckets: ``h(x) = ((a x + b) mod P) mod g``.

    For a and b uniform over the residues modulo P and x ≠ y, the pair (a x + b, a y + b) takes each of its P² values
    for exactly one (a, b): the matrix of the two equations has the determinant x - y ≠ 0 modulo the prime. The two are
    therefore independent and uniform. With P = m g + s, s buckets have m + 1 residues and the others m, and the values
    collide with probability exactly ``c = (s (m + 1)² + (g - s) m²) / P²``, the same for every pair.

    Parameters
    ----------
    k : int
        The number of values, below 2**31 - 1.
    g : int
        The number of buckets, from 2 to P.

    Attributes
    ----------
    prime : int
        P: 65,521 if k is at most this, else 2**31 - 1.
    seed_bits : int
        The width of a seed, which contains a and b: 32 or 62 bits.
    collision : Fraction
        The probability c.

    Examples
    --------
    >>> from skdp.oracles import AffineHash
    >>> family = AffineHash(1000, 4)
    >>> family.prime, round(float(family.collision), 4)
    (65521, 0.25)
    """

    def __init__(self, k: int, g: int) -> None:
        self.k, self.g = k, g
        self.prime = _SMALL_PRIME if max(k, g) <= _SMALL_PRIME else _LARGE_PRIME
        if max(k, g) > self.prime:
            raise ValueError(f"at most {_LARGE_PRIME} values and buckets can be hashed")
        # Sums of two residues of 16 bits may wrap, which `count_matches` detects.
        self._word: Any = np.uint16 if self.prime == _SMALL_PRIME else np.uint32
        self._shift = 16 if self.prime == _SMALL_PRIME else 31
        self.seed_bits = 2 * self._shift
        self.collision = collision_probability(self.prime, g)

    def draw(self, source: ByteSource, n: int) -> NDArray[np.uint64]:
        """Draw seeds.

        Parameters
        ----------
        source : ByteSource
            Source of the random bytes.
        n : int
            Number of seeds.

        Returns
        -------
        ndarray of shape (n,), dtype uint64
            Seeds, which may be public.
        """
        seeds = uniform_integers(source, self.prime, n).astype(np.uint64)
        seeds <<= np.uint64(self._shift)
        seeds |= uniform_integers(source, self.prime, n)
        return seeds

    def __call__(self, seeds: NDArray[np.uint64], codes: NDArray[Any]) -> NDArray[np.unsignedinteger]:
        factor, summand = self._parts(seeds)
        residues = (factor * codes.astype(np.uint64) + summand) % np.uint64(self.prime)
        return (residues % np.uint64(self.g)).astype(np.min_scalar_type(self.g - 1))

    def _parts(self, seeds: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        return seeds >> np.uint64(self._shift), seeds & np.uint64((1 << self._shift) - 1)

    def valid(self, seeds: NDArray[np.uint64]) -> bool:
        """Return whether `draw` can return all of the seeds.

        Parameters
        ----------
        seeds : ndarray of shape (n,), dtype uint64
            Seeds.

        Returns
        -------
        bool
            True if both halves are below the prime.
        """
        return all(part.max(initial=0) < self.prime for part in self._parts(seeds))

    def count_matches(self, seeds: NDArray[np.uint64], buckets: NDArray[Any]) -> NDArray[np.int64]:
        """Count, for each value, the reports whose bucket is that of the value.

        Parameters
        ----------
        seeds : ndarray of shape (n,), dtype uint64
            The seeds of the reports.
        buckets : ndarray of integers, shape (n,)
            Their buckets.

        Returns
        -------
        ndarray of shape (k,), dtype int64
            The counts. From one value to the next each residue increases by a: a hash costs one addition.
        """
        counts = np.zeros(self.k, np.int64)
        if seeds.size * (1_000 + self.k) < 1_000 * self.k:  # few reports of many values: report by report
            for seed, bucket in zip(seeds, buckets, strict=True):
                counts += self(seed, np.arange(self.k)) == bucket
            return counts
        prime, g = self._word(self.prime), self._word(self.g)
        step = BLOCK // 2
        for start in range(0, seeds.size, step):
            factor, residue = (part.astype(self._word) for part in self._parts(seeds[start : start + step]))
            wanted = buckets[start : start + step].astype(self._word)
            for value in range(self.k):
                quotient = residue // g
                quotient *= g
                counts[value] += np.count_nonzero(residue - quotient == wanted)
                residue += factor
                wrapped = residue >= prime
                wrapped |= residue < factor  # the sum wrapped
                residue -= prime * wrapped
        return counts


class QuadraticHash:
    """Polynomials of degree 2 modulo the prime P = 2**31 - 1, folded into g buckets.

    Three values are hashed independently and uniformly over the residues (the Vandermonde determinant of three distinct
    values is not 0 modulo P): collisions with one value are independent of each other, and two values collide with the
    probability given in `AffineHash`.

    Parameters
    ----------
    k : int
        The number of values, below 2**31 - 1.
    g : int
        The number of buckets.
    coefficients : ndarray of shape (d, 3), dtype uint64
        The coefficients of d public functions, residues modulo P.

    Attributes
    ----------
    collision : Fraction
        The probability, over the coefficients, that two given values collide.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.oracles import QuadraticHash
    >>> family = QuadraticHash(1000, 4, np.array([[1, 2, 3], [4, 5, 6]], dtype=np.uint64))
    >>> round(float(family.collision), 4)
    0.25
    """

    def __init__(self, k: int, g: int, coefficients: NDArray[np.uint64]) -> None:
        if max(k, g) > _LARGE_PRIME:
            raise ValueError(f"at most {_LARGE_PRIME} values and buckets can be hashed")
        self.k, self.g, self.coefficients = k, g, coefficients
        self.collision = collision_probability(_LARGE_PRIME, g)

    @staticmethod
    def draw(source: ByteSource, n: int) -> NDArray[np.uint64]:
        """Draw the coefficients of hash functions.

        Parameters
        ----------
        source : ByteSource
            Source of the random bytes.
        n : int
            Number of functions.

        Returns
        -------
        ndarray of shape (n, 3), dtype uint64
            Residues.
        """
        return uniform_integers(source, _LARGE_PRIME, 3 * n).astype(np.uint64).reshape(n, 3)

    def __call__(self, functions: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.unsignedinteger]:
        values = codes.astype(np.uint64)
        square, linear, constant = (self.coefficients[functions, place] for place in range(3))
        residues = _residues(_residues(square * values + linear) * values + constant)
        # Compute the remainder from the quotient: NumPy vectorises division by a scalar, but not the remainder.
        buckets = residues - residues // np.uint64(self.g) * np.uint64(self.g)
        return buckets.astype(np.min_scalar_type(self.g - 1))


class VectorHash:
    """Affine maps of vectors modulo a prime P, folded into g buckets: ``h(x) = ((a · x + b) mod P) mod g``."""

    # For a uniform vector a and a uniform b, let the vectors x ≠ y of residues differ in place j. For any other
    # coefficients, the equations ``a_j x_j + b = u``, ``a_j y_j + b = w`` have exactly one solution (a_j, b) for each
    # of the P² pairs (u, w), as for `AffineHash`: the residues of x and y are independent and uniform, and the vectors
    # collide with the same probability for every pair and every length.

    def __init__(self, width: int, g: int, *, prime: int = _LARGE_PRIME) -> None:
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
        step = max(16, _VECTOR_CELLS // len(tails))
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


def _residues(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Reduce words below 2**62 + 2**31 modulo 2**31 - 1, where 2**31 is 1."""
    prime = np.uint64(_LARGE_PRIME)
    folded = (words & prime) + (words >> np.uint64(31))  # below 2**32 + 1
    folded = (folded & prime) + (folded >> np.uint64(31))  # at most 2**31, below twice the prime
    return folded - prime * (folded >= prime)
