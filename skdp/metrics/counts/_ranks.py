"""Ranks of groups, and quantiles of groups, from noisy counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import ColumnName, Floats, Mask, TableLike
from skdp.base import (
    NORMAL,
    check_confidence_level,
    find_sampling_variance,
    find_score_interval,
)
from skdp.metrics._count_noise import find_noise, find_quantile
from skdp.metrics._labels import list_column_names
from skdp.metrics.counts._cells import Cells, format_level, read_cells, read_reference
from skdp.metrics.counts._equations import MIN_SUPPORT, NO_INFORMATION

# Largest number of groups. The time is proportional to the square: a second.
MAX_GROUPS = 200

# Draws of the errors of all groups together, with a fixed seed.
N_DRAWS = 4_000

RANK_COLUMNS = ["term", "estimate", "std_error", "lower", "upper"]
RANK_COLUMNS += ["rank", "rank_lower", "rank_upper", "supported", "reason"]


def rank_from_counts(
    counts: TableLike,
    group: ColumnName,
    target: ColumnName | None = None,
    *,
    reference: Any = None,
    design_effect: float | None = 1.0,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Rank groups by their noisy counts, or by rates, with simultaneous intervals.

    Parameters
    ----------
    counts : dataframe
        Counts of rows by group and target: ``DPHistogram(...).fit(table).to_frame()``, or counts of `DPGroupBy` with
        declared keys and without totals. Counts are added up over all other columns. For ranks of counts of numbers,
        use ``DPHistogram(method="flat")``, because a hierarchy has dependent noise.
    group : column name
        Column of the groups, such as hospitals.
    target : column name, optional
        Column with two values. Groups are ranked by the proportion of the second one. None for ranks of counts.
    reference : value, optional
        First value of the target. The default is the first value in the table.
    design_effect : float or None, default=1.0
        None for the rows of the table: intervals contain the noise only. A number is the factor of the sampling
        variance of a population, as for `regression_from_counts`.
    confidence_level : float, default=0.95
        Probability that all intervals, or all ranks, cover together.

    Returns
    -------
    pandas.DataFrame
        One row per group, with the columns ``term, estimate, std_error, lower, upper, rank, rank_lower, rank_upper,
        supported, reason``. Rank 1 has the largest count or rate. A group with too much noise has all ranks.

    Raises
    ------
    TypeError, ValueError
        If a column or cells are missing, the target does not have two values, there are more than 200 groups, or counts
        are from reports.

    See Also
    --------
    standardize_from_counts : Rates of groups with equal age or other columns.
    quantiles_from_counts : Quantiles of numbers by group.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them.

    The largest error of all groups, and of all differences of two groups, is drawn 4,000 times with a fixed seed from
    discrete Laplace noise and normal sampling errors. All intervals have its quantile as a factor; they are score
    intervals, which hold for small groups. A rank is bounded by the numbers of groups that are clearly larger and
    clearly smaller ([1]_).

    References
    ----------
    .. [1] M. Mogstad, J. P. Romano, A. M. Shaikh, D. Wilhelm (2024). Inference for ranks with applications to mobility
       across neighbourhoods and academic achievement across countries. Review of Economic Studies 91.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPHistogram
    >>> from skdp.metrics import rank_from_counts
    >>> rows = pd.DataFrame({"clinic": [*"AABBBCCCCC"] * 100, "fell": [True, False] * 500})
    >>> rows.loc[rows["clinic"] == "B", "fell"] = True
    >>> domain = {"clinic": ["A", "B", "C"], "fell": [False, True]}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(rows).to_frame()
    >>> table = rank_from_counts(counts, "clinic", "fell").drop(columns=["supported", "reason"])
    >>> table.round(2)
      term  estimate  std_error  lower  upper  rank  rank_lower  rank_upper
    0    A      0.50       0.04   0.41   0.59   2.0           2           3
    1    B      1.00       0.01   0.97   1.00   1.0           1           1
    2    C      0.41       0.02   0.35   0.46   3.0           2           3
    """
    level = check_confidence_level(confidence_level)
    names = {"group": [group], "target": [] if target is None else [target]}
    cells = read_cells(counts, names, design_effect)
    if target is not None and reference is not None:
        cells = read_reference(cells, {target: reference})
    if not 2 <= len(cells.levels[group]) <= MAX_GROUPS:
        raise ValueError(
            f"`group` must be a column with 2 to {MAX_GROUPS} values, got {group!r} with "
            f"{len(cells.levels[group])}."
        )
    if target is not None and len(cells.levels[target]) != 2:
        raise ValueError(
            f"`target` must be a column with two values, got {target!r} with "
            f"{len(cells.levels[target])}."
        )
    groups = _estimate_groups(cells)
    is_known, sampling = groups.is_known, cells.design_effect / groups.n_rows
    noise = (groups.slopes**2 * groups.variances).sum(axis=1)
    errors = noise + find_sampling_variance(groups.sizes, groups.n_rows, sampling)
    errors = np.sqrt(np.maximum(errors, 1e-12))
    draws = _draw_errors(groups, errors, np.sqrt(noise))
    # The largest error of all groups, in standard errors.
    largest = np.abs(draws[:, is_known] / errors[is_known]).max(axis=1, initial=0)
    z = np.quantile(largest, level, method="higher")
    ends = find_score_interval(
        groups.sizes, groups.n_rows, z * np.sqrt(noise), z**2 * sampling
    )
    numbers = np.column_stack([groups.sizes, errors, *ends]) / groups.scales
    draws, errors = draws / groups.scales.T, errors / groups.scales[:, 0]
    ranks = _bound_ranks(numbers[:, 0], errors, draws, is_known, level)
    numbers[~is_known] = np.nan
    table = pd.DataFrame(numbers, columns=RANK_COLUMNS[1:5])
    table.insert(0, "term", [format_level(value) for value in cells.levels[group]])
    table["rank"] = table["estimate"].rank(ascending=False)
    table[["rank_lower", "rank_upper"]] = ranks
    table["supported"] = is_known
    table["reason"] = np.where(is_known, "", NO_INFORMATION)
    return table


