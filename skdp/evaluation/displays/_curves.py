"""Plots of scores against epsilon."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from skdp.base import AxesLike
from skdp.evaluation._curve_cells import ALL
from skdp.evaluation._privacy_curve import (
    check_curve,
    compare_to_baseline,
    groups_of,
    rows_of_group,
)
from skdp.evaluation.displays._style import (
    INK,
    PanelDisplay,
    import_pyplot,
    interval_label,
    label_epsilons,
    legend_entry,
    new_grid,
    series_style,
    tidy_axes,
)

CurveKind = Literal["score", "difference"]
Band = Literal["auto", "std", "range"] | None

_BANDS = ("auto", "std", "range", None)
_LEVEL = 0.95


class PrivacyCurveDisplay(PanelDisplay):
    """Plot of scores against epsilon, with a panel for each metric and a line for each group.

    A line is the mean of all folds and repeats; a dashed one is the baseline, without noise. Scores that are not finite
    (a ratio to 0, a rate of no rows) are left out of mean and band; the legend and `summary` give their number.

    Parameters
    ----------
    curve : pandas.DataFrame
        The result of `privacy_curve`: the columns ``epsilon, repeat, fold, metric, group, value``.

    Attributes
    ----------
    curve : pandas.DataFrame
        The scores.
    figure_ : matplotlib Figure
        The last figure.
    axes_ : ndarray of matplotlib Axes
        Its panels, one per metric.

    See Also
    --------
    privacy_curve : The scores.
    compare_to_baseline : What privacy costs, as a table.

    Notes
    -----
    **Privacy.** Scores are computed from true rows and are not protected.

    The band of scores is not a confidence interval: as folds and repeats share rows, it shows the effect of randomness
    and splits on this table, not of the draw of the table. That of differences is one: see `compare_to_baseline`.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [(epsilon, repeat, 0, "accuracy", "all", 0.6 + 0.02 * epsilon + 0.01 * repeat)
    ...         for epsilon in (1.0, 4.0) for repeat in (0, 1)]
    >>> curve = pd.DataFrame(rows, columns=["epsilon", "repeat", "fold", "metric", "group", "value"])
    >>> display = PrivacyCurveDisplay(curve).plot()
    >>> display.summary().round(3)
         metric group  epsilon   mean    low   high  n_undefined
    0  accuracy   all      1.0  0.625  0.618  0.632            0
    1  accuracy   all      4.0  0.685  0.678  0.692            0
    """

    def __init__(self, curve: pd.DataFrame) -> None:
        check_curve(curve)
        self.curve = curve

    def summary(
        self, *, kind: CurveKind = "score", band: Band = "auto"
    ) -> pd.DataFrame:
        """Summarise the scores as drawn.

        Parameters
        ----------
        kind, band : optional
            See `plot`.

        Returns
        -------
        pandas.DataFrame
            One row per metric, group and epsilon, with the columns ``metric, group, epsilon, mean, low, high,
            n_undefined``; the baseline has an infinite epsilon. Low and high are the ends of the band, nan without one.
            ``n_undefined`` is the number of scores, or pairs of them, that are not finite: these are left out.

        Raises
        ------
        TypeError, ValueError
            If the curve lacks a column or a row, or an option is unknown.
        """
        if not isinstance(kind, str) or kind not in get_args(CurveKind):
            raise ValueError(f"kind must be 'score' or 'difference', got {kind!r}")
        if band not in _BANDS:
            raise ValueError(
                f"band must be 'auto', 'std', 'range' or None, got {band!r}"
            )
        check_curve(self.curve)
        if kind == "score":
            return _summarise(self.curve, self._band(kind, band))
        # Differences are of pairs of fits on the same split, so that their interval
        # allows for the rows that splits share.
        costs = compare_to_baseline(self.curve, confidence_level=_LEVEL)
        n_splits = len(self.curve[["repeat", "fold"]].drop_duplicates())
        costs["n_undefined"] = n_splits - costs.pop("n_pairs")
        if band is None:
            costs[["lower", "upper"]] = math.nan
        # Under the names of the summary of scores, as both are drawn alike.
        names = {"difference": "mean", "lower": "low", "upper": "high"}
        return costs.drop(columns="std_error").rename(columns=names)

    def plot(
        self,
        *,
        kind: CurveKind = "score",
        band: Band = "auto",
        ax: AxesLike | None = None,
    ) -> PrivacyCurveDisplay:
        """Draw the scores.

        Parameters
        ----------
        kind : {"score", "difference"}, default="score"
            The scores; or how much they differ from those of the baseline on the same splits, with 95 % intervals for
            the expected difference.
        band : {"auto", "std", "range"} or None, default="auto"
            The shaded band around a line of scores: one standard deviation, over the repeats, of the mean over the
            folds to either side; or from the lowest to the highest of all scores; or nothing. By default the standard
            deviation if there are several repeats, and the range otherwise. The legend states which. Differences have
            their intervals, or nothing.
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on, one for each metric. By default those of a new figure.

        Returns
        -------
        PrivacyCurveDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the curve lacks a column, a row or the baseline, an option is unknown, or
            the number of panels is wrong.
        """
        summary = self.summary(kind=kind, band=band)
        import_pyplot()
        metrics = list(dict.fromkeys(summary["metric"]))
        panels = self._use_panels(
            ax,
            len(metrics),
            ", one for each metric",
            lambda: new_grid(len(metrics), width=4.0, height=3.2, margin=0.6),
        )
        for panel, metric in zip(panels, metrics, strict=True):
            scores = summary[summary["metric"] == metric]
            for place, group in enumerate(groups_of(self.curve)):
                _draw_group(panel, scores, group, series_style(place))
            # A tick at each epsilon of the curve, and none between.
            finite = scores[np.isfinite(scores["epsilon"])]
            label_epsilons(panel, sorted(finite["epsilon"].unique()))
            tidy_axes(panel)
            title = metric.replace("_", " ")
            panel.set_title(title, loc="left", fontsize=11, parse_math=False)
            if kind == "difference":
                panel.axhline(0, color=INK, ls="--", lw=1.2, zorder=1)
                panel.set_ylabel("difference from no noise")
        handles = self._legend_entries(summary, kind, band)
        self._draw_legend(ax, handles, **_ABOVE)
        return self

    def _legend_entries(
        self, summary: pd.DataFrame, kind: str, band: Band
    ) -> list[Any]:
        """Explain the lines, the band, and what is left out."""
        from matplotlib.patches import Patch

        # What is drawn is explained once, whatever the number of panels.
        handles: list[Any] = []
        for place, group in enumerate(groups_of(self.curve)):
            style = series_style(place)
            handles.append(legend_entry(_group_label(group), lw=1.6, ms=5, **style))
        if np.isinf(summary["epsilon"]).any() or kind == "difference":
            handles.append(legend_entry("without noise", ls="--", lw=1.2))
        # A band of no height, as of one split, is not explained.
        drawn_band = self._band(kind, band)
        if drawn_band is not None and (summary["high"] > summary["low"]).any():
            label = self._band_label(drawn_band)
            handles.append(Patch(color=INK, alpha=0.18, lw=0, label=label))
        n_undefined = summary["n_undefined"].sum()
        if n_undefined:
            things = "scores" if kind == "score" else "scores and baselines"
            text = f"without {n_undefined} of {len(self.curve)} {things}, not finite"
            handles.append(legend_entry(text, ls="none"))
        return handles

    def _band_label(self, band: str) -> str:
        """Say what the band is."""
        if band == "interval":
            return interval_label(_LEVEL)
        n_repeats = self.curve["repeat"].nunique()
        if band == "std":
            return f"± 1 standard deviation over {n_repeats} repeats"
        times = f" × {n_repeats} repeats" if n_repeats > 1 else ""
        return f"lowest to highest of {self.curve['fold'].nunique()} folds{times}"

    def _band(self, kind: str, band: Band) -> str | None:
        """Return what the band is of."""
        if kind == "difference" and band is not None:
            return "interval"
        if band != "auto":
            return band
        return "std" if self.curve["repeat"].nunique() > 1 else "range"


_ABOVE: dict[str, Any] = {
    "loc": "outside upper left",
    "ncols": 3,
    "fontsize": "small",
}


def _draw_group(
    axes: Any, scores: pd.DataFrame, group: Any, style: dict[str, Any]
) -> None:
    """Draw the line of a group, its band, and its baseline."""
    # The baseline has an infinite epsilon, which no axis shows: it is a level.
    line = rows_of_group(scores[np.isfinite(scores["epsilon"])], group)
    line = line.sort_values("epsilon")
    colour = style["color"]
    axes.plot(line["epsilon"], line["mean"], lw=1.6, ms=5, **style)
    axes.fill_between(
        line["epsilon"], line["low"], line["high"], color=colour, alpha=0.18, lw=0
    )
    baseline = rows_of_group(scores[np.isinf(scores["epsilon"])], group)
    for level in baseline["mean"].dropna():
        axes.axhline(level, color=colour, ls="--", lw=1.2, zorder=1)


def _group_label(group: Any) -> str:
    """Write a group, or a combination of groups."""
    if isinstance(group, tuple):
        return ", ".join(map(str, group))
    return "everybody" if group == ALL else str(group)


def _summarise(curve: pd.DataFrame, band: str | None) -> pd.DataFrame:
    """Compute the mean and the band of each metric, group and epsilon."""
    # In the order of the curve, in which panels and lines are drawn.
    metrics = dict.fromkeys(curve["metric"])
    rows = []
    for metric, group in itertools.product(metrics, groups_of(curve)):
        part = rows_of_group(curve[curve["metric"] == metric], group)
        for epsilon, scores in part.groupby("epsilon", dropna=False):
            finite = scores[np.isfinite(scores["value"])]
            low, high = _band_ends(finite, band)
            n_undefined = len(scores) - len(finite)
            mean = finite["value"].mean()
            rows.append((metric, group, epsilon, mean, low, high, n_undefined))
    columns = ["metric", "group", "epsilon", "mean", "low", "high", "n_undefined"]
    return pd.DataFrame(rows, columns=columns)


def _band_ends(scores: pd.DataFrame, band: str | None) -> tuple[float, float]:
    """Return the ends of a band around the mean of some scores, nan if there is none."""
    # One repeat has no deviation: the range of its folds is all there is to see.
    values = scores["value"]
    if band == "range" and len(scores):
        return values.min(), values.max()
    # The deviation of the mean over the folds: that of single folds would show how
    # different the folds are, and not the noise.
    repeats = scores.groupby("repeat")["value"].mean()
    if band == "std" and len(repeats) > 1:
        return values.mean() - repeats.std(), values.mean() + repeats.std()
    return math.nan, math.nan
