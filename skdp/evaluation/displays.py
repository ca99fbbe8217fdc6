"""Figures of estimated counts, privacy curves, fairness and additive models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import AxesLike, ColumnName
from skdp.base import NORMAL, check_choice
from skdp.domain import Interval, make_edge_array
from skdp.evaluation._privacy_curve import (
    check_curve,
    check_table,
    compare_to_baseline,
    summarize_splits,
)
from skdp.metrics import convert_labels
from skdp.readers import import_extra

if TYPE_CHECKING:  # matplotlib is optional
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CountEstimateDisplay",
    "FairnessDisplay",
    "PrivacyCurveDisplay",
    "ShapeDisplay",
]


# Palette of Okabe and Ito (2008), which color-blind readers can distinguish. Each series
# also has its own marker.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#333333"


# Largest number of values of a column in a figure; the most frequent values are drawn.
MAX_DRAWN_VALUES = 20


class PanelDisplay:
    """Base class of displays, which draw panels in a new figure or in given axes."""

    ax_: NDArray[Any]
    figure_: Figure

    def _use_panels(
        self,
        ax: AxesLike | None,
        number: int,
        *,
        width: float = 3.4,
        height: float | Sequence[float] = 3.0,
        max_columns: int = 2,
    ) -> list[Any]:
        """Set `ax_` and `figure_`, and return `number` panels; sizes are in inches, the height of all or of each row.

        Text of a figure of 7 inches is readable at the width of a phone.
        """
        if ax is None:
            n_columns = min(number, max_columns)
            n_rows = math.ceil(number / n_columns)
            heights = np.broadcast_to(height, n_rows)
            _, grid = import_plotting("matplotlib.pyplot").subplots(
                n_rows,
                n_columns,
                figsize=(max(width * n_columns, 5.5), heights.sum() + 0.5),
                height_ratios=heights,
                squeeze=False,
                layout="constrained",
            )
            # The grid may have more panels than required.
            for unused in grid.flat[number:]:
                unused.remove()
            ax = grid.flat[:number]
        panels = list(np.ravel(ax))
        if len(panels) != number:
            raise ValueError(f"`ax` must have {number} panels, got {len(panels)}.")
        self.ax_ = np.array(panels, dtype=object)
        self.figure_ = panels[0].get_figure(root=True)
        return panels

    def _draw_legend(self, ax: AxesLike | None, handles: Sequence[Any]) -> None:
        """Draw a legend below a new figure, or in the first panel of the caller (`ax`)."""
        # Outside of the axes, a legend could cover other figures of the caller.
        owner = self.figure_ if ax is None else self.ax_[0]
        longest = max(len(handle.get_label()) for handle in handles)
        # Two columns of longer labels would be wider than the figure.
        n_columns = 1 if longest > 30 else min(len(handles), 2)
        layout: dict[str, Any] = {"loc": "outside lower center", "ncols": n_columns}
        if ax is not None:
            # A character has about 0.075 inches at 10 points, and a line with margins 0.8.
            width = self.figure_.get_figwidth() * owner.get_position().width
            layout = {"fontsize": 10 * min(width / (0.8 + 0.075 * longest), 1)}
        else:
            # Panels keep their height beside a legend of more than two rows.
            n_more = max(math.ceil(len(handles) / n_columns) - 2, 0)
            self.figure_.set_figheight(self.figure_.get_figheight() + 0.22 * n_more)
        owner.legend(handles=handles, frameon=False, **layout)


def draw_plain_text(plot: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a plot method to draw dollar signs literally, not as math text."""

    @wraps(plot)
    def plot_plain_text(*args: object, **options: object) -> Any:
        with import_plotting("matplotlib.pyplot").rc_context(
            {"text.parse_math": False}
        ):
            return plot(*args, **options)

    return plot_plain_text


def import_plotting(module: str) -> Any:
    """Import a module of matplotlib or jinja2, which are optional dependencies."""
    return import_extra(module, "plot", "Plots and pages require")


