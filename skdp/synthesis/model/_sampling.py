"""Rows drawn from a graphical model."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model._graphical_model import (
    GraphicalModel,
    JunctionTree,
    check_rows,
)
from skdp.synthesis.model._tables import (
    Clique,
    Table,
    expand,
    log_sum,
    peaks,
    project,
    shape_of,
)

_RADIX = 1 << 16
"""The most groups that NumPy sorts in linear time."""


def sample(
    model: GraphicalModel,
    n: int,
    rng: np.random.Generator,
    columns: Iterable[int] | None = None,
) -> NDArray[np.int32]:
    """Draw n rows by their codes: (n_columns, n)."""
    # If only some columns are asked for, those of the cliques that are needed for them
    # are drawn, and all others are left at 0.
    # Columns are drawn one after the other, each given those of its clique that are
    # drawn already. Within a group of rows that agree on those, values are stratified
    # (one uniform number in each of as many equal parts of [0, 1) as the group has
    # rows) and dealt to the rows at random: each row has the model's law, and counts
    # vary less than those of independent rows.
    tree = model.tree
    rows = np.zeros((len(tree.sizes), n), np.int32)
    drawn: list[int] = []
    if columns is None:
        columns = range(len(tree.sizes))
    for clique_index in tree.path(columns):
        clique = tree.cliques[clique_index]
        belief = model.beliefs[clique_index]
        for column in clique:
            if column in drawn:
                continue
            conditions = _common(clique, drawn)
            law = project(belief, clique, (*conditions, column))
            # Rows with the same values of the conditions have the same number, that of
            # the cell in row-major order.
            groups = np.zeros(n, np.int64)
            for condition in conditions:
                groups *= tree.sizes[condition]
                groups += rows[condition]
            law_of_groups = law.reshape(-1, tree.sizes[column])
            rows[column] = draw(law_of_groups, groups, rng)
            drawn.append(column)
    return rows


def _common(columns: Clique, names: Collection[int]) -> Clique:
    """Return the columns that are among these names, in their own order."""
    return tuple(column for column in columns if column in names)


def draw(
    law: Table, groups: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a value for each row by the law of its group, a row of a table."""
    n_groups, n_values = law.shape
    # Shuffled first: within a group, a stable sort then keeps a random order.
    order = rng.permutation(groups.size)
    if n_groups > 1:
        keys = groups.astype(np.uint16) if n_groups <= _RADIX else groups
        order = order[np.argsort(keys[order], kind="stable")]
    sizes = np.bincount(groups, minlength=n_groups)
    stops = np.cumsum(sizes)
    starts = stops - sizes
    ranks = np.arange(groups.size) - np.repeat(starts, sizes)
    uniforms = (ranks + rng.random(groups.size)) / np.repeat(sizes, sizes)
    positions = uniforms + np.repeat(np.arange(n_groups), sizes)

    # A group without a law is uniform.
    steps = np.cumsum(law, axis=1)
    even = np.tile(np.linspace(1 / n_values, 1, n_values), (n_groups, 1))
    has_law = steps[:, -1:] > 0
    steps = np.divide(steps, steps[:, -1:], out=even, where=has_law)

    # Positions increase, so the steps, of which there are mostly fewer, are looked up
    # among them. A sum of a group's number and a share below 1 may round up to the
    # next group.
    ends = np.searchsorted(positions, np.arange(n_groups)[:, np.newaxis] + steps)
    ends = np.maximum(ends, starts[:, np.newaxis])
    ends = np.where(steps < 1, ends, stops[:, np.newaxis])
    codes = np.tile(np.arange(n_values, dtype=np.int32), n_groups)
    values = np.empty(groups.size, np.int32)
    values[order] = np.repeat(codes, np.diff(ends.ravel(), prepend=0))
    return values


MOST_REDRAWN = 1 << 14
"""The largest table that is computed for each row."""

_BLOCK = 1 << 18
"""Cells of all rows' tables that are computed at a time: two megabytes."""

_LEAST_UNIFORM = 2.0**-54
"""Half of the smallest number above 0 that is drawn, in place of 0."""

_INDEPENDENT = 1e-200
"""The share of independent columns: nothing beside what the model has, as a float."""

_ROWS = -1
"""In the place of a column: the axis of rows."""

Rows = NDArray[np.integer]


