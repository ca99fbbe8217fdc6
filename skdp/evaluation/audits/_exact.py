"""The exact epsilon of a transformer with a finite number of reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from skdp.exact import log_upper
from skdp.local import Channel, ReportProtocol

_MOST_ENTRIES = 1 << 18


def exact_epsilon(fitted: Any) -> float | None:
    """Return the largest logarithm of a ratio of probabilities, from the exact channel."""
    ratios = []
    for channels in _attributes(fitted) or ():
        worst = Fraction(1)
        for channel in channels:
            if not all(isinstance(share, Fraction | int) for row in channel for share in row):
                return None  # floats are not exact
            ratio = worst_ratio(channel)
            if ratio is None:
                return math.inf
            worst = max(worst, ratio)
        ratios.append(worst)
    if not ratios:
        return None
    sampled = getattr(fitted, "strategy", None) == "sample"
    return log_upper(max(ratios) if sampled else math.prod(ratios, start=Fraction(1)))


def worst_ratio(channel: Channel) -> Fraction | None:
    """Return the largest ratio of the probabilities of a report under two true values."""
    worst = Fraction(1)
    for report in zip(*channel, strict=True):
        low, high = Fraction(min(report)), Fraction(max(report))
        if high > 0 and low <= 0:
            return None
        if high > 0:
            worst = max(worst, high / low)
    return worst


def _attributes(fitted: Any) -> list[Iterator[Channel]] | None:
    """List the channels of each attribute; there are several only where a public hash function decides."""
    protocol = getattr(fitted, "protocol_", None)
    if isinstance(protocol, ReportProtocol):
        return protocol.channels(_MOST_ENTRIES)
    return [iter([channel]) for channel in fitted.channel()] if hasattr(fitted, "channel") else None
