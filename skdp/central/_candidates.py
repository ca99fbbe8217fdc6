"""The public values that a quantile is chosen from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import read_bounds
from skdp.oracles import check_size

STEPS = 10_000
"""The most steps between the bounds by default, unless more are needed to have all whole numbers."""

MOST_INTEGERS = 100_000
MOST_CANDIDATES = 1_000_000

_SCALE = 2.0**-20


def read_candidates(candidates: Any, names: Sequence[Any], bounds: Any) -> list[NDArray[np.float64]]:
    """Take the declared candidates of each column, or make them from the bounds."""
    # They do not depend on the table, whose dtypes show what is in it: pandas makes floats of integers where one is
    # missing.
    ends = read_bounds(bounds, names)
    if isinstance(candidates, Mapping):
        unknown = [name for name in candidates if name not in names]
        if unknown:
            raise ValueError(f"candidates declares columns that X does not have: {unknown}; X has {list(names)}")
        declared = [candidates.get(name) for name in names]
    else:
        declared = [candidates] * len(names)
    return [_read(name, one, low, high) for name, one, (low, high) in zip(names, declared, ends.tolist(), strict=True)]


def _read(name: Any, declared: Any, low: float, high: float) -> NDArray[np.float64]:
    if declared is None:
        return equal_steps(low, high, _default_steps(low, high))
    if isinstance(declared, str):
        return _integers(name, declared, low, high)
    if hasattr(declared, "__len__") and not isinstance(declared, bytes):
        return _read_values(name, declared, low, high)
    return equal_steps(low, high, check_size(declared, least=1, most=MOST_CANDIDATES, name="candidates"))


def _read_values(name: Any, declared: Any, low: float, high: float) -> NDArray[np.float64]:
    try:
        values = np.asarray(declared)
    except ValueError:  # rows of different lengths
        values = np.empty((0, 0))
    if values.ndim != 1 or not 0 < values.size <= MOST_CANDIDATES:
        raise ValueError(f"candidates of column {name!r} must be a list of 1 to {MOST_CANDIDATES:,} numbers")
    if values.dtype.kind not in "iuf":
        raise TypeError(f"candidates of column {name!r} must be numbers, got {values.dtype}")
    if not ((low <= values) & (values <= high)).all():  # not so for nan
        raise ValueError(f"candidates of column {name!r} must be between its bounds, {low:g} and {high:g}")
    return np.unique(values.astype(float))


def _default_steps(low: float, high: float) -> int:
    width = high - low
    if not (low.is_integer() and high.is_integer() and width <= MOST_INTEGERS):
        return STEPS
    return max(STEPS - STEPS % int(width), int(width))


def _integers(name: Any, declared: str, low: float, high: float) -> NDArray[np.float64]:
    if declared != "integers":
        raise ValueError(
            f"candidates of column {name!r} must be 'integers', a number of steps or a list, got {declared!r}"
        )
    least, most = math.ceil(low), math.floor(high)
    if not 0 <= most - least < MOST_CANDIDATES:
        raise ValueError(
            f"candidates='integers' of column {name!r}: there must be 1 to {MOST_CANDIDATES:,} whole numbers between "
            f"the bounds {low:g} and {high:g}"
        )
    return np.arange(least, most + 1, dtype=float)


def equal_steps(low: float, high: float, steps: int) -> NDArray[np.float64]:
    """Cut the range between two bounds into equal steps."""
    index = np.arange(steps + 1)
    # Where the sum is exact, as of small whole bounds, this is the float that the decimal fraction is written as. The
    # power of 2 changes no digit, and keeps the product of large bounds finite.
    inside = (_SCALE * low * (steps - index) + _SCALE * high * index) / steps / _SCALE
    inside[0], inside[-1] = low, high
    return np.clip(inside, low, high)
