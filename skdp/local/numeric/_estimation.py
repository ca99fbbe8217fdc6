"""From sums of reported numbers to means and distributions, with errors and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_confidence_level, one_thread
from skdp.domain import Interval
from skdp.local.numeric._share_bounds import (
    Z_95,
    Fold,
    GroupedReports,
    Knots,
    knots_of_lattice,
    knots_of_range,
    rounded,
)
from skdp.oracles import NumericMechanism, check_size
from skdp.oracles.numeric import bin_positions, estimate_frequencies

# A field is a NumberField, whose module imports this one.

_BINS = 32
_CELLS = 512
"""About the number of bins that are estimated, and merged in the end: smoothing must not reach far."""
_FEW = 10
"""The number of reports below which a half says next to nothing: weights are then chosen for values anywhere."""
_WHOLE = 1e-9
"""The relative error of floats up to which a quotient is a whole number."""


def _reach(confidence_level: float) -> float:
    return -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2)


def estimate_mean(
    field: Any, counts: NDArray[np.int64], confidence_level: float
) -> pd.DataFrame:
    """Estimate the mean of a column from the records that report it."""
    reach, steps = _reach(confidence_level), field.mechanism.steps
    low, high = field.bounds
    n = int(counts.sum())
    mean, std_error, lower, upper = np.nan, np.inf, -np.inf, np.inf
    if n > 0:
        mean = counts @ field.numbers / n
        variances = field.mechanism.variances(np.arange(steps + 1))
        scale = ((high - low) / steps) ** 2
        # Of few reports, the mechanism bounds the variance: from below, and that of a
        # single one from above.
        variance = variances.max() * scale
        if n > 1:
            spread = counts @ (field.numbers - mean) ** 2 / (n - 1)
            variance = max(variances.min() * scale, spread)
        std_error = np.sqrt(variance / n)
        lower = mean - reach * std_error
        upper = mean + reach * std_error
    index = pd.Index(field.columns, name="column", tupleize_cols=False)
    row = {"mean": mean, "std_error": std_error, "lower": lower, "upper": upper}
    return pd.DataFrame(row, index=index)


@dataclass(frozen=True)
class DistributionOptions:
    """The parameters of `estimate_distribution`."""

    n_bins: int | None = None
    spacing: Any = None
    smooth: bool = True
    confidence_level: float = 0.95


def estimate_distributions(
    fields: Sequence[Any],
    counts_of: Sequence[NDArray[np.int64]],
    options: DistributionOptions,
) -> pd.DataFrame:
    """Estimate the distribution of each column over bins of equal width."""
    mechanism = fields[0].mechanism
    steps = mechanism.steps
    reach = _reach(options.confidence_level)
    default = min(_BINS, steps)
    bins = check_size(
        default if options.n_bins is None else options.n_bins,
        least=1,
        most=steps,
        name="n_bins",
    )
    names = tuple(field.name for field in fields)
    lattices = _lattice_sizes(
        options.spacing, names, [field.bounds for field in fields], steps
    )
    tables = []
    for field, counts, lattice in zip(fields, counts_of, lattices, strict=True):
        interval = Interval(*field.bounds, bins=bins)
        table = pd.DataFrame(
            {"left": interval.edges[:-1], "right": interval.edges[1:]},
            index=pd.Index(interval.labels, name=field.name),
        )
        if counts.any():
            column = _Column.of(mechanism, bins, lattice)
            with one_thread():
                shares, ends = column.estimate(counts, field.places, options.smooth)
        else:  # no record reports it
            shares = np.full(bins, np.nan)
            ends = np.tile([0.0, np.inf, 1.0, np.inf], (bins, 1))
        lower_95, upper_95 = _limits(ends, Z_95)
        # The share may be near an end of its interval. The further end is a limit of
        # its error.
        furthest = np.maximum(shares - lower_95, upper_95 - shares)
        table["frequency"] = shares
        table["std_error"] = np.where(np.isnan(shares), np.inf, furthest / Z_95)
        table["lower"], table["upper"] = _limits(ends, reach)
        tables.append(table)
    return (
        tables[0]
        if len(tables) == 1
        else pd.concat(tables, keys=names, names=["column", "bin"])
    )


@dataclass(frozen=True)
class _Column:
    """The values that a column may have, for estimates of the shares of its bins."""

    mechanism: NumericMechanism
    bins: int
    knots: Knots
    is_lattice: bool

    @classmethod
    def of(
        cls, mechanism: NumericMechanism, bins: int, n_values: int | None
    ) -> _Column:
        steps = mechanism.steps
        knots = (
            knots_of_range(steps, bins)
            if n_values is None
            else knots_of_lattice(steps, bins, n_values)
        )
        return cls(mechanism, bins, knots, n_values is not None)

    def estimate(
        self, counts: NDArray[np.int64], places: NDArray[np.intp], smooth: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the share of each bin, and four numbers for its interval, of shape (n_bins, 4)."""
        # The lower end without its error, the standard error of this end, and the same
        # of the upper end.
        smoothed, model = self._fit(counts, places)
        reports = GroupedReports.of(self.mechanism, self.knots, places)
        folds = self._folds(reports, counts, places)
        ends = np.empty((self.bins, 4))
        for place in range(self.bins):
            touches, is_inside = self.knots.touches[place], self.knots.inside[place]
            highest, highest_error = reports.bound(folds, touches.astype(float))
            lowest, lowest_error = reports.bound(folds, -is_inside.astype(float))
            ends[place] = -lowest, lowest_error, highest, highest_error
        if not self.is_lattice:
            if smooth:
                return _nearest_shares(smoothed, *_limits(ends, Z_95)), ends
            channel = _merge(
                self.mechanism.spread(self._cells(self.bins)), places, len(counts)
            )
            return estimate_frequencies(channel, counts, smooth=False), ends
        channel = self._lattice_channel(counts, places)
        likeliest = estimate_frequencies(channel, counts, smooth=False)
        if not smooth:
            return self._shares_of_bins(likeliest), ends
        if _is_too_smooth(model, likeliest, channel, counts):
            smoothed = self._shares_of_bins(likeliest)
        return _nearest_shares(smoothed, *_limits(ends, Z_95)), ends

    def _folds(
        self,
        reports: GroupedReports,
        counts: NDArray[np.int64],
        places: NDArray[np.intp],
    ) -> tuple[Fold, ...]:
        """Return parts of the reports, each with a model of other reports."""
        # The same halves of the same reports each time, so that estimates are
        # repeatable.
        half = np.random.default_rng(0).binomial(counts, 0.5)
        if min(half.sum(), (counts - half).sum()) < _FEW:
            n_knots = len(self.knots.positions)
            anywhere = np.full(n_knots, 1 / n_knots)
            return (reports.fold(anywhere, counts),)
        folds = []
        for part in (half, counts - half):
            _, model = self._fit(counts - part, places)
            folds.append(reports.fold(model, part))
        return tuple(folds)

    def _fit(
        self, counts: NDArray[np.int64], places: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smoothed shares of the bins, and the smoothed distribution over the knots."""
        if self.is_lattice:
            channel = self._lattice_channel(counts, places)
            frequencies = estimate_frequencies(channel, counts, smooth=True)
            return self._shares_of_bins(frequencies), frequencies
        n_cells = self.bins
        if self.bins > 1:
            n_cells = self.bins * max(1, min(_CELLS, self.mechanism.steps) // self.bins)
        channel = _merge(
            self.mechanism.spread(self._cells(n_cells)), places, len(counts)
        )
        frequencies = estimate_frequencies(channel, counts, smooth=True)
        cell_of_knot = np.floor(
            self.knots.positions * (n_cells / self.mechanism.steps)
        ).astype(int)
        model = frequencies[cell_of_knot.clip(max=n_cells - 1)]
        return frequencies.reshape(self.bins, -1).sum(axis=1), model / model.sum()

    def _lattice_channel(
        self, counts: NDArray[np.int64], places: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return the probability of each reported number given each value of a lattice."""
        values = rounded(self.knots.positions, self.mechanism.steps)
        return _merge(self.mechanism.spread(values), places, len(counts))

    def _cells(self, n_cells: int) -> NDArray[np.float64]:
        return bin_positions(self.mechanism.steps, n_cells)

    def _shares_of_bins(self, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up the shares of the values of a lattice."""
        shares: NDArray[np.float64] = self.knots.inside @ frequencies
        return shares


def _lattice_sizes(
    spacing: Any,
    names: tuple[Any, ...],
    bounds: Sequence[tuple[float, float]],
    steps: int,
) -> list[int | None]:
    """Return for each column the number of values that are multiples of the spacing; None where none is declared."""
    spacings = (
        spacing if isinstance(spacing, Mapping) else dict.fromkeys(names, spacing)
    )
    if unknown := [name for name in spacings if name not in names]:
        raise ValueError(
            f"spacing names columns that the reports do not have: {unknown}; they "
            f"have {list(names)}"
        )
    sizes: list[int | None] = []
    for name, (low, high) in zip(names, bounds, strict=True):
        step = spacings.get(name)
        if step is None:
            sizes.append(None)
            continue
        if not isinstance(step, Real) or isinstance(step, bool):
            raise TypeError(
                f"spacing of column {name!r} must be a number > 0, or None, got "
                f"{type(step).__name__}"
            )
        width = float(step)
        if not (np.isfinite(width) and width > 0):
            raise ValueError(
                f"spacing of column {name!r} must be a finite number > 0, got {step!r}"
            )
        n_gaps = (high - low) / width
        if (
            not 1 <= np.rint(n_gaps) <= steps
            or abs(n_gaps - np.rint(n_gaps)) > _WHOLE * n_gaps
        ):
            raise ValueError(
                f"spacing of column {name!r} must divide its bounds {low:g} to "
                f"{high:g} into at most grid_size={steps} "
                f"equal parts, got {step!r}"
            )
        sizes.append(int(np.rint(n_gaps)) + 1)
    return sizes


def _limits(
    ends: NDArray[np.float64], reach: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the limits of intervals that reach so many standard errors beyond their ends."""
    lowest, lowest_error, highest, highest_error = ends.T
    lower, upper = lowest - reach * lowest_error, highest + reach * highest_error
    return np.clip(lower, 0, 1), np.clip(upper, 0, 1)


def _is_too_smooth(
    smoothed: NDArray[np.float64],
    likeliest: NDArray[np.float64],
    channel: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> bool:
    """Tell whether the likeliest distribution is preferred to the smoothed one, which has no room for a spike."""
    # By Akaike's information criterion: if its log-likelihood is larger by more than
    # the number of its parameters. They are which values have a share, and the shares,
    # which add up to 1; less than a record is no share. The smoothed distribution
    # counts as one without parameters, so that smooth populations are estimated as
    # before.
    reported = counts > 0
    ratios = (likeliest @ channel)[reported] / (smoothed @ channel)[reported]
    gain = float(counts[reported] @ np.log(ratios))
    n_values = int((likeliest * counts.sum() >= 1).sum())
    return gain > 2 * n_values - 1


def _nearest_shares(
    shares: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the nearest shares between limits that add up to 1, or the same shares where there are none."""
    # Those of least squares: a constant is added, and what passes a limit is moved to
    # it.
    if (
        ((lower <= shares) & (shares <= upper)).all()
        or lower.sum() >= 1
        or upper.sum() <= 1
    ):
        return shares
    from scipy.optimize import brentq  # slow to import

    def excess(constant: float) -> float:
        return float(np.clip(shares + constant, lower, upper).sum()) - 1

    return np.clip(shares + brentq(excess, -1, 1), lower, upper)


def _merge(
    channel: NDArray[np.float64], places: NDArray[np.intp], n_values: int
) -> NDArray[np.float64]:
    """Add up the columns of reports that are the same number."""
    merged = np.zeros((n_values, len(channel)))
    np.add.at(merged, places, channel.T)
    return merged.T
