"""The numbers of a guarantee: their checks, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from numbers import Rational, Real
from typing import Any

import numpy as np

from skdp.exact import round_up


def check_epsilon(value: Any, *, name: str = "epsilon", zero: bool = False) -> Fraction:
    """Check a privacy loss and return it as an exact fraction."""
    sign = ">= 0" if zero else "> 0"
    exact = _exact(value, name, f"a finite number {sign}")
    if exact is None or exact < 0 or (exact == 0 and not zero):
        raise ValueError(f"{name} must be a finite number {sign}, got {value}")
    return exact


at_least_0 = partial(check_epsilon, zero=True)


def check_delta(value: Any, *, name: str = "delta") -> Fraction:
    """Check a failure probability and return it as an exact fraction."""
    exact = _exact(value, name, "a number in [0, 1)")
    if exact is None or not 0 <= exact < 1:
        raise ValueError(f"{name} must be a number in [0, 1), got {value}")
    return exact


def float_above(check: Callable[..., Fraction], number: Any, name: str) -> float:
    """Return the smallest float that is at least a number, both checked."""
    # The float may be infinite, or 1, where the number is not.
    return float(check(round_up(check(number, name=name)), name=name))


def _exact(number: Any, name: str, wanted: str) -> Fraction | None:
    """Return the exact value of a real number, None if it is not finite as a float."""
    if isinstance(number, bool | np.bool_) or not isinstance(number, Real):
        raise TypeError(f"{name} must be {wanted}, got {type(number).__name__}")
    try:
        # Has more digits than a float.
        if isinstance(number, np.longdouble) and math.isfinite(float(number)):
            return Fraction(*map(int, number.as_integer_ratio()))
        if (
            isinstance(number, Rational)
            and not isinstance(number, np.generic)
            and math.isfinite(float(number))
        ):
            return Fraction(number)
        return Fraction(float(number))
    except (OverflowError, ValueError):
        return None


def shown(number: float) -> str:
    """Format a number with six digits, rounded up."""
    # But for a relative excess of 1e-12: 0.1 + 0.2 shall be 0.3.
    tolerant = Decimal(float(number)) * (1 - Decimal("1e-12"))
    digits = Context(prec=6, rounding=ROUND_CEILING).create_decimal(tolerant)
    return f"{digits.normalize():f}"
