"""Common parts of figures: the palette, the axis of epsilons, and matplotlib, imported only when needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008): distinguishable for colour-blind readers too. Figures must not rely on colours alone."""

INK = "#333333"
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)))


def import_pyplot() -> Any:
    """Import matplotlib's pyplot."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("this needs matplotlib: pip install skdp[plot]") from error
    return pyplot


def check_table(table: Any, name: str, columns: Iterable[str], *, numbers: Iterable[str] = ()) -> None:
    """Check that an argument is a table with given columns."""
    wanted = list(columns)
    named = " and ".join([", ".join(wanted[:-1]), wanted[-1]]) if len(wanted) > 1 else "".join(wanted)
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{name} must be a DataFrame with the columns {named}, got {type(table).__name__}")
    absent = [column for column in wanted if column not in table.columns]
    if absent:
        raise TypeError(f"{name} must be a DataFrame with the columns {named}; it lacks {absent}")
    texts = [column for column in numbers if not pd.api.types.is_numeric_dtype(table[column].dtype)]
    if texts:
        raise TypeError(f"{name} must hold numbers in the columns {', '.join(texts)}")


def label_epsilons(axes: Any, epsilons: Iterable[float]) -> None:
    """Scale an axis of epsilons by their logarithm, with a tick at each."""
    places = list(epsilons)
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{epsilon:g}" for epsilon in places])
    axes.minorticks_off()
    axes.set_xlabel("epsilon (smaller is more private)")


def tidy_axes(axes: Any) -> None:
    """Remove the upper and right edges, and add a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", lw=0.8)
    axes.set_axisbelow(True)
