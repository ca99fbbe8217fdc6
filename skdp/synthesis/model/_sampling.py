"""Rows drawn from a graphical model."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model._graphical_model import (
    GraphicalModel,
    JunctionTree,
    check_rows,
)
from skdp.synthesis.model._tables import Clique, Table, log_sum, peaks

_RADIX = 1 << 16
"""The most groups that NumPy sorts in linear time."""


def sample(
    model: GraphicalModel,
    n: int,
    rng: np.random.Generator,
    wanted: Iterable[int] | None = None,
) -> NDArray[np.int32]:
    """Draw rows from a model, or some of their columns; the others are left at 0."""
    # Columns are drawn one after the other, each given those of its clique that are drawn already. Within a group of
    # rows that agree on those, values are stratified (one uniform number in each of as many equal parts of [0, 1) as
    # the group has rows) and dealt to the rows at random: each row has the model's law, and counts vary less than those
    # of independent rows.
    sizes = model.tree.sizes
    rows = np.zeros((len(sizes), n), np.int32)
    done: set[int] = set()
    for place in model.tree.path(range(len(sizes)) if wanted is None else wanted):
        belief, clique = model.beliefs[place], model.tree.cliques[place]
        for column in clique:
            if column in done:
                continue
            given = [other for other in clique if other in done]
            table = _conditional(belief, clique, given, column)
            groups = _join(
                [rows[other] for other in given], [sizes[other] for other in given], n
            )
            rows[column] = draw(table, groups, rng)
            done.add(column)
    return rows


def draw(
    table: Table, groups: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a value for each row, given its group."""
    n_groups, n_values = table.shape
    # Shuffled first: within a group, a stable sort then keeps a random order.
    order = rng.permutation(groups.size)
    if n_groups > 1:
        narrow = groups.astype(np.uint16) if n_groups <= _RADIX else groups
        order = order[np.argsort(narrow[order], kind="stable")]
    sizes = np.bincount(groups, minlength=n_groups)
    stops = np.cumsum(sizes)
    places = (
        np.arange(groups.size)
        - np.repeat(stops - sizes, sizes)
        + rng.random(groups.size)
    )
    places /= np.repeat(sizes, sizes)
    places += np.repeat(np.arange(n_groups), sizes)
    steps = np.cumsum(table, axis=1)
    last = steps[:, -1:]
    steps = np.divide(
        steps,
        last,
        out=np.tile(np.linspace(1 / n_values, 1, n_values), (n_groups, 1)),
        where=last > 0,
    )
    # Places increase, so the bounds, of which there are mostly fewer, are looked up among them. A sum of a group's
    # number and a share below 1 may round up to the next group.
    ends = np.searchsorted(places, np.arange(n_groups)[:, np.newaxis] + steps)
    ends = np.where(
        steps < 1,
        np.maximum(ends, (stops - sizes)[:, np.newaxis]),
        stops[:, np.newaxis],
    )
    values = np.empty(groups.size, np.int32)
    values[order] = np.repeat(
        np.tile(np.arange(n_values, dtype=np.int32), n_groups),
        np.diff(ends.ravel(), prepend=0),
    )
    return values


def _conditional(
    belief: Table, clique: Sequence[int], given: Sequence[int], column: int
) -> Table:
    """Sum a clique's marginal to a table with a row for each combination of the given columns."""
    dropped = tuple(
        axis
        for axis, other in enumerate(clique)
        if other != column and other not in given
    )
    kept = [other for other in clique if other == column or other in given]
    table = np.moveaxis(
        belief.sum(axis=dropped) if dropped else belief, kept.index(column), -1
    )
    return table.reshape(-1, table.shape[-1])


def _join(
    columns: Sequence[NDArray[np.int32]], sizes: Sequence[int], n: int
) -> NDArray[np.int64]:
    """Combine the codes of some columns into group numbers, the last column fastest."""
    groups = np.zeros(n, np.int64)
    for column, size in zip(columns, sizes, strict=True):
        groups *= size
        groups += column
    return groups


MOST_REDRAWN = 1 << 14
"""The largest table that is computed for each row."""

_BLOCK = 1 << 18
"""Cells of all rows' tables that are computed at a time: two megabytes."""

_SHARE = 1e-12

Rows = NDArray[np.integer]


