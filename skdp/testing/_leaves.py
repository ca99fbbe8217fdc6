"""The parts of what was released as texts by their paths, to compare releases: no value is cut."""

from __future__ import annotations

import enum
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

Part = tuple[str, Any]

# The text of these is all that they hold.
_PLAIN = (
    *(str, bytes, bytearray, int, float, complex, type(None), type(...), range, slice),
    *(type, enum.Enum, ModuleType, np.generic, np.dtype, pd.Timestamp, pd.Timedelta),
    *(type(pd.NA), type(pd.NaT)),
)

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


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
    parts = list(_parts_of(value))
    if not parts:
        yield path, _text(value)
    for suffix, part in parts:
        yield from leaves(f"{path}{suffix}", part, (*within, value))


def _text(value: Any) -> str:
    """Write a value without its address, which differs between equal releases."""
    return _ADDRESS.sub("", repr(value))


def _parts_of(value: Any) -> Iterable[Part]:
    """List what a value holds, by the ends of its paths; nothing if its text is all."""
    library = _library_of(value)
    if isinstance(value, np.ndarray):
        return _parts_of_array(value)
    if library == "pandas":
        return _parts_of_pandas(value)
    if library == "polars":
        return _parts_of_polars(value)
    if library == "pyarrow":
        return _parts_of_arrow(value)
    if hasattr(value, "to_native"):  # of narwhals
        return [(".native", value.to_native())]
    if issparse(value):
        return [(".type", type(value)), *_attributes(value)]
    if isinstance(value, Mapping):
        items = [(f"[{_text(name)}]", part) for name, part in value.items()]
        return [(".size", len(value)), *items, *_attributes(value)]
    if isinstance(value, list | tuple | deque | ValuesView):
        return [*_items(value), *_attributes(value)]
    if isinstance(value, AbstractSet):
        # Their order is that of hashes.
        return [*_items(sorted(map(_text, value))), *_attributes(value)]
    return _parts_of_object(value)


def _library_of(value: Any) -> str:
    """Return the library of tables that a class is from, or is derived from."""
    for kind in type(value).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ("pandas", "polars", "pyarrow"):
            return library
    return ""


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


def _parts_of_polars(value: Any) -> list[Part]:
    import polars

    if isinstance(value, polars.LazyFrame):
        return [(".collected", value.collect())]
    if isinstance(value, polars.DataFrame):
        return [(".columns", value.columns), *_items(value.get_columns())]
    if isinstance(value, polars.Series):
        labels = [(".name", value.name), (".dtype", value.dtype)]
        return [*labels, *_items(value.to_list())]
    if isinstance(value, polars.Enum):
        return [(".categories", value.categories.to_list())]
    return []


def _parts_of_arrow(value: Any) -> list[Part]:
    import pyarrow

    if isinstance(value, pyarrow.Table | pyarrow.RecordBatch):
        return [(".schema", value.schema), *_items(value.columns)]
    if isinstance(value, pyarrow.Schema):
        return [(".metadata", value.metadata), *_items(value)]
    if isinstance(value, pyarrow.Field):
        labels = [(".name", value.name), (".type", value.type)]
        return [*labels, (".metadata", value.metadata)]
    if isinstance(value, pyarrow.ChunkedArray | pyarrow.Array):
        parts = [(".type", value.type), *_items(value.to_pylist())]
        if pyarrow.types.is_dictionary(value.type):
            # It may hold what no row has.
            chunks = getattr(value, "chunks", [value])
            parts.append((".dictionaries", [chunk.dictionary for chunk in chunks]))
        return parts
    if isinstance(value, pyarrow.Scalar):
        return [(".type", value.type), (".value", value.as_py())]
    if isinstance(value, pyarrow.Buffer):
        return [(".bytes", value.to_pybytes())]
    return []


def _parts_of_object(value: Any) -> list[Part]:
    if isinstance(value, io.BytesIO | io.StringIO):
        return [(".value", value.getvalue())]
    if isinstance(value, memoryview):
        return [(".value", value.tobytes())]
    if isinstance(value, partial):
        arguments = [(".args", value.args), (".keywords", value.keywords)]
        return [(".func", value.func), *arguments]
    if isinstance(value, MethodType):
        return [(".func", value.__func__), (".self", value.__self__)]
    if isinstance(value, FunctionType):
        return _parts_of_function(value)
    parts: list[Part] = _attributes(value)
    if isinstance(value, BaseException):
        parts.append((".args", value.args))
    if not parts:
        # Of compiled classes: what a pickle would hold.
        parts = _state(value)
    return [(".type", type(value)), *parts] if parts else []


def _parts_of_function(function: FunctionType) -> list[Part]:
    parts: list[Part] = [(".name", f"{function.__module__}.{function.__qualname__}")]
    parts.append((".defaults", function.__defaults__))
    parts.append((".keywords", function.__kwdefaults__))
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        try:
            parts.append((f".{name}", cell.cell_contents))
        except ValueError:  # a variable that has no value yet
            continue
    return [*parts, *_attributes(function)]


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


def _state(value: Any) -> list[Part]:
    try:
        state = value.__reduce_ex__(4)
    except Exception:  # a class may raise anything where it has no pickles
        return []
    if not isinstance(state, tuple):  # the name of a constant
        return []
    # Items come as iterators.
    parts = [list(part) if isinstance(part, Iterator) else part for part in state[1:]]
    return [(".state", parts)]
