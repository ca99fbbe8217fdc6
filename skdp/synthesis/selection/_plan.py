"""Public facts of a release: the marginals that may be measured, and the maximum size of the model."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_choice, find_stack_level
from skdp.domain import Categories, Domain, Interval
from skdp.pages import warn
from skdp.randomness import check_size
from skdp.synthesis.model import (
    MAX_TABLE_CELLS,
    Clique,
    Elimination,
    Structure,
    n_cells_of,
    shape_of,
)

MAX_COLUMNS = 500
CLIQUES_PER_MODEL = 4
"""All cliques together have at most so many times `max_cells` cells."""

NAMED_MARGINALS = ("auto", "full", "independent")

Masks = tuple[tuple[Clique, NDArray[np.bool_]], ...]


@dataclass(frozen=True)
class Plan:
    """Public facts and limits."""

    structure: Structure
    is_ordered: tuple[bool, ...]
    """Whether neighboring values of a column may be counted together."""
    max_cells: int
    cliques: tuple[Clique, ...] | None
    """The marginals to measure; None if they are selected by noisy scores."""
    workload: tuple[Clique, ...]
    """The marginals that matter; empty if all do."""
    target: int | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return self.structure.sizes

    @property
    def columns(self) -> list[Clique]:
        """The marginals of single columns."""
        return [(column,) for column in range(len(self.sizes))]

    @cached_property
    def labels(self) -> frozenset[int]:
        """The columns with two values, which models may predict."""
        return frozenset(i for i, size in enumerate(self.sizes) if size == 2)

    def with_domain(self, domain: Domain) -> Plan:
        """Return the plan for other bins of the same columns."""
        structure = replace(self.structure, sizes=domain.sizes)
        return replace(self, structure=structure)

    def n_cells(self, clique: Clique) -> int:
        """Count the cells of a marginal."""
        return n_cells_of(clique, self.sizes)

    def start_elimination(self, cliques: Iterable[Clique] = ()) -> Elimination:
        """Return the graph of a model with some marginals and all masks."""
        masked = [clique for clique, _ in self.structure.masks]
        return Elimination(self.sizes, [*cliques, *masked])

    def candidates(self, order: int) -> dict[Clique, int]:
        """Count for each marginal of an order how many of the workload contain it."""
        n_uses = Counter[Clique]()
        for marginal in self.workload or [tuple(range(len(self.sizes)))]:
            varying = [column for column in marginal if self.sizes[column] > 1]
            n_uses.update(itertools.combinations(varying, order))
        return {c: n for c, n in n_uses.items() if self.n_cells(c) <= self.max_cells}

    @cached_property
    def first_candidates(self) -> dict[Clique, int]:
        """The pairs that matter, and the larger marginals of the workload."""
        candidates = self.candidates(2)
        for clique in self.workload:
            if len(clique) > 2 and self.n_cells(clique) <= self.max_cells:
                holders = [c for c in self.workload if set(clique) <= set(c)]
                candidates[clique] = len(holders)
        return candidates

    def list_excluded(self) -> dict[Clique, str]:
        """List the marginals of the workload that are never measured, with reasons."""
        pairs: Iterable[Clique] = ()
        if self.cliques is None:
            pairs = itertools.combinations(range(len(self.sizes)), 2)
        reasons = {}
        for clique in self.workload or pairs:
            if self.cliques is not None:
                if not is_within(clique, self.cliques):
                    reasons[clique] = "`marginals` does not contain them"
            elif len(clique) > 1 and self.n_cells(clique) > self.max_cells:
                reasons[clique] = f"they have more than max_cells={self.max_cells:,}"
        return reasons

    def list_unchosen(self, measured: Collection[Clique]) -> dict[Clique, str]:
        """List the marginals of a given workload that were not chosen, with the reason."""
        excluded = self.list_excluded()
        reason = "their noise exceeds their gain, or the model would exceed max_cells"
        others = [clique for clique in self.workload if clique not in excluded]
        return {c: reason for c in others if not is_within(c, measured)}


def warn_excluded(domain: Domain, reasons: Mapping[Clique, str]) -> None:
    """Warn of marginals of the workload that are not measured, with the reasons."""
    if not reasons:
        return
    parts = []
    for clique, reason in itertools.islice(reasons.items(), 3):
        names = tuple(domain.columns[column] for column in clique)
        parts.append(f"{names!r} ({reason})")
    if len(reasons) > 3:
        parts.append(f"and {len(reasons) - 3} more")
    warn(
        f"{len(reasons)} marginals of the workload are not measured and are estimated "
        f"from other marginals: {'; '.join(parts)}",
        UserWarning,
        about="guide/synthetic_tables#accuracy",
        stacklevel=find_stack_level(),
    )


def is_within(clique: Clique, marginals: Iterable[Clique]) -> bool:
    """Return True if one of the marginals has all columns of the clique."""
    return any(set(clique) <= set(marginal) for marginal in marginals)


def make_plan(
    domain: Domain, marginals: Any, workload: Any, target: Any, max_cells: Any
) -> Plan:
    """Check the parameters that name marginals; raise before anything is charged."""
    n_cells = min(check_size(max_cells, name="max_cells"), MAX_TABLE_CELLS)
    values = [domain[name] for name in domain.columns]
    cliques = () if workload is None else read_cliques("workload", workload, domain)
    plan = Plan(
        structure=structure_of(domain, n_cells),
        is_ordered=tuple(isinstance(v, Interval) or v.ordered for v in values),
        max_cells=n_cells,
        cliques=_read_marginals(marginals, domain),
        workload=cliques,
        target=_read_target(target, marginals, domain),
    )
    largest, total = plan.start_elimination(plan.cliques or ()).n_cells
    if largest > MAX_TABLE_CELLS or total > CLIQUES_PER_MODEL * MAX_TABLE_CELLS:
        raise ValueError(
            f"The model of these marginals has a table of {largest:,} cells, and "
            f"{total:,} cells together; at most {MAX_TABLE_CELLS:,} and "
            f"{CLIQUES_PER_MODEL * MAX_TABLE_CELLS:,} are computed. Use fewer columns "
            "or coarser bins."
        )
    return plan


def structure_of(domain: Domain, max_cells: int) -> Structure:
    """Return the public facts of the model of a domain."""
    has_tails = tuple(isinstance(domain[name], Interval) for name in domain.columns)
    return Structure(domain.sizes, has_tails, find_masks(domain, max_cells))


def check_width(n_columns: int) -> None:
    """Check the number of columns."""
    if n_columns > MAX_COLUMNS:
        raise ValueError(
            f"X must have at most {MAX_COLUMNS} columns, got {n_columns}: the budget is "
            "split among them. Select columns by public knowledge first."
        )


def _read_marginals(marginals: Any, domain: Domain) -> tuple[Clique, ...] | None:
    """Read the parameter `marginals`; None if they are selected by noisy scores."""
    if not isinstance(marginals, str):
        return read_cliques("marginals", marginals, domain)
    check_choice("`marginals`", marginals, NAMED_MARGINALS)
    columns = tuple(range(len(domain.columns)))
    singles = tuple((column,) for column in columns)
    return {"auto": None, "full": (columns,), "independent": singles}[marginals]


def _read_target(target: Any, marginals: Any, domain: Domain) -> int | None:
    if target is None:
        return None
    if not isinstance(marginals, str) or marginals != "auto":
        raise ValueError(f"`target` requires marginals='auto', got {marginals!r}.")
    (column,) = find_columns(domain, [target], "target")
    return column


def find_columns(domain: Domain, names: Iterable[Any], parameter: str) -> list[int]:
    """Return the numbers of distinct columns, at least one."""
    listed = list(names)
    columns = []
    for name in listed:
        if name not in domain.columns:
            raise ValueError(
                f"`{parameter}` must name columns of the model, {list(domain.columns)}, "
                f"got {name!r}."
            )
        columns.append(domain.columns.index(name))
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(
            f"`{parameter}` must name at least one column, each once, got {listed}."
        )
    return columns


def read_cliques(name: str, cliques: Any, domain: Domain) -> tuple[Clique, ...]:
    """Read tuples of column names as cliques."""
    is_list = isinstance(cliques, Iterable) and not isinstance(cliques, str | Mapping)
    listed = list(cliques) if is_list else []
    if not is_list or any(
        isinstance(clique, str) or not isinstance(clique, Iterable) for clique in listed
    ):
        raise TypeError(f"`{name}` must be a list of tuples of column names.")
    if not listed:
        raise ValueError(f"`{name}` must have at least one tuple of column names.")
    read = [tuple(sorted(find_columns(domain, clique, name))) for clique in listed]
    return tuple(dict.fromkeys(read))


def find_masks(domain: Domain, max_cells: int) -> Masks:
    """List the impossible cells of constraints between columns of listed values."""
    # Constraints on numbers, and constraints with too many cells, are enforced by
    # resampling rows that violate them.
    graph = Elimination(domain.sizes)
    masks: dict[Clique, NDArray[np.bool_]] = {}
    for constraint in domain._constraints:
        names = [name for name in domain.columns if name in constraint.columns]
        clique = tuple(map(domain.columns.index, names))
        is_listed = all(isinstance(domain[name], Categories) for name in names)
        if not is_listed or len(names) < len(constraint.columns) or clique in masks:
            continue
        if not graph.add(clique, max_cells, CLIQUES_PER_MODEL * max_cells):
            continue
        shape = shape_of(clique, domain.sizes)
        columns = {}
        for name, codes in zip(names, np.indices(shape), strict=True):
            values = np.empty(len(domain[name]), object)
            values[:] = domain[name].values
            columns[name] = pd.Series(values[codes.ravel()], dtype=object)
        is_valid = domain.select(names).check_constraints(pd.DataFrame(columns))
        if not is_valid.any():
            raise ValueError(
                f"The constraints {list(domain.constraints)} exclude all combinations of "
                "declared values. Remove some of them, or declare further values."
            )
        if not is_valid.all():
            masks[clique] = ~is_valid.reshape(shape)
    return tuple(masks.items())
