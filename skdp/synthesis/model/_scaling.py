"""Iterative proportional fitting of a junction tree to marginals of little noise."""

from __future__ import annotations

from collections.abc import Iterable

from skdp.oracles import project_to_simplex
from skdp.synthesis.model._graphical_model import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Marginal,
    Table,
    divide,
    expand,
    group,
    project,
    spread,
)

_FLOOR = 0.01
"""In standard errors, what a cell has at least: noise does not forbid a combination.

Small, so that it adds less than a hundredth of the noise that is there anyway."""


class Scaling:
    """Iterative proportional fitting: scales a tree's cliques to given marginals."""

    # A sweep walks once around the tree, scales each clique to one marginal after the
    # other, and each neighbour to what both share ([1]_, [2]_). For marginals that
    # agree, a few sweeps come close to the distribution of maximum entropy; noise is
    # fitted as well, so this is for marginals with little of it.
    # .. [1] W. E. Deming, F. F. Stephan (1940). On a least squares adjustment of a
    #    sampled frequency table when the expected marginal totals are known. Annals of
    #    Mathematical Statistics 11(4).
    # .. [2] R. Jiroušek, S. Přeučil (1995). On the effective implementation of the
    #    iterative proportional fitting procedure. Computational Statistics & Data
    #    Analysis 19(2).

    def __init__(
        self, tree: JunctionTree, marginals: Iterable[Marginal], total: float
    ) -> None:
        self._tree = tree
        self._targets: list[list[tuple[Marginal, Table]]] = []  # of each clique
        for _ in tree.cliques:
            self._targets.append([])
        # The least precise first: what follows overrides it.
        for marginal in sorted(marginals, key=lambda marginal: -marginal.total[1]):
            holder = tree.holder_of(marginal.clique)
            counts = project_to_simplex(marginal.counts.ravel(), total)
            counts = (counts + _FLOOR * marginal.std_error).reshape(marginal.shape)
            self._targets[holder].append((marginal, counts / counts.sum()))

    def sweep(self, start: Iterable[Table]) -> list[Table] | None:
        """Go once around the tree; None if marginals and start contradict."""
        tables = list(start)
        self._visit(tables, 0)
        for link in self._tree.links:  # what later branches changed
            self._pass(tables, link.parent, link.child, link.separator)
        beliefs = []
        for table in tables:
            if not table.any():
                return None
            beliefs.append(table / table.sum())
        return beliefs

    def _visit(self, tables: list[Table], index: int) -> None:
        """Fit a clique, then the branches below it, each with what is known by then."""
        clique = self._tree.cliques[index]
        for marginal, shares in self._targets[index]:
            sums = project(tables[index], clique, marginal.clique)
            ratio = divide(shares, group(sums, marginal.groups))
            ratio = spread(ratio, marginal.groups)
            tables[index] = tables[index] * expand(ratio, marginal.clique, clique)
        for link in self._tree.links:
            if link.parent == index:
                self._pass(tables, index, link.child, link.separator)
                self._visit(tables, link.child)
                self._pass(tables, link.child, index, link.separator)

    def _pass(
        self, tables: list[Table], source: int, index: int, separator: Clique
    ) -> None:
        """Scale a clique to what its neighbour says of the columns that they share."""
        clique = self._tree.cliques[index]
        shares = project(tables[source], self._tree.cliques[source], separator)
        ratio = divide(shares, project(tables[index], clique, separator))
        tables[index] = tables[index] * expand(ratio, separator, clique)
