"""Survival curves and restricted means from noisy counts of times and events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import gammaincinv
from sklearn.isotonic import isotonic_regression

from skdp._arrays import ColumnName, Floats, Indices, TableLike
from skdp.base import Estimate, check_column_name, check_confidence_level
from skdp.metrics._count_noise import find_noise, find_quantile, find_slack_factor
from skdp.metrics._fairness import read_counts
from skdp.metrics._labels import list_column_names, parse_column
from skdp.metrics._reported_groups import REPORTED
from skdp.metrics._scores import read_bins, sum_bins_by_group

# Largest number of bins. The time is proportional to the square: a second.
MAX_TIMES = 1_000


def survival_from_counts(
    counts: TableLike,
    time: ColumnName,
    event: ColumnName,
    *,
    group: ColumnName | list[ColumnName] | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate survival curves and restricted means from noisy counts of censored times.

    Parameters
    ----------
    counts : dataframe
        Counts of rows by time, event and group: ``DPHistogram(...).fit(table).to_frame()``, counts of `DPGroupBy`
        without totals, or the result of `joint_distribution` for reports of the group. Counts are added up over all
        other columns.
    time : column name
        Column with the time until the event, or until the row was last observed: bins of an `Interval`, or declared
        numbers, such as completed months. The last bin is "later": no estimate is made at its end.
    event : column name
        Column with True or 1 if the event occurred at this time, and False or 0 if the time is censored.
    group : column name or list of column names, default=None
        Columns whose combinations have a curve each. None for one curve of all rows.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        One row per group, metric and time, with the columns ``metric, group, time, value, std_error, lower, upper``.
        The group of all rows is "all". Times are the edges of the bins. The metrics are:

        - ``survival``, the proportion of the population without an event before this time;
        - ``at_risk``, the number of rows of the table with at least this time;
        - ``restricted_mean``, the mean time until the event or this time, whichever is first.

        ``value`` and ``std_error`` are nan from the first time at which too few rows are at risk. The
        interval of ``survival`` is then from 0 to the last upper endpoint, because a curve never rises.

    Raises
    ------
    TypeError, ValueError
        If a column is missing, times are not numbers or bins of at least 0, are more than 1,000 or a single one,
        events are not 0 and 1, or counts are sums of weights, whose sampling error is unknown.

    See Also
    --------
    skdp.DPHistogram : Release of the counts.
    skdp.evaluation.SurvivalDisplay : Plot of the curves.
    scores_from_counts : ROC curve and AUC from counts.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them. Declare the bins from public knowledge, such as the length of the study.

    Of ``n`` rows at risk at the start of a bin, ``d`` have the event and ``c`` are censored within the bin. The curve
    is the product of ``1 - d / (n - c / 2)``, the actuarial estimate of the Kaplan-Meier curve, made non-increasing.

    **Intervals** of the curve and of the restricted mean are for the population: they contain the sampling error of the
    rows, as intervals of studies without privacy, and the noise of the counts. Intervals of ``at_risk`` are for the
    table, and contain the noise only. Each interval holds for its time, not for all times together.

    - Sampling: the weighted sum of Poisson counts has a gamma interval ([1]_), which holds for few events or none.
    - Noise: linearized in all counts, with the quantile of a sum of Laplace variables (Cornish-Fisher). It is added to
      the sampling error in quadrature, separately below and above the estimate ([2]_).
    - Censored times may be anywhere in their bins, such as at regular visits at the edges: the number at risk is from
      ``n - c`` to ``n``, and the interval covers each possible curve ([3]_). It is not part of ``std_error``. Narrower
      bins decrease it, and increase the noise.
    - The restricted mean assumes that the curve is smooth within bins, up to the difference of slopes in the
      Euler-Maclaurin formula.

    A time has too few rows at risk if their noisy number is smaller than 4, or than 4 standard deviations of its noise.
    Errors of different groups are independent for counts of a curator.

    References
    ----------
    .. [1] M. P. Fay, E. J. Feuer (1997). Confidence intervals for directly standardized rates: a method based on the
       gamma distribution. Statistics in Medicine 16.
    .. [2] G. Y. Zou, A. Donner (2008). Construction of confidence limits about effect measures: a general approach.
       Statistics in Medicine 27.
    .. [3] G. W. Imbens, C. F. Manski (2004). Confidence intervals for partially identified parameters. Econometrica 72.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.metrics import survival_from_counts
    >>> rng = np.random.default_rng(0)
    >>> death, seen = 40 * rng.weibull(1.2, 2_000), rng.uniform(0, 90, 2_000)
    >>> patients = pd.DataFrame({"months": np.minimum(death, seen), "died": death <= seen})
    >>> domain = {"months": Interval([*range(0, 61, 3), 1_200], real=True), "died": [False, True]}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(patients).to_frame()
    >>> table = survival_from_counts(counts, "months", "died")
    >>> table[table["time"].isin([12, 60])].drop(columns="group").round(3)
                 metric  time     value  std_error     lower     upper
    3          survival  12.0     0.791      0.010     0.771     0.811
    19         survival  60.0     0.209      0.013     0.176     0.243
    24          at_risk  12.0  1359.000      7.912  1343.000  1375.000
    40          at_risk  60.0   117.000      1.919   113.000   121.000
    44  restricted_mean  12.0    10.798      0.065    10.647    10.938
    60  restricted_mean  60.0    32.447      0.518    31.144    33.700
    """
    level = check_confidence_level(confidence_level)
    check_column_name("time", time)
    check_column_name("event", event)
    names = list_column_names("group", [] if group is None else group)
    if {time, event} & {*getattr(counts, "attrs", {}).get(REPORTED, ())}:
        raise ValueError(
            "`counts` must have true times and events, got reports, whose counts have "
            "dependent errors. Release the counts with DPHistogram."
        )
    table = read_counts(counts, [time, event, *names], allows_reports=True)
    starts, bin_of_row = _read_times(table[time])
    events = parse_column(table[event], "event")
    if not events.isin([0, 1]).all():
        raise ValueError(
            "`event` must be the name of a column of 0 and 1, or False and True, got "
            "other values. Rename them, such as counts.rename(index={'alive': False, "
            f"'dead': True}}, level={event!r})."
        )
    groups, numbers = [], []
    codes = events.to_numpy(int)
    for name, counted, noise in sum_bins_by_group(table, names, bin_of_row, codes):
        groups.append(name)
        numbers.append(_estimate_group(starts, counted, noise, level))
    metrics = ["survival", "at_risk", "restricted_mean"]
    lengths = [len(starts) - 1, len(starts), len(starts) - 1]
    keys = {
        "metric": np.tile(np.repeat(metrics, lengths), len(groups)),
        # The dtype object keeps tuples of values.
        "group": pd.Series(
            [name for name in groups for _ in range(sum(lengths))], dtype=object
        ),
        "time": np.tile([*starts[1:], *starts, *starts[1:]], len(groups)),
    }
    return pd.DataFrame(keys).join(
        pd.DataFrame(np.concatenate(numbers), columns=[*Estimate._fields])
    )


