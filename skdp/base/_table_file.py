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

from skdp.domain import Domain, Interval
from skdp.tables import kinds_of, present

# fmt: off
# Texts that pandas reads as missing, unless declared as values.
MISSING_TEXTS = (
    "", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a",
    "nan", "null",
)

# Floats represent all whole numbers up to this one.
LARGEST_WHOLE = 1 << 53

_DATE_TYPES = {
    "date": np.dtype("datetime64[D]"),
    "datetime": np.dtype("datetime64[us]"),
}

# The dtype of times with a time zone: instants.
ZONED = pd.DatetimeTZDtype("us", "UTC")

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
    if domain is not None:
        return _read_typed(path, domain)
    frame = _read_text(path)
    return _with_dates(frame) if find_dates else frame


def _read_typed(path: Path, domain: Domain) -> pd.DataFrame:
    """Read a CSV file whose columns have the types of their declared values."""
    names = _read_text(path, nrows=0).columns
    texts = set()
    dates = {}
    for name in domain.columns:
        if type_of_values(domain[name]) is str:
            texts.add(name)
        dtype = ZONED if declares_zone(domain[name]) else date_dtype(domain[name])
        if dtype is not None:
            dates[name] = dtype
    missing_texts = {}
    for name in names:
        labels = domain[name].labels if name in texts else ()
        missing_texts[name] = [text for text in MISSING_TEXTS if text not in labels]
    frame = _read_text(
        path,
        dtype=dict.fromkeys([*texts, *dates], "str"),
        na_values=missing_texts,
        keep_default_na=False,
        low_memory=False,
    )
    for name, dtype in dates.items():
        if name in frame:
            times = parse_dates(frame[name], zoned=dtype == ZONED)
            frame[name] = _date_column(frame[name], times, dtype)
    return frame


def _read_text(path: Path, **options: Any) -> pd.DataFrame:
    # The error holds bytes of the data, so it must not be the context of another one.
    with suppress(UnicodeDecodeError):
        return pd.read_csv(path, **options)
    raise encoding_error(path) or ValueError(f"{path.name} is no UTF-8 text")


def encoding_error(path: Any) -> ValueError | None:
    """Return the error of a file (a path, or another one with ``name`` and ``open``) that is no UTF-8 text."""
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
                    f"{path.name} is no UTF-8 text (line {line}); if it is Latin-1 or "
                    "UTF-16, save it as UTF-8, such as with iconv"
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
        # Arrow raises a plain OSError without a number for some damage.
        is_plain = type(error) is OSError and error.errno is None
        if isinstance(error, OSError) and not is_plain:
            raise
        raise ValueError(f"{path.name} is no Arrow file, or damaged") from None


def type_texts(texts: pd.DataFrame) -> pd.DataFrame:
    """Convert columns of text to the types that `read_frame` finds in a CSV file, dates included."""
    csv = StringIO(texts.to_csv(index=False))
    return _with_dates(pd.read_csv(csv, skip_blank_lines=False))


def _with_dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Parse the columns of text that hold only dates or datetimes."""
    for name in frame.columns:
        column = frame[name]
        if not pd.api.types.is_string_dtype(column.dtype) or column.isna().all():
            continue
        for is_zoned in (False, True):
            with suppress(ValueError):
                times = parse_dates(column, zoned=is_zoned)
                dtype = ZONED if is_zoned else _finest(times)
                frame[name] = _date_column(column, times, dtype)
    return frame


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
    """Read ISO 8601 text."""
    # The errors of Python hold a value, so they must not be the context of another one.
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
    """Return the dtype of declared dates, None for other values, and for times with a time zone."""
    if isinstance(values, Interval):
        return values.dtype if values.dtype.kind == "M" else None
    if declares_zone(values):
        return None
    kinds = kinds_of(values.values)
    return _DATE_TYPES.get(kinds.pop()) if kinds else None


def declares_zone(values: Any) -> bool:
    """Whether declared values are times with a time zone, which are compared as instants."""
    return any(getattr(value, "tzinfo", None) is not None for value in values.values)


def type_of_values(values: Any) -> type | None:
    """Return the common type of declared values, None if there is none."""
    if isinstance(values, Interval):
        return None
    types = set(map(type, present(values.labels)))
    if types == {int, float}:
        return float
    return types.pop() if len(types) == 1 else None
