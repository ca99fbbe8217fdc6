"""Noisy scores of marginals: how many records a guess of their counts misplaces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.base import SURE_STD_ERRORS
from skdp.synthesis.model import Clique, Groups, group
from skdp.synthesis.selection._private_table import PrivateScores, PrivateTable

MIN_SCORES, MAX_SCORES = Fraction(1, 70), Fraction(1, 7)
"""The least and the largest share of the budget by which a list of scores is judged.

Of "auto", a list of more than half the largest share spends that half.

Of "auto", pairs with the target, with columns of few values, and others are lists of their
own. Halving and doubling: see `Auto`."""

_MIN_COUNT = 1e-6
"""Records of a value that no record seems to have, so that nothing is divided by 0."""

SCORE_SHARE = Fraction(1, 6400)
"""The share of the budget of each score, unless there are too many."""

CAUTION = 0.5
"""The standard deviations of its noise by which a score is lowered."""

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The mean of the absolute value of a standard normal number."""

_ROUND = Fraction(3, 4)
"""The share of a round of scores, by that of the round before it.

A round has about half as many scores, so its noise is less all the same. With .6 and
.85, as many strong pairs of a label are found among 320 columns; with .5, a tenth less."""

_BLOCK = 1 << 18
"""Cells that are computed at once: two megabytes."""


@dataclass(frozen=True)
class Score:
    """Twice the number of records that a guess misplaces, with noise."""

    noisy: float
    std_error: float
    is_dropped: bool = False
    """Whether a round was not above chance, so that no further one asked for it."""

    @property
    def gain(self) -> float:
        """What measuring the marginal will surely gain: the largest is by luck."""
        if self.is_dropped:
            return 0.0
        return self.noisy - CAUTION * self.std_error

    def after(self, earlier: Score) -> Score:
        """Return the mean with the score of earlier rounds, weighted by precision."""
        precision = self.std_error**-2
        earlier_precision = earlier.std_error**-2
        total = precision + earlier_precision
        sum_of_scores = precision * self.noisy + earlier_precision * earlier.noisy
        return Score(sum_of_scores / total, total**-0.5, self.is_dropped)


Guess = Callable[[Clique], NDArray[np.float64]]
"""The counts of a marginal that are guessed."""

Chances = Callable[[Sequence[Clique]], Mapping[Clique, float]]
"""What chance adds to the scores of marginals."""


def ask(
    table: PrivateTable,
    cliques: Sequence[Clique],
    guess: Guess,
    share: Fraction,
    groups: Groups,
    chances: Chances | None = None,
) -> dict[Clique, Score]:
    """Spend a share of the budget on the scores of guesses of some marginals."""
    # Of a wide table, most pairs are independent. Each round asks again only for what
    # was above chance, so that half of these are left, with less noise: distilled
    # sensing ([1]_). Rounds depend on noisy scores of earlier ones alone.
    # .. [1] J. Haupt, R. Castro, R. Nowak (2011). Distilled sensing: adaptive sampling
    #    for sparse detection and estimation. IEEE Transactions on Information Theory
    #    57(9).
    share = min(share, table.budget.left_for_scores)
    scores: dict[Clique, Score] = {}
    if share == 0:
        return scores
    n_rounds = 1
    if chances is not None and table.budget.share.kind == "mu":
        n_rounds = _n_rounds(len(cliques), share)
    exact = table.compare(cliques, map(guess, cliques), groups)
    candidates = list(cliques)
    for round_share in _round_shares(share, n_rounds):
        if not candidates:
            break
        noisy = _ask_once(table, candidates, exact, round_share)
        if n_rounds > 1 and chances is not None:
            noisy = _drop_chance(noisy, chances)
        for clique, score in noisy.items():
            if clique in scores:
                score = score.after(scores[clique])
            scores[clique] = score
        candidates = [clique for clique in noisy if not scores[clique].is_dropped]
    return scores


def _drop_chance(
    scores: Mapping[Clique, Score], chances: Chances
) -> dict[Clique, Score]:
    """Drop the marginals whose scores are not above what chance adds to them."""
    # Chance adds something positive: for negative scores it need not be computed.
    positive = [clique for clique, score in scores.items() if score.noisy > 0]
    limits = chances(positive)
    judged = {}
    for clique, score in scores.items():
        is_above = score.noisy > limits.get(clique, 0.0)
        judged[clique] = replace(score, is_dropped=not is_above)
    return judged


