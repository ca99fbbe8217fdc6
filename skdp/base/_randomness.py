"""Randomness of calls: seeds, counters and sources of random bits."""

from __future__ import annotations

import itertools
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from skdp.base._parameters import check_random_state
from skdp.randomness import ByteSource, SecureSource, SeededSource
from skdp.tables import to_python


def draw_seed(random_state: Any) -> int | None:
    """Return the seed of a fit: None if secure, a new seed from a RandomState instance."""
    check_random_state(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return None if random_state is None else int(random_state)


class CallCounter:
    """Number of calls since `fit`; copies restart at 0, so that seeded streams repeat."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def advance(self) -> int:
        """Return the number of this call, and increment it."""
        return next(self._numbers)

    def __reduce__(self) -> tuple[type[CallCounter], tuple[()]]:
        return CallCounter, ()


def make_source(
    random_state: int | np.random.RandomState | None, *key: Any
) -> ByteSource:
    """Return the source of random bits of one column in one call."""
    seed = draw_seed(random_state)
    if seed is None:
        return SecureSource()
    texts = [repr(to_python(part)) for part in key]
    return SeededSource(seed, *texts)


@dataclass(frozen=True)
class CallRandomness:
    """Randomness of one call, with a source for each purpose and columns."""

    seed: int | None = field(repr=False)
    owner: str
    call: int
    where: tuple[Any, ...] = ()

    def __call__(self, purpose: str, *columns: Any) -> ByteSource:
        return make_source(
            self.seed, self.owner, self.call, *self.where, purpose, *columns
        )

    @property
    def name(self) -> str | None:
        """Name of the call of a seeded estimator, without the seed; None if secure."""
        return None if self.seed is None else f"{self.owner}, call {self.call}"

    def part(self, *where: Any) -> CallRandomness:
        """Return the randomness of a part of the call."""
        return replace(self, where=(*self.where, *where))


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries, which takes milliseconds."""
    return ThreadpoolController()


def limit_blas_threads(alone: bool = True) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, which is faster for small matrices."""
    # The limit is global, so threads that end in another order would keep it.
    is_main = threading.current_thread() is threading.main_thread()
    limit = 1 if alone and is_main else None
    manager: AbstractContextManager[Any] = _blas().limit(limits=limit, user_api="blas")
    return manager
