"""Private search of the scale of columns whose declared ends are open or far too wide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from skdp._arrays import Floats, Integers, Mask
from skdp.central._limits import OPEN_PART, FoundLimits, LimitSearch
from skdp.central._sums import read_values
from skdp.central.statistics import Batches, Noise, to_float
from skdp.privacy import Loss, PrivacyBudget
from skdp.randomness import ByteSource
from skdp.tables import Table

# Cells of equal width between two declared ends.
N_CELLS = 16

# Ends are too wide if two adjacent cells have more than this fraction of the records, by half of
# the standard deviation of their noise. With 0.9, ends that are 100 times as wide remain in
# half of the tables of about 1,000 records (tables of benchmarks/bound_widths.py).
MIN_WIDE_FRACTION, MIN_EVIDENCE = 0.75, 0.5

# Fraction of the budget for the test, and fraction of the budget of a column for the search
# between ends that are too wide.
TEST_PART, WIDE_PART = Fraction(1, 40), Fraction(1, 4)

# Values are clipped at this multiple of the distance of a limit from the middle of both limits.
# With 1, 0.64 of the intervals for lognormal columns cover the coefficients; with 4 and 16, 0.95.
# With 16, the scales of 1,000 records are less certain, and errors are larger.
TAIL_FACTOR = 4


@dataclass(eq=False)
class ScaleSearch:
    """A search of the limits of open ends, and of declared ends between which records are in a small part.

    First, the records of columns with two declared ends are counted in cells of equal width. The noisy counts determine
    the columns that are searched, and thereby the division of the remaining budget.
    """

    # All columns with bounds, and their declared ends, (n_columns, 2): -inf or inf if an end is open.
    names: tuple[Any, ...]
    ends: Floats
    # True for columns that are counted in cells of equal width; (n_columns,).
    is_tested: Mask
    # The budget of the whole release.
    total: PrivacyBudget
    # The limits that were found and other declared ends, (n_columns, 2), after `find`.
    limits: Floats = field(init=False)
    # The search; until `find`, the search of all columns that may be searched.
    search: LimitSearch = field(init=False)

    def __post_init__(self) -> None:
        """Plan the search of all columns that may be searched."""
        self.search = self._plan_search(self._is_open | self.is_tested)

    @property
    def _is_open(self) -> Mask:
        """True for columns with an open end; (n_columns,)."""
        return np.array(np.isinf(self.ends).any(axis=1))

    @property
    def _of_test(self) -> PrivacyBudget:
        """The budget of the test."""
        return self.total * (TEST_PART * int(self.is_tested.any()))

    def _plan_search(self, is_searched: Mask) -> LimitSearch:
        """Plan the search of columns with the budget that the test leaves."""
        remaining = replace(self.total, amount=self.total.amount - self._of_test.amount)
        n_open = int((is_searched & self._is_open).sum())
        n_wide = int(is_searched.sum()) - n_open
        part = (OPEN_PART * n_open + WIDE_PART * n_wide) / len(self.names)
        n_groups = 1
        if self.total.kind == "epsilon":
            # The noise of d (d + 1) / 2 sums of products, which have 3/10 of the budget, in
            # units of the noise of 2 d sums.
            n_groups = math.ceil((len(self.names) + 1) / 4 * 10 / 3)
        return LimitSearch(
            self.names,
            self.ends,
            is_searched,
            True,
            remaining * part,
            remaining * (1 - part),
            n_groups,
        )

    @property
    def rest(self) -> PrivacyBudget:
        """The budget of the other parts of the release, which is known after `find`."""
        return self.search.rest

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The privacy losses of the test and the search; () if the budget states the loss of all parts together."""
        if self.total.kind == "epsilon":
            return ()
        spent = replace(
            self.total, amount=self._of_test.amount + self.search.budget.amount
        )
        return replace(self.search, budget=spent).losses

    @property
    def mechanism(self) -> str:
        """The name of the mechanism, with its fraction of the budget at most, for the guarantee."""
        spent = self._of_test.amount + self.search.budget.amount
        name = self.search.mechanism.rpartition(" (")[0]
        largest = "up to " if self.is_tested.any() else ""
        part = float(spent / self.total.amount)
        return f"{name} ({largest}{part:.0%} of the budget)"

    @property
    def placeholder(self) -> Floats:
        """Finite bounds between the declared ends, with which parameters are checked before the charge."""
        return self.search.placeholder

    def count(self, rows: Batches) -> list[Integers]:
        """Count the numbers of the tested columns in cells of equal width, without noise."""
        if not self.is_tested.any():
            return []
        count = partial(_count_evenly, ends=self.ends[self.is_tested])
        return rows.select(list(compress(self.names, self.is_tested))).add_up(count)

    def find(
        self, rows: Batches, counts: Sequence[Integers], source: ByteSource, title: str
    ) -> FoundLimits:
        """Find the ranges to which values are clipped, (n_columns, 2); `counts` are the result of `count`."""
        is_searched = self._is_open
        if counts:
            noise = Noise.from_budget(self._of_test / len(counts))
            noisy = np.array([noise.add_floats(source, exact) for exact in counts])
            n_rows = max(float(noisy.sum(axis=1).mean()), 1.0)
            largest = (noisy[:, 1:] + noisy[:, :-1]).max(axis=1)
            evidence = MIN_EVIDENCE * math.sqrt(2) * to_float(noise.std)
            is_wide = largest > MIN_WIDE_FRACTION * n_rows + evidence
            is_searched = is_searched.copy()
            is_searched[self.is_tested] = is_wide
        self.search = self._plan_search(is_searched)
        if not is_searched.any():
            self.limits = self.ends
            unknown = np.full((len(self.names), 4), np.nan)
            return FoundLimits(self.ends.copy(), np.array(is_searched), unknown)
        exact = self.search.count(rows)
        found = self.search.find(rows, exact, source, title)
        self.limits = found.bounds
        return found._replace(bounds=_widen(found.bounds, self.ends, found.is_known))


