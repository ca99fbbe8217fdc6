"""Random chunks of the rows of a table, independent of the rows elsewhere."""

from __future__ import annotations

import copy
import io
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import read_array
from skdp.central._base import with_nulls
from skdp.randomness import ByteSource, uniform_integers
from skdp.tables import (
    ColumnError,
    is_frame,
    is_missing,
    kind_of,
    plain,
    read_table,
    to_numbers,
)

# Takes the places of rows, and returns what is there.
Take = Callable[[NDArray[np.intp]], Any]


def open_rows(X: Any, y: Any = None) -> tuple[Take, int]:
    """Prepare to take chunks out of a table."""
    # A chunk is made of the values of its own rows: numbers are float64, booleans
    # without a missing one are bool, dates are in microseconds, and all else is as a
    # library reads a list of plain values. So its dtypes, categories, row labels,
    # metadata and widths reveal nothing of other rows, and it shares no object with
    # them.
    tables = [X if is_frame(X) else _read_array(X, "X")]
    if (
        getattr(tables[0], "ndim", 2) == 0
    ):  # to ask NumPy would make an array of a frame
        raise ValueError("X must be a dataframe or an array of rows")
    if y is not None:
        tables.append(_read_array(y, "y"))
    rows = len(tables[0])
    if any(getattr(table, "ndim", 2) == 0 or len(table) != rows for table in tables):
        raise ValueError(
            "X and y must have as many rows as each other"
        )  # how many is private
    takers = [_taker(table, name) for table, name in zip(tables, "Xy", strict=False)]
    return (lambda members: tuple(take(members) for take in takers)), rows


def random_chunks(
    source: ByteSource, n_chunks: int, rows: int
) -> list[NDArray[np.intp]]:
    """Draw a chunk for each row, and a random order in each chunk."""
    labels = uniform_integers(source, n_chunks, rows)
    while True:
        high, low = (
            uniform_integers(source, 1 << 32, rows),
            uniform_integers(source, 1 << 32, rows),
        )
        order = np.lexsort((low, high, labels))
        keys = np.column_stack([labels, high, low])[order]
        # Rows of a chunk that drew the same number would stand in the order of the
        # table.
        if not (keys[1:] == keys[:-1]).all(axis=1).any():
            break
    ends = np.flatnonzero(np.diff(labels[order].astype(np.int64))) + 1
    return np.split(order, ends) if rows else []


def _read_array(data: Any, name: str) -> NDArray[Any]:
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(
            "masked arrays are not supported, as their masked values would be used; "
            "fill them first"
        )
    return read_array(data, name)


def _taker(table: Any, name: str) -> Take:
    try:
        return (
            _array_taker(table)
            if isinstance(table, np.ndarray)
            else _frame_taker(table)
        )
    except Exception as error:
        # The text of another library's error may hold a value.
        raise TypeError(
            f"{name} holds values that cannot be read ({type(error).__name__})"
        ) from None


def _array_taker(array: NDArray[Any]) -> Take:
    shape, width = array.shape, array[:1].size if len(array) else 0
    values = _values(array.reshape(-1)).reshape(len(array), width)

    def take(members: NDArray[np.intp]) -> NDArray[Any]:
        return _own_dtype(values[members].reshape(-1)).reshape(len(members), *shape[1:])

    return take


def _frame_taker(frame: Any) -> Take:
    table = read_table(frame)
    columns = [_values(column) for column in table.columns]
    labels = (
        frame.columns.copy(deep=True)
        if isinstance(frame, pd.DataFrame)
        else pd.Index([])
    )

    def take(members: NDArray[np.intp]) -> Any:
        chunk = [_own_dtype(column[members]) for column in columns]
        if isinstance(frame, pd.DataFrame):
            made = pd.DataFrame(dict(enumerate(chunk)))
            made.columns = labels.copy(deep=True)  # their names can be changed in place
            return made
        backend = nw.get_native_namespace(frame)
        plain_columns = [
            with_nulls(part, backend) if part.dtype != object else part.tolist()
            for part in chunk
        ]
        return nw.from_dict(
            dict(zip(table.names, plain_columns, strict=True)), backend=backend
        ).to_native()

    return take


def _values(column: Any) -> NDArray[Any]:
    """Read a column as floats, or as plain Python values, None where missing."""
    if not (isinstance(column, np.ndarray | pd.Series) and column.dtype == object):
        try:
            return to_numbers(column).astype(float)
        except ColumnError:
            pass  # no numbers
    if isinstance(column, np.ndarray):
        column = pd.Series(column) if column.dtype.kind in "mM" else column
        objects: Sequence[Any] = column.tolist()
    else:
        objects = nw.from_native(column, series_only=True).to_list()
    return np.fromiter(map(_real, map(plain, objects)), object, len(objects))


def _real(value: Any) -> Any:
    """Convert a complex number that is real, so that the dtype does not reveal that others are not."""
    return value.real if isinstance(value, complex) and value.imag == 0 else value


def _own_dtype(values: NDArray[Any]) -> NDArray[Any]:
    """Choose the dtype of plain values by themselves."""
    if values.dtype != object:
        return values
    known = [value for value in values if not is_missing(value)]
    kinds = {kind_of(value) for value in known}
    if kinds <= {"number"}:
        return np.fromiter(
            (np.nan if value is None else value for value in values), float, values.size
        )
    if kinds == {"boolean"} and len(known) == values.size:
        return values.astype(bool)
    if kinds == {"datetime"} and all(value.tzinfo is None for value in known):
        return np.array(
            [pd.NaT if value is None else value.to_datetime64() for value in values],
            "datetime64[us]",
        )
    copies = copy.deepcopy(
        values.tolist()
    )  # a list or a dict of one row may be that of another row
    return np.fromiter(copies, object, values.size)


Answer = TypeVar("Answer")


@contextmanager
def kept_generators() -> Iterator[None]:
    """Restore the states of the global generators afterwards."""
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - the statistic may use it
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def isolated(function: Callable[[], Answer], source: ByteSource) -> Answer | None:
    """Call a function without output, errors, warnings, or a state of generators that it shares."""
    seed = source.bytes(32).tobytes()
    random.seed(seed)
    np.random.seed(np.frombuffer(seed, np.uint32))  # noqa: NPY002
    try:
        with (
            redirect_stdout(_Nowhere()),
            redirect_stderr(_Nowhere()),
            warnings.catch_warnings(record=True),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            return function()
    except KeyboardInterrupt:
        pass  # raised again below, where it has no context
    except BaseException:
        return None
    raise KeyboardInterrupt


class _Nowhere(io.TextIOBase):
    """A stream that keeps nothing."""

    def writable(self) -> bool:
        return True

    def write(self, text: Any, /) -> int:
        return len(text)
