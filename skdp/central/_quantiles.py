"""Quantiles of columns, also by group, chosen among public candidates by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Floats, Indices, Integers
from skdp.base import parse_bounds
from skdp.central._sums import read_values, warn_of_objects
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Batches,
    Estimate,
    encode_columns,
    join_codes,
    select_columns,
)
from skdp.domain import Domain, cut_evenly
from skdp.exact import log_upper
from skdp.privacy import Loss, PrivacyBudget, exponential_loss
from skdp.randomness import ByteSource, unimodal_choice
from skdp.tables import Table

# Number of positions of a cut within a cell, which divides the values of the cell as if
# they were uniform in it. It must exceed the largest count of a cell; the time does not
# depend on it.
PARTS = 1 << 32

# Largest number of exact counts by group, which take 8 bytes each.
MAX_COUNTS = 1 << 27


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
        raise ValueError(f"`{name}` must be in [1e-6, 1 - 1e-6], got {value}.")
    return exact


def plan_quantiles(
    rows: Batches, bounds: Any, probabilities: Sequence[Fraction], budget: PrivacyBudget
) -> QuantilePlan:
    """Count the values of each column by public candidates, and plan the release of its quantiles.

    The candidates are a fine grid between the bounds, one of which is chosen for each probability.
    """
    # Candidates depend on the bounds only. They must not depend on dtypes, because
    # pandas converts integers to floats if one of them is missing.
    bounds = parse_bounds(bounds, rows.names)
    warn_of_objects(rows.table)
    candidates = [make_candidates(low, high) for low, high in bounds.tolist()]
    cells = count_groups(rows, Domain({}), candidates)
    return QuantilePlan(
        [counts[0] for counts in cells], candidates, probabilities, budget
    )


def make_candidates(low: float, high: float) -> Floats:
    """Return evenly spaced candidates between two bounds, which include all whole numbers if the bounds are whole."""
    width = high - low
    n_steps = 10_000
    if low.is_integer() and high.is_integer() and width <= 100_000:
        n_steps = max(n_steps - n_steps % int(width), int(width))
    return cut_evenly(low, high, n_steps)


def count_groups(
    rows: Batches, domain: Domain, candidates: Sequence[Floats]
) -> list[Integers]:
    """Count the values of each column by group and cell of `find_cells`; shape (n_groups, n_cells) each.

    The first columns of `rows` are the keys of `domain`. Rows with an undeclared key and missing values are not
    counted.
    """
    return rows.add_up(partial(_count_groups, domain=domain, candidates=candidates))


def _count_groups(
    table: Table, *, domain: Domain, candidates: Sequence[Floats]
) -> list[Integers]:
    """Return the counts of `count_groups` for a batch of rows."""
    n_keys = len(domain.columns)
    keys = select_columns(table, table.names[:n_keys])
    columns = read_values(select_columns(table, table.names[n_keys:]))
    groups = np.zeros(len(columns[0]), np.int64)
    if n_keys:
        codes, _ = encode_columns(keys, domain, "ignore")
        groups = join_codes(domain, codes)
    counts = []
    for column, values in zip(columns, candidates, strict=True):
        is_counted = ~np.isnan(column) & (groups < domain.size)
        n_cells = 2 * values.size - 1
        cells = find_cells(column[is_counted], values) + n_cells * groups[is_counted]
        n_by_cell = np.bincount(cells, minlength=domain.size * n_cells)
        counts.append(n_by_cell.reshape(domain.size, n_cells))
    return counts


def find_cells(numbers: Floats, candidates: Floats) -> Indices:
    """Return the cell of each number: 2 i for candidate i, and 2 i + 1 between it and the next candidate.

    Numbers outside the candidates are clipped.
    """
    clipped = np.clip(numbers, candidates[0], candidates[-1])
    above = np.searchsorted(candidates, clipped, "left")
    return 2 * above - (candidates[above] != clipped)


@dataclass(frozen=True, eq=False)
class QuantilePlan:
    """A planned release of the quantiles of columns."""

    # Exact counts of each column, see `find_cells`.
    cells: Sequence[Integers]
    candidates: Sequence[Floats]
    # Probabilities of the quantiles, ascending.
    probabilities: Sequence[Fraction]
    budget: PrivacyBudget

    mechanism: ClassVar[str] = "exponential mechanism"

    def draw(self, source: ByteSource) -> Floats:
        """Draw the quantiles of all columns, which share the budget equally; shape (n_columns, n_quantiles)."""
        budget = self.budget / len(self.cells)
        quantiles = np.empty((len(self.cells), len(self.probabilities)))
        for row, cells, values in zip(
            quantiles, self.cells, self.candidates, strict=True
        ):
            cuts = choose_cuts(cells, self.probabilities, budget, source)
            row[:] = values[list(map(nearest_candidate, cuts))]
        return quantiles

    def draw_with_bounds(self, source: ByteSource) -> Floats:
        """Draw the quantiles of each column, between its bounds; shape (n_columns, n_quantiles + 2)."""
        lows = [values[0] for values in self.candidates]
        highs = [values[-1] for values in self.candidates]
        return np.column_stack([lows, self.draw(source), highs])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The privacy losses of all choices; empty for a budget in rho or mu, which bounds them better than epsilon."""
        if self.budget.kind != "epsilon":
            return ()
        n_levels = count_levels(self.probabilities) * len(self.cells)
        loss = exponential_loss((self.budget / n_levels).amount)
        return (replace(loss, count=n_levels),)


