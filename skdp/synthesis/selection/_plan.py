"""A strategy of choosing marginals: what it is given, what it returns, and the warning about what it leaves out."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.synthesis.model import Clique, GraphicalModel, eliminate
from skdp.synthesis.selection._private_table import PrivateTable

_FEW = 3


@dataclass(frozen=True)
class Plan:
    """Public facts and limits."""

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    max_cells: int
    workload: tuple[Clique, ...] = ()
    max_iter: int = 300
    zeros: tuple[tuple[Clique, NDArray[np.bool_]], ...] = field(default=(), repr=False)

    def n_cells(self, clique: Iterable[int]) -> int:
        """Count the cells of a table."""
        return math.prod(self.sizes[column] for column in clique)

    def fits(self, cliques: Sequence[Clique]) -> bool:
        """Return whether a model of some marginals is small enough."""
        impossible = [clique for clique, _ in self.zeros]
        cells = [self.n_cells(clique) for clique in eliminate(self.sizes, [*cliques, *impossible])]
        return max(cells) <= self.max_cells and sum(cells) <= 4 * self.max_cells

    def candidates(self, order: int) -> dict[Clique, int]:
        """List the marginals of some order that matter, and how much."""
        columns = range(len(self.sizes))
        workload = self.workload or [tuple(columns)]
        found = Counter(subset for wanted in workload for subset in itertools.combinations(wanted, order))
        return {clique: weight for clique, weight in found.items() if self.n_cells(clique) <= self.max_cells}

    def first_candidates(self) -> dict[Clique, int]:
        """List the pairs that matter, and the larger marginals of the workload."""
        larger = [clique for clique in self.workload if len(clique) > 2 and self.n_cells(clique) <= self.max_cells]
        wanted = [frozenset(clique) for clique in self.workload]
        return self.candidates(2) | {clique: sum(map(frozenset(clique).issubset, wanted)) for clique in larger}


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What is known of a table."""

    model: GraphicalModel
    total: float
    std_error: float
    losses: list[float]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way of choosing the marginals that are measured."""

    measure: Callable[[PrivateTable, Plan], FittedTable]
    """Spend the budget of a table, and fit a model to what was measured."""

    certain: Callable[[Plan], Collection[Clique]] | None = None
    """The marginals that are measured for any data; None if noisy scores decide."""

    first: Callable[[Plan], Collection[Clique]] = lambda plan: plan.candidates(2)
    """What is scored first, beside the columns, if noisy scores decide."""

    most_columns: int | None = None
    """The most columns of a marginal, if that is limited."""

    beyond: str = ""
    """Why marginals that are not certain, or have more columns, are not measured."""

    not_chosen: str = "not worth their noise at this epsilon, by the noisy scores, or the model would exceed max_cells"
    """Why a marginal that could have been measured was not."""

    uses_choices: bool = False
    """Whether it calls `PrivateTable.choose`."""


def first_cliques(plan: Plan, strategy: Strategy) -> list[Clique]:
    """List what is counted at the start, so that a large table is read once for it."""
    more = strategy.certain or strategy.first
    return list(dict.fromkeys([*((column,) for column in range(len(plan.sizes))), *more(plan)]))


def out_of_reach(plan: Plan, strategy: Strategy) -> dict[Clique, str]:
    """List the marginals of the workload that a strategy cannot measure, each with the reason."""
    certain = None if strategy.certain is None else strategy.certain(plan)
    found = {}
    for clique in plan.workload:
        too_many = strategy.most_columns is not None and len(clique) > strategy.most_columns
        if too_many or (certain is not None and not _held(clique, certain)):
            found[clique] = strategy.beyond
        elif certain is None and len(clique) > 1 and plan.n_cells(clique) > plan.max_cells:
            found[clique] = f"more than max_cells = {plan.max_cells:,} cells"
    return found


def warn_out_of_reach(plan: Plan, strategy: Strategy, names: Sequence[object]) -> set[Clique]:
    """Warn of marginals of the workload that are never measured."""
    reasons = out_of_reach(plan, strategy)
    _warn_left_out(plan, names, reasons)
    return set(reasons)


def warn_not_chosen(
    plan: Plan, strategy: Strategy, names: Sequence[object], measured: Iterable[Clique], known: set[Clique]
) -> None:
    """Warn of further marginals of the workload that were not measured."""
    held = list(measured)
    missing = [clique for clique in plan.workload if clique not in known and not _held(clique, held)]
    reasons = out_of_reach(plan, strategy)
    _warn_left_out(plan, names, {clique: reasons.get(clique, strategy.not_chosen) for clique in missing})


def _warn_left_out(plan: Plan, names: Sequence[object], reasons: Mapping[Clique, str]) -> None:
    if not reasons:
        return
    parts = []
    for reason in dict.fromkeys(reasons.values()):
        cliques = [clique for clique, why in reasons.items() if why == reason]
        shown = ", ".join(repr(tuple(names[column] for column in clique)) for clique in cliques[:_FEW])
        more = f" and {len(cliques) - _FEW} more" if len(cliques) > _FEW else ""
        parts.append(f"{reason}: {shown}{more}")
    warnings.warn(
        f"{len(reasons)} of {len(plan.workload)} marginals of the workload are not measured; the model knows them only "
        f"by other marginals. {'. '.join(part[0].upper() + part[1:] for part in parts)}",
        UserWarning,
        stacklevel=level_of_the_caller(),
    )


def _held(clique: Clique, marginals: Collection[Clique]) -> bool:
    return any({*clique} <= {*marginal} for marginal in marginals)
