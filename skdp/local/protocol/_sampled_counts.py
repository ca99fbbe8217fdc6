"""Counts of all records from the reports of some of them: errors and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_confidence_level

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SampledCounts:
    """Unbiased counts of n records, with the variances that the reports and the sample add."""

    counts: Vector
    noise: Vector
    """The variance that the mechanism adds."""
    spread: Vector
    """What the sample adds, as a multiple of ``count * (n - count)``; 0 if all records report."""
    n: float

    @classmethod
    def of(cls, counts: Vector, noise: Vector, size: float, n: float) -> Self:
        """Scale counts of a sample of some size, and their variances, to n records."""
        if size == 0:
            return cls(np.full(len(counts), np.nan), np.full(len(counts), np.inf), np.zeros(len(counts)), n)
        drawn = (n - size) / size / max(n - 1, 1)
        return cls(counts * (n / size), noise * (n / size) ** 2, np.full(len(counts), drawn), n)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put the counts of several attributes of the same records in a row."""
        counts, noise, spread = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "noise", "spread")
        )
        return cls(counts, noise, spread, parts[0].n)

    @classmethod
    def combined(cls, parts: Sequence[Self], weights: Vector) -> Self:
        """Weigh counts of the same cells from samples that have no record in common."""
        n, squares = parts[0].n, weights**2
        counts, noise, spread = (
            factors @ np.array([getattr(part, name) for part in parts])
            for factors, name in ((weights, "counts"), (squares, "noise"), (squares, "spread"))
        )
        # No record is in two samples, so their estimates are correlated: by as much for any two.
        return cls(counts, noise, np.clip(spread - (1 - squares.sum()) / max(n - 1, 1), 0, None), n)

    def __getitem__(self, rows: NDArray[np.intp]) -> Self:
        return type(self)(self.counts[rows], self.noise[rows], self.spread[rows], self.n)

    @property
    def variances(self) -> Vector:
        inside = np.nan_to_num(np.clip(self.counts, 0, self.n))
        return self.noise + self.spread * inside * (self.n - inside)

    def interval(self, confidence_level: float, n_cells: int = 1) -> tuple[Vector, Vector]:
        """Return the counts within reach of which the estimates lie: as Wilson's interval, if there is no noise."""
        # What sampling adds follows from the count c that is sought: (estimate - c)^2 = z^2 (noise + spread c (n - c)).
        z = -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2 / n_cells)
        counts, known, factor = np.nan_to_num(self.counts), np.isfinite(self.noise), z * z * self.spread
        middle = (counts + factor * self.n / 2) / (1 + factor)
        drawn = factor * counts * (self.n - counts) + (factor * self.n / 2) ** 2
        square = drawn + (1 + factor) * z * z * np.where(known, self.noise, 0)
        reach = np.where(known, np.sqrt(np.clip(square, 0, None)) / (1 + factor), np.inf)
        return middle - reach, middle + reach

    def table(
        self,
        confidence_level: float,
        *,
        shown: Vector | None = None,
        clipped: bool = False,
        n_cells: int = 1,
        what: str = "count",
        index: pd.Index | None = None,
    ) -> pd.DataFrame:
        """Return ``count, std_error, lower, upper``; the counts, if others are shown, come from post-processing."""
        bounds = self.interval(confidence_level, n_cells)
        lower, upper = (np.clip(bound, 0, self.n) for bound in bounds) if clipped else bounds
        counts = self.counts if shown is None else shown
        found = {what: counts, "std_error": np.sqrt(self.variances), "lower": lower, "upper": upper}
        scale = self.n if what == "frequency" else 1
        return pd.DataFrame({name: values / scale for name, values in found.items()}, index=index)
