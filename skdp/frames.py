"""Reading dataframes of any supported library and building the same kind again.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._large_tables import openers
from skdp.notes import ATTRS_KEY as ATTRS_KEY
from skdp.notes import PROTOCOL_KEY as PROTOCOL_KEY
from skdp.notes import RELEASES_KEY as RELEASES_KEY
from skdp.notes import Releases as Releases
from skdp.notes import carried_releases as carried_releases
from skdp.notes import carried_text as carried_text
from skdp.notes import carries_notes as carries_notes
from skdp.notes import joined_releases as joined_releases
from skdp.notes import pandas_note as pandas_note
from skdp.notes import releases_of as releases_of
from skdp.notes import schema_with_protocol as schema_with_protocol
from skdp.notes import text_of as text_of
from skdp.notes import with_protocol as with_protocol
from skdp.notes import without_releases as without_releases


@dataclass(frozen=True)
class Table:
    """The columns of a pandas, polars or pyarrow table, or of a 2-D array."""

    names: tuple[Any, ...]
    columns: tuple[Any, ...]
    native: Any
    persons: NDArray[np.intp] | None = None
    """The number of the person of each row, where several rows may be one's."""
    has_dtypes: bool = True
    """Whether the input had dtypes; those of a list of rows are inferred from its values."""

    def take(self, places: NDArray[np.intp]) -> Self:
        """Return some rows, as columns; `native` is that of all rows."""
        persons = None if self.persons is None else self.persons[places]
        return replace(
            self,
            columns=tuple(_taken(column, places) for column in self.columns),
            persons=persons,
        )

    def rebuild(self, columns: Sequence[Any], names: Sequence[Any]) -> Any:
        """Build a table of the same kind and row index from other columns."""
        # Nothing else is copied: the ``attrs`` of pandas and unused levels of an index may hold private data.
        if isinstance(self.native, np.ndarray):
            return np.column_stack(_alike(columns))
        if (
            isinstance(self.native, pd.DataFrame)
            and len(columns) == 1
            and getattr(columns[0], "ndim", 1) == 2
        ):
            index = without_unused_levels(self.native.index)
            return pd.DataFrame(
                columns[0], index=index, columns=pd.Index(names), copy=False
            )
        columns = [
            part
            for column in columns
            for part in (column.T if getattr(column, "ndim", 1) == 2 else [column])
        ]
        if isinstance(self.native, pd.DataFrame):
            # One series per column: otherwise pandas would infer the dtype of objects again.
            index = without_unused_levels(self.native.index)
            arrays = [
                column.array if isinstance(column, pd.Series) else column
                for column in columns
            ]
            made = [
                pd.Series(array, index=index, dtype=array.dtype, copy=False)
                for array in arrays
            ]
            frame = pd.DataFrame(dict(enumerate(made)), index=index, copy=False)
            same = tuple(names) == tuple(self.native.columns)
            columns_index = without_unused_levels(self.native.columns)
            frame.columns = (
                columns_index if same else pd.Index(names, tupleize_cols=False)
            )
            return frame
        named = dict(zip(names, columns, strict=True))
        return nw.from_dict(
            named, backend=nw.from_native(self.native).implementation
        ).to_native()


def _taken(column: Any, places: NDArray[np.intp]) -> Any:
    if isinstance(column, np.ndarray):
        return column[places]
    if isinstance(column, pd.Series):
        return column.iloc[places]
    if type(column).__module__.startswith("pyarrow"):
        return _taken_of_arrow(column, places)
    return nw.from_native(column, series_only=True)[places].to_native()


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


def _taken_of_arrow(column: Any, places: Any) -> Any:
    import pyarrow

    if pyarrow.types.is_string_view(column.type):  # Arrow has no `take` for views
        return column.cast(pyarrow.string()).take(places).cast(column.type)
    return column.take(places)


def take_rows(data: Any, places: NDArray[np.intp]) -> Any:
    """Return some rows of a table, array or series, as the same kind, in an order of their own."""
    if type(data).__module__.startswith("pyarrow") and hasattr(data, "column_names"):
        columns = [_taken_of_arrow(column, places) for column in data.columns]
        return type(data).from_arrays(columns, data.column_names)
    known = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(known, nw.DataFrame | nw.Series):
        return known[places].to_native()
    return data[places]


