"""A draft of a domain of a file of any size: of each column only what the draft depends on is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.base import MOST_ROWS, draft_domain_toml, type_texts, unrepeated_columns
from skdp.engines._libraries import Extra
from skdp.engines.files._table_file import TableFile

_MOST_VALUES = 1 << 18
"""Of a column in memory: some 16 megabytes of text."""

pyarrow, compute, types = map(Extra, ("pyarrow", "pyarrow.compute", "pyarrow.types"))


def draft_file(table: TableFile, *, bins: int, max_values: int) -> str:
    """Draft a domain of the table in a file, in memory of a few batches."""
    # The draft of a column depends on which values occur, and not on how often: each
    # distinct one is kept, up to a number that bounds the memory.
    if len(table.names) == 1 and table.path.given_delimiter is None and table.advice():
        raise ValueError(f"{table.path.name} has a single column{table.advice()}")
    most_values = max(_MOST_VALUES, 4 * max(bins, max_values))
    head = table.sample(None, table.names)
    values = {name: _plain(head[name]) for name in table.names}
    for rows in table.tables(None, table.names):
        if len(head) < MOST_ROWS:
            first_rows = rows.slice(0, MOST_ROWS)
            head = pyarrow.concat_tables([head, first_rows])
        for name in table.names:
            chunks = [*values[name].chunks, *_plain(rows[name]).chunks]
            column = pyarrow.chunked_array(chunks, values[name].type)
            values[name] = _distinct_values(column, table, most_values)
    # All columns have as many rows as the longest: what is added has occurred.
    n_rows = max(map(len, values.values()))
    columns = {}
    for name, column in values.items():
        places = np.arange(n_rows) % max(1, len(column))
        columns[name] = column.take(pyarrow.array(places)) if len(column) else column
    unrepeated = set()
    if len(head):
        unrepeated = unrepeated_columns(_typed(table, head, table.names))
    return draft_domain_toml(
        _typed(table, pyarrow.table(columns), table.names),
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


def _typed(table: TableFile, rows: Any, names: list[str]) -> Any:
    """Give the columns of a CSV file the types that their texts have."""
    if not table.is_csv:
        return rows
    texts = {}
    for name in names:
        texts[name] = pd.Series(rows[name].to_pylist(), dtype=object)
    return type_texts(pd.DataFrame(texts))


def _distinct_values(column: Any, table: TableFile, most_values: int) -> Any:
    """Keep the distinct values, or of very many of them the least and the largest ones."""
    if types.is_nested(column.type):
        # No such column is drafted.
        return column.slice(0, 1)
    values = compute.unique(column)
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    # Not at each batch: to sort text by what it means takes time.
    if len(values) > 2 * most_values:
        rows = _typed(table, pyarrow.table({"values": values}), ["values"])
        keys = rows["values"] if table.is_csv else rows.to_pandas()["values"]
        if keys.dtype == object:
            keys = keys.map(str)
        # A bin or a list of values needs the ends, whose last ones may be missing.
        order = np.asarray(keys.argsort(kind="stable"))
        n_kept = most_values // 2
        values = values.take(pyarrow.array(np.append(order[:n_kept], order[-n_kept:])))
    return pyarrow.chunked_array([values])
