"""What the strategies share: what is public, fitting a model, and warnings."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.oracles import project_to_simplex
from skdp.pages import warn
from skdp.synthesis.model import (
    MAX_CELLS,
    Clique,
    Elimination,
    GraphicalModel,
    JunctionTree,
    Marginal,
    estimate_total,
    fit_model,
    forbid,
    independent_start,
    merge,
    n_cells_of,
)
from skdp.synthesis.selection._private_table import PrivateTable

Zeros = tuple[tuple[Clique, NDArray[np.bool_]], ...]
"""Columns, and which of their cells are impossible."""

CLIQUES_OF_A_MODEL = 4
"""Times the most cells of a clique: what all cliques of a model may have."""


@dataclass(frozen=True)
class Plan:
    """Public facts and limits."""

    sizes: tuple[int, ...]
    """The number of declared values of each column."""
    ordered: tuple[bool, ...]
    """Whether neighbouring values may be counted together."""
    max_cells: int
    """The most cells of a clique of the model."""
    workload: tuple[Clique, ...] = ()
    """The marginals that matter; all if there are none."""
    zeros: Zeros = field(default=(), repr=False)
    target: int | None = None
    """The column that rows will be used to predict."""

    @property
    def columns(self) -> list[Clique]:
        """The marginals of single columns."""
        return [(column,) for column in range(len(self.sizes))]

    @cached_property
    def likely_labels(self) -> frozenset[int]:
        """The columns of two declared values."""
        return frozenset(i for i, size in enumerate(self.sizes) if size <= 2)

    def n_cells(self, clique: Iterable[int]) -> int:
        """Count the cells of a marginal."""
        return n_cells_of(clique, self.sizes)

    def candidates(self, order: int) -> dict[Clique, int]:
        """List the marginals of an order that matter: in how many of the workload."""
        # Without a workload, all columns together are one: each marginal counts once.
        n_uses = Counter[Clique]()
        for marginal in self.workload or [tuple(range(len(self.sizes)))]:
            columns = list(marginal)
            if order > 1:  # a column of one value depends on no other
                columns = [column for column in marginal if self.sizes[column] > 1]
            n_uses.update(itertools.combinations(columns, order))
        for clique in list(n_uses):
            if self.n_cells(clique) > self.max_cells:
                del n_uses[clique]
        return dict(n_uses)

    @cached_property
    def first_candidates(self) -> Mapping[Clique, int]:
        """The pairs that matter, and the larger marginals of the workload."""
        candidates = self.candidates(2)
        for clique in self.workload:
            if len(clique) > 2 and self.n_cells(clique) <= self.max_cells:
                candidates[clique] = len(_holders(clique, self.workload))
        return candidates


class Room:
    """The room of a model for further marginals beside those that it has."""

    # Structural zeros take room, too: the model has a clique for each of them.

    def __init__(self, plan: Plan, cliques: Iterable[Clique] = ()) -> None:
        self._max_cells = plan.max_cells
        zeros = [clique for clique, _ in plan.zeros]
        self._graph = Elimination(plan.sizes, [*cliques, *zeros])

    def add(self, clique: Clique) -> None:
        """Add a marginal that the model has in any case."""
        self._graph.add(clique, MAX_CELLS, CLIQUES_OF_A_MODEL * MAX_CELLS)

    def take(self, clique: Clique) -> bool:
        """Add a marginal if the model stays small enough; return whether it does."""
        total = CLIQUES_OF_A_MODEL * self._max_cells
        return self._graph.add(clique, self._max_cells, total)


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What is known of a table."""

    model: GraphicalModel
    total: float
    std_error: float
    losses: list[float]
    scores: Mapping[Clique, tuple[float, float]] = field(default_factory=dict)
    """The noisy scores of marginals, twice the misplaced records, and their errors."""
    unknown: tuple[Clique, ...] = ()
    """Strong pairs for which the model has no room."""


