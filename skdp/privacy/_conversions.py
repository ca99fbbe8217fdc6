"""The numbers of a guarantee: their checks, how they are shown, and conversions between epsilon, rho and mu."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache, partial
from numbers import Rational, Real
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx

from skdp.exact import exp_bounds, log_upper, round_up


def check_epsilon(value: Any, *, name: str = "epsilon", zero: bool = False) -> Fraction:
    """Check a privacy loss and return it as an exact fraction."""
    sign = ">= 0" if zero else "> 0"
    exact = _exact(value, name, f"a finite number {sign}")
    if exact is None or exact < 0 or (exact == 0 and not zero):
        raise ValueError(f"{name} must be a finite number {sign}, got {value}")
    return exact


at_least_0 = partial(check_epsilon, zero=True)


def check_delta(value: Any, *, name: str = "delta") -> Fraction:
    """Check a failure probability and return it as an exact fraction."""
    exact = _exact(value, name, "a number in [0, 1)")
    if exact is None or not 0 <= exact < 1:
        raise ValueError(f"{name} must be a number in [0, 1), got {value}")
    return exact


def float_above(check: Callable[..., Fraction], number: Any, name: str) -> float:
    """Return the smallest float that is at least a number, both checked."""
    # The float may be infinite, or 1, where the number is not.
    return float(check(round_up(check(number, name=name)), name=name))


def _exact(number: Any, name: str, wanted: str) -> Fraction | None:
    """Return the exact value of a real number, None if it is not finite as a float."""
    if isinstance(number, bool | np.bool_) or not isinstance(number, Real):
        raise TypeError(f"{name} must be {wanted}, got {type(number).__name__}")
    try:
        # Has more digits than a float.
        if isinstance(number, np.longdouble) and math.isfinite(float(number)):
            return Fraction(*map(int, number.as_integer_ratio()))
        if (
            isinstance(number, Rational)
            and not isinstance(number, np.generic)
            and math.isfinite(float(number))
        ):
            return Fraction(number)
        return Fraction(float(number))
    except (OverflowError, ValueError):
        return None


def shown(number: float) -> str:
    """Format a number with six digits, rounded up."""
    # But for a relative excess of 1e-12: 0.1 + 0.2 shall be 0.3.
    tolerant = Decimal(float(number)) * (1 - Decimal("1e-12"))
    digits = Context(prec=6, rounding=ROUND_CEILING).create_decimal(tolerant)
    return f"{digits.normalize():f}"


# The exponential of more is beyond the floats.
_LARGEST = 700.0

_MAX_SHOWN = 1e9


def largest_ratio(epsilon: float) -> float:
    """Return an upper bound of ``e**epsilon``, infinite beyond the floats."""
    return math.inf if epsilon > _LARGEST else round_up(exp_bounds(epsilon)[1])


def best_guess(epsilon: float, delta: float) -> float:
    """Bound the share of right guesses between two neighbours that are equally likely before the release."""
    # The laws of the release for two neighbours have a total-variation distance of at
    # most (e**epsilon - 1 + 2 delta) / (e**epsilon + 1); the best test is right with
    # probability (1 + distance) / 2.
    ratio = exp_bounds(min(epsilon, _LARGEST))[1]
    return min(1.0, round_up((ratio + Fraction(delta)) / (1 + ratio)))


def shown_ratio(epsilon: float) -> str:
    """Write the ratio with three digits, rounded up."""
    ratio = largest_ratio(epsilon)
    if ratio > _MAX_SHOWN:
        return f"more than {_MAX_SHOWN:,.0f}"
    return f"{_up(ratio, 2 if ratio < 100 else 0):,}"


def shown_guess(epsilon: float, delta: float) -> str:
    """Write the guesses out of 100 that are right, rounded up; not as 100 if they are fewer."""
    guess = best_guess(epsilon, delta)
    for digits in (0, 1, 2):
        percent = _up(100 * guess, digits)
        if percent < 100:
            return f"at most {percent}"
    return "nearly 100" if guess < 1 else "possibly 100"


def _up(number: float, digits: int) -> Decimal:
    """Round up to some decimal places, but for a relative excess of 1e-12 (rounding errors of floats)."""
    tolerant = Decimal(number) * (1 - Decimal("1e-12"))
    return tolerant.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)


def in_odds(
    epsilon: float, delta: float, relation: str, who: str = "record", columns: str = ""
) -> str:
    """Return a few sentences on what epsilon and delta allow an attacker to learn about a record, or a person."""
    knowledge = "all other persons" if who == "person" else "all other records"
    if relation == "replace_values":
        question = f"which of two values of {columns} a {who} has"
        compared = f"one value of {columns} of a {who} as for any other"
        knowledge += " and all other columns"
    elif relation == "replace":
        question = f"which of two values a {who} has"
        compared = f"one value of a {who} as for any other"
    else:
        question = f"whether a {who} is in the data"
        compared = (
            f"the data with a {who} as for the same data without, and the other way "
            "round"
        )
    is_shown = largest_ratio(epsilon) <= _MAX_SHOWN
    bound = f"{'at most' if is_shown else 'possibly'} {shown_ratio(epsilon)}"
    beyond = ""
    if delta:
        excess = _up(delta, _places(delta)).normalize()
        beyond = f" (or its probability is larger by up to delta, {excess:f})"
    return (
        f"Any result is {bound} times as likely for {compared}{beyond}. An attacker "
        f"who knows {knowledge}, and is right about 50 times in 100 when guessing "
        f"{question}, is right {shown_guess(epsilon, delta)} times in 100 after seeing "
        "what is released."
    )


def _places(number: float) -> int:
    """Return the decimal places of two significant digits."""
    return max(2, 1 - math.floor(math.log10(number)))


# How far a bound is above what is wanted, at a number: at most 0 where this is proven.
Excess = Callable[[float], float]


def proven_edge(
    excess: Excess, precision: float, *, safe: float, unsafe: float
) -> float:
    """Return the number next to `unsafe`, about, that has no excess, or `safe`."""
    # What is returned has no excess by its own check, or is `safe`, which needs none:
    # the search need not be exact, nor the excess monotone.
    excess = cache(excess)
    if safe == unsafe or excess(unsafe) <= 0:
        return unsafe
    if excess(safe) >= 0:
        return safe
    ends = sorted([safe, unsafe])
    least = math.ulp(0.0)
    edge = float(brentq(excess, *ends, xtol=least, rtol=precision, disp=False))
    step = 0.0
    while abs(safe - edge) > step * edge:
        nearby = edge + math.copysign(step * edge, safe - edge)
        if excess(nearby) <= 0:
            return nearby
        step = max(2 * step, precision)
    return safe


def proven_start(excess: Excess, start: float, step: float) -> float:
    """Return a number without excess, a few steps from one that has none but for rounding."""
    # A step is a part of the number, and negative toward 0.
    while excess(start) > 0:
        start *= 1 + step
        step *= 2
    return start


# Of an order minus 1, the largest logarithm that is useful, and minus the least.
_MAX_LOG = 12 * math.log(10)

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
    low, high = -_MAX_LOG, _MAX_LOG
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


# Delta is phi(a) * (R(a) - R(b)) with a = epsilon / mu - mu / 2, b = a + mu, the normal
# density phi and Mills' ratio R(x) = Phi(-x) / phi(x), the integral of e**(-x t - t**2 /
# 2) over t > 0. So R is completely monotone (its derivatives have alternating signs),
# and its slope -R'(x) = 1 - x R(x) is convex: R(a) - R(b), the integral of the slope, is
# at most mu times the mean of the slopes at both ends. This is used where digits of the
# difference cancel, as mu is small. One of both is above the truth by less than 1 part
# in 10**8, whatever mu and epsilon are.

# Bound of the relative error of `erfcx`, whose authors state 2**-49.
_SPECIAL = 2.0**-43

# Some floating point operations: each errs by 2**-53 of its result, which here are the
# logarithms of phi(a) and mu.
_ROUNDING = 2.0**-45

# More than the rounding errors of the logarithms of two deltas.
LOG_ERROR = 2.0**-40

# Of the logarithm of delta: e**-800 is below the least float.
_MIN_LOG = -800.0

# A tail from here has all of the mass but 1e-60, where Mills' ratio is still a float:
# delta is rounded up to 1.
_CERTAIN = -16.5

# Beyond, near is rounded down: its square is a float, and delta is far below the least.
_FAR = 1e9

# A mu from which the difference loses 2**7 times 40 of its precision at most.
_SMALL = 2.0**-7

_ROOT_HALF = math.sqrt(1 / 2)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)


def log_delta_above(near: Any, mu: float) -> Any:
    """Return upper bounds of the logarithm of delta, for ``near = epsilon / mu - mu / 2``."""
    tail = np.maximum(near, _CERTAIN)
    far = tail + mu
    # Mills' ratio is sqrt(pi / 2) erfcx(x / sqrt(2)), and phi(a) sqrt(pi / 2) = e**(-a**2
    # / 2) / 2.
    near_erfcx = erfcx(tail * _ROOT_HALF)
    far_erfcx = erfcx(far * _ROOT_HALF)
    log_gap = np.log(near_erfcx * (1 + _SPECIAL) - far_erfcx * (1 - _SPECIAL))
    if mu < _SMALL:
        mean_slope = (_slope(tail, near_erfcx) + _slope(far, far_erfcx)) / 2
        log_unit = math.log(mu) - math.log(_ROOT_HALF_PI)
        log_gap = np.minimum(log_gap, log_unit + np.log(mean_slope))
    margin = _ROUNDING * (1 + abs(math.log(mu)))
    log_delta = log_gap - tail**2 * (0.5 - _ROUNDING) + (margin - math.log(2))
    return np.where(near < _CERTAIN, 0.0, np.minimum(log_delta, 0.0))


def _slope(x: Any, erfcx_of_x: Any) -> Any:
    """Return upper bounds of the slope of Mills' ratio, ``1 - x R(x)``."""
    product = x * _ROOT_HALF_PI * erfcx_of_x
    return 1 - product + (1 + np.abs(product)) * 2 * _SPECIAL


