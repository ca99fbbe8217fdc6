"""Shared fixtures: every kind of frame, and a source of bytes that a test writes itself."""

from __future__ import annotations

import gc
import inspect
import os
import secrets
from collections import Counter
from contextlib import contextmanager
from functools import partialmethod, wraps
from random import Random
from unittest import SkipTest
from zlib import crc32

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
from joblib.parallel import LokyBackend

from skdp.randomness import SecureSource, SeededSource

# `make test` runs the same examples each time; `make test-long` searches at random, with `--hypothesis-profile=search`.
# Nothing depends on time: a busy machine is no fault of the code.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("skdp", **UNTIMED, derandomize=True, database=None, max_examples=10)
settings.register_profile("search", **UNTIMED, derandomize=False, print_blob=True, max_examples=300)
settings.load_profile("skdp")


# Workers of joblib that end before the last test needs them are started again, which takes seconds.
LokyBackend.configure = partialmethod(LokyBackend.configure, idle_worker_timeout=3600)


def pytest_addoption(parser):
    parser.addoption("--first", action="store_true", help="run the first case of each test only, as `make test-fast`")
    parser.addoption("--secure", action="store_true", help="draw secure bytes in all tests, as `make test-long`")


# Exact probabilities and certified bounds, which are wrong for one combination of numbers only.
WHOLE = "tests/oracles", "tests/privacy", "tests/randomness", "tests/coding"
# Examples of docstrings whose code other tests run on less.
LONG_EXAMPLES = {
    "skdp.datasets._adult.load_adult_aif360",
    "skdp.evaluation.attacks._attribute_inference.attribute_inference",
    "skdp.evaluation.audits._audit.AuditResult",
    "skdp.evaluation.audits._audit.audit_epsilon",
    "skdp.evaluation.audits._survey.audit_table",
    "skdp.evaluation.curves._privacy_curve.privacy_curve",
    "skdp.evaluation.report._report.study_report",
    "skdp.metrics.private_groups._fairlearn.private_parity",
    "skdp.synthesis._classifier.MarginalClassifier",
    "skdp.synthesis._resampler.SyntheticResampler",
    "skdp.testing._carry_checks.check_form",
    "skdp.testing._curator.check_curator",
    "skdp.testing._interval_checks.check_intervals",
    "skdp.testing._privatizer.check_privatizer",
}
# Of what is alike, each test takes one in its turn, so that each is in many tests, unless it is `whole` or `covering`.
IN_TURNS = {
    "frame_kind": [
        ["pandas", "pandas-object", "pandas-nullable", "pandas-arrow", "pandas-category"],
        ["polars", "polars-enum"],
        ["pyarrow", "pyarrow-chunked", "pyarrow-dictionary", "pyarrow-view"],
    ],
    "engine": [["pandas", "arrow", "reader"], ["polars_lazy", "dataset"], ["duckdb", "dask"]],
    "lazy_engine": [["polars_lazy", "dataset"], ["duckdb", "dask"]],
}


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Make no cases of a long test for `make test`."""
    quick = collector.config.option.markexpr == "not long" and name.startswith("test")
    return [] if quick and any(mark.name == "long" for mark in getattr(obj, "pytestmark", ())) else None


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(config, items):
    # Joblib takes seconds to start processes: what uses them is together, and so in one worker of pytest.
    items.sort(key=lambda item: not (item.get_closest_marker("processes") or "check_privatizer" in item.nodeid))
    crosses = {}
    for item in items:
        if item.name in LONG_EXAMPLES:
            item.add_marker("long")
        if hasattr(item, "callspec") and not item.get_closest_marker("long"):
            crosses.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cross in crosses.values():
        for item in set(cross) - set(_in_make_test(cross)):
            item.add_marker("long")
    if config.getoption("first"):
        cases = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], item)
        first = set(cases.values())
        config.hook.pytest_deselected(items=[item for item in items if item not in first])
        items[:] = [item for item in items if item in first]


def _in_make_test(cross):
    """Choose the cases of a cross of parameters that `make test` runs."""
    name = cross[0].nodeid.partition("[")[0]
    listed, chosen = (cross[0].get_closest_marker(mark) for mark in ("covering", "chosen"))
    if chosen:
        cross = _chosen(cross, chosen.args)
    if not listed and (cross[0].get_closest_marker("whole") or name.startswith(WHOLE)):
        return cross
    given = " ".join(str(mark.args[0]) for mark in cross[0].iter_markers("parametrize"))
    for fixture, alike in IN_TURNS.items():
        if not listed and not chosen and fixture in cross[0].callspec.params and fixture not in given:
            turn = {kinds[crc32(name.encode()) % len(kinds)] for kinds in alike}
            cross = [case for case in cross if case.callspec.params[fixture] in turn]
    return _needed(cross, listed) if listed or len(cross) > 4 else cross


def _chosen(cross, texts):
    """List the cases whose ids hold one of the texts."""
    cases = {case: case.nodeid.partition("[")[2] for case in cross}
    unknown = [text for text in texts if not any(text in name for name in cases.values())]
    some_only = cross[0].config.getoption("lf", False) or any("[" in arg for arg in cross[0].config.args)
    if unknown and not some_only:
        raise pytest.UsageError(f"{cross[0].nodeid.partition('[')[0]}: no case has one of the ids {unknown}")
    return [case for case, name in cases.items() if any(text in name for text in texts)]


def _needed(cross, listed):
    """List cases of a cross of parameters so that each value of each parameter is in one of them."""
    values = {case: _values(case, listed) for case in cross}
    uses, left = Counter(), set().union(*values.values())
    needed, rest = [], list(cross)
    while left:
        # Of the cases with the most new values the one of the rarest others, so that pairs vary.
        best = max(rest, key=lambda case: (len(values[case] & left), -sum(uses[value] for value in values[case])))
        needed.append(best)
        rest.remove(best)
        uses.update(values[best])
        left -= values[best]
    return needed


def _values(case, listed):
    """Return the values of the parameters of a case; those that are listed together count as one, unless `listed`."""
    params = case.callspec.params
    marks = [] if listed else [mark.args[0] for mark in case.iter_markers("parametrize")]
    groups = [names.replace(",", " ").split() if isinstance(names, str) else names for names in marks]
    alone = [[name] for name in params.keys() - {name for names in groups for name in names}]
    return {(tuple(names), tuple(id(params[name]) for name in names)) for names in (*groups, *alone)}


def pytest_collection_finish(session):
    """Leave what was collected alone: the collector of garbage would look through it again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # by default it looks for new garbage at each 700 objects
    gc.enable()