class Strategy(ABC):
    """A way of choosing the marginals that are measured."""

    is_certain = False
    """Whether the candidates are measured for any data, and no others."""

    beyond = ""
    """Why other marginals are not measured, if the candidates are certain."""

    @abstractmethod
    def candidates(self, plan: Plan) -> Collection[Clique]:
        """List the marginals that may be measured, and are counted at the start."""

    @abstractmethod
    def measure(self, table: PrivateTable, plan: Plan) -> FittedTable:
        """Spend the budget of a table, and fit a model to what was measured."""

    def first_cliques(self, plan: Plan) -> list[Clique]:
        """List what is counted at the start: a large table is read once for it."""
        cliques = [*plan.columns, *self.candidates(plan)]
        return list(dict.fromkeys(cliques))

    def certain(self, plan: Plan) -> list[Clique]:
        """List the marginals that are measured for any data."""
        return list(self.candidates(plan)) if self.is_certain else []


def fit_table(
    sizes: Sequence[int],
    marginals: Iterable[Marginal],
    *,
    zeros: Zeros = (),
) -> FittedTable:
    """Fit a model to all that was measured."""
    # The descent starts at independent columns: what remains where little is known of
    # their dependence.
    merged = merge(marginals)
    total, std_error = estimate_total(merged)
    cliques = [marginal.clique for marginal in merged]
    for clique, _ in zeros:
        cliques.append(clique)
    tree = JunctionTree(sizes, cliques)
    shares = []
    for column, size in enumerate(sizes):
        shares.append(_start_shares(column, size, merged, total))
    start = forbid(tree, independent_start(tree, shares), zeros)
    fit = fit_model(tree, merged, total, start=start)
    return FittedTable(fit.model, total, std_error, fit.losses)


def fit_measured(table: PrivateTable, plan: Plan) -> FittedTable:
    """Fit a model to what was measured of a table so far."""
    return fit_table(
        plan.sizes,
        table.marginals,
        zeros=plan.zeros,
    )


def column_counts(
    column: int, size: int, marginals: Iterable[Marginal], total: float
) -> NDArray[np.float64]:
    """Estimate the counts of one column: not negative, and adding up to the total."""
    # The nearest such counts, in the least squares: cutting off negative counts alone
    # would add records to rare values.
    counts, error = _most_precise(column, marginals)
    if error == math.inf:
        return np.full(size, total / size)
    return project_to_simplex(counts, total)


_CLEAR_STD_ERRORS, _START_STD_ERRORS = 2.0, 0.01
"""Standard errors below which a value starts as if it had no record, and which all values get.

Otherwise noise in a long tail of a column would decide on its mean."""


def _start_shares(
    column: int, size: int, marginals: Iterable[Marginal], total: float
) -> NDArray[np.float64]:
    """Return the distribution of a column at which the descent starts, positive everywhere."""
    noisy, error = _most_precise(column, marginals)
    if error == math.inf:
        return np.full(size, 1 / size)
    counts = project_to_simplex(noisy, total)
    counts[counts < _CLEAR_STD_ERRORS * error] = 0
    counts += _START_STD_ERRORS * error
    return np.asarray(counts / counts.sum())


def _most_precise(
    column: int, marginals: Iterable[Marginal]
) -> tuple[NDArray[np.float64], float]:
    """Return the counts of a column with the least noise; of infinite noise if none."""
    # Counts of groups of values do not tell of single ones, so they are left out.
    best = np.zeros(1)
    least_error = math.inf
    for marginal in marginals:
        if not marginal.has_cells_of((column,)):
            continue
        counts, error = marginal.counts_of((column,))
        if error < least_error:
            best = counts
            least_error = error
    return best, least_error


COLUMN_SHARE = Fraction(1, 20)
"""The share of the budget of the first counts of columns, which come before any scores.

Halving and doubling: see `Auto`."""


def measure_columns(
    table: PrivateTable, plan: Plan, share: Fraction, *, equal: bool = False
) -> list[NDArray[np.float64]]:
    """Measure each column by itself."""
    # With equal shares all columns have the same noise, as long as nothing is known;
    # by their sizes, the sum of all errors is least: a column has as many errors as
    # values, all in proportion to the standard deviation that its share buys.
    weights = [1] * len(plan.sizes) if equal else plan.sizes
    shares = table.budget.best_shares(weights, share)
    for clique, part in zip(plan.columns, shares, strict=True):
        table.measure(clique, part)
    total, _ = estimate_total(table.marginals)
    counts = []
    for column, size in enumerate(plan.sizes):
        counts.append(column_counts(column, size, table.marginals, total))
    return counts


