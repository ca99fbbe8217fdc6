"""Tools of the checks: failures with a reason, tables of every library, and what was released as texts."""

from __future__ import annotations

import enum
import pickle
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from functools import partialmethod
from types import ModuleType
from typing import Any
from unittest import SkipTest
from unittest.mock import patch

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp.base import rows_and_target
from skdp.privacy import PrivacyGuarantee, PrivacyLedger
from skdp.randomness import SecureSource, SeededSource
from skdp.tables import is_missing

Rows = dict[Any, list[Any]]


def require(condition: Any, reason: str) -> None:
    """Fail a check unless a condition holds."""
    if not condition:
        raise AssertionError(reason)


def make_frame(rows: Rows, values: dict[Any, list[Any]], kind: Any) -> Any:
    """Make a table of rows."""
    if kind == "array":
        return objects_of_rows(rows)
    if kind == "pandas":
        series = {}
        for name, column in rows.items():
            series[name] = pd.Series(column, dtype=_dtype(values[name]))
        return pd.DataFrame(series)
    # A library infers dtypes from what it is given: the legal values stand before the
    # rows while it does, so that a dtype does not depend on which of them occur.
    n_before = max(map(len, values.values()))
    columns = {}
    for name, column in rows.items():
        columns[name] = [*(values[name] * n_before)[:n_before], *column]
    try:
        return nw.from_dict(columns, backend=kind)[n_before:].to_native()
    except ImportError:
        raise SkipTest(f"{kind} is not installed") from None


def objects_of_rows(rows: Rows) -> Any:
    """Make an array of objects; cells that are tuples stay in one piece."""
    # NumPy would read tuples as further dimensions: each cell is set by itself.
    array = np.empty((len(next(iter(rows.values()))), len(rows)), object)
    for place, column in enumerate(rows.values()):
        for row, value in enumerate(column):
            array[row, place] = value
    return array


def _dtype(values: list[Any]) -> Any:
    # pandas would turn None into NaN beside numbers, and text into its own dtype.
    for value in values:
        if value is None or isinstance(value, str | tuple):
            return object
    return np.array(values).dtype


def columns_of(output: Any) -> Rows:
    """Read any output of a transformer as lists of Python values."""
    # pandas has column names that are no text, and two of one name, unlike narwhals.
    columns = {}
    if isinstance(output, np.ndarray):
        for place, column in enumerate(output.T):
            columns[f"x{place}"] = _plain(column.tolist())
    elif isinstance(output, pd.DataFrame):
        for name in output.columns:
            columns[name] = _plain(output[name].tolist())
    else:
        frame = nw.from_native(output, eager_only=True)
        for name in frame.columns:
            columns[name] = _plain(frame.get_column(name).to_list())
    return columns


def _plain(column: list[Any]) -> list[Any]:
    kinds = set(map(type, column))
    if kinds <= {bool, int, str, type(None)}:
        return column  # nothing is missing in another way
    for place, value in enumerate(column):
        if is_missing(value):
            column[place] = None
    return column


def release(fitted: Any, frame: Any) -> str:
    """Transform a table and write the result as text, to compare releases."""
    return repr(columns_of(fitted.transform(frame)))


@contextmanager
def watched_draws(watch: Callable[[type, int, Any], None]) -> Iterator[None]:
    """Call a function with the source, the size and the bytes of each draw."""
    # Of a block of code, in this process.
    with ExitStack() as stack:
        for source in (SecureSource, SeededSource):
            watched = partialmethod(_draw_watched, source.bytes, watch)
            stack.enter_context(patch.object(source, "bytes", watched))
        yield


def _draw_watched(source: Any, draw: Any, watch: Any, size: int) -> Any:
    drawn = draw(source, size)
    watch(type(source), size, drawn)
    return drawn


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

    def __init__(
        self, draws: list[int], *, epsilon: float, delta: float = 0.0, **neighbours: Any
    ) -> None:
        super().__init__(epsilon=epsilon, delta=delta, **neighbours)
        self.draws = draws
        self.log: list[tuple[PrivacyGuarantee, int]] = []

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        # Before the charge, which may be refused.
        self.log.append((guarantee, self.draws[0]))
        super().charge(guarantee, what)


