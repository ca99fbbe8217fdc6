"""A table whose counts come out with noise only: what the selection of marginals works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import ByteSource
from skdp.synthesis._junction_tree import Clique
from skdp.synthesis._marginal import Groups, Marginal, group
from skdp.synthesis._noise import NoiseBudget
from skdp.synthesis._progress import Progress
from skdp.synthesis._records import Records

_LARGEST_GUESS = 1 << 36  # more records than any table has; the sum of 2**26 such cells is below 2**63


class PrivateTable:
    """The records of a table, a budget, and what was measured so far."""

    # Nothing but noisy counts, noisy scores and choices leave it; each takes its share of the budget first.

    def __init__(
        self,
        records: Records,
        sizes: Sequence[int],
        budget: NoiseBudget,
        source: ByteSource,
        say: Callable[[str], Any] | None = None,
    ) -> None:
        self._records, self._source = records, source
        self.sizes, self.budget = tuple(sizes), budget
        self.say = say or (lambda message: None)
        self.progress = Progress(self.say)
        self.marginals: list[Marginal] = []

    def prepare(self, cliques: Sequence[Clique]) -> None:
        """Say what will be measured, so that large tables are read once for all of it."""
        self._records.prepare(cliques)

    def measure(self, clique: Clique, share: Fraction, groups: Groups | None = None) -> Marginal:
        """Measure a marginal."""
        (counts,) = self._records.count([clique])
        true = group(counts, groups)
        noisy = self.budget.counts(self._source, share, true)
        self.marginals.append(Marginal(clique, noisy, self.budget.std_error(share), groups))
        self.progress.measured(clique, share)
        return self.marginals[-1]

    def score(
        self, cliques: Sequence[Clique], guesses: Iterable[NDArray[np.float64]], share: Fraction, groups: Groups
    ) -> NDArray[np.float64]:
        """Measure how far guesses of some marginals are off, in records."""
        # A guess is rounded to integers, so a record changes its distance to the counts by exactly 1.
        scores = self.budget.scores(self._source, share, self._distances(cliques, guesses, groups))
        self.progress.scored(len(cliques), share)
        return scores

    def choose(
        self,
        cliques: Sequence[Clique],
        guesses: Sequence[NDArray[np.float64]],
        weights: Sequence[int],
        penalties: Sequence[int],
        share: Fraction,
    ) -> int:
        """Choose a marginal of which a guess is far off."""
        distances = self._distances(cliques, guesses, (None,) * len(self.sizes)).tolist()
        # Python's integers: a product that wrapped around would change by more than its weight.
        scores = [
            weight * (distance - penalty)
            for distance, penalty, weight in zip(distances, penalties, weights, strict=True)
        ]
        place = self.budget.choose(self._source, share, np.array(scores, object), max(weights))
        self.progress.chose(len(cliques), share)
        return place

    def _distances(
        self, cliques: Sequence[Clique], guesses: Iterable[NDArray[np.float64]], groups: Groups
    ) -> NDArray[np.int64]:
        counted = zip(cliques, self._records.count(cliques), guesses, strict=True)
        return np.array(
            [
                np.abs(group(counts, tuple(groups[column] for column in clique)) - _rounded(guess)).sum()
                for clique, counts, guess in counted
            ],
            np.int64,
        )


def _rounded(guess: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(np.clip(guess, 0, _LARGEST_GUESS)).astype(np.int64)
