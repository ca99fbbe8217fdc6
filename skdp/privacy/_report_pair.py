"""Upper bound of delta after shuffling, from the classes of the reports of two values.

The bound ([1]_, lemma 5.3). Let P(y | x) be the probability that value x is reported as y, and let m be a blanket:
m(y) <= P(y | x) for every x. Each of the n - 1 other records, whatever its value, reports y from the blanket with
probability m(y), and otherwise something else, which is revealed together with the fact that it is not from the
blanket. The attacker then sees the unordered set of the own report and the reports from the blanket. For a record of
value x, and k - 1 other reports from the blanket w = m / gamma, gamma = sum m, an ordered list of reports y_1, ..., y_k
in which the own report is at a random index has the probability ``prod w(y_i) * (1 / k) sum_i P(y_i | x) / w(y_i)``.
With ``V = (P(y | x0) - t P(y | x1)) / m(y)`` with probability m(y), and V = 0 otherwise, the hockey-stick divergence of
order t is thus, averaged over k, ``delta(t) = E[S+] / n`` with the sum S of n independent V: the factor 1 / k turns n
trials into n - 1.

The numbers. ``S -> S+`` is convex and increasing. So V may be replaced by a larger number, or by another one with the
same conditional mean, and S by its sum X with Gaussian noise: delta can only grow. Let ``c(y) = E[(X - y)+]``. For z =
tau + i omega with tau > 0, ``integral c(y) e**(z y) dy = E[e**(z X)] / z**2``: the Fourier transform of ``c(y)
e**(tau y)``. By Poisson's summation formula, ``h / (2 pi) sum_k E[e**(z_k X)] / z_k**2`` with z_k = tau + i k h is the
sum of ``c(y) e**(tau y)`` over all multiples y of 2 pi / h. It is at least c(0), because all terms are positive, and
hardly more for small h. The noise makes the terms fall fast, so a few hundred are sufficient; the other terms and all
rounding are bounded. Tau is near the saddle point, where terms do not cancel, so the errors are small relative to
delta.

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
from scipy.signal import convolve2d

# Probabilities of a class of reports: under the first value, under the second value, and
# (a lower bound) under every value.
Class: TypeAlias = tuple[Fraction, Fraction, Fraction]
Floats: TypeAlias = NDArray[np.float64]

# Bound of the relative error of a few operations.
_ERROR = 2.0**-47


@dataclass(frozen=True, eq=False)
class Ratios:
    """Ratios of the probabilities of each class under two values to the mass of the blanket, and this mass."""

    first: Floats
    second: Floats
    masses: Floats
    # Bound of the relative error of ratios and masses.
    error: float = _ERROR

    @classmethod
    def of(cls, classes: tuple[Class, ...]) -> Ratios:
        """Round exact classes. All ratios must be positive."""
        rows = [(first / m, second / m, m) for first, second, m in classes if first]
        return cls(*np.array(rows, float).T)

    @classmethod
    def product(cls, parts: Sequence[Ratios]) -> Ratios | None:
        """Return ratios that bound independent reports of a record; None if it takes too long."""
        # For a convex function of the ratios (a / m, b / m), a point of the plane may be
        # replaced by points around it with the same mean: here by the corners of a cell
        # of a grid. On the grid of logarithms, products of ratios are sums of indices.
        logs = [np.log([part.first, part.second]) for part in parts]
        lowest = float(sum(log.min() for log in logs))
        highest = float(sum(log.max() for log in logs))
        if lowest == highest:
            return parts[0]  # all reports have the same probability under both values
        # The largest ratio of randomized response is on the grid.
        largest = max(float(np.abs(log).max()) for log in logs)
        # About 64 points per axis: three times as many improve an epsilon by a quarter of
        # a percent.
        step = largest / math.ceil(largest * 64 / (highest - lowest))
        grid = np.ones((1, 1))
        start = 0
        for part in parts:
            cells, first = part._to_grid(step)
            # So many products take less than a second.
            if grid.size * np.count_nonzero(cells) > 1 << 25:
                return None
            grid = convolve2d(grid, cells)
            start += first
        rows, columns = np.nonzero(grid)
        # A rounding error of a logarithm is a relative error of the ratio.
        error = _ERROR * (len(parts) + 1) * (1 + max(highest, -lowest))
        first_ratios = np.exp((start + rows) * step)
        second_ratios = np.exp((start + columns) * step)
        return cls(first_ratios, second_ratios, grid[rows, columns], error)

    def _to_grid(self, step: float) -> tuple[Floats, int]:
        """Split each class among the corners of its cell such that both ratios stay."""
        exact = np.log([self.first, self.second]) / step
        below = np.floor(exact).astype(np.int64)
        upper = np.clip(np.expm1((exact - below) * step) / np.expm1(step), 0, 1)
        first = int(below.min())
        grid = np.zeros((int(below.max()) - first + 2,) * 2)
        for row in (0, 1):
            for column in (0, 1):
                row_share = upper[0] if row else 1 - upper[0]
                column_share = upper[1] if column else 1 - upper[1]
                corners = below[0] - first + row, below[1] - first + column
                np.add.at(grid, corners, self.masses * row_share * column_share)
        return grid, first

    def swap(self) -> Ratios:
        """Exchange the two values."""
        return replace(self, first=self.second, second=self.first)


def delta_above(ratios: Ratios, n: int, order: float) -> float:
    """Return an upper bound of the hockey-stick divergence of an order, e**epsilon, of n shuffled reports."""
    # Amplification increases with n, so this number is a bound for larger ones.
    n = min(n, 1 << 30)
    # An error of the order has the same effect as an error of the ratios.
    error = ratios.error + 2.0**-48
    masses = ratios.masses
    values = ratios.first * (1 + error) - order * ratios.second * (1 - error)
    # The divergence of a single report.
    alone = float(masses @ np.maximum(values, 0)) * (1 + 2 * error)
    if alone == 0:
        return 0.0
    scale = float(values.max())
    log_mean = _log_mean_above(values / scale, masses, n, error)
    if log_mean is None:
        return alone
    log_delta = log_mean + math.log(scale / n)
    # 2**-900 bounds the sum of floats that underflow.
    return min(math.exp(min(log_delta, 0.0)) * (1 + 2.0**-40) + 2.0**-900, alone)


def _log_mean_above(
    values: Floats, masses: Floats, n: int, error: float
) -> float | None:
    """Bound log E[max(S, 0)] from above, for a sum S of n values; None if rounding errors are too large."""
    # The values are at most 1 and have these masses; the value is 0 with the remaining
    # probability. `error` is the relative error of values and masses.
    tau = _saddle(values, masses, n)
    weights = masses * np.exp(tau * values)
    mass_at_0 = max(0.0, 1 - float(masses.sum()) * (1 + 2 * error) - 2.0**-48)

    # The standard deviation of the tilted sum determines the noise and the step.
    total_weight = float(weights.sum()) + mass_at_0
    mean = float(weights @ values) / total_weight
    variance = max(float(weights @ values**2) / total_weight - mean**2, 0.0)
    spread = math.sqrt(n * variance + 1 / tau**2)
    # The noise increases epsilon by about one part in twice the square of this ratio.
    noise = spread / 48
    step = 2 * math.pi / max(10 * spread, 30 / tau)
    # The remaining terms, from 7 over the noise on, are below e**-24.
    n_steps = math.ceil(7.0 / noise / step)
    z = tau + 1j * step * np.arange(n_steps + 1)

    excess = _moment_excess(values, masses, z)
    smoothing = (noise * z) ** 2 / 2
    exponents = n * np.log1p(excess) + smoothing
    height = float(exponents[0].real)
    # If all values are 0, the sum is 0 and gets no noise.
    log_all_zero = n * math.log(mass_at_0) - height if mass_at_0 else -math.inf
    terms = (np.exp(exponents - height) - np.exp(log_all_zero + smoothing)) / z**2

    # Relative errors of the terms: errors of the values, multiplied by z in an exponent,
    # and errors of the exponents.
    slope = n * float(masses @ (np.abs(values) * np.exp(tau * np.maximum(values, 0))))
    errors = (2.0**-48 + 2 * error) * slope * np.abs(z)
    errors = errors + (n + abs(height) + 64) * 2.0**-48
    term_sizes = np.exp((exponents - height).real) / np.abs(z) ** 2

    # Terms of conjugate points are conjugate, and the first point is real.
    total = 2 * float(terms.real.sum()) - float(terms[0].real)
    total += 4 * float(term_sizes @ errors)
    # The remaining terms, by the distribution of the noise.
    remaining = 2 / (step * abs(z[-1].imag))
    remaining *= math.exp(-((noise * step * n_steps) ** 2) / 2)
    if not (errors.max() < 0.1 and math.isfinite(total)):
        return None
    return height + math.log(step / (2 * math.pi) * (total + remaining))


def _moment_excess(values: Floats, masses: Floats, z: NDArray[Any]) -> NDArray[Any]:
    """Return E[e**(z V)] - 1 of a value V, precise where it is small, for points z with one real part."""
    # With s and c the sine and cosine of half the angle, e**(a + i b) - 1 = e**a - 1 - 2
    # e**a s**2 + 2 i e**a s c: several times as fast as complex exponentials.
    tau = z[0].real
    weights = masses * np.exp(tau * values)
    half_angles = np.multiply.outer(values / 2, z.imag)
    sines = np.sin(half_angles)
    real = float(masses @ np.expm1(tau * values)) - 2 * weights @ sines**2
    excess: NDArray[Any] = real + 2j * (weights @ (sines * np.cos(half_angles)))
    return excess


def _saddle(values: Floats, masses: Floats, n: int) -> float:
    """Return the approximate tau with the smallest E[e**(tau S)] / tau**2. Any tau gives a bound."""

    def height(log_tau: float) -> float:
        tau = math.exp(log_tau)
        return n * math.log1p(float(masses @ np.expm1(tau * values))) - 2 * log_tau

    # Values are at most 1. Beyond the bounds, e**tau is not a float.
    bounds = -40.0, math.log(690.0)
    options = {"xatol": 1e-3}
    best = minimize_scalar(height, bounds=bounds, method="bounded", options=options)
    return math.exp(float(best.x))


@dataclass(frozen=True)
class ReportPair:
    """The reports of two values of a record, in classes, with a common lower bound (the blanket)."""

    # A class contains reports y with equal ``P(y | x0) / m(y)`` and equal ``P(y | x1) / m(y)``: it stores the sums of
    # ``P(y | x0)``, ``P(y | x1)`` and ``m(y)`` over the class. The measure m is the blanket: ``0 < m(y) <= P(y | x)``
    # for every value x. So the first two sums add up to 1 over all classes, and the third to at most 1. A pair may
    # stand for all pairs of values: see `FrequencyOracle.shuffle_pair`.

    classes: tuple[Class, ...]
    # Other independent reports of the record that are released with this report.
    beside: tuple[ReportPair, ...] = ()

    def __post_init__(self) -> None:
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
            if not (first and second):
                raise ValueError("a report has probability 0 under one of the values")
            ratio = max(ratio, first / second, second / first)
        return ratio * math.prod(pair.largest_ratio for pair in self.beside)

    @cached_property
    def is_symmetric(self) -> bool:
        """Check if the two values may be exchanged in each part."""
        is_mirrored = set(self.classes) == set(self.swapped().classes)
        return is_mirrored and all(pair.is_symmetric for pair in self.beside)

    @cached_property
    def ratios(self) -> Ratios:
        """The classes of all parts together, as floats."""
        parts = [Ratios.of(pair.classes) for pair in (self, *self.beside)]
        if len(parts) == 1:
            return parts[0]
        return Ratios.product(parts) or ReportPair.from_ratio(self.largest_ratio).ratios

    def swapped(self) -> ReportPair:
        """Return the pair with its two values exchanged."""
        classes = tuple((second, first, mass) for first, second, mass in self.classes)
        return ReportPair(classes, tuple(pair.swapped() for pair in self.beside))

    def delta(self, n: int, epsilon: float) -> float:
        """Bound delta of n shuffled reports for an epsilon."""
        order = math.exp(epsilon)
        delta = delta_above(self.ratios, n, order)
        if self.is_symmetric:
            return delta
        return max(delta, delta_above(self.ratios.swap(), n, order))

    @classmethod
    def from_ratio(cls, worst_ratio: Fraction) -> ReportPair:
        """Return the pair that reveals as much as any pair of a local randomizer with this worst ratio."""
        # By [1]_, the rows of any two values are mixtures ``(r Q0 + Q1) / (r + 1)`` and
        # ``(Q0 + r Q1) / (r + 1)`` of two distributions. Every other row is at least 1
        # / r times either row, thus 1 / r times their mean: it contains ``(Q0 + Q1) /
        # (2 r)``. To learn from which of Q0 and Q1 the reports are can only help the
        # attacker.
        # .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for
        #    differential privacy. IEEE Transactions on Information Theory 63(6).
        if worst_ratio < 1:
            raise ValueError(f"worst_ratio must be >= 1, got {float(worst_ratio)}")
        # Rounded up to 128 fractional bits, because products of many parts have more.
        ratio = Fraction(math.ceil(worst_ratio * 2**128), 2**128)
        mass = 1 / (2 * ratio)
        likely, unlikely = ratio / (ratio + 1), 1 / (ratio + 1)
        return cls(((likely, unlikely, mass), (unlikely, likely, mass)))

    @classmethod
    def from_support(
        cls, high: Fraction, low: Fraction, counts: Sequence[int]
    ) -> ReportPair:
        """Return the pair of an oracle whose reports have one probability for supported values, else another."""
        # Numbers of reports that support x0 only, x1 only, both and none. The blanket is
        # `low` for all.
        probabilities = (high, low), (low, high), (high, high), (low, low)
        classes = []
        for (first, second), count in zip(probabilities, counts, strict=True):
            classes.append((first * count, second * count, low * count))
        return cls(tuple(classes))

    @classmethod
    def product(cls, pairs: Sequence[ReportPair]) -> ReportPair:
        """Return the pair of several independent reports of a record that are released together."""
        if len(pairs) == 1:
            return pairs[0]
        parts = [part for pair in pairs for part in (cls(pair.classes), *pair.beside)]
        return cls(parts[0].classes, tuple(parts[1:]))

    @classmethod
    def mixture(cls, parts: Iterable[tuple[Fraction, ReportPair]]) -> ReportPair:
        """Return the pair of a report that names its part, which is drawn independently of the value."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0][1]
        classes: list[Any] = []
        for probability, pair in parts:
            if pair.beside:
                raise ValueError("parts must be pairs without further reports")
            for one in pair.classes:
                classes.append(tuple(probability * number for number in one))
        return cls(tuple(classes))
