"""Intervals for rates of groups that are known from reports only: of Fieller and Wilson at once, and by resampling."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from skdp.metrics._debiased_rates import OVER, UNDER, IndicatorSums, gradients, measures
from skdp.metrics._fairness_intervals import Estimate, Numbers, combine, ratio, two_sided

# Of a column of more undefined resamples than this, the quantiles are not those of the metric.
MOST_UNDEFINED = 0.05


def bound(sums: IndicatorSums, rows: str, level: float) -> Estimate:
    """Estimate the metrics, with score intervals.

    A rate is t = a / b, sums over rows of what has mean 1 for a row of the group and 0 for another. It is in the
    interval if ``a − t b``, of mean 0, is at most z standard errors from 0. Its variance over the coins is
    ``(1 − t)² c₁ + t² c₀``, with the variances c₁ and c₀ of the numbers of rows of the group that are predicted
    positive and negative; rows that are a sample themselves add ``b t (1 − t)``, as Bernoulli draws do. So it is
    Fieller's interval (1954) for fixed rows, Wilson's (1927) for samples without noise, and in general the one between
    the roots of one quadratic equation.

    The ends of differences and the ratio follow from those of the rates, by Zou (2008) and Donner and Zou (2012): the
    variance of a rate is recovered from its interval, at the end that counts. There the covariance of the rates of the
    two groups is taken too. As what a report adds to one group it takes from the other, that is
    ``−((1 − t)(1 − t') c₁ + t t' c₀) / (b b')``.

    Parameters
    ----------
    sums : IndicatorSums
        The sums of the table.
    rows : {"fixed", "sampled"}
        Whether only the coins are random, or the rows too.
    level : float
        Coverage of each interval.

    Returns
    -------
    Estimate
        Of each of `measures`; without meaning where `find_defined` says no.
    """
    values = measures(sums.counts)
    errors = np.sqrt(sums.variances(gradients(sums.counts), rows))
    # By rate (selection, true and false positive) and group (unprivileged, privileged).
    over, under = (np.einsum("gyp,ryp->rg", sums.counts, which) for which in (OVER, UNDER))
    coins = two_sided(level) ** 2 * sums.coin_variances.reshape(2, 2)
    positive = np.einsum("yp,ryp->r", coins, OVER)
    negative = np.einsum("yp,ryp->r", coins, UNDER) - positive
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = two_sided(level) ** 2 * under if rows == "sampled" else np.zeros_like(under)
        ends = _solve(over, under, positive[:, np.newaxis], negative[:, np.newaxis], drawn)
        rates = Estimate(values[:6].reshape(3, 2), errors[:6].reshape(3, 2), *ends)
        other, own = rates[:, 0], rates[:, 1]
        common = [
            -((1 - t) * (1 - u) * positive + t * u * negative) / under.prod(axis=1)
            for t, u in ((other.lower, own.upper), (other.upper, own.lower))
        ]
        differences = _subtract(other, own, common)
        odds = combine((0.5, differences[1]), (0.5, differences[2]))
        impact = ratio(other[0], own[0], common=(common[0][0], common[1][0]))
    compared = (differences[0], impact, differences[1], odds)
    lower, upper = (
        np.concatenate([getattr(rates, end).ravel(), [getattr(one, end) for one in compared]])
        for end in ("lower", "upper")
    )
    return Estimate(values, errors, lower, upper)


def _solve(over: Numbers, under: Numbers, positive: Numbers, negative: Numbers, drawn: Numbers) -> list[Numbers]:
    """Return the roots t of ``(over − t under)² = (1 − t)² positive + t² negative + t (1 − t) drawn``."""
    square = under**2 - positive - negative + drawn
    middle, rest = over * under - positive + drawn / 2, over**2 - positive
    root = np.sqrt(np.maximum(middle**2 - square * rest, 0))
    return [(middle - root) / square, (middle + root) / square]


def _subtract(left: Estimate, right: Estimate, common: list[Numbers]) -> Estimate:
    """Subtract estimates whose covariances are given for the lower and the upper end."""
    value = left.value - right.value
    down = (left.value - left.lower) ** 2 + (right.upper - right.value) ** 2 - 2 * common[0]
    up = (left.upper - left.value) ** 2 + (right.value - right.lower) ** 2 - 2 * common[1]
    none = np.full_like(value, np.nan)
    return Estimate(value, none, value - np.sqrt(np.maximum(down, 0)), value + np.sqrt(np.maximum(up, 0)))


def resample(
    sums: IndicatorSums, rows: str, level: float, n_resamples: int, generator: np.random.Generator
) -> Estimate:
    """Estimate the metrics, with percentiles of resamples.

    Parameters
    ----------
    sums : IndicatorSums
        The sums of the table.
    rows : {"fixed", "sampled"}
        As for `IndicatorSums.resample`.
    level : float
        Coverage of each interval.
    n_resamples : int
        How often.
    generator : numpy.random.Generator
        Where the draws come from.

    Returns
    -------
    Estimate
        Of each of `measures`. The standard error is half the distance of the quantiles that are one standard error off
        for a normal law, as ratios have no useful variance. Undefined resamples are left out; if there are more than
        `MOST_UNDEFINED`, error and ends are nan.
    """
    values = measures(sums.counts)
    resampled = measures(sums.resample(rows, n_resamples, generator))
    usable = np.isnan(resampled).mean(axis=0) <= MOST_UNDEFINED
    one = NormalDist().cdf(1)
    found = np.full((4, values.size), np.nan)
    levels = [1 - one, one, (1 - level) / 2, (1 + level) / 2]
    found[:, usable] = np.nanquantile(resampled[:, usable], levels, axis=0)
    return Estimate(values, (found[1] - found[0]) / 2, found[2], found[3])
