"""Unary encoding: one randomised bit for each value."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._base import FrequencyOracle
from skdp.oracles._support import (
    capped_epsilon,
    channel_of_bits,
    check_bits,
    check_share,
    check_size,
)
from skdp.oracles.sums import group_tails, mixed_tail
from skdp.privacy import ReportPair
from skdp.randomness import ONE, ByteSource, bernoulli, eight_coins

_WORDS, _MANY = (2, 4, 8), 1 << 12
"""The lengths of records that are machine words, and the number of records from which they are drawn whole."""


class UnaryEncoding(FrequencyOracle):
    """Unary encoding on codes: the one-hot bits of the value, randomised independently.

    The bit of the true value is reported as 1 with probability p, every other bit with probability q. Two values differ
    in two bits, so ``e^eps = p (1 - q) / ((1 - p) q)`` ([1]_ section 4).

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    epsilon : float or Fraction, optional
        The requested privacy loss, finite and > 0; None if p and q are given.
    variant : {"optimized", "symmetric", "threshold"}, default="optimized"
        ``"optimized"`` (OUE): p = 1/2, q = 1 / (e^eps + 1). ``"symmetric"`` (SUE, the
        basic form of RAPPOR): q = 1 - p = 1 / (e^(eps/2) + 1). ``"threshold"`` (THE): each bit plus Laplace noise of
        scale 2 / eps exceeds the best threshold t between 1/2 and 1; drawn as the equivalent coin:
        p = 1 - e^(eps (t - 1) / 2) / 2 and q = e^(-eps t / 2) / 2.
    p, q : float or Fraction, optional
        The two probabilities, 0 < q < p < 1, instead of epsilon.

    Attributes
    ----------
    p, q : Fraction
        The exact probabilities: integers over 2**64, p rounded down and q up, toward more noise.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or epsilon and p, q are given together.

    Notes
    -----
    **Privacy.** Local model, replacement of the value, for the whole vector of bits. The bit of the true value is drawn
    once, with probability p, not q first.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation.
       USENIX Security.

    Examples
    --------
    >>> round(UnaryEncoding(14, p=0.75, q=0.25).epsilon, 4), round(math.log(9), 4)
    (2.1972, 2.1972)
    """

    has_bits = True
    is_encodable = True
    has_second_round = True

    def __init__(
        self,
        k: int,
        epsilon: float | Fraction | None = None,
        *,
        variant: Literal["optimized", "symmetric", "threshold"] = "optimized",
        p: float | Fraction | None = None,
        q: float | Fraction | None = None,
    ) -> None:
        self.k = check_size(k)
        if variant not in tuple(_HEADS):
            raise ValueError(
                f"variant must be one of {', '.join(map(repr, _HEADS))}, got {variant!r}"
            )
        if (p is None) != (q is None) or (epsilon is None) == (p is None):
            raise ValueError("give either epsilon, or p and q (and epsilon=None)")
        if epsilon is None:
            self._heads = [
                math.floor(check_share(p, "p") * ONE),
                math.ceil(check_share(q, "q") * ONE),
            ]
            if not 0 < self._heads[1] < self._heads[0] < ONE:
                raise ValueError(
                    f"p and q must satisfy 0 < q < p < 1 (by at least 2**-64), got p={p}, q={q}"
                )
        else:
            self._heads = _HEADS[variant](capped_epsilon(epsilon))
        self.p, self.q = (Fraction(heads, ONE) for heads in self._heads)

    def sampler(self) -> dict[str, Any]:
        return {
            "kind": "bits",
            "k": self.k,
            "p": str(self._heads[0]),
            "q": str(self._heads[1]),
        }

    @property
    def worst_ratio(self) -> Fraction:
        return self.p * (1 - self.q) / ((1 - self.p) * self.q)

    def shuffle_pair(self) -> ReportPair:
        # By the bits of the two values. The least likely value is one whose bit is 0, unless all bits are 1.
        p, q = self.p, self.q
        ones = (
            q ** (self.k - 2) if self.k < 64 else Fraction(0)
        )  # the other bits; a blanket may be smaller
        own, neither, both = (1 - p) * q, (1 - p) * (1 - q), p * q
        rest = (1 - p) / (1 - q) * q * q * (1 - ones)
        return ReportPair(
            (
                (p * (1 - q), own, own),
                (own, p * (1 - q), own),
                (neither, neither, neither),
                (both * (1 - ones), both * (1 - ones), rest),
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
        bits = bernoulli(source, self._heads[1], codes.size * self.k)
        places = np.arange(0, bits.size, self.k)
        places += codes.astype(np.intp, copy=False)
        bits[places] = bernoulli(source, self._heads[0], codes.size)
        return bits.view(np.uint8).reshape(codes.size, self.k)

    def _turn(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Draw records of the first value, and rotate each so that its first bit is that of the true value."""
        # The order of the other coins does not matter: they have the same probability.
        own, other = self._heads
        together = 8 // self.k
        drawn = eight_coins((own, *[other] * (self.k - 1)) * together).draw(
            source, -(-codes.size // together)
        )
        padded = np.zeros(drawn.size * together, np.uint8)
        padded[: codes.size] = codes
        # The codes of the records of a byte become one number, the first one its lowest digit to the base k. The digits
        # above are shifted out: there are at most 8 bits.
        groups = padded.view(f"<u{together}")
        joined = groups
        for place in range(1, together):
            joined = joined | groups >> place * (8 - (self.k - 1).bit_length())
        turns = joined.astype(np.uint16) << 8
        turns |= drawn
        return (
            _turned(self.k)
            .take(turns, axis=0, mode="wrap")
            .reshape(-1, self.k)[: codes.size]
        )

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return check_bits(reports, self.k)

    def tails(self, support: NDArray[np.int64], n: int) -> list[tuple[float, float]]:
        # How many bits are 1 does not depend on the true values: one of each record is a coin of p, all others of q.
        total, cells = float(support.sum()), n * self.k
        ones = [(n, float(self.p)), (cells - n, float(self.q))]
        zeros = [(number, 1 - share) for number, share in ones]
        whole = [
            (mixed_tail(total, ones), 0.0),
            (mixed_tail(cells - total, zeros), 0.0),
        ]
        return [
            *super().tails(support, n),
            *group_tails(support, n, self.q, exclusive=False),
            *whole,
        ]

    def channel(self) -> list[list[Fraction]]:
        one_hot = (
            [int(place == value) for place in range(self.k)] for value in range(self.k)
        )
        return channel_of_bits(one_hot, self.k, (self.q, self.p))

    def _guess_accuracy(
        self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None
    ) -> float | None:
        """Guess the most frequent value whose bit is 1, or the most frequent one."""
        if groups is not None:
            return None
        shares, p, q, k = np.sort(prior)[::-1], float(self.p), float(self.q), self.k
        # If its own bit is 1, the guess is the most frequent value. Otherwise, it is decided by the first 1 among the
        # others: the probability of the bits if all of them lie, times how much likelier they are under either guess.
        first = (1 - q) ** np.arange(1, k) * q
        guess = np.maximum(shares[1:] * p / q, shares[0] * (1 - p) / (1 - q))
        return float(
            shares[0] * p
            + (first * guess).sum()
            + (1 - q) ** (k - 1) * (1 - p) * shares[0]
        )


@lru_cache
def _turned(k: int) -> NDArray[np.uint8]:
    """Return the bits of every byte, as records of k bits, rotated by every combination of codes."""
    records = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, -1, k)
    codes = list(product(range(k), repeat=8 // k))
    turned = [
        [
            np.roll(records[:, place], turn[-1 - place], axis=1)
            for place in range(8 // k)
        ]
        for turn in codes
    ]
    return np.concatenate([np.concatenate(turn, axis=1) for turn in turned])


def _optimized(epsilon: Fraction) -> list[int]:
    return [ONE // 2, math.ceil(ONE / (exp_bounds(epsilon)[0] + 1))]


def _symmetric(epsilon: Fraction) -> list[int]:
    heads = math.ceil(ONE / (exp_bounds(epsilon / 2)[0] + 1))
    return [ONE - heads, heads]


def _threshold(epsilon: Fraction) -> list[int]:
    # Any threshold achieves epsilon; the best one is found in floats, on a grid.
    grid, scale = np.arange(512, 1025), max(float(epsilon) / 2, 1e-100)
    q = np.exp(-scale * grid / 1024) / 2
    gain = -(np.expm1(scale * (grid / 1024 - 1)) + np.expm1(-scale * grid / 1024)) / 2
    threshold = Fraction(
        int(grid[np.argmin(np.log(q) + np.log1p(-q) - 2 * np.log(gain))]), 1024
    )
    lower = (
        exp_bounds(epsilon / 2 * (1 - threshold))[0],
        exp_bounds(epsilon / 2 * threshold)[0],
    )
    return [ONE - math.ceil(ONE / (2 * lower[0])), math.ceil(ONE / (2 * lower[1]))]


_HEADS = {"optimized": _optimized, "symmetric": _symmetric, "threshold": _threshold}
