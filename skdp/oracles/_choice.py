"""The oracles by name, and the best one for a number of values and an epsilon."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._count_mean_sketch import CountMeanSketch
from skdp.oracles._hadamard_response import HadamardResponse
from skdp.oracles._local_hashing import LocalHashing
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._subset_selection import SubsetSelection
from skdp.oracles._unary_encoding import UnaryEncoding

ORACLES: dict[str, Callable[[int, Any], FrequencyOracle]] = {
    "randomized_response": RandomizedResponse,
    "subset_selection": SubsetSelection,
    "optimized_unary_encoding": partial(UnaryEncoding, variant="optimized"),
    "symmetric_unary_encoding": partial(UnaryEncoding, variant="symmetric"),
    "threshold_unary_encoding": partial(UnaryEncoding, variant="threshold"),
    "local_hashing": LocalHashing,
    "binary_local_hashing": partial(LocalHashing, n_buckets=2),
    "hadamard_response": HadamardResponse,
    "count_mean_sketch": CountMeanSketch,
}
"""The oracles by name; of two with the same error, the first one is chosen."""


def choose_oracle(
    k: int, epsilon: float | Fraction, *, max_report_bytes: int | None = None
) -> tuple[str, FrequencyOracle]:
    """Return the oracle with the least mean squared error among those whose report fits.

    Parameters
    ----------
    k : int
        The number of values.
    epsilon : float or Fraction
        The wanted privacy loss.
    max_report_bytes : int, optional
        The largest size of a report; None for no limit.

    Returns
    -------
    tuple of str and FrequencyOracle
        Its name and the oracle.

    Raises
    ------
    ValueError
        If no report fits.

    Examples
    --------
    >>> choose_oracle(4, 1.0)[0], choose_oracle(100, 1.0)[0], choose_oracle(100, 1.0, max_report_bytes=8)[0]
    ('randomized_response', 'subset_selection', 'local_hashing')
    """
    candidates = {name: make(k, epsilon) for name, make in ORACLES.items()}
    fitting = {
        name: oracle
        for name, oracle in candidates.items()
        if max_report_bytes is None or oracle.report_bytes <= max_report_bytes
    }
    if not fitting:
        least = min(oracle.report_bytes for oracle in candidates.values())
        raise ValueError(f"no oracle for {k} values has reports of {max_report_bytes} bytes; the smallest has {least}")
    name = min(fitting, key=lambda name: fitting[name].mean_squared_error)
    return name, fitting[name]
