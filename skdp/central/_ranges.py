"""Counts of ranges of cells: hierarchies of noisy counts, and intervals."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import ColumnName, Floats, Indices, Integers, Mask
from skdp.base import (
    NORMAL,
    ErrorDistribution,
    Estimate,
    find_sampling_variance,
    find_score_interval,
)
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Noise,
    to_float,
)
from skdp.domain import (
    Categories,
    Domain,
    Interval,
    has_single_values,
    is_mixed,
)
from skdp.privacy import PrivacyBudget
from skdp.randomness import ByteSource
from skdp.tables import (
    ORDERED_TYPES,
    drop_missing,
    is_missing,
    to_python,
    type_of_value,
)


def find_range(
    name: ColumnName, attribute: Categories | Interval, low: Any, high: Any
) -> Mask:
    """Return True for each cell of a column that is in the half-open range from `low` to `high`."""
    values = list(attribute.values)
    edges: list[Any] = []
    if isinstance(attribute, Interval):
        edges = list(attribute.edges)
        if has_single_values(attribute):
            edges[-2] = edges[-1]  # the largest number has an edge below it
        # A bin is in the range if its lower edge is, because endpoints are edges.
        values = edges[:-1] + [None] * attribute.missing
    elif is_mixed(attribute):
        values[-1] = None  # no number
    declared = drop_missing(values)
    if not declared:
        raise ValueError(
            f"Column {name!r} must have ordered values for a range, got missing values "
            "only. Declare other values."
        )
    low = _check_endpoint(name, "low", low, type_of_value(declared[0]))
    high = _check_endpoint(name, "high", high, type_of_value(declared[0]))
    if isinstance(attribute, Interval):
        _check_edges(name, edges, low, high)
    elif type_of_value(declared[0]) not in ORDERED_TYPES:
        # The order is the order of the declaration.
        low, high = (_find_index(name, values, endpoint) for endpoint in (low, high))
        for index, value in enumerate(values):
            values[index] = None if value is None else index
    if low is not None and high is not None and low > high:
        raise ValueError("`low` must be at most `high`.")
    if edges and high is not None and high >= edges[-1]:
        high = None  # the last bin includes its upper edge
    is_inside = np.zeros(len(values), bool)
    for cell, value in enumerate(values):
        is_above = value is not None and (low is None or low <= value)
        is_inside[cell] = is_above and (high is None or value < high)
    return is_inside


def _check_endpoint(
    name: ColumnName, parameter: str, endpoint: object, expected: str
) -> Any:
    """Check that an endpoint of a range is None or has the type `expected`, of the values of a column; return it."""
    if endpoint is None:
        return None
    actual = "missing value" if is_missing(endpoint) else type_of_value(endpoint)
    if actual != expected:
        raise TypeError(
            f"`{parameter}` must be None or a {expected}, like the values of column "
            f"{name!r}, got a {actual}."
        )
    return to_python(endpoint)


def _check_edges(
    name: ColumnName, edges: Sequence[Any], low: object, high: object
) -> None:
    """Check that the endpoints of a range are edges of bins, or outside all bins."""
    # The last bin includes its upper edge, so no bin starts there.
    for endpoint, allowed in ((low, edges[:-1]), (high, edges)):
        if (
            endpoint is not None
            and edges[0] < endpoint <= edges[-1]
            and endpoint not in allowed
        ):
            raise ValueError(
                f"`low` and `high` must be edges of the bins of column {name!r}, and "
                f"`low` must not be the last edge, got {endpoint!r}. Use the `edges` "
                "of its `Interval`."
            )


def _find_index(
    name: ColumnName, values: Sequence[Any], endpoint: object
) -> int | None:
    """Return the index of an endpoint among the declared values; None if the range has no endpoint."""
    if endpoint is None:
        return None
    if endpoint not in values:
        raise ValueError(
            f"`low` and `high` must be declared values of column {name!r}, got "
            f"{endpoint!r}."
        )
    return values.index(endpoint)


class Hierarchy:
    """A tree over k ordered cells: groups of neighboring cells, groups of neighboring groups, and so on."""

    # Each level contains all cells, so adding a record changes one
    # count on each level. All counts have equal, independent noise, and the counts of
    # groups improve the estimates of cells. The best linear unbiased estimates, for which
    # every group is the sum of its parts, are computed in one pass up and one pass down
    # the tree ([1]_, section 4). Variances here are in units of the variance of a noisy
    # count.
    # .. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu (2010). Boosting the accuracy of
    #    differentially private histograms through consistency. PVLDB 3(1).

    def __init__(self, size: int, starts: Sequence[Indices] = ()) -> None:
        """Build the levels of a tree over `size` cells, from the cells up.

        `starts` has for each level above the cells the index of the first part of each group.
        """
        self.starts = starts
        self.sizes = [size, *(len(level) for level in starts)]
        # For each group, from its own count and the counts below it: the variance of its
        # best estimate, and the variance of the sum of the best estimates of its parts.
        # The mean of two estimates with the variances 1 and v, weighted by precision, has
        # the variance v / (v + 1).
        self._best_variances: list[Floats] = [np.ones(size)]
        self._part_variances: list[Floats] = []
        for level in starts:
            part_variances = np.add.reduceat(self._best_variances[-1], level)
            self._part_variances.append(part_variances)
            self._best_variances.append(part_variances / (part_variances + 1))

    @classmethod
    def even(cls, size: int, branching: int) -> Hierarchy:
        """Build a tree with up to `branching` parts of each group."""
        # The top level is the first one with at most `branching` groups.
        starts: list[Indices] = []
        n_parts = size
        while n_parts > branching:
            starts.append(np.arange(0, n_parts, branching))
            n_parts = len(starts[-1])
        return cls(size, starts)

    @property
    def branching(self) -> int:
        """The number of cells in the first group; all cells of a tree of one level."""
        n_cells = self.sizes[0]
        if not self.starts:
            return max(n_cells, 2)
        return int(np.append(self.starts[0], n_cells)[1])

    def _repeat(self, values: NDArray, level: int) -> NDArray:
        """Assign the value of each group of the level above `level` to its parts."""
        sizes = np.diff(self.starts[level], append=self.sizes[level])
        return np.repeat(values, sizes)

    def totals(self, counts: NDArray) -> list[NDArray]:
        """Return the sums of counts of cells on each level, from the cells to the top; each of shape (n_groups,)."""
        levels = [counts]
        for starts in self.starts:
            levels.append(np.add.reduceat(levels[-1], starts))
        return levels

    def measure(
        self, counts: Integers, noise: Noise, source: ByteSource
    ) -> list[Integers]:
        """Return noisy, clipped counts of all levels, from the cells up, given the counts of cells.

        All sums of noisy counts are integers of 64 bits.
        """
        limit = MAX_NOISY_COUNT // counts.size
        noisy = []
        for level in self.totals(counts):
            drawn = level + noise.draw(source, level.size)
            noisy.append(np.clip(drawn, -limit, limit).astype(np.int64))
        return noisy

    def _improve(self, noisy: Sequence[NDArray]) -> list[Floats]:
        """Return the best estimates of the counts of each level, given the level and all levels below.

        `noisy` and the result have the counts of each level, from the cells to the top.
        """
        # Weighted by precision: a count has the variance 1, and the sum of the estimates
        # of its parts the variance v.
        best = [np.asarray(noisy[0], float)]
        for counts, part_variances, starts in zip(
            noisy[1:], self._part_variances, self.starts, strict=True
        ):
            below = np.add.reduceat(best[-1], starts)
            best.append((counts * part_variances + below) / (part_variances + 1))
        return best

    def estimate(self, noisy: Sequence[NDArray]) -> Floats:
        """Return the least-squares estimates of the cells, given the noisy counts of all levels, from the cells up."""
        # From the top: the difference between the final estimate of a group and the sum of
        # its parts is divided among the parts in proportion to their variances.
        best = self._improve(noisy)
        final = best[-1]
        for level in reversed(range(len(self.starts))):
            sums = np.add.reduceat(best[level], self.starts[level])
            gap = (final - sums) / self._part_variances[level]
            final = best[level] + self._best_variances[level] * self._repeat(gap, level)
        return final

    @cached_property
    def level_variances(self) -> list[Floats]:
        """The variances of the estimates of each level from the cells up, relative to the variance of a noisy count."""
        final = [self._best_variances[-1]]
        for level in reversed(range(len(self.starts))):
            variances = self._best_variances[level]
            part_variances = self._part_variances[level]
            # Given the final estimate of its group, the estimate of a part of variance v
            # is linear with the slope v / w and has the variance v - v**2 / w, where w is
            # the variance of the sum of all parts.
            slopes = variances / self._repeat(part_variances, level)
            excess = self._repeat(final[0] - part_variances, level)
            final.insert(0, variances + slopes**2 * excess)
        return final

    @property
    def cell_variances(self) -> Floats:
        """The variance of the estimate of each cell, relative to the noise variance of a count; shape (n_cells,)."""
        return self.level_variances[0]

    def variance(self, weights: NDArray) -> float:
        """Return the variance of a weighted sum of estimates of cells, relative to the variance of a noisy count.

        `weights` have the shape (n_cells,).
        """
        # Given the estimate of a group, the weighted sum over its parts is linear in the
        # estimate, with the slope of `above` and a variance around the line. So the
        # variances of all levels add up.
        slopes, around = np.asarray(weights, float), 0.0
        for level, starts in enumerate(self.starts):
            variances = self._best_variances[level]
            above = np.add.reduceat(slopes * variances, starts)
            above = above / self._part_variances[level]
            around += float(
                (variances * (slopes - self._repeat(above, level)) ** 2).sum()
            )
            slopes = above
        return around + float((self._best_variances[-1] * slopes**2).sum())

    def mean_range_variance(self) -> float:
        """Estimate the mean variance of the counts of ranges, from 64 random ranges of cells."""
        variances = []
        bounds = np.random.default_rng(0).integers(0, self.sizes[0] + 1, (64, 2))
        for low, high in np.sort(bounds):
            in_range = np.zeros(self.sizes[0])
            in_range[low:high] = 1.0
            variances.append(self.variance(in_range))
        return float(np.mean(variances))


def read_levels(
    domain: Domain, levels: object
) -> tuple[Hierarchy, Indices, dict[Any, tuple[list[Any], Indices]]]:
    """Check the parameter `levels` of a histogram: groups of the values of a column, such as the regions of cities.

    Returns the tree of all levels, the order of the cells in which each group has neighboring cells, and for each level
    from the bottom the labels of its groups and the index of the first cell of each.
    """
    if not isinstance(levels, Mapping) or not levels or len(domain.columns) != 1:
        raise ValueError(
            "`levels` must be a nonempty mapping of level name to mapping for a "
            f"histogram of one column, got {type(levels).__name__} for the columns "
            f"{list(domain.columns)}."
        )
    (column,) = domain.columns
    # The group of each cell on each level, and the rank of the first cell of the group.
    names = list(domain[column].labels)
    paths, ranks = [names], [list(range(len(names)))]
    for level, groups in levels.items():
        missing = [value for value in paths[-1] if value not in groups]
        if missing:
            raise ValueError(
                f"`levels` must map all values below level {level!r} to their "
                f"groups, got no group of {missing[0]!r}."
            )
        values = [groups[value] for value in paths[-1]]
        if not all(isinstance(value, Hashable) for value in values):
            raise TypeError(
                f"`levels` must map each value below level {level!r} to one group, "
                "such as text, got a list."
            )
        first = {value: rank for rank, value in enumerate(dict.fromkeys(values))}
        paths.append(values)
        ranks.append([first[value] for value in values])
    order = np.lexsort(ranks)
    groups_of, starts = {}, []
    below = np.arange(len(order))
    for name, values, rank in zip(levels, paths[1:], ranks[1:], strict=True):
        cells = np.flatnonzero(np.diff(np.array(rank)[order], prepend=-1))
        groups_of[name] = [values[index] for index in order[cells]], cells
        # The index of each first cell among the first cells of the level below.
        starts.append(np.searchsorted(below, cells))
        below = cells
    return Hierarchy(len(order), starts), order, groups_of


def count_std(budget: PrivacyBudget, n_levels: int) -> float:
    """Return the standard deviation of the noise of one count."""
    return to_float(Noise.from_budget(budget / n_levels).std)


def plan_hierarchy(size: int, budget: PrivacyBudget, method: str) -> Hierarchy:
    """Choose the tree with the smallest expected squared error of the count of a random range, by public facts.

    `method` "flat" has the cells only, "hierarchical" at least two levels, and "auto" what is best. The budget is
    divided equally among levels.
    """
    flat = Hierarchy(size)
    if method == "flat":
        return flat
    depths = range(2, (size - 1).bit_length() + 1)
    branchings = {math.ceil(size ** (1 / depth)) for depth in depths}
    trees = [Hierarchy.even(size, branching) for branching in sorted(branchings)]
    if method == "auto" or not trees:
        trees.insert(0, flat)
    return min(
        trees,
        key=lambda tree: (
            count_std(budget, len(tree.sizes)) * math.sqrt(tree.mean_range_variance())
        ),
    )


def estimate_counts(
    counts: Any,
    std_error: Any,
    level: float,
    distribution: ErrorDistribution,
    *,
    n_rows: float = 0.0,
    design_effect: float = 0.0,
) -> Estimate:
    """Return noisy counts, or sums of weights, with errors and intervals.

    With a `design_effect`, multiplied by the largest weight of a row, they are for the expected counts of samples of
    `n_rows` rows.
    """
    down = up = distribution.quantile(level) * np.asarray(std_error)
    if design_effect:
        n = np.maximum(np.maximum(n_rows, counts), 1.0)
        factor = design_effect / n
        z = NORMAL.quantile(level)
        low, high = find_score_interval(counts, n, down, z**2 * factor)
        down, up = np.maximum(down, counts - low), np.maximum(up, high - counts)
        variance = find_sampling_variance(counts, n, factor)
        std_error = np.sqrt(np.square(std_error) + variance)
    if np.asarray(counts).dtype.kind != "f":
        # Margins are rounded up, because true counts are integers. A noisy count may be an
        # estimate that was rounded by less than 1.
        margins = np.minimum([down, up], MAX_NOISY_COUNT)
        down, up = np.ceil(margins).astype(np.int64)
    return Estimate(counts, std_error, counts - down, counts + up)
