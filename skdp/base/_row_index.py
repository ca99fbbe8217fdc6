"""The row index of pandas: it passes through a transformer, and says which row of another table is the same record."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdp.base._warnings import warn_once
from skdp.privacy import PrivacyLeakWarning


def named_levels(table: Any) -> tuple[Any, ...]:
    """Return the names of the levels of the row index of a table or series, without levels that have none."""
    if not isinstance(table, pd.DataFrame | pd.Series):
        return ()
    return tuple(name for name in table.index.names if name is not None)


def refuse_protected_levels(
    table: Any, protected: Sequence[Any], *, what: str = "X"
) -> None:
    """Refuse a row index with a level of the name of a protected column, whose values would pass through."""
    for name in named_levels(table):
        if name in protected:
            raise ValueError(
                f"the row index of {what} has a level {name!r}, as a protected column is called, and passes through: "
                f"the true values would stay beside the reports. Drop the level before, by "
                f"{what}.reset_index({name!r}, drop=True) (without drop=True, where it is not a column yet); to have "
                f"groups in the index, as aif360 does, put the reports there: reports.set_index({name!r}, drop=False)"
            )


def warn_of_levels(table: Any, known: Collection[Any] = ()) -> None:
    """Warn of a row index whose levels have names, unless these were warned of before."""
    # An index without names is usually the number of a row, or of a row of the table that it was drawn from.
    names = [name for name in named_levels(table) if name not in known]
    if names:
        warn_once(
            f"the row index passes through unprotected, with {', '.join(map(repr, names))}: if it says something of a "
            "record or identifies a person, drop it before by reset_index(drop=True)",
            PrivacyLeakWarning,
        )


def check_same_order(X: Any, column: Any, what: str) -> None:
    """Refuse a series that has the row labels of X in another order, as it is read by position."""
    if not (
        isinstance(X, pd.DataFrame) and isinstance(column, pd.DataFrame | pd.Series)
    ):
        return
    if (
        len(X) == len(column)
        and not X.index.equals(column.index)
        and _hold_the_same(X.index, column.index)
    ):
        problem = f"{what} has the labels of X in another order, and rows are read by position"
        in_place = f"pass {what}.to_numpy() if its rows are in the order of X"
        if not X.index.is_unique:
            raise ValueError(
                f"{problem}. Labels that occur twice do not say which row is which: {in_place}; otherwise give each "
                "row a label of its own where both are made"
            )
        raise ValueError(
            f"{problem}: reindex it like X, by {what}.reindex(X.index), or {in_place}"
        )


def _hold_the_same(labels: pd.Index, others: pd.Index) -> bool:
    """Return whether two indexes of one length hold the same labels, each as often."""
    try:
        distinct = labels.unique()
        expected, given = (
            distinct.get_indexer_for(labels),
            distinct.get_indexer_for(others),
        )
    except (
        TypeError,
        ValueError,
    ):  # labels that cannot be looked up, or not among the others
        return False
    return bool((given >= 0).all()) and np.array_equal(
        np.sort(expected), np.sort(given)
    )
