"""Shared fixtures: dataframes of all libraries, repeatable random bytes, and a source of scripted bytes."""

import atexit
import gc
import importlib
import itertools
import os
import secrets
import sys
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from random import Random
from typing import ClassVar

# Tests run in several processes, and threads that wait for each other on busy cores take minutes instead of seconds.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "agg"

# Garbage is collected seldom, and never in all that was imported and collected: it takes a sixth of the CPU time.
gc.set_threshold(200_000, 20, 20)

# First, because skops searches all modules imported before for each function of SciPy, which takes half a second.
for name in ("scipy.special", "skops.io"):
    importlib.import_module(name)

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from _pytest.doctest import DoctestItem, DoctestModule
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, settings

from skdp.randomness import SecureSource, SeededSource

# `make test` runs the same examples each time; `make test-long` searches at random, with `--hypothesis-profile=search`.
# No limit depends on time, because the machine may be busy.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("skdp", **UNTIMED, derandomize=True, database=None, max_examples=10)
settings.register_profile("search", **UNTIMED, derandomize=False, print_blob=True, max_examples=300)
settings.load_profile("skdp")


def pytest_addoption(parser):
    parser.addoption("--secure", action="store_true", help="draw secure bytes in all tests, as `make test-long` does")
    parser.addoption("--all-cases", action="store_true", help="also run the cases of `long_cases.txt` in quick runs")


# Examples of docstrings that take seconds are `long`, because quick tests run their code on smaller tables.
LONG_EXAMPLES = {
    "skdp.evaluation._attacks.attribute_inference",
    "skdp.evaluation._audit.audit_epsilon",
    "skdp.evaluation._fairness_study.fairness_study",
    "skdp.evaluation._privacy_curve.privacy_curve",
    "skdp.evaluation._study_report.study_report",
    "skdp.metrics._mitigation.private_parity",
    "skdp.synthesis._resampler.SyntheticResampler",
    "skdp.testing._checks.check_curator",
    "skdp.testing._privatizer.check_privatizer",
}


LONG_CASES = Path(__file__).with_name("long_cases.txt")
"""Cases whose branches other cases take, by `choose_long_cases.py`."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by marks
def pytest_collection_modifyitems(config, items):
    long_cases = set() if config.getoption("all_cases") else {*LONG_CASES.read_text(encoding="utf-8").splitlines()}
    for item in items:
        if item.name in LONG_EXAMPLES or item.nodeid in long_cases:
            item.add_marker("long")


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


@atexit.register
def hide_leaks_of_duckdb():
    """Drop the list of functions that DuckDB prints when Python ends, so that the result of the tests is last."""
    if "duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class KeyedSources:
    """The bytes of a key, and the seeds drawn by NumPy; made when they are drawn, because many tests draw nothing."""

    process = os.getpid()
    keys: ClassVar = []

    def __init__(self, key):
        self.key = key

    @cached_property
    def source(self):
        return SeededSource("tests", *self.key)

    @cached_property
    def seeds(self):
        return Random(repr(self.key))

    @classmethod
    def find(cls):
        """Return the sources of the present key, or None in forked processes, whose draws are secure."""
        return cls.keys[-1] if cls.keys and os.getpid() == cls.process else None


def replace_draws(secure_bytes, token_bytes, default_rng):
    """Replace secure bytes, and seeds drawn by NumPy, while a key is set; once, because each test has a key."""

    @wraps(secure_bytes)
    def draw_bytes(own, size):
        keyed = KeyedSources.find()
        return keyed.source.bytes(size) if keyed else secure_bytes(own, size)

    def draw_token(size=32):
        keyed = KeyedSources.find()
        return keyed.source.bytes(size).tobytes() if keyed else token_bytes(size)

    def make_rng(seed=None):
        keyed = KeyedSources.find() if seed is None else None
        return default_rng(keyed.seeds.getrandbits(128) if keyed else seed)

    SecureSource.bytes, secrets.token_bytes, np.random.default_rng = draw_bytes, draw_token, make_rng


replace_draws(SecureSource.bytes, secrets.token_bytes, np.random.default_rng)


@contextmanager
def draw_by_key(*key):
    """Draw the bytes and seeds of a key; forked processes draw secure bytes."""
    KeyedSources.keys.append(KeyedSources(key))
    try:
        yield
    finally:
        KeyedSources.keys.pop()


# The subject of these modules are secure bytes.
SECURE_MODULES = {"test_coins.py", "test_dask.py", "test_randomness.py", "test_subsets.py"}


@pytest.fixture(autouse=True)
def repeatable_draws(request):
    """Repeat the random bytes of a test, so that its result does not vary, except with `--secure`."""
    if request.config.getoption("secure") or request.path.name in SECURE_MODULES:
        yield
    else:
        with draw_by_key(request.node.nodeid):
            yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Repeat the draws of an example in a docstring, which cannot ask for a fixture."""
    if isinstance(item, DoctestItem) and not item.config.getoption("secure"):
        with draw_by_key(item.nodeid):
            return (yield)
    return (yield)


