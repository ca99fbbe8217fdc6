"""How far a fitted model is from its own noisy counts, by marginals and by numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.domain import Interval
from skdp.synthesis._measured_means import measured_counts
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import Clique, Groups, Marginal, group, merge, spread
from skdp.synthesis.selection import MEAN_ABSOLUTE, IndependentColumns, Score
from skdp.synthesis.tables import cells_within, ends_of, middles
from skdp.tables import add_dates, frame_like

Counts = NDArray[np.float64]

QUANTILES = (0.1, 0.5, 0.9)

_REACH = NormalDist().inv_cdf(0.975)
"""Of an interval of 95 %, in standard errors."""

_MOST_UNCERTAIN = 0.5
"""The share of the records in cells that are all noise, from which a marginal is too."""

_LARGEST_MISFIT = 2.0
"""Of an error relative to the noise: what is above, noise does not explain.

The mean absolute noise of k counts has a standard deviation of .76 / sqrt(k) of its mean:
for 4 counts, twice the mean is 2.6 of these above it. Models are nearer to their counts
than the truth is: of 360 columns and pairs of 60 models of 2 or 3 values a column, whose
pairs were all measured, 99 % were below 1.31, and the largest was 1.97.
"""

_ROUNDING = 1e-12
"""Of the largest number: deviations that are rounding."""

_NARROWEST = 2.0**-20
"""Of the whole interval: the width of a cell of a single number, where bins are found."""

_MICROSECONDS_OF_DAY = 24 * 60 * 60 * 1_000_000


def marginal_quality(synthesizer: DPMarginalSynthesizer) -> Any:
    """Compare the columns and pairs of a model with what was measured of them."""
    # No record is read: all is computed from what the fit has released.
    check_is_fitted(synthesizer)
    names = synthesizer.domain_.columns
    # Of what follows from other columns, the model has a single bin and knows nothing.
    derived = synthesizer._relations.derived
    modelled = [place for place, name in enumerate(names) if name not in derived]
    cliques: list[Clique] = [(column,) for column in modelled]
    cliques += itertools.combinations(modelled, 2)
    holders = _holders(merge(synthesizer.marginals_))
    independent = _independent_columns(synthesizer)
    rows = []
    for clique in cliques:
        second = names[clique[1]] if len(clique) == 2 else None
        if clique in holders:
            figures = _compare_measured(synthesizer, clique, holders[clique])
        else:
            figures = _compare_scored(synthesizer, clique, independent)
        rows.append({"column": names[clique[0]], "second_column": second} | figures)
    return frame_like(pd.DataFrame(rows), synthesizer._template.native)


def derived_columns(synthesizer: DPMarginalSynthesizer) -> list[str]:
    """Say of each column that is not modelled what it follows from."""
    check_is_fitted(synthesizer)
    return list(map(str, synthesizer._relations.sums))


def _holders(marginals: Sequence[Marginal]) -> dict[Clique, list[Marginal]]:
    """List for each column and pair the marginals that hold it."""
    holders: dict[Clique, list[Marginal]] = {}
    for marginal in marginals:
        columns = sorted(marginal.clique)
        for order in (1, 2):
            for clique in itertools.combinations(columns, order):
                holders.setdefault(clique, []).append(marginal)
    return holders


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Unbiased counts of some columns, whose values may have been counted in groups."""

    counts: Counts
    std_error: float
    groups: Groups

    @classmethod
    def of(cls, marginals: Sequence[Marginal], clique: Clique) -> _Estimate:
        measured = measured_counts(marginals, clique)
        if measured is not None:
            return cls(*measured, groups=(None,) * len(clique))
        # No marginal counts each cell apart: the most cells tell the most.
        best = max(marginals, key=lambda marginal: marginal.counts.size)
        groups = tuple(best.groups_of(column) for column in clique)
        alone = Marginal(best.clique, best.counts, best.std_error)
        measured = measured_counts([alone], clique)
        assert measured is not None
        return cls(*measured, groups=groups)


