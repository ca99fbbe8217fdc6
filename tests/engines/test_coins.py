"""The random bits of batches: whose they are, and that they are the same when a batch is drawn again."""

import hashlib
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import FrequencyOracleEncoder, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.engines._release import WHOLE_TABLE as WHOLE
from skdp.engines._release import KeyedSource, Release
from skdp.local import LocalHashingEncoder, NumericPerturber, RapporEncoder, SecretKey, SubsetSelectionEncoder
from tests.conftest import each

KEY = SecretKey(b"a key of 32 bytes for the tests.")
ROWS = 9_000
CATEGORIES = {"a": ["x", "y", "z"], "b": [0, 1, 2, 3, 4, None]}
BOUNDS = {"age": (0, 100), "height": (1.0, 2.5)}


def encoder(kind=RandomizedResponseEncoder, **params):
    return kind(**{"epsilon": 1.0, "categories": CATEGORIES, "handle_unknown": "uniform"} | params)


def perturber(**params):
    return NumericPerturber(**{"epsilon": 2.0, "bounds": BOUNDS, "grid_size": 64} | params)


def rappor(**params):
    return RapporEncoder(**{"epsilon": 4.0, "n_bits": 8, "n_cohorts": 3} | params)


KINDS = [
    *(RandomizedResponseEncoder, UnaryEncodingTransformer, LocalHashingEncoder, SubsetSelectionEncoder),
    FrequencyOracleEncoder,
]
ORACLES = ["optimized_unary_encoding", "binary_local_hashing"]
MECHANISMS = ["optimal", "square_wave", "laplace"]
TRANSFORMERS = {
    **{kind.__name__: encoder(kind) for kind in KINDS},
    **{oracle: encoder(FrequencyOracleEncoder, oracle=oracle) for oracle in ORACLES},
    "joint": encoder(strategy="joint"),
    "sample": encoder(LocalHashingEncoder, strategy="sample"),
    **{mechanism: perturber(mechanism=mechanism) for mechanism in MECHANISMS},
    "rappor": rappor(),
    "permanent bits": rappor(secret_key=KEY),
    "second round": encoder(UnaryEncodingTransformer, memoize=True, secret_key=KEY, instantaneous_epsilon=0.5),
}


def people(rows=ROWS):
    draws = np.random.default_rng(1)
    b = pd.array(draws.integers(0, 5, rows), dtype="Int64")
    b[draws.random(rows) < 0.2] = pd.NA
    return pd.DataFrame(
        {
            "a": draws.choice(["x", "y", "z"], rows),
            "b": b,
            "age": draws.integers(-5, 120, rows).astype(float),
            "height": draws.uniform(1, 2.5, rows),
            "word": draws.choice(["a", "b"], rows),
            "person": [f"person {number}" for number in range(rows)],
        }
    )


def fitted(name, random_state=None):
    transformer = TRANSFORMERS[name].set_params(random_state=random_state)
    columns = {NumericPerturber: list(BOUNDS), RapporEncoder: ["word"]}.get(type(transformer), list(CATEGORIES))
    return transformer.fit(people(10)[columns])


def release_of(transformer, key):
    record_id = None if transformer.protocol_.permanent_key is None else "person"
    return Release(transformer.protocol_, record_id=record_id, key=key)


def reports_of(transformer, key, frame, place=WHOLE):
    return release_of(transformer, key).draw(frame, place)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_batch_that_is_drawn_again_has_the_same_reports(name):
    """Also by a worker: or there would be two reports of a record in one release."""
    release = release_of(fitted(name), SecretKey.generate())
    again, frame = pickle.loads(pickle.dumps(release)), people(3_000)
    reports = release.draw(frame, (3, 0))
    pd.testing.assert_frame_equal(reports, again.draw(frame, (3, 0)))
    few = release.draw(frame[:0])
    pd.testing.assert_series_equal(reports.dtypes, few.dtypes)
    assert len(few) == 0


