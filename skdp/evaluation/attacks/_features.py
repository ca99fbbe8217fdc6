"""The columns that are visible to an attacker, in a form for classifiers."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Codes, Domain
from skdp.frames import is_frame, read_table

_MOST_CATEGORIES = 255
"""The limit of scikit-learn's histogram trees; the codes of more are read as numbers."""

_BINS = 64


def name_of_kind(given: Any) -> str:
    """Name the type of an object, or the class itself, in an error."""
    return f"the class {given.__name__}, not an instance" if isinstance(given, type) else type(given).__name__


def read_columns(data: Any, name: str) -> pd.DataFrame:
    """Read a table or a column of any library as a pandas frame with a fresh index."""
    names = data.columns if isinstance(data, pd.DataFrame) else getattr(data, "column_names", ())
    if len(set(names)) < len(names):
        raise ValueError(f"{name} has two columns of the same name")
    if is_frame(data):
        table = read_table(data)
        names, columns = table.names, table.columns
    else:
        series = nw.from_native(data, pass_through=True, allow_series=True)
        if isinstance(series, nw.Series):
            label = getattr(data, "name", None)
            names, columns = (name if label in (None, "") else label,), (data,)
        else:
            names, columns = _read_array(data, name)
    if not columns:
        raise ValueError(f"{name} has no columns")
    frame = pd.DataFrame(dict(enumerate(map(_as_series, columns))))
    if len(frame) == 0:
        raise ValueError(f"{name} has no rows")
    frame.columns = pd.Index(names, tupleize_cols=False)
    return frame


def _read_array(data: Any, name: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    # A list of objects stays one: NumPy would turn [1, "a"] into two strings.
    array = data if isinstance(data, np.ndarray) else np.array(data, dtype=object)
    if array.ndim == 1:
        return (name,), (array,)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a table or a column, got {array.ndim} dimensions")
    table = read_table(array)
    return table.names, table.columns


def _as_series(column: Any) -> pd.Series:
    if isinstance(column, pd.Series):
        return column.reset_index(drop=True).infer_objects()
    if not isinstance(column, np.ndarray):
        column = nw.from_native(column, series_only=True).to_numpy()
    return pd.Series(column).infer_objects()


def check_declared(domain: Domain, codes: list[Codes], source: str = "") -> None:
    """Refuse true values outside the declared categories."""
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(f"column {name!r}{source} holds a value outside the declared categories")


def code_column(column: pd.Series) -> pd.Series:
    """Convert a column to numbers or categories, with nan for missing."""
    if column.isna().all():
        return pd.Series(np.zeros(len(column)))
    if getattr(column.dtype, "kind", "O") in "biuf" and not isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    codes, distinct = factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    return numbers.astype("category") if len(distinct) <= _MOST_CATEGORIES else numbers


def factorize(column: pd.Series, *, missing: bool = False) -> tuple[NDArray[np.intp], Any]:
    """Assign a number to each distinct value of a column."""
    try:
        codes, distinct = pd.factorize(column, use_na_sentinel=not missing)
        return codes.astype(np.intp), distinct
    except Exception:
        pass  # its message may contain a value, so it must not be the context of the error below
    raise TypeError(f"column {column.name!r} holds something else than single values")


def cells_of(column: pd.Series) -> NDArray[np.intp]:
    """Assign the rows of a coded column to cells: its categories, or bins of about equal size."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.intp) + 1
    numbers = column.to_numpy()
    finite = numbers[~np.isnan(numbers)]
    distinct = np.unique(finite)
    edges = distinct if distinct.size <= _BINS else np.unique(np.quantile(finite, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.where(np.isnan(numbers), 0, 1 + np.searchsorted(edges, numbers)).astype(np.intp)
