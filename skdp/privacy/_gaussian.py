"""Conversion between Gaussian DP and (epsilon, delta), exact and rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

from skdp.exact import exp_bounds, exp_minus_bounds, round_up
from skdp.privacy._numbers import check_delta, check_epsilon

_GUARD = 48


def mills_ratio_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integer bounds of ``2**bits * Phi(-x) / phi(x)``, Mills' ratio of the standard normal distribution."""
    # Near 0, it is ``e**(x**2 / 2) * sqrt(2 * pi) / 2`` less the series x + x^3/3 + x^5/(3 * 5) + ... ([1]_, 26.2.11).
    # For large x, it is the continued fraction 1/(x + 1/(x + 2/(x + 3/(x + ...)))) ([1]_, 26.2.14): the integrals J_n
    # of ``t**n / n! * e**(-x * t - t**2 / 2)`` over t > 0 satisfy J_(n-1) / J_n = x + (n + 1) / (J_n / J_(n+1)), so
    # each of its tails is above x. Computed in integers, rounded outwards.
    # .. [1] M. Abramowitz, I. A. Stegun (1964). Handbook of mathematical functions. Chapter 26, M. Zelen, N. C. Severo.
    if (
        x < 4 or 8 * x * x < bits
    ):  # beyond, the continued fraction is shorter than the series
        guard = _GUARD + math.ceil(
            x * x
        )  # the series is subtracted from a number of nearly its size
        lower, upper = _by_series(x, bits + guard)
    else:
        guard = _GUARD
        lower, upper = _by_continued_fraction(x, bits + guard)
    return lower >> guard, -(-upper >> guard)


@lru_cache
def root_two_pi_bounds(bits: int) -> tuple[int, int]:
    """Return integer bounds of ``2**bits * sqrt(2 * pi)``, by Machin's formula for pi."""
    precision = 2 * bits + _GUARD
    pi = 16 * _arctan_of_inverse(5, precision) - 4 * _arctan_of_inverse(239, precision)
    error = 20 * precision  # fewer terms than bits, each rounded by less than 1
    return math.isqrt(2 * (pi - error) >> _GUARD), math.isqrt(
        2 * (pi + error) >> _GUARD
    ) + 1


def _arctan_of_inverse(number: int, precision: int) -> int:
    """Return ``2**precision * arctan(1 / number)`` with an error of at most one unit per term."""
    power = (1 << precision) // number
    total, odd = 0, 1
    while power:
        total += power // odd if odd & 2 == 0 else -(power // odd)
        power //= number**2
        odd += 2
    return total


