"""Fitting marginals that are nearly exact: iterative proportional fitting along a junction tree."""

from __future__ import annotations

from collections.abc import Sequence

from skdp.oracles import project_to_simplex
from skdp.synthesis._junction_tree import Clique, JunctionTree, Link
from skdp.synthesis._marginal import Marginal, group, spread
from skdp.synthesis._tables import Table, divide, expand, project

_FLOOR = 0.01
"""Of the standard error: what a cell has at least, so that a count that noise made 0 does not forbid a combination."""


class Scaling:
    """Scale the cliques of a tree so that they have given marginals."""

    # A sweep walks once around the tree. It scales each clique to one marginal after the other: the cells that are
    # summed to a count are multiplied by the same number. Before it goes on to a neighbour it scales that one to what
    # both share ([1]_, [2]_). That is coordinate ascent on the likelihood: for marginals that agree with each other a
    # few sweeps come close to the distribution of the largest entropy that has all of them. Noise that makes them
    # disagree is fitted as well, so that this is for marginals with little of it.
    # .. [1] W. E. Deming, F. F. Stephan (1940). On a least squares adjustment of a sampled frequency table when the
    #    expected marginal totals are known. Annals of Mathematical Statistics 11(4).
    # .. [2] R. Jiroušek, S. Přeučil (1995). On the effective implementation of the iterative proportional fitting
    #    procedure. Computational Statistics & Data Analysis 19(2).

    def __init__(self, tree: JunctionTree, marginals: Sequence[Marginal], total: float) -> None:
        self._tree = tree
        self._targets: list[list[tuple[Marginal, Table]]] = [[] for _ in tree.cliques]
        for marginal in sorted(marginals, key=lambda marginal: -marginal.total[1]):
            place = tree.holder(marginal.clique)
            assert place is not None  # the tree was made for it
            self._targets[place].append((marginal, _shares(marginal, total)))
        self._links: list[list[Link]] = [[] for _ in tree.cliques]
        for link in tree.links:
            self._links[link.parent].append(link)

    def sweep(self, beliefs: Sequence[Table]) -> list[Table]:
        """Go once around the tree."""
        scaled = list(beliefs)
        self._visit(scaled, 0)
        for link in self._tree.links:  # what later branches changed
            self._pass(scaled, link.parent, link.child, link.separator)
        return [belief / belief.sum() for belief in scaled]

    def _visit(self, beliefs: list[Table], place: int) -> None:
        """Fit a clique, then the branches below it, each with what is known by then."""
        for marginal, shares in self._targets[place]:
            have = group(project(beliefs[place], self._tree.cliques[place], marginal.clique), marginal.groups)
            ratio = spread(divide(shares, have), marginal.groups)
            beliefs[place] = beliefs[place] * expand(ratio, marginal.clique, self._tree.cliques[place])
        for link in self._links[place]:
            self._pass(beliefs, place, link.child, link.separator)
            self._visit(beliefs, link.child)
            self._pass(beliefs, link.child, place, link.separator)

    def _pass(self, beliefs: list[Table], known: int, changed: int, shared: Clique) -> None:
        """Scale a clique to what its neighbour says of the columns that they share."""
        cliques = self._tree.cliques
        said, has = project(beliefs[known], cliques[known], shared), project(beliefs[changed], cliques[changed], shared)
        beliefs[changed] = beliefs[changed] * expand(divide(said, has), shared, cliques[changed])


def _shares(marginal: Marginal, total: float) -> Table:
    """Turn noisy counts into shares: positive, and adding up to 1."""
    counts = project_to_simplex(marginal.counts.ravel(), total) + _FLOOR * marginal.std_error
    return (counts / counts.sum()).reshape(marginal.shape)
