"""Subset selection: a random set of values that is likely to contain the true one."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._support import (
    capped_epsilon,
    check_bits,
    check_size,
    lie_threshold,
    pure_error,
)
from skdp.oracles.sums import group_tails
from skdp.privacy import ReportPair
from skdp.randomness import (
    BLOCK,
    ONE,
    ByteSource,
    bernoulli,
    bernoulli_ratio,
    subsets,
    uniform_integers,
)

_TABLE_BYTES = 1 << 18
"""The size of the largest table of sets, which stays in the cache."""

_CELLS = 1 << 22
"""Cells drawn at a time: enough for whole-array steps, few enough for the cache."""

_COIN, _WORD = 8, 4
"""The bytes of the coin of a record, and of the first word of each value."""


class SubsetSelection(FrequencyOracle):
    """Subset selection on codes: report a set of w of the k values.

    A set is e^eps times likelier if it contains the true value than if it does not: the true value is in the set with
    probability ``p = w e^eps / (w e^eps + k - w)``, and the rest of the set is uniform ([1]_, [2]_). Equivalently, with
    probability ``l = (k / w) / (e^eps - 1 + k / w)``, rounded up to an integer over 2**64, the set is uniform among all
    sets, otherwise among those that contain the true value. No protocol has a smaller worst mean squared error ([2]_).

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    subset_size : int, optional
        The size w, from 1 to k - 1; by default the one with the least mean squared error, near k / (e^eps + 1).

    Attributes
    ----------
    subset_size : int
        The size of the reported sets.
    lie : Fraction
        The exact probability l.
    p, q : Fraction
        The exact probabilities that a set contains the true value, and that it contains another one.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. A set is reported as one bit per value: a list of its members in
    the order in which they were drawn would reveal the true one.

    References
    ----------
    .. [1] S. Wang et al. (2016). Mutual information optimally local private discrete distribution estimation.
       arXiv:1607.08025
    .. [2] M. Ye, A. Barg (2018). Optimal schemes for discrete distribution estimation under locally differential
       privacy. IEEE Transactions on Information Theory 64(8).

    Examples
    --------
    >>> oracle = SubsetSelection(14, 1.0)
    >>> oracle.subset_size, round(oracle.mean_squared_error, 2)
    (4, 3.11)
    """

    has_bits = True
    is_encodable = True

    def __init__(
        self, k: int, epsilon: float | Fraction, *, subset_size: int | None = None
    ) -> None:
        self.k = check_size(k)
        wanted = capped_epsilon(epsilon)
        if subset_size is not None:
            sizes = [
                check_size(subset_size, least=1, most=self.k - 1, name="subset_size")
            ]
        else:
            centre = math.floor(self.k / (math.exp(min(float(wanted), 50)) + 1))
            sizes = sorted(
                {min(max(1, centre + step), self.k - 1) for step in (-1, 0, 1, 2)}
            )
        choices = [
            (size, lie_threshold(wanted, Fraction(self.k, size))) for size in sizes
        ]
        self.subset_size, self._lie = min(
            choices, key=lambda choice: pure_error(self.k, *self._shares(*choice))
        )
        self.lie = Fraction(self._lie, ONE)
        self.p, self.q = self._shares(self.subset_size, self._lie)

    def _shares(self, size: int, lie: int) -> tuple[Fraction, Fraction]:
        """Return the probabilities that the true value, and another one, is in the set."""
        p = 1 - Fraction(lie, ONE) * Fraction(self.k - size, self.k)
        return p, (size - p) / (self.k - 1)

    def sampler(self) -> dict[str, Any]:
        return {
            "kind": "subset",
            "k": self.k,
            "size": self.subset_size,
            "lie": str(self._lie),
        }

    @property
    def worst_ratio(self) -> Fraction:
        return self.p * (self.k - self.subset_size) / ((1 - self.p) * self.subset_size)

    def shuffle_pair(self) -> ReportPair:
        k, w = self.k, self.subset_size
        one, both, none = (
            math.comb(k - 2, w - 1),
            math.comb(k - 2, w - 2) if w > 1 else 0,
            math.comb(k - 2, w),
        )
        high, low = self.p / math.comb(k - 1, w - 1), (1 - self.p) / math.comb(k - 1, w)
        return ReportPair.of_support(
            high, low, (one, one, both, none), two_valued=k == 2
        )

    @property
    def variation(self) -> Fraction:
        return self.p - self.q

    @property
    def n_reports(self) -> int:
        return math.comb(self.k, self.subset_size)

    @property
    def pair_supports(self) -> tuple[float, float]:
        p, k, w = float(self.p), self.k, self.subset_size
        if k == 2:
            return 0.0, 0.0
        both = (p * (w - 1) * (w - 2) + (1 - p) * w * (w - 1)) / ((k - 1) * (k - 2))
        return p * (w - 1) / (k - 1), both

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"subset_size": self.subset_size}

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_codes(codes)
        self._check_size(codes.size)
        n_sets = self.n_reports
        if n_sets * (1 + self.subset_size) * self.k <= _TABLE_BYTES:
            return self._look_up(codes, source)
        return self._build(codes, source)

    def _look_up(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Draw the sets from the table of all sets."""
        # There are N = C(k, w) sets, M of them with a given value, and k M = w N. So a uniform integer below w N gives,
        # divided by w, one of all the sets, and divided by k, one of those that contain the true value.
        n_sets = self.n_reports
        n_own = n_sets * self.subset_size // self.k
        bits = np.empty((codes.size, self.k), np.uint8)
        step = max(1, _CELLS // self.k)
        for start in range(0, codes.size, step):
            some = codes[start : start + step]
            drawn = uniform_integers(
                source, n_sets * self.subset_size, some.size
            ).astype(np.uint32)
            index = (
                some.astype(np.uint32) * np.uint32(n_own)
                + np.uint32(n_sets)
                + drawn // np.uint32(self.k)
            )
            # where(lies, drawn // w, index), but by arithmetic: a branch on random bits is several times slower.
            index ^= (index ^ drawn // np.uint32(self.subset_size)) * bernoulli(
                source, self._lie, some.size
            )
            np.take(
                _table(self.k, self.subset_size),
                index,
                axis=0,
                out=bits[start : start + step],
                mode="clip",
            )
        return bits

    def _build(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Draw the sets without a table."""
        # The true value's bit is a coin, and the rest of the set is uniform among the sets of the k - 1 other values.
        # It is drawn from 0 .. k - 2, where the last value, k - 1, replaces the true one.
        own = bernoulli_ratio(source, self.p.numerator, self.p.denominator, codes.size)
        packed = subsets(source, self.k - 1, self.subset_size - 1, ~own)
        step = max(1, _CELLS // self.k)
        for start in range(0, codes.size, step):
            rows, some, mine = (
                array[start : start + step] for array in (packed, codes, own)
            )
            cells, places = rows.reshape(-1), np.arange(0, rows.size, rows.shape[1])
            places += (some >> 3).astype(np.intp, copy=False)
            bit = np.right_shift(128, some & 7, dtype=np.uint8, casting="unsafe")
            drawn = cells[places]
            cells[places] = drawn & ~bit | bit * mine
            rows[:, (self.k - 1) // 8] |= (drawn & bit != 0).view(np.uint8) << (
                -self.k
            ) % 8
        return np.unpackbits(packed, axis=1, count=self.k)

    def _draw_keyed(
        self, codes: NDArray[Any], digests: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Draw the sets of many records at a time."""
        # A coin decides whether the set is uniform among all, or among those that contain the true value. Each value
        # has a random real number, known to 32 bits, and the set consists of the values with the smallest numbers: all
        # orders of the numbers are equally likely. If the set must contain the true value, this comes before all
        # others. Where the 32 bits do not decide which number is smaller, further ones do.
        k, size = self.k, self.subset_size
        last_lie = np.uint64(self._lie - 1)  # a lie is always possible
        sets = np.empty((len(digests), k), np.uint8)
        step = max(1, BLOCK // k)
        for start in range(0, len(digests), step):
            part, true = digests[start : start + step], codes[start : start + step]
            stream = b"".join(
                [hashlib.shake_256(digest).digest(_COIN + _WORD * k) for digest in part]
            )
            drawn = np.frombuffer(stream, np.uint8).reshape(len(part), -1)
            lies = np.ascontiguousarray(drawn[:, :_COIN]).view(">u8")[:, 0] <= last_lie
            words = np.ascontiguousarray(drawn[:, _COIN:]).view(">u4").astype(np.uint32)
            honest = np.flatnonzero(~lies)
            words[honest, true[honest]] = 0
            bits = words <= np.partition(words, size - 1, axis=1)[:, size - 1 : size]
            for row in np.flatnonzero(np.count_nonzero(bits, axis=1) > size).tolist():
                bits[row] = _untied(
                    part[row], k, size, None if lies[row] else int(true[row])
                )
            sets[start : start + step] = bits
        return sets

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return check_bits(reports, self.k)

    def tails(self, support: NDArray[np.int64], n: int) -> list[tuple[float, float]]:
        whole = (0.0 if int(support.sum()) == n * self.subset_size else -math.inf, 0.0)
        if self.subset_size == 1:
            return [whole, *group_tails(support, n, self.q, exclusive=True)]
        return [whole, *super().tails(support, n)]

    def channel(self) -> list[list[Fraction]]:
        if self.n_reports > 1 << 16:
            raise ValueError("the channel has more than 2**16 reports")
        holding = self.p / math.comb(self.k - 1, self.subset_size - 1)
        other = (1 - self.p) / math.comb(self.k - 1, self.subset_size)
        sets = list(combinations(range(self.k), self.subset_size))
        return [
            [holding if value in members else other for members in sets]
            for value in range(self.k)
        ]

    def _guess_accuracy(
        self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None
    ) -> float | None:
        """Guess the most frequent value of the set, or the most frequent one."""
        if groups is not None:
            return None
        shares, p, k, size = (
            np.sort(prior)[::-1],
            float(self.p),
            self.k,
            self.subset_size,
        )
        total = shares[0] * p
        for place in range(
            1, k - size + 1
        ):  # the rank of the most frequent value of the set
            sets = math.comb(k - 1 - place, size - 1)
            guess = shares[place] * p * (sets / math.comb(k - 1, size - 1))
            total += max(guess, shares[0] * (1 - p) * (sets / math.comb(k - 1, size)))
        return float(total)


@lru_cache(maxsize=8)
def _table(k: int, size: int) -> NDArray[np.uint8]:
    """Return the bits of all sets of a size, and then, value by value, those of the sets that contain it."""
    members = np.array(list(combinations(range(k), size)), np.intp)
    sets = np.zeros((len(members), k), np.uint8)
    np.put_along_axis(sets, members, 1, axis=1)
    return np.concatenate([sets, *(sets[sets[:, value] == 1] for value in range(k))])


def _untied(digest: bytes, k: int, size: int, first: int | None) -> NDArray[np.bool_]:
    """Draw one set, with as many words per value as needed to find the smallest numbers."""
    n_words = 1
    while True:
        n_words *= 2
        stream = hashlib.shake_256(digest).digest(_COIN + n_words * _WORD * k)[_COIN:]
        # The first words of all values come before the second ones.
        words = np.frombuffer(stream, ">u4").reshape(n_words, k).T.tolist()
        keys = [(value != first, *words[value]) for value in range(k)]
        bound = sorted(keys)[size - 1]
        bits = np.array([key <= bound for key in keys])
        if np.count_nonzero(bits) == size:
            return bits
