"""Exact Laplace noise on a grid: rational probabilities, drawn digit by digit."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles.numeric._mechanism import NumericMechanism, check_steps
from skdp.privacy import LaplaceLoss, ReportPair, check_epsilon
from skdp.randomness import ByteSource, bernoulli_ratio

_BITS = 256


class ClampedLaplace(NumericMechanism):
    """Add discrete Laplace noise to the position, and clamp the sum to the grid.

    The noise d has the probability ``(1 - a) / (1 + a) * a^|d|`` ([1]_). The ratio a is a fraction, at least
    e^(-eps / steps): rounded towards more noise. Every probability is therefore a fraction too, and no report is more
    than a^(-steps) <= e^eps times likelier under one position than under another.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    ratio : Fraction
        The exact ratio a.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`.

    Clamping loses nothing for the mean: the distance of the sum beyond an end does not depend on the position, as the
    geometric distribution is memoryless, and a / (1 - a) is its mean. The two end reports are therefore estimates of
    ``-a / (1 - a)`` and ``steps + a / (1 - a)``, and every other report of itself, without bias. The variance is
    ``a / (1 - a)^2 * (2 - (a^t + a^(steps - t)) / (1 + a))``, less than the ``2 a / (1 - a)^2`` without clamping.

    References
    ----------
    .. [1] A. Ghosh, T. Roughgarden, M. Sundararajan (2012). Universally utility-maximizing privacy mechanisms. SIAM J.
       Comput. 41(6).

    Examples
    --------
    >>> mechanism = ClampedLaplace(2, 2 * math.log(2))
    >>> [[round(float(share), 3) for share in row] for row in mechanism.channel()]
    [[0.667, 0.167, 0.167], [0.333, 0.333, 0.333], [0.167, 0.167, 0.667]]
    >>> [round(float(estimate), 3) for estimate in mechanism.estimates]
    [-1.0, 1.0, 3.0]
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        self.steps = check_steps(steps)
        self.n_reports = self.steps + 1
        # Per step; beyond 50, the difference between e^-50 and 2**-64 is negligible.
        wanted = min(check_epsilon(epsilon) / self.steps, Fraction(50))
        # 64 bits of 1 - a, which is about this large.
        bits = 64 + math.ceil(1 / wanted).bit_length()
        self.ratio = Fraction(math.ceil((1 << bits) / exp_bounds(wanted)[0]), 1 << bits)
        if self.ratio >= 1:
            raise ValueError(
                f"epsilon = {float(epsilon):g} for a number is too small: the reports would be pure noise"
            )

    @cached_property
    def worst_ratio(self) -> Fraction:  # type: ignore[override]  # numpydoc ignore=RT01
        """The largest ratio of the probabilities of a report: a number of millions of digits on a fine grid."""
        return (1 / self.ratio) ** self.steps

    @property
    def loss(self) -> LaplaceLoss:  # numpydoc ignore=RT01
        """The privacy loss of the noise, of which clamping is post-processing."""
        return LaplaceLoss(self.epsilon, self.steps)

    def shuffle_pair(self) -> ReportPair:
        # The squarings that give the power are rounded up.
        ratio, power = 1 / self.ratio, Fraction(1)
        for bit in format(self.steps, "b"):
            power = _rounded_up(power * power * (ratio if bit == "1" else 1))
        return ReportPair.of_any(power)

    @property
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report."""
        beyond = self.ratio / (1 - self.ratio)
        return [-beyond, *map(Fraction, range(1, self.steps)), self.steps + beyond]

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        n = positions.size
        *digits, last = _powers(self.ratio, (self.steps - 1).bit_length())
        # d = g with probability 1 / (1 + a), otherwise -1 - g, where g is geometric: P(g) = (1 - a) a^g.
        numerator, denominator = self.ratio.as_integer_ratio()
        negative = bernoulli_ratio(source, numerator, numerator + denominator, n)
        # The binary digits of g are independent: digit i is 1 with the odds a^(2^i) to 1.
        gap = np.zeros(n, np.int64)
        for digit, (numerator, denominator) in enumerate(digits):
            gap += (
                bernoulli_ratio(source, numerator, numerator + denominator, n).astype(
                    np.int64
                )
                << digit
            )
        # The digits above only decide whether g reaches 2**digits >= steps, which is clamped in any case.
        gap[bernoulli_ratio(source, *last, n)] = self.steps
        return np.clip(positions + np.where(negative, -1 - gap, gap), 0, self.steps)

    def _row(self, position: int) -> list[Fraction]:
        a = self.ratio
        inside = [
            (1 - a) / (1 + a) * a ** abs(report - position)
            for report in range(1, self.steps)
        ]
        return [a**position / (1 + a), *inside, a ** (self.steps - position) / (1 + a)]

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.signal import (
            lfilter,
        )  # a tenth of the time in which skdp is imported

        a, rest = float(self.ratio), float(1 - self.ratio)
        # Sums of a^|t - y| over the positions t on either side of a report y.
        below = lfilter([1.0], [1.0, -a], weights, axis=1)
        above = lfilter([1.0], [1.0, -a], weights[:, ::-1], axis=1)[:, ::-1]
        spread: NDArray[np.float64] = (below + above - weights) * (rest / (1 + a))
        spread[:, 0], spread[:, -1] = above[:, 0] / (1 + a), below[:, -1] / (1 + a)
        return spread

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        a, rest = float(self.ratio), float(1 - self.ratio)
        return (
            a / rest**2 * (2 - (a**positions + a ** (self.steps - positions)) / (1 + a))
        )


def _rounded_up(number: Fraction) -> Fraction:
    """Return a number that is larger by less than 2**-_BITS, and takes few digits."""
    return Fraction(math.ceil(number * (1 << _BITS)), 1 << _BITS)


@lru_cache(maxsize=8)
def _powers(ratio: Fraction, squarings: int) -> list[tuple[int, int]]:
    """Return numerator and denominator of ratio, ratio^2, ratio^4, …: long numbers, cached for each draw."""
    powers = [ratio.as_integer_ratio()]
    for _ in range(squarings):
        numerator, denominator = powers[-1]
        powers.append((numerator**2, denominator**2))
    return powers
