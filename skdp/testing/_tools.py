"""Tools of the checks: failures with a reason, tables of every library, counts of random bytes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import SkipTest

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp.coding import is_missing
from skdp.randomness import SecureSource, SeededSource

Rows = dict[Any, list[Any]]


def require(condition: Any, reason: str) -> None:
    """Fail a check unless a condition holds."""
    if not condition:
        raise AssertionError(reason)


def make_frame(rows: Rows, values: dict[Any, list[Any]], kind: str) -> Any:
    """Make a table of rows."""
    if kind == "array":
        return np.array([list(row) for row in zip(*rows.values(), strict=True)], dtype=object)
    if kind == "pandas":
        return pd.DataFrame({name: pd.Series(column, dtype=_dtype(values[name])) for name, column in rows.items()})
    try:
        if kind == "polars":
            import polars as pl

            return pl.DataFrame(
                {name: pl.Series(column, dtype=pl.Series(values[name]).dtype) for name, column in rows.items()}
            )
        import pyarrow as pa

        return pa.table({name: pa.array(column, pa.array(values[name]).type) for name, column in rows.items()})
    except ImportError:
        raise SkipTest(f"{kind} is not installed") from None


def _dtype(values: list[Any]) -> Any:
    return object if any(value is None or isinstance(value, str) for value in values) else np.array(values).dtype


def columns_of(output: Any) -> Rows:
    """Read any output of a transformer as lists of Python values."""
    if isinstance(output, np.ndarray):
        return {f"x{index}": _plain(column.tolist()) for index, column in enumerate(output.T)}
    if isinstance(output, pd.DataFrame):
        return {name: _plain(output[name].tolist()) for name in output.columns}
    frame = nw.from_native(output, eager_only=True)
    return {name: _plain(frame.get_column(name).to_list()) for name in frame.columns}


def _plain(column: list[Any]) -> list[Any]:
    return [None if is_missing(value) else value for value in column]


def release(fitted: Any, frame: Any) -> str:
    """Transform a table and write the result as text, to compare releases."""
    return repr(columns_of(fitted.transform(frame)))


@contextmanager
def counted_draws() -> Iterator[list[int]]:
    """Count the random bytes that are drawn in a block of code, by any transformer of this process."""
    counter = [0]

    originals = {source: source.bytes for source in (SecureSource, SeededSource)}
    try:
        for source, original in originals.items():
            setattr(source, "bytes", _counting(original, counter))  # noqa: B010 - mypy knows it as a method
        yield counter
    finally:
        for source, original in originals.items():
            setattr(source, "bytes", original)  # noqa: B010


@contextmanager
def recorded_bytes() -> Iterator[bytearray]:
    """Record the secure random bytes that are drawn in a block of code."""
    found = bytearray()
    original = SecureSource.bytes

    def draw(self: Any, size: int) -> Any:
        drawn = original(self, size)
        found.extend(drawn.tobytes())
        return drawn

    try:
        setattr(SecureSource, "bytes", draw)  # noqa: B010 - mypy knows it as a method
        yield found
    finally:
        setattr(SecureSource, "bytes", original)  # noqa: B010


def _counting(original: Any, counter: list[int]) -> Any:
    @wraps(original)
    def draw(self: Any, size: int) -> Any:
        counter[0] += size
        return original(self, size)

    return draw


def fitted(estimator: Any, X: Any, **parameters: Any) -> Any:
    """Fit a clone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a release may warn that it was refused, or lost in noise
        return clone(estimator).set_params(**parameters).fit(X)


def released_attributes(estimator: Any) -> dict[str, Any]:
    """Return the attributes set by a fit."""
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in vars(estimator).items() if name not in parameters}


def released_text(estimator: Any) -> str:
    """Write a release as text, to compare releases."""
    released = {name: _comparable(value) for name, value in released_attributes(estimator).items() if name[0] != "_"}
    with np.printoptions(threshold=10**6, floatmode="unique"):
        return repr({name: value for name, value in released.items() if name != "guarantee_"})


def _comparable(value: Any) -> Any:
    """Expand objects whose text is only an address in memory."""
    if isinstance(value, list | tuple):
        return [_comparable(part) for part in value]
    if repr(value) == object.__repr__(value):
        return type(value).__name__, {name: _comparable(part) for name, part in vars(value).items()}
    return value
