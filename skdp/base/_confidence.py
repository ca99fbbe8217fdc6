"""The confidence level of intervals."""

from __future__ import annotations

from numbers import Real
from typing import Any


def check_confidence_level(level: Any) -> float:
    """Check a confidence level."""
    if not isinstance(level, Real) or isinstance(level, bool) or not 0 < float(level) < 1:
        raise ValueError(f"confidence_level must be a number between 0 and 1, got {level!r}")
    return float(level)
