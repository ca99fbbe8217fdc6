"""The coins of batches: whose they are, and that they are the same when a batch is drawn again."""

import hashlib
import pickle
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import (
    FrequencyOracleEncoder,
    PrivacyLedger,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)
from skdp.base import CallRandomness
from skdp.engines._batch_release import Release
from skdp.engines._randomness import BLOCK_ROWS, KeyedRandomness, KeyedSource, Place, SeededRandomness
from skdp.local import HadamardResponseEncoder, LocalHashingEncoder, SubsetSelectionEncoder

CATEGORIES = {"a": ["x", "y", "z"], "b": [0, 1, 2, 3, 4, None]}
ENCODERS = [
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
    LocalHashingEncoder,
    SubsetSelectionEncoder,
    HadamardResponseEncoder,
    FrequencyOracleEncoder,
]
ROWS = 2 * BLOCK_ROWS + 900


def people(rows=ROWS):
    numbers = np.random.default_rng(1)
    b = pd.array(numbers.integers(0, 5, rows), dtype="Int64")
    b[numbers.random(rows) < 0.2] = pd.NA
    return pd.DataFrame({"a": numbers.choice(["x", "y", "z"], rows), "b": b})


def fitted(make, **params):
    params = {"epsilon": 1.0, "categories": CATEGORIES, "random_state": 3} | params
    return make(**params).fit(people())


def released(frame, encoder, cuts):
    release = Release(encoder.protocol_, [], SeededRandomness(encoder.randomness(call=0)))
    edges = [0, *cuts, len(frame)]
    parts = [release(frame[start:stop], Place(first=start)) for start, stop in pairwise(edges)]
    return pd.concat(parts)


@pytest.mark.parametrize("strategy", ["split", "joint", "sample"])
@pytest.mark.parametrize("make", ENCODERS)
def test_seeded_reports_of_a_row_do_not_depend_on_where_the_table_is_cut(make, strategy):
    frame, encoder = people(), fitted(make, strategy=strategy)
    whole = released(frame, encoder, [])
    for cuts in ([1], [BLOCK_ROWS], [7, 7, BLOCK_ROWS - 1, BLOCK_ROWS + 1], [3_000, 6_000, ROWS - 1]):
        pd.testing.assert_frame_equal(released(frame, encoder, cuts), whole)


@pytest.mark.parametrize("make", ENCODERS)
def test_nor_on_the_values_of_other_rows(make):
    frame, encoder = people(), fitted(make, handle_unknown="uniform")
    other = frame.copy()
    changed = np.arange(len(frame)) % 3 == 0
    other.loc[changed, "a"] = "never seen"
    same, moved = released(frame, encoder, [])[~changed], released(other, encoder, [])[~changed]
    pd.testing.assert_frame_equal(same, moved)


@pytest.mark.parametrize("oracle", ["optimized_unary_encoding", "binary_local_hashing", "count_mean_sketch"])
def test_nor_with_the_other_oracles(oracle):
    encoder = fitted(FrequencyOracleEncoder, oracle=oracle)
    frame = people()
    pd.testing.assert_frame_equal(released(frame, encoder, [5_000]), released(frame, encoder, []))


def test_seeds_calls_blocks_and_columns_have_streams_of_their_own():
    same = pd.DataFrame({"a": ["x"] * 2 * BLOCK_ROWS, "b": ["x"] * 2 * BLOCK_ROWS})
    encoder = RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"], "b": ["x", "y"]}, random_state=0).fit(same)
    draws = {}
    for seed, call, place in [(0, 0, Place()), (1, 0, Place()), (0, 1, Place()), (0, 0, Place(partition=0))]:
        frame = Release(
            encoder.protocol_, [], SeededRandomness(CallRandomness(seed, "RandomizedResponseEncoder", call))
        )(same, place)
        for name in frame:
            for block in range(2):
                rows = frame[name].to_numpy()[block * BLOCK_ROWS :][:BLOCK_ROWS]
                draws[seed, call, place, name, block] = tuple(rows)
    assert len(set(draws.values())) == len(draws)


def keyed(key=b"k" * 32):
    coins = KeyedRandomness()
    coins._key = key
    return coins


def test_a_batch_that_is_drawn_again_has_the_same_reports():
    encoder, coins = fitted(RandomizedResponseEncoder, random_state=None), KeyedRandomness()
    release = Release(encoder.protocol_, [], coins)
    again = pickle.loads(pickle.dumps(release))
    frame = people()
    pd.testing.assert_frame_equal(release(frame, Place(3)), again(frame, Place(3)))


