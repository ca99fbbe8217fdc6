"""Single values: their kinds, 1, True and "1" being of three, and whether they are missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd


class ColumnError(ValueError):
    """A column cannot be encoded; the message holds no value of it."""


def shielded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that reads values, and replace the errors of other libraries."""
    # Their texts, attributes and contexts may hold a value. The new error is raised
    # outside of the handler, so that it has no context.
    try:
        return function(*arguments)
    except ColumnError as error:
        message = str(error)
    except Exception as error:
        message = f"cannot be read ({type(error).__name__})"
    raise ColumnError(message)


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, nan, ``pd.NA`` or NaT."""
    try:
        if value is None or value is pd.NA or value is pd.NaT:
            return True
        return bool(np.isscalar(value)) and bool(pd.isna(value))
    except Exception:  # not comparable with itself, such as Decimal("sNaN")
        return False


_KINDS = {bool: "boolean", int: "number", float: "number", str: "string"}


def kind_of(value: Any) -> str:
    """Return the kind of a value; only values of one kind are compared."""
    if type(value) in _KINDS:
        return _KINDS[type(value)]
    try:
        if isinstance(value, bool | np.bool_):
            return "boolean"
        if isinstance(value, Real):
            return "number"
        if isinstance(value, str):
            return "string"
        if isinstance(value, datetime | np.datetime64):
            return "datetime"
    except Exception:  # an object that hides its class
        pass
    return type(value).__name__


def is_whole_number(value: Any) -> bool:
    """Whether a parameter is a whole number, of Python or NumPy, and no truth value."""
    is_truth = isinstance(value, bool | np.bool_)
    return isinstance(value, Integral) and not is_truth


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python object, and missing to None."""
    if type(value) in (str, int, bool):
        return value
    if is_missing(value):
        return None
    kind = kind_of(value)
    if kind == "boolean":
        return bool(value)
    if kind == "string":
        return str.__str__(value)  # not `str`, which returns the name of an Enum member
    if kind == "datetime":
        return pd.Timestamp(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value
