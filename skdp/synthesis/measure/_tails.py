"""Tails of numbers: the distribution of records beyond the last count that clearly exceeds the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from skdp._arrays import Floats, Indices, Mask
from skdp.synthesis.model import Covariance

# A few records far from the middle of a column decide on its mean and its standard
# deviation, and their counts are mostly noise. Beyond the last clear proportion, records
# follow a distribution in which a power of the distance is normal ([1]_): a tail may be
# normal (power 1), about exponential (1/4) or lognormal (0). Distributions of a grid are
# averaged by their likelihood. A real tail is near such a distribution: the
# logarithm of the proportion beyond a distance deviates by a random walk, so that noisy
# proportions that are known better than the walk correct it ([2]_).
# .. [1] G. Box, D. Cox (1964). An analysis of transformations. JRSS B 26(2).
# .. [2] C. E. Rasmussen, C. K. I. Williams (2006). Gaussian processes for machine
#    learning. MIT Press. Section 2.2.


# Chosen by benchmarks/synthesis_numbers.py.
CLEAR_TAIL_STD_ERRORS = 5.0
"""Standard errors of a proportion beyond an edge that is known well."""

WALK_STD = 0.4
"""Standard deviation of the logarithm of a proportion where the distribution falls by e."""

POWERS, SLOPES = np.linspace(0, 1.6, 5), np.geomspace(0.5, 8, 10)
"""Powers of the distance, and slopes of the normal score; twice as many have equal errors."""

TINY = 1e-18
"""Variance that keeps matrices invertible without noise."""


def fit_tails(
    proportions: Floats, edges: Floats, counts: Floats, covariance: Covariance
) -> tuple[Floats, int, int]:
    """Replace the proportions of cells in both tails by fitted distributions; also return the cells between the tails.

    `proportions` add up to 1, and `counts` are noisy; both of shape (n_cells,). `covariance` is the covariance of
    counts. `edges` are the edges of cells; shape (n_cells + 1,). The cells between the tails start at the first integer
    and end before the second one.
    """
    middle = int(np.searchsorted(proportions.cumsum(), 0.5))
    upper, stop = _fit_upper(proportions, edges, counts, covariance, middle)
    mirrored, last = covariance[::-1], counts.size - 1 - middle
    lower, start = _fit_upper(upper[::-1], -edges[::-1], counts[::-1], mirrored, last)
    return lower[::-1], counts.size - start, stop


def _fit_upper(
    proportions: Floats,
    edges: Floats,
    counts: Floats,
    covariance: Covariance,
    middle: int,
) -> tuple[Floats, int]:
    """Replace the proportions of cells in the upper tail; also return the first of these cells.

    `proportions`, and the noisy `counts` with their `covariance`, are of the cells between `edges`. The tail starts at
    the last cell for which the proportion beyond its lower edge clearly exceeds the noise, or without such a cell above
    `middle`, the cell with the median of `proportions`.
    """
    side = _Side.of(edges, counts, covariance)
    if not side.is_clear[middle + 1 :].any():
        # Sums of noisy counts may fall below a half far from the median.
        side = replace(side, middle=middle)
    start, is_end = side.find_start(proportions)
    has_tail = not is_end and start < counts.size - 2
    if not is_end and start == counts.size - 2 and side.is_clear.any():
        # A single cell is no tail: its own count estimates it.
        return proportions, counts.size
    if not has_tail or not 0 < side.beyond[start] < 1:
        # Nothing is known beyond the last clear cell.
        stop = start + bool(is_end or side.is_clear.any())
        tail = np.zeros(counts.size - stop)
    else:
        stop = start
        beyond = side.correct(start, side.average_distributions(start))
        tail = -np.diff(np.append(beyond, 0.0))
    body = proportions[:stop].sum()
    if body == 0:
        return proportions, stop
    rest = max(0.0, 1 - tail.sum())
    fitted = np.append(proportions[:stop] * (rest / body), tail)
    return fitted / fitted.sum(), stop


@dataclass(frozen=True, eq=False)
class _Side:
    """The records of a column above its middle cell, which contains the median."""

    edges: Floats
    """The edges of all cells, ascending; shape (n_cells + 1,)."""
    beyond: Floats
    """The noisy proportion of records beyond the lower edge of each cell; shape (n_cells,)."""
    sums: Covariance
    """The errors of `beyond`, as sums of the diagonal and of the factors of the errors of cells."""
    middle: int
    """The index of the cell with the median."""

    @classmethod
    def of(cls, edges: Floats, counts: Floats, covariance: Covariance) -> _Side:
        """Compute the proportions of records beyond each edge, and their covariance.

        `counts` are the noisy counts of the cells between `edges`, and `covariance` is their covariance.
        """
        total = max(1.0, float(counts.sum()))
        beyond = counts[::-1].cumsum()[::-1] / total
        diagonal = covariance.diagonal[::-1].cumsum()[::-1] / total**2
        factors = covariance.factors[::-1].cumsum(axis=0)[::-1] / total
        middle = max(0, int(np.argmax(beyond < 0.5)) - 1)
        return cls(edges, beyond, Covariance(diagonal, factors), middle)

    @property
    def errors(self) -> Floats:
        """The standard errors of the proportions `beyond`; shape (n_cells,)."""
        variances = self.sums.diagonal - np.square(self.sums.factors).sum(axis=1)
        return np.sqrt(np.maximum(variances, 0.0))

    def find_covariance(self, cells: Indices | slice) -> Floats:
        """Return the covariance of the errors of `beyond` of some cells."""
        diagonal, factors = self.sums.diagonal[cells], self.sums.factors[cells]
        # The sums of two cells share the summands of the smaller sum.
        shared = np.minimum.outer(diagonal, diagonal)
        return np.asarray(shared - factors @ factors.T + TINY * np.eye(diagonal.size))

    @property
    def is_clear(self) -> Mask:
        """Mark the cells above the middle for which the proportion beyond their lower edge exceeds the noise."""
        is_clear = self.beyond >= CLEAR_TAIL_STD_ERRORS * self.errors
        is_clear[: self.middle + 1] = False
        return is_clear

    def find_start(self, proportions: Floats) -> tuple[int, bool]:
        """Return the index of the last clear cell, and True if it has most of the records beyond its lower edge.

        In the latter case, such as a frequent largest number, there is no tail beyond the cell. `proportions` are of
        all cells.
        """
        clear = np.flatnonzero(self.is_clear)
        if clear.size == 0:
            return self.middle + 1, False
        start = int(clear[-1])
        in_cell = self.beyond[start] - np.append(self.beyond, 0.0)[start + 1]
        in_cell = min(in_cell, proportions[start])
        return start, bool(in_cell >= 0.8 * self.beyond[start])

    def measure_distances(self, start: int) -> tuple[Floats, Indices]:
        """Return the distances of edges from the middle, relative to `start`, and the cells that the tail continues.

        The cells are about 12 of the body of the distribution, with `start` as the last.
        """
        low, high = self.edges[[self.middle, self.middle + 1]]
        distances = (self.edges - low) - (high - low) / 2
        is_body = (self.beyond > 0) & (self.beyond < 0.5)
        is_body[: self.middle + 1] = False
        is_body[start:] = False
        body = np.append(np.flatnonzero(is_body), start)
        # Cells whose proportions are nearly a geometric sequence.
        logs = np.log(np.maximum(self.beyond[body], self.beyond[start] / 2))
        steps = np.linspace(logs[0], logs[-1], 12)
        nearest = np.abs(logs - steps[:, np.newaxis]).argmin(axis=1)
        body = np.union1d(body[nearest], [start])
        return distances / distances[start], body

    def average_distributions(self, start: int) -> Floats:
        """Return the expected proportion beyond each edge from `start` on: (n_cells - start,).

        In each distribution, a power of the distance of a record is normal. Distributions with powers, slopes and
        proportions beyond the start on a grid are averaged, weighted by their likelihood for the noisy proportions.
        """
        distances, body = self.measure_distances(start)
        # At distance d, relative to the start, the normal score of the proportion beyond d
        # is first + slope * (d**power - 1) / power, or first + slope * log(d) for power 0.
        steps = self.beyond[start] + np.linspace(-3, 3, 4) * self.errors[start]
        powers, slopes, firsts = map(
            np.ravel,
            np.meshgrid(
                POWERS, SLOPES, -ndtri(np.clip(steps, 1e-6, 0.98)), indexing="ij"
            ),
        )
        # For each power, the score of each edge from the start on with slope 1, minus first.
        moved = []
        for power in np.maximum(POWERS, 1e-9):
            moved.append(np.expm1(power * np.log(distances[start:])) / power)
        # The likelihood uses at most 6 edges beyond the start, and the body.
        later = np.arange(start + 1, self.beyond.size)
        later = later[np.rint(np.geomspace(1, later.size, 6)).astype(int) - 1]
        cells = np.union1d(body, later)
        relative = np.expm1(
            np.multiply.outer(np.maximum(powers, 1e-9), np.log(distances[cells]))
        )
        scores = relative / np.maximum(powers, 1e-9)[:, np.newaxis]
        scores = firsts[:, np.newaxis] + slopes[:, np.newaxis] * scores
        noise = self.find_covariance(cells)
        n_body = body.size
        noise[:n_body, :n_body] += _walk(self.beyond[body], self.beyond[start])
        residuals = (ndtr(-scores) - self.beyond[cells]).T
        # Minus twice the logarithm of the likelihood of each distribution.
        root = np.linalg.cholesky(noise)
        squares = (solve_triangular(root, residuals, lower=True) ** 2).sum(axis=0)
        weights = np.exp((squares.min() - squares) / 2)
        weights /= weights.sum()
        # The mean of the scores of all distributions, not of their proportions.
        weighted_slopes = (weights * slopes).reshape(POWERS.size, -1).sum(axis=1)
        mean = weights @ firsts + weighted_slopes @ np.array(moved)
        beyond = ndtr(-mean)
        # Nothing is beyond the last edge.
        scale = beyond[0] / (beyond[0] - beyond[-1])
        return (beyond - beyond[-1])[:-1] * scale

    def correct(self, start: int, expected: Floats) -> Floats:
        """Correct the proportions `expected` beyond edges from `start` on, (n_cells - start,), by noisy proportions.

        This is the mean of a Gaussian process around `expected`, given the noisy proportions.
        """
        walk = _walk(expected, expected[0])
        noise = self.find_covariance(slice(start, None))
        residuals = self.beyond[start:] - expected
        beyond = expected + walk @ np.linalg.solve(walk + noise, residuals)
        return np.minimum.accumulate(np.maximum(beyond, 0.0))


def _walk(beyond: Floats, first: float) -> Floats:
    """Return the prior covariance of deviations of tail proportions from a distribution.

    The logarithms of the proportions beyond each edge deviate by a random walk, whose time is the logarithm of the
    proportion relative to `first`, where the deviation is 0.
    """
    times = np.abs(np.log(np.maximum(beyond, 1e-300) / first))
    covariance = np.minimum.outer(times, times) * np.outer(beyond, beyond)
    return WALK_STD**2 * covariance
