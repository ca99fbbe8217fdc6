"""The checks of the exact parameters of noise."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_rational(name: str, value: Any, *, zero: bool = False, signed: bool = False) -> Fraction:
    """Check an exact parameter and return it as a fraction.

    Parameters
    ----------
    name : str
        What to call it in an error.
    value : Fraction or int
        The parameter. A float is refused: the caller decides which fraction is meant.
    zero : bool, default=False
        Whether 0 is allowed.
    signed : bool, default=False
        Whether every number is allowed.

    Returns
    -------
    Fraction
        The same number.

    Raises
    ------
    TypeError
        If it is not a rational number (a bool is none).
    ValueError
        If it is out of range.

    Examples
    --------
    >>> check_rational("scale", 3)
    Fraction(3, 1)
    >>> check_rational("scale", 0.1)
    Traceback (most recent call last):
        ...
    TypeError: scale must be a Fraction or an int, got float
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Rational):
        raise TypeError(f"{name} must be a Fraction or an int, got {type(value).__name__}")
    # NumPy's integers would stay inside the fraction, and overflow.
    exact = Fraction(int(value.numerator), int(value.denominator))
    if not signed and (exact < 0 or (exact == 0 and not zero)):
        raise ValueError(f"{name} must be {'>= 0' if zero else '> 0'}")
    return exact


def check_positive_int(name: str, value: Any) -> int:
    """Check a number of dimensions or the like.

    Parameters
    ----------
    name : str
        What to call it in an error.
    value : int
        At least 1.

    Returns
    -------
    int
        The same number.

    Raises
    ------
    TypeError
        If it is not an integer (a bool is none).
    ValueError
        If it is below 1.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)


def check_integers(name: str, values: ArrayLike) -> NDArray:
    """Check a list of integers.

    Parameters
    ----------
    name : str
        What to call it in an error.
    values : array-like of int, shape (n,)
        NumPy's integers, or Python's of any size.

    Returns
    -------
    ndarray of shape (n,), dtype int64 or object
        The same numbers, as Python's where they might not fit.

    Raises
    ------
    TypeError
        If one is not an integer (a bool is none).
    ValueError
        If they are not in one dimension.
    """
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
