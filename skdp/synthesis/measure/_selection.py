"""Selection and measurement of marginals in six steps, like AIM in two rounds ([1]_)."""

# 1. columns: measure each column.
# 2. scores: compare all pairs with independent columns.
# 3. choice: choose pairs whose gain exceeds the noise that they add to all marginals ([2]_).
# 4. counts: measure these pairs, if they are dependent beyond noise and leave capacity for a table with the target, and
#    measure the columns again; fit a model.
# 5. second scores: measure one table with the target, compare pairs and marginals of three columns with the model, and
#    search interactions.
# 6. second counts: choose and measure as before; fit the model again.
# .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and
#    iterative mechanism for differentially private synthetic data. PVLDB 15(11).
# .. [2] C. Li, M. Hay, G. Miklau, Y. Wang (2014). A data- and workload-aware algorithm
#    for range queries under differential privacy. PVLDB 7(5).

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

import numpy as np

from skdp._arrays import Floats
from skdp.base import limit_blas_threads
from skdp.domain import Domain, Interval
from skdp.oracles import project_to_simplex
from skdp.privacy import Split
from skdp.synthesis.measure._cell_counts import NumberCounts, measure_cells
from skdp.synthesis.measure._interactions import (
    ORDERS,
    Comparison,
    Search,
    choose_columns,
    find_interactions,
    plan_search,
)
from skdp.synthesis.measure._marginal_scores import (
    SCORE_FRACTION,
    Candidates,
    IndependentColumns,
    Scores,
    average_scores,
    group_rare_values,
    join_scores,
    score_guesses,
)
from skdp.synthesis.measure._plan import MarginalPlan, is_within
from skdp.synthesis.measure._private_counts import (
    MEAN_ABSOLUTE,
    NoiseSource,
    PrivateCounts,
    groups_of,
)
from skdp.synthesis.measure._target_table import (
    measure_target_table,
    reserve_table,
)
from skdp.synthesis.model import (
    Clique,
    GraphicalModel,
    Marginal,
    Structure,
    ValueGroups,
    estimate_marginal_counts,
    estimate_total,
    fit_model,
    sum_value_groups,
)
from skdp.synthesis.private._number_cells import Shape
from skdp.synthesis.private._records import CodedRecords, Records
from skdp.synthesis.private._table import PrivateTable

# Tuned by benchmarks/synthesis.py.
PARTS = Split(rest="marginals", columns=Fraction(1, 20))
"""Parts of the budget for the first counts of columns, and for all that follows."""

ROUNDS = Split(rest="first", second=Fraction(1, 4))
TABLE_ROUNDS = Split(rest="first", second=Fraction(3, 4))
"""Parts of the counts for both rounds, without and with one table with the target."""

INTERACTION_FRACTION = Fraction(1, 8)
"""Fraction of the counts of the second round with which an interaction is measured, about."""

MAX_COLUMN_WEIGHT = 20.0
"""Largest cost of the noise of a column, relative to the noise of a pair."""

N_SAMPLED = 1 << 15
"""Number of rows from which the marginals of a model are estimated."""


@dataclass(frozen=True, eq=False)
class FittedCounts:
    """The noisy counts of a table, and the model and the distributions within bins that follow from them."""

    marginals: list[Marginal]
    numbers: NumberCounts
    model: GraphicalModel
    n_steps: int
    """Number of steps of the last fit of the model."""
    shapes: Mapping[int, Shape]
    """Distributions within bins, by index of the column."""
    scores: Mapping[Clique, tuple[float, float]] = field(default_factory=dict)
    """Noisy scores of pairs, with standard errors."""
    searched: Mapping[int, int] = field(default_factory=dict)
    """Number of marginals among which interactions were searched, by their number of columns."""


NO_NUMBERS = NumberCounts({}, {}, {}, is_gaussian=False)


def measure_table(
    form: PrivateTable,
    records: Records,
    plan: MarginalPlan,
    noise: NoiseSource,
) -> tuple[FittedCounts, Domain]:
    """Spend the budget on the fine cells and the marginals of a table; also return the domain with its final bins.

    `form` has the public facts of the records.
    """
    private = PrivateCounts(records, noise)
    max_bins = _limit_bins(form.domain, plan)
    domain, numbers = measure_cells(private, form.domain, form.cells, max_bins)
    return measure_and_fit(private, plan.with_domain(domain), numbers), domain