def _log_delta(mu: Fraction, epsilon: Fraction) -> float:
    """Return an upper bound of the logarithm of delta, for a mu above 0."""
    near = min(epsilon / mu - mu / 2, Fraction(_FAR))
    return float(log_delta_above(float(max(near, Fraction(-_FAR))), round_up(mu)))


def gaussian_delta(mu: float | Fraction, epsilon: float | Fraction) -> float:
    """Return the smallest delta of a mu-Gaussian-DP release for an epsilon.

    A result with real Gaussian noise of standard deviation ``sensitivity / mu`` is mu-Gaussian-DP, and so is its
    post-processing, such as rounding. Delta is ``Phi(-epsilon / mu + mu / 2) - e**epsilon * Phi(-epsilon / mu -
    mu / 2)``, where Phi is the standard normal distribution function ([1]_, theorem 8; [2]_, corollary 2.13).

    Parameters
    ----------
    mu : float or Fraction
        The Gaussian privacy loss: sensitivity over standard deviation; finite and at least 0.
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
    largest_mu : The largest mu, so the least noise, for an epsilon and a delta.
    zcdp_epsilon : For noise that is only concentrated DP, such as the discrete Gaussian.

    Notes
    -----
    **Privacy.** These deltas for all epsilons are equivalent to mu-Gaussian-DP. Releases of mu_1, ..., mu_k on the same
    data, each chosen with knowledge of the previous results, are together ``sqrt(mu_1**2 + ... + mu_k**2)``-
    Gaussian-DP if these numbers were fixed beforehand ([2]_, corollary 3.3). A mu-Gaussian-DP release is also
    ``mu**2 / 2``-zero-concentrated DP, but not conversely. The formula is evaluated by logarithms: nothing underflows.

    References
    ----------
    .. [1] B. Balle, Y.-X. Wang (2018). Improving the Gaussian mechanism for differential privacy: analytical
       calibration and optimal denoising. ICML.
    .. [2] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1). Numbers as in arXiv:1905.02383.

    Examples
    --------
    >>> round(gaussian_delta(1, 1), 6)
    0.126937
    """
    exact_mu = check_epsilon(mu, name="mu", zero=True)
    exact_epsilon = check_epsilon(epsilon, zero=True)
    if exact_mu == 0:
        return 0.0
    log_delta = max(_log_delta(exact_mu, exact_epsilon), _MIN_LOG)
    return round_up(1 / exp_bounds(-log_delta)[0])


