"""Pairs of numbers whose rank correlation is hidden by the noise of few records outside of one bin."""

from __future__ import annotations

import math

import numpy as np

from skdp.base import find_stack_level
from skdp.pages import warn
from skdp.synthesis.answers._fitted_table import FittedTable
from skdp.synthesis.measure import list_ordered
from skdp.synthesis.model import Clique, merge_marginals, sum_value_groups

MAX_STD_ERROR = 0.125
"""Largest standard error of a correlation by usable counts: that of 4 even cells with noise of 0.1."""

MIN_VARIANCE = 1e-12
"""Smallest variance of ranks of bins: below, one bin has all rows, and no count shows a correlation."""


def find_hidden(fitted: FittedTable) -> set[Clique]:
    """Find the measured pairs of columns with found bins whose noise hides a rank correlation."""
    n_ordered, (n_rows, _) = list_ordered(fitted.domain), fitted.n_rows
    errors: dict[Clique, float] = {}
    for pair in merge_marginals(fitted.counts.marginals):
        is_found = fitted.found.issuperset(fitted.name_columns(pair.clique))
        if len(pair.clique) != 2 or not is_found:
            continue
        modeled = fitted.counts.model.marginal(pair.clique)
        proportions = sum_value_groups(modeled, pair.groups)
        std_error = pair.std_error / n_rows
        for axis, column in enumerate(pair.clique):
            members, last = pair.groups_of(column), n_ordered[column] - 1
            weights = proportions.sum(axis=1 - axis)
            # Missing values have no rank.
            weights = weights[: (last if members is None else int(members[last])) + 1]
            ranks = weights.cumsum() - weights / 2 - weights.sum() / 2
            variance = float(weights @ ranks**2)
            if variance < MIN_VARIANCE:
                std_error = math.inf
            else:
                std_error *= math.sqrt(float(np.square(ranks).sum()) / variance)
        errors[pair.clique] = min(std_error, errors.get(pair.clique, math.inf))
    return {pair for pair, std_error in errors.items() if std_error > MAX_STD_ERROR}


def warn_hidden(fitted: FittedTable) -> None:
    """Warn of the pairs of columns with found bins whose noise hides a rank correlation."""
    names = [repr(fitted.name_columns(pair)) for pair in sorted(find_hidden(fitted))]
    if names:
        more = [f"and {len(names) - 3} more"] * (len(names) > 3)
        warn(
            f"Noise hides the rank correlation of {len(names)} measured pairs, and "
            f"synthetic rows may lose it: {', '.join([*names[:3], *more])}. Increase "
            "`epsilon`, set a `delta`, or declare narrower bounds",
            UserWarning,
            about="guide/synthetic_tables#accuracy",
            stacklevel=find_stack_level(),
        )