def plan_scale_search(
    names: Sequence[Any],
    ends: Floats | None,
    budget: PrivacyBudget,
    n_features: int,
    *,
    within: bool,
) -> ScaleSearch | None:
    """Plan the search of open ends and, if `within`, of ends that are too wide; None if there are none.

    Indicators need no search. Columns after the features are targets.
    """
    if ends is None:
        return None
    is_open = np.isinf(ends).any(axis=1)
    is_target = np.arange(len(names)) >= n_features
    is_indicator = (ends == [0, 1]).all(axis=1) & ~is_target
    is_tested = ~is_open & ~is_indicator & within
    if not (is_open | is_tested).any():
        return None
    return ScaleSearch(tuple(names), ends, is_tested, budget)


def _widen(limits: Floats, ends: Floats, is_known: Mask) -> Floats:
    """Multiply the distances of limits from their middle, but not of guesses, and clip the result to declared ends."""
    # Where limits are guesses, far values would have all of the weight.
    factors = np.where(is_known, TAIL_FACTOR - 1, 0)
    halves = factors * (limits[:, 1] / 2 - limits[:, 0] / 2)
    # The distance of two results is a float.
    largest = np.maximum(np.abs(limits).max(axis=1), 2.0**1021)
    low = np.maximum(limits[:, 0] - halves, -largest)
    high = np.minimum(limits[:, 1] + halves, largest)
    return np.clip(np.column_stack([low, high]), ends[:, :1], ends[:, 1:])


def _count_evenly(table: Table, *, ends: Floats) -> list[Integers]:
    """Count the numbers of each column in `N_CELLS` cells of equal width between its ends."""
    counts = []
    for numbers, (low, high) in zip(read_values(table), ends, strict=True):
        # Halves, because the difference of two ends may exceed the largest float.
        parts = np.clip(numbers, low, high)
        parts /= 2
        parts -= low / 2
        parts /= high / 2 - low / 2
        parts *= N_CELLS
        by_cell = np.bincount(parts.astype(np.intp), minlength=N_CELLS + 1)
        # The last cell includes its upper end.
        counts.append(np.append(by_cell[:-2], by_cell[-2:].sum()))
    return counts
