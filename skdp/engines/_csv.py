"""Strict reading of CSV files, and parsing of strings as declared values.

Each value is parsed independently of other rows.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import date, datetime
from functools import cached_property
from itertools import islice
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

import numpy as np

from skdp._arrays import ColumnName, Floats
from skdp.domain import Categories, Interval, is_mixed
from skdp.readers import BATCH_ROWS, Extra, RefusedBatch
from skdp.tables import drop_missing, types_of_values

pyarrow, arrow_csv = Extra("pyarrow"), Extra("pyarrow.csv")
compute = Extra("pyarrow.compute")

# Size of the blocks of a CSV file.
BLOCK_CHARACTERS = 1 << 22
# Limits of untrusted CSV files, also of lines that are small if they are compressed.
MAX_LINE_CHARACTERS = 1 << 24
# Length of lines that are certainly within a block of Arrow of 2**21 bytes.
SHORT_LINE_CHARACTERS = 1 << 19
MAX_CSV_COLUMNS = 1 << 17

# Arrow types of the types of `find_text_type`. Functions, because pyarrow is optional.
ARROW_TYPES: dict[str, Callable[[], Any]] = {
    "text": lambda: pyarrow.string(),
    "number": lambda: pyarrow.float64(),
    "bool": lambda: pyarrow.bool_(),
    "date": lambda: pyarrow.date32(),
    "datetime": lambda: pyarrow.timestamp("us"),
}


# fmt: off
# Strings that pandas reads as missing, unless they are declared.
MISSING_TEXTS = (
    "", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a",
    "nan", "null",
)

_BOOLS = {
    "True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False,
}
# fmt: on

# Strings that are inferred to be numbers, as pandas, Polars, Spark (1.25E7), readr (1e5)
# and Excel (1E+05) write them. Codes such as 007 and 1E5 are text.
_NUMBER = re.compile(
    r"-?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)(?:[eE][+-]\d{1,3})?"
    r"|-?\d(?:\.\d+[eE]|e)\d{1,3}|-?[Ii]nf(?:inity)?",
    re.A,
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.A)


class CsvFile:
    """One CSV file at a path of a file system, whose columns are read as text."""

    def __init__(self, filesystem: Any, path: str, delimiter: str) -> None:
        """Read the names of the columns."""
        self.filesystem, self.path, self.delimiter = filesystem, path, delimiter
        self.name = PurePath(path).name
        with closing(self.read_rows()) as rows:
            self.header = next(rows)

    def open(self) -> Any:
        """Open the file as a stream of bytes, decompressed if it is gzipped."""
        compression = "gzip" if self.path.endswith(".gz") else None
        return self.filesystem.open_input_stream(self.path, compression=compression)

    def read(self, columns: Sequence[str]) -> Generator[Any, None, None]:
        """Yield columns of the rows, in order, as tables of strings."""
        if self.block_size:
            yield from self._read_regular(columns)
            return
        schema = pyarrow.schema([(name, pyarrow.string()) for name in columns])
        indices = [self.header.index(name) for name in columns]
        with closing(self.read_rows()) as rows:
            next(rows)
            while block := list(islice(rows, BATCH_ROWS)):
                texts = [[row[index] for row in block] for index in indices]
                yield pyarrow.table(texts, schema)

    def read_rows(self) -> Generator[list[str], None, None]:
        """Yield the rows as lists of strings, starting with the header.

        An empty line is a missing value in a file of one column, and ignored otherwise.
        """
        header: list[str] = []
        header_end = ""
        line = 1
        reason = (
            "a quoted value is not closed, is followed by other text or is too long. "
            "Correct it, or use `delimiter` if another character separates the values"
        )
        with io.TextIOWrapper(self.open(), "utf-8-sig", newline="") as file:
            last = [""]
            lines = _keep_last(_read_lines(file), last)
            reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
            # Errors of Python contain bytes of the file, so another error is raised outside
            # of their handlers.
            try:
                for row in reader:
                    header = header or row
                    if len(header) > MAX_CSV_COLUMNS:
                        reason = (
                            f"expected at most {MAX_CSV_COLUMNS:,} columns, got more"
                        )
                        break
                    header_end = header_end or last[0][-1:]
                    # Some libraries write a carriage return within a value without quotes.
                    if {header_end, last[0][-1:]} == {"\r", "\n"}:
                        reason = (
                            "it ends in another way than the header. Quote values that "
                            "contain line breaks"
                        )
                        break
                    if row and len(row) == len(header):
                        yield row
                    elif not row and len(header) == 1:
                        yield [""]
                    elif row:
                        reason = f"expected {len(header)} values as in the header, got {len(row)}"
                        break
                    line = reader.line_num + 1
                else:
                    if header:
                        return
                    reason = "expected a header, got an empty file"
            except OSError as error:
                if error.errno is not None:
                    raise
                reason = ""
            except RefusedBatch:
                reason = f"expected at most {MAX_LINE_CHARACTERS:,} characters, got a longer line"
            except UnicodeDecodeError:
                line = self._find_undecodable_line()
                reason = "expected UTF-8 text, got other bytes. Convert the file"
            except csv.Error:
                pass
        if not reason:
            raise damage_error(self.name)
        raise RefusedBatch(f"{self.name}, line {line}: {reason}.")

    def _find_undecodable_line(self) -> int:
        """Return the number of the first line that is not UTF-8."""
        number = 0
        with (
            suppress(UnicodeDecodeError),
            io.TextIOWrapper(self.open(), "latin-1", newline="") as file,
        ):
            while line := file.readline(MAX_LINE_CHARACTERS):
                number += 1
                line.encode("latin-1").decode()
        return number

    @cached_property
    def block_size(self) -> int:
        """Bytes of a block with which Arrow reads the file like `read_rows`; 0 if it does not.

        In a regular file, values have no quotes, or are in quotes and have no line breaks.
        """
        # Small blocks save 70 megabytes of memory (a million rows of five columns).
        size = 1 << 21
        mark = re.escape(self.delimiter)
        # Python 3.11.2 accepts an open quote in a pattern with possessive quantifiers.
        quoted = re.compile(rf'(?<![^{mark}\n])"[^"\n]*(?:""[^"\n]*)*"(?![^{mark}\n])')
        with (
            suppress(UnicodeDecodeError, OSError),
            io.TextIOWrapper(self.open(), "utf-8-sig") as file,
        ):
            while text := file.read(BLOCK_CHARACTERS) + file.readline(
                MAX_LINE_CHARACTERS
            ):
                # Arrow skips the first line as the header, even if it is empty.
                if text[0] == "\n":
                    return 0
                if '"' in text and '"' in quoted.sub("", text):
                    return 0
                if _has_long_line(text):
                    size = MAX_LINE_CHARACTERS
            # A carriage return is allowed in a line break only.
            has_line_ends = file.newlines in (None, "\n", "\r\n", ("\n", "\r\n"))
            return size if has_line_ends and self.delimiter.isascii() else 0
        return 0

    def _read_regular(self, columns: Sequence[str]) -> Generator[Any, None, None]:
        """Yield columns of the rows of a regular file, whose lines are within blocks, as tables of strings."""
        names = list(map(str, range(len(self.header))))
        indices = dict(zip(self.header, names, strict=True))
        read = arrow_csv.ReadOptions(
            use_threads=False,
            block_size=self.block_size,
            skip_rows=1,
            column_names=names,
        )
        # As in `read_rows`, an empty line is a value of a single column.
        parse = arrow_csv.ParseOptions(
            delimiter=self.delimiter, ignore_empty_lines=len(names) > 1
        )
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pyarrow.string()),
            include_columns=[indices[name] for name in columns],
        )
        with self.open() as file, suppress(pyarrow.ArrowInvalid):
            for batch in arrow_csv.open_csv(file, read, parse, convert):
                yield pyarrow.Table.from_batches([batch]).rename_columns(columns)
            return
        # `read_rows` names the line of the error. A header without rows is not an error.
        if sum(1 for _ in self.read_rows()) > 1:
            raise damage_error(self.name)


def damage_error(name: str) -> RefusedBatch:
    """Return an error for a file that cannot be read or decompressed."""
    return RefusedBatch(
        f"{name} cannot be read, because it is damaged or incomplete. Copy or write it "
        "again."
    )


def _read_lines(file: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a file; raise an error for a line that is too long, without reading it to its end."""
    while line := file.readline(MAX_LINE_CHARACTERS):
        if len(line) == MAX_LINE_CHARACTERS and line[-1] not in "\r\n":
            raise RefusedBatch
        yield line


