"""What an audit releases and sees: neighbouring tables, single calls, and outputs as columns of comparable cells."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import heard, read_bounds
from skdp.domain import Categories, Domain, Interval
from skdp.local import (
    HeavyHitters,
    LocalTableEncoder,
    ReportTransformer,
    SetValuedEncoder,
)
from skdp.tables import is_frame, is_missing, take_rows

# A column for each part of the output, an entry for each draw.
Outputs = dict[str, NDArray[Any]]

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
    for name in ("encoder", "transformer", "estimator"):
        if hasattr(parameters.get(name), "get_params"):
            return make_records(parameters[name])
    columns = _cells_of_columns(estimator, parameters)
    if math.prod(map(len, columns.values())) <= _MOST_RECORDS:
        rows = list(itertools.product(*columns.values()))
    else:
        rows = list(zip(*map(_some, columns.values()), strict=True))
    # Undeclared and missing values are accepted, so they are protected, too.
    if parameters.get("handle_unknown", "error") != "error":
        rows.append(tuple(map(_outside, columns.values())))
        rows.append((None,) * len(columns))
    dtypes = [_dtype([row[place] for row in rows]) for place in range(len(columns))]
    return [_record(columns, row, dtypes) for row in rows]


def _cells_of_columns(
    estimator: Any, parameters: Mapping[str, Any]
) -> dict[Any, list[Any]]:
    """List what is tried of each column that an estimator declares."""
    columns: dict[Any, list[Any]] = {}
    for name, attribute in declared_values(estimator).items():
        if isinstance(attribute, Interval | Categories):
            attribute = attribute.values
        values = [None if is_missing(value) else value for value in attribute]
        if isinstance(estimator, SetValuedEncoder):
            most = parameters["max_size"]
            size = most[name] if isinstance(most, Mapping) else most
            # A list of more values than are reported, and an empty one, among others.
            values = [values[:size], [], values[:1], values, values[-size:]]
        columns[name] = values
    bounds = parameters.get("bounds")
    if bounds is not None:
        is_named = isinstance(bounds, Mapping)
        names = list(bounds) if is_named else _names(np.atleast_2d(bounds))
        for name, (low, high) in zip(names, read_bounds(bounds, names), strict=True):
            # A number beyond the bounds must be clipped without a trace.
            inside = [low, high, (low + high) / 2, low + (high - low) / 3]
            numbers = [*inside, np.clip(0.0, low, high), 2 * high - low]
            columns[name] = [float(number) for number in dict.fromkeys(numbers)]
    if columns:
        return columns
    is_ours = isinstance(estimator, ReportTransformer | HeavyHitters)
    if is_ours and "categories" not in parameters:
        return {"word": _words(parameters)}
    raise ValueError(
        "nothing is declared to make neighbouring tables of: declare the categories, or "
        "give neighbours"
    )


def declared_values(estimator: Any) -> dict[Any, Any]:
    """Return the values that an estimator declares, or has found in `fit`, for each column of categories."""
    declared = getattr(estimator, "domain_", getattr(estimator, "categories", None))
    if isinstance(estimator, LocalTableEncoder) and hasattr(estimator, "protocol_"):
        declared = estimator.protocol_.declared.get("categories")
    if isinstance(declared, Domain):
        return {name: declared[name] for name in declared.columns}
    if isinstance(declared, Mapping):
        return dict(declared)
    if declared is None or isinstance(declared, str):
        return {}
    return dict(zip(_names(declared), declared, strict=True))


def _names(columns: Any) -> list[str]:
    """Name the columns of an array, as scikit-learn does."""
    return [f"x{place}" for place in range(len(columns))]


def _words(parameters: Mapping[str, Any]) -> list[Any]:
    """Invent words of an open vocabulary, over the alphabet if there is one."""
    if "alphabet" in parameters:
        letters = parameters["alphabet"] or "abc"
        return [letters[0], letters[1], letters[-1] * parameters["max_length"]]
    words: list[Any] = ["a", "b", "c", "d"]
    if parameters.get("handle_missing") == "value":
        words.append(None)
    return words


def _some(values: list[Any]) -> list[Any]:
    """Choose six values, some of them twice if there are fewer."""
    k = len(values)
    # Ends, their neighbours and the middle: an oracle that treats some codes differently
    # does so there.
    places = range(6) if k <= 6 else [0, 1, k // 2, k // 2 + 1, k - 2, k - 1]
    return [values[place % k] for place in places]


def _outside(values: Sequence[Any]) -> Any:
    """Return a value that is not declared."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, int | float | np.number) for value in present):
        return 2 * max(map(abs, present), default=0) + 1
    return "undeclared" + "".join(map(str, present[:1]))


