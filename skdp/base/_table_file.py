"""Reading tables from files with pandas, with the types that declared values imply."""

from __future__ import annotations

import codecs
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import kind_of
from skdp.domain import Domain, Interval

MISSING_TEXTS = (
    "",
    "#N/A",
    "#NA",
    "-NaN",
    "-nan",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null",
)
"""Texts that pandas reads as missing, unless declared as values."""

LARGEST_WHOLE = 1 << 53
"""Floats represent all whole numbers up to this one."""

_DATE_TYPES = {
    "date": np.dtype("datetime64[D]"),
    "datetime": np.dtype("datetime64[us]"),
}
ZONED = pd.DatetimeTZDtype("us", "UTC")
"""The dtype of times with a time zone: instants."""

_ARROW = (".arrow", ".feather", ".ipc")


def read_frame(
    path: Path, domain: Domain | None = None, *, find_dates: bool = False
) -> pd.DataFrame:
    """Read a CSV, Parquet or Arrow file."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix in _ARROW:
        _check_arrow(path)
        return pd.read_feather(path)
    options: dict[str, Any] = {}
    dates: dict[Any, Any] = {}
    if domain is not None:
        zoned = {name for name in domain.columns if declares_zone(domain[name])}
        dates = {
            name: dtype
            for name in domain.columns
            if (dtype := date_dtype(domain[name])) is not None
        }
        dates |= dict.fromkeys(zoned, ZONED)
        texts = [name for name in domain.columns if type_of_values(domain[name]) is str]
        names = _read_text(path, nrows=0).columns
        options["dtype"] = dict.fromkeys([*texts, *dates], "str")
        options["na_values"] = {
            name: [
                text
                for text in MISSING_TEXTS
                if name not in texts or text not in domain[name].labels
            ]
            for name in names
        }
        options["keep_default_na"] = options["low_memory"] = False
    frame = _read_text(path, **options)
    if find_dates:
        return _with_dates(frame)
    return frame.assign(
        **{
            name: _read_dates(frame[name], dtype)
            for name, dtype in dates.items()
            if name in frame
        }
    )


def _read_text(path: Path, **options: Any) -> pd.DataFrame:
    with suppress(
        UnicodeDecodeError
    ):  # holds bytes of the data, so it must not be the context of another error
        return pd.read_csv(path, **options)
    raise encoding_error(path) or ValueError(f"{path.name} is no UTF-8 text")


def encoding_error(path: Any) -> ValueError | None:
    """Return the error of a file (a path, or another one with ``name`` and ``open``) that is no UTF-8 text."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with path.open("rb") as file:
        while True:
            block = file.read(1 << 20)
            waiting = decoder.getstate()[0]
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                line += (waiting + block)[: error.start].count(b"\n")
                return ValueError(
                    f"{path.name} is no UTF-8 text (line {line}); if it is Latin-1 or UTF-16, save it as UTF-8, "
                    "such as with iconv"
                )
            if not block:
                return None
            line += block.count(b"\n")


def _check_arrow(path: Path) -> None:
    """Refuse an Arrow file with offsets or codes out of bounds, which would be dereferenced."""
    from pyarrow import ArrowException, feather

    try:
        feather.read_table(path, memory_map=False).validate(full=True)
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError) and (
            type(error) is not OSError or error.errno is not None
        ):
            raise
        raise ValueError(f"{path.name} is no Arrow file, or damaged") from None


def type_texts(texts: pd.DataFrame) -> pd.DataFrame:
    """Convert columns of text to the types that `read_frame` finds in a CSV file, dates included."""
    return _with_dates(
        pd.read_csv(StringIO(texts.to_csv(index=False)), skip_blank_lines=False)
    )


def _with_dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Parse the columns of text that hold only dates or datetimes."""
    dates: dict[Any, Any] = {
        name: dtype for name in frame if (dtype := _find_dates(frame[name])) is not None
    }
    return frame.assign(
        **{name: _read_dates(frame[name], dtype) for name, dtype in dates.items()}
    )


def date_dtype(values: Any) -> Any:
    """Return the dtype of declared dates, None for other values."""
    if isinstance(values, Interval):
        return values.dtype if values.dtype.kind == "M" else None
    known = [value for value in values.values if value is not None]
    if not known or getattr(known[0], "tzinfo", None) is not None:
        return None
    return _DATE_TYPES.get(kind_of(known[0]))


def declares_zone(values: Any) -> bool:
    """Whether declared values are times with a time zone, which are compared as instants."""
    if isinstance(values, Interval):
        return False
    return any(getattr(value, "tzinfo", None) is not None for value in values.values)


def _find_dates(column: pd.Series) -> Any:
    if not pd.api.types.is_string_dtype(column.dtype) or column.isna().all():
        return None
    for zoned in (False, True):
        try:
            times = parse_dates(column, zoned=zoned)
            break
        except ValueError:
            continue
    else:
        return None
    if zoned:
        return ZONED
    return _DATE_TYPES[
        "date"
        if (times.astype("datetime64[D]") == times)[column.notna()].all()
        else "datetime"
    ]


def _read_dates(column: pd.Series, dtype: Any) -> pd.Series:
    if dtype == ZONED:
        times = parse_dates(column, zoned=True)
        return pd.Series(times, column.index, name=column.name).dt.tz_localize("UTC")
    times = parse_dates(column).astype(dtype)
    return pd.Series(
        times.astype(object) if dtype == _DATE_TYPES["date"] else times,
        column.index,
        name=column.name,
    )


def parse_dates(column: pd.Series, *, zoned: bool = False) -> NDArray[np.datetime64]:
    """Read ISO 8601 text."""
    times = None
    with suppress(
        ValueError
    ):  # holds a value, so it must not be the context of another error
        times = [
            datetime.fromisoformat(text) if isinstance(text, str) else None
            for text in column
        ]
    if times is None:
        raise ValueError(
            f"column {column.name!r} holds text that is no ISO 8601 date or datetime"
        )
    if any(time is not None and (time.tzinfo is not None) != zoned for time in times):
        found, declared = ("without", "with one") if zoned else ("with", "without")
        raise ValueError(
            f"column {column.name!r} holds times {found} a time zone, but is declared {declared}"
        )
    if zoned:
        times = _in_utc(times)
        if times is None:
            raise ValueError(
                f"column {column.name!r} holds times at the ends of the calendar"
            )
    return np.array(times, "datetime64[us]")


def _in_utc(times: list[datetime | None]) -> list[datetime | None] | None:
    """Return the times in UTC without a zone, or None if one is out of range in UTC."""
    with suppress(OverflowError):
        return [
            None if time is None else time.astimezone(UTC).replace(tzinfo=None)
            for time in times
        ]
    return None


def type_of_values(values: Any) -> type | None:
    """Return the common type of declared values, None if there is none."""
    if isinstance(values, Interval):
        return None
    kinds = {type(value) for value in values.labels if value is not None}
    if kinds == {int, float}:
        return float
    return next(iter(kinds)) if len(kinds) == 1 else None
