"""Unary encoding of one sampled key and its sign: PCKV-UE."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._support import capped_epsilon, check_size
from skdp.oracles.sets._base import SetOracle
from skdp.randomness import ONE, ByteSource, bernoulli, uniform_integers

_CELLS = 1 << 22
"""Cells drawn at a time."""


class SignedUnaryEncoding(SetOracle):
    """Unary encoding of a sampled key and its sign ("PCKV-UE").

    The codes are ``2 key`` for minus and ``2 key + 1`` for plus. The set of signed keys is padded to m members, and one
    of these is drawn, each alike. Each key is reported as nothing, plus or minus: the key that was drawn as nothing
    with probability 1/2, else with its own sign with probability p_2, or the other one; any other key as nothing with
    probability 1 - b, else with a sign at random. The budget is divided as published ([1]_):
    ``p_2 = e^eps / (e^eps + 1)`` and ``b = 2 / (e^eps + 3)``.

    Parameters
    ----------
    k : int
        The number of codes, twice that of the keys.
    max_size : int
        The number m of keys of a record that are padded and sampled, at least 1.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    p, opposite, q : Fraction
        The probabilities that a report supports a code of the set, the other sign of its key, and a sign of another
        key.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or k is odd.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set. Of two keys that may be drawn, the reports differ in ratio
    by ``p_2 / (1 - p_2)`` if they are one, and else by at most ``2 p_2 (1 - b) / b``: both at most e^eps, with p_2
    rounded down and b up to integers over 2**64. A report of a set is a mean of such reports.

    References
    ----------
    .. [1] X. Gu et al. (2020). PCKV: locally differentially private correlated key-value data collection with
       optimized utility. USENIX Security.

    Examples
    --------
    >>> oracle = SignedUnaryEncoding(20, 2, 1.0)
    >>> [round(float(share), 3) for share in (oracle.p, oracle.opposite, oracle.q)]
    [0.27, 0.155, 0.175]
    """

    def __init__(self, k: int, max_size: int, epsilon: float | Fraction) -> None:
        super().__init__(k, check_size(max_size, least=1, name="max_size"))
        if self.k % 2:
            raise ValueError(f"k must be even, two signs a key, got {self.k}")
        most = exp_bounds(capped_epsilon(epsilon))[0]
        self._own = min(ONE - 1, math.floor(ONE * most / (1 + most)))
        own = Fraction(self._own, ONE)
        self._other = max(1, math.ceil(ONE * 2 * own / (most + 2 * own)))
        other = Fraction(self._other, ONE)
        self.q = other / 2
        self.p = self.q + (own / 2 - self.q) / self.max_size
        self._opposite = self.q + ((1 - own) / 2 - self.q) / self.max_size

    @property
    def opposite(self) -> Fraction:
        return self._opposite

    @property
    def pair_supports(self) -> tuple[float, float]:
        return 0.0, 0.0  # of the two signs of a key, of which no report has both

    @property
    def worst_ratio(self) -> Fraction:
        own, other = Fraction(self._own, ONE), Fraction(self._other, ONE)
        return max(own / (1 - own), 2 * own * (1 - other) / other)

    def report(self, sets: NDArray[np.unsignedinteger], source: ByteSource) -> NDArray[np.uint8]:
        self._check_sets(sets)
        n, n_keys = len(sets), self.k // 2
        place = uniform_integers(source, self.max_size, n).astype(np.intp)
        codes = np.minimum(sets[np.arange(n), place], self.k).astype(np.intp)
        reports = np.empty((n, self.k), np.uint8)
        step = max(1, _CELLS // (n_keys + 1))
        for start in range(0, n, step):
            block = codes[start : start + step]
            rows, shape = np.arange(len(block)), (len(block), n_keys + 1)
            # A last key stands for none, and is left out.
            held = bernoulli(source, self._other, len(block) * (n_keys + 1)).reshape(shape)
            plus = bernoulli(source, ONE // 2, len(block) * (n_keys + 1)).reshape(shape)
            held[rows, block // 2] = bernoulli(source, ONE // 2, len(block))
            plus[rows, block // 2] = (block % 2 == 1) == bernoulli(source, self._own, len(block))
            signs = np.stack([held & ~plus, held & plus], axis=2)[:, :n_keys]
            reports[start : start + step] = signs.reshape(len(block), self.k)
        return reports

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return reports.view(np.bool_)

    def channel(self) -> list[list[Fraction]]:
        self._check_channel()
        own, other = Fraction(self._own, ONE), Fraction(self._other, ONE)
        vectors = list(product((0, 1), repeat=self.k))

        def share(code: int, bits: tuple[int, ...]) -> Fraction:
            total = Fraction(1)
            for key in range(self.k // 2):
                seen = bits[2 * key], bits[2 * key + 1]
                if seen == (1, 1):
                    return Fraction(0)
                if code // 2 != key:
                    total *= other / 2 if any(seen) else 1 - other
                elif any(seen):
                    total *= (own if seen[code % 2] else 1 - own) / 2
                else:
                    total /= 2
            return total

        return self._mix([[share(code, bits) for bits in vectors] for code in range(self.k + 1)])
