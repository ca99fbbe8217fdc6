"""The strategies by name: what `marginals=` may be, and how large a model may become."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import is_ordered
from skdp.domain import Domain
from skdp.oracles import check_size
from skdp.synthesis._queries import find_column, read_conditions
from skdp.synthesis.model import MOST_CELLS, Clique, JunctionTree, eliminate, expand
from skdp.synthesis.selection._aim import ADAPTIVE
from skdp.synthesis.selection._auto import AUTO
from skdp.synthesis.selection._plan import Plan, Strategy
from skdp.synthesis.selection._simple import FULL, INDEPENDENT, TREE, given

STRATEGIES = {"auto": AUTO, "independent": INDEPENDENT, "tree": TREE, "adaptive": ADAPTIVE, "full": FULL}
"""By the names that `marginals=` takes."""

_MOST_TOGETHER = 4
"""Times the most cells of a clique: what all cliques may have, as for `Plan.fits`."""


def check_marginals(marginals: Any) -> None:
    """Check the kind of `marginals`."""
    if isinstance(marginals, str):
        if marginals not in STRATEGIES:
            raise ValueError(f"marginals must be one of {sorted(STRATEGIES)}, or a list of tuples, got {marginals!r}")
    elif not isinstance(marginals, Iterable) or isinstance(marginals, Mapping):
        raise TypeError(
            f"marginals must be one of {sorted(STRATEGIES)}, or a list of tuples, got {type(marginals).__name__}"
        )


def read_plan(
    domain: Domain, *, marginals: Any, workload: Any, structural_zeros: Any, max_cells: Any, max_iter: Any
) -> tuple[Plan, Strategy]:
    """Return what is public and the strategy; refuse a model that is too large."""
    plan = Plan(
        domain.sizes,
        tuple(is_ordered(domain[name]) for name in domain.columns),
        min(check_size(max_cells, name="max_cells"), MOST_CELLS),
        () if workload is None else _read_cliques("workload", workload, domain),
        check_size(max_iter, name="max_iter", least=1),
        read_zeros(structural_zeros, domain),
    )
    named = isinstance(marginals, str)
    strategy = STRATEGIES[marginals] if named else given(_read_cliques("marginals", marginals, domain))
    check_size_of_model(plan, strategy)
    return plan, strategy


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


def uses_choices(marginals: Any) -> bool:
    """Return whether the strategy that is asked for draws from the exponential mechanism."""
    return isinstance(marginals, str) and STRATEGIES[marginals].uses_choices


def check_size_of_model(plan: Plan, strategy: Strategy) -> None:
    """Refuse a model that is too large, before anything is spent."""
    cells, total = _needed_cells(plan, strategy)
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
    if strategy.certain is None and plan.zeros and cells > max(plan.max_cells, *plan.sizes):
        raise ValueError(
            f"structural_zeros take a clique of {cells:,} cells together; at most max_cells = {plan.max_cells:,} are "
            "allowed. Leave out some, or set max_cells higher"
        )
    if not _leaves_something(plan):
        raise ValueError("structural_zeros leave nothing that could occur")


def largest_sizes(plan: Plan, strategy: Strategy, columns: Collection[int]) -> int:
    """Find how many values some columns may have, each the same number, for the model to be small enough."""

    def fits(size: int) -> bool:
        sizes = tuple(size if column in columns else known for column, known in enumerate(plan.sizes))
        cells, total = _needed_cells(replace(plan, sizes=sizes), strategy)
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


def _needed_cells(plan: Plan, strategy: Strategy) -> tuple[int, int]:
    """Count the cells of the largest clique of what is certain to be modelled, and of all together."""
    cliques = [*(clique for clique, _ in plan.zeros), *(strategy.certain(plan) if strategy.certain else [])]
    cells = [plan.n_cells(clique) for clique in eliminate(plan.sizes, cliques)]
    return max(cells), sum(cells)


def _leaves_something(plan: Plan) -> bool:
    """Return whether some row has none of the combinations that cannot occur."""
    tree = JunctionTree(plan.sizes, [clique for clique, _ in plan.zeros])
    possible = [np.ones([plan.sizes[column] for column in clique], bool) for clique in tree.cliques]
    for clique, impossible in plan.zeros:
        place = tree.holder(clique)
        assert place is not None  # the tree was made for it
        possible[place] &= ~expand(impossible, clique, tree.cliques[place])
    for link in reversed(tree.links):
        child = tree.cliques[link.child]
        dropped = tuple(axis for axis, column in enumerate(child) if column not in link.separator)
        message = np.asarray(possible[link.child].any(axis=dropped))
        possible[link.parent] &= expand(message, link.separator, tree.cliques[link.parent])
    return bool(possible[0].any())


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
