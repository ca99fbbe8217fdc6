"""Plot of marginals of a real and a synthetic table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from skdp.base import AxesLike, TableLike
from skdp.domain import DomainLike, Interval
from skdp.evaluation._privacy_curve import check_table
from skdp.evaluation._style import (
    COLORS,
    MAX_VALUES,
    PanelDisplay,
    draw_plain_text,
    format_label,
    label_rows,
    make_legend_entry,
    tidy_axes,
)
from skdp.metrics import count_error, marginal_errors, marginal_table

# Columns of a table of proportions, and their colors.
SIDES = {"real": COLORS[5], "synthetic": COLORS[1]}


class MarginalDisplay(PanelDisplay):
    """Plot of marginals of a real and a synthetic table.

    Use `from_tables` to create the display. The proportions of a column are drawn as
    bars, or as steps if the column has bins. Titles state the total variation distance
    (TVD), which is half the sum of the absolute differences of the proportions.

    Parameters
    ----------
    marginals : mapping of column name to DataFrame
        Proportions of the values of each column, with the columns ``real`` and
        ``synthetic`` and a row for each value. Bins of numbers or dates have their bounds
        in the columns ``low`` and ``high``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    skdp.metrics.marginal_error : Mean distance over all marginals.
    skdp.metrics.marginal_errors : Distance of each marginal, also of several columns.

    Notes
    -----
    **Privacy.** The real proportions are not private.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.evaluation import MarginalDisplay
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": [0, 0, 1, 1]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": [0, 1, 0, 1]})
    >>> display = MarginalDisplay.from_tables(real, synthetic)
    >>> [axes.get_title(loc="left") for axes in display.ax_]
    ['sex, TVD 0.000', 'smokes, TVD 0.000']
    """

    def __init__(
        self,
        marginals: Mapping[Any, pd.DataFrame],
    ) -> None:
        if not isinstance(marginals, Mapping) or not marginals:
            raise TypeError(
                "`marginals` must be a mapping of column names to tables, got "
                f"{type(marginals).__name__}. Use MarginalDisplay.from_tables."
            )
        for name, table in marginals.items():
            check_table(table, f"marginals[{name!r}]", SIDES, numbers=SIDES)
        self.marginals = dict(marginals)

    @classmethod
    def from_tables(
        cls,
        real: TableLike,
        synthetic: TableLike,
        columns: Iterable[Any] | None = None,
        *,
        domain: DomainLike | None = None,
        ax: AxesLike | None = None,
    ) -> MarginalDisplay:
        """Plot the marginals of columns of two tables.

        Parameters
        ----------
        real : dataframe or 2-D array-like of shape (n_real, n_columns)
            Real rows.
        synthetic : dataframe or 2-D array-like of shape (n_synthetic, n_columns)
            Synthetic rows.
        columns : list of column names, default=None
            Columns to draw. If None, each column is drawn.
        domain : Domain or mapping of column name to values or Interval, default=None
            Declared values. If None, the occurring values are used; declare an
            `Interval` for numbers.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each column. If None, a new figure is created.

        Returns
        -------
        MarginalDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the tables, the columns or the domain do
            not match.
        """
        if columns is None:
            errors = marginal_errors(real, synthetic, order=1, domain=domain)
            columns = [name for (name,) in errors["columns"]]
        if isinstance(columns, str):
            raise TypeError("`columns` must be a list of names, got str.")
        declared: Any = domain or {}
        marginals = {}
        for name in columns:
            table = marginal_table(real, synthetic, name, domain=domain)
            values = declared.get(name)
            if isinstance(values, Interval):
                bins = table.index[: len(values.edges) - 1]
                table["low"] = pd.Series(values.edges[:-1], bins, dtype=object)
                table["high"] = pd.Series(values.edges[1:], bins, dtype=object)
            marginals[name] = table
        return cls(marginals).plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> MarginalDisplay:
        """Plot the marginals.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            As for `from_tables`.

        Returns
        -------
        MarginalDisplay
            Object that stores the figure.
        """
        panels = self._use_panels(ax, len(self.marginals))
        for axes, (name, table) in zip(panels, self.marginals.items(), strict=True):
            error = count_error(
                true=table["real"],
                estimate=table["synthetic"],
                metric="total_variation",
            )
            if "low" in table:
                _draw_steps(axes, table)
            else:
                _draw_bars(axes, table)
            tidy_axes(axes, f"{name}, TVD {error:.3f}")
        handles = []
        for side, color in SIDES.items():
            handles.append(make_legend_entry(side, color=color, lw=6))
        self._draw_legend(ax, handles)
        return self


def _draw_bars(axes: Any, table: pd.DataFrame) -> None:
    """Draw the proportions of values as bars, with one bar for all rare values.

    `table` has a row for each value with the columns "real" and "synthetic".
    """
    if len(table) > MAX_VALUES:
        frequent = table["real"].nlargest(MAX_VALUES - 1).index
        is_rare = ~table.index.isin(frequent)
        sums = table[is_rare].sum().to_frame(f"({is_rare.sum()} others)").T
        table = pd.concat([table[~is_rare], sums])
    positions = np.arange(len(table))
    for side, shift in (("real", -0.2), ("synthetic", 0.2)):
        axes.barh(positions + shift, table[side], height=0.4, color=SIDES[side])
    label_rows(axes, list(map(format_label, table.index)))
    axes.set_xlabel("proportion")


def _draw_steps(axes: Any, table: pd.DataFrame) -> None:
    """Draw the proportions of bins as steps.

    Proportions of values without a bin, such as missing values, are written below the axis.
    """
    from matplotlib.dates import date2num

    # `stairs` of matplotlib requires dates as numbers.
    is_bin = table["low"].notna()
    bins = table[is_bin]
    edges = [*bins["low"], bins["high"].iloc[-1]]
    if isinstance(edges[0], date):
        edges = date2num(edges)
        axes.xaxis_date()
    styles = {"real": {"fill": True, "alpha": 0.6}, "synthetic": {"lw": 1.6}}
    for side, style in styles.items():
        axes.stairs(bins[side].to_numpy(), edges, color=SIDES[side], **style)
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylabel("proportion")
    lines = []
    for label, row in table.loc[~is_bin, list(SIDES)].iterrows():
        if row.any():
            proportions = f"{row['real']:.1%} | {row['synthetic']:.1%}"
            lines.append(f"{format_label(label)}: {proportions}")
    axes.set_xlabel("\n".join(lines), fontsize="small")
