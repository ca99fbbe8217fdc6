"""Marginals of a real and a synthetic table, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import AxesLike, TableLike
from skdp.domain import Domain, DomainLike, Interval
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    PanelDisplay,
    check_count,
    check_table,
    import_pyplot,
)
from skdp.metrics import count_error, marginal_errors, marginal_table, value_errors
from skdp.tables import kind_of

_MOST_NUMBERS = 30  # more distinct ones are cut into this number of bins
_PANELS_A_ROW = 3
_ROW_HEIGHTS = {1: 3.0, 2: 3.8}  # inches, by the number of columns in a marginal
_COLOURS = {"real": COLOURS[5], "synthetic": COLOURS[1]}
_MOST_TICKS = 8


class MarginalDisplay(PanelDisplay):
    """Plot of marginals of a real and a synthetic table.

    It is recommended to use `from_tables` to create one. One column is drawn as bars (or steps, if it is cut into
    bins), two columns as two heat maps with one colour scale. Titles state the total-variation distance (TVD): half the
    sum of the absolute differences of the shares, from 0 to 1.

    Parameters
    ----------
    marginals : mapping of tuple of column names to DataFrame
        The shares to draw, of one or two columns each, with the columns real and synthetic and one row for each cell.
    edges : mapping of column name to tuple of float, optional
        The edges of columns that are cut into bins.
    values : mapping of column name to float, optional
        How far the values of columns that are cut into bins are apart, whatever their bins: the distance of
        `skdp.metrics.value_errors`, which titles state.

    Attributes
    ----------
    errors : dict of tuple of column names to float
        The total-variation distance of each marginal.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels, two for a marginal of two columns.

    Raises
    ------
    TypeError, ValueError
        If the marginals are not such a mapping, or are empty.

    See Also
    --------
    skdp.metrics.marginal_error : The mean distance over all marginals.
    skdp.metrics.value_errors : The distances of numbers and dates, also within bins.

    Notes
    -----
    **Privacy.** The real shares are not protected: the figure is for data that is not sensitive.

    Examples
    --------
    >>> import pandas as pd
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "yes", "yes"]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "yes", "no", "yes"]})
    >>> display = MarginalDisplay.from_tables(real, synthetic, ["sex", ("sex", "smokes")])
    >>> display.errors
    {('sex',): 0.0, ('sex', 'smokes'): 0.5}
    >>> [axes.get_title(loc="left") for axes in display.axes_]
    ['sex, TVD 0.000', 'real', 'synthetic, TVD 0.500']
    """

    def __init__(
        self,
        marginals: Mapping[tuple[Any, ...], pd.DataFrame],
        *,
        edges: Mapping[Any, tuple[float, ...]] | None = None,
        values: Mapping[Any, float] | None = None,
    ) -> None:
        if not isinstance(marginals, Mapping):
            raise TypeError(
                f"marginals must be a mapping of tuples of column names to tables, got {type(marginals).__name__}; see "
                "MarginalDisplay.from_tables"
            )
        if not marginals:
            raise ValueError("marginals must hold at least one table")
        for names, table in marginals.items():
            if not isinstance(names, tuple) or len(names) not in (1, 2):
                raise TypeError(
                    "marginals must be named by tuples of one or two column names"
                )
            check_table(
                table,
                f"the marginal of {names}",
                ("real", "synthetic"),
                numbers=("real", "synthetic"),
            )
            if table.index.nlevels != len(names):
                raise ValueError(
                    f"the marginal of {names} must be indexed by {len(names)} columns"
                )
        if edges is not None and not isinstance(edges, Mapping):
            raise TypeError(
                f"edges must be a mapping of column names to edges, got {type(edges).__name__}"
            )
        if values is not None and not isinstance(values, Mapping):
            raise TypeError(
                f"values must be a mapping of column names to distances, got {type(values).__name__}"
            )
        self.marginals = marginals
        self.edges = edges
        self.values = values

    @classmethod
    def from_tables(
        cls,
        real: TableLike,
        synthetic: TableLike,
        columns: Iterable[Any] | None = None,
        *,
        domain: DomainLike | None = None,
        max_values: int = 15,
        ax: AxesLike | None = None,
    ) -> MarginalDisplay:
        """Compare two tables and draw their marginals.

        Parameters
        ----------
        real : dataframe or 2-D array-like of shape (n_real, n_columns)
            The real rows: a pandas, polars or pyarrow table, or an array.
        synthetic : dataframe or 2-D array-like of shape (n_synthetic, n_columns)
            The synthetic rows, of the same columns.
        columns : list of column names and pairs of them, optional
            The marginals to draw: a name for one column, a tuple of two names for both together. By default each
            column.
        domain : Domain or mapping of column name to values or Interval, optional
            The values of columns. For a column that `domain` leaves out, those that occur; more than 30 distinct
            numbers are cut into at most 30 bins of equal width.
        max_values, ax : optional
            See `plot`.

        Returns
        -------
        MarginalDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the tables have no rows or lack a column, a column holds values of different
            kinds in the two tables, or the columns, the domain, `max_values` or `ax` do not fit.
        """
        import_pyplot()
        if columns is None:
            columns = marginal_errors(real, synthetic, order=1, domain=domain)[
                "columns"
            ]
        chosen = _read_columns(columns)
        declared = _declare(
            real,
            synthetic,
            dict.fromkeys(name for names in chosen for name in names),
            domain,
        )
        marginals = {
            names: marginal_table(real, synthetic, names, domain=declared)
            for names in chosen
        }
        edges = {
            name: values.edges
            for name, values in declared.items()
            if isinstance(values, Interval)
        }
        binned = [names[0] for names in chosen if len(names) == 1 and names[0] in edges]
        within = (
            value_errors(real, synthetic, columns=binned, domain=declared)
            if binned
            else None
        )
        values = (
            {}
            if within is None
            else dict(zip(within["column"], within["distance"], strict=True))
        )
        return cls(marginals, edges=edges, values=values).plot(
            max_values=max_values, ax=ax
        )

    @property
    def errors(self) -> dict[tuple[Any, ...], float]:  # numpydoc ignore=RT01
        """The total-variation distance of each marginal."""
        return {
            names: count_error(
                table["real"], table["synthetic"], metric="total_variation"
            )
            for names, table in self.marginals.items()
        }

    def plot(
        self, *, max_values: int = 15, ax: AxesLike | None = None
    ) -> MarginalDisplay:
        """Draw the marginals.

        Parameters
        ----------
        max_values : int, default=15
            Number of values of a column of text to draw, at least 2: the most frequent ones in the real table, and the
            others as one. The distances in the titles are those of all values.
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on: one for each marginal of one column and two for each of two columns, those of one
            column first. By default those of a new figure.

        Returns
        -------
        MarginalDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the number of panels is wrong, or `max_values` is not an int or less than 2.
        """
        check_count(max_values, "max_values", least=2)
        pyplot = import_pyplot()
        ordered = sorted(self.marginals, key=len)
        kinds = ", one for each column of each marginal"
        panels = self._use_panels(
            ax, sum(map(len, ordered)), kinds, lambda: _new_panels(pyplot, ordered)
        )
        errors, free = self.errors, iter(panels)
        for names in ordered:
            scales, shares = self._scale(names, max_values)
            title = f"TVD {errors[names]:.3f}"
            if len(names) == 1 and names[0] in (self.values or {}):
                title += f", values {(self.values or {})[names[0]]:.3f}"
            if len(names) == 1:
                _draw_one(next(free), names[0], scales[0], shares, title)
            else:
                pair = next(free), next(free)
                image = _draw_pair(pair, names, scales, shares, title)
                self.figure_.colorbar(image, ax=list(pair), label="share")
        handles, labels = panels[0].get_legend_handles_labels()
        if handles:  # heat maps have a colour bar
            self._draw_legend(ax, handles, labels, loc="outside upper right", ncols=2)
        return self

    def _scale(
        self, names: tuple[Any, ...], most: int
    ) -> tuple[list[_Scale], dict[str, NDArray[np.float64]]]:
        """Choose the labels of the columns of a marginal, and reshape its shares to one axis per column."""
        table = self.marginals[names]
        values = [
            table.index.get_level_values(level).unique().to_list()
            for level in range(len(names))
        ]
        shares = {
            side: table[side].to_numpy().reshape(list(map(len, values)))
            for side in ("real", "synthetic")
        }
        scales = []
        for axis, name in enumerate(names):
            frequent = shares["real"].sum(axis=tuple({*range(len(names))} - {axis}))
            scales.append(
                _Scale.of(values[axis], frequent, (self.edges or {}).get(name), most)
            )
        return scales, shares


def _read_columns(columns: Any) -> list[tuple[Any, ...]]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(
            f"columns must be a list of column names and pairs of them, got {type(columns).__name__}"
        )
    marginals = list(
        dict.fromkeys(
            names if isinstance(names, tuple) else (names,) for names in columns
        )
    )
    if not marginals:
        raise ValueError("columns must name at least one column")
    for names in marginals:
        if len(names) not in (1, 2):
            raise ValueError(
                f"columns must be names or pairs of names, got a tuple of {len(names)}"
            )
    return marginals


def _declare(
    real: Any, synthetic: Any, columns: Iterable[Any], domain: Any
) -> dict[Any, Any]:
    """Return the declared domains, with bins for undeclared columns of many numbers."""
    if domain is not None and not isinstance(domain, Domain | Mapping):
        raise TypeError(
            f"domain must be a Domain or a mapping of column name to values, got {type(domain).__name__}"
        )
    names = domain.columns if isinstance(domain, Domain) else list(domain or ())
    declared = {name: domain[name] for name in names} if domain else {}
    for name in columns:
        if name not in declared:
            values = marginal_table(
                real, synthetic, [name], domain=domain
            ).index.dropna()
            if len(values) > _MOST_NUMBERS and kind_of(values[0]) == "number":
                declared[name] = _cut(values)
    return declared


def _cut(values: pd.Index) -> Interval:
    """Cut a range of numbers into bins; bins of whole numbers have the same number of them."""
    low, high = float(values.min()), float(values.max())
    if not all(float(value).is_integer() for value in values):
        return Interval(low, high, bins=_MOST_NUMBERS)
    width = math.ceil((high - low + 1) / _MOST_NUMBERS)
    bins = math.ceil((high - low + 1) / width)
    return Interval(low, low + bins * width, bins=bins)


def _new_panels(pyplot: Any, marginals: list[tuple[Any, ...]]) -> list[Any]:
    """Lay out a figure: up to three columns of the table side by side, then one row per pair."""
    ones = sum(len(names) == 1 for names in marginals)
    pairs = len(marginals) - ones
    across = min(ones, _PANELS_A_ROW) if not pairs else min(max(ones, 2), _PANELS_A_ROW)
    heights = [_ROW_HEIGHTS[1]] * math.ceil(ones / across) + [_ROW_HEIGHTS[2]] * pairs
    figure = pyplot.figure(
        figsize=(max(4 * across, 5), sum(heights) + 0.4), layout="constrained"
    )
    grid = figure.add_gridspec(len(heights), 6, height_ratios=heights)
    width = 6 // across
    places = [
        (place // across, slice(place % across * width, (place % across + 1) * width))
        for place in range(ones)
    ]
    for row in range(len(heights) - pairs, len(heights)):
        places += [(row, slice(0, 3)), (row, slice(3, 6))]
    return [figure.add_subplot(grid[place]) for place in places]


@dataclass(frozen=True)
class _Scale:
    """The labels and the pooling of the cells of a column."""

    labels: tuple[str, ...]
    places: NDArray[np.intp]
    edges: tuple[Any, ...] | None
    ordered: bool

    @classmethod
    def of(
        cls,
        values: list[Any],
        shares: NDArray[np.float64],
        edges: tuple[Any, ...] | None,
        most: int,
    ) -> _Scale:
        """Choose the labels of a column; the least frequent of too many text values share one."""
        labels = [_label(value) for value in values]
        ordered = edges is not None or any(
            not pd.isna(value) and kind_of(value) == "number" for value in values
        )
        if ordered or len(labels) <= most:
            return cls(tuple(labels), np.arange(len(labels)), edges, ordered)
        kept = np.sort(np.argsort(-shares, kind="stable")[: most - 1])
        places = np.full(len(labels), most - 1)
        places[kept] = np.arange(most - 1)
        others = f"({len(labels) - most + 1} others)"
        return cls((*(labels[place] for place in kept), others), places, None, False)

    def pool(self, shares: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
        """Sum the shares that are drawn under one label."""
        pooled = np.zeros((len(self.labels), *np.moveaxis(shares, axis, 0).shape[1:]))
        np.add.at(pooled, self.places, np.moveaxis(shares, axis, 0))
        return np.moveaxis(pooled, 0, axis)


def _draw_one(
    axes: Any,
    name: Any,
    scale: _Scale,
    shares: dict[str, NDArray[np.float64]],
    title: str,
) -> None:
    """Draw the shares of one column: steps over bins, bars for values."""
    pooled = {side: scale.pool(share) for side, share in shares.items()}
    if scale.edges is not None:
        _draw_steps(axes, scale, pooled)
    else:
        _draw_bars(axes, scale, pooled)
    axes.set_title(
        f"{name}, {title}", loc="left", color=INK, fontsize="medium", parse_math=False
    )
    axes.spines[["top", "right"]].set_visible(False)


def _draw_pair(
    panels: tuple[Any, Any],
    names: Any,
    scales: Any,
    shares: dict[str, NDArray[np.float64]],
    title: str,
) -> Any:
    """Draw the shares of two columns as heat maps with a common colour scale."""
    from matplotlib.colors import PowerNorm

    down, across = scales
    pooled = {
        side: across.pool(down.pool(share), axis=1) for side, share in shares.items()
    }
    # Square-root colour scale: one frequent value must not hide the differences among the others.
    norm = PowerNorm(
        0.5, vmin=0, vmax=max(float(share.max()) for share in pooled.values())
    )
    for axes, (side, share) in zip(panels, pooled.items(), strict=True):
        image = axes.imshow(
            share, norm=norm, cmap="Blues", aspect="auto", interpolation="nearest"
        )
        _write_ticks(axes.xaxis, across, rotated=True)
        _write_ticks(axes.yaxis, down)
        axes.set_xlabel(str(names[1]), parse_math=False)
        axes.set_title(
            side if side == "real" else f"{side}, {title}",
            loc="left",
            color=INK,
            fontsize="medium",
        )
    panels[0].set_ylabel(str(names[0]), parse_math=False)
    panels[1].tick_params(labelleft=False)
    return image


def _draw_steps(
    axes: Any, scale: _Scale, pooled: dict[str, NDArray[np.float64]]
) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.ticker import EngFormatter, MaxNLocator

    edges: Any = scale.edges or ()
    bins = len(edges) - 1
    if isinstance(edges[0], date):
        edges = date2num(edges)
        locator = AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if max(map(abs, edges)) >= 10_000:
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.stairs(
        pooled["real"][:bins],
        edges,
        fill=True,
        color=_COLOURS["real"],
        alpha=0.6,
        label="real",
    )
    axes.stairs(
        pooled["synthetic"][:bins],
        edges,
        color=_COLOURS["synthetic"],
        lw=1.6,
        label="synthetic",
    )
    axes.set_ylabel("share")
    beyond = [
        f"{label}: {pooled['real'][place]:.1%} | {pooled['synthetic'][place]:.1%}"
        for place, label in enumerate(scale.labels[bins:], start=bins)
        if pooled["real"][place] or pooled["synthetic"][place]
    ]
    if beyond:
        axes.set_xlabel("\n".join(beyond), fontsize="small", parse_math=False)


def _draw_bars(
    axes: Any, scale: _Scale, pooled: dict[str, NDArray[np.float64]]
) -> None:
    """Draw labels of numbers upright and rotate those of text."""
    for side, shift in (("real", -0.2), ("synthetic", 0.2)):
        places, style = (
            np.arange(len(scale.labels)) + shift,
            {"color": _COLOURS[side], "label": side},
        )
        if scale.ordered:
            axes.bar(places, pooled[side], width=0.4, **style)
        else:
            axes.barh(places, pooled[side], height=0.4, **style)
    if scale.ordered:
        _write_ticks(axes.xaxis, scale)
        axes.set_ylabel("share")
    else:
        _write_ticks(axes.yaxis, scale)
        axes.invert_yaxis()
        axes.set_xlabel("share")


def _write_ticks(axis: Any, scale: _Scale, *, rotated: bool = False) -> None:
    """Write every label; for numbers and bins a few at equal distances, and those outside the bins."""
    bins = len(scale.edges) - 1 if scale.edges else len(scale.labels)
    step = -(-bins // _MOST_TICKS) if scale.ordered else 1
    places = [*range(0, bins, step), *range(bins, len(scale.labels))]
    size = "small" if len(places) <= 10 else "x-small"
    axis.set_ticks(
        places,
        [_short(scale.labels[place]) for place in places],
        fontsize=size,
        parse_math=False,
    )
    if rotated and max(map(len, scale.labels)) > 3:
        axis.set_tick_params(rotation=90)


def _label(value: Any) -> str:
    if pd.isna(value):
        return "missing"
    return f"{value:g}" if kind_of(value) == "number" else str(value)


def _short(label: str) -> str:
    return label if len(label) <= 20 else f"{label[:19]}…"
