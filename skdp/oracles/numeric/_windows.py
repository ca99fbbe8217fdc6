"""Mechanisms that report a place in a window: the square wave, and its mixture with windows that repeat."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import capped_epsilon, lie_threshold
from skdp.oracles.numeric._mechanism import (
    NumericMechanism,
    check_steps,
)
from skdp.privacy import ReportPair
from skdp.randomness import ONE, ByteSource, bernoulli, uniform_integers

Floats = NDArray[np.float64]

BINS = 32
"""Parts of the range: widths and periods of windows are whole numbers of them."""
WEIGHTS = 64
"""Weights are multiples of 1 / 64."""

Periodic = tuple[tuple[int, int, int], ...]

_MIXTURES: dict[int, tuple[int, Periodic]] = {
    -4: (16, ((11, 5, 3), (12, 6, 2), (16, 6, 3), (16, 7, 7))),
    -3: (16, ((9, 4, 2), (11, 5, 5), (16, 6, 10), (16, 7, 1))),
    -2: (16, ((9, 4, 2), (11, 5, 5), (16, 5, 6), (16, 6, 5))),
    -1: (15, ((7, 3, 2), (9, 4, 3), (12, 5, 5), (16, 5, 10))),
    0: (12, ((9, 3, 3), (11, 4, 5), (13, 4, 6), (16, 5, 5))),
    1: (10, ((8, 2, 4), (10, 2, 5), (11, 3, 4), (13, 3, 5))),
    2: (7, ((7, 1, 3), (8, 2, 2), (13, 2, 4), (16, 2, 5))),
    3: (4, ((13, 1, 2), (14, 1, 3), (15, 1, 4), (16, 1, 4))),
}
"""By 2 log2(epsilon): the width of the window that does not repeat, and period, width and weight of those that do.

