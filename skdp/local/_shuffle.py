"""Tables of reports: joined with their notes, or in random order without a row index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_random_state, coins, read_array
from skdp.frames import (
    carried_releases,
    carried_text,
    carries_notes,
    is_frame,
    joined_releases,
    pandas_note,
    with_protocol,
)
from skdp.local._protocol_file import refuse_other, says_secure
from skdp.randomness import ByteSource
from skdp.typing import TableLike


def join_reports(tables: Sequence[Any]) -> Any:
    """Put tables of reports of one protocol under each other, with the notes of all of them.

    pandas and pyarrow keep the note of the first table that they join, or none, so that it cannot be verified of the
    rows of the others.

    Parameters
    ----------
    tables : sequence of dataframe
        What `transform` returned, in one call or several, of one library; also parts of it.

    Returns
    -------
    same kind as the tables
        The rows of all tables; in pandas with a new row index. It says its protocol, and its releases, if all do.

    Raises
    ------
    TypeError, ValueError
        If there are no tables, they are of several libraries, or of other columns, or say different protocols.

    See Also
    --------
    skdp.engines.tally_files : Sums up files, and verifies the note of each.

    Notes
    -----
    **Privacy.** Post-processing of reports: free.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import join_reports
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"]})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people)
    >>> week = join_reports([encoder.transform(people) for day in range(7)])
    >>> len(week), len(week.attrs["skdp.releases"])
    (21, 7)
    """
    listed = list(tables)
    if not listed or not all(map(is_frame, listed)):
        raise TypeError(
            "tables must be a list of at least one table in memory of pandas, polars or pyarrow"
        )
    texts = [carried_text(table) for table in listed]
    known = [text for text in texts if text is not None]
    for text in known[1:]:
        refuse_other(text, known[0])
    frames: list[nw.DataFrame[Any]] = [
        nw.from_native(table, eager_only=True) for table in listed
    ]
    if len({frame.implementation for frame in frames}) > 1:
        raise TypeError("tables must all be of one library")
    if len({tuple(frame.columns) for frame in frames}) > 1:
        raise ValueError("tables must have the same columns in the same order")
    joined = nw.maybe_reset_index(nw.concat(frames, how="vertical")).to_native()
    if isinstance(joined, pd.DataFrame):
        joined.attrs = {}
    elif carries_notes(joined):
        joined = joined.replace_schema_metadata(None)
    said = None
    if len(known) == len(listed):
        # The joined table is as secure as the least secure of them.
        insecure = [text for text in known if not says_secure(text)]
        said = (insecure or known)[0]
    return with_protocol(joined, said, joined_releases(map(carried_releases, listed)))


def shuffle_reports(reports: TableLike, *, random_state: int | None = None) -> Any:
    """Put the rows of a table of reports into a random order, and drop the row index.

    Parameters
    ----------
    reports : dataframe or array-like of shape (n_samples, n_columns)
        What `transform` returned: reports only. All columns are kept and stay together, so no column may tell who sent
        a row, or when.
    random_state : int, optional
        None uses secure randomness. An int gives a reproducible order, for tests and experiments only: with it, the
        order can be undone.

    Returns
    -------
    same kind as reports
        The rows in an order that is uniform among all orders; in pandas with a new row index.

    Raises
    ------
    TypeError, ValueError
        If the reports are no table, or random_state is not an int.

    See Also
    --------
    skdp.privacy.shuffled_guarantee : What shuffled reports guarantee.

    Notes
    -----
    **Privacy.** Together with reports of n honest persons, it gives the guarantee of `shuffled_guarantee` to those who
    see the result and nothing else of the reports. The process that shuffles sees them all, and is trusted; so are
    those who keep a copy of them, or logs. Free: it is post-processing of reports, with the local guarantee at least.

    The order is exactly uniform: random words of 64 bits are sorted, and if two are equal, which for 10 million rows
    happens once in 300,000 calls, all are drawn again.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import shuffle_reports
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"]}, index=["Ann", "Bob", "Carl"])
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people)
    >>> shuffle_reports(encoder.transform(people)).index.tolist()
    [0, 1, 2]
    """
    check_random_state(random_state)
    source = coins(random_state, "shuffle_reports")
    if not is_frame(reports):
        rows = read_array(reports, "reports")
        if rows.ndim != 2:
            raise ValueError(f"reports must be a table, got {rows.ndim} dimensions")
        return rows[_permutation(len(rows), source)]
    frame: nw.DataFrame[Any] = nw.from_native(cast(Any, reports), eager_only=True)
    native = frame.to_native()
    said = carried_text(native)
    order = _permutation(len(frame), source)
    releases = carried_releases(native)
    if frame.implementation.is_pandas():
        taken = (native.iloc[:, place].take(order) for place in range(native.shape[1]))
        columns = {place: _of_pandas(column) for place, column in enumerate(taken)}
        table = pd.DataFrame(columns, index=pd.RangeIndex(len(order)))
        table.columns = native.columns
        return with_protocol(table, said, releases)
    if frame.implementation.is_pyarrow():
        return with_protocol(_of_arrow(native, order), said, releases)
    shuffled = frame[order]
    return shuffled.with_columns(
        _fresh(shuffled[name]) for name in shuffled.columns
    ).to_native()


def _of_pandas(column: pd.Series) -> Any:
    """Return a column without its index; categories that nobody declared may be in the order of the rows."""
    values = column.reset_index(drop=True)
    if isinstance(values.dtype, pd.ArrowDtype):
        import pyarrow

        whole = _plain(pyarrow.chunked_array(pyarrow.array(values)))
        return pd.Series(pd.arrays.ArrowExtensionArray(whole))
    if isinstance(values.dtype, pd.CategoricalDtype) and not values.dtype.ordered:
        return values.cat.set_categories(
            sorted(values.cat.categories, key=lambda value: (str(type(value)), value))
        )
    return values


def _of_arrow(table: Any, order: NDArray[np.intp]) -> Any:
    """Return rows of a table without metadata, and without the columns that were a row index."""
    index = pandas_note(table.schema.metadata or {}).get("index_columns")
    names = [
        name
        for name in table.column_names
        if not (isinstance(index, list) and name in index)
    ]
    rows = table.select(names).take(order).combine_chunks()
    return type(table).from_arrays([_plain(column) for column in rows.columns], names)


def _plain(column: Any) -> Any:
    """Return an Arrow column without a dictionary, which may be in the order of the rows."""
    kind = column.type
    return column.cast(kind.value_type) if hasattr(kind, "index_type") else column


def _fresh(column: nw.Series[Any]) -> nw.Series[Any]:
    """Return a column of polars whose texts are stored in the order of its rows."""
    plain = column.cast(nw.String) if column.dtype == nw.Categorical else column
    if plain.dtype not in (nw.String, nw.Binary):
        return plain
    return nw.new_series(
        plain.name, plain.to_list(), plain.dtype, backend=plain.implementation
    )


def _permutation(n: int, source: ByteSource) -> NDArray[np.intp]:
    while True:
        words = source.bytes(8 * n).view("<u8")
        order = np.argsort(words, kind="stable")
        if not (np.diff(words[order]) == 0).any():
            return order
