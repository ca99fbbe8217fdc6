"""Select and measure marginals in six steps: AIM in two rounds ([1]_)."""

# 1. columns: measure each column.
# 2. scores: compare all pairs with independent columns.
# 3. choice: take pairs whose gain exceeds the noise that they add to all marginals ([2]_).
# 4. counts: measure these pairs and, again, the columns; fit a model.
# 5. second scores: compare pairs, triples and small fours with the model.
# 6. second counts: choose and measure as before; fit the model again.
# .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and
#    iterative mechanism for differentially private synthetic data. PVLDB 15(11).
# .. [2] C. Li, M. Hay, G. Miklau, Y. Wang (2014). A data- and workload-aware algorithm
#    for range queries under differential privacy. PVLDB 7(5).

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis.model import (
    Clique,
    GraphicalModel,
    Groups,
    estimate_counts,
    estimate_total,
    fit_model,
    group,
    shape_of,
)
from skdp.synthesis.selection._budget import PrivateCounts, groups_of
from skdp.synthesis.selection._choice import Candidates
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._scores import (
    MEAN_ABSOLUTE,
    SCORE_FRACTION,
    IndependentColumns,
    Scores,
    group_rare_values,
    join_scores,
    score_guesses,
)

# Tuned by benchmarks/synthesis.py.
COLUMNS_FRACTION = Fraction(1, 20)
SECOND_ROUND_FRACTION = Fraction(1, 4)
SECOND_SCORES_FRACTION = Fraction(1, 10)
MAX_ERROR_OF_SECOND_ROUND = 0.003
"""Error of columns (total variation) above which there is no second round."""

MAX_COLUMN_WEIGHT = 20.0
MAX_LISTED = 50_000

# A target can depend on three columns together, as in the table "parity"
# (benchmarks/synthesis.py).
MAX_CELLS_OF_FOUR = 64


@dataclass(frozen=True)
class Fitted:
    """A model, its number of steps, and the noisy scores of pairs with standard errors."""

    model: GraphicalModel
    n_steps: int
    scores: Mapping[Clique, tuple[float, float]] = field(default_factory=dict)


def measure_and_fit(private: PrivateCounts, plan: Plan) -> Fitted:
    """Spend the budget on the marginals of a plan, and fit a model to them."""
    if plan.cliques is None:
        return _measure_selected(private, plan)
    fraction = private.budget.left / len(plan.cliques)
    private.measure(plan.cliques, [fraction] * len(plan.cliques))
    return _fit(private, plan)


def _measure_selected(private: PrivateCounts, plan: Plan) -> Fitted:
    counts = measure_columns(private, plan, COLUMNS_FRACTION)
    column_error = estimate_column_error(private, plan, counts)
    lists = plan_scores(private, plan, counts)
    if not lists or column_error > 1:
        measure_columns(private, plan, private.budget.left)
        return _fit(private, plan)

    has_second_round = len(plan.sizes) > 2 and column_error < MAX_ERROR_OF_SECOND_ROUND
    first_part = 1 - SECOND_ROUND_FRACTION if has_second_round else Fraction(1)
    scores, groups = score_pairs(private, plan, counts, lists, first_part)
    # Pairs that may be independent come last, after all dependent pairs. With a second
    # round, they leave their part of the budget to it.
    last = scores.insignificant if has_second_round else set()
    candidates = Candidates(
        plan=plan,
        budget=private.budget,
        fraction=private.budget.left * first_part,
        groups=groups,
        gains=_weigh(scores.gains, plan.first_candidates),
        excess=_weigh(scores.excess, plan.first_candidates),
        shared_costs=weigh_columns(plan, groups),
        last=last,
    )
    choice = candidates.choose()
    measure_marginals(private, candidates, choice.chosen)
    if has_second_round:
        measured = [clique for clique in choice.chosen if clique not in last]
        measure_missing(private, plan, _fit(private, plan).model, measured)
    fitted = _fit(private, plan)
    noisy = {c: (score, scores.std_errors[c]) for c, score in scores.noisy.items()}
    return Fitted(fitted.model, fitted.n_steps, noisy)


def _fit(private: PrivateCounts, plan: Plan) -> Fitted:
    return Fitted(*fit_model(plan.structure, private.marginals))


