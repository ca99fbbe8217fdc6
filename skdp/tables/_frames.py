"""Read tables of any library and their metadata, and build tables of the same library."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Indices, TableLike
from skdp.tables._columns import to_objects

# Interfaces by which libraries exchange tables and columns.
_TABLE_METHODS = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")


@dataclass(frozen=True)
class Table:
    """The columns of a pandas, polars or pyarrow table, or of a 2-D array."""

    names: tuple[Any, ...]
    columns: tuple[Any, ...]
    native: Any
    # False if the dtypes were inferred from the values of a list of rows.
    has_dtypes: bool = True

    def take(self, rows: Indices) -> Self:
        """Return a table with the columns of some rows; `native` remains the whole table."""
        columns = tuple(take_rows(column, rows) for column in self.columns)
        return replace(self, columns=columns)

    def rebuild(self, columns: Sequence[Any], names: Sequence[Any]) -> Any:
        """Build a table of the same library and row index from new columns.

        Parameters
        ----------
        columns : sequence of array-like of shape (n_rows,) or (n_rows, n)
            Columns, or matrices of several columns.
        names : sequence
            Name of each column of the new table. A matrix has several names.

        Returns
        -------
        dataframe or ndarray
            Table in the library of `native`.
        """
        # **Privacy.** The ``attrs`` of pandas are not copied, because they may contain private data.
        if isinstance(self.native, np.ndarray):
            return np.column_stack(_align_dtypes(columns))
        if isinstance(self.native, pd.DataFrame):
            return self._rebuild_pandas(columns, names)
        backend = nw.from_native(self.native).implementation
        named_columns = dict(zip(names, _split_matrices(columns), strict=True))
        return nw.from_dict(named_columns, backend=backend).to_native()

    def _rebuild_pandas(
        self, columns: Sequence[Any], names: Sequence[Any]
    ) -> pd.DataFrame:
        """Build a pandas table from columns, with the row index of `native`, the table that was wrapped."""
        index = drop_unused_levels(self.native.index)
        if len(columns) == 1 and getattr(columns[0], "ndim", 1) == 2:
            # A matrix, such as a unary encoding, remains one block.
            return pd.DataFrame(columns[0], index, pd.Index(names), copy=False)
        series = {}
        for position, column in enumerate(_split_matrices(columns)):
            array = column.array if isinstance(column, pd.Series) else column
            # pandas would infer the dtype of objects again.
            is_object = array.dtype == object
            series[position] = pd.Series(array, index, object) if is_object else array
        frame = pd.DataFrame(series, index=index, copy=False)
        if tuple(names) == tuple(self.native.columns):
            frame.columns = drop_unused_labels(self.native.columns)
        else:
            frame.columns = pd.Index(names, tupleize_cols=False)
        return frame


def _split_matrices(columns: Sequence[Any]) -> list[Any]:
    """Return a list of single columns, in which matrices are split by column."""
    single_columns: list[Any] = []
    for column in columns:
        is_matrix = getattr(column, "ndim", 1) == 2
        single_columns.extend(column.T if is_matrix else [column])
    return single_columns


def _align_dtypes(columns: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    """Cast arrays of different types to objects, because NumPy would convert numbers to text."""
    types = set()
    for column in columns:
        letter = column.dtype.kind
        types.add("number" if letter in "biuf" else letter)
    return columns if len(types) == 1 else [column.astype(object) for column in columns]


def take_rows(data: object, rows: Indices) -> Any:
    """Return some rows of a table, array or series in the given order."""
    if isinstance(data, np.ndarray):
        return data[rows]
    native = nw.from_native(data, eager_only=True, allow_series=True)
    return native[rows].to_native()


def nan_to_null(table: TableLike) -> Any:
    """Convert NaN to null in the float columns of polars and pyarrow tables."""
    if isinstance(table, np.ndarray | pd.DataFrame):
        return table
    frame = nw.from_native(table, eager_only=True)
    columns = []
    for name, dtype in frame.schema.items():
        column = nw.col(name)
        if dtype.is_float():
            columns.append(nw.when(~column.is_nan()).then(column))
    return frame.with_columns(columns).to_native()


def drop_unused_levels(index: pd.Index) -> pd.Index:
    """Drop unused levels of an index, which may be private values of rows outside of the table."""
    return index.remove_unused_levels() if isinstance(index, pd.MultiIndex) else index


def drop_unused_labels(columns: pd.Index) -> pd.Index:
    """Return the labels of columns without unused levels or categories."""
    if isinstance(columns, pd.MultiIndex):
        return pd.MultiIndex.from_tuples(columns.to_list(), names=columns.names)
    if isinstance(columns, pd.CategoricalIndex):
        return pd.Index(columns.to_list(), name=columns.name, tupleize_cols=False)
    return columns


def index_to_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Move the levels of a row index to columns; a level with the name of a column gets a suffix."""
    index, columns = table.index, table.reset_index(drop=True)
    for number, level in enumerate(index.names):
        name: Any = "index" if level is None else level
        while name in columns:
            name = f"{name}_value"
        values: Any = index.astype(object)
        if isinstance(index, pd.MultiIndex):
            # The code -1 is missing. pandas would convert integers beside it to floats.
            labels = [*index.levels[number], None]
            values = to_objects(labels)[index.codes[number]]
        columns.insert(number, name, values)
    return columns


