"""Hash families with a proven collision probability, independent of any hash library."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._hadamard_response import walsh_hadamard
from skdp.oracles._support import check_size
from skdp.randomness import BLOCK, ByteSource, uniform_integers

_SMALL_PRIME = 65_521  # the largest below 2**16
_LARGE_PRIME = (1 << 31) - 1
# Of a sum at a time, so that they stay in the cache.
_TERMS = 1 << 16


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

    def __call__(
        self, seeds: NDArray[np.uint64], codes: NDArray[Any]
    ) -> NDArray[np.unsignedinteger]:
        factor, summand = self._parts(seeds)
        residues = (factor * codes.astype(np.uint64) + summand) % np.uint64(self.prime)
        return (residues % np.uint64(self.g)).astype(np.min_scalar_type(self.g - 1))

    def _parts(
        self, seeds: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        return seeds >> np.uint64(self._shift), seeds & np.uint64(
            (1 << self._shift) - 1
        )

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

    def count_matches(
        self, seeds: NDArray[np.uint64], buckets: NDArray[Any]
    ) -> NDArray[np.int64]:
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
        if (
            seeds.size * (1_000 + self.k) < 1_000 * self.k
        ):  # few reports of many values: report by report
            for seed, bucket in zip(seeds, buckets, strict=True):
                counts += self(seed, np.arange(self.k)) == bucket
            return counts
        prime, g = self._word(self.prime), self._word(self.g)
        step = BLOCK // 2
        for start in range(0, seeds.size, step):
            factor, residue = (
                part.astype(self._word)
                for part in self._parts(seeds[start : start + step])
            )
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
        return (
            uniform_integers(source, _LARGE_PRIME, 3 * n)
            .astype(np.uint64)
            .reshape(n, 3)
        )

    def __call__(
        self, functions: NDArray[Any], codes: NDArray[Any]
    ) -> NDArray[np.unsignedinteger]:
        values = codes.astype(np.uint64)
        square, linear, constant = (
            self.coefficients[functions, place] for place in range(3)
        )
        residues = _residues(_residues(square * values + linear) * values + constant)
        # Compute the remainder from the quotient: NumPy vectorises division by a scalar, but not the remainder.
        buckets = residues - residues // np.uint64(self.g) * np.uint64(self.g)
        return buckets.astype(np.min_scalar_type(self.g - 1))


class LinearHash:
    """Parities of the bits of a number, as a bucket of r bits.

    A seed is r words of n bits. Bit i of the bucket of x is the parity of the bits that x and word i have in common: a
    linear map over GF(2). For x ≠ y, the parities of x XOR y are r independent fair coins, so that two values collide
    with probability exactly ``2**-r``, the same for every pair.

    Parameters
    ----------
    n_bits : int
        The number n of bits of a value, from 1 to 62.
    r : int
        The number of bits of a bucket, from 1 to 16.

    Attributes
    ----------
    g : int
        The number of buckets.
    collision : Fraction
        The probability ``2**-r``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.oracles import LinearHash
    >>> family = LinearHash(4, 2)
    >>> family(np.array([[0b0001, 0b0110]]), np.array([0b0111]))
    array([1])
    """

    def __init__(self, n_bits: int, r: int) -> None:
        self.n_bits = check_size(n_bits, least=1, most=62, name="n_bits")
        self.r = check_size(r, least=1, most=16, name="r")
        self.g = 1 << r
        self.collision = Fraction(1, self.g)

    def draw(self, source: ByteSource, n: int) -> NDArray[np.int64]:
        """Draw seeds.

        Parameters
        ----------
        source : ByteSource
            Source of the random bytes.
        n : int
            Number of seeds.

        Returns
        -------
        ndarray of shape (n, r), dtype int64
            Seeds, which may be public.
        """
        words = source.bytes(8 * n * self.r).view("<u8") & np.uint64(
            (1 << self.n_bits) - 1
        )
        return words.astype(np.int64).reshape(n, self.r)

    def __call__(
        self, seeds: NDArray[np.int64], values: NDArray[np.int64] | int
    ) -> NDArray[np.int64]:
        buckets = np.zeros(len(seeds), np.int64)
        for place in range(self.r):
            parity = np.bitwise_count(seeds[:, place] & values).astype(np.int64) & 1
            buckets |= parity << place
        return buckets

    def count_matches(
        self,
        seeds: NDArray[np.int64],
        buckets: NDArray[np.int64],
        head: int,
        n_tail: int,
    ) -> NDArray[np.int64]:
        """Count, for each value that differs from a head in its last bits only, the reports of the value's bucket.

        Parameters
        ----------
        seeds : ndarray of shape (n, r), dtype int64
            The seeds of the reports.
        buckets : ndarray of shape (n,), dtype int64
            Their buckets.
        head : int
            A value whose last `n_tail` bits are 0.
        n_tail : int
            The number of bits of a tail.

        Returns
        -------
        ndarray of shape (2**n_tail,), dtype int64
            The count for the sum of the head and each tail, in O(n 2^r + n_tail 2^n_tail).
        """
        # A report of bucket y supports x if the sum over all u of r bits of (-1)**(u · (h(x) + y)) is 2**r; otherwise
        # the sum is 0. Of a tail, u · h(tail) is the parity of the bits that it and the sum of the words in u have in
        # common: for all tails, the sum over the reports is a Walsh-Hadamard transform.
        characters = np.arange(self.g)
        signs = 1.0 - 2 * (np.bitwise_count(characters[:, np.newaxis] & characters) & 1)
        differences = buckets ^ self(seeds, head)
        tail_words = seeds & ((1 << n_tail) - 1)
        sums = np.zeros((1, 1 << n_tail), np.int64)
        step = max(1, _TERMS >> self.r)
        for start in range(0, len(seeds), step):
            part = tail_words[start : start + step]
            words = np.zeros(
                (self.g, len(part)), np.int64
            )  # the sum of the words in each u, for each report
            for place, word in enumerate(part.T):
                half = 1 << place
                words[half : 2 * half] = words[:half] ^ word
            weights = np.take(signs, differences[start : start + step], axis=1)
            total = np.bincount(words.ravel(), weights.ravel(), minlength=1 << n_tail)
            sums += total.astype(np.int64)  # whole numbers: exact
        return walsh_hadamard(sums)[0] >> self.r


def _residues(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Reduce words below 2**62 + 2**31 modulo 2**31 - 1, where 2**31 is 1."""
    prime = np.uint64(_LARGE_PRIME)
    folded = (words & prime) + (words >> np.uint64(31))  # below 2**32 + 1
    folded = (folded & prime) + (
        folded >> np.uint64(31)
    )  # at most 2**31, below twice the prime
    return folded - prime * (folded >= prime)
