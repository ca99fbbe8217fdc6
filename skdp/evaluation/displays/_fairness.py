"""Plot of rates of groups and their differences, with intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp.base import AxesLike, ColumnLike, Label, Privileged, TableLike
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
from skdp.metrics.fairness import LABELS

_KINDS = {
    "rate": ("Rates", None),
    "difference": ("Differences (0 is parity)", 0.0),
    "ratio": ("Ratios (1 is parity)", 1.0),
}
"""The title of the panel of what has no groups, and the value that is parity."""

_ROW_HEIGHT, _LOW_ROW_HEIGHT, _MANY = 0.3, 0.22, 10  # inches, with many rows
_WIDTH = 11.4

_ALONE, _FAR = "all", 1e6


class FairnessDisplay(PanelDisplay):
    """Plot of rates of groups, their differences and ratios, with intervals, for one or several reports.

    It is recommended to use `from_estimator`, `from_predictions` or `from_reports` to create one. A metric of several
    groups has a panel of its own, under its name, with a row for each group: the rows of all such panels are alike. The
    differences without groups, or of one group, are together in a panel, and so are the ratios, such as disparate
    impact. Metrics have the names for people of `fairness_report`. The Theil index and the consistency are in `data`
    but not drawn, as their scale is another one.

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
        All rows of all reports: ``report, metric, definition, group, value, lower, upper``. Each value of control
        features is a report, with this value in its name.
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
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true, y_pred = [1, 1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]
    >>> display = FairnessDisplay.from_predictions(y_true, y_pred, sex, privileged="Male", positive_label=1)
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
        self.data = pd.concat(
            [_tidy_report(name, report) for name, report in reports.items()],
            ignore_index=True,
        )
        if not any(map(_kind_of, self.data["metric"])):
            raise ValueError("reports must have rows of rates, differences or ratios")
        levels = {report.attrs.get("confidence_level") for report in reports.values()}
        self.confidence_level = confidence_level or (
            levels.pop() if len(levels) == 1 else None
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ColumnLike,
        y_pred: ColumnLike,
        sensitive_features: TableLike | ColumnLike,
        *,
        privileged: Privileged | None = None,
        positive_label: Label | None = None,
        by_group: bool = True,
        confidence_level: float = 0.95,
        name: str = "predictions",
        ax: AxesLike | None = None,
    ) -> FairnessDisplay:
        """Compute fairness metrics of predictions and draw them.

        Parameters
        ----------
        y_true, y_pred, sensitive_features, privileged, positive_label : see there
            As for `fairness_report`.
        by_group : bool, default=True
            Whether each value is a group; if not, only differences and the ratio of two groups are drawn.
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
        estimator: BaseEstimator,
        X: TableLike,
        y: ColumnLike,
        sensitive_features: TableLike | ColumnLike,
        *,
        privileged: Privileged | None = None,
        positive_label: Label | None = None,
        by_group: bool = True,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: AxesLike | None = None,
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
        cls,
        reports: Mapping[str, pd.DataFrame],
        *,
        confidence_level: float | None = None,
        ax: AxesLike | None = None,
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
        pyplot = import_pyplot()
        table, groups = _drawn(self.data)
        panels = table.groupby("panel", sort=False)
        titles = [str(title) for title in panels.groups]
        axes = self._use_panels(
            ax,
            len(titles),
            f" ({', '.join(titles)})",
            lambda: self._new_panels(pyplot, table, groups),
        )
        names = self.data["report"].unique().tolist()
        for place, (panel, (_, rows)) in enumerate(zip(axes, panels, strict=True)):
            kind, own = (
                rows["kind"].iloc[0],
                groups if rows["grouped"].iloc[0] else rows["row"].unique().tolist(),
            )
            # A panel beside one with the same rows needs no names of them.
            named = (
                ax is not None
                or not rows["grouped"].iloc[0]
                or panel.get_subplotspec().is_first_col()
            )
            _draw_panel(panel, kind, rows, names, own, named)
            panel.set_title(titles[place], loc="left", color=INK, fontsize="medium")
        self._explain(ax)
        return self

    def _new_panels(
        self, pyplot: Any, table: pd.DataFrame, groups: list[Any]
    ) -> list[Any]:
        """Return new panels: the rates of several groups, below them how these compare, and then the others."""
        once = table.drop_duplicates("panel")
        rates = once["kind"] == "rate"
        lines = [
            once[once["grouped"] & rates],
            once[once["grouped"] & ~rates],
            once[~once["grouped"]],
        ]
        lines = [line for line in lines if len(line)]
        n_rows = table.groupby("panel")["row"].nunique()
        numbers = [
            len(groups) if line["grouped"].iloc[0] else n_rows[line["panel"]].max()
            for line in lines
        ]
        scale = 0.8 + 0.2 * self.data["report"].nunique()
        heights = [
            0.8 + n * scale * (_ROW_HEIGHT if n <= _MANY else _LOW_ROW_HEIGHT)
            for n in numbers
        ]
        width = _WIDTH if max(map(len, lines)) > 1 else 0.55 * _WIDTH
        figure = pyplot.figure(
            figsize=(width, 0.5 + sum(heights)), layout="constrained"
        )
        parts = np.ravel(figure.subfigures(len(lines), 1, height_ratios=heights))
        made: dict[str, Any] = {}
        for part, line in zip(parts, lines, strict=True):
            made |= zip(
                line["panel"], np.ravel(part.subplots(1, len(line))), strict=True
            )
        return [made[title] for title in once["panel"]]

    def _explain(self, ax: Any) -> None:
        """Draw the legend of the reports, if there are several, and of the bars."""
        from matplotlib.lines import Line2D

        names = (
            self.data["report"].unique().tolist()
            if self.data["report"].nunique() > 1
            else []
        )
        handles = [
            Line2D([], [], label=name, **_dots(index))
            for index, name in enumerate(names)
        ]
        if self.data["lower"].notna().any():
            label = interval_label(self.confidence_level)
            handles = [
                *handles,
                Line2D([], [], color=INK, lw=2, alpha=0.6, label=label),
            ]
        if handles:
            labels = [handle.get_label() for handle in handles]
            across = min(len(handles), 4)
            self._draw_legend(
                ax, handles, labels, loc="outside lower center", ncols=across
            )


def _tidy_report(name: str, report: Any) -> pd.DataFrame:
    """Add the missing columns of the display to a report."""
    check_table(report, f"report {name!r}", ("metric", "value"))
    check_table(
        report,
        f"report {name!r}",
        (),
        numbers=[one for one in ("value", "lower", "upper") if one in report],
    )
    # Values of control features, whose columns come first, are reports by themselves.
    controls = report.columns[: report.columns.get_loc("metric")].difference(
        ["definition", "group", "value"], sort=False
    )
    cells = zip(
        [str(name)] * len(report),
        *(report[column].astype(str) for column in controls),
        strict=True,
    )
    columns: dict[str, Any] = {
        "report": list(map(", ".join, cells)),
        "metric": report["metric"].astype(str).to_list(),
    }
    for column, otherwise in (("definition", ""), ("group", None)):
        values = list(report[column]) if column in report else [otherwise] * len(report)
        columns[column] = pd.Series(values, dtype=object)
    for column in ("value", "lower", "upper"):
        columns[column] = (
            report[column].to_numpy(dtype=float)
            if column in report
            else np.full(len(report), np.nan)
        )
    return pd.DataFrame(columns)


def _kind_of(metric: str) -> str | None:
    """Return the kind of a metric by its name for people."""
    metric = _label_of(metric)
    if re.search(r"difference|gap|largest − smallest", metric):
        return "difference"
    if re.search(r"impact|ratio\b|smallest / largest", metric):
        return "ratio"
    return "rate" if re.search(r"\brate\b", metric) else None


def _label_of(metric: str) -> str:
    return LABELS.get(metric, metric.replace("_", " "))


def _drawn(data: pd.DataFrame) -> tuple[pd.DataFrame, list[Any]]:
    """Return the rows that are drawn, with their panels and rows in these, and the groups of all metrics."""
    table = data.assign(
        kind=data["metric"].map(_kind_of), group=data["group"].map(_key)
    )
    table = table[table["kind"].notna()]
    table["metric"] = table["metric"].map(_label_of)
    n_groups = table[table["group"] != _ALONE].groupby("metric")["group"].nunique()
    table["grouped"] = table["metric"].map(n_groups).fillna(0) > 1
    titles = table["kind"].map({kind: title for kind, (title, _) in _KINDS.items()})
    table["panel"] = table["metric"].where(table["grouped"], titles)
    # A group that is the only one of a metric, such as the unprivileged one, is a part of its name.
    alone = table["metric"].isin(table.loc[table["group"] == _ALONE, "metric"])
    named = [
        metric if bare else f"{metric}, {_label(group)}"
        for metric, bare, group in zip(
            table["metric"], alone, table["group"], strict=True
        )
    ]
    table["row"] = table["group"].where(table["grouped"], named)
    rank = (
        table["kind"].map({kind: place for place, kind in enumerate(_KINDS)})
        - 3 * table["grouped"]
    )
    table = table.iloc[np.argsort(rank.to_numpy(), kind="stable")]
    return table, table.loc[table["grouped"], "row"].drop_duplicates().tolist()


def _draw_panel(
    axes: Any,
    kind: str,
    table: pd.DataFrame,
    names: Sequence[str],
    rows: list[Any],
    named: bool,
) -> None:
    """Draw the values as dots and their intervals as bars, with a colour and a marker for each report."""
    places = {row: place for place, row in enumerate(rows)}
    for index, name in enumerate(names):
        own = table[table["report"] == name]
        shift = 0.6 * ((index + 0.5) / len(names) - 0.5)
        at = np.array([places[row] + shift for row in own["row"]])
        bounded = own[["lower", "upper"]].notna().all(axis=1).to_numpy()
        dots = _dots(index)
        ends = np.clip(own[["lower", "upper"]].to_numpy()[bounded], -_FAR, _FAR)
        axes.hlines(at[bounded], *ends.T, color=dots["color"], lw=2, alpha=0.6)
        axes.plot(own["value"], at, label=str(name), **dots)
    if kind == "ratio":  # of which an interval may have no end
        values = table["value"][np.isfinite(table["value"])]
        upper = (
            table["upper"].where(table["upper"] < 2 * max(1.0, values.max())).max()
            if len(values)
            else 1.0
        )
        axes.set_xlim(
            -0.03, 1.05 * np.nanmax([1.0, upper, values.max() if len(values) else 1.0])
        )
    if kind == "rate":  # from 0, so that the rates of a group can be compared
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    for row, found in table.groupby("row", sort=False):
        if found["value"].isna().all():
            text = {
                "color": INK,
                "fontsize": "small",
                "va": "center",
                "style": "italic",
            }
            axes.text(
                0.02,
                places[row],
                "undefined",
                transform=axes.get_yaxis_transform(),
                **text,
            )
    if (parity := _KINDS[kind][1]) is not None:
        axes.axvline(parity, color=INK, lw=1.2)
    tidy_axes(axes)
    label_rows(axes, list(map(_label, rows)), margin=0.5)
    axes.tick_params(labelleft=named)
    axes.locator_params(axis="x", nbins=5)


def _label(row: Any) -> str:
    return ", ".join(map(str, row)) if isinstance(row, tuple) else str(row)


def _dots(index: int) -> dict[str, Any]:
    return {
        "marker": MARKERS[index % len(MARKERS)],
        "color": COLOURS[index % len(COLOURS)],
        "ls": "none",
        "ms": 5.5,
    }


def _key(group: Any) -> Any:
    """Return the key of a group; that of a value without a group is its own name."""
    return (
        _ALONE
        if group is None or (isinstance(group, float) and np.isnan(group))
        else group
    )