def without_unused_levels(index: pd.Index) -> pd.Index:
    """Drop the levels or categories of an index that no row uses."""
    if isinstance(index, pd.MultiIndex):
        return index.remove_unused_levels()
    return (
        index.remove_unused_categories()
        if isinstance(index, pd.CategoricalIndex)
        else index
    )


def flatten_index(table: pd.DataFrame) -> pd.DataFrame:
    """Put the levels of an index before the columns, under other names where there are such columns already."""
    names: list[Any] = []
    for level in table.index.names:
        name = "index" if level is None else level
        while name in names or name in table.columns:
            name = f"{name}_value"
        names.append(name)
    return table.reset_index(names=names)


def _alike(columns: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    """Cast columns of different kinds to objects, as NumPy would convert numbers beside text to text."""
    kinds = {
        "number" if column.dtype.kind in "biuf" else column.dtype.kind
        for column in columns
    }
    return columns if len(kinds) == 1 else [column.astype(object) for column in columns]


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
        # If it is small, an engine may group equal rows and pass each once. It only selects the faster way (undeclared
        # rows may add to it), and must not depend on any row.


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
    opened = (opener(data) for opener in openers)
    return next((table for table in opened if table is not None), None)


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
    implementation = frame.implementation
    if not (
        implementation.is_pandas()
        or implementation.is_polars()
        or implementation.is_pyarrow()
    ):
        raise TypeError(
            f"frames of {implementation.name.lower()} are not supported; use pandas, polars or pyarrow"
        )
    return True


def lazy_error(data: Any) -> TypeError:
    """Make the error of a lazy table where rows are needed."""
    # A lazy result would draw new noise at each evaluation: one more release.
    return TypeError(
        f"lazy frames ({type(data).__module__.split('.')[0]}) are not read here, as rows are needed: collect the frame "
        "first. `fit` of central estimators reads them, and `skdp.engines.privatize` makes reports"
    )


def read_table(data: Any) -> Table:
    """Split a dataframe or a 2-D array into columns without a copy."""
    _check_names(data)
    if isinstance(data, np.ndarray):
        return Table(
            tuple(f"x{index}" for index in range(data.shape[1])), tuple(data.T), data
        )
    if isinstance(data, pd.DataFrame):
        names = tuple(data.columns)
        columns = tuple(column for _, column in data.items())
    elif (
        type(data).__module__.startswith("pyarrow") and type(data).__name__ == "Table"
    ):  # faster for batches
        names, columns = tuple(data.column_names), tuple(data.columns)
    else:
        frame = nw.from_native(data, eager_only=True)
        names = tuple(frame.columns)
        columns = tuple(frame.get_column(name).to_native() for name in names)
    return Table(names, columns, data)


def _check_names(data: Any) -> None:
    """Refuse duplicate column names, which pandas and pyarrow allow."""
    if isinstance(data, pd.DataFrame):
        names = data.columns.to_list()
    elif type(data).__module__.startswith("pyarrow"):
        names = getattr(data, "column_names", [])
    else:
        return
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"two columns have the same name: {twice!r}")


def convert_frame(frame: Any, library: str) -> Any:
    """Convert a dataframe to pandas or polars; anything else passes through."""
    # **Privacy.** Categories become an Enum, in their order: a Categorical of polars uses a table shared by the whole
    # process, in order of first appearance, possibly in the true rows.
    if isinstance(frame, np.ndarray) or library not in ("pandas", "polars"):
        return frame
    table = nw.from_native(frame, eager_only=True)
    if library == "pandas":
        return table.to_pandas()
    converted = table.to_polars()
    if table.implementation.is_polars():
        return converted
    import polars

    names = [
        name for name, dtype in converted.schema.items() if dtype == polars.Categorical
    ]
    enums = {
        name: polars.Enum(_text_categories(table.get_column(name).to_native()))
        for name in names
    }
    return converted.with_columns(
        polars.col(name).cast(enum) for name, enum in enums.items()
    )


def _text_categories(column: Any) -> list[str]:
    """List the categories of a pandas or pyarrow column in order."""
    if isinstance(column, pd.Series):
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column.cat.categories.to_list()
        extension: Any = column.array
        column = extension.__arrow_array__()
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    listed = dict.fromkeys(
        level for chunk in chunks for level in chunk.dictionary.to_pylist()
    )
    return [level for level in listed if level is not None]
