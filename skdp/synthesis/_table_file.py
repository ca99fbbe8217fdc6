"""From a file with a private table to a file with a synthetic one."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import dates_like, kind_of, to_dates
from skdp.domain import Domain, Interval
from skdp.synthesis._rows import check_n_samples
from skdp.synthesis._synthesizer import DPMarginalSynthesizer

# What pandas takes for missing, but for what is declared as a value.
_MISSING = ("", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
_DATE_TYPES = {"date": np.dtype("datetime64[D]"), "datetime": np.dtype("datetime64[us]")}
_LARGEST = 1 << 53  # up to here, floats have all whole numbers
_ARROW = (".arrow", ".feather", ".ipc")


def synthesize_file(
    source: Path,
    target: Path,
    synthesizer: DPMarginalSynthesizer,
    *,
    n_samples: int | None = None,
    person_column: str | None = None,
    real_columns: Collection[str] = (),
) -> list[str]:
    """Fit a synthesizer to the table in a file, and write a synthetic table to another one.

    Of a CSV file, the dtypes are those of the domain, so that none depends on the data: where an `Interval` has whole
    edges, its column has whole numbers; where dates or datetimes are declared, its column is ISO 8601 text, and is
    written so to a CSV file. A Parquet or Arrow file keeps its own.

    Parameters
    ----------
    source : Path
        A CSV, Parquet or Arrow file.
    target : Path
        The file to write; it must not exist. It is there when it is whole, or not at all.
    synthesizer : DPMarginalSynthesizer
        Its ``domain`` is a `Domain`. It is fitted.
    n_samples : int, optional
        How many rows to write; by default the estimated number of records.
    person_column : str, optional
        The column that says who a row is about; it is not in the domain.
    real_columns : collection of str, default=()
        Columns of a CSV file with fractions, though their edges are whole.

    Returns
    -------
    list of str
        The columns of the table that were left out, as the domain does not have them.

    Raises
    ------
    OSError
        If a file cannot be read or written.
    TypeError, ValueError
        If the target exists, or the table does not fit the domain. No error shows a value.
    BudgetExceeded
        If the ledger does not cover it.
    """
    check_n_samples(n_samples)
    if target.exists():
        raise ValueError(f"{target} exists already; choose another name, or remove it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}")
    if target.suffix not in (".csv", ".parquet", *_ARROW):
        raise ValueError(f"{target.name} must end in .csv or .parquet, or in .arrow, .feather or .ipc")
    domain = synthesizer.domain
    frame, is_csv = read_frame(source, domain), source.suffix not in (".parquet", *_ARROW)
    declared = _declared_columns(frame, domain, person_column, source.name)
    unknown = [name for name in real_columns if name not in domain.columns]
    if unknown:
        raise ValueError(f"the domain has no columns {unknown}; it has {list(domain.columns)}")
    groups = None if person_column is None else frame[person_column]
    table = frame[declared]
    if is_csv:
        table = table.assign(
            **{name: _numbers(table[name], domain[name], whole=name not in real_columns) for name in declared}
        )
    rows = synthesizer.fit(table, groups=groups).sample(n_samples)
    rows = _with_dtypes(rows, domain, from_csv=is_csv, to_csv=target.suffix == ".csv")
    _write_frame(rows, target)
    return [str(name) for name in frame.columns if name not in declared and name != person_column]


def _write_frame(rows: pd.DataFrame, target: Path) -> None:
    """Write a file beside its place, and move it there when it is whole; one that exists is not overwritten."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    try:
        with beside.open("xb") as file:
            if target.suffix == ".parquet":
                rows.to_parquet(file, index=False)
            elif target.suffix in _ARROW:
                rows.to_feather(file)
            else:
                rows.to_csv(file, index=False)
        if target.exists():
            raise FileExistsError(f"{target} exists already; choose another name, or remove it")
        beside.rename(target)
    finally:
        beside.unlink(missing_ok=True)


def _with_dtypes(rows: pd.DataFrame, domain: Domain, *, from_csv: bool, to_csv: bool) -> pd.DataFrame:
    """Give the synthetic columns dtypes that depend on the domain alone, and dates as text to a CSV file."""
    if from_csv:
        rows = rows.astype({name: dtype for name in rows if (dtype := _dtype(domain[name])) is not None})
    dates = {name: dtype for name in rows if (dtype := _date_type(domain[name])) is not None}
    for name, dtype in dates.items():
        if to_csv:
            rows[name] = _write_dates(to_dates(rows[name], dtype))
        elif from_csv and dtype == _DATE_TYPES["date"]:
            rows[name] = dates_like(to_dates(rows[name], dtype), pd.Series([], dtype="date32[pyarrow]"))
    return rows


