"""Warnings of a synthesizer about dependence that its rows do not have."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from skdp.base import level_of_the_caller
from skdp.domain import Domain
from skdp.pages import warn
from skdp.synthesis.model import Clique, Marginal
from skdp.synthesis.selection import Plan, is_within

MAX_BROKEN = 0.5
"""Proportion of rows that break a constraint from which `fit` warns."""

N_NAMED = 3
"""Marginals that a warning names."""

NOT_CHOSEN = "their noise exceeds their gain, or the model would exceed max_cells"


def warn_unmeasured(plan: Plan, domain: Domain, marginals: Iterable[Marginal]) -> None:
    """Warn of marginals of the workload that were not measured, and of pairs that were not scored."""
    measured = [marginal.clique for marginal in marginals]
    excluded = plan.list_excluded()
    reasons = {}
    for clique in plan.workload:
        if clique not in excluded and not is_within(clique, measured):
            reasons[clique] = NOT_CHOSEN
    warn_excluded(plan, domain, reasons)
    if plan.cliques is None and not plan.workload:
        pairs = itertools.combinations(range(len(plan.sizes)), 2)
        large = [pair for pair in pairs if plan.n_cells(pair) > plan.max_cells]
        if large:
            _warn_user(
                f"Some pairs of columns have more cells than max_cells={plan.max_cells:,} "
                f"and are not scored: {_list_names(domain, large)}. Increase max_cells, or "
                "declare coarser bins"
            )


def warn_excluded(plan: Plan, domain: Domain, reasons: Mapping[Clique, str]) -> None:
    """Warn of marginals of the workload that are not measured, with the reasons."""
    if not reasons:
        return
    parts = []
    for reason in dict.fromkeys(reasons.values()):
        cliques = [clique for clique in reasons if reasons[clique] == reason]
        parts.append(f"{_list_names(domain, cliques)} ({reason})")
    _warn_user(
        f"{len(reasons)} of {len(plan.workload)} marginals of the workload are not "
        f"measured, so only other marginals determine them: {'; '.join(parts)}"
    )


def warn_broken(domain: Domain, proportion: float) -> None:
    """Warn if most rows of the model break a constraint."""
    if proportion > MAX_BROKEN:
        _warn_user(
            f"About {proportion:.0%} of the rows of the model break the constraints "
            f"{list(domain.constraints)} and are drawn again, so rows have the "
            "distribution of the remaining ones. Declare bins that fit the constraints, "
            "or a derived column",
            "guide/synthetic_constraints",
        )


def _list_names(domain: Domain, cliques: Sequence[Clique]) -> str:
    """Name the first of some marginals."""
    named = []
    for clique in cliques[:N_NAMED]:
        named.append(repr(tuple(domain.columns[column] for column in clique)))
    n_more = len(cliques) - N_NAMED
    return ", ".join(named) + (f" and {n_more} more" if n_more > 0 else "")


def _warn_user(text: str, page: str = "guide/synthetic_tables#what-it-costs") -> None:
    warn(text, UserWarning, about=page, stacklevel=level_of_the_caller())
