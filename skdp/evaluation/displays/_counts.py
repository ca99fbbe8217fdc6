"""Displays of counts: their errors, and the marginals of tables."""

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
    INK,
    MAX_VALUES,
    PanelDisplay,
    draw_plain_text,
    format_label,
    label_rows,
    make_legend_entry,
    tidy_axes,
)
from skdp.metrics import convert_labels, count_error, marginal_errors, marginal_table


class CountEstimateDisplay(PanelDisplay):
    """Bar plot of estimated counts with intervals, with one panel for each column.

    Use `from_estimates` to create the display.

    Parameters
    ----------
    estimates : DataFrame
        Columns ``count, lower, upper``, and optionally ``true``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels.
    figure_ : matplotlib Figure
        Figure containing the panels.

    Notes
    -----
    **Privacy.** Estimates from reports are post-processing. True counts are not private.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.evaluation import CountEstimateDisplay
    >>> people = pd.DataFrame({"sex": ["Female"] * 300 + ["Male"] * 700})
    >>> encoder = RandomizedResponseEncoder(
    ...     1.0, categories={"sex": ["Female", "Male"]}, random_state=0
    ... )
    >>> counts = encoder.estimate_counts(encoder.fit_transform(people))
    >>> display = CountEstimateDisplay.from_estimates(
    ...     counts, true_counts=people["sex"].value_counts()
    ... )
    >>> display.ax_[0].get_title(loc="left")
    'sex'
    """

    def __init__(self, estimates: pd.DataFrame) -> None:
        columns = ("count", "lower", "upper")
        check_table(estimates, "estimates", columns, numbers=columns)
        if estimates.empty:
            raise ValueError("`estimates` must have at least one row, got none.")
        self.estimates = estimates

    @classmethod
    def from_estimates(
        cls,
        estimates: pd.DataFrame,
        *,
        true_counts: pd.Series | None = None,
        ax: AxesLike | None = None,
    ) -> CountEstimateDisplay:
        """Plot the result of `estimate_counts`.

        Parameters
        ----------
        estimates : DataFrame
            Columns ``count, lower, upper``, indexed by value, by (column, category), or
            by the values of several columns that are reported together.
        true_counts : Series, default=None
            True counts with the same labels. An absent label has the count 0.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each column. If None, a new figure is created.

        Returns
        -------
        CountEstimateDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or a table has the wrong columns or labels.
        """
        display = cls(estimates)
        if true_counts is not None:
            true = _match_labels(true_counts, estimates.index)
            display.estimates = estimates.assign(true=true)
        return display.plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> CountEstimateDisplay:
        """Plot the estimates.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            As for `from_estimates`.

        Returns
        -------
        CountEstimateDisplay
            Object that stores the figure.
        """
        tables = _split_columns(self.estimates)
        # The height of all panels is the height of the largest one.
        n_values = max(len(table) for _, table in tables)
        n_rows = min(max(2, n_values), MAX_VALUES)
        panels = self._use_panels(
            ax, len(tables), width=3.6, height=1.1 + 0.28 * n_rows
        )
        for axes, (title, table) in zip(panels, tables, strict=True):
            handles = _draw_column(axes, title, table)
        self._draw_legend(ax, handles)
        return self


def _draw_column(axes: Any, title: str, table: pd.DataFrame) -> list[Any]:
    """Draw bars of a column with intervals and true counts; return the handles of the legend.

    `table` has a row for each value with the columns "count", "lower", "upper" and possibly "true".
    """
    n_excluded = len(table) - MAX_VALUES
    if n_excluded > 0:
        largest = table["count"].nlargest(MAX_VALUES).index
        table = table[table.index.isin(largest)]
        title = f"{title} ({n_excluded} smaller estimates not drawn)"
    positions = np.arange(len(table))
    bars = axes.barh(
        positions, table["count"], height=0.7, color=COLORS[5], label="estimate"
    )
    # matplotlib cannot draw infinite limits, so they are missing.
    errors = table[["count", "upper"]].to_numpy() - table[["lower", "count"]].to_numpy()
    intervals = axes.errorbar(
        table["count"],
        positions,
        xerr=np.where(np.isfinite(errors), errors, np.nan).T,
        fmt="none",
        ecolor=COLORS[0],
        elinewidth=2,
        capsize=3,
        label="95 % interval",
    )
    handles: list[Any] = [bars, intervals]
    if "true" in table:
        style = {"color": COLORS[1], "mec": "white", "ms": 5.5}
        handles += axes.plot(table["true"], positions, "D", label="true count", **style)
    axes.axvline(0, color=INK, lw=1)
    tidy_axes(axes, title)
    label_rows(axes, list(map(format_label, table.index)))
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel("records")
    return handles


def _match_labels(true_counts: Any, index: pd.Index) -> pd.Series:
    """Return the true counts in the order of `index`, 0 for absent labels."""
    if not isinstance(true_counts, pd.Series):
        raise TypeError(
            f"`true_counts` must be a Series, got {type(true_counts).__name__}."
        )
    if not pd.api.types.is_numeric_dtype(true_counts.dtype):
        raise TypeError(
            f"`true_counts` must be numeric, got dtype {true_counts.dtype}."
        )
    # Counts are matched by label, because `value_counts` of pandas sorts by frequency.
    numbers = true_counts.to_numpy(dtype=float)
    by_label = dict(zip(convert_labels(true_counts.index), numbers, strict=True))
    labels = convert_labels(index)
    if len(by_label) < len(true_counts) or not set(by_label) <= set(labels):
        raise ValueError(
            "`true_counts` must have distinct labels that also occur in estimates, got "
            "a repeated or unknown label."
        )
    return pd.Series([by_label.get(label, 0.0) for label in labels], index=index)


def _split_columns(estimates: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the title and the table of each column, or combination of columns, that was estimated separately."""
    index = estimates.index
    if list(index.names) == ["column", "category"]:
        tables = estimates.groupby(level="column", sort=False, dropna=False)
        return [(str(name), table.droplevel("column")) for name, table in tables]
    names = ["value" if name is None else str(name) for name in index.names]
    return [(" × ".join(names), estimates)]


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
                "`marginals` must be a mapping of at least one column name to a table, got "
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
