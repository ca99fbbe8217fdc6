"""How well a question is answered by reports: two groups compared, their power, and designs of others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from skdp.local.protocol import WeightedMeans
from skdp.metrics import indicator_variances, oracle_of
from skdp.survey import ReportDesign

Reported = Literal["target", "predictor"]


def power_of(effect: float, std_error: float, level: float) -> float:
    """Return how often a two-sided test at ``1 - level`` finds an effect, by a normal estimate."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    ratio = abs(effect) / std_error
    normal = NormalDist()
    return normal.cdf(ratio - z) + normal.cdf(-ratio - z)


def half_width_of_power(effect: float, power: float, level: float) -> float:
    """Return the half width of an interval from which on an effect is found as often as wanted."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    # Of an effect and its standard error: a normal variable beyond does not occur.
    largest_ratio = 40.0
    # Power rises with the ratio of the effect to its standard error.
    ratio = brentq(lambda ratio: power_of(ratio, 1.0, level) - power, 0, largest_ratio)
    return abs(effect) / float(ratio) * z


@dataclass(frozen=True)
class Comparison:
    """Two groups that are known, and the shares of a reported value in them, as guessed."""

    # The shares of the rows that are in each group.
    sizes: tuple[float, float]
    # Of the value in each group.
    shares: tuple[float, float]
    # The difference, or the log odds ratio.
    effect: float
    is_coefficient: bool

    @classmethod
    def of(
        cls, of: str, share: float, rates: tuple[float, float], reported: Reported
    ) -> Self:
        """Make the comparison of guesses: of the rows, a share is in the second group, or has the value."""
        first, second = rates
        if of == "difference":
            return cls((1 - share, share), rates, second - first, False)
        effect = _log_odds(second) - _log_odds(first)
        if reported == "target":
            return cls((1 - share, share), rates, effect, True)
        # An odds ratio is the same from both sides: that of the true target given the
        # reported value is that of the value given the target, whose groups are known.
        rate = (1 - share) * first + share * second
        shares = share * (1 - second) / (1 - rate), share * second / rate
        return cls((1 - rate, rate), shares, effect, True)

    def std_error(self, encoder: Any, column: Any, n_rows: float) -> float:
        """Return the standard error of the effect, for reports of a fitted encoder."""
        protocol = encoder.protocol_
        values = list(protocol.domain[column].values)
        # The first value is compared with the others, or with the second.
        oracle, is_first = oracle_of(encoder, values[:1], [column])
        _, is_second = oracle_of(encoder, values[1:2], [column])
        variance = 0.0
        for size, share in zip(self.sizes, self.shares, strict=True):
            if self.is_coefficient:
                of_second = (1 - share) / (len(values) - 1)
                of_row = _variance_of_log_ratio(
                    oracle, (is_first, is_second), (share, of_second)
                )
            else:
                of_row = _variance(oracle, is_first, share)
            variance += of_row / (n_rows * size)
        return math.sqrt(variance)


def _log_odds(rate: float) -> float:
    return math.log(rate / (1 - rate))


def _variance(oracle: Any, is_value: NDArray[np.bool_], share: float) -> float:
    """Return the variance of a report's unbiased indicator of some values, over rows and noise."""
    of_others, of_value = indicator_variances(oracle, is_value)
    # The mean of its square, less the square of its mean.
    return share * (of_value + 1) + (1 - share) * of_others - share**2


def _variance_of_log_ratio(
    oracle: Any,
    are_values: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    shares: tuple[float, float],
) -> float:
    """Return the variance of the log of the ratio of two shares, for one report (delta method)."""
    first, second = are_values
    first_share, second_share = shares
    first_variance = _variance(oracle, first, first_share)
    second_variance = _variance(oracle, second, second_share)
    of_both = _variance(oracle, first | second, first_share + second_share)
    covariance = (of_both - first_variance - second_variance) / 2
    relative = first_variance / first_share**2 + second_variance / second_share**2
    return relative - 2 * covariance / (first_share * second_share)


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
