"""Errors compared with the literature and with simulations, and the choice of an oracle."""

import math

import numpy as np
import pytest

from skdp.oracles import LocalHashing
from tests.oracles.conftest import ORACLES


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_variances_equal_the_literature(epsilon):
    """n times the variance of the frequency of a value that does not occur."""
    power, half = math.exp(epsilon), math.exp(epsilon / 2)
    known = {
        "randomized_response": (18 + power) / (power - 1) ** 2,
        "symmetric_unary_encoding": half / (half - 1) ** 2,
        "optimized_unary_encoding": 4 * power / (power - 1) ** 2,
    }
    for name, variance in known.items():
        assert ORACLES[name](20, epsilon).variance(np.zeros(20), 1)[0] == pytest.approx(variance, rel=1e-6)
    binary = LocalHashing(20, epsilon, n_buckets=2)
    assert binary.variance(np.zeros(20), 1)[0] == pytest.approx(((power + 1) / (power - 1)) ** 2, rel=1e-6)
