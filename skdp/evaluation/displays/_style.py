"""Common parts of figures: the palette, the axis of epsilons, and matplotlib, imported only when needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008): distinguishable for colour-blind readers too. Figures must not rely on colours alone."""

INK = "#333333"
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)))


class PanelDisplay:
    """The panels that a display draws on, those of a new figure or given ones, and their legend."""

    axes_: NDArray[Any]
    figure_: Any

    def _use_panels(
        self, ax: Any, wanted: int, kinds: str, new: Callable[[], Any]
    ) -> list[Any]:
        """Remember the given or new panels, and check their number."""
        panels = list(np.ravel(new() if ax is None else ax))
        if len(panels) != wanted:
            raise ValueError(f"ax must have {wanted} panels{kinds}, got {len(panels)}")
        self.axes_, self.figure_ = (
            np.array(panels, dtype=object),
            panels[0].figure.figure,
        )  # also of a part of a figure
        return panels

    def _draw_legend(
        self, ax: Any, handles: Any, labels: Any, *, inside: Any = None, **outside: Any
    ) -> None:
        """Draw a legend outside the panels of a new figure, or inside the first of given panels."""
        owner, place = (
            (self.figure_, outside) if ax is None else (self.axes_[0], inside or {})
        )
        draw_legend(owner, handles, labels, frameon=False, **place)


def new_grid(
    number: int,
    *,
    width: float,
    height: float,
    margin: float,
    across: int = 3,
    **layout: Any,
) -> list[Any]:
    """Return new panels, at most `across` in a row; sizes are in inches."""
    across = min(number, across)
    down = math.ceil(number / across)
    size = max(width * across, 5.5), height * down + margin
    figure, panels = import_pyplot().subplots(down, across, figsize=size, squeeze=False)
    figure.set_layout_engine("constrained", **layout)
    for unused in panels.flat[number:]:
        unused.remove()
    return list(panels.flat[:number])


def draw_legend(
    owner: Any, handles: Sequence[Any], labels: Sequence[str], **place: Any
) -> None:
    """Draw a legend of labels as they are."""
    # Of its own, matplotlib reads a `$` as mathematics and leaves out what begins with an underscore.
    legend = owner.legend(handles, ["label"] * len(labels), **place)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(text=label, parse_math=False)


def interval_label(confidence_level: float | None) -> str:
    return (
        "interval"
        if confidence_level is None
        else f"{100 * confidence_level:g} % interval"
    )


def import_pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('this needs matplotlib: pip install "skdp[plot]"') from error
    return pyplot


def check_count(value: Any, name: str, *, least: int) -> None:
    """Check a parameter that is a number of things."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_table(
    table: Any, name: str, columns: Iterable[str], *, numbers: Iterable[str] = ()
) -> None:
    """Check that an argument is a table with given columns."""
    wanted = list(columns)
    named = (
        " and ".join([", ".join(wanted[:-1]), wanted[-1]])
        if len(wanted) > 1
        else "".join(wanted)
    )
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"{name} must be a DataFrame with the columns {named}, got {type(table).__name__}"
        )
    absent = [column for column in wanted if column not in table.columns]
    if absent:
        raise TypeError(
            f"{name} must be a DataFrame with the columns {named}; it lacks {absent}"
        )
    texts = [
        column
        for column in numbers
        if not pd.api.types.is_numeric_dtype(table[column].dtype)
    ]
    if texts:
        raise TypeError(f"{name} must hold numbers in the columns {', '.join(texts)}")


def label_epsilons(axes: Any, epsilons: Iterable[float]) -> None:
    """Scale an axis of epsilons by their logarithm, with a tick at each."""
    places = list(epsilons)
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{epsilon:g}" for epsilon in places])
    axes.minorticks_off()
    axes.set_xlabel("epsilon (smaller is more private)")


def label_rows(axes: Any, labels: Sequence[str], *, margin: float = 0.6) -> None:
    """Label rows of bars or dots, from the top down."""
    axes.grid(False, axis="y")
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.set_ylim(len(labels) - 1 + margin, -margin)
    axes.tick_params(axis="y", length=0)


def tidy_axes(axes: Any) -> None:
    """Remove the upper and right edges, and add a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", lw=0.8)
    axes.set_axisbelow(True)
