"""Mechanisms that report a place in a window: the square wave, and its mixture with windows that repeat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import capped_epsilon
from skdp.oracles.numeric._mechanism import (
    NumericMechanism,
    check_steps,
    informative_threshold,
)
from skdp.privacy import ReportPair
from skdp.randomness import ONE, ByteSource, bernoulli, uniform_integers

Floats = NDArray[np.float64]

BINS = 32
"""Parts of the range: shapes of a distribution are constant on each, and periods are whole numbers of them."""
WEIGHTS = 64
"""Weights are multiples of 1 / 64, so that they do not depend on how a machine rounds floats."""
REPORTS = 5_000
"""The number of reports for which the error is the least."""
_LEAST, _MOST = 2.0**-5, 5.0
"""The range of epsilon for which the program is solved."""
_KEPT, _TRIED, _ROUNDS = (16, 8, 4), 4, 150
_PARTS = 8
_REACH, _SPIKY = 0.1, 0.05


@dataclass(frozen=True)
class Mixture:
    """A window that is wide enough for the whole range, and windows that repeat, each with a share of the records."""

    width: float
    """The width of the first window, as a share of the range."""
    periodic: tuple[tuple[int, int, int], ...]
    """Period and width in 32nds of the range, and weight in 64ths."""


def square_wave_width(epsilon: float) -> float:
    """Return the width of the window of the square wave mechanism, as a share of the range."""
    if epsilon < 1e-3:
        return (
            1 - 2 * epsilon / 3
        )  # numerator and denominator vanish; the next term is of order epsilon squared
    decay = math.exp(-epsilon)
    return (epsilon - 1 + decay) * decay / (1 - decay - epsilon * decay)


def best_mixture(epsilon: float) -> Mixture:
    """Return the best mixture: the square wave alone, where its window is narrower than the bins of the program."""
    width = square_wave_width(epsilon)
    if width * BINS < 1:
        return Mixture(width, ())
    return best_windows(min(max(epsilon, _LEAST), _MOST), width)


@lru_cache(maxsize=64)
def best_windows(epsilon: float, square_wave: float) -> Mixture:
    """Return the best mixture of one window, which may be the square wave's, and of at most four that repeat."""
    # The weights of a mixture enter the information of the reports linearly, so the
    # error is a convex function of them, and multiplicative steps lead to its minimum
    # ([1]_).
    # .. [1] S. Silvey, D. Titterington, B. Torsney (1978). An algorithm for optimal
    #    designs on a finite design space. Communications in Statistics 7(14).
    widths = [square_wave, *(bins / BINS for bins in range(1, BINS))]
    periods = [
        (period, width)
        for period in range(2, BINS // 2 + 1)
        for width in range(1, period // 2 + 1)
    ]
    whole = np.array([information(_once(width, epsilon)) for width in widths])
    parts = np.array([information(_again(*one, epsilon)) for one in periods])
    weights = _mixed(np.concatenate([whole, parts]))
    tried = []
    for first in {0, *np.argsort(-weights[: len(widths)])[:_TRIED].tolist()}:
        chosen, kept = (
            np.concatenate([whole[first : first + 1], parts]),
            np.arange(len(periods)),
        )
        for number in (
            _KEPT
        ):  # the fewer are left, the more do those that are alike differ in weight
            places = np.argsort(-_mixed(chosen)[1:])[:number]
            kept, chosen = kept[places], chosen[np.append(0, 1 + places)]
        shares = np.rint(_mixed(chosen)[1:] * WEIGHTS).astype(int).tolist()
        mixture = np.array([WEIGHTS - sum(shares), *shares]) / WEIGHTS
        periodic = [
            (*periods[place], share)
            for place, share in zip(kept.tolist(), shares, strict=True)
            if share
        ]
        tried.append(
            (
                distribution_error(np.tensordot(mixture, chosen, 1)),
                Mixture(widths[first], tuple(sorted(periodic))),
            )
        )
    return min(tried, key=lambda pair: pair[0])[1]


def information(channel: Floats) -> Floats:
    """Return the Fisher information of a report about the shares of the bins, at the uniform distribution."""
    scaled = channel / np.sqrt(channel.mean(axis=0))
    found: Floats = scaled @ scaled.T
    return found


def distribution_error(found: Floats) -> float:
    """Return the root mean square error of P(X <= t), over all t and shapes, of the best linear estimate."""
    spread, below = _shapes()
    inverse = np.linalg.inv(np.eye(BINS) + REPORTS * (spread.T @ found @ spread))
    return math.sqrt(np.sum((below @ spread @ inverse) * (below @ spread)) / BINS)


@cache
def _shapes() -> tuple[Floats, Floats]:
    """Return a root of the covariance of the shapes, and the sums that make a distribution function of shares."""
    # Most of the variance is that of smooth shapes, a Gaussian process; some is that of
    # spiky ones, with independent bins, a Dirichlet distribution. With more of the
    # latter, narrow windows gain more, for a linear estimate: the smoothed one does not
    # make use of it, and is worse for shapes without spikes.
    centred = np.eye(BINS) - 1 / BINS
    places = np.arange(BINS) / BINS
    smooth = (
        centred
        @ np.exp(-((places[:, np.newaxis] - places) ** 2) / (2 * _REACH**2))
        @ centred
    )
    covariance = _SPIKY * centred / np.trace(centred) + (
        1 - _SPIKY
    ) * smooth / np.trace(smooth)
    covariance *= (1 - 1 / BINS) / 2
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0)), np.tril(np.ones((BINS, BINS)))[:-1]