@dataclass(frozen=True)
class _Groups:
    """Counts by which groups are ranked, of their `n_rows` rows; shape (n_groups,)."""

    sizes: Any
    n_rows: Floats
    # The noise of a size is a sum of the noise of cells times slopes; (n_groups, n_cells).
    slopes: Floats
    variances: Floats
    # Divisors of sizes, (n_groups, 1): 1 for counts, and the number of rows for rates.
    scales: Floats
    is_known: Mask


def _estimate_groups(cells: Cells) -> _Groups:
    """Return the counts of groups, or their counts of the second value of the target."""
    counts, variances = cells.counts, cells.variances
    n_groups = len(counts)
    if counts.ndim == 1:
        total = np.full(n_groups, max(counts.sum(), 1.0))
        ones = np.ones((n_groups, 1))
        is_known = np.ones(n_groups, bool)
        return _Groups(counts, total, ones, variances[:, np.newaxis], ones, is_known)
    n_rows, noise = counts.sum(axis=1), variances.sum(axis=1)
    is_known = (n_rows > 0) & (n_rows >= MIN_SUPPORT * np.sqrt(noise))
    n_rows = np.where(is_known, n_rows, 1.0)
    rates = counts[:, 1] / n_rows
    # The second-order bias by noise is subtracted.
    rates = rates + (variances[:, 1] - rates * noise) / n_rows**2
    rates = np.where(is_known, rates, 0.5)
    slopes = np.column_stack([-rates, 1 - rates])
    scales = n_rows[:, np.newaxis]
    return _Groups(rates * n_rows, n_rows, slopes, variances, scales, is_known)


def _draw_errors(groups: _Groups, errors: Floats, noise: Floats) -> Floats:
    """Draw the errors of all groups by noise and sampling, with a fixed seed; shape (N_DRAWS, n_groups)."""
    rng = np.random.default_rng(0)
    # Discrete Laplace noise with the variance 2 q / (1 - q)**2.
    inverse = 1 / np.maximum(groups.variances, 1e-12)
    stay = 1 / (1 + inverse + np.sqrt(inverse * (inverse + 2)))
    shape = N_DRAWS, *stay.shape
    steps = rng.geometric(1 - stay, shape) - rng.geometric(1 - stay, shape)
    draws = (steps * groups.slopes).sum(axis=2)
    sampling = np.sqrt(np.maximum(errors**2 - noise**2, 0))
    found: Floats = draws + rng.normal(size=draws.shape) * sampling
    return found


def _bound_ranks(
    values: Floats, errors: Floats, draws: Floats, is_known: Mask, level: float
) -> Floats:
    """Return the smallest and the largest rank of each group, simultaneous for all groups; shape (n_groups, 2)."""
    n = len(values)
    pair_errors = np.hypot(errors[:, np.newaxis], errors)
    largest = np.zeros(len(draws))
    for i in np.flatnonzero(is_known):
        gaps = np.abs(draws[:, is_known] - draws[:, [i]]) / pair_errors[i, is_known]
        largest = np.maximum(largest, gaps.max(axis=1))
    z = np.quantile(largest, level, method="higher")
    is_compared = np.outer(is_known, is_known)
    gaps = np.where(is_compared, values - values[:, np.newaxis], 0) / pair_errors
    return np.column_stack([1 + (gaps > z).sum(axis=1), n - (gaps < -z).sum(axis=1)])


