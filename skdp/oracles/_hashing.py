"""Local hashing: a public hash function, and a randomized bucket."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import (
    FrequencyOracle,
    capped_epsilon,
    draw_by_row,
)
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.privacy import ReportPair
from skdp.randomness import (
    BLOCK,
    ByteSource,
    SeededSource,
    check_size,
    uniform_integers,
)

# The largest prime below 2**16, so that residues are words of 16 bits.
_SMALL_PRIME = 65_521

# Prime for more values.
_LARGE_PRIME = (1 << 31) - 1

# Enough buckets for an epsilon of 11: the best number is about e^epsilon.
MAX_BUCKETS = _SMALL_PRIME


class AffineHash:
    """Affine maps modulo a prime P, folded into g buckets: ``h(x) = ((a x + b) mod P) mod g``."""

    # For a and b uniform over the residues modulo P and x != y, the pair (a x + b, a y +
    # b) takes each of its P**2 values for exactly one (a, b): the matrix of the two
    # equations has the determinant x - y != 0 modulo the prime. The two are therefore
    # independent and uniform. With P = m g + s, s buckets have m + 1 residues and the
    # other buckets have m, and the values collide with probability exactly ``c = (s (m +
    # 1)**2 + (g - s) m**2) / P**2``, the same for every pair.

    def __init__(self, k: int, g: int) -> None:
        self.k = k
        self.g = g
        # `count_matches` detects sums of two residues that wrap at 16 bits.
        is_small = max(k, g) <= _SMALL_PRIME
        self.prime = _SMALL_PRIME if is_small else _LARGE_PRIME
        self._word: Any = np.uint16 if is_small else np.uint32
        self._shift = 16 if is_small else 31
        self.seed_bits = 2 * self._shift
        quotient, n_larger = divmod(self.prime, g)
        n_equal = n_larger * (quotient + 1) ** 2 + (g - n_larger) * quotient**2
        self.collision = Fraction(n_equal, self.prime**2)

    def draw(self, source: ByteSource, n: int) -> NDArray[np.uint64]:
        """Draw the seeds of n hash functions, which may be public."""
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
        shift = np.uint64(self._shift)
        return seeds >> shift, seeds & np.uint64((1 << self._shift) - 1)

    def valid(self, seeds: NDArray[np.uint64]) -> bool:
        """Return True if `draw` can return all of the seeds."""
        return all(part.max(initial=0) < self.prime for part in self._parts(seeds))

    def count_matches(
        self, seeds: NDArray[np.uint64], buckets: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Count the reports with the bucket of each value."""
        # From one value to the next each residue increases by a: a hash costs one addition.
        counts = np.zeros(self.k, np.int64)
        prime = self._word(self.prime)
        g = self._word(self.g)
        step = BLOCK // 2
        for start in range(0, seeds.size, step):
            factors, summands = self._parts(seeds[start : start + step])
            factor = factors.astype(self._word)
            residue = summands.astype(self._word)
            reported = buckets[start : start + step].astype(self._word)
            for value in range(self.k):
                quotient = residue // g
                quotient *= g
                counts[value] += np.count_nonzero(residue - quotient == reported)
                residue += factor
                wrapped = residue >= prime
                wrapped |= residue < factor  # the sum wrapped
                residue -= prime * wrapped
        return counts


