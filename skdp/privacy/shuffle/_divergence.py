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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

# Probabilities of a class of reports: under the first value, the second one, and (at
# least) under every value.
Class: TypeAlias = tuple[Fraction, Fraction, Fraction]

# Values and their masses.
Law: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]

# More records are counted as this number: fewer hide less.
MOST_RECORDS = 1 << 30

# The standard deviation of the sum over that of the added noise: usually, for many
# values, and for few records. It changes an epsilon by about one part in twice its
# square.
_PARTS, _FEW_PARTS, _MOST_PARTS = 48, 32, 160

# Terms end at this number over the standard deviation of the noise; the others are
# below e**-24.
_REACH = 7.0

_MANY_VALUES, _MOST_VALUES = 1 << 6, 1 << 10
# Of the values that are merged, the number for each factor of e.
_PER_E = 40

_UNDERFLOW = 2.0**-900


# About the points of the grid on either axis, of which the logarithms of ratios are
# multiples.
_CELLS = 192

_MOST_WORK = 1 << 25

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
        """Return classes that reveal at least as much as parts that stay together; None if it takes long."""
        # For a convex function of the ratios (a / m, b / m), a point of the plane may
        # be replaced by points around it with the same mean: here by the corners of a
        # cell of a grid, which is the same for all parts. On it, products of ratios are
        # sums of places. So the mean of each ratio stays what it was, but for rounding.
        ratios = {part: cls.of(part) for part in parts}
        logs = [ratios[part].logs for part in parts]
        least = sum(float(log.min()) for log in logs)
        most = sum(float(log.max()) for log in logs)
        largest = max(float(np.abs(log).max()) for log in logs)
        if least == most:
            return cls.of(parts[0])
        # Randomised response has its largest ratio and 1 only: it is on the grid.
        step = largest / np.ceil(largest / ((most - least) / _CELLS))
        on_grid = {part: ratios[part]._on_grid(step) for part in ratios}
        cells = [on_grid[part] for part in parts]
        reaches = [int(places.max() - places.min()) for places, _ in cells]
        widths = 1 + np.cumsum(reaches)
        if sum(widths**2 * [masses.size for _, masses in cells]) > _MOST_WORK:
            return None

        grid = np.ones((1, 1))
        for (places, masses), reach in zip(cells, reaches, strict=True):
            size = len(grid)
            wider = np.zeros((size + reach, size + reach))
            steps = (places - places.min()).T.tolist()
            for (row, column), mass in zip(steps, masses.tolist(), strict=True):
                wider[row : row + size, column : column + size] += mass * grid
            grid = wider
        start = sum(int(places.min()) for places, _ in cells)
        rows, columns = np.nonzero(grid)
        # Each part adds an error of its own; a rounding error of a logarithm is a
        # relative error of the ratio.
        return cls(
            np.exp((start + rows) * step),
            np.exp((start + columns) * step),
            grid[rows, columns],
            _ERROR * (len(parts) + 1) * (1 + max(most, -least)),
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
    n = min(n, MOST_RECORDS)
    # Errors of the ratios, and of the order, are those of an order that is off by as
    # much.
    error = ratios.error + 2.0**-48
    masses = ratios.masses
    values = ratios.first * (1 + error) - order * ratios.second * (1 - error)
    # The divergence of a report that is seen by itself.
    alone = float(masses @ np.maximum(values, 0)) * (1 + 2 * error)
    if alone == 0:
        return 0.0
    if values.size > _MOST_VALUES:
        values, masses = _merged(values, masses)
    scale = float(values.max())
    values = values / scale
    tau = _saddle(values, masses, n)

    # The standard deviation of the tilted sum decides the noise and the step.
    tilted = masses * np.exp(tau * values)
    no_value = max(0.0, 1 - float(masses.sum()) * (1 + 2 * error) - 2.0**-48)
    share = float(tilted.sum()) + no_value
    mean = float(tilted @ values) / share
    variance = max(float(tilted @ values**2) / share - mean**2, 0.0)
    spread = math.sqrt(n * variance + 1 / tau**2)
    parts = min(max(_PARTS, (1 << 18) / n), _MOST_PARTS)
    if values.size > _MANY_VALUES:
        parts = _FEW_PARTS
    noise = spread / parts
    step = 2 * math.pi / max(10 * spread, 30 / tau)
    n_steps = math.ceil(_REACH / noise / step)
    z = tau + 1j * step * np.arange(n_steps + 1)

    # E[e**(z V)] - 1 is precise where it is small; n times its error is that of the
    # exponent. With s and c the sine and cosine of half the angle, e**(a + i b) - 1 =
    # e**a - 1 - 2 e**a s**2 + 2 i e**a s c: several times as fast.
    halves = np.multiply.outer(values / 2, z.imag)
    sines = np.sin(halves)
    real = float(masses @ np.expm1(tau * values)) - 2 * tilted @ sines**2
    excess = real + 2j * (tilted @ (sines * np.cos(halves)))
    smoothing = (noise * z) ** 2 / 2
    exponents = n * np.log1p(excess) + smoothing
    height = float(exponents[0].real)
    # Where all values are 0, the sum is so, and gets no noise.
    idle = n * math.log(no_value) - height if no_value else -math.inf
    terms = (np.exp(exponents - height) - np.exp(idle + smoothing)) / z**2

    # Errors of the values and of the exponents, each as a part of its term.
    sizes = np.exp((exponents - height).real) / np.abs(z) ** 2
    moved = n * float(masses @ (np.abs(values) * np.exp(tau * np.maximum(values, 0))))
    errors = (2.0**-48 + 2 * error) * moved * np.abs(z)
    errors = errors + (n + abs(height) + 64) * 2.0**-48
    total = 2 * float(terms.real.sum()) - float(terms[0].real)
    total += 4 * float(sizes @ errors)
    if not (errors.max() < 0.1 and math.isfinite(total)):
        return alone
    beyond = 2 / (step * abs(z[-1].imag))
    beyond *= math.exp(-((noise * step * n_steps) ** 2) / 2)
    log_delta = height + math.log(step / (2 * math.pi) * (total + beyond) * scale / n)
    return min(math.exp(min(log_delta, 0.0)) * (1 + 2.0**-40) + _UNDERFLOW, alone)


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


def _merged(values: NDArray[np.float64], masses: NDArray[np.float64]) -> Law:
    """Split values among points of a grid so that the mean stays, but for rounding."""
    # It may grow by that.
    largest = float(np.abs(values).max())
    unit = largest * math.sqrt(float(masses @ (values / largest) ** 2)) / 64
    exact = np.arcsinh(values / unit) * _PER_E
    below = np.floor(exact)
    first = int(below.min())
    points = unit * np.sinh(np.arange(first, int(below.max()) + 2) / _PER_E)
    places = below.astype(np.int64) - first
    gaps = points[places + 1] - points[places]
    upper = np.clip((values - points[places]) / gaps + 2.0**-36, 0, 1)
    split = np.zeros(points.size)
    np.add.at(split, places, masses * (1 - upper))
    np.add.at(split, places + 1, masses * upper)
    return points[split > 0], split[split > 0]
