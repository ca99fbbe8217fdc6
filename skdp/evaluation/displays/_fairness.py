"""Plots of fairness: rates of groups with their differences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import starmap
from typing import Any

import numpy as np
import pandas as pd

from skdp.base import AxesLike
from skdp.evaluation._common import check_table
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    import_pyplot,
    interval_label,
    label_rows,
    legend_entry,
    tidy_axes,
    title_panel,
)
from skdp.metrics import LABELS

# Of each kind of metric: how its names are recognised, in this order, the title of the
# panel of those without groups, and the value that is parity.
_KINDS = {
    "rate": (r"\brate\b", "Rates", None),
    "difference": (
        r"difference|largest − smallest",
        "Differences (0 is parity)",
        0.0,
    ),
    "ratio": (r"impact|ratio\b|smallest / largest", "Ratios (1 is parity)", 1.0),
}
_ALL = "all"
_FAR = 1e6  # where intervals without an end are cut off, as no axis shows more


class FairnessDisplay(PanelDisplay):
    """Plot of rates of groups, their differences and ratios, with intervals, for one or several reports.

    A metric of several groups has a panel of its own, under its name, with a row for each group: the rows of all such
    panels are alike. The differences without groups, or of one group, are together in a panel, and so are the ratios,
    such as disparate impact. Metrics have the names for people of `fairness_report`.

    Parameters
    ----------
    reports : mapping of str to DataFrame
        Reports by name, such as those of several models, with the columns ``metric, value`` and, as far as there are
        any, ``definition``, ``group``, ``lower`` and ``upper``, as returned by `fairness_report`.
    confidence_level : float, optional
        The coverage of the intervals, for the legend. By default that in ``attrs`` of the reports.

    Attributes
    ----------
    data : DataFrame
        All rows of all reports: ``report, metric, definition, group, value, lower, upper``.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels: those of the metrics of several groups (rates, differences, ratios), and then those of other rates,
        differences and ratios, as far as there are any.

    Raises
    ------
    TypeError, ValueError
        If there is no report, a report is no DataFrame with the columns ``metric, value``, or there are neither rates,
        differences nor ratios.

    See Also
    --------
    skdp.metrics.fairness_report : The numbers that are drawn.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not protected, unless the reports come from
    privatised groups only.

    Examples
    --------
    >>> from skdp.metrics import fairness_report
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true, y_pred = [1, 1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]
    >>> report = fairness_report(y_true, y_pred, sex, privileged="Male", positive_label=1, by_group=True,
    ...                          confidence_level=0.95)
    >>> display = FairnessDisplay({"model": report}).plot()
    >>> [axes.get_title(loc="left") for axes in display.axes_]
    ['selection rate', 'true positive rate', 'false positive rate', 'Differences (0 is parity)', 'Ratios (1 is parity)']
    >>> display.data.loc[:1, ["metric", "group", "value", "lower", "upper"]].round(2)
               metric   group  value  lower  upper
    0  selection_rate  Female   0.25   0.01   0.81
    1  selection_rate    Male   0.75   0.19   0.99
    """

    def __init__(
        self,
        reports: Mapping[str, pd.DataFrame],
        *,
        confidence_level: float | None = None,
    ) -> None:
        if not isinstance(reports, Mapping) or not reports:
            raise TypeError(
                "reports must be a mapping of name to report, with at least one report"
            )
        # One table of all reports, so that equal metrics share a panel.
        tables = starmap(_tidy_report, reports.items())
        self.data = pd.concat(tables, ignore_index=True)
        if self.data["metric"].map(_kind_of).isna().all():
            raise ValueError("reports must have rows of rates, differences or ratios")
        if confidence_level is None:
            # Reports of different levels have no common legend.
            levels = {
                report.attrs.get("confidence_level") for report in reports.values()
            }
            confidence_level = levels.pop() if len(levels) == 1 else None
        self.confidence_level = confidence_level

    def plot(self, *, ax: AxesLike | None = None) -> FairnessDisplay:
        """Draw the values as dots and their intervals as bars, with a colour and a marker for each report.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on, one for each panel of `axes_`. By default those of a new figure.

        Returns
        -------
        FairnessDisplay
            The display itself.

        Raises
        ------
        ImportError, ValueError
            If matplotlib is not installed, or the number of panels is wrong.
        """
        import_pyplot()
        table = _drawn_rows(self.data)
        groups = table.loc[table["has_groups"], "row"].unique().tolist()
        # In the order of the rows: rates first, then differences and ratios.
        panels = table.groupby("panel", sort=False)
        titles = list(map(str, panels.groups))
        kinds = f" ({', '.join(titles)})"
        axes = self._use_panels(
            ax, len(titles), kinds, lambda: self._new_panels(table, groups)
        )
        for panel, (title, part) in zip(axes, panels, strict=True):
            has_groups = part["has_groups"].iloc[0]
            rows = groups if has_groups else part["row"].unique().tolist()
            self._draw_panel(panel, part, rows)
            title_panel(panel, str(title))
        self._explain(ax)
        return self

    def _new_panels(self, table: pd.DataFrame, groups: list[Any]) -> list[Any]:
        """Return new panels below one another, as high as their rows."""
        # All panels of groups have the rows of all groups, so that they can be compared.
        panels = table.groupby("panel", sort=False)
        has_groups = panels["has_groups"].first()
        n_rows = panels["row"].nunique().where(~has_groups, len(groups))
        # A row holds the dots of all reports (inches).
        heights = 0.8 + n_rows * (0.2 + 0.06 * self.data["report"].nunique())
        figure = import_pyplot().figure(
            figsize=(6.3, 0.5 + heights.sum()), layout="constrained"
        )
        return list(
            figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights).flat
        )

    def _draw_panel(self, axes: Any, table: pd.DataFrame, rows: list[Any]) -> None:
        """Draw the reports beside one another in each row."""
        kind = table["kind"].iloc[0]
        names = self.data["report"].unique()
        heights = table["row"].map(rows.index)
        for index, name in enumerate(names):
            report = table[table["report"] == name]
            # Within the row, from -.3 to .3, so that reports do not cover each other.
            shift = 0.6 * ((index + 0.5) / len(names) - 0.5)
            places = (heights[report.index] + shift).to_numpy()
            is_bounded = report[["lower", "upper"]].notna().all(axis=1).to_numpy()
            ends = report[["lower", "upper"]].to_numpy()[is_bounded]
            low, high = np.clip(ends, -_FAR, _FAR).T
            style = _dots(index)
            axes.hlines(
                places[is_bounded], low, high, color=style["color"], lw=2, alpha=0.6
            )
            axes.plot(report["value"], places, label=str(name), **style)
        # One interval without an end would make all others a point.
        if kind == "ratio":
            axes.set_xlim(-0.03, 1.05 * _right_end(table))
        if kind == "rate":  # from 0, so that the rates of a group can be compared
            axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        parity = _KINDS[kind][2]
        if parity is not None:
            axes.axvline(parity, color=INK, lw=1.2)
        tidy_axes(axes)
        label_rows(axes, list(map(_label, rows)), margin=0.5)
        axes.locator_params(axis="x", nbins=5)

    def _explain(self, ax: Any) -> None:
        """Draw the legend of the reports, if there are several, and of the bars."""
        names = self.data["report"].unique()
        # One report is not named: its values are all there is.
        handles = []
        if len(names) > 1:
            for index, name in enumerate(names):
                handles.append(legend_entry(name, **_dots(index)))
        if self.data["lower"].notna().any():
            label = interval_label(self.confidence_level)
            handles.append(legend_entry(label, lw=2, alpha=0.6))
        if handles:
            across = min(len(handles), 4)
            self._draw_legend(ax, handles, loc="outside lower center", ncols=across)


def _tidy_report(name: str, report: Any) -> pd.DataFrame:
    """Add the missing columns of the display to a report."""
    title = f"report {name!r}"
    check_table(report, title, ("metric", "value"))
    numbers = report.columns.intersection(["value", "lower", "upper"])
    check_table(report, title, (), numbers=numbers)
    # What a report does not have is empty in the table of all.
    absent = {"definition": "", "group": None, "lower": np.nan, "upper": np.nan}
    for column in absent.keys() & set(report.columns):
        del absent[column]
    full = report.assign(
        report=str(name), metric=report["metric"].astype(str), **absent
    )
    # The same columns and types of all reports, of which some have no group.
    columns = ["report", "metric", "definition", "group", "value", "lower", "upper"]
    types = {"group": object, "value": float, "lower": float, "upper": float}
    return full[columns].astype(types)


def _kind_of(metric: str) -> str | None:
    """Return the kind of a metric by its name for people."""
    # "selection rate, largest − smallest" is a difference: rates are looked for last.
    label = _metric_label(metric)
    for kind in ("difference", "ratio", "rate"):
        if re.search(_KINDS[kind][0], label):
            return kind
    return None


def _metric_label(metric: str) -> str:
    """Return the name for people."""
    return LABELS.get(metric, metric.replace("_", " "))


def _drawn_rows(data: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are drawn, in the order of their panels, with the names of panel and row."""
    table = data.assign(kind=data["metric"].map(_kind_of))
    table = table[table["kind"].notna()].reset_index(drop=True)
    table["metric"] = table["metric"].map(_metric_label)
    # A value without a group is of all rows.
    is_all = table["group"].map(_is_all)
    table["group"] = table["group"].where(~is_all, _ALL)
    n_groups = table[~is_all].groupby("metric")["group"].nunique()
    table["has_groups"] = table["metric"].map(n_groups).fillna(0) > 1
    titles = table["kind"].map({kind: row[1] for kind, row in _KINDS.items()})
    table["panel"] = table["metric"].where(table["has_groups"], titles)
    # A group that is the only one of a metric, such as the unprivileged one, is a part
    # of its name.
    has_all = table["metric"].isin(table.loc[is_all, "metric"])
    of_group = table["metric"] + ", " + table["group"].map(_label)
    names = table["metric"].where(has_all, of_group)
    table["row"] = table["group"].where(table["has_groups"], names)
    # Panels of groups before the others, and in either the order of `_KINDS`.
    rank = table["kind"].map(list(_KINDS).index) - 3 * table["has_groups"]
    return table.iloc[np.argsort(rank.to_numpy(), kind="stable")]


def _is_all(group: Any) -> bool:
    """Whether a value is of all rows: without a group, or with its name."""
    return group is None or (isinstance(group, str) and group == _ALL) or group != group


def _right_end(table: pd.DataFrame) -> float:
    """Return where a panel of ratios ends: beyond the values, and the intervals that have a near end."""
    # A ratio is infinite where a rate is 0.
    values = table["value"][np.isfinite(table["value"])]
    largest = values.max() if len(values) else 1.0
    # An interval of a ratio may reach to infinity: it is cut off by the panel.
    near = table["upper"][table["upper"] < 2 * max(1.0, largest)]
    return float(np.nanmax([1.0, largest, near.max()]))


def _label(row: Any) -> str:
    """Write a group, or a combination of groups."""
    return ", ".join(map(str, row)) if isinstance(row, tuple) else str(row)


def _dots(index: int) -> dict[str, Any]:
    """Return the style of a report."""
    colour = COLOURS[index % len(COLOURS)]
    marker = MARKERS[index % len(MARKERS)]
    return {"marker": marker, "color": colour, "ls": "none", "ms": 5.5}
