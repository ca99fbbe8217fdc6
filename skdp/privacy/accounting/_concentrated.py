"""The zero-concentrated loss of a symmetric loss whose law is known."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from skdp.privacy.accounting._loss import Loss

_RATIO = 1.005
"""Of neighbouring orders: the bound is larger than the truth by at most half a percent."""

_MARGIN = 1 + 2.0**-40
"""Some floating point operations with positive numbers."""


@lru_cache(maxsize=256)
def least_rho(loss: Loss) -> float:
    """Bound the largest D / a over all orders a > 1, where D is Rényi's divergence of order a of the worst pair."""
    # D grows with the order and is at most epsilon, so between two orders of a grid, D / a is at most that of the upper
    # one over the lower one. With radii r of probabilities w, ``e**((a - 1) D) - 1`` is the mean of
    # ``cosh((a - 1/2) r) / cosh(r / 2) - 1``, which is ``2 sinh(a r / 2) sinh((a - 1) r / 2) / cosh(r / 2)``.
    radii, weights = loss._radii()
    epsilon = float(radii.max())
    known = float(weights @ radii**2)
    if not 2.0**-30 < epsilon < 2.0**9 or known <= 0:
        return epsilon**2 / 2 * _MARGIN
    last = 2 + 40 * (1 + math.log(epsilon**2 / known)) / epsilon
    orders = np.geomspace(1, last, 2 + math.ceil(math.log(last) / math.log(_RATIO)))
    largest = np.zeros(orders.size)
    halves, shares = radii / 2, 2 * weights / np.cosh(radii / 2)
    with np.errstate(over="ignore"):
        for index, order in enumerate(orders[1:].tolist(), 1):
            excess = float(shares @ (np.sinh(order * halves) * np.sinh((order - 1) * halves)))
            largest[index] = min(math.log1p(excess) / (order - 1), epsilon)
    bounds = np.append(largest[1:] / orders[:-1], epsilon / last)
    return min(float(bounds.max()) * _MARGIN, epsilon**2 / 2 * _MARGIN)
