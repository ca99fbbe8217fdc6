"""The distribution of a column of reported numbers: shares of bins, and intervals that always hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import one_thread
from skdp.domain import Interval
from skdp.oracles import NumericMechanism, bin_positions, estimate_frequencies

# The shares are those of expectation maximisation, smoothed ("EMS"); the intervals
# around them assume nothing of the distribution.
#
# Let P(y | t) be the probability of report y of a record with value t. Weights w of the
# reports with
#
#     sum_y P(y | t) w_y >= 1 if t is in the bin, and >= 0 elsewhere, for every t,
#
# have a mean over the reports that is, on average, at least the share of the values in
# the bin: whatever the distribution is, smooth or of a few values. So this mean plus a
# quantile of its error is an upper end, and in the same way, with both signs turned, a
# lower end: the strict bounds of [1]_ and [2]_. Any such weights are valid. The shortest
# intervals come from those with the least sum of the expected mean and the quantile of
# its error, under a distribution that is near the truth: the smoothed estimate. Weights
# that are chosen by the same reports follow their noise, and the intervals are too
# short where reports are few or epsilon is large. So the weights of each half of the
# reports come from an estimate by the other half (cross-fitting, [3]_), and the two
# means are averaged: given the other half, the weights are constants.
#
# .. [1] P. Stark (1992). Inference in infinite-dimensional inverse problems:
#    discretization and duality. JGR 97(B10).
# .. [2] M. Kuusela, P. Stark (2017). Shape-constrained uncertainty quantification in
#    unfolding steeply falling elementary particle spectra. Ann. Appl. Stat. 11(3).
# .. [3] V. Chernozhukov et al. (2018). Double/debiased machine learning for treatment
#    and structural parameters. Econometrics Journal 21(1).

Floats: TypeAlias = NDArray[np.float64]

# The quantile for which weights are chosen. They hold for every confidence level.
Z_95 = 1.959963984540054


def estimate_distribution(
    mechanism: NumericMechanism,
    places: NDArray[np.intp],
    counts: NDArray[np.int64],
    bins: Interval,
    reach: float,
) -> pd.DataFrame:
    """Estimate the shares of bins, with intervals of `reach` standard errors."""
    # The number of each report is `places`; `counts` are those of the numbers.
    n_bins = len(bins.labels)
    shares = np.full(n_bins, np.nan)
    ends = np.tile([0.0, np.inf, 1.0, np.inf], (n_bins, 1))
    if counts.any():
        with one_thread():
            column = _Column.of(mechanism, n_bins, places)
            ends = column.ends(counts)
            shares = column.cell_shares(counts).reshape(n_bins, -1).sum(axis=1)
        shares = _nearest_shares(shares, *_limits(ends, Z_95))
    lower_95, upper_95 = _limits(ends, Z_95)
    # The share may be near an end of its interval. The further end is a limit of its
    # error.
    furthest = np.maximum(shares - lower_95, upper_95 - shares)
    lower, upper = _limits(ends, reach)
    columns = {
        "left": bins.edges[:-1],
        "right": bins.edges[1:],
        "frequency": shares,
        "std_error": np.where(np.isnan(shares), np.inf, furthest / Z_95),
        "lower": lower,
        "upper": upper,
    }
    return pd.DataFrame(columns, index=pd.Index(bins.labels))


def _limits(ends: Floats, reach: float) -> tuple[Floats, Floats]:
    """Return intervals that reach so many standard errors beyond their ends."""
    lowest, lowest_error, highest, highest_error = ends.T
    lower = np.clip(lowest - reach * lowest_error, 0, 1)
    upper = np.clip(highest + reach * highest_error, 0, 1)
    return lower, upper


def _nearest_shares(shares: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return the nearest shares between limits that add up to 1, if there are any."""
    is_between = ((lower <= shares) & (shares <= upper)).all()
    if is_between or lower.sum() >= 1 or upper.sum() <= 1:
        return shares
    from scipy.optimize import brentq  # slow to import

    # Those of least squares: a constant is added, and what passes a limit is moved to
    # it.
    def excess(constant: float) -> float:
        return float(np.clip(shares + constant, lower, upper).sum()) - 1

    return np.clip(shares + brentq(excess, -1, 1), lower, upper)


