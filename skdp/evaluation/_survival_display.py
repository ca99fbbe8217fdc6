"""Figure of survival curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import AxesLike
from skdp.evaluation._privacy_curve import check_table
from skdp.evaluation.displays import (
    PanelDisplay,
    choose_series_style,
    draw_plain_text,
    format_label,
    make_legend_entry,
    tidy_axes,
)


class SurvivalDisplay(PanelDisplay):
    """Plot of survival curves as steps with bands, with a curve for each group.

    Use `from_estimates` to create the display. The numbers at risk are below the times, with a line for each group. A
    curve ends where too few rows are at risk, and its band continues.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Result of `survival_from_counts`.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panel.
    figure_ : matplotlib Figure
        Figure containing the panel.

    See Also
    --------
    skdp.metrics.survival_from_counts : Compute the curves.

    Notes
    -----
    **Privacy.** The curves are functions of released counts. The figure is post-processing.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.evaluation import SurvivalDisplay
    >>> from skdp.metrics import survival_from_counts
    >>> patients = pd.DataFrame({"months": range(200), "died": True})
    >>> domain = {"months": Interval([0, 50, 100, 150, 200]), "died": [False, True]}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(patients).to_frame()
    >>> display = SurvivalDisplay.from_estimates(survival_from_counts(counts, "months", "died"))
    >>> display.ax_[0].get_title(loc="left")
    'survival'
    """

    def __init__(self, estimates: pd.DataFrame) -> None:
        columns = ("metric", "group", "time", "value", "lower", "upper")
        check_table(estimates, "estimates", columns, numbers=columns[2:])
        metrics = {"survival", "at_risk"}
        if not metrics <= {*estimates["metric"]}:
            raise ValueError(
                "`estimates` must be a table of survival_from_counts, got no rows of "
                "the metrics survival and at_risk."
            )
        self.estimates = estimates

    @classmethod
    def from_estimates(
        cls, estimates: pd.DataFrame, *, ax: AxesLike | None = None
    ) -> SurvivalDisplay:
        """Plot the result of `survival_from_counts`.

        Parameters
        ----------
        estimates : pandas.DataFrame
            Result of `survival_from_counts`.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is created.

        Returns
        -------
        SurvivalDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the table lacks a column or metric.
        """
        return cls(estimates).plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> SurvivalDisplay:
        """Plot the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As for `from_estimates`.

        Returns
        -------
        SurvivalDisplay
            Object that stores the figure.
        """
        table = self.estimates
        (axes,) = self._use_panels(ax, 1, width=5.5, height=3.2)
        tables = dict(list(table.groupby("group", sort=False)))
        handles, sizes = [], []
        for index, (group, rows) in enumerate(tables.items()):
            color = choose_series_style(index)["color"]
            _draw_curve(axes, rows[rows["metric"] == "survival"], color)
            handles.append(make_legend_entry(format_label(group), color=color))
            sizes.append(rows[rows["metric"] == "at_risk"].set_index("time")["value"])
        handles.append(make_legend_entry("interval", lw=6, alpha=0.25))
        # Six numbers at risk beside each other are readable on the screen of a phone.
        times = sizes[0].index[:: -(-len(sizes[0]) // 6)]
        labels = []
        for time in times:
            numbers = [f"{size[time]:,.0f}" for size in sizes]
            labels.append("\n".join([f"{time:g}", *numbers]))
        axes.set_xticks(times, labels)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("time, and below it the number at risk")
        tidy_axes(axes, "survival")
        self._draw_legend(ax, handles)
        return self


def _draw_curve(axes: Any, rows: pd.DataFrame, color: str) -> None:
    """Draw the curve of a group from its rows "survival"."""
    times = np.append(0, rows["time"])
    value, lower, upper = np.column_stack(
        [np.ones(3), rows[["value", "lower", "upper"]].to_numpy(float).T]
    )
    axes.step(times, value, where="post", color=color, lw=1.6)
    style = {"step": "post", "color": color, "alpha": 0.25, "lw": 0}
    axes.fill_between(times, lower, upper, **style)
