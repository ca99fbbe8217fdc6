"""Shared fixtures: every kind of frame, and a source of bytes that a test writes itself."""

from __future__ import annotations

import gc
import os
import secrets
from contextlib import contextmanager
from functools import wraps
from random import Random

# Tests run in several processes already, and threads that wait for each other on busy cores make seconds minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.disable()  # until all tests are collected, of which nothing is garbage

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from skdp.randomness import SecureSource, SeededSource

# `make test` runs the same examples each time; `make test-long` searches at random, with `--hypothesis-profile=search`.
# Nothing depends on time: a busy machine is no fault of the code.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("skdp", **UNTIMED, derandomize=True, database=None, max_examples=10)
settings.register_profile("search", **UNTIMED, derandomize=False, print_blob=True, max_examples=300)
settings.load_profile("skdp")


def pytest_addoption(parser):
    parser.addoption("--secure", action="store_true", help="draw secure bytes in all tests, as `make test-long`")


# Examples of docstrings that take seconds: they are `long`, as their code is tested on less elsewhere.
LONG_EXAMPLES = {
    "skdp.datasets._adult.load_adult_aif360",
    "skdp.evaluation._attacks.attribute_inference",
    "skdp.evaluation._audit.audit_epsilon",
    "skdp.evaluation._privacy_curve.privacy_curve",
    "skdp.evaluation.report._report.study_report",
    "skdp.metrics._mitigation.private_parity",
    "skdp.synthesis._resampler.SyntheticResampler",
    "skdp.testing._curator.check_curator",
    "skdp.testing._privatizer.check_privatizer",
}


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in LONG_EXAMPLES:
            item.add_marker("long")


def pytest_collection_finish(session):
    """Leave what was collected alone: the collector of garbage would look through it again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # by default it looks for new garbage at each 700 objects
    gc.enable()


def pytest_unconfigure():
    """Collect all objects at exit. Modules in C++ print a list of the objects that are never collected."""
    gc.unfreeze()


@contextmanager
def draw_by_key(*key):
    """Replace secure bytes, and seeds that NumPy draws, by bytes of a key; forked processes draw their own."""
    source, seeds, process = SeededSource("tests", *key), Random(repr(key)), os.getpid()
    secure_bytes, token_bytes, default_rng = SecureSource.bytes, secrets.token_bytes, np.random.default_rng

    def is_parent():
        return os.getpid() == process

    @wraps(secure_bytes)
    def draw_bytes(own, size):
        return source.bytes(size) if is_parent() else secure_bytes(own, size)

    def draw_token(size=32):
        return source.bytes(size).tobytes() if is_parent() else token_bytes(size)

    def make_rng(seed=None):
        return default_rng(seeds.getrandbits(128) if seed is None and is_parent() else seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecureSource, "bytes", draw_bytes)
        patch.setattr(secrets, "token_bytes", draw_token)
        patch.setattr(np.random, "default_rng", make_rng)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Make what tests share repeatable, whichever of them runs first."""
    if fixturedef.scope == "function" or request.config.getoption("secure"):
        return (yield)
    with draw_by_key(fixturedef.baseid, fixturedef.argname, getattr(request, "param_index", 0)):
        return (yield)


@pytest.fixture(autouse=True)
def repeatable_draws(request):
    """Give each test the same bytes each time, except with `--secure` or the mark `secure`."""
    if request.config.getoption("secure") or request.node.get_closest_marker("secure"):
        yield
    else:
        with draw_by_key(request.node.nodeid):
            yield


