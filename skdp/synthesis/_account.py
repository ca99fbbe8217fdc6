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
    """Turn a promise into a budget of noise."""
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
    """Return the largest zero-concentrated loss, but for rounding, that gives no more than epsilon at delta."""
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
