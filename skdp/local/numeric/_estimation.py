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
from skdp.oracles import NumericMechanism, check_size
from skdp.oracles.numeric import bin_positions, estimate_frequencies

# The protocol is a NumericProtocol, which imports this module.

_BINS = 32
_PARTS, _FINEST, _EXACT = 4, 64, 1e-6
"""Of the unbiased estimate: parts of a bin, parts of all bins, and the error of its equations."""
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
        # Of few reports, the mechanism bounds the variance: from below, and that of a single one from above.
        variance = max(least, counts @ (values - mean) ** 2 / (n - 1)) if n > 1 else most
        std_error = np.sqrt(variance / n)
        rows.append((mean, std_error, mean - reach * std_error, mean + reach * std_error))
    index = pd.Index(protocol.columns, name="column", tupleize_cols=False)
    return pd.DataFrame(rows, columns=["mean", "std_error", "lower", "upper"], index=index)


def estimate_distributions(
    protocol: Any, tally: NumericTally, n_bins: int | None, smooth: bool, confidence_level: float
) -> pd.DataFrame:
    """Estimate the distribution of each column over bins of equal width."""
    reach = _reach(confidence_level)
    mechanism, steps = protocol.mechanism, protocol.mechanism.steps
    bins = check_size(min(_BINS, steps) if n_bins is None else n_bins, least=1, most=steps, name="n_bins")
    if mechanism.n_reports == 2 < bins + 1:
        raise ValueError(
            "two numbers are all that is reported, and they determine the mean but not the distribution; use "
            "mechanism='square_wave'"
        )
    fine = bins * max(1, min(_CELLS, steps) // bins) if bins > 1 else bins
    channel = mechanism.spread(bin_positions(steps, fine))
    unbiased, parts = _unbiased_estimator(mechanism, bins), []
    for name, counts, places, (low, high) in zip(
        protocol.columns, tally.counts, protocol.places_of, protocol.bounds, strict=True
    ):
        frequencies, centre, std_error = np.full((3, bins), np.nan)
        if counts.any():
            merged = _merge(channel, places, len(counts))
            smoothed = estimate_frequencies(merged, counts, smooth=True)
            frequencies = smoothed.reshape(bins, -1).sum(axis=1)
            # What the smoothed distribution leaves of the reports says, without bias, where it is wrong.
            estimator = None if unbiased is None else _mean_of_places(unbiased, places, len(counts))
            shares = counts / counts.sum()
            if estimator is not None:
                centre = frequencies + estimator @ (shares - smoothed @ merged)
                variance = estimator**2 @ shares - (estimator @ shares) ** 2
                std_error = np.sqrt(np.maximum(variance, 0) / counts.sum())
            if not smooth:
                coarse = _merge(mechanism.spread(bin_positions(steps, bins)), places, len(counts))
                frequencies = estimate_frequencies(coarse, counts, smooth=False)
        interval = Interval(low, high, bins=bins)
        table: dict[str, Any] = {
            "left": interval.edges[:-1],
            "right": interval.edges[1:],
            "frequency": frequencies,
            "std_error": np.nan_to_num(std_error, nan=np.inf),
            "lower": np.clip(np.nan_to_num(centre - reach * std_error), 0, 1),
            "upper": np.clip(np.nan_to_num(centre + reach * std_error, nan=1), 0, 1),
        }
        parts.append(pd.DataFrame(table, index=pd.Index(interval.labels, name=name)))
    return parts[0] if len(parts) == 1 else pd.concat(parts, keys=protocol.columns, names=["column", "bin"])


def _unbiased_estimator(mechanism: NumericMechanism, bins: int) -> NDArray[np.float64] | None:
    """Return, for each bin and report, numbers whose mean over the reports is the share of the bin."""
    # By least squares, for numbers that are uniform in each of several parts of a bin, or at an end of the range, where
    # what lies beyond is moved to. None if the mechanism has too few reports to distinguish these parts.
    steps = mechanism.steps
    parts = max(1, min(_PARTS, steps // bins, _FINEST // bins))
    ends = np.zeros((2, steps + 1))
    ends[0, 0] = ends[1, -1] = 1
    channel = mechanism.spread(np.vstack([bin_positions(steps, bins * parts), ends]))
    members = np.eye(bins)[:, np.append(np.repeat(np.arange(bins), parts), [0, bins - 1])]
    weights = 1 / np.sqrt(np.maximum(channel.mean(axis=0), 1e-300))
    estimator: NDArray[np.float64] = members @ np.linalg.pinv((channel * weights).T, rcond=1e-9) * weights
    return estimator if np.abs(estimator @ channel.T - members).max() < _EXACT else None


def _merge(channel: NDArray[np.float64], places: NDArray[np.intp], n_values: int) -> NDArray[np.float64]:
    """Add up the columns of reports that are the same number."""
    merged = np.zeros((n_values, len(channel)))
    np.add.at(merged, places, channel.T)
    return merged.T


def _mean_of_places(estimator: NDArray[np.float64], places: NDArray[np.intp], n_values: int) -> NDArray[np.float64]:
    """Return the columns of reports, the mean of those that are the same number."""
    return _merge(estimator, places, n_values) / np.maximum(np.bincount(places, minlength=n_values), 1)