def keyed(number=0):
    return SecretKey(bytes([number]) * 32)


def same(value, rows=5_000, last=None):
    """Make equal rows, so that equal random bits would give equal reports; change a value of the last row."""
    return pd.DataFrame({"a": value, "b": [value] * (rows - 1) + [value if last is None else last]})


@pytest.mark.parametrize(
    ("made", "value", "other"),
    [
        (RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"], "b": ["x", "y"]}), "x", "y"),
        (NumericPerturber(0.1, mechanism="laplace", bounds=(0, 100), grid_size=1), 50.0, 50.001),
        (RapporEncoder(4.0, n_bits=8, n_cohorts=8), "x", "y"),
    ],
    ids=["values", "numbers", "words"],
)
def test_another_key_place_or_row_has_random_bits_of_its_own(made, value, other):
    """False alarm below 2**-1000."""
    made.fit(same(value, 10))
    seen = []
    for frame, randomness, place in [
        (same(value), keyed(), WHOLE),
        (same(value), keyed(1), WHOLE),
        (same(value), keyed(), (None, 1)),
        (same(value, last=other), keyed(), WHOLE),  # one other value in the last row: all random bits are others
        (same(value, 5_001), keyed(), WHOLE),
    ]:
        reports = reports_of(made, randomness, frame, place)[:4_999]
        columns = [name for name in reports if "cohort" in name] or list(reports)
        seen += [tuple(reports[name]) for name in columns]
    assert len(set(seen)) == len(seen)


def test_values_that_are_written_alike_have_random_bits_of_their_own():
    """Joined as they are written, "s a" and "s bs c" are what "s as b" and "s c" are; 1 and "1" are one word."""
    made = rappor().fit(pd.DataFrame({"word": ["a"]}))

    def cohorts(*pair):
        frame = pd.DataFrame({"word": pd.Series(pair * 1_000, dtype=object)})
        return tuple(reports_of(made, keyed(), frame)["word_cohort"])

    pairs = [("a", "bs c"), ("as b", "c"), ("1", "1"), ("01", "01"), (True, True), ("True", "True")]
    assert len({cohorts(*pair) for pair in pairs}) == len(pairs)
    assert cohorts(1, 1) == cohorts("1", "1")


SECOND_ROUND = {"memoize": True, "secret_key": KEY, "instantaneous_epsilon": 0.1}
WORDS = {"word": ["a", "b"]}


@each(
    "made",
    [
        encoder(UnaryEncodingTransformer, epsilon=60.0, variant="symmetric", categories=WORDS, **SECOND_ROUND),
        RapporEncoder(100.0, instantaneous_epsilon=4.0, n_bits=8, n_cohorts=1, secret_key=KEY),
    ],
)
def test_other_persons_with_the_same_values_have_a_second_round_of_their_own(made):
    """All permanent reports are the truth (false alarm e**-25 a bit); so what differs is the second round."""
    made.fit(pd.DataFrame({"word": ["a"]}))
    frames = [pd.DataFrame({"word": "a", "person": [f"{n}:{row}" for row in range(2_000)]}) for n in range(2)]
    first, second = (reports_of(made, keyed(), frame) for frame in frames)
    assert not first.equals(second)  # 2**-2000


@given(st.lists(st.integers(0, 300), max_size=5))
def test_a_keyed_source_is_shake_128_of_the_key_and_the_number_of_the_request(sizes):
    source = KeyedSource(b"k" * 32)
    for number, size in enumerate(sizes):
        expected = hashlib.shake_128(b"k" * 32 + number.to_bytes(8, "big")).digest(size)
        assert source.bytes(size).tobytes() == expected


def test_keys_are_never_shown():
    key, made = SecretKey.generate(), fitted("second round")
    release = release_of(made, key)
    for text in (repr(release), str(vars(release)), repr(made), str(vars(made.protocol_.memo))):
        for secret in (key, KEY):
            assert secret.hex() not in text
            assert repr(bytes(secret)) not in text
