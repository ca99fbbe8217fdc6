"""Plot of estimated counts with intervals, and of the true counts if known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.base import AxesLike
from skdp.evaluation._common import check_table
from skdp.evaluation._style import (
    COLOURS,
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
    """Bar plot of estimated counts with intervals, a panel for each column.

    Use `from_estimates`.

    Parameters
    ----------
    estimates : DataFrame
        ``count, lower, upper``, and ``true`` if the true counts are known.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        The panels.
    figure_ : matplotlib Figure
        The figure.

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
            raise ValueError("estimates must have at least one row")
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
            ``count, lower, upper``, indexed by value, by (column, category), or by the
            values of several columns that are reported together.
        true_counts : Series, optional
            The true counts with the same labels; an absent label has the count 0.
        ax : matplotlib Axes or array of them, optional
            The axes to draw on, one for each column. By default axes of a new figure.

        Returns
        -------
        CountEstimateDisplay
            The display.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or a table does not fit.
        """
        display = cls(estimates)
        if true_counts is not None:
            true = _match_labels(true_counts, estimates.index)
            display.estimates = estimates.assign(true=true)
        return display.plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> CountEstimateDisplay:
        """Draw the estimates.

        Parameters
        ----------
        ax : matplotlib Axes or array of them, optional
            As for `from_estimates`.

        Returns
        -------
        CountEstimateDisplay
            The display.
        """
        tables = _split_columns(self.estimates)
        n_rows = max(2, *(min(len(table), MAX_VALUES) for _, table in tables))
        panels = self._use_panels(
            ax, len(tables), width=4.6, height=1.1 + 0.28 * n_rows
        )
        for axes, (title, table) in zip(panels, tables, strict=True):
            handles = _draw_column(axes, title, table)
        self._draw_legend(ax, handles)
        return self


def _draw_column(axes: Any, title: str, table: pd.DataFrame) -> list[Any]:
    """Draw a column, and return the entries of the legend."""
    n_hidden = len(table) - MAX_VALUES
    if n_hidden > 0:
        largest = table["count"].nlargest(MAX_VALUES).index
        table = table[table.index.isin(largest)]
        title = f"{title} ({n_hidden} smaller estimates not drawn)"
    positions = np.arange(len(table))
    bars = axes.barh(
        positions, table["count"], height=0.7, color=COLOURS[5], label="estimate"
    )
    # The interval of an unknown value has no limits.
    limits = (
        table[["lower", "upper"]].replace([-np.inf, np.inf], np.nan).to_numpy(float)
    )
    intervals = axes.hlines(
        positions, *limits.T, color=COLOURS[0], lw=2, label="95 % interval"
    )
    for limit in limits.T:
        axes.plot(limit, positions, "|", color=COLOURS[0], ms=7)
    handles = [bars, intervals]
    if "true" in table:
        style = {"color": COLOURS[1], "mec": "white", "ms": 5.5}
        handles += axes.plot(table["true"], positions, "D", label="true count", **style)
    axes.axvline(0, color=INK, lw=1)
    tidy_axes(axes, title)
    label_rows(axes, list(map(format_label, table.index)))
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("records")
    return handles


def _match_labels(true_counts: Any, index: pd.Index) -> pd.Series:
    """Find the true count of each label; 0 if it is absent."""
    if not isinstance(true_counts, pd.Series):
        raise TypeError(
            f"true_counts must be a Series, got {type(true_counts).__name__}"
        )
    if not pd.api.types.is_numeric_dtype(true_counts.dtype):
        raise TypeError("true_counts must be numeric")
    # By label and not by position: `value_counts` sorts by frequency.
    numbers = true_counts.to_numpy(dtype=float)
    by_label = dict(zip(convert_labels(true_counts.index), numbers, strict=True))
    labels = convert_labels(index)
    if len(by_label) < len(true_counts) or not set(by_label) <= set(labels):
        raise ValueError(
            "true_counts must have distinct labels, all of them labels of estimates"
        )
    return pd.Series([by_label.get(label, 0.0) for label in labels], index=index)


def _split_columns(estimates: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split estimates into one table for each column that was estimated separately."""
    index = estimates.index
    if list(index.names) == ["column", "category"]:
        tables = estimates.groupby(level="column", sort=False, dropna=False)
        return [(str(name), table.droplevel("column")) for name, table in tables]
    names = ["value" if name is None else str(name) for name in index.names]
    return [(" × ".join(names), estimates)]
