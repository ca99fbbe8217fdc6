"""Conversions between epsilon, delta, rho and mu, with proven bounds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx

from skdp._arrays import Floats
from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._formats import check_delta, check_epsilon

# Function of a number, such as an epsilon: a proven bound minus its target. The number is
# safe if the excess is at most 0.
Excess = Callable[[float], float]


def find_safe_boundary(
    excess: Excess, precision: float, *, safe: float, unsafe: float
) -> float:
    """Return a safe number near the boundary between a safe and an unsafe number.

    A number is safe if its `excess`, such as a proven delta minus the allowed one, is at
    most 0. The relative precision of the search is `precision`.
    """
    # The excess of the result is checked, or the result is `safe`. So errors of the root
    # finder have no effect on the guarantee.
    excess = cache(excess)
    if safe == unsafe or excess(unsafe) <= 0:
        return unsafe
    if excess(safe) >= 0:
        return safe
    bounds = sorted([safe, unsafe])
    root = float(
        brentq(excess, *bounds, xtol=math.ulp(0.0), rtol=precision, disp=False)
    )
    # Move from the root toward `safe`, in steps that double, up to a safe number.
    step = 0.0
    while abs(safe - root) > step * root:
        nearby = root + math.copysign(step * root, safe - root)
        if excess(nearby) <= 0:
            return nearby
        step = max(2 * step, precision)
    return safe


def find_safe_start(excess: Excess, start: float, step: float) -> float:
    """Return a safe number near `start`, which is safe except for rounding errors.

    A number is safe if its `excess` is at most 0. The number is multiplied by ``1 +
    step`` with doubling steps; a negative step decreases it.
    """
    while excess(start) > 0:
        start *= 1 + step
        step *= 2
    return start


# Relative precision of the searches.
_PRECISION = 2.0**-40


def find_largest_safe(excess: Excess, start: float) -> float:
    """Return the largest safe number, except for the precision of the search.

    A number is safe if its `excess` is at most 0. `start` is safe except for rounding errors.
    """
    safe = unsafe = find_safe_start(excess, start, -_PRECISION)
    while safe and excess(unsafe) <= 0:
        unsafe = min(2 * unsafe, sys.float_info.max)
    return find_safe_boundary(excess, _PRECISION, safe=safe, unsafe=unsafe)


def zcdp_epsilon(rho: float | Fraction, delta: float | Fraction) -> float:
    """Convert zero-concentrated differential privacy to epsilon for a delta.

    A release whose Rényi divergence of each order alpha > 1 is at most ``rho * alpha`` is (epsilon, delta)-
    differentially private with ``epsilon = rho * alpha + log(1 - 1 / alpha) + log(1 / (delta * alpha)) / (alpha - 1)``
    for each order ([1]_, section 2.3). The best order solves ``rho * (alpha - 1)**2 = log(1 / (delta * alpha))``.

    Parameters
    ----------
    rho : float or Fraction
        Concentrated privacy loss, finite and at least 0.
    delta : float or Fraction
        Failure probability, in (0, 1).

    Returns
    -------
    float
        A proven epsilon: the order is found with floats, and the formula is then rounded up.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range. ``delta = 0`` requires ``rho = 0``.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke (2020). The discrete Gaussian for differential privacy. NeurIPS.
       arXiv:2004.00010

    Examples
    --------
    The simpler formula ``rho + 2 * sqrt(rho * log(1 / delta))`` gives 5.76:

    >>> from skdp.privacy import zcdp_epsilon
    >>> round(zcdp_epsilon(0.5, 1e-6), 2)
    5.22
    """
    exact_rho = check_epsilon(rho, name="rho", zero=True)
    exact_delta = check_delta(delta)
    if exact_rho == 0:
        return 0.0
    if exact_delta == 0:
        raise ValueError("`delta` must be in (0, 1), got 0. A rho requires delta > 0.")
    # The formula holds for every order. So the order is found with floats, and the formula
    # is rounded up for it.
    excess = Fraction(_best_order_minus_1(float(exact_rho), _log(exact_delta)))
    order = 1 + excess
    ratio = exact_delta * order
    penalty = Fraction(log_upper(1 / ratio)) if ratio < 1 else -_log_lower(ratio)
    epsilon = exact_rho * order - _log_lower(order / excess) + penalty / excess
    return round_up(max(epsilon, Fraction(0)))


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho (zCDP), except for rounding, whose `zcdp_epsilon` for delta is at most epsilon."""

    def excess(rho: float) -> float:
        return zcdp_epsilon(rho, delta) + round_up(-epsilon)

    # The simpler bound epsilon = rho + 2 sqrt(rho L) with L = log(1 / delta) is solved by
    # rho = (epsilon / (sqrt(L + epsilon) + sqrt(L)))**2.
    root = math.sqrt(-_log(delta))
    start = (float(epsilon) / (math.sqrt(root**2 + float(epsilon)) + root)) ** 2
    return Fraction(find_largest_safe(excess, start))


