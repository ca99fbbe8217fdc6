"""A release depends on the rows by its values only: nothing else of the table is carried along."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables import without_releases
from skdp.testing._burdened_frames import burdened_frames, signs
from skdp.testing._subject import Subject
from skdp.testing._tools import is_table, require, walk

_ROWS = 24


def opposite_frames(values: dict[Any, list[Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Build two tables of each kind, whose columns have opposite orders and different values."""
    rising, falling = {}, {}
    for name, column in values.items():
        # Missing values come last, as they compare with nothing.
        order = sorted(column, key=lambda value: (value is None, value))
        # Without the last value, and without the first.
        rising[name] = _spread(order[:-1] or order)
        falling[name] = _spread(order[:0:-1] or order)
    opposite = dict(burdened_frames(falling))
    for kind, frame in burdened_frames(rising):
        if kind in opposite:
            yield kind, frame, opposite[kind]


def _spread(column: list[Any]) -> list[Any]:
    """Repeat values in their order, up to a number of rows."""
    places = np.linspace(0, len(column) - 1, _ROWS).round().astype(int)
    return [column[place] for place in places]


def require_same_form(kind: str, tables: list[Any], released: list[Any]) -> None:
    """Fail if the releases of two tables differ in more than values, or contain hidden data."""
    # A view or an object of the true rows shows them to whoever follows its base, and
    # changes with them.
    for table, output in zip(tables, released, strict=True):
        require(
            not signs(pickle.dumps(output)),
            f"{kind}: what the frame holds beside its rows is released",
        )
        identities = set(map(id, memory_of(table)))
        require(
            identities.isdisjoint(map(id, memory_of(output))),
            f"{kind}: the output is a view of the memory of the true rows",
        )
        require(
            objects_of(table).isdisjoint(objects_of(output)),
            f"{kind}: the output holds objects of the true rows",
        )
    names = differences(*map(facts_of, released))
    require(
        not names,
        f"{kind}: something else than the values depends on the rows: "
        f"{', '.join(names)}",
    )


def require_same_storage(kind: str, fitted: Any, other_fitted: Any) -> None:
    """Fail if what two fitted estimators store differs in more than values, or contains hidden data."""
    require(
        not signs(pickle.dumps(fitted)),
        f"{kind}: what the frame holds beside its rows is stored",
    )
    tables, other_tables = dict(_tables_in(fitted)), dict(_tables_in(other_fitted))
    for path in tables.keys() & other_tables.keys():
        names = differences(facts_of(tables[path]), facts_of(other_tables[path]))
        require(
            not names,
            f"{kind}: the attribute {path} depends on the rows: {', '.join(names)}",
        )


def _tables_in(fitted: Any) -> Iterator[tuple[str, Any]]:
    for path, value in walk(fitted):
        if is_table(value) or isinstance(value, np.ndarray):
            yield path, value


def _check_nothing_else_is_carried_over(subject: Subject) -> None:
    """Check that reports and attributes depend on the rows by values only, for frames of every kind."""
    containers = ["default"]
    if hasattr(subject.estimator, "set_output"):
        containers += ["pandas", "polars"]
    for kind, *tables in opposite_frames(subject.values):
        declared_as = "array" if kind.startswith("array") else "pandas"
        try:
            fits = [subject.unfitted(kind=declared_as).fit(table) for table in tables]
        except (TypeError, ValueError):
            continue  # it does not take such frames
        require_same_storage(kind, *fits)
        for container in containers:
            # scikit-learn converts arrays, and no one frames of the same library.
            if container != "default" and kind.startswith(("array", container)):
                continue
            released = []
            try:
                for fitted, table in zip(fits, tables, strict=True):
                    if container != "default":
                        fitted.set_output(transform=container)
                    released.append(fitted.transform(table))
            except (TypeError, ValueError):
                continue
            require_same_form(kind, tables, released)


CHECKS = (_check_nothing_else_is_carried_over,)


Facts = dict[str, Any]


