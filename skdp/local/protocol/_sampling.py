"""Which attributes a record reports, and the counts of a sample of records."""

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
    """A sample of `size` attributes for each record, in proportion to their weights."""

    weights: tuple[int, ...]
    size: int

    @property
    def inclusions(self) -> list[Fraction]:
        """The probability that a record reports each attribute."""
        total = sum(self.weights)
        return [Fraction(self.size * weight, total) for weight in self.weights]

    def draw(self, source: ByteSource, n_rows: int) -> NDArray[np.bool_]:
        """Draw the attributes of each row: as many bytes, whatever is drawn."""
        # Systematic sampling: the weights, times `size`, are laid end to end in a
        # random order, and those are taken that hold one of `size` points, a whole sum
        # of weights apart, whose start is uniform. No weight holds two.
        n = len(self.weights)
        total = sum(self.weights)
        start = uniform_integers(source, total, n_rows)
        if self.size == 1:
            # The one that holds the start, in any order.
            ends = np.cumsum(self.weights)
            chosen = start if total == n else np.searchsorted(ends, start, "right")
            return one_of(chosen, n)
        start = start.astype(np.int64)
        words = np.empty((n_rows, n), np.uint64)
        for column in range(n):
            words[:, column] = source.bytes(8 * n_rows).view("<u8")
        order = np.argsort(words, axis=1, kind="stable")
        ends = np.cumsum(np.array(self.weights)[order] * self.size, axis=1)
        # How many points lie before the end of each attribute: (n_rows, n).
        n_points = (ends - start[:, np.newaxis] - 1) // total + 1
        holds_point = np.diff(n_points, axis=1, prepend=0) > 0
        drawn = np.empty((n_rows, n), bool, order="F")
        np.put_along_axis(drawn, order, holds_point, axis=1)
        return drawn


def one_of(chosen: NDArray[np.integer], n: int) -> NDArray[np.bool_]:
    """Return in which column each row has its number: (n_rows, n)."""
    # Columns are contiguous, as they are read one by one.
    numbers = np.arange(n, dtype=chosen.dtype)
    drawn: NDArray[np.bool_] = (chosen == numbers[:, np.newaxis]).T
    return drawn


def whole_weights(weights: Any, names: Sequence[Any]) -> tuple[int, ...]:
    """Read the weights of columns as whole numbers, none of them 0."""
    if isinstance(weights, str) and weights == "uniform":
        return (1,) * len(names)
    amounts = read_weights("weights", weights, names, "'uniform'")
    # Whole numbers, as a draw is exact.
    total = sum(amounts)
    # The sum of the weights that are given, as whole numbers.
    units = 1 << 24
    return tuple(max(1, round(units * amount / total)) for amount in amounts)


def read_weights(
    parameter: str, weights: Any, names: Sequence[Any], alternatives: str
) -> list[Fraction]:
    """Read a mapping of each column to a number above 0."""
    if not isinstance(weights, Mapping):
        # Its type, as the text of a series or an array may be long.
        came = repr(weights) if isinstance(weights, str) else type(weights).__name__
        raise ValueError(
            f"{parameter} must be {alternatives} or a mapping of column to number, got "
            f"{came}"
        )
    if set(weights) != set(names):
        raise ValueError(
            f"{parameter} must name the columns {list(names)}, got {list(weights)}"
        )
    noun = parameter.removesuffix("s")
    amounts = []
    for name in names:
        what = f"the {noun} of column {name!r}"
        amounts.append(check_epsilon(weights[name], name=what))
    return amounts


