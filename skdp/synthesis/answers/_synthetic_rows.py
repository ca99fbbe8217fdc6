"""Synthetic rows: numbers within bins, rows that satisfy constraints, and tables like the table of `fit`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp._arrays import Codes, ColumnName, Floats, Indices, Mask
from skdp.domain import Domain, Interval
from skdp.randomness import check_size
from skdp.synthesis.model import GraphicalModel
from skdp.synthesis.private._number_cells import Shape, draw_within
from skdp.tables import (
    Table,
    library_of,
    to_column,
    wrap_table,
)

MAX_ROUNDS = 200
"""Largest number of times that rows which violate a constraint are resampled."""

MAX_NUMBER_ROUNDS = 20
"""Largest number of these times for numbers within bins alone, which keep the frequencies of values and bins."""

MIN_RANK_DISTANCE = 1e-9
"""Smallest distance of ranks from 0, from 1 and from each other, so that normal scores are finite."""


def check_n_samples(n_samples: object, name: str = "n_samples") -> None:
    """Check the number of rows to draw; None stands for the estimated number of records."""
    if n_samples is not None:
        check_size(n_samples, name=name, min_val=0, max_val=10**9)


@dataclass(frozen=True)
class DrawnRows:
    """Rows as codes of each column, and the numbers and dates drawn within their bins."""

    domain: Domain
    codes: list[Codes]
    numbers: dict[Any, NDArray[Any]]
    """Numbers and dates by name of the column."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.codes[0])

    def take(self, rows: Indices) -> DrawnRows:
        """Return the rows at some indices."""
        codes = [column_codes[rows] for column_codes in self.codes]
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        return DrawnRows(self.domain, codes, numbers)

    def join(self, other: DrawnRows, domain: Domain) -> DrawnRows:
        """Return rows with the columns of both, which are the columns of a domain."""
        codes = [*self.codes, *other.codes]
        return DrawnRows(domain, codes, self.numbers | other.numbers)

    def sort(self, name: ColumnName, groups: Indices) -> Indices:
        """Return the indices of rows sorted by groups and, within them, by a column; missing values are last."""
        index = self.domain.columns.index(name)
        # The codes of bins are ordered, and a missing value has the last code.
        numbers = self.numbers.get(name, self.codes[index])
        return np.lexsort((numbers, self.codes[index], groups))

    def sort_values(self, name: ColumnName, groups: Indices) -> DrawnRows:
        """Return rows with the values of a column sorted within groups, whose rows are next to each other."""
        order = self.sort(name, groups)
        codes, numbers = list(self.codes), dict(self.numbers)
        index = self.domain.columns.index(name)
        codes[index] = codes[index][order]
        if name in numbers:
            numbers[name] = numbers[name][order]
        return DrawnRows(self.domain, codes, numbers)

    @classmethod
    def concatenate(cls, batches: Sequence[DrawnRows]) -> DrawnRows:
        """Return the rows of all batches."""
        columns = zip(*(batch.codes for batch in batches), strict=True)
        codes = [np.concatenate(column) for column in columns]
        numbers = {}
        for name in batches[0].numbers:
            numbers[name] = np.concatenate([batch.numbers[name] for batch in batches])
        return cls(batches[0].domain, codes, numbers)

    def replace(self, rows: Indices, source: DrawnRows, chosen: Indices) -> None:
        """Replace the rows at some indices by the chosen rows of `source`."""
        for codes, source_codes in zip(self.codes, source.codes, strict=True):
            codes[rows] = source_codes[chosen]
        for name, numbers in source.numbers.items():
            self.numbers[name][rows] = numbers[chosen]


def draw_numbers(
    domain: Domain,
    codes: Sequence[Codes],
    rng: np.random.Generator,
    shapes: Mapping[int, Shape] | None = None,
    positions: Mapping[int, Floats] | None = None,
) -> DrawnRows:
    """Draw a number or date within the bin of each row.

    Parameters
    ----------
    domain : Domain
        The columns.
    codes : list of ndarray of shape (n_rows,)
        The codes of each column.
    rng : Generator
        Draws positions within bins.
    shapes : mapping of int to Shape, optional
        Distributions within the bins of some columns, by index. Other columns are uniform within bins.
    positions : mapping of int to ndarray of shape (n_rows,), optional
        For some columns, the position of each row within its bin, from 0 to 1; by default random.
    """
    numbers = {}
    for column, name in enumerate(domain.columns):
        values = domain[name]
        if not isinstance(values, Interval):
            continue
        # A missing number has the code after all bins, and is replaced on writing.
        bins = np.minimum(codes[column], len(values.edges) - 2)
        column_positions = (positions or {}).get(column)
        if column_positions is None:
            column_positions = rng.random(bins.size)
        if shapes and column in shapes:
            numbers[name] = shapes[column].draw(bins + column_positions)
        else:
            numbers[name] = draw_within(values, bins, column_positions)
    return DrawnRows(domain, list(codes), numbers)