def _keep_last(lines: Iterable[str], last: list[str]) -> Iterator[str]:
    """Yield lines, and keep the last one in `last`."""
    for last[0] in lines:
        yield last[0]


def _has_long_line(text: str) -> bool:
    """Return True if a line of a text has more than `SHORT_LINE_CHARACTERS`."""
    start = 0
    while len(text) - start > SHORT_LINE_CHARACTERS:
        end = text.rfind("\n", start, start + SHORT_LINE_CHARACTERS + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def header_error(name: str, found: str, columns: Iterable[int] = ()) -> ValueError:
    """Return an error for a file whose first line seems to be a row, without a value of it.

    `columns` are the indices of the columns with the problem `found`.
    """
    places = ", ".join(str(index + 1) for index in columns)
    places = f" in column {places}" if places else ""
    return ValueError(
        f"{name} must start with a line of distinct column names, got {found}{places}. "
        "Add this line if the first one is a row, or rename the columns."
    )


def is_name(text: str) -> bool:
    """Check if a text of a header is no number, date or truth value."""
    return infer_type([text])[0] == "text"


# Declared columns


def find_text_type(name: ColumnName, values: Categories | Interval) -> str:
    """Return the type as which the strings of a declared column are parsed.

    One of "text", "number", "bool", "date" and "datetime".
    """
    # An Interval has edges of numbers or dates, Categories have values of any type.
    if isinstance(values, Interval):
        if values.dtype.kind == "M":
            is_date = values.dtype == np.dtype("datetime64[D]")
            return "date" if is_date else "datetime"
        is_exact = _are_exact(0 if end is None else end for end in values.ends)
    else:
        present = drop_missing(values.values)
        time_types = types_of_values(values.values) & {"date", "datetime"}
        if time_types:
            return str(time_types.pop())
        declared = _find_common_type(values)
        if declared is bool:
            return "bool"
        if declared is str or not present or is_mixed(values):
            if "" in values.labels and None in values.labels:
                raise ValueError(
                    f"Column {name!r}: a CSV file does not distinguish missing values "
                    "from empty strings. Use a Parquet or Arrow file."
                )
            return "text"
        # The shortest decimal text of a float is parsed as the same float.
        is_exact = declared is float or (declared is int and _are_exact(present))
    if not is_exact:
        raise ValueError(
            f"Column {name!r}: a CSV file can contain text, booleans, dates and "
            "numbers below 2**53 only. Use a Parquet or Arrow file."
        )
    return "number"


def _are_exact(numbers: Iterable[Any]) -> bool:
    """Return True if floats represent all integers up to the largest absolute value exactly."""
    return max(map(abs, numbers)) < 1 << 53


def _find_common_type(values: Categories) -> type | None:
    """Return the Python type of all declared values, float for ints and floats, or None if their types differ."""
    types = set(map(type, drop_missing(values.labels)))
    if types == {int, float}:
        return float
    return types.pop() if len(types) == 1 else None


# Parsers, which return None for text of another type


def _parse_number(text: str) -> float | None:
    """Parse a number; None for other text and for nan."""
    with suppress(ValueError):
        # Python would parse 1_000 as a number.
        number = float(text.replace("_", "?"))
        return None if np.isnan(number) else number
    return None


def _parse_time(text: str) -> datetime | None:
    """Parse an ISO 8601 date or datetime; None for other text and with a time zone."""
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        return time if time.tzinfo is None else None
    return None


def _parse_day(text: str) -> date | None:
    """Parse the date of an ISO 8601 date or datetime; None for other text."""
    time = _parse_time(text)
    return None if time is None else time.date()


# Parser of each type, and a description of the expected strings for errors.
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "text": (str, ""),
    "number": (_parse_number, "numbers, with decimal points as in 1.5"),
    "bool": (_BOOLS.get, "true or false"),
    "date": (_parse_day, "ISO 8601 dates or datetimes without a time zone"),
    "datetime": (_parse_time, "ISO 8601 dates or datetimes without a time zone"),
}

