"""What a pure loss is in concentrated and in Gaussian privacy: its rho, and its mu."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import erf, erfinv, ndtr, ndtri

from skdp.exact import round_up

# Of neighbouring orders: the bound is above the truth by at most this factor.
_RATIO = 1.005

# Some floating point operations with positive numbers.
_MARGIN = 1 + 2.0**-40

# Far above the floats that underflow.
_NORMAL = 2.0**-1000

# Between them, no number of `pure_rho` underflows, nor does cosh overflow.
_ORDINARY = 2.0**-30, 2.0**9


@lru_cache(maxsize=256)
def pure_rho(epsilon: float, share: float = 1.0) -> float:
    """Return the least rho of a `PureLoss`, rounded up: the largest D / a of Rényi's divergences D of orders a > 1."""
    if not _ORDINARY[0] < epsilon < _ORDINARY[1]:
        # Where floats underflow, each of the three operations is off by at most half of
        # the smallest one.
        underflow = 2 * math.ulp(0.0) if epsilon else 0.0
        return epsilon * epsilon / 2 * _MARGIN + underflow
    # The limit at order 1. If the share is 1, it is the largest (M. Kearns, L. Saul
    # 1998: see `Rho`).
    limit = share * epsilon * math.tanh(epsilon / 2)
    if share == 1 or limit < _NORMAL:
        return epsilon * math.tanh(epsilon / 2) * _MARGIN
    # D increases with a. So between two orders, D / a is at most D of the larger one
    # over the smaller one; and beyond epsilon / limit, at most the limit.
    n_orders = 2 + math.ceil(math.log(epsilon / limit) / math.log(_RATIO))
    orders = np.geomspace(1, epsilon / limit, n_orders)
    above = orders[1:]
    # With probability `share`, the loss is that of randomised response, of which ``e**((a
    # - 1) D) = cosh((a - 1/2) epsilon) / cosh(epsilon / 2)``; this is it minus 1.
    with np.errstate(over="ignore"):
        sines = np.sinh(above * epsilon / 2) * np.sinh((above - 1) * epsilon / 2)
        divergences = np.log1p(share * 2 / math.cosh(epsilon / 2) * sines) / (above - 1)
    # Also where floats overflow.
    ratios = np.fmin(divergences, epsilon) / orders[:-1]
    return max(limit, float(ratios.max())) * _MARGIN


# Of which the rarer of two values has a probability that is far above the least float.
_MOST_EPSILON = 500.0

# The least share whose probabilities are normal floats; less counts as this.
_RAREST = 2.0**-250


@lru_cache(maxsize=256)
def pure_mu(epsilon: Fraction, share: float = 1.0) -> Fraction | None:
    """Return the least mu of Gaussian DP that a `PureLoss` implies, rounded up; None if epsilon is large."""
    # With p = e**epsilon / (1 + e**epsilon), the trade-off function of this loss
    # consists of three lines with corners at (share * (1 - p), 1 - share * p) and its
    # mirror image. That of Gaussian noise is convex, so it is below if it goes through
    # these corners. The special functions state an error of some units in the highest
    # place.
    if epsilon > _MOST_EPSILON:
        return None
    number = round_up(epsilon)
    if share < 1:
        share = max(share, _RAREST)
        likely = share / (1 + math.exp(-number))
        rare = share / (1 + math.exp(number))
        # Of probabilities that are nearly 1, the float of the others has the digits.
        upper = ndtri(likely) if likely < 0.5 else -ndtri(1 - share + rare)
        mu = upper - ndtri(rare) + 2.0**-43
    elif number < 1:
        mu = 2 * math.sqrt(2) * erfinv(math.tanh(number / 2))
        if number < _NORMAL:
            # Four operations lose at most half of the smallest float each, and the last
            # one multiplies what the others lost by less than 3.
            mu += 8 * math.ulp(0.0)
    else:
        mu = -2 * ndtri(1 / (1 + math.exp(number)))
    return Fraction(float(mu)) * (1 + Fraction(1, 1 << 30))


def pure_epsilon(mu_squared: float) -> float:
    """Return the largest epsilon, but for rounding, of which `pure_mu` is at most a number."""
    mu = min(math.sqrt(mu_squared), 64.0)  # more than that of the largest epsilon
    if mu < 1:
        epsilon = float(2 * math.atanh(erf(mu / 2 / math.sqrt(2))))
    else:
        tail = ndtr(-mu / 2)
        epsilon = min(math.log((1 - tail) / tail), _MOST_EPSILON)
    while epsilon and (pure_mu(Fraction(epsilon)) or 0) ** 2 > mu_squared:
        epsilon *= 1 - 2.0**-28
    return epsilon
