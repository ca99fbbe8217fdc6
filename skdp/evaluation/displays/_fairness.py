"""Plot of rates of groups and their differences, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    check_table,
    import_pyplot,
    interval_label,
    label_rows,
    tidy_axes,
)
from skdp.metrics import fairness_report

_ROW_HEIGHT = 0.3  # inches
_PANELS = {
    "rate": ("Rates of groups", r"\brate\b"),
    "difference": ("Differences (0 is parity)", r"difference|largest − smallest"),
}
"""The title of each panel, and the pattern of the names of its metrics."""

_RATE_OF_GROUP = r"^(?P<metric>.* rate), (?P<group>(?:un)?privileged)$"  # the name of a rate in reports of two groups
_HEADER = "\0header"
_ALONE = "\0alone"


class FairnessDisplay(PanelDisplay):
    """Plot of rates of groups and their differences, with intervals, for one or several reports.

    It is recommended to use `from_estimator`, `from_predictions` or `from_reports` to create one. Ratios and the Theil
    index are in `data` but not drawn, as their scales differ.

    Parameters
    ----------
    reports : mapping of str to DataFrame
        Reports by name, with the columns ``metric, value`` and, as far as there are any, ``definition``, ``group``,
        ``lower`` and ``upper``, as returned by `fairness_report`.
    confidence_level : float, optional
        The coverage of the intervals, for the legend. By default that in ``attrs`` of the reports.

    Attributes
    ----------
    data : DataFrame
        All rows of all reports: ``report, metric, definition, group, value, lower, upper``.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels: the rates, if a report has any, and the differences, if it has any.

    Raises
    ------
    TypeError, ValueError
        If there is no report, a report is no DataFrame with the columns ``metric, value``, or has neither rates nor
        differences.

    See Also
    --------
    skdp.metrics.fairness_report : The numbers that are drawn.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not protected, unless the reports come from
    privatised groups only.

    Examples
    --------
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true, y_pred = [1, 1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]
    >>> display = FairnessDisplay.from_predictions(y_true, y_pred, sex, privileged="Male", positive_label=1)
    >>> [axes.get_title(loc="left") for axes in display.axes_]
    ['Rates of groups', 'Differences (0 is parity)']
    >>> display.data.loc[:1, ["metric", "group", "value", "lower", "upper"]].round(2)
               metric   group  value  lower  upper
    0  selection rate  Female   0.25   0.05   0.70
    1  selection rate    Male   0.75   0.30   0.95
    """

    def __init__(self, reports: Mapping[str, pd.DataFrame], *, confidence_level: float | None = None) -> None:
        if not isinstance(reports, Mapping) or not reports:
            raise TypeError("reports must be a mapping of name to report, with at least one report")
        self.data = pd.concat([_tidy_report(name, report) for name, report in reports.items()], ignore_index=True)
        if not any(len(_rows_of(self.data, kind)) for kind in _PANELS):
            raise ValueError("reports must have rows of rates or of differences")
        levels = {report.attrs.get("confidence_level") for report in reports.values()}
        self.confidence_level = confidence_level or (levels.pop() if len(levels) == 1 else None)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        sensitive_features: Any,
        *,
        privileged: Any = None,
        positive_label: Any,
        by_group: bool = True,
        confidence_level: float = 0.95,
        name: str = "predictions",
        ax: Any = None,
    ) -> FairnessDisplay:
        """Compute fairness metrics of predictions and draw them.

        Parameters
        ----------
        y_true, y_pred, sensitive_features, privileged, positive_label : see there
            As for `fairness_report`.
        by_group : bool, default=True
            Whether each value is a group; if not, only the differences of two groups are drawn.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        name : str, default="predictions"
            The name of the report.
        ax : matplotlib Axes or array-like of them, optional
            See `plot`.

        Returns
        -------
        FairnessDisplay
            The display, drawn.

        Raises
        ------
        ImportError, ValueError
            If matplotlib is not installed, as raised by `fairness_report`, or if `ax` does not fit.
        """
        import_pyplot()
        report = fairness_report(
            y_true,
            y_pred,
            sensitive_features,
            privileged=privileged,
            positive_label=positive_label,
            by_group=by_group,
            confidence_level=confidence_level,
        )
        return cls({name: report}).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        sensitive_features: Any,
        *,
        privileged: Any = None,
        positive_label: Any,
        by_group: bool = True,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: Any = None,
    ) -> FairnessDisplay:
        """Compute fairness metrics of the predictions of a fitted estimator and draw them.

        Parameters
        ----------
        estimator : classifier
            Fitted; a Pipeline that randomises rows does so once.
        X : table or array of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            True labels.
        sensitive_features, privileged, positive_label, by_group, confidence_level : see there
            As for `from_predictions`.
        name : str, optional
            The name of the report; by default the class of the estimator.
        ax : matplotlib Axes or array-like of them, optional
            See `plot`.

        Returns
        -------
        FairnessDisplay
            The display, drawn.

        Raises
        ------
        ImportError, NotFittedError, ValueError
            If matplotlib is not installed, as raised by the estimator and `fairness_report`, or if `ax` does not fit.
        """
        import_pyplot()
        return cls.from_predictions(
            y,
            estimator.predict(X),
            sensitive_features,
            privileged=privileged,
            positive_label=positive_label,
            by_group=by_group,
            confidence_level=confidence_level,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_reports(
        cls, reports: Mapping[str, pd.DataFrame], *, confidence_level: float | None = None, ax: Any = None
    ) -> FairnessDisplay:
        """Draw one or several reports, such as those of several models.

        Parameters
        ----------
        reports : mapping of str to DataFrame
            Reports by name.
        confidence_level : float, optional
            See the class.
        ax : matplotlib Axes or array-like of them, optional
            See `plot`.

        Returns
        -------
        FairnessDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the reports or `ax` do not fit.
        """
        return cls(reports, confidence_level=confidence_level).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> FairnessDisplay:
        """Draw the values as dots and their intervals as bars, with a colour and a marker for each report.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on: one for the rates and one for the differences, if there are any. By default those of a
            new figure.

        Returns
        -------
        FairnessDisplay
            The display itself.

        Raises
        ------
        ImportError, ValueError
            If matplotlib is not installed, or the number of panels is wrong.
        """
        pyplot = import_pyplot()
        tables = {kind: table for kind in _PANELS if len(table := _rows_of(self.data, kind))}
        kinds = f" ({', '.join(tables)})"
        panels = self._use_panels(ax, len(tables), kinds, lambda: self._new_panels(pyplot, tables))
        names = self.data["report"].unique().tolist()
        for axes, (kind, table) in zip(panels, tables.items(), strict=True):
            _draw_panel(axes, kind, table, names)
        self._explain(ax)
        return self

    def _new_panels(self, pyplot: Any, tables: dict[str, pd.DataFrame]) -> Any:
        lines = max(len(list(_list_lines(table))) for table in tables.values())
        height = 1.3 + lines * _ROW_HEIGHT * (0.8 + 0.2 * self.data["report"].nunique())
        figure, panels = pyplot.subplots(1, len(tables), figsize=(1 + 5.2 * len(tables), height), squeeze=False)
        figure.set_layout_engine("constrained", h_pad=0.1)
        return panels

    def _explain(self, ax: Any) -> None:
        """Draw the legend of the reports, if there are several, and of the bars."""
        from matplotlib.lines import Line2D

        names = self.data["report"].unique().tolist() if self.data["report"].nunique() > 1 else []
        handles = [Line2D([], [], label=name, **_dots(index)) for index, name in enumerate(names)]
        if self.data["lower"].notna().any():
            label = interval_label(self.confidence_level)
            handles = [*handles, Line2D([], [], color=INK, lw=2, alpha=0.6, label=label)]
        if handles:
            labels = [handle.get_label() for handle in handles]
            across = min(len(handles), 2 * len(self.axes_))  # two entries fit below a panel
            self._draw_legend(ax, handles, labels, loc="outside lower center", ncols=across)


def _tidy_report(name: str, report: Any) -> pd.DataFrame:
    """Add the missing columns of the display to a report."""
    check_table(report, f"report {name!r}", ("metric", "value"))
    check_table(report, f"report {name!r}", (), numbers=[one for one in ("value", "lower", "upper") if one in report])
    columns: dict[str, Any] = {"report": [str(name)] * len(report), "metric": report["metric"].astype(str).to_list()}
    for column, otherwise in (("definition", ""), ("group", None)):
        values = list(report[column]) if column in report else [otherwise] * len(report)
        columns[column] = pd.Series(values, dtype=object)
    for column in ("value", "lower", "upper"):
        columns[column] = report[column].to_numpy(dtype=float) if column in report else np.full(len(report), np.nan)
    table = pd.DataFrame(columns)
    parts = table["metric"].str.extract(_RATE_OF_GROUP)
    named = parts["group"].notna()
    table.loc[named, ["metric", "group"]] = parts[named]
    return table


def _rows_of(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    metric = data["metric"]
    is_difference = metric.str.contains(_PANELS["difference"][1])
    if kind == "difference":
        return data[is_difference]
    return data[metric.str.contains(_PANELS["rate"][1]) & ~is_difference & ~metric.str.contains("/")]


def _list_lines(table: pd.DataFrame) -> Iterator[tuple[str, Any, str]]:
    """Return the lines of a panel: a heading and one line per group, or one line for a metric without groups."""
    for metric in table["metric"].unique():
        groups = list(dict.fromkeys(map(_key, table.loc[table["metric"] == metric, "group"])))
        if _ALONE in groups:
            yield metric, _ALONE, metric
        named = [group for group in groups if group != _ALONE]
        if named and _ALONE not in groups:
            yield metric, _HEADER, metric
        for group in named:
            yield metric, group, ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def _draw_panel(axes: Any, kind: str, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw the values as dots and their intervals as bars, with a colour and a marker for each report."""
    lines = list(_list_lines(table))
    places = {(metric, group): place for place, (metric, group, _) in enumerate(lines)}
    for index, name in enumerate(names):
        rows = table[table["report"] == name]
        shift = 0.6 * ((index + 0.5) / len(names) - 0.5)
        at = np.array([places[m, _key(g)] + shift for m, g in zip(rows["metric"], rows["group"], strict=True)])
        bounded = np.isfinite(rows["lower"].to_numpy()) & np.isfinite(rows["upper"].to_numpy())
        dots = _dots(index)
        axes.hlines(at[bounded], rows["lower"][bounded], rows["upper"][bounded], color=dots["color"], lw=2, alpha=0.6)
        axes.plot(rows["value"], at, label=str(name), **dots)
    _mark_undefined(axes, table, places)
    if kind == "difference":
        axes.axvline(0, color=INK, lw=1.2)
    tidy_axes(axes)
    label_rows(axes, [label for _, _, label in lines], margin=0.5)
    for (_, group, _), tick in zip(lines, axes.get_yticklabels(), strict=True):
        tick.set_fontweight("bold" if group is _HEADER else "normal")
    axes.locator_params(axis="x", nbins=6)
    axes.set_title(_PANELS[kind][0], loc="left", color=INK, fontsize="medium")


def _dots(index: int) -> dict[str, Any]:
    return {"marker": MARKERS[index % len(MARKERS)], "color": COLOURS[index % len(COLOURS)], "ls": "none", "ms": 5.5}


def _mark_undefined(axes: Any, table: pd.DataFrame, places: dict[Any, int]) -> None:
    for (metric, group), rows in table.groupby(["metric", table["group"].map(_key)], dropna=False, sort=False):
        if rows["value"].isna().all():
            text = {"color": INK, "fontsize": "small", "va": "center", "style": "italic"}
            axes.text(0.02, places[metric, group], "undefined", transform=axes.get_yaxis_transform(), **text)


def _key(group: Any) -> Any:
    """Return the key of a group; that of a value without a group is its own name."""
    return _ALONE if group is None or (isinstance(group, float) and np.isnan(group)) else group
