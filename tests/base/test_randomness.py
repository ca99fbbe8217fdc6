"""A RandomState instance as `random_state`: experiments as in scikit-learn, marked as insecure."""

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, DPMean, RandomizedResponseEncoder, discover_domain

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50, "age": [20, 30, 40, 50] * 25})


def encode(state):
    encoder = RandomizedResponseEncoder(1.0, categories=[["f", "m"]], random_state=state).fit(PEOPLE[["sex"]])
    return encoder.guarantee_, encoder.transform(PEOPLE[["sex"]])["sex"].tolist()


def mean(state):
    estimator = DPMean(1.0, bounds=[(0, 100)], random_state=state).fit(PEOPLE[["age"]])
    return estimator.guarantee_, estimator.mean_.tolist()


def synthesize(state):
    synthesizer = DPMarginalSynthesizer(1.0, domain={"sex": ["f", "m"]}, random_state=state).fit(PEOPLE[["sex"]])
    return synthesizer.guarantee_, synthesizer.sample(40)["sex"].tolist()


def discover(state):
    domain = discover_domain(PEOPLE, 2.0, 1e-6, person=PEOPLE.index % 50, random_state=state)
    return domain.guarantee, domain.releases


@pytest.mark.parametrize("draw", [encode, mean, discover, synthesize])
def test_equal_states_draw_equally_and_advance(draw):
    state = np.random.RandomState(0)
    (guarantee, first), (_, second) = draw(state), draw(state)
    assert not guarantee.secure
    assert draw(np.random.RandomState(0))[1] == first != second


def test_global_random_state_raises_an_error():
    with pytest.raises(TypeError, match="`random_state` must be None \\(secure\\), or an int or a RandomState"):
        encode(np.random)
