"""Unary encoding: one randomised bit for each value."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import (
    FrequencyOracle,
    capped_epsilon,
    channel_of_bits,
    check_bits,
    check_share,
    check_size,
    flip_threshold,
    pure_noise,
)
from skdp.oracles._sums import chernoff_tail, group_tails
from skdp.privacy import ReportPair
from skdp.randomness import ONE, ByteSource, bernoulli, eight_coins

_WORDS, _MANY = (2, 4, 8), 1 << 12
"""The lengths of records that are machine words, and the number of records from which they are drawn whole."""


class UnaryEncoding(FrequencyOracle):
    """Unary encoding on codes: the one-hot bits of the value, randomised independently.

    >>> round(UnaryEncoding(14, p=0.75, q=0.25).epsilon, 4), round(math.log(9), 4)
    (2.1972, 2.1972)

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

    Notes
    -----
    **Privacy.** Local model, replacement of the value, for the whole vector of bits.
    The bit of the true value is drawn once, with probability p, not q first.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.
    """

    has_bits = True
    is_encodable = True
    has_second_round = True

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
        if variant not in tuple(_HEADS):
            names = ", ".join(map(repr, _HEADS))
            raise ValueError(f"variant must be one of {names}, got {variant!r}")
        if (p is None) != (q is None) or (epsilon is None) == (p is None):
            raise ValueError("give either epsilon, or p and q (and epsilon=None)")
        if epsilon is None:
            p_heads = math.floor(check_share(p, "p") * ONE)
            q_heads = math.ceil(check_share(q, "q") * ONE)
            if not 0 < q_heads < p_heads < ONE:
                raise ValueError(
                    "p and q must satisfy 0 < q < p < 1 (by at least 2**-64), "
                    f"got p={p}, q={q}"
                )
            self._heads = [p_heads, q_heads]
        else:
            self._heads = _HEADS[variant](capped_epsilon(epsilon))
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
        # By the bits of the two values. The least likely value is one whose bit is 0,
        # unless all bits are 1.
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
    def variation(self) -> Fraction:
        return self.p - self.q

    @property
    def pair_supports(self) -> tuple[float, float]:
        return float(self.p) * float(self.q), float(self.q) ** 2

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_codes(codes)
        self._check_size(codes.size)
        if self.k in _WORDS and codes.size >= _MANY:
            return self._turn(codes, source)
        p_heads, q_heads = self._heads
        bits = bernoulli(source, q_heads, codes.size * self.k)
        places = np.arange(0, bits.size, self.k)
        places += codes.astype(np.intp, copy=False)
        bits[places] = bernoulli(source, p_heads, codes.size)
        return bits.view(np.uint8).reshape(codes.size, self.k)

    def _turn(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Draw records of the first value, and rotate each so that its first bit is that of the true value."""
        # The order of the other coins does not matter: they have the same probability.
        p_heads, q_heads = self._heads
        n_joined = 8 // self.k
        n_bytes = -(-codes.size // n_joined)
        coins = eight_coins((p_heads, *[q_heads] * (self.k - 1)) * n_joined)
        drawn = coins.draw(source, n_bytes)
        # The codes of the records of a byte become one number, the first one its lowest
        # digit to the base k. The digits above are shifted out: there are at most 8
        # bits.
        padded = np.zeros(n_bytes * n_joined, np.uint8)
        padded[: codes.size] = codes
        groups = padded.view(f"<u{n_joined}")
        joined = groups
        for place in range(1, n_joined):
            joined = joined | groups >> place * (8 - (self.k - 1).bit_length())
        turns = joined.astype(np.uint16) << 8
        turns |= drawn
        bits = _turned(self.k).take(turns, axis=0, mode="wrap")
        return bits.reshape(-1, self.k)[: codes.size]

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return check_bits(reports, self.k)

    def tails(self, support: NDArray[np.int64], n: int) -> list[tuple[float, float]]:
        # How many bits are 1 does not depend on the true values: one of each record is
        # a coin of p, all others of q.
        total = float(support.sum())
        p = float(self.p)
        q = float(self.q)
        n_others = n * (self.k - 1)
        ones = chernoff_tail(total, [(n, {1: p}), (n_others, {1: q})])
        zeros = chernoff_tail(-total, [(n, {-1: p}), (n_others, {-1: q})])
        tails = super().tails(support, n)
        tails += group_tails(support, n, self.q, exclusive=False)
        return [*tails, (ones, 0.0), (zeros, 0.0)]

    def channel(self) -> list[list[Fraction]]:
        one_hot = np.eye(self.k, dtype=int).tolist()
        return channel_of_bits(one_hot, self.k, (self.q, self.p))

    def _guess_accuracy(
        self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None
    ) -> float | None:
        """Guess the most frequent value whose bit is 1, or the most frequent one."""
        if groups is not None:
            return None
        shares = np.sort(prior)[::-1]
        p = float(self.p)
        q = float(self.q)
        # If its own bit is 1, the guess is the most frequent value. Otherwise, it is
        # decided by the first 1 among the others: the probability of the bits if all of
        # them lie, times how much likelier they are under either guess.
        n_others = self.k - 1
        first_one = (1 - q) ** np.arange(1, self.k) * q
        guess = np.maximum(shares[1:] * p / q, shares[0] * (1 - p) / (1 - q))
        by_another = (first_one * guess).sum()
        by_none = (1 - q) ** n_others * (1 - p) * shares[0]
        return float(shares[0] * p + by_another + by_none)


@lru_cache
def _turned(k: int) -> NDArray[np.uint8]:
    """Return the bits of every byte, as records of k bits, rotated by every combination of codes."""
    records = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, -1, k)
    n_joined = 8 // k
    turned = np.empty((k**n_joined, *records.shape), np.uint8)
    for number, block in enumerate(turned):
        for place in range(n_joined):
            code = number // k**place % k
            block[:, place] = np.roll(records[:, place], code, axis=1)
    return turned.reshape(-1, 8)


def _optimized(epsilon: Fraction) -> list[int]:
    return [ONE // 2, flip_threshold(epsilon)]


def _symmetric(epsilon: Fraction) -> list[int]:
    flip = flip_threshold(epsilon / 2)
    return [ONE - flip, flip]


_HEADS = {"optimized": _optimized, "symmetric": _symmetric}
