"""Integer noise for a part of epsilon, rho or mu, and private choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.base import find_stack_level
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

Floats = NDArray[np.float64]


class Estimate(NamedTuple):
    """A noisy statistic, the standard deviation of its noise, and the endpoints of its interval."""

    value: Any
    std_error: Any
    lower: Any
    upper: Any


def warn_user(message: str, page: str) -> None:
    """Warn the caller of skdp, with a page of the documentation."""
    warn(message, UserWarning, about=page, stacklevel=find_stack_level())


@dataclass(frozen=True)
class Noise:
    """Noise that is added to integers."""

    # Kind "epsilon": blocks of `dimension` integers z have the density ``e**(-amount
    # max|z| / sensitivity)``: the K-norm mechanism of the maximum norm (M. Hardt, K.
    # Talwar, 2010; T. Steinke, J. Ullman, 2016), where a row changes each integer by at
    # most `sensitivity`. Blocks of one integer are discrete Laplace noise, where a row
    # changes all integers by at most `sensitivity` in L1 norm. Of kind "mu", it is
    # rounded Gaussian noise, where a row changes all integers by at most the root of
    # `sensitivity` in L2 norm. Real noise of this variance is mu-Gaussian
    # differentially private, and rounding is post-processing. The squares of mu add up,
    # also of parts that are chosen by earlier results: the references are at
    # `skdp.privacy.Mu`.

    kind: Literal["epsilon", "mu"]
    # Epsilon, or the square of mu.
    amount: Fraction
    sensitivity: int = 1
    dimension: int = 1

    @classmethod
    def of(
        cls, share: PrivacyBudget, l1: int = 1, l2_squared: int | None = None
    ) -> Noise:
        """Return the noise for integers with these sensitivities to a row in L1 and in squared L2 norm."""
        if l2_squared is None:
            l2_squared = l1**2
        return cls._of_kind(share, l1, 1, l2_squared)

    @classmethod
    def joint(cls, share: PrivacyBudget, largest: int, dimension: int) -> Noise:
        """Return the noise for blocks of integers, one of which a row changes, by at most `largest` each."""
        return cls._of_kind(share, largest, dimension, dimension * largest**2)

    @classmethod
    def _of_kind(
        cls, share: PrivacyBudget, sensitivity: int, dimension: int, l2_squared: int
    ) -> Noise:
        if share.kind == "epsilon":
            return cls("epsilon", share.amount, share.rows * sensitivity, dimension)
        return cls("mu", share.mu_squared, share.rows**2 * l2_squared)

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        if self.kind == "mu":
            return "rounded Gaussian"
        return "discrete Laplace" if self.dimension == 1 else "discrete K-norm"

    @property
    def scale(self) -> Fraction:
        """The scale of noise without a delta, or the variance of Gaussian noise before rounding."""
        return self.sensitivity / self.amount

    def draw(self, source: ByteSource, size: int) -> NDArray[Any]:
        """Draw the noise of some integers; of several dimensions, of one block."""
        return self.draw_each(source, 1, size)[0]

    def draw_each(self, source: ByteSource, n: int, size: int) -> NDArray[Any]:
        """Draw the noise of several groups of integers, of which a row changes one: (n, size)."""
        if self.kind == "mu":
            return rounded_gaussian(source, self.scale, n * size).reshape(n, size)
        if self.dimension == 1:
            return discrete_laplace(source, self.scale, n * size).reshape(n, size)
        # A person's rows in several groups change the largest numbers of these by
        # ``rows * sensitivity`` together, as rows in one group do.
        return cube_noise(source, self.scale, size, n)

    def add(self, source: ByteSource, numbers: Sequence[int]) -> list[int]:
        """Add noise to integers."""
        noise = self.draw(source, len(numbers)).tolist()
        return [number + part for number, part in zip(numbers, noise, strict=True)]

    def add_floats(self, source: ByteSource, numbers: NDArray[Any]) -> Floats:
        """Add noise to an array of integers, and return floats."""
        drawn = self.draw(source, numbers.size).reshape(numbers.shape)
        noisy = (numbers.astype(object) + drawn).astype(object)
        return np.clip(noisy, -MAX_NOISY_SUM, MAX_NOISY_SUM).astype(float)

    @property
    def error(self) -> Fraction:
        """The standard deviation."""
        if self.kind == "mu":
            variance = self.scale + Fraction(1, 12)  # rounding adds a twelfth
            square = (variance.numerator << 120) // variance.denominator
            return Fraction(math.isqrt(square), 1 << 60)
        rate = float(self.amount / self.sensitivity)
        if self.dimension > 1 or rate < 2.0**-20:
            return self.scale * Fraction(cube_std(self.dimension))
        # Discrete Laplace noise has a smaller error if its scale is small.
        return Fraction(math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate))

    def reach(self, level: float) -> Fraction:
        """Return the margin of error, also of ``(z_1 - slope z_2) / sqrt(1 + slope**2)`` for two draws z."""
        if self.kind == "mu":
            return Fraction(NormalDist().inv_cdf((1 + level) / 2)) * self.error
        return Fraction(bound_quantile(level)) * self.error

    @property
    def loss(self) -> Loss:
        """The privacy loss of one draw."""
        if self.kind == "mu":
            return gaussian_loss(self.amount)
        # Numbers that change by `sensitivity` change by 1 as many times, and each
        # change by 1 multiplies or divides probabilities by at most e**(epsilon /
        # sensitivity): a chain of links, as `laplace_loss` requires. With several rows
        # of a person in several groups, there are as many links together.
        return laplace_loss(self.amount, self.sensitivity)


def choose(
    source: ByteSource,
    scores: ArrayLike,
    share: PrivacyBudget,
    sensitivity: Fraction | int,
) -> int:
    """Choose a candidate; a row changes the difference of two scores by at most `sensitivity`."""
    # Permute-and-flip makes no more errors than the exponential mechanism at the same
    # epsilon. But the losses of the latter are in an interval of length epsilon, so in
    # rho and mu it may have about twice the epsilon.
    sensitivity *= share.rows
    if share.kind == "epsilon":
        return permute_and_flip(source, scores, share.amount / sensitivity)
    return exponential_mechanism(source, scores, share.choice / sensitivity)


def choice_name(share: PrivacyBudget) -> str:
    """Return the name of the mechanism of `choose`."""
    return "permute-and-flip" if share.kind == "epsilon" else "exponential mechanism"


def choice_loss(share: PrivacyBudget) -> Loss:
    """Return the loss of `choose`, for a part of epsilon."""
    # Permute-and-flip is defined for all real scores, and with a smaller change of
    # these it is as much more private. So a change of scores can be divided into a
    # chain of any number of links.
    return laplace_loss(share.amount)


# The limit of noisy counts and of their sums.
MAX_NOISY_COUNT = 1 << 62

# Larger than all sums. With a tiny epsilon, noise is larger than all floats.
MAX_NOISY_SUM = 1 << 200


def to_float(number: int | Fraction) -> float:
    """Return a noisy sum, or an error, as a float."""
    return float(min(max(number, -MAX_NOISY_SUM), MAX_NOISY_SUM))


def cube_std(dimension: int) -> float:
    """Return the standard deviation of a coordinate of noise of the density ``e**-max|z|``, up to a factor."""
    # A coordinate is uniform within a cube, whose half side has a gamma distribution of
    # shape D + 1.
    return math.sqrt((dimension + 1) * (dimension + 2) / 3)


def bound_quantile(level: float) -> float:
    """Bound a quantile of the size of noise without a delta, in standard deviations."""
    # One number has Laplace noise, and sums of many numbers nearly normal noise. A number
    # of many that share a draw of K-norm noise is nearly uniform: the density ``e**-max|z|``
    # is a mixture of uniform distributions on cubes. The difference of two uniform
    # numbers has a triangular distribution.
    normal = NormalDist().inv_cdf((1 + level) / 2)
    laplace = -math.log(1 - level) / math.sqrt(2)
    uniform = math.sqrt(3) * level
    triangular = math.sqrt(6) * (1 - math.sqrt(1 - level))
    return max(normal, laplace, uniform, triangular)
