"""The triangulation of a graph of marginals, which grows by one marginal at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from skdp.synthesis.model._tables import Clique

_UNIT = 1 << 32  # of a logarithm: sums of integers do not depend on their order


class Elimination:
    """The cliques that are left when a graph of marginals is triangulated, and those of the graph with one more."""

    # Columns are eliminated one after the other, always the one whose neighbours have the fewest cells together ([1]_).
    # A marginal more changes nothing before the first of its columns is eliminated, and from then on only columns near
    # it: a trial follows these alone, the columns whose neighbours are not those that they have without the marginal,
    # and takes all else from the states that are kept, one before each step. Neighbours, a column itself among them,
    # are the bits of a number. A clique is within another one exactly if it is what some column leaves of its own.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press. Section 9.4.3.

    def __init__(
        self, sizes: Sequence[int], marginals: Iterable[Iterable[int]] = ()
    ) -> None:
        self._sizes = tuple(sizes)
        self._logs = [
            round(math.log2(size) * _UNIT) * len(self._sizes) for size in sizes
        ]
        self._gone = sum(self._logs) + len(self._logs)  # more than any key
        neighbours = [1 << column for column in range(len(self._sizes))]
        for marginal in marginals:
            bits = _bits(marginal)
            for column in _columns(bits):
                neighbours[column] |= bits
        self._states = [
            (
                neighbours,
                [
                    self._log(clique) + column
                    for column, clique in enumerate(neighbours)
                ],
            )
        ]
        self._steps: list[
            tuple[int, int, int]
        ] = []  # the column that goes, its neighbours, its key
        self._found: dict[int, int] = {}  # the cells of each clique
        self._go_on()

    def _go_on(self) -> None:
        """Eliminate all columns that are left; one that is gone has no neighbours."""
        neighbours, keys = map(list, self._states[-1])
        while (key := min(keys, default=self._gone)) < self._gone:
            column = key % len(keys)
            clique = neighbours[column]
            for other in _columns(clique ^ (1 << column)):
                neighbours[other], keys[other] = self._after(
                    column, clique, neighbours[other], keys[other]
                )
            neighbours[column], keys[column] = 0, self._gone
            self._steps.append((column, clique, key))
            self._states.append((list(neighbours), list(keys)))
        self._when = {column: step for step, (column, _, _) in enumerate(self._steps)}
        self._cliques = {clique for _, clique, _ in self._steps}
        self._left = Counter(
            clique ^ (1 << column) for column, clique, _ in self._steps
        )
        cells = {
            clique: self._found.get(clique)
            for _, clique, _ in self._steps
            if clique not in self._left
        }
        self._found = {
            clique: known or self._cells(clique) for clique, known in cells.items()
        }

    @property
    def cliques(self) -> list[Clique]:
        """The cliques of the triangulated graph, none of which is within another."""
        return [_columns(clique) for clique in self._found]

    @property
    def n_cells(self) -> tuple[int, int]:
        """The cells of the largest clique, and of all together."""
        return max(self._found.values(), default=0), sum(self._found.values())

    def fits(self, marginal: Iterable[int], most: int, together: int) -> bool:
        """Return whether each clique has few enough cells, and all together, if a marginal is added."""
        changes = self._changes(_bits(marginal), most)
        if changes is None:
            return False
        old, new = changes
        left = Counter(clique ^ (1 << column) for column, clique in new)
        left.subtract(clique ^ (1 << column) for column, clique in old)
        lost, own = {clique for _, clique in old}, [clique for _, clique in new]
        found = dict.fromkeys(lost, 0)
        for clique in (*((left.keys() & self._cliques) - lost), *own):
            found[clique] = (
                0 if self._left[clique] + left[clique] else self._cells(clique)
            )
        kept = (size for clique, size in self._found.items() if clique not in found)
        sizes = [*kept, *found.values()]
        return max(sizes, default=0) <= most and sum(sizes) <= together

    def _changes(
        self, bits: int, most: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]] | None:
        """List columns and cliques that are not eliminated as before, and those instead; None if one is too large."""
        step = min(
            (self._when[column] for column in _columns(bits)), default=len(self._steps)
        )
        neighbours, keys = self._states[step]
        own = {
            column: neighbours[column] | bits
            for column in _columns(bits)
            if bits & ~neighbours[column]
        }
        own_keys = {
            column: self._log(clique) + column for column, clique in own.items()
        }
        apart = _bits(
            own
        )  # columns that have other neighbours than without the marginal, or one of the two is gone
        old, new = [], []
        while apart:
            first = min(own_keys.values())
            while (
                step < len(self._steps)
                and not self._steps[step][1] & apart
                and self._steps[step][2] < first
            ):
                step += 1
            neighbours, keys = self._states[step]
            column, clique, key = (
                self._steps[step] if step < len(self._steps) else (-1, 0, self._gone)
            )
            before, now = True, column not in own
            if not now:
                old.append((column, clique))
            elif key > first:
                before, column = False, first % len(self._logs)
                clique = own[column]
                new.append((column, clique))
                if self._cells(clique) > most:
                    return None
            step += before
            there = self._states[step][0]
            for other in _columns(clique & apart if before and now else clique):
                found, key = (
                    (own[other], own_keys[other])
                    if other in own
                    else (neighbours[other], keys[other])
                )
                if now:
                    found, key = (
                        (0, self._gone)
                        if other == column
                        else self._after(column, clique, found, key)
                    )
                if found != there[other]:
                    own[other], own_keys[other] = found, key
                    apart |= 1 << other
                elif other in own:
                    del own[other], own_keys[other]
                    apart ^= 1 << other
        return old, new

    def add(self, marginal: Iterable[int]) -> None:
        """Add a marginal."""
        bits = _bits(marginal)
        step = min(
            (self._when[column] for column in _columns(bits)), default=len(self._steps)
        )
        del self._states[step + 1 :], self._steps[step:]
        for neighbours, keys in self._states:
            for column in _columns(bits):
                if more := bits & ~neighbours[column]:
                    keys[column] += self._log(more)
                    neighbours[column] |= more
        self._go_on()

    def _cells(self, clique: int) -> int:
        return math.prod([self._sizes[column] for column in _columns(clique)])

    def _log(self, columns: int) -> int:
        return sum([self._logs[column] for column in _columns(columns)])

    def _after(
        self, column: int, clique: int, neighbours: int, key: int
    ) -> tuple[int, int]:
        """Return the neighbours and the key of another one of a clique, after a column of it is eliminated."""
        if more := clique & ~neighbours:
            key += self._log(more)
        return (neighbours | clique) ^ (1 << column), key - self._logs[column]


def eliminate(sizes: Sequence[int], marginals: Iterable[Iterable[int]]) -> list[Clique]:
    """Triangulate the graph of some marginals greedily."""
    return Elimination(sizes, marginals).cliques


def _bits(columns: Iterable[int]) -> int:
    return sum([1 << column for column in set(columns)])


@lru_cache(1 << 14)
def _columns(bits: int) -> Clique:
    found = []
    while bits:
        found.append(bits.bit_length() - 1)
        bits ^= 1 << found[-1]
    return tuple(reversed(found))