@contextmanager
def recorded_bytes() -> Iterator[bytearray]:
    """Record the secure random bytes that are drawn in a block of code."""
    secure_bytes = bytearray()

    def record(source: type, size: int, drawn: Any) -> None:
        if issubclass(source, SecureSource):
            secure_bytes.extend(drawn.tobytes())

    with watched_draws(record):
        yield secure_bytes


def named(kind: str, name: str, check: Callable[[], None]) -> None:
    """Run a check; a failure names the estimator and the check."""
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
    copy = clone(estimator).set_params(**parameters)
    with warnings.catch_warnings():
        # A release may warn that it was refused, or lost in noise.
        warnings.simplefilter("ignore", UserWarning)
        return copy.fit(*rows_and_target(estimator, X))


def transformed(fitted: Any, X: Any) -> Any:
    """Transform the rows of a table."""
    return fitted.transform(rows_and_target(fitted, X)[0])


def neighbours_of(guarantee: PrivacyGuarantee) -> dict[str, Any]:
    """Return the parameters of a ledger that takes a release with a guarantee."""
    if guarantee.relation != "replace_values":
        return {}
    return {"relation": guarantee.relation, "columns": guarantee.scope}


def with_values(
    X: pd.DataFrame, guarantee: PrivacyGuarantee, places: Any
) -> pd.DataFrame:
    """Return a table with the protected values of the rows at some places, and all others as they are."""
    changed = X.copy()
    for name in guarantee.scope:
        changed[name] = X[name].iloc[places].set_axis(X.index)
    return changed


def released_attributes(estimator: Any) -> dict[str, Any]:
    """Return the attributes set by a fit."""
    attributes = dict(vars(estimator))
    for name in estimator.get_params(deep=False):
        attributes.pop(name, None)
    return attributes


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
    # An object may hold itself, or be held in several places.
    visited: set[int] = set()
    items: list[tuple[str, Any]] = list(vars(root).items())
    while items:
        path, value = items.pop()
        if id(value) in visited or isinstance(value, str | bytes | type):
            continue
        visited.add(id(value))
        yield path, value
        items += _parts_of(path, value)


