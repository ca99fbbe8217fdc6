"""What an audit releases and sees: neighbouring tables, single calls, and outputs as columns of comparable cells."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from skdp.base import heard, read_bounds
from skdp.domain import Categories, Domain, Interval
from skdp.local import (
    HeavyHitters,
    LocalTableEncoder,
    ReportTransformer,
    SetValuedEncoder,
)
from skdp.tables import is_frame, is_missing, without_releases

Outputs = dict[str, NDArray[Any]]
"""A column for each part of the output, an entry for each draw."""

FORM = "the form: dtypes, names, index, attributes, warnings, output, errors"
ABSENT = "\0absent"
_RAISED = "\0raised "

# Of domains with at most as many cells, each is a record; of larger ones, some are.
_MOST_RECORDS = 16

# What is looked at of an output at most: cells of a call, items of a list, characters,
# and values that a hashed report supports.
_MOST_CELLS, _MOST_ITEMS, _MOST_TEXT = 256, 64, 100_000

_PLAIN = (str, bytes, int, float, np.generic, type(None))
_NESTED = (list, tuple, set, frozenset, dict, np.ndarray)


# Neighbouring tables of one record, made from what a transformer declares.


def make_records(estimator: Any) -> list[pd.DataFrame]:
    """Make tables of one record each, any two of which are neighbours."""
    parameters: dict[str, Any] = {}
    if hasattr(estimator, "get_params"):
        parameters = estimator.get_params(deep=False)
    # A wrapper takes the records of what it wraps.
    for name in ("encoder", "transformer"):
        if hasattr(parameters.get(name), "get_params"):
            return make_records(parameters[name])
    if isinstance(estimator, FrozenEstimator):
        return make_records(estimator.estimator)
    if isinstance(estimator, SetValuedEncoder):
        return _list_records(estimator, parameters["max_size"])
    if isinstance(estimator, LocalTableEncoder):
        return _table_records(estimator, parameters)
    if "bounds" in parameters:
        return _number_records(parameters["bounds"])
    categories = getattr(estimator, "domain_", parameters.get("categories"))
    is_ours = isinstance(estimator, ReportTransformer | HeavyHitters)
    if is_ours and "categories" not in parameters:
        categories = getattr(estimator, "declared_domain", None)
        if categories is None:
            words = [(word,) for word in _words(parameters)]
            return _frames(["word"], words, object)
    return _value_records(categories, parameters)


def _value_records(
    categories: Any, parameters: Mapping[str, Any]
) -> list[pd.DataFrame]:
    """Make records of declared values: all cells if they are few, else some of each column."""
    declared = _declared(categories)
    columns = {name: _values(attribute) for name, attribute in declared.items()}
    if math.prod(map(len, columns.values())) <= _MOST_RECORDS:
        cells = list(itertools.product(*columns.values()))
    else:
        chosen = []
        for column in columns.values():
            k = len(column)
            # Ends, their neighbours and the middle: an oracle that treats some codes
            # differently does so there.
            places = [0, 1 % k, k // 2, (k - 2) % k, k - 1]
            chosen.append([column[place] for place in places])
        cells = list(dict.fromkeys(zip(*chosen, strict=True)))
    records = [dict(zip(columns, cell, strict=True)) for cell in cells]
    # Undeclared and missing values are accepted, so they are protected, too.
    if parameters.get("handle_unknown", "error") != "error":
        outside = {name: _outside(attribute) for name, attribute in declared.items()}
        records.append(outside)
        records.append(dict.fromkeys(declared))
    dtypes = {}
    for name, attribute in declared.items():
        dtypes[name] = _dtype(attribute, [record[name] for record in records])
    return [_frame(record, dtypes) for record in records]


def _table_records(estimator: Any, parameters: Mapping[str, Any]) -> list[pd.DataFrame]:
    """Make records of values and of numbers, side by side: all of each, the shorter ones again."""
    declared = declared_values(estimator)
    values = []
    if isinstance(declared, Domain) or declared:
        values = _value_records(declared, parameters)
    numbers = []
    if parameters["bounds"]:
        numbers = _number_records(parameters["bounds"])
    if not values or not numbers:
        return values or numbers
    records = []
    for place in range(max(len(values), len(numbers))):
        pair = values[place % len(values)], numbers[place % len(numbers)]
        records.append(pd.concat(pair, axis=1))
    return records


def _list_records(estimator: Any, max_size: Any) -> list[pd.DataFrame]:
    """Make records of lists: the first values, none, one, all, and the last ones."""
    declared = _declared(getattr(estimator, "domain_", estimator.categories))
    columns = {}
    for name, attribute in declared.items():
        values = _values(attribute)
        size = max_size[name] if isinstance(max_size, Mapping) else max_size
        columns[name] = [values[:size], [], values[:1], values, values[-size:]]
    return _frames(columns, zip(*columns.values(), strict=True), object)


def _number_records(bounds: Any) -> list[pd.DataFrame]:
    """Make records of the ends of the range, of places in it, and of one beyond it."""
    if isinstance(bounds, Mapping):
        names = list(bounds)
    else:
        n_columns = 1 if np.ndim(bounds) == 1 else len(bounds)
        names = _default_names(n_columns)
    low, high = read_bounds(bounds, names).T
    width = high - low
    # A number beyond the bounds must be clipped without a trace.
    zero = np.clip(0.0, low, high)
    numbers = [low, high, (low + high) / 2, low + width / 3, zero, high + width]
    cells = [tuple(number.tolist()) for number in numbers]
    return _frames(names, dict.fromkeys(cells), float)


def _words(parameters: Mapping[str, Any]) -> list[Any]:
    """Invent words of an open vocabulary, over the alphabet if there is one."""
    if "alphabet" in parameters:
        letters = parameters["alphabet"] or "abc"
        return [letters[0], letters[1], letters[-1] * parameters["max_length"]]
    words: list[Any] = ["a", "b", "c", "d"]
    if parameters.get("handle_missing") == "value":
        words.append(None)
    return words


def declared_values(encoder: LocalTableEncoder) -> Any:
    """Return what is declared of the columns of categories of a table, or was found by `fit`."""
    if hasattr(encoder, "protocol_"):
        return encoder.protocol_.declared["categories"]
    return encoder.categories


def declared_of(domain: Domain) -> dict[Any, Any]:
    """Return a domain as a mapping, as the parameter of a transformer."""
    return {name: domain[name] for name in domain.columns}


def _declared(categories: Any) -> dict[Any, Any]:
    """Return what is declared of each column."""
    if isinstance(categories, Domain):
        return declared_of(categories)
    if isinstance(categories, Mapping):
        return dict(categories)
    if categories is None or isinstance(categories, str):
        raise ValueError(
            "nothing is declared to make neighbouring tables of: declare the "
            "categories, or give neighbours"
        )
    return dict(zip(_default_names(len(categories)), categories, strict=True))


def _default_names(n_columns: int) -> list[str]:
    """Name the columns of an array, as scikit-learn does."""
    return [f"x{place}" for place in range(n_columns)]


def _values(attribute: Any) -> list[Any]:
    """List the declared values of a column, with None for a missing one."""
    if isinstance(attribute, Interval | Categories):
        attribute = attribute.values
    return [None if is_missing(value) else value for value in attribute]


def _outside(attribute: Any) -> Any:
    """Return a value that is not declared."""
    if isinstance(attribute, Interval):
        return attribute.edges[-1] + 1
    values = [value for value in _values(attribute) if value is not None]
    if all(isinstance(value, int | float | np.number) for value in values):
        return max(values) + 1
    return "undeclared" + "".join(map(str, values[:1]))


def _dtype(attribute: Any, values: Sequence[Any]) -> Any:
    """Return the dtype of a column that takes these values."""
    if isinstance(attribute, Interval):
        return float
    if any(value is None or isinstance(value, str) for value in values):
        return object
    return np.array(values).dtype


def _frames(
    names: Iterable[Any], cells: Iterable[tuple[Any, ...]], dtype: Any
) -> list[pd.DataFrame]:
    """Make tables of one record each, of one dtype."""
    dtypes = dict.fromkeys(names, dtype)
    records = [dict(zip(dtypes, cell, strict=True)) for cell in cells]
    return [_frame(record, dtypes) for record in records]


def _frame(record: dict[Any, Any], dtypes: Mapping[Any, Any]) -> pd.DataFrame:
    """Make a table of one record."""
    columns = {}
    for name, value in record.items():
        columns[name] = pd.Series([value], dtype=dtypes[name])
    return pd.DataFrame(columns)


# Tables of any library.


def count_rows(table: Any) -> int:
    """Count the rows of a table."""
    if is_frame(table):
        return int(nw.from_native(table, eager_only=True).shape[0])
    return len(table)


def repeat(table: Any, rows: int) -> Any:
    """Make a table of equal rows."""
    if isinstance(table, pd.DataFrame | pd.Series):
        return table.iloc[np.zeros(rows, np.intp)].reset_index(drop=True)
    if is_frame(table):
        frame = nw.from_native(table, eager_only=True)
        return frame[np.zeros(rows, np.int64).tolist()].to_native()
    if isinstance(table, np.ndarray):
        return np.repeat(table, rows, axis=0)
    return list(table) * rows


def in_library(table: Any, library: Any) -> Any:
    """Write a table in polars or pyarrow."""
    frame = nw.from_native(table, eager_only=True)
    columns = {}
    for name in frame.columns:
        cells = frame[name].to_list()
        columns[name] = [None if is_missing(cell) else cell for cell in cells]
    return nw.from_dict(columns, backend=library).to_native()


def stack(tables: Sequence[Any]) -> Any:
    """Put the rows of tables of one kind below one another."""
    if isinstance(tables[0], pd.DataFrame | pd.Series):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns without values
            return pd.concat(tables, ignore_index=True)
    if is_frame(tables[0]):
        frames = [nw.from_native(table, eager_only=True) for table in tables]
        return nw.concat(frames).to_native()
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    return list(itertools.chain.from_iterable(tables))


def differing_rows(tables: Sequence[Any]) -> NDArray[np.bool_]:
    """Return which rows of two tables of as many rows differ."""
    left, right = map(_row_hashes, tables)
    return left != right


def _row_hashes(table: Any) -> NDArray[np.uint64]:
    """Hash rows, with None and nan as different values, as a pair of inputs may differ in them."""
    rows = count_rows(table)
    if not is_frame(table) and not isinstance(table, np.ndarray):
        table = np.array(table, dtype=object)
    hashes = []
    for column in read_rows(table, rows).values():
        cells = column.astype(object)
        for place, cell in enumerate(cells):
            if is_missing(cell):
                cells[place] = ("missing", type(cell).__name__)
        hashes.append(hash_cells(cells))
    return reduce(combine, hashes)


# Outputs as columns of comparable cells.


def read_rows(released: Any, rows: int) -> Outputs:
    """Read the columns of a released table whose rows are independent draws."""
    columns: Outputs = {}
    for name, values in _columns(released).items():
        if len(values) != rows:
            raise ValueError(f"the release has {len(values)} rows, not {rows}")
        if values.dtype == object and isinstance(values[0], _LISTS):
            columns |= _spread(name, values)
        else:
            columns[name] = values
    if not columns:
        raise ValueError("the release is no table")
    return columns


_LISTS = (list, tuple, set, frozenset, np.ndarray)


def _columns(released: Any) -> Outputs:
    """Read the columns; those of the same name are distinguished by their place."""
    if isinstance(released, pd.Series):
        released = released.to_frame()
    names: Iterable[Any]
    if isinstance(released, pd.DataFrame):
        names = released.columns
        arrays = [_array(column) for _, column in released.items()]
    elif is_frame(released):
        frame = nw.from_native(released, eager_only=True)
        names = frame.columns
        arrays = [column.to_numpy() for column in frame.iter_columns()]
    else:
        table = np.asarray(released)
        if table.ndim == 0:
            return {}
        arrays = list(table.reshape(len(table), -1).T)
        names = range(len(arrays))
    texts = list(map(str, names))
    columns = {}
    for place, (text, array) in enumerate(zip(texts, arrays, strict=True)):
        is_repeated = texts.count(text) > 1
        label = f"column {text!r}" + (f" ({place})" if is_repeated else "")
        columns[label] = array
    return columns


def _array(series: pd.Series) -> NDArray[Any]:
    """Read a column of pandas: plain numbers as they are, anything else as objects."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iubf":
        return series.to_numpy()
    return series.to_numpy(dtype=object)


