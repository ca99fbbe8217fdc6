"""A RandomState instance as `random_state`: experiments as in scikit-learn, marked as insecure."""

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, DPMean, RandomizedResponseEncoder, discover_domain
from skdp.evaluation import membership_inference

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50, "age": [20, 30, 40, 50] * 25})


def encode(state):
    encoder = RandomizedResponseEncoder(1.0, categories=[["f", "m"]], random_state=state).fit(PEOPLE[["sex"]])
    assert not encoder.guarantee_.secure
    return encoder.transform(PEOPLE[["sex"]])["sex"].tolist()


def mean(state):
    estimator = DPMean(1.0, bounds=[(0, 100)], random_state=state).fit(PEOPLE[["age"]])
    assert not estimator.guarantee_.secure
    return estimator.mean_.tolist()


def synthesize(state):
    synthesizer = DPMarginalSynthesizer(1.0, domain={"sex": ["f", "m"]}, random_state=state).fit(PEOPLE[["sex"]])
    assert not synthesizer.guarantee_.secure
    return synthesizer.sample(40)["sex"].tolist()


def discover(state):
    persons = PEOPLE.index % 50
    domain = discover_domain(PEOPLE[["sex", "age"]], 2.0, 1e-6, groups=persons, random_state=state)
    assert not domain.guarantee.secure
    return domain._release_id


def attack(state):
    rows = PEOPLE.sample(100, random_state=0)
    return membership_inference(rows, rows[:50], rows[50:], random_state=state).auc


@pytest.mark.parametrize("draw", [encode, mean, discover, synthesize, attack])
def test_equal_states_draw_equally_and_a_state_moves_on(draw):
    state = np.random.RandomState(0)
    first, second = draw(state), draw(state)
    assert draw(np.random.RandomState(0)) == first
    if draw is not attack:
        assert second != first


def test_the_global_state_is_no_random_state():
    with pytest.raises(TypeError, match="random_state must be None \\(secure\\), or an int or a RandomState"):
        encode(np.random)
