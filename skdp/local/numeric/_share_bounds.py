"""Intervals for the share of the values in a bin that hold for any distribution of the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import NumericMechanism

# Let P(y | t) be the probability of report y of a record with value t. Weights w of the reports with
#
#     sum_y P(y | t) w_y >= 1 if t is in the bin, and >= 0 elsewhere, for every possible t,
#
# have a mean over the reports that is, on average, at least the share of the values in the bin: whatever the
# distribution is, smooth or of a few values. So this mean plus a quantile of its error is an upper end, and in the
# same way, with both signs turned, a lower end: the strict bounds of [1]_ and [2]_. Any such weights are valid. The
# shortest intervals come from those with the least sum of the expected mean and the quantile of its error, under a
# distribution that is near the truth: the smoothed estimate. Weights that are chosen by the same reports follow their
# noise, and the intervals are too short where reports are few or epsilon is large. So the weights of each half of the
# reports come from an estimate by the other half (cross-fitting, [3]_), and the two means are averaged: given the other
# half, the weights are constants.
#
# .. [1] P. Stark (1992). Inference in infinite-dimensional inverse problems: discretization and duality. JGR 97(B10).
# .. [2] M. Kuusela, P. Stark (2017). Shape-constrained uncertainty quantification in unfolding steeply falling
#    elementary particle spectra. Annals of Applied Statistics 11(3).
# .. [3] V. Chernozhukov et al. (2018). Double/debiased machine learning for treatment and structural parameters.
#    Econometrics Journal 21(1).

Floats = NDArray[np.float64]

Z_95 = 1.959963984540054
"""The quantile for which weights are chosen. They hold for every confidence level."""
_MAX_KNOTS = 1 << 10
_N_GROUPS = 1 << 7
"""Reports that have one weight are a group. Twice as many groups: intervals 0 to 20 % shorter in 4 times the time."""
_MAX_ROUNDS = 50
_PRECISION = 1e-4
_SPREAD = 0.1
"""Added to the standard deviation of a weight, whose derivative at 0 does not exist; weights range over more than 1."""
_SAME = 1e-9
"""Of a step: the distance of positions that differ by the rounding of floats only."""


@dataclass(frozen=True)
class Knots:
    """The positions at which weights are checked, in steps, and those that each bin holds."""

    positions: Floats
    """Ascending, of shape (n_knots,)."""
    touches: NDArray[np.bool_]
    """Whether values at a knot, or next to it, may be in a bin, of shape (n_bins, n_knots)."""
    inside: NDArray[np.bool_]
    """Whether all values at a knot, and next to it, are in the bin."""


def knots_of_range(steps: int, bins: int) -> Knots:
    """Return knots for values that may be anywhere in the range."""
    # A number between two positions is rounded to one of them without bias, so what
    # holds at two neighbours holds between them: it is enough to check the positions,
    # and the edges of the bins.
    edges = np.arange(bins + 1) * (steps / bins)
    grid = (
        np.arange(steps + 1.0)
        if steps <= _MAX_KNOTS
        else np.linspace(0, steps, _MAX_KNOTS + 1)
    )
    is_edge = np.abs(grid - edges[np.rint(grid * (bins / steps)).astype(int)]) < _SAME
    positions = np.sort(np.append(grid[~is_edge], edges))
    left, right = edges[:-1, np.newaxis], edges[1:, np.newaxis]
    # An edge touches the bins on both sides. It is inside none of them, but for the
    # ends of the range.
    touches = (positions >= left) & (positions <= right)
    inside = (positions > left) & (positions < right)
    inside[0, 0] = inside[-1, -1] = True
    return Knots(positions, touches, inside)


def knots_of_lattice(steps: int, bins: int, n_values: int) -> Knots:
    """Return the only possible values, of equal distances, as knots."""
    positions = np.linspace(0, steps, n_values)
    bin_of_value = (
        np.floor(positions * (bins / steps) + _SAME).astype(int).clip(max=bins - 1)
    )
    members = bin_of_value == np.arange(bins)[:, np.newaxis]
    return Knots(positions, members, members)


def rounded(positions: Floats, steps: int) -> Floats:
    """Return the distribution over the positions of the grid, of shape (n, steps + 1), of numbers that are rounded."""
    below = np.minimum(np.floor(positions).astype(int), steps - 1)
    rows, share_above = np.arange(len(positions)), positions - below
    weights = np.zeros((len(positions), steps + 1))
    weights[rows, below] = 1 - share_above
    weights[rows, below + 1] = share_above
    return weights


@dataclass(frozen=True)
class Fold:
    """A part of the reports, in groups, and a model of the values that was fitted to other reports."""

    model: Floats
    """A distribution over the knots."""
    shares: Floats
    """Of the reports, of shape (n_groups,)."""
    n_reports: int


@dataclass(frozen=True)
class GroupedReports:
    """Groups of the reports of one column, and their channel from the knots."""

    channel: Floats
    """The probability of each group given each knot, of shape (n_knots, n_groups)."""
    group_of_place: NDArray[np.intp]
    """The group of each number, of shape (n_numbers,)."""

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
        groups = np.floor(middles * _N_GROUPS).astype(int)
        first_report = np.unique(places, return_index=True)[1]
        group_of_place = np.unique(groups[first_report], return_inverse=True)[1]
        by_report = mechanism.spread(rounded(knots.positions, steps))
        channel = np.zeros((group_of_place.max() + 1, len(knots.positions)))
        np.add.at(channel, group_of_place[places], by_report.T)
        return cls(channel.T, group_of_place)

    def fold(self, model: Floats, counts: NDArray[np.int64]) -> Fold:
        """Return the part of the reports of which `counts` are by number, with a model for their weights."""
        n_reports = int(counts.sum())
        shares = (
            np.bincount(self.group_of_place, counts, self.channel.shape[1]) / n_reports
        )
        return Fold(model, shares, n_reports)

    def bound(self, folds: Sequence[Fold], least: Floats) -> tuple[float, float]:
        """Return an upper bound of the mean of `least` over the values, without its error, and its standard error."""
        # `least` is a number for each knot.
        n_reports = sum(fold.n_reports for fold in folds)
        total = total_variance = 0.0
        for fold in folds:
            expected = fold.model @ self.channel
            weights = best_weights(self.channel, least, expected, n_reports)
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
    channel: Floats, least: Floats, expected: Floats, n_reports: int
) -> Floats:
    """Return weights w of the reports with ``channel @ w >= least`` and nearly the least upper end."""
    # The upper end is ``expected @ w + z * std(w) / sqrt(n_reports)``; `expected` is a
    # distribution of the reports. A primal-dual interior point method with Mehrotra's
    # predictor and corrector. What it leaves of the inequalities is removed at the end,
    # by a constant, as each row of the channel adds up to 1: the weights are valid in
    # any case.
    from scipy.linalg import LinAlgError, cho_factor, cho_solve  # slow to import

    z = Z_95 / np.sqrt(n_reports)
    n_knots, n_groups = channel.shape
    weights = np.full(n_groups, least.max() + 1.0)
    slack = channel @ weights - least
    dual = np.full(n_knots, 1 / n_knots)
    for _ in range(_MAX_ROUNDS):
        centred = expected * (weights - expected @ weights)
        deviation = np.sqrt(centred @ weights + _SPREAD**2)
        gradient_left = expected + z / deviation * centred - channel.T @ dual
        slack_left = channel @ weights - least - slack
        gap = slack @ dual
        if max(gap, np.abs(gradient_left).sum(), np.abs(slack_left).max()) < _PRECISION:
            break
        hessian = (
            np.diag(expected)
            - np.outer(expected, expected)
            - np.outer(centred, centred) / deviation**2
        )
        ratio = dual / slack
        system = z / deviation * hessian + channel.T @ (channel * ratio[:, np.newaxis])
        system[np.diag_indices(n_groups)] += 1e-12 * np.trace(system) / n_groups
        try:
            factor = cho_factor(system)
        except LinAlgError:  # the floats are not precise enough for another round
            break
        goal = -slack * dual
        for _ in ("predictor", "corrector"):
            right_side = channel.T @ (goal / slack - ratio * slack_left) - gradient_left
            weights_step = cho_solve(factor, right_side)
            slack_step = channel @ weights_step + slack_left
            dual_step = goal / slack - ratio * slack_step
            length = min(
                _longest_step(slack, slack_step), _longest_step(dual, dual_step)
            )
            gap_after = (slack + length * slack_step) @ (dual + length * dual_step)
            goal = (
                (gap_after / gap) ** 3 * gap / n_knots
                - slack * dual
                - slack_step * dual_step
            )
        weights = weights + length * weights_step
        slack = slack + length * slack_step
        dual = dual + length * dual_step
    return weights + max(0.0, (least - channel @ weights).max())


def _longest_step(values: Floats, step: Floats) -> float:
    """Return how far positive values may move and stay positive, at most 1."""
    falls = step < 0
    return min(1.0, 0.99 * float(np.min(-values[falls] / step[falls], initial=np.inf)))
