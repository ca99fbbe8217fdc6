"""A private table as integer codes, with the plan of what is measured of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.selection import Plan, Strategy, read_plan
from skdp.synthesis.tables import (
    cells_within,
    check_decodable,
    check_not_named,
    declared_orders,
    fine_grid,
    public_template,
    read_codes,
    read_declared,
)
from skdp.tables import Table

_OF_THE_PLAN = (
    "marginals",
    "workload",
    "target",
    "structural_zeros",
    "max_cells",
    "max_iter",
    "tol",
)


class CodedTable(NamedTuple):
    """The declared values of each column, the cells in which it is read, and the codes of these."""

    domain: Domain
    cells: Domain
    plan: Plan
    strategy: Strategy
    codes: list[NDArray[np.unsignedinteger]]
    others: dict[Any, Any]

    @property
    def first(self) -> list[tuple[int, ...]]:
        """The marginals that are counted first."""
        if self.cells is not self.domain:
            return [(column,) for column in range(len(self.cells.columns))]
        return self.strategy.first_cliques(self.plan)


def code_table(
    synthesizer: Any, table: Table, keep: NDArray[np.bool_], found: dict[Any, list[Any]]
) -> CodedTable:
    """Complete the domain, and code the rows that are kept and declared."""
    domain = read_declared(table, synthesizer.domain, found)
    if synthesizer.bins == "private":
        why = "whose bins bins='private' is to find; use bins='declared'"
        check_not_named(_intervals(domain), None, synthesizer.structural_zeros, why=why)
    options = {name: getattr(synthesizer, name) for name in _OF_THE_PLAN}
    plan, strategy = read_plan(
        domain, ordered=declared_orders(table, domain), **options
    )
    check_decodable(public_template(table, domain), domain)
    _check_widths(domain)
    others = {name: values[-1] for name, values in found.items()}
    cells = _cut(domain, fine_grid if synthesizer.bins == "private" else cells_within)
    codes = read_codes(table, cells, synthesizer.handle_unknown, others)
    declared = np.logical_and.reduce(
        [keep, *(code < n for code, n in zip(codes, cells.sizes, strict=True))]
    )
    codes = codes if declared.all() else [code[declared] for code in codes]
    return CodedTable(domain, cells, plan, strategy, codes, others)


def _cut(domain: Domain, cut: Callable[[Interval], Interval]) -> Domain:
    """Cut intervals into fine cells; return the domain itself if there is none to cut."""
    grids = {name: cut(values) for name, values in _intervals(domain).items()}
    if all(grid is domain[name] for name, grid in grids.items()):
        return domain
    return Domain({name: grids.get(name, domain[name]) for name in domain.columns})


def _check_widths(domain: Domain) -> None:
    """Refuse intervals whose width is no float."""
    for name, values in _intervals(domain).items():
        first, last = values.edges[0], values.edges[-1]
        if isinstance(first, float) and not math.isfinite(last - first):
            raise ValueError(
                f"the declared interval of column {name!r} is wider than the largest float, {sys.float_info.max:.1e}: "
                "declare closer ends"
            )


def _intervals(domain: Domain) -> dict[Any, Interval]:
    known = ((name, domain[name]) for name in domain.columns)
    return {name: values for name, values in known if isinstance(values, Interval)}
