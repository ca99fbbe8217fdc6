"""The strategies by name, the plain ones among them: what `marginals=` may be, and how large a model may become."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Real
from typing import Any

from skdp.domain import Domain
from skdp.oracles import check_size
from skdp.synthesis._queries import find_column
from skdp.synthesis.model import MOST_CELLS, Clique, Elimination
from skdp.synthesis.selection._auto import AUTO
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import (
    MOST_TOGETHER,
    FittedTable,
    Plan,
    Strategy,
    fit_measured,
)
from skdp.synthesis.selection._zeros import leaves_something, needed_zeros, read_zeros


def certain_strategy(
    candidates: Callable[[Plan], Collection[Clique]], beyond: str = ""
) -> Strategy:
    """Measure the same marginals of any data, each with the same share of the budget, and so with the same noise."""

    def measure(table: PrivateTable, plan: Plan) -> FittedTable:
        cliques = candidates(plan)
        share = table.budget.left * Fraction(1, len(cliques))
        table.prepare(list(cliques))
        for clique in cliques:
            table.measure(clique, share)
        return fit_measured(table, plan)

    return Strategy(measure=measure, candidates=candidates, certain=True, beyond=beyond)


def given(cliques: Sequence[Clique]) -> Strategy:
    return certain_strategy(lambda plan: cliques, "within none of the given ones")


def single_columns(plan: Plan) -> list[Clique]:
    return [(column,) for column in range(len(plan.sizes))]


def all_together(plan: Plan) -> list[Clique]:
    return [tuple(range(len(plan.sizes)))]


STRATEGIES = {
    "auto": AUTO,
    "independent": certain_strategy(
        single_columns, "marginals='independent' measures single columns only"
    ),
    "full": certain_strategy(all_together),
}
"""By the names that `marginals=` takes."""

_MOST_COLUMNS = 500


def check_width(n_columns: int) -> None:
    if n_columns > _MOST_COLUMNS:
        raise ValueError(
            f"X has {n_columns:,} columns; at most {_MOST_COLUMNS:,} are modelled: the budget is split among them, and "
            "nothing but noise would be left. Choose columns first, by public knowledge"
        )


def check_marginals(marginals: Any) -> None:
    if isinstance(marginals, str):
        if marginals not in STRATEGIES:
            raise ValueError(
                f"marginals must be one of {sorted(STRATEGIES)}, or a list of tuples, got {marginals!r}"
            )
    elif not isinstance(marginals, Iterable) or isinstance(marginals, Mapping):
        raise TypeError(
            f"marginals must be one of {sorted(STRATEGIES)}, or a list of tuples, got {type(marginals).__name__}"
        )


def read_plan(
    domain: Domain,
    *,
    ordered: tuple[bool, ...],
    marginals: Any,
    workload: Any,
    target: Any,
    structural_zeros: Any,
    max_cells: Any,
    max_iter: Any,
    tol: Any,
) -> tuple[Plan, Strategy]:
    """Return what is public and the strategy; refuse a model that is too large."""
    most = min(check_size(max_cells, name="max_cells"), MOST_CELLS)
    wanted = () if workload is None else read_cliques("workload", workload, domain)
    plan = Plan(
        domain.sizes,
        ordered,
        most,
        wanted,
        check_size(max_iter, name="max_iter", least=1),
        needed_zeros(domain.sizes, read_zeros(structural_zeros, domain), most),
        check_tol(tol),
        _read_target(target, marginals, wanted, domain),
    )
    named = isinstance(marginals, str)
    strategy = (
        STRATEGIES[marginals]
        if named
        else given(read_cliques("marginals", marginals, domain))
    )
    check_size_of_model(plan, strategy)
    return plan, strategy


def _read_target(
    target: Any, marginals: Any, workload: Sequence[Clique], domain: Domain
) -> int | None:
    if target is None:
        return None
    if not isinstance(marginals, str) or marginals != "auto":
        raise ValueError(
            f"target needs marginals='auto', which alone looks for what predicts it, got {marginals!r}"
        )
    if target not in domain.columns:
        raise ValueError(
            f"target must be one of the columns {list(domain.columns)}, got {target!r}"
        )
    place = domain.columns.index(target)
    if workload and not any(place in clique for clique in workload if len(clique) > 1):
        raise ValueError(
            f"workload must name target {target!r} together with another column"
        )
    return place


def check_tol(tol: Any) -> float:
    if isinstance(tol, bool) or not isinstance(tol, Real) or not 0 < float(tol) < 1:
        raise ValueError(f"tol must be a number between 0 and 1, got {tol!r}")
    return float(tol)


def check_size_of_model(plan: Plan, strategy: Strategy) -> None:
    """Refuse a model that is too large, before anything is spent."""
    cells, total = _needed_cells(plan, strategy)
    if cells > MOST_CELLS:
        raise ValueError(
            f"the model of these marginals has a clique of {cells:,} cells ({8 * cells:,} bytes a table); at most "
            f"{MOST_CELLS:,} cells are computed. Ask for fewer columns together, or for coarser bins"
        )
    if total > MOST_TOGETHER * MOST_CELLS:
        raise ValueError(
            f"the model of these marginals has {total:,} cells ({8 * total:,} bytes a copy); at most "
            f"{MOST_TOGETHER * MOST_CELLS:,} are computed. Ask for fewer marginals, or for coarser bins"
        )
    if not strategy.certain and plan.zeros and cells > max(plan.max_cells, *plan.sizes):
        raise ValueError(
            f"structural_zeros take a clique of {cells:,} cells together; at most max_cells = {plan.max_cells:,} are "
            "allowed. Leave out some that do not follow from others, declare coarser bins, or set max_cells higher"
        )
    if not leaves_something(plan.sizes, plan.zeros):
        raise ValueError("structural_zeros leave nothing that could occur")


def largest_sizes(plan: Plan, strategy: Strategy, columns: Collection[int]) -> int:
    """Find how many values some columns may have, each the same number, for the model to be small enough."""

    def fits(size: int) -> bool:
        sizes = tuple(
            size if column in columns else known
            for column, known in enumerate(plan.sizes)
        )
        cells, total = _needed_cells(replace(plan, sizes=sizes), strategy)
        return cells <= MOST_CELLS and total <= MOST_TOGETHER * MOST_CELLS

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
    cliques = [
        *(clique for clique, _ in plan.zeros),
        *(strategy.candidates(plan) if strategy.certain else []),
    ]
    return Elimination(plan.sizes, cliques).n_cells


def read_cliques(name: str, cliques: Any, domain: Domain) -> tuple[Clique, ...]:
    if isinstance(cliques, str | Mapping) or not isinstance(cliques, Iterable):
        raise TypeError(
            f"{name} must be a list of tuples of column names, got {type(cliques).__name__}"
        )
    found = []
    for clique in cliques:
        if isinstance(clique, str) or not isinstance(clique, Iterable):
            raise TypeError(
                f"{name} must be a list of tuples of column names; {clique!r} is no tuple"
            )
        places = [find_column(domain, column, name) for column in clique]
        if not places or len(set(places)) < len(places):
            raise ValueError(
                f"{name}: a tuple must name at least one column, each once, got {clique!r}"
            )
        found.append(tuple(sorted(places)))
    if not found:
        raise ValueError(f"{name} must have at least one tuple of columns")
    return tuple(dict.fromkeys(found))
