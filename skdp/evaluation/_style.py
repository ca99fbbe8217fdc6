"""Colors, markers, panels, legends and labels of the figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Palette of Okabe and Ito (2008), which color-blind readers can distinguish. Each series
# also has its own marker.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#333333"


# Largest number of values of a column in a figure; the most frequent values are drawn.
MAX_VALUES = 20


class PanelDisplay:
    """Base class of displays, which draw panels in a new figure or in given axes."""

    ax_: NDArray[Any]
    figure_: Any

    def __repr__(self) -> str:
        titles = [axes.get_title(loc="left") for axes in getattr(self, "ax_", ())]
        return f"<{type(self).__name__}: {', '.join(titles) or 'not drawn'}>"

    def _use_panels(
        self,
        ax: Any,
        number: int,
        *,
        width: float = 3.4,
        height: float = 3.0,
        max_columns: int = 2,
    ) -> list[Any]:
        """Set `ax_` and `figure_`, and return `number` panels; sizes are in inches.

        Text of a figure of 7 inches is readable at the width of a phone.
        """
        if ax is None:
            n_columns = min(number, max_columns)
            n_rows = math.ceil(number / n_columns)
            size = max(width * n_columns, 5.5), height * n_rows + 0.5
            _, grid = import_pyplot().subplots(
                n_rows, n_columns, figsize=size, squeeze=False, layout="constrained"
            )
            # The grid may have more panels than required.
            for unused in grid.flat[number:]:
                unused.remove()
            ax = grid.flat[:number]
        panels = list(np.ravel(ax))
        if len(panels) != number:
            raise ValueError(f"`ax` must have {number} panels, got {len(panels)}.")
        self.ax_ = np.array(panels, dtype=object)
        self.figure_ = panels[0].get_figure(root=True)
        return panels

    def _draw_legend(self, ax: Any, handles: Sequence[Any]) -> None:
        """Draw a legend below a new figure, or in the first panel of the caller (`ax`)."""
        # Outside of the axes, a legend could cover other figures of the caller.
        owner = self.figure_ if ax is None else self.ax_[0]
        longest = max(len(handle.get_label()) for handle in handles)
        # Two columns of longer labels would be wider than the figure.
        n_columns = 1 if longest > 30 else min(len(handles), 2)
        layout: dict[str, Any] = {"loc": "outside lower center", "ncols": n_columns}
        if ax is not None:
            # A character has about 0.075 inches at 10 points, and a line with margins 0.8.
            width = self.figure_.get_figwidth() * owner.get_position().width
            layout = {"fontsize": 10 * min(width / (0.8 + 0.075 * longest), 1)}
        else:
            # Panels keep their height beside a legend of more than two rows.
            n_more = max(math.ceil(len(handles) / n_columns) - 2, 0)
            self.figure_.set_figheight(self.figure_.get_figheight() + 0.22 * n_more)
        owner.legend(handles=handles, frameon=False, **layout)


def draw_plain_text(plot: Any) -> Any:
    """Decorate a plot method to draw dollar signs literally, not as math text."""

    @wraps(plot)
    def plot_plain_text(*args: Any, **options: Any) -> Any:
        with import_pyplot().rc_context({"text.parse_math": False}):
            return plot(*args, **options)

    return plot_plain_text


def import_pyplot() -> Any:
    """Import matplotlib.pyplot, an optional dependency."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots require matplotlib, which is not installed. Use `pip install "
            "matplotlib` (extra 'plot')."
        ) from error
    return pyplot


def make_legend_entry(label: Any, **style: Any) -> Any:
    """Return an invisible line whose style and label appear in a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=str(label), **{"color": INK} | style)


def choose_series_style(index: int) -> dict[str, Any]:
    """Return the color and marker of a series; the first 36 combinations are distinct."""
    # Markers are shifted by one each time that all colors have been used.
    n_rounds, color = divmod(index, len(COLORS))
    marker = MARKERS[(color + n_rounds) % len(MARKERS)]
    return {"color": COLORS[color], "marker": marker}


def format_label(value: Any) -> str:
    """Format a value, or a tuple of values, as text of at most 40 characters per value."""
    if isinstance(value, tuple):
        return ", ".join(map(format_label, value))
    if value is None or value != value:  # nan differs from itself
        return "missing"
    # pandas converts declared integers beside missing values to floats.
    text = f"{value:.15g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def label_rows(axes: Any, labels: Sequence[str]) -> None:
    """Label horizontal rows of bars or dots on the y axis, the first at the top."""
    # The y axis is inverted by its limits, which leave a margin of 0.6 rows.
    axes.grid(False, axis="y")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def tidy_axes(axes: Any, title: str) -> None:
    """Set the title at the left, remove the top and right spines, and add a light grid."""
    axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", lw=0.8)
    axes.set_axisbelow(True)
