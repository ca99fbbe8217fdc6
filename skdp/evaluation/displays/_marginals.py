"""Plot of marginals of a real and a synthetic table."""

from __future__ import annotations

import math
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

    Use `from_tables` to create the display. A marginal of one column is drawn as bars,
    or as steps if the column has bins. A marginal of two columns is drawn as two heat
    maps. Titles state the total variation distance (TVD), which is half the sum of the
    absolute differences of the proportions.

    Parameters
    ----------
    marginals : mapping of tuple of column names to DataFrame
        Proportions of the cells of one or two columns, with the columns ``real`` and
        ``synthetic`` and a row for each cell.
    edges : mapping of column name to tuple of numbers or dates, default=None
        Edges of the bins of numeric columns.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels, two for a marginal of two columns.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    skdp.metrics.marginal_error : Mean distance over all marginals.

    Notes
    -----
    **Privacy.** The real proportions are not private.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.evaluation import MarginalDisplay
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": [0, 0, 1, 1]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": [0, 1, 0, 1]})
    >>> display = MarginalDisplay.from_tables(real, synthetic, ["sex", ("sex", "smokes")])
    >>> [axes.get_title(loc="left") for axes in display.ax_]
    ['real', 'synthetic, TVD 0.500', 'sex, TVD 0.000']
    """

    def __init__(
        self,
        marginals: Mapping[tuple[Any, ...], pd.DataFrame],
        *,
        edges: Mapping[Any, tuple[Any, ...]] | None = None,
    ) -> None:
        """Check the tables of proportions by their one or two columns; `edges` has the edges of columns with bins."""
        if not isinstance(marginals, Mapping) or not marginals:
            raise TypeError(
                "`marginals` must be a mapping of tuples of column names to tables, "
                f"got {type(marginals).__name__}. Use MarginalDisplay.from_tables."
            )
        for names, table in marginals.items():
            if not isinstance(names, tuple) or len(names) not in (1, 2):
                raise TypeError(
                    "`marginals` must have tuples of one or two columns, got "
                    f"{names!r}."
                )
            check_table(table, f"marginals[{names}]", SIDES, numbers=SIDES)
        self.marginals = dict(marginals)
        self.edges = dict(edges or {})

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
        """Plot the marginals of two tables.

        Parameters
        ----------
        real : dataframe or 2-D array-like of shape (n_real, n_columns)
            Real rows.
        synthetic : dataframe or 2-D array-like of shape (n_synthetic, n_columns)
            Synthetic rows.
        columns : list of column names and of tuples of two names, default=None
            Marginals to draw: a name for one column, a tuple for two columns. If None,
            each column is drawn.
        domain : Domain or mapping of column name to values or Interval, default=None
            Declared values. If None, the occurring values are used; declare an
            `Interval` for numbers.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, two for each marginal of two columns, and then one for each
            marginal of one column. If None, a new figure is created.

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
            columns = errors["columns"]
        if isinstance(columns, str):
            raise TypeError("`columns` must be a list of names and pairs, got str.")
        marginals: dict[tuple[Any, ...], pd.DataFrame] = {}
        for name in columns:
            names = name if isinstance(name, tuple) else (name,)
            marginals[names] = marginal_table(real, synthetic, names, domain=domain)
        declared: Any = domain or {}
        edges = {}
        for name, values in declared.items():
            if isinstance(values, Interval):
                edges[name] = values.edges
        return cls(marginals, edges=edges).plot(ax)

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
        # A marginal has as many panels as columns.
        panels = self._use_panels(ax, sum(map(len, self.marginals)))
        remaining = iter(panels)
        # Pairs are first, so that the two panels of a pair are beside each other.
        for names in sorted(self.marginals, key=len, reverse=True):
            table = self.marginals[names]
            error = count_error(
                true=table["real"],
                estimate=table["synthetic"],
                metric="total_variation",
            )
            title = f"TVD {error:.3f}"
            if len(names) == 2:
                pair = [next(remaining), next(remaining)]
                image = _draw_pair(pair, names, table, title)
                self.figure_.colorbar(image, ax=pair, label="proportion")
                continue
            axes = next(remaining)
            if names[0] in self.edges:
                _draw_steps(axes, self.edges[names[0]], table)
            else:
                _draw_bars(axes, table)
            tidy_axes(axes, f"{names[0]}, {title}")
        handles = []
        for side, color in SIDES.items():
            handles.append(make_legend_entry(side, color=color, lw=6))
        if any(len(names) == 1 for names in self.marginals):
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


def _draw_steps(axes: Any, edges: Any, table: pd.DataFrame) -> None:
    """Draw the proportions of bins as steps; `table` has a row for each bin with the columns "real" and "synthetic".

    Proportions of values without a bin, such as missing values, are written below the axis.
    """
    from matplotlib.dates import date2num

    # `stairs` of matplotlib requires dates as numbers.
    if isinstance(edges[0], date):
        edges = date2num(edges)
        axes.xaxis_date()
    n_bins = len(edges) - 1
    styles = {"real": {"fill": True, "alpha": 0.6}, "synthetic": {"lw": 1.6}}
    for side, style in styles.items():
        heights = table[side].to_numpy()[:n_bins]
        axes.stairs(heights, edges, color=SIDES[side], **style)
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylabel("proportion")
    lines = []
    for label, row in table[n_bins:].iterrows():
        if row.any():
            proportions = f"{row['real']:.1%} | {row['synthetic']:.1%}"
            lines.append(f"{format_label(label)}: {proportions}")
    axes.set_xlabel("\n".join(lines), fontsize="small")


def _draw_pair(
    panels: list[Any], names: tuple[Any, ...], table: pd.DataFrame, title: str
) -> Any:
    """Draw the proportions of two columns as heat maps with a common color scale; return the second image.

    `panels` are the axes for the real and the synthetic rows, and `title` describes the synthetic rows.
    """
    from matplotlib.colors import PowerNorm

    # On a square-root scale, rare values are visible beside a frequent value.
    norm = PowerNorm(0.5, vmin=0, vmax=float(table.to_numpy().max()))
    levels = [table.index.unique(level) for level in (0, 1)]
    shape = tuple(map(len, levels))
    for axes, side in zip(panels, SIDES, strict=True):
        proportions = table[side].to_numpy().reshape(shape)
        image = axes.imshow(proportions, norm=norm, cmap="Blues", aspect="auto")
        # Label at most MAX_VALUES values of each column.
        for axis, values in zip((axes.yaxis, axes.xaxis), levels, strict=True):
            step = math.ceil(len(values) / MAX_VALUES)
            positions = range(0, len(values), step)
            labels = [format_label(values[position])[:20] for position in positions]
            axis.set_ticks(positions, labels, fontsize="small")
        axes.xaxis.set_tick_params(rotation=90)
        axes.set(xlabel=str(names[1]), ylabel=str(names[0]))
    panels[0].set_title("real", loc="left", fontsize="medium")
    panels[1].set_title(f"synthetic, {title}", loc="left", fontsize="medium")
    return image
