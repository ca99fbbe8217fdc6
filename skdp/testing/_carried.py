"""What an output carries beside its values: dtypes, dictionaries and their order, flags, chunks, metadata, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

Facts = dict[str, Any]


def facts_of(output: Any) -> Facts:
    """Describe everything of a table, or of a column, but its values, its row index and its number of rows."""
    if isinstance(output, pd.DataFrame):
        facts = {
            "attrs": output.attrs,
            "flags": output.flags.allows_duplicate_labels,
            "columns": _labels(output.columns),
        }
        return facts | _of_columns({place: output.iloc[:, place] for place in range(output.shape[1])}, _of_pandas)
    if isinstance(output, pd.Series | pd.Index):
        return _of_pandas(output)
    if isinstance(output, np.ndarray):
        return {"dtype": output.dtype.str}
    library = type(output).__module__.split(".")[0]
    if library == "pyarrow":
        if not hasattr(output, "column_names"):
            return _of_arrow(output)
        metadata = output.schema.metadata, [field.metadata for field in output.schema]
        return {"metadata": metadata} | _of_columns(
            dict(zip(output.column_names, output.columns, strict=True)), _of_arrow
        )
    if hasattr(output, "get_columns"):
        return _of_columns({column.name: column for column in output.get_columns()}, _of_polars)
    return _of_polars(output)


def _of_columns(columns: Mapping[Any, Any], describe: Any) -> Facts:
    return {f"{name!r}: {fact}": what for name, column in columns.items() for fact, what in describe(column).items()}


def _labels(index: pd.Index) -> Any:
    if isinstance(index, pd.MultiIndex):
        return index.tolist(), list(index.names), [_labels(level) for level in index.levels]
    return index.tolist(), index.name, _dtype(index.dtype)


def _dtype(dtype: Any) -> Any:
    if isinstance(dtype, pd.CategoricalDtype):
        return "category", _labels(dtype.categories), dtype.ordered
    return str(dtype)


def _of_pandas(series: Any) -> Facts:
    facts = {"dtype": _dtype(series.dtype), "attrs": getattr(series, "attrs", {})}
    if isinstance(series.dtype, pd.ArrowDtype):
        facts |= _of_arrow(series.array.__arrow_array__())
    return facts


def _of_arrow(column: Any) -> Facts:
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    dictionaries = [chunk.dictionary.to_pylist() for chunk in chunks if hasattr(chunk, "dictionary")]
    return {"type": str(column.type), "chunks": [len(chunk) for chunk in chunks[:-1]], "dictionaries": dictionaries}


def _of_polars(series: Any) -> Facts:
    facts = {"dtype": repr(series.dtype), "flags": series.flags, "chunks": series.chunk_lengths()[:-1]}
    categories: Any = getattr(series.dtype, "categories", None)
    if categories is not None and hasattr(categories, "to_list"):
        return facts | {"categories": categories.to_list()}
    if type(series.dtype).__name__ == "Categorical":
        # `unique` and `sort` follow the codes of the table that the categories are in.
        facts["codes"] = dict(zip(series.to_list(), series.to_physical().to_list(), strict=True))
        if getattr(categories, "is_global", lambda: True)():
            # It is filled by whatever the process reads. Nothing equals NaN: this is a difference by itself.
            facts["process-wide categories"] = float("nan")
    return facts


def differences(one: Facts, other: Facts) -> list[str]:
    """List what two outputs differ in beside their values."""
    names = dict.fromkeys([*one, *other])
    return [name for name in names if not _agree(name, one.get(name), other.get(name))]


def _agree(name: str, one: Any, other: Any) -> bool:
    if name.endswith("codes") and one is not None and other is not None:
        return all(one[value] == other[value] for value in one.keys() & other.keys())
    return bool(one == other)


def memory_of(table: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays that hold the columns of a table in memory: whole ones, of which the columns may be parts."""
    if isinstance(table, np.ndarray):
        while isinstance(table.base, np.ndarray):
            table = table.base
        yield table
    elif isinstance(table, pd.DataFrame):
        for place in range(table.shape[1]):
            yield from memory_of(table.iloc[:, place])
    elif isinstance(table, pd.Series) and isinstance(table.dtype, np.dtype):
        yield from memory_of(table.to_numpy())


def objects_of(table: Any) -> set[int]:
    """Return the identities of the texts that the columns of Python objects hold."""
    columns = [array for array in memory_of(table) if array.dtype == object]
    return {id(item) for array in columns for item in array.ravel() if isinstance(item, str) and len(item) > 1}


def tables_in(root: Any) -> Iterator[tuple[str, Any]]:
    """Walk what an estimator holds, and yield its tables, columns and arrays."""
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = list(getattr(root, "__dict__", {}).items())
    while todo:
        path, value = todo.pop()
        if id(value) in seen or isinstance(value, str | bytes | type):
            continue
        seen.add(id(value))
        frame = nw.from_native(value, allow_series=True, pass_through=True)
        if isinstance(value, np.ndarray | pd.Index) or isinstance(frame, nw.DataFrame | nw.Series):
            yield path, value
        elif isinstance(value, Mapping):
            todo += [(f"{path}[{key!r}]", item) for key, item in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += [(path, item) for item in value]
        elif hasattr(value, "__dict__"):
            todo += [(f"{path}.{name}", item) for name, item in vars(value).items()]
