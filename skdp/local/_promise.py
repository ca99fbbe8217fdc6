"""What a report tells of its record where epsilon is large."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skdp.base import (
    is_large,
    warn_of_delta,
    warn_of_epsilon,
    warn_of_loss,
    written_chance,
    written_odds,
)
from skdp.local.protocol import Channel, ReportProtocol
from skdp.privacy import Shuffled

_MOST_ENTRIES = 1 << 16
"""Of a channel that is enumerated for a warning: some milliseconds."""


def warn_of_promise(epsilon: Any, protocol: ReportProtocol) -> None:
    """Warn of an epsilon above 10, with the chance that a report is the truth."""
    if isinstance(epsilon, Shuffled):
        # The local epsilon follows from what is released after shuffling, and is usually large.
        warn_of_delta(
            epsilon.delta,
            epsilon.n,
            f"the {epsilon.n} reports that are shuffled together",
        )
        warn_of_loss(epsilon.epsilon)
        return
    promised = protocol.guarantee.epsilon
    if is_large(promised):
        warn_of_epsilon(promised, _consequence(protocol))


def _consequence(protocol: ReportProtocol) -> str:
    """Say what is learned of the column whose report says most."""
    attributes = protocol.channels(_MOST_ENTRIES)
    if attributes is None:
        return (
            "a report may be e^epsilon times as likely under one value as under another, so which of two is true may "
            f"be told with a probability of up to {written_odds(protocol.guarantee.epsilon)}"
        )
    names = [repr(name) for name in protocol.columns]
    if len(attributes) != len(names):  # all columns are one attribute
        names = [", ".join(names)] * len(attributes)
    chances = []
    for name, channels in zip(names, attributes, strict=True):
        # Where the public part of a report chooses one of several channels, the one that shows most.
        chances.append((max(map(_best_guess, channels)), name))
    chance, name = max(chances, key=lambda pair: pair[0])
    if all(field.reports_values for field in protocol.fields):
        return f"a report of {name} is the truth with a probability of {written_chance(chance)}"
    return f"the truth can be guessed from a report of {name} with a probability of {written_chance(chance)}"


def _best_guess(channel: Channel) -> Fraction:
    """Return how often the likeliest value of a report is the true one, if all values are equally frequent."""
    likeliest = [max(shares) for shares in zip(*channel, strict=True)]
    return sum(likeliest, Fraction(0)) / len(channel)
