"""What a promise of epsilon and delta buys."""

from __future__ import annotations

from fractions import Fraction

from skdp.privacy import largest_mu, zcdp_epsilon
from skdp.synthesis._noise import GaussianBudget, LaplaceBudget, NoiseBudget

_LARGEST_NOISE = 10**30
"""The standard deviation of counts from which nothing can be learnt, and powers of which overflow soon."""


def open_budget(
    epsilon: Fraction, delta: Fraction, max_rows_per_person: int, *, choices: bool
) -> tuple[NoiseBudget, Fraction | None]:
    """Turn a promise into a budget of noise.

    Parameters
    ----------
    epsilon : Fraction
        The privacy loss, positive.
    delta : Fraction
        The failure probability. With 0 the noise is discrete Laplace, and epsilons add; otherwise it is rounded
        Gaussian.
    max_rows_per_person : int
        How many rows may come or go with a person.
    choices : bool
        Whether the exponential mechanism is used too: of this, with delta > 0, only zero-concentrated privacy is
        accounted for; otherwise Gaussian privacy, which is a tenth cheaper.

    Returns
    -------
    tuple of (NoiseBudget, Fraction or None)
        The budget, and the zero-concentrated loss, if delta > 0.

    Raises
    ------
    ValueError
        If the noise would be so large that the sums of its squares overflow.
    """
    least = Fraction(max_rows_per_person, _LARGEST_NOISE)
    if max(epsilon, delta) < least:
        raise _too_small(least)
    if delta == 0:
        return LaplaceBudget(epsilon, max_rows_per_person), None
    mu_squared = 2 * largest_rho(epsilon, delta) if choices else Fraction(largest_mu(epsilon, delta)) ** 2
    if mu_squared < least**2:
        raise _too_small(least)
    return GaussianBudget(mu_squared, max_rows_per_person), mu_squared / 2


def _too_small(least: Fraction) -> ValueError:
    return ValueError(f"epsilon (or delta) is too small: with less than {float(least):g} there is nothing but noise")


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest zero-concentrated loss, but for rounding, that gives no more than epsilon at delta.

    Parameters
    ----------
    epsilon : Fraction
        Positive.
    delta : Fraction
        In (0, 1).

    Returns
    -------
    Fraction
        Proven to be small enough, by `zcdp_epsilon`.

    Examples
    --------
    >>> rho = largest_rho(Fraction(1), Fraction(1, 10**9))
    >>> round(float(rho), 5), zcdp_epsilon(rho, 1e-9) <= 1
    (0.01497, True)
    """
    low, high = Fraction(0), epsilon  # rho-zCDP is never less than rho
    while zcdp_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > high / 2**40:
        middle = Fraction(float((low + high) / 2))
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low
