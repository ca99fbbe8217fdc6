"""A progress bar, and checks of parameters and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from skdp.privacy import check_epsilon


def result_facts(result: Any) -> list[tuple[str, str]]:
    """List the fields of a result by their names, numbers with the ends of their intervals."""
    fields = vars(result)
    facts = []
    for name, value in fields.items():
        stem = name.removesuffix("_lower").removesuffix("_upper")
        if name != stem and stem in fields:
            continue
        text = _text_of(value)
        if text and f"{name}_lower" in fields:
            ends = fields[f"{name}_lower"], fields[f"{name}_upper"]
            text += " ({} to {})".format(*map(_text_of, ends))
        facts.append((name.replace("_", " "), text))
    return facts


def _text_of(value: Any) -> str:
    """Write a field of a result; tables and what is not known are left out."""
    if value is None or isinstance(value, pd.DataFrame):
        return ""
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.6g}"
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def counted(
    results: Iterable[Any], total: int, progress: bool, unit: str = "fit"
) -> Iterable[Any]:
    """Count results on standard error while they are made, if asked for."""
    with shown_progress(total, progress, unit) as advance:
        for result in results:
            yield result
            advance(1)


@contextmanager
def shown_progress(
    total: int, progress: bool, unit: str
) -> Iterator[Callable[[int], Any]]:
    """Show a bar on standard error, with the time that is left, if asked for; it is moved by a call."""
    if not progress:
        yield lambda n: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError(
            "progress=True needs tqdm: pip install tqdm (extra 'plot')"
        ) from None
    with tqdm(total=total, unit=unit, dynamic_ncols=True) as bar:
        yield bar.update


def check_count(value: Any, name: str, *, least: int) -> None:
    """Check a parameter that is a number of things."""
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
        raise ValueError("epsilons must hold at least one number")
    losses = list(map(float, losses))
    if len(set(losses)) < len(losses):
        raise ValueError("epsilons must all be different")
    return losses


def check_table(
    table: Any, name: str, columns: Iterable[str], *, numbers: Iterable[str] = ()
) -> None:
    """Check that an argument is a table with given columns."""
    required = list(columns)
    listed = ", ".join(required[:-1]) + " and " * (len(required) > 1)
    listed += "".join(required[-1:])
    expected = f"{name} must be a DataFrame with the columns {listed}"
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{expected}, got {type(table).__name__}")
    absent = [column for column in required if column not in table.columns]
    if absent:
        raise TypeError(f"{expected}; it lacks {absent}")
    is_number = pd.api.types.is_numeric_dtype
    texts = [column for column in numbers if not is_number(table[column].dtype)]
    if texts:
        raise TypeError(f"{name} must hold numbers in the columns {', '.join(texts)}")