def _compare_measured(
    synthesizer: DPMarginalSynthesizer, clique: Clique, marginals: Sequence[Marginal]
) -> dict[str, Any]:
    n_rows = synthesizer.n_rows_
    estimate = _Estimate.of(marginals, clique)
    shares = synthesizer.model_.marginal(clique)
    grouped = group(shares, estimate.groups)
    error = float(np.abs(estimate.counts / n_rows - grouped).sum() / 2)
    # Noise alone moves each count by this much on average.
    noise = MEAN_ABSOLUTE * estimate.std_error * estimate.counts.size / (2 * n_rows)
    # Records of values that were counted together may all have one of them.
    of_others = spread(grouped, estimate.groups) - shares
    is_uncertain = n_rows * (shares - of_others) <= estimate.std_error
    uncertain = float(shares[is_uncertain].sum())
    return {
        "n_cells": shares.size,
        "n_uncertain": int(is_uncertain.sum()),
        "error": error,
        "noise": noise,
        "uncertain": uncertain,
        "measured": True,
        "supported": uncertain <= _MOST_UNCERTAIN and error <= _LARGEST_MISFIT * noise,
    }


def _independent_columns(synthesizer: DPMarginalSynthesizer) -> IndependentColumns:
    """Return what independent columns would have, by the model of each column."""
    counts = []
    for column in range(len(synthesizer.domain_.columns)):
        counts.append(synthesizer.n_rows_ * synthesizer.model_.marginal([column]))
    errors = [0.0]
    for marginal in synthesizer.marginals_:
        if len(marginal.clique) == 1:
            errors.append(marginal.std_error)
    return IndependentColumns(counts, max(errors), (None,) * len(counts))


def _compare_scored(
    synthesizer: DPMarginalSynthesizer,
    clique: Clique,
    independent: IndependentColumns,
) -> dict[str, Any]:
    """Compare the dependence of a pair that was not measured with its noisy score."""
    sizes = [synthesizer.domain_.sizes[column] for column in clique]
    n_cells = math.prod(sizes)
    figures: dict[str, Any] = {
        "n_cells": n_cells,
        "n_uncertain": n_cells,
        "error": math.nan,
        "noise": math.nan,
        "uncertain": 1.0,
        "measured": False,
        "supported": False,
    }
    if clique not in synthesizer._scores:
        return figures
    # A score is twice the number of records that independent columns misplace.
    n_rows = synthesizer.n_rows_
    score = Score(*synthesizer._scores[clique])
    noise = independent.chance(clique) + MEAN_ABSOLUTE * score.std_error
    figures["noise"] = noise / (2 * n_rows)
    # The model's table of the pair is only computed where the score says anything.
    if not independent.is_chance(clique, score):
        shares = synthesizer.model_.marginal(clique)
        product = np.multiply.outer(shares.sum(axis=1), shares.sum(axis=0))
        dependence = float(np.abs(shares - product).sum() / 2)
        figures["error"] = abs(score.noisy / (2 * n_rows) - dependence)
    return figures


