"""Oracles with bits as reports: unary encoding, with one or two rounds, and subset selection."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._base import (
    FrequencyOracle,
    capped_epsilon,
    channel_of_bits,
    check_bits,
    draw_by_row,
    flip_threshold,
    lie_threshold,
    pure_noise,
)
from skdp.privacy import ReportPair
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    check_size,
    subsets,
)


class BitOracle(FrequencyOracle):
    """Oracle with one bit per value as a report, which supports the values whose bits are 1."""

    has_bits = True
    is_encodable = True

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return check_bits(reports, self.k)

    @property
    def variation(self) -> Fraction:
        return self.p - self.q


class UnaryEncoding(BitOracle):
    """Unary encoding on codes: the one-hot bits of the value, randomized independently.

    The bit of the true value is reported as 1 with probability p, every other bit with
    probability q. Two values differ in two bits, so ``e^eps = p (1 - q) / ((1 - p) q)``
    ([1]_ section 4).

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    epsilon : float or Fraction, optional
        The requested privacy loss, finite and > 0; None if p and q are given.
    variant : {"optimized", "symmetric"}, default="optimized"
        ``"optimized"`` (OUE): p = 1/2, q = 1 / (e^eps + 1). ``"symmetric"`` (SUE, the
        basic form of RAPPOR): q = 1 - p = 1 / (e^(eps/2) + 1).
    p, q : float or Fraction, optional
        The two probabilities, 0 < q < p < 1, instead of epsilon.

    Attributes
    ----------
    p, q : Fraction
        The exact probabilities: integers over 2**64, p rounded down and q up, toward
        more noise.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or epsilon and p, q are given together.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value, for the whole vector of bits.
    The bit of the true value is drawn once, with probability p, not q first.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.

    Examples
    --------
    >>> from skdp.oracles import UnaryEncoding
    >>> round(UnaryEncoding(14, p=0.75, q=0.25).epsilon, 4)  # log(9)
    2.1972
    """

    def __init__(
        self,
        k: int,
        epsilon: float | Fraction | None = None,
        *,
        variant: Literal["optimized", "symmetric"] = "optimized",
        p: float | Fraction | None = None,
        q: float | Fraction | None = None,
    ) -> None:
        self.k = check_size(k)
        if variant not in ("optimized", "symmetric"):
            raise ValueError(
                f"variant must be 'optimized' or 'symmetric', got {variant!r}"
            )
        if (p is None) != (q is None) or (epsilon is None) == (p is None):
            raise ValueError(
                "Exactly one of epsilon, or p and q with epsilon=None, is required"
            )
        if epsilon is None:
            if not isinstance(p, Real) or not isinstance(q, Real):
                raise TypeError(f"p and q must be numbers, got {p!r} and {q!r}")
            p_heads = math.floor(Fraction(*p.as_integer_ratio()) * ONE)
            q_heads = math.ceil(Fraction(*q.as_integer_ratio()) * ONE)
            if not 0 < q_heads < p_heads < ONE:
                raise ValueError(
                    "p and q must satisfy 0 < q < p < 1 (by at least 2**-64), "
                    f"got p={p}, q={q}"
                )
            self._heads = [p_heads, q_heads]
        else:
            capped = capped_epsilon(epsilon)
            flip = flip_threshold(capped / 2)
            self._heads = [ONE - flip, flip]
            if variant == "optimized":
                self._heads = [ONE // 2, flip_threshold(capped)]
            if self._heads[0] == self._heads[1]:
                raise pure_noise(epsilon)
        self.p = Fraction(self._heads[0], ONE)
        self.q = Fraction(self._heads[1], ONE)

    def sampler(self) -> dict[str, Any]:
        p, q = self._heads
        return {"kind": "bits", "k": self.k, "p": str(p), "q": str(q)}

    @property
    def worst_ratio(self) -> Fraction:
        return self.p * (1 - self.q) / ((1 - self.p) * self.q)

    def shuffle_pair(self) -> ReportPair:
        # One class for each pair of bits of the two values. The least likely value is
        # one whose bit is 0, unless all bits are 1.
        p = self.p
        q = self.q
        # All other bits are 1; a blanket may be smaller.
        ones = q ** (self.k - 2) if self.k < 64 else Fraction(0)
        first_only = p * (1 - q)
        second_only = (1 - p) * q
        neither = (1 - p) * (1 - q)
        both = p * q
        blanket = (1 - p) / (1 - q) * q * q
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

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_codes(codes)
        p_heads, q_heads = self._heads
        bits = bernoulli(source, q_heads, codes.size * self.k)
        indices = np.arange(0, bits.size, self.k)
        indices += codes.astype(np.intp, copy=False)
        bits[indices] = bernoulli(source, p_heads, codes.size)
        return bits.view(np.uint8).reshape(codes.size, self.k)

    def channel(self) -> list[list[Fraction]]:
        one_hot = np.eye(self.k, dtype=int).tolist()
        return channel_of_bits(one_hot, self.k, (self.q, self.p))


class TwoRoundUnaryEncoding(UnaryEncoding):
    """Unary encoding with permanent bits, and fresh noise on them in each report.

    The second round flips each bit with a probability f. A bit that is 1 with
    probability s after the first round is then 1 with probability ``s (1 - f) + (1 - s)
    f``. These are the permanent and the instantaneous randomized response of RAPPOR
    ([1]_), "L-OSUE" for optimized and "L-SUE" for symmetric permanent bits.

    Parameters
    ----------
    permanent : UnaryEncoding
        The oracle of the permanent bits.
    epsilon : float or Fraction
        The requested privacy loss of one report, finite and > 0.

    Attributes
    ----------
    permanent : UnaryEncoding
        The oracle of the permanent bits.
    flip : Fraction
        The exact probability f.

    Notes
    -----
    **Privacy.** `worst_ratio` and `epsilon` are of a single report. Any number of
    reports with the same permanent bits have at most the epsilon of `permanent`.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur, A. Korolova (2014). RAPPOR: randomized aggregatable
       privacy-preserving ordinal response. CCS.
    """

    def __init__(self, permanent: UnaryEncoding, epsilon: float | Fraction) -> None:
        self.k = permanent.k
        self.permanent = permanent
        bound = exp_bounds(capped_epsilon(epsilon))[0]
        # The ratio p (1 - q) / ((1 - p) q) falls as f grows to 1/2: with x either of p
        # and q, the derivative of ln(x / (1 - x)) in f is (1/x - 1/(1 - x)) / (1 - 2 f),
        # which is smaller for the larger x. Bisection finds the smallest f with this
        # epsilon, among integers over 2**64.
        low, high = 0, ONE // 2
        while low < high:
            self._set_flip((low + high) // 2)
            if self.worst_ratio <= bound:
                high = self._flip
            else:
                low = self._flip + 1
        self._set_flip(low)
        if self.p == self.q:
            raise pure_noise(epsilon)

    def _set_flip(self, heads: int) -> None:
        """Set the probability that the second round flips a bit, in units of 2**-64."""
        self._flip = heads
        self.flip = Fraction(heads, ONE)
        self.p = self.permanent.p + self.flip * (1 - 2 * self.permanent.p)
        self.q = self.permanent.q + self.flip * (1 - 2 * self.permanent.q)

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        return self.report_again(self.permanent.report(codes, source), source)

    def report_again(
        self, reports: NDArray[Any], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Add the noise of the second round to permanent bits.

        Parameters
        ----------
        reports : ndarray of shape (n, k)
            Permanent bits.
        source : ByteSource
            Source of the random bytes.

        Returns
        -------
        ndarray of shape (n, k), dtype uint8
            Bits.
        """
        bits = check_bits(reports, self.k)
        flips = bernoulli(source, self._flip, bits.size).reshape(bits.shape)
        return (bits ^ flips).view(np.uint8)


