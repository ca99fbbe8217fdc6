"""Junction trees, and distributions given by a table for each of their cliques."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.synthesis.model._tables import (
    Clique,
    Table,
    divide,
    expand,
    n_cells_of,
    project,
    shape_of,
)


@dataclass(frozen=True, eq=False)
class _Part:
    """The elimination of columns that marginals connect, but with no other column."""

    columns: int
    clique_of: Mapping[int, int]
    """What each column is eliminated with, itself included."""
    ranks: Mapping[int, tuple[int, int, int]]
    """When each column is eliminated: by these, also among those of other parts."""
    cliques: Sequence[tuple[tuple[int, int, int], int]]
    """The cliques that are not within another one, with their ranks."""
    n_cells: tuple[int, int]
    """The cells of the largest clique, and of all together."""


class Elimination:
    """The triangulation of the graph of some marginals."""

    # Columns are eliminated one after the other, always the one whose neighbours have
    # the fewest cells together ([1]_ section 9.4.3): a column and its neighbours are a
    # clique, and the neighbours become neighbours of each other. Sets of columns are
    # the bits of a number. What eliminating a column costs follows from the columns that
    # it is connected with: a further marginal changes no other part of the graph.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(
        self, sizes: Sequence[int], marginals: Iterable[Iterable[int]] = ()
    ) -> None:
        self._sizes = tuple(sizes)
        # Most cliques come again when a further marginal is tried.
        self._cells = cache(self._count_cells)
        self._columns = cache(_columns)
        self._neighbours = []  # of each column, itself included
        for column in range(len(self._sizes)):
            self._neighbours.append(1 << column)
        for marginal in marginals:
            _connect(self._neighbours, marginal)
        self._parts = []
        remaining = (1 << len(self._sizes)) - 1
        while remaining:
            columns = _reach(self._neighbours, remaining & -remaining)
            self._parts.append(self._eliminate(self._neighbours, columns))
            remaining ^= columns

    def _eliminate(self, all_neighbours: Sequence[int], columns: int) -> _Part:
        """Eliminate columns that are connected with no others."""
        neighbours = {}
        # What eliminating a column would cost by now. A heap cannot change its entries:
        # a column is put in again, and entries with another cost are out of date.
        current: dict[int, int] = {}
        queue: list[tuple[int, int]] = []
        for column in _columns(columns):
            neighbours[column] = all_neighbours[column]
            current[column] = self._cells(all_neighbours[column])
            queue.append((current[column], column))
        heapq.heapify(queue)
        clique_of: dict[int, int] = {}
        ranks: dict[int, tuple[int, int, int]] = {}
        # If all parts are eliminated together, a column comes before those of other
        # parts that cost more, or have one before them that does.
        highest = (0, 0)
        while queue:
            cells, column = heapq.heappop(queue)
            if current.get(column) != cells:
                continue
            del current[column]
            clique = neighbours[column]
            clique_of[column] = clique
            highest = max(highest, (cells, column))
            ranks[column] = (*highest, len(ranks))
            for other in self._columns(clique ^ (1 << column)):
                neighbours[other] = (neighbours[other] | clique) ^ (1 << column)
                current[other] = self._cells(neighbours[other])
                heapq.heappush(queue, (current[other], other))
        # A clique is within another one exactly if it is what one leaves of its own.
        remainders = set[int]()
        for column, clique in clique_of.items():
            remainders.add(clique ^ (1 << column))
        cliques = []
        n_cells = []
        for column, clique in clique_of.items():
            if clique not in remainders:
                cliques.append((ranks[column], clique))
                n_cells.append(self._cells(clique))
        return _Part(columns, clique_of, ranks, cliques, (max(n_cells), sum(n_cells)))

    @property
    def cliques(self) -> list[Clique]:
        """The cliques of the triangulated graph, none of which is within another."""
        cliques: list[tuple[tuple[int, int, int], int]] = []
        for part in self._parts:
            cliques += part.cliques
        return [_columns(clique) for _, clique in sorted(cliques)]

    @property
    def n_cells(self) -> tuple[int, int]:
        """The cells of the largest clique, and of all together."""
        return _n_cells_of_parts(self._parts)

    def add(self, marginal: Clique, max_cells: int, max_total: int) -> bool:
        """Add a marginal, if few enough cells are needed; return whether it is added."""
        bits = _bits(marginal)
        parts = []
        joined = []
        for part in self._parts:
            if part.columns & bits:
                joined.append(part)
            else:
                parts.append(part)
        if not self._fits(bits, joined, max_cells, max_total):
            return False
        neighbours = list(self._neighbours)
        _connect(neighbours, marginal)
        columns = 0
        for part in joined:
            columns |= part.columns
        parts.append(self._eliminate(neighbours, columns))
        largest, total = _n_cells_of_parts(parts)
        if largest > max_cells or total > max_total:
            return False
        self._neighbours = neighbours
        self._parts = parts
        return True

    def _fits(
        self, addition: int, parts: Iterable[_Part], max_cells: int, max_total: int
    ) -> bool:
        """Return whether cliques stay small if columns are eliminated in this order."""
        # The clique of the first of its columns takes in the marginal, and what a
        # column leaves, its next column takes in: up the elimination tree ([1]_), until
        # nothing is new. Eliminated anew, cliques are mostly smaller.
        # .. [1] J. W. H. Liu (1990). The role of elimination trees in sparse
        #    factorization. SIAM Journal on Matrix Analysis and Applications 11(1).
        clique_of: dict[int, int] = {}
        ranks: dict[int, tuple[int, int, int]] = {}
        for part in parts:
            clique_of |= part.clique_of
            ranks |= part.ranks
        _, total = self.n_cells
        while addition:
            column = min(_columns(addition), key=ranks.__getitem__)
            clique = clique_of[column]
            wider = clique | addition
            if wider == clique:
                break
            cells = self._cells(wider)
            total += cells - self._cells(clique)
            if cells > max_cells or total > max_total:
                return False
            addition = wider ^ (1 << column)
        return True

    def _count_cells(self, bits: int) -> int:
        return n_cells_of(_columns(bits), self._sizes)


def _n_cells_of_parts(parts: Iterable[_Part]) -> tuple[int, int]:
    largest = 0
    total = 0
    for part in parts:
        largest = max(largest, part.n_cells[0])
        total += part.n_cells[1]
    return largest, total


def _connect(neighbours: list[int], marginal: Iterable[int]) -> None:
    """Make the columns of a marginal neighbours of each other."""
    bits = _bits(marginal)
    for column in _columns(bits):
        neighbours[column] |= bits


def _reach(neighbours: Sequence[int], columns: int) -> int:
    """Return the columns that are connected with some columns, these included."""
    while True:
        wider = columns
        for column in _columns(columns):
            wider |= neighbours[column]
        if wider == columns:
            return columns
        columns = wider


def _bits(columns: Iterable[int]) -> int:
    bits = 0
    for column in columns:
        bits |= 1 << column
    return bits


def _columns(bits: int) -> Clique:
    columns = []
    while bits:
        columns.append(bits.bit_length() - 1)
        bits ^= 1 << columns[-1]
    return tuple(reversed(columns))


@dataclass(frozen=True)
class Link:
    """The connection of a clique to its parent in the tree."""

    child: int
    parent: int
    separator: Clique


class JunctionTree:
    """Cliques in a tree, such that each column's cliques are connected."""

    # The cliques of the triangulated graph, joined along their largest overlaps, have
    # the running intersection property ([1]_ section 10.4): messages between neighbours
    # give every clique's marginal. Parents come before their children.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(
        self,
        sizes: Sequence[int],
        marginals: Iterable[Iterable[int]],
        parents: Sequence[int] | None = None,
    ) -> None:
        self.sizes = tuple(sizes)
        cliques = list(map(tuple, marginals))
        if parents is None:  # otherwise the marginals are the cliques
            cliques, parents = _join(Elimination(sizes, cliques).cliques)
        self.cliques = tuple(cliques)
        links = []
        for child, parent in enumerate(parents, start=1):
            separator = sorted(set(cliques[child]) & set(cliques[parent]))
            links.append(Link(child, parent, tuple(separator)))
        # In the order of the cliques, of which the first is the root and has none.
        self.links = tuple(links)

    @cached_property
    def cells(self) -> int:
        """The number of cells of all cliques together."""
        return sum(map(self.n_cells, self.cliques))

    def n_cells(self, columns: Iterable[int]) -> int:
        """Count the cells of a table of some columns."""
        return n_cells_of(columns, self.sizes)

    def shape(self, clique: int) -> tuple[int, ...]:
        """Return the shape of the table of a clique."""
        return shape_of(self.cliques[clique], self.sizes)

    def link_of(self, clique: int) -> Link:
        """Return the link of a clique, but for the root, to its parent."""
        return self.links[clique - 1]

    def holder(self, columns: Iterable[int]) -> int | None:
        """Find the smallest clique that holds some columns."""
        needed = set(columns)
        best = None
        for index, clique in enumerate(self.cliques):
            if not needed <= set(clique):
                continue
            if best is None or self.n_cells(clique) < self.n_cells(self.cliques[best]):
                best = index
        return best

    def holder_of(self, columns: Iterable[int]) -> int:
        """Find the smallest clique that holds a single column, or a marginal of it."""
        index = self.holder(columns)
        assert index is not None  # the tree was made for it
        return index

    def first_with(self, column: int) -> int:
        """Find the clique of a column that is next to the root."""
        for index, clique in enumerate(self.cliques):
            if column in clique:
                return index
        raise IndexError(f"no clique has column {column}")

    def path(self, columns: Iterable[int]) -> list[int]:
        """List cliques from the root to the first of each of some columns."""
        cliques = {0}
        for column in columns:
            clique = self.first_with(column)
            while clique not in cliques:
                cliques.add(clique)
                clique = self.link_of(clique).parent
        return sorted(cliques)