def number_quality(synthesizer: DPMarginalSynthesizer) -> Any:
    """Compare means and quantiles of numbers by the model with those of noisy counts."""
    check_is_fitted(synthesizer)
    domain = synthesizer.domain_
    marginals = merge(synthesizer.marginals_)
    rows: list[tuple[Any, ...]] = []
    dates = []
    for column, name in enumerate(domain.columns):
        interval = domain[name]
        is_derived = name in synthesizer._relations.derived
        if is_derived or not isinstance(interval, Interval):
            continue
        measured = measured_counts(marginals, (column,))
        if measured is None:
            continue
        if interval.dtype.kind == "M":
            dates.append(name)
        numbers = _Numbers.of(synthesizer, column, interval)
        n_bins = len(numbers.means)
        counts = measured[0][:n_bins]
        model_counts = synthesizer.n_rows_ * synthesizer.model_.marginal([column])
        # The noise of bins that were found, and of numbers within, is not among these
        # counts: nothing is said of an interval.
        std_error = math.nan if numbers.is_found else measured[1]
        rows += numbers.compare(name, counts, std_error, model_counts[:n_bins])
    if not rows:
        return None
    header = ["column", "statistic", "reference", "synthetic", "lower", "upper"]
    table = pd.DataFrame(rows, columns=[*header, "std", "measured_within"])
    add_dates(table, header[2:], [name in dates for name in table["column"]])
    return frame_like(table, synthesizer._template.native)


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Where numbers lie within the bins of a column, as rows are drawn."""

    means: Counts
    variances: Counts
    """Of each bin."""
    edges: Counts
    """Of fine cells, which are the bins themselves where nothing is known within."""
    lowest: Counts
    highest: Counts
    """The ends of what is drawn in each fine cell."""
    bins: NDArray[np.intp]
    """The bin of each fine cell."""
    shares: Counts
    """The share of its bin that each fine cell has."""
    is_measured_within: bool
    is_found: bool
    """Whether noisy counts of fine cells made the bins, and the numbers within."""

    @classmethod
    def of(
        cls, synthesizer: DPMarginalSynthesizer, column: int, interval: Interval
    ) -> _Numbers:
        name = synthesizer.domain_.columns[column]
        shapes = synthesizer._shapes
        shape = None if shapes is None else shapes.columns.get(name)
        grid = interval if shape is None else shape.grid
        edges = _as_floats(np.array(grid.edges, grid.dtype))
        bin_edges = _as_floats(np.array(interval.edges, interval.dtype))
        bins = np.searchsorted(bin_edges, edges[:-1], side="right") - 1
        weights = np.ones(edges.size - 1)
        if shape is not None:
            weights = np.diff(shape.below)
        totals = np.bincount(bins, weights)[bins]
        n_cells = np.bincount(bins)[bins]
        shares = np.divide(weights, totals, out=1 / n_cells, where=totals > 0)
        means = _as_floats(middles(interval, shape))
        lowest, highest = map(_as_floats, ends_of(grid))
        # Numbers are even within fine cells.
        squares = ((lowest + highest) / 2 - means[bins]) ** 2
        squares += (highest - lowest) ** 2 / 12
        variances = np.bincount(bins, shares * squares).astype(float)
        is_measured = shape is not None or cells_within(interval) is interval
        is_found = shape is not None and synthesizer.bins == "private"
        return cls(
            means,
            variances,
            edges,
            lowest,
            highest,
            bins,
            shares,
            is_measured,
            is_found,
        )

    def compare(
        self, name: Any, counts: Counts, std_error: float, model_counts: Counts
    ) -> list[tuple[Any, ...]]:
        """Return a row for the mean and for each quantile."""
        total = max(1.0, float(counts.sum()))
        mean = float(counts @ self.means) / total
        model_mean = float(model_counts @ self.means / model_counts.sum())
        distances = self.means - mean
        reach = _REACH * std_error * math.sqrt(float(distances @ distances)) / total
        squares = distances**2 + self.variances
        std = math.sqrt(float(np.maximum(counts, 0) @ squares) / total)
        least = _ROUNDING * float(np.abs(self.edges).max())
        if self.is_found:
            least = max(least, _NARROWEST * float(self.edges[-1] - self.edges[0]))
        if std <= least:
            std = 0.0
        common = std, self.is_measured_within
        rows = [
            (name, "mean", mean, model_mean, mean - reach, mean + reach, *common),
        ]
        n_bins = counts.size
        for share in QUANTILES:
            value = self._quantile(counts, share)
            # The noise of the share below: that of the bins below it, and of the total.
            n_below = int(self.bins[self._cell_of(counts, share)[0]])
            variance = n_below * (1 - share) ** 2 + (n_bins - n_below) * share**2
            reach = _REACH * std_error * math.sqrt(variance) / total
            ends = [math.nan, math.nan]
            if not math.isnan(reach):
                ends = [
                    self._quantile(counts, max(0.0, share - reach)),
                    self._quantile(counts, min(1.0, share + reach)),
                ]
            model_value = self._quantile(model_counts, share)
            statistic = f"quantile {share:g}"
            rows.append((name, statistic, value, model_value, *ends, *common))
        return rows

    def _cell_of(self, counts: Counts, share: float) -> tuple[int, float]:
        """Return the fine cell of a quantile, and how far into it the quantile is."""
        below = np.append(0.0, np.cumsum(counts[self.bins] * self.shares))
        # Noise can make counts negative: shares below a number never fall.
        below = np.maximum.accumulate(below)
        rank = share * below[-1]
        cell = int(np.searchsorted(below[1:-1], rank, side="left"))
        n_in_cell = below[cell + 1] - below[cell]
        position = (rank - below[cell]) / n_in_cell if n_in_cell > 0 else 0.0
        return cell, min(max(0.0, position), 1.0)

    def _quantile(self, counts: Counts, share: float) -> float:
        """Return the number below which a share of the records is."""
        cell, position = self._cell_of(counts, share)
        lowest = self.lowest[cell]
        return float(lowest + position * (self.highest[cell] - lowest))


def _as_floats(values: NDArray[Any]) -> Counts:
    """Return numbers as floats, and dates as days from 1970 on."""
    if values.dtype.kind == "M":
        microseconds = values.astype("datetime64[us]").astype(np.int64)
        return np.asarray(microseconds / _MICROSECONDS_OF_DAY)
    return values.astype(float)
