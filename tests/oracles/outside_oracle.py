"""Two oracles as another package would write them: nothing in skdp knows them, and they tighten no default."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from skdp.exact import exp_bounds
from skdp.oracles import FrequencyOracle, check_size
from skdp.privacy import check_epsilon
from skdp.randomness import bernoulli, uniform_integers

ONE = 1 << 64


def power(epsilon, parts=1):
    """Return a lower bound of e to the part of a privacy loss; of more than 1,000, no probability can make use."""
    wanted = 1000 if isinstance(epsilon, int | Fraction) and epsilon > 1000 else min(1000, check_epsilon(epsilon))
    return exp_bounds(Fraction(wanted) / parts)[0]


class FlippedBits(FrequencyOracle):
    """One-hot bits, all flipped with the same probability q."""

    has_bits = is_encodable = True
    worst_ratio = property(lambda self: (self.p / self.q) ** 2)

    def __init__(self, k, epsilon):
        self.k = check_size(k)
        self.q = Fraction(math.ceil(ONE / (power(epsilon, 2) + 1)), ONE)
        self.p = 1 - self.q

    def report(self, codes, source):
        self._check_codes(codes)
        self._check_size(codes.size)
        bits = self.encode(codes)
        return bits ^ bernoulli(source, int(self.q * ONE), bits.size).reshape(bits.shape)

    def supports(self, reports):
        return reports.astype(bool)

    def channel(self):
        def probability(value, bits):
            return math.prod(self.q if bit != (place == value) else self.p for place, bit in enumerate(bits))

        return [[probability(value, bits) for bits in product((0, 1), repeat=self.k)] for value in range(self.k)]


class TurnedResponse(FrequencyOracle):
    """The value plus 1, or a uniform value with probability l = k / (e^eps + k - 1)."""

    worst_ratio = property(lambda self: self.p / self.q)

    def __init__(self, k, epsilon):
        self.k = check_size(k)
        self.lie = Fraction(math.ceil(ONE * self.k / (power(epsilon) + self.k - 1)), ONE)
        self.p, self.q = 1 - self.lie * (self.k - 1) / self.k, self.lie / self.k

    def report(self, codes, source):
        self._check_codes(codes)
        lies = bernoulli(source, int(self.lie * ONE), codes.size)
        turned = (codes.astype(np.int64) + 1) % self.k
        return np.where(lies, uniform_integers(source, self.k, codes.size), turned).astype(codes.dtype)

    def supports(self, reports):
        return reports[:, np.newaxis] == (np.arange(self.k) + 1) % self.k

    def channel(self):
        return [[self.p if (value + 1) % self.k == y else self.q for y in range(self.k)] for value in range(self.k)]
