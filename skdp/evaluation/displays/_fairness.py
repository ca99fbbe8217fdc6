"""Plot of rates of groups and their differences, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skdp.evaluation.displays._fairness_panels import PANELS, draw_panel, list_lines, rows_of, tidy_report
from skdp.evaluation.displays._style import INK, PanelDisplay, import_pyplot, interval_label
from skdp.metrics import fairness_report

_ROW_HEIGHT = 0.3  # inches


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
        self.data = pd.concat([tidy_report(name, report) for name, report in reports.items()], ignore_index=True)
        if not any(len(rows_of(self.data, kind)) for kind in PANELS):
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
        y_true : array-like of shape (n_samples,)
            True labels.
        y_pred : array-like of shape (n_samples,)
            Predicted labels.
        sensitive_features : array-like or series of shape (n_samples,), or dataframe
            The values that define the group of a row.
        privileged : value, list of values or mapping, optional
            As for `fairness_report`. By default groups are compared with each other only.
        positive_label : label
            The favourable label.
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
        ImportError
            If matplotlib is not installed.
        ValueError
            As raised by `fairness_report`, or if `ax` does not fit.
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
        ImportError
            If matplotlib is not installed.
        NotFittedError, ValueError
            As raised by the estimator and `fairness_report`, or if `ax` does not fit.
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
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If the reports or `ax` do not fit.
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
        ImportError
            If matplotlib is not installed.
        ValueError
            If the number of panels is wrong.
        """
        pyplot = import_pyplot()
        tables = {kind: table for kind in PANELS if len(table := rows_of(self.data, kind))}
        kinds = f" ({', '.join(tables)})"
        panels = self._use_panels(ax, len(tables), kinds, lambda: self._new_panels(pyplot, tables))
        names = self.data["report"].unique().tolist()
        for axes, (kind, table) in zip(panels, tables.items(), strict=True):
            draw_panel(axes, kind, table, names)
        self._explain(ax)
        return self

    def _new_panels(self, pyplot: Any, tables: dict[str, pd.DataFrame]) -> Any:
        lines = max(len(list(list_lines(table))) for table in tables.values())
        height = 1.3 + lines * _ROW_HEIGHT * (0.8 + 0.2 * self.data["report"].nunique())
        figure, panels = pyplot.subplots(1, len(tables), figsize=(1 + 5.2 * len(tables), height), squeeze=False)
        figure.set_layout_engine("constrained", h_pad=0.1)
        return panels

    def _explain(self, ax: Any) -> None:
        """Draw the legend of the reports, if there are several, and of the bars."""
        from matplotlib.lines import Line2D

        handles, _ = self.axes_[0].get_legend_handles_labels()
        handles = handles if len(handles) > 1 else []
        if self.data["lower"].notna().any():
            label = interval_label(self.confidence_level)
            handles = [*handles, Line2D([], [], color=INK, lw=2, alpha=0.6, label=label)]
        if handles:
            labels = [handle.get_label() for handle in handles]
            across = min(len(handles), 2 * len(self.axes_))  # two entries fit below a panel
            self._draw_legend(ax, handles, labels, loc="outside lower center", ncols=across)
