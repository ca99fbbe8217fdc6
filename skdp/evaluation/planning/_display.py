"""Plot of the half width that a plan reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.evaluation.displays import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    import_pyplot,
    interval_label,
    tidy_axes,
)
from skdp.evaluation.planning._widths import amount_of

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

_NAMES = {"epsilon": "epsilon (smaller is more private)", "n_rows": "rows"}


class PlanDisplay(PanelDisplay):
    """Plot of the half width against epsilon, or the number of rows, with what was asked for and what was found."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    def plot(self, *, ax: Axes | None = None) -> PlanDisplay:
        """Draw the half width, the one that was asked for, and what was found."""
        pyplot = import_pyplot()
        plan, curve = self.plan, self.plan.curve.replace([np.inf, -np.inf], np.nan)
        (axes,) = self._use_panels(
            ax,
            1,
            "",
            lambda: pyplot.subplots(figsize=(6.4, 4), layout="constrained")[1],
        )
        name = curve.columns[0]
        scores = plan.epsilon_range is not None
        axes.plot(
            curve[name],
            curve["half_width"],
            color=COLOURS[0],
            marker="." if scores else None,
            label="reached",
        )
        if scores:
            band = interval_label(plan.confidence_level)
            axes.fill_between(
                curve[name],
                curve["lower"],
                curve["upper"],
                color=COLOURS[0],
                alpha=0.2,
                lw=0,
                label=band,
            )
        axes.axhline(plan.within, color=INK, ls="--", lw=1.2, label="wanted")
        found = amount_of(plan.epsilon) if name == "epsilon" else plan.n_rows
        text = f"{found:,}" if name == "n_rows" else f"epsilon = {found:.3g}"
        axes.plot(
            [found],
            [plan.half_width],
            color=COLOURS[1],
            marker=MARKERS[1],
            ms=8,
            ls="none",
            label=f"plan: {text}",
        )
        tidy_axes(axes)
        axes.set_xscale("log")
        _place_ticks(axes.xaxis)
        if not scores:
            axes.set_yscale("log")
            _place_ticks(axes.yaxis)
        axes.set_xlabel(_NAMES[name])
        axes.set_ylabel(
            f"{plan.of}: distance to no privacy"
            if scores
            else f"{plan.of}: half width of its interval"
        )
        axes.legend(frameon=False)
        return self


def _place_ticks(axis: Any) -> None:
    """Place ticks on a log axis at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,.6g}")
    axis.set_minor_formatter("")
