"""Distributions over rows on a junction tree: belief propagation, marginals and samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Codes, Floats, Integers
from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Layout,
    divide,
    expand,
    insert_axis,
    n_cells_of,
    project,
    shape_of,
    sum_out,
)

MAX_TABLE_CELLS = 1 << 26
"""Cells of the largest table that is computed: half a gigabyte."""

MIN_MESSAGE = np.finfo(float).tiny
"""Smaller messages count as 0: their quotients have no precision."""

LOG_ZERO = -1e300
"""Logarithm of 0, whose products with 0 are 0."""


class _Projection:
    """The sums of the table of one clique to several of its marginals, and the adjoint."""

    # Marginals are the leaves of a tree of partial sums. Each node has one column less
    # than its parent. From a marginal toward the clique, short columns are added
    # first, so that from the clique on, long columns are summed out first.

    def __init__(
        self, clique: Clique, marginals: Iterable[Clique], sizes: Sequence[int]
    ) -> None:
        """Plan the partial sums from the table of a clique to its marginals.

        `sizes` are the numbers of values of all columns.
        """
        self._clique = clique
        # For each node, its parent and the axis of the parent that is summed out.
        edges: dict[Clique, tuple[Clique, int]] = {}
        for marginal in marginals:
            while marginal != clique and marginal not in edges:
                missing = set(clique) - set(marginal)
                shortest = min(missing, key=lambda column: (sizes[column], column))
                parent = tuple(sorted((*marginal, shortest)))
                edges[marginal] = (parent, parent.index(shortest))
                marginal = parent
        self._edges = sorted(edges.items(), key=lambda edge: -len(edge[0]))
        # From the marginals to the clique, with the size of the axis of the parent.
        self._lifts = []
        for columns, (parent, axis) in reversed(self._edges):
            self._lifts.append((columns, parent, axis, sizes[parent[axis]]))

    def sum(self, table: Floats) -> dict[Clique, Floats]:
        """Sum a table to all marginals."""
        sums = {self._clique: table}
        for columns, (parent, axis) in self._edges:
            sums[columns] = sum_out(sums[parent], axis)
        return sums

    def lift(self, tables: Iterable[tuple[Clique, Floats]]) -> Floats:
        """Add up tables of marginals, each repeated over the columns that it lacks, to one table of the clique."""
        sums: dict[Clique, Floats] = {}
        for columns, table in tables:
            sums[columns] = sums[columns] + table if columns in sums else table
        for columns, parent, axis, size in self._lifts:
            if columns in sums:
                lifted = insert_axis(sums.pop(columns), axis, size)
                sums[parent] = sums[parent] + lifted if parent in sums else lifted
        return sums.get(self._clique, np.zeros(()))


class Propagation:
    """The sum-product algorithm: messages to the root and back ([1]_ section 10.2)."""

    # The distribution is proportional to the product of the exponentials of one
    # potential per clique and one factor per measured marginal.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(
        self,
        tree: JunctionTree,
        potentials: Sequence[Floats],
        marginals: Sequence[Clique] = (),
    ) -> None:
        """Assign each marginal to the smallest clique that contains it.

        `potentials` has the log-potential of each clique, and `marginals` the columns of the factors and of the
        results.
        """
        self._tree = tree
        # One vector, because it takes long to get memory for several large tables.
        self._cliques = Layout(table.shape for table in potentials)
        self._potentials = self._cliques.join(potentials)
        self._layout = Layout(shape_of(clique, tree.sizes) for clique in marginals)
        self._marginals = list(marginals)
        self._clique_of_marginal = list(map(tree.find_measured, marginals))
        # The marginals of each clique: measured marginals, and separators.
        projected: list[list[Clique]] = [[] for _ in tree.cliques]
        for clique, index in zip(marginals, self._clique_of_marginal, strict=True):
            projected[index].append(clique)
        for link in tree.links:
            projected[link.child].append(link.separator)
            projected[link.parent].append(link.separator)
        self._projections = []
        for clique, columns in zip(tree.cliques, projected, strict=True):
            self._projections.append(_Projection(clique, columns, tree.sizes))
        # For each clique except the root, the projection to the separator alone.
        self._to_parent = [self._projections[0]]
        for link in tree.links:
            clique = tree.cliques[link.child]
            self._to_parent.append(_Projection(clique, [link.separator], tree.sizes))

    def run(self, factors: Floats) -> tuple[list[Floats], Floats]:
        """Return the distributions of all cliques, and the measured marginals, given the logarithms of the factors.

        The tables of all factors are one vector. The marginals are one vector in the layout of `factors`.
        """
        logs: list[list[tuple[Clique, Floats]]] = [[] for _ in self._tree.cliques]
        for clique, index, table in zip(
            self._marginals,
            self._clique_of_marginal,
            self._layout.split(factors),
            strict=True,
        ):
            logs[index].append((clique, table))
        beliefs, messages = self._send_to_root(logs)

        # Back from the root: each child is scaled such that its marginal of the
        # separator equals the marginal of the parent. Children come after parents.
        sums = [self._projections[0].sum(beliefs[0])]
        for link in self._tree.links:
            target = sums[link.parent][link.separator]
            # The target is 0 where the message is.
            ratio = target / np.maximum(messages[link.child], MIN_MESSAGE)
            beliefs[link.child] *= self._to_parent[link.child].lift(
                [(link.separator, ratio)]
            )
            sums.append(self._projections[link.child].sum(beliefs[link.child]))
        measured = []
        for clique, index in zip(
            self._marginals, self._clique_of_marginal, strict=True
        ):
            measured.append(sums[index][clique])
        return beliefs, self._layout.join(measured) if measured else np.empty(0)

    def _send_to_root(
        self, logs: list[list[tuple[Clique, Floats]]]
    ) -> tuple[list[Floats], dict[int, Floats]]:
        """Multiply the factors of each clique, and send its marginal of the separator to its parent.

        Parameters
        ----------
        logs : list of list of tuple of clique and table
            For each clique, the logarithms of its factors; messages are added.

        Returns
        -------
        beliefs : list of table
            For each clique, the product of its factors and the messages of its children. The belief of the root, which
            is the first clique, sums to 1.
        messages : dict of int to table
            The message of each clique except the root.
        """
        beliefs = self._cliques.split(self._potentials.copy())
        messages = {}
        for index in reversed(range(len(logs))):
            belief = beliefs[index]
            belief += self._projections[index].lift(logs[index])
            # Scaled to a maximum of 1, so that exponentials do not overflow.
            belief -= max(belief.max(), LOG_ZERO / 2)
            np.exp(belief, out=belief)
            if index > 0:
                link = self._tree.links[index - 1]
                message = self._to_parent[index].sum(belief)[link.separator].copy()
                message[message < MIN_MESSAGE] = 0
                messages[index] = message
                with np.errstate(divide="ignore"):
                    log = np.maximum(np.log(message), LOG_ZERO)
                logs[link.parent].append((link.separator, log))
        # Contradictory messages may underflow to zeros.
        beliefs[0] /= beliefs[0].sum() or 1.0
        return beliefs, messages


class GraphicalModel:
    """The maximum-entropy distribution with given marginals of the cliques of a junction tree."""

    # **Privacy.** Arithmetic on noisy counts.

    def __init__(self, tree: JunctionTree, beliefs: Iterable[Floats]) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)

    @cached_property
    def _separators(self) -> list[Floats]:
        """The marginal of the separator of each link."""
        tables = []
        for link in self.tree.links:
            clique = self.tree.cliques[link.child]
            tables.append(project(self.beliefs[link.child], clique, link.separator))
        return tables

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Compute the marginal of any columns."""
        columns = tuple(columns)
        index = self.tree.find(columns)
        if index is not None:
            return project(self.beliefs[index], self.tree.cliques[index], columns)
        return self._eliminate(columns, {})

    def expectation(self, weights: Mapping[int, Floats]) -> float:
        """Compute the mean of a product of weights of the values of some columns."""
        return float(self._eliminate((), weights))

    def _eliminate(
        self, columns: tuple[int, ...], weights: Mapping[int, Floats]
    ) -> Floats:
        """Multiply the distribution by weights, and sum it over all columns except `columns`.

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
        for number in reversed(range(len(self.tree.links))):
            link = self.tree.links[number]
            received = messages.pop(link.child, [])
            clique = self.tree.cliques[link.child]
            # Without columns and messages of its own, a clique sums to 1 given the
            # separator.
            new_columns = set(clique) - set(link.separator)
            if not received and new_columns.isdisjoint(columns):
                continue
            table, clique = self._multiply(link.child, received)
            summed = set(clique) - set(columns) - set(link.separator)
            onto = tuple(column for column in clique if column not in summed)
            separator = expand(self._separators[number], link.separator, onto)
            message = divide(project(table, clique, onto), separator)
            messages.setdefault(link.parent, []).append((message, onto))
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

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw n rows as codes; shape (n_columns, n)."""
        # Cliques come after their parents. Each column is drawn given the columns of
        # its clique that are drawn already; by the running intersection property, it
        # is independent of all other drawn columns given these.
        tree = self.tree
        rows = np.zeros((len(tree.sizes), n), np.int32)
        drawn: list[int] = []
        for index, clique in enumerate(tree.cliques):
            for column in clique:
                if column in drawn:
                    continue
                parents = tuple(parent for parent in clique if parent in drawn)
                weights = project(self.beliefs[index], clique, (*parents, column))
                self._draw_column(rows, column, parents, weights, rng)
                drawn.append(column)
        return rows

    def sample_given(
        self, given: Mapping[int, Codes], rng: np.random.Generator
    ) -> NDArray[np.int32]:
        """Draw rows given the codes of the columns `given` of the tree; shape (n_columns, n)."""
        # In the reverse order of elimination: the neighbors of a column at its
        # elimination are drawn before it, and it is independent of all other drawn
        # columns given them.
        n_rows = len(next(iter(given.values())))
        rows = np.zeros((len(self.tree.sizes), n_rows), np.int32)
        for column, codes in given.items():
            rows[column] = codes
        for column, parents in self.tree.steps:
            if column not in given:
                weights = self.marginal((*parents, column))
                self._draw_column(rows, column, parents, weights, rng)
        return rows

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
    # The rows of group g have the positions from starts[g] to stops[g] in this order.
    sizes = np.bincount(groups, minlength=n_groups)
    stops = np.cumsum(sizes)
    starts = stops - sizes
    ranks = np.arange(groups.size) - np.repeat(starts, sizes)
    uniforms = (ranks + rng.random(groups.size)) / np.repeat(sizes, sizes)
    # Ascending over all groups: from g to g + 1 in group g.
    uniforms += np.repeat(np.arange(n_groups), sizes)
    # A group without probability is uniform.
    has_weight = weights.any(axis=1, keepdims=True)
    cumulative = np.cumsum(np.where(has_weight, weights, 1.0), axis=1)
    cumulative /= cumulative[:, -1:]
    # A value has the rows whose uniform numbers are below its cumulative probability,
    # without the rows of smaller values; the last values of a group that have
    # probability 0 get no row.
    group_numbers = np.arange(n_groups)[:, np.newaxis]
    value_stops = np.searchsorted(uniforms, group_numbers + cumulative)
    value_stops = np.maximum(value_stops, starts[:, np.newaxis])
    value_stops = np.where(cumulative < 1, value_stops, stops[:, np.newaxis])
    n_rows_of_values = np.diff(value_stops.ravel(), prepend=0)
    codes = np.tile(np.arange(n_values, dtype=np.int32), n_groups)
    values = np.empty(groups.size, np.int32)
    values[order] = np.repeat(codes, n_rows_of_values)
    return values
