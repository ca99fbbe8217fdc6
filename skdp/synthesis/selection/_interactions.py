"""Interactions: marginals of three to five columns that a first model lacks, found by private choices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._records import CodedRecords
from skdp.synthesis.model import Clique, GraphicalModel, Groups, estimate_total
from skdp.synthesis.selection._budget import PrivateCounts, PrivateScores
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._scores import MEAN_ABSOLUTE, NOISE_COST, Interactions

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
"""Numbers of groups of the values of a column. Even numbers keep the sign of symmetric numbers, so they come first."""

MAX_VALUES = 64
"""Number of groups of an unordered column, besides `LEVELS`: its neighboring values may have different effects."""

MAX_SCORED_CELLS, MAX_MEASURED_CELLS = 256, 4096
"""Largest numbers of cells of a marginal that is scored first, and of one that is measured."""

MAX_SCORED_TWICE = 2_500
"""Largest number of marginals that are also scored by thirds of each column."""

MAX_LISTED, MAX_COUNTED = 30_000, 1 << 30
"""Largest number of marginals, and of marginals times rows: two seconds."""

MIN_ROWS, MAX_ROWS = 1 << 13, 100_000
"""Numbers of rows of the model that are counted, and smallest and largest number of records."""

CHOICE_FRACTIONS = [Fraction(1, 1 << power) for power in range(11, 4, -1)]
"""Fractions of the budget for a choice; the first one is used for which there are enough records."""

MIN_LARGE_FRACTION = CHOICE_FRACTIONS[3]
"""Smallest fraction for which more than `MIN_ROWS` records are scored."""

MAX_CHOICE_ERROR = 0.08
"""Largest error of a choice, relative to the number of scored records."""

MAX_CHOICES = 8


Level = tuple[int, int]
"""Numbers of groups of the values of an unordered and of an ordered column."""


@dataclass(frozen=True)
class Search:
    """Public facts of a search: the marginals, the budget of a choice, and the number of records that are scored."""

    cliques: Sequence[Clique]
    fraction: Fraction
    """Fraction of the budget for a choice; 0 without a search."""
    sampling_rate: Fraction
    """Probability of each record to be scored."""
    is_ordered: Sequence[bool]
    """True for each column with an order."""

    @classmethod
    def plan(cls, private: PrivateCounts, plan: Plan, total: float) -> Search:
        """Plan a search in a table with an estimated number of `total` records."""
        limit = MAX_COUNTED if private.can_sample else int(MAX_COUNTED / total)
        cliques = list_interactions(plan, min(MAX_LISTED, limit))
        for fraction in CHOICE_FRACTIONS if cliques else ():
            error = private.budget.choice_error(fraction, len(cliques))
            n_records = total
            if private.can_sample:
                n_records = min(total, MIN_ROWS)
                if fraction >= MIN_LARGE_FRACTION:
                    most = min(total, MAX_ROWS, MAX_COUNTED / len(cliques) - MIN_ROWS)
                    needed = 1.01 * error / MAX_CHOICE_ERROR
                    n_records = min(max(n_records, needed), most)
            if error <= MAX_CHOICE_ERROR * n_records:
                rate = n_records / total
                exact_rate = Fraction(rate).limit_denominator(1 << 20)
                return cls(cliques, fraction, exact_rate, plan.is_ordered)
        return cls(cliques, Fraction(0), Fraction(0), plan.is_ordered)


def list_interactions(plan: Plan, max_listed: int) -> list[Clique]:
    """List marginals of three to five columns; only with the target, or else with columns of two values, if many."""
    listed: list[Clique] = []
    columns = [column for column, size in enumerate(plan.sizes) if size > 1]
    labels = sorted(plan.labels) if plan.target is None else [plan.target]
    max_unlabeled = max_listed // 3 if labels else max_listed
    for order in () if plan.workload else ORDERS:  # a workload has larger marginals
        cliques: Iterable[Clique] = itertools.combinations(columns, order)
        if len(listed) + math.comb(len(columns), order) > max_unlabeled:
            n_others = len(columns) - 1
            if len(listed) + len(labels) * math.comb(n_others, order - 1) > max_listed:
                continue
            cliques = _list_with(labels, columns, order)
        for clique in cliques:
            if plan.n_cells(clique) <= plan.max_cells:
                listed.append(clique)
    return listed


def _list_with(
    labels: Sequence[int], columns: Sequence[int], order: int
) -> Iterator[Clique]:
    """List the marginals of some columns with a label, which is the first column of each."""
    for index, label in enumerate(labels):
        others = [column for column in columns if column not in labels[: index + 1]]
        for rest in itertools.combinations(others, order - 1):
            yield (label, *rest)


@cache
def _largest_level(sizes: tuple[int, ...], max_cells: int) -> int:
    """Return the largest even number of groups per column such that a marginal has at most `max_cells` cells."""
    largest = LEVELS[0]
    for level in LEVELS:
        n_cells = math.prod(min(size, level) for size in sizes)
        if level % 2 == 0 and n_cells <= max_cells:
            largest = level
    return largest


class Comparison:
    """Comparison of the records with rows of a first model, in marginals of few groups of values."""

    def __init__(
        self,
        private: PrivateCounts,
        search: Search,
        model: GraphicalModel,
        lacking: Mapping[Clique, float],
    ) -> None:
        """Draw rows of the model; `lacking` has the excess of pairs that it lacks."""
        self._private = private
        self._rate = search.sampling_rate
        self._lacking = lacking
        total, _ = estimate_total(private.marginals)
        self.n_records = float(self._rate) * total
        self._scale = self.n_records / MIN_ROWS
        self.sizes = model.tree.sizes
        self.is_ordered = search.is_ordered
        rows = model.sample(MIN_ROWS, np.random.default_rng(0))
        self._rows = CodedRecords(list(rows), self.sizes)
        self._counts = [total * model.marginal((c,)) for c in range(len(self.sizes))]
        # The squared error of a pair in one cell, by the noise of its cells.
        squares = [m.std_error**2 * m.counts.size for m in private.marginals]
        self._square = float(self._rate) ** 2 * float(np.mean(squares))
        self.cut = cache(self._cut)

    def _cut(self, column: int, level: Level) -> NDArray[np.intp]:
        """Return the group of each value of a column: ascending, with about equal counts."""
        counts = self._counts[column]
        n_groups = level[self.is_ordered[column]]
        if counts.size <= n_groups:
            return np.arange(counts.size)
        middles = np.cumsum(counts) - counts / 2
        groups = (middles / counts.sum() * n_groups).astype(np.intp)
        return np.unique(groups, return_inverse=True)[1]

    def score(
        self, marginals: Sequence[tuple[Clique, Level]]
    ) -> tuple[PrivateScores, NDArray[np.float64]]:
        """Score marginals with levels; also return their expected scores if the model is right."""
        keys = {(c, level): 0 for clique, level in marginals for c in clique}
        keys = {key: index for index, key in enumerate(keys)}
        columns = [(column, self.cut(column, level)) for column, level in keys]
        cliques = []
        for clique, level in marginals:
            cliques.append(tuple(keys[column, level] for column in clique))
        rows = self._rows.group(columns)
        guesses = [self._scale * table for table in rows.count(cliques)]
        scores = self._private.open_scores(columns, cliques, guesses, self._rate)
        # Errors of the samples of records and of rows, and of the noise of the model.
        expected = []
        for (clique, _), guess in zip(marginals, guesses, strict=True):
            sampling = math.sqrt(1 + self._scale) * float(np.sqrt(guess).sum())
            noise = math.sqrt(self._square * guess.size)
            pairs = itertools.combinations(sorted(clique), 2)
            lacking = sum(self._lacking.get(pair, 0.0) for pair in pairs)
            spread = MEAN_ABSOLUTE * math.hypot(sampling, noise)
            expected.append(spread + float(self._rate) * lacking)
        return scores, np.array(expected)

    def limit_of_chance(self, n: int) -> float:
        """Return the largest excess of n marginals that sampling errors explain."""
        # A sum of distances has the variance of `Scores.insignificant`. The largest of n
        # errors is about sqrt(2 log n) standard deviations.
        variance = (1 - MEAN_ABSOLUTE**2) * self.n_records * (1 + self._scale)
        return (1 + math.sqrt(2 * math.log(n))) * math.sqrt(variance)


def find_interactions(
    private: PrivateCounts,
    search: Search,
    model: GraphicalModel,
    lacking: Mapping[Clique, float],
    fraction: Fraction,
) -> Interactions:
    """Choose marginals that differ from the model, and measure by how many records; keep a quarter of the budget.

    `lacking` is the excess of pairs that are not measured. An interaction is measured with about a `fraction` of the
    remaining budget.
    """
    if not search.fraction:
        return Interactions()
    compared = Comparison(private, search, model, lacking)
    budget = private.budget
    limit = compared.limit_of_chance(len(search.cliques))
    limit += 3 * budget.std_error(search.fraction / 4)
    rate = float(search.sampling_rate)
    cell_cost = rate * NOISE_COST * budget.std_error(budget.remaining * fraction)
    listed = []
    for clique in search.cliques:
        sizes = tuple(map(compared.sizes.__getitem__, clique))
        largest = _largest_level(sizes, MAX_SCORED_CELLS)
        # Even numbers of groups hide a rule over thirds.
        is_few = (
            len(search.cliques) <= MAX_SCORED_TWICE
            and 3 ** len(clique) <= MAX_SCORED_CELLS
        )
        for n_groups in (largest, 3) if is_few else (largest,):
            listed.append((clique, (n_groups, n_groups)))
    scores, expected = compared.score(listed)
    candidates = list(range(len(listed)))
    excess: dict[Clique, float] = {}
    groups: dict[Clique, Groups] = {}
    min_remaining = budget.remaining / 4 + 2 * search.fraction
    while candidates and len(excess) < MAX_CHOICES and budget.remaining > min_remaining:
        index = scores.choose(candidates, expected, search.fraction)
        # The same excess may be in fewer columns, also in a pair, or in fewer groups.
        parts = list_parts(listed[index][0], compared.sizes, search.is_ordered)
        part_scores, part_expected = compared.score([part for part, _ in parts])
        costs = part_expected + cell_cost * np.array([cells for _, cells in parts])
        part = part_scores.choose(range(len(parts)), costs, search.fraction / 2)
        found = part_scores.measure(part, search.fraction / 4) - part_expected[part]
        if found < limit:
            break
        (chosen, level), _ = parts[part]
        excess[chosen] = found / rate
        if len(chosen) > 2:
            groups[chosen] = tuple(compared.cut(column, level) for column in chosen)
        # A marginal of further columns must differ by more than that. Other marginals that
        # share three columns probably differ for the same reason.
        later = []
        for candidate in candidates:
            clique, _ = listed[candidate]
            n_shared = len(set(chosen).intersection(clique))
            is_larger = n_shared == len(chosen) < len(clique)
            if is_larger:
                expected[candidate] += found + limit
            if is_larger or n_shared < ORDERS[0]:
                later.append(candidate)
        candidates = later
    return Interactions(excess, groups)


def list_parts(
    clique: Clique, sizes: Sequence[int], is_ordered: Sequence[bool]
) -> list[tuple[tuple[Clique, Level], int]]:
    """List the marginals within a marginal, each with several numbers of groups per column, and their cells."""
    levels = [(n, n) for n in LEVELS] + [(MAX_VALUES, n) for n in LEVELS]
    parts = []
    for order in range(2, len(clique) + 1):
        for part in itertools.combinations(sorted(clique), order):
            shapes = set()
            for level in levels:
                shape = tuple(min(sizes[c], level[is_ordered[c]]) for c in part)
                n_cells = math.prod(shape)
                is_small = n_cells <= MAX_MEASURED_CELLS or level == levels[0]
                if is_small and shape not in shapes:
                    shapes.add(shape)
                    parts.append(((part, level), n_cells))
    return parts
