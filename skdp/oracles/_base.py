"""The protocol of an oracle: reports, the values that they support, tallies, estimates and errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy import PureLoss, ReportPair, check_epsilon
from skdp.randomness import MAX_ROWS, ONE, ByteSource, DigestSource, RowStreams


def check_bits(reports: NDArray[Any], k: int) -> NDArray[np.bool_]:
    """Check an array of bits and view it as booleans."""
    bits = np.asarray(reports)
    if bits.ndim != 2 or bits.shape[1] != k:
        raise ValueError(f"reports must have the shape (n, {k}), got {bits.shape}")
    if bits.dtype == np.uint8:
        is_valid = bits.max(initial=0) <= 1
    else:
        is_valid = bits.dtype.kind in "biuf" and ((bits == 0) | (bits == 1)).all()
    if not is_valid:
        raise ValueError("reports must be zeros and ones")
    return np.ascontiguousarray(bits, np.uint8).view(np.bool_)


def _count_columns(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the ones in each column, many times as fast as ``bits.sum(axis=0)``."""
    n_rows, k = bits.shape
    # 255 ones fit in a byte. In each row of `blocks`, the entries j, j + k, j + 2k, ...
    # are bits of column j, so that sums of bytes run over long rows.
    length = n_rows // 255
    blocks = bits[: 255 * length].view(np.uint8).reshape(255, length * k)
    counts = blocks.sum(axis=0, dtype=np.uint8).reshape(length, k)
    return counts.sum(axis=0, dtype=np.int64) + bits[255 * length :].sum(axis=0)


# Larger values are treated as this one: probabilities of 2**-64 achieve at most 100.
MAX_EPSILON = Fraction(1000)

# Pairs of a record and a value in a block that fits in the cache.
CELLS = 1 << 22


class LocalMechanism(ABC):
    """Local mechanism whose privacy loss follows from the exact probabilities of its reports."""

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report under two values: the achieved ``e**epsilon``."""

    @cached_property
    def epsilon(self) -> float:
        """The achieved privacy loss: the logarithm of `worst_ratio`, rounded up."""
        return log_upper(self.worst_ratio)

    @property
    def variation(self) -> Fraction:
        """A bound of the largest total variation distance of the reports of two values."""
        return (self.worst_ratio - 1) / (self.worst_ratio + 1)

    @property
    def loss(self) -> PureLoss:
        """The privacy loss of a report, which dominates the losses of all pairs of values."""
        return PureLoss(
            self.epsilon, share=round_up(self._relative_variation(self.worst_ratio))
        )

    def _relative_variation(self, ratio: Fraction) -> Fraction:
        """Return the total variation, relative to the largest possible one for a ratio of probabilities."""
        # The largest total variation of a ratio r is (r - 1) / (r + 1).
        if ratio == 1:
            return Fraction(1)
        return min(Fraction(1), self.variation * (ratio + 1) / (ratio - 1))

    def shuffle_pair(self) -> ReportPair:
        """Return the pair of values with the weakest protection by shuffling, for `shuffled_guarantee`.

        By default the worst randomizer with this `worst_ratio`. A mechanism with a tighter
        pair returns a blanket m(y) and the classes of a pair that dominates all pairs. A
        pair dominates if ``V = (P(y | x0) - t P(y | x1)) / m(y)``, y drawn with mass
        m(y), is larger in the convex order than for any other pair, for each t >= 1. This
        holds if the ratios P(y | x) / m(y) have the same distribution for every x, and no
        pair has fewer reports, by mass, that distinguish its values: since ``(a
        - t a) + (b - t b) = (a - t b) + (b - t a)``, a pair of reports of equal mass
        with the ratios (a, a) and (b, b) is less spread than one with (a, b) and (b,
        a).

        Returns
        -------
        ReportPair
            Exact fractions.
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
    power = exp_bounds(capped_epsilon(epsilon))[0]
    threshold = math.ceil(ONE * weight / (power - 1 + weight))
    if threshold >= ONE:
        raise pure_noise(epsilon)
    return threshold


def flip_threshold(epsilon: Fraction) -> int:
    """Return the threshold of a coin of 1 / (e^epsilon + 1), rounded up."""
    return math.ceil(ONE / (exp_bounds(epsilon)[0] + 1))


def pure_noise(epsilon: float | Fraction) -> ValueError:
    """Return the error of an epsilon below the precision of probabilities."""
    return ValueError(
        f"epsilon must be larger, got {float(epsilon):g}: reports with probabilities over "
        "2**64 do not depend on the value."
    )


def capped_epsilon(epsilon: Any) -> Fraction:
    """Check a privacy loss, and cap it at `MAX_EPSILON`."""
    if isinstance(epsilon, int | Fraction) and epsilon > MAX_EPSILON:
        return MAX_EPSILON  # may exceed the largest float
    return min(check_epsilon(epsilon), MAX_EPSILON)


