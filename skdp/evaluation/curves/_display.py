"""Plot of scores against epsilon."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp.base import AxesLike, ColumnLike, TableLike
from skdp.evaluation.curves._comparison import compare_to_baseline
from skdp.evaluation.curves._privacy_curve import privacy_curve
from skdp.evaluation.curves._scoring import ALL
from skdp.evaluation.curves._table import check_curve, groups_of, rows_of_group
from skdp.evaluation.displays import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    import_pyplot,
    interval_label,
    label_epsilons,
    new_grid,
    tidy_axes,
)

CurveKind = Literal["score", "difference"]
Band = Literal["auto", "std", "range"] | None

_BANDS = ("auto", "std", "range")
_LEVEL = 0.95
_MOST_LINES = 6
"""The lines of a panel that can be distinguished; with more groups, each has a panel."""
_GREY = "#999999"


class PrivacyCurveDisplay(PanelDisplay):
    """Plot of scores against epsilon, with a panel for each metric and a line for each group.

    It is recommended to use `from_estimator` or `from_curve` to create one. A line is the mean of all folds and
    repeats; a dashed one is the baseline, without noise. Scores that are not finite (a ratio to 0, a rate of no rows)
    are left out of mean and band; the legend and `summary` give their number. More than six groups have a panel each,
    with the line of all rows in grey.

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
        Its panels, one per metric, or per metric and group.

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
    >>> display = PrivacyCurveDisplay.from_curve(curve)
    >>> display.summary().round(3)
         metric group  epsilon   mean    low   high  n_undefined
    0  accuracy   all      1.0  0.625  0.618  0.632            0
    1  accuracy   all      4.0  0.685  0.678  0.692            0
    """

    def __init__(self, curve: pd.DataFrame) -> None:
        check_curve(curve)
        self.curve = curve

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: TableLike,
        y: ColumnLike,
        *,
        kind: CurveKind = "score",
        band: Band = "auto",
        ax: AxesLike | None = None,
        **options: Any,
    ) -> PrivacyCurveDisplay:
        """Compute the scores of an estimator and draw them.

        Parameters
        ----------
        estimator : estimator
            A model with a privatising step.
        X : dataframe or array of shape (n_samples, n_features)
            The true rows.
        y : array-like or series of shape (n_samples,)
            The true targets.
        kind, band, ax : optional
            See `plot`.
        **options : dict
            ``param_name``, ``epsilons`` and the other parameters of `privacy_curve`.

        Returns
        -------
        PrivacyCurveDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or as raised by `privacy_curve` or `plot`.
        """
        import_pyplot()  # before anything is fitted
        _check_options(kind, band)
        return cls(privacy_curve(estimator, X, y, **options)).plot(
            kind=kind, band=band, ax=ax
        )

    @classmethod
    def from_curve(
        cls,
        curve: pd.DataFrame,
        *,
        kind: CurveKind = "score",
        band: Band = "auto",
        ax: AxesLike | None = None,
    ) -> PrivacyCurveDisplay:
        """Draw scores that were computed before.

        Parameters
        ----------
        curve : pandas.DataFrame
            The result of `privacy_curve`.
        kind, band, ax : optional
            See `plot`.

        Returns
        -------
        PrivacyCurveDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or as raised by `plot`.
        """
        return cls(curve).plot(kind=kind, band=band, ax=ax)

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
        _check_options(kind, band)
        check_curve(self.curve)
        if kind == "score":
            return _summarise(self.curve, self._band(kind, band))
        found = compare_to_baseline(self.curve, confidence_level=_LEVEL)
        found["n_undefined"] = len(
            self.curve[["repeat", "fold"]].drop_duplicates()
        ) - found.pop("n_pairs")
        if band is None:
            found[["lower", "upper"]] = math.nan
        names = {"difference": "mean", "lower": "low", "upper": "high"}
        return found.drop(columns="std_error").rename(columns=names)

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
            The axes to draw on, one for each metric, or for each metric and group if there are more than six groups. By
            default those of a new figure.

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
        metrics, groups = list(dict.fromkeys(summary["metric"])), groups_of(self.curve)
        each = len(groups) > _MOST_LINES
        parts = list(
            itertools.product(
                metrics, [[group] for group in groups] if each else [groups]
            )
        )
        size: dict[str, Any] = (
            {"width": 2.4, "height": 2.0, "across": 6}
            if each
            else {"width": 4.0, "height": 3.2}
        )
        kinds = ", one for each metric and group" if each else ", one for each metric"
        panels = self._use_panels(
            ax, len(parts), kinds, lambda: new_grid(len(parts), margin=0.6, **size)
        )
        for panel, (metric, drawn) in zip(panels, parts, strict=True):
            own = summary[summary["metric"] == metric]
            self._draw(panel, own, groups, drawn)
            title = [
                metric.replace("_", " "),
                *(_group_label(group) for group in drawn if each),
            ]
            panel.set_title(
                "\n".join(title),
                loc="left",
                fontsize=9 if each else 11,
                parse_math=False,
            )
            if each:
                panel.set_xlabel("epsilon")
            if kind == "difference":
                panel.axhline(0, color=INK, ls="--", lw=1.2, zorder=1)
                panel.set_ylabel("difference" if each else "difference from no noise")
        if each:
            _share_scales(panels, [metric for metric, _ in parts])
        self._explain(ax, summary, kind, band, each=each)
        return self

    def _draw(
        self, axes: Any, summary: pd.DataFrame, groups: list[Any], drawn: list[Any]
    ) -> None:
        finite = summary[np.isfinite(summary["epsilon"])]
        if (
            groups[0] == ALL and drawn[0] != ALL
        ):  # for comparison, in a panel of one group
            line = rows_of_group(finite, ALL).sort_values("epsilon")
            axes.plot(line["epsilon"], line["mean"], lw=1.2, color=_GREY)
        for place, group in enumerate(drawn):
            line = rows_of_group(finite, group).sort_values("epsilon")
            style = _style(place)
            axes.plot(line["epsilon"], line["mean"], lw=1.6, ms=5, **style)
            axes.fill_between(
                line["epsilon"],
                line["low"],
                line["high"],
                color=style["color"],
                alpha=0.18,
                lw=0,
            )
            for level in rows_of_group(summary[np.isinf(summary["epsilon"])], group)[
                "mean"
            ].dropna():
                axes.axhline(level, color=style["color"], ls="--", lw=1.2, zorder=1)
        epsilons = sorted(finite["epsilon"].unique())
        label_epsilons(axes, epsilons)
        if not finite["mean"].notna().any():
            axes.set_xlim(epsilons[0] / 1.2, epsilons[-1] * 1.2)
            axes.set_yticks([])
            axes.text(
                0.5,
                0.5,
                "no finite score",
                transform=axes.transAxes,
                ha="center",
                va="center",
                color=INK,
            )
        tidy_axes(axes)

    def _explain(
        self, ax: Any, summary: pd.DataFrame, kind: str, band: str | None, *, each: bool
    ) -> None:
        """Draw the legend: above all panels, or in the first of the given ones."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        groups = ["the group", ALL] if each else groups_of(self.curve)
        handles: list[Any] = [
            Line2D([], [], label=_group_label(group), lw=1.6, ms=5, **_style(place))
            for place, group in enumerate(groups[:1] if each else groups)
        ]
        if each:
            handles.append(Line2D([], [], label=_group_label(ALL), lw=1.2, color=_GREY))
        if np.isinf(summary["epsilon"]).any() or kind == "difference":
            handles.append(
                Line2D([], [], color=INK, ls="--", lw=1.2, label="without noise")
            )
        shown = self._band(kind, band)
        if shown is not None and (summary["high"] > summary["low"]).any():
            handles.append(
                Patch(color=INK, alpha=0.18, lw=0, label=self._band_label(shown))
            )
        undefined = summary["n_undefined"].sum()
        if undefined:
            things = "scores" if kind == "score" else "scores and baselines"
            text = f"without {undefined} of {len(self.curve)} {things}, not finite"
            handles.append(Line2D([], [], ls="none", label=text))
        labels = [handle.get_label() for handle in handles]
        self._draw_legend(
            ax,
            handles,
            labels,
            inside={"fontsize": "small"},
            loc="outside upper left",
            ncols=3,
        )

    def _band_label(self, band: str) -> str:
        if band == "interval":
            return interval_label(_LEVEL)
        repeats, folds = self.curve["repeat"].nunique(), self.curve["fold"].nunique()
        if band == "std":
            return f"± 1 standard deviation over {repeats} repeats"
        times = f" × {repeats} repeats" if repeats > 1 else ""
        return f"lowest to highest of {folds} folds{times}"

    def _band(self, kind: str, band: str | None) -> str | None:
        """Return what the band shows."""
        if kind == "difference" and band is not None:
            return "interval"
        if band != "auto":
            return band
        return "std" if self.curve["repeat"].nunique() > 1 else "range"


