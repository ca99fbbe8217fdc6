"""A replay sees every part of what is released, wherever it is held, and no address of an object."""

from __future__ import annotations

import array
import functools
import io
import threading
from collections import deque
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from narwhals.stable import v2 as nw
from scipy import sparse
from sklearn.dummy import DummyClassifier

from skdp import Domain, DPMarginalSynthesizer, Interval, PrivacyGuarantee
from skdp.randomness import SeededSource, discrete_laplace
from skdp.testing import replay_release
from tests.conftest import each

CLAIM = PrivacyGuarantee(1.0, relation="add_remove", trust="central")
AGES = np.array([20, 30, 100])


class Slots:
    __slots__ = ("__numbers",)

    def __init__(self, numbers):
        self.__numbers = numbers


class Quiet:
    """Its text says little."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __repr__(self):
        return "Quiet()"


class Bunch(dict):
    pass


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
    "masked array": lambda numbers: np.ma.array(numbers, mask=True),
    "deque": deque,
    "set": lambda numbers: set(numbers.tolist()),
    "mapping proxy": lambda numbers: MappingProxyType({"a": numbers}),
    "mapping with an attribute": lambda numbers: with_attributes(Bunch(), numbers=numbers),
    "array of the standard library": lambda numbers: array.array("q", numbers.tolist()),
    "bytes in memory": lambda numbers: io.BytesIO(numbers.tobytes()),
    "text in memory": lambda numbers: io.StringIO(str(numbers.tolist())),
    "iterator": lambda numbers: iter(numbers.tolist()),
    "partial": lambda numbers: functools.partial(print, numbers),
    "bound method": lambda numbers: Quiet(numbers).__repr__,
    "slots": Slots,
    "namespace": lambda numbers: SimpleNamespace(numbers=numbers),
    "quiet object": Quiet,
    "error": lambda numbers: ValueError(numbers),
    "estimator": lambda numbers: with_attributes(DummyClassifier(), numbers_=numbers),
    "domain": lambda numbers: Domain({"a": [*range(100), middle(numbers)]} if middle(numbers) > 120 else {"a": [1]}),
    "interval": lambda numbers: Interval(edges=[*range(100), 1000.5 + middle(numbers), 2000]),
    "sparse": sparse.csr_matrix,
    "sparse by keys": lambda numbers: sparse.dok_array(numbers[np.newaxis]),
    "pandas Series": pd.Series,
    "pandas Index": pd.Index,
    "pandas Categorical": lambda numbers: pd.Categorical(numbers.astype(str)),
    "pandas unused category": lambda numbers: pd.Series([0], dtype=pd.CategoricalDtype([0, middle(numbers)])),
    "pandas nullable": lambda numbers: pd.array(numbers, dtype="Int64"),
    "pandas of Arrow": lambda numbers: pd.Series(numbers, dtype="int64[pyarrow]"),
    "pandas MultiIndex": lambda numbers: pd.MultiIndex.from_arrays([np.arange(3000), numbers]),
    "pandas unused level": lambda numbers: pd.MultiIndex.from_product([[1], [2, middle(numbers)]])[:1],
    "pandas index": lambda numbers: pd.DataFrame({"a": range(3000)}, index=numbers),
    "pandas name": lambda numbers: pd.Series([0], name=middle(numbers)),
    "pandas dtype": lambda numbers: pd.Series([0.0], dtype="float64" if middle(numbers) > 120 else "Float64"),
    "pandas attrs": lambda numbers: with_attributes(pd.DataFrame({"a": [0]}), attrs={"n": middle(numbers)}),
    "pandas columns": lambda numbers: pd.DataFrame([[0]], columns=[middle(numbers)]),
    "polars Series": pl.Series,
    "polars DataFrame": lambda numbers: pl.DataFrame({"a": numbers}),
    "polars Enum": lambda numbers: pl.Series(["0"], dtype=pl.Enum([*map(str, range(100)), f"x{middle(numbers)}"])),
    "narwhals": lambda numbers: nw.from_native(pl.DataFrame({"a": numbers})),
    "Arrow array": pa.array,
    "Arrow scalar": lambda numbers: pa.array([numbers])[0],
    "Arrow buffer": lambda numbers: pa.py_buffer(numbers.tobytes()),
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
        # In the middle of many, which texts cut out, is an exact one.
        numbers = np.zeros(3000, int)
        numbers[1500] = ages.sum()
        return Release(total, wrap(numbers))

    return release


@each("way", WAYS)
def test_an_exact_number_is_seen(way):
    release = release_with(WAYS[way])
    replay = replay_release(release, AGES, AGES[:2], guarantee=CLAIM)
    assert len(replay.findings) == 1
    assert "the result.shown_" in replay.findings[0]
    assert "the result.total_" not in replay.findings[0]


@each("way", WAYS)
def test_equal_releases_are_equal(way):
    """Whatever addresses their objects have."""
    assert replay_release(release_with(WAYS[way]), AGES, AGES.copy(), guarantee=CLAIM).passed


def test_what_holds_itself_and_what_has_no_parts():
    def release(ages):
        loop = [threading.Lock(), object(), print]
        loop.append(loop)
        return Release(None, loop)

    assert replay_release(release, AGES, AGES[:2], guarantee=CLAIM).passed


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_an_honest_release_of_each_library(library):
    rows = {"a": ["x", "y", "x"], "b": [0, 1, 1]}
    synthesizer = DPMarginalSynthesizer(domain={"a": ["x", "y"], "b": [0, 1]})
    one_less = library({name: values[:2] for name, values in rows.items()})
    for neighbour in (library(rows), one_less):
        assert replay_release(synthesizer, library(rows), neighbour).passed