def support_variance(
    p: Fraction, q: Fraction, counts: ArrayLike, n: ArrayLike
) -> NDArray[np.float64]:
    """Return the variance of the estimates of true counts."""
    n = np.asarray(n, float)
    gain = p - q
    clipped = np.clip(np.asarray(counts, float), 0, n)
    true_variance = float(p * (1 - p) / gain**2)
    false_variance = float(q * (1 - q) / gain**2)
    return clipped * true_variance + (n - clipped) * false_variance


def pure_error(k: int, p: Fraction, q: Fraction) -> float:
    """Return n times the variance of a frequency, averaged over the values."""
    return float(((k - 1) * q * (1 - q) + p * (1 - p)) / (k * (p - q) ** 2))


def channel_of_bits(
    rows: Iterable[Iterable[int]], k: int, heads: tuple[Fraction, Fraction]
) -> list[list[Fraction]]:
    """Return the probability of each vector of k bits, given bits and the probabilities of a 1 for a 0 and for a 1."""
    if k > 16:
        raise ValueError(
            f"the channel has 2**{k} reports; it is available up to 16 bits"
        )
    table = []
    for bits in rows:
        # One bit at a time, the last one lowest: each doubles the number of vectors.
        row = [Fraction(1)]
        for bit in bits:
            p_one = heads[bit]
            pairs = [(mass * (1 - p_one), mass * p_one) for mass in row]
            row = list(chain.from_iterable(pairs))
        table.append(row)
    return table


def draw_by_row(
    draw: Callable[..., NDArray[Any]], digests: NDArray[np.uint8], *arrays: NDArray[Any]
) -> NDArray[Any]:
    """Call ``draw(*arrays, source)`` in blocks, where the random bits of a row follow from its digest."""
    # A row gets the same bits in any block: see `RowStreams`.
    parts = []
    for start in range(0, max(1, len(digests)), MAX_ROWS):
        rows = slice(start, start + MAX_ROWS)
        # 16 bytes are read as they are. The whole digest seeds further bytes.
        source = RowStreams(digests[rows], head=16)
        parts.append(draw(*[array[rows] for array in arrays], source))
    return np.concatenate(parts)


