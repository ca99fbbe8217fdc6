"""Which marginals are measured: what `marginals=` says, and what bounds it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.domain import Domain
from skdp.synthesis._queries import find_column, read_conditions
from skdp.synthesis.model import MOST_CELLS, Clique, JunctionTree, eliminate
from skdp.synthesis.selection._aim import measure_adaptive
from skdp.synthesis.selection._auto import measure_auto
from skdp.synthesis.selection._fit import FittedTable
from skdp.synthesis.selection._given import measure_cliques, measure_full, measure_independent
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._tree import measure_tree

METHODS: dict[str, Callable[[PrivateTable, Plan], FittedTable]] = {
    "auto": measure_auto,
    "independent": measure_independent,
    "tree": measure_tree,
    "adaptive": measure_adaptive,
    "full": measure_full,
}
"""A function for each way of choosing marginals."""

_MOST_TOGETHER = 4
"""Times the most cells of a clique: what all cliques may have, as for `Plan.fits`."""


def check_marginals(marginals: Any) -> None:
    """Check the kind of `marginals`."""
    if isinstance(marginals, str):
        if marginals not in METHODS:
            raise ValueError(f"marginals must be one of {sorted(METHODS)}, or a list of tuples, got {marginals!r}")
    elif not isinstance(marginals, Iterable) or isinstance(marginals, Mapping):
        raise TypeError(
            f"marginals must be one of {sorted(METHODS)}, or a list of tuples, got {type(marginals).__name__}"
        )


def read_workload(workload: Any, domain: Domain) -> tuple[Clique, ...]:
    """Turn tuples of column names into tuples of places."""
    return () if workload is None else _read_cliques("workload", workload, domain)


def read_zeros(zeros: Any, domain: Domain) -> tuple[tuple[Clique, NDArray[np.bool_]], ...]:
    """Turn combinations that cannot occur into tables of cells."""
    if zeros is None:
        return ()
    if isinstance(zeros, Mapping) or not isinstance(zeros, Iterable):
        raise TypeError(f"structural_zeros must be a list of mappings, got {type(zeros).__name__}")
    found: dict[Clique, NDArray[np.bool_]] = {}
    for combination in zeros:
        weights = read_conditions(domain, combination)
        if not weights or any(((weight != 0) & (weight != 1)).any() for weight in weights.values()):
            raise ValueError("structural_zeros must name columns, and whole bins of numbers")
        clique = tuple(sorted(weights))
        cells = np.ix_(*(weights[column] == 1 for column in clique))
        table = found.setdefault(clique, np.zeros([domain.sizes[column] for column in clique], bool))
        table[cells] = True
    return tuple(found.items())


def measure(table: PrivateTable, plan: Plan, marginals: Any, domain: Domain) -> FittedTable:
    """Measure what was asked for."""
    if isinstance(marginals, str):
        return METHODS[marginals](table, plan)
    return measure_cliques(table, plan, _read_cliques("marginals", marginals, domain))


def first_cliques(plan: Plan, marginals: Any, domain: Domain) -> list[Clique]:
    """List what is counted at the start, so that a large table is read once for it."""
    columns: list[Clique] = [(column,) for column in range(len(plan.sizes))]
    if not isinstance(marginals, str):
        return [*columns, *_read_cliques("marginals", marginals, domain)]
    if marginals == "full":
        return [*columns, tuple(range(len(plan.sizes)))]
    if marginals == "independent":
        return columns
    return [*columns, *(plan.first_candidates() if marginals == "auto" else plan.candidates(2))]


def warn_out_of_reach(plan: Plan, marginals: Any, domain: Domain) -> set[Clique]:
    """Warn of marginals of the workload that are not going to be measured, whatever the data are."""
    asked = marginals if isinstance(marginals, str) else _read_cliques("marginals", marginals, domain)
    reasons = out_of_reach(plan, asked)
    warn_left_out(plan, domain.columns, reasons)
    return set(reasons)


def warn_not_chosen(plan: Plan, marginals: Any, domain: Domain, measured: Iterable[Clique], known: set[Clique]) -> None:
    """Warn of marginals of the workload that were not measured."""
    reasons = out_of_reach(plan, marginals) if isinstance(marginals, str) else {}
    reasons = not_chosen(plan, marginals, set(measured)) | reasons
    warn_left_out(plan, domain.columns, {clique: why for clique, why in reasons.items() if clique not in known})


def check_size_of_model(plan: Plan, marginals: Any, domain: Domain) -> None:
    """Refuse a model that is too large, before anything is spent."""
    cells, total = _needed_cells(plan, marginals, domain)
    if cells > MOST_CELLS:
        raise ValueError(
            f"the model of these marginals has a clique of {cells:,} cells ({8 * cells:,} bytes a table); at most "
            f"{MOST_CELLS:,} cells are computed. Ask for fewer columns together, or for coarser bins"
        )
    if total > _MOST_TOGETHER * MOST_CELLS:
        raise ValueError(
            f"the model of these marginals has {total:,} cells ({8 * total:,} bytes a copy); at most "
            f"{_MOST_TOGETHER * MOST_CELLS:,} are computed. Ask for fewer marginals, or for coarser bins"
        )
    chooses = isinstance(marginals, str) and marginals not in ("independent", "full")
    if chooses and plan.zeros and cells > max(plan.max_cells, *plan.sizes):
        raise ValueError(
            f"structural_zeros take a clique of {cells:,} cells together; at most max_cells = {plan.max_cells:,} are "
            "allowed. Leave out some, or set max_cells higher"
        )
    if not _leaves_something(plan):
        raise ValueError("structural_zeros leave nothing that could occur")


def largest_sizes(plan: Plan, marginals: Any, domain: Domain, columns: Collection[int]) -> int:
    """Find how many values some columns may have, each the same number, for the model to be small enough."""

    def fits(size: int) -> bool:
        sizes = tuple(size if column in columns else known for column, known in enumerate(plan.sizes))
        cells, total = _needed_cells(replace(plan, sizes=sizes), marginals, domain)
        return cells <= MOST_CELLS and total <= _MOST_TOGETHER * MOST_CELLS

    least, most = 1, MOST_CELLS + 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    if least < 2:
        raise ValueError(
            f"the model of these marginals needs more than {MOST_CELLS:,} cells if discover= finds values. Ask for "
            "fewer columns together, or for coarser bins"
        )
    return least


def _needed_cells(plan: Plan, marginals: Any, domain: Domain) -> tuple[int, int]:
    """Count the cells of the largest clique of what is certain to be modelled, and of all together."""
    cliques: list[Clique] = [clique for clique, _ in plan.zeros]
    if not isinstance(marginals, str):
        cliques += _read_cliques("marginals", marginals, domain)
    elif marginals == "full":
        cliques.append(tuple(range(len(plan.sizes))))
    cells = [plan.n_cells(clique) for clique in eliminate(plan.sizes, cliques)]
    return max(cells), sum(cells)


def _leaves_something(plan: Plan) -> bool:
    """Say whether some row has none of the combinations that cannot occur."""
    tree = JunctionTree(plan.sizes, [clique for clique, _ in plan.zeros])
    possible = [np.ones([plan.sizes[column] for column in clique], bool) for clique in tree.cliques]
    for clique, impossible in plan.zeros:
        place = tree.holder(clique)
        assert place is not None  # the tree was made for it
        possible[place] &= ~impossible.reshape(_shape_in(tree, place, clique))
    for link in reversed(tree.links):
        child = tree.cliques[link.child]
        dropped = tuple(axis for axis, column in enumerate(child) if column not in link.separator)
        message = possible[link.child].any(axis=dropped)
        possible[link.parent] &= message.reshape(_shape_in(tree, link.parent, link.separator))
    return bool(possible[0].any())


def _shape_in(tree: JunctionTree, place: int, columns: Clique) -> list[int]:
    """Return the shape of a table of some columns beside that of a clique."""
    return [tree.sizes[column] if column in columns else 1 for column in tree.cliques[place]]


def _read_cliques(name: str, cliques: Any, domain: Domain) -> tuple[Clique, ...]:
    if isinstance(cliques, str | Mapping) or not isinstance(cliques, Iterable):
        raise TypeError(f"{name} must be a list of tuples of column names, got {type(cliques).__name__}")
    found = []
    for clique in cliques:
        if isinstance(clique, str) or not isinstance(clique, Iterable):
            raise TypeError(f"{name} must be a list of tuples of column names; {clique!r} is no tuple")
        places = [find_column(domain, column) for column in clique]
        if not places or len(set(places)) < len(places):
            raise ValueError(f"{name}: a tuple must name at least one column, each once, got {clique!r}")
        found.append(tuple(sorted(places)))
    if not found:
        raise ValueError(f"{name} must have at least one tuple of columns")
    return tuple(dict.fromkeys(found))


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