def redraw(
    model: GraphicalModel, rows: Rows, columns: Iterable[int], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw some columns of each row again, given the row's other columns."""
    # Only cliques with a named column matter. With the row's codes in place of its
    # other columns they are a small tree, over which messages go up and draws come
    # down ([1]_ section 10.3): the law is exactly the model's, at the cost of the cells
    # of the named columns in each clique. A row that cannot occur under the model has
    # no conditional law: its law is that of independent columns where the model has
    # none, so that its possible parts still count.
    # **Privacy.** For synthetic rows it is post-processing. For real rows the result is
    # as private as their other columns.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.
    names = _check_columns(model.tree, columns)
    others = set(range(len(model.tree.sizes))) - set(names)
    rows = check_rows(model.tree, rows, others)
    n_rows = rows.shape[1]
    drawn = np.empty((len(names), n_rows), np.int32)
    factors = _factors(_mix(model, names), names)
    if not factors:
        return drawn
    n_cells = [factor.n_cells for factor in factors]
    block_size = max(1, _BLOCK // sum(n_cells))
    for start in range(0, n_rows, block_size):
        block = rows[:, start : start + block_size]
        uniforms = rng.random((len(factors), block.shape[1]))
        uniforms = np.maximum(uniforms, _LEAST_UNIFORM)
        codes = np.zeros(block.shape, np.int32)
        tables = _collect(factors, block)
        for factor, table, uniform in zip(factors, tables, uniforms, strict=True):
            if factor.new:
                _distribute(factor, table, uniform, codes)
        drawn[:, start : start + block_size] = codes[list(names)]
    return drawn


# With half and with twice as many, and as large a _GAIN, the distances of the pairs of
# redrawn columns of Adult change by less than a tenth.
_N_BLOCKS, _LEAST_BLOCK = 1024, 16
"""About how many blocks rows are drawn in, and the fewest rows of a block.

After each block, counts are looked at again."""

_GAIN, _MOST_GAIN = 8.0, 0.02
"""By how much a row in excess lowers a logit: for a block as a whole, and at most.

The first is divided by the rows of a block and by the number of other columns. From about
20 on, counts swing; with .02 for a row, logits of rows move by about .3."""

_LARGEST_TILT = 3.0
"""The most by which the excess of a combination of values changes its logit."""

MOST_EVEN = 1 << 12
"""The most combinations of values of columns that are drawn evenly."""


def redraw_evenly(
    model: GraphicalModel, rows: Rows, columns: Iterable[int], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw some columns of each row again, such that their counts with each other column are nearly as expected."""
    # Independent draws of n rows have counts that are off by up to the root of n / 4.
    # Here rows are drawn in random order, a few at a time, by laws that are tilted a
    # little against what was drawn too often so far of a value with the row's values of
    # other columns: a self-balancing walk ([1]_), for tables of counts.
    # .. [1] R. Alweiss, Y. P. Liu, M. Sawhney (2021). Discrepancy minimization via a
    #    self-balancing walk. STOC.
    names = _check_columns(model.tree, columns)
    sizes = shape_of(names, model.tree.sizes)
    if not names or math.prod(sizes) > MOST_EVEN:
        return redraw(model, rows, names, rng)
    others = sorted(set(range(len(model.tree.sizes))) - set(names))
    rows = check_rows(model.tree, rows, others)
    factors = _factors(_mix(model, names), names)
    # The value of each redrawn column in each combination: (n_names, n_values).
    values = np.indices(sizes).reshape(len(sizes), -1)
    combinations = _combinations_of_factors(factors, names, values, model.tree.sizes)
    excess = _Excess(rows[others], shape_of(others, model.tree.sizes), sizes, values)
    n_rows = rows.shape[1]
    block_size = max(_LEAST_BLOCK, n_rows // _N_BLOCKS)
    gain = min(_MOST_GAIN, _GAIN / (block_size * max(1, len(others))))
    drawn = np.empty((len(names), n_rows), np.int32)
    order = rng.permutation(n_rows)
    for start in range(0, n_rows, block_size):
        block = order[start : start + block_size]
        law = _joint_law(factors, combinations, rows[:, block])
        tilts = np.clip(gain * excess.of_rows(block), -_LARGEST_TILT, _LARGEST_TILT)
        draws = _draw_combinations(law * np.exp(-tilts), rng)
        drawn[:, block] = values[:, draws]
        excess.add(block, law, draws)
    return drawn


def _combinations_of_factors(
    factors: Sequence[_Factor],
    names: tuple[int, ...],
    values: NDArray[np.intp],
    sizes: Sequence[int],
) -> list[NDArray[np.intp]]:
    """Return the cell of each factor's table that each combination of values is in: (n_values,)."""
    combinations = []
    for factor in factors:
        named_values = [values[names.index(column)] for column in factor.named]
        shape = shape_of(factor.named, sizes)
        combinations.append(np.ravel_multi_index(named_values, shape))
    return combinations


def _draw_combinations(law: Table, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw a combination for each row by its law, which need not sum to 1: (n_rows,)."""
    steps = np.cumsum(law, axis=1)
    uniforms = np.maximum(rng.random((len(law), 1)), _LEAST_UNIFORM)
    return np.asarray((steps <= uniforms * steps[:, -1:]).sum(axis=1))


class _Excess:
    """How many more rows than expected were drawn, of each pair of values and of each combination."""

    # A pair is a value of a redrawn column with a value of another column; a combination
    # has a value of each redrawn column.

    def __init__(
        self,
        rows: Rows,
        other_sizes: Sequence[int],
        sizes: Sequence[int],
        values: NDArray[np.intp],
    ) -> None:
        # Values of all other columns are numbered through: (n_rows, n_others).
        starts = np.cumsum([0, *other_sizes])
        self._cells = rows.T + starts[:-1]
        self._values = values
        # Which combinations have each value of each redrawn column: (n_values, size).
        self._indicators = []
        for size, column_values in zip(sizes, values, strict=True):
            self._indicators.append(np.eye(size)[column_values])
        # For each redrawn column: (n_cells, size).
        self._of_pairs = [np.zeros((starts[-1], size)) for size in sizes]
        self._of_combinations = np.zeros(values.shape[1])

    def of_rows(self, block: NDArray[np.intp]) -> Table:
        """Add up what is in excess of each combination and of its pairs with each row's values: (n_rows, n_values)."""
        row_excess = np.tile(self._of_combinations, (block.size, 1))
        for pair_excess, column_values in zip(
            self._of_pairs, self._values, strict=True
        ):
            column_excess = pair_excess[self._cells[block]].sum(axis=1)
            row_excess += column_excess[:, column_values]
        return row_excess

    def add(self, block: NDArray[np.intp], law: Table, draws: NDArray[np.intp]) -> None:
        """Count the combinations that some rows drew, less what their law expects."""
        change = -law
        change[np.arange(block.size), draws] += 1
        self._of_combinations += change.sum(axis=0)
        for pair_excess, indicator in zip(
            self._of_pairs, self._indicators, strict=True
        ):
            column_change = (change @ indicator)[:, np.newaxis]
            np.add.at(pair_excess, self._cells[block], column_change)


def _joint_law(
    factors: Sequence[_Factor], combinations: Sequence[NDArray[np.intp]], rows: Rows
) -> Table:
    """Return the law of each row's combinations: (n_rows, n_values)."""
    logs = np.zeros((rows.shape[1], combinations[0].size))
    for factor, combination in zip(factors, combinations, strict=True):
        conditions = tuple(rows[list(factor.conditions)])
        tables = factor.logs[conditions or np.newaxis]
        logs += tables.reshape(len(tables), -1)[:, combination]
    law = np.exp(logs - peaks(logs, 1))
    return np.asarray(law / law.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Factor:
    """The log law of a clique with named columns, the axes of the others first."""

    logs: Table
    conditions: Clique
    """The other columns."""
    named: Clique
    shared: Clique
    """The named columns that its parent has too."""
    parent: int
    """The parent's place among the factors; of no meaning if nothing is shared."""

    @property
    def n_cells(self) -> int:
        """The number of cells of each row's table."""
        return math.prod(self.logs.shape[len(self.conditions) :])

    @property
    def new(self) -> Clique:
        """The named columns that are drawn by this factor."""
        return _common(self.named, set(self.named) - set(self.shared))


def _check_columns(tree: JunctionTree, columns: Iterable[int]) -> tuple[int, ...]:
    # With the other columns of a row in its place, a clique is a table of its named ones.
    names = tuple(map(operator.index, columns))
    n_columns = len(tree.sizes)
    if len(set(names)) < len(names) or not set(names) <= set(range(n_columns)):
        raise ValueError(
            f"columns must be different numbers from 0 to {n_columns - 1}, got {names}"
        )
    cells = 1
    for clique in tree.cliques:
        cells = max(cells, tree.n_cells(_common(clique, names)))
    if cells > MOST_REDRAWN:
        raise ValueError(
            f"to redraw columns {names} takes a table of {cells} cells for each row; "
            f"at most {MOST_REDRAWN} are computed. Redraw fewer columns at once, or "
            "sample new rows"
        )
    return names


def _factors(model: GraphicalModel, names: Sequence[int]) -> list[_Factor]:
    """Collect the cliques that have a named column, parents first."""
    # A clique is the child of another one if both share a named column: conditions are
    # known for each row, and carry no message.
    factors: list[_Factor] = []
    places: dict[int, int] = {}  # of the factor of each clique, among all factors
    for clique_index, clique in enumerate(model.tree.cliques):
        named = _common(clique, names)
        if not named:
            continue
        conditions = _common(clique, set(clique) - set(named))
        axes = list(map(clique.index, conditions + named))
        logs = np.transpose(model.log_conditional(clique_index), axes)
        shared: Clique = ()
        parent = -1
        if clique_index > 0:
            link = model.tree.link_of(clique_index)
            shared = _common(named, link.separator)
            parent = places[link.parent] if shared else -1
        places[clique_index] = len(factors)
        factors.append(
            _Factor(np.ascontiguousarray(logs), conditions, named, shared, parent)
        )
    return factors


def _mix(model: GraphicalModel, names: Sequence[int]) -> GraphicalModel:
    """Mix a model with a little of independent columns, uniform if not named."""
    laws = []
    for column, size in enumerate(model.tree.sizes):
        is_named = column in names
        laws.append(model.marginal([column]) if is_named else np.full(size, 1 / size))
    beliefs = []
    for belief, clique in zip(model.beliefs, model.tree.cliques, strict=True):
        laws_of_clique = [laws[column] for column in clique]
        factors = np.ix_(*laws_of_clique)
        independent = math.prod(factors, start=np.float64(_INDEPENDENT))
        beliefs.append(belief + independent)
    return GraphicalModel(model.tree, beliefs)


def _collect(factors: Sequence[_Factor], rows: Rows) -> list[Table]:
    """Pass messages from the leaves to the root, for each row."""
    # Tables of (n_rows, *sizes of named columns): each factor's logarithms given the
    # row's other columns, and what its children say.
    tables = []
    for factor in factors:
        conditions = tuple(rows[list(factor.conditions)])
        tables.append(factor.logs[conditions or np.newaxis])
    for index in reversed(range(len(factors))):
        factor = factors[index]
        if factor.shared:
            # The first axis is that of rows.
            axes = []
            for column in factor.new:
                axes.append(factor.named.index(column) + 1)
            message = log_sum(tables[index], tuple(axes))
            parent = factors[factor.parent]
            message = expand(message, (_ROWS, *factor.shared), (_ROWS, *parent.named))
            tables[factor.parent] = tables[factor.parent] + message
    return tables


def _distribute(
    factor: _Factor, table: Table, uniforms: Table, drawn: NDArray[np.int32]
) -> None:
    """Draw a factor's columns given those it shares with its parent."""
    n_rows = uniforms.size
    # A factor without conditions has one table for all rows. Of each row's table, only
    # the part is left that has the values which were drawn by the parent.
    table = np.broadcast_to(table, (n_rows, *table.shape[1:]))
    if factor.shared:
        index: list[slice | NDArray[np.int32]] = []
        for column in factor.named:
            is_shared = column in factor.shared
            index.append(drawn[column] if is_shared else slice(None))
        table = table[np.arange(n_rows), *index]
    logs = table.reshape(n_rows, -1)
    steps = np.cumsum(np.exp(logs - peaks(logs, 1)), axis=1)
    # A number from 0 to 1, but for both, ends at a step up, which is a cell that the
    # model has, if it has any.
    cells = (steps <= uniforms[:, np.newaxis] * steps[:, -1:]).sum(axis=1)
    codes = np.unravel_index(cells, table.shape[1:])
    for column, values in zip(factor.new, codes, strict=True):
        drawn[column] = values
