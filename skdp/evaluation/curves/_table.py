"""The table of a privacy curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.curves._scoring import ALL
from skdp.evaluation.displays import check_table
from skdp.tables import is_missing

COLUMNS = ["epsilon", "repeat", "fold", "metric", "group", "value"]
SIZES = ["n_train", "n_test"]


def check_curve(curve: Any, *, sizes: bool = False) -> None:
    """Check the result of `privacy_curve`."""
    if not isinstance(curve, pd.DataFrame):
        raise TypeError(f"curve must be a pandas DataFrame, got {type(curve).__name__}")
    wanted = COLUMNS + SIZES * sizes
    missing = [name for name in wanted if name not in curve.columns]
    if missing:
        raise ValueError(f"curve lacks the columns {missing}")
    check_table(curve, "curve", wanted, numbers=("epsilon", "value", *SIZES * sizes))
    if not np.isfinite(curve["epsilon"]).any():
        raise ValueError("curve must have rows of a finite epsilon")


def groups_of(curve: pd.DataFrame) -> list[Any]:
    """List the groups, that of all rows first."""
    groups = dict.fromkeys(
        None if is_missing(group) else group for group in curve["group"]
    )
    return sorted(groups, key=lambda group: group != ALL)


def rows_of_group(table: pd.DataFrame, group: Any) -> pd.DataFrame:
    """Select rows; pandas would treat a group of several columns as a list of groups."""
    if is_missing(group):
        return table[np.array([is_missing(one) for one in table["group"]], bool)]
    return table[
        np.array([not is_missing(one) and one == group for one in table["group"]], bool)
    ]