@dataclass(frozen=True)
class _Column:
    """The reports of one column, for estimates of the shares of its bins."""

    knots: Knots
    reports: GroupedReports
    # The probability of each number given each cell, of shape (n_cells, n_numbers).
    channel: Floats

    @classmethod
    def of(
        cls, mechanism: NumericMechanism, n_bins: int, places: NDArray[np.intp]
    ) -> _Column:
        n_cells = n_bins
        # About the number of cells that are estimated, and merged in the end: smoothing
        # must not reach far.
        cells = 512
        if n_bins > 1:
            n_cells *= max(1, min(cells, mechanism.steps) // n_bins)
        of_reports = mechanism.spread(bin_positions(mechanism.steps, n_cells))
        # Reports that are the same number add up.
        channel = np.zeros((places.max() + 1, n_cells))
        np.add.at(channel, places, of_reports.T)
        knots = knots_of_range(mechanism.steps, n_bins)
        return cls(knots, GroupedReports.of(mechanism, knots, places), channel.T)

    def cell_shares(self, counts: NDArray[np.int64]) -> Floats:
        """Return the smoothed shares of the cells, several of which make up a bin."""
        return estimate_frequencies(self.channel, counts, smooth=True)

    def ends(self, counts: NDArray[np.int64]) -> Floats:
        """Return four numbers for the interval of each bin, of shape (n_bins, 4)."""
        # The lower end without its error, the standard error of this end, and the same
        # of the upper end.
        folds = self._folds(counts)
        ends = np.empty((len(self.knots.touches), 4))
        for bin_ends, touches, is_inside in zip(
            ends, self.knots.touches, self.knots.inside, strict=True
        ):
            highest, highest_error = self.reports.bound(folds, touches.astype(float))
            lowest, lowest_error = self.reports.bound(folds, -is_inside.astype(float))
            bin_ends[:] = -lowest, lowest_error, highest, highest_error
        return ends

    def _folds(self, counts: NDArray[np.int64]) -> list[Fold]:
        """Return parts of the reports, each with a model of other reports."""
        # The same halves of the same reports each time, so that estimates are
        # repeatable.
        half = np.random.default_rng(0).binomial(counts, 0.5)
        halves = [half, counts - half]
        # Of reports: a half with fewer says next to nothing of the weights of the
        # other.
        few = 10
        if min(part.sum() for part in halves) < few:
            n_knots = len(self.knots.positions)
            anywhere = np.full(n_knots, 1 / n_knots)
            return [self.reports.fold(anywhere, counts)]
        folds = []
        for part in halves:
            cells = self.cell_shares(counts - part)
            positions = self.knots.positions
            cell_of_knot = np.floor(positions * (len(cells) / positions[-1]))
            model = cells[cell_of_knot.astype(int).clip(max=len(cells) - 1)]
            folds.append(self.reports.fold(model / model.sum(), part))
        return folds


@dataclass(frozen=True)
class Knots:
    """The positions at which weights are checked, in steps, and those that each bin holds."""

    # Ascending, of shape (n_knots,).
    positions: Floats
    # Whether values at a knot, or next to it, may be in a bin, of shape (n_bins,
    # n_knots).
    touches: NDArray[np.bool_]
    # Whether all values at a knot, and next to it, are in the bin.
    inside: NDArray[np.bool_]


def knots_of_range(steps: int, bins: int) -> Knots:
    """Return knots for values that may be anywhere in the range."""
    # A number between two positions is rounded to one of them without bias, so what
    # holds at two neighbours holds between them: it is enough to check the positions,
    # and the edges of the bins.
    edges = np.arange(bins + 1) * (steps / bins)
    max_knots = 1 << 10
    grid = np.linspace(0, steps, min(steps, max_knots) + 1)
    nearest_edges = edges[np.rint(grid * (bins / steps)).astype(int)]
    # Of a step: the distance of positions that differ by the rounding of floats only.
    same = 1e-9
    is_edge = np.abs(grid - nearest_edges) < same
    positions = np.sort(np.append(grid[~is_edge], edges))
    left = edges[:-1, np.newaxis]
    right = edges[1:, np.newaxis]
    # An edge touches the bins on both sides. It is inside none of them, but for the
    # ends of the range.
    touches = (positions >= left) & (positions <= right)
    inside = (positions > left) & (positions < right)
    inside[0, 0] = inside[-1, -1] = True
    return Knots(positions, touches, inside)


def rounded(positions: Floats, steps: int) -> Floats:
    """Return the distributions of numbers that are rounded at random to the grid."""
    # Of shape (n, steps + 1).
    below = np.minimum(np.floor(positions).astype(int), steps - 1)
    rows = np.arange(len(positions))
    share_above = positions - below
    weights = np.zeros((len(positions), steps + 1))
    weights[rows, below] = 1 - share_above
    weights[rows, below + 1] = share_above
    return weights


@dataclass(frozen=True)
class Fold:
    """A part of the reports, in groups, and a model that is fitted to others."""

    # A distribution over the knots.
    model: Floats
    # Of the reports, of shape (n_groups,).
    shares: Floats
    n_reports: int


@dataclass(frozen=True)
class GroupedReports:
    """Groups of the reports of one column, and their channel from the knots."""

    # The probability of each group given each knot, of shape (n_knots, n_groups).
    channel: Floats
    # The group of each number, of shape (n_numbers,).
    group_of_place: NDArray[np.intp]

    @classmethod
    def of(
        cls, mechanism: NumericMechanism, knots: Knots, places: NDArray[np.intp]
    ) -> GroupedReports:
        """Group the reports of a mechanism, of which `places` are the numbers."""
        steps = mechanism.steps
        probabilities = mechanism.spread(np.full((1, steps + 1), 1 / (steps + 1)))[0]
        # Neighbours have similar channels. Reports that are the same number are in the
        # same group.
        middles = np.cumsum(probabilities) - probabilities / 2
        # Reports that have one weight are a group. Twice as many groups: intervals 0 to
        # 20 % shorter in 4 times the time.
        n_groups = 1 << 7
        groups = np.floor(middles * n_groups).astype(int)
        first_report = np.unique(places, return_index=True)[1]
        group_of_place = np.unique(groups[first_report], return_inverse=True)[1]
        by_report = mechanism.spread(rounded(knots.positions, steps))
        channel = np.zeros((group_of_place.max() + 1, len(knots.positions)))
        np.add.at(channel, group_of_place[places], by_report.T)
        return cls(channel.T, group_of_place)

    def fold(self, model: Floats, counts: NDArray[np.int64]) -> Fold:
        """Return a part of the reports, and a model for their weights."""
        n_reports = int(counts.sum())
        sizes = np.bincount(self.group_of_place, counts, self.channel.shape[1])
        return Fold(model, sizes / n_reports, n_reports)

    def bound(self, folds: Sequence[Fold], function: Floats) -> tuple[float, float]:
        """Return an upper bound of a function's mean over the values, and its std. error."""
        # The function is given at the knots; the bound is without its error.
        n_reports = sum(fold.n_reports for fold in folds)
        total = 0.0
        total_variance = 0.0
        for fold in folds:
            expected = fold.model @ self.channel
            weights = best_weights(self.channel, function, expected, n_reports)
            # One more report, of the largest weight: what few reports lack, and what a
            # quantile of the normal distribution leaves out where hardly any report has
            # a large weight (as the added records of Agresti and Coull 1998).
            largest = np.zeros(len(weights))
            largest[weights.argmax()] = 1
            extra = 1 / len(folds)
            shares = (fold.n_reports * fold.shares + extra * largest) / (
                fold.n_reports + extra
            )
            # Of few reports, all may be alike: the model bounds the variance from
            # below.
            variance = max(_variance(weights, expected), _variance(weights, shares))
            total += fold.n_reports * float(weights @ shares)
            total_variance += fold.n_reports * variance
        return total / n_reports, float(np.sqrt(total_variance)) / n_reports


def _variance(weights: Floats, shares: Floats) -> float:
    return float(shares @ (weights - weights @ shares) ** 2)


def best_weights(
    channel: Floats, function: Floats, expected: Floats, n_reports: int
) -> Floats:
    """Return weights of reports whose mean bounds a function's mean from above."""
    # The function of the true values is given at the knots, such as 1 in a bin and 0
    # elsewhere: its mean is the share of the bin. Of all such weights, these have nearly
    # the lowest upper confidence limit under the `expected` distribution of reports.
    # That is: ``channel @ w >= function``, and nearly the least ``expected @ w + z *
    # std(w) / sqrt(n_reports)``. A primal-dual interior point method with Mehrotra's
    # predictor and corrector (J. Nocedal, S. Wright 2006, Numerical optimization,
    # section 16.6). What it leaves of the inequalities is removed at the end, by a
    # constant, as each row of the channel adds up to 1: the weights are valid in any
    # case.
    from scipy.linalg import LinAlgError, cho_factor  # slow to import

    z = Z_95 / np.sqrt(n_reports)
    n_knots, n_groups = channel.shape
    weights = np.full(n_groups, function.max() + 1.0)
    slack = channel @ weights - function
    dual = np.full(n_knots, 1 / n_knots)
    max_rounds = 50
    precision = 1e-4
    # Added to the standard deviation of a weight, whose derivative at 0 does not exist;
    # weights range over more than 1.
    spread = 0.1
    for _ in range(max_rounds):
        centred = expected * (weights - expected @ weights)
        deviation = np.sqrt(centred @ weights + spread**2)
        gradient_left = expected + z / deviation * centred - channel.T @ dual
        slack_left = channel @ weights - function - slack
        gap = slack @ dual
        if max(gap, np.abs(gradient_left).sum(), np.abs(slack_left).max()) < precision:
            break
        hessian = _deviation_hessian(expected, centred, deviation)
        ratio = dual / slack
        system = z * hessian + channel.T @ (channel * ratio[:, np.newaxis])
        system[np.diag_indices(n_groups)] += 1e-12 * np.trace(system) / n_groups
        try:
            factor = cho_factor(system)
        except LinAlgError:  # the floats are not precise enough for another round
            break
        steps, length = _interior_steps(
            factor, channel, slack, dual, gradient_left, slack_left
        )
        weights = weights + length * steps[0]
        slack = slack + length * steps[1]
        dual = dual + length * steps[2]
    return weights + max(0.0, (function - channel @ weights).max())


def _interior_steps(
    factor: Any,
    channel: Floats,
    slack: Floats,
    dual: Floats,
    gradient_left: Floats,
    slack_left: Floats,
) -> tuple[tuple[Floats, Floats, Floats], float]:
    """Return the steps of the weights, the slack and the dual, and the part of them that is taken."""
    from scipy.linalg import cho_solve

    ratio = dual / slack
    gap = slack @ dual
    # The predictor aims at slack * dual = 0, the corrector at what it leaves.
    goal = -slack * dual
    for _ in ("predictor", "corrector"):
        right_side = channel.T @ (goal / slack - ratio * slack_left) - gradient_left
        weights_step = cho_solve(factor, right_side)
        slack_step = channel @ weights_step + slack_left
        dual_step = goal / slack - ratio * slack_step
        length = _longest_step([slack, dual], [slack_step, dual_step])
        gap_after = (slack + length * slack_step) @ (dual + length * dual_step)
        centring = (gap_after / gap) ** 3 * gap / len(slack)
        goal = centring - slack * dual - slack_step * dual_step
    return (weights_step, slack_step, dual_step), length


def _deviation_hessian(expected: Floats, centred: Floats, deviation: float) -> Floats:
    """Return the second derivative of the standard deviation of weights."""
    # std = sqrt(w' V w) for V = diag(e) - e e', whose gradient is V w / std: so it is
    # (V - V w w' V / std²) / std, with ``centred = V w``.
    covariance = np.diag(expected) - np.outer(expected, expected)
    return (covariance - np.outer(centred, centred) / deviation**2) / deviation


def _longest_step(vectors: Sequence[Floats], steps: Sequence[Floats]) -> float:
    """Return how far positive vectors may move and stay positive, at most 1."""
    values = np.concatenate(vectors)
    step = np.concatenate(steps)
    is_falling = step < 0
    lengths = -values[is_falling] / step[is_falling]
    return min(1.0, 0.99 * float(np.min(lengths, initial=np.inf)))
