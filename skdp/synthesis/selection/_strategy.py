"""What the strategies share: what is public, measuring and scoring, fitting a model, and warnings."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.oracles import project_to_simplex
from skdp.synthesis.model import (
    TOLERANCE,
    Clique,
    Elimination,
    GraphicalModel,
    Groups,
    JunctionTree,
    Marginal,
    estimate_total,
    expand,
    fit_model,
    group,
    independent_start,
    merge,
)
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._start import Column, follow

_FEW = 3
_NOT_CHOSEN = "not worth their noise at this epsilon, by the noisy scores, or the model would exceed max_cells"
MOST_TOGETHER = 4
"""Times the most cells of a clique: what all cliques of a model may have."""


@dataclass(frozen=True)
class Plan:
    """Public facts and limits."""

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    max_cells: int
    workload: tuple[Clique, ...] = ()
    max_iter: int = 300
    zeros: tuple[tuple[Clique, NDArray[np.bool_]], ...] = field(default=(), repr=False)
    tol: float = TOLERANCE
    target: int | None = None
    """The column that rows will be used to predict."""

    def n_cells(self, clique: Iterable[int]) -> int:
        return math.prod(self.sizes[column] for column in clique)

    def candidates(self, order: int) -> dict[Clique, int]:
        """List the marginals of some order that matter, and how much."""
        columns = range(len(self.sizes))
        workload = self.workload or [tuple(columns)]
        found = Counter(
            subset
            for wanted in workload
            for subset in itertools.combinations(wanted, order)
        )
        return {
            clique: weight
            for clique, weight in found.items()
            if self.n_cells(clique) <= self.max_cells
        }

    def first_candidates(self) -> dict[Clique, int]:
        """List the pairs that matter, and the larger marginals of the workload."""
        larger = [
            clique
            for clique in self.workload
            if len(clique) > 2 and self.n_cells(clique) <= self.max_cells
        ]
        wanted = [frozenset(clique) for clique in self.workload]
        return self.candidates(2) | {
            clique: sum(map(frozenset(clique).issubset, wanted)) for clique in larger
        }


class Room:
    """The room of a model for further marginals beside those that it has."""

    def __init__(self, plan: Plan, cliques: Iterable[Clique] = ()) -> None:
        self._limits = plan.max_cells, MOST_TOGETHER * plan.max_cells
        self._graph = Elimination(
            plan.sizes, [*cliques, *(clique for clique, _ in plan.zeros)]
        )

    def take(self, clique: Clique) -> bool:
        """Add a marginal if the model stays small enough; return whether it does."""
        fits = self._graph.fits(clique, *self._limits)
        if fits:
            self._graph.add(clique)
        return fits


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What is known of a table."""

    model: GraphicalModel
    total: float
    std_error: float
    losses: list[float]
    unknown: tuple[Clique, ...] = ()
    """Strong pairs for which the model has no room."""
    factors: Mapping[Clique, NDArray[np.float64]] = field(default_factory=dict)
    """Of the model, to fit it further when more is measured."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way of choosing the marginals that are measured."""

    measure: Callable[[PrivateTable, Plan], FittedTable]
    """Spend the budget of a table, and fit a model to what was measured."""

    candidates: Callable[[Plan], Collection[Clique]]
    """The marginals that may be measured, and are counted at the start."""

    certain: bool
    """Whether these are measured for any data, and no others; or noisy scores decide."""

    beyond: str = ""
    """Why others are not measured, if these are certain."""


def first_cliques(plan: Plan, strategy: Strategy) -> list[Clique]:
    """List what is counted at the start, so that a large table is read once for it."""
    columns = [(column,) for column in range(len(plan.sizes))]
    return list(dict.fromkeys([*columns, *strategy.candidates(plan)]))


def out_of_reach(plan: Plan, strategy: Strategy) -> dict[Clique, str]:
    """List the marginals of the workload that a strategy cannot measure, each with the reason."""
    if strategy.certain:
        certain = strategy.candidates(plan)
        return {
            clique: strategy.beyond
            for clique in plan.workload
            if not _held(clique, certain)
        }
    large = [
        clique
        for clique in plan.workload
        if len(clique) > 1 and plan.n_cells(clique) > plan.max_cells
    ]
    return dict.fromkeys(large, f"more than max_cells = {plan.max_cells:,} cells")