_TEXT_REMEDY = (
    " If it is a column of dates, declare low and high, such as low = 2020-01-01. If it "
    "is a column of text, declare values = [...], or set `delta` and declare "
    "other = true, with which frequent values are found."
)


def parse_texts(
    name: ColumnName,
    texts: Iterable[str],
    text_type: str,
    labels: Iterable[Any] = (),
    *,
    strict: bool = True,
) -> list[Any]:
    """Parse the strings of a column as `text_type`, with None for missing values.

    `labels` are declared values, which are never missing. Unless `strict`, other text among numbers becomes inf, a
    value outside of every domain.
    """
    missing = set(MISSING_TEXTS).difference(labels)
    parse, expected = _PARSERS[text_type]
    values = []
    for text in texts:
        value = None
        if text not in missing:
            value = parse(text)
            if value is None and text_type == "number" and not strict:
                value = np.inf
            if value is None:
                remedy = _TEXT_REMEDY if text_type == "number" and not labels else ""
                raise RefusedBatch(
                    f"Column {name!r} must contain {expected}, got other text.{remedy}"
                )
        values.append(value)
    return values


def drop_texts(column: object, missing_texts: Sequence[str]) -> Any:
    """Replace strings of an Arrow column by null."""
    missing = pyarrow.array(missing_texts, pyarrow.string())
    return compute.if_else(compute.is_in(column, missing), None, column)


