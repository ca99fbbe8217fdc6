"""What reports guarantee after shuffling, where that was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import shown
from skdp.privacy.shuffle import Shuffled, shuffled_guarantee
from skdp.privacy.statement._meaning import amounts
from skdp.privacy.statement._parts import parts_of


def after_shuffling(
    estimator: Any, guarantee: PrivacyGuarantee, columns: tuple[Any, ...], step: str
) -> tuple[PrivacyGuarantee | None, str]:
    """Return what the reports of a step guarantee after shuffling, if that was asked for, and a remark about it."""
    reporter = _reporter(estimator)
    if reporter is None:
        return None, ""
    wanted: Shuffled = reporter.epsilon
    asked = f"{step} was asked for epsilon {shown(wanted.epsilon)}, delta {shown(wanted.delta)} after shuffling."
    local = (
        f"Each report by itself has epsilon {shown(guarantee.epsilon)} (local model). That is stated here, and charged "
        "to a ledger, because reports leave this step unshuffled: against those who hold them, no more holds."
    )
    try:
        reached = shuffled_guarantee(
            reporter, wanted.n, wanted.delta, released=wanted.released
        )
    except (TypeError, ValueError):  # such as that of persons with several records
        return (
            None,
            f"{asked} What its reports guarantee then is not known here. {local}",
        )
    if reached.epsilon <= wanted.epsilon:
        reached = replace(
            reached, epsilon=wanted.epsilon, delta=wanted.delta, losses=()
        )
    released = "their sums are"
    if wanted.released == "reports":
        # In the rows of a table, reports of other steps or other columns tell which of them are of one person.
        released = (
            "these reports in a random order of their own, apart from reports of other steps and from other columns of "
            "the same rows, are"
        )
    return replace(reached, scope=columns), (
        f"{asked} Its reports guarantee {amounts(reached)} (shuffle model) against those who see nothing of them but "
        f"what is released, if at least {wanted.n:,} reports of honest persons are shuffled or summed and only "
        f"{released} released. Those who shuffle or sum them are trusted not to look at single reports. {local}"
    )


def _reporter(estimator: Any) -> Any | None:
    """Return the estimator itself, or the one that it wraps, whose epsilon is that of shuffled reports."""
    if isinstance(getattr(estimator, "epsilon", None), Shuffled):
        return estimator
    for part in parts_of(estimator):
        reporter = _reporter(part)
        if reporter is not None:
            return reporter
    return None
