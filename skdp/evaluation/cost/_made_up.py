"""Rows that are made up from a schema: names, dtypes and declared values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer

from skdp.base import TARGET, domains_of_dtypes, read_bounds
from skdp.central.statistics import split_bounds
from skdp.domain import Categories, Domain, Interval
from skdp.frames import open_large, read_table

_LEAST_ROWS, _ROWS_A_CLASS = 240, 20
"""So many that each value occurs in each fold of a cross-validation."""

_FEW = 8
"""The most values of a column of X that occur."""

_BY_DTYPE: list[tuple[Any, list[Any]]] = [
    (nw.Boolean, [False, True]),
    (nw.Datetime, [datetime(2000, 1, 1), datetime(2001, 6, 15, 12)]),
    (nw.Date, [date(2000, 1, 1), date(2001, 6, 15)]),
]


def made_up_rows(estimator: Any, schema: Any, n_rows: int) -> Any:
    """Make rows of a schema that an estimator accepts."""
    sample, declared = _read_schema(schema)
    table = read_table(sample)
    known = _declarations(estimator, sample)
    by_dtype = {name: values for group in domains_of_dtypes(table) for name, values in group.items()}
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        values = next((_few(own[name]) for own in (declared, known, by_dtype) if len(own.get(name, ()))), None)
        columns.append(values or _values_of_dtype(column))
    random = np.random.default_rng(0)  # of rows that nobody supplied
    drawn = [random.permutation(np.resize(np.arange(len(values)), n_rows)) for values in columns]
    return _like(sample, [[values[code] for code in codes] for values, codes in zip(columns, drawn, strict=True)])


def made_up_target(y: Any, name: Any, *, regression: bool, n_rows: int) -> NDArray[Any] | pd.Series:
    """Make a target of declared values, of a dtype, or of two classes."""
    if y is None:
        values: list[Any] = [0.5, 1.5, 2.5] if regression else [0, 1]
    elif isinstance(y, list | tuple | Categories | Interval):
        values = _known(y)
    else:
        column = _empty(y)
        if isinstance(getattr(column, "dtype", None), pd.CategoricalDtype):
            values = column.dtype.categories.tolist()
        else:
            values = _values_of_dtype(column)[: 3 if regression else 2]
    made = np.random.default_rng(1).permutation(np.resize(np.array(values), n_rows))
    return made if name is None else pd.Series(made, name=name)


def declared_target(estimator: Any, y: Any) -> Any:
    """Return the classes or the domain that a step declares for the target, or else the target as it is given."""
    if lists_classes(y) or not hasattr(estimator, "get_params"):
        return y
    given = [(own.rpartition("__")[2], value) for own, value in estimator.get_params().items() if value is not None]
    name = getattr(y, "name", None) or TARGET
    domains = [value for own, value in given if own == "domain" and isinstance(value, Domain | Mapping)]
    named = [value[name] for value in domains if name in (value.columns if isinstance(value, Domain) else value)]
    classes = [value for own, value in given if own == "classes" and y is None]
    return next(iter([*classes, *named]), y)


def lists_classes(y: Any) -> bool:
    """Return whether a target says its classes: a list of values, or a dtype of categories."""
    if isinstance(y, list | tuple | Categories | Interval):
        return True
    return y is not None and isinstance(getattr(_empty(y), "dtype", None), pd.CategoricalDtype)


def _empty(y: Any) -> Any:
    """Return a column of the dtype of a target, without its values."""
    if isinstance(y, pd.Series):
        return pd.Series(dtype=y.dtype)
    if isinstance(y, np.ndarray):
        return np.empty(0, y.dtype)
    if type(y).__module__.startswith("pyarrow") and hasattr(y, "type"):
        import pyarrow

        return pyarrow.chunked_array([], y.type)
    if type(y).__module__.startswith("polars") and hasattr(y, "clear"):
        return y.clear()
    raise TypeError(f"y must be a list of the possible values, or a column, got {type(y).__name__}")


def _read_schema(schema: Any) -> tuple[Any, dict[Any, Any]]:
    """Return an empty table of a schema, and the values that the schema declares; no value of a table is read."""
    if isinstance(schema, Domain):
        schema = {name: schema[name] for name in schema.columns}
    if isinstance(schema, Mapping):
        if not schema:
            raise ValueError("X declares no columns")
        declared = {name: one for name, one in schema.items() if isinstance(one, list | tuple | Categories | Interval)}
        empty = {
            name: pd.Series(_few(one) if name in declared else _of_dtype(name, one))[:0] for name, one in schema.items()
        }
        return pd.DataFrame(empty), declared
    if isinstance(schema, pd.DataFrame):
        empty = {name: pd.Series(dtype=dtype) for name, dtype in zip(schema.columns, schema.dtypes, strict=True)}
        return pd.DataFrame(empty, columns=schema.columns), {}
    if isinstance(schema, np.ndarray) and schema.ndim == 2:
        return np.empty((0, schema.shape[1]), schema.dtype), {}
    if type(schema).__module__.startswith("pyarrow") and hasattr(schema, "schema"):
        return schema.schema.empty_table(), {}
    large = open_large(schema)
    if large is not None:
        return large.sample, {}
    frame = nw.from_native(schema, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"X must be a table, a Domain or {{column: dtype or values}}, got {type(schema).__name__}")
    return frame.head(0).to_native(), {}


def _of_dtype(name: Any, dtype: Any) -> pd.Series:
    try:
        return pd.Series(dtype=dtype)
    except (TypeError, ValueError):
        got = repr(dtype) if isinstance(dtype, str) else type(dtype).__name__
    raise TypeError(f"X: column {name!r} must be a dtype, or a list, Categories or Interval of values, got {got}")


def rows_for(y: Any) -> int:
    """Return the number of rows to make up."""
    classes = len(_known(y)) if isinstance(y, list | tuple | Categories | Interval) else 0
    return max(_LEAST_ROWS, _ROWS_A_CLASS * classes)


def _known(declared: Any) -> list[Any]:
    """Return the declared values but missing."""
    return [value for value in Domain({"column": declared})["column"].values if value is not None]


def _few(declared: Any) -> list[Any]:
    """Return a few of the declared values."""
    values = _known(declared)
    places = np.linspace(0, len(values) - 1, min(_FEW, len(values))).astype(int)
    return [values[place] for place in places]


def _values_of_dtype(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray):
        column = pd.Series(column)
    dtype = nw.from_native(column, series_only=True).dtype
    if dtype.is_numeric():
        return list(range(_FEW))
    return next((values for kind, values in _BY_DTYPE if dtype == kind), ["a", "b", "c"])


def _like(sample: Any, columns: list[list[Any]]) -> Any:
    """Make a table of the kind and dtypes of an empty one."""
    if isinstance(sample, np.ndarray):
        return np.column_stack([np.array(values, sample.dtype) for values in columns])
    if isinstance(sample, pd.DataFrame):
        made = [pd.Series(own, dtype=kind) for own, kind in zip(columns, sample.dtypes, strict=True)]
        frame = pd.DataFrame(dict(enumerate(made)))
        frame.columns = sample.columns
        return frame
    named = dict(zip(sample.columns if hasattr(sample, "clear") else sample.column_names, columns, strict=True))
    if hasattr(sample, "clear"):  # polars
        return type(sample)(named, schema=sample.schema, strict=False)
    return type(sample).from_pydict(named, schema=sample.schema)


def _declarations(estimator: Any, sample: Any) -> dict[Any, Any]:
    """Return what the steps of an estimator declare of the columns of a table, the first step first."""
    names = read_table(sample).names
    by = getattr(estimator, "by", [])
    keys = by if isinstance(by, list) else [by]
    others = [name for name in names if name not in keys]
    declared: dict[Any, Any] = {}
    for parameter, own in (("categories", names), ("domain", names), ("keys", keys), ("bounds", others)):
        for name, values in _declared_by(getattr(estimator, parameter, None), own, parameter == "bounds"):
            declared.setdefault(name, values)
    for part, chosen in _parts(estimator, sample):
        declared = _declarations(part, chosen) | declared
    return declared


def _declared_by(value: Any, names: Sequence[Any], bounds: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the columns and the values of a declaration: by name, by position, or one for all."""
    if value is None or isinstance(value, str):
        return
    if bounds:
        own = [name for name in names if name in value] if isinstance(value, Mapping) else names
        wanted = {name: value[name] for name in own} if isinstance(value, Mapping) else value
        private, wanted = split_bounds(wanted, own)
        for place, (low, high) in enumerate(read_bounds(wanted, own)):
            if place in private:
                continue
            whole = [float(number) for number in range(int(np.ceil(low)), int(np.floor(high)) + 1)[:1000]]
            yield own[place], whole if len(whole) > 1 else [low, high]
    elif isinstance(value, Domain):
        yield from ((name, value[name]) for name in value.columns if name in names)
    elif isinstance(value, Mapping):
        yield from ((name, values) for name, values in value.items() if name in names)
    elif isinstance(value, Interval):
        yield from ((name, value) for name in names)
    elif isinstance(value, list | tuple) and len(value) == len(names):
        yield from zip(names, value, strict=True)