def _limit_bins(domain: Domain, plan: MarginalPlan) -> int:
    """Return the largest number of found bins for which all cliques are small enough.

    Cliques of four columns have at most `max_cells` cells, and a model with the listed marginals must be allowed.
    """
    sizes = []
    is_found = []
    for name in domain.columns:
        values = domain[name]
        is_found.append(isinstance(values, Interval) and not values.has_bins)
        if not is_found[-1]:
            sizes.append(len(values))
    n_found = max(1, min(4, sum(is_found)))
    n_cells = math.prod(sorted(sizes, reverse=True)[: 4 - n_found])
    # Quarters of the records have whole numbers of bins.
    n_bins = 4 * max(1, int((plan.max_cells / n_cells) ** (1 / n_found) / 4))
    while plan.cliques and n_bins > 4:
        refined = tuple(np.where(is_found, n_bins, plan.sizes).tolist())
        structure = replace(plan.structure, sizes=refined)
        if replace(plan, structure=structure).allows_listed():
            break
        n_bins -= 4
    return n_bins


def measure_and_fit(
    private: PrivateCounts, plan: MarginalPlan, numbers: NumberCounts = NO_NUMBERS
) -> FittedCounts:
    """Spend the budget on the marginals of a plan, and fit a model to them.

    Listed marginals are measured with equal noise. Otherwise, the marginals are selected by noisy scores.
    """
    with limit_blas_threads():
        if plan.cliques is None:
            return _measure_selected(private, plan, numbers)
        fraction = private.noise.remaining / len(plan.cliques)
        private.measure(plan.cliques, [fraction] * len(plan.cliques))
        return fit_counts(plan.structure, private.marginals, numbers)


def fit_counts(
    structure: Structure,
    marginals: list[Marginal],
    numbers: NumberCounts,
    simulated: Sequence[Marginal] = (),
) -> FittedCounts:
    """Fit a model to noisy and to simulated marginals, with tails and distributions within bins."""
    tails, shapes = numbers.estimate(marginals)
    # The numbers of events of people are given: a tail of the noisier counts of events
    # would make the largest ones impossible.
    tails = {c: tail for c, tail in tails.items() if c not in structure.given}
    with limit_blas_threads():
        model, n_steps = fit_model(structure, [*marginals, *simulated], tails)
    return FittedCounts(marginals, numbers, model, n_steps, shapes)


def _measure_selected(
    private: PrivateCounts, plan: MarginalPlan, numbers: NumberCounts
) -> FittedCounts:
    """Select marginals by noisy scores, measure them, and fit a model to all counts; spend the whole budget."""
    counts = count_columns(private, plan, PARTS.columns)
    lists = plan_scores(private, plan, counts)
    # Without lists, scores would be noise.
    if not lists:
        count_columns(private, plan, private.noise.remaining)
        return fit_counts(plan.structure, private.marginals, numbers)

    is_loaded = private.load(plan.sizes)
    search = None
    if is_loaded:
        search = plan_search(private, plan, float(counts[0].sum()))
    scores, candidates = score_pairs(private, plan, counts, lists)
    reserved: dict[Clique, ValueGroups] = {}
    seeks_table = is_loaded and plan.target is not None and not plan.workload
    if seeks_table and private.noise.is_gaussian:
        reserved = reserve_table(plan, counts, scores.excess)
    fitted = measure_in_rounds(
        private, candidates, scores, search, numbers, reserved=reserved
    )
    noisy_scores: dict[Clique, tuple[float, float]] = {}
    for clique, score in scores.noisy.items():
        if len(clique) == 2:
            noisy_scores[clique] = score, scores.std_errors[clique]
    return replace(fitted, scores=noisy_scores)


def count_searched(search: Search | None) -> dict[int, int]:
    """Count the marginals among which interactions were searched, by their number of columns."""
    n_columns = map(len, search.cliques if search else ())
    return dict.fromkeys(ORDERS, 0) | Counter(n_columns)


def _weigh(
    gains: Mapping[Clique, float], n_uses: Mapping[Clique, int]
) -> dict[Clique, float]:
    """Weigh the gain of each marginal by the number of marginals of the workload that contain it, `n_uses`."""
    largest = max(n_uses.values(), default=1)
    weighted = {}
    for clique, gain in gains.items():
        weighted[clique] = gain * n_uses[clique] / largest
    return weighted


# Step 1: columns


