"""Mechanisms that report a place in a window: the square wave, and its mixture with windows that repeat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import chain
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
_LEAST = 2.0**-5
_MOST = 5.0
"""The range of epsilon for which the program is solved."""

_KEPT = (16, 8, 4)
"""How many windows that repeat are left after each solution; the last is the most."""

_TRIED = 4
"""Windows that do not repeat, of which each is tried beside the square wave's."""

_ROUNDS = 150
"""Steps to the best weights."""

_PARTS = 8
"""Reports of a bin."""

_REACH = 0.1
_SPIKY = 0.05
"""Of smooth shapes, how far a bin is like others; and the part of the variance of spiky ones."""


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
        # Numerator and denominator vanish; the next term is of order epsilon squared.
        return 1 - 2 * epsilon / 3
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
    widths = [square_wave, *(n_bins / BINS for n_bins in range(1, BINS))]
    periods = _periods()
    lines = np.array([information(_once(width, epsilon)) for width in widths])
    circles = np.array([information(_again(*window, epsilon)) for window in periods])
    weights = _mixed(np.concatenate([lines, circles]))[: len(widths)]
    best_error = math.inf
    for line in {0, *np.argsort(-weights)[:_TRIED].tolist()}:
        chosen, shares = _pruned(lines[line], circles)
        periodic = []
        for place, share in zip(chosen.tolist(), shares.tolist(), strict=True):
            if share:
                periodic.append((*periods[place], share))
        mixture = np.append(WEIGHTS - shares.sum(), shares) / WEIGHTS
        parts = np.concatenate([lines[line : line + 1], circles[chosen]])
        error = distribution_error(np.tensordot(mixture, parts, 1))
        if error < best_error:
            best_error = error
            best = Mixture(widths[line], tuple(sorted(periodic)))
    return best


def _periods() -> list[tuple[int, int]]:
    """Return the periods and widths of windows that repeat, in bins."""
    periods = []
    for period in range(2, BINS // 2 + 1):
        periods += [(period, width) for width in range(1, period // 2 + 1)]
    return periods


def _pruned(line: Floats, circles: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the windows that repeat beside one that does not, and their weights in units of 1 / 64."""
    chosen = np.arange(len(circles))
    # The fewer are left, the more do those that are alike differ in weight.
    for number in _KEPT:
        weights = _mixed(np.concatenate([line[np.newaxis], circles[chosen]]))[1:]
        chosen = chosen[np.argsort(-weights)[:number]]
    weights = _mixed(np.concatenate([line[np.newaxis], circles[chosen]]))[1:]
    return chosen, np.rint(weights * WEIGHTS).astype(int)


def information(channel: Floats) -> Floats:
    """Return the Fisher information of a report about the shares of the bins, at the uniform distribution."""
    scaled = channel / np.sqrt(channel.mean(axis=0))
    product: Floats = scaled @ scaled.T
    return product


def distribution_error(information_matrix: Floats) -> float:
    """Return the root mean square error of P(X <= t), over all t and shapes, of the best linear estimate."""
    spread, below = _shapes()
    precision = np.eye(BINS) + REPORTS * (spread.T @ information_matrix @ spread)
    sums = below @ spread
    return math.sqrt(np.sum(sums @ np.linalg.inv(precision) * sums) / BINS)


@cache
def _shapes() -> tuple[Floats, Floats]:
    """Return a root of the covariance of the shapes, and the sums that make a distribution function of shares."""
    # Most of the variance is that of smooth shapes, a Gaussian process; some is that of
    # spiky ones, with independent bins, a Dirichlet distribution. With more of the
    # latter, narrow windows gain more, for a linear estimate: the smoothed one does not
    # make use of it, and is worse for shapes without spikes.
    centred = np.eye(BINS) - 1 / BINS
    places = np.arange(BINS) / BINS
    distances = places[:, np.newaxis] - places
    smooth = centred @ np.exp(-(distances**2) / (2 * _REACH**2)) @ centred
    spiky_part = _SPIKY * centred / np.trace(centred)
    covariance = spiky_part + (1 - _SPIKY) * smooth / np.trace(smooth)
    covariance *= (1 - 1 / BINS) / 2
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return root, np.tril(np.ones((BINS, BINS)))[:-1]


def _mixed(informations: Floats) -> Floats:
    """Return the weights of the least error."""
    spread, below = _shapes()
    roots = spread.T @ informations @ spread
    goal = (below @ spread).T @ (below @ spread)
    weights = np.full(len(roots), 1 / len(roots))
    for _ in range(_ROUNDS):
        precision = np.eye(BINS) + REPORTS * np.tensordot(weights, roots, 1)
        inverse = np.linalg.inv(precision)
        slopes = np.tensordot(roots, inverse @ goal @ inverse, 2)
        weights = weights * np.sqrt(np.maximum(slopes, 0))
        weights /= weights.sum()
    return weights


def _channel(held: Floats, share: float, epsilon: float) -> Floats:
    """Return the probability of each report, from the share of each bin in the report's window."""
    # Of windows that take a share of all reports.
    excess = math.expm1(epsilon)
    channel: Floats = (1 + excess * held) / (held.shape[1] * (1 + excess * share))
    return channel


def _once(width: float, epsilon: float) -> Floats:
    """Return the channel of a window on a line that is longer than the range by its width."""
    n_ends = _PARTS * BINS
    edges = np.arange(BINS + 1)[:, np.newaxis] / BINS
    ends = np.arange(1, n_ends + 1) / n_ends * (1 + width)
    end = np.minimum(ends, edges[1:])
    start = np.maximum(ends - width, edges[:-1])
    held = np.maximum(end - start, 0) * BINS
    return _channel(held, width / (1 + width), epsilon)


def _again(period: int, width: int, epsilon: float) -> Floats:
    """Return the channel of a window that repeats."""
    ends = np.arange(_PARTS * period) / _PARTS
    distance = (ends - np.arange(BINS)[:, np.newaxis]) % period
    # The part of a bin that is in the window that ends `distance` after the bin begins.
    held = np.minimum(distance, 1) - np.maximum(distance - width, 0)
    return _channel(np.clip(held, 0, 1), width / period, epsilon)


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
    """

    def __init__(
        self, steps: int, epsilon: float | Fraction, *, repeating: bool = True
    ) -> None:
        self.steps = check_steps(steps)
        capped = capped_epsilon(epsilon)
        mixture = Mixture(square_wave_width(float(capped)), ())
        if repeating:
            mixture = best_mixture(float(capped))
        self.width = max(1, min(round(mixture.width * steps), steps))
        # The places of the window that does not repeat are one more period: from no
        # position does it reach the end.
        self._line = _Window(capped, steps + self.width, self.width)
        self._circles = []
        weights = []
        periodic = []
        for period_bins, width_bins, weight in mixture.periodic:
            period = period_bins * steps // BINS
            width = width_bins * steps // BINS
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
