"""Fresh random bits in all calls, columns, classes, threads, forks, workers and pickles."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, DPMean, RandomizedResponseEncoder, discover_domain
from skdp.base import CallCounter, make_source
from tests.conftest import often

# Two releases of 500 values at epsilon 0.01 are equal with probability below 10**-300.
ROWS = pd.DataFrame({"a": ["x"] * 500, "b": ["x"] * 500})
CATEGORIES = {"a": ["x", "y", "z", "w"], "b": ["x", "y", "z", "w"]}


def fit_encoder(random_state=None, **parameters):
    return RandomizedResponseEncoder(0.01, categories=CATEGORIES, random_state=random_state, **parameters).fit(ROWS)


def text(encoder):
    return encoder.transform(ROWS).sum().str.cat()


def all_different(texts):
    return len(set(texts)) == len(texts)


@pytest.mark.parametrize("prefer", often(["threads", "processes"], ["threads"]))
def test_threads_and_workers_draw_distinct_bits(prefer):
    """Calls, copies, pickles and forks are tested by the contract."""
    encoder = fit_encoder()
    texts = [text(encoder), *joblib.Parallel(n_jobs=4, prefer=prefer)(joblib.delayed(text)(encoder) for _ in range(12))]
    assert all_different([*texts, text(encoder)])


def test_seeded_threads_use_distinct_call_numbers():
    counter = CallCounter()
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: counter.advance(), range(1000)))
    assert sorted(numbers) == list(range(1000))


def test_seeded_streams_differ_by_class_column_call_and_seed():
    keys = itertools.product([0, 1], ["RandomizedResponseEncoder", "Other"], [0, 1], ["a", "b"])
    assert all_different([make_source(seed, *key).bytes(16).tobytes() for seed, *key in keys])


def test_equal_columns_of_a_seeded_call_have_different_noise():
    reports = fit_encoder(0).transform(ROWS)
    assert not (reports["a"] == reports["b"]).all()


@pytest.mark.parametrize("strategy", ["split", "joint"])
def test_seeded_neighbor_differs_in_more_than_its_row(strategy):
    """The stream advances by call, so two releases of one encoder do not reveal which row changed."""
    encoder = fit_encoder(0, strategy=strategy)
    before = encoder.transform(ROWS)
    changed = ROWS.copy()
    changed.loc[3, "a"] = "y"
    assert (before != encoder.transform(changed)).to_numpy().sum() > 100


# A RandomState instance as `random_state`: experiments as in scikit-learn, marked as insecure.

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
    domain = discover_domain(PEOPLE, 8.0, 1e-6, person=PEOPLE.index % 50, random_state=state)
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
