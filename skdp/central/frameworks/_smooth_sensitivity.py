"""Smooth sensitivity: noise that follows the local sensitivity, smoothed so that it reveals nothing by itself."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from skdp.central._base import charge
from skdp.central.frameworks._propose_test_release import Release, read_number, read_output_bounds
from skdp.privacy import PrivacyLedger, Share, check_delta, check_epsilon
from skdp.randomness import ByteSource, rounded_laplace, rounded_student_t

DEGREES_OF_FREEDOM = 5
"""Of the Student-t noise: the least standard deviation where beta is small."""


def smooth_sensitivity_release(
    value: float | Fraction,
    smooth_sensitivity: float | Fraction,
    *,
    beta: float,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float = 0.0,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> Release:
    """Release a statistic with noise in proportion to its smooth sensitivity.

    With ``delta > 0`` the noise is Laplace, with the least scale for the guarantee (see Notes); with ``delta=0``
    it is Student's t of 5 degrees of freedom.

    Parameters
    ----------
    value : float, int or Fraction
        The statistic of the private table.
    smooth_sensitivity : float, int or Fraction
        A beta-smooth bound S of its local sensitivity at the private table: at least how far adding or removing one
        record moves the statistic, and at most ``e**beta`` times the bound at any neighbour of the table.
    beta : float
        The smoothness, > 0.
    bounds : pair of float
        The lowest and the highest value of the statistic, from what is publicly known.
    epsilon : float
        Privacy loss, finite and > 0.
    delta : float, default=0.0
        Failure probability, in [0, 1).
    ledger : PrivacyLedger, optional
        What is charged, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, which draws the same noise in every call.

    Returns
    -------
    Release
        The statistic as ``value``, with its ``guarantee``. Its ``std_error`` is nan, as the scale of the noise is
        private.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or beta is too large for epsilon and delta. No error shows the statistic or its
        smooth sensitivity.
    BudgetExceeded
        If the ledger does not cover it.

    Notes
    -----
    **Privacy.** Central model, adding or removing a record, ``(epsilon, delta)``. *Laplace*: [1]_ ask for a scale of
    ``2 S / epsilon`` and ``beta <= epsilon / (2 ln(2 / delta))``, which is about twice too much for a small epsilon and
    too little for a large one (from about 12). Here the scale is the least multiple of S at which the divergence of the
    worst two neighbours, known in closed form, is delta. *Student's t* with d degrees of freedom, scale s S: moving the
    centre by S costs ``(d + 1) / (2 sqrt(d) s)``, changing the scale by ``e**beta`` costs ``d beta``, together epsilon
    ([2]_). The noise is drawn exactly as a real number and then rounded, which is post-processing. The guarantee
    requires that `smooth_sensitivity` is correct: the function cannot check it.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.
    .. [2] M. Bun, T. Steinke (2019). Average-case averages: private algorithms for smooth sensitivity and mean
       estimation. NeurIPS.

    Examples
    --------
    The mean of n values in [0, 1] has the smooth sensitivity ``max(1 / n, e**(-beta (n - 1)))``:

    >>> release = smooth_sensitivity_release(
    ...     0.25, Fraction(1, 10_000), beta=0.002, bounds=(0, 1), epsilon=1.0, delta=1e-6, random_state=0
    ... )
    >>> round(release.value, 3)
    0.25
    >>> print(release.guarantee)
    epsilon = 1, delta = 0.000001, central model, adding or removing one record,
    NOT SECURE: the randomness comes from a seed
    """
    grid = read_output_bounds(bounds)
    center = grid.place(read_number(value, "value"))
    sensitivity = read_number(smooth_sensitivity, "smooth_sensitivity")
    if sensitivity <= 0:
        raise ValueError("smooth_sensitivity must be a finite number > 0")
    exact, exact_delta = check_epsilon(epsilon), check_delta(delta)
    noise = SmoothNoise.calibrated(exact, exact_delta, check_epsilon(beta, name="beta"))
    what, mechanism = "smooth_sensitivity_release", f"smooth sensitivity, {noise.name} noise"
    share = Share("epsilon", exact)
    guarantee, source = charge(what, share, ledger, random_state, mechanism=mechanism, n_rows=None, delta=exact_delta)
    place = noise.draw(source, center, sensitivity / grid.step)
    return Release(grid.value(place), math.nan, guarantee)


class SmoothNoise:
    """Noise for a smooth sensitivity: Laplace, or Student's t where delta is 0."""

    def __init__(self, factor: Fraction, *, pure: bool) -> None:
        self.factor = factor
        self.name = "Student's t" if pure else "Laplace"
        self._pure = pure

    @classmethod
    def calibrated(cls, epsilon: Fraction, delta: Fraction, beta: Fraction) -> SmoothNoise:
        """Find the least noise for the guarantee."""
        if delta:
            return cls(laplace_factor(epsilon, delta, beta), pure=False)
        left = epsilon - DEGREES_OF_FREEDOM * beta
        if left <= 0:
            raise ValueError(f"beta must be below epsilon / {DEGREES_OF_FREEDOM} where delta is 0, got {float(beta):g}")
        root = Fraction(math.isqrt(DEGREES_OF_FREEDOM << 256), 1 << 128)  # rounded down: more noise
        return cls(Fraction(DEGREES_OF_FREEDOM + 1) / (2 * root) / left, pure=True)

    def draw(self, source: ByteSource, center: Fraction, smooth_sensitivity: Fraction) -> int:
        """Draw a statistic with noise, rounded down."""
        scale = self.factor * smooth_sensitivity
        if self._pure:
            return rounded_student_t(source, center, scale, DEGREES_OF_FREEDOM)
        return rounded_laplace(source, center, scale)


