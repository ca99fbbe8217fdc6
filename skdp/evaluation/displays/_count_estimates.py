"""Display of estimated counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.base import AxesLike
from skdp.evaluation._privacy_curve import check_table
from skdp.evaluation._style import (
    COLORS,
    INK,
    MAX_VALUES,
    PanelDisplay,
    draw_plain_text,
    format_label,
    label_rows,
    tidy_axes,
)
from skdp.metrics import convert_labels


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