def _dtype(values: Sequence[Any]) -> Any:
    """Return the dtype of a column that takes these values."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, float) for value in present):
        return float
    if any(value is None or isinstance(value, str | list) for value in values):
        return object
    return np.array(values).dtype


def _record(
    names: Iterable[Any], row: Sequence[Any], dtypes: Sequence[Any]
) -> pd.DataFrame:
    """Make a table of one record."""
    columns = {}
    for name, value, dtype in zip(names, row, dtypes, strict=True):
        columns[name] = pd.Series([value], dtype=dtype)
    return pd.DataFrame(columns)


# Tables of any library.


def count_rows(table: Any) -> int:
    """Count the rows of a table."""
    if is_frame(table):
        return int(nw.from_native(table, eager_only=True).shape[0])
    return len(table)


def repeat(table: Any, rows: int) -> Any:
    """Make a table of equal rows."""
    if not is_frame(table) and not isinstance(table, np.ndarray | pd.Series):
        return list(table) * rows
    repeated = take_rows(table, np.zeros(rows, np.intp))
    if isinstance(table, pd.DataFrame | pd.Series):
        return repeated.reset_index(drop=True)
    return repeated


def in_library(table: Any, library: str) -> Any:
    """Write a table in polars or pyarrow."""
    frame = nw.from_native(table, eager_only=True)
    return frame.to_polars() if library == "polars" else frame.to_arrow()


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


def differing_rows(tables: Sequence[Any]) -> int:
    """Count the rows in which two tables of as many rows differ; None and nan do."""
    rows, other_rows = (_rows_of(_columns(table)) for table in tables)
    pairs = zip(rows, other_rows, strict=True)
    return sum(repr(row) != repr(other_row) for row, other_row in pairs)


def differ_outside(tables: Sequence[Any], names: Collection[Any]) -> bool:
    """Whether two tables differ in the number of rows, or in other columns than some."""
    columns, other_columns = map(_columns, tables)
    labels = {f"column {str(name)!r}" for name in names}
    for name, values in columns.items():
        other_values = other_columns.get(name)
        if other_values is None or len(values) != len(other_values):
            return True
        if name in labels:
            continue
        for value, other_value in zip(values, other_values, strict=True):
            if repr(value) != repr(other_value):
                return True
    return len(columns) != len(other_columns)


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


def _rows_of(columns: Outputs) -> list[tuple[Any, ...]]:
    return list(zip(*(array.tolist() for array in columns.values()), strict=True))


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
    form: Any = type(value).__name__
    if not isinstance(value, _PLAIN + _NESTED) and is_frame(value):
        columns = _columns(value)
        cells |= _repetitions(columns, name)
        form = _form_of_table(value)
        value = {label: array.tolist() for label, array in columns.items()}
    elif isinstance(value, np.ndarray):
        form = "array", value.dtype.str, value.shape
        value = value.ravel() if value.dtype == object else value.ravel().tolist()
    elif not isinstance(value, _NESTED):
        cells[name or "the value"] = value
        return form
    keys: Iterable[Any] = range(len(value))
    items = value
    if isinstance(value, dict):
        keys, items = value, value.values()
    # The types of the cells distinguish 1, 1.0 and True.
    parts = []
    for key, item in zip(keys, items, strict=True):
        parts.append((str(key), _flatten(item, f"{name}[{key!r}]", cells)))
    return form, parts


def _repetitions(columns: Outputs, name: str) -> dict[str, int]:
    """Count how often rows repeat: those that share random bits are equal more often than others."""
    rows = _rows_of(columns)
    if len(rows) < 2:
        return {}
    counts = Counter(map(repr, rows))
    cells = {f"{name}the number of different rows": len(counts)}
    for text, count in counts.items():
        cells[f"{name}the number of rows of one kind\0{text}"] = count
    return cells


def _form_of_table(table: Any) -> str:
    """Write what is visible of a table beside its cells."""
    parts: list[Any] = [type(table)]
    if isinstance(table, pd.DataFrame):
        index = table.index
        parts += [*map(_dtype_text, table.dtypes), type(index), index.tolist()]
        parts += [table.attrs, index.names, table.columns.names]
    elif not isinstance(table, pd.Series):
        schema = nw.from_native(table, eager_only=True).schema
        parts += [str(schema), str(getattr(table, "schema", ""))]
    return repr(parts)


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
        words = values.astype(np.int64).view(np.uint64)
    elif values.dtype.kind == "f":
        words = _words_of_floats(values.astype(np.float64))
    else:
        return _hash_objects(values.astype(object))
    return pd.util.hash_array(words)


def _hash_objects(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash a column of objects: numbers as in columns of numbers, what is neither number nor text by its text."""
    if pd.api.types.infer_dtype(values, skipna=False) == "string":
        return pd.util.hash_array(values)
    cache: dict[Any, np.uint64] = {}
    hashes = np.empty(len(values), np.uint64)
    for place, value in enumerate(values):
        key = (type(value), repr(value))
        if key not in cache:
            cache[key] = _hash_object(value)
        hashes[place] = cache[key]
    return hashes