def _spread(name: str, values: NDArray[Any]) -> Outputs:
    """Split cells that hold lists into one column for each place."""
    lists = []
    for value in values:
        # A cell among lists that is none, such as a missing one, is a list of itself.
        is_list = hasattr(value, "__iter__") and not isinstance(value, str)
        lists.append(list(value) if is_list else [value])
    columns = {f"{name}, length": np.array(list(map(len, lists)))}
    width = min(max(map(len, lists)), _MOST_ITEMS)
    padding = [ABSENT] * width
    for place in range(width):
        cells = np.empty(len(lists), object)
        cells[:] = [(items + padding)[place] for items in lists]
        columns[f"{name}, place {place}"] = cells
    return columns


def read_call(release: Callable[[], Any]) -> dict[str, Any]:
    """Make one release and record everything that is visible of it."""
    with heard() as messages:
        try:
            released = release()
        except Exception as error:
            failure = f"{_RAISED}{type(error).__name__}\n{error}\n"
        else:
            failure = ""
    text = "the whole output as text"
    if failure:
        return {FORM: f"{failure}{messages}", text: ""}
    # By the place of each cell in the output.
    cells: dict[str, Any] = {}
    form = _flatten(released, "", cells)
    call = {FORM: repr((form, messages))}
    call[text] = repr(list(cells.values()))[:_MOST_TEXT]
    return call | dict(itertools.islice(cells.items(), _MOST_CELLS))


