"""Reports that no truth explains: counts beyond those that any true values would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from skdp.survey._design import ReportDesign
from skdp.survey._likelihood import Numbers

_FALSE_ALARM = 1e-6
"""Of each share, where the channel holds."""


def unexplained_share(designs: Any, table: pd.DataFrame) -> str | None:
    """Return what is wrong with the share of a report, for the first design that has such a share."""
    if not isinstance(designs, list | tuple):
        designs = [designs]
    for design in designs:
        # The channel of an unknown number is not known.
        if not isinstance(design, ReportDesign) or design.unknown is not None:
            continue
        for key, channel in design.channels.items():
            column = table[design.column]
            if design.group is not None:
                column = column[table[design.group] == key]
            counts = np.array([int((column == each).sum()) for each in design.reports])
            place, how = _least_probable(counts, channel)
            if how is not None:
                least, largest = channel[:, place].min(), channel[:, place].max()
                group = "" if design.group is None else f" of group {key!r}"
                return (
                    f"column {design.column!r} holds {how} {design.reports[place]!r} "
                    f"than any truth gives: {counts[place] / counts.sum():.1%} of the "
                    f"reports{group}, where the channel gives {least:.1%} to "
                    f"{largest:.1%}. The design has wrong probabilities, or people "
                    "do not follow the instruction (see ReportDesign.with_cheaters)"
                )
    return None


def _least_probable(
    counts: np.ndarray[Any, Any], channel: Numbers
) -> tuple[int, str | None]:
    """Return a report whose count is too small or too large, and which of both; None if all can be."""
    # Given true values, reports are independent, and each has at least the least
    # probability of its column: so the count is larger, in distribution, than that of as
    # many coins of that probability. This holds for dependent true values, too.
    n_reports = counts.sum()
    of_fewer = stats.binom.cdf(counts, n_reports, channel.min(axis=0))
    if of_fewer.min() < _FALSE_ALARM:
        return int(of_fewer.argmin()), "fewer"
    of_more = stats.binom.sf(counts - 1, n_reports, channel.max(axis=0))
    if of_more.min() < _FALSE_ALARM:
        return int(of_more.argmin()), "more"
    return 0, None
