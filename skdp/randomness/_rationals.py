"""The checks of the exact parameters of noise."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_rational(name: str, value: Any, *, zero: bool = False, signed: bool = False) -> Fraction:
    """Check an exact parameter and return it as a fraction."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Rational):
        raise TypeError(f"{name} must be a Fraction or an int, got {type(value).__name__}")
    # NumPy's integers would stay inside the fraction, and overflow.
    exact = Fraction(int(value.numerator), int(value.denominator))
    if not signed and (exact < 0 or (exact == 0 and not zero)):
        raise ValueError(f"{name} must be {'>= 0' if zero else '> 0'}")
    return exact


def check_positive_int(name: str, value: Any) -> int:
    """Check a number of dimensions or the like."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)


def check_integers(name: str, values: ArrayLike) -> NDArray:
    """Check a list of integers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.dtype == object or array.size == 0:
        if not all(isinstance(value, Integral) and not isinstance(value, bool) for value in array):
            raise TypeError(f"{name} must be integers")
        return np.array([int(value) for value in array], object if array.size else np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    return array.astype(object if array.dtype == np.uint64 else np.int64, copy=False)
