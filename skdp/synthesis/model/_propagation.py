"""Belief propagation: the marginals of a product of potentials and factors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from skdp.synthesis.model._graphical_model import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Projections,
    Table,
    Tables,
    divide,
    marginal_shapes,
)

_SMALLEST = np.finfo(float).tiny
"""Numbers below have fewer digits, with which quotients would be wrong."""

_LEAST_LOG = -1e300
"""In place of minus infinity, which must not be subtracted from itself."""


class Propagation:
    """The sum-product algorithm on a junction tree, with a factor for each marginal."""

    # Messages go up to the root and down again ([1]_ section 10.2). There is a
    # potential for each clique, and a factor for each of some marginals, both as
    # logarithms. What multiplies a clique's potential, the messages of its children
    # and its factors, is a part of one vector.
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
        self._potentials = list(potentials)
        self._children: list[list[int]] = []
        members: list[list[int]] = []  # the factors of each clique
        for _ in tree.cliques:
            self._children.append([])
            members.append([])
        for link in tree.links:
            self._children[link.parent].append(link.child)
        for index, marginal in enumerate(marginals):
            members[tree.holder_of(marginal)].append(index)

        factors = Tables(marginal_shapes(marginals, tree.sizes))
        self._positions = np.empty(factors.size, np.intp)  # of factors in the vector
        self._messages = [slice(0)] * len(tree.cliques)
        self._parts: list[slice] = []
        self._below: list[Projections] = []
        self._above: list[Projections] = []
        end = 0
        for index, clique in enumerate(tree.cliques):
            start = end
            onto = []
            for child in self._children[index]:
                separator = tree.links[child - 1].separator
                self._messages[child] = slice(end, end + tree.n_cells(separator))
                end = self._messages[child].stop
                onto.append(separator)
            for member in members[index]:
                positions = self._positions[factors.parts[member]]
                positions[:] = np.arange(end, end + positions.size)
                end += positions.size
                onto.append(marginals[member])
            self._parts.append(slice(start, end))
            self._below.append(Projections(clique, tree.sizes, onto))
            separators = [tree.links[index - 1].separator] if index > 0 else []
            self._above.append(Projections(clique, tree.sizes, separators))

    def run(self, factors: Table) -> tuple[list[Table], Table]:
        """Return the marginals of all cliques, and of what has factors."""
        logs = np.empty(self._parts[-1].stop)
        logs[self._positions] = factors
        messages = np.empty_like(logs)
        tables = list(self._potentials)
        with np.errstate(divide="ignore"):
            for index in reversed(range(len(tables))):
                lifted = self._below[index].lift(logs[self._parts[index]])
                table = tables[index] + lifted
                table -= max(table.max(), _LEAST_LOG)
                tables[index] = np.exp(table, out=table)
                if index > 0:
                    message = self._above[index].project(table)
                    message[message < _SMALLEST] = 0
                    messages[self._messages[index]] = message
                    logs[self._messages[index]] = np.log(message)
        tables[0] = divide(tables[0], tables[0].sum())

        # A clique is scaled to what its parent says of the columns that they share.
        sums = np.empty_like(logs)
        for index, table in enumerate(tables):
            sums[self._parts[index]] = self._below[index].project(table)
            for child in self._children[index]:
                part = self._messages[child]
                ratio = divide(sums[part], messages[part])
                tables[child] *= self._above[child].lift(ratio)
        return tables, sums[self._positions]

    def sums(self, beliefs: Sequence[Table]) -> Table:
        """Sum marginals of all cliques to those of what has factors."""
        vector = np.empty(self._parts[-1].stop)
        for part, below, belief in zip(self._parts, self._below, beliefs, strict=True):
            vector[part] = below.project(belief)
        return vector[self._positions]


def calibrate(tree: JunctionTree, potentials: Iterable[Table]) -> list[Table]:
    """Return the marginals of all cliques."""
    beliefs, _ = Propagation(tree, potentials).run(np.empty(0))
    return beliefs


def no_potentials(tree: JunctionTree) -> list[Table]:
    """Return the potentials of the uniform distribution, all 0."""
    return list(map(np.zeros, marginal_shapes(tree.cliques, tree.sizes)))
