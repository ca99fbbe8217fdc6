"""Quantiles of columns: a private choice among public candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.base import read_bounds
from skdp.central.statistics._batches import Batches
from skdp.central.statistics._halving import halve, n_halvings, nearest_candidate
from skdp.central.statistics._noise import (
    LARGEST,
    Noise,
    choice_loss,
    choice_name,
    choose,
)
from skdp.central.statistics._sums import read_values, warn_of_objects
from skdp.domain import cut_evenly
from skdp.oracles import check_size
from skdp.privacy import Loss, Share, exponential_loss
from skdp.randomness import ByteSource
from skdp.tables import Table

# The largest denominator of a probability: scores are then integers of 64 bits for up
# to 9 * 10**12 values.
FINEST = 1_000_000

_OneColumn: TypeAlias = Literal["integers"] | ArrayLike
Candidates: TypeAlias = _OneColumn | Mapping[Any, _OneColumn]

# The number of values less than each candidate, of those not greater, and of all
# values.
Ranks = tuple[NDArray[np.int64], NDArray[np.int64], int]


def ranked_quantiles(
    ranks: Sequence[Ranks],
    probabilities: Sequence[Fraction],
    candidates: Sequence[NDArray[np.float64]],
    share: Share,
    source: ByteSource,
) -> NDArray[np.float64]:
    """Release quantiles of columns by private choices, each with an equal share."""
    # Of n values, a candidate c is a q-quantile if at most q n are below it, and at
    # least q n are not above it. Its score is minus the number of values by which it
    # fails to be one::
    #
    #     score(c) = -max(0, #{x < c} - q n, q n - #{x <= c})
    #
    # Adding or removing one value moves a score by at most max(q, 1 - q): each
    # difference moves by q or by 1 - q. A score may rise while another falls by the
    # same amount, so the rate of `choose` is epsilon / (2 max(q, 1 - q)). No larger one
    # is private: the privacy loss tends to epsilon as the candidates become many.
    share /= len(ranks) * len(probabilities)
    released = np.empty((len(ranks), len(probabilities)))
    for row, counts, values in zip(released, ranks, candidates, strict=True):
        for index, q in enumerate(probabilities):
            # In parts of a record, 1 / q.denominator each: whole numbers.
            sensitivity = max(q.numerator, q.denominator - q.numerator)
            row[index] = values[
                choose(source, scores(*counts, q), share, 2 * sensitivity)
            ]
    released.sort(axis=1)
    return released


def count_below(
    column: NDArray[np.float64],
    candidates: NDArray[np.float64],
    counts: NDArray[np.int64] | None = None,
) -> Ranks:
    """Count the values below each candidate."""
    is_number = ~np.isnan(column)
    values = np.clip(column[is_number], candidates[0], candidates[-1])
    totals = None
    if counts is not None:
        order = np.argsort(values)
        totals = np.append(0, np.cumsum(counts[is_number][order]))
    values.sort()
    below, up_to = (
        np.searchsorted(values, candidates, "left"),
        np.searchsorted(values, candidates, "right"),
    )
    return (
        (below, up_to, values.size)
        if totals is None
        else (totals[below], totals[up_to], int(totals[-1]))
    )


def scores(
    below: NDArray[np.int64], up_to: NDArray[np.int64], n: int, q: Fraction
) -> NDArray[np.int64]:
    rank = q.numerator * n
    return -np.maximum(
        0, np.maximum(q.denominator * below - rank, rank - q.denominator * up_to)
    )


def rank_columns(
    rows: Batches, candidates: Sequence[NDArray[np.float64]]
) -> list[Ranks]:
    """Count the values of each column below its candidates."""
    warn_of_objects(rows.table)
    ends = [(float(values[0]), float(values[-1])) for values in candidates]
    sums = rows.add_up(partial(count_ranks, candidates=candidates), ends)
    ranks = []
    for below, up_to, n in zip(sums[::3], sums[1::3], sums[2::3], strict=True):
        ranks.append((below, up_to, int(n[0])))
    return ranks


def count_ranks(
    table: Table,
    counts: NDArray[np.int64] | None,
    *,
    candidates: Sequence[NDArray[np.float64]],
) -> list[NDArray[np.int64]]:
    """Return the three arrays of `count_below` of each column."""
    sums = []
    for column, values in zip(read_values(table), candidates, strict=True):
        below, up_to, n = count_below(column, values, counts)
        sums += [below, up_to, np.array([n])]
    return sums


def cells_of(ranks: Ranks) -> NDArray[np.int64]:
    """Count the values that equal a candidate, or are between two: each value is in one of these cells."""
    below, up_to, _ = ranks
    cells = np.empty(2 * below.size - 1, np.int64)
    cells[::2], cells[1::2] = up_to - below, below[1:] - up_to[:-1]
    return cells


def halved_quantiles(
    ranks: Sequence[Ranks],
    probabilities: Sequence[Fraction],
    candidates: Sequence[NDArray[np.float64]],
    share: Share,
    source: ByteSource,
) -> NDArray[np.float64]:
    """Release quantiles of columns by recursive halving, each column with an equal share."""
    share /= len(ranks)
    released = np.empty((len(ranks), len(probabilities)))
    for row, counts, values in zip(released, ranks, candidates, strict=True):
        cuts = halve(cells_of(counts), probabilities, share, source)
        row[:] = values[list(map(nearest_candidate, cuts))]
    return released


# The numbers of groups of cells on levels of counts, where there are at least eight
# times as many cells.
_GROUPS = 784, 49, 7


def level_sizes(n_cells: int) -> list[int]:
    return [n_cells, *(groups for groups in _GROUPS if 8 * groups <= n_cells)]


def estimate_cells(
    counts: NDArray[np.int64], sizes: Sequence[int], noise: Noise, source: ByteSource
) -> NDArray[np.float64]:
    """Estimate the counts of cells by noisy counts of them, of groups of cells, of groups of these, and so on."""
    # A record changes one count on each level, by 1. Groups follow from the noisy
    # counts below them, and so levels compose adaptively: a group has about as many
    # records as the others, and few counts are spent where none are. Its own count
    # improves the sum of its parts, as in `Hierarchy`; variances are in units of that
    # of a noisy count.
    most = LARGEST // counts.size
    levels = []
    best, variances = np.zeros(counts.size), np.full(counts.size, np.inf)
    for size in sizes:
        first = _even_groups(best, size)
        counts, best = np.add.reduceat(counts, first), np.add.reduceat(best, first)
        parts = np.add.reduceat(variances, first)
        noisy = np.clip(counts + noise.draw(source, first.size), -most, most).astype(
            float
        )
        variances = 1 / (1 + 1 / parts)
        best += variances * (noisy - best)
        levels.append((best, first))
    # From the top, the parts of a group are projected to what is not negative and has
    # its sum: noise is not spread over the many cells that are empty.
    counts_of_groups, groups = (
        np.maximum(best.sum(keepdims=True), 0),
        np.zeros(1, np.intp),
    )
    for best, first in reversed(levels):
        counts_of_groups, groups = _project(best, groups, counts_of_groups), first
    return counts_of_groups


def _even_groups(values: NDArray[np.float64], size: int) -> NDArray[np.intp]:
    """Cut numbers into at most as many groups, of about equal sums; return the first index of each."""
    values = np.maximum(values, 0) if (values > 0).any() else np.ones(values.size)
    sums = np.cumsum(values)
    first = np.searchsorted(sums - values / 2, sums[-1] * np.arange(1, size) / size)
    return np.append(0, first[(np.diff(first, prepend=0) > 0) & (first < values.size)])


def _project(
    values: NDArray[np.float64], first: NDArray[np.intp], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Project the numbers of each group to the nearest ones that are not negative and have the given sum."""
    # What is below the mean excess of the others is 0, until nothing more is (C.
    # Michelot, 1986).
    sizes = np.diff(first, append=values.size)
    is_positive = np.ones(values.size, np.bool_)
    while True:
        n_kept = np.maximum(np.add.reduceat(is_positive, first, dtype=np.intp), 1)
        excess = np.repeat(
            (np.add.reduceat(values * is_positive, first) - sums) / n_kept, sizes
        )
        dropped = is_positive & (values < excess)
        if not dropped.any():
            return (values - excess) * is_positive
        is_positive ^= dropped


