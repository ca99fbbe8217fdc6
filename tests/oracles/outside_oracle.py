"""Two oracles as another package would write them: nothing in skdp knows them, and they tighten no default."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from skdp.oracles import FrequencyOracle, check_size, lie_threshold
from skdp.randomness import bernoulli, uniform_integers

ONE = 1 << 64


class FlippedBits(FrequencyOracle):
    """One-hot bits: that of the value is a fair coin, each other one is 1 with probability q."""

    has_bits = is_encodable = True
    worst_ratio = property(lambda self: (1 - self.q) / self.q)

    def __init__(self, k, epsilon):
        self.k = check_size(k)
        # A lie about a bit is a fair coin, too: half of the lies are a 1.
        self._heads = (lie_threshold(epsilon, 2) + 1) // 2
        self.p, self.q = Fraction(1, 2), Fraction(self._heads, ONE)

    def report(self, codes, source):
        self._check_codes(codes)
        bits = bernoulli(source, self._heads, codes.size * self.k).reshape(codes.size, self.k)
        bits[np.arange(codes.size), codes] = bernoulli(source, ONE // 2, codes.size)
        return bits.view(np.uint8)

    def supports(self, reports):
        return reports.astype(bool)

    def channel(self):
        def probability(value, bits):
            heads = [self.p if place == value else self.q for place in range(self.k)]
            return math.prod(share if bit else 1 - share for share, bit in zip(heads, bits, strict=True))

        return [[probability(value, bits) for bits in product((0, 1), repeat=self.k)] for value in range(self.k)]


class TurnedResponse(FrequencyOracle):
    """The value plus 1, or a uniform value with probability l = k / (e^eps + k - 1)."""

    worst_ratio = property(lambda self: self.p / self.q)

    def __init__(self, k, epsilon):
        self.k = check_size(k)
        self._lie = lie_threshold(epsilon, self.k)
        self.lie = Fraction(self._lie, ONE)
        self.p, self.q = 1 - self.lie * (self.k - 1) / self.k, self.lie / self.k

    def report(self, codes, source):
        self._check_codes(codes)
        lies = bernoulli(source, self._lie, codes.size)
        turned = (codes.astype(np.int64) + 1) % self.k
        return np.where(lies, uniform_integers(source, self.k, codes.size), turned).astype(codes.dtype)

    def supports(self, reports):
        return reports[:, np.newaxis] == (np.arange(self.k) + 1) % self.k

    def channel(self):
        return [[self.p if (value + 1) % self.k == y else self.q for y in range(self.k)] for value in range(self.k)]
