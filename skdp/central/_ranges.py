"""Ranges of the cells of one column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Floats,
    Noise,
    bound_quantile,
)
from skdp.domain import Categories, Interval
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
    name: Any, attribute: Categories | Interval, low: Any, high: Any
) -> NDArray[np.bool_]:
    """Mark the cells of a column in a half-open range."""
    values = list(attribute.values)
    if isinstance(attribute, Interval):
        # A cell between two edges is in the range if its lower edge is.
        values = list(attribute.edges[:-1]) + [None] * attribute.missing
    declared = drop_missing(values)
    if not declared:
        raise ValueError(
            f"column {name!r} must have ordered values for a range. Use ordered=True"
        )
    low = _read_end(name, "low", low, type_of_value(declared[0]))
    high = _read_end(name, "high", high, type_of_value(declared[0]))
    if isinstance(attribute, Interval):
        _check_edges(name, attribute.edges, low, high)
    elif type_of_value(declared[0]) not in ORDERED_TYPES:
        # The order is the order of the declaration.
        low, high = (_find_value(name, values, end) for end in (low, high))
        for index, value in enumerate(values):
            values[index] = None if value is None else index
    if low is not None and high is not None and low > high:
        raise ValueError("low must be at most high")
    is_inside = np.zeros(len(values), bool)
    for cell, value in enumerate(values):
        is_above = value is not None and (low is None or low <= value)
        is_inside[cell] = is_above and (high is None or value < high)
    return is_inside


def _read_end(name: Any, label: str, end: Any, kind: str) -> Any:
    if end is None:
        return None
    if is_missing(end) or type_of_value(end) != kind:
        kinds = "a missing value" if is_missing(end) else f"a {type_of_value(end)}"
        raise TypeError(
            f"{label} must be None or a {kind}, as column {name!r} has them, got {kinds}"
        )
    return to_python(end)


def _check_edges(name: Any, edges: Sequence[Any], *ends: Any) -> None:
    """Check that the endpoints of a range are edges, or outside of all bins."""
    for end in ends:
        if end is not None and edges[0] < end < edges[-1] and end not in edges:
            raise ValueError(
                f"low and high must be edges of the bins of column {name!r}, got "
                f"{end!r}. Use its `edges`."
            )


def _find_value(name: Any, values: Sequence[Any], end: Any) -> int | None:
    if end is not None and end not in values:
        raise ValueError(
            f"low and high must be declared values of column {name!r}, got {end!r}"
        )
    return None if end is None else values.index(end)


class Hierarchy:
    """A tree over k ordered cells: groups of b cells each, groups of b groups each, and so on."""

    # The top level is the first one of at most b groups; so a tree with b >= k is the
    # cells alone. Each level holds all cells: a record that is added changes one count
    # on each. With equal, independent noise on all counts, counts of groups improve counts
    # of cells. The best linear unbiased estimates, for which every group is
    # the sum of its parts, are found in one pass up and one down ([1]_, section 4).
    # Variances here are in units of the variance of one noisy count.
    # .. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu (2010). Boosting the accuracy of
    #    differentially private histograms through consistency. PVLDB 3(1).

    def __init__(self, size: int, branching: int) -> None:
        self.branching = branching
        self.sizes = [size]
        while self.sizes[-1] > branching:
            self.sizes.append(-(-self.sizes[-1] // branching))
        # From the counts of a group and of all within: the variance of its best
        # estimate, and of the sum of its parts.
        self._own: list[Floats] = [np.ones(size)]
        self._parts: list[Floats] = []
        for _ in self.sizes[1:]:
            self._parts.append(self._gather(self._own[-1]))
            self._own.append(self._parts[-1] / (self._parts[-1] + 1))

    def _gather(self, values: NDArray) -> NDArray:
        """Sum up the parts of each group."""
        return np.add.reduceat(values, np.arange(0, values.size, self.branching))

    def _spread(self, values: NDArray, size: int) -> NDArray:
        """Repeat the value of each group for its parts."""
        return np.repeat(values, self.branching)[:size]

    def totals(self, counts: NDArray) -> list[NDArray]:
        """Sum up the counts of the cells on each level."""
        levels = [counts]
        for _ in self.sizes[1:]:
            levels.append(self._gather(levels[-1]))
        return levels

    def measure(
        self, counts: NDArray[np.int64], noise: Noise, source: ByteSource
    ) -> list[NDArray[np.int64]]:
        """Add noise to the counts of all levels; all sums of cells are integers of 64 bits, however large it is."""
        most = MAX_NOISY_COUNT // counts.size
        noisy = []
        for level in self.totals(counts):
            drawn = level + noise.draw(source, level.size)
            noisy.append(np.clip(drawn, -most, most).astype(np.int64))
        return noisy

    def _improve(self, noisy: Sequence[NDArray]) -> list[Floats]:
        """Return the best estimates of the counts of each level from the level and all levels below."""
        best = [np.asarray(noisy[0], float)]
        for counts, parts in zip(noisy[1:], self._parts, strict=True):
            best.append((counts * parts + self._gather(best[-1])) / (parts + 1))
        return best

    def estimate(self, noisy: Sequence[NDArray]) -> Floats:
        """Return the least-squares estimates of the cells."""
        best = self._improve(noisy)
        final = best.pop()
        for below, variances, parts in zip(
            best[::-1], self._own[-2::-1], self._parts[::-1], strict=True
        ):
            gap = (final - self._gather(below)) / parts
            final = below + variances * self._spread(gap, below.size)
        return final

    @cached_property
    def cell_variances(self) -> Floats:
        """The variance of the estimate of each cell."""
        final = self._own[-1]
        for variances, parts in zip(self._own[-2::-1], self._parts[::-1], strict=True):
            # Given its group's count, an estimate has the slope own / parts and the
            # variance own - own**2 / parts.
            final = variances + (
                variances / self._spread(parts, variances.size)
            ) ** 2 * self._spread(final - parts, variances.size)
        return final

    def variance(self, weights: NDArray) -> float:
        """Return the variance of a weighted sum of the estimates of the cells."""
        # Given the count of a group, the weighted sum within the group is linear in the
        # count, with a variance around the line.
        slopes, around = np.asarray(weights, float), 0.0
        for variances, parts in zip(self._own, self._parts, strict=False):
            above = self._gather(slopes * variances) / parts
            around += float(
                (variances * (slopes - self._spread(above, variances.size)) ** 2).sum()
            )
            slopes = above
        return around + float((self._own[-1] * slopes**2).sum())

    def mean_range_variance(self) -> float:
        """Estimate the mean of the variances of all ranges of cells from random ones."""
        variances = []
        ends = np.random.default_rng(0).integers(0, self.sizes[0] + 1, (64, 2))
        for low, high in np.sort(ends):
            in_range = np.zeros(self.sizes[0])
            in_range[low:high] = 1.0
            variances.append(self.variance(in_range))
        return float(np.mean(variances))


def count_std(share: PrivacyBudget, n_levels: int) -> float:
    """Return the standard deviation of the noise of one count."""
    return float(min(Noise.of(share / n_levels).error, Fraction(MAX_NOISY_COUNT)))


def plan_hierarchy(size: int, share: PrivacyBudget, method: str) -> Hierarchy:
    """Choose the tree with the smallest expected squared error of a random range."""
    # The choice depends on public facts only.
    flat = Hierarchy(size, max(size, 2))
    if method == "flat":
        return flat
    depths = range(2, (size - 1).bit_length() + 1)
    branchings = {math.ceil(size ** (1 / depth)) for depth in depths}
    trees = [Hierarchy(size, parts) for parts in sorted(branchings)]
    if method == "auto" or not trees:
        trees.insert(0, flat)
    return min(
        trees,
        key=lambda tree: (
            count_std(share, len(tree.sizes)) * math.sqrt(tree.mean_range_variance())
        ),
    )


def count_interval(
    counts: int | NDArray[np.int64],
    std_error: float | NDArray[np.float64],
    level: float,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the endpoints of the intervals of noisy counts."""
    # Rounded up: the true and the noisy count are whole, even if the latter was rounded
    # from an estimate less than 1 away.
    margin = bound_quantile(level) * np.asarray(std_error)
    reach = np.ceil(np.minimum(margin, MAX_NOISY_COUNT)).astype(np.int64)
    return counts - reach, counts + reach
