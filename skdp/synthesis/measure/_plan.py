"""Public facts of a fit: the marginals that may be measured, and the largest size of the model."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from skdp._arrays import ColumnName
from skdp.base import check_choice, check_column_name, find_stack_level
from skdp.domain import Categories, Domain, Interval
from skdp.pages import warn
from skdp.randomness import check_size
from skdp.synthesis.measure._rules import (
    CLIQUES_PER_MODEL,
    find_masks,
    list_related,
)
from skdp.synthesis.model import (
    MAX_TABLE_CELLS,
    Clique,
    Elimination,
    Structure,
    ValueGroups,
    n_cells_of,
)
from skdp.synthesis.private._table import find_others

NAMED_MARGINALS = ("auto", "full", "independent")


@dataclass(frozen=True)
class MarginalPlan:
    """The marginals of a fit and the limits of its model, by public facts alone."""

    structure: Structure
    is_ordered: tuple[bool, ...]
    """True for each column whose neighboring values may be counted together."""
    max_cells: int
    cliques: tuple[Clique, ...] | None
    """The marginals to measure; None if they are selected by noisy scores."""
    workload: tuple[Clique, ...]
    """The marginals that matter; empty if all do."""
    target: int | None = None
    """The column that downstream models predict."""
    favored: frozenset[Clique] = frozenset()
    """Pairs whose errors have a larger weight."""
    related: tuple[Clique, ...] = ()
    """Pairs of columns that constraints relate, which are measured in any case if they fit into the model."""
    others: frozenset[int] = frozenset()
    """The columns with a value for all values that are not found."""

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
        """The columns with two values, without one of `others`, which models may predict."""
        columns = enumerate(self.sizes)
        return frozenset(c for c, size in columns if size - (c in self.others) == 2)

    def with_domain(self, domain: Domain) -> MarginalPlan:
        """Return the plan for other bins of the same columns."""
        structure = make_structure(domain, self.max_cells)
        return replace(self, structure=structure, others=find_others(domain))

    def n_cells(self, clique: Clique) -> int:
        """Count the cells of a marginal."""
        return n_cells_of(clique, self.sizes)

    def start_elimination(
        self,
        cliques: Iterable[Clique] = (),
        groups: Mapping[Clique, ValueGroups] | None = None,
    ) -> tuple[Elimination, dict[Clique, Clique]]:
        """Return the graph of a model with some marginals and all constraints.

        `groups` has marginals by groups of values; also return their columns in the model.
        """
        groups = groups or {}
        structure, refined = self.structure.refine(groups.items())
        columns = dict(zip(groups, refined, strict=True))
        masked = [clique for clique, _ in structure.masks]
        marginals = [*(columns.get(c, c) for c in cliques), *masked]
        return Elimination(structure.sizes, marginals, structure.given), columns

    def count_listed(self) -> tuple[int, int]:
        """Return the number of cells of the largest clique of a model with the listed marginals, and of all cliques."""
        return self.start_elimination(self.cliques or ())[0].n_cells

    def limit_values(self, texts: Sequence[int]) -> int:
        """Return the largest number of values to find, beside all others, for which pairs and listed marginals fit.

        `texts` are the columns whose values are found.
        """
        n_values = max(2, math.isqrt(self.max_cells))
        while n_values > 2 and self.cliques:
            sizes = list(self.sizes)
            for column in texts:
                sizes[column] = n_values
            structure = replace(self.structure, sizes=tuple(sizes))
            if replace(self, structure=structure).allows_listed():
                break
            n_values = max(2, n_values * 3 // 4)
        return n_values - 1

    def allows_listed(self) -> bool:
        """Return True if a model with the listed marginals has few enough cells."""
        largest, total = self.count_listed()
        is_small = total <= CLIQUES_PER_MODEL * MAX_TABLE_CELLS
        return is_small and largest <= MAX_TABLE_CELLS

    def candidates(self, order: int) -> dict[Clique, int]:
        """List the marginals of `order` columns, with the number of marginals of the workload that contain each."""
        n_uses = Counter[Clique]()
        for marginal in self.workload or [tuple(range(len(self.sizes)))]:
            # A column of one value depends on no other column.
            varying = [column for column in marginal if self.sizes[column] > 1]
            n_uses.update(itertools.combinations(varying, order))
        candidates = {}
        for clique, n in n_uses.items():
            if self.n_cells(clique) <= self.max_cells:
                candidates[clique] = n
        return candidates

    @cached_property
    def first_candidates(self) -> dict[Clique, int]:
        """The pairs of columns of the workload and its larger marginals, with the number of their uses."""
        candidates = self.candidates(2)
        for clique in self.workload:
            if len(clique) > 2 and self.n_cells(clique) <= self.max_cells:
                candidates[clique] = sum(map(set(clique).issubset, self.workload))
        return candidates

    def list_excluded(self) -> dict[Clique, str]:
        """List the marginals of the workload that are not measured for any data, with reasons."""
        pairs: Iterable[Clique] = ()
        if self.cliques is None:
            pairs = itertools.combinations(range(len(self.sizes)), 2)
        reasons = {}
        for clique in self.workload or pairs:
            if self.cliques is not None:
                if not is_within(clique, self.cliques):
                    reasons[clique] = "not in `marginals`"
            elif len(clique) > 1 and self.n_cells(clique) > self.max_cells:
                reasons[clique] = f"more than max_cells={self.max_cells:,} cells"
        return reasons

    def list_unchosen(self, measured: Collection[Clique]) -> dict[Clique, str]:
        """List the marginals of the workload that noisy scores did not select, with the reason."""
        excluded = self.list_excluded()
        reason = "more noise than gain, or a model with more than max_cells cells"
        reasons = {}
        for clique in self.workload:
            if clique not in excluded and not is_within(clique, measured):
                reasons[clique] = reason
        return reasons


def warn_excluded(domain: Domain, reasons: Mapping[Clique, str]) -> None:
    """Warn of marginals of the workload that are not measured, with the reasons."""
    if not reasons:
        return
    listed = []
    for clique, reason in itertools.islice(reasons.items(), 3):
        names = tuple(map(domain.columns.__getitem__, clique))
        listed.append(f"{names!r} ({reason})")
    if len(reasons) > 3:
        listed.append(f"and {len(reasons) - 3} more")
    warn(
        f"{len(reasons)} marginals of the workload are not measured and are estimated "
        f"from other marginals: {'; '.join(listed)}",
        UserWarning,
        about="guide/synthetic_tables#accuracy",
        stacklevel=find_stack_level(),
    )


def is_within(clique: Clique, marginals: Iterable[Clique]) -> bool:
    """Return True if one of the marginals has all columns of the clique."""
    return any(set(clique) <= set(marginal) for marginal in marginals)


def make_plan(
    domain: Domain,
    marginals: object,
    workload: object,
    target: ColumnName | None,
    max_cells: object,
) -> MarginalPlan:
    """Check the parameters that name marginals, and plan the model."""
    n_cells = min(check_size(max_cells, name="max_cells"), MAX_TABLE_CELLS)
    values = [domain[name] for name in domain.columns]
    cliques = () if workload is None else read_cliques("workload", workload, domain)
    plan = MarginalPlan(
        structure=make_structure(domain, n_cells),
        is_ordered=tuple(isinstance(v, Interval) or v.ordered for v in values),
        max_cells=n_cells,
        cliques=_read_marginals(marginals, domain),
        workload=cliques,
        target=_read_target(target, marginals, domain),
        related=tuple(list_related(domain)),
        others=find_others(domain),
    )
    largest, total = plan.count_listed()
    if not plan.allows_listed():
        raise ValueError(
            f"`marginals` must require at most {MAX_TABLE_CELLS:,} cells per table and "
            f"{CLIQUES_PER_MODEL * MAX_TABLE_CELLS:,} in total, got {largest:,} and "
            f"{total:,} in total. Use fewer columns or coarser bins."
        )
    return plan


def make_structure(
    domain: Domain, max_cells: int, given: frozenset[int] = frozenset()
) -> Structure:
    """Make the structure of a model: the sizes of the columns of a domain, and the cells that constraints exclude.

    Constraints that require tables of more than `max_cells` cells, or that read a single number or numbers without
    bins, exclude no cell. If `given` is not empty, all other columns are drawn given these columns.
    """
    masks = find_masks(domain, max_cells, given)
    return Structure(domain.sizes, masks, given, list_ordered(domain))


def list_ordered(domain: Domain) -> tuple[int, ...]:
    """Return the number of ordered values of each column; 0 for an unordered column."""
    n_ordered = []
    for values in domain.values():
        has_order = isinstance(values, Interval) or values.ordered
        n_ordered.append(count_ordered(values) if has_order else 0)
    return tuple(n_ordered)


def count_ordered(values: Categories | Interval) -> int:
    """Count the values of a column that may be ordered, which are its first values: missing has no order."""
    if isinstance(values, Interval):
        return len(values) - values.missing
    return len(values) - (values.values[-1] is None)


def _read_marginals(marginals: object, domain: Domain) -> tuple[Clique, ...] | None:
    """Read the parameter `marginals`; None if they are selected by noisy scores."""
    if not isinstance(marginals, str):
        return read_cliques("marginals", marginals, domain)
    check_choice("marginals", marginals, NAMED_MARGINALS)
    columns = tuple(range(len(domain.columns)))
    singles = tuple((column,) for column in columns)
    return {"auto": None, "full": (columns,), "independent": singles}[marginals]


def _read_target(
    target: ColumnName | None, marginals: object, domain: Domain
) -> int | None:
    """Return the index of the column that the parameter `target` names; None without a target."""
    if target is None:
        return None
    if not isinstance(marginals, str) or marginals != "auto":
        raise ValueError(f"`target` requires `marginals='auto'`, got {marginals!r}.")
    (column,) = find_columns(domain, [target], "target")
    return column


def find_columns(domain: Domain, names: Iterable[Any], parameter: str) -> list[int]:
    """Return the indices of at least one column, each named once by a parameter."""
    listed = list(names)
    columns = []
    for name in listed:
        check_column_name(parameter, name)
        if name not in domain.columns:
            raise ValueError(
                f"`{parameter}` must name columns of the model, "
                f"{list(domain.columns)}, got {name!r}."
            )
        columns.append(domain.columns.index(name))
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(
            f"`{parameter}` must name at least one column, and none twice, got {listed}."
        )
    return columns


def read_cliques(name: str, cliques: object, domain: Domain) -> tuple[Clique, ...]:
    """Read tuples of column names as cliques."""
    if isinstance(cliques, str | Mapping | Iterator) or not isinstance(
        cliques, Iterable
    ):
        raise TypeError(
            f"`{name}` must be a list of tuples of column names, got "
            f"{type(cliques).__name__}."
        )
    indices = []
    for names in cliques:
        if isinstance(names, str | Iterator) or not isinstance(names, Iterable):
            raise TypeError(
                f"`{name}` must be a list of tuples of column names, got "
                f"{type(names).__name__} in the list."
            )
        indices.append(tuple(sorted(find_columns(domain, names, name))))
    if not indices:
        raise ValueError(
            f"`{name}` must have at least one tuple of column names, got none."
        )
    return tuple(dict.fromkeys(indices))
