"""Changes between two releases of groups, and differences of two groups of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats
from skdp.base import check_confidence_level, check_flag
from skdp.central.groups._group_by import COUNT, TOTAL, DPGroupBy
from skdp.central.statistics import bound_quantile

# The smallest distance of an interval endpoint from its quantile, in ranks, is this number
# divided by the rate of its choice: log((N - 1) 19) for N candidates, of which columns
# have 9 to 50.
ENDPOINT_LOG_ODDS = 5.0


def compare_groups(
    first: DPGroupBy,
    second: DPGroupBy | None = None,
    *,
    pair: Sequence[Any] | None = None,
    ratio: bool = False,
    design_effect: float = 1.0,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the change between two releases, or the difference of two groups of a release.

    Parameters
    ----------
    first : DPGroupBy
        Fitted estimator, such as of the first month.
    second : DPGroupBy, default=None
        Fitted estimator with the same keys and statistics, such as of the second month. Either `second` or `pair` is
        required.
    pair : pair of groups, default=None
        Two groups of `first`: a value of the key for one key, or a tuple of values of all keys.
    ratio : bool, default=False
        If True, estimate the ratio, second divided by first, in place of the difference, second minus first.
    design_effect : float, default=1.0
        Factor of the sampling variance, from public knowledge: above 1 for a sample of clusters such as households,
        and 0 for complete tables, such as registers, whose numbers differ by noise only.
    confidence_level : float, default=0.95
        Coverage of each interval.

    Returns
    -------
    pandas.DataFrame
        Row for each group and statistic (count, mean, sum and quantiles), or for each statistic of a `pair`, with the
        columns ``first, second, change, std_error, lower, upper, p_value``. The p-value is for the hypothesis of no
        change, with and without `ratio`. Numbers that were not released are missing.

    Raises
    ------
    TypeError, ValueError
        If the estimators are not fitted instances of `DPGroupBy` with the same groups and statistics, a group does not
        exist or contains the other one, or quantiles have no intervals or counts.

    See Also
    --------
    skdp.DPGroupBy.test_independence : Test for two keys.

    Notes
    -----
    **Privacy.** A function of both releases and of their parameters, without privacy cost.

    Both tables, or both groups, are independent samples of rows. The variance of an estimate is the variance of its
    noise plus the sampling variance: s**2 / n for a mean, n for a count, and n (s**2 + mean**2) for a sum. The
    deviation s is the released one plus its error, or without ``"std"`` the largest one of values between the
    bounds with this mean. With weights, n is the sum of weights divided by `max_weight`, which is at most the
    effective number of rows for any weights; `max_rows_per_person` divides it, too. So nothing else is released for
    a comparison, and p-values are too large rather than too small. The sampling variance of a quantile follows from
    its interval, whose endpoints are a known number of rows apart. P-values are the larger one of Student's t and
    of a Laplace distribution.

    If a person is in both tables, the ledger adds up the privacy losses. The values of one person are usually
    positively correlated over time; the change then varies less than stated.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPGroupBy
    >>> from skdp.central import compare_groups
    >>> rng = np.random.default_rng(0)
    >>> months = []
    >>> for month, mean in enumerate([40, 43]):
    ...     hours = pd.DataFrame({"hours": rng.normal(mean, 9, 4000).round()})
    ...     groups = DPGroupBy(by=None, bounds=(0, 100), statistics=["count", "mean", "std"], random_state=month)
    ...     months.append(groups.fit(hours))
    >>> compare_groups(*months).iloc[:, 2:].round(2)
                      change  std_error   lower   upper  p_value
    statistic
    count      total   -8.00      89.59 -197.78  181.78     0.93
    hours_mean total    3.24       0.21    2.79    3.69     0.00
    """
    check_flag("ratio", ratio)
    level = check_confidence_level(confidence_level)
    if not isinstance(design_effect, Real) or not 0 <= design_effect < math.inf:
        raise ValueError(f"`design_effect` must be a number >= 0, got {design_effect}.")
    if (second is None) == (pair is None):
        raise ValueError("Exactly one of `second` and `pair` is required.")
    check_releases("`first` must be a", [first])
    names, estimates = _list_estimates(first, design_effect)
    index = pd.Index(names, name="statistic")
    if second is None:
        parts = [estimates[..., group] for group in _read_pair(first, pair)]
    else:
        check_releases("`second` must be a", [second])
        others, changed = _list_estimates(second, design_effect)
        if first._domain != second._domain or names != others:
            raise ValueError("`second` must have the groups and statistics of `first`.")
        parts = [estimates, changed]
        cells = first._domain.cells() if first._domain.columns else [TOTAL]
        tables = dict.fromkeys(names, pd.DataFrame(index=cells))
        index = pd.concat(tables, names=index.names).index
    rows = [np.moveaxis(part, 1, 0).reshape(3, -1) for part in parts]
    return pd.DataFrame(_compare(*rows, level=level, ratio=ratio), index=index)


def check_releases(subject: str, releases: Sequence[Any]) -> None:
    """Raise an error, whose text begins with `subject`, for an object that is not a fitted `DPGroupBy`."""
    for release in releases:
        if not isinstance(release, DPGroupBy):
            kind = type(release).__name__
            raise TypeError(f"{subject} fitted DPGroupBy, got {kind}.")
        check_is_fitted(release)


def _read_pair(groups: DPGroupBy, pair: Any) -> list[int]:
    """Check the parameter `pair`, and return the indices of both groups."""
    cells = list(zip(*groups.keys_, strict=True))
    first, second = (group if isinstance(group, tuple) else (group,) for group in pair)
    for group in (first, second):
        if group not in cells:
            raise ValueError(f"`pair` must contain two groups of keys_, got {group}.")
    if all(a == b or TOTAL in (a, b) for a, b in zip(first, second, strict=True)):
        raise ValueError(f"`pair` must be two groups without common rows, got {pair}.")
    return [cells.index(first), cells.index(second)]