def _read_times(column: pd.Series) -> tuple[Floats, Indices]:
    """Return the start of each bin, in ascending order, and the index of the bin of each row."""
    starts, bin_of_row = np.unique(read_bins(column, "time")[:, 0], return_inverse=True)
    if not 2 <= len(starts) <= MAX_TIMES or starts[0] < 0:
        raise ValueError(
            f"`time` must have from 2 to {MAX_TIMES:,} bins or numbers of at least 0, got "
            f"{len(starts):,}. Declare the bins with an Interval, such as "
            "Interval([0, 12, 24, 36, 1_200])."
        )
    return starts, bin_of_row.ravel()


@dataclass(frozen=True)
class _Hazards:
    """Increments of the cumulative hazard in the bins with enough rows at risk, as functions of noisy counts."""

    # Increments if censored times are at the end, in the middle and at the start of each
    # bin; shape (3, n_supported).
    increments: Floats
    # Variances of the increments by sampling, and the smallest and largest weight of an
    # event in them; shape (n_supported,).
    variances: Floats
    event_weights: tuple[Floats, Floats]
    # Derivatives of the increments by all counts, and the variances of the noise of the
    # counts; shapes (n_supported, n_counts) and (n_counts,).
    slopes: Floats
    noise: Floats

    def find_margins(
        self, weights: Floats, slack: Floats, level: float
    ) -> tuple[Floats, Floats]:
        """Return standard errors of weighted sums of increments, and the distances of endpoints below and above.

        `weights` has the shape (n_sums, n_supported). `slack` are distances of the smallest and largest possible
        sums, (2, n_sums).
        """
        value = np.maximum(weights @ self.increments[1], 0)
        low, high = self.event_weights
        smallest = np.where(weights > 0, weights * low, np.inf).min(axis=1)
        largest = (weights * high).max(axis=1)
        # A sum of counts times squared weights is between these bounds.
        sampling = weights**2 @ self.variances
        sampling = np.clip(sampling, value * smallest, value * largest)
        margins = _find_gamma_margins(value, sampling, largest, level)
        noise, cumulant = find_noise(weights @ self.slopes, self.noise)
        noise_margin = find_quantile(noise, cumulant, level) * np.sqrt(noise)
        error = np.sqrt(sampling + noise)
        slack = np.maximum(slack, 0)
        factor = find_slack_factor(slack.sum(axis=0), error, level)
        return error, slack + factor * np.hypot(margins, noise_margin)


