"""The distribution of a column of reported numbers over bins."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import one_thread
from skdp.domain import Interval
from skdp.oracles import NumericMechanism, bin_positions, estimate_frequencies

# About the number of cells that are estimated, and merged in the end: smoothing must
# not reach far.
MIN_CELLS = 512


def estimate_distribution(
    mechanism: NumericMechanism,
    places: NDArray[np.intp],
    counts: NDArray[np.int64],
    bins: Interval,
) -> pd.DataFrame:
    """Estimate the proportions of bins; `places` are the numbers of the reports, `counts` how often each came."""
    n_bins = len(bins.labels)
    frequencies = np.full(n_bins, np.nan)
    if counts.any():
        n_cells = n_bins
        if n_bins > 1:
            n_cells *= max(1, min(MIN_CELLS, mechanism.steps) // n_bins)
        with one_thread():
            of_reports = mechanism.spread(bin_positions(mechanism.steps, n_cells))
            # Reports that are the same number add up.
            channel = np.zeros((places.max() + 1, n_cells))
            np.add.at(channel, places, of_reports.T)
            cells = estimate_frequencies(channel.T, counts)
        frequencies = cells.reshape(n_bins, -1).sum(axis=1)
    columns = {
        "left": bins.edges[:-1],
        "right": bins.edges[1:],
        "frequency": frequencies,
    }
    return pd.DataFrame(columns, index=pd.Index(bins.labels))
