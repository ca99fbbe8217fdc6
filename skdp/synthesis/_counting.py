"""Counts of the combinations of values of some columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def count_cells(codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Count the rows of each cell."""
    joint = codes[0].astype(np.intp)
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        joint *= size
        joint += column
    return np.bincount(joint, minlength=math.prod(sizes)).reshape(sizes)


def cover(cliques: Sequence[tuple[int, ...]], sizes: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Find larger marginals, fewer of them, that hold some marginals: less work to count, and the sums are exact."""
    waiting = {frozenset(clique): None for clique in sorted(cliques, key=lambda clique: -_cells(clique, sizes))}
    found = []
    while waiting:
        held = set(next(iter(waiting)))
        while True:
            gains = Counter[int]()
            for clique in waiting:
                missing = clique - held
                if len(missing) == 1:
                    gains[next(iter(missing))] += 1
            fitting = [column for column in gains if _cells((*held, column), sizes) <= most]
            if not fitting:
                break
            held.add(max(fitting, key=lambda column: (gains[column], -sizes[column])))
        waiting = {clique: None for clique in waiting if not clique <= held}
        found.append(tuple(sorted(held)))
    return found


def _cells(columns: Iterable[int], sizes: Sequence[int]) -> int:
    return math.prod(sizes[column] for column in columns)
