"""Weights of rows, which are private: declared up to a maximum, as whole numbers of steps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from skdp.central.statistics._batches import Batches


def check_weight(sample_weight: Any, max_weight: Any, names: Sequence[Any]) -> None:
    """Check that the column of the weights is one of X, and that its maximum is declared."""
    if sample_weight is None and max_weight is None:
        return
    if sample_weight is None or max_weight is None:
        raise ValueError(
            "sample_weight names the column of the weights, and max_weight declares "
            "the largest weight from what is publicly known: give both or none"
        )
    if isinstance(sample_weight, np.ndarray | list) or sample_weight not in names:
        raise ValueError(
            f"sample_weight must be the name of a column of X, which has {list(names)}"
        )
    number = int | float | np.integer | np.floating
    if isinstance(max_weight, bool) or not isinstance(max_weight, number):
        raise TypeError(
            "max_weight must be an int or a float, got " + type(max_weight).__name__
        )
    # Neither an int beyond every float nor one that is too long to be written fails.
    if isinstance(max_weight, int):
        in_range = 0 < max_weight <= sys.float_info.max
    else:
        in_range = bool(np.isfinite(max_weight) and max_weight > 0)
    if not in_range:
        raise ValueError(
            f"max_weight must be a number > 0 and at most {sys.float_info.max:g}"
        )


def without_weight(rows: Batches, sample_weight: Any) -> Batches:
    """Return all columns but that of the weights."""
    return rows.select([name for name in rows.names if name != sample_weight])
