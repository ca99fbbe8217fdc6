"""Common parts of figures: colors, panels and legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito (2008): distinguishable for color-blind readers, too. Each series also
# has its own marker.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#333333"

# Values of a column that are drawn: the most frequent ones.
MAX_VALUES = 20


class PanelDisplay:
    """The panels of a display, in a new figure or given by the caller."""

    ax_: NDArray[Any]
    figure_: Any

    def _use_panels(
        self, ax: Any, number: int, *, width: float = 4.0, height: float = 3.2
    ) -> list[Any]:
        """Set `ax_` and `figure_`; sizes of new panels are in inches."""
        if ax is None:
            ax = new_panels(number, width=width, height=height)
        panels = list(np.ravel(ax))
        if len(panels) != number:
            raise ValueError(f"ax must have {number} panels, got {len(panels)}.")
        self.ax_ = np.array(panels, dtype=object)
        self.figure_ = panels[0].get_figure(root=True)
        return panels

    def _draw_legend(self, ax: Any, handles: Sequence[Any]) -> None:
        """Draw a legend below a new figure, or in the first of given panels."""
        owner = self.figure_ if ax is None else self.ax_[0]
        layout = {"loc": "outside lower center", "ncols": min(len(handles), 2)}
        owner.legend(handles=handles, frameon=False, **(layout if ax is None else {}))


def draw_plain_text(plot: Any) -> Any:
    """Draw texts literally, without math mode between dollar signs."""

    @wraps(plot)
    def plot_plainly(*args: Any, **options: Any) -> Any:
        with import_pyplot().rc_context({"text.parse_math": False}):
            return plot(*args, **options)

    return plot_plainly


def import_pyplot() -> Any:
    """Import a dependency of the extra "plot"."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots require matplotlib. Use pip install matplotlib (extra 'plot')"
        ) from error
    return pyplot


def new_panels(number: int, *, width: float, height: float) -> list[Any]:
    """Return new panels, at most three in a row."""
    across = min(number, 3)
    down = math.ceil(number / across)
    size = max(width * across, 5.5), height * down + 0.5
    _, panels = import_pyplot().subplots(
        down, across, figsize=size, squeeze=False, layout="constrained"
    )
    for unused in panels.flat[number:]:
        unused.remove()
    return list(panels.flat[:number])


def legend_entry(label: Any, **style: Any) -> Any:
    """Return a line for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=str(label), **{"color": INK} | style)


def series_style(position: int) -> dict[str, Any]:
    """Return a color and a marker, which differ for 36 series."""
    turn, colour = divmod(position, len(COLOURS))
    marker = MARKERS[(colour + turn) % len(MARKERS)]
    return {"color": COLOURS[colour], "marker": marker}


def format_label(value: Any) -> str:
    """Format a value, or a combination of values."""
    if isinstance(value, tuple):
        return ", ".join(map(format_label, value))
    if value is None or value != value:
        return "missing"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def label_rows(axes: Any, labels: Sequence[str]) -> None:
    """Label rows of bars or dots, from the top down."""
    axes.grid(False, axis="y")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def tidy_axes(axes: Any, title: str) -> None:
    """Write a title at the left, remove the upper and right edges, and add a faint grid."""
    axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", lw=0.8)
    axes.set_axisbelow(True)
