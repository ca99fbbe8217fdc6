"""Plot of scores against epsilon."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal

import numpy as np
import pandas as pd

from skdp.base import AxesLike, check_choice
from skdp.evaluation._privacy_curve import (
    check_curve,
    compare_to_baseline,
    summarize_splits,
)
from skdp.evaluation._style import (
    INK,
    PanelDisplay,
    choose_series_style,
    draw_plain_text,
    make_legend_entry,
    tidy_axes,
)


class PrivacyCurveDisplay(PanelDisplay):
    """Plot of scores against epsilon, with a panel for each metric and a curve for each method.

    Use `from_curve` to create the display. Points are means over the splits with 95 %
    intervals, as in `compare_to_baseline`. Dashed lines are means without an epsilon,
    such as of the baseline. Scores that are not finite are excluded.

    Parameters
    ----------
    curve : pandas.DataFrame
        Result of `privacy_curve` or `fairness_study`. Of several curves, each has its
        name in the column ``method``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    privacy_curve : Compute the scores of a model.
    fairness_study : Compute the scores of several methods.
    compare_to_baseline : Table of the differences.

    Notes
    -----
    **Privacy.** Scores are computed from true rows and are not private.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.evaluation import PrivacyCurveDisplay
    >>> rows = [
    ...     (epsilon, split, "accuracy", 0.6 + 0.02 * epsilon, 80, 20)
    ...     for epsilon in (1.0, 4.0)
    ...     for split in (0, 1)
    ... ]
    >>> names = ["epsilon", "split", "metric", "value", "n_train", "n_test"]
    >>> display = PrivacyCurveDisplay.from_curve(pd.DataFrame(rows, columns=names))
    >>> display.ax_[0].get_title(loc="left")
    'accuracy'
    """

    def __init__(self, curve: pd.DataFrame) -> None:
        check_curve(curve)
        self.curve = curve

    @classmethod
    def from_curve(
        cls,
        curve: pd.DataFrame,
        *,
        kind: Literal["score", "difference"] = "score",
        baseline: str | None = None,
        ax: AxesLike | None = None,
    ) -> PrivacyCurveDisplay:
        """Plot the result of `privacy_curve` or `fairness_study`.

        Parameters
        ----------
        curve : pandas.DataFrame
            Result of `privacy_curve`, or rows of a `fairness_study`, such as
            ``study[study["metric"] == "accuracy"]``. Concatenated studies of several
            encoders have a curve for each encoder.
        kind : {"score", "difference"}, default="score"
            Plot the scores, or their differences from the baseline.
        baseline : str, default=None
            Baseline method of differences of a study, as in `compare_to_baseline`.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each metric. If None, a new figure is created.

        Returns
        -------
        PrivacyCurveDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the curve lacks a column or the baseline.
        """
        return cls(curve).plot(ax, kind=kind, baseline=baseline)

    @draw_plain_text
    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        kind: Literal["score", "difference"] = "score",
        baseline: str | None = None,
    ) -> PrivacyCurveDisplay:
        """Plot the scores or their differences.

        Parameters
        ----------
        ax, kind, baseline : optional
            As for `from_curve`.

        Returns
        -------
        PrivacyCurveDisplay
            Object that stores the figure.
        """
        check_choice("kind", kind, ("score", "difference"))
        curve = check_curve(self.curve)
        name = baseline or curve.attrs.get("baseline", "the baseline")
        is_difference = kind == "difference"
        table = summarize_splits(curve)
        # A method has the same style in figures of scores and of differences. Curves have
        # the first colors.
        names = _name_series(table, name)
        lowest = table["epsilon"].groupby(names, sort=False).min()
        ordered = lowest.sort_values(key=np.isinf, kind="stable").index
        styles = dict(zip(ordered, map(choose_series_style, count()), strict=False))
        if is_difference:
            table = compare_to_baseline(curve, baseline=baseline)
            table = table.rename(columns={"difference": "mean"})
        table["series"] = _name_series(table, name)
        metrics = list(dict.fromkeys(table["metric"]))
        # One panel per row is readable in a column of a paper and on a phone.
        panels = self._use_panels(
            ax, len(metrics), width=5.5, height=2.6, max_columns=1
        )
        for axes, metric in zip(panels, metrics, strict=True):
            _draw_metric(axes, table[table["metric"] == metric], styles)
            if is_difference:
                axes.axhline(0, color=INK, lw=1)
                axes.set_ylabel(f"difference from\n{name}")
            tidy_axes(axes, str(metric).replace("_", " "))
        handles = []
        for series, style in styles.items():
            if table.loc[table["series"] == series, "mean"].notna().any():
                ls = "-" if lowest[series] < np.inf else "--"
                handles.append(make_legend_entry(series, ls=ls, **style))
        handles.append(make_legend_entry("95 % interval", lw=2, alpha=0.6))
        self._draw_legend(ax, handles)
        return self


def _name_series(table: pd.DataFrame, baseline: str) -> pd.Series:
    """Return the name of the curve of each point: its method, and its encoder if the method has several."""
    if "method" not in table:
        is_baseline = np.isinf(table["epsilon"])
        return is_baseline.map({True: baseline, False: "with privacy"})
    names = table["method"].astype(str)
    if "encoder" in table:
        n_encoders = table.groupby("method")["encoder"].transform("nunique")
        names = names.where(n_encoders < 2, names + ", " + table["encoder"].astype(str))
    return names


def _draw_metric(axes: Any, table: pd.DataFrame, styles: dict[Any, Any]) -> None:
    """Draw the means and intervals of a metric, with a curve for each series.

    `table` has a row for each point with the columns "series", "epsilon", "mean", "lower" and "upper".
    """
    epsilons = sorted(set(table["epsilon"]) - {np.inf})
    # Points without an epsilon are at the right of the largest epsilon.
    step = (epsilons[-1] / epsilons[0]) ** (1 / max(len(epsilons) - 1, 1))
    right = epsilons[-1] * max(step, 2)
    axes.set_xscale("log")
    for index, (series, style) in enumerate(styles.items()):
        # Series are shifted by a part of a step, so that intervals do not overlap.
        shift = max(step, 2) ** (0.3 * ((index + 0.5) / len(styles) - 0.5))
        points = table[table["series"] == series].sort_values("epsilon")
        for is_limit, part in points.groupby(np.isinf(points["epsilon"])):
            names = ["epsilon", "mean", "lower", "upper"]
            x, mean, lower, upper = part[names].to_numpy(float).T
            axes.errorbar(
                np.minimum(x, right) * shift,
                mean,
                [(mean - lower).tolist(), (upper - mean).tolist()],
                ecolor=(style["color"], 0.6),
                elinewidth=2,
                lw=1.4,
                ms=5,
                **style,
            )
            if is_limit and np.isfinite(mean).all():
                axes.axhline(mean.item(), color=style["color"], ls="--", lw=1.2)
    # Only the values of epsilon that were computed are labeled.
    ticks = {epsilon: f"{epsilon:g}" for epsilon in epsilons}
    if np.isinf(table["epsilon"]).any():
        ticks[right] = "none"
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.set_xlabel("epsilon (smaller is more private)")
