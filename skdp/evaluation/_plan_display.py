"""The picture of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.evaluation.displays import (
    COLOURS,
    INK,
    PanelDisplay,
    import_pyplot,
    interval_label,
    new_grid,
    tidy_axes,
)

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

_LABEL = {"fc": "white", "ec": "none", "pad": 1.0, "alpha": 0.8}

AMOUNT_NAMES = ("epsilon", "rho", "mu")


def amount_of(epsilon: Any) -> float:
    """Return the number in an epsilon."""
    for name in AMOUNT_NAMES:
        epsilon = getattr(epsilon, name, epsilon)
    return float(epsilon)


def end_text(epsilon: float) -> str:
    """Write an end of an interval."""
    return f"{epsilon:.3g}" if epsilon < np.inf else "more than was tried"


class PlanDisplay(PanelDisplay):
    """Plot of the half width, or the power, against epsilon or the number of rows, with what was wanted and found."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    def plot(self, *, ax: Axes | None = None) -> PlanDisplay:
        """Draw the half width or the power, the one that was asked for, and what was found."""
        import_pyplot()
        (axes,) = self._use_panels(
            ax, 1, "", lambda: new_grid(1, width=6.4, height=4, margin=0)
        )
        if self.plan.power is not None:
            handles = self._draw_power(axes)
        else:
            handles = self._draw_width(axes)
        self._draw_legend(axes, handles)
        return self

    def _draw_power(self, axes: Any) -> list[Any]:
        """Draw a line of power against epsilon for each number of rows."""
        plan = self.plan
        if plan.curve["epsilon"].nunique() == 1:
            return self._draw_power_by_rows(axes)
        handles = []
        for n_rows, of_rows in plan.curve.groupby("n_rows"):
            is_planned = n_rows == plan.n_rows
            style: dict[str, Any] = {"color": COLOURS[0], "lw": 1.0, "alpha": 0.6}
            if is_planned:
                style = {"color": COLOURS[0], "lw": 2.2}
            axes.plot(of_rows["epsilon"], of_rows["power"], **style)
            # Where lines are steep and apart.
            at_middle = of_rows.iloc[(of_rows["power"] - 0.5).abs().argmin()]
            label = f"{n_rows:,}"
            place = at_middle["epsilon"], at_middle["power"]
            axes.text(*place, label, size="small", ha="center", bbox=_LABEL)
        style = {"color": INK, "ls": "--", "lw": 1.2}
        handles.append(axes.axhline(plan.power, label="wanted", **style))
        label = f"plan: epsilon = {amount_of(plan.epsilon):.3g}, {plan.n_rows:,} rows"
        style = {"color": COLOURS[1], "marker": "s", "ms": 8, "ls": "none"}
        place = [amount_of(plan.epsilon)], [plan.reached_power]
        handles += axes.plot(*place, label=label, **style)
        tidy_axes(axes)
        scale_by_log(axes, "x")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("epsilon; a line for each number of rows")
        axes.set_ylabel(f"power to find a {plan.of} of {plan.effect:.3g}")
        return handles

    def _draw_power_by_rows(self, axes: Any) -> list[Any]:
        """Draw a line of power against the number of rows, of a design that has its epsilon."""
        plan = self.plan
        curve = plan.curve
        handles: list[Any] = axes.plot(
            curve["n_rows"], curve["power"], label="reached", color=COLOURS[0]
        )
        style: dict[str, Any] = {"color": INK, "ls": "--", "lw": 1.2}
        handles.append(axes.axhline(plan.power, label="wanted", **style))
        style = {"color": COLOURS[1], "marker": "s", "ms": 8, "ls": "none"}
        label = f"plan: {plan.n_rows:,}"
        handles += axes.plot([plan.n_rows], [plan.reached_power], label=label, **style)
        tidy_axes(axes)
        scale_by_log(axes, "x")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("rows")
        axes.set_ylabel(f"power to find a {plan.of} of {plan.effect:.3g}")
        return handles

    def _draw_width(self, axes: Any) -> list[Any]:
        """Draw the half width, or the distance of scores."""
        plan = self.plan
        curve = plan.curve.replace([np.inf, -np.inf], np.nan)
        name = curve.columns[0]
        is_scores = plan.epsilon_range is not None
        style: dict[str, Any] = {"color": COLOURS[0]}
        style["marker"] = "." if is_scores else None
        handles: list[Any] = axes.plot(
            curve[name], curve["half_width"], label="reached", **style
        )
        if is_scores:
            label = interval_label(plan.confidence_level)
            ends = curve["lower"], curve["upper"]
            style = {"color": COLOURS[0], "alpha": 0.2, "lw": 0}
            handles.append(axes.fill_between(curve[name], *ends, label=label, **style))
        style = {"color": INK, "ls": "--", "lw": 1.2}
        handles.append(axes.axhline(plan.within, label="wanted", **style))
        if name == "epsilon":
            place: Any = amount_of(plan.epsilon)
            label = f"plan: epsilon = {place:.3g}"
            axes.set_xlabel("epsilon (smaller is more private)")
        else:
            place = plan.n_rows
            label = f"plan: {place:,}"
            axes.set_xlabel("rows")
        style = {"color": COLOURS[1], "marker": "s", "ms": 8, "ls": "none"}
        handles += axes.plot([place], [plan.half_width], label=label, **style)
        tidy_axes(axes)
        scale_by_log(axes, "x")
        if is_scores:
            axes.set_ylabel(f"{plan.of}: distance to no privacy")
        else:
            scale_by_log(axes, "y")
            axes.set_ylabel(f"{plan.of}: half width of its interval")
        return handles


def scale_by_log(axes: Any, name: str) -> None:
    """Place ticks at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator

    axes.set(**{f"{name}scale": "log"})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,.6g}")
    axis.set_minor_formatter("")
