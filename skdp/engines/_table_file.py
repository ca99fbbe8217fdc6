"""Strict reading of tables from files, with types from declared values or texts."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Generator, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.tables import kinds_of, present

# fmt: off
# Texts that pandas reads as missing, unless they are declared.
MISSING_TEXTS = (
    "", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a",
    "nan", "null",
)

# Floats represent all integers up to this one.
MAX_EXACT_INTEGER = 1 << 53

_BOOLS = {
    "True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False,
}

# Rows of a block of a CSV file: fewer than the 700 new lists after which Python collects
# garbage, which takes most of the time of larger blocks.
CSV_ROWS = 1 << 9

# A number without leading zeros: codes such as 007 and 1E5 are text.
_NUMBER = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)(?:e[+-]\d{2,3})?|-?inf", re.A)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.A)
_BOOL_SPELLINGS = ({"False", "True"}, {"false", "true"}, {"FALSE", "TRUE"})


# Rows of CSV files


def delimiter_of(name: str) -> str:
    """Return the delimiter of the CSV files with this suffix."""
    return "\t" if name.removesuffix(".gz").endswith(".tsv") else ","


def find_repeated(names: list[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def repeated_names_message(file_name: str, names: list[str]) -> str:
    """Name the columns that have the same name."""
    return (
        f"{file_name} has several columns named {', '.join(map(repr, names))}; rename "
        "them in its header"
    )


def read_csv_blocks(
    source: Any, delimiter: str
) -> Generator[list[list[str]], None, None]:
    """Read the rows of a CSV file as text: a block with the header, then blocks of rows."""
    # `source` has a `name`, and `open` opens its bytes.
    header: list[str] = []
    row: list[str] = []
    block: list[list[str]] = []
    line = 1
    with io.TextIOWrapper(source.open(), "utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        # Python's errors contain bytes of the data, so they must not be the context of
        # another error.
        with suppress(UnicodeDecodeError, csv.Error):
            # An empty line is not a row.
            header = next(filter(None, reader), [])
            if not header:
                raise ValueError(f"{source.name} has no header")
            yield [header]
            n_names = len(header)
            line = reader.line_num + 1
            for row in reader:
                if len(row) == n_names:
                    block.append(row)
                elif row:
                    break
                if len(block) == CSV_ROWS:
                    yield block
                    block = []
                line = reader.line_num + 1
            else:
                if block:
                    yield block
                return
    if row and len(row) != len(header):
        reason = f"expected {len(header)} values as in the header, got {len(row)}"
    else:
        reason = (
            "a quoted value is not closed, is followed by other text, or has more than "
            f"{csv.field_size_limit():,} characters"
        )
    if line == 1:
        reason += f"; if {delimiter!r} does not separate the values, give `delimiter`"
    raise _find_encoding_error(source) or ValueError(
        f"{source.name}, line {line}: {reason}"
    )


def _find_encoding_error(source: Any) -> ValueError | None:
    """Return an error with the first line that is not UTF-8 text, if there is one."""
    with io.BufferedReader(source.open()) as file:
        # A UTF-8 character never contains the byte of a line feed.
        for line, text in enumerate(file, 1):
            try:
                codecs.decode(text, "utf-8")
            except UnicodeDecodeError:
                return ValueError(
                    f"{source.name} is no UTF-8 text (line {line}). Convert it to "
                    "UTF-8, such as with iconv."
                )
    return None


# Declared columns


class ColumnParser:
    """Parse the texts of a declared column; no row changes how another row is parsed."""

    def __init__(
        self, name: Any, text_type: str, labels: Iterable[Any], *, strict: bool = True
    ) -> None:
        # With `strict`, text that is not a number is an error; without, it is a number
        # outside the domain.
        self._name = name
        self._strict = strict
        self.type = text_type
        self._missing = set(MISSING_TEXTS).difference(labels)

    def parse(self, texts: Iterable[str]) -> Any:
        """Return the values of some texts; None or NaT is missing."""
        known = [None if text in self._missing else text for text in texts]
        if self.type == "text":
            return known
        if self.type == "number":
            return list(map(self._parse_number, known))
        if self.type == "bool":
            return list(map(self._parse_bool, known))
        times = _parse_times(self._name, known, zoned=self.type == "zoned")
        return times.astype("datetime64[D]") if self.type == "date" else times

    def _parse_number(self, text: str | None) -> float | None:
        if text is None:
            return None
        with suppress(ValueError):
            # 1_000 is a number in Python only.
            number = float(text.replace("_", "?"))
            if not np.isnan(number):
                return number
        if self._strict:
            raise ValueError(
                f"column {self._name!r} holds text that is no number; write decimals "
                "with a point, such as 1.5"
            )
        return np.inf

    def _parse_bool(self, text: str | None) -> bool | None:
        if text is None:
            return None
        if text not in _BOOLS:
            raise ValueError(
                f"column {self._name!r} holds text that is neither true nor false"
            )
        return _BOOLS[text]


def find_text_type(name: Any, values: Any) -> str:
    """Return how texts are parsed as declared values: text, number, bool, date, datetime or zoned."""
    if isinstance(values, Interval):
        if values.dtype.kind == "M":
            is_date = values.dtype == np.dtype("datetime64[D]")
            return "date" if is_date else "datetime"
        is_exact = _are_exact(values.edges)
    else:
        known = present(values.values)
        if any(getattr(value, "tzinfo", None) is not None for value in known):
            return "zoned"
        kinds = kinds_of(values.values) & {"date", "datetime"}
        if kinds:
            return str(kinds.pop())
        declared = _common_type(values)
        if declared is bool:
            return "bool"
        if declared is str or not known:
            if "" in values.labels and None in values.labels:
                raise ValueError(
                    f"column {name!r}: a missing value and an empty text are the same "
                    "in a CSV file: use a Parquet or Arrow file"
                )
            return "text"
        # Decimal texts of floats are parsed as the same floats.
        is_exact = declared is float or (declared is int and _are_exact(known))
    if not is_exact:
        raise ValueError(
            f"column {name!r}: a CSV file holds text, truth values, dates and numbers "
            "below 2**53; write its values to a Parquet or Arrow file"
        )
    return "number"


def _are_exact(numbers: Iterable[Any]) -> bool:
    """Return True if floats represent all integers in the range of some numbers."""
    return max(map(abs, numbers)) < MAX_EXACT_INTEGER


def has_whole_numbers(values: Any) -> bool:
    """Return True if all declared numbers are whole."""
    if isinstance(values, Interval):
        return not values.real
    return _common_type(values) is int


def _common_type(values: Any) -> type | None:
    types = set(map(type, present(values.labels)))
    if types == {int, float}:
        return float
    return types.pop() if len(types) == 1 else None


def _parse_times(
    name: Any, texts: Iterable[str | None], *, zoned: bool
) -> NDArray[np.datetime64]:
    """Parse ISO 8601 text; times with a time zone become UTC."""
    # Python's errors contain a value, so they must not be the context of another error.
    times: list[Any] | None = None
    with suppress(ValueError):
        times = [text and datetime.fromisoformat(text) for text in texts]
    if times is None:
        raise ValueError(
            f"column {name!r} holds text that is no ISO 8601 date or datetime"
        )
    for time in filter(None, times):
        if (time.tzinfo is not None) != zoned:
            ways = ("without", "with one") if zoned else ("with", "without")
            raise ValueError(
                f"column {name!r} holds times {ways[0]} a time zone, but is declared "
                f"{ways[1]}"
            )
    with suppress(OverflowError):
        if zoned:
            times = [time and time.astimezone(UTC).replace(tzinfo=None) for time in times]
        return np.array(times, "datetime64[us]")
    raise ValueError(f"column {name!r} holds times at the limits of the calendar")


# Whole tables, with pandas


def read_frame(
    path: Path,
    domain: Domain | None = None,
    *,
    delimiter: str | None = None,
    find_dates: bool = False,
) -> pd.DataFrame:
    """Read a CSV, Parquet or Arrow file."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix in (".arrow", ".feather", ".ipc"):
        _check_arrow(path)
        return pd.read_feather(path)
    open_file = gzip.open if path.suffix == ".gz" else open
    source = SimpleNamespace(name=path.name, open=partial(open_file, path, "rb"))
    blocks = read_csv_blocks(source, delimiter or delimiter_of(path.name))
    (names,) = next(blocks)
    repeated = find_repeated(names)
    if repeated:
        raise ValueError(repeated_names_message(path.name, repeated))
    rows = list(chain.from_iterable(blocks))
    columns = {}
    for index, name in enumerate(names):
        texts = [row[index] for row in rows]
        is_declared = domain is not None and name in domain.columns
        values = domain[name] if is_declared else None  # type: ignore[index]
        columns[name] = _read_column(name, texts, values, find_dates)
    return pd.DataFrame(columns)


