"""Distributions over rows on a junction tree: tables of cliques, marginals and samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Codes, Floats, Indices, Integers
from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    divide,
    expand,
    n_cells_of,
    project,
    scale,
    shape_of,
)

MAX_TABLE_CELLS = 1 << 26
"""Cells of the largest table that is computed: half a gigabyte."""


MAX_PREDICTED_ROWS = 1 << 16
"""Rows whose values are predicted at once."""


class CliqueTables:
    """Tables of the cliques of a junction tree, which are scaled one after the other ([1]_)."""

    # The distribution is the table of the clique that is visited, times the conditional
    # distributions of all other cliques given their separators toward it. So the table of
    # the visited clique is its marginal, and may be scaled.
    # .. [1] F. V. Jensen, S. L. Lauritzen, K. G. Olesen (1990). Bayesian updating in
    #    causal probabilistic networks by local computations. Computational Statistics
    #    Quarterly 4.

    def __init__(self, tree: JunctionTree, tables: list[Floats]) -> None:
        """Start with the marginals of the cliques, which are changed in place."""
        self.tree = tree
        self.tables = tables

    @classmethod
    def from_columns(cls, tree: JunctionTree, columns: Sequence[Floats]) -> Self:
        """Start with independent columns, given the distribution of each column."""
        tables = []
        for clique in tree.cliques:
            table = np.ones(shape_of(clique, tree.sizes))
            for column in clique:
                scale(table, columns[column], (column,), clique)
            tables.append(table)
        return cls(tree, tables)

    def visit(self) -> Iterator[int]:
        """Visit the cliques, parents first, and return to the root."""
        yield from self._visit_subtree(0)

    def _visit_subtree(self, index: int) -> Iterator[int]:
        """Visit a clique and its descendants, and return to it."""
        yield index
        for child, parent in enumerate(self.tree.parents):
            if parent == index:
                self._send(index, child, self.tree.separators[child])
                yield from self._visit_subtree(child)
                self._send(child, index, self.tree.separators[child])

    def _send(self, source: int, target: int, separator: Clique) -> None:
        """Scale the table of a clique such that its marginal of a separator equals the marginal of a neighbor."""
        cliques = self.tree.cliques
        new = project(self.tables[source], cliques[source], separator)
        old = project(self.tables[target], cliques[target], separator)
        scale(self.tables[target], divide(new, old), separator, cliques[target])

    def finish(self) -> list[Floats]:
        """Return the marginals of all cliques, after a visit."""
        for child, parent in enumerate(self.tree.parents[1:], 1):
            self._send(parent, child, self.tree.separators[child])
        return self.tables


class GraphicalModel:
    """The maximum-entropy distribution with given marginals of the cliques of a junction tree."""

    # **Privacy.** Arithmetic on noisy counts.

    def __init__(
        self,
        tree: JunctionTree,
        beliefs: Iterable[Floats],
        residuals: Mapping[Clique, float] | None = None,
        n_columns: int | None = None,
    ) -> None:
        """Store the marginals of the cliques of a tree.

        `residuals` has the distance of measured marginals from the optimum of the fit, in standard errors. Rows have
        the first `n_columns` columns, and all further columns are groups of values of these.
        """
        self.tree = tree
        self.n_columns = n_columns
        self.beliefs = tuple(beliefs)
        self.residuals = residuals or {}

    @cached_property
    def _separators(self) -> list[Floats]:
        """The marginal of the separator of each clique and its parent."""
        return list(map(project, self.beliefs, self.tree.cliques, self.tree.separators))

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Compute the marginal of any columns, which are its axes, as proportions."""
        columns = tuple(columns)
        index = self.tree.find(columns)
        if index is not None:
            return project(self.beliefs[index], self.tree.cliques[index], columns)
        return self._eliminate(columns, {})

    def expectation(self, weights: Mapping[int, Floats]) -> float:
        """Compute the mean of a product of weights; `weights` has a weight of each value, by column."""
        return float(self._eliminate((), weights))

    def condition(self, weights: Mapping[Clique, Floats]) -> GraphicalModel:
        """Return the distribution times weights of the cells of columns, which are within a clique of the tree."""
        indices = {columns: self.tree.find_measured(columns) for columns in weights}
        tables = CliqueTables(self.tree, [belief.copy() for belief in self.beliefs])
        for index in tables.visit():
            for columns, factor in weights.items():
                if indices[columns] == index:
                    scale(
                        tables.tables[index], factor, columns, self.tree.cliques[index]
                    )
        beliefs = tables.finish()
        total = float(beliefs[0].sum())
        if total <= 0:
            raise ValueError(
                "`conditions` must be fulfilled by some rows of the model, got conditions "
                "that no row fulfills together. Remove one of them."
            )
        beliefs = [belief / total for belief in beliefs]
        return GraphicalModel(self.tree, beliefs, self.residuals, self.n_columns)

    def _eliminate(
        self, columns: tuple[int, ...], weights: Mapping[int, Floats]
    ) -> Floats:
        """Multiply the distribution by weights, and sum it over all columns except `columns`, the axes of the result.

        `weights` maps columns to a weight of each value.
        """
        # Variable elimination from the leaves of the tree to its root. The distribution
        # is the product of the beliefs of the cliques, divided by the marginals of the
        # separators. So a message is the weighted distribution of a subtree, summed
        # over its other columns, given the separator.
        messages: dict[int, list[tuple[Floats, Clique]]] = {}
        for column, column_weights in weights.items():
            index = self.tree.find_first(column)
            messages.setdefault(index, []).append((column_weights, (column,)))
        for child in range(len(self.beliefs) - 1, 0, -1):
            received = messages.pop(child, [])
            shared = self.tree.separators[child]
            # Without columns and messages of its own, a clique sums to 1 given the
            # separator.
            new_columns = set(self.tree.cliques[child]).difference(shared)
            if not received and new_columns.isdisjoint(columns):
                continue
            table, clique = self._multiply(child, received)
            summed = set(clique).difference(columns, shared)
            onto = tuple(column for column in clique if column not in summed)
            separator = expand(self._separators[child], shared, onto)
            message = divide(project(table, clique, onto), separator)
            messages.setdefault(self.tree.parents[child], []).append((message, onto))
        return project(*self._multiply(0, messages.pop(0, [])), columns)

    def _multiply(
        self, index: int, messages: Iterable[tuple[Floats, Clique]]
    ) -> tuple[Floats, Clique]:
        """Multiply the marginal of a clique by messages; return the product and its columns.

        `index` is the number of the clique, and a message is a table with its columns.
        """
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

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        given: Mapping[int, Codes] | None = None,
    ) -> NDArray[np.int32]:
        """Draw n rows as codes, given the codes of some columns (the columns `given` of the tree); (n_columns, n)."""
        # In the reverse order of elimination: the neighbors of a column at its
        # elimination are drawn before it, and it is independent of all other drawn
        # columns given them.
        given = given or {}
        rows = np.zeros((len(self.tree.sizes), n), np.int32)
        for column, codes in given.items():
            rows[column] = codes
        for column, parents in self.tree.steps:
            if column not in given:
                weights = self.marginal((*parents, column))
                self._draw_column(rows, column, parents, weights, rng)
        return rows[: self.n_columns]

    def predict(
        self, rows: Sequence[Codes], column: int, weights: Floats | float = 1.0
    ) -> Indices:
        """Return the value of a column with the largest weighted probability given all other columns, for each row.

        `rows` has the codes of each column, and `weights` a factor of each value.
        """
        # Logarithms of the tables that depend on the column: cliques minus separators.
        factors = []
        tables = [*self.beliefs, *self._separators]
        cliques = [*self.tree.cliques, *self.tree.separators]
        for index, (clique, table) in enumerate(zip(cliques, tables, strict=True)):
            if column in clique:
                others = tuple(other for other in clique if other != column)
                sign = 1 if index < len(self.beliefs) else -1
                factor = np.moveaxis(table, clique.index(column), -1)
                logs = sign * np.log(np.maximum(factor, np.finfo(float).tiny))
                factors.append((others, logs))
        n_rows = len(rows[0])
        predicted = np.empty(n_rows, np.intp)
        for start in range(0, n_rows, MAX_PREDICTED_ROWS):
            part = slice(start, start + MAX_PREDICTED_ROWS)
            sums = sum(
                logs[tuple(rows[c][part] for c in others)] for others, logs in factors
            )
            predicted[part] = np.argmax(sums + np.log(weights), axis=-1)
        return predicted

    def _draw_column(
        self,
        rows: NDArray[np.int32],
        column: int,
        parents: Clique,
        weights: Floats,
        rng: np.random.Generator,
    ) -> None:
        """Draw a column of rows given its parents, in place; `weights` has the parents' axes first."""
        # One group of rows for each combination of the values of the parents.
        groups = np.zeros(rows.shape[1], np.int64)
        for parent in parents:
            groups *= self.tree.sizes[parent]
            groups += rows[parent]
        weights = weights.reshape(-1, self.tree.sizes[column])
        rows[column] = draw_values(weights, groups, rng)


