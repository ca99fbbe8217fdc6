"""Strict reading of tables from files, with types from declared values or texts."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
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
LARGEST_WHOLE = 1 << 53

_DATE_TYPES = {
    "date": np.dtype("datetime64[D]"),
    "datetime": np.dtype("datetime64[us]"),
}

# Dtype of times with a time zone.
ZONED = pd.DatetimeTZDtype("us", "UTC")

_ARROW = (".arrow", ".feather", ".ipc")

_BLOCK_BYTES = 1 << 21

# Number without leading zeros; codes such as 007 and 1E5 are text.
_NUMBER = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)(?:e[+-]\d{2,3})?|-?inf", re.A)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.A)
_TRUTH = (["False", "True"], ["false", "true"], ["FALSE", "TRUE"])


@dataclass(frozen=True)
class _LocalFile:
    """Local file, decompressed if its name ends in ``.gz``."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def open(self, mode: str = "rb") -> Any:
        return (gzip.open if self.name.endswith(".gz") else open)(self.path, mode)


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
    if path.suffix in _ARROW:
        _check_arrow(path)
        return pd.read_feather(path)
    rows = read_csv_rows(_LocalFile(path), delimiter or delimiter_of(path.name))
    names = next(rows)
    repeated = find_repeated(names)
    if repeated:
        raise ValueError(repeated_names_message(path.name, repeated))
    frame = pd.DataFrame(list(rows), columns=names, dtype=object).replace({"": None})
    declared = [] if domain is None else [name for name in names if name in domain.columns]
    typed = type_texts(frame.drop(columns=declared), find_dates=find_dates)
    for name in declared:
        typed[name] = _read_declared(frame[name], domain[name])  # type: ignore[index]
    return typed[names]


def _read_declared(texts: pd.Series, values: Any) -> pd.Series:
    """Convert the texts of a column to the type of its declared values."""
    is_text = type_of_values(values) is str
    missing = set(MISSING_TEXTS).difference(values.labels if is_text else ())
    texts = texts.where(~texts.isin(missing), None)
    dtype = ZONED if declares_zone(values) else date_dtype(values)
    if dtype is not None:
        times = parse_dates(texts, zoned=dtype == ZONED)
        return _date_column(texts, times, dtype)
    if is_text:
        return texts
    # Declared numbers may be written in any way, such as 01 or 1e3.
    csv_file = io.StringIO(texts.to_csv(index=False))
    frame = pd.read_csv(csv_file, skip_blank_lines=False, low_memory=False)
    return frame.iloc[:, 0].set_axis(texts.index)


def delimiter_of(name: str) -> str:
    """Return the delimiter of CSV files by the ending of their name."""
    return "\t" if name.removesuffix(".gz").endswith(".tsv") else ","


