"""Plot of accuracy against unfairness, for all methods of a study."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import AxesLike, check_choice
from skdp.evaluation._common import check_table
from skdp.evaluation.displays._style import (
    INK,
    PanelDisplay,
    import_pyplot,
    legend_entry,
    new_grid,
    series_style,
    tidy_axes,
    title_panel,
)

_NUMBERS = ("epsilon", "mean", "std_error")


class FairnessStudyDisplay(PanelDisplay):
    """Plot of accuracy against a measure of unfairness, a panel for each table of a study and promise of its epsilons.

    A method without reports is a single filled marker, with one standard error to each side. A method of reports is a
    line over its epsilons, with hollow markers that grow with epsilon. A dashed line marks parity.

    Parameters
    ----------
    intervals : DataFrame
        What `FairnessStudy.intervals` returns, with both metrics. Methods whose epsilons are for different promises, by
        the column ``promise``, are in different panels, beside those without an epsilon.
    metric : str, default="statistical_parity_difference"
        The measure of unfairness, on the vertical axis.
    accuracy : str, default="accuracy"
        The measure of accuracy, on the horizontal axis.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels.

    Raises
    ------
    TypeError, ValueError
        If the table lacks a column, or has no rows of a metric.

    See Also
    --------
    skdp.evaluation.fairness_study : Makes what is drawn.

    Notes
    -----
    **Privacy.** What is drawn is computed from true rows and groups and is not protected.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("people", metric, "left out", float("inf"), value, 0.01)
    ...         for metric, value in (("accuracy", 0.8), ("statistical_parity_difference", -0.2))]
    >>> names = ["table", "metric", "method", "epsilon", "mean", "std_error"]
    >>> display = FairnessStudyDisplay(pd.DataFrame(rows, columns=names)).plot()
    >>> display.axes_[0].get_title(loc="left")
    'people'
    """

    def __init__(
        self,
        intervals: pd.DataFrame,
        *,
        metric: str = "statistical_parity_difference",
        accuracy: str = "accuracy",
    ) -> None:
        columns = ["table", "metric", "method", *_NUMBERS]
        check_table(intervals, "intervals", columns, numbers=_NUMBERS)
        known = list(intervals["metric"].unique())
        check_choice("metric", metric, known)
        check_choice("accuracy", accuracy, known)
        self.intervals = intervals
        self.metric = metric
        self.accuracy = accuracy

    def plot(self, *, ax: AxesLike | None = None) -> FairnessStudyDisplay:
        """Draw a panel for each table, and promise of its epsilons.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of them, optional
            Where to draw, a panel for each table and promise; by default a new figure.

        Returns
        -------
        FairnessStudyDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If `ax` has another number of panels.
        """
        import_pyplot()
        tables = self._tables()
        # The legend below takes the width of a panel and a half.
        width = 7.5 if len(tables) == 1 else 5.5
        panels = self._use_panels(
            ax,
            len(tables),
            ", one a table and promise of its epsilons",
            lambda: new_grid(len(tables), width=width, height=4.2, margin=1, across=2),
        )
        methods = list(self.intervals["method"].unique())
        handles = []
        for place, method in enumerate(methods):
            style = series_style(place)
            epsilons = self.intervals.loc[self.intervals["method"] == method, "epsilon"]
            is_line = bool(np.isfinite(epsilons).any())
            face = "white" if is_line else style["color"]
            line = "-" if is_line else "none"
            handles.append(legend_entry(method, ls=line, mfc=face, **style))
        finite = self.intervals.loc[np.isfinite(self.intervals["epsilon"]), "epsilon"]
        if finite.nunique() > 1:
            ends = f"{finite.min():g} to {finite.max():g}"
            label = f"larger marker: larger epsilon ({ends})"
            handles.append(legend_entry(label, ls="none"))
        parity = 1.0 if self.metric == "disparate_impact" else 0.0
        handles.append(legend_entry("parity", ls="--", lw=1.2))
        for (name, rows), axes in zip(tables.items(), panels, strict=True):
            self._draw_table(axes, rows, methods)
            axes.axhline(parity, color=INK, ls="--", lw=1.2)
            tidy_axes(axes)
            title_panel(axes, name)
            axes.set_xlabel(self.accuracy.replace("_", " "))
            axes.set_ylabel(self.metric.replace("_", " "))
        # About ten letters of the legend take an inch, and a marker as much as eight.
        letters = 10 * width * min(len(tables), 2)
        longest = max(len(str(handle.get_label())) for handle in handles)
        n_columns = int(np.clip(letters // (longest + 8), 1, 3))
        self._draw_legend(ax, handles, loc="outside lower center", ncols=n_columns)
        return self

    def _tables(self) -> dict[str, pd.DataFrame]:
        """Return the rows of each panel by its title: epsilons of two promises are no scale of each other."""
        tables = {}
        for name, rows in self.intervals.groupby("table", sort=False):
            has_epsilon = np.isfinite(rows["epsilon"])
            promises = []
            if "promise" in rows:
                promises = list(rows.loc[has_epsilon, "promise"].unique())
            if len(promises) < 2:
                tables[str(name)] = rows
                continue
            for promise in promises:
                is_shown = ~has_epsilon | (rows["promise"] == promise)
                tables[f"{name}, ε for {promise}"] = rows[is_shown]
        return tables

    def _draw_table(self, axes: Any, rows: pd.DataFrame, methods: list[str]) -> None:
        x = rows[rows["metric"] == self.accuracy]
        y = rows[rows["metric"] == self.metric]
        points = x.merge(y, on=["method", "epsilon"])
        for place, method in enumerate(methods):
            part = points[points["method"] == method].sort_values("epsilon")
            if part.empty:
                continue
            style = series_style(place)
            is_line = bool(np.isfinite(part["epsilon"]).all())
            axes.errorbar(
                part["mean_x"],
                part["mean_y"],
                xerr=part["std_error_x"],
                yerr=part["std_error_y"],
                ls="-" if is_line else "none",
                color=style["color"],
                lw=1,
                elinewidth=0.6,
            )
            face = "white" if is_line else style["color"]
            sizes = _sizes(part["epsilon"]) if is_line else [7]
            for (_, point), size in zip(part.iterrows(), sizes, strict=True):
                place_of_point = [point["mean_x"]], [point["mean_y"]]
                axes.plot(*place_of_point, mfc=face, ms=size, ls="none", **style)


def _sizes(epsilons: pd.Series) -> NDArray[np.float64]:
    """Return the size of each marker in points: from 4 for the smallest epsilon to 10."""
    ranks = epsilons.rank(method="dense").to_numpy(float)
    last = max(ranks.max() - 1, 1)
    sizes: NDArray[np.float64] = 4 + 6 * (ranks - 1) / last
    return sizes