def _mixed(informations: Floats) -> Floats:
    """Return the weights of the least error."""
    spread, below = _shapes()
    roots = spread.T @ informations @ spread
    goal = (below @ spread).T @ (below @ spread)
    weights = np.full(len(roots), 1 / len(roots))
    for _ in range(_ROUNDS):
        inverse = np.linalg.inv(
            np.eye(BINS) + REPORTS * np.tensordot(weights, roots, 1)
        )
        slopes = np.tensordot(roots, inverse @ goal @ inverse, 2)
        weights = weights * np.sqrt(np.maximum(slopes, 0))
        weights /= weights.sum()
    return weights


def _channel(held: Floats, share: float, epsilon: float) -> Floats:
    """Return the probability of each report, from the share of each bin in the report's window."""
    # Of windows that take a share of all reports.
    rows = 1 + math.expm1(epsilon) * held
    found: Floats = rows / (held.shape[1] * (1 + math.expm1(epsilon) * share))
    return found


def _once(width: float, epsilon: float) -> Floats:
    """Return the channel of a window on a line that is longer than the range by its width."""
    edges = np.arange(BINS + 1) / BINS
    ends = np.arange(1, _PARTS * BINS + 1) / (_PARTS * BINS) * (1 + width)
    inside = np.clip(
        np.minimum(ends, edges[1:, np.newaxis])
        - np.maximum(ends - width, edges[:-1, np.newaxis]),
        0,
        None,
    )
    return _channel(inside * BINS, width / (1 + width), epsilon)


def _again(period: int, width: int, epsilon: float) -> Floats:
    """Return the channel of a window that repeats."""
    ends = np.arange(_PARTS * period) / _PARTS
    distance = (ends - np.arange(BINS)[:, np.newaxis]) % period
    # The part of a bin that is in the window that ends `distance` after the bin begins.
    inside = np.clip(np.minimum(distance, 1) - np.maximum(distance - width, 0), 0, 1)
    return _channel(inside, width / period, epsilon)