def find_repeated(names: list[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def repeated_names_message(file_name: str, names: list[str]) -> str:
    """Format the error of columns with equal names."""
    return (
        f"{file_name} has several columns named {', '.join(map(repr, names))}; rename "
        "them in its header"
    )


def read_csv_rows(source: Any, delimiter: str) -> Generator[list[str], None, None]:
    """Read the rows of a CSV file as text, the header first; errors contain the line only."""
    line = 1
    n_names = n_values = 0
    with io.TextIOWrapper(source.open("rb"), "utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        # Errors of Python contain bytes of the data.
        with suppress(UnicodeDecodeError, csv.Error):
            for row in reader:
                n_values = len(row)
                n_names = n_names or n_values
                if n_values not in (0, n_names):
                    break
                if row:
                    yield row
                line = reader.line_num + 1
            else:
                if n_names:
                    return
                raise ValueError(f"{source.name} has no header")
    if n_values not in (0, n_names):
        reason = f"expected {n_names} values as in the header, got {n_values}"
    else:
        reason = (
            "a quoted value is not closed, is followed by other text, or has more than "
            f"{csv.field_size_limit():,} characters"
        )
    if line == 1:
        reason += f"; if {delimiter!r} does not separate the values, give `delimiter`"
    raise encoding_error(source) or ValueError(f"{source.name}, line {line}: {reason}")


def check_quotes(source: Any, delimiter: str) -> None:
    """Check that each quoted value of a CSV file is closed, before a delimiter or line end."""
    with source.open("rb") as file:
        is_valid = _alternate_quotes(file, delimiter)
    if not is_valid:
        # Quotes within an unquoted value are text, so the rows are read.
        for _ in read_csv_rows(source, delimiter):
            pass


def _alternate_quotes(file: Any, delimiter: str) -> bool:
    """Return True if quotes open and close values in turns; two quotes close and open."""
    is_boundary = np.zeros(256, bool)
    is_boundary[[ord(delimiter), *b'"\r\n']] = True
    n_quotes = 0
    before, block = b"\n", file.read(_BLOCK_BYTES)
    while block:
        following = file.read(_BLOCK_BYTES)
        text = np.frombuffer(before + block + (following[:1] or b"\n"), np.uint8)
        quotes = np.flatnonzero(text[1:-1] == ord('"')) + 1
        n_opened = n_quotes % 2
        opening, closing = quotes[n_opened::2], quotes[1 - n_opened :: 2]
        is_valid = is_boundary[text[opening - 1]].all()
        if not (is_valid and is_boundary[text[closing + 1]].all()):
            return False
        n_quotes += quotes.size
        before, block = block[-1:], following
    return n_quotes % 2 == 0


def encoding_error(path: Any) -> ValueError | None:
    """Make the error of a file that is not UTF-8 text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as file:
        while True:
            block = file.read(1 << 20)
            pending, _ = decoder.getstate()
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                line += (pending + block)[: error.start].count(b"\n")
                return ValueError(
                    f"{path.name} is no UTF-8 text (line {line}). Convert it to UTF-8, "
                    "such as with iconv."
                )
            if not block:
                return None
            line += block.count(b"\n")


def _check_arrow(path: Path) -> None:
    """Check that all offsets and codes of an Arrow file are within bounds."""
    from pyarrow import ArrowException, feather

    try:
        feather.read_table(path, memory_map=False).validate(full=True)
    except (ArrowException, OSError) as error:
        # Arrow raises a plain OSError without a number for some damage.
        is_plain = type(error) is OSError and error.errno is None
        if isinstance(error, OSError) and not is_plain:
            raise
        raise ValueError(f"{path.name} is no Arrow file, or damaged") from None


def type_texts(texts: pd.DataFrame, *, find_dates: bool = True) -> pd.DataFrame:
    """Convert each column of texts to numbers, booleans or times if all texts allow it."""
    columns = {}
    for name in texts.columns:
        columns[name] = _type_column(texts[name], find_dates)
    return pd.DataFrame(columns, index=texts.index)


def _type_column(texts: pd.Series, find_dates: bool) -> pd.Series:
    present_texts = texts.where(~texts.isin(MISSING_TEXTS), None)
    distinct = present_texts.dropna().unique().tolist()
    if not distinct:
        return present_texts
    if _are_numbers(distinct):
        return pd.to_numeric(present_texts)
    for words in _TRUTH:
        if set(distinct) <= set(words):
            return present_texts.map(dict(zip(words, (False, True), strict=True)))
    if find_dates and all(map(_DAY.match, distinct)):
        for is_zoned in (False, True):
            with suppress(ValueError):
                times = parse_dates(present_texts, zoned=is_zoned)
                dtype = ZONED if is_zoned else _finest(times)
                return _date_column(present_texts, times, dtype)
    # Only empty texts are missing, because "NA" or "None" may be values.
    return texts


def _are_numbers(texts: list[str]) -> bool:
    """Return True if texts are numbers that floats represent, each written in one way."""
    stripped = {text.strip(" ") for text in texts}
    if not all(map(_NUMBER.fullmatch, stripped)):
        return False
    numbers = {Decimal(text) for text in stripped}
    are_codes = len(numbers) < len(stripped - {"-0.0", "-0"})
    is_whole = all(text.lstrip("-").isdecimal() for text in stripped)
    return not are_codes and not (is_whole and max(map(abs, numbers)) >= LARGEST_WHOLE)


def _finest(times: NDArray[np.datetime64]) -> np.dtype[Any]:
    times = times[~np.isnat(times)]
    are_days = (times.astype("datetime64[D]") == times).all()
    return _DATE_TYPES["date" if are_days else "datetime"]


def _date_column(
    texts: pd.Series, times: NDArray[np.datetime64], dtype: Any
) -> pd.Series:
    if dtype == ZONED:
        return pd.Series(times, texts.index).dt.tz_localize("UTC")
    values: NDArray[Any] = times.astype(dtype)
    if dtype == _DATE_TYPES["date"]:
        values = values.astype(object)
    return pd.Series(values, texts.index)


def parse_dates(column: pd.Series, *, zoned: bool = False) -> NDArray[np.datetime64]:
    """Read dates and times in ISO 8601."""
    # Errors of Python contain a value.
    times = None
    with suppress(ValueError):
        times = list(map(_read_time, column))
    if times is None:
        raise ValueError(
            f"column {column.name!r} holds text that is no ISO 8601 date or datetime"
        )
    for time in times:
        if time is not None and (time.tzinfo is not None) != zoned:
            ways = ("without", "with one") if zoned else ("with", "without")
            raise ValueError(
                f"column {column.name!r} holds times {ways[0]} a time zone, but is "
                f"declared {ways[1]}"
            )
    if zoned:
        with suppress(OverflowError):
            return np.array(list(map(_in_utc, times)), "datetime64[us]")
        raise ValueError(
            f"column {column.name!r} holds times at the ends of the calendar"
        )
    return np.array(times, "datetime64[us]")


def _read_time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _in_utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.astimezone(UTC).replace(tzinfo=None)


def date_dtype(values: Any) -> Any:
    """Return the dtype of declared dates or times without a time zone, or None."""
    if isinstance(values, Interval):
        return values.dtype if values.dtype.kind == "M" else None
    if declares_zone(values):
        return None
    kinds = kinds_of(values.values)
    return _DATE_TYPES.get(kinds.pop()) if kinds else None


def declares_zone(values: Any) -> bool:
    """Return True if declared values are times with a time zone."""
    return any(getattr(value, "tzinfo", None) is not None for value in values.values)


def type_of_values(values: Any) -> type | None:
    """Return the common type of declared values, or None."""
    if isinstance(values, Interval):
        return None
    types = set(map(type, present(values.labels)))
    if types == {int, float}:
        return float
    return types.pop() if len(types) == 1 else None
