"""Means of groups that are drawn towards the mean of all, as far as the noise hides how they differ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def shrunk_shifts(
    counts: NDArray[np.float64],
    excesses: NDArray[np.float64],
    *,
    of_row: float,
    of_noise: float,
    of_count: float,
) -> NDArray[np.float64]:
    """Return by how much the means of groups differ from that of all, by their sums less what that lets expect."""
    # The mean square of the difference d of a group: excess = d n + what the rows and the noise add, with variances
    # of `of_row` for each row and of `of_noise`; `of_count` is that of the noise of n.
    n = np.maximum(counts, 0)
    spread = (excesses**2 - of_noise - of_row * n).sum() / max(
        (counts**2 - of_count).sum(), 1.0
    )
    spread = float(np.clip(spread, 0, 1))
    inside = spread * n**2 + of_row * n + of_noise
    return np.divide(
        spread * n * excesses, inside, out=np.zeros(n.shape), where=inside > 0
    )