class TextColumn:
    """Declared column of a CSV file, whose strings are parsed as its type; see `parse_texts`."""

    def __init__(
        self, name: ColumnName, values: Categories | Interval, strict: bool
    ) -> None:
        """Find the type of the declared values."""
        self.name, self.strict = name, strict
        self.text_type = find_text_type(name, values)
        self.labels = () if isinstance(values, Interval) else values.labels
        self.arrow_type = ARROW_TYPES[self.text_type]()
        # True if all declared numbers are integers.
        if isinstance(values, Interval):
            self.is_whole = values.decimals == 0
        else:
            self.is_whole = _find_common_type(values) is int

    def convert(self, texts: Any) -> Any:
        """Convert an Arrow column of strings to `arrow_type`."""
        # Arrow parses a part of the numbers that Python parses, to the same floats. Most
        # columns have no missing value, which takes longer to find than to parse them.
        is_number = self.text_type == "number"
        for missing in (None, MISSING_TEXTS) if is_number else ():
            with suppress(pyarrow.ArrowInvalid):
                present = texts if missing is None else drop_texts(texts, missing)
                numbers = present.cast(self.arrow_type)
                if not compute.any(compute.is_nan(numbers)).as_py():
                    return numbers
        # The dictionary has each distinct text once, and `indices` are its codes.
        coded = texts.combine_chunks().dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        values = parse_texts(
            self.name, distinct, self.text_type, self.labels, strict=self.strict
        )
        return pyarrow.array(values, self.arrow_type).take(coded.indices)


def parse_numbers(column: Any) -> Floats | None:
    """Convert an Arrow column of numbers, or of texts, to floats; None if a text is not a number."""
    if not pyarrow.types.is_string(column.type):
        return np.asarray(column.cast(pyarrow.float64(), safe=False).to_numpy())
    texts = compute.utf8_trim(column, " ")
    pattern = f"^(?:{_NUMBER.pattern})$"
    if not compute.all(compute.match_substring_regex(texts, pattern)).as_py():
        return None
    try:
        return np.asarray(texts.cast(pyarrow.float64()).to_numpy())
    except pyarrow.ArrowInvalid:
        return np.array(list(map(float, texts.to_pylist())))