class FrequencyOracle(LocalMechanism):
    """A local protocol for one attribute with k values, on integer codes ``0, ..., k - 1``.

    A subclass defines how a code becomes a report and which values a report supports.
    All estimates follow from two probabilities (Wang et al. 2017, definition 1): a
    report supports the true value with probability p, and any other value with
    probability q.

    Attributes
    ----------
    k : int
        The number of values.
    p, q : Fraction
        The support probabilities, exact.
    has_bits : bool
        True if a report is one bit per value; otherwise it is one integer per name of
        `field_names`.
    field_names : tuple of str
        The names of the parts of a report without bits; an empty name if there is one
        part only.
    is_encodable : bool
        True if there is a report without noise, which `encode` returns.
    state : {"value", "bucket"}
        The permanent report of a record depends on its value, or on its bucket.
    shows_hash : bool
        True if a report contains a public hash function; given the function, the report
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

    @abstractmethod
    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each value.

        Returns
        -------
        list of list of Fraction
            One row per true value, one column per report; vectors of bits in the order
            of binary numbers, the first value first, and sets in the order of
            `itertools.combinations`.

        Raises
        ------
        ValueError
            If there are more than 2**16 vectors or sets.
        """

    def channels(self) -> Iterator[list[list[Fraction]]]:
        """Yield the exact channel, for some of the public hash functions if the protocol has any.

        Yields
        ------
        list of list of Fraction
            The channel, as returned by `channel`.
        """
        yield self.channel()

    @abstractmethod
    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
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

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
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
        step = max(1, CELLS // self.k)
        for start in range(0, len(reports), step):
            support += _count_columns(self.supports(reports[start : start + step]))
        return support

    def estimate(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
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
        # A single rounding: n q is subtracted before the division.
        return (sums - float(n * self.q)) / float(self.p - self.q)

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
            ``(c p (1 - p) + (n - c) q (1 - q)) / (p - q)**2``.
        """
        return support_variance(self.p, self.q, counts, n)

    def unbiased(
        self, reports: NDArray[Any], cells: NDArray[np.intp] | None = None
    ) -> NDArray[np.float64]:
        """Convert each report to an unbiased estimate of the one-hot vector of its true value.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.
        cells : ndarray of shape (n_cells,), optional
            The values to estimate; by default all.

        Returns
        -------
        ndarray of shape (n, n_cells)
            ``(support - q) / (p - q)``; the column means are the estimated frequencies.
        """
        chosen = np.arange(self.k) if cells is None else cells
        supports = self._supports_of(reports, chosen)
        gain = float(self.p - self.q)
        values = np.array([-float(self.q) / gain, float(1 - self.q) / gain])
        return values[supports.view(np.uint8)]

    def _supports_of(
        self, reports: NDArray[Any], cells: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Mark the given values that each report supports."""
        return self.supports(reports)[:, cells]

    @property
    def report_bytes(self) -> int:
        """The size of one report in bytes, without compression: a bit per value, or a whole number."""
        n_bits = self.k if self.has_bits else (self.n_reports - 1).bit_length()
        return -(-n_bits // 8)

    @property
    def width(self) -> int:
        """The number of columns of a report; 1 for reports of shape (n,)."""
        return self.k if self.has_bits else len(self.field_names)

    @property
    def n_reports(self) -> int:
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
            A suffix for each of the `width` columns: the labels for bits, otherwise
            `field_names`.
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
        width = self.width
        if block.ndim != 2 or block.shape[1] != width or block.dtype.kind not in "iub":
            raise ValueError(
                f"reports must be whole numbers of shape (n, {width}), "
                f"got {block.dtype} {block.shape}"
            )
        if block.dtype.kind == "b":
            block = block.view(np.uint8)
        return self._read(block if width > 1 else block[:, 0])

    def _read(self, columns: NDArray[Any]) -> NDArray[Any]:
        if self.has_bits:
            return check_bits(columns, self.k).view(np.uint8)
        if columns.min(initial=0) < 0 or columns.max(initial=0) >= self.n_reports:
            raise ValueError(
                f"reports must be integers from 0 to {self.n_reports - 1}."
            )
        return columns.astype(np.min_scalar_type(self.n_reports))

    def _check_codes(self, codes: NDArray[Any]) -> None:
        largest = self.k - 1
        is_valid = codes.ndim == 1 and codes.dtype.kind in "iu"
        if not is_valid or np.iinfo(codes.dtype).max < largest:
            raise ValueError(
                "codes must be a 1-D array of integers, of a dtype that represents "
                f"{largest}"
            )
        if codes.size and (codes.max() > largest or codes.min() < 0):
            raise ValueError(f"codes must be between 0 and {largest}")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on which client and server must agree.

        Returns
        -------
        dict
            Text and numbers; oracles with equal parameters accept each other's reports.
        """
        return {
            "oracle": type(self).__name__,
            "k": self.k,
            "p": str(self.p),
            "q": str(self.q),
        }

    @abstractmethod
    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[Any]:
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
        """Probabilities that a report supports the true value and a false one, and two false ones; nan if unknown."""
        return math.nan, math.nan

    @property
    def mean_squared_error(self) -> float:
        """The mean over the values of n times the variance of a frequency; it does not depend on the data."""
        return pure_error(self.k, self.p, self.q)

    def guess_accuracy(
        self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None = None
    ) -> float | None:
        """Return the exact probability that the best guess from a report is correct.

        Parameters
        ----------
        prior : ndarray of shape (k,)
            The probability of each value.
        groups : ndarray of integers, shape (k,), optional
            The group of each value, numbered from 0, if the group is guessed instead of
            the value.

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
        if groups is not None:
            is_member = np.arange(groups.max() + 1)[:, np.newaxis] == groups
            joint = is_member @ joint
        return float(joint.max(axis=0).sum())

    def sampler(self) -> dict[str, Any]:
        """Return the integers with which a client draws a report.

        Returns
        -------
        dict
            For clients in other languages, as JSON. Numbers of
            64 bits are text, since not all languages read them exactly. It contains no
            secrets.

        Raises
        ------
        NotImplementedError
            If the oracle has no such form.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not support clients in other languages"
        )

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
            If a report cannot be without noise, because it draws a hash function or an
            index.
        """
        if not self.is_encodable:
            raise ValueError(
                f"{type(self).__name__} has no encoding without noise: "
                "its reports are random by design"
            )
        self._check_codes(codes)
        if self.has_bits:
            return (codes[:, np.newaxis] == np.arange(self.k)).view(np.uint8)
        return codes

    def report_keyed(
        self,
        codes: NDArray[np.unsignedinteger],
        values: NDArray[np.uint8],
        digests: Callable[..., NDArray[np.uint8]],
    ) -> NDArray[Any]:
        """Draw permanent reports, which depend only on keyed digests of the records.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        values : ndarray of uint8, shape (n, width)
            The true value of each record, encoded as bytes.
        digests : callable
            ``digests(purpose)`` or ``digests(purpose, values)`` returns a keyed digest
            for each record (an array of uint8, of shape (n, 32)), which depends on the
            record, the purpose (str) and its row of the values.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report per code.
        """
        return self._draw_keyed(codes, digests("report", values))

    def _draw_keyed(
        self, codes: NDArray[Any], digests: NDArray[np.uint8]
    ) -> NDArray[Any]:
        reports = [self.report(codes[:0], DigestSource(b""))]
        for row, digest in enumerate(digests):
            reports.append(self.report(codes[row : row + 1], DigestSource(digest)))
        return np.concatenate(reports)
