"""The row index of pandas passes through a transformer, so it must not hold what the transformer protects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from skdp.base._warnings import warn_once
from skdp.privacy import PrivacyLeakWarning


def named_levels(table: Any) -> tuple[Any, ...]:
    """Return the names of the levels of the row index of a table or series, without levels that have none."""
    if not isinstance(table, pd.DataFrame | pd.Series):
        return ()
    return tuple(name for name in table.index.names if name is not None)


def refuse_protected_levels(table: Any, protected: Sequence[Any], *, what: str = "X") -> None:
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
