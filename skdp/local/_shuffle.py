"""Tables of reports, shuffled without a row index."""

from __future__ import annotations

from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import TableLike, check_random_state, make_source, to_array
from skdp.randomness import ByteSource
from skdp.tables import (
    attach_protocol,
    get_protocol_text,
    is_frame,
    parse_pandas_metadata,
)


def shuffle_reports(reports: TableLike, *, random_state: int | None = None) -> Any:
    """Put the rows of a table of reports into a random order, and drop the row index.

    Parameters
    ----------
    reports : dataframe or array-like of shape (n_samples, n_columns)
        Output of `transform`, without further columns. The values of a row stay
        together, so no column may identify its sender or time.
    random_state : int, optional
        None is secure. An int is reproducible, and not private, as the order can be
        undone: for tests only.

    Returns
    -------
    same kind as reports
        The rows in an order that is uniform among all orders; in pandas with a new row
        index.

    Raises
    ------
    TypeError, ValueError
        If the reports are not a table, or random_state is not an int.

    See Also
    --------
    skdp.privacy.shuffled_guarantee : Guarantee of shuffled reports.

    Notes
    -----
    **Privacy.** Together with reports of n honest persons, it gives the guarantee of
    `shuffled_guarantee` to those who see the result and nothing else of the reports. The process
    that shuffles sees them all, and is trusted; so are those who keep a copy of them, or logs. It is
    post-processing of reports, which keep at least the local guarantee.

    The categories of a dtype, or the dictionary of a column of pyarrow, keep their order.
    Convert them to text if they were collected from the reports.

    The order is exactly uniform: random words of 64 bits are sorted, and if two are
    equal, which for 10 million rows happens once in 300,000 calls, all are drawn again.

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
                f"reports must be a table, got {rows.ndim} dimensions; pass "
                "reports[[column]] for a single column of a dataframe"
            )
        return rows[_permutation(len(rows), source)]
    frame: nw.DataFrame[Any] = nw.from_native(cast(Any, reports), eager_only=True)
    native = frame.to_native()
    order = _permutation(len(frame), source)
    if frame.implementation.is_pandas():
        shuffled = native.take(order).reset_index(drop=True)
        shuffled.attrs = {}
    elif frame.implementation.is_pyarrow():
        shuffled = _take_arrow(native, order)
    else:  # polars, which has no metadata
        return _take_polars(frame, order)
    return attach_protocol(shuffled, get_protocol_text(native))


def _permutation(n: int, source: ByteSource) -> NDArray[np.intp]:
    # Sorted random words are a uniform order, unless two of them are equal.
    while True:
        words = source.bytes(8 * n).view("<u8")
        order = np.argsort(words, kind="stable")
        has_equal_words = (np.diff(words[order]) == 0).any()
        if not has_equal_words:
            return order


def _take_arrow(table: Any, order: NDArray[np.intp]) -> Any:
    """Return rows without metadata, and without the columns that were a row index."""
    index = parse_pandas_metadata(table.schema.metadata or {}).get("index_columns")
    if not isinstance(index, list):
        index = []
    names = [name for name in table.column_names if name not in index]
    return type(table).from_arrays(table.select(names).take(order).columns, names)


def _take_polars(frame: nw.DataFrame[Any], order: NDArray[np.intp]) -> Any:
    """Return rows with new texts: the rows that polars takes share the old ones, in the old order."""
    rows = frame[order]
    columns = []
    for column in rows.iter_columns():
        if column.dtype == nw.String:
            column = nw.new_series(
                column.name, column.to_list(), nw.String, backend=column.implementation
            )
        columns.append(column)
    return rows.with_columns(columns).to_native()
