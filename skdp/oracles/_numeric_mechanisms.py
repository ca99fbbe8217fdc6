"""Mechanisms for numbers: a grid, a finite set of reports, estimates; Laplace noise, and windows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.optimize import nnls

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.oracles._base import capped_epsilon, lie_threshold, pure_noise
from skdp.pages import warn
from skdp.privacy import LaplaceLoss, PureLoss, ReportPair, check_epsilon
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    bernoulli_ratio,
    check_size,
    uniform_integers,
)

# The tolerated distance from the largest log-likelihood of all reports.
TOLERANCE = 1e-3

# The most steps; some ten are enough.
_NEWTON_STEPS = 100

# The part of a Newton step below which an iterative Bayesian update is taken instead.
_LEAST_REACH = 1e-6

Floats = NDArray[np.float64]


def likeliest_frequencies(likelihoods: Floats, repeats: NDArray[Any]) -> Floats:
    """Return the frequencies of maximum likelihood, up to `TOLERANCE`."""
    # The log-likelihood is concave, so its slopes bound the distance from its maximum:
    # with the mixture m of each report, no frequencies have one larger by more than ``n
    # (max_x mean(likelihood_x / m) - 1)``. Each Newton step is the solution of a
    # quadratic problem with the constraints of frequencies ([1]_).
    # .. [1] Y. Wang (2007). On fast computation of the non-parametric maximum
    #    likelihood estimate of a mixing distribution. Journal of the Royal Statistical
    #    Society B 69(2).
    n_values = likelihoods.shape[1]
    start = np.full(n_values, 1 / n_values)
    frequencies, missing = _climb(likelihoods, repeats, start)
    if missing > TOLERANCE:
        warn(
            "the maximum likelihood was not reached: "
            f"the log-likelihood may be up to {missing:.2g} too small",
            RuntimeWarning,
            about="guide/numbers",
            stacklevel=2,
        )
    return frequencies


def extrapolate(start: Floats, first: Floats, second: Floats) -> Floats:
    """Return frequencies extrapolated from two updates."""
    step, bend = first - start, second - 2 * first + start
    stretch = float(np.sqrt((step @ step) / max(float(bend @ bend), 1e-300)))
    further = start + 2 * stretch * step + stretch**2 * bend
    further = np.where(further > 0, further, second / 1000)
    return further / further.sum()


def _slopes(
    likelihoods: Floats, repeats: NDArray[Any], mixture: Floats
) -> tuple[Floats, float]:
    """Return the slopes, whose mean under the frequencies is 1, and the bound of the distance."""
    n = float(repeats.sum())
    slopes = (repeats / mixture) @ likelihoods / n
    return slopes, n * (float(slopes.max()) - 1)


def _score(repeats: NDArray[Any], mixture: Floats) -> float:
    return float(repeats @ np.log(mixture)) if mixture.min() > 0 else -math.inf


def _climb(
    likelihoods: Floats, repeats: NDArray[Any], frequencies: Floats
) -> tuple[Floats, float]:
    """Take Newton steps within the simplex up to the tolerance; also return the bound of the distance."""
    roots = np.sqrt(repeats)[:, np.newaxis]
    n = float(repeats.sum())
    for _ in range(_NEWTON_STEPS):
        mixture = likelihoods @ frequencies
        slopes, missing = _slopes(likelihoods, repeats, mixture)
        if missing <= TOLERANCE:
            break
        # -log(x / m) is (x / m - 2)**2 / 2 to second order; on the simplex, 2 is 2
        # times the sum of the frequencies.
        design = roots * (likelihoods / mixture[:, np.newaxis] - 2)
        step = _smallest(design) - frequencies
        gain = n * float(slopes @ step)
        reach = _step_length(repeats, mixture, likelihoods @ step, gain)
        moved = frequencies + reach * step
        if gain <= 0 or reach <= _LEAST_REACH:
            moved = frequencies * slopes
        moved = np.maximum(moved, 0)
        frequencies = moved / moved.sum()
    return frequencies, _slopes(likelihoods, repeats, likelihoods @ frequencies)[1]


def _step_length(
    repeats: NDArray[Any], mixture: Floats, change: Floats, gain: float
) -> float:
    """Halve a step until the score rises by a part of what its slope promises."""
    score = _score(repeats, mixture)
    reach = 1.0
    while reach > _LEAST_REACH:
        if _score(repeats, mixture + reach * change) >= score + reach * gain / 1000:
            break
        reach /= 2
    return reach


def _smallest(design: Floats) -> Floats:
    """Return the frequencies f with the least ``|design f|``, from non-negative least squares."""
    if design.shape[0] > design.shape[1]:
        design = qr(design, mode="r", check_finite=False)[0][: design.shape[1]]
    # One more row for the constraint that frequencies add up, of the size of the
    # others.
    size = float(np.linalg.norm(design, axis=0).min())
    rows = np.vstack([design, np.full(design.shape[1], size)])
    frequencies = nnls(rows, np.append(np.zeros(len(design)), size))[0]
    return frequencies / frequencies.sum()


# The unit of the probability with which a number is rounded to one of two positions.
SUBSTEPS = 1 << 16

# The number of steps of the finest grid.
MAX_STEPS = 1 << 16


class NumericMechanism(ABC):
    """A local mechanism for one number, given as its position ``0, ..., steps`` on a grid.

    >>> from skdp.oracles import NumericMechanism, Optimal
    >>> issubclass(Optimal, NumericMechanism)
    True

    Floating-point noise has gaps that reveal the number ([1]_), so only integers are
    drawn: there are finitely many positions and reports, and the probability of each
    report and the worst ratio of two of them are exact fractions. Each report has an
    unbiased estimate of the position.

    Attributes
    ----------
    steps : int
        The number of steps of the grid: one less than the number of positions.
    n_reports : int
        The number of reports.
    worst_ratio : Fraction
        The largest ratio of the probabilities of a report under two positions:
        ``e**epsilon`` as achieved.

    Notes
    -----
    **Privacy.** Local model, replacement of the number. `epsilon` is computed from the
    integers that are drawn and rounded up; it never exceeds the request.

    References
    ----------
    .. [1] I. Mironov (2012). On significance of the least significant bits for
       differential privacy. CCS.
    """

    steps: int
    n_reports: int
    worst_ratio: Fraction

    @abstractmethod
    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]: ...

    @abstractmethod
    def _row(self, position: int) -> list[Fraction]: ...

    @property
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report."""
        return [Fraction(*quotient) for quotient in self.quotients]

    @property
    @abstractmethod
    def quotients(self) -> list[tuple[int, int]]:  # numpydoc ignore=RT01
        """The estimates as numerators and denominators, which need not be the least: quicker than fractions."""

    @cached_property
    def epsilon(self) -> float:  # numpydoc ignore=RT01
        """The achieved privacy loss: the logarithm of `worst_ratio`, rounded up."""
        return log_upper(self.worst_ratio)

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """A bound of the largest total variation distance of the reports of two positions."""
        return (self.worst_ratio - 1) / (self.worst_ratio + 1)

    @property
    def loss(self) -> PureLoss | LaplaceLoss:  # numpydoc ignore=RT01
        """The privacy loss of a report, which dominates that of all pairs of positions."""
        ratio = self.worst_ratio
        if ratio == 1:
            return PureLoss(self.epsilon, 1.0)
        share = min(Fraction(1), self.variation * (ratio + 1) / (ratio - 1))
        return PureLoss(self.epsilon, round_up(share))

    def shuffle_pair(self) -> ReportPair:
        """Return the reports of the two positions that shuffling protects least, in classes.

        Returns
        -------
        ReportPair
            As of `FrequencyOracle.shuffle_pair`; by default those of the worst
            randomiser with this `worst_ratio`.
        """
        return ReportPair.of_any(self.worst_ratio)

    def report(
        self, positions: NDArray[np.integer], source: ByteSource
    ) -> NDArray[np.int64]:
        """Randomise positions.

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
    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distribution of the reports for given distributions of the positions.

        Parameters
        ----------
        weights : ndarray of shape (m, steps + 1)
            Distributions of the position, one per row.

        Returns
        -------
        ndarray of shape (m, n_reports)
            The product of the weights and the channel, in floats; the channel is not
            held in memory.
        """

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
        """Return what a server must know to read the reports.

        Returns
        -------
        dict
            Numbers, texts and lists of them.
        """
        return {"mechanism": type(self).__name__, "grid_size": self.steps}


