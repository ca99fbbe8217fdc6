"""Conversion between Gaussian DP and (epsilon, delta), exact and rounded to the safe side."""

from __future__ import annotations

import math
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    getcontext,
    localcontext,
)
from fractions import Fraction
from functools import lru_cache

from skdp.exact import round_up
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy._search import proven_edge, proven_start

# Delta is phi(a) * (R(a) - R(b)) with a = epsilon / mu - mu / 2, b = a + mu, the normal
# density phi and Mills' ratio R(x) = Phi(-x) / phi(x). It is computed in decimals, of
# which each operation, also exp and sqrt, is rounded correctly: all that has to be
# known is how many digits cancel. With m = min(mu, 1), R(a) - R(b) is at least m times
# the slope 1 - x R(x) at x = a + m, which is at least 1 / (x**2 + 3) for x >= 0, where
# R < 1.26, and 1 + |x| R(x) below, where R may be large. So for -12 <= a <= 60, fewer
# than 6 digits cancel, and those of 1 / m. The relative error of x is multiplied by
# |x R'(x) / R(x)| <= x**2 + 1 in R, and by x**2 in phi.

# Digits of a difference of two ratios, but for those that cancel; those of rounding
# errors are below 10.
_DIGITS = 40

# Further digits in a sum: each of its operations errs by at most 1 in the last digit,
# and they are less than 10**6.
_GUARD = 10

# More than all errors of delta together, as a factor.
_MARGIN = 1 + Decimal("1e-30")

# A tail from here has all of the mass but 1e-32: delta is rounded up to 1.
_CERTAIN = -12

# A tail from here has less than e**(-60**2 / 2) < 10**-781 of the mass: below the least
# float.
_FAR = 60

_TINY = Decimal("1e-700")

# Of two deltas, where their logarithm is searched for.
_LEAST_RATIO, _MOST_RATIO = Decimal("1e-300"), Decimal("1e300")

_PRECISION = 2.0**-50


