"""The oracles by name, and the choice of an oracle by its error."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from functools import partial
from typing import Any

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._bits import SubsetSelection, UnaryEncoding
from skdp.oracles._hashing import LocalHashing
from skdp.oracles._randomized_response import RandomizedResponse

# The first of two oracles with equal errors is chosen.
ORACLES: dict[str, Callable[[int, Any], FrequencyOracle]] = {
    "randomized_response": RandomizedResponse,
    "subset_selection": SubsetSelection,
    "optimized_unary_encoding": partial(UnaryEncoding, variant="optimized"),
    "symmetric_unary_encoding": partial(UnaryEncoding, variant="symmetric"),
    "local_hashing": LocalHashing,
    "binary_local_hashing": partial(LocalHashing, n_buckets=2),
}


def choose_oracle(
    k: int,
    epsilon: float | Fraction,
    *,
    max_report_bytes: int = 1024,
    among: Collection[str] = tuple(ORACLES),
) -> tuple[str, FrequencyOracle]:
    """Return the name and the oracle with the smallest error among small enough reports."""
    oracles = {name: ORACLES[name](k, epsilon) for name in among}
    sizes = {name: oracle.report_bytes for name, oracle in oracles.items()}
    # The errors are equal for all data, so that the choice uses no data.
    errors = {
        name: oracle.mean_squared_error
        for name, oracle in oracles.items()
        if sizes[name] <= max_report_bytes
    }
    best = min(errors, key=errors.__getitem__)
    return best, oracles[best]
