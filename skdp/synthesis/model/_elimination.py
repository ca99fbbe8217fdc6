"""The triangulation of a graph of marginals, which grows by one marginal at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from skdp.synthesis.model._tables import Clique

_UNIT = 1 << 32  # of a logarithm: sums of integers do not depend on their order


class Elimination:
    """The cliques that are left when a graph of marginals is triangulated, and those of the graph with one more."""

    # Columns are eliminated one after the other, always the one whose neighbours have the fewest cells together ([1]_).
    # A marginal more changes nothing before the first of its columns is eliminated, for it only makes these neighbours
    # more: so the state before each step is kept, and the elimination is taken up from there. Neighbours, a column
    # itself among them, are the bits of a number.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press. Section 9.4.3.

    def __init__(self, sizes: Sequence[int], marginals: Iterable[Iterable[int]] = ()) -> None:
        self._sizes = tuple(sizes)
        self._logs = [round(math.log2(size) * _UNIT) for size in sizes]
        neighbours = [1 << column for column in range(len(self._sizes))]
        for marginal in marginals:
            _connect(neighbours, marginal)
        self._start(neighbours)

    def _start(self, neighbours: list[int]) -> None:
        """Eliminate all columns, and keep what was there before each step."""
        keys = [self._key(column, clique) for column, clique in enumerate(neighbours)]
        self._states = [(list(neighbours), list(keys))]
        self._when: dict[int, int] = {}
        self._left: dict[int, int] = {}  # what cliques leave of themselves, and since which step
        self._found: list[int] = []
        self._sums = [(0, 0)]  # the cells of the largest clique, and of all together
        for step, (column, clique) in enumerate(self._walk(neighbours, keys)):
            largest, together = self._sums[-1]
            if clique not in self._left:
                self._found.append(clique)
                cells = self._cells(clique)
                largest, together = max(largest, cells), together + cells
            self._left.setdefault(clique ^ (1 << column), step)
            self._sums.append((largest, together))
            self._when[column] = step
            self._states.append((list(neighbours), list(keys)))

    @property
    def cliques(self) -> list[Clique]:
        """The cliques of the triangulated graph, none of which is within another."""
        return [tuple(_columns(clique)) for clique in self._found]

    @property
    def n_cells(self) -> tuple[int, int]:
        """The cells of the largest clique, and of all together."""
        return self._sums[-1]

    def fits(self, marginal: Iterable[int], most: int, together: int) -> bool:
        """Return whether each clique has few enough cells, and all together, if a marginal is added."""
        marginal = tuple(marginal)
        start = min((self._when[column] for column in marginal), default=len(self._when))
        neighbours, keys = (list(state) for state in self._states[start])
        _connect(neighbours, marginal)
        for column in marginal:
            keys[column] = self._key(column, neighbours[column])
        largest, cells = self._sums[start]
        if largest > most or cells > together:
            return False
        left: set[int] = set()
        for column, clique in self._walk(neighbours, keys):
            if clique not in left and self._left.get(clique, start) >= start:
                size = self._cells(clique)
                cells += size
                if size > most or cells > together:
                    return False
            left.add(clique ^ (1 << column))
        return True

    def add(self, marginal: Iterable[int]) -> None:
        """Add a marginal."""
        neighbours, _ = self._states[0]
        _connect(neighbours, marginal)
        self._start(neighbours)

    def _cells(self, clique: int) -> int:
        return math.prod(self._sizes[column] for column in _columns(clique))

    def _key(self, column: int, clique: int) -> int:
        """Return what columns are eliminated by: the logarithm of the cells, then the number of the column."""
        return sum(self._logs[other] for other in _columns(clique)) * len(self._logs) + column

    def _walk(self, neighbours: list[int], keys: list[int]) -> Iterator[tuple[int, int]]:
        """Eliminate one column after the other, in place; one that is gone has no neighbours."""
        # A clique is within an earlier one exactly if it is all that an earlier one left.
        logs, n = self._logs, len(neighbours)
        gone = (sum(logs) + 1) * n
        while (least := min(keys, default=gone)) < gone:
            column = least % n
            clique, bit = neighbours[column], 1 << column
            neighbours[column], keys[column] = 0, gone
            less = logs[column] * n
            for other in _columns(clique ^ bit):
                before = neighbours[other]
                neighbours[other] = (before | clique) ^ bit
                if more := clique & ~before:
                    keys[other] += sum([logs[one] for one in _columns(more)]) * n
                keys[other] -= less
            yield column, clique


def eliminate(sizes: Sequence[int], marginals: Iterable[Iterable[int]]) -> list[Clique]:
    """Triangulate the graph of some marginals greedily."""
    return Elimination(sizes, marginals).cliques


def _connect(neighbours: list[int], marginal: Iterable[int]) -> None:
    columns = tuple(marginal)
    bits = sum(1 << column for column in set(columns))
    for column in columns:
        neighbours[column] |= bits


def _columns(bits: int) -> Iterator[int]:
    while bits:
        least = bits & -bits
        yield least.bit_length() - 1
        bits ^= least
