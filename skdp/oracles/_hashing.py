"""Local hashing: report a public hash function and the randomized bucket of the value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Bytes, Codes, Integers, Mask
from skdp.oracles._oracle import (
    FrequencyOracle,
    cap_epsilon,
    encode_integers,
)
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.privacy import ReportPair
from skdp.randomness import (
    BLOCK,
    ByteSource,
    SeededSource,
    check_size,
    draw_by_row,
    uniform_integers,
)

# Moduli of the hash functions: the largest prime below 2**16, whose residues fit in 16
# bits, and a Mersenne prime for more values.
_SMALL_PRIME, _LARGE_PRIME = 65_521, (1 << 31) - 1

# The best number of buckets is e^epsilon + 1, so this is enough up to an epsilon of 11.
MAX_BUCKETS = _SMALL_PRIME


class AffineHash:
    """Hash functions ``h(x) = ((a x + b) mod P) mod g`` of k values into g buckets, P prime.

    The seed of a function contains a in its higher bits, and b in its lower bits.
    """

    # The collision probability c is the same for all pairs of values x != y, and exact:
    # For a and b uniform over the residues modulo P, the pair (a x + b, a y + b) takes
    # each of its P**2 values for exactly one (a, b), because the matrix of the two
    # equations has the determinant x - y != 0 modulo the prime. So the residues of x and
    # y are independent and uniform. With P = m g + s, s buckets have m + 1 residues and
    # the other buckets have m, hence c = (s (m + 1)**2 + (g - s) m**2) / P**2.

    def __init__(self, k: int, g: int) -> None:
        # `prime` is P, `seed_bits` is the number of bits of a seed, and `collision` is
        # the probability c that two values have the same bucket.
        self.k = k
        self.g = g
        is_small = max(k, g) <= _SMALL_PRIME
        self.prime = _SMALL_PRIME if is_small else _LARGE_PRIME
        # Unsigned integers for residues, and the number of bits of a residue.
        self._word: Any = np.uint16 if is_small else np.uint32
        self._shift = 16 if is_small else 31
        self.seed_bits = 2 * self._shift
        m, s = divmod(self.prime, g)
        n_collisions = s * (m + 1) ** 2 + (g - s) * m**2
        self.collision = Fraction(n_collisions, self.prime**2)

    def draw(self, source: ByteSource, n: int) -> NDArray[np.uint64]:
        """Draw the seeds of n hash functions, of shape (n,): a in the higher bits, and b in the lower bits."""
        seeds = uniform_integers(source, self.prime, n).astype(np.uint64)
        seeds <<= np.uint64(self._shift)
        seeds |= uniform_integers(source, self.prime, n)
        return seeds

    def __call__(self, seeds: NDArray[np.uint64], codes: NDArray[Any]) -> Codes:
        """Compute the bucket of each code with the hash function of its seed.

        `seeds` and `codes` have the same shape, or shapes that broadcast. The buckets
        are integers from 0 to g - 1.
        """
        factor, summand = self._split_seeds(seeds)
        residues = (factor * codes.astype(np.uint64) + summand) % np.uint64(self.prime)
        return (residues % np.uint64(self.g)).astype(np.min_scalar_type(self.g - 1))

    def _split_seeds(
        self, seeds: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Split seeds into the factors a and the summands b."""
        shift = np.uint64(self._shift)
        return seeds >> shift, seeds & np.uint64((1 << self._shift) - 1)

    def are_valid(self, seeds: NDArray[np.uint64]) -> bool:
        """Return True if `draw` can return all of the seeds."""
        factors, summands = self._split_seeds(seeds)
        return max(factors.max(initial=0), summands.max(initial=0)) < self.prime

    def count_matches(
        self, seeds: NDArray[np.uint64], buckets: NDArray[Any]
    ) -> Integers:
        """Count, for each of the k values, the reports whose bucket is the hash of the value: (k,).

        Each report is a seed of a hash function and a bucket; both arrays have the
        shape (n_reports,).
        """
        # The residue a x + b of the value x + 1 is the residue of x plus a, so a hash of
        # all reports takes one addition in place of a multiplication.
        counts = np.zeros(self.k, np.int64)
        prime = self._word(self.prime)
        g = self._word(self.g)
        step = BLOCK // 2
        for start in range(0, seeds.size, step):
            factors, summands = self._split_seeds(seeds[start : start + step])
            factor = factors.astype(self._word)
            residue = summands.astype(self._word)
            reported = buckets[start : start + step].astype(self._word)
            for value in range(self.k):
                # residue % g, which is slower in NumPy than a division by a constant.
                quotient = residue // g
                quotient *= g
                counts[value] += np.count_nonzero(residue - quotient == reported)
                residue += factor
                # Reduce modulo the prime. A sum above 2**16 has wrapped around in 16
                # bits, and is then smaller than its summand.
                exceeds = residue >= prime
                exceeds |= residue < factor
                residue -= prime * exceeds
        return counts


