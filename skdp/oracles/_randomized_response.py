"""Randomized response among k values: report the true value, or a uniform one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._base import (
    FrequencyOracle,
    capped_epsilon,
    draw_by_row,
    pure_noise,
)
from skdp.privacy import ReportPair
from skdp.randomness import (
    BLOCK,
    ONE,
    ByteSource,
    bernoulli,
    check_size,
    restrict_source,
    uniform_integers,
)


class RandomizedResponse(FrequencyOracle):
    """Randomized response among k values ("GRR") on codes.

    Warner's two coins: the true value if the first coin shows heads, else "yes" or "no"
    by the second one.

    With probability l = k / (e^eps + k - 1) a code is replaced by a uniform draw from
    all k codes, otherwise it is reported. The true value is reported with probability p
    = 1 - l (k - 1) / k and every other value with probability q = l / k; p / q = e^eps
    ([1]_, [2]_ section 4). In integers, l is rounded up: more noise.

    A single random word x of w bits decides a report (w = 16 up to k = 256, else 32).
    Its remainder modulo k is uniform over the codes, and independent of its quotient: a
    quotient below a bound m reports the remainder, one above m reports the true value.
    The few words of quotient m are settled by a coin of 64 bits and a separate uniform
    draw.

    Parameters
    ----------
    k : int
        The number of values, from 2 to 2**32 - 1.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    lie : Fraction
        The exact probability l.
    p, q : Fraction
        The exact probabilities of the truth and of each other value.

    See Also
    --------
    FrequencyOracle : Methods of all oracles.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. `epsilon` is computed from the
    integers that are drawn and rounded up; it never exceeds the request. As a uniform
    draw always remains possible, it is finite for any request: at most 80 ln 2 = 55.5, or 96
    ln 2 = 66.6 for more than 256 values. The number of bytes that are read does not
    depend on the codes.

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
    >>> coins = RandomizedResponse(2, math.log(3))
    >>> [[round(float(p), 6) for p in row] for row in coins.channel()]
    [[0.75, 0.25], [0.25, 0.75]]
    """

    is_encodable = True
    pair_supports = 0.0, 0.0

    def __init__(self, k: int, epsilon: float | Fraction) -> None:
        self.k = check_size(k)
        # The lower bound of e^eps makes a uniform draw likelier: toward more noise.
        power = exp_bounds(capped_epsilon(epsilon))[0]
        smallest = min(Fraction(1), self.k / (power + self.k - 1))
        self._bits = 16 if self.k <= 256 else 32
        n_words = 1 << self._bits
        self._bound = math.floor(smallest * n_words / self.k)
        # The words whose quotient is the bound, and the uniform draws among them.
        n_tied = min(self.k, n_words - self._bound * self.k)
        n_uniform = smallest * n_words - self._bound * self.k
        self._threshold = math.ceil(n_uniform / n_tied * ONE) if n_tied else 0
        self.lie = self._bound * self.k + n_tied * Fraction(self._threshold, ONE)
        self.lie /= n_words
        self.p = 1 - self.lie * (self.k - 1) / self.k
        self.q = self.lie / self.k
        if self.lie == 1:
            raise pure_noise(epsilon)

    def sampler(self) -> dict[str, Any]:
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

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.unsignedinteger]:
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
            # where(quotient < bound, drawn, codes), but by arithmetic: a branch on
            # random bits is several times slower.
            change = drawn.astype(codes.dtype, copy=False)
            change ^= block
            change *= quotient < self._bound
            reports[start : start + step] = np.bitwise_xor(block, change)
            tied.append(np.flatnonzero(quotient == self._bound) + start)
        rows = np.concatenate([*tied, np.empty(0, np.intp)])
        is_uniform = bernoulli(
            restrict_source(source, rows), self._threshold, rows.size
        )
        rows = rows[is_uniform]
        reports[rows] = uniform_integers(
            restrict_source(source, rows), self.k, rows.size
        )
        return reports

    def _draw_keyed(
        self, codes: NDArray[Any], digests: NDArray[np.uint8]
    ) -> NDArray[Any]:
        return draw_by_row(self.report, digests, codes)

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return self._supports_of(reports, np.arange(self.k, dtype=reports.dtype))

    def _supports_of(
        self, reports: NDArray[Any], cells: NDArray[Any]
    ) -> NDArray[np.bool_]:
        self._check_codes(reports)
        return reports[:, np.newaxis] == cells

    def tally(self, reports: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
        self._check_codes(reports)
        return np.bincount(reports.astype(np.intp, copy=False), minlength=self.k)

    def channel(self) -> list[list[Fraction]]:
        table = []
        for value in range(self.k):
            row = [self.q] * self.k
            row[value] = self.p
            table.append(row)
        return table