Number = float | Decimal

_DIGITS = Context(prec=60)
_MARGIN = Decimal("1e-30")
"""Far above the error of 60 digits, far below any visible difference."""


def laplace_divergence(epsilon: Number, scale: Number, shift: Number, other_scale: Number) -> Decimal:
    """Return the smallest delta for which (epsilon, delta) bounds the divergence of two Laplace distributions."""
    # The integral of ``(p - e**epsilon q)+`` for p = Laplace(0, scale) and q = Laplace(shift, other_scale), to about 50
    # digits. The logarithm of p / q is linear on each side of 0 and of the shift, so on each of the three pieces the
    # part where it exceeds epsilon is an interval, and the integral over it is known in closed form. A negative epsilon
    # is the logarithm of a factor below 1.
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
    """Return the mass of the Laplace distribution at 0 between two numbers on one side of 0."""
    near, far = sorted((abs(low), abs(high)))
    return ((-near / scale).exp() - (-far / scale).exp()) / 2


@lru_cache(maxsize=128)
def laplace_factor(epsilon: Fraction, delta: Fraction, beta: Fraction) -> Fraction:
    """Return the least factor by which a smooth sensitivity must be multiplied to be the scale of Laplace noise."""
    # Neighbours' statistics differ by at most the smaller of their smooth sensitivities S and S', with
    # ``e**-beta <= S / S' <= e**beta``. The statistic plus Laplace noise of scale f S is (epsilon, delta)-private for
    # the returned f, found by bisection: the `laplace_divergence` of the worst such pair is at most delta. The worst
    # pair differs as much as possible, both in the statistic and in the scale.
    with localcontext(_DIGITS):
        allowed = _decimal(delta) * (1 - _MARGIN)
        # A guarantee for epsilon = 1000 implies that for any larger epsilon, and its numbers stay in range.
        target, smooth = _decimal(min(epsilon, Fraction(1000))), _decimal(beta) * (1 + _MARGIN)
        # The two scales differ however much noise there is: their tails alone must not distinguish them.
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
