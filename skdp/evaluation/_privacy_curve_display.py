"""Scores against epsilon, drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation._curve_scoring import ALL
from skdp.evaluation._drawing import COLOURS, INK, MARKERS, import_pyplot, label_epsilons, tidy_axes
from skdp.evaluation._privacy_curve import COLUMNS, privacy_curve

_PANELS_A_ROW = 3
_BANDS = ("auto", "std", "range", None)


class PrivacyCurveDisplay:
    """Scores against epsilon: a panel for each metric, a line for each group.

    It is recommended to use `from_estimator` or `from_curve` to create one. A line is the mean of all folds and
    repeats; a dashed one that of the baseline, without noise. A mean over a score that is not a number is none, and is
    not drawn.

    Parameters
    ----------
    curve : pandas.DataFrame
        What `privacy_curve` returned: the columns ``epsilon, repeat, fold, metric, group, value``.

    Attributes
    ----------
    curve : pandas.DataFrame
        The scores.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels, one for each metric.

    See Also
    --------
    privacy_curve : The scores.

    Notes
    -----
    **Privacy.** Scores are computed from true rows, and are not protected.

    The band is no confidence interval. Folds share most of their training rows, and repeats share all rows, so the
    scatter of the scores tells how far coins and splits move a score on this table, and less than how far another table
    would.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [(epsilon, repeat, 0, "accuracy", "all", 0.6 + 0.02 * epsilon + 0.01 * repeat)
    ...         for epsilon in (1.0, 4.0) for repeat in (0, 1)]
    >>> curve = pd.DataFrame(rows, columns=["epsilon", "repeat", "fold", "metric", "group", "value"])
    >>> display = PrivacyCurveDisplay.from_curve(curve)
    >>> display.summary().round(3)
         metric group  epsilon   mean    low   high
    0  accuracy   all      1.0  0.625  0.618  0.632
    1  accuracy   all      4.0  0.685  0.678  0.692
    """

    def __init__(self, curve: pd.DataFrame) -> None:
        self.curve = curve

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, band: str | None = "auto", ax: Any = None, **options: Any
    ) -> PrivacyCurveDisplay:
        """Compute the scores of an estimator, and draw them.

        Parameters
        ----------
        estimator : estimator
            A model with a privatising step.
        X : dataframe or array of shape (n_samples, n_features)
            The true rows.
        y : array-like or series of shape (n_samples,)
            The true targets.
        band : {"auto", "std", "range"} or None, default="auto"
            See `plot`.
        ax : matplotlib Axes or array-like of them, optional
            See `plot`.
        **options : dict
            ``param_name``, ``epsilons`` and the other parameters of `privacy_curve`.

        Returns
        -------
        PrivacyCurveDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            By `privacy_curve` or `plot`.
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
            What `privacy_curve` returned.
        band : {"auto", "std", "range"} or None, default="auto"
            See `plot`.
        ax : matplotlib Axes or array-like of them, optional
            See `plot`.

        Returns
        -------
        PrivacyCurveDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            By `plot`.
        """
        return cls(curve).plot(band=band, ax=ax)

    def summary(self, *, band: str | None = "auto") -> pd.DataFrame:
        """Summarise the scores as they are drawn.

        Parameters
        ----------
        band : {"auto", "std", "range"} or None, default="auto"
            See `plot`.

        Returns
        -------
        pandas.DataFrame
            A row for each metric, group and epsilon, with the columns ``metric, group, epsilon, mean, low, high``; the
            baseline has an infinite epsilon. Low and high are the ends of the band, nan without one.

        Raises
        ------
        TypeError, ValueError
            If the curve lacks a column or a row, or there is no such band.
        """
        _check_band(band)
        _check_curve(self.curve)
        kind = self._kind(band)
        keys = ["metric", "group", "epsilon"]
        rows = []
        for key, part in self.curve.groupby(keys, sort=False, dropna=False):
            repeats = part.groupby("repeat")["value"].agg(_mean)
            mean = _mean(part["value"])
            low = high = math.nan
            if kind == "range":
                low, high = part["value"].to_numpy().min(), part["value"].to_numpy().max()
            elif kind == "std" and len(repeats) > 1 and np.isfinite(repeats).all():
                low, high = mean - repeats.std(), mean + repeats.std()
            rows.append((*key, mean, low, high))
        table = pd.DataFrame(rows, columns=[*keys, "mean", "low", "high"])
        order = {name: place for place, name in enumerate(dict.fromkeys(self.curve["metric"]))}
        places = {group: place for place, group in enumerate(self._groups())}
        sorting = table.assign(metric=table["metric"].map(order), group=table["group"].map(places))
        return table.loc[sorting.sort_values(keys, kind="stable").index].reset_index(drop=True)

    def plot(self, *, band: str | None = "auto", ax: Any = None) -> PrivacyCurveDisplay:
        """Draw the scores.

        Parameters
        ----------
        band : {"auto", "std", "range"} or None, default="auto"
            What is shaded around a line: one standard deviation, over the repeats, of the mean over the folds to either
            side; or from the lowest to the highest of all scores; or nothing. By default the standard deviation where
            there are several repeats, and the range otherwise. The legend says which.
        ax : matplotlib Axes or array-like of them, optional
            Where to draw: one panel for each metric. By default in a new figure.

        Returns
        -------
        PrivacyCurveDisplay
            The display itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If the curve lacks a column or a row, there is no such band, or there are too many or too few panels.
        """
        summary = self.summary(band=band)
        pyplot = import_pyplot()
        metrics = list(dict.fromkeys(summary["metric"]))
        panels = _new_panels(pyplot, len(metrics)) if ax is None else list(np.ravel(ax))
        if len(panels) != len(metrics):
            raise ValueError(f"ax must have {len(metrics)} panels, one for each metric, got {len(panels)}")
        self.axes_, self.figure_ = np.array(panels, dtype=object), panels[0].figure
        for panel, metric in zip(panels, metrics, strict=True):
            self._draw(panel, summary[summary["metric"] == metric])
            panel.set_title(metric.replace("_", " "), loc="left", fontsize=11)
        self._explain(self.figure_ if ax is None else panels[0], summary, band)
        return self

    def _draw(self, axes: Any, summary: pd.DataFrame) -> None:
        finite = summary[np.isfinite(summary["epsilon"])]
        for place, group in enumerate(self._groups()):
            line = finite[finite["group"] == group].sort_values("epsilon")
            style = _style(place)
            axes.plot(line["epsilon"], line["mean"], lw=1.6, ms=5, **style)
            axes.fill_between(line["epsilon"], line["low"], line["high"], color=style["color"], alpha=0.18, lw=0)
            for level in summary.loc[np.isinf(summary["epsilon"]) & (summary["group"] == group), "mean"]:
                axes.axhline(level, color=style["color"], ls="--", lw=1.2, zorder=1)
        label_epsilons(axes, sorted(finite["epsilon"].unique()))
        tidy_axes(axes)

    def _explain(self, owner: Any, summary: pd.DataFrame, band: str | None) -> None:
        """Say what lines and bands are: once, above all panels, or in the first of those that were given."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        names = {ALL: "everybody"}
        handles: list[Any] = [
            Line2D([], [], label=names.get(group, str(group)), lw=1.6, ms=5, **_style(place))
            for place, group in enumerate(self._groups())
        ]
        if np.isinf(summary["epsilon"]).any():
            handles.append(Line2D([], [], color=INK, ls="--", lw=1.2, label="without noise"))
        kind = self._kind(band)
        if kind is not None:
            handles.append(Patch(color=INK, alpha=0.18, lw=0, label=self._band_label(kind)))
        above = {"loc": "outside upper left", "ncols": 3} if hasattr(owner, "add_gridspec") else {"fontsize": "small"}
        owner.legend(handles=handles, frameon=False, **above)

    def _band_label(self, kind: str) -> str:
        repeats, folds = self.curve["repeat"].nunique(), self.curve["fold"].nunique()
        if kind == "std":
            return f"± 1 standard deviation over {repeats} repeats"
        times = f" × {repeats} repeats" if repeats > 1 else ""
        return f"lowest to highest of {folds} folds{times}"

    def _kind(self, band: str | None) -> str | None:
        """Choose what "auto" stands for."""
        if band != "auto":
            return band
        return "std" if self.curve["repeat"].nunique() > 1 else "range"

    def _groups(self) -> list[Any]:
        """List the groups, everybody first."""
        groups = list(dict.fromkeys(self.curve["group"]))
        return sorted(groups, key=lambda group: group != ALL)


def _mean(values: pd.Series) -> float:
    """Return the mean, nan if one is nan: that of the others would be a mean over fewer cases, and look like all."""
    with np.errstate(invalid="ignore"):  # of two infinite ones
        return float(np.mean(values.to_numpy()))


def _style(place: int) -> dict[str, Any]:
    """Return a colour and a marker of a group's own."""
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
    if not np.isfinite(curve["epsilon"]).any():
        raise ValueError("curve must have rows of a finite epsilon")


def _new_panels(pyplot: Any, number: int) -> list[Any]:
    across = min(number, _PANELS_A_ROW)
    down = math.ceil(number / across)
    size = max(4 * across, 5.5), 3.2 * down + 0.6
    axes = pyplot.subplots(down, across, figsize=size, layout="constrained", squeeze=False)[1]
    panels = list(axes.ravel())
    for unused in panels[number:]:
        unused.remove()
    return panels[:number]
