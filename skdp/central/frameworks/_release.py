"""A released statistic, and the grid of its noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.privacy import PrivacyGuarantee

STEPS = 1 << 40
"""Steps of the grid between the public bounds of a statistic."""


@dataclass(frozen=True)
class Release:  # numpydoc ignore=PR02
    """A statistic released under a stated guarantee.

    Parameters
    ----------
    value : float or ndarray of float64
        The statistic with noise, clipped to its bounds; nan if it was refused.
    std_error : float or ndarray of float64
        The standard deviation of the noise, before clipping; nan where it would reveal something private.
    guarantee : PrivacyGuarantee
        What was spent, also by a refusal.
    released : bool
        False if the mechanism refused.
    n_failed : int, optional
        For `sample_and_aggregate`: a noisy number of chunks without a value, perhaps negative.
    """

    value: float | NDArray[np.float64]
    std_error: float | NDArray[np.float64]
    guarantee: PrivacyGuarantee
    released: bool = True
    n_failed: int | None = None


@dataclass(frozen=True)
class OutputGrid:
    """The public grid that a statistic is rounded to after the noise."""

    low: Fraction
    high: Fraction

    @property
    def step(self) -> Fraction:
        """The width of a step."""
        return (self.high - self.low) / STEPS

    def place(self, value: Fraction) -> Fraction:
        """Place a value, clipped to the bounds; half a step is added, so that `floor` rounds to the nearest."""
        return (min(max(value, self.low), self.high) - self.low) / self.step + Fraction(1, 2)

    def value(self, place: int) -> float:
        """Convert a released place to a value between the bounds."""
        return float(self.low + self.step * min(max(place, 0), STEPS))


def read_output_bounds(bounds: Any) -> OutputGrid:
    """Check the public bounds of one statistic."""
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError("bounds must be a pair (low, high) of what the statistic can publicly be") from None
    exact = [read_number(end, "bounds") for end in (low, high)]
    if exact[0] >= exact[1]:
        raise ValueError(f"bounds must have low < high, got ({float(exact[0]):g}, {float(exact[1]):g})")
    return OutputGrid(*exact)


def read_number(value: Any, name: str) -> Fraction:
    """Check a finite real number and return it exactly."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a finite number, got {type(value).__name__}")
    if isinstance(value, int | Fraction):
        return Fraction(value)
    if not np.isfinite(float(value)):
        raise ValueError(f"{name} must be a finite number")
    return Fraction(float(value))