def mean_error(mechanism: NumericMechanism, inclusion: float = 1.0) -> float:
    """Return n times the mean squared error of a mean, in squared ranges, if a share of n records report, at random."""
    # For numbers that are uniform over the grid. The error is the mean variance of a
    # report over the share, plus (1 / share - 1) times the variance of the true
    # numbers.
    positions = np.arange(mechanism.steps + 1)
    noise = mechanism.variances(positions).mean() / inclusion
    sampling = (1 / inclusion - 1) * positions.var()
    return float((noise + sampling) / mechanism.steps**2)


def check_steps(steps: Any) -> int:
    """Check the number of steps of a grid."""
    return check_size(steps, least=1, most=MAX_STEPS, name="grid_size")


def round_at_random(scaled: NDArray[np.int64], source: ByteSource) -> NDArray[np.int64]:
    """Round numbers to one of the two neighbouring positions at random, without bias."""
    below = scaled >> 16
    words = source.bytes(2 * scaled.size).view("<u2")
    return below + (words < scaled - (below << 16))


def bin_positions(steps: int, n_bins: int) -> NDArray[np.float64]:
    """Return the distribution over the positions of numbers uniform over a bin, after `round_at_random`."""
    edges = np.arange(n_bins + 1)[:, np.newaxis] * (steps / n_bins)
    # A number at distance d from a position goes there with probability 1 - |d|: this
    # is the integral over d.
    distance = np.clip(edges - np.arange(steps + 1), -1, 1)
    integral = 0.5 + distance - np.sign(distance) * distance**2 / 2
    return np.diff(integral, axis=0) * (n_bins / steps)