def make_legend_entry(label: object, **style: object) -> Any:
    """Return an invisible line whose style and label appear in a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=str(label), **{"color": INK} | style)


def choose_series_style(index: int) -> dict[str, Any]:
    """Return the color and marker of a series; the first 36 combinations are distinct."""
    # Markers are shifted by one each time that all colors have been used.
    n_rounds, color = divmod(index, len(COLORS))
    marker = MARKERS[(color + n_rounds) % len(MARKERS)]
    return {"color": COLORS[color], "marker": marker}


def format_label(value: object) -> str:
    """Format a value, or a tuple of values, as text of at most 40 characters per value."""
    if isinstance(value, tuple):
        return ", ".join(map(format_label, value))
    if value is None or value != value:  # nan differs from itself
        return "missing"
    # pandas converts declared integers beside missing values to floats.
    text = f"{value:.15g}" if isinstance(value, float) else str(value)
    # Longer labels would take more than half of the width of a figure.
    return text if len(text) <= 40 else f"{text[:39]}…"


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Label horizontal rows of bars or dots on the y axis, the first at the top."""
    # The y axis is inverted by its limits, which leave a margin of 0.6 rows.
    axes.grid(False, axis="y")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def tidy_axes(axes: Axes, title: str) -> None:
    """Set the title at the left, remove the top and right spines, and add a light grid."""
    axes.set_title(title, loc="left", fontsize="medium", wrap=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", lw=0.8)
    axes.set_axisbelow(True)


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
            true = _match_true_counts(true_counts, estimates.index)
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
        n_rows = min(max(2, n_values), MAX_DRAWN_VALUES)
        panels = self._use_panels(
            ax, len(tables), width=3.6, height=1.1 + 0.28 * n_rows
        )
        for axes, (title, table) in zip(panels, tables, strict=True):
            handles = _draw_column(axes, title, table)
        self._draw_legend(ax, handles)
        return self


def _draw_column(axes: Axes, title: str, table: pd.DataFrame) -> list[Any]:
    """Draw bars of a column with intervals and true counts; return the handles of the legend.

    `table` has a row for each value with the columns "count", "lower", "upper" and possibly "true".
    """
    n_excluded = len(table) - MAX_DRAWN_VALUES
    if n_excluded > 0:
        largest = table["count"].nlargest(MAX_DRAWN_VALUES).index
        table = table[table.index.isin(largest)]
        title = f"{title} ({n_excluded} smaller estimates not drawn)"
    positions = np.arange(len(table))
    bars = axes.barh(
        positions, table["count"], height=0.7, color=COLORS[5], label="estimate"
    )
    style: dict[str, Any] = {"fmt": "none", "ecolor": COLORS[0], "capsize": 3}
    intervals = _draw_intervals(
        axes, table, positions, value="count", label="95 % interval", **style
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


def _draw_intervals(
    axes: Axes,
    table: pd.DataFrame,
    positions: ArrayLike,
    *,
    value: str,
    by: str = "x",
    **style: object,
) -> Any:
    """Draw a column of a table with the intervals in its columns "lower" and "upper", along the x or the y axis.

    `positions` are the positions on the other axis, and `style` is passed to matplotlib.
    """
    numbers, lower, upper = table[[value, "lower", "upper"]].to_numpy(float).T
    # matplotlib cannot draw infinite numbers, so they are missing.
    errors = np.array([numbers - lower, upper - numbers])
    errors = np.where(np.isfinite(errors), errors, np.nan)
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    points = (numbers, positions) if by == "x" else (positions, numbers)
    return axes.errorbar(*points, **{f"{by}err": errors}, elinewidth=2, **style)


def _match_true_counts(true_counts: object, index: pd.Index) -> pd.Series:
    """Return the true counts in the order of `index`, 0 for absent labels."""
    if not isinstance(true_counts, pd.Series) or not pd.api.types.is_numeric_dtype(
        true_counts.dtype
    ):
        raise TypeError(
            "`true_counts` must be numeric, a Series of counts, got "
            f"{type(true_counts).__name__}."
        )
    # Counts are matched by label, because `value_counts` of pandas sorts by frequency.
    by_label = dict(zip(convert_labels(true_counts.index), true_counts, strict=True))
    labels = convert_labels(index)
    if len(by_label) < len(true_counts) or not set(by_label) <= set(labels):
        raise ValueError(
            "`true_counts` must have distinct labels that also occur in estimates, got "
            "a repeated or unknown label."
        )
    return pd.Series([by_label.get(label, 0) for label in labels], index, float)


def _split_columns(estimates: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the title and the table of each column, or combination of columns, that was estimated separately."""
    index = estimates.index
    if list(index.names) == ["column", "category"]:
        tables = estimates.groupby(level="column", sort=False, dropna=False)
        return [(str(name), table.droplevel("column")) for name, table in tables]
    names = ["value" if name is None else str(name) for name in index.names]
    return [(" × ".join(names), estimates)]


class PrivacyCurveDisplay(PanelDisplay):
    """Plot of scores against epsilon, with a panel for each metric and a curve for each method.

    Use `from_curve` to create the display. Points are means over the splits with 95 %
    intervals, as in `compare_to_baseline`. Dashed lines are means without an epsilon,
    such as of the baseline. Scores that are not finite are excluded. Below each epsilon of
    `privacy_curve` are the right guesses of 100 of an attacker.

    Parameters
    ----------
    curve : pandas.DataFrame
        Result of `privacy_curve` or `fairness_study`. Of several curves, each has its
        name in the column ``method``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    privacy_curve : Compute the scores of a model.
    fairness_study : Compute the scores of several methods.
    compare_to_baseline : Table of the differences.

    Notes
    -----
    **Privacy.** Scores are computed from true rows and are not private.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.evaluation import PrivacyCurveDisplay
    >>> rows = [
    ...     (epsilon, split, "accuracy", 0.6 + 0.02 * epsilon, 80, 20)
    ...     for epsilon in (1.0, 4.0)
    ...     for split in (0, 1)
    ... ]
    >>> names = ["epsilon", "split", "metric", "value", "n_train", "n_test"]
    >>> display = PrivacyCurveDisplay.from_curve(pd.DataFrame(rows, columns=names))
    >>> display.ax_[0].get_title(loc="left")
    'accuracy'
    """

    def __init__(self, curve: pd.DataFrame) -> None:
        check_curve(curve)
        self.curve = curve

    @classmethod
    def from_curve(
        cls,
        curve: pd.DataFrame,
        *,
        kind: Literal["score", "difference"] = "score",
        baseline: str | None = None,
        ax: AxesLike | None = None,
    ) -> PrivacyCurveDisplay:
        """Plot the result of `privacy_curve` or `fairness_study`.

        Parameters
        ----------
        curve : pandas.DataFrame
            Result of `privacy_curve`, or rows of a `fairness_study`, such as
            ``study[study["metric"] == "accuracy"]``. Concatenated studies of several
            encoders have a curve for each encoder.
        kind : {"score", "difference"}, default="score"
            Plot the scores, or their differences from the baseline.
        baseline : str, default=None
            Baseline method of differences of a study, as in `compare_to_baseline`.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each metric. If None, a new figure is created.

        Returns
        -------
        PrivacyCurveDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the curve lacks a column or the baseline.
        """
        return cls(curve).plot(ax, kind=kind, baseline=baseline)

    @draw_plain_text
    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        kind: Literal["score", "difference"] = "score",
        baseline: str | None = None,
    ) -> PrivacyCurveDisplay:
        """Plot the scores or their differences.

        Parameters
        ----------
        ax, kind, baseline : optional
            As for `from_curve`.

        Returns
        -------
        PrivacyCurveDisplay
            Object that stores the figure.
        """
        check_choice("kind", kind, ("score", "difference"))
        curve = check_curve(self.curve)
        name = baseline or curve.attrs.get("baseline", "the baseline")
        is_difference = kind == "difference"
        # A method has the same style in figures of scores and of differences. Curves have
        # the first colors.
        lowest = curve["epsilon"].groupby(_name_series(curve, name), sort=False).min()
        ordered = lowest.sort_values(key=np.isinf, kind="stable").index
        styles = dict(zip(ordered, map(choose_series_style, count()), strict=False))
        if is_difference:
            table = compare_to_baseline(curve, baseline=baseline)
            table = table.rename(columns={"difference": "mean"})
        else:
            table = summarize_splits(curve)
        table["series"] = _name_series(table, name)
        metrics = list(dict.fromkeys(table["metric"]))
        # One panel per row is readable in a column of a paper and on a phone.
        panels = self._use_panels(
            ax, len(metrics), width=5.5, height=2.6, max_columns=1
        )
        for axes, metric in zip(panels, metrics, strict=True):
            _draw_metric(axes, table[table["metric"] == metric], styles)
            if is_difference:
                axes.axhline(0, color=INK, lw=1)
                axes.set_ylabel(f"difference from\n{name}")
            tidy_axes(axes, str(metric).replace("_", " "))
        handles = []
        for series, style in styles.items():
            if table.loc[table["series"] == series, "mean"].notna().any():
                ls = "-" if lowest[series] < np.inf else "--"
                handles.append(make_legend_entry(series, ls=ls, **style))
        handles.append(make_legend_entry("95 % interval", lw=2, alpha=0.6))
        self._draw_legend(ax, handles)
        return self


def _name_series(table: pd.DataFrame, baseline: str) -> pd.Series:
    """Return the name of the curve of each point: its method, and its encoder if the method has several."""
    if "method" not in table:
        is_baseline = np.isinf(table["epsilon"])
        return is_baseline.map({True: baseline, False: "with privacy"})
    names = table["method"].astype(str)
    if "encoder" in table:
        n_encoders = table.groupby("method")["encoder"].transform("nunique")
        names = names.where(n_encoders < 2, names + ", " + table["encoder"].astype(str))
    return names


def _draw_metric(axes: Axes, table: pd.DataFrame, styles: dict[Any, Any]) -> None:
    """Draw the means and intervals of a metric, with a curve for each series.

    `table` has a row for each point with the columns "series", "epsilon", "mean", "lower" and "upper".
    """
    epsilons = sorted(set(table["epsilon"]) - {np.inf})
    # Points without an epsilon are at the right of the largest epsilon.
    step = (epsilons[-1] / epsilons[0]) ** (1 / max(len(epsilons) - 1, 1))
    right = epsilons[-1] * max(step, 2)
    axes.set_xscale("log")
    for index, (series, style) in enumerate(styles.items()):
        # Series are shifted by a part of a step, so that intervals do not overlap.
        shift = max(step, 2) ** (0.3 * ((index + 0.5) / len(styles) - 0.5))
        points = table[table["series"] == series].sort_values("epsilon")
        for is_limit, part in points.groupby(np.isinf(points["epsilon"])):
            positions = np.minimum(part["epsilon"], right) * shift
            ecolor = style["color"], 0.6
            options = {"ecolor": ecolor, "lw": 1.4, "ms": 5, **style}
            _draw_intervals(axes, part, positions, value="mean", by="y", **options)
            mean = part["mean"]
            if is_limit and np.isfinite(mean).all():
                axes.axhline(mean.item(), color=style["color"], ls="--", lw=1.2)
    # Only the values of epsilon that were computed are labeled.
    ticks = {epsilon: f"{epsilon:.3g}" for epsilon in epsilons}
    label = "epsilon (smaller is more private)"
    if "guess" in table and table["guess"].notna().any():
        guesses = table.groupby("epsilon")["guess"].max().dropna()
        for epsilon, guess in guesses.items():
            ticks[epsilon] += f"\n{100 * guess:.1f}"
        label = "epsilon, and right guesses of 100 (50 without the release)"
    if np.isinf(table["epsilon"]).any():
        ticks[right] = "none"
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.set_xlabel(label)


# Titles of the panels of comparisons, and the value of each that means parity.
DIFFERENCES, RATIOS = "Differences (0 is parity)", "Ratios (1 is parity)"
PARITY = {DIFFERENCES: 0.0, RATIOS: 1.0}


class FairnessDisplay(PanelDisplay):
    """Plot of rates of groups, their differences and ratios, for one or several reports.

    Use `from_reports` to create the display. Each rate has a panel with a row for each
    group. All differences are in one panel, and all ratios in another panel.

    Parameters
    ----------
    reports : mapping of str to DataFrame
        Reports by name, with the columns ``metric, value`` and optionally ``group,
        lower, upper``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels: rates, differences, ratios.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    skdp.metrics.fairness_report : Compute the metrics.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not private,
    unless the reports come from privatized groups only.

    Examples
    --------
    >>> from skdp.evaluation import FairnessDisplay
    >>> from skdp.metrics import fairness_report
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true, y_pred = [1, 1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]
    >>> report = fairness_report(
    ...     y_true, y_pred, sex, privileged="Male", positive_label=1
    ... )
    >>> display = FairnessDisplay.from_reports({"model": report})
    >>> [axes.get_title(loc="left") for axes in display.ax_[:2]]
    ['selection rate', 'true positive rate']
    """

    def __init__(self, reports: Mapping[str, pd.DataFrame]) -> None:
        """Check the reports by name, and join them into one table with a panel and a label for each row."""
        if not isinstance(reports, Mapping) or not reports:
            raise TypeError(
                "`reports` must be a mapping of name to DataFrame with at least one "
                f"item, got {type(reports).__name__}."
            )
        tables = []
        for name, report in reports.items():
            title = f"reports[{name!r}]"
            check_table(report, title, ("metric", "value"), numbers=("value",))
            if "split" in report:
                raise TypeError(
                    f"`{title}` must be a table of fairness_report, got scores of "
                    "splits. Plot a study with PrivacyCurveDisplay.from_curve."
                )
            columns = ["class_vs_rest", "metric", "group", "value", "lower", "upper"]
            table = report.reindex(columns=columns).astype({"group": object})
            tables.append(table.assign(report=str(name)))
        table = pd.concat(tables, ignore_index=True)
        metrics = table["metric"].astype(str).str.replace("_", " ")
        # With more than two classes, each class has its own metrics.
        endings = table["class_vs_rest"].map(", {} vs rest".format)
        table["label"] = metrics + endings.where(table["class_vs_rest"].notna(), "")
        table["panel"] = list(map(_choose_panel, metrics, table["label"]))
        # Rows of rates are labeled by the group, other rows by the metric and the group.
        is_rate = ~table["panel"].isin(PARITY)
        groups = table["group"].map(format_label)
        named = (table["label"] + ", " + groups).where(
            table["group"].notna(), table["label"]
        )
        table["label"] = groups.where(is_rate, named)
        # A rate without a group is the rate of all rows, and is not compared.
        self.table = table[~is_rate | table["group"].notna()]
        if self.table.empty:
            raise ValueError(
                "`reports` must have rates by group, differences or ratios, got none."
            )

    @classmethod
    def from_reports(
        cls, reports: Mapping[str, pd.DataFrame], *, ax: AxesLike | None = None
    ) -> FairnessDisplay:
        """Plot reports by name.

        Parameters
        ----------
        reports : mapping of str to DataFrame
            Results of `fairness_report` or `debiased_fairness` by name, such as the
            reports of several models.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each panel. If None, a new figure is created.

        Returns
        -------
        FairnessDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or a report lacks a column.
        """
        return cls(reports).plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> FairnessDisplay:
        """Plot values as dots and intervals as lines.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            As for `from_reports`.

        Returns
        -------
        FairnessDisplay
            Object that stores the figure.
        """
        # The panels of rates are first, then differences and ratios.
        titles = sorted(dict.fromkeys(self.table["panel"]), key=PARITY.__contains__)
        names = list(dict.fromkeys(self.table["report"]))
        n_rows = self.table.groupby("panel")["label"].nunique()[titles].to_numpy()
        heights = list(0.9 + n_rows * (0.2 + 0.06 * len(names)))
        # One panel per row is readable on the screen of a phone.
        panels = self._use_panels(
            ax, len(titles), width=4.4, height=heights, max_columns=1
        )
        for axes, title in zip(panels, titles, strict=True):
            rows = self.table[self.table["panel"] == title]
            _draw_panel(axes, rows, names)
            tidy_axes(axes, title)
            label_rows(axes, list(dict.fromkeys(rows["label"])))
            if title in PARITY:
                axes.axvline(PARITY[title], color=INK, lw=1.2)
        handles = [
            make_legend_entry(name, ls="none", **choose_series_style(index))
            for index, name in enumerate(names)
        ]
        if self.table["lower"].notna().any():
            handles.append(make_legend_entry("confidence interval", lw=2, alpha=0.6))
        self._draw_legend(ax, handles)
        return self


def _choose_panel(metric: str, label: str) -> str:
    """Return the title of the panel of a metric: differences, ratios, or the label of a rate."""
    if "difference" in metric:
        return DIFFERENCES
    return RATIOS if "impact" in metric or "ratio" in metric else label


def _draw_panel(axes: Axes, table: pd.DataFrame, names: list[str]) -> None:
    """Draw values and intervals of all reports, with one row for each label.

    `table` has the rows of the panel with the columns "report", "label", "value", "lower" and "upper"; `names` are the
    names of the reports in order.
    """
    # Very large limits of ratios would make all other intervals invisible.
    limit = 3.0 if table["panel"].iloc[0] == RATIOS else np.inf
    upper = np.minimum(table["upper"], np.maximum(table["value"], limit))
    table = table.assign(upper=upper)
    rows = list(dict.fromkeys(table["label"]))
    for index, name in enumerate(names):
        report = table[table["report"] == name]
        # Reports are shifted by -0.3 to 0.3 rows, so that they do not overlap.
        shift = 0.6 * ((index + 0.5) / len(names) - 0.5)
        heights = report["label"].map(rows.index).to_numpy(float) + shift
        style = choose_series_style(index)
        options = {"ecolor": (style["color"], 0.6), "ls": "none", "ms": 5.5, **style}
        _draw_intervals(axes, report, heights, value="value", **options)
    # More labels such as 0.9875 would overlap.
    axes.locator_params(axis="x", nbins=5)


# Style of bins whose standard error is not reliable.
HATCH = {"facecolor": "none", "edgecolor": INK, "alpha": 0.25, "hatch": "///", "lw": 0}


class ShapeDisplay(PanelDisplay):
    """Plot of the functions of an additive model, with one panel for each column.

    Use `from_estimator` to create the display. Bins of numbers are drawn as steps, and
    other values as dots, with 95 % intervals given the other functions. Bins whose
    standard error is not reliable are hatched.

    Parameters
    ----------
    shapes : mapping of column name to ShapeFunction
        Functions, as returned by `skdp.DPAdditiveClassifier.shape_`.
    classes : sequence, default=None
        Classes of a classifier.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels.
    figure_ : matplotlib Figure
        Figure containing the panels.

    Notes
    -----
    **Privacy.** The functions are released by `fit`. The figure is post-processing.

    Examples
    --------
    >>> from skdp import DPAdditiveRegressor
    >>> from skdp.datasets import load_adult
    >>> from skdp.evaluation import ShapeDisplay
    >>> people = load_adult().data
    >>> model = DPAdditiveRegressor(
    ...     1.0,
    ...     bounds={"age": (0, 100)},
    ...     categories={"sex": ["Female", "Male"]},
    ...     target_bounds=(0, 100),
    ...     random_state=0,
    ... ).fit(people[["age", "sex"]], people["hours-per-week"])
    >>> display = ShapeDisplay.from_estimator(model)
    >>> [axes.get_title(loc="left") for axes in display.ax_]
    ['age', 'sex']
    """

    def __init__(
        self, shapes: Mapping[Any, Any], *, classes: Sequence[Any] | None = None
    ) -> None:
        if not isinstance(shapes, Mapping) or not shapes:
            raise TypeError(
                "`shapes` must be a mapping of at least one column name to a shape, got "
                f"{type(shapes).__name__}."
            )
        self.shapes = shapes
        self.classes = classes

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        features: Sequence[ColumnName] | None = None,
        *,
        ax: AxesLike | None = None,
    ) -> ShapeDisplay:
        """Plot the functions of a fitted model.

        Parameters
        ----------
        estimator : DPAdditiveClassifier or DPAdditiveRegressor
            Fitted model.
        features : list of column names, default=None
            Columns to draw. If None, all columns are drawn.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each column. If None, a new figure is created.

        Returns
        -------
        ShapeDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the estimator is not an additive model, or a
            column is unknown.
        NotFittedError
            If the model is not fitted.
        """
        if not hasattr(type(estimator), "shape_"):
            raise TypeError(
                "`estimator` must be an additive model, got "
                f"{type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        if isinstance(features, str):
            raise TypeError(
                f"`features` must be a list of column names, such as [{features!r}], "
                "got str."
            )
        if features is None:
            # The scope also contains the target.
            features = estimator.guarantee_.scope[: estimator.n_features_in_]
        shapes = {feature: estimator.shape_(feature) for feature in features}
        return cls(shapes, classes=getattr(estimator, "classes_", None)).plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> ShapeDisplay:
        """Plot the functions.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            As for `from_estimator`.

        Returns
        -------
        ShapeDisplay
            Object that stores the figure.
        """
        panels = self._use_panels(ax, len(self.shapes))
        axis_label = "added to the prediction"
        labels = ["95 % interval"]
        if self.classes is not None and len(self.classes) <= 2:
            axis_label = f"added to the logit of '{self.classes[-1]}'"
        elif self.classes is not None:
            # With more than two classes, each class has a function.
            axis_label = "added to the logit of the class"
            labels = [f"{label}, 95 % interval" for label in self.classes]
        for axes, (name, shape) in zip(panels, self.shapes.items(), strict=True):
            if isinstance(shape.bins, Interval):
                _draw_steps(axes, shape)
                axes.set_ylabel(axis_label)
                axes.axhline(0, color=INK, lw=1)
            else:
                _draw_dots(axes, shape)
                axes.set_xlabel(axis_label)
                axes.axvline(0, color=INK, lw=1)
            tidy_axes(axes, str(name))
        handles = [
            make_legend_entry(label, **choose_series_style(index))
            for index, label in enumerate(labels)
        ]
        if any(patch.get_hatch() for axes in panels for patch in axes.patches):
            from matplotlib.patches import Patch

            handles.append(Patch(**HATCH, label="interval may be too short"))
        self._draw_legend(ax, handles)
        return self


def _select_bins(shape: Any, bins: Any) -> tuple[Any, Any]:
    """Return the values and margins of error (95 %) of some bins; shape (n_bins, n_outputs).

    There is one output for regression and two classes, and otherwise one for each class.
    """
    values = shape.values.reshape(len(shape.values), -1)[bins]
    std_errors = shape.std_error.reshape(len(shape.values), -1)[bins]
    return values, NORMAL.quantile(0.95) * std_errors


def _draw_steps(axes: Axes, shape: Any) -> None:
    """Draw the function of a column of numbers or dates as steps, with one line per output.

    `shape` has the bins, and for each bin the values, standard errors and whether it is supported.
    """
    edges = make_edge_array(shape.bins.edges, shape.bins.dtype)
    # The last entry of a shape, for missing numbers, is not drawn.
    n_bins = len(edges) - 1
    values, errors = _select_bins(shape, slice(n_bins))
    for output, (value, error) in enumerate(zip(values.T, errors.T, strict=True)):
        color = choose_series_style(output)["color"]
        # The band between the two steps is the interval of each bin.
        low, high = value - error, value + error
        axes.stairs(high, edges, baseline=low, fill=True, color=color, alpha=0.25)
        axes.stairs(value, edges, color=color, lw=1.6, baseline=None)
    # Bins whose standard error is not reliable are hatched.
    for unsupported in np.flatnonzero(~shape.is_supported[:n_bins]):
        axes.axvspan(edges[unsupported], edges[unsupported + 1], **HATCH)


def _draw_dots(axes: Axes, shape: Any) -> None:
    """Draw the function of a column of categories as dots, for the values with most records.

    `shape` has the categories, and for each of them the number of records, values and standard errors.
    """
    drawn = np.sort(np.argsort(-shape.counts, kind="stable")[:MAX_DRAWN_VALUES])
    values, errors = _select_bins(shape, drawn)
    for output, (value, error) in enumerate(zip(values.T, errors.T, strict=True)):
        axes.errorbar(
            value,
            np.arange(len(value)),
            xerr=error,
            ls="",
            ms=5,
            capsize=2,
            **choose_series_style(output),
        )
    label_rows(axes, [format_label(shape.bins.labels[bin_]) for bin_ in drawn])
    for row in np.flatnonzero(~shape.is_supported[drawn]):
        axes.axhspan(row - 0.5, row + 0.5, **HATCH)
