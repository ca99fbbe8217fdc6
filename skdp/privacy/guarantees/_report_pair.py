"""Upper bound of delta after shuffling, from the classes of the reports of two values.

**The bound** ([1]_, lemma 5.3). Let P(y | x) be the probability that value x is reported as y. A blanket is a measure m
with m(y) <= P(y | x) for every x. So each of the n - 1 other records, whatever its value, reports y from the blanket
with probability m(y), and otherwise another report, which may be revealed to the attacker. The attacker sees the
unordered set of the report of the target record and the k - 1 reports from the blanket. Let gamma = sum m and
w = m / gamma. If the target has value x and its report is at a random position, a list y_1, ..., y_k has probability
``prod w(y_i) * (1 / k) sum_i P(y_i | x) / w(y_i)``. Let ``V = (P(y | x0) - t P(y | x1)) / m(y)`` with probability m(y),
and V = 0 with the remaining probability. Averaged over k, the hockey-stick divergence of order t is then
``delta(t) = E[max(S, 0)] / n``, where S is the sum of n independent copies of V. (The binomial weight of k - 1 of n - 1
records, times 1 / k, is the weight of k of n records, divided by n gamma.)

**The numbers.** max(S, 0) is a convex and increasing function of S. So delta can only increase if V is replaced by a
larger number, or by a random number with the conditional mean V, and S by its sum X with Gaussian noise of mean 0. Let
``c(y) = E[max(X - y, 0)]``. For z = tau + i omega with tau > 0, ``integral c(y) e**(z y) dy = E[e**(z X)] / z**2``. By
Poisson's summation formula, ``h / (2 pi) sum_k E[e**(z_k X)] / z_k**2`` with z_k = tau + i k h is the sum of
``c(y) e**(tau y)`` over all multiples y of 2 pi / h. It is at least c(0), because all terms are positive, and hardly
more for a small h. Because of the noise, a few hundred terms are sufficient; the other terms and all rounding errors
are bounded. Tau is near the saddle point, where the terms do not cancel, so these errors are small relative to delta.

.. [1] B. Balle, J. Bell, A. Gascón, K. Nissim (2019). The privacy blanket of the shuffle model. CRYPTO.
   arXiv:1903.02837
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from skdp._arrays import Floats

# Probabilities of a class of reports: under the first value, under the second value, and
# (a lower bound) under every value.
Class: TypeAlias = tuple[Fraction, Fraction, Fraction]

# Bound of the relative error of a few operations.
_ERROR = 2.0**-47


@dataclass(frozen=True, eq=False)
class Ratios:
    """The classes of reports of two values as floats, for the bound.

    All arrays have shape (n_classes,). `first` is P(y | x0) / m(y), `second` is
    P(y | x1) / m(y), and `masses` is m(y).
    """

    first: Floats
    second: Floats
    masses: Floats
    # Bound of the relative error of ratios and masses.
    error: float = _ERROR

    @classmethod
    def from_classes(cls, classes: tuple[Class, ...]) -> Ratios:
        """Return the ratios of exact classes, rounded to floats."""
        rows = [(first / m, second / m, m) for first, second, m in classes if first]
        return cls(*np.array(rows, float).T)

    @classmethod
    def product(cls, parts: Sequence[Ratios]) -> Ratios | None:
        """Return an upper bound of several independent reports of a record; None if it takes too long.

        `parts` are the classes of each report. The ratios of the joint report are the
        products of the ratios of its parts, and its mass is the product of their
        masses.
        """
        # The divergence is a convex function of the pair of ratios. So it can only increase
        # if a pair is replaced by random pairs with this mean: here by the corners of a
        # cell of a grid. The grid is even in the logarithms of the ratios, so products of
        # ratios are sums of indices, and joint masses are convolutions.
        logs = [np.log([part.first, part.second]) for part in parts]
        lowest = float(sum(log.min() for log in logs))
        highest = float(sum(log.max() for log in logs))
        if lowest == highest:
            return parts[0]  # all reports have the same probability under both values
        # The largest ratio of a part is a multiple of the step, so it is on the grid.
        largest = max(float(np.abs(log).max()) for log in logs)
        # About 64 points per axis. Three times as many decrease epsilon by 0.25 %.
        step = largest / math.ceil(largest * 64 / (highest - lowest))
        grid = np.ones((1, 1))
        start = 0
        for part in parts:
            cells, first = part._to_grid(step)
            # A convolution with so many products takes about a second.
            if grid.size * np.count_nonzero(cells) > 1 << 25:
                return None
            grid = _convolve(grid, cells)
            start += first
        rows, columns = np.nonzero(grid)
        # An absolute error of a logarithm is a relative error of the ratio.
        error = _ERROR * (len(parts) + 1) * (1 + max(highest, -lowest))
        first_ratios = np.exp((start + rows) * step)
        second_ratios = np.exp((start + columns) * step)
        return cls(first_ratios, second_ratios, grid[rows, columns], error)

    def _to_grid(self, step: float) -> tuple[Floats, int]:
        """Distribute each class to the corners of its grid cell such that the means of both ratios are preserved.

        The rows and columns of the grid are multiples of `step` in the logarithms of
        both ratios. Returns the masses of the grid, and the index of its first row and
        column.
        """
        exact = np.log([self.first, self.second]) / step
        below = np.floor(exact).astype(np.int64)
        upper = np.clip(np.expm1((exact - below) * step) / np.expm1(step), 0, 1)
        first = int(below.min())
        grid = np.zeros((int(below.max()) - first + 2,) * 2)
        for row in (0, 1):
            for column in (0, 1):
                row_weight = upper[0] if row else 1 - upper[0]
                column_weight = upper[1] if column else 1 - upper[1]
                corners = below[0] - first + row, below[1] - first + column
                np.add.at(grid, corners, self.masses * row_weight * column_weight)
        return grid, first

    def swap(self) -> Ratios:
        """Return the ratios with the two values exchanged."""
        return replace(self, first=self.second, second=self.first)


def _convolve(grid: Floats, cells: Floats) -> Floats:
    """Return the masses of the sums of two independent positions, whose masses are `grid` and `cells`."""
    # `scipy.signal` would be a fifth of the import time of all encoders.
    n_rows, n_columns = grid.shape
    total = np.zeros((n_rows + len(cells) - 1, n_columns + cells.shape[1] - 1))
    for row, column in np.argwhere(cells):
        part = total[row : row + n_rows, column : column + n_columns]
        part += cells[row, column] * grid
    return total


def delta_above(ratios: Ratios, n: int, order: float) -> float:
    """Return an upper bound of delta of n shuffled reports for epsilon: the divergence of order t = e**epsilon.

    `ratios` are the classes of a report under two values, and `order` is t.
    """
    # Delta decreases with n, so the bound for 2**30 reports holds for larger numbers.
    n = min(n, 1 << 30)
    # A relative error of the order has the effect of a relative error of the ratios.
    error = ratios.error + 2.0**-48
    masses = ratios.masses
    values = ratios.first * (1 + error) - order * ratios.second * (1 - error)
    # The divergence of a single report without shuffling, which is also an upper bound.
    unshuffled = float(masses @ np.maximum(values, 0)) * (1 + 2 * error)
    if unshuffled == 0:
        return 0.0
    scale = float(values.max())
    log_mean = _log_mean_above(values / scale, masses, n, error)
    if log_mean is None:
        return unshuffled
    log_delta = log_mean + math.log(scale / n)
    # 2**-900 is above the sum of all floats that underflow.
    return min(math.exp(min(log_delta, 0.0)) * (1 + 2.0**-40) + 2.0**-900, unshuffled)


def _log_mean_above(
    values: Floats, masses: Floats, n: int, error: float
) -> float | None:
    """Return an upper bound of log E[max(S, 0)], where S is the sum of n independent V.

    V takes each of the `values`, at most 1, with the probability in `masses`, and 0
    with the remaining probability. `error` bounds the relative errors of values and
    masses. Let X be S with Gaussian noise of mean 0, which can only increase the mean
    of a convex function, so E[max(X, 0)] is a bound. It is at most the sum of h / (2
    pi) E[e**(z X)] / z**2 over z = tau + i k h for all integers k, a discretized
    inverse Laplace transform, which is derived at the top of this module. Only k >= 0
    is computed, because -k has the conjugate term; None is returned if rounding errors
    are too large.
    """
    tau = _saddle(values, masses, n)
    weights = masses * np.exp(tau * values)
    mass_at_0 = max(0.0, 1 - float(masses.sum()) * (1 + 2 * error) - 2.0**-48)

    # The standard deviation of S under the weights e**(tau V), with 1 / tau for the factor
    # 1 / z**2, determines the noise and the step h.
    total_weight = float(weights.sum()) + mass_at_0
    mean = float(weights @ values) / total_weight
    variance = max(float(weights @ values**2) / total_weight - mean**2, 0.0)
    tilted_std = math.sqrt(n * variance + 1 / tau**2)
    # Any noise and any step h give a bound; these numbers make it tight. The noise increases
    # the variance of S by one part in 48**2, so epsilon by about half of this part. The sum
    # over k has the terms c(y) e**(tau y) of all multiples y of the period 2 pi / h. Under the
    # weights, S is beyond half of 10 standard deviations with a probability of about e**-12.5,
    # and e**(tau y) is at most e**-30 for a negative y. For 2 to 10**7 reports, a period of 4
    # standard deviations would increase delta by up to 0.3 %, and no 30 / tau by 0.04 %.
    noise = tilted_std / 48
    step = 2 * math.pi / max(10 * tilted_std, 30 / tau)
    # The factor e**(-(noise omega)**2 / 2) is below e**-24 from omega = 7 / noise on.
    n_steps = math.ceil(7.0 / noise / step)
    z = tau + 1j * step * np.arange(n_steps + 1)

    excess = _moment_excess(values, masses, z)
    smoothing = (noise * z) ** 2 / 2
    exponents = n * np.log1p(excess) + smoothing
    log_scale = float(exponents[0].real)
    # If all V are 0, then S is 0 and max(S, 0) needs no noise, so this case is subtracted.
    log_all_zero = n * math.log(mass_at_0) - log_scale if mass_at_0 else -math.inf
    terms = (np.exp(exponents - log_scale) - np.exp(log_all_zero + smoothing)) / z**2

    # Relative errors of the terms, from the errors of the values, which are multiplied by z
    # in an exponent, and from rounding of the exponents: a sum of n equal logarithms, a
    # difference of `log_scale`, and fewer than 64 other operations, each with 2**-53.
    slope = n * float(masses @ (np.abs(values) * np.exp(tau * np.maximum(values, 0))))
    errors = (2.0**-48 + 2 * error) * slope * np.abs(z)
    errors = errors + (n + abs(log_scale) + 64) * 2.0**-48
    term_sizes = np.exp((exponents - log_scale).real) / np.abs(z) ** 2

    # The terms at tau - i omega and tau + i omega are conjugate, so their sum is real.
    total = 2 * float(terms.real.sum()) - float(terms[0].real)
    # An error d < 0.1 of an exponent changes a term by less than 1.06 d, and each term has a
    # conjugate: 2.12, rounded up. The second part of a term is too small by more than its own
    # errors, because `mass_at_0` is.
    total += 4 * float(term_sizes @ errors)
    # Bound of the remaining terms, relative to the largest term.
    remaining = 2 / (step * abs(z[-1].imag))
    remaining *= math.exp(-((noise * step * n_steps) ** 2) / 2)
    if not (errors.max() < 0.1 and math.isfinite(total)):
        return None
    return log_scale + math.log(step / (2 * math.pi) * (total + remaining))


def _moment_excess(values: Floats, masses: Floats, z: NDArray[Any]) -> NDArray[Any]:
    """Return E[e**(z V)] - 1 for each point z, without cancellation; all z have the same real part."""
    # With s = sin(b / 2) and c = cos(b / 2), e**(a + i b) - 1 = (e**a - 1) - 2 e**a s**2 +
    # 2 i e**a s c, which is several times as fast as complex exponentials.
    tau = z[0].real
    weights = masses * np.exp(tau * values)
    half_angles = np.multiply.outer(values / 2, z.imag)
    sines = np.sin(half_angles)
    real = float(masses @ np.expm1(tau * values)) - 2 * weights @ sines**2
    return real + 2j * (weights @ (sines * np.cos(half_angles)))


def _saddle(values: Floats, masses: Floats, n: int) -> float:
    """Return the approximate tau that minimizes E[e**(tau S)] / tau**2.

    S is the sum of n independent draws from `values` with the probabilities `masses`, and 0 otherwise.

    Any tau gives a valid bound, and this one gives small rounding errors.
    """

    def log_moment(log_tau: float) -> float:
        tau = math.exp(log_tau)
        return n * math.log1p(float(masses @ np.expm1(tau * values))) - 2 * log_tau

    # Values are at most 1, and e**690 is a float.
    bounds = -40.0, math.log(690.0)
    options = {"xatol": 1e-3}
    best = minimize_scalar(log_moment, bounds=bounds, method="bounded", options=options)
    return math.exp(float(best.x))


@dataclass(frozen=True)
class ReportPair:
    """The distributions of the reports of two values x0 and x1 of a record, with a blanket m.

    A class contains all reports y with equal ratios ``P(y | x0) / m(y)`` and
    ``P(y | x1) / m(y)``. It is stored as the sums of ``P(y | x0)``, ``P(y | x1)`` and
    ``m(y)`` over its reports. The blanket has ``0 < m(y) <= P(y | x)`` for every value x.
    """

    # Over all classes, the first two sums add up to 1, and the third to at most 1. A pair
    # may stand for all pairs of values, see `FrequencyOracle.shuffle_pair`.

    classes: tuple[Class, ...]
    # Other independent reports of the record that are released with this report.
    beside: tuple[ReportPair, ...] = ()

    def __post_init__(self) -> None:
        # Merge the classes of reports with equal ratios, which are equally informative.
        merged: dict[tuple[Fraction, Fraction], Class] = {}
        for first, second, mass in self.classes:
            if mass:
                ratios = first / mass, second / mass
                a, b, m = merged.get(ratios, (Fraction(0),) * 3)
                merged[ratios] = a + first, b + second, m + mass
        object.__setattr__(self, "classes", tuple(merged.values()))

    @property
    def largest_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report under the two values."""
        ratio = Fraction(1)
        for first, second, _ in self.classes:
            # A report that is impossible under one of the values divides by 0.
            ratio = max(ratio, first / second, second / first)
        return ratio * math.prod(pair.largest_ratio for pair in self.beside)

    @cached_property
    def is_symmetric(self) -> bool:
        """True if the pair with exchanged values has the same classes."""
        swapped = {(second, first, mass) for first, second, mass in self.classes}
        is_mirrored = swapped == set(self.classes)
        return is_mirrored and all(pair.is_symmetric for pair in self.beside)

    @cached_property
    def ratios(self) -> Ratios:
        """The classes of the joint report of all parts, as floats."""
        parts = [Ratios.from_classes(pair.classes) for pair in (self, *self.beside)]
        if len(parts) == 1:
            return parts[0]
        return Ratios.product(parts) or ReportPair.from_ratio(self.largest_ratio).ratios

    def delta(self, n: int, epsilon: float) -> float:
        """Return an upper bound of delta of n shuffled reports for an epsilon, in both directions."""
        order = math.exp(epsilon)
        delta = delta_above(self.ratios, n, order)
        if self.is_symmetric:
            return delta
        return max(delta, delta_above(self.ratios.swap(), n, order))

    @classmethod
    def from_ratio(cls, worst_ratio: Fraction) -> ReportPair:
        """Return a pair that dominates all pairs of values of a local randomizer with epsilon ``log(worst_ratio)``."""
        # Let r be the ratio. By [1]_, the distributions of two values are mixtures ``(r Q0
        # + Q1) / (r + 1)`` and ``(Q0 + r Q1) / (r + 1)`` of two distributions. The
        # distribution of every other value is at least 1 / r times each of them, so at
        # least 1 / r times their mean: ``(Q0 + Q1) / (2 r)`` is a blanket. The bound
        # assumes that the attacker sees from which of Q0 and Q1 a report is drawn.
        # .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for
        #    differential privacy. IEEE Transactions on Information Theory 63(6).
        # Rounded up to 128 fractional bits, because products of many fractions are long.
        ratio = Fraction(math.ceil(worst_ratio * 2**128), 2**128)
        mass = 1 / (2 * ratio)
        likely, unlikely = ratio / (ratio + 1), 1 / (ratio + 1)
        return cls(((likely, unlikely, mass), (unlikely, likely, mass)))

    @classmethod
    def from_support(
        cls, high: Fraction, low: Fraction, counts: Sequence[int]
    ) -> ReportPair:
        """Return the pair of an oracle with two probabilities of a report.

        A report has probability `high` under the values that it supports, and `low` under
        all other values. `counts` are the numbers of reports that support x0 only, x1
        only, both and none of them.
        """
        # The blanket of each report is `low`.
        probabilities = (high, low), (low, high), (high, high), (low, low)
        classes = []
        for (first, second), count in zip(probabilities, counts, strict=True):
            classes.append((first * count, second * count, low * count))
        return cls(tuple(classes))

    @classmethod
    def product(cls, pairs: Sequence[ReportPair]) -> ReportPair:
        """Return the pair of the joint report that consists of several independent reports of a record."""
        if len(pairs) == 1:
            return pairs[0]
        parts = [part for pair in pairs for part in (cls(pair.classes), *pair.beside)]
        return cls(parts[0].classes, tuple(parts[1:]))

    @classmethod
    def mixture(cls, parts: Iterable[tuple[Fraction, ReportPair]]) -> ReportPair:
        """Return the pair of a report that contains the name of its randomizer.

        The randomizer is drawn with the given probabilities, independently of the value.
        """
        parts = list(parts)
        if len(parts) == 1:
            return parts[0][1]
        classes: list[Any] = []
        for probability, pair in parts:
            if pair.beside:
                raise ValueError("`parts` must be pairs without further reports.")
            for masses in pair.classes:
                classes.append(tuple(probability * mass for mass in masses))
        return cls(tuple(classes))
