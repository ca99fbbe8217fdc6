"""Private search of limits, for columns of numbers without declared bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Floats, Indices, Integers, Mask
from skdp.base import has_float_resolution
from skdp.central._noisy_counts import bound_noise, expect_count, gather_cells
from skdp.central._sums import read_values
from skdp.central.statistics import (
    Batches,
    Noise,
    choice_name,
    choose,
    to_float,
    warn_user,
)
from skdp.privacy import Loss, PrivacyBudget, Split, gaussian_loss
from skdp.randomness import ByteSource
from skdp.tables import Table

# Fractions of the budget of a column for the search: with an open end, and with two declared
# ends. With a quarter in place of a third, more columns of 1,000 rows are not found
# (benchmarks/bound_widths.py).
OPEN_PART, DECLARED_PART = Fraction(1, 3), Fraction(1, 5)

# Parts of the budget of a search for its three steps, see `LimitSearch`.
STEP_PARTS = Split(rest="counts", windows=Fraction(2, 5), zooms=Fraction(1, 10))

# Smallest and largest power of 2 of the edges of cells, as distances from the center. The cell
# of the center has smaller distances, and the outer cells have larger ones.
MIN_POWER, MAX_POWER = -1022, 1022

# Cells per octave (from a power of 2 to the next): of windows (step 1), and of counts (step 3).
WINDOW_CELLS_PER_OCTAVE, COUNTED_CELLS_PER_OCTAVE = 16, 2

# Windows narrower than an octave have numbers between 2**-MAX_NARROW_POWER and its inverse only.
MAX_NARROW_POWER = 100

# Cells of equal width in a narrow window.
ZOOM_CELLS = 1 << 12

# Prior probabilities of windows of 1, 2, 4, ... cells, and of windows around 0. Columns are
# mostly nonnegative, and their octaves have a Cauchy distribution around 2**5 with the scale
# 10; between declared ends, the k-th octave below them has the probability 1 / (k (k + 1)). A prior
# multiplies the rows that find a window by at most a logarithm.
WINDOW_WEIGHTS, CENTRAL_WEIGHT = (0.05, 0.1, 0.15, 0.25, 0.25), 0.2
PRIOR_OCTAVE, PRIOR_SCALE, POSITIVE_WEIGHT = 5.0, 10.0, 0.75

# Thresholds of a noisy count for records in a cell, in scales of Laplace noise. The first one is
# for cells next to cells with records, the second one for all others. The second one increases by
# 2 log(1 + a) at a octaves from the window, but at most by -log p in an octave with the prior
# probability p. With 6 in place of 9, noise far beyond the numbers was a limit in up to 6 of 100
# tables of four normal columns.
NEAR_EVIDENCE, FAR_EVIDENCE = 4.0, 9.0

# Noise exceeds the second threshold in an octave with the prior probability p with a probability
# of 5 p e**-9 on each side: in 1 of 1,700 columns of mostly zeros. Beyond a gap of this many
# octaves, limits need as much more evidence, so that noise is a limit in 1 of 48,000. With 8,
# real numbers beyond a gap had this evidence in all searches of 142 public tables.
GAP_OCTAVES, GAP_EVIDENCE = 8, 4.0

# The first threshold for a domain, whose four cells per octave are more often noise.
DOMAIN_EVIDENCE = 6.0

# Thresholds of the number of records near the center, in standard deviations of its noise: for
# limits in place of open or useless ends, and in place of other declared ends.
MIN_EVIDENCE_OF_LIMITS, MIN_EVIDENCE_WITHIN = 2.0, 6.0

# A limit moves outward by an octave if the expected number of records in this octave exceeds
# this multiple of the noise of a sum, in units of a record at the limit. The bias of clipping
# then exceeds the additional noise.
MIN_EXPECTED_RATIO = 4.5

# Largest number of such octaves, and largest ratio of the records of an octave to the records
# of the previous one. Tails with a finite mean have smaller ratios.
MAX_EXTENSION_OCTAVES, MAX_TAIL_RATIO = 3, 0.5

# Excesses over a limit at the distance 1: of a record in the middle of the next octave, at the
# distance sqrt(2), and of a record in the middle of the octave after it, at sqrt(8).
MEAN_EXCESSES = math.sqrt(2) - 1, math.sqrt(8) - 1

# A warning is issued if more than a tenth of the rows may be beyond the limits, by a one-sided
# interval of 95 %. If half of the rows are equal, it is issued for a twentieth, because the count
# of one cell does not determine the scale of the other rows
# ("found limits" of benchmarks/every_interval.py).
MAX_BEYOND, MAX_BEYOND_HEAP, ONE_SIDED_QUANTILE = 1 / 10, 1 / 20, 1.645


@dataclass(frozen=True)
class Cells:
    """Cells of distances from a center: equal steps from each power of 2 to the next, on both sides."""

    cells_per_octave: int  # a power of 2, at most 16
    center: float = 0.0

    @property
    def n_side_cells(self) -> int:
        """The number of cells on each side of the cell of the center."""
        return (MAX_POWER - MIN_POWER) * self.cells_per_octave

    @property
    def zero(self) -> int:
        """The index of the cell of 0."""
        return int(self.count(np.zeros(1)).argmax())

    def count(self, numbers: Floats) -> Integers:
        """Count finite numbers by cell, and last the numbers beyond 0 from the center in the cell of 0."""
        with np.errstate(over="ignore"):
            distances = np.asarray(numbers - self.center, "<f8")
        # The first 16 bits of a float are its sign, its exponent, which is larger by 1,023, and
        # the sixteenth of the way from this power of 2 to the next.
        n_bits = 5 - self.cells_per_octave.bit_length()
        bins = distances.view("<u2")[3::4] >> n_bits
        sides = np.bincount(bins, minlength=1 << 16 - n_bits).reshape(2, -1)
        first = (MIN_POWER + 1023) * self.cells_per_octave
        last = first + self.n_side_cells - 1
        sides[:, last] += sides[:, last + 1 :].sum(axis=1)
        above, below = sides[:, first : last + 1]
        n_beyond = 0
        if self.center:
            is_beyond = numbers < 0 if self.center > 0 else numbers > 0
            (zero,) = np.array([-self.center], "<f8").view("<u2")[3:] >> n_bits
            n_beyond = int(np.count_nonzero(is_beyond & (bins == zero)))
        near = sides[:, :first].sum()
        return np.concatenate([below[::-1], [near], above, [n_beyond]])

    @property
    def edges(self) -> Floats:
        """The edges of the cells as distances from the center, ascending; (n_cells + 1,)."""
        return _list_edges(self.cells_per_octave)


@lru_cache(maxsize=4)
def _list_edges(cells_per_octave: int) -> Floats:
    """Return the edges of cells of equal steps in each octave; (2 * n_side_cells + 2,)."""
    cells = np.arange((MAX_POWER - MIN_POWER) * cells_per_octave + 1)
    steps = 1 + cells % cells_per_octave / cells_per_octave
    distances = np.ldexp(steps, MIN_POWER + cells // cells_per_octave)
    return np.concatenate([-distances[::-1], distances])


@dataclass(frozen=True, eq=False)
class Windows:
    """Public ranges of cells, from which one with about half of the records of a column is chosen."""

    # (n_windows,): the first cell, the cell after the last one, the logarithm of the prior
    # probability, and True if the window is as narrow as a cell.
    starts: Indices
    stops: Indices
    log_priors: Floats
    is_narrowest: Mask

    @classmethod
    def join(cls, levels: Sequence[tuple[Indices, Any, Floats]]) -> Windows:
        """Join windows of several widths; each level has the first cells, the widths, and prior probabilities."""
        starts = np.concatenate([starts for starts, *_ in levels])
        widths = np.concatenate([0 * starts + width for starts, width, _ in levels])
        priors = np.concatenate([prior for *_, prior in levels])
        return cls(starts, starts + widths, np.log(priors), widths == 1)

    def choose(
        self, counts: Integers, budget: PrivacyBudget, source: ByteSource
    ) -> tuple[int, int]:
        """Choose a window with about half of the records; return its first cell and the cell after its last one."""
        # With i of n records in a window, its score is 2 min(2 i - n, 0) - max(2 i - n, 0), so
        # a window with half of the records is best, and an empty one worst. The second term is
        # 0 for a window of one cell, which cannot be narrower. One record changes a score by at
        # most 2, and the difference of two scores by at most 4.
        sums = np.append(0, np.cumsum(counts))
        excess = sums[self.stops]
        excess -= sums[self.starts]
        excess *= 2
        excess -= sums[-1]
        scores = 2 * np.minimum(excess, 0)
        (full,) = np.nonzero(excess > 0)
        scores[full] = np.where(self.is_narrowest[full], 0, -excess[full])
        # Priors are public: adding log p / rate to a score multiplies the probability by p.
        rate = max(float(budget.choice / (4 * budget.rows_per_person)), 2.0**-200)
        window = choose(source, scores + _divide_priors(self, rate), budget, 4)
        return int(self.starts[window]), int(self.stops[window])


@lru_cache(maxsize=64)
def _divide_priors(windows: Windows, rate: float) -> Integers:
    """Return the logarithms of the prior probabilities of windows, divided by the rate of a choice."""
    offsets = np.clip(np.rint(windows.log_priors / rate), -(2.0**60), 0)
    return offsets.astype(np.int64)


@lru_cache(maxsize=64)
def make_windows(top: int | None = None) -> Windows:
    """Make the windows of step 1: parts of octaves of either sign, and neighborhoods of 0.

    `top` is the octave of the declared end farthest from 0; None with an open end.
    """
    octave = WINDOW_CELLS_PER_OCTAVE
    n_side, n_octaves = Cells(octave).n_side_cells, MAX_POWER - MIN_POWER
    levels: list[tuple[Indices, Any, Floats]] = []
    for level, weight in enumerate(WINDOW_WEIGHTS):
        width = 1 << level
        step = max(width // 2, 1)
        first, last = 0, n_side - width + 1
        if width < octave:
            first = (-MIN_POWER - MAX_NARROW_POWER) * octave
            last = (-MIN_POWER + MAX_NARROW_POWER) * octave
        steps = np.arange(first, last, step)
        prior = weight * weigh_octaves(steps / octave, top) * step / octave
        above, below = n_side + 1 + steps, n_side - steps - width
        levels.append((above, width, POSITIVE_WEIGHT * prior))
        levels.append((below, width, (1 - POSITIVE_WEIGHT) * prior))
    # The cell of 0 is as probable as all wider neighborhoods of 0 together.
    levels.append((np.array([n_side]), 1, np.array([CENTRAL_WEIGHT / 2])))
    octaves = np.arange(1, n_octaves + 1)
    reaches = octaves * octave
    prior = CENTRAL_WEIGHT / 2 * weigh_octaves(octaves, top)
    levels.append((n_side - reaches, 2 * reaches + 1, prior))
    return Windows.join(levels)


def weigh_octaves(octaves: NDArray[Any], top: int | None) -> Floats:
    """Return prior probabilities of octaves, counted from `MIN_POWER`, with `top` as in `make_windows`."""
    if top is None:
        distances = (octaves + MIN_POWER - PRIOR_OCTAVE) / PRIOR_SCALE
        return 1 / (math.pi * PRIOR_SCALE) / (1 + distances**2)
    below = top - MIN_POWER - np.floor(octaves)
    # Windows may extend beyond the ends, where no number is.
    return np.where(below < 0, 1e-300, 1 / ((abs(below) + 1) * (abs(below) + 2)))


@lru_cache(maxsize=1 << 14)
def _weigh_octave(octave: float, top: int | None) -> float:
    """Return the logarithm of the prior probability of an octave, see `weigh_octaves`."""
    return float(np.log(weigh_octaves(np.array(octave), top)))


@lru_cache(maxsize=1)
def make_zoom_windows() -> Windows:
    """Make the windows of step 2, whose widths are halved at each level; all levels are equally probable."""
    levels = []
    n_levels = ZOOM_CELLS.bit_length()
    for level in range(n_levels):
        width = ZOOM_CELLS >> level
        starts = np.arange(0, ZOOM_CELLS - width + 1, max(width // 2, 1))
        prior = np.full(len(starts), 1 / (n_levels * len(starts)))
        levels.append((starts, width, prior))
    return Windows.join(levels)


class Start(NamedTuple):
    """The result of steps 1 and 2: the center and the spread of a column, for the counts of step 3."""

    # Cells around the center of the window.
    cells: Cells
    # Half of the width of the window: about half of the numbers are within this distance.
    spread: float
    # The noise of a count.
    noise: Noise
    # As in `make_windows`.
    top: int | None
    # True if the window is one cell: half of the numbers may then be equal.
    is_single: bool


class ColumnLimits(NamedTuple):
    """Limits of a column, and estimates of the rows beyond them."""

    low: float
    high: float
    # True if the counts clearly show the limits; otherwise they are guesses.
    is_clear: bool
    # The noisy number of rows beyond the limits, and its standard error.
    n_beyond: float
    error: float
    # True if too many rows may be beyond the limits; True if too many rows clearly are.
    may_exclude: bool
    excludes: bool
    # The expected sums of the excesses of rows below the low limit and above the high limit.
    excesses: tuple[float, float]


class FoundLimits(NamedTuple):
    """The bounds of all columns after a search of limits."""

    # (n_columns, 2).
    bounds: Floats
    # True for columns whose limits the counts clearly show; (n_columns,).
    is_known: Mask
    # For each column: the noisy number of rows beyond the limits, its standard error, and the
    # expected excesses (`ColumnLimits`); nan and 0 for declared bounds; (n_columns, 4).
    beyond: Floats


@dataclass(frozen=True, eq=False)
class LimitSearch:
    """A search of the limits of columns with a part of the budget of a release.

    1. Choose a window with about half of the records, among parts of octaves and neighborhoods of 0.
    2. If the window is one cell, divide it and its neighbors into narrower cells, and choose again.
    3. Count records by their distances from the center of the window, with noise. The limits are the edges of
       the outermost cells that clearly have records, or farther.

    Each of n columns gets the n-th part of the budget.
    """

    # All columns with bounds, and their declared ends, (n_columns, 2): -inf or inf if an end is open.
    names: tuple[Any, ...]
    ends: Floats
    # True for columns whose limits are found; (n_columns,).
    is_searched: Mask
    # True if declared ends are replaced by narrower limits, too.
    within: bool
    # The budgets of the search and of the other parts of the release.
    budget: PrivacyBudget
    rest: PrivacyBudget
    # The number of groups that have records beyond a limit. Each group has the noise of a sum.
    n_groups: int = 1
    # The function that reads the columns of a table, and the number of cells of step 3.
    read: Callable[[Table], list[Floats]] = read_values
    cells_per_octave: int = COUNTED_CELLS_PER_OCTAVE
    # The parts of the budget for the three steps.
    parts: Split = STEP_PARTS

    @cached_property
    def _searched(self) -> list[int]:
        """Indices of the columns whose limits are found."""
        return np.flatnonzero(self.is_searched).tolist()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The privacy losses of the search; () with `Rho`, whose budget states the total loss."""
        if self.budget.kind == "rho":
            return ()
        if self.budget.kind == "mu":
            return (gaussian_loss(self.budget.mu_squared),)
        return (self.budget.loss(),)

    @property
    def mechanism(self) -> str:
        """The name of the mechanism, with its fraction of the budget, for the guarantee."""
        part = self.budget.amount / (self.budget.amount + self.rest.amount)
        name = choice_name(self.budget)
        return f"limits by {name} and noisy counts ({float(part):.0%} of the budget)"

    @property
    def placeholder(self) -> Floats:
        """Finite bounds between the declared ends, with which parameters are checked before the charge."""
        low, high = self.ends.T
        is_low, is_high = np.isfinite(low), np.isfinite(high)
        width = 1 + np.abs(np.where(is_low, low, np.where(is_high, high, 0)))
        low = np.where(is_low, low, np.where(is_high, high - width, 0))
        return np.column_stack([low, np.where(is_high, high, low + width)])

    def count(self, rows: Batches) -> list[Integers]:
        """Count the numbers of each column in the cells of step 1, without noise; see `Cells.count`."""
        cells = [Cells(WINDOW_CELLS_PER_OCTAVE)] * len(self._searched)
        return self._count_cells(rows, cells)

    def find(
        self, rows: Batches, counts: Sequence[Integers], source: ByteSource, title: str
    ) -> FoundLimits:
        """Find the bounds of all columns; `counts` are the result of `count`.

        `title` is the estimator that a warning names, because the columns of a pipeline have several.
        """
        bounds, guessed, exceeding = self.ends.copy(), [], []
        is_known = np.zeros(len(self.names), bool)
        beyond = np.tile([math.nan, math.nan, 0.0, 0.0], (len(self.names), 1))
        located = self.locate(rows, counts, source)
        for column, (start, counted) in zip(self._searched, located, strict=True):
            noisy = NoisyCounts.draw(start, counted[:-2], source)
            ends = self.ends[column]
            is_open = ~np.isfinite(ends)
            found = noisy.find_limits(self._unit_noise, ends)
            # Limits that floats do not resolve are due to noise in the cells beside 0.
            is_clear = found.is_clear and has_float_resolution(found.low, found.high)
            is_known[column] = is_clear and (self.within or is_open.any())
            is_found = is_open | (self.within and is_clear)
            limits = limit_to_ends((found.low, found.high), ends)
            bounds[column] = np.where(is_found, limits, ends)
            if is_found.any():
                excesses = np.where(is_found, found.excesses, 0.0)
                beyond[column] = found.n_beyond, found.error, *excesses
            if is_open.any() and (noisy.is_remote or not is_clear):
                guessed.append(self.names[column])
            elif found.may_exclude if is_open.any() else is_clear and found.excludes:
                exceeding.append(self.names[column])
        warn_about_guesses(guessed, title)
        warn_about_rows_beyond(exceeding, title)
        return FoundLimits(bounds, is_known, beyond)

    def locate(
        self, rows: Batches, counts: Sequence[Integers], source: ByteSource
    ) -> Iterator[tuple[Start, Integers]]:
        """Find the center and the spread of each column, and count its numbers around them, without noise.

        The last two counts of a column are the numbers on the other side of 0 in the cell of 0, and the missing values.
        `counts` are the result of `count`.
        """
        budget = self.budget / len(self._searched)
        starts = []
        for column, cell_counts in zip(self._searched, counts, strict=True):
            starts.append(
                self._find_start(rows, column, cell_counts[:-2], budget, source)
            )
        exact = self._count_cells(rows, [start.cells for start in starts])
        yield from zip(starts, exact, strict=True)

    def _find_start(
        self,
        rows: Batches,
        column: int,
        counts: Integers,
        budget: PrivacyBudget,
        source: ByteSource,
    ) -> Start:
        """Choose a window with about half of the numbers of a column (steps 1 and 2)."""
        ends = self.ends[column]
        top = None
        if np.isfinite(ends).all():
            top = math.frexp(float(np.abs(ends).max()))[1] - 1
        windows = make_windows(top)
        start, stop = windows.choose(counts, budget * self.parts.windows, source)
        part = self.parts.counts
        edges = Cells(WINDOW_CELLS_PER_OCTAVE).edges
        low, high = float(edges[start]), float(edges[stop])
        if stop - start == 1 and not low < 0 < high:
            # Half of the numbers may be in a part of the cell, or beside its edge.
            low, high = low - (high - low), high + (high - low)
            count = partial(_count_zoom_cells, self.read, low=low, high=high, ends=ends)
            (evenly,) = rows.select([self.names[column]]).add_up(count)
            zoom_budget = budget * self.parts.zooms
            start, stop = make_zoom_windows().choose(evenly, zoom_budget, source)
            step = (high - low) / ZOOM_CELLS
            low, high = low + start * step, low + stop * step
        else:
            part += self.parts.zooms
        center = 0.0 if low < 0 < high else low / 2 + high / 2
        cells = Cells(self.cells_per_octave, center)
        noise = Noise.from_budget(budget * part)
        is_single = stop - start == 1
        return Start(cells, high / 2 - low / 2, noise, top, is_single)

    def _count_cells(self, rows: Batches, cells: Sequence[Cells]) -> list[Integers]:
        """Count the numbers of the columns by cell."""
        names = [self.names[column] for column in self._searched]
        ends = self.ends[self._searched]
        count = partial(_count_cells, self.read, cells=cells, ends=ends)
        return rows.select(names).add_up(count)

    @property
    def _unit_noise(self) -> float:
        """The noise of a sum, in units of a record at the limit, multiplied by the number of groups."""
        noise = Noise.joint(self.rest, 1, 2 * len(self.names))
        return max(to_float(noise.std) * self.n_groups, 2.0**-60)


