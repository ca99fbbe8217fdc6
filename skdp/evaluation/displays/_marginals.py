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
from skdp.evaluation._common import check_count, check_table
from skdp.evaluation.displays._style import (
    COLOURS,
    PanelDisplay,
    import_pyplot,
    new_grid,
    title_panel,
)
from skdp.metrics import count_error, marginal_errors, marginal_table, value_errors
from skdp.tables import kind_of

_MOST_NUMBERS = 30  # more distinct ones are cut into this number of bins
_SIDES = {"real": COLOURS[5], "synthetic": COLOURS[1]}

Shares = dict[str, NDArray[np.float64]]
"""By the side, real or synthetic: an array with an axis for each column of a marginal."""


class MarginalDisplay(PanelDisplay):
    """Plot of marginals of a real and a synthetic table.

    `from_tables` makes one of two tables. One column is drawn as bars (or steps, if it is cut into
    bins), two columns as two heat maps with one colour scale. Titles state the total-variation distance (TVD): half the
    sum of the absolute differences of the shares, from 0 to 1.

    Parameters
    ----------
    marginals : mapping of tuple of column names to DataFrame
        The shares to draw, of one or two columns each, with the columns real and synthetic and one row for each cell.
    edges : mapping of column name to tuple of float, optional
        The edges of columns that are cut into bins.
    values : mapping of column name to float, optional
        How far the values of columns that are cut into bins are apart, whatever their bins: the largest difference
        of their distribution functions, which titles state.

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
        options: dict[str, Any] = {"edges": edges or {}, "values": values or {}}
        kinds = {"edges": "edges", "values": "distances"}
        for name, option in options.items():
            if not isinstance(option, Mapping):
                raise TypeError(
                    f"{name} must be a mapping of column names to {kinds[name]}, "
                    f"got {type(option).__name__}"
                )
        _check_marginals(marginals)
        self.marginals = marginals
        self.edges = options["edges"]
        self.values = options["values"]

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
            errors = marginal_errors(real, synthetic, order=1, domain=domain)
            columns = errors["columns"]
        names = _read_columns(columns)
        # Both tables are counted in the same bins.
        declared = _declare(real, synthetic, names, domain)
        marginals = {}
        edges = {}
        binned = []
        # The shares of bins hide what is off within them: its distance is stated, too.
        for pair in names:
            marginals[pair] = marginal_table(real, synthetic, pair, domain=declared)
            for name in pair:
                if isinstance(declared.get(name), Interval):
                    edges[name] = declared[name].edges
            if len(pair) == 1 and pair[0] in edges:
                binned.append(pair[0])
        values = {}
        if binned:
            table = value_errors(real, synthetic, columns=binned, domain=declared)
            values = table.set_index("column")["distance"].to_dict()
        display = cls(marginals, edges=edges, values=values)
        return display.plot(max_values=max_values, ax=ax)

    @property
    def errors(self) -> dict[tuple[Any, ...], float]:  # numpydoc ignore=RT01
        """The total-variation distance of each marginal."""
        errors = {}
        for names, table in self.marginals.items():
            errors[names] = count_error(
                table["real"], table["synthetic"], metric="total_variation"
            )
        return errors

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
        import_pyplot()
        ordered = sorted(self.marginals, key=len)
        n_panels = sum(map(len, ordered))
        panels = self._use_panels(
            ax,
            n_panels,
            ", one for each column of each marginal",
            lambda: _new_panels(ordered),
        )
        errors = self.errors
        place = 0
        for names in ordered:
            axes = panels[place : place + len(names)]
            place += len(names)
            scales, shares = self._pooled(names, max_values)
            title = f"TVD {errors[names]:.3f}"
            if len(names) == 2:
                image = _draw_pair(axes, names, scales, shares, title)
                self.figure_.colorbar(image, ax=axes, label="share")
                continue
            if names[0] in self.values:
                title += f", values {self.values[names[0]]:.3f}"
            handles = _draw_one(axes[0], scales[0], shares)
            title_panel(axes[0], f"{names[0]}, {title}")
        if len(ordered[0]) == 1:  # heat maps have a colour bar
            self._draw_legend(ax, handles, loc="outside upper right", ncols=2)
        return self

    def _pooled(self, names: tuple[Any, ...], most: int) -> tuple[list[_Scale], Shares]:
        """Choose the labels of the columns of a marginal, and sum the shares under each label."""
        table = self.marginals[names]
        levels = [table.index.unique(level).to_list() for level in range(len(names))]
        sizes = list(map(len, levels))
        # An axis for each column of the marginal: its cells are all combinations.
        shares = {side: table[side].to_numpy().reshape(sizes) for side in _SIDES}
        scales = []
        for axis, (name, values) in enumerate(zip(names, levels, strict=True)):
            # The shares of the column alone. The real table says which values are
            # frequent, as the synthetic one is judged by it.
            frequencies = np.moveaxis(shares["real"], axis, 0)
            frequencies = frequencies.reshape(sizes[axis], -1).sum(axis=1)
            scales.append(_Scale.of(values, frequencies, self.edges.get(name), most))
        for axis, scale in enumerate(scales):
            shares = {side: scale.pool(share, axis) for side, share in shares.items()}
        return scales, shares


def _check_marginals(marginals: Any) -> None:
    """Check the tables and their names."""
    if not isinstance(marginals, Mapping):
        raise TypeError(
            "marginals must be a mapping of tuples of column names to tables, got "
            f"{type(marginals).__name__}; see MarginalDisplay.from_tables"
        )
    if not marginals:
        raise ValueError("marginals must hold at least one table")
    for names, table in marginals.items():
        if not isinstance(names, tuple) or len(names) not in (1, 2):
            raise TypeError(
                "marginals must be named by tuples of one or two column names"
            )
        check_table(table, f"the marginal of {names}", _SIDES, numbers=_SIDES)
        if table.index.nlevels != len(names):
            raise ValueError(
                f"the marginal of {names} must be indexed by {len(names)} columns"
            )


def _read_columns(columns: Any) -> list[tuple[Any, ...]]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(
            "columns must be a list of column names and pairs of them, got "
            f"{type(columns).__name__}"
        )
    pairs = []
    for names in columns:
        pairs.append(names if isinstance(names, tuple) else (names,))
    if not pairs:
        raise ValueError("columns must name at least one column")
    # More than two columns cannot be drawn on a plane.
    for names in pairs:
        if len(names) not in (1, 2):
            raise ValueError(
                f"columns must be names or pairs of names, got a tuple of {len(names)}"
            )
    return list(dict.fromkeys(pairs))


def _declare(
    real: Any, synthetic: Any, marginals: list[tuple[Any, ...]], domain: Any
) -> dict[Any, Any]:
    """Return the declared domains, with bins for undeclared columns of many numbers."""
    # A domain is checked here, as names are looked up in it before it is used.
    if domain is not None and not isinstance(domain, Domain | Mapping):
        raise TypeError(
            "domain must be a Domain or a mapping of column name to values, got "
            f"{type(domain).__name__}"
        )
    columns = domain.columns if isinstance(domain, Domain) else domain or ()
    declared = {name: domain[name] for name in columns} if domain else {}
    for name in dict.fromkeys(sum(marginals, ())):
        if name in declared:
            continue
        # By the values of both tables: no value of either is outside of the bins.
        table = marginal_table(real, synthetic, [name], domain=domain)
        values = table.index.dropna()
        if len(values) > _MOST_NUMBERS and kind_of(values[0]) == "number":
            declared[name] = _cut(values)
    return declared


def _cut(values: pd.Index) -> Interval:
    """Cut a range of numbers into bins; bins of whole numbers have the same number of them."""
    low, high = float(values.min()), float(values.max())
    if (values.astype(float) % 1 != 0).any():
        return Interval(low, high, bins=_MOST_NUMBERS)
    # Whole numbers per bin, so that no bin has more of them than another by rounding.
    width = math.ceil((high - low + 1) / _MOST_NUMBERS)
    bins = math.ceil((high - low + 1) / width)
    return Interval(low, low + bins * width, bins=bins)


def _new_panels(marginals: list[tuple[Any, ...]]) -> list[Any]:
    """Lay out a figure: single columns two in a row, then a row for each pair."""
    n_single = sum(len(names) == 1 for names in marginals)
    n_pairs = len(marginals) - n_single
    if not n_pairs:
        return new_grid(n_single, width=4.0, height=3.0, margin=0.4)
    # The two heat maps of a pair are beside each other.
    n_cells = 2 * math.ceil(n_single / 2)
    grid = new_grid(n_cells + 2 * n_pairs, width=4, height=3.4, margin=0.4, across=2)
    for unused in grid[n_single:n_cells]:
        unused.remove()
    return grid[:n_single] + grid[n_cells:]


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
        labels = list(map(_label, values))
        ordered = edges is not None or any(map(_is_number, values))
        if ordered or len(labels) <= most:
            return cls(tuple(labels), np.arange(len(labels)), edges, ordered)
        n_frequent = most - 1
        frequent = np.sort(np.argsort(-shares, kind="stable")[:n_frequent])
        places = np.full(len(labels), n_frequent)
        places[frequent] = np.arange(n_frequent)
        names = [labels[place] for place in frequent]
        names.append(f"({len(labels) - n_frequent} others)")
        return cls(tuple(names), places, None, ordered)

    def pool(self, shares: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Sum the shares that are drawn under one label."""
        by_value = np.moveaxis(shares, axis, 0)
        # (n_labels, ...): values that share a label are added up.
        pooled = np.zeros((len(self.labels), *by_value.shape[1:]))
        np.add.at(pooled, self.places, by_value)
        return np.moveaxis(pooled, 0, axis)


