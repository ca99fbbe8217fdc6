"""A release depends on the rows by its values only: nothing else of the table, of any kind, is carried along."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from skdp.base import rows_and_target

Rows = dict[Any, list[Any]]


def require(condition: Any, reason: str) -> None:
    assert condition, reason


def fitted(estimator: Any, X: Any, **parameters: Any) -> Any:
    """Fit a clone to a table, whose last column is the target of an estimator that requires one."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return clone(estimator).set_params(**parameters).fit(*rows_and_target(estimator, X))


def transformed(fit: Any, X: Any) -> Any:
    return fit.transform(rows_and_target(fit, X)[0])


def lists_of(X: Any) -> Rows:
    objects = X.astype(object).where(X.notna(), None)
    return {name: objects[name].tolist() for name in X}


def objects_of_rows(rows: Rows) -> Any:
    """Make an array of objects; a tuple stays in one cell."""
    array = np.empty((len(next(iter(rows.values()))), len(rows)), object)
    for position, column in enumerate(rows.values()):
        for row, value in enumerate(column):
            array[row, position] = value
    return array


def is_table(value: Any) -> bool:
    return isinstance(value, pd.DataFrame | pd.Series | pd.Index) or hasattr(value, "__dataframe__")


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of all that an object holds in attributes, items and elements."""
    visited: set[int] = set()
    items: list[tuple[str, Any]] = list(vars(root).items())
    while items:
        path, value = items.pop()
        if id(value) in visited or isinstance(value, str | bytes | type):
            continue
        visited.add(id(value))
        yield path, value
        if isinstance(value, Mapping):
            items += [(f"{path}[{key!r}]", item) for key, item in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            items += [(path, item) for item in value]
        elif isinstance(value, np.ndarray) and value.dtype == object:
            items += [(path, item) for item in value.ravel()]
        elif not is_table(value):
            items += [(f"{path}.{name}", item) for name, item in getattr(value, "__dict__", {}).items()]


# The hidden data of each frame, in every place where it can be.
SECRET = "s3cr3t, and too long for Polars to keep in place"
_SECRET_NUMBER = 72_619


def signs(data: bytes) -> bool:
    """Whether serialised data contains the secret."""
    integer = np.array([_SECRET_NUMBER]).tobytes()
    number = np.array([_SECRET_NUMBER], float).tobytes()
    return SECRET.encode() in data or integer in data or number in data


def burdened_frames(rows: Rows) -> Iterator[tuple[str, Any]]:
    """Yield the same rows as frames of each kind, with the secret beside the rows."""
    # A slice of a larger table often keeps all of its memory: each frame is one, and
    # the row before and the row after it hold the secret.
    widened = {}
    for name, column in rows.items():
        stranger = _stranger(column)
        widened[name] = [stranger, *map(_copied, column), stranger]
    yield from _pandas_frames(widened)
    yield from _arrays(widened)
    if find_spec("pyarrow") is not None:
        yield from _arrow_tables(widened)
    if find_spec("polars") is not None:
        yield from _polars_frames(widened)


def _stranger(column: Sequence[Any]) -> Any:
    """Return the value of rows outside of a slice."""
    # An empty list says nothing of what the lists of a column hold.
    value = next((value for value in column if value not in (None, ())), None)
    if value is None or isinstance(value, str):
        return SECRET
    if isinstance(value, tuple):
        return tuple(_stranger([element]) for element in value)
    if type(value) in (int, float):
        return type(value)(_SECRET_NUMBER)
    return value


def _copied(value: Any) -> Any:
    """Copy a text, so that it is an object of this frame only."""
    return "".join(list(value)) if isinstance(value, str) else value


def _is_text(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, str) for value in column)


def _has_lists(rows: Rows) -> bool:
    return any(isinstance(column[0], tuple) for column in rows.values())


def _levels(column: Sequence[Any]) -> list[Any]:
    """Return the values in the order of their appearance; that of the strangers does not occur in the slice."""
    return list(dict.fromkeys(value for value in column if value is not None))


def _pandas_frames(widened: Rows) -> Iterator[tuple[str, Any]]:
    makers: dict[str, Callable[[Sequence[Any]], pd.Series]] = {"pandas": _objects}
    if not _has_lists(widened):
        makers["pandas, string"] = pd.Series  # of text; numbers are as pandas reads them
        makers["pandas, nullable"] = _masked
        makers["pandas, category"] = _categories
        if find_spec("pyarrow") is not None:
            makers["pandas, Arrow"] = _in_arrow
            makers["pandas, Arrow dictionary"] = _in_arrow_dictionary
    size = len(next(iter(widened.values())))
    labels = [f"row {7 * place % size}" for place in range(size)]
    labels[0] = labels[-1] = SECRET
    index = pd.MultiIndex.from_arrays([labels, range(size)])
    for kind, make in makers.items():
        columns = dict(zip(widened, map(make, widened.values()), strict=True))
        frame = pd.DataFrame(columns).set_axis(index).iloc[1:-1]
        frame.attrs["note"] = SECRET
        for name in frame:
            frame[name].attrs["note"] = SECRET
        yield kind, frame


def _objects(column: Sequence[Any]) -> pd.Series:
    is_object = _is_text(column) or isinstance(column[0], tuple)
    return pd.Series(column, dtype=object if is_object else None)


def _masked(column: Sequence[Any]) -> pd.Series:
    """Put the secret under the mask of missing values."""
    stranger = column[0]
    dtypes = {bool: "boolean", int: "Int64", float: "Float64"}
    dtype = dtypes.get(type(stranger), "string" if _is_text(column) else object)
    # A missing number is set by its mask alone, and what it was stays beneath.
    series = pd.Series([stranger] * len(column), dtype=dtype)
    for place, value in enumerate(column):
        series[place] = value
    return series


def _categories(column: Sequence[Any]) -> pd.Series:
    return pd.Series(pd.Categorical(column, categories=_levels(column)))


def _in_arrow(column: Sequence[Any]) -> pd.Series:
    import pyarrow as pa

    return pd.Series(column, dtype=pd.ArrowDtype(pa.array(column).type))


def _in_arrow_dictionary(column: Sequence[Any]) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(_arrow_dictionary(column)))


def _arrays(widened: Rows) -> Iterator[tuple[str, Any]]:
    array = objects_of_rows(widened)
    yield "array", array[1:-1]
    if set(map(type, array.flat)) == {str}:
        yield "array of text", array.astype(str)[1:-1]


def _arrow_tables(widened: Rows) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa

    makers: dict[str, Callable[[Sequence[Any]], Any]] = {"pyarrow": _over_nulls}
    if not _has_lists(widened):
        makers["pyarrow, string view"] = _arrow_views
        makers["pyarrow, dictionary"] = _arrow_dictionary
    # Metadata of a schema are copied by most functions of Arrow.
    for kind, make in makers.items():
        arrays, fields = [], []
        for name, column in widened.items():
            array = make(column)
            arrays.append(array)
            fields.append(pa.field(name, array.type, metadata={"note": SECRET}))
        schema = pa.schema(fields, metadata={"note": SECRET, "pandas": SECRET})
        table = pa.Table.from_arrays(arrays, schema=schema)
        frame = table.slice(1, len(table) - 2)
        yield kind, frame
    if not _has_lists(widened):
        cut = _first_change(widened)
        yield (
            f"{kind}, chunked",
            pa.concat_tables([frame.slice(0, cut), frame.slice(cut)]),
        )


def _over_nulls(column: Sequence[Any]) -> Any:
    """Put the secret under the nulls of an array of text."""
    import pyarrow as pa

    array = pa.array(column, "string" if _is_text(column) else None)
    if not pa.types.is_string(array.type):
        return array
    # The bits that say what is null, over the texts of an array without nulls.
    validity, *_ = array.buffers()
    _, *texts = array.fill_null(SECRET).buffers()
    return pa.Array.from_buffers(array.type, len(array), [validity, *texts])


def _arrow_views(column: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.array(column, "string_view" if _is_text(column) else None)


def _arrow_dictionary(column: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.array(column).dictionary_encode()


def _first_change(widened: Rows) -> int:
    """Return the row of a slice where the first column changes, at which a chunk ends."""
    _, *values, _ = next(iter(widened.values()))
    for place, value in enumerate(values):
        if value != values[0]:
            return place
    return 1


def _polars_frames(widened: Rows) -> Iterator[tuple[str, Any]]:
    import polars as pl

    # The dtype of text; that of an Enum follows from the column.
    dtypes: dict[str, Any] = {"polars": None}
    if not _has_lists(widened):
        dtypes["polars, Enum"] = "Enum"
        if hasattr(pl, "Categories"):  # with a table of its own
            dtypes["polars, own Categorical"] = pl.Categorical(pl.Categories.random())
        dtypes["polars, Categorical"] = pl.Categorical()
    for kind, dtype in dtypes.items():
        columns = {}
        for name, column in widened.items():
            dtype_of_column = dtype if _is_text(column) else None
            if dtype_of_column == "Enum":
                dtype_of_column = pl.Enum(_levels(column))
            columns[name] = pl.Series(column, dtype=dtype_of_column)
        table = pl.DataFrame(columns)
        frame = table.slice(1, table.height - 2)
        # polars notes where it has seen that a column rises.
        for name, column in widened.items():
            if _rises(column[1:-1]):
                frame = frame.with_columns(pl.col(name).set_sorted())
        yield kind, frame
    if not _has_lists(widened):
        cut = _first_change(widened)
        chunks = [frame.slice(0, cut), frame.slice(cut)]
        yield f"{kind}, chunked", pl.concat(chunks, rechunk=False)


def _rises(column: Sequence[Any]) -> bool:
    return None not in column and list(column) == sorted(column)


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
    n_rows = 24
    places = np.linspace(0, len(column) - 1, n_rows).round().astype(int)
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
        f"{kind}: something else than the values depends on the rows: {', '.join(names)}",
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


def check_reports(estimator: Any, X: Any) -> None:
    """Check that reports and attributes depend on the rows by values only, for frames of every kind."""
    containers = ["default", "pandas", "polars"] if hasattr(estimator, "set_output") else ["default"]
    objects = X.astype(object).where(X.notna(), None)
    values = {name: list(dict.fromkeys(objects[name])) for name in X}
    for kind, *tables in opposite_frames(values):
        declared = {}
        for name, parameter in estimator.get_params(deep=False).items():
            if kind.startswith("array") and isinstance(parameter, dict):
                declared[name] = list(parameter.values())
        try:
            fits = [clone(estimator).set_params(**declared).fit(table) for table in tables]
        except (TypeError, ValueError):
            continue  # it does not take such frames
        require_same_storage(kind, *fits)
        for container in containers:
            # scikit-learn converts arrays, and no one frames of the same library.
            if container != "default" and kind.startswith(("array", container)):
                continue
            released = []
            try:
                for fit, table in zip(fits, tables, strict=True):
                    if container != "default":
                        fit.set_output(transform=container)
                    released.append(fit.transform(table))
            except (TypeError, ValueError):
                continue
            require_same_form(kind, tables, released)


# The frames that are tried where a fit takes longer than a transform.
_KINDS = (
    "pandas",
    "pandas, category",
    "pyarrow",
    "pyarrow, dictionary",
    "polars",
    "polars, Categorical",
)


def check_fits(estimator: Any, X: Any) -> None:
    """Check that fitted attributes and private rows differ in values only, for frames of some kinds."""
    values = {}
    for name, column in lists_of(X).items():
        values[name] = list(dict.fromkeys(column))
    for kind, *tables in opposite_frames(values):
        if kind not in _KINDS:
            continue
        try:
            fits = [fitted(estimator, table, random_state=0) for table in tables]
        except (TypeError, ValueError):
            continue  # it does not take such frames
        require_same_storage(kind, *fits)
        # Rows are compared where the estimator says that they are private.
        if getattr(estimator, "protects_rows", None) is True:
            released = list(map(transformed, fits, tables))
            require_same_form(kind, tables, released)
        is_of_rows = fits[0].guarantee_.relation != "replace_values"
        if hasattr(estimator, "sample") and is_of_rows:
            samples = [fit.sample(20) for fit in fits]
            require_same_form(kind, tables, samples)


Facts = dict[str, Any]


def facts_of(output: Any) -> Facts:
    """Describe a table or column without its values, its row index, its number of rows, and counts of its values."""
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
        return all(fact[value] == other_fact.get(value, code) for value, code in fact.items())
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
