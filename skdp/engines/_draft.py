"""Drafts of domain files from private tables, which are read in batches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdp._arrays import Floats, Integers, Mask
from skdp.domain import (
    Domain,
    Interval,
    are_date_codes,
    check_draft,
    describe_texts,
    drop_number_bins,
    list_or_cut,
)
from skdp.engines._csv import (
    MISSING_TEXTS,
    infer_type,
    parse_numbers,
    parse_texts,
    parse_times,
)
from skdp.engines._io import Extra
from skdp.tables import ColumnError, distinct_values, type_of_value

pyarrow, compute = Extra("pyarrow"), Extra("pyarrow.compute")

# Largest number of distinct values of a column that are kept. A column with more values is
# drafted from these, from its extremes, and from a sample of its numbers.
MAX_DISTINCT = 1 << 16
# Numbers in this sample, which estimates the number of distinct ones with an error of 1 %.
SAMPLE_SIZE = 1 << 13
# Largest number of columns that are compared with each other, and rows of a batch with
# which most pairs are found not to follow from each other.
MAX_PAIRED_COLUMNS = 200
TRIAL_ROWS = 1 << 11

# Comment at the beginning of a drafted file.
_DRAFT_COMMENT = (
    "A draft from the data, without any protection: the observed values and the range\n"
    "of the numbers are private.\n"
    "Before you use it for a release, edit it from public knowledge, such as a code book\n"
    "or a questionnaire."
)

_REAL_COMMENT = (
    "Numbers with any decimals are declared. If all numbers are rounded, such as amounts\n"
    "to cents, declare decimals = 2 in place of real = true."
)

# Names of columns that identify people, such as "name", "id", "person_id" and "personID".
_IDENTIFIER_NAME = re.compile(r"(?:(?:^|[\W_])(?i:uuid|id|e-?mail|name)|[a-z]I[dD])$")


def draft_domain_toml(
    tables: Iterable[Any],
    *,
    bins: int | None = None,
    max_values: int = 100,
    has_texts: bool = False,
) -> str:
    """Return the values of a stream of Arrow tables as a domain file, with comments for editing.

    Text and dates with up to `max_values` distinct values are listed. More dates are cut into at most 32 bins, and
    numbers with more than 32 distinct values get bounds. If a number of `bins` is given, it replaces 32, and numbers
    are cut into bins, too. Columns that identify people, and columns with a single value, are excluded. With
    `has_texts`, the columns are text of a CSV file, whose types are inferred.
    """
    # **Privacy.** The draft contains values of the data; its first lines warn of it.
    n_bins = 32 if bins is None else bins
    check_draft(n_bins, max_values)
    columns, hierarchies = _read_columns(tables, max_values, has_texts=has_texts)
    drafted: dict[Any, list[Any] | Interval] = {}
    excluded = {}
    for name, column in columns.items():
        try:
            values = _draft_column(name, column, n_bins, max_values)
            drafted[name] = drop_number_bins(values) if bins is None else values
        except ColumnError as error:
            excluded[name] = str(error)
    if not drafted:
        reasons = [f"{name!r} {reason}" for name, reason in excluded.items()]
        raise ValueError(
            "X must have a column of categories, numbers or dates, got only columns "
            f"that a draft cannot declare: {'; '.join(reasons)}."
        )
    lines = _DRAFT_COMMENT.split("\n")
    for name, reason in excluded.items():
        lines.append(f"Column {name!r} is excluded: it {reason}.")
    header = "\n".join(f"# {line}" for line in lines)
    counts = {name: columns[name].counts for name in drafted}
    comments = hierarchies.describe(counts)
    for name, values in drafted.items():
        if isinstance(values, Interval) and values.real:
            comments[name] = f"{comments.get(name, '')}\n{_REAL_COMMENT}".strip()
    return f"{header}\n\n{Domain(drafted).to_toml(comments=comments)}"


def _read_columns(
    tables: Iterable[Any], max_values: int, *, has_texts: bool
) -> tuple[dict[Any, _Column], _Hierarchies]:
    """Count the values of the columns of a stream of tables, and find columns that follow from each other."""
    columns: dict[Any, _Column] = {}
    hierarchies = _Hierarchies([])
    limit = max(MAX_DISTINCT, max_values)
    for table in tables:
        if not columns:
            for field in table.schema:
                columns[field.name] = _Column(field.type, limit, has_texts=has_texts)
            hierarchies = _Hierarchies(list(columns))
        if table.num_rows:
            codes = {}
            for name, column in columns.items():
                codes[name] = column.add(table.column(name).combine_chunks())
            hierarchies.add(codes)
    return columns, hierarchies


# Distinct values of a column


class _Numbers:
    """Extremes of many numbers, and a pseudorandom sample of the distinct ones with their rows."""

    def __init__(self) -> None:
        self.extremes: list[float] = []
        self.n_rows = 0
        self._values = np.zeros(0)
        self._counts = np.zeros(0, np.int64)
        # Numbers whose hash is below this fraction of the largest hash are in the sample.
        self._fraction = 1.0

    def add(self, numbers: Floats, counts: Integers) -> None:
        """Add numbers with their numbers of rows."""
        if not len(numbers):
            return
        # A fraction among the numbers is kept beside the smallest and the largest one.
        kept = np.append(self.extremes, [numbers.min(), numbers.max()])
        kept = np.append(kept, numbers[numbers != np.floor(numbers)][:1])
        fractions = kept[kept != np.floor(kept)][:1].tolist()
        self.extremes = [float(kept.min()), float(kept.max()), *fractions]
        self.n_rows += int(counts.sum())
        numbers = np.append(self._values, numbers)
        counts = np.append(self._counts, counts)
        while True:
            hashes = pd.util.hash_array(numbers + 0.0)  # -0.0 becomes 0.0
            is_sampled = hashes <= int(self._fraction * (2**64 - 1))
            numbers, counts = numbers[is_sampled], counts[is_sampled]
            self._values, indices = np.unique(numbers, return_inverse=True)
            if len(self._values) <= SAMPLE_SIZE:
                break
            self._fraction /= 2
        self._counts = np.bincount(indices, counts, len(self._values)).astype(np.int64)

    @property
    def n_values(self) -> float:
        """Estimated number of distinct numbers."""
        return len(self._values) / self._fraction

    @property
    def n_repeated(self) -> float:
        """Estimated number of distinct numbers that are in several rows."""
        return float((self._counts > 1).sum()) / self._fraction


class _Distinct(NamedTuple):
    """Distinct values of a column in ascending order, and its numbers of rows."""

    values: list[Any]
    has_missing: bool
    n_rows: float
    """Number of rows with a value."""
    n_values: float
    """Number of distinct values, of which `values` are a part if there are many."""
    n_repeated: float
    """Number of values that are in several rows."""


class _Column:
    """Distinct values of a column with their numbers of rows, of which batches of rows are counted.

    With more values than a limit, numbers and times are summarized, and further text is not counted.
    """

    def __init__(self, arrow_type: Any, limit: int, *, has_texts: bool) -> None:
        self._limit, self._has_texts = limit, has_texts
        # Values of an ordered dictionary, which is a declaration.
        self.declared: list[Any] | None = None
        # Numbers of rows of missing values, and of each distinct value.
        self.counts = np.zeros(1, np.int64)
        self._values = pyarrow.nulls(0)
        self._error = ""
        # With too many values, their type of `find_text_type`, and a summary of numbers or
        # the first and the last time.
        self._type = ""
        self._numbers = _Numbers()
        self._times: list[Any] = []

    def add(self, column: Any) -> Integers | None:
        """Count the rows of a batch; return the code of each row, 0 if missing, or None with too many values."""
        if pyarrow.types.is_dictionary(column.type):
            if column.type.ordered and self.declared is None:
                self.declared = column.dictionary.to_pylist()
            column = column.dictionary_decode()
        if self._error:
            return None
        if self._type:
            self._summarize(column, np.ones(len(column), np.int64))
            return None
        try:
            coded = column.dictionary_encode()
        except pyarrow.ArrowNotImplementedError:
            self._error = f"has values of type {column.type}, which no domain declares"
            return None
        codes = self._count(coded)
        if len(self._values) <= self._limit:
            return codes
        self._type = self._find_type()
        if self._type != "text":
            self._summarize(self._values, self.counts[1:])
        return None

    def _count(self, coded: Any, *, adds_values: bool = True) -> Integers:
        """Count the rows of a dictionary array; return the code of each row, 0 if missing.

        Unless `adds_values`, only rows of known values are counted, and the code of other rows is -1.
        """
        found, known = coded.dictionary, self._values.cast(coded.dictionary.type)
        places = compute.index_in(found, value_set=known)
        is_new = compute.is_null(places).to_numpy(zero_copy_only=False)
        numbers = places.fill_null(0).to_numpy().astype(np.intp) + 1
        numbers[is_new] = -1
        if adds_values:
            numbers[is_new] = len(known) + 1 + np.arange(is_new.sum())
            new = found.filter(pyarrow.array(is_new))
            self._values = pyarrow.concat_arrays([known, new])
        # The index -1 of missing values is the last one.
        indices = coded.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy()
        codes = np.append(numbers, 0)[indices]
        n_new = len(self._values) + 1 - len(self.counts)
        counts = np.pad(self.counts, (0, n_new))
        self.counts = counts + np.bincount(codes[codes >= 0], minlength=len(counts))
        return codes

    def _find_type(self) -> str:
        """Return the type of many values; types other than numbers and times are "text"."""
        if self._has_texts:
            texts = set(self._values.to_pylist()).difference(MISSING_TEXTS)
            return infer_type(texts, find_dates=True)
        types, value_type = pyarrow.types, self._values.type
        if types.is_date(value_type) or types.is_timestamp(value_type):
            return "datetime"
        is_number = types.is_integer(value_type) or types.is_floating(value_type)
        return "number" if is_number or types.is_decimal(value_type) else "text"

    def _summarize(self, column: Any, counts: Integers) -> None:
        """Add values with their numbers of rows to the summary; other text makes the column a column of text."""
        if self._type == "text":
            self._count(column.dictionary_encode(), adds_values=False)
            return
        if self._has_texts:
            is_missing = compute.is_in(column, pyarrow.array(MISSING_TEXTS))
            column = compute.if_else(is_missing, None, column)
        is_present = column.is_valid().to_numpy(zero_copy_only=False)
        self.counts[0] += counts[~is_present].sum()
        counts, column = counts[is_present], column.drop_null()
        found: Any
        if self._type == "number":
            found = parse_numbers(column)
            if found is not None:
                is_number = ~np.isnan(found)
                self._numbers.add(found[is_number], counts[is_number])
        else:
            found = parse_times(column)
            if found is not None and len(found):
                ends = compute.min_max(found).as_py().values()
                is_date = self._type == "date"
                times = [end.date() if is_date else end for end in ends]
                self._times = [min(self._times + times), max(self._times + times)]
        if found is None:
            # The other text is kept for the comment on the column.
            self._type = "text"
            self._count(column.unique().dictionary_encode())

    def read(self) -> _Distinct:
        """Return the distinct values, or a subset with the extremes if there are too many."""
        if self._error:
            raise ColumnError(self._error)
        n_missing = self.counts[0]
        if self._has_texts:
            values, is_value = self._parse()
            n_missing += self.counts[1:][~is_value].sum()
        else:
            values, has_nan = distinct_values(pyarrow.chunked_array([self._values]))
            n_missing += has_nan
        n_rows: float = self.counts.sum() - n_missing
        n_values: float = len(values)
        n_repeated: float = (self.counts[1:] > 1).sum()
        if self._numbers.n_rows:
            n_rows, n_values = self._numbers.n_rows, self._numbers.n_values
            n_repeated = self._numbers.n_repeated
        if self._type == "number":
            values = sorted({*values, *self._numbers.extremes})
        elif self._type not in ("", "text"):
            values = sorted({*values, *self._times})
        return _Distinct(values, n_missing > 0, n_rows, n_values, n_repeated)

    def _parse(self) -> tuple[list[Any], Mask]:
        """Parse distinct texts of a CSV file; also return False for each text that is a missing value."""
        texts = self._values.to_pylist()
        present = set(texts).difference(MISSING_TEXTS)
        text_type = self._type or infer_type(present, find_dates=True)
        # In a column of text, only the empty text is missing, because "NA" or "None" may
        # be a value.
        is_text = text_type == "text" and len(present) > 0
        labels = set(texts) - {""} if is_text else ()
        values = parse_texts("", texts, text_type, labels)
        if text_type == "number" and all(x is None or x % 1 == 0 for x in values):
            values = [None if x is None else int(x) for x in values]
        is_value = np.array([value is not None for value in values], bool)
        return sorted({value for value in values if value is not None}), is_value


# Declarations


def _draft_column(
    name: Any, column: _Column, bins: int, max_values: int
) -> list[Any] | Interval:
    """List or cut the values of a column; raise an error if they identify people, or if there is a single one."""
    found = column.read()
    values = column.declared
    if values is None:
        drafted = _draft_values(name, found, bins, max_values)
        if isinstance(drafted, Interval):
            drafted.missing = found.has_missing
            return drafted
        values = drafted
    if found.has_missing:
        values = [*values, None]
    if len(values) == 1:
        raise ColumnError("has a single value; declare further values, or drop it")
    return values


def _draft_values(
    name: Any, found: _Distinct, bins: int, max_values: int
) -> list[Any] | Interval:
    """List or cut the distinct values of a column, but cut unique values; raise an error if they identify people."""
    values = found.values
    value_type = type_of_value(values[0]) if values else None
    is_text = value_type == "string"
    # At least 90 % of the values occur once if 95 % of the rows have distinct values.
    min_unique = 0.95 * found.n_rows
    if is_text:
        # Beside the names, a word such as "unknown" may occur in many rows. At most a
        # tenth of the names occur in several rows.
        min_unique = min(min_unique, 10 * found.n_repeated)
    is_unique = found.n_values >= max(6, min_unique)
    is_whole = value_type == "number" and all(value % 1 == 0 for value in values)
    is_date = is_whole and are_date_codes(values)
    limits = {"max_values": max_values, "max_numbers": bins}
    if is_text or (is_whole and not is_date):
        if is_unique:
            clause = describe_texts(values) if is_text else ""
            raise ColumnError(
                f"has values that nearly all occur once{clause}; drop it, or declare "
                "groups or bins"
            )
        has_name = len(values) > bins and _IDENTIFIER_NAME.search(str(name))
        if has_name or (is_text and any("@" in text for text in values)):
            raise ColumnError(
                "seems to identify people; drop it, or declare it from public knowledge"
            )
    elif is_unique and not (is_date and values[-1] < 1_000_000):  # a day, not a month
        limits = {"max_values": 0, "max_numbers": 0}
    return list_or_cut(values, bins=bins, **limits)


# Columns that follow from each other


class _Hierarchies:
    """Pairs of columns of which one follows from the other in all rows."""

    def __init__(self, names: Sequence[Any]) -> None:
        # The code of the coarser column for each code of the source; -1 if not seen.
        self._codes: dict[tuple[Any, Any], Integers] = {}
        if len(names) <= MAX_PAIRED_COLUMNS:
            for pair in itertools.permutations(names, 2):
                self._codes[pair] = np.zeros(0, np.int64)

    def add(self, codes: dict[Any, Integers | None]) -> None:
        """Exclude pairs that do not follow from each other in a batch; `codes` are the codes of its rows."""
        sizes = {
            name: rows.max() + 1 for name, rows in codes.items() if rows is not None
        }
        for pair, known in list(self._codes.items()):
            source, coarser = (codes[name] for name in pair)
            if source is None or coarser is None:
                del self._codes[pair]
                continue
            n_new = max(0, sizes[pair[0]] - len(known))
            found = np.pad(known, (0, n_new), constant_values=-1)
            for rows in (slice(TRIAL_ROWS), slice(TRIAL_ROWS, None)):
                is_new = found[source[rows]] < 0
                found[source[rows][is_new]] = coarser[rows][is_new]
                if (found[source[rows]] != coarser[rows]).any():
                    del self._codes[pair]
                    break
            else:
                self._codes[pair] = found

    def describe(self, counts: dict[Any, Integers]) -> dict[Any, str]:
        """Return a comment for each column that follows from another one; `counts` are the rows of each value."""
        comments: dict[Any, str] = {}
        sizes = {name: np.count_nonzero(rows) for name, rows in counts.items()}
        ascending = sorted(counts, key=lambda name: sizes[name])
        for index, coarser in enumerate(ascending):
            n_rows = counts[coarser].sum()
            # The coarsest column from which a column follows is named. Of two columns that
            # follow from each other, such as an age and its square, the first is the source.
            equal = [x for x in ascending[:index] if sizes[x] == sizes[coarser]]
            finer = [x for x in ascending[index:] if sizes[x] > sizes[coarser]]
            for source in (*equal, *finer):
                # With fewer than five rows per value of the source, or without the most
                # frequent value of the coarser column, it may follow by chance.
                n_others = n_rows - counts[coarser].max()
                is_frequent = min(n_others, n_rows / sizes[source]) >= 5
                if is_frequent and (source, coarser) in self._codes:
                    text = f"{coarser} follows from {source}: derive it or drop it."
                    comments[coarser] = text
                    break
        return comments
