"""Dataframes of any library in, the same kind out, and what tables of reports say of their origin."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._large_tables import openers
from skdp.tables._columns import held_by, present


@dataclass(frozen=True)
class Table:
    """The columns of a pandas, polars or pyarrow table, or of a 2-D array."""

    names: tuple[Any, ...]
    columns: tuple[Any, ...]
    native: Any
    # The number of the person of each row, where several rows may be one's.
    persons: NDArray[np.intp] | None = None
    # Whether the input had dtypes; those of a list of rows are inferred from its
    # values.
    has_dtypes: bool = True

    def take(self, places: NDArray[np.intp]) -> Self:
        """Return some rows, as columns; `native` is that of all rows."""
        columns = tuple(take_rows(column, places) for column in self.columns)
        persons = None if self.persons is None else self.persons[places]
        return replace(self, columns=columns, persons=persons)

    def rebuild(self, columns: Sequence[Any], names: Sequence[Any]) -> Any:
        """Build a table of the same kind and row index from other columns, or 2-D arrays of several."""
        # Nothing else is copied: the ``attrs`` of pandas and unused levels of an index
        # may hold private data.
        if isinstance(self.native, np.ndarray):
            return np.column_stack(_alike(columns))
        is_pandas = isinstance(self.native, pd.DataFrame)
        # One matrix, such as that of a unary encoding, stays one block.
        if is_pandas and len(columns) == 1 and getattr(columns[0], "ndim", 1) == 2:
            index = without_unused_levels(self.native.index)
            return pd.DataFrame(columns[0], index, pd.Index(names), copy=False)
        single_columns: list[Any] = []
        for column in columns:
            is_matrix = getattr(column, "ndim", 1) == 2
            single_columns.extend(column.T if is_matrix else [column])
        if is_pandas:
            return self._rebuild_pandas(single_columns, names)
        backend = nw.from_native(self.native).implementation
        named_columns = dict(zip(names, single_columns, strict=True))
        return nw.from_dict(named_columns, backend=backend).to_native()

    def _rebuild_pandas(
        self, columns: Sequence[Any], names: Sequence[Any]
    ) -> pd.DataFrame:
        index = without_unused_levels(self.native.index)
        series = {}
        for place, column in enumerate(columns):
            # One series per column: otherwise pandas would infer the dtype of objects
            # again.
            array = column.array if isinstance(column, pd.Series) else column
            series[place] = pd.Series(array, index, array.dtype, copy=False)
        frame = pd.DataFrame(series, index=index, copy=False)
        if tuple(names) == tuple(self.native.columns):
            frame.columns = labels_of(self.native.columns)
        else:
            frame.columns = pd.Index(names, tupleize_cols=False)
        return frame


def _alike(columns: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    """Cast columns of different kinds to objects, as NumPy would convert numbers beside text to text."""
    kinds = set()
    for column in columns:
        kind = column.dtype.kind
        kinds.add("number" if kind in "biuf" else kind)
    return columns if len(kinds) == 1 else [column.astype(object) for column in columns]


def take_rows(data: Any, places: NDArray[np.intp]) -> Any:
    """Return some rows of a table, array or series, as the same kind, in an order of their own."""
    if isinstance(data, pd.DataFrame | pd.Series):
        return data.take(places)
    if not _is_arrow(data):
        return data[places]
    if not hasattr(data, "column_names"):
        return _take_arrow(data, places)
    columns = [_take_arrow(column, places) for column in data.columns]
    return type(data).from_arrays(columns, data.column_names)


def _take_arrow(column: Any, places: Any) -> Any:
    import pyarrow

    # Arrow has no `take` for views.
    if pyarrow.types.is_string_view(column.type):
        return column.cast(pyarrow.string()).take(places).cast(column.type)
    return column.take(places)


def missing_for_nan(table: Any) -> Any:
    """Make the NaN of numbers missing, in libraries where a NaN is another value."""
    if isinstance(table, np.ndarray | pd.DataFrame):
        return table
    frame = nw.from_native(table, eager_only=True)
    columns = []
    for name in frame.columns:
        column = nw.col(name)
        if frame.schema[name].is_float():
            column = nw.when(~column.is_nan()).then(column)
        columns.append(column)
    return frame.select(*columns).to_native()


def without_unused_levels(index: pd.Index) -> pd.Index:
    """Drop the levels or categories of an index that no row uses."""
    if isinstance(index, pd.MultiIndex):
        return index.remove_unused_levels()
    if isinstance(index, pd.CategoricalIndex):
        return index.remove_unused_categories()
    return index


def labels_of(columns: pd.Index) -> pd.Index:
    """Return the labels of columns without levels or categories of others, of which even the order may be private."""
    if isinstance(columns, pd.MultiIndex | pd.CategoricalIndex):
        return column_index(columns.to_list(), list(columns.names))
    return columns


def column_index(labels: list[Any], names: list[Any]) -> pd.Index:
    """Make an index of labels of columns, with the names of its levels."""
    if len(names) > 1:
        return pd.MultiIndex.from_tuples(labels, names=names)
    return pd.Index(labels, name=names[0], tupleize_cols=False)


def flatten_index(table: pd.DataFrame) -> pd.DataFrame:
    """Put the levels of an index before the columns, under other names where there are such columns already."""
    names: list[Any] = []
    for level in table.index.names:
        name = "index" if level is None else level
        while name in names or name in table.columns:
            name = f"{name}_value"
        names.append(name)
    return table.reset_index(names=names)


class Summary(Protocol):
    """Sums over rows, computed where the rows are stored; picklable, to be sent to workers."""

    def zeros(self) -> list[NDArray[np.int64]]:
        """Return the sums over no rows."""

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Add the rows of a batch to the sums."""

    def n_distinct(self, sample: Any) -> float:
        """Return the number of different rows possible under the dtypes and the declared domain."""
        # If it is small, an engine may group equal rows and pass each once. It only
        # selects the faster way (undeclared rows may add to it), and must not depend on
        # any row.


