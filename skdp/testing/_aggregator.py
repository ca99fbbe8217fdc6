"""Checks of functions that call a statistic on chunks of a private table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from skdp.testing._tools import require

_SECRET = "hunter2"
_ROWS = 400


class _Probe:
    """A statistic that records its inputs, and the number of calls of this copy."""

    def __init__(self, seen: list[tuple[Any, int]]) -> None:
        self.seen, self.calls = seen, 0

    def __deepcopy__(self, memo: Any) -> _Probe:
        return _Probe(self.seen)

    def __call__(self, chunk: Any) -> float:
        self.calls += 1
        self.seen.append((chunk, self.calls))
        return float(len(chunk))


def check_aggregator(release: Callable[[Callable[[Any], float], Any], Any]) -> None:
    """Check that a function which calls a statistic on random chunks of rows hides the other chunks from each."""
    # Sample and aggregate is private because one row changes the statistic of one chunk only. A chunk must not show the
    # positions of its rows, by labels, order or metadata, nor the dtypes and categories of the whole table, and the
    # statistic must not remember earlier chunks.
    chunks = _chunks(release, _table())
    require(len(chunks) >= 5, "the statistic is called for fewer than 5 chunks of 400 rows")
    require(all(calls == 1 for _, calls in chunks), "the statistic remembers earlier chunks: give each its own copy")
    for chunk, _ in chunks:
        require(chunk.index.equals(pd.RangeIndex(len(chunk))), "a chunk shows the row labels of the table")
        require(not chunk.attrs, "a chunk shows the attributes of the table")
        for name in chunk:
            if isinstance(chunk[name].dtype, pd.CategoricalDtype):
                require(set(chunk[name].dtype.categories) <= set(chunk[name]), "a chunk shows categories of other rows")
    # A chunk of 5 rows is in order by chance in 1 of 120 cases, 5 such chunks in less than 1 of 10**10.
    ordered = [chunk["place"].is_monotonic_increasing for chunk, _ in chunks if len(chunk) >= 5]
    require(not all(ordered) or len(ordered) < 5, "the rows of all chunks are in the order of the table")
    gap = _table().astype(object)
    gap.iloc[0] = None
    dtypes = [
        {tuple(map(str, chunk.dtypes)) for chunk, _ in found if not chunk.isna().to_numpy().any()}
        for found in (chunks, _chunks(release, gap.infer_objects()))
    ]
    require(dtypes[0] == dtypes[1], "a missing value changes the dtypes of chunks that do not hold it")
    for error in (ValueError, SystemExit, BaseException):
        _check_failures(release, error)


def _table() -> Any:
    place = np.arange(_ROWS)
    table = pd.DataFrame({"place": place, "even": place % 2 == 0, "word": pd.Categorical([f"w{one}" for one in place])})
    table = table.set_axis(pd.Index(10 * place, name=_SECRET))
    table.attrs["rows"] = _ROWS
    return table


def _chunks(release: Callable[..., Any], X: Any) -> list[tuple[Any, int]]:
    seen: list[tuple[Any, int]] = []
    release(_Probe(seen), X)
    return seen


def _check_failures(release: Callable[..., Any], kind: type[BaseException]) -> None:
    def fail(chunk: Any) -> float:
        raise kind(_SECRET)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = release(fail, _table())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise AssertionError(f"a {kind.__name__} of the statistic gets out as {type(error).__name__}") from None
    require(not result.released, f"there is an answer although the statistic always fails ({kind.__name__})")
