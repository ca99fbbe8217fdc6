"""From sums of reported numbers to means and distributions, with errors and intervals."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_confidence_level
from skdp.domain import Interval
from skdp.local._tallies import NumericTally
from skdp.oracles import check_size
from skdp.oracles.numeric import bin_positions, estimate_frequencies

# The protocol is a NumericProtocol, which imports this module.

_BINS = 32
_CELLS = 512
"""About the number of bins that are estimated, and merged in the end: smoothing must not reach far."""


def _reach(confidence_level: float) -> float:
    return -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2)


def estimate_means(protocol: Any, tally: NumericTally, confidence_level: float) -> pd.DataFrame:
    """Estimate the mean of each column from the records that report it."""
    reach, steps = _reach(confidence_level), protocol.mechanism.steps
    variances = protocol.mechanism.variances(np.arange(steps + 1))
    rows = []
    for counts, values, (low, high) in zip(tally.counts, protocol.values_of, protocol.bounds, strict=True):
        n = int(counts.sum())
        if n == 0:  # a column that no record reports
            rows.append((np.nan, np.inf, -np.inf, np.inf))
            continue
        mean = counts @ values / n
        least, most = np.array([variances.min(), variances.max()]) * ((high - low) / steps) ** 2
        # Reports that happen to agree, or a single one, do not say how much they vary: the mechanism does.
        variance = max(least, counts @ (values - mean) ** 2 / (n - 1)) if n > 1 else most
        std_error = np.sqrt(variance / n)
        rows.append((mean, std_error, mean - reach * std_error, mean + reach * std_error))
    index = pd.Index(protocol.columns, name="column", tupleize_cols=False)
    return pd.DataFrame(rows, columns=["mean", "std_error", "lower", "upper"], index=index)


def estimate_distributions(protocol: Any, tally: NumericTally, n_bins: int | None, smooth: bool) -> pd.DataFrame:
    """Estimate the distribution of each column over bins of equal width."""
    mechanism, steps = protocol.mechanism, protocol.mechanism.steps
    bins = check_size(min(_BINS, steps) if n_bins is None else n_bins, least=1, most=steps, name="n_bins")
    if mechanism.n_reports == 2 < bins + 1:
        raise ValueError(
            "two numbers are all that is reported, and they determine the mean but not the distribution; use "
            "mechanism='square_wave'"
        )
    cells = bins * max(1, min(_CELLS, steps) // bins) if smooth and bins > 1 else bins
    channel = mechanism.spread(bin_positions(steps, cells))
    parts = []
    for name, counts, places, (low, high) in zip(
        protocol.columns, tally.counts, protocol.places_of, protocol.bounds, strict=True
    ):
        frequencies = np.full(cells, np.nan)
        if counts.any():
            frequencies = estimate_frequencies(_merge(channel.T, places, len(counts)).T, counts, smooth=smooth)
        interval = Interval(low, high, bins=bins)
        table = {
            "left": interval.edges[:-1],
            "right": interval.edges[1:],
            "frequency": frequencies.reshape(bins, -1).sum(axis=1),
        }
        parts.append(pd.DataFrame(table, index=pd.Index(interval.labels, name=name)))
    return parts[0] if len(parts) == 1 else pd.concat(parts, keys=protocol.columns, names=["column", "bin"])


def _merge(table: NDArray[np.float64], places: NDArray[np.intp], n_values: int) -> NDArray[np.float64]:
    """Add up the rows of reports that are the same number."""
    merged = np.zeros((n_values, table.shape[1]))
    np.add.at(merged, places, table)
    return merged