def facts_of(output: Any) -> Facts:
    """Describe a table or column without its values, its row index, its number of rows, and counts of its values."""
    output = without_releases(output)
    if isinstance(output, np.ndarray):
        return {"dtype": output.dtype.str}
    facts: Facts = {}
    columns: dict[Any, Any] = {}
    if isinstance(output, pd.DataFrame):
        facts["attrs"] = output.attrs
        facts["flags"] = output.flags.allows_duplicate_labels
        facts["columns"] = _labels(output.columns)
        # Two columns may have one name.
        for place in range(output.shape[1]):
            columns[place] = output.iloc[:, place]
    elif hasattr(output, "column_names"):
        facts["metadata"] = output.schema.metadata
        for field in output.schema:
            facts[f"{field.name!r}: metadata"] = field.metadata
            columns[field.name] = output[field.name]
    elif hasattr(output, "get_columns"):
        for column in output.get_columns():
            columns[column.name] = column
    else:
        return _facts_of_column(output)
    for name, column in columns.items():
        for fact_name, fact in _facts_of_column(column).items():
            facts[f"{name!r}: {fact_name}"] = fact
    return facts


def _facts_of_column(column: Any) -> Facts:
    if isinstance(column, pd.Series | pd.Index):
        return _of_pandas(column)
    if type(column).__module__.startswith("pyarrow"):
        return _of_arrow(column)
    return _of_polars(column)


def _of_pandas(series: Any) -> Facts:
    # An index has no attributes.
    facts = {"dtype": _dtype(series.dtype), "attrs": getattr(series, "attrs", {})}
    if isinstance(series.dtype, pd.ArrowDtype):
        facts |= _of_arrow(series.array.__arrow_array__())
    return facts


def _labels(index: pd.Index) -> Any:
    if isinstance(index, pd.MultiIndex):
        levels = [_labels(level) for level in index.levels]
        return index.tolist(), list(index.names), levels
    return index.tolist(), index.name, _dtype(index.dtype)


def _dtype(dtype: Any) -> Any:
    if isinstance(dtype, pd.CategoricalDtype):
        return "category", _labels(dtype.categories), dtype.ordered
    return str(dtype)


def _of_arrow(column: Any) -> Facts:
    chunks = getattr(column, "chunks", [column])
    dictionaries = []
    for chunk in chunks:
        if hasattr(chunk, "dictionary"):
            dictionaries.append(chunk.dictionary.to_pylist())
    return {
        "type": str(column.type),
        # The last one ends with the table.
        "chunks": [len(chunk) for chunk in chunks[:-1]],
        "dictionaries": dictionaries,
    }


def _of_polars(series: Any) -> Facts:
    facts = {
        "dtype": repr(series.dtype),
        "flags": series.flags,
        "chunks": series.chunk_lengths()[:-1],
    }
    categories: Any = getattr(series.dtype, "categories", None)
    if categories is not None and hasattr(categories, "to_list"):
        return facts | {"categories": categories.to_list()}
    if type(series.dtype).__name__ == "Categorical":
        # `unique` and `sort` follow the codes of the table of categories.
        codes = series.to_physical().to_list()
        facts["codes"] = dict(zip(series.to_list(), codes, strict=True))
        if getattr(categories, "is_global", lambda: True)():
            # It depends on all data that the process reads. NaN is unequal to itself:
            # always a difference.
            facts["process-wide categories"] = float("nan")
    return facts


def differences(facts: Facts, other_facts: Facts) -> list[str]:
    """Return the differences of two outputs other than their values."""
    names = []
    for name in dict.fromkeys([*facts, *other_facts]):
        if not _agree(name, facts.get(name), other_facts.get(name)):
            names.append(name)
    return names


def _agree(name: str, fact: Any, other_fact: Any) -> bool:
    if name.endswith("codes") and fact is not None and other_fact is not None:
        # The codes of the values that both have.
        return all(
            fact[value] == other_fact.get(value, code) for value, code in fact.items()
        )
    return bool(fact == other_fact)


def memory_of(table: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays in memory that contain the columns of a table, as a whole."""
    # The array that owns the memory: a slice may be small, and its base everything.
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
    """Return the identities of the texts in columns of Python objects."""
    identities = set()
    for array in memory_of(table):
        if array.dtype != object:
            continue
        for item in array.ravel():
            # Python has one object for each text of one character.
            if isinstance(item, str) and len(item) > 1:
                identities.add(id(item))
    return identities
