"""Quantiles of columns, also by group, chosen among public candidates by the exponential mechanism."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from skdp._arrays import Floats, Integers
from skdp.base import find_decimals, parse_bounds
from skdp.central._sums import read_values, read_weights, warn_of_objects
from skdp.central.statistics import (
    Batches,
    Estimate,
    encode_columns,
    join_codes,
    select_columns,
)
from skdp.domain import Domain
from skdp.exact import log_upper
from skdp.large import ValueCounts
from skdp.privacy import Loss, PrivacyBudget, exponential_loss
from skdp.randomness import ByteSource, exponential_mechanism, unimodal_choice
from skdp.tables import Table

# Mass of a value, spread evenly over the interval of its candidate, and number of cuts per
# unit of the line. It must exceed the largest count of a candidate.
VALUE_MASS = 1 << 32


# The largest weight of a row, in units of the counts of weighted rows.
WEIGHT_UNITS = 1 << 20


def read_probability(value: Any, name: str) -> Fraction:
    """Check the probability of a quantile, and round it to a fraction with a denominator of at most 1,000,000."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(
            f"`{name}` must be a number in (0, 1), got {type(value).__name__}."
        )
    number = float(value)
    exact = Fraction(0)
    if 0 < number < 1:
        exact = Fraction(number).limit_denominator(1_000_000)
    if not 0 < exact < 1:
        raise ValueError(
            f"`{name}` must be in [1e-6, 1 - 1e-6], got {value}. Divide a percentile by "
            "100: the median is 0.5."
        )
    return exact


