"""Checks of parameters and tables."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import pandas as pd

from skdp.privacy import check_epsilon


def check_count(value: Any, name: str, *, least: int) -> None:
    """Check an integer parameter with a minimum."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def read_epsilons(epsilons: Any) -> list[float]:
    """Read the privacy losses to try: at least one, and all different."""
    if isinstance(epsilons, str) or not isinstance(epsilons, Iterable):
        raise TypeError(
            f"epsilons must be a list of numbers, got {type(epsilons).__name__}"
        )
    losses = list(epsilons)
    for epsilon in losses:
        check_epsilon(epsilon, name="each of epsilons")
    if not losses:
        raise ValueError("epsilons must have at least one number")
    losses = list(map(float, losses))
    if len(set(losses)) < len(losses):
        raise ValueError("epsilons must all be different")
    return losses


def check_table(
    table: Any, name: str, columns: Iterable[str], *, numbers: Iterable[str] = ()
) -> None:
    """Check that an argument is a table with given columns."""
    required = list(columns)
    if not isinstance(table, pd.DataFrame) or not {*required} <= {*table.columns}:
        raise TypeError(
            f"{name} must be a DataFrame with the columns {', '.join(required)}, got "
            f"{type(table).__name__} without all of them"
        )
    is_number = pd.api.types.is_numeric_dtype
    texts = [column for column in numbers if not is_number(table[column].dtype)]
    if texts:
        raise TypeError(f"{name} must have numbers in the columns {', '.join(texts)}")
