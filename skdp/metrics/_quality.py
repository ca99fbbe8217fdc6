"""Quality letters of estimates by their coefficients of variation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Floats, TableLike
from skdp.base import NORMAL, check_confidence_level, check_flag
from skdp.tables import choose_library, convert_frame, is_frame

# The largest coefficient of variation of each letter, see `grade_estimates`.
LETTERS = {"A": 0.05, "B": 0.10, "C": 0.15, "D": 0.25, "E": 1 / 3}
WORST = "F"

# Names of the columns after an estimate; medians have no standard error.
INTERVAL_PARTS = ("std_error", "lower", "upper")


def grade_estimates(
    table: TableLike,
    *,
    suppress: bool = False,
    confidence_level: float = 0.95,
    estimates: Iterable[str] | None = None,
) -> Any:
    """Add quality letters to a table of estimates, by their coefficients of variation.

    Parameters
    ----------
    table : dataframe
        Estimates with intervals: the result of `DPGroupBy.to_frame`, `DPHistogram.to_frame`, `DPMean.to_frame`,
        `skdp.survey.survey_mean` or another function of skdp, whose columns end in ``lower`` and ``upper``.
    suppress : bool, default=False
        If True, estimates of quality F, with their standard errors and intervals, are missing in the result.
    confidence_level : float, default=0.95
        Coverage of the intervals of estimates without a standard error, such as medians.
    estimates : iterable of str, optional
        Columns with estimates, such as ``estimates_`` of `DPGroupBy`. By default, the columns that are followed by
        their interval, ``<estimate>_lower`` and ``<estimate>_upper`` or ``lower`` and ``upper``, from the first one
        with a standard error. Keys are before it, so a key may be named like a bound.

    Returns
    -------
    same type as table
        Table with a column ``<estimate>_quality`` after the interval of each estimate (``quality`` if the interval is
        ``lower`` and ``upper``). Estimates that were not released have no letter.

    Raises
    ------
    TypeError, ValueError
        If the table is not a dataframe, has no intervals, or already has letters.

    See Also
    --------
    skdp.DPGroupBy : Statistics of groups; pass ``to_frame(design_effect=1)`` to grade the sampling error, too.
    skdp.survey.survey_mean : Means of samples, whose letters are for noise and sampling error.

    Notes
    -----
    **Privacy.** A function of the released table, without privacy cost.

    The coefficient of variation is the standard error divided by the absolute value of the estimate. For an estimate
    without a standard error, the standard error is half of the width of the interval, divided by the quantile of the
    normal distribution. If the interval is not symmetric, it is increased by the ratio of the longer side to half of
    the width. An estimate without a standard error and with a letter from A to E is therefore at most 2.9 times as
    large as each number in its interval of 95 %.

    The letters are A (excellent) below 5 %, B (very good) below 10 %, C (good) below 15 %, D (acceptable) below 25 %,
    E (use with caution), and F (too unreliable to be published), from 33.3 %, or if the interval contains 0. Letters
    and words are standard table symbols of Statistics Canada ([1]_), whose guide states no limits, because they differ
    by program. The limits of A to D are those of its Quarterly Financial Statistics for Enterprises (61-008-X), and
    33.3 % is the limit of its Canadian Community Health Survey; both are taken from quotations in other publications.

    References
    ----------
    .. [1] Statistics Canada. Standard table symbols. https://www.statcan.gc.ca/eng/concepts/definitions/guide-symbol

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import grade_estimates
    >>> counts = pd.DataFrame({"count": [812, 61, 9], "std_error": 7.1})
    >>> counts["lower"], counts["upper"] = counts["count"] - 15, counts["count"] + 15
    >>> grade_estimates(counts, suppress=True)
       count  std_error  lower  upper quality
    0    812        7.1    797    827       A
    1     61        7.1     46     76       C
    2   <NA>        NaN   <NA>   <NA>       F
    """
    check_flag("suppress", suppress)
    z = NORMAL.quantile(check_confidence_level(confidence_level))
    if not is_frame(table):
        raise TypeError(f"`table` must be a dataframe, got {type(table).__name__}.")
    frame = nw.from_native(table, eager_only=True).to_pandas().copy()
    names = list(map(str, frame))
    blocks = _find_blocks(names, estimates)
    added = [f"{prefix}quality" for *_, prefix in blocks]
    if (not blocks and estimates is None) or not set(names).isdisjoint(added):
        raise ValueError(
            "`table` must have columns with intervals, and no quality letters, got "
            f"{names}. Pass the result of the method to_frame."
        )
    # From the last one, so that new columns do not move the other ones.
    for start, end, prefix in reversed(blocks):
        part = frame.columns[start:end]
        letters = _grade(frame[part].astype(float).to_numpy(), z)
        if suppress:
            whole = frame[part].select_dtypes("integer")
            frame = frame.astype(dict.fromkeys(whole, "Int64"))
            frame.loc[letters == WORST, part] = None
        frame.insert(end, f"{prefix}quality", letters)
    library = choose_library(table)
    if library == "pyarrow":
        return nw.from_native(frame, eager_only=True).to_arrow()
    return convert_frame(frame, library)


def _find_blocks(
    names: list[str], estimates: Iterable[str] | None
) -> list[tuple[int, int, str]]:
    """Return the slice of each estimate with its error and interval, and the prefix of the names of its interval."""
    blocks: list[tuple[int, int, str]] = []
    for start, name in enumerate(names):
        for prefix, parts in product(
            (f"{name}_", ""), (INTERVAL_PARTS, INTERVAL_PARTS[1:])
        ):
            end = start + 1 + len(parts)
            is_block = names[start + 1 : end] == [prefix + part for part in parts]
            # A standard error before an interval is a part of the estimate before it.
            if is_block and not (blocks and start < blocks[-1][1]):
                blocks.append((start, end, prefix))
    if estimates is not None:
        chosen = set(estimates)
        return [block for block in blocks if names[block[0]] in chosen]
    with_error = [block for block in blocks if block[1] - block[0] == 4]
    first = with_error[0][0] if with_error else 0
    return [block for block in blocks if block[0] >= first]


def _grade(numbers: Floats, z: float) -> NDArray[np.object_]:
    """Return the letters of estimates, (n_rows,); None for an estimate without an interval.

    `numbers` has the estimates, standard errors if they have any, and both bounds of intervals as columns.
    """
    value, *errors, lower, upper = numbers.T
    half = (upper - lower) / 2
    longer = np.maximum(value - lower, upper - value)
    with np.errstate(over="ignore", invalid="ignore"):
        skew = np.divide(longer, half, out=np.ones_like(half), where=half > 0)
        error = skew * (errors[0] if errors else half / z)
        variation = error / np.maximum(np.abs(value), 1e-300)
    # A missing number has no letter if it was not released, and the worst if it was noise
    # (`searchsorted` places nan last).
    variation[(lower <= 0) & (upper >= 0) & (lower < upper)] = np.inf
    codes = np.searchsorted([*LETTERS.values()], variation, side="right")
    letters = np.array([*LETTERS, WORST], object)[codes]
    letters[np.isnan(value) & np.isnan(lower)] = None
    return letters
