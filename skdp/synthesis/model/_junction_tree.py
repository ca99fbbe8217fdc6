"""A tree of cliques that holds a set of marginals: what makes a graphical model tractable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

Clique = tuple[int, ...]
"""Column numbers, increasing."""


@dataclass(frozen=True)
class Link:
    """The connection of a clique to its parent in the tree."""

    child: int
    parent: int
    separator: Clique


class JunctionTree:
    """Cliques in a tree, such that each column's cliques are connected."""

    # The graph of the marginals is triangulated by eliminating one column after the other, always the one whose
    # neighbours have the fewest cells together. The cliques that this leaves, joined along their largest overlaps, have
    # the running intersection property ([1]_ section 10.4): messages between neighbours give every clique's marginal.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(self, sizes: Sequence[int], marginals: Iterable[Iterable[int]]) -> None:
        self.sizes = tuple(sizes)
        found = eliminate(self.sizes, marginals)
        self.cliques, self.links = _join(found)

    @cached_property
    def cells(self) -> int:
        """The number of cells of all cliques together."""
        return sum(map(self.n_cells, self.cliques))

    def n_cells(self, columns: Iterable[int]) -> int:
        """Count the cells of a table."""
        return math.prod(self.sizes[column] for column in columns)

    def holder(self, columns: Iterable[int]) -> int | None:
        """Find the smallest clique that holds some columns."""
        wanted = set(columns)
        holders = [place for place, clique in enumerate(self.cliques) if wanted <= set(clique)]
        return min(holders, key=lambda place: self.n_cells(self.cliques[place]), default=None)


def eliminate(sizes: Sequence[int], marginals: Iterable[Iterable[int]]) -> list[Clique]:
    """Triangulate the graph of some marginals greedily."""
    neighbours: dict[int, set[int]] = {column: set() for column in range(len(sizes))}
    for marginal in marginals:
        for column in marginal:
            neighbours[column].update(marginal)
    for column, others in neighbours.items():
        others.discard(column)
    logs = [math.log2(size) for size in sizes]
    weights = {column: logs[column] + sum(logs[other] for other in others) for column, others in neighbours.items()}
    cliques: list[Clique] = []
    while neighbours:
        column = min(weights, key=lambda column: (weights[column], column))
        others = neighbours.pop(column)
        del weights[column]
        clique = others | {column}
        if not any(clique <= set(larger) for larger in cliques):
            cliques.append(tuple(sorted(clique)))
        for other in others:
            neighbours[other] |= others
            neighbours[other] -= {other, column}
            weights[other] = logs[other] + sum(logs[one] for one in neighbours[other])
    return cliques


def _join(cliques: Sequence[Clique]) -> tuple[tuple[Clique, ...], tuple[Link, ...]]:
    """Join cliques along their largest overlaps (Prim's algorithm), and order them from the root."""
    sets = list(map(set, cliques))
    root = max(range(len(cliques)), key=lambda place: len(sets[place]))
    order, links = [root], []
    best = {place: (len(sets[place] & sets[root]), root) for place in range(len(cliques)) if place != root}
    while best:
        place = max(best, key=lambda place: best[place][0])
        _, parent = best.pop(place)
        links.append((place, parent))
        order.append(place)
        for other, (overlap, _) in best.items():
            if len(sets[other] & sets[place]) > overlap:
                best[other] = len(sets[other] & sets[place]), place
    rank = {place: position for position, place in enumerate(order)}
    return (
        tuple(cliques[place] for place in order),
        tuple(Link(rank[place], rank[parent], tuple(sorted(sets[place] & sets[parent]))) for place, parent in links),
    )
