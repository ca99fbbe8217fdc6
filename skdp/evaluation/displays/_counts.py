"""Plot of estimated counts with intervals, and of the true counts if known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.base import AxesLike
from skdp.evaluation._common import check_count, check_table
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    PanelDisplay,
    import_pyplot,
    interval_label,
    label_rows,
    new_grid,
    tidy_axes,
    title_panel,
)
from skdp.metrics import labels_of


class CountEstimateDisplay(PanelDisplay):
    """Bar plot of estimated counts with intervals, and of the true counts if known, with a panel for each column.

    Unbiased counts may be negative and are drawn so.

    Parameters
    ----------
    estimates : DataFrame
        ``count, lower, upper``, indexed by value, by (column, category) for several columns, or by the values of a
        joint of columns, as returned by `estimate_counts` and `estimate_joint_counts`.
    true_counts : Series, optional
        The true counts under the same labels; a label that it leaves out has the count 0.
    confidence_level : float, default=0.95
        The coverage of the intervals, for the legend.

    Attributes
    ----------
    estimates : DataFrame
        The estimates, with a column ``true`` if it is known.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels.

    Raises
    ------
    TypeError, ValueError
        If the estimates lack a column or rows, or the true counts do not fit.

    Notes
    -----
    **Privacy.** Estimates from reports are post-processing, without privacy cost. True counts are not protected: a
    figure with them is for data that is not sensitive.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.local import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 300 + ["Male"] * 700})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> counts = encoder.estimate_counts(encoder.fit_transform(people))
    >>> display = CountEstimateDisplay(counts, true_counts=people["sex"].value_counts()).plot()
    >>> display.estimates["true"].tolist()
    [300.0, 700.0]
    >>> [axes.get_title(loc="left") for axes in display.axes_]
    ['sex']
    """

    def __init__(
        self,
        estimates: pd.DataFrame,
        *,
        true_counts: pd.Series | None = None,
        confidence_level: float | None = 0.95,
    ) -> None:
        columns = ("count", "lower", "upper")
        check_table(estimates, "estimates", columns, numbers=columns)
        if estimates.empty:
            raise ValueError("estimates must have at least one row")
        self.estimates = estimates.copy()
        if true_counts is not None:
            self.estimates["true"] = _match(true_counts, estimates.index)
        self.confidence_level = confidence_level

    def plot(
        self, *, max_values: int = 20, ax: AxesLike | None = None
    ) -> CountEstimateDisplay:
        """Draw the estimates.

        Parameters
        ----------
        max_values : int, default=20
            Number of values of a column to draw, at least 1: those with the largest estimates. The number of the others
            is stated.
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on, one for each column, or one for a joint. By default those of a new figure.

        Returns
        -------
        CountEstimateDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the number of panels is wrong, or `max_values` is not an int or less than 1.
        """
        check_count(max_values, "max_values", least=1)
        import_pyplot()
        tables = _split(self.estimates)
        # All panels are as high as the one with the most rows.
        n_rows = max(2, *(min(len(table), max_values) for _, table in tables))
        panels = self._use_panels(
            ax,
            len(tables),
            ", one for each column",
            lambda: new_grid(
                len(tables), width=4.6, height=1.1 + 0.28 * n_rows, margin=0.4
            ),
        )
        # Every panel has the same things to explain: one legend is enough.
        for axes, (title, table) in zip(panels, tables, strict=True):
            handles = self._draw(axes, title, table, max_values)
        self._draw_legend(ax, handles, loc="outside lower center", ncols=len(handles))
        return self

    def _draw(self, axes: Any, title: str, table: pd.DataFrame, most: int) -> list[Any]:
        """Draw a column, and return what its legend explains."""
        n_hidden = len(table) - most
        if n_hidden > 0:
            # Values of which nothing is known come last; those that are drawn keep
            # their order.
            counts = table["count"].fillna(-np.inf).to_numpy()
            order = np.argsort(-counts, kind="stable")
            table = table.iloc[np.sort(order[:most])]
            title = f"{title} ({n_hidden} smaller estimates not drawn)"
        places = np.arange(len(table))
        bars = axes.barh(
            places, table["count"], height=0.7, color=COLOURS[5], label="estimate"
        )
        # The interval of an unknown value has no ends.
        is_bounded = np.isfinite(table[["lower", "upper"]].to_numpy()).all(axis=1)
        bounded = table[is_bounded]
        intervals = axes.hlines(
            places[is_bounded],
            bounded["lower"],
            bounded["upper"],
            color=COLOURS[0],
            lw=2,
            label=interval_label(self.confidence_level),
        )
        # A bar at each end: the interval may be shorter than its line is wide.
        for end in ("lower", "upper"):
            axes.plot(bounded[end], places[is_bounded], "|", color=COLOURS[0], ms=7)
        handles = [bars, intervals]
        if "true" in table:
            style = {"color": COLOURS[1], "mec": "white", "ms": 5.5}
            handles += axes.plot(
                table["true"], places, "D", label="true count", **style
            )
        axes.axvline(0, color=INK, lw=1)
        tidy_axes(axes)
        label_rows(axes, list(map(_label, table.index)))
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("records")
        title_panel(axes, title)
        return handles


def _match(true_counts: Any, index: pd.Index) -> pd.Series:
    """Find the true count of each label; 0 if it is not listed."""
    if not isinstance(true_counts, pd.Series):
        raise TypeError(
            f"true_counts must be a Series, got {type(true_counts).__name__}"
        )
    if not pd.api.types.is_numeric_dtype(true_counts.dtype):
        raise TypeError("true_counts must hold numbers")
    n_levels = true_counts.index.nlevels
    if n_levels != index.nlevels:
        raise ValueError(
            f"true_counts must have labels of {index.nlevels} levels, got {n_levels}"
        )
    # By label and not by place: `value_counts` sorts by frequency.
    numbers = true_counts.to_numpy(dtype=float)
    by_label = dict(zip(labels_of(true_counts.index), numbers, strict=True))
    labels = labels_of(index)
    if len(by_label) < len(true_counts) or not set(by_label) <= set(labels):
        raise ValueError(
            "true_counts must have each label once, and only labels that estimates has"
        )
    return pd.Series([by_label.get(label, 0.0) for label in labels], index=index)


def _split(estimates: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split estimates into one table for each column that was estimated separately."""
    # A joint of columns is one table, whose labels are combinations of values.
    index = estimates.index
    if list(index.names) == ["column", "category"]:
        tables = estimates.groupby(level="column", sort=False, dropna=False)
        return [(str(name), table.droplevel("column")) for name, table in tables]
    names = ["value" if name is None else str(name) for name in index.names]
    return [(" × ".join(names), estimates)]


def _label(value: Any) -> str:
    """Write a value, or a combination of values."""
    parts = value if isinstance(value, tuple) else (value,)
    text = ", ".join("missing" if pd.isna(part) else str(part) for part in parts)
    longest_label = 40
    if len(text) <= longest_label:
        return text
    return f"{text[: longest_label - 1]}…"
