"""Choosing marginals by their gain and their noise: all pairs at once, then what the first model misses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from skdp.synthesis.model import (
    Clique,
    Groups,
    count_cells,
    estimate_total,
    group,
    sample,
)
from skdp.synthesis.selection._following import (
    CAUTION,
    MEAN_ABSOLUTE,
    NOISE,
    Cells,
    deviations,
    find_explained,
    find_following,
)
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import (
    FittedTable,
    Plan,
    Room,
    Strategy,
    fit_measured,
    measure_columns,
    score_marginals,
)

# These numbers were chosen on Adult, at epsilons from .03 to 10, for the least error of pairs at which columns are not
# worse than "independent" leaves them. They are flat: twice or half of one changes the errors by a few per cent. Those
# of wide tables, of strong pairs and of fine columns were chosen on the tables of benchmarks/synthesis_tables.py.
_ONE_WAY = Fraction(1, 20)
_SCORES = Fraction(1, 70), Fraction(1, 7)
"""Of up to 91 candidates, and of very many; in between in proportion to their number: each has the same noise."""
_REFINEMENT = Fraction(1, 4)

_COLUMN_WEIGHTS = 0.2, 27.0
"""What an error of a column's own counts weighs, compared with one of a pair's: every pair of it inherits the error.

Less than 1 where noise is small: there each pair tells of its columns anyway."""

_NARROW, _FURTHER = 14, 0.15
"""The number of columns for which these weights were chosen, and what each further column adds to them."""

_STRONG, _DOMINANT = 0.1, 0.4
"""The share of misplaced records from which a pair comes before cheaper ones: if it links columns, and in any case."""

_LARGE_ERROR, _SMALL_ERROR = 0.013, 0.003
_RARE = 4.0
_COARSE, _MUCH_FINER = 0.3, 2.0
"""The noise that a pair can afford, as a share of all records, and how much finer a column is that is cut for it."""

_PREDICTIVE = 10
"""What an error of a pair with the target of a prediction weighs."""

_CHANCE, _SAMPLING = 3.0, math.sqrt(1 - 2 / math.pi)
"""How many standard deviations above those of independent columns scores are more than chance; these by sampling."""

_MOST_CANDIDATES = 1000
_MOST_TRIPLES = 50_000
_MOST_IN_FOUR = 64
"""Cells of four columns that are looked for together, such as a parity of bits."""


def measure_auto(table: PrivateTable, plan: Plan) -> FittedTable:
    """Measure the columns and those marginals that are worth their noise."""
    # Each column is measured with a twentieth of the budget, and with a seventieth (of wide tables up to a seventh) the
    # distance of each pair, and of each larger marginal of the workload, from the independence of its columns: what a
    # model gains by knowing it. Scores are shrunk towards their mean as far as noise explains their differences; in
    # wide tables, as much of what independent columns would show is taken off; and they are lowered by half a standard
    # deviation of the rest. Marginals are taken while the gain exceeds the noise added to all that are measured, and
    # the junction tree stays small enough: first, by their gains and if noise is small, strong pairs that make no
    # circle, then the strongest of all, then the others in the order of gain to noise. The rest of the budget is split
    # for the least expected sum of errors ([1]_, [2]_); values too rare, or too fine, for the noise are counted
    # together. If noise is small compared with the table, a quarter of the rest is kept for a second round, with scores
    # against the first model; so are the shares of pairs that chance explains, which else leave no room for a parity.
    # Pairs of which one column follows from the other come first, at the cost of what their noise does to them; the
    # second round may count their values together again. Pairs with the target of a prediction are scored by
    # themselves, as there are few of them, and errors of them weigh more.
    # .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and iterative mechanism for
    #    differentially private synthetic data. PVLDB 15(11).
    # .. [2] C. Li, M. Hay, G. Miklau, Y. Wang (2014). A data- and workload-aware algorithm for range queries under
    #    differential privacy. PVLDB 7(5): noise against approximation error.
    counts = measure_columns(table, plan, _ONE_WAY, equal=True)
    error = _relative_error(table, plan, counts)
    weights = plan.first_candidates()
    width = _width(_share_of_scores(len(weights)))
    # No pair is worth its noise where a column alone is more noise than counts, or a pair's score is, which is at most
    # twice the number of records; the larger the share of scores, the less noise they may have.
    scored: list[tuple[list[Clique], Fraction]] = []
    for part in _scored_together(plan, weights):
        share = _share_of_scores(len(part))
        if table.budget.score_error(share, len(part)) <= counts[0].sum() * float(
            _SCORES[0] / share
        ):
            scored.append((part, share))
    if not scored or error > 1:
        measure_columns(table, plan, table.budget.left, equal=True)
        return fit_measured(table, plan)
    refine = len(plan.sizes) > 2 and error < _SMALL_ERROR
    rest = (table.budget.left - sum((share for _, share in scored), Fraction(0))) * (
        1 - _REFINEMENT if refine else 1
    )
    groups = _rare_groups(table, plan, counts, rest)
    gains: dict[Clique, float] = {}
    chances: dict[Clique, float] = {}
    later: set[Clique] = set()
    for part, share in scored:
        scores = score_marginals(table, part, counts, share, groups)
        expected = deviations(part, counts, table.marginals[0].std_error, groups)
        noise = table.budget.score_error(share, len(part))
        gains |= dict(
            zip(
                part,
                _trusted_by_order(scores, expected * width, part, noise).tolist(),
                strict=True,
            )
        )
        chances |= dict(zip(part, expected.tolist(), strict=True))
        reach = _CHANCE * math.hypot(noise, _SAMPLING * math.sqrt(counts[0].sum()))
        later |= {
            clique
            for clique, chance in zip(part, scores < expected + reach, strict=True)
            if chance
        }
    cells = Cells(
        plan.sizes, groups, find_following(table, counts, gains, groups, rest)
    )
    explained = find_explained(cells.following, plan, gains, chances)
    gains |= {
        pair: math.sqrt(max(0.0, gains[pair] ** 2 - chances[pair] ** 2))
        for pair in explained
    }
    later = (later | explained) - cells.following.keys() if refine else set()
    gains = _by_workload(gains, weights)
    rest = table.budget.left * (1 - _REFINEMENT if refine else 1)
    weight = _column_weight(error, len(plan.sizes))
    costs = [
        size * (min(1.0, weight) if column in cells.told else weight)
        for column, size in enumerate(plan.sizes)
    ]
    chosen, refused = _choose(
        table,
        plan,
        gains,
        cells,
        rest,
        costs,
        [],
        strong=refine,
        last=later | explained,
    )
    if chosen:
        _measure(table, plan, chosen, cells, rest, costs, later)
    else:
        measure_columns(table, plan, rest, equal=True)
    fitted = fit_measured(table, plan)
    if refine:
        fitted = _refine(
            table, plan, fitted, [clique for clique in chosen if clique not in later]
        )
    return replace(fitted, unknown=_unknown(table, fitted, refused, chances))


def _refine(
    table: PrivateTable, plan: Plan, fitted: FittedTable, measured: Sequence[Clique]
) -> FittedTable:
    """Measure what a model misses most: pairs, triples, and four columns of few values."""
    weights = _second_candidates(plan, fitted, measured)
    if not weights:  # all that matters is measured: once more
        _measure(
            table,
            plan,
            measured,
            Cells(plan.sizes, (None,) * len(plan.sizes)),
            table.budget.left,
            [],
        )
        return fit_measured(table, plan)
    share = table.budget.left
    counts = [
        fitted.total * fitted.model.marginal((column,))
        for column in range(len(plan.sizes))
    ]
    cells = Cells(plan.sizes, _rare_groups(table, plan, counts, share))
    guessed = zip(weights, guess_counts(fitted, weights), strict=True)
    guesses = [group(guess, cells.of(clique)) for clique, guess in guessed]
    scores = table.score(list(weights), guesses, share / 10, cells.groups)
    error = table.budget.score_error(share / 10, scores.size)
    trusted = _trusted(scores, error, np.zeros(scores.size))
    gains = _by_workload(dict(zip(weights, trusted.tolist(), strict=True)), weights)
    chosen, _ = _choose(
        table, plan, gains, cells, table.budget.left, [], measured, strong=True
    )
    if not chosen:  # fall back to one-way marginals
        measure_columns(table, plan, table.budget.left)
    else:
        _measure(table, plan, chosen, cells, table.budget.left, [])
    return fit_measured(
        table, plan, factors=fitted.factors if len(plan.sizes) > _NARROW else None
    )


def _second_candidates(
    plan: Plan, fitted: FittedTable, measured: Sequence[Clique]
) -> dict[Clique, int]:
    """List what of the first candidates was not measured, and triples, those first that cost no further cells."""
    known = set(measured)
    pairs = {
        clique: weight
        for clique, weight in plan.first_candidates().items()
        if clique not in known
    }
    # Of very many triples, those that cost no cells are enough.
    listable = bool(plan.workload) or math.comb(len(plan.sizes), 3) <= _MOST_TRIPLES
    triples = plan.candidates(3) if listable else {}
    fours = (
        plan.candidates(4)
        if listable and math.comb(len(plan.sizes), 4) <= _MOST_TRIPLES
        else {}
    )
    small = [clique for clique in fours if plan.n_cells(clique) <= _MOST_IN_FOUR]
    inside = {
        triple
        for clique in fitted.model.tree.cliques
        for triple in itertools.combinations(clique, 3)
        if triple in triples or not listable
    }
    others = sorted(set(triples) - inside, key=plan.n_cells)
    listed = list(dict.fromkeys([*pairs, *sorted(inside), *others, *small]))[
        :_MOST_CANDIDATES
    ]
    return {
        clique: pairs.get(clique) or (triples | fours).get(clique, 1)
        for clique in listed
    }


def _by_workload(
    gains: Mapping[Clique, float], weights: Mapping[Clique, int]
) -> dict[Clique, float]:
    """Weigh gains by how many marginals of the workload they are for."""
    largest = max(weights.values(), default=1)
    return {clique: gain * weights[clique] / largest for clique, gain in gains.items()}


def _relative_error(
    table: PrivateTable, plan: Plan, counts: Sequence[NDArray[np.float64]]
) -> float:
    """Estimate the total-variation distance of each column, if all that is left were spent on columns."""
    noise = (
        MEAN_ABSOLUTE
        * table.budget.std_error(table.budget.left / len(plan.sizes))
        * float(np.mean(plan.sizes))
    )
    return noise / 2 / max(1.0, float(counts[0].sum()))


def _column_weight(error: float, n_columns: int) -> float:
    """Weigh columns the more, the more noise there would be in them alone; less again where few pairs are measured."""
    least, most = _COLUMN_WEIGHTS
    ratio = error / _LARGE_ERROR
    return max(least, most * min(ratio**4, ratio ** (-1 / 3))) + _FURTHER * max(
        0, n_columns - _NARROW
    )


def _scored_together(plan: Plan, weights: Iterable[Clique]) -> list[list[Clique]]:
    """Split candidates into those that hold the target, if there is one, and the others."""
    listed = list(weights)
    parts = (
        [clique for clique in listed if (plan.target in clique) is held]
        for held in (True, False)
    )
    return [part for part in parts if part]


def _weight(clique: Clique, plan: Plan) -> int:
    """Return what an error of a marginal weighs: more if it tells what a column says of the target."""
    return _PREDICTIVE if len(clique) == 2 and plan.target in clique else 1


def _share_of_scores(n_scores: int) -> Fraction:
    least, most = _SCORES
    return min(most, max(least, least * Fraction(n_scores, math.comb(_NARROW, 2))))


def _width(share: Fraction) -> float:
    """Return 0 for tables of few columns, 1 for those of very many, and what is between in between."""
    least, most = _SCORES
    return float((share - least) / (most - least))


def _rare_groups(
    table: PrivateTable,
    plan: Plan,
    counts: Sequence[NDArray[np.float64]],
    share: Fraction,
) -> Groups:
    """Group the values of each column that are rare against the noise of twice as many marginals as columns."""
    # A column with an order and many more values than a pair can afford is cut into about as many groups as it can.
    noise = table.budget.std_error(share / (2 * len(plan.sizes)))
    total = max(1.0, float(counts[0].sum()))
    most = max(1.0, math.sqrt(_COARSE * total / (NOISE * noise)))
    found = []
    for count, ordered in zip(counts, plan.ordered, strict=True):
        fine = ordered and count.size > _MUCH_FINER * most
        found.append(
            group_rare_values(
                count,
                max(_RARE * noise, total / most if fine else 0.0),
                ordered=ordered,
            )
        )
    return tuple(found)


def _trusted(
    noisy: NDArray[np.float64], error: float, expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shrink noisy scores towards their mean (empirical Bayes: of their variance, that of the noise is known)."""
    # As far as scores are noise, the score that independent columns would have is no gain.
    variance = float(noisy.var())
    kept = max(0.0, 1 - error**2 / variance) if variance > 0 else 0.0
    shrunk = noisy.mean() + (noisy - noisy.mean()) * kept - (1 - kept) * expected
    return np.asarray(shrunk - CAUTION * error * math.sqrt(kept))


