"""Noisy scores of marginals: the L1 distance of guessed counts from the true ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp.synthesis.model import Clique, Groups, group
from skdp.synthesis.selection._budget import PrivateCounts

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""Mean absolute value of a standard normal number."""

# Standard errors by which a score is lowered, because the largest scores are lucky. With 0,
# standard deviations of smooth columns at epsilon 0.1 are 4 times as wrong
# (benchmarks/synthesis_numbers.py), while pairs of benchmarks/synthesis.py change by 0.2 %.
CAUTION = 0.5

# Tuned by benchmarks/synthesis.py.
NOISE_COST = 0.5
"""Cost of a noisy cell, in standard errors: less than the mean error of 0.8, because the
model repairs negative and inconsistent counts."""

SCORE_FRACTION = Fraction(1, 6400)
"""Fraction of the budget per score, within the limits of a list of scores."""


@dataclass(frozen=True)
class Scores:
    """Noisy scores of marginals, and their expected scores under independence."""

    noisy: Mapping[Clique, float]
    std_errors: Mapping[Clique, float]
    chance: Mapping[Clique, float]
    total: float
    dropped: frozenset[Clique] = frozenset()
    """Marginals whose first scores were below chance."""

    @property
    def gains(self) -> dict[Clique, float]:
        """The number of records that a measurement of a marginal corrects."""
        gains = {}
        for clique, score in self.noisy.items():
            if clique not in self.dropped:
                gains[clique] = score - CAUTION * self.std_errors[clique]
        return gains

    @property
    def excess(self) -> dict[Clique, float]:
        """The gains beyond chance."""
        return {c: max(0.0, gain - self.chance[c]) for c, gain in self.gains.items()}

    @property
    def insignificant(self) -> set[Clique]:
        """The marginals whose scores are within chance."""
        # The standard deviation of |x| for a standard normal x, times one per record.
        sampling = math.sqrt((1 - MEAN_ABSOLUTE**2) * self.total)
        cliques = set()
        for clique, score in self.noisy.items():
            std_error = math.hypot(self.std_errors[clique], sampling)
            if score < self.chance[clique] + 3 * std_error:
                cliques.add(clique)
        return cliques