def _draw_one(axes: Any, scale: _Scale, shares: Shares) -> list[Any]:
    """Draw the shares of one column, and return what a legend explains."""
    axes.spines[["top", "right"]].set_visible(False)
    if scale.edges is not None:
        return _draw_steps(axes, scale, shares)
    return _draw_bars(axes, scale, shares)


def _draw_pair(
    panels: list[Any], names: Any, scales: list[_Scale], shares: Shares, title: str
) -> Any:
    """Draw the shares of two columns as heat maps with a common colour scale."""
    from matplotlib.colors import PowerNorm

    down, across = scales
    largest = max(shares["real"].max(), shares["synthetic"].max())
    # Square-root colour scale: one frequent value must not hide the differences among
    # the others.
    norm = PowerNorm(0.5, vmin=0, vmax=float(largest))
    titles = "real", f"synthetic, {title}"
    for axes, side, text in zip(panels, _SIDES, titles, strict=True):
        image = axes.imshow(
            shares[side],
            norm=norm,
            cmap="Blues",
            aspect="auto",
            interpolation="nearest",
        )
        _write_ticks(axes.xaxis, across)
        if max(map(len, across.labels)) > 3:
            axes.xaxis.set_tick_params(rotation=90)
        _write_ticks(axes.yaxis, down)
        axes.set_xlabel(str(names[1]), parse_math=False)
        title_panel(axes, text)
    panels[0].set_ylabel(str(names[0]), parse_math=False)
    panels[1].tick_params(labelleft=False)
    return image


