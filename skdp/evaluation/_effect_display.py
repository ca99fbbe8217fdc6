"""Figure of the effects of an analysis of counts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skdp._arrays import AxesLike
from skdp.base import check_flag
from skdp.evaluation._privacy_curve import check_table
from skdp.evaluation.displays import (
    COLORS,
    INK,
    PanelDisplay,
    draw_plain_text,
    format_label,
    label_rows,
    tidy_axes,
)


class EffectDisplay(PanelDisplay):
    """Forest plot of effects with intervals, with a row for each term.

    Use `from_estimates` to create the display. The row of a term without an interval states so.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Result of `regression_from_counts`, `hazards_from_counts`, `standardize_from_counts` or
        `compare_survival_from_counts`, or some of its rows.
    exponentiate : bool, default=False
        If True, estimates are logarithms of ratios, and their ratios are drawn on a logarithmic axis: odds ratios and
        hazard ratios.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panel.
    figure_ : matplotlib Figure
        Figure containing the panel.

    See Also
    --------
    skdp.metrics.regression_from_counts : Compute the effects.

    Notes
    -----
    **Privacy.** The effects are functions of released counts. The figure is post-processing.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPHistogram
    >>> from skdp.evaluation import EffectDisplay
    >>> from skdp.metrics import regression_from_counts
    >>> rows = pd.DataFrame({"ward": [*"AABB"] * 100, "ill": [True, False, True, True] * 100})
    >>> domain = {"ward": ["A", "B"], "ill": [False, True]}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(rows).to_frame()
    >>> table = regression_from_counts(counts, "ill", "ward")
    >>> display = EffectDisplay.from_estimates(table.iloc[:1], exponentiate=True)
    >>> display.ax_[0].get_xlabel()
    'ratio'
    """

    def __init__(self, estimates: pd.DataFrame, *, exponentiate: bool = False) -> None:
        numbers = ("estimate", "lower", "upper")
        check_table(estimates, "estimates", ("term", *numbers), numbers=numbers)
        if not len(estimates):
            raise ValueError("`estimates` must have at least one row, got none.")
        check_flag("exponentiate", exponentiate)
        self.estimates = estimates
        self.exponentiate = exponentiate

    @classmethod
    def from_estimates(
        cls,
        estimates: pd.DataFrame,
        *,
        exponentiate: bool = False,
        ax: AxesLike | None = None,
    ) -> EffectDisplay:
        """Plot the effects of an analysis of counts.

        Parameters
        ----------
        estimates : pandas.DataFrame
            Result of an analysis, or some of its rows.
        exponentiate : bool, default=False
            If True, draw ratios of estimates that are logarithms.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is created.

        Returns
        -------
        EffectDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the table lacks a column or rows.
        """
        return cls(estimates, exponentiate=exponentiate).plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> EffectDisplay:
        """Plot the effects.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As for `from_estimates`.

        Returns
        -------
        EffectDisplay
            Object that stores the figure.
        """
        table, height = self.estimates, 0.6 + 0.35 * len(self.estimates)
        (axes,) = self._use_panels(ax, 1, width=6.0, height=height)
        numbers = table[["estimate", "lower", "upper"]].to_numpy(float)
        null = 0.0
        if self.exponentiate:
            numbers, null = np.exp(numbers), 1.0
            axes.set_xscale("log")
        value, lower, upper = numbers.T
        rows, labels = np.arange(len(table)), []
        is_known = np.isfinite(numbers).all(axis=1)
        for term, known in zip(table["term"], is_known, strict=True):
            labels.append(format_label(term) + ("" if known else " (no interval)"))
        tidy_axes(axes, "effects")
        label_rows(axes, labels)
        axes.axvline(null, color=INK, lw=0.8)
        axes.hlines(rows[is_known], lower[is_known], upper[is_known], color=COLORS[0])
        axes.plot(value[is_known], rows[is_known], "o", color=COLORS[0])
        axes.set_xlabel("ratio" if self.exponentiate else "estimate")
        return self
