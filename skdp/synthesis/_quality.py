"""How far a fitted model is from its own noisy counts, by marginals and by numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skdp.base import MOST_WRONG, NORMAL_RANGE, QUANTILES, REACH
from skdp.domain import Interval
from skdp.synthesis._fair_rows import Fair, parse_fair
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import (
    Clique,
    Groups,
    Marginal,
    group,
    mean_counts,
    merge,
    spread,
)
from skdp.synthesis.selection import (
    MEAN_ABSOLUTE,
    FineCounts,
    IndependentColumns,
    Score,
    covariance_of_cells,
    with_counts_of_bins,
)
from skdp.synthesis.tables import cells_within, ends_of
from skdp.tables import add_dates, frame_like

Counts = NDArray[np.float64]

_LARGEST_MISFIT = 2.0
"""Of an error relative to the noise: what is above, noise does not explain.

The mean absolute noise of k counts has a standard deviation of .76 / sqrt(k) of its mean:
for 4 counts, twice the mean is 2.6 of these above it. Models are nearer to their counts
than the truth is: of 360 columns and pairs of 60 models of 2 or 3 values a column, whose
pairs were all measured, 99 % were below 1.31, and the largest was 1.97.
"""

_REACH_BELOW = NormalDist().inv_cdf(0.95)
"""Standard errors that the number of rows may be below its estimate, in 95 % of all fits.

