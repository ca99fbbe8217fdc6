"""Duchi's mechanism, and its mixture with the piecewise mechanism."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._support import capped_epsilon
from skdp.oracles.numeric._mechanism import NumericMechanism, check_steps, informative_threshold
from skdp.oracles.numeric._window import Piecewise
from skdp.privacy import ReportPair
from skdp.randomness import ONE, ByteSource, bernoulli, uniform_integers


class Duchi(NumericMechanism):
    """Duchi's mechanism: round the number to one of the two ends at random, and randomise the end.

    The end is the upper one with a probability of exactly position / steps; with probability l it is replaced by a fair
    coin, so that the report is e^eps times likelier under its own end ([1]_). The two reports stand for
    ``steps / 2 ± steps / (2 (1 - l))``, with the variance ``(steps / (2 (1 - l)))^2 - (t - steps / 2)^2``.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    lie : Fraction
        The exact probability l.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`; `epsilon` is finite for any request.

    References
    ----------
    .. [1] J. Duchi, M. Jordan, M. Wainwright (2018). Minimax optimal procedures for locally private estimation. JASA
       113(521).

    Examples
    --------
    >>> [[round(float(share), 3) for share in row] for row in Duchi(2, math.log(3)).channel()]
    [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]
    """

    n_reports = 2

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        self.steps = check_steps(steps)
        self._threshold = informative_threshold(epsilon, Fraction(2))
        self.lie = Fraction(self._threshold, ONE)
        self.worst_ratio = 1 + 2 * (1 - self.lie) / self.lie

    @property
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report."""
        reach = self.steps / (2 * (1 - self.lie))
        return [Fraction(self.steps, 2) - reach, Fraction(self.steps, 2) + reach]

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """The total variation distance of the reports of the two ends."""
        return 1 - self.lie

    def shuffle_pair(self) -> ReportPair:
        # The report of any position is a mixture of those of the two ends.
        return ReportPair.of_support(1 - self.lie / 2, self.lie / 2, (1, 1, 0, 0), two_valued=True)

    def _draw(self, positions: NDArray[np.int64], source: ByteSource) -> NDArray[np.int64]:
        lies = bernoulli(source, self._threshold, positions.size)
        ends = uniform_integers(source, self.steps, positions.size) < positions
        return np.where(lies, uniform_integers(source, 2, positions.size), ends).astype(np.int64)

    def _row(self, position: int) -> list[Fraction]:
        upper = self.lie / 2 + (1 - self.lie) * Fraction(position, self.steps)
        return [1 - upper, upper]

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        places = np.arange(self.steps + 1) / self.steps
        upper = float(self.lie) / 2 + float(1 - self.lie) * np.column_stack([places[::-1], places])
        return weights @ upper

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        lie, truth = float(self.lie), float(1 - self.lie)
        middle = self.steps / 2
        # middle**2 / truth**2 - (t - middle)**2, without the cancellation at the ends when l is tiny.
        return middle**2 * lie * (1 + truth) / truth**2 + positions * (self.steps - positions)


class Hybrid(NumericMechanism):
    """The hybrid mechanism: the piecewise one or Duchi's, by a coin that does not depend on the number.

    The piecewise mechanism is used with probability 1 - e^(-eps / 2), and never up to eps = 0.61. This mixture has the
    least worst-case variance ([1]_). The report shows which mechanism was used.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    share : Fraction
        The exact probability of the piecewise mechanism.

    Notes
    -----
    **Privacy.** Local model, replacement of the number: both mechanisms are private, so every mixture is.

    References
    ----------
    .. [1] N. Wang et al. (2019). Collecting and analyzing multidimensional data with local differential privacy. ICDE.

    Examples
    --------
    The variance over that of the range -1 to 1, for a number at its end:

    >>> mechanism = Hybrid(1024, 1.0)
    >>> (mechanism.variances([0]) / 512**2).round(2)
    array([4.29])
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        self.steps = check_steps(steps)
        wanted = capped_epsilon(epsilon)
        self._duchi = Duchi(steps, wanted)
        self._piecewise = Piecewise(steps, wanted)
        # A public number: its rounding affects accuracy, not privacy. At most 1 - 2**-64: each may be used.
        self._threshold = min(ONE - 1, int(ONE * -math.expm1(-wanted / 2))) if wanted > 0.61 else 0
        self.share = Fraction(self._threshold, ONE)
        used = [self._duchi, self._piecewise] if self._threshold else [self._duchi]
        self.n_reports = sum(mechanism.n_reports for mechanism in used)
        self.worst_ratio = max(mechanism.worst_ratio for mechanism in used)

    @property
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report: Duchi's two reports first."""
        return [Fraction(*one) for one in self.quotients]

    @property
    def quotients(self) -> list[tuple[int, int]]:  # numpydoc ignore=RT01
        """The estimates as numerators and denominators."""
        return self._duchi.quotients + (self._piecewise.quotients if self._threshold else [])

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """The total variation distance of the reports of the two ends: the mean of both mechanisms."""
        return (1 - self.share) * self._duchi.variation + self.share * self._piecewise.variation

    def shuffle_pair(self) -> ReportPair:
        # The two ends are the most spread pair of either mechanism: of two reports, those whose ratios differ most.
        two, many = self._duchi.shuffle_pair(), self._piecewise.shuffle_pair()
        if not self._threshold:
            return two
        return ReportPair.mixed(((1 - self.share, two), (self.share, many)))

    def _draw(self, positions: NDArray[np.int64], source: ByteSource) -> NDArray[np.int64]:
        two = self._duchi.report(positions, source)
        if not self._threshold:
            return two
        # Both are drawn for every record, so that the random bits of a record do not depend on those of another.
        many = 2 + self._piecewise.report(positions, source)
        return np.where(bernoulli(source, self._threshold, positions.size), many, two)

    def _row(self, position: int) -> list[Fraction]:
        row = [(1 - self.share) * share for share in self._duchi._row(position)]
        return row + ([self.share * share for share in self._piecewise._row(position)] if self._threshold else [])

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        two = float(1 - self.share) * self._duchi.spread(weights)
        if not self._threshold:
            return two
        return np.hstack([two, float(self.share) * self._piecewise.spread(weights)])

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        two, many = self._duchi.variances(positions), self._piecewise.variances(positions)
        return float(1 - self.share) * two + float(self.share) * many
