"""What a fit warns of: reports that no truth explains, few clusters, and likelihoods without a maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from skdp.base import level_of_the_caller
from skdp.pages import warn
from skdp.survey._agreement import ModelWarning
from skdp.survey._design import ReportDesign, report_counts
from skdp.survey._likelihood import Numbers

_FALSE_ALARM = 1e-6
"""Of each share, where the channel holds."""

_LEAST_PIVOT = 1e-9
"""Of columns of length 1; rounding leaves some 1e-16 times the number of columns."""


def warn_of_unexplained(designs: Any, table: pd.DataFrame) -> None:
    """Warn if no true values explain the reports of a table."""
    problem = _unexplained_share(designs, table)
    if problem is not None:
        warn(
            problem,
            ModelWarning,
            about="guide/report_regression#warnings",
            stacklevel=level_of_the_caller(),
        )


def warn_of_few_clusters(n_clusters: int, n_expected: int) -> None:
    """Warn that errors of so few clusters are too small."""
    warn(
        f"errors of {n_clusters} clusters, fewer than {n_expected}, are too small, "
        "although intervals take t quantiles. Strata are no clusters: if these are "
        "strata, leave them out",
        ModelWarning,
        about="guide/report_regression#warnings",
        stacklevel=level_of_the_caller(),
    )


def warn_of_no_maximum(known: pd.DataFrame) -> None:
    """Warn that errors are not known, with the true predictors that tell each other."""
    text = (
        "the reports say too little: the likelihood has no clear maximum, and errors are "
        "not known. There are too few rows for this epsilon, too many parameters, or "
        "predictors that tell the target exactly"
    )
    names = _dependent_names(known)
    if names:
        text = (
            "predictors tell each other, so that their coefficients and all errors are "
            f"not known: leave out {', '.join(map(repr, names))}, each constant or a "
            "linear combination of the columns before it"
        )
    warn(
        text,
        ConvergenceWarning,
        about="guide/report_regression#warnings",
        stacklevel=level_of_the_caller(),
    )


def _dependent_names(known: pd.DataFrame) -> list[Any]:
    """Return the names of the columns that are linear combinations of the columns before them."""
    matrix = known.to_numpy()
    norms = np.linalg.norm(matrix, axis=0)
    norms[norms == 0] = 1
    triangle = np.linalg.qr(matrix / norms, mode="r")
    # A pivot is what the columns before leave of a column, relative to its length.
    pivots = np.abs(np.diag(triangle))
    names = known.columns[: len(pivots)]
    return list(names[pivots < _LEAST_PIVOT])


def _unexplained_share(designs: Any, table: pd.DataFrame) -> str | None:
    """Return what is wrong with the share of a report, for the first design that has such a share."""
    if not isinstance(designs, list | tuple):
        designs = [designs]
    for design in designs:
        # The channel of an unknown number is not known.
        if not isinstance(design, ReportDesign) or design.unknown is not None:
            continue
        counts_of_groups = report_counts(design, table)
        for group, counts in zip(design.channels, counts_of_groups, strict=True):
            channel = design.channels[group]
            place, how = _least_probable(counts, channel)
            if how is not None:
                least, largest = channel[:, place].min(), channel[:, place].max()
                of_group = "" if design.group is None else f" of group {group!r}"
                return (
                    f"column {design.column!r} holds {how} {design.reports[place]!r} "
                    f"than any truth gives: {counts[place] / counts.sum():.1%} of the "
                    f"reports{of_group}, where the channel gives {least:.1%} to "
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