def gaussian_epsilon(mu: float | Fraction, delta: float | Fraction) -> float:
    """Return the smallest epsilon of a mu-Gaussian-DP release for a delta.

    Parameters
    ----------
    mu : float or Fraction
        The Gaussian privacy loss: sensitivity over standard deviation; at least 0 and at most 2**500.
    delta : float or Fraction
        The failure probability, in (0, 1); 0 only if mu is 0.

    Returns
    -------
    float
        An epsilon for which the release is proven to be (epsilon, delta)-DP; above the smallest one by at most 1 part
        in 10**8.

    See Also
    --------
    gaussian_delta : The inverse, with the theorems and the composition.

    Notes
    -----
    **Privacy.** See `gaussian_delta`, by whose proven bound each epsilon is checked that is returned.

    Examples
    --------
    >>> from skdp.privacy import zcdp_epsilon
    >>> round(gaussian_epsilon(1, 1e-6), 3), round(zcdp_epsilon(0.5, 1e-6), 3)
    (4.887, 5.222)
    """
    exact_mu = check_epsilon(mu, name="mu", zero=True)
    target = _float_below(check_delta(delta))
    if exact_mu > 2**500:
        raise ValueError(f"mu must be at most 2**500, got {mu}")
    if exact_mu == 0:
        return 0.0
    _check_failure(target)
    log_target = math.log(target)

    def excess(epsilon: float) -> float:
        return _log_delta(exact_mu, Fraction(epsilon)) + LOG_ERROR - log_target

    if excess(0.0) <= 0:
        return 0.0
    # From delta <= Phi(-a) <= e**(-a**2 / 2), but for the rounding of epsilon.
    near = math.sqrt(-2 * log_target)
    start = float(exact_mu) ** 2 / 2 + float(exact_mu) * near
    safe = proven_start(excess, start, _PRECISION)
    return proven_edge(excess, _PRECISION, safe=safe, unsafe=0.0)


