"""Random selection of the fields that a record reports, and counts estimated from samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from skdp.base import check_confidence_level
from skdp.privacy import Released, ReportPair, check_epsilon
from skdp.randomness import ByteSource, uniform_integers


@dataclass(frozen=True)
class Sampling:
    """Choice of one field for each record, in proportion to the weights of the fields."""

    weights: tuple[int, ...]

    @property
    def inclusions(self) -> list[Fraction]:
        """Probability that a record reports each field."""
        total = sum(self.weights)
        return [Fraction(weight, total) for weight in self.weights]

    def draw(self, source: ByteSource, n_rows: int) -> NDArray[np.bool_]:
        """Draw the field of each row, from a fixed number of random bytes."""
        # Intervals with the lengths of the weights follow each other; a record reports
        # the field whose interval contains a uniform integer.
        positions = uniform_integers(source, sum(self.weights), n_rows)
        chosen = np.searchsorted(np.cumsum(self.weights), positions, "right")
        return mark_chosen(chosen, len(self.weights))


def mark_chosen(chosen: NDArray[np.integer], n: int) -> NDArray[np.bool_]:
    """Mark the chosen column of each row: (n_rows, n)."""
    # Columns are contiguous because they are read one by one.
    numbers = np.arange(n, dtype=chosen.dtype)
    drawn: NDArray[np.bool_] = (chosen == numbers[:, np.newaxis]).T
    return drawn


def read_weights(
    parameter: str, weights: Any, names: Sequence[Any], alternatives: str
) -> list[Fraction]:
    """Read a positive number for each column."""
    if not isinstance(weights, Mapping):
        came = repr(weights) if isinstance(weights, str) else type(weights).__name__
        raise ValueError(
            f"`{parameter}` must be {alternatives} or a dict of column to number, got "
            f"{came}."
        )
    if set(weights) != set(names):
        raise ValueError(
            f"`{parameter}` must have the columns {list(names)}, got {list(weights)}."
        )
    noun = parameter.removesuffix("s")
    amounts = []
    for name in names:
        what = f"the {noun} of column {name!r}"
        amounts.append(check_epsilon(weights[name], name=what))
    return amounts


def combine_pairs(
    pairs: Sequence[ReportPair], sampling: Sampling | None, released: Released
) -> tuple[ReportPair, ...] | None:
    """Return the pair of each part of a report that is shuffled separately.

    None if the pairs of the fields do not determine it.
    """
    is_alike = all(pair == pairs[0] for pair in pairs)
    if not is_alike and not all(pair.is_symmetric for pair in pairs):
        return None
    # The pair of records whose values differ in each field bounds all pairs. With the
    # ratios (a, b) = (P(y | x0) / m(y), P(y | x1) / m(y)) of one field and (A, B) of
    # the other fields, convex f and t > 0, the function f(A a - t B b) is convex and
    # has decreasing differences in (a, b). So its mean over (u, v) and (v, u) is at
    # least the mean over (u, u) and (v, v), for equal values, and the mean over any
    # (u', v') and (v', u') between.
    if sampling is None:
        return tuple(pairs) if released == "tally" else (ReportPair.product(pairs),)
    return (ReportPair.mixture(zip(sampling.inclusions, pairs, strict=True)),)


Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SampledCounts:
    """Unbiased counts of n records, with the variances of noise and of sampling."""

    counts: Vector
    # Variance of the mechanism.
    noise: Vector
    # Variance of sampling, as a multiple of count * (n - count).
    spread: Vector
    n: float
    # Degrees of freedom of the variances.
    degrees: float = math.inf

    @classmethod
    def of(cls, counts: Vector, noise: Vector, size: float, n: float) -> Self:
        """Scale counts of a sample, and their variances, to n records."""
        if size == 0:
            unknown = np.full(len(counts), np.nan)
            infinite = np.full(len(counts), np.inf)
            return cls(unknown, infinite, np.zeros(len(counts)), n)
        scaled = counts * (n / size)
        # Sampling without replacement from a finite population.
        spread = np.full(len(counts), (n - size) / size / max(n - 1, 1))
        return cls(scaled, noise * (n / size) ** 2, spread, n)

    @classmethod
    def of_means(
        cls,
        means: Vector,
        variances: Vector,
        n: float,
        kish: float,
        degrees: float,
    ) -> Self:
        """Make weighted counts from means and their variances.

        `kish` is the variance of the mean of numbers with variance 1 that do not depend
        on the weights (Kish 1965), which is the part of sampling.
        """
        possible_means = np.clip(means, 0, 1)
        excess = variances - kish * possible_means * (1 - possible_means)
        noise = n**2 * np.clip(excess, 0, None)
        spread = np.full(len(means), kish)
        return cls(n * means, noise, spread, n, degrees)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the counts of several fields of the same records."""
        rows = np.concatenate(list(map(cls._rows, parts)), axis=1)
        counts, noise, spread = rows
        return cls(counts, noise, spread, parts[0].n, parts[0].degrees)

    @classmethod
    def average(cls, parts: Sequence[Self], weights: Vector) -> Self:
        """Average counts of the same cells from samples without a common record."""
        n = parts[0].n
        squares = weights**2
        # (3, n_samples, n_cells)
        counts, noise, spread = np.stack(list(map(cls._rows, parts)), 1)
        # Estimates of two samples without a common record have a negative correlation.
        spread = squares @ spread - (1 - squares.sum()) / max(n - 1, 1)
        spread = np.clip(spread, 0, None)
        return cls(weights @ counts, squares @ noise, spread, n)

    def of_population(self) -> Self:
        """Return the counts with the error of a random sample of a population."""
        # A proportion p has the variance p (1 - p) / n in a random sample.
        return replace(self, spread=self.spread + 1.0 / max(self.n, 1))

    def _rows(self) -> NDArray[np.float64]:
        """Stack the numbers of each cell: (3, n_cells)."""
        return np.array([self.counts, self.noise, self.spread])

    @property
    def variances(self) -> Vector:
        possible_counts = np.nan_to_num(np.clip(self.counts, 0, self.n))
        return self.noise + self.spread * possible_counts * (self.n - possible_counts)

    def interval(self, confidence_level: float) -> tuple[Vector, Vector]:
        """Compute an interval of each count; Wilson's interval without noise."""
        # The bounds c solve (estimate - c)^2 = z^2 (noise + spread c (n - c)).
        error_rate = 1 - check_confidence_level(confidence_level)
        z = -quantile(error_rate / 2, self.degrees)
        counts = np.nan_to_num(self.counts)
        is_estimated = np.isfinite(self.noise)
        factor = z * z * self.spread
        middle = (counts + factor * self.n / 2) / (1 + factor)
        square = factor * counts * (self.n - counts) + (factor * self.n / 2) ** 2
        noise = np.where(is_estimated, self.noise, 0)
        square = square + (1 + factor) * z * z * noise
        half_width = np.sqrt(np.clip(square, 0, None)) / (1 + factor)
        half_width = np.where(is_estimated, half_width, np.inf)
        return middle - half_width, middle + half_width

    def table(
        self,
        confidence_level: float,
        *,
        what: str = "count",
        index: pd.Index | None = None,
    ) -> pd.DataFrame:
        """Make a table of counts or frequencies, with their errors and intervals."""
        lower, upper = self.interval(confidence_level)
        std_error = np.sqrt(self.variances)
        scale = self.n if what == "frequency" else 1
        # pandas is several times slower with four columns than with one block.
        numbers = np.stack([self.counts, std_error, lower, upper], axis=1) / scale
        names = [what, "std_error", "lower", "upper"]
        return pd.DataFrame(numbers, index=index, columns=names)  # (n_cells, 4)


def quantile(probability: float, degrees: float) -> float:
    """Compute a quantile of Student's t, or of the normal distribution."""
    if math.isinf(degrees):
        return NormalDist().inv_cdf(probability)
    return float(stdtrit(degrees, probability))
