"""Conversion of zero-concentrated differential privacy to (epsilon, delta)."""

from __future__ import annotations

import math
from fractions import Fraction

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._numbers import check_delta, check_epsilon


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
    exact_rho, exact_delta = (
        check_epsilon(rho, name="rho", zero=True),
        check_delta(delta),
    )
    if exact_rho == 0:
        return 0.0
    if exact_delta == 0:
        raise ValueError(
            "a release that is zero-concentrated only has delta > 0, got delta = 0"
        )
    log_delta = math.log(exact_delta.numerator) - math.log(exact_delta.denominator)
    excess = Fraction(_best_excess(float(exact_rho), log_delta))
    order = 1 + excess
    share = exact_delta * order
    penalty = Fraction(log_upper(1 / share)) if share < 1 else -_log_lower(share)
    epsilon = exact_rho * order - _log_lower(order / excess) + penalty / excess
    return round_up(max(epsilon, Fraction(0)))


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest zero-concentrated loss, but for rounding, that gives no more than epsilon at delta."""
    # Below the floats it is 0.
    low, high = Fraction(0), epsilon  # rho-zCDP is never less than rho
    while zcdp_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > high / 2**40:
        middle = Fraction(float((low + high) / 2))
        if not low < middle < high:
            break
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def _best_excess(rho: float, log_delta: float) -> float:
    """Return the best order minus 1: the zero of the derivative, which increases."""
    # No useful order is outside these bounds; inside, its fraction is short.
    low, high = 1e-12, 1e12
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        slope = rho * middle * middle + math.log1p(middle) + log_delta
        low, high = (low, middle) if slope > 0 else (middle, high)
    return high


def _log_lower(ratio: Fraction) -> Fraction:
    """Return a lower bound of the logarithm of a ratio of at least 1, at most two floats below the upper bound."""
    bound = log_upper(ratio)
    while bound > 0 and exp_bounds(bound)[1] > ratio:
        bound = math.nextafter(bound, 0.0)
    return Fraction(bound)
