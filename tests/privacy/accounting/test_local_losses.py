"""Losses of local reports dominate: no two inputs are distinguished more than composed losses allow."""

import math
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest

from skdp import NumericPerturber, PrivacyGuarantee, RapporEncoder
from skdp.oracles import ClampedLaplace, Optimal, Windows
from skdp.privacy import compose

MECHANISMS = {
    "square wave": Windows(4, 2.0, repeating=False),
    "wide square wave": Windows(4, 0.5, repeating=False),
    "mixture of windows": Windows(16, 1.0),
    "laplace": ClampedLaplace(4, 1.0),
    "laplace, odd": ClampedLaplace(3, 2.0),
    "optimal": Optimal(4, 1.0),
}


def deltas(laws, epsilon, n_releases):
    """Return the largest divergence of several reports of one of two inputs."""
    largest = 0.0
    for one, other in permutations(laws, 2):
        joint = [np.array([math.prod(shares) for shares in product(law, repeat=n_releases)]) for law in (one, other)]
        largest = max(largest, np.maximum(joint[0] - math.exp(epsilon) * joint[1], 0).sum())
    return largest


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("n_releases", [1, 2])
def test_losses_of_numbers_dominate(name, n_releases):
    mechanism = MECHANISMS[name]
    laws = np.array(mechanism.channel(), float)
    promise = PrivacyGuarantee(mechanism.epsilon, losses=(mechanism.loss,))
    for delta in (0.2, 0.05, 1e-3):
        epsilon = compose([promise] * n_releases, delta=delta).epsilon
        assert deltas(laws, epsilon, n_releases) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", ["square_wave", "laplace"])
def test_a_perturber_states_the_losses_of_all_columns(mechanism):
    table = pd.DataFrame({"a": [0.5], "b": [0.5]})
    promise = NumericPerturber(2.0, mechanism=mechanism, bounds=(0, 1)).fit(table).guarantee_
    (loss,) = promise.losses
    assert loss.count == 2
    known = compose([promise] * 50, delta=1e-6).epsilon
    bare = compose([PrivacyGuarantee(promise.epsilon)] * 50, delta=1e-6).epsilon
    assert known < 0.9 * bare


@pytest.mark.parametrize("permanent", [False, True])
@pytest.mark.parametrize(
    "filters", [((1, 1, 0, 0), (0, 0, 1, 1)), ((1, 1, 0, 0), (0, 1, 0, 1)), ((1, 1, 0, 0), (0, 0, 1, 0))]
)
def test_losses_of_rappor_dominate(permanent, filters):
    encoder = RapporEncoder(None, n_bits=4, n_hashes=2, n_cohorts=1, f=0.5, p=0.3, q=0.8).fit([["a"]])
    promise = encoder.permanent_guarantee_ if permanent else encoder.instantaneous_guarantee_
    laws = np.array(encoder.randomizer_.channel(filters, permanent=permanent), float)
    for delta in (0.2, 0.05, 1e-3):
        assert deltas(laws, compose([promise], delta=delta).epsilon, 1) <= delta * (1 + 1e-9)
    bare = PrivacyGuarantee(promise.epsilon)
    assert compose([promise] * 20, delta=1e-6).epsilon < 0.95 * compose([bare] * 20, delta=1e-6).epsilon
