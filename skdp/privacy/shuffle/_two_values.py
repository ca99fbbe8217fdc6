"""A proven upper bound of delta after shuffling where every other record reports as one of the two values does.

The bound. The reports of m others are 1 with probability q if they hold the first value, and p = 1 - q if the second,
which is the worst of what is in between, as the divergence is convex. Let j of them hold the first value. With
the law f of the number of ones among them, ``delta(t) = sum_s [(p - t q) f(s) - (t p - q) f(s - 1)]+``, and the other
order of the two values is that of m - j. It cannot grow with further others, who are post-processing. So for all j
from a to b it is at most that of a and m - b others who hold the two values, and the largest one over some blocks of j
bounds all tables, with the effect of a few per cent fewer records.

The numbers. With e**u = (p - t q) / (t p - q), the law g(s) ~ e**(u s) f(s) of another sum of independent bits, and
``M = E[e**(u s)]``, ``delta(t) = (p - t q) M sum_s e**(-u s) [g(s) - g(s - 1)]+``. These terms are 0 above the mode,
which differs from the mean by less than 1 ([1]_), and fall fast below. The law g is the inverse Fourier transform of a
product of known factors, on a window beyond which less than e**-45 is left by Bernstein's inequality.

.. [1] J. Darroch (1964). On the distribution of the number of successes in independent trials. Annals of Mathematical
   Statistics 35(3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# More records are counted as this number, and are bounded better by the blanket.
_MOST_RECORDS = 1 << 27

# Up to a number of others the number of blocks of tables; at first, each table is a
# block.
_BLOCKS = (1 << 9, 1 << 10), (1 << 16, 64), (1 << 24, 32), (1 << 62, 16)

_TAIL = 45.0
_WORK = 1 << 18


def two_valued_delta(truth: float, lie: float, n: int, order: float) -> float:
    """Bound the divergence of an order of n reports of two values, from the rounded probabilities of the own one."""
    # The lie is given, as 1 - truth would lose most of its digits where it is small.
    n_others = min(n, _MOST_RECORDS) - 1
    # The probabilities and the order are off by some roundings; so is u, which may be
    # rounded up.
    gain = truth * (1 + 2.0**-48) - order * lie * (1 - 2.0**-48)
    loss = order * truth * (1 - 2.0**-48) - lie
    if gain <= 0:
        return 0.0
    if loss <= 0:
        return gain
    tilt = math.log(gain / loss)
    tilt += (1 + abs(tilt)) * 2.0**-44
    counts = _tables(n_others)

    # Of those who hold either value, the probability of a one, and the same tilted.
    ones, zeros = np.array([lie, truth]), np.array([truth, lie])
    means = zeros + ones * math.exp(tilt)
    less = np.maximum(ones * math.expm1(tilt), -0.5)
    heights = np.where(less > -0.5, np.log1p(less), np.log(means))
    tilted = ones * math.exp(tilt) / means
    variances = tilted * zeros / means

    # By Bernstein's inequality, less than e**-_TAIL is beyond half of the window.
    variance = float((counts.T @ variances).max())
    half = _TAIL / 3 + math.sqrt(_TAIL**2 / 9 + 2 * variance * _TAIL) + 4
    points = 1 << math.ceil(math.log2(2 * half))
    n_rows = max(1, _WORK // points)
    largest = -math.inf
    for start in range(0, counts.shape[1], n_rows):
        part = counts[:, start : start + n_rows]
        log_sums = _log_sums(part, tilted, variances, tilt, heights, points)
        largest = max(largest, float(log_sums.max()))
    return gain * math.exp(min(largest, 0.0))


def _tables(n_others: int) -> NDArray[np.float64]:
    """Return how many others hold either value: (2, n_tables)."""
    n_blocks = next(number for most, number in _BLOCKS if n_others <= most)
    if n_others < n_blocks:
        first = np.arange(n_others + 1.0)
        return np.stack([first, n_others - first])
    edges = np.floor(np.linspace(0, n_others, n_blocks + 1))
    return np.stack([edges[:-1], n_others - edges[1:]])


def _log_sums(
    counts: NDArray[np.float64],
    tilted: NDArray[np.float64],
    variances: NDArray[np.float64],
    tilt: float,
    heights: NDArray[np.float64],
    points: int,
) -> NDArray[np.float64]:
    """Bound ``log(M sum_s e**(-u s) [g(s) - g(s - 1)]+)`` for each table of others."""
    center = np.floor(tilted @ counts)
    least_variance = float((counts.T @ variances).min())
    # Of sin(omega / 2) = r, factors are below e**(-2 variance r**2): later ones are
    # negligible.
    reach = math.pi / 2
    if least_variance > _TAIL / 2:
        reach = math.asin(min(1.0, math.sqrt(_TAIL / 2 / least_variance)))
    n_angles = min(points // 2, math.ceil(reach * points / math.pi)) + 1
    angles = 2 * math.pi / points * np.arange(n_angles)

    # The transform of each law, by the size and the phase of its factors.
    root = np.sin(angles / 2) ** 2
    squares = np.minimum(np.multiply.outer(variances, 4 * root), 1 - 2.0**-52)
    size = np.log1p(-squares) / 2
    sines = np.multiply.outer(tilted, np.sin(angles))
    phase = np.arctan2(sines, 1 - np.multiply.outer(tilted, 2 * root))
    turn = counts.T @ phase - np.multiply.outer(center, angles)
    transform = np.exp(counts.T @ size - 1j * turn)
    law = np.roll(np.fft.irfft(transform, points, axis=1), points // 2, axis=1)

    # Places up to 2, of which the mode is at most 1.
    window = np.arange(2, points // 2 + 3)
    weights = np.exp(-tilt * (window - points // 2))
    rises = np.maximum(law[:, window] - law[:, window - 1], 0) @ weights
    roundings = (64 + float(counts.sum(axis=0).max()) * angles[-1] * 2) * 2.0**-50
    error = roundings * 2 * np.abs(transform).mean(axis=1) * angles.size / points
    error = error + 4 * math.exp(-_TAIL)
    total = rises + 2 * error * float(weights.sum()) + math.exp(-_TAIL)
    height = heights @ counts - tilt * center
    slack = (np.abs(heights) @ counts + abs(tilt) * center + 64) * 2.0**-48
    log_sums: NDArray[np.float64] = height + slack + np.log(total)
    return log_sums
