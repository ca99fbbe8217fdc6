"""Hash families with a proven collision probability, independent of any hash library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._hadamard_response import walsh_hadamard
from skdp.randomness import BLOCK, ByteSource, uniform_integers

_SMALL_PRIME = 65_521  # the largest below 2**16
_LARGE_PRIME = (1 << 31) - 1
_TERMS = 1 << 20

WORD_BITS = 32
"""Bit strings are cut into words of this length."""


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


class ToeplitzHash:
    """Random affine maps of bit strings over GF(2), into 2**r buckets: ``h(x) = T x + b``."""

    # T is a Toeplitz matrix of uniform bits, ``(T x)_i = sum of t_{i + j} x_j``, and b a uniform vector. Let the last
    # place where the strings x ≠ y differ be j: (T (x - y))_i is t_{i + j} plus bits of lower index, hence T (x - y) is
    # uniform. With b, the pair (h(x), h(y)) is uniform over all pairs of buckets: the hash is pairwise independent.
    #
    # A seed consists of b, the bits t and bits that are not used, in words of 32 bits; the first bit is the highest.

    def __init__(self, n_bits: int, r: int) -> None:
        self.n_bits, self.r, self.g = n_bits, r, 1 << r
        self.width = -(-n_bits // WORD_BITS)
        self.n_words = -(-(n_bits + 2 * r - 1) // WORD_BITS)
        self.collision = Fraction(1, self.g)

    def draw(self, source: ByteSource, n: int) -> NDArray[np.uint32]:
        return uniform_integers(source, 1 << WORD_BITS, n * self.n_words).astype(np.uint32).reshape(n, self.n_words)

    def __call__(self, seeds: NDArray[np.uint32], vectors: NDArray[Any]) -> NDArray[np.uint32]:
        return self._shifts(seeds) ^ _products(self._rows(seeds), vectors.T)

    def count_matches(
        self, seeds: NDArray[np.uint32], buckets: NDArray[Any], heads: NDArray[Any], before: int, length: int
    ) -> NDArray[np.int64]:
        """Count, for each head and each tail, bits `before` to `length`, the reports whose bucket is that of both."""
        n_tail = length - before
        counts = np.zeros((len(heads), 1 << n_tail), np.int64)
        listed = n_tail <= 2 * self.r
        step = _TERMS >> min(self.r, max(n_tail - self.r, 4))
        for start in range(0, len(seeds), step):
            part = seeds[start : start + step]
            rows = [*self._rows(part)]
            tails = np.array([_bits(row, before, length) for row in rows])
            terms = _solutions(tails, n_tail) if listed else _characters(tails, n_tail)
            shifted = self._shifts(part) ^ buckets[start : start + step]
            for count, head in zip(counts, heads, strict=True):
                count += terms(shifted ^ _products(rows, head[:, None]))
        return counts if listed else walsh_hadamard(counts) >> self.r

    def _shifts(self, seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return seeds[:, 0] >> np.uint32(WORD_BITS - self.r)

    def _rows(self, seeds: NDArray[np.uint32]) -> Iterator[NDArray[np.uint32]]:
        """Return each row of T, in words as those of a string and followed by bits that do not matter."""
        words = np.ascontiguousarray(seeds.T)
        for offset in range(self.r, 2 * self.r):
            row = words[: self.width] << np.uint32(offset)
            following = words[1 : self.width + 1] >> np.uint32(WORD_BITS - offset)
            row[: len(following)] |= following
            yield row


def _products(rows: Iterable[NDArray[np.uint32]], vectors: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the products of rows over GF(2) with vectors, as the bits of integers."""
    total: Any = np.uint32(0)
    used = np.flatnonzero(vectors.any(axis=1))
    for place, row in enumerate(rows):
        parity = np.bitwise_count(np.bitwise_xor.reduce(row[used] & vectors[used], axis=0)) & np.uint8(1)
        total = total | parity.astype(np.uint32) << np.uint32(place)
    return np.asarray(total, np.uint32)