def _check_arrow(path: Path) -> None:
    """Refuse an Arrow file with offsets or codes out of bounds, which would be dereferenced."""
    from pyarrow import ArrowException, feather

    try:
        feather.read_table(path, memory_map=False).validate(full=True)
    except (ArrowException, OSError) as error:
        # Arrow raises a plain OSError without a number for some damage.
        is_plain = type(error) is OSError and error.errno is None
        if isinstance(error, OSError) and not is_plain:
            raise
        raise ValueError(f"{path.name} is no Arrow file, or damaged") from None


def _read_column(
    name: str, texts: list[str], values: Any, find_dates: bool
) -> pd.Series:
    """Convert texts to the type of the declared values, or to a type that all of them have."""
    labels: Iterable[Any]
    if values is not None:
        text_type = find_text_type(name, values)
        labels = values.labels
        is_whole = has_whole_numbers(values)
    else:
        known = set(texts).difference(MISSING_TEXTS)
        text_type = _guess_type(known, find_dates)
        # Only an empty text is missing beside text: "NA" or "None" may be an answer.
        is_answer = text_type == "text" and len(known) > 0
        labels = set(texts) - {""} if is_answer else ()
        is_whole = all(text.strip(" -").isdecimal() for text in known)
    found = ColumnParser(name, text_type, labels).parse(texts)
    if text_type == "zoned":
        return pd.Series(found).dt.tz_localize("UTC")
    if text_type == "date":
        return pd.Series(found.astype(object))
    # Objects keep text as it is: no inference from the rows.
    column = pd.Series(found, dtype=object if text_type == "text" else None)
    # Whole numbers stay floats where a number is missing, or is not whole.
    if text_type == "number" and is_whole:
        whole = np.isfinite(column.to_numpy(float)) & (column % 1 == 0)
        column = column.astype("int64") if whole.all() else column
    return column


def _guess_type(texts: set[str], find_dates: bool) -> str:
    """Return the type that all of the distinct texts of a column have."""
    if not texts:
        return "text"
    if _are_numbers(texts):
        return "number"
    if any(texts <= spelling for spelling in _BOOL_SPELLINGS):
        return "bool"
    if find_dates and all(map(_DAY.match, texts)):
        with suppress(ValueError):
            times = _parse_times("", texts, zoned=False)
            is_date = (times.astype("datetime64[D]") == times).all()
            return "date" if is_date else "datetime"
        with suppress(ValueError):
            _parse_times("", texts, zoned=True)
            return "zoned"
    return "text"


def _are_numbers(texts: set[str]) -> bool:
    """Return True if floats represent all numbers, and each has a single spelling."""
    stripped = {text.strip(" ") for text in texts}
    if not all(map(_NUMBER.fullmatch, stripped)):
        return False
    numbers = {Decimal(text) for text in stripped}
    are_codes = len(numbers) < len(stripped - {"-0.0", "-0"})
    is_whole = all(text.lstrip("-").isdecimal() for text in stripped)
    return not are_codes and not (is_whole and max(map(abs, numbers)) >= MAX_EXACT_INTEGER)
