"""Exactly uniform random sets of a given size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._draws import BLOCK, ByteSource, rows_of


def subsets(
    source: ByteSource,
    n_cells: int,
    size: int,
    n: int,
    required: NDArray[np.integer] | None = None,
) -> NDArray[np.bool_]:
    """Draw independent sets of cells, each uniform among all sets of the size.

    >>> from skdp.randomness import SeededSource
    >>> subsets(SeededSource(0), 10, 3, 2, np.array([-1, 4])).sum(axis=1).tolist()
    [3, 3]

    Each cell has a random word of 32 bits, and the set consists of the cells with the
    smallest words: all orders of the words are equally likely. Where words tie at the
    end of the set, all words of the set are drawn again.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    n_cells : int
        The number of cells, at least 1.
    size : int
        The size of each set, from 0 to `n_cells`; with `required`, at least 1.
    n : int
        The number of sets.
    required : ndarray of integers, shape (n,), optional
        For each set a cell that it contains, or -1 for none; the rest of the set is
        uniform.

    Returns
    -------
    ndarray of shape (n, n_cells), dtype bool
        True for the cells of each set.

    Raises
    ------
    ValueError
        If there are no sets of this size.
    """
    least = 0 if required is None else 1
    if not least <= size <= n_cells:
        raise ValueError(f"size must be between {least} and {n_cells}, got {size}")
    bits = np.zeros((n, n_cells), bool)
    if size == 0:
        return bits
    step = max(1, BLOCK // n_cells)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        while rows.size:
            drawn = rows_of(source, rows).bytes(4 * n_cells * rows.size)
            words = drawn.view(">u4").reshape(rows.size, n_cells).astype(np.uint32)
            if required is not None:
                # The required cell comes before all others, and may tie with them.
                holds = np.flatnonzero(required[rows] >= 0)
                words[holds, required[rows[holds]]] = 0
            last_words = np.partition(words, size - 1, axis=1)[:, [size - 1]]
            bits[rows] = words <= last_words
            rows = rows[np.count_nonzero(bits[rows], axis=1) > size]
    return bits
