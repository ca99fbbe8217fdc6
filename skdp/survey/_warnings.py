"""What a fit warns of: reports that no truth explains, few clusters, and likelihoods without a maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from skdp.base import level_of_the_caller
from skdp.pages import warn
from skdp.survey._agreement import ModelWarning, unexplained_share, warn_of_share
from skdp.survey._design import ReportDesign, report_counts

_LEAST_PIVOT = 1e-9
"""Of columns of length 1; rounding leaves some 1e-16 times the number of columns."""


def warn_of_unexplained(designs: Any, table: pd.DataFrame) -> None:
    """Warn if no true values explain the reports of a table."""
    problem = _unexplained_share(designs, table)
    if problem is not None:
        warn_of_share(problem)


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
        if isinstance(design, ReportDesign):
            problem = unexplained_share(design, report_counts(design, table))
            if problem is not None:
                return problem
    return None
