"""Base class of frequency oracles: reports, tallies, unbiased estimates and their post-processing."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import Bytes, Codes, Floats, Indices, Integers, Mask
from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy import PureLoss, ReportPair, check_epsilon
from skdp.randomness import BLOCK, ONE, ByteSource, draw_by_row


def check_bits(reports: NDArray[Any], k: int) -> Mask:
    """Check reports of k bits, an array of shape (n, k) of 0 and 1, and return them as booleans."""
    bits = np.asarray(reports)
    if bits.ndim != 2 or bits.shape[1] != k:
        raise ValueError(f"`reports` must have the shape (n, {k}), got {bits.shape}.")
    if bits.dtype.kind in "iu":
        # Other integers have further binary digits.
        is_valid = np.bitwise_or.reduce(bits, axis=None) in (0, 1)
    else:
        is_valid = bits.dtype.kind in "bf" and ((bits == 0) | (bits == 1)).all()
    if not is_valid:
        raise ValueError("`reports` must contain only 0 and 1.")
    return bits.astype(np.uint8, copy=False).view(np.bool_)


def _count_ones(bits: Mask) -> Integers:
    """Count the ones in each column."""
    if bits.strides[0] == 1:  # contiguous columns
        return np.array(list(map(np.count_nonzero, bits.T)))
    # 255 ones fit in a byte, and sums of bytes over blocks of rows are vectorized.
    n_rows, k = len(bits) // 255, bits.shape[1]
    blocks = bits[: 255 * n_rows].view(np.uint8).reshape(255, n_rows, k)
    counts = blocks.sum(axis=0, dtype=np.uint8).sum(axis=0, dtype=np.int64)
    return np.asarray(counts + bits[255 * n_rows :].sum(axis=0))


# Number of pairs (record, value) that are processed at once: 4 MB of booleans.
MAX_BLOCK_CELLS = 1 << 22


class LocalMechanism(ABC):
    """Randomizer of one value; the exact probabilities of its reports determine its privacy loss."""

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:
        """Largest ratio of the probabilities of a report under two values: the achieved ``e**epsilon``."""

    @cached_property
    def epsilon(self) -> float:
        """Achieved privacy loss: the logarithm of `worst_ratio`, rounded up."""
        return log_upper(self.worst_ratio)

    @property
    def variation(self) -> Fraction:
        """Upper bound of the total variation distance between the reports of two values."""
        # The maximum for a ratio r: randomized response of one bit, (r - 1) / (r + 1).
        return (self.worst_ratio - 1) / (self.worst_ratio + 1)

    @property
    def loss(self) -> PureLoss:
        """Privacy loss of a report, which dominates the losses of all pairs of values."""
        return PureLoss(
            self.epsilon, share=round_up(self._relative_variation(self.worst_ratio))
        )

    def _relative_variation(self, ratio: Fraction) -> Fraction:
        """Divide the total variation distance of the reports of two values by its maximum for a ratio r.

        The maximum is (r - 1) / (r + 1) if no report is more than r times as probable
        under one value as under another.
        """
        if ratio == 1:
            return Fraction(1)
        return min(Fraction(1), self.variation * (ratio + 1) / (ratio - 1))

    def shuffle_pair(self) -> ReportPair:
        """Return the pair of values that shuffling protects least, for `shuffled_guarantee`.

        The default is the pair of the worst randomizer with this `worst_ratio`. A
        subclass may return a tighter pair (x0, x1) if it dominates all pairs.

        Returns
        -------
        ReportPair
            Classes of reports y with their exact probabilities P(y | x0) and P(y | x1),
            and a blanket m(y), which is at most P(y | x) for each value x.

        Notes
        -----
        A pair dominates if ``V = (P(y | x0) - t P(y | x1)) / m(y)``, for y drawn with
        mass m(y), is larger in the convex order than for any other pair, for each t >=
        1. A sufficient condition is that the ratios P(y | x) / m(y) have the same
        distribution for each x, and that no pair has a larger mass of reports that
        distinguish its values. The reason is ``(a - t a) + (b - t b) = (a - t b) + (b -
        t a)``: two reports of equal mass with the ratios (a, b) and (b, a) have the same
        mean V as two reports with the ratios (a, a) and (b, b), and V varies more.
        """
        return ReportPair.from_ratio(self.worst_ratio)


def lie_threshold(epsilon: float | Fraction, weight: Fraction | int) -> int:
    """Return the smallest probability of a uniform report that epsilon allows, times 2**64.

    With probability l, a protocol draws its report uniformly from all reports;
    otherwise, it draws uniformly from the reports that support the true value, a
    fraction 1 / w of all reports. A supporting report is ``1 + w (1 - l) / l`` times as
    likely as any other report, which is at most e^epsilon for ``l >= w / (e^epsilon - 1
    + w)``.

    Parameters
    ----------
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    weight : int or Fraction
        The number w, at least 1: the number of reports, divided by the number of
        reports that support a value.

    Returns
    -------
    int
        Threshold for `skdp.randomness.bernoulli`, from 1 to 2**64 - 1. It is rounded up,
        from a proven lower bound of e^epsilon.

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a number, or out of range; or if it is so small, about ``w /
        2**64``, that every report would be uniform.

    Notes
    -----
    **Privacy.** A protocol with at least this probability of a uniform report has at most
    the requested epsilon, in the local model; compute `FrequencyOracle.worst_ratio` from
    the threshold, not from epsilon.

    Examples
    --------
    Randomized response among 4 values, where a uniform report is any of the 4:

    >>> from fractions import Fraction
    >>> from skdp.oracles import lie_threshold
    >>> threshold = lie_threshold(1.0, 4)
    >>> lie = Fraction(threshold, 2**64)
    >>> p, q = 1 - lie + lie / 4, lie / 4
    >>> round(float(lie), 4), round(float(p / q), 4)
    (0.6995, 2.7183)

    A flipped bit, as in unary encoding, is randomized response among 2 values:

    >>> round(float(Fraction(lie_threshold(1.0, 2), 2) / 2**64), 4)
    0.2689
    """
    power = exp_bounds(cap_epsilon(epsilon))[0]
    threshold = math.ceil(ONE * weight / (power - 1 + weight))
    if threshold >= ONE:
        raise small_epsilon_error(epsilon)
    return threshold


def flip_threshold(epsilon: Fraction) -> int:
    """Return the probability 1 / (e^epsilon + 1) of a flipped bit, times 2**64, rounded up."""
    return math.ceil(ONE / (exp_bounds(epsilon)[0] + 1))


def small_epsilon_error(epsilon: float | Fraction) -> ValueError:
    """Make the error of an epsilon whose reports, rounded to 2**-64, ignore the value."""
    return ValueError(
        f"`epsilon` must be larger, got {float(epsilon):g}. With probabilities in "
        "units of 2**-64, the reports would not depend on the value."
    )


def cap_epsilon(epsilon: object) -> Fraction:
    """Check the requested epsilon, and return it as a fraction of at most 1,000."""
    # With probabilities in units of 2**-64, no oracle achieves an epsilon above 100, so the
    # cap only bounds the size of exact powers of e.
    largest = Fraction(1000)
    # `check_epsilon` rejects integers and fractions above the largest float.
    if isinstance(epsilon, int | Fraction) and epsilon > largest:
        return largest
    return min(check_epsilon(epsilon), largest)


def encode_integers(numbers: NDArray[Any]) -> Bytes:
    """Encode integers as rows of eight bytes, for a keyed hash; shape (n, 8)."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