def _parts_of(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds: items, elements or attributes."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{path}[{key!r}]", item
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield path, item
    elif isinstance(value, np.ndarray):
        if value.dtype == object:
            for item in value.ravel():
                yield path, item
    elif not is_table(value):
        for name, item in getattr(value, "__dict__", {}).items():
            yield f"{path}.{name}", item
        for kind in type(value).__mro__:
            for name in getattr(kind, "__slots__", ()):
                yield f"{path}.{name}", getattr(value, name, None)


Part = tuple[str, Any]

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")

# The text of these is all that they hold.
_PLAIN = (
    *(str, bytes, int, float, complex, type(None), type(...), range, slice, type),
    *(enum.Enum, ModuleType, np.generic, np.dtype, pd.Timestamp, pd.Timedelta),
    *(type(pd.NA), type(pd.NaT)),
)


def leaves_of_attributes(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parts of attributes."""
    for name, value in attributes.items():
        yield from leaves(name, value)


def leaves(
    path: str, value: Any, within: tuple[Any, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Split composite values, as some of their parts may be noisy and others exact."""
    if any(value is outer for outer in within):  # it holds itself
        return
    if isinstance(value, _PLAIN):
        yield path, repr(value)
        return
    parts = list(_labelled_parts(value))
    if not parts:
        yield path, _text(value)
    for suffix, part in parts:
        yield from leaves(f"{path}{suffix}", part, (*within, value))


def _text(value: Any) -> str:
    """Write what a pickle holds; of what has none, the text without addresses, which differ between equal releases."""
    try:
        return repr(pickle.dumps(value))
    except Exception:  # a class may raise anything where it has no pickles
        return _ADDRESS.sub("", repr(value))


def _labelled_parts(value: Any) -> Iterable[Part]:
    """List what a value holds, by the ends of its paths; nothing if it is one part."""
    if isinstance(value, np.ndarray):
        return _parts_of_array(value)
    if any(kind.__module__.startswith("pandas") for kind in type(value).__mro__):
        return _parts_of_pandas(value)
    if is_table(value):
        return _parts_of_table(nw.from_native(value, allow_series=True))
    if isinstance(value, Mapping):
        items = [(f"[{name!r}]", part) for name, part in value.items()]
        return [(".size", len(value)), *items, *_attributes(value)]
    if isinstance(value, list | tuple | deque):
        return [*_items(value), *_attributes(value)]
    if isinstance(value, AbstractSet):
        # Their order is that of hashes.
        return [*_items(sorted(map(repr, value))), *_attributes(value)]
    attributes = _attributes(value)
    if isinstance(value, BaseException):
        attributes.append((".args", value.args))
    return [(".type", type(value)), *attributes] if attributes else []


def _items(values: Iterable[Any]) -> list[Part]:
    items: list[Part] = [(f"[{place}]", item) for place, item in enumerate(values)]
    return [(".size", len(items)), *items]


def _parts_of_array(array: Any) -> list[Part]:
    if isinstance(array, np.ma.MaskedArray):
        # Also the values that are masked.
        return [(".data", array.data), (".mask", np.ma.getmaskarray(array))]
    parts = _items(array.ravel().tolist())
    return [(".shape", array.shape), (".dtype", array.dtype), *parts]


def _parts_of_pandas(value: Any) -> list[Part]:
    labels: list[Part]
    if isinstance(value, pd.DataFrame):
        columns = []
        for place in range(value.shape[1]):
            columns.append((f"[{place}]", value.iloc[:, place].array))
        labels = [(".columns", value.columns), (".index", value.index)]
        return [*labels, (".attrs", value.attrs), *columns]
    if isinstance(value, pd.Series):
        labels = [(".name", value.name), (".index", value.index)]
        return [*labels, (".attrs", value.attrs), (".values", value.array)]
    if isinstance(value, pd.MultiIndex):
        # Levels may hold what no row has.
        labels = [(".names", list(value.names)), (".levels", list(value.levels))]
        return [*labels, (".codes", list(value.codes))]
    if isinstance(value, pd.Index):
        return [(".names", list(value.names)), (".values", value.array)]
    if isinstance(value, pd.CategoricalDtype):
        categories = [(".categories", value.categories)]
        return [*categories, (".ordered", value.ordered)]
    if isinstance(value, pd.api.extensions.ExtensionArray):
        if isinstance(value.dtype, pd.ArrowDtype):
            arrow: Any = value
            return [(".values", arrow.__arrow_array__())]
        return [(".dtype", value.dtype), *_items(value.tolist())]
    return []


def _parts_of_table(table: Any) -> list[Part]:
    if isinstance(table, nw.Series):
        return [(".dtype", str(table.dtype)), *_items(table.to_list())]
    schema: Any = getattr(table.to_native(), "schema", None)
    text = str(table.schema)
    if hasattr(schema, "to_string"):  # Arrow has metadata
        text = schema.to_string(truncate_metadata=False)
    columns = _items(column.to_list() for column in table.iter_columns())
    return [(".schema", text), *columns]


def _attributes(value: Any) -> list[Part]:
    """List the attributes of an object, those in slots included."""
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in [slots] if isinstance(slots, str) else slots:
            name = slot
            if slot.startswith("__") and not slot.endswith("__"):
                name = f"_{kind.__name__.lstrip('_')}{slot}"
            if slot not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    return [(f".{name}", part) for name, part in attributes.items()]
