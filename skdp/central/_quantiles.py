"""Quantiles of columns, also by group, chosen among public candidates by the exponential mechanism."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import ColumnName, Floats, Integers
from skdp.base import Estimate
from skdp.central._sums import read_values, read_weights, warn_of_objects
from skdp.central.statistics import Batches, select_columns
from skdp.exact import log_upper
from skdp.privacy import Loss, PrivacyBudget, exponential_loss
from skdp.randomness import (
    ByteSource,
    Proposals,
    notify_watcher,
    piecewise_choices,
    uniform_below,
)
from skdp.readers import ValueCounts
from skdp.tables import Table

# Mass of a value, spread evenly over the interval of its candidate, and number of cuts per
# unit of the line. It must exceed the largest count of a candidate.
VALUE_MASS = 1 << 32

# Binary logarithm of the largest number of candidates of a quantile, a million distances
# between neighboring values. An endpoint has half as much: its candidates times the odds of
# 95 %. Both divide a budget between quantiles and their intervals.
MAX_LOG_CANDIDATES = Fraction(20)

# The number of octaves with equal lengths on the line of candidates, below the largest
# distance of a candidate from 0.
N_OCTAVES = 32

# Part of the line of candidates for 0, if it is one of them.
ZERO_PART = Fraction(1, 16)

# Cells per group above which only the intervals of the searched cells are computed. A median searches
# about a hundred cells of each group.
MIN_CELLS_PER_GROUP = 1 << 10

# Groups whose choices are made at once, so that their arrays fit into memory.
MAX_GROUPS_AT_ONCE = 1 << 11

# The largest weight of a row, in units of the counts of weighted rows.
WEIGHT_UNITS = 1 << 20


@dataclass(frozen=True)
class Candidates:
    """Public candidates for a quantile between two bounds: all numbers with at most some decimals."""

    # Candidate k is the number ``k / 10**decimals``. The candidates have intervals on a line
    # of integers. A cut of the line, chosen by the exponential mechanism, is the candidate of
    # its interval. An interval has two parts, and the first parts of all intervals have the
    # length of `N_OCTAVES` octaves together.
    #
    # Round numbers: 10**i units for each power 100**i, up to the range, that divides k. Many
    # people have the same round value, such as 0. With n candidates, it has up to
    # 1 / sqrt(n) of this part and not 1 / n, so that it is found with half of the
    # epsilon. The other candidates together have nine tenths of it or more.
    #
    # The part of 0 is longer by `ZERO_PART` of the line if it is a candidate: otherwise a
    # quantile of a column that is mostly 0 may be any number between 0 and the other values.
    #
    # Octaves: 2**(top - j) units if the distance of k from 0 is from 2**j to before
    # 2**(j + 1), so that each octave has the same length, and the numbers below the lowest
    # one together. Amounts may be small parts of their bounds: few values on one side of a
    # quantile then outweigh the candidates up to the bound.

    low: float
    high: float
    decimals: int
    # Whether values with more decimals contradict the declaration.
    is_declared: bool = False

    @classmethod
    def between(cls, low: float, high: float, decimals: int | None = None) -> Self:
        """Make the candidates with the declared number of decimals; with None, as many as floats allow."""
        largest = max(abs(low), abs(high))
        # Floats represent all candidates, in steps.
        max_decimals = math.floor(math.log10(1 << 52) - math.log10(largest))
        max_decimals = min(max_decimals, 300)  # 10.0**300 is a float
        if decimals is None or decimals > max_decimals:
            return cls(low, high, max_decimals)
        return cls(low, high, decimals, is_declared=True)

    def _to_steps(self, values: Any) -> Any:
        """Convert values to candidates, before rounding."""
        if self.decimals < 0:
            return values / 10.0**-self.decimals
        return values * 10.0**self.decimals

    @cached_property
    def first(self) -> int:
        """The smallest candidate."""
        return math.floor(self._to_steps(self.low))

    @cached_property
    def last(self) -> int:
        """The largest candidate."""
        return math.ceil(self._to_steps(self.high))

    def round(self, values: Floats) -> Integers:
        """Return the nearest candidate of each value; values outside the bounds are clipped."""
        steps = np.rint(self._to_steps(np.clip(values, self.low, self.high)))
        return np.clip(steps, self.first, self.last).astype(np.int64)

    def to_values(self, candidates: Integers) -> Floats:
        """Return the number between the bounds that each candidate, an integer, stands for."""
        steps = np.asarray(candidates, float)
        if self.decimals < 0:
            values = steps * 10.0**-self.decimals
        else:
            values = steps / 10.0**self.decimals
        return np.clip(values, self.low, self.high)

    @cached_property
    def _levels(self) -> list[tuple[int, int]]:
        """Each power of 100 up to the range, ascending, and its units."""
        levels = []
        spacing, units = 1, 1
        while spacing <= max(self.last - self.first, 1):
            levels.append((spacing, units))
            spacing, units = 100 * spacing, 10 * units
        return levels

    @cached_property
    def _octaves(self) -> tuple[int, int]:
        """The exponents of the lowest and of the top octave of distances from 0."""
        top = max(abs(self.first), abs(self.last), 1).bit_length() - 1
        return max(top - N_OCTAVES, 0), top

    def _sum_levels(self, candidates: Integers | int) -> Any:
        """Sum the units, for the powers of 100 that divide them, of the numbers from 0 to before candidates."""
        # The number of multiples from 0 to before a candidate is the quotient, rounded up. It is
        # negative for a negative candidate.
        return sum(-units * (-candidates // spacing) for spacing, units in self._levels)

    def _sum_octaves(self, candidates: Any) -> Any:
        """Sum the units, for their distances from 0, of the numbers from 0 to before candidates."""
        lowest, top = self._octaves
        is_negative = candidates < 0
        # The number of distances from 0 to before the candidate, or up to a negative one itself.
        sizes = abs(candidates) + is_negative
        octaves = np.clip(np.frexp(sizes)[1].astype(np.int64) - 1, lowest, top)
        units = ((octaves - lowest) << top) + (sizes << (top - octaves))
        # The sum is negative, without the units of 0, for a negative candidate.
        return np.where(is_negative, (1 << (top - lowest)) - units, units)

    @cached_property
    def _units_before(self) -> tuple[int, int]:
        """The sums of units from 0 to before the first candidate, of powers of 100 and of octaves."""
        return self._sum_levels(self.first), self._sum_octaves(self.first)

    @cached_property
    def _scale(self) -> int:
        """The length of one unit of a power of 100, so that their units together are as long as `N_OCTAVES` octaves."""
        length = self._sum_levels(self.last + 1) - self._units_before[0]
        return int(-(-(N_OCTAVES << self._octaves[1]) // length))

    def _find_even_start(self, candidates: Integers | int) -> Any:
        """Return the starts of the intervals of candidates without the additional part of 0."""
        of_levels, of_octaves = self._units_before
        before = self._scale * (self._sum_levels(candidates) - of_levels)
        return before + self._sum_octaves(candidates) - of_octaves

    @cached_property
    def _zero(self) -> tuple[int, int]:
        """The position after 0 without its additional part, and the length of this part; no length without 0."""
        if not self.first <= 0 <= self.last:
            return 0, 0
        length = int(self._find_even_start(self.last + 1))
        return int(self._find_even_start(1)), int(length * ZERO_PART / (1 - ZERO_PART))

    def find_start(self, candidates: Integers | int) -> Any:
        """Return the starts of the intervals of candidates on the line; an interval ends at the next start."""
        _, n_added = self._zero
        return self._find_even_start(candidates) + n_added * (candidates > 0)

    def find_intervals(self, candidates: Integers) -> tuple[Integers, Integers]:
        """Return the starts and the widths of the intervals of candidates."""
        starts: Integers = self.find_start(candidates)
        return starts, self.find_start(candidates + 1) - starts

    @cached_property
    def length(self) -> int:
        """The length of the line."""
        return int(self.find_start(self.last + 1))

    @cached_property
    def _edges(self) -> tuple[list[int], list[int]]:
        """The first candidate of each octave, ascending, and the starts of their intervals."""
        edges = [self.first]
        for octave in range(self._octaves[0] + 1, self._octaves[1] + 2):
            edges += [1 - (1 << octave), 1 << octave]
        inside = np.unique([edge for edge in edges if self.first <= edge <= self.last])
        return inside.tolist(), self._find_even_start(inside).tolist()

    def find_candidate(self, cut: int) -> int:
        """Return the candidate of a cut of the line, in units of ``1 / VALUE_MASS``."""
        # From the largest power of 100 down, with the candidate k a multiple of a power, and
        # `rest` the position after the start of its interval. A block, from a multiple to the next one,
        # has the intervals of all its numbers, and the first one is longer by `extra` units if
        # k is a multiple of larger powers, too. The position is counted from 0, as if all
        # numbers had the units of the octave.
        position = min(cut // VALUE_MASS, self.length - 1)
        after_zero, n_added = self._zero
        position -= min(max(position - after_zero + 1, 0), n_added)
        edges, starts = self._edges
        index = bisect_right(starts, position) - 1
        edge = edges[index]
        units_of_octave = int(self._sum_octaves(edge + 1) - self._sum_octaves(edge))
        rest = position - starts[index] + units_of_octave * edge
        rest += self._scale * self._sum_levels(edge)
        blocks = []
        block = 0
        for spacing, units in self._levels:
            units = self._scale * units + units_of_octave * (spacing == 1)
            block = 100 * block + units
            blocks.append((spacing, units, block))
        candidate = extra = 0
        for spacing, units, block in reversed(blocks):
            n_blocks = (rest - extra) // block
            if n_blocks > 0 or not extra:
                candidate += n_blocks * spacing
                rest -= extra + n_blocks * block
                extra = 0
            extra += units
        return candidate

    @cached_property
    def grid(self) -> Integers:
        """Some candidates, ascending, for audits: numbers with two significant digits."""
        digits = np.arange(-99, 100)
        numbers = np.concatenate([digits * spacing for spacing, _ in self._levels])
        return np.unique(np.clip(numbers, self.first, self.last))


@dataclass(frozen=True, eq=False)
class Masses:
    """The mass of the values of each group of a column on the left of a cut of the line of candidates.

    A value has the mass `VALUE_MASS`, which is spread evenly over the interval of its candidate. Cuts are in units of
    ``1 / VALUE_MASS`` of the line. With weights, a row counts as up to `unit` values.
    """

    candidates: Candidates
    # The candidates with values of all groups, ascending in each group, and the numbers of their
    # values; (n_cells,). The last cell is in no group.
    numbers: Integers
    counts: Integers
    # The first cell of each group, and last the cell after all groups; (n_groups + 1,).
    limits: Integers
    unit: int = 1

    @cached_property
    def _intervals(self) -> tuple[Integers, Integers]:
        """The starts and the widths of the intervals of all candidates with values; (n_cells,)."""
        return self.candidates.find_intervals(self.numbers)

    @property
    def _has_large_groups(self) -> bool:
        """True if few cells are searched, so that their intervals are computed when they are needed."""
        return self.numbers.size > MIN_CELLS_PER_GROUP * len(self.totals)

    def _find_intervals(self, cells: Integers) -> tuple[Integers, Integers]:
        """Return the starts and the widths of the intervals of the candidates of cells."""
        if self._has_large_groups:
            return self.candidates.find_intervals(self.numbers[cells])
        starts, widths = self._intervals
        return starts[cells], widths[cells]

    @cached_property
    def _n_before(self) -> Integers:
        """The numbers of values of all groups before each cell; (n_cells + 1,)."""
        return np.append(0, np.cumsum(self.counts))

    @cached_property
    def _n_before_group(self) -> Integers:
        """The numbers of values of all groups before each group, and of all groups; (n_groups + 1,)."""
        return self._n_before[self.limits]

    @cached_property
    def totals(self) -> Integers:
        """The number of values of each group; (n_groups,)."""
        return np.diff(self._n_before_group)

    @property
    def last_cut(self) -> int:
        """The cut with all candidates on its left."""
        return self.candidates.length * VALUE_MASS

    def find_masses(self, groups: Integers, cuts: Sequence[int]) -> list[int]:
        """Return the mass of the values of each group on the left of its cut."""
        # With large groups, a cell is found by its candidate in place of its start.
        find_key, keys = self.candidates.find_candidate, self.numbers
        if not self._has_large_groups:
            find_key, keys = (lambda cut: cut // VALUE_MASS), self._intervals[0]
        limits = self.limits[groups].tolist(), self.limits[groups + 1].tolist()
        found = [
            first + int(keys[first:after].searchsorted(find_key(cut), "right")) - 1
            for cut, first, after in zip(cuts, *limits, strict=True)
        ]
        cells = np.array(found, np.intp)
        starts, widths = self._find_intervals(cells)
        # -1 without a cell of the group on the left.
        n_before = self._n_before[cells] - self._n_before[limits[0]]
        n_before[cells < limits[0]] = -1
        columns = [starts, widths, n_before, self.counts[cells]]
        masses = []
        for cut, start, width, n, count in zip(
            cuts, *(column.tolist() for column in columns), strict=True
        ):
            part = min((cut - start * VALUE_MASS) // width, VALUE_MASS)
            masses.append(VALUE_MASS * n + part * count if n >= 0 else 0)
        return masses

    def find_first_cuts(
        self, groups: Integers, masses: NDArray[Any]
    ) -> tuple[Integers, Integers, NDArray[Any], NDArray[Any]]:
        """Find the first cuts with at least a mass on their left; all arrays have the shape (n_groups, n_masses).

        `masses` are from 1 to the mass of the group; others are clipped. They have dtype int64, or object for Python
        integers. Return the positions of the cuts on the line, their distances from these positions, the masses on
        their left, and how much these exceed the masses on the left of the cuts before.
        """
        largest = np.maximum(self.totals[groups], 1).astype(masses.dtype)
        masses = np.maximum(masses, 1)
        masses = np.minimum(masses, VALUE_MASS * largest[:, np.newaxis])
        n_values = (-(-masses // VALUE_MASS)).astype(np.int64)  # rounded up
        before = self._n_before_group[groups][:, np.newaxis]
        cells = self._n_before.searchsorted(n_values + before) - 1
        mass_before = VALUE_MASS * (self._n_before[cells] - before).astype(masses.dtype)
        counts = self.counts[cells].astype(masses.dtype)
        exact_parts = -((mass_before - masses) // counts)
        parts = exact_parts.astype(np.int64)
        starts, widths = self._find_intervals(cells)
        # The product of a part and a width may have more than 64 bits.
        high, low = np.divmod(widths, VALUE_MASS)
        products = parts.astype(np.uint64) * low.astype(np.uint64)
        carry, rest = np.divmod(products, np.uint64(VALUE_MASS))
        places = starts + parts * high + carry.astype(np.int64)
        found = mass_before + exact_parts * counts
        return places, rest.astype(np.int64), found, counts

    def count_below(self, groups: Integers, candidates: Integers) -> Integers:
        """Count the values of each group below candidates; (n_groups, n_candidates)."""
        distinct, keys = self._keys
        ranks = distinct.searchsorted(candidates)
        ranks += (groups * (distinct.size + 1))[:, np.newaxis]
        n_before = self._n_before[keys.searchsorted(ranks)]
        counted: Integers = n_before - self._n_before_group[groups][:, np.newaxis]
        return counted

    @cached_property
    def _keys(self) -> tuple[Integers, Integers]:
        """The distinct numbers, and an integer for each cell that increases with its group and number."""
        distinct, ranks = np.unique(self.numbers[:-1], return_inverse=True)
        groups = np.repeat(np.arange(len(self.totals)), np.diff(self.limits))
        return distinct, groups * (distinct.size + 1) + ranks


@dataclass(frozen=True, eq=False)
class GroupValues:
    """The values of columns by group of rows; they exist during `fit` only."""

    candidates: Sequence[Candidates]
    n_groups: int
    # For each distinct value of a group, ascending: its group, counted on from one column to the
    # next, its candidate, and the number of its rows; (n_values,).
    groups: Integers
    numbers: Integers
    counts: Integers
    unit: int = 1

    def regroup(self, groups: Integers, n_groups: int) -> GroupValues:
        """Return the values of other groups: group g is in the groups ``groups[:, g]``, or in none where this is -1."""
        columns, cells = np.divmod(self.groups, self.n_groups)
        parts = []
        for group_of_cell in groups:
            is_kept = group_of_cell[cells] >= 0
            kept = columns[is_kept] * n_groups + group_of_cell[cells[is_kept]]
            parts.append((kept, self.numbers[is_kept], self.counts[is_kept]))
        merged = ValueCounts(tuple(parts)).merge()
        return GroupValues(self.candidates, n_groups, *merged, self.unit)

    def list_masses(self) -> list[Masses]:
        """Return the masses of the groups of each column."""
        masses = []
        for column, candidates in enumerate(self.candidates):
            first = column * self.n_groups
            ends = np.arange(first, first + self.n_groups + 1)
            limits = np.searchsorted(self.groups, ends)
            inside = slice(limits[0], limits[-1])
            # The last cell is in no group: `Masses` finds it for a last group without values.
            numbers = np.append(self.numbers[inside], candidates.first)
            counts = np.append(self.counts[inside], 1)
            limits = limits - limits[0]
            masses.append(Masses(candidates, numbers, counts, limits, self.unit))
        return masses


# Returns the group of each row of a table; rows without a group have the number of groups.
Encode = Callable[[Table], Integers]


def read_groups(
    rows: Batches,
    names: Sequence[Any],
    candidates: Sequence[Candidates],
    encode: Encode,
    n_groups: int,
    *,
    max_weight: float | None = None,
) -> GroupValues:
    """Read the values of the columns `names` by group of rows; missing values are excluded.

    The last column has the weights of rows if `max_weight` is not None.
    """
    list_values = partial(
        _list_values,
        names=names,
        candidates=candidates,
        encode=encode,
        n_groups=n_groups,
        max_weight=max_weight,
    )
    unit = 1 if max_weight is None else WEIGHT_UNITS
    counted = rows.count_values(list_values).merge()
    return GroupValues(candidates, n_groups, *counted, unit)


def _encode_whole(table: Table) -> Integers:
    """Return the only group of all rows."""
    return np.zeros(len(table.columns[0]), np.int64)


def _list_values(
    table: Table,
    *,
    names: Sequence[Any],
    candidates: Sequence[Candidates],
    encode: Encode,
    n_groups: int,
    max_weight: float | None,
) -> list[ValueCounts]:
    """Return the group, the candidate and the weight of each value of all columns.

    The groups of all columns are numbered one after the other, and weights are in units of 1 / `WEIGHT_UNITS`.
    """
    columns = read_values(select_columns(table, names))
    groups = encode(table)
    weights = np.ones(len(groups), np.int64)
    if max_weight is not None:
        rounded = np.rint(read_weights(table, max_weight) * WEIGHT_UNITS)
        weights = rounded.astype(np.int64)
    is_declared = (groups < n_groups) & (weights > 0)
    parts = []
    for index, (column, choices) in enumerate(zip(columns, candidates, strict=True)):
        is_counted = ~np.isnan(column) & is_declared
        values = column[is_counted]
        numbers = choices.round(values)
        if choices.is_declared:
            _check_decimals(names[index], values, numbers, choices)
        group = groups[is_counted] + index * n_groups
        parts.append((group, numbers, weights[is_counted]))
    return [ValueCounts(tuple(parts))]


def _check_decimals(
    name: ColumnName, values: Floats, numbers: Integers, candidates: Candidates
) -> None:
    """Raise an error if a value between the bounds is not its nearest candidate, of `numbers`; both (n_values,)."""
    inside = np.clip(values, candidates.low, candidates.high)
    # Numbers may have been in single precision, or are sums such as 0.1 + 0.2.
    error = 1e-6 * 10.0**-candidates.decimals + np.abs(inside) * 2.0**-23
    if (np.abs(candidates.to_values(numbers) - inside) > error).any():
        declared = str(candidates.decimals)
        if not candidates.decimals:
            declared += " (whole numbers)"
        raise ValueError(
            f"Column {name!r} contains a number with more decimals than its bounds "
            f"declare, {declared}. Use floats as bounds, such as ({candidates.low!r}, "
            f"{candidates.high!r}), or set `real=True` in its `Interval`."
        )


def plan_quantiles(
    rows: Batches,
    bounds: Floats,
    probabilities: Sequence[Fraction],
    budget: PrivacyBudget,
    *,
    decimals: Sequence[int | None] | None = None,
) -> QuantilePlan:
    """Read the values of each column, and plan the release of its quantiles; see `find_decimals`."""
    # Candidates depend on declarations only. They must not depend on dtypes, because
    # pandas converts integers to floats if one of them is missing.
    warn_of_objects(rows.table)
    candidates = make_candidates(bounds, decimals or [None] * len(bounds))
    values = read_groups(rows, rows.names, candidates, _encode_whole, 1)
    return QuantilePlan(values, probabilities, budget)


def make_candidates(bounds: Floats, decimals: Sequence[int | None]) -> list[Candidates]:
    """Make the candidates for the quantiles of columns with these bounds, of shape (n_columns, 2)."""
    pairs = zip(bounds.tolist(), decimals, strict=True)
    return [Candidates.between(low, high, digits) for (low, high), digits in pairs]


@dataclass(frozen=True, eq=False)
class QuantilePlan:
    """A planned release of quantiles of columns by group, with or without intervals."""

    values: GroupValues
    probabilities: Sequence[Fraction]
    # The budget of the groups that do not overlap.
    budget: PrivacyBudget
    has_intervals: bool = False
    # The number of groups of a record: of its cell and of the totals with this cell.
    n_overlapping: int = 1

    mechanism: ClassVar[str] = "exponential mechanism"

    @property
    def bounds(self) -> Floats:
        """The lower and the upper bounds of the columns; shape (2, n_columns)."""
        candidates = self.values.candidates
        return np.array([[choices.low, choices.high] for choices in candidates]).T

    @property
    def _choices(self) -> list[tuple[PrivacyBudget, int]]:
        """The budget and the number of choices of quantiles, and of endpoints."""
        n_quantiles = len(self.probabilities)
        n_levels = n_quantiles.bit_length()  # of the recursion of `choose_cuts`
        parts = [(Fraction(1), n_levels)]
        if self.has_intervals:
            # The error of a choice in ranks is proportional to the logarithm of its number of
            # candidates, so its part of the budget is proportional to it, too.
            of_quantiles = n_levels * self._log_candidates
            whole = of_quantiles + n_quantiles * MAX_LOG_CANDIDATES
            parts = [
                (of_quantiles / whole, n_levels),
                (1 - of_quantiles / whole, 2 * n_quantiles),
            ]
        choices = []
        for fraction, n in parts:
            n_choices = len(self.values.candidates) * n
            choices.append((self.budget * fraction / n_choices, n_choices))
        return choices

    @property
    def _log_candidates(self) -> Fraction:
        """The logarithm of the number of candidates of a quantile, within a limit; the largest one of all columns."""
        candidates = self.values.candidates
        # Floats have more candidates than distances between values that matter. Limits that
        # are found do not change the losses, which have been charged.
        if not all(choices.is_declared for choices in candidates):
            return MAX_LOG_CANDIDATES
        largest = max(choices.last - choices.first + 1 for choices in candidates)
        return min(Fraction(largest.bit_length()), MAX_LOG_CANDIDATES)

    @property
    def endpoint_epsilon(self) -> float:
        """The epsilon of the choice of an endpoint; of a quantile without intervals."""
        budget, _ = self._choices[-1]
        return float(budget.choice)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The privacy losses of all choices; empty for a budget in rho or mu, which bounds them better than epsilon."""
        # The choices of groups that do not overlap are one exponential mechanism, whose
        # candidates are tuples.
        if self.budget.kind != "epsilon":
            return ()
        losses = []
        for budget, n_choices in self._choices:
            loss = exponential_loss(budget.amount)
            losses.append(replace(loss, count=n_choices * self.n_overlapping))
        return tuple(losses)

    def draw(self, level: float, source: ByteSource) -> Estimate:
        """Draw the quantiles, and intervals of confidence `level`: arrays (n_groups, n_columns, n_probabilities)."""
        (cut_budget, _), *endpoint_choices = self._choices
        # An endpoint is on its side of the chosen quantile. So at most one of both is on the
        # wrong side of the quantile of the table.
        tail = 1 - Fraction(level)
        order = np.argsort(np.array(self.probabilities, float))
        ascending = [self.probabilities[index] for index in order]
        shape = self.values.n_groups, len(self.values.candidates), len(order)
        value, error, lower, upper = np.full((4, *shape), math.nan)
        for column, masses in enumerate(self.values.list_masses()):
            cuts = choose_cuts(masses, ascending, cut_budget, source)
            to_values = masses.candidates.to_values
            for index, probability, cuts_of_groups in zip(
                order, ascending, cuts, strict=True
            ):
                found = map(masses.candidates.find_candidate, cuts_of_groups)
                chosen = np.fromiter(found, np.int64, len(cuts_of_groups))
                value[:, column, index] = to_values(chosen)
                for budget, _ in endpoint_choices:
                    for ends, is_upper in ((lower, False), (upper, True)):
                        endpoints = score_endpoints(
                            chosen, masses, probability, budget, tail, is_upper=is_upper
                        )
                        ends[:, column, index] = to_values(endpoints.choose(source))
        return Estimate(value, error, lower, upper)

    def draw_columns(self, source: ByteSource) -> Floats:
        """Draw the quantiles of columns without groups; shape (n_columns, n_quantiles)."""
        values: Floats = self.draw(0.0, source).value
        return values[0]

    def draw_with_bounds(self, source: ByteSource) -> Floats:
        """Draw the quantiles of each column, between its bounds; shape (n_columns, n_quantiles + 2)."""
        low, high = self.bounds
        return np.column_stack([low, self.draw_columns(source), high])


