"""Tools of the checks: failures with a reason, tables of every library, counts of random bytes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import SkipTest

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp.base import rows_and_target
from skdp.domain import Domain
from skdp.privacy import PrivacyGuarantee, PrivacyLedger
from skdp.randomness import SecureSource, SeededSource
from skdp.tables import is_missing

Rows = dict[Any, list[Any]]


def require(condition: Any, reason: str) -> None:
    """Fail a check unless a condition holds."""
    if not condition:
        raise AssertionError(reason)


def as_lists(column: list[Any]) -> list[Any]:
    """Write cells of pairs as lists of structs, which polars and pyarrow need."""
    return [
        [
            {"key": part[0], "value": part[1]} if isinstance(part, tuple) else part
            for part in cell
        ]
        if isinstance(cell, tuple)
        else cell
        for cell in column
    ]


def make_frame(rows: Rows, values: dict[Any, list[Any]], kind: str) -> Any:
    """Make a table of rows."""
    if kind == "array":
        return objects_of_rows(rows)
    if kind == "pandas":
        return pd.DataFrame(
            {
                name: pd.Series(column, dtype=_dtype(values[name]))
                for name, column in rows.items()
            }
        )
    try:
        if kind == "polars":
            import polars as pl

            dtypes = {name: pl.Series(as_lists(values[name])).dtype for name in rows}
            return pl.DataFrame(
                {
                    name: pl.Series(as_lists(column), dtype=dtypes[name])
                    for name, column in rows.items()
                }
            )
        import pyarrow as pa

        types = {name: pa.array(as_lists(values[name])).type for name in rows}
        return pa.table(
            {
                name: pa.array(as_lists(column), types[name])
                for name, column in rows.items()
            }
        )
    except ImportError:
        raise SkipTest(f"{kind} is not installed") from None


def objects_of_rows(rows: Rows) -> Any:
    """Make an array of objects; cells that are tuples stay in one piece."""
    array = np.empty((len(next(iter(rows.values()))), len(rows)), object)
    for place, column in enumerate(rows.values()):
        for row, value in enumerate(column):
            array[row, place] = value
    return array


def _dtype(values: list[Any]) -> Any:
    plain = any(value is None or isinstance(value, str | tuple) for value in values)
    return object if plain else np.array(values).dtype


def columns_of(output: Any) -> Rows:
    """Read any output of a transformer as lists of Python values."""
    if isinstance(output, np.ndarray):
        return {
            f"x{index}": _plain(column.tolist())
            for index, column in enumerate(output.T)
        }
    if isinstance(output, pd.DataFrame):
        return {name: _plain(output[name].tolist()) for name in output.columns}
    frame = nw.from_native(output, eager_only=True)
    return {name: _plain(frame.get_column(name).to_list()) for name in frame.columns}


def _plain(column: list[Any]) -> list[Any]:
    kinds = set(map(type, column))
    if kinds <= {bool, int, str, type(None)}:
        return column  # nothing is missing in another way
    if kinds <= {bool, int, str, type(None), float}:
        return [
            value if value == value else None for value in column
        ]  # NaN is unequal to itself
    return [None if is_missing(value) else value for value in column]


def release(fitted: Any, frame: Any) -> str:
    """Transform a table and write the result as text, to compare releases."""
    return repr(columns_of(fitted.transform(frame)))


@contextmanager
def watched_draws(watch: Callable[[type, int, Any], None]) -> Iterator[None]:
    """Call a function with the source, the size and the bytes of each draw in a block of code, in this process."""
    originals = {source: source.bytes for source in (SecureSource, SeededSource)}

    def watching(source: type, original: Any) -> Any:
        @wraps(original)
        def draw(self: Any, size: int) -> Any:
            drawn = original(self, size)
            watch(source, size, drawn)
            return drawn

        return draw

    try:
        for source, original in originals.items():
            setattr(source, "bytes", watching(source, original))  # noqa: B010 - mypy knows it as a method
        yield
    finally:
        for source, original in originals.items():
            setattr(source, "bytes", original)  # noqa: B010


@contextmanager
def counted_draws() -> Iterator[list[int]]:
    """Count the random bytes that are drawn in a block of code."""
    counter = [0]

    def count(source: type, size: int, drawn: Any) -> None:
        counter[0] += size

    with watched_draws(count):
        yield counter


class RecordingLedger(PrivacyLedger):
    """A ledger that records each guarantee, and how many bytes were drawn before its charge."""

    def __init__(self, draws: list[int], *, epsilon: float, delta: float = 0.0) -> None:
        super().__init__(epsilon=epsilon, delta=delta)
        self.draws, self.log = draws, list[tuple[PrivacyGuarantee, int]]()

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        self.log.append((guarantee, self.draws[0]))
        super().charge(guarantee, what)


@contextmanager
def recorded_bytes() -> Iterator[bytearray]:
    """Record the secure random bytes that are drawn in a block of code."""
    found = bytearray()

    def record(source: type, size: int, drawn: Any) -> None:
        if source is SecureSource:
            found.extend(drawn.tobytes())

    with watched_draws(record):
        yield found


def named(kind: str, name: str, check: Callable[[], None]) -> None:
    """Run a check, and begin the reason of a failure with the names of the estimator and of the check."""
    try:
        check()
    except AssertionError as failed:
        raise AssertionError(f"{kind}: {name}: {failed}") from failed.__cause__
    except SkipTest as skipped:
        raise SkipTest(f"{name}: {skipped}") from None
    except Exception as error:
        raise AssertionError(
            f"{kind}: {name}: {type(error).__name__}: {error}"
        ) from error


def fitted(estimator: Any, X: Any, **parameters: Any) -> Any:
    """Fit a clone to a table, whose last column is the target of one that needs it."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # a release may warn that it was refused, or lost in noise
        return (
            clone(estimator)
            .set_params(**parameters)
            .fit(*rows_and_target(estimator, X))
        )