def _share_scales(panels: list[Any], metrics: list[str]) -> None:
    """Give the panels of a metric one scale."""
    for metric in dict.fromkeys(metrics):
        own = [
            panel for panel, name in zip(panels, metrics, strict=True) if name == metric
        ]
        ends = np.array([panel.get_ylim() for panel in own])
        for panel in own:
            panel.set_ylim(ends[:, 0].min(), ends[:, 1].max())


def _group_label(group: Any) -> str:
    if group == ALL:
        return "everybody"
    return ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def _style(place: int) -> dict[str, Any]:
    turns, colour = divmod(place, len(COLOURS))
    return {
        "color": COLOURS[colour],
        "marker": MARKERS[(colour + turns) % len(MARKERS)],
    }


def _check_options(kind: Any, band: Any) -> None:
    if not isinstance(kind, str) or kind not in get_args(CurveKind):
        raise ValueError(f"kind must be 'score' or 'difference', got {kind!r}")
    if band is not None and (not isinstance(band, str) or band not in _BANDS):
        raise ValueError(f"band must be 'auto', 'std', 'range' or None, got {band!r}")


def _summarise(curve: pd.DataFrame, band: str | None) -> pd.DataFrame:
    rows = []
    for metric, group in itertools.product(
        dict.fromkeys(curve["metric"]), groups_of(curve)
    ):
        part = rows_of_group(curve[curve["metric"] == metric], group)
        for epsilon, scores in part.groupby("epsilon", dropna=False):
            known = scores[np.isfinite(scores["value"])]
            ends = _ends(known, band)
            rows.append(
                (
                    metric,
                    group,
                    epsilon,
                    known["value"].mean(),
                    *ends,
                    len(scores) - len(known),
                )
            )
    return pd.DataFrame(
        rows,
        columns=["metric", "group", "epsilon", "mean", "low", "high", "n_undefined"],
    )


def _ends(part: pd.DataFrame, kind: str | None) -> tuple[float, float]:
    """Return the ends of a band around the mean of some scores, nan if there is none."""
    repeats = part.groupby("repeat")["value"].mean()
    if kind == "range" and len(part):
        return part["value"].min(), part["value"].max()
    if kind == "std" and len(repeats) > 1:
        return part["value"].mean() - repeats.std(), part[
            "value"
        ].mean() + repeats.std()
    return math.nan, math.nan
