"""Choosing marginals by gain and noise: pairs, then what the first model misses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model import (
    Clique,
    Groups,
    count_cells,
    group,
    mean_counts,
    sample,
    shape_of,
)
from skdp.synthesis.selection._private_table import NoiseBudget, PrivateTable
from skdp.synthesis.selection._rare_values import NOISE_COST, Cells, group_column
from skdp.synthesis.selection._scores import (
    MAX_SCORES,
    MEAN_ABSOLUTE,
    MIN_SCORES,
    SCORE_SHARE,
    IndependentColumns,
    Score,
    ask,
    chance_of,
)
from skdp.synthesis.selection._strategy import (
    COLUMN_SHARE,
    FittedTable,
    Plan,
    Room,
    Strategy,
    fit_measured,
    measure_columns,
)

# Constants were chosen on Adult and on the generated tables of
# benchmarks/synthesis.py, at epsilons from .03 to 10, and are rounded. With half
# and with twice each of them, the mean total variation of all pairs of Adult changes by,
# in per cent (other seeds alone: by 0 to 13 at epsilon .3, and 5 to 6 at 3):
#                     epsilon .3    epsilon 3
#   COLUMN_SHARE       +10, +8       -3, 0
#   MIN_SCORES        +7, -2        0, 0
#   _SECOND_ROUND        0, 0        -1, +5
#   _SECOND_SCORES       0, 0        -1, +1
#   _RARE_STD_ERRORS   +11, +3       +1, -1
#   _PAIR_NOISE         +3, 0         0, 0
#   NOISE_COST          +8, +21      +1, +4
#   CAUTION             +3, +5       +2, 0
# MAX_SCORES, _PRECISE, _MAX_PAIRS and _MAX_CANDIDATES change nothing there: they are
# limits for wide tables, and _MAX_IN_FOUR for tables of few values.

_SECOND_ROUND = Fraction(1, 4)
"""The share of the rest that is kept for what the first model misses."""

_SECOND_SCORES = Fraction(1, 10)
"""The share of the second round that its scores get."""

_PRECISE = 0.003
"""The distance of columns below which there is a second round."""

_STRONG = 0.1
"""The share of misplaced records from which a pair that has no room is named."""

_RANK_POWERS = (1.0, 0.5, 0.0)
"""The powers of costs by which gains are divided to order marginals for their room.

With the first alone, "flights" at epsilon 10 misses a pair by .54, with all by .19."""

_MAX_PAIRS = 20.0
"""The most pairs that a column weighs as much as: of a wide table few are measured."""

_PREDICTIVE = 10
"""What an error of a pair with the target weighs."""

_MAY_BE_PREDICTED = 1.5
"""What an error of a pair with a likely label weighs.

With 2, errors of columns of "flights" at epsilon .1 are 5 % larger, with 1.5 2 %."""

_PAIRS_OF_A_LABEL = 2
"""The pairs of a likely label that have room before all others.

