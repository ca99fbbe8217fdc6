"""What a fitted model says of many marginals at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._counting import count_cells
from skdp.synthesis._fitted import FittedTable
from skdp.synthesis._junction_tree import Clique
from skdp.synthesis._sampling import sample

_ROWS = 1 << 17


def guess_counts(fitted: FittedTable, cliques: Iterable[Clique], seed: int = 0) -> list[NDArray[np.float64]]:
    """Return the counts that a model expects."""
    # Marginals that a clique of the model holds are summed from it. The others are counted in 2**17 sampled rows, which
    # costs much less than computing each; the error of that is the error of a sample.
    model, sizes = fitted.model, fitted.model.tree.sizes
    rows: NDArray[np.int32] | None = None
    found: list[NDArray[np.float64]] = []
    for clique in cliques:
        if model.tree.holder(clique) is not None:
            found.append(np.multiply(model.marginal(clique), fitted.total))
            continue
        if rows is None:
            rows = sample(model, _ROWS, np.random.default_rng(seed))
        counts = count_cells([rows[column] for column in clique], [sizes[column] for column in clique])
        found.append(counts.astype(float) * (fitted.total / _ROWS))
    return found
