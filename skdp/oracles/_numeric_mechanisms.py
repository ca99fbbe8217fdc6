"""Mechanisms for numbers on a grid: their base class, and the square wave."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Bytes, Floats, Integers
from skdp.oracles._oracle import (
    LocalMechanism,
    cap_epsilon,
    encode_integers,
    lie_threshold,
)
from skdp.privacy import ReportPair
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    check_size,
    draw_by_row,
    uniform_integers,
)


class NumericMechanism(LocalMechanism):
    """Local mechanism for one number, given as its position ``0, ..., steps`` on a grid.

    Only integers are drawn, and the probabilities of all reports are exact fractions,
    because floating-point noise has gaps that reveal the number ([1]_). Each report has
    an unbiased estimate of the position.

    Attributes
    ----------
    steps : int
        Number of steps of the grid: one less than the number of positions.
    n_reports : int
        Number of distinct reports.
    estimates : list of Fraction of length n_reports
        Unbiased estimate of the position, in steps, for each report.
    worst_ratio : Fraction
        Largest ratio of the probabilities of a report under two positions: the achieved
        ``e**epsilon``.

    Notes
    -----
    **Privacy.** Local model, replacement of the number. `epsilon` is computed from the
    exact probabilities and rounded up, and never exceeds the request.

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
    def _draw(self, positions: Integers, source: ByteSource) -> Integers:
        """Randomize checked positions."""

    @abstractmethod
    def _compute_row(self, position: int) -> list[Fraction]:
        """Compute the probability of each report given a position."""

    def report(self, positions: NDArray[np.integer], source: ByteSource) -> Integers:
        """Randomize positions.

        Parameters
        ----------
        positions : ndarray of integers, shape (n,)
            True positions, from 0 to `steps`.
        source : ByteSource
            Source of the random bytes. Their number does not depend on the positions.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            Reports, from 0 to ``n_reports - 1``.

        Raises
        ------
        ValueError
            If a position is outside the grid.
        """
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise ValueError(
                "`positions` must be a 1-D array of integers, got shape "
                f"{positions.shape} ({positions.dtype})."
            )
        if positions.size and (positions.min() < 0 or positions.max() > self.steps):
            raise ValueError(f"`positions` must be integers from 0 to {self.steps}.")
        return self._draw(positions.astype(np.int64, copy=False), source)

    @staticmethod
    def round_at_random(scaled: Integers, source: ByteSource) -> Integers:
        """Round numbers at random to a neighboring position, so that the expectation is unchanged.

        Parameters
        ----------
        scaled : ndarray of int64
            Numbers in units of 2**-16 steps of the grid.
        source : ByteSource
            Source of the random bytes.

        Returns
        -------
        ndarray of int64
            Positions.
        """
        # The position above is drawn with the probability of the remaining fraction of a
        # step: a random word of 16 bits is below the fraction.
        below = scaled >> 16
        words = source.bytes(2 * scaled.size).view("<u2")
        return below + (words < scaled - (below << 16))

    def report_keyed(self, scaled: Integers, digests: Callable[..., Bytes]) -> Integers:
        """Draw permanent reports, whose random bits are keyed digests of the records.

        Parameters
        ----------
        scaled : ndarray of int64
            Numbers in units of 2**-16 steps of the grid.
        digests : callable
            See `FrequencyOracle.report_keyed`.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            Reports.
        """
        # The bits that round a number depend on the record and the column only, so all
        # numbers in one of `steps` + 1 intervals have the same position and report (Ding,
        # Kulkarni, Yekhanin 2017, Collecting telemetry data privately, section 4). With
        # new bits, an unchanged number would finally be reported from both neighboring
        # positions, with twice the loss.
        positions = draw_by_row(self.round_at_random, digests("rounding"), scaled)
        report_digests = digests("report", encode_integers(positions))
        return draw_by_row(self.report, report_digests, positions)

    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each position.

        Returns
        -------
        list of list of Fraction
            One row per position, one column per report. Use small grids only, because
            there are ``(steps + 1) * n_reports`` fractions.
        """
        return [self._compute_row(position) for position in range(self.steps + 1)]

    @abstractmethod
    def variances(self, positions: NDArray[Any]) -> Floats:
        """Return the variance of the estimate from a report.

        Parameters
        ----------
        positions : ndarray of shape (n,)
            True positions.

        Returns
        -------
        ndarray of shape (n,)
            Variances in squared steps. They are symmetric about the middle of the grid.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on which client and server must agree.

        Returns
        -------
        dict
            Text, numbers and lists.
        """
        return {"mechanism": type(self).__name__, "grid_size": self.steps}


def check_steps(steps: Any) -> int:
    """Check the number of steps of a grid, from 1 to 2**16."""
    return check_size(steps, min_val=1, max_val=1 << 16, name="grid_size")


def square_wave_width(epsilon: float) -> float:
    """Return the width of the window of the square wave mechanism, as a fraction of the range.

    It is ``(eps e^eps - e^eps + 1) / (e^eps (e^eps - 1 - eps))`` (Li et al. 2020).
    """
    if epsilon < 1e-3:
        # Numerator and denominator vanish. This is the Taylor expansion of the quotient
        # to first order.
        return 1 - 2 * epsilon / 3
    # Both multiplied by e^(-2 eps), so that nothing overflows.
    decay = math.exp(-epsilon)
    return (epsilon - 1 + decay) * decay / (1 - decay - epsilon * decay)


class SquareWave(NumericMechanism):
    """Square wave mechanism: report a number near the true position, or any number.

    It is the mechanism for the estimation of distributions ([1]_). A window of w reports
    starts at the true position t, and there are ``N = steps + w`` reports. With
    probability l, the report is uniform among all reports; otherwise, it is uniform
    among the w reports ``t, ..., t + w - 1``. The width of the window maximizes the
    mutual information of position and report. A report in the window is ``1 + (N / w) (1
    - l) / l = e^eps`` times as likely as any other report.

    Parameters
    ----------
    steps : int
        Number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0.

    Attributes
    ----------
    width : int
        Width w of the window, in steps.
    lie : Fraction
        Exact probability l, rounded up to a multiple of 2**-64.

    Notes
    -----
    **Privacy.** See `NumericMechanism`. `epsilon` is finite for any request.

    The distance of the middle of the window from the middle ``(N - 1) / 2`` of all
    reports is the distance ``t - steps / 2`` of the position from the middle of the grid.
    So the mean report is ``E[y] = (N - 1) / 2 + (1 - l) (t - steps / 2)``, and ``steps /
    2 + (y - (N - 1) / 2) / (1 - l)`` is an unbiased estimate of t.

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
        # A report is an integer. With probability `lie` it is uniform among all
        # `n_reports` integers, and otherwise uniform in the window of `width` integers
        # around the position.
        self.steps = check_steps(steps)
        capped = cap_epsilon(epsilon)
        width = round(square_wave_width(float(capped)) * steps)
        self.width = max(1, min(width, steps))
        self.n_reports = steps + self.width
        ratio = Fraction(self.n_reports, self.width)
        self._uniform_threshold = lie_threshold(capped, ratio)
        self.lie = Fraction(self._uniform_threshold, ONE)
        # The probabilities of one report outside the window, and of one inside it.
        self._outside = self.lie / self.n_reports
        self._inside = self._outside + (1 - self.lie) / self.width

    @cached_property
    def estimates(self) -> list[Fraction]:  # type: ignore[override]
        """Unbiased estimate of the position, in steps, for each report."""
        # 2 y - (N - 1) for the reports y = 0, ..., N - 1.
        twice_offsets = range(1 - self.n_reports, 1 + self.n_reports, 2)
        gain = 2 * (1 - self.lie)
        return [Fraction(self.steps, 2) + offset / gain for offset in twice_offsets]

    @property
    def worst_ratio(self) -> Fraction:
        return self._inside / self._outside

    @property
    def variation(self) -> Fraction:
        """Upper bound of the total variation distance, attained if two windows do not overlap."""
        return 1 - self.lie

    def shuffle_pair(self) -> ReportPair:
        # Positions whose windows do not overlap are the worst pair. The counts are reports
        # in the first window only, in the second window only, in both, and in neither.
        n_outside = self.n_reports - 2 * self.width
        counts = (self.width, self.width, 0, n_outside)
        return ReportPair.from_support(self._inside, self._outside, counts)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"width": self.width}

    def _draw(self, positions: Integers, source: ByteSource) -> Integers:
        """Draw a report for each position: uniform with probability `lie`, otherwise in the window of the position."""
        # All three numbers are drawn for each record, so that the run time and the number
        # of bytes do not depend on random bits.
        n = positions.size
        is_uniform = bernoulli(source, self._uniform_threshold, n)
        offsets = uniform_integers(source, self.width, n)
        uniform_reports = uniform_integers(source, self.n_reports, n)
        return np.where(is_uniform, uniform_reports, positions + offsets)

    def _compute_row(self, position: int) -> list[Fraction]:
        """Return the exact probability of each report at a position, at whose number the window begins."""
        row = [self._outside] * self.n_reports
        row[position : position + self.width] = [self._inside] * self.width
        return row

    def report_distribution(self, position_weights: Floats) -> Floats:
        """Compute the distribution of the reports from distributions of the position.

        Parameters
        ----------
        position_weights : ndarray of shape (m, steps + 1)
            Distributions of the position, one per row.

        Returns
        -------
        ndarray of shape (m, n_reports)
            Matrix product of `position_weights` and the channel.
        """
        # A report y is in the windows of the positions y - w + 1 to y. The sum of their
        # weights is a difference of two cumulative sums, whose rounding errors may be
        # negative.
        padding = ((0, 0), (self.width, self.width - 1))
        sums = np.cumsum(np.pad(position_weights, padding), axis=1)
        in_window = np.maximum(sums[:, self.width :] - sums[:, : -self.width], 0)
        uniform = position_weights.sum(axis=1, keepdims=True) * float(self._outside)
        return uniform + in_window * (float(1 - self.lie) / self.width)

    def variances(self, positions: NDArray[Any]) -> Floats:
        # Variance of the estimate at each position t, in squared steps, for N reports,
        # a window of w reports, and a uniform report with probability l.
        # The law of total variance for a mixture with weights l and 1 - l. A uniform
        # report has the variance (N^2 - 1) / 12, and a report in the window (w^2 - 1) /
        # 12. The means of the two differ by t - steps / 2. Estimates divide by 1 - l.
        lie = float(self.lie)
        gain = float(1 - self.lie)
        within = (lie * (self.n_reports**2 - 1) + gain * (self.width**2 - 1)) / 12
        squared_offset = (positions - self.steps / 2) ** 2
        return within / gain**2 + squared_offset * (lie / gain)
