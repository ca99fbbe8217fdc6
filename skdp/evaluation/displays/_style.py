"""Common parts of figures: the palette, panels, legends, and matplotlib, imported only when needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito (2008): distinguishable for colour-blind readers too. Figures must not
# rely on colours alone, so that each series has a marker as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#333333"


class PanelDisplay:
    """The panels that a display draws on, those of a new figure or given ones, and their legend."""

    axes_: NDArray[Any]
    figure_: Any

    def _use_panels(
        self, ax: Any, number: int, kinds: str, new: Callable[[], Any]
    ) -> list[Any]:
        """Remember the given or new panels, and check their number."""
        # Nothing is drawn, and no figure is made, unless the number fits.
        panels = list(np.ravel(new() if ax is None else ax))
        if len(panels) != number:
            raise ValueError(f"ax must have {number} panels{kinds}, got {len(panels)}")
        self.axes_ = np.array(panels, dtype=object)
        self.figure_ = panels[0].figure.figure  # also of a part of a figure
        return panels

    def _draw_legend(self, ax: Any, handles: Sequence[Any], **place: Any) -> None:
        """Draw a legend outside the panels of a new figure, or in the first of given panels."""
        owner = self.axes_[0]
        if ax is None:
            owner = self.figure_
        else:
            place = {
                "loc": "best",
                "fontsize": place.get("fontsize"),
                "title": place.get("title"),
            }
        draw_legend(owner, handles, frameon=False, **place)


def new_grid(
    number: int, *, width: float, height: float, margin: float, across: int = 3
) -> list[Any]:
    """Return new panels, at most `across` in a row; sizes are in inches."""
    across = min(number, across)
    down = math.ceil(number / across)
    size = max(width * across, 5.5), height * down + margin
    _, panels = import_pyplot().subplots(
        down, across, figsize=size, squeeze=False, layout="constrained"
    )
    for unused in panels.flat[number:]:
        unused.remove()
    return list(panels.flat[:number])


def draw_legend(owner: Any, handles: Sequence[Any], **place: Any) -> None:
    """Draw a legend of the labels of handles, as they are."""
    # Of its own, matplotlib reads a `$` as mathematics, and leaves out what begins
    # with an underscore.
    legend = owner.legend(handles, ["label"] * len(handles), **place)
    for text, handle in zip(legend.get_texts(), handles, strict=True):
        text.set(text=handle.get_label(), parse_math=False)


def legend_entry(label: str, **style: Any) -> Any:
    """Return a line for a legend, in dark ink unless another colour is given."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **{"color": INK} | style)


def series_style(place: int) -> dict[str, Any]:
    """Return a colour and a marker, which differ for 36 series."""
    turn, colour = divmod(place, len(COLOURS))
    marker = MARKERS[(colour + turn) % len(MARKERS)]
    return {"color": COLOURS[colour], "marker": marker}


def interval_label(confidence_level: float | None) -> str:
    """Name intervals in a legend."""
    if confidence_level is None:
        return "interval"
    return f"{100 * confidence_level:g} % interval"


def import_pyplot() -> Any:
    """Import a dependency of the extra "plot"."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "this needs matplotlib: pip install matplotlib (extra 'plot')"
        ) from error
    return pyplot


def label_epsilons(axes: Any, epsilons: Iterable[float]) -> None:
    """Scale an axis of epsilons by their logarithm, with a tick at each."""
    # Epsilons are tried in steps of equal ratio, such as 0.1, 0.3, 1.
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


def title_panel(axes: Any, title: str) -> None:
    """Write a title as it is, at the left."""
    axes.set_title(title, loc="left", color=INK, fontsize="medium", parse_math=False)