With 0, 2, 3, 4 of them, the AUC of a label of 5 % among 60 columns at epsilon 1 is .644,
.735, .747, .752 on average, with standard errors of .008 to .047 (six fits); with 4, the
worst pair of 160 columns at epsilon 10 is .084, in place of .057."""

_MAX_CANDIDATES = 1000
"""The most marginals that the second round scores: each costs a little of noise."""

_MAX_LISTED = 50_000
"""The most triples, or fours, that are listed in order to choose among them."""

_MAX_IN_FOUR = 64
"""Cells of four columns that are scored together, such as a parity of bits."""


class Auto(Strategy):
    """Measures the columns and those marginals that are worth their noise."""

    # AIM in two rounds ([1]_): each scores all candidates at once, chooses those whose
    # gain exceeds the noise that they add to all others ([2]_), and measures them.
    # The first round compares with independent columns, the second with the model.
    # .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and
    #    iterative mechanism for differentially private synthetic data. PVLDB 15(11).
    # .. [2] C. Li, M. Hay, G. Miklau, Y. Wang (2014). A data- and workload-aware
    #    algorithm for range queries under differential privacy. PVLDB 7(5).

    def candidates(self, plan: Plan) -> Collection[Clique]:
        return plan.first_candidates

    def measure(self, table: PrivateTable, plan: Plan) -> FittedTable:
        table.budget.left_for_scores = _most_for_scores(plan)
        # Measure columns: all else is compared with what they say.
        counts = measure_columns(table, plan, COLUMN_SHARE, equal=True)
        column_distance = _column_distance(table, plan, counts)
        requests = _affordable_scores(table, plan, counts)
        if not requests or column_distance > 1:
            measure_columns(table, plan, table.budget.left, equal=True)
            return fit_measured(table, plan)

        # Ask for the scores of independent columns.
        has_second_round = len(plan.sizes) > 2 and column_distance < _PRECISE
        first_part = 1 - _SECOND_ROUND if has_second_round else Fraction(1)
        first = _score_first(table, plan, counts, requests, first_part)

        # Choose what gains more than its noise costs. What may be independent comes last,
        # and leaves its share to the second round: with little noise it would be worth
        # it by chance, and leave no room for what pairs do not show, such as a parity.
        # But a model of other pairs may make independent columns dependent.
        gains = _by_workload(first.gains, plan.first_candidates)
        later = first.by_chance if has_second_round else set()
        cells = first.cells
        first_share = table.budget.left * first_part
        costs = _column_costs(plan, cells)
        excess = _by_workload(first.excess, plan.first_candidates)
        choice = _choose(
            table,
            plan,
            gains,
            excess,
            cells,
            first_share,
            costs,
            later=later,
        )

        # Spend the first round's share, and the second's on what the model misses.
        if choice.chosen:
            _spend(table, plan, choice.chosen, cells, first_share, costs, later)
        else:
            measure_columns(table, plan, first_share, equal=True)
        fitted = fit_measured(table, plan)
        if has_second_round:
            measured = set(choice.chosen) - later
            fitted = _measure_missing(table, plan, fitted, measured)
        unknown = _unknown_pairs(fitted, choice.refused, first)
        noisy = {}
        for pair, score in first.scores.items():
            noisy[pair] = (score.noisy, score.std_error)
        return replace(fitted, scores=noisy, unknown=unknown)


@dataclass(frozen=True)
class _FirstScores:
    """How far counts of pairs are from those of independent columns."""

    scores: Mapping[Clique, Score]
    independent: IndependentColumns
    cells: Cells
    """How pairs are counted: rare values together."""

    @property
    def gains(self) -> dict[Clique, float]:
        """What each marginal gains."""
        return _gains(self.scores)

    @property
    def excess(self) -> dict[Clique, float]:
        """What each marginal gains beyond what is by chance."""
        excess = {}
        gains = self.gains
        chances = self.independent.chances(list(gains))
        for clique, gain in gains.items():
            excess[clique] = max(0.0, gain - chances[clique])
        return excess

    @property
    def by_chance(self) -> set[Clique]:
        """What independent columns may well show."""
        chance = set()
        for clique in self.gains:
            if self.independent.is_chance(clique, self.scores[clique]):
                chance.add(clique)
        return chance


def _score_first(
    table: PrivateTable,
    plan: Plan,
    counts: Sequence[NDArray[np.float64]],
    requests: Iterable[tuple[list[Clique], Fraction]],
    first_part: Fraction,
) -> _FirstScores:
    """Score what may be measured first, by the counts of columns."""
    # Values that are rare against the noise to come are counted together from here on.
    planned_share = table.budget.left
    for _, list_share in requests:
        planned_share -= list_share
    planned_share *= first_part
    groups = _rare_groups(table, plan, counts, planned_share)
    independent = IndependentColumns(counts, table.column_errors(len(counts)), groups)
    scores: dict[Clique, Score] = {}
    for cliques, list_share in requests:
        scores |= ask(
            table,
            cliques,
            independent.guess,
            list_share,
            groups,
            independent.chances,
        )
    cells = Cells(plan.sizes, groups)
    return _FirstScores(scores, independent, cells)


def _gains(scores: Mapping[Clique, Score]) -> dict[Clique, float]:
    """Return what each marginal gains that may be measured."""
    gains = {}
    for clique, score in scores.items():
        if not score.is_dropped:
            gains[clique] = score.gain
    return gains


def _column_distance(
    table: PrivateTable, plan: Plan, counts: Sequence[NDArray[np.float64]]
) -> float:
    """Estimate how far columns would be from the truth with all that is left."""
    # The total-variation distance: half the sum of the mean absolute errors of all
    # values, as a share of records.
    share = table.budget.left / len(plan.sizes)
    noise = MEAN_ABSOLUTE * table.budget.std_error(share) * float(np.mean(plan.sizes))
    return noise / 2 / max(1.0, float(counts[0].sum()))


def _affordable_scores(
    table: PrivateTable, plan: Plan, counts: Sequence[NDArray[np.float64]]
) -> list[tuple[list[Clique], Fraction]]:
    """List what is scored together, and its share."""
    # A score is at most twice the number of records, which all may be misplaced. At the
    # least share it is asked for if its standard error is at most half of that, the
    # number of records; at k times that share, if it is at most a k-th of it: where
    # scores cost more, they have to say more. A list of very many is judged by
    # `MAX_SCORES`, of which it then spends half: judged by that half, pairs without
    # labels would be scored for 320 columns at epsilon 1, and for 80 at .3. This halves
    # the distance of the worst pair there, but makes that of columns larger by a tenth.
    # The scores of what models will predict are a list of their own, with less noise
    # than those of all pairs, which are many more.
    with_target = []
    with_labels = []
    others = []
    for clique in plan.first_candidates:
        if plan.target in clique:
            with_target.append(clique)
        elif not plan.likely_labels.isdisjoint(clique):
            with_labels.append(clique)
        else:
            others.append(clique)
    n_records = counts[0].sum()
    requests = []
    for cliques in (with_target, with_labels, others):
        if not cliques:
            continue
        share = _share_of_list(len(cliques))
        error = table.budget.score_error(share, len(cliques))
        if error <= n_records * float(MIN_SCORES / share):
            # Of many columns, pairs of labels and others have the largest share together,
            # half of it each. Except under a pure epsilon, rounds make up for it. Of 160 columns at epsilon 1, the
            # distance of all pairs is that of one list, .012, and AUC .86 in place of .78.
            requests.append((cliques, min(share, MAX_SCORES / 2)))
    return requests


def _share_of_list(n_scores: int) -> Fraction:
    """Return the share of the budget of a list of scores."""
    return min(MAX_SCORES, max(MIN_SCORES, SCORE_SHARE * n_scores))


def _most_for_scores(plan: Plan) -> Fraction:
    """Bound the share of the budget that scores get."""
    # There are at most as many candidates as if all fitted: bins may become fewer. Those
    # with the target are a list, and all others two, however they are divided: one may
    # have the least share, or both have one for each score. A fourth list is that
    # of the second round. `ask` spends no more than this.
    n_columns = len(plan.sizes)
    n_others = math.comb(n_columns, 2) + len(plan.workload)
    most = Fraction(0)
    if plan.target is not None:
        n_others -= n_columns - 1
        most += _share_of_list(n_columns - 1 + len(plan.workload))
    most_of_two_lists = MIN_SCORES + max(MIN_SCORES, SCORE_SHARE * n_others)
    most += min(MAX_SCORES, most_of_two_lists)
    return most + (1 - COLUMN_SHARE - most) * _SECOND_SCORES


def _by_workload(
    gains: Mapping[Clique, float], n_uses: Mapping[Clique, int]
) -> dict[Clique, float]:
    """Weigh gains by how many marginals of the workload they are for."""
    largest = max(n_uses.values(), default=1)
    return {clique: gain * n_uses[clique] / largest for clique, gain in gains.items()}


def _rare_groups(
    table: PrivateTable,
    plan: Plan,
    counts: Sequence[NDArray[np.float64]],
    share: Fraction,
) -> Groups:
    """Group values that are rare against the noise of twice as many marginals."""
    noise = table.budget.std_error(share / (2 * len(plan.sizes)))
    n_records = max(1.0, float(counts[0].sum()))
    groups = []
    for column, column_counts in enumerate(counts):
        estimate = mean_counts(table.marginals, (column,))
        members = group_column(
            column_counts,
            n_records,
            noise,
            ordered=plan.ordered[column],
            count_error=0.0 if estimate is None else estimate.std_error,
        )
        groups.append(members)
    return tuple(groups)


def _column_costs(plan: Plan, cells: Cells) -> list[float]:
    """Return what the noise of columns weighs, compared with that of one pair."""
    # For the mean error of all columns and that of all pairs: there are (d - 1) / 2
    # pairs for each of d columns. If pairs count values of a column together, only its
    # own counts tell of them, and all its d - 1 pairs inherit their noise, too.
    n_pairs = min((len(plan.sizes) - 1) / 2, _MAX_PAIRS)
    costs = []
    for column, size in enumerate(plan.sizes):
        weight = n_pairs if cells.groups[column] is None else 3 * n_pairs
        costs.append(size * weight)
    return costs


def _weight(clique: Clique, plan: Plan) -> float:
    """Return what an error weighs: more if it tells of what is or may be predicted."""
    if len(clique) == 2 and plan.target in clique:
        return _PREDICTIVE
    if len(clique) == 2 and not plan.likely_labels.isdisjoint(clique):
        return _MAY_BE_PREDICTED
    return 1


class Choice(NamedTuple):
    """Marginals that were chosen, and those for which the model has no room."""

    chosen: list[Clique]
    refused: list[Clique]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Marginals to choose among, and what they share the budget with."""

    # Gains are in records. The noise of a marginal is what it costs, in standard
    # deviations of a count that gets the whole share. With the share split for the least
    # sum of noise, this sum is ``sum(noise ** power) ** (1 / power)``.

    budget: NoiseBudget
    share: Fraction
    """Of the budget, for all that is chosen, and columns."""
    plan: Plan
    gains: Mapping[Clique, float]
    noise: Mapping[Clique, float]
    """Of each candidate."""
    column_noise: Sequence[float] = ()
    """Of what has a part of the share in any case."""
    measured: Collection[Clique] = ()
    """The marginals that the model has already."""
    later: Collection[Clique] = ()
    """Candidates that leave their room to others."""

    def choose(self, rank_power: float = 1.0, first: Collection[Clique] = ()) -> Choice:
        """Choose what gains more than its noise costs all that share the budget."""
        power = 1 / (1 + float(self.budget.power))
        count_error = self.budget.std_error(self.share)
        costs = {}
        for clique, noise in self.noise.items():
            costs[clique] = noise**power
        spent = math.fsum(noise**power for noise in self.column_noise)
        room = Room(self.plan, self.measured)
        chosen = []
        refused = []
        for clique in self._by_rank(costs, rank_power, first):
            spent_with = spent + costs[clique]
            error_with = count_error * spent_with ** (1 / power)
            error_without = count_error * spent ** (1 / power)
            if self.gains[clique] <= error_with - error_without:
                continue
            if room.take(clique):
                chosen.append(clique)
                spent = spent_with
            else:
                refused.append(clique)
        return Choice(chosen, refused)

    def _by_rank(
        self,
        costs: Mapping[Clique, float],
        rank_power: float,
        first: Collection[Clique],
    ) -> list[Clique]:
        """Sort candidates by their gains over a power of their costs."""

        def rank(clique: Clique) -> tuple[bool, bool, float]:
            """Larger comes first."""
            # What is named first comes first, and what is for later last.
            ratio = self.gains[clique] / costs[clique] ** rank_power
            return clique in first, clique not in self.later, ratio

        return sorted(self.gains, key=rank, reverse=True)