def transformed(fitted: Any, X: Any) -> Any:
    """Transform the rows of a table."""
    return fitted.transform(rows_and_target(fitted, X)[0])


def released_attributes(estimator: Any) -> dict[str, Any]:
    """Return the attributes set by a fit."""
    parameters = estimator.get_params(deep=False)
    return {
        name: value for name, value in vars(estimator).items() if name not in parameters
    }


def released_text(estimator: Any) -> str:
    """Write a release as text, to compare releases."""
    released = {
        name: _comparable(value)
        for name, value in released_attributes(estimator).items()
        if name[0] != "_"
    }
    with np.printoptions(threshold=10**6, floatmode="unique"):
        return repr(
            {name: value for name, value in released.items() if name != "guarantee_"}
        )


def is_table(value: Any) -> bool:
    """Whether a value is a table, a column or an index."""
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        return True
    if type(value).__module__ in ("builtins", "numpy", "fractions"):
        return False  # without the tenth of a millisecond that narwhals takes
    return isinstance(
        nw.from_native(value, allow_series=True, pass_through=True),
        nw.DataFrame | nw.Series,
    )


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    """Walk the attributes of an object, pickled or not, and yield the path and the value of each."""
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = list(vars(root).items())
    while todo:
        path, value = todo.pop()
        if id(value) in seen or isinstance(value, str | bytes | type):
            continue
        seen.add(id(value))
        yield path, value
        if isinstance(value, Mapping):
            todo += [(f"{path}[{key!r}]", item) for key, item in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += [(path, item) for item in value]
        elif isinstance(value, np.ndarray):
            todo += (
                [(path, item) for item in value.ravel()]
                if value.dtype == object
                else []
            )
        elif not is_table(value):
            slots = [
                name
                for kind in type(value).__mro__
                for name in getattr(kind, "__slots__", ())
            ]
            held = getattr(value, "__dict__", {}) | {
                name: getattr(value, name, None) for name in slots
            }
            todo += [(f"{path}.{name}", item) for name, item in held.items()]


def _comparable(value: Any) -> Any:
    """Expand objects whose text is only an address in memory."""
    if isinstance(value, Domain):  # which shows few of its values
        return {name: value[name].labels for name in value.columns}
    if isinstance(value, list | tuple):
        return [_comparable(part) for part in value]
    if repr(value) == object.__repr__(value):
        return type(value).__name__, {
            name: _comparable(part) for name, part in vars(value).items()
        }
    return value
