"""A distribution over rows, given by the marginals of the cliques of a junction tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Table,
    divide,
    expand,
    n_cells_of,
    project,
)

MAX_TABLE_CELLS = 1 << 26
"""Cells of the largest table that is computed: half a gigabyte."""


class GraphicalModel:
    """The maximum-entropy distribution with given marginals of the cliques."""

    # **Privacy.** Arithmetic on noisy counts.

    def __init__(self, tree: JunctionTree, beliefs: Iterable[Table]) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)

    @cached_property
    def _separators(self) -> list[Table]:
        """The marginal of the separator of each link."""
        tables = []
        for link in self.tree.links:
            clique = self.tree.cliques[link.child]
            tables.append(project(self.beliefs[link.child], clique, link.separator))
        return tables

    def marginal(self, columns: Sequence[int]) -> Table:
        """Compute the marginal of any columns, by variable elimination."""
        columns = tuple(columns)
        index = self.tree.find(columns)
        if index is not None:
            return project(self.beliefs[index], self.tree.cliques[index], columns)
        return self._eliminate(columns, {})

    def expectation(self, weights: Mapping[int, Table]) -> float:
        """Compute the mean of a product of weights of the values of some columns."""
        return float(self._eliminate((), weights))

    def _eliminate(
        self, columns: tuple[int, ...], weights: Mapping[int, Table]
    ) -> Table:
        """Sum the weighted distribution over all other columns."""
        # A message is the weighted distribution of further columns given the separator.
        messages: dict[int, list[tuple[Table, Clique]]] = {}
        for column, column_weights in weights.items():
            first = self.tree.find_first(column)
            messages.setdefault(first, []).append((column_weights, (column,)))
        for number in reversed(range(len(self.tree.links))):
            link = self.tree.links[number]
            received = messages.pop(link.child, [])
            clique = self.tree.cliques[link.child]
            if not received and {*columns}.isdisjoint({*clique} - {*link.separator}):
                continue
            table, clique = self._multiply(link.child, received)
            onto = tuple(c for c in clique if c in {*columns, *link.separator})
            separator = expand(self._separators[number], link.separator, onto)
            message = divide(project(table, clique, onto), separator)
            messages.setdefault(link.parent, []).append((message, onto))
        return project(*self._multiply(0, messages.pop(0, [])), columns)

    def _multiply(
        self, index: int, messages: Iterable[tuple[Table, Clique]]
    ) -> tuple[Table, Clique]:
        """Multiply the marginal of a clique by messages."""
        table = self.beliefs[index]
        clique = self.tree.cliques[index]
        for message, columns in messages:
            union = tuple(sorted({*clique, *columns}))
            if n_cells_of(union, self.tree.sizes) > MAX_TABLE_CELLS:
                raise ValueError(
                    "The marginal of these columns requires a table of more than "
                    f"{MAX_TABLE_CELLS:,} cells. Select fewer columns, or count "
                    "synthetic rows."
                )
            table = expand(table, clique, union) * expand(message, columns, union)
            clique = union
        return table, clique

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw n rows as codes (n_columns, n)."""
        # Each column is drawn given the columns of its clique that are drawn already.
        tree = self.tree
        rows = np.zeros((len(tree.sizes), n), np.int32)
        drawn: list[int] = []
        for index, clique in enumerate(tree.cliques):
            for column in clique:
                if column in drawn:
                    continue
                given = tuple(other for other in clique if other in drawn)
                weights = project(self.beliefs[index], clique, (*given, column))
                groups = np.zeros(n, np.int64)
                for other in given:
                    groups *= tree.sizes[other]
                    groups += rows[other]
                rows[column] = draw_values(
                    weights.reshape(-1, tree.sizes[column]), groups, rng
                )
                drawn.append(column)
        return rows


def draw_values(
    weights: Table, groups: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a value per row from the distribution of its group, a row of a table."""
    # Stratified: within a group, each of as many equal parts of [0, 1) as it has rows
    # gets one uniform number. Each row is distributed as the model, and counts vary less
    # than with independent rows.
    n_groups, n_values = weights.shape
    order = rng.permutation(groups.size)
    if n_groups > 1:
        # NumPy sorts keys of 16 bits in linear time.
        is_short = n_groups <= np.iinfo(np.uint16).max
        keys = groups.astype(np.uint16) if is_short else groups
        order = order[np.argsort(keys[order], kind="stable")]
    sizes = np.bincount(groups, minlength=n_groups)
    stops = np.cumsum(sizes)
    ranks = np.arange(groups.size) - np.repeat(stops - sizes, sizes)
    uniforms = (ranks + rng.random(groups.size)) / np.repeat(sizes, sizes)
    positions = uniforms + np.repeat(np.arange(n_groups), sizes)
    # A group without probability is uniform.
    steps = np.cumsum(
        np.where(weights.any(axis=1, keepdims=True), weights, 1.0), axis=1
    )
    steps /= steps[:, -1:]
    # Positions increase, so the ends of values are searched among them; a value of
    # probability 0 at the end of a group gets no row.
    ends = np.searchsorted(positions, np.arange(n_groups)[:, np.newaxis] + steps)
    ends = np.maximum(ends, (stops - sizes)[:, np.newaxis])
    ends = np.where(steps < 1, ends, stops[:, np.newaxis])
    values = np.empty(groups.size, np.int32)
    codes = np.tile(np.arange(n_values, dtype=np.int32), n_groups)
    values[order] = np.repeat(codes, np.diff(ends.ravel(), prepend=0))
    return values
