"""Oracles whose reports are bits: unary encoding in one or two rounds, and subset selection."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Bytes, Codes, Mask
from skdp.exact import exp_bounds
from skdp.oracles._oracle import (
    FrequencyOracle,
    cap_epsilon,
    check_bits,
    flip_threshold,
    lie_threshold,
    small_epsilon_error,
)
from skdp.privacy import ReportPair
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    check_size,
    draw_by_row,
    subsets,
)


class BitOracle(FrequencyOracle):
    """Oracle whose reports have one bit per value, and support the values with a 1."""

    has_bits = True
    is_encodable = True

    def supports(self, reports: NDArray[Any]) -> Mask:
        return check_bits(reports, self.k)

    @property
    def variation(self) -> Fraction:
        # Only reports that support exactly one of two values x0 and x1 distinguish them.
        # Reports that support both have equal probabilities, so the total variation is
        # P(supports x0 | x0) - P(supports x0 | x1).
        return self.p - self.q


class UnaryEncoding(BitOracle):
    """Unary encoding: each bit of the one-hot vector of a value is randomized independently.

    The bit of the true value is reported as 1 with probability p, every other bit with
    probability q. Two values differ in two bits, so ``e^eps = p (1 - q) / ((1 - p) q)``
    ([1]_ section 4).

    Parameters
    ----------
    k : int
        Number of values, at least 2.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0.
    variant : {"optimized", "symmetric"}, default="optimized"
        Choice of p and q for epsilon.

        - "optimized" (OUE) has p = 1/2 and q = 1 / (e^eps + 1).
        - "symmetric" (SUE, the basic form of RAPPOR) has q = 1 - p = 1 / (e^(eps/2) + 1).

    Attributes
    ----------
    p, q : Fraction
        Exact probabilities, in units of 2**-64. p is rounded down and q is rounded up,
        which adds noise.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value, for the whole vector of bits.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.

    Examples
    --------
    >>> from skdp.oracles import UnaryEncoding
    >>> oracle = UnaryEncoding(14, 1.0)
    >>> oracle.p, round(float(oracle.q), 4)
    (Fraction(1, 2), 0.2689)
    """

    def __init__(
        self,
        k: int,
        epsilon: float | Fraction,
        *,
        variant: Literal["optimized", "symmetric"] = "optimized",
    ) -> None:
        # A report has one bit for each of the k values. The bit of the true value is 1
        # with probability p, and every other bit with probability q. The variant
        # "optimized" has p = 1/2, and "symmetric" has p = 1 - q.
        self.k = check_size(k)
        if variant not in ("optimized", "symmetric"):
            raise ValueError(
                f"`variant` must be 'optimized' or 'symmetric', got {variant!r}."
            )
        capped = cap_epsilon(epsilon)
        # The thresholds of `bernoulli` are probabilities in units of 2**-64.
        if variant == "optimized":
            self._p_threshold = ONE // 2
            self._q_threshold = flip_threshold(capped)
        else:
            self._q_threshold = flip_threshold(capped / 2)
            self._p_threshold = ONE - self._q_threshold
        if self._p_threshold == self._q_threshold:
            raise small_epsilon_error(epsilon)
        self.p = Fraction(self._p_threshold, ONE)
        self.q = Fraction(self._q_threshold, ONE)

    def sampler(self) -> dict[str, Any]:
        p, q = str(self._p_threshold), str(self._q_threshold)
        return {"kind": "bits", "k": self.k, "p": p, "q": q}

    @property
    def worst_ratio(self) -> Fraction:
        return self.p * (1 - self.q) / ((1 - self.p) * self.q)

    def shuffle_pair(self) -> ReportPair:
        # Compare the distributions of a report under two different values.
        # The bits of the two values, (1, 0), (0, 1), (0, 0) or (1, 1), determine the
        # class of a report. Each class has its probability under the first value and
        # under the second value, and its mass in the blanket: the probability under the
        # least likely value, which is any value whose bit is 0.
        p = self.p
        q = self.q
        first_only = p * (1 - q)
        second_only = (1 - p) * q
        neither = (1 - p) * (1 - q)
        both = p * q
        # With both bits 1, a third value with the bit 0 is the least likely value: its
        # bit has the probability 1 - p in place of 1 - q, and the two bits are 1 with q.
        blanket = (1 - p) / (1 - q) * q * q
        # If the other k - 2 bits are 1 too, all values are equally likely. For k >= 64,
        # such reports are rare and remain in the class above, which has a smaller blanket.
        ones = q ** (self.k - 2) if self.k < 64 else Fraction(0)
        return ReportPair(
            (
                (first_only, second_only, second_only),
                (second_only, first_only, second_only),
                (neither, neither, neither),
                (both * (1 - ones), both * (1 - ones), blanket * (1 - ones)),
                (both * ones, both * ones, both * ones),
            )
        )

    @property
    def pair_supports(self) -> tuple[float, float]:
        return float(self.p) * float(self.q), float(self.q) ** 2

    def report(self, codes: Codes, source: ByteSource) -> Bytes:
        # Draw k bits for each code. The thresholds are the probabilities of a 1, in
        # units of 2**-64: p at the true value, and q at all other values.
        self._check_codes(codes)
        bits = bernoulli(source, self._q_threshold, codes.size * self.k)
        # Bit k i + code of the flat array is the bit of the true value of record i.
        indices = np.arange(0, bits.size, self.k)
        indices += codes.astype(np.intp, copy=False)
        bits[indices] = bernoulli(source, self._p_threshold, codes.size)
        return bits.view(np.uint8).reshape(codes.size, self.k)

    def _draw_keyed(self, codes: NDArray[Any], digests: Bytes) -> Bytes:
        return draw_by_row(self.report, digests, codes, head=0, width=self.k)

    def channel(self) -> list[list[Fraction]]:
        return self.channel_of_bits(np.eye(self.k, dtype=int).tolist())

    def channel_of_bits(self, rows: Iterable[Iterable[int]]) -> list[list[Fraction]]:
        """Compute the exact probability of each report given true vectors of bits.

        Parameters
        ----------
        rows : iterable of iterables of int
            Vectors of k bits, such as Bloom filters.

        Returns
        -------
        list of list of Fraction
            One row per vector, and one column per vector of reported bits, in the order of
            binary numbers with the first bit highest.

        Raises
        ------
        ValueError
            If there are more than 16 bits.
        """
        if self.k > 16:
            raise ValueError(
                f"`channel` supports at most 16 bits, got {self.k}. It has 2**k columns."
            )
        table = []
        for bits in rows:
            # The probabilities of all beginnings of a vector. Each further bit, which is
            # independent, splits every beginning in two: 0 first, then 1.
            row = [Fraction(1)]
            for bit in bits:
                p_one = self.p if bit else self.q
                extended = []
                for probability in row:
                    extended += [probability * (1 - p_one), probability * p_one]
                row = extended
            table.append(row)
        return table


class TwoRoundUnaryEncoding(UnaryEncoding):
    """Unary encoding with permanent bits, and fresh noise on them in each report.

    The second round flips each bit with a probability f. A bit that is 1 with
    probability s after the first round is then 1 with probability ``s (1 - f) + (1 - s)
    f``. These are the permanent and the instantaneous randomized response of RAPPOR
    ([1]_), "L-OSUE" for optimized and "L-SUE" for symmetric permanent bits.

    Parameters
    ----------
    permanent : UnaryEncoding
        Oracle of the permanent bits.
    epsilon : float or Fraction
        Requested privacy loss of one report, finite and > 0.

    Attributes
    ----------
    permanent : UnaryEncoding
        Oracle of the permanent bits.
    flip : Fraction
        Exact probability f.

    Notes
    -----
    **Privacy.** `worst_ratio` and `epsilon` apply to a single report. Any number of
    reports with the same permanent bits have at most the epsilon of `permanent`.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur, A. Korolova (2014). RAPPOR: randomized aggregatable
       privacy-preserving ordinal response. CCS.
    """

    def __init__(self, permanent: UnaryEncoding, epsilon: float | Fraction) -> None:
        # `permanent` is the first round. The second round flips each of its bits with
        # probability f, such that one report has at most this epsilon. `_set_flip` sets
        # f, and p and q of both rounds together.
        self.k = permanent.k
        self._first_round = permanent
        bound = exp_bounds(cap_epsilon(epsilon))[0]
        # Bisection finds the smallest f, in units of 2**-64, with this epsilon. It is
        # valid because the ratio p (1 - q) / ((1 - p) q) decreases as f grows to 1/2:
        # its logarithm is ln(p / (1 - p)) - ln(q / (1 - q)), and for x = s + f (1 - 2 s)
        # the derivative of ln(x / (1 - x)) with respect to f is
        # (1 - 2 x) / (x (1 - x) (1 - 2 f)), which decreases in x.
        low, high = 0, ONE // 2
        while low < high:
            self._set_flip((low + high) // 2)
            if self.worst_ratio <= bound:
                high = self._flip
            else:
                low = self._flip + 1
        self._set_flip(low)
        if self.p == self.q:
            raise small_epsilon_error(epsilon)

    def _set_flip(self, threshold: int) -> None:
        """Set the probability f of a flipped bit, in units of 2**-64, and p and q."""
        self._flip = threshold
        self.flip = Fraction(threshold, ONE)
        # s (1 - f) + (1 - s) f = s + f (1 - 2 s)
        self.p = self.permanent.p + self.flip * (1 - 2 * self.permanent.p)
        self.q = self.permanent.q + self.flip * (1 - 2 * self.permanent.q)

    @property
    def permanent(self) -> UnaryEncoding:
        return self._first_round

    def report(self, codes: Codes, source: ByteSource) -> Bytes:
        return self.report_again(self.permanent.report(codes, source), source)

    def report_again(self, reports: NDArray[Any], source: ByteSource) -> Bytes:
        # Flip each permanent bit with the probability of the second round.
        bits = check_bits(reports, self.k)
        flips = bernoulli(source, self._flip, bits.size).reshape(bits.shape)
        return (bits ^ flips).view(np.uint8)


class SubsetSelection(BitOracle):
    """Subset selection: report a random set of w of the k values.

    A set that contains the true value is e^eps times as likely as a set that does not.
    So the true value is in the set with probability ``p = w e^eps / (w e^eps + k - w)``,
    and the other members are uniform ([1]_, [2]_). Equivalently, with probability ``l =
    (k / w) / (e^eps - 1 + k / w)`` the set is uniform among all sets, and otherwise
    uniform among the sets that contain the true value. No protocol has a smaller
    worst-case mean squared error ([2]_).

    Parameters
    ----------
    k : int
        Number of values, at least 2.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0.
    subset_size : int, default=None
        Size w, from 1 to k - 1. None selects the size with the smallest mean squared
        error, near k / (e^eps + 1).

    Attributes
    ----------
    subset_size : int
        Size of the reported sets.
    lie : Fraction
        Exact probability l of a uniform set, rounded up to a multiple of 2**-64.
    p, q : Fraction
        Exact probabilities that a set contains the true value, and that it contains a
        given other value.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. A set is reported as one bit per
    value, because the order in which its members were drawn would reveal the true
    value.

    References
    ----------
    .. [1] S. Wang et al. (2016). Mutual information optimally local private discrete
       distribution estimation. arXiv:1607.08025
    .. [2] M. Ye, A. Barg (2018). Optimal schemes for discrete distribution estimation
       under locally differential privacy. IEEE Transactions on Information Theory
       64(8).

    Examples
    --------
    >>> from skdp.oracles import SubsetSelection
    >>> oracle = SubsetSelection(14, 1.0)
    >>> oracle.subset_size, round(oracle.mean_squared_error, 2)
    (4, 3.11)
    """

    def __init__(
        self, k: int, epsilon: float | Fraction, *, subset_size: int | None = None
    ) -> None:
        # A report is a set of `subset_size` of the k values, which contains the true
        # value with a larger probability than any other value.
        self.k = check_size(k)
        capped = cap_epsilon(epsilon)
        if subset_size is not None:
            sizes = [
                check_size(
                    subset_size, min_val=1, max_val=self.k - 1, name="subset_size"
                )
            ]
        else:
            # The error is convex in the size, with its minimum at k / (e^eps + 1).
            best = self.k / (math.exp(min(float(capped), 50)) + 1)
            below = max(1, math.floor(best))
            sizes = sorted({below, min(math.ceil(best), self.k - 1)})

        def compute_error(size: int) -> float:
            self._set_size(size, capped)
            return self.mean_squared_error

        self._set_size(min(sizes, key=compute_error), capped)

    def _set_size(self, size: int, epsilon: Fraction) -> None:
        """Set the size w of the reported sets, and the probabilities that follow from it.

        A set is uniform with probability `lie`, and otherwise uniform among the sets
        with the true value. It contains the true value with probability p, and any
        other value with probability q.
        """
        self.subset_size = size
        self._uniform_threshold = lie_threshold(epsilon, Fraction(self.k, size))
        self.lie = Fraction(self._uniform_threshold, ONE)
        # A uniform set excludes the true value with probability (k - w) / k.
        self.p = 1 - self.lie * Fraction(self.k - size, self.k)
        # The w - p other members, on average, are uniform among k - 1 values.
        self.q = (size - self.p) / (self.k - 1)

    def sampler(self) -> dict[str, Any]:
        size, lie = self.subset_size, str(self._uniform_threshold)
        return {"kind": "subset", "k": self.k, "size": size, "lie": lie}

    @property
    def worst_ratio(self) -> Fraction:
        # The quotient of `_set_probabilities`, without their huge binomial coefficients.
        return self.p * (self.k - self.subset_size) / ((1 - self.p) * self.subset_size)

    def shuffle_pair(self) -> ReportPair:
        # Compare the distributions of a report under two different values.
        # Numbers of sets that contain only one of the two values, both, and neither.
        n_others = self.k - 2
        size = self.subset_size
        n_one = math.comb(n_others, size - 1)
        n_both = math.comb(n_others, size - 2) if size > 1 else 0
        n_none = math.comb(n_others, size)
        with_value, without_value = self._set_probabilities()
        counts = (n_one, n_one, n_both, n_none)
        return ReportPair.from_support(with_value, without_value, counts)

    def _set_probabilities(self) -> tuple[Fraction, Fraction]:
        """Return the probability of one set with the true value, and of one without it."""
        # C(k - 1, w - 1) sets contain the true value, and C(k - 1, w) sets do not.
        with_value = self.p / math.comb(self.k - 1, self.subset_size - 1)
        return with_value, (1 - self.p) / math.comb(self.k - 1, self.subset_size)

    @property
    def n_reports(self) -> int:
        return math.comb(self.k, self.subset_size)

    @property
    def pair_supports(self) -> tuple[float, float]:
        # Probabilities that a report, a set of `size` of k values, contains two given
        # values: the true value and another one, and two values other than the true
        # one.
        if self.k == 2:
            return 0.0, 0.0
        p = float(self.p)
        size = self.subset_size
        n_others = self.k - 1
        # A set has size - 1 of the other values with probability p, otherwise `size` of
        # them. m of n values contain two given values with probability m (m - 1) / (n (n - 1)).
        both = p * (size - 1) * (size - 2) + (1 - p) * size * (size - 1)
        return p * (size - 1) / n_others, both / (n_others * (n_others - 1))

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"subset_size": self.subset_size}

    def report(self, codes: Codes, source: ByteSource) -> Bytes:
        # Draw a set for each code, as k bits. `_uniform_threshold` is the probability,
        # in units of 2**-64, that it ignores the true value.
        self._check_codes(codes)
        is_uniform = bernoulli(source, self._uniform_threshold, codes.size)
        # The member that a set must contain; -1 for a uniform set.
        required = np.where(is_uniform, -1, codes.astype(np.int64))
        bits = subsets(source, self.k, self.subset_size, codes.size, required)
        return bits.view(np.uint8)

    def _draw_keyed(self, codes: NDArray[Any], digests: Bytes) -> Bytes:
        return draw_by_row(self.report, digests, codes)

    def _read(self, columns: NDArray[Any]) -> NDArray[Any]:
        bits = super()._read(columns)
        # Sums of a small dtype are several times as fast.
        sizes = bits.sum(axis=1, dtype=np.min_scalar_type(self.k))
        if (sizes != self.subset_size).any():
            raise ValueError(
                f"`reports` must contain exactly {self.subset_size} of the {self.k} "
                "values in each row."
            )
        return bits

    def channel(self) -> list[list[Fraction]]:
        # A row for each true value, and a column for each set of `subset_size` values:
        # the set has a larger probability if it contains the value.
        if self.n_reports > 1 << 16:
            raise ValueError(
                f"`channel` supports at most 2**16 sets, got {self.n_reports:,}."
            )
        with_value, without_value = self._set_probabilities()
        sets = list(combinations(range(self.k), self.subset_size))
        table = []
        for value in range(self.k):
            is_member = [value in members for members in sets]
            table.append([with_value if hit else without_value for hit in is_member])
        return table
