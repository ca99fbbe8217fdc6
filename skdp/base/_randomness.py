"""Randomness of calls: seeds, counters and sources of random bits."""

from __future__ import annotations

import itertools

import numpy as np

from skdp.base._parameters import check_random_state
from skdp.randomness import ByteSource, SecureSource, SeededSource
from skdp.tables import to_python


def draw_seed(random_state: int | np.random.RandomState | None) -> int | None:
    """Return the seed of a fit as an int; None for secure randomness.

    A RandomState instance draws a new seed.
    """
    check_random_state(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return None if random_state is None else int(random_state)


class CallCounter:
    """Counter of the calls since `fit`; copies restart at 0, so that seeded streams repeat."""

    def __init__(self) -> None:
        # `next` of a count is atomic, so threads get different numbers.
        self._numbers = itertools.count()

    def advance(self) -> int:
        """Return the number of this call, from 0, and increment it."""
        return next(self._numbers)

    def __reduce__(self) -> tuple[type[CallCounter], tuple[()]]:
        return CallCounter, ()


def make_source(
    random_state: int | np.random.RandomState | None, *key: object
) -> ByteSource:
    """Return a source of random bytes; seeded sources depend on the seed and on a key.

    The key names the use of the source, such as an estimator, a call and a column.
    """
    seed = draw_seed(random_state)
    if seed is None:
        return SecureSource()
    texts = [repr(to_python(part)) for part in key]
    return SeededSource(seed, *texts)