def _list_estimates(
    groups: DPGroupBy, design_effect: float
) -> tuple[list[str], Floats]:
    """Return the names of statistics; and estimates, errors and degrees of freedom, (n_statistics, 3, n_groups)."""
    # The variance of a sum of weights w is the sum of w**2, at most the largest weight
    # times the sum. The rows of a person count as one row with their number as weight.
    largest = (groups.max_weight or 1.0) * groups.max_rows_per_person
    found = {}
    if COUNT in groups.estimates_:
        value, error, *_ = groups.estimates_[COUNT].T
        n_rows = np.maximum(value, 0) + error
        variance = error**2 + design_effect * largest * n_rows
        found[COUNT] = value, np.sqrt(variance), np.full(value.shape, 1e9)
    for index, column in enumerate(groups._measured):
        found |= _list_of_column(groups, index, column, largest, design_effect)
    return list(found), np.array(list(found.values()))


def _list_of_column(
    groups: DPGroupBy, index: int, column: Any, largest: float, design_effect: float
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Return the estimates of a column, their errors and degrees of freedom, by name, (n_groups,) each."""
    given = {}
    for name in groups._statistics:
        if name != COUNT:
            given[name] = groups.estimates_[f"{column}_{name}"].T
    n_values = groups._n_values
    if n_values is None or groups._statistics.keys() <= {"std", "var"}:
        raise ValueError(
            "`statistics` must contain 'count' for a comparison, got none."
        )
    n = np.maximum(n_values[:, min(index, n_values.shape[1] - 1)], largest)
    mean, spread = _find_moments(given, n, *groups.bounds_[index])
    # The released variance is the sum of squares divided by the number of values.
    spread = spread * n / np.maximum(n - largest, largest / 2)
    variances = {"mean": spread / n, "sum": n * (spread + mean**2)}
    found = {}
    for name, (value, error, lower, upper) in given.items():
        probability = groups._probabilities.get(name)
        if name in variances:
            sampling = largest * variances[name]
        elif probability is not None:
            if not groups.intervals:
                raise ValueError("`intervals` must be True to compare quantiles.")
            p, margin = float(probability), np.maximum(value - lower, upper - value)
            error = margin / bound_quantile(groups.confidence_level)
            # Ranks between the quantile and an endpoint, of rows with the largest weight.
            ranks = 2 * ENDPOINT_LOG_ODDS * max(p, 1 - p) / groups._endpoint_epsilon
            sampling = (margin / ranks) ** 2 * n / largest * p * (1 - p)
        else:
            continue
        variance = error**2 + design_effect * sampling
        # The variance of the values has a degree of freedom less than rows, and the
        # variance of the noise is known (Welch and Satterthwaite).
        part = design_effect * sampling / np.maximum(variance, 1e-300)
        degrees = np.maximum(n / largest - 1, 1) / np.maximum(part**2, 1e-9)
        found[f"{column}_{name}"] = value, np.sqrt(variance), degrees
    return found


def _find_moments(
    given: Mapping[str, Floats], n: Floats, low: float, high: float
) -> tuple[Floats, Floats]:
    """Return means and upper estimates of variances of values between the bounds, (n_groups,)."""
    if "mean" in given:
        mean, error = given["mean"][:2]
    elif "sum" in given:
        mean, error = given["sum"][:2] / n
    else:
        mean, error = np.full((2, n.size), (low + high) / 2)
    error = np.minimum(error, (high - low) / 2)
    mean = np.clip(mean, low + error, high - error)
    spread = (mean - low) * (high - mean)
    for name, power in (("std", 2), ("var", 1)):
        if name in given:
            value, error, *_ = given[name]
            spread = np.fmin(spread, (value + error) ** power)
    return mean, spread


def _compare(
    first: Floats, second: Floats, *, level: float, ratio: bool
) -> dict[str, Floats]:
    """Return the columns of the result; `first` and `second` have estimates, errors and degrees of freedom as rows."""
    (a, a_error, a_degrees), (b, b_error, b_degrees) = first, second
    change, error = b - a, np.hypot(a_error, b_error)
    ratios = np.array([a_error, b_error]) / np.maximum(error, 1e-300)
    degrees = 1 / np.maximum(ratios**4 / [a_degrees, b_degrees], 1e-9).sum(axis=0)
    factor = np.fmax(t.ppf((1 + level) / 2, degrees), bound_quantile(level))
    z = np.abs(change) / np.maximum(error, 1e-300)
    p_value = np.maximum(2 * t.sf(z, degrees), np.exp(-math.sqrt(2) * z))
    lower, upper = change - factor * error, change + factor * error
    if ratio:
        # Fieller's interval: all x with |b - x a| within the margin of its noise.
        with np.errstate(divide="ignore", invalid="ignore"):
            change = b / a
            error = np.hypot(b_error, change * a_error) / np.abs(a)
            square = a**2 - (factor * a_error) ** 2
            rest = b**2 - (factor * b_error) ** 2
            root = np.sqrt(np.maximum((a * b) ** 2 - square * rest, 0))
            lower = np.where(square > 0, (a * b - root) / square, -np.inf)
            upper = np.where(square > 0, (a * b + root) / square, np.inf)
    return {
        "first": a,
        "second": b,
        "ratio" if ratio else "change": change,
        "std_error": error,
        "lower": lower,
        "upper": upper,
        "p_value": p_value,
    }
