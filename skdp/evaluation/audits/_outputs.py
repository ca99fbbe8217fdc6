"""Outputs of a release as columns of comparable parts."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import collect_output
from skdp.tables import convert_frame, is_frame

# A column for each part of the output, an entry for each draw.
Outputs = dict[str, NDArray[Any]]

FORM = "the form: dtypes, names, index, attributes, warnings, output, errors"
TEXT = "the whole output as text"
ABSENT = "\0absent"
RAISED = "\0raised "

# Parts of one call that are compared one by one, and the length of its text.
MAX_PARTS, MAX_TEXT = 256, 100_000

# Values of which the support by a hashed report is computed.
MAX_SUPPORTED_VALUES = 64

_LISTS = (list, tuple, set, frozenset, np.ndarray)


def repeat_row(table: pd.DataFrame, n_rows: int) -> pd.DataFrame:
    """Return a table of equal rows."""
    return table.iloc[np.zeros(n_rows, np.intp)].reset_index(drop=True)


def read_columns(table: Any) -> Outputs:
    """Read the columns of a table or array; a repeated name gets its position."""
    if not isinstance(table, pd.DataFrame | pd.Series) and is_frame(table):
        table = convert_frame(table, "pandas")
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    names = list(map(str, frame.columns))
    columns = {}
    for position, name in enumerate(names):
        label = f"column {name!r}" + f" ({position})" * (names.count(name) > 1)
        columns[label] = frame.iloc[:, position].to_numpy()
    return columns


def read_rows(released: Any, n_rows: int) -> Outputs:
    """Read the columns of a release whose rows are independent draws; lists are spread."""
    columns: Outputs = {}
    for name, values in read_columns(released).items():
        if len(values) != n_rows:
            raise ValueError(f"the release has {len(values)} rows, not {n_rows}")
        if values.dtype == object and isinstance(values[0], _LISTS):
            width = max(map(len, values))
            padded = [[*items, *[None] * (width - len(items))] for items in values]
            for position, column in pd.DataFrame(padded, dtype=object).items():
                columns[f"{name}, item {position}"] = column.to_numpy()
        else:
            columns[name] = values
    if not columns:
        raise ValueError("the release is no table")
    return columns


def add_supports(fitted: Any, columns: Outputs) -> Outputs:
    """Add which values each hashed report supports. Its hash function is public."""
    arrays = list(columns.values())
    added: Outputs = {}
    start = 0
    for number, oracle in enumerate(getattr(fitted, "oracles_", ())):
        parts = arrays[start : start + oracle.width]
        start += oracle.width
        if oracle.shows_hash:
            reports = np.column_stack([part.astype(np.uint64) for part in parts])
            # (n_reports, n_values)
            supports = oracle.supports(reports)[:, :MAX_SUPPORTED_VALUES]
            for value, is_supported in enumerate(supports.T):
                added[f"support of value {value} by column {number}"] = is_supported
    return columns | added


def read_call(release: Callable[[], Any]) -> dict[str, Any]:
    """Release once, and record everything that is visible of it."""
    failure = ""
    with collect_output() as messages:
        try:
            released = release()
        except Exception as error:
            failure = f"{RAISED}{type(error).__name__}\n{error}\n"
    if failure:
        return {FORM: f"{failure}{messages}"}
    form: list[Any] = [messages]
    parts = dict(_parts(released, "", form))
    call = {FORM: repr(form), TEXT: repr(list(parts.values()))[:MAX_TEXT]}
    return call | dict(list(parts.items())[:MAX_PARTS])


def _parts(value: Any, path: str, form: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the single values of an output by their paths, and add its types to a form."""
    form.append(type(value).__name__)
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, np.ndarray):
        form.append((value.dtype.str, value.shape))
        items = enumerate(value.ravel().tolist())
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        items = enumerate(value)
    elif isinstance(value, pd.DataFrame) or is_frame(value):
        form.append(_form_of_table(value))
        items = read_columns(value).items()
    else:
        yield path or "the value", value
        return
    for key, item in items:
        yield from _parts(item, f"{path}[{key!r}]", form)


def _form_of_table(table: Any) -> str:
    """Return the visible parts of a table beside its cells."""
    if not isinstance(table, pd.DataFrame):
        return repr(getattr(table, "schema", getattr(table, "name", "")))
    # A categorical dtype shows its categories.
    dtypes = [(dtype, getattr(dtype, "categories", None)) for dtype in table.dtypes]
    index = table.index
    return repr((dtypes, type(index), index.tolist(), index.names, table.attrs))


def stack_calls(calls: list[dict[str, Any]]) -> Outputs:
    """Arrange the parts of many calls as columns."""
    columns = {}
    for name in dict.fromkeys(name for call in calls for name in call):
        column = np.empty(len(calls), object)
        column[:] = [call.get(name, ABSENT) for call in calls]
        columns[name] = column
    return columns


def column_of(outputs: Outputs, name: str) -> NDArray[Any]:
    """Return a column; one of absent parts if the outputs lack it."""
    if name in outputs:
        return outputs[name]
    return np.full(len(next(iter(outputs.values()))), ABSENT, object)


def hash_column(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash each value of a column: numbers by their value, other objects by their text."""
    if values.dtype.kind in "iub":
        return pd.util.hash_array(values.astype(np.int64).view(np.uint64))
    if values.dtype.kind == "f":
        # One of the many words of nan. The sign of -0.0 is visible.
        floats = np.where(np.isnan(values), np.nan, values).astype(np.float64)
        return pd.util.hash_array(floats.view(np.uint64))
    texts = np.empty(len(values), object)
    texts[:] = [value if isinstance(value, str) else f"\0{value!r}" for value in values]
    return pd.util.hash_array(texts)


def to_floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers, with nan for other values."""
    if values.dtype.kind in "iubf":
        return values.astype(float)
    is_number = [isinstance(value, float | np.floating) for value in values]
    return np.where(is_number, values, np.nan).astype(float)


def read_state(estimator: Any) -> dict[str, str]:
    """Return the attributes and the pickle of an estimator as text, without its parameters."""
    parameters = estimator.get_params(deep=False)
    state = {}
    for name, value in vars(estimator).items():
        if name not in parameters:
            # Addresses in memory are not data.
            state[name] = re.sub(" at 0x[0-9a-f]+", "", repr(value))
    try:
        state["the pickle"] = pickle.dumps(estimator).hex()
    except Exception as error:
        state["the pickle"] = type(error).__name__
    return state
