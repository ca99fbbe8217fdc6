"""Reading dataframes of any supported library and building the same kind again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._large_tables import openers
from skdp.tables._columns import held_by


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
            frame.columns = without_unused_levels(self.native.columns)
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
    return [text for text in texts if text is not None]