def counted_quantiles(
    ranks: Ranks,
    probabilities: Sequence[Fraction],
    sizes: Sequence[int],
    noise: Noise,
    source: ByteSource,
) -> NDArray[np.intp]:
    """Release all quantiles of a column from one tree of noisy counts, as indices of the candidates."""
    # Of the noisy counts, candidates are judged by the scores of `ranked_quantiles`.
    sums = np.cumsum(estimate_cells(cells_of(ranks), sizes, noise, source))
    if sums[-1] <= 0:  # nothing is known
        sums = np.arange(1.0, sums.size + 1)
    before, until = np.append(0.0, sums[1::2]), sums[::2]
    ranks_of_quantiles = sums[-1] * np.array([float(q) for q in probabilities])
    places = np.minimum(np.searchsorted(until, ranks_of_quantiles), until.size - 1)
    before_places = np.maximum(places - 1, 0)
    return np.where(
        ranks_of_quantiles - until[before_places] < before[places] - ranks_of_quantiles,
        before_places,
        places,
    )


# Up to `_CHOSEN` quantiles of a column are chosen each by itself: two cost as much as two
# halvings. Up to `_HALVED` take three halvings at most, which have half to two thirds of
# the error of counts on continuous columns (500 to 10,000 rows, epsilon .1 and 1), if
# there are at least `_FINE` candidates. With 1,000 or fewer, most values equal a
# candidate, and counts have less error from three quantiles on.
_CHOSEN, _HALVED, _FINE = 2, 7, 2000