def raised(call: dict[str, Any]) -> str | None:
    """Return the name of the error that a call raised, if any."""
    form: str = call[FORM]
    if not form.startswith(_RAISED):
        return None
    return form.removeprefix(_RAISED).split("\n")[0]


def _flatten(value: Any, name: str, cells: dict[str, Any]) -> Any:
    """Add the cells of a value to a dict, by their places, and return its form."""
    if isinstance(value, pd.Series):
        value = value.to_frame()
    if not isinstance(value, _PLAIN + _NESTED) and is_frame(value):
        return _flatten_table(value, name, cells)
    if not isinstance(value, _NESTED):
        cells[name or "the value"] = value
        return type(value).__name__
    form: Any
    keys: Any
    items: Any
    if isinstance(value, np.ndarray):
        form = "array", value.dtype.str, value.shape
        items = value.ravel() if value.dtype == object else value.ravel().tolist()
        keys = range(value.size)
    elif isinstance(value, dict):
        form = "dict", list(map(str, value))
        items = value.values()
        keys = value
    else:
        form = type(value).__name__, len(value)
        items = value
        keys = range(len(value))
    parts = []
    for key, item in zip(keys, items, strict=True):
        parts.append(_flatten(item, f"{name}[{key!r}]", cells))
    return form, parts