def often(values, chosen):
    """List the values of a parameter, with those that are not chosen left to `make test-long`."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.long) for value in values]


@contextmanager
def counted_draws():
    """Count the random bytes that are drawn in a block of code, from secure and seeded sources."""
    counted = [0]
    with pytest.MonkeyPatch.context() as patch:
        for source in (SecureSource, SeededSource):

            def draw(self, size, given=source.bytes):
                counted[0] += size
                return given(self, size)

            patch.setattr(source, "bytes", draw)
        yield counted


class ScriptedSource:
    """Gives the bytes that a test lists, in order, then a filler."""

    def __init__(self, *parts, filler=None):
        self.script = np.concatenate([np.atleast_1d(np.asarray(part, np.uint8)) for part in parts] or [[]]).astype(
            np.uint8
        )
        self.filler = filler
        self.used = 0

    def bytes(self, size):
        part = self.script[self.used : self.used + size]
        self.used += size
        if part.size < size:
            assert self.filler is not None, "the script is too short"
            part = np.concatenate([part, np.full(size - part.size, self.filler, np.uint8)])
        return part


@pytest.fixture
def scripted_source():
    return ScriptedSource


def _pandas_categories(data, categories):
    frame = pd.DataFrame(data)
    for name in frame:
        values = [value for value in categories[name] if value is not None] if categories else None
        frame[name] = pd.Categorical(frame[name], values, ordered=True)  # unordered ones might be those of the data
    return frame


def _polars_enum(data, categories):
    def strings(name):
        return all(value is None or isinstance(value, str) for value in categories[name])

    dtypes = {name: pl.Enum([v for v in categories[name] if v is not None]) for name in data if strings(name)}
    return pl.DataFrame(data, schema_overrides=dtypes)


def _arrow_dictionary(data, categories):
    return pa.table({name: pa.array(values).dictionary_encode() for name, values in data.items()})


def _arrow_view(data, categories):
    # Not by a cast: what pyarrow before 25 casts to views, Polars cannot read (it ends the process).
    columns = {name: pa.array(values) for name, values in data.items()}
    views = {name: pa.array(data[name], pa.string_view()) for name, a in columns.items() if pa.types.is_string(a.type)}
    return pa.table(columns | views)


def _convert_dtypes(data, backend):
    with np.errstate(invalid="ignore"):  # pandas 2 casts infinity to int to see whether a column is whole
        return pd.DataFrame(data).convert_dtypes(dtype_backend=backend)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for doctests in the package only: of a test module that cannot be imported they make an empty one."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


FRAME_KINDS = {
    "pandas": lambda data, categories: pd.DataFrame(data),
    "pandas-object": lambda data, categories: pd.DataFrame(data, dtype=object),
    "pandas-nullable": lambda data, categories: _convert_dtypes(data, "numpy_nullable"),
    "pandas-arrow": lambda data, categories: _convert_dtypes(data, "pyarrow"),
    "pandas-category": _pandas_categories,
    "polars": lambda data, categories: pl.DataFrame(data),
    "polars-enum": _polars_enum,
    "pyarrow": lambda data, categories: pa.table(data),
    "pyarrow-chunked": lambda data, categories: pa.concat_tables([pa.table(data), pa.table(data)]).slice(
        0, len(next(iter(data.values())))
    ),
    "pyarrow-dictionary": _arrow_dictionary,
    "pyarrow-view": _arrow_view,
}


few_kinds = pytest.mark.parametrize("frame_kind", often(FRAME_KINDS, ["pandas-category", "polars", "pyarrow-chunked"]))
"""For what takes long behind the reading of a frame: a kind of each library."""


# Quick: a kind of each library, and those whose dtypes say more than the values. The nightly job has the others.
@pytest.fixture(params=often(FRAME_KINDS, ["pandas", "pandas-category", "pandas-nullable", "polars-enum", "pyarrow"]))
def frame_kind(request):
    return request.param


@pytest.fixture
def make_frame(frame_kind):
    """Make a table of one kind from ``{column: values}``, and the declared categories where a dtype carries them."""

    def make(data, categories=None):
        return FRAME_KINDS[frame_kind](
            data, categories or {name: sorted({v for v in values if v is not None}) for name, values in data.items()}
        )

    return make


def _column(frame, name):
    if isinstance(frame, pa.Table):
        return frame[name].to_pylist()
    if isinstance(frame, pl.DataFrame):
        return frame[name].to_list()
    return [None if pd.isna(value) else value for value in frame[name].tolist()]


@pytest.fixture
def values_of():
    """Read a column of any frame as plain Python values, None for missing."""
    return _column