def _draw_steps(axes: Any, scale: _Scale, shares: Shares) -> list[Any]:
    """Draw the shares of bins as steps, and write those outside of the bins below."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.ticker import EngFormatter, MaxNLocator

    edges: Any = scale.edges
    n_bins = len(edges) - 1
    if isinstance(edges[0], date):
        edges = date2num(edges)
        locator = AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if max(map(abs, edges)) >= 10_000:
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    # Real rows as an area, synthetic ones as a line over it: both are seen where they
    # agree.
    styles = {"real": {"fill": True, "alpha": 0.6}, "synthetic": {"lw": 1.6}}
    handles = []
    for side, style in styles.items():
        heights = shares[side][:n_bins]
        steps = axes.stairs(heights, edges, color=_SIDES[side], label=side, **style)
        handles.append(steps)
    axes.set_ylabel("share")
    lines = []
    for place in range(n_bins, len(scale.labels)):
        real, synthetic = shares["real"][place], shares["synthetic"][place]
        if real or synthetic:
            lines.append(f"{scale.labels[place]}: {real:.1%} | {synthetic:.1%}")
    if lines:
        axes.set_xlabel("\n".join(lines), fontsize="small", parse_math=False)
    return handles


def _draw_bars(axes: Any, scale: _Scale, shares: Shares) -> list[Any]:
    """Draw the shares of values as bars: of numbers upright, of text lying."""
    # Numbers have an order, from left to right; texts are read best in lines.
    places = np.arange(len(scale.labels))
    handles = []
    for side, shift in (("real", -0.2), ("synthetic", 0.2)):
        style = {"color": _SIDES[side], "label": side}
        if scale.ordered:
            bars = axes.bar(places + shift, shares[side], width=0.4, **style)
        else:
            bars = axes.barh(places + shift, shares[side], height=0.4, **style)
        handles.append(bars)
    if scale.ordered:
        _write_ticks(axes.xaxis, scale)
        axes.set_ylabel("share")
    else:
        _write_ticks(axes.yaxis, scale)
        axes.invert_yaxis()
        axes.set_xlabel("share")
    return handles


def _write_ticks(axis: Any, scale: _Scale) -> None:
    """Write every label; for numbers and bins a few at equal distances, and those outside the bins."""
    n_labels = len(scale.labels)
    n_bins = len(scale.edges) - 1 if scale.edges else n_labels
    # About eight labels fit below a panel.
    step = math.ceil(n_bins / 8) if scale.ordered else 1
    places = [*range(0, n_bins, step), *range(n_bins, n_labels)]
    labels = list(map(_short, map(scale.labels.__getitem__, places)))
    size = "small" if len(places) <= 10 else "x-small"
    axis.set_ticks(places, labels, fontsize=size, parse_math=False)


def _label(value: Any) -> str:
    """Write a value."""
    if pd.isna(value):
        return "missing"
    return f"{value:g}" if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    """Whether a value is a number, and not missing."""
    return not pd.isna(value) and kind_of(value) == "number"


def _short(label: str) -> str:
    """Cut a long label."""
    return label if len(label) <= 20 else f"{label[:19]}…"
