"""Which marginals of a workload are not measured, and why."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence

from skdp.base._domain import level_of_the_caller
from skdp.synthesis._junction_tree import Clique
from skdp.synthesis._plan import Plan

_FEW = 3


def out_of_reach(plan: Plan, marginals: str | Sequence[Clique]) -> dict[Clique, str]:
    """List the marginals of the workload that a method cannot measure, each with the reason."""
    found = {}
    for clique in plan.workload:
        if not isinstance(marginals, str):
            if not _held(clique, marginals):
                found[clique] = "within none of the given ones"
        elif marginals == "independent" and len(clique) > 1:
            found[clique] = "marginals='independent' measures single columns only"
        elif marginals == "tree" and len(clique) > 2:
            found[clique] = "marginals='tree' measures pairs only"
        elif marginals != "full" and len(clique) > 1 and plan.n_cells(clique) > plan.max_cells:
            found[clique] = f"more than max_cells = {plan.max_cells:,} cells"
    return found


def not_chosen(plan: Plan, marginals: str | Sequence[Clique], measured: Collection[Clique]) -> dict[Clique, str]:
    """List the marginals of the workload that a method could have measured and did not, each with the reason."""
    reason = "not worth their noise at this epsilon, by the noisy scores, or the model would exceed max_cells"
    if marginals == "tree":
        reason = "not in the tree, which links all columns by as few pairs as it can"
    return {clique: reason for clique in plan.workload if not _held(clique, measured)}


def warn_left_out(plan: Plan, names: Sequence[object], reasons: Mapping[Clique, str]) -> None:
    """Warn of marginals of the workload that are not measured; without any, do nothing."""
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
