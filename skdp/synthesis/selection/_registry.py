"""The strategies by name, what `marginals=` may be, and how large a model may be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skdp.domain import Domain
from skdp.oracles import check_size
from skdp.synthesis._queries import find_column
from skdp.synthesis.model import MAX_CELLS, Clique, Elimination
from skdp.synthesis.selection._auto import Auto
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import (
    CLIQUES_OF_A_MODEL,
    FittedTable,
    Plan,
    Strategy,
    fit_measured,
)
from skdp.synthesis.selection._zeros import find_zeros


class CertainStrategy(Strategy):
    """Measures the same marginals of any data, each with the same noise."""

    is_certain = True

    def measure(self, table: PrivateTable, plan: Plan) -> FittedTable:
        cliques = self.certain(plan)
        shares = [table.budget.left * Fraction(1, len(cliques))] * len(cliques)
        table.prepare(cliques)
        for clique, share in zip(cliques, shares, strict=True):
            table.measure(clique, share)
        return fit_measured(table, plan)


@dataclass(frozen=True)
class Given(CertainStrategy):
    """Marginals that the user names."""

    cliques: tuple[Clique, ...]
    beyond = "within none of the given ones"

    def candidates(self, plan: Plan) -> Collection[Clique]:
        return self.cliques


class Independent(CertainStrategy):
    """Single columns."""

    beyond = "marginals='independent' measures single columns only"

    def candidates(self, plan: Plan) -> Collection[Clique]:
        return plan.columns


class Full(CertainStrategy):
    """All columns together."""

    def candidates(self, plan: Plan) -> Collection[Clique]:
        return [tuple(range(len(plan.sizes)))]


STRATEGIES: dict[str, Strategy] = {
    "auto": Auto(),
    "independent": Independent(),
    "full": Full(),
}
"""By the names that `marginals=` takes."""

_MAX_COLUMNS = 500
"""There are 125,000 pairs of them."""


def check_width(n_columns: int) -> None:
    """Refuse more columns than are modelled."""
    if n_columns > _MAX_COLUMNS:
        raise ValueError(
            f"X has {n_columns:,} columns; at most {_MAX_COLUMNS:,} are modelled: the "
            "budget is split among them, and nothing but noise would be left. Choose "
            "columns first, by public knowledge"
        )


def check_marginals(marginals: Any) -> None:
    """Check the parameter `marginals`, but for the names of columns."""
    allowed = f"marginals must be one of {sorted(STRATEGIES)}, or a list of tuples"
    if isinstance(marginals, str):
        if marginals not in STRATEGIES:
            raise ValueError(f"{allowed}, got {marginals!r}")
    elif not isinstance(marginals, Iterable) or isinstance(marginals, Mapping):
        raise TypeError(f"{allowed}, got {type(marginals).__name__}")


def read_plan(
    domain: Domain,
    *,
    ordered: tuple[bool, ...],
    marginals: Any,
    workload: Any,
    target: Any,
    max_cells: Any,
) -> tuple[Plan, Strategy]:
    """Return what is public and the strategy; refuse a model that is too large."""
    max_cells = min(check_size(max_cells, name="max_cells"), MAX_CELLS)
    cliques: tuple[Clique, ...] = ()
    if workload is not None:
        cliques = read_cliques("workload", workload, domain)
    plan = Plan(
        domain.sizes,
        ordered,
        max_cells,
        workload=cliques,
        zeros=find_zeros(domain, max_cells),
        target=_read_target(target, marginals, cliques, domain),
    )
    if isinstance(marginals, str):
        strategy = STRATEGIES[marginals]
    else:
        strategy = Given(read_cliques("marginals", marginals, domain))
    _check_size_of_model(plan, strategy)
    return plan, strategy


def _read_target(
    target: Any, marginals: Any, workload: Sequence[Clique], domain: Domain
) -> int | None:
    if target is None:
        return None
    choosing = [
        name for name, strategy in STRATEGIES.items() if not strategy.is_certain
    ]
    if not isinstance(marginals, str) or marginals not in choosing:
        raise ValueError(
            "target needs marginals='auto', which looks for what predicts it, got "
            f"{marginals!r}"
        )
    if target not in domain.columns:
        raise ValueError(
            f"target must be one of the columns {list(domain.columns)}, got {target!r}"
        )
    column = domain.columns.index(target)
    others = set[int]()
    for clique in workload:
        if column in clique:
            others.update(clique)
    if workload and not others - {column}:
        raise ValueError(
            f"workload must name target {target!r} together with another column"
        )
    return column


_MAX_TOGETHER = CLIQUES_OF_A_MODEL * MAX_CELLS
"""Cells of all cliques: two gigabytes."""


def _check_size_of_model(plan: Plan, strategy: Strategy) -> None:
    """Refuse a model that is too large, before anything is spent."""
    cells, total = _needed_cells(plan, strategy)
    if cells > MAX_CELLS:
        raise ValueError(
            f"the model of these marginals has a clique of {cells:,} cells "
            f"({8 * cells:,} bytes a table); at most {MAX_CELLS:,} cells are computed. "
            "Ask for fewer columns together, or for coarser bins"
        )
    if total > _MAX_TOGETHER:
        raise ValueError(
            f"the model of these marginals has {total:,} cells ({8 * total:,} bytes a "
            f"copy); at most {_MAX_TOGETHER:,} are computed. Ask for fewer marginals, "
            "or for coarser bins"
        )


def _needed_cells(plan: Plan, strategy: Strategy) -> tuple[int, int]:
    """Count the cells of the largest certain clique, and of all together."""
    # What is chosen by scores is checked when it is chosen.
    cliques = [clique for clique, _ in plan.zeros]
    if strategy.is_certain:
        cliques += strategy.candidates(plan)
    return Elimination(plan.sizes, cliques).n_cells


def read_cliques(name: str, cliques: Any, domain: Domain) -> tuple[Clique, ...]:
    """Read lists of column names as marginals."""
    kind = f"{name} must be a list of tuples of column names"
    if isinstance(cliques, str | Mapping) or not isinstance(cliques, Iterable):
        raise TypeError(f"{kind}, got {type(cliques).__name__}")
    marginals = []
    for clique in cliques:
        if isinstance(clique, str) or not isinstance(clique, Iterable):
            raise TypeError(f"{kind}; {clique!r} is no tuple")
        columns = []
        for column in clique:
            columns.append(find_column(domain, column, name))
        if not columns or len(set(columns)) < len(columns):
            raise ValueError(
                f"{name}: a tuple must name at least one column, each once, got "
                f"{clique!r}"
            )
        marginals.append(tuple(sorted(columns)))
    if not marginals:
        raise ValueError(f"{name} must have at least one tuple of columns")
    return tuple(dict.fromkeys(marginals))
