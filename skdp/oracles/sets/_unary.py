"""Unary encoding of sets: one randomised bit for each value."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._support import capped_epsilon, channel_of_bits
from skdp.oracles.sets._base import SetOracle
from skdp.randomness import ONE, ByteSource, bernoulli

_STEPS = 16
"""Of the search for p, between those of the optimised and of the symmetric form."""

_MOST_ODDS = 44.0
"""The logarithm of the odds of a coin that can still be drawn."""

_CELLS = 1 << 22
"""Cells drawn at a time."""


class SetUnaryEncoding(SetOracle):
    """Unary encoding of sets of codes: a bit for each value, all randomised independently.

    The bits of values in the set are reported as 1 with probability p, the others with probability q. Two sets of at
    most m values differ in at most m bits each way, and in k bits in all, so that with a = m and b = min(m, k - m)

        e^eps = max((p / q)^a ((1 - q) / (1 - p))^b, (p / q)^b ((1 - q) / (1 - p))^a).

    Of the pairs (p, q) from the optimised form (p = 1/2) to the symmetric one (q = 1 - p) the one with the least error
    is taken. It is the best protocol known here where sets hold a large part of the values and epsilon is large.

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    max_size : int
        The number m of values of a set that are reported, from 1 to k.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    p, q : Fraction
        The probabilities of a 1: integers over 2**64, q rounded up, toward more noise.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set. `epsilon` is computed from the integers that are drawn.

    Examples
    --------
    >>> oracle = SetUnaryEncoding(6, 6, 12.0)
    >>> round(oracle.mean_squared_error, 2), round(float(oracle.p), 2), round(float(oracle.q), 2)
    (0.18, 0.88, 0.12)
    """

    def __init__(self, k: int, max_size: int, epsilon: float | Fraction) -> None:
        super().__init__(k, max_size)
        wanted = capped_epsilon(epsilon)
        self._most, limit = exp_bounds(wanted)[0], min(float(wanted), 700.0)
        symmetric, found = min(limit / sum(self._changes), _MOST_ODDS), []
        for step in range(_STEPS + 1):
            own = symmetric * step / _STEPS
            p, q = 1 / (1 + math.exp(-own)), self._least_share(own, limit)
            found.append((self._error_of(p, q), step, p, q))
        _, _, p, q = min(found)
        self._set(p, q)

    def _error_of(self, p: float, q: float) -> float:
        own, other = p * (1 - p), q * (1 - q)
        return (
            (self.k * other + max(0, self.max_size * (own - other))) / (p - q) ** 2
            if p > q
            else math.inf
        )

    def _least_share(self, own: float, limit: float) -> float:
        """Return about the least q that keeps the promise, beside p with log odds `own`."""
        one, other = self._changes
        low, high = -_MOST_ODDS, own
        for _ in range(100):
            middle = (low + high) / 2
            # ln(p / q) and ln((1 - q) / (1 - p)), of log odds.
            up = math.log1p(math.exp(-middle)) - math.log1p(math.exp(-own))
            down = math.log1p(math.exp(own)) - math.log1p(math.exp(middle))
            low, high = (
                (low, middle)
                if max(one * up + other * down, other * up + one * down) <= limit
                else (middle, high)
            )
        return 1 / (1 + math.exp(-high))

    def _set(self, p: float, q: float) -> None:
        """Set p, rounded down, and q, rounded up and raised until the promise is kept, in whole numbers."""
        heads = min(ONE - 1, math.floor(Fraction(p) * ONE))
        low, more = Fraction(q) * ONE, Fraction(1, 1 << 50)
        own = min(heads, math.ceil(low))
        while not self._keeps(heads, own):
            own, more = min(heads, math.ceil(low * (1 + more))), 4 * more
        self.p, self.q = Fraction(heads, ONE), Fraction(own, ONE)

    @property
    def _changes(self) -> tuple[int, int]:
        """The largest numbers of bits in which two sets differ, each way."""
        return self.max_size, min(self.max_size, self.k - self.max_size)

    def _keeps(self, p: int, q: int) -> bool:
        """Whether the ratio is at most e^epsilon, in whole numbers."""
        one, other = self._changes
        top, bottom = self._most.numerator, self._most.denominator
        return all(
            bottom * p**a * (ONE - q) ** b <= top * q**a * (ONE - p) ** b
            for a, b in {(one, other), (other, one)}
        )

    @property
    def worst_ratio(self) -> Fraction:
        one, other = self._changes
        up, down = self.p / self.q, (1 - self.q) / (1 - self.p)
        return max(up**one * down**other, up**other * down**one)

    @property
    def pair_supports(self) -> tuple[float, float]:
        return float(self.p * self.q), float(self.q * self.q)

    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_sets(sets)
        n, width = len(sets), self.k + self.max_size
        p, q = int(self.p * ONE), int(self.q * ONE)
        reports = np.empty((n, self.k), np.uint8)
        step = max(1, _CELLS // width)
        for start in range(0, n, step):
            block = sets[start : start + step].astype(np.intp)
            bits = bernoulli(source, q, len(block) * width).reshape(-1, width)
            own = bernoulli(source, p, block.size).reshape(block.shape)
            np.put_along_axis(bits, block, own, axis=1)
            reports[start : start + step] = bits[:, : self.k]
        return reports

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return reports.view(np.bool_)

    def channel(self) -> list[list[Fraction]]:
        self._check_channel()
        rows = (
            [int(value in members) for value in range(self.k)]
            for members in self.sets()
        )
        return channel_of_bits(rows, self.k, (self.q, self.p))
