"""Noisy scores of marginals: how many records a guess of their counts misplaces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model import Clique, Groups, group
from skdp.synthesis.selection._private_table import PrivateTable

LEAST_SCORES, MOST_SCORES = Fraction(1, 70), Fraction(1, 7)
"""The least and the largest share of the budget of one list of scores.

Of "auto", pairs with the target, with columns of few values, and others are lists of their
own. Halving and doubling: see `Auto`."""

CAUTION = 0.5
"""The standard deviations of its noise by which a score is lowered."""

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The mean of the absolute value of a standard normal number."""

SURE = 3.0
"""Standard errors beyond which nothing is chance."""

_LEAST_COUNT = 1e-6
"""Records of a value that has none, so that nothing is divided by 0."""


@dataclass(frozen=True)
class Score:
    """Twice the number of records that a guess misplaces, with noise."""

    noisy: float
    std_error: float

    @property
    def gain(self) -> float:
        """What measuring the marginal will surely gain: the largest is by luck."""
        return self.noisy - CAUTION * self.std_error


Guess = Callable[[Clique], NDArray[np.float64]]
"""The counts of a marginal that are guessed."""


def ask(
    table: PrivateTable,
    cliques: Sequence[Clique],
    guess: Guess,
    share: Fraction,
    groups: Groups,
) -> dict[Clique, Score]:
    """Spend a share of the budget on the scores of guesses of some marginals, as far as caps allow."""
    share = min(share, table.budget.left_for_scores)
    scores: dict[Clique, Score] = {}
    if share == 0:
        return scores
    lists = table.caps.ration_scores(cliques, share, table.budget.share)
    is_rationed = lists != [(list(cliques), share)]
    for list_cliques, list_share in lists:
        std_error = table.budget.score_error(list_share, len(list_cliques))
        # A cap may leave so little that scores are noise alone. A score counts misplaced
        # records, and each guess places all records: where the error is larger than
        # their number, nothing is asked. Without a cap, the error is as planned.
        n_rows = guess(list_cliques[0]).sum()
        if is_rationed and std_error > n_rows:
            continue
        guesses = map(guess, list_cliques)
        noisy = table.score(list_cliques, guesses, list_share, groups)
        for clique, value in zip(list_cliques, noisy.tolist(), strict=True):
            scores[clique] = Score(value, std_error)
    return scores


def chance_of(variances: NDArray[np.float64]) -> float:
    """Return the mean score of counts of these variances by chance."""
    return MEAN_ABSOLUTE * float(np.sqrt(variances).sum())


class IndependentColumns:
    """What would be counted if columns were independent, and what is chance then."""

    def __init__(
        self,
        counts: Iterable[NDArray[np.float64]],
        std_error: float | Sequence[float],
        groups: Groups,
    ) -> None:
        self._counts = []
        self._relative_variances = []
        std_errors = np.broadcast_to(std_error, len(groups)).tolist()
        for column_counts, members, column_error in zip(
            counts, groups, std_errors, strict=True
        ):
            grouped = group(column_counts, (members,))
            self._counts.append(grouped)
            positive = np.maximum(grouped, _LEAST_COUNT)
            noise = column_error * math.sqrt(column_counts.size / grouped.size)
            # A count near 0 is off by no more than itself.
            noise = np.minimum(noise, np.maximum(positive, column_error / 2))
            self._relative_variances.append((noise / positive) ** 2)
        self._total = max(1.0, float(self._counts[0].sum()))

    def _expected(self, clique: Clique) -> NDArray[np.float64]:
        shares = [self._counts[column] / self._total for column in clique]
        return np.asarray(self._total * reduce(np.multiply.outer, shares))

    def guess(self, clique: Clique) -> NDArray[np.float64]:
        """Return the counts of independent columns."""
        expected = self._expected(clique)
        if expected.sum() >= expected.size:
            return expected
        # Of less than a record a cell, rounded such that sums stay.
        sums = np.floor(np.cumsum(expected))
        return np.diff(sums, prepend=0.0).reshape(expected.shape)

    def chance(self, clique: Clique) -> float:
        """Estimate the score of independent columns, by chance and by their noise."""
        # A count of n records varies by n, as those of a Poisson distribution, and the
        # guess by its relative variance: that of a product is the sum of its factors'.
        expected = self._expected(clique)
        variances = [self._relative_variances[column] for column in clique]
        variance = expected + expected**2 * reduce(np.add.outer, variances)
        return chance_of(variance)

    def is_chance(self, clique: Clique, score: Score) -> bool:
        """Return whether independent columns may well have such a score."""
        # The standard deviation of |x| for a standard normal x; scores sum one a record.
        sampling = math.sqrt((1 - MEAN_ABSOLUTE**2) * self._total)
        limit = SURE * math.hypot(score.std_error, sampling)
        return score.noisy < self.chance(clique) + limit