class LocalHashing(FrequencyOracle):
    """Local hashing on codes: report a public seed and the randomized bucket of the value.

    Each report draws a hash function into g buckets, and randomizes the bucket of its
    value by randomized response over the g buckets. It supports all values of the
    reported bucket ([1]_, section 4).

    Parameters
    ----------
    k : int
        The number of values, from 2 to 2**31 - 2.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    n_buckets : int, optional
        The number g of buckets, from 2 to 65,521; 2 is binary local hashing (BLH). By
        default e^eps + 1 (optimized local hashing, OLH), but not more than k.

    Attributes
    ----------
    n_buckets : int
        The number of buckets.
    hash_family : AffineHash
        The family of hash functions, whose collision probability c is known exactly.
    p, q : Fraction
        The exact support probabilities: p of randomized response, ``q = c p + (1 - c)
        (1 - p) / (g - 1)``.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. The seed is drawn independently
    of the value, so it may be public; given the seed, the bucket is a report of
    randomized response.

    Hashes of two values are independent, but hashes of three values are not: values
    whose differences have a small ratio share a bucket more often. Errors of groups of
    values are therefore estimated from the reports, or from simulated ones.

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
        self.k = check_size(k, max_val=(1 << 31) - 2)
        if n_buckets is None:
            # The error of an absent value is smallest at e^eps + 1 buckets, where the mean error over few values
            # exceeds its minimum by at most 4 %.
            power = math.exp(min(float(capped_epsilon(epsilon)), 50))
            n_buckets = min(round(power) + 1, self.k, MAX_BUCKETS)
        g = check_size(n_buckets, max_val=MAX_BUCKETS, name="n_buckets")
        self.hash_family = AffineHash(self.k, g)
        inner = RandomizedResponse(g, epsilon)
        self._inner = inner
        self.n_buckets = inner.k
        self.p = inner.p
        # A false value is supported if it shares the bucket, or by a misreport.
        collision = self.hash_family.collision
        self.q = collision * inner.p + (1 - collision) * inner.q

    @property
    def worst_ratio(self) -> Fraction:
        return self._inner.worst_ratio

    def shuffle_pair(self) -> ReportPair:
        # Two values fall into different buckets, or into the same one with a
        # probability that is equal for all pairs.
        p = self._inner.p
        q = self._inner.q
        g = self.n_buckets
        meet = Fraction(self.hash_family.collision)
        apart = ReportPair.from_support(p, q, (1, 1, 0, g - 2))
        together = ReportPair.from_support(p, q, (0, 0, 1, g - 1))
        return ReportPair.mixture(((1 - meet, apart), (meet, together)))

    @property
    def variation(self) -> Fraction:
        return self._inner.variation

    @property
    def n_reports(self) -> int:
        return self.n_buckets

    @property
    def pair_supports(self) -> tuple[float, float]:
        # This assumes that hashes of three values are independent, which is accurate
        # enough for planning.
        p = float(self.p)
        family = self.hash_family
        meet = float(family.collision)
        other_bucket = (1 - p) / (self.n_buckets - 1)
        triple = meet**2
        return p * meet, p * triple + other_bucket * (meet - triple)

    @property
    def report_bytes(self) -> int:
        return -(-self.hash_family.seed_bits // 8) + self._inner.report_bytes

    def sampler(self) -> dict[str, Any]:
        return {
            "kind": "hashing",
            "k": self.k,
            "n_buckets": self.n_buckets,
            "prime": self.hash_family.prime,
            "inner": self._inner.sampler(),
        }

    def parameters(self) -> dict[str, Any]:
        numbers = {"n_buckets": self.n_buckets, "prime": self.hash_family.prime}
        return super().parameters() | numbers

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint64]:
        self._check_codes(codes)
        seeds = self.hash_family.draw(source, codes.size)
        buckets = self.hash_family(seeds, codes)
        return np.column_stack([seeds, self._inner.report(buckets, source)])

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return self._supports_of(reports, np.arange(self.k))

    def _supports_of(
        self, reports: NDArray[Any], cells: NDArray[Any]
    ) -> NDArray[np.bool_]:
        self._check_reports(reports)
        return self.hash_family(reports[:, :1], cells) == reports[:, 1:]

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        self._check_reports(reports)
        # With few reports, hashing all values of a report at once is faster than hashing
        # each value for all reports.
        if len(reports) < min(1000, self.k):
            return super().tally(reports)
        return self.hash_family.count_matches(reports[:, 0], reports[:, 1])

    def report_keyed(
        self,
        codes: NDArray[np.unsignedinteger],
        values: NDArray[np.uint8],
        digests: Callable[..., NDArray[np.uint8]],
    ) -> NDArray[np.uint64]:
        # The seed depends on the record, the report on the record and the bucket of its
        # value.
        seeds = draw_by_row(
            lambda codes, source: self.hash_family.draw(source, codes.size),
            digests("seed"),
            codes,
        )
        buckets = self.hash_family(seeds, codes)
        bucket_bytes = buckets.astype(">i8").view(np.uint8).reshape(-1, 8)
        reports = self._inner._draw_keyed(buckets, digests("report", bucket_bytes))
        return np.column_stack([seeds, reports])

    def _read(self, columns: NDArray[Any]) -> NDArray[np.uint64]:
        reports = columns.astype(np.uint64, copy=False)
        self._check_reports(reports)
        return reports

    def _check_reports(self, reports: NDArray[Any]) -> None:
        if reports.ndim != 2 or reports.shape[1] != 2 or reports.dtype != np.uint64:
            raise ValueError(
                "reports must be unsigned integers of shape (n, 2), "
                f"got {reports.dtype} {reports.shape}"
            )
        is_bucket = reports[:, 1].max(initial=0) < self.n_buckets
        if not is_bucket or not self.hash_family.valid(reports[:, 0]):
            raise ValueError(
                f"reports must have valid seeds and buckets below {self.n_buckets}."
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
        inner = self._inner.channel()
        return [inner[bucket] for bucket in buckets]

    def channels(self) -> Iterator[list[list[Fraction]]]:
        # Seeds are public, so they need not be secret.
        for seed in self.hash_family.draw(SeededSource(0), 16):
            yield self.channel(int(seed))