def count_levels(probabilities: Sequence[Fraction]) -> int:
    """Return the number of levels of the recursion of `choose_cuts`."""
    return len(probabilities).bit_length()


def choose_cuts(
    counts: Integers,
    probabilities: Sequence[Fraction],
    budget: PrivacyBudget,
    source: ByteSource,
) -> list[int]:
    """Choose quantiles of ascending probabilities as cuts between cells with these counts (see `Masses`)."""
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
    masses = Masses(np.append(0, np.cumsum(counts)))
    budget /= count_levels(probabilities)
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


def nearest_candidate(cut: int) -> int:
    """Return the index of the candidate nearest to a cut, where candidate i is cell 2 i of `find_cells`."""
    # Cell c starts at the cut ``c * PARTS``. Every second cell is a candidate, so a cut in
    # the cell between two candidates is moved to the nearer of them.
    return (cut + PARTS // 2) // (2 * PARTS)


@dataclass(frozen=True)
class Masses:
    """The mass of the values of a column on the left of a cut.

    Cut c is the position ``c / PARTS`` in units of cells. On its left are ``c // PARTS`` whole cells and the fraction
    ``c % PARTS / PARTS`` of each value of the next cell. A value has the mass `PARTS`, so that masses are integers.
    """

    # The number of values in the cells before each cell, and in all cells; shape (n_cells + 1,).
    n_before: Integers

    @property
    def last_cut(self) -> int:
        """The cut with all cells on its left."""
        return (self.n_before.size - 1) * PARTS

    def mass_of(self, cut: int) -> int:
        """Return the mass of the values on the left of a cut."""
        cell, part = divmod(cut, PARTS)
        n_before = int(self.n_before[cell])
        if part == 0:
            return PARTS * n_before
        n_in_cell = int(self.n_before[cell + 1]) - n_before
        return PARTS * n_before + part * n_in_cell

    def find_first_cut(self, mass: int) -> int:
        """Return the first cut with at least `mass` on its left; the number of cuts if there is none.

        The mass of a value is `PARTS`, spread evenly over the cuts of its cell.
        """
        if mass <= 0:
            return 0
        n_values = -(-mass // PARTS)  # rounded up
        cell = int(np.searchsorted(self.n_before, n_values)) - 1
        if cell == self.n_before.size - 1:
            return self.last_cut + 1
        n_before, n_until = self.n_before[cell : cell + 2].tolist()
        missing_mass = mass - PARTS * n_before
        return cell * PARTS - (-missing_mass // (n_until - n_before))


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

        The target and `excess` are multiplied by the denominator of the fraction.
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

    def list_scores(self) -> NDArray[Any]:
        """Return the scores of both limits and of the cuts between cells; within a cell, scores change linearly."""
        inner = self.masses.n_before[self.low // PARTS + 1 : -(-self.high // PARTS)]
        limits = [self.masses.mass_of(self.low), self.masses.mass_of(self.high)]
        masses = np.array([*(PARTS * inner.astype(object)), *limits], object)
        return -abs(self.fraction.denominator * masses - self._target)

    def choose(self, budget: PrivacyBudget, source: ByteSource) -> int:
        """Choose a cut by the exponential mechanism: cuts near the quantile are the most probable."""
        # With a fraction f, adding a value changes the mass on the left minus f times the
        # mass of all values by -f if the value is on the right, and by up to 1 - f.
        numerator, denominator = self.fraction.numerator, self.fraction.denominator
        sensitivity = PARTS * max(numerator, denominator - numerator)
        return self.low + unimodal_choice(
            source,
            self.high - self.low + 1,
            self.find_cuts_within,
            self.find_deficit,
            budget.choice / (2 * sensitivity * budget.rows),
            self.list_scores,
        )


@dataclass(frozen=True, eq=False)
class GroupQuantiles:
    """A planned release of quantiles of columns by group, with intervals."""

    # Exact counts of the cells of each column, of shape (n_groups, n_cells); see
    # `find_cells`. They exist during `fit` only.
    cells: Sequence[Integers]
    candidates: Sequence[Floats]
    probabilities: Sequence[Fraction]
    budget: PrivacyBudget

    mechanism: ClassVar[str] = QuantilePlan.mechanism

    @classmethod
    def read(
        cls,
        rows: Batches,
        domain: Domain,
        bounds: Floats,
        probabilities: Sequence[Fraction],
        budget: PrivacyBudget,
    ) -> GroupQuantiles:
        """Count the values of each column by group and candidate.

        `rows` has the key columns of `domain`, and then the columns of numbers. Rows with an undeclared key are
        excluded.
        """
        candidates = [make_candidates(low, high) for low, high in bounds.tolist()]
        n_counts = domain.size * sum(2 * values.size for values in candidates)
        if n_counts > MAX_COUNTS:
            raise ValueError(
                f"`keys` must declare at most {MAX_COUNTS * domain.size // n_counts:,} "
                f"groups for quantiles of {len(candidates)} columns, got "
                f"{domain.size:,}. Use fewer keys or columns."
            )
        cells = count_groups(rows, domain, candidates)
        return cls(cells, candidates, probabilities, budget)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The privacy losses of all choices; empty for a budget in rho or mu."""
        # A record is in one group, and the choices of all groups are one exponential
        # mechanism, whose candidates are tuples.
        if self.budget.kind != "epsilon":
            return ()
        n_endpoints = 2 * len(self.cells) * len(self.probabilities)
        loss = exponential_loss(self._endpoint_budget.amount)
        return (*self._select_group(0).losses, replace(loss, count=n_endpoints))

    @property
    def _endpoint_budget(self) -> PrivacyBudget:
        """The budget of one endpoint of an interval; all endpoints share two thirds equally."""
        n_endpoints = 2 * len(self.cells) * len(self.probabilities)
        return self.budget * Fraction(2, 3 * n_endpoints)

    def _select_group(self, group: int) -> QuantilePlan:
        """Return the planned choices of the quantiles of one group, with a third of the budget."""
        cells = [counts[group] for counts in self.cells]
        return QuantilePlan(
            cells, self.candidates, sorted(self.probabilities), self.budget / 3
        )

    def draw(self, level: float, source: ByteSource) -> Estimate:
        """Draw the quantiles and their intervals: arrays (n_groups, n_columns, n_probabilities)."""
        n_groups = len(self.cells[0])
        order = np.argsort(np.array(self.probabilities, float))
        shape = n_groups, len(self.cells), len(self.probabilities)
        value, lower, upper = np.empty((3, *shape))
        tail = (1 - Fraction(level)) / 2
        for group, column in product(range(n_groups), range(len(self.cells))):
            cells, candidates = self.cells[column][group], self.candidates[column]
            # Cell 2 i is the candidate i, and cell 2 i + 1 is between it and the next.
            up_to_next = np.add.reduceat(cells, np.arange(0, cells.size, 2))
            down_to_next = np.add.reduceat(cells[::-1], np.arange(0, cells.size, 2))
            for index, probability in enumerate(self.probabilities):
                # An upper endpoint is a lower endpoint in descending order.
                endpoints = []
                for counts, fraction in (
                    (up_to_next, probability),
                    (down_to_next, 1 - probability),
                ):
                    scores = EndpointScores.with_added_values(
                        counts, fraction, self._endpoint_budget, tail
                    )
                    endpoints.append(scores.choose(source))
                lower[group, column, index] = candidates[endpoints[0]]
                upper[group, column, index] = candidates[::-1][endpoints[1]]
        for group in range(n_groups):
            value[group][:, order] = self._select_group(group).draw(source)
        # An interval also contains the chosen quantile.
        lower, upper = np.minimum(lower, value), np.maximum(upper, value)
        return Estimate(value, np.full(shape, math.nan), lower, upper)


@dataclass(frozen=True, eq=False)
class EndpointScores:
    """Scores of the candidates for the lower endpoint of the interval of a quantile.

    An upper endpoint is a lower endpoint in descending order.
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

    # A_0, ..., A_N.
    n_below: Integers
    # a n and b.
    target: int
    denominator: int
    rate: Fraction

    @classmethod
    def with_added_values(
        cls,
        counts: Integers,
        probability: Fraction,
        budget: PrivacyBudget,
        tail: Fraction,
    ) -> EndpointScores:
        """Add values below all candidates, so that the endpoint exceeds the quantile with a small probability only.

        `counts` are the numbers of values from each candidate up to the next, `probability` defines the
        quantile (1/2 is the median), `budget` is the budget of one endpoint, and `tail` is the largest probability
        that the endpoint exceeds the quantile.
        """
        numerator, denominator = probability.numerator, probability.denominator
        sensitivity = max(numerator, denominator - numerator)
        rate = budget.choice / (2 * sensitivity * budget.rows)
        odds = (counts.size - 1) * (1 - tail) / tail
        n_added = math.ceil(Fraction(log_upper(odds)) / (rate * denominator))
        n_added = min(n_added, MAX_NOISY_COUNT)
        n_below = np.append(0, np.cumsum(counts)) + n_added
        n_below[0] = 0  # so that some candidate has the distance 0
        target = numerator * int(counts.sum())
        return cls(n_below, target, denominator, rate)

    def choose(self, source: ByteSource) -> int:
        """Choose the index of an endpoint."""
        return unimodal_choice(
            source,
            self.n_below.size - 1,
            self._find_within,
            self._distance,
            self.rate,
            self._list_scores,
        )

    def _distance(self, index: int) -> int:
        """Return the distance of a candidate."""
        below, up_to_next = self.n_below[index : index + 2].tolist()
        b = self.denominator
        return max(b * below - self.target, self.target - b * up_to_next, 0)

    def _find_within(self, distance: int) -> tuple[int, int]:
        """Return the range of the candidates with at most a distance."""
        smallest = -((distance - self.target) // self.denominator)  # rounded up
        largest = (self.target + distance) // self.denominator
        start = np.searchsorted(self.n_below[1:], max(smallest, 0), "left")
        largest = min(largest, int(self.n_below[-1]))
        stop = np.searchsorted(self.n_below[:-1], largest, "right")
        return int(start), int(stop)

    def _list_scores(self) -> NDArray[Any]:
        """Return the scores of all candidates."""
        multiples = self.denominator * self.n_below.astype(object)
        distances = np.maximum(
            multiples[:-1] - self.target, self.target - multiples[1:]
        )
        return -np.maximum(distances, 0)