def _parts(estimator: Any, sample: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the estimators of a meta-estimator, with the table that each gets, as far as its columns are known."""
    if isinstance(estimator, ColumnTransformer):
        for _, part, columns in estimator.transformers:
            if not isinstance(part, str):
                yield part, _chosen(sample, columns)
        return
    parameters = estimator.get_params(deep=False).values() if hasattr(estimator, "get_params") else ()
    for value in parameters:
        named = value if isinstance(value, list | tuple) else [value]
        for item in named:
            part = item[1] if isinstance(item, tuple) and len(item) == 2 else item
            if hasattr(part, "fit") and not isinstance(part, type):
                yield part, sample


def _chosen(sample: Any, columns: Any) -> Any:
    """Select columns as a `ColumnTransformer` does."""
    names = read_table(sample).names
    if callable(columns):
        columns = columns(sample)
    ends = [columns.start, columns.stop] if isinstance(columns, slice) else columns
    by_name = isinstance(columns, str) or (np.iterable(ends) and any(isinstance(one, str) for one in ends))
    places: Any = pd.Series(range(len(names)), index=list(names))
    kept = np.atleast_1d(np.asarray(places.loc[columns] if by_name else places.iloc[columns])).tolist()
    if isinstance(sample, np.ndarray):
        return sample[:, kept]
    return sample.iloc[:, kept] if isinstance(sample, pd.DataFrame) else sample.select([names[place] for place in kept])
