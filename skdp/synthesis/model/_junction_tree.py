"""Triangulation of the graph of some marginals, and its junction tree."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from skdp.synthesis.model._tables import Clique, n_cells_of


class Elimination:
    """The elimination order of a graph of columns, and the cliques of its triangulation."""

    # The columns of a marginal are neighbors in the graph. Columns are eliminated one
    # after the other: always the column that has, together with its neighbors, the
    # smallest number of cells ([1]_ section 9.4.3). A column and its neighbors are a
    # clique, and the neighbors become neighbors of each other.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(
        self,
        sizes: Sequence[int],
        marginals: Iterable[Clique] = (),
        given: Collection[int] = (),
    ) -> None:
        """Connect the columns of each marginal in a graph, and eliminate them; `sizes` are numbers of values.

        The columns `given` are eliminated after all other columns.
        """
        self._sizes = sizes
        self._given = given
        self._n_retries = 0
        self._neighbors = [{column} for column in range(len(sizes))]
        for marginal in marginals:
            self._connect(marginal)
        self._eliminate()

    def _connect(self, marginal: Clique) -> None:
        """Make the columns of a marginal neighbors of each other."""
        for column in marginal:
            self._neighbors[column].update(marginal)

    def _eliminate(self) -> None:
        """Eliminate all columns in a new order, and keep their ranks and cliques.

        To eliminate a column is to join all its neighbors and to remove it. Its clique is the set of the column and
        these neighbors; columns with the smallest cliques are first.
        """
        neighbors = list(map(set, self._neighbors))

        def cost(column: int) -> tuple[bool, int]:
            return column in self._given, self._count_cells(neighbors[column])

        costs = {column: cost(column) for column in range(len(neighbors))}
        self._ranks: dict[int, int] = {}
        self._cliques: dict[int, set[int]] = {}
        while costs:
            column = min(costs, key=costs.__getitem__)
            del costs[column]
            clique = neighbors[column]
            self._ranks[column] = len(self._ranks)
            self._cliques[column] = clique
            for neighbor in clique - {column}:
                neighbors[neighbor] = (neighbors[neighbor] | clique) - {column}
                costs[neighbor] = cost(neighbor)
        self._total = self.n_cells[1]

    def _count_cells(self, columns: Iterable[int]) -> int:
        """Count the combinations of values of some columns."""
        return math.prod(map(self._sizes.__getitem__, columns))

    @property
    def cliques(self) -> list[Clique]:
        """The maximal cliques of the triangulated graph, as sorted tuples of columns.

        `_cliques` has, for each column, the column and its neighbors when it was eliminated. These sets contain all
        maximal cliques.
        """
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
    def steps(self) -> list[tuple[int, Clique]]:
        """Each column with the columns given which it is drawn, in the reverse order of elimination."""
        order = sorted(self._ranks, key=self._ranks.__getitem__, reverse=True)
        return [
            (column, tuple(sorted(self._cliques[column] - {column})))
            for column in order
        ]

    @property
    def n_cells(self) -> tuple[int, int]:
        """The number of cells of the largest clique, and of all cliques."""
        n_cells = list(map(self._count_cells, self.cliques))
        return max(n_cells), sum(n_cells)

    def add(self, marginal: Clique, max_cells: int, max_total: int) -> bool:
        """Add a marginal unless a clique, or all together, become too large; return True if it was added."""
        # In the present order, the marginal is added to the clique of its first
        # column. Eliminating this column makes the other columns of the wider clique
        # neighbors, so they are then added to the clique of their first column, and so
        # on up the elimination tree ([1]_), until a clique contains all of them.
        # .. [1] J. W. H. Liu (1990). The role of elimination trees in sparse
        #    factorization. SIAM Journal on Matrix Analysis and Applications 11(1).
        wider_cliques = {}
        total = self._total
        new_neighbors = set(marginal)
        while new_neighbors:
            column = min(new_neighbors, key=self._ranks.__getitem__)
            clique = self._cliques[column]
            if new_neighbors <= clique:
                break
            wider_clique = clique | new_neighbors
            wider_cliques[column] = wider_clique
            n_cells = self._count_cells(wider_clique)
            total += n_cells - self._count_cells(clique)
            if n_cells > max_cells or total > max_total:
                return self._add_in_new_order(marginal, max_cells, max_total)
            new_neighbors = wider_clique - {column}
        self._connect(marginal)
        self._cliques.update(wider_cliques)
        self._total = total
        return True

    def _add_in_new_order(
        self, marginal: Clique, max_cells: int, max_total: int
    ) -> bool:
        """Add a marginal that makes a clique too large in the present order, if a new order permits it."""
        # Each try eliminates all columns, so their number is limited.
        if self._n_retries == 50:
            return False
        self._n_retries += 1
        present = self._neighbors, self._ranks, self._cliques, self._total
        self._neighbors = list(map(set, self._neighbors))
        self._connect(marginal)
        self._eliminate()
        if self.n_cells[0] <= max_cells and self._total <= max_total:
            return True
        self._neighbors, self._ranks, self._cliques, self._total = present
        return False


class JunctionTree:
    """The cliques of the triangulated graph of some marginals, in a tree with the parents first.

    Each clique has the index of its parent in `parents`, -1 for the root, and the columns of both in `separators`.
    """

    # Running intersection property: the cliques that contain a column are connected in
    # the tree. So messages along the links suffice for exact inference.

    def __init__(
        self,
        sizes: Sequence[int],
        marginals: Iterable[Clique],
        given: Collection[int] = (),
    ) -> None:
        """Build the tree of the cliques; all columns except `given` can be drawn given these, in the order `steps`."""
        self.sizes = tuple(sizes)
        elimination = Elimination(sizes, marginals, given)
        self.steps = elimination.steps
        self.cliques, self.parents = _span_tree(elimination.cliques)
        self.separators: list[Clique] = []
        for clique, parent in zip(self.cliques, self.parents, strict=True):
            shared = set(clique).intersection(self.cliques[parent])
            self.separators.append(() if parent < 0 else tuple(sorted(shared)))

    def find(self, columns: Iterable[int]) -> int | None:
        """Return the index of the smallest clique that contains some columns; None if there is none."""
        columns = set(columns)
        candidates = []
        for index, clique in enumerate(self.cliques):
            if columns <= set(clique):
                candidates.append((n_cells_of(clique, self.sizes), index))
        return min(candidates)[1] if candidates else None

    def find_measured(self, columns: Iterable[int]) -> int:
        """Return the index of the smallest clique that contains the columns of a marginal of the tree."""
        index = self.find(columns)
        assert index is not None
        return index

    def find_first(self, column: int) -> int:
        """Return the index of the clique with a column that is nearest to the root."""
        index = 0
        while column not in self.cliques[index]:
            index += 1
        return index


def _span_tree(cliques: list[Clique]) -> tuple[list[Clique], list[int]]:
    """Join cliques into a tree with the largest separators; return them with parents first, and their parents.

    A parent is an index in the returned list, -1 for the root.
    """
    # A spanning tree of the cliques of a triangulated graph has the running
    # intersection property if the sum of the sizes of its separators is the largest.
    n_columns = 1 + max(map(max, cliques))
    is_member = np.zeros((len(cliques), n_columns), int)
    for index, clique in enumerate(cliques):
        is_member[index, list(clique)] = 1
    # An edge of weight 0 is no edge, so the weight of disjoint cliques is -1.
    tree = minimum_spanning_tree(-1 - is_member @ is_member.T)
    root = max(range(len(cliques)), key=lambda index: len(cliques[index]))
    order, parents = breadth_first_order(tree, root, directed=False)
    new_indices = {index: number for number, index in enumerate(order.tolist())}
    return (
        [cliques[index] for index in new_indices],
        [new_indices.get(int(parents[index]), -1) for index in new_indices],
    )
