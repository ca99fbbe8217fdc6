"""The private records of a table, of which only noisy counts and noisy scores leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.randomness import ByteSource
from skdp.synthesis.model import Clique, Groups, Marginal, group
from skdp.synthesis.selection._budget import NoiseBudget
from skdp.synthesis.tables import Records

MAX_GUESS = 1 << 36
"""More records than any table has; a sum of 2**26 such cells is below 2**63."""


def groups_of(clique: Clique, groups: Groups) -> Groups | None:
    """Return the groups of the columns of a marginal; None if no value is grouped."""
    members = tuple(groups[column] for column in clique)
    return None if all(part is None for part in members) else members


class PrivateCounts:
    """Private records, a budget, and the marginals measured so far."""

    def __init__(
        self, records: Records, budget: NoiseBudget, source: ByteSource
    ) -> None:
        self._records = records
        self._source = source
        self.budget = budget
        self.marginals: list[Marginal] = []

    def measure(
        self,
        cliques: Sequence[Clique],
        fractions: Iterable[Fraction],
        groups: Groups | None = None,
    ) -> list[Marginal]:
        """Release the counts of marginals; pairs and larger ones by groups of values."""
        measured = []
        for clique, fraction, exact in zip(
            cliques, fractions, self._records.count(cliques), strict=True
        ):
            used = groups_of(clique, groups) if groups and len(clique) > 1 else None
            counts = group(exact, used)
            noisy = self.budget.add_to_counts(self._source, counts, fraction)
            std_error = self.budget.std_error(fraction)
            measured.append(Marginal(clique, noisy, std_error, used))
        self.marginals += measured
        return measured

    def compare(
        self, guesses: Mapping[Clique, NDArray[np.float64]], groups: Groups
    ) -> PrivateDistances:
        """Compare guessed counts with the true ones."""
        # Guesses are rounded to integers, so a record changes each distance by 1.
        distances = {}
        cliques = list(guesses)
        for clique, counts in zip(cliques, self._records.count(cliques), strict=True):
            exact = group(counts, tuple(groups[column] for column in clique))
            guess = np.rint(np.clip(guesses[clique], 0, MAX_GUESS)).astype(np.int64)
            distances[clique] = int(np.abs(exact - guess).sum())
        return PrivateDistances(distances, self.budget, self._source)

    def coarsen(self, domain: Domain, bins: Mapping[int, NDArray[np.intp]]) -> None:
        """Replace the codes of some columns by the bins of these codes."""
        self._records = self._records.coarsen(domain, bins)
        self.marginals.clear()


class PrivateDistances:
    """L1 distances of guessed counts from the true ones, of which only noisy ones leave."""

    def __init__(
        self, distances: Mapping[Clique, int], budget: NoiseBudget, source: ByteSource
    ) -> None:
        self._distances = distances
        self._budget = budget
        self._source = source

    def release(
        self, cliques: Sequence[Clique], fraction: Fraction
    ) -> NDArray[np.float64]:
        """Spend a fraction of the budget on the distances of some marginals."""
        exact = np.array([self._distances[clique] for clique in cliques], np.int64)
        return self._budget.add_to_scores(self._source, exact, fraction)
