"""Belief propagation on a junction tree with one factor per measured marginal."""

from __future__ import annotations

from collections.abc import Sequence

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
)

MIN_MESSAGE = np.finfo(float).tiny
"""Smaller messages count as 0: their quotients have no precision."""


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
            clique = self._tree.cliques[index]
            belief = self._potentials[index].copy()
            for columns, table in logs[index]:
                belief += expand(table, columns, clique)
            belief -= max(belief.max(), -1e300)
            np.exp(belief, out=belief)
            beliefs[index] = belief
            if index > 0:
                link = self._tree.links[index - 1]
                message = project(belief, clique, link.separator)
                message[message < MIN_MESSAGE] = 0
                messages[index] = message
                with np.errstate(divide="ignore"):
                    logs[link.parent].append((link.separator, np.log(message)))
        # Contradictory messages may underflow to zeros.
        beliefs[0] /= beliefs[0].sum() or 1.0
        for link in self._tree.links:
            parent = self._tree.cliques[link.parent]
            target = project(beliefs[link.parent], parent, link.separator)
            ratio = divide(target, messages[link.child])
            clique = self._tree.cliques[link.child]
            beliefs[link.child] *= expand(ratio, link.separator, clique)
        measured = []
        for columns, index in zip(self._marginals, self._indices, strict=True):
            clique = self._tree.cliques[index]
            measured.append(project(beliefs[index], clique, columns))
        return beliefs, self._layout.join(measured) if measured else np.empty(0)
