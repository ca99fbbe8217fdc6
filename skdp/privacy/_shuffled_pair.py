"""A proven upper bound of delta after shuffling, for an epsilon, from the classes of two values' reports.

The bound ([1]_, lemma 5.3). Let the report of value x be y with probability P(y | x), and let m be a blanket: m(y) <=
P(y | x) for every x. Each of the n - 1 other records, whatever its value, reports y from the blanket with probability
m(y), and otherwise something else, which is revealed together with the fact that it is not from the blanket. What is
left is the unordered set of the own report and those from the blanket. For a record of value x, and k - 1 others from
the blanket w = m / gamma, gamma = sum m, an ordered list of reports y_1, ..., y_k in which the own one is at a random
place has the probability ``prod w(y_i) * (1 / k) sum_i P(y_i | x) / w(y_i)``. With ``V = (P(y | x0) - t P(y | x1)) /
m(y)`` with probability m(y), and V = 0 otherwise, the hockey-stick divergence of order t is thus, averaged over k,
``delta(t) = E[S+] / n`` with the sum S of n independent V: the factor 1 / k turns n trials into n - 1.

The numbers. ``S -> S+`` is convex and increasing. So V may be replaced by a larger number, or by one of the same
conditional mean, and S by its sum X with Gaussian noise: delta can only grow. Let ``c(y) = E[(X - y)+]``. For z = tau +
i omega with tau > 0, ``integral c(y) e**(z y) dy = E[e**(z X)] / z**2``: the Fourier transform of ``c(y) e**(tau y)``.
By Poisson's summation formula, ``h / (2 pi) sum_k E[e**(z_k X)] / z_k**2`` with z_k = tau + i k h is the sum of ``c(y)
e**(tau y)`` over all multiples y of 2 pi / h: it is at least c(0), as all terms are positive, and hardly more for small
h. The noise makes the terms fall fast, so that a few hundred are enough; the others, and all rounding, are bounded. Tau
is about the saddle point, where terms do not cancel, and so the errors are small as a part of delta.

.. [1] B. Balle, J. Bell, A. Gascón, K. Nissim (2019). The privacy blanket of the shuffle model. CRYPTO.
   arXiv:1903.02837
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

# Probabilities of a class of reports: under the first value, the second one, and (at
# least) under every value.
Class: TypeAlias = tuple[Fraction, Fraction, Fraction]

# More records are counted as this number: fewer hide less.
MAX_RECORDS = 1 << 30

# The standard deviation of the sum over that of the added noise, which changes an epsilon
# by about one part in twice its square.
_PARTS = 48

# Terms end at this number over the standard deviation of the noise; the others are
# below e**-24.
_REACH = 7.0

_UNDERFLOW = 2.0**-900


# About the points of the grid on either axis, of which the logarithms of ratios are
# multiples: three times as many take off a quarter of a percent of an epsilon.
_CELLS = 64

_MAX_WORK = 1 << 25

# Bound of the relative error of a few operations.
_ERROR = 2.0**-47


@dataclass(frozen=True, eq=False)
class Ratios:
    """The ratios of the probabilities of each class under two values to the mass of the blanket, and this mass."""

    # A ratio and a mass are off by at most `error` as a part of it. The ratios of all
    # classes are above 0.

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    masses: NDArray[np.float64]
    error: float = _ERROR

    @classmethod
    def of(cls, classes: tuple[Class, ...]) -> Ratios:
        """Round exact classes."""
        table = [(float(a / m), float(b / m), float(m)) for a, b, m in classes if a]
        first, second, masses = np.array(table).T
        return cls(first, second, masses)

    @classmethod
    def product(cls, parts: Sequence[tuple[Class, ...]]) -> Ratios | None:
        """Return classes that reveal at least as much as independent reports of a record.

        The reports remain linked to each other. None stands for too much work.
        """
        # For a convex function of the ratios (a / m, b / m), a point of the plane may
        # be replaced by points around it with the same mean: here by the corners of a
        # cell of a grid, which is the same for all parts. On it, products of ratios are
        # sums of places. So the mean of each ratio stays what it was, but for rounding.
        ratios = list(map(cls.of, parts))
        lowest_log = highest_log = largest = 0.0
        for part in ratios:
            lowest_log += float(part.logs.min())
            highest_log += float(part.logs.max())
            largest = max(largest, float(np.abs(part.logs).max()))
        if lowest_log == highest_log:
            # Both values are reported alike: any part shows as much as all, nothing.
            return ratios[0]
        # Randomised response has its largest ratio and 1 only: it is on the grid.
        coarsest = (highest_log - lowest_log) / _CELLS
        step = largest / np.ceil(largest / coarsest)
        start = 0
        work = 0
        grid = np.ones((1, 1))
        for part in ratios:
            places, masses = part._on_grid(step)
            first = int(places.min())
            size = len(grid)
            width = size + int(places.max()) - first
            work += width**2 * masses.size
            if work > _MAX_WORK:
                return None
            wider = np.zeros((width, width))
            steps = (places - first).T.tolist()
            for (row, column), mass in zip(steps, masses.tolist(), strict=True):
                wider[row : row + size, column : column + size] += mass * grid
            grid = wider
            start += first
        rows, columns = np.nonzero(grid)
        # Each part adds an error of its own; a rounding error of a logarithm is a
        # relative error of the ratio.
        return cls(
            np.exp((start + rows) * step),
            np.exp((start + columns) * step),
            grid[rows, columns],
            _ERROR * (len(parts) + 1) * (1 + max(highest_log, -lowest_log)),
        )

    @property
    def logs(self) -> NDArray[np.float64]:
        """The logarithms of both ratios: (2, n_classes)."""
        return np.log([self.first, self.second])

    def swapped(self) -> Ratios:
        """Return the ratios with the two values exchanged."""
        return replace(self, first=self.second, second=self.first)

    def _on_grid(self, step: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Split each class among the corners of its cell so that both ratios stay; return places and masses."""
        exact = self.logs / step
        below = np.floor(exact)
        upper = np.clip(np.expm1((exact - below) * step) / np.expm1(step), 0, 1)
        shares = 1 - upper, upper
        places, masses = [], []
        for row, column in itertools.product((0, 1), repeat=2):
            places.append(below + np.array([[row], [column]]))
            masses.append(self.masses * shares[row][0] * shares[column][1])
        corners = np.hstack(places).astype(np.int64)
        cells, where = np.unique(corners, axis=1, return_inverse=True)
        totals = np.zeros(cells.shape[1])
        np.add.at(totals, where.ravel(), np.concatenate(masses))
        return cells[:, totals > 0], totals[totals > 0]


