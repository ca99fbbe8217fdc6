"""Estimates of the last of several releases, such as months, that use the earlier ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from skdp._arrays import Floats
from skdp.base import K_NORM, NORMAL, check_confidence_level
from skdp.central.groups._comparisons import check_releases
from skdp.central.groups._group_by import COUNT, SUFFIXES, DPGroupBy
from skdp.central.statistics import make_frame

# A number further from its prediction, in standard errors, is a break. Laplace noise is
# beyond it once in 290 months; with 3, resets because of noise increased errors by a third.
MAX_SURPRISE = 4.0

# Variances of changes are increased by this part of their standard errors: without it,
# intervals of 6 cells covered 0.89 to 0.96, and with it 0.93 to 0.97.
ADDED_STD_ERRORS = 0.5

# Larger squares of standardized gaps, which are due to tails of noise, are limited to it.
MAX_SQUARE = 9.0

# Largest relative error of the numbers of rows of the means of a group. The errors of a
# mean are then proportional to the noise, up to a term of 1/16.
MAX_RELATIVE_ERROR = 0.25

# The variance of a number that was not released.
UNKNOWN = 1e200


def filter_months(
    months: Sequence[DPGroupBy], *, confidence_level: float = 0.95
) -> pd.DataFrame:
    """Estimate counts and means of the last of several releases, using the earlier ones.

    Parameters
    ----------
    months : list of DPGroupBy
        Fitted estimators with the same keys and statistics, in the order of time. Epsilon may differ.
    confidence_level : float, default=0.95
        Coverage of each interval.

    Returns
    -------
    pandas.DataFrame
        Estimates of the groups of the last release with their standard errors and intervals, in the columns of
        `DPGroupBy.to_frame`. Other statistics than counts and means are omitted. Numbers are not rounded.

    Raises
    ------
    TypeError, ValueError
        If `months` are not fitted instances of `DPGroupBy` with the same groups, counts and means.

    See Also
    --------
    compare_groups : Change between two releases, from the releases themselves.

    Notes
    -----
    **Privacy.** A function of the releases, without privacy cost.

    Each cell is filtered by a local level model (a Kalman filter, as in [1]_): the number of the last month is
    predicted from the earlier ones, and the prediction and the noisy number are averaged by their variances. The
    variance of a monthly change is estimated from the noisy changes of all cells, as a constant or, for counts, as
    proportional to the square of the count, whichever is larger. Cells that change more than others get the variance
    of their own changes, weighted by an analysis of variance. A number that is more than four standard errors from its
    prediction is a break, and starts a new series.

    Estimated variances of changes are increased by half of their standard errors, so earlier months are used only as
    far as the noisy changes of a column show that they help: two months of few cells are not averaged. Totals of counts
    are those of the last release, as the filter does not know how changes of cells depend on each other. So are means
    that are a bound in any month, because noise beyond the bounds is cut, and means of few rows: those with a relative
    error of the number of rows of more than 1/4 in any month. A real change of a few standard errors is underestimated
    in its first months: test changes by `compare_groups`.

    References
    ----------
    .. [1] L. Fan, L. Xiong (2012). Adaptively sharing real-time aggregates with differential privacy. arXiv:1202.3461.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPGroupBy
    >>> from skdp.central import filter_months
    >>> sales = pd.DataFrame({"shop": ["a"] * 500 + ["b"] * 80})
    >>> months = []
    >>> for month in range(12):
    ...     model = DPGroupBy(0.05, by="shop", keys={"shop": ["a", "b"]}, statistics="count", random_state=month)
    ...     months.append(model.fit(sales))
    >>> months[-1].to_frame().round(1)
          count  count_std_error  count_lower  count_upper
    shop
    a       448             28.3          388          508
    b       103             28.3           43          163
    >>> filter_months(months).round(1)
          count  count_std_error  count_lower  count_upper
    shop
    a     462.9             23.5        413.1        512.7
    b     103.8             20.5         60.4        147.2
    """
    level = check_confidence_level(confidence_level)
    if isinstance(months, DPGroupBy):
        months = [months]
    check_releases("`months`", months)
    if len(months) < 2 or len(set(map(id, months))) < len(months):
        raise ValueError(
            "`months` must have two or more releases, none of them twice, got "
            f"{len(months)}."
        )
    last = months[-1]
    # A number after a break has the noise of its own month.
    is_gaussian = "Gaussian" in last.guarantee_.mechanism
    distribution = NORMAL if is_gaussian else K_NORM
    columns: dict[str, Floats] = {}
    for name in last.estimates_:
        if name != COUNT and not name.endswith("_mean"):
            continue
        parts = np.array([month.estimates_[name] for month in months])
        values, errors, lower, upper = parts.transpose(2, 0, 1)
        widening = np.ones((2, len(parts[-1])))
        is_unknown = np.isnan(values)
        if name == COUNT:
            # Changes of cells may be dependent, so that the errors of their sums are unknown.
            is_unknown[:-1] |= last._is_total
        else:
            # Noise beyond a bound was cut, so the mean of several months would be biased.
            column = [f"{measured}_mean" for measured in last._measured].index(name)
            bounds = last.bounds_[column]
            is_unknown[:-1] |= np.isin(values, bounds).any(axis=0)
            # A mean has the error of a number of rows, times the norm of (1, position).
            half = np.ptp(bounds) / 2
            position = (values - bounds.mean()) / half
            relative = errors / (half * np.hypot(1, position))
            is_unknown[:-1] |= (relative > MAX_RELATIVE_ERROR).any(axis=0)
        # Counts of a large epsilon have no noise.
        noises = np.where(is_unknown, UNKNOWN, np.maximum(errors**2, 1e-12))
        if name != COUNT:
            # The error of a mean of few rows has a longer tail than a normal one, on one side.
            usual = distribution.quantile(last.confidence_level) * np.sqrt(noises[-1])
            widening = np.fmax(np.abs([lower[-1], upper[-1]] - values[-1]) / usual, 1.0)
        values = np.where(is_unknown, 0.0, values)
        value, variance = _filter(values, noises, are_counts=name == COUNT)
        variance[variance > 1e100] = np.nan
        error = np.sqrt(variance)
        down, up = distribution.quantile(level) * error * widening
        estimate = value + 0 * error, error, value - down, value + up
        columns |= {name + x: part for x, part in zip(SUFFIXES, estimate, strict=True)}
    return make_frame(last._domain, columns, "pandas", last._codes)


def _filter(
    values: Floats, noises: Floats, *, are_counts: bool
) -> tuple[Floats, Floats]:
    """Return estimates of the numbers of the last month with their variances, (n_groups,).

    `values` and the variances of their noise have the shape (n_months, n_groups).
    """
    # A number varies around its level, and the level changes. For counts, these variances
    # are proportional to the level and to its square. For means of n values, they are
    # proportional to 1 / n, as the error of the noise, and constant.
    precision = 1 / noises
    white_scale = 1 / np.sqrt(precision.mean(axis=0))
    drift_scale = np.ones(white_scale.shape)
    if are_counts:
        means = (values * precision).sum(axis=0) / precision.sum(axis=0)
        white_scale = np.maximum(means, 1.0)
        drift_scale = white_scale**2
    white, drift = _fit_variances(values, noises, white_scale, drift_scale)
    steps = _run_filter(values, noises, white, drift)
    drift = drift + _fit_excess(steps, noises)
    steps = _run_filter(values, noises, white, drift)
    gain = steps.gain[-1]
    return values[-1] - (1 - gain) * steps.gap[-1], gain * noises[-1]


class _Steps(NamedTuple):
    """Steps of the filter from the second month on; shape (n_months - 1, n_groups)."""

    # Noisy numbers minus their predictions, and the variances of these gaps.
    gap: Floats
    total: Floats
    # The estimate is the noisy number minus ``1 - gain`` times the gap; 1 after a break.
    gain: Floats


def _run_filter(values: Floats, noises: Floats, white: Floats, drift: Floats) -> _Steps:
    """Predict and estimate the numbers of each month.

    `noises`, `white` and `drift` are variances: of the noise of each value, of numbers around their level, and of the
    changes of the level from month to month.
    """
    level, variance = np.array([values[0], noises[0] + white])
    steps = []
    for value, noise in zip(values[1:], noises[1:], strict=True):
        prior, gap = variance + drift, value - level
        total = prior + white + noise
        is_break = gap**2 > MAX_SURPRISE**2 * total
        # The gains of the level, and of the number of the month.
        gain, gain_of_number = np.where(
            is_break, 1.0, [prior / total, (prior + white) / total]
        )
        level = level + gain * gap
        variance = gain * (noise + white)
        steps.append((gap, total, gain_of_number))
    return _Steps(*np.array(steps).swapaxes(0, 1))


def _fit_excess(steps: _Steps, noises: Floats) -> Floats:
    """Return the variance of the changes of each cell beyond the variance of all cells; (n_groups,)."""
    is_used = (noises[1:] < UNKNOWN) & (steps.total < UNKNOWN) & (steps.gain < 1)
    n_used = np.maximum(is_used.sum(axis=0), 1)
    precision = np.where(is_used, 1 / steps.total, 0)
    squares = np.minimum(steps.gap**2 * precision, MAX_SQUARE)
    means = squares.sum(axis=0) / n_used
    center = squares.sum() / max(is_used.sum(), 1)
    within = np.where(is_used, (squares - means) ** 2, 0).sum()
    within /= max((n_used - 1).sum(), 1)
    # Analysis of variance: part of the variance between cells that chance does not explain.
    cells = is_used.any(axis=0)
    n_cells = max(cells.sum() - 1, 1)
    chance = within / n_used
    between = (((means - center) ** 2 - chance) * cells).sum() / n_cells
    between = max(float(between), 0.0)
    weight = between / np.maximum(between + chance, 1e-12)
    factor = np.maximum(center - 1 + weight * (means - center), 0)
    # An added variance increases the squares by itself times the precisions.
    return factor / np.maximum(precision.sum(axis=0) / n_used, 1 / UNKNOWN)


def _fit_variances(
    values: Floats, noises: Floats, white_scale: Floats, drift_scale: Floats
) -> tuple[Floats, Floats]:
    """Return the variances of numbers around their level, and of changes of the level; (n_groups,) each."""
    # Successive changes have the covariance -(noise + white) of the month between them, and
    # a change has the variance noise + white of both months, plus drift.
    changes = np.diff(values, axis=0)
    products = -changes[1:] * changes[:-1] - noises[1:-1]
    white = drift = np.zeros(white_scale.shape)
    for _ in range(3):  # weights depend on both variances
        deviations = np.sqrt(noises[1:] + noises[:-1] + 2 * white + drift)
        errors = math.sqrt(1.25) * deviations[1:] * deviations[:-1]
        white = white_scale * _fit_coefficient(white_scale, products, errors)
        squares = changes**2 - noises[1:] - noises[:-1] - 2 * white
        errors = math.sqrt(2) * deviations**2
        # Changes may also be equally large in all cells.
        parts = [
            scale * _fit_coefficient(scale, squares, errors)
            for scale in (drift_scale, np.ones_like(drift_scale))
        ]
        drift = np.maximum(*parts)
    return white, drift


def _fit_coefficient(terms: Floats, observed: Floats, errors: Floats) -> float:
    """Fit a coefficient of at least 0 by weighted least squares, and increase it by a part of its standard error."""
    weighted = terms / errors
    information = max(float((weighted**2).sum()), 1e-300)
    fitted = float((weighted * observed / errors).sum()) / information
    return max(fitted, 0.0) + ADDED_STD_ERRORS / math.sqrt(information)
