"""Mechanisms that report a place in a window around the true position: piecewise and square wave."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._support import capped_epsilon
from skdp.oracles.numeric._mechanism import NumericMechanism, check_steps, informative_threshold
from skdp.privacy import ReportPair
from skdp.randomness import ONE, ByteSource, bernoulli, uniform_integers


class WindowMechanism(NumericMechanism):
    """Report a place in a window at the true position, or with some probability any place."""

    # There are N = steps + w reports. With probability l a report is uniform over all of them, otherwise over the w
    # reports ``t .. t + w - 1``, where t is the position. One of these is ``1 + (N / w) (1 - l) / l`` times likelier
    # than any other, which is e^eps in integers, with l rounded up: finite for any request.
    # The middle of the window is as far from the middle (N - 1) / 2 of the reports as the position is from steps / 2.
    # So ``E[y] - (N - 1) / 2 = (1 - l) (t - steps / 2)``, and ``steps / 2 + (y - (N - 1) / 2) / (1 - l)`` is unbiased.
    # Its variance is ``(l (N^2 - 1) + (1 - l) (w^2 - 1)) / (12 (1 - l)^2) + (t - steps / 2)^2 l / (1 - l)``.

    def __init__(self, steps: int, epsilon: float | Fraction, width: int) -> None:
        self.steps = check_steps(steps)
        self.width = max(1, min(width, self.steps))
        self.n_reports = self.steps + self.width
        self._threshold = informative_threshold(epsilon, Fraction(self.n_reports, self.width))
        self.lie = Fraction(self._threshold, ONE)
        self.worst_ratio = 1 + Fraction(self.n_reports, self.width) * (1 - self.lie) / self.lie

    @property
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report."""
        return [Fraction(*one) for one in self.quotients]

    @property
    def quotients(self) -> list[tuple[int, int]]:  # numpydoc ignore=RT01
        """The estimates as numerators and denominators."""
        p, q = (1 / (1 - self.lie)).as_integer_ratio()
        places = range(1 - self.n_reports, 1 + self.n_reports, 2)  # 2 y - (N - 1)
        return [(self.steps * q + place * p, 2 * q) for place in places]

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """The total variation distance of the reports of the two ends, whose windows do not overlap."""
        return 1 - self.lie

    def shuffle_pair(self) -> ReportPair:
        # The windows of the two ends do not overlap.
        low = self.lie / self.n_reports
        outside = self.n_reports - 2 * self.width
        return ReportPair.of_support(low + (1 - self.lie) / self.width, low, (self.width, self.width, 0, outside))

    def _draw(self, positions: NDArray[np.int64], source: ByteSource) -> NDArray[np.int64]:
        # All three are drawn for every record, so that neither time nor bytes depend on the random bits of another.
        lies = bernoulli(source, self._threshold, positions.size)
        inside = positions + uniform_integers(source, self.width, positions.size)
        anywhere = uniform_integers(source, self.n_reports, positions.size)
        return np.where(lies, anywhere, inside)

    def _row(self, position: int) -> list[Fraction]:
        other = self.lie / self.n_reports
        inside = other + (1 - self.lie) / self.width
        return [inside if position <= report < position + self.width else other for report in range(self.n_reports)]

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        # The weight of the positions whose window contains a report is a difference of two cumulative sums.
        total = np.pad(np.cumsum(weights, axis=1), ((0, 0), (self.width, self.width)), mode="edge")
        total[:, : self.width] = 0
        held = np.maximum(total[:, self.width :] - total[:, : -self.width], 0)[:, : self.n_reports]
        lie = float(self.lie)
        return total[:, -1:] * (lie / self.n_reports) + held * (float(1 - self.lie) / self.width)

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        lie, truth = float(self.lie), float(1 - self.lie)
        spread = lie * (self.n_reports**2 - 1) + truth * (self.width**2 - 1)
        return spread / (12 * truth**2) + (positions - self.steps / 2) ** 2 * (lie / truth)


class Piecewise(WindowMechanism):
    """The piecewise mechanism: the width of the window minimises the variance of the mean.

    In steps, the window of [1]_ has the width ``w = steps / e^(eps / 2)``, rounded here to at least 1.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`; `epsilon` is finite for any request.

    References
    ----------
    .. [1] N. Wang et al. (2019). Collecting and analyzing multidimensional data with local differential privacy. ICDE.

    Examples
    --------
    >>> Piecewise(1024, 1.0).width
    621
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        wanted = capped_epsilon(epsilon)
        super().__init__(steps, wanted, round(check_steps(steps) * math.exp(-wanted / 2)))


class SquareWave(WindowMechanism):
    """The square wave mechanism: the width of the window maximises the information about the distribution.

    In units of the whole range, the window of [1]_ has the width 2b with
    ``b = (eps e^eps - e^eps + 1) / (2 e^eps (e^eps - 1 - eps))``; here it is rounded to steps, at least 1.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`; `epsilon` is finite for any request.

    References
    ----------
    .. [1] Z. Li et al. (2020). Estimating numerical distributions under local differential privacy. SIGMOD.

    Examples
    --------
    >>> SquareWave(1024, 1.0).width
    524
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        wanted = capped_epsilon(epsilon)
        super().__init__(steps, wanted, round(check_steps(steps) * square_wave_width(float(wanted))))


def square_wave_width(epsilon: float) -> float:
    """Return the width of the window as a share of the range."""
    if epsilon < 1e-3:
        return 1 - 2 * epsilon / 3  # numerator and denominator vanish; the next term is of order epsilon squared
    decay = math.exp(-epsilon)
    return (epsilon - 1 + decay) * decay / (1 - decay - epsilon * decay)
