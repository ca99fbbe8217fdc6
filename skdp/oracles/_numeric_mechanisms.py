"""Mechanisms for numbers on a grid: Laplace noise, the square wave, and distributions from reports."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._base import (
    LocalMechanism,
    capped_epsilon,
    lie_threshold,
    pure_noise,
)
from skdp.privacy import PureLoss, ReportPair, check_epsilon, laplace_loss
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    bernoulli_ratio,
    check_size,
    uniform_integers,
)

Floats = NDArray[np.float64]


class NumericMechanism(LocalMechanism):
    """A local mechanism for one number, given as its position ``0, ..., steps`` on a grid.

    Floating-point noise has gaps that reveal the number ([1]_), so only integers are
    drawn: the probabilities of all reports are exact fractions. Each report has an
    unbiased estimate of the position.

    Attributes
    ----------
    steps : int
        The number of steps of the grid: one less than the number of positions.
    n_reports : int
        The number of reports.
    estimates : list of Fraction
        The unbiased estimate of the position, in steps, for each report.
    worst_ratio : Fraction
        The largest ratio of the probabilities of a report under two positions: the
        achieved ``e**epsilon``.

    Notes
    -----
    **Privacy.** Local model, replacement of the number. `epsilon` is computed from the
    integers that are drawn and rounded up; it never exceeds the request.

    References
    ----------
    .. [1] I. Mironov (2012). On significance of the least significant bits for
       differential privacy. CCS.

    Examples
    --------
    >>> from skdp.oracles import NumericMechanism, Optimal
    >>> issubclass(Optimal, NumericMechanism)
    True
    """

    steps: int
    n_reports: int
    estimates: list[Fraction]

    @abstractmethod
    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]: ...

    @abstractmethod
    def _row(self, position: int) -> list[Fraction]: ...

    def report(
        self, positions: NDArray[np.integer], source: ByteSource
    ) -> NDArray[np.int64]:
        """Randomize positions.

        Parameters
        ----------
        positions : ndarray of integers, shape (n,)
            True positions, ``0 .. steps``.
        source : ByteSource
            Source of the random bytes. The bytes that are read do not depend on the
            positions.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            Reports, ``0 .. n_reports - 1``.

        Raises
        ------
        ValueError
            If a position is outside the grid.
        """
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise ValueError("positions must be a 1-D array of integers")
        if positions.size and (positions.min() < 0 or positions.max() > self.steps):
            raise ValueError(f"positions must be between 0 and {self.steps}")
        return self._draw(positions.astype(np.int64, copy=False), source)

    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each position.

        Returns
        -------
        list of list of Fraction
            One row per position, one column per report: ``(steps + 1) * n_reports``
            fractions, for small grids.
        """
        return [self._row(position) for position in range(self.steps + 1)]

    @abstractmethod
    def variances(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        """Return the variance of the estimate from a report.

        Parameters
        ----------
        positions : ndarray of shape (n,)
            True positions.

        Returns
        -------
        ndarray of shape (n,)
            Variances, in squared steps, symmetric about the middle of the grid.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters with which a server reads the reports.

        Returns
        -------
        dict
            Numbers, texts and lists of them.
        """
        return {"mechanism": type(self).__name__, "grid_size": self.steps}


def check_steps(steps: Any) -> int:
    """Check the number of steps of a grid."""
    return check_size(steps, min_val=1, max_val=1 << 16, name="grid_size")


def round_at_random(scaled: NDArray[np.int64], source: ByteSource) -> NDArray[np.int64]:
    """Round numbers to one of the two neighboring positions at random, without bias.

    The numbers are in units of 2**-16 steps of the grid.
    """
    below = scaled >> 16
    words = source.bytes(2 * scaled.size).view("<u2")
    return below + (words < scaled - (below << 16))


class ClampedLaplace(NumericMechanism):
    """Add discrete Laplace noise to the position, and clamp the sum to the grid.

    The noise d has the probability ``(1 - a) / (1 + a) * a^|d|`` ([1]_). The ratio a is
    a fraction, at least e^(-eps / steps): rounded towards more noise. Every probability
    is therefore a fraction too, and no report is more than a^(-steps) <= e^eps times
    likelier under one position than under another.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    ratio : Fraction
        The exact ratio a.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`.

    Clamping loses nothing for the mean: the distance of the sum beyond an end does not
    depend on the position, as the geometric distribution is memoryless, and a / (1 - a)
    is its mean. The two end reports are therefore estimates of ``-a / (1 - a)`` and
    ``steps + a / (1 - a)``, and every other report of itself, without bias. The
    variance is ``a / (1 - a)^2 * (2 - (a^t + a^(steps - t)) / (1 + a))``, less than the
    ``2 a / (1 - a)^2`` without clamping.

    References
    ----------
    .. [1] A. Ghosh, T. Roughgarden, M. Sundararajan (2012). Universally
       utility-maximizing privacy mechanisms. SIAM J. Comput. 41(6).

    Examples
    --------
    >>> mechanism = ClampedLaplace(2, 2 * math.log(2))
    >>> [[round(float(p), 3) for p in row] for row in mechanism.channel()]
    [[0.667, 0.167, 0.167], [0.333, 0.333, 0.333], [0.167, 0.167, 0.667]]
    >>> [round(float(estimate), 3) for estimate in mechanism.estimates]
    [-1.0, 1.0, 3.0]
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        self.steps = check_steps(steps)
        self.n_reports = self.steps + 1
        # Per step; beyond 50, the difference between e^-50 and 2**-64 is negligible.
        per_step = min(check_epsilon(epsilon) / self.steps, Fraction(50))
        # 64 bits of 1 - a, which is about this large.
        n_bits = 64 + math.ceil(1 / per_step).bit_length()
        numerator = math.ceil((1 << n_bits) / exp_bounds(per_step)[0])
        self.ratio = Fraction(numerator, 1 << n_bits)
        if self.ratio >= 1:
            raise pure_noise(epsilon)

    @cached_property
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report: a number of millions of digits on a fine grid."""
        return (1 / self.ratio) ** self.steps

    @property
    def loss(self) -> PureLoss:
        """The privacy loss of the noise, of which clamping is post-processing."""
        return laplace_loss(Fraction(self.epsilon), self.steps)

    def shuffle_pair(self) -> ReportPair:
        # An upper bound with few digits, because the exact ratio has millions of digits.
        return ReportPair.from_ratio(exp_bounds(Fraction(self.epsilon))[1])

    @cached_property
    def estimates(self) -> list[Fraction]:  # type: ignore[override]
        """The unbiased estimate of the position, in steps, for each report."""
        beyond = self.ratio / (1 - self.ratio)
        inner = map(Fraction, range(1, self.steps))
        return [-beyond, *inner, self.steps + beyond]

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        n = positions.size
        *digits, tail_odds = _odds(self.ratio, (self.steps - 1).bit_length())
        # d = g with probability 1 / (1 + a), otherwise -1 - g, where g is geometric:
        # P(g) = (1 - a) a^g.
        above, below = self.ratio.as_integer_ratio()
        is_negative = bernoulli_ratio(source, above, above + below, n)
        # The binary digits of g are independent: digit i is 1 with the odds a^(2^i) to
        # 1.
        gap = np.zeros(n, np.int64)
        for bit, (above, below) in enumerate(digits):
            digit = bernoulli_ratio(source, above, above + below, n)
            gap += digit.astype(np.int64) << bit
        # The digits above only decide whether g reaches 2**digits >= steps, which is
        # clamped in any case.
        gap[bernoulli_ratio(source, *tail_odds, n)] = self.steps
        noise = np.where(is_negative, -1 - gap, gap)
        return np.clip(positions + noise, 0, self.steps)

    def _row(self, position: int) -> list[Fraction]:
        a = self.ratio
        distances = [abs(report - position) for report in range(1, self.steps)]
        inner = [(1 - a) / (1 + a) * a**distance for distance in distances]
        return [a**position / (1 + a), *inner, a ** (self.steps - position) / (1 + a)]

    def variances(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        a = float(self.ratio)
        clamped = (a**positions + a ** (self.steps - positions)) / (1 + a)
        return a / float(1 - self.ratio) ** 2 * (2 - clamped)


@lru_cache(maxsize=8)
def _odds(ratio: Fraction, squarings: int) -> list[tuple[int, int]]:
    """Return numerator and denominator of ratio, ratio^2, ratio^4, …: long numbers, cached for each draw."""
    odds = [ratio.as_integer_ratio()]
    for _ in range(squarings):
        numerator, denominator = odds[-1]
        odds.append((numerator**2, denominator**2))
    return odds


def square_wave_width(epsilon: float) -> float:
    """Return the width of the window of the square wave mechanism, as a fraction of the range."""
    if epsilon < 1e-3:
        # Limit for small epsilon, where numerator and denominator vanish; the next term
        # is of order epsilon squared.
        return 1 - 2 * epsilon / 3
    decay = math.exp(-epsilon)
    return (epsilon - 1 + decay) * decay / (1 - decay - epsilon * decay)


class SquareWave(NumericMechanism):
    """Report a number in a window at the true position, or any number: the mechanism for distributions.

    This is the square wave mechanism ([1]_): in units of the range, the window has the
    width ``(eps e^eps - e^eps + 1) / (e^eps (e^eps - 1 - eps))``, which maximises the
    information about the distribution. With a window of w reports, there are ``N =
    steps + w`` reports. With probability l the report is uniform among all of them,
    otherwise among the w reports ``t .. t + w - 1``, where t is the true position. A
    report in the window is ``1 + (N / w) (1 - l) / l`` times as likely as any other
    report; this ratio is e^eps, with l rounded up to an integer over 2**64.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    width : int
        The width w of the window, in steps.
    lie : Fraction
        The exact probability l.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`; `epsilon` is finite for any request.

    The middle of the window is as far from the middle ``(N - 1) / 2`` of the reports y
    as the position t is from the middle of the grid: ``E[y] - (N - 1) / 2 = (1 - l) (t
    - steps / 2)``. So ``steps / 2 + (y - (N - 1) / 2) / (1 - l)`` is unbiased.

    References
    ----------
    .. [1] Z. Li et al. (2020). Estimating numerical distributions under local
       differential privacy. SIGMOD.

    Examples
    --------
    >>> SquareWave(1024, 1.0).width
    524
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        self.steps = check_steps(steps)
        capped = capped_epsilon(epsilon)
        width = round(square_wave_width(float(capped)) * steps)
        self.width = max(1, min(width, steps))
        self.n_reports = steps + self.width
        ratio = Fraction(self.n_reports, self.width)
        self._threshold = lie_threshold(capped, ratio)
        self.lie = Fraction(self._threshold, ONE)
        # The probabilities of a report outside of the window, and inside.
        self._outside = self.lie / self.n_reports
        self._inside = self._outside + (1 - self.lie) / self.width

    @cached_property
    def estimates(self) -> list[Fraction]:  # type: ignore[override]
        """The unbiased estimate of the position, in steps, for each report."""
        twice_offsets = range(1 - self.n_reports, 1 + self.n_reports, 2)
        gain = 2 * (1 - self.lie)
        return [Fraction(self.steps, 2) + offset / gain for offset in twice_offsets]

    @property
    def worst_ratio(self) -> Fraction:
        return self._inside / self._outside

    @property
    def variation(self) -> Fraction:
        """A bound of the total variation distance of two positions, of which the windows do not overlap."""
        return 1 - self.lie

    def shuffle_pair(self) -> ReportPair:
        # Two windows that do not overlap are the worst pair.
        n_outside = self.n_reports - 2 * self.width
        counts = (self.width, self.width, 0, n_outside)
        return ReportPair.from_support(self._inside, self._outside, counts)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"width": self.width}

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        # All three numbers are drawn for every record, so that the run time and the
        # number of bytes do not depend on random bits.
        n = positions.size
        is_lie = bernoulli(source, self._threshold, n)
        offsets = uniform_integers(source, self.width, n)
        anywhere = uniform_integers(source, self.n_reports, n)
        return np.where(is_lie, anywhere, positions + offsets)

    def _row(self, position: int) -> list[Fraction]:
        row = [self._outside] * self.n_reports
        row[position : position + self.width] = [self._inside] * self.width
        return row

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distribution of the reports for given distributions of the positions.

        Parameters
        ----------
        weights : ndarray of shape (m, steps + 1)
            Distributions of the position, one per row.

        Returns
        -------
        ndarray of shape (m, n_reports)
            Product of the weights and the channel, in floats.
        """
        # The weight of the positions with a report in their window is a difference of two
        # cumulative sums, which rounding may leave below 0.
        padding = ((0, 0), (self.width, self.width - 1))
        sums = np.cumsum(np.pad(weights, padding), axis=1)
        held = np.maximum(sums[:, self.width :] - sums[:, : -self.width], 0)
        any_place = weights.sum(axis=1, keepdims=True) * float(self._outside)
        return any_place + held * (float(1 - self.lie) / self.width)

    def variances(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        lie = float(self.lie)
        truth = float(1 - self.lie)
        # A uniform report has the variance (N^2 - 1) / 12, a report in the window (w^2 -
        # 1) / 12; the means of the two differ by the offset.
        spread = (lie * (self.n_reports**2 - 1) + truth * (self.width**2 - 1)) / 12
        offset = (positions - self.steps / 2) ** 2
        return spread / truth**2 + offset * (lie / truth)
