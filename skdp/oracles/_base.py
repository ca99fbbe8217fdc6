"""Frequency oracles: their reports, the form, size and channel of a report, and what it supports."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._support import MAX_REPORT_BYTES, SupportAlgebra, check_bits, pure_error
from skdp.privacy import ReportPair
from skdp.randomness import ByteSource, DigestSource

_MOST_ENTRIES = 1 << 16


class FrequencyOracle(SupportAlgebra):
    """A local protocol for one attribute with k values, on integer codes ``0, ..., k - 1``.

    A subclass defines how a code becomes a report and which values a report supports. All estimates follow from two
    probabilities (Wang et al. 2017, definition 1): a report supports the true value with probability p, and any other
    value with probability q.

    Attributes
    ----------
    k : int
        The number of values.
    p, q : Fraction
        The support probabilities, exact.
    has_bits : bool
        Whether a report is one bit per value; otherwise it is one whole number per name of `field_names`.
    field_names : tuple of str
        The names of the parts of a report without bits; an empty name if there is one part only.
    is_encodable : bool
        Whether there is a report without noise, which `encode` returns.
    state : {"value", "bucket"}
        What the permanent report of a record depends on.
    shows_hash : bool
        Whether a report contains a public hash function; given this, it is one of the columns of `channel`.
    is_signed : bool
        Whether `tally` subtracts the reports that do not support a value, instead of not counting them.
    has_second_round : bool
        Whether a second round of noise can be added.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation. USENIX
    Security.

    Examples
    --------
    >>> from skdp.oracles import FrequencyOracle, RandomizedResponse
    >>> oracle = RandomizedResponse(4, 1.0)
    >>> isinstance(oracle, FrequencyOracle), round(float(oracle.p / oracle.q), 3)
    (True, 2.718)
    """

    has_bits: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = ("",)
    is_encodable: ClassVar[bool] = False
    state: ClassVar[Literal["value", "bucket"]] = "value"
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
            Source of the random bytes.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report per code.

        Raises
        ------
        ValueError
            If a code is not below k, or the reports would take more than 2 GiB.
        """

    @abstractmethod
    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each value.

        Returns
        -------
        list of list of Fraction
            One row per true value, one column per report; vectors of bits in the order of binary numbers, the first
            value first, sets in that of `itertools.combinations`.

        Raises
        ------
        ValueError
            If there are more than 2**16 vectors or sets.
        """

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """The largest ratio of the probabilities of a report under two values: ``e**epsilon`` as achieved."""

    def shuffle_pair(self) -> ReportPair:
        """Return the reports of the two values that shuffling protects least, in classes, for `shuffled_guarantee`.

        By default those of the worst randomiser with this `worst_ratio`. An oracle that knows more returns a blanket
        m(y) and the classes of a pair that stands for all pairs. It does if ``V = (P(y | x0) - t P(y | x1)) / m(y)``,
        y drawn with mass m(y), is more spread (in the convex order) than that of any other pair, for each t >= 1. So
        it is if the ratios P(y | x) / m(y) have the same law for every x, and no pair has fewer reports, by mass, that
        distinguish its values: since ``(a - t a) + (b - t b) = (a - t b) + (b - t a)``, a pair of reports of equal mass
        with the ratios (a, a) and (b, b) is less spread than one with (a, b) and (b, a).

        Returns
        -------
        ReportPair
            Exact fractions.
        """
        return ReportPair.of_any(self.worst_ratio)

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

    @property
    def most_supported(self) -> float:  # numpydoc ignore=RT01
        """The largest number of values that a report supports; nan if it is not known."""
        return math.nan

    @property
    def pair_supports(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The probabilities that a report supports the true value and another one, and two others; nan if unknown."""
        return math.nan, math.nan

    @property
    def support_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """The ratio of the probabilities of a report under a value that it supports and under another one."""
        return self.worst_ratio

    @property
    def mean_squared_error(self) -> float:  # numpydoc ignore=RT01
        """The mean over the values of n times the variance of a frequency; it does not depend on the data."""
        return pure_error(self.k, self.p, self.q)

    @property
    def error_floor(self) -> float:  # numpydoc ignore=RT01
        """The part of the mean squared error of a frequency that does not fall with n, for the worst data.

        It is 0 unless records share hash functions: then collisions of values do not average out.
        """
        return 0.0

    def guess_accuracy(self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None = None) -> float | None:
        """Return the exact probability that the best guess from a report is correct.

        Parameters
        ----------
        prior : ndarray of shape (k,)
            The probability of each value.
        groups : ndarray of integers, shape (k,), optional
            The group of each value, numbered from 0, if the group is guessed instead of the value.

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
        return None  # no closed form

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on which client and server must agree.

        Returns
        -------
        dict
            Text and numbers; oracles with equal parameters accept each other's reports.
        """
        return {"oracle": type(self).__name__, "k": self.k, "p": str(self.p), "q": str(self.q)}

    def sampler(self) -> dict[str, Any]:
        """Return what a client needs to draw a report, in integers.

        Returns
        -------
        dict
            For `client_report`, and as JSON for clients in other languages. Numbers of 64 bits are text, since not all
            languages read them exactly. Nothing in it is secret.

        Raises
        ------
        NotImplementedError
            If the oracle has no such form.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sampler for clients")

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
        if columns.min(initial=0) < 0 or columns.max(initial=0) >= self.n_reports:
            raise ValueError("the reports hold numbers that are not ones of this encoder")
        return columns.astype(np.min_scalar_type(self.n_reports))

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
            If a report cannot be without noise, because it draws a hash function or an index.
        """
        if not self.is_encodable:
            raise ValueError(f"{type(self).__name__} has no encoding without noise: its reports are random by design")
        self._check_codes(codes)
        return (codes[:, np.newaxis] == np.arange(self.k)).view(np.uint8) if self.has_bits else codes

    def report_keyed(
        self, codes: NDArray[np.unsignedinteger], values: NDArray[np.uint8], digests: Callable[..., NDArray[np.uint8]]
    ) -> NDArray[Any]:
        """Compute permanent reports: the same report for a record whenever its `state` is the same.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        values : ndarray of uint8, shape (n, width)
            The value of each record, as bytes.
        digests : callable
            ``digests(purpose)`` or ``digests(purpose, values)`` returns a keyed digest for each record (an array of
            uint8, of shape (n, 32)), which depends on the record, the purpose (str) and its row of the values.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report per code.
        """
        return self._draw_keyed(codes, digests("report", values))

    def _draw_keyed(self, codes: NDArray[Any], digests: NDArray[np.uint8]) -> NDArray[Any]:
        empty = self.report(codes[:0], DigestSource(b""))
        reports = np.empty((codes.size, *empty.shape[1:]), empty.dtype)
        for row, digest in enumerate(digests):
            reports[row : row + 1] = self.report(codes[row : row + 1], DigestSource(digest))
        return reports

    def n_states(self, n_values: int) -> int:
        """Return the number of distinct permanent reports that a record can have.

        Parameters
        ----------
        n_values : int
            The number of values, including a replacement of unknown ones.

        Returns
        -------
        int
            The number of values, or that of buckets.
        """
        return n_values

    def _check_codes(self, codes: NDArray[Any]) -> None:
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or np.iinfo(codes.dtype).max < self.k - 1:
            raise ValueError(f"codes must be a 1-D array of integers, of a dtype that holds {self.k - 1}")
        if codes.size and (codes.max() >= self.k or codes.min() < 0):
            raise ValueError(f"codes must be between 0 and {self.k - 1}")

    def _check_size(self, n: int, itemsize: int = 1) -> None:
        check_bytes(n, self.width, itemsize, ", or use LocalHashing or HadamardResponse" if self.width > 2 else "")


def check_bytes(n: int, width: int, itemsize: int = 1, advice: str = "") -> None:
    """Refuse a call whose reports would exceed `MAX_REPORT_BYTES`."""
    if (size := n * width * itemsize) > MAX_REPORT_BYTES:
        raise ValueError(
            f"{n:,} reports of {width:,} cells would need {size:,} bytes (the limit is {MAX_REPORT_BYTES:,}); report "
            f"in batches{advice}"
        )