def _by_series(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound Mills' ratio as half of the mass minus the mass between 0 and x, over the density."""
    root_low, root_high = root_two_pi_bounds(bits)
    power_low, power_high = exp_bounds(x * x / 2, precision=bits)
    half_low, half_high = (
        math.floor(power_low * root_low / 2),
        math.ceil(power_high * root_high / 2),
    )
    low_sum, high_sum = _odd_series(abs(x), bits)
    if x < 0:
        return half_low + low_sum, half_high + high_sum
    return half_low - high_sum, half_high - low_sum


def _odd_series(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound ``2**bits`` times the sum of x^n / (1 * 3 * ... * n) over all odd n."""
    low_term = math.floor(x * (1 << bits))
    high_term = low_term + 1
    low_square, high_square = low_term**2 >> bits, (high_term**2 >> bits) + 1
    low_sum, high_sum, odd = low_term, high_term, 1
    while high_term > 1 or odd < 2 * x * x:
        odd += 2
        low_term = low_term * low_square // (odd << bits)
        high_term = high_term * high_square // (odd << bits) + 1
        low_sum += low_term
        high_sum += high_term
    return (
        low_sum,
        high_sum + 1,
    )  # each later term is less than half of the previous one


def _by_continued_fraction(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound Mills' ratio by a continued fraction, doubling its depth until the bounds are close."""
    low, high = math.floor(x * (1 << bits)), math.ceil(x * (1 << bits))
    one = 1 << 2 * bits
    depth = 8 + bits**2 // (16 * math.floor(x) ** 2)
    while True:
        bottom, top = low, high + depth * one // low + 1
        for numerator in range(depth - 1, 0, -1):
            bottom, top = (
                low + numerator * one // top,
                high + numerator * one // bottom + 1,
            )
        lower, upper = one // top, one // bottom + 1
        if upper - lower < 1 << _GUARD // 2:
            return lower, upper
        depth *= 2


_BITS = 96
"""Precision of the bounds, in addition to the bits that cancel in the difference of two tails."""

_SMALLEST_BITS = 1100
"""Densities down to 2**-1100, which is below any float, are distinguished from 0."""

_CERTAIN = -12
"""A tail from here has all of the mass but 1e-32: delta is rounded up to 1."""

_TOLERANCE = 2.0**-50


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
    return round_up(_curve(exact_mu, check_epsilon(epsilon, zero=True))[0])


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
    exact_mu, exact_delta = (
        check_epsilon(mu, name="mu", zero=True),
        _round_down(check_delta(delta)),
    )
    if exact_mu > 2**500:
        raise ValueError(f"mu must be at most 2**500, got {mu}")
    if exact_mu == 0:
        return 0.0
    _check_failure(exact_delta)
    if _curve(exact_mu, Fraction(0))[0] <= exact_delta:
        return 0.0
    # From delta <= Phi(-a) <= e**(-a**2 / 2).
    start = float(exact_mu) ** 2 / 2 + float(exact_mu) * math.sqrt(
        -2 * _log(exact_delta)
    )
    return _nearest_safe(start, 1, partial(_epsilon_on_tangent, exact_mu, exact_delta))


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
    exact_epsilon, exact_delta = (
        check_epsilon(epsilon, zero=True),
        _round_down(check_delta(delta)),
    )
    _check_failure(exact_delta)
    # From delta <= Phi(-a) <= e**(-a**2 / 2), and from delta <= mu * phi(0).
    half = math.sqrt(-_log(exact_delta) / 2)
    start = float(exact_epsilon) / (
        math.sqrt(half**2 + float(exact_epsilon) / 2) + half
    )
    start = max(start, 2.5 * float(exact_delta))
    return _nearest_safe(start, -1, partial(_mu_on_tangent, exact_epsilon, exact_delta))


def _round_down(delta: Fraction) -> Fraction:
    """Return the largest float of at most delta, as `gaussian_delta` returns floats."""
    return Fraction(-round_up(-delta))


def _check_failure(delta: Fraction) -> None:
    if delta == 0:
        raise ValueError(
            "Gaussian noise has delta > 0, got delta = 0; with 0, take discrete Laplace noise"
        )


def _curve(mu: Fraction, epsilon: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Return an upper bound of delta, its factor R(a) - R(b), and R(b)."""
    # With a = epsilon / mu - mu / 2, b = a + mu, the density phi and R(x) = Phi(-x) / phi(x), delta is
    # phi(a) * (R(a) - R(b)): the number of bits that cancel is known beforehand. Delta over the factor is its
    # derivative by mu, and delta times R(b) over the factor is minus that by epsilon.
    if mu == 0:
        return Fraction(0), Fraction(0), Fraction(1)
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near < _CERTAIN:
        return Fraction(1), Fraction(1), Fraction(1)
    bits = _BITS + math.ceil(1 / mu).bit_length() + math.ceil(far).bit_length()
    outer = mills_ratio_bounds(far, bits)[0]
    gap = mills_ratio_bounds(near, bits)[1] - outer
    power_bits = bits + min(_SMALLEST_BITS, math.ceil(near**2 * Fraction(3, 4)))
    power = exp_minus_bounds(near**2 / 2, power_bits)[1]
    delta = Fraction(power * gap, root_two_pi_bounds(bits)[0] << power_bits)
    return min(delta, Fraction(1)), Fraction(gap, 1 << bits), Fraction(outer, 1 << bits)


def _epsilon_on_tangent(mu: Fraction, delta: Fraction, epsilon: float) -> float | None:
    """Return where the tangent at an epsilon reaches log(delta); None if the curve is above it at epsilon."""
    reached, gap, far = _curve(mu, Fraction(epsilon))
    return (
        max(0.0, epsilon - _log(delta / reached) * float(gap / far))
        if reached <= delta
        else None
    )


def _mu_on_tangent(epsilon: Fraction, delta: Fraction, mu: float) -> float | None:
    """Return where the tangent at a mu reaches log(delta); None if the curve is above it at mu."""
    reached, gap, _ = _curve(Fraction(mu), epsilon)
    return mu + _log(delta / reached) * float(gap) if reached <= delta else None


def _nearest_safe(
    start: float, outwards: int, on_tangent: Callable[[float], float | None]
) -> float:
    """Find where delta is reached by Newton's method from the safe side; `on_tangent` returns None beyond it."""
    # Only rounding errors can make the start, or the end of a tangent, unsafe; it is then moved outwards.
    safe, step = start, math.ulp(start)
    while (trial := on_tangent(safe)) is None:
        safe, step = safe + outwards * step, 2 * step
    step = 0.0
    while (distance := (safe - trial) * outwards) > _TOLERANCE * safe:
        further = on_tangent(trial)
        if further is None:
            step = max(2 * step, _TOLERANCE * trial, math.ulp(trial))
            trial += outwards * min(step, distance)
        else:
            safe, trial, step = trial, further, 0.0
    return safe


def _log(ratio: Fraction) -> float:
    """Return the logarithm of a fraction that may be beyond the range of floats, or close to 1."""
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(ratio - 1)
    return math.log(ratio.numerator) - math.log(ratio.denominator)