def _trusted_by_order(
    noisy: NDArray[np.float64],
    expected: NDArray[np.float64],
    cliques: Sequence[Clique],
    error: float,
) -> NDArray[np.float64]:
    """Shrink the scores of pairs, of triples, …, each among themselves: further columns make all distances larger."""
    orders = np.array([len(clique) for clique in cliques])
    gains = noisy.copy()
    for order in set(orders.tolist()):
        same = orders == order
        gains[same] = _trusted(noisy[same], error, expected[same])
    return gains


def _choose(
    table: PrivateTable,
    plan: Plan,
    gains: Mapping[Clique, float],
    cells: Cells,
    share: Fraction,
    columns: Iterable[float],
    measured: Sequence[Clique],
    *,
    strong: bool,
    last: Collection[Clique] = (),
) -> tuple[list[Clique], list[Clique]]:
    """Take marginals while they gain more than their noise costs all that share the budget; list what has no room."""
    power = 1 / (1 + float(table.budget.power))
    unit = table.budget.std_error(share)
    worth = {clique: gain * _weight(clique, plan) for clique, gain in gains.items()}
    cost = {
        clique: (NOISE * _weight(clique, plan) * cells.cost(clique)) ** power
        for clique in gains
    }
    spent = math.fsum((NOISE * other) ** power for other in columns)
    room = Room(plan, measured)
    chosen: list[Clique] = []
    refused: list[Clique] = []

    def take(clique: Clique) -> bool:
        nonlocal spent
        more = unit * ((spent + cost[clique]) ** (1 / power) - spent ** (1 / power))
        if worth[clique] <= more:
            return False
        if not room.take(clique):
            refused.append(clique)
            return False
        chosen.append(clique)
        spent += cost[clique]
        return True

    total = estimate_total(table.marginals)[0]
    strongest = [
        pair
        for pair in gains
        if len(pair) == 2 and pair not in last and gains[pair] >= 2 * _STRONG * total
    ]
    # With much noise, pairs of fine columns would displace cheaper ones that measure nearly the same dependence.
    first = list(dict.fromkeys([*cells.following, *(strongest if strong else [])]))
    left = np.array([worth[pair] - unit * cost[pair] ** (1 / power) for pair in first])
    _take_spanning_tree(first, left, take)
    # The strongest pairs are what a reader misses first; many weak ones that are cheap would leave no room for them.
    for pair in sorted(strongest, key=worth.__getitem__, reverse=True):
        if gains[pair] >= 2 * _DOMINANT * total and pair not in chosen:
            take(pair)
    taken = set(chosen)
    others = [clique for clique in gains if clique not in taken]
    for clique in sorted(
        others,
        key=lambda clique: (clique not in last, worth[clique] / cost[clique]),
        reverse=True,
    ):
        take(clique)
    return chosen, list(dict.fromkeys(refused))


