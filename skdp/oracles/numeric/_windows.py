"""A mixture of windows, one over the whole range and others that repeat: the mechanism for distributions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._support import capped_epsilon
from skdp.oracles.numeric._mechanism import NumericMechanism, check_steps, informative_threshold
from skdp.oracles.numeric._window import WindowMechanism, square_wave_width
from skdp.oracles.numeric._windows_program import BINS, WEIGHTS, best_windows
from skdp.randomness import ONE, ByteSource, bernoulli, uniform_integers

_LEAST, _MOST = 2.0**-5, 5.0
"""The range of epsilon for which the program is solved."""


class Windows(NumericMechanism):
    """Report a place in a window, or in one that repeats: the most accurate distribution from a mixture of windows.

    A window as in `SquareWave` says roughly where the position is. A window that repeats says where it is within a
    period, such as a third of the range, and so distinguishes positions that are near each other. Each record uses one
    of up to five windows, drawn without looking at the position; the report shows which. Widths, periods and weights
    are the solution of a convex program: they make the expected squared error of the distribution function least, over
    a public family of shapes, for 5,000 reports and the best linear estimate. `SquareWave` and randomised response on
    bins are among the mixtures. Above ``epsilon = 4.87``, where the window of `SquareWave` is narrower than a 32nd of
    the range, it is the only one.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    width : int
        The width of the window that does not repeat, in steps.
    periodic : tuple of (int, int, int)
        The windows that repeat: period and width in steps, and weight in 64ths.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`; `epsilon` is finite for any request. Each window is private, so every
    mixture by weights that do not depend on the position is.

    A report of a window that repeats comes with a random sign, and stands for the middle of the grid plus or minus a
    number of its own: on average for the middle, whatever the position. The reports of the other window are scaled, so
    that the mean over all is the position.

    Examples
    --------
    >>> mechanism = Windows(1024, 1.0)
    >>> mechanism.width, mechanism.periodic
    (384, ((288, 96, 3), (352, 128, 5), (416, 128, 6), (512, 160, 5)))
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        self.steps = check_steps(steps)
        wanted = capped_epsilon(epsilon)
        width, periodic = _chosen(float(wanted))
        scaled = ((period * steps // BINS, size * steps // BINS, share) for period, size, share in periodic)
        # On a coarse grid, windows that are too small are left out.
        used = [(period, size, share) for period, size, share in scaled if 0 < size < period <= steps]
        self.periodic = tuple(used)
        self._once = WindowMechanism(steps, wanted, round(width * steps))
        self.width = self._once.width
        self._again = [_Periodic(steps, wanted, period, size) for period, size, _ in used]
        self._weights = [WEIGHTS - sum(share for _, _, share in used), *(share for _, _, share in used)]
        self.n_reports = self._once.n_reports + sum(2 * own.period for own in self._again)
        self.worst_ratio = max([self._once.worst_ratio, *(own.worst_ratio for own in self._again)])

    @property
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report; those of the window over all first."""
        middle, scale = Fraction(self.steps, 2), Fraction(WEIGHTS, self._weights[0])
        found = [middle + scale * (estimate - middle) for estimate in self._once.estimates]
        for numbers in self._numbers():
            found += [middle + sign * number for number in numbers for sign in (-1, 1)]
        return found

    def _numbers(self) -> list[list[Fraction]]:
        """Return what the reports of each repeating window add to the middle, or subtract: no two the same."""
        # The other reports are whole or half gaps from the middle; each window that repeats has a fraction of its own.
        gap = Fraction(WEIGHTS, self._weights[0]) / (1 - self._once.lie)
        parts = 2 * (len(self._again) + 1)
        return [
            [gap * (phase - own.period // 2 + Fraction(place, parts)) for phase in range(own.period)]
            for place, own in enumerate(self._again, start=1)
        ]

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"width": self.width, "periodic": [list(own) for own in self.periodic]}

    def _draw(self, positions: NDArray[np.int64], source: ByteSource) -> NDArray[np.int64]:
        # All windows are drawn for every record, so that the random bits of a record do not depend on another's.
        place = uniform_integers(source, WEIGHTS, positions.size)
        reports, first = self._once.report(positions, source), self._once.n_reports
        below = self._weights[0]
        for own, weight in zip(self._again, self._weights[1:], strict=True):
            reports = np.where(place >= below, first + own.report(positions, source), reports)
            below, first = below + weight, first + 2 * own.period
        return reports

    def _row(self, position: int) -> list[Fraction]:
        shares = [Fraction(weight, WEIGHTS) for weight in self._weights]
        row = [shares[0] * share for share in self._once._row(position)]
        for own, share in zip(self._again, shares[1:], strict=True):
            row += [share / 2 * one for one in own.row(position) for _ in range(2)]
        return row

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = [self._once.spread(weights) * (self._weights[0] / WEIGHTS)]
        for own, weight in zip(self._again, self._weights[1:], strict=True):
            parts.append(np.repeat(own.spread(weights), 2, axis=1) * (weight / WEIGHTS / 2))
        return np.hstack(parts)

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        offset = (positions - self.steps / 2) ** 2
        whole = self._weights[0] / WEIGHTS
        found = self._once.variances(positions) / whole + offset * (1 / whole - 1)
        for own, numbers, weight in zip(self._again, self._numbers(), self._weights[1:], strict=True):
            moments = own.moments(np.array(numbers, float) ** 2)
            found += weight / WEIGHTS * np.interp(positions, np.arange(self.steps + 1), moments)
        return found


class _Periodic:
    """A window on a circle: a report is uniform over all places with probability l, otherwise over the window."""

    def __init__(self, steps: int, epsilon: Fraction, period: int, width: int) -> None:
        self.steps, self.period, self.width = steps, period, width
        self._threshold = informative_threshold(epsilon, Fraction(period, width))
        self.lie = Fraction(self._threshold, ONE)
        self.worst_ratio = 1 + Fraction(period, width) * (1 - self.lie) / self.lie

    def report(self, positions: NDArray[np.int64], source: ByteSource) -> NDArray[np.int64]:
        """Randomise positions, and add a random sign: the last bit of a report."""
        lies = bernoulli(source, self._threshold, positions.size)
        inside = (positions + uniform_integers(source, self.width, positions.size)) % self.period
        anywhere = uniform_integers(source, self.period, positions.size)
        return 2 * np.where(lies, anywhere, inside) + uniform_integers(source, 2, positions.size)

    def row(self, position: int) -> list[Fraction]:
        """Return the probability of each place."""
        other = self.lie / self.period
        inside = other + (1 - self.lie) / self.width
        return [inside if (place - position) % self.period < self.width else other for place in range(self.period)]

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distribution of the places."""
        padding = -weights.shape[1] % self.period
        folded = np.pad(weights, ((0, 0), (0, padding))).reshape(len(weights), -1, self.period).sum(axis=1)
        held = self._over_windows(folded)
        lie = float(self.lie)
        return folded.sum(axis=1, keepdims=True) * (lie / self.period) + held * (float(1 - self.lie) / self.width)

    def _over_windows(self, folded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, for each place, the sum over the places of which it is in the window."""
        # In place of differences of cumulative sums, which may leave rounding errors below 0.
        twice = np.hstack([folded[:, self.period - self.width + 1 :], folded])
        windows = np.lib.stride_tricks.sliding_window_view(twice, self.width, axis=1)
        sums: NDArray[np.float64] = windows.sum(axis=2)
        return sums

    def moments(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of values of the places, given each position."""
        inside = np.lib.stride_tricks.sliding_window_view(np.append(values, values[: self.width - 1]), self.width)
        means = float(self.lie) * values.mean() + float(1 - self.lie) * inside.mean(axis=1)
        return means[np.arange(self.steps + 1) % self.period]


def _chosen(epsilon: float) -> tuple[float, tuple[tuple[int, int, int], ...]]:
    """Return the width of the first window as a share of the range, and the windows that repeat."""
    width = square_wave_width(epsilon)
    if width * BINS < 1:
        return width, ()
    found = best_windows(min(max(epsilon, _LEAST), _MOST), width)
    return found.width, found.periodic