@dataclass(frozen=True, eq=False)
class Ranks:
    """A Gaussian copula of some columns: the correlations of the normal scores of their ranks."""

    # The rank of a number is the proportion of smaller numbers, and its normal score is
    # the normal quantile of the rank. Bins limit the scores of a row, and correlations
    # make the positions within bins depend on each other.

    columns: tuple[int, ...]
    edges: Sequence[Floats]
    """The distribution function of each column at the edges of its bins."""
    correlations: Floats
    """Correlations of normal scores; shape (n_columns, n_columns)."""

    def draw(
        self,
        rows: Sequence[Codes] | Codes,
        rng: np.random.Generator,
        given: Mapping[int, Floats] | None = None,
    ) -> dict[int, Floats]:
        """Draw the position of each row within its bins, from 0 to 1, by column.

        `given` has the positions of some columns, NaN if they are unknown. Use the result for the other columns only: a
        given column has a random position.
        """
        low, high = self._find_limits(rows)
        for index, column in enumerate(self.columns):
            if given and column in given:
                ranks = low[index] + (high[index] - low[index]) * given[column]
                low[index] = np.where(np.isnan(ranks), low[index], ranks)
                above = np.minimum(ranks + MIN_RANK_DISTANCE, 1 - MIN_RANK_DISTANCE)
                high[index] = np.where(np.isnan(ranks), high[index], above)
        scores = ndtri(low + (high - low) * rng.random(low.shape))
        limits = ndtri(low), ndtri(high)
        for _ in range(4):
            self._draw_scores(scores, *limits, rng)
        positions = np.clip((ndtr(scores) - low) / (high - low), 0, np.nextafter(1, 0))
        return dict(zip(self.columns, positions, strict=True))

    def _find_limits(self, rows: Sequence[Codes] | Codes) -> tuple[Floats, Floats]:
        """Return the ranks at the lower and upper edges of the bins of each row; each of shape (n_columns, n_rows).

        A missing value may have any rank from 0 to 1.
        """
        lows = []
        highs = []
        for column, edges in zip(self.columns, self.edges, strict=True):
            # Codes after the bins are missing values, or histories before an event.
            bins = np.minimum(rows[column], edges.size - 1)
            lows.append(np.append(edges[:-1], 0.0)[bins])
            highs.append(np.append(edges[1:], 1.0)[bins])
        low = np.clip(lows, MIN_RANK_DISTANCE, 1 - 2 * MIN_RANK_DISTANCE)
        high = np.clip(highs, low + MIN_RANK_DISTANCE, 1 - MIN_RANK_DISTANCE)
        return low, high

    def _draw_scores(
        self,
        scores: Floats,
        low: Floats,
        high: Floats,
        rng: np.random.Generator,
    ) -> None:
        """Draw the scores of each column given all other scores, between their limits, in place (Gibbs sampling).

        `scores`, `low` and `high` are normal scores of shape (n_columns, n_rows).
        """
        # With the precision matrix P, the score x_i given all others is normal with the
        # variance 1 / P_ii and the mean x_i - (P x)_i / P_ii. It is drawn between its
        # limits by the inverse of the distribution function.
        for index, precisions in enumerate(np.linalg.inv(self.correlations)):
            std = precisions[index] ** -0.5
            mean = scores[index] - precisions @ scores / precisions[index]
            lowest = ndtr((low[index] - mean) / std)
            highest = ndtr((high[index] - mean) / std)
            ranks = lowest + (highest - lowest) * rng.random(mean.size)
            drawn = ndtri(np.clip(ranks, 1e-15, 1 - 1e-15)) * std + mean
            scores[index] = np.clip(drawn, low[index], high[index])


def learn_ranks(model: GraphicalModel, shapes: Mapping[int, Shape]) -> Ranks | None:
    """Estimate the correlations of columns from the bins of rows of a model; None for a single column.

    The numbers of columns with a `Shape` are treated as normal scores of their ranks, whose correlation matrix is
    estimated.
    """
    # Stochastic EM: scores are drawn given the correlations, and correlations are
    # estimated from the scores.
    if len(shapes) < 2:
        return None
    edges = []
    for column, shape in shapes.items():
        # Without the proportion of missing values.
        proportions = model.marginal((column,))[: shape.starts.size - 1]
        proportions = proportions / max(proportions.sum(), 1e-300)
        edges.append(np.append(0.0, np.cumsum(proportions)))
    ranks = Ranks(tuple(shapes), edges, np.eye(len(shapes)))
    # The seed is fixed, so that a loaded synthesizer has the same correlations.
    rng = np.random.default_rng(0)
    n_rows = 10_000
    rows = model.sample(n_rows, rng)
    low, high = ranks._find_limits(rows)
    scores = ndtri(low + (high - low) * rng.random(low.shape))
    limits = ndtri(low), ndtri(high)
    for _ in range(15):
        # The ridge keeps the matrix invertible.
        moments = scores @ scores.T / n_rows + 1e-6 * np.eye(len(shapes))
        scale = np.sqrt(np.diag(moments))
        ranks = replace(ranks, correlations=moments / np.outer(scale, scale))
        ranks._draw_scores(scores, *limits, rng)
    return ranks