def _take_spanning_tree(
    pairs: Sequence[Clique], scores: NDArray[np.float64], take: Callable[[Clique], bool]
) -> None:
    """Take pairs of high scores that make no circle (Kruskal's algorithm)."""
    joined = DisjointSet(column for pair in pairs for column in pair)
    for place in np.argsort(-scores, kind="stable"):
        if not joined.connected(*pairs[place]) and take(pairs[place]):
            joined.merge(*pairs[place])


def _unknown(
    table: PrivateTable,
    fitted: FittedTable,
    refused: Iterable[Clique],
    chances: Mapping[Clique, float],
) -> tuple[Clique, ...]:
    """List strong pairs that had no room, and of whose dependence the model does not know by other marginals."""

    def strong(pair: Clique, known: float) -> bool:
        score, error = table.scores[pair]
        return score - 2 * error > math.hypot(
            known + 2 * _STRONG * fitted.total, chances[pair]
        )

    pairs = [clique for clique in refused if len(clique) == 2 and strong(clique, 0.0)]
    found = []
    for pair, counts in zip(pairs, guess_counts(fitted, pairs), strict=True):
        alone = np.multiply.outer(counts.sum(axis=1), counts.sum(axis=0)) / fitted.total
        if strong(pair, float(np.abs(counts - alone).sum())):
            found.append(pair)
    return tuple(found)


