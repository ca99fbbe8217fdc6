"""A distribution over all columns, given by a table for each clique of a junction tree."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from skdp.synthesis.model._elimination import eliminate
from skdp.synthesis.model._tables import Clique, Table, divide, expand, project


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

    def __init__(
        self, sizes: Sequence[int], marginals: Iterable[Iterable[int]]
    ) -> None:
        self.sizes = tuple(sizes)
        found = eliminate(self.sizes, marginals)
        self.cliques, self.links = _join(found)

    @cached_property
    def cells(self) -> int:
        """The number of cells of all cliques together."""
        return sum(map(self.n_cells, self.cliques))

    def n_cells(self, columns: Iterable[int]) -> int:
        return math.prod(self.sizes[column] for column in columns)

    def holder(self, columns: Iterable[int]) -> int | None:
        """Find the smallest clique that holds some columns."""
        wanted = set(columns)
        holders = [
            place for place, clique in enumerate(self.cliques) if wanted <= set(clique)
        ]
        return min(
            holders, key=lambda place: self.n_cells(self.cliques[place]), default=None
        )

    def path(self, columns: Iterable[int]) -> list[int]:
        """List the cliques from the root to the first of each of some columns, parents first."""
        first = {
            column: place
            for place, clique in reversed([*enumerate(self.cliques)])
            for column in clique
        }
        found = {0}
        for place in {first[column] for column in columns}:
            while place not in found:
                found.add(place)
                place = self.links[place - 1].parent
        return sorted(found)


def _join(cliques: Sequence[Clique]) -> tuple[tuple[Clique, ...], tuple[Link, ...]]:
    """Join cliques along their largest overlaps (Prim's algorithm), and order them from the root."""
    sets = list(map(set, cliques))
    root = max(range(len(cliques)), key=lambda place: len(sets[place]))
    order, links = [root], []
    best = {
        place: (len(sets[place] & sets[root]), root)
        for place in range(len(cliques))
        if place != root
    }
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
        tuple(
            Link(rank[place], rank[parent], tuple(sorted(sets[place] & sets[parent])))
            for place, parent in links
        ),
    )


MOST_CELLS = 1 << 26
"""The largest marginal that is computed: half a gigabyte."""


