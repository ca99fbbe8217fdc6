"""Plot of the errors of the ways in which columns may share epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    PanelDisplay,
    check_table,
    import_pyplot,
    label_rows,
    tidy_axes,
)
from skdp.local import TablePlan

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

_ROOM = 1.35
"""What the axis is longer than the longest bar, for the text beside it, as a power of the range of the errors."""


class StrategyDisplay(PanelDisplay):
    """Bar plot of the errors of the strategies for a table, the best one first, with how many times worse others are.

    It is recommended to use `from_strategies` to create one. A strategy that does not give what is wanted has no bar.

    Parameters
    ----------
    strategies : DataFrame or TablePlan
        A row a strategy with its ``error``, as returned by `recommend_strategy`, or the plan of `recommend_plan`.

    Attributes
    ----------
    strategies : DataFrame
        The table, the best strategy first.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panel.

    Raises
    ------
    TypeError, ValueError
        If the table lacks errors, or no strategy has one.

    See Also
    --------
    skdp.recommend_strategy, skdp.recommend_plan : The tables, with reasons.

    Notes
    -----
    **Privacy.** Errors follow from what is declared: no data are read.

    Examples
    --------
    >>> from skdp import recommend_plan
    >>> from skdp.evaluation import StrategyDisplay
    >>> plan = recommend_plan({"sex": ["F", "M"], "job": range(20)}, 1.0)
    >>> display = StrategyDisplay.from_strategies(plan)
    >>> [label.get_text() for label in display.axes_[0].get_yticklabels()][:2]
    ['weighted', 'groups']
    """

    def __init__(self, strategies: pd.DataFrame | TablePlan) -> None:
        table = strategies.strategies if isinstance(strategies, TablePlan) else strategies
        check_table(table, "strategies", ("error",), numbers=("error",))
        if not np.isfinite(table["error"]).any():
            raise ValueError("strategies must have at least one with a finite error")
        if (table["error"] < 0).any():
            raise ValueError("strategies must have errors of at least 0")
        self.strategies = table.sort_values("error", kind="stable")

    @classmethod
    def from_strategies(cls, strategies: pd.DataFrame | TablePlan, *, ax: Axes | None = None) -> StrategyDisplay:
        """Draw strategies.

        Parameters
        ----------
        strategies : DataFrame or TablePlan
            See the class.
        ax : matplotlib Axes, optional
            See `plot`.

        Returns
        -------
        StrategyDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the table does not fit.
        """
        import_pyplot()
        return cls(strategies).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> StrategyDisplay:
        """Draw the errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        StrategyDisplay
            The display itself.

        Raises
        ------
        ImportError, ValueError
            If matplotlib is not installed, or several axes are given.
        """
        pyplot = import_pyplot()
        errors = self.strategies["error"].to_numpy(float)
        size = (6.4, 0.9 + 0.4 * len(errors))
        (axes,) = self._use_panels(ax, 1, "", lambda: pyplot.subplots(figsize=size, layout="constrained")[1])
        known, places = np.isfinite(errors), np.arange(len(errors))
        least, most = errors[known].min(), errors[known].max()
        best = errors == least
        colours = [COLOURS[0] if one else COLOURS[5] for one in best[known]]
        axes.barh(places[known], errors[known], height=0.7, color=colours)
        if least > 0:
            start = least / 2
            axes.set_xscale("log")
            axes.set_xlim(start, start * (most / start) ** _ROOM)
        else:
            start = 0.0
            axes.set_xlim(0, max(most, 1e-12) * _ROOM)
        for place, error in enumerate(errors):
            end = error if np.isfinite(error) else start
            axes.text(end, place, f" {_compared(error, least)}", va="center", color=INK)
        tidy_axes(axes)
        label_rows(axes, [str(name) for name in self.strategies.index])
        axes.set_xlabel("n × mean squared error")
        return self


def _compared(error: float, least: float) -> str:
    """Compare an error with the least one, in words."""
    if not np.isfinite(error):
        return "does not give what is wanted"
    if error == least:
        return "best"
    return f"{error / least:.3g} times" if least > 0 else f"{error:.3g}"