def _measure(
    table: PrivateTable,
    plan: Plan,
    cliques: Sequence[Clique],
    cells: Cells,
    share: Fraction,
    columns: Sequence[float],
    later: Collection[Clique] = (),
) -> None:
    """Split a share among the columns, if they have weights, and cliques such that the expected error is least."""
    # What is for later leaves its part.
    singles = [(column,) for column in range(len(columns))]
    costs = [
        *columns,
        *(_weight(clique, plan) * cells.cost(clique) for clique in cliques),
    ]
    table.prepare([*singles, *cliques])
    for clique, part in zip(
        [*singles, *cliques], table.budget.best_shares(costs, share), strict=True
    ):
        if clique not in later:
            table.measure(clique, part, cells.of(clique))


def group_rare_values(
    counts: NDArray[np.float64], least: float, *, ordered: bool
) -> NDArray[np.intp] | None:
    """Group the values of a column such that groups of rare values hold enough records."""
    common = counts >= least
    if common.all() or counts.size == 1:
        return None
    if not ordered:
        groups = np.where(common, np.cumsum(common) - 1, common.sum())
        return groups.astype(np.intp)
    groups = np.zeros(counts.size, np.intp)
    current, held = 0, counts[0]
    for value in range(1, counts.size):
        rest = counts[value:].sum()
        # A rare value joins its left neighbours while they are rare, and the last ones join the group before.
        if held >= least / 2 and rest >= least / 2 and (held >= least or common[value]):
            current, held = current + 1, 0.0
        groups[value] = current
        held += counts[value]
    return groups


