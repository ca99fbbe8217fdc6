"""Neighbouring tables of one record, made from the declared domain of a transformer, and checks of given ones."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from skdp.base import read_bounds
from skdp.domain import Categories, Domain, Interval
from skdp.evaluation.audits._outputs import combine, hash_cells, read_rows
from skdp.local import (
    HeavyHitters,
    LocalTableEncoder,
    ReportTransformer,
    SetValuedEncoder,
)
from skdp.tables import is_frame, is_missing

_MOST_CELLS = 16
_UNDECLARED = "undeclared"


def make_records(estimator: Any) -> list[pd.DataFrame]:
    """Make tables of one record each, any two of which are neighbours."""
    parameters = (
        estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    )
    for wrapped in ("encoder", "transformer"):
        if hasattr(parameters.get(wrapped), "get_params"):
            return make_records(parameters[wrapped])
    if isinstance(estimator, FrozenEstimator):
        return make_records(estimator.estimator)
    if isinstance(estimator, SetValuedEncoder):
        return _list_records(estimator, parameters)
    if isinstance(estimator, LocalTableEncoder):
        return _table_records(estimator, parameters)
    if "bounds" in parameters:
        return _number_records(parameters["bounds"])
    if (
        isinstance(estimator, ReportTransformer | HeavyHitters)
        and "categories" not in parameters
    ):
        domain = getattr(estimator, "declared_domain", None)
        if domain is None:
            return [_frame({"word": word}, object) for word in _words(parameters)]
        parameters["categories"] = domain
    return _value_records(
        getattr(estimator, "domain_", parameters.get("categories")), parameters
    )


def _value_records(
    categories: Any, parameters: Mapping[str, Any]
) -> list[pd.DataFrame]:
    """Make records of declared values: all cells if they are few, else some of each column."""
    declared = _declared(categories)
    unknown = parameters.get("handle_unknown", "error") != "error"
    columns = {name: _values(attribute) for name, attribute in declared.items()}
    sizes = [len(values) for values in columns.values()]
    if math.prod(sizes) <= _MOST_CELLS:
        cells = list(itertools.product(*map(range, sizes)))
    else:
        ends = [[0, 1 % k, k // 2, (k - 2) % k, k - 1] for k in sizes]
        cells = list(dict.fromkeys(zip(*ends, strict=True)))
    records = [
        {
            name: column[code]
            for code, (name, column) in zip(cell, columns.items(), strict=True)
        }
        for cell in cells
    ]
    if unknown:
        records.append(
            {name: _outside(attribute) for name, attribute in declared.items()}
        )
        records.append(dict.fromkeys(declared))
    dtypes = {
        name: _dtype(attribute, [record[name] for record in records])
        for name, attribute in declared.items()
    }
    return [_frame(record, dtypes) for record in records]


def _table_records(estimator: Any, parameters: Mapping[str, Any]) -> list[pd.DataFrame]:
    """Make records of values and of numbers, side by side: all of each, the shorter ones again."""
    known = declared_values(estimator)
    values = (
        _value_records(known, parameters) if isinstance(known, Domain) or known else []
    )
    numbers = _number_records(parameters["bounds"]) if parameters["bounds"] else []
    if not (values and numbers):
        return values or numbers
    n_records = max(len(values), len(numbers))
    pairs = zip(itertools.cycle(values), itertools.cycle(numbers), strict=False)
    return [pd.concat(pair, axis=1) for pair in itertools.islice(pairs, n_records)]


def _list_records(estimator: Any, parameters: Mapping[str, Any]) -> list[pd.DataFrame]:
    """Make records of lists: the first values, none, one, all, and the last ones."""
    declared = _declared(getattr(estimator, "domain_", parameters["categories"]))
    records: list[dict[Any, Any]] = [{}, {}, {}, {}, {}]
    for name, attribute in declared.items():
        values, size = _values(attribute), parameters["max_size"]
        size = size[name] if isinstance(size, Mapping) else size
        cells = [values[:size], [], values[:1], values, values[-size:]]
        for record, cell in zip(records, cells, strict=True):
            record[name] = cell
    return [_frame(record, object) for record in records]


def declared_values(encoder: LocalTableEncoder) -> Any:
    """Return what is declared of the columns of categories of a table, or was found by `fit`."""
    return (
        encoder.protocol_.declared["categories"]
        if hasattr(encoder, "protocol_")
        else encoder.categories
    )


def _words(parameters: Mapping[str, Any]) -> list[Any]:
    """Invent words of an open vocabulary, over the alphabet if there is one."""
    if "alphabet" not in parameters:
        return [
            "a",
            "b",
            "c",
            "d",
            *([None] if parameters.get("handle_missing") == "value" else []),
        ]
    letters = parameters["alphabet"] or "abc"
    return [letters[0], letters[1], letters[-1] * parameters["max_length"]]


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
    values = (
        attribute.values if isinstance(attribute, Interval | Categories) else attribute
    )
    return [None if is_missing(value) else value for value in values]


def _outside(attribute: Any) -> Any:
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
        names = [
            f"x{place}"
            for place in range(1 if np.ndim(bounds) == 1 else len(np.asarray(bounds)))
        ]
    low, high = read_bounds(bounds, names).T
    places = [
        low,
        high,
        (low + high) / 2,
        low + (high - low) / 3,
        np.clip(0.0, low, high),
        high + (high - low),
    ]
    cells = dict.fromkeys(tuple(place.tolist()) for place in places)
    return [_frame(dict(zip(names, cell, strict=True)), float) for cell in cells]


def _frame(record: dict[Any, Any], dtypes: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            name: pd.Series(
                [value], dtype=dtypes[name] if isinstance(dtypes, dict) else dtypes
            )
            for name, value in record.items()
        }
    )


def count_rows(table: Any) -> int:
    return (
        int(nw.from_native(table, eager_only=True).shape[0])
        if is_frame(table)
        else len(table)
    )


def repeat(table: Any, rows: int) -> Any:
    if isinstance(table, pd.DataFrame | pd.Series):
        return table.iloc[np.zeros(rows, np.intp)].reset_index(drop=True)
    if is_frame(table):
        frame = nw.from_native(table, eager_only=True)
        return frame[np.zeros(rows, np.int64).tolist()].to_native()
    return (
        np.repeat(table, rows, axis=0)
        if isinstance(table, np.ndarray)
        else list(table) * rows
    )


def in_library(table: Any, library: Any) -> Any:
    """Write a table in polars or pyarrow."""
    frame = nw.from_native(table, eager_only=True)
    columns = {
        name: [None if is_missing(cell) else cell for cell in frame[name].to_list()]
        for name in frame.columns
    }
    return nw.from_dict(columns, backend=library).to_native()


def stack(tables: Sequence[Any]) -> Any:
    first = tables[0]
    if isinstance(first, pd.DataFrame | pd.Series):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns without values
            return pd.concat(tables, ignore_index=True)
    if is_frame(first):
        return nw.concat(
            [nw.from_native(table, eager_only=True) for table in tables]
        ).to_native()
    if isinstance(first, np.ndarray):
        return np.concatenate(tables)
    return [row for table in tables for row in table]


def check_release(release: Any) -> None:
    """Refuse a class in place of an instance."""
    if isinstance(release, type) and any(
        hasattr(release, name) for name in ("transform", "report", "fit")
    ):
        name = release.__name__
        raise TypeError(
            f"release must be a transformer or a callable, got the class {name}: give {name}(...)"
        )


def check_count(value: Any, name: str, *, least: int) -> None:
    """Check a whole number that may be None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_confidence(confidence: Any) -> None:
    """Check the probability that the bound is right."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real):
        raise TypeError(
            f"confidence must be a number between 0 and 1, got {type(confidence).__name__}"
        )
    if not 0 < float(confidence) < 1:
        raise ValueError(
            f"confidence must be a number between 0 and 1, got {confidence!r}"
        )


def check_statistic(statistic: Callable[[Any], Any] | None) -> None:
    if statistic is not None and not callable(statistic):
        raise TypeError(
            f"statistic must be a callable, or None, got {type(statistic).__name__}"
        )


def check_pair(neighbours: Any) -> None:
    """Check that there are two tables."""
    if neighbours is None:
        return
    if (
        is_frame(neighbours)
        or isinstance(neighbours, str)
        or not isinstance(neighbours, Sequence | np.ndarray)
    ):
        raise TypeError(
            f"neighbours must be a pair of tables, got {type(neighbours).__name__}"
        )
    if len(neighbours) != 2:
        raise ValueError(
            f"neighbours must be two tables that differ in one record, got {len(neighbours)}"
        )


def check_replaced(tables: Sequence[Any]) -> None:
    """Check that two tables differ in exactly one row."""
    sizes = [count_rows(table) for table in tables]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"neighbours must have equally many rows, got {sizes[0]} and {sizes[1]}"
        )
    one, other = map(_row_hashes, tables)
    differing = int((one != other).sum())
    if differing != 1:
        raise ValueError(
            f"neighbours must differ in exactly one row, got tables that differ in {differing}"
        )


def check_distinct(tables: Sequence[Any]) -> None:
    """Check that two tables differ, as far as they can be read."""
    if tables[0] is tables[1] or _alike(*tables):
        raise ValueError(
            "neighbours must differ in one record, got the same table twice"
        )


def _alike(one: Any, other: Any) -> bool:
    try:
        return count_rows(one) == count_rows(other) and bool(
            (_row_hashes(one) == _row_hashes(other)).all()
        )
    except Exception:
        return False  # tables of an unknown kind, which only the release can read


def _row_hashes(table: Any) -> NDArray[np.uint64]:
    rows = count_rows(table)
    if not is_frame(table) and not isinstance(table, np.ndarray):
        table = np.array(table, dtype=object)
    return reduce(combine, map(_hash_column, read_rows(table, rows).values()))


def _hash_column(column: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash cells, with None and nan as different values, as a pair of inputs may differ in them."""
    cells = column.astype(object)
    for place, cell in enumerate(cells):
        if is_missing(cell):
            cells[place] = ("missing", type(cell).__name__)
    return hash_cells(cells)