def _hash_object(value: Any) -> np.uint64:
    if is_missing(value):
        cell = np.array([math.nan])
    elif isinstance(value, bool | np.bool_ | int | np.integer):
        cell = np.array([int(value) % (1 << 64)], np.uint64)
    elif isinstance(value, float | np.floating):
        cell = np.array([float(value)])
    elif isinstance(value, str):
        cell = np.array([value], object)
    else:
        cell = np.array([f"\0{type(value).__name__}:{value!r}"], object)
    return hash_cells(cell)[0]


def _words_of_floats(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Write floats as words of 64 bits: integers among them as integers, but not -0.0, whose sign is visible."""
    is_integer = (np.abs(values) < 2.0**62) & (values == np.floor(values))
    is_integer &= ~(np.signbit(values) & (values == 0))
    integers = np.where(is_integer, values, 0).astype(np.int64)
    # One of the many words of nan.
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    return np.where(is_integer, integers.view(np.uint64), bits)


def combine(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash pairs of hashes."""
    return pd.util.hash_array(pd.util.hash_array(left) + right)


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
    # Whether it is released by `fit_transform`.
    fit: bool = False
    # Whether the output is what a clone keeps and shows after its release.
    kept: bool = False


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
    # Makes unfitted clones.
    fresh: Callable[[], Any] | None = None
    central: bool = False
    # Told of draws as they are made, for a progress bar.
    advance: Callable[[int], Any] = lambda n_draws: None
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def groups(self) -> list[list[Situation]]:
        """List the groups of tables for single calls."""
        # All pairs of records by single calls.
        groups = [self._group("", self.tables)]
        two_rows = self._several_rows()
        groups += [self._group("two rows: ", tables) for tables in two_rows]
        if self.fit_release is not None and two_rows:
            # Whether `fit` remembers a row of another record.
            name = "fit_transform of two rows: "
            groups.append(self._group(name, two_rows[1], fit=True))
        elif self.fit_release is not None:
            groups.append(self._group("fit_transform: ", self.tables, fit=True))
        if two_rows:
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

    def _with_ends(self, records: Sequence[Any], place: int) -> list[Any]:
        """Stack records, with the first and with the last one of all at a place among them."""
        before, after = records[:place], records[place:]
        ends = self.tables[0], self.tables[-1]
        return [stack([*before, end, *after]) for end in ends]

    def _several_rows(self) -> list[list[Any]]:
        """Pair tables of two rows that differ in one: whether rows are sorted, or share random bits, shows in them."""
        first, middle = self.tables[0], self.tables[len(self.tables) // 2]
        if not self.paired:
            return []
        try:
            return [
                self._with_ends([middle], 1),
                self._with_ends([first], 1),
                self._with_ends([middle], 0),
            ]
        except Exception:
            return []  # tables of unlike dtypes

    def _mixed_groups(self) -> list[list[Situation]]:
        """List groups of tables of seven rows that differ in the first or the last one, also of other libraries."""
        records = self._in_turn(7)
        with_first = self._with_ends(records[1:], 0)
        groups = [
            self._group("7 rows: ", with_first),
            self._group("7 rows: ", self._with_ends(records[:-1], 6)),
        ]
        for library in ("polars", "pyarrow"):
            try:
                tables = [in_library(table, library) for table in with_first]
            except Exception:
                continue  # it is not installed, or does not take such values
            groups.append(self._group(f"{library}: ", tables))
        return groups

    def _in_turn(self, n_rows: int) -> list[Any]:
        return [self.tables[place % len(self.tables)] for place in range(n_rows)]

    def group_of_many_rows(self) -> list[Situation]:
        """Return tables of 24 rows that differ in the first one, for what happens rarely."""
        if not self._several_rows():
            return []
        return self._group("24 rows: ", self._with_ends(self._in_turn(24)[1:], 0))

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
        self.advance(n)
        return outputs

    def samples(self, n: int) -> list[Outputs]:
        """Draw a sample of outputs of each table."""
        return [self.rows(which, n) for which in range(len(self.tables))]

    def calls(self, situation: Situation, n: int) -> list[dict[str, Any]]:
        """Draw outputs by releasing a table again and again, with everything that is visible."""
        outputs = []
        for _ in range(n):
            outputs.append(read_call(lambda: self._seen(situation)))
            # Where rows are draws, these few are beside the number that was asked for.
            if not self.each_row:
                self.advance(1)
        return outputs

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