Method: TypeAlias = Literal["choices", "halving", "counts"]


@dataclass(frozen=True, eq=False)
class QuantilePlan:
    """A release of quantiles that is not drawn yet."""

    ranks: Sequence[Ranks]
    candidates: Sequence[NDArray[np.float64]]
    probabilities: Sequence[Fraction]
    share: Share

    @property
    def method(self) -> Method:
        """How all quantiles of a column are found: it depends on their number and on that of candidates."""
        n_quantiles = len(self.probabilities)
        is_fine = all(values.size >= _FINE for values in self.candidates)
        if n_quantiles <= _CHOSEN:
            return "choices"
        return "halving" if n_quantiles <= _HALVED and is_fine else "counts"

    def draw(self, source: ByteSource) -> NDArray[np.float64]:
        """Return the quantiles of each column, in a row."""
        if self.method == "choices":
            return ranked_quantiles(
                self.ranks, self.probabilities, self.candidates, self.share, source
            )
        if self.method == "halving":
            return halved_quantiles(
                self.ranks, self.probabilities, self.candidates, self.share, source
            )
        quantiles = []
        for ranks, values, (sizes, noise) in zip(
            self.ranks, self.candidates, self._trees, strict=True
        ):
            places = counted_quantiles(ranks, self.probabilities, sizes, noise, source)
            quantiles.append(values[places])
        return np.array(quantiles)

    @property
    def _trees(self) -> list[tuple[list[int], Noise]]:
        """The numbers of groups on the levels of each column, and the noise of their counts."""
        # A record changes one count of each level by 1.
        trees = []
        for values in self.candidates:
            sizes = level_sizes(2 * values.size - 1)
            part = self.share / (len(self.candidates) * len(sizes))
            if self.share.kind == "rho":
                part = replace(part, kind="mu", amount=part.mu_squared)
            trees.append((sizes, Noise.of(part)))
        return trees

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        if self.method == "choices":
            return choice_name(self.share)
        if self.method == "halving":
            return "exponential mechanism"
        return f"{self._trees[0][1].name} on nested counts"

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What is lost, as far as it is known."""
        # The number of levels is that of declared candidates, or of a public number of
        # steps; between bounds that are yet to be found there are always enough
        # candidates for all levels.
        if self.share.kind != "epsilon":
            # Of rho, a choice by the exponential mechanism loses less than its epsilon
            # says.
            if self.method != "counts":
                return ()
            return (Noise("mu", self.share.mu_squared).loss,)
        n_columns = len(self.ranks)
        if self.method == "choices":
            n_choices = len(self.probabilities) * n_columns
            return (replace(choice_loss(self.share / n_choices), count=n_choices),)
        if self.method == "halving":
            n_levels = n_halvings(self.probabilities) * n_columns
            loss = exponential_loss((self.share / n_levels).amount)
            return (replace(loss, count=n_levels),)
        losses = []
        for sizes, noise in self._trees:
            losses.append(replace(noise.loss, count=len(sizes)))
        return tuple(losses)


def plan_quantiles(
    rows: Batches,
    candidates: Sequence[NDArray[np.float64]],
    probabilities: Sequence[Fraction],
    share: Share,
) -> QuantilePlan:
    """Read the columns of a table, and plan the release of their quantiles, of ascending probabilities."""
    return QuantilePlan(
        rank_columns(rows, candidates), candidates, probabilities, share
    )


def read_probability(value: Any, name: str) -> Fraction:
    """Check the probability of a quantile, and take it as the nearest fraction of a denominator up to `FINEST`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(
            f"{name} must be a number between 0 and 1, got {type(value).__name__}"
        )
    number = float(value)
    exact = (
        Fraction(number).limit_denominator(FINEST) if 0 < number < 1 else Fraction(0)
    )
    if not 0 < exact < 1:
        raise ValueError(
            f"{name} must be between 0 and 1, at least a millionth away from both, got "
            f"{value}"
        )
    return exact


