"""Noisy scores of marginals, and the choice of marginals by their scores.

A score is the L1 distance between guessed counts and true counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

import numpy as np
from scipy.special import ndtri

from skdp._arrays import Floats, Indices
from skdp.synthesis.measure._plan import MarginalPlan
from skdp.synthesis.measure._private_counts import (
    MEAN_ABSOLUTE,
    NoiseSource,
    PrivateCounts,
    groups_of,
)
from skdp.synthesis.measure._rules import CLIQUES_PER_MODEL
from skdp.synthesis.model import Clique, ValueGroups, sum_value_groups

# Standard errors that are subtracted from a score, because the noise of the largest
# scores is positive on average. With 0, standard deviations of smooth columns at epsilon 0.1 are 4 times as wrong
# (benchmarks/synthesis_numbers.py), while pairs of benchmarks/synthesis.py change by 0.2 %.
SUBTRACTED_STD_ERRORS = 0.5

# Tuned by benchmarks/synthesis.py.
NOISE_COST = 0.5
"""Cost of a noisy cell, in standard errors: less than the mean error of 0.8, because the
model repairs negative and inconsistent counts."""

SCORE_FRACTION = Fraction(1, 6400)
"""Fraction of the budget per score, within the limits of a list of scores."""

TARGET_WEIGHT, LABEL_WEIGHT, FAVORED_WEIGHT = 10.0, 1.5, 8.0
"""Weights of errors of pairs with the target, with two values, and of favored pairs (benchmarks/linked.py)."""

INTERACTION_WEIGHT = 2.0
"""Weight of errors of an interaction."""

N_PAIRS_PER_LABEL = 2
"""Number of pairs of a column of two values that are added to the model first."""


@dataclass(frozen=True)
class Scores:
    """Noisy scores of marginals, in records, and their expected scores under independence."""

    noisy: Mapping[Clique, float]
    std_errors: Mapping[Clique, float]
    chance: Mapping[Clique, float]
    """Expected scores if the guesses are right: sampling and noise alone."""
    total: float
    """Estimated number of records."""
    dropped: frozenset[Clique] = frozenset()
    """Marginals with a score below `chance` in one of several rounds of scores."""

    @property
    def gains(self) -> dict[Clique, float]:
        """The number of records that a measurement of a marginal corrects."""
        gains = {}
        for clique, score in self.noisy.items():
            if clique not in self.dropped:
                gains[clique] = score - SUBTRACTED_STD_ERRORS * self.std_errors[clique]
        return gains

    @property
    def excess(self) -> dict[Clique, float]:
        """The gains minus the expected scores under independence, at least 0."""
        excess = {}
        for clique, gain in self.gains.items():
            excess[clique] = max(0.0, gain - self.chance[clique])
        return excess

    @property
    def clear(self) -> dict[Clique, float]:
        """The excess that noise and sampling errors do not explain, of the marginals that have one."""
        # See `Comparison.limit_of_chance` for the variance of the sampling error.
        sampling_error = math.sqrt((1 - MEAN_ABSOLUTE**2) * self.total)
        clear = {}
        for clique, excess in self.excess.items():
            if excess > 3 * math.hypot(sampling_error, self.std_errors[clique]):
                clear[clique] = excess
        return clear


def average_scores(
    first: Scores, second: Scores, cliques: Collection[Clique]
) -> Scores:
    """Average scores of marginals that were not measured between two rounds, by their variances."""
    noisy, std_errors = dict(second.noisy), dict(second.std_errors)
    chance = dict(second.chance)
    for clique in cliques:
        rounds = [scores for scores in (first, second) if clique in scores.noisy]
        weights = [scores.std_errors[clique] ** -2.0 for scores in rounds]
        noisy[clique] = _average(weights, [scores.noisy[clique] for scores in rounds])
        chance[clique] = _average(weights, [scores.chance[clique] for scores in rounds])
        std_errors[clique] = sum(weights) ** -0.5
    dropped = second.dropped.difference(cliques)
    return Scores(noisy, std_errors, chance, second.total, dropped)


def _average(weights: Sequence[float], values: Sequence[float]) -> float:
    return float(np.average(values, weights=weights))


def score_guesses(
    private: PrivateCounts,
    guesses: Mapping[Clique, Floats],
    chance: Mapping[Clique, float],
    *,
    groups: ValueGroups,
    fraction: Fraction,
    total: float,
) -> Scores:
    """Score marginals against guessed counts with a fraction of the budget, very many marginals in several rounds.

    Parameters
    ----------
    private : PrivateCounts
        The private records.
    guesses : mapping of clique to ndarray
        The guessed counts of each marginal to score, by groups of values.
    chance : mapping of clique to float
        The expected score of each marginal if its guess is right.
    groups : ValueGroups
        The groups of rare values of each column.
    fraction : Fraction
        The fraction of the budget for all scores.
    total : float
        Estimated number of records.

    Returns
    -------
    Scores
        Scores of all marginals; `dropped` has the marginals with a score below `chance` in a round.
    """
    # In a table of many columns, most pairs are independent. Each round scores the pairs
    # again whose scores exceeded the expectation under independence, which excludes
    # about half of the independent pairs: distilled sensing ([1]_). A round depends on
    # the noisy scores of earlier rounds alone.
    # .. [1] J. Haupt, R. Castro, R. Nowak (2011). Distilled sensing: adaptive sampling
    #    for sparse detection and estimation. IEEE Transactions on Information Theory
    #    57(9).
    n_rounds = 1
    if private.noise.is_gaussian:
        n_affordable = max(1, int(fraction / SCORE_FRACTION))
        n_rounds = max(1, (len(guesses) // n_affordable).bit_length() - 1)
    sums = dict.fromkeys(guesses, 0.0)
    precisions = dict.fromkeys(guesses, 0.0)
    remaining = list(guesses)
    for _ in range(n_rounds):
        if not remaining:
            break
        round_fraction = fraction / n_rounds
        std_error = private.noise.score_std_error(round_fraction, len(remaining))
        precision = std_error**-2
        scores = private.score(remaining, guesses, groups, round_fraction).tolist()
        above_chance = []
        for clique, score in zip(remaining, scores, strict=True):
            sums[clique] += precision * score
            precisions[clique] += precision
            if n_rounds == 1 or score > chance[clique]:
                above_chance.append(clique)
        remaining = above_chance
    # The mean over rounds, weighted by precision.
    noisy = {}
    std_errors = {}
    for clique in guesses:
        noisy[clique] = sums[clique] / precisions[clique]
        std_errors[clique] = precisions[clique] ** -0.5
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
    counts: Floats,
    is_ordered: bool,
    noise: float,
    *,
    n_records: float,
    count_error: float = 0.0,
) -> Indices | None:
    """Merge the values of a column whose counts are small compared with the noise of pairs.

    Parameters
    ----------
    counts : ndarray of shape (n_values,)
        Estimated counts of the values.
    is_ordered : bool
        If True, rare values are merged with their neighbors; otherwise all of them become one group.
    noise : float
        Standard error of the counts of pairs.
    n_records : float
        Estimated number of records.
    count_error : float, default=0.0
        Standard error of `counts`.

    Returns
    -------
    ndarray of shape (n_values,) or None
        The group of each value; None if each value is its own group.
    """
    # With n groups per column, the noise of a pair costs NOISE_COST * noise * n**2. The
    # largest n of an ordered column is such that this is three tenths of all records.
    max_groups = max(1.0, math.sqrt(0.3 * n_records / (NOISE_COST * noise)))
    min_count = 4 * noise
    if is_ordered and counts.size > 2 * max_groups:
        min_count = max(min_count, n_records / max_groups)
    elif not is_ordered and counts.size > 1:
        # Expected largest count if all counts are noise: the quantile 1 - 1 / n.
        largest_noise = count_error * float(ndtri(1 - 1 / counts.size))
        min_count = min(max(min_count, largest_noise), n_records)
    is_common = counts >= min_count
    if is_common.all() or counts.size == 1:
        return None
    if not is_ordered:  # all rare values are one group
        n_common = np.cumsum(is_common)
        return np.where(is_common, n_common - 1, n_common[-1]).astype(np.intp)
    return _group_neighbors(counts, min_count)


def _group_neighbors(counts: Floats, min_count: float) -> Indices:
    """Return the group of each value: rare values join their left neighbors until a group has about `min_count`."""
    groups = np.zeros(counts.size, np.intp)
    group = 0
    group_count = counts[0]
    for value in range(1, counts.size):
        # A common value is not joined to a group that is at least half full.
        is_common = counts[value] >= min_count
        is_full = group_count >= min_count or (
            is_common and group_count * 2 >= min_count
        )
        # The values from here on must be enough for a group of at least half the count.
        if is_full and counts[value:].sum() * 2 >= min_count:
            group += 1
            group_count = 0.0
        groups[value] = group
        group_count += counts[value]
    return groups


class IndependentColumns:
    """Expected counts of marginals if columns are independent, by groups of values."""

    def __init__(
        self, counts: Sequence[Floats], std_error: float, groups: ValueGroups
    ) -> None:
        """Sum the counts of each column by groups; `std_error` is the error of each count.

        `groups` has the group of each value of each column, or None. The results are proportions, and their variances
        relative to their squares, for the noise of guesses.
        """
        grouped = []
        self._relative_variances = []
        for column, members in zip(counts, groups, strict=True):
            sums = sum_value_groups(column, (members,))
            grouped.append(sums)
            positive = np.maximum(sums, 1e-6)  # no division by 0
            # A group has column.size / sums.size values on average; their noise adds up.
            noise = std_error * math.sqrt(column.size / sums.size)
            # The error of a count near 0 is at most about the count itself.
            noise = np.minimum(noise, np.maximum(positive, std_error / 2))
            self._relative_variances.append((noise / positive) ** 2)
        self.total = max(1.0, float(grouped[0].sum()))
        self._proportions = [column / self.total for column in grouped]

    def _expect(self, clique: Clique) -> Floats:
        """Return the products of the proportions of columns, times the number of records; an axis for each column."""
        proportions = map(self._proportions.__getitem__, clique)
        return self.total * reduce(np.multiply.outer, proportions)

    def guess(self, clique: Clique) -> Floats:
        """Return the expected counts of a marginal, as integers if there is less than a record per cell."""
        expected = self._expect(clique)
        if self.total >= expected.size:
            return expected
        # Guesses are rounded before they are scored, to 0 in all cells if counts are
        # small. Rounded cumulative sums have the right total.
        sums = np.floor(np.cumsum(expected))
        return np.diff(sums, prepend=0.0).reshape(expected.shape)

    def chance(self, clique: Clique) -> float:
        """Estimate the score of a marginal if its columns are independent, from sampling and noise.

        A score is the L1 distance of the counts from the counts of `guess`.
        """
        # A count n has the sampling variance n, and the relative variances of the factors
        # of a product add up. A normal difference of variance v has the mean size
        # sqrt(2 v / pi).
        expected = self._expect(clique)
        relative_variances = map(self._relative_variances.__getitem__, clique)
        relative_variance = reduce(np.add.outer, relative_variances)
        variances = expected + expected**2 * relative_variance
        return MEAN_ABSOLUTE * float(np.sqrt(variances).sum())


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Marginals among which to choose, and the measurements that share the budget with them."""

    plan: MarginalPlan
    noise: NoiseSource
    fraction: Fraction
    """Fraction of the budget for the chosen and the repeated marginals."""
    groups: ValueGroups
    gains: Mapping[Clique, float]
    excess: Mapping[Clique, float]
    """See `Scores.excess`."""
    column_costs: Sequence[float]
    """Costs of the noise of single columns."""
    repeated: Mapping[Clique, Fraction]
    """Marginals that are measured again with the chosen ones, and the fractions of the budget that they had."""
    measured: Collection[Clique] = ()
    """Marginals that are in the model already."""
    interactions: Mapping[Clique, ValueGroups] = field(default_factory=dict)
    """Groups of values with which interactions of at least three columns are measured."""

    @property
    def total(self) -> Fraction:
        """The fraction of the budget that all marginals have together, with earlier measurements."""
        return self.fraction + sum(self.repeated.values())

    def groups_of(self, clique: Clique) -> ValueGroups | None:
        """Return the group of each value with which a marginal is counted, by column; None if no value is grouped."""
        if len(clique) == 1:
            return None
        return self.interactions.get(clique, groups_of(clique, self.groups))

    def cost(self, clique: Clique) -> float:
        """Return the cost of the noise of a marginal: its weighted number of cells."""
        if len(clique) == 1:
            return self.column_costs[clique[0]]
        n_cells = 1
        groups = self.groups_of(clique) or [None] * len(clique)
        for column, group_of_value in zip(clique, groups, strict=True):
            if group_of_value is None:
                n_cells *= self.plan.sizes[column]
            else:
                n_cells *= int(group_of_value.max()) + 1
        return self.weight(clique) * n_cells

    def weight(self, clique: Clique) -> float:
        """Return the weight of errors of a marginal: larger for some pairs and for interactions."""
        if len(clique) != 2:
            return INTERACTION_WEIGHT if clique in self.interactions else 1.0
        if self.plan.target in clique:
            return TARGET_WEIGHT
        if clique in self.plan.favored:
            return FAVORED_WEIGHT
        return 1.0 if self.plan.labels.isdisjoint(clique) else LABEL_WEIGHT

    def choose(self) -> list[Clique]:
        """Choose marginals by their gains and costs, with capacity for the strongest pairs of rare labels."""
        chosen, rejected = self._choose([])
        # Pairs of a rare label have small gains, so they may be rejected for lack of
        # capacity. The strongest of them are added first.
        label_pairs = self._list_label_pairs(chosen, rejected)
        if label_pairs:
            chosen, _ = self._choose(label_pairs)
        return chosen

    def _list_label_pairs(
        self, chosen: Collection[Clique], rejected: Collection[Clique]
    ) -> list[Clique]:
        """List the strongest rejected pairs of columns of two values that have few pairs in the model."""
        strongest = sorted(rejected, key=self.excess.__getitem__, reverse=True)
        pairs: list[Clique] = []
        for label in sorted(self.plan.labels):
            n_pairs = sum(label in clique for clique in (*self.measured, *chosen))
            if n_pairs < N_PAIRS_PER_LABEL:
                dependent = [c for c in strongest if label in c and self.excess[c] > 0]
                pairs += dependent[:N_PAIRS_PER_LABEL]
        return pairs

    def _choose(self, first: Collection[Clique]) -> tuple[list[Clique], list[Clique]]:
        """Choose marginals in order of rank if they gain more than their noise costs; `first` is before all others.

        Also return marginals with a gain that do not fit into the model.
        """
        # The smallest sum of noise is ``error * sum(cost ** power) ** (1 / power)``:
        # see `NoiseSource.cost_power`. The noise that a marginal adds is the increase
        # of this sum.
        power = self.noise.cost_power
        scale = self.noise.noise_scale(self.total)
        costs = {}
        gains = {}
        for clique, gain in self.gains.items():
            costs[clique] = self.cost(clique)
            gains[clique] = gain * self.weight(clique)
        spent = math.fsum(self.cost(clique) ** power for clique in self.repeated)

        def rank(clique: Clique) -> tuple[bool, float]:
            efficiency = gains[clique] / costs[clique] ** (power / 2)
            return clique in first, efficiency

        graph, columns = self.plan.start_elimination(self.measured, self.interactions)
        max_cells = self.plan.max_cells
        chosen = []
        for clique in self.plan.related:
            is_added = clique not in self.measured and graph.add(
                clique, max_cells, CLIQUES_PER_MODEL * max_cells
            )
            if is_added:
                chosen.append(clique)
                spent += self.cost(clique) ** power
                gains.pop(clique, None)
        rejected: list[Clique] = []
        for clique in sorted(gains, key=rank, reverse=True):
            spent_with = spent + costs[clique] ** power
            # The standard error of a count of this marginal, by `NoiseSource.allocate`.
            own = (
                scale * (spent_with / costs[clique] ** power) ** self.noise.error_power
            )
            error = NOISE_COST * scale * self.noise.relative_error(own)
            added_noise = error * (spent_with ** (1 / power) - spent ** (1 / power))
            if gains[clique] <= added_noise:
                continue
            added = columns.get(clique, clique)
            if graph.add(added, max_cells, CLIQUES_PER_MODEL * max_cells):
                chosen.append(clique)
                spent = spent_with
            else:
                rejected.append(clique)
        return chosen, rejected