def _weigh(
    gains: Mapping[Clique, float], n_uses: Mapping[Clique, int]
) -> dict[Clique, float]:
    """Weigh gains by the number of marginals of the workload that they serve."""
    largest = max(n_uses.values(), default=1)
    return {clique: gain * n_uses[clique] / largest for clique, gain in gains.items()}


# Step 1: columns


def measure_columns(
    private: PrivateCounts, plan: Plan, fraction: Fraction
) -> list[NDArray[np.float64]]:
    """Measure each column with the same noise; return consistent counts."""
    private.measure(plan.columns, [fraction / len(plan.sizes)] * len(plan.sizes))
    total, _ = estimate_total(private.marginals)
    counts = []
    for clique in plan.columns:
        noisy, _ = estimate_counts(private.marginals, clique)
        counts.append(project_to_simplex(noisy, total))
    return counts


def estimate_column_error(
    private: PrivateCounts, plan: Plan, counts: Sequence[NDArray[np.float64]]
) -> float:
    """Estimate the total variation error of columns measured with the rest of the budget."""
    noise = private.budget.std_error(private.budget.left / len(plan.sizes))
    error = MEAN_ABSOLUTE * noise * float(np.mean(plan.sizes)) / 2
    return error / max(1.0, float(counts[0].sum()))


# Step 2: scores


def plan_scores(
    private: PrivateCounts, plan: Plan, counts: Sequence[NDArray[np.float64]]
) -> list[tuple[list[Clique], Fraction]]:
    """List the marginals to score, with the target, with labels, and without either, and the budget of each list."""
    with_target = []
    with_label = []
    others = []
    for clique in plan.first_candidates:
        if plan.target in clique:
            with_target.append(clique)
        elif plan.labels.isdisjoint(clique):
            others.append(clique)
        else:
            with_label.append(clique)
    # Scores are only worth their budget if the noise is far below the largest possible
    # score, twice the number of records.
    lists = []
    for cliques in (with_target, with_label, others):
        min_fraction = Fraction(1, 70)
        fraction = min(Fraction(1, 14), SCORE_FRACTION * len(cliques))
        fraction = max(min_fraction, fraction)
        max_error = counts[0].sum() * float(min_fraction / fraction)
        if cliques and private.budget.score_error(fraction, len(cliques)) <= max_error:
            lists.append((cliques, fraction))
    return lists


def score_pairs(
    private: PrivateCounts,
    plan: Plan,
    counts: Sequence[NDArray[np.float64]],
    lists: Sequence[tuple[list[Clique], Fraction]],
    first_part: Fraction,
) -> tuple[Scores, Groups]:
    """Score marginals against independent columns; group values that are rare."""
    fractions = sum((fraction for _, fraction in lists), Fraction(0))
    planned = (private.budget.left - fractions) * first_part
    groups = group_columns(private, plan, counts, planned)
    std_error = private.marginals[0].std_error
    independent = IndependentColumns(counts, std_error, groups)
    parts = []
    for cliques, fraction in lists:
        guesses = {clique: independent.guess(clique) for clique in cliques}
        chance = {clique: independent.chance(clique) for clique in cliques}
        total = independent.total
        parts.append(score_guesses(private, guesses, chance, groups, fraction, total))
    return reduce(join_scores, parts), groups


def group_columns(
    private: PrivateCounts,
    plan: Plan,
    counts: Sequence[NDArray[np.float64]],
    fraction: Fraction,
) -> Groups:
    """Group values that are rare against the noise of twice as many marginals as columns."""
    noise = private.budget.std_error(fraction / (2 * len(plan.sizes)))
    n_records = max(1.0, float(counts[0].sum()))
    groups = []
    for column, column_counts in enumerate(counts):
        _, count_error = estimate_counts(private.marginals, (column,))
        groups.append(
            group_rare_values(
                column_counts,
                plan.is_ordered[column],
                noise,
                n_records=n_records,
                count_error=count_error if math.isfinite(count_error) else 0.0,
            )
        )
    return tuple(groups)


# Steps 3 and 4: choice and counts