def _log(delta: Fraction) -> float:
    """Return the logarithm of a fraction, which may be smaller than all floats."""
    return math.log(delta.numerator) - math.log(delta.denominator)


def _best_order_minus_1(rho: float, log_delta: float) -> float:
    """Return the approximate Rényi order minus 1 that minimizes the formula of `zcdp_epsilon` for rho."""
    # The zero of the derivative times (order - 1)**2, as a function of x = log(order - 1):
    # rho e**(2 x) + log(1 + e**x) + log(delta).

    def slope(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return rho * excess**2 + math.log1p(excess) + log_delta

    # The function increases. The search ends at 10**-12 and 10**12.
    low, high = math.log(1e-12), math.log(1e12)
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


# The delta of mu-Gaussian noise is Phi(-a) - e**epsilon Phi(-b) = phi(a) (R(a) - R(b)),
# where a = epsilon / mu - mu / 2, b = a + mu, phi and Phi are the density and the
# distribution function of the standard normal distribution, and R(x) = Phi(-x) / phi(x)
# is Mills' ratio, the integral of e**(-x t - t**2 / 2) over t > 0.
#
# If mu is small, the digits of R(a) - R(b) cancel. Then another bound is used: the
# negative derivative -R'(x) = 1 - x R(x) is convex (R is completely monotone), so its
# integral R(a) - R(b) is at most mu times the mean of -R'(a) and -R'(b). The smaller of
# both bounds exceeds the exact value by less than 1 part in 10**8 for all mu and epsilon.

# Bound of the relative error of `scipy.special.erfcx`; its authors state 2**-49.
_ERFCX_ERROR = 2.0**-43

# Bound of the rounding error of the difference of the logarithms of two deltas.
LOG_ERROR = 2.0**-40


def log_delta_above(near: float | Floats, mu: float) -> Any:
    """Return an upper bound of log(delta) of mu-Gaussian noise for each ``near = epsilon / mu - mu / 2``.

    `near` is a float or an array, which has an entry for each epsilon.
    """
    # Below this, delta is above 1 - 1e-60, and is rounded up to 1. Mills' ratio is a float
    # for all larger numbers.
    start = -16.5
    tail = np.maximum(near, start)
    far = tail + mu
    # R(x) = sqrt(pi / 2) erfcx(x / sqrt(2)), and phi(a) sqrt(pi / 2) = e**(-a**2 / 2) / 2.
    root_half = math.sqrt(1 / 2)
    near_erfcx = erfcx(tail * root_half)
    far_erfcx = erfcx(far * root_half)
    log_gap = np.log(near_erfcx * (1 + _ERFCX_ERROR) - far_erfcx * (1 - _ERFCX_ERROR))
    # For a larger mu, cancellation increases the relative error by at most 2**7 * 40.
    if mu < 2.0**-7:
        mean_slope = (_slope(tail, near_erfcx) + _slope(far, far_erfcx)) / 2
        log_unit = math.log(mu) - math.log(math.sqrt(math.pi / 2))
        log_gap = np.minimum(log_gap, log_unit + np.log(mean_slope))
    # Bound of the relative error of a few operations, each with 2**-53.
    rounding = 2.0**-45
    margin = rounding * (1 + abs(math.log(mu)))
    log_delta = log_gap - tail**2 * (0.5 - rounding) + (margin - math.log(2))
    return np.where(near < start, 0.0, np.minimum(log_delta, 0.0))


def _slope(x: float | Floats, erfcx_of_x: float | Floats) -> Any:
    """Return upper bounds of ``-R'(x) = 1 - x R(x)``, from ``erfcx(x / sqrt(2))``."""
    product = x * math.sqrt(math.pi / 2) * erfcx_of_x
    return 1 - product + (1 + np.abs(product)) * 2 * _ERFCX_ERROR


def _log_delta(mu: Fraction, epsilon: Fraction) -> float:
    """Return an upper bound of log(delta) of mu-Gaussian noise for an epsilon and mu > 0."""
    # At this argument, delta is far below the smallest float, and its square is a float.
    largest = Fraction(10**9)
    near = max(min(epsilon / mu - mu / 2, largest), -largest)
    return float(log_delta_above(float(near), round_up(mu)))


def gaussian_delta(mu: float | Fraction, epsilon: float | Fraction) -> float:
    """Return the smallest delta of a mu-Gaussian-DP release for an epsilon.

    A result with continuous Gaussian noise of standard deviation ``sensitivity / mu`` is mu-Gaussian-DP, and so is
    its post-processing, such as rounding. Delta is ``Phi(-epsilon / mu + mu / 2) - e**epsilon * Phi(-epsilon / mu -
    mu / 2)``, where Phi is the standard normal distribution function ([1]_, theorem 8; [2]_, corollary 2.13).

    Parameters
    ----------
    mu : float or Fraction
        Gaussian privacy loss, the sensitivity over the standard deviation; finite and at least 0.
    epsilon : float or Fraction
        Finite and at least 0.

    Returns
    -------
    float
        Delta, rounded up: never below the exact value, and above it by at most 1 part in 10**8 (or the smallest
        float).

    See Also
    --------
    gaussian_epsilon : The smallest epsilon for a delta.
    largest_mu : The largest mu, so the smallest noise, for an epsilon and a delta.
    zcdp_epsilon : Conversion for noise that is only concentrated DP, such as the discrete Gaussian.

    Notes
    -----
    **Privacy.** These deltas for all epsilons are equivalent to mu-Gaussian-DP. Releases of mu_1, ..., mu_k on the same
    data, each chosen with knowledge of the previous results, are together ``sqrt(mu_1**2 + ... + mu_k**2)``-
    Gaussian-DP if these numbers were fixed beforehand ([2]_, corollary 3.3). A mu-Gaussian-DP release is also
    ``mu**2 / 2``-zero-concentrated DP, but not conversely. The formula is evaluated with logarithms, which
    avoids underflow.

    References
    ----------
    .. [1] B. Balle, Y.-X. Wang (2018). Improving the Gaussian mechanism for differential privacy: analytical
       calibration and optimal denoising. ICML.
    .. [2] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1). Numbers as in arXiv:1905.02383.

    Examples
    --------
    >>> from skdp.privacy import gaussian_delta
    >>> round(gaussian_delta(1, 1), 6)
    0.126937
    """
    exact_mu = check_epsilon(mu, name="mu", zero=True)
    exact_epsilon = check_epsilon(epsilon, zero=True)
    if exact_mu == 0:
        return 0.0
    # e**-800 is below the smallest float.
    log_delta = max(_log_delta(exact_mu, exact_epsilon), -800.0)
    return round_up(1 / exp_bounds(-log_delta)[0])


def gaussian_epsilon(mu: float | Fraction, delta: float | Fraction) -> float:
    """Return the smallest epsilon of a mu-Gaussian-DP release for a delta.

    Parameters
    ----------
    mu : float or Fraction
        Gaussian privacy loss, the sensitivity over the standard deviation; at least 0 and at most 2**500.
    delta : float or Fraction
        Failure probability, in (0, 1); 0 only if mu is 0.

    Returns
    -------
    float
        Epsilon that is proven to hold. It is at most 1 part in 10**8 above the smallest such epsilon.

    See Also
    --------
    gaussian_delta : The inverse, with the theorems and the composition.

    Notes
    -----
    **Privacy.** The result was checked with the proven bound of `gaussian_delta`.

    Examples
    --------
    >>> from skdp.privacy import gaussian_epsilon, zcdp_epsilon
    >>> round(gaussian_epsilon(1, 1e-6), 3), round(zcdp_epsilon(0.5, 1e-6), 3)
    (4.887, 5.222)
    """
    exact_mu = check_epsilon(mu, name="mu", zero=True)
    if exact_mu > 2**500:
        raise ValueError(f"`mu` must be at most 2**500, got {mu}.")
    if exact_mu == 0:
        check_delta(delta)
        return 0.0
    log_target = math.log(_float_below(delta))

    def excess(epsilon: float) -> float:
        return _log_delta(exact_mu, Fraction(epsilon)) + LOG_ERROR - log_target

    if excess(0.0) <= 0:
        return 0.0
    # delta <= Phi(-a) <= e**(-a**2 / 2), and epsilon = mu**2 / 2 + mu * a.
    near = math.sqrt(-2 * log_target)
    start = float(exact_mu) ** 2 / 2 + float(exact_mu) * near
    safe = find_safe_start(excess, start, _PRECISION)
    return find_safe_boundary(excess, _PRECISION, safe=safe, unsafe=0.0)


def largest_mu(epsilon: float | Fraction, delta: float | Fraction) -> float:
    """Return the largest mu, so the smallest noise, for which a mu-Gaussian-DP release is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float or Fraction
        Finite and at least 0.
    delta : float or Fraction
        Failure probability, in (0, 1).

    Returns
    -------
    float
        Mu for which ``gaussian_delta(mu, epsilon) <= delta`` is proven to hold exactly. It is below the largest such mu
        by at most 1 part in 10**8. Noise with standard deviation ``sensitivity / mu`` or more is sufficient.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range. ``delta`` must not be 0, because Gaussian noise requires delta > 0.

    See Also
    --------
    gaussian_delta : The inverse, with the theorems and the composition.

    Notes
    -----
    **Privacy.** The result was checked with the proven bound of `gaussian_delta`.

    Examples
    --------
    >>> from skdp.privacy import gaussian_delta, largest_mu
    >>> mu = largest_mu(1, 1e-9)
    >>> round(mu, 4), gaussian_delta(mu, 1) <= 1e-9
    (0.182, True)
    """
    exact_epsilon = check_epsilon(epsilon, zero=True)
    target = _float_below(delta)
    log_target = math.log(target)

    def excess(mu: float) -> float:
        return _log_delta(Fraction(mu), exact_epsilon) + LOG_ERROR - log_target

    # Two lower bounds of the largest mu. From delta <= e**(-a**2 / 2) follows
    # mu**2 / 2 + mu * a = epsilon with a = sqrt(-2 log(delta)); and delta <= mu * phi(0).
    half = math.sqrt(-log_target / 2)
    from_tail = float(exact_epsilon) / (
        math.sqrt(half**2 + float(exact_epsilon) / 2) + half
    )
    return find_largest_safe(excess, max(from_tail, 2.5 * target))


def _float_below(delta: object) -> float:
    """Check that delta is above 0 and round it down to a float."""
    below = -round_up(-check_delta(delta))
    if below == 0:
        raise ValueError(
            "`delta` must be in (0, 1), got 0. Gaussian noise requires delta > 0."
        )
    return below