class LargeTable(ABC):
    """A table on a cluster, in files or in a database, of which only sums over rows are loaded into Python."""

    sample: Any

    @abstractmethod
    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        """Sum over all rows in one pass."""

    @abstractmethod
    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        """Drop the rows of each person beyond a limit, without loading the table."""


def open_large(data: Any) -> LargeTable | None:
    """Open a large table, or return None if no registered function recognises it."""
    if isinstance(data, LargeTable):
        return data
    for opener in openers:
        table: LargeTable | None = opener(data)
        if table is not None:
            return table
    return None


def is_frame(data: Any) -> bool:
    """Whether an object is a dataframe of a supported library."""
    _check_names(data)
    if isinstance(data, pd.DataFrame | np.ndarray | list):
        return isinstance(data, pd.DataFrame)  # narwhals takes a tenth of a millisecond
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise lazy_error(data)
    if not isinstance(frame, nw.DataFrame):
        return False
    library = frame.implementation.name.lower()
    if library not in ("pandas", "polars", "pyarrow"):
        raise TypeError(
            f"frames of {library} are not supported; use pandas, polars or pyarrow"
        )
    return True


def lazy_error(data: Any) -> TypeError:
    """Make the error of a lazy table where rows are needed."""
    # A lazy result would draw new noise at each evaluation: one more release.
    library = type(data).__module__.partition(".")[0]
    return TypeError(
        f"lazy frames ({library}) are not read here, as rows are needed: collect the "
        "frame first. `fit` of central estimators reads them, and "
        "`skdp.engines.privatize` makes reports"
    )


def read_table(data: Any) -> Table:
    """Split a dataframe or a 2-D array into columns without a copy."""
    _check_names(data)
    if isinstance(data, np.ndarray):
        names = tuple(f"x{place}" for place in range(data.shape[1]))
        return Table(names, tuple(data.T), data)
    if isinstance(data, pd.DataFrame):
        columns = tuple(column for _, column in data.items())
        return Table(tuple(data.columns), columns, data)
    # narwhals takes longer, which counts for batches.
    if _is_arrow(data) and type(data).__name__ == "Table":
        return Table(tuple(data.column_names), tuple(data.columns), data)
    frame = nw.from_native(data, eager_only=True)
    columns = tuple(series.to_native() for series in frame.iter_columns())
    return Table(tuple(frame.columns), columns, data)


def _is_arrow(data: Any) -> bool:
    return type(data).__module__.startswith("pyarrow")


def _check_names(data: Any) -> None:
    """Refuse duplicate column names, which pandas and pyarrow allow."""
    if isinstance(data, pd.DataFrame):
        names = data.columns.to_list()
    elif _is_arrow(data):
        names = getattr(data, "column_names", [])
    else:
        return
    if len(set(names)) < len(names):
        name, _ = Counter(names).most_common(1)[0]
        raise ValueError(f"two columns have the same name: {name!r}")


def convert_frame(frame: Any, library: str) -> Any:
    """Convert a dataframe to pandas or polars; anything else passes through."""
    if isinstance(frame, np.ndarray) or library not in ("pandas", "polars"):
        return frame
    table = nw.from_native(frame, eager_only=True)
    if library == "pandas":
        return table.to_pandas()
    converted = table.to_polars()
    if table.implementation.is_polars():
        return converted
    import polars

    # **Privacy.** Categories become an Enum, in their order: a Categorical of polars
    # uses a table shared by the whole process, in order of first appearance, possibly
    # in the true rows.
    for name, dtype in converted.schema.items():
        if dtype == polars.Categorical:
            texts = _text_categories(table.get_column(name).to_native())
            enum = polars.col(name).cast(polars.Enum(texts))
            converted = converted.with_columns(enum)
    return converted


