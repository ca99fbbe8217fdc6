"""Comparisons of the rates of groups: with the privileged group, and of the largest rate with the smallest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.stats import studentized_range

from skdp.metrics.fairness._intervals import Estimate, divide, subtract
from skdp.metrics.fairness._rates import RateSums

RATES_OF_EXTREMES = ([0], [1], [2], [1, 2])
"""Selection rate, TPR, FPR, and the worse of TPR and FPR: places in `RateSums`."""


def subtract_pairs(
    sums: RateSums, rows: str, level: float
) -> tuple[Estimate, Estimate]:
    """Return the differences of two groups' rates, with two intervals: (n_rates, n_groups, n_groups)."""
    # The first is that of MOVER, which noise may take beyond the possible differences, the second follows from the
    # intervals of the two rates. The difference is in both; where a group may have no rows, both are the second.
    noisy, has_rows = sums.estimate_noisy(rows, level)
    rates = noisy.within(*sums.possible())
    correlation = sums.correlations(rows, rates.value)
    # Distances from ends that are cut at 0 and 1 are too short to be added up.
    difference = subtract(noisy[:, :, np.newaxis], noisy[:, np.newaxis, :], correlation)
    first, second = rates[:, :, np.newaxis], rates[:, np.newaxis, :]
    widest = replace(
        difference, lower=first.lower - second.upper, upper=first.upper - second.lower
    )
    both_have_rows = has_rows[:, :, np.newaxis] & has_rows[:, np.newaxis, :]
    return difference.or_else(widest, both_have_rows), widest


def divide_pairs(sums: RateSums, rows: str, level: float) -> Estimate:
    """Return the ratios of two groups' rates, with the intervals of MOVER-R, or those that follow from the rates'."""
    noisy, has_rows = sums.estimate_noisy(rows, level)
    rates = noisy.within(*sums.possible())
    first, second = rates[:, :, np.newaxis], rates[:, np.newaxis, :]
    ratio = divide(first, second, sums.correlations(rows, rates.value))
    with np.errstate(divide="ignore", invalid="ignore"):
        widest = replace(
            ratio, lower=first.lower / second.upper, upper=first.upper / second.lower
        )
    both_have_rows = has_rows[:, :, np.newaxis] & has_rows[:, np.newaxis, :]
    return ratio.or_else(widest, both_have_rows).within(0, np.inf)


def compare_with_last(sums: RateSums, rows: str, level: float) -> list[Estimate]:
    """Compare groups with the last one: selection rates (difference, ratio), TPR, and average odds."""
    noisy, widest = (pairs[:, :-1, -1] for pairs in subtract_pairs(sums, rows, level))
    difference = noisy.within(widest.lower, widest.upper)
    # If noise makes both rates 0, they are alike. Of known groups, the ratio is undefined then.
    rates = sums.estimate(rows, level)
    both_zero = (rates.value[0, :-1] == 0) & (rates.value[0, -1] == 0)
    is_counted = sums.counted[0, :-1] | sums.counted[0, -1]
    impact = divide_pairs(sums, rows, level)[0, :-1, -1]
    impact = replace(impact, value=np.where(both_zero, 1.0, impact.value)).where(
        is_counted
    )
    # The mean of two independent differences, as no row is truly positive and negative. Where a group may have no rows,
    # its ends are no distances of an estimate that add up as standard errors do: the ends themselves are added.
    odds = subtract(noisy[1], -noisy[2]).scaled(0.5)
    sum_of_ends = replace(
        odds,
        lower=widest.lower[1] + widest.lower[2],
        upper=widest.upper[1] + widest.upper[2],
    )
    widest_odds = replace(
        sum_of_ends, lower=sum_of_ends.lower / 2, upper=sum_of_ends.upper / 2
    )
    _, has_rows = sums.estimate_noisy(rows, level)
    all_have_rows = np.all(
        has_rows[1:3, :-1] & has_rows[1:3, -1:], axis=0, keepdims=False
    )
    odds = odds.or_else(widest_odds, all_have_rows).within(
        widest_odds.lower, widest_odds.upper
    )
    return [difference[0], impact, difference[1], odds]


