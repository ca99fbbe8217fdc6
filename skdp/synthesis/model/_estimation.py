"""Fit a graphical model to noisy marginals by penalized proportional fitting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from scipy.special import wrightomega

from skdp._arrays import Floats, Indices, Mask
from skdp.synthesis.model._graphical_model import CliqueTables, GraphicalModel
from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Marginal,
    ValueGroups,
    combine_nonnegative_levels,
    divide,
    estimate_marginal_counts,
    estimate_total,
    expand,
    group_values,
    merge_marginals,
    n_cells_of,
    project,
    scale,
    shape_of,
    sum_value_groups,
)

# Tuned by benchmarks/synthesis.py.
MAX_SWEEPS = 25
MAX_RESIDUAL = 0.1
"""Distance of the counts from the optimum at which the fit ends: the root mean square, in standard errors."""

N_COLUMN_SWEEPS = 2
"""Last sweeps, which fit the columns alone."""

MIN_FITTED_STD_ERROR, MIN_RESIDUAL_UNIT = 0.05, 0.5
"""Standard error below which counts do not get more weight, and smallest unit of residuals, in records."""

MAX_JOINED_CELLS = 1 << 10
"""Largest number of cells of a marginal in which fits of fewer columns are done together."""

N_SCORING_STEPS = 5
"""Steps of scoring that estimate the dependence of columns: a single step changed errors of pairs by at most 0.4 %."""

MAX_STEP = 1.0
"""Largest change of the logarithm of a sum of cells in a sweep."""

MIN_SHRINKAGE = 1e-3
"""Smallest effect of noise on the dependence of a marginal, relative to it, for which sums of cells are fitted."""

MIN_CELLS_PER_COUNT = 4
"""Smallest number of cells per count of a marginal whose groups of values become columns of the model."""

MIN_COUNT, MIN_TAIL_COUNT = 1e-2, 1e-6
"""Smallest count of a value, and of a value in a tail, in standard errors: no declared value is impossible."""

MIN_CELL = 1e-60
"""Smallest proportion of a possible cell: the product of the factors of several marginals does not underflow."""

Masks = Sequence[tuple[Clique, Mask]]
"""Columns with a constraint, and an array that is True for each of their impossible cells."""

Fit = Callable[..., None]
"""A function that scales a flat table in place."""

_Target = tuple[Clique, ValueGroups | None, Fit]
"""Columns, the groups of their values, and a fit that gets the cell of these columns of each cell of a table."""


@dataclass(frozen=True)
class Structure:
    """The public facts of a model: sizes and orders of columns, and impossible cells."""

    sizes: tuple[int, ...]
    masks: Masks = ()
    given: frozenset[int] = frozenset()
    """Columns of which all others are drawn given; empty if all columns are drawn."""
    n_ordered: tuple[int, ...] = ()
    """The number of ordered values of each column, which are its first values; empty if no column has an order."""

    def count_ordered(self, column: int, groups: Indices | None) -> int:
        """Count the groups of the ordered values of a column, or without groups these values."""
        n_ordered = self.n_ordered[column] if self.n_ordered else 0
        if groups is None or not n_ordered:
            return n_ordered
        return int(groups[n_ordered - 1]) + 1

    def is_coarse(self, clique: Clique, groups: ValueGroups) -> bool:
        """Return True if a marginal has so many cells per count that its groups become columns of the model.

        `groups` has the group of each value of its columns; None if each value is counted.
        """
        if len(clique) < 3:
            return False
        n_groups = [
            self.sizes[c] if g is None else g.max() + 1
            for c, g in zip(clique, groups, strict=True)
        ]
        return n_cells_of(clique, self.sizes) >= MIN_CELLS_PER_COUNT * math.prod(
            n_groups
        )

    def refine(
        self, marginals: Iterable[tuple[Clique, ValueGroups | None]]
    ) -> tuple[Structure, list[Clique]]:
        """Add a column for the groups of each column of coarse marginals; also return the columns of each marginal."""
        # A value determines its group, so all other combinations of both are impossible.
        # Without these columns, the model needs a clique of all values.
        sizes, masks = list(self.sizes), list(self.masks)
        added: dict[tuple[int, bytes], int] = {}
        cliques = []
        for clique, groups in marginals:
            columns = list(clique)
            if groups is not None and self.is_coarse(clique, groups):
                for axis, members in enumerate(groups):
                    if members is None or members.max() + 1 == members.size:
                        continue
                    key = clique[axis], members.tobytes()
                    if key not in added:
                        added[key] = len(sizes)
                        group_numbers = np.arange(members.max() + 1)
                        masks.append(
                            (
                                (clique[axis], len(sizes)),
                                members[:, np.newaxis] != group_numbers,
                            )
                        )
                        sizes.append(group_numbers.size)
                    columns[axis] = added[key]
            cliques.append(tuple(columns))
        return replace(self, sizes=tuple(sizes), masks=tuple(masks)), cliques


def fit_model(
    structure: Structure,
    marginals: Iterable[Marginal],
    tails: Mapping[int, Floats] | None = None,
) -> tuple[GraphicalModel, int]:
    """Fit a graphical model to noisy marginals; also return the number of sweeps.

    `tails` has, by column, the estimated counts of values in tails, which replace their noisy counts, and NaN
    elsewhere.
    """
    # The columns have their estimated distributions. Among all distributions with these
    # columns, the model minimizes KL(p, independent columns) + the sum of
    # (p - target)**2 / (2 * penalty) over the cells of all measured marginals, which is
    # convex. Marginals are fitted in turn, as by proportional fitting ([1]_).
    # .. [1] I. Csiszár (1975). I-divergence geometry of probability distributions and
    #    minimization problems. Annals of Probability 3(1).
    merged = merge_marginals(marginals)
    total = estimate_total(merged)
    columns = []
    for column, size in enumerate(structure.sizes):
        tail = (tails or {}).get(column, np.full(size, np.nan))
        columns.append(_estimate_column(column, tail, merged, total))
    refined, cliques = structure.refine((m.clique, m.groups) for m in merged)
    factors = _make_factors(structure, merged, cliques, columns, total[0])
    for (column, _), is_impossible in refined.masks[len(structure.masks) :]:
        columns.append(columns[column] @ ~is_impossible)
    masked = [clique for clique, _ in refined.masks]
    tree = JunctionTree(refined.sizes, [*cliques, *masked], structure.given)
    tables = CliqueTables.from_columns(tree, columns)
    n_sweeps = 0
    residual = math.inf
    fits = _plan_sweep(tree, refined.masks, factors, columns)
    while residual > MAX_RESIDUAL and n_sweeps < MAX_SWEEPS:
        _fit_cliques(tables, fits)
        residual = _measure_residual(factors)
        n_sweeps += 1
    fits = _plan_sweep(tree, (), (), columns)
    for _ in range(N_COLUMN_SWEEPS):
        _fit_cliques(tables, fits)
    residuals: dict[Clique, float] = {}
    for factor in factors:
        largest = max(factor.residual, residuals.get(factor.clique, 0.0))
        residuals[factor.clique] = largest
    model = GraphicalModel(tree, tables.finish(), residuals, len(structure.sizes))
    return model, n_sweeps


def _plan_sweep(
    tree: JunctionTree,
    masks: Masks,
    factors: Iterable[_Factor],
    columns: Sequence[Floats],
) -> list[list[tuple[Clique, list[Fit]]]]:
    """List the fits of each clique: impossible cells, then factors, then the proportions `columns` of columns.

    Fits of few columns are listed with the columns of a marginal, in which they are done together.
    """
    targets: list[list[_Target]] = [[] for _ in tree.cliques]
    for masked, is_impossible in masks:
        exclude = partial(
            _scale_cells, weights=np.where(is_impossible, 0.0, 1.0).ravel()
        )
        targets[tree.find_measured(masked)].append((masked, None, exclude))
    for factor in factors:
        target = factor.columns, factor.groups, factor.fit
        targets[tree.find_measured(factor.columns)].append(target)
    for own, clique in zip(targets, tree.cliques, strict=True):
        for column in clique:
            fit = partial(_fit_column, goal=columns[column])
            own.append(((column,), None, fit))
    return [_join_fits(own, tree.sizes) for own in targets]


def _join_fits(
    targets: Sequence[_Target], sizes: Sequence[int]
) -> list[tuple[Clique, list[Fit]]]:
    """Join fits whose columns have few cells together; return the columns of each marginal, and its fits."""
    joined = []
    while targets:
        union = set(targets[0][0])
        for own, _, _ in targets:
            if n_cells_of(union.union(own), sizes) <= MAX_JOINED_CELLS:
                union.update(own)
        columns = tuple(sorted(union))
        fits: list[Fit] = []
        for own, groups, fit in targets:
            if union.issuperset(own):
                cells = _find_cells(own, groups, columns, sizes)
                fits.append(partial(fit, cells=cells))
        joined.append((columns, fits))
        targets = [target for target in targets if not union.issuperset(target[0])]
    return joined


def _find_cells(
    columns: Clique, groups: ValueGroups | None, onto: Clique, sizes: Sequence[int]
) -> Indices:
    """Return the number of the cell of `columns`, by groups of their values, of each cell of the columns `onto`."""
    cells = np.zeros(shape_of(onto, sizes), np.intp)
    for column, members in zip(columns, groups or [None] * len(columns), strict=True):
        members = np.arange(sizes[column]) if members is None else members
        cells *= int(members.max()) + 1
        cells += expand(members, (column,), onto)
    return cells.ravel()


def _fit_cliques(
    tables: CliqueTables, fits: Sequence[Sequence[tuple[Clique, Sequence[Fit]]]]
) -> None:
    """Visit all cliques, and do the fits of each."""
    for index in tables.visit():
        table, clique = tables.tables[index], tables.tree.cliques[index]
        for columns, joined in fits[index]:
            # A factor of some columns has the same effect on their marginal.
            before = project(table, clique, columns)
            marginal = before.flatten()
            for fit in joined:
                fit(marginal)
            ratio = divide(marginal.reshape(before.shape), before)
            scale(table, ratio, columns, clique)


def _sum_cells(table: Floats, cells: Indices, n_cells: int) -> Floats:
    """Sum a table by its `cells`; shape (n_cells,)."""
    return np.asarray(np.bincount(cells, table, n_cells), float)


def _scale_cells(table: Floats, cells: Indices, weights: Floats) -> None:
    """Multiply a table by a weight of each of its `cells`, in place."""
    table *= weights[cells]


def _fit_column(table: Floats, cells: Indices, goal: Floats) -> None:
    """Scale a table such that a column has the proportions `goal`, in place; `cells` has its value of each cell."""
    _scale_cells(table, cells, divide(goal, _sum_cells(table, cells, goal.size)))


def _measure_residual(factors: Sequence[_Factor]) -> float:
    """Return the root mean square of the distances of all counts from the optimum, in standard errors."""
    squares = sum(factor.n_counts * factor.residual**2 for factor in factors)
    return math.sqrt(squares / max(1, sum(factor.n_counts for factor in factors)))


def _estimate_column(
    column: int, tail: Floats, marginals: Sequence[Marginal], total: tuple[float, float]
) -> Floats:
    """Estimate the proportions of the values of a column, all positive; shape (n_values,).

    `tail` has counts that replace noisy counts, and NaN elsewhere. `total` is the number of records, with its error.
    """
    n_records, std_error = total
    size = tail.size
    # Without counts of its values, a column is uniform.
    levels = [Marginal((column,), np.full(size, n_records / size), n_records)]
    for marginal in marginals:
        if column in marginal.clique:
            counts, count_error = marginal.counts_of((column,))
            group_of_value = marginal.groups_of(column)
            groups = None if group_of_value is None else (group_of_value,)
            levels.append(Marginal((column,), counts, count_error, groups))
    together = (np.zeros(size, np.intp),)
    levels.append(Marginal((column,), np.array([n_records]), std_error, together))
    levels = merge_marginals(levels)
    counts = combine_nonnegative_levels(levels, size, tail)
    smallest = np.where(np.isnan(tail), MIN_COUNT, MIN_TAIL_COUNT)
    counts = counts + smallest * min(level.std_error for level in levels)
    return np.asarray(counts / counts.sum())


def _make_factors(
    structure: Structure,
    marginals: Sequence[Marginal],
    cliques: Sequence[Clique],
    columns: Sequence[Floats],
    total: float,
) -> list[_Factor]:
    """Return a factor for each marginal of several columns; `cliques` has the columns of the model of each marginal.

    `columns` has the proportions of the values of each column, and `total` is the number of records.
    """
    # Proportions that are consistent with each other, by the columns of the marginal.
    targets: dict[Clique, Floats] = {}
    for column, proportions in enumerate(columns):
        targets[(column,)] = proportions
    factors = []
    # Two columns with more than one count can depend on each other.
    joint = [m for m in marginals if np.sum(np.greater(m.counts.shape, 1)) > 1]
    by_column: dict[int, list[Marginal]] = {}
    for marginal in joint:
        for column in marginal.clique:
            by_column.setdefault(column, []).append(marginal)
    clique_of = {id(m): c for m, c in zip(marginals, cliques, strict=True)}
    for measured in sorted(joint, key=lambda marginal: len(marginal.clique)):
        marginal = measured
        if marginal.groups is None:
            # Larger marginals count its cells, too.
            larger = min((by_column[column] for column in marginal.clique), key=len)
            combined = estimate_marginal_counts(larger, marginal.clique)
            marginal = Marginal(marginal.clique, *combined)
        target = _make_consistent(marginal.counts / total, marginal, targets)
        if marginal.groups is None:
            targets[marginal.clique] = target
        std_error = max(MIN_FITTED_STD_ERROR, marginal.std_error) / total
        own_columns, n_ordered = [], []
        for column in marginal.clique:
            members = marginal.groups_of(column)
            own_columns.append(sum_value_groups(columns[column], (members,)))
            n_ordered.append(structure.count_ordered(column, members))
        # The axes are in the order of the columns of the model.
        order = np.argsort(clique_of[id(measured)])
        factors.append(
            _Factor(
                marginal,
                tuple(sorted(clique_of[id(measured)])),
                _make_levels(
                    np.transpose(target, order),
                    [own_columns[axis] for axis in order],
                    [n_ordered[axis] for axis in order],
                    std_error,
                    max(MIN_RESIDUAL_UNIT, marginal.std_error) / total,
                    is_sampled=measured.is_sampled,
                ),
            )
        )
    return factors


def _make_consistent(
    proportions: Floats, marginal: Marginal, targets: Mapping[Clique, Floats]
) -> Floats:
    """Change the proportions of a marginal, equally in all cells, such that its own marginals are the targets."""
    proportions = proportions + (1 - proportions.sum()) / proportions.size
    for n_columns in range(1, len(marginal.clique)):
        for part in itertools.combinations(marginal.clique, n_columns):
            if part in targets:
                groups = tuple(map(marginal.groups_of, part))
                target = sum_value_groups(targets[part], groups)
                difference = target - project(proportions, marginal.clique, part)
                difference /= proportions.size / difference.size
                proportions = proportions + expand(difference, part, marginal.clique)
    return proportions


def _estimate_dependence(
    target: Floats, columns: Sequence[Floats], noise: Floats
) -> float:
    """Estimate the dependence of columns, given measured proportions `target` of all cells; add its standard error.

    `columns` has the proportions of the values of each column, and `noise` is the variance of each cell. The dependence
    is the variance of adjusted residuals ([1]_): differences from independent columns, relative to their standard
    deviations in samples.
    """
    # Noise adds its variance: maximum likelihood by scoring.
    # .. [1] S. J. Haberman (1973). The analysis of residuals in cross-classified tables.
    #    Biometrics 29(1).
    independent = reduce(np.multiply.outer, columns)
    squares = np.square(target - independent)
    margins = reduce(np.add.outer, [1 / column - 1 for column in columns])
    spread = independent - np.square(independent) * (1 + margins)
    dependence = 0.0
    for _ in range(N_SCORING_STEPS):
        weights = spread / np.square(spread * dependence + noise)
        information = float(np.sum(weights * spread))
        dependence = float(np.sum(weights * (squares - noise))) / information
        dependence = max(0.0, dependence)
    return dependence + math.sqrt(2 / information)


@dataclass(eq=False)
class _Level:
    """The cells of a marginal, or sums of neighboring cells, with a factor of their own."""

    target: Floats
    """Proportions, with an axis for each column."""
    penalties: Floats
    """Variances of the noise, divided by the prior variances of `logs`."""
    units: Floats
    """Units of the residual."""
    logs: Floats
    sums: Indices | None = None
    """The sum of the next level that contains each cell; None for the last level."""

    def measure_gradient(self, proportions: Floats) -> Floats:
        """Return the gradient of the penalized log-likelihood by `logs`; the model has the flat `proportions`."""
        goal = self.target - self.penalties * self.logs
        return goal.ravel() - proportions

    def set_logs(self, logs: Floats) -> None:
        """Set the logarithms of the factor, without main effects: the distributions of columns are fixed."""
        # Main effects are weighted means, because penalties are products of factors of columns.
        table = logs.reshape(self.target.shape)
        weighted = self.penalties * table
        mean = float(weighted.sum() / self.penalties.sum())
        self.logs = table + (table.ndim - 1) * mean
        for axis in range(table.ndim):
            others = tuple(other for other in range(table.ndim) if other != axis)
            sums = np.add.reduce(weighted, axis=others, keepdims=True)
            self.logs -= sums / np.add.reduce(
                self.penalties, axis=others, keepdims=True
            )


def _make_levels(
    target: Floats,
    columns: Sequence[Floats],
    n_ordered: Sequence[int],
    std_error: float,
    unit: float,
    *,
    is_sampled: bool = False,
) -> list[_Level]:
    """Return the cells of a marginal and, for ordered columns, sums of neighboring cells, coarser from level to level.

    `columns` has the proportions of the values of each column, of which the first `n_ordered` are ordered. `target`
    has the measured proportions with the error `std_error`, and `unit` is the unit of the residual of a cell. If
    `is_sampled`, the variance of a cell is proportional to its proportion.
    """
    # In sums of neighboring cells, noise cancels out, but the dependence of ordered columns
    # does not. So the logarithm of a cell is a sum of independent effects of all levels, as
    # in a Haar wavelet ([1]_). Their variances follow from the noisy counts: a level has
    # the dependence of its sums, minus the dependence that all finer levels cause.
    # .. [1] X. Xiao, G. Wang, J. Gehrke (2010). Differential privacy via wavelet
    #    transforms. ICDE.
    levels: list[_Level] = []
    explained = 0.0
    # Variances are products of factors of columns, see `_Level.set_logs`. In a sample, counts
    # of rare values have small variances.
    relative = np.ones(target.shape)
    if is_sampled:
        rare = [np.minimum(1.0, column.size * column) for column in columns]
        relative = reduce(np.multiply.outer, rare)
    finer: Sequence[Indices] = ()
    for groups in list_levels(columns, n_ordered):
        summed = sum_value_groups(target, tuple(groups))
        variance = sum_value_groups(relative, tuple(groups))
        noise = std_error**2 * variance
        if noise.sum() < MIN_SHRINKAGE * explained:
            break
        sums = [
            _sum_cells(c, g, g.max() + 1) for c, g in zip(columns, groups, strict=True)
        ]
        dependence = _estimate_dependence(summed, sums, noise) - explained
        if dependence <= 0:
            continue
        explained += dependence
        if levels:
            firsts = [np.unique(g, return_index=True)[1] for g in finer]
            axes = [g[first] for g, first in zip(groups, firsts, strict=True)]
            index = np.ravel_multi_index(np.ix_(*axes), summed.shape)
            levels[-1].sums = np.asarray(index).ravel()
        units = unit * np.sqrt(np.maximum(variance, 1.0))
        levels.append(_Level(summed, noise / dependence, units, np.zeros(summed.shape)))
        finer = groups
    return levels


def list_levels(
    columns: Sequence[Floats], n_ordered: Sequence[int]
) -> Iterator[list[Indices]]:
    """List the group of each value of columns: values, then ever fewer groups of the ordered values of columns."""
    n_groups = 1 << max(0, max(n_ordered) - 1).bit_length()
    yield [np.arange(column.size) for column in columns]
    while n_groups > 2:
        n_groups //= 2
        level = []
        for column, n in zip(columns, n_ordered, strict=True):
            groups = np.arange(column.size)
            if n > n_groups:
                groups[:n] = group_values(column[:n], n_groups)
                groups[n:] += groups[n - 1] + 1 - n
            level.append(groups)
        yield level


class _Factor:
    """The factor of a measured marginal in the model."""

    def __init__(
        self, marginal: Marginal, columns: Clique, levels: Sequence[_Level]
    ) -> None:
        """Start with a factor of 1; `columns` are the columns of the model, the axes of the targets of levels."""
        self.clique = marginal.clique
        self.columns = columns
        # Groups of values may be columns of the model.
        self.groups = marginal.groups if columns == marginal.clique else None
        self._levels = levels
        self.n_counts = sum(level.target.size for level in levels)
        self.residual = math.inf

    def fit(self, table: Floats, cells: Indices) -> None:
        """Scale a flat table such that it is optimal for this factor, in place.

        `cells` has the cell of the factor of each cell of the table.
        """
        level = self._levels[0]
        proportions = _sum_cells(table, cells, level.target.size)
        is_possible = proportions > 0
        moved = proportions * np.exp(self._fit_sums(proportions))
        # At the optimum, proportions + penalty * logs = target. The new proportions q are
        # proportions * exp(new logs - logs), so that q + penalty * log(q) is known, and
        # the Wright omega function returns q / penalty.
        target, penalties = level.target.ravel(), level.penalties.ravel()
        goal = target - penalties * level.logs.ravel()
        with np.errstate(divide="ignore"):
            logs = np.log(moved / penalties)
        fitted = penalties * wrightomega(goal / penalties + logs)
        fitted = np.where(is_possible, np.maximum(fitted, MIN_CELL), 0.0)
        if (total := float(fitted.sum())) > 0:
            level.set_logs(np.where(is_possible, target - fitted, 0.0) / penalties)
            _scale_cells(table, cells, divide(fitted, proportions) / total)

    def _fit_sums(self, proportions: Floats) -> Floats:
        """Change the logarithms of all levels of sums; return the change of each cell, and set the residual."""
        # A step of Newton's method for all levels together, by elimination from the cells on:
        # if the logarithms of all coarser levels change by c, the proportions of a level
        # change by fixed + weights * c.
        fixed, weights = np.zeros(proportions.size), proportions
        squares = 0.0
        steps = []
        for level in self._levels:
            gradient = level.measure_gradient(proportions)
            gradient[proportions <= 0] = 0.0
            squares += float(np.square(gradient / level.units.ravel()).sum())
            penalties = level.penalties.ravel()
            curvature = weights + penalties
            steps.append(((gradient - fixed) / curvature, weights / curvature))
            if level.sums is not None:
                n_sums = int(level.sums.max()) + 1
                moved = (weights * gradient + penalties * fixed) / curvature
                fixed = _sum_cells(moved, level.sums, n_sums)
                weights = _sum_cells(
                    penalties * weights / curvature, level.sums, n_sums
                )
                proportions = _sum_cells(proportions, level.sums, n_sums)
        self.residual = math.sqrt(squares / self.n_counts)
        change = np.zeros(1)
        for level, (own, shared) in zip(self._levels[:0:-1], steps[:0:-1], strict=True):
            coarser = change if level.sums is None else change[level.sums]
            step = np.clip(own - shared * coarser, -MAX_STEP, MAX_STEP)
            level.set_logs(level.logs.ravel() + step)
            change = coarser + step
        sums = self._levels[0].sums
        return change if sums is None else change[sums]
