"""How much Laplace noise a smooth sensitivity needs, exactly."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

Number = float | Decimal

_DIGITS = Context(prec=60)
_MARGIN = Decimal("1e-30")
"""Far above what 60 digits may be wrong by, far below what anybody notices."""


def laplace_divergence(epsilon: Number, scale: Number, shift: Number, other_scale: Number) -> Decimal:
    """Return the smallest delta for which two Laplace laws are apart by (epsilon, delta).

    The integral of ``(p - e**epsilon q)+`` for p = Laplace(0, scale) and q = Laplace(shift, other_scale). The logarithm
    of p / q is linear on each side of 0 and of the shift, so on each of the three pieces the part where it exceeds
    epsilon is an interval, and the integral over it is known in closed form.

    Parameters
    ----------
    epsilon : float or Decimal
        The privacy loss; a negative one is the logarithm of a factor below 1.
    scale : float or Decimal
        The scale of p, positive.
    shift : float or Decimal
        How far the middle of q is from that of p, at least 0.
    other_scale : float or Decimal
        The scale of q, positive.

    Returns
    -------
    Decimal
        The integral, to about 50 digits: the least delta for which, towards somebody who tells p from q, epsilon holds.

    Raises
    ------
    ValueError
        If a scale is not positive, or the shift negative.

    Examples
    --------
    Noise of scale 1 hides a shift of 1 at epsilon = 1, and one of 2 only with delta = 1 - e**(-1/2):

    >>> float(laplace_divergence(1, 1, 1, 1)), round(float(laplace_divergence(1, 1, 2, 1)), 6)
    (0.0, 0.393469)
    """
    epsilon, scale, shift, other_scale = (Decimal(number) for number in (epsilon, scale, shift, other_scale))
    if not (scale > 0 and other_scale > 0 and shift >= 0):
        raise ValueError("the scales must be positive, and the shift at least 0")
    infinity = Decimal("Infinity")
    with localcontext(_DIGITS):
        start = (other_scale / scale).ln() - epsilon
        pieces = [
            (-infinity, Decimal(0), start + shift / other_scale, 1 / scale - 1 / other_scale),
            (Decimal(0), shift, start + shift / other_scale, -1 / scale - 1 / other_scale),
            (shift, infinity, start - shift / other_scale, 1 / other_scale - 1 / scale),
        ]
        total = Decimal(0)
        for low, high, intercept, slope in pieces:
            if slope > 0:
                low = max(low, -intercept / slope)
            elif slope < 0:
                high = min(high, -intercept / slope)
            elif intercept <= 0:
                continue
            if low < high:
                total += _mass(low, high, scale) - epsilon.exp() * _mass(low - shift, high - shift, other_scale)
        return max(total, Decimal(0))


def _mass(low: Decimal, high: Decimal, scale: Decimal) -> Decimal:
    """Return what the Laplace law at 0 has between two numbers that are on one side of 0."""
    near, far = sorted((abs(low), abs(high)))
    return ((-near / scale).exp() - (-far / scale).exp()) / 2


@lru_cache(maxsize=128)
def laplace_factor(epsilon: Fraction, delta: Fraction, beta: Fraction) -> Fraction:
    """Return the least factor by which a smooth sensitivity must be multiplied to be the scale of Laplace noise."""
    # Take neighbours whose statistics differ by at most the smaller of their smooth sensitivities S and S', with
    # ``e**-beta <= S / S' <= e**beta``. The statistic plus Laplace noise of scale f S is (epsilon,
    # delta)-differentially private for the f that is returned: the `laplace_divergence` of the worst such pair is at
    # most delta, and f is found by bisection. The worst pair differs as much as it may, both in the statistic and in
    # the scale.
    with localcontext(_DIGITS):
        allowed = _decimal(delta) * (1 - _MARGIN)
        # A promise of epsilon = 1000 is one of any larger epsilon too, and its numbers stay in range.
        target, smooth = _decimal(min(epsilon, Fraction(1000))), _decimal(beta) * (1 + _MARGIN)
        # However much noise there is, the two scales differ: their tails alone must not tell them apart.
        if _worst(target, smooth, None) > allowed:
            raise ValueError(f"beta={float(beta):g} is too large for this epsilon and delta")
        enough = 1 / target
        while _worst(target, smooth, enough) > allowed:
            enough *= 2
        short = enough / 2
        while _worst(target, smooth, short) <= allowed:
            short /= 2
        enough = 2 * short
        for _ in range(50):
            middle = (short + enough) / 2
            if _worst(target, smooth, middle) > allowed:
                short = middle
            else:
                enough = middle
        return Fraction(enough)


def _worst(epsilon: Decimal, beta: Decimal, factor: Decimal | None) -> Decimal:
    """Return the divergence of the worst pair: apart by the smaller sensitivity, one scale e**beta times the other."""
    one, wider = Decimal(1), beta.exp()
    if factor is None:
        return laplace_divergence(epsilon, wider, Decimal(0), one)
    shift = 1 / factor
    pairs = [(wider, one), (one, wider), (one, one)]
    return max(laplace_divergence(epsilon, *scales[:1], shift, *scales[1:]) for scales in pairs)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