def _join(cliques: Sequence[Clique]) -> tuple[list[Clique], list[int]]:
    """Join cliques along their largest overlaps; return them and their parents."""
    # Prim's algorithm, from the clique with the most columns.
    sets = list(map(set, cliques))
    root = max(range(len(cliques)), key=lambda index: len(sets[index]))
    order = [root]
    parents = []
    overlaps = {}  # the largest overlap with the tree, and with which of its cliques
    for index in range(len(cliques)):
        if index != root:
            overlaps[index] = (len(sets[index] & sets[root]), 0)
    while overlaps:
        index = max(overlaps, key=lambda index: overlaps[index][0])
        parents.append(overlaps.pop(index)[1])
        order.append(index)
        for other, (overlap, _) in overlaps.items():
            if len(sets[other] & sets[index]) > overlap:
                overlaps[other] = (len(sets[other] & sets[index]), len(order) - 1)
    return [cliques[index] for index in order], parents


MAX_CELLS = 1 << 26
"""The largest marginal that is computed: half a gigabyte."""


class GraphicalModel:
    """The distribution in proportion to the product of a potential for each clique."""

    # Among all distributions with the same marginals on the cliques it is the one of
    # maximum entropy.
    # **Privacy.** Plain arithmetic on what was released.

    def __init__(self, tree: JunctionTree, beliefs: Iterable[Table]) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)

    def marginal(self, columns: Iterable[int]) -> Table:
        """Compute the marginal of any columns."""
        names = tuple(columns)
        holder = self.tree.holder(names)
        if holder is not None:
            return project(self.beliefs[holder], self.tree.cliques[holder], names)
        # Variable elimination, from the leaves to the root. A child's message is its
        # law given the separator: times the parent's marginal it is that of both.
        pending: dict[int, list[tuple[Table, Clique]]] = {}
        for link in reversed(self.tree.links):
            table, clique = self._absorb(link.child, pending.pop(link.child, []))
            needed_columns = set(names) | set(link.separator)
            onto = tuple(column for column in clique if column in needed_columns)
            # A child without a named column of its own says nothing more.
            if set(onto) <= set(link.separator):
                continue
            shared = expand(self._separator_law(link.child), link.separator, onto)
            law = divide(project(table, clique, onto), shared)
            pending.setdefault(link.parent, []).append((law, onto))
        return project(*self._absorb(0, pending.pop(0, [])), names)

    def _absorb(
        self, index: int, messages: Iterable[tuple[Table, Clique]]
    ) -> tuple[Table, Clique]:
        """Multiply a clique's marginal by messages, also of columns that it lacks."""
        table = self.beliefs[index]
        clique = self.tree.cliques[index]
        for message, columns in messages:
            union = tuple(sorted({*clique, *columns}))
            cells = self.tree.n_cells(union)
            if cells > MAX_CELLS:
                raise ValueError(
                    f"the marginal needs a table of {cells} cells "
                    f"({8 * cells / 1e9:.3g} GB); at most {MAX_CELLS} are computed. "
                    "Ask for fewer columns at once, or sample rows and count them"
                )
            table = expand(table, clique, union) * expand(message, columns, union)
            clique = union
        return table, clique

    def expectation(self, weights: Mapping[int, ArrayLike]) -> float:
        """Compute the mean of a product of weights of the values of some columns."""
        # Weights of 0 and 1 make it the probability that every named column has one of
        # its values of weight 1. A bin that a range covers to a third has weight 1/3.
        messages: dict[int, list[tuple[Table, Clique]]] = {}
        for column, column_weights in weights.items():
            vector = self._check_weights(column, column_weights)
            # Counting the weight in any one clique that has the column counts it once.
            index = self.tree.first_with(column)
            messages.setdefault(index, []).append((vector, (column,)))
        for link in reversed(self.tree.links):
            if link.child in messages:
                table, clique = self._absorb(link.child, messages.pop(link.child))
                shared = self._separator_law(link.child)
                message = divide(project(table, clique, link.separator), shared)
                messages.setdefault(link.parent, []).append((message, link.separator))
        table, _ = self._absorb(0, messages.pop(0, []))
        return float(table.sum())

    def _check_weights(self, column: int, weights: ArrayLike) -> Table:
        sizes = self.tree.sizes
        if column not in range(len(sizes)):
            raise ValueError(
                f"weights names column {column}; the model has columns 0 to "
                f"{len(sizes) - 1}"
            )
        vector = np.asarray(weights, np.float64)
        if vector.shape != (sizes[column],):
            raise ValueError(
                f"the weights of column {column} must have shape ({sizes[column]},), "
                f"got {vector.shape}"
            )
        if not np.isfinite(vector).all() or (vector < 0).any():
            raise ValueError(
                f"the weights of column {column} must be finite and not negative"
            )
        return vector

    def log_probability(self, rows: NDArray[np.integer]) -> Table:
        """Compute the logarithm of the probability of each of some rows."""
        # **Privacy.** For synthetic rows it is post-processing. For real rows the
        # result is as private as they are.
        rows = check_rows(self.tree, rows, range(len(self.tree.sizes)))
        total = np.zeros(rows.shape[1])
        for index, clique in enumerate(self.tree.cliques):
            total += self.log_conditional(index)[tuple(rows[list(clique)])]
        return total

    def log_conditional(self, clique: int) -> Table:
        """Compute the log law of a clique given what it shares with its parent."""
        # The probability of a row is the product of these over all cliques.
        table = self.beliefs[clique]
        if clique > 0:
            separator = self.tree.link_of(clique).separator
            law = self._separator_law(clique)
            table = divide(table, expand(law, separator, self.tree.cliques[clique]))
        with np.errstate(divide="ignore"):
            return np.log(table)

    def _separator_law(self, clique: int) -> Table:
        """Return the marginal of what a clique shares with its parent."""
        return self.separators[clique - 1]

    @cached_property
    def separators(self) -> tuple[Table, ...]:
        """The marginal of each link's separator."""
        tables = []
        for link in self.tree.links:
            clique = self.tree.cliques[link.child]
            tables.append(project(self.beliefs[link.child], clique, link.separator))
        return tuple(tables)


def check_rows(
    tree: JunctionTree, rows: NDArray[np.integer], columns: Iterable[int]
) -> NDArray[np.integer]:
    """Check that rows are codes of a model's columns."""
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.shape[0] != len(tree.sizes):
        raise ValueError(
            f"rows must have shape (n_columns, n) with {len(tree.sizes)} columns, got "
            f"{rows.shape}"
        )
    if not np.issubdtype(rows.dtype, np.integer):
        raise TypeError(f"rows must be integers, got dtype {rows.dtype}")
    if rows.shape[1] == 0:
        return rows
    for column in columns:
        if rows[column].min() < 0 or rows[column].max() >= tree.sizes[column]:
            raise ValueError(
                f"column {column} of rows holds a code outside 0 to "
                f"{tree.sizes[column] - 1}"
            )
    return rows
