"""Rows of persons in the order of time: each with the visit before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def lag(
    codes: Sequence[NDArray[np.integer]], persons: NDArray[np.intp], times: NDArray[np.intp], most: int
) -> list[NDArray[np.intp]]:
    """Return of each person's first visits: the number from 0, whether none follows, the codes, and those before."""
    # A code of the visit before is larger by 1, as 0 is that there was none. What is kept of a person, and
    # beside what, depends on this person's rows alone.
    order = np.lexsort((times, persons))
    persons, times = persons[order], times[order]
    first = np.diff(persons, prepend=-1) != 0
    if (~first & (np.diff(times, prepend=-1) == 0)).any():
        raise ValueError("holds the same time twice for one person, so that the order of these rows is not known")
    place = np.arange(len(order))
    rank = place - np.maximum.accumulate(np.where(first, place, 0))
    last = np.append(first[1:], True)[: len(order)]
    now = [code[order].astype(np.intp) for code in codes]
    before = [np.where(first, 0, np.roll(code, 1) + 1) for code in now]
    kept = rank < most
    return [column[kept].astype(np.intp) for column in (rank, last, *now, *before)]
