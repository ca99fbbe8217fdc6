"""Plot of scores against epsilon."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from skdp.base import AxesLike, check_choice
from skdp.evaluation._privacy_curve import check_curve, compare_to_baseline
from skdp.evaluation._style import (
    COLORS,
    INK,
    PanelDisplay,
    draw_plain_text,
    make_legend_entry,
    tidy_axes,
)


class PrivacyCurveDisplay(PanelDisplay):
    """Plot of scores against epsilon, with one panel for each metric.

    Use `from_curve` to create the display. The line is the mean over the splits, and the
    dashed line is the baseline, by default without privacy. The band of scores is one standard
    deviation over the splits, as in scikit-learn's `ValidationCurveDisplay`; it is not a
    confidence interval. Scores that are not finite are excluded.

    Parameters
    ----------
    curve : pandas.DataFrame
        Result of `privacy_curve`.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    privacy_curve : Compute the scores.
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
        ax: AxesLike | None = None,
    ) -> PrivacyCurveDisplay:
        """Plot the result of `privacy_curve`.

        Parameters
        ----------
        curve : pandas.DataFrame
            Result of `privacy_curve`.
        kind : {"score", "difference"}, default="score"
            Plot the scores, or their differences from the baseline with 95 % intervals.
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
        return cls(curve).plot(ax, kind=kind)

    @draw_plain_text
    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        kind: Literal["score", "difference"] = "score",
    ) -> PrivacyCurveDisplay:
        """Plot the scores or their differences.

        Parameters
        ----------
        ax, kind : optional
            As for `from_curve`.

        Returns
        -------
        PrivacyCurveDisplay
            Object that stores the figure.
        """
        check_choice("kind", kind, ("score", "difference"))
        metrics = list(dict.fromkeys(self.curve["metric"]))
        baseline = self.curve.attrs.get("baseline", "the baseline")
        if kind == "difference":
            table = compare_to_baseline(self.curve)
            table = table.rename(columns={"difference": "mean"})
            label = "95 % interval"
        else:
            table = _summarize(self.curve)
            label = "± 1 standard deviation over the splits"
        panels = self._use_panels(ax, len(metrics))
        for axes, metric in zip(panels, metrics, strict=True):
            _draw_metric(axes, table[table["metric"] == metric])
            tidy_axes(axes, str(metric).replace("_", " "))
            if kind == "difference":
                axes.axhline(0, color=INK, ls="--", lw=1.2)
                axes.set_ylabel(f"difference from {baseline}")
        handles = [make_legend_entry("with privacy", color=COLORS[0], marker="o")]
        if np.isinf(self.curve["epsilon"]).any():
            handles.append(make_legend_entry(baseline, ls="--", lw=1.2))
        handles.append(make_legend_entry(label, color=COLORS[0], alpha=0.25, lw=6))
        self._draw_legend(ax, handles)
        return self


def _draw_metric(axes: Any, table: pd.DataFrame) -> None:
    """Draw the means, the band from "lower" to "upper", and the baseline (epsilon inf) of a metric.

    `table` has a row for each epsilon with these columns and "mean".
    """
    line = table[np.isfinite(table["epsilon"])].sort_values("epsilon")
    epsilons = line["epsilon"].to_numpy()
    axes.fill_between(
        epsilons, line["lower"], line["upper"], color=COLORS[0], alpha=0.18, lw=0
    )
    axes.plot(epsilons, line["mean"], "o-", color=COLORS[0], lw=1.6, ms=5)
    for level in table.loc[np.isinf(table["epsilon"]), "mean"].dropna():
        axes.axhline(level, color=INK, ls="--", lw=1.2)
    # Only the values of epsilon that were computed are labeled.
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("epsilon (smaller is more private)")


def _summarize(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of the finite scores of each metric and epsilon, with "lower" and "upper".

    These are one standard deviation below and above the mean.
    """
    finite = curve.assign(value=curve["value"].where(np.isfinite(curve["value"])))
    grouped = finite.groupby(["metric", "epsilon"], sort=False)["value"]
    table = grouped.agg(["mean", "std"])
    table["lower"] = table["mean"] - table["std"]
    table["upper"] = table["mean"] + table["std"]
    return table.reset_index()