def count_columns(
    private: PrivateCounts, plan: MarginalPlan, fraction: Fraction
) -> list[Floats]:
    """Measure each column with the same noise; return its nonnegative counts, with the same sum for all columns."""
    private.measure(plan.columns, [fraction / len(plan.sizes)] * len(plan.sizes))
    total, _ = estimate_total(private.marginals)
    counts = []
    for clique in plan.columns:
        noisy, _ = estimate_marginal_counts(private.marginals, clique)
        counts.append(project_to_simplex(noisy, total))
    return counts


# Step 2: scores


def plan_scores(
    private: PrivateCounts, plan: MarginalPlan, counts: Sequence[Floats]
) -> list[tuple[list[Clique], Fraction]]:
    """List the marginals to score: with the target, with columns of two values, and without both.

    Returns
    -------
    list of tuple
        Lists of marginals, each with its fraction of the budget. Lists whose scores would be noise are excluded.
    """
    # A column of two values may be a label that `target` does not name, so its scores do
    # not share their noise with the scores of many other pairs.
    partition: tuple[list[Clique], ...] = [], [], []
    for clique in plan.first_candidates:
        part = 1 + plan.labels.isdisjoint(clique)
        partition[0 if plan.target in clique else part].append(clique)
    total = float(counts[0].sum())
    lists = []
    for cliques in partition:
        fraction = plan_fraction(private.noise, len(cliques), total)
        if fraction:
            lists.append((cliques, fraction))
    return lists


def plan_fraction(noise: NoiseSource, n_scores: int, total: float) -> Fraction:
    """Return the fraction of the budget for scores of a table with `total` records; 0 if they would be noise."""
    # The standard error of a score is at most a fifth of the number of records with the
    # fraction 1/14, and all of it with 1/70. The largest possible score is twice it.
    min_fraction = Fraction(1, 70)
    fraction = min(Fraction(1, 14), SCORE_FRACTION * n_scores)
    fraction = max(min_fraction, fraction)
    max_error = total * float(min_fraction / fraction)
    is_clear = n_scores and noise.score_std_error(fraction, n_scores) <= max_error
    return fraction if is_clear else Fraction(0)


def score_pairs(
    private: PrivateCounts,
    plan: MarginalPlan,
    counts: Sequence[Floats],
    lists: Sequence[tuple[list[Clique], Fraction]],
) -> tuple[Scores, Candidates]:
    """Score lists of marginals against independent columns; also return the candidates of the first round.

    `counts` has the noisy counts of each column, and `lists` lists of marginals, each with the fraction of the budget
    for its scores.
    """
    score_fractions = sum((fraction for _, fraction in lists), Fraction(0))
    fraction = private.noise.remaining - score_fractions
    groups = group_columns(private, plan, counts, fraction)
    std_error = private.marginals[0].std_error
    independent = IndependentColumns(counts, std_error, groups)
    all_scores = []
    for cliques, score_fraction in lists:
        guesses = {clique: independent.guess(clique) for clique in cliques}
        chance = {clique: independent.chance(clique) for clique in cliques}
        all_scores.append(
            score_guesses(
                private,
                guesses,
                chance,
                groups=groups,
                fraction=score_fraction,
                total=independent.total,
            )
        )
    scores = reduce(join_scores, all_scores)
    candidates = Candidates(
        plan=plan,
        noise=private.noise,
        fraction=fraction,
        groups=groups,
        gains=_weigh(scores.gains, plan.first_candidates),
        excess=_weigh(scores.excess, plan.first_candidates),
        column_costs=weigh_columns(plan, groups),
        repeated=dict.fromkeys(plan.columns, PARTS.columns / len(plan.sizes)),
    )
    return scores, candidates


def group_columns(
    private: PrivateCounts,
    plan: MarginalPlan,
    counts: Sequence[Floats],
    fraction: Fraction,
) -> ValueGroups:
    """Group the values of each column that are rare compared with the noise of pairs.

    `counts` are the estimated counts of the values of each column, and `fraction` of the budget is for all pairs. The
    result has the group of each value, of shape (n_values,), or None for a column without rare values.
    """
    # About twice as many pairs as columns are measured.
    noise = private.noise.std_error(fraction / (2 * len(plan.sizes)))
    n_records = max(1.0, float(counts[0].sum()))
    groups = []
    for column, column_counts in enumerate(counts):
        _, count_error = estimate_marginal_counts(private.marginals, (column,))
        group_of_value = group_rare_values(
            column_counts,
            plan.is_ordered[column],
            noise,
            n_records=n_records,
            count_error=count_error if math.isfinite(count_error) else 0.0,
        )
        groups.append(group_of_value)
    return tuple(groups)