def plan_limit_search(
    names: Sequence[Any], ends: Floats, budget: PrivacyBudget, *, within: bool
) -> LimitSearch | None:
    """Plan a search for the columns with an open end, or for all columns if `within`; None if no limit is searched."""
    is_open = np.array(np.isinf(ends).any(axis=1))
    is_searched: Mask = np.ones(len(names), bool) if within else is_open
    if not is_searched.any():
        return None
    n_open, n_declared = int(is_open.sum()), int((is_searched & ~is_open).sum())
    part = (OPEN_PART * n_open + DECLARED_PART * n_declared) / len(names)
    return LimitSearch(
        tuple(names), ends, is_searched, within, budget * part, budget * (1 - part)
    )


def warn_about_guesses(names: Sequence[Any], title: str) -> None:
    """Warn about columns whose limits may be noise, if there are any."""
    if names:
        warn_user(
            f"The limits of columns {[*names]} in {title} are guesses, because most "
            "numbers are equal, or too few exceed the noise. Declare their bounds, such as "
            "(0, 1) after DPMinMaxScaler, or use more rows, a larger epsilon, or fewer columns",
            "guide/preprocessing",
        )


def warn_about_rows_beyond(names: Sequence[Any], title: str) -> None:
    """Warn about columns with too many rows beyond their limits, if there are any."""
    if names:
        warn_user(
            f"The limits of columns {[*names]} in {title} may exclude many rows: the noise exceeds the "
            "counts of rows beyond them, and results are for clipped numbers. Declare their bounds, or "
            "use more rows, a larger epsilon, or fewer columns",
            "guide/preprocessing",
        )


