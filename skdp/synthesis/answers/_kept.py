"""Rank correlations of measured pairs that a model keeps, from noisy counts: no privacy loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skdp._arrays import Floats
from skdp.base import find_stack_level
from skdp.pages import warn
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis.answers._fitted_table import FittedTable
from skdp.synthesis.measure import list_ordered
from skdp.synthesis.model import (
    ColumnModel,
    NoisyCounts,
    merge_marginals,
    sum_value_groups,
)

MIN_KEPT, MAX_ERROR = 0.9, 0.1
"""Part of a correlation below which `fit` warns, and largest standard error of a part that is stated."""

MIN_WEIGHT = 1e-12
"""Smallest standard deviation of ranks, and smallest correlation, by which is divided."""

Kept = Mapping[tuple[Any, ...], tuple[float, float]]
"""The correlation of a model divided by the noisy one, and the standard error of the ratio, by names of a pair."""


def measure_kept(fitted: FittedTable) -> Kept:
    """Compare the rank correlation of each measured pair of ordered columns by the model with its noisy counts."""
    model, n_ordered = fitted.counts.model, list_ordered(fitted.domain)
    n_rows, _ = fitted.n_rows
    kept: dict[tuple[Any, ...], tuple[float, float]] = {}
    for pair in merge_marginals(fitted.counts.marginals):
        if len(pair.clique) != 2 or not all(n_ordered[c] > 1 for c in pair.clique):
            continue
        sizes = []
        for column in pair.clique:
            members, last = pair.groups_of(column), n_ordered[column] - 1
            sizes.append((last if members is None else int(members[last])) + 1)
        modeled = sum_value_groups(model.marginal(pair.clique), pair.groups)
        found = _divide(modeled, pair.counts / n_rows, pair.std_error / n_rows, sizes)
        names = fitted.name_columns(pair.clique)
        if 0 < found[1] < kept.get(names, (1.0, MAX_ERROR))[1]:
            kept[names] = found
    return kept


def measure_columns_kept(
    model: ColumnModel,
    noisy: Sequence[NoisyCounts],
    private: Sequence[Any],
    public: Sequence[Any],
) -> Kept:
    """Compare the rank correlations of pairs of private and of public columns; `noisy` are the tables of the model."""
    kept = {}
    for table, expected in zip(noisy, model.expected, strict=True):
        sizes, n_ordered = zip(*table.cross.axes or [(1, 0)] * 2, strict=True)
        if min(n_ordered) < 2:
            continue
        # Noise was projected onto known sums, of two values onto one number: that of scores may be larger by this.
        factor = math.prod(math.sqrt(n / max(n - 1, 1)) for n in table.counts.shape)
        n_rows = expected.sum()
        modeled, measured = (
            numbers.reshape(sizes) / n_rows for numbers in (expected, table.counts)
        )
        std_error = factor * table.std_error / n_rows
        found = _divide(modeled, measured, std_error, n_ordered)
        if 0 < found[1] < MAX_ERROR:
            names = [private[column] for column in table.cross.private]
            if table.cross.public is not None:
                names.append(public[table.cross.public])
            kept[tuple(names)] = found
    return kept


def _divide(
    modeled: Floats, measured: Floats, std_error: float, n_ordered: Sequence[int]
) -> tuple[float, float]:
    """Divide the rank correlation of proportions by that of noisy proportions; also return the standard error.

    The first `n_ordered` values of each axis have an order; the others, such as missing values, have no rank.
    """
    scores = []
    for axis, size in enumerate(n_ordered):
        weights = modeled.sum(axis=1 - axis)
        weights[size:] = 0.0
        ranks = weights.cumsum() - weights / 2 - weights.sum() / 2
        std = math.sqrt(float(weights @ ranks**2))
        scores.append(np.where(weights > 0, ranks, 0.0) / max(std, MIN_WEIGHT))
    products = np.multiply.outer(*scores)
    correlation, noisy = (
        float((products * part).sum()) for part in (modeled, measured)
    )
    error = std_error * math.sqrt(float(np.square(products).sum()))
    if abs(noisy) < MIN_WEIGHT:
        return math.nan, math.inf
    return correlation / noisy, error / abs(noisy)


def state_kept(guarantee: PrivacyGuarantee, kept: Kept) -> PrivacyGuarantee:
    """Add the smallest part of a correlation that is kept to the note of method of a guarantee."""
    if not kept:
        return guarantee
    lowest = math.floor(100 * min(part for part, _ in kept.values())) / 100
    text = f"Measured pairs keep at least {lowest:.2f} of their rank correlation, by noisy counts."
    return replace(guarantee, method=dict(guarantee.method) | {"kept": text})


def warn_flattened(kept: Kept, about: str, *remedies: str) -> None:
    """Warn of pairs whose correlation by the model is clearly smaller than in their noisy counts."""
    lost = [
        f"{names!r} ({part:.2f})"
        for names, (part, error) in kept.items()
        if part + 2 * error < MIN_KEPT
    ]
    if lost:
        more = [f"and {len(lost) - 3} more"] * (len(lost) > 3)
        warn(
            f"The model keeps less than {MIN_KEPT} of the rank correlation of "
            f"{len(lost)} measured pairs: {', '.join([*lost[:3], *more])}. "
            f"Select fewer columns, or increase {' or '.join(['`epsilon`', *remedies])}",
            UserWarning,
            about=about,
            stacklevel=find_stack_level(),
        )