def _flatten_table(table: Any, name: str, cells: dict[str, Any]) -> Any:
    """Add the cells of a table, and how often rows repeat, and return its form."""
    table = without_releases(table)
    columns = _columns(table)
    rows = list(zip(*(array.tolist() for array in columns.values()), strict=True))
    types = []
    for place, row in enumerate(rows):
        for column, cell in zip(columns, row, strict=True):
            # The types of the cells distinguish 1, 1.0 and True.
            types.append(_flatten(cell, f"{name}{column}, row {place}", cells))
    if len(rows) > 1:
        # Rows that share random bits are equal more often than others.
        counts = Counter(map(repr, rows))
        cells[f"{name}the number of different rows"] = len(counts)
        for text, count in counts.items():
            cells[f"{name}the number of rows of one kind\0{text}"] = count
    kind = type(table)
    form = [kind.__module__, kind.__name__, list(columns), len(rows), types]
    if isinstance(table, pd.DataFrame):
        form.append(list(map(_dtype_text, table.dtypes)))
        form.append(type(table.index).__name__)
        shown = table.index.tolist(), table.attrs, table.index.names
        form += map(repr, (*shown, table.columns.names))
    else:
        schema = nw.from_native(table, eager_only=True).schema
        form += [str(schema), str(getattr(table, "schema", ""))]
    return form


