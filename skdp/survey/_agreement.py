"""Warnings of reports that contradict a design, and of fits whose errors do not hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from skdp.base import level_of_the_caller
from skdp.pages import warn
from skdp.survey._likelihood import Numbers


class ModelWarning(UserWarning):
    """Warning that a model does not fit what it was fitted to, so that its errors do not hold."""


def warn_of_impossible(
    column: Any,
    names: Sequence[Any],
    estimates: Numbers,
    excess: Numbers,
    errors: Numbers,
) -> None:
    """Warn of the estimate that is furthest outside its range, if chance hardly gives one.

    `excess` is how far each estimate is outside; `errors` are of possible numbers.
    """
    distances = excess / np.maximum(errors, np.finfo(float).tiny)
    worst = int(distances.argmax())
    # Below 1e-6 by chance, also in small samples: tests enumerate their reports.
    max_standard_errors = 6.0
    if distances[worst] <= max_standard_errors:
        return
    warn(
        f"the reports in column {column!r} give the impossible share "
        f"{estimates[worst]:.3g} of {names[worst]!r}, {distances[worst]:.0f} standard "
        "errors outside its range. The design has wrong probabilities, groups are "
        "exchanged, or people do not follow the instruction",
        ModelWarning,
        about="guide/report_regression#warnings",
        stacklevel=level_of_the_caller(),
    )


def warn_of_groups_that_differ(
    column: Any, weights: Numbers, squares: Numbers, expected: Numbers, n_free: int
) -> None:
    """Warn if reports differ from those that were fitted, of n_free parameters, beyond chance.

    `weights` and `squares` are the sums of weights and of their squares,
    (n_groups, n_reports); `expected` the probabilities of the fit.
    """
    totals = weights.sum(axis=1)
    has_rows = totals > 0
    weights, squares, expected = (
        weights[has_rows],
        squares[has_rows],
        expected[has_rows],
    )
    totals = totals[has_rows][:, np.newaxis]
    observed = weights / totals
    n_reports = _effective(observed, squares, totals)
    gaps = n_reports * (observed - expected)
    # Reports of a kind in a group, from which on the chi-squared distribution holds
    # (Cochran 1954); of fewer, the difference counts less.
    least_expected = 5.0
    variances = np.maximum(n_reports * expected, least_expected)
    statistic = float((gaps**2 / variances).sum())
    # The shares of a group add up to 1.
    degrees = int((expected > 0).sum()) - len(expected) - n_free
    # Of an estimate from groups that agree.
    false_alarm = 1e-4
    if degrees < 1 or stats.chi2.sf(statistic, degrees) >= false_alarm:
        return
    warn(
        f"no shares explain the reports in column {column!r} of all groups (chi-squared "
        f"{statistic:.0f}, {degrees} degrees of freedom), and estimates may be far off: "
        "people do not follow (estimate cheaters), the design has wrong probabilities, "
        "or groups are no random parts of the sample and have shares of their own "
        "(estimate each group by itself)",
        ModelWarning,
        about="guide/report_regression#warnings",
        stacklevel=level_of_the_caller(),
    )


def _effective(observed: Numbers, squares: Numbers, totals: Numbers) -> Numbers:
    """Return how many reports of weight 1 have shares of the variance of those of a group: (n_groups, 1)."""
    variances = squares * (1 - 2 * observed)
    variances = variances + observed**2 * squares.sum(axis=1, keepdims=True)
    variances = variances / totals**2
    # Without variance, as of a report that no one gave, a share says nothing of it.
    of_reports = np.full_like(observed, np.inf)
    np.divide(observed * (1 - observed), variances, out=of_reports, where=variances > 0)
    kish = totals**2 / squares.sum(axis=1, keepdims=True)
    least = of_reports.min(axis=1, keepdims=True)
    return np.minimum(least, kish)


def warn_of_no_end(column: Any) -> None:
    """Warn that the search for shares goes round in circles."""
    warn(
        f"the search for the shares of column {column!r} does not end, and estimates mean "
        "nothing: the reports are far from those of any shares. People do not follow, "
        "or the design has wrong probabilities",
        ConvergenceWarning,
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
    # Of columns of length 1; rounding leaves some 1e-16 times the number of columns.
    least_pivot = 1e-9
    return list(names[pivots < least_pivot])
