"""Standardized rates of groups from noisy counts, and their differences and ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.special import logit, ndtr

from skdp._arrays import ColumnName, Floats, TableLike
from skdp.base import (
    NORMAL,
    check_choice,
    check_confidence_level,
    find_score_interval,
)
from skdp.metrics._count_noise import find_noise, find_quantile
from skdp.metrics._labels import list_column_names
from skdp.metrics.counts._cells import Cells, format_level, read_cells, read_reference
from skdp.metrics.counts._design import make_design
from skdp.metrics.counts._equations import (
    MIN_SUPPORT,
    NO_INFORMATION,
    infer_root,
    make_refusal,
    make_table,
)
from skdp.metrics.counts._regression import MeanEquations

Method = Literal["strata", "mantel_haenszel", "model"]

SMALL_STRATUM = "the noise is too large: a stratum has too few rows"
BIASED = "the noise is too large: its bias is more than half of the error"
UNFIT = "the noise is too large: a coefficient of the model has no interval"
UNBOUNDED = "the counts do not exclude a rate of 0 or 1"

# Scales of comparisons: their names, functions and derivatives.
SCALES: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "difference": (lambda rate: rate, np.ones_like),
    "ratio": (np.log, lambda rate: 1 / rate),
    "odds ratio": (logit, lambda rate: 1 / (rate * (1 - rate))),
}


def standardize_from_counts(
    counts: TableLike,
    target: ColumnName,
    group: ColumnName,
    by: ColumnName | list[ColumnName] | None = None,
    *,
    method: Method = "strata",
    standard: Mapping[Any, float] | None = None,
    reference: Mapping[Any, Any] | None = None,
    design_effect: float | None = 1.0,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate standardized rates of groups from noisy counts, with their differences and ratios.

    Parameters
    ----------
    counts : dataframe
        Counts of rows by target, group and strata: ``DPHistogram(...).fit(table).to_frame()``, or counts of `DPGroupBy`
        with declared keys and without totals. Counts are added up over all other columns.
    target : column name
        Column with two values. The rate is the proportion of the second one, such as True.
    group : column name
        Column of the groups, such as treatments. They are compared with its first value.
    by : column name or list of column names, optional
        Columns whose combinations are strata, such as age and ward. None for rates without standardization.
    method : {"strata", "mantel_haenszel", "model"}, default="strata"
        "strata" averages the rates of the strata. "mantel_haenszel" estimates comparisons that all strata have in
        common, with weights for small strata ([1]_). "model" averages predictions of a logistic regression on the
        group and the columns `by`, without interactions.
    standard : mapping, optional
        Numbers of people in each stratum of a standard population, by value of `by`, or by tuple of values for several
        columns. The default is the rows of the table in each stratum.
    reference : mapping of column name to value, optional
        First values of `group` and `target`. The default is the first value in the table.
    design_effect : float or None, default=1.0
        None for the rows of the table: intervals contain the noise only. A number is the factor of the sampling
        variance of a population, as for `regression_from_counts`.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        Rows "rate: B" of groups, except for "mantel_haenszel", and "rate difference: B v A", "rate ratio: B v A" and
        "odds ratio: B v A", in the format of `regression_from_counts`.

    Raises
    ------
    TypeError, ValueError
        If a column or cells are missing, the target does not have two values, the standard does not have the strata, a
        reference is not a value of its column, or counts are from reports.

    See Also
    --------
    regression_from_counts : Logistic and other regressions.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them.

    Rates are smooth functions of the counts. Their second-order bias by noise is subtracted, and there is no interval
    if it exceeds half of the standard error. Rates have score intervals, whose margin contains the noise with the
    quantile of a sum of Laplace variables. Comparisons combine the intervals of both rates and their correlation
    ([2]_), and the Mantel-Haenszel odds ratio is symmetric in its logarithm. There is no interval either

    - if a stratum has fewer rows than three standard deviations of its noise: merge strata, or use another method;
    - for "model", if a coefficient of the regression has no interval.

    References
    ----------
    .. [1] N. Mantel, W. Haenszel (1959). Statistical aspects of the analysis of data from retrospective studies of
       disease. Journal of the National Cancer Institute 22.
    .. [2] G. Y. Zou (2008). On the estimation of additive interaction by use of the four-by-two table and beyond.
       American Journal of Epidemiology 168.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPHistogram
    >>> from skdp.metrics import standardize_from_counts
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"old": rng.random(4_000) < 0.5})
    >>> rows["drug"] = rng.random(4_000) < np.where(rows["old"], 0.7, 0.3)
    >>> rows["ill"] = rng.random(4_000) < 0.1 + 0.3 * rows["old"] - 0.05 * rows["drug"]
    >>> domain = {name: [False, True] for name in rows}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(rows).to_frame()
    >>> columns = ["term", "estimate", "lower", "upper"]
    >>> standardize_from_counts(counts, "ill", "drug")[columns].round(2).iloc[2:]
                                term  estimate  lower  upper
    2  rate difference: True v False      0.08   0.05   0.10
    3       rate ratio: True v False      1.39   1.24   1.57
    4       odds ratio: True v False      1.54   1.32   1.79
    >>> standardize_from_counts(counts, "ill", "drug", "old")[columns].round(2).iloc[2:]
                                term  estimate  lower  upper
    2  rate difference: True v False     -0.04  -0.07  -0.01
    3       rate ratio: True v False      0.84   0.74   0.96
    4       odds ratio: True v False      0.80   0.68   0.95
    """
    check_choice("method", method, get_args(Method))
    level = check_confidence_level(confidence_level)
    strata = list_column_names("by", [] if by is None else by)
    names = {"by": strata, "group": [group], "target": [target]}
    cells = read_reference(read_cells(counts, names, design_effect), reference)
    if len(cells.levels[target]) != 2:
        raise ValueError(
            f"`target` must be a column with two values, got {target!r} with "
            f"{len(cells.levels[target])}."
        )
    if len(cells.levels[group]) < 2:
        raise ValueError(
            f"`group` must be a column with at least two values, got {group!r} with one."
        )
    weights = _read_standard(cells, strata, standard, method)
    labels = [format_level(value) for value in cells.levels[group]]
    if method == "mantel_haenszel":
        rows = _compare_mantel_haenszel(cells, labels, level)
    else:
        if method == "model":
            rates = _predict_rates(cells, strata, group, weights, level)
        else:
            rates = _average_rates(cells, weights, level)
        rows = _list_rates(rates, labels)
        for k in range(1, len(labels)):
            rows += _compare(rates, k, f"{labels[k]} v {labels[0]}")
    return make_table([term for term, _ in rows], [row for _, row in rows])