def _smoothed_update(
    likelihoods: NDArray[np.float64],
    repeats: NDArray[np.integer],
    frequencies: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Update by the likelihood, and average neighbours with the weights 1, 2, 1."""
    slopes = (repeats / (likelihoods @ frequencies)) @ likelihoods
    updated = frequencies * slopes
    averaged = 2 * updated
    averaged[0] += updated[0]
    averaged[1:] += updated[:-1]
    averaged[:-1] += updated[1:]
    averaged[-1] += updated[-1]
    return averaged / averaged.sum()


def estimate_frequencies(
    channel: NDArray[np.float64], counts: NDArray[np.integer], *, smooth: bool
) -> NDArray[np.float64]:
    """Estimate a distribution from reports by maximum likelihood, or smoothed ("EMS", [1]_)."""
    # .. [1] Z. Li et al. (2020). Estimating numerical distributions under local
    #    differential privacy. SIGMOD.
    is_reported = counts > 0
    likelihoods = np.ascontiguousarray(channel[:, is_reported].T)
    repeats = counts[is_reported]
    if not smooth:
        return likeliest_frequencies(likelihoods, repeats)
    frequencies = np.full(len(channel), 1 / len(channel))
    # The most updates of a smoothed estimate, if it does not come to rest before.
    max_rounds = 3_000
    # The sum of changes of the frequencies below which updates stop.
    still = 1e-6
    for _ in range(max_rounds):
        first = _smoothed_update(likelihoods, repeats, frequencies)
        change = np.abs(first - frequencies).sum()
        if change < still:
            break
        second = _smoothed_update(likelihoods, repeats, first)
        further = extrapolate(frequencies, first, second)
        updated = _smoothed_update(likelihoods, repeats, further)
        # An extrapolation that moves on more than a plain update did is not trusted.
        is_stable = np.abs(updated - further).sum() <= change
        frequencies = updated if is_stable else second
    return frequencies


class ClampedLaplace(NumericMechanism):
    """Add discrete Laplace noise to the position, and clamp the sum to the grid.

    >>> mechanism = ClampedLaplace(2, 2 * math.log(2))
    >>> [[round(float(share), 3) for share in row] for row in mechanism.channel()]
    [[0.667, 0.167, 0.167], [0.333, 0.333, 0.333], [0.167, 0.167, 0.667]]
    >>> [round(float(estimate), 3) for estimate in mechanism.estimates]
    [-1.0, 1.0, 3.0]

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
    def worst_ratio(self) -> Fraction:  # type: ignore[override]  # numpydoc ignore=RT01
        """The largest ratio of the probabilities of a report: a number of millions of digits on a fine grid."""
        return (1 / self.ratio) ** self.steps

    @property
    def loss(self) -> LaplaceLoss:  # numpydoc ignore=RT01
        """The privacy loss of the noise, of which clamping is post-processing."""
        return LaplaceLoss(self.epsilon, self.steps)

    def shuffle_pair(self) -> ReportPair:
        # The squarings that give the power are rounded up to fractions of few digits.
        power = Fraction(1)
        # Fractional bits of a ratio that is rounded up, as its exact form has millions.
        n_bits = 256
        for bit in format(self.steps, "b"):
            square = power * power
            if bit == "1":
                square /= self.ratio
            power = Fraction(math.ceil(square * (1 << n_bits)), 1 << n_bits)
        return ReportPair.of_any(power)

    @property
    def quotients(self) -> list[tuple[int, int]]:
        beyond = self.ratio / (1 - self.ratio)
        lower = (-beyond).as_integer_ratio()
        upper = (self.steps + beyond).as_integer_ratio()
        return [lower, *((report, 1) for report in range(1, self.steps)), upper]

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
        for place, (above, below) in enumerate(digits):
            digit = bernoulli_ratio(source, above, above + below, n)
            gap += digit.astype(np.int64) << place
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

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        # Takes a tenth of the time in which skdp is imported.
        from scipy.signal import lfilter

        a = float(self.ratio)
        # Sums of a^|t - y| over the positions t on either side of a report y.
        below = lfilter([1.0], [1.0, -a], weights, axis=1)
        above = lfilter([1.0], [1.0, -a], weights[:, ::-1], axis=1)[:, ::-1]
        spread: NDArray[np.float64] = below + above - weights
        spread *= float(1 - self.ratio) / (1 + a)
        spread[:, 0] = above[:, 0] / (1 + a)
        spread[:, -1] = below[:, -1] / (1 + a)
        return spread

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


# Parts of the range: widths and periods of windows are whole numbers of them.
BINS = 32
# Weights are multiples of 1 / 64.
WEIGHTS = 64

Periodic = tuple[tuple[int, int, int], ...]

# By 2 log2(epsilon): the width of the window that does not repeat, and period, width
# and weight of those that do. The solutions of ``benchmarks/_windows_program.py``, of
# which the error of a mixture between two of them is up to 1.3 % larger, and up to 6 %
# at either end.
_MIXTURES: dict[int, tuple[int, Periodic]] = {
    -4: (16, ((11, 5, 3), (12, 6, 2), (16, 6, 3), (16, 7, 7))),
    -3: (16, ((9, 4, 2), (11, 5, 5), (16, 6, 10), (16, 7, 1))),
    -2: (16, ((9, 4, 2), (11, 5, 5), (16, 5, 6), (16, 6, 5))),
    -1: (15, ((7, 3, 2), (9, 4, 3), (12, 5, 5), (16, 5, 10))),
    0: (12, ((9, 3, 3), (11, 4, 5), (13, 4, 6), (16, 5, 5))),
    1: (10, ((8, 2, 4), (10, 2, 5), (11, 3, 4), (13, 3, 5))),
    2: (7, ((7, 1, 3), (8, 2, 2), (13, 2, 4), (16, 2, 5))),
    3: (4, ((13, 1, 2), (14, 1, 3), (15, 1, 4), (16, 1, 4))),
}


def square_wave_width(epsilon: float) -> float:
    """Return the width of the window of the square wave mechanism, as a share of the range."""
    if epsilon < 1e-3:
        # Numerator and denominator vanish; the next term is of order epsilon squared.
        return 1 - 2 * epsilon / 3
    decay = math.exp(-epsilon)
    return (epsilon - 1 + decay) * decay / (1 - decay - epsilon * decay)


class Windows(NumericMechanism):
    """Report a place in a window at the true position, or in one that repeats: the mechanisms for distributions.

    >>> mechanism = Windows(1024, 1.0)
    >>> mechanism.width, mechanism.periodic
    (384, ((288, 96, 3), (352, 128, 5), (416, 128, 6), (512, 160, 5)))
    >>> Windows(1024, 1.0, repeating=False).width
    524

    A report of a single window is a place in a window that begins at the position, or
    with some probability any place. This is the square wave mechanism ([1]_): in units
    of the range, the window has the width ``(eps e^eps - e^eps + 1) / (e^eps (e^eps - 1
    - eps))``, which maximises the information about the distribution.

    A window says roughly where the position is. A window that repeats says where it is
    within a period, such as a third of the range, and so distinguishes positions that
    are near each other. Each record uses one of up to five windows, drawn without
    looking at the position; the report shows which. Widths, periods and weights are a
    table, the solutions of a convex program at a few epsilons: they make the expected
    squared error of the distribution function least, over a public family of shapes,
    for 5,000 reports and the best linear estimate. The square wave and randomised
    response on bins are among the mixtures. Above ``epsilon = 3.36`` the square wave is
    the only one.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    repeating : bool, default=True
        Whether there may be windows that repeat. False: the square wave mechanism.

    Attributes
    ----------
    width : int
        The width of the window that does not repeat, in steps.
    periodic : tuple of (int, int, int)
        The windows that repeat: period and width in steps, and weight in 64ths.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`; `epsilon` is finite for any request. Each
    window is private, so every mixture by weights that do not depend on the position
    is.

    A report of a window that repeats comes with a random sign, and stands for the
    middle of the grid plus or minus a number of its own: on average for the middle,
    whatever the position. The reports of the other window are scaled, so that the mean
    over all is the position.

    References
    ----------
    .. [1] Z. Li et al. (2020). Estimating numerical distributions under local
       differential privacy. SIGMOD.
    """

    def __init__(
        self, steps: int, epsilon: float | Fraction, *, repeating: bool = True
    ) -> None:
        self.steps = check_steps(steps)
        capped = capped_epsilon(epsilon)
        width_bins: float = square_wave_width(float(capped)) * BINS
        repeated: Periodic = ()
        half_octave = round(2 * math.log2(max(float(capped), 1 / 4)))
        if repeating and half_octave in _MIXTURES:
            width_bins, repeated = _MIXTURES[half_octave]
        self.width = max(1, min(round(width_bins * steps / BINS), steps))
        # The places of the window that does not repeat are one more period: from no
        # position does it reach the end.
        self._line = _Window(capped, steps + self.width, self.width)
        self._circles = []
        self.periodic: Periodic = ()
        for period_bins, narrow_bins, weight in repeated:
            period = period_bins * steps // BINS
            width = narrow_bins * steps // BINS
            # On a coarse grid, windows that are too small are left out.
            if 0 < width < period <= steps:
                self._circles.append(_Window(capped, period, width))
                self.periodic += ((period, width, weight),)
        weights = [weight for _, _, weight in self.periodic]
        self._weights = [WEIGHTS - sum(weights), *weights]
        windows = [self._line, *self._circles]
        shares = [Fraction(weight, WEIGHTS) for weight in self._weights]
        self._parts = list(zip(shares, windows, strict=True))
        self.worst_ratio = max(window.worst_ratio for window in windows)
        n_signed = sum(window.n_places for window in self._circles)
        self.n_reports = self._line.n_places + 2 * n_signed

    # The middle of the window on the line is as far from the middle (N - 1) / 2 of its
    # N reports y as the position t is from that of the grid: with the probability l of
    # any place, ``E[y] - (N - 1) / 2 = (1 - l) (t - steps / 2)``. So ``steps / 2 + gap
    # * (y - (N - 1) / 2)`` is unbiased, where the gap is 1 / (1 - l) over the weight of
    # this window.

    @property
    def _gap(self) -> Fraction:
        """The distance of the estimates from two neighbouring reports of the window that does not repeat."""
        return Fraction(WEIGHTS, self._weights[0]) / (1 - self._line.lie)

    @property
    def quotients(self) -> list[tuple[int, int]]:  # numpydoc ignore=RT01
        """The estimates as numerators and denominators."""
        p, q = self._gap.as_integer_ratio()
        n = self._line.n_places
        twice_offsets = range(1 - n, 1 + n, 2)
        quotients = [(self.steps * q + twice * p, 2 * q) for twice in twice_offsets]
        middle = Fraction(self.steps, 2)
        for offset in chain.from_iterable(self._offsets()):
            quotients.append((middle - offset).as_integer_ratio())
            quotients.append((middle + offset).as_integer_ratio())
        return quotients

    def _offsets(self) -> list[list[Fraction]]:
        """Return what the reports of each repeating window add to the middle, or subtract: no two the same."""
        # The other reports are whole or half gaps from the middle; each window that
        # repeats has a fraction of its own.
        gap = self._gap
        n_fractions = 2 * (len(self._circles) + 1)
        offsets = []
        for number, window in enumerate(self._circles, start=1):
            first = Fraction(number, n_fractions) - window.n_places // 2
            offsets.append([gap * (first + place) for place in range(window.n_places)])
        return offsets

    @property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """A bound of the total variation distance of two positions: that of windows that do not overlap."""
        parts = [share * (1 - window.lie) for share, window in self._parts]
        return sum(parts, Fraction(0))

    def shuffle_pair(self) -> ReportPair:
        # Windows that do not overlap are the most spread pair of each part: the report
        # shows which part it is of.
        pairs = []
        for share, window in self._parts:
            n_outside = window.n_places - 2 * window.width
            counts = (window.width, window.width, 0, n_outside)
            pairs.append(
                (share, ReportPair.of_support(window.inside, window.outside, counts))
            )
        return ReportPair.mixed(pairs)

    def parameters(self) -> dict[str, Any]:
        periodic = [list(window) for window in self.periodic]
        return super().parameters() | {"width": self.width, "periodic": periodic}

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        if not self._circles:
            return self._line.draw(positions, source)
        # All windows are drawn for every record, so that the random bits of a record do
        # not depend on another's.
        drawn = uniform_integers(source, WEIGHTS, positions.size)
        reports = self._line.draw(positions, source)
        first_report = self._line.n_places
        first_weight = self._weights[0]
        for window, weight in zip(self._circles, self._weights[1:], strict=True):
            places = window.draw(positions, source)
            signs = uniform_integers(source, 2, positions.size)
            own_reports = first_report + 2 * places + signs
            reports = np.where(drawn >= first_weight, own_reports, reports)
            first_report += 2 * window.n_places
            first_weight += weight
        return reports

    def _row(self, position: int) -> list[Fraction]:
        row = []
        for share, window in self._parts:
            n_signs = 1 if window is self._line else 2
            for probability in window.row(position):
                row += [share / n_signs * probability] * n_signs
        return row

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = []
        for share, window in self._parts:
            n_signs = 1 if window is self._line else 2
            places = np.repeat(window.spread(weights), n_signs, axis=1)
            parts.append(places * (float(share) / n_signs))
        return np.hstack(parts)

    def variances(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        line = self._line
        share = self._weights[0] / WEIGHTS
        lie = float(line.lie)
        truth = float(1 - line.lie)
        # The variance of a place is (N^2 - 1) / 12 if it is any, (w^2 - 1) / 12 in the
        # window, and that of the mean.
        spread = (lie * (line.n_places**2 - 1) + truth * (self.width**2 - 1)) / 12
        offset = (positions - self.steps / 2) ** 2
        variances = (spread / truth**2 + offset * (lie / truth)) / share
        variances += offset * (1 / share - 1)
        grid = np.arange(self.steps + 1)
        parts = zip(self._offsets(), self._parts[1:], strict=True)
        for offsets, (part_share, window) in parts:
            squares = window.means(np.array(offsets, float) ** 2)
            squares_on_grid = squares[grid % window.n_places]
            variances += float(part_share) * np.interp(positions, grid, squares_on_grid)
        return variances


class _Window:
    """A window on a circle: a report is any place with probability l, otherwise one of the window at the position."""

    # There are N places. With probability l a report is uniform over all of them,
    # otherwise over the w places ``t .. t + w - 1`` modulo N, where t is the position.
    # One of these is ``1 + (N / w) (1 - l) / l`` times likelier than any other, which
    # is e^eps in integers, with l rounded up: finite for any request.

    def __init__(self, epsilon: Fraction, n_places: int, width: int) -> None:
        self.n_places, self.width = n_places, width
        self._threshold = lie_threshold(epsilon, Fraction(n_places, width))
        self.lie = Fraction(self._threshold, ONE)
        self.worst_ratio = 1 + Fraction(n_places, width) * (1 - self.lie) / self.lie
        self.outside = self.lie / n_places
        """The probability of each place outside of the window."""
        self.inside = self.outside + (1 - self.lie) / width

    def draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        """Randomise positions."""
        # All three are drawn for every record, so that neither time nor bytes depend on
        # the random bits of another.
        n = positions.size
        is_lie = bernoulli(source, self._threshold, n)
        offsets = uniform_integers(source, self.width, n)
        window_places = (positions + offsets) % self.n_places
        anywhere = uniform_integers(source, self.n_places, n)
        return np.where(is_lie, anywhere, window_places)

    def row(self, position: int) -> list[Fraction]:
        """Return the probability of each place."""
        row = [self.outside] * self.n_places
        for offset in range(self.width):
            row[(position + offset) % self.n_places] = self.inside
        return row

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distribution of the places, of shape (m, n_places)."""
        n_rows = len(weights)
        padding = -weights.shape[1] % self.n_places
        padded = np.pad(weights, ((0, 0), (0, padding)))
        folded = padded.reshape(n_rows, -1, self.n_places).sum(axis=1)
        # The weight of the positions whose window holds a place is a difference of two
        # cumulative sums, which rounding may leave below 0.
        last_places = folded[:, self.n_places - self.width :]
        sums = np.cumsum(np.hstack([last_places, folded]), axis=1)
        held = np.maximum(sums[:, self.width :] - sums[:, : -self.width], 0)
        any_place = weights.sum(axis=1, keepdims=True) * float(self.outside)
        return any_place + held * (float(1 - self.lie) / self.width)

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of values of the places, given each position modulo `n_places`."""
        cyclic = np.append(values, values[: self.width - 1])
        window_means = np.lib.stride_tricks.sliding_window_view(
            cyclic, self.width
        ).mean(axis=1)
        return float(self.lie) * values.mean() + float(1 - self.lie) * window_means
