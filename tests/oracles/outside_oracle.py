"""Two oracles as another package would write them: nothing in skdp knows them."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from skdp.exact import exp_bounds
from skdp.oracles import FrequencyOracle
from skdp.randomness import ONE, bernoulli_ratio, uniform_integers


class FlippedBits(FrequencyOracle):
    """One-hot bits, all flipped with the same probability q."""

    has_bits = is_encodable = True
    worst_ratio = property(lambda self: (self.p / self.q) ** 2)

    def __init__(self, k, epsilon):
        self.k = k
        self.q = Fraction(math.ceil(ONE / (exp_bounds(Fraction(epsilon) / 2)[0] + 1)), ONE)
        self.p = 1 - self.q

    def report(self, codes, source):
        bits = self.encode(codes)
        return bits ^ bernoulli_ratio(source, self.q.numerator, self.q.denominator, bits.size).reshape(bits.shape)

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
        self.k = k
        self.lie = Fraction(math.ceil(ONE * k / (exp_bounds(Fraction(epsilon))[0] + k - 1)), ONE)
        self.p, self.q = 1 - self.lie * (k - 1) / k, self.lie / k

    def report(self, codes, source):
        self._check_codes(codes)
        lies = bernoulli_ratio(source, self.lie.numerator, self.lie.denominator, codes.size)
        return np.where(lies, uniform_integers(source, self.k, codes.size), (codes + 1) % self.k).astype(codes.dtype)

    def supports(self, reports):
        return reports[:, np.newaxis] == (np.arange(self.k) + 1) % self.k

    def channel(self):
        return [[self.p if (value + 1) % self.k == y else self.q for y in range(self.k)] for value in range(self.k)]