def format_beyond(name: Any, number: float, error: float) -> str:
    """Format the noisy number of rows beyond the limits of a column for the note of method."""
    return f"{name} {number:,.0f} (standard error {error:,.0f})"


def limit_to_ends(limits: tuple[float, float], ends: Floats) -> tuple[float, float]:
    """Return limits within declared ends, at a distance that floats resolve."""
    low, high = np.clip(limits, *ends).tolist()
    if not has_float_resolution(low, high):
        # All records are equal, or are beyond a declared end.
        width = max(1e-6 * max(abs(low), abs(high)), 1.0)
        low, high = np.clip([low - width, high + width], *ends).tolist()
    return low, high


def _count_cells(
    read: Callable[[Table], list[Floats]],
    table: Table,
    *,
    cells: Sequence[Cells],
    ends: Floats,
) -> list[Integers]:
    """Count the numbers of each column by cell, clipped to its ends, and missing values last."""
    counts = []
    for numbers, cut, (low, high) in zip(read(table), cells, ends, strict=True):
        is_missing = np.isnan(numbers)
        n_missing = np.count_nonzero(is_missing)
        present = numbers[~is_missing] if n_missing else numbers
        by_cell = cut.count(np.clip(present, low, high))
        counts.append(np.append(by_cell, n_missing))
    return counts


