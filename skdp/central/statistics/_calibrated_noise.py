"""Noise for integers, and choices by noisy scores, for a budget in epsilon, rho or mu."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import Floats
from skdp.base import K_NORM, NORMAL, ErrorDistribution, find_stack_level
from skdp.pages import warn
from skdp.privacy import Loss, PrivacyBudget, gaussian_loss, laplace_loss
from skdp.randomness import (
    ByteSource,
    cube_noise,
    discrete_laplace,
    exponential_mechanism,
    permute_and_flip,
    rounded_gaussian,
)


def warn_user(message: str, page: str) -> None:
    """Issue a UserWarning at the line that called skdp, with the address of a page of the documentation."""
    warn(message, UserWarning, about=page, stacklevel=find_stack_level())


@dataclass(frozen=True)
class Noise:
    """Noise that is added to integers: discrete Laplace, discrete K-norm or rounded Gaussian."""

    # Laplace: a row changes all integers by at most `sensitivity` in L1 norm.
    #
    # K-norm: blocks of `dimension` integers z have a density proportional to
    # ``exp(-amount * max|z| / sensitivity)``, where a row changes each integer of one
    # block by at most `sensitivity` (the mechanism of the maximum norm: M. Hardt, K.
    # Talwar, 2010; T. Steinke, J. Ullman, 2016). Laplace noise is the case of blocks of
    # one integer.
    #
    # Gaussian: a row changes all integers by at most the root of `sensitivity` in L2
    # norm. Continuous noise of the variance ``sensitivity / amount`` is mu-Gaussian
    # differentially private, and rounding is post-processing. The squares of mu add up,
    # also over measurements that depend on earlier results: the references are at
    # `skdp.privacy.Mu`.

    is_gaussian: bool
    # Epsilon, or the square of mu for Gaussian noise.
    amount: Fraction
    sensitivity: int = 1
    dimension: int = 1

    @classmethod
    def gaussian(cls, budget: PrivacyBudget, l2_squared: int = 1) -> Noise:
        """Return Gaussian noise for integers with this sensitivity to one row in squared L2 norm."""
        return cls(True, budget.mu_squared, budget.rows_per_person**2 * l2_squared)

    @classmethod
    def from_budget(
        cls, budget: PrivacyBudget, l1: int = 1, l2_squared: int | None = None
    ) -> Noise:
        """Return the noise for integers with these sensitivities to one row, in L1 and in squared L2 norm."""
        if l2_squared is None:
            l2_squared = l1**2
        return cls._choose(budget, l1, 1, l2_squared)

    @classmethod
    def joint(cls, budget: PrivacyBudget, largest: int, dimension: int) -> Noise:
        """Return the noise for blocks of integers, if a row changes each integer of one block by at most `largest`."""
        return cls._choose(budget, largest, dimension, dimension * largest**2)

    @classmethod
    def _choose(
        cls, budget: PrivacyBudget, sensitivity: int, dimension: int, l2_squared: int
    ) -> Noise:
        """Return Gaussian noise for a budget in rho or mu, otherwise K-norm noise.

        `l2_squared` is the sensitivity to one row in squared L2 norm, and `sensitivity` in L1 norm, or with a
        `dimension` above 1 in the maximum norm of one block. The k rows of a person change integers by k times the
        sensitivity to one row.
        """
        if budget.kind == "epsilon":
            return cls(
                False, budget.amount, budget.rows_per_person * sensitivity, dimension
            )
        return cls.gaussian(budget, l2_squared)

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        if self.is_gaussian:
            return "rounded Gaussian"
        return "discrete Laplace" if self.dimension == 1 else "discrete K-norm"

    @property
    def scale(self) -> Fraction:
        """The scale of Laplace or K-norm noise, or the variance of Gaussian noise before rounding."""
        return self.sensitivity / self.amount

    def draw(self, source: ByteSource, size: int) -> NDArray[Any]:
        """Draw the noise of `size` integers, (size,); for K-norm noise, of one block."""
        return self.draw_each(source, 1, size)[0]

    def draw_each(self, source: ByteSource, n: int, size: int) -> NDArray[Any]:
        """Draw the noise of n groups of integers, where a row changes one group; shape (n, size)."""
        if self.is_gaussian:
            return rounded_gaussian(source, self.scale, n * size).reshape(n, size)
        if self.dimension == 1:
            return discrete_laplace(source, self.scale, n * size).reshape(n, size)
        # The rows of a person may be in several groups. The largest changes of these
        # groups add up to at most ``rows * sensitivity``, as for rows in one group.
        return cube_noise(source, self.scale, size, n)

    def add(self, source: ByteSource, numbers: Sequence[int]) -> list[int]:
        """Add noise to a list of integers."""
        noise = self.draw(source, len(numbers)).tolist()
        return [number + drawn for number, drawn in zip(numbers, noise, strict=True)]

    def add_floats(self, source: ByteSource, numbers: NDArray[Any]) -> Floats:
        """Add noise to an array of integers, and return floats."""
        return self.add_by_group(source, numbers.reshape(1, -1)).reshape(numbers.shape)

    def add_by_group(self, source: ByteSource, numbers: NDArray[Any]) -> Floats:
        """Add noise to groups of integers, (n_groups, size), of which a row changes one, and return floats."""
        return add_drawn(numbers, self.draw_each(source, *numbers.shape))

    @property
    def std(self) -> Fraction:
        """The standard deviation of the noise of one integer."""
        if self.is_gaussian:
            variance = self._rounded_variance
            square = (variance.numerator << 120) // variance.denominator
            return Fraction(math.isqrt(square), 1 << 60)
        # P(z) is proportional to exp(-rate |z|).
        rate = float(self.amount / self.sensitivity)
        if self.dimension > 1 or rate < 2.0**-20:
            return self.scale * Fraction(cube_std(self.dimension))
        # The variance of discrete Laplace noise is 2 a / (1 - a)**2 with a = exp(-rate),
        # which is smaller than the variance of continuous noise.
        return Fraction(math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate))

    @property
    def _rounded_variance(self) -> Fraction:
        """The variance of rounded Gaussian noise."""
        if self.scale >= 1:  # rounding adds a twelfth, up to 1e-7
            return self.scale + Fraction(1, 12)
        # E(z**2) is the sum of (2 k - 1) P(|z| >= k).
        root = math.sqrt(max(2 * float(self.scale), 1e-300))
        terms = ((2 * k - 1) * math.erfc((k - 0.5) / root) for k in range(1, 10))
        return Fraction(sum(terms))

    def margin_of_error(self, level: float) -> Fraction:
        """Return the margin of error of one integer for a confidence level.

        It is also the margin of ``(z_1 - slope z_2) / sqrt(1 + slope**2)`` for the noise z of two integers.
        """
        return Fraction(self.distribution.quantile(level)) * self.std

    @property
    def distribution(self) -> ErrorDistribution:
        """The distribution of the noise of one integer, or of a sum of integers, in standard deviations."""
        return NORMAL if self.is_gaussian else K_NORM

    @property
    def loss(self) -> Loss:
        """The privacy loss of one draw."""
        if self.is_gaussian:
            return gaussian_loss(self.amount)
        # A change by `sensitivity` is a chain of as many changes by 1, each of which
        # multiplies or divides probabilities by at most e**(epsilon / sensitivity), as
        # `laplace_loss` requires. For the rows of a person in several groups, the chain
        # has the same length.
        return laplace_loss(self.amount, self.sensitivity)


def add_drawn(numbers: NDArray[Any], drawn: NDArray[Any]) -> Floats:
    """Add noise that was drawn to integers of the same shape, and return floats."""
    if _has_small_sums(numbers) and _has_small_sums(drawn):
        return (numbers + drawn).astype(float)
    noisy = numbers.astype(object) + drawn
    return np.clip(noisy, -MAX_NOISY_SUM, MAX_NOISY_SUM).astype(float)


def _has_small_sums(numbers: NDArray[Any]) -> bool:
    """Return True if integers of 64 bits represent the sums of two of these numbers."""
    if numbers.dtype != np.int64:
        return False
    low, high = numbers.min(initial=0), numbers.max(initial=0)
    return bool(low > -(1 << 62) and high < 1 << 62)


def choose(
    source: ByteSource,
    scores: ArrayLike,
    budget: PrivacyBudget,
    sensitivity: Fraction | int,
) -> int:
    """Choose the index of a large score; a row changes the difference of two scores by at most `sensitivity`.

    Large scores are the most probable choices; the budget determines by how much.
    """
    # At the same epsilon, the expected error of permute-and-flip is at most the error
    # of the exponential mechanism. But the losses of the latter are in an interval of
    # length epsilon, so for a budget in rho or mu it may have about twice the epsilon.
    sensitivity *= budget.rows_per_person
    if budget.kind == "epsilon":
        return permute_and_flip(source, scores, budget.amount / sensitivity)
    return exponential_mechanism(source, scores, budget.choice / sensitivity)


def choice_name(budget: PrivacyBudget) -> str:
    """Return the name of the mechanism of `choose`."""
    return "permute-and-flip" if budget.kind == "epsilon" else "exponential mechanism"


# Limit of the size of noisy counts and of their sums.
MAX_NOISY_COUNT = 1 << 62

# Limit of the size of noisy sums, which is larger than all exact sums: with a tiny
# epsilon, noise exceeds the largest float.
MAX_NOISY_SUM = 1 << 200


def to_float(number: int | Fraction) -> float:
    """Convert a noisy sum or a standard deviation to a float, clipped to the range of floats."""
    return float(min(max(number, -MAX_NOISY_SUM), MAX_NOISY_SUM))


def cube_std(dimension: int) -> float:
    """Return the standard deviation of one of D numbers z whose joint density is proportional to ``e**-max|z|``."""
    # Each number is uniform on [-r, r], where r has a gamma distribution of shape D + 1.
    # So the variance is E(r**2) / 3 = (D + 1) (D + 2) / 3.
    return math.sqrt((dimension + 1) * (dimension + 2) / 3)