def _choose(
    table: PrivateTable,
    plan: Plan,
    gains: Mapping[Clique, float],
    excess: Mapping[Clique, float],
    cells: Cells,
    share: Fraction,
    column_costs: Sequence[float] = (),
    measured: Sequence[Clique] = (),
    later: Collection[Clique] = (),
) -> Choice:
    """Choose marginals beside those measured in any case."""
    candidates = _candidates(
        table, plan, gains, cells, share, column_costs, measured, later
    )
    return _best_choice(candidates, excess)


def _costs(
    plan: Plan, cliques: Iterable[Clique], cells: Cells, column_costs: Sequence[float]
) -> list[float]:
    """Return what the noise of columns, and of marginals, weighs."""
    # The error of a marginal is in proportion to its cells, and to the standard
    # deviation that its share buys.
    costs = list(column_costs)
    for clique in cliques:
        costs.append(_weight(clique, plan) * cells.cost(clique))
    return costs


def _candidates(
    table: PrivateTable,
    plan: Plan,
    gains: Mapping[Clique, float],
    cells: Cells,
    share: Fraction,
    column_costs: Sequence[float],
    measured: Collection[Clique],
    later: Collection[Clique],
) -> Candidates:
    """Weigh what marginals gain, and what their noise costs."""
    weighted_gains = {}
    for clique, gain in gains.items():
        weighted_gains[clique] = gain * _weight(clique, plan)
    noise = {}
    for clique in gains:
        noise[clique] = NOISE_COST * _weight(clique, plan) * cells.cost(clique)
    return Candidates(
        budget=table.budget,
        share=share,
        plan=plan,
        gains=weighted_gains,
        noise=noise,
        column_noise=[NOISE_COST * cost for cost in column_costs],
        measured=measured,
        later=later,
    )