class _Repeatable:
    """Replaces secure bytes and seeds by those of a key, in this process only: workers and forks draw their own."""

    def __init__(self):
        self.source, self.seeds, self.process = None, None, os.getpid()

    def replace(self, system):
        @wraps(system)
        def draw(*args):
            secure = self.source is None or os.getpid() != self.process
            return system(*args) if secure else self.source.bytes(args[-1])

        return draw

    def seed(self):
        """Make a seed for a generator of NumPy that is given none."""
        return None if self.source is None or os.getpid() != self.process else self.seeds.getrandbits(128)

    @contextmanager
    def stream(self, *key):
        before = self.source, self.seeds
        self.source, self.seeds = SeededSource("tests", *key), Random(repr(key))
        try:
            yield
        finally:
            self.source, self.seeds = before


_REPEATABLE = _Repeatable()
SecureSource.bytes = _REPEATABLE.replace(SecureSource.bytes)
_token_bytes = _REPEATABLE.replace(secrets.token_bytes)
secrets.token_bytes = lambda nbytes=32: bytes(_token_bytes(nbytes))
_default_rng = np.random.default_rng
np.random.default_rng = lambda seed=None: _default_rng(_REPEATABLE.seed() if seed is None else seed)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Make what tests share repeatable, whichever of them runs first."""
    if fixturedef.scope == "function" or request.config.getoption("secure"):
        return (yield)
    with _REPEATABLE.stream(fixturedef.baseid, fixturedef.argname, getattr(request, "param_index", 0)):
        return (yield)


@pytest.fixture(autouse=True)
def _repeatable_draws(request):
    """Make `make test` give the same result each time, also where a test gives no seed."""
    if request.config.getoption("secure") or request.node.get_closest_marker("secure"):
        yield
    else:
        with _REPEATABLE.stream(request.node.nodeid):
            yield


def often(values, chosen):
    """List the values of a parameter, with those that are not chosen left to `make test-long`."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.long) for value in values]


def each(names, values):
    """Run a test for each value of a parameter in one case: for what takes less time than a case of pytest."""
    values = list(values)  # of an iterator, too, each time
    assert values, "a loop of no cases would pass"

    def decorate(test):
        given = inspect.signature(test)
        own = names.replace(",", " ").split()

        @wraps(test)
        def loop(*args, **fixtures):
            for value in values:
                case = dict(zip(own, value if len(own) > 1 else [value], strict=True))
                try:
                    test(*args, **fixtures, **case)
                except (pytest.skip.Exception, SkipTest) as error:
                    raise AssertionError(f"the case {case} would leave out those after it") from error
                except BaseException as error:
                    error.add_note(f"in the case {case}")
                    raise

        del loop.__wrapped__  # pytest would ask it for its parameters
        rest = [parameter for name, parameter in given.parameters.items() if name not in own]
        loop.__signature__ = given.replace(parameters=rest)
        return loop

    return decorate


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


@pytest.fixture
def few_calls(monkeypatch):
    """Make few calls in audits that are about rows: calls take nearly all of the time."""
    few_and_no_more = {"_FIRST": 2, "_AGAIN": 2, "_FEW_CALLS": 4, "_FACTOR": 1, "_MORE": (), "_ROWS_A_CALL": 10**9}
    for name, few in few_and_no_more.items():
        monkeypatch.setattr(f"skdp.evaluation.audits._search.{name}", few)


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


@pytest.fixture(params=list(FRAME_KINDS))
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


def without_weak(caught):
    """Return the warnings besides those of a large epsilon or delta, which stands for little noise in a test."""
    from skdp import WeakGuaranteeWarning

    return [warning for warning in caught if not issubclass(warning.category, WeakGuaranteeWarning)]