class Windows(NumericMechanism):
    """Report a place in a window at the true position, or in one that repeats: the mechanisms for distributions.

    A report of a single window is a place in a window that begins at the position, or
    with some probability any place. This is the square wave mechanism ([1]_): in units
    of the range, the window has the width ``(eps e^eps - e^eps + 1) / (e^eps (e^eps - 1
    - eps))``, which maximises the information about the distribution.

    A window says roughly where the position is. A window that repeats says where it is
    within a period, such as a third of the range, and so distinguishes positions that
    are near each other. Each record uses one of up to five windows, drawn without
    looking at the position; the report shows which. Widths, periods and weights are the
    solution of a convex program: they make the expected squared error of the
    distribution function least, over a public family of shapes, for 5,000 reports and
    the best linear estimate. The square wave and randomised response on bins are among
    the mixtures. Above ``epsilon = 4.87``, where the window of the square wave is
    narrower than a 32nd of the range, it is the only one.

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

    Examples
    --------
    >>> mechanism = Windows(1024, 1.0)
    >>> mechanism.width, mechanism.periodic
    (384, ((288, 96, 3), (352, 128, 5), (416, 128, 6), (512, 160, 5)))
    >>> Windows(1024, 1.0, repeating=False).width
    524
    """

    def __init__(
        self, steps: int, epsilon: float | Fraction, *, repeating: bool = True
    ) -> None:
        self.steps = check_steps(steps)
        wanted = capped_epsilon(epsilon)
        mixture = (
            best_mixture(float(wanted))
            if repeating
            else Mixture(square_wave_width(float(wanted)), ())
        )
        self.width = max(1, min(round(mixture.width * steps), steps))
        periodic = []
        for period_bins, width_bins, weight in mixture.periodic:
            period, width = period_bins * steps // BINS, width_bins * steps // BINS
            # On a coarse grid, windows that are too small are left out.
            if 0 < width < period <= steps:
                periodic.append((period, width, weight))
        self.periodic = tuple(periodic)
        # The places of the window that does not repeat are one more period: from no
        # position does it reach the end.
        self._line = _Window(wanted, steps + self.width, self.width)
        self._circles = [
            _Window(wanted, period, width) for period, width, _ in periodic
        ]
        weights = [weight for _, _, weight in periodic]
        self._weights = [WEIGHTS - sum(weights), *weights]
        windows = [self._line, *self._circles]
        self.n_reports = self._line.n_places + sum(
            2 * window.n_places for window in self._circles
        )
        self.worst_ratio = max(window.worst_ratio for window in windows)
        self._parts = list(
            zip(
                [Fraction(weight, WEIGHTS) for weight in self._weights],
                windows,
                strict=True,
            )
        )

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
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report; those of the window over all first."""
        return [Fraction(*quotient) for quotient in self.quotients]

    @property
    def quotients(self) -> list[tuple[int, int]]:  # numpydoc ignore=RT01
        """The estimates as numerators and denominators."""
        p, q = self._gap.as_integer_ratio()
        n = self._line.n_places
        quotients = [
            (self.steps * q + twice_offset * p, 2 * q)
            for twice_offset in range(1 - n, 1 + n, 2)
        ]
        middle = Fraction(self.steps, 2)
        for offsets in self._offsets():
            for offset in offsets:
                quotients += [
                    (middle - offset).as_integer_ratio(),
                    (middle + offset).as_integer_ratio(),
                ]
        return quotients

    def _offsets(self) -> list[list[Fraction]]:
        """Return what the reports of each repeating window add to the middle, or subtract: no two the same."""
        # The other reports are whole or half gaps from the middle; each window that
        # repeats has a fraction of its own.
        gap = self._gap
        parts = 2 * (len(self._circles) + 1)
        offsets = []
        for number, window in enumerate(self._circles, start=1):
            fraction = Fraction(number, parts)
            offsets.append(
                [
                    gap * (place - window.n_places // 2 + fraction)
                    for place in range(window.n_places)
                ]
            )
        return offsets

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """A bound of the total variation distance of two positions: that of windows that do not overlap."""
        return sum(
            (share * (1 - window.lie) for share, window in self._parts), Fraction(0)
        )

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
        return super().parameters() | {
            "width": self.width,
            "periodic": [list(window) for window in self.periodic],
        }

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        if not self._circles:
            return self._line.draw(positions, source)
        # All windows are drawn for every record, so that the random bits of a record do
        # not depend on another's.
        drawn = uniform_integers(source, WEIGHTS, positions.size)
        reports = self._line.draw(positions, source)
        first_report, first_weight = self._line.n_places, self._weights[0]
        for window, weight in zip(self._circles, self._weights[1:], strict=True):
            places = window.draw(positions, source)
            signed = 2 * places + uniform_integers(source, 2, positions.size)
            reports = np.where(drawn >= first_weight, first_report + signed, reports)
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
            parts.append(
                np.repeat(window.spread(weights), n_signs, axis=1)
                * (float(share) / n_signs)
            )
        return np.hstack(parts)

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        offset = (positions - self.steps / 2) ** 2
        share = self._weights[0] / WEIGHTS
        lie, truth = float(self._line.lie), float(1 - self._line.lie)
        # The variance of a place is (N^2 - 1) / 12 if it is any, (w^2 - 1) / 12 in the
        # window, and that of the mean.
        spread = (lie * (self._line.n_places**2 - 1) + truth * (self.width**2 - 1)) / 12
        variances = (spread / truth**2 + offset * (lie / truth)) / share + offset * (
            1 / share - 1
        )
        for offsets, (weight, window) in zip(
            self._offsets(), self._parts[1:], strict=True
        ):
            squares = window.means(np.array(offsets, float) ** 2)
            squares_at = squares[np.arange(self.steps + 1) % window.n_places]
            variances += float(weight) * np.interp(
                positions, np.arange(self.steps + 1), squares_at
            )
        return variances


class _Window:
    """A window on a circle: a report is any place with probability l, otherwise one of the window at the position."""

    # There are N places. With probability l a report is uniform over all of them,
    # otherwise over the w places ``t .. t + w - 1`` modulo N, where t is the position.
    # One of these is ``1 + (N / w) (1 - l) / l`` times likelier than any other, which
    # is e^eps in integers, with l rounded up: finite for any request.

    def __init__(self, epsilon: Fraction, n_places: int, width: int) -> None:
        self.n_places, self.width = n_places, width
        self._threshold = informative_threshold(epsilon, Fraction(n_places, width))
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
        lies = bernoulli(source, self._threshold, positions.size)
        inside = (
            positions + uniform_integers(source, self.width, positions.size)
        ) % self.n_places
        anywhere = uniform_integers(source, self.n_places, positions.size)
        return np.where(lies, anywhere, inside)

    def row(self, position: int) -> list[Fraction]:
        """Return the probability of each place."""
        in_window = [
            (place - position) % self.n_places < self.width
            for place in range(self.n_places)
        ]
        return [self.inside if inside else self.outside for inside in in_window]

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distribution of the places, of shape (m, n_places)."""
        padding = -weights.shape[1] % self.n_places
        folded = (
            np.pad(weights, ((0, 0), (0, padding)))
            .reshape(len(weights), -1, self.n_places)
            .sum(axis=1)
        )
        # The weight of the positions whose window holds a place is a difference of two
        # cumulative sums, which rounding may leave below 0.
        total = np.cumsum(
            np.hstack([folded[:, self.n_places - self.width :], folded]), axis=1
        )
        held = np.maximum(total[:, self.width :] - total[:, : -self.width], 0)
        any_place = weights.sum(axis=1, keepdims=True) * float(self.outside)
        return any_place + held * (float(1 - self.lie) / self.width)

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of values of the places, given each position modulo `n_places`."""
        inside = np.lib.stride_tricks.sliding_window_view(
            np.append(values, values[: self.width - 1]), self.width
        )
        return float(self.lie) * values.mean() + float(1 - self.lie) * inside.mean(
            axis=1
        )
