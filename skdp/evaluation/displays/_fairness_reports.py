"""Plot of rates of groups, their differences and ratios."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdp.base import AxesLike
from skdp.evaluation._privacy_curve import check_table
from skdp.evaluation._style import (
    INK,
    PanelDisplay,
    choose_series_style,
    draw_plain_text,
    format_label,
    label_rows,
    make_legend_entry,
    tidy_axes,
)

# Titles of the panels of comparisons, and the value of each that means parity.
DIFFERENCES, RATIOS = "Differences (0 is parity)", "Ratios (1 is parity)"
PARITY = {DIFFERENCES: 0.0, RATIOS: 1.0}


class FairnessDisplay(PanelDisplay):
    """Plot of rates of groups, their differences and ratios, for one or several reports.

    Use `from_reports` to create the display. Each rate has a panel with a row for each
    group. All differences are in one panel, and all ratios in another panel.

    Parameters
    ----------
    reports : mapping of str to DataFrame
        Reports by name, with the columns ``metric, value`` and optionally ``group,
        lower, upper``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels: rates, differences, ratios.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    skdp.metrics.fairness_report : Compute the metrics.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not private,
    unless the reports come from privatized groups only.

    Examples
    --------
    >>> from skdp.evaluation import FairnessDisplay
    >>> from skdp.metrics import fairness_report
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true, y_pred = [1, 1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]
    >>> report = fairness_report(
    ...     y_true, y_pred, sex, privileged="Male", positive_label=1
    ... )
    >>> display = FairnessDisplay.from_reports({"model": report})
    >>> [axes.get_title(loc="left") for axes in display.ax_[:2]]
    ['selection rate', 'true positive rate']
    """

    def __init__(self, reports: Mapping[str, pd.DataFrame]) -> None:
        """Check the reports by name, and join them into one table with a panel and a label for each row."""
        if not isinstance(reports, Mapping) or not reports:
            raise TypeError(
                "`reports` must be a mapping of name to DataFrame with at least one "
                f"item, got {type(reports).__name__}."
            )
        tables = []
        for name, report in reports.items():
            title = f"reports[{name!r}]"
            check_table(report, title, ("metric", "value"), numbers=("value",))
            if "split" in report:
                raise TypeError(
                    f"`{title}` must be a table of fairness_report, got scores of "
                    "splits. Plot a study with PrivacyCurveDisplay.from_curve."
                )
            columns = ["class_vs_rest", "metric", "group", "value", "lower", "upper"]
            table = report.reindex(columns=columns).astype({"group": object})
            tables.append(table.assign(report=str(name)))
        table = pd.concat(tables, ignore_index=True)
        metrics = table["metric"].astype(str).str.replace("_", " ")
        # With more than two classes, each class has its own metrics.
        endings = table["class_vs_rest"].map(", {} vs rest".format)
        table["label"] = metrics + endings.where(table["class_vs_rest"].notna(), "")
        table["panel"] = list(map(_choose_panel, metrics, table["label"]))
        # Rows of rates are labeled by the group, other rows by the metric.
        is_rate = ~table["panel"].isin(PARITY)
        groups = table["group"].map(format_label)
        table["label"] = groups.where(is_rate, table["label"])
        # A rate without a group is the rate of all rows, and is not compared.
        self.table = table[~is_rate | table["group"].notna()]
        if self.table.empty:
            raise ValueError(
                "`reports` must have rates by group, differences or ratios, got none."
            )

    @classmethod
    def from_reports(
        cls, reports: Mapping[str, pd.DataFrame], *, ax: AxesLike | None = None
    ) -> FairnessDisplay:
        """Plot reports by name.

        Parameters
        ----------
        reports : mapping of str to DataFrame
            Results of `fairness_report` or `debiased_fairness` by name, such as the
            reports of several models.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each panel. If None, a new figure is created.

        Returns
        -------
        FairnessDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or a report lacks a column.
        """
        return cls(reports).plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> FairnessDisplay:
        """Plot values as dots and intervals as lines.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            As for `from_reports`.

        Returns
        -------
        FairnessDisplay
            Object that stores the figure.
        """
        # The panels of rates are first, then differences and ratios.
        panels_of_table = list(dict.fromkeys(self.table["panel"]))
        titles = [title for title in panels_of_table if title not in PARITY]
        titles += [title for title in PARITY if title in panels_of_table]
        names = list(dict.fromkeys(self.table["report"]))
        n_rows = self.table.groupby("panel")["label"].nunique().max()
        height = 0.9 + n_rows * (0.2 + 0.06 * len(names))
        # One panel per row is readable on the screen of a phone.
        size = {"width": 4.4, "height": height}
        panels = self._use_panels(ax, len(titles), **size, max_columns=1)
        for axes, title in zip(panels, titles, strict=True):
            rows = self.table[self.table["panel"] == title]
            _draw_panel(axes, rows, names)
            tidy_axes(axes, title)
            label_rows(axes, list(dict.fromkeys(rows["label"])))
            if title in PARITY:
                axes.axvline(PARITY[title], color=INK, lw=1.2)
        handles = []
        for index, name in enumerate(names):
            style = choose_series_style(index)
            handles.append(make_legend_entry(name, ls="none", **style))
        if self.table["lower"].notna().any():
            handles.append(make_legend_entry("confidence interval", lw=2, alpha=0.6))
        self._draw_legend(ax, handles)
        return self


def _choose_panel(metric: str, label: str) -> str:
    """Return the title of the panel of a metric: differences, ratios, or the label of a rate."""
    if "difference" in metric:
        return DIFFERENCES
    return RATIOS if "impact" in metric or "ratio" in metric else label


def _draw_panel(axes: Any, table: pd.DataFrame, names: list[str]) -> None:
    """Draw values and intervals of all reports, with one row for each label.

    `table` has the rows of the panel with the columns "report", "label", "value", "lower" and "upper"; `names` are the
    names of the reports in order.
    """
    # Very large limits of ratios would make all other intervals invisible.
    limit = 3.0 if table["panel"].iloc[0] == RATIOS else np.inf
    rows = list(dict.fromkeys(table["label"]))
    for index, name in enumerate(names):
        report = table[table["report"] == name]
        # Reports are shifted by -0.3 to 0.3 rows, so that they do not overlap.
        shift = 0.6 * ((index + 0.5) / len(names) - 0.5)
        heights = report["label"].map(rows.index).to_numpy(float) + shift
        value, lower, upper = report[["value", "lower", "upper"]].to_numpy(float).T
        highest = np.fmax(limit, value)
        errors = np.array([value - lower, np.fmin(upper, highest) - value])
        # matplotlib cannot draw infinite limits.
        errors = np.where(np.isfinite(errors), errors, np.nan)
        style = choose_series_style(index)
        axes.errorbar(
            np.where(np.isfinite(value), value, np.nan),
            heights,
            xerr=errors,
            ls="none",
            ms=5.5,
            elinewidth=2,
            ecolor=(style["color"], 0.6),
            **style,
        )
    # More labels such as 0.9875 would overlap.
    axes.locator_params(axis="x", nbins=5)
