"""Random bits of batches: distinct for distinct inputs, and equal if a batch is drawn again."""

import hashlib
import itertools

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.engines import privatize, privatize_file
from skdp.engines._privatize import WHOLE_TABLE as WHOLE
from skdp.engines._privatize import BatchRelease, KeyedSource
from skdp.local import NumericPerturber, RapporEncoder, SecretKey
from tests.engines.tables import read, write

KEY = SecretKey(b"a key of 32 bytes for the tests.")


def release_of(transformer, key):
    person = None if transformer.protocol_.permanent_key is None else "person"
    return BatchRelease(transformer.protocol_, person=person, key=key)


def reports_of(transformer, key, frame, place=WHOLE):
    return release_of(transformer, key).draw(frame, place)


def make_key(number=0):
    return SecretKey(bytes([number]) * 32)


def same(value, rows=5_000, last=None):
    """Make equal rows, so that equal random bits give equal reports; change a value of the last row."""
    return pd.DataFrame({"a": value, "b": [value] * (rows - 1) + [value if last is None else last]})


@pytest.mark.parametrize(
    ("made", "value", "other"),
    [
        (RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"], "b": ["x", "y"]}), "x", "y"),
        (NumericPerturber(0.1, mechanism="square_wave", bounds=(0, 100), grid_size=1), 50.0, 50.001),
        (RapporEncoder(4.0, n_bits=8, n_cohorts=8), "x", "y"),
    ],
    ids=["values", "numbers", "words"],
)
def test_random_bits_depend_on_key_position_and_all_rows(made, value, other):
    """False alarm with probability below 2**-1000."""
    made.fit(same(value, 10))
    seen = []
    for frame, randomness, place in [
        (same(value), make_key(), WHOLE),
        (same(value), make_key(1), WHOLE),
        (same(value), make_key(), (None, 1)),
        (same(value, last=other), make_key(), WHOLE),  # another value in the last row changes all random bits
        (same(value, 5_001), make_key(), WHOLE),
    ]:
        reports = reports_of(made, randomness, frame, place)[:4_999]
        columns = [name for name in reports if "cohort" in name] or list(reports)
        seen += [tuple(reports[name]) for name in columns]
    assert len(set(seen)) == len(seen)


def test_values_with_equal_joined_text_have_different_random_bits():
    """Joined text of "s a" and "s bs c" equals that text for "s as b" and "s c"; 1 and "1" are one word."""
    made = RapporEncoder(4.0, n_bits=8, n_cohorts=3).fit(pd.DataFrame({"word": ["a"]}))

    def cohorts(*pair):
        frame = pd.DataFrame({"word": pd.Series(pair * 1_000, dtype=object)})
        return tuple(reports_of(made, make_key(), frame)["word_cohort"])

    pairs = [("a", "bs c"), ("as b", "c"), ("1", "1"), ("01", "01"), (True, True), ("True", "True")]
    assert len({cohorts(*pair) for pair in pairs}) == len(pairs)
    assert cohorts(1, 1) == cohorts("1", "1")


SECOND_ROUND = {"memoize": True, "secret_key": KEY, "instantaneous_epsilon": 0.1}


@pytest.mark.parametrize(
    "made",
    [
        UnaryEncodingTransformer(60.0, variant="symmetric", categories={"word": ["a", "b"]}, **SECOND_ROUND),
        RapporEncoder(100.0, instantaneous_epsilon=4.0, n_bits=8, n_cohorts=1, secret_key=KEY),
    ],
)
def test_other_persons_with_equal_values_have_another_instantaneous_report(made):
    """All permanent reports are truthful (false alarm e**-25 a bit), so only instantaneous reports differ."""
    made.fit(pd.DataFrame({"word": ["a"]}))
    frames = [pd.DataFrame({"word": "a", "person": [f"{n}:{row}" for row in range(2_000)]}) for n in range(2)]
    first, second = (reports_of(made, make_key(), frame) for frame in frames)
    assert not first.equals(second)  # 2**-2000


@given(st.lists(st.integers(0, 300), max_size=5))
def test_keyed_source_is_shake_128_of_key_and_request_number(sizes):
    source = KeyedSource(b"k" * 32)
    for number, size in enumerate(sizes):
        expected = hashlib.shake_128(b"k" * 32 + number.to_bytes(8, "big")).digest(size)
        assert source.bytes(size).tobytes() == expected


def test_repr_contains_no_key():
    key, made = SecretKey.generate(), UnaryEncodingTransformer(categories={"word": ["a", "b"]}, **SECOND_ROUND)
    made.fit(pd.DataFrame({"word": ["a"]}))
    release = release_of(made, key)
    for text in (repr(release), str(vars(release)), repr(made), str(vars(made.protocol_.memo))):
        for secret in (key, KEY):
            assert secret.hex() not in text
            assert repr(bytes(secret)) not in text


BATCH, N_BATCHES = 400, 6


def make_equal_rows():
    """Make batches of equal rows; a number orders the rows of Spark."""
    n_rows = BATCH * N_BATCHES
    return pa.table({"a": ["x"] * n_rows, "b": ["x"] * n_rows, "number": range(n_rows)})


def find_equal_batches(table):
    """Return pairs of batches, also of two columns, with equal reports."""
    columns = {name: table[name].to_pylist() for name in ("a", "b")}
    starts = range(0, BATCH * N_BATCHES, BATCH)
    batches = {(name, start): tuple(columns[name][start : start + BATCH]) for name in columns for start in starts}
    return [pair for pair in itertools.combinations(batches, 2) if batches[pair[0]] == batches[pair[1]]]


@pytest.mark.parametrize("seed", [None, 3])
def test_equal_batches_have_different_reports(every_engine, batch_rows, seed):
    """False alarm with probability below 2**-350, as each report is fair with epsilon 0.1."""
    batch_rows(BATCH)
    values = {"a": ["x", "y"], "b": ["x", "y"]}
    made = RandomizedResponseEncoder(0.1, categories=values, random_state=seed)
    frame = every_engine.frame(make_equal_rows())
    first, second = (every_engine.table(privatize(frame, made, keep=["number"])) for _ in range(2))
    assert find_equal_batches(first) == []
    # A second release of the same rows has other random bits.
    assert find_equal_batches(pa.table({"a": first["a"], "b": second["a"]})) == []


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_equal_batches_of_a_file_have_different_reports(tmp_path, batch_rows, form):
    batch_rows(BATCH)
    made = RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"], "b": ["x", "y"]})
    source = write(make_equal_rows(), tmp_path / f"in.{form}", rows=BATCH)
    tables = []
    for number in range(2):
        target = tmp_path / f"{number}.{form}"
        tables.append(read(privatize_file(source, target, made)))
        assert find_equal_batches(tables[-1]) == []
    assert find_equal_batches(pa.table({"a": tables[0]["a"], "b": tables[1]["a"]})) == []