def _read_standard(
    cells: Cells, strata: list[Any], standard: Mapping[Any, float] | None, method: str
) -> Floats | None:
    """Return the weight of each stratum, (n_strata,); None for the proportions of the table."""
    if standard is None:
        return None
    if method == "mantel_haenszel" or not strata:
        raise ValueError(
            "`standard` must be None with method='mantel_haenszel' or without `by`, got "
            f"{type(standard).__name__}."
        )
    keys = list(product(*(cells.levels[name] for name in strata)))
    if len(strata) == 1:
        keys = [key for (key,) in keys]
    if not isinstance(standard, Mapping) or {*standard} != {*keys}:
        raise ValueError(
            f"`standard` must be a mapping of the values of {strata} to numbers of "
            f"people, with the keys {keys[:20]}, got {type(standard).__name__}."
        )
    weights = np.array([standard[key] for key in keys], np.float64)
    if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(
            "`standard` must have numbers of at least 0 with a positive finite sum, got "
            f"{list(standard.values())[:20]}."
        )
    return weights / weights.sum()


@dataclass(frozen=True)
class Rates:
    """Rates of groups as smooth functions of noisy counts."""

    # Counts and variances of their noise by stratum, group and target; shape (S, K, 2).
    counts: Floats
    variances: Floats
    design_effect: float
    level: float
    # The rates, and their derivatives by the counts; shapes (K,) and (K, S, K, 2).
    values: Floats
    slopes: Floats
    # Reasons for rates without an interval; "" for rates with an interval.
    reasons: list[str]

    def find_covariance(self) -> Floats:
        """Return the covariance of the errors of the rates by noise and sampling; shape (K, K)."""
        sampling = self.design_effect * np.maximum(self.counts, 0)
        slopes = self.slopes.reshape(len(self.values), -1)
        covariance: Floats = (slopes * (self.variances + sampling).ravel()) @ slopes.T
        return covariance

    def find_intervals(self) -> tuple[Floats, Floats]:
        """Return the endpoints of score intervals with the margin of the noise."""
        slopes = self.slopes.reshape(len(self.values), -1)
        noise, cumulant = find_noise(slopes, self.variances.ravel())
        margin = find_quantile(noise, cumulant, self.level) * np.sqrt(noise)
        sizes = np.array([self._find_size(k) for k in range(len(self.values))])
        factor = NORMAL.quantile(self.level) ** 2 * self.design_effect / sizes
        values = np.clip(self.values, 0, 1)
        ends = find_score_interval(values * sizes, sizes, margin * sizes, factor)
        low, high = np.clip(np.stack(ends) / sizes, 0, 1)
        return low, high

    def _find_size(self, k: int) -> float:
        """Return the number of rows of one stratum whose rate has the sampling variance of the rate of a group."""
        counts, rate = np.maximum(self.counts, 0), self.values[k]
        own = self.slopes[k, :, k]
        # With equal rates of all strata, and with their own rates.
        equal = counts[:, k].sum(axis=1) @ (own[:, 1] - own[:, 0]) ** 2
        unequal = (counts * self.slopes[k] ** 2).sum() / max(rate * (1 - rate), 1e-9)
        return float(1 / max(equal, unequal if 0 < rate < 1 else 0, 1e-12))