class LocalHashing(FrequencyOracle):
    """Local hashing: report a public seed and the randomized bucket of the value.

    Each report draws a hash function into g buckets, and randomizes the bucket of its
    value by randomized response over the g buckets. It supports all values of the
    reported bucket ([1]_, section 4).

    Parameters
    ----------
    k : int
        Number of values, from 2 to 2**31 - 2.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0.
    n_buckets : int, default=None
        Number g of buckets, from 2 to 65,521; 2 is binary local hashing (BLH). None uses
        e^eps + 1 (optimized local hashing, OLH), but at most k.

    Attributes
    ----------
    n_buckets : int
        Number of buckets.
    hash_family : AffineHash
        Family of hash functions, with the exact collision probability c.
    p, q : Fraction
        Exact support probabilities: p is the probability that randomized response
        reports the true bucket, and ``q = c p + (1 - c) (1 - p) / (g - 1)``.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. The seed is drawn independently
    of the value, so it may be public; given the seed, the bucket is a report of
    randomized response.

    Hashes of two values are independent, but hashes of three values are not. The errors
    of groups of values are therefore estimated from the reports, or from simulated
    reports.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.

    Examples
    --------
    >>> from skdp.oracles import LocalHashing
    >>> oracle = LocalHashing(1_000, 1.0)
    >>> oracle.n_buckets, oracle.report_bytes, round(oracle.mean_squared_error, 2)
    (4, 5, 3.69)
    """

    field_names = ("seed", "bucket")
    state = "bucket"
    shows_hash = True

    def __init__(
        self, k: int, epsilon: float | Fraction, *, n_buckets: int | None = None
    ) -> None:
        # A report is the seed of a random hash function and a bucket: the hash of the
        # value, randomized by randomized response over the g buckets. p is the
        # probability that a report supports the true value, and q the probability for
        # any other value.
        self.k = check_size(k, max_val=(1 << 31) - 2)
        if n_buckets is None:
            # The error of an absent value is smallest at e^eps + 1 buckets. There, the
            # mean error over few values exceeds its minimum by at most 4 %.
            power = math.exp(min(float(cap_epsilon(epsilon)), 50))
            n_buckets = min(round(power) + 1, self.k, MAX_BUCKETS)
        g = check_size(n_buckets, max_val=MAX_BUCKETS, name="n_buckets")
        self.hash_family = AffineHash(self.k, g)
        self.n_buckets = g
        self._bucket_oracle = RandomizedResponse(g, epsilon)
        self.p = self._bucket_oracle.p
        # Another value is supported if it has the true bucket, which is reported with
        # probability p, or if its own bucket is reported in place of the true one.
        collision = self.hash_family.collision
        self.q = collision * self.p + (1 - collision) * self._bucket_oracle.q

    @property
    def worst_ratio(self) -> Fraction:
        return self._bucket_oracle.worst_ratio

    def shuffle_pair(self) -> ReportPair:
        # For amplification by shuffling: the distributions of a report under two different
        # values.
        # Two values have the same bucket with the collision probability, which is equal
        # for all pairs, and otherwise different buckets. The counts are buckets of the
        # first value only, of the second value only, of both, and of neither.
        p = self._bucket_oracle.p
        q = self._bucket_oracle.q
        g = self.n_buckets
        collision = self.hash_family.collision
        different = ReportPair.from_support(p, q, (1, 1, 0, g - 2))
        same = ReportPair.from_support(p, q, (0, 0, 1, g - 1))
        return ReportPair.mixture(((1 - collision, different), (collision, same)))

    @property
    def variation(self) -> Fraction:
        return self._bucket_oracle.variation

    @property
    def n_reports(self) -> int:
        return self.n_buckets

    @property
    def pair_supports(self) -> tuple[float, float]:
        # Probabilities that a report supports two values: the true value and another
        # one, and two values other than the true one.
        # The hashes of three values are assumed to be independent, which is accurate
        # enough for plans. The true value and another one are supported if they collide
        # and the bucket is reported. Two other values are supported if all three collide,
        # or if they collide with each other only and their bucket is reported.
        p = float(self.p)
        collision = float(self.hash_family.collision)
        q_bucket = (1 - p) / (self.n_buckets - 1)
        triple = collision**2
        return p * collision, p * triple + q_bucket * (collision - triple)

    @property
    def report_bytes(self) -> int:
        n_seed_bytes = math.ceil(self.hash_family.seed_bits / 8)
        return n_seed_bytes + self._bucket_oracle.report_bytes

    def sampler(self) -> dict[str, Any]:
        # Parameters with which a client in another language makes such reports.
        return {
            "kind": "hashing",
            "k": self.k,
            "n_buckets": self.n_buckets,
            "prime": self.hash_family.prime,
            "inner": self._bucket_oracle.sampler(),
        }

    def parameters(self) -> dict[str, Any]:
        numbers = {"n_buckets": self.n_buckets, "prime": self.hash_family.prime}
        return super().parameters() | numbers

    def report(self, codes: Codes, source: ByteSource) -> NDArray[np.uint64]:
        # A report is the seed of a random hash function, and the randomized bucket of
        # the true value.
        self._check_codes(codes)
        seeds = self.hash_family.draw(source, codes.size)
        buckets = self.hash_family(seeds, codes)
        return np.column_stack([seeds, self._bucket_oracle.report(buckets, source)])

    def supports(self, reports: NDArray[Any]) -> Mask:
        return self._supports_of(reports, np.arange(self.k))

    def _supports_of(self, reports: NDArray[Any], cells: NDArray[Any]) -> Mask:
        self._check_reports(reports)
        return self.hash_family(reports[:, :1], cells) == reports[:, 1:]

    def tally(self, reports: NDArray[Any]) -> Integers:
        # Count the reports that support each value: whose reported bucket is its hash.
        self._check_reports(reports)
        # With few reports, hashing all values of a report at once is faster than hashing
        # each value for all reports.
        if len(reports) < min(1000, self.k):
            return super().tally(reports)
        return self.hash_family.count_matches(reports[:, 0], reports[:, 1])

    def report_keyed(
        self,
        codes: Codes,
        values: Bytes,
        digests: Callable[..., Bytes],
    ) -> NDArray[np.uint64]:
        # Draw permanent reports: seed and bucket follow from digests, keyed hashes of
        # 32 bytes, so equal records and buckets get equal reports. ``digests(purpose)``
        # returns a digest for each record, and ``digests(purpose, buckets)`` one for
        # each record and bucket.
        # The seed depends on the record only, and the report on the record and the
        # bucket of its value, so values in one bucket have one report.
        seeds = draw_by_row(
            lambda codes, source: self.hash_family.draw(source, codes.size),
            digests("seed"),
            codes,
        )
        buckets = self.hash_family(seeds, codes)
        bucket_digests = digests("report", encode_integers(buckets))
        reports = self._bucket_oracle._draw_keyed(buckets, bucket_digests)
        return np.column_stack([seeds, reports])

    def _read(self, columns: NDArray[Any]) -> NDArray[np.uint64]:
        """Check the columns of stored reports, seeds and buckets, and convert them to the dtype of reports."""
        reports = columns.astype(np.uint64, copy=False)
        self._check_reports(reports)
        return reports

    def _check_reports(self, reports: NDArray[Any]) -> None:
        """Check that each row has a seed and a bucket that `report` can return."""
        if reports.ndim != 2 or reports.shape[1] != 2 or reports.dtype != np.uint64:
            raise ValueError(
                "`reports` must be an array of uint64 of shape (n, 2), got shape "
                f"{reports.shape} ({reports.dtype})."
            )
        is_bucket = reports[:, 1].max(initial=0) < self.n_buckets
        if not is_bucket or not self.hash_family.are_valid(reports[:, 0]):
            raise ValueError(
                f"`reports` must have seeds of this hash family and buckets below "
                f"{self.n_buckets}. Use the parameters of the client."
            )

    def channel(self, seed: int = 0) -> list[list[Fraction]]:
        """Return the exact probability of each bucket given each value and the public seed.

        Parameters
        ----------
        seed : int, default=0
            Public seed of the hash function.

        Returns
        -------
        list of list of Fraction
            One row per true value, one column per bucket.
        """
        buckets = self.hash_family(np.full(self.k, seed, np.uint64), np.arange(self.k))
        bucket_channel = self._bucket_oracle.channel()
        return [bucket_channel[bucket] for bucket in buckets]

    def channels(self) -> Iterator[list[list[Fraction]]]:
        # The hash functions are public, so any 16 of them serve. The fixed seed makes
        # audits reproducible.
        for seed in self.hash_family.draw(SeededSource(0), 16):
            yield self.channel(int(seed))
