"""Tables that hold a target beside the rows: as checks and audits, which vary one table, are given them."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd


def split_target(table: Any) -> tuple[Any, Any]:
    """Take the last column of a table, with its name, as its target; of a lazy table, which keeps it, the name."""
    if isinstance(table, np.ndarray | pd.DataFrame):
        _check_width(table.shape[1] if table.ndim == 2 else 1)
        part = table.iloc if isinstance(table, pd.DataFrame) else table
        return part[:, :-1], part[:, -1]
    frame = nw.from_native(table)
    *names, target = frame.collect_schema().names()
    _check_width(len(names) + 1)
    if isinstance(frame, nw.LazyFrame):
        return table, target
    return frame.select(names).to_native(), frame.select(target).to_native()


def _check_width(n_columns: int) -> None:
    if n_columns < 2:
        raise ValueError(
            f"X must have two columns or more, the last of them the target, got {n_columns}"
        )


def rows_and_target(estimator: Any, table: Any) -> tuple[Any, Any]:
    """Split a table where an estimator needs a target, which otherwise is None."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    needed = tags is not None and tags().target_tags.required
    return split_target(table) if needed else (table, None)
