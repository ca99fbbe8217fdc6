"""The oracles by name, and the best one for a number of values and an epsilon."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from skdp.oracles._base import FrequencyOracle, capped_epsilon, check_size
from skdp.oracles._hadamard_response import HadamardResponse
from skdp.oracles._hashing import LocalHashing
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._subset_selection import SubsetSelection
from skdp.oracles._two_rounds import hashing_for_two_rounds, two_rounds
from skdp.oracles._unary_encoding import UnaryEncoding

ORACLES: dict[str, Callable[[int, Any], FrequencyOracle]] = {
    "randomized_response": RandomizedResponse,
    "subset_selection": SubsetSelection,
    "optimized_unary_encoding": partial(UnaryEncoding, variant="optimized"),
    "symmetric_unary_encoding": partial(UnaryEncoding, variant="symmetric"),
    "local_hashing": LocalHashing,
    "binary_local_hashing": partial(LocalHashing, n_buckets=2),
    "hadamard_response": HadamardResponse,
}
"""The oracles by name, as classes or partial calls of them; of two with equal errors, the first is chosen."""


def names_with(ability: str) -> tuple[str, ...]:
    """Return the names of the oracles with a property, such as "has_bits" or "has_second_round"."""
    names = []
    for name, make in ORACLES.items():
        oracle_class = make.func if isinstance(make, partial) else make
        if getattr(oracle_class, ability):
            names.append(name)
    return tuple(names)


def make_first_round(
    name: str,
    k: int,
    epsilon: float | Fraction,
    report_epsilon: float | Fraction | None,
) -> FrequencyOracle:
    """Return the oracle of a name, for reports to which a second round of noise may be added."""
    if report_epsilon is not None and name == "local_hashing":
        return hashing_for_two_rounds(k, epsilon, report_epsilon)
    return ORACLES[name](k, epsilon)


def choose_oracle(
    k: int,
    epsilon: float | Fraction,
    *,
    again: float | Fraction | None = None,
    max_report_bytes: int | None = None,
    among: Collection[str] = tuple(ORACLES),
) -> tuple[str, FrequencyOracle]:
    """Return the oracle with the least mean squared error among those whose report fits.

    >>> choose_oracle(4, 1.0)[0], choose_oracle(100, 1.0)[0], choose_oracle(100, 1.0, max_report_bytes=8)[0]
    ('randomized_response', 'subset_selection', 'local_hashing')
    >>> choose_oracle(100, 4.0, again=1.0, among=["local_hashing", "optimized_unary_encoding"])[0]
    'optimized_unary_encoding'

    Parameters
    ----------
    k : int
        The number of values.
    epsilon : float or Fraction
        The requested privacy loss.
    again : float or Fraction, optional
        The requested privacy loss of one report after a second round of noise; the
        error is that of both rounds.
    max_report_bytes : int, optional
        The largest size of a report; None for no limit.
    among : collection of str
        The names to choose from; with `again`, those of oracles that have a second
        round.

    Returns
    -------
    tuple of str and FrequencyOracle
        The name and the oracle; that of the first round if there are two.

    Raises
    ------
    TypeError, ValueError
        If a number is of another type or out of range, or no report fits.
    """
    candidates = _candidates(
        check_size(k),
        capped_epsilon(epsilon),
        None if again is None else capped_epsilon(again),
        tuple((name, ORACLES[name]) for name in among),
    )
    name = least_error_name(candidates, max_report_bytes, f"{k} values")
    return name, make_first_round(name, k, epsilon, again)


class Candidate(NamedTuple):
    """What a choice of a protocol compares."""

    name: str
    report_bytes: int
    error: float


def least_error_name(
    candidates: Sequence[Candidate], max_report_bytes: int | None, inputs: str
) -> str:
    """Return the name of the candidate with the least error of those that fit."""
    fitting = list(candidates)
    if max_report_bytes is not None:
        fitting = [
            candidate
            for candidate in candidates
            if candidate.report_bytes <= max_report_bytes
        ]
    if not fitting:
        names = ", ".join(candidate.name for candidate in candidates)
        least = min(candidate.report_bytes for candidate in candidates)
        raise ValueError(
            f"none of {names} for {inputs} has reports of {max_report_bytes} bytes; "
            f"the smallest has {least}"
        )
    return min(fitting, key=attrgetter("error")).name


# Without the cache, half of the time of a fit on few rows. The classes are a part of
# the key, as a name may be registered again.
@lru_cache(maxsize=512)
def _candidates(
    k: int,
    epsilon: Fraction,
    report_epsilon: Fraction | None,
    among: tuple[tuple[str, Any], ...],
) -> tuple[Candidate, ...]:
    candidates = []
    for name, _ in among:
        oracle = make_first_round(name, k, epsilon, report_epsilon)
        reported = (
            oracle if report_epsilon is None else two_rounds(oracle, report_epsilon)
        )
        error = reported.mean_squared_error
        candidates.append(Candidate(name, oracle.report_bytes, error))
    return tuple(candidates)
