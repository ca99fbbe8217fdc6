"""Warnings of guarantees that promise little."""

from __future__ import annotations

import math
from fractions import Fraction

from skdp.base._warnings import warn_once
from skdp.privacy import PrivacyGuarantee, WeakGuaranteeWarning

# From here on, one report in e^10 = 22,026 of two values is not the truth.
LARGE_EPSILON = 10

# A table of fewer rows is seldom worth a release by a curator, so that this delta is more than 1 / n of nearly all.
_FEW_ROWS = 1_000


def is_large(epsilon: float) -> bool:
    """Whether an epsilon protects so little that it is warned of."""
    return epsilon > LARGE_EPSILON


def written_chance(chance: Fraction | float) -> str:
    """Write a probability, and one near 1 by what it lacks."""
    lacking = 1 - chance
    if lacking >= 1e-3:
        return f"{float(chance):.4f}"
    return f"1 - {float(lacking):.2g}" if lacking > 0 else "1"


def warn_of_epsilon(epsilon: float, consequence: str) -> None:
    """Warn of an epsilon above 10, and say what follows from it."""
    warn_once(
        f"epsilon = {epsilon:.6g} is above {LARGE_EPSILON}, which protects little: {consequence}",
        WeakGuaranteeWarning,
    )


def written_odds(epsilon: float) -> str:
    """Write how well two inputs with even odds may be distinguished: e^epsilon / (1 + e^epsilon)."""
    less_likely = Fraction(math.exp(-min(epsilon, 700.0)))
    return written_chance(1 / (1 + less_likely))


def warn_of_loss(epsilon: float) -> None:
    """Warn of an epsilon above 10 of a curator, or after shuffling, whatever the mechanism is."""
    if is_large(epsilon):
        warn_of_epsilon(
            epsilon,
            "an output may be e^epsilon times as likely with a record as without it, so those who know the others may "
            f"tell whether it is there, with a probability of up to {written_odds(epsilon)}",
        )


def warn_of_delta(delta: float, n: int, what: str) -> None:
    """Warn of a delta above 1 / n, where n is public or was released with noise."""
    if delta * n > 1:
        warn_once(
            f"delta = {delta:.3g} is above 1 / {n}, for {what}: with it, a mechanism may publish a record as it is. "
            "Choose a delta far below 1 / n",
            WeakGuaranteeWarning,
        )


def warn_of_released_size(guarantee: PrivacyGuarantee, n_rows: float) -> None:
    """Warn of a delta above 1 / n for a noisy n that was released, unless `warn_of_release` has told of it."""
    if guarantee.delta * _FEW_ROWS <= 1:
        warn_of_delta(
            guarantee.delta, round(n_rows), "the noisy number of rows that is released"
        )


def warn_of_release(guarantee: PrivacyGuarantee) -> None:
    """Warn of what a curator is about to release, by what is declared alone."""
    # The number of rows is private under add/remove: a warning that began at the exact n would show one record.
    warn_of_loss(guarantee.epsilon)
    what = f"a table of {_FEW_ROWS:,} rows or more (the rows were not counted, as their number is private)"
    warn_of_delta(guarantee.delta, _FEW_ROWS, what)