# The most steps between the bounds by default, unless more are needed to have all whole
# numbers.
STEPS = 10_000

MOST_INTEGERS = 100_000
MOST_CANDIDATES = 1_000_000


def read_candidates(
    candidates: Any, names: Sequence[Any], bounds: Any
) -> list[NDArray[np.float64]]:
    """Take the declared candidates of each column, or make them from the bounds."""
    # They do not depend on the table, whose dtypes show what is in it: pandas makes
    # floats of integers where one is missing.
    ends = read_bounds(bounds, names)
    if isinstance(candidates, Mapping):
        unknown = [name for name in candidates if name not in names]
        if unknown:
            raise ValueError(
                f"candidates declares columns that X does not have: {unknown}; X has "
                f"{list(names)}"
            )
        declared = [candidates.get(name) for name in names]
    else:
        declared = [candidates] * len(names)
    return [
        _read(name, values, low, high)
        for name, values, (low, high) in zip(
            names, declared, ends.tolist(), strict=True
        )
    ]


def check_steps(candidates: Any, names: Sequence[Any]) -> None:
    """Refuse candidates that do not follow from bounds, for columns whose bounds are found."""
    for name in names:
        declared = (
            candidates.get(name) if isinstance(candidates, Mapping) else candidates
        )
        if isinstance(declared, str) or hasattr(declared, "__len__"):
            raise ValueError(
                f"candidates of column {name!r} must be None or a number of steps, as "
                "its bounds are to be found"
            )


def _read(name: Any, declared: Any, low: float, high: float) -> NDArray[np.float64]:
    if declared is None:
        return cut_evenly(low, high, _default_steps(low, high))
    if isinstance(declared, str):
        return _integers(name, declared, low, high)
    if hasattr(declared, "__len__") and not isinstance(declared, bytes):
        return _read_values(name, declared, low, high)
    return cut_evenly(
        low,
        high,
        check_size(declared, least=1, most=MOST_CANDIDATES, name="candidates"),
    )


def _read_values(
    name: Any, declared: Any, low: float, high: float
) -> NDArray[np.float64]:
    try:
        values = np.asarray(declared)
    except ValueError:  # rows of different lengths
        values = np.empty((0, 0))
    if values.ndim != 1 or not 0 < values.size <= MOST_CANDIDATES:
        raise ValueError(
            f"candidates of column {name!r} must be a list of 1 to {MOST_CANDIDATES:,} "
            "numbers"
        )
    if values.dtype.kind not in "iuf":
        raise TypeError(
            f"candidates of column {name!r} must be numbers, got {values.dtype}"
        )
    if not ((low <= values) & (values <= high)).all():  # not so for nan
        raise ValueError(
            f"candidates of column {name!r} must be between its bounds, {low:g} and "
            f"{high:g}"
        )
    return np.unique(values.astype(float))


def _default_steps(low: float, high: float) -> int:
    width = high - low
    if not (low.is_integer() and high.is_integer() and width <= MOST_INTEGERS):
        return STEPS
    return max(STEPS - STEPS % int(width), int(width))


def _integers(name: Any, declared: str, low: float, high: float) -> NDArray[np.float64]:
    if declared != "integers":
        raise ValueError(
            f"candidates of column {name!r} must be 'integers', a number of steps or a "
            f"list, got {declared!r}"
        )
    least, most = math.ceil(low), math.floor(high)
    if not 0 <= most - least < MOST_CANDIDATES:
        raise ValueError(
            f"candidates='integers' of column {name!r}: there must be 1 to "
            f"{MOST_CANDIDATES:,} whole numbers between "
            f"the bounds {low:g} and {high:g}"
        )
    return np.arange(least, most + 1, dtype=float)