def _n_rounds(n_scores: int, share: Fraction) -> int:
    """Return after how many rounds each independent pair that is left may have its share."""
    n_with_their_share = int(share / SCORE_SHARE)
    n_halvings = (n_scores // max(1, n_with_their_share)).bit_length() - 1
    return max(1, n_halvings)


def _round_shares(share: Fraction, n_rounds: int) -> list[Fraction]:
    """Split a share into those of rounds."""
    parts = [_ROUND**index for index in range(n_rounds)]
    total = sum(parts, Fraction(0))
    return [share * part / total for part in parts]


def _ask_once(
    table: PrivateTable,
    cliques: Sequence[Clique],
    exact: PrivateScores,
    share: Fraction,
) -> dict[Clique, Score]:
    """Release scores."""
    std_error = table.budget.score_error(share, len(cliques))
    noisy = exact.release(cliques, share)
    scores = {}
    for clique, value in zip(cliques, noisy.tolist(), strict=True):
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
        counts_of_columns = []
        self._relative_variances = []
        std_errors = np.broadcast_to(std_error, len(groups)).tolist()
        for column_counts, members, column_error in zip(
            counts, groups, std_errors, strict=True
        ):
            grouped = group(column_counts, (members,))
            counts_of_columns.append(grouped)
            positive = np.maximum(grouped, _MIN_COUNT)
            noise = column_error * math.sqrt(column_counts.size / grouped.size)
            # A count near 0 is off by no more than itself.
            noise = np.minimum(noise, np.maximum(positive, column_error / 2))
            self._relative_variances.append((noise / positive) ** 2)
        self._total = max(1.0, float(counts_of_columns[0].sum()))
        self._shares = [column / self._total for column in counts_of_columns]
        self._chances: dict[Clique, float] = {}

    def guess(self, clique: Clique) -> NDArray[np.float64]:
        """Return the counts of independent columns."""
        shares = [self._shares[column] for column in clique]
        expected = np.asarray(self._total * reduce(np.multiply.outer, shares))
        if expected.sum() >= expected.size:
            return expected
        # Of less than a record a cell, rounded such that sums stay.
        sums = np.floor(np.cumsum(expected))
        return np.diff(sums, prepend=0.0).reshape(expected.shape)

    def chance(self, clique: Clique) -> float:
        """Estimate the score of independent columns, by chance and by their noise."""
        return self.chances([clique])[clique]

    def chances(self, cliques: Sequence[Clique]) -> dict[Clique, float]:
        """Estimate the scores of independent columns, by chance and by their noise."""
        # Of a wide table there are very many: those of the same shape are computed at
        # once, and kept, as rounds of scores ask for them again.
        new = [clique for clique in cliques if clique not in self._chances]
        by_shape: dict[tuple[int, ...], list[Clique]] = {}
        for clique in new:
            shape = tuple(self._shares[column].size for column in clique)
            by_shape.setdefault(shape, []).append(clique)
        for shape, same in by_shape.items():
            block_size = max(1, _BLOCK // math.prod(shape))
            for start in range(0, len(same), block_size):
                block = same[start : start + block_size]
                chances = self._chances_of_shape(block, len(shape))
                self._chances |= zip(block, chances, strict=True)
        return {clique: self._chances[clique] for clique in cliques}

    def _chances_of_shape(self, cliques: Sequence[Clique], order: int) -> list[float]:
        # A count of n records varies by n, as those of a Poisson distribution, and the
        # guess by its relative variance: that of a product is the sum of its factors'.
        expected: NDArray[np.float64] = np.array(self._total)
        relative_variance: NDArray[np.float64] = np.array(0.0)
        for axis in range(order):
            columns = [clique[axis] for clique in cliques]
            shares = np.array([self._shares[column] for column in columns])
            variances = np.array(
                [self._relative_variances[column] for column in columns]
            )
            # (n_cliques, 1, ..., n_values, ..., 1)
            shape = [len(cliques), *[1] * order]
            shape[axis + 1] = shares.shape[1]
            expected = expected * shares.reshape(shape)
            relative_variance = relative_variance + variances.reshape(shape)
        variance = expected + expected**2 * relative_variance
        deviations = np.sqrt(variance).reshape(len(cliques), -1).sum(axis=1)
        return [MEAN_ABSOLUTE * deviation for deviation in deviations.tolist()]

    def is_chance(self, clique: Clique, score: Score) -> bool:
        """Return whether independent columns may well have such a score."""
        # The standard deviation of |x| for a standard normal x; scores sum one a record.
        sampling = math.sqrt((1 - MEAN_ABSOLUTE**2) * self._total)
        limit = SURE_STD_ERRORS * math.hypot(score.std_error, sampling)
        return score.noisy < self.chance(clique) + limit
