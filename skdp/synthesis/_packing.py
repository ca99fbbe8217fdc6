"""Tables without rows as JSON: their library and dtypes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.domain import pack, unpack
from skdp.tables import Table

_POLARS = frozenset(
    {
        "Boolean",
        "String",
        "Binary",
        "Date",
        "Time",
        "Null",
        "Float32",
        "Float64",
        "Categorical",
    }
    | {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128)}
)
_POLARS_OPTIONS = {
    "Datetime": ("time_unit", "time_zone"),
    "Duration": ("time_unit",),
    "Decimal": ("precision", "scale"),
    "Enum": ("categories",),
}


def pack_template(template: Table) -> dict[str, Any]:
    """Describe a table without rows: its library, and the dtype of each column."""
    columns = []
    for name, column in zip(template.names, template.columns, strict=True):
        try:
            columns.append(_pack_column(column))
        except TypeError as error:
            raise TypeError(f"column {name!r}: {error}") from None
    native = template.native
    library = (
        "numpy"
        if isinstance(native, np.ndarray)
        else nw.from_native(native).implementation.name.lower()
    )
    packed: dict[str, Any] = {"library": library, "columns": columns}
    if library == "pandas":
        packed["levels"] = pack(list(native.columns.names))
    return packed


def unpack_template(packed: Any, names: tuple[Any, ...], n_features: int) -> Table:
    if len(packed["columns"]) != len(names):
        raise ValueError(f"expected {len(names)} columns, got {len(packed['columns'])}")
    columns = tuple(map(_unpack_column, packed["columns"]))
    return Table(names, columns, _native(packed, names[:n_features]))


def _native(packed: Mapping[str, Any], names: tuple[Any, ...]) -> Any:
    library = packed["library"]
    if library == "numpy":
        return np.empty((0, len(names)), object)
    if library == "pandas":
        levels = unpack(packed["levels"])
        if len(levels) > 1:
            index = pd.MultiIndex.from_tuples(names, names=levels)
        else:
            index = pd.Index(names, name=levels[0], tupleize_cols=False)
        return pd.DataFrame(columns=index, index=pd.RangeIndex(0))
    if library not in ("polars", "pyarrow"):
        raise ValueError(f"unknown library {library!r}")
    return nw.from_dict({}, backend=library).to_native()


def _pack_column(column: Any) -> dict[str, Any]:
    if isinstance(column, np.ndarray):
        return {"array": _pack_numpy(column.dtype)}
    if isinstance(column, pd.Series):
        return {"pandas": _pack_pandas(column.dtype)}
    if type(column).__module__.startswith("pyarrow"):
        return {"pyarrow": _pack_arrow(column.type)}
    dtype = column.dtype
    name = dtype.base_type().__name__
    if name not in _POLARS and name not in _POLARS_OPTIONS:
        raise TypeError(f"the dtype {name} cannot be saved")
    options = {
        option: getattr(dtype, option) for option in _POLARS_OPTIONS.get(name, ())
    }
    return {"polars": name} | {
        key: list(value) if key == "categories" else value
        for key, value in options.items()
    }


def _unpack_column(packed: Any) -> Any:
    if "array" in packed:
        return np.empty(0, _unpack_numpy(packed["array"]))
    if "pandas" in packed:
        return pd.Series([], dtype=_unpack_pandas(packed["pandas"]))
    if "pyarrow" in packed:
        import pyarrow

        return pyarrow.chunked_array([], _unpack_arrow(packed["pyarrow"]))
    import polars

    name = packed["polars"]
    if name not in _POLARS and name not in _POLARS_OPTIONS:
        raise ValueError("unknown dtype")
    options = {option: packed[option] for option in _POLARS_OPTIONS.get(name, ())}
    return polars.Series([], dtype=getattr(polars, name)(**options))


def _pack_pandas(dtype: Any) -> dict[str, Any]:
    if isinstance(dtype, np.dtype):
        return {"numpy": _pack_numpy(dtype)}
    if isinstance(dtype, pd.CategoricalDtype):
        kind = object if dtype.categories is None else dtype.categories.dtype
        return {
            "category": _pack_pandas(pd.api.types.pandas_dtype(kind)),
            "ordered": bool(dtype.ordered),
        }
    if isinstance(dtype, pd.StringDtype):
        return {"string": dtype.storage, "nan": dtype.na_value is not pd.NA}
    if isinstance(dtype, pd.ArrowDtype):
        return {"arrow": _pack_arrow(dtype.pyarrow_dtype)}
    if pd.api.types.pandas_dtype(str(dtype)) != dtype:
        raise TypeError(f"the dtype {dtype} cannot be saved")
    return {"name": str(dtype)}


def _unpack_pandas(packed: Any) -> Any:
    if "numpy" in packed:
        return _unpack_numpy(packed["numpy"])
    if "category" in packed:
        kind = _unpack_pandas(packed["category"])
        return pd.CategoricalDtype(
            pd.Index([], dtype=kind), ordered=bool(packed["ordered"])
        )
    if "string" in packed:
        nan = (
            {"na_value": np.nan} if packed["nan"] else {}
        )  # pandas 2.2 has pd.NA only, and no such parameter
        return pd.StringDtype(packed["string"], **nan)
    if "arrow" in packed:
        return pd.ArrowDtype(_unpack_arrow(packed["arrow"]))
    return pd.api.types.pandas_dtype(packed["name"])


def _pack_numpy(dtype: np.dtype[Any]) -> str:
    if dtype.kind not in "biufSUOMm":
        raise TypeError(f"the dtype {dtype} cannot be saved")
    return dtype.str


def _unpack_numpy(text: Any) -> np.dtype[Any]:
    dtype = np.dtype(str(text))
    if dtype.kind not in "biufSUOMm" or dtype.subdtype is not None:
        raise ValueError("unknown dtype")
    return dtype


def _pack_arrow(dtype: Any) -> str:
    """Write an Arrow type as Arrow does, in a schema of one field."""
    import pyarrow

    return base64.b64encode(pyarrow.schema([("", dtype)]).serialize()).decode()


def _unpack_arrow(text: str) -> Any:
    import pyarrow

    return (
        pyarrow.ipc.read_schema(
            pyarrow.py_buffer(base64.b64decode(text, validate=True))
        )
        .field(0)
        .type
    )
