"""Plot of one score against another over epsilons, such as accuracy and fairness."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from skdp.evaluation.curves._comparison import corrected_error
from skdp.evaluation.curves._scoring import AIF360, ALL
from skdp.evaluation.curves._table import check_curve, rows_of_group
from skdp.evaluation.displays import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    import_pyplot,
    new_grid,
    tidy_axes,
)

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

Ideal = float | Literal["high", "low"]

_FOUND = ["curve", "epsilon", "x", "y", "x_error", "y_error", "dominated"]


class ParetoDisplay(PanelDisplay):
    """Plot of two scores against each other: what is lost of one to gain the other, and at which epsilon.

    A point is an epsilon of a curve, with one standard error to each side; a line joins the points of a curve in the
    order of epsilon, and a star is the baseline. A point is filled unless another one, of any curve, is better in both
    scores. It is recommended to use `from_curves` to create one.

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
    >>> display = ParetoDisplay.from_curves(pd.DataFrame(rows, columns=names), x="parity_difference", y="accuracy")
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

    @classmethod
    def from_curves(
        cls,
        curves: pd.DataFrame | Mapping[str, pd.DataFrame],
        *,
        x: str,
        y: str,
        ax: Axes | None = None,
        **options: Any,
    ) -> ParetoDisplay:
        """Draw the scores of one or several curves.

        Parameters
        ----------
        curves, x, y : object
            See the class.
        ax : matplotlib Axes, optional
            See `plot`.
        **options : dict
            ``group`` and ``ideal``.

        Returns
        -------
        ParetoDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, a curve lacks a column, a metric or the group, or an ideal is none.
        """
        return cls(curves, x=x, y=y, **options).plot(ax=ax)

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
        curves = self.curves if isinstance(self.curves, Mapping) else {"": self.curves}
        if not curves:
            raise ValueError("curves must hold at least one curve")
        ideals = [_ideal(metric, dict(self.ideal or {})) for metric in (self.x, self.y)]
        rows = [
            row for name, curve in curves.items() for row in self._points(name, curve)
        ]
        found = pd.DataFrame(rows, columns=_FOUND[:-1])
        losses = np.stack(
            [
                _loss(found[axis], ideal)
                for axis, ideal in zip("xy", ideals, strict=True)
            ],
            axis=1,
        )
        beaten = [
            bool(((losses <= own).all(axis=1) & (losses < own).any(axis=1)).any())
            for own in losses
        ]
        return found.assign(dominated=beaten)

    def _points(self, name: Any, curve: Any) -> list[tuple[Any, ...]]:
        check_curve(curve, sizes=True)
        own = rows_of_group(curve, self.group)
        rows = []
        for metric in (self.x, self.y):
            if metric not in set(own["metric"]):
                known = sorted(set(curve["metric"]))
                raise ValueError(
                    f"a curve has no scores {metric!r} of the group {self.group!r}; it has {known}"
                )
        for epsilon, part in own.groupby("epsilon"):
            scores = [part[part["metric"] == metric] for metric in (self.x, self.y)]
            known = [one[np.isfinite(one["value"])] for one in scores]
            means, errors = (
                [one["value"].mean() for one in known],
                [corrected_error(one) for one in known],
            )
            rows.append((name, epsilon, *means, *errors))
        return rows

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
        from matplotlib.lines import Line2D

        handles = []
        for place, (name, points) in enumerate(summary.groupby("curve", sort=False)):
            colour, marker = (
                COLOURS[place % len(COLOURS)],
                MARKERS[place % len(MARKERS)],
            )
            self._draw(axes, points.sort_values("epsilon"), colour, marker)
            if name:
                handles.append(
                    Line2D([], [], color=colour, marker=marker, label=str(name))
                )
        handles.append(
            Line2D(
                [],
                [],
                color=INK,
                marker=r"$\epsilon$",
                ls="none",
                label="epsilon, at its point",
            )
        )
        if summary[["x_error", "y_error"]].notna().any(axis=None):
            handles.append(
                Line2D([], [], color=INK, lw=0.8, label="± 1 standard error")
            )
        if np.isinf(summary["epsilon"]).any():
            handles.append(
                Line2D(
                    [],
                    [],
                    color=INK,
                    marker="*",
                    ms=9,
                    ls="none",
                    label="without noise",
                )
            )
        if summary["dominated"].any():
            handles.append(
                Line2D(
                    [],
                    [],
                    color=INK,
                    marker="o",
                    mfc="white",
                    ls="none",
                    label="another is better in both",
                )
            )
        for set_label, metric in ((axes.set_xlabel, self.x), (axes.set_ylabel, self.y)):
            wanted = _ideal(metric, dict(self.ideal or {}))
            set_label(
                f"{metric.replace('_', ' ')} ({f'{wanted:g}' if isinstance(wanted, float) else wanted} is best)",
                parse_math=False,
            )
        tidy_axes(axes)
        labels = [handle.get_label() for handle in handles]
        self._draw_legend(
            ax,
            handles,
            labels,
            inside={"fontsize": "small"},
            loc="outside upper left",
            ncols=2,
        )
        return self

    def _draw(self, axes: Any, points: pd.DataFrame, colour: str, marker: str) -> None:
        finite = points[np.isfinite(points["epsilon"])]
        axes.plot(finite["x"], finite["y"], color=colour, lw=1.0, alpha=0.6)
        columns = [points[name].tolist() for name in _FOUND[1:]]
        for epsilon, x, y, x_error, y_error, dominated in zip(*columns, strict=True):
            style = (
                {"marker": "*", "ms": 10}
                if math.isinf(epsilon)
                else {"marker": marker, "ms": 6}
            )
            bars = {
                name: error
                for name, error in (("xerr", x_error), ("yerr", y_error))
                if not math.isnan(error)
            }
            face = "white" if dominated else colour
            axes.errorbar(x, y, **bars, color=colour, elinewidth=0.8, mfc=face, **style)
            if math.isfinite(epsilon):
                axes.annotate(
                    f"{epsilon:g}",
                    (x, y),
                    (4, 4),
                    textcoords="offset points",
                    fontsize=8,
                )


def _ideal(metric: str, given: Mapping[str, Any]) -> float | str:
    """Return what is best of a metric."""
    wanted = given.get(metric)
    if wanted is None:
        if metric == "disparate_impact" or metric.endswith("ratio"):
            return 1.0
        return (
            0.0
            if metric in AIF360 or metric.endswith(("difference", "index"))
            else "high"
        )
    if isinstance(wanted, str) and wanted in ("high", "low"):
        return wanted
    if (
        isinstance(wanted, str | bool)
        or not isinstance(wanted, int | float)
        or not math.isfinite(wanted)
    ):
        raise ValueError(
            f"ideal[{metric!r}] must be 'high', 'low' or a finite number, got {wanted!r}"
        )
    return float(wanted)


def _loss(
    values: pd.Series, ideal: float | str
) -> np.ndarray[Any, np.dtype[np.float64]]:
    numbers = values.to_numpy(float)
    if isinstance(ideal, str):
        return -numbers if ideal == "high" else numbers
    return np.abs(numbers - ideal)