@dataclass(frozen=True)
class Candidates:
    """Public candidates for a quantile between two bounds: all numbers with at most some decimals."""

    # Candidate k is the number ``k / 10**decimals``. The candidates have intervals on a line
    # of integers: 10**i units for each power 100**i, up to their range, that divides k. A cut
    # of the line, chosen by the exponential mechanism, is the candidate of its interval.
    # Many people have the same round value, such as 0. With n candidates, it has up to
    # 1 / sqrt(n) of the line and not 1 / n, so that it is found with half of the
    # epsilon. The other candidates together have nine tenths of the line or more.

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

    def to_values(self, candidates: Any) -> Floats:
        """Return the number between the bounds that each candidate, an integer, stands for."""
        steps = np.asarray(candidates, float)
        if self.decimals < 0:
            values = steps * 10.0**-self.decimals
        else:
            values = steps / 10.0**self.decimals
        return np.clip(values, self.low, self.high)

    @cached_property
    def _levels(self) -> list[tuple[int, int, int]]:
        """Each power of 100 up to the range, its units, and its smallest multiple from the first candidate on."""
        levels = []
        spacing, units = 1, 1
        while spacing <= max(self.last - self.first, 1):
            levels.append((spacing, units, -(-self.first // spacing)))
            spacing, units = 100 * spacing, 10 * units
        return levels

    def find_start(self, candidate: Any) -> Any:
        """Return the start of the interval of a candidate on the line; the interval ends at the next start."""
        start = 0 * candidate
        for spacing, units, smallest in self._levels:
            start = start + units * (-(-candidate // spacing) - smallest)
        return start

    @cached_property
    def length(self) -> int:
        """The length of the line."""
        return self.find_start(self.last + 1)

    def find_candidate(self, cut: int) -> int:
        """Return the candidate of a cut of the line, in units of ``1 / VALUE_MASS``."""
        position = min(cut // VALUE_MASS, self.length - 1)
        numbers = range(self.first, self.last + 1)
        return self.first - 1 + bisect_right(numbers, position, key=self.find_start)

    @cached_property
    def grid(self) -> Integers:
        """Some candidates, ascending, for audits: numbers with two significant digits."""
        digits = np.arange(-99, 100)
        numbers = np.concatenate([digits * spacing for spacing, *_ in self._levels])
        return np.unique(np.clip(numbers, self.first, self.last))


@dataclass(frozen=True, eq=False)
class Masses:
    """The mass of the values of a column on the left of a cut of the line of candidates.

    A value has the mass `VALUE_MASS`, which is spread evenly over the interval of its candidate. Cuts are in units of
    ``1 / VALUE_MASS`` of the line. With weights, a row counts as up to `unit` values.
    """

    candidates: Candidates
    # The intervals of the candidates with values, ascending, and the numbers of values
    # before each, and of all; shapes (n_cells,), (n_cells + 1,).
    starts: Integers
    widths: Integers
    n_before: Integers
    unit: int = 1

    @classmethod
    def of_candidates(
        cls, candidates: Candidates, numbers: Integers, counts: Integers, unit: int
    ) -> Self:
        """Make the masses of ascending candidates `numbers` and the counts of their values, both (n_cells,)."""
        starts = candidates.find_start(numbers)
        widths = candidates.find_start(numbers + 1) - starts
        n_before = np.append(0, np.cumsum(counts))
        return cls(candidates, starts, widths, n_before, unit)

    @property
    def total(self) -> int:
        """The number of values."""
        return int(self.n_before[-1])

    @property
    def last_cut(self) -> int:
        """The cut with all candidates on its left."""
        return self.candidates.length * VALUE_MASS

    def mass_of(self, cut: int) -> int:
        """Return the mass of the values on the left of a cut."""
        cell = int(np.searchsorted(self.starts, cut // VALUE_MASS, "right")) - 1
        if cell < 0:
            return 0
        start, width = int(self.starts[cell]), int(self.widths[cell])
        part = min((cut - start * VALUE_MASS) // width, VALUE_MASS)
        n_before, n_until = self.n_before[cell : cell + 2].tolist()
        return VALUE_MASS * n_before + part * (n_until - n_before)

    def find_first_cut(self, mass: int) -> int:
        """Return the first cut with at least `mass` on its left; `last_cut` + 1 if there is none.

        A value has the mass `VALUE_MASS`, and cuts are in units of ``1 / VALUE_MASS`` of the line.
        """
        if mass <= 0:
            return 0
        n_values = -(-mass // VALUE_MASS)  # rounded up
        cell = int(np.searchsorted(self.n_before, n_values)) - 1
        if cell == self.starts.size:
            return self.last_cut + 1
        n_before, n_until = self.n_before[cell : cell + 2].tolist()
        missing_mass = mass - VALUE_MASS * n_before
        part = -(-missing_mass // (n_until - n_before))
        return int(self.starts[cell]) * VALUE_MASS + part * int(self.widths[cell])

    def count_below(self, candidates: Integers) -> Integers:
        """Count the values below each candidate; (n_candidates,)."""
        starts = self.candidates.find_start(candidates)
        return self.n_before[np.searchsorted(self.starts, starts)]


def read_masses(
    rows: Batches,
    domain: Domain,
    candidates: Sequence[Candidates],
    max_weight: float | None = None,
    *,
    totals: bool = False,
) -> list[list[Masses]]:
    """Read the values of each column by group of rows; return a list of the groups for each column.

    The first columns of `rows` are the keys of `domain`, and the last column the weights of rows if `max_weight` is not
    None. Rows with an undeclared key and missing values are excluded. With `totals`, there are groups of all values of
    a key, too, in the order of `DPGroupBy.keys_`.
    """
    unit = 1 if max_weight is None else WEIGHT_UNITS
    # The groups of all columns are numbered one after the other.
    counted = rows.count_values(
        partial(
            _list_values, domain=domain, candidates=candidates, max_weight=max_weight
        )
    )
    sizes = np.array(domain.sizes, int)
    if totals:
        cells = np.array(np.unravel_index(counted[0], (len(candidates), *sizes)))
        for axis, size in enumerate(sizes, 1):
            in_total = cells.copy()
            in_total[axis] = size
            cells = np.hstack([cells, in_total])
            counted = np.hstack([counted, counted])
        sizes += 1
        counted[0] = np.ravel_multi_index(tuple(cells), (len(candidates), *sizes))
        counted = ValueCounts((counted,)).merge()
    groups, numbers, counts = counted
    n_groups = math.prod(sizes.tolist())
    limits = np.searchsorted(groups, np.arange(len(candidates) * n_groups + 1))
    masses: list[list[Masses]] = [[] for _ in candidates]
    for group, (start, stop) in enumerate(pairwise(limits)):
        column = group // n_groups
        part = numbers[start:stop]
        masses[column].append(
            Masses.of_candidates(candidates[column], part, counts[start:stop], unit)
        )
    return masses


def _list_values(
    table: Table,
    *,
    domain: Domain,
    candidates: Sequence[Candidates],
    max_weight: float | None,
) -> list[ValueCounts]:
    """Return the group, the candidate and the weight of each value of all columns; shape (3, n_values) per column.

    The groups of all columns are numbered one after the other, and weights are in units of 1 / `WEIGHT_UNITS`.
    """
    n_keys = len(domain.columns)
    keys = select_columns(table, table.names[:n_keys])
    names = table.names[n_keys : n_keys + len(candidates)]
    columns = read_values(select_columns(table, names))
    codes, _ = encode_columns(keys, domain, "ignore")
    groups = join_codes(domain, codes, len(columns[0]))
    weights = np.ones(len(groups), np.int64)
    if max_weight is not None:
        rounded = np.rint(read_weights(table, max_weight) * WEIGHT_UNITS)
        weights = rounded.astype(np.int64)
    parts = []
    for index, (column, choices) in enumerate(zip(columns, candidates, strict=True)):
        is_counted = ~np.isnan(column) & (groups < domain.size) & (weights > 0)
        numbers = choices.round(column[is_counted])
        if choices.is_declared:
            _check_decimals(names[index], column[is_counted], numbers, choices)
        group = groups[is_counted] + index * domain.size
        parts.append(np.stack([group, numbers, weights[is_counted]]))
    return [ValueCounts(tuple(parts))]


def _check_decimals(
    name: Any, values: Floats, numbers: Integers, candidates: Candidates
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
            f"Column {name!r} contains a number with more decimals than its `bounds` "
            f"declare, {declared}. Use floats as bounds, such as ({candidates.low!r}, "
            f"{candidates.high!r}), or set real=True in its Interval."
        )


def plan_quantiles(
    rows: Batches,
    bounds: Any,
    probabilities: Sequence[Fraction],
    budget: PrivacyBudget,
    *,
    integers: bool = False,
) -> QuantilePlan:
    """Read the values of each column, and plan the release of its quantiles.

    If `integers`, `bounds` of integers declare whole numbers.
    """
    # Candidates depend on declarations only. They must not depend on dtypes, because
    # pandas converts integers to floats if one of them is missing.
    limits = parse_bounds(bounds, rows.names)
    warn_of_objects(rows.table)
    decimals: list[int | None] = [None] * len(limits)
    if integers:
        decimals = find_decimals(bounds, rows.names)
    candidates = make_candidates(limits, decimals)
    masses = read_masses(rows, Domain({}), candidates)
    return QuantilePlan(masses, probabilities, budget)


def make_candidates(bounds: Floats, decimals: Sequence[int | None]) -> list[Candidates]:
    """Make the candidates for the quantiles of columns with these bounds, of shape (n_columns, 2)."""
    pairs = zip(bounds.tolist(), decimals, strict=True)
    return [Candidates.between(low, high, digits) for (low, high), digits in pairs]


@dataclass(frozen=True, eq=False)
class QuantilePlan:
    """A planned release of quantiles of columns by group, with or without intervals."""

    # The exact values of each column by group. They exist during `fit` only.
    masses: Sequence[Sequence[Masses]]
    probabilities: Sequence[Fraction]
    # The budget of the groups that do not overlap.
    budget: PrivacyBudget
    has_intervals: bool = False
    # The number of groups of a record: of its cell and of the totals with this cell.
    n_overlapping: int = 1

    mechanism: ClassVar[str] = "exponential mechanism"

    @property
    def _choices(self) -> list[tuple[PrivacyBudget, int]]:
        """The budget and the number of choices of quantiles, and of endpoints, with three fifths of the budget."""
        n_quantiles = len(self.probabilities)
        n_levels = n_quantiles.bit_length()  # of the recursion of `choose_cuts`
        parts = [(Fraction(1), n_levels)]
        if self.has_intervals:
            parts = [(Fraction(2, 5), n_levels), (Fraction(3, 5), 2 * n_quantiles)]
        choices = []
        for fraction, n in parts:
            n_choices = len(self.masses) * n
            choices.append((self.budget * fraction / n_choices, n_choices))
        return choices

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
        shape = len(self.masses[0]), len(self.masses), len(order)
        value, error, lower, upper = np.full((4, *shape), math.nan)
        for group, column in np.ndindex(shape[:2]):
            masses, position = self.masses[column][group], (group, column, order)
            cuts = choose_cuts(masses, ascending, cut_budget, source)
            chosen = list(map(masses.candidates.find_candidate, cuts))
            value[position] = masses.candidates.to_values(chosen)
            for budget, _ in endpoint_choices:
                for ends, is_upper in ((lower, False), (upper, True)):
                    endpoints = []
                    for candidate, probability in zip(chosen, ascending, strict=True):
                        candidates, scores, rate = score_endpoints(
                            candidate,
                            masses,
                            probability,
                            budget,
                            tail,
                            is_upper=is_upper,
                        )
                        index = exponential_mechanism(source, scores, rate)
                        endpoints.append(candidates[index])
                    ends[position] = masses.candidates.to_values(endpoints)
        return Estimate(value, error, lower, upper)

    def draw_columns(self, source: ByteSource) -> Floats:
        """Draw the quantiles of columns without groups; shape (n_columns, n_quantiles)."""
        values: Floats = self.draw(0.0, source).value
        return values[0]

    def draw_with_bounds(self, source: ByteSource) -> Floats:
        """Draw the quantiles of each column, between its bounds; shape (n_columns, n_quantiles + 2)."""
        candidates = [groups[0].candidates for groups in self.masses]
        bounds = np.array([[choices.low, choices.high] for choices in candidates])
        return np.column_stack([bounds[:, 0], self.draw_columns(source), bounds[:, 1]])


def choose_cuts(
    masses: Masses,
    probabilities: Sequence[Fraction],
    budget: PrivacyBudget,
    source: ByteSource,
) -> list[int]:
    """Choose quantiles of ascending probabilities as cuts, with a budget for each level of the recursion.

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
    cuts = [0] * len(ranks)
    cuts[-1] = masses.last_cut
    intervals = [(0, len(ranks) - 1)]
    while intervals:
        low, high = intervals.pop()
        if high - low == 1:
            continue
        middle = (low + high) // 2
        fraction = (ranks[middle] - ranks[low]) / (ranks[high] - ranks[low])
        cuts[middle] = CutScores(masses, cuts[low], cuts[high], fraction).choose(
            budget, source
        )
        intervals += [(middle, high), (low, middle)]
    return cuts[1:-1]


@dataclass(frozen=True)
class CutScores:
    """Scores of the cuts in a range, whose best cut divides the mass of the range at a given fraction.

    The score of a cut is minus the distance of the mass on its left from the fraction, times the denominator of the
    fraction, which makes it an integer. Scores increase up to the best cut, and decrease after it.
    """

    masses: Masses
    low: int
    high: int
    fraction: Fraction

    @cached_property
    def _target(self) -> int:
        """The mass on the left of the best cut, times the denominator of the fraction."""
        start, stop = self.masses.mass_of(self.low), self.masses.mass_of(self.high)
        return self.fraction.denominator * start + self.fraction.numerator * (
            stop - start
        )

    def _distance(self, cut: int) -> int:
        """Return minus the score of a cut."""
        return abs(self.fraction.denominator * self.masses.mass_of(cut) - self._target)

    def _find_first_cut(self, excess: int) -> int:
        """Return the first cut whose mass exceeds the target by at least `excess`; ``high + 1`` if there is none.

        A cut is a position on the line of candidates in units of ``1 / VALUE_MASS``. The target and `excess` are
        multiplied by the denominator of the fraction.
        """
        mass = -(-(self._target + excess) // self.fraction.denominator)  # rounded up
        if mass > self.masses.mass_of(self.high):
            return self.high + 1
        return max(self.masses.find_first_cut(mass), self.low)

    @cached_property
    def _smallest_distance(self) -> int:
        """Minus the best score."""
        nearest = min(self._find_first_cut(0), self.high)
        return min(self._distance(nearest), self._distance(max(nearest - 1, self.low)))

    def find_cuts_within(self, deficit: int) -> tuple[int, int]:
        """Return the range of cuts, counted from `low`, whose scores are at most this far below the best score."""
        largest_distance = self._smallest_distance + deficit
        return self._find_first_cut(-largest_distance) - self.low, self._find_first_cut(
            largest_distance + 1
        ) - self.low

    def find_deficit(self, index: int) -> int:
        """Return the best score minus the score of a cut, which is counted from `low`."""
        return self._distance(self.low + index) - self._smallest_distance

    def list_scores(self) -> list[int]:
        """Return the scores of cuts between candidates of the public grid, and last of both limits."""
        candidates = self.masses.candidates
        starts = candidates.find_start(candidates.grid)
        cuts = [VALUE_MASS * int(start) for start in starts]
        inner = [cut for cut in cuts if self.low < cut < self.high]
        return [-self._distance(cut) for cut in (*inner, self.low, self.high)]

    def choose(self, budget: PrivacyBudget, source: ByteSource) -> int:
        """Choose a cut from `low` to `high` by the exponential mechanism: cuts near the quantile are most probable."""
        # With a fraction f, adding a row of mass m changes the mass on the left minus f times
        # the mass of all values by -f m if it is on the right, and by up to (1 - f) m.
        numerator, denominator = self.fraction.numerator, self.fraction.denominator
        row_mass = VALUE_MASS * self.masses.unit
        sensitivity = row_mass * max(numerator, denominator - numerator)
        return self.low + unimodal_choice(
            source,
            self.high - self.low + 1,
            self.find_cuts_within,
            self.find_deficit,
            budget.choice / (2 * sensitivity * budget.rows),
            self.list_scores,
        )


def score_endpoints(
    chosen: int,
    masses: Masses,
    probability: Fraction,
    budget: PrivacyBudget,
    tail: Fraction,
    *,
    is_upper: bool,
) -> tuple[list[int], list[int], Fraction]:
    """Return candidates for an endpoint on one side of a chosen quantile, their scores, and the rate of the choice.

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
    side = 1 if is_upper else -1
    distance = abs(bound - chosen)
    halves = {distance >> shift for shift in range(distance.bit_length() + 1)}
    candidates = [chosen + side * half for half in sorted(halves, reverse=True)]
    below = masses.count_below(np.array(candidates) + is_upper)
    if is_upper:
        probability = 1 - probability
        below = masses.total - below
    a, b = probability.numerator, probability.denominator
    rate = budget.choice / (2 * masses.unit * max(a, b - a) * budget.rows)
    odds = max(len(candidates) - 1, 1) * (1 - tail) / tail
    n_added = math.ceil(Fraction(log_upper(odds)) / (rate * b))
    # The first candidate has no value below it, so that some candidate has the distance 0.
    numbers = [0, *(n_added + n for n in (*below.tolist()[1:], masses.total))]
    target = a * masses.total
    scores = [
        -max(b * n - target, target - b * up_to_next, 0)
        for n, up_to_next in pairwise(numbers)
    ]
    return candidates, scores, rate