def quantiles_from_counts(
    counts: TableLike,
    value: ColumnName,
    group: ColumnName | list[ColumnName] | None = None,
    *,
    probabilities: float | Sequence[float] = 0.5,
    design_effect: float | None = 1.0,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate quantiles of a column of bins by group from noisy counts, with simultaneous intervals.

    Parameters
    ----------
    counts : dataframe
        Counts of rows by value and group: ``DPHistogram(...).fit(table).to_frame()``, or counts of `DPGroupBy` with
        declared keys and without totals. Counts are added up over all other columns.
    value : column name
        Column with bins of an `Interval`, or with numbers.
    group : column name or list of column names, optional
        Columns whose combinations are the groups. None for one group of all rows.
    probabilities : float or sequence of float, default=0.5
        Proportions of rows below the quantiles: 0.5 is the median.
    design_effect : float or None, default=1.0
        None for the rows of the table: intervals contain the noise only. A number is the factor of the sampling
        variance of a population, as for `regression_from_counts`.
    confidence_level : float, default=0.95
        Probability that all intervals cover together.

    Returns
    -------
    pandas.DataFrame
        One row per group and probability, with the columns ``group, probability, estimate, lower, upper``. The group
        of all rows is "all". Estimates are interpolated within bins. Endpoints are edges of bins, and the first or last
        edge if the noise supports no bound.

    Raises
    ------
    TypeError, ValueError
        If a column or cells are missing, values are not numbers or bins, a probability is not between 0 and 1, or
        counts are from reports.

    See Also
    --------
    rank_from_counts : Ranks of groups.
    skdp.DPGroupBy : Quantiles with a further budget, without bins.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them.

    A quantile is not excluded by the counts if the number of rows below it, minus the probability times the number of
    rows, is at most the margin of error of this difference, which is linear in the counts. The interval contains all
    bins at such an edge. The margin is a score margin: the sampling variance is that of the probability. It is
    divided among all groups and probabilities (Bonferroni).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.metrics import quantiles_from_counts
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"sex": [*"fm"] * 2_000, "hours": rng.normal(38, 9, 4_000).clip(0, 80)})
    >>> domain = {"sex": ["f", "m"], "hours": Interval(0, 80, bins=40, real=True)}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(rows).to_frame()
    >>> quantiles_from_counts(counts, "hours", "sex", probabilities=[0.5, 0.9]).round(1)
      group  probability  estimate  lower  upper
    0     f          0.5      37.7   36.0   40.0
    1     f          0.9      49.2   48.0   52.0
    2     m          0.5      37.6   36.0   40.0
    3     m          0.9      49.9   48.0   52.0
    """
    level = check_confidence_level(confidence_level)
    chances = np.atleast_1d(np.asarray(probabilities, np.float64))
    if (
        chances.ndim > 1
        or not chances.size
        or not ((chances > 0) & (chances < 1)).all()
    ):
        raise ValueError(
            f"`probabilities` must be numbers between 0 and 1, got {probabilities!r}."
        )
    names = list_column_names("group", [] if group is None else group)
    cells = read_cells(counts, {"group": names, "value": [value]}, design_effect)
    edges = cells.read_edges(value, "value")
    cells = cells.select(value, np.argsort(edges[:, 0]))
    edges = np.sort(edges, axis=0)
    edges = np.append(edges[:, 0], edges[-1, 1])
    keys: list[Any] = [*product(*(cells.levels[name] for name in names))]
    keys = [key[0] if len(key) == 1 else key or "all" for key in keys]
    part = 1 - (1 - level) / (len(keys) * len(chances))
    tables = zip(
        keys,
        cells.counts.reshape(len(keys), -1),
        cells.variances.reshape(len(keys), -1),
        strict=True,
    )
    rows = []
    for key, sizes, variances in tables:
        for chance in chances:
            found = _find_quantile_interval(
                edges, sizes, variances, chance, cells.design_effect, part
            )
            rows.append([key, chance, *found])
    columns = ["group", "probability", "estimate", "lower", "upper"]
    return pd.DataFrame(rows, columns=columns).astype({"group": object})


def _find_quantile_interval(
    edges: Floats,
    counts: Floats,
    variances: Floats,
    chance: float,
    design_effect: float,
    level: float,
) -> tuple[float, float, float]:
    """Return a quantile of binned rows and its interval."""
    n_rows = max(counts.sum(), 1.0)
    # The gap of an edge is the number of rows below it minus the expected number at the
    # quantile.
    slopes = np.tri(len(edges), len(counts), -1) - chance
    gaps = slopes @ counts
    noise, cumulant = find_noise(slopes, variances)
    z = NORMAL.quantile(level)
    sampling = z**2 * design_effect * n_rows * chance * (1 - chance)
    margins = np.sqrt(find_quantile(noise, cumulant, level) ** 2 * noise + sampling)
    possible = np.flatnonzero(np.abs(gaps) <= margins)
    # A bin has the quantile if one of its edges may be the quantile, or if they are on
    # both sides of it.
    if possible.size:
        first, last = int(possible.min()) - 1, int(possible.max()) + 1
    else:
        last = int(np.argmax(gaps > 0))
        first = last - 1
    lower, upper = edges[max(first, 0)], edges[min(last, len(counts))]
    rising = np.maximum.accumulate(gaps)
    estimate = float(np.interp(0.0, rising, edges)) if gaps[-1] > gaps[0] else np.nan
    return estimate, float(lower), float(upper)