def choose_library(data: object) -> str:
    """Return the library of results for an input: polars for its frames, pyarrow for its tables, otherwise pandas."""
    library = type(data).__module__.partition(".")[0]
    is_arrow_table = library == "pyarrow" and type(data).__name__ == "Table"
    return library if library == "polars" or is_arrow_table else "pandas"


def is_frame(data: object) -> bool:
    """Check if an input is a dataframe of a supported library; raise an error for other tables and lazy frames."""
    check_readable(data)
    # The usual types first, because narwhals takes a tenth of a millisecond.
    if isinstance(data, pd.DataFrame | np.ndarray | list):
        return isinstance(data, pd.DataFrame)
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise lazy_error(data)
    if not isinstance(frame, nw.DataFrame):
        return False
    library = frame.implementation.name.lower()
    if library not in ("pandas", "polars", "pyarrow"):
        raise TypeError(
            f"X must be a table of pandas, polars or pyarrow, got a table of {library}."
        )
    return True


def lazy_error(data: object) -> TypeError:
    """Return the error for a lazy table where a table in memory is required."""
    # **Privacy.** A lazy result would draw new noise at each evaluation, and each
    # evaluation would be a further release.
    library = type(data).__module__.partition(".")[0]
    return TypeError(
        f"X must be a table in memory, got a lazy frame ({library}). Collect it "
        "first, or use `skdp.engines.privatize`."
    )


def wrap_table(data: object) -> Table:
    """Split a dataframe or a 2-D array into columns without a copy; array columns are named x0, x1, and so on."""
    check_readable(data)
    if isinstance(data, np.ndarray):
        names = tuple(f"x{index}" for index in range(data.shape[1]))
        return Table(names, tuple(data.T), data)
    if isinstance(data, pd.DataFrame):
        columns = tuple(column for _, column in data.items())
        return Table(tuple(data.columns), columns, data)
    frame = nw.from_native(data, eager_only=True)
    columns = tuple(series.to_native() for series in frame.iter_columns())
    return Table(tuple(frame.columns), columns, data)


def _is_arrow(data: object) -> bool:
    """Check if an object belongs to pyarrow, without importing the library."""
    return type(data).__module__.startswith("pyarrow")


def check_readable(data: object) -> None:
    """Raise an error for a table whose column names are not unique, or would be lost in an array."""
    if isinstance(data, np.ndarray | list):
        return
    if isinstance(data, pd.DataFrame):
        names = data.columns.to_list()
    elif _is_array_of_table(data):
        library, name = type(data).__module__.partition(".")[0], type(data).__name__
        remedy = "X.to_native()" if library == "narwhals" else "pyarrow.table(X)"
        raise TypeError(
            "A table must be a DataFrame of pandas or polars or a Table of pyarrow, got "
            f"{name} ({library}). Use {remedy}."
        )
    else:
        names = getattr(data, "column_names", []) if _is_arrow(data) else []
    if len(set(names)) < len(names):
        name, _ = Counter(names).most_common(1)[0]
        raise ValueError(f"Column names must be unique, got {name!r} twice.")


def _is_array_of_table(data: object) -> bool:
    """Check if an object is a table that would be converted to an array, without its column names."""
    if not any(hasattr(data, method) for method in _TABLE_METHODS):
        return False
    if hasattr(data, "to_frame"):  # a column
        return False
    if _is_arrow(data):
        return hasattr(data, "schema") and type(data).__name__ != "Table"
    is_narwhals = type(data).__module__.startswith("narwhals")
    return is_narwhals or nw.from_native(data, pass_through=True) is data