Of 20 to 60 rows at epsilon .1, an estimate is often twice the number or more, and noise
divided by it looks small then."""

_ROUNDING = 1e-12
"""Of the largest number: deviations that are rounding."""

_NARROWEST = 2.0**-20
"""Of the whole interval: the width of a cell of a single number, the narrowest there is."""

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


def changes_of_rows(synthesizer: DPMarginalSynthesizer) -> list[str]:
    """Say which pairs of the model rows do not have, by choice."""
    fair = synthesizer.fair_
    if fair is None:
        return []
    return [f"{_change_of(fair)}; figures are of the model before"]


def changes_by_fair(fair: Any, names: Sequence[Any]) -> list[str]:
    """Say which pairs synthetic rows do not have, by choice: `fair` is that of a synthesizer."""
    if fair is None:
        return []
    parsed = parse_fair(fair)
    columns = [parsed.group, parsed.label, *parsed.conditions]
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise ValueError(
            f"fair must name columns of the tables, got {unknown}; they have {list(names)}"
        )
    return [_change_of(parsed)]


def _change_of(fair: Fair) -> str:
    return (
        f"{fair.group} × {fair.label} in rows, changed by choice: {fair}, which moves its "
        "other pairs too"
    )


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
        estimate = mean_counts(marginals, clique)
        if estimate is not None:
            return cls(*estimate, groups=(None,) * len(clique))
        # No marginal counts each cell apart: the most cells tell the most.
        best = max(marginals, key=lambda marginal: marginal.counts.size)
        groups = tuple(best.groups_of(column) for column in clique)
        alone = Marginal(best.clique, best.counts, best.std_error)
        estimate = mean_counts([alone], clique)
        assert estimate is not None
        return cls(*estimate, groups=groups)


def _fewest_rows(synthesizer: DPMarginalSynthesizer) -> float:
    """Return the number of rows that there are at least, in 95 % of all fits."""
    noise = _REACH_BELOW * synthesizer.n_rows_std_error_
    return max(1.0, synthesizer.n_rows_ - noise)


def _compare_measured(
    synthesizer: DPMarginalSynthesizer, clique: Clique, marginals: Sequence[Marginal]
) -> dict[str, Any]:
    n_rows = synthesizer.n_rows_
    estimate = _Estimate.of(marginals, clique)
    shares = synthesizer.model_.marginal(clique)
    grouped = group(shares, estimate.groups)
    error = float(np.abs(estimate.counts / n_rows - grouped).sum() / 2)
    # Noise alone moves each count by this much on average.
    noise_of_counts = MEAN_ABSOLUTE * estimate.std_error * estimate.counts.size / 2
    noise = noise_of_counts / _fewest_rows(synthesizer)
    # The error is of as many rows as there seem to be, and so is what noise explains.
    is_explained = error <= _LARGEST_MISFIT * noise_of_counts / n_rows
    # Records of values that were counted together may all have one of them.
    of_others = spread(grouped, estimate.groups) - shares
    is_uncertain = n_rows * (shares - of_others) <= estimate.std_error
    uncertain = float(shares[is_uncertain].sum())
    return {
        "n_cells": shares.size,
        "n_uncertain": int(is_uncertain.sum()),
        # Noisy counts can be further from the model than any distribution.
        "error": min(1.0, error),
        "noise": min(1.0, noise),
        "uncertain": uncertain,
        "measured": True,
        "supported": is_explained and max(uncertain, noise, error) <= MOST_WRONG,
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
    figures["noise"] = min(1.0, noise / (2 * _fewest_rows(synthesizer)))
    # The model's table of the pair is only computed where the score says anything.
    if not independent.is_chance(clique, score):
        shares = synthesizer.model_.marginal(clique)
        product = np.multiply.outer(shares.sum(axis=1), shares.sum(axis=0))
        dependence = float(np.abs(shares - product).sum() / 2)
        distance = abs(score.noisy / (2 * n_rows) - dependence)
        figures["error"] = min(1.0, distance)
    return figures


def number_quality(synthesizer: DPMarginalSynthesizer) -> Any:
    """Compare statistics of numbers by the model with those of noisy counts."""
    check_is_fitted(synthesizer)
    domain = synthesizer.domain_
    marginals = merge(synthesizer.marginals_)
    rows: list[dict[str, Any]] = []
    dates = []
    for column, name in enumerate(domain.columns):
        interval = domain[name]
        is_derived = name in synthesizer._relations.derived
        if is_derived or not isinstance(interval, Interval):
            continue
        estimate = mean_counts(marginals, (column,))
        if estimate is None:
            continue
        if interval.dtype.kind == "M":
            dates.append(name)
        numbers = _Numbers.of(synthesizer, column, interval, *estimate)
        for figures in numbers.compare():
            rows.append({"column": name} | figures)
    if not rows:
        return None
    table = pd.DataFrame(rows)
    # The deviation of dates is a number of days.
    is_date = table["column"].isin(dates) & (table["statistic"] != "deviation")
    add_dates(table, _Statistic._fields[1:], is_date.to_list())
    return frame_like(table, synthesizer._template.native)


class _Statistic(NamedTuple):
    """A statistic by noisy counts and by the model, and what noise makes of it."""

    statistic: str
    reference: float
    synthetic: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Where the numbers of a column are, by noisy counts and by the model."""

    # In fine cells, which are the bins themselves where nothing is known within these.
    lowest: Counts
    highest: Counts
    """The ends of what is drawn in each cell."""
    fine: FineCounts
    """The unbiased counts of the cells."""
    model: Counts
    """The counts of the cells in rows."""
    is_measured_within: bool

    @classmethod
    def of(
        cls,
        synthesizer: DPMarginalSynthesizer,
        column: int,
        interval: Interval,
        counts: Counts,
        std_error: float,
    ) -> _Numbers:
        name = synthesizer.domain_.columns[column]
        shapes = synthesizer._shapes
        shape = None if shapes is None else shapes.columns.get(name)
        grid = interval if shape is None else shape.grid
        edges = _as_floats(np.array(grid.edges, grid.dtype))
        bin_edges = _as_floats(np.array(interval.edges, interval.dtype))
        bins = np.searchsorted(bin_edges, edges[:-1], side="right") - 1
        # Missing is counted behind the bins.
        n_bins = bin_edges.size - 1
        counts = counts[:n_bins]
        by_model = synthesizer.n_rows_ * synthesizer.model_.marginal([column])[:n_bins]
        weights = np.ones(bins.size)
        fine = FineCounts(counts, std_error**2 * np.eye(n_bins), std_error, 0.0)
        if shape is not None:
            weights = np.diff(shape.below)
            covariance = covariance_of_cells(bins.size + interval.missing)
            covariance = covariance[: bins.size, : bins.size] * shape.std_error**2
            fine = FineCounts(shape.counts, covariance, shape.std_error, 0.0)
            # Private bins were counted by these cells: they know no more.
            if synthesizer.bins != "private":
                fine = with_counts_of_bins(fine, bins, counts, std_error)
        totals = np.bincount(bins, weights)[bins]
        n_cells = np.bincount(bins)[bins]
        shares = np.divide(weights, totals, out=1 / n_cells, where=totals > 0)
        lowest, highest = map(_as_floats, ends_of(grid))
        return cls(
            lowest,
            highest,
            fine,
            by_model[bins] * shares,
            shape is not None or cells_within(interval) is interval,
        )

    def compare(self) -> list[dict[str, Any]]:
        """Return the figures of the mean, of the deviation and of quantiles."""
        # In a unit of the size of the numbers: otherwise squares would overflow. It is
        # a power of two, which changes no digit.
        largest = max(abs(self.lowest[0]), abs(self.highest[-1]))
        exponent = math.frexp(largest)[1]
        lowest, highest = np.ldexp((self.lowest, self.highest), -exponent)
        rows = replace(self, lowest=lowest, highest=highest)._compare()
        for figures in rows:
            for name in ("reference", "synthetic", "lower", "upper", "scale"):
                figures[name] = math.ldexp(figures[name], exponent)
        return rows

    def _compare(self) -> list[dict[str, Any]]:
        mean = self._mean()
        deviation = self._deviation(mean)
        quantiles = [self._quantile(share) for share in QUANTILES]
        scale = self._scale(quantiles, deviation)
        rows = []
        for statistic in (mean, deviation, *quantiles):
            figures: dict[str, Any] = statistic._asdict()
            figures["scale"] = scale
            figures["known"] = statistic.upper - statistic.lower <= scale
            figures["measured_within"] = self.is_measured_within
            rows.append(figures)
        return rows

    def _mean(self) -> _Statistic:
        middles = (self.lowest + self.highest) / 2
        counts = self.fine.counts
        total = max(1.0, float(counts.sum()))
        mean = float(counts @ middles) / total
        reach = self._reach_of(middles - mean) / total
        # Noise can make counts negative, and a mean impossible.
        ends = float(self.lowest[0]), float(self.highest[-1])
        reference = float(np.clip(mean, *ends))
        lower, upper = np.clip([reference - reach, reference + reach], *ends).tolist()
        synthetic = float(self.model @ middles / self.model.sum())
        return _Statistic("mean", reference, synthetic, lower, upper)

    def _deviation(self, mean: _Statistic) -> _Statistic:
        """Compare standard deviations."""
        middles = (self.lowest + self.highest) / 2
        # Numbers are even within cells.
        within = (self.highest - self.lowest) ** 2 / 12
        counts = self.fine.counts
        total = max(1.0, float(counts.sum()))
        squares = (middles - mean.reference) ** 2 + within
        variance = float(counts @ squares) / total
        reach = self._reach_of(squares - variance) / total
        # No numbers differ more than those of which half are at each end.
        largest = float(self.highest[-1] - self.lowest[0]) ** 2 / 4
        variance = float(np.clip(variance, 0, largest))
        variances = np.clip([variance, variance - reach, variance + reach], 0, largest)
        reference, lower, upper = np.sqrt(variances).tolist()
        of_model = (middles - mean.synthetic) ** 2 + within
        synthetic = math.sqrt(float(self.model @ of_model / self.model.sum()))
        return _Statistic("deviation", reference, synthetic, lower, upper)

    def _reach_of(self, weights: Counts) -> float:
        """Return how far noise moves a sum of weighted counts, in 95 % of all fits."""
        variance = float(weights @ self.fine.covariance @ weights)
        return REACH * math.sqrt(max(0.0, variance))

    def _quantile(self, share: float) -> _Statistic:
        """Compare quantiles."""
        reference = self._quantile_of(self.fine.counts, share)
        # The quantile may be anywhere in these cells.
        cells = self._cells_of_quantile(share)
        return _Statistic(
            f"quantile {share:g}",
            reference,
            self._quantile_of(self.model, share),
            min(reference, float(self.lowest[cells[0]])),
            max(reference, float(self.highest[cells[-1]])),
        )

    def _cells_of_quantile(self, share: float) -> NDArray[np.intp]:
        """Return the cells that a quantile may be in, as far as noise lets one know."""
        # Of the records below each edge, less this share of all records: it is at most
        # 0 where the cell of the quantile starts, and at least 0 where that cell ends.
        below = np.append(0.0, np.cumsum(self.fine.counts))
        excess = below - share * below[-1]
        # Var(below - share * all) is
        # Var(below) - 2 * share * Cov(below, all) + share**2 * Var(all).
        covariance = np.zeros((below.size, below.size))
        covariance[1:, 1:] = self.fine.covariance.cumsum(axis=0).cumsum(axis=1)
        variances = covariance.diagonal() - 2 * share * covariance[-1]
        variances = variances + share**2 * covariance[-1, -1]
        reach = REACH * np.sqrt(np.maximum(variances, 0.0))
        may_start = excess[:-1] <= reach[:-1]
        may_end = excess[1:] >= -reach[1:]
        cells = np.flatnonzero(may_start & may_end)
        if cells.size == 0:
            return np.arange(self.fine.counts.size)
        return cells

    def _quantile_of(self, counts: Counts, share: float) -> float:
        """Return the number below which a share of the records is."""
        # Noise can make counts negative, but shares below a number never fall.
        below = isotonic_regression(np.append(0.0, np.cumsum(counts)), y_min=0.0)
        rank = share * below[-1]
        cell = int(np.searchsorted(below[1:-1], rank, side="left"))
        n_in_cell = below[cell + 1] - below[cell]
        position = (rank - below[cell]) / n_in_cell if n_in_cell > 0 else 0.0
        position = min(max(0.0, position), 1.0)
        lowest = float(self.lowest[cell])
        return lowest + position * float(self.highest[cell] - lowest)

    def _scale(self, quantiles: Sequence[_Statistic], deviation: _Statistic) -> float:
        """Return about the deviation of the numbers; 0 if they do not differ."""
        # Noise far from all records makes a deviation many times as large, and hardly
        # moves quantiles. Where these are equal, as of a column that is mostly 0, it is
        # that of the rows.
        scale = (quantiles[-1].reference - quantiles[0].reference) / NORMAL_RANGE
        if scale <= 0:
            scale = deviation.synthetic
        ends = np.array([self.lowest[0], self.highest[-1]])
        least = max(_ROUNDING * np.abs(ends).max(), _NARROWEST * np.ptp(ends))
        return 0.0 if scale <= least else scale


def _as_floats(values: NDArray[Any]) -> Counts:
    """Return numbers as floats, and dates as days from 1970 on."""
    if values.dtype.kind == "M":
        microseconds = values.astype("datetime64[us]").astype(np.int64)
        return np.asarray(microseconds / _MICROSECONDS_OF_DAY)
    return values.astype(float)