def _find_hazards(counts: Floats, variances: Floats) -> _Hazards:
    """Compute the hazards of noisy counts of censored rows and events, and of the variances; shape (n_bins, 2)."""
    censored, events = counts[:-1].T
    remaining = _sum_later(counts.sum(axis=1))[1:]
    errors = np.sqrt(_sum_later(variances.sum(axis=1)))[1:]
    # Counts of events and censored rows may be negative because of noise.
    smallest = remaining + np.minimum(np.minimum(events, censored / 2), 0)
    # With at least four standard deviations of the noise, the relative error of the number
    # is at most 1/4, and the second-order term, which the intervals neglect, at most 1/16
    # of a hazard.
    is_supported = smallest >= 4 * np.maximum(errors, 1)
    n = int(np.argmin([*is_supported, False]))
    censored, events, remaining = censored[:n], events[:n], remaining[:n]
    # Numbers at risk: without censored rows, with half of them and with all.
    after = remaining + np.multiply.outer([1, 0.5, 0], censored)
    before = after + events
    increments = np.log(before) - np.log(after)
    by_number, by_event = 1 / before[1] - 1 / after[1], 1 / after[1]
    later = by_number[:, np.newaxis] * np.triu(np.ones((n, len(counts))), 1)
    own = np.eye(n, len(counts))
    slopes = np.stack(
        [
            later + own * (by_number / 2)[:, np.newaxis],
            later + own * (by_number + by_event)[:, np.newaxis],
        ],
        axis=-1,
    )
    return _Hazards(
        increments,
        events / (before[1] * after[1]),
        (1 / before[1], 1 / np.minimum(before, after)[1]),
        slopes.reshape(n, counts.size),
        variances.ravel(),
    )


def _estimate_group(
    starts: Floats, counts: Floats, variances: Floats, level: float
) -> Floats:
    """Estimate all metrics of a group: values, standard errors and endpoints; shape (n_rows, 4).

    `starts` are the starts of the bins. `counts` and the `variances` of their noise are for censored rows and events,
    (n_bins, 2).
    """
    hazards = _find_hazards(counts, variances)
    times, n = starts[1:], hazards.variances.size
    curve, mean = np.full((2, 4, len(times)), np.nan)
    curve[2], curve[3] = 0, 1
    mean[2], mean[3] = starts[0], times
    if n:
        cumulative = hazards.increments.cumsum(axis=1)
        curve[:, :n] = _estimate_curve(hazards, cumulative, level)
        # A curve never rises.
        curve[3, n:] = curve[3, n - 1]
        mean[:, :n] = _estimate_means(hazards, cumulative, starts[: n + 1], level)
        mean[2, n:] = mean[2, n - 1]
        mean[3, n:] = mean[3, n - 1] + (times[n:] - times[n - 1]) * curve[3, n - 1]
    at_risk = _sum_later(counts.sum(axis=1))
    later = np.repeat(np.triu(np.ones((len(starts), len(starts)))), 2, axis=1)
    noise, cumulant = find_noise(later, variances.ravel())
    margin = find_quantile(noise, cumulant, level) * np.sqrt(noise)
    if (counts == np.rint(counts)).all():
        # The true numbers are whole, and little noise is mostly 0.
        margin = np.ceil(margin)
    size = at_risk, np.sqrt(noise), at_risk - margin, at_risk + margin
    return np.concatenate([curve.T, np.column_stack(size), mean.T])