def _best_choice(candidates: Candidates, excess: Mapping[Clique, float]) -> Choice:
    """Choose such that the least is missed that the model has no room for."""
    # By their ratio of gain to noise, many small marginals come before a strong pair of
    # many values, and may leave no room for it; by their gain, the other way round.
    choices = {}
    for power in _RANK_POWERS:
        choices[power] = candidates.choose(power)
        if not choices[power].refused:
            break
    best_power = min(choices, key=lambda power: _missed(choices[power], excess, 1))
    best = choices[best_power]

    # One strong pair may take the room of many that are weak: the strongest that is left
    # comes first, as long as the squares of what is missed become less. Without that,
    # "ACS Public Coverage" at epsilon 10 misses a pair by .13, in place of .04.
    first: list[Clique] = []
    while best.refused:
        strongest = max(best.refused, key=lambda clique: excess.get(clique, 0.0))
        choice = candidates.choose(best_power, [*first, strongest])
        if _missed(choice, excess, 2) >= _missed(best, excess, 2):
            break
        first.append(strongest)
        best = choice

    # What a rare label gains in records is little, and may come when no room is left.
    # What may be independent needs no room.
    dependent = {}
    for clique, gain in excess.items():
        if gain > 0 and clique not in candidates.later:
            dependent[clique] = gain
    of_labels = _refused_of_labels(candidates, best, dependent)
    if of_labels:
        best = candidates.choose(best_power, [*of_labels, *first])
    return best


