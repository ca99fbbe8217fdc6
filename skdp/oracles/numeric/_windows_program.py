"""The mixture of windows with the least error of an estimated distribution, by a convex program."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

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
    # The weights of a mixture enter the information of the reports linearly, so the error is a convex function of them,
    # and multiplicative steps lead to its minimum ([1]_).
    # .. [1] S. Silvey, D. Titterington, B. Torsney (1978). An algorithm for optimal designs on a finite design space.
    #    Communications in Statistics 7(14).
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
    # Most of the variance is that of smooth shapes, a Gaussian process; some is that of spiky ones, with independent
    # bins, a Dirichlet distribution. With more of the latter, narrow windows gain more, for a linear estimate: the
    # smoothed one does not make use of it, and is worse for shapes without spikes.
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
