"""Choice of marginals whose gain exceeds their noise and that fit into the model."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from skdp.synthesis.model import Clique, Groups
from skdp.synthesis.selection._budget import NoiseBudget
from skdp.synthesis.selection._plan import CLIQUES_PER_MODEL, Plan
from skdp.synthesis.selection._scores import NOISE_COST

# Tuned by benchmarks/synthesis.py.
TARGET_WEIGHT, LABEL_WEIGHT = 10.0, 1.5
"""Weights of errors of pairs with the target, and with columns of two values."""

N_PAIRS_PER_LABEL = 2
"""Pairs of a column of two values that get capacity first."""


@dataclass(frozen=True)
class Choice:
    """Marginals to measure, and marginals for which the model has no capacity."""

    chosen: list[Clique]
    refused: list[Clique]

    def missed(self, excess: Mapping[Clique, float], power: int) -> float:
        """Sum powers of the excess of the refused marginals."""
        return math.fsum(excess[clique] ** power for clique in self.refused)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Marginals to choose among, and the measurements that share the budget with them."""

    plan: Plan
    budget: NoiseBudget
    fraction: Fraction
    """Of the budget, for all that is chosen and `shared_costs`."""
    groups: Groups
    gains: Mapping[Clique, float]
    excess: Mapping[Clique, float]
    shared_costs: Sequence[float] = ()
    measured: Collection[Clique] = ()
    """Marginals that are in the model already."""
    last: Collection[Clique] = ()
    """Candidates that take the capacity which other candidates leave."""

    def cost(self, clique: Clique) -> float:
        """Return the cost of the noise of a marginal: its weighted number of cells."""
        n_cells = 1
        for column in clique:
            members = self.groups[column]
            size = self.plan.sizes[column]
            n_cells *= size if members is None else int(members.max()) + 1
        return self.weight(clique) * n_cells

    def weight(self, clique: Clique) -> float:
        """Return the weight of errors of a marginal."""
        if len(clique) != 2:
            return 1.0
        if self.plan.target in clique:
            return TARGET_WEIGHT
        return 1.0 if self.plan.labels.isdisjoint(clique) else LABEL_WEIGHT

    def choose(self) -> Choice:
        """Choose such that the refused marginals have the smallest excess."""
        # Marginals are ranked between efficiency and gain, or by gain alone.
        power = 0.5
        best = self._choose(power, [])
        other = self._choose(0.0, []) if best.refused else best
        if other.missed(self.excess, 1) < best.missed(self.excess, 1):
            best, power = other, 0.0
        # A strong pair may need the capacity of many weak ones: put it first as long as
        # that lowers the sum of squares of the missed excess.
        first: list[Clique] = []
        while best.refused:
            strongest = max(best.refused, key=self.excess.__getitem__)
            choice = self._choose(power, [*first, strongest])
            if choice.missed(self.excess, 2) >= best.missed(self.excess, 2):
                break
            first.append(strongest)
            best = choice
        # A rare label gains few records, and may come when no capacity is left.
        of_labels = self._list_label_pairs(best)
        return self._choose(power, [*of_labels, *first]) if of_labels else best

    def _list_label_pairs(self, choice: Choice) -> list[Clique]:
        """List the strongest refused pairs of columns of two values with few pairs."""
        pairs = []
        for label in sorted(self.plan.labels):
            held = [c for c in (*self.measured, *choice.chosen) if label in c]
            if len(held) >= N_PAIRS_PER_LABEL:
                continue
            refused = []
            for clique in choice.refused:
                is_dependent = self.excess[clique] > 0 and clique not in self.last
                if label in clique and is_dependent:
                    refused.append(clique)
            refused.sort(key=self.excess.__getitem__, reverse=True)
            pairs += refused[:N_PAIRS_PER_LABEL]
        return pairs

    def _choose(self, rank_power: float, first: Collection[Clique]) -> Choice:
        """Take marginals in order of rank if they gain more than their noise costs."""
        # With the budget allocated for the smallest sum of noise, this sum is
        # ``error * sum(cost ** power) ** (1 / power)``.
        power = self.budget.cost_power
        error = NOISE_COST * self.budget.std_error(self.fraction)
        costs = {clique: self.cost(clique) for clique in self.gains}
        spent = math.fsum(cost**power for cost in self.shared_costs)
        gains = {clique: g * self.weight(clique) for clique, g in self.gains.items()}

        def rank(clique: Clique) -> tuple[bool, bool, float]:
            efficiency = gains[clique] / costs[clique] ** (power * rank_power)
            return clique in first, clique not in self.last, efficiency

        graph = self.plan.start_elimination(self.measured)
        max_cells = self.plan.max_cells
        choice = Choice([], [])
        for clique in sorted(gains, key=rank, reverse=True):
            spent_with = spent + costs[clique] ** power
            added_noise = error * (spent_with ** (1 / power) - spent ** (1 / power))
            if gains[clique] <= added_noise:
                continue
            if graph.add(clique, max_cells, CLIQUES_PER_MODEL * max_cells):
                choice.chosen.append(clique)
                spent = spent_with
            else:
                choice.refused.append(clique)
        return choice
