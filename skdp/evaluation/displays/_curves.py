"""Plots of scores against epsilon, and of one score against another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from skdp.base import AxesLike
from skdp.evaluation._curve_cells import AIF360, ALL
from skdp.evaluation._privacy_curve import (
    check_curve,
    compare_to_baseline,
    corrected_error,
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

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

CurveKind = Literal["score", "difference"]
Band = Literal["auto", "std", "range"] | None
Ideal = float | Literal["high", "low"]

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


class ParetoDisplay(PanelDisplay):
    """Plot of two scores against each other: what is lost of one to gain the other, and at which epsilon.

    A point is an epsilon of a curve, with one standard error to each side; a line joins the points of a curve in the
    order of epsilon, and a star is the baseline. A point is filled unless another one, of any curve, is better in both
    scores.

    Parameters
    ----------
    curves : DataFrame, or mapping of str to DataFrame
        Results of `privacy_curve` with both metrics; of several, the names are shown.
    x, y : str
        The metrics.
    group : object, default="all"
        The group whose scores are shown.
    ideal : mapping of str to {"high", "low"} or float, optional
        For a metric, whether more or less of it is better, or the number that is. By default, 0 for names that end with
        "difference" or "index", 1 for "disparate_impact" and for names that end with "ratio", and "high" for others.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The last figure.
    axes_ : ndarray of matplotlib Axes
        Its panel.

    See Also
    --------
    PrivacyCurveDisplay : Each score against epsilon.

    Notes
    -----
    **Privacy.** Scores are computed from true rows and are not protected.

    Standard errors are those of `compare_to_baseline`, of scores. Points that are within each other's errors are not
    ordered by these data, whatever is filled.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.evaluation import ParetoDisplay
    >>> scores = {0.5: (0.70, 0.02), 2.0: (0.75, 0.05), 8.0: (0.74, 0.09)}
    >>> rows = [(epsilon, 0, fold, metric, "all", score + 0.01 * fold, 400, 100) for epsilon, pair in scores.items()
    ...         for metric, score in zip(("accuracy", "parity_difference"), pair) for fold in range(2)]
    >>> names = ["epsilon", "repeat", "fold", "metric", "group", "value", "n_train", "n_test"]
    >>> display = ParetoDisplay(pd.DataFrame(rows, columns=names), x="parity_difference", y="accuracy").plot()
    >>> display.summary()[["epsilon", "x", "y", "dominated"]].round(3)
       epsilon      x      y  dominated
    0      0.5  0.025  0.705      False
    1      2.0  0.055  0.755      False
    2      8.0  0.095  0.745       True
    """

    def __init__(
        self,
        curves: pd.DataFrame | Mapping[str, pd.DataFrame],
        *,
        x: str,
        y: str,
        group: Hashable = ALL,
        ideal: Mapping[str, Ideal] | None = None,
    ) -> None:
        self.curves, self.x, self.y, self.group, self.ideal = curves, x, y, group, ideal
        self.summary()

    def summary(self) -> pd.DataFrame:
        """Summarise the scores as drawn.

        Returns
        -------
        pandas.DataFrame
            One row per curve and epsilon: ``curve, epsilon, x, y, x_error, y_error, dominated``; the baseline has an
            infinite epsilon. A point is dominated if another one is at least as good in both scores, and better in one.

        Raises
        ------
        TypeError, ValueError
            If a curve lacks a column, a metric or the group, or an ideal is none.
        """
        # A single curve needs no name.
        curves = self.curves if isinstance(self.curves, Mapping) else {"": self.curves}
        if not curves:
            raise ValueError("curves must hold at least one curve")
        # How bad each point is in x and in y, so that less is better in both.
        losses = []
        points = pd.concat(
            itertools.starmap(self._points, curves.items()), ignore_index=True
        )
        for axis, metric in (("x", self.x), ("y", self.y)):
            losses.append(_loss(points[axis].to_numpy(float), self._ideal(metric)))
        loss: Any = np.stack(losses, axis=1)  # (n_points, 2)
        # Entry i, j: whether point j is better than point i, here in either score.
        is_as_good = (loss <= loss[:, np.newaxis]).all(axis=2)
        is_better = (loss < loss[:, np.newaxis]).any(axis=2)
        return points.assign(dominated=(is_as_good & is_better).any(axis=1))

    def _points(self, name: Any, curve: Any) -> pd.DataFrame:
        """Compute the mean and the standard error of both scores at each epsilon."""
        check_curve(curve, sizes=True)
        scores = rows_of_group(curve, self.group)
        metrics = set(scores["metric"])
        for metric in (self.x, self.y):
            if metric not in metrics:
                known_metrics = sorted(set(curve["metric"]))
                raise ValueError(
                    f"a curve has no scores {metric!r} of the group {self.group!r}; "
                    f"it has {known_metrics}"
                )
        rows = []
        for epsilon, part in scores.groupby("epsilon"):
            row = {"curve": name, "epsilon": epsilon}
            for axis, metric in (("x", self.x), ("y", self.y)):
                # Scores that are undefined on a split are left out, as in the curve.
                is_used = (part["metric"] == metric) & np.isfinite(part["value"])
                row[axis] = part.loc[is_used, "value"].mean()
                row[f"{axis}_error"] = corrected_error(part[is_used])
            rows.append(row)
        columns = ["curve", "epsilon", "x", "y", "x_error", "y_error"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self, *, ax: Axes | None = None) -> ParetoDisplay:
        """Draw the scores.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on. By default those of a new figure.

        Returns
        -------
        ParetoDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, a curve lacks something, or there is more than one panel.
        """
        summary = self.summary()
        import_pyplot()
        (axes,) = self._use_panels(
            ax, 1, "", lambda: new_grid(1, width=5.5, height=4.0, margin=0.4)
        )
        handles = []
        for place, (name, points) in enumerate(summary.groupby("curve", sort=False)):
            style = series_style(place)
            _draw_points(axes, points.sort_values("epsilon"), style)
            if name:
                handles.append(legend_entry(str(name), **style))
        handles.append(
            legend_entry("epsilon, at its point", marker=r"$\epsilon$", ls="none")
        )
        if summary[["x_error", "y_error"]].notna().any(axis=None):
            handles.append(legend_entry("± 1 standard error", lw=0.8))
        if np.isinf(summary["epsilon"]).any():
            handles.append(legend_entry("without noise", marker="*", ms=9, ls="none"))
        if summary["dominated"].any():
            hollow = {"marker": "o", "mfc": "white", "ls": "none"}
            handles.append(legend_entry("another is better in both", **hollow))
        axes.set_xlabel(self._axis_label(self.x), parse_math=False)
        axes.set_ylabel(self._axis_label(self.y), parse_math=False)
        tidy_axes(axes)
        self._draw_legend(
            ax, handles, fontsize="small", loc="outside upper left", ncols=2
        )
        return self

    def _axis_label(self, metric: str) -> str:
        """Name a metric, and what is best of it."""
        ideal = self._ideal(metric)
        best = f"{ideal:g}" if isinstance(ideal, float) else ideal
        return f"{metric.replace('_', ' ')} ({best} is best)"

    def _ideal(self, metric: str) -> float | str:
        """Return what is best of a metric."""
        ideal: Any = (self.ideal or {}).get(metric)
        if ideal is None:
            if metric == "disparate_impact" or metric.endswith("ratio"):
                return 1.0
            # A difference between groups is best at 0, a ratio at 1, by the names that
            # aif360 and fairlearn give them.
            is_gap = metric in AIF360 or metric.endswith(("difference", "index"))
            return 0.0 if is_gap else "high"
        if isinstance(ideal, str) and ideal in ("high", "low"):
            return ideal
        is_number = isinstance(ideal, int | float) and not isinstance(ideal, bool)
        if not is_number or not math.isfinite(ideal):
            raise ValueError(
                f"ideal[{metric!r}] must be 'high', 'low' or a finite number, "
                f"got {ideal!r}"
            )
        return float(ideal)


def _draw_points(axes: Any, points: pd.DataFrame, style: dict[str, Any]) -> None:
    """Draw the points of a curve, and a line that joins them."""
    # A line joins the points in the order of epsilon: it shows what more privacy costs.
    colour = style["color"]
    private = points[np.isfinite(points["epsilon"])]
    axes.plot(private["x"], private["y"], color=colour, lw=1.0, alpha=0.6)
    for point in points.to_dict("records"):
        # The baseline has an infinite epsilon and a star; all others have the marker of
        # their curve, and their epsilon beside it.
        is_private = math.isfinite(point["epsilon"])
        marker = {"marker": style["marker"], "ms": 6}
        if not is_private:
            marker = {"marker": "*", "ms": 10}
        # A standard error of a single split is nan, and has no bar.
        bars = {}
        if not math.isnan(point["x_error"]):
            bars["xerr"] = point["x_error"]
        if not math.isnan(point["y_error"]):
            bars["yerr"] = point["y_error"]
        face = "white" if point["dominated"] else colour
        axes.errorbar(
            point["x"],
            point["y"],
            **bars,
            color=colour,
            elinewidth=0.8,
            mfc=face,
            **marker,
        )
        if is_private:
            axes.annotate(
                f"{point['epsilon']:g}",
                (point["x"], point["y"]),
                (4, 4),
                textcoords="offset points",
                fontsize=8,
            )


def _loss(values: Any, ideal: float | str) -> Any:
    """Return how bad values are: smaller is better."""
    if ideal == "high":
        return -values
    return values if ideal == "low" else np.abs(values - ideal)