def often(values, chosen):
    """List the values of a parameter; all except `chosen` are `long`."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.long) for value in values]


def diagonal(*axes):
    """List the combinations of values of several parameters; few are quick, with each value."""
    axes = [[value if isinstance(value, ParameterSet) else pytest.param(value) for value in axis] for axis in axes]
    quick = [[index for index, value in enumerate(axis) if not value.marks] for axis in axes]
    chosen = {tuple(indices[number % len(indices)] for indices in quick) for number in range(max(map(len, quick)))}
    return [
        pytest.param(
            *(axis[index].values[0] for axis, index in zip(axes, indices, strict=True)),
            marks=[] if indices in chosen else pytest.mark.long,
        )
        for indices in itertools.product(*(range(len(axis)) for axis in axes))
    ]


def quick_first(n, values):
    """List values of a parameter, or tuples of values of several parameters; all after the first `n` are `long`."""
    marked = [
        pytest.param(*(value if isinstance(value, tuple) else [value]), marks=pytest.mark.long) for value in values[n:]
    ]
    return [*values[:n], *marked]


@contextmanager
def counted_draws():
    """Count the random bytes that a block of code draws, from secure and seeded sources."""
    counted = [0]
    with pytest.MonkeyPatch.context() as patch:
        for source in (SecureSource, SeededSource):

            def draw(self, size, given=source.bytes):
                counted[0] += size
                return given(self, size)

            patch.setattr(source, "bytes", draw)
        yield counted


class ScriptedSource:
    """Returns scripted bytes in order, then a filler."""

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
        frame[name] = pd.Categorical(frame[name], values, ordered=True)  # unordered categories may be found in the data
    return frame


def _polars_enum(data, categories):
    def strings(name):
        return all(value is None or isinstance(value, str) for value in categories[name])

    dtypes = {name: pl.Enum([v for v in categories[name] if v is not None]) for name in data if strings(name)}
    return pl.DataFrame(data, schema_overrides=dtypes)


def _arrow_view(data, categories):
    # Without a cast, because views cast by pyarrow before 25 end the process in Polars.
    columns = {name: pa.array(values) for name, values in data.items()}
    views = {name: pa.array(data[name], pa.string_view()) for name, a in columns.items() if pa.types.is_string(a.type)}
    return pa.table(columns | views)


def _convert_dtypes(data, backend):
    with np.errstate(invalid="ignore"):  # pandas 2 casts infinity to int to test for whole numbers
        return pd.DataFrame(data).convert_dtypes(dtype_backend=backend)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Collect doctests of the package only; for a test module that cannot be imported, they make an empty module."""
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
    "pyarrow-dictionary": lambda data, categories: pa.table(
        {name: pa.array(values).dictionary_encode() for name, values in data.items()}
    ),
    "pyarrow-view": _arrow_view,
}


few_kinds = pytest.mark.parametrize("frame_kind", often(FRAME_KINDS, ["pandas-category", "polars", "pyarrow-chunked"]))
"""One dataframe of each library, for slow tests."""


# Quick tests use one dataframe of each library, and dtypes with declarations. The nightly job uses all.
@pytest.fixture(params=often(FRAME_KINDS, ["pandas", "pandas-category", "pandas-nullable", "polars-enum", "pyarrow"]))
def frame_kind(request):
    return request.param


@pytest.fixture
def make_frame(frame_kind):
    """Make a table from ``{column: values}``, with declared categories if its dtypes have categories."""

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
    """Return a column of any dataframe as Python values, None for missing."""
    return _column


@contextmanager
def search_octaves(low, high, narrow):
    """Search limits between these powers of 2, and in windows narrower than an octave between fewer."""
    module = importlib.import_module("skdp.central._limits")
    cached = [function for function in vars(module).values() if hasattr(function, "cache_clear")]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MIN_POWER": low, "MAX_POWER": high, "MAX_NARROW_POWER": narrow}.items():
            patch.setattr(module, name, value)
        for function in cached:
            function.cache_clear()
        yield
    for function in cached:
        function.cache_clear()


# The subject of these modules is the search, its effect on the errors of models, or published numbers.
ALL_OCTAVES = {
    *("test_limits.py", "test_discover_domain.py", "test_open_ends.py", "test_ordinary_columns.py"),
    *("test_additive.py", "test_coefficient_intervals.py", "test_linear_model.py", "test_pca.py"),
    *("test_benchmarks.py", "test_docs.py", "test_golden.py", "test_notebooks.py"),
}


@pytest.fixture(autouse=True, scope="module")
def some_octaves(request):
    """Search limits among a twentieth of the octaves: noise of all cells takes a fifth of the time of the tests."""
    if request.path.name in ALL_OCTAVES:
        yield
    else:
        with search_octaves(-40, 60, 40):
            yield


@pytest.fixture
def few_cells():
    """Search limits among fewer cells, because replaying takes longer than drawing."""
    with search_octaves(-8, 24, 4):
        yield