_N_NAMED = 3
"""The most marginals that a warning names."""

_NOT_CHOSEN = (
    "not worth their noise at this epsilon, by the noisy scores, or the model would "
    "exceed max_cells"
)


def out_of_reach(plan: Plan, strategy: Strategy) -> dict[Clique, str]:
    """List the marginals of the workload that a strategy never measures, and why."""
    reasons = {}
    certain = strategy.certain(plan)
    for clique in plan.workload:
        if strategy.is_certain:
            if not _is_held(clique, certain):
                reasons[clique] = strategy.beyond
        elif len(clique) > 1 and plan.n_cells(clique) > plan.max_cells:
            reasons[clique] = f"more than max_cells = {plan.max_cells:,} cells"
    return reasons


def warn_not_chosen(
    plan: Plan,
    strategy: Strategy,
    names: Sequence[object],
    measured: Collection[Clique],
    warned: Collection[Clique],
) -> None:
    """Warn of further marginals of the workload that were not measured."""
    # What cannot be measured at all was named before the charge.
    never = out_of_reach(plan, strategy)
    reasons = {}
    for clique in plan.workload:
        if clique not in warned and not _is_held(clique, measured):
            reasons[clique] = never.get(clique, _NOT_CHOSEN)
    warn_left_out(plan, names, reasons)


def warn_unknown(
    plan: Plan,
    strategy: Strategy,
    names: Sequence[object],
    unknown: Sequence[Clique],
) -> None:
    """Warn of strong pairs without room, and of pairs that are too large to score."""
    large = []
    for pair in itertools.combinations(range(len(plan.sizes)), 2):
        if plan.n_cells(pair) > plan.max_cells:
            large.append(pair)
    limit = f"max_cells = {plan.max_cells:,}"
    advice = "Set max_cells higher, or declare coarser bins"
    if large and not strategy.is_certain and not plan.workload:
        warn(
            f"pairs of columns with more than {limit} cells are neither scored nor "
            f"measured: {_listed(large, names)}. {advice}",
            UserWarning,
            about="guide/synthetic_tables#what-it-costs",
            stacklevel=level_of_the_caller(),
        )
    if unknown:
        warn(
            "by their noisy scores, some pairs of columns depend strongly that the "
            f"model does not know: it would exceed {limit} with "
            f"{_listed(unknown, names)}. {advice}",
            UserWarning,
            about="guide/synthetic_tables#what-it-costs",
            stacklevel=level_of_the_caller(),
        )


def _listed(cliques: Sequence[Clique], names: Sequence[object]) -> str:
    names_of_cliques = [_named(clique, names) for clique in cliques[:_N_NAMED]]
    text = ", ".join(names_of_cliques)
    n_more = len(cliques) - _N_NAMED
    return f"{text} and {n_more} more" if n_more > 0 else text


def _named(clique: Clique, names: Sequence[object]) -> str:
    return repr(tuple(map(names.__getitem__, clique)))


def warn_left_out(
    plan: Plan, names: Sequence[object], reasons: Mapping[Clique, str]
) -> None:
    """Warn of marginals of the workload that are not measured, with the reasons."""
    if not reasons:
        return
    by_reason: dict[str, list[Clique]] = {}
    for clique, reason in reasons.items():
        by_reason.setdefault(reason, []).append(clique)
    parts = []
    for reason, cliques in by_reason.items():
        sentence = f"{reason}: {_listed(cliques, names)}"
        parts.append(sentence[0].upper() + sentence[1:])
    warn(
        f"{len(reasons)} of {len(plan.workload)} marginals of the workload are not "
        "measured; the model knows them only by other marginals. "
        f"{'. '.join(parts)}",
        UserWarning,
        about="guide/synthetic_tables#what-it-costs",
        stacklevel=level_of_the_caller(),
    )


def _holders(clique: Clique, marginals: Iterable[Clique]) -> list[Clique]:
    """List the marginals that hold all columns of another one."""
    return [marginal for marginal in marginals if set(clique) <= set(marginal)]


def _is_held(clique: Clique, marginals: Iterable[Clique]) -> bool:
    return bool(_holders(clique, marginals))