def weigh_columns(plan: Plan, groups: Groups) -> list[float]:
    """Return the costs of the noise of columns, relative to the noise of one pair."""
    # There are (d - 1) / 2 pairs per column, and pairs inherit the noise of a column
    # whose values they group, which are rare values of skewed columns
    # (benchmarks/synthesis_numbers.py).
    n_pairs = min((len(plan.sizes) - 1) / 2, MAX_COLUMN_WEIGHT)
    costs = []
    for size, members in zip(plan.sizes, groups, strict=True):
        weight = 1.0 if members is None else 3.0
        costs.append(size * n_pairs * weight)
    return costs


def measure_marginals(
    private: PrivateCounts, candidates: Candidates, chosen: Sequence[Clique]
) -> None:
    """Measure marginals, and all columns if they have costs, for the smallest error."""
    n_columns = len(candidates.shared_costs)
    marginals = [*candidates.plan.columns[:n_columns], *chosen]
    costs = [*candidates.shared_costs, *map(candidates.cost, chosen)]
    fractions = private.budget.allocate(costs, candidates.fraction)
    # Candidates that come last leave their part of the budget to the second round.
    parts = dict(zip(marginals, fractions, strict=True))
    measured = [clique for clique in parts if clique not in candidates.last]
    private.measure(measured, map(parts.__getitem__, measured), candidates.groups)


# Steps 5 and 6: the same relative to the first model


def measure_missing(
    private: PrivateCounts, plan: Plan, model: GraphicalModel, measured: list[Clique]
) -> None:
    """Score marginals that the first model may miss, choose, and measure."""
    total, _ = estimate_total(private.marginals)
    counts = [total * model.marginal(clique) for clique in plan.columns]
    groups = group_columns(private, plan, counts, private.budget.left)
    n_uses = list_second_candidates(plan, model, measured)
    gains: dict[Clique, float] = {}
    excess: dict[Clique, float] = {}
    if n_uses:
        guesses = {}
        chance = {}
        for clique, proportions in estimate_marginals(model, n_uses).items():
            guesses[clique] = group(total * proportions, groups_of(clique, groups))
            chance[clique] = MEAN_ABSOLUTE * float(np.sqrt(guesses[clique]).sum())
        fraction = private.budget.left * SECOND_SCORES_FRACTION
        scores = score_guesses(private, guesses, chance, groups, fraction, total)
        gains = _weigh(scores.gains, n_uses)
        excess = _weigh(scores.excess, n_uses)
    candidates = Candidates(
        plan=plan,
        budget=private.budget,
        fraction=private.budget.left,
        groups=groups,
        gains=gains,
        excess=excess,
        measured=measured,
    )
    chosen = candidates.choose().chosen or measured or plan.columns
    measure_marginals(private, candidates, chosen)


def list_second_candidates(
    plan: Plan, model: GraphicalModel, measured: Collection[Clique]
) -> dict[Clique, int]:
    """List unmeasured first candidates, triples (those within cliques first), and small fours."""
    within = set[Clique]()
    for clique in model.tree.cliques:
        within.update(itertools.combinations(clique, 3))
    larger = dict.fromkeys(sorted(within), 1)
    if plan.workload or math.comb(len(plan.sizes), 3) <= MAX_LISTED:
        larger = plan.candidates(3)
    if plan.workload or math.comb(len(plan.sizes), 4) <= MAX_LISTED:
        for four, n_uses in plan.candidates(4).items():
            if plan.n_cells(four) <= MAX_CELLS_OF_FOUR:
                larger[four] = n_uses
    candidates = dict(plan.first_candidates)
    for clique in sorted(
        larger, key=lambda c: (c not in within, len(c), plan.n_cells(c))
    ):
        candidates.setdefault(clique, larger[clique])
    unmeasured = (item for item in candidates.items() if item[0] not in measured)
    return dict(itertools.islice(unmeasured, 1000))


def estimate_marginals(
    model: GraphicalModel, cliques: Iterable[Clique]
) -> dict[Clique, NDArray[np.float64]]:
    """Compute marginals within cliques, and estimate spanning ones from sampled rows."""
    n_rows = 1 << 15
    rows = model.sample(n_rows, np.random.default_rng(0))
    marginals = {}
    for clique in cliques:
        if model.tree.find(clique) is None:
            shape = shape_of(clique, model.tree.sizes)
            cells = np.ravel_multi_index(tuple(rows[list(clique)]), shape)
            counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
            marginals[clique] = counts / n_rows
        else:
            marginals[clique] = model.marginal(clique)
    return marginals
