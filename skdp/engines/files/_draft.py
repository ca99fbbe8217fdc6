"""A draft of a domain of a file of any size: of each column only what the draft depends on is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import (
    MISSING_TEXTS,
    MOST_ROWS,
    draft_domain_toml,
    type_texts,
    unrepeated_columns,
)
from skdp.engines._extras import Extra
from skdp.engines._streams import ROWS
from skdp.engines.files._formats import TableFile

pyarrow, compute, types = map(Extra, ("pyarrow", "pyarrow.compute", "pyarrow.types"))


def draft_file(table: TableFile, *, bins: int, max_values: int) -> str:
    """Draft a domain of the table in a file, in memory of a few batches."""
    # The draft depends on whether there are more than `most` distinct values, on the least and the largest, on whether
    # something is missing, whether all numbers are whole and all times midnights, and, in a CSV file, on whether all
    # texts are numbers, truth values, dates or times. So one value that shows each of these stands for all others.
    if len(table.names) == 1 and table.path.given_delimiter is None and table.advice():
        raise ValueError(f"{table.path.name} has a single column{table.advice()}")
    most = max(bins, max_values) + 1
    ends = _ends_of_texts if table.format == "csv" else _ends
    kept: dict[str, Any] = {}
    head = None
    for rows in _small(table.tables(None, table.names, coded=True)):
        if head is None or head.num_rows < MOST_ROWS:
            first = rows.slice(0, MOST_ROWS).select(table.names)
            head = first if head is None else pyarrow.concat_tables([head, first])
        for name in table.names:
            column = _plain(rows[name])
            if name in kept:
                column = pyarrow.chunked_array(
                    [*kept[name].chunks, *column.chunks], column.type
                )
            kept[name] = _condense(column, most, ends)
    unrepeated = set() if head is None else unrepeated_columns(_typed(table, head))
    return draft_domain_toml(
        _table(table, kept), bins=bins, max_values=max_values, unrepeated=unrepeated
    )


def _small(tables: Iterable[Any]) -> Iterator[Any]:
    for table in tables:
        for start in range(0, table.num_rows, ROWS):
            yield table.slice(start, ROWS)


def _plain(column: Any) -> Any:
    """Write out what is coded: of a dictionary only what occurs is drafted."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return (
        column.cast(pyarrow.large_string())
        if types.is_string_view(column.type)
        else column
    )


def _table(table: TableFile, kept: dict[str, Any]) -> Any:
    """Make a table of columns of different lengths: what is added has occurred."""
    if not kept:
        kept = dict(
            zip(
                table.names,
                map(_plain, table.sample(None, table.names).columns),
                strict=True,
            )
        )
    longest = max(map(len, kept.values()))
    made = {
        name: column.take(pyarrow.array(np.arange(longest) % max(1, len(column))))
        if len(column)
        else column
        for name, column in kept.items()
    }
    return _typed(table, pyarrow.table(made))


def _typed(table: TableFile, rows: Any) -> Any:
    """Give the columns of a CSV file the types that their texts have."""
    if table.format != "csv":
        return rows
    return type_texts(
        pd.DataFrame(
            {
                name: pd.Series(rows[name].to_pylist(), dtype=object)
                for name in table.names
            }
        )
    )


def _condense(column: Any, most: int, places_of: Callable[[Any, int], set[int]]) -> Any:
    """Keep the first distinct values, one more than matter, and those that show how far the values go."""
    if types.is_nested(column.type):
        return column.slice(0, 1)  # no such column is drafted
    found = compute.unique(column)
    found = (
        found
        if isinstance(found, pyarrow.ChunkedArray)
        else pyarrow.chunked_array([found])
    )
    if len(found) <= most:
        return found
    return found.take(pyarrow.array(sorted({*range(most), *places_of(found, most)})))


def _ends(found: Any, most: int) -> set[int]:
    kind, places = found.type, _first(compute.is_null(found).to_numpy())
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
        numbers = found.cast(pyarrow.float64(), safe=False).to_numpy()
        places |= _ends_of_numbers(numbers) | _first(np.isnan(numbers))
    elif types.is_date(kind) or types.is_timestamp(kind):
        times = found.to_pandas()
        places |= _ends_of_times(
            times.astype("datetime64[us]") if types.is_date(kind) else times
        )
    return places


def _ends_of_texts(found: Any, most: int) -> set[int]:
    """Return the same of text that may be numbers, dates, times, or neither."""
    texts = pd.Series(found.to_pylist(), dtype=object)
    missing = (texts.isna() | texts.isin(MISSING_TEXTS)).to_numpy()
    known = np.flatnonzero(~missing)
    numbers = pd.to_numeric(texts[known], errors="coerce").to_numpy(float)
    places = _ends_of_numbers(numbers) | _first(np.isnan(numbers))
    if np.isnan(numbers).any():
        places |= _ends_of_dates(texts[known])
    return (
        _first(missing)
        | set(known[:most].tolist())
        | {int(known[place]) for place in places}
    )


def _first(wanted: NDArray[np.bool_]) -> set[int]:
    return {int(wanted.argmax())} if wanted.any() else set()


def _ends_of_numbers(numbers: NDArray[np.float64]) -> set[int]:
    """Return where the least and the largest finite number are, an infinite one, and one that is not whole."""
    finite = np.isfinite(numbers)
    places = _first(np.isinf(numbers))
    if finite.any():
        places |= {
            int(np.where(finite, numbers, np.inf).argmin()),
            int(np.where(finite, numbers, -np.inf).argmax()),
        }
        places |= _first(finite & (np.floor(numbers) != numbers))
    return places


def _ends_of_times(times: pd.Series) -> set[int]:
    """Return where the first and the last time are, and one that is no midnight."""
    if times.dtype == object or times.isna().all():
        return set()
    fine = (times.notna() & (times != times.dt.normalize())).to_numpy()
    return {int(times.argmin()), int(times.argmax())} | _first(fine)


def _ends_of_dates(texts: pd.Series) -> set[int]:
    """Return the same for ISO 8601 text with and without a time zone, or where a text is none."""
    places: set[int] = set()
    read: dict[bool, dict[int, datetime]] = {False: {}, True: {}}
    for place, text in enumerate(texts):
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            return {place}  # the column is no column of dates
        read[time.tzinfo is not None][place] = time
    for times in filter(None, read.values()):
        places |= {min(times, key=times.__getitem__), max(times, key=times.__getitem__)}
        fine = (
            place
            for place, time in times.items()
            if time.time().isoformat() != "00:00:00"
        )
        places |= {place for place in [next(fine, None)] if place is not None}
    return places