def write_rows(template: Table, rows: DrawnRows) -> tuple[Any, ...]:
    """Convert rows to columns in the library of a template."""
    columns = []
    for name, codes, empty in zip(
        rows.domain.columns, rows.codes, template.columns, strict=True
    ):
        values = rows.domain[name]
        if not isinstance(values, Interval):
            (decoder,) = rows.domain.select([name]).decoders([empty])
            columns.append(decoder(codes))
            continue
        numbers = rows.numbers[name]
        is_missing = codes == len(values.edges) - 1
        library = library_of(empty)
        # Numbers are drawn as floats, so any other dtype is a dtype of dates.
        if values.dtype.kind != "f":
            numbers[is_missing] = np.datetime64("NaT", "us")
            columns.append(to_column(numbers, library))
        else:
            columns.append(
                to_column(numbers, library, is_missing if values.missing else None)
            )
    return tuple(columns)


def write_frame(template: Table, rows: DrawnRows) -> Any:
    """Convert rows to a dataframe, in which expressions are evaluated; pandas if the template is an array."""
    names = rows.domain.columns
    columns = dict(zip(names, write_rows(template, rows), strict=True))
    if isinstance(template.native, np.ndarray):
        return pd.DataFrame(columns)
    return make_table(template, columns)


def make_table(template: Table, columns: Mapping[Any, Any]) -> Any:
    """Make a table from columns by name, in the library of a template; a pandas DataFrame gets a new index."""
    values = list(columns.values())
    native = template.native
    if isinstance(native, pd.DataFrame):
        native = pd.DataFrame(index=pd.RangeIndex(len(values[0])))
    table = Table(template.names, template.columns, native)
    return table.rebuild(values, list(columns))


def draw_valid(
    draw: Callable[[Indices], DrawnRows],
    find_invalid: Callable[[Indices, DrawnRows], Mask],
    n: int,
    redraw: Callable[[Indices, DrawnRows], DrawnRows] | None = None,
) -> tuple[DrawnRows, Indices]:
    """Draw rows until all of them satisfy constraints.

    Parameters
    ----------
    draw : callable
        Draws rows for an array of indices of rows.
    find_invalid : callable
        Called with indices and the rows drawn for them; returns True for each row that violates a constraint.
    n : int
        Number of rows.
    redraw : callable, optional
        Called with indices and their rows; returns rows with other numbers within the same bins. First rows that
        violate a constraint are drawn by it.

    Returns
    -------
    rows : DrawnRows
        The rows.
    invalid : ndarray of int
        Indices of the rows that violate a constraint after `MAX_ROUNDS` more draws.
    """
    indices = np.arange(n)
    rows = draw(indices)
    invalid = np.flatnonzero(find_invalid(indices, rows))
    for n_earlier in range(MAX_ROUNDS):
        if invalid.size == 0:
            break
        # If few rows are invalid, each of them gets several draws in a round, and the
        # first valid one replaces it.
        targets = np.resize(invalid, max(invalid.size, 256))
        if redraw is not None and n_earlier < MAX_NUMBER_ROUNDS:
            redrawn = redraw(targets, rows.take(targets))
        else:
            redrawn = draw(targets)
        valid = np.flatnonzero(~find_invalid(targets, redrawn))
        replaced, first = np.unique(targets[valid], return_index=True)
        rows.replace(replaced, redrawn, valid[first])
        invalid = np.setdiff1d(invalid, replaced)
    return rows, invalid


def constrains_numbers(domain: Domain, columns: Collection[Any]) -> bool:
    """Return True if a constraint on single rows reads a number or date among some columns."""
    names = {name for name in columns if isinstance(domain[name], Interval)}
    rules = [c for c in domain._constraints if c.is_on_rows]
    return any(names.intersection(domain._list_read(rule)) for rule in rules)


def find_invalid(template: Table, rows: DrawnRows) -> Mask:
    """Return True for each row that violates a constraint of its domain."""
    if not rows.domain.constraints:
        return np.zeros(rows.n_rows, bool)
    return ~rows.domain.check_constraints(write_frame(template, rows))


def write_columns(template: Table, rows: DrawnRows) -> dict[Any, Any]:
    """Convert rows to columns of the dataframe library of `template`, by name, and add the derived columns."""
    columns = dict(zip(template.names, write_rows(template, rows), strict=True))
    if rows.domain.derived:
        table = wrap_table(rows.domain.add_derived(write_frame(template, rows)))
        computed = dict(zip(table.names, table.columns, strict=True))
        columns |= {name: computed[name] for name in rows.domain.derived}
    return columns
