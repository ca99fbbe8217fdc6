"""What a strategy of choosing marginals is, and the warning about marginals that it leaves out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from skdp.base import level_of_the_caller
from skdp.synthesis.model import Clique
from skdp.synthesis.selection._fit import FittedTable
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._private_table import PrivateTable

_FEW = 3


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way of choosing the marginals that are measured."""

    measure: Callable[[PrivateTable, Plan], FittedTable]
    """Spend the budget of a table, and fit a model to what was measured."""

    certain: Callable[[Plan], Collection[Clique]] | None = None
    """The marginals that are measured whatever the data are; None if noisy scores decide."""

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
    """Warn of marginals of the workload that are not going to be measured, whatever the data are."""
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
