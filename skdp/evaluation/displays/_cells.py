"""Heat maps of the functions of two columns."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Interval
from skdp.evaluation.displays._style import INK

# The share of the records that are missing, from which on their cells are drawn: what
# is said of none is but noise.
LEAST_MISSING = 0.02

# Characters of a name that fit beside the cells of a panel of 3.6 inches.
_NAME_WIDTH = 24


def draw_cells(
    axes: Any,
    shape: Any,
    values: NDArray[np.float64],
    names: tuple[Any, Any],
    colourbar_label: str,
    largest: float,
    hatch: dict[str, Any],
) -> None:
    """Draw values as colours, the first column downwards, and hatch cells that are not supported."""
    rows, columns = drawn_places(shape)
    # From the upper left; blue is less than nothing, and red more.
    image = axes.pcolormesh(
        np.arange(len(columns) + 1) - 0.5,
        np.arange(len(rows) + 1) - 0.5,
        values[np.ix_(rows, columns)],
        cmap="RdBu_r",
        vmin=-largest,
        vmax=largest,
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    _label_axis(axes.yaxis, shape.bins[0], rows)
    _label_axis(axes.xaxis, shape.bins[1], columns)
    # Upright names of many values do not overlap, as those at an angle do.
    axes.tick_params(axis="x", rotation=90)
    first, second = (textwrap.fill(str(name), _NAME_WIDTH) for name in names)
    axes.set_ylabel(first, parse_math=False)
    axes.set_xlabel(second, parse_math=False)
    for row, place in enumerate(rows):
        for column, other_place in enumerate(columns):
            if not shape.is_supported[place, other_place]:
                _hatch_cell(axes, row, column, hatch)
    bar = axes.figure.colorbar(image, ax=axes)
    bar.set_label(colourbar_label, parse_math=False)
    bar.outline.set_edgecolor(INK)


def drawn_places(shape: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the groups of each column that are drawn: all, but those of missing values that are hardly any."""
    places = []
    for side, bins in enumerate(shape.bins):
        counts = shape.counts.sum(axis=1 - side)
        n_drawn = len(counts)
        if isinstance(bins, Interval) and bins.missing:
            n_drawn -= int(counts[-1] <= LEAST_MISSING * counts.sum())
        places.append(np.arange(n_drawn))
    return places[0], places[1]


def _label_axis(axis: Any, bins: Any, places: NDArray[np.intp]) -> None:
    """Label the edges of numbers and dates, and other values in the middle."""
    if not isinstance(bins, Interval):
        labels = ["missing" if label is None else str(label) for label in bins.labels]
        axis.set_ticks(places, [labels[place] for place in places], parse_math=False)
        return
    labels = []
    for edge in bins.edges:
        labels.append(f"{edge:.3g}" if isinstance(edge, float | int) else str(edge))
    ticks = list(np.arange(len(bins.edges)) - 0.5)
    if len(places) == len(bins.edges):
        ticks.append(places[-1])
        labels.append("missing")
    axis.set_ticks(ticks, labels, parse_math=False)


def _hatch_cell(axes: Any, row: int, column: int, hatch: dict[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **hatch, lw=0))
