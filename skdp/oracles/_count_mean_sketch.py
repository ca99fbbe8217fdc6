"""Count-mean sketch: a few public hash functions into a small table, for large domains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._hadamard_response import HadamardResponse
from skdp.oracles._hashing import QuadraticHash
from skdp.oracles._support import MAX_REPORT_BYTES, check_size, hashed_support
from skdp.privacy import ReportPair
from skdp.randomness import BLOCK, ByteSource, SeededSource, uniform_integers


class CountMeanSketch(FrequencyOracle):
    """Count-mean sketch on codes: hash the value by a public function, and report the bucket by Hadamard response.

    The server keeps d × m sums for any size of the domain, and estimates a value in O(d) ([1]_, whose Hadamard variant
    reports a single bit; here the number of blocks minimises the error).

    Parameters
    ----------
    k : int
        The number of values, from 2 to 2**31 - 2.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    n_functions : int, default=256
        The number d of hash functions.
    n_buckets : int, default=1024
        The number m of buckets of each.
    seed : int, default=0
        Public seed of the hash functions, the same on client and server; independent of the randomness of reports.

    Attributes
    ----------
    inner : HadamardResponse
        The oracle that reports a bucket.
    hash_family : QuadraticHash
        The functions; c is the probability, over the seed, that two values collide.
    p, q : Fraction
        The support probabilities over the seed; `variance` adds the error of the finite number of functions.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the sums would take more than 2 GiB.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. The function is drawn independently of the value, so it may be
    public; given the function, the report is one of Hadamard response.

    The estimate of a count is unbiased over the seed; for given functions, its bias comes from the values that collide.
    The variance over randomness and seed is that of independent reports plus ``c / (d (1 - c))`` times the sum of
    ``n_u (n_u - 1)`` over the other values u. Divided by n², this part does not fall with n: see `error_floor`. The
    sketch is for small tables on the server, not for small errors.

    References
    ----------
    .. [1] Apple Differential Privacy Team (2017). Learning with privacy at scale. Apple Machine Learning Journal 1(8).

    Examples
    --------
    >>> oracle = CountMeanSketch(1_000_000, 2.0)
    >>> oracle.report_bytes
    3
    """

    field_names = ("function", "index")
    shows_hash = True
    is_signed = True

    def __init__(
        self,
        k: int,
        epsilon: float | Fraction,
        *,
        n_functions: int = 256,
        n_buckets: int = 1024,
        seed: int = 0,
    ) -> None:
        self.k = check_size(k, most=(1 << 31) - 2)
        self.n_functions = check_size(
            n_functions, least=1, most=1 << 24, name="n_functions"
        )
        self.n_buckets = check_size(n_buckets, most=1 << 20, name="n_buckets")
        self.seed = check_size(seed, least=0, most=(1 << 63) - 1, name="seed")
        self.inner = HadamardResponse(self.n_buckets, epsilon)
        size = 8 * self.n_functions * self.inner.n_indices
        if size > MAX_REPORT_BYTES:
            raise ValueError(
                f"{self.n_functions:,} functions into {self.n_buckets:,} buckets need {size:,} bytes of sums "
                f"(the limit is {MAX_REPORT_BYTES:,})"
            )
        coefficients = QuadraticHash.draw(
            SeededSource(self.seed, "CountMeanSketch"), self.n_functions
        )
        self.hash_family = QuadraticHash(self.k, self.n_buckets, coefficients)
        self.p, self.q = hashed_support(self.inner, self.hash_family)

    @property
    def worst_ratio(self) -> Fraction:
        return self.inner.worst_ratio

    def shuffle_pair(self) -> ReportPair:
        # Two values whose buckets differ under every function: the most spread, whether or not there are such.
        return self.inner.shuffle_pair()

    @property
    def variation(self) -> Fraction:
        return self.inner.variation

    @property
    def n_reports(self) -> int:
        return self.inner.n_indices

    @property
    def report_bytes(self) -> int:
        return -(-(self.n_functions - 1).bit_length() // 8) + self.inner.report_bytes

    @property
    def mean_squared_error(self) -> float:  # numpydoc ignore=RT01
        """The mean over the values of n times the variance of a frequency, with a separate function for each report.

        Shared functions add n times `error_floor`, which for many reports is by far the larger part.
        """
        if self.inner.lie == 1:
            return math.inf
        same, other = self._squares()
        return float(same / self.k + other * (1 - 1 / self.k) - 1 / self.k)

    @property
    def error_floor(self) -> float:  # numpydoc ignore=RT01
        """The mean over the values of the variance from collisions, over the seed, if all records have one value."""
        meet = float(self.hash_family.collision)
        return (1 - 1 / self.k) * meet / (self.n_functions * (1 - meet))

    def sampler(self) -> dict[str, Any]:
        numbers = {
            "k": self.k,
            "n_buckets": self.n_buckets,
            "inner": self.inner.sampler(),
        }
        return (
            {"kind": "sketch"}
            | numbers
            | {"coefficients": self.hash_family.coefficients.tolist()}
        )

    def parameters(self) -> dict[str, Any]:
        own = {
            "n_functions": self.n_functions,
            "n_buckets": self.n_buckets,
            "seed": self.seed,
        }
        return (
            super().parameters()
            | self.inner.parameters()
            | {"oracle": type(self).__name__, "k": self.k}
            | own
        )

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint32]:
        self._check_codes(codes)
        self._check_size(codes.size, np.dtype(np.uint32).itemsize)
        reports = np.empty((codes.size, 2), np.uint32)
        reports[:, 0] = uniform_integers(source, self.n_functions, codes.size)
        buckets = self.hash_family(reports[:, 0], codes)
        reports[:, 1] = self.inner.report(buckets, source)
        return reports

    def _read(self, columns: NDArray[Any]) -> NDArray[Any]:
        self._check_reports(columns)
        return columns

    def _check_reports(self, reports: NDArray[Any]) -> None:
        if reports.ndim != 2 or reports.shape[1] != 2 or reports.dtype.kind not in "iu":
            raise ValueError(
                f"reports must be integers of shape (n, 2), got {reports.dtype} {reports.shape}"
            )
        limits = np.array([self.n_functions, self.inner.n_indices])
        if reports.size and ((reports >= limits).any() or (reports < 0).any()):
            raise ValueError("the functions or indices are not those of this oracle")

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return self._inner(reports) > 0

    def _inner(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        self._check_reports(reports)
        buckets = self.hash_family(reports[:, :1], np.arange(self.k))
        estimates = self.inner.unbiased(reports[:, 1])
        return np.take_along_axis(estimates, buckets.astype(np.intp), axis=1)

    def unbiased(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        meet = float(self.hash_family.collision)
        return (self._inner(reports) - meet) / (1 - meet)

    def table(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Sum reports into the sketch, which is all that a server needs to keep.

        Parameters
        ----------
        reports : ndarray of integers, shape (n, 2)
            Reports, as returned by `report`.

        Returns
        -------
        ndarray of shape (n_functions, n_buckets), dtype int64
            The tally of the buckets of each function.
        """
        self._check_reports(reports)
        counts = np.zeros(self.n_functions * self.inner.n_indices, np.int64)
        step = max(BLOCK, counts.size)
        for start in range(0, len(reports), step):
            functions, indices = reports[start : start + step].astype(np.intp).T
            counts += np.bincount(
                functions * self.inner.n_indices + indices, minlength=counts.size
            )
        return self.inner.signed_sums(counts.reshape(self.n_functions, -1))

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        table = self.table(reports)
        support = np.zeros(self.k, np.int64)
        for start in range(0, self.k, BLOCK):  # parts that stay in the cache
            part = support[start : start + BLOCK]
            values = np.arange(start, start + part.size)
            for number, row in enumerate(table):
                part += row[self.hash_family(np.array(number), values)]
        return support

    def estimate(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
        meet = float(self.hash_family.collision)
        gain = float(1 - self.inner.lie)
        if gain == 0:
            return np.full(self.k, np.nan)
        return (np.asarray(support, float) / gain - n * meet) / (1 - meet)

    def tails(self, support: NDArray[np.int64], n: int) -> list[tuple[float, float]]:
        # A value gets the sign of its bucket, which is the true one, of its block, or of another block.
        choices = math.log(self.k)
        return [(tail, choices) for tail, _ in self.inner.tails(support, n)]

    def _squares(self) -> tuple[float, float]:
        """Return the mean square of an entry of `unbiased` for the true value, and for another one."""
        meet = float(self.hash_family.collision)
        same, outside = self.inner.square_means
        # The bucket of another value is any other bucket.
        together = self.inner.share_together
        apart = together * same + (1 - together) * outside
        other = meet * same + (1 - meet) * apart
        # Before the correction, the mean is 1 for the true value and c for another one.
        return (same - 2 * meet + meet**2) / (1 - meet) ** 2, (other - meet**2) / (
            1 - meet
        ) ** 2

    def variance(self, counts: ArrayLike, n: int) -> NDArray[np.float64]:
        if self.inner.lie == 1:
            return np.full(self.k, np.inf)
        inside = np.clip(np.asarray(counts, float), 0, n)
        same, other = self._squares()
        meet = float(self.hash_family.collision)
        squares = inside * np.maximum(inside - 1, 0)
        # Capped at that of a single value: the sum of squares of a million noisy estimates would be far larger.
        collisions = (
            np.minimum(squares.sum() - squares, n * (n - 1))
            * meet
            / (self.n_functions * (1 - meet))
        )
        return inside * (same - 1) + (n - inside) * other + collisions

    def second_moments(self) -> NDArray[np.float64]:
        if self.inner.lie == 1:
            return np.full((self.k, self.k), np.inf)
        same, other = self._squares()
        return np.where(np.eye(self.k, dtype=bool), same, other)

    def channel(self, function: int = 0) -> list[list[Fraction]]:
        """Return the exact probability of each index given each value and the public function.

        Parameters
        ----------
        function : int, default=0
            The index of the hash function.

        Returns
        -------
        list of list of Fraction
            One row per true value, one column per index.
        """
        return self.inner._channel(
            self.hash_family(np.array(function), np.arange(self.k))
        )

    def channels(self) -> Iterator[list[list[Fraction]]]:
        for function in range(min(16, self.n_functions)):
            yield self.channel(function)
