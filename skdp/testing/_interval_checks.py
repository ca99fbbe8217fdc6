"""Check of the coverage of intervals over all draws, including those without an interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from skdp.base import check_confidence_level

FALSE_ALARM = 1e-6


def check_intervals(
    estimate: Callable[[int], Any],
    truth: Any,
    *,
    confidence_level: float = 0.95,
    n_repeats: int = 400,
    tolerance: float = 0.02,
    possible: Any = None,
) -> pd.DataFrame:
    """Check the coverage of intervals over all draws, not only over those that show them.

    A metric that is shown only where it looks reliable is selected by its own noise: its intervals may cover less often
    than stated, given that they are shown. A draw that hides an interval therefore counts as a miss.

    Parameters
    ----------
    estimate : callable
        Called with 0, 1, ..., it draws new noise (and new rows, if the truth is that of a population) and returns the
        estimates: a DataFrame with the columns ``lower`` and ``upper`` and, optionally, ``value``; a row per quantity.
    truth : Series, mapping or array-like of shape (n_quantities,)
        The true values. Rows of the estimates are matched by the index of a Series or the keys of a mapping, where a
        missing row is hidden; those of an array by position.
    confidence_level : float, default=0.95
        The stated coverage of each interval, between 0 and 1.
    n_repeats : int, default=400
        Number of draws, at least 20.
    tolerance : float, default=0.02
        The tolerated lack of coverage, from 0 to below the confidence level.
    possible : tuple of two array-likes, optional
        The least and the largest possible value of each quantity: no value and no end may lie beyond.

    Returns
    -------
    pandas.DataFrame
        One row per quantity: ``truth``, the shares of draws that ``shown`` an interval and that ``covered`` the truth,
        and ``covered_of_shown``, the share of the shown ones that cover it.

    Raises
    ------
    AssertionError
        If a quantity is covered too rarely, or the ends of an interval are reversed or impossible.
    TypeError, ValueError
        If a parameter is out of range, or the estimates have no such columns or another number of rows.

    See Also
    --------
    check_privatizer : The contract of transformers that privatise rows.

    Notes
    -----
    **Privacy.** Compares with the truth: for synthetic or public rows only.

    **False alarms.** If every interval covers with a probability of at least ``confidence_level - tolerance``, and
    draws are independent, the check fails with a probability of at most 1e-6, over all quantities together. Intervals
    that cover 56 % are detected in 400 draws with a probability above 1 - 1e-6. The draws follow the seeds, so that
    an estimator with seeds gives the same answer every time.

    Examples
    --------
    The mean of 20 normal numbers, with their standard deviation known:

    >>> import numpy as np
    >>> def interval(seed):
    ...     mean = np.random.default_rng(seed).normal(size=20).mean()
    ...     return pd.DataFrame({"lower": [mean - 1.96 / 20**0.5], "upper": [mean + 1.96 / 20**0.5]})
    >>> check_intervals(interval, [0.0])
       truth  shown  covered  covered_of_shown
    0    0.0    1.0    0.955             0.955

    If only means that differ from 0 are shown, hardly any interval covers:

    >>> def selected(seed):
    ...     found = interval(seed)
    ...     return found.where((found["lower"] > 0) | (found["upper"] < 0))
    >>> check_intervals(selected, [0.0])
    Traceback (most recent call last):
        ...
    AssertionError: 1 of 1 quantities are covered too rarely in 400 draws; 0: 0.0% (of the 4.5% that are shown: 0.0%)
    """
    level = check_confidence_level(confidence_level)
    if isinstance(n_repeats, bool | np.bool_) or not isinstance(n_repeats, Integral) or n_repeats < 20:
        raise ValueError(f"n_repeats must be an integer of at least 20, got {n_repeats!r}")
    if isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not 0 <= tolerance < level:
        raise ValueError(f"tolerance must be a number from 0 to below {level}, got {tolerance!r}")
    named = isinstance(truth, pd.Series | Mapping)
    true = pd.Series(truth, dtype=float)
    if true.empty or true.isna().any() or not true.index.is_unique:
        raise ValueError("truth must hold at least one number, none of them missing, each with a name of its own")
    truths = true.to_numpy()  # pandas takes longer for each draw than most estimators
    limits = [np.broadcast_to(np.asarray(end, float), len(true)) for end in possible or (-np.inf, np.inf)]
    shown, covered = np.zeros((2, len(true)))
    for seed in range(n_repeats):
        lower, upper, value = _read(estimate(seed), true, named)
        both = ~(np.isnan(lower) | np.isnan(upper))
        if (lower > upper).any():
            raise AssertionError(f"draw {seed} has an interval whose lower end is above its upper end")
        for name, column in (("value", value), ("lower end", lower), ("upper end", upper)):
            if ((column < limits[0]) | (column > limits[1])).any():
                raise AssertionError(f"draw {seed} has an impossible {name}")
        shown += both
        covered += both & (lower <= truths) & (truths <= upper)
    table = pd.DataFrame({"truth": true, "shown": shown / n_repeats, "covered": covered / n_repeats})
    table["covered_of_shown"] = np.divide(covered, shown, out=np.full(len(true), np.nan), where=shown > 0)
    rare = covered < binom.ppf(FALSE_ALARM / len(true), n_repeats, level - tolerance)
    if rare.any():
        names = "; ".join(
            f"{name}: {row.covered:.1%} (of the {row.shown:.1%} that are shown: {row.covered_of_shown:.1%})"
            for name, row in table[rare].iterrows()
        )
        raise AssertionError(
            f"{rare.sum()} of {len(true)} quantities are covered too rarely in {n_repeats} draws; {names}"
        )
    return table


def _read(found: Any, true: pd.Series, named: bool) -> list[NDArray[Any]]:
    """Return the lower and upper ends and the values, nan where there is none."""
    if not isinstance(found, pd.DataFrame) or not {"lower", "upper"} <= set(found.columns):
        raise TypeError(f"estimate must return a DataFrame with columns lower and upper, got {type(found).__name__}")
    if named:
        found = found.reindex(true.index)
    if len(found) != len(true):
        raise ValueError(f"estimate must return a row for each of {len(true)} quantities, got {len(found)}")
    absent = np.full(len(found), np.nan)
    return [found[name].to_numpy(float) if name in found else absent for name in ("lower", "upper", "value")]