def largest_mu(epsilon: float | Fraction, delta: float | Fraction) -> float:
    """Return the largest mu for which a mu-Gaussian-DP release is (epsilon, delta)-DP: the least noise.

    Parameters
    ----------
    epsilon : float or Fraction
        Finite and at least 0.
    delta : float or Fraction
        The failure probability, in (0, 1).

    Returns
    -------
    float
        A mu for which, at its exact binary value, ``gaussian_delta(mu, epsilon) <= delta`` is proven; below the largest
        one by at most 1 part in 10**8. Noise of standard deviation ``sensitivity / mu`` or more is enough.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range; so is ``delta = 0``, as Gaussian noise is never purely differentially private.

    See Also
    --------
    gaussian_delta : The inverse, with the theorems and the composition.

    Notes
    -----
    **Privacy.** See `gaussian_delta`, by whose proven bound each mu is checked that is returned.

    Examples
    --------
    >>> mu = largest_mu(1, 1e-9)
    >>> round(mu, 4), gaussian_delta(mu, 1) <= 1e-9
    (0.182, True)
    """
    exact_epsilon = check_epsilon(epsilon, zero=True)
    target = _float_below(check_delta(delta))
    _check_failure(target)
    log_target = math.log(target)

    def excess(mu: float) -> float:
        return _log_delta(Fraction(mu), exact_epsilon) + LOG_ERROR - log_target

    # From delta <= Phi(-a) <= e**(-a**2 / 2), and from delta <= mu * phi(0).
    half = math.sqrt(-log_target / 2)
    from_tail = float(exact_epsilon) / (
        math.sqrt(half**2 + float(exact_epsilon) / 2) + half
    )
    safe = proven_start(excess, max(from_tail, 2.5 * target), -_PRECISION)
    unsafe = 2 * safe
    while excess(unsafe) <= 0:
        unsafe *= 2
    return proven_edge(excess, _PRECISION, safe=safe, unsafe=unsafe)


def _float_below(delta: Fraction) -> float:
    """Return the largest float of at most delta, as `gaussian_delta` returns floats."""
    return -round_up(-delta)


def _check_failure(delta: float) -> None:
    if delta == 0:
        raise ValueError(
            "Gaussian noise has delta > 0, got delta = 0; with 0, take discrete Laplace "
            "noise"
        )