def delta_above(ratios: Ratios, n: int, order: float) -> float:
    """Return an upper bound of the hockey-stick divergence of an order, e**epsilon, of n shuffled reports."""
    n = min(n, MAX_RECORDS)
    # Errors of the ratios, and of the order, are those of an order that is off by as
    # much.
    error = ratios.error + 2.0**-48
    masses = ratios.masses
    values = ratios.first * (1 + error) - order * ratios.second * (1 - error)
    # The divergence of a report that is seen by itself.
    alone = float(masses @ np.maximum(values, 0)) * (1 + 2 * error)
    if alone == 0:
        return 0.0
    scale = float(values.max())
    log_mean = _log_mean_above(values / scale, masses, n, error)
    if log_mean is None:
        return alone
    log_delta = log_mean + math.log(scale / n)
    return min(math.exp(min(log_delta, 0.0)) * (1 + 2.0**-40) + _UNDERFLOW, alone)


@dataclass(frozen=True, eq=False)
class _Line:
    """Points of a line in the complex plane, at which a Fourier integral is summed up."""

    points: NDArray[Any]
    step: float
    # The standard deviation of the normal noise, which lets the integral end.
    noise: float

    @classmethod
    def of(
        cls,
        values: NDArray[np.float64],
        weights: NDArray[np.float64],
        mass_at_0: float,
        n: int,
        tau: float,
    ) -> _Line:
        """Choose the points at the real part tau, for the sum of n values with these tilted weights."""
        # The standard deviation of the tilted sum decides the noise and the step.
        total_weight = float(weights.sum()) + mass_at_0
        mean = float(weights @ values) / total_weight
        variance = max(float(weights @ values**2) / total_weight - mean**2, 0.0)
        spread = math.sqrt(n * variance + 1 / tau**2)
        noise = spread / _PARTS
        step = 2 * math.pi / max(10 * spread, 30 / tau)
        n_steps = math.ceil(_REACH / noise / step)
        return cls(tau + 1j * step * np.arange(n_steps + 1), step, noise)

    @property
    def beyond(self) -> float:
        """A bound of the sum of the terms beyond the last point, by the law of the noise."""
        n_steps = len(self.points) - 1
        beyond = 2 / (self.step * abs(self.points[-1].imag))
        return beyond * math.exp(-((self.noise * self.step * n_steps) ** 2) / 2)


