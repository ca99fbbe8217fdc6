"""Leaving out what a person contributes beyond a limit."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.frames import is_frame, read_table


def bound_contribution(groups: Any, most: int, n_rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Choose at most so many rows of each person, at random.

    Which of a person's rows are kept does not depend on other persons, so adding or removing a person changes the kept
    table by at most her own rows.

    Parameters
    ----------
    groups : 1-D array or series of shape (n_rows,)
        Who each row is about.
    most : int
        How many rows of a person are kept.
    n_rows : int
        The number of rows of the table.
    rng : numpy.random.Generator
        The coins of the choice; they need not be secret.

    Returns
    -------
    ndarray of int
        The places of the kept rows, increasing.

    Raises
    ------
    ValueError
        If the groups do not fit the table, or one is missing: rows without a person cannot be bounded.

    Examples
    --------
    >>> kept = bound_contribution(["ann", "bob", "ann", "ann"], 2, 4, np.random.default_rng(0))
    >>> len(kept), 1 in kept
    (3, True)
    """
    if is_frame(groups):
        table = read_table(groups)
        if len(table.columns) != 1:
            raise ValueError(f"groups must be one column, got {len(table.columns)}")
        (groups,) = table.columns
    if hasattr(groups, "__array__") and not isinstance(groups, np.ndarray | pd.Series | pd.Index):
        groups = nw.from_native(groups, series_only=True).to_pandas()
    ids = pd.Series(groups).reset_index(drop=True)
    if len(ids) != n_rows:
        raise ValueError(f"groups has {len(ids)} entries; X has {n_rows} rows")
    persons, _ = pd.factorize(ids)
    if (persons < 0).any():
        raise ValueError("groups holds a missing value: every row must be some person's")
    shuffled = rng.permutation(n_rows)
    order = shuffled[np.argsort(persons[shuffled], kind="stable")]
    sizes = np.bincount(persons)
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[rank < most])