# Steps 3 and 4: choice and counts


def weigh_columns(plan: MarginalPlan, groups: ValueGroups) -> list[float]:
    """Return the costs of the noise of columns, relative to the noise of one pair."""
    # There are (d - 1) / 2 pairs per column, and pairs inherit the noise of a column
    # whose values they group, which are rare values of skewed columns
    # (benchmarks/synthesis_numbers.py).
    n_pairs = min((len(plan.sizes) - 1) / 2, MAX_COLUMN_WEIGHT)
    costs = []
    for size, group_of_value in zip(plan.sizes, groups, strict=True):
        weight = 1.0 if group_of_value is None else 3.0
        costs.append(size * n_pairs * weight)
    return costs


def measure_marginals(
    private: PrivateCounts,
    candidates: Candidates,
    chosen: Sequence[Clique],
    later: Collection[Clique] = (),
) -> dict[Clique, Fraction]:
    """Measure repeated and chosen marginals such that the weighted sum of their errors is smallest.

    Marginals that are measured `later` keep their fractions of the budget. Return the fraction of each other one.
    """
    had = {**dict.fromkeys([*chosen, *later], Fraction(0)), **candidates.repeated}
    costs = list(map(candidates.cost, had))
    wanted = private.noise.allocate(costs, candidates.total)
    missing = {}
    for (clique, earlier), fraction in zip(had.items(), wanted, strict=True):
        if fraction > earlier:
            missing[clique] = fraction - earlier
    scale = candidates.fraction / sum(missing.values())
    fractions = {c: scale * part for c, part in missing.items() if c not in later}
    groups = {clique: candidates.groups_of(clique) for clique in fractions}
    private.measure(list(fractions), fractions.values(), groups)
    return {c: had[c] + fractions.get(c, 0) for c in had if c not in later}


# Steps 5 and 6: second scores and counts, relative to the first model


def measure_in_rounds(
    private: PrivateCounts,
    candidates: Candidates,
    scores: Scores,
    search: Search | None,
    numbers: NumberCounts,
    *,
    reserved: Mapping[Clique, ValueGroups],
) -> FittedCounts:
    """Measure pairs, score marginals against a model of them, and measure marginals with large errors; fit a model.

    `reserved` is a table for which the first pairs leave capacity; without it, no table with the target is chosen.
    """
    plan = candidates.plan
    rounds = TABLE_ROUNDS if reserved else ROUNDS
    first = replace(candidates, fraction=candidates.fraction * rounds.first)
    chosen = candidates.choose()
    gains = {c: candidates.gains[c] for c in scores.clear if c in chosen}
    gains |= dict.fromkeys(set(plan.related).intersection(chosen), 0.0)
    # Pairs whose columns may be independent would take the capacity of other marginals.
    unclear = set(chosen).difference(gains)
    pairs = [pair for pair in chosen if pair in gains]
    # With Gaussian noise, pairs can wait for the choice of a table without a loss.
    early = pairs
    if reserved:
        early = replace(
            candidates, gains=gains, measured=list(reserved), interactions=reserved
        ).choose()
    had = measure_marginals(private, first, early, set(chosen).difference(early))
    model = fit_counts(plan.structure, private.marginals, numbers).model
    coarse: dict[Clique, ValueGroups] = {}
    if reserved:
        coarse = choose_table(
            private, candidates, scores, search, model=model, measured=early
        )
    measured = [*early, *coarse]
    if not coarse and len(early) < len(pairs):
        measured = pairs
        fraction = first.total - sum(had.values())
        first = replace(first, fraction=fraction, repeated=had)
        had = measure_marginals(private, first, pairs, unclear)
    if len(measured) > len(early):
        model = fit_counts(plan.structure, private.marginals, numbers).model
    n_uses = list_second_candidates(plan, model, measured)
    second = score_marginals(private, model, n_uses, candidates.groups)
    # Second scores alone are too noisy for weak pairs of rare labels.
    second = average_scores(scores, second, unclear.intersection(n_uses))
    found: dict[Clique, float] = {}
    interactions: dict[Clique, ValueGroups] = {}
    if search and not coarse:
        # A pair differs from the model by at most its dependence. The smaller of two noisy
        # scores is taken, because noise in it raises the expected scores of interactions.
        excess = dict(scores.excess)
        for clique, lacking in second.excess.items():
            excess[clique] = min(lacking, excess.get(clique, lacking))
        compared = Comparison(private, plan, search, model=model, excess=excess)
        found, interactions = find_interactions(
            private, search, compared, INTERACTION_FRACTION
        )
    gains = {}
    for clique, gain in _weigh(second.gains, n_uses).items():
        if len(clique) == 2 or not is_within(clique, found):
            gains[clique] = gain
    # With Gaussian noise, two measurements with parts of a budget are as good as one.
    rest = replace(
        candidates,
        fraction=private.noise.remaining,
        gains={**gains, **found},
        excess={**_weigh(second.excess, n_uses), **found},
        measured=measured,
        repeated=had if private.noise.is_gaussian else {},
        interactions={**coarse, **interactions},
    )
    measure_marginals(private, rest, rest.choose() or list(had))
    fitted = fit_counts(plan.structure, private.marginals, numbers)
    return replace(fitted, searched=count_searched(search))


