"""The two support probabilities: parameters, tallies, estimates and their errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import exp_bounds, log_upper
from skdp.oracles.sums import check_bits as check_bits
from skdp.oracles.sums import column_sums as column_sums
from skdp.oracles.sums import count_bytes as count_bytes
from skdp.oracles.sums import lower_tail, upper_tail
from skdp.privacy import check_epsilon
from skdp.randomness import ONE

MAX_REPORT_BYTES = 1 << 31
"""The size of the largest array of reports that an oracle makes; larger calls are refused."""

_CHUNK = 1 << 22


class SupportCounts(ABC):
    """Counts of what reports support: what is true with probability p, anything else with q."""

    k: int
    p: Fraction
    q: Fraction
    has_bits: ClassVar[bool] = False
    is_signed: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = ("",)
    shows_hash: ClassVar[bool] = False
    _advice: ClassVar[str] = ""
    """What else helps if reports are too large."""

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction: ...  # numpydoc ignore=GL08

    @abstractmethod
    def channel(self) -> list[list[Fraction]]: ...  # numpydoc ignore=GL08

    def channels(self) -> Iterator[list[list[Fraction]]]:
        """Yield the exact channel, for some of the public hash functions if the protocol has any.

        Yields
        ------
        list of list of Fraction
            The channel, as returned by `channel`.
        """
        yield self.channel()

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """A bound of the largest total variation distance of the reports of two inputs."""
        return (self.worst_ratio - 1) / (self.worst_ratio + 1)

    @cached_property
    def epsilon(self) -> float:  # numpydoc ignore=RT01
        """The achieved privacy loss: the logarithm of `worst_ratio`, rounded up."""
        return log_upper(self.worst_ratio)

    @abstractmethod
    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values each report supports.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.

        Returns
        -------
        ndarray of shape (n, k), dtype bool
            True where the report supports the value.
        """

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Count how many reports support each value; less those that do not, if `is_signed`.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.

        Returns
        -------
        ndarray of shape (k,), dtype int64
            Sums over the reports; the sums of two sets of reports can be added.
        """
        support = np.zeros(self.k, np.int64)
        for chunk in self.chunks(reports):
            support += column_sums(self.supports(chunk))
        return support

    def part_counts(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Count the parts of reports, to recognise these whatever their order: in less time than `tally`.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.

        Returns
        -------
        ndarray of int64
            Of bits the ones and then the zeros of each; of whole numbers how often each occurs, modulo 256.
        """
        if self.has_bits:
            ones = column_sums(np.ascontiguousarray(reports, np.uint8).view(np.bool_))
            return np.concatenate([ones, len(reports) - ones])
        if reports.ndim == 1:
            return count_bytes(reports, self.n_part_counts)
        return np.concatenate([count_bytes(field) for field in reports.T])

    @property
    def n_part_counts(self) -> int:  # numpydoc ignore=RT01
        """The number of counts that `part_counts` returns."""
        if self.has_bits:
            return 2 * self.width
        return min(256, self.n_reports) if self.width == 1 else 256 * self.width

    def chunks(self, reports: NDArray[Any]) -> list[NDArray[Any]]:
        """Split reports into parts whose supports approximately fit in the cache.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.

        Returns
        -------
        list of ndarray
            Views of consecutive reports.
        """
        step = max(1, _CHUNK // self.k)
        return [reports[start : start + step] for start in range(0, len(reports), step)]

    def estimate(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
        """Compute unbiased estimates of how many inputs are, or hold, each value.

        Parameters
        ----------
        support : array-like of shape (k,)
            The tally, as returned by `tally`.
        n : int
            The number of reports.

        Returns
        -------
        ndarray of shape (k,)
            ``(support - n q) / (p - q)``, which may be negative; nan if p = q.
        """
        return support_estimate(self.p, self.q, support, n)

    def variance(self, counts: ArrayLike, n: int) -> NDArray[np.float64]:
        """Return the variance of the estimated counts for given true counts.

        Parameters
        ----------
        counts : array-like of shape (k,)
            True counts, or estimates of them; they are clipped to ``[0, n]``.
        n : int
            The number of reports.

        Returns
        -------
        ndarray of shape (k,)
            ``(c p (1 - p) + (n - c) q (1 - q)) / (p - q)**2``; infinite if p = q.
        """
        return support_variance(self.p, self.q, counts, n)

    def tails(self, support: NDArray[np.int64], n: int) -> list[tuple[float, float]]:
        """Bound how probable sums as extreme as these are, whatever the true values of the n records.

        Parameters
        ----------
        support : ndarray of shape (k,), dtype int64
            The tally, as returned by `tally`.
        n : int
            The number of reports, independent of each other; at least 1.

        Returns
        -------
        list of (float, float)
            For each sum that is examined the logarithm of a bound of its probability, and that of the number of sums
            that it was chosen from as the most extreme one. Which sums are examined does not depend on the reports.
        """
        # A report supports any value with a probability between q and p.
        if self.p < self.q or self.is_signed:
            return []
        low, high, choices = (
            float(support.min()),
            float(support.max()),
            math.log(self.k),
        )
        return [
            (lower_tail(low, n, float(self.q)), choices),
            (upper_tail(high, n, float(self.p)), choices),
        ]

    @property
    def report_bytes(self) -> int:  # numpydoc ignore=RT01
        """The size of one report in bytes, without compression: a bit per value, or a whole number."""
        return -(-(self.k if self.has_bits else (self.n_reports - 1).bit_length()) // 8)

    @property
    def width(self) -> int:  # numpydoc ignore=RT01
        """The number of columns of a report; 1 for reports of shape (n,)."""
        return self.k if self.has_bits else len(self.field_names)

    @property
    def n_reports(self) -> int:  # numpydoc ignore=RT01
        """The number of distinct reports, the columns of `channel`."""
        return 1 << self.k if self.has_bits else self.k

    def fields(self, labels: Sequence[str]) -> list[str]:
        """Name the columns of a report.

        Parameters
        ----------
        labels : sequence of str
            The labels of the k values.

        Returns
        -------
        list of str
            A suffix for each of the `width` columns: the labels for bits, otherwise `field_names`.
        """
        return list(labels if self.has_bits else self.field_names)

    def read(self, block: NDArray[Any]) -> NDArray[Any]:
        """Check columns of whole numbers and return them as reports.

        Parameters
        ----------
        block : ndarray of shape (n, width), of integers or booleans
            The columns of the reports.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Reports, as `tally` takes them.

        Raises
        ------
        ValueError
            If the shape is wrong, or a number is not one that `report` can return.
        """
        block = np.asarray(block)
        if (
            block.ndim != 2
            or block.shape[1] != self.width
            or block.dtype.kind not in "iub"
        ):
            raise ValueError(
                f"reports must be whole numbers of shape (n, {self.width}), got {block.dtype} {block.shape}"
            )
        if block.dtype.kind == "b":
            block = block.view(np.uint8)
        return self._read(block if self.width > 1 else block[:, 0])

    def _read(self, columns: NDArray[Any]) -> NDArray[Any]:
        if self.has_bits:
            return check_bits(columns, self.k).view(np.uint8)
        if columns.min(initial=0) < 0 or columns.max(initial=0) >= self.n_reports:
            raise ValueError(
                "the reports hold numbers that are not ones of this encoder"
            )
        return columns.astype(np.min_scalar_type(self.n_reports))

    def _check_codes(self, codes: NDArray[Any]) -> None:
        if (
            codes.ndim != 1
            or codes.dtype.kind not in "iu"
            or np.iinfo(codes.dtype).max < self.k - 1
        ):
            raise ValueError(
                f"codes must be a 1-D array of integers, of a dtype that holds {self.k - 1}"
            )
        if codes.size and (codes.max() >= self.k or codes.min() < 0):
            raise ValueError(f"codes must be between 0 and {self.k - 1}")

    def _check_size(self, n: int, itemsize: int = 1) -> None:
        check_bytes(n, self.width, itemsize, self._advice if self.width > 2 else "")


def check_bytes(n: int, width: int, itemsize: int = 1, advice: str = "") -> None:
    """Refuse a call whose reports would exceed `MAX_REPORT_BYTES`."""
    if (size := n * width * itemsize) > MAX_REPORT_BYTES:
        raise ValueError(
            f"{n:,} reports of {width:,} cells would need {size:,} bytes (the limit is {MAX_REPORT_BYTES:,}); report "
            f"in batches{advice}"
        )


MOST_EPSILON = Fraction(
    1000
)  # larger requests are treated as this one: 2**-64 achieves at most 100


def check_size(
    k: Any, *, least: int = 2, most: int = (1 << 32) - 1, name: str = "k"
) -> int:
    """Check a number of values.

    Parameters
    ----------
    k : int
        The number.
    least, most : int
        Its range.
    name : str, default="k"
        The name of the parameter in errors.

    Returns
    -------
    int
        The number.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, or out of range.

    Examples
    --------
    >>> from skdp.oracles import check_size
    >>> check_size(3)
    3
    >>> check_size(1)
    Traceback (most recent call last):
    ...
    ValueError: k must be between 2 and 4294967295, got 1
    """
    if isinstance(k, bool | np.bool_) or not isinstance(k, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {type(k).__name__}")
    if not least <= k <= most:
        raise ValueError(f"{name} must be between {least} and {most}, got {k}")
    return int(k)


@lru_cache(maxsize=512, typed=True)
def lie_threshold(epsilon: float | Fraction, weight: Fraction | int) -> int:
    """Return the least probability of a lie that achieves epsilon, times 2**64, rounded up."""
    # With probability l ("a lie") a protocol reports uniformly from all reports, otherwise uniformly from those that
    # support the true value, a share 1 / w of all. One of these is ``1 + w (1 - l) / l`` times likelier than any other,
    # which is at most e^eps for ``l >= w / (e^eps - 1 + w)``.
    return min(
        ONE,
        math.ceil(ONE * weight / (exp_bounds(capped_epsilon(epsilon))[0] - 1 + weight)),
    )


def capped_epsilon(epsilon: Any) -> Fraction:
    """Check a privacy loss, and cap it at `MOST_EPSILON`."""
    if isinstance(epsilon, int | Fraction) and epsilon > MOST_EPSILON:
        return MOST_EPSILON  # may exceed the largest float
    return min(check_epsilon(epsilon), MOST_EPSILON)


def check_share(value: Any, name: str) -> Fraction:
    """Check a probability."""
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, float | int | Fraction | np.number
    ):
        raise TypeError(
            f"{name} must be a number between 0 and 1, got {type(value).__name__}"
        )
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value}")
    return value if isinstance(value, Fraction) else Fraction(float(value))


def support_estimate(
    p: Fraction, q: Fraction, support: ArrayLike, n: int
) -> NDArray[np.float64]:
    """Compute unbiased counts of what is supported with probability p, or else q."""
    found = np.asarray(support, float)
    # A single rounding: n q is subtracted before the division.
    return (
        np.full(found.shape, np.nan)
        if p == q
        else (found - float(n * q)) / float(p - q)
    )


def support_variance(
    p: Fraction, q: Fraction, counts: ArrayLike, n: ArrayLike
) -> NDArray[np.float64]:
    """Return the variance of the estimates of true counts."""
    n, gain = np.asarray(n, float), p - q
    inside = np.clip(np.asarray(counts, float), 0, n)
    if gain == 0:
        return np.full(inside.shape, np.inf)
    own, other = (float(share * (1 - share) / gain**2) for share in (p, q))
    return inside * own + (n - inside) * other


def hashed_support(inner: SupportCounts, family: Any) -> tuple[Fraction, Fraction]:
    """Return p and q of an oracle on buckets for the values that a family of functions hashes into these."""
    return inner.p, family.collision * inner.p + (1 - family.collision) * inner.q


def pure_error(k: int, p: Fraction, q: Fraction) -> float:
    """Return the mean over the values of n times the variance of a frequency."""
    if p <= q:
        return math.inf
    return float(((k - 1) * q * (1 - q) + p * (1 - p)) / (k * (p - q) ** 2))


def channel_of_bits(
    rows: Iterable[Iterable[int]], k: int, heads: tuple[Fraction, Fraction]
) -> list[list[Fraction]]:
    """Return the probability of each vector of k bits, given bits and the probabilities of a 1 for a 0 and for a 1."""
    if k > 16:
        raise ValueError(
            f"the channel has 2**{k} reports; it is available up to 16 bits"
        )
    vectors = list(product((0, 1), repeat=k))
    coins = [(1 - share, share) for share in heads]

    def probability(bits: Iterable[int], vector: tuple[int, ...]) -> Fraction:
        return math.prod(
            (coins[bit][seen] for bit, seen in zip(bits, vector, strict=True)),
            start=Fraction(1),
        )

    return [[probability(bits, vector) for vector in vectors] for bits in rows]