def _bits(row: NDArray[np.uint32], before: int, length: int) -> NDArray[np.int64]:
    """Return some bits of strings as integers."""
    total = np.zeros(row.shape[1], np.int64)
    for place in range(before // WORD_BITS, -(-length // WORD_BITS)):
        end = (place + 1) * WORD_BITS
        word = row[place].astype(np.int64) & (1 << min(WORD_BITS, end - before)) - 1
        total |= word << length - end if length > end else word >> end - length
    return total


def _characters(rows: NDArray[np.int64], n_bits: int) -> Callable[[NDArray[np.uint32]], NDArray[np.int64]]:
    """Prepare to count the solutions x of ``rows x = y``, as the coefficients of a Walsh-Hadamard transform."""
    # By Fourier inversion, x is a solution of ``sum over u of (-1)**(u · (rows x + y)) = 2**r``, else the sum is 0: one
    # character of x for each u, the sum of the rows in u.
    sums = np.zeros((1 << len(rows), rows.shape[1]), np.int64)
    for place, row in enumerate(rows):
        half = 1 << place
        np.bitwise_xor(sums[:half], row, out=sums[half : 2 * half])
    vectors = np.arange(len(sums))
    signs = 1.0 - 2 * (np.bitwise_count(vectors[:, None] & vectors) & 1)

    def count(y: NDArray[np.uint32]) -> NDArray[np.int64]:
        weights = np.take(signs, y, axis=1).ravel()
        return np.bincount(sums.ravel(), weights, minlength=1 << n_bits).astype(np.int64)  # whole numbers: exact

    return count


def _solutions(rows: NDArray[np.int64], n_bits: int) -> Callable[[NDArray[np.uint32]], NDArray[np.int64]]:
    """Prepare to count the solutions x of ``rows x = y``, by Gaussian elimination over GF(2) and listing them."""
    r, n = rows.shape
    each = np.arange(n)
    work = rows | (1 << n_bits + np.arange(r))[:, None]  # behind its bits, of which rows each is the sum
    pivots = np.zeros_like(work)
    for place in range(n_bits):
        has = work >> place & 1
        usable = has * (pivots == 0)
        chosen = usable.argmax(axis=0)
        found = usable[chosen, each]
        pivot = work[chosen, each] * found
        work ^= has * pivot
        work[chosen, each] ^= pivot
        pivots[chosen, each] |= found << place
    solved = np.bitwise_or.reduce(pivots, axis=0)
    kernel = np.zeros((n_bits, n), np.int64)
    for place in range(n_bits):
        free = 1 - (solved >> place & 1)
        kernel[place] = free * ((1 << place) + (pivots * (work >> place & 1)).sum(axis=0))
    kernel = np.sort(kernel, axis=0)[::-1]  # a basis, followed by zeros
    dimensions = n_bits - np.bitwise_count(solved).astype(np.int64)
    spans = []
    for dimension in np.unique(dimensions).tolist():
        places = np.flatnonzero(dimensions == dimension)
        span = np.zeros((1 << dimension, places.size), np.int64)
        for half in range(dimension):
            np.bitwise_xor(span[: 1 << half], kernel[half, places], out=span[1 << half : 2 << half])
        spans.append((places, span))
    sums = (work >> n_bits).astype(np.uint32)

    def count(y: NDArray[np.uint32]) -> NDArray[np.int64]:
        odd = np.bitwise_count(sums & y) & 1
        solvable = ~(odd.astype(bool) & (pivots == 0)).any(axis=0)
        one = (odd * pivots).sum(axis=0)
        total = np.zeros(1 << n_bits, np.int64)
        for places, span in spans:
            kept = solvable[places]
            listed = span[:, kept] ^ one[places[kept]]
            total += np.bincount(listed.ravel(), minlength=1 << n_bits)
        return total

    return count


def _residues(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Reduce words below 2**62 + 2**31 modulo 2**31 - 1, where 2**31 is 1."""
    prime = np.uint64(_LARGE_PRIME)
    folded = (words & prime) + (words >> np.uint64(31))  # below 2**32 + 1
    folded = (folded & prime) + (folded >> np.uint64(31))  # at most 2**31, below twice the prime
    return folded - prime * (folded >= prime)