def score_guesses(
    private: PrivateCounts,
    guesses: Mapping[Clique, NDArray[np.float64]],
    chance: Mapping[Clique, float],
    groups: Groups,
    fraction: Fraction,
    total: float,
) -> Scores:
    """Release scores; scores of very many marginals in rounds."""
    # In a wide table most pairs are independent. Each round scores the pairs again that
    # were above chance, so that about half of the independent pairs leave: distilled
    # sensing ([1]_). Rounds depend on noisy scores of earlier rounds alone.
    # .. [1] J. Haupt, R. Castro, R. Nowak (2011). Distilled sensing: adaptive sampling
    #    for sparse detection and estimation. IEEE Transactions on Information Theory
    #    57(9).
    n_rounds = 1
    if private.budget.is_gaussian:
        n_affordable = max(1, int(fraction / SCORE_FRACTION))
        n_rounds = max(1, (len(guesses) // n_affordable).bit_length() - 1)
    sums = dict.fromkeys(guesses, 0.0)
    precisions = dict.fromkeys(guesses, 0.0)
    remaining = list(guesses)
    for _ in range(n_rounds):
        if not remaining:
            break
        part = fraction / n_rounds
        precision = private.budget.score_error(part, len(remaining)) ** -2
        scores = private.score(remaining, guesses, groups, part).tolist()
        above_chance = []
        for clique, score in zip(remaining, scores, strict=True):
            sums[clique] += precision * score
            precisions[clique] += precision
            if n_rounds == 1 or score > chance[clique]:
                above_chance.append(clique)
        remaining = above_chance
    noisy = {clique: sums[clique] / precisions[clique] for clique in guesses}
    std_errors = {clique: precisions[clique] ** -0.5 for clique in guesses}
    dropped = frozenset(guesses).difference(remaining)
    return Scores(noisy, std_errors, chance, total, dropped)


def join_scores(first: Scores, second: Scores) -> Scores:
    """Join the scores of two lists of marginals."""
    return Scores(
        {**first.noisy, **second.noisy},
        {**first.std_errors, **second.std_errors},
        {**first.chance, **second.chance},
        first.total,
        first.dropped | second.dropped,
    )


def group_rare_values(
    counts: NDArray[np.float64],
    is_ordered: bool,
    noise: float,
    *,
    n_records: float,
    count_error: float = 0.0,
) -> NDArray[np.intp] | None:
    """Merge the values of a column whose counts are small compared with the noise of pairs."""
    # Bins per column that a pair can afford.
    # An ordered column is cut such that the noise of a pair is three tenths of all records.
    n_affordable = max(1.0, math.sqrt(0.3 * n_records / (NOISE_COST * noise)))
    min_count = 4 * noise
    if is_ordered and counts.size > 2 * n_affordable:
        min_count = max(min_count, n_records / n_affordable)
    elif not is_ordered and counts.size > 1:
        # Expected largest count if all counts are noise.
        luck = count_error * float(ndtri(1 - 1 / counts.size))
        min_count = min(max(min_count, luck), n_records)
    is_common = counts >= min_count
    if is_common.all() or counts.size == 1:
        return None
    if not is_ordered:  # all rare values are one group
        n_common = np.cumsum(is_common)
        return np.where(is_common, n_common - 1, n_common[-1]).astype(np.intp)
    return _group_neighbors(counts, min_count)


def _group_neighbors(counts: NDArray[np.float64], min_count: float) -> NDArray[np.intp]:
    """Join rare values with their left neighbors until groups are large enough."""
    groups = np.zeros(counts.size, np.intp)
    current = 0
    group_count = counts[0]
    for value in range(1, counts.size):
        is_common = counts[value] >= min_count
        is_full = group_count >= min_count or (
            is_common and group_count * 2 >= min_count
        )
        if is_full and counts[value:].sum() * 2 >= min_count:
            current += 1
            group_count = 0.0
        groups[value] = current
        group_count += counts[value]
    return groups


class IndependentColumns:
    """The counts of marginals if columns were independent."""

    def __init__(
        self, counts: Sequence[NDArray[np.float64]], std_error: float, groups: Groups
    ) -> None:
        grouped = []
        self._relative_variances = []
        for column, members in zip(counts, groups, strict=True):
            sums = group(column, (members,))
            grouped.append(sums)
            positive = np.maximum(sums, 1e-6)  # no division by 0
            noise = std_error * math.sqrt(column.size / sums.size)
            # A count near 0 is off by no more than itself.
            noise = np.minimum(noise, np.maximum(positive, std_error / 2))
            self._relative_variances.append((noise / positive) ** 2)
        self.total = max(1.0, float(grouped[0].sum()))
        self._proportions = [column / self.total for column in grouped]

    def guess(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a marginal."""
        proportions = [self._proportions[column] for column in clique]
        expected = np.asarray(self.total * reduce(np.multiply.outer, proportions))
        if self.total >= expected.size:
            return expected
        # With less than a record per cell, rounded such that cumulative sums are kept.
        sums = np.floor(np.cumsum(expected))
        return np.diff(sums, prepend=0.0).reshape(expected.shape)

    def chance(self, clique: Clique) -> float:
        """Estimate the score of independent columns, from sampling and from noise."""
        # A count n has the variance n, and relative variances of factors add up.
        proportions = [self._proportions[column] for column in clique]
        expected = self.total * reduce(np.multiply.outer, proportions)
        relative = reduce(np.add.outer, [self._relative_variances[c] for c in clique])
        variances = expected + expected**2 * relative
        return MEAN_ABSOLUTE * float(np.sqrt(variances).sum())
