"""How well the reports of a design of others answer a question."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from skdp.evaluation._comparisons import Comparison
from skdp.local.protocol import WeightedMeans
from skdp.survey import ReportDesign

# The shares of which the widest interval is taken: the variance is a quadratic of the
# share.
_SHARES = tuple(np.linspace(0, 1, 101).tolist())


@dataclass(frozen=True)
class DesignRelease:
    """A design of two values, and how well its reports answer a question about the second, such as yes."""

    design: ReportDesign
    share: float | None
    comparison: Comparison | None
    level: float

    def half_width(self, n_rows: int) -> float:
        """Return half the width of the interval, for a number of rows."""
        if self.comparison is not None:
            variance = 0.0
            pairs = zip(self.comparison.sizes, self.comparison.shares, strict=True)
            for size, share in pairs:
                of_row = share_variance(self.design, share)
                if self.comparison.is_coefficient:
                    of_row /= (share * (1 - share)) ** 2
                variance += of_row / (n_rows * size)
            z = NormalDist().inv_cdf((1 + self.level) / 2)
            return z * math.sqrt(variance)
        if n_rows < 2:
            return math.inf
        # What `estimate_frequencies` states of the expected reports.
        shares = np.array(_SHARES if self.share is None else [self.share])
        of_rows = [share_variance(self.design, share) for share in shares]
        variances = np.array(of_rows) / (n_rows - 1)
        means = WeightedMeans(shares, variances, n_rows, 1 / n_rows, n_rows - 1)
        table = means.counts().table(self.level, what="frequency")
        return float((table["upper"] - table["lower"]).max() / 2)


def check_design(design: Any) -> None:
    """Refuse a design whose variance depends on more than a share."""
    if design.group is not None or design.unknown is not None:
        raise ValueError(
            "a ReportDesign is planned without group and unknown, whose error depends "
            "on the sizes of the groups: simulate it"
        )
    if len(design.values) != 2:
        raise ValueError(
            "a ReportDesign is planned with two values, got "
            f"{len(design.values)}: simulate it"
        )
    if np.ptp(design.channels[None], axis=0).max() == 0:
        raise ValueError(
            f"the design of {design.column!r} does not tell its values apart"
        )


def share_variance(design: ReportDesign, share: float) -> float:
    """Return the variance of the share of the second value, for one report: the inverse information."""
    of_first, of_second = design.channels[None]
    expected = (1 - share) * of_first + share * of_second
    slope = of_second - of_first
    is_given = expected > 0
    # At 0 or 1, a report that only the other value gives tells the share exactly.
    if slope[~is_given].any():
        return 0.0
    information = float((slope[is_given] ** 2 / expected[is_given]).sum())
    return 1 / information