def _decimals(digits: int) -> Context:
    """Return a context, whatever those of the program are."""
    return Context(digits, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _mills_ratio(x: Fraction, digits: int) -> Decimal:
    """Return ``Phi(-x) / phi(x)``, off by less than 1 part in ``10**digits``."""
    # Beyond, the continued fraction takes less time than the series.
    if x < 8 or 5 * x * x < 2 * digits:
        # The series is subtracted from a number of e**(x**2 / 2).
        n_cancelled = math.ceil(0.22 * float(x) ** 2) + 2
        with localcontext(_decimals(digits + _GUARD + n_cancelled)):
            return _by_series(_decimal(x))
    with localcontext(_decimals(digits + _GUARD)):
        return _by_continued_fraction(_decimal(x), digits)


def _by_series(x: Decimal) -> Decimal:
    """Return half of the mass minus the mass between 0 and x, over the density."""
    # R(x) = e**(x**2 / 2) * sqrt(2 * pi) / 2 - (x + x^3/3 + x^5/(3 * 5) + ...): M.
    # Abramowitz, I. A. Stegun (1964). Handbook of mathematical functions, 26.2.11.
    square = x * x
    term = total = x
    odd = 1
    # Beyond 2 x**2, each term is less than half of the previous one.
    while odd < 2 * square or total + term != total:
        odd += 2
        term *= square / odd
        total += term
    return (square / 2).exp() * _root_two_pi(getcontext().prec) / 2 - total


def _by_continued_fraction(x: Decimal, digits: int) -> Decimal:
    """Return 1 / (x + 1 / (x + 2 / (x + 3 / (x + ...)))), the same, 26.2.14."""
    # The integrals J_n of ``t**n / n! * e**(-x * t - t**2 / 2)`` over t > 0 satisfy
    # J_(n-1) / J_n = x + (n + 1) / (J_n / J_(n+1)), so each of its tails is above x.
    depth = 8 + math.ceil(7 * digits**2 / (10 * x * x))
    while True:
        least, most = x, x + depth / x
        for numerator in range(depth - 1, 0, -1):
            least, most = x + numerator / most, x + numerator / least
        if (most - least).scaleb(digits) < least:
            return 1 / least
        depth *= 2


@lru_cache
def _root_two_pi(digits: int) -> Decimal:
    scale = 10 ** (digits + _GUARD)
    pi = 16 * _arctan_of_inverse(5, scale) - 4 * _arctan_of_inverse(239, scale)
    with localcontext(_decimals(digits)):
        return (Decimal(2 * pi) / scale).sqrt()


def _arctan_of_inverse(number: int, scale: int) -> int:
    """Return ``scale * arctan(1 / number)``, off by at most one unit per term."""
    power = scale // number
    total = 0
    odd = 1
    while power:
        total += power // odd if odd % 4 == 1 else -(power // odd)
        power //= number**2
        odd += 2
    return total


def _delta_above(mu: Fraction, epsilon: Fraction) -> Decimal:
    """Return an upper bound of delta, above it by less than 1 part in 10**29."""
    if mu == 0:
        return Decimal(0)
    near = epsilon / mu - mu / 2
    if near < _CERTAIN:
        return Decimal(1)
    if near > _FAR:
        return _TINY
    digits = _DIGITS + len(str(math.ceil(1 / mu)))
    with localcontext(_decimals(digits)):
        gap = _mills_ratio(near, digits) - _mills_ratio(near + mu, digits)
        density = (-(_decimal(near) ** 2) / 2).exp() / _root_two_pi(digits)
        return min(gap * density * _MARGIN, Decimal(1))


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
        Delta, rounded up: never below the exact value, and above it by at most 1 part in 10**15 (or the smallest
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
    ``mu**2 / 2``-zero-concentrated DP, but not conversely. The formula is evaluated in integers: nothing underflows.

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
    delta = _delta_above(exact_mu, check_epsilon(epsilon, zero=True))
    return round_up(Fraction(delta))


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
        in 10**13.

    See Also
    --------
    gaussian_delta : The inverse, with the theorems and the composition.

    Notes
    -----
    **Privacy.** See `gaussian_delta`. The logarithm of delta is concave in epsilon, so Newton's method stays on the
    safe side; each step is checked by proven bounds nevertheless.

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

    def excess(epsilon: float) -> float:
        return _log_ratio(_delta_above(exact_mu, Fraction(epsilon)), target)

    if excess(0.0) <= 0:
        return 0.0
    # From delta <= Phi(-a) <= e**(-a**2 / 2), but for the rounding of epsilon.
    near = math.sqrt(-2 * math.log(target))
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
        one by at most 1 part in 10**13. Noise of standard deviation ``sensitivity / mu`` or more is enough.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range; so is ``delta = 0``, as Gaussian noise is never purely differentially private.

    See Also
    --------
    gaussian_delta : The inverse, with the theorems and the composition.

    Notes
    -----
    **Privacy.** See `gaussian_delta`. The derivative of delta in mu is phi(epsilon / mu - mu / 2), whose logarithm is
    concave; so is that of delta, and Newton's method stays on the safe side, as in `gaussian_epsilon`.

    Examples
    --------
    >>> mu = largest_mu(1, 1e-9)
    >>> round(mu, 4), gaussian_delta(mu, 1) <= 1e-9
    (0.182, True)
    """
    exact_epsilon = check_epsilon(epsilon, zero=True)
    target = _float_below(check_delta(delta))
    _check_failure(target)

    def excess(mu: float) -> float:
        return _log_ratio(_delta_above(Fraction(mu), exact_epsilon), target)

    # From delta <= Phi(-a) <= e**(-a**2 / 2), and from delta <= mu * phi(0).
    half = math.sqrt(-math.log(target) / 2)
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


def _log_ratio(reached: Decimal, target: float) -> float:
    """Return the logarithm of a ratio, which is precise where it is near 0."""
    with localcontext(_decimals(_DIGITS)):
        ratio = reached / Decimal(target)
        if abs(ratio - 1) < 0.5:
            return math.log1p(float(ratio - 1))
        # Beyond the floats, only the sign and about the size matter.
        return math.log(min(max(ratio, _LEAST_RATIO), _MOST_RATIO))
