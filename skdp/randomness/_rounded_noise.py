"""One draw of a real law, rounded down to an integer: exactly."""

from __future__ import annotations

import math
from fractions import Fraction

from skdp.randomness._exp_coins import bernoulli_exp
from skdp.randomness._geometric import GeometricDigits
from skdp.randomness._rationals import check_positive_int, check_rational
from skdp.randomness._sources import ByteSource
from skdp.randomness._uniform import Uniform


def rounded_laplace(source: ByteSource, center: Fraction | int, scale: Fraction | int) -> int:
    """Draw ``floor(center + scale * X)``, where X is a real number of the standard Laplace law.

    The integer has exactly the probability of this real event, so it is post-processing of the ideal mechanism: what is
    proved of continuous noise holds, also where the scale depends on the data, as smooth sensitivity has it ([1]_).

    The distance from the center is exponential, which has no memory. It stays within the center's own cell, on the side
    that a fair coin chose, or reaches the next integer; how many more it passes is a geometric number.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    center : Fraction or int
        Any number.
    scale : Fraction or int
        Positive, of any size. Nothing of it is kept for the next call: it may be secret.

    Returns
    -------
    int
        The integer.

    Raises
    ------
    TypeError
        If a parameter is not rational.
    ValueError
        If the scale is not positive.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> rounded_laplace(SeededSource(0), Fraction(1, 3), 100)
    -63
    """
    center, scale = check_rational("center", center, signed=True), check_rational("scale", scale)
    upwards = source.bytes(1)[0] < 128
    first = math.floor(center)
    to_next = math.ceil(center) - center if upwards else center - first  # 0 is passed for certain
    if not bernoulli_exp(source, [1], to_next / scale)[0]:
        return first
    passed = int(GeometricDigits(scale).draw(source, 1)[0])
    return math.ceil(center) + passed if upwards else first - 1 - passed


def rounded_student_t(
    source: ByteSource, center: Fraction | int, scale: Fraction | int, degrees_of_freedom: int
) -> int:
    """Draw ``floor(center + scale * X)``, where X is a real number of Student's t law.

    As with `rounded_laplace`, what is proved of the real mechanism, such as smooth sensitivity's ([2]_), holds of the
    integer.

    X is a ratio of uniforms ([1]_): for the density ``f(x) = (1 + x**2 / d)**(-(d + 1) / 2)``, a point (u, v) that is
    uniform where ``0 < u <= sqrt(f(v / u))`` has a ratio v / u of this law. That region's right half is in the unit
    square, as f(x) and ``x**2 * f(x)`` are at most 1; the other half is its mirror image. Cleared of the root and the
    quotients, the condition is ``(d * u**2 + v**2)**(d + 1) <= d**(d + 1) * u**(2 * d - 2)``. Bits of u and v are drawn
    until both the condition and the integer are certain: only integers are compared.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    center : Fraction or int
        Any number.
    scale : Fraction or int
        Positive, of any size.
    degrees_of_freedom : int
        At least 1.

    Returns
    -------
    int
        The integer.

    Raises
    ------
    TypeError
        If a parameter is not rational, or the degrees of freedom are not an integer.
    ValueError
        If the scale or the degrees of freedom are not positive.

    References
    ----------
    .. [1] A. J. Kinderman, J. F. Monahan (1977). Computer generation of random variables using the ratio of uniform
       deviates. ACM TOMS 3(3).
    .. [2] M. Bun, T. Steinke (2019). Average-case averages: private algorithms for smooth sensitivity and mean
       estimation. NeurIPS.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> rounded_student_t(SeededSource(0), Fraction(1, 3), 100, 3)
    52
    """
    center, scale = check_rational("center", center, signed=True), check_rational("scale", scale)
    d = check_positive_int("degrees_of_freedom", degrees_of_freedom)
    if source.bytes(1)[0] < 128:
        scale = -scale
    while True:
        u, v = Uniform(source), Uniform(source)
        while (inside := _is_inside(u, v, d)) is None:
            u.extend()
            v.extend()
        while inside:
            rounded = _rounded(u, v, center, scale)
            if rounded is not None:
                return rounded
            u.extend()
            v.extend()


def _is_inside(u: Uniform, v: Uniform, d: int) -> bool | None:
    """Say whether a point is in the region of the ratio of uniforms, None if the bits do not tell yet."""
    factor = d ** (d + 1) << 4 * u.bits
    if (d * (u.value + 1) ** 2 + (v.value + 1) ** 2) ** (d + 1) <= factor * u.value ** (2 * d - 2):
        return True
    if (d * u.value**2 + v.value**2) ** (d + 1) > factor * (u.value + 1) ** (2 * d - 2):
        return False
    return None


def _rounded(u: Uniform, v: Uniform, center: Fraction, scale: Fraction) -> int | None:
    """Return ``floor(center + scale * v / u)``, None if the bits do not tell yet."""
    if u.value == 0:
        return None
    ratios = Fraction(v.value, u.value + 1), Fraction(v.value + 1, u.value)
    least, most = (math.floor(center + scale * ratio) for ratio in ratios)
    return least if least == most else None
