"""Conversion of zero-concentrated differential privacy to (epsilon, delta)."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

from scipy.optimize import brentq

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy._search import proven_edge, proven_start

# Of an order minus 1, the largest logarithm that is useful, and minus the least.
_MOST_LOG = 12 * math.log(10)

_PRECISION = 2.0**-40


def zcdp_epsilon(rho: float | Fraction, delta: float | Fraction) -> float:
    """Convert zero-concentrated differential privacy to epsilon for a delta.

    A release whose Rényi divergences of all orders alpha > 1 are at most ``rho * alpha`` is (epsilon, delta)-
    differentially private for ``epsilon = rho * alpha + log(1 - 1 / alpha) + log(1 / (delta * alpha)) / (alpha - 1)``
    and each order ([1]_, section 2.3). The best order solves ``rho * (alpha - 1)**2 = log(1 / (delta * alpha))``.

    Parameters
    ----------
    rho : float or Fraction
        The concentrated privacy loss, finite and at least 0.
    delta : float or Fraction
        The failure probability, in (0, 1).

    Returns
    -------
    float
        A proven epsilon: the order is found with floats, and the formula is then rounded up.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range; so is ``delta = 0``, unless rho is 0.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke (2020). The discrete Gaussian for differential privacy. NeurIPS.
       arXiv:2004.00010

    Examples
    --------
    The simpler formula ``rho + 2 * sqrt(rho * log(1 / delta))`` gives 5.76:

    >>> round(zcdp_epsilon(0.5, 1e-6), 2)
    5.22
    """
    exact_rho = check_epsilon(rho, name="rho", zero=True)
    exact_delta = check_delta(delta)
    if exact_rho == 0:
        return 0.0
    if exact_delta == 0:
        raise ValueError(
            "a release that is zero-concentrated only has delta > 0, got delta = 0"
        )
    excess = Fraction(_best_excess(float(exact_rho), _log(exact_delta)))
    order = 1 + excess
    share = exact_delta * order
    penalty = Fraction(log_upper(1 / share)) if share < 1 else -_log_lower(share)
    epsilon = exact_rho * order - _log_lower(order / excess) + penalty / excess
    return round_up(max(epsilon, Fraction(0)))


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho, but for rounding, that gives epsilon at delta."""

    def excess(rho: float) -> float:
        return zcdp_epsilon(rho, delta) + round_up(-epsilon)

    # From the simpler formula, epsilon = rho + 2 * sqrt(rho * log(1 / delta)).
    root = math.sqrt(-_log(delta))
    start = (float(epsilon) / (math.sqrt(root**2 + float(epsilon)) + root)) ** 2
    safe = proven_start(excess, start, -_PRECISION)
    if safe == 0:
        return Fraction(0)  # it is below the floats
    unsafe = safe
    while excess(unsafe) <= 0:
        unsafe = min(2 * unsafe, sys.float_info.max)
    return Fraction(proven_edge(excess, _PRECISION, safe=safe, unsafe=unsafe))


def _log(delta: Fraction) -> float:
    """Return the logarithm of a fraction that may be below the floats."""
    return math.log(delta.numerator) - math.log(delta.denominator)


def _best_excess(rho: float, log_delta: float) -> float:
    """Return about the best order minus 1: the zero of the derivative."""

    def slope(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return rho * excess**2 + math.log1p(excess) + log_delta

    # It increases. No useful order is outside these bounds.
    low, high = -_MOST_LOG, _MOST_LOG
    if slope(low) >= 0:
        return math.exp(low)
    if slope(high) <= 0:
        return math.exp(high)
    return math.exp(float(brentq(slope, low, high, xtol=1e-12)))


def _log_lower(ratio: Fraction) -> Fraction:
    """Return a lower bound of the logarithm of a ratio of at least 1."""
    # It is at most two floats below the upper bound.
    bound = log_upper(ratio)
    while bound > 0 and exp_bounds(bound)[1] > ratio:
        bound = math.nextafter(bound, 0.0)
    return Fraction(bound)
