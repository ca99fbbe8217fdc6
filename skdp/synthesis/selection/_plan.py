"""What every way of choosing marginals needs to know, apart from the table."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model import Clique, eliminate


@dataclass(frozen=True)
class Plan:
    """Public facts and limits."""

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    max_cells: int
    workload: tuple[Clique, ...] = ()
    max_iter: int = 300
    zeros: tuple[tuple[Clique, NDArray[np.bool_]], ...] = field(default=(), repr=False)

    def n_cells(self, clique: Iterable[int]) -> int:
        """Count the cells of a table."""
        return math.prod(self.sizes[column] for column in clique)

    def largest_clique(self, cliques: Sequence[Clique]) -> int:
        """Count the cells of the largest clique of a model of some marginals."""
        return max(self.n_cells(clique) for clique in eliminate(self.sizes, cliques))

    def fits(self, cliques: Sequence[Clique]) -> bool:
        """Say whether a model of some marginals is small enough."""
        impossible = [clique for clique, _ in self.zeros]
        cells = [self.n_cells(clique) for clique in eliminate(self.sizes, [*cliques, *impossible])]
        return max(cells) <= self.max_cells and sum(cells) <= 4 * self.max_cells

    def candidates(self, order: int) -> dict[Clique, int]:
        """List the marginals of some order that matter, and how much."""
        columns = range(len(self.sizes))
        workload = self.workload or [tuple(columns)]
        found = Counter(subset for wanted in workload for subset in itertools.combinations(wanted, order))
        return {clique: weight for clique, weight in found.items() if self.n_cells(clique) <= self.max_cells}

    def first_candidates(self) -> dict[Clique, int]:
        """List the pairs that matter, and the larger marginals of the workload."""
        larger = [clique for clique in self.workload if len(clique) > 2 and self.n_cells(clique) <= self.max_cells]
        wanted = [frozenset(clique) for clique in self.workload]
        return self.candidates(2) | {clique: sum(map(frozenset(clique).issubset, wanted)) for clique in larger}