def _dtype_text(dtype: Any) -> str:
    """Write a dtype; a categorical one with its categories."""
    if isinstance(dtype, pd.CategoricalDtype):
        return f"{dtype} {list(dtype.categories)} {dtype.ordered}"
    return str(dtype)


def stack_calls(calls: Iterable[dict[str, Any]]) -> Outputs:
    """Arrange the cells of many calls as columns."""
    rows = list(calls)
    columns = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(rows)):
        column = np.empty(len(rows), object)
        for place, call in enumerate(rows):
            column[place] = call.get(name, ABSENT)
        columns[name] = column
    return columns


def column_of(outputs: Outputs, name: str) -> NDArray[Any]:
    """Return a column; one of absent cells if the outputs lack it."""
    if name in outputs:
        return outputs[name]
    return np.full(len(next(iter(outputs.values()))), ABSENT, object)


def hash_cells(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash every cell by its value alone, for any dtype of its column."""
    # Equal numbers have equal hashes, as do all kinds of missing: a dtype that depends
    # on other rows must not make equal cells differ. (In single calls, dtypes and types
    # are part of the form.)
    if values.dtype.kind in "iub":
        return _mix(values.astype(np.int64, copy=False).view(np.uint64))
    if values.dtype.kind == "f":
        return _hash_floats(values.astype(np.float64, copy=False))
    objects = values.astype(object, copy=False)
    if pd.api.types.infer_dtype(objects, skipna=False) == "string":
        return pd.util.hash_array(objects)
    cache: dict[Any, np.uint64] = {}
    hashes = np.empty(len(objects), np.uint64)
    for place, value in enumerate(objects):
        key = (type(value), repr(value))
        if key not in cache:
            cache[key] = _hash_object(value)
        hashes[place] = cache[key]
    return hashes


def _hash_object(value: Any) -> np.uint64:
    """Hash a cell of a column of objects."""
    if is_missing(value):
        return _hash_floats(np.array([math.nan]))[0]
    if isinstance(value, bool | np.bool_ | int | np.integer):
        word = int(value) % (1 << 64)
        return _mix(np.array([word], np.uint64))[0]
    if isinstance(value, float | np.floating):
        return _hash_floats(np.array([value], float))[0]
    if not isinstance(value, str):
        value = f"\0{type(value).__name__}:{value!r}"
    return pd.util.hash_array(np.array([value], object))[0]


def _hash_floats(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Hash floats; integers among them as integers, but not -0.0."""
    is_integer = (np.abs(values) < 2.0**62) & (values == np.floor(values))
    # The sign of zero is visible, and so is a difference.
    is_integer &= ~(np.signbit(values) & (values == 0))
    integers = np.where(is_integer, values, 0).astype(np.int64).view(np.uint64)
    bits = _mix(values.view(np.uint64) ^ _SALT)
    hashes = np.where(is_integer, _mix(integers), bits)
    hashes[np.isnan(values)] = _MISSING
    return hashes


# Odd constants of SplitMix64 (Steele, Lea, Flood 2014), which mix all bits of a word.
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)
_SALT = np.uint64(0x94D049BB133111EB)
_MISSING = np.uint64(0x2545F4914F6CDD1D)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread each bit over its word."""
    for multiplier in _MULTIPLIERS:
        words = (words ^ (words >> np.uint64(31))) * multiplier
    return words ^ (words >> np.uint64(29))


def combine(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash pairs of hashes."""
    return _mix(_mix(left ^ _SALT) + right)


