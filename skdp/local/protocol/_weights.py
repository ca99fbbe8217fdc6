"""Weighted frequencies: weighted means of unbiased values, with linearized errors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_same_order
from skdp.local._tally import ReportTally
from skdp.local.protocol._estimation import (
    CountOptions,
    cell_groups,
    column_groups,
    field_weights,
    group_index,
    reported_places,
)
from skdp.local.protocol._field import Reports
from skdp.local.protocol._sampling import SampledCounts, Vector
from skdp.oracles import POSTPROCESSORS, FrequencyOracle

# Numbers that are held at once: 32 MB.
_BLOCK = 1 << 22


def read_sample_weight(sample_weight: Any, reports: Any, n_rows: int) -> Vector:
    """Read the weights of rows."""
    if isinstance(reports, ReportTally):
        raise TypeError(
            "sample_weight requires the reports, got a ReportTally, which has no rows"
        )
    if n_rows < 2:
        raise ValueError(f"weighted estimates require two rows or more, got {n_rows}")
    refuse_name("sample_weight", sample_weight)
    check_same_order(reports, sample_weight, "sample_weight")
    weights = None
    # The error quotes a value, which not even the context of another one must have.
    with suppress(TypeError, ValueError):
        weights = np.asarray(sample_weight, float)
    if weights is None:
        raise ValueError("sample_weight must hold numbers")
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have the shape ({n_rows},), a number for each row, "
            f"got {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError(
            "sample_weight must be finite, at least 0, and not all weights zero"
        )
    return weights


def refuse_name(parameter: str, given: Any) -> None:
    """Raise if a column name was passed instead of its entries."""
    if isinstance(given, str):
        raise ValueError(
            f"{parameter} must hold an entry for each row, got a name: pass X[{given!r}]"
        )


def weighted_frequencies(
    protocol: Any,
    arrays: Reports | None,
    tally: ReportTally,
    weights: Vector,
    columns: Sequence[Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Estimate the weighted frequency of each value of all or some columns."""
    count_options = CountOptions(what="frequency", **options)
    if count_options.rows == "table":
        raise ValueError(
            "sample_weight requires rows='population', got 'table': weights describe "
            "how a population was sampled"
        )
    assert arrays is not None
    groups = column_groups(protocol, columns)
    estimates = []
    for group in groups:
        sample = _WeightedSample(protocol, arrays, tally, weights, tuple(group))
        estimates.append(sample.frequencies(count_options.postprocess))
    counts = SampledCounts.joined(estimates)
    return count_options.show(counts, group_index(protocol.domain, groups))


@dataclass(frozen=True, eq=False)
class _WeightedSample:
    """Weighted reports of the fields that hold some columns."""

    protocol: Any
    arrays: Reports
    tally: ReportTally
    weights: Vector
    group: tuple[Any, ...]

    def frequencies(self, postprocess: str) -> SampledCounts:
        """Estimate the weighted frequencies of the values of the columns."""
        places = reported_places(self.protocol, self.tally, self.group)
        fields = [self.protocol.fields[place] for place in places]
        n_cells = self.protocol.domain.select(self.group).size
        shares = np.ones(1)
        if len(fields) > 1:
            oracles = [field.oracle for field in fields]
            sizes = [self.tally.sizes[place] for place in places]
            shares = field_weights(oracles, sizes, n_cells)
        means: Any = 0.0
        variances: Any = 0.0
        shown: Any = 0.0
        kish = 0.0
        for place, field, share in zip(places, fields, shares, strict=True):
            field_means, field_variances = self._moments(place, self.group)
            means = means + share * field_means
            variances = variances + share**2 * field_variances
            kish += share**2 * _kish(self._field_weights(place))
            cell_means = field_means
            if self.group != tuple(field.columns):
                cell_means, _ = self._moments(place, tuple(field.columns))
            processed = _processed(
                field.oracle, cell_means, self.tally.sizes[place], postprocess
            )
            cells = cell_groups(field.domain, self.group)
            shown = shown + share * np.bincount(cells, processed, n_cells)
        degrees = len(self.weights) - 1
        counts = SampledCounts.of_means(
            means, variances, self.weights.sum(), kish, degrees
        )
        return replace(counts, shown=shown * counts.n)

    def _field_weights(self, place: int) -> Vector:
        """Return the weights of the records that report a field; 0 for all other records."""
        reported: Vector = self.weights * self.protocol.rows(self.arrays)[:, place]
        return reported

    def _moments(
        self, place: int, columns: tuple[Any, ...]
    ) -> tuple[Vector, NDArray[np.float64]]:
        """Return weighted means of unbiased values, and their linearized variances."""
        field = self.protocol.fields[place]
        weights = self._field_weights(place)
        cells = np.arange(field.domain.select(columns).size)
        # Sums of w u, w^2 u and w^2 u^2 over the records.
        sums = np.zeros((3, len(cells)))
        step = max(1, _BLOCK // len(cells))
        for start in range(0, len(weights), step):
            rows = slice(start, start + step)
            values = field.debias(self.arrays[place][rows], columns, cells)
            block = weights[rows]
            sums[0] += block @ values
            sums[1] += block**2 @ values
            sums[2] += block**2 @ values**2
        total = weights.sum()
        if not total:
            return np.full(len(cells), np.nan), np.full(len(cells), np.inf)
        means = sums[0] / total
        squares = sums[2] - 2 * means * sums[1] + means**2 * (weights**2).sum()
        n_rows = len(weights)
        variances = squares / total**2 * (n_rows / (n_rows - 1))
        if columns == tuple(field.columns):
            # A few equal reports have no variance between them, but their noise has one.
            least = np.min(field.oracle.variance([0, 1], 1))
            variances = np.maximum(variances, _kish(weights) * least)
        return means, variances


def _kish(weights: Vector) -> float:
    """Return the variance of the weighted mean of numbers with variance 1."""
    total = float(weights.sum())
    return float((weights**2).sum()) / total**2 if total else np.inf


def _processed(
    oracle: FrequencyOracle, means: Vector, size: int, postprocess: str
) -> Vector:
    """Postprocess weighted frequencies like frequencies of `size` reports."""
    # The estimate is linear in the sums: these are the sums that give the frequencies.
    constant = oracle.estimate(np.zeros(len(means)), size)
    slope = oracle.estimate(np.ones(len(means)), 0)
    sums: Any = (means * size - constant) / slope
    processed: Vector = POSTPROCESSORS[postprocess](oracle, sums, size)
    return processed / size