def compare_extremes(sums: RateSums, rows: str, level: float) -> list[Estimate]:
    """Return the largest rate minus the smallest, and the smallest over the largest, of each of several rates."""
    pairs = PairsOfGroups(sums, rows)
    rates = sums.estimate(rows, level)
    extremes = []
    for places in RATES_OF_EXTREMES:
        smallest = rates.value[places].min(axis=1)
        largest = rates.value[places].max(axis=1)
        difference = np.max(largest - smallest)
        extremes.append(
            _largest_of_pairs(difference, pairs.differences, places, level).within(0, 1)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.min(smallest / largest)
        # The smallest ratio is that whose negative is the largest.
        extremes.append(
            -_largest_of_pairs(-ratio, pairs.negative_ratios, places, level).within(
                -1, 0
            )
        )
    return extremes


class PairsOfGroups:
    """The comparisons of all pairs of groups: arrays of shape (n_rates, n_groups (n_groups − 1)), by their level."""

    def __init__(self, sums: RateSums, rows: str) -> None:
        self.sums = sums
        self.rows = rows
        self._by_level: dict[float, tuple[Estimate, Estimate]] = {}

    def differences(self, level: float) -> Estimate:
        return self._at(level)[0]

    def negative_ratios(self, level: float) -> Estimate:
        return -self._at(level)[1]

    def _at(self, level: float) -> tuple[Estimate, Estimate]:
        if level not in self._by_level:
            noisy, widest = subtract_pairs(self.sums, self.rows, level)
            difference = noisy.within(widest.lower, widest.upper)
            ratio = divide_pairs(self.sums, self.rows, level)
            first, second = np.nonzero(~np.eye(self.sums.top.shape[1], dtype=bool))
            self._by_level[level] = (
                difference[:, first, second],
                ratio[:, first, second],
            )
        return self._by_level[level]


def _largest_of_pairs(
    value: Any, compare: Callable[[float], Estimate], places: list[int], level: float
) -> Estimate:
    """Return the interval of the largest of the parameters that pairs of groups have."""
    # Its upper end needs no more than the interval of one pair: of the pair that has the largest parameter. The lower
    # end must hold for all pairs that may have it, as the largest of their estimates is too large.
    value, unknown = np.asarray(value), np.asarray(np.nan)
    usual = compare(level)[places]
    if np.isnan(value) or usual.value.size == 0:
        return Estimate(value, unknown, np.asarray(-np.inf), np.asarray(np.inf))
    n_rates, n_pairs = usual.value.shape
    n_likely = int(np.sum(usual.upper >= usual.lower.max()))
    lower_level = level_of_lower_end(n_likely, n_pairs, n_rates, level)
    lower = compare(lower_level).lower[places].max()
    return Estimate(value, unknown, np.asarray(lower), np.asarray(usual.upper.max()))


@cache
def level_of_lower_end(
    n_likely: int, n_pairs: int, n_rates: int, level: float
) -> float:
    """Return the level of the intervals of pairs whose largest lower end is that of the largest parameter."""
    # Of all pairs, n_pairs of each rate, n_likely may be the largest one. Two bounds of the quantile with which no
    # lower end of these pairs is too large: Bonferroni's, and, of all pairs, Tukey's studentized range (Kramer 1956),
    # whose level is Šidák's for several rates.
    bonferroni = -NormalDist().inv_cdf((1 - level) / 2 / n_likely)
    n_groups = (1 + math.isqrt(1 + 4 * n_pairs)) // 2
    tukey = studentized_range.ppf(level ** (1 / n_rates), n_groups, np.inf) / math.sqrt(
        2
    )
    return 1 - 2 * NormalDist().cdf(-min(bonferroni, tukey))