def convert_frame(frame: object, library: str) -> Any:
    """Convert a dataframe to "pandas" or "polars"; arrays, and other libraries, leave it unchanged."""
    if isinstance(frame, np.ndarray) or library not in ("pandas", "polars"):
        return frame
    table = nw.from_native(frame, eager_only=True)
    if library == "pandas":
        return table.to_pandas()
    converted = table.to_polars()
    if table.implementation.is_polars():
        return converted
    import polars

    # **Privacy.** A Categorical of polars uses a table shared by the whole process, in
    # order of first appearance, possibly in the true rows. An Enum has the declared values.
    dtypes: Any = {}
    for name, dtype in converted.schema.items():
        if dtype == polars.Categorical:
            listed = table[name].cat.get_categories().to_list()
            dtypes[name] = polars.Enum(listed)
    return converted.cast(dtypes)


# The protocol of reports in the metadata of their table.

# Key of the protocol in the metadata of Arrow and Parquet, and in the ``attrs`` of
# pandas.
PROTOCOL_KEY = "skdp.protocol"

# Key of the ``attrs`` of a frame as JSON, in Parquet files of pandas.
ATTRS_KEY = "PANDAS_ATTRS"


def _has_metadata(table: TableLike) -> bool:
    """Check if a table can have metadata: a table of pandas or pyarrow."""
    is_arrow = _is_arrow(table) and hasattr(table, "schema")
    return isinstance(table, pd.DataFrame) or is_arrow


def attach_protocol(table: Any, write: Callable[[], str | None]) -> Any:
    """Return a table of reports with the JSON of their protocol, from `write`, in its metadata, if it can have any."""
    text = write() if _has_metadata(table) else None
    if text is None:
        return table
    if isinstance(table, pd.DataFrame):
        table.attrs[PROTOCOL_KEY] = text
        return table
    schema = attach_schema_protocol(table.schema, text)
    return table.replace_schema_metadata(schema.metadata)


def attach_schema_protocol(schema: Any, text: str | None) -> Any:
    """Return an Arrow schema whose metadata contain `text`, the JSON of a protocol; None leaves it unchanged.

    The text is also written to the field that pandas reads as ``attrs``.
    """
    if text is None:
        return schema
    metadata = dict(schema.metadata or {})
    # The metadata of pandas about columns are kept.
    content: dict[str, Any] = {"index_columns": [], "columns": [], "column_indexes": []}
    content |= parse_pandas_metadata(metadata)
    content["attributes"] = {PROTOCOL_KEY: text}
    metadata[b"pandas"] = json.dumps(content).encode()
    metadata[PROTOCOL_KEY.encode()] = text.encode()
    return schema.with_metadata(metadata)


def get_protocol_text(table: Any) -> str | None:
    """Return the JSON of the protocol in the metadata of a table; None if there is none."""
    if isinstance(table, pd.DataFrame):
        text = table.attrs.get(PROTOCOL_KEY)
        return text if isinstance(text, str) else None
    if not _has_metadata(table):
        return None
    return get_arrow_protocol(table.schema.metadata or {})


def get_arrow_protocol(metadata: Mapping[bytes, bytes]) -> str | None:
    """Return the JSON of the protocol in the metadata of an Arrow schema; None if there is none."""
    # skdp, pandas and pyarrow write the protocol into different fields.
    content = metadata.get(PROTOCOL_KEY.encode())
    texts = {None if content is None else content.decode(errors="replace")}
    attributes = parse_pandas_metadata(metadata).get("attributes")
    for fields in (attributes, _parse_json(metadata.get(ATTRS_KEY.encode()))):
        if isinstance(fields, dict):
            texts.add(fields.get(PROTOCOL_KEY))
    texts = {text for text in texts if isinstance(text, str)}
    if len(texts) > 1:
        raise ValueError(
            "`reports` must have one protocol, got several in the metadata of the "
            "table."
        )
    return texts.pop() if texts else None


def parse_pandas_metadata(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the metadata that pandas wrote into an Arrow schema."""
    content = _parse_json(metadata.get(b"pandas"))
    return content if isinstance(content, dict) else {}


def _parse_json(text: bytes | None) -> Any:
    """Parse JSON; None if it is absent or not valid."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
