"""Randomized response among k values: report the true value, or a uniform value."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Bytes, Codes, Integers, Mask
from skdp.exact import exp_bounds
from skdp.oracles._oracle import (
    FrequencyOracle,
    cap_epsilon,
    small_epsilon_error,
)
from skdp.privacy import ReportPair
from skdp.randomness import (
    BLOCK,
    ONE,
    ByteSource,
    bernoulli,
    check_size,
    draw_by_row,
    restrict_source,
    uniform_integers,
)


class RandomizedResponse(FrequencyOracle):
    """Randomized response among k values, also called k-ary or generalized (GRR).

    With probability ``l = k / (e^eps + k - 1)``, a code is replaced by a uniform draw
    from all k codes; otherwise, it is reported. So the true value is reported with
    probability ``p = 1 - l (k - 1) / k`` and each other value with probability ``q = l /
    k``, where ``p / q = e^eps`` ([1]_, [2]_ section 4). For k = 2, this is randomized
    response with two coins.

    Parameters
    ----------
    k : int
        Number of values, from 2 to 2**32 - 1.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0.

    Attributes
    ----------
    lie : Fraction
        Exact probability l of a uniform draw, rounded up.
    p, q : Fraction
        Exact probabilities of the true value and of each other value.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. `epsilon` is computed from the
    probabilities of the integers that are drawn, and never exceeds the request. It is
    finite for any request, because a uniform draw is always possible: at most 80 ln 2 =
    55.5, or 96 ln 2 = 66.6 for more than 256 values. The number of random bytes does not
    depend on the codes.

    One random word of w bits decides nearly all reports (w = 16 up to k = 256, otherwise
    32). Its remainder modulo k is uniform over the codes, and independent of its
    quotient. If the quotient is less than a bound m, the remainder is reported; if it is
    greater, the true value is reported. For a quotient of m, which is rare, a Bernoulli
    variable with a probability in units of 2**-64 selects one of the two, so that l has
    w + 64 bits.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.
    .. [2] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.

    Examples
    --------
    >>> import math
    >>> from skdp.oracles import RandomizedResponse
    >>> oracle = RandomizedResponse(2, math.log(3))
    >>> [[round(float(p), 6) for p in row] for row in oracle.channel()]
    [[0.75, 0.25], [0.25, 0.75]]
    """

    is_encodable = True
    pair_supports = 0.0, 0.0

    def __init__(self, k: int, epsilon: float | Fraction) -> None:
        # With probability `lie`, the report is uniform among all k values, and
        # otherwise the true value. p is the probability that a report is the true
        # value, and q that it is any other given value. `_bound` and `_threshold`
        # select the words of `_bits` random bits that give a uniform report.
        self.k = check_size(k)
        # A lower bound of e^eps makes a uniform draw more probable, which adds noise.
        power = exp_bounds(cap_epsilon(epsilon))[0]
        requested = min(Fraction(1), self.k / (power + self.k - 1))
        self._bits = 16 if self.k <= 256 else 32
        n_words = 1 << self._bits
        # All words with a quotient less than the bound are uniform draws: k words each.
        self._bound = math.floor(requested * n_words / self.k)
        # A fraction of the words whose quotient is the bound are uniform draws, too. The
        # last quotient may have less than k words.
        n_tied = min(self.k, n_words - self._bound * self.k)
        n_missing = requested * n_words - self._bound * self.k
        self._threshold = math.ceil(n_missing / n_tied * ONE) if n_tied else 0
        self.lie = self._bound * self.k + n_tied * Fraction(self._threshold, ONE)
        self.lie /= n_words
        self.p = 1 - self.lie * (self.k - 1) / self.k
        self.q = self.lie / self.k
        if self.lie == 1:
            raise small_epsilon_error(epsilon)

    def sampler(self) -> dict[str, Any]:
        # Parameters with which a client in another language makes such reports.
        return {
            "kind": "response",
            "k": self.k,
            "word_bits": self._bits,
            "bound": self._bound,
            "threshold": str(self._threshold),
        }

    @property
    def worst_ratio(self) -> Fraction:
        return self.p / self.q

    @property
    def variation(self) -> Fraction:
        return self.p - self.q

    def shuffle_pair(self) -> ReportPair:
        counts = (1, 1, 0, self.k - 2)
        return ReportPair.from_support(self.p, self.q, counts)

    def report(self, codes: Codes, source: ByteSource) -> Codes:
        # The quotient of a random word by k decides between the remainder, which is
        # uniform, and the true code; `_bound` is the quotient for which `_threshold`
        # decides.
        self._check_codes(codes)
        word = np.dtype(f"<u{self._bits // 8}")
        reports = np.empty_like(codes)
        step = BLOCK // word.itemsize
        tied = []
        for start in range(0, codes.size, step):
            block = codes[start : start + step]
            words = source.bytes(block.size * word.itemsize).view(word)
            quotient = words // word.type(self.k)
            drawn = words - quotient * word.type(self.k)
            # np.where(quotient < bound, drawn, codes), by arithmetic, because branches
            # on random bits are several times slower: code ^ (drawn ^ code) is drawn.
            change = drawn.astype(codes.dtype, copy=False)
            change ^= block
            change *= quotient < self._bound
            reports[start : start + step] = np.bitwise_xor(block, change)
            tied.append(np.flatnonzero(quotient == self._bound) + start)
        # Rows whose quotient is the bound. Without codes, only the empty array remains.
        rows = np.concatenate([*tied, np.empty(0, np.intp)])
        if not rows.size:
            return reports
        is_uniform = bernoulli(
            restrict_source(source, rows), self._threshold, rows.size
        )
        rows = rows[is_uniform]
        reports[rows] = uniform_integers(
            restrict_source(source, rows), self.k, rows.size
        )
        return reports

    def _draw_keyed(self, codes: NDArray[Any], digests: Bytes) -> NDArray[Any]:
        return draw_by_row(self.report, digests, codes)

    def supports(self, reports: NDArray[Any]) -> Mask:
        return self._supports_of(reports, np.arange(self.k, dtype=reports.dtype))

    def _supports_of(self, reports: NDArray[Any], cells: NDArray[Any]) -> Mask:
        self._check_codes(reports)
        return reports[:, np.newaxis] == cells

    def tally(self, reports: Codes) -> Integers:
        self._check_codes(reports)
        return np.bincount(reports.astype(np.intp, copy=False), minlength=self.k)

    def channel(self) -> list[list[Fraction]]:
        # A row for each true value, and a column for each reported value.
        table = []
        for value in range(self.k):
            row = [self.q] * self.k
            row[value] = self.p
            table.append(row)
        return table
