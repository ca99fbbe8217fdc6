"""Integer noise for a share of epsilon, rho or mu, and private choices: what all estimators of the curator draw."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar

from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import gammainc

from skdp.privacy import (
    Loss,
    Mu,
    Share,
    check_delta,
    gaussian_loss,
    laplace_loss,
    read_share,
)
from skdp.randomness import (
    ByteSource,
    cube_noise,
    discrete_laplace,
    exponential_mechanism,
    permute_and_flip,
    rounded_gaussian,
)


class Noise(ABC):
    """Noise that is added to integers."""

    name: ClassVar[str]

    @abstractmethod
    def draw(self, source: ByteSource, size: int) -> NDArray[Any]:
        """Draw the noise of some integers."""

    def draw_each(self, source: ByteSource, n: int, size: int) -> NDArray[Any]:
        """Draw the noise of several groups of integers, of which a row changes one."""
        return self.draw(source, n * size).reshape(n, size)

    def add(self, source: ByteSource, numbers: Sequence[int]) -> list[int]:
        """Add noise to integers."""
        noise = self.draw(source, len(numbers)).tolist()
        return [number + part for number, part in zip(numbers, noise, strict=True)]

    @property
    @abstractmethod
    def error(self) -> Fraction:
        """The standard deviation."""

    @abstractmethod
    def reach(self, level: float, slope: float = 0.0) -> Fraction:
        """Return half the width of an interval, of ``(z_1 - slope z_2) / sqrt(1 + slope**2)`` for two of them."""

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """What is lost by one draw."""


@dataclass(frozen=True)
class LaplaceNoise(Noise):
    """Discrete Laplace noise, for numbers that change by at most `sensitivity` in L1 norm."""

    name = "discrete Laplace"

    epsilon: Fraction
    sensitivity: int = 1

    def draw(self, source: ByteSource, size: int) -> NDArray[Any]:
        return discrete_laplace(source, self.sensitivity / self.epsilon, size)

    @property
    def error(self) -> Fraction:
        rate = float(self.epsilon / self.sensitivity)
        if rate < 2.0**-20:
            return Fraction(math.sqrt(2)) * self.sensitivity / self.epsilon
        return Fraction(math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate))

    def reach(self, level: float, slope: float = 0.0) -> Fraction:
        return Fraction(-math.log(1 - level)) * self.sensitivity / self.epsilon

    @property
    def loss(self) -> Loss:
        # Numbers that change by `sensitivity` in L1 norm change by 1 as many times, and each change by 1 multiplies or
        # divides probabilities by at most e**(epsilon / sensitivity): a chain of links, as `LaplaceLoss` wants it.
        return laplace_loss(self.epsilon, self.sensitivity)


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Rounded Gaussian noise, for numbers that change by at most the root of `square` in L2 norm."""

    name = "rounded Gaussian"

    # Real noise of this variance is mu-Gaussian differentially private, and rounding is post-processing. The squares of
    # mu add up, also of parts that are chosen by earlier results: the references are at `skdp.privacy.Mu`.

    mu_squared: Fraction
    square: int = 1

    @property
    def variance(self) -> Fraction:
        return self.square / self.mu_squared

    def draw(self, source: ByteSource, size: int) -> NDArray[Any]:
        return rounded_gaussian(source, self.variance, size)

    @property
    def error(self) -> Fraction:
        whole = self.variance + Fraction(1, 12)  # rounding adds a twelfth
        return Fraction(
            math.isqrt((whole.numerator << 120) // whole.denominator), 1 << 60
        )

    def reach(self, level: float, slope: float = 0.0) -> Fraction:
        return Fraction(NormalDist().inv_cdf((1 + level) / 2)) * self.error

    @property
    def loss(self) -> Loss:
        return gaussian_loss(self.mu_squared)


@dataclass(frozen=True)
class CubeNoise(Noise):
    """Noise of the density ``e**(-epsilon max|z| / sensitivity)``, for numbers of which each changes by this much."""

    name = "discrete K-norm"

    epsilon: Fraction
    sensitivity: int
    dimension: int

    def draw(self, source: ByteSource, size: int) -> NDArray[Any]:
        return cube_noise(source, self.sensitivity / self.epsilon, size)[0]

    def draw_each(self, source: ByteSource, n: int, size: int) -> NDArray[Any]:
        # A person's rows in several groups change the largest numbers of these by ``rows * sensitivity`` together.
        return cube_noise(source, self.sensitivity / self.epsilon, size, n)

    @property
    def error(self) -> Fraction:
        return self.sensitivity / self.epsilon * Fraction(cube_std(self.dimension))

    def reach(self, level: float, slope: float = 0.0) -> Fraction:
        quantile = cube_quantile(level, self.dimension, slope) / math.hypot(1, slope)
        return self.sensitivity / self.epsilon * Fraction(quantile)

    @property
    def loss(self) -> Loss:
        # A change of each number by at most `sensitivity` is as many changes of each by at most 1, whose links are as
        # those of Laplace noise. With several rows of a person in several groups, there are as many links together.
        return laplace_loss(self.epsilon, self.sensitivity)


def integer_noise(
    share: Share, sensitivity: int = 1, square: int | None = None
) -> Noise:
    """Return the least noise for integers by what a row changes in L1 norm, and the square of that in L2 norm."""
    square = sensitivity**2 if square is None else square
    return _least(
        share, lambda: LaplaceNoise(share.pure, share.rows * sensitivity), square
    )


def joint_noise(share: Share, sensitivity: int, dimension: int) -> Noise:
    """Return the least noise for some integers of which a row changes each by at most `sensitivity`."""
    square = dimension * sensitivity**2
    return _least(
        share,
        lambda: CubeNoise(share.pure, share.rows * sensitivity, dimension),
        square,
    )


def _least(share: Share, pure: Callable[[], Noise], square: int) -> Noise:
    if share.kind == "epsilon":
        return pure()
    gaussian = GaussianNoise(share.mu_squared, share.rows**2 * square)
    return (
        gaussian
        if share.kind == "mu"
        else min(gaussian, pure(), key=lambda noise: noise.error)
    )


def choose(
    source: ByteSource, scores: ArrayLike, share: Share, sensitivity: Fraction | int
) -> int:
    """Choose a candidate, where a row changes one score less another by at most `sensitivity`."""
    # Permute-and-flip makes no more errors than the exponential mechanism at the same epsilon. But the losses of the
    # latter lie in an interval of length epsilon, so in rho and mu it may have about twice the epsilon.
    sensitivity *= share.rows
    if share.kind == "epsilon":
        return permute_and_flip(source, scores, share.amount / sensitivity)
    return exponential_mechanism(source, scores, share.choice / sensitivity)


def choice_name(share: Share) -> str:
    """Return the name of the mechanism of `choose`."""
    return "permute-and-flip" if share.kind == "epsilon" else "exponential mechanism"


def choice_loss(share: Share) -> Loss:
    """Return the loss of `choose`, for a share of epsilon."""
    # Permute-and-flip is defined for all real scores, and with a smaller change of these it is as much more private. So
    # a change of scores can be divided into a chain of any number of links.
    return laplace_loss(share.amount)


def with_delta(share: Share, epsilon: Any, delta: float | None) -> Share:
    """Make a mu of an epsilon that is a number and a delta, if there is one."""
    if delta is None or not check_delta(delta):
        return share
    return read_share(Mu.of(epsilon, delta))


_MOST = 1 << 200
"""Beyond all sums. With a tiny epsilon noise is larger, also than all floats."""


def as_float(number: int | Fraction) -> float:
    """Return a noisy sum, or an error, as a float."""
    return float(min(max(number, -_MOST), _MOST))


def losses_of(noises: Sequence[Noise]) -> tuple[Loss, ...]:
    """Return the losses of the parts of a release that is nothing but numbers with noise."""
    return tuple(noise.loss for noise in noises)


# Cube noise of scale 1 in D dimensions has the density e^-max|z| up to a factor: a mixture of uniform distributions on
# cubes, whose half side R has a gamma distribution of shape D + 1.


def cube_std(dimension: int) -> float:
    """Return the standard deviation of a coordinate of cube noise of scale 1."""
    return math.sqrt((dimension + 1) * (dimension + 2) / 3)


def cube_quantile(level: float, dimension: int, slope: float) -> float:
    """Return a quantile of the absolute value of ``z_1 - slope z_2`` of cube noise of scale 1."""
    # For two uniform numbers on [-1, 1] the combination has a trapezoidal distribution. Its tail is 1 - y up to
    # 1 - slope, and then ``(1 + slope - y)**2 / (4 slope)``: polynomials in reach / R, whose means over R are known.
    shape, longest = dimension + 1, 1 + slope

    def share(power: int, low: float, high: float) -> float:
        # The integral of R**-power over the gamma distribution from low to high.
        factor = math.prod(range(shape - power, shape))
        return (
            float(gammainc(shape - power, high) - gammainc(shape - power, low)) / factor
        )

    def beyond(reach: float) -> float:
        near = reach / (1 - slope) if slope < 1 else math.inf
        tail = (
            share(0, near, math.inf) - reach * share(1, near, math.inf)
            if slope < 1
            else 0.0
        )
        if slope > 0:
            ends = reach / longest, near
            square = (
                longest**2 * share(0, *ends)
                - 2 * longest * reach * share(1, *ends)
                + reach**2 * share(2, *ends)
            )
            tail += square / (4 * slope)
        return tail - (1 - level)

    return float(brentq(beyond, 0, 40 * dimension - 40 * math.log(1 - level)))