def _missed(choice: Choice, excess: Mapping[Clique, float], power: int) -> float:
    """Sum powers of what marginals without room gain beyond what is by chance."""
    return math.fsum(excess.get(clique, 0.0) ** power for clique in choice.refused)


def _refused_of_labels(
    candidates: Candidates, choice: Choice, excess: Mapping[Clique, float]
) -> list[Clique]:
    """List the strongest pairs of likely labels that have few others, of those with an excess."""
    pairs = []
    for label in sorted(candidates.plan.likely_labels):
        held = []
        for clique in (*candidates.measured, *choice.chosen):
            if label in clique:
                held.append(clique)
        if len(held) >= _PAIRS_OF_A_LABEL:
            continue
        refused = []
        for clique in choice.refused:
            if label in clique and clique in excess:
                refused.append(clique)
        refused.sort(key=excess.__getitem__, reverse=True)
        pairs += refused[:_PAIRS_OF_A_LABEL]
    return pairs


def _spend(
    table: PrivateTable,
    plan: Plan,
    cliques: Iterable[Clique],
    cells: Cells,
    share: Fraction,
    column_costs: Sequence[float] = (),
    later: Collection[Clique] = (),
) -> None:
    """Measure marginals, and columns if they have costs, for the least error."""
    chosen = list(cliques)
    marginals = [*plan.columns[: len(column_costs)], *chosen]
    costs = _costs(plan, chosen, cells, column_costs)
    table.prepare(marginals)
    shares = table.budget.best_shares(costs, share)
    # Marginals for later have a share like all others, which is not spent: it is left
    # for the second round.
    for clique, part in zip(marginals, shares, strict=True):
        if clique not in later:
            table.measure(clique, part, cells.of(clique))