_ROWS = 1 << 17


def guess_counts(
    fitted: FittedTable, cliques: Collection[Clique]
) -> list[NDArray[np.float64]]:
    """Return the counts that a model expects."""
    # What no clique of the model holds is counted in sampled rows, which mostly costs less than computing it.
    model, sizes = fitted.model, fitted.model.tree.sizes
    rows: NDArray[np.int32] | None = None
    found: list[NDArray[np.float64]] = []
    held = {clique: model.tree.holder(clique) is not None for clique in cliques}
    partners: dict[int, list[int]] = {}
    for clique in cliques:
        if len(clique) == 2 and not held[clique]:
            partners.setdefault(clique[0], []).append(clique[1])
    # Many pairs of a few columns, as those of a wide table, cost less than rows.
    exact = sum(sizes[column] for column in partners) * model.tree.cells < _ROWS * len(
        sizes
    )
    pairs = (
        {
            column: model.pairs_with(column, others)
            for column, others in partners.items()
        }
        if exact
        else {}
    )
    for clique in cliques:
        if held[clique] or (len(clique) == 2 and exact):
            shares = (
                model.marginal(clique) if held[clique] else pairs[clique[0]][clique[1]]
            )
            found.append(np.multiply(shares, fitted.total))
            continue
        if rows is None:
            wanted = {
                column for other in cliques if not held[other] for column in other
            }
            rows = sample(model, _ROWS, np.random.default_rng(0), wanted)
        counts = count_cells(
            [rows[column] for column in clique], [sizes[column] for column in clique]
        )
        found.append(counts.astype(float) * (fitted.total / _ROWS))
    return found


AUTO = Strategy(measure=measure_auto, candidates=Plan.first_candidates, certain=False)