def choose_table(
    private: PrivateCounts,
    candidates: Candidates,
    scores: Scores,
    search: Search | None,
    *,
    model: GraphicalModel,
    measured: Sequence[Clique],
) -> dict[Clique, ValueGroups]:
    """Choose and measure a table with the target, of dependent columns or of an interaction; return it, or nothing."""
    plan = candidates.plan
    found: Clique = ()
    if search:
        compared = Comparison(
            private, plan, search, model=model, excess=candidates.excess
        )
        found = choose_columns(search, compared, plan.target)
    return measure_target_table(
        private,
        plan,
        model=model,
        gains=scores.excess,
        measured=measured,
        found=found,
    )


def score_marginals(
    private: PrivateCounts,
    model: GraphicalModel,
    cliques: Collection[Clique],
    groups: ValueGroups,
) -> Scores:
    """Score marginals by the distance of the records from the counts of a model, unless these scores would be noise."""
    total, _ = estimate_total(private.marginals)
    fraction = plan_fraction(private.noise, len(cliques), total)
    if not fraction:
        return Scores({}, {}, {}, total)
    guesses = {}
    chance = {}
    for clique, proportions in estimate_marginals(model, cliques).items():
        guesses[clique] = sum_value_groups(
            total * proportions, groups_of(clique, groups)
        )
        chance[clique] = MEAN_ABSOLUTE * float(np.sqrt(guesses[clique]).sum())
        if model.tree.find(clique) is None:  # the sample has an error, too
            chance[clique] *= math.sqrt(1 + total / N_SAMPLED)
    return score_guesses(
        private, guesses, chance, groups=groups, fraction=fraction, total=total
    )


def list_second_candidates(
    plan: MarginalPlan, model: GraphicalModel, measured: Collection[Clique]
) -> dict[Clique, int]:
    """List marginals of two or three columns that are not measured, with the number of their uses in the workload."""
    # Triples of columns within a clique come first, because they do not enlarge the
    # model.
    in_cliques = set[Clique]()
    for clique in model.tree.cliques:
        in_cliques.update(itertools.combinations(clique, 3))
    larger = plan.candidates(3)

    def rank(clique: Clique) -> tuple[bool, int, int]:
        return clique not in in_cliques, len(clique), plan.n_cells(clique)

    candidates = dict(plan.first_candidates)
    for clique in sorted(larger, key=rank):
        candidates.setdefault(clique, larger[clique])
    for clique in measured:
        candidates.pop(clique, None)
    return dict(itertools.islice(candidates.items(), 1000))


def estimate_marginals(
    model: GraphicalModel, cliques: Collection[Clique]
) -> dict[Clique, Floats]:
    """Compute the proportions of marginals within one clique, and estimate other marginals from sampled rows."""
    # A sample takes less time than variable elimination for each marginal. Its seed is
    # fixed, so that equal models have equal marginals.
    sampled = model.sample(N_SAMPLED, np.random.default_rng(0))
    rows = CodedRecords(list(sampled), model.tree.sizes)
    outside = [clique for clique in cliques if model.tree.find(clique) is None]
    counts = dict(zip(outside, rows.count(outside), strict=True))
    marginals = {}
    for clique in cliques:
        is_counted = clique in counts
        marginals[clique] = (
            counts[clique] / N_SAMPLED if is_counted else model.marginal(clique)
        )
    return marginals
