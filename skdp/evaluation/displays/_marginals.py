"""Marginals of a real and a synthetic table, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import kind_of
from skdp.domain import Domain, Interval
from skdp.evaluation.displays._marginal_panels import Scale, draw_one, draw_pair
from skdp.evaluation.displays._style import PanelDisplay, check_table, import_pyplot
from skdp.metrics import marginal_errors, marginal_table, total_variation

_MOST_NUMBERS = 30  # more distinct ones are cut into this number of bins
_PANELS_A_ROW = 3
_ROW_HEIGHTS = {1: 3.0, 2: 3.8}  # inches, by the number of columns in a marginal


class MarginalDisplay(PanelDisplay):
    """Plot of marginals of a real and a synthetic table.

    It is recommended to use `from_tables` to create one. One column is drawn as bars (or steps, if it is cut into
    bins), two columns as two heat maps with one colour scale. Titles state the total-variation distance (TVD): half the
    sum of the absolute differences of the shares, from 0 to 1.

    Parameters
    ----------
    marginals : mapping of tuple of column names to DataFrame
        The shares to draw, of one or two columns each, as returned by `marginal_table`.
    edges : mapping of column name to tuple of float, optional
        The edges of columns that are cut into bins.

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
    skdp.metrics.marginal_table : The numbers behind a panel.
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
                raise TypeError("marginals must be named by tuples of one or two column names")
            check_table(table, f"the marginal of {names}", ("real", "synthetic"), numbers=("real", "synthetic"))
            if table.index.nlevels != len(names):
                raise ValueError(f"the marginal of {names} must be indexed by {len(names)} columns")
        if edges is not None and not isinstance(edges, Mapping):
            raise TypeError(f"edges must be a mapping of column names to edges, got {type(edges).__name__}")
        self.marginals = marginals
        self.edges = edges

    @classmethod
    def from_tables(
        cls,
        real: Any,
        synthetic: Any,
        columns: Iterable[Any] | None = None,
        *,
        domain: Any = None,
        max_values: int = 15,
        ax: Any = None,
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
        max_values : int, default=15
            See `plot`.
        ax : matplotlib Axes or array-like of them, optional
            See `plot`.

        Returns
        -------
        MarginalDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If the tables have no rows or lack a column, a column holds values of different kinds in the two tables, or
            the columns, the domain, `max_values` or `ax` do not fit.
        """
        import_pyplot()
        if columns is None:
            columns = marginal_errors(real, synthetic, order=1, domain=domain)["columns"]
        chosen = _read_columns(columns)
        declared = _declare(real, synthetic, dict.fromkeys(name for names in chosen for name in names), domain)
        marginals = {names: marginal_table(real, synthetic, names, domain=declared) for names in chosen}
        edges = {name: values.edges for name, values in declared.items() if isinstance(values, Interval)}
        return cls(marginals, edges=edges).plot(max_values=max_values, ax=ax)

    @property
    def errors(self) -> dict[tuple[Any, ...], float]:  # numpydoc ignore=RT01
        """The total-variation distance of each marginal."""
        return {names: total_variation(table["real"], table["synthetic"]) for names, table in self.marginals.items()}

    def plot(self, *, max_values: int = 15, ax: Any = None) -> MarginalDisplay:
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
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If the number of panels is wrong, or `max_values` is not an int or less than 2.
        """
        if not isinstance(max_values, int):
            raise TypeError(f"max_values must be an int, got {type(max_values).__name__}")
        if max_values < 2:
            raise ValueError(f"max_values must be at least 2, got {max_values}")
        pyplot = import_pyplot()
        ordered = sorted(self.marginals, key=len)
        kinds = ", one for each column of each marginal"
        panels = self._use_panels(ax, sum(map(len, ordered)), kinds, lambda: _new_panels(pyplot, ordered))
        errors, free = self.errors, iter(panels)
        for names in ordered:
            scales, shares = self._scale(names, max_values)
            title = f"TVD {errors[names]:.3f}"
            if len(names) == 1:
                draw_one(next(free), names[0], scales[0], shares, title)
            else:
                pair = next(free), next(free)
                image = draw_pair(pair, names, scales, shares, title)
                self.figure_.colorbar(image, ax=list(pair), label="share")
        handles, labels = panels[0].get_legend_handles_labels()
        if handles:  # heat maps have a colour bar
            self._draw_legend(ax, handles, labels, loc="outside upper right", ncols=2)
        return self

    def _scale(self, names: tuple[Any, ...], most: int) -> tuple[list[Scale], dict[str, NDArray[np.float64]]]:
        """Choose the labels of the columns of a marginal, and reshape its shares to one axis per column."""
        table = self.marginals[names]
        values = [table.index.get_level_values(level).unique().to_list() for level in range(len(names))]
        shares = {side: table[side].to_numpy().reshape(list(map(len, values))) for side in ("real", "synthetic")}
        scales = []
        for axis, name in enumerate(names):
            frequent = shares["real"].sum(axis=tuple({*range(len(names))} - {axis}))
            scales.append(Scale.of(values[axis], frequent, (self.edges or {}).get(name), most))
        return scales, shares


def _read_columns(columns: Any) -> list[tuple[Any, ...]]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a list of column names and pairs of them, got {type(columns).__name__}")
    marginals = list(dict.fromkeys(names if isinstance(names, tuple) else (names,) for names in columns))
    if not marginals:
        raise ValueError("columns must name at least one column")
    for names in marginals:
        if len(names) not in (1, 2):
            raise ValueError(f"columns must be names or pairs of names, got a tuple of {len(names)}")
    return marginals


def _declare(real: Any, synthetic: Any, columns: Iterable[Any], domain: Any) -> dict[Any, Any]:
    """Return the declared domains, with bins for undeclared columns of many numbers."""
    if domain is not None and not isinstance(domain, Domain | Mapping):
        raise TypeError(f"domain must be a Domain or a mapping of column name to values, got {type(domain).__name__}")
    names = domain.columns if isinstance(domain, Domain) else list(domain or ())
    declared = {name: domain[name] for name in names} if domain else {}
    for name in columns:
        if name not in declared:
            values = marginal_table(real, synthetic, [name], domain=domain).index.dropna()
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
    figure = pyplot.figure(figsize=(max(4 * across, 5), sum(heights) + 0.4), layout="constrained")
    grid = figure.add_gridspec(len(heights), 6, height_ratios=heights)
    width = 6 // across
    places = [(place // across, slice(place % across * width, (place % across + 1) * width)) for place in range(ones)]
    for row in range(len(heights) - pairs, len(heights)):
        places += [(row, slice(0, 3)), (row, slice(3, 6))]
    return [figure.add_subplot(grid[place]) for place in places]
