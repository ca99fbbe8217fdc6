"""What every frequency oracle shares: the algebra of the two support probabilities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import log_upper
from skdp.oracles._likelihood import likeliest_frequencies
from skdp.oracles._parameters import pure_error
from skdp.randomness import ByteSource, DigestSource

MAX_REPORT_BYTES = 1 << 31
"""The largest array of reports that an oracle makes; beyond it the call is refused, with the size in the message."""

_CHUNK = 1 << 22
_SUM_WIDTH = 1 << 12
_MOST_ENTRIES = 1 << 16


class FrequencyOracle(ABC):
    """A local protocol for one attribute with k values, on integer codes ``0 .. k - 1``.

    A subclass says how a code becomes a report and which values a report supports. Everything that is estimated follows
    from two probabilities (Wang et al. 2017, definition 1): a report supports the true value with probability p, and
    any other value with probability q.

    Attributes
    ----------
    k : int
        The number of values.
    p, q : Fraction
        The support probabilities, exact.
    has_bits : bool
        Whether a report is a bit for each value; otherwise it is a whole number for each of `field_names`.
    field_names : tuple of str
        The names of the parts of a report without bits; the empty name for the only part.
    is_encodable : bool
        Whether there is a report without noise, which `encode` returns.
    state : {"value", "bucket"}
        What a permanent report of a record is one of.
    shows_hash : bool
        Whether a report names a public hash function, given which it is one of the columns of `channel`.
    is_signed : bool
        Whether `tally` subtracts the reports that speak against a value, instead of not counting them.
    has_second_round : bool
        Whether a second round of noise can be added.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation. USENIX
    Security.
    """

    k: int
    p: Fraction
    q: Fraction
    has_bits: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = ("",)
    is_encodable: ClassVar[bool] = False
    state: ClassVar[str] = "value"
    shows_hash: ClassVar[bool] = False
    is_signed: ClassVar[bool] = False
    has_second_round: ClassVar[bool] = False

    @abstractmethod
    def report(self, codes: NDArray[np.unsignedinteger], source: ByteSource) -> NDArray[Any]:
        """Randomise codes.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        source : ByteSource
            Where the coins come from.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report a code.
        """

    @abstractmethod
    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which values each report supports.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `report` gave.

        Returns
        -------
        ndarray of shape (n, k), dtype bool
            True where the report speaks for the value.
        """

    @abstractmethod
    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of every report given every value.

        Returns
        -------
        list of list of Fraction
            A row a true value, a column a report.
        """

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """The largest ratio of the probabilities of a report under two values: e to the achieved epsilon."""

    @property
    @abstractmethod
    def report_bytes(self) -> int:  # numpydoc ignore=RT01
        """The size of one report, written as compactly as plain bytes allow."""

    @property
    def width(self) -> int:  # numpydoc ignore=RT01
        """The number of columns of a report; 1 for reports of shape (n,)."""
        return self.k if self.has_bits else len(self.field_names)

    @property
    def n_reports(self) -> int:  # numpydoc ignore=RT01
        """The number of different reports: of columns of `channel`."""
        return 1 << self.k if self.has_bits else self.k

    @property
    def most_supported(self) -> float:  # numpydoc ignore=RT01
        """The largest number of values that a report supports; nan if it is not known."""
        return math.nan

    @property
    def pair_supports(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The probabilities that a report supports the true value and another one, and two other ones; else nan."""
        return math.nan, math.nan

    @property
    def support_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """How much likelier a report is under a value that it supports than under one that it does not."""
        return self.worst_ratio

    @cached_property
    def epsilon(self) -> float:  # numpydoc ignore=RT01
        """The achieved privacy loss: the logarithm of `worst_ratio`, rounded up."""
        return log_upper(self.worst_ratio)

    @property
    def mean_squared_error(self) -> float:  # numpydoc ignore=RT01
        """The mean over the values of n times the variance of a frequency: the same for all data."""
        return pure_error(self.k, self.p, self.q)

    @property
    def error_floor(self) -> float:  # numpydoc ignore=RT01
        """The mean squared error of a frequency that no number of reports takes away, for the worst data.

        It is 0 unless records share hash functions: collisions of values do not average out then.
        """
        return 0.0

    def channels(self) -> Iterator[list[list[Fraction]]]:
        """Yield the exact channel, for some of the public hash functions if there are any.

        Yields
        ------
        list of list of Fraction
            What `channel` returns.
        """
        yield self.channel()

    def guess_accuracy(self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None = None) -> float | None:
        """Return the exact probability that the best guess from a report is right.

        Parameters
        ----------
        prior : ndarray of shape (k,)
            The probability of each value.
        groups : ndarray of integers, shape (k,), optional
            The group of each value, if the group is guessed and not the value; numbered from 0.

        Returns
        -------
        float or None
            ``sum_r max_v P(v) P(r | v)`` over all reports; None if there is no closed form, and more than 2**16 entries
            in the channel or several channels.
        """
        exact = self._guess_accuracy(prior, groups)
        if exact is not None or self.shows_hash or self.k * self.n_reports > _MOST_ENTRIES:
            return exact
        channel = np.array([[float(share) for share in row] for row in self.channel()]) * prior[:, np.newaxis]
        if groups is not None:
            joint, channel = channel, np.zeros((groups.max() + 1, channel.shape[1]))
            np.add.at(channel, groups, joint)
        return float(channel.max(axis=0).sum())

    def _guess_accuracy(self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None) -> float | None:
        """Return the closed form, if there is one."""
        return None

    def parameters(self) -> dict[str, Any]:
        """Return what client and server must agree on.

        Returns
        -------
        dict
            Plain text and numbers; two oracles with equal parameters understand each other's reports.
        """
        return {"oracle": type(self).__name__, "k": self.k, "p": str(self.p), "q": str(self.q)}

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
        """Check columns of whole numbers, and return them as reports.

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
            If the shape is another one, or a number is not one that `report` can return.
        """
        if block.ndim != 2 or block.shape[1] != self.width or block.dtype.kind not in "iub":
            raise ValueError(
                f"reports must be whole numbers of shape (n, {self.width}), got {block.dtype} {block.shape}"
            )
        if block.dtype.kind == "b":
            block = block.view(np.uint8)
        return self._read(block if self.width > 1 else block[:, 0])

    def _read(self, columns: NDArray[Any]) -> NDArray[Any]:
        if self.has_bits:
            return check_bits(columns, self.k).view(np.uint8)
        if columns.min(initial=0) < 0 or columns.max(initial=0) >= self.k:
            raise ValueError("the reports hold numbers that are not ones of this encoder")
        return columns.astype(np.min_scalar_type(self.k))

    def encode(self, codes: NDArray[np.unsignedinteger]) -> NDArray[Any]:
        """Return the reports of codes without noise. Not private.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.

        Returns
        -------
        ndarray of shape (n,) or (n, k)
            The codes themselves, or one-hot bits.

        Raises
        ------
        ValueError
            If a report is random by nature: a hash function or an index is drawn.
        """
        if not self.is_encodable:
            raise ValueError(f"{type(self).__name__} draws coins by nature: it has no encoding without noise")
        self._check_codes(codes)
        return (codes[:, np.newaxis] == np.arange(self.k)).view(np.uint8) if self.has_bits else codes

    def report_keyed(
        self, codes: NDArray[np.unsignedinteger], values: Sequence[bytes], digests: Callable[..., list[bytes]]
    ) -> NDArray[Any]:
        """Compute permanent reports: the same for a record whenever its `state` is the same.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        values : sequence of bytes
            The value of each record, written down.
        digests : callable
            ``digests(purpose, *fields)`` returns a keyed digest for each record, which depends on the record, the
            purpose (str) and the record's entry in each field (a sequence of bytes).

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report a code.
        """
        return self._draw_keyed(codes, digests("report", values))

    def _draw_keyed(self, codes: NDArray[Any], digests: Sequence[bytes]) -> NDArray[Any]:
        """Report each code with the randomness of its digest."""
        empty = self.report(codes[:0], DigestSource(b""))
        reports = np.empty((codes.size, *empty.shape[1:]), empty.dtype)
        for row, digest in enumerate(digests):
            reports[row : row + 1] = self.report(codes[row : row + 1], DigestSource(digest))
        return reports

    def n_states(self, n_values: int) -> int:
        """Return how many different permanent reports a record can have.

        Parameters
        ----------
        n_values : int
            How many values there are, a replacement of unknown ones included.

        Returns
        -------
        int
            The number of values, or that of buckets.
        """
        return n_values

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Count how many reports support each value.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `report` gave.

        Returns
        -------
        ndarray of shape (k,), dtype int64
            Sums over the reports; the sums of two sets of reports add.
        """
        support = np.zeros(self.k, np.int64)
        for chunk in self.chunks(reports):
            support += column_sums(self.supports(chunk))
        return support

    def chunks(self, reports: NDArray[Any]) -> list[NDArray[Any]]:
        """Cut reports into parts whose supports fit into the cache or nearly so.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `report` gave.

        Returns
        -------
        list of ndarray
            Views of consecutive reports.
        """
        step = max(1, _CHUNK // self.k)
        return [reports[start : start + step] for start in range(0, len(reports), step)]

    def unbiased(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        """Turn each report into an unbiased estimate of the one-hot vector of its true value.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `report` gave.

        Returns
        -------
        ndarray of shape (n, k)
            ``(support - q) / (p - q)``; the column means are the estimated frequencies; nan if p = q.
        """
        supports, gain = self.supports(reports), float(self.p - self.q)
        if gain == 0:
            return np.full(supports.shape, np.nan)
        values = np.array([-float(self.q) / gain, float(1 - self.q) / gain])
        return values[supports.view(np.uint8)]

    def estimate(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
        """Estimate the counts of the true values without bias.

        Parameters
        ----------
        support : array-like of shape (k,)
            What `tally` gave.
        n : int
            The number of reports.

        Returns
        -------
        ndarray of shape (k,)
            ``(support - n q) / (p - q)``, which may be negative; nan if p = q, as the reports then say nothing.
        """
        gain = self.p - self.q
        if gain == 0:
            return np.full(self.k, np.nan)
        # One rounding only: n q is subtracted before anything is divided.
        return (np.asarray(support, float) - float(n * self.q)) / float(gain)

    def variance(self, counts: ArrayLike, n: int) -> NDArray[np.float64]:
        """Return the variance of the estimated counts when the true counts are given.

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
        gain = self.p - self.q
        if gain == 0:
            return np.full(self.k, np.inf)
        inside = np.clip(np.asarray(counts, float), 0, n)
        own, other = (float(share * (1 - share) / gain**2) for share in (self.p, self.q))
        return inside * own + (n - inside) * other

    def second_moments(self) -> NDArray[np.float64]:
        """Return the mean square of each entry of `unbiased`, given the true value.

        Returns
        -------
        ndarray of shape (k, k)
            Row v, column x: the mean of the square of entry v if the true value is x; infinite if p = q.
        """
        gain = self.p - self.q
        if gain == 0:
            return np.full((self.k, self.k), np.inf)
        own, other = (
            float((share * (1 - self.q) ** 2 + (1 - share) * self.q**2) / gain**2) for share in (self.p, self.q)
        )
        return np.where(np.eye(self.k, dtype=bool), own, other)

    def maximum_likelihood(
        self, support: ArrayLike, n: int, reports: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Estimate the counts by maximum likelihood.

        A report is `support_ratio` times likelier under the values that it supports than under the others, so its
        likelihood is known up to a factor from its supports ([1]_). No frequencies have a log-likelihood that is more
        than 0.001 larger than that of these: it is concave, so its slopes bound what is missing.

        Parameters
        ----------
        support : array-like of shape (k,)
            What `tally` gave.
        n : int
            The number of reports.
        reports : ndarray of shape (n, …), optional
            The reports themselves: their sums do not determine the likelihood.

        Returns
        -------
        ndarray of shape (k,)
            Counts that are not negative and add up to n.

        Raises
        ------
        ValueError
            If the reports are not given, or what they support takes more than 2 GiB.

        Warns
        -----
        RuntimeWarning
            If the bound is not reached, for very many values.

        References
        ----------
        .. [1] R. Agrawal, C. Aggarwal (2001). On the design and quantification of privacy preserving data mining
           algorithms. PODS.
        """
        if reports is None:
            raise ValueError("postprocess='mle' needs the reports themselves, not their tally")
        if n == 0 or self.p == self.q:
            return np.full(self.k, np.nan)
        likelihoods, repeats = self._distinct(reports)
        likelihoods *= float(self.support_ratio - 1)
        likelihoods += 1
        return n * likeliest_frequencies(likelihoods, repeats)

    def _distinct(self, reports: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the distinct sets of supported values, and how many reports support each."""
        rows = np.concatenate([np.packbits(self.supports(chunk), axis=1) for chunk in self.chunks(reports)])
        keys, repeats = np.unique(rows.view(np.dtype((np.void, rows.shape[1])))[:, 0], return_counts=True)
        if 8 * keys.size * self.k > MAX_REPORT_BYTES:
            raise ValueError(
                f"the likelihood of these reports needs {8 * keys.size * self.k:,} bytes (the limit is "
                f"{MAX_REPORT_BYTES:,}); take fewer reports, or another postprocess"
            )
        rows = keys.view(np.uint8).reshape(keys.size, -1)
        return np.unpackbits(rows, axis=1, count=self.k).astype(float), repeats

    def _check_codes(self, codes: NDArray[Any]) -> None:
        """Refuse codes that the oracle cannot hide, before a coin is drawn."""
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or np.iinfo(codes.dtype).max < self.k - 1:
            raise ValueError(f"codes must be a 1-D array of integers, of a dtype that holds {self.k - 1}")
        if codes.size and (codes.max() >= self.k or codes.min() < 0):
            raise ValueError(f"codes must be between 0 and {self.k - 1}")

    def _check_size(self, n: int, itemsize: int = 1) -> None:
        """Refuse a call whose reports would fill the memory."""
        size = n * self.width * itemsize
        if size > MAX_REPORT_BYTES:
            narrower = ", or use LocalHashing or HadamardResponse" if self.width > 2 else ""
            raise ValueError(
                f"{n:,} reports of {self.width:,} cells would need {size:,} bytes (the limit is "
                f"{MAX_REPORT_BYTES:,}); report in batches{narrower}"
            )


def column_sums(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the ones of each column."""
    n, k = bits.shape
    sums = np.zeros(k, np.int64)
    # Rows side by side make long rows, and 255 of these are summed in bytes: both let the processor add many at once.
    together = max(1, _SUM_WIDTH // k)
    long = bits[: n - n % together].view(np.uint8).reshape(-1, together * k)
    for start in range(0, len(long), 255):
        block = long[start : start + 255].sum(axis=0, dtype=np.uint8)
        sums += block.reshape(together, k).sum(axis=0, dtype=np.int64)
    return sums + bits[n - n % together :].sum(axis=0, dtype=np.int64)


def check_bits(reports: NDArray[Any], k: int) -> NDArray[np.bool_]:
    """Check an array of bits and view it as booleans."""
    bits = np.asarray(reports)
    if bits.ndim != 2 or bits.shape[1] != k:
        raise ValueError(f"reports must have the shape (n, {k}), got {bits.shape}")
    if bits.dtype == np.uint8:
        fitting = bits.max(initial=0) <= 1
    else:
        fitting = bits.dtype.kind in "biuf" and bool(((bits == 0) | (bits == 1)).all())
    if not fitting:
        raise ValueError("reports must be zeros and ones")
    return np.ascontiguousarray(bits, np.uint8).view(np.bool_)
