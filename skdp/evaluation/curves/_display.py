"""Plot of scores against epsilon."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.curves._privacy_curve import COLUMNS, privacy_curve
from skdp.evaluation.curves._scoring import ALL
from skdp.evaluation.displays import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    check_table,
    import_pyplot,
    label_epsilons,
    new_grid,
    tidy_axes,
)

_BANDS = ("auto", "std", "range", None)


class PrivacyCurveDisplay(PanelDisplay):
    """Plot of scores against epsilon, with a panel for each metric and a line for each group.

    It is recommended to use `from_estimator` or `from_curve` to create one. A line is the mean of all folds and
    repeats; a dashed one is the baseline, without noise. Scores that are not finite (a ratio to 0, a rate of no rows)
    are left out of mean and band; the legend and `summary` give their number.

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

    Notes
    -----
    **Privacy.** Scores are computed from true rows and are not protected.

    The band is not a confidence interval: as folds and repeats share rows, it shows the effect of randomness and splits
    on this table, not of the draw of the table.

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
        _check_curve(curve)
        self.curve = curve

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, band: str | None = "auto", ax: Any = None, **options: Any
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
        band, ax : optional
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
        _check_band(band)
        return cls(privacy_curve(estimator, X, y, **options)).plot(band=band, ax=ax)

    @classmethod
    def from_curve(cls, curve: pd.DataFrame, *, band: str | None = "auto", ax: Any = None) -> PrivacyCurveDisplay:
        """Draw scores that were computed before.

        Parameters
        ----------
        curve : pandas.DataFrame
            The result of `privacy_curve`.
        band, ax : optional
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
        return cls(curve).plot(band=band, ax=ax)

    def summary(self, *, band: str | None = "auto") -> pd.DataFrame:
        """Summarise the scores as drawn.

        Parameters
        ----------
        band : {"auto", "std", "range"} or None, default="auto"
            See `plot`.

        Returns
        -------
        pandas.DataFrame
            One row per metric, group and epsilon, with the columns ``metric, group, epsilon, mean, low, high,
            n_undefined``; the baseline has an infinite epsilon. Low and high are the ends of the band, nan without one.
            ``n_undefined`` is the number of scores that are not finite, which are left out of the others.

        Raises
        ------
        TypeError, ValueError
            If the curve lacks a column or a row, or `band` is unknown.
        """
        _check_band(band)
        _check_curve(self.curve)
        return _summarise(self.curve, self._kind(band))

    def plot(self, *, band: str | None = "auto", ax: Any = None) -> PrivacyCurveDisplay:
        """Draw the scores.

        Parameters
        ----------
        band : {"auto", "std", "range"} or None, default="auto"
            The shaded band around a line: one standard deviation, over the repeats, of the mean over the folds to
            either side; or from the lowest to the highest of all scores; or nothing. By default the standard deviation
            if there are several repeats, and the range otherwise. The legend states which.
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on, one for each metric. By default those of a new figure.

        Returns
        -------
        PrivacyCurveDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the curve lacks a column or a row, `band` is unknown, or the number of
            panels is wrong.
        """
        summary = self.summary(band=band)
        import_pyplot()
        metrics = list(dict.fromkeys(summary["metric"]))
        sizes = {"width": 4.0, "height": 3.2, "margin": 0.6}
        panels = self._use_panels(ax, len(metrics), ", one for each metric", lambda: new_grid(len(metrics), **sizes))
        for panel, metric in zip(panels, metrics, strict=True):
            self._draw(panel, summary[summary["metric"] == metric])
            panel.set_title(metric.replace("_", " "), loc="left", fontsize=11, parse_math=False)
        self._explain(ax, summary, band)
        return self

    def _draw(self, axes: Any, summary: pd.DataFrame) -> None:
        finite = summary[np.isfinite(summary["epsilon"])]
        for place, group in enumerate(_groups_of(self.curve)):
            line = _of_group(finite, group).sort_values("epsilon")
            style = _style(place)
            axes.plot(line["epsilon"], line["mean"], lw=1.6, ms=5, **style)
            axes.fill_between(line["epsilon"], line["low"], line["high"], color=style["color"], alpha=0.18, lw=0)
            for level in _of_group(summary[np.isinf(summary["epsilon"])], group)["mean"].dropna():
                axes.axhline(level, color=style["color"], ls="--", lw=1.2, zorder=1)
        epsilons = sorted(finite["epsilon"].unique())
        label_epsilons(axes, epsilons)
        if not finite["mean"].notna().any():
            axes.set_xlim(epsilons[0] / 1.2, epsilons[-1] * 1.2)
            axes.set_yticks([])
            axes.text(0.5, 0.5, "no finite score", transform=axes.transAxes, ha="center", va="center", color=INK)
        tidy_axes(axes)

    def _explain(self, ax: Any, summary: pd.DataFrame, band: str | None) -> None:
        """Draw the legend: above all panels, or in the first of the given ones."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = [
            Line2D([], [], label=_group_label(group), lw=1.6, ms=5, **_style(place))
            for place, group in enumerate(_groups_of(self.curve))
        ]
        if np.isinf(summary["epsilon"]).any():
            handles.append(Line2D([], [], color=INK, ls="--", lw=1.2, label="without noise"))
        kind = self._kind(band)
        if kind is not None and (summary["high"] > summary["low"]).any():
            handles.append(Patch(color=INK, alpha=0.18, lw=0, label=self._band_label(kind)))
        undefined = summary["n_undefined"].sum()
        if undefined:
            text = f"without {undefined} of {len(self.curve)} scores, not finite"
            handles.append(Line2D([], [], ls="none", label=text))
        labels = [handle.get_label() for handle in handles]
        self._draw_legend(ax, handles, labels, inside={"fontsize": "small"}, loc="outside upper left", ncols=3)

    def _band_label(self, kind: str) -> str:
        repeats, folds = self.curve["repeat"].nunique(), self.curve["fold"].nunique()
        if kind == "std":
            return f"± 1 standard deviation over {repeats} repeats"
        times = f" × {repeats} repeats" if repeats > 1 else ""
        return f"lowest to highest of {folds} folds{times}"

    def _kind(self, band: str | None) -> str | None:
        """Resolve "auto"."""
        if band != "auto":
            return band
        return "std" if self.curve["repeat"].nunique() > 1 else "range"


