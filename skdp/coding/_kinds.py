"""Which kind of values the dtype of a column can hold: a fact that is public, whatever the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.coding._encode import ColumnError, ValueCoder, library_of

ANY = "any"
"""The kind of a dtype that holds values of any kind, or none at all."""

OTHER = "other"
"""The kind of a dtype that is none of those of `kind_of` with a name of their own, such as one of lists."""

KIND_NAMES = {
    "boolean": "truth values",
    "date": "dates",
    "datetime": "dates with times",
    "number": "numbers",
    "string": "text",
}
"""The kinds of values that have dtypes of their own."""

_OF_NUMPY = {
    "b": "boolean",
    "i": "number",
    "u": "number",
    "f": "number",
    "U": "string",
    "T": "string",
    "M": "datetime",
    "O": ANY,
}


def kind_of_dtype(column: Any) -> str:
    """Return the kind of all values that a column can hold by its dtype, as of `kind_of`, or `ANY` or `OTHER`."""
    if isinstance(column, np.ndarray):
        return _OF_NUMPY.get(column.dtype.kind, OTHER)
    kind = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}[
        library_of(column)
    ]
    return kind(column.type if library_of(column) == "pyarrow" else column.dtype)


def name_of_dtype(column: Any) -> str:
    """Name the dtype of a column for a message."""
    if isinstance(column, np.ndarray):
        # Not the dtype itself: the width of a string dtype reveals the length of the longest value.
        return (
            column.dtype.type.__name__
            if column.dtype.kind in "SUV"
            else str(column.dtype)
        )
    library = library_of(column)
    if library == "polars":
        return str(
            column.dtype.base_type()
        )  # the values of an Enum are not for a message
    if library == "pyarrow":
        return str(column.type)
    return str(column.dtype)


def check_dtype(column: Any, coder: ValueCoder, *, shown: str) -> None:
    """Refuse a dtype that can hold none of the declared values: it is public, unlike the values of objects."""
    kind = kind_of_dtype(column)
    if coder.kind is None or kind == coder.kind or kind not in KIND_NAMES:
        return
    # What libraries make of a column without values, or in which all of them are missing: to refuse it would show that
    # no record has a value.
    if (is_float(column) or _is_converted(column)) and (
        None in coder.values or len(column) == 0
    ):
        return
    raise ColumnError(
        f"its dtype {name_of_dtype(column)} holds {KIND_NAMES[kind]}, which the declared values {shown} are not; "
        "convert the column, or declare what it holds"
    )


def is_float(column: Any) -> bool:
    """Whether a column holds floats."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind == "f"
    library = library_of(column)
    if library == "polars":
        return bool(column.dtype.is_float())
    if library == "pyarrow":
        from pyarrow import types

        return bool(types.is_floating(column.type))
    return pd.api.types.is_float_dtype(column.dtype)


def _is_converted(column: Any) -> bool:
    """Whether a column has a dtype that `convert_dtypes` of pandas makes of missing floats: integers of 64 bits."""
    if isinstance(column, np.ndarray) or library_of(column) != "pandas":
        return False
    return str(column.dtype) in ("Int64", "int64[pyarrow]")


def _of_pandas(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return _of_pandas(dtype.categories.dtype)
    if isinstance(dtype, pd.SparseDtype):
        return _of_pandas(dtype.subtype)
    if isinstance(dtype, pd.ArrowDtype):
        return _of_arrow(dtype.pyarrow_dtype)
    if isinstance(dtype, np.dtype):
        return _OF_NUMPY.get(dtype.kind, OTHER)
    if isinstance(dtype, pd.StringDtype):
        return "string"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "datetime"
    # Numbers and truth values that may be missing.
    return (
        _OF_NUMPY.get(getattr(dtype, "kind", OTHER), OTHER)
        if hasattr(dtype, "numpy_dtype")
        else OTHER
    )


def _of_polars(dtype: Any) -> str:
    import polars

    if dtype in (polars.Null, polars.Object):
        return ANY
    if dtype == polars.Boolean:
        return "boolean"
    if dtype in (polars.String, polars.Categorical, polars.Enum):
        return "string"
    if dtype == polars.Date:
        return "date"
    if dtype == polars.Datetime:
        return "datetime"
    return "number" if dtype.is_integer() or dtype.is_float() else OTHER


def _of_arrow(kind: Any) -> str:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _of_arrow(kind.value_type)
    if types.is_null(kind):
        return ANY
    if types.is_boolean(kind):
        return "boolean"
    if (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
    ):
        return "string"
    if types.is_date(kind):
        return "date"
    if types.is_timestamp(kind):
        return "datetime"
    return "number" if types.is_integer(kind) or types.is_floating(kind) else OTHER