def _estimate_curve(hazards: _Hazards, cumulative: Floats, level: float) -> Floats:
    """Return values, standard errors and endpoints of the curve at the ends of the supported bins; shape (4, n)."""
    low, middle, high = cumulative
    sums = np.tril(np.ones((len(middle), len(middle))))
    slack = np.stack([middle - low, high - middle])
    error, (down, up) = hazards.find_margins(sums, slack, level)
    # Endpoints that do not rise are outside of the intervals of each time.
    lower = np.minimum.accumulate(np.exp(-middle - up))
    upper = np.maximum.accumulate(np.exp(down - middle)[::-1])[::-1]
    alive = isotonic_regression(np.exp(-middle), y_max=1, increasing=False)
    return np.stack([alive, alive * error, lower, np.minimum(upper, 1)])


def _estimate_means(
    hazards: _Hazards, cumulative: Floats, edges: Floats, level: float
) -> Floats:
    """Return restricted means at the ends of the supported bins as `_estimate_curve`; `edges` are of these bins."""
    width = np.diff(edges)
    curves = np.exp(-np.column_stack([np.zeros(3), cumulative]))
    areas = (width * (curves[:, :-1] + curves[:, 1:]) / 2).cumsum(axis=1)
    # Weight of the curve at each edge in each mean: half of both bins beside it.
    beside = np.append(width[1:], 0)
    weights = np.tril(np.ones((len(width), len(width))), -1) * beside / 2
    weights += np.tril(np.ones_like(weights)) * width / 2
    # A hazard decreases the curve at all later edges.
    weights = (weights * curves[1, 1:])[:, ::-1].cumsum(axis=1)[:, ::-1]
    # The trapezoid rule has an error of a twelfth of the width times the difference of the
    # slopes at both ends, which is at most the largest decrease within a bin.
    decrease = width * np.abs(np.diff(curves[1])) / 12
    decrease = np.maximum(decrease, np.append(decrease[1:], 0))
    slack = np.stack([areas[0] - areas[1], areas[1] - areas[2]])
    slack = np.maximum(slack, 0) + np.maximum.accumulate(decrease)
    # A sum of hazards is subtracted from the mean.
    error, (up, down) = hazards.find_margins(weights, slack, level)
    mean, latest = edges[0] + areas[1], edges[1:]
    lower, upper = np.maximum(mean - down, edges[0]), np.minimum(mean + up, latest)
    # Negative counts of events would increase a mean.
    return np.stack([np.minimum(mean, latest), error, lower, upper])


def _sum_later(numbers: Floats) -> Floats:
    """Return the sum of each number and all later ones."""
    sums: Floats = numbers[::-1].cumsum()[::-1]
    return sums


def _find_gamma_margins(
    value: Floats, variance: Floats, largest: Floats, level: float
) -> Floats:
    """Return distances of the endpoints of gamma intervals (Fay and Feuer 1997) below and above weighted sums.

    `value` and `variance` are the sums of Poisson counts and their variances, and `largest` the largest weights.
    """
    tail = (1 - level) / 2
    positive = np.maximum(value, np.finfo(float).tiny)
    spread = np.maximum(variance, np.finfo(float).tiny)
    lower = spread / positive * gammaincinv(positive**2 / spread, tail)
    # The upper endpoint has one more event of the largest weight.
    more, spread = value + largest, variance + largest**2
    upper = spread / more * gammaincinv(more**2 / spread, 1 - tail)
    return np.stack([value - np.where(value > 0, lower, 0), upper - value])