def _differentiate(
    find: Callable[[Floats], Floats], counts: Floats, variances: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return sums over strata of functions of their counts, the biases by noise, and the derivatives by the counts.

    `find` maps counts (S, K, 2) to values (S, m). The derivatives have the shape (m, S, K, 2).
    """
    value = find(counts)
    slopes = np.empty((value.shape[1], *counts.shape))
    bias = np.zeros_like(value)
    for index in np.ndindex(counts.shape[1:]):
        cell = (slice(None), *index)
        variance = variances[cell]
        # A step as large as the noise gives the second-order bias.
        step = np.sqrt(np.where(variance > 0, variance, 1e-8))
        up, down = counts.copy(), counts.copy()
        up[cell] += step
        down[cell] -= step
        higher, lower = find(up), find(down)
        slopes[:, *cell] = ((higher - lower) / (2 * step)[:, np.newaxis]).T
        bias += (variance > 0)[:, np.newaxis] * (higher + lower - 2 * value) / 2
    return value.sum(axis=0), bias.sum(axis=0), slopes


def _divide(
    sums: Floats, bias: Floats, slopes: Floats, divisor: int
) -> tuple[Floats, Floats, Floats]:
    """Divide sums without their `bias` by the sum `divisor`; return ratios, their biases and their derivatives."""
    total = sums[divisor] - bias[divisor]
    values = (sums - bias) / total
    biases = (bias - values * bias[divisor]) / total
    return (
        values,
        biases,
        (slopes - np.multiply.outer(values, slopes[divisor])) / total,
    )


def _average_rates(cells: Cells, weights: Floats | None, level: float) -> Rates:
    """Average the rates of strata."""
    counts, variances = _reshape(cells)
    sizes = counts.sum(axis=2)
    if weights is None:

        def find(table: Floats) -> Floats:
            rows = table.sum(axis=2)
            rates = table[:, :, 1] / rows * rows.sum(axis=1, keepdims=True)
            return np.column_stack([rates, rows.sum(axis=1)])

    else:
        shares = weights[:, np.newaxis]

        def find(table: Floats) -> Floats:
            rates = table[:, :, 1] / table.sum(axis=2)
            return np.column_stack([rates * shares, shares])

    is_small = sizes < MIN_SUPPORT * np.sqrt(variances.sum(axis=2))
    is_small |= sizes <= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        values, biases, slopes = _divide(*_differentiate(find, counts, variances), -1)
    reasons = [SMALL_STRATUM if small else "" for small in is_small.any(axis=0)]
    rates = Rates(
        counts,
        variances,
        cells.design_effect,
        level,
        values[:-1],
        slopes[:-1],
        reasons,
    )
    return _refuse_biased(rates, biases[:-1])


def _reshape(cells: Cells) -> tuple[Floats, Floats]:
    """Return counts and variances by stratum, group and target."""
    n_groups = list(map(len, cells.levels.values()))[-2]
    shape = -1, n_groups, 2
    return cells.counts.reshape(shape), cells.variances.reshape(shape)


def _refuse_biased(rates: Rates, biases: Floats) -> Rates:
    """Return rates without intervals where the second-order bias by noise is large."""
    errors = np.sqrt(np.diag(rates.find_covariance()))
    for k, reason in enumerate(rates.reasons):
        if not reason and not np.abs(biases[k]) <= errors[k] / 2:
            rates.reasons[k] = BIASED
    return rates


def _predict_rates(
    cells: Cells,
    strata: list[Any],
    group: ColumnName,
    weights: Floats | None,
    level: float,
) -> Rates:
    """Average the predictions of a logistic model with main effects of the group and of the columns of strata."""
    counts, variances = _reshape(cells)
    part = cells.arrange(*strata, group)
    design, terms = make_design(part, [(name,) for name in [*strata, group]], [])
    responses, exposure = np.array([[0.0], [1.0]]), np.ones(len(design))
    equations = MeanEquations(cells, design, responses, exposure, "logistic")
    root = infer_root(equations, terms, level)
    n_groups = counts.shape[1]
    if root is None or not root.table["supported"].all():
        values = np.full(n_groups, np.nan)
        slopes = np.zeros((n_groups, *counts.shape))
        reasons = [UNFIT] * n_groups
    else:
        means, derivatives = equations.find_means(root.coefficients)
        means = means.reshape(-1, n_groups)
        by_term = (derivatives[:, 0] * design).reshape(*means.shape, -1)
        sizes = counts.sum(axis=(1, 2))
        shares = sizes / sizes.sum() if weights is None else weights
        values = shares @ means
        slopes = np.einsum("s,skj,cj->kc", shares, by_term, root.influence)
        slopes = slopes.reshape(n_groups, *counts.shape)
        if weights is None:
            change = (means - values).T / sizes.sum()
            slopes = slopes + change[:, :, np.newaxis, np.newaxis]
        reasons = [""] * n_groups
    return Rates(counts, variances, cells.design_effect, level, values, slopes, reasons)


def _list_rates(rates: Rates, labels: list[str]) -> list[tuple[str, list[Any]]]:
    """Return the rows of rates."""
    errors = np.sqrt(np.diag(rates.find_covariance()))
    numbers = zip(rates.values, errors, *rates.find_intervals(), strict=True)
    rows = []
    for label, reason, row in zip(labels, rates.reasons, numbers, strict=True):
        found = make_refusal(reason) if reason else [*row, np.nan, True, ""]
        rows.append((f"rate: {label}", found))
    return rows


def _compare(rates: Rates, k: int, label: str) -> list[tuple[str, list[Any]]]:
    """Return the rows of the comparison of a rate with the first one, by their intervals (Zou and Donner 2008)."""
    pair, z = [0, k], NORMAL.quantile(rates.level)
    reason, rate = rates.reasons[k] or rates.reasons[0], rates.values[pair]
    covariance = rates.find_covariance()[np.ix_(pair, pair)]
    correlation = covariance[0, 1] / max(np.sqrt(np.diag(covariance)).prod(), 1e-300)
    ranges = np.stack(rates.find_intervals())[:, pair]
    rows = []
    for scale, (find, differentiate) in SCALES.items():
        term = f"rate {scale}: {label}".replace("rate odds", "odds")
        is_inside = (rate > 0).all() and (rate < 1).all()
        if reason or (scale != "difference" and not is_inside):
            rows.append((term, make_refusal(reason or UNBOUNDED)))
            continue
        with np.errstate(divide="ignore"):
            value, ends = find(rate), find(ranges)
        down, up = value - ends[0], ends[1] - value
        gap = value[1] - value[0]
        margins = [
            np.sqrt(a**2 + b**2 - 2 * correlation * a * b)
            if np.isfinite(a + b)
            else np.inf
            for a, b in ((down[1], up[0]), (up[1], down[0]))
        ]
        slopes = differentiate(rate) * [-1, 1]
        error = np.sqrt(slopes @ covariance @ slopes)
        toward_zero = max(margins[0 if gap > 0 else 1], 1e-300)
        p_value = 2 * ndtr(-z * abs(gap) / toward_zero)
        row = [gap, error, gap - margins[0], gap + margins[1]]
        if scale != "difference":
            row = [*np.exp(row)]
            row[1] = error * row[0]
        if np.isfinite(row[3]):
            rows.append((term, [*row, float(p_value), True, ""]))
        else:
            rows.append((term, make_refusal(UNBOUNDED)))
    return rows


def _compare_mantel_haenszel(
    cells: Cells, labels: list[str], level: float
) -> list[tuple[str, list[Any]]]:
    """Return the rows of Mantel-Haenszel comparisons of each group with the first one."""
    counts, variances = _reshape(cells)
    rows = []
    for k in range(1, len(labels)):
        pair, noise = counts[:, [0, k]], variances[:, [0, k]]
        with np.errstate(divide="ignore", invalid="ignore"):
            sums, bias, slopes = _differentiate(_sum_mantel_haenszel, pair, noise)
            values, biases, by_count = _divide(sums, bias, slopes, 2)
        totals = pair.sum(axis=(1, 2))
        limits = MIN_SUPPORT * np.sqrt(noise.sum(axis=(1, 2)))
        reason = SMALL_STRATUM if ((totals < limits) | (totals <= 0)).any() else ""
        rates = Rates(
            pair,
            noise,
            cells.design_effect,
            level,
            values[:2],
            by_count[:2],
            [reason] * 2,
        )
        rates = _refuse_biased(rates, biases[:2])
        compared = _compare(rates, 1, f"{labels[k]} v {labels[0]}")
        odds = _find_odds_ratio(rates, sums - bias, slopes)
        rows += [*compared[:2], (compared[2][0], odds)]
    return rows


def _sum_mantel_haenszel(table: Floats) -> Floats:
    """Return the terms of Mantel-Haenszel estimators of strata of two groups; shape (S, 5).

    They are events of both groups and rows weighted by the other group, and products of events and rows without event.
    """
    rows = table.sum(axis=2)
    total = rows.sum(axis=1)
    (first, second), (others, more) = table[:, :, 1].T, table[:, :, 0].T
    terms = [
        first * rows[:, 1],
        second * rows[:, 0],
        rows.prod(axis=1),
        second * others,
        first * more,
    ]
    return np.stack(terms, axis=1) / total[:, np.newaxis]


def _find_odds_ratio(rates: Rates, sums: Floats, slopes: Floats) -> list[Any]:
    """Return the row of the Mantel-Haenszel odds ratio, with an interval on the scale of its logarithm."""
    reason, (events, others) = rates.reasons[1] or rates.reasons[0], sums[3:]
    noise, _ = find_noise(slopes[3:].reshape(2, -1), rates.variances.ravel())
    if not reason and not (sums[3:] > MIN_SUPPORT * np.sqrt(noise)).all():
        reason = NO_INFORMATION
    if reason:
        return make_refusal(reason)
    by_count = (slopes[3] / events - slopes[4] / others).ravel()
    noise, cumulant = find_noise(by_count, rates.variances.ravel())
    counts = np.maximum(rates.counts, 0).ravel()
    variance = noise + rates.design_effect * (counts @ by_count**2)
    error, z = np.sqrt(variance), find_quantile(variance, cumulant, rates.level)
    value = np.log(events / others)
    ends = np.exp([value - z * error, value + z * error])
    z_score = abs(value) / max(error, 1e-300) * NORMAL.quantile(rates.level) / z
    p_value = 2 * ndtr(-z_score)
    odds = np.exp(value)
    return [odds, odds * error, *ends, float(p_value), True, ""]
