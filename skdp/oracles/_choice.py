"""Oracles by name, and the choice of the oracle with the smallest error."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from functools import partial
from typing import Any

from skdp.oracles._bits import SubsetSelection, UnaryEncoding
from skdp.oracles._hashing import LocalHashing
from skdp.oracles._oracle import FrequencyOracle
from skdp.oracles._randomized_response import RandomizedResponse

# Constructors ``(k, epsilon) -> oracle``. If several oracles have equal errors,
# `choose_oracle` returns the first one.
ORACLES: dict[str, Callable[[int, Any], FrequencyOracle]] = {
    "randomized_response": RandomizedResponse,
    "subset_selection": SubsetSelection,
    "optimized_unary_encoding": partial(UnaryEncoding, variant="optimized"),
    "symmetric_unary_encoding": partial(UnaryEncoding, variant="symmetric"),
    "local_hashing": LocalHashing,
}


def choose_oracle(
    k: int,
    epsilon: float | Fraction,
    *,
    names: Collection[str] = tuple(ORACLES),
) -> tuple[str, FrequencyOracle]:
    """Return the oracle with the smallest error, and its name.

    Oracles whose reports have more than 1,024 bytes are excluded.
    """
    # The mean squared error does not depend on the data, so the choice is public.
    oracles: dict[str, FrequencyOracle] = {}
    for name in names:
        oracle = ORACLES[name](k, epsilon)
        # A report with a bit for each of 8,192 values has 1,024 bytes. For more values,
        # local hashing has reports of a few bytes and a similar error.
        if oracle.report_bytes <= 1024:
            oracles[name] = oracle
    best = min(oracles, key=lambda name: oracles[name].mean_squared_error)
    return best, oracles[best]
