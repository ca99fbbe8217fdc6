"""Which coins an estimator uses: secure ones, or a seeded stream for experiments."""

from __future__ import annotations

import itertools
from numbers import Integral
from typing import Any

import numpy as np

from skdp.coding import plain
from skdp.randomness import ByteSource, SecureSource, SeededSource


def check_random_state(value: Any) -> None:
    """Check the ``random_state`` of an estimator.

    Parameters
    ----------
    value : None or int
        None for secure coins, an int of at least 0 for a reproducible stream.

    Raises
    ------
    TypeError
        If it is anything else: a generator object would be copied with the estimator and repeat its coins.
    ValueError
        If the int is negative.
    """
    if value is None:
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"random_state must be None (secure) or an int (for experiments), got {type(value).__name__}")
    if value < 0:
        raise ValueError("random_state must be None or an int >= 0")


class CallCounter:
    """The number of calls since `fit`; a copy or a pickle starts anew, so that a seeded stream replays."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def advance(self) -> int:
        """Return the number of this call.

        Returns
        -------
        int
            0, 1, 2, …; no two calls get the same number, over threads too.
        """
        return next(self._numbers)

    def __reduce__(self) -> tuple[type[CallCounter], tuple[()]]:
        return CallCounter, ()


def coins(random_state: int | None, *key: Any) -> ByteSource:
    """Return the source of coins for one column of one call.

    Parameters
    ----------
    random_state : None or int
        What the user asked for.
    *key : object
        Class, call number, purpose and columns: what a seeded stream is for. Keys are told apart with their types: the
        columns 1 and "1" have streams of their own.

    Returns
    -------
    ByteSource
        Secure without a seed; otherwise a stream that depends on the seed and the key.
    """
    if random_state is None:
        return SecureSource()
    return SeededSource(int(random_state), *map(repr, map(plain, key)))