def drawn_pair(
    pairs: Sequence[ReportPair], sampling: Sampling | None, released: Released
) -> tuple[ReportPair, ...] | None:
    """Return the pair of each part of a report that is shuffled by itself.

    It follows from the pairs of the fields; None if these do not tell it.
    """
    is_alike = all(pair == pairs[0] for pair in pairs)
    if not is_alike and not all(pair.is_symmetric for pair in pairs):
        return None
    # One pair stands for all pairs of records: that of the fields, whose values differ
    # in each. With the ratios (a, b) = (P(y | x0) / m(y), P(y | x1) / m(y)) of one
    # field and (A, B) of the others, convex f and t > 0, the function f(A a - t B b) is
    # convex and has decreasing differences in (a, b). So its mean over (u, v) and (v,
    # u) is at least that over (u, u) and (v, v), as where the values agree, and that
    # over any (u', v') and (v', u') between.
    if sampling is None:
        return tuple(pairs) if released == "tally" else (ReportPair.product(pairs),)
    if sampling.size == 1:
        return (ReportPair.mixed(zip(sampling.inclusions, pairs, strict=True)),)
    if not is_alike:
        return None
    # The chance of a set of fields cancels in all ratios, so the classes of all sets
    # are those of one.
    return (ReportPair.product(pairs[: sampling.size]),)


Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SampledCounts:
    """Unbiased counts of n records, with the variances that reports and sample add."""

    counts: Vector
    # The variance that the mechanism adds.
    noise: Vector
    spread: Vector
    """What the sample adds, as a multiple of ``count * (n - count)``."""
    n: float
    # The counts after post-processing.
    shown: Vector
    # The degrees of freedom of the variances.
    degrees: float = math.inf

    @classmethod
    def of(cls, counts: Vector, noise: Vector, size: float, n: float) -> Self:
        """Scale counts of a sample of some size, and their variances, to n records."""
        if size == 0:
            unknown = np.full(len(counts), np.nan)
            infinite = np.full(len(counts), np.inf)
            return cls(unknown, infinite, np.zeros(len(counts)), n, unknown)
        scaled = counts * (n / size)
        # Of sampling without replacement, with its correction for finite populations.
        spread = np.full(len(counts), (n - size) / size / max(n - 1, 1))
        return cls(scaled, noise * (n / size) ** 2, spread, n, scaled)

    @classmethod
    def of_means(
        cls,
        means: Vector,
        variances: Vector,
        n: float,
        kish: float,
        degrees: float,
    ) -> Self:
        """Make weighted counts of means and their variances.

        A mean of numbers with variance 1 that do not depend on the weights has the
        variance `kish` (Kish 1965), which is the part of sampling.
        """
        possible_means = np.clip(means, 0, 1)
        excess = variances - kish * possible_means * (1 - possible_means)
        noise = n**2 * np.clip(excess, 0, None)
        spread = np.full(len(means), kish)
        return cls(n * means, noise, spread, n, n * means, degrees)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put the counts of several fields of the same records in a row."""
        rows = np.concatenate(list(map(cls._rows, parts)), axis=1)
        counts, noise, spread, shown = rows
        return cls(counts, noise, spread, parts[0].n, shown, parts[0].degrees)

    @classmethod
    def combined(cls, parts: Sequence[Self], weights: Vector) -> Self:
        """Weigh counts of the same cells from samples that have no record in common."""
        n = parts[0].n
        squares = weights**2
        # (4, n_samples, n_cells)
        counts, noise, spread, shown = np.stack(list(map(cls._rows, parts)), 1)
        # No record is in two samples, so their estimates are correlated: by as much for
        # any two.
        spread = squares @ spread - (1 - squares.sum()) / max(n - 1, 1)
        return cls(
            weights @ counts,
            squares @ noise,
            np.clip(spread, 0, None),
            n,
            weights @ shown,
        )

    def of_population(self) -> Self:
        """Return the counts that as many records of the population have on average."""
        # A share of p varies by p (1 - p) / n from table to table.
        return replace(self, spread=self.spread + 1.0 / max(self.n, 1))

    def _rows(self) -> NDArray[np.float64]:
        """Return what each cell has: (4, n_cells)."""
        return np.array([self.counts, self.noise, self.spread, self.shown])

    @property
    def variances(self) -> Vector:
        possible_counts = np.nan_to_num(np.clip(self.counts, 0, self.n))
        return self.noise + self.spread * possible_counts * (self.n - possible_counts)

    def interval(self, confidence_level: float) -> tuple[Vector, Vector]:
        """Return the ends of an interval of each count, as Wilson's without noise."""
        # What sampling adds follows from the count c that is sought: it solves
        # (estimate - c)^2 = z^2 (noise + spread c (n - c)).
        error_rate = 1 - check_confidence_level(confidence_level)
        z = -quantile(error_rate / 2, self.degrees)
        counts = np.nan_to_num(self.counts)
        is_estimated = np.isfinite(self.noise)
        factor = z * z * self.spread
        middle = (counts + factor * self.n / 2) / (1 + factor)
        square = factor * counts * (self.n - counts) + (factor * self.n / 2) ** 2
        noise = np.where(is_estimated, self.noise, 0)
        square = square + (1 + factor) * z * z * noise
        reach = np.sqrt(np.clip(square, 0, None)) / (1 + factor)
        reach = np.where(is_estimated, reach, np.inf)
        return middle - reach, middle + reach

    def table(
        self,
        confidence_level: float,
        *,
        clipped: bool = False,
        what: str = "count",
        index: pd.Index | None = None,
    ) -> pd.DataFrame:
        """Return ``count, std_error, lower, upper``, or the same of frequencies."""
        lower, upper = self.interval(confidence_level)
        if clipped:
            lower = np.clip(lower, 0, self.n)
            upper = np.clip(upper, 0, self.n)
        std_error = np.sqrt(self.variances)
        scale = self.n if what == "frequency" else 1
        # One block of numbers: pandas takes a multiple of the time for four columns.
        numbers = np.stack([self.shown, std_error, lower, upper], axis=1) / scale
        names = [what, "std_error", "lower", "upper"]
        return pd.DataFrame(numbers, index=index, columns=names)  # (n_cells, 4)


def quantile(probability: float, degrees: float) -> float:
    """Return a quantile of Student's distribution, or of the normal one."""
    if math.isinf(degrees):
        return NormalDist().inv_cdf(probability)
    return float(stdtrit(degrees, probability))