The solutions of ``benchmarks/_windows_program.py``, of which the error of a mixture
between two of them is up to 1.3 % larger, and up to 6 % at either end.
"""


def square_wave_width(epsilon: float) -> float:
    """Return the width of the window of the square wave mechanism, as a share of the range."""
    if epsilon < 1e-3:
        # Numerator and denominator vanish; the next term is of order epsilon squared.
        return 1 - 2 * epsilon / 3
    decay = math.exp(-epsilon)
    return (epsilon - 1 + decay) * decay / (1 - decay - epsilon * decay)


class Windows(NumericMechanism):
    """Report a place in a window at the true position, or in one that repeats: the mechanisms for distributions.

    >>> mechanism = Windows(1024, 1.0)
    >>> mechanism.width, mechanism.periodic
    (384, ((288, 96, 3), (352, 128, 5), (416, 128, 6), (512, 160, 5)))
    >>> Windows(1024, 1.0, repeating=False).width
    524

    A report of a single window is a place in a window that begins at the position, or
    with some probability any place. This is the square wave mechanism ([1]_): in units
    of the range, the window has the width ``(eps e^eps - e^eps + 1) / (e^eps (e^eps - 1
    - eps))``, which maximises the information about the distribution.

    A window says roughly where the position is. A window that repeats says where it is
    within a period, such as a third of the range, and so distinguishes positions that
    are near each other. Each record uses one of up to five windows, drawn without
    looking at the position; the report shows which. Widths, periods and weights are a
    table, the solutions of a convex program at a few epsilons: they make the expected
    squared error of the distribution function least, over a public family of shapes,
    for 5,000 reports and the best linear estimate. The square wave and randomised
    response on bins are among the mixtures. Above ``epsilon = 3.36`` the square wave is
    the only one.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    repeating : bool, default=True
        Whether there may be windows that repeat. False: the square wave mechanism.

    Attributes
    ----------
    width : int
        The width of the window that does not repeat, in steps.
    periodic : tuple of (int, int, int)
        The windows that repeat: period and width in steps, and weight in 64ths.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`; `epsilon` is finite for any request. Each
    window is private, so every mixture by weights that do not depend on the position
    is.

    A report of a window that repeats comes with a random sign, and stands for the
    middle of the grid plus or minus a number of its own: on average for the middle,
    whatever the position. The reports of the other window are scaled, so that the mean
    over all is the position.

    References
    ----------
    .. [1] Z. Li et al. (2020). Estimating numerical distributions under local
       differential privacy. SIGMOD.
    """

    def __init__(
        self, steps: int, epsilon: float | Fraction, *, repeating: bool = True
    ) -> None:
        self.steps = check_steps(steps)
        capped = capped_epsilon(epsilon)
        width_bins: float = square_wave_width(float(capped)) * BINS
        repeated: Periodic = ()
        half_octave = round(2 * math.log2(max(float(capped), 1 / 4)))
        if repeating and half_octave in _MIXTURES:
            width_bins, repeated = _MIXTURES[half_octave]
        self.width = max(1, min(round(width_bins * steps / BINS), steps))
        # The places of the window that does not repeat are one more period: from no
        # position does it reach the end.
        self._line = _Window(capped, steps + self.width, self.width)
        self._circles = []
        weights = []
        periodic = []
        for period_bins, narrow_bins, weight in repeated:
            period = period_bins * steps // BINS
            width = narrow_bins * steps // BINS
            # On a coarse grid, windows that are too small are left out.
            if 0 < width < period <= steps:
                periodic.append((period, width, weight))
                weights.append(weight)
                self._circles.append(_Window(capped, period, width))
        self.periodic = tuple(periodic)
        self._weights = [WEIGHTS - sum(weights), *weights]
        shares = [Fraction(weight, WEIGHTS) for weight in self._weights]
        windows = [self._line, *self._circles]
        self._parts = list(zip(shares, windows, strict=True))
        self.worst_ratio = max(window.worst_ratio for window in windows)
        n_signed = sum(window.n_places for window in self._circles)
        self.n_reports = self._line.n_places + 2 * n_signed

    # The middle of the window on the line is as far from the middle (N - 1) / 2 of its
    # N reports y as the position t is from that of the grid: with the probability l of
    # any place, ``E[y] - (N - 1) / 2 = (1 - l) (t - steps / 2)``. So ``steps / 2 + gap
    # * (y - (N - 1) / 2)`` is unbiased, where the gap is 1 / (1 - l) over the weight of
    # this window.

    @property
    def _gap(self) -> Fraction:
        """The distance of the estimates from two neighbouring reports of the window that does not repeat."""
        return Fraction(WEIGHTS, self._weights[0]) / (1 - self._line.lie)

    @property
    def quotients(self) -> list[tuple[int, int]]:  # numpydoc ignore=RT01
        """The estimates as numerators and denominators."""
        p, q = self._gap.as_integer_ratio()
        n = self._line.n_places
        twice_offsets = range(1 - n, 1 + n, 2)
        quotients = [(self.steps * q + twice * p, 2 * q) for twice in twice_offsets]
        middle = Fraction(self.steps, 2)
        for offset in chain.from_iterable(self._offsets()):
            quotients.append((middle - offset).as_integer_ratio())
            quotients.append((middle + offset).as_integer_ratio())
        return quotients

    def _offsets(self) -> list[list[Fraction]]:
        """Return what the reports of each repeating window add to the middle, or subtract: no two the same."""
        # The other reports are whole or half gaps from the middle; each window that
        # repeats has a fraction of its own.
        gap = self._gap
        n_fractions = 2 * (len(self._circles) + 1)
        offsets = []
        for number, window in enumerate(self._circles, start=1):
            first = Fraction(number, n_fractions) - window.n_places // 2
            offsets.append([gap * (first + place) for place in range(window.n_places)])
        return offsets

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """A bound of the total variation distance of two positions: that of windows that do not overlap."""
        parts = [share * (1 - window.lie) for share, window in self._parts]
        return sum(parts, Fraction(0))

    def shuffle_pair(self) -> ReportPair:
        # Windows that do not overlap are the most spread pair of each part: the report
        # shows which part it is of.
        pairs = []
        for share, window in self._parts:
            n_outside = window.n_places - 2 * window.width
            counts = (window.width, window.width, 0, n_outside)
            pairs.append(
                (share, ReportPair.of_support(window.inside, window.outside, counts))
            )
        return ReportPair.mixed(pairs)

    def parameters(self) -> dict[str, Any]:
        periodic = [list(window) for window in self.periodic]
        return super().parameters() | {"width": self.width, "periodic": periodic}

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        if not self._circles:
            return self._line.draw(positions, source)
        # All windows are drawn for every record, so that the random bits of a record do
        # not depend on another's.
        drawn = uniform_integers(source, WEIGHTS, positions.size)
        reports = self._line.draw(positions, source)
        first_report = self._line.n_places
        first_weight = self._weights[0]
        for window, weight in zip(self._circles, self._weights[1:], strict=True):
            places = window.draw(positions, source)
            signs = uniform_integers(source, 2, positions.size)
            own_reports = first_report + 2 * places + signs
            reports = np.where(drawn >= first_weight, own_reports, reports)
            first_report += 2 * window.n_places
            first_weight += weight
        return reports

    def _row(self, position: int) -> list[Fraction]:
        row = []
        for share, window in self._parts:
            n_signs = 1 if window is self._line else 2
            for probability in window.row(position):
                row += [share / n_signs * probability] * n_signs
        return row

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = []
        for share, window in self._parts:
            n_signs = 1 if window is self._line else 2
            places = np.repeat(window.spread(weights), n_signs, axis=1)
            parts.append(places * (float(share) / n_signs))
        return np.hstack(parts)

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        line = self._line
        share = self._weights[0] / WEIGHTS
        lie = float(line.lie)
        truth = float(1 - line.lie)
        # The variance of a place is (N^2 - 1) / 12 if it is any, (w^2 - 1) / 12 in the
        # window, and that of the mean.
        spread = (lie * (line.n_places**2 - 1) + truth * (self.width**2 - 1)) / 12
        offset = (positions - self.steps / 2) ** 2
        variances = (spread / truth**2 + offset * (lie / truth)) / share
        variances += offset * (1 / share - 1)
        grid = np.arange(self.steps + 1)
        parts = zip(self._offsets(), self._parts[1:], strict=True)
        for offsets, (part_share, window) in parts:
            squares = window.means(np.array(offsets, float) ** 2)
            squares_on_grid = squares[grid % window.n_places]
            variances += float(part_share) * np.interp(positions, grid, squares_on_grid)
        return variances


class _Window:
    """A window on a circle: a report is any place with probability l, otherwise one of the window at the position."""

    # There are N places. With probability l a report is uniform over all of them,
    # otherwise over the w places ``t .. t + w - 1`` modulo N, where t is the position.
    # One of these is ``1 + (N / w) (1 - l) / l`` times likelier than any other, which
    # is e^eps in integers, with l rounded up: finite for any request.

    def __init__(self, epsilon: Fraction, n_places: int, width: int) -> None:
        self.n_places, self.width = n_places, width
        self._threshold = lie_threshold(epsilon, Fraction(n_places, width))
        self.lie = Fraction(self._threshold, ONE)
        self.worst_ratio = 1 + Fraction(n_places, width) * (1 - self.lie) / self.lie
        self.outside = self.lie / n_places
        """The probability of each place outside of the window."""
        self.inside = self.outside + (1 - self.lie) / width

    def draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        """Randomise positions."""
        # All three are drawn for every record, so that neither time nor bytes depend on
        # the random bits of another.
        n = positions.size
        is_lie = bernoulli(source, self._threshold, n)
        offsets = uniform_integers(source, self.width, n)
        window_places = (positions + offsets) % self.n_places
        anywhere = uniform_integers(source, self.n_places, n)
        return np.where(is_lie, anywhere, window_places)

    def row(self, position: int) -> list[Fraction]:
        """Return the probability of each place."""
        row = [self.outside] * self.n_places
        for offset in range(self.width):
            row[(position + offset) % self.n_places] = self.inside
        return row

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distribution of the places, of shape (m, n_places)."""
        n_rows = len(weights)
        padding = -weights.shape[1] % self.n_places
        padded = np.pad(weights, ((0, 0), (0, padding)))
        folded = padded.reshape(n_rows, -1, self.n_places).sum(axis=1)
        # The weight of the positions whose window holds a place is a difference of two
        # cumulative sums, which rounding may leave below 0.
        last_places = folded[:, self.n_places - self.width :]
        sums = np.cumsum(np.hstack([last_places, folded]), axis=1)
        held = np.maximum(sums[:, self.width :] - sums[:, : -self.width], 0)
        any_place = weights.sum(axis=1, keepdims=True) * float(self.outside)
        return any_place + held * (float(1 - self.lie) / self.width)

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of values of the places, given each position modulo `n_places`."""
        cyclic = np.append(values, values[: self.width - 1])
        window_means = np.lib.stride_tricks.sliding_window_view(
            cyclic, self.width
        ).mean(axis=1)
        return float(self.lie) * values.mean() + float(1 - self.lie) * window_means