def parse_times(column: Any) -> Any:
    """Parse an Arrow column of texts as times; None if a text is not a time. Other columns are returned unchanged."""
    if not pyarrow.types.is_string(column.type):
        return column
    with suppress(pyarrow.ArrowInvalid):
        return column.cast(pyarrow.timestamp("us"))
    with suppress(RefusedBatch):
        return pyarrow.array(parse_texts("", column.to_pylist(), "datetime"))
    return None


def infer_type(texts: Iterable[str]) -> tuple[str, set[str]]:
    """Return a type of `find_text_type` of all distinct strings of a column, and the strings that are never missing."""
    found = set(texts)
    present = found.difference(MISSING_TEXTS)
    if not present:
        return "text", set()
    if _are_numbers({text.strip(" ") for text in present}):
        return "number", set()
    if present <= _BOOLS.keys():
        return "bool", set()
    # The strings start like dates, but may end in other characters.
    if all(map(_DAY.match, present)):
        with suppress(ValueError):
            times = parse_texts("", present, "datetime")
            is_date = all(str(time).endswith(" 00:00:00") for time in times)
            return ("date" if is_date else "datetime"), set()
    # In a column of text, only the empty text is missing, because "NA" or "None" may be
    # a value.
    return "text", found - {""}


def _are_numbers(texts: set[str]) -> bool:
    """Return True if floats represent all numbers, and each has a single spelling."""
    if not all(map(_NUMBER.fullmatch, texts)):
        return False
    # The sign of zero, such as -0.0 beside 0.0, is not another spelling, and neither is 1.0
    # beside 1: a part of a file in which a value is missing may have floats.
    texts = {text.removesuffix(".0") for text in texts}
    texts = {text.lstrip("-") if float(text) == 0 else text for text in texts}
    numbers = set(map(float, texts))
    is_whole = all(text.lstrip("-").isdecimal() for text in texts)
    return len(numbers) == len(texts) and not (is_whole and not _are_exact(numbers))


# Writing


def format_rows(batch: Any, delimiter: str) -> Any:
    """Format the rows of an Arrow batch as bytes of CSV, each distinct value of a column once."""
    columns = []
    for array in batch.columns:
        if pyarrow.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        coded = array.dictionary_encode("encode")
        values = coded.dictionary.to_pylist()
        # Python quotes an empty value of a single column, which would be an empty line.
        empty = "" if batch.num_columns > 1 else '""'
        if array.type == pyarrow.float64() or pyarrow.types.is_integer(array.type):
            # As the csv module writes numbers, in a quarter of its time.
            texts = [empty if value is None else repr(value) for value in values]
        else:
            texts = _format_csv_lines(zip(values, strict=True), delimiter)
            texts = [empty if text == '""' else text for text in texts]
        columns.append(pyarrow.array(texts, pyarrow.string()).take(coded.indices))
    rows = compute.binary_join_element_wise(*columns, delimiter)
    lines = compute.binary_join_element_wise(rows, "\n", "")
    # The lines are one after the other in the buffer of the array.
    return lines.buffers()[2] if len(lines) else b""


def format_csv(rows: Iterable[Any], delimiter: str = ",") -> str:
    """Format rows as CSV, in which a carriage return is quoted, and lines end in a line feed."""
    return "".join([f"{line}\n" for line in _format_csv_lines(rows, delimiter)])


def _format_csv_lines(rows: Iterable[Any], delimiter: str) -> list[str]:
    """Format rows as lines of CSV without their ends."""
    lines: list[str] = []
    # Python quotes the characters of the line ends, and writes a line per call.
    target: Any = SimpleNamespace(write=lines.append)
    csv.writer(target, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return [line[:-2] for line in lines]
