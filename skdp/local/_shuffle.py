"""Random permutation of the rows of a table of reports."""

from __future__ import annotations

from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np

from skdp._arrays import Indices
from skdp.base import TableLike, check_random_state, make_source, to_array
from skdp.randomness import ByteSource
from skdp.tables import (
    attach_protocol,
    get_protocol_text,
    is_frame,
    parse_pandas_metadata,
)


def shuffle_reports(reports: TableLike, *, random_state: int | None = None) -> Any:
    """Shuffle the rows of a table of reports, and drop the row index.

    Parameters
    ----------
    reports : dataframe or array-like of shape (n_samples, n_columns)
        Output of `transform`, without further columns. The entries of a row remain
        together, so no column may identify the person or the time.
    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        order is then not private.

    Returns
    -------
    same type as reports
        Rows in a uniformly random order. In pandas, the row index is new.

    Raises
    ------
    TypeError, ValueError
        If the reports are not a table, or random_state is not an int.

    See Also
    --------
    skdp.privacy.shuffled_guarantee : Guarantee of shuffled reports.

    Notes
    -----
    **Privacy.** The output with the reports of n honest people has the guarantee of
    `shuffled_guarantee`, against everybody who does not see the reports before they are
    shuffled, such as in a copy or a log. Against everybody else, the local
    guarantee holds.

    The categories of a dtype, and the dictionary of a column of pyarrow, keep their order.
    Convert them to text if they were collected from the reports.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import shuffle_reports
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"]}, index=["Ann", "Bob", "Carl"])
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    >>> encoder = encoder.fit(people)
    >>> shuffle_reports(encoder.transform(people)).index.tolist()
    [0, 1, 2]
    """
    check_random_state(random_state)
    source = make_source(random_state, "shuffle_reports")
    if not is_frame(reports):
        rows = to_array(reports, "reports")
        if rows.ndim != 2:
            raise ValueError(
                f"`reports` must be a DataFrame or a 2D array, got {rows.ndim}D. Use "
                "reports[[column]] or reports.to_frame()."
            )
        return rows[_draw_permutation(len(rows), source)]
    frame: nw.DataFrame[Any] = nw.from_native(cast(Any, reports), eager_only=True)
    native = frame.to_native()
    order = _draw_permutation(len(frame), source)
    if frame.implementation.is_pandas():
        shuffled = native.take(order).reset_index(drop=True)
        shuffled.attrs = {}
    elif frame.implementation.is_pyarrow():
        shuffled = _take_arrow(native, order)
    else:  # polars, which has no metadata
        return _take_polars(frame, order)
    return attach_protocol(shuffled, get_protocol_text(native))


def _draw_permutation(n: int, source: ByteSource) -> Indices:
    """Draw a uniformly random permutation of n rows."""
    # The order of random words is uniform if no two of them are equal. Otherwise, all
    # words are drawn again: once in 300,000 calls for 10 million rows.
    while True:
        words = source.bytes(8 * n).view("<u8")
        order = np.argsort(words, kind="stable")
        has_equal_words = (np.diff(words[order]) == 0).any()
        if not has_equal_words:
            return order


def _take_arrow(table: Any, order: Indices) -> Any:
    """Take rows of a pyarrow table, without its metadata and its columns with a row index."""
    index = parse_pandas_metadata(table.schema.metadata or {}).get("index_columns")
    if not isinstance(index, list):
        index = []
    names = [name for name in table.column_names if name not in index]
    return type(table).from_arrays(table.select(names).take(order).columns, names)


def _take_polars(frame: nw.DataFrame[Any], order: Indices) -> Any:
    """Take rows of a polars dataframe, with new buffers of text."""
    # The rows that polars selects refer to the old buffers, which reveal the old order.
    rows = frame[order]
    columns = []
    for column in rows.iter_columns():
        if column.dtype == nw.String:
            column = nw.new_series(
                column.name, column.to_list(), nw.String, backend=column.implementation
            )
        columns.append(column)
    return rows.with_columns(columns).to_native()