class SubsetSelection(BitOracle):
    """Subset selection on codes: report a set with w of the k values.

    A set is e^eps times likelier if it contains the true value than if it does not: the
    true value is in the set with probability ``p = w e^eps / (w e^eps + k - w)``, and
    the rest of the set is uniform ([1]_, [2]_). Equivalently, with probability ``l = (k
    / w) / (e^eps - 1 + k / w)``, rounded up to an integer over 2**64, the set is
    uniform among all sets, otherwise among the sets that contain the true value. No
    protocol has a smaller worst mean squared error ([2]_).

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    subset_size : int, optional
        The size w, from 1 to k - 1; by default the one with the smallest mean squared error, near k / (e^eps + 1).

    Attributes
    ----------
    subset_size : int
        The size of the reported sets.
    lie : Fraction
        The exact probability l.
    p, q : Fraction
        The exact probabilities that a set contains the true value, and that it contains
        another one.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. A set is reported as one bit per
    value: a list of its members in the order in which they were drawn would reveal the
    true one.

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
        self.k = check_size(k)
        capped = capped_epsilon(epsilon)
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

        def find_error(size: int) -> float:
            self._set_size(size, capped)
            return self.mean_squared_error

        self._set_size(min(sizes, key=find_error), capped)

    def _set_size(self, size: int, epsilon: Fraction) -> None:
        """Set the size of the sets, and the probabilities that follow from it."""
        self.subset_size = size
        self._lie = lie_threshold(epsilon, Fraction(self.k, size))
        self.lie = Fraction(self._lie, ONE)
        self.p = 1 - self.lie * Fraction(self.k - size, self.k)
        self.q = (size - self.p) / (self.k - 1)

    def sampler(self) -> dict[str, Any]:
        size, lie = self.subset_size, str(self._lie)
        return {"kind": "subset", "k": self.k, "size": size, "lie": lie}

    @property
    def worst_ratio(self) -> Fraction:
        return self.p * (self.k - self.subset_size) / ((1 - self.p) * self.subset_size)

    def shuffle_pair(self) -> ReportPair:
        # Numbers of sets that contain only one of the two values, both, and neither.
        n_others = self.k - 2
        size = self.subset_size
        n_one = math.comb(n_others, size - 1)
        n_both = math.comb(n_others, size - 2) if size > 1 else 0
        n_none = math.comb(n_others, size)
        high, low = self._set_shares()
        counts = (n_one, n_one, n_both, n_none)
        return ReportPair.from_support(high, low, counts)

    def _set_shares(self) -> tuple[Fraction, Fraction]:
        """Return the probabilities of a set that holds the true value, and of another."""
        high = self.p / math.comb(self.k - 1, self.subset_size - 1)
        return high, (1 - self.p) / math.comb(self.k - 1, self.subset_size)

    @property
    def n_reports(self) -> int:
        return math.comb(self.k, self.subset_size)

    @property
    def pair_supports(self) -> tuple[float, float]:
        if self.k == 2:
            return 0.0, 0.0
        p = float(self.p)
        size = self.subset_size
        n_others = self.k - 1
        both = p * (size - 1) * (size - 2) + (1 - p) * size * (size - 1)
        return p * (size - 1) / n_others, both / (n_others * (n_others - 1))

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"subset_size": self.subset_size}

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_codes(codes)
        is_honest = ~bernoulli(source, self._lie, codes.size)
        required = np.where(is_honest, codes.astype(np.int64), -1)
        bits = subsets(source, self.k, self.subset_size, codes.size, required)
        return bits.view(np.uint8)

    def _draw_keyed(
        self, codes: NDArray[Any], digests: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        return draw_by_row(self.report, digests, codes)

    def channel(self) -> list[list[Fraction]]:
        if self.n_reports > 1 << 16:
            raise ValueError("the channel has more than 2**16 reports")
        high, low = self._set_shares()
        sets = list(combinations(range(self.k), self.subset_size))
        table = []
        for value in range(self.k):
            table.append([high if value in members else low for members in sets])
        return table