def warn_out_of_reach(
    plan: Plan, strategy: Strategy, names: Sequence[object]
) -> set[Clique]:
    """Warn of marginals of the workload that are never measured."""
    reasons = out_of_reach(plan, strategy)
    _warn_left_out(plan, names, reasons)
    return set(reasons)


def warn_not_chosen(
    plan: Plan,
    strategy: Strategy,
    names: Sequence[object],
    measured: Iterable[Clique],
    known: set[Clique],
) -> None:
    """Warn of further marginals of the workload that were not measured."""
    held = list(measured)
    missing = [
        clique
        for clique in plan.workload
        if clique not in known and not _held(clique, held)
    ]
    reasons = out_of_reach(plan, strategy)
    _warn_left_out(
        plan, names, {clique: reasons.get(clique, _NOT_CHOSEN) for clique in missing}
    )


def warn_unknown(
    plan: Plan, strategy: Strategy, names: Sequence[object], unknown: Sequence[Clique]
) -> None:
    """Warn of strong pairs that the model has no room for, and of pairs that are too large for a score."""
    pairs = itertools.combinations(range(len(plan.sizes)), 2)
    large = [pair for pair in pairs if plan.n_cells(pair) > plan.max_cells]
    if large and not strategy.certain and not plan.workload:
        warnings.warn(
            f"pairs of columns with more than max_cells = {plan.max_cells:,} cells are neither scored nor measured: "
            f"{_shown(large, names)}. Set max_cells higher, or declare coarser bins",
            UserWarning,
            stacklevel=level_of_the_caller(),
        )
    if unknown:
        warnings.warn(
            "by their noisy scores, some pairs of columns depend strongly that the model does not know: it would "
            f"exceed max_cells = {plan.max_cells:,} with {_shown(unknown, names)}. Set max_cells higher, or declare "
            "coarser bins",
            UserWarning,
            stacklevel=level_of_the_caller(),
        )


def _shown(cliques: Sequence[Clique], names: Sequence[object]) -> str:
    shown = ", ".join(
        repr(tuple(names[column] for column in clique)) for clique in cliques[:_FEW]
    )
    return f"{shown} and {len(cliques) - _FEW} more" if len(cliques) > _FEW else shown


def _warn_left_out(
    plan: Plan, names: Sequence[object], reasons: Mapping[Clique, str]
) -> None:
    if not reasons:
        return
    parts = []
    for reason in dict.fromkeys(reasons.values()):
        cliques = [clique for clique, why in reasons.items() if why == reason]
        parts.append(f"{reason}: {_shown(cliques, names)}")
    warnings.warn(
        f"{len(reasons)} of {len(plan.workload)} marginals of the workload are not measured; the model knows them only "
        f"by other marginals. {'. '.join(part[0].upper() + part[1:] for part in parts)}",
        UserWarning,
        stacklevel=level_of_the_caller(),
    )


def _held(clique: Clique, marginals: Collection[Clique]) -> bool:
    return any({*clique} <= {*marginal} for marginal in marginals)


def fit_table(
    sizes: Sequence[int],
    marginals: Sequence[Marginal],
    *,
    zeros: Sequence[tuple[Clique, NDArray[np.bool_]]] = (),
    max_iter: int = 300,
    tol: float = TOLERANCE,
    factors: Mapping[Clique, NDArray[np.float64]] | None = None,
) -> FittedTable:
    """Fit a model to all that was measured."""
    # The descent starts at independent columns: what remains where little is known of their dependence.
    merged = merge(marginals)
    total, std_error = estimate_total(merged)
    cliques = [marginal.clique for marginal in merged] + [clique for clique, _ in zeros]
    tree = JunctionTree(sizes, cliques)
    columns = [
        _column(column, size, merged, total) for column, size in enumerate(sizes)
    ]
    independent = independent_start(tree, [column.shares for column in columns])
    start, merged = follow(tree, independent, merged, columns, zeros)
    start = forbid(tree, start, zeros)
    fit = fit_model(
        tree, merged, total, max_iter=max_iter, tol=tol, start=start, factors=factors
    )
    return FittedTable(fit.model, total, std_error, fit.losses, factors=fit.factors)


