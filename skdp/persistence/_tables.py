"""Arrays of NumPy, and columns of tables, as JSON: their dtypes, names and libraries, and the values of some."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import pack, unpack
from skdp.tables import Table, column_index, empty_column, library_of

# The dtypes of polars, with the options that each has.
_POLARS_OPTIONS: dict[str, tuple[str, ...]] = {
    "Binary": (),
    "Boolean": (),
    "Date": (),
    "Datetime": ("time_unit", "time_zone"),
    "Decimal": ("precision", "scale"),
    "Duration": ("time_unit",),
    "Enum": ("categories",),
    "Float32": (),
    "Float64": (),
    "Int128": (),
    "Int16": (),
    "Int32": (),
    "Int64": (),
    "Int8": (),
    "Null": (),
    "String": (),
    "Time": (),
    "UInt128": (),
    "UInt16": (),
    "UInt32": (),
    "UInt64": (),
    "UInt8": (),
}


# A template: a table without rows, of which the library and the dtypes count.


def write_template(template: Table, write: Convert) -> dict[str, Any]:
    """Write the library of a table without rows, and the names and dtypes of columns."""
    columns = []
    for name, column in zip(template.names, template.columns, strict=True):
        # A target may be an array beside a table of another library.
        held_by = library_of(column)
        try:
            dtype = write_column_dtype(held_by, column)
        except TypeError as error:
            raise TypeError(f"column {name!r}: {error}") from None
        columns.append({"name": write(name), "library": held_by, "dtype": dtype})
    library = _library_of_table(template.native)
    content: dict[str, Any] = {"library": library, "columns": columns}
    # Tables of polars and pyarrow have no columns here.
    if library == "numpy":
        content["n_columns"] = template.native.shape[1]
    if library == "pandas":
        content["n_columns"] = template.native.shape[1]
        content["levels"] = write(list(template.native.columns.names))
    return content


def read_template(content: Any, read: Convert) -> Table:
    """Read what `write_template` wrote."""
    library = content["library"]
    if library not in ("numpy", "pandas", "polars", "pyarrow"):
        raise ValueError(f"unknown library {str(library)[:50]!r}")
    names = []
    columns = []
    for column in content["columns"]:
        names.append(read(column["name"]))
        dtype = _read_column_dtype(column["library"], column["dtype"])
        columns.append(empty_column(column["library"], dtype))
    native: Any
    if library in ("numpy", "pandas"):
        n_columns = content["n_columns"]
        if type(n_columns) is not int or not 0 <= n_columns <= len(names):
            raise ValueError("a table has another number of columns")
    if library == "numpy":
        native = np.empty((0, n_columns), object)
    elif library == "pandas":
        index = column_index(names[:n_columns], read(content["levels"]))
        native = pd.DataFrame(columns=index, index=pd.RangeIndex(0))
    else:
        native = nw.from_dict({}, backend=library).to_native()
    return Table(tuple(names), tuple(columns), native)


def _library_of_table(native: Any) -> str:
    """Return the name of the library of a table."""
    if isinstance(native, np.ndarray):
        return "numpy"
    return nw.from_native(native).implementation.name.lower()


def write_column_dtype(library: str, column: Any) -> Any:
    """Write the dtype of a column; what would not be read again is an error."""
    if library == "numpy":
        return write_dtype(column.dtype)
    dtype = column.type if library == "pyarrow" else column.dtype
    content = _WRITERS[library](dtype)
    try:
        is_same = _READERS[library](content) == dtype
    except (ImportError, LookupError, NotImplementedError, TypeError, ValueError):
        is_same = False
    if not is_same:
        raise TypeError(f"the dtype {dtype} cannot be saved")
    return content


def _read_column_dtype(library: str, content: Any) -> Any:
    """Read what `write_column_dtype` wrote."""
    return read_dtype(content) if library == "numpy" else _READERS[library](content)


def _check_zone(text: str) -> None:
    """Refuse time zones that are files: pandas would open whatever a file of others names."""
    if "dateutil/" in text:
        raise ValueError("a time zone must have a name, and be no file")


def _write_pandas_dtype(dtype: Any) -> Any:
    if isinstance(dtype, np.dtype):
        return write_dtype(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        held: Any = np.dtype(object)
        if dtype.categories is not None:
            held = dtype.categories.dtype
        return {"category": _write_pandas_dtype(held), "ordered": bool(dtype.ordered)}
    if isinstance(dtype, pd.StringDtype):
        missing = "NA" if dtype.na_value is pd.NA else "nan"
        return {"string": dtype.storage, "missing": missing}
    if isinstance(dtype, pd.ArrowDtype):
        return {"arrow": _write_arrow_dtype(dtype.pyarrow_dtype)}
    return str(dtype)


def read_pandas_dtype(content: Any) -> Any:
    """Read the dtype of a column of pandas."""
    if isinstance(content, str):
        _check_zone(content)
        dtype = pd.api.types.pandas_dtype(content)
        return read_dtype(content) if isinstance(dtype, np.dtype) else dtype
    if "category" in content:
        categories = pd.Index([], dtype=read_pandas_dtype(content["category"]))
        return pd.CategoricalDtype(categories, ordered=content["ordered"] is True)
    if "arrow" in content:
        return pd.ArrowDtype(_read_arrow_dtype(content["arrow"]))
    if content["missing"] == "nan":
        return pd.StringDtype(content["string"], na_value=np.nan)
    return pd.StringDtype(content["string"])  # of pandas 2.2, which has no other


def _write_arrow_dtype(dtype: Any) -> Any:
    from pyarrow import types

    if types.is_decimal128(dtype):
        return {"precision": dtype.precision, "scale": dtype.scale}
    if types.is_dictionary(dtype):
        return {
            "indices": _write_arrow_dtype(dtype.index_type),
            "values": _write_arrow_dtype(dtype.value_type),
            "ordered": dtype.ordered,
        }
    return str(dtype)


def _read_arrow_dtype(content: Any) -> Any:
    import pyarrow

    if isinstance(content, str):
        _check_zone(content)
        if content == "string":
            return pyarrow.string()
        dtype: Any = pd.ArrowDtype.construct_from_string(f"{content}[pyarrow]")
        return dtype.pyarrow_dtype
    if "precision" in content:
        return pyarrow.decimal128(content["precision"], content["scale"])
    indices = _read_arrow_dtype(content["indices"])
    values = _read_arrow_dtype(content["values"])
    return pyarrow.dictionary(indices, values, content["ordered"] is True)


def _write_polars_dtype(dtype: Any) -> Any:
    name = dtype.base_type().__name__
    options = {}
    for option in _POLARS_OPTIONS.get(name, ()):
        value = getattr(dtype, option)
        options[option] = list(value) if option == "categories" else value
    return {"name": name, **options}


def _read_polars_dtype(content: Any) -> Any:
    import polars

    options = dict(content)
    name = options.pop("name")
    if options.keys() != set(_POLARS_OPTIONS[name]):
        raise ValueError("a dtype has other options")
    _check_zone(str(options.get("time_zone")))
    dtype = getattr(polars, name)
    return dtype(**options) if options else dtype()


_WRITERS = {
    "pandas": _write_pandas_dtype,
    "polars": _write_polars_dtype,
    "pyarrow": _write_arrow_dtype,
}
_READERS = {
    "pandas": read_pandas_dtype,
    "polars": _read_polars_dtype,
    "pyarrow": _read_arrow_dtype,
}


# Tables of pandas, with their rows.


def write_frame(frame: pd.DataFrame, write: Convert) -> list[Any]:
    """Write a DataFrame without an index, a column each."""
    if not frame.index.equals(pd.RangeIndex(len(frame))) or frame.columns.nlevels > 1:
        raise TypeError("a DataFrame with an index cannot be saved")
    columns = []
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pd.StringDtype):
            values = column.to_numpy(object)
        elif isinstance(column.dtype, np.dtype):
            values = column.to_numpy()
        else:
            raise TypeError(
                f"a DataFrame with a column of {column.dtype} cannot be saved"
            )
        content = {"name": write(name), **write_array(values, write)}
        content["dtype"] = write_column_dtype("pandas", column)
        columns.append(content)
    return columns


def read_frame(content: Any, read: Convert) -> pd.DataFrame:
    """Read what `write_frame` wrote."""
    columns = {}
    for described in content:
        array_content = dict(described)
        name = read(array_content.pop("name"))
        dtype = read_pandas_dtype(array_content["dtype"])
        if not isinstance(dtype, np.dtype):
            array_content["dtype"] = "object"
        columns[name] = pd.Series(read_array(array_content, read), dtype=dtype)
    # pandas would fill shorter columns up.
    if len(set(map(len, columns.values()))) > 1:
        raise ValueError("the columns of a table have different lengths")
    return pd.DataFrame(columns)


# Truth values, numbers of at most 64 bits, text, bytes, dates and durations.
_KINDS = "biufUSMm"

# What the list of values holds, by the kind of dtype.
_VALUES: dict[str, set[type]] = {
    "b": {bool},
    "i": {int},
    "u": {int},
    "f": {float, int},
    "U": {str},
    "S": {bytes},
    "M": {int},
    "m": {int},
}

Convert = Callable[[Any], Any]


def write_dtype(dtype: np.dtype[Any]) -> str:
    """Write a dtype as NumPy does, such as float64."""
    if dtype.kind not in f"{_KINDS}O" or dtype.str[1:] == "f16":
        raise TypeError(f"the dtype {dtype} cannot be saved")
    # With the bytes of a number in the order of the machine.
    return str(dtype.newbyteorder("="))


def read_dtype(text: Any) -> np.dtype[Any]:
    """Read what `write_dtype` wrote."""
    if not isinstance(text, str):
        raise ValueError("a dtype must be a text")
    dtype = np.dtype(text)
    if dtype.subdtype is not None or write_dtype(dtype) != text:
        raise ValueError(f"unknown dtype {text[:50]!r}")
    return dtype


def write_array(array: NDArray[Any], write: Convert) -> dict[str, Any]:
    """Write an array, its values in a list whose last axis is fastest."""
    if type(array) is not np.ndarray or array.dtype.kind not in f"{_KINDS}O":
        raise TypeError(f"an array of {array.dtype} cannot be saved")
    dtype = write_dtype(array.dtype)
    flat = array.ravel()
    if array.dtype.kind == "O":
        values = [write(value) for value in flat.tolist()]
    else:
        values = _write_values(flat)
    return {"dtype": dtype, "shape": list(array.shape), "values": values}


def _write_values(flat: NDArray[Any]) -> list[Any]:
    kind = flat.dtype.kind
    if kind in "Mm":
        # Counts of the dtype's unit: dates are counted since 1970.
        flat = flat.astype(np.int64)
    values: list[Any] = flat.tolist()
    if kind in "bU" or (kind == "f" and np.isfinite(flat).all()):
        return values
    if kind == "f":
        return [_write_float(value) for value in values]
    return [pack(value) for value in values]


def _write_float(value: float) -> Any:
    # `pack` takes nan for a missing value of any kind.
    return value if math.isfinite(value) else {"$float": repr(value)}


def read_array(content: Any, read: Convert) -> NDArray[Any]:
    """Read what `write_array` wrote."""
    dtype = read_dtype(content["dtype"])
    shape = content["shape"]
    packed = content["values"]
    if content.keys() != {"dtype", "shape", "values"} or type(packed) is not list:
        raise ValueError("an array has a dtype, a shape, and a list of values")
    is_shape = all(type(length) is int and length >= 0 for length in shape)
    if not is_shape or math.prod(shape) != len(packed):
        raise ValueError("an array has another shape than its list of values")
    if dtype.kind == "O":
        array = np.empty(len(packed), object)
        for index, item in enumerate(packed):
            array[index] = read(item)
        return array.reshape(shape)
    values = packed
    if {dict, list} & set(map(type, packed)):
        values = [unpack(item) for item in packed]
    if not set(map(type, values)) <= _VALUES[dtype.kind]:
        raise ValueError(f"an array of {dtype} holds values of another type")
    if dtype.kind in "Mm":
        return np.array(values, np.int64).view(dtype).reshape(shape)
    return np.array(values, dtype).reshape(shape)


def write_scalar(value: np.generic) -> dict[str, Any]:
    """Write a number of NumPy, or a text."""
    if value.dtype.kind not in "biufSU":
        raise TypeError(f"a number of {value.dtype} cannot be saved")
    values = _write_values(np.array([value]))
    return {"dtype": write_dtype(value.dtype), "value": values[0]}


def read_scalar(content: Any) -> Any:
    """Read what `write_scalar` wrote."""
    dtype, value = content["dtype"], content["value"]
    array = {"dtype": dtype, "shape": [1], "values": [value]}
    return read_array(array, unpack)[0]
