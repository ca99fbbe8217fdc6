"""A private table as it is declared, planned and coded."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.model import Clique
from skdp.synthesis.selection import (
    Plan,
    Strategy,
    read_plan,
)
from skdp.synthesis.tables import (
    CodedRecords,
    LargeRecords,
    Records,
    cells_within,
    check_decodable,
    complete_domain,
    declared_orders,
    fine_grid,
    read_codes,
    sample_template,
)
from skdp.tables import LargeTable, Table

_FEW_VALUES = 32
"""Declared bins of single values that are left as they are where bins are found."""


class PrivateRows(NamedTuple):
    """A private table, and where it is if it is large."""

    table: Table
    """The columns of the model, the target last."""
    features: tuple[Any, ...]
    """The columns of X, derived ones included."""
    is_counted: NDArray[np.bool_]
    """Whether each row counts."""
    large: LargeTable | None

    @property
    def target(self) -> list[Any]:
        """The name of the target, if there is one."""
        return [name for name in self.table.names if name not in self.features]

    def records(self, coded: CodedTable, handle_unknown: Any) -> Records:
        """Return the records, by the codes of their cells."""
        if self.large is not None:
            return LargeRecords(self.large, coded.cells, handle_unknown)
        return CodedRecords(coded.codes, coded.cells.sizes)


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

    @property
    def first_cliques(self) -> list[Clique]:
        """The marginals that are counted first."""
        if self.cells is self.domain:
            return self.strategy.first_cliques(self.plan)
        return self.plan.columns


def code_table(
    synthesizer: Any, table: Table, is_counted: NDArray[np.bool_]
) -> CodedTable:
    """Code the rows that count."""
    domain = complete_domain(table, synthesizer.domain)
    finds_bins = synthesizer.bins == "private"
    plan, strategy = _read_plan(synthesizer, domain)
    check_decodable(sample_template(table, domain), domain)
    _check_widths(domain)
    cells = _cut(domain, finds_bins)
    _check_unknown_names(synthesizer.handle_unknown, domain)
    codes = read_codes(table, cells, synthesizer.handle_unknown)
    codes = _counted_codes(codes, cells.sizes, is_counted)
    return CodedTable(domain, cells, plan, strategy, codes)


def _check_unknown_names(handle_unknown: Any, domain: Domain) -> None:
    """Refuse a value for the unknown ones of a column that the domain lacks."""
    if not isinstance(handle_unknown, Mapping):
        return
    for name in handle_unknown:
        if name not in domain.columns:
            raise ValueError(
                f"handle_unknown names {name!r}, which is no column of the domain"
            )


def _read_plan(synthesizer: Any, domain: Domain) -> tuple[Plan, Strategy]:
    """Read what is measured, and by which strategy."""
    return read_plan(
        domain,
        ordered=declared_orders(domain),
        marginals=synthesizer.marginals,
        workload=synthesizer.workload,
        target=synthesizer.target,
        max_cells=synthesizer.max_cells,
    )


def _counted_codes(
    codes: list[NDArray[np.unsignedinteger]],
    sizes: Sequence[int],
    is_counted: NDArray[np.bool_],
) -> list[NDArray[np.unsignedinteger]]:
    """Return the codes of the rows that count: no column has an unknown value there."""
    is_known = is_counted
    for code, size in zip(codes, sizes, strict=True):
        is_known = is_known & (code < size)
    if is_known.all():
        return codes
    return [code[is_known] for code in codes]


def _cut(domain: Domain, finds_bins: bool) -> Domain:
    """Cut intervals into fine cells; return the domain itself if none is cut."""
    columns: dict[Any, Any] = {}
    for name in domain.columns:
        columns[name] = domain[name]
    is_cut = False
    for name, interval in _intervals(domain).items():
        grid = cells_within(interval)
        # A few single values stay bins, as they would as a list.
        has_few_values = grid is interval and len(interval) <= _FEW_VALUES
        if finds_bins and not has_few_values:
            grid = fine_grid(interval)
        columns[name] = grid
        is_cut = is_cut or grid is not interval
    return Domain(columns) if is_cut else domain


def _check_widths(domain: Domain) -> None:
    """Refuse intervals whose width is no float."""
    for name, interval in _intervals(domain).items():
        first, upper_end = interval.edges[0], interval.edges[-1]
        if isinstance(first, float) and not math.isfinite(upper_end - first):
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