def forbid(
    tree: JunctionTree,
    potentials: Sequence[NDArray[np.float64]],
    zeros: Sequence[tuple[Clique, NDArray[np.bool_]]],
) -> list[NDArray[np.float64]]:
    """Give combinations that cannot occur no probability."""
    found = list(potentials)
    for clique, impossible in zeros:
        place = tree.holder(clique)
        assert place is not None  # the tree was made for it
        found[place] = np.where(
            expand(impossible, clique, tree.cliques[place]), -np.inf, found[place]
        )
    return found


def fit_measured(
    table: PrivateTable,
    plan: Plan,
    *,
    factors: Mapping[Clique, NDArray[np.float64]] | None = None,
) -> FittedTable:
    """Fit a model to all that was measured of a table so far."""
    marginals = table.marginals
    return fit_table(
        plan.sizes,
        marginals,
        zeros=plan.zeros,
        max_iter=plan.max_iter,
        tol=plan.tol,
        factors=factors,
    )


def one_way_counts(
    column: int, size: int, marginals: Sequence[Marginal], total: float
) -> NDArray[np.float64]:
    """Estimate the counts of one column: not negative, and adding up to the total."""
    found = _most_precise(column, marginals)
    return (
        np.full(size, total / size)
        if found is None
        else project_to_simplex(found[0], total)
    )


def _column(
    column: int, size: int, marginals: Sequence[Marginal], total: float
) -> Column:
    """Estimate the distribution of a column, positive everywhere."""
    noisy, error = _most_precise(column, marginals) or (
        np.full(size, total / size),
        1.0,
    )
    counts = one_way_counts(column, size, marginals, total) + error
    return Column(noisy, error, counts / counts.sum())


def _most_precise(
    column: int, marginals: Sequence[Marginal]
) -> tuple[NDArray[np.float64], float] | None:
    """Return the counts of a column with the least noise, and its standard deviation."""
    found = []
    for marginal in marginals:
        if column not in marginal.clique:
            continue
        axes = {other: axis for axis, other in enumerate(marginal.clique)}
        if marginal.groups is not None and marginal.groups[axes[column]] is not None:
            continue
        summed = marginal.counts.sum(
            axis=tuple(axis for other, axis in axes.items() if other != column)
        )
        found.append(
            (summed, marginal.std_error * (marginal.counts.size / summed.size) ** 0.5)
        )
    return min(found, key=lambda pair: pair[1], default=None)


def measure_columns(
    table: PrivateTable, plan: Plan, share: Fraction, *, equal: bool = False
) -> list[NDArray[np.float64]]:
    """Measure each column by itself."""
    weights = [1] * len(plan.sizes) if equal else plan.sizes
    for column, part in enumerate(table.budget.best_shares(weights, share)):
        table.measure((column,), part)
    total, _ = estimate_total(table.marginals)
    return [
        one_way_counts(column, size, table.marginals, total)
        for column, size in enumerate(plan.sizes)
    ]


def score_marginals(
    table: PrivateTable,
    cliques: Sequence[Clique],
    counts: Sequence[NDArray[np.float64]],
    share: Fraction,
    groups: Groups | None = None,
) -> NDArray[np.float64]:
    """Return twice the number of records misplaced if the columns were independent."""
    groups = groups or (None,) * len(counts)
    total = max(1.0, float(counts[0].sum()))
    rough = [
        group(count, (members,)) for count, members in zip(counts, groups, strict=True)
    ]
    guesses = (
        _whole(
            reduce(
                lambda guess, count: np.multiply.outer(guess, count) / total,
                (rough[column] for column in clique),
            )
        )
        for clique in cliques
    )
    noisy = table.score(cliques, guesses, share, groups)
    error = table.budget.score_error(share, noisy.size)
    table.scores |= {
        clique: (float(score), error)
        for clique, score in zip(cliques, noisy, strict=True)
    }
    return noisy


def _whole(guess: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round a guess of less than a record a cell such that its sums stay, as rounded one by one all would be 0."""
    sparse = guess.sum() < guess.size
    return (
        np.diff(np.floor(np.cumsum(guess)), prepend=0.0).reshape(guess.shape)
        if sparse
        else guess
    )