def redraw(
    model: GraphicalModel, rows: Rows, columns: Iterable[int], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw some columns of each row again, given the row's other columns."""
    # Only cliques with a named column matter. With the row's codes in place of its other columns they are a small tree,
    # over which messages go up and draws come down ([1]_ section 10.3): the law is exactly the model's, at the cost of
    # the cells of the named columns in each clique.
    # A row that cannot occur under the model has no conditional law. Its law is that of the model mixed with a share of
    # 1e-12 of independent columns, the named ones with the model's marginals, the others uniform: its possible parts
    # still count, and a value of no probability is never drawn.
    # **Privacy.** For synthetic rows it is post-processing. For real rows the result is as private as their other
    # columns.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.
    wanted = _check_columns(model.tree, columns)
    rows = check_rows(
        model.tree,
        rows,
        [column for column in range(len(model.tree.sizes)) if column not in wanted],
    )
    factors = _factors(model, wanted)
    softened: list[_Factor] = []
    drawn = np.empty((len(wanted), rows.shape[1]), np.int32)
    step = (
        max(1, _BLOCK // sum(factor.cells for factor in factors))
        if factors
        else rows.shape[1] + 1
    )
    for start in range(0, rows.shape[1], step):
        block = rows[:, start : start + step]
        uniforms = rng.random((len(factors), block.shape[1]))
        codes, possible = _draw(factors, block, uniforms)
        if not possible.all():
            softened = softened or _factors(_soften(model, wanted), wanted)
            codes[:, ~possible], _ = _draw(
                softened, block[:, ~possible], uniforms[:, ~possible]
            )
        drawn[:, start : start + step] = codes[list(wanted)]
    return drawn


@dataclass(frozen=True, eq=False)
class _Factor:
    """A clique with named columns: its logarithms, the axes of the columns that are kept first."""

    table: Table
    kept: Clique
    named: Clique
    shared: Clique
    """The named columns that its parent has too."""
    parent: int
    """The parent's place among the factors; of no meaning if nothing is shared."""

    @property
    def cells(self) -> int:
        """The number of cells of each row's table."""
        return math.prod(self.table.shape[len(self.kept) :])


def _check_columns(tree: JunctionTree, columns: Iterable[int]) -> tuple[int, ...]:
    wanted = tuple(map(operator.index, columns))
    d = len(tree.sizes)
    if len(set(wanted)) < len(wanted) or not all(
        column in range(d) for column in wanted
    ):
        raise ValueError(
            f"columns must be different numbers from 0 to {d - 1}, got {wanted}"
        )
    cells = max(tree.n_cells(set(clique) & set(wanted)) for clique in tree.cliques)
    if cells > MOST_REDRAWN:
        raise ValueError(
            f"to redraw columns {wanted} takes a table of {cells} cells for each row; at most {MOST_REDRAWN} are "
            "computed. Redraw fewer columns at once, or sample new rows"
        )
    return wanted


def _factors(model: GraphicalModel, wanted: Sequence[int]) -> list[_Factor]:
    """Collect the cliques that have a named column, parents first."""
    links = {link.child: link for link in model.tree.links}
    factors: list[_Factor] = []
    ranks: dict[int, int] = {}
    for place, clique in enumerate(model.tree.cliques):
        named = tuple(column for column in clique if column in wanted)
        if not named:
            continue
        kept = tuple(column for column in clique if column not in wanted)
        axes = [clique.index(column) for column in kept + named]
        table = np.ascontiguousarray(np.transpose(model.log_conditional(place), axes))
        shared = tuple(
            column
            for column in named
            if place in links and column in links[place].separator
        )
        parent = ranks[links[place].parent] if shared else -1
        ranks[place] = len(factors)
        factors.append(_Factor(table, kept, named, shared, parent))
    return factors


def _soften(model: GraphicalModel, wanted: Sequence[int]) -> GraphicalModel:
    """Mix a model with independent columns: a share so small that it matters only for what cannot occur."""
    laws = [
        model.marginal([column]) if column in wanted else np.full(size, 1 / size)
        for column, size in enumerate(model.tree.sizes)
    ]
    beliefs = []
    for belief, clique in zip(model.beliefs, model.tree.cliques, strict=True):
        independent = math.prod(
            np.ix_(*(laws[column] for column in clique)), start=np.float64(_SHARE)
        )
        beliefs.append((1 - _SHARE) * belief + independent)
    return GraphicalModel(model.tree, beliefs)


def _draw(
    factors: Sequence[_Factor], rows: Rows, uniforms: Table
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return codes of all columns, of which only the named ones are set, and which rows had a law."""
    drawn = np.zeros(rows.shape, np.int32)
    possible = np.ones(rows.shape[1], bool)
    for factor, table, uniform in zip(
        factors, _collect(factors, rows), uniforms, strict=True
    ):
        if factor.named != factor.shared:
            possible &= _descend(factor, table, uniform, drawn)
    return drawn, possible


def _collect(factors: Sequence[_Factor], rows: Rows) -> list[Table]:
    """Look up each factor's logarithms for each row, and add what its children say, from the leaves to the root."""
    tables = [
        factor.table[tuple(rows[column] for column in factor.kept) or np.newaxis]
        for factor in factors
    ]
    for place in reversed(range(len(factors))):
        factor = factors[place]
        if factor.shared:
            dropped = [
                axis
                for axis, column in enumerate(factor.named, 1)
                if column not in factor.shared
            ]
            message = log_sum(tables[place], tuple(dropped))
            sizes = dict(zip(factor.shared, message.shape[1:], strict=True))
            above = [sizes.get(column, 1) for column in factors[factor.parent].named]
            tables[factor.parent] = tables[factor.parent] + message.reshape(-1, *above)
    return tables


def _descend(
    factor: _Factor, table: Table, uniform: Table, drawn: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Draw a factor's other columns, given those that it shares; say for which rows there was a law."""
    n = uniform.size
    table = np.broadcast_to(table, (n, *table.shape[1:]))
    if factor.shared:
        found = [
            drawn[column] if column in factor.shared else slice(None)
            for column in factor.named
        ]
        table = table[np.arange(n), *found]
    flat = table.reshape(n, -1)
    steps = np.cumsum(np.exp(flat - peaks(flat, 1)), axis=1)
    # A number below 1 ends at a step up, which is a cell of positive probability; at no cell if there is none.
    places = (steps <= uniform[:, np.newaxis] * steps[:, -1:]).sum(axis=1)
    codes = np.unravel_index(np.minimum(places, flat.shape[1] - 1), table.shape[1:])
    for column, values in zip(
        (column for column in factor.named if column not in factor.shared),
        codes,
        strict=True,
    ):
        drawn[column] = values
    return steps[:, -1] > 0
