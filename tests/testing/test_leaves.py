"""A replay compares all parts of a release, in any container, and ignores addresses of objects."""

import threading
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier

from skdp import Domain, Interval, PrivacyGuarantee
from skdp.randomness import SeededSource, discrete_laplace
from skdp.testing import replay_release

CLAIM = PrivacyGuarantee(1.0, relation="add_remove", trust="central")
AGES = np.array([20, 30, 100])


class Slots:
    __slots__ = ("__numbers",)

    def __init__(self, numbers):
        self.__numbers = numbers


class Quiet:
    """Its text is uninformative."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __repr__(self):
        return "Quiet()"


def with_attributes(value, **attributes):
    for name, attribute in attributes.items():
        setattr(value, name, attribute)
    return value


def middle(numbers):
    return int(numbers[1500])


def a_schema(numbers):
    return pa.schema([pa.field("a", pa.int64(), metadata={"n": str(middle(numbers))})])


WAYS = {
    "array": lambda numbers: numbers,
    "set": lambda numbers: set(numbers.tolist()),
    "slots": Slots,
    "quiet object": Quiet,
    "estimator": lambda numbers: with_attributes(DummyClassifier(), numbers_=numbers),
    "domain": lambda numbers: Domain({"a": [*range(100), middle(numbers)]} if middle(numbers) > 120 else {"a": [1]}),
    "interval": lambda numbers: Interval(edges=[*range(100), 1000.5 + middle(numbers), 2000]),
    "sparse": sparse.csr_matrix,
    "pandas Series": pd.Series,
    "pandas Categorical": lambda numbers: pd.Categorical(numbers.astype(str)),
    "pandas unused category": lambda numbers: pd.Series([0], dtype=pd.CategoricalDtype([0, middle(numbers)])),
    "pandas MultiIndex": lambda numbers: pd.MultiIndex.from_arrays([np.arange(3000), numbers]),
    "pandas unused level": lambda numbers: pd.MultiIndex.from_product([[1], [2, middle(numbers)]])[:1],
    "pandas index": lambda numbers: pd.DataFrame({"a": range(3000)}, index=numbers),
    "pandas attrs": lambda numbers: with_attributes(pd.DataFrame({"a": [0]}), attrs={"n": middle(numbers)}),
    "polars DataFrame": lambda numbers: pl.DataFrame({"a": numbers}),
    "polars Enum": lambda numbers: pl.Series(["0"], dtype=pl.Enum([*map(str, range(100)), f"x{middle(numbers)}"])),
    "Arrow array": pa.array,
    "Arrow table": lambda numbers: pa.table({"a": numbers}),
    "Arrow metadata": lambda numbers: pa.table({"a": [0]}, schema=a_schema(numbers)),
    "Arrow unused value": lambda numbers: pa.DictionaryArray.from_arrays([0], [0, middle(numbers)]),
}


class Release:
    def __init__(self, total, shown):
        self.total_, self.shown_ = total, shown


def release_with(wrap):
    def release(ages):
        total = ages.sum() + discrete_laplace(SeededSource(0), Fraction(100), 1)
        # The exact number is in the middle of many, which texts cut out.
        numbers = np.zeros(3000, int)
        numbers[1500] = ages.sum()
        return Release(total, wrap(numbers))

    return release


@pytest.mark.parametrize("way", WAYS)
def test_exact_number_is_found(way):
    release = release_with(WAYS[way])
    replay = replay_release(release, AGES, AGES[:2], guarantee=CLAIM)
    assert len(replay.findings) == 1
    assert "the result.shown_" in replay.findings[0]
    assert "the result.total_" not in replay.findings[0]


@pytest.mark.parametrize("way", WAYS)
def test_equal_releases_are_equal(way):
    """Independently of the addresses of their objects."""
    assert replay_release(release_with(WAYS[way]), AGES, AGES.copy(), guarantee=CLAIM).passed


def test_recursive_objects_and_objects_without_parts_are_compared():
    def release(ages):
        loop = [threading.Lock(), object(), print]
        loop.append(loop)
        return Release(None, loop)

    assert replay_release(release, AGES, AGES[:2], guarantee=CLAIM).passed
