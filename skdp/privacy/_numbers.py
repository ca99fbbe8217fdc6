"""The numbers of a guarantee: their checks, and how they are shown, also as odds."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from numbers import Rational, Real
from typing import Any

import numpy as np

from skdp.exact import exp_bounds, round_up


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


# The exponential of more is beyond the floats.
_LARGEST = 700.0

_MOST_SHOWN = 1e9


def largest_ratio(epsilon: float) -> float:
    """Return an upper bound of ``e**epsilon``, infinite beyond the floats."""
    return math.inf if epsilon > _LARGEST else round_up(exp_bounds(epsilon)[1])


def best_guess(epsilon: float, delta: float) -> float:
    """Bound the share of right guesses between two neighbours that are equally likely before the release."""
    # The laws of the release for two neighbours have a total-variation distance of at
    # most (e**epsilon - 1 + 2 delta) / (e**epsilon + 1); the best test is right with
    # probability (1 + distance) / 2.
    ratio = exp_bounds(min(epsilon, _LARGEST))[1]
    return min(1.0, round_up((ratio + Fraction(delta)) / (1 + ratio)))


def shown_ratio(epsilon: float) -> str:
    """Write the ratio with three digits, rounded up."""
    ratio = largest_ratio(epsilon)
    if ratio > _MOST_SHOWN:
        return f"more than {_MOST_SHOWN:,.0f}"
    return f"{_up(ratio, 2 if ratio < 100 else 0):,}"


def shown_guess(epsilon: float, delta: float) -> str:
    """Write the guesses out of 100 that are right, rounded up; not as 100 if they are fewer."""
    guess = best_guess(epsilon, delta)
    for digits in (0, 1, 2):
        percent = _up(100 * guess, digits)
        if percent < 100:
            return f"at most {percent}"
    return "nearly 100" if guess < 1 else "possibly 100"


def _up(number: float, digits: int) -> Decimal:
    """Round up to some decimal places, but for a relative excess of 1e-12 (rounding errors of floats)."""
    tolerant = Decimal(number) * (1 - Decimal("1e-12"))
    return tolerant.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)


def in_odds(
    epsilon: float, delta: float, relation: str, who: str = "record", columns: str = ""
) -> str:
    """Return a few sentences on what epsilon and delta allow an attacker to learn about a record, or a person."""
    knowledge = f"all other {who}s"
    if relation == "replace_values":
        question = f"which of two values of {columns} a {who} has"
        compared = f"one value of {columns} of a {who} as for any other"
        knowledge = f"all other {who}s and all other columns"
    elif relation == "replace":
        question = f"which of two values a {who} has"
        compared = f"one value of a {who} as for any other"
    else:
        question = f"whether a {who} is in the data"
        compared = (
            f"the data with a {who} as for the same data without, and the other way "
            "round"
        )
    is_shown = largest_ratio(epsilon) <= _MOST_SHOWN
    bound = f"{'at most' if is_shown else 'possibly'} {shown_ratio(epsilon)}"
    beyond = ""
    if delta:
        excess = _up(delta, _places(delta)).normalize()
        beyond = f" (or its probability is larger by up to delta, {excess:f})"
    return (
        f"Any result is {bound} times as likely for {compared}{beyond}. An attacker "
        f"who knows {knowledge}, and is right about 50 times in 100 when guessing "
        f"{question}, is right {shown_guess(epsilon, delta)} times in 100 after seeing "
        "what is released."
    )


def _places(number: float) -> int:
    """Return the decimal places of two significant digits."""
    return max(2, 1 - math.floor(math.log10(number)))