def _of_group(table: pd.DataFrame, group: Any) -> pd.DataFrame:
    """Select rows; pandas would treat a group of several columns as a list of groups."""
    return table[np.array([one is group or one == group for one in table["group"]], bool)]


def _group_label(group: Any) -> str:
    if group == ALL:
        return "everybody"
    return ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def _style(place: int) -> dict[str, Any]:
    turns, colour = divmod(place, len(COLOURS))
    return {"color": COLOURS[colour], "marker": MARKERS[(colour + turns) % len(MARKERS)]}


def _check_band(band: Any) -> None:
    if band is not None and (not isinstance(band, str) or band not in _BANDS):
        raise ValueError(f"band must be 'auto', 'std', 'range' or None, got {band!r}")


def _check_curve(curve: Any) -> None:
    if not isinstance(curve, pd.DataFrame):
        raise TypeError(f"curve must be a pandas DataFrame, got {type(curve).__name__}")
    missing: Iterable[str] = [name for name in COLUMNS if name not in curve.columns]
    if missing:
        raise ValueError(f"curve lacks the columns {missing}")
    check_table(curve, "curve", COLUMNS, numbers=("epsilon", "value"))
    if not np.isfinite(curve["epsilon"]).any():
        raise ValueError("curve must have rows of a finite epsilon")


def _summarise(curve: pd.DataFrame, band: str | None) -> pd.DataFrame:
    rows = []
    for metric, group in itertools.product(dict.fromkeys(curve["metric"]), _groups_of(curve)):
        part = _of_group(curve[curve["metric"] == metric], group)
        for epsilon, scores in part.groupby("epsilon", dropna=False):
            known = scores[np.isfinite(scores["value"])]
            ends = _ends(known, band)
            rows.append((metric, group, epsilon, known["value"].mean(), *ends, len(scores) - len(known)))
    return pd.DataFrame(rows, columns=["metric", "group", "epsilon", "mean", "low", "high", "n_undefined"])


def _groups_of(curve: pd.DataFrame) -> list[Any]:
    return sorted(dict.fromkeys(curve["group"]), key=lambda group: group != ALL)


def _ends(part: pd.DataFrame, kind: str | None) -> tuple[float, float]:
    """Return the ends of a band around the mean of some scores, nan if there is none."""
    repeats = part.groupby("repeat")["value"].mean()
    if kind == "range" and len(part):
        return part["value"].min(), part["value"].max()
    if kind == "std" and len(repeats) > 1:
        return part["value"].mean() - repeats.std(), part["value"].mean() + repeats.std()
    return math.nan, math.nan