def _log_mean_above(
    values: NDArray[np.float64], masses: NDArray[np.float64], n: int, error: float
) -> float | None:
    """Bound log E[max(S, 0)] from above, for a sum S; None if rounding spoils it."""
    # S is the sum of n independent values of at most 1, which have these masses, and are
    # 0 with what the masses leave of 1; `error` is the relative error of both. A Fourier
    # integral along a line in the complex plane, of S with normal noise, which only
    # increases the mean: the head of this file.
    tau = _saddle(values, masses, n)
    weights = masses * np.exp(tau * values)
    mass_at_0 = max(0.0, 1 - float(masses.sum()) * (1 + 2 * error) - 2.0**-48)
    line = _Line.of(values, weights, mass_at_0, n, tau)
    z = line.points

    excess = _moment_excess(values, masses, weights, z)
    smoothing = (line.noise * z) ** 2 / 2
    exponents = n * np.log1p(excess) + smoothing
    height = float(exponents[0].real)
    # Where all values are 0, the sum is so, and gets no noise.
    log_all_zero = n * math.log(mass_at_0) - height if mass_at_0 else -math.inf
    terms = (np.exp(exponents - height) - np.exp(log_all_zero + smoothing)) / z**2

    # Relative errors of the terms: of the values, which an exponent has times z, and of
    # the exponents.
    slope = n * float(masses @ (np.abs(values) * np.exp(tau * np.maximum(values, 0))))
    errors = (2.0**-48 + 2 * error) * slope * np.abs(z)
    errors = errors + (n + abs(height) + 64) * 2.0**-48
    term_sizes = np.exp((exponents - height).real) / np.abs(z) ** 2

    # Terms of conjugate points are conjugate, and the first point has no other.
    total = 2 * float(terms.real.sum()) - float(terms[0].real)
    total += 4 * float(term_sizes @ errors)
    if not (errors.max() < 0.1 and math.isfinite(total)):
        return None
    return height + math.log(line.step / (2 * math.pi) * (total + line.beyond))


def _moment_excess(
    values: NDArray[np.float64],
    masses: NDArray[np.float64],
    weights: NDArray[np.float64],
    z: NDArray[Any],
) -> NDArray[Any]:
    """Return E[e**(z V)] - 1 of a value V, precise where it is small.

    z are points tau + i b, and weights are masses * e**(tau V).
    """
    # n times its error is that of the exponent. With s and c the sine and cosine of half
    # the angle, e**(a + i b) - 1 = e**a - 1 - 2 e**a s**2 + 2 i e**a s c: several times
    # as fast. The real part a is the same for all z.
    half_angles = np.multiply.outer(values / 2, z.imag)
    sines = np.sin(half_angles)
    real = float(masses @ np.expm1(z[0].real * values)) - 2 * weights @ sines**2
    excess: NDArray[Any] = real + 2j * (weights @ (sines * np.cos(half_angles)))
    return excess


def _saddle(values: NDArray[np.float64], masses: NDArray[np.float64], n: int) -> float:
    """Return about the tau with the least E[e**(tau S)] / tau**2; any would do."""

    def height(log_tau: float) -> float:
        tau = math.exp(log_tau)
        return n * math.log1p(float(masses @ np.expm1(tau * values))) - 2 * log_tau

    # Values are at most 1: beyond, e**tau is above the floats.
    bounds = -40.0, math.log(690.0)
    options = {"xatol": 1e-3}
    best = minimize_scalar(height, bounds=bounds, method="bounded", options=options)
    return math.exp(float(best.x))


