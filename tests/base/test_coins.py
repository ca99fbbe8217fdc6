"""Fresh coins everywhere: calls, columns, classes, threads, forks, workers, pickles."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import RandomizedResponseEncoder
from skdp.base import CallCounter, coins

pytestmark = pytest.mark.secure

# Two releases of 500 values at epsilon 0.01 are equal by chance with probability below 10**-300.
ROWS = pd.DataFrame({"a": ["x"] * 500, "b": ["x"] * 500})
CATEGORIES = {"a": ["x", "y", "z", "w"], "b": ["x", "y", "z", "w"]}


def fitted(random_state=None, **parameters):
    return RandomizedResponseEncoder(0.01, categories=CATEGORIES, random_state=random_state, **parameters).fit(ROWS)


def release(encoder):
    return encoder.transform(ROWS).to_numpy().tobytes(), encoder.transform(ROWS)["a"].str.cat()


def text(encoder):
    return encoder.transform(ROWS).sum().str.cat()


def all_different(texts):
    return len(set(texts)) == len(texts)


def test_numpy_seeds_change_nothing():
    encoder = fitted()
    texts = []
    for _ in range(3):
        np.random.seed(0)  # noqa: NPY002 - the point of the test
        texts.append(text(encoder))
    assert all_different(texts)


def test_no_two_calls_repeat():
    encoder = fitted()
    assert all_different([text(encoder) for _ in range(20)])
    assert fitted().guarantee_.secure


def test_columns_of_equal_values_get_different_coins():
    for random_state in (None, 0):
        out = fitted(random_state).transform(ROWS)
        assert (out["a"] != out["b"]).any()


def test_unpickled_copies_and_clones_draw_their_own_coins():
    encoder = fitted()
    copies = [pickle.loads(pickle.dumps(encoder)) for _ in range(3)]
    assert all_different([text(copy) for copy in [encoder, *copies, clone(encoder).fit(ROWS)]])


def test_threads_draw_different_coins():
    encoder = fitted()
    with ThreadPoolExecutor(4) as pool:
        assert all_different(list(pool.map(text, [encoder] * 12)))


def _in_child(queue, encoder):
    queue.put(text(encoder))


def test_forked_processes_draw_different_coins():
    context = multiprocessing.get_context("fork")
    encoder = fitted()
    text(encoder)
    queue = context.SimpleQueue()
    children = [context.Process(target=_in_child, args=(queue, encoder)) for _ in range(4)]
    for child in children:
        child.start()
    texts = [queue.get() for _ in children] + [text(encoder)]
    for child in children:
        child.join()
    assert all_different(texts)


def test_joblib_workers_draw_different_coins():
    encoder = fitted()
    texts = joblib.Parallel(n_jobs=2)(joblib.delayed(text)(encoder) for _ in range(6))
    assert all_different(texts)


def test_a_seed_replays_after_fit_and_from_a_pickle():
    encoder = fitted(7)
    stored = pickle.dumps(encoder)
    run = [text(encoder) for _ in range(3)]
    assert all_different(run)
    assert [text(encoder.fit(ROWS)), text(encoder), text(encoder)] == run
    copy = pickle.loads(stored)
    assert [text(copy) for _ in range(3)] == run
    assert [text(fitted(7)), text(fitted(8))][0] == run[0] != text(fitted(8))
    assert not encoder.guarantee_.secure


def test_seeded_threads_never_share_a_call_number():
    counter = CallCounter()
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: counter.advance(), range(1000)))
    assert sorted(numbers) == list(range(1000))


def test_seeded_streams_differ_by_class_column_call_and_seed():
    keys = itertools.product([0, 1], ["RandomizedResponseEncoder", "Other"], [0, 1], ["a", "b"])
    assert all_different([coins(seed, *key).bytes(16).tobytes() for seed, *key in keys])


@pytest.mark.parametrize("strategy", ["split", "joint"])
def test_a_seeded_neighbour_differs_in_more_than_its_row(strategy):
    """Advancing the stream by call hides which row changed between two releases of one encoder."""
    encoder = fitted(0, strategy=strategy)
    before = encoder.transform(ROWS)
    changed = ROWS.copy()
    changed.loc[3, "a"] = "y"
    assert (before != encoder.transform(changed)).to_numpy().sum() > 100
