"""Changes between two releases of groups, and differences of two groups of a release."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats
from skdp.base import (
    K_NORM,
    ErrorDistribution,
    check_confidence_level,
    check_design_effect,
    check_flag,
)
from skdp.central._sums import find_ratios_within
from skdp.central.groups._found_keys import TOTAL
from skdp.central.groups._group_by import COUNT, DPGroupBy
from skdp.central.groups._sampling import (
    check_ranks,
    find_unknown_deviations,
    list_sampling_variances,
)
from skdp.central.statistics import make_index, warn_user


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
        columns ``first, second, change, std_error, lower, upper, p_value``. The first level of the index is
        ``statistic``, or ``statistic_`` if a key has this name. The p-value is for the hypothesis of no change, with
        and without `ratio`. Numbers that were not released are missing.

    Raises
    ------
    TypeError, ValueError
        If the estimators are not fitted instances of `DPGroupBy` with the same groups, statistics, bounds and use of
        weights, a group does not exist or contains the other one, or quantiles have no counts or no intervals of a
        level of at least 0.5.

    Warns
    -----
    UserWarning
        If standard errors of means or sums are upper bounds, because ``"std"`` was not released.

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
    of a Laplace distribution, and for sums with Gaussian noise of Student's t.

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
    design_effect = check_design_effect(design_effect)
    if (second is None) == (pair is None):
        raise ValueError("Exactly one of `second` and `pair` is required.")
    releases = [first, first if second is None else second]
    check_releases("`first` and `second`", releases)
    if design_effect:
        _warn_of_unknown_deviations(first)
    before, after = (_list_estimates(each, design_effect) for each in releases)
    cells: Any = make_index(first._domain, first._codes)
    cells = [TOTAL] if cells is None else cells
    groups: Any = [slice(None)] * 2
    if pair is not None:
        groups, cells = _find_pair(first, pair), [TOTAL]
    tables = {}
    quantiles = tuple(f"_{name}" for name in first._probabilities)
    is_gaussian = all(release._noise[0] for release in releases)
    for name in before:
        parts = before[name][:, groups[0]], after[name][:, groups[1]]
        is_normal = is_gaussian and not name.endswith(quantiles)
        noise = "normal" if is_normal else "k_norm"
        columns = _compare(*parts, noise=noise, level=level, ratio=ratio)
        tables[name] = pd.DataFrame(columns, index=cells)
    level_name = "statistic"
    while level_name in first._domain.columns:
        level_name += "_"
    table = pd.concat(tables, names=[level_name])
    return table if pair is None else table.droplevel(1)


def check_releases(parameters: str, releases: Sequence[Any]) -> None:
    """Raise an error that begins with parameters, unless releases have equal groups, statistics, bounds and weights."""
    for release in releases:
        if not isinstance(release, DPGroupBy):
            kind = type(release).__name__
            raise TypeError(f"{parameters} must be fitted DPGroupBy, got {kind}.")
        check_is_fitted(release)
    # Keys of releases with totals have one more value.
    for name in "totals", "keys", "statistics", "bounds", "sample_weight":
        facts = [_list_facts(release)[name] for release in releases]
        if any(fact != facts[0] for fact in facts):
            hint = ""
            if name == "bounds":
                hint = " Limits that are found differ: declare `bounds_` of the first."
            raise ValueError(
                f"{parameters} must have the same `{name}`, in the same order.{hint}"
            )


def _list_facts(release: DPGroupBy) -> dict[str, Any]:
    """Return the facts that releases must have in common, by parameter."""
    limits = getattr(release, "bounds_", None)  # None for counts
    return {
        "keys": (release._domain, [keys.tolist() for keys in release.keys_]),
        "statistics": list(release.estimates_),
        "totals": dict(release.guarantee_.method).get("totals"),
        "bounds": None if limits is None else limits.tolist(),
        "sample_weight": release._is_weighted,
    }


def _warn_of_unknown_deviations(groups: DPGroupBy) -> None:
    """Warn of columns whose sampling variance is a bound."""
    bounds = vars(groups).get("bounds_")  # None for counts
    names = find_unknown_deviations(groups, groups._measured, bounds)
    if names:
        warn_user(
            f"Standard errors of means and sums of {names} are upper bounds, which may be "
            "several times too large, because 'std' is not in `statistics`",
            "guide/intervals",
        )


def _find_pair(groups: DPGroupBy, pair: Any) -> list[list[int]]:
    """Check the parameter `pair`, and return the index of each group in a list."""
    cells = list(zip(*groups.keys_, strict=True))
    pair = list(pair)
    if len(pair) != 2:
        raise ValueError(f"`pair` must contain two groups of keys_, got {len(pair):,}.")
    for group in pair:
        if not isinstance(group, Hashable):
            raise TypeError(
                "A group of `pair` must be a value, or a tuple of the values of all keys, "
                f"got {type(group).__name__}."
            )
    pair = [group if isinstance(group, tuple) else (group,) for group in pair]
    if set(pair) <= set(cells):
        for a, b in zip(*pair, strict=True):
            if a != b and TOTAL not in (a, b):
                return [[cells.index(group)] for group in pair]
    given = {part.casefold() for part in chain(*pair) if isinstance(part, str)}
    labels = {label for label in chain(*cells) if isinstance(label, str)}
    similar = [x for x in labels - {*chain(*pair)} if x.casefold() in given]
    hint = f" Did you mean {' and '.join(map(repr, sorted(similar)))}?"
    raise ValueError(
        "`pair` must contain two groups of keys_, without common rows, got "
        f"{pair}.{hint if similar else ''}"
    )


def _list_estimates(groups: DPGroupBy, design_effect: float) -> dict[str, Floats]:
    """Return the estimates of each statistic, with their errors and degrees of freedom, (3, n_groups) each."""
    if groups._moments is None or groups._statistics.keys() <= {"std", "var"}:
        raise ValueError(
            "`statistics` must contain 'count' for a comparison, got none."
        )
    check_ranks(groups)
    # The noise, the sampling variance of rows, and degrees of freedom.
    parts = {}
    if COUNT in groups.estimates_:
        value, noise, *_ = groups.estimates_[COUNT].T
        variance = groups._find_sampling_factor(1.0) * (np.maximum(value, 0) + noise)
        parts[COUNT] = noise, variance, value + np.inf
    for index, column in enumerate(groups._measured):
        degrees, variances = list_sampling_variances(groups, index)
        for statistic in groups._statistics:
            if statistic in {COUNT, "std", "var"}:
                continue
            name = f"{column}_{statistic}"
            value, noise, lower, upper = groups.estimates_[name].T
            if statistic in groups._probabilities:
                margin = np.maximum(value - lower, upper - value)
                noise = margin / K_NORM.quantile(groups.confidence_level)
            variance = np.atleast_2d(variances[statistic]).max(axis=0)
            parts[name] = noise, variance, degrees
    estimates = {}
    for name, (noise, variance, degrees) in parts.items():
        error = np.sqrt(noise**2 + design_effect * variance)
        estimates[name] = np.array([groups.estimates_[name][:, 0], error, degrees])
    return estimates


def _compare(
    first: Floats, second: Floats, *, noise: Any, level: float, ratio: bool
) -> dict[str, Floats]:
    """Return the columns of the result; `first` and `second` have estimates, errors and degrees of freedom as rows."""
    (a, a_error, a_degrees), (b, b_error, b_degrees) = first, second
    change, error = b - a, np.hypot(a_error, b_error)
    degrees = np.minimum(a_degrees, b_degrees)
    distribution = ErrorDistribution(degrees, noise)
    p_value = distribution.p_value(change / np.maximum(error, 1e-300))
    lower, upper = distribution.confidence_interval(change, error, level)
    if ratio:
        with np.errstate(divide="ignore", invalid="ignore"):
            change = b / a
            error = np.hypot(b_error, change * a_error) / np.abs(a)
            a_error = np.maximum(a_error, 1e-100)
            margin = distribution.quantile(level) * a_error / np.abs(a)
            lower, upper = find_ratios_within(change, margin, (b_error / a_error) ** 2)
    return {
        "first": a,
        "second": b,
        "ratio" if ratio else "change": change,
        "std_error": error,
        "lower": lower,
        "upper": upper,
        "p_value": p_value,
    }
