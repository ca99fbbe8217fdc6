"""Conversion of codes to a table like the table of `fit`, with rows that satisfy constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp.base import draw_seed
from skdp.domain import Domain, Interval, dtype_of_attribute
from skdp.randomness import check_size
from skdp.synthesis._cells import Shape, draw_within
from skdp.synthesis.model import GraphicalModel
from skdp.tables import (
    Table,
    empty_column,
    library_of,
    to_column,
    wrap_table,
)

MAX_ROUNDS = 200
"""Rounds in which rows that break a constraint are drawn again."""

MIN_DISTANCE = 1e-9
"""Smallest distance of ranks from 0, from 1 and from each other."""


def check_n_samples(n_samples: Any, name: str = "n_samples") -> None:
    """Check the number of rows to draw; None for the estimated number."""
    if n_samples is not None:
        check_size(n_samples, name=name, min_val=0, max_val=10**9)


def make_generator(random_state: Any, *key: Any) -> np.random.Generator:
    """Return a generator of post-processing, which shares no random bits with the noise."""
    seed = draw_seed(random_state)
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([seed, *map(ord, repr(key))])


def make_template(table: Table, domain: Domain) -> Table:
    """Keep the library and the names of a table, without rows."""
    # A target may be of another library than the table; synthetic rows have one.
    native: Any = np.empty((0, len(table.names)), object)
    library = "numpy"
    if not isinstance(table.native, np.ndarray):
        backend = nw.from_native(table.native).implementation
        library = backend.value
        native = nw.from_dict({}, backend=backend).to_native()
    columns = []
    for name in domain.columns:
        columns.append(empty_column(library, dtype_of_attribute(domain[name], library)))
    return Table(table.names, tuple(columns), native)


def check_decodable(template: Table, domain: Domain) -> None:
    """Check that all declared values can be written in the library of a table."""
    listed = []
    for name, column in zip(domain.columns, template.columns, strict=True):
        if not isinstance(domain[name], Interval):
            listed.append((name, column))
    if listed:
        names, columns = zip(*listed, strict=True)
        domain.select(names).decoders(columns)


@dataclass(frozen=True)
class DrawnRows:
    """Rows as codes, and the numbers and dates that were drawn within their bins."""

    domain: Domain
    codes: list[NDArray[np.integer]]
    numbers: dict[Any, NDArray[Any]]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.codes[0])

    def replace(
        self, rows: NDArray[np.intp], other: DrawnRows, chosen: NDArray[np.intp]
    ) -> None:
        """Replace some rows by chosen rows of other ones."""
        for codes, other_codes in zip(self.codes, other.codes, strict=True):
            codes[rows] = other_codes[chosen]
        for name, numbers in other.numbers.items():
            self.numbers[name][rows] = numbers[chosen]


def draw_numbers(
    domain: Domain,
    codes: Sequence[NDArray[np.integer]],
    rng: np.random.Generator,
    shapes: Mapping[int, Shape] | None = None,
    positions: Mapping[int, NDArray[np.float64]] | None = None,
) -> DrawnRows:
    """Draw a number or date within the bin of each row; `positions` fixes the position within the bin."""
    numbers = {}
    for column, name in enumerate(domain.columns):
        values = domain[name]
        if not isinstance(values, Interval):
            continue
        # A missing number has the code after all bins, and is replaced on writing.
        bins = np.minimum(codes[column], len(values.edges) - 2)
        within = (positions or {}).get(column)
        if within is None:
            within = rng.random(bins.size)
        if shapes and column in shapes:
            numbers[name] = shapes[column].draw(bins + within)
        else:
            numbers[name] = draw_within(values, bins, within)
    return DrawnRows(domain, list(codes), numbers)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The correlations of the normal scores of some columns, given their bins."""

    columns: tuple[int, ...]
    edges: Sequence[NDArray[np.float64]]
    """The distribution function of each column at the edges of its bins."""
    correlations: NDArray[np.float64]

    def draw(
        self, rows: NDArray[np.integer], rng: np.random.Generator
    ) -> dict[int, NDArray[np.float64]]:
        """Draw the position of each row within its bins, from 0 to 1."""
        low, high = self._limits(rows)
        scores = ndtri(low + (high - low) * rng.random(low.shape))
        for _ in range(4):
            self._sweep(scores, ndtri(low), ndtri(high), rng)
        positions = np.clip((ndtr(scores) - low) / (high - low), 0, np.nextafter(1, 0))
        return dict(zip(self.columns, positions, strict=True))

    def _limits(
        self, rows: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ranks at the edges of each row's bins; 0 and 1 if missing."""
        lows = []
        highs = []
        for column, edges in zip(self.columns, self.edges, strict=True):
            lows.append(np.append(edges[:-1], 0.0)[rows[column]])
            highs.append(np.append(edges[1:], 1.0)[rows[column]])
        low = np.clip(lows, MIN_DISTANCE, 1 - 2 * MIN_DISTANCE)
        return low, np.clip(highs, low + MIN_DISTANCE, 1 - MIN_DISTANCE)

    def _sweep(
        self,
        scores: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        """Draw each score given all other scores and its limits (Gibbs sampling)."""
        for index, row in enumerate(np.linalg.inv(self.correlations)):
            std = row[index] ** -0.5
            mean = scores[index] - row @ scores / row[index]
            first = ndtr((low[index] - mean) / std)
            last = ndtr((high[index] - mean) / std)
            drawn = first + (last - first) * rng.random(mean.size)
            drawn = ndtri(np.clip(drawn, 1e-15, 1 - 1e-15)) * std + mean
            scores[index] = np.clip(drawn, low[index], high[index])


def learn_ranks(model: GraphicalModel, shapes: Mapping[int, Shape]) -> Ranks | None:
    """Learn correlations from rows of a model, by stochastic EM; None for a single column."""
    if len(shapes) < 2:
        return None
    edges = []
    for column, shape in shapes.items():
        proportions = model.marginal((column,))[: shape.starts.size - 1]
        edges.append(
            np.append(0.0, np.cumsum(proportions / max(proportions.sum(), 1e-300)))
        )
    ranks = Ranks(tuple(shapes), edges, np.eye(len(shapes)))
    # The seed is fixed so that a file gives the same ranks.
    rng = np.random.default_rng(0)
    n_rows = 10_000
    rows = model.sample(n_rows, rng)
    low, high = ranks._limits(rows)
    scores = ndtri(low + (high - low) * rng.random(low.shape))
    for _ in range(15):
        # The ridge keeps the matrix invertible.
        moments = scores @ scores.T / n_rows + 1e-6 * np.eye(len(shapes))
        scale = np.sqrt(np.diag(moments))
        ranks = replace(ranks, correlations=moments / np.outer(scale, scale))
        ranks._sweep(scores, ndtri(low), ndtri(high), rng)
    return ranks


def write_rows(template: Table, rows: DrawnRows) -> tuple[Any, ...]:
    """Write rows as columns of the library of a template."""
    columns = []
    for name, codes, like in zip(
        rows.domain.columns, rows.codes, template.columns, strict=True
    ):
        values = rows.domain[name]
        if not isinstance(values, Interval):
            (decoder,) = rows.domain.select([name]).decoders([like])
            columns.append(decoder(codes))
            continue
        numbers = rows.numbers[name]
        is_missing = codes == len(values.edges) - 1
        library = library_of(like)
        if values.dtype.kind != "f":
            numbers[is_missing] = np.datetime64("NaT", "us")
            columns.append(to_column(numbers, library))
        else:
            columns.append(
                to_column(numbers, library, is_missing if values.missing else None)
            )
    return tuple(columns)


def write_frame(like: Table, rows: DrawnRows) -> Any:
    """Make a table of rows, for expressions; a dataframe also if the template is an array."""
    names = rows.domain.columns
    columns = write_rows(like, rows)
    if isinstance(like.native, np.ndarray):
        return pd.DataFrame(dict(zip(names, columns, strict=True)))
    return make_frame(like, columns, names)


def make_frame(template: Table, columns: Sequence[Any], names: Sequence[Any]) -> Any:
    """Make a table of new rows with these names; a frame of pandas has a new index."""
    native = template.native
    if isinstance(native, pd.DataFrame):
        native = pd.DataFrame(index=pd.RangeIndex(len(columns[0])))
    return Table(template.names, template.columns, native).rebuild(columns, names)


def assemble(template: Table, columns: Mapping[Any, Any]) -> Any:
    """Make a table of new rows from columns by name."""
    return make_frame(template, list(columns.values()), list(columns))


def draw_valid(
    draw: Callable[[NDArray[np.intp]], DrawnRows],
    find_broken: Callable[[NDArray[np.intp], DrawnRows], NDArray[np.bool_]],
    n: int,
) -> tuple[DrawnRows, NDArray[np.intp]]:
    """Draw rows until all of them satisfy constraints; return the remaining rows that break them, too."""
    indices = np.arange(n)
    rows = draw(indices)
    broken = np.flatnonzero(find_broken(indices, rows))
    for _ in range(MAX_ROUNDS):
        if broken.size == 0:
            break
        # Each broken row has several draws if there are few, and takes the first valid
        # one.
        targets = np.resize(broken, max(broken.size, 256))
        others = draw(targets)
        valid = np.flatnonzero(~find_broken(targets, others))
        replaced, first = np.unique(targets[valid], return_index=True)
        rows.replace(replaced, others, valid[first])
        broken = np.setdiff1d(broken, replaced)
    return rows, broken


def find_broken(like: Table, rows: DrawnRows) -> NDArray[np.bool_]:
    """Mark the rows that break a constraint."""
    if not rows.domain.constraints:
        return np.zeros(rows.n_rows, bool)
    return ~rows.domain.check_constraints(write_frame(like, rows))


def compute_derived(like: Table, rows: DrawnRows) -> dict[Any, Any]:
    """Compute the derived columns of rows."""
    if not rows.domain.derived:
        return {}
    table = wrap_table(rows.domain.add_derived(write_frame(like, rows)))
    computed = dict(zip(table.names, table.columns, strict=True))
    return {name: computed[name] for name in rows.domain.derived}
