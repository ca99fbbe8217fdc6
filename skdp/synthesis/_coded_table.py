"""A private table as integer codes, with the plan of what is measured of it."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.model import Clique
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


class CodedTable(NamedTuple):
    """What is declared of a table and planned with it, and the codes of its rows."""

    domain: Domain
    """The declared values of each column."""
    cells: Domain
    """The same, or finer cells of intervals, in which the table is read."""
    plan: Plan
    strategy: Strategy
    codes: list[NDArray[np.unsignedinteger]]
    """Of the cells, a column each, without rows that are left out."""
    others: dict[Any, Any]
    """What stands for all values of a column that were not found."""

    @property
    def first(self) -> list[Clique]:
        """The marginals that are counted first."""
        if self.cells is self.domain:
            return self.strategy.first_cliques(self.plan)
        return self.plan.columns


def code_table(
    synthesizer: Any, table: Table, keep: NDArray[np.bool_], values: dict[Any, Any]
) -> CodedTable:
    """Complete the domain by values that were found, and code the rows that count."""
    domain = read_declared(table, synthesizer.domain, values)
    finds_bins = synthesizer.bins == "private"
    if finds_bins:
        why = "whose bins bins='private' is to find; use bins='declared'"
        zeros = synthesizer.structural_zeros
        check_not_named(_intervals(domain), None, zeros, why=why)
    plan, strategy = read_plan(
        domain,
        ordered=declared_orders(table, domain),
        marginals=synthesizer.marginals,
        workload=synthesizer.workload,
        target=synthesizer.target,
        structural_zeros=synthesizer.structural_zeros,
        max_cells=synthesizer.max_cells,
        max_iter=synthesizer.max_iter,
        tol=synthesizer.tol,
    )
    check_decodable(public_template(table, domain), domain)
    _check_widths(domain)
    cells = _cut(domain, finds_bins)
    others = {name: listed[-1] for name, listed in values.items()}
    codes = read_codes(table, cells, synthesizer.handle_unknown, others)
    is_counted = keep
    for code, size in zip(codes, cells.sizes, strict=True):
        is_counted = is_counted & (code < size)
    if not is_counted.all():
        codes = [code[is_counted] for code in codes]
    return CodedTable(domain, cells, plan, strategy, codes, others)


def _cut(domain: Domain, finds_bins: bool) -> Domain:
    """Cut intervals into fine cells; return the domain itself if none is cut."""
    columns = {name: domain[name] for name in domain.columns}
    is_cut = False
    for name, interval in _intervals(domain).items():
        grid = fine_grid(interval) if finds_bins else cells_within(interval)
        columns[name] = grid
        is_cut = is_cut or grid is not interval
    return Domain(columns) if is_cut else domain


def _check_widths(domain: Domain) -> None:
    """Refuse intervals whose width is no float."""
    for name, interval in _intervals(domain).items():
        first, last = interval.edges[0], interval.edges[-1]
        if isinstance(first, float) and not math.isfinite(last - first):
            raise ValueError(
                f"the declared interval of column {name!r} is wider than the largest "
                f"float, {sys.float_info.max:.1e}: declare closer ends"
            )


def _intervals(domain: Domain) -> dict[Any, Interval]:
    intervals = {}
    for name in domain.columns:
        values = domain[name]
        if isinstance(values, Interval):
            intervals[name] = values
    return intervals
