"""Cells of an output as numbers that are equal where the cells are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import is_missing

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)
_SALT = np.uint64(0x94D049BB133111EB)
_MISSING = np.uint64(0x2545F4914F6CDD1D)
_WORD = (1 << 64) - 1


def hash_cells(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash every cell by its value alone, whatever the dtype of its column."""
    # Equal numbers have equal hashes, and all kinds of missing have one: a dtype that depends on the other rows of a
    # table must not make equal cells differ. (In single calls, dtypes and types are part of the form.)
    if values.dtype.kind in "iub":
        return _mix(values.astype(np.int64, copy=False).view(np.uint64))
    if values.dtype.kind == "f":
        return _hash_floats(values.astype(np.float64, copy=False))
    objects = values.astype(object, copy=False)
    if pd.api.types.infer_dtype(objects, skipna=False) == "string":
        return pd.util.hash_array(objects)
    known: dict[Any, np.uint64] = {}
    hashes = np.empty(len(objects), np.uint64)
    for place, value in enumerate(objects):
        key = (type(value), repr(value))
        if key not in known:
            known[key] = _hash_object(value)
        hashes[place] = known[key]
    return hashes


def _hash_object(value: Any) -> np.uint64:
    if isinstance(value, str):
        return pd.util.hash_array(np.array([value], object))[0]
    if is_missing(value):
        return _MISSING
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return _mix(np.array([int(value) & _WORD], np.uint64))[0]
    if isinstance(value, float | np.floating):
        return _hash_floats(np.array([value], float))[0]
    return pd.util.hash_array(np.array([f"\0{type(value).__name__}:{value!r}"], object))[0]


def _hash_floats(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    whole = (np.abs(values) < 2.0**62) & (values == np.floor(values)) & ~(np.signbit(values) & (values == 0))
    integers = np.where(whole, values, 0).astype(np.int64).view(np.uint64)
    hashes = np.where(whole, _mix(integers), _mix(values.view(np.uint64) ^ _SALT))
    hashes[np.isnan(values)] = _MISSING
    return hashes


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for multiplier in _MULTIPLIERS:
        words = (words ^ (words >> np.uint64(31))) * multiplier
    return words ^ (words >> np.uint64(29))


def combine(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash pairs of hashes."""
    return _mix(_mix(left ^ _SALT) + right)


def to_floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Read the numbers of a column."""
    if values.dtype.kind in "iubf":
        return values.astype(float)
    return np.array([_to_float(value) for value in values])


def _to_float(value: Any) -> float:
    if not isinstance(value, int | float | np.number):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