class FrequencyOracle(LocalMechanism):
    """Frequency oracle: local protocol for one attribute with the codes ``0, ..., k - 1``.

    A subclass defines how a code becomes a report and which values a report supports.
    All estimates follow from two probabilities (Wang et al. 2017, definition 1): a
    report supports the true value with probability p, and any other value with
    probability q.

    Attributes
    ----------
    k : int
        Number of values.
    p, q : Fraction
        Exact support probabilities.
    has_bits : bool
        True if a report has one bit for each value. Otherwise it has one integer for
        each name in `field_names`.
    field_names : tuple of str
        Suffixes of the columns of a report without bits. A report with one column has
        the empty suffix.
    is_encodable : bool
        True if values can be written as reports without noise, see `encode`.
    state : {"value", "bucket"}
        Quantity of a record on which its permanent report depends.
    shows_hash : bool
        True if a report contains a public hash function. Given the function, the report
        is one of the columns of `channel`.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols
    for frequency estimation. USENIX Security.

    Examples
    --------
    >>> from skdp.oracles import FrequencyOracle, RandomizedResponse
    >>> oracle = RandomizedResponse(4, 1.0)
    >>> isinstance(oracle, FrequencyOracle), round(float(oracle.p / oracle.q), 3)
    (True, 2.718)
    """

    k: int
    p: Fraction
    q: Fraction
    has_bits: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = ("",)
    shows_hash: ClassVar[bool] = False
    is_encodable: ClassVar[bool] = False
    state: ClassVar[Literal["value", "bucket"]] = "value"

    @property
    def permanent(self) -> Any:
        """Oracle of permanent reports: the oracle itself, unless `report_again` adds noise."""
        return self

    @abstractmethod
    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each value.

        Returns
        -------
        list of list of Fraction
            One row per true value, one column per report. Vectors of bits are in the
            order of binary numbers, with the bit of the first value highest, and sets in
            the order of `itertools.combinations`.

        Raises
        ------
        ValueError
            If there are more than 2**16 vectors or sets.
        """

    def channels(self) -> Iterator[list[list[Fraction]]]:
        """Yield the exact channel, or the channels of some public hash functions.

        Yields
        ------
        list of list of Fraction
            Output of `channel`, once for each hash function.
        """
        yield self.channel()

    @abstractmethod
    def supports(self, reports: NDArray[Any]) -> Mask:
        """Find the values that each report supports.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.

        Returns
        -------
        ndarray of shape (n, k), dtype bool
            True where the report supports the value.
        """

    def tally(self, reports: NDArray[Any]) -> Integers:
        """Count how many reports support each value.

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
        step = max(1, MAX_BLOCK_CELLS // self.k)
        for start in range(0, len(reports), step):
            support += _count_ones(self.supports(reports[start : start + step]))
        return support

    def estimate(self, support: ArrayLike, n: int) -> Floats:
        """Compute unbiased estimates of the number of inputs with each value.

        Parameters
        ----------
        support : array-like of shape (k,)
            The tally, as returned by `tally`.
        n : int
            The number of reports.

        Returns
        -------
        ndarray of shape (k,)
            ``(support - n q) / (p - q)``, which may be negative.
        """
        sums = np.asarray(support, float)
        # n q is an exact fraction that is rounded once.
        return (sums - float(n * self.q)) / float(self.p - self.q)

    def variance(self, counts: ArrayLike, n: int) -> Floats:
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
            ``(c p (1 - p) + (n - c) q (1 - q)) / (p - q)**2``: a count c has c
            Bernoulli variables with probability p, and n - c with probability q.
        """
        gain = self.p - self.q
        clipped = np.clip(np.asarray(counts, float), 0, n)
        true_variance = float(self.p * (1 - self.p) / gain**2)
        false_variance = float(self.q * (1 - self.q) / gain**2)
        return np.asarray(clipped * true_variance + (n - clipped) * false_variance)

    def unbiased(self, reports: NDArray[Any], cells: Indices | None = None) -> Floats:
        """Convert each report to an unbiased estimate of the one-hot vector of its true value.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.
        cells : ndarray of shape (n_cells,), default=None
            Codes of the values to estimate. None selects all.

        Returns
        -------
        ndarray of shape (n, n_cells)
            ``(support - q) / (p - q)``; the column means are the estimated frequencies.
        """
        chosen = np.arange(self.k) if cells is None else cells
        supports = self._supports_of(reports, chosen)
        gain = float(self.p - self.q)
        # The estimates of an unsupported and of a supported value.
        estimates = np.array([-float(self.q) / gain, float(1 - self.q) / gain])
        return estimates[supports.view(np.uint8)]

    def _supports_of(self, reports: NDArray[Any], cells: Indices) -> Mask:
        """Find which of the given codes each report supports; shape (n, n_cells)."""
        return self.supports(reports)[:, cells]

    @property
    def report_bytes(self) -> int:
        """Size of one report in bytes: its bits, or the bits of an integer below `n_reports`."""
        n_bits = self.k if self.has_bits else (self.n_reports - 1).bit_length()
        return -(-n_bits // 8)

    @property
    def width(self) -> int:
        """Number of columns of a report; 1 for reports of shape (n,)."""
        return self.k if self.has_bits else len(self.field_names)

    @property
    def n_reports(self) -> int:
        """Number of distinct reports, which are the columns of `channel`."""
        return 1 << self.k if self.has_bits else self.k

    def fields(self, labels: Sequence[str]) -> list[str]:
        """Name the columns of a report.

        Parameters
        ----------
        labels : sequence of str
            Labels of the k values.

        Returns
        -------
        list of str
            Suffix of each of the `width` columns: `labels` if a report has bits,
            otherwise `field_names`.
        """
        return list(labels if self.has_bits else self.field_names)

    def read(self, block: NDArray[Any]) -> NDArray[Any]:
        """Check stored reports, and convert them to the shape that `tally` requires.

        Parameters
        ----------
        block : ndarray of shape (n, width), of integers or booleans
            Columns of the reports.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Reports, as `tally` takes them.

        Raises
        ------
        ValueError
            If the shape is wrong, or a number cannot be an output of `report`.
        """
        block = np.asarray(block)
        width = self.width
        if block.ndim != 2 or block.shape[1] != width or block.dtype.kind not in "iub":
            raise ValueError(
                f"`reports` must be integers of shape (n, {width}), got shape "
                f"{block.shape} ({block.dtype})."
            )
        if block.dtype.kind == "b":
            block = block.view(np.uint8)
        return self._read(block if width > 1 else block[:, 0])

    def _read(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Check the range of bits or integers, and convert them to the dtype of `report`.

        `columns` has the shape (n, width), where `width` is the number of columns of a
        report, or (n,) for one column. The result has the same shape.
        """
        if self.has_bits:
            return check_bits(columns, self.k).view(np.uint8)
        if columns.min(initial=0) < 0 or columns.max(initial=0) >= self.n_reports:
            raise ValueError(
                f"`reports` must be integers from 0 to {self.n_reports - 1}."
            )
        # The dtype also represents `n_reports`. If this is k, it is the code of values
        # outside the domain.
        return columns.astype(np.min_scalar_type(self.n_reports))

    def _check_codes(self, codes: NDArray[Any]) -> None:
        """Check that codes are a 1-D array of integers from 0 to k - 1, for k declared values.

        The dtype must represent k - 1, because randomized response returns reports of
        this dtype.
        """
        largest = self.k - 1
        is_valid = codes.ndim == 1 and codes.dtype.kind in "iu"
        if not is_valid or np.iinfo(codes.dtype).max < largest:
            raise ValueError(
                "`codes` must be a 1-D array of integers whose dtype represents "
                f"{largest}, got shape {codes.shape} ({codes.dtype})."
            )
        if codes.size and (codes.max() > largest or codes.min() < 0):
            raise ValueError(f"`codes` must be integers from 0 to {largest}.")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on which client and server must agree.

        Returns
        -------
        dict
            Text and numbers. Reports of two oracles can be added if and only if their
            parameters are equal.
        """
        return {
            "oracle": type(self).__name__,
            "k": self.k,
            "p": str(self.p),
            "q": str(self.q),
        }

    @abstractmethod
    def report(self, codes: Codes, source: ByteSource) -> NDArray[Any]:
        """Randomize codes.

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
            If a code is not below k.
        """

    @property
    def pair_supports(self) -> tuple[float, float]:
        """Probabilities that a report supports two given values; NaN if unknown.

        The first is for the true value and another value, the second for two values
        other than the true one.
        """
        return math.nan, math.nan

    @property
    def mean_squared_error(self) -> float:
        """Mean over the k values of n times the variance of an estimated frequency."""
        # The mean of `variance` does not depend on the data: the n records have one true
        # value each, and k - 1 other values.
        p, q = self.p, self.q
        total = p * (1 - p) + (self.k - 1) * q * (1 - q)
        return float(total / (self.k * (p - q) ** 2))

    def guess_accuracy(self, prior: Floats) -> float | None:
        """Return the exact probability that the best guess from a report is correct.

        Parameters
        ----------
        prior : ndarray of shape (k,)
            Probability of each value.

        Returns
        -------
        float or None
            ``sum_r max_v P(v) P(r | v)`` over all reports; None if the channel has more
            than 2**20 entries, or depends on a public hash function.
        """
        # A channel of 2**20 entries takes about a second.
        if self.shows_hash or self.k * self.n_reports > 1 << 20:
            return None
        joint = np.array(self.channel(), float) * prior[:, np.newaxis]
        return float(joint.max(axis=0).sum())

    def sampler(self) -> dict[str, Any]:
        """Return the integers with which a client draws a report.

        Returns
        -------
        dict
            Parameters for clients in other languages, which can be written as JSON.
            Numbers of 64 bits are text, because JavaScript rounds them. There are no
            secrets.

        Raises
        ------
        NotImplementedError
            If the oracle has no such form.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not support clients in other languages."
        )

    def encode(self, codes: Codes) -> NDArray[Any]:
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
            If a report contains a random hash function, or a random index.
        """
        if not self.is_encodable:
            raise ValueError(
                f"{type(self).__name__} has no encoding without noise. Use "
                "RandomizedResponse or UnaryEncoding."
            )
        self._check_codes(codes)
        if self.has_bits:
            return (codes[:, np.newaxis] == np.arange(self.k)).view(np.uint8)
        return codes

    def report_keyed(
        self,
        codes: Codes,
        values: Bytes,
        digests: Callable[..., Bytes],
    ) -> NDArray[Any]:
        """Draw permanent reports, whose random bits are keyed digests of the records.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        values : ndarray of uint8, shape (n, width)
            The true value of each record, encoded as bytes.
        digests : callable
            ``digests(purpose)`` or ``digests(purpose, values)`` returns an array of
            uint8, of shape (n, 32): a keyed digest of each record, the purpose (str) and
            the record's row of `values`.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report per code.
        """
        return self._draw_keyed(codes, digests("report", values))

    def report_again(self, reports: NDArray[Any], source: ByteSource) -> NDArray[Any]:
        """Add the noise of a single report to permanent reports. By default, there is none.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports of `permanent`.
        source : ByteSource
            Source of the random bytes.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Reports to release.
        """
        return reports

    def _draw_keyed(self, codes: NDArray[Any], digests: Bytes) -> NDArray[Any]:
        """Draw the report of each code from the random bits of its digest, a row of 32 bytes."""
        # One record at a time, because `report` of another package may read more bytes for
        # some of several records. `width` is the largest for which a block has one row.
        return draw_by_row(self.report, digests, codes, head=0, width=BLOCK)


# Post-processing of estimated counts, the values of ``postprocess=``.


def project_to_simplex(counts: ArrayLike, total: float) -> Floats:
    """Project counts onto nonnegative counts with a given total ("norm-sub").

    Parameters
    ----------
    counts : array-like of shape (k,)
        Estimated counts, which may be negative.
    total : float
        Sum of the result, at least 0.

    Returns
    -------
    ndarray of shape (k,)
        Nearest nonnegative counts with this sum: a constant t is subtracted, and
        negative differences are set to 0 [1]_.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li (2020). Locally
       differentially private frequency estimation with consistency. NDSS.

    Examples
    --------
    >>> from skdp.oracles import project_to_simplex
    >>> project_to_simplex([8.0, 4.0, -2.0], 10).tolist()
    [7.0, 3.0, 0.0]
    """
    counts = np.asarray(counts, float)
    if not np.isfinite(counts).all():
        return counts
    descending = np.sort(counts)[::-1]
    # If the m largest counts stay positive, t is (their sum - total) / m. The number m
    # is right if the smallest of them exceeds its t.
    constants = (np.cumsum(descending) - total) / np.arange(1, counts.size + 1)
    n_positive = int(np.count_nonzero(descending > constants))
    return np.maximum(counts - constants[max(n_positive, 1) - 1], 0)


def keep_counts(counts: Floats, total: float) -> Floats:
    """Return the unbiased counts."""
    return counts


def clip_counts(counts: Floats, total: float) -> Floats:
    """Clip counts to [0, total]."""
    return np.clip(counts, 0, total)


# Function of estimated counts and their total, by name.
POSTPROCESSORS: dict[str, Callable[[Any, float], Floats]] = {
    "none": keep_counts,
    "clip": clip_counts,
    "simplex": project_to_simplex,
}
