"""One style for all pictures of the site: the palette of the Displays, in light and in dark colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

from skdp.evaluation.displays import COLOURS, INK

# The site's font, that of the report too; matplotlib lays out with one that is as wide or wider.
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TEXT, SOFT, LINE = "#222222", "#555555", "#dddddd"
# In the dark, the same hues, lighter: blue and vermilion of the palette are too dark there.
DARK = dict(
    zip(
        COLOURS,
        ("#56B4E9", "#F0824A", "#2BC29B", "#E29CC4", "#E69F00", "#9AD3F5"),
        strict=True,
    )
)
DARK |= {
    TEXT: "#e8eaed",
    INK: "#e8eaed",
    "#000000": "#e8eaed",
    SOFT: "#b4bac2",
    LINE: "#4a5058",
    "#ffffff": "#14181e",
}
_IN_THE_DARK = {
    light.lower(): dark.lower() for light, dark in DARK.items()
}


def draw(function: Callable[[], Any]) -> tuple[bytes, bytes]:
    """Run a function that draws with pyplot, and return its figure as SVG, in light and in dark colours."""
    style = {
        "axes.prop_cycle": plt.cycler(color=COLOURS),
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "text.color": TEXT,
        "axes.labelcolor": TEXT,
        "axes.edgecolor": SOFT,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "grid.color": LINE,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "font.family": "sans-serif",
        "font.size": 11,
        "figure.figsize": (6.4, 3.6),
        "figure.constrained_layout.use": True,
        "svg.fonttype": "none",
        "svg.hashsalt": "skdp",
    }
    with plt.rc_context(style):
        function()
        figure = plt.gcf()
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        plt.close("all")
    light = re.sub(
        r"'DejaVu Sans'[^;\"]*sans-serif\b",
        FONTS,
        buffer.getvalue().decode(),
    )
    dark = re.sub(
        r"#[0-9a-f]{6}\b",
        lambda match: _IN_THE_DARK.get(match[0], match[0]),
        light,
    )
    return light.encode(), dark.encode()
