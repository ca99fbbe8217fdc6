"""What the tests of all oracles share: the oracles, and every report that they can give."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from skdp.exact import exp_bounds
from skdp.oracles import (
    CountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)

ORACLES = {
    "GRR": RandomizedResponse,
    "OUE": UnaryEncoding,
    "SUE": lambda k, epsilon: UnaryEncoding(k, epsilon, variant="symmetric"),
    "THE": lambda k, epsilon: UnaryEncoding(k, epsilon, variant="threshold"),
    "SS": SubsetSelection,
    "OLH": LocalHashing,
    "BLH": lambda k, epsilon: LocalHashing(k, epsilon, n_buckets=2),
    "HR": HadamardResponse,
    "HR4": lambda k, epsilon: HadamardResponse(k, epsilon, n_blocks=4),
    "sketch": lambda k, epsilon: CountMeanSketch(k, epsilon, n_functions=8, n_buckets=5),
}


@pytest.fixture(params=ORACLES)
def make_oracle(request):
    """Make each oracle from k and epsilon."""
    return ORACLES[request.param]


@pytest.fixture(scope="session")
def all_oracles():
    return ORACLES


@pytest.fixture
def all_reports():
    """Every report of an oracle, in the order of the columns of its channel."""

    def make(oracle):
        match oracle:
            case UnaryEncoding():
                return np.array(list(product((0, 1), repeat=oracle.k)), np.uint8)
            case SubsetSelection():
                sets = list(combinations(range(oracle.k), oracle.subset_size))
                return np.array([[value in members for value in range(oracle.k)] for members in sets], np.uint8)
            case _ if not oracle.shows_hash:
                return np.arange(oracle.n_reports, dtype=np.uint16)

    return make


@pytest.fixture
def check_channel():
    """Check a table of probabilities against the privacy loss that was asked for; return its largest ratio."""

    def check(oracle, channel, epsilon=None):
        assert len(channel) == oracle.k
        assert all(sum(row) == 1 for row in channel)
        assert all(0 < share < 1 for row in channel for share in row)
        ratio = max(max(column) / min(column) for column in zip(*channel, strict=True))
        assert ratio <= oracle.worst_ratio <= exp_bounds(oracle.epsilon)[0]
        if epsilon is not None:
            assert ratio <= exp_bounds(min(epsilon, 1000))[0]
            assert oracle.epsilon <= epsilon
        return ratio

    return check


EPSILONS = [1e-9, 1e-3, 0.1, math.log(3), 1, 4, 20, 40, 700]


@pytest.fixture(params=EPSILONS)
def epsilon(request):
    return request.param
