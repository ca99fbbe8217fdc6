"""The program of which `skdp.oracles.Windows` has the solutions: mixtures of windows for distributions.

Run ``python benchmarks/_windows_program.py`` for the table: the best mixture at each epsilon. The weights of a mixture
enter the information of the reports linearly, so the error is a convex function of them, and multiplicative steps lead
to its minimum (Silvey, Titterington, Torsney 1978).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS = 32
"""Parts of the range: shapes of a distribution are constant on each, and periods are whole numbers of them."""
WEIGHTS = 64
"""Weights are multiples of 1 / 64."""
REPORTS = 5_000
"""The number of reports for which the error is the least."""
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


@cache
def best_windows(epsilon: float, square_wave: float) -> Mixture:
    """Return the best mixture of one window, which may be the square wave's, and of at most four that repeat."""
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


def error_of(epsilon: float, mixture: Mixture) -> float:
    """Return the error of a mixture."""
    windows = [_once(mixture.width, epsilon)]
    windows += [_again(period, width, epsilon) for period, width, _ in mixture.periodic]
    weights = [weight for _, _, weight in mixture.periodic]
    shares = np.array([WEIGHTS - sum(weights), *weights]) / WEIGHTS
    parts = np.array([information(window) for window in windows])
    return distribution_error(np.tensordot(shares, parts, 1))


if __name__ == "__main__":
    for half_octave in range(-4, 5):
        epsilon = 2.0 ** (half_octave / 2)
        square_wave = Mixture(square_wave_width(epsilon), ())
        best = best_windows(epsilon, square_wave.width)
        errors = error_of(epsilon, best), error_of(epsilon, square_wave)
        print(f"{epsilon:.3f}", best.width * BINS, best.periodic, *errors)
