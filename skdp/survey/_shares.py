"""Shares of the values of a question, from reports of groups of persons, with linearised errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skdp.base import check_confidence_level
from skdp.local.protocol import SampledCounts
from skdp.survey._agreement import (
    warn_of_groups_that_differ,
    warn_of_impossible,
    warn_of_no_end,
)
from skdp.survey._likelihood import Numbers


def estimate_shares(
    design: Any, table: pd.DataFrame, row_weights: Numbers, confidence_level: float
) -> pd.DataFrame:
    """Estimate the proportions of the values of a design, and its unknown number."""
    check_confidence_level(confidence_level)
    groups, codes = design.cells(table)
    # (n_groups, n_values, n_reports)
    channels = np.stack(list(design.channels.values()))
    slopes = None
    if design.unknown is not None:
        slopes = np.stack([design.slopes[key] for key in design.channels])
    # A cell is a report in a group.
    cells = groups * channels.shape[2] + codes
    n_cells = channels.shape[0] * channels.shape[2]
    shape = channels.shape[0], channels.shape[2]
    weights = np.bincount(cells, row_weights, n_cells).astype(float).reshape(shape)
    squares = np.bincount(cells, row_weights**2, n_cells).astype(float).reshape(shape)
    fit = _ShareFit(channels, slopes, weights)
    shares, unknown = fit.solve(design.column, design.start)
    scores = fit.influences(shares, unknown)  # (n_cells, n_estimates)
    estimates = np.append(shares, [] if unknown is None else [unknown])
    warn_of_groups_that_differ(
        design.column,
        fit.weights,
        squares,
        fit.expected(shares, unknown),
        len(estimates) - 1,
    )
    _warn_of_impossible(design, fit, (shares, unknown), scores, squares)
    n_rows = len(table)
    variances = n_rows / (n_rows - 1) * (squares.ravel() @ scores**2)
    total_weight = float(row_weights.sum())
    kish = float((row_weights**2).sum() / total_weight**2)
    labels = list(design.values)
    if unknown is not None:
        labels.append(design.unknown)
    index = pd.Index(labels, name=design.column, tupleize_cols=False)
    sampled = SampledCounts.of_means(
        estimates, variances, total_weight, kish, n_rows - 1
    )
    result = sampled.table(confidence_level, what="frequency", index=index)
    result["lower"], result["upper"] = _interval(sampled, confidence_level)
    # A few equal reports have no variance between them, but their noise has one.
    noise = fit.noise_variances(unknown, scores, squares)
    result["std_error"] = np.maximum(result["std_error"], np.sqrt(noise))
    result.attrs["rows"] = "population"
    return result


def _warn_of_impossible(
    design: Any,
    fit: _ShareFit,
    solution: tuple[Numbers, float | None],
    scores: Numbers,
    squares: Numbers,
) -> None:
    """Warn if a share, or the unknown number, is outside its range beyond chance."""
    shares, unknown = solution
    nearest, nearest_unknown = possible_shares(shares), None
    names, estimates = list(design.values), shares
    excess = np.maximum(-shares, shares - 1)
    if unknown is not None:
        place = _cheaters_place(design)
        low, high = (0.0, 1.0) if place is not None else _unknown_range(design)
        nearest_unknown = float(np.clip(unknown, low, high))
        names.append(design.unknown)
        estimates = np.append(estimates, unknown)
        excess = np.append(excess, max(low - unknown, unknown - high))
        if place is not None:
            # Cheaters are a part of the people with this value.
            nearest_unknown = min(nearest_unknown, float(nearest[place]))
            names.append(f"honest {design.values[place]}")
            estimates = np.append(estimates, shares[place] - unknown)
            excess = np.append(excess, unknown - shares[place])
            honest = scores[:, place] - scores[:, -1]
            scores = np.column_stack([scores, honest])
    # Errors of the estimates if the nearest possible numbers were true.
    expected = np.clip(fit.expected(nearest, nearest_unknown), 0, 1)
    by_group = scores.reshape(*expected.shape, -1)
    means = np.einsum("gr,gre->ge", expected, by_group)
    moments = np.einsum("gr,gre->ge", expected, by_group**2)
    variances = squares.sum(axis=1) @ np.maximum(moments - means**2, 0)
    warn_of_impossible(design.column, names, estimates, excess, np.sqrt(variances))


def possible_shares(shares: Numbers) -> Numbers:
    """Return the shares with negative ones set to 0, scaled to add up to 1."""
    clipped = np.clip(shares, 0, None)
    return np.asarray(clipped / clipped.sum())


def _unknown_range(design: Any) -> tuple[float, float]:
    """Return the range of an unknown number in which the channel holds probabilities."""
    low, high = -np.inf, np.inf
    for key, slope in design.slopes.items():
        table = design.channels[key][slope != 0]
        factors = slope[slope != 0]
        ends = np.sort(np.stack([-table / factors, (1 - table) / factors]), axis=0)
        low = max(low, float(ends[0].max(initial=-np.inf)))
        high = min(high, float(ends[1].min(initial=np.inf)))
    return low, high


def _cheaters_place(design: Any) -> int | None:
    """Return the place of the value that `with_cheaters` counts cheaters with; None in other designs."""
    # A cheater replaces an honest person with this value: the slope, the same for all
    # values, is from the channel of this value to a report that is always the same.
    if design.unknown != "cheaters":
        return None
    for place in range(len(design.values)):
        always = [
            design.slopes[key][place] + design.channels[key][place]
            for key in design.slopes
        ]
        are_constant = all(
            np.ptp(slope, axis=0).max() == 0 for slope in design.slopes.values()
        )
        if are_constant and np.isclose(np.max(always, axis=1), 1).all():
            return place
    return None


def _interval(sampled: SampledCounts, confidence_level: float) -> tuple[Any, Any]:
    """Return the ends of the interval of each share, which holds the share even beyond 0 and 1."""
    counts, n = sampled.counts, sampled.n
    # The variance is a quadratic of the share that continues beyond 0 and 1, where what
    # sampling adds is negative: the noise is what is left of the variance at the share.
    beyond = np.minimum(counts * (n - counts), 0)
    noise = sampled.noise - sampled.spread * beyond
    lower, upper = replace(sampled, noise=noise).interval(confidence_level)
    # An end may be the share itself, but for rounding.
    return np.minimum(lower, counts) / n, np.maximum(upper, counts) / n


class _ShareFit:
    """The fit of the expected shares of reports, by group, to those observed."""

    # The parameters are the shares of all values but the last, and the unknown number of
    # the design, if it has one, such as the share of cheaters: the channels are those
    # given plus this number times the slopes.

    def __init__(
        self, channels: Numbers, slopes: Numbers | None, weights: Numbers
    ) -> None:
        self.channels = channels
        self.slopes = slopes
        self.weights = weights
        """(n_groups, n_reports)."""
        # (n_groups,)
        self.group_weights = weights.sum(axis=1)
        n_values = channels.shape[1]
        # The last value has what the others leave: (n_values, n_values - 1).
        self.shares_from_free = np.vstack(
            [np.eye(n_values - 1), -np.ones(n_values - 1)]
        )

    def expected(self, shares: Numbers, unknown: float | None) -> Numbers:
        """Return the probability of each report in each group: (n_groups, n_reports)."""
        return np.asarray(self._expected(shares, unknown)[0], float)

    def _expected(self, shares: Numbers, unknown: float | None) -> tuple[Any, Any]:
        """Return the expected shares of reports, and their derivatives by the parameters."""
        table = self.channels
        if unknown is not None and self.slopes is not None:
            table = table + unknown * self.slopes
        expected = np.einsum("gvr,v->gr", table, shares)
        slopes = np.einsum("gvr,vp->grp", table, self.shares_from_free)
        if self.slopes is not None:
            by_unknown = np.einsum("gvr,v->gr", self.slopes, shares)
            slopes = np.concatenate([slopes, by_unknown[:, :, np.newaxis]], axis=2)
        return expected, slopes

    def _inverse_shares(self, expected: Numbers) -> Numbers:
        # Fisher scoring: the inverse of the expected share of each report. It is bounded
        # for reports that hardly occur, whose expected share may be negative on the way.
        least = 1 / max(self.group_weights.sum(), 1.0)
        return 1 / np.maximum(expected, least)

    def solve(self, column: Any, start: float) -> tuple[Numbers, float | None]:
        """Return the shares of the values, and the unknown number."""
        n_values = self.channels.shape[1]
        shares: Any = np.full(n_values, 1 / n_values)
        unknown = None if self.slopes is None else float(start)
        observed = (
            self.weights / np.where(self.group_weights, self.group_weights, 1)[:, None]
        )
        # Two or three are enough for reports that the design explains.
        most_steps = 200
        # Far below all standard errors, and above the rounding of shares.
        smallest_step = 1e-12
        for _ in range(most_steps):
            expected, slopes = self._expected(shares, unknown)
            weighting = (
                self._inverse_shares(expected) * self.group_weights[:, np.newaxis]
            )
            matrix = np.einsum("grp,gr,grq->pq", slopes, weighting, slopes)
            gap = np.einsum("grp,gr->p", slopes, weighting * (observed - expected))
            step = self._solve_identified(matrix, gap)
            shares = shares + self.shares_from_free @ step[: n_values - 1]
            if unknown is not None:
                unknown += float(step[-1])
            if np.abs(step).max() < smallest_step:
                return shares, unknown
        warn_of_no_end(column)
        return shares, unknown

    @staticmethod
    def _solve_identified(matrix: Numbers, right: Numbers) -> Numbers:
        if not np.linalg.cond(matrix) < 1e12:
            raise ValueError(
                "the reports do not identify the shares: different ones give the same "
                "reports"
            )
        return np.asarray(np.linalg.solve(matrix, right), float)

    def noise_variances(
        self, unknown: float | None, scores: Numbers, squares: Numbers
    ) -> Numbers:
        """Return the smallest variance that the randomization alone gives to each estimate.

        `scores` are (n_cells, n_estimates); `squares` the sums of squared weights, (n_groups, n_reports).
        """
        table = self.channels
        if unknown is not None and self.slopes is not None:
            table = np.clip(table + unknown * self.slopes, 0, 1)
        by_group = scores.reshape(*self.weights.shape, -1)
        means = np.einsum("gvr,gre->gve", table, by_group)
        moments = np.einsum("gvr,gre->gve", table, by_group**2)
        # Whatever the true values are, each report varies at least as much.
        smallest = np.maximum(moments - means**2, 0).min(axis=1)
        return np.asarray(squares.sum(axis=1) @ smallest)

    def influences(self, shares: Numbers, unknown: float | None) -> Numbers:
        """Return what a row of weight 1 adds to each estimate, by cell: (n_cells, n_estimates)."""
        expected, slopes = self._expected(shares, unknown)
        weighting = self._inverse_shares(expected)
        matrix = np.einsum(
            "grp,gr,grq->pq",
            slopes,
            weighting * self.group_weights[:, np.newaxis],
            slopes,
        )
        # A row has one report: that less what was expected of its group.
        scores = slopes * weighting[:, :, np.newaxis]
        scores = scores - np.einsum("gr,grp->gp", expected, scores)[:, np.newaxis]
        by_cell = scores.reshape(-1, scores.shape[2]).T
        of_parameters = self._solve_identified(matrix, by_cell).T
        n_free = self.shares_from_free.shape[1]
        of_shares = of_parameters[:, :n_free] @ self.shares_from_free.T
        return np.hstack([of_shares, of_parameters[:, n_free:]])
