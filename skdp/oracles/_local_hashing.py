"""Local hashing of values: a fresh seed, and a randomised bucket."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._hashing import AffineHash
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._support import (
    capped_epsilon,
    check_size,
    hashed_support,
    pure_error,
)
from skdp.privacy import ReportPair
from skdp.randomness import ByteSource, DigestSource, SeededSource

MOST_BUCKETS = 65_521


class LocalHashing(FrequencyOracle):
    """Local hashing on codes: report a public seed and the randomised bucket of the value.

    Each report draws a hash function into g buckets, and randomises the bucket of its value by randomised response over
    the g buckets. It supports all values of the reported bucket ([1]_, section 4).

    Parameters
    ----------
    k : int
        The number of values, from 2 to 2**31 - 2.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    n_buckets : int, optional
        The number g of buckets, from 2 to 65,521; 2 is binary local hashing (BLH). By default the one with the least
        mean squared error, near e^eps + 1 (optimised local hashing, OLH), but not more than k.

    Attributes
    ----------
    n_buckets : int
        The number of buckets.
    hash_family : AffineHash
        The family of hash functions, whose collision probability c is known exactly.
    p, q : Fraction
        The exact support probabilities: p of randomised response, ``q = c p + (1 - c) (1 - p) / (g - 1)``.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. The seed is drawn independently of the value, so it may be
    public; given the seed, the bucket is a report of randomised response.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation.
       USENIX Security.

    Examples
    --------
    >>> oracle = LocalHashing(1_000, 1.0)
    >>> oracle.n_buckets, oracle.report_bytes, round(oracle.mean_squared_error, 2)
    (4, 5, 3.69)
    """

    field_names = ("seed", "bucket")
    state = "bucket"
    shows_hash = True
    has_second_round = True

    def __init__(
        self, k: int, epsilon: float | Fraction, *, n_buckets: int | None = None
    ) -> None:
        self.k = check_size(k, most=(1 << 31) - 2)
        wanted = capped_epsilon(epsilon)
        if n_buckets is None:
            # In floats, for equal buckets; exact errors decide between the best number and its neighbours.
            sizes = np.arange(2.0, min(max(2, self.k), MOST_BUCKETS) + 1)
            excess = math.expm1(min(max(float(wanted), 1e-9), 50))
            gain = excess * (sizes - 1) / (sizes * (excess + sizes))
            p, q = 1 / sizes + gain, 1 / sizes
            best = (
                int(np.argmin(((self.k - 1) * q * (1 - q) + p * (1 - p)) / gain**2)) + 2
            )
            choices = {
                min(max(2, best + step), max(2, self.k), MOST_BUCKETS)
                for step in (-1, 0, 1)
            }
        else:
            choices = {check_size(n_buckets, most=MOST_BUCKETS, name="n_buckets")}
        candidates = [
            (RandomizedResponse(g, wanted), AffineHash(self.k, g))
            for g in sorted(choices)
        ]
        self._inner, self.hash_family = min(
            candidates, key=lambda pair: pure_error(self.k, *hashed_support(*pair))
        )
        self.n_buckets = self._inner.k
        self.p, self.q = hashed_support(self._inner, self.hash_family)

    @property
    def worst_ratio(self) -> Fraction:
        return self._inner.worst_ratio

    def shuffle_pair(self) -> ReportPair:
        # The values fall into two buckets, or with the same probability for every pair into one.
        inner, meet, g = (
            self._inner,
            Fraction(self.hash_family.collision),
            self.n_buckets,
        )
        apart = ReportPair.of_support(inner.p, inner.q, (1, 1, 0, g - 2))
        together = ReportPair.of_support(inner.p, inner.q, (0, 0, 1, g - 1))
        return ReportPair.mixed(((1 - meet, apart), (meet, together)))

    @property
    def variation(self) -> Fraction:
        return self._inner.variation

    @property
    def n_reports(self) -> int:
        return self.n_buckets

    @property
    def pair_supports(self) -> tuple[float, float]:
        # As if three values were hashed independently: up to the rounding of the buckets.
        p, meet = float(self.p), float(self.hash_family.collision)
        return p * meet, p * meet**2 + (1 - p) / (self.n_buckets - 1) * (meet - meet**2)

    @property
    def report_bytes(self) -> int:
        return -(-self.hash_family.seed_bits // 8) + self._inner.report_bytes

    def sampler(self) -> dict[str, Any]:
        numbers = {
            "k": self.k,
            "n_buckets": self.n_buckets,
            "prime": self.hash_family.prime,
        }
        return {"kind": "hashing"} | numbers | {"inner": self._inner.sampler()}

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {
            "n_buckets": self.n_buckets,
            "prime": self.hash_family.prime,
        }

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint64]:
        self._check_codes(codes)
        self._check_size(codes.size, np.dtype(np.uint64).itemsize)
        reports = np.empty((codes.size, 2), np.uint64)
        reports[:, 0] = self.hash_family.draw(source, codes.size)
        reports[:, 1] = self._inner.report(
            self.hash_family(reports[:, 0], codes), source
        )
        return reports

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        self._check_reports(reports)
        return self.hash_family(reports[:, :1], np.arange(self.k)) == reports[:, 1:]

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        self._check_reports(reports)
        return self.hash_family.count_matches(reports[:, 0], reports[:, 1])

    def report_keyed(
        self,
        codes: NDArray[np.unsignedinteger],
        values: NDArray[np.uint8],
        digests: Callable[..., NDArray[np.uint8]],
    ) -> NDArray[np.uint64]:
        # The seed depends on the record, the report on the record and the bucket of its value.
        reports = np.empty((codes.size, 2), np.uint64)
        for row, digest in enumerate(digests("seed")):
            reports[row, 0] = self.hash_family.draw(DigestSource(digest), 1)[0]
        buckets = self.hash_family(reports[:, 0], codes)
        written = buckets.astype(">i8").view(np.uint8).reshape(-1, 8)
        reports[:, 1] = self._inner._draw_keyed(buckets, digests("report", written))
        return reports

    def n_states(self, n_values: int) -> int:
        return self.n_buckets

    def _read(self, columns: NDArray[Any]) -> NDArray[np.uint64]:
        reports = columns.astype(np.uint64, copy=False)
        self._check_reports(reports)
        return reports

    def _check_reports(self, reports: NDArray[Any]) -> None:
        if reports.ndim != 2 or reports.shape[1] != 2 or reports.dtype != np.uint64:
            raise ValueError(
                f"reports must be unsigned integers of shape (n, 2), got {reports.dtype} {reports.shape}"
            )
        if reports[:, 1].max(initial=0) >= self.n_buckets or not self.hash_family.valid(
            reports[:, 0]
        ):
            raise ValueError("the seeds or buckets are not those of this oracle")

    def channel(self, seed: int = 0) -> list[list[Fraction]]:
        """Return the exact probability of each bucket given each value and the public seed.

        Parameters
        ----------
        seed : int, default=0
            The seed.

        Returns
        -------
        list of list of Fraction
            One row per true value, one column per bucket.
        """
        buckets = self.hash_family(np.full(self.k, seed, np.uint64), np.arange(self.k))
        inner = self._inner.channel()
        return [inner[bucket] for bucket in buckets]

    def channels(self) -> Iterator[list[list[Fraction]]]:
        for seed in self.hash_family.draw(
            SeededSource(0), 16
        ):  # public, so they need not be secret
            yield self.channel(int(seed))