def _count_zoom_cells(
    read: Callable[[Table], list[Floats]],
    table: Table,
    *,
    low: float,
    high: float,
    ends: Floats,
) -> list[Integers]:
    """Count the numbers of a column in `ZOOM_CELLS` cells from `low` to `high`, and outside of them."""
    (numbers,) = read(table)
    numbers = np.clip(numbers[~np.isnan(numbers)], *ends)
    with np.errstate(over="ignore"):  # a warning would reveal a large number
        steps = np.floor((numbers - low) / (high - low) * ZOOM_CELLS)
    is_inside = (steps >= 0) & (steps < ZOOM_CELLS)
    steps = np.where(is_inside, steps, ZOOM_CELLS).astype(np.int64)
    return [np.bincount(steps, minlength=ZOOM_CELLS + 1)]


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy counts of the numbers of a column by their distances from a center."""

    start: Start
    counts: Floats

    @classmethod
    def draw(cls, start: Start, counts: Integers, source: ByteSource) -> NoisyCounts:
        """Add noise to exact counts."""
        return cls(start, start.noise.add_floats(source, counts))

    @cached_property
    def scale(self) -> float:
        """The scale of Laplace noise, or of Laplace noise with the standard deviation of Gaussian noise."""
        noise = self.start.noise
        scale = math.sqrt(noise.scale / 2) if noise.is_gaussian else noise.scale
        return to_float(Fraction(scale))

    @property
    def _n_side(self) -> int:
        """The number of cells on each side of the cell of the center, which is the index of this cell."""
        return self.start.cells.n_side_cells

    @cached_property
    def _tails(self) -> tuple[Tail, Tail]:
        """The counts below and above the center, outward, without the outermost cells, which have infinite numbers."""
        sides = self.counts[1 : self._n_side][::-1], self.counts[self._n_side + 1 : -1]
        octave, top = self.start.cells.cells_per_octave, self.start.top
        below, above = (Tail(side, self.scale, octave, top) for side in sides)
        return below, above

    @cached_property
    def _spread_cell(self) -> int:
        """The cell at the distance of the spread from the center."""
        return self._find_octave(self.start.spread)

    @classmethod
    def draw_with_missing(
        cls, start: Start, counts: Integers, source: ByteSource
    ) -> tuple[NoisyCounts, float, float]:
        """Add noise to the counts of `LimitSearch.locate`; also return the noisy numbers of two further counts.

        These are the numbers of records beyond 0 and of missing values. Records beyond 0 are subtracted from the cell
        of 0 before noise is added, so a record changes one count.
        """
        disjoint, zero = counts.copy(), start.cells.zero
        disjoint[zero] -= counts[-2]
        noisy = start.noise.add_floats(source, disjoint)
        noisy[zero] += noisy[-2]
        return cls(start, noisy[:-2]), float(noisy[-2]), float(noisy[-1])

    def find_domain(self, n_beyond: float, *, is_whole: bool) -> ColumnLimits | None:
        """Find limits of the numbers that the counts clearly show; None if there are none, or all may be equal.

        `n_beyond` is the noisy number of records beyond 0 in the cell of 0. With `is_whole`, equal numbers have limits,
        and a limit is in its cell, because the caller rounds limits to whole numbers within them.
        """
        center, spread = self.start.cells.center, self.start.spread
        n_near, error = self._count_near(self._spread_cell)
        is_clear = n_near > MIN_EVIDENCE_WITHIN * error
        limits, lasts, reaches = [], [], []
        ends = np.array([-math.inf, math.inf])
        stop, _ = self._find_stops(ends)
        for tail, farthest, side in zip(self._tails, self._lasts, (-1, 1), strict=True):
            last = tail.walk(farthest, DOMAIN_EVIDENCE)
            is_clear |= tail.is_clear(self._spread_cell, last, FAR_EVIDENCE)
            # Zeros are no evidence of a scale.
            if last >= 0 or center or not self.start.is_single:
                first = max(last, self._spread_cell)
                widest = self._widen(tail, first, stop)
                last = widest if widest > first else last
            lasts.append(last)
            # Half of the numbers are in the window.
            distance = spread if center else 0.0
            if last >= 0:
                distance = max(distance, float(self._distances[tail.follow(last) + 1]))
            reaches.append(distance)
            limit = center + side * distance
            # Cells lack their outer edges, and windows their edge farther from 0.
            is_window = distance <= spread
            if is_whole and not (
                is_window and (side * center < 0 or self.start.is_single)
            ):
                limit = math.nextafter(limit, center)
            limits.append(limit)
        low, high = limits
        if not is_clear or not (is_whole or low < high):
            return None
        # Numbers of one sign may be far from 0.
        is_zero = self.counts[self._n_side] > DOMAIN_EVIDENCE * self.scale
        if center == 0 and not is_zero and 0 in limits:
            nearest = self._find_nearest(int(high > 0))
            low, high = (nearest, high) if high > 0 else (low, -nearest)
        # A limit is beyond 0 only if records are.
        if n_beyond <= NEAR_EVIDENCE * self.scale:
            if center > 0 > low and not self._is_beyond_zero(0, lasts[0]):
                low, reaches[0] = 0.0, center
            if center < 0 < high and not self._is_beyond_zero(1, lasts[1]):
                high, reaches[1] = 0.0, -center
        return self._describe((low, high), (reaches[0], reaches[1]), ends, is_clear)

    @cached_property
    def _stop(self) -> float:
        """The last cell near certain records, at which limits may be; inf without certain records."""
        cell, gap = self._spread_cell, GAP_OCTAVES * self.start.cells.cells_per_octave
        # Equal numbers, such as zeros, are no evidence of a scale.
        counts = self.counts.copy()
        counts[self.start.cells.zero] = 0
        tails = replace(self, counts=counts)._tails
        certain = max(tail.find_last(cell, GAP_EVIDENCE) for tail in tails)
        is_scale = certain > (cell if self.start.is_single else -1)
        return max(certain, cell) + gap if is_scale else math.inf

    @cached_property
    def _lasts(self) -> list[int]:
        """The last cells below and above the center that clearly have records; -1 without one."""
        cell = self._spread_cell
        return [tail.find_last(cell, 0.0, self._stop) for tail in self._tails]

    @property
    def is_remote(self) -> bool:
        """True if no records are certain, and limits far from the center may be noise."""
        gap = GAP_OCTAVES * self.start.cells.cells_per_octave
        return math.isinf(self._stop) and max(self._lasts) > self._spread_cell + gap

    def _find_nearest(self, side: int) -> float:
        """Return the smallest distance of records from the center; 0 if it is far from the spread."""
        octave = self.start.cells.cells_per_octave
        first = max(self._spread_cell - 4 * octave, 0)
        # Inward, from the first cell that clearly has records.
        near = self._tails[side].counts[first : self._spread_cell + 1][::-1]
        (clear,) = np.nonzero(near > DOMAIN_EVIDENCE * self.scale)
        if not clear.size:
            return 0.0
        last = replace(self._tails[side], counts=near).follow(int(clear[-1]))
        return float(self._distances[self._spread_cell - last])

    def find_limits(self, unit_noise: float, ends: Floats) -> ColumnLimits:
        """Find the limits.

        `unit_noise` is the noise of a sum of the release in units of a record at the limit. Between two finite declared
        `ends`, limits are only as narrow as this noise requires.
        """
        center, edges = self.start.cells.center, self._distances
        spread_cell = self._spread_cell
        lasts = self._find_lasts(ends)
        reaches, excesses, is_known = [], [], []
        for tail, last in zip(self._tails, lasts, strict=True):
            is_known.append(tail.is_clear(spread_cell, last))
            cell, excess = tail.extend(last, unit_noise)
            reaches.append(float(edges[cell + 1]))
            excesses.append(excess * reaches[-1])
        below, above = reaches
        # Columns of one sign are more frequent than others.
        if center == 0 and is_known[0] != is_known[1]:
            below, above = below * is_known[0], above * is_known[1]
        if 0 < center < below and not self._is_beyond_zero(0, lasts[0]):
            below = center
        if 0 < -center < above and not self._is_beyond_zero(1, lasts[1]):
            above = -center
        # If half of the numbers may be equal, only records in farther cells show a scale.
        is_scaled = any(is_known)
        if self.start.is_single:
            is_scaled = max(lasts) > spread_cell
        n_near, error = self._count_near(spread_cell)
        n_near = max(n_near, error)
        # The distance at which the noise of a mean square is a quarter of the square of the
        # spread: wider limits clip fewer numbers.
        reach = self.start.spread * math.sqrt(n_near / unit_noise / 4)
        width = float(ends[1] - ends[0])
        is_within = math.isfinite(width)
        if is_within:
            # The noise of the search may exceed the counts of further numbers.
            below, above = max(below, reach), max(above, reach)
        # Useless declared ends, at which this noise is four times the square of the spread,
        # are replaced with less evidence.
        is_usable = is_within and width / 2 < 4 * reach
        evidence = MIN_EVIDENCE_WITHIN if is_usable else MIN_EVIDENCE_OF_LIMITS
        is_clear = is_scaled and n_near > evidence * error
        limits = center - below, center + above
        return self._describe(limits, (below, above), ends, is_clear, excesses)

    def _describe(
        self,
        limits: tuple[float, float],
        reaches: tuple[float, float],
        ends: Floats,
        is_clear: bool,
        excesses: Sequence[float] = (0.0, 0.0),
    ) -> ColumnLimits:
        """Describe limits, at two distances from the center, by the noisy number of rows beyond them."""
        n_beyond, error = self._count_beyond(reaches, ends)
        largest = self._max_beyond
        return ColumnLimits(
            *limits,
            is_clear,
            n_beyond,
            error,
            n_beyond + ONE_SIDED_QUANTILE * error > largest,
            n_beyond - NEAR_EVIDENCE * error > largest,
            (excesses[0], excesses[1]),
        )

    def _find_lasts(self, ends: Floats) -> list[int]:
        """Find the last cells below and above the center that have records, alone or with further cells."""
        lasts = []
        stops = self._find_stops(ends)
        for tail, farthest, stop in zip(self._tails, self._lasts, stops, strict=True):
            if farthest < 0 and self.start.is_single and not self.start.cells.center:
                # Neither zeros nor the noise beside them are evidence of a scale.
                lasts.append(self._spread_cell)
                continue
            last = tail.walk(max(farthest, self._spread_cell), NEAR_EVIDENCE)
            lasts.append(self._widen(tail, last, stop))
        return lasts

    def _widen(self, tail: Tail, last: int, stop: int) -> int:
        """Move a limit outward over cells that have records together, or that may have them beside a heap."""
        end = min(stop, self._find_plausible(last), tail.counts.size - 1)
        last = gather_cells(tail.counts, last, end, self.scale)
        if self._is_heap:
            # The other rows may be anywhere between 0 and twice the heap.
            widest = min(stop, self._end_octave(abs(self.start.cells.center)))
            number, error = tail.count_between(last, widest)
            if number + ONE_SIDED_QUANTILE * error > self._max_beyond:
                last = max(last, widest)
        return last

    @cached_property
    def _is_heap(self) -> bool:
        """True if one cell has more than half of the rows near the center, and noise explains the other counts."""
        near = self._list_near(self._spread_cell)
        total, error = self._count_near(self._spread_cell)
        others = total - near.max()
        is_scaled = others > NEAR_EVIDENCE * error
        return (
            self.start.cells.center != 0
            and bool(near.max() > others + error)
            and not is_scaled
        )

    @property
    def _max_beyond(self) -> float:
        """The number of rows that may be beyond the limits without a warning."""
        part = MAX_BEYOND_HEAP if self._is_heap else MAX_BEYOND
        return part * max(self._count_near(self._spread_cell))

    def _find_plausible(self, last: int) -> int:
        """Return the last cell in which rows beyond the cell `last` are counted."""
        center = abs(self.start.cells.center)
        # The other side may be as wide, but most columns have numbers of one sign.
        farthest = float(self._distances[max(self._lasts) + 1])
        distance = max(float(self._distances[last + 1]), min(farthest, center))
        if self._is_heap:
            distance = max(distance, 2 * center)
        return self._end_octave(distance) + self.start.cells.cells_per_octave

    def _find_stops(self, ends: Floats) -> list[int]:
        """Return the last cells below and above the center that may have records between the declared ends."""
        center = self.start.cells.center
        return [self._end_octave(x) for x in (center - ends[0], ends[1] - center)]

    def _find_octave(self, distance: float) -> int:
        """Return the first cell of the octave of a distance from the center."""
        cells = self.start.cells
        _, power = math.frexp(distance)
        first = (power - 1 - MIN_POWER) * cells.cells_per_octave
        return int(np.clip(first, 0, cells.n_side_cells - 2))

    def _end_octave(self, distance: float) -> int:
        """Return the last cell of the octave of a distance from the center; the last cell for inf, and -1 for 0."""
        cells = self.start.cells
        largest = cells.n_side_cells - 2
        if math.isinf(distance):
            return largest
        if distance <= 0:
            return -1
        first = self._find_octave(distance)
        return min(first + cells.cells_per_octave - 1, largest)

    def _count_beyond(
        self, reaches: tuple[float, float], ends: Floats
    ) -> tuple[float, float]:
        """Return the noisy number of rows beyond two distances from the center, and its standard error."""
        outermost = self.counts[[0, -1]]
        number, variance = 0.0, 0.0
        for side, (tail, reach, stop) in enumerate(
            zip(self._tails, reaches, self._find_stops(ends), strict=True)
        ):
            if math.isinf(ends[side]):
                number += float(outermost[side])
                variance += 2 * self.scale**2
            # Cells have their inner edges, so a limit of 0 contains the cell that begins there.
            is_zero = reach == abs(self.start.cells.center)
            end = np.searchsorted(
                self._distances, reach, "right" if is_zero else "left"
            )
            last = max(int(end) - 1, self._spread_cell)
            beyond, error = tail.count_between(
                last, min(stop, self._find_plausible(last))
            )
            number += beyond
            variance += error**2
        return number, math.sqrt(variance)

    @property
    def _distances(self) -> Floats:
        """The edges of the cells of one side of the center, outward."""
        return self.start.cells.edges[self._n_side + 1 :]

    def _is_beyond_zero(self, side: int, last: int) -> bool:
        """Return True if the cells of a side of the center that are beyond 0 clearly have records."""
        _, power = math.frexp(self.start.cells.center)
        first = max((power - MIN_POWER) * self.start.cells.cells_per_octave, 0)
        beyond = self._tails[side].counts[first : max(last, first) + 1]
        error = self.scale * math.sqrt(max(beyond.size, 1))
        return bool(beyond.sum() > NEAR_EVIDENCE * error)

    def _count_near(self, spread_cell: int) -> tuple[float, float]:
        """Return the noisy number of records near the center, and its standard deviation."""
        near = self._list_near(spread_cell)
        return float(near.sum()), math.sqrt(2 * near.size) * self.scale

    def _list_near(self, spread_cell: int) -> Floats:
        """Return the noisy counts of the cells near the center."""
        n_side = self.start.cells.n_side_cells
        octave = self.start.cells.cells_per_octave
        first, last = max(spread_cell - 3 * octave, 0), spread_cell + 2 * octave
        parts = [
            self.counts[max(n_side - 1 - last, 0) : n_side - first],
            self.counts[n_side : n_side + 1],
            self.counts[n_side + 1 + first : n_side + 2 + last],
        ]
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Tail:
    """Noisy counts of the cells on one side of a center, outward."""

    counts: Floats
    # The scale of the Laplace noise of a count.
    scale: float
    cells_per_octave: int
    # As in `make_windows`.
    top: int | None

    def _sum(self, start: int, stop: int) -> float:
        return float(self.counts[max(start, 0) : max(stop, 0)].sum())

    def count_between(self, last: int, stop: int) -> tuple[float, float]:
        """Return the noisy number of records beyond the cell `last`, up to the cell `stop`, and its standard error."""
        number = self._sum(last + 1, stop + 1)
        return number, self.scale * math.sqrt(2 * max(stop - last, 0))

    def is_clear(
        self, spread_cell: int, last: int, evidence: float = NEAR_EVIDENCE
    ) -> bool:
        """Return True if the octaves near the cell of the spread, or up to the cell `last`, clearly have records."""
        octave = self.cells_per_octave
        for first, stop in (
            (spread_cell - 3 * octave, spread_cell + 2 * octave),
            (last + 1 - 4 * octave, last + 1),
        ):
            error = self.scale * math.sqrt(stop - max(first, 0))
            if self._sum(first, stop) > evidence * error:
                return True
        return False

    def find_last(
        self, spread_cell: int, added: float = 0.0, stop: float = math.inf
    ) -> int:
        """Return the last cell up to `stop` whose evidence exceeds the threshold by `added`; -1 without one."""
        sums = np.append(0.0, np.cumsum(self.counts))
        last = -1
        for power in range((8 * self.cells_per_octave).bit_length()):
            width = 1 << power
            counts = sums[width:] - sums[:-width]
            # Few ranges exceed the smallest threshold.
            (large,) = np.nonzero(
                counts > bound_noise(width, FAR_EVIDENCE + added) * self.scale
            )
            for first in large[::-1].tolist():
                evidence = added + self._find_evidence(first + width - 1, spread_cell)
                if counts[first] <= bound_noise(width, evidence) * self.scale:
                    continue
                # Each range is represented by the first cell of its half with most
                # records, because they may be in it.
                half = max(width // 2, 1)
                parts = sums[first : first + width + 1]
                halves = parts[half:] - parts[:-half]
                cell = first + int(np.argmax(halves))
                if cell <= stop:
                    last = max(last, cell)
                    break
        return last

    def walk(self, last: int, near_evidence: float) -> int:
        """Move a limit outward to cells near it that exceed the threshold `near_evidence`; -1 remains."""
        reach = 2 * self.cells_per_octave
        while last >= 0:
            counts = self.counts[last + 1 : last + 1 + reach]
            near = counts > near_evidence * self.scale
            if not near.any():
                break
            last += 1 + int(np.flatnonzero(near)[-1])
        return last

    def _find_evidence(self, cell: int, spread_cell: int) -> float:
        """Return the threshold of the number of records in ranges that end at a cell, see `FAR_EVIDENCE`."""
        distance = abs(cell - spread_cell) / self.cells_per_octave
        log_prior = _weigh_octave(cell / self.cells_per_octave, self.top)
        return FAR_EVIDENCE + min(2 * math.log1p(distance), -log_prior)

    def follow(self, last: int) -> int:
        """Move a limit outward by cells while the count of the next octave exceeds the deviation of its noise."""
        octave = self.cells_per_octave
        sums = np.append(0.0, np.cumsum(self.counts[last + 1 :]))
        error = math.sqrt(2 * octave) * self.scale
        is_noise = sums[octave:] - sums[:-octave] < error
        return last + int(np.append(is_noise, True).argmax())

    def extend(self, last: int, unit_noise: float) -> tuple[int, float]:
        """Move a limit outward while the expected number of records beyond it is large compared with `unit_noise`.

        Also return the expected excess of records beyond the limit, in units of its distance from the center.
        """
        octave = self.cells_per_octave
        error = self.scale * math.sqrt(2 * octave)
        inner = self._sum(last + 1 - octave, last + 1) - error
        before = self._sum(last + 1 - 2 * octave, last + 1 - octave)
        if inner <= 0:
            return last, 0.0
        ratio = min(inner / max(before, inner), MAX_TAIL_RATIO)
        expected = inner * ratio
        stop = min(last + MAX_EXTENSION_OCTAVES * octave, self.counts.size - octave - 1)
        while last < stop:
            counted = self._sum(last + 1, last + 1 + octave)
            expected = expect_count(counted, expected, error)
            if expected < max(MIN_EXPECTED_RATIO * unit_noise, 1.0):
                break
            last += octave
            expected *= ratio
        of_next, of_second = MEAN_EXCESSES
        return last, expected * (of_next + ratio * of_second)
