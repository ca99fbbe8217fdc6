"""Belief propagation on a junction tree with one factor per measured marginal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Layout,
    Table,
    divide,
    expand,
    project,
    shape_of,
    sum_out,
)

MIN_MESSAGE = np.finfo(float).tiny
"""Smaller messages count as 0: their quotients have no precision."""


class _Projection:
    """The sums of one table to several of its marginals, and the adjoint."""

    # Marginals are the leaves of a tree of partial sums. Each node has one column less
    # than its parent, and large columns are summed out first.

    def __init__(
        self, clique: Clique, marginals: Iterable[Clique], sizes: Sequence[int]
    ) -> None:
        self._clique = clique
        edges: dict[Clique, tuple[Clique, int]] = {}
        for marginal in marginals:
            while marginal != clique and marginal not in edges:
                others = set(clique) - set(marginal)
                added = min(others, key=lambda column: (sizes[column], column))
                parent = tuple(sorted((*marginal, added)))
                edges[marginal] = (parent, parent.index(added))
                marginal = parent
        self._edges = sorted(edges.items(), key=lambda edge: -len(edge[0]))

    def sum(self, table: Table) -> dict[Clique, Table]:
        """Sum a table to all marginals."""
        sums = {self._clique: table}
        for columns, (parent, axis) in self._edges:
            sums[columns] = sum_out(sums[parent], axis)
        return sums

    def lift(self, logs: Iterable[tuple[Clique, Table]]) -> Table:
        """Add up tables of marginals, each repeated over the columns that it lacks."""
        sums: dict[Clique, Table] = {}
        for columns, table in logs:
            sums[columns] = sums[columns] + table if columns in sums else table
        for columns, (parent, axis) in reversed(self._edges):
            if columns in sums:
                table = sums.pop(columns)
                shape = table.shape
                lifted = table.reshape(*shape[:axis], 1, *shape[axis:])
                sums[parent] = sums[parent] + lifted if parent in sums else lifted
        return sums.get(self._clique, np.zeros(()))


class Propagation:
    """The sum-product algorithm: messages to the root and back ([1]_ section 10.2)."""

    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(
        self,
        tree: JunctionTree,
        potentials: Sequence[Table],
        marginals: Sequence[Clique] = (),
    ) -> None:
        self._tree = tree
        self._potentials = list(potentials)
        self._layout = Layout(shape_of(clique, tree.sizes) for clique in marginals)
        self._marginals = list(marginals)
        self._indices = [tree.find_measured(clique) for clique in marginals]
        wanted: list[list[Clique]] = [[] for _ in tree.cliques]
        for clique, index in zip(marginals, self._indices, strict=True):
            wanted[index].append(clique)
        for link in tree.links:
            wanted[link.child].append(link.separator)
            wanted[link.parent].append(link.separator)
        self._projections = []
        for clique, columns in zip(tree.cliques, wanted, strict=True):
            self._projections.append(_Projection(clique, columns, tree.sizes))

    def run(self, factors: Table) -> tuple[list[Table], Table]:
        """Return the distributions of all cliques, and the measured marginals in the layout of `factors`."""
        # Messages are scaled to a maximum of 1.
        logs: list[list[tuple[Clique, Table]]] = [[] for _ in self._tree.cliques]
        tables = self._layout.split(factors)
        for clique, index, table in zip(
            self._marginals, self._indices, tables, strict=True
        ):
            logs[index].append((clique, table))
        beliefs = [np.empty(0)] * len(logs)
        messages = {}
        for index in reversed(range(len(logs))):
            belief = self._potentials[index] + self._projections[index].lift(
                logs[index]
            )
            belief -= max(belief.max(), -1e300)
            np.exp(belief, out=belief)
            beliefs[index] = belief
            if index > 0:
                link = self._tree.links[index - 1]
                message = project(belief, self._tree.cliques[index], link.separator)
                message[message < MIN_MESSAGE] = 0
                messages[index] = message
                with np.errstate(divide="ignore"):
                    logs[link.parent].append((link.separator, np.log(message)))
        # Contradictory messages may underflow to zeros.
        beliefs[0] /= beliefs[0].sum() or 1.0

        sums = [self._projections[0].sum(beliefs[0])]
        for link in self._tree.links:
            target = sums[link.parent][link.separator]
            ratio = divide(target, messages[link.child])
            clique = self._tree.cliques[link.child]
            beliefs[link.child] *= expand(ratio, link.separator, clique)
            sums.append(self._projections[link.child].sum(beliefs[link.child]))
        measured = []
        for clique, index in zip(self._marginals, self._indices, strict=True):
            measured.append(sums[index][clique])
        return beliefs, self._layout.join(measured) if measured else np.empty(0)