def _text_categories(column: Any) -> list[str]:
    """List the categories of a pandas or pyarrow column in order."""
    library, column = held_by(column)
    if library == "pandas":
        return column.cat.categories.to_list()
    texts: dict[str, None] = {}
    for chunk in column.chunks:
        texts |= dict.fromkeys(chunk.dictionary.to_pylist())
    return present(texts)


# The key of the protocol that reports carry: in the metadata of Arrow and Parquet, and
# in the ``attrs`` of pandas.
PROTOCOL_KEY = "skdp.protocol"

# The key of pandas' own JSON with the ``attrs`` of a frame, in Parquet files.
ATTRS_KEY = "PANDAS_ATTRS"

# Of a protocol that files say a second time, for pandas.
_MAX_CHARACTERS = 1 << 18

# Limit on a count, so that sums of several fit into 64 bits.
MAX_REPORTS = 1 << 56


def carries_notes(table: Any) -> bool:
    """Return whether a table can say what it is."""
    is_arrow = type(table).__module__.startswith("pyarrow") and hasattr(table, "schema")
    return isinstance(table, pd.DataFrame) or is_arrow


def with_protocol(table: Any, text: str | None) -> Any:
    """Attach a protocol to reports in pandas or pyarrow; other tables pass through."""
    if text is None or not carries_notes(table):
        return table
    if not isinstance(table, pd.DataFrame):
        return table.replace_schema_metadata(
            schema_with_protocol(table.schema, text).metadata
        )
    table.attrs[PROTOCOL_KEY] = text
    return table


def schema_with_protocol(schema: Any, text: str | None) -> Any:
    """Attach a protocol to the schema of Arrow tables of reports, also where pandas finds the ``attrs`` of a frame."""
    if text is None:
        return schema
    metadata = dict(schema.metadata or {})
    if len(text) <= _MAX_CHARACTERS:
        # What pandas wrote of its columns stays; of a table of others, there is nothing
        # to say.
        note: dict[str, Any] = {
            "index_columns": [],
            "columns": [],
            "column_indexes": [],
        }
        note |= pandas_note(metadata)
        note["attributes"] = {PROTOCOL_KEY: text}
        metadata[b"pandas"] = json.dumps(note).encode()
    metadata[PROTOCOL_KEY.encode()] = text.encode()
    return schema.with_metadata(metadata)


def carried_text(table: Any) -> str | None:
    """Return the protocol that a table carries."""
    return _text_in(_attrs_of(table))


def text_of(metadata: Mapping[bytes, bytes]) -> str | None:
    """Find the protocol in the metadata of an Arrow schema."""
    return _text_in(_attrs_in(metadata))


def _text_in(listed: Iterable[dict[Any, Any]]) -> str | None:
    notes = [attrs.get(PROTOCOL_KEY) for attrs in listed]
    texts = {note for note in notes if isinstance(note, str)}
    if len(texts) > 1:
        raise ValueError(
            "reports of two protocols are never added: the metadata of these says "
            "different ones"
        )
    return texts.pop() if texts else None


def _attrs_of(table: Any) -> list[dict[Any, Any]]:
    if isinstance(table, pd.DataFrame):
        return [table.attrs]
    return _attrs_in(_metadata_of(table))


def _attrs_in(metadata: Mapping[bytes, bytes]) -> list[dict[Any, Any]]:
    """Return the notes in the metadata of an Arrow schema: our own, and where pandas and pyarrow may have put them."""
    attrs: dict[str, Any] = {}
    text = metadata.get(PROTOCOL_KEY.encode())
    if text is not None:
        attrs[PROTOCOL_KEY] = text.decode(errors="replace")
    pandas_attrs = _parsed(metadata.get(ATTRS_KEY.encode()))
    listed = (attrs, pandas_attrs, pandas_note(metadata).get("attributes"))
    return [each for each in listed if isinstance(each, dict)]


def _metadata_of(table: Any) -> Mapping[bytes, bytes]:
    """Return the metadata of an Arrow table."""
    if not type(table).__module__.startswith("pyarrow"):
        return {}
    return getattr(getattr(table, "schema", None), "metadata", None) or {}


def pandas_note(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return what pandas wrote into the metadata of an Arrow schema."""
    note = _parsed(metadata.get(b"pandas"))
    return note if isinstance(note, dict) else {}


def _parsed(text: bytes | str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
