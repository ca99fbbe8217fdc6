"""Choosing marginals one after the other: each time one that the model so far gets most wrong."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from skdp.synthesis.model import Clique
from skdp.synthesis.selection._auto import guess_counts
from skdp.synthesis.selection._following import Cells, find_unscored
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import FittedTable, Plan, Room, Strategy, fit_measured, measure_columns

_MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # of a standard normal number
_STEPS = 30
_LARGEST_ORDER = 3
_MOST_CANDIDATES = 500


@dataclass(frozen=True)
class _Pace:
    """How a budget is spent: in how many rounds a column at first, and how much of a round is for the choice."""

    rounds: int
    choice: Fraction


_GAUSSIAN = _Pace(16, Fraction(1, 10))
# Where epsilons add, n rounds have n times the noise of one, not sqrt(n) times; and a choice costs relatively more.
_PURE = _Pace(4, Fraction(1, 4))


def measure_adaptive(table: PrivateTable, plan: Plan) -> FittedTable:
    """Measure the columns, then round by round a marginal that the model so far gets most wrong: AIM."""
    # Candidates are the marginals of the workload and their subsets (of more than 500, a random 500 in each round). The
    # exponential mechanism chooses by the score: the L1 distance of the counts from the model's, less the expected
    # noise of a measurement, times the number of columns shared with the marginals of the workload ([1]_, equation 1).
    # Where a measurement hardly changed the model, the noise of the next rounds is halved. The size of the model may
    # grow with the share of the budget that is spent; the last round spends what is left. Each fit continues the last
    # for a few steps. What the junction tree does not hold is counted in sampled rows. Pairs of which one column may
    # follow from the other are scored first, each for 1/6400 of the budget: if it does, few of its cells cost noise.
    # **Privacy.** A person changes a candidate's score by at most its weight times her number of rows. The choice has
    # probabilities in proportion to ``exp(epsilon * score / (2 * weight * rows))`` with the largest weight, so the
    # logarithm of the ratio of a candidate's probabilities for two neighbouring tables is a constant that all share
    # plus a number in ``[-epsilon / 2, epsilon / 2]``: a range of epsilon. That is epsilon-differentially private, and
    # ``epsilon**2 / 8``-zero-concentrated ([2]_), but not Gaussian private: `GaussianBudget` needs ``mu**2 = 2 * rho``.
    # Rounds and shares may depend on earlier releases, as the shares always add up to the budget ([3]_).
    # .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and iterative mechanism for
    #    differentially private synthetic data. PVLDB 15(11). arXiv:2201.12677
    # .. [2] M. Cesar, R. Rogers (2021). Bounding, concentrating, and truncating: unifying privacy loss composition for
    #    data analytics. ALT. arXiv:2004.07223
    # .. [3] V. Feldman, T. Zrnic (2021). Individual privacy accounting via a Rényi filter. NeurIPS. arXiv:2008.11193
    budget, weights = table.budget, _candidates(plan)
    if not weights:
        measure_columns(table, plan, budget.left)
        return fit_measured(table, plan)
    pace = _PURE if budget.power == 1 else _GAUSSIAN
    share = Fraction(1, pace.rounds * len(plan.sizes))
    counts = measure_columns(table, plan, len(plan.sizes) * share * (1 - pace.choice))
    cells = Cells(plan.sizes, (None,) * len(plan.sizes), find_unscored(table, counts, weights))
    fitted = fit_measured(table, plan, max_iter=_STEPS)
    for seed in itertools.count():
        share = budget.left if budget.left <= 2 * share else share
        noise = _MEAN_ABSOLUTE * budget.std_error(share * (1 - pace.choice))
        cliques = _small_enough(_some(weights, seed), table, plan, fitted, 1 - budget.left + share)
        guesses = guess_counts(fitted, cliques, seed)
        penalties = [round(noise * cells.cost(clique)) for clique in cliques]
        place = table.choose(cliques, guesses, [weights[clique] for clique in cliques], penalties, share * pace.choice)
        table.measure(cliques[place], share * (1 - pace.choice))
        if not budget.left:
            break
        fitted = fit_measured(table, plan, max_iter=_STEPS, start_from=fitted)
        change = np.abs(fitted.total * fitted.model.marginal(cliques[place]) - guesses[place]).sum()
        if change <= penalties[place]:
            share *= 2 ** int(1 / budget.power)  # half the noise
    return fit_measured(table, plan, start_from=None if fitted.following else fitted)


def _candidates(plan: Plan) -> dict[Clique, int]:
    """List subsets of the workload's marginals, and how many columns each shares with all of them."""
    workload = plan.workload or tuple(itertools.combinations(range(len(plan.sizes)), min(2, len(plan.sizes))))
    asked = replace(plan, workload=workload)
    subsets = (clique for order in range(1, _LARGEST_ORDER + 1) for clique in asked.candidates(order))
    whole = (clique for clique in workload if plan.n_cells(clique) <= plan.max_cells)
    held = Counter(column for wanted in workload for column in set(wanted))
    return {clique: sum(held[column] for column in clique) for clique in [*subsets, *whole]}


def _some(candidates: Iterable[Clique], seed: int) -> list[Clique]:
    """Draw some candidates, if there are too many; columns are always among them, for they always fit."""
    listed = list(candidates)
    if len(listed) <= _MOST_CANDIDATES:
        return listed
    drawn = set(np.random.default_rng(seed).choice(len(listed), _MOST_CANDIDATES, replace=False).tolist())
    return [clique for place, clique in enumerate(listed) if len(clique) == 1 or place in drawn]


def _small_enough(
    candidates: Iterable[Clique], table: PrivateTable, plan: Plan, fitted: FittedTable, spent: Fraction
) -> list[Clique]:
    """List the candidates with which the model has at most its share of the largest size, or does not grow."""
    limit = replace(plan, max_cells=math.floor(plan.max_cells * spent))
    measured = dict.fromkeys(marginal.clique for marginal in table.marginals)
    tree, room = fitted.model.tree, Room(limit, measured)
    return [clique for clique in candidates if tree.holder(clique) is not None or room.fits(clique)]


ADAPTIVE = Strategy(measure=measure_adaptive, uses_choices=True)