def test_another_key_place_row_or_order_has_coins_of_its_own():
    """Coins are seen as which reports differ from the first value, where all values are the first one."""
    same = pd.DataFrame({"a": ["x"] * 5_000, "b": ["x"] * 5_000})
    encoder = RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"], "b": ["x", "y"]}).fit(same)
    other, longer = same.copy(), pd.concat([same, same[:1]])
    other.loc[4_999, "b"] = "y"
    seen = []
    for frame, coins, place in [
        (same, keyed(), Place()),
        (same, keyed(b"l" * 32), Place()),
        (same, keyed(), Place(0)),
        (same, keyed(), Place(1)),
        (same, keyed(), Place(None, 1)),
        (other, keyed(), Place()),  # one other value in the last row: all coins are others
        (longer, keyed(), Place()),
    ]:
        reports = Release(encoder.protocol_, [], coins)(frame, place)[:4_999]
        seen += [tuple(reports["a"]), tuple(reports["b"])]
    assert len(set(seen)) == len(seen)


def test_reports_from_keyed_coins_have_the_probabilities_of_the_channel():
    """A fixed key, so it passes or fails for good; a true channel fails one key in a million."""
    n, encoder = 200_000, RandomizedResponseEncoder(1.0, categories={"a": ["x", "y", "z"]})
    frame = pd.DataFrame({"a": ["x"] * n})
    counts = Release(encoder.fit(frame).protocol_, [], keyed())(frame)["a"].value_counts()
    for value, share in zip(["x", "y", "z"], encoder.channel()[0][0], strict=True):
        p = float(share)
        assert abs(counts[value] - n * p) < 5.2 * (n * p * (1 - p)) ** 0.5


@given(st.lists(st.integers(0, 300), max_size=5))
def test_a_keyed_source_is_shake_128_of_the_key_and_the_number_of_the_request(sizes):
    source = KeyedSource(b"k" * 32)
    for number, size in enumerate(sizes):
        expected = hashlib.shake_128(b"k" * 32 + number.to_bytes(8, "big")).digest(size)
        assert source.bytes(size).tobytes() == expected


def test_keys_are_never_shown_nor_shared_by_calls():
    first, second = KeyedRandomness(), KeyedRandomness()
    assert first._key != second._key
    assert len(first._key) == 32
    encoder = fitted(RandomizedResponseEncoder, random_state=None)
    for text in (
        repr(first),
        str(vars(first)),
        repr(Release(encoder.protocol_, [], first)),
        str(vars(Release(encoder.protocol_, [], first))),
    ):
        assert first._key.hex() not in text
        assert repr(bytes(first._key)) not in text


def test_workers_have_no_ledger():
    ledger = PrivacyLedger(epsilon=5)
    encoder = fitted(RandomizedResponseEncoder, ledger=ledger)
    release = pickle.loads(pickle.dumps(Release(encoder.protocol_, [], KeyedRandomness())))
    release(people())
    assert ledger.spent.epsilon == 0
    assert encoder.ledger is ledger


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python's, of forks of processes with threads
def test_forked_and_spawned_workers_never_share_coins():
    """Secure coins in processes: forked and spawned workers that hold the same pickle and equal rows."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    same = pd.DataFrame({"a": ["x"] * 5_000})
    encoder = RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"]}).fit(same)
    release = Release(encoder.protocol_, [], KeyedRandomness())
    places = [Place(number) for number in range(4)]
    drawn = []
    for method in ("fork", "spawn") if "fork" in multiprocessing.get_all_start_methods() else ("spawn",):
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            drawn.append([tuple(part["a"]) for part in pool.map(release, [same] * 4, places)])
    assert all(len(set(parts)) == 4 for parts in drawn)
    assert all(parts == drawn[0] for parts in drawn)  # and whichever process draws a place draws the same


@pytest.mark.parametrize("make", ENCODERS)
@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_look_as_many(make, rows):
    encoder = fitted(make, random_state=None)
    release = Release(encoder.protocol_, [], KeyedRandomness())
    many, few = release(people()), release(people()[:rows])
    assert len(few) == rows
    pd.testing.assert_series_equal(many.dtypes, few.dtypes)
    assert Counter(many.columns) == Counter(few.columns)
