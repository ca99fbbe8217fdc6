"""Fixtures of the tests of oracles: the oracles, all their reports, and the exact distribution of their draws."""

import math
import sys
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

import skdp.oracles
from skdp.exact import exp_bounds
from skdp.randomness import ONE
from tests.oracles.outside_oracle import FlippedBits

# Every oracle of the registry, and one of another package.
ORACLES = skdp.oracles.ORACLES | {"flipped_bits": FlippedBits}
ENUMERATED = [name for name, make in ORACLES.items() if not make(3, 1.0).shows_hash]
"""Oracles whose reports contain no public hash, so that they have a single channel."""
EPSILONS = [1e-9, 1e-3, 0.1, math.log(3), 1, 4, 20, 40, 700]


@pytest.fixture(params=ORACLES)
def make_oracle(request):
    """Make each oracle from k and epsilon."""
    return ORACLES[request.param]


@pytest.fixture(params=ENUMERATED)
def make_enumerated(request):
    """Make each oracle with a single channel."""
    return ORACLES[request.param]


@pytest.fixture(params=EPSILONS)
def epsilon(request):
    return request.param


def all_reports(oracle):
    """Return every report of an oracle, in the order of the columns of its channel."""
    if not oracle.has_bits:
        return np.arange(oracle.n_reports, dtype=np.uint16)
    if oracle.n_reports == 1 << oracle.k:
        return np.array(list(product((0, 1), repeat=oracle.k)), np.uint8)
    sets = combinations(range(oracle.k), oracle.subset_size)
    return np.array([[value in members for value in range(oracle.k)] for members in sets], np.uint8)


def floats(channel):
    return np.array([[float(share) for share in row] for row in channel])


def largest_ratio(channel):
    """Return the largest ratio of two probabilities of a report; impossible reports are ignored."""
    return max(max(column) / min(column) for column in zip(*channel, strict=True) if any(column))


def check_channel(oracle, channel, epsilon=None):
    """Check a channel against the requested privacy loss; return its largest ratio."""
    assert len(channel) == oracle.k
    assert all(sum(row) == 1 for row in channel)
    assert all(0 < share < 1 for row in channel for share in row)
    ratio = largest_ratio(channel)
    assert ratio <= oracle.worst_ratio <= exp_bounds(oracle.epsilon)[0]
    if epsilon is not None:
        assert ratio <= exp_bounds(min(epsilon, 1000))[0]
        assert oracle.epsilon <= epsilon
    return ratio


class Script:
    """Draws with scripted outcomes, 0 after the end of the script.

    The probabilities of the outcomes of each draw are recorded, or their number if they are equally likely.
    """

    def __init__(self, outcomes):
        self.outcomes, self.shares = outcomes, []

    def draw(self, shares):
        index = len(self.shares)
        self.shares.append(shares)
        return self.outcomes[index] if index < len(self.outcomes) else 0

    def coin(self, threshold):
        share = Fraction(threshold, ONE)
        return bool(self.draw([1 - share, share]))

    def uniform(self, high):
        return self.draw(high)

    # The functions of these names in `skdp.randomness`.

    def bernoulli(self, source, threshold, size):
        return np.array([self.coin(threshold) for _ in range(size)], bool)

    def bernoulli_ratio(self, source, numerator, denominator, size):
        share = Fraction(numerator, denominator)
        return np.array([self.draw([1 - share, share]) for _ in range(size)], bool)

    def uniform_integers(self, source, high, size):
        return np.array([self.uniform(high) for _ in range(size)], np.min_scalar_type(high - 1))

    def categorical(self, source, weights, size):
        shares = [Fraction(weight, ONE) for weight in weights]
        return np.array([self.draw(shares) for _ in range(size)], np.intp)

    def subsets(self, source, n_cells, size, n, required=None):
        bits = np.zeros((n, n_cells), bool)
        for row, held in zip(bits, np.full(n, -1) if required is None else required, strict=True):
            sets = [members for members in combinations(range(n_cells), size) if held < 0 or held in members]
            row[list(sets[self.uniform(len(sets))])] = True
        return bits


DRAWS = "bernoulli", "bernoulli_ratio", "uniform_integers", "categorical", "subsets"


def pmf_of(follow):
    """Return the exact probability of each result of a function of a script, over all outcomes of all draws."""
    pmf, waiting = Counter(), [([], Fraction(1))]
    while waiting:
        outcomes, share = waiting.pop()
        script = Script(outcomes)
        result = follow(script)
        if len(script.shares) == len(outcomes):
            pmf[result] += share
        else:
            shares = script.shares[len(outcomes)]
            branches = enumerate([Fraction(1, shares)] * shares if isinstance(shares, int) else shares)
            waiting += [([*outcomes, outcome], share * own) for outcome, own in branches if own]
    assert sum(pmf.values()) == 1
    return pmf


@pytest.fixture
def exact_pmf(monkeypatch):
    """Return the exact distribution of the report of a code, a set or a position, over all outcomes of its draws."""
    current = []
    modules = [module for name, module in sys.modules.items() if "oracle" in name]
    for name in DRAWS:

        def draw(*arguments, name=name):
            return getattr(current[-1], name)(*arguments)

        for module in modules:
            if hasattr(module, name) and module is not skdp.oracles:
                monkeypatch.setattr(module, name, draw)

    def pmf(oracle, value):
        def follow(script):
            current.append(script)
            report = oracle.report(np.array([value]), None)
            return tuple(np.ravel(report).tolist())

        return pmf_of(follow)

    return pmf