class GraphicalModel:
    """The distribution in proportion to the product of a potential for each clique."""

    # Among all distributions with the same marginals on the cliques it is the one of maximum entropy.
    # **Privacy.** Plain arithmetic on what was released.

    def __init__(self, tree: JunctionTree, beliefs: Sequence[Table]) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)

    def marginal(self, columns: Iterable[int]) -> Table:
        """Compute the marginal of any columns."""
        wanted = tuple(columns)
        place = self.tree.holder(wanted)
        if place is not None:
            return project(self.beliefs[place], self.tree.cliques[place], wanted)
        return project(*self._eliminate(set(wanted)), wanted)

    def pairs_with(self, column: int, others: Collection[int]) -> dict[int, Table]:
        """Compute the marginals of a column with each of some others."""
        # From a clique that holds the column, its joint law with each next clique's overlap is passed on.
        near: list[list[tuple[int, int]]] = [[] for _ in self.tree.cliques]
        for number, link in enumerate(self.tree.links):
            near[link.parent].append((link.child, number))
            near[link.child].append((link.parent, number))
        place = self.tree.holder((column,))
        assert place is not None  # every column is in a clique
        found: dict[int, Table] = {}
        waiting = [(place, -1, self.beliefs[place], self.tree.cliques[place])]
        while waiting:
            place, before, message, shared = waiting.pop()
            table = self.beliefs[place]
            clique = columns = self.tree.cliques[place]
            if column not in clique:
                columns = (*clique, column)
                table = expand(table, clique, columns) * expand(
                    message, shared, columns
                )
            for other in set(clique) & set(others) - found.keys() - {column}:
                found[other] = project(table, columns, (column, other))
            for neighbour, number in near[place]:
                if number != before:
                    separator = self.tree.links[number].separator
                    shared = separator if column in separator else (*separator, column)
                    alone = expand(self.separators[number], separator, shared)
                    waiting.append(
                        (
                            neighbour,
                            number,
                            divide(project(table, columns, shared), alone),
                            shared,
                        )
                    )
        return found

    def _eliminate(self, wanted: set[int]) -> tuple[Table, Clique]:
        """Sum out all other columns, from the leaves to the root."""
        pending: dict[int, list[tuple[Table, Clique]]] = {}
        for link in reversed(self.tree.links):
            table, columns = self._absorb(link.child, pending.pop(link.child, []))
            keep = tuple(
                column
                for column in columns
                if column in wanted or column in link.separator
            )
            message = project(table, columns, keep)
            # The child given the separator: times the parent's marginal it is the marginal of both.
            shared = project(
                self.beliefs[link.child], self.tree.cliques[link.child], link.separator
            )
            conditional = divide(message, expand(shared, link.separator, keep))
            if any(
                column in wanted and column not in link.separator for column in keep
            ):
                pending.setdefault(link.parent, []).append((conditional, keep))
        return self._absorb(0, pending.pop(0, []))

    def _absorb(
        self, place: int, messages: list[tuple[Table, Clique]]
    ) -> tuple[Table, Clique]:
        """Multiply a clique's marginal by what its children say of columns that it does not have."""
        table, columns = self.beliefs[place], self.tree.cliques[place]
        for message, extra in messages:
            union = tuple(sorted({*columns, *extra}))
            cells = self.tree.n_cells(union)
            if cells > MOST_CELLS:
                raise ValueError(
                    f"the marginal needs a table of {cells} cells ({8 * cells / 1e9:.3g} GB); at most {MOST_CELLS} are "
                    "computed. Ask for fewer columns at once, or sample rows and count them"
                )
            table, columns = (
                expand(table, columns, union) * expand(message, extra, union),
                union,
            )
        return table, columns

    def expectation(self, weights: Mapping[int, ArrayLike]) -> float:
        """Compute the expectation of a product of weights, one for the value of each of some columns."""
        # Weights of 0 and 1 make it the probability that every named column has one of its values of weight 1.
        # Fractions count values in part: a bin that a range covers to a third has weight 1/3.
        factors: dict[int, list[tuple[Table, Clique]]] = {}
        for column, given in weights.items():
            vector = self._check_weights(column, given)
            # Some clique holds every column; counting the weight in any one of them counts it once.
            place = next(
                place
                for place, clique in enumerate(self.tree.cliques)
                if column in clique
            )
            factors.setdefault(place, []).append((vector, (column,)))
        for link, shared in zip(
            reversed(self.tree.links), reversed(self.separators), strict=True
        ):
            if link.child in factors:
                table, columns = self._absorb(link.child, factors.pop(link.child))
                message = divide(project(table, columns, link.separator), shared)
                factors.setdefault(link.parent, []).append((message, link.separator))
        return float(self._absorb(0, factors.pop(0, []))[0].sum())

    def _check_weights(self, column: int, weights: ArrayLike) -> Table:
        if column not in range(len(self.tree.sizes)):
            raise ValueError(
                f"weights names column {column}; the model has columns 0 to {len(self.tree.sizes) - 1}"
            )
        vector = np.asarray(weights, np.float64)
        if vector.shape != (self.tree.sizes[column],):
            raise ValueError(
                f"the weights of column {column} must have shape ({self.tree.sizes[column]},), got {vector.shape}"
            )
        if not (np.isfinite(vector).all() and (vector >= 0).all()):
            raise ValueError(
                f"the weights of column {column} must be finite and not negative"
            )
        return vector

    def log_probability(self, rows: NDArray[np.integer]) -> Table:
        """Compute the logarithm of the probability of each of some rows."""
        # **Privacy.** For synthetic rows it is post-processing. For real rows the result is as private as they are.
        rows = check_rows(self.tree, rows, range(len(self.tree.sizes)))
        total = np.zeros(rows.shape[1])
        for place, clique in enumerate(self.tree.cliques):
            total += self.log_conditional(place)[
                tuple(rows[column] for column in clique)
            ]
        return total

    def log_law(self, column: int, rows: NDArray[np.integer]) -> Table:
        """Compute the logarithm of the law of a column given all others, for each of some rows without it."""
        tree = self.tree
        whole = np.insert(rows, column, 0, axis=0)
        others = [place for place in range(len(tree.sizes)) if place != column]
        whole = check_rows(tree, whole, others)
        total = np.zeros((whole.shape[1], tree.sizes[column]))
        # The other factors of the probability of a row do not depend on the column.
        for place, clique in enumerate(tree.cliques):
            if column in clique:
                table = np.moveaxis(
                    self.log_conditional(place), clique.index(column), -1
                )
                total += table[
                    tuple(whole[other] for other in clique if other != column)
                ]
        with np.errstate(divide="ignore"):
            total[total.max(axis=1) == -np.inf] = np.log(
                self.marginal([column])
            )  # of rows that cannot occur
        return total - logsumexp(total, axis=1, keepdims=True)

    def log_conditional(self, place: int) -> Table:
        """Compute the logarithm of the law of a clique given what it shares with its parent."""
        # The probability of a row is the product of these over all cliques.
        table = self.beliefs[place]
        if place > 0:
            shared = expand(
                self.separators[place - 1],
                self.tree.links[place - 1].separator,
                self.tree.cliques[place],
            )
            table = divide(table, shared)
        with np.errstate(divide="ignore"):
            return np.log(table)

    @cached_property
    def separators(self) -> tuple[Table, ...]:
        """The marginal of what each clique but the root shares with its parent, in the order of the links."""
        return tuple(
            project(
                self.beliefs[link.child], self.tree.cliques[link.child], link.separator
            )
            for link in self.tree.links
        )

    @cached_property
    def entropy(self) -> float:
        """The entropy of the distribution, in nats."""

        def of(table: Table) -> float:
            positive = table[table > 0]
            return float(-(positive * np.log(positive)).sum())

        return sum(map(of, self.beliefs)) - sum(map(of, self.separators))


def check_rows(
    tree: JunctionTree, rows: NDArray[np.integer], columns: Iterable[int]
) -> NDArray[np.integer]:
    """Check that rows are codes of a model's columns."""
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.shape[0] != len(tree.sizes):
        raise ValueError(
            f"rows must have shape (n_columns, n) with {len(tree.sizes)} columns, got {rows.shape}"
        )
    if not np.issubdtype(rows.dtype, np.integer):
        raise TypeError(f"rows must be integers, got dtype {rows.dtype}")
    for column in columns if rows.shape[1] else ():
        if rows[column].min() < 0 or rows[column].max() >= tree.sizes[column]:
            raise ValueError(
                f"column {column} of rows holds a code outside 0 to {tree.sizes[column] - 1}"
            )
    return rows
