"""Stated losses of mechanisms dominate their channels: inputs are distinguished at most as well as the losses allow."""

import itertools
import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest

from skdp import PrivacyGuarantee, RandomizedResponseEncoder, RapporEncoder
from skdp.oracles import Optimal, SquareWave
from skdp.privacy import compose
from tests.conftest import often
from tests.privacy.accounting.enumerated import exp, pair_of


@pytest.mark.parametrize("strategy", ["split", "sample", "joint"])
def test_losses_dominate_the_channel_of_all_columns(strategy):
    """Enumerated: the divergence of any two records is at most the divergence of the stated pairs together."""
    fitted = RandomizedResponseEncoder(0.8, categories={"a": [0, 1, 2], "b": [0, 1]}, strategy=strategy)
    fitted.fit(pd.DataFrame({"a": [0, 1], "b": [0, 1]}))
    parts = [oracle.channel() for oracle in fitted.oracles_]
    if strategy == "joint":
        rows = parts[0]
    elif strategy == "sample":
        rows = [[p / 2 for p in first] + [p / 2 for p in second] for first in parts[0] for second in parts[1]]
    else:
        rows = [[p * q for p in first for q in second] for first in parts[0] for second in parts[1]]
    pairs = [pair_of(loss) for loss in fitted.guarantee_.losses for _ in range(loss.count)]
    totals = [
        (sum(value for value, _ in outcome), math.prod(mass for _, mass in outcome))
        for outcome in itertools.product(*(pair.items() for pair in pairs))
    ]
    for step in range(12):
        order = exp(Fraction(step, 11) * Fraction(0.8))
        reached = max(
            sum(max(Fraction(0), p - order * q) for p, q in zip(one, other, strict=True))
            for one, other in itertools.permutations(rows, 2)
        )
        stated = sum(max(Fraction(0), mass * (1 - order * exp(-value))) for value, mass in totals)
        assert reached <= stated * (1 + Fraction(1, 10**12)) + Fraction(1, 10**15)
        assert stated <= reached * Fraction(3, 2) + Fraction(1, 100)


MECHANISMS = {
    "square wave": SquareWave(4, 2.0),
    "wide square wave": SquareWave(4, 0.5),
    "optimal": Optimal(4, 1.0),
}


def deltas(pmfs, epsilon, n_releases):
    """Return the largest divergence of several reports of one of two inputs."""
    largest = 0.0
    for one, other in permutations(pmfs, 2):
        joint = [np.array([math.prod(shares) for shares in product(pmf, repeat=n_releases)]) for pmf in (one, other)]
        largest = max(largest, np.maximum(joint[0] - math.exp(epsilon) * joint[1], 0).sum())
    return largest


@pytest.mark.parametrize("n_releases", often([1, 2], [1]))
@pytest.mark.parametrize("name", MECHANISMS)
def test_losses_of_numbers_dominate_their_channels(name, n_releases):
    mechanism = MECHANISMS[name]
    pmfs = np.array(mechanism.channel(), float)
    guarantee = PrivacyGuarantee(mechanism.epsilon, losses=(mechanism.loss,))
    for delta in (0.2, 0.05, 1e-3):
        epsilon = compose([guarantee] * n_releases, delta=delta).epsilon
        assert deltas(pmfs, epsilon, n_releases) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("permanent", [False, True])
@pytest.mark.parametrize(
    "filters", [((1, 1, 0, 0), (0, 0, 1, 1)), ((1, 1, 0, 0), (0, 1, 0, 1)), ((1, 1, 0, 0), (0, 0, 1, 0))]
)
def test_losses_of_rappor_dominate_its_channel(permanent, filters):
    encoder = RapporEncoder(
        3.0, instantaneous_epsilon=1.0, n_bits=4, n_hashes=2, n_cohorts=1, secret_key=bytes(16)
    ).fit([["a"]])
    guarantee = encoder.guarantee_ if permanent else encoder.instantaneous_guarantee_
    (field,) = encoder.protocol_.fields
    oracle = field.oracle.permanent if permanent else field.oracle
    pmfs = np.array(oracle.channel_of_bits(filters), float)
    for delta in (0.2, 0.05, 1e-3):
        assert deltas(pmfs, compose([guarantee], delta=delta).epsilon, 1) <= delta * (1 + 1e-9)
    bare = PrivacyGuarantee(guarantee.epsilon)
    assert compose([guarantee] * 20, delta=1e-6).epsilon < 0.95 * compose([bare] * 20, delta=1e-6).epsilon
