"""Reports in random order, without a row index."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import check_random_state, coins, read_array
from skdp.frames import is_frame
from skdp.local._carried import carried_text, with_protocol
from skdp.randomness import ByteSource


def shuffle_reports(reports: Any, *, random_state: int | None = None) -> Any:
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
        The same rows in an order that is uniform among all orders; in pandas with a new row index.

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
    if not is_frame(reports):
        rows = read_array(reports, "reports")
        if rows.ndim != 2:
            raise ValueError(f"reports must be a table, got {rows.ndim} dimensions")
        return rows[_order(len(rows), coins(random_state, "shuffle_reports"))]
    frame = nw.from_native(reports, eager_only=True)
    order = _order(len(frame), coins(random_state, "shuffle_reports"))
    if frame.implementation.is_pandas():
        shuffled = reports.take(order).reset_index(drop=True)
        shuffled.attrs = {}  # which may hold anything
        return with_protocol(shuffled, carried_text(reports))
    return frame[order].to_native()


def _order(n: int, source: ByteSource) -> NDArray[np.intp]:
    """Draw a permutation."""
    while True:
        words = source.bytes(8 * n).view("<u8")
        order = np.argsort(words, kind="stable")
        if not (np.diff(words[order]) == 0).any():
            return order
