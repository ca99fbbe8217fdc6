"""Comparisons of survival curves from noisy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc, ndtr

from skdp._arrays import ColumnName, Floats, TableLike
from skdp.base import NORMAL, check_confidence_level
from skdp.metrics._count_noise import find_noise
from skdp.metrics._survival import survival_from_counts
from skdp.metrics.counts._cells import Cells, format_level, read_reference
from skdp.metrics.counts._equations import (
    MIN_SUPPORT,
    NO_INFORMATION,
    make_refusal,
    make_table,
)
from skdp.metrics.counts._hazards import HazardEquations, read_times

SMALL_RISK_SET = "the noise is too large: too few rows at risk"


def compare_survival_from_counts(
    counts: TableLike,
    time: ColumnName,
    event: ColumnName,
    group: ColumnName,
    *,
    until: float | None = None,
    reference: Any = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Compare survival curves of groups by the log-rank test and by restricted means, from noisy counts.

    Parameters
    ----------
    counts : dataframe
        Counts of rows by time, event and group, as for `survival_from_counts`.
    time : column name
        Column with the time until the event, or until the row was last observed.
    event : column name
        Column with True or 1 if the event occurred at this time, and False or 0 if the time is censored.
    group : column name
        Column of the groups, such as treatments.
    until : float, optional
        Edge of a bin up to which restricted means are compared. The default is the last edge at which all groups have
        an estimate.
    reference : value, optional
        Group that all other groups are compared with. The default is the first value in the table.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        A row "log-rank test", whose estimate is the chi-square statistic, without an interval; and a row "restricted
        mean to 60: B v A" for each other group, the difference of the mean times until the event or 60. The format is
        as for `regression_from_counts`.

    Raises
    ------
    TypeError, ValueError
        As for `survival_from_counts`; if the group has one value, or `until` or the reference is not in the table.

    See Also
    --------
    survival_from_counts : Curves and restricted means of the groups.
    hazards_from_counts : Hazard ratios of groups and other columns.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them.

    The log-rank statistic is the score of the Cox regression without effects, divided by its variance by sampling and
    noise. The interval of a difference combines the intervals of both groups from `survival_from_counts` ([1]_). The
    results are for the population of which the rows are a sample.

    References
    ----------
    .. [1] G. Y. Zou, A. Donner (2008). Construction of confidence limits about effect measures: a general approach.
       Statistics in Medicine 27.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.metrics import compare_survival_from_counts
    >>> rng = np.random.default_rng(0)
    >>> drug = rng.random(2_000) < 0.5
    >>> death, seen = rng.exponential(np.where(drug, 60, 36)), rng.uniform(0, 90, 2_000)
    >>> patients = pd.DataFrame({"drug": drug, "months": np.minimum(death, seen), "died": death <= seen})
    >>> months = Interval([0, 6, 12, 24, 36, 60, 1_200], real=True)
    >>> domain = {"drug": [False, True], "months": months, "died": [False, True]}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(patients).to_frame()
    >>> table = compare_survival_from_counts(counts, "months", "died", "drug")
    >>> table[["term", "estimate", "lower", "upper", "p_value"]].round(3)
                                  term  estimate  lower   upper  p_value
    0                    log-rank test    64.344    NaN     NaN      0.0
    1  restricted mean to 60: True v False     8.426  4.235  12.614      0.0
    """
    level = check_confidence_level(confidence_level)
    cells = read_times(counts, time, event, {"group": [group]}, 1.0)
    if reference is not None:
        cells = read_reference(cells, {group: reference})
    values = cells.levels[group]
    if len(values) < 2:
        raise ValueError(
            f"`group` must be a column with at least two values, got {group!r} with one."
        )
    curves = survival_from_counts(
        counts, time, event, group=group, confidence_level=level
    )
    curves = curves[curves["metric"] == "restricted_mean"]
    end = _find_end(curves, until)
    rows = curves[curves["time"] == end]
    columns = ["value", "std_error", "lower", "upper"]
    means = dict(zip(rows["group"], rows[columns].to_numpy(float), strict=True))
    first = values[0]
    terms = [
        f"restricted mean to {end:g}: {format_level(value)} v {format_level(first)}"
        for value in values[1:]
    ]
    found = [_subtract(means[value], means[first], level) for value in values[1:]]
    return make_table(["log-rank test", *terms], [_test_equality(cells), *found])


def _find_end(curves: pd.DataFrame, until: float | None) -> float:
    """Return the time up to which means are compared: by default, the last one at which all groups have an estimate."""
    times = curves["time"].unique()
    if until is not None:
        if until not in times:
            raise ValueError(
                f"`until` must be an edge of a bin of `time`, one of {times.tolist()[:20]}, "
                f"got {until!r}."
            )
        return float(until)
    is_known = curves.groupby("time")["value"].count() == curves["group"].nunique()
    return float(is_known.index[is_known].max() if is_known.any() else times[0])


def _subtract(mean: Floats, first: Floats, level: float) -> list[Any]:
    """Return the row of the difference of two estimates with intervals, which have independent errors."""
    if np.isnan([mean[0], first[0]]).any():
        return make_refusal(SMALL_RISK_SET)
    value, error = mean[0] - first[0], np.hypot(mean[1], first[1])
    down = np.hypot(mean[0] - mean[2], first[3] - first[0])
    up = np.hypot(mean[3] - mean[0], first[0] - first[2])
    toward_zero = max(down if value > 0 else up, 1e-300)
    p_value = 2 * ndtr(-NORMAL.quantile(level) * abs(value) / toward_zero)
    return [value, error, value - down, value + up, float(p_value), True, ""]


def _test_equality(cells: Cells) -> list[Any]:
    """Return the row of the log-rank test."""
    n_groups = len(next(iter(cells.levels.values())))
    equations = HazardEquations(cells, np.eye(n_groups)[:, 1:], "efron")
    if not equations.is_used.any():
        return make_refusal(SMALL_RISK_SET)
    score = equations.evaluate(equations.start())
    information, variances = score.find_information(), equations.variances
    directions = np.eye(n_groups - 1)
    curvature = np.stack([score.find_curvature(each) for each in directions])
    noise = np.sqrt(find_noise(curvature, variances)[0])
    if not (np.diag(information) > MIN_SUPPORT * noise).all():
        return make_refusal(NO_INFORMATION)
    covariance = information + (score.slopes.T * variances) @ score.slopes
    if np.linalg.eigvalsh(information)[0] <= 0:
        return make_refusal(NO_INFORMATION)
    statistic = float(score.values @ np.linalg.solve(covariance, score.values))
    p_value = float(chdtrc(n_groups - 1, statistic))
    return [statistic, np.nan, np.nan, np.nan, p_value, True, ""]
