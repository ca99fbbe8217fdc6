"""Tables of one record that a transformer is audited on, made from what it declares."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from skdp.base import read_bounds
from skdp.coding import is_missing
from skdp.domain import Categories, Domain, Interval
from skdp.frames import is_frame
from skdp.local import HeavyHitters, RapporEncoder

_MOST_CELLS = 6
_UNDECLARED = "undeclared"


def make_records(estimator: Any) -> list[pd.DataFrame]:
    """Make tables of one record each, any two of which are neighbours."""
    if isinstance(estimator, RapporEncoder | HeavyHitters):
        return [_frame({"word": word}, object) for word in _words(estimator)]
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    for wrapped in ("encoder", "transformer"):
        if hasattr(parameters.get(wrapped), "get_params"):
            return make_records(parameters[wrapped])
    if isinstance(estimator, FrozenEstimator):
        return make_records(estimator.estimator)
    if "bounds" in parameters:
        return _number_records(parameters["bounds"])
    declared = _declared(getattr(estimator, "domain_", parameters.get("categories")))
    unknown = parameters.get("handle_unknown", "error") != "error"
    columns = {name: _values(attribute) for name, attribute in declared.items()}
    sizes = [len(values) for values in columns.values()]
    if math.prod(sizes) <= _MOST_CELLS:
        cells = list(itertools.product(*map(range, sizes)))
    else:
        ends = [[0, 1 % k, k // 2, (k - 2) % k, k - 1] for k in sizes]
        cells = list(dict.fromkeys(zip(*ends, strict=True)))
    records = [
        {name: column[code] for code, (name, column) in zip(cell, columns.items(), strict=True)} for cell in cells
    ]
    if unknown:
        records.append({name: _outside(attribute) for name, attribute in declared.items()})
        records.append(dict.fromkeys(declared))
    dtypes = {name: _dtype(attribute, [record[name] for record in records]) for name, attribute in declared.items()}
    return [_frame(record, dtypes) for record in records]


def _words(estimator: Any) -> list[Any]:
    if isinstance(estimator, RapporEncoder):
        return ["a", "b", "c", "d", *([None] if estimator.handle_missing == "value" else [])]
    letters = estimator.alphabet or "abc"
    return [letters[0], letters[1], letters[-1] * estimator.max_length]


def _declared(categories: Any) -> dict[Any, Any]:
    if isinstance(categories, Domain):
        return {name: categories[name] for name in categories.columns}
    if isinstance(categories, Mapping):
        return dict(categories)
    if categories is None or isinstance(categories, str):
        raise ValueError(
            "nothing is declared to make neighbouring tables of: declare the categories, or give neighbours"
        )
    return {f"x{place}": values for place, values in enumerate(categories)}


def _values(attribute: Any) -> list[Any]:
    values = attribute.values if isinstance(attribute, Interval | Categories) else attribute
    return [None if is_missing(value) else value for value in values]


def _outside(attribute: Any) -> Any:
    """Return a value that is not declared."""
    values = [value for value in _values(attribute) if value is not None]
    if isinstance(attribute, Interval):
        return attribute.edges[-1] + 1
    numbers = all(isinstance(value, int | float | np.number) for value in values)
    return max(values) + 1 if numbers else _UNDECLARED + "".join(map(str, values[:1]))


def _dtype(attribute: Any, values: Sequence[Any]) -> Any:
    if isinstance(attribute, Interval):
        return float
    if any(value is None or isinstance(value, str) for value in values):
        return object
    return np.array(values).dtype


def _number_records(bounds: Any) -> list[pd.DataFrame]:
    if isinstance(bounds, Mapping):
        names = list(bounds)
    else:
        names = [f"x{place}" for place in range(1 if np.ndim(bounds) == 1 else len(np.asarray(bounds)))]
    low, high = read_bounds(bounds, names).T
    places = [low, high, (low + high) / 2, low + (high - low) / 3, np.clip(0.0, low, high), high + (high - low)]
    cells = dict.fromkeys(tuple(place.tolist()) for place in places)
    return [_frame(dict(zip(names, cell, strict=True)), float) for cell in cells]


def _frame(record: dict[Any, Any], dtypes: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            name: pd.Series([value], dtype=dtypes[name] if isinstance(dtypes, dict) else dtypes)
            for name, value in record.items()
        }
    )


def count_rows(table: Any) -> int:
    """Count the rows of a table."""
    return int(nw.from_native(table, eager_only=True).shape[0]) if is_frame(table) else len(table)


def repeat(table: Any, rows: int) -> Any:
    """Repeat a table of one row."""
    if isinstance(table, pd.DataFrame | pd.Series):
        return table.iloc[np.zeros(rows, np.intp)].reset_index(drop=True)
    if is_frame(table):
        frame = nw.from_native(table, eager_only=True)
        return frame[np.zeros(rows, np.int64).tolist()].to_native()
    return np.repeat(table, rows, axis=0) if isinstance(table, np.ndarray) else list(table) * rows


def stack(tables: Sequence[Any]) -> Any:
    """Put tables below one another."""
    first = tables[0]
    if isinstance(first, pd.DataFrame | pd.Series):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns in which all is missing
            return pd.concat(tables, ignore_index=True)
    if is_frame(first):
        return nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()
    if isinstance(first, np.ndarray):
        return np.concatenate(tables)
    return [row for table in tables for row in table]
