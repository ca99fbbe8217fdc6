"""Belief propagation: the marginals of a product of potentials and factors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from skdp.synthesis.model._graphical_model import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Positions,
    Projections,
    Table,
    Tables,
    divide,
    is_small,
    marginal_shapes,
)

_SMALLEST = np.finfo(float).tiny
"""Numbers below have fewer digits, with which quotients would be wrong."""

_MIN_LOG = -1e300
"""In place of minus infinity, which must not be subtracted from itself."""


class _Node:
    """Cliques at the same depth of a tree: a large one, or all small ones together."""

    def __init__(
        self,
        tree: JunctionTree,
        cliques: Sequence[int],
        marginals_of_cliques: Sequence[Sequence[Clique]],
        *,
        is_large: bool,
    ) -> None:
        self.cliques = cliques
        self._layout = Tables([tree.shape(index) for index in cliques])
        self._is_large = is_large
        below = []
        above = []
        for index in cliques:
            columns = tree.cliques[index]
            separators = [tree.link_of(index).separator] if index > 0 else []
            below.append((columns, marginals_of_cliques[index]))
            above.append((columns, separators))
        self.below: Projections | Positions
        self.above: Projections | Positions
        if is_large:
            self.below = Projections(*below[0], tree.sizes)
            self.above = Projections(*above[0], tree.sizes)
        else:
            self.below = Positions(below, tree.sizes)
            self.above = Positions(above, tree.sizes)

    def join(self, tables: Sequence[Table]) -> Table:
        """Return what is computed at once: the table, or the cells of all tables."""
        tables = [tables[index] for index in self.cliques]
        return tables[0] if self._is_large else self._layout.join(tables)

    def split(self, joined: Table) -> list[Table]:
        """Return the tables of the cliques."""
        return [joined] if self._is_large else self._layout.split(joined)

    def peaks(self, joined: Table) -> Table:
        """Return the largest number of each cell's table."""
        if self._is_large:
            return np.asarray(joined.max())
        return self._layout.peaks(joined)


class Propagation:
    """The sum-product algorithm on a junction tree, with a factor for each marginal."""

    # Messages go up to the root and down again ([1]_ section 10.2). There is a
    # potential for each clique, and a factor for each of some marginals, both as
    # logarithms. What multiplies a clique's potential, the messages of its children
    # and its factors, is a part of one vector.
    # Wide tables have hundreds of small cliques, for which calls take more time than
    # sums. Cliques at the same depth send messages to cliques of the depth above only,
    # so the small ones are computed at once.
    # Messages are scaled such that their largest number is 1, and what is exp(-700)
    # times as likely or less is taken for impossible. Longer steps of a descent than
    # are of use may make everything impossible: then all tables are 0.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(
        self,
        tree: JunctionTree,
        potentials: Iterable[Table],
        marginals: Sequence[Clique] = (),
    ) -> None:
        children: list[list[int]] = []
        members: list[list[int]] = []  # the factors of each clique
        for _ in tree.cliques:
            children.append([])
            members.append([])
        for link in tree.links:
            children[link.parent].append(link.child)
        for index, marginal in enumerate(marginals):
            members[tree.holder_of(marginal)].append(index)
        marginals_of_cliques = []
        for index in range(len(tree.cliques)):
            onto = [tree.link_of(child).separator for child in children[index]]
            onto += [marginals[member] for member in members[index]]
            marginals_of_cliques.append(onto)
        self._nodes = _nodes(tree, marginals_of_cliques)

        # Where in the vector the numbers of each node are, its messages, and factors.
        factors = Tables(marginal_shapes(marginals, tree.sizes))
        self._positions = np.empty(factors.size, np.intp)
        self._parts: list[slice] = []
        messages = [np.empty(0, np.intp)] * len(tree.cliques)
        end = 0
        for node in self._nodes:
            start = end
            for index in node.cliques:
                for child in children[index]:
                    n_cells = tree.n_cells(tree.link_of(child).separator)
                    messages[child] = np.arange(end, end + n_cells)
                    end += n_cells
                for member in members[index]:
                    positions = self._positions[factors.parts[member]]
                    positions[:] = np.arange(end, end + positions.size)
                    end += positions.size
            self._parts.append(slice(start, end))
        self._size = end
        self._messages = []
        for node in self._nodes:
            of_node = [messages[index] for index in node.cliques]
            self._messages.append(np.concatenate(of_node))
        tables = list(potentials)
        self._potentials = [node.join(tables) for node in self._nodes]

    def run(self, factors: Table) -> tuple[list[Table], Table]:
        """Return the marginals of all cliques, and of what has factors."""
        logs = np.empty(self._size)
        logs[self._positions] = factors
        messages = np.empty_like(logs)
        tables = list(self._potentials)
        with np.errstate(divide="ignore"):
            for index in reversed(range(len(tables))):
                node = self._nodes[index]
                table = tables[index] + node.below.lift(logs[self._parts[index]])
                table -= np.maximum(node.peaks(table), _MIN_LOG)
                tables[index] = np.exp(table, out=table)
                if index > 0:
                    message = node.above.project(table)
                    message[message < _SMALLEST] = 0
                    messages[self._messages[index]] = message
                    logs[self._messages[index]] = np.log(message)
        tables[0] = divide(tables[0], tables[0].sum())

        # A clique is scaled to what its parent says of the columns that they share.
        sums = np.empty_like(logs)
        for index, node in enumerate(self._nodes):
            if index > 0:
                part = self._messages[index]
                tables[index] *= node.above.lift(divide(sums[part], messages[part]))
            sums[self._parts[index]] = node.below.project(tables[index])
        beliefs = [np.empty(0)] * sum(len(node.cliques) for node in self._nodes)
        for node, table in zip(self._nodes, tables, strict=True):
            for clique, belief in zip(node.cliques, node.split(table), strict=True):
                beliefs[clique] = belief
        return beliefs, sums[self._positions]

    def sums(self, beliefs: Sequence[Table]) -> Table:
        """Sum marginals of all cliques to those of what has factors."""
        vector = np.empty(self._size)
        for part, node in zip(self._parts, self._nodes, strict=True):
            vector[part] = node.below.project(node.join(beliefs))
        return vector[self._positions]


def _nodes(
    tree: JunctionTree, marginals_of_cliques: Sequence[Sequence[Clique]]
) -> list[_Node]:
    """Divide the cliques of a tree, those next to the root first."""
    depths = [0]
    for link in tree.links:  # parents come before their children
        depths.append(depths[link.parent] + 1)
    nodes = []
    for depth in range(max(depths) + 1):
        small = []
        for index, marginals in enumerate(marginals_of_cliques):
            if depths[index] != depth:
                continue
            if is_small(tree.n_cells(tree.cliques[index]), len(marginals)):
                small.append(index)
            else:
                nodes.append(_Node(tree, [index], marginals_of_cliques, is_large=True))
        if small:
            nodes.append(_Node(tree, small, marginals_of_cliques, is_large=False))
    return nodes


def calibrate(tree: JunctionTree, potentials: Iterable[Table]) -> list[Table]:
    """Return the marginals of all cliques."""
    beliefs, _ = Propagation(tree, potentials).run(np.empty(0))
    return beliefs


def no_potentials(tree: JunctionTree) -> list[Table]:
    """Return the potentials of the uniform distribution, all 0."""
    return list(map(np.zeros, marginal_shapes(tree.cliques, tree.sizes)))
