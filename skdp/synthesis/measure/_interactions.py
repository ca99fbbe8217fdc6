"""Interactions: marginals of three to five columns that a first model lacks, found by private choices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from skdp._arrays import Floats, Indices
from skdp.privacy import Split
from skdp.synthesis.measure._marginal_scores import NOISE_COST
from skdp.synthesis.measure._plan import MarginalPlan
from skdp.synthesis.measure._private_counts import (
    MEAN_ABSOLUTE,
    PrivateCounts,
    PrivateScores,
)
from skdp.synthesis.model import (
    Clique,
    GraphicalModel,
    ValueGroups,
    estimate_marginal_counts,
    estimate_total,
    group_values,
)
from skdp.synthesis.private._records import MAX_LOADED_CELLS, CodedRecords

# A rule over several columns, such as a parity, changes no pair of columns, so pairs do not
# show which marginal has it. All marginals of three to five columns are scored by few groups
# of values per column, as the L1 distance from the counts of the first model. The exponential
# mechanism chooses one marginal at a time, and its score is measured with noise ([1]_).
# The error of a choice grows with the logarithm of the number of marginals.
# .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and
#    iterative mechanism for differentially private synthetic data. PVLDB 15(11).

# Tuned by benchmarks/synthesis.py.
ORDERS = (3, 4, 5)
"""Numbers of columns of the marginals that are scored."""

LEVELS = (2, 3, 4, 6, 8, 12, 16)
"""Numbers of groups of the values of a column."""

MAX_VALUES = 64
"""Number of groups of an unordered column, besides `LEVELS`: its neighboring values may have different effects."""

MAX_SCORED_CELLS, MAX_MEASURED_CELLS = 512, 4096
"""Largest numbers of cells of a marginal that is scored first, and of one that is measured."""

MAX_LISTED, MAX_COUNTED = 30_000, 1 << 30
"""Largest number of marginals, and of marginals times rows: two seconds."""

MODEL_ROWS, MAX_SAMPLED_ROWS = 1 << 13, 100_000
"""Number of rows of the model that are counted, and largest number of records."""

CHOICE_FRACTION, MAX_CHOICE_FRACTION = Fraction(1, 256), Fraction(1, 32)
"""Fractions of the budget for a choice: if possible, and at most."""

EXCESS_PARTS = Split(rest="score", choice=Fraction(2, 3))
"""Parts of a budget for the choice of a part of a marginal, and for its score."""

MAX_CHOICE_ERROR = 0.15
"""Largest error of a choice, relative to the number of scored records."""

MAX_CHOICES, MAX_CHOICES_FRACTION = 8, Fraction(1, 8)
"""Largest number of choices, and fraction of the budget for all of them."""


Level = tuple[int, int]
"""Numbers of groups of the values of an unordered and of an ordered column."""


@dataclass(frozen=True)
class Search:
    """Public facts of a search."""

    cliques: Sequence[Clique]
    fraction: Fraction
    """Fraction of the budget for a choice."""
    sampling_rate: Fraction
    """Probability of each record to be scored."""


def plan_search(
    private: PrivateCounts, plan: MarginalPlan, total: float
) -> Search | None:
    """Plan a search in a table with an estimated number of `total` records; None if choices would be noise."""
    n_records, max_listed = total, MAX_LISTED
    if not private.can_sample:  # all rows are counted
        n_rows = min(total, MAX_LOADED_CELLS)
        max_listed = min(MAX_LISTED, int(MAX_COUNTED / n_rows))
    listed = list_interactions(plan, max_listed)
    # With much noise, only marginals with the target.
    for cliques in (listed, [c for c in listed if plan.target in c]):
        if not cliques:
            break
        noise = private.noise
        required = noise.choice_error(CHOICE_FRACTION, len(cliques)) / MAX_CHOICE_ERROR
        if private.can_sample:
            most = min(total, MAX_SAMPLED_ROWS, MAX_COUNTED / len(cliques) - MODEL_ROWS)
            n_records = min(max(MODEL_ROWS, required), most)
        # The error of a choice is proportional to a power of its fraction of the budget.
        scale = (required / n_records) ** (1 / noise.error_power)
        fraction = CHOICE_FRACTION * max(1, math.ceil(scale))
        # The number of records has an error, too.
        if fraction <= MAX_CHOICE_FRACTION * Fraction(3, 2):
            rate = Fraction(n_records / total).limit_denominator(1 << 20)
            return Search(cliques, min(fraction, MAX_CHOICE_FRACTION), rate)
    return None


def list_interactions(plan: MarginalPlan, max_listed: int) -> list[Clique]:
    """List marginals of three to five columns; only with the target, or else with columns of two values, if many."""
    listed: list[Clique] = []
    columns = [column for column, size in enumerate(plan.sizes) if size > 1]
    labels = plan.labels if plan.target is None else {plan.target}
    max_unlabeled = max_listed // 3 if labels else max_listed
    for order in () if plan.workload else ORDERS:  # a workload has larger marginals
        cliques: Iterable[Clique] = itertools.combinations(columns, order)
        n_labeled = len(labels) * math.comb(len(columns) - 1, order - 1)
        if len(listed) + math.comb(len(columns), order) > max_unlabeled:
            if len(listed) + n_labeled > max_listed:
                continue
            cliques = (c for c in cliques if not labels.isdisjoint(c))
        listed += [c for c in cliques if plan.n_cells(c) <= plan.max_cells]
    return listed


class Comparison:
    """Comparison of the records with rows of a first model, in marginals of few groups of values."""

    def __init__(
        self,
        private: PrivateCounts,
        plan: MarginalPlan,
        search: Search,
        *,
        model: GraphicalModel,
        excess: Mapping[Clique, float],
    ) -> None:
        """Draw rows of the model, and records; `excess` has the dependence of pairs, in records."""
        self._rate = float(search.sampling_rate)
        n_columns = len(plan.sizes)
        # Symmetric; the diagonal has single columns.
        self._lacking = np.zeros((n_columns, n_columns))
        self._noise = np.zeros((n_columns, n_columns))
        for clique, lacking in excess.items():
            if len(clique) == 2:
                self._lacking[clique] = self._lacking[clique[::-1]] = lacking
        for marginal in private.marginals:
            noise = MEAN_ABSOLUTE * marginal.std_error * marginal.counts.size
            pair = marginal.clique
            if len(pair) == 2:
                self._lacking[pair] = self._lacking[pair[::-1]] = 0
                # Noise that exceeds the dependence of a pair is not in the model.
                smaller = min(noise, excess.get(pair, 0.0))
                self._noise[pair] = self._noise[pair[::-1]] = smaller
        for column, size in enumerate(plan.sizes):
            _, std_error = estimate_marginal_counts(private.marginals, (column,))
            self._noise[column, column] = MEAN_ABSOLUTE * std_error * size
        self._is_ordered = plan.is_ordered
        total, _ = estimate_total(private.marginals)
        self.n_records = self._rate * total
        self._scale = self.n_records / MODEL_ROWS
        self._counts = [total * model.marginal(clique) for clique in plan.columns]
        self._private = private.draw_sample(search.sampling_rate)
        rows = model.sample(MODEL_ROWS, np.random.default_rng(0))
        self._rows = CodedRecords(list(rows), plan.sizes)
        self.cut = cache(self._cut)

    def _cut(self, column: int, level: Level) -> Indices:
        """Return the group of each value of a column; `level` has the number of groups if unordered and if ordered."""
        return group_values(self._counts[column], level[self._is_ordered[column]])

    def n_cells(self, clique: Clique, level: Level) -> int:
        """Return the largest number of cells of a marginal, by the number of values of its columns."""
        n_cells = 1
        for column in clique:
            n_cells *= min(self._counts[column].size, level[self._is_ordered[column]])
        return n_cells

    def find_levels(self, cliques: Sequence[Clique]) -> list[tuple[Clique, Level]]:
        """Return marginals with the largest level of each that is scored first."""
        # Even numbers of groups keep the sign of symmetric numbers.
        even = [level for level in LEVELS if level % 2 == 0]
        sizes = np.array([counts.size for counts in self._counts])
        levels = np.full(len(cliques), even[0])
        n_columns = np.array(list(map(len, cliques)), np.intp)
        for order in np.unique(n_columns):
            (chosen,) = np.nonzero(n_columns == order)
            of_clique = sizes[np.array([cliques[index] for index in chosen.tolist()])]
            for level in even:
                n_cells = np.minimum(of_clique, level).prod(axis=1)
                levels[chosen[n_cells <= MAX_SCORED_CELLS]] = level
        pairs = [(level, level) for level in levels.tolist()]
        return list(zip(cliques, pairs, strict=True))

    def score(
        self, marginals: Sequence[tuple[Clique, Level]]
    ) -> tuple[PrivateScores, Floats]:
        """Score marginals by their distance from the model; also return the expected scores if the model is right.

        Each marginal has a level, by which the values of its columns are grouped.
        """
        keys = dict.fromkeys((c, level) for clique, level in marginals for c in clique)
        index_of = dict(zip(keys, itertools.count()))
        columns = [(column, self.cut(column, level)) for column, level in keys]
        cliques = [
            tuple(index_of[c, level] for c in clique) for clique, level in marginals
        ]
        guesses: list[Any] = [None] * len(cliques)
        sampling = np.empty(len(cliques))
        for indices, counts in self._rows.group(columns).stack(cliques):
            model_counts = self._scale * counts
            sampling[indices] = np.sqrt(model_counts).sum(axis=1)
            for index, guess in zip(indices.tolist(), model_counts, strict=True):
                guesses[index] = guess
        scores = self._private.open_scores(columns, cliques, guesses)
        return scores, self._expect([clique for clique, _ in marginals], sampling)

    def _expect(self, cliques: Sequence[Clique], sampling: Floats) -> Floats:
        """Return the expected scores by errors of samples, noise of the model, and pairs that it lacks.

        `sampling` has the sums of the roots of the counts of the model.
        """
        variances = (MEAN_ABSOLUTE**2 * (1 + self._scale)) * sampling**2
        lacking = np.zeros(len(cliques))
        n_columns = np.array(list(map(len, cliques)))
        for order in np.unique(n_columns):
            (chosen,) = np.nonzero(n_columns == order)
            columns = np.array([cliques[index] for index in chosen.tolist()])
            # The diagonal has single columns.
            for pair in itertools.combinations_with_replacement(columns.T, 2):
                variances[chosen] += (self._rate * self._noise[pair]) ** 2
                lacking[chosen] += self._lacking[pair]
        return np.sqrt(variances) + self._rate * lacking

    def limit_of_chance(self, n: int) -> float:
        """Return the largest excess of n marginals that sampling errors explain."""
        # A count n differs from its expectation by about sqrt(n) x, with x standard
        # normal. The variance of |x| is 1 - E(|x|)**2, so the variance of the sum of
        # these distances is 1 - E(|x|)**2 times the number of records. The largest of n
        # errors is about sqrt(2 log n) standard deviations.
        variance = (1 - MEAN_ABSOLUTE**2) * self.n_records * (1 + self._scale)
        return (1 + math.sqrt(2 * math.log(n))) * math.sqrt(variance)

    def measure_part(
        self, clique: Clique, fraction: Fraction, cell_cost: float
    ) -> tuple[Clique, Level, float]:
        """Choose a part of a marginal, and a level, that have its excess in few cells; also measure this excess.

        `fraction` is the fraction of the budget, and `cell_cost` the cost of a cell in sampled records.
        """
        parts = self.list_parts(clique)
        scores, expected = self.score(parts)
        n_cells = np.array([self.n_cells(*part) for part in parts])
        costs = expected + cell_cost * n_cells
        index = scores.choose(range(len(parts)), costs, fraction * EXCESS_PARTS.choice)
        excess = scores.measure(index, fraction * EXCESS_PARTS.score) - expected[index]
        return *parts[index], float(excess)

    def list_parts(self, clique: Clique) -> list[tuple[Clique, Level]]:
        """List the marginals within a marginal, each with all levels that have few cells."""
        levels = [(n, n) for n in LEVELS] + [(MAX_VALUES, n) for n in LEVELS]
        parts = []
        for order in range(2, len(clique) + 1):
            for part in itertools.combinations(sorted(clique), order):
                # One level for each number of cells.
                distinct = {self.n_cells(part, level): level for level in levels[::-1]}
                for n_cells, level in distinct.items():
                    if n_cells <= MAX_MEASURED_CELLS or level == levels[0]:
                        parts.append((part, level))
        return parts


def choose_columns(search: Search, compared: Comparison, target: int | None) -> Clique:
    """Choose a marginal with the target that probably differs from the model most."""
    cliques = [clique for clique in search.cliques if target in clique]
    if not cliques:
        return ()
    scores, expected = compared.score(compared.find_levels(cliques))
    return cliques[scores.choose(range(len(cliques)), expected, search.fraction)]


def find_interactions(
    private: PrivateCounts,
    search: Search,
    compared: Comparison,
    fraction: Fraction,
) -> tuple[dict[Clique, float], dict[Clique, ValueGroups]]:
    """Choose marginals that differ from the model, and measure by how many records.

    Return this excess, and the groups of values with which marginals of at least three columns are measured.
    An interaction is measured later with about a `fraction` of the remaining budget.
    """
    noise = private.noise
    rate = float(search.sampling_rate)
    limit = compared.limit_of_chance(len(search.cliques))
    limit += 3 * noise.std_error(search.fraction / 4)
    cell_cost = rate * NOISE_COST * noise.std_error(noise.remaining * fraction)
    scores, expected = compared.score(compared.find_levels(search.cliques))
    candidates = list(range(len(search.cliques)))
    all_excess: dict[Clique, float] = {}
    groups: dict[Clique, ValueGroups] = {}
    part_fraction = search.fraction * Fraction(3, 4)
    kept = max(noise.remaining / 4, noise.remaining - MAX_CHOICES_FRACTION)
    min_remaining = kept + search.fraction + part_fraction
    while (
        candidates and len(all_excess) < MAX_CHOICES and noise.remaining > min_remaining
    ):
        index = scores.choose(candidates, expected, search.fraction)
        # The same excess may be in fewer columns, also in a pair, or in fewer groups.
        chosen, level, excess = compared.measure_part(
            search.cliques[index], part_fraction, cell_cost
        )
        if excess < limit:
            break
        all_excess[chosen] = excess / rate
        if len(chosen) > 2:
            groups[chosen] = tuple(compared.cut(column, level) for column in chosen)
        # A marginal of further columns must differ by more than that. Other marginals that
        # share three columns probably differ for the same reason.
        later = []
        for candidate in candidates:
            n_shared = len(set(chosen).intersection(search.cliques[candidate]))
            if n_shared == len(chosen) < len(search.cliques[candidate]):
                expected[candidate] += excess + limit
            elif n_shared >= ORDERS[0]:
                continue
            later.append(candidate)
        candidates = later
    return all_excess, groups