def draw_values(
    weights: Floats, groups: Integers, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a value for each row from the distribution of its group: `weights` of shape (n_groups, n_values)."""
    # Stratified: [0, 1) is divided into as many equal intervals as a group has rows,
    # and each gets one uniform number. Each row is distributed as the model, and counts
    # vary less than with independent rows.
    n_groups, n_values = weights.shape
    order = rng.permutation(groups.size)
    if n_groups > 1:
        # NumPy sorts keys of 16 bits in linear time.
        is_short = n_groups <= np.iinfo(np.uint16).max
        keys = groups.astype(np.uint16) if is_short else groups
        order = order[np.argsort(keys[order], kind="stable")]
    sizes = np.bincount(groups, minlength=n_groups)
    ordered = np.repeat(np.arange(n_groups), sizes)
    ranks = np.arange(groups.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Ascending over all groups: from g to g + 1 in group g.
    uniforms = (ranks + rng.random(groups.size)) / np.repeat(sizes, sizes) + ordered
    # A group without probability is uniform.
    has_weight = weights.any(axis=1, keepdims=True)
    cumulative = np.cumsum(np.where(has_weight, weights, 1.0), axis=1)
    cumulative /= cumulative[:, -1:]
    limits = np.arange(n_groups)[:, np.newaxis] + cumulative
    # The value of a row is the number of limits of its group up to its uniform number. The
    # last values of a group that have probability 0 get no row, in spite of rounding.
    firsts = np.searchsorted(uniforms, limits.ravel())
    n_rows = np.diff(firsts, prepend=0, append=groups.size)
    n_limits = np.repeat(np.arange(n_rows.size), n_rows)
    last = np.repeat(np.count_nonzero(cumulative < 1, axis=1), sizes)
    values = np.empty(groups.size, np.int32)
    values[order] = np.minimum(n_limits - n_values * ordered, last)
    return values
