"""Comparisons of the rates of groups, with MOVER intervals.

MOVER makes the interval of a difference of two rates from theirs: the distances of the estimates from the ends add up
as standard errors do, as squares. If the rates err together, as noise moves rows from one group to the other, their
correlation enters as in the variance of a difference. MOVER-R does the same for a ratio. Both hold from 50 rows a group
on; the average odds of groups that are reports may be covered in 88 % only (``docs/guide/fairness.md``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skdp.metrics.fairness._intervals import Estimate, divide, subtract
from skdp.metrics.fairness._rates import Places, RateSums

# The rates whose extremes are compared, as places in `RateSums`: selection rate, TPR,
# FPR, and the worse of TPR and FPR.
RATES_OF_EXTREMES = ([0], [1], [2], [1, 2])


class PairsOfGroups:
    """The differences and ratios of the rates of pairs of groups, at one level."""

    def __init__(self, sums: RateSums, rows: str, level: float) -> None:
        self.noisy, self.has_rows = sums.estimate_noisy(rows, level)
        self.rates = self.noisy.within(*sums.possible())
        self.correlations = sums.correlations(rows, self.rates.value)

    def differences(self, first: Places, second: Places) -> Estimate:
        """Return the differences of pairs, with MOVER intervals: (n_rates, n_pairs)."""
        # The difference is also between those of the ends of the two rates. This cuts
        # what noise adds beyond 0 and 1, and is all that is known of a group that may
        # have no rows.
        rate, other_rate = self.rates[:, first], self.rates[:, second]
        lower = rate.lower - other_rate.upper
        upper = rate.upper - other_rate.lower
        return self._subtract(first, second).within(lower, upper)

    def _subtract(self, first: Places, second: Places) -> Estimate:
        # Of intervals that noise may take below 0 and above 1: distances from ends that
        # are cut at 0 and 1 are too short to be added up.
        correlation = self.correlations[:, first, second]
        return subtract(self.noisy[:, first], self.noisy[:, second], correlation)

    def ratios(self, first: Places, second: Places) -> Estimate:
        """Return the ratios of pairs, with MOVER-R intervals: (n_rates, n_pairs)."""
        rate, other_rate = self.rates[:, first], self.rates[:, second]
        ratio = divide(rate, other_rate, self.correlations[:, first, second])
        # MOVER-R takes rates that are cut at 0 and 1. Where a group may have no rows, it
        # covers in as little as 70 % of tables: there the ratio is between those of the
        # ends.
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = rate.lower / other_rate.upper
            upper = rate.upper / other_rate.lower
        has_rows = self.has_rows[:, first] & self.has_rows[:, second]
        lower = np.where(has_rows, ratio.lower, lower)
        upper = np.where(has_rows, ratio.upper, upper)
        return replace(ratio, lower=lower, upper=upper).within(0, np.inf)

    def average_odds(self, first: Places, second: Places) -> Estimate:
        """Return the means of the differences of TPR and of FPR: (n_pairs,)."""
        # The two are independent, as no row is truly positive and negative.
        difference = self._subtract(first, second)
        odds = subtract(difference[1], -difference[2]).scaled(0.5)
        possible = self.differences(first, second)
        lower = (possible.lower[1] + possible.lower[2]) / 2
        upper = (possible.upper[1] + possible.upper[2]) / 2
        return odds.within(lower, upper)


def compare_with_last(sums: RateSums, rows: str, level: float) -> list[Estimate]:
    """Compare groups with the last one: parity, impact, TPR and average odds."""
    pairs = PairsOfGroups(sums, rows, level)
    first = np.arange(sums.n_groups - 1)
    last = np.full_like(first, sums.n_groups - 1)
    difference = pairs.differences(first, last)
    impact = pairs.ratios(first, last)[0]
    # Rates that only noise makes 0, as some rows are counted, are alike.
    selection = pairs.rates.value[0]
    are_zero = (selection[:-1] == 0) & (selection[-1] == 0)
    by_noise = are_zero & (sums.numerator[0, -1] != 0)
    impact = replace(impact, value=np.where(by_noise, 1.0, impact.value))
    odds = pairs.average_odds(first, last)
    # Of a group that is estimated to have no row, only the interval is known.
    known = sums.has_estimated_rows[:, first] & sums.has_estimated_rows[:, last]
    return [
        difference[0].where(known[0]),
        impact.where(known[0]),
        difference[1].where(known[1]),
        odds.where(known[1] & known[2]),
    ]


def compare_extremes(sums: RateSums, rows: str, level: float) -> list[Estimate]:
    """Return largest − smallest and smallest / largest, for each of several rates."""
    first, second = np.nonzero(~np.eye(sums.n_groups, dtype=bool))
    pairs = PairsOfGroups(sums, rows, level)
    differences = pairs.differences(first, second)
    # The smallest ratio is that whose negative is the largest.
    negative_ratios = -pairs.ratios(first, second)
    estimates = []
    for places in RATES_OF_EXTREMES:
        rates = pairs.rates.value[places]
        largest, smallest = rates.max(axis=1), rates.min(axis=1)
        lower_level = _level_of_lower_end(differences[places], level)
        lower_pairs = PairsOfGroups(sums, rows, lower_level)
        difference = _largest_of_pairs(
            np.max(largest - smallest),
            differences[places],
            lower_pairs.differences(first, second)[places],
        )
        lower_level = _level_of_lower_end(negative_ratios[places], level)
        lower_pairs = PairsOfGroups(sums, rows, lower_level)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.min(smallest / largest)
        negative_ratio = _largest_of_pairs(
            -ratio,
            negative_ratios[places],
            -lower_pairs.ratios(first, second)[places],
        )
        estimates += [difference.within(0, 1), -negative_ratio.within(-1, 0)]
    return estimates


def _largest_of_pairs(
    value: np.float64, usual: Estimate, of_lower_level: Estimate
) -> Estimate:
    """Return the interval of the largest of the parameters that pairs of groups have."""
    # Its upper end needs no more than the interval of one pair: of the pair that has
    # the largest parameter. The lower end must hold for all pairs that may have it, as
    # the largest of their estimates is too large.
    lower, upper = -np.inf, np.inf
    if usual.value.size > 0 and not np.isnan(value):
        lower = of_lower_level.lower.max()
        upper = usual.upper.max()
    unknown = np.asarray(np.nan)
    return Estimate(np.asarray(value), unknown, np.asarray(lower), np.asarray(upper))


def _level_of_lower_end(pairs: Estimate, level: float) -> float:
    """Return a level at which the lower ends of all pairs that may be the largest hold."""
    # By Bonferroni. A pair whose interval ends below the lower end of another one is
    # not the largest.
    n_likely = np.sum(pairs.upper >= pairs.lower.max(initial=-np.inf))
    return float(1 - (1 - level) / max(n_likely, 1))
