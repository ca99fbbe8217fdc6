"""What kind of thing a value is, so that 1, True and "1" are never taken for one another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd


class ColumnError(ValueError):
    """A column cannot be coded. The message is our own and holds no value, so it may be shown."""


def shielded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that reads values, without letting the error of another library or object escape."""
    # Its text may hold a value, and so may its attributes and the context of an error that is raised while it is
    # handled.
    try:
        return function(*arguments)
    except ColumnError as error:
        message = str(error)
    except Exception as error:
        message = f"cannot be read ({type(error).__name__})"
    raise ColumnError(message)


def library_of(column: Any) -> str:
    """Name the library of a series."""
    library, name = type(column).__module__.partition(".")[0], type(column).__name__
    if (library, name) in (("pandas", "Series"), ("polars", "Series"), ("pyarrow", "ChunkedArray")):
        return library  # narwhals takes 0.1 ms to say so, for each batch
    series = nw.from_native(column, series_only=True, pass_through=True)
    name = series.implementation.name.lower() if isinstance(series, nw.Series) else type(column).__name__
    if name not in ("pandas", "polars", "pyarrow"):
        raise ColumnError(f"columns of {name} are not supported; use pandas, polars or pyarrow")
    return name


def is_missing(value: Any) -> bool:
    """Say whether a value stands for "missing": None, nan, ``pd.NA`` and NaT are the same thing."""
    try:
        return value is None or (bool(np.isscalar(value) or value is pd.NA or value is pd.NaT) and bool(pd.isna(value)))
    except Exception:  # what cannot even be compared with itself, such as Decimal("sNaN"), is another value
        return False


def kind_of(value: Any) -> str:
    """Name the kind of a value; only values of one kind are ever compared."""
    try:
        if isinstance(value, bool | np.bool_):
            return "boolean"
        if isinstance(value, Real):
            return "number"
        if isinstance(value, str):
            return "string"
        if isinstance(value, datetime | np.datetime64):
            return "datetime"
    except Exception:  # of an object that hides its class
        pass
    return type(value).__name__


def plain(value: Any) -> Any:
    """Turn a NumPy scalar into the Python object that it stands for; missing becomes None."""
    if is_missing(value):
        return None
    kind = kind_of(value)
    if kind == "boolean":
        return bool(value)
    if kind == "string":
        return str.__str__(value)  # the text itself: `str` shows the name of an Enum's member
    if kind == "datetime":
        return pd.Timestamp(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value