def choose_cuts(
    masses: Masses,
    probabilities: Sequence[Fraction],
    budget: PrivacyBudget,
    source: ByteSource,
) -> list[list[int]]:
    """Choose quantiles of ascending probabilities as cuts of each group, with a budget for each level of the recursion.

    A cut is an integer position on the line of candidates, in units of 1 / `VALUE_MASS`.
    """
    # The middle quantile is chosen among all cuts. The smaller quantiles are then
    # quantiles of the values on its left, and the larger quantiles of the values on its right,
    # and both are chosen in the same way ([1]_).
    # The sets of values that are divided on one level of this recursion are disjoint. A
    # cut within a cell may put parts of one row into several sets; the parts add up to
    # at most one row, and a part w changes the scores of its set by w times their
    # sensitivity. So all choices of a level are one exponential mechanism with one
    # fraction of the budget: its candidates are tuples of cuts, and the score of a tuple
    # is the sum of the scores of its cuts, each divided by its sensitivity. Levels
    # compose adaptively, with an equal fraction each.
    # .. [1] H. Kaplan, S. Schnapp, U. Stemmer (2022). Differentially private approximate
    #    quantiles. ICML.
    ranks = [Fraction(0), *probabilities, Fraction(1)]
    n_groups = len(masses.totals)
    cuts = [[0] * n_groups for _ in ranks]
    cuts[-1] = [masses.last_cut] * n_groups
    intervals = [(0, len(ranks) - 1)]
    while intervals:
        nodes = [
            (low, (low + high) // 2, high) for low, high in intervals if high > low + 1
        ]
        chosen: list[int] = []
        pairs = [(*node, group) for node in nodes for group in range(n_groups)]
        for start in range(0, len(pairs), MAX_GROUPS_AT_ONCE):
            lows, middles, highs, groups = zip(
                *pairs[start : start + MAX_GROUPS_AT_ONCE], strict=True
            )
            fractions = [
                (ranks[middle] - ranks[low]) / (ranks[high] - ranks[low])
                for low, middle, high in zip(lows, middles, highs, strict=True)
            ]
            choices = CutChoices(
                masses,
                np.array(groups),
                [cuts[low][group] for low, group in zip(lows, groups, strict=True)],
                [cuts[high][group] for high, group in zip(highs, groups, strict=True)],
                fractions,
            )
            chosen += choices.choose(budget, source)
        for index, (_, middle, _) in enumerate(nodes):
            cuts[middle] = chosen[index * n_groups : (index + 1) * n_groups]
        intervals = [
            half
            for low, middle, high in nodes
            for half in ((low, middle), (middle, high))
        ]
    return cuts[1:-1]


@dataclass(frozen=True, eq=False)
class CutChoices:
    """Scores of the cuts in ranges of groups, whose best cuts divide the masses of the ranges at given fractions.

    The score of a cut is minus the distance of the mass on its left from the fraction, times the denominator of the
    fraction, which makes it an integer. Scores increase up to the best cut, and decrease after it.
    """

    masses: Masses
    # The group of each choice, the first and the last cut, and the fraction; (n_choices,).
    groups: Integers
    lows: Sequence[int]
    highs: Sequence[int]
    fractions: Sequence[Fraction]

    @cached_property
    def _ratios(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The numerators and denominators of the fractions; of a dtype for masses times the denominators."""
        pairs = [fraction.as_integer_ratio() for fraction in self.fractions]
        numerators, denominators = np.array(pairs).T
        largest = int(denominators.max()) * int(self.masses.totals[self.groups].max())
        dtype: type = np.int64 if 2 * largest * VALUE_MASS < 1 << 62 else object
        return numerators.astype(dtype), denominators.astype(dtype)

    @property
    def _largest_fractions(self) -> NDArray[Any]:
        """The numerators of the fractions, or of 1 minus the fractions if these are larger."""
        numerators, denominators = self._ratios
        return np.maximum(numerators, denominators - numerators)

    @cached_property
    def _masses_of_limits(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The masses on the left of the first and of the last cut, (n_choices,)."""
        numerators, _ = self._ratios
        start, stop = (
            np.array(self.masses.find_masses(self.groups, cuts), numerators.dtype)
            for cuts in (self.lows, self.highs)
        )
        return start, stop

    @cached_property
    def _targets(self) -> NDArray[Any]:
        """The mass on the left of the best cut, times the denominator of the fraction; (n_choices,)."""
        start, stop = self._masses_of_limits
        numerators, denominators = self._ratios
        return denominators * start + numerators * (stop - start)

    def find_distances(self, indices: Integers, cuts: Sequence[int]) -> list[int]:
        """Return minus the scores of cuts of some choices."""
        _, denominators = self._ratios
        return [
            abs(denominator * mass - target)
            for mass, denominator, target in zip(
                self.masses.find_masses(self.groups[indices], cuts),
                denominators[indices].tolist(),
                self._targets[indices].tolist(),
                strict=True,
            )
        ]

    @cached_property
    def _smallest(self) -> NDArray[Any]:
        """Minus the best scores; (n_choices,)."""
        start, stop = self._masses_of_limits
        _, denominators = self._ratios
        targets = self._targets
        wanted = -(-targets // denominators)[:, np.newaxis]  # rounded up
        # The best cut is the first one with the wanted mass, or the cut before it.
        *_, above, steps = self.masses.find_first_cuts(self.groups, wanted)
        distances = np.minimum(
            abs(denominators * above[:, 0] - targets),
            abs(denominators * (above - steps)[:, 0] - targets),
        )
        return np.where(stop > start, distances, 0)

    def find_limits(self, deficits: NDArray[Any]) -> tuple[Integers, Integers]:
        """Return for each choice and deficit the first cut whose score is at most so far below the best one.

        Also return the cut after the last such cut. The deficits are ascending, (n_choices, n_deficits). The last
        limits are the limits of all cuts. A cut is divided into its position on the line, and its distance from it;
        (2, n_choices, n_deficits + 1).
        """
        start, stop = (mass[:, np.newaxis] for mass in self._masses_of_limits)
        targets = self._targets[:, np.newaxis]
        denominators = self._ratios[1][:, np.newaxis]
        distances = self._smallest[:, np.newaxis] + deficits
        low, high = _divide_cuts(self.lows), _divide_cuts([x + 1 for x in self.highs])
        limits = []
        for last, excesses in ((low, -distances), (high, distances + 1)):
            wanted = -(-(targets + excesses) // denominators)  # rounded up
            places, rests, *_ = self.masses.find_first_cuts(self.groups, wanted)
            inside = np.where(wanted <= start, low, np.array([places, rests]))
            inside = np.where(wanted > stop, high, inside)
            limits.append(np.concatenate([inside, last], axis=2))
        return limits[0], limits[1]

    def list_scores(self, index: int) -> list[int]:
        """Return the scores of cuts of a choice between candidates of the public grid, and last of both limits."""
        candidates = self.masses.candidates
        starts = candidates.find_start(candidates.grid)
        low, high = self.lows[index], self.highs[index]
        cuts = [VALUE_MASS * int(start) for start in starts]
        cuts = [*(cut for cut in cuts if low < cut < high), low, high]
        indices = np.full(len(cuts), index)
        return [-distance for distance in self.find_distances(indices, cuts)]

    def choose(self, budget: PrivacyBudget, source: ByteSource) -> list[int]:
        """Choose cuts by the exponential mechanism: cuts near the quantile are most probable."""
        # With a fraction f, adding a row of mass m changes the mass on the left minus f times
        # the mass of all values by -f m if it is on the right, and by up to (1 - f) m.
        largest = self._largest_fractions
        row_mass = 2 * VALUE_MASS * self.masses.unit * budget.rows_per_person
        rate_by_number = {
            number: budget.choice / (row_mass * number)
            for number in set(largest.tolist())
        }
        rates = [rate_by_number[number] for number in largest.tolist()]
        pieces = Pieces.between(*self.find_limits(self._list_deficits(rates)))

        def draw(indices: Integers, found: Integers) -> Proposals:
            cuts, sizes = pieces.draw(indices, found, source)
            distances = self.find_distances(indices, cuts)
            best = self._smallest[indices].tolist()
            gaps = [x - y for x, y in zip(distances, best, strict=True)]
            return cuts, gaps, sizes

        cuts = piecewise_choices(source, pieces.bounds, draw, rates)
        chosen = []
        for index, (cut, low) in enumerate(zip(cuts, self.lows, strict=True)):
            offset = notify_watcher(
                "exponential_mechanism",
                cut - low,
                scores=partial(self.list_scores, index),
                rate=rates[index],
            )
            chosen.append(low + offset)
        return chosen

    def _list_deficits(self, rates: Sequence[Fraction]) -> NDArray[Any]:
        """Return the largest differences from the best score in each band, (n_choices, n_bands - 1)."""
        start, stop = self._masses_of_limits
        largest = self._largest_fractions * (stop - start)
        span = int((largest - self._smallest).max())
        n_bands = (self.masses.last_cut + 1).bit_length() + 20
        deficits = {
            rate: [min(x, span) for x in list_deficits(rate, n_bands)]
            for rate in set(rates)
        }
        n_used = max(sum(x < span for x in listed) for listed in deficits.values())
        listed = [deficits[rate][:n_used] for rate in rates]
        return np.array(listed, largest.dtype).reshape(len(rates), n_used)


def _divide_cuts(cuts: Sequence[int]) -> Integers:
    """Divide cuts into their positions on the line, and their distances from these; (2, n_cuts, 1)."""
    parts = [divmod(cut, VALUE_MASS) for cut in cuts]
    return np.array(parts, np.int64).T[:, :, np.newaxis]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Ranges of cuts of each group: bands of scores on both sides of the best cut, of which each halves the weights."""

    # The positions on the line of the first cuts and of the cuts after the last ones, and their distances
    # from these positions; (2, n_groups, n_pieces) each.
    begins: Integers
    ends: Integers
    # Upper bounds of the weights of the pieces; (n_groups, n_pieces).
    bounds: Floats

    @classmethod
    def between(cls, first: Integers, after: Integers) -> Pieces:
        """Divide the cuts of each group by limits of the scores; see `CutChoices.find_limits`."""
        # The best band, further bands before it, and further bands after it.
        begins = np.concatenate([first, after[:, :, :-1]], axis=2)
        ends = np.concatenate(
            [after[:, :, :1], first[:, :, :-1], after[:, :, 1:]], axis=2
        )
        places, rests = ends - begins
        bands = np.arange(first.shape[2])
        weights = np.ldexp(1.0, -np.append(bands, bands[1:]))
        return cls(begins, ends, (places * float(VALUE_MASS) + rests) * weights)

    def draw(
        self, groups: Integers, pieces: Integers, source: ByteSource
    ) -> tuple[list[int], list[int]]:
        """Draw uniform cuts from pieces of groups, and return them with the numbers of cuts in the pieces."""
        firsts, afters = (
            [
                place * VALUE_MASS + rest
                for place, rest in limits[:, groups, pieces].T.tolist()
            ]
            for limits in (self.begins, self.ends)
        )
        sizes = [after - first for first, after in zip(firsts, afters, strict=True)]
        offsets = uniform_below(source, np.array(sizes, object))
        cuts = [int(x) + first for x, first in zip(offsets, firsts, strict=True)]
        return cuts, sizes


@lru_cache(maxsize=32)
def list_deficits(rate: Fraction, n_bands: int) -> tuple[int, ...]:
    """Return for each band of cuts the largest difference from the best score in it."""
    # The weight ``e**(-rate * difference)`` in band t is at most 2**-t.
    halving = Fraction(711, 1024) / rate  # slightly more than log(2)
    numerator, denominator = halving.as_integer_ratio()
    # The largest integers below the multiples of `halving`.
    return tuple(
        (band * numerator - 1) // denominator for band in range(1, n_bands + 1)
    )


@dataclass(frozen=True, eq=False)
class EndpointChoices:
    """Candidates for endpoints of intervals on one side of the chosen quantile of each group, and their scores."""

    # (n_groups, n_candidates); the candidates of a group are the first ones.
    candidates: Integers
    scores: NDArray[Any]
    n_candidates: Integers
    rate: Fraction

    def choose(self, source: ByteSource) -> Integers:
        """Choose a candidate of each group by the exponential mechanism."""
        exponents = np.array(-self.scores * float(self.rate), float)
        is_given = np.arange(self.scores.shape[1]) < self.n_candidates[:, np.newaxis]
        bounds = np.where(is_given, np.exp(-np.minimum(exponents, 700.0)), 0.0)

        def draw(groups: Integers, found: Integers) -> Proposals:
            # Each candidate is a piece of its own.
            gaps = (-self.scores[groups, found]).tolist()
            return found.tolist(), gaps, [1] * len(gaps)

        n_groups = len(self.candidates)
        chosen = piecewise_choices(source, bounds, draw, [self.rate] * n_groups)
        for group, index in enumerate(chosen):
            scores = self.scores[group, : self.n_candidates[group]]
            chosen[group] = notify_watcher(
                "exponential_mechanism", index, scores=scores, rate=self.rate
            )
        return self.candidates[np.arange(n_groups), chosen]


def score_endpoints(
    chosen: Integers,
    masses: Masses,
    probability: Fraction,
    budget: PrivacyBudget,
    tail: Fraction,
    *,
    is_upper: bool,
) -> EndpointChoices:
    """Score candidates for an endpoint on one side of the chosen quantile of each group.

    `probability` defines the quantile (1/2 is the median), `budget` is the budget of one endpoint, and `tail` is the
    largest probability that the endpoint is on the wrong side of the quantile of the table.
    """
    # For n values and the probability p = a / b, the candidate c_i is a lower endpoint if
    # at most p n values are below it. The table gets s additional values below all
    # candidates, so that the p n-th smallest of all n + s values is about s values below the
    # quantile. With A_i of the n + s values below c_i, the distance of a candidate is
    #     max(b A_i - a n, a n - b A_(i + 1), 0),
    # and the score is minus the distance. Adding a value changes b A_i - a n by b - a or
    # by -a, so it changes the distance by at most max(a, b - a).
    #
    # One candidate or more has the distance 0, because A_0 = 0 and A_N = n + s. If more
    # than p n values are below c_i, then its distance exceeds b s. So with N candidates and the rate r
    # of the exponential mechanism, the probability of such a choice is at most x / (1 + x)
    # with x = (N - 1) exp(-r b s), and exactly this much for the worst table.
    #
    # The candidates depend on the chosen quantile, which is public then: their distances
    # from it are halves of each other, from the bound of the column down to 0. So N is small for all
    # bounds. An upper endpoint is a lower endpoint in descending order.
    bound = masses.candidates.last if is_upper else masses.candidates.first
    distances = np.abs(bound - chosen)
    n_candidates = np.array([int(x).bit_length() + 1 for x in distances.tolist()])
    largest = int(n_candidates.max(initial=1))
    halves = distances[:, np.newaxis] >> np.arange(largest)
    candidates = chosen[:, np.newaxis] + (1 if is_upper else -1) * halves
    groups = np.arange(len(chosen))
    below = masses.count_below(groups, candidates + is_upper)
    totals = masses.totals[:, np.newaxis]
    if is_upper:
        probability = 1 - probability
        below = totals - below
    a, b = probability.as_integer_ratio()
    rate = budget.choice / (2 * masses.unit * max(a, b - a) * budget.rows_per_person)
    # The number s of added values for each number of candidates, from 0.
    added = []
    for n in range(largest + 1):
        odds = max(n - 1, 1) * (1 - tail) / tail
        log_odds = log_upper(max(odds, Fraction(1)))
        added.append(math.ceil(Fraction(log_odds) / (rate * b)))
    max_number = b * (int(masses.totals.max(initial=0)) + added[-1])
    dtype: type = np.int64 if max_number < 1 << 62 else object
    n_added = np.array(added, dtype)[n_candidates][:, np.newaxis]
    # The first candidate has no value below it, so that some candidate has the distance 0.
    numbers = np.hstack([0 * n_added, n_added + below[:, 1:], n_added + totals])
    positions = np.arange(largest + 1)
    is_after = positions >= n_candidates[:, np.newaxis]
    numbers = np.where(is_after, n_added + totals, numbers)
    excesses = b * numbers - a * totals
    distance = np.maximum(excesses[:, :-1], -excesses[:, 1:])
    return EndpointChoices(candidates, -np.maximum(distance, 0), n_candidates, rate)
