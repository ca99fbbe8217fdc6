"""Triangulation of the graph of some marginals, and its junction tree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skdp.synthesis.model._tables import Clique, n_cells_of, shape_of


class Elimination:
    """The elimination order of a graph of columns, and the cliques that it creates."""

    # Columns are eliminated in order of the number of cells that they and their
    # neighbors have together ([1]_ section 9.4.3). A column and its neighbors are a
    # clique, and the neighbors become neighbors of each other.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(self, sizes: Sequence[int], marginals: Iterable[Clique] = ()) -> None:
        self._sizes = sizes
        self._n_retries = 0
        self._neighbors = [{column} for column in range(len(sizes))]
        for marginal in marginals:
            self._connect(marginal)
        self._eliminate()

    def _connect(self, marginal: Clique) -> None:
        for column in marginal:
            self._neighbors[column].update(marginal)

    def _eliminate(self) -> None:
        """Eliminate all columns in a new order."""
        neighbors = [set(columns) for columns in self._neighbors]
        costs = dict(enumerate(map(self._count, neighbors)))
        self._ranks: dict[int, int] = {}
        self._cliques: dict[int, set[int]] = {}
        while costs:
            column = min(costs, key=costs.__getitem__)
            del costs[column]
            clique = neighbors[column]
            self._ranks[column] = len(self._ranks)
            self._cliques[column] = clique
            for other in clique - {column}:
                neighbors[other] = (neighbors[other] | clique) - {column}
                costs[other] = self._count(neighbors[other])
        _, self._total = self.n_cells
        self._total_at_elimination = self._total

    def _count(self, columns: Iterable[int]) -> int:
        return math.prod(map(self._sizes.__getitem__, columns))

    @property
    def cliques(self) -> list[Clique]:
        """The maximal cliques of the triangulated graph."""
        # A clique is within another one if it equals the neighbors of a column.
        remainders = set()
        for column, clique in self._cliques.items():
            remainders.add(frozenset(clique - {column}))
        maximal = []
        for clique in self._cliques.values():
            if clique not in remainders:
                maximal.append(tuple(sorted(clique)))
        return maximal

    @property
    def n_cells(self) -> tuple[int, int]:
        """The number of cells of the largest clique, and of all cliques."""
        cells = list(map(self._count, self.cliques))
        return max(cells), sum(cells)

    def add(self, marginal: Clique, max_cells: int, max_total: int) -> bool:
        """Add a marginal if cliques stay small enough; return True if it was added."""
        # In the present order, the clique of the first column absorbs the marginal and
        # passes the rest on: up the elimination tree ([1]_), until nothing is new.
        # .. [1] J. W. H. Liu (1990). The role of elimination trees in sparse
        #    factorization. SIAM Journal on Matrix Analysis and Applications 11(1).
        wider = {}
        total = self._total
        addition = set(marginal)
        while addition:
            column = min(addition, key=self._ranks.__getitem__)
            clique = self._cliques[column]
            if addition <= clique:
                break
            wider[column] = clique | addition
            n_cells = self._count(wider[column])
            total += n_cells - self._count(clique)
            if n_cells > max_cells or total > max_total:
                return self._add_in_new_order(marginal, max_cells, max_total)
            addition = wider[column] - {column}
        self._connect(marginal)
        self._cliques.update(wider)
        self._total = total
        # Another order may be smaller once the model has grown by 5 %.
        if total > 1.05 * self._total_at_elimination:
            self._find_order(max_cells, max_total)
        return True

    def _add_in_new_order(
        self, marginal: Clique, max_cells: int, max_total: int
    ) -> bool:
        """Add a marginal that is too large in the present order, if another one has capacity."""
        # Each try eliminates all columns, so their number is limited.
        if self._n_retries == 50:
            return False
        self._n_retries += 1
        neighbors = [set(columns) for columns in self._neighbors]
        self._connect(marginal)
        is_added = self._find_order(max_cells, max_total)
        if not is_added:
            self._neighbors = neighbors
        return is_added

    def _find_order(self, max_cells: int, max_total: int) -> bool:
        """Eliminate in a new order; return to the present one if cliques become too large."""
        before = self._ranks, self._cliques, self._total
        self._eliminate()
        largest, total = self.n_cells
        if largest <= max_cells and total <= max_total:
            return True
        self._ranks, self._cliques, self._total = before
        return False


@dataclass(frozen=True)
class Link:
    """The edge from a clique to its parent."""

    child: int
    parent: int
    separator: Clique


class JunctionTree:
    """Cliques in a tree with the running intersection property, parents first."""

    def __init__(self, sizes: Sequence[int], marginals: Iterable[Clique]) -> None:
        self.sizes = tuple(sizes)
        self.cliques, self.links = _join(Elimination(sizes, marginals).cliques)

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of the table of a clique."""
        return shape_of(self.cliques[index], self.sizes)

    def find(self, columns: Iterable[int]) -> int | None:
        """Find the smallest clique with some columns."""
        needed = set(columns)
        found = []
        for index, clique in enumerate(self.cliques):
            if needed <= set(clique):
                found.append((n_cells_of(clique, self.sizes), index))
        return min(found)[1] if found else None

    def find_measured(self, columns: Iterable[int]) -> int:
        """Find the smallest clique that contains measured columns."""
        index = self.find(columns)
        assert index is not None
        return index

    def find_first(self, column: int) -> int:
        """Find the clique with a column that is nearest to the root."""
        return next(i for i, clique in enumerate(self.cliques) if column in clique)


def _join(cliques: list[Clique]) -> tuple[tuple[Clique, ...], tuple[Link, ...]]:
    """Join cliques along their largest overlaps (Prim's algorithm)."""
    waiting = [set(clique) for clique in cliques]
    order = [max(waiting, key=len)]
    waiting.remove(order[0])
    links = []
    overlaps = [(len(clique & order[0]), 0) for clique in waiting]
    while waiting:
        index = max(range(len(waiting)), key=lambda index: overlaps[index][0])
        clique = waiting.pop(index)
        _, parent = overlaps.pop(index)
        separator = tuple(sorted(clique & order[parent]))
        links.append(Link(len(order), parent, separator))
        order.append(clique)
        for other, (overlap, _) in enumerate(overlaps):
            if len(waiting[other] & clique) > overlap:
                overlaps[other] = (len(waiting[other] & clique), len(order) - 1)
    return tuple(tuple(sorted(clique)) for clique in order), tuple(links)