def read_frame(path: Path, domain: Domain | None = None, *, find_dates: bool = False) -> pd.DataFrame:
    """Read a CSV, Parquet or Arrow file.

    Parameters
    ----------
    path : Path
        The file: Parquet if it ends in ``.parquet``, Arrow if in ``.arrow``, ``.feather`` or ``.ipc``, else CSV.
    domain : Domain, optional
        Columns whose declared values are text are read as text, and what is declared is not missing. Columns whose
        declared values or bins are dates or datetimes are read as ISO 8601.
    find_dates : bool, default=False
        Whether text of a CSV file becomes dates or datetimes wherever a column has nothing else.

    Returns
    -------
    pandas.DataFrame
        The table.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is no such file, or a column of dates has other text.
    """
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix in _ARROW:
        return pd.read_feather(path)
    options: dict[str, Any] = {}
    dates: dict[Any, Any] = {}
    if domain is not None:
        dates = {name: dtype for name in domain.columns if (dtype := _date_type(domain[name])) is not None}
        texts = [name for name in domain.columns if _kind(domain[name]) is str]
        names = pd.read_csv(path, nrows=0).columns
        options["dtype"] = dict.fromkeys([*texts, *dates], "str")
        options["na_values"] = {
            name: [text for text in _MISSING if name not in texts or text not in domain[name].labels] for name in names
        }
        options["keep_default_na"] = options["low_memory"] = False
    try:
        frame = pd.read_csv(path, **options)
    except UnicodeDecodeError:  # its text has a byte of the data
        raise ValueError(f"{path.name} is no UTF-8 text") from None
    if find_dates:
        dates = {name: dtype for name in frame if (dtype := _find_dates(frame[name])) is not None}
    return frame.assign(**{name: _read_dates(frame[name], dtype) for name, dtype in dates.items() if name in frame})


def _date_type(values: Any) -> Any:
    """Return how the declared dates count, in days or microseconds; None for other values."""
    if isinstance(values, Interval):
        return values.dtype if values.dtype.kind == "M" else None
    known = [value for value in values.values if value is not None]
    if not known or getattr(known[0], "tzinfo", None) is not None:
        return None
    return _DATE_TYPES.get(kind_of(known[0]))


def _find_dates(column: pd.Series) -> Any:
    if not pd.api.types.is_string_dtype(column.dtype) or column.isna().all():
        return None
    try:
        times = _parse_dates(column)
    except ValueError:
        return None
    return _DATE_TYPES["date" if (times.astype("datetime64[D]") == times)[column.notna()].all() else "datetime"]


def _read_dates(column: pd.Series, dtype: Any) -> pd.Series:
    times = _parse_dates(column).astype(dtype)
    return pd.Series(times.astype(object) if dtype == _DATE_TYPES["date"] else times, column.index, name=column.name)


def _parse_dates(column: pd.Series) -> NDArray[np.datetime64]:
    """Read ISO 8601 text."""
    try:
        times = [datetime.fromisoformat(text) if isinstance(text, str) else None for text in column]
    except ValueError:  # its text has a value
        raise ValueError(f"column {column.name!r} holds text that is no ISO 8601 date or datetime") from None
    if any(time is not None and time.tzinfo is not None for time in times):
        raise ValueError(f"column {column.name!r} holds times with a time zone, but is declared without")
    return np.array(times, "datetime64[us]")


def _write_dates(times: NDArray[np.datetime64]) -> list[str | None]:
    """Write ISO 8601 text."""
    return [None if time is None else time.isoformat() for time in times.astype(object)]


def _declared_columns(frame: pd.DataFrame, domain: Domain, person_column: str | None, source: str) -> list[Any]:
    """Check the columns, and return those of the domain in the order of the table."""
    wanted = [*domain.columns, *([] if person_column is None else [person_column])]
    absent = [name for name in wanted if name not in frame.columns]
    if absent:
        raise ValueError(f"{source} has no columns {absent}; it has {frame.columns.to_list()}")
    if person_column in domain.columns:
        raise ValueError(f"the domain declares {person_column!r}, which says who a row is about; remove it there")
    return [name for name in frame.columns if name in domain.columns]


def _numbers(column: pd.Series, values: Any, *, whole: bool) -> pd.Series:
    """Give a column of numbers a dtype that depends on its bins alone; no number changes its bin."""
    if not isinstance(values, Interval) or values.dtype.kind != "f":
        return column
    if not (pd.api.types.is_numeric_dtype(column.dtype) or column.empty):
        return column
    edges = np.array(values.edges)
    if not whole or (edges % 1).any() or np.abs(edges).max() >= _LARGEST:
        return column.astype(float)
    numbers = column.to_numpy(float, na_value=np.nan)
    numbers = np.clip(np.where(numbers > edges[-1], np.ceil(numbers), np.floor(numbers)), -_LARGEST, _LARGEST)
    return pd.Series(pd.array(numbers, "Int64"), index=column.index, name=column.name)


def _kind(values: Any) -> type | None:
    """Return the type of the declared values, None for an `Interval` and for values of other types."""
    if isinstance(values, Interval):
        return None
    kinds = {type(value) for value in values.labels if value is not None}
    if kinds == {int, float}:
        return float
    return next(iter(kinds)) if len(kinds) == 1 else None


def _dtype(values: Any) -> str | None:
    """Return the dtype that can hold the declared values, whatever the data have."""
    kind = _kind(values)
    return None if kind is None else {bool: "boolean", int: "Int64", float: "float64", str: "str"}.get(kind)