def to_floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers, with nan for anything else."""
    if values.dtype.kind in "iubf":
        return values.astype(float)
    return np.array(list(map(_to_float, values)))


def _to_float(value: Any) -> float:
    """Return a number, nan for anything else."""
    if not isinstance(value, int | float | np.number):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


# The calls of a release.


@dataclass(frozen=True)
class Situation:
    """A table for single calls, and its place among the neighbours."""

    name: str
    table: Any
    place: int
    fit: bool = False
    """Whether it is released by `fit_transform`."""
    kept: bool = False
    """Whether the output is what a clone keeps and shows after its release."""


@dataclass
class Audited:
    """A release that is audited, and its neighbouring tables."""

    release: Callable[..., Any]
    tables: list[Any]
    each_row: bool
    fitted: Any = None
    keyed: bool = False
    n_reports: int = 1
    statistic: Callable[[Any], Any] | None = None
    fit_release: Callable[..., Any] | None = None
    paired: bool = False
    fresh: Callable[[], Any] | None = None
    """Makes unfitted clones."""
    central: bool = False
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def groups(self) -> list[list[Situation]]:
        """List the groups of tables for single calls."""
        # All pairs of records by single calls.
        groups = [self._group("", self.tables)]
        pairs = self._pairs() if self.paired else []
        if self.fit_release is not None and not pairs:
            groups.append(self._group("fit_transform: ", self.tables, fit=True))
        # Whether rows are sorted, or share random bits, shows in two of them.
        groups += [self._group("two rows: ", pair) for pair in pairs]
        if self.fit_release is not None and pairs:
            name = "fit_transform of two rows: "
            groups.append(self._group(name, pairs[1], fit=True))
        if pairs:
            groups += self._mixed_groups()
        if self.fresh is not None:
            ends = self.tables[0], self.tables[-1]
            groups.append(self._group("what is kept: ", ends, kept=True))
        return groups

    def _group(self, name: str, tables: Sequence[Any], **how: bool) -> list[Situation]:
        """Make a group of all records, or of tables that differ in the first and the last one."""
        places: Sequence[int] = range(len(self.tables))
        if len(tables) < len(places):
            places = places[0], places[-1]
        pairs = zip(tables, places, strict=True)
        return [Situation(name, table, place, **how) for table, place in pairs]

    def _mixed_groups(self) -> list[list[Situation]]:
        """List groups of tables of seven rows that differ in the first or the last one, also of other libraries."""
        records = [self.tables[place % len(self.tables)] for place in range(7)]
        ends = self.tables[0], self.tables[-1]
        with_first = [stack([record, *records[1:]]) for record in ends]
        with_last = [stack([*records[:-1], record]) for record in ends]
        groups = [
            self._group("7 rows: ", with_first),
            self._group("7 rows: ", with_last),
        ]
        for library in ("polars", "pyarrow"):
            try:
                tables = [in_library(table, library) for table in with_first]
            except Exception:
                continue  # it is not installed, or does not take such values
            groups.append(self._group(f"{library}: ", tables))
        return groups

    def _pairs(self) -> list[tuple[Any, Any]]:
        """Pair tables of two rows that differ in one: the first record in one table, the last in the other."""
        first, last = self.tables[0], self.tables[-1]
        middle = self.tables[len(self.tables) // 2]
        try:
            return [
                (stack([middle, first]), stack([middle, last])),
                (stack([first, first]), stack([first, last])),
                (stack([first, middle]), stack([last, middle])),
            ]
        except Exception:
            return []  # tables of unlike dtypes

    def _reports(self, table: Any, *, fit: bool = False) -> list[Any]:
        """Release a table once for each report of a record, under new record ids."""
        release = self.release
        if fit and self.fit_release is not None:
            release = self.fit_release
        ids = {}
        if self.keyed:
            names = [f"record {next(self._ids)}" for _ in range(count_rows(table))]
            ids = {"record_id": names}
        return [release(table, **ids) for _ in range(self.n_reports)]

    def _release_by(self, fresh: Any, table: Any) -> None:
        """Release a table by a clone, with the same ids each time."""
        if not hasattr(fresh, "transform"):
            fresh.report(table)
            return
        ids = {}
        if self.keyed:
            ids = {"record_id": [f"record {row}" for row in range(count_rows(table))]}
        fresh.fit(table).transform(table, **ids)

    def rows(self, which: int, n: int) -> Outputs:
        """Draw outputs by releasing one table of equal rows."""
        outputs: Outputs = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # single calls look at them
            reports = self._reports(repeat(self.tables[which], n))
            for turn, report in enumerate(reports):
                columns = read_rows(report, n)
                columns |= _supports(self.fitted, columns)
                if self.statistic is not None:
                    statistics = read_rows(self.statistic(report), n)
                    for name, column in statistics.items():
                        columns[f"statistic, {name}"] = column
                # The reports of a record side by side, so that events may join them.
                prefix = "" if self.n_reports == 1 else f"report {turn}, "
                for name, column in columns.items():
                    outputs[prefix + name] = column
        return outputs

    def samples(self, n: int) -> list[Outputs]:
        """Draw a sample of outputs of each table."""
        return [self.rows(which, n) for which in range(len(self.tables))]

    def calls(self, situation: Situation, n: int) -> list[dict[str, Any]]:
        """Draw outputs by releasing a table again and again, with everything that is visible."""
        return [read_call(lambda: self._seen(situation)) for _ in range(n)]

    def call_batch(self, situation: Situation, n: int) -> Outputs:
        """Draw outputs of single calls, as columns."""
        return stack_calls(self.calls(situation, n))

    def _seen(self, situation: Situation) -> Any:
        """Return what one call shows."""
        if situation.kept and self.fresh is not None:
            # Everything that an attacker who gets the object could read.
            fresh = self.fresh()
            self._release_by(fresh, situation.table)
            return kept_by(fresh)
        # Several reports of a record are one output.
        reports = self._reports(situation.table, fit=situation.fit)
        if self.statistic is not None:
            reports += list(map(self.statistic, reports))
        return reports[0] if len(reports) == 1 else reports

    def batches(
        self, which: int, n: int, *, width: int
    ) -> Iterator[tuple[int, Outputs | None]]:
        """Draw many outputs by rows, in batches of some four million cells; None for one that fails."""
        most = max(1000, (1 << 22) // width)
        while n > 0:
            size = min(n, most)
            n -= size
            try:
                outputs = self.rows(which, size)
            except Exception:
                yield size, None
            else:
                yield size, outputs


def _supports(fitted: Any, columns: Outputs) -> Outputs:
    """Return which values each hashed report supports: the seed is public, and new in each report."""
    added: Outputs = {}
    oracles = getattr(fitted, "oracles_", ())
    if not any(oracle.shows_hash for oracle in oracles):
        return added
    arrays = list(columns.values())
    start = 0
    for number, oracle in enumerate(oracles):
        parts = arrays[start : start + oracle.width]
        start += oracle.width
        if not oracle.shows_hash:
            continue
        reports = np.column_stack([part.astype(np.uint64) for part in parts])
        # (n_reports, n_values): whether the report is one of those that a value makes
        # likelier.
        supports = oracle.supports(reports)[:, :_MOST_ITEMS]
        for value, is_supported in enumerate(supports.T):
            name = f"support of value {value} by attribute {number}"
            added[name] = is_supported
    return added


def kept_by(fitted: Any) -> dict[str, str]:
    """Return what an estimator keeps and shows: its attributes, its pickle and its text."""
    parameters = fitted.get_params(deep=False)
    texts = {}
    for name, value in vars(fitted).items():
        if name not in parameters:
            texts[name] = repr(value)
    # Parameters are public, and are left out.
    texts["the text"] = repr(fitted)
    for name, text in texts.items():
        # An address in memory is that of a call, and may well be the same for all calls
        # with a table.
        texts[name] = re.sub(" at 0x[0-9a-f]+", "", text)
    try:
        texts["the pickle"] = pickle.dumps(fitted).hex()
    except Exception as error:
        texts["the pickle"] = type(error).__name__
    return texts