@dataclass(frozen=True)
class ReportPair:
    """The reports of two values of a record, in classes, beside what every other record reports at least."""

    # A class holds reports y for which ``P(y | x0) / m(y)`` is the same, and so is
    # ``P(y | x1) / m(y)``: it is the sums of the three over the class. The measure m is
    # the blanket ([1]_): ``0 < m(y) <= P(y | x)`` for every value x. So the first two
    # of all classes add up to 1 each, the third to at most 1. A pair may stand for all
    # pairs of values: `FrequencyOracle.shuffle_pair`.
    # .. [1] B. Balle, J. Bell, A. Gascón, K. Nissim (2019). The privacy blanket of the
    #    shuffle model. CRYPTO.

    classes: tuple[Class, ...]
    # Further independent reports of the record that stay together with this one.
    beside: tuple[ReportPair, ...] = ()

    def __post_init__(self) -> None:
        merged: dict[tuple[Fraction, Fraction], Class] = {}
        for part in self.classes:
            first, second, mass = part
            if min(part) < 0 or (mass == 0 and max(part) > 0):
                raise ValueError(
                    "classes must hold probabilities, and a mass > 0 where these are "
                    "not 0"
                )
            if mass:
                ratios = first / mass, second / mass
                total = merged.get(ratios, (Fraction(0),) * 3)
                merged[ratios] = total[0] + first, total[1] + second, total[2] + mass
        sums = [sum(column) for column in zip(*merged.values(), strict=True)]
        if sums[:2] != [1, 1] or sums[2] > 1:
            raise ValueError(
                "the probabilities of the classes must add up to 1, and the masses to "
                "at most 1"
            )
        object.__setattr__(self, "classes", tuple(merged.values()))

    @property
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of reports under x0 and x1, in that order."""
        ratio = Fraction(1)
        for first, second, _ in self.classes:
            if first and not second:
                raise ValueError("a report has probability 0 under the other value")
            if second:
                ratio = max(ratio, first / second)
        for pair in self.beside:
            ratio *= pair.worst_ratio
        return ratio

    @property
    def largest_ratio(self) -> Fraction:
        """The largest ratio in either order."""
        return max(self.worst_ratio, self.swapped().worst_ratio)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether the two values may be exchanged in each part."""
        mirrored = {(second, first, mass) for first, second, mass in self.classes}
        is_mirrored = set(self.classes) == mirrored
        return is_mirrored and all(pair.is_symmetric for pair in self.beside)

    @cached_property
    def ratios(self) -> Ratios:
        """The classes of all parts together, as floats."""
        if not self.beside:
            return Ratios.of(self.classes)
        parts = [self.classes, *(pair.classes for pair in self.beside)]
        return Ratios.product(parts) or ReportPair.of_any(self.largest_ratio).ratios

    def swapped(self) -> ReportPair:
        """Return the pair with its two values exchanged."""
        classes = tuple((second, first, mass) for first, second, mass in self.classes)
        return ReportPair(classes, tuple(pair.swapped() for pair in self.beside))

    def delta(self, n: int, epsilon: float) -> float:
        """Bound delta of n shuffled reports for an epsilon."""
        order = math.exp(epsilon)
        delta = delta_above(self.ratios, n, order)
        if not self.is_symmetric:
            delta = max(delta, delta_above(self.ratios.swapped(), n, order))
        return delta

    @classmethod
    def of_any(cls, worst_ratio: Fraction) -> ReportPair:
        """Return the pair that is as revealing as any pair of a local randomiser with this worst ratio."""
        # By [1]_, the rows of any two values are mixtures ``(r Q0 + Q1) / (r + 1)`` and
        # ``(Q0 + r Q1) / (r + 1)`` of two distributions. Every other row is at least 1
        # / r times either row, thus 1 / r times their mean: it contains ``(Q0 + Q1) /
        # (2 r)``. To learn from which of Q0 and Q1 the reports are can only help the
        # attacker.
        # .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for
        #    differential privacy. IEEE Transactions on Information Theory 63(6).
        if worst_ratio < 1:
            raise ValueError(
                f"worst_ratio must be at least 1, got {float(worst_ratio)}"
            )
        # Fractional bits of a ratio that is rounded up, as those of many steps of a
        # grid have thousands.
        n_bits = 128
        ratio = Fraction(math.ceil(worst_ratio * 2**n_bits), 2**n_bits)
        mass = 1 / (2 * ratio)
        likely, unlikely = ratio / (ratio + 1), 1 / (ratio + 1)
        return cls(((likely, unlikely, mass), (unlikely, likely, mass)))

    @classmethod
    def of_support(
        cls,
        high: Fraction,
        low: Fraction,
        counts: Sequence[int],
    ) -> ReportPair:
        """Return the pair of an oracle whose reports have one probability for the values they support, else another."""
        # Of reports that support x0 only, x1 only, both and none; the blanket is `low`
        # for all.
        shares = (high, low), (low, high), (high, high), (low, low)
        classes = []
        for (first, second), count in zip(shares, counts, strict=True):
            classes.append((first * count, second * count, low * count))
        return cls(tuple(classes))

    @classmethod
    def product(cls, pairs: Sequence[ReportPair]) -> ReportPair:
        """Return the pair of several independent reports of a record that stay together."""
        # Where they are hundreds, it counts as that of any randomiser with its worst
        # ratio.
        if len(pairs) == 1:
            return pairs[0]
        parts = [part for pair in pairs for part in (cls(pair.classes), *pair.beside)]
        return cls(parts[0].classes, tuple(parts[1:]))

    @classmethod
    def mixed(cls, parts: Iterable[tuple[Fraction, ReportPair]]) -> ReportPair:
        """Return the pair of a report that names which part it is of, drawn independently of the value."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0][1]
        classes = []
        for share, pair in parts:
            if pair.beside:
                raise ValueError("parts must be pairs without others beside them")
            for first, second, mass in pair.classes:
                classes.append((first * share, second * share, mass * share))
        return cls(tuple(classes))
