"""The randomness of an estimator: secure, or a seeded stream for experiments."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from skdp.coding import plain
from skdp.randomness import ByteSource, SecureSource, SeededSource


def check_random_state(value: Any) -> None:
    """Check the ``random_state`` of an estimator."""
    if value is None:
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"random_state must be None (secure) or an int (for experiments), got {type(value).__name__}")
    if value < 0:
        raise ValueError("random_state must be None or an int >= 0")


class CallCounter:
    """The number of calls since `fit`; restarts in a copy or a pickle, so that a seeded stream replays."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def advance(self) -> int:
        """Return the number of this call, and count it."""
        return next(self._numbers)

    def __reduce__(self) -> tuple[type[CallCounter], tuple[()]]:
        return CallCounter, ()


def coins(random_state: int | None, *key: Any) -> ByteSource:
    """Return the source of random bits for one column of one call."""
    if random_state is None:
        return SecureSource()
    return SeededSource(int(random_state), *map(repr, map(plain, key)))


@dataclass(frozen=True)
class CallRandomness:
    """The randomness of one call: for each purpose and columns a source of its own."""

    seed: int | None = field(repr=False)
    owner: str
    call: int
    where: tuple[Any, ...] = ()

    def __call__(self, purpose: str, *columns: Any) -> ByteSource:
        return coins(self.seed, self.owner, self.call, *self.where, purpose, *columns)

    def part(self, *where: Any) -> CallRandomness:
        """Return the randomness of a part of the call."""
        return replace(self, where=(*self.where, *where))
