"""Protected columns whose values public ones give away, as noisy counts say."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skdp.base import DETERMINED, SURE_STD_ERRORS, level_of_the_caller
from skdp.pages import warn
from skdp.privacy import WeakGuaranteeWarning
from skdp.synthesis.model import Clique, Marginal


def find_determined(
    marginals: Iterable[Marginal], protected: Collection[int]
) -> dict[int, list[Clique]]:
    """Find protected columns that surely follow from public ones, by the noisy counts of merged marginals."""
    marginals = list(marginals)
    own_errors = {}
    for marginal in marginals:
        if len(marginal.clique) == 1:
            own_errors[marginal.clique[0]] = marginal.std_error
    determined: dict[int, list[Clique]] = {}
    for marginal in marginals:
        public = tuple(name for name in marginal.clique if name not in protected)
        if not public:
            continue
        for axis, column in enumerate(marginal.clique):
            if column not in protected:
                continue
            # The group of a protected value says little of the value, but groups of
            # public ones tell less than the values: what follows from them is known.
            if marginal.groups is not None and marginal.groups[axis] is not None:
                continue
            counts, n_summed = _by_public_cell(marginal, axis, protected)
            variance = n_summed * marginal.std_error**2
            # Centred counts have a part of the noise of the column's own.
            n_cells = len(counts)
            variance += (own_errors.get(column, 0.0) / max(1, n_cells)) ** 2
            tau, error = _tau(counts, variance)
            if tau - SURE_STD_ERRORS * error >= DETERMINED:
                determined.setdefault(column, []).append(public)
    return determined


def _by_public_cell(
    marginal: Marginal, axis: int, protected: Collection[int]
) -> tuple[NDArray[np.float64], int]:
    """Return noisy counts by public cells that have rows, and of how many cells each is the sum."""
    further = []
    n_summed = 1
    for place, column in enumerate(marginal.clique):
        if column in protected and place != axis:
            further.append(place)
            n_summed *= marginal.shape[place]
    summed = marginal.counts.sum(axis=tuple(further), keepdims=True)
    counts = np.moveaxis(summed, axis, -1).reshape(-1, marginal.shape[axis])
    # These sums are public, and exact up to rounding.
    has_rows = counts.sum(axis=1) > 0.5
    return counts[has_rows], n_summed


def _tau(counts: NDArray[np.float64], variance: float) -> tuple[float, float]:
    """Estimate tau from noisy counts, with its standard error: (n_public_cells, n_values)."""
    # Of n rows of a cell, of which N[s] have the value s, sum(N**2) / n is as many as
    # have the same value as another row of it, drawn with replacement. With noise of
    # variance v, the sum of squares is too large by k v, for k values. As this noise adds
    # up to 0 in each cell, its products with counts have the variance 4 n**2 v at most,
    # and the sum of its squares 2 (k v)**2 / (k - 1) if normal, 2.5 times that if Laplace.
    n_values = counts.shape[1]
    n_of_cells = counts.sum(axis=1)
    n_rows = float(n_of_cells.sum())
    if n_values < 2 or n_rows < 1:
        return 0.0, math.inf
    bias = n_values * variance
    alike = ((counts**2).sum(axis=1) - bias) / n_of_cells
    of_squares = 5 * bias**2 / (n_values - 1) / n_of_cells**2
    error = math.sqrt(float((of_squares + 4 * variance).sum()))
    # Noise makes this impurity smaller, and tau with it.
    shares = counts.sum(axis=0) / n_rows
    impurity = 1 - float((shares**2).sum())
    if impurity <= 0:
        return 0.0, math.inf
    left = 1 - float(alike.sum()) / n_rows
    return 1 - left / impurity, error / n_rows / impurity


def warn_determined(
    determined: Mapping[int, Sequence[Clique]], names: Sequence[object]
) -> None:
    """Warn of protected columns that follow from public ones."""
    # Post-processing of noisy counts: that there is a warning is released, too.
    if not determined:
        return
    parts = []
    for column, cliques in determined.items():
        public = []
        for clique in cliques:
            public.append(" and ".join(repr(names[place]) for place in clique))
        parts.append(f"{names[column]!r} from {', or from '.join(public)}")
    warn(
        "by the noisy counts, protected values follow from public columns in nearly "
        f"all rows: {'; '.join(parts)}. Nothing limits what these tell: protect them "
        "too, or drop them",
        WeakGuaranteeWarning,
        about="guide/protected_columns#what-it-does-not-protect",
        stacklevel=level_of_the_caller(),
    )
