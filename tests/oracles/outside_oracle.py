"""An oracle as another package would write it: without any default of the base class replaced by a tighter one."""

import math
from fractions import Fraction
from itertools import product
from numbers import Integral

import numpy as np
from sklearn.utils import check_scalar

from skdp.oracles import FrequencyOracle, lie_threshold
from skdp.randomness import bernoulli

ONE = 1 << 64


class FlippedBits(FrequencyOracle):
    """One-hot bits: the bit of the value is a fair coin, each other bit is 1 with probability q."""

    has_bits = is_encodable = True
    worst_ratio = property(lambda self: (1 - self.q) / self.q)

    def __init__(self, k, epsilon):
        self.k = int(check_scalar(k, "k", Integral, min_val=2, max_val=2**32 - 1))
        # A misreported bit is a fair coin, too: half of the misreports are 1.
        self._q_threshold = (lie_threshold(epsilon, 2) + 1) // 2
        self.p, self.q = Fraction(1, 2), Fraction(self._q_threshold, ONE)

    def report(self, codes, source):
        self._check_codes(codes)
        bits = bernoulli(source, self._q_threshold, codes.size * self.k).reshape(codes.size, self.k)
        bits[np.arange(codes.size), codes] = bernoulli(source, ONE // 2, codes.size)
        return bits.view(np.uint8)

    def supports(self, reports):
        return reports.astype(bool)

    def channel(self):
        def probability(value, bits):
            heads = [self.p if index == value else self.q for index in range(self.k)]
            return math.prod(share if bit else 1 - share for share, bit in zip(heads, bits, strict=True))

        return [[probability(value, bits) for bits in product((0, 1), repeat=self.k)] for value in range(self.k)]