def _measure_missing(
    table: PrivateTable,
    plan: Plan,
    fitted: FittedTable,
    measured: Collection[Clique],
) -> FittedTable:
    """Measure what a model misses most: pairs, triples, four columns of few values."""
    # The same steps as in the first round: ask, choose, spend. Columns are not measured
    # again, as each marginal tells of its columns, too.
    n_uses = _second_candidates(plan, fitted, measured)
    share = table.budget.left
    if not n_uses:  # all that matters is measured: once more
        alone = Cells(plan.sizes, (None,) * len(plan.sizes))
        _spend(table, plan, measured, alone, share)
        return fit_measured(table, plan)
    counts = []
    for column in plan.columns:
        counts.append(fitted.total * fitted.model.marginal(column))
    cells = Cells(plan.sizes, _rare_groups(table, plan, counts, share))
    cliques = list(n_uses)
    guesses = dict(zip(cliques, guess_counts(fitted, cliques), strict=True))

    def guess(clique: Clique) -> NDArray[np.float64]:
        return group(guesses[clique], cells.of(clique))

    scores = ask(table, cliques, guess, share * _SECOND_SCORES, cells.groups)
    share_of_counts = table.budget.left
    gains = _gains(scores)
    excess = {}
    for clique, gain in gains.items():
        excess[clique] = max(0.0, gain - chance_of(guess(clique)))
    held = []
    for clique in measured:
        if fitted.model.tree.holder(clique) is not None:
            held.append(clique)
    choice = _choose(
        table,
        plan,
        _by_workload(gains, n_uses),
        _by_workload(excess, n_uses),
        cells,
        share_of_counts,
        measured=held,
    )
    if choice.chosen:
        _spend(table, plan, choice.chosen, cells, share_of_counts)
    else:
        measure_columns(table, plan, share_of_counts)
    return fit_measured(table, plan)


def _second_candidates(
    plan: Plan, fitted: FittedTable, measured: Collection[Clique]
) -> dict[Clique, int]:
    """List first candidates that were not measured, triples, and small fours."""
    candidates = dict(plan.first_candidates)
    for clique in measured:
        candidates.pop(clique, None)
    n_columns = len(plan.sizes)
    are_listed = bool(plan.workload) or math.comb(n_columns, 3) <= _MAX_LISTED
    triples = plan.candidates(3) if are_listed else {}
    # First the triples that cost no further cells; of very many, they are enough.
    held_triples = set[Clique]()
    for clique in fitted.model.tree.cliques:
        held_triples.update(itertools.combinations(clique, 3))
    for triple in sorted(held_triples):
        if triple in triples or not are_listed:
            candidates.setdefault(triple, triples.get(triple, 1))
    for triple in sorted(triples, key=plan.n_cells):
        candidates.setdefault(triple, triples[triple])
    if plan.workload or math.comb(n_columns, 4) <= _MAX_LISTED:
        for four, n_uses in plan.candidates(4).items():
            if plan.n_cells(four) <= _MAX_IN_FOUR:
                candidates.setdefault(four, n_uses)
    return dict(itertools.islice(candidates.items(), _MAX_CANDIDATES))


_N_GUESS_ROWS = 1 << 16
"""Rows that stand for a model: a share of a half is off by .002 at most, mostly."""


def guess_counts(
    fitted: FittedTable, cliques: Sequence[Clique]
) -> list[NDArray[np.float64]]:
    """Return the counts that a model expects."""
    # What no clique of the model holds is counted in sampled rows, which mostly costs
    # less than computing it.
    tree = fitted.model.tree
    spanning = set[int]()
    for clique in cliques:
        if tree.holder(clique) is None:
            spanning.update(clique)
    if spanning:
        rows = sample(fitted.model, _N_GUESS_ROWS, np.random.default_rng(0), spanning)
    counts = []
    for clique in cliques:
        if tree.holder(clique) is not None:
            shares = fitted.model.marginal(clique)
        else:
            codes = list(rows[list(clique)])
            sizes = shape_of(clique, tree.sizes)
            shares = count_cells(codes, sizes) / _N_GUESS_ROWS
        counts.append(shares * fitted.total)
    return counts


def _unknown_pairs(
    fitted: FittedTable,
    refused: Iterable[Clique],
    first: _FirstScores,
) -> tuple[Clique, ...]:
    """List strong pairs without room, whose dependence the model does not know."""

    def is_strong(pair: Clique, modelled: float) -> bool:
        # Chance adds to a score as an independent error does: in squares.
        score = first.scores[pair]
        known = modelled + 2 * _STRONG * fitted.total
        limit = math.hypot(known, first.independent.chance(pair))
        return score.noisy - 2 * score.std_error > limit

    strong = []
    for clique in refused:
        if len(clique) == 2 and is_strong(clique, 0.0):
            strong.append(clique)
    # Of these, what the model knows by other pairs does not count.
    unknown = []
    for pair, counts in zip(strong, guess_counts(fitted, strong), strict=True):
        product = np.multiply.outer(counts.sum(axis=1), counts.sum(axis=0))
        modelled = float(np.abs(counts - product / fitted.total).sum())
        if is_strong(pair, modelled):
            unknown.append(pair)
    return tuple(unknown)
