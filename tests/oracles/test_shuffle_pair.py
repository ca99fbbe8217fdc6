"""The pair of an oracle bounds the loss of shuffled reports, for every table of other records and pair of values."""

from collections import Counter
from fractions import Fraction
from itertools import chain

import pytest

from skdp.oracles import LocalHashing, RandomizedResponse, SquareWave, SubsetSelection, UnaryEncoding
from tests.oracles.outside_oracle import FlippedBits
from tests.privacy.shuffle_exact import AllTables

PARTS = 0.05, 0.4, 0.8
"""Fractions of the local epsilon."""


class FewSeeds:
    """Affine maps modulo 3: nine seeds, which can be enumerated."""

    def __init__(self, g):
        self.prime, self.g = 3, g
        self.collision = Fraction(sum(self.bucket(seed, 0) == self.bucket(seed, 1) for seed in range(9)), 9)

    def bucket(self, seed, value):
        return (seed // 3 * value + seed % 3) % 3 % self.g


def make_hashing(k, epsilon, g):
    oracle = LocalHashing(k, epsilon, n_buckets=g)
    oracle.hash_family = FewSeeds(g)
    return oracle


def whole_channel(oracle):
    """Return the channel of whole reports: seed, function, and reported bucket."""
    if isinstance(oracle, LocalHashing):
        family, inner = oracle.hash_family, oracle._bucket_oracle.channel()
        parts = [[inner[family.bucket(seed, value)] for seed in range(9)] for value in range(oracle.k)]
    else:
        return oracle.channel()
    return [[share / len(row) for share in chain.from_iterable(row)] for row in parts]


CASES = {
    "GRR": (RandomizedResponse(3, 1.0), 4),
    "GRR of 2": (RandomizedResponse(2, 2.0), 6),
    "OUE of 2": (UnaryEncoding(2, 1.0), 4),
    "SS of 2 values": (SubsetSelection(2, 1.0), 5),
    "OLH of 2 values": (make_hashing(2, 1.0, 3), 3),
    "OUE": (UnaryEncoding(3, 1.5), 3),
    "SUE": (UnaryEncoding(3, 1.0, variant="symmetric"), 3),
    "SS of 2": (SubsetSelection(4, 1.0, subset_size=2), 3),
    "SS of 3": (SubsetSelection(4, 1.0, subset_size=3), 4),
    "OLH": (make_hashing(3, 1.0, 3), 2),
    "BLH": (make_hashing(3, 1.0, 2), 2),
    "square wave": (SquareWave(3, 2.0), 3),
    "narrow square wave": (SquareWave(4, 3.0), 3),
    # This oracle tightens no default.
    "flipped bits": (FlippedBits(3, 1.0), 3),
}


@pytest.mark.parametrize("name", CASES)
def test_no_table_of_other_records_exceeds_the_guarantee(name):
    oracle, n = CASES[name]
    tables = AllTables(whole_channel(oracle), n)
    for part in PARTS:
        assert tables.is_bounded(oracle.shuffle_pair(), part * oracle.epsilon)


def masses_by_ratios(classes):
    """Return the blanket's mass of all reports with equal ratios to it."""
    masses = Counter()
    for first, second, mass in classes:
        masses[first / mass, second / mass] += mass
    return +masses


@pytest.mark.parametrize("name", ["GRR", "GRR of 2", "OUE of 2", "SS of 2 values", "OUE", "SUE", "SS of 2", "SS of 3"])
def test_pair_has_the_largest_blanket(name):
    oracle, _ = CASES[name]
    channel = oracle.channel()
    reports = zip(channel[0], channel[1], map(min, zip(*channel, strict=True)), strict=True)
    assert masses_by_ratios(oracle.shuffle_pair().classes) == masses_by_ratios(reports)


@pytest.mark.parametrize("k", [2, 63, 64, 500])
def test_blanket_of_many_bits_is_at_most_the_largest_blanket(k):
    oracle = UnaryEncoding(k, 1.0)
    p, q = oracle.p, oracle.q
    # The least likely value of a report is a value with the bit 0, unless all bits are 1.
    largest = (1 - p) / (1 - q) * (1 - q**k) + p * q ** (k - 1)
    blanket = sum(mass for _, _, mass in oracle.shuffle_pair().classes)
    assert largest * (1 - Fraction(1, 10**30)) <= blanket <= largest


def test_pair_of_numbers_has_the_largest_ratio():
    oracle = SquareWave(50, 2.0)
    assert oracle.shuffle_pair().largest_ratio == oracle.worst_ratio
