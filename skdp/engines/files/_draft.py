"""A draft of a domain of a file of any size: of each column only what the draft depends on is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from skdp.base import (
    MISSING_TEXTS,
    MOST_ROWS,
    draft_domain_toml,
    type_texts,
    unrepeated_columns,
)
from skdp.engines._libraries import Extra
from skdp.engines.files._table_file import TableFile

pyarrow, compute, types = map(Extra, ("pyarrow", "pyarrow.compute", "pyarrow.types"))


def draft_file(table: TableFile, *, bins: int, max_values: int) -> str:
    """Draft a domain of the table in a file, in memory of a few batches."""
    # The draft depends on whether there are more than `n_distinct` distinct values, on
    # the least and the largest, on whether something is missing, whether all numbers
    # are whole and all times midnights, and, in a CSV file, on whether all texts are
    # numbers, truth values, dates or times. So one value that shows each of these
    # stands for all others.
    if len(table.names) == 1 and table.path.given_delimiter is None and table.advice():
        raise ValueError(f"{table.path.name} has a single column{table.advice()}")
    n_distinct = max(bins, max_values) + 1
    head = table.sample(None, table.names)
    values = {name: _plain(head[name]) for name in table.names}
    for rows in table.tables(None, table.names):
        if len(head) < MOST_ROWS:
            first_rows = rows.slice(0, MOST_ROWS)
            head = pyarrow.concat_tables([head, first_rows])
        for name in table.names:
            chunks = [*values[name].chunks, *_plain(rows[name]).chunks]
            column = pyarrow.chunked_array(chunks, values[name].type)
            values[name] = _telling_values(column, n_distinct, table.is_csv)
    # All columns have as many rows as the longest: what is added has occurred.
    n_rows = max(map(len, values.values()))
    columns = {}
    for name, column in values.items():
        places = np.arange(n_rows) % max(1, len(column))
        columns[name] = column.take(pyarrow.array(places)) if len(column) else column
    unrepeated = unrepeated_columns(_typed(table, head)) if len(head) else set()
    return draft_domain_toml(
        _typed(table, pyarrow.table(columns)),
        bins=bins,
        max_values=max_values,
        unrepeated=unrepeated,
    )


def _plain(column: Any) -> Any:
    """Write out what is coded: of a dictionary only what occurs is drafted."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string_view(column.type):
        column = column.cast(pyarrow.large_string())
    return column


def _typed(table: TableFile, rows: Any) -> Any:
    """Give the columns of a CSV file the types that their texts have."""
    if not table.is_csv:
        return rows
    texts = {}
    for name in table.names:
        texts[name] = pd.Series(rows[name].to_pylist(), dtype=object)
    return type_texts(pd.DataFrame(texts))


def _telling_values(column: Any, n_distinct: int, is_csv: bool) -> Any:
    """Keep the first distinct values, one more than matter, and those that show how far the values go."""
    if types.is_nested(column.type):
        # No such column is drafted.
        return column.slice(0, 1)
    values = compute.unique(column)
    if not isinstance(values, pyarrow.ChunkedArray):
        values = pyarrow.chunked_array([values])
    if len(values) <= n_distinct:
        return values
    if is_csv:
        places = _telling_texts(values, n_distinct)
    else:
        places = {*range(n_distinct), *_first(values.is_null().to_numpy())}
        keys = _keys(values)
        if keys is not None:
            places |= _telling_places(keys)
    return values.take(pyarrow.array(sorted(places)))


def _keys(values: Any) -> pd.Series | None:
    """Return numbers or times as pandas compares them, None for other values."""
    kind = values.type
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return pd.Series(values.cast(pyarrow.float64(), safe=False).to_numpy())
    if types.is_date(kind):
        return values.to_pandas().astype("datetime64[us]")
    if types.is_timestamp(kind):
        return values.to_pandas()
    return None


def _telling_texts(values: Any, n_distinct: int) -> set[int]:
    """Choose from text that may be numbers, dates, times, or neither."""
    texts = pd.Series(values.to_pylist(), dtype=object)
    is_missing = (texts.isna() | texts.isin(MISSING_TEXTS)).to_numpy()
    places = np.flatnonzero(~is_missing)
    texts = texts[places].reset_index(drop=True)
    numbers = pd.to_numeric(texts, errors="coerce").astype(float)
    telling = {*range(min(n_distinct, len(texts))), *_telling_places(numbers)}
    if numbers.isna().any():
        times, zoned_times = _times(texts)
        telling |= _first(times.isna() & zoned_times.isna())
        telling |= _telling_places(times) | _telling_places(zoned_times)
    return {int(places[place]) for place in telling} | _first(is_missing)


def _times(texts: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Read ISO 8601 text without and with a time zone; other text is missing."""
    times = np.full(len(texts), "NaT", "datetime64[us]")
    zoned_times = times.copy()
    for place, text in enumerate(texts):
        try:
            time = datetime.fromisoformat(text)
            is_zoned = time.tzinfo is not None
            if is_zoned:
                time = time.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            # The column is no column of dates.
            break
        column = zoned_times if is_zoned else times
        column[place] = time
    return pd.Series(times), pd.Series(zoned_times)


def _telling_places(keys: pd.Series) -> set[int]:
    """Return where the least and the largest key are, and one that is missing, infinite or not whole."""
    places = _first(keys.isna())
    if keys.dtype.kind == "M":
        is_fine = keys != keys.dt.normalize()
    else:
        is_infinite = np.isinf(keys)
        places |= _first(is_infinite)
        keys = keys.mask(is_infinite)
        is_fine = keys % 1 != 0
    is_known = keys.notna()
    if is_known.any():
        places |= {int(keys.argmin()), int(keys.argmax())}
    return places | _first(is_known & is_fine)


def _first(mask: Any) -> set[int]:
    places = np.flatnonzero(mask)[:1]
    return set(places.tolist())
